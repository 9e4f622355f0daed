"""Two measurements of the same samples: their difference, tests and power.

The difference has an interval. The tests are the permutation test and McNemar's, with
Holm's adjustment.
"""

import random
from collections.abc import Iterator, Sequence
from math import comb, fsum
from operator import getitem
from statistics import NormalDist
from typing import NamedTuple

from ragmetrics_core.statistics.means import Interval, padded_t_interval, sum_clusters

EXACT = 16
"""Up to so many clusters that changed, all of their 2¹⁶ sign patterns are tried."""

_DRAWS = 9999
_BLOCK = 8  # changes whose signs are drawn by one random byte
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
    differences: Sequence[float], cluster_numbers: Sequence[int], *, seed: int = 0
) -> Permuted:
    """Test whether the mean difference of pairs is zero, by permutations of signs.

    The p-value is the share of sign patterns under which the sum is at least as far from
    zero as observed. The differences of a cluster flip together.

    Args:
        differences: Second score minus first, one per pair.
        cluster_numbers: The number of each pair's cluster; -1 for a pair that is a
            cluster of its own.
        seed: Of the random patterns.

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
    random_source = random.Random(f"{seed} {changes}")  # noqa: S311  # no cryptography
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
    for start in range(0, len(changes), _BLOCK):
        sums = _signed_sums(changes[start : start + _BLOCK])
        # the last block may have fewer sums than a byte has values
        n_repetitions = 2**_BLOCK // len(sums)
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
