"""Marks of citations such as ``[1]``: which are read, and what else may cite.

What marks look like stands in ``mark_patterns``. A form that is not read is known as one
that may cite, so that nobody takes it for "cites nothing".
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragmetrics_core.data.answer_parts import (
    FENCED_TEXT,
    fences_around,
    names_of_code,
    spans_of_code,
    start_of_open_reasoning,
    without_reasoning,
)
from ragmetrics_core.data.code_brackets import (
    indexed_names_in,
    is_in_formula,
    may_be_of_code,
    names_sources,
)
from ragmetrics_core.data.label_shapes import (
    NUMBER_AND_NAME,
    SHAPE_OF_FILE_AND_PAGE,
    SHAPE_OF_FILES,
    SHAPE_OF_KEY_WITH_PAGES,
    frames_of_ids_in,
    is_key_with_pages,
    shape_of_label,
    shapes_of_labels,
)
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import (
    AND_WORD,
    LOOKBACK,
    MARK,
    MAY_BE_A_MARK,
    NUMBER,
    PAGE_WORD,
    SOURCE_WORD,
    SOURCES_HEADING,
    UNREAD,
    Span,
    blank,
)
from ragmetrics_core.data.source_lists import source_lists_in

WIDEST_RANGE = 100
"""Most numbers that a range such as ``[1-3]`` may span.

A wider one names no sources: it is dangling as a whole.
"""

Numbering = Mapping[str, int | tuple[int, ...]]
"""By label the place of the context that it names; several places where they share it."""

PLAIN_NUMBERS: Numbering = {"1": 0}
"""Stands for the numbering of an answer whose numbering nobody knows."""

# What a label may begin with, and what is no part of it: "Source 1", "citation:a-7".
_PREFIX = lazy_pattern(
    rf"{SOURCE_WORD}[ \t]*(?:(?:ids?|no|numbers?)\b)?"
    r"(?:[ \t:#=\-]*(?=[0-9])|[ \t]*[:#=]+[ \t]*|[ \t]+)"
    r"|(?:ids?[ \t]*[:#=]?|n[or](?:\.|[ \t])|n[°º]|№)[ \t]*(?=[0-9]{1,3}(?![0-9]))",
    re.IGNORECASE,
)
_AROUND_LABEL = " \t\"'`*#^"
# "[4]" of the field {"sources": ["[4]"]}, "${4}" of "[${4}]"
_LABEL_IN_SIGNS = lazy_pattern(
    r"\[(?P<square>[^\[\]]+)\]|【(?P<lenticular>[^【】]+)】"
    r"|\$?\{(?P<curly>[^{}]+)\}"
)
# "chunk_id: 7"
_KEY_AND_NUMBER = lazy_pattern(
    r"(?P<key>[A-Za-z][\w -]{0,40}?)[ \t]*[:=][ \t]*#?(?P<number>[0-9]{1,9})"
)
_WITHOUT_BRACKETS = str.maketrans("", "", "[]")
_RANGE = lazy_pattern(r"(?P<first>\d{1,9})\s*[-–]\s*(?P<last>\d{1,9})")
# "S1-S3", "Source 1 - Source 3"
_RANGE_OF_LABELS = lazy_pattern(
    r"(?P<letters>.{0,39}?\D)(?P<first>\d{1,9})"
    r"\s*[-–]\s*(?P=letters)(?P<last>\d{1,9})",
    re.IGNORECASE,
)
_SEPARATOR = lazy_pattern(
    rf"[,，、&](?:\s*\b{AND_WORD}(?=\s))?|(?<=\s){AND_WORD}(?=\s)"
)
_NUMBER_AND_TITLE = lazy_pattern(r"([0-9]{1,4})[ \t]*[:|][ \t]*[^\W\d_]\w")
# Where in a source something stands: ", p. 3" of "[2, p. 3]", "#page=3" of "[a.pdf#page=3]",
# " (page 3)".
_LOCATOR = lazy_pattern(
    r"(?<![\s,:#(])(?:[\s,:#(]++"
    rf"(?:{PAGE_WORD}|s|sect?|sections?|§{1, 2}|ch|chap|chapters?|paras?"
    r"|paragraphs?|ll?|lines?|figs?|figures?|tables?|vols?|volumes?)\.?\s*[:=]?\s*"
    r"\d{1,5}[a-z]?(?:\s*[-–—]\s*\d{1,5})?)+\)?\s*\Z",
    re.IGNORECASE,
)
# Numbers in brackets that are what the text is about, and no labels.
_YEARS = lazy_pattern(r"\s*(?:1\d|2[01])\d\d(?:\s*[-–—,;]\s*(?:1\d|2[01])\d\d)*\s*")
_INTERVAL_FROM_0 = lazy_pattern(r"\s*0\s*,\s*\d+\s*")
_DECIMALS_OR_UNITS = lazy_pattern(
    r"(?=.*(?:\d\.\d|[+−%°]|(?:^|,)\s*-))[\s\d.,;+−–%°-]+"
)
# The address of a link, which may be what the prompt names a source by.
_LINK = lazy_pattern(r"\(<?([^()<>\s]{1,500})>?(?:[ \t]+[\"'][^\"'\n]{0,200}[\"'])?\)")
# The target of a link that names no source: "#", "#sources", "#references", "CITE".
_TARGET_OF_NO_SOURCE = lazy_pattern(
    rf"#|#?(?:{SOURCES_HEADING}|{SOURCE_WORD}|notes?)", re.IGNORECASE
)
_ENDING_OF_FILE = lazy_pattern(r"\.[a-z][a-z0-9]{1,4}\Z")
_WEB_ADDRESS = lazy_pattern(r"https?://|www\.", re.IGNORECASE)
# "[Colour Guide]", and not the link "[Colour Guide](…)"
_TITLE = lazy_pattern(r"\[(?P<first>[^\W\d_])[^\[\]\n]{2,80}\](?![(:\[])")
_NAME_BEFORE = lazy_pattern(r"(?<!\w)[^\W\d]\w*\Z")
_IN_FIRST_BRACKET = lazy_pattern(r"\W*[(（][^()（）]*")
_WORDS_OF_SENTENCE = lazy_pattern(
    r"\s*(?!https?:|www\.|doi:)[^\W\d⁰¹²³⁴-⁹①-⒇❶-➓]", re.IGNORECASE
)

# "[^1]: report.pdf"
_FOOTNOTE = lazy_pattern(
    r"(?P<in_a_line_of_its_own>^[ \t]{0,3})?(?P<mark>\[\^[^\[\]\n]{1,40}\]):"
    r"(?P<text>[^\n]*)(?P<goes_on>\n[ \t]+\S)?",
    re.MULTILINE,
)

# A column of a table that names sources, and a cell of it that cites without brackets.
_HEADING_OF_COLUMN = lazy_pattern(rf"(?:{SOURCES_HEADING}|refs?\.?)", re.IGNORECASE)
_NUMBERS_ALONE = lazy_pattern(r"\d{1,3}(?:[ \t]*[,;&][ \t]*\d{1,3})*")
_AROUND_CELL = " \t\r*_"


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark in an answer, such as ``[1, 2]``.

    Args:
        start: Where its bracket opens.
        end: The place after the bracket that closes.
        labels: What stands inside, each label once; a range as its numbers, or as a
            whole where it is too wide or runs backwards.
        written: What names its sources, as the answer writes it: "[2, p. 3]"; for
            "[^1]" the text of the footnote.
    """

    start: int
    end: int
    labels: tuple[str, ...]
    written: str = ""


