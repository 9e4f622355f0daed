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
    """Correlate each metric's scores with traits that should not matter, such as length.

    Each metric and each of ``TRAITS`` has a rank correlation. Example: 3 traits and two
    metrics with scores give 6. A metric with fewer than ten scores is left out.

    Source:
        Interval: Bonett & Wright (2000), Psychometrika 65(1).
    """
    # by metric its scores, each with the sample's sizes in the order of TRAITS
    scores_and_sizes_by_metric: dict[str, list[tuple[float, list[int]]]] = {
        metric: [] for metric in metrics
    }
    for row in rows:
        if row.sample is None:
            continue
        sizes = [size_of(row.sample) for size_of in TRAITS.values()]
        for metric, result in row.results.items():
            if metric in scores_and_sizes_by_metric and result.value is not None:
                scores_and_sizes_by_metric[metric].append((result.value, sizes))
    all_correlations = []
    for metric, scores_and_sizes in scores_and_sizes_by_metric.items():
        if len(scores_and_sizes) < _FEWEST:
            continue
        for trait_index, trait in enumerate(TRAITS):
            pairs = [(score, sizes[trait_index]) for score, sizes in scores_and_sizes]
            all_correlations.append(_correlation(metric, trait, pairs))
    return all_correlations


def _correlation(
    metric: str, trait: str, pairs: Sequence[tuple[float, float]]
) -> Correlation:
    """Compute Spearman's rank correlation ρ of scores with a trait, with its interval.

    The interval holds 95 %. Example: a ρ of .40 from 30 pairs has about .03 to .67.
    Fisher's transformation z = artanh ρ is about normal, so the interval is made there
    and transformed back. Without a correlation, because one side does not vary, the
    interval is all of [-1, 1].
    """
    rho = spearman(pairs)
    if rho is None:
        return Correlation(metric, trait, rho=None, low=-1.0, high=1.0)
    standard_error = sqrt((1 + rho * rho / 2) / (len(pairs) - 3))
    half_width = NormalDist().inv_cdf(0.975) * standard_error
    z = atanh(max(-0.999999, min(0.999999, rho)))  # artanh of 1 is infinite
    low = tanh(z - half_width)
    high = tanh(z + half_width)
    return Correlation(metric, trait, rho, low, high)


def usefulness_by_rank(rows: Iterable[SampleResult]) -> list[RankShare]:
    """Compute the share of chunks judged useful at each of the first 15 ranks.

    It shows a judge that prefers the first chunks, whatever they say. All chunks below
    rank 15 are counted together, as rank 16. Ranks without a verdict are left out.
    Example: at rank 1 8 of 10 chunks are useful: share .8, with Wilson's interval.
    """
    verdicts_by_rank: dict[int, list[bool]] = {}
    for row in rows:
        for result in row.results.values():
            if isinstance(result.evidence, JudgedChunks):
                _add_verdicts(result.evidence, verdicts_by_rank)
    shares = []
    for rank, verdicts in sorted(verdicts_by_rank.items()):
        n_useful = sum(verdicts)
        n_chunks = len(verdicts)
        low, high = wilson(n_useful, n_chunks)
        rank_share = RankShare(
            rank,
            useful=n_useful,
            count=n_chunks,
            share=n_useful / n_chunks,
            low=low,
            high=high,
        )
        shares.append(rank_share)
    return shares


def _add_verdicts(
    evidence: JudgedChunks, verdicts_by_rank: dict[int, list[bool]]
) -> None:
    """Add the verdicts on a sample's chunks to those of their ranks."""
    for chunk in evidence.chunks:
        if chunk.useful is not None:
            rank = min(chunk.rank, _MOST_RANKS + 1)
            verdicts_by_rank.setdefault(rank, []).append(chunk.useful)
