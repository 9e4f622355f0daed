"""The lists of sources in an answer, such as "References:" with "[1] b.txt" below it. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from ragmetrics_core.capture.closing_sources import closing_sources_in
from ragmetrics_core.capture.source_names import (
    LABEL_IN_BRACKETS,
    LETTERED_NUMBER,
    mark_label_of,
)
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import (
    LINE,
    PARAGRAPH_BREAK,
    SOURCE_WORD,
    Span,
)
from ragmetrics_core.data.marks import Numbering, marks_in
from ragmetrics_core.data.source_lists import is_reference, source_lists_in

# "[1] report.pdf", "- 1. report.pdf", "**[1]**: report.pdf", "| 1 | report.pdf |",
# "Source 1: report.pdf", and all of them after a picture
_ENTRY = lazy_pattern(
    r"[ \t]*+(?:[-*•>|][ \t]*+|[^\w\s\[\]()【】]{1,3}[ \t]++)?[*_]{0,2}"
    rf"(?:[\[【(]\^?(?P<in_brackets>{LABEL_IN_BRACKETS})[\]】)]"
    rf"|(?i:{SOURCE_WORD})[ \t]*\#?(?P<behind_word>\d{{1,4}})(?=[ \t]*[:=–—-])"
    r"|(?P<item_number>\d{1,4})(?=[.):|]|[ \t]+\|)"
    rf"|(?P<lettered>{LETTERED_NUMBER})(?=[):|=]|\.[ \t]|[ \t]+[|=–—-]))"
    r"[*_]{0,2}[ \t]*+[.):|=–—-]{0,2}[ \t]*+(?P<text>\S.*)"
)
# "report.pdf [1]", "report.pdf (1)"
_ENTRY_WITH_NUMBER_LAST = lazy_pattern(
    r"[ \t]*+(?:[-*•>][ \t]*+)?(?P<text>[^\s\[].*)"
    r"(?:\[(?P<number>"
    rf"{LABEL_IN_BRACKETS}"
    r")\]|\((?P<in_round_brackets>\d{1,3})\))[ \t.]*+"
)
_TAG = lazy_pattern(
    r"<(?P<name>/?(?:[aibpsu]|em|strong|su[bp]|li|[ou]l|details|summary|[bh]r|cite|code|span"
    r"|div|small|t[dhr]|table|tbody|thead|h[1-6]|mark|section))(?:[ \t][^<>\n]{0,200})?/?>",
    re.IGNORECASE,
)
FURTHER_READING = lazy_pattern(r"\W*further reading", re.IGNORECASE)
_LINK = lazy_pattern(r"\[(?!\d+\])(?P<words>[^\[\]\n]{1,200})\]\([^()\s]{1,500}\)")
_SEE_ALSO = lazy_pattern(r"\((?:see|cf|compare|siehe|vgl)\b[^()\n]*\)", re.IGNORECASE)
# the entries of "Sources: [1] a.pdf, [2] b.pdf"
_ENTRY_IN_A_LINE = lazy_pattern(
    rf"\[(?P<number>{LABEL_IN_BRACKETS})\][:.]?(?P<text>[^\[\]\n]+)"
)
_NUMBER_IN_BRACKETS = lazy_pattern(rf"\[({LABEL_IN_BRACKETS})\]")
# "[1], b.pdf [2]" after "Sources: a.pdf", or "[1] b.pdf [2]"
_NUMBERS_STAND_LAST = lazy_pattern(
    rf"\[{LABEL_IN_BRACKETS}\]"
    rf"(?:[ \t]*+[,;]|[^\n]*\[{LABEL_IN_BRACKETS}\][ \t.]*+\Z)"
)
_WORD_CHARACTER = lazy_pattern(r"\w")
_LONGEST_LINE = 300
_COLON_OR_BRACKET = lazy_pattern(r"[:\[]")
QUOTED = lazy_pattern(r"[\"“„«](?P<words>[^\"“”„«»\n]+)[\"”“»]")
AROUND_NAME = " \t\"'“”„‘’`*_<>.()=→"


@dataclass(frozen=True, slots=True)
class ListEntry:
    """An entry of a list of sources, such as ``[1] report.pdf``.

    Args:
        number: The number that it explains; "" if it explains none, as the 1 of
            "Further reading: 1. a.pdf".
        text: What it says of this number.
        start: Where it begins in the answer; 0 if it stands beside the answer.
        end: Where it ends there.
        has_item_number: Whether the number is written like that of any item, "1. a.pdf".
            It may only count the entries: a model may list its sources in the order in
            which it cited them.
    """

    number: str
    text: str
    start: int = 0
    end: int = 0
    has_item_number: bool = False


def entries_of_lists_in_answer(
    answer: str, lettered_labels: Collection[str] = ()
) -> list[ListEntry]:
    """List the entries of the lists of sources in an answer, each once.

    "[1] a.pdf" below "Sources:" gives an entry with the number "1" and the text "a.pdf".

    Args:
        answer: The answer.
        lettered_labels: The labels with letters that its marks name, such as "S1". Other
            entries with letters, as "A1 a.pdf", explain no mark, and are left out.
    """
    text = with_plain_lists(answer)
    spans = list(source_lists_in(text))
    span_at_the_end = _cited_list_at_the_end(text, lettered_labels)
    if span_at_the_end is not None:
        spans.append(span_at_the_end)
    # {"1": "doc-1"}: an entry "doc-1: a.pdf" is read with the number 1
    lettered_label_by_number = {
        mark_label_of(label): label for label in lettered_labels
    }
    list_entries: list[ListEntry] = []
    for start, end in spans:
        list_entries += _entries_of_list(text, start, end, lettered_label_by_number)
    return list(dict.fromkeys(list_entries))


def _entries_of_list(
    text: str, start: int, end: int, lettered_label_by_number: Mapping[str, str]
) -> Iterator[ListEntry]:
    """Yield the entries of one list of sources, each with the label that it explains.

    Args:
        text: The answer.
        start: Where the list begins in it.
        end: Where the list ends.
        lettered_label_by_number: The labels with letters that the answer's marks name,
            ``{"1": "doc-1", "S1": "S1"}``. Entries of other letters are left out.
    """
    is_further_reading = FURTHER_READING.match(text, start, end) is not None
    lettered_labels = set(lettered_label_by_number.values())
    for list_entry in _entries_from(text, start, end):
        if is_further_reading and list_entry.has_item_number:
            # The 1 of "1. a.pdf" is not that of a mark, so that the number is left
            # out. The place of the entry is kept: a mark there cites nothing.
            yield replace(list_entry, number="")
            continue
        label = _label_of_entry(list_entry, lettered_label_by_number, text)
        if label.isdigit() or label in lettered_labels:
            yield replace(list_entry, number=label)


def _label_of_entry(
    list_entry: ListEntry, lettered_label_by_number: Mapping[str, str], text: str
) -> str:
    """Return the label that an entry explains: "doc-1" of "doc-1: a.pdf", 1 of "1: a.pdf".

    Args:
        list_entry: The entry. Its number is 1 in both cases.
        lettered_label_by_number: The labels that the answer's marks name:
            ``{"1": "doc-1"}``.
        text: The answer.
    """
    number = list_entry.number
    lettered_label = lettered_label_by_number.get(number)
    line = text[list_entry.start : list_entry.end].lstrip(" \t-*•[")
    if lettered_label is not None and line.startswith(lettered_label):
        return lettered_label
    return number


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


def entries_of_lines(text: str) -> Iterator[ListEntry]:
    """Yield the numbered sources in the lines of a text, each with its own; no long ones."""
    for line in LINE.finditer(text):
        if len(line[0]) <= _LONGEST_LINE:
            yield from _entries_of_line(line[0], line.start())


def _entries_of_line(line: str, start: int) -> Iterator[ListEntry]:
    """Yield the numbered sources in a line that begins at an index of the answer."""
    end = start + len(line)
    # "[2] [b.pdf](https://example.org)" names b.pdf
    line = _LINK.sub(r"\g<words>", line)
    list_entry = _ENTRY.fullmatch(line)
    # "1. a.pdf", but not "[1] a.pdf"
    has_item_number = list_entry is not None and list_entry["item_number"] is not None
    for number, text in _numbers_and_texts(line):
        if not text.strip():
            continue
        # "[2] b.pdf (see also a.pdf)" is b.pdf
        text = _SEE_ALSO.sub("", text)
        yield ListEntry(mark_label_of(number), text, start, end, has_item_number)


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
        return _numbers_behind_texts(line)
    # "Sources: [1] a.pdf, [2] b.pdf"
    return [
        (list_entry["number"], list_entry["text"])
        for list_entry in _ENTRY_IN_A_LINE.finditer(line)
    ]


def _numbers_behind_texts(line: str) -> list[tuple[str, str]]:
    """List the numbers in a line, each with the text before it.

    "a.pdf [1], b.pdf [2]" gives ("1", "a.pdf ") and ("2", ", b.pdf ").
    """
    numbers_and_texts = []
    start_of_text = 0
    for number in _NUMBER_IN_BRACKETS.finditer(line):
        text = line[start_of_text : number.start()]
        numbers_and_texts.append((number[1], text))
        start_of_text = number.end()
    return numbers_and_texts


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


def _number_of(list_entry: re.Match[str]) -> str:
    """Return the number with which an entry begins."""
    groups = ("in_brackets", "behind_word", "lettered", "item_number")
    return next(list_entry[group] for group in groups if list_entry[group] is not None)


def _cited_list_at_the_end(
    answer: str, lettered_labels: Collection[str]
) -> Span | None:
    """Find where an answer ends with a list of sources that marks before it cite.

    In "It fell [1].", "Read:", "[1] a.pdf" the last line is such a list, since a mark
    cites its only number. A list needs no heading, and "Read:" is no part of it.

    Args:
        answer: The answer.
        lettered_labels: The labels with letters that its marks name, such as "S1".

    Returns:
        Where the list begins and ends in the answer; None without one.
    """
    start = _start_of_last_entries(answer)
    if start is None:
        return None
    # "[S1]" is found as a mark only where S1 is known as a label, be it of no context
    labels_of_no_context: Numbering = dict.fromkeys(lettered_labels, ())
    cited_numbers: set[str] = set()
    for mark in marks_in(answer[:start], labels_of_no_context):
        cited_numbers.update(mark.labels)
    numbers_listed = [
        list_entry.number for list_entry in _entries_from(answer, start, len(answer))
    ]
    are_all_cited = cited_numbers.issuperset(numbers_listed)
    return (start, len(answer)) if numbers_listed and are_all_cited else None


def _start_of_last_entries(answer: str) -> int | None:
    """Return where the entries of a list begin with which an answer ends; None without.

    They are lines such as "[1] a.pdf", or a closing line, "Sources: [1] a.pdf".
    """
    text = answer.rstrip()
    breaks = list(PARAGRAPH_BREAK.finditer(text))
    start_of_last_paragraph = breaks[-1].end() if breaks else 0
    start: int | None = None
    for line in reversed(list(LINE.finditer(text, start_of_last_paragraph))):
        if not _is_entry(line[0]):
            break
        start = line.start()
    if start is not None:
        return start
    closing = closing_sources_in(answer)
    return None if closing is None else closing.start


def _entries_from(answer: str, start: int, end: int) -> Iterator[ListEntry]:
    """Yield the entries in the lines between two places of an answer."""
    for line in LINE.finditer(answer, start, end):
        yield from _entries_of_line(line[0], line.start())


def _is_entry(line: str) -> bool:
    """Whether a line names or quotes something under a number in brackets.

    A mere "1. a.pdf" may be a step, or a rank: without a heading it is no entry.
    """
    list_entry = _ENTRY.fullmatch(line)
    if list_entry is None or list_entry["item_number"] is not None:
        return False
    is_quote = QUOTED.fullmatch(list_entry["text"].strip(" \t*_.")) is not None
    return is_quote or is_reference(line)
