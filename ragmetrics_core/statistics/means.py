"""Mean, spread and confidence interval of scores, alone or in clusters.

Of two measurements of the same samples there are the difference with its interval, the
permutation test and McNemar's, with Holm's adjustment.

Every function gives the same result for the same scores in any order. All but the
bootstrap need the standard library only.
"""

import random
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import merge
from itertools import islice
from math import atan2, comb, cos, exp, fsum, lgamma, pi, sin, sqrt
from operator import getitem
from statistics import NormalDist
from typing import NamedTuple

from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.scalars import wilson

FEWEST_CLUSTERS = 20
"""Under so many clusters an interval is a rough guide, and the report says so."""

# Scores that are Python's objects at the same time; millions would take gigabytes.
_BLOCK = 200_000
# Repeats are counted in so many parts of the numbers, one after the other.
_PARTS = 16


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
    """Return the middle value: 2 of [1, 2, 4]. None without values.

    Of an even number of values it is the mean of the two middle ones: 3 of [2, 4].
    """
    if len(values) == 0:
        return None
    # Sorted in blocks and merged: millions of sorted numbers at once take gigabytes.
    sorted_blocks = [
        array("d", sorted(values[start : start + _BLOCK]))
        for start in range(0, len(values), _BLOCK)
    ]
    lower_index = (len(values) - 1) // 2
    upper_index = len(values) // 2  # for an odd number of values the same index
    merged_values = merge(*sorted_blocks)
    middle = list(islice(merged_values, lower_index, upper_index + 1))
    return (middle[0] + middle[-1]) / 2


