"""Mean, spread and confidence interval of scores, alone or in clusters.

The standard library but for the bootstrap.

Every function gives the same result for the same scores in any order.
"""

from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import merge
from itertools import chain, islice
from math import atan2, cos, exp, fsum, lgamma, pi, sin, sqrt
from statistics import NormalDist

from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.extras import extra
from ragmetrics_core.data.intervals import wilson

FEWEST_CLUSTERS = 20
"""Under so many clusters an interval is a rough guide, and the report says so."""

FEWEST_FOR_BOOTSTRAP = 300
"""With fewer scores the bootstrap covers less than it states."""

_RESAMPLES = 9999
# scores that are Python's objects at the same time; millions of them would be gigabytes
_AT_ONCE = 200_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval for a mean.

    It holds the lower and the upper bound, and says in words how it was made.

    ``clusters`` is their number, None where each value stands alone; ``design_effect``
    says how many times the variance of the mean grows by clustering, None if that is
    unknown.
    """

    low: float
    high: float
    method: str
    clusters: int | None = None
    design_effect: float | None = None


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean; None without values.

    It never leaves the range of the values by rounding.
    """
    if len(values) == 0:
        return None
    return float(min(max(fsum(values) / len(values), min(values)), max(values)))


def median(values: Sequence[float]) -> float | None:
    """Middle value, the mean of the two middle ones for an even number.

    None without values.
    """
    if len(values) == 0:
        return None
    parts = [
        array("d", sorted(values[at : at + _AT_ONCE]))
        for at in range(0, len(values), _AT_ONCE)
    ]
    middle = list(islice(merge(*parts), (len(values) - 1) // 2, len(values) // 2 + 1))
    return (middle[0] + middle[-1]) / 2


def sd(values: Sequence[float]) -> float | None:
    """Standard deviation of the sample (divisor n − 1).

    None for fewer than two values.
    """
    centre = mean(values)
    if centre is None or len(values) < 2:
        return None
    return sqrt(
        fsum((float(value) - centre) ** 2 for value in values) / (len(values) - 1)
    )


def mean_interval(
    values: Sequence[float], keys: Sequence[int] = (), *, bootstrap: bool = False
) -> Interval | None:
    """95 % confidence interval for the mean score of this judge on samples like these.

    Scores that are all 0 or 1: Wilson. Otherwise, and where scores share a cluster, the
    t interval after adding two scores (or clusters of average size) at 0 and two at 1,
    cut to [0, 1]. Equal scores never give zero width.

    Args:
        values: Scores in [0, 1], in any order.
        keys: Number of each score's cluster, negative for one of its own; empty if each
            stands alone.
        bootstrap: The BCa bootstrap instead of t, from 300 scores on that stand alone;
            needs the extra ``stats``.

    Returns:
        The interval with its method named; None without scores.

    Raises:
        InputError: If a score is not in [0, 1].
        MissingDependency: If the bootstrap is asked for and scipy is not installed.

    Source:
        Wilson (1927), JASA 22(158); Efron (1987), JASA 82(397); adding scores at each
        end after Agresti & Coull (1998), The American Statistician 52(2). Simulated in
        ``benchmarks/simulated_statistics.py``.

    Examples:
        >>> mean_interval([1, 1, 0, 1]).method
        'Wilson'
        >>> interval = mean_interval([0.8, 0.8, 0.8, 0.8, 0.8])
        >>> round(interval.low, 2), round(interval.high, 2)
        (0.37, 0.96)
    """
    if not all(0 <= value <= 1 for value in values):
        raise InputError("scores lie in [0, 1]; at least one value does not")
    if len(values) == 0:
        return None
    if not share_clusters(keys):
        if all(value in (0, 1) for value in values):
            return Interval(*wilson(fsum(values), len(values)), "Wilson")
        if (
            bootstrap
            and len(values) >= FEWEST_FOR_BOOTSTRAP
            and min(values) < max(values)
        ):
            return _bca(tuple(sorted(values)))
        keys = ()
    return padded_t(values, keys, ends=(0.0, 1.0), added=2)


@lru_cache(maxsize=64)
def _bca(values: tuple[float, ...]) -> Interval:
    stats, numpy = (
        extra("scipy.stats", "stats", "a bootstrap"),
        extra("numpy", "stats", "a bootstrap"),
    )
    found = stats.bootstrap(
        (numpy.asarray(values),),
        numpy.mean,
        confidence_level=0.95,
        n_resamples=_RESAMPLES,
        method="BCa",
        batch=100,
        rng=numpy.random.default_rng(0),
    ).confidence_interval
    return Interval(
        float(found.low), float(found.high), f"BCa bootstrap, {_RESAMPLES:,} resamples"
    )


def share_clusters(keys: Sequence[int]) -> bool:
    """True if any two values belong to one cluster."""
    return max(grouped(keys, keys)[1], default=0) > 1


def padded_t(
    values: Sequence[float],
    keys: Sequence[int],
    *,
    ends: tuple[float, float],
    added: int,
    level: float = 0.95,
) -> Interval:
    """Return the t interval over clusters, with clusters added at both ends.

    The added clusters are of average size. The interval is cut to the ends of the
    scale.

    With them it covers near an end and with few clusters: at least .92 everywhere,
    where resampling clusters covers .66 of the means with 10 clusters and .89 with 50
    at mean .95 (``benchmarks/simulated_statistics.py``).

    ``values``, one at least, lie between the ``ends``; ``added`` clusters are added at
    each; ``keys`` are as in ``mean_interval``; ``level`` is that of confidence, from
    0.5 up to 0.9999.

    Source:
        Linearised variance of a ratio mean: Cochran (1977), Sampling Techniques, 3rd
        ed., section 9A.2.
    """
    sums, sizes = grouped(values, keys)
    centre, error, _ = ratio_mean(sums, sizes)
    middle, wide, freedom = ratio_mean(
        sums, sizes, [end for end in ends for _ in range(added)]
    )
    half = t_quantile(0.5 + level / 2, freedom) * wide
    low, high = (
        max(ends[0], min(centre, middle - half)),
        min(ends[1], max(centre, middle + half)),
    )
    bounds = f"{added} added at {ends[0]:g} and {added} at {ends[1]:g}".replace(
        "-", "−"
    )
    if max(sizes) == 1:
        return Interval(low, high, f"t with {bounds}")
    spread = (sd(values) or 0.0) / sqrt(len(values))
    effect = (error / spread) ** 2 if spread > 0 else None
    return Interval(
        low, high, f"t over {len(sums)} clusters, {bounds}", len(sums), effect
    )


def grouped(
    values: Sequence[float], keys: Sequence[int]
) -> tuple["array[float]", "array[float]"]:
    """Sum and size of each cluster.

    A value with a negative key is a cluster of its own. Some 30 bytes per value.
    """
    if max(keys, default=-1) < 0:
        return array("d", values), array("d", [1.0]) * len(values)
    parts = [(array("d"), array("q")) for _ in range(len(values) // _AT_ONCE + 1)]
    for value, key in zip(values, keys, strict=True):
        own = parts[key % len(parts)]
        own[0].append(value)
        own[1].append(key)
    alone, sums, sizes = array("d"), array("d"), array("d")
    for part in parts:
        found: dict[int, array[float]] = defaultdict(lambda: array("d"))
        for value, key in zip(*part, strict=True):
            (found[key] if key >= 0 else alone).append(value)
        sums.extend(map(fsum, found.values()))
        sizes.extend(map(len, found.values()))
    return sums + alone, sizes + array("d", [1.0]) * len(alone)


def ratio_mean(
    sums: Sequence[float], sizes: Sequence[float], added: Sequence[float] = ()
) -> tuple[float, float, int]:
    """Return the mean, its standard error over clusters, and degrees of freedom.

    The mean is over all values. The standard error is 0 for one cluster.

    ``sums`` and ``sizes`` are those of ``grouped``; ``added`` are values of further
    clusters, each of average size.
    """
    typical, count = fsum(sizes) / len(sizes), len(sums) + len(added)
    further = [(value * typical, typical) for value in added]
    total = fsum(chain(sizes, (size for _, size in further)))
    centre = fsum(chain(sums, (own for own, _ in further))) / total
    clusters = chain(zip(sums, sizes, strict=True), further)
    squares = fsum((own - centre * size) ** 2 for own, size in clusters)
    error = sqrt(squares * count / (count - 1)) / total if count > 1 else 0.0
    return centre, error, max(1, count - 1)


@lru_cache(maxsize=1024)
def t_quantile(share: float, freedom: int) -> float:
    """Return a quantile of Student's t distribution.

    ``freedom`` is one degree of freedom or more. The quantile has nine digits from
    share 0.6 on.

    ``share`` is the probability below the quantile, 0.5 < share < 1.

    Source:
        P(|T| < t) as a finite sum: Abramowitz & Stegun (1964), 26.7.3 and 26.7.4;
        Newton's method, which comes from below, since that probability is concave.
        Here, because an interval must not depend on what is installed.

    Examples:
        >>> round(t_quantile(0.975, 8), 6)
        2.306004
    """
    density = exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / sqrt(freedom * pi)
    before, found = 0.0, NormalDist().inv_cdf(share)
    while found - before > 1e-12 * found:
        before, height = (
            found,
            density * (1 + found * found / freedom) ** (-(freedom + 1) / 2),
        )
        found += (2 * share - 1 - _within(found, freedom)) / (2 * height)
    return found


def _within(t: float, freedom: int) -> float:
    """P(|T| < t) of Student's t distribution."""
    angle, odd = atan2(t, sqrt(freedom)), freedom % 2
    term, total = cos(angle) if odd else 1.0, 0.0
    for power in range(2 + odd, freedom + 1, 2):
        total += term
        term *= (power - 1) / power * cos(angle) ** 2
    return (2 / pi) * (angle + sin(angle) * total) if odd else sin(angle) * total
