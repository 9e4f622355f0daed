"""Could the judge be fooling you? What a run itself shows of biases of its judge."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import atanh, sqrt, tanh
from pathlib import Path
from statistics import NormalDist

from ragmetrics_core.data.evidence import JudgedChunks
from ragmetrics_core.data.intervals import wilson
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.statistics.agreement import spearman

_FEWEST = 10
_NOTABLE = 0.3
_MOST_RANKS = 20

_DATA = tomllib.loads(Path(__file__).with_name("biases.toml").read_text("utf-8"))


def _shares(counts: dict[str, dict[str, list[int]]]) -> dict[str, dict[str, float]]:
    return {judge: {what: hits / of for what, (hits, of) in own.items()} for judge, own in counts.items()}


CAUGHT = _shares(_DATA["caught"])
"""Share of accepted answers that a judge rejects after one edit has made them wrong, by name of the judge, from
``benchmarks/lexical_table.py``: each source with weights fitted on the others."""

FLIPPED = _shares(_DATA["flipped"])
"""Share of verdicts on adherence that flip when one more context argues against them, by name of the judge, from
the same table."""


@dataclass(frozen=True, slots=True)
class Correlation:
    """How a metric's score goes with something that should not matter: Spearman's ρ and its 95 % interval.

    ``rho`` is None if one side does not vary.
    """

    metric: str
    trait: str
    rho: float | None
    low: float
    high: float
    count: int

    @property
    def notable(self) -> bool:
        """True if it is large enough to look at, and its interval excludes zero."""
        return self.rho is not None and abs(self.rho) >= _NOTABLE and not self.low <= 0 <= self.high


@dataclass(frozen=True, slots=True)
class RankShare:
    """How many of the chunks at one rank were judged useful, with the Wilson interval of their share."""

    rank: int
    useful: int
    count: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """Share of useful chunks."""
        return self.useful / self.count


TRAITS = ("answer length", "context length", "number of chunks")
"""What should not move a score by itself: sizes of a sample."""


def traits(sample: Sample) -> dict[str, float]:
    """The sizes of a sample by name."""
    context = sum(len(context.text) for context in sample.contexts)
    return dict(zip(TRAITS, (len(sample.answer or ""), context, len(sample.contexts)), strict=True))


def correlations(rows: Sequence[SampleResult], metrics: Sequence[str]) -> list[Correlation]:
    """Rank correlation of every metric's score with every trait; none for a metric with fewer than ten scores.

    Source:
        Interval: Bonett & Wright (2000), Psychometrika 65(1).
    """
    found = []
    for name in metrics:
        own = [(row.results[name].value, traits(row.sample)) for row in rows if row.sample and name in row.results]
        scored = [(score, sizes) for score, sizes in own if score is not None]
        if len(scored) >= _FEWEST:
            found += [_correlation(name, trait, [(score, sizes[trait]) for score, sizes in scored]) for trait in TRAITS]
    return found


def _correlation(metric: str, trait: str, pairs: Sequence[tuple[float, float]]) -> Correlation:
    rho = spearman(pairs)
    if rho is None:
        return Correlation(metric, trait, None, -1.0, 1.0, len(pairs))
    half = NormalDist().inv_cdf(0.975) * sqrt((1 + rho * rho / 2) / (len(pairs) - 3))
    z = atanh(max(-0.999999, min(0.999999, rho)))
    return Correlation(metric, trait, rho, tanh(z - half), tanh(z + half), len(pairs))


def usefulness_by_rank(rows: Iterable[SampleResult]) -> list[RankShare]:
    """Share of chunks judged useful at each of the first twenty ranks; empty without Context Utilization."""
    verdicts: dict[int, list[bool]] = {}
    found = (result.evidence for row in rows for result in row.results.values())
    for chunk in (chunk for own in found if isinstance(own, JudgedChunks) for chunk in own.chunks):
        if chunk.useful is not None and chunk.rank <= _MOST_RANKS:
            verdicts.setdefault(chunk.rank, []).append(chunk.useful)
    return [rank_share(rank, own) for rank, own in sorted(verdicts.items())]


def rank_share(rank: int, verdicts: Sequence[bool]) -> RankShare:
    """The share of useful chunks at a rank."""
    return RankShare(rank, sum(verdicts), len(verdicts), *wilson(sum(verdicts), len(verdicts)))


FAMILIES: dict[str, str] = _DATA["families"]
"""Families of models by how their names are written: a judge tends to favour what its own family wrote."""


def family(model: str) -> str:
    """The family that a model's name tells: a known one, else the first word of the name without its provider.

    Example:
        >>> family("openai/gpt-4o-mini"), family("azure/o3"), family("ollama/llama3.1"), family("local/mine-7b")
        ('OpenAI', 'OpenAI', 'Meta', 'mine')
    """
    name = model.casefold()
    word = re.match(r"[a-z]*", name.rpartition("/")[2])
    return next((known for known, pattern in FAMILIES.items() if re.search(pattern, name)), word[0] if word else "")


def shared_families(rows: Iterable[SampleResult]) -> dict[str, int]:
    """Families that judge and generator of a sample share, with the number of such samples, most frequent first."""
    counts: Counter[str] = Counter()
    for row in rows:
        own = family(row.sample.generator) if row.sample and row.sample.generator else ""
        names = {name for result in row.results.values() for name in (result.judge, *result.usage.models)}
        if own and own in map(family, names):
            counts[own] += 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
