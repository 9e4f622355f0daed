"""What an answer cites: marks such as ``[1]`` in its text, and which context each names.

A mark means what the prompt showed under its label. So marks are read only where that
is known: from a *numbering*, which says the place of a context for each label.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, model_validator

from ragmetrics_core.data.frozen import Frozen, Text
from ragmetrics_core.data.sentences import split_sentences

WIDEST_RANGE = 100
"""Most numbers that a range such as ``[1-3]`` may span.

A wider one names no sources: it is dangling as a whole.
"""

Place = Annotated[int, Field(ge=0)]

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
_MARK = re.compile(
    rf"\[\[(?P<doubled>[^\[\]\n]{{1,{_LONGEST_MARK}}})\]\]"
    rf"|\[(?P<listed>[^\[\]\n]{{1,{_LONGEST_MARK}}})\]"
    rf"|\((?:see |from )?(?P<named>{SOURCE_WORD}[ \t:#0-9][^()\n]{{0,{_LONGEST_MARK}}})\)"
    rf"|【(?P<provided>[^【】†\n]{{1,{_LONGEST_MARK}}})(?:†[^【】\n]{{0,{_LONGEST_MARK}}})?】",
    re.IGNORECASE,
)
# What may cite in a form that is not read: a footnote's sign, "source 2", "(3)".
_MAY_CITE = re.compile(
    rf"[⁰¹²³⁴⁵⁶⁷⁸⁹]|\b{SOURCE_WORD}[ \t:#]*[0-9]"
    r"|[\[【][^\[\]【】\n]{0,80}[0-9][^\[\]【】\n]{0,80}[\]】]"
    r"|\((?:[^()\n]{0,40}[ ,])?[0-9]{1,2}\)|https?://"
    r"|[①-⑳]|<sup>|\{[0-9]{1,3}\}|[［（][^［］（）\n]{0,40}[0-9０-９][^［］（）\n]{0,40}[］）]"
    rf"|[\[(【][ \t]*{SOURCE_WORD}\b|^[ \t]*{SOURCE_WORD}[ \t]*:",
    re.IGNORECASE | re.MULTILINE,
)
# The address of a link, which may be what the prompt names a source by.
_LINK = re.compile(r"\(([^()\s]{1,500})\)")
# Brackets in code are indices.
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,9}")
_RANGE = re.compile(r"([0-9]{1,9})\s*[-–]\s*([0-9]{1,9})")
_SEPARATOR = re.compile(r"[,;&]|\band\b")
_NUMBER_AND_NAME = re.compile(r"([0-9]{1,4})[ \t]*[:|(–-]")
Numbering = Mapping[str, int | tuple[int, ...]]
"""By label the place of the context that it names; several places where they share it."""
# What a chunk begins with where the prompt numbered it: "Source 1:", "[1]".
_NUMBERED = re.compile(
    r"\s*(?:\[(?P<bracket>[0-9]{1,4})\]"
    r"|\[?(?:source|document|doc|passage|context|chunk)\s*[#\[]?(?P<word>[0-9]{1,4})\]?"
    r"[^\S\n]*(?:[:.)(\n]|\Z))",
    re.IGNORECASE,
)
_NUMBER_KEYS = ("citation_number", "source_number")
_LONGEST_OPENING = 2000  # signs of a list and marks, before the text of a line
_BLANKS = " \t\u00a0"
_CLOSES = ".,;:!?…)]}\"'”’。！？"


class Citation(Frozen):
    """A place of the answer that cites: what is cited for it, and by which mark.

    Several citations may be of one span; those of a mark such as ``[1, 2]`` are one.
    """

    start: int = Field(
        ge=0, description="Where the part of the answer begins that it is cited for."
    )
    end: int = Field(ge=0, description="Where that part ends; behind its last sign.")
    contexts: tuple[Place, ...] = Field(
        default=(),
        description="Places of the contexts that it names, from 0, each once.",
    )
    dangling: tuple[Text, ...] = Field(
        default=(),
        repr=False,
        description="What it names and nobody was shown, as written.",
    )
    mark: tuple[Place, Place] | None = Field(
        default=None,
        description="Beginning and end of the mark in the answer; None without.",
    )

    @model_validator(mode="after")
    def _spans_are_in_order(self) -> "Citation":
        spans = [(self.start, self.end), self.mark or (0, 0)]
        if any(start > end for start, end in spans):
            raise ValueError("a span ends before it begins")
        return self


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


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of an answer without its marks.

    Args:
        text: The sentence.
        start: Where it begins in the answer.
        end: Where it ends there. Marks inside are within, those behind it are not.
    """

    text: str
    start: int
    end: int


