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
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from ragmetrics_core.data.frozen import Frozen, Text
from ragmetrics_core.data.marks import (
    PLAIN_NUMBERS,
    Mark,
    Numbering,
    Span,
    definitions_in,
    doubtful_forms_in,
    fences_around,
    has_unread_marks,
    has_word_outside_marks,
    is_like_labels,
    label_before,
    marks_in,
    may_be_of_sentence_before,
    may_cite,
    reference_lines_in,
)
from ragmetrics_core.data.sentences import join_lines, whole_sentences


def _refuse_truth_value(value: object) -> object:
    """Refuse True and False, which Python counts as 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("a place is a number")  # noqa: TRY004  # pydantic takes no other
    return value


Place = Annotated[int, Field(ge=0), BeforeValidator(_refuse_truth_value)]

UNREAD_FORM = "the answer may cite in a form that is not read"
"""Why citations are unknown of an answer with marks in other forms than those read."""

_OTHER_NAMES = (
    "the answer names sources in another way than by the numbers of the contexts"
)
_LISTS_OF_JSON = "the answer is JSON, in which brackets are lists and no marks"
_NUMBER = re.compile(r"\d+")
_LABEL_IN_BRACKETS = re.compile(r"\[[^\[\]]+\]")
_LONGEST_OPENING = 2000  # signs of a list and marks, before the text of a line
_BLANKS = " \t\u00a0"
_BLANK_SIGNS = tuple(_BLANKS)
_CLOSES = ".,;:!?…)]}\"'”’。！？"
_SENTENCE_ENDS = re.compile(r"[.!?…。！？][\"'”’)]*\s*\Z")
# What is cut out with a mark: what joins it to the next one, the address of its link,
# and the signs around it.
_BETWEEN_MARKS = re.compile(r"[ \t\u00a0,;&]*")
_ADDRESS = re.compile(r"\((?:https?://|www\.|#|/)[^()\s]{0,500}\)")
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
# A full stop with a word close behind it, from which the mark had kept it apart.
_STOP_AND_WORD = re.compile(r"[.!?…](?=[^\W\d_a-zß-öø-ÿ])")


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
    """Read the marks of an answer, if they tell all that it cites.

    In two cases they do not. The answer may cite in a form that is not read. Or a mark
    names a source in another way than the numbering does, so that the source may have
    been shown.

    Args:
        answer: The answer.
        numbering: As in ``citations_of_marks``.

    Examples:
        >>> read_citations("It is old [1].", {"1": 0}).why_unknown
        ''
        >>> read_citations("It is old [1]. It fell [see 2].", {"1": 0}).why_unknown
        'the answer may cite in a form that is not read'
    """
    text = answer or ""
    if _is_json_object(text):
        return CitationsRead(None, _LISTS_OF_JSON)
    citations = citations_of_marks(text, numbering)
    for citation in citations:
        for label in citation.dangling:
            if not is_like_labels(label, numbering):
                return CitationsRead(None, _OTHER_NAMES)
    if cites_in_unread_form(text, numbering):
        return CitationsRead(None, UNREAD_FORM)
    return CitationsRead(citations)


def _is_json_object(text: str) -> bool:
    """Whether a text is an object written as JSON."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def cites_in_unread_form(answer: str, numbering: Numbering) -> bool:
    """Whether an answer cites in a form that is not read, alone or beside read marks.

    Where no mark is read, any form that may cite counts. Beside read marks it counts
    only where it hardly means anything else; of the others ``may_cite_more`` tells.

    Args:
        answer: The answer.
        numbering: As in ``citations_of_marks``.
    """
    marks = marks_in(answer, numbering)
    if not marks:
        return may_cite(answer)
    return has_unread_marks(answer, numbering, _spans_with_signs(answer, marks))


