"""What an answer's own list of sources says about the numbers of its marks. Pure.

A model may number its sources anew: "It fell [1]." with "References: [1] b.txt" below
it, where the prompt shows ``b.txt`` under "[2]". Then the list says what "[1]" means.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ragmetrics_core.capture.answer_lists import (
    AROUND_NAME,
    FURTHER_READING,
    QUOTED,
    ListEntry,
    with_plain_lists,
)
from ragmetrics_core.capture.cited_sources import contexts_of_quotes
from ragmetrics_core.capture.closing_sources import closing_sources_in
from ragmetrics_core.capture.model_words import without_spans
from ragmetrics_core.capture.numbers_beside_names import (
    NamedNumber,
    numbers_beside_names,
    numbers_in_short_lines,
)
from ragmetrics_core.capture.other_lists import OtherListsInPrompts
from ragmetrics_core.capture.page_numbers import PAGE
from ragmetrics_core.capture.source_names import (
    FILE_OR_ADDRESS,
    PART_OF_NAME,
    SourceNames,
    add_context_indexes,
    is_file,
    is_mark_label,
    is_telling,
    stem_in_words,
)
from ragmetrics_core.data import Context
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import LINE, SOURCE_WORD
from ragmetrics_core.data.source_lists import source_lists_in

_FEWEST_WORDS_OF_A_QUOTE = 4
_BEFORE_NAME = lazy_pattern(
    r"(?:see|from|in|source|file|document|title|siehe|aus)\b[ \t:]*", re.IGNORECASE
)
_NUMBERED_SOURCE = lazy_pattern(
    rf"{SOURCE_WORD}[ \t#:]*(?P<number>\d{{1,4}})", re.IGNORECASE
)
_ADDRESS_WITHOUT_SCHEME = lazy_pattern(
    r"(?<![\w./:@\\-])(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,12}/(?=\S)"
)
_WORD_OF_TITLE = lazy_pattern(r"[^\W\d_]{4,}|(?<!\w)[A-Z]{2,3}(?!\w)")
_KEY_AND_NUMBER = lazy_pattern(r"[^\W\d][\w -]*:[ \t]*\d+")
_FENCED = lazy_pattern(r"```.*?```|~~~.*?~~~", re.DOTALL)


@dataclass(frozen=True)
class ShownInPrompts:
    """What a prompt showed, by which an entry can be understood.

    Args:
        contexts: The contexts.
        context_indexes_by_name: By each name of a context its indexes.
        context_indexes_by_number: All that each number of the prompt may mean.
        pages_by_context: By each context the pages of a document that it may be of;
            none if nobody tells.
        pages_shown_by_context: By each context the pages that the prompt itself shows
            beside it.
        lists: The lists in the prompt beside the labels of the contexts.
    """

    contexts: Sequence[Context]
    context_indexes_by_name: Mapping[str, tuple[int, ...]]
    context_indexes_by_number: Mapping[str, frozenset[int]]
    pages_by_context: Mapping[int, frozenset[str]]
    pages_shown_by_context: Mapping[int, frozenset[str]]
    lists: OtherListsInPrompts

    def context_indexes_of_number(self, number: str) -> frozenset[int]:
        """All contexts that a number of the prompt may mean; none for any other number."""
        return self.context_indexes_by_number.get(number, frozenset())

    @cached_property
    def names(self) -> SourceNames:
        """The names of the contexts, and the short forms of files."""
        return SourceNames.of(self.context_indexes_by_name)

    @cached_property
    def has_numbers(self) -> bool:
        """Whether the prompt gives any context a number."""
        return any(map(str.isdigit, self.context_indexes_by_number))

    @cached_property
    def context_indexes_by_stem(self) -> dict[str, frozenset[int]]:
        """The contexts by their titles, and by their files as titles: "annual report"."""
        context_indexes_by_stem: dict[str, frozenset[int]] = {}
        for name, context_indexes in self.context_indexes_by_name.items():
            stem = stem_in_words(name) if is_file(name) else name.lower()
            add_context_indexes(context_indexes_by_stem, stem, context_indexes)
        return context_indexes_by_stem

    @cached_property
    def names_by_context(self) -> dict[int, list[str]]:
        """The names of each context."""
        names_by_context: dict[int, list[str]] = {}
        for name, context_indexes in self.context_indexes_by_name.items():
            for index in context_indexes:
                names_by_context.setdefault(index, []).append(name)
        return names_by_context


@dataclass(frozen=True, slots=True)
class NumbersListedInAnswer:
    """The numbers of an answer that its own lists explain.

    Args:
        as_in_prompt: Numbers that mean what the prompt showed under them.
        context_indexes_by_number: For each number with a new meaning: the indexes of
            its contexts, several only if they share the name that the list gives.
        unclear: Numbers that do not mean what the prompt showed under them, and whose
            meaning is unknown.
    """

    as_in_prompt: frozenset[str] = frozenset()
    context_indexes_by_number: Mapping[str, tuple[int, ...]] | None = None
    unclear: frozenset[str] = frozenset()

    @property
    def differ_from_prompt(self) -> bool:
        """Whether the answer numbers its sources in another way than the prompt."""
        return bool(self.context_indexes_by_number or self.unclear)


def numbers_listed_in_answer(
    list_entries: Iterable[ListEntry],
    named_numbers: Iterable[NamedNumber],
    shown_in_prompts: ShownInPrompts,
) -> NumbersListedInAnswer:
    """Find out what an answer's numbers mean by its own lists of sources.

    The prompt shows "[1] a.txt" and "[2] b.txt". The entry "[2] b.txt" numbers as the
    prompt does, "[1] b.txt" gives 1 a new meaning, and "[1] z.txt" leaves 1 unclear. A
    number is unclear as well if two entries give it different meanings, or if a mere
    "1. b.txt" contradicts the prompt: it may count the sources in the order of citing.

    Args:
        list_entries: The entries of the lists.
        named_numbers: The numbers beside names elsewhere in the answer, each with the
            ``context_indexes`` of the contexts that have this name. "[1] is b.txt"
            leaves 1 unclear, unless a list says the same.
        shown_in_prompts: What the prompt showed.

    Returns:
        The numbers by what they mean. ``context_indexes_by_number`` may hold unclear
        numbers, too.
    """
    numbers = _NumbersBeingRead(shown_in_prompts)
    for list_entry in list_entries:
        numbers.add_entry(replace(list_entry, text=_with_schemes(list_entry.text)))
    for named in named_numbers:
        numbers.add_named(named)
    return numbers.result()


@dataclass(slots=True)
class _NumbersBeingRead:
    """What the numbers of an answer mean, as far as its lists were read.

    A number may stand in several of these: entries may contradict each other.

    Attributes:
        shown_in_prompts: What the prompt showed.
        as_in_prompt: The numbers that an entry or a name gives the prompt's meaning.
        context_indexes_by_number: For each number with a new meaning: the indexes of
            its contexts.
        unclear: The numbers whose meaning is unknown.
    """

    shown_in_prompts: ShownInPrompts
    as_in_prompt: set[str] = field(default_factory=set)
    context_indexes_by_number: dict[str, tuple[int, ...]] = field(default_factory=dict)
    unclear: set[str] = field(default_factory=set)

    def add_entry(self, list_entry: ListEntry) -> None:
        """Read what an entry of a list says of its number.

        Where the prompt shows "[1] a.txt" and "[2] b.txt", the entry "[2] b.txt" numbers
        as the prompt does, "[1] b.txt" gives 1 a new meaning, and "[1] z.txt" leaves 1
        unclear.
        """
        is_of_another_page = _names_another_page(list_entry, self.shown_in_prompts)
        if is_of_another_page or _has_another_number(list_entry, self.shown_in_prompts):
            self.unclear.add(list_entry.number)
        elif _agrees_with_prompt(list_entry, self.shown_in_prompts):
            self.as_in_prompt.add(list_entry.number)
        else:
            self._add_new_meaning(list_entry)

    def _add_new_meaning(self, list_entry: ListEntry) -> None:
        """Read an entry that does not give its number the prompt's meaning."""
        context_indexes = _contexts_surely_meant(list_entry, self.shown_in_prompts)
        if not context_indexes:
            self.unclear.add(list_entry.number)
            return
        earlier_context_indexes = self.context_indexes_by_number.setdefault(
            list_entry.number, context_indexes
        )
        if (
            earlier_context_indexes != context_indexes
        ):  # two entries contradict each other
            self.unclear.add(list_entry.number)

    def add_named(self, named: NamedNumber) -> None:
        """Read what a name beside a number says of it; the lists were read before."""
        in_prompt = self.shown_in_prompts.context_indexes_of_number(named.number)
        agrees_with_prompt = not named.context_indexes.isdisjoint(in_prompt)
        context_indexes_in_list = self.context_indexes_by_number.get(named.number, ())
        agrees_with_list = not named.context_indexes.isdisjoint(context_indexes_in_list)
        if agrees_with_prompt:
            self.as_in_prompt.add(named.number)
        elif not agrees_with_list:  # "[1] is b.txt", and no list says so
            self.unclear.add(named.number)

    def result(self) -> NumbersListedInAnswer:
        """Sum up what the numbers mean."""
        # one entry keeps the prompt's meaning of a number, another entry gives a new one
        contradicted = self.as_in_prompt & self.context_indexes_by_number.keys()
        unclear = self.unclear | contradicted
        return NumbersListedInAnswer(
            frozenset(self.as_in_prompt - unclear),
            self.context_indexes_by_number,
            frozenset(unclear),
        )


