"""What an answer cites: marks such as ``[1]`` in its text, and which context each names.

A mark means what the prompt showed under its label. So marks are read only where that
is known: from a *numbering*, which says the place of a context for each label.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, Field, model_validator

from ragmetrics_core.data.answer_parts import fences_around, without_reasoning
from ragmetrics_core.data.frozen import Frozen, Text
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import Span
from ragmetrics_core.data.marks import (
    PLAIN_NUMBERS,
    Mark,
    Numbering,
    contexts_of_label,
    doubtful_forms_in,
    has_unread_marks,
    has_word_outside_marks,
    is_like_labels,
    marks_in,
    may_be_of_sentence_before,
    may_cite,
    may_link_another_source,
)
from ragmetrics_core.data.sentences import join_lines, whole_sentences
from ragmetrics_core.data.source_lists import (
    definitions_in,
    label_before,
    reference_lines_in,
)


def _refuse_truth_value(value: object) -> object:
    """Refuse True and False, which Python counts as 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("a place is a number")  # noqa: TRY004  # pydantic takes no other
    return value


Place = Annotated[int, Field(ge=0), BeforeValidator(_refuse_truth_value)]

UNREAD_FORM = "the answer may cite in a form that is not read"
"""Why citations are unknown of an answer with marks in other forms than those read."""

OTHER_TARGET = (
    "the answer links a mark to a target that may be another source than the mark names"
)
"""Why the meaning of a mark such as ``[1](#3)`` is unknown."""

_OTHER_NAMES = (
    "the answer names sources in another way than by the numbers of the contexts"
)
_NOBODY_LOOKED = "nobody looked for citations, and the answer has no marks such as [1]"
_NO_LABELS = (
    "the answer has no marks such as [1], and the prompt does not show each passage under"
    " a number or a name to be cited"
)
_LISTS_OF_JSON = "the answer is JSON, in which brackets are lists and no marks"
_NUMBER = lazy_pattern(r"\d+")
_LABEL_IN_BRACKETS = lazy_pattern(r"\[[^\[\]]+\]")
_LONGEST_OPENING = 2000  # signs of a list and marks, before the text of a line
_BLANKS = " \t\u00a0"
_BLANK_CHARACTERS = tuple(_BLANKS)
_CLOSES = ".,;:!?…)]}\"'”’。！？"
_SENTENCE_ENDS = lazy_pattern(r"[.!?…。！？][\"'”’)]*\s*\Z")
# What is cut out with a mark: what joins it to the next one, the address of its link,
# and the signs around it.
_BETWEEN_MARKS = lazy_pattern(r"[ \t\u00a0,;&]*")
_ADDRESS = lazy_pattern(r"\((?:https?://|www\.|#|/)[^()\s]{0,500}\)")
_WRAPPERS = (
    ("**", "**"),
    ("__", "__"),
    ("*", "*"),
    ("<sup>", "</sup>"),
    ("<cite>", "</cite>"),
    ("(", ")"),
    ("(see ", ")"),
    ("(cf. ", ")"),
    ("（", "）"),
    ("[", "]"),
    ("^", ""),
)
# A full stop with a word close after it, from which the mark had kept it apart.
_STOP_AND_WORD = lazy_pattern(r"[.!?…](?=[^\W\d_a-zß-öø-ÿ])")


class Citation(Frozen):
    """A place of the answer that cites: what is cited for it, and by which mark.

    Several citations may be of one span; those of a mark such as ``[1, 2]`` are one. A
    citation that names nothing, ``contexts`` and ``dangling`` both (), is *open*: what
    its mark means is not known.
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

    @property
    def is_open(self) -> bool:
        """Whether it is not known what the mark names."""
        return not self.contexts and not self.dangling

    @model_validator(mode="after")
    def _spans_are_in_order(self) -> "Citation":
        spans = [(self.start, self.end), self.mark or (0, 0)]
        if any(start > end for start, end in spans):
            raise ValueError("a span ends before it begins")
        return self


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of an answer without its marks.

    Args:
        text: The sentence.
        start: Where it begins in the answer.
        end: Where it ends there. Marks inside are within, those after it are not.
    """

    text: str
    start: int
    end: int


