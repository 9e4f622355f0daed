"""What an answer cites: marks such as ``[1]`` in its text, and which context each names.

A mark means what the prompt showed under its number. So marks are read only where that
is known: from a *numbering*, which says the place of a context for each number.

Marks are ``[1]``, ``[1, 2]``, ``[1-3]`` and ``[1][2]``, nothing else. What may cite in
another notation makes the citations unknown: nobody takes it for "cites nothing".
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from ragmetrics_core.data.frozen import Frozen, Text
from ragmetrics_core.data.scalars import is_present, number_as_text
from ragmetrics_core.data.sentences import join_lines, whole_sentences


def _refuse_truth_value(value: object) -> object:
    """Refuse True and False, which Python counts as 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("a place is a number")  # noqa: TRY004  # pydantic takes no other
    return value


Place = Annotated[int, Field(ge=0), BeforeValidator(_refuse_truth_value)]

Span = tuple[int, int]
"""Where a part of a text begins, and the place behind its last sign."""

Numbering = Mapping[str, int]
"""By number, as a text, the place of the context that it names: ``{"1": 0}``."""

UNREAD_FORM = "the answer may cite in a form that is not read"
"""Why citations are unknown of an answer that may cite by something else than ``[1]``."""

_NOBODY_LOOKED = "nobody looked for citations, and the answer has no marks such as [1]"
_NO_LABELS = (
    "the answer has no marks such as [1], and the prompt does not show each passage under"
    " a number or a name to be cited"
)
NOT_JOINED = "the column citations must give for each number the id of one context"
_NUMBER_INSIDE = (
    "the answer cites a number that stands inside a context, which may be several:"
    " write a list with a context for each number"
)
_NUMBER = re.compile("[0-9]{1,3}")
# What a chunk begins with where the prompt numbered it: "Source 1:", "[1]".
_NUMBER_OF_TEXT = re.compile(
    r"\s*(?:\[(?P<bracket>[0-9]{1,3})\]"
    r"|\[?(?:source|document|doc|passage|context|chunk)\s*[#\[]?(?P<word>[0-9]{1,3})\]?"
    r"\s*[:)(\n])",
    re.IGNORECASE,
)
# Marks side by side, with brackets or asterisks around them.
_MARKS = r"\[[ \t]?[0-9][0-9,\- \t–]*\](?:[ \t,;]*\[[ \t]?[0-9][0-9,\- \t–]*\])*"
_WITH_SIGNS_AROUND = re.compile(rf"\((?:see )?{_MARKS}\)|\*\*{_MARKS}\*\*|{_MARKS}")
_BLANKS_BEFORE_SIGN = re.compile(r"[ \t]+(?=[.,;:!?…。！？])")