def marks_in(answer: str, numbering: Numbering | None = None) -> list[Mark]:
    """List the citation marks of an answer, in order, each with its labels.

    Marks are numbers in brackets (``[1, 2]``, ``[1-3]``, ``【1†source】``), named sources
    (``[Source 1]``, ``(Document 1)``), and labels of the numbering: in brackets
    (``[a.pdf]``) or as the address of a link (``[the report](a.pdf)``). A bracket that
    looks like such a label counts, too: ``[b.pdf]`` beside ``a.pdf``. Code, formulas,
    years, lists of sources, and reasoning such as ``<think>…</think>`` hold no marks.

    Args:
        answer: Any text.
        numbering: The labels of the contexts. None: only numbers and named sources are
            marks.
    """
    known = {} if numbering is None else numbering
    answer = without_reasoning(answer)
    footnotes = _footnotes_in(answer)
    marks: list[Mark] = []
    for bracket in _brackets_that_may_be_marks(answer, known):
        mark = _mark_of(bracket, footnotes, known)
        marked_link = _mark_named_by_address(mark, answer, known)
        if marked_link is not None:  # "[the report](a.pdf)": one mark with its address
            marks.append(marked_link)
        elif mark.labels:
            marks.append(mark)
    return marks


def _brackets_that_may_be_marks(
    answer: str, known: Numbering
) -> Iterator[re.Match[str]]:
    """Yield the brackets of an answer, without those that cite nothing.

    Brackets in code, in formulas and in lists of sources cite nothing, nor does
    "[2019]", which is a year. "[1]" of "sys.argv[1]" may be an index: it is no mark.
    """
    code = spans_of_code(answer)
    names_in_code = names_of_code(answer, code)
    # whether a reasoning that is never closed goes over into the answer, nobody knows
    open_reasoning = (start_of_open_reasoning(answer), len(answer))
    # as long as the answer, with blanks in place of what holds no marks
    text = blank(answer, [*code, *source_lists_in(answer), open_reasoning])
    indexed_names = indexed_names_in(text)
    for bracket in MARK.finditer(text):
        cites_nothing = _cites_nothing(bracket, text, known, names_in_code)
        if not cites_nothing and not may_be_of_code(bracket, text, indexed_names):
            yield bracket


