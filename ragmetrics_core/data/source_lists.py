"""Lists of sources in an answer, such as "References:" with entries below it.

A mark in such a list says what the mark means elsewhere; it cites nothing.
"""

import re
from collections.abc import Sequence

from ragmetrics_core.data.mark_patterns import (
    LINE,
    LOOKBACK,
    MARK,
    NUMBER,
    SOURCES_HEADING,
    YEAR,
    Span,
)

_HEADING = re.compile(
    rf"[ \t]*(?:\#{{1,6}}[ \t]*)?[*_]{{0,3}}{SOURCES_HEADING}[ \t]*[*_]{{0,3}}"
    r"[ \t]*[:：]?[ \t]*[*_]{0,3}[ \t]*",
    re.IGNORECASE,
)
_LONGEST_HEADING = 60
_ENTRY = re.compile(
    r"[ \t]*(?:[-*•][ \t]+|\d{1,3}[.)][ \t]+)?"
    r"(?:[\[［【]\^?[^\[\]［］【】\n]{1,40}[\]］】]|(?<=[ \t])\S|https?://|[ \t]{2,}\S)"
)
# "Sources:" or "**Sources**:", before entries in the same line
_LABEL_WITH_COLON = (
    rf"[ \t]*[*_]{{0,3}}{SOURCES_HEADING}[ \t]*[*_]{{0,3}}[:：][*_]{{0,3}}"
)
_LABEL_OF_LINE = re.compile(_LABEL_WITH_COLON, re.IGNORECASE)
# "Sources: [1], [2]", in one line
_LISTED_IN_A_LINE = re.compile(
    _LABEL_WITH_COLON + r"(?:[ \t,;&]|and\b|[\[［【][^\[\]［］【】\n]{1,60}[\]］】])+",
    re.IGNORECASE,
)
_SOURCE_LABEL = re.compile(
    rf"(?:(?<=[.!?…。][\s*)])|^[ \t]*|(?<=\())(?P<label>[*_]{{0,3}}{SOURCES_HEADING}"
    r"[*_]{0,3}[ \t]*[:：][*_]{0,3}[ \t]*)\Z",
    re.IGNORECASE | re.MULTILINE,
)
_DEFINITION = re.compile(
    r"[ \t]{0,3}(?:\[\^[^\[\]\n]{1,40}\]:"
    r"|\[[^\[\]\n]{1,40}\]:[ \t]*<?(?:https?://|www\.))"
)
_NUMBERED_ENTRY = re.compile(
    r"[ \t]*(?:[-*•][ \t]+)?\[(\d{1,4})\][:.]?[ \t]+[^\[\]\s][^\[\]\n]*"
)
# What a line of a bibliography has, and a sentence hardly: an address, a year in
# brackets, or no full stop.
_OF_A_BOOK = re.compile(rf"https?://|www\.|doi|\({YEAR}")
_MOST_WORDS_OF_TITLE = 6  # with its number
_NO_FULL_STOP = re.compile(r"[^.!?。\s]\s*\Z")
_END_OF_TITLE = re.compile(rf"(?:[^.!?。\s]|,[ \t]{YEAR}\.)\s*\Z")
_BLANK_LINE_BEFORE = re.compile(r"\n[ \t\r]*\n\Z")
_PARAGRAPH_BREAK = re.compile(
    r"\n[ \t\r]*\n(?:[ \t]*[-*_]{3,}[ \t\r]*\n)?|\n[ \t]*[-*_]{3,}[ \t\r]*\n"
)
# What a reference has, and what tells that a line is a sentence after all.
_SIGN_OF_ENTRY = re.compile(r"[ \t]*(?:[-*•][ \t]+|\d{1,3}[.)][ \t]+)?")
_ANY_BRACKET = re.compile(r"[\[［【][^\[\]［］【】\n]{1,60}[\]］】]:?")
_ADDRESS_OR_FILE = re.compile(
    r"<?(?:https?://|www\.|doi:)\S+|(?<!\S)\S{1,200}?"  # a bound keeps it linear
    r"\.(?:pdf|docx?|html?|txt|md|csv|xlsx?|pptx?|json)\b",
    re.IGNORECASE,
)
_WORD_OF_SENTENCE = re.compile(
    r"\b(?:is|are|was|were|be|been|has|have|had|do|does|did|can|could|will|would|may"
    r"|might|must|should|says?|said|shows?|showed|states?|stated|it|they|he|she|we|i"
    r"|you|not|no|ist|sind|war|waren|wurden?|hat|haben|est|sont|était|été|fut|es|son"
    r"|fue|fueron|era|eran|foi|è|sono|fu)\b",
    re.IGNORECASE,
)


def source_lists_in(answer: str) -> list[Span]:
    """Where an answer lists its sources: a mark there cites nothing.

    Three things are such lists: a heading such as "References:" with the entries behind
    it; what ``definitions_in`` finds; and numbered entries that end the answer, of
    numbers that it has cited before. Entries are sentences all the same, which may
    claim something.
    """
    lines = [(match.start(), match[0]) for match in LINE.finditer(answer)]
    spans: list[Span] = []
    n_read = 0
    while n_read < len(lines):
        start, line = lines[n_read][0], lines[n_read][1].strip()
        n_lines = 0
        if _is_definition(line, answer, start):
            n_lines = 1
        elif len(line) <= _LONGEST_HEADING and _HEADING.fullmatch(line):
            n_lines = _lines_under_heading(lines, n_read)
        if n_lines:
            last_start, last_line = lines[n_read + n_lines - 1]
            spans.append((start, last_start + len(last_line)))
        n_read += max(n_lines, 1)
    last_list = _numbered_entries_at_the_end(answer)
    if last_list is not None and not spans:
        spans.append(last_list)
    return spans


