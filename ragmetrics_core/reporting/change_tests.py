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
    cluster_numbers: list[int]


def changes_of_identical_runs(
    parts: Sequence[Part], metrics: Sequence[str]
) -> list[MetricChange]:
    """The changes between two identical runs: counted, not estimated.

    Example: 20 rows scored in both: difference 0.0 over 20 pairs, verdict "identical".
    """
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
    """Compute how metrics changed where a run stopped once its gates were decided.

    The scores decided when such a run stopped, so a test of their mean difference would
    be biased. Example: difference +.15, verdict "not tested".

    Args:
        parts: All pairs of rows, and those of each slice.
        metrics: Names of the metrics.
        cluster: Which samples belong together.

    Returns:
        A change for each part and metric. If no pair has two scores, declines and
        failures are tested: whether more rows declined, and whether more rows failed.
    """
    changes = []
    for part in parts:
        cluster_numbers = _cluster_numbers(part.pairs, cluster)
        for metric in metrics:
            results = _results(part.pairs, metric)
            differences = _differences(results, cluster_numbers)
            numbers: dict[str, object]
            if differences.values:
                numbers = {"verdict": "not tested", **_mean_change(differences)}
            else:
                # p-values: do more rows decline, or fail, in one of the runs? These
                # tests are not biased: no scores decided when the run stopped.
                numbers = dict(p_of_shifts(results))
            change = _change_of_outcomes(metric, part, results)
            changes.append(change.model_copy(update=numbers))
    return changes


def changes_with_tests(
    parts: Sequence[Part], metrics: Sequence[str], cluster: GroupBy, margin: float
) -> list[MetricChange]:
    """Test the changes of all metrics, and give each a verdict by all tests together."""
    changes = [
        _test_change(metric, part, cluster, margin)
        for part in parts
        for metric in metrics
    ]
    return _with_verdicts(changes, margin)


def _test_change(
    metric: str, part: Part, cluster: GroupBy, margin: float
) -> MetricChange:
    """Test whether the scores of one metric changed between two runs.

    The change has no verdict yet: the p-value must be corrected for all tests first.
    Example: scores .5 and .7 in the first run, .6 and .9 in the second: +.15.
    Without a pair of two scores it has no difference.

    Args:
        metric: Name of the metric.
        part: The pairs of rows, all or those of a slice.
        cluster: Which samples belong together.
        margin: The least difference that matters. Above 0, the change also says how
            many pairs are needed to detect a difference of this size.
    """
    results = _results(part.pairs, metric)
    cluster_numbers = _cluster_numbers(part.pairs, cluster)
    change = _change_of_outcomes(metric, part, results)
    # p-values of two other changes: in how many rows declined, and in how many failed
    change = change.model_copy(update=p_of_shifts(results))
    differences = _differences(results, cluster_numbers)
    if not differences.values:
        return change  # no pair has two scores
    tests = {
        **_mean_change(differences),
        **_test_of_difference(differences, margin),
        **_extremes_of_failed_rows(results, cluster_numbers, differences),
    }
    return change.model_copy(update=tests)


def _test_of_difference(differences: Differences, margin: float) -> dict[str, object]:
    """Test the mean difference; the fields of a change that say the result."""
    test = paired.permutation(*differences)
    error = paired.standard_error(*differences)
    n_pairs = len(differences.values)
    n_needed = paired.pairs_needed(error, n_pairs, margin) if margin > 0 else None
    return {
        "interval": paired.difference_interval(*differences),
        "p": test.p,
        "exact": test.exact,
        "detectable": paired.detectable(error),
        "needed": n_needed,
    }


def _extremes_of_failed_rows(
    results: Sequence[ResultPair],
    cluster_numbers: Sequence[int],
    differences: Differences,
) -> dict[str, object]:
    """Bounds of the difference, if failed rows were the worst or the best possible.

    In the worst case they scored 1 in the first run and 0 in the second.
    """
    worst = _differences(results, cluster_numbers, first_failed=1.0, second_failed=0.0)
    best = _differences(results, cluster_numbers, first_failed=0.0, second_failed=1.0)
    return {
        "one_sided": _one_sided_bounds(differences, worst, best),
        "bounds": (fmean(worst.values), fmean(best.values)),
    }


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
    """Pair the results of a metric in both runs."""
    return [
        (before.results.get(metric), after.results.get(metric))
        for before, after in pairs
    ]


def _change_of_outcomes(
    metric: str, part: Part, results: Sequence[ResultPair]
) -> MetricChange:
    """Make the change of a metric with nothing but its outcomes, such as failed."""
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
    cluster_numbers: Sequence[int],
    *,
    first_failed: float | None = None,
    second_failed: float | None = None,
) -> Differences:
    """Subtract the first run's score from the second run's, for each pair with both.

    Example: scores .5 and .7 in two pairs, then .6 and a failure: only +.1. With
    ``second_failed=0.0`` the failure counts as 0: +.1 and -.7.

    Args:
        results: What a metric gave for each pair of rows, in the first run and in the
            second.
        cluster_numbers: The number of each pair's cluster.
        first_failed: The score for a row that failed or was not judged in the first
            run. None leaves the pair of such a row out.
        second_failed: The same for the second run.
    """
    differences = Differences(values=[], cluster_numbers=[])
    for (before, after), cluster_number in zip(results, cluster_numbers, strict=True):
        score_before = value_of(before, if_failed=first_failed)
        score_after = value_of(after, if_failed=second_failed)
        if score_before is not None and score_after is not None:
            differences.values.append(score_after - score_before)
            differences.cluster_numbers.append(cluster_number)
    return differences


def _with_verdicts(
    changes: Sequence[MetricChange], margin: float
) -> list[MetricChange]:
    """Adjust the p-values of changes for how many were tested, and give verdicts."""
    p_values = [change.p for change in changes if change.p is not None]
    # in the order of the changes that were tested
    adjusted_p_values = iter(paired.holm(p_values))
    judged_changes = []
    for change in changes:
        if change.p is not None:
            change = _judge_change(change, next(adjusted_p_values), margin)
        judged_changes.append(change)
    return judged_changes


def _judge_change(
    change: MetricChange, adjusted_p: float, margin: float
) -> MetricChange:
    """Say of a change whether the second run is better, worse, the same or undecided.

    Example: +.10 with p = .01, interval .04 to .16 and bounds .02 to .12: "better".
    With bounds -.01 to .20 it stays undecided: failed rows could turn its sign.

    Args:
        change: The change, tested; returned as it is if nothing was scored.
        adjusted_p: Its p-value, adjusted for how many changes are tested.
        margin: Differences up to this do not matter.
    """
    if change.difference is None or change.interval is None or change.bounds is None:
        return change
    is_significant = adjusted_p <= _ALPHA
    # bounds: the difference if rows that failed had scored their worst, or their best
    is_sign_sure = change.excludes_zero and _is_on_one_side_of_zero(change.bounds)
    largest_possible = max(
        *map(abs, change.bounds), abs(change.interval.low), abs(change.interval.high)
    )
    verdict: Verdict = "undecided"
    if is_significant and is_sign_sure:
        verdict = "better" if change.difference > 0 else "worse"
    elif not is_significant and largest_possible <= margin:
        verdict = "same"
    return change.model_copy(update={"p_holm": adjusted_p, "verdict": verdict})


def _is_on_one_side_of_zero(bounds: Bounds) -> bool:
    """Whether rows that failed could not turn the sign of a difference."""
    worst, best = bounds
    return worst >= -ROUNDING or best <= ROUNDING
