"""Mean, spread and confidence interval of scores, alone or in clusters.

Every function gives the same result for the same scores in any order. All but the
bootstrap need the standard library only.
"""

from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import merge
from itertools import islice
from math import atan2, cos, exp, fsum, lgamma, pi, sin, sqrt
from statistics import NormalDist

from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.extras import import_extra
from ragmetrics_core.data.intervals import wilson

FEWEST_CLUSTERS = 20
"""Under so many clusters an interval is a rough guide, and the report says so."""

FEWEST_FOR_BOOTSTRAP = 300
"""With fewer scores the bootstrap covers less than it states."""

_RESAMPLES = 9999
# Scores that are Python's objects at the same time; millions would take gigabytes.
_BLOCK = 200_000


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
    exact = fsum(values) / len(values)
    return float(min(max(exact, min(values)), max(values)))


def median(values: Sequence[float]) -> float | None:
    """Middle value, the mean of the two middle ones for an even number.

    None without values.
    """
    if len(values) == 0:
        return None
    sorted_blocks = []
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        sorted_blocks.append(array("d", sorted(block)))
    lower = (len(values) - 1) // 2
    upper = len(values) // 2  # the same place for an odd number
    middle = list(islice(merge(*sorted_blocks), lower, upper + 1))
    return (middle[0] + middle[-1]) / 2


def sd(values: Sequence[float]) -> float | None:
    """Standard deviation of the sample (divisor n − 1).

    None for fewer than two values.
    """
    centre = mean(values)
    if centre is None or len(values) < 2:
        return None
    squares = fsum((float(value) - centre) ** 2 for value in values)
    variance = squares / (len(values) - 1)
    return sqrt(variance)


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
    if share_clusters(keys):
        return padded_t_interval(values, keys, ends=(0.0, 1.0), added=2)
    if all(value in (0, 1) for value in values):
        low, high = wilson(fsum(values), len(values))
        return Interval(low, high, "Wilson")
    if bootstrap and _can_be_resampled(values):
        return _bca(tuple(sorted(values)))
    return padded_t_interval(values, (), ends=(0.0, 1.0), added=2)


def _can_be_resampled(values: Sequence[float]) -> bool:
    """Whether the bootstrap covers what it states, and its resamples can differ."""
    are_enough = len(values) >= FEWEST_FOR_BOOTSTRAP
    return are_enough and min(values) < max(values)


@lru_cache(maxsize=64)
def _bca(values: tuple[float, ...]) -> Interval:
    stats = import_extra("scipy.stats", "stats", "a bootstrap")
    numpy = import_extra("numpy", "stats", "a bootstrap")
    bounds = stats.bootstrap(
        (numpy.asarray(values),),
        numpy.mean,
        confidence_level=0.95,
        n_resamples=_RESAMPLES,
        method="BCa",
        batch=100,
        rng=numpy.random.default_rng(0),
    ).confidence_interval
    method = f"BCa bootstrap, {_RESAMPLES:,} resamples"
    return Interval(float(bounds.low), float(bounds.high), method)


def share_clusters(keys: Sequence[int]) -> bool:
    """True if any two values belong to one cluster."""
    _, sizes = sum_clusters(keys, keys)
    return max(sizes, default=0) > 1


def padded_t_interval(
    values: Sequence[float],
    keys: Sequence[int],
    *,
    ends: tuple[float, float],
    added: int,
    level: float = 0.95,
) -> Interval:
    """Return the t interval over clusters, with clusters added at both ends.

    With them it covers near an end and with few clusters: at least .92 everywhere.
    Resampling clusters covers .66 of the means with 10 clusters at mean .95, and .89
    with 50 (``benchmarks/simulated_statistics.py``).

    Args:
        values: At least one, between the ends, in any order.
        keys: As in ``mean_interval``.
        ends: The lowest and the highest value of the scale, to which the interval is
            cut.
        added: How many clusters are added at each end, each of average size.
        level: The confidence, from 0.5 up to 0.9999.

    Source:
        Linearised variance of a ratio mean: Cochran (1977), Sampling Techniques, 3rd
        ed., section 9A.2.
    """
    lowest, highest = ends
    sums, sizes = sum_clusters(values, keys)
    centre, error, _ = ratio_mean(sums, sizes)
    values_added = [lowest] * added + [highest] * added
    padded_centre, padded_error, freedom = ratio_mean(sums, sizes, values_added)
    half_width = t_quantile(0.5 + level / 2, freedom) * padded_error
    # Padding pulls the centre inwards; the interval still holds the mean itself.
    low = max(lowest, min(centre, padded_centre - half_width))
    high = min(highest, max(centre, padded_centre + half_width))

    padding = f"{added} added at {lowest:g} and {added} at {highest:g}"
    padding = padding.replace("-", "−")
    if max(sizes) == 1:
        return Interval(low, high, f"t with {padding}")
    return Interval(
        low,
        high,
        method=f"t over {len(sums)} clusters, {padding}",
        clusters=len(sums),
        design_effect=_design_effect(values, error),
    )