def _has_another_number(
    list_entry: ListEntry, shown_in_prompts: ShownInPrompts
) -> bool:
    """Whether a list of the prompt gives another number to what an entry names.

    Example: "[1] b.pdf", where the passages have no names, and the prompt has a list of
    its own, "[1] a.pdf", "[2] b.pdf". The answer may number its sources anew.
    """
    is_name_of_context = any(
        True for _ in _meanings_of_names(list_entry.text, shown_in_prompts.names)
    )
    if is_name_of_context or not list_entry.number.isdigit():
        return False
    listed = _meanings_of_names(
        list_entry.text, shown_in_prompts.lists.names_with_numbers
    )
    return any(int(list_entry.number) not in numbers for numbers in listed)


def _contexts_surely_meant(
    list_entry: ListEntry, shown_in_prompts: ShownInPrompts
) -> tuple[int, ...]:
    """Return the indexes of the contexts that an entry means instead of the prompt's.

    Several share the name of an entry of a field, as chunks of one file. () if it is not
    sure, as where the entry names no context, or where "[2] a.txt" below the answer may
    mean one of several.
    """
    # "1. b.txt", and the prompt shows another text as 1: this 1 may only count entries
    if (
        list_entry.has_item_number
        and list_entry.number in shown_in_prompts.context_indexes_by_number
    ):
        return ()
    # "[2] Bridges" may be a shorter form of the prompt's "[2] Bridges of Norwick"
    if _may_be_shortened(list_entry, shown_in_prompts):
        return ()
    context_indexes = _contexts_named(list_entry, shown_in_prompts)
    stands_beside_answer = list_entry.end == 0
    is_sure = len(context_indexes) == 1 or (
        stands_beside_answer
        and not any(map(is_mark_label, shown_in_prompts.context_indexes_by_number))
    )
    return context_indexes if is_sure else ()


