"""Lists of sources in an answer, such as "References:" with entries below it.

A mark in such a list says what the mark means elsewhere; it cites nothing.
"""

import re
from collections.abc import Sequence

from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import (
    LINE,
    LOOKBACK,
    MARK,
    NUMBER,
    SOURCES_HEADING,
    YEAR,
    Span,
)

_HEADING = lazy_pattern(
    rf"[ \t]*(?:\#{{1,6}}[ \t]*)?[*_]{{0,3}}{SOURCES_HEADING}[ \t]*[*_]{{0,3}}"
    r"[ \t]*[:：]?[ \t]*[*_]{0,3}[ \t]*",
    re.IGNORECASE,
)
_LONGEST_HEADING = 60
_ENTRY = lazy_pattern(
    r"[ \t]*(?:[-*•][ \t]+|\d{1,3}[.)][ \t]+)?"
    r"(?:[\[［【]\^?[^\[\]［］【】\n]{1,40}[\]］】]|(?<=[ \t])\S|https?://|[ \t]{2,}\S)"
)
# "Sources:" or "**Sources**:", before entries in the same line
_LABEL_WITH_COLON = (
    rf"[ \t]*[*_]{{0,3}}{SOURCES_HEADING}[ \t]*[*_]{{0,3}}[:：][*_]{{0,3}}"
)
_LABEL_OF_LINE = lazy_pattern(_LABEL_WITH_COLON, re.IGNORECASE)
# "Sources: [1], [2]", in one line
_LISTED_IN_A_LINE = lazy_pattern(
    _LABEL_WITH_COLON + r"(?:[ \t,;&]|and\b|[\[［【][^\[\]［］【】\n]{1,60}[\]］】])+",
    re.IGNORECASE,
)
# "Источники:" and "Used sources:": up to three words of any language
_WORD = r"[^\W\d_][^\s:：.,;!?*_\[\]［］【】]*+"
_WORDS_WITH_COLON = (
    rf"[ \t]*[*_]{{0,3}}(?:{_WORD}[ \t]*+){{1,3}}[*_]{{0,3}}[ \t]*[:：][*_]{{0,3}}"
)
# "[1], [2] и [3]", "- [1]"
_MARKS = (
    r"[ \t]*+(?:[-*•][ \t]+)?(?:[\[［【][^\[\]［］【】\n]{1,60}[\]］】]"
    r"[ \t]*+(?:[,;&、，]|[^\W\d_]{1,3}(?=[ \t]))?[ \t]*+)+[.。*_\r]*+[ \t\r]*"
)
_HEADING_IN_WORDS = lazy_pattern(_WORDS_WITH_COLON + r"[ \t\r]*")
_MARKS_ALONE = lazy_pattern(_MARKS)
_HEADING_AND_MARKS = lazy_pattern(_WORDS_WITH_COLON + _MARKS)
_SOURCE_LABEL = lazy_pattern(
    rf"(?:(?<=[.!?…。][\s*)])|^[ \t]*|(?<=\())(?P<label>[*_]{{0,3}}{SOURCES_HEADING}"
    r"[*_]{0,3}[ \t]*[:：][*_]{0,3}[ \t]*)\Z",
    re.IGNORECASE | re.MULTILINE,
)
_DEFINITION = lazy_pattern(
    r"[ \t]{0,3}(?:\[\^[^\[\]\n]{1,40}\]:"
    r"|\[[^\[\]\n]{1,40}\]:[ \t]*<?(?:https?://|www\.))"
)
# "[3] Title", "[[3]] Title https://a.test"
_NUMBERED_ENTRY = lazy_pattern(
    r"[ \t]*(?:[-*•][ \t]+)?(?:\[(?P<number>\d{1,4})\]|\[\[(?P<in_two_pairs>\d{1,4})\]\])"
    r"[:.]?[ \t]+[^\[\]\s][^\[\]\n]*"
)
# "IEA. (2023). Heat pumps in Norway. [https://iea.org](https://iea.org)"
_LINK_AT_THE_END = lazy_pattern(
    r"(?P<before>[^\[\]\n]+[ \t])\[(?P<text>[^\[\]\n]{1,500})\]"
    r"\((?P<address>(?:https?://|www\.)[^()\s]{1,500})\)[ \t\r.]*"
)
_YEAR_IN_BRACKETS = lazy_pattern(rf"\({YEAR}")
# what stands above a list of sources, in whatever language: "## Källor", "参考資料:"
_ANY_HEADING = lazy_pattern(
    r"[ \t]*(?:\#{1,6}[ \t]*)?[*_]{0,3}[^\W\d_][^\[\]【】:：.,;!?。*_\n]{0,50}[*_]{0,3}"
    r"[ \t]*[:：]?[*_]{0,3}[ \t\r]*"
)
# What a line of a bibliography has, and a sentence hardly: an address, a year in
# brackets, or no full stop.
_OF_A_BOOK = lazy_pattern(rf"https?://|www\.|doi|\({YEAR}")
_MOST_WORDS_OF_TITLE = 6  # with its number
_NO_FULL_STOP = lazy_pattern(r"[^.!?。\s]\s*\Z")
_END_OF_TITLE = lazy_pattern(rf"(?:[^.!?。\s]|,[ \t]{YEAR}\.)\s*\Z")
_BLANK_LINE_BEFORE = lazy_pattern(r"\n[ \t\r]*\n\Z")
_PARAGRAPH_BREAK = lazy_pattern(
    r"\n[ \t\r]*\n(?:[ \t]*[-*_]{3,}[ \t\r]*\n)?|\n[ \t]*[-*_]{3,}[ \t\r]*\n"
)
# What a reference has, and what tells that a line is a sentence after all.
_SIGN_OF_ENTRY = lazy_pattern(r"[ \t]*(?:[-*•][ \t]+|\d{1,3}[.)][ \t]+)?")
_ANY_BRACKET = lazy_pattern(
    r"\[\[[^\[\]\n]{1,60}\]\]:?|[\[［【][^\[\]［］【】\n]{1,60}[\]］】]:?"
)
_ADDRESS_OR_FILE = lazy_pattern(
    r"<?(?:https?://|www\.|doi:)\S+|(?<!\S)\S{1,200}?"  # a bound keeps it linear
    r"\.(?:pdf|docx?|html?|txt|md|csv|xlsx?|pptx?|json)\b",
    re.IGNORECASE,
)
_NUMBER_LAST = lazy_pattern(r"[\[(]\d{1,3}[\])][ \t\r.]*\Z")  # "Annual report [1]"
_WORD_OF_SENTENCE = lazy_pattern(
    r"\b(?:is|are|was|were|be|been|has|have|had|do|does|did|can|could|will|would|may"
    r"|might|must|should|says?|said|shows?|showed|states?|stated|it|they|he|she|we|i"
    r"|you|not|no|ist|sind|war|waren|wurden?|hat|haben|est|sont|était|été|fut|es|son"
    r"|fue|fueron|era|eran|foi|è|sono|fu)\b",
    re.IGNORECASE,
)


