"""The samples whose scores changed most between two runs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ragmetrics_core.data import MetricResult, SampleResult
from ragmetrics_core.reporting.pairing import Pair
from ragmetrics_core.statistics.stopping import ROUNDING

_SHOWN = 10


class Changed(NamedTuple):
    """A sample whose score of one metric changed.

    It holds the difference, second − first, and the sample as both runs saw it.
    """

    difference: float
    metric: str
    first: SampleResult
    second: SampleResult


def most_changed(pairs: Sequence[Pair], metric: str) -> list[Changed]:
    """The samples that lost most, then those that gained most."""
    changed = []
    for before, after in pairs:
        score_before = value_of(before.results.get(metric))
        score_after = value_of(after.results.get(metric))
        if score_before is not None and score_after is not None:
            difference = score_after - score_before
            changed.append(Changed(difference, metric, before, after))
    changed.sort(key=lambda change: change.difference)
    losses = [change for change in changed[:_SHOWN] if change.difference < -ROUNDING]
    largest_first = reversed(changed[-_SHOWN:])
    gains = [change for change in largest_first if change.difference > ROUNDING]
    return losses + gains


def rank_losses(
    samples: Iterable[Changed], badness: Mapping[str, tuple[bool, float]]
) -> tuple[Changed, ...]:
    """The samples that lost, each once, those of the worst metric first.

    ``badness`` sorts the metrics, the lowest first.
    """

    def place(loss: Changed) -> tuple[tuple[bool, float], float, int]:
        """Where a loss stands: the worst metric first, then the largest loss."""
        return badness[loss.metric], loss.difference, loss.second.index

    by_row: dict[int, Changed] = {}
    losses = (sample for sample in samples if sample.difference < 0)
    for loss in sorted(losses, key=place):
        by_row.setdefault(loss.second.index, loss)
    return tuple(by_row.values())


def value_of(
    result: MetricResult | None, if_failed: float | None = None
) -> float | None:
    """The score of a result; what failed or is missing has that which is given."""
    return if_failed if result is None or result.status == "failed" else result.value
