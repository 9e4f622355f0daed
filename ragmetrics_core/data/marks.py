"""Marks of citations such as ``[1]``: which are read, and what else may cite.

What marks look like stands in ``mark_patterns``. A form that is not read is known as one
that may cite, so that nobody takes it for "cites nothing".
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragmetrics_core.data.mark_patterns import (
    LOOKBACK,
    MARK,
    MAY_BE_A_MARK,
    NUMBER,
    SOURCE_WORD,
    SOURCES_HEADING,
    UNREAD,
    Span,
)
from ragmetrics_core.data.source_lists import source_lists_in

WIDEST_RANGE = 100
"""Most numbers that a range such as ``[1-3]`` may span.

A wider one names no sources: it is dangling as a whole.
"""

Numbering = Mapping[str, int | tuple[int, ...]]
"""By label the place of the context that it names; several places where they share it."""

PLAIN_NUMBERS: Numbering = {"1": 0}
"""What a numbering is like in an answer of which nobody knows the numbering."""

# What a label may begin with, and what is no part of it: "Source 1", "citation:a-7".
_PREFIX = re.compile(
    rf"{SOURCE_WORD}[ \t]*(?:(?:ids?|no|numbers?)\b)?"
    r"(?:[ \t:#=\-]*(?=[0-9])|[ \t]*[:#=]+[ \t]*|[ \t]+)",
    re.IGNORECASE,
)
_AROUND_LABEL = " \t\"'`*#"
_WITHOUT_BRACKETS = str.maketrans("", "", "[]")
_RANGE = re.compile(r"(\d{1,9})\s*[-–]\s*(\d{1,9})")
_SEPARATOR = re.compile(r"[,，、&]|\band\b")
_NUMBER_AND_NAME = re.compile(r"([0-9]{1,4})[ \t]*[:|(–-]")
# Where in a source something stands: ", p. 3" of "[2, p. 3]".
_LOCATOR = re.compile(
    r"(?<![\s,:])(?:[\s,:]++"
    r"(?:pp?|pages?|pgs?|s|seiten?|sect?|sections?|§{1,2}|ch|chap|chapters?|paras?"
    r"|paragraphs?|ll?|lines?|figs?|figures?|tables?|vols?|volumes?)\.?\s*"
    r"\d{1,5}[a-z]?(?:\s*[-–—]\s*\d{1,5})?)+\s*\Z",
    re.IGNORECASE,
)
# Numbers in brackets that are what the text is about, and no labels.
_YEARS = re.compile(r"\s*(?:1\d|2[01])\d\d(?:\s*[-–—,;]\s*(?:1\d|2[01])\d\d)*\s*")
_INTERVAL = re.compile(r"\s*0\s*,\s*\d+\s*")
_MEASURES = re.compile(r"(?=.*(?:\d\.\d|[+−%°]|(?:^|,)\s*-))[\s\d.,;+−–%°-]+")
# An index stands close behind a name, in a formula; a list or a class of signs as well.
# A "+" close behind a word is a part of it: "C++", "18+". One that begins a line is a
# sign of a list.
_OPERATOR_BEFORE = re.compile(
    r"(?:=\s*(?:[^\W\d]\w*)?|\S[ \t]+\+\s*\w*|\w\+[^\W\d]\w*|\d\]\+)\Z"
)
_OPERATOR_BEHIND = re.compile(r"\s*[=+]|\{")
_NO_LINE_END = re.compile(r"[^\n]")
# The address of a link, which may be what the prompt names a source by.
_LINK = re.compile(r"\(([^()\s]{1,500})\)")
# Brackets in code are indices.
_CODE = re.compile(r"```.*?```|~~~.*?~~~|`[^`\n]*`", re.DOTALL)
# A fence around a whole answer, of which it says that it is text.
_OPENING_FENCE = re.compile(
    r"\s*(?:```|~~~)(?:markdown|md|text|txt|plaintext)?[ \t]*\r?\n"
)
# A part of an answer in a fence that says that it is text.
_FENCED_TEXT = re.compile(
    r"^(?P<opening>[ \t]*(?P<fence>```|~~~)(?:(?P<is_read>markdown|md)|text|txt|plaintext)"
    r"[ \t\r]*)\n(?P<inner>(?:(?![ \t]*(?:```|~~~))[^\n]*\n)*+)"
    r"(?P<closing>[ \t]*(?P=fence))[ \t\r]*$",
    re.MULTILINE,
)
_CLOSING_FENCE = re.compile(r"\n[ \t]*(?:```|~~~)\s*\Z")

_IN_FIRST_BRACKET = re.compile(r"\W*[(（][^()（）]*")
_WORDS_OF_SENTENCE = re.compile(
    r"\s*(?!https?:|www\.|doi:)[^\W\d⁰¹²³⁴-⁹①-⒇❶-➓]", re.IGNORECASE
)

# A column of a table that names sources, and a cell of it that cites without brackets.
_HEADING_OF_COLUMN = re.compile(rf"(?:{SOURCES_HEADING}|refs?\.?)", re.IGNORECASE)
_NUMBERS_ALONE = re.compile(r"\d{1,3}(?:[ \t]*[,;&][ \t]*\d{1,3})*")
_AROUND_CELL = " \t\r*_"


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark in an answer, such as ``[1, 2]``.

    Args:
        start: Where its bracket opens.
        end: The place behind the bracket that closes.
        labels: What stands inside, each label once; a range as its numbers, or as a
            whole where it is too wide or runs backwards.
    """

    start: int
    end: int
    labels: tuple[str, ...]


