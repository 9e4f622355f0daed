"""The samples whose scores changed most between two runs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ragmetrics_core.data import MetricResult, SampleResult
from ragmetrics_core.reporting.pairing import Pair
from ragmetrics_core.statistics.stopping import ROUNDING

_MOST_SHOWN = 10


class Changed(NamedTuple):
    """A sample whose score of one metric changed.

    It holds the difference, second − first, and the sample as both runs saw it.
    """

    difference: float
    metric: str
    first: SampleResult
    second: SampleResult


def most_changed(pairs: Sequence[Pair], metric: str) -> list[Changed]:
    """Return the ten samples whose score fell most, then the ten whose score rose most.

    Samples without a score in one of the runs are left out. So are samples whose score
    did not change. Example: changes of +.4, -.2, 0 and +.1: -.2, then +.4, +.1.
    """
    changes = []
    for before, after in pairs:
        change = _change_of(before, after, metric)
        if change is not None:
            changes.append(change)
    changes.sort(key=lambda change: change.difference)
    lowest = changes[:_MOST_SHOWN]
    highest = reversed(changes[-_MOST_SHOWN:])
    # with few samples both lists hold the same ones: each takes its own side of zero
    losses = [change for change in lowest if change.difference < -ROUNDING]
    gains = [change for change in highest if change.difference > ROUNDING]
    return losses + gains


def _change_of(
    before: SampleResult, after: SampleResult, metric: str
) -> Changed | None:
    """The change of a row's score of a metric; None if a run has no score of it."""
    score_before = value_of(before.results.get(metric))
    score_after = value_of(after.results.get(metric))
    if score_before is None or score_after is None:
        return None
    return Changed(score_after - score_before, metric, before, after)


def moved_rows(pairs: Iterable[Pair], metrics: Sequence[str]) -> tuple[Changed, ...]:
    """Return every row whose score of any metric changed, each once, losses first.

    A row stands with the metric that changed most. Example: changes of +.4, -.2, 0 and
    -.5 in four rows: -.5, -.2, +.4.
    """
    moved = []
    for before, after in pairs:
        largest: Changed | None = None
        for metric in metrics:
            change = _change_of(before, after, metric)
            if change is None:
                continue
            if largest is None or abs(change.difference) > abs(largest.difference):
                largest = change
        if largest is not None and abs(largest.difference) > ROUNDING:
            moved.append(largest)
    moved.sort(key=lambda change: (change.difference > 0, -abs(change.difference)))
    return tuple(moved)


def rank_losses(
    samples: Iterable[Changed], sort_key_by_metric: Mapping[str, tuple[bool, float]]
) -> tuple[Changed, ...]:
    """Return the samples whose scores fell, each once, the worst first.

    Example: row 3 lost .5 in the worst metric and .7 in another one, row 5 lost .6 in
    the worst: row 5, then row 3 with its .5.

    Args:
        samples: Samples whose score of a metric changed; a sample may come once for
            each metric.
        sort_key_by_metric: The metric of the lowest key is the worst, and its samples
            come first.

    Returns:
        For each sample its change in the worst metric. Samples of one metric stand in
        the order of their losses, the largest first.
    """

    def rank(loss: Changed) -> tuple[tuple[bool, float], float, int]:
        """Sort by metric, then by the size of the loss, then by the row's number."""
        return sort_key_by_metric[loss.metric], loss.difference, loss.second.index

    losses = [sample for sample in samples if sample.difference < 0]
    losses.sort(key=rank)
    worst_loss_by_row: dict[int, Changed] = {}
    for loss in losses:
        worst_loss_by_row.setdefault(loss.second.index, loss)
    return tuple(worst_loss_by_row.values())


def value_of(
    result: MetricResult | None, if_failed: float | None = None
) -> float | None:
    """The score of a result; None if the metric is undefined for the sample.

    Args:
        result: What a metric said; None if the sample was not judged.
        if_failed: The score to take if the sample was not judged or the metric failed.
    """
    if result is None or result.status == "failed":
        return if_failed
    return result.value