class Citation(Frozen):
    """A place of the answer that cites: what is cited for it, and by which mark.

    Several citations may be of one span; those of a mark such as ``[1, 2]`` are one. A
    citation that names nothing, ``contexts`` and ``dangling`` both (), is *open*: what
    its mark means is not known.

    Attributes:
        start: Where the part of the answer begins that it is cited for.
        end: Where that part ends; behind its last sign.
        contexts: Places of the contexts that it names, from 0, each once.
        dangling: What it names and nobody was shown, as written.
        mark: Beginning and end of the mark in the answer; None without.
    """

    start: int = Field(ge=0)
    end: int = Field(ge=0)
    contexts: tuple[Place, ...] = ()
    dangling: tuple[Text, ...] = Field(default=(), repr=False)
    mark: tuple[Place, Place] | None = None

    @model_validator(mode="after")
    def _spans_are_in_order(self) -> "Citation":
        spans = [(self.start, self.end), self.mark or (0, 0)]
        if any(start > end for start, end in spans):
            raise ValueError("a span ends before it begins")
        return self


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence of an answer without its marks, and where it stands in the answer."""

    text: str
    start: int
    end: int


def _sentences_of(answer: str, marks: Sequence[Span] = ()) -> list[_Sentence]:
    """Split an answer into its sentences, without marks and reasoning.

    "It is old [1]. It fell." has "It is old." at 0 to 14, its mark included.
    """
    # blanks in place of what is left out: places in the text stay valid
    text = blank_matches(without_reasoning(answer), _WITH_SIGNS_AROUND)
    text = join_lines(blank_spans(text, marks))
    sentences: list[_Sentence] = []
    end = 0
    for sentence in whole_sentences(text):
        start = text.index(sentence, end)
        end = start + len(sentence)
        plain = _BLANKS_BEFORE_SIGN.sub("", " ".join(sentence.split()))
        if any(character.isalnum() for character in plain):
            sentences.append(_Sentence(plain, start, end))
    return sentences


def _sentence_of(span: Span, sentences: Sequence[_Sentence]) -> range:
    """Return the places of the sentences that a span of an answer belongs to.

    These are all that it overlaps, else the sentence before it, else the first.
    """
    start, end = span
    overlapped = [
        place
        for place, sentence in enumerate(sentences)
        if start < sentence.end and sentence.start < end
    ]
    if overlapped or not sentences:
        return range(overlapped[0], overlapped[-1] + 1) if overlapped else range(0)
    n_begun = bisect_right(sentences, start, key=lambda sentence: sentence.start)
    place = max(n_begun - 1, 0)
    return range(place, place + 1)


def citations_of_marks(
    answer: str | None, numbering: Numbering
) -> tuple[Citation, ...]:
    """Turn the marks of an answer, such as ``[1]``, into citations.

    A mark belongs to the sentence that it stands in, behind its full stop to the
    sentence before.

    Args:
        answer: The answer.
        numbering: For each number the place of the context that the prompt showed under
            it, as in ``{"1": 0, "2": 1}``.

    Returns:
        A citation for each mark, in order; () for an answer without marks. Numbers that
        are not in the numbering are dangling.

    Examples:
        >>> cited = citations_of_marks("It is old [1]. It fell. [2, 9]", {"1": 0, "2": 1})
        >>> [(one.start, one.end, one.contexts, one.dangling) for one in cited]
        [(0, 14, (0,), ()), (15, 23, (1,), ('9',))]
    """
    sentences = _sentences_of(answer or "")
    citations: list[Citation] = []
    for mark in marks_in(answer or ""):
        cited_for = (mark.start, mark.end)
        for place in _sentence_of(cited_for, sentences):
            cited_for = (sentences[place].start, sentences[place].end)
        known = [numbering[label] for label in mark.labels if label in numbering]
        dangling = [label for label in mark.labels if label not in numbering]
        citations.append(
            Citation(
                start=cited_for[0],
                end=cited_for[1],
                contexts=tuple(dict.fromkeys(known)),
                dangling=tuple(dangling),
                mark=(mark.start, mark.end),
            )
        )
    return tuple(citations)


@dataclass(frozen=True, slots=True)
class CitationsRead:
    """What the marks of an answer tell.

    Args:
        citations: What it cites; () if it cites nothing; None if that is not known.
        why_unknown: Why it is not known, in words; "" if it is.
    """

    citations: tuple[Citation, ...] | None
    why_unknown: str = ""


def read_citations(
    answer: str | None, numbering: Numbering, texts: Sequence[str] = ()
) -> CitationsRead:
    """Read the citations of an answer, or say that they are unknown.

    They are unknown where the answer may cite by something else than marks, and where a
    number that names no context stands in the text of one.

    Args:
        answer: The answer.
        numbering: For each number the place of the context that it names, ``{"1": 0}``.
        texts: The texts of the contexts.

    Examples:
        >>> read_citations("It is old [1].", {"1": 0}).why_unknown
        ''
        >>> read_citations("It is old [1]. It fell [see 2].", {"1": 0}).why_unknown
        'the answer may cite in a form that is not read'
    """
    citations = citations_of_marks(answer, numbering)
    dangling = {label for citation in citations for label in citation.dangling}
    for text in texts if dangling else ():
        # the numbers of all marks and heads in the text, "[2]" or "Source 2:"
        numbers = {
            str(int(head["bracket"] or head["word"]))
            for head in _NUMBER_OF_TEXT.finditer(text)
        }
        numbers.update(*(mark.labels for mark in marks_in(text)))
        if not dangling.isdisjoint(numbers):
            return CitationsRead(None, _NUMBER_INSIDE)
    # the 0 of "[0, 1]" may be the beginning of an interval
    has_strange_0 = any("0" in citation.dangling for citation in citations)
    if has_strange_0 or cites_otherwise(answer or ""):
        return CitationsRead(None, UNREAD_FORM)
    return CitationsRead(citations)


@dataclass(frozen=True, slots=True)
class CitedStatement:
    """A sentence of an answer without its marks, and what it cites.

    Args:
        text: The sentence.
        contexts: Places of the contexts that it names, from 0, each once.
        dangling: What it names and nobody was shown, each once.
    """

    text: str
    contexts: tuple[int, ...] = ()
    dangling: tuple[str, ...] = ()

    @property
    def cites(self) -> bool:
        """Whether it cites anything, even what nobody was shown."""
        return bool(self.contexts or self.dangling)


def cited_statements(
    answer: str | None, citations: Sequence[Citation]
) -> tuple[CitedStatement, ...]:
    """Split an answer into its sentences, each with what it cites.

    Reasoning such as ``<think>…</think>`` is no part of it. A citation belongs to each
    sentence that its span overlaps; between two sentences it belongs to the first.

    Args:
        answer: The answer.
        citations: What it cites.

    Returns:
        A statement for each sentence, in order, without marks.

    Examples:
        >>> answer = "It is old [1]. It fell. [1, 9]"
        >>> cited = citations_of_marks(answer, {"1": 0})
        >>> [(one.text, one.contexts, one.dangling) for one in cited_statements(answer, cited)]
        [('It is old.', (0,), ()), ('It fell.', (0,), ('9',))]
    """
    marks = [citation.mark for citation in citations if citation.mark is not None]
    sentences = _sentences_of(answer or "", marks)
    contexts: list[list[int]] = [[] for _ in sentences]
    dangling: list[list[str]] = [[] for _ in sentences]
    for citation in citations:
        for place in _sentence_of((citation.start, citation.end), sentences):
            contexts[place] += citation.contexts
            dangling[place] += citation.dangling
    return tuple(
        CitedStatement(
            sentence.text,
            tuple(dict.fromkeys(contexts[place])),
            tuple(dict.fromkeys(dangling[place])),
        )
        for place, sentence in enumerate(sentences)
    )


def is_citations(value: object) -> bool:
    """Tell whether a value is a list of citations as data, or an empty list."""
    if not isinstance(value, (list, tuple)):
        return False
    return all(
        isinstance(element, Mapping) and {"start", "end", "contexts"} <= element.keys()
        for element in value
    )


def why_unknown(answer: str | None, *, is_captured: bool = False) -> str:
    """Say why the citations of an answer are unknown.

    Args:
        answer: The answer.
        is_captured: Whether it is that of a captured run, whose prompts were searched.
    """
    if answer is None and is_captured:
        return "no answer of the run is known"
    n_marks = len(marks_in(answer or ""))
    if not n_marks and may_cite(answer or ""):
        return UNREAD_FORM
    if not n_marks:
        return _NO_LABELS if is_captured else _NOBODY_LOOKED
    marks = "1 mark" if n_marks == 1 else f"{n_marks} marks"
    return (
        f"the answer has {marks} such as [1], and nothing says which context a number"
        " means: give the column citations, e.g. {number: id of the context}"
    )


# Which context each number means, where a table says it


def numbering_of_texts(texts: Sequence[str]) -> dict[str, int] | None:
    r"""Number the contexts by what their own texts begin with, such as ``Source 1:``.

    Every context must begin with such a number, and no two may share one. Numbers in
    bare brackets (``[1]``) must run from 0 or 1 in order: a chunk may begin with an
    entry of a bibliography. None where they are not numbered so.

    Examples:
        >>> numbering_of_texts(["Source 1:\\nIt is old.", "Source 2:\\nIt fell."])
        {'1': 0, '2': 1}
        >>> numbering_of_texts(["It is old.", "It fell."]) is None
        True
    """
    numbers: list[int] = []
    has_brackets = False
    for text in texts:
        head = _NUMBER_OF_TEXT.match(text)
        if head is None:
            return None
        has_brackets = has_brackets or head["bracket"] is not None
        numbers.append(int(head["bracket"] or head["word"]))
    first = numbers[0] if numbers else 0
    in_order = list(range(first, first + len(numbers)))
    is_in_order = numbers == in_order and first in (0, 1)
    has_one_each = len(set(numbers)) == len(numbers)
    if not numbers or not has_one_each or (has_brackets and not is_in_order):
        return None
    return {str(number): place for place, number in enumerate(numbers)}


def numbering_in(value: object) -> dict[str, str] | None:
    """Read a cell that maps numbers to ids of contexts; None for any other cell.

    ``{"1": "a", "[2]": 7}`` gives ``{"1": "a", "2": "7"}``. Labels without a context are
    left out, as Parquet writes the labels of all rows.
    """
    if not isinstance(value, Mapping):
        return None
    id_by_number: dict[str, str] = {}
    for label, context in value.items():
        if not is_present(context):
            continue
        number = str(label).strip(" []")
        context_id = number_as_text(context)
        if not isinstance(context_id, str) or not _NUMBER.fullmatch(number):
            return None
        if id_by_number.setdefault(str(int(number)), context_id) != context_id:
            return None
    return id_by_number or None


def numbering_of_column(
    id_by_number: Mapping[str, str], ids: Sequence[str | None]
) -> dict[str, int] | None:
    """Read from a table's column which context each number means.

    ``{"1": "doc-a"}``: number 1 means the context with the id "doc-a"; an id that no
    context has names none. None where that is not sure: no id is that of a context, an
    id is that of two, a context has none, or all are numbers, which may be places.

    Args:
        id_by_number: As ``numbering_in`` returns it.
        ids: The ids of the contexts in their order.
    """
    numbering = {
        number: ids.index(context_id)
        for number, context_id in id_by_number.items()
        if ids.count(context_id) == 1
    }
    names = id_by_number.values()
    may_mean_others = (
        not numbering
        or None in ids
        or any(ids.count(name) > 1 for name in names)
        or all(name.isdecimal() for name in names)
    )
    if may_mean_others and len(numbering) < len(id_by_number):
        return None
    return numbering


WIDEST_RANGE = 100
"""Most numbers that a range such as ``[1-3]`` may span; a wider one is not read."""

_NUMBERS = r"[0-9]{1,3}(?:[ \t]?[-–][ \t]?[0-9]{1,3})?"
_MARK = re.compile(rf"\[[ \t]?{_NUMBERS}(?:[ \t]?,[ \t]?{_NUMBERS})*[ \t]?\]")
_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`", re.DOTALL)
# "<think>…</think>"; all before a "</think>" whose beginning the prompt wrote. A tag in
# backticks is only spoken of.
_TAG = "(?:think|thinking|thought|reasoning)"
_REASONING = re.compile(
    r"(?<!`)<(think|thinking|thought|reasoning)>.*?</\1>"
    rf"|\A(?:(?!<{_TAG}).)*?(?<!`)</{_TAG}>",
    re.DOTALL | re.IGNORECASE,
)
_NO_LINE_END = re.compile(r"[^\n]")
# A bracket that may be an index, a list or a class of signs: "rows_of[1]",
# "sys.argv[1]", "x = a[1]", "[0-9]+", "a[i]".
_MAY_BE_CODE = re.compile(
    r"(?:[A-Za-z](?:\.|->|::|\()[A-Za-z_]\w{0,40}|_\w{0,40}|\$\w{1,40}|\b[A-Za-z]"
    r"|=[ \t]?\w{0,40}|\w\([^()\s]{0,40}\))\[[ \t]?[0-9]|[0-9][ \t]?\][ \t]?[=+*{]"
)
_BEHIND_A_WORD = re.compile(r"\w\[[ \t]?[0-9]")
# A mark at the beginning of a line, behind a colon, or under a heading: it may belong
# to what follows, or be an entry in a list of sources.
_MAY_LIST_SOURCES = re.compile(
    r"^[^\w\n\[]*+(?:\d{1,2}[.)][ \t]*)?\[[ \t]?[0-9]|[:：][ \t*_]*\[[ \t]?[0-9]"
    r"|^[^\w\n]*(?:sources?|references?|citations?|bibliography|footnotes?|quellen|literatur"
    r"|fuentes|referencias|références|fontes|来源|参考文献|出典)[^\w\n\[]*(?:\[|$)",
    re.MULTILINE | re.IGNORECASE,
)
_SOURCE = (
    r"(?:sources?|documents?|docs?|passages?|contexts?|chunks?|citations?|references?"
    r"|refs?|snippets?|excerpts?|dokumente?|quellen?|fuentes?|documentos?|来源|文档|出典)"
)
_OTHER_NOTATION = re.compile(
    # any other bracket, and one that was cut off
    r"\[(?!sic\]|\.\.\.\]|…\]|[ x]?\])|[【［〔〖⟦「『][^】］〕〗⟧」』]{0,80}\d"
    r"|[({<⟨〈《（][ \t]*(?:see |cf\.? |siehe )?(?:\d{1,3}|[a-h])[ \t]*[])}>⟩〉》）]"
    # signs: ², ①, † and ^1, but no unit, ion or power
    r"|(?:(?<=[^\W\d_]{3})|(?<=[\s.,;:!?)\"”])|(?<=\b[12]\d\d\d))[⁰¹²³⁴-⁹]"
    r"|[①-⒇❶-➓†‡]|\d\ufe0f?\u20e3"
    r"|(?<=[^\W\d_]{2})\^\(?\d|(?<=[^\W\d_]{2}[.!?])\d{1,2}(?=\s|\Z)"
    # tags, and reasoning that is never closed
    r"|</?(?:cite|citation|ref|source|footnote|sup|a|co)\b|\bciteturn\d"
    r"|&#91;|[<◁]/?(?:\w{1,20}:)?(?:think|thought|reasoning|scratch_?pad)"
    # words: "source 2", "(source: report)", "(Handbook, p. 3)", "(guide.pdf)"
    rf"|\b{_SOURCE}[ \t:#]*\d|[(（][^\w()（）]{{0,3}}(?:as |see |the \w+ )?{_SOURCE}\b"
    rf"|^[ \t]*{_SOURCE}[ \t]*:"
    r"|[(（][^()（）\n]{0,60}\b(?:pp?|pages?|seiten?|s|sections?|§)\.?[ \t]*\d"
    r"|\([^()\n]{1,60}\.(?:pdf|docx?|html?|txt|md)\b|https?://|\bwww\.|\bdoi:"
    # authors and years: "(Smith, 2020)", "et al. (2020)", "(ibid.)"
    r"|\((?!(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec))(?-i:[A-Z])[^()\d\n]{1,80}"
    r"(?:1[5-9]|20)\d\d[a-z]?\b|\bet al\.?,?[ \t]*\(|\((?:ibid|op\. ?cit|loc\. ?cit)\b",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark in an answer, such as ``[1, 2]``.

    Args:
        start: Where its bracket opens.
        end: The place after the bracket that closes.
        labels: The numbers that it names, each once, as texts: ``("1", "2")``.
    """

    start: int
    end: int
    labels: tuple[str, ...]