def marks_in(answer: str, numbering: Numbering | None = None) -> list[Mark]:
    """List the marks of an answer in order.

    ``[1]``, ``[1, 2]``, ``[1;2]``, ``[1-3]``, ``[1, p. 3]`` and ``【1†source】`` are
    marks, and so are these with wide brackets or the digits of other scripts. So are
    ``[Source 1]``, ``(Document 1)``, ``[[1]]`` and ``[citation:a-7]``, a link to an
    address that is a label of the numbering, and a bracket that holds nothing but
    labels of the numbering.

    No marks are brackets in code, indices such as ``a[1]``, years and intervals that
    are no labels of the numbering, and what stands in a list of sources.

    Args:
        answer: Any text.
        numbering: Labels that are marks beside the numbers.
    """
    known = {} if numbering is None else numbering
    text = _blank(answer, [*_spans_of_code(answer), *source_lists_in(answer)])
    shapes = _shapes_of_labels(known)
    marks: list[Mark] = []
    for match in MARK.finditer(text):
        inside = _inside_of(match)
        if _is_content(match, text, known):
            continue
        labels = _labels(inside, known, is_provided=match["provided"] is not None)
        if not labels and shape_of_label(plain_label(inside)) in shapes:
            labels = (plain_label(inside),)
        mark = Mark(match.start(), match.end(), labels)
        # The address of a link may be a label where the words in its brackets are none.
        link = _link_to_a_label(mark, answer, known)
        if link is not None or labels:
            marks.append(link or mark)
    return marks


def may_cite(answer: str) -> bool:
    """Whether an answer holds anything that may cite, in whatever form."""
    if marks_in(answer) or source_lists_in(answer):
        return True
    text = _without_content(answer, {})
    if UNREAD.search(text) or MAY_BE_A_MARK.search(text):
        return True
    if _has_column_of_numbers(text):
        return True
    # A whole answer may stand in a fence, as code does, or be a reply in JSON.
    return any(
        marks_in(answer[start:end].strip("`~")) for start, end in _spans_of_code(answer)
    )


def has_unread_marks(answer: str, numbering: Numbering, read: Sequence[Span]) -> bool:
    """Whether an answer cites in a form that is not read, beside marks that are.

    Args:
        answer: The answer.
        numbering: The labels that marks were read by.
        read: Where these marks stand.
    """
    if _has_column_of_numbers(answer):
        return True
    for match in _FENCED_TEXT.finditer(answer):
        # It may be a text that cites, or what a program has printed.
        if (
            not match["is_read"]
            and not fences_around(answer)
            and marks_in(match["inner"])
        ):
            return True
    return UNREAD.search(_blank(_without_content(answer, numbering), read)) is not None


def _has_column_of_numbers(answer: str) -> bool:
    """Whether a row of a table has numbers alone in a column such as "Source".

    A row with a mark has said what it cites.
    """
    column: int | None = None  # where it stands in its row
    for line in answer.split("\n"):
        cells = [cell.strip(_AROUND_CELL) for cell in line.strip(" \t\r|").split("|")]
        if len(cells) == 1:
            column = None  # the table has ended
        elif column is None:
            headings = [_HEADING_OF_COLUMN.fullmatch(cell) for cell in cells]
            places = [place for place, heading in enumerate(headings) if heading]
            column = places[0] if places else None
        elif column < len(cells):
            is_number_alone = _NUMBERS_ALONE.fullmatch(cells[column]) is not None
            if is_number_alone and MARK.search(line) is None:
                return True
    return False


def doubtful_forms_in(answer: str, read: Sequence[Span]) -> list[Span]:
    """Where something stands in an answer that may cite, and may be something else.

    Such forms are a link, "(3)", "source 2" and words in brackets.

    Args:
        answer: The answer.
        read: Where the marks stand that were read.
    """
    text = _blank(_without_content(answer, PLAIN_NUMBERS), read)
    return [match.span() for match in MAY_BE_A_MARK.finditer(text)]