def may_cite_more(answer: str | None, citations: Sequence[Citation]) -> bool:
    """Whether a sentence without a citation may cite in a form that is not read.

    Where no citation is known at all, any mark counts.

    Args:
        answer: The answer.
        citations: What is known that it cites.
    """
    if not citations and may_cite(answer or ""):
        return True
    return any(statement.may_cite for statement in cited_statements(answer, citations))


def may_name_more(answer: str | None, citations: Sequence[Citation]) -> bool:
    """Whether an answer may name sources beside its marks, in a form that is not read.

    Other than in ``may_cite_more`` a sentence counts that cites, too: in "Document 2
    says so, while [3] says red" context 2 may be cited. A form whose numbers all stand
    in marks, as in "Document 2 [2] says so", names nothing more.

    Args:
        answer: The answer.
        citations: What is known that it cites.
    """
    text = answer or ""
    if may_cite_more(text, citations):
        return True
    marks = _marks_of(text, citations)
    if marks and _lists_other_sources(text, marks):
        return True
    numbers_in_marks: set[str] = set()
    for mark in marks:
        numbers_in_marks.update(_NUMBER.findall(text[mark.start : mark.end]))
    for start, end in doubtful_forms_in(text, _spans_with_signs(text, marks)):
        numbers = set(_NUMBER.findall(text[start:end]))
        if not numbers or not numbers <= numbers_in_marks:
            return True
    return False


def _lists_other_sources(answer: str, marks: Sequence[Mark]) -> bool:
    """Whether a line such as "Sources: [1], [2]" names a source that no mark names.

    Sentences without a mark may rest on it.
    """
    labels_in_marks = {answer[mark.start : mark.end] for mark in marks}
    for start, end in definitions_in(answer):
        line = answer[start:end].strip()
        defines_a_mark = line.startswith("[")  # "[2]: https://example.org"
        if defines_a_mark:
            continue
        if not labels_in_marks.issuperset(_LABEL_IN_BRACKETS.findall(line)):
            return True
    return False


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
    marks = _marks_of(text, citations)
    sentences = _strip_marks(text, marks).statements
    citations_by_place: list[list[Citation]] = [[] for _ in sentences]
    for citation in citations:
        for place in _places_cited_for(citation, sentences):
            citations_by_place[place].append(citation)
    doubtful_places = _places_that_may_cite(text, marks, sentences)
    return tuple(
        _cited_statement(
            sentence.text,
            citations_by_place[place],
            may_cite=place in doubtful_places,
        )
        for place, sentence in enumerate(sentences)
    )


def _places_that_may_cite(
    answer: str, marks: Sequence[Mark], sentences: Sequence[Statement]
) -> frozenset[int]:
    """Places of sentences that may cite in a form that is not read.

    A form at the beginning of a sentence may belong to the sentence before. A list of
    other sources than those of the marks may belong to each.
    """
    if marks and _lists_other_sources(answer, marks):
        return frozenset(range(len(sentences)))
    starts = [sentence.start for sentence in sentences]
    read_spans = _spans_with_signs(answer, marks)
    places: set[int] = set()
    for start, end in doubtful_forms_in(answer, read_spans):
        place = bisect_right(starts, start) - 1
        if place < 0:
            continue
        places.add(place)
        before = answer[starts[place] : start]
        if place and may_be_of_sentence_before(answer[start:end], before):
            places.add(place - 1)
    return frozenset(places)


def _marks_of(answer: str, citations: Sequence[Citation]) -> list[Mark]:
    """The marks of an answer: what looks like one, and those of its citations.

    Of marks that overlap the first counts. The marks have no labels: they only say
    where something is to be taken out.
    """
    spans = {(mark.start, mark.end) for mark in marks_in(answer, PLAIN_NUMBERS)}
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


def _cited_statement(
    text: str, citations: Sequence[Citation], *, may_cite: bool
) -> CitedStatement:
    """A sentence with what its citations name; one with citations cites nothing else."""
    contexts = [place for citation in citations for place in citation.contexts]
    dangling = [label for citation in citations for label in citation.dangling]
    return CitedStatement(
        text,
        tuple(dict.fromkeys(contexts)),
        tuple(dict.fromkeys(dangling)),
        may_cite=may_cite and not citations,
    )


