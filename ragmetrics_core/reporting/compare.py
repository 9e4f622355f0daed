"""Comparing two runs over the same samples: what changed, by how much, and whether chance could have done it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.data.results import MetricResult, SampleResult, Undefined
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.reporting.comparability import Pair, differences
from ragmetrics_core.reporting.comparison import (
    MARGIN,
    ROUNDING,
    Changed,
    Comparison,
    MetricChange,
    Side,
    Verdict,
)
from ragmetrics_core.reporting.matching import Part, match, sliced
from ragmetrics_core.statistics.clusters import ClusterBy, key_of
from ragmetrics_core.statistics.paired import (
    detectable,
    difference_interval,
    holm,
    mcnemar,
    pairs_needed,
    permutation,
)
from ragmetrics_core.statistics.statistics import mean

if TYPE_CHECKING:
    from ragmetrics_core.reporting.report import Report

_ALPHA = 0.05
_SHOWN = 10

Both = tuple[MetricResult | None, MetricResult | None]


def compare(
    first: Report,
    second: Report,
    *,
    metrics: Sequence[str] | None = None,
    cluster: ClusterBy = "auto",
    slices: ClusterBy = None,
    margin: float = MARGIN,
    anyway: bool = False,
) -> Comparison:
    """Compare two runs over the samples that both hold.

    Args:
        first: The run to compare with.
        second: The run in question.
        metrics: Names of metrics; None for all that both runs have.
        cluster: Which samples belong together, as in ``Report.summary``.
        slices: What splits the samples; each slice is tested beside the whole, and Holm counts all tests.
        margin: Differences up to this do not matter.
        anyway: Compare runs that differ in judge, prompt or settings; the differences are then listed.

    Returns:
        The comparison.

    Raises:
        InputError: If no sample is in both runs, or the runs are not comparable; the message says in what they
            differ.
        SettingError: If a metric is not in both runs, or the margin is negative.
    """
    if not 0 <= margin <= 1:
        raise SettingError(f"the margin lies between 0 and 1, e.g. 0.02; got {margin}")
    names = _names(first, second, metrics)
    pairs, matched_by = match(first.results, second.results)
    differing = tuple(found for name in names for found in differences(pairs, name))
    if not anyway:
        _refuse(differing)
    matched = {id(row) for pair in pairs for row in pair}
    alone = [row for row in (*first.results, *second.results) if id(row) not in matched]
    parts = [(None, Part(pairs, len(alone))), *sliced(pairs, alone, slices).items()]
    changes = [_change(name, part, own, cluster, margin) for part, own in parts for name in names]
    tested = [change for change in changes if change.p is not None]
    adjusted = dict(zip(map(id, tested), holm([change.p or 0.0 for change in tested]), strict=True))
    return Comparison(
        changes=tuple(_judged(change, adjusted.get(id(change)), margin) for change in changes),
        matched=len(pairs),
        stopped="; ".join(
            f"the {which} run ended early: {why}"
            for which, why in (("first", first.run.ended_early), ("second", second.run.ended_early))
            if why
        ),
        first_only=len(first.results) - len(pairs),
        second_only=len(second.results) - len(pairs),
        matched_by=matched_by,
        margin=margin,
        differing=differing,
        most_changed=tuple(found for name in names for found in _most_changed(pairs, name)),
    )


def _refuse(differing: Sequence[str]) -> None:
    if differing:
        raise InputError(
            f"the runs are not comparable: {'; '.join(differing)}. Measure both in the same way, or compare them "
            "anyway (anyway=True, --anyway)"
        )


def _names(first: Report, second: Report, metrics: Sequence[str] | None) -> list[str]:
    both = [name for name in first.metrics if name in second.metrics]
    if missing := [name for name in metrics or () if name not in both]:
        raise SettingError(f"no {', '.join(missing)} in both runs; both have: {', '.join(both) or 'no metric'}")
    if not both:
        raise InputError("the two runs have no metric in common")
    return list(metrics) if metrics is not None else both


def _change(metric: str, part: str | None, own: Part, cluster: ClusterBy, margin: float) -> MetricChange:
    """Everything about one metric over some pairs, but for what depends on the other tests."""
    both = [(one.results.get(metric), other.results.get(metric)) for one, other in own.pairs]
    counted = MetricChange(
        metric=metric,
        slice=part,
        rows=len(own.pairs) + own.alone,
        outcomes=_outcomes(both),
        abstained=_mcnemar([(_abstained(one), _abstained(other)) for one, other in both]),
        failed=_mcnemar([(_status(one) == "failed", _status(other) == "failed") for one, other in both]),
    )
    keys = _cluster_numbers(own.pairs, cluster)
    scored = _differences(both, keys, None)
    extremes = [_differences(both, keys, worst) for worst in (True, False)]
    return _measured(counted, scored, extremes, margin) if scored[0] else counted


def _cluster_numbers(pairs: Sequence[Pair], cluster: ClusterBy) -> list[int]:
    """Number of each pair's cluster, −1 for none."""
    numbers: dict[Hashable, int] = {}
    keys = (key_of(first.sample, cluster) if first.sample else None for first, _ in pairs)
    return [-1 if key is None else numbers.setdefault(key, len(numbers)) for key in keys]


