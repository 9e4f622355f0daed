"""What a judge may decide alone: the rows whose score lies outside a band.

A band is a range of scores around one half in which the judge is unsure, such as 0.3 to
0.6. A cascade asks its strong judge inside the band. A judge that says *uncertain* says
so inside it. All shares are means over sources, which are never pooled.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, log
from statistics import fmean
from typing import Literal

from ragmetrics_core.data.one_half import is_yes
from ragmetrics_core.statistics.rater_agreement import Labelled

Goal = Literal["wrong", "lost"]

RISKS = (0.1, 0.2, 0.25, 0.3)
"""Shares of the decided rows that may be wrong: the points of the curve."""
LOSSES = (0.02, 0.05, 0.1)
"""Shares of all rows that a cascade may lose, on each source."""

_CHANCE = 0.05
"""How probable it may be that too high a loss shows in no row."""

# lower and upper ends, in steps of .01: from 0 to .5, and from .5 to 1
_BANDS = tuple(
    (low / 100, high / 100) for low, high in product(range(51), range(50, 101))
)


@dataclass(frozen=True, slots=True)
class Outside:
    """What a judge decides where its score lies outside a band.

    Args:
        decided: Share of the rows that it decides.
        lost: Share of all rows that it decides wrongly.
        wrong: Share of the decided rows that it decides wrongly; None if it decides
            none.
    """

    decided: float
    lost: float
    wrong: float | None


@dataclass(frozen=True, slots=True)
class Reach:
    """The widest reach of a judge within a limit of what may be wrong.

    Args:
        goal: What the limit bounds: ``wrong``, of the decided rows, as the mean over
            sources; or ``lost``, of all rows, on each source.
        limit: The limit.
        source: The source that was decided, with the band chosen on the others. None
            for the mean over all sources, with the band chosen on all.
        low: Lower end of the band. The judge decides below.
        high: Upper end of the band. The judge decides above.
        decided: Share of the rows that it decides.
        lost: Share of all rows that it decides wrongly.
        wrong: Share of the decided rows that it decides wrongly.
    """

    goal: Goal
    limit: float
    source: str | None
    low: float
    high: float
    decided: float
    lost: float
    wrong: float | None


class _Source:
    """The scores of one source, sorted, so that each band is looked up fast."""

    def __init__(self, rows: Sequence[Labelled]) -> None:
        scores = []
        wrong_scores = []
        for row in rows:
            verdict = row.is_judged_yes()
            # A cascade passes on a verdict that contradicts its probability.
            if verdict != is_yes(row.score):
                continue
            scores.append(row.score)
            if verdict != row.is_labelled_yes:
                wrong_scores.append(row.score)
        self._n_rows = len(rows)
        self._scores = sorted(scores)
        self._wrong_scores = sorted(wrong_scores)

    def outside(self, low: float, high: float) -> Outside:
        """What is decided of this source outside a band."""
        n_decided = _n_outside(self._scores, low, high)
        n_wrong = _n_outside(self._wrong_scores, low, high)
        return Outside(
            decided=n_decided / self._n_rows,
            lost=n_wrong / self._n_rows,
            wrong=n_wrong / n_decided if n_decided else None,
        )


def _n_outside(sorted_scores: Sequence[float], low: float, high: float) -> int:
    n_below = bisect_left(sorted_scores, low)
    n_above = len(sorted_scores) - bisect_right(sorted_scores, high)
    return n_below + n_above


def mean_outside(rows: Sequence[Labelled], low: float, high: float) -> Outside:
    """Measure what a judge decides outside a band, as the mean over sources."""
    sources = _sources(rows).values()
    return _mean([source.outside(low, high) for source in sources])


def choose_band(
    rows: Sequence[Labelled], goal: Goal, limit: float
) -> tuple[float, float]:
    """Choose the band of scores in which a judge is unsure, and return its two ends.

    The judge decides the rows whose scores lie outside the band: with (.3, .8) a score
    of .9 is a yes, .1 a no, and .5 is left to another judge. The best band lets the
    judge decide most rows within the limit; of equal bands it is the widest. If no band
    keeps the limit, it is (0, 1): no score lies outside, and the judge decides nothing.

    Args:
        rows: Labelled rows of one or more sources.
        goal: What is limited. "wrong": wrong decisions divided by decided rows, as
            the mean over sources. "lost": wrong decisions divided by all rows, on each
            source.
        limit: The limit, a share.
    """
    sources = _sources(rows).values()
    keeps_limit = _LIMIT_TESTS[goal]
    best_band = (0.0, 1.0)
    best_rank = (0.0, 1.0)
    for low, high in _BANDS:
        outside_by_source = [source.outside(low, high) for source in sources]
        share_decided = _mean(outside_by_source).decided
        rank = (share_decided, high - low)  # most rows first, then the widest
        if rank > best_rank and keeps_limit(outside_by_source, limit):
            best_band = (low, high)
            best_rank = rank
    return best_band


def fewest_rows(loss: float) -> int:
    """Return the fewest labelled rows that can show a band to keep a loss.

    If a judge loses more than this share of all rows, that many rows hold a lost one
    with a probability of 95 %. In fewer rows chance may hide the loss.

    Args:
        loss: The share that may be lost, above 0.

    Examples:
        >>> fewest_rows(0.02), fewest_rows(0.05), fewest_rows(0.1)
        (149, 59, 29)
    """
    if loss >= 1 - _CHANCE:
        return 1
    # All of n rows hide the loss with the probability (1 − loss)ⁿ.
    n_rows = log(_CHANCE) / log(1 - loss)
    return ceil(n_rows)


def measure_reach(rows: Sequence[Labelled]) -> tuple[Reach, ...]:
    """Measure how many rows a judge may decide alone, at several limits of its errors.

    Example: the judge may decide 60 % of the rows if 5 % of its decisions may be wrong.
    ``RISKS`` limit the share of its decisions that are wrong, ``LOSSES`` the
    share of all rows that it decides wrongly. The judge decides a row if its score lies
    outside a band, the scores at which the judge is unsure.

    Returns:
        For each limit the share over all sources. Where there are several, also the
        share on each source, with a band that was chosen on the other sources.
    """
    limits: list[tuple[Goal, float]] = []
    for risk in RISKS:
        limits.append(("wrong", risk))
    for loss in LOSSES:
        limits.append(("lost", loss))
    reaches: list[Reach] = []
    for goal, limit in limits:
        reach_over_all = reach_of_chosen_band(
            goal, limit, chosen_on=rows, measured_on=rows, source=None
        )
        reaches.append(reach_over_all)
        reaches += reach_on_sources_left_out(rows, goal, limit)
    return tuple(reaches)


def reach_on_sources_left_out(
    rows: Sequence[Labelled], goal: Goal, limit: float
) -> list[Reach]:
    """Measure on each source how many rows a judge may decide alone.

    The judge leaves a band of uncertain scores to people. Example with sources A, B and
    C: for A the band is chosen on B and C, and measured on A. Empty for fewer than two.

    Args:
        rows: Labelled rows.
        goal: The denominator: "wrong" is the share of wrong decisions among the decided
            rows, "lost" their share among all rows.
        limit: The highest share of wrong decisions.
    """
    sources = dict.fromkeys(row.source for row in rows)
    if len(sources) < 2:
        return []
    reaches: list[Reach] = []
    for source in sources:
        reach = reach_of_chosen_band(
            goal,
            limit,
            chosen_on=[row for row in rows if row.source != source],
            measured_on=[row for row in rows if row.source == source],
            source=source,
        )
        reaches.append(reach)
    return reaches


def reach_of_chosen_band(
    goal: Goal,
    limit: float,
    *,
    chosen_on: Sequence[Labelled],
    measured_on: Sequence[Labelled],
    source: str | None,
) -> Reach:
    """Choose a band on some rows, and measure what a judge decides of others with it.

    Args:
        goal: What is limited: "wrong", of the decided rows, or "lost", of all rows.
        limit: The share that may be decided wrongly.
        chosen_on: The rows on which the band is chosen.
        measured_on: The rows that are decided; they may be the same.
        source: Their source; None for all sources.
    """
    low, high = choose_band(chosen_on, goal, limit)
    outside = mean_outside(measured_on, low, high)
    return Reach(
        goal=goal,
        limit=limit,
        source=source,
        low=low,
        high=high,
        decided=outside.decided,
        lost=outside.lost,
        wrong=outside.wrong,
    )


def _sources(rows: Sequence[Labelled]) -> dict[str, _Source]:
    """The sorted scores of each source, by its name."""
    by_source: dict[str, list[Labelled]] = {}
    for row in rows:
        by_source.setdefault(row.source, []).append(row)
    return {source: _Source(source_rows) for source, source_rows in by_source.items()}


def _mean(by_source: Sequence[Outside]) -> Outside:
    """The mean over sources; ``wrong`` over those of which something is decided."""
    wrong = [source.wrong for source in by_source if source.wrong is not None]
    return Outside(
        decided=fmean(source.decided for source in by_source),
        lost=fmean(source.lost for source in by_source),
        wrong=fmean(wrong) if wrong else None,
    )


def _is_rarely_wrong(by_source: Sequence[Outside], limit: float) -> bool:
    wrong = _mean(by_source).wrong
    return wrong is None or wrong <= limit


def _loses_little(by_source: Sequence[Outside], limit: float) -> bool:
    return all(source.lost <= limit for source in by_source)


_LIMIT_TESTS: dict[Goal, Callable[[Sequence[Outside], float], bool]] = {
    "wrong": _is_rarely_wrong,
    "lost": _loses_little,
}
