"""Results: every metric on every sample ends as scored, undefined with its reason, or failed with its error."""

from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field

from ragmetrics_core.data.errors import RagMetricsError
from ragmetrics_core.data.evidence import AnyEvidence
from ragmetrics_core.data.frozen import Frozen, Share
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.signature import Signature
from ragmetrics_core.data.usage import Usage


class ErrorInfo(Frozen):
    """An error as data."""

    type: str = Field(description="Name of its class in ``ragmetrics_core.data.errors``.")
    message: str = Field(description="What was given, what is needed, what to do.")
    raw: str = Field("", repr=False, description="The judge's raw reply, if there was one.")

    @classmethod
    def of(cls, error: RagMetricsError) -> Self:
        """Take an exception's class name, message and raw reply."""
        return cls(type=type(error).__name__, message=str(error), raw=getattr(error, "raw", ""))


class _Result(Frozen):
    """What every result tells."""

    metric: str = Field(description="Name of the metric.")
    reason: str = Field(repr=False, description="Why this outcome, in words.")
    evidence: AnyEvidence | None = Field(None, description="What the outcome rests on; None if nothing was asked.")
    judge: str = Field("", description='Name of the judge; "" if none was asked.')
    signature: Signature = Field(Signature(), description="Settings that make two numbers comparable.")
    sample_id: str | None = Field(None, description="The sample's id, if it has one.")
    usage: Usage = Field(default_factory=Usage, description="What it cost.")


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
    """All results of one sample."""

    index: int = Field(description="Position of the sample in the input, from 0.")
    sample: Sample | None = Field(description="The sample; None for a row that is no sample.")
    results: dict[str, MetricResult] = Field(default_factory=dict, description="One result per metric, by name.")
    problem: str = Field("", description='Why the row is no sample; "" if it is one.')
    unfinished: Usage | None = Field(None, description="Paid for metrics that a limit of the run cut off; else None.")

    @property
    def usage(self) -> Usage:
        """What everything cost, unfinished metrics included; the cost is None if any part of it is unknown."""
        return sum((result.usage for result in self.results.values()), self.unfinished or Usage())
