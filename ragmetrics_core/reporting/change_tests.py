"""Whether chance could have changed a metric between two runs."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from ragmetrics_core.data import MetricResult
from ragmetrics_core.reporting.changed_samples import value_of
from ragmetrics_core.reporting.metric_change import Bounds, MetricChange, Verdict
from ragmetrics_core.reporting.pairing import GroupBy, Pair, Part, group_pairs
from ragmetrics_core.reporting.row_shifts import p_of_shifts
from ragmetrics_core.statistics import paired
from ragmetrics_core.statistics.stopping import ROUNDING

_ALPHA = 0.05

ResultPair = tuple[MetricResult | None, MetricResult | None]


class Differences(NamedTuple):
    """Second − first of some pairs, and the number of the cluster of each."""

    values: list[float]
    keys: list[int]


def changes_of_identical_runs(
    parts: Sequence[Part], metrics: Sequence[str]
) -> list[MetricChange]:
    """The changes between two identical runs: counted, not estimated."""
    changes = []
    for part in parts:
        for metric in metrics:
            results = _results(part.pairs, metric)
            n_scored = sum(value_of(before) is not None for before, _ in results)
            change = _change_of_outcomes(metric, part, results)
            numbers = {
                "pairs": n_scored,
                "difference": 0.0 if n_scored else None,
                "verdict": "identical",
            }
            changes.append(change.model_copy(update=numbers))
    return changes


def changes_without_tests(
    parts: Sequence[Part], metrics: Sequence[str], cluster: GroupBy
) -> list[MetricChange]:
    """The changes where a run stopped when its gates were decided.

    Nothing is tested: such a run would look significant too often.
    """
    changes = []
    for part in parts:
        cluster_numbers = _cluster_numbers(part.pairs, cluster)
        for metric in metrics:
            results = _results(part.pairs, metric)
            scored = _differences(results, cluster_numbers)
            change = _change_of_outcomes(metric, part, results)
            numbers: dict[str, object] = dict(p_of_shifts(results))
            if scored.values:
                numbers = {"verdict": "not tested", **_mean_change(scored)}
            changes.append(change.model_copy(update=numbers))
    return changes


def changes_with_tests(
    parts: Sequence[Part], metrics: Sequence[str], cluster: GroupBy, margin: float
) -> list[MetricChange]:
    """The changes, with what follows from all tests together."""
    changes = [
        _test_change(metric, part, cluster, margin)
        for part in parts
        for metric in metrics
    ]
    return _with_verdicts(changes, margin)


def _test_change(
    metric: str, part: Part, cluster: GroupBy, margin: float
) -> MetricChange:
    """One metric over some pairs, but for what depends on the other tests."""
    results = _results(part.pairs, metric)
    cluster_numbers = _cluster_numbers(part.pairs, cluster)
    scored = _differences(results, cluster_numbers)
    change = _change_of_outcomes(metric, part, results)
    change = change.model_copy(update=p_of_shifts(results))
    if not scored.values:
        return change
    worst = _differences(results, cluster_numbers, first_failed=1.0, second_failed=0.0)
    best = _differences(results, cluster_numbers, first_failed=0.0, second_failed=1.0)
    test = paired.permutation(*scored)
    error = paired.standard_error(*scored)
    n_pairs = len(scored.values)
    n_needed = paired.pairs_needed(error, n_pairs, margin) if margin > 0 else None
    return change.model_copy(
        update={
            **_mean_change(scored),
            "interval": paired.difference_interval(*scored),
            "p": test.p,
            "exact": test.exact,
            "detectable": paired.detectable(error),
            "needed": n_needed,
            "one_sided": _one_sided_bounds(scored, worst, best),
            "bounds": (fmean(worst.values), fmean(best.values)),
        }
    )


def _mean_change(scored: Differences) -> dict[str, object]:
    """The mean difference, and how many rows gained and lost how much."""
    gains = [value for value in scored.values if value > ROUNDING]
    losses = [-value for value in scored.values if value < -ROUNDING]
    return {
        "pairs": len(scored.values),
        "difference": fmean(scored.values),
        "n_gained": len(gains),
        "n_lost": len(losses),
        "gain": fmean(gains) if gains else None,
        "loss": fmean(losses) if losses else None,
    }


def _one_sided_bounds(
    scored: Differences, worst: Differences, best: Differences
) -> Bounds:
    """One-sided 95 % bounds, with failures at the worst and at the best."""
    low, high = paired.one_sided_bounds(*scored)
    worst_low, _ = paired.one_sided_bounds(*worst)
    _, best_high = paired.one_sided_bounds(*best)
    return min(low, worst_low), max(high, best_high)


def _results(pairs: Sequence[Pair], metric: str) -> list[ResultPair]:
    """What a metric gave in both runs, by pair."""
    return [
        (before.results.get(metric), after.results.get(metric))
        for before, after in pairs
    ]


def _change_of_outcomes(
    metric: str, part: Part, results: Sequence[ResultPair]
) -> MetricChange:
    """The change of a metric with the outcomes alone."""
    outcomes = Counter(
        f"{_status(before)}/{_status(after)}" for before, after in results
    )
    return MetricChange(
        metric=metric,
        slice=part.slice,
        rows=part.n_rows,
        outcomes=dict(outcomes.most_common()),
    )


def _status(result: MetricResult | None) -> str:
    """What became of a metric on a row, in one word."""
    return "not judged" if result is None else result.status


def _cluster_numbers(pairs: Sequence[Pair], cluster: GroupBy) -> list[int]:
    """The number of each pair's cluster, from 0; −1 for a pair that stands alone."""
    names = group_pairs(
        ((before.sample, after.sample) for before, after in pairs), cluster
    )
    number_by_name: dict[str, int] = {}
    for name in names:
        if name:
            number_by_name.setdefault(name, len(number_by_name))
    return [-1 if name is None else number_by_name[name] for name in names]


def _differences(
    results: Sequence[ResultPair],
    keys: Sequence[int],
    *,
    first_failed: float | None = None,
    second_failed: float | None = None,
) -> Differences:
    """Second − first of the pairs with two scores.

    What failed or was not judged counts as the score that is given for its run; without
    one its pair is left out.
    """
    differences = Differences([], [])
    for (before, after), key in zip(results, keys, strict=True):
        score_before = value_of(before, first_failed)
        score_after = value_of(after, second_failed)
        if score_before is not None and score_after is not None:
            differences.values.append(score_after - score_before)
            differences.keys.append(key)
    return differences


def _with_verdicts(
    changes: Sequence[MetricChange], margin: float
) -> list[MetricChange]:
    """The changes with p-values adjusted for each other, and what follows from them."""
    p_values = [change.p for change in changes if change.p is not None]
    adjusted = iter(paired.holm(p_values))
    return [
        change if change.p is None else _judge_change(change, next(adjusted), margin)
        for change in changes
    ]


def _judge_change(change: MetricChange, p: float, margin: float) -> MetricChange:
    """The change with its adjusted p-value, and what follows from it."""
    if change.difference is None or change.interval is None or change.bounds is None:
        return change
    worst, best = change.bounds
    sign_is_sure = worst >= -ROUNDING or best <= ROUNDING
    largest = max(
        abs(worst), abs(best), abs(change.interval.low), abs(change.interval.high)
    )
    verdict: Verdict = "undecided"
    # no run is called better where its own interval leaves that open
    if p <= _ALPHA and sign_is_sure and change.excludes_zero:
        verdict = "better" if change.difference > 0 else "worse"
    elif p > _ALPHA and largest <= margin:
        verdict = "same"
    return change.model_copy(update={"p_holm": p, "verdict": verdict})