Differences = tuple[list[float], list[int]]


def _differences(both: Sequence[Both], keys: Sequence[int], worst: bool | None) -> Differences:
    """Differences with the numbers of their clusters.

    Args:
        both: Both results of each pair.
        keys: Number of each pair's cluster.
        worst: Set failures to the worst (True) or the best (False) for the second run; None leaves them out.
    """
    low, high = (None, None) if worst is None else (float(worst), float(not worst))
    sides = [(_assumed(one, low), _assumed(other, high), key) for (one, other), key in zip(both, keys, strict=True)]
    known = [(other - one, key) for one, other, key in sides if one is not None and other is not None]
    return [value for value, _ in known], [key for _, key in known]


def _assumed(result: MetricResult | None, if_failed: float | None) -> float | None:
    if result is None:
        return None
    return if_failed if result.status == "failed" else result.value


def _measured(
    counted: MetricChange, scored: Differences, extremes: Sequence[Differences], margin: float
) -> MetricChange:
    values, keys = scored
    found = difference_interval(values, keys)
    one_sided, lowest, highest = (
        difference_interval(*own, 1 - 2 * _ALPHA).interval for own in (scored, *extremes)
    )  # fmt: skip
    # The error with a pair added at each end: mostly tied pairs would otherwise promise to detect anything.
    error = (one_sided.high - one_sided.low) / (2 * NormalDist().inv_cdf(1 - _ALPHA))
    test = permutation(values, keys)
    return counted.model_copy(
        update={
            "pairs": len(values),
            "difference": mean(values),
            "interval": found.interval,
            "one_sided": (min(one_sided.low, lowest.low), max(one_sided.high, highest.high)),
            "bounds": tuple(mean(own) for own, _ in extremes),
            "p": test.p,
            "exact": test.exact,
            "clusters": found.clusters,
            "detectable": detectable(error),
            "needed": pairs_needed(error, len(values), margin) if margin > 0 else None,
        }
    )


def _judged(change: MetricChange, p: float | None, margin: float) -> MetricChange:
    """The change with its adjusted p-value, and what follows from it."""
    if p is None or change.difference is None or change.interval is None or change.bounds is None:
        return change
    verdict: Verdict = "undecided"
    low, high = change.bounds
    turned = low < -ROUNDING and high > ROUNDING
    if p <= _ALPHA and not turned:
        verdict = "better" if change.difference > 0 else "worse"
    elif p > _ALPHA and max(abs(v) for v in (low, high, change.interval.low, change.interval.high)) <= margin:
        verdict = "same"
    return change.model_copy(update={"p_holm": p, "verdict": verdict})


def _outcomes(both: Sequence[Both]) -> dict[str, int]:
    return dict(Counter(f"{_status(one)}/{_status(other)}" for one, other in both).most_common())


def _status(result: MetricResult | None) -> str:
    return "not judged" if result is None else result.status


def _abstained(result: MetricResult | None) -> bool:
    return isinstance(result, Undefined) and result.code == "abstained"


def _mcnemar(traits: Sequence[tuple[bool, bool]]) -> float:
    return mcnemar(sum(one > other for one, other in traits), sum(one < other for one, other in traits))


def _most_changed(pairs: Sequence[Pair], metric: str) -> list[Changed]:
    """The samples that lost most, then those that gained most."""
    found = []
    for first, second in pairs:
        one, other = first.results.get(metric), second.results.get(metric)
        if one is None or other is None or one.value is None or other.value is None or first.sample is None:
            continue
        if abs(other.value - one.value) > ROUNDING and second.sample is not None:
            found.append(Changed(metric=metric, first=_side(first, one), second=_side(second, other)))
    found.sort(key=lambda one: one.difference)
    losses, gains = [c for c in found if c.difference < 0], [c for c in found if c.difference > 0]
    return losses[:_SHOWN] + gains[::-1][:_SHOWN]


def _side(row: SampleResult, result: MetricResult) -> Side:
    sample = row.sample or Sample()
    return Side(index=row.index, sample=sample, value=result.value or 0.0, reason=result.reason)