def _mark_of(
    bracket: re.Match[str], footnotes: Mapping[str, str], known: Numbering
) -> Mark:
    """Return the mark that a bracket is, with its labels; they are () for other words.

    "[^1]" names what the text of its footnote names.

    Args:
        bracket: The bracket.
        footnotes: The text of each footnote, by its mark, ``{"[^1]": "report.pdf"}``.
        known: The labels of the contexts.
    """
    if bracket[0] in footnotes:
        written = footnotes[bracket[0]]
        labels = _labels_of_footnote(written, known)
    else:
        written = bracket[0].replace("\\", "")  # "[1]" for an escaped bracket
        labels = _labels_in(bracket, known)
    return Mark(bracket.start(), bracket.end(), labels, written)


def _footnotes_in(answer: str) -> dict[str, str]:
    """Return the texts of an answer's footnotes, by their marks; "" for one that is not read.

    "[^1]: report.pdf" gives ``{"[^1]": "report.pdf"}``.
    """
    footnotes: dict[str, str] = {}
    for found in _FOOTNOTE.finditer(answer):
        is_second = found["mark"] in footnotes
        is_one_line = found["in_a_line_of_its_own"] is not None and not found["goes_on"]
        is_read = is_one_line and not is_second
        footnotes[found["mark"]] = found["text"].strip() if is_read else ""
    return footnotes


def _labels_of_footnote(text: str, known: Numbering) -> tuple[str, ...]:
    """Return the names of sources that a footnote's text is; () for any other words.

    "report.pdf, p. 3" is a name beside the known "report.pdf"; "By our estimate." is
    none, and neither is a number: it may count anything.
    """
    labels = labels_in_words(text.strip(" .*_"), known)
    shapes = shapes_of_labels(known)
    are_names = all(
        not is_number(label) and (label in known or shape_of_label(label) in shapes)
        for label in labels
    )
    return labels if are_names else ()


def _labels_in(bracket: re.Match[str], known: Numbering) -> tuple[str, ...]:
    """Return the labels in a bracket, also one that only looks like a known label."""
    is_provided = bracket["provided"] is not None
    return labels_in_words(_inside_of(bracket), known, is_provided=is_provided)


def may_cite(answer: str) -> bool:
    """Tell whether an answer has anything that may be a citation, in whatever form."""
    answer = without_reasoning(answer)
    if marks_in(answer) or source_lists_in(answer):
        return True
    text = _blank_what_cites_nothing(answer, {})
    if UNREAD.search(text) or MAY_BE_A_MARK.search(text):
        return True
    if _has_column_of_numbers(text):
        return True
    # A whole answer may stand in a fence, as code does, or be a reply in JSON.
    return any(
        marks_in(answer[start:end].strip("`~")) for start, end in spans_of_code(answer)
    )


def has_unread_marks(
    answer: str, numbering: Numbering, spans_read: Sequence[Span]
) -> bool:
    """Tell whether an answer also cites in a form whose labels are not read: ``[see 2]``.

    Args:
        answer: The answer.
        numbering: The labels of the contexts.
        spans_read: The spans of the marks whose labels are read.
    """
    answer = without_reasoning(answer)
    if _has_column_of_numbers(answer) or _has_marks_in_fenced_text(answer):
        return True
    text = _blank_what_cites_nothing(answer, numbering)
    # "sys.argv[1]" may be code, or a citation after a name. It makes its own sentence
    # doubtful, which is told elsewhere, and must not make the whole answer so.
    text = blank(text, [*spans_read, *_spans_of_possible_indices(text)])
    if UNREAD.search(text):
        return True
    marks_read = [answer[start:end] for start, end in spans_read]
    return _has_brackets_like_marks(text, marks_read)


