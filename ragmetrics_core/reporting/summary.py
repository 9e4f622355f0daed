"""What a run measured, metric by metric, with the signs of high risk in words."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import Annotated

from pydantic import Field

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.evidence import Share, UtilizationEvidence
from ragmetrics_core.data.frozen import Frozen
from ragmetrics_core.data.results import Failed, MetricResult, SampleResult, Undefined
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.reporting.risks import metric_signs, run_signs
from ragmetrics_core.statistics.clusters import ClusterBy, Clustered, cluster_interval, key_of
from ragmetrics_core.statistics.statistics import Interval, mean, mean_interval, median, sd

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
        worst: The interval if every failed sample had scored 0.
        best: The interval if every failed sample had scored 1.
        undefined: Rows on which the metric has no meaning, by code.
        failed: Rows on which no score could be determined, by type of error.
        not_judged: Rows that are samples but have no result of this metric.
        usage: What its results cost.
        clusters: Number of clusters, where samples belong together; None where each stands alone.
        design_effect: How many times the variance of the mean grows by clustering.
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
    worst: Interval | None = None
    best: Interval | None = None
    undefined: dict[str, int] = Field(default_factory=dict)
    failed: dict[str, int] = Field(default_factory=dict)
    not_judged: int = 0
    usage: Usage = Field(default_factory=Usage)
    clusters: int | None = None
    design_effect: float | None = None
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
        usage: What everything cost together, metrics that a limit of the run kept from their end included.
        stopped: Why the run ended before all rows of its input were read; "" if it did not.
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
    stopped: str = ""
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
    results: Iterable[SampleResult],
    metrics: Sequence[str],
    *,
    thresholds: RiskThresholds = _DEFAULT_THRESHOLDS,
    cluster: ClusterBy = "auto",
    stopped: str = "",
) -> Summary:
    """Summarise results metric by metric and name the signs of high risk.

    Args:
        results: Results of a run, in any order.
        metrics: Names of the metrics, in the order to show them; one without any result stays, with count 0.
        thresholds: When a number counts as a sign of high risk.
        cluster: Which samples belong together, see ``clusters.ClusterBy``.
        stopped: Why the run ended early; "" if it did not.

    Returns:
        The summary.

    Example:
        >>> from ragmetrics_core.data.results import Scored
        >>> from ragmetrics_core.data.sample import Sample
        >>> sample = Sample(question="Who?", answer="Ada")
        >>> scored = Scored(metric="context_recall", reason="", value=0.25)
        >>> summary = summarise([SampleResult(index=0, sample=sample, results={"context_recall": scored})],
        ...                     ["context_recall"])
        >>> summary["context_recall"].mean, summary.without_context
        (0.25, 1)
        >>> summary["context_recall"].signs[0]
        'context_recall: low mean: 0.250, under 0.7.'
    """
    tally = Tally(metrics, cluster=cluster)
    for result in results:
        tally.add(result)
    return tally.summary(thresholds, stopped=stopped)


class Tally:
    """A summary that grows row by row; it keeps sixteen bytes per score, not the results.

    Args:
        metrics: Names of the metrics, in the order to show them.
        cluster: Which samples belong together.
    """

    def __init__(self, metrics: Sequence[str], *, cluster: ClusterBy = "auto") -> None:
        self._cluster = cluster
        self._keys: dict[Hashable, int] = {}
        self._metrics = {name: _MetricTally() for name in metrics}
        self._rows: Counter[str] = Counter()
        self._usage = Usage()

    def add(self, result: SampleResult) -> None:
        """Count one row."""
        self._rows["rows"] += 1
        self._usage += result.usage
        sample = result.sample
        if sample is None or result.problem:
            self._rows["bad_rows"] += 1
            return
        self._rows["judged" if result.results else "not_judged"] += 1
        self._rows["without_context"] += not sample.missing("answer") and sample.missing("contexts")
        self._rows["application_errors"] += sample.error is not None
        key = key_of(sample, self._cluster)
        number = -1 if key is None else self._keys.setdefault(key, len(self._keys))
        for name, metric in self._metrics.items():
            metric.add(result.results.get(name), number)

    def summary(self, thresholds: RiskThresholds = _DEFAULT_THRESHOLDS, *, stopped: str = "") -> Summary:
        """Everything counted so far, with the signs of high risk."""
        counted = ("rows", "judged", "not_judged", "bad_rows", "without_context", "application_errors")
        facts = Summary(
            **{name: self._rows[name] for name in counted},
            metrics=tuple(metric.summary(name, thresholds) for name, metric in self._metrics.items()),
            usage=self._usage,
            stopped=stopped,
        )
        return facts.model_copy(update={"signs": run_signs(facts)})


class _MetricTally:
    """One metric's part of a tally."""

    def __init__(self) -> None:
        self.usage = Usage()
        self._values = array("d")
        self._keys = array("q")  # number of each score's cluster, negative without one
        self._failed_keys = array("q")  # the same for each failed sample
        self._useful = array("d")  # scores of samples with any useful chunk
        self._told = 0  # samples whose evidence tells whether any chunk is useful
        self._undefined: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._not_judged = 0

    def add(self, result: MetricResult | None, cluster: int) -> None:
        """Count one sample's result of this metric; None if there is none."""
        if result is None:
            self._not_judged += 1
            return
        self.usage += result.usage
        if isinstance(result, Undefined):
            self._undefined[result.code] += 1
        elif isinstance(result, Failed):
            self._failed[result.error.type] += 1
            self._failed_keys.append(cluster)
        else:
            self._values.append(result.value)
            self._keys.append(cluster)
            useful = _any_useful(result.evidence) if isinstance(result.evidence, UtilizationEvidence) else None
            self._told += useful is not None
            if useful:
                self._useful.append(result.value)

    def summary(self, name: str, thresholds: RiskThresholds) -> MetricSummary:
        """The metric's numbers with its signs of high risk."""
        values = self._values
        interval, clustered = _interval(values, self._keys)
        failed, keys = len(self._failed_keys), self._keys + self._failed_keys
        worst, best = (
            _interval(values + array("d", [end]) * failed, keys)[0] if values and failed else interval
            for end in (0.0, 1.0)
        )
        numbers = MetricSummary(
            metric=name,
            count=len(values),
            mean=mean(values),
            median=median(values),
            sd=sd(values),
            min=min(values, default=None),
            max=max(values, default=None),
            interval=interval,
            worst=worst,
            best=best,
            clusters=clustered.clusters if clustered else None,
            design_effect=clustered.design_effect if clustered else None,
            undefined=_counts(self._undefined),
            failed=_counts(self._failed),
            not_judged=self._not_judged,
            usage=self.usage,
            useful_share=len(self._useful) / self._told if self._told else None,
            mean_if_useful=mean(self._useful),
        )
        return numbers.model_copy(update={"signs": metric_signs(numbers, thresholds)})


def _interval(values: Sequence[float], keys: Sequence[int]) -> tuple[Interval | None, Clustered | None]:
    """The interval of a mean, over clusters where samples share one."""
    named = [key for key in keys if key >= 0]
    clustered = cluster_interval(values, keys) if len(set(named)) < len(named) else None
    return (clustered.interval if clustered else mean_interval(values)), clustered


def total_usage(results: Iterable[SampleResult]) -> Usage:
    """What these rows cost together; the cost is None if any part of it is unknown."""
    return sum((row.usage for row in results), Usage())


def _counts(counter: Counter[str]) -> dict[str, int]:
    """How often each name occurs, the most frequent first, then by name."""
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))


def _any_useful(evidence: UtilizationEvidence) -> bool | None:
    """True if any chunk was judged useful; None if the evidence does not tell."""
    if evidence.useful is not None:
        return evidence.useful > 0
    verdicts = [chunk.useful for chunk in evidence.chunks if chunk.useful is not None]
    return any(verdicts) if verdicts else None