def statements(
    answer: str, numbering: Numbering | None = None
) -> tuple[Statement, ...]:
    """Split an answer into its sentences, without citation marks and reasoning.

    Args:
        answer: Any text.
        numbering: As in ``marks_in``.
    """
    text = without_reasoning(answer)
    return _strip_marks(text, marks_in(text, numbering)).statements


def citations_of_marks(
    answer: str | None, numbering: Numbering
) -> tuple[Citation, ...]:
    """Turn the marks of an answer, such as ``[1]``, into citations.

    A mark belongs to the sentence that it stands in or after. On a line of its own, as
    after a paragraph, it belongs to the last sentence before.

    Args:
        answer: The answer.
        numbering: For each label, the index of the context that the prompt showed under
            it, as in ``{"1": 0, "2": 1}``; several indices where contexts share a label.

    Returns:
        A citation for each mark, in order; () for an answer without marks. Labels that
        are not in the numbering are dangling.

    Examples:
        >>> cited = citations_of_marks("It is old [1]. It fell. [2, 9]", {"1": 0, "2": 1})
        >>> [(one.start, one.end, one.contexts, one.dangling) for one in cited]
        [(0, 14, (0,), ()), (15, 23, (1,), ('9',))]
    """
    pairs = marks_with_citations(answer or "", numbering)
    return tuple(citation for _, citation in pairs)


def marks_with_citations(
    answer: str, numbering: Numbering
) -> list[tuple[Mark, Citation]]:
    """List the marks of an answer, in order, each with its citation.

    Args:
        answer: The answer.
        numbering: As in ``citations_of_marks``.
    """
    text = without_reasoning(answer)
    marks = marks_in(text, numbering)
    if not marks:
        return []
    stripped = _strip_marks(text, marks)
    marks_and_citations: list[tuple[Mark, Citation]] = []
    for mark in marks:
        cited_for = stripped.sentence_of(mark)
        marks_and_citations.append((mark, citation_of(mark, cited_for, numbering)))
    return marks_and_citations


def citation_of(mark: Mark, cited_for: Span, numbering: Numbering) -> Citation:
    """Return the citation of a mark: the contexts that its labels name, and the rest.

    Args:
        mark: The mark.
        cited_for: The part of the answer that it cites for.
        numbering: As in ``citations_of_marks``.
    """
    contexts: list[int] = []
    for label in mark.labels:
        contexts += contexts_of_label(label, numbering)
    return Citation(
        start=cited_for[0],
        end=cited_for[1],
        contexts=tuple(dict.fromkeys(contexts)),
        dangling=tuple(label for label in mark.labels if label not in numbering),
        mark=(mark.start, mark.end),
    )


@dataclass(frozen=True, slots=True)
class CitationsRead:
    """What the marks of an answer tell.

    Args:
        citations: What it cites; () if it cites nothing; None if that is not known.
        why_unknown: Why it is not known, in words; "" if it is.
    """

    citations: tuple[Citation, ...] | None
    why_unknown: str = ""