def may_be_of_sentence_before(form: str, before: str) -> bool:
    """Whether a form at a sentence's beginning may belong to the sentence before.

    It may in brackets, and where it is no word of the sentence, such as ``[Book A]``.

    Args:
        form: What may cite.
        before: What stands before it in its sentence.
    """
    if _IN_FIRST_BRACKET.fullmatch(before):
        return True
    is_first = re.search(r"\w", before) is None
    return is_first and _WORDS_OF_SENTENCE.match(form) is None


def has_word_outside_marks(text: str) -> bool:
    """Whether a text has a letter or digit that stands in no bracket of a mark."""
    return re.search(r"\w", MARK.sub("", text)) is not None


def fences_around(answer: str) -> list[Span]:
    """Where fences around text open and close, within which marks are read.

    Such is the fence around a whole answer, and one around a part of it that says that
    it is Markdown. One that does not close belongs to a reply that was cut off.
    """
    opening = _OPENING_FENCE.match(answer)
    whole = [] if opening is None else _fence_around_all(answer, opening)
    if whole:
        return whole
    spans: list[Span] = []
    for match in _FENCED_TEXT.finditer(answer):
        if match["is_read"]:
            spans += [match.span("opening"), match.span("closing")]
    return spans


def _fence_around_all(answer: str, opening: re.Match[str]) -> list[Span]:
    """Where a fence that an answer begins with opens and closes; [] if it ends before."""
    closing = _CLOSING_FENCE.search(answer, opening.end() - 1)
    if closing is None:
        return [opening.span()] if "```" not in answer[opening.end() :] else []
    inner = answer[opening.end() : closing.start()]
    has_other_fences = "```" in inner or "~~~" in inner
    return [] if has_other_fences else [opening.span(), closing.span()]


def _without_content(answer: str, numbering: Numbering) -> str:
    """An answer with blanks for code, lists of sources, and brackets that are content."""
    text = _blank(answer, [*_spans_of_code(answer), *source_lists_in(answer)])
    spans = [
        match.span()
        for match in MARK.finditer(text)
        if _is_content(match, text, numbering)
    ]
    return _blank(text, spans)


def _spans_of_code(answer: str) -> list[Span]:
    """Where code stands in an answer; an answer in a fence of its own is none."""
    inner = answer
    for start, end in fences_around(answer):
        inner = f"{inner[:start]}{' ' * (end - start)}{inner[end:]}"
    return [match.span() for match in _CODE.finditer(inner)]


def _blank(text: str, spans: Iterable[Span]) -> str:
    """A text with a blank for each sign of some parts, so that places stay.

    Ends of lines stay as well.
    """
    pieces: list[str] = []
    end_of_last = 0
    for start, end in sorted(spans):
        start = max(start, end_of_last)
        if start < end:
            pieces.append(text[end_of_last:start])
            pieces.append(_NO_LINE_END.sub(" ", text[start:end]))
            end_of_last = end
    pieces.append(text[end_of_last:])
    return "".join(pieces)


def _is_content(match: re.Match[str], text: str, numbering: Numbering) -> bool:
    """Whether a bracket is a part of the text, and cites no source.

    Such brackets are an index (``a[1]``), a measure (``[-1, 0.5]``), a year
    (``[2020]``) and an interval from 0 (``[0, 1]``).

    Args:
        match: A bracket that looks like a citation.
        text: The text that it stands in.
        numbering: The labels of the sources; empty if they are not known.
    """
    inside = match["listed"]
    if inside is None:  # another kind of bracket, such as 【1】, holds sources alone
        return False
    before = text[max(0, match.start() - LOOKBACK) : match.start()]
    is_in_formula = _OPERATOR_BEFORE.search(before) or _OPERATOR_BEHIND.match(
        text, match.end()
    )
    if is_in_formula or _MEASURES.fullmatch(inside):
        return True
    if _YEARS.fullmatch(inside):
        # a source may be numbered so high
        has_labels_like_years = any(
            re.fullmatch(r"\d{4}", label) for label in numbering
        )
        return not has_labels_like_years
    if _INTERVAL.fullmatch(inside):
        # [0, 1] cites two sources if one is numbered 0, or may be; else it is a range
        may_cite_0 = not numbering or "0" in numbering
        return not may_cite_0
    return False


def _inside_of(match: re.Match[str]) -> str:
    """What stands in the brackets of a mark; ``1-3`` of ``[1]-[3]``."""
    inside: str = next(filter(None, match.groupdict().values()))
    return inside.translate(_WITHOUT_BRACKETS) if match["spread"] else inside


def _link_to_a_label(
    mark: Mark, answer: str, known: Mapping[str, object]
) -> Mark | None:
    """The link ``[words](address)`` whose words stand in the brackets of a mark.

    None if it is no link, if its address is no label, or if its words name a label by
    themselves.
    """
    address = _LINK.match(answer, mark.end)
    if address is None or address[1] not in known:
        return None
    if any(label in known for label in mark.labels):
        return None
    return Mark(mark.start, address.end(), (address[1],))