def marks_in(answer: str, numbering: Numbering | None = None) -> list[Mark]:
    """List the marks of an answer in order.

    ``[1]``, ``[1, 2]``, ``[1;2]``, ``[1-3]`` and ``【1†source】`` are marks. So are
    ``[Source 1]``, ``(Document 1)``, ``[[1]]`` and ``[citation:a-7]``, a link to an
    address that is a label of the numbering, and a bracket that holds nothing but
    labels of the numbering. Brackets in code are none.

    Args:
        answer: Any text.
        numbering: Labels that are marks beside the numbers.
    """
    known = {} if numbering is None else numbering
    shapes = {_shape_of_label(label) for label in known} - {None}
    marks: list[Mark] = []
    for match in _MARK.finditer(_CODE.sub(_blank_code, answer)):
        inside = next(filter(None, match.groupdict().values()))
        labels = _labels(inside, known, is_provided=match["provided"] is not None)
        if not labels and _shape_of_label(plain_label(inside)) in shapes:
            labels = (plain_label(inside),)
        mark = Mark(match.start(), match.end(), labels)
        link = _link_to_a_label(mark, answer, known)
        if link is not None or labels:
            marks.append(link or mark)
    return marks


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


def _blank_code(code: re.Match[str]) -> str:
    """As many blanks as code has signs, so that places stay."""
    return " " * len(code[0])


def _labels(
    inside: str, known: Mapping[str, object], *, is_provided: bool
) -> tuple[str, ...]:
    """The labels inside of a bracket; () if it is no mark."""
    if inside.strip() in known:
        return (inside.strip(),)
    whole = plain_label(inside)
    if whole in known:
        return (whole,)
    if is_provided and not _RANGE.fullmatch(whole):
        return (whole,) if whole else ()
    labels: list[str] = []
    for part in _SEPARATOR.split(inside):
        label = plain_label(part)
        if label in known or _NUMBER.fullmatch(label):
            labels.append(label)
        elif numbers := _RANGE.fullmatch(label):
            labels += _numbers_of_range(label, int(numbers[1]), int(numbers[2]))
        else:
            return _label_of_a_named_source(inside)
    return tuple(dict.fromkeys(labels))


def _label_of_a_named_source(inside: str) -> tuple[str, ...]:
    """The one label of a bracket that says that it names a source; () for any other.

    Of ``Source 2: report.pdf`` it is the number.
    """
    named = _PREFIX.match(inside.strip(_AROUND_LABEL))
    whole = plain_label(inside)
    if named is None or not whole or not re.search(r"[:#=0-9]", named[0] + whole[0]):
        return ()
    numbered = _NUMBER_AND_NAME.match(whole)
    return (_plain_number(numbered[1]),) if numbered else (whole,)


def plain_label(text: str) -> str:
    """A label without what may stand around it: ``1`` of ``Source 01``, ``a`` of ``doc: "a"``."""
    label = " ".join(text.split()).strip(_AROUND_LABEL)
    prefix = _PREFIX.match(label)
    if prefix is not None:
        label = label[prefix.end() :].strip(_AROUND_LABEL) or label
    return _plain_number(label)


def _shape_of_label(label: str) -> str | None:
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


def may_cite(answer: str) -> bool:
    """Whether an answer holds anything that may cite, in whatever form."""
    return _MAY_CITE.search(_CODE.sub(_blank_code, answer)) is not None