def read_citations(answer: str | None, numbering: Numbering) -> CitationsRead:
    """Read the citations of an answer, or say why they are unknown.

    They are unknown in four cases:

    - The answer is a JSON object, in which ``[1]`` is a list.
    - A mark has a label of another kind than those of the numbering, such as ``[Smith]``
      beside ``{"1": 0}``. It may be another name of a context.
    - The target of a link may be another source than its mark names: ``[1](#3)``.
    - The answer may cite in a form that is not read, such as ``[see 2]``.

    Args:
        answer: The answer.
        numbering: For each label the index of the context that it names, ``{"1": 0}``;
            see ``citations_of_marks``.

    Examples:
        >>> read_citations("It is old [1].", {"1": 0}).why_unknown
        ''
        >>> read_citations("It is old [1]. It fell [see 2].", {"1": 0}).why_unknown
        'the answer may cite in a form that is not read'
    """
    text = without_reasoning(answer or "")
    if _is_json_object(text):
        return CitationsRead(None, _LISTS_OF_JSON)
    citations: list[Citation] = []
    for mark, citation in marks_with_citations(text, numbering):
        if may_link_another_source(text, mark, numbering):
            return CitationsRead(None, OTHER_TARGET)
        labels_of_no_context = citation.dangling
        for label in labels_of_no_context:
            # "9" of contexts 1 to 3 is a wrong number; "Smith" may be another name
            if not is_like_labels(label, numbering):
                return CitationsRead(None, _OTHER_NAMES)
        citations.append(citation)
    if cites_in_unread_form(text, numbering):
        return CitationsRead(None, UNREAD_FORM)
    return CitationsRead(tuple(citations))