def _may_be_shortened(list_entry: ListEntry, shown_in_prompts: ShownInPrompts) -> bool:
    """Whether an entry may be a shorter form of the name that the prompt gives its number.

    "[2] Bridges" may be so where the prompt shows "[1] Bridges" and "[2] Bridges of
    Norwick".
    """
    context_indexes_of_number = shown_in_prompts.context_indexes_of_number(
        list_entry.number
    )
    text = list_entry.text.strip(AROUND_NAME).lower()
    return any(
        text in name.lower()
        for index in context_indexes_of_number
        for name in shown_in_prompts.names_by_context.get(index, ())
    )


def _agrees_with_prompt(
    list_entry: ListEntry, shown_in_prompts: ShownInPrompts
) -> bool:
    """Whether an entry may name what the prompt shows under the entry's number.

    If the prompt shows "[1] a.txt", the entries "[1] a.txt" and "[1] Miller (2020)"
    agree with it, but "[1] z.txt" does not. Each name, number and quote in the entry
    must agree.
    """
    context_indexes_of_number = shown_in_prompts.context_indexes_of_number(
        list_entry.number
    )
    if _names_an_unknown_file(
        list_entry.text, context_indexes_of_number, shown_in_prompts
    ):
        return False
    meanings = [
        *_meanings_of_text(list_entry.text, shown_in_prompts),
        *_meanings_of_like_files(list_entry.text, shown_in_prompts),
    ]
    if not meanings and _has_another_title(
        list_entry.text, context_indexes_of_number, shown_in_prompts
    ):
        return False
    return all(
        context_indexes_of_number & context_indexes for context_indexes in meanings
    )