@dataclass(frozen=True, slots=True)
class _Stripped:
    """An answer without its marks, as sentences that know where they stand in it.

    Args:
        answer: The answer.
        statements: Its sentences.
        led_lines: Where lines begin of which each sentence has its marks before it.
    """

    answer: str
    statements: tuple[Statement, ...]
    led_lines: frozenset[int]

    def span_of(self, mark: Mark) -> Span:
        """Where the sentence stands that a mark belongs to.

        It is the last one that has begun before the mark. It is the next one where the
        mark leads it: at the beginning of its line. Where there is no sentence, it is
        the mark itself.
        """
        n_begun = bisect_left(self.statements, mark.start, key=lambda one: one.start)
        n_ended = bisect_right(self.statements, mark.start, key=lambda one: one.end)
        last_begun = self.statements[n_begun - 1] if n_begun else None
        not_ended = self.statements[n_ended] if n_ended < len(self.statements) else None
        line_start = self.answer.rfind("\n", 0, mark.start) + 1
        leads = line_start in self.led_lines or self._opens_line(mark, line_start)
        if last_begun is not None and not leads:
            return last_begun.start, last_begun.end
        if not_ended is not None and self._shares_a_line(mark, not_ended):
            return not_ended.start, not_ended.end
        if last_begun is not None:
            return last_begun.start, last_begun.end
        return mark.start, mark.end

    def _opens_line(self, mark: Mark, line_start: int) -> bool:
        """Whether nothing but other marks and signs of a list stands before it."""
        before = self.answer[line_start : mark.start]
        return len(before) <= _LONGEST_OPENING and not has_word_outside_marks(before)

    def _shares_a_line(self, mark: Mark, statement: Statement) -> bool:
        return self.answer.find("\n", mark.end, max(mark.end, statement.start)) < 0


def _strip_marks(answer: str, marks: Sequence[Mark]) -> _Stripped:
    """Take the marks out of an answer, and split what is left into sentences.

    Lists of sources are taken out, too. A full stop or the end of a line right behind a
    mark ends a sentence in any case.
    """
    pieces: list[str] = []
    place_by_sign: list[int] = []  # where each sign that is left stands in the answer
    cut_places: set[int] = set()  # where something was taken out of what is left
    for piece, start in _pieces_between(answer, _cuts(answer, marks)):
        pieces.append(piece)
        place_by_sign += range(start, start + len(piece))
        cut_places.add(len(place_by_sign))
    text = "".join(pieces)
    ends = {_first_sign_from(place, text) for place in cut_places}
    text = join_lines(text, ends)
    statements_found: list[Statement] = []
    end = 0  # of the sentence before
    for sentence in whole_sentences(text, ends):
        start = text.index(sentence, end)
        end = start + len(sentence)
        statements_found.append(
            Statement(sentence, place_by_sign[start], place_by_sign[end - 1] + 1)
        )
    led_lines = _lines_led_by_marks(answer, marks)
    return _Stripped(answer, tuple(statements_found), led_lines)


def _first_sign_from(place: int, text: str) -> int:
    """The place of the first sign from a place on that is no blank."""
    while text[place : place + 1] in _BLANK_SIGNS:
        place += 1
    return place


def _cuts(answer: str, marks: Sequence[Mark]) -> list[Span]:
    """What is taken out of an answer: its marks with what is around them, and its lists of sources."""
    cuts: list[Span] = []
    for start, end in sorted(
        [
            *_spans_with_signs(answer, marks),
            *reference_lines_in(answer),
            *fences_around(answer),
        ]
    ):
        if cuts and start < cuts[-1][1]:
            continue
        cuts.append((start, end))
    return cuts