def quartiles(ordered_values: Sequence[float]) -> tuple[float, float, float] | None:
    """Return the values below which a quarter, half and three quarters lie.

    Between two values they are interpolated: 1.75, 2.5 and 3.25 of [1, 2, 3, 4].

    Args:
        ordered_values: The values, the lowest first.

    Returns:
        The three values; None without values.

    Source:
        Hyndman & Fan 1996, definition 7.
    """
    if not ordered_values:
        return None

    def value_at(share: float) -> float:
        place = share * (len(ordered_values) - 1)
        below = ordered_values[int(place)]
        above = ordered_values[min(int(place) + 1, len(ordered_values) - 1)]
        return below + (above - below) * (place - int(place))

    return value_at(0.25), value_at(0.5), value_at(0.75)


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
    values: Sequence[float], cluster_numbers: Sequence[int] = ()
) -> Interval | None:
    """Compute the 95 % interval of the mean score of this judge on samples like these.

    It is Wilson's for scores of 0 and 1 that stand alone, else the t interval with two
    scores added at 0 and two at 1.

    Args:
        values: Scores in [0, 1], in any order.
        cluster_numbers: Number of each score's cluster (scores that are not
            independent), negative for a score that stands alone; empty if all do.

    Returns:
        The interval with its method named; None without scores.

    Raises:
        InputError: If a score is not in [0, 1].

    Source:
        Wilson (1927), JASA 22(158); adding scores at each end after Agresti & Coull
        (1998), The American Statistician 52(2). Simulated in
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
    if share_clusters(cluster_numbers):
        return padded_t_interval(values, cluster_numbers, ends=(0.0, 1.0), added=2)
    if all(value in (0, 1) for value in values):
        low, high = wilson(fsum(values), len(values))
        return Interval(low, high, "Wilson")
    return padded_t_interval(values, (), ends=(0.0, 1.0), added=2)


def share_clusters(cluster_numbers: Sequence[int]) -> bool:
    """True if any two values belong to one cluster."""
    _, sizes = sum_clusters(cluster_numbers, cluster_numbers)
    return max(sizes, default=0) > 1


def padded_t_interval(
    values: Sequence[float],
    cluster_numbers: Sequence[int],
    *,
    ends: tuple[float, float],
    added: int,
    level: float = 0.95,
) -> Interval:
    """Compute the t interval of a mean over clusters, widened by made-up clusters.

    The added clusters have the lowest and the highest value of the scale. Without them
    the interval holds the true mean too seldom near an end of the scale.
    Example: twenty scores of 1.0 have 1.0 to 1.0; with 2 added at each end .80 to 1.0.

    Args:
        values: At least one, between the ends, in any order.
        cluster_numbers: The number of each value's cluster, negative for a value that
            is a cluster of its own; empty if all are.
        ends: The lowest and the highest value of the scale.
        added: How many clusters of average size are added at each end.
        level: The confidence, from 0.5 up to 0.9999.

    Source:
        Linearised variance of a ratio mean: Cochran (1977), Sampling Techniques, 3rd
        ed., section 9A.2. Coverage: ``benchmarks/simulated_statistics.py``.
    """
    lowest, highest = ends
    sums, sizes = sum_clusters(values, cluster_numbers)
    mean_value, error, _ = ratio_mean(sums, sizes)
    values_added = [lowest] * added + [highest] * added
    padded_mean, padded_error, freedom = ratio_mean(sums, sizes, values_added)
    half_width = t_quantile(0.5 + level / 2, freedom) * padded_error
    # the interval holds the mean itself, too, although padding pulls its centre inwards
    low = max(lowest, min(mean_value, padded_mean - half_width))
    high = min(highest, max(mean_value, padded_mean + half_width))
    padding = f"{added} added at {lowest:g} and {added} at {highest:g}"
    padding = padding.replace("-", "−")  # the typographic minus
    if max(sizes) == 1:
        return Interval(low, high, f"t with {padding}")
    error_unclustered = (sd(values) or 0.0) / sqrt(len(values))
    design_effect = None
    if error_unclustered != 0:
        design_effect = (error / error_unclustered) ** 2
    return Interval(
        low,
        high,
        method=f"t over {len(sums)} clusters, {padding}",
        clusters=len(sums),
        design_effect=design_effect,
    )


def sum_clusters(
    values: Sequence[float], cluster_numbers: Sequence[int]
) -> tuple["array[float]", "array[float]"]:
    """Return the sum and the size of each cluster, as two arrays in the same order.

    Values of one cluster have the same number; a value with a negative number is a
    cluster of its own. Example: 1, 2 and 5 with the numbers 7, 7 and -1 have the sums 3
    and 5, and the sizes 2 and 1.
    """
    if max(cluster_numbers, default=-1) < 0:  # each value stands alone
        return array("d", values), array("d", [1.0]) * len(values)
    sums = array("d")
    sizes = array("d")
    unclustered = array("d")
    # in parts, so that no dictionary holds all clusters: that would take much memory
    n_parts = len(values) // _BLOCK + 1
    parts = [(array("d"), array("q")) for _ in range(n_parts)]
    for value, cluster_number in zip(values, cluster_numbers, strict=True):
        part_values, part_numbers = parts[cluster_number % n_parts]
        part_values.append(value)
        part_numbers.append(cluster_number)
    for part_values, part_numbers in parts:
        cluster_by_number: dict[int, array[float]] = defaultdict(lambda: array("d"))
        for value, cluster_number in zip(part_values, part_numbers, strict=True):
            if cluster_number < 0:
                unclustered.append(value)
            else:
                cluster_by_number[cluster_number].append(value)
        for cluster in cluster_by_number.values():
            sums.append(fsum(cluster))
            sizes.append(len(cluster))
    sums.extend(unclustered)
    sizes.extend(array("d", [1.0]) * len(unclustered))
    return sums, sizes


def ratio_mean(
    sums: Sequence[float], sizes: Sequence[float], made_up_values: Sequence[float] = ()
) -> tuple[float, float, int]:
    """Compute the mean of all values and its standard error over clusters.

    Example: clusters of 2 values and 1 value with the sums 3 and 5: the mean is 8/3.

    Args:
        sums: The sum of each cluster; see ``sum_clusters``.
        sizes: The size of each cluster, in the same order.
        made_up_values: For each of these a cluster of average size is added, in which
            every value is this one. So five clusters with nothing but 1.0 do not give
            an error of 0, which would call the mean certain: with 0.0 and 1.0 added, the
            mean is 6/7, and the error above 0.

    Returns:
        The mean, its standard error (0 for one cluster), and the degrees of freedom of
        the error.
    """
    average_size = fsum(sizes) / len(sizes)
    all_sums = array("d", sums)
    all_sizes = array("d", sizes)
    for value in made_up_values:
        all_sums.append(value * average_size)
        all_sizes.append(average_size)
    n_values = fsum(all_sizes)
    mean_value = fsum(all_sums) / n_values
    n_clusters = len(all_sums)
    if n_clusters == 1:
        return mean_value, 0.0, 1
    sum_of_squares = fsum(
        (cluster_sum - mean_value * size) ** 2
        for cluster_sum, size in zip(all_sums, all_sizes, strict=True)
    )
    freedom = n_clusters - 1
    variance_of_total = sum_of_squares * n_clusters / freedom
    standard_error = sqrt(variance_of_total) / n_values
    return mean_value, standard_error, freedom


@lru_cache(maxsize=1024)
def t_quantile(share: float, freedom: int) -> float:
    """Compute a quantile of Student's t: the t below which a share of it lies.

    It has nine right digits from share 0.6 on.

    Args:
        share: Probability below the quantile, 0.5 < share < 1.
        freedom: Degrees of freedom, at least one.

    Source:
        P(|T| < t) as a finite sum: Abramowitz & Stegun (1964), 26.7.3 and 26.7.4.
        Newton's method starts below the quantile and never steps over it, since P(|T| <
        t) is concave.

    Examples:
        >>> round(t_quantile(0.975, 8), 6)
        2.306004
    """
    # The density f(t) = f(0) · (1 + t²/ν)^(−(ν + 1)/2), with ν degrees of freedom.
    log_gamma_ratio = lgamma((freedom + 1) / 2) - lgamma(freedom / 2)
    density_at_0 = exp(log_gamma_ratio) / sqrt(freedom * pi)
    exponent = -(freedom + 1) / 2
    share_within = 2 * share - 1  # of the distribution, between −t and t
    previous = 0.0
    t = NormalDist().inv_cdf(share)  # the normal quantile is below that of t
    while t - previous > 1e-12 * t:
        density = density_at_0 * (1 + t * t / freedom) ** exponent
        share_missing = share_within - _share_within(t, freedom)
        previous = t
        t += share_missing / (2 * density)  # the slope of P(|T| < t)
    return t


def _share_within(t: float, freedom: int) -> float:
    """The share of Student's t distribution between −t and t: P(|T| < t).

    Source:
        Abramowitz & Stegun (1964), 26.7.3 and 26.7.4.
    """
    theta = atan2(t, sqrt(freedom))
    is_even = freedom % 2 == 0
    # Every second power of cos θ, up to the power ν − 2. Each term is the one before it,
    # times cos² θ, times (power − 1) / power.
    first_power = 0 if is_even else 1
    sum_of_powers = 0.0
    term = cos(theta) ** first_power
    for power in range(first_power, freedom - 1, 2):
        sum_of_powers += term
        next_power = power + 2
        term *= (next_power - 1) / next_power * cos(theta) ** 2
    if is_even:
        return sin(theta) * sum_of_powers
    return (2 / pi) * (theta + sin(theta) * sum_of_powers)


def n_repeats(numbers: Sequence[int]) -> int:
    """Count the numbers of a sequence that repeat an earlier one.

    The numbers may be hashes of texts. The sequence is counted part by part, so that no set of all numbers
    takes memory.

    Examples:
        >>> n_repeats([7, 8, 7, 7])
        2
    """
    n_different = 0
    for part in range(_PARTS):
        different = {number for number in numbers if number % _PARTS == part}
        n_different += len(different)
    return len(numbers) - n_different


# Two measurements of the same samples

EXACT = 16
"""Up to so many clusters that changed, all of their 2¹⁶ sign patterns are tried."""

_DRAWS = 9999
_SIGNS = 8  # changes whose signs are drawn by one random byte
_ROUNDING = 1e-9
_Z_OF_TEST = NormalDist().inv_cdf(0.975)
_Z_OF_POWER = NormalDist().inv_cdf(0.8)
_POWER = _Z_OF_TEST + _Z_OF_POWER


class Permuted(NamedTuple):
    """A p-value of a sign-flip test; ``exact`` if every pattern was tried."""

    p: float
    exact: bool


def difference_interval(
    differences: Sequence[float],
    cluster_numbers: Sequence[int] = (),
    level: float = 0.95,
) -> Interval:
    """Return the interval for the mean of paired differences in [-1, 1].

    It is the t interval over clusters, after adding one difference of −1 and one of +1,
    each of the size of an average cluster. Without them intervals over mostly tied pairs
    cover .55 of the differences with 50 pairs [sim]. Equal scores never give zero width.

    Args:
        differences: Second score minus first, one per pair.
        cluster_numbers: As in ``mean_interval``.
        level: The confidence.

    Examples:
        >>> interval = difference_interval([0.0] * 50)
        >>> round(interval.low, 3), round(interval.high, 3)
        (-0.055, 0.055)
    """
    return padded_t_interval(
        differences, cluster_numbers, level=level, ends=(-1.0, 1.0), added=1
    )


def one_sided_bounds(
    differences: Sequence[float], cluster_numbers: Sequence[int]
) -> tuple[float, float]:
    """Lower and upper one-sided 95 % bounds of the mean difference."""
    interval = difference_interval(differences, cluster_numbers, 0.9)
    return interval.low, interval.high


def permutation(
    differences: Sequence[float], cluster_numbers: Sequence[int]
) -> Permuted:
    """Test whether the mean difference of pairs is zero, by permutations of signs.

    The p-value is the share of sign patterns under which the sum is at least as far from
    zero as observed. The differences of a cluster flip together.

    Args:
        differences: Second score minus first, one per pair.
        cluster_numbers: The number of each pair's cluster; -1 for a pair that is a
            cluster of its own.

    Returns:
        The exact p-value if at most 16 clusters changed; else (b + 1) / (m + 1), where
        b of m = 9999 random patterns reach the observed sum.

    Source:
        Fisher (1935), The Design of Experiments; (b + 1) / (m + 1): Phipson & Smyth
        (2010).

    Examples:
        >>> permutation([0.2, 0.4, 0.2, 0.4, 0.2], [-1] * 5)
        Permuted(p=0.0625, exact=True)
    """
    sum_by_cluster, _ = sum_clusters(differences, cluster_numbers)
    changes = [change for change in sum_by_cluster if abs(change) > _ROUNDING]
    if not changes:
        return Permuted(1.0, exact=True)
    # a little less than observed, as a pattern with the same sum must count in spite of
    # rounding
    tolerance = _ROUNDING * len(changes)
    observed = abs(fsum(changes)) - tolerance
    if len(changes) <= EXACT:
        sums = _signed_sums(changes)
        n_reached = sum(abs(total) >= observed for total in sums)
        return Permuted(n_reached / len(sums), exact=True)
    random_source = random.Random(f"0 {changes}")  # noqa: S311  # no cryptography
    random_sums = _randomly_signed_sums(changes, random_source)
    n_reached = sum(abs(total) >= observed for total in random_sums)
    return Permuted((n_reached + 1) / (_DRAWS + 1), exact=False)


def _signed_sums(changes: Sequence[float]) -> list[float]:
    """Return the sum of the changes under each pattern of signs, 2ⁿ for n changes.

    Example: .2 and .1 have the sums .3, .1, -.1 and -.3.
    """
    sums = [0.0]
    for change in changes:
        longer_sums = []
        for total in sums:
            longer_sums += [total + change, total - change]
        sums = longer_sums
    return sums


def _randomly_signed_sums(
    changes: Sequence[float], draw: random.Random
) -> Iterator[float]:
    """Yield the sum of the changes under 9999 random patterns of signs.

    Eight changes have 2⁸ patterns, so a random byte picks one of their sums.
    """
    tables = []
    for start in range(0, len(changes), _SIGNS):
        sums = _signed_sums(changes[start : start + _SIGNS])
        # the last block may have fewer sums than a byte has values
        n_repetitions = 2**_SIGNS // len(sums)
        tables.append(sums * n_repetitions)
    for _ in range(_DRAWS):
        picks = draw.randbytes(len(tables))  # one sum of each table
        yield sum(map(getitem, tables, picks))


def mcnemar(first_only: int, second_only: int) -> float:
    """Compute the p-value of McNemar's exact two-sided test.

    Args:
        first_only: Pairs in which only the first side shows the trait.
        second_only: Pairs in which only the second side does.

    Source:
        McNemar (1947), Psychometrika 12(2); the exact binomial form.
    """
    n_pairs = first_only + second_only
    n_rarer = min(first_only, second_only)
    # If the sides do not differ, each pair falls to either of them as by a coin.
    n_as_lopsided = sum(comb(n_pairs, n_heads) for n_heads in range(n_rarer + 1))
    p_one_sided = n_as_lopsided / int(2**n_pairs)
    return min(1.0, 2 * p_one_sided)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for the number of tests, and return them in the order given.

    Source:
        Holm (1979), Scandinavian Journal of Statistics 6(2).
    """
    smallest_first = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [1.0] * len(p_values)
    largest_yet = 0.0
    for n_done, index in enumerate(smallest_first):
        n_open = len(p_values) - n_done
        p_of_open = min(1.0, n_open * float(p_values[index]))
        largest_yet = max(largest_yet, p_of_open)
        adjusted[index] = largest_yet
    return adjusted


def standard_error(
    differences: Sequence[float], cluster_numbers: Sequence[int]
) -> float:
    """Return the standard error of the mean difference, with two made-up pairs.

    They have the differences −1 and +1. Without them pairs that are mostly equal would
    have hardly any error, and promise to detect anything.
    """
    low, high = one_sided_bounds(differences, cluster_numbers)
    z = NormalDist().inv_cdf(0.95)
    return (high - low) / (2 * z)


def detectable(error: float) -> float:
    """Return the smallest true difference that a test finds with 80 %.

    The test is two-sided, at 5 %. ``error`` is the standard error of the difference.
    """
    return _POWER * error