def _with_schemes(text: str) -> str:
    """Return a text with each address as "https://a.test/b", also one without scheme."""
    return _ADDRESS_WITHOUT_SCHEME.sub(r"https://\g<0>", text)


def _names_another_page(
    list_entry: ListEntry, shown_in_prompts: ShownInPrompts
) -> bool:
    """Whether an entry names a page, and the contexts that it means are of other pages.

    "[1] report.pdf, p. 33" does if the prompt only shows page 3 of "report.pdf".
    """
    page = PAGE.search(list_entry.text)
    if page is None:
        return False
    context_indexes = _only_contexts_named(list_entry.text, shown_in_prompts)
    context_indexes = context_indexes or shown_in_prompts.context_indexes_of_number(
        list_entry.number
    )
    pages = [
        shown_in_prompts.pages_by_context.get(index, frozenset())
        for index in context_indexes
    ]
    are_known = bool(pages) and all(pages)
    return are_known and not any(page[1] in pages_of for pages_of in pages)


def _has_another_title(
    title: str,
    context_indexes_of_number: frozenset[int],
    shown_in_prompts: ShownInPrompts,
) -> bool:
    """Whether an answer's list gives a number another title than the prompt surely does.

    The prompt shows "[1] HR Handbook" above a passage on paid leave. Below the answer

    - "[1] Bus prices" has another title.
    - "[1] The handbook" may be the same: it shares a word with "HR Handbook".
    - "[1] Paid leave" may be the same: both words stand in the passage.

    Args:
        title: What the answer's list says behind the number: "Bus prices".
        context_indexes_of_number: The contexts that the prompt shows under the number.
        shown_in_prompts: What the prompt showed.
    """
    words = _words_of_title(title)
    words_of_titles_shown: set[str] = set()
    words_of_passages: set[str] = set()
    for index in context_indexes_of_number:
        for title_shown in _titles_of_context(index, shown_in_prompts):
            words_of_titles_shown |= _words_of_title(title_shown)
        context = shown_in_prompts.contexts[index]
        words_of_passages |= _words_of_title(f"{context.text} {context.metadata}")
    if not words or not words_of_titles_shown:
        return False  # one of them has no title: nothing can be compared
    shares_a_word = not words.isdisjoint(words_of_titles_shown)
    may_describe_passage = words.issubset(words_of_passages)
    return not (shares_a_word or may_describe_passage)


def _titles_of_context(index: int, shown_in_prompts: ShownInPrompts) -> list[str]:
    """List the names of a context that are titles: no file, and no "reference_id: 1"."""
    return [
        name
        for name in shown_in_prompts.names_by_context.get(index, ())
        if not is_file(name) and not _KEY_AND_NUMBER.fullmatch(name)
    ]


def _words_of_title(text: str) -> set[str]:
    """Return the words of a text that tell a title: long ones, and names such as "HR"."""
    return {word.lower() for word in _WORD_OF_TITLE.findall(text)}


def _contexts_named(
    list_entry: ListEntry, shown_in_prompts: ShownInPrompts
) -> tuple[int, ...]:
    """Return the indexes of the contexts that all of an entry's text names.

    () if it names none, or a file like another context's file.
    """
    named_by_all = _only_contexts_named(list_entry.text, shown_in_prompts)
    for context_indexes in _meanings_of_like_files(list_entry.text, shown_in_prompts):
        if named_by_all.isdisjoint(context_indexes):
            return ()
    # "a.pdf, page 7" is one of several chunks of a.pdf, and nobody tells which; "a.pdf" may
    # be one of them where the prompt shows the page of each
    do_pages_tell = PAGE.search(list_entry.text) or all(
        shown_in_prompts.pages_shown_by_context.get(index) for index in named_by_all
    )
    if len(named_by_all) > 1 and do_pages_tell:
        return ()
    return tuple(sorted(named_by_all))


