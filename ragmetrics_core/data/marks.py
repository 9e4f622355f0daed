"""Marks of citations such as ``[1]``: which are read, and what else may cite.

This is the one place that knows how citations look in a text. A form that is not read
is known as one that may cite, so that nobody takes it for "cites nothing".
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

WIDEST_RANGE = 100
"""Most numbers that a range such as ``[1-3]`` may span.

A wider one names no sources: it is dangling as a whole.
"""

Numbering = Mapping[str, int | tuple[int, ...]]
"""By label the place of the context that it names; several places where they share it."""

PLAIN_NUMBERS: Numbering = {"1": 0}
"""What a numbering is like in an answer of which nobody knows the numbering."""

_LONGEST_MARK = 200  # characters between the brackets
# What a label may begin with, and what is no part of it: "Source 1", "citation:a-7".
SOURCE_WORD = (
    r"(?:sources?|documents?|docs?|passages?|contexts?|chunks?|citations?"
    r"|references?|refs?|cited?|snippets?|results?|excerpts?"
    r"|dokumente?|quellen?|fuentes?|documentos?|fontes?|来源|文档|资料|引用|出典|문서|출처)"
)
"""What languages call a source, as a regular expression that ignores case."""

_PREFIX = re.compile(
    rf"{SOURCE_WORD}[ \t]*(?:(?:ids?|no|numbers?)\b)?"
    r"(?:[ \t:#=\-]*(?=[0-9])|[ \t]*[:#=]+[ \t]*|[ \t]+)",
    re.IGNORECASE,
)
_AROUND_LABEL = " \t\"'`*#"
_OPENING, _CLOSING = r"\[［〔", r"\]］〕"
_MARK = re.compile(
    r"\[(?P<spread>\d{1,9}\][-–]\[\d{1,9})\]"
    rf"|\[\[(?P<doubled>[^\[\]\n]{{1,{_LONGEST_MARK}}})\]\]"
    rf"|[{_OPENING}]"
    rf"(?P<listed>[^{_OPENING}{_CLOSING}\n]{{1,{_LONGEST_MARK}}})[{_CLOSING}]"
    r"|\((?:see |from )?"
    rf"(?P<named>{SOURCE_WORD}[ \t:#0-9][^()\n]{{0,{_LONGEST_MARK}}})\)"
    rf"|【(?P<provided>[^【】†\n]{{1,{_LONGEST_MARK}}})"
    rf"(?:†[^【】\n]{{0,{_LONGEST_MARK}}})?】",
    re.IGNORECASE,
)
_WITHOUT_BRACKETS = str.maketrans("", "", "[]")
_NUMBER = re.compile(r"\d{1,9}")
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
_LONGEST_NAME = 40  # signs of a name before the bracket of an index
_LINE = re.compile(r"[^\n]+")
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

_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_OF_BRACKETS = rf"{_OPENING}{_CLOSING}【】"
_YEAR = r"(?:1[5-9]|20)\d\d"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\w* "
# Words in brackets that no author means as a source.
_NO_SOURCE = r"(?:\s*|x|sic!?|\.{3}|…|citation needed|emphasis (?:added|mine))"
# A form that is not read, and that hardly means anything else: numbers in a bracket.
# [see 2], [1 to 3], [1, p. 3, 4], [^1], \[1\], [1), and one that was cut off
_JOINS = (
    r"(?:[\s\d,;+&/\\^#–—-]|\b(?:see|cf|vgl|siehe|and|und|et|y|e|to|bis|or|pp?)\b\.?)"
)
_UNREAD = re.compile(
    rf"[{_OPENING}【「『](?=[^{_OF_BRACKETS}]*\d){_JOINS}{{1,80}}[{_CLOSING}】」』]"
    r"|\[[ \t]*\d{1,3}[)}]|[({][ \t]*\d{1,3}[ \t]*\]"
    rf"|[{_OPENING}【][\d,;:–† \t-]*\d[\d,;:–† \t-]*\Z"
    r"|</?(?:cite|citation|ref|source|footnote)\b|\bciteturn\d|&#91;"
    # a number close behind a full stop: "It is old.1 It fell.²"
    r"|(?<=[^\W\d_]{2}[.!?])(?<!\bN[or]\.)(?<!\bFig\.)"
    rf"(?:\d{{1,2}}(?=\s|\Z)|[{_SUPERSCRIPTS}]+(?![⁺⁻])|\^\d)",
    re.IGNORECASE,
)
# Forms that may cite, and may be something else.
_NUMBER_OR_LETTER = r"(?:\d{1,2}|[a-h]|[ivx]{1,4})"
_ENDS = (
    r"(?=\s*(?:[.,;:!?)\]。，；！？]|\Z)|[ \t]*$)"  # what stands behind most citations
)
_PLACE_WORD = (
    r"(?:pp?|pages?|seiten?|s|sections?|sect?|absatz|abschnitt|§|articles?|art|no|nr"
    r"|refs?|chapters?|kontext|siehe|vgl|see|cf|from|#)"
)
_DOUBTFUL_FORMS = (
    # [1 of 3], and any other bracket with a digit
    rf"[{_OPENING}【][^{_OF_BRACKETS}]{{0,80}}\d[^{_OF_BRACKETS}]{{0,80}}[{_CLOSING}】]",
    # superscripts, but not those of a number, a letter, a unit or an ion: 10², x², km²;
    # those of a year may cite: 1874³
    rf"(?<=\b1[5-9]\d\d)[{_SUPERSCRIPTS}]|(?<=\b20\d\d)[{_SUPERSCRIPTS}]",
    r"(?<![\d⁻)₀-₉])(?<!\b[^\W\d_])(?-i:(?<!\b[a-z][a-z]))"
    rf"[{_SUPERSCRIPTS}](?![⁺⁻])",
    r"(?<!\d)(?<!\b[^\W\d_])<sup>[ \t]*[\[(]?\d|<a[ \t]|[①-⒇❶-➓]|\d\ufe0f?\u20e3",
    r"[<⟨〈《][ \t]*\d{1,3}[ \t]*[>⟩〉》]",
    r"(?<=[^\W\d_]{2})\^\(?\d",
    # source 2, the second document, (source: report), a line "Sources: report"
    rf"\b{SOURCE_WORD}[ \t:#]*\d|\brefs?\.[ \t]*\d",
    rf"\b(?:first|second|third|fourth|fifth|1st|2nd|3rd)[ \t]+{SOURCE_WORD}\b",
    rf"[\[(（【](?!citation needed)[^\w()（）]{{0,3}}(?:as[ \t]+)?{SOURCE_WORD}\b",
    rf"^[ \t]*{SOURCE_WORD}[ \t]*:",
    # (2), (a), (1 and 2) behind a word or a sentence
    r"(?:(?<=[^\W\d][\"”’)%])|(?<=[^\W\d])|(?<=[.!?])"
    r"|(?<=\b1[5-9]\d\d)|(?<=\b20\d\d))[ \t]?"
    rf"[(（]{_NUMBER_OR_LETTER}"
    rf"(?:[ \t]*(?:[,;/–-]|and|und|&)[ \t]*{_NUMBER_OR_LETTER})*[)）]{_ENDS}",
    r"(?<=[.!?])[ \t][(（]\d{1,2}[)）]",
    # (see 2), (Section 1), (Handbook, p. 3), (handbook.pdf)
    rf"[(（](?:[^()（）\n]{{0,40}}[ ,])?{_PLACE_WORD}\.?[ \t]*#?\d{{1,4}}[)）]",
    r"\([^()\n]{1,60}\.(?:pdf|docx?|html?|txt|md)\b[^()\n]{0,20}\)",
    r"\{\d{1,3}(?:[,; ]+\d{1,3})*\}",
    r"https?://|\bwww\.|\bdoi:",
    # [Book A], [doc_a]
    rf"[{_OPENING}](?!{_NO_SOURCE}[{_CLOSING}])"
    rf"[^{_OPENING}{_CLOSING}\n]{{1,80}}[{_CLOSING}]",
    # (Smith, 2020), (Smith 2020), (Smith et al. 2020), Smith et al. (2020), (ibid.)
    rf"\((?=[^()\d\n]*(?:,|&|\bet al\b|\band\b))[^()\d\n]{{3,80}}{_YEAR}",
    rf"\((?:[^()\d\n]{{0,30}}\b)?(?!{_MONTH})(?-i:[^\W\d_a-zß-öø-ÿ])\w+ {_YEAR}[a-z]?\)",
    rf"\bet al\.?,?[ \t]*\({_YEAR}",
    r"\((?:ibid|idem|op\. ?cit|loc\. ?cit)\b",
    r"[†‡]",
)
_IN_FIRST_BRACKET = re.compile(r"\W*[(（][^()（）]*")
_WORDS_OF_SENTENCE = re.compile(
    r"\s*(?!https?:|www\.|doi:)[^\W\d⁰¹²³⁴-⁹①-⒇❶-➓]", re.IGNORECASE
)
_MAY_BE_A_MARK = re.compile("|".join(_DOUBTFUL_FORMS), re.IGNORECASE | re.MULTILINE)

# A list of sources: its heading, and what each of its lines begins with.
_SOURCES_WORD = (
    r"(?:references?(?: list)?|sources?(?: used| cited)?|bibliography|works cited"
    r"|citations?|footnotes?|further reading|quellen(?:verzeichnis)?"
    r"|literatur(?:verzeichnis)?|bibliogra\w+|fuentes|referencias|références|fontes"
    r"|参考文献|参考资料|来源|出典)"
)
# A column of a table that names sources, and a cell of it that cites without brackets.
_HEADING_OF_COLUMN = re.compile(rf"(?:{_SOURCES_WORD}|refs?\.?)", re.IGNORECASE)
_NUMBERS_ALONE = re.compile(r"\d{1,3}(?:[ \t]*[,;&][ \t]*\d{1,3})*")
_AROUND_CELL = " \t\r*_"

_HEADING = re.compile(
    rf"[ \t]*(?:\#{{1,6}}[ \t]*)?[*_]{{0,3}}{_SOURCES_WORD}[ \t]*[*_]{{0,3}}"
    r"[ \t]*[:：]?[ \t]*[*_]{0,3}[ \t]*",
    re.IGNORECASE,
)
_LONGEST_HEADING = 60
_ENTRY = re.compile(
    r"[ \t]*(?:[-*•][ \t]+|\d{1,3}[.)][ \t]+)?"
    r"(?:[\[［【]\^?[^\[\]［］【】\n]{1,40}[\]］】]|(?<=[ \t])\S|https?://|[ \t]{2,}\S)"
)
# "Sources:", before entries in the same line
_LABEL_OF_LINE = re.compile(
    rf"[ \t]*[*_]{{0,3}}{_SOURCES_WORD}[ \t]*[*_]{{0,3}}[:：][*_]{{0,3}}", re.IGNORECASE
)
# "Sources: [1], [2]", in one line
_LISTED_IN_A_LINE = re.compile(
    rf"[ \t]*[*_]{{0,3}}{_SOURCES_WORD}[ \t]*[*_]{{0,3}}[:：][*_]{{0,3}}"
    r"(?:[ \t,;&]|and\b|[\[［【][^\[\]［］【】\n]{1,60}[\]］】])+",
    re.IGNORECASE,
)
_SOURCE_LABEL = re.compile(
    rf"(?:(?<=[.!?…。][\s*)])|^[ \t]*|(?<=\())(?P<label>[*_]{{0,3}}{_SOURCES_WORD}"
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
_OF_A_BOOK = re.compile(rf"https?://|www\.|doi|\({_YEAR}")
_MOST_WORDS_OF_TITLE = 6  # with its number
_NO_FULL_STOP = re.compile(r"[^.!?。\s]\s*\Z")
_END_OF_TITLE = re.compile(rf"(?:[^.!?。\s]|,[ \t]{_YEAR}\.)\s*\Z")
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


Span = tuple[int, int]
"""Where a part of a text begins, and the place behind its last sign."""


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
    for match in _MARK.finditer(text):
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
    if _UNREAD.search(text) or _MAY_BE_A_MARK.search(text):
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
    return _UNREAD.search(_blank(_without_content(answer, numbering), read)) is not None


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
            if is_number_alone and _MARK.search(line) is None:
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
    return [match.span() for match in _MAY_BE_A_MARK.finditer(text)]


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
    return re.search(r"\w", _MARK.sub("", text)) is not None


def source_lists_in(answer: str) -> list[Span]:
    """Where an answer lists its sources: a mark there cites nothing.

    Three things are such lists: a heading such as "References:" with the entries behind
    it; what ``definitions_in`` finds; and numbered entries that end the answer, of
    numbers that it has cited before. Entries are sentences all the same, which may
    claim something.
    """
    lines = [(match.start(), match[0]) for match in _LINE.finditer(answer)]
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
        for match in _LINE.finditer(answer)
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
    for match in _LINE.finditer(answer):
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
    before = answer[max(0, start - _LONGEST_NAME) : start]
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
    first = max(0, start - _LONGEST_NAME)
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
    return _MARK.search(line, text_start) is None


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
        for match in _MARK.finditer(answer, 0, start)
        for number in _NUMBER.findall(match[0])
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
        for match in _MARK.finditer(text)
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
    before = text[max(0, match.start() - _LONGEST_NAME) : match.start()]
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
    are_numbers = all(_NUMBER.fullmatch(plain_label(part)) for part in parts)
    if is_provided and not are_numbers and not _RANGE.fullmatch(whole):
        # Words alone, as in 【注意】, head a paragraph.
        return (whole,) if re.search(r"[\d._]", whole) else ()
    labels: list[str] = []
    for part in parts:
        label = plain_label(part)
        if label in known or _NUMBER.fullmatch(label):
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
    return _NUMBER.fullmatch(label) is not None


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
    return str(int(label)) if _NUMBER.fullmatch(label) else label


def _numbers_of_range(label: str, first: int, last: int) -> list[str]:
    """The numbers of a range; of one that is too wide or backwards the label itself."""
    if not first <= last < first + WIDEST_RANGE:
        return [label]
    return [str(number) for number in range(first, last + 1)]
