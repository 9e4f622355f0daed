"""What the page counts in its first sentences.

Each sentence holds for the rows that are counted, and for no others.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ragmetrics_core.data import JudgedChunks, SampleResult, Scored
from ragmetrics_core.statistics.stopping import ROUNDING

_HALF = 0.5
_MOSTLY = 0.65  # where the rubric of the reference calls a match mostly right


class Counted(NamedTuple):
    """For how many scored rows a sentence holds, and of how many that can be said."""

    holds: int
    of: int


def _useful_text_first(result: Scored) -> bool | None:
    """Whether the first text was judged useful.

    None where no verdict on it is known.
    """
    evidence = result.evidence
    if not isinstance(evidence, JudgedChunks) or not evidence.chunks:
        return None
    return min(evidence.chunks, key=lambda chunk: chunk.rank).useful


def _over_half(result: Scored) -> bool:
    return result.value > _HALF + ROUNDING


def _mostly(result: Scored) -> bool:
    return result.value >= _MOSTLY - ROUNDING


def _half_or_more(result: Scored) -> bool:
    return result.value >= _HALF - ROUNDING


_HOLDS: dict[str, Callable[[Scored], bool | None]] = {
    "context_utilization": _useful_text_first,
    "context_adherence": _over_half,
    "context_recall": _mostly,
}


def counted_rows(rows: Iterable[SampleResult], metric: str) -> Counted:
    """Count the rows for which the sentence of a metric holds.

    For metrics without a sentence of their own it holds from a score of one half on.
    """
    holds = _HOLDS.get(metric, _half_or_more)
    results = (row.results.get(metric) for row in rows)
    known = [
        said
        for result in results
        if isinstance(result, Scored) and (said := holds(result)) is not None
    ]
    return Counted(sum(known), len(known))