def _only_contexts_named(text: str, shown_in_prompts: ShownInPrompts) -> frozenset[int]:
    """Return the contexts that each name, number and quote in an entry may mean."""
    meanings = _meanings_of_text(text, shown_in_prompts)
    if not meanings:
        return frozenset()
    return _of_the_page_in(text, frozenset.intersection(*meanings), shown_in_prompts)


def _of_the_page_in(
    text: str, context_indexes: frozenset[int], shown_in_prompts: ShownInPrompts
) -> frozenset[int]:
    """Choose from some contexts the only one of the page that an entry names.

    Two chunks of report.pdf stand under "page 3" and "page 7": "report.pdf, page 7" names
    the second. All are returned if the prompt does not show the page of each.
    """
    page = PAGE.search(text)
    pages_shown = {
        index: shown_in_prompts.pages_shown_by_context.get(index, frozenset())
        for index in context_indexes
    }
    if page is None or not all(pages_shown.values()):
        return context_indexes
    of_page = frozenset(
        index for index, pages in pages_shown.items() if page[1] in pages
    )
    return of_page if len(of_page) == 1 else context_indexes


def _meanings_of_text(
    text: str, shown_in_prompts: ShownInPrompts
) -> list[frozenset[int]]:
    """List, for each name, number and quote in an entry, the contexts it may mean."""
    return [
        *_meanings_of_names(text, shown_in_prompts.names),
        *_meanings_of_numbers(text, shown_in_prompts),
        *_meanings_of_quotes(text, shown_in_prompts),
    ]


def _meanings_of_like_files(
    text: str, shown_in_prompts: ShownInPrompts
) -> list[frozenset[int]]:
    """List, for each file in an entry, the contexts that are named like it.

    "docs/big_map.pdf" is like "big-map.txt" and the title "Big map".
    """
    return [
        shown_in_prompts.context_indexes_by_stem[stem]
        for stem in _stems_of_files(text)
        if stem in shown_in_prompts.context_indexes_by_stem
    ]


def _meanings_of_names(text: str, names: SourceNames) -> Iterator[frozenset[int]]:
    """Yield, for each shown name that a text holds, the contexts with this name.

    The entry "report.pdf, page 3" names the contexts shown as "report.pdf". A name
    inside a longer one does not count: "Bridge Report" in "Old Bridge Report".
    """
    # "report.pdf" and "page 3"
    parts = {part.strip(AROUND_NAME).lower() for part in PART_OF_NAME.split(text)}
    whole = text.strip(AROUND_NAME).lower()
    parts |= {whole, _BEFORE_NAME.sub("", whole, count=1)}  # "see report.pdf"
    for _, found in names.found_in(text):
        # a name that is no common word may also stand inside of a part
        if found.name.lower() in parts or is_telling(found.name):
            yield found.context_indexes


def _meanings_of_numbers(
    text: str, shown_in_prompts: ShownInPrompts
) -> Iterator[frozenset[int]]:
    """Yield what an entry such as "Source 2, page 3" means by a number of the prompt."""
    first_part = PART_OF_NAME.split(text)[0].strip(AROUND_NAME)
    is_name = first_part in shown_in_prompts.context_indexes_by_name
    numbered = _NUMBERED_SOURCE.fullmatch(first_part)
    if numbered is not None and shown_in_prompts.has_numbers and not is_name:
        yield shown_in_prompts.context_indexes_by_number.get(
            str(int(numbered["number"])), frozenset()
        )


def _meanings_of_quotes(
    text: str, shown_in_prompts: ShownInPrompts
) -> Iterator[frozenset[int]]:
    """Yield the contexts that hold a quote in an entry.

    Example: the entry '[1] "The bridge fell in May 1874"' and the context with this
    sentence. A quote of few words may stand in a context by chance.
    """
    quotes = [text.strip(AROUND_NAME)]
    quotes += [found["words"] for found in QUOTED.finditer(text)]
    quotes = [
        quote
        for quote in dict.fromkeys(quotes)
        if len(quote.split()) >= _FEWEST_WORDS_OF_A_QUOTE
    ]
    if not quotes:
        return
    for quoted in contexts_of_quotes(quotes, shown_in_prompts.contexts):
        if quoted.holding_all:
            yield frozenset(quoted.holding_all)