def source_lists_in(answer: str) -> list[Span]:
    """Return the spans where an answer lists its sources. A mark there cites nothing.

    Such a list is a heading such as "References:" with the entries below it, or a line
    such as ``[1]: https://a.test``. Only an answer without these may end in a list that
    is known by its entries alone, such as "[1] Annual report" in the last paragraph.
    """
    return _headed_lists_and_definitions(answer) or _entries_at_the_end(answer)


def _headed_lists_and_definitions(answer: str) -> list[Span]:
    """Return the spans of lists with their headings, and of lines that define a mark.

    "References:" and the entries right below it are one span; ``[1]: https://a.test``
    is one by itself.
    """
    lines = [(match.start(), match[0]) for match in LINE.finditer(answer)]
    starts_of_definitions = {start for start, _ in definitions_in(answer)}
    spans: list[Span] = []
    line_index = 0
    while line_index < len(lines):
        start, line = lines[line_index]
        n_lines_of_list = 0
        if start in starts_of_definitions:
            n_lines_of_list = 1
        elif _is_heading(line.strip()):
            n_lines_of_list = _n_lines_of_list(lines, line_index)
        if n_lines_of_list:
            last_start, last_line = lines[line_index + n_lines_of_list - 1]
            spans.append((start, last_start + len(last_line)))
        line_index += max(n_lines_of_list, 1)
    return spans


def _is_heading(line: str) -> bool:
    """Tell whether a line is a heading of a list of sources, such as "References:"."""
    return len(line) <= _LONGEST_HEADING and _HEADING.fullmatch(line) is not None


def definitions_in(answer: str) -> list[Span]:
    """Return the spans of lines that only say what a mark means.

    These are definitions of links and footnotes, such as ``[1]: https://a.test``, a
    paragraph such as "Sources: [1] a.pdf, [2]", and a last line of marks.
    """
    spans = [
        match.span()
        for match in LINE.finditer(answer)
        if _is_definition(match[0].strip(), answer, match.start())
    ]
    lines_of_marks = closing_marks_in(answer)
    # "Sources:" right below a sentence is read with its mark: see ``label_before``
    if lines_of_marks and not _LABEL_OF_LINE.match(answer, lines_of_marks[0][0]):
        return sorted({*spans, *lines_of_marks})
    return spans