def definitions_in(answer: str) -> list[Span]:
    """Where lines of an answer say no more than what a mark means.

    These are definitions of links and footnotes, and a paragraph such as
    "Sources: [1] a.pdf, [2]".
    """
    return [
        match.span()
        for match in LINE.finditer(answer)
        if _is_definition(match[0].strip(), answer, match.start())
    ]


def reference_lines_in(answer: str) -> list[Span]:
    """Where lines of an answer do no more than name sources, so that they claim nothing.

    These are the definitions of ``definitions_in``, and of a list of sources its heading
    and the entries that are no sentences. An entry that is a sentence may claim
    something.
    """
    lists = source_lists_in(answer)
    spans: list[Span] = []
    for match in LINE.finditer(answer):
        line = match[0].strip()
        is_listed = any(
            start <= match.start() and match.end() <= end for start, end in lists
        )
        if is_listed and (_HEADING.fullmatch(line) or _is_reference(line)):
            spans.append(match.span())
    return sorted({*spans, *definitions_in(answer)})


def _is_reference(line: str) -> bool:
    """Whether a line is a title, a file or an address, and no sentence.

    It then has few words beside its marks and addresses, no word that sentences are
    made with, and no full stop at its end, unless a year stands before it: ", 2003.".
    """
    words = _ANY_BRACKET.sub(" ", _SIGN_OF_ENTRY.sub("", line, count=1))
    title = _ADDRESS_OR_FILE.sub(" x ", words)
    if _WORD_OF_SENTENCE.search(title):
        return False
    is_short = 0 < len(title.split()) <= _MOST_WORDS_OF_TITLE
    return is_short and _END_OF_TITLE.search(title) is not None


def _is_definition(line: str, answer: str, start: int) -> bool:
    """Whether a line of an answer, which begins at ``start``, defines marks."""
    if _DEFINITION.match(line):
        return True
    before = answer[max(0, start - LOOKBACK) : start]
    is_apart = _BLANK_LINE_BEFORE.search(before) is not None or not before.strip()
    if not is_apart:
        return False
    return _LISTED_IN_A_LINE.fullmatch(line) is not None or _lists_references(line)


def _lists_references(line: str) -> bool:
    """Whether a line is such as "Sources: [1] a.pdf, [2] b.pdf"."""
    label = _LABEL_OF_LINE.match(line)
    if label is None or not _ANY_BRACKET.search(line, label.end()):
        return False
    # The full stop at the end of the line is of no entry.
    listed = line[label.end() :].rstrip(" .")
    entries = re.split(rf"[,;]|{_ANY_BRACKET.pattern}", listed)
    return all(_is_reference(entry) for entry in entries if entry.strip(" .*_&"))


def label_before(answer: str, start: int) -> int:
    """Where a word such as "Source:" begins before a mark; the mark's start without one.

    The word stands by itself: behind a sentence, or at the beginning of a line.
    """
    first = max(0, start - LOOKBACK)
    label = _SOURCE_LABEL.search(answer, first, start)
    return start if label is None else label.start("label")


def _lines_under_heading(lines: Sequence[tuple[int, str]], heading_place: int) -> int:
    """How many lines a heading and its entries take; 0 where no entry follows it.

    Args:
        lines: Where each line that is not empty begins, and the line.
        heading_place: The place of the heading among the lines.
    """
    n_lines = 0
    for place in range(heading_place + 1, len(lines)):
        _, line = lines[place]
        if _is_entry(line):
            n_lines = place + 1 - heading_place
        elif line.strip():
            break
    return n_lines


def _is_entry(line: str) -> bool:
    """Whether a line under a heading names a source, and cites none itself."""
    opening = _ENTRY.match(line)
    if opening is None and not _OF_A_BOOK.search(line):
        return _ADDRESS_OR_FILE.search(line) is not None and _is_reference(line)
    if _is_reference(line):
        return True  # "a.pdf [1]"
    text_start = 0 if opening is None else opening.end()
    return MARK.search(line, text_start) is None


def _numbered_entries_at_the_end(answer: str) -> Span | None:
    """Where the last paragraph lists sources; None if it does not.

    It does if each line begins with a number that was cited before, the numbers rise,
    and no line is a sentence or cites anything itself.
    """
    breaks = list(_PARAGRAPH_BREAK.finditer(answer.rstrip()))
    if not breaks:
        return None
    start = breaks[-1].end()
    cited_before = {
        number
        for match in MARK.finditer(answer, 0, start)
        for number in NUMBER.findall(match[0])
    }
    numbers: list[str] = []
    for line in answer[start:].strip().split("\n"):
        entry = _NUMBERED_ENTRY.fullmatch(line)
        is_title = len(line.split()) <= _MOST_WORDS_OF_TITLE
        is_title = is_title and _NO_FULL_STOP.search(line) is not None
        is_sentence = not is_title and not _OF_A_BOOK.search(line)
        if entry is None or is_sentence:
            return None
        numbers.append(entry[1])
    are_cited = cited_before.issuperset(numbers)
    are_in_order = numbers == sorted(set(numbers), key=int)
    return (start, len(answer)) if are_cited and are_in_order else None