def _names_an_unknown_file(
    text: str,
    context_indexes_of_number: frozenset[int],
    shown_in_prompts: ShownInPrompts,
) -> bool:
    """Whether an entry names files, and the prompt shows none of them.

    True for the entry "[1] z.pdf" if the prompt shows "[1] a.pdf". False if the prompt
    shows "[1]" without a file: then "z.pdf" may be the file of this context.

    Args:
        text: The entry without its number, such as "z.pdf".
        context_indexes_of_number: The contexts that the prompt shows under the number.
        shown_in_prompts: What the prompt showed.
    """
    number_has_file = any(
        is_file(name)
        for index in context_indexes_of_number
        for name in shown_in_prompts.names_by_context.get(index, ())
    )
    stems = _stems_of_files(text)
    if not number_has_file or not stems:
        return False
    return shown_in_prompts.context_indexes_by_stem.keys().isdisjoint(stems)


def _stems_of_files(text: str) -> list[str]:
    """List the files and addresses in a text as titles: "big map" of "*big_map.pdf*"."""
    files = [name.strip(AROUND_NAME) for name in FILE_OR_ADDRESS.findall(text)]
    return [stem_in_words(name) for name in files]


def lists_other_sources(
    answer: str,
    context_indexes_by_name: Mapping[str, Collection[int]],
    cited: Collection[int],
) -> bool:
    """Whether an answer's own lists name other sources than its marks cite.

    The prompt shows "[1] a.pdf" and "[2] b.pdf". The answer "It fell [1]." with
    "Sources: b.pdf" lists a source that it does not cite, and not the one that it
    cites: it may number its sources anew.

    Args:
        answer: The answer.
        context_indexes_by_name: By each name of a context the indexes of its contexts.
        cited: The indexes of the contexts that its marks cite.
    """
    listed = _contexts_in_lists(answer, SourceNames.of(context_indexes_by_name))
    lists_one_that_is_not_cited = any(map(frozenset(cited).isdisjoint, listed))
    all_listed = frozenset().union(*listed)
    contexts_with_names = frozenset().union(*context_indexes_by_name.values())
    not_listed = contexts_with_names.intersection(cited) - all_listed
    return lists_one_that_is_not_cited and bool(not_listed)


def _contexts_in_lists(answer: str, names: SourceNames) -> list[frozenset[int]]:
    """List, for each name in the lists of sources of an answer, the contexts it may mean.

    "Sources: a.pdf" names the contexts that are shown as "a.pdf". What is listed for
    further reading was not used.
    """
    text = with_plain_lists(answer)
    spans = source_lists_in(text)  # "References:" with the entries below it
    closing = closing_sources_in(text)  # a last line such as "SOURCES: a.txt, [2]"
    if closing is not None:
        spans.append((closing.start, closing.end))
    context_indexes_of_names: list[frozenset[int]] = []
    for start, end in spans:
        if FURTHER_READING.match(text, start, end) is None:
            for line in LINE.finditer(text, start, end):
                listed = line[0].partition(":")[2] or line[0]  # after "Sources:"
                context_indexes_of_names += _meanings_of_names(listed, names)
    return context_indexes_of_names


def numbers_named_in_sentences(
    answer: str, names: SourceNames, end_of_last_mark: int
) -> Iterator[NamedNumber]:
    """Yield the numbers to which an answer gives a name, in its sentences or lists.

    Example: "It fell [1], where [1] is b.pdf." A mere "1. b.pdf" counts only after the
    last mark: before it, it may be a step or a rank.

    Args:
        answer: The answer.
        names: The names of the contexts.
        end_of_last_mark: Where its last mark outside of lists ends; 0 without marks.
    """
    text = with_plain_lists(answer)  # without tags of HTML
    last_words = text[end_of_last_mark:]
    # what the answer shows as code before its last mark is what it speaks of
    code = [match.span() for match in _FENCED.finditer(text, 0, end_of_last_mark)]
    yield from numbers_beside_names(without_spans(text, code), names)
    for named in numbers_in_short_lines(last_words, names):
        yield replace(named, start=named.start + end_of_last_mark)
