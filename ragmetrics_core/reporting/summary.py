"""What a run measured, metric by metric, with the signs of high risk in words."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from itertools import chain, compress
from typing import Annotated, TypeVar

from pydantic import Field

from ragmetrics_core.data import (
    Frozen,
    Grade,
    JudgedChunks,
    Ledger,
    Sample,
    Share,
    Usage,
    answer_holds_contexts,
    find_metric,
    has_answer_without_context,
)
from ragmetrics_core.data.results import Failed, MetricResult, SampleResult, Undefined
from ragmetrics_core.reporting.capture_warnings import (
    CaptureWarning,
    CaptureWarningTally,
)
from ragmetrics_core.reporting.conversation_facts import Conversations, TurnTally
from ragmetrics_core.reporting.pairing import GroupBy, KeysSought, group_of, numbering
from ragmetrics_core.reporting.run_facts import RunFacts, SequentialDecision
from ragmetrics_core.statistics.means import (
    FEWEST_CLUSTERS,
    Interval,
    mean,
    mean_interval,
    median,
    sd,
)

Name = TypeVar("Name", bound=str)

CAPTION = (
    "mean score of this judge on rows like these; poll noise included, judge bias not"
)
"""What an interval means; it stands beside every interval."""

_WITHOUT_POLLS = (
    "mean score of this judge, which took no polls, on rows like these; judge bias not"
    " included"
)
_UNTIL_DECIDED = (
    "The mean is that of the scored: stopping early pushes it away from the threshold"
)


def _caption(run: RunFacts) -> str:
    """What the intervals of a run mean."""
    caption = _WITHOUT_POLLS if run.takes_no_polls else CAPTION
    return f"{caption}. {_UNTIL_DECIDED}" if run.decisions else caption


# Why a metric has no meaning for rows, by the code of the result; a count comes before.
_WHY_UNDEFINED = {
    "missing": "without context or another input",
    "abstained": "declined",
    "declined": "declined",
    "no_facts": "without a fact in the reference",
    "no_claim": "without a claim",
    "no_citations": "without citations",
    "undivided": "whose evidence is the text of tools",
    "other": "for which it has no meaning",
}


class RiskThresholds(Frozen):
    """When a number counts as a sign of high risk.

    The defaults are conventions, not measurements.
    """

    mean: Share = Field(default=0.7, description="a mean below this is low")
    median: Share = Field(default=0.7, description="a median below this is low")
    max: Share = Field(
        default=0.8,
        description="a highest score below this is low: not one sample went well",
    )
    count: Annotated[int, Field(ge=0)] = Field(
        default=30, description="fewer scores than this are too few to say"
    )
    failed_share: Share = Field(
        default=0.05,
        description="a larger share of failed among the rows with an outcome is high",
    )


class MetricSummary(Frozen):
    """One metric over all rows.

    A number that does not exist, as without a scored row, is None, never NaN.
    """

    metric: str = Field(description="name of the metric")
    count: int = Field(default=0, description="rows scored")
    uncertain: int = Field(
        default=0,
        description="rows scored of which the judge says that it is uncertain",
    )
    mean: float | None = Field(
        default=None, description="mean score in [0, 1]; higher is better"
    )
    median: float | None = Field(default=None, description="median score")
    sd: float | None = Field(
        default=None,
        description="standard deviation (divisor n − 1); None below two scores",
    )
    min: float | None = Field(default=None, description="lowest score")
    max: float | None = Field(default=None, description="highest score")
    interval: Interval | None = Field(
        default=None, description="95 % interval of the mean, with its method"
    )
    unknown: int = Field(
        default=0,
        description=(
            "rows whose score is not known: failed or not judged, bad rows included"
        ),
    )
    worst: Interval | None = Field(
        default=None, description="the interval if each of them had scored 0"
    )
    best: Interval | None = Field(
        default=None, description="the interval if each of them had scored 1"
    )
    undefined: dict[str, int] = Field(
        default={}, description="rows without a meaning for the metric, by code"
    )
    failed: dict[str, int] = Field(
        default={}, description="rows without a score, by type of error"
    )
    failure: str = Field(
        default="", repr=False, description="why the first of them failed"
    )
    not_judged: int = Field(
        default=0, description="rows that are samples but have no result of this metric"
    )
    useful_share: float | None = Field(
        default=None, description="share of the scored samples with any useful chunk"
    )
    useful_known: int = Field(
        default=0,
        description="scored samples of which it is known whether any chunk is useful",
    )
    mean_if_useful: float | None = Field(
        default=None, description="mean score among those"
    )
    conversations: Conversations | None = Field(
        default=None, description="what ledgers say of conversations; None without"
    )
    limits: RiskThresholds = Field(
        default=RiskThresholds.model_construct(),
        repr=False,
        description="when a number is a sign",
    )

    @property
    def unscored_in_words(self) -> str:
        """Why rows have no score of this metric, with counts; "" if all have one."""
        parts = [
            f"{count:,} {_WHY_UNDEFINED.get(code, code)}"
            for code, count in self.undefined.items()
        ]
        parts += [f"{count:,} failed ({kind})" for kind, count in self.failed.items()]
        if self.not_judged:
            parts.append(f"{self.not_judged:,} without a result")
        return ", ".join(parts)

    @property
    def signs(self) -> tuple[str, ...]:
        """Signs of high risk, one sentence each."""
        sentences = (*self._signs_of_scores(), *self._signs_of_counts())
        return tuple(f"{self.metric}: {sentence}" for sentence in sentences)

    def _signs_of_scores(self) -> Iterator[str]:
        """What makes the scores look bad."""
        limits = self.limits
        if self.mean is not None and self.mean < limits.mean:
            mean, least = f"{self.mean:.3f}", f"{limits.mean:g}"
            if self.interval is not None and self.interval.high >= limits.mean:
                yield (
                    f"the mean may be low: {mean} is under {least}, a rule of thumb of"
                    " this tool, and its interval reaches that."
                )
            else:
                yield f"low mean: {mean}, under {least}."
        if self.median is not None and self.median < limits.median:
            yield f"low median: {self.median:.3f}, under {limits.median:g}."
        if self.max is not None and self.max < limits.max:
            yield f"low maximum: no row scored over {self.max:.3f}."

    def _signs_of_counts(self) -> Iterator[str]:
        """What makes the numbers say little."""
        limits = self.limits
        n_failed, n_undefined = sum(self.failed.values()), sum(self.undefined.values())
        n_outcomes = self.count + n_failed + n_undefined
        if self.count == 0:
            yield f"nothing scored: {self.unscored_in_words or 'no row to score'}."
        elif self.count < limits.count:
            yield (f"too few rows to say: {self.count} scored, {limits.count} wanted.")
        n_clusters = self.interval.clusters if self.interval is not None else None
        if n_clusters and n_clusters < FEWEST_CLUSTERS:
            yield (
                f"few clusters: {n_clusters}, under {FEWEST_CLUSTERS}; the interval is"
                " a rough guide."
            )
        n_abstained = self.undefined.get("abstained", 0)
        n_abstained += self.undefined.get("declined", 0)
        if n_abstained:
            yield (
                f"declining answers: {n_abstained} of {n_outcomes} results; the mean"
                " leaves them out, so that declining more may raise it."
            )
        if n_failed > limits.failed_share * n_outcomes:
            kinds = ", ".join(f"{count} {kind}" for kind, count in self.failed.items())
            yield (
                f"many failed: {n_failed / n_outcomes:.0%} ({kinds}); the mean does not"
                " speak for them."
            )


class Summary(Frozen):
    """A whole run in numbers. ``rows`` = ``judged`` + ``not_judged`` + ``bad_rows``."""

    rows: int = Field(default=0, description="rows of the input")
    judged: int = Field(default=0, description="samples with at least one result")
    not_judged: int = Field(
        default=0,
        description=(
            "samples without a result: the run ended before, or the application failed"
        ),
    )
    bad_rows: int = Field(
        default=0, description="rows that are no sample, not evaluated"
    )
    without_context: int = Field(
        default=0,
        description=(
            "answers given without any context, as far as contexts were recorded"
        ),
    )
    holding_contexts: int = Field(
        default=0, description="answers that contain all their contexts whole"
    )
    application_errors: int = Field(
        default=0, description="samples whose application run went wrong"
    )
    grades: dict[Grade, int] = Field(
        default={}, description="captured samples by grade, see ``CaptureNotes``"
    )
    capture_warnings: tuple[CaptureWarning, ...] = Field(
        default=(),
        description="what capturing was not sure of, the most frequent warning first",
    )
    metrics: tuple[MetricSummary, ...] = Field(description="one summary per metric")
    usage: Usage = Field(
        description="what everything cost together, unfinished metrics included"
    )
    judges: tuple[str, ...] = Field(default=(), repr=False, description="who judged")
    stopped: str = Field(
        default="",
        description=(
            'why the run ended before all rows of its input were read; "" if it did not'
        ),
    )
    decisions: tuple[SequentialDecision, ...] = Field(
        default=(), description="of a run until decided"
    )
    caption: str = Field(default=CAPTION, description="what the intervals mean")
    slices: dict[str, dict[str, "Summary"]] = Field(
        default={}, repr=False, description="by key and value, where asked for"
    )

    def __getitem__(self, metric: str) -> MetricSummary:
        """Summary of one metric by name.

        Raises ``SettingError`` if it was not measured.
        """
        numbers_by_metric = {numbers.metric: numbers for numbers in self.metrics}
        return numbers_by_metric[
            find_metric(metric, list(numbers_by_metric), place="in this report")
        ]

    def _repr_html_(self) -> str:
        # which stands on this module
        from ragmetrics_core.reporting.tables import html_table

        return html_table(self, RunFacts(judges=self.judges, stopped=self.stopped))

    @property
    def signs(self) -> tuple[str, ...]:
        """Signs of high risk that concern the run as a whole.

        Each metric has its own beside them.
        """
        rows, broken = self.judged + self.not_judged, self.application_errors
        sentences_with_counts = (
            (
                self.without_context,
                (
                    f"answered without any context: {self.without_context} of {rows}"
                    " rows."
                ),
            ),
            (
                self.holding_contexts,
                (
                    "answers that contain their own contexts whole:"
                    f" {self.holding_contexts} of {rows} rows; such an answer"
                    " supports itself, so name the column or key that holds the answer"
                    " alone."
                ),
            ),
            (broken, f"the application itself failed: {broken} of {rows} rows."),
            (
                self.bad_rows,
                f"bad rows, not evaluated: {self.bad_rows} of {self.rows}.",
            ),
            (self.not_judged, f"rows without a result: {self.not_judged} of {rows}."),
        )
        return tuple(sentence for count, sentence in sentences_with_counts if count)

    @property
    def folded_signs(self) -> tuple[str, ...]:
        """Signs of the run, then those of metrics, one line for each kind of sign."""
        by_kind: dict[str, list[tuple[str, str]]] = {}
        for numbers in self.metrics:
            for sign in numbers.signs:
                sentence = sign.removeprefix(f"{numbers.metric}: ")
                kind, _, detail = sentence.partition(": ")
                by_kind.setdefault(kind, []).append((numbers.metric, detail))
        return (
            *self.signs,
            *(_fold_signs(*kind_and_metrics) for kind_and_metrics in by_kind.items()),
        )

    @property
    def all_signs(self) -> tuple[str, ...]:
        """Signs of the run, then those of each metric."""
        return (
            *self.signs,
            *chain.from_iterable(numbers.signs for numbers in self.metrics),
        )


def _fold_signs(kind: str, metrics: Sequence[tuple[str, str]]) -> str:
    """One line about a kind of sign, with the metrics that show it and their numbers."""
    ((first_metric, first_detail), *further_metrics) = metrics
    if not further_metrics:
        return f"{first_metric}: {kind}{f': {first_detail}' if first_detail else ''}"
    details = [
        f"{metric} {detail.partition(';')[0].rstrip('.')}".rstrip()
        for metric, detail in metrics
    ]
    return f"{kind} in {len(metrics)} metrics: {'; '.join(details)}."


class Tally:
    """A summary that grows row by row.

    It keeps seventeen bytes per score (of turns 25), not the results.

    ``metrics`` are names in the order to show them; ``cluster`` says which samples
    belong together; of ``slices``, keys of the metadata, each value has a summary of
    its own. In a slice (``is_slice``) no sample needs the key.
    """

    def __init__(
        self,
        metrics: Sequence[str],
        *,
        cluster: GroupBy = "auto",
        slices: Iterable[str] = (),
        is_slice: bool = False,
    ) -> None:
        # Per key the tallies of its values; None: of bad rows alone, which belong to no
        # slice, and so to each.
        self._by: dict[str, dict[str | None, Tally]] = {
            key: {None: Tally(metrics, cluster=cluster, is_slice=True)}
            for key in slices
        }
        self._keys = KeysSought() if is_slice else KeysSought(self._by, cluster)
        self._number_of = numbering(cluster)
        self.metrics = {name: MetricTally() for name in metrics}
        self.rows: Counter[str] = Counter()
        self.grades = Counter[Grade]()
        self._capture_warnings = CaptureWarningTally()
        self.usage = Usage()

    def add(self, result: SampleResult) -> None:
        """Count one row."""
        self.usage += result.usage
        sample = result.sample
        if sample is not None:
            self._keys.look(sample)
        self.rows["rows"] += 1
        if sample is None or result.problem:
            self._add_bad_row(result)
            return
        self.rows["judged" if result.results else "not_judged"] += 1
        self._add_to_slices(result, sample)
        cluster = self._number_of(sample)
        for name, metric in self.metrics.items():
            metric.add(result.results.get(name), cluster, sample.ledger)
        self._add_traits(sample)
        self._capture_warnings.add(sample, result.index)

    def _add_to_slices(self, result: SampleResult, sample: Sample) -> None:
        """Count a row in the slice of each key to which its sample belongs."""
        for key, tallies in self._by.items():
            value = group_of(sample, key)
            name = f"without {key}" if value is None else value
            if name not in tallies:
                tallies[name] = deepcopy(tallies[None])
            tallies[name].add(result)

    def _add_traits(self, sample: Sample) -> None:
        """Count what is known of a sample without any metric."""
        self.rows["without_context"] += has_answer_without_context(sample)
        self.rows["holding_contexts"] += answer_holds_contexts(sample)
        self.rows["application_errors"] += sample.error is not None
        if sample.capture is not None and sample.capture.grade is not None:
            self.grades[sample.capture.grade] += 1

    def _add_bad_row(self, result: SampleResult) -> None:
        """Count a row that is no sample: it belongs to no slice, and so to each."""
        self.rows["bad_rows"] += 1
        for tallies in self._by.values():
            for tally in tallies.values():
                tally.add(result)
        for metric in self.metrics.values():
            metric.add_bad_row()

    def summary(
        self,
        thresholds: RiskThresholds | None = None,
        *,
        run: RunFacts | None = None,
        bootstrap: bool = False,
    ) -> Summary:
        """Return everything counted so far, as ``Report.summary`` does.

        ``run`` says why it ended early.

        Of a run until decided there are no intervals but the bounds of its gates.

        Raises:
            SettingError: If no sample has the key of the slices or the clusters.
        """
        self._keys.check()
        run = run or RunFacts()
        limits = thresholds or RiskThresholds()
        metrics = tuple(
            metric.summary(name, limits, bootstrap)
            for name, metric in self.metrics.items()
        )
        if run.decisions:
            metrics = tuple(_with_bounds(numbers, run.decisions) for numbers in metrics)
        slices = {
            key: {
                name: tally.summary(thresholds, run=run, bootstrap=bootstrap)
                for name, tally in tallies.items()
                if name is not None
            }
            for key, tallies in self._by.items()
        }
        return Summary(
            **self.rows,
            grades=_counts(self.grades),
            capture_warnings=self._capture_warnings.warnings,
            metrics=metrics,
            usage=self.usage,
            stopped=run.ended_early,
            judges=run.judges,
            decisions=run.decisions,
            caption=_caption(run),
            slices=slices,
        )


def _with_bounds(
    numbers: MetricSummary, decisions: Iterable[SequentialDecision]
) -> MetricSummary:
    """The numbers of a metric with the bounds of its gate in place of intervals.

    The gate has said that its rows are enough, so no number of rows is too few.
    """
    bounds_by_metric = {
        decision.metric: decision.interval
        for decision in decisions
        if decision.at_least is not None
    }
    bounds = bounds_by_metric.get(numbers.metric)
    return numbers.model_copy(
        update={
            "interval": bounds,
            "worst": bounds,
            "best": bounds,
            "limits": numbers.limits.model_copy(update={"count": 0}),
        }
    )


class MetricTally:
    """One metric's part of a tally."""

    def __init__(self) -> None:
        # scores, and of each whether any chunk is useful
        self.values, self.useful = array("d"), bytearray()
        # numbers of clusters: of scores, of rows without
        self.keys, self.unknown = array("q"), array("q")
        self.undefined, self.failed = Counter[str](), Counter[str]()
        # reasons of the first failed and first undefined
        self.turns, self.failure, self.why = TurnTally(), "", ""
        self.not_judged = self.uncertain = 0
        self.told = 0  # samples whose evidence tells whether any chunk is useful

    def add_bad_row(self) -> None:
        """Count a row that is no sample, which stands in no cluster."""
        self.unknown.append(-1)

    def add(
        self, result: MetricResult | None, cluster: int, ledger: Ledger | None
    ) -> None:
        """Count one sample's result of this metric; None if there is none."""
        if result is None:
            self.not_judged += 1
            self.unknown.append(cluster)
            return
        if isinstance(result, Undefined):
            self.undefined[result.code] += 1
            self.why = self.why or result.reason
        elif isinstance(result, Failed):
            self.failed[result.error.type] += 1
            self.failure = self.failure or result.reason
            self.unknown.append(cluster)
        else:
            self.values.append(result.value)
            self.keys.append(cluster)
            self.uncertain += result.uncertain
            if ledger is not None:
                self.turns.add(ledger, result)
            useful = (
                result.evidence.useful_known
                if isinstance(result.evidence, JudgedChunks)
                else None
            )
            self.told += useful is not None
            self.useful.append(bool(useful))

    def summary(
        self, name: str, limits: RiskThresholds, bootstrap: bool
    ) -> MetricSummary:
        """The metric's numbers."""
        values, unknown = self.values, len(self.unknown)
        interval = mean_interval(values, self.keys, bootstrap=bootstrap)
        worst = best = interval
        if values and (unknown or bootstrap):
            worst = self._interval_if_unknown_scored(0.0)
            best = self._interval_if_unknown_scored(1.0)
        useful = array("d", compress(values, self.useful))
        return MetricSummary(
            metric=name,
            count=len(values),
            uncertain=self.uncertain,
            mean=mean(values),
            median=median(values),
            sd=sd(values),
            min=min(values, default=None),
            max=max(values, default=None),
            interval=interval,
            unknown=unknown,
            worst=worst,
            best=best,
            undefined=_counts(self.undefined),
            failed=_counts(self.failed),
            failure=self.failure,
            not_judged=self.not_judged,
            useful_share=len(useful) / self.told if self.told else None,
            useful_known=self.told,
            mean_if_useful=mean(useful),
            conversations=self.turns.summary(limits.mean),
            limits=limits,
        )

    def _interval_if_unknown_scored(self, score: float) -> Interval | None:
        """The interval of the mean if each row of unknown score had this one."""
        scores = self.values + array("d", [score]) * len(self.unknown)
        return mean_interval(scores, self.keys + self.unknown)


def _counts(counter: Counter[Name]) -> dict[Name, int]:
    """How often each name occurs, the most frequent first, then by name."""
    return dict(
        sorted(
            counter.items(),
            key=lambda name_and_count: (-name_and_count[1], name_and_count[0]),
        )
    )