def _plain_number(label: str) -> str:
    """A number without leading zeros; any other label as it is."""
    return str(int(label)) if _NUMBER.fullmatch(label) else label


def _numbers_of_range(label: str, first: int, last: int) -> list[str]:
    if not first <= last < first + WIDEST_RANGE:
        return [label]
    return [str(number) for number in range(first, last + 1)]


def statements(
    answer: str, numbering: Numbering | None = None
) -> tuple[Statement, ...]:
    """Split an answer into its sentences, marks removed.

    Args:
        answer: Any text.
        numbering: As in ``marks_in``.
    """
    return _strip_marks(answer, marks_in(answer, numbering)).statements


def citations_of_marks(
    answer: str | None, numbering: Numbering
) -> tuple[Citation, ...]:
    """Read the marks of an answer as citations.

    A mark belongs to the sentence that it stands in; behind a sentence's full stop or
    quotation mark, to that sentence; on a line of its own, as after a list or a
    paragraph, to the last sentence before.

    Args:
        answer: The answer.
        numbering: By label the place of the context, from 0, that the prompt showed
            under it, as in ``{"1": 0, "2": 1}``; several places where contexts share
            it. All other labels are dangling.

    Returns:
        A citation for each mark, in order; () where there is none.

    Examples:
        >>> cited = citations_of_marks("It is old [1]. It fell. [2, 9]", {"1": 0, "2": 1})
        >>> [(one.start, one.end, one.contexts, one.dangling) for one in cited]
        [(0, 14, (0,), ()), (15, 23, (1,), ('9',))]
    """
    text = answer or ""
    marks = marks_in(text, numbering)
    if not marks:
        return ()
    stripped = _strip_marks(text, marks)
    citations: list[Citation] = []
    for mark in marks:
        places = [
            place for label in mark.labels for place in places_of(label, numbering)
        ]
        start, end = stripped.span_of(mark)
        citations.append(
            Citation(
                start=start,
                end=end,
                contexts=tuple(dict.fromkeys(places)),
                dangling=tuple(
                    label for label in mark.labels if label not in numbering
                ),
                mark=(mark.start, mark.end),
            )
        )
    return tuple(citations)


def places_of(label: str, numbering: Numbering) -> tuple[int, ...]:
    """Places of the contexts that a label names; () if it names none."""
    places = numbering.get(label, ())
    return (places,) if isinstance(places, int) else places


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


def cited_statements(
    answer: str | None, citations: Sequence[Citation]
) -> tuple[CitedStatement, ...]:
    """Split an answer into its sentences, each with what it cites.

    A citation belongs to each sentence that its span overlaps. One that overlaps none
    belongs to the sentence before it, or else to the first.

    Args:
        answer: The answer.
        citations: What it cites.

    Returns:
        A statement for each sentence, in order; marks are removed from their texts.

    Examples:
        >>> answer = "It is old [1]. It fell. [1, 9]"
        >>> cited = citations_of_marks(answer, {"1": 0})
        >>> [(one.text, one.contexts, one.dangling) for one in cited_statements(answer, cited)]
        [('It is old.', (0,), ()), ('It fell.', (0,), ('9',))]
    """
    text = answer or ""
    sentences = _strip_marks(text, _marks_of(text, citations)).statements
    citations_by_place: list[list[Citation]] = [[] for _ in sentences]
    for citation in citations:
        for place in _places_cited_for(citation, sentences):
            citations_by_place[place].append(citation)
    return tuple(
        _cited_statement(sentence.text, named)
        for sentence, named in zip(sentences, citations_by_place, strict=True)
    )


def _marks_of(answer: str, citations: Sequence[Citation]) -> list[Mark]:
    """The marks of an answer: those that look like marks, and those of its citations."""
    spans = {(mark.start, mark.end) for mark in marks_in(answer)}
    spans.update(one.mark for one in citations if one.mark is not None)
    marks: list[Mark] = []
    for start, end in sorted(spans):
        if not marks or start >= marks[-1].end:
            marks.append(Mark(start, end, ()))
    return marks


