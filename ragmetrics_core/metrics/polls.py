"""Polls whether an answer rests on its contexts: the question, its reply, and what several of them say together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator
from pydantic.json_schema import SkipJsonSchema

from ragmetrics_core.data.errors import ContextWindowExceeded, JudgeError
from ragmetrics_core.data.frozen import Share, Silent
from ragmetrics_core.data.questions import Asked, Comment, NotAnswered, Question
from ragmetrics_core.metrics.fact_extraction import distinct

PollVerdict = Literal["yes", "no", "abstains"]


class SentenceSupport(Silent, extra="ignore"):
    """How far one sentence of the answer is found in the contexts, by word overlap.

    Args:
        sentence: The answer's sentence.
        rank: Rank of the best matching context; None if nothing matches.
        evidence: The best matching sentence of that context.
        coverage: Share of the sentence's content terms found in the contexts.
        uncovered: Content terms found nowhere.
        numbers: Numbers of two or more digits found nowhere.
    """

    sentence: str
    rank: int | None
    evidence: str
    coverage: Share
    uncovered: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


class Poll(Silent, extra="ignore"):
    """One judgement whether the answer is based purely on the contexts.

    Args:
        reason: The explanation, written before the verdict.
        verdict: ``yes``, ``no``, or ``abstains`` where the answer makes no claim.
        unsupported: Claims of the answer that no context supports.
        sentences: Per sentence of the answer, the evidence of a lexical judge.
    """

    reason: Comment = ""
    verdict: Annotated[PollVerdict, BeforeValidator(lambda it: it.strip().lower() if isinstance(it, str) else it)]
    unsupported: Annotated[tuple[str, ...], BeforeValidator(lambda it: () if it is None else distinct(it))] = ()
    sentences: SkipJsonSchema[tuple[SentenceSupport, ...]] = ()


class Adherent(Question[Poll]):
    """Is the answer based purely on the contexts? Parts: contexts, question, answer."""


@dataclass(frozen=True, slots=True)
class Polls:
    """The polls about an answer, of all rounds or claims.

    Args:
        asked: How many were asked; 1 for a deterministic judge.
        answers: Those answered, in order.
        failures: Why others were not.
        probability: p(yes) of a deterministic judge.
        together: True if one request gave several of them, so that stopping early would save nothing.
        windows: In how many windows contexts too long for the judge were judged; None: as a whole.
    """

    asked: int = 0
    answers: tuple[Poll, ...] = ()
    failures: tuple[JudgeError, ...] = ()
    probability: float | None = None
    together: bool = False
    windows: int | None = None

    @classmethod
    def of(cls, asked: Asked[Poll]) -> Polls:
        """The polls of one question."""
        count = len(asked.replies) + len(asked.failures)
        probability = asked.weights[0].p if asked.weights else None
        return cls(count, asked.replies, asked.failures, probability, asked.together)

    def __add__(self, other: Polls) -> Polls:
        """Those of two rounds."""
        return Polls(
            self.asked + other.asked,
            self.answers + other.answers,
            self.failures + other.failures,
            other.probability,
            self.together or other.together,
        )

    def saying(self, verdict: PollVerdict) -> list[Poll]:
        """Those that say so."""
        return [poll for poll in self.answers if poll.verdict == verdict]


EXAMPLES = (
    Poll(verdict="yes", reason="The claim stands in context 1. " * 6),
    Poll(verdict="no", reason="The claim is that; no context says so. " * 28, unsupported=("A claim.",) * 3),
)
"""A short poll that says yes and a long one that says no, for dry runs."""


def too_long(reply: Asked[Poll] | NotAnswered) -> bool:
    """True if no poll was answered because the request is longer than the judge's window."""
    return isinstance(reply, NotAnswered) and isinstance(reply.error, ContextWindowExceeded)
