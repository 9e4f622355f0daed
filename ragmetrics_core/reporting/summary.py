"""What a run measured, metric by metric, with the signs of high risk in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Annotated

from pydantic import Field

from ragmetrics_core.model.errors import SettingError
from ragmetrics_core.model.evidence import Share, UtilizationEvidence
from ragmetrics_core.model.frozen import Frozen
from ragmetrics_core.model.questions import Usage
from ragmetrics_core.model.results import Failed, MetricResult, SampleResult, Scored, Undefined
from ragmetrics_core.reporting.risks import metric_signs, run_signs
from ragmetrics_core.reporting.statistics import Interval, mean, mean_interval, median, sd

CAPTION = "mean score of this judge on samples like these; poll noise included, judge bias not"
"""What an interval means; it stands beside every interval."""


class RiskThresholds(Frozen):
    """When a number counts as a sign of high risk. The defaults are conventions, not measurements.

    Args:
        mean: A mean below this is low.
        median: A median below this is low.
        sd: A standard deviation above this is high; scores in [0, 1] cannot exceed about 0.5.
        max: A highest score below this is low: not one sample went well.
        count: Fewer scores than this are too few to say.
        failed_share: A larger share of failed among the rows with an outcome is high.
    """

    mean: Share = 0.7
    median: Share = 0.7
    sd: Share = 0.3
    max: Share = 0.8
    count: Annotated[int, Field(ge=0)] = 30
    failed_share: Share = 0.05


_DEFAULT_THRESHOLDS = RiskThresholds()


class MetricSummary(Frozen):
    """One metric over all rows. A number that does not exist is None, never NaN.

    Args:
        metric: Name of the metric.
        count: Rows scored.
        mean: Mean score in [0, 1]; higher is better. None if no row was scored, like the next four.
        median: Median score.
        sd: Standard deviation (divisor n − 1); None below two scores.
        min: Lowest score.
        max: Highest score.
        interval: 95 % interval of the mean, with its method; see ``CAPTION`` for what it means.
        undefined: Rows on which the metric has no meaning, by code.
        failed: Rows on which no score could be determined, by type of error.
        not_judged: Rows that are samples but have no result of this metric.
        usage: What its results cost.
        useful_share: Context Utilization only: share of the scored samples with any useful chunk.
        mean_if_useful: Context Utilization only: mean score among those.
        signs: Signs of high risk, one sentence each.
    """

    metric: str
    count: int = 0
    mean: float | None = None
    median: float | None = None
    sd: float | None = None
    min: float | None = None
    max: float | None = None
    interval: Interval | None = None
    undefined: dict[str, int] = Field(default_factory=dict)
    failed: dict[str, int] = Field(default_factory=dict)
    not_judged: int = 0
    usage: Usage = Field(default_factory=Usage)
    useful_share: float | None = None
    mean_if_useful: float | None = None
    signs: tuple[str, ...] = ()


class Summary(Frozen):
    """A whole run in numbers. ``rows`` = ``judged`` + ``not_judged`` + ``bad_rows``.

    Args:
        rows: Rows of the input.
        judged: Samples with at least one result.
        not_judged: Samples without any result: the run ended before them, or the application's run failed.
        bad_rows: Rows that are no sample, not evaluated.
        without_context: Answers given without any context.
        application_errors: Samples whose application run went wrong.
        metrics: One summary per metric.
        usage: What all results cost together.
        signs: Signs of high risk that concern the run as a whole; each metric has its own beside them.
        caption: What the intervals mean.
    """

    rows: int
    judged: int
    not_judged: int
    bad_rows: int
    without_context: int
    application_errors: int
    metrics: tuple[MetricSummary, ...]
    usage: Usage
    signs: tuple[str, ...] = ()
    caption: str = CAPTION

    def __getitem__(self, metric: str) -> MetricSummary:
        """Summary of one metric by name; raises ``SettingError`` if it was not measured."""
        for found in self.metrics:
            if found.metric == metric:
                return found
        names = ", ".join(found.metric for found in self.metrics) or "none"
        raise SettingError(f"no metric {metric!r} in this report; it has: {names}")

    @property
    def all_signs(self) -> tuple[str, ...]:
        """Signs of the run, then those of each metric."""
        return tuple(chain(self.signs, *(found.signs for found in self.metrics)))


def summarise(
    results: Sequence[SampleResult], metrics: Sequence[str], *, thresholds: RiskThresholds = _DEFAULT_THRESHOLDS
) -> Summary:
    """Summarise results metric by metric and name the signs of high risk.

    Args:
        results: Results of a run, in any order.
        metrics: Names of the metrics, in the order to show them; one without any result stays, with count 0.
        thresholds: When a number counts as a sign of high risk.

    Returns:
        The summary.

    Example:
        >>> from ragmetrics_core.model.sample import Sample
        >>> sample = Sample(question="Who?", answer="Ada")
        >>> scored = Scored(metric="context_recall", reason="", value=0.25)
        >>> summary = summarise([SampleResult(index=0, sample=sample, results={"context_recall": scored})],
        ...                     ["context_recall"])
        >>> summary["context_recall"].mean, summary.without_context
        (0.25, 1)
        >>> summary["context_recall"].signs[0]
        'context_recall: low mean: 0.250, under 0.7.'
    """
    samples = [row for row in results if row.sample is not None and not row.problem]
    facts = Summary(
        rows=len(results),
        judged=sum(bool(row.results) for row in samples),
        not_judged=sum(not row.results for row in samples),
        bad_rows=len(results) - len(samples),
        without_context=sum(_without_context(row) for row in samples),
        application_errors=sum(row.sample is not None and row.sample.error is not None for row in samples),
        metrics=tuple(_one_metric(name, samples, thresholds) for name in metrics),
        usage=total_usage(results),
    )
    return facts.model_copy(update={"signs": run_signs(facts)})


def total_usage(results: Iterable[SampleResult]) -> Usage:
    """What the results of these rows cost together; the cost is None if any part of it is unknown."""
    return sum((result.usage for row in results for result in row.results.values()), Usage())


def _without_context(row: SampleResult) -> bool:
    return row.sample is not None and not row.sample.missing("answer") and row.sample.missing("contexts")


def _one_metric(name: str, samples: Sequence[SampleResult], thresholds: RiskThresholds) -> MetricSummary:
    found = [row.results[name] for row in samples if name in row.results]
    scored = [result for result in found if isinstance(result, Scored)]
    values = [result.value for result in scored]
    useful_share, mean_if_useful = _usefulness(scored)
    numbers = MetricSummary(
        metric=name,
        count=len(values),
        mean=mean(values),
        median=median(values),
        sd=sd(values),
        min=min(values, default=None),
        max=max(values, default=None),
        interval=mean_interval(values),
        undefined=_counts(result.code for result in found if isinstance(result, Undefined)),
        failed=_counts(result.error.type for result in found if isinstance(result, Failed)),
        not_judged=len(samples) - len(found),
        usage=_sum_usage(found),
        useful_share=useful_share,
        mean_if_useful=mean_if_useful,
    )
    return numbers.model_copy(update={"signs": metric_signs(numbers, thresholds)})


def _sum_usage(results: Iterable[MetricResult]) -> Usage:
    return sum((result.usage for result in results), Usage())


def _counts(names: Iterable[str]) -> dict[str, int]:
    """How often each name occurs, the most frequent first, then by name."""
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


def _any_useful(evidence: UtilizationEvidence) -> bool | None:
    """True if any chunk was judged useful; None if the evidence does not tell."""
    if evidence.useful is not None:
        return evidence.useful > 0
    verdicts = [chunk.useful for chunk in evidence.chunks if chunk.useful is not None]
    return any(verdicts) if verdicts else None


def _usefulness(scored: Sequence[Scored]) -> tuple[float | None, float | None]:
    """Share of samples with any useful chunk, and the mean score among those."""
    told = [
        (result.value, useful)
        for result in scored
        if isinstance(result.evidence, UtilizationEvidence) and (useful := _any_useful(result.evidence)) is not None
    ]
    with_useful = [value for value, useful in told if useful]
    return (len(with_useful) / len(told) if told else None), mean(with_useful)