def _has_brackets_like_marks(text: str, marks: Iterable[str]) -> bool:
    """Tell whether a text has brackets of the same look as one of some marks.

    "[Colour Guide]" is a title like the mark "[Manual]", and "[cost-guide]" an id that is
    built like the mark "[heat-pump]". Without such a mark they may be a remark.
    """
    frames_of_marks: set[str] = set()
    is_a_mark_a_title = False
    for mark in marks:
        frames_of_marks |= frames_of_ids_in(mark)
        is_a_mark_a_title = is_a_mark_a_title or _has_title_in_brackets(mark)
    if is_a_mark_a_title and _has_title_in_brackets(text):
        return True
    return not frames_of_marks.isdisjoint(frames_of_ids_in(text))


def _has_title_in_brackets(text: str) -> bool:
    """Tell whether brackets in a text hold words like a title: "[Colour Guide]".

    Beside the mark ``[Manual]`` they may cite a source that nobody was shown. They may
    be a remark as well, "[Name withheld]", so they do not tell what is cited.
    """
    return any(match["first"].isupper() for match in _TITLE.finditer(text))


def _has_marks_in_fenced_text(answer: str) -> bool:
    """Tell whether a part of an answer that is fenced as plain text has marks.

    Such a part ("```text") may cite, or be what a program has printed, so its marks are
    not read.
    """
    # The marks of an answer in a fence as a whole, or with a part fenced as Markdown,
    # are read.
    if fences_around(answer):
        return False
    return any(marks_in(match["inner"]) for match in FENCED_TEXT.finditer(answer))


def _spans_of_possible_indices(text: str) -> list[Span]:
    """Return the spans of brackets that may be an index or an array of code.

    "sys.argv[1]" leaves its own sentence in doubt, and says nothing of the others. The
    array ``"sources": [1]`` is left out: it may name the sources of all sentences.
    """
    indexed_names = indexed_names_in(text)
    spans: list[Span] = []
    for bracket in MARK.finditer(text):
        is_of_code = may_be_of_code(bracket, text, indexed_names)
        if is_of_code and not names_sources(bracket, text):
            spans.append(bracket.span())
    return spans


def _has_column_of_numbers(answer: str) -> bool:
    """Tell whether a table has bare numbers in a column such as "Source".

    True for the line "| Claim | Source |" and below it "| It is old | 2 |". A row that
    has a mark such as ``[1]`` does not count: its citation is read.
    """
    index_of_sources: int | None = None
    for line in answer.split("\n"):
        cells = [cell.strip(_AROUND_CELL) for cell in line.strip(" \t\r|").split("|")]
        is_in_table = len(cells) > 1
        if not is_in_table:
            index_of_sources = None
        elif index_of_sources is None:
            index_of_sources = _index_of_source_heading(cells)
        elif index_of_sources < len(cells):
            cell = cells[index_of_sources]
            if _NUMBERS_ALONE.fullmatch(cell) and MARK.search(line) is None:
                return True
    return False


def _index_of_source_heading(cells: Sequence[str]) -> int | None:
    """Return the index of the first cell that heads a column of sources; None without."""
    for index, cell in enumerate(cells):
        if _HEADING_OF_COLUMN.fullmatch(cell):
            return index
    return None


def doubtful_forms_in(answer: str, read: Sequence[Span]) -> list[Span]:
    """Return the spans of what may be a citation, and may be something else.

    A link, "(3)", "source 2" and words in brackets are such forms.

    Args:
        answer: The answer.
        read: The spans of the marks that are read; they are left out.
    """
    text = blank(_blank_what_cites_nothing(answer, PLAIN_NUMBERS), read)
    return [match.span() for match in MAY_BE_A_MARK.finditer(text)]


def may_be_of_sentence_before(form: str, before: str) -> bool:
    """Tell whether a possible citation may belong to the sentence before its own.

    It may if it stands in the first brackets of its sentence, or if it comes first and
    is no word of the sentence, such as ``[Book A]``.

    Args:
        form: The possible citation.
        before: The text before it in its sentence.
    """
    if _IN_FIRST_BRACKET.fullmatch(before):
        return True
    is_first = re.search(r"\w", before) is None
    return is_first and _WORDS_OF_SENTENCE.match(form) is None


def has_word_outside_marks(text: str) -> bool:
    """Tell whether a text has a letter or digit that stands in no bracket of a mark."""
    return re.search(r"\w", MARK.sub("", text)) is not None


def _blank_what_cites_nothing(answer: str, numbering: Numbering) -> str:
    """Blank out code, lists of sources, and brackets that are a part of the text."""
    code = spans_of_code(answer)
    names_in_code = names_of_code(answer, code)
    text = blank(answer, [*code, *source_lists_in(answer)])
    spans = [
        match.span()
        for match in MARK.finditer(text)
        if _cites_nothing(match, text, numbering, names_in_code)
    ]
    return blank(text, spans)


