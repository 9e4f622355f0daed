"""What an answer's own list of sources says about the numbers of its marks. Pure.

A model may number its sources anew: "It fell [1]." with "References: [1] b.txt" below
it, where the prompt shows ``b.txt`` under "[2]". Then the list says what "[1]" means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.cited_sources import contexts_of_quotes
from ragmetrics_core.data import Context
from ragmetrics_core.data.mark_patterns import SOURCE_WORD, Span
from ragmetrics_core.data.marks import marks_in
from ragmetrics_core.data.source_lists import is_reference, source_lists_in

_FEWEST_WORDS_OF_A_QUOTE = 4
_LONGEST_HEADING = 60
# "[1] report.pdf", "- 1. report.pdf", "**[1]**: report.pdf", "| 1 | report.pdf |"
_ENTRY = re.compile(
    r"[ \t]*+(?:[-*•>|][ \t]*+)?[*_]{0,2}"
    r"(?:[\[【(]\^?(?P<in_brackets>\d{1,4})[\]】)]|(?P<bare>\d{1,4})(?=[.):|]|[ \t]+\|))"
    r"[*_]{0,2}[ \t]*+[.):|=–—-]{0,2}[ \t]*+(?P<text>\S.*)"
)
# "report.pdf [1]"
_ENTRY_WITH_NUMBER_LAST = re.compile(
    r"[ \t]*+(?:[-*•>][ \t]*+)?(?P<text>[^\s\[].*)\[(?P<number>\d{1,4})\][ \t.]*+"
)
# the entries of "Sources: [1] a.pdf, [2] b.pdf"
_ENTRY_IN_A_LINE = re.compile(r"\[(?P<number>\d{1,4})\][:.]?(?P<text>[^\[\]\n]+)")
_NUMBER_IN_BRACKETS = re.compile(r"\[(\d{1,4})\]")
# "[1], b.pdf [2]" behind "Sources: a.pdf", or "[1] b.pdf [2]"
_NUMBERS_STAND_LAST = re.compile(
    r"\[\d{1,4}\](?:[ \t]*+[,;]|[^\n]*\[\d{1,4}\][ \t.]*+\Z)"
)
_WORD_CHARACTER = re.compile(r"\w")
_COLON_OR_BRACKET = re.compile(r"[:\[]")
_LINE = re.compile(r"[^\n]+")
_PARAGRAPH_BREAK = re.compile(r"\n[ \t\r]*\n")
_HEADING = re.compile(r"[ \t]*(?:#.*|.*[:：][ \t*_]*|[*_]+[^*_]+[*_]+)[ \t]*")
_QUOTED = re.compile(r"[\"“„«](?P<words>[^\"“”„«»\n]+)[\"”“»]")
_AROUND_NAME = " \t\"'“”„‘’`*_<>.()"
_BETWEEN_PARTS = re.compile(r"[,;|()#§]|\s[-–—]\s")
_FILE_OR_ADDRESS = re.compile(
    r"https?://[^\s<>()\[\]]+"
    r"|[^\s<>()\[\]/]{1,200}\.[A-Za-z][A-Za-z0-9]{1,4}(?!\w)"
)
_NUMBERED_SOURCE = re.compile(
    rf"{SOURCE_WORD}[ \t#:]*(?P<number>\d{{1,4}})", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ListEntry:
    """An entry of a list of sources, such as ``[1] report.pdf``.

    Args:
        number: The number that it explains.
        text: What it says of this number.
        start: Where it begins in the answer; 0 if it stands beside the answer.
        end: Where it ends there.
    """

    number: str
    text: str
    start: int = 0
    end: int = 0


def entries_of_own_lists(answer: str) -> list[ListEntry]:
    """List the entries of the lists of sources in an answer."""
    entries: list[ListEntry] = []
    for start, end in [*source_lists_in(answer), *_list_at_the_end(answer)]:
        for line in _LINE.finditer(answer, start, end):
            entries += _entries_of_line(line[0], line.start())
    return list(dict.fromkeys(entries))


def numbers_under_other_names(
    text: str, indexes_by_label: Mapping[str, tuple[int, ...]]
) -> set[str]:
    """Find the numbers that a line of a text pairs with the name of another context.

    Example: the prompts label two contexts "1. a.pdf" and "2. b.pdf". A line "[1]
    b.pdf" pairs 1 with the name of the second context: ``{"1"}``.

    Args:
        text: A prompt.
        indexes_by_label: The indexes of the contexts by each label of the prompts; a
            label is a number, "1", or a name, "a.pdf".
    """
    numbers = set()
    for line in _LINE.finditer(text):
        entry = _ENTRY.fullmatch(line[0])
        if entry is None:
            continue
        number = str(int(entry["in_brackets"] or entry["bare"]))
        name = entry["text"].strip(_AROUND_NAME + ":")
        indexes_of_name = indexes_by_label.get(name, ())
        indexes_of_number = indexes_by_label.get(number, ())
        if not indexes_of_name or not indexes_of_number:
            continue
        if set(indexes_of_name).isdisjoint(indexes_of_number):
            numbers.add(number)
    return numbers


def _entries_of_line(line: str, start: int) -> Iterator[ListEntry]:
    """Yield the numbered sources in a line that begins at an index of the answer."""
    end = start + len(line)
    for number, text in _numbers_and_texts(line):
        yield ListEntry(str(int(number)), text, start, end)


def _numbers_and_texts(line: str) -> list[tuple[str, str]]:
    """List the numbers in a line of a list of sources, each with its text.

    "[1] a.pdf" and "a.pdf [1]" have one; "Sources: [1] a.pdf, [2] b.pdf" has two, and so
    has "Sources: a.pdf [1], b.pdf [2]".
    """
    number_first = _ENTRY.fullmatch(line)
    # "[1] a.pdf"; but "[1] a.pdf, [2] b.pdf" has a second number, and is read below
    if number_first is not None and "[" not in number_first["text"]:
        return [
            (number_first["in_brackets"] or number_first["bare"], number_first["text"])
        ]
    number_last = _ENTRY_WITH_NUMBER_LAST.fullmatch(line)
    # "a.pdf [1]"
    if number_last is not None and not _COLON_OR_BRACKET.search(number_last["text"]):
        return [(number_last["number"], number_last["text"].rstrip(" \t"))]
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
    """Whether each number of a line stands behind its name, as in "a.pdf [1], b.pdf [2]".

    In "Sources: [1] a.pdf, [2] b.pdf" the number stands first.
    """
    before_number, _, _ = line.partition("[")
    name = before_number.rstrip()
    if "]" in name or _WORD_CHARACTER.search(name) is None:
        return False
    ends_heading = name[-1] in ":*_"
    numbers = _NUMBERS_STAND_LAST.match(line, len(before_number))
    return not ends_heading and numbers is not None


def _list_at_the_end(answer: str) -> list[Span]:
    """Find the last paragraph if it lists sources that the text before it cites.

    Behind "It fell [1]." the lines "Read:", "[1] a.pdf" are such a list. The heading may
    be missing; each other line must name or quote something under a cited number.

    Returns:
        Where the list begins and ends in the answer, as the only element; else empty.
    """
    breaks = list(_PARAGRAPH_BREAK.finditer(answer.rstrip()))
    if not breaks:
        return []
    start = breaks[-1].end()
    lines = [line[0] for line in _LINE.finditer(answer.rstrip(), start)]
    if lines and _is_heading(lines[0]):
        lines = lines[1:]
    cited_numbers: set[str] = set()
    for mark in marks_in(answer[:start]):
        cited_numbers.update(mark.labels)
    is_list = bool(lines) and all(_is_entry_of(cited_numbers, line) for line in lines)
    return [(start, len(answer))] if is_list else []


def _is_heading(line: str) -> bool:
    """Whether a line may head a list, as "**Notes**" and "Read:" do."""
    return len(line) <= _LONGEST_HEADING and _HEADING.fullmatch(line) is not None


def _is_entry_of(cited_numbers: Iterable[str], line: str) -> bool:
    """Whether a line names or quotes something under a number that is cited."""
    entry = _ENTRY.fullmatch(line)
    if entry is None:
        return False
    number = str(int(entry["in_brackets"] or entry["bare"]))
    is_quote = _QUOTED.fullmatch(entry["text"].strip(" \t*_.")) is not None
    return number in cited_numbers and (is_quote or is_reference(line))


@dataclass(frozen=True, slots=True)
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


def own_numbers(entries: Iterable[ListEntry], shown: Shown) -> OwnNumbers:
    """Find out what an answer's numbers mean by its own lists of sources.

    The prompt shows "[1] a.txt" and "[2] b.txt". The entry "[2] b.txt" numbers as the
    prompt does, "[1] b.txt" gives 1 a new meaning, and "[1] z.txt" leaves 1 unclear. A
    number is unclear as well if two entries give it different meanings.
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
        if context_index is None:
            unclear.add(number)
            continue
        earlier_index = index_by_number.setdefault(number, context_index)
        if earlier_index != context_index:
            unclear.add(number)
    # one entry keeps the prompt's meaning of a number, another entry gives a new one
    unclear |= as_in_prompt & index_by_number.keys()
    return OwnNumbers(
        frozenset(as_in_prompt - unclear), index_by_number, frozenset(unclear)
    )