def marks_in(answer: str) -> list[Mark]:
    """List the marks of an answer, in order; those in code and in reasoning cite nothing.

    Args:
        answer: Any text.

    Examples:
        >>> [mark.labels for mark in marks_in("It is old [1, 3-5]. `rows[2]`")]
        [('1', '3', '4', '5')]
    """
    text = blank_matches(without_reasoning(answer), _CODE)
    marks: list[Mark] = []
    for bracket in _MARK.finditer(text):
        labels: list[str] = []
        for part in bracket[0][1:-1].split(","):
            ends = [int(number) for number in re.findall("[0-9]+", part)]
            first, last = ends[0], ends[-1]
            if not first <= last < first + WIDEST_RANGE:
                labels = []  # a range that runs backwards or is too wide
                break
            labels += map(str, range(first, last + 1))
        if labels:
            each_once = tuple(dict.fromkeys(labels))
            marks.append(Mark(bracket.start(), bracket.end(), each_once))
    return marks


def may_cite(answer: str) -> bool:
    """Tell whether an answer has anything that may be a citation, in whatever notation."""
    return bool(marks_in(answer)) or cites_otherwise(answer)


def cites_otherwise(answer: str) -> bool:
    """Tell whether an answer may cite by something else than the marks that are read.

    So it does in another notation, such as ``(2)``, ``[Guide]`` or a link; by a mark
    that may belong to the text behind it, or that may be an entry of a list of sources;
    and by a bracket that may be code.

    Args:
        answer: Any text.
    """
    plain = without_reasoning(answer)
    text = blank_matches(plain, _CODE)
    if _MAY_BE_CODE.search(text) or _MAY_LIST_SOURCES.search(text):
        return True
    code = "\n".join(match[0] for match in _CODE.finditer(plain))
    # in a fence of text a bracket stands behind a blank
    has_marks_like_text = any(
        code[mark.start() - 1].isspace() for mark in _MARK.finditer(code)
    )
    if code and (_BEHIND_A_WORD.search(text) or has_marks_like_text):
        return True
    spans = [(mark.start, mark.end) for mark in marks_in(text)]
    return _OTHER_NOTATION.search(blank_spans(text, spans)) is not None


def without_reasoning(answer: str) -> str:
    """Return an answer with blanks in place of its reasoning, ``<think>…</think>``.

    Each character keeps its place. Reasoning weighs what the answer may say: a mark in
    it cites nothing.

    Examples:
        >>> without_reasoning("<think>[2]?</think>It fell [1].")
        '                   It fell [1].'
    """
    return blank_matches(answer, _REASONING)


def blank_matches(text: str, pattern: re.Pattern[str]) -> str:
    """Replace what a pattern finds by blanks, as ``blank_spans`` does."""
    return blank_spans(text, [match.span() for match in pattern.finditer(text)])


def blank_spans(text: str, spans: Iterable[Span]) -> str:
    """Replace each character in some spans by a blank, except line breaks.

    "old [1]." without (4, 7) is "old    .": places in the text stay valid.

    Args:
        text: The text.
        spans: The spans; they may overlap.
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