def closing_marks_in(answer: str) -> list[Span]:
    r"""Return the spans of the last lines if they are a heading and marks alone.

    "Источники: [1], [2]" names the sources of all that stands before it, in whatever
    language. So do the lines "Источники:", "- [1]" and "- [2]". Empty if nothing stands
    before them, or if a line above has words and marks, too: "Price: [1]" and "Size:
    [2]" each say where one thing stands.

    Examples:
        >>> closing_marks_in("It fell.\nИсточники: [1], [2]")
        [(9, 28)]
    """
    lines = [line for line in LINE.finditer(answer) if line[0].strip()]
    heading_index = len(lines) - 1
    while heading_index > 0 and _MARKS_ALONE.fullmatch(lines[heading_index][0]):
        heading_index -= 1  # "- [2]" and "- [1]": the heading stands above
    if heading_index < 1:
        return []
    heading = lines[heading_index][0]
    has_marks_in_lines_below = heading_index < len(lines) - 1
    if has_marks_in_lines_below:
        is_heading = _HEADING_IN_WORDS.fullmatch(heading) is not None  # "Источники:"
    else:
        is_heading = _is_heading_with_marks(heading)  # "Источники: [1], [2]"
    if not is_heading:
        return []
    if any(_is_heading_with_marks(line[0]) for line in lines[:heading_index]):
        return []  # "Price: [1]", and below it "Size: [2]"
    return [line.span() for line in lines[heading_index:]]


def _is_heading_with_marks(line: str) -> bool:
    """Tell whether a line is some words and marks: "Sources: [1], [2]", "Price: [1]"."""
    return _HEADING_AND_MARKS.fullmatch(line) is not None


def reference_lines_in(answer: str) -> list[Span]:
    """Return the spans of lines that only name sources, and claim nothing.

    These are definitions such as ``[1]: https://a.test``, and the headings and entries of
    lists of sources. An entry that is a sentence ("[1] The report says that it is old.")
    may claim something, so its line is left out.
    """
    lists = source_lists_in(answer)
    spans: list[Span] = []
    for match in LINE.finditer(answer):
        line = match[0].strip()
        is_in_a_list = any(
            start <= match.start() and match.end() <= end for start, end in lists
        )
        if not is_in_a_list:
            continue
        if _HEADING.fullmatch(line) or is_reference(line) or _is_linked_entry(line):
            spans.append(match.span())
    return sorted({*spans, *definitions_in(answer)})


def is_reference(line: str) -> bool:
    """Tell whether a line is a title, a file or an address, and no sentence.

    Such a line has few words beside its marks and addresses, no word such as "is" that
    makes a sentence, and no full stop at its end, except after a year: ", 2003.".
    """
    words = _ANY_BRACKET.sub(" ", _SIGN_OF_ENTRY.sub("", line, count=1))
    title = _ADDRESS_OR_FILE.sub(" x ", words)  # an address counts as one word
    if _WORD_OF_SENTENCE.search(title):
        return False
    is_short = 0 < len(title.split()) <= _MOST_WORDS_OF_TITLE
    return is_short and _END_OF_TITLE.search(title) is not None


def _is_definition(line: str, answer: str, start: int) -> bool:
    """Tell whether a line of an answer only says what marks mean.

    Args:
        line: The line.
        answer: The answer.
        start: Where the line begins in the answer.
    """
    if _DEFINITION.match(line):  # "[1]: https://a.test"
        return True
    # "Sources: [1] a.pdf, [2]" has to begin a paragraph
    before = answer[max(0, start - LOOKBACK) : start]
    begins_paragraph = _BLANK_LINE_BEFORE.search(before) or not before.strip()
    if not begins_paragraph:
        return False
    return _LISTED_IN_A_LINE.fullmatch(line) is not None or _lists_references(line)


def _lists_references(line: str) -> bool:
    """Tell whether a line looks like "Sources: [1] a.pdf, [2] b.pdf"."""
    label = _LABEL_OF_LINE.match(line)
    if label is None or not _ANY_BRACKET.search(line, label.end()):
        return False
    # the full stop at the line's end belongs to no entry
    listed = line[label.end() :].rstrip(" .")
    entries = re.split(rf"[,;]|{_ANY_BRACKET.pattern}", listed)
    return all(is_reference(entry) for entry in entries if entry.strip(" .*_&"))


def label_before(answer: str, start: int) -> int:
    """Return where a word such as "Source:" begins that stands right before a mark.

    The word has to stand after a sentence or at the beginning of a line. Without such a
    word the mark's own start is returned.

    Args:
        answer: The answer.
        start: Where the mark begins.
    """
    label = _SOURCE_LABEL.search(answer, max(0, start - LOOKBACK), start)
    return start if label is None else label.start("label")