def _agrees_with_prompt(entry: ListEntry, shown: Shown) -> bool:
    """Whether an entry may name what the prompt shows under the entry's number.

    Where the prompt shows "[1] a.txt", so do "[1] a.txt" and "[1] Miller (2020)", but
    not "[1] z.txt". Each name, number and quote in the entry must agree.
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

    None if it names no context or several, or a file like that of another context.
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
        *_meanings_of_names(text, shown),
        *_meanings_of_numbers(text, shown),
        *_meanings_of_quotes(text, shown),
    ]


def _meanings_of_like_files(text: str, shown: Shown) -> list[frozenset[int]]:
    """List, for each file in an entry, the contexts of files that are named like it.

    "docs/report.pdf" is like "report.txt": only path and ending differ.
    """
    meanings = []
    for file_name in _FILE_OR_ADDRESS.findall(text):
        stem = stem_of(file_name).lower()
        indexes: set[int] = set()
        for shown_name, indexes_of_name in shown.indexes_by_name.items():
            if is_file(shown_name) and stem_of(shown_name).lower() == stem:
                indexes.update(indexes_of_name)
        if indexes:
            meanings.append(frozenset(indexes))
    return meanings


def _meanings_of_names(text: str, shown: Shown) -> Iterator[frozenset[int]]:
    """Yield, for each shown name that an entry holds, the contexts with this name.

    The entry "report.pdf, page 3" names the contexts shown as "report.pdf". A name
    inside a longer one does not count: "Bridge Report" in "Old Bridge Report".
    """
    # "report.pdf" and "page 3"
    parts = {part.strip(_AROUND_NAME).lower() for part in _BETWEEN_PARTS.split(text)}
    parts.add(text.strip(_AROUND_NAME).lower())
    spans_of_longer: list[Span] = []
    longest_first = sorted(shown.indexes_by_name, key=len, reverse=True)
    for name in longest_first:
        indexes = frozenset(shown.indexes_by_name[name])
        if name.lower() in parts:
            yield indexes
        # a name that is no common word may also stand inside of a part
        elif is_telling(name):
            for match in re.finditer(pattern_of_name(name), text, re.IGNORECASE):
                if not _is_inside_any(match.span(), spans_of_longer):
                    spans_of_longer.append(match.span())
                    yield indexes


def _is_inside_any(span: Span, outer_spans: Iterable[Span]) -> bool:
    """Whether a span of characters lies inside another one."""
    start, end = span
    return any(
        outer_start <= start and end <= outer_end
        for outer_start, outer_end in outer_spans
    )


def _meanings_of_numbers(text: str, shown: Shown) -> Iterator[frozenset[int]]:
    """Yield what an entry such as "Source 2, page 3" means by a number of the prompt."""
    first_part = _BETWEEN_PARTS.split(text)[0].strip(_AROUND_NAME)
    is_name = first_part in shown.indexes_by_name
    has_numbers = any(label.isdigit() for label in shown.indexes_by_number)
    numbered = _NUMBERED_SOURCE.fullmatch(first_part)
    if numbered is not None and has_numbers and not is_name:
        yield shown.indexes_by_number.get(str(int(numbered["number"])), frozenset())


def _meanings_of_quotes(text: str, shown: Shown) -> Iterator[frozenset[int]]:
    """Yield the contexts that hold a quote in an entry."""
    quotes = [text.strip(_AROUND_NAME)]
    quotes += [found["words"] for found in _QUOTED.finditer(text)]
    quotes = [
        quote
        for quote in dict.fromkeys(quotes)
        if len(quote.split()) >= _FEWEST_WORDS_OF_A_QUOTE
    ]
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
    shown_stems = set()  # "a" of "a.pdf"
    number_has_file = False
    for shown_name, indexes in shown.indexes_by_name.items():
        if is_file(shown_name):
            shown_stems.add(stem_of(shown_name).lower())
            if not in_prompt.isdisjoint(indexes):
                number_has_file = True
    stems = [stem_of(name).lower() for name in _FILE_OR_ADDRESS.findall(text)]
    if not number_has_file or not stems:
        return False
    return shown_stems.isdisjoint(stems)


def is_telling(name: str) -> bool:
    """Whether a name is a file, an address or several words: no word of any sentence."""
    has_letters = re.search(r"[^\W\d_]{2}", name) is not None
    has_words = len(name.split()) > 1
    return has_letters and (has_words or is_file(name))


def is_file(name: str) -> bool:
    """Whether a name is that of a file, or an address."""
    return _FILE_OR_ADDRESS.fullmatch(name) is not None


def pattern_of_name(name: str) -> str:
    """Return a pattern that finds a name as whole words."""
    return rf"(?<!\w){re.escape(name)}(?!\w)"


def stem_of(name: str) -> str:
    """Return a file's name without path and ending."""
    last_part = re.split(r"[/\\]", name.rstrip("/"))[-1]
    return re.sub(r"\.[A-Za-z][A-Za-z0-9]{1,4}\Z", "", last_part)