def _places_cited_for(
    citation: Citation, sentences: Sequence[Statement]
) -> Sequence[int]:
    """Places of the sentences that a citation is of."""
    overlapped = [
        place
        for place, sentence in enumerate(sentences)
        if citation.start < sentence.end and sentence.start < citation.end
    ]
    if overlapped or not sentences:
        return overlapped
    n_begun = bisect_right(sentences, citation.start, key=lambda one: one.start)
    return [max(n_begun - 1, 0)]


def _cited_statement(text: str, citations: Sequence[Citation]) -> CitedStatement:
    contexts = [place for citation in citations for place in citation.contexts]
    dangling = [label for citation in citations for label in citation.dangling]
    return CitedStatement(
        text, tuple(dict.fromkeys(contexts)), tuple(dict.fromkeys(dangling))
    )


@dataclass(frozen=True, slots=True)
class _Stripped:
    """An answer without its marks, as sentences that know where they stand in it."""

    answer: str
    statements: tuple[Statement, ...]

    def span_of(self, mark: Mark) -> tuple[int, int]:
        """The sentence that a mark belongs to; the mark itself where there is none."""
        n_begun = bisect_left(self.statements, mark.start, key=lambda one: one.start)
        n_ended = bisect_right(self.statements, mark.start, key=lambda one: one.end)
        last_begun = self.statements[n_begun - 1] if n_begun else None
        not_ended = self.statements[n_ended] if n_ended < len(self.statements) else None
        if last_begun is not None and not self._opens_a_line(mark):
            return last_begun.start, last_begun.end
        if not_ended is not None and self._shares_a_line(mark, not_ended):
            return not_ended.start, not_ended.end
        if last_begun is not None:
            return last_begun.start, last_begun.end
        return mark.start, mark.end

    def _opens_a_line(self, mark: Mark) -> bool:
        """Whether nothing but other marks and signs of a list stands before it."""
        line_start = self.answer.rfind("\n", 0, mark.start) + 1
        before = self.answer[line_start : mark.start]
        if len(before) > _LONGEST_OPENING:
            return False
        return not re.search(r"\w", _MARK.sub("", before))

    def _shares_a_line(self, mark: Mark, statement: Statement) -> bool:
        return self.answer.find("\n", mark.end, max(mark.end, statement.start)) < 0


def _strip_marks(answer: str, marks: Sequence[Mark]) -> _Stripped:
    """Take the marks out of an answer, and split what is left into sentences."""
    pieces = list(_pieces_between(answer, marks))
    text = "".join(piece for piece, _ in pieces)
    places = [place for piece, start in pieces for place in _places_of(piece, start)]
    found: list[Statement] = []
    cursor = 0
    for sentence in split_sentences(text):
        start = text.index(sentence, cursor)
        cursor = start + len(sentence)
        found.append(Statement(sentence, places[start], places[cursor - 1] + 1))
    return _Stripped(answer, tuple(found))


def _places_of(piece: str, start: int) -> Iterator[int]:
    """Where each sign of a piece stands in the answer."""
    return iter(range(start, start + len(piece)))


def _pieces_between(answer: str, marks: Sequence[Mark]) -> Iterator[tuple[str, int]]:
    """What stands between the marks, each with where it begins.

    The blanks before a mark go with it. Where two words, or the end of a sentence and a
    word, would touch, one blank stays, which stands for the mark.
    """
    start = 0
    for mark in marks:
        piece = answer[start : mark.start].rstrip(_BLANKS)
        yield piece, start
        behind = answer[mark.end : mark.end + 1]
        if piece and behind and _would_touch(piece[-1], behind):
            yield " ", mark.start
        start = mark.end
    yield answer[start:], start


def _would_touch(before: str, behind: str) -> bool:
    """Whether two signs are kept apart by the mark alone."""
    if before.isspace() or behind.isspace():
        return False
    return behind not in _CLOSES and behind not in "[【"