def _cites_nothing(
    bracket: re.Match[str],
    text: str,
    numbering: Numbering,
    names_of_code: Container[str],
) -> bool:
    """Tell whether a bracket is a part of a formula, an index, or numbers of the text.

    Args:
        bracket: A bracket that looks like a citation.
        text: The text that it stands in.
        numbering: The labels of the sources; empty if they are not known.
        names_of_code: What the answer's code uses: ``rows[0]`` is then an index.
    """
    inside = bracket["listed"] or bracket["escaped"]
    if inside is None:  # no plain square bracket: 【1】 holds nothing but sources
        return False
    if is_in_formula(bracket, text):
        return True
    start = max(0, bracket.start() - LOOKBACK)
    name_before = _NAME_BEFORE.search(text, start, bracket.start())
    if name_before is not None and name_before[0] in names_of_code:
        return True
    return _are_numbers_of_text(inside, numbering)


def _are_numbers_of_text(inside: str, numbering: Numbering) -> bool:
    """Tell whether the numbers in a bracket are what the text is about, and no labels.

    They are in "[0.5, 2.5]", "[10 %]", "[2019]" and in the interval "[0, 1]". Sources
    that are numbered such as 2020, or from 0 on, may be meant by the last two.
    """
    if _DECIMALS_OR_UNITS.fullmatch(inside):
        return True
    if _YEARS.fullmatch(inside):
        return not _has_labels_like_years(numbering)
    if _INTERVAL_FROM_0.fullmatch(inside):
        return not _may_have_label_0(numbering)
    return False


def _has_labels_like_years(numbering: Iterable[str]) -> bool:
    """Tell whether sources have numbers of four digits, so that [2020] may cite one."""
    return any(re.fullmatch(r"\d{4}", label) for label in numbering)


def _may_have_label_0(numbering: Numbering) -> bool:
    """Tell whether a source is numbered 0, or may be, so that [0, 1] may cite two."""
    return not numbering or "0" in numbering


def _inside_of(match: re.Match[str]) -> str:
    """Return the text in the brackets of a mark; ``1-3`` for ``[1]-[3]``."""
    inside: str = next(filter(None, match.groupdict().values()))
    return inside.translate(_WITHOUT_BRACKETS) if match["spread"] else inside


def _mark_named_by_address(
    mark: Mark, answer: str, known: Mapping[str, object]
) -> Mark | None:
    """Return a mark for a whole link ``[words](address)`` if the address names its source.

    "[the report](a.pdf)" is one mark with the label "a.pdf", if a context has this label.
    None if there is no link, or if its words name the source: "[1](https://a.test)".

    Args:
        mark: The mark ``[words]``; its labels are () where the words are no label.
        answer: The answer.
        known: The labels of the contexts.
    """
    link = _LINK.match(answer, mark.end)
    if link is None:
        return None
    address = link[1]
    if not _does_address_name_source(address, mark.labels, known):
        return None
    whole_link = answer[mark.start : link.end()]
    return Mark(mark.start, link.end(), labels=(address,), written=whole_link)


def _does_address_name_source(
    address: str, labels_of_words: Sequence[str], known: Mapping[str, object]
) -> bool:
    """Tell whether the source of a link ``[words](address)`` is what its address names.

    Args:
        address: The address.
        labels_of_words: The labels that the words are; () where they are none.
        known: The labels of the contexts.
    """
    are_words_known = any(label in known for label in labels_of_words)
    are_words_numbers = any(map(_is_like_a_number, labels_of_words))
    if are_words_known and are_words_numbers:
        return False  # "[2](a.pdf)": 2 is the number of a context
    if address in known:
        return True  # "[the report](a.pdf)", "[7](a.pdf)": a.pdf is a context
    if are_words_known or are_words_numbers:
        return False  # "[a.pdf](https://a.test)": only the words name a context
    # "[b.test](https://b.test/c)": a page that nobody was shown. Words that are no label,
    # "[see here](https://b.test)", may link anything.
    return bool(labels_of_words) and _WEB_ADDRESS.match(address) is not None


def _is_like_a_number(label: str) -> bool:
    """Tell whether a label is a number or like one, such as "2", "S2", "B" or "1-300"."""
    if is_number(label) or is_range(label):
        return True
    is_one_word = len(label.split()) == 1
    return is_one_word and shape_of_label(label) not in (None, SHAPE_OF_FILES)


def address_behind(answer: str, bracket_end: int) -> str | None:
    """Return the web address of a link, ``[words](https://a.test)``; None without a link.

    Args:
        answer: The answer.
        bracket_end: Where the square bracket ends.
    """
    link = _LINK.match(answer, bracket_end)
    if link is None or _WEB_ADDRESS.match(link[1]) is None:
        return None
    return link[1]


