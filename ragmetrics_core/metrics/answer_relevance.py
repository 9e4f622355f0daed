"""Answer Relevance: does the answer address the question that was asked?

It is graded from 0 to 3, whatever is true.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from ragmetrics_core.data import (
    Comment,
    Evidence,
    Instructions,
    NotAnswered,
    Part,
    Question,
    Sample,
    SilentData,
    ask,
)
from ragmetrics_core.data.metric_evidence import DECLINED
from ragmetrics_core.data.replies import Points
from ragmetrics_core.metrics.declined import (
    instructions_on_declining,
    question_on_declining,
    standalone_question_part,
)
from ragmetrics_core.metrics.metric import Metric, Plan, instructions_for_judge

_HIGHEST_GRADE = 3
_GRADES_IN_WORDS = (
    "is about something else",
    "comes near the question without answering it",
    "addresses a part of the question",
    "addresses the question fully",
)


class RelevanceGrade(SilentData, extra="ignore"):
    """How far an answer addresses its question: 0 (something else) to 3 (fully)."""

    reason: Comment = ""
    grade: Points


class Addresses(Question[RelevanceGrade]):
    """How far does the answer address the question?

    Parts: question, answer. Contexts and reference are no parts of it.
    """


_EXAMPLE = RelevanceGrade.model_construct(
    reason="It says who lit the lamp, and when that was.", grade=3
)


class AnswerRelevance(Metric):
    """Does the answer address the question that was asked, whatever is true?

    The judge sees the question and the answer, and neither contexts nor reference.

    Args:
        examples: Few-shot examples, written out; "" for none, None: those shipped.
        template: Replaces the prompt; must hold ``{question}`` and ``{answer}``.

    Returns:
        A score in [0, 1], higher is better: grade / 3, with 3 fully, 2 in part, 1 near
        it and 0 something else.

    Undefined when:
        Question or answer are missing, or the answer declines (``declined``).

    Raises:
        SettingError: If a template lacks a placeholder.

    Source:
        The answer relevance of the RAG triad, as a grade of our own: no published
        formula.

    Examples:
        >>> from ragmetrics_core import ScriptedJudge
        >>> from ragmetrics_core.metrics.declined import Declined
        >>> judge = ScriptedJudge({Addresses: {"grade": 2, "reason": "Not when."}, Declined: {"declined": 0}})
        >>> result = AnswerRelevance().score(question="Who lit it, and when?", answer="Anna did.", judge=judge)
        >>> round(result.value, 3)
        0.667
    """

    version: ClassVar[str] = "12"
    requires: ClassVar[tuple[tuple[str, ...], ...]] = (("question",), ("answer",))

    name: str = Field(default="answer_relevance", min_length=1)
    examples: str | None = None
    template: str | None = None

    def instructions(self) -> tuple[Instructions, ...]:
        """Return how an answer is graded, and whether it declines."""
        return (
            instructions_for_judge(
                "addresses",
                self.template,
                "question answer",
                examples=self.examples,
                language=self.language,
            ),
            instructions_on_declining(),
        )

    def settings(self) -> dict[str, str]:
        """No setting changes scores but the prompt's."""
        return {}

    def plan(self, sample: Sample) -> Plan:
        """Ask whether the answer declines and how far it addresses the question.

        Example: "I cannot say." declines: the metric is undefined. Else the grade of
        how far the answer addresses the question becomes the score.
        """
        questions: list[Question[Any]] = [
            question_on_declining(sample),
            question_on_answer(sample, self.instructions()[0]),
        ]
        whether_declined, how_far = yield from ask(questions)
        if isinstance(whether_declined, NotAnswered):
            return self.failed(whether_declined.error)
        evidence = RelevanceEvidence(declined=whether_declined.reply.declined)
        if evidence.declined:
            return self.undefined(DECLINED, "declined", evidence)
        if isinstance(how_far, NotAnswered):
            return self.failed(how_far.error, evidence)
        grade = how_far.reply.grade
        evidence = evidence.model_copy(update={"grade": grade})
        reason = how_far.reply.reason or f"The answer {_GRADES_IN_WORDS[grade]}."
        return self.scored(grade / _HIGHEST_GRADE, reason, evidence)


class RelevanceEvidence(Evidence, extra="ignore"):
    """Evidence of Answer Relevance.

    Attributes:
        grade: The grade; None where it declines.
        declined: Whether the answer declines; None if that is not known.
    """

    kind: Literal["answer_relevance"] = "answer_relevance"
    grade: int | None = Field(default=None, ge=0, le=3)
    declined: bool | None = None

    def verdicts(self) -> list[str]:
        """The grade, in words."""
        if self.grade is not None:
            return [f"grade {self.grade} of 3: {_GRADES_IN_WORDS[self.grade]}"]
        return []


def question_on_answer(sample: Sample, instructions: Instructions) -> Addresses:
    """Return the question how far the answer of a sample addresses its question."""
    return Addresses(
        parts={
            "question": standalone_question_part(sample),
            "answer": Part("Answer", sample.answer or ""),
        },
        instructions=instructions,
        Reply=RelevanceGrade,
        example=_EXAMPLE,
    )