def _design_effect(values: Sequence[float], error: float) -> float | None:
    """How much the variance of the mean grows by clusters; None if values are equal."""
    spread = sd(values) or 0.0
    error_unclustered = spread / sqrt(len(values))
    if error_unclustered == 0:
        return None
    return (error / error_unclustered) ** 2


def sum_clusters(
    values: Sequence[float], keys: Sequence[int]
) -> tuple["array[float]", "array[float]"]:
    """Sum and size of each cluster.

    A value with a negative key is a cluster of its own. It takes some 30 bytes per
    value: the values are grouped in parts, by the remainder of their key.
    """
    if max(keys, default=-1) < 0:
        return array("d", values), _ones(len(values))
    sums = array("d")
    sizes = array("d")
    unclustered = array("d")
    for part_values, part_keys in _parts_by_key(values, keys):
        clusters: dict[int, array[float]] = defaultdict(_no_values)
        for value, key in zip(part_values, part_keys, strict=True):
            cluster = unclustered if key < 0 else clusters[key]
            cluster.append(value)
        for cluster in clusters.values():
            sums.append(fsum(cluster))
            sizes.append(len(cluster))
    sums.extend(unclustered)
    sizes.extend(_ones(len(unclustered)))
    return sums, sizes


def _no_values() -> "array[float]":
    return array("d")


def _ones(count: int) -> "array[float]":
    return array("d", [1.0]) * count


def _parts_by_key(
    values: Sequence[float], keys: Sequence[int]
) -> list[tuple["array[float]", "array[int]"]]:
    """Values with their keys in parts of bounded size; equal keys stand in one part."""
    n_parts = len(values) // _BLOCK + 1
    parts = [(array("d"), array("q")) for _ in range(n_parts)]
    for value, key in zip(values, keys, strict=True):
        part_values, part_keys = parts[key % n_parts]
        part_values.append(value)
        part_keys.append(key)
    return parts


def ratio_mean(
    sums: Sequence[float], sizes: Sequence[float], added: Sequence[float] = ()
) -> tuple[float, float, int]:
    """Return the mean of all values, its standard error over clusters, and degrees of freedom.

    The standard error is 0 for one cluster.

    Args:
        sums: The sum of each cluster; see ``sum_clusters``.
        sizes: The size of each.
        added: Values of further clusters, each of average size.
    """
    average_size = fsum(sizes) / len(sizes)
    all_sums = array("d", sums)
    all_sizes = array("d", sizes)
    for value in added:
        all_sums.append(value * average_size)
        all_sizes.append(average_size)
    n_values = fsum(all_sizes)
    centre = fsum(all_sums) / n_values
    n_clusters = len(all_sums)
    if n_clusters == 1:
        return centre, 0.0, 1
    squares = fsum(
        (cluster_sum - centre * size) ** 2
        for cluster_sum, size in zip(all_sums, all_sizes, strict=True)
    )
    freedom = n_clusters - 1
    variance_of_total = squares * n_clusters / freedom
    error = sqrt(variance_of_total) / n_values
    return centre, error, freedom


@lru_cache(maxsize=1024)
def t_quantile(share: float, freedom: int) -> float:
    """Return a quantile of Student's t distribution, to nine digits from share 0.6 on.

    It stands here because an interval must not depend on what is installed.

    Args:
        share: Probability below the quantile, 0.5 < share < 1.
        freedom: Degrees of freedom, at least one.

    Source:
        P(|T| < t) as a finite sum: Abramowitz & Stegun (1964), 26.7.3 and 26.7.4.
        Newton's method comes from below, since that probability is concave.

    Examples:
        >>> round(t_quantile(0.975, 8), 6)
        2.306004
    """
    # f(t) = f(0) · (1 + t²/ν)^(−(ν + 1)/2), with ν degrees of freedom
    log_gamma_ratio = lgamma((freedom + 1) / 2) - lgamma(freedom / 2)
    density_at_0 = exp(log_gamma_ratio) / sqrt(freedom * pi)
    exponent = -(freedom + 1) / 2
    share_within = 2 * share - 1
    previous = 0.0
    t = NormalDist().inv_cdf(share)
    while t - previous > 1e-12 * t:
        density = density_at_0 * (1 + t * t / freedom) ** exponent
        share_missing = share_within - _within(t, freedom)
        previous = t
        t += share_missing / (2 * density)
    return t


def _within(t: float, freedom: int) -> float:
    """P(|T| < t) of Student's t distribution, with θ of the source as ``theta``."""
    theta = atan2(t, sqrt(freedom))
    cos_theta = cos(theta)
    is_odd = freedom % 2 == 1
    if is_odd:
        term = cos_theta
        first_power = 3
    else:
        term = 1.0
        first_power = 2
    total = 0.0
    for power in range(first_power, freedom + 1, 2):
        total += term
        ratio = (power - 1) / power * cos_theta**2
        term *= ratio
    if is_odd:
        return (2 / pi) * (theta + sin(theta) * total)
    return sin(theta) * total