def _is_json_object(text: str) -> bool:
    """Tell whether a text is an object written as JSON."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def cites_in_unread_form(answer: str, numbering: Numbering) -> bool:
    """Tell whether an answer cites in a form that is not read.

    If the answer has no mark that is read, any form that may cite counts. Else only
    forms count that hardly mean anything else, such as ``[see 2]``; the doubtful ones
    are left to ``may_cite_more``.

    Args:
        answer: The answer.
        numbering: As in ``citations_of_marks``.
    """
    marks = marks_in(answer, numbering)
    if not marks:
        return may_cite(answer)
    return has_unread_marks(answer, numbering, _spans_with_markup(answer, marks))


def may_cite_more(answer: str | None, citations: Sequence[Citation]) -> bool:
    """Tell whether a sentence without a citation may cite in a form that is not read.

    If no citation is known at all, any mark counts.

    Args:
        answer: The answer.
        citations: The citations that are known.
    """
    if not citations and may_cite(answer or ""):
        return True
    return any(statement.may_cite for statement in cited_statements(answer, citations))


def may_name_more(answer: str | None, citations: Sequence[Citation]) -> bool:
    """Tell whether an answer may name sources that its known marks do not name.

    "Document 2 says so, while [3] says red" may cite context 2: true, although [3] is
    known. ``may_cite_more`` looks only at sentences without a citation.

    Args:
        answer: The answer.
        citations: The citations that are known.
    """
    text = without_reasoning(answer or "")
    has_mark_of_unknown_source = any(citation.is_open for citation in citations)
    if has_mark_of_unknown_source or may_cite_more(text, citations):
        return True
    marks = _marks_of(text, citations)
    if marks and _lists_other_sources(text, marks):
        return True
    return _may_cite_beside_marks(text, marks)


def _may_cite_beside_marks(answer: str, marks: Sequence[Mark]) -> bool:
    """Tell whether "Document 2" or other words may cite a source that no mark names.

    "Document 2 [2] says so" names only the source of its mark: False.
    """
    numbers_in_marks: set[str] = set()
    for mark in marks:
        numbers_in_marks.update(_NUMBER.findall(answer[mark.start : mark.end]))
    spans_of_marks = _spans_with_markup(answer, marks)  # "**[1]**" with its asterisks
    # words outside of these spans that may cite
    for start, end in doubtful_forms_in(answer, spans_of_marks):
        numbers = set(_NUMBER.findall(answer[start:end]))
        has_only_numbers_of_marks = bool(numbers) and numbers <= numbers_in_marks
        if not has_only_numbers_of_marks:  # "Document 3", or a title such as "[Guide]"
            return True
    return False


def _lists_other_sources(answer: str, marks: Sequence[Mark]) -> bool:
    """Tell whether a line such as "Sources: [1], [2]" names a source that no mark names.

    Sentences without a mark may rest on that source.
    """
    labels_in_marks: set[str] = set()
    for mark in marks:
        text = answer[mark.start : mark.end]
        labels_in_marks.add(text)
        # a closing line that was read, "Sources: [1], [2]", is the mark of each of them
        labels_in_marks.update(_LABEL_IN_BRACKETS.findall(text))
    for start, end in definitions_in(answer):
        line = answer[start:end].strip()
        defines_a_mark = line.startswith("[")  # "[2]: https://example.org"
        if defines_a_mark:
            continue
        if not labels_in_marks.issuperset(_LABEL_IN_BRACKETS.findall(line)):
            return True
    return False


@dataclass(frozen=True, slots=True)
class CitedStatement:
    """A sentence of an answer without its marks, and what it cites.

    Args:
        text: The sentence.
        contexts: Places of the contexts that it names, from 0, each once.
        dangling: What it names and nobody was shown, each once.
        may_cite: Whether it cites nothing that is known, and may cite in a form that is
            not read, such as "(2)" or a link.
    """

    text: str
    contexts: tuple[int, ...] = ()
    dangling: tuple[str, ...] = ()
    may_cite: bool = False


def cited_statements(
    answer: str | None, citations: Sequence[Citation]
) -> tuple[CitedStatement, ...]:
    """Split an answer into its sentences, each with what it cites.

    Reasoning such as ``<think>…</think>`` is no part of it. A citation belongs to each
    sentence that its span overlaps. A citation between two sentences belongs to the
    sentence before it, or else to the first. A statement ``may_cite`` if it has
    something like a citation that could not be read, such as "as source 2 says".

    Args:
        answer: The answer.
        citations: The citations that were read in the answer.

    Returns:
        A statement for each sentence, in order, without marks.

    Examples:
        >>> answer = "It is old [1]. It fell. [1, 9]"
        >>> cited = citations_of_marks(answer, {"1": 0})
        >>> [(one.text, one.contexts, one.dangling) for one in cited_statements(answer, cited)]
        [('It is old.', (0,), ()), ('It fell.', (0,), ('9',))]
    """
    text = without_reasoning(answer or "")
    marks = _marks_of(text, citations)
    sentences = _strip_marks(text, marks).statements
    citations_by_sentence: list[list[Citation]] = [[] for _ in sentences]
    for citation in citations:
        for index in _sentences_cited_for(citation, sentences):
            citations_by_sentence[index].append(citation)
    sentences_that_may_cite = _sentences_that_may_cite(text, marks, sentences)
    return tuple(
        _cited_statement(
            sentence.text,
            citations_by_sentence[index],
            may_cite=index in sentences_that_may_cite,
        )
        for index, sentence in enumerate(sentences)
    )


def _sentences_that_may_cite(
    answer: str, marks: Sequence[Mark], sentences: Sequence[Statement]
) -> frozenset[int]:
    """Return the indices of the sentences that may hold a citation that was not read.

    Args:
        answer: The answer.
        marks: The citations that were read, such as "[1]".
        sentences: The sentences of the answer.
    """
    # "Sources: [8], [9]" at the end, and no mark names 9: any sentence may rest on it
    if marks and _lists_other_sources(answer, marks):
        return frozenset(range(len(sentences)))
    return _sentences_with_doubtful_forms(answer, marks, sentences)


def _sentences_with_doubtful_forms(
    answer: str, marks: Sequence[Mark], sentences: Sequence[Statement]
) -> frozenset[int]:
    """Return the indices of the sentences to which a doubtful form may belong.

    A doubtful form looks like a citation and is no mark: "It is old. As source 2 says,
    it fell." has the doubtful form "source 2", and the result is {1}. In "It is old.
    (2) It fell." the form "(2)" may belong to either sentence: {0, 1}.
    """
    starts = [sentence.start for sentence in sentences]
    mark_spans = _spans_with_markup(answer, marks)
    indices: set[int] = set()
    for start, end in doubtful_forms_in(answer, mark_spans):
        index = bisect_right(starts, start) - 1
        is_before_first_sentence = index < 0
        if is_before_first_sentence:
            continue
        indices.add(index)
        before_form = answer[starts[index] : start]
        form = answer[start:end]
        if index > 0 and may_be_of_sentence_before(form, before_form):
            indices.add(index - 1)
    return frozenset(indices)


def _marks_of(answer: str, citations: Sequence[Citation]) -> list[Mark]:
    """Return the spans of all marks: of known citations, and numbers such as "[2]".

    Example: in "Blue [2], red.", without known citations, the mark is at 5 to 8. If
    marks overlap, the first is kept. Labels stay empty: callers need only the offsets.
    """
    spans = {(mark.start, mark.end) for mark in marks_in(answer, PLAIN_NUMBERS)}
    for citation in citations:
        if citation.mark is not None:
            spans.add(citation.mark)
    marks: list[Mark] = []
    for start, end in sorted(spans):
        if not marks or start >= marks[-1].end:
            marks.append(Mark(start, end, ()))
    return marks


def _sentences_cited_for(
    citation: Citation, sentences: Sequence[Statement]
) -> Sequence[int]:
    """Return the indices of the sentences that a citation belongs to.

    These are all that its span overlaps, else the sentence before, else the first.
    """
    overlapped = [
        index
        for index, sentence in enumerate(sentences)
        if citation.start < sentence.end and sentence.start < citation.end
    ]
    if overlapped or not sentences:
        return overlapped
    n_begun = bisect_right(
        sentences, citation.start, key=lambda statement: statement.start
    )
    return [max(n_begun - 1, 0)]


def _cited_statement(
    text: str, citations: Sequence[Citation], *, may_cite: bool
) -> CitedStatement:
    """Make the statement of a sentence and its citations.

    ``may_cite`` counts only for a sentence without a known citation. An open one may
    cite, too.
    """
    contexts = [place for citation in citations for place in citation.contexts]
    dangling = [label for citation in citations for label in citation.dangling]
    return CitedStatement(
        text,
        tuple(dict.fromkeys(contexts)),
        tuple(dict.fromkeys(dangling)),
        may_cite=(may_cite or bool(citations)) and not (contexts or dangling),
    )


@dataclass(frozen=True, slots=True)
class _Stripped:
    """An answer without its marks, as sentences that know where they stand in it.

    Args:
        answer: The answer.
        statements: Its sentences.
        starts_of_lines_with_leading_marks: Where lines begin on which each mark stands
            before its sentence, such as "[1] It is old. [2] It fell.".
    """

    answer: str
    statements: tuple[Statement, ...]
    starts_of_lines_with_leading_marks: frozenset[int]

    def sentence_of(self, mark: Mark) -> Span:
        """Return start and end of the sentence that a mark belongs to.

        A mark that begins its line belongs to the sentence that follows on the line,
        any other to the sentence that it stands in or after. If there is no such
        sentence, the other of the two counts, else the mark's own span is returned.
        """
        before = self._sentence_before(mark)
        following = self._sentence_following_on_line(mark)
        candidates = (before, following)
        if self._leads_its_sentence(mark):
            candidates = (following, before)
        for statement in candidates:
            if statement is not None:
                return statement.start, statement.end
        return mark.start, mark.end

    def _sentence_before(self, mark: Mark) -> Statement | None:
        """Return the last sentence that begins before a mark; the mark may be inside it."""
        n_begun = bisect_left(
            self.statements, mark.start, key=lambda statement: statement.start
        )
        return self.statements[n_begun - 1] if n_begun else None

    def _sentence_following_on_line(self, mark: Mark) -> Statement | None:
        """Return the first sentence that ends after a mark, if it begins on its line."""
        n_ended = bisect_right(
            self.statements, mark.start, key=lambda statement: statement.end
        )
        if n_ended == len(self.statements):
            return None
        following = self.statements[n_ended]
        line_end = self.answer.find("\n", mark.end, max(mark.end, following.start))
        return following if line_end < 0 else None

    def _leads_its_sentence(self, mark: Mark) -> bool:
        """Tell whether a mark stands before its sentence: "[1] It is old. [2] It fell."."""
        line_start = self.answer.rfind("\n", 0, mark.start) + 1
        if line_start in self.starts_of_lines_with_leading_marks:
            return True
        before = self.answer[line_start : mark.start]
        # only marks and signs such as "-" stand before it
        return len(before) <= _LONGEST_OPENING and not has_word_outside_marks(before)


def _strip_marks(answer: str, marks: Sequence[Mark]) -> _Stripped:
    """Cut the marks and lists of sources out of an answer, and split it into sentences.

    "It is old [1]. It fell." gives "It is old." at 0 to 14 and "It fell." at 15 to 23:
    the offsets count in the answer, marks included. Besides, the result says on which
    lines a mark belongs to the sentence behind it: "[1] It is old. [2] It fell.".
    """
    remaining = _cut_out(answer, _cuts(answer, marks))
    return _Stripped(
        answer,
        tuple(_statements_in(remaining)),
        starts_of_lines_with_leading_marks=_starts_of_lines_with_leading_marks(
            answer, marks
        ),
    )


def _statements_in(remaining: "_Remaining") -> Iterator[Statement]:
    """Yield the sentences of what is left of an answer, with their places in the answer.

    Example: "It is old." of "It is old [1]." stands at 0 to 14, its mark included.
    """
    # A sentence over two lines becomes one line, as long as before: indices stay valid.
    text = join_lines(remaining.text, remaining.indices_behind_cuts)
    end = 0
    for sentence in whole_sentences(text, remaining.indices_behind_cuts):
        start = text.index(sentence, end)
        end = start + len(sentence)
        yield Statement(
            sentence,
            remaining.index_in_answer[start],
            remaining.index_in_answer[end - 1] + 1,
        )


class _Remaining(NamedTuple):
    """What is left of an answer after cuts.

    Args:
        text: The text that is left.
        index_in_answer: For each of its characters the index in the answer.
        indices_behind_cuts: Where the text goes on after a cut, blanks skipped. A full
            stop or line break there ends a sentence, as in "It is old [1] .".
    """

    text: str
    index_in_answer: Sequence[int]
    indices_behind_cuts: set[int]


class _Piece(NamedTuple):
    """A piece of an answer between its cuts, and the index where it begins there."""

    text: str
    start: int


def _cut_out(answer: str, cuts: Sequence[Span]) -> _Remaining:
    """Cut some spans out of an answer.

    Where words would touch, a blank takes the place of a cut. Example: "old[1]and"
    without the span (3, 6) leaves "old and". Its characters stood at 0, 1, 2, 6, 6, 7
    and 8 in the answer: the blank gets the index behind the cut. The result also says
    where its text goes on after a cut.
    """
    pieces: list[str] = []
    index_in_answer: list[int] = []
    piece_ends: list[int] = []
    for piece, start in _pieces_between(answer, cuts):
        pieces.append(piece)
        index_in_answer += range(start, start + len(piece))
        piece_ends.append(len(index_in_answer))
    text = "".join(pieces)
    # Each piece ends where a cut was. Only the last piece ends where the text ends:
    # nothing follows there, so this index does no harm.
    indices_behind_cuts = {_skip_blanks(text, end) for end in piece_ends}
    return _Remaining(text, index_in_answer, indices_behind_cuts)


def _skip_blanks(text: str, index: int) -> int:
    """Return the index of the first character from ``index`` on that is no blank."""
    while text[index : index + 1] in _BLANK_CHARACTERS:
        index += 1
    return index


def _cuts(answer: str, marks: Sequence[Mark]) -> list[Span]:
    """Return the spans to cut out of an answer, in order and without overlap.

    These are its marks with the markup around them, its lists of sources, and the lines that
    open and close a fence around a text.
    """
    spans = [
        *_spans_with_markup(answer, marks),
        *reference_lines_in(answer),
        *fences_around(answer),
    ]
    cuts: list[Span] = []
    for start, end in sorted(spans):
        if cuts and start < cuts[-1][1]:
            continue
        cuts.append((start, end))
    return cuts


def _spans_with_markup(answer: str, marks: Sequence[Mark]) -> list[Span]:
    """Return the spans of marks, each widened by the markup around the mark.

    So no markup remains when a span is cut out of the answer: no asterisks of
    ``**[1]**``, and no address of ``[1](http://a.test)``. Marks side by side, as in
    ``([1], [2])``, share a span.
    """
    spans: list[Span] = []
    for mark in marks:
        link = _ADDRESS.match(answer, mark.end)
        end = mark.end if link is None else link.end()
        # "[1], [2]": the second mark is added to the span of the first
        if spans and _BETWEEN_MARKS.fullmatch(answer, spans[-1][1], mark.start):
            spans[-1] = spans[-1][0], end
        else:
            spans.append((mark.start, end))
    return [_widen_to_markup(answer, span) for span in spans]


def _widen_to_markup(answer: str, span: Span) -> Span:
    """Widen a span by a label such as "Source:" before it, and by brackets around it."""
    start, end = span
    start = label_before(answer, start)
    for opening, closing in _WRAPPERS:
        if answer.endswith(opening, 0, start) and answer.startswith(closing, end):
            return start - len(opening), end + len(closing)
    return start, end


def _pieces_between(answer: str, cuts: Sequence[Span]) -> Iterator[_Piece]:
    """Yield the pieces of an answer between its cuts, and blanks where words would touch.

    With "[1]" cut out, "old[1]and" yields "old", " " and "and". The blank comes behind a
    full stop: "old[1].It" yields "old", ".", " " and "It". Blanks before a cut are cut,
    too.
    """
    start = 0
    for cut_start, cut_end in cuts:
        piece = answer[start:cut_start].rstrip(_BLANKS)
        yield _Piece(piece, start)
        start = cut_end
        next_character = answer[cut_end : cut_end + 1]
        if _STOP_AND_WORD.match(answer, cut_end):
            full_stop = next_character
            yield _Piece(full_stop, cut_end)
            start = cut_end + 1
            yield _Piece(" ", start)
        elif piece and next_character and _would_touch(piece[-1], next_character):
            yield _Piece(" ", start)
    yield _Piece(answer[start:], start)


def _would_touch(last: str, following: str) -> bool:
    """Tell whether two characters need a space between them once the mark there is cut.

    A full stop or a closing bracket needs none before it.
    """
    if last.isspace() or following.isspace():
        return False
    return following not in _CLOSES and following not in "[【"


def _starts_of_lines_with_leading_marks(
    answer: str, marks: Sequence[Mark]
) -> frozenset[int]:
    """Return where lines begin on which each mark stands before its sentence.

    "[1] It is old. [2] It fell." is such a line: it begins with a mark, it does not end
    in one, and all others stand right after a sentence.
    """
    marks_by_line: dict[int, list[Mark]] = {}
    for mark in marks:
        line_start = answer.rfind("\n", 0, mark.start) + 1
        marks_by_line.setdefault(line_start, []).append(mark)
    return frozenset(
        line_start
        for line_start, marks_of_line in marks_by_line.items()
        if _each_leads(answer, line_start, marks_of_line)
    )


def _each_leads(answer: str, line_start: int, marks: Sequence[Mark]) -> bool:
    """Tell whether each mark of a line stands before the sentence that it belongs to.

    True for "[1] It is old. [2][3] It fell."; false for "It is old [1]."

    Args:
        answer: The answer.
        line_start: Where the line begins.
        marks: The marks of the line, at least one.
    """
    line_end = answer.find("\n", marks[-1].end)
    behind_last = answer[marks[-1].end : None if line_end < 0 else line_end]
    before_first = answer[line_start : marks[0].start]
    # "It is old [1]." has words before the first mark and none after the last
    if re.search(r"\w", before_first) or not re.search(r"\w", behind_last):
        return False
    for mark, next_mark in pairwise(marks):
        between = answer[mark.end : next_mark.start]
        are_side_by_side = not between.strip(_BLANKS + ",;")
        if not are_side_by_side and not _SENTENCE_ENDS.search(between):
            return False
    return True


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
