"""Could the judge be fooling you? What a run itself shows of biases of its judge."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import atanh, sqrt, tanh
from statistics import NormalDist
from typing import NamedTuple

from ragmetrics_core.data import JudgedChunks, Sample, SampleResult, wilson
from ragmetrics_core.statistics.rater_agreement import spearman

_FEWEST = 10
_NOTABLE = 0.3
_MOST_RANKS = 15


class Correlation(NamedTuple):
    """How a metric's score goes with something that should not matter.

    That is Spearman's ρ and its 95 % interval. ``rho`` is None if one side does not
    vary.
    """

    metric: str
    trait: str
    rho: float | None
    low: float
    high: float

    @property
    def notable(self) -> bool:
        """True if it is large enough to look at, and its interval excludes zero."""
        return (
            self.rho is not None
            and abs(self.rho) >= _NOTABLE
            and not self.low <= 0 <= self.high
        )


@dataclass(frozen=True, slots=True)
class RankShare:
    """How many of the chunks at one rank were judged useful.

    Their share comes with its Wilson interval.
    """

    rank: int
    useful: int
    count: int
    share: float
    low: float
    high: float


TRAITS: dict[str, Callable[[Sample], int]] = {
    "answer length": lambda sample: len(sample.answer or ""),
    "context length": lambda sample: sum(
        len(context.text) for context in sample.contexts
    ),
    "number of chunks": lambda sample: len(sample.contexts),
}
"""What should not move a score by itself: sizes of a sample."""


def correlations(
    rows: Iterable[SampleResult], metrics: Sequence[str]
) -> list[Correlation]:
    """Rank correlation of every metric's score with every trait.

    None for a metric with fewer than ten scores.

    Source:
        Interval: Bonett & Wright (2000), Psychometrika 65(1).
    """
    scored: dict[str, list[tuple[float, list[int]]]] = {name: [] for name in metrics}
    for row in rows:
        if row.sample is None:
            continue
        sizes = [size_of(row.sample) for size_of in TRAITS.values()]
        for metric, result in row.results.items():
            if metric in scored and result.value is not None:
                scored[metric].append((result.value, sizes))
    found_correlations = []
    for metric, scores in scored.items():
        if len(scores) < _FEWEST:
            continue
        for place, trait in enumerate(TRAITS):
            pairs = [(score, sizes[place]) for score, sizes in scores]
            found_correlations.append(_correlation(metric, trait, pairs))
    return found_correlations


def _correlation(
    metric: str, trait: str, pairs: Sequence[tuple[float, float]]
) -> Correlation:
    """The rank correlation of scores with one trait, with its interval."""
    rho = spearman(pairs)
    if rho is None:
        return Correlation(metric, trait, None, -1.0, 1.0)
    half = NormalDist().inv_cdf(0.975) * sqrt((1 + rho * rho / 2) / (len(pairs) - 3))
    z = atanh(max(-0.999999, min(0.999999, rho)))
    return Correlation(metric, trait, rho, tanh(z - half), tanh(z + half))


def usefulness_by_rank(rows: Iterable[SampleResult]) -> list[RankShare]:
    """Return the share of chunks judged useful at each of the first 15 ranks.

    All chunks below follow as rank 16. The list is empty if no chunk was judged.
    """
    verdicts_by_rank: dict[int, list[bool]] = {}
    for row in rows:
        for result in row.results.values():
            if isinstance(result.evidence, JudgedChunks):
                _add_verdicts(result.evidence, verdicts_by_rank)
    shares = []
    for rank, verdicts in sorted(verdicts_by_rank.items()):
        useful, count = sum(verdicts), len(verdicts)
        low, high = wilson(useful, count)
        shares.append(RankShare(rank, useful, count, useful / count, low, high))
    return shares


def _add_verdicts(
    evidence: JudgedChunks, verdicts_by_rank: dict[int, list[bool]]
) -> None:
    """Add the verdicts on a sample's chunks to those of their ranks."""
    for chunk in evidence.chunks:
        if chunk.useful is not None:
            rank = min(chunk.rank, _MOST_RANKS + 1)
            verdicts_by_rank.setdefault(rank, []).append(chunk.useful)
