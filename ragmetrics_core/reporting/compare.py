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
from ragmetrics_core.reporting.matching import match, sliced
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
    parts = [(None, pairs), *sliced(pairs, slices).items()]
    changes = [_change(name, part, own, cluster, margin) for part, own in parts for name in names]
    tested = [change for change in changes if change.p is not None]
    adjusted = dict(zip(map(id, tested), holm([change.p or 0.0 for change in tested]), strict=True))
    return Comparison(
        changes=tuple(_judged(change, adjusted.get(id(change)), margin) for change in changes),
        matched=len(pairs),
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


def _change(
    metric: str, part: str | None, pairs: Sequence[Pair], cluster: ClusterBy, margin: float
) -> MetricChange:  # fmt: skip
    """Everything about one metric over some pairs, but for what depends on the other tests."""
    both = [(one.results.get(metric), other.results.get(metric)) for one, other in pairs]
    counted = MetricChange(
        metric=metric,
        slice=part,
        outcomes=_outcomes(both),
        abstained=_mcnemar([(_abstained(one), _abstained(other)) for one, other in both]),
        failed=_mcnemar([(_status(one) == "failed", _status(other) == "failed") for one, other in both]),
    )
    numbers: dict[Hashable, int] = {}
    scored: list[float] = []
    keys: list[int] = []
    for (first, _), (one, other) in zip(pairs, both, strict=True):
        if one is not None and other is not None and one.value is not None and other.value is not None:
            key = key_of(first.sample, cluster) if first.sample else None
            scored.append(other.value - one.value)
            keys.append(-1 if key is None else numbers.setdefault(key, len(numbers)))
    return _measured(counted, scored, keys, both, margin) if scored else counted


def _measured(
    counted: MetricChange, scored: Sequence[float], keys: Sequence[int], both: Sequence[Both], margin: float
) -> MetricChange:
    found = difference_interval(scored, keys)
    one_sided = difference_interval(scored, keys, 1 - 2 * _ALPHA).interval
    # The error with a pair added at each end: mostly tied pairs would otherwise promise to detect anything.
    error = (one_sided.high - one_sided.low) / (2 * NormalDist().inv_cdf(1 - _ALPHA))
    test = permutation(scored, keys)
    return counted.model_copy(
        update={
            "pairs": len(scored),
            "difference": mean(scored),
            "interval": found.interval,
            "one_sided": (one_sided.low, one_sided.high),
            "bounds": _bounds(both),
            "p": test.p,
            "exact": test.exact,
            "clusters": found.clusters,
            "detectable": detectable(error),
            "needed": pairs_needed(error, len(scored), margin) if margin > 0 else None,
        }
    )


def _bounds(both: Sequence[Both]) -> tuple[float, float]:
    """Mean difference over all pairs scored or failed, failures set to what is worst and best for the second."""
    extremes = []
    for worst in (True, False):
        sides = [(_assumed(one, 1.0 if worst else 0.0), _assumed(other, 0.0 if worst else 1.0)) for one, other in both]
        known = [other - one for one, other in sides if one is not None and other is not None]
        extremes.append(mean(known) or 0.0)
    return extremes[0], extremes[1]


def _assumed(result: MetricResult | None, if_failed: float) -> float | None:
    if result is None:
        return None
    return if_failed if result.status == "failed" else result.value


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