def _spans_with_signs(answer: str, marks: Sequence[Mark]) -> list[Span]:
    """Where marks stand, with the addresses of their links and the signs around them.

    Marks side by side are in one span. So ``**[1]**``, ``([1], [2])`` and ``[1](http://a.test)`` leave nothing behind.
    """
    spans: list[Span] = []
    for mark in marks:
        link = _ADDRESS.match(answer, mark.end)
        end = mark.end if link is None else link.end()
        if spans and _BETWEEN_MARKS.fullmatch(answer, spans[-1][1], mark.start):
            spans[-1] = spans[-1][0], end
        else:
            spans.append((mark.start, end))
    return [_with_wrappers(answer, span) for span in spans]


def _with_wrappers(answer: str, span: Span) -> Span:
    """A span with the signs that open right before it and close right behind it."""
    start, end = span
    start = label_before(answer, start)
    for opening, closing in _WRAPPERS:
        if answer.endswith(opening, 0, start) and answer.startswith(closing, end):
            return start - len(opening), end + len(closing)
    return start, end


def _pieces_between(answer: str, cuts: Sequence[Span]) -> Iterator[tuple[str, int]]:
    """What stands between the cuts of an answer, each with where it begins.

    The blanks before a cut go with it. A blank is put in where a cut alone kept two
    words apart, and where a full stop behind a cut has the next sentence close behind
    it. Such a blank stands in the answer where the cut begins.
    """
    start = 0
    for cut_start, cut_end in cuts:
        piece = answer[start:cut_start].rstrip(_BLANKS)
        yield piece, start
        start = cut_end
        behind = answer[cut_end : cut_end + 1]
        if piece and behind and _would_touch(piece[-1], behind):
            yield " ", cut_start
        elif _STOP_AND_WORD.match(answer, cut_end):
            yield behind, cut_end  # the full stop
            yield " ", cut_start
            start = cut_end + 1
    yield answer[start:], start


def _would_touch(before: str, behind: str) -> bool:
    """Whether two signs are kept apart by the mark alone."""
    if before.isspace() or behind.isspace():
        return False
    return behind not in _CLOSES and behind not in "[【"


def _lines_led_by_marks(answer: str, marks: Sequence[Mark]) -> frozenset[int]:
    """Where lines begin in which each mark stands before its sentence.

    "[1] It is old. [2] It fell." is such a line: it begins with a mark, it does not end
    in one, and all others stand right behind a sentence.
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
    """Whether each mark of a line stands before the sentence that it is of.

    Args:
        answer: The answer.
        line_start: Where the line begins.
        marks: The marks of the line, at least one.
    """
    line_end = answer.find("\n", marks[-1].end)
    behind_last = answer[marks[-1].end : None if line_end < 0 else line_end]
    before_first = answer[line_start : marks[0].start]
    if re.search(r"\w", before_first) or not re.search(r"\w", behind_last):
        return False
    for mark, next_mark in pairwise(marks):
        between = answer[mark.end : next_mark.start]
        are_side_by_side = not between.strip(_BLANKS + ",;")
        if not are_side_by_side and not _SENTENCE_ENDS.search(between):
            return False
    return True


def is_citations(value: object) -> bool:
    """Whether a value is a list of citations as data, or an empty list."""
    if not isinstance(value, (list, tuple)):
        return False
    return all(
        isinstance(one, Mapping) and {"start", "end", "contexts"} <= one.keys()
        for one in value
    )


def why_unknown(answer: str | None) -> str:
    """Say why an answer's citations are unknown, for one of which none are known."""
    n_marks = len(marks_in(answer or ""))
    if not n_marks and may_cite(answer or ""):
        return UNREAD_FORM
    if not n_marks:
        return "nobody looked for citations, and the answer has no marks such as [1]"
    marks = "1 mark" if n_marks == 1 else f"{n_marks} marks"
    return (
        f"the answer has {marks} such as [1], and nothing says which context a number"
        " means: give the column citations, e.g. {number: id of the context}"
    )