def may_link_another_source(answer: str, mark: Mark, numbering: Numbering) -> bool:
    """Tell whether a mark is a link that may lead to another source than the mark names.

    "[1](#3)", "[1](id=3)" and "[1](/docs/travel)" may. "[1](#source-1)" leads to the same
    source, and "[1](#sources)" to the list of all. A web address is left to
    ``address_behind``.

    Args:
        answer: The answer.
        mark: A mark in it.
        numbering: The labels of the contexts.
    """
    link = _LINK.match(answer, mark.end)
    if link is None or _WEB_ADDRESS.match(link[1]) is not None:
        return False
    target = link[1]
    if _TARGET_OF_NO_SOURCE.fullmatch(target):  # "#sources"
        return False
    # "[1](#travel-rules)", where context 1 is also called "Travel Rules"
    labels_of_source = _all_labels_of_their_contexts(mark.labels, numbering)
    if _name_in_a_target(target) in map(_name_in_a_target, labels_of_source):
        return False
    is_another_file_or_page = "/" in target or "." in target
    if is_another_file_or_page:
        return True
    # "#source-1" of the mark "[1]" has its number, "#3" another, and "#intro" none
    numbers = {_plain_number(number) for number in re.findall(r"\d{1,9}", target)}
    has_only_numbers_of_mark = bool(numbers) and numbers.issubset(mark.labels)
    return not has_only_numbers_of_mark


def _all_labels_of_their_contexts(
    labels: Sequence[str], numbering: Numbering
) -> set[str]:
    """Return some labels, and the other labels of the contexts that they name.

    With ``{"1": 0, "Travel Rules": 0, "2": 1}`` the label "1" gives "1" and "Travel
    Rules". A label that names a further context, too, is left out.
    """
    contexts: set[int] = set()
    for label in labels:
        contexts.update(contexts_of_label(label, numbering))
    others = {
        label
        for label in numbering
        if contexts.issuperset(contexts_of_label(label, numbering))
    }
    return {*labels, *others}


def contexts_of_label(label: str, numbering: Numbering) -> tuple[int, ...]:
    """Return the indices of the contexts that a label names; () if it names none."""
    indices = numbering.get(label, ())
    return (indices,) if isinstance(indices, int) else indices


def _name_in_a_target(text: str) -> str:
    """Return the name in a label or a link's target, in the letters that both share.

    "/docs/travel-rules.pdf", "#travel-rules" and "Travel Rules" give "travelrules".
    """
    last_part = text.rstrip("/").rpartition("/")[2].lower()
    return re.sub(r"[\W_]", "", _ENDING_OF_FILE.sub("", last_part))


def labels_in_words(
    words: str, known: Mapping[str, object], *, is_provided: bool = False
) -> tuple[str, ...]:
    """Return the labels that some words are, as in the bracket ``1, 3-5``; () for others.

    "a.pdf, p. 3" gives "a.pdf", and "It is old" gives ().

    Args:
        words: The words.
        known: The labels of the contexts, which may be any words.
        is_provided: Whether they stand in ``【】``, which only model providers write.
    """
    whole = plain_label(words)
    for label in (words.strip(), whole):
        if label in known:
            return (label,)
    if is_provided and not _is_of_numbers(words):
        return _label_of_a_provider(whole)
    labels = _labels_of_parts(words, known)
    if labels:
        return labels
    named = _without_locator(words, known)
    return _label_of_a_named_source(named) or _label_before_a_title(named, known)


def _is_of_numbers(inside: str) -> bool:
    """Tell whether a bracket holds only numbers, or a range such as ``1-3``."""
    if _RANGE.fullmatch(plain_label(inside)):
        return True
    parts = _parts_without_locators(inside, {})
    return all(NUMBER.fullmatch(plain_label(part)) for part in parts)


def _label_of_a_provider(label: str) -> tuple[str, ...]:
    """Return the label in a bracket of a provider: ``3:0`` of 【3:0】, ``a.pdf``.

    () for words alone, which are a heading: 【注意】 means "Note".
    """
    is_heading = re.search(r"[\d._]", label) is None
    return () if is_heading else (label,)


def _labels_of_parts(inside: str, known: Mapping[str, object]) -> tuple[str, ...]:
    """Return the numbers and labels that a bracket lists, each once.

    "1, 3-5" lists 1, 3, 4 and 5. "1, red" gives (), unless "red" is a known label.
    """
    labels: list[str] = []
    shapes = shapes_of_labels(known)
    for part in _parts_without_locators(inside, known):
        labels_of_part = _labels_of_part(part, known, shapes)
        if not labels_of_part:
            return ()
        labels += labels_of_part
    return (
        () if _may_be_source_and_year(labels, known) else tuple(dict.fromkeys(labels))
    )