def numbering_of(texts: Sequence[str]) -> dict[str, int] | None:
    r"""Return the place of each context by the number that its own text begins with.

    ``Source 1:``, ``Document 2``, ``[3]`` and their like are numbers. They count only
    where every context has one and no two share one, and bare brackets only where they
    run from 0 or 1 in order: a chunk may begin with an entry of a bibliography.

    Args:
        texts: The contexts in their order.

    Returns:
        The numbering; None if the texts do not tell.

    Examples:
        >>> numbering_of(["Source 1:\\nIt is old.", "Source 2:\\nIt fell."])
        {'1': 0, '2': 1}
        >>> numbering_of(["It is old.", "It fell."]) is None
        True
    """
    heads = [_NUMBERED.match(text) for text in texts]
    numbers: list[int] = []
    by_bracket = False
    for head in heads:
        if head is None:
            return None
        by_bracket = by_bracket or head["bracket"] is not None
        numbers.append(int(head["bracket"] or head["word"]))
    if not numbers or len(set(numbers)) < len(numbers):
        return None
    if by_bracket and numbers not in (
        list(range(len(numbers))),
        list(range(1, len(numbers) + 1)),
    ):
        return None
    return {str(number): place for place, number in enumerate(numbers)}


def numbering_of_metadata(
    metadata: Sequence[Mapping[str, object]],
) -> dict[str, int] | None:
    """Return the place of each context by the number that its metadata hold.

    Args:
        metadata: Those of the contexts in their order. The number stands under
            ``citation_number`` or ``source_number``.

    Returns:
        The numbering; None if a context has no number, or two have the same.
    """
    numbering: dict[str, int] = {}
    for place, own in enumerate(metadata):
        number = next((own[key] for key in _NUMBER_KEYS if key in own), None)
        if isinstance(number, bool) or not isinstance(number, (int, str)):
            return None
        numbering[_plain_number(str(number).strip())] = place
    return numbering if metadata and len(numbering) == len(metadata) else None


def numbering_shown(
    texts: Sequence[str], metadata: Sequence[Mapping[str, object]]
) -> dict[str, int] | None:
    """Return the place of each context by the number that it was shown under.

    Args:
        texts: The contexts in their order.
        metadata: Those of the contexts, in the same order.

    Returns:
        The numbering that the texts begin with, or else that of the metadata; None if
        neither tells.
    """
    return numbering_of(texts) or numbering_of_metadata(metadata)


def is_citations(value: object) -> bool:
    """Whether a value is a list of citations as data, or an empty list."""
    if not isinstance(value, (list, tuple)):
        return False
    return all(
        isinstance(one, Mapping) and {"start", "end", "contexts"} <= one.keys()
        for one in value
    )


def is_numbering(value: object) -> bool:
    """Whether a value says the id of a context for each number, as a table writes it."""
    if not isinstance(value, Mapping) or not value:
        return False
    return all(
        _NUMBER.fullmatch(str(label)) and isinstance(named, (str, int))
        for label, named in value.items()
    )


def numbering_of_ids(
    id_by_label: Mapping[object, object], ids: Sequence[str | None]
) -> dict[str, int] | None:
    """Return the place of each context by its label.

    Args:
        id_by_label: The id of a context by label. A label of an id that no context has
            is left out, and so dangling.
        ids: Those of the contexts in their order.

    Returns:
        The numbering; None if an id is that of several contexts.
    """
    numbering: dict[str, int] = {}
    for label, named in id_by_label.items():
        places = [place for place, own in enumerate(ids) if own == str(named)]
        if len(places) > 1:
            return None
        if places:
            numbering[_plain_number(str(label).strip())] = places[0]
    return numbering


def why_unknown(answer: str | None) -> str:
    """Say why an answer's citations are unknown, for one of which none are known."""
    n_marks = len(marks_in(answer or ""))
    if not n_marks:
        return "nobody looked for citations, and the answer has no marks such as [1]"
    marks = "1 mark" if n_marks == 1 else f"{n_marks} marks"
    return (
        f"the answer has {marks} such as [1], and nothing says which context a number"
        " means: give the column citations, e.g. {number: id of the context}"
    )
