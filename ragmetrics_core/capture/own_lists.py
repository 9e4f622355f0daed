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
    r"[ \t]*(?:[-*•>|][ \t]*)?[*_]{0,2}"
    r"(?:[\[【(]\^?(?P<in_brackets>\d{1,4})[\]】)]|(?P<bare>\d{1,4})(?=[.):|]|[ \t]+\|))"
    r"[*_]{0,2}[ \t]*[.):|=–—-]{0,2}[ \t]*(?P<text>\S.*)"
)
# "report.pdf [1]"
_ENTRY_WITH_NUMBER_LAST = re.compile(
    r"[ \t]*(?:[-*•>][ \t]*)?(?P<text>[^\s\[].*?)[ \t]*\[(?P<number>\d{1,4})\][ \t.]*"
)
# the entries of "Sources: [1] a.pdf, [2] b.pdf"
_ENTRY_IN_A_LINE = re.compile(r"\[(?P<number>\d{1,4})\][:.]?(?P<text>[^\[\]\n]+)")
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
    """Find the numbers that a line of a text gives another name than the labels do.

    Under the labels "1. a.pdf" and "2. b.pdf", the line "[1] b.pdf" does so.

    Args:
        text: A prompt.
        indexes_by_label: The contexts by all labels of the prompts.
    """
    numbers = set()
    for line in _LINE.finditer(text):
        entry = _ENTRY.fullmatch(line[0])
        if entry is None:
            continue
        number = str(int(entry["in_brackets"] or entry["bare"]))
        named = indexes_by_label.get(entry["text"].strip(_AROUND_NAME + ":"), ())
        numbered = indexes_by_label.get(number, ())
        if named and numbered and set(named).isdisjoint(numbered):
            numbers.add(number)
    return numbers


def _entries_of_line(line: str, start: int) -> Iterator[ListEntry]:
    """Yield the entries of a line that begins at a place of the answer."""
    entry = _ENTRY.fullmatch(line)
    end = start + len(line)
    if entry is not None and "[" not in entry["text"]:
        number = entry["in_brackets"] or entry["bare"]
        yield ListEntry(str(int(number)), entry["text"], start, end)
        return
    number_last = _ENTRY_WITH_NUMBER_LAST.fullmatch(line)
    if number_last is not None and ":" not in number_last["text"]:
        number = str(int(number_last["number"]))
        yield ListEntry(number, number_last["text"], start, end)
        return
    for found in _ENTRY_IN_A_LINE.finditer(line):
        yield ListEntry(str(int(found["number"])), found["text"], start, end)


def _list_at_the_end(answer: str) -> list[Span]:
    """Find the last paragraph if it lists sources that the text before it cites.

    Each of its lines names or quotes something under a number; a heading may stand
    above them.
    """
    breaks = list(_PARAGRAPH_BREAK.finditer(answer.rstrip()))
    if not breaks:
        return []
    start = breaks[-1].end()
    lines = [line[0] for line in _LINE.finditer(answer.rstrip(), start)]
    if lines and _is_heading(lines[0]):
        lines = lines[1:]
    cited = {label for mark in marks_in(answer[:start]) for label in mark.labels}
    is_list = bool(lines) and all(_is_entry_of(cited, line) for line in lines)
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
        as_in_prompt: Those that mean what the prompt showed under them.
        index_by_number: The context of each that means another one.
        unclear: Those that cannot mean what the prompt showed, and of which it is not
            known what they mean.
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

    Args:
        entries: The entries of the lists.
        shown: What the prompt showed.
    """
    as_in_prompt: set[str] = set()
    index_by_number: dict[str, int] = {}
    unclear: set[str] = set()
    for entry in entries:
        in_prompt = shown.indexes_by_number.get(entry.number, frozenset())
        sure, perhaps = _named_by(entry.text, shown)
        fits_prompt = all(in_prompt & named for named in (*sure, *perhaps))
        if fits_prompt and not _names_an_unknown_file(entry.text, in_prompt, shown):
            as_in_prompt.add(entry.number)
            continue
        named_by_all = frozenset.intersection(*sure) if sure else frozenset()
        has_doubt = any(not named & named_by_all for named in perhaps)
        index = min(named_by_all, default=-1)
        is_one = len(named_by_all) == 1 and not has_doubt
        if is_one and index_by_number.setdefault(entry.number, index) == index:
            continue
        unclear.add(entry.number)
    unclear |= as_in_prompt & index_by_number.keys()
    return OwnNumbers(
        frozenset(as_in_prompt - unclear), index_by_number, frozenset(unclear)
    )


def _named_by(
    text: str, shown: Shown
) -> tuple[list[frozenset[int]], list[frozenset[int]]]:
    """Find the contexts that each name, number or quote in an entry may mean.

    Returns:
        For each name, number and quote its contexts; and the same for each file or
        address that differs from a shown name in its ending or path alone.
    """
    sure = [
        *_meanings_of_names(text, shown),
        *_meanings_of_numbers(text, shown),
        *_meanings_of_quotes(text, shown),
    ]
    perhaps = []
    for name in _FILE_OR_ADDRESS.findall(text):
        same_stem = {
            index
            for shown_name, indexes in shown.indexes_by_name.items()
            if is_file(shown_name)
            and stem_of(shown_name).lower() == stem_of(name).lower()
            for index in indexes
        }
        if same_stem:
            perhaps.append(frozenset(same_stem))
    return sure, perhaps


def _meanings_of_names(text: str, shown: Shown) -> Iterator[frozenset[int]]:
    """Yield the contexts of each shown name in an entry; of names inside others none."""
    parts = {part.strip(_AROUND_NAME).lower() for part in _BETWEEN_PARTS.split(text)}
    parts.add(text.strip(_AROUND_NAME).lower())
    spans: list[Span] = []
    for name in sorted(shown.indexes_by_name, key=len, reverse=True):
        indexes = frozenset(shown.indexes_by_name[name])
        if name.lower() in parts:
            yield indexes
        elif is_telling(name):
            for found in re.finditer(words_of(name), text, re.IGNORECASE):
                start, end = found.span()
                if not any(begun <= start and end <= ended for begun, ended in spans):
                    spans.append((start, end))
                    yield indexes


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
    """Whether an entry names a file that none is shown as, for a context with a file name."""
    stems = set()
    has_file = False
    for name, indexes in shown.indexes_by_name.items():
        if is_file(name):
            stems.add(stem_of(name).lower())
            has_file = has_file or not in_prompt.isdisjoint(indexes)
    names = _FILE_OR_ADDRESS.findall(text)
    return (
        has_file
        and bool(names)
        and all(stem_of(name).lower() not in stems for name in names)
    )


def is_telling(name: str) -> bool:
    """Whether a name is a file, an address or several words: no word of any sentence."""
    has_letters = re.search(r"[^\W\d_]{2}", name) is not None
    has_words = len(name.split()) > 1
    return has_letters and (has_words or is_file(name))


def is_file(name: str) -> bool:
    """Whether a name is that of a file, or an address."""
    return _FILE_OR_ADDRESS.fullmatch(name) is not None


def words_of(name: str) -> str:
    """Return a pattern that finds a name as whole words."""
    return rf"(?<!\w){re.escape(name)}(?!\w)"


def stem_of(name: str) -> str:
    """Return a file's name without path and ending."""
    last_part = re.split(r"[/\\]", name.rstrip("/"))[-1]
    return re.sub(r"\.[A-Za-z][A-Za-z0-9]{1,4}\Z", "", last_part)
