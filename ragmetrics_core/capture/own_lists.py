"""What an answer's own list of sources says about the numbers of its marks. Pure.

A model may number its sources anew: "It fell [1]." with "References: [1] b.txt" below
it, where the prompt shows ``b.txt`` under "[2]". Then the list says what "[1]" means.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ragmetrics_core.capture.cited_sources import contexts_of_quotes
from ragmetrics_core.capture.closing_sources import closing_sources_in
from ragmetrics_core.capture.numbers_beside_names import NamedNumber
from ragmetrics_core.capture.source_names import (
    FILE_OR_ADDRESS,
    LABEL_IN_BRACKETS,
    LETTERED_NUMBER,
    PART_OF_NAME,
    SourceNames,
    add_indexes,
    is_file,
    is_telling,
    mark_label_of,
    stem_of,
)
from ragmetrics_core.data import Context
from ragmetrics_core.data.mark_patterns import (
    LINE,
    PARAGRAPH_BREAK,
    SOURCE_WORD,
    Span,
)
from ragmetrics_core.data.marks import marks_in
from ragmetrics_core.data.source_lists import is_reference, source_lists_in

_FEWEST_WORDS_OF_A_QUOTE = 4
# "[1] report.pdf", "- 1. report.pdf", "**[1]**: report.pdf", "| 1 | report.pdf |",
# "Source 1: report.pdf", and all of them after a picture
_ENTRY = re.compile(
    r"[ \t]*+(?:[-*•>|][ \t]*+|[^\w\s\[\]()【】]{1,3}[ \t]++)?[*_]{0,2}"
    rf"(?:[\[【(]\^?(?P<in_brackets>{LABEL_IN_BRACKETS})[\]】)]"
    rf"|(?i:{SOURCE_WORD})[ \t]*\#?(?P<behind_word>\d{{1,4}})(?=[ \t]*[:=–—-])"
    r"|(?P<bare>\d{1,4})(?=[.):|]|[ \t]+\|)"
    rf"|(?P<lettered>{LETTERED_NUMBER})(?=[):|=]|\.[ \t]|[ \t]+[|=–—-]))"
    r"[*_]{0,2}[ \t]*+[.):|=–—-]{0,2}[ \t]*+(?P<text>\S.*)"
)
# "report.pdf [1]", "report.pdf (1)"
_ENTRY_WITH_NUMBER_LAST = re.compile(
    r"[ \t]*+(?:[-*•>][ \t]*+)?(?P<text>[^\s\[].*)"
    r"(?:\[(?P<number>"
    rf"{LABEL_IN_BRACKETS}"
    r")\]|\((?P<in_round_brackets>\d{1,3})\))[ \t.]*+"
)
_TAG = re.compile(
    r"<(?P<name>/?(?:[aibpsu]|em|strong|su[bp]|li|[ou]l|details|summary|[bh]r|cite|code|span"
    r"|div|small|t[dhr]|table|tbody|thead|h[1-6]|mark|section))(?:[ \t][^<>\n]{0,200})?/?>",
    re.IGNORECASE,
)
_FURTHER_READING = re.compile(r"\W*further reading", re.IGNORECASE)
_LINK = re.compile(r"\[(?!\d+\])(?P<words>[^\[\]\n]{1,200})\]\([^()\s]{1,500}\)")
_BEFORE_NAME = re.compile(
    r"(?:see|from|in|source|file|document|title|siehe|aus)\b[ \t:]*", re.IGNORECASE
)
_SEE_ALSO = re.compile(r"\((?:see|cf|compare|siehe|vgl)\b[^()\n]*\)", re.IGNORECASE)
# the entries of "Sources: [1] a.pdf, [2] b.pdf"
_ENTRY_IN_A_LINE = re.compile(
    rf"\[(?P<number>{LABEL_IN_BRACKETS})\][:.]?(?P<text>[^\[\]\n]+)"
)
_NUMBER_IN_BRACKETS = re.compile(rf"\[({LABEL_IN_BRACKETS})\]")
# "[1], b.pdf [2]" after "Sources: a.pdf", or "[1] b.pdf [2]"
_NUMBERS_STAND_LAST = re.compile(
    rf"\[{LABEL_IN_BRACKETS}\]"
    rf"(?:[ \t]*+[,;]|[^\n]*\[{LABEL_IN_BRACKETS}\][ \t.]*+\Z)"
)
_WORD_CHARACTER = re.compile(r"\w")
_COLON_OR_BRACKET = re.compile(r"[:\[]")
_QUOTED = re.compile(r"[\"“„«](?P<words>[^\"“”„«»\n]+)[\"”“»]")
_AROUND_NAME = " \t\"'“”„‘’`*_<>.()=→"
_NUMBERED_SOURCE = re.compile(
    rf"{SOURCE_WORD}[ \t#:]*(?P<number>\d{{1,4}})", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ListEntry:
    """An entry of a list of sources, such as ``[1] report.pdf``.

    Args:
        number: The number that it explains; "" if it explains none, as the 1 of
            "Further reading: 1. a.pdf".
        text: What it says of this number.
        start: Where it begins in the answer; 0 if it stands beside the answer.
        end: Where it ends there.
        may_count: Whether the number may only count the entries, as in "1. a.pdf": a
            model may list its sources in the order in which it cited them.
    """

    number: str
    text: str
    start: int = 0
    end: int = 0
    may_count: bool = False


def entries_of_own_lists(
    answer: str, lettered_labels: Collection[str] = ()
) -> list[ListEntry]:
    """List the entries of the lists of sources in an answer.

    Args:
        answer: The answer.
        lettered_labels: The labels with letters that its marks name, such as "S1".
    """
    text = with_plain_lists(answer)
    entries: list[ListEntry] = []
    for start, end in [
        *source_lists_in(text),
        *_lists_at_the_end(text, lettered_labels),
    ]:
        is_for_reading = _FURTHER_READING.match(text, start, end) is not None
        for entry in _entries_from(text, start, end):
            # "Further reading:" and "1. a.pdf": the 1 is that of no mark
            explains_none = is_for_reading and entry.may_count
            entries.append(replace(entry, number="") if explains_none else entry)
    labels = {"", *lettered_labels}
    return [
        entry
        for entry in dict.fromkeys(entries)
        if entry.number.isdigit() or entry.number in labels
    ]


def contexts_in_lists(answer: str, names: SourceNames) -> list[frozenset[int]]:
    """List, for each name in the lists of sources of an answer, the contexts it may mean.

    "Sources: a.pdf" names the contexts that are shown as "a.pdf". What is listed for
    further reading was not used.
    """
    text = with_plain_lists(answer)
    spans = source_lists_in(text)  # "References:" with the entries below it
    closing = closing_sources_in(text)  # a last line such as "SOURCES: a.txt, [2]"
    if closing is not None:
        spans.append((closing.start, closing.end))
    indexes_of_names: list[frozenset[int]] = []
    for start, end in spans:
        if _FURTHER_READING.match(text, start, end) is None:
            for line in LINE.finditer(text, start, end):
                listed = line[0].partition(":")[2] or line[0]  # after "Sources:"
                indexes_of_names += _meanings_of_names(listed, names)
    return indexes_of_names


def with_plain_lists(answer: str) -> str:
    """Return an answer without tags of HTML; each character keeps its place.

    "<ol><li>a.pdf</li></ol>" becomes the line "1. a.pdf" between blanks.
    """
    item_numbers: list[int] = []  # the last number of each "<ol>" that is open

    def plain(tag: re.Match[str]) -> str:
        """Replace a tag by its item's number or a line break, at equal length.

        Blanks fill it up, so that all offsets stay. Example: "    " for "<ol>"; a line
        break, "1." and a blank for its first "<li>".
        """
        name = tag["name"].lower()
        written = ""
        if name == "ol":
            item_numbers.append(0)
        elif name == "/ol":
            item_numbers[-1:] = []
        elif name == "li" and item_numbers:
            item_numbers[-1] += 1
            written = f"\n{item_numbers[-1]}."
        elif name in ("li", "tr", "br", "p"):
            written = "\n"
        return written.ljust(len(tag[0]))[: len(tag[0])]

    return _TAG.sub(plain, answer)


def _entries_of_line(line: str, start: int) -> Iterator[ListEntry]:
    """Yield the numbered sources in a line that begins at an index of the answer."""
    end = start + len(line)
    # "[2] [b.pdf](https://example.org)" names b.pdf
    line = _LINK.sub(r"\g<words>", line)
    first = _ENTRY.fullmatch(line)
    may_count = first is not None and first["bare"] is not None
    for number, text in _numbers_and_texts(line):
        if not text.strip():
            continue
        # "[2] b.pdf (see also a.pdf)" is b.pdf
        text = _SEE_ALSO.sub("", text)
        yield ListEntry(mark_label_of(number), text, start, end, may_count)


def _numbers_and_texts(line: str) -> list[tuple[str, str]]:
    """List the numbers in a line of a list of sources, each with its text.

    "[1] a.pdf" and "a.pdf [1]" have one; "Sources: [1] a.pdf, [2] b.pdf" has two, and so
    has "Sources: a.pdf [1], b.pdf [2]".
    """
    number_first = _ENTRY.fullmatch(line)
    # "[1] a.pdf"; but "[1] a.pdf, [2] b.pdf" has a second number, and is read below
    if number_first is not None and "[" not in number_first["text"]:
        return [(_number_of(number_first), number_first["text"])]
    number_last = _ENTRY_WITH_NUMBER_LAST.fullmatch(line)
    # "a.pdf [1]"
    if number_last is not None and not _COLON_OR_BRACKET.search(number_last["text"]):
        number = number_last["number"] or number_last["in_round_brackets"]
        return [(number, number_last["text"].rstrip(" \t"))]
    if _is_name_first(line):
        # "Sources: a.pdf [1], b.pdf [2]" has the pieces
        # ["Sources: a.pdf ", "1", ", b.pdf ", "2", ""]
        pieces = _NUMBER_IN_BRACKETS.split(line)
        return list(zip(pieces[1::2], pieces[::2], strict=False))
    # "Sources: [1] a.pdf, [2] b.pdf"
    return [
        (entry["number"], entry["text"]) for entry in _ENTRY_IN_A_LINE.finditer(line)
    ]


def _is_name_first(line: str) -> bool:
    """Whether each number of a line stands after its name, as in "a.pdf [1], b.pdf [2]".

    In "Sources: [1] a.pdf, [2] b.pdf" the number stands first.
    """
    before_number, _, _ = line.partition("[")
    name = before_number.rstrip()
    if "]" in name or _WORD_CHARACTER.search(name) is None:
        return False
    ends_heading = name[-1] in ":*_"
    numbers = _NUMBERS_STAND_LAST.match(line, len(before_number))
    return not ends_heading and numbers is not None


def _number_of(entry: re.Match[str]) -> str:
    """Return the number with which an entry begins."""
    groups = ("in_brackets", "behind_word", "lettered", "bare")
    return next(entry[group] for group in groups if entry[group] is not None)


def _lists_at_the_end(answer: str, lettered_labels: Collection[str]) -> list[Span]:
    """Find the last lines if they list sources that the text before them cites.

    After "It fell [1]." the lines "Read:", "[1] a.pdf" are such a list, and so is
    "Sources: [1] a.pdf". Each line of the list must name or quote something under a
    cited number; a heading is not needed.

    Returns:
        Where the list begins and ends in the answer, as the only element; else empty. A
        line with the heading alone, "Read:", is left out.
    """
    breaks = list(PARAGRAPH_BREAK.finditer(answer.rstrip()))
    start_of_last = breaks[-1].end() if breaks else 0
    lines = list(LINE.finditer(answer.rstrip(), start_of_last))
    entries = list(
        itertools.takewhile(lambda line: _is_entry(line[0]), reversed(lines))
    )
    closing = closing_sources_in(answer)
    if entries:
        start = entries[-1].start()
    elif closing is not None:
        start = closing.start
    else:
        return []
    cited_numbers: set[str] = set()
    for mark in marks_in(answer[:start], dict.fromkeys(lettered_labels, 0)):
        cited_numbers.update(mark.labels)
    numbers = [entry.number for entry in _entries_from(answer, start, len(answer))]
    is_list = bool(numbers) and cited_numbers.issuperset(numbers)
    return [(start, len(answer))] if is_list else []


def _entries_from(answer: str, start: int, end: int) -> Iterator[ListEntry]:
    """Yield the entries in the lines between two places of an answer."""
    for line in LINE.finditer(answer, start, end):
        yield from _entries_of_line(line[0], line.start())


def _is_entry(line: str) -> bool:
    """Whether a line names or quotes something under a number in brackets.

    A mere "1. a.pdf" may be a step, or a rank: without a heading it is no entry.
    """
    entry = _ENTRY.fullmatch(line)
    if entry is None or entry["bare"] is not None:
        return False
    is_quote = _QUOTED.fullmatch(entry["text"].strip(" \t*_.")) is not None
    return is_quote or is_reference(line)


@dataclass(frozen=True)
class Shown:
    """What a prompt showed, by which an entry can be understood.

    Args:
        contexts: The contexts.
        indexes_by_name: By each name of a context its indexes.
        indexes_by_number: All that each number of the prompt may mean.
    """

    contexts: Sequence[Context]
    indexes_by_name: Mapping[str, tuple[int, ...]]
    indexes_by_number: Mapping[str, frozenset[int]]

    @cached_property
    def names(self) -> SourceNames:
        """The names of the contexts, and the short forms of files."""
        return SourceNames.of(self.indexes_by_name)

    @cached_property
    def has_numbers(self) -> bool:
        """Whether the prompt gives any context a number."""
        return any(map(str.isdigit, self.indexes_by_number))

    @cached_property
    def indexes_by_stem(self) -> dict[str, frozenset[int]]:
        """The contexts by the names of their files without path and ending, as "report"."""
        indexes_by_stem: dict[str, frozenset[int]] = {}
        for name, indexes in self.indexes_by_name.items():
            if is_file(name):
                add_indexes(indexes_by_stem, stem_of(name).lower(), indexes)
        return indexes_by_stem

    @cached_property
    def names_by_index(self) -> dict[int, list[str]]:
        """The names of each context."""
        names_by_index: dict[int, list[str]] = {}
        for name, indexes in self.indexes_by_name.items():
            for index in indexes:
                names_by_index.setdefault(index, []).append(name)
        return names_by_index


@dataclass(frozen=True, slots=True)
class OwnNumbers:
    """The numbers of an answer that its own lists explain.

    Args:
        as_in_prompt: Numbers that mean what the prompt showed under them.
        index_by_number: For each number with a new meaning: the index of its context.
        unclear: Numbers that do not mean what the prompt showed under them, and whose
            meaning is unknown.
    """

    as_in_prompt: frozenset[str] = frozenset()
    index_by_number: Mapping[str, int] | None = None
    unclear: frozenset[str] = frozenset()

    @property
    def are_new(self) -> bool:
        """Whether the answer numbers its sources in another way than the prompt."""
        return bool(self.index_by_number or self.unclear)


def own_numbers(
    entries: Iterable[ListEntry], named_numbers: Iterable[NamedNumber], shown: Shown
) -> OwnNumbers:
    """Find out what an answer's numbers mean by its own lists of sources.

    The prompt shows "[1] a.txt" and "[2] b.txt". The entry "[2] b.txt" numbers as the
    prompt does, "[1] b.txt" gives 1 a new meaning, and "[1] z.txt" leaves 1 unclear. A
    number is unclear as well if two entries give it different meanings, or if a mere
    "1. b.txt" contradicts the prompt: it may count the sources in the order of citing.

    Args:
        entries: The entries of the lists.
        named_numbers: The numbers beside names elsewhere in the answer, each with the
            ``indexes`` of the contexts that have this name. "[1] is b.txt" leaves 1
            unclear, unless a list says the same.
        shown: What the prompt showed.

    Returns:
        The numbers by what they mean. ``index_by_number`` may hold unclear numbers, too.
    """
    as_in_prompt: set[str] = set()
    index_by_number: dict[str, int] = {}
    unclear: set[str] = set()
    for entry in entries:
        number = entry.number
        if _agrees_with_prompt(entry, shown):
            as_in_prompt.add(number)
            continue
        context_index = _only_context_named(entry, shown)
        # "1. b.txt", and the prompt shows another text under its 1
        may_count = entry.may_count and number in shown.indexes_by_number
        # None: "[1] z.txt" names no context, or more than one.
        # "[2] Bridges" may be a shorter form of the prompt's "[2] Bridges of Norwick"
        if context_index is None or may_count or _may_be_shortened(entry, shown):
            unclear.add(number)
            continue
        earlier_index = index_by_number.setdefault(number, context_index)
        if earlier_index != context_index:
            unclear.add(number)
    for named in named_numbers:
        in_prompt = shown.indexes_by_number.get(named.number, frozenset())
        if not named.indexes.isdisjoint(in_prompt):
            as_in_prompt.add(named.number)
        # "[1] is b.txt", and no list of the answer gives 1 to the context b.txt
        elif index_by_number.get(named.number) not in named.indexes:
            unclear.add(named.number)
    # one entry keeps the prompt's meaning of a number, another entry gives a new one
    unclear |= as_in_prompt & index_by_number.keys()
    return OwnNumbers(
        frozenset(as_in_prompt - unclear), index_by_number, frozenset(unclear)
    )


def _may_be_shortened(entry: ListEntry, shown: Shown) -> bool:
    """Whether an entry may be a shorter form of the name that the prompt gives its number.

    "[2] Bridges" may be so where the prompt shows "[1] Bridges" and "[2] Bridges of
    Norwick".
    """
    in_prompt = shown.indexes_by_number.get(entry.number, frozenset())
    text = entry.text.strip(_AROUND_NAME).lower()
    return any(
        text in name.lower()
        for index in in_prompt
        for name in shown.names_by_index.get(index, ())
    )


def _agrees_with_prompt(entry: ListEntry, shown: Shown) -> bool:
    """Whether an entry may name what the prompt shows under the entry's number.

    If the prompt shows "[1] a.txt", the entries "[1] a.txt" and "[1] Miller (2020)"
    agree with it, but "[1] z.txt" does not. Each name, number and quote in the entry
    must agree.
    """
    in_prompt = shown.indexes_by_number.get(entry.number, frozenset())
    if _names_an_unknown_file(entry.text, in_prompt, shown):
        return False
    meanings = [
        *_meanings_of_text(entry.text, shown),
        *_meanings_of_like_files(entry.text, shown),
    ]
    return all(in_prompt & indexes for indexes in meanings)


def _only_context_named(entry: ListEntry, shown: Shown) -> int | None:
    """Return the index of the one context that all of an entry's text names.

    None if it names no context or several, or a file like another context's file.
    """
    meanings = _meanings_of_text(entry.text, shown)
    if not meanings:
        return None
    named_by_all = frozenset.intersection(*meanings)
    if len(named_by_all) != 1:
        return None
    for indexes in _meanings_of_like_files(entry.text, shown):
        if named_by_all.isdisjoint(indexes):
            return None
    return min(named_by_all)


def _meanings_of_text(text: str, shown: Shown) -> list[frozenset[int]]:
    """List, for each name, number and quote in an entry, the contexts it may mean."""
    return [
        *_meanings_of_names(text, shown.names),
        *_meanings_of_numbers(text, shown),
        *_meanings_of_quotes(text, shown),
    ]


def _meanings_of_like_files(text: str, shown: Shown) -> list[frozenset[int]]:
    """List, for each file in an entry, the contexts of files that are named like it.

    "docs/report.pdf" is like "report.txt": only path and ending differ.
    """
    return [
        shown.indexes_by_stem[stem]
        for stem in _stems_of_files(text)
        if stem in shown.indexes_by_stem
    ]


def _meanings_of_names(text: str, names: SourceNames) -> Iterator[frozenset[int]]:
    """Yield, for each shown name that a text holds, the contexts with this name.

    The entry "report.pdf, page 3" names the contexts shown as "report.pdf". A name
    inside a longer one does not count: "Bridge Report" in "Old Bridge Report".
    """
    # "report.pdf" and "page 3"
    parts = {part.strip(_AROUND_NAME).lower() for part in PART_OF_NAME.split(text)}
    whole = text.strip(_AROUND_NAME).lower()
    parts |= {whole, _BEFORE_NAME.sub("", whole, count=1)}  # "see report.pdf"
    for _, found in names.found_in(text):
        # a name that is no common word may also stand inside of a part
        if found.name.lower() in parts or is_telling(found.name):
            yield found.indexes


def _meanings_of_numbers(text: str, shown: Shown) -> Iterator[frozenset[int]]:
    """Yield what an entry such as "Source 2, page 3" means by a number of the prompt."""
    first_part = PART_OF_NAME.split(text)[0].strip(_AROUND_NAME)
    is_name = first_part in shown.indexes_by_name
    numbered = _NUMBERED_SOURCE.fullmatch(first_part)
    if numbered is not None and shown.has_numbers and not is_name:
        yield shown.indexes_by_number.get(str(int(numbered["number"])), frozenset())


def _meanings_of_quotes(text: str, shown: Shown) -> Iterator[frozenset[int]]:
    """Yield the contexts that hold a quote in an entry.

    Example: the entry '[1] "The bridge fell in May 1874"' and the context with this
    sentence. A quote of few words may stand in a context by chance.
    """
    quotes = [text.strip(_AROUND_NAME)]
    quotes += [found["words"] for found in _QUOTED.finditer(text)]
    quotes = [
        quote
        for quote in dict.fromkeys(quotes)
        if len(quote.split()) >= _FEWEST_WORDS_OF_A_QUOTE
    ]
    if not quotes:
        return
    for quoted in contexts_of_quotes(quotes, shown.contexts):
        if quoted.holding_all:
            yield frozenset(quoted.holding_all)


def _names_an_unknown_file(text: str, in_prompt: frozenset[int], shown: Shown) -> bool:
    """Whether an entry names files, and the prompt shows none of them.

    True for the entry "[1] z.pdf" if the prompt shows "[1] a.pdf". False if the prompt
    shows "[1]" without a file: then "z.pdf" may be the file of this context.

    Args:
        text: The entry without its number, such as "z.pdf".
        in_prompt: The indexes of the contexts that the prompt shows under the number.
        shown: What the prompt showed.
    """
    number_has_file = any(
        is_file(name)
        for index in in_prompt
        for name in shown.names_by_index.get(index, ())
    )
    stems = _stems_of_files(text)
    if not number_has_file or not stems:
        return False
    return shown.indexes_by_stem.keys().isdisjoint(stems)


def _stems_of_files(text: str) -> list[str]:
    """List the files and addresses in a text without path and ending: "a" of "*a.pdf*"."""
    files = [name.strip(_AROUND_NAME) for name in FILE_OR_ADDRESS.findall(text)]
    return [stem_of(name).lower() for name in files]