def _labels(
    inside: str, known: Mapping[str, object], *, is_provided: bool
) -> tuple[str, ...]:
    """The labels inside of a bracket; () if it is no mark.

    Args:
        inside: What stands in the bracket.
        known: The labels of the numbering, which may be any words.
        is_provided: Whether the bracket is one that only providers write, ``【】``. What
            stands in it is a label, whatever it is.
    """
    if inside.strip() in known:
        return (inside.strip(),)
    whole = plain_label(inside)
    if whole in known:
        return (whole,)
    parts = list(_parts_without_locators(inside))
    are_numbers = all(NUMBER.fullmatch(plain_label(part)) for part in parts)
    if is_provided and not are_numbers and not _RANGE.fullmatch(whole):
        # Words alone, as in 【注意】, head a paragraph.
        return (whole,) if re.search(r"[\d._]", whole) else ()
    labels: list[str] = []
    for part in parts:
        label = plain_label(part)
        if label in known or NUMBER.fullmatch(label):
            labels.append(label)
        elif numbers := _RANGE.fullmatch(label):
            labels += _numbers_of_range(label, int(numbers[1]), int(numbers[2]))
        else:
            return _label_of_a_named_source(inside)
    return tuple(dict.fromkeys(labels))


def _parts_without_locators(inside: str) -> Iterator[str]:
    """What commas and their like separate in a bracket, without pages and sections."""
    for group in re.split("[;；]", inside):
        yield from _SEPARATOR.split(_LOCATOR.sub("", group))


def _label_of_a_named_source(inside: str) -> tuple[str, ...]:
    """The one label of a bracket that says that it names a source; () for any other.

    Of ``Source 2: report.pdf`` it is the number. A name with a comma may be several, so
    that it is none.
    """
    named = _PREFIX.match(inside.strip(_AROUND_LABEL))
    whole = plain_label(inside)
    if named is None or not whole or not re.search(r"[:#=0-9]", named[0] + whole[0]):
        return ()
    numbered = _NUMBER_AND_NAME.match(whole)
    if numbered is not None:
        return (_plain_number(numbered[1]),)
    return () if re.search("[,;]", whole) else (whole,)


def plain_label(text: str) -> str:
    """A label without what may stand around it: ``1`` of ``Source 01``, ``a`` of ``doc: "a"``."""
    label = " ".join(text.split()).strip(_AROUND_LABEL)
    prefix = _PREFIX.match(label)
    if prefix is not None:
        label = label[prefix.end() :].strip(_AROUND_LABEL) or label
    return _plain_number(label)


def is_number(label: str) -> bool:
    """Whether a label is a number, as those of sources are."""
    return NUMBER.fullmatch(label) is not None


def is_range(label: str) -> bool:
    """Whether a label is a range that names no numbers: too wide, or backwards."""
    return _RANGE.fullmatch(label) is not None


def is_like_labels(label: str, numbering: Numbering) -> bool:
    """Whether a label that names no source looks as the labels of a numbering do.

    It then names a source that nobody was shown. Any other label may be another name of
    a source that was shown. Numbers and ranges of numbers always look so.
    """
    if is_number(label) or is_range(label):
        return True
    return shape_of_label(label) in _shapes_of_labels(numbering)


def _shapes_of_labels(labels: Iterable[str]) -> set[str]:
    """The shapes that some labels have."""
    shapes = (shape_of_label(label) for label in labels)
    return {shape for shape in shapes if shape is not None}


def shape_of_label(label: str) -> str | None:
    """What a label has in common with others of its kind; None for one of words.

    So ``[S9]`` and ``[x.pdf]`` are marks beside ``[S1]`` and ``[a.pdf]``, although
    nothing was shown under them.
    """
    if re.fullmatch(r"[A-Z]", label):
        return "a letter"
    if re.fullmatch(r"\S+\.[A-Za-z]{2,5}", label):
        return "a file"
    has_letter = re.search(r"[^\W\d_]", label) is not None
    if has_letter and re.search(r"[0-9]", label) and not re.search(r"\s", label):
        return re.sub(r"[0-9]+", "#", label)
    return None


def _plain_number(label: str) -> str:
    """A number without leading zeros, in the digits 0 to 9; any other label as it is."""
    return str(int(label)) if NUMBER.fullmatch(label) else label


def _numbers_of_range(label: str, first: int, last: int) -> list[str]:
    """The numbers of a range; of one that is too wide or backwards the label itself."""
    if not first <= last < first + WIDEST_RANGE:
        return [label]
    return [str(number) for number in range(first, last + 1)]
