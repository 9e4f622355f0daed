"""Two measurements of the same samples: their difference, tests and power.

The difference has an interval. The tests are the permutation test and McNemar's, with
Holm's adjustment.
"""

import random
from collections.abc import Sequence
from itertools import accumulate, product
from math import ceil, comb, fsum
from operator import getitem
from statistics import NormalDist
from typing import NamedTuple

from ragmetrics_core.statistics.means import Interval, grouped, padded_t

EXACT = 16
"""Up to so many clusters that changed, every one of their 2¹⁶ sign patterns is tried.
"""

_DRAWS = 9999
_BLOCK = 8
_ROUNDING = 1e-9
_POWER = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)


class Permuted(NamedTuple):
    """A p-value of a sign-flip test; ``exact`` if every pattern was tried."""

    p: float
    exact: bool


def difference_interval(
    differences: Sequence[float], keys: Sequence[int] = (), level: float = 0.95
) -> Interval:
    """Return the interval for the mean of paired differences in [-1, 1].

    ``keys`` are as in ``mean_interval``.

    The t interval over clusters after adding one difference of −1 and one of +1 (of the
    size of an average cluster): mostly tied pairs would otherwise give intervals that
    cover .55 of the differences with 50 pairs [sim]; equal scores never give zero
    width.

    Examples:
        >>> found = difference_interval([0.0] * 50)
        >>> round(found.low, 3), round(found.high, 3)
        (-0.055, 0.055)
    """
    return padded_t(differences, keys, level=level, ends=(-1.0, 1.0), added=1)


def one_sided(differences: Sequence[float], keys: Sequence[int]) -> tuple[float, float]:
    """Lower and upper one-sided 95 % bounds of the mean difference."""
    found = difference_interval(differences, keys, 0.9)
    return found.low, found.high


def permutation(
    differences: Sequence[float], keys: Sequence[int], *, seed: int = 0
) -> Permuted:
    """Two-sided sign-flip permutation test that the mean difference is zero.

    Clusters flip as a whole.

    ``keys`` are as in ``mean_interval``; ``seed`` is that of the random patterns.

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
    sums = [own for own in grouped(differences, keys)[0] if abs(own) > _ROUNDING]
    if not sums:
        return Permuted(1.0, exact=True)
    observed = abs(fsum(sums)) - _ROUNDING * len(sums)
    blocks = (sums[start : start + _BLOCK] for start in range(0, len(sums), _BLOCK))
    tables = [
        [sum(signed) for signed in product(*((own, -own) for own in block))]
        for block in blocks
    ]
    if len(sums) <= EXACT:
        totals = [sum(parts) for parts in product(*tables)]
        return Permuted(
            sum(abs(total) >= observed for total in totals) / len(totals), exact=True
        )
    draw = random.Random(f"{seed} {sums}")  # noqa: S311 - resampling is no cryptography
    tables = [own * (256 // len(own)) for own in tables]
    reached = sum(
        abs(sum(map(getitem, tables, draw.randbytes(len(tables))))) >= observed
        for _ in range(_DRAWS)
    )
    return Permuted((reached + 1) / (_DRAWS + 1), exact=False)


def mcnemar(first_only: int, second_only: int) -> float:
    """Exact two-sided McNemar test on the pairs in which only one side shows the trait.

    Source:
        McNemar (1947), Psychometrika 12(2); the exact binomial form.
    """
    count, low = first_only + second_only, min(first_only, second_only)
    return min(1.0, 2 * sum(comb(count, k) for k in range(low + 1)) / (1 << count))


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for having tested them all, in the order given.

    Source:
        Holm (1979), Scandinavian Journal of Statistics 6(2).
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    steps = (
        min(1.0, (len(p_values) - place) * float(p_values[index]))
        for place, index in enumerate(order)
    )
    adjusted = dict(zip(order, accumulate(steps, max), strict=True))
    return [adjusted[index] for index in range(len(p_values))]


def standard_error(differences: Sequence[float], keys: Sequence[int]) -> float:
    """Return the standard error with a pair added at each end.

    Without them mostly tied pairs would promise to detect anything.
    """
    low, high = one_sided(differences, keys)
    return (high - low) / (2 * NormalDist().inv_cdf(0.95))


def detectable(error: float) -> float:
    """Return the smallest true difference that a test finds with 80 %.

    The test is two-sided, at 5 %. ``error`` is the standard error of the difference.
    """
    return _POWER * error


def pairs_needed(error: float, pairs: int, difference: float) -> int:
    """Return how many pairs such a test needs for a difference.

    The difference, above 0, is one that the user names, never the observed one.

    ``error`` is the standard error of the mean difference over the pairs at hand,
    ``pairs`` their number.
    """
    return max(2, ceil(pairs * (detectable(error) / difference) ** 2 - _ROUNDING))