def _n_lines_of_list(lines: Sequence[tuple[int, str]], heading_index: int) -> int:
    """Count the lines of a heading and the entries below it; 0 if no entry follows.

    Args:
        lines: The lines that are not empty, each with where it begins in the answer.
        heading_index: The index of the heading in ``lines``.
    """
    n_lines = 0
    for index in range(heading_index + 1, len(lines)):
        _, line = lines[index]
        if _is_entry(line):
            n_lines = index + 1 - heading_index
        elif line.strip():
            break  # a line of blanks may stand between entries; any other ends the list
    return n_lines


def _is_entry(line: str) -> bool:
    """Tell whether a line under a heading names a source, and cites none itself."""
    # "- ", "1. " or "[1]" at the beginning of an entry
    opening = _ENTRY.match(line)
    if opening is None and not _OF_A_BOOK.search(line):
        names_a_source = _ADDRESS_OR_FILE.search(line) or _NUMBER_LAST.search(line)
        return names_a_source is not None and is_reference(line)
    if is_reference(line) or _is_linked_entry(line):
        return True  # "a.pdf [1]"
    text_start = 0 if opening is None else opening.end()
    cites = MARK.search(line, text_start) is not None  # "1. It is old [2]."
    return not cites


def _is_linked_entry(line: str) -> bool:
    """Tell whether a line is a bibliographic entry that ends in the link of its source.

    "IEA. (2023). Heat pumps in Norway. [iea.org](https://iea.org)" is one by its year,
    and "Heat pumps in Norway. [https://iea.org](https://iea.org)" by a link that shows
    nothing but its address. A link in round brackets cites for a sentence, and a number
    in brackets may cite: "It is cheap (2023). [2](https://iea.org)".
    """
    entry = _LINK_AT_THE_END.fullmatch(line)
    if entry is None or NUMBER.fullmatch(entry["text"].strip()):
        return False
    if _YEAR_IN_BRACKETS.search(entry["before"]):
        return True
    shows_its_address = entry["text"].strip() == entry["address"]
    return shows_its_address and not _WORD_OF_SENTENCE.search(entry["before"])


def _entries_at_the_end(answer: str) -> list[Span]:
    """Return the span of the list of sources that an answer ends in; [] without one.

    It is the last paragraph, if each of its lines is an entry. Its first line may be
    a heading of any words. Entries have numbers that rise (1, 2, 4), and the text before
    cites each ("It is old [1] [2] [4]."), or they end in links, as in a bibliography. A
    numbered entry is a short title, "[1] Annual report", or has an address, "doi" or a
    year in brackets. A sentence is no entry.
    """
    breaks = list(_PARAGRAPH_BREAK.finditer(answer.rstrip()))
    if not breaks:
        return []
    start = breaks[-1].end()
    lines = answer[start:].strip().split("\n")
    has_heading = len(lines) > 1 and _ANY_HEADING.fullmatch(lines[0]) is not None
    entries = lines[1:] if has_heading else lines
    if all(map(_is_linked_entry, entries)) or _are_numbered_entries(
        entries, answer[:start]
    ):
        return [(start, len(answer))]
    return []


def _are_numbered_entries(lines: Sequence[str], text_before: str) -> bool:
    """Tell whether lines are entries of rising numbers, each cited in the text before."""
    cited_numbers: set[str] = set()
    for mark in MARK.finditer(text_before):
        cited_numbers.update(NUMBER.findall(mark[0]))
    numbers: list[str] = []
    for line in lines:
        number = _number_of_entry(line)
        if number is None:
            return False
        numbers.append(number)
    are_cited = cited_numbers.issuperset(numbers)
    do_rise = numbers == sorted(set(numbers), key=int)  # and none stands there twice
    return are_cited and do_rise


def _number_of_entry(line: str) -> str | None:
    """Return the number of an entry such as "[3] Annual report"; None for other lines.

    It may stand in two pairs of brackets: "[[3]] Annual report".
    """
    entry = _NUMBERED_ENTRY.fullmatch(line)
    if entry is None or not _is_title_or_book(line):
        return None
    number: str = entry["number"] or entry["in_two_pairs"]
    return number


def _is_title_or_book(line: str) -> bool:
    """Tell whether a numbered line is a short title or a bibliographic entry.

    Any other line is taken for a sentence, which may claim something.
    """
    if _OF_A_BOOK.search(line):  # an address, "doi", or a year in brackets
        return True
    is_short = len(line.split()) <= _MOST_WORDS_OF_TITLE
    return is_short and _NO_FULL_STOP.search(line) is not None