def _may_be_source_and_year(labels: Sequence[str], known: Mapping[str, object]) -> bool:
    """Tell whether labels such as "3" and "2021" may be a source and its year.

    They may not if some source has a number of four digits.
    """
    has_year = any(_YEARS.fullmatch(label) and label not in known for label in labels)
    return has_year and len(labels) > 1 and not _has_labels_like_years(known)


def _labels_of_part(
    part: str, known: Mapping[str, object], shapes: Container[str | None]
) -> list[str]:
    """Return the label that one part of a bracket is, or the labels of its range.

    Numbers and known labels are labels, and so is "S9" beside the known "S1", of the
    same shape: it names a source that nobody was shown. [] for other words.

    Args:
        part: The part, such as "3-5" of "[1, 3-5]".
        known: The labels of the contexts.
        shapes: The shapes of these labels, as of ``shape_of_label``: "S#" for "S1".
    """
    name = part.strip(_AROUND_LABEL)
    # "Chunk_ID: 7", where labels such as "chunk_id: 1" are known
    label_of_key_and_number = _label_of_key_and_number(name, known, shapes)
    if label_of_key_and_number is not None:
        return [label_of_key_and_number]
    if name in known or shape_of_label(name) in shapes:
        label = name  # "doc-1", where labels such as "doc-1" or "doc-2" are known
    else:
        label = plain_label(part)  # the number 1 of "doc-1", or "S9" of "Source S9"
    if label in known or is_number(label):
        return [label]
    labels_of_range = _labels_of_range(name, known)
    if labels_of_range:
        return labels_of_range
    is_unknown_label = shape_of_label(label) in shapes
    return [label] if is_unknown_label else []


def _label_of_key_and_number(
    name: str, known: Mapping[str, object], shapes: Container[str | None]
) -> str | None:
    """Return the label that a key with a number is; None for any other words.

    Beside the known label "chunk_id: 1", "Chunk_ID: 7" is the label "chunk_id: 7". A key
    that is a word for sources is left out, unless a context has just this label:
    "Source: 7" is the number 7.

    Args:
        name: The words.
        known: The labels of the contexts.
        shapes: The shapes of these labels, as of ``shape_of_label``.
    """
    field = _KEY_AND_NUMBER.fullmatch(name)
    if field is None:
        return None
    label = field_label(field["key"], field["number"])
    if label in known:
        return label
    has_key_of_a_known_label = shape_of_label(label) in shapes
    is_number_behind_source_word = is_number(plain_label(name))
    if has_key_of_a_known_label and not is_number_behind_source_word:
        return label
    return None


def field_label(key: str, number: str) -> str:
    """Return the label that a field with a number is: "chunk_id: 7" for "Chunk_ID:07"."""
    return f"{' '.join(key.lower().split())}: {int(number)}"


def _parts_without_locators(inside: str, known: Mapping[str, object]) -> Iterator[str]:
    """Yield the parts of a bracket between commas, "and" or the like, without pages.

    "2, S. 3" gives "2": page 3 of source 2. "S2, S3" gives both where labels such as
    "S1" are known.
    """
    has_keys_with_pages = SHAPE_OF_KEY_WITH_PAGES in shapes_of_labels(known)
    for group in re.split("[;；]", inside):
        parts = _SEPARATOR.split(group)
        if has_keys_with_pages and all(
            is_key_with_pages(part.strip()) for part in parts
        ):
            yield from parts
        else:
            yield from _SEPARATOR.split(_without_locator(group, known))


def _without_locator(text: str, known: Iterable[str]) -> str:
    """Return a name of a source without the page or section: "2" of "2, p. 3"."""
    locator = _LOCATOR.search(text)
    if locator is None or _is_like_known_label(locator[0], known):
        return text
    # "b.pdf#page=9" beside the label "a.pdf#page=3" is a label of its own
    shape = shape_of_label(text.strip(_AROUND_LABEL))
    is_with_pages = shape in (SHAPE_OF_FILE_AND_PAGE, SHAPE_OF_KEY_WITH_PAGES)
    if is_with_pages and shape in shapes_of_labels(known):
        return text
    return text[: locator.start()]


def _is_like_known_label(text: str, known: Iterable[str]) -> bool:
    """Tell whether a part of a text between commas has the shape of a known label.

    A label of several words such as "page 3" is left out: behind a comma it is a page.
    """
    shapes = shapes_of_labels(known)
    parts = [plain_label(part) for part in _SEPARATOR.split(text)]
    return any(shape_of_label(part) in shapes for part in parts if " " not in part)


