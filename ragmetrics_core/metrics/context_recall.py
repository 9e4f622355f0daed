"""Context Recall: how accurately does the answer match the expected answer?

It is rated by a rubric, in the light of the contexts.
"""

from __future__ import annotations

from math import nextafter
from typing import Annotated, ClassVar, Literal

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
from ragmetrics_core.data.replies import Bands, UnitNumber
from ragmetrics_core.metrics.metric import (
    Metric,
    Plan,
    error_of_unanswered,
    instructions_for_judge,
    parts_of_turn,
)

# Name, lowest and highest score of each band. The published bands leave gaps (0.35,
# 0.95, …); these are closed.
BANDS: tuple[tuple[str, float, float], ...] = (
    ("none", 0.0, 0.0),
    ("minimal", nextafter(0.0, 1.0), nextafter(0.35, 0.0)),
    ("partial", 0.35, nextafter(0.65, 0.0)),
    ("mostly", 0.65, nextafter(1.0, 0.0)),
    ("perfect", 1.0, 1.0),
)


def band_of(score: float) -> str:
    """Name of the band that a score in [0, 1] lies in.

    Examples:
        >>> band_of(0.35), band_of(1.0)
        ('partial', 'perfect')
    """
    return next(name for name, low, high in BANDS if low <= score <= high)


class Rating(SilentData, extra="ignore"):
    """A rating of how well the answer matches an expected answer."""

    reason: Comment = ""
    score: Annotated[UnitNumber, Bands(BANDS)]


class RateRecall(Question[Rating]):
    """How accurately does the answer match the expected answer?

    Parts: contexts, question, reference, answer.
    """


_EXAMPLE = Rating(reason="All points match. " * 10, score=1.0)


class ContextRecall(Metric):
    """How accurately does the answer match the expected answer, given the contexts?

    It scores the *answer*. The share of the expected answer that the *contexts* hold is
    ``RetrievalAccuracy``.

    Args:
        examples: Few-shot examples, written out; "" for none, None: those shipped.
        template: Replaces prompt and rubric; needs ``{answer}``, ``{reference}``.

    Returns:
        A score in [0, 1], higher is better: 0 none | (0, .35) minimal | [.35, .65)
        partial | [.65, 1) mostly | 1 perfect. Of several references the best match
        counts.

    Undefined when:
        Answer or reference are missing. Without contexts it is rated against the
        reference alone, and says so.

    Raises:
        SettingError: If a template lacks a placeholder.

    Source:
        The published rubric (0.0 unrelated, 0.1–0.3 minimal, 0.4–0.6 partial, 0.7–0.9
        mostly accurate, 1.0 perfect). Departure: its gaps are closed, and the examples
        lie inside the bands.

    Examples:
        >>> from ragmetrics_core import ScriptedJudge
        >>> judge = ScriptedJudge({RateRecall: {"score": 0.5, "reason": "One of two points."}})
        >>> ContextRecall().score(output="Eleven.", expected_output="Eleven, free.", judge=judge).value
        0.5
    """

    version: ClassVar[str] = "16"
    requires: ClassVar[tuple[tuple[str, ...], ...]] = (("answer",), ("reference",))

    name: str = Field(default="context_recall", min_length=1)
    examples: str | None = None
    template: str | None = None

    def instructions(self) -> tuple[Instructions, ...]:
        """Return how an answer is rated."""
        return (
            instructions_for_judge(
                "rate_recall",
                self.template,
                "answer reference",
                "question contexts",
                self.examples,
                self.language,
            ),
        )

    def plan(self, sample: Sample) -> Plan:
        """Ask once about each distinct reference.

        Every reference has its rating, and the best one counts: .9 of .4 and .9. The
        metric fails where the judge did not rate one of the references.
        """
        parts = parts_of_turn(sample, sample.texts_as_shown)
        distinct_references = tuple(dict.fromkeys(sample.reference))
        [instructions] = self.instructions()
        replies = yield from ask(
            [
                RateRecall(
                    parts={**parts, "reference": Part("Expected answer", reference)},
                    instructions=instructions,
                    Reply=Rating,
                    example=_EXAMPLE,
                )
                for reference in distinct_references
            ]
        )
        rating_by_reference = {
            reference: Unrated() if isinstance(reply, NotAnswered) else reply.reply
            for reference, reply in zip(distinct_references, replies, strict=True)
        }
        # one for each reference of the sample, also where two references are equal
        ratings = tuple(
            rating_by_reference[reference] for reference in sample.reference
        )
        # a reference that the judge did not rate has no score: the metric fails below
        scores = [rating.score or 0.0 for rating in ratings]
        best_score = max(scores)
        best_index = scores.index(best_score)
        with_contexts = bool(parts["contexts"].texts)
        is_rated = ratings[best_index].score is not None
        evidence = RecallEvidence(
            band=band_of(best_score) if is_rated else "",
            best=best_index,
            ratings=ratings,
            with_contexts=with_contexts,
        )
        if error := error_of_unanswered(replies):
            return self.failed(error, evidence)
        reason = ratings[best_index].reason
        if not with_contexts:
            reason += " Rated against the reference alone, without contexts."
        return self.scored(best_score, reason, evidence)


class Unrated(SilentData, extra="ignore"):
    """In place of a rating that the judge did not give."""

    reason: str = ""
    score: None = None


class RecallEvidence(Evidence, extra="ignore"):
    """Evidence of Context Recall.

    Attributes:
        band: Band of our rubric that the score lies in; empty without a score.
        best: Index of the reference that matched best; of equals the first.
        ratings: One rating per reference, repeated ones too.
        with_contexts: False if it was rated against the reference alone.
    """

    kind: Literal["context_recall"] = "context_recall"
    band: str
    best: int
    ratings: tuple[Rating | Unrated, ...]
    with_contexts: bool
