"""Results: every metric on every sample ends as scored, undefined with its reason, or failed with its error."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field

from ragmetrics_core.data.errors import RagMetricsError
from ragmetrics_core.data.evidence import AnyEvidence
from ragmetrics_core.data.frozen import Frozen, Share
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.signature import Signature
from ragmetrics_core.data.usage import Usage


class ErrorInfo(Frozen):
    """An error as data.

    Args:
        type: Name of its class in ``ragmetrics_core.data.errors``.
        message: What was given, what is needed, what to do.
        raw: The judge's raw reply, if there was one.
    """

    type: str
    message: str
    raw: str = Field(default="", repr=False)

    @classmethod
    def of(cls, error: RagMetricsError) -> ErrorInfo:
        """Take an exception's class name, message and raw reply."""
        return cls(type=type(error).__name__, message=str(error), raw=getattr(error, "raw", ""))


class _Result(Frozen):
    """What every result tells.

    Args:
        metric: Name of the metric.
        reason: Why this outcome, in words.
        evidence: What the outcome rests on; None if nothing was asked.
        judge: Name of the judge; "" if none was asked.
        signature: Settings that make two numbers comparable.
        sample_id: The sample's id, if it has one.
        usage: What it cost.
    """

    metric: str
    reason: str = Field(repr=False)
    evidence: AnyEvidence | None = None
    judge: str = ""
    signature: Signature = Signature()
    sample_id: str | None = None
    usage: Usage = Field(default_factory=Usage)


class Scored(_Result):
    """A score in [0, 1]; higher is better."""

    status: Literal["scored"] = "scored"
    value: Share


class Undefined(_Result):
    """The metric has no meaning for this sample, e.g. no contexts; ``code`` is the reason as a symbol."""

    status: Literal["undefined"] = "undefined"
    value: None = None
    code: Literal["missing", "abstained", "no_facts", "other"] = "missing"


class Failed(_Result):
    """The metric applies, but no score could be determined; ``error`` says what happened."""

    status: Literal["failed"] = "failed"
    value: None = None
    error: ErrorInfo


MetricResult = Annotated[Scored | Undefined | Failed, Discriminator("status")]


class SampleResult(Frozen):
    """All results of one sample.

    Args:
        index: Position of the sample in the input, from 0.
        sample: The sample; None for a row that is no sample.
        results: One result per metric, by name.
        problem: Why the row is no sample; "" if it is one.
        unfinished: What was paid for metrics that a limit of the run kept from their end; None if nothing was.
    """

    index: int
    sample: Sample | None
    results: dict[str, MetricResult] = Field(default_factory=dict)
    problem: str = ""
    unfinished: Usage | None = None

    @property
    def usage(self) -> Usage:
        """What everything cost, unfinished metrics included; the cost is None if any part of it is unknown."""
        return sum((result.usage for result in self.results.values()), self.unfinished or Usage())
