"""Comparing two runs over the same samples.

A comparison says what changed, by how much, and whether chance could have done it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field

from ragmetrics_core.data import (
    Frozen,
    InputError,
    MetricResult,
    SampleResult,
    SettingError,
    Undefined,
    did_you_mean,
    element,
    metric_among,
)
from ragmetrics_core.data.display import judges_in_words
from ragmetrics_core.data.display import table as html_rows
from ragmetrics_core.reporting.gates import UntilDecided, three_way
from ragmetrics_core.reporting.pairing import (
    GroupBy,
    KeysSought,
    Matched,
    Pair,
    are_identical,
    asked_otherwise,
    differences,
    group_pairs,
    judges_elsewhere,
    match,
    sliced_otherwise,
)
from ragmetrics_core.reporting.run_facts import Decision, SequentialDecision
from ragmetrics_core.statistics import paired
from ragmetrics_core.statistics.means import Interval
from ragmetrics_core.statistics.stopping import (
    MIN_SCORED,
    ROUNDING,
    Outcome,
    check_shares,
)

if TYPE_CHECKING:
    from ragmetrics_core.metrics.metric import Metric
    from ragmetrics_core.reporting.report import Report

MARGIN = 0.02
"""Differences up to this do not matter, unless the user says otherwise."""

_ALPHA = 0.05
_SHOWN = 10

Bounds = tuple[float, float]
Verdict = Literal["identical", "better", "worse", "same", "undecided", "not tested"]


class MetricChange(Frozen):
    """One metric in both runs, over all matched samples or those of one slice."""

    metric: str = Field(description="name of the metric")
    slice: str | None = Field(
        None, description="value of the slice; None for all samples"
    )
    rows: int = Field(
        0, description="all rows of either run, those without a partner too"
    )
    outcomes: dict[str, int] = Field(
        {}, description="how often each pair occurs, e.g. scored/failed"
    )
    abstained: float = Field(1.0, description="McNemar's p-value for abstentions")
    failed: float = Field(1.0, description="McNemar's p-value for failures")
    pairs: int = Field(0, description="samples scored in both")
    difference: float | None = Field(
        None, description="mean of second − first over them, if any"
    )
    interval: Interval | None = Field(None, description="its 95 % interval")
    p: float | None = Field(None, description="p-value of the permutation test")
    exact: bool = Field(False, description="true if every pattern of signs was tried")
    detectable: float | None = Field(
        None, description="smallest true difference that this design finds with 80 %"
    )
    needed: int | None = Field(
        None, description="pairs needed to find a difference of the margin with 80 %"
    )
    one_sided: Bounds | None = Field(
        None,
        description="its one-sided 95 % bounds, failures at the worst and the best",
    )
    bounds: Bounds | None = Field(
        None, description="the difference with failures at the worst and at the best"
    )
    p_holm: float | None = Field(
        None, description="p-value adjusted for everything tested here"
    )
    verdict: Verdict = Field("undecided", description="what follows for the second run")

    @property
    def name(self) -> str:
        """The metric, with its slice."""
        return self.metric if self.slice is None else f"{self.metric} [{self.slice}]"

    def lines(self, margin: float) -> list[str]:
        """The change in words, the verdict first."""
        outcomes = ", ".join(f"{count} {kind}" for kind, count in self.outcomes.items())
        lines = [
            f"{self.name}: {self.verdict}",
            f"  outcomes (first/second): {outcomes or 'no row is in both runs'}",
        ]
        if self.verdict == "identical":
            lines.append(
                "  all rows and all outcomes are equal in both runs, so there is"
                " nothing to estimate"
            )
        elif self.interval is None or self.bounds is None:
            told = (
                f"mean difference {self.difference or 0:+.4f} over {self.pairs} pairs"
                " of a run until decided"
            )
            lines.append(
                f"  {'no sample is scored in both runs' if self.difference is None else told}"
            )
        else:
            own, bounds = (
                self.interval,
                "  with failures at the worst and the best: {:+.4f} to {:+.4f}",
            )
            how = (
                "every pattern of signs"
                if self.exact
                else "9,999 random patterns of signs"
            )
            needed = (
                f"; {margin:g} would need {self.needed:,} pairs" if self.needed else ""
            )
            lines += [
                (
                    f"  difference {self.difference:+.4f} over {self.pairs} pairs, 95 %"
                    f" interval {own.low:+.4f} to {own.high:+.4f} ({own.method})"
                ),
                (
                    f"  permutation test ({how}): p = {self.p:.4f}, {self.p_holm:.4f}"
                    " after Holm"
                ),
                *(
                    []
                    if self.bounds == (self.difference,) * 2
                    else [bounds.format(*self.bounds)]
                ),
                f"  smallest difference found with 80 %: {self.detectable:.4f}{needed}",
            ]
        tested = (("abstentions", self.abstained), ("failures", self.failed))
        return lines + [
            f"  {name}: McNemar's p = {p:.4f}" for name, p in tested if p < 1
        ]


class Changed(NamedTuple):
    """A sample whose score of one metric changed.

    It holds the difference, second − first, and the sample as both runs saw it.
    """

    difference: float
    metric: str
    first: SampleResult
    second: SampleResult


class Comparison(Frozen):
    """Two runs side by side; "second − first" everywhere."""

    changes: tuple[MetricChange, ...] = Field(
        description="one entry per metric and slice"
    )
    matched: Matched = Field(
        repr=False, description="the rows of both runs, those without a partner apart"
    )
    judges: tuple[str, ...] = Field(
        (), repr=False, description="who judged the two runs"
    )
    addresses: dict[str, tuple[str, ...]] = Field(
        {}, repr=False, description="by judge, the addresses that were asked"
    )
    margin: float = Field(description="differences up to this do not matter")
    differing: tuple[str, ...] = Field(
        (), description="in what the runs are not comparable; only with ``anyway``"
    )
    stopped: str = Field(
        "",
        description=(
            'why either run ended before all its rows were read; "" if neither did'
        ),
    )
    decisions: tuple[SequentialDecision, ...] = Field(
        (), description="made while the second run went on (``until``)"
    )
    lacking: tuple[str, ...] = Field(
        (), description="metrics of the first run that the second run lacks"
    )
    added: tuple[str, ...] = Field(
        (), description="metrics of the second run that the first run lacks"
    )

    def __getitem__(self, name: str) -> MetricChange:
        """Return the change of a metric.

        It is over all samples, or over one slice for ``"metric [slice]"``.
        """
        known = {change.name: change for change in self.changes}
        if name not in known:
            raise SettingError(
                f"no {name!r} in this comparison{did_you_mean(name, known)}; it has:"
                f" {', '.join(known)}"
            )
        return known[name]

    @property
    def most_changed(self) -> tuple[Changed, ...]:
        """Per metric the samples whose score changed most, losses first."""
        names = dict.fromkeys(change.metric for change in self.changes)
        return tuple(
            found for name in names for found in _most_changed(self.matched.pairs, name)
        )

    def regression(self, *, min_scored: float = MIN_SCORED) -> dict[str, Outcome]:
        """Per metric and slice: did the second run lose more than the margin?

        See ``regressions``.
        """
        return {
            found.metric: found.outcome
            for found in self.regressions(min_scored=min_scored)
        }

    def regressions(self, *, min_scored: float = MIN_SCORED) -> tuple[Decision, ...]:
        """Per metric and slice: did the second run lose more than the margin, and why?

        ``passed`` if both runs are identical and anything was scored, or if the
        one-sided 95 % lower bound of the difference, with failures set to the worst,
        lies above −margin; ``failed`` if the upper bound, with failures set to the
        best, lies below; else ``undecided``, as after a run that ended early, where
        less than ``min_scored`` of all rows of either run is scored in both, and for a
        metric that the second run lacks.
        """
        check_shares(min_scored=min_scored)
        if self.decisions:
            return self.decisions
        # those that the second run lacks come first
        sentences = zip(self.lacking, self.not_compared, strict=False)
        lacking = (
            Decision(metric=name, outcome="undecided", sentence=sentence)
            for name, sentence in sentences
        )
        return (
            *(self._regression(change, min_scored) for change in self.changes),
            *lacking,
        )

    def _regression(self, change: MetricChange, min_scored: float) -> Decision:
        outcome, why = "undecided", self.stopped
        if not why and change.verdict == "identical":
            outcome = "passed" if change.pairs else "undecided"
            why = f"all {change.rows} rows and their outcomes are equal in both runs"
            why += "" if change.pairs else ", and none of them was scored"
        elif not why and (
            change.one_sided is None
            or change.pairs < min_scored * change.rows - ROUNDING
        ):
            missing = {
                **change.outcomes,
                "without a partner": change.rows - sum(change.outcomes.values()),
            }
            reasons = (
                f"{count} {kind}"
                for kind, count in missing.items()
                if count and kind != "scored/scored"
            )
            why = (
                f"{change.pairs} of {change.rows} rows were scored in both runs:"
                f" {', '.join(reasons)}"
            )
        elif not why and change.one_sided is not None:
            low, high = change.one_sided
            outcome, why = (
                three_way(low, high, -self.margin),
                f"one-sided bounds {low:+.4f} and {high:+.4f}",
            )
        why = f"{change.name} against a loss of {self.margin:g}; {why}"
        return Decision(metric=change.name, outcome=outcome, sentence=why)

    def table(self) -> str:
        """Return the comparison as plain text, a paragraph per metric and slice.

        It holds no texts of samples.
        """
        lines = [
            str(self.matched),
            self.judged,
            *(f"! not comparable: {found}" for found in self.differing),
        ]
        lines += map(str, self.decisions)
        lines += [f"! {sentence}" for sentence in self.not_compared]
        for change in self.changes:
            lines += ["", *change.lines(self.margin)]
        return "\n".join(lines)

    __str__ = __repr__ = table

    @property
    def not_compared(self) -> tuple[str, ...]:
        """The metrics that only one of the runs has, in words.

        Those that the second run lacks come first.
        """
        return (
            *(
                f"{name} is not compared: the second run lacks it"
                for name in self.lacking
            ),
            *(f"{name} is not compared: the first run lacks it" for name in self.added),
        )

    @property
    def judged(self) -> str:
        """Who judged, in words."""
        return f"Judge: {judges_in_words(self.judges, self.addresses) or 'unknown'}."

    def _repr_html_(self) -> str:
        lines = (
            (own.name, own.verdict, own.lines(self.margin)[1:]) for own in self.changes
        )
        differing = (f"not comparable: {found}" for found in self.differing)
        notes = (str(self.matched), self.judged, *differing, *self.not_compared)
        return f"<div>{element('p', notes)}{html_rows(lines, ('metric', 'second run', 'why'))}</div>"

    def to_html(self, path: str | Path) -> None:
        """Write the comparison as one HTML page that opens offline.

        Texts of changed samples are in it.

        Raises:
            MissingDependency: If Jinja2 is not installed.
            InputError: If the file cannot be written.
        """
        # only where a page is written
        from ragmetrics_core.page.render import write_comparison

        write_comparison(path, self)


def compare(
    first: Report,
    second: Report | Any,
    *,
    metrics: Sequence[str | Metric] | None = None,
    cluster: GroupBy = "auto",
    slices: GroupBy = None,
    margin: float = MARGIN,
    anyway: bool = False,
    until: UntilDecided | Literal["decided"] | None = None,
    **how: Any,
) -> Comparison:
    """Compare two runs over the samples that both hold.

    Args:
        first: The run to compare with.
        second: The run in question; differences are second − first. With ``until`` its
            rows, which are judged.
        metrics: Names of metrics, with ``until`` also metrics; None for all that both
            runs have.
        cluster: Which samples belong together, as in ``Report.summary``; those that do
            in either run.
        slices: What splits the samples into slices that are tested, too; Holm counts
            all tests. A sample belongs to the slice that the first run names, else to
            that of the second; of a slice that one run lacks it is said.
        margin: Differences up to this do not matter.
        anyway: Compare runs that were not measured in the same way.
        until: Judge rows only until it is decided whether they lose more than the
            margin.
        **how: With ``until``, arguments of ``evaluate``, e.g. ``judge=``.

    Raises:
        InputError: If no sample is in both runs, or the runs are not comparable.
        SettingError: If a metric is not in both runs.
    """
    if not 0 <= margin <= 1:
        raise SettingError(f"the margin lies between 0 and 1, e.g. 0.02; got {margin}")
    decisions: tuple[SequentialDecision, ...] = ()
    if how and until is None:
        raise SettingError(
            f"{', '.join(how)}: two finished runs are compared without, and rows with"
            ' until="decided"'
        )
    if until is not None:
        # only where rows are judged
        from ragmetrics_core.engine.evaluation import evaluate

        until = UntilDecided() if until == "decided" else until
        until = until.model_copy(
            update={"against": first, "margin": margin, "cluster": cluster}
        )
        second = evaluate(second, metrics or first.metrics, until=until, **how)
        decisions, metrics = second.decisions, None
    both = [name for name in first.metrics if name in second.metrics]
    lacking = (
        [name for name in first.metrics if name not in second.metrics]
        if metrics is None
        else []
    )
    added = (
        [name for name in second.metrics if name not in first.metrics]
        if metrics is None
        else []
    )
    if not both:
        raise InputError("the two runs have no metric in common")
    named = [
        metric if isinstance(metric, str) else metric.name for metric in metrics or both
    ]
    names = list(
        dict.fromkeys(metric_among(name, both, place="in both runs") for name in named)
    )
    keys = KeysSought([slices] if isinstance(slices, str) else (), cluster)
    for row in (*first.results, *second.results):
        if row.sample is not None:
            keys.look(row.sample)
    keys.check()
    matched = match(first.results, second.results)
    differing = [found for name in names for found in differences(matched.pairs, name)]
    asked = {
        judge
        for pair in matched.pairs
        for row in pair
        for judge in _judges_of(row, names)
    }
    elsewhere = judges_elsewhere(first.run.addresses, second.run.addresses)
    differing += [sentence for judge, sentence in elsewhere.items() if judge in asked]
    until_decided = bool(first.decisions or second.decisions)
    alone = (*(() if second.decisions else matched.first_only), *matched.second_only)
    few = sum(row.sample is not None for row in alone)
    if others := asked_otherwise(matched.pairs):
        differing.insert(
            0,
            f"{others} of {len(matched.pairs)} samples of one id have another question"
            " or reference",
        )
    if moved := sliced_otherwise(matched.pairs, slices):
        differing.insert(
            0,
            f"{moved} of {len(matched.pairs)} samples are in another slice in the"
            " second run",
        )
    if matched.by == "question" and few:
        differing.insert(
            0,
            f"{few} rows are in one run only, and without ids nothing else tells rows"
            " apart",
        )
    if differing and not anyway:
        raise InputError(
            f"the runs are not comparable: {'; '.join(differing)}. Measure both in the"
            " same way, or compare them anyway (anyway=True, --anyway)"
        )
    parts = [(part, name) for part in matched.parts(slices) for name in names]
    if (
        not until_decided
        and not differing
        and are_identical(first.results, second.results, names)
    ):
        changes = [_unchanged(name, *part) for part, name in parts]
    else:
        changes = [
            _change(name, *part, cluster, None if until_decided else margin)
            for part, name in parts
        ]
    adjusted = iter(
        paired.holm([change.p for change in changes if change.p is not None])
    )
    judged = tuple(
        change if change.p is None else _judged(change, next(adjusted), margin)
        for change in changes
    )
    decided = [
        it.run.ended_early or ("its gates were decided" if it.decisions else "")
        for it in (first, second)
    ]
    early = zip(("first", "second"), decided, strict=True)
    stopped = "; ".join(
        f"the {which} run ended early: {why}" for which, why in early if why
    )
    judges = tuple(dict.fromkeys((*first.run.judges, *second.run.judges)))
    addresses = {name: _addresses(name, first, second) for name in judges}
    return Comparison(
        changes=judged,
        matched=matched,
        judges=judges,
        addresses=addresses,
        margin=margin,
        differing=(*differing,),
        stopped=stopped,
        decisions=decisions,
        lacking=(*lacking,),
        added=(*added,),
    )


def _unchanged(
    metric: str, part: str | None, pairs: Sequence[Pair], rows: int
) -> MetricChange:
    """One metric over pairs of two identical runs: counted, not estimated."""
    both = [(first.results[metric], second.results[metric]) for first, second in pairs]
    outcomes = Counter(f"{first.status}/{second.status}" for first, second in both)
    scored = sum(first.value is not None for first, _ in both)
    return MetricChange(
        metric=metric,
        slice=part,
        rows=rows,
        outcomes=dict(outcomes.most_common()),
        pairs=scored,
        difference=0.0 if scored else None,
        verdict="identical",
    )


def _judges_of(row: SampleResult, metrics: Sequence[str]) -> set[str]:
    """Who judged a row for any of the metrics."""
    return {row.results[metric].judge for metric in metrics if metric in row.results}


def _addresses(judge: str, *reports: Report) -> tuple[str, ...]:
    """The addresses that a judge was asked at in any of the runs."""
    asked = [
        address for report in reports for address in report.run.addresses.get(judge, ())
    ]
    return tuple(dict.fromkeys(asked))


def _change(
    metric: str,
    part: str | None,
    pairs: Sequence[Pair],
    rows: int,
    cluster: GroupBy,
    margin: float | None,
) -> MetricChange:
    """Return everything about one metric over some pairs.

    Only what depends on the other tests is left out.

    Without a margin nothing is tested: a run until decided would look significant too
    often.
    """
    both = [
        (one.results.get(metric), other.results.get(metric)) for one, other in pairs
    ]
    statuses = [
        ["not judged" if result is None else result.status for result in pair]
        for pair in both
    ]
    change = MetricChange(
        metric=metric,
        slice=part,
        rows=rows,
        outcomes=dict(Counter(map("/".join, statuses)).most_common()),
        abstained=_mcnemar(
            [
                [isinstance(it, Undefined) and it.code == "abstained" for it in pair]
                for pair in both
            ]
        ),
        failed=_mcnemar([[status == "failed" for status in pair] for pair in statuses]),
    )
    groups = group_pairs(
        ((first.sample, second.sample) for first, second in pairs), cluster
    )
    numbers = {
        name: number for number, name in enumerate(dict.fromkeys(filter(None, groups)))
    }
    keys = [-1 if name is None else numbers[name] for name in groups]
    scored, worst, best = (
        _differences(both, keys, assumed)
        for assumed in ((None, None), (1.0, 0.0), (0.0, 1.0))
    )
    if not (count := len(scored[0])):
        return change
    if margin is None:
        untested = {"verdict": "not tested", "abstained": 1.0, "failed": 1.0}
        return change.model_copy(
            update={**untested, "pairs": count, "difference": fmean(scored[0])}
        )
    interval, test = paired.difference_interval(*scored), paired.permutation(*scored)
    error = paired.standard_error(*scored)
    sided = [paired.one_sided(*differences) for differences in (scored, worst, best)]
    measured = {
        "pairs": count,
        "difference": fmean(scored[0]),
        "interval": interval,
        "p": test.p,
        "exact": test.exact,
        "detectable": paired.detectable(error),
        "needed": paired.pairs_needed(error, count, margin) if margin > 0 else None,
        "one_sided": (min(sided[0][0], sided[1][0]), max(sided[0][1], sided[2][1])),
        "bounds": (fmean(worst[0]), fmean(best[0])),
    }
    return change.model_copy(update=measured)


def _mcnemar(traits: Sequence[Sequence[bool]]) -> float:
    return paired.mcnemar(traits.count([True, False]), traits.count([False, True]))


def _differences(
    both: Sequence[tuple[MetricResult | None, MetricResult | None]],
    keys: Sequence[int],
    given: tuple[float | None, float | None],
) -> tuple[list[float], list[int]]:
    """Second − first with cluster numbers.

    What failed or was not judged is taken for what is given, or left out.
    """
    values = [
        (_value(one, given[0]), _value(two, given[1]), key)
        for (one, two), key in zip(both, keys, strict=True)
    ]
    found = [
        (two - one, key)
        for one, two, key in values
        if one is not None and two is not None
    ]
    return [own for own, _ in found], [key for _, key in found]


def _value(result: MetricResult | None, if_failed: float | None = None) -> float | None:
    return if_failed if result is None or result.status == "failed" else result.value


def _judged(change: MetricChange, p: float, margin: float) -> MetricChange:
    """The change with its adjusted p-value, and what follows from it."""
    if change.difference is None or change.interval is None or change.bounds is None:
        return change
    verdict, (low, high) = "undecided", change.bounds
    if p <= _ALPHA and not low < -ROUNDING < ROUNDING < high:
        verdict = "better" if change.difference > 0 else "worse"
    elif (
        p > _ALPHA
        and max(map(abs, (low, high, change.interval.low, change.interval.high)))
        <= margin
    ):
        verdict = "same"
    return change.model_copy(update={"p_holm": p, "verdict": verdict})


def _most_changed(pairs: Sequence[Pair], metric: str) -> Iterator[Changed]:
    """The samples that lost most, then those that gained most."""
    values = [
        (pair, [_value(row.results.get(metric)) for row in pair]) for pair in pairs
    ]
    scored = [
        Changed(two - one, metric, *pair)
        for pair, (one, two) in values
        if one is not None and two is not None
    ]
    found = sorted(scored, key=lambda change: change.difference)
    yield from [one for one in found[:_SHOWN] if one.difference < -ROUNDING]
    yield from [one for one in found[: -_SHOWN - 1 : -1] if one.difference > ROUNDING]