def _label_of_a_named_source(inside: str) -> tuple[str, ...]:
    """Return the label of a bracket such as "Source: report.pdf"; () for any other.

    For ``Source 2: report.pdf`` it is the number. A name with a comma gives (), since it
    may be several names.
    """
    named = _PREFIX.match(inside.strip(_AROUND_LABEL))
    whole = plain_label(inside)
    if named is None or not whole or not re.search(r"[:#=0-9]", named[0] + whole[0]):
        return ()
    numbered = NUMBER_AND_NAME.match(whole)
    if numbered is not None:
        return (_plain_number(numbered[1]),)
    return () if re.search("[,;]", whole) else (whole,)


def _label_before_a_title(inside: str, known: Container[str]) -> tuple[str, ...]:
    """Return the known number before a title, the 1 of "1: Bridges"; () for other words."""
    numbered = _NUMBER_AND_TITLE.match(inside.strip(_AROUND_LABEL))
    if numbered is None:
        return ()
    number = _plain_number(numbered[1])
    return (number,) if number in known else ()


def plain_label(text: str) -> str:
    """Strip a label of quotes and source words: "Source 01" gives 1, 'doc: "a"' gives a.

    Signs around all of it are no part of it: "[4]" and "${4}" give 4. Digits of any
    script are written as 0 to 9.
    """
    label = " ".join(text.split()).strip(_AROUND_LABEL)
    label = re.sub(r"\d", lambda digit: str(int(digit[0])), label)
    in_signs = _LABEL_IN_SIGNS.fullmatch(label)
    if in_signs is not None:
        label = next(filter(None, in_signs.groups())).strip(_AROUND_LABEL)
    prefix = _PREFIX.match(label)
    if prefix is not None:
        label = label[prefix.end() :].strip(_AROUND_LABEL) or label
    return _plain_number(label)


def is_number(label: str) -> bool:
    """Tell whether a label is a number, as those of sources are."""
    return NUMBER.fullmatch(label) is not None


def is_range(label: str) -> bool:
    """Tell whether a label is still a range, as it is too wide or runs backwards."""
    return _RANGE.fullmatch(label) is not None


def is_like_labels(label: str, numbering: Numbering) -> bool:
    """Tell whether an unknown label has the look of the known labels.

    If so, such as "9" beside "1" and "2", it names a source that nobody was shown. If
    not, such as "Smith", it may be another name of a known source. Numbers and ranges
    always have the look.
    """
    if is_number(label) or is_range(label):
        return True
    return shape_of_label(label) in shapes_of_labels(numbering)


def _plain_number(label: str) -> str:
    """Return a number without leading zeros, in the digits 0 to 9.

    Any other label is returned as it is.
    """
    number = label.removesuffix(".")  # "[1.]"
    return str(int(number)) if NUMBER.fullmatch(number) else label


def _labels_of_range(part: str, known: Iterable[str]) -> list[str]:
    """List the labels of a range; [] for anything else.

    "1-3" and "Source 1 - Source 3" give 1, 2 and 3. "S08-S10" gives S08, S09 and S10
    where labels such as "S01" are known. A range that is too wide or runs backwards is
    one label as a whole: "3-1".
    """
    numbers = _RANGE.fullmatch(plain_label(part))
    if numbers is not None:  # "1-3"
        return _between(numbers["first"], numbers["last"]) or [numbers[0]]
    ends = _RANGE_OF_LABELS.fullmatch(part)
    if ends is None:
        return []
    # "S08-S10" has the letters "S", the first number "08" and the last "10"
    letters, first, last = ends["letters"], ends["first"], ends["last"]
    first_label = letters + first
    # "S08" has the same shape as the known label "S01": letters, and two digits from 0
    is_like_known_labels = shape_of_label(first_label) in shapes_of_labels(known)
    if is_like_known_labels:
        return _between(first, last, letters=letters) or [part]
    # "Source 1 - Source 3": the letters are only a word before the number
    if is_number(plain_label(first_label)):
        return _between(first, last) or [f"{first}-{last}"]
    return []


def _between(first: str, last: str, *, letters: str = "") -> list[str]:
    """List the labels from a first to a last number, each behind the same letters.

    [] if the first number is above the last, or if the numbers are too many.
    """
    if not int(first) <= int(last) < int(first) + WIDEST_RANGE:
        return []
    # zeros before a number belong to a label such as "S08", and not to a number alone
    width = len(first) if letters else 1
    return [
        f"{letters}{number:0{width}}" for number in range(int(first), int(last) + 1)
    ]
