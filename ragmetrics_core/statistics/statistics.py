"""Mean, spread and confidence interval of scores in [0, 1]; the standard library only.

Every function gives the same result for the same scores in any order.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, fsum, inf, lgamma, log, log1p, sqrt
from statistics import NormalDist
from statistics import median as _median

from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.data.intervals import wilson

_BCA_SAMPLES = 300
_BCA_DIFFERENT = 10
_RESAMPLES = 2000
_RESAMPLED_UP_TO = 1000
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval for a mean score.

    Args:
        low: Lower bound in [0, 1].
        high: Upper bound in [0, 1].
        method: How it was made, in words.
    """

    low: float
    high: float
    method: str


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean; None without values. It never leaves the range of the values by rounding."""
    if not values:
        return None
    return min(max(fsum(values) / len(values), min(values)), max(values))


def median(values: Sequence[float]) -> float | None:
    """Middle value, the mean of the two middle ones for an even number; None without values."""
    return float(_median(values)) if values else None


def sd(values: Sequence[float]) -> float | None:
    """Standard deviation of the sample (divisor n − 1); None for fewer than two values."""
    centre = mean(values)
    if centre is None or len(values) < 2:
        return None
    return sqrt(fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def mean_interval(values: Sequence[float], *, level: float = 0.95, seed: int = 0) -> Interval | None:
    """Confidence interval for the mean score of this judge on samples like these.

    Scores that are all 0 or 1: Wilson. Otherwise, from 300 scores of which at least 10 differ from the
    commonest, the BCa bootstrap (resampled 2000 times up to 1000 scores, in closed form above). Else the t
    interval after adding two scores of 0 and two of 1, cut to [0, 1]. Equal scores never give zero width.

    Args:
        values: Scores in [0, 1], in any order.
        level: Confidence level, above 0 and at most 0.9999.
        seed: Seed of the resampling.

    Returns:
        The interval with its method named; None without scores.

    Raises:
        InputError: If a score is not in [0, 1].
        SettingError: If the level is not in that range.

    Source:
        Wilson (1927), JASA 22(158); Efron (1987), JASA 82(397); adding two scores at each end after
        Agresti & Coull (1998), The American Statistician 52(2). The choice between them was simulated,
        see ``benchmarks/statistics.py``: with 50 to 200 scores whose mean is .9 or more BCa covers .52 to .95.

    Example:
        >>> mean_interval([1, 1, 0, 1]).method
        'Wilson'
        >>> interval = mean_interval([0.8, 0.8, 0.8, 0.8, 0.8])
        >>> round(interval.low, 2), round(interval.high, 2)
        (0.37, 0.96)
    """
    if not 0 < level <= 0.9999:
        raise SettingError(f"a confidence level lies between 0 and 0.9999, e.g. 0.95; got {level}")
    if not all(0 <= value <= 1 for value in values):
        raise InputError("scores lie in [0, 1]; at least one value does not")
    if not values:
        return None
    if all(value in (0, 1) for value in values):
        return Interval(*wilson(sum(values), len(values), level), "Wilson")
    # Nine digits: 0.1 + 0.2 and 0.3 are no different scores.
    commonest = Counter(round(value, 9) for value in values).most_common(1)[0][1]
    if len(values) >= _BCA_SAMPLES and len(values) - commonest >= _BCA_DIFFERENT:
        return _bca(tuple(sorted(values)), level, seed)
    return _t_interval(values, level)


def _t_interval(values: Sequence[float], level: float) -> Interval:
    padded = [*values, 0.0, 0.0, 1.0, 1.0]
    count = len(padded)
    centre = fsum(padded) / count
    spread = sqrt(fsum((value - centre) ** 2 for value in padded) / (count - 1))
    half = t_quantile(0.5 + level / 2, count - 1) * spread / sqrt(count)
    return Interval(max(0.0, centre - half), min(1.0, centre + half), "t with two scores added at 0 and two at 1")


@lru_cache(maxsize=64)
def _bca(values: tuple[float, ...], level: float, seed: int) -> Interval:
    """Bias-corrected and accelerated bootstrap of the mean, resampled or in closed form."""
    if len(values) <= _RESAMPLED_UP_TO:
        low, high = _bca_resampled(values, level, seed)
        name = f"BCa bootstrap, {_RESAMPLES} resamples"
    else:
        low, high = _bca_closed_form(values, level)
        name = "BCa bootstrap in closed form (Cornish–Fisher)"
    return Interval(max(low, values[0]), min(high, values[-1]), name)


def _bca_resampled(values: tuple[float, ...], level: float, seed: int) -> tuple[float, float]:
    count = len(values)
    centre = fsum(values) / count
    # Seeded by the values too: with one seed for all, the same draws would err to the same side in each run.
    draw = random.Random(f"{seed} {values}")  # noqa: S311 - resampling is no cryptography
    means = sorted(fsum(draw.choices(values, k=count)) / count for _ in range(_RESAMPLES))
    below = sum(value < centre for value in means) + sum(value == centre for value in means) / 2
    share = min(max(below / _RESAMPLES, 0.5 / _RESAMPLES), 1 - 0.5 / _RESAMPLES)
    points = _bca_points(_NORMAL.inv_cdf(share), _standardised(values, 3) / (6 * sqrt(count)), level)
    low, high = (_percentile(means, _NORMAL.cdf(point)) for point in points)
    return low, high


def _bca_closed_form(values: tuple[float, ...], level: float) -> tuple[float, float]:
    """Endpoints from the Cornish–Fisher expansion of the bootstrap distribution of the mean.

    Source:
        Efron (1987), section 7 (for the mean z0 = a = skewness / (6 √n)); Cornish & Fisher (1938).
    """
    count = len(values)
    centre = fsum(values) / count
    error = sqrt(fsum((value - centre) ** 2 for value in values)) / count
    skew = _standardised(values, 3) / sqrt(count)
    excess = (_standardised(values, 4) - 3) / count

    def endpoint(z: float) -> float:
        curve = (z * z - 1) * skew / 6 + (z**3 - 3 * z) * excess / 24 - (2 * z**3 - 5 * z) * skew * skew / 36
        return centre + error * (z + curve)

    low, high = _bca_points(skew / 6, skew / 6, level)
    return endpoint(low), endpoint(high)


def _bca_points(bias: float, acceleration: float, level: float) -> tuple[float, float]:
    """Where BCa reads the bootstrap distribution, as normal quantiles."""

    def point(z: float) -> float:
        shrink = 1 - acceleration * (bias + z)
        # Beyond the pole of an extreme skewness the end of the distribution is what is left.
        return max(-8.0, min(8.0, bias + (bias + z) / shrink)) if shrink > 0 else 8.0 if bias + z > 0 else -8.0

    z = _NORMAL.inv_cdf(0.5 + level / 2)
    return point(-z), point(z)


def _standardised(values: Sequence[float], power: int) -> float:
    """Standardised central moment (divisor n): 3 is the skewness, 4 the kurtosis."""
    centre = fsum(values) / len(values)
    variance = fsum((value - centre) ** 2 for value in values) / len(values)
    return float(fsum((value - centre) ** power for value in values) / len(values) / variance ** (power / 2))


def _percentile(ordered: Sequence[float], share: float) -> float:
    """Percentile with linear interpolation between the values, which stand in order."""
    position = share * (len(ordered) - 1)
    index = min(int(position), len(ordered) - 2)
    return ordered[index] + (position - index) * (ordered[index + 1] - ordered[index])


@lru_cache(maxsize=1024)
def t_quantile(share: float, freedom: int) -> float:
    """Quantile of Student's t distribution.

    Args:
        share: Probability below the quantile, 0.5 < share < 1.
        freedom: Degrees of freedom, >= 1.

    Returns:
        The quantile, to ten digits from share 0.6 on.

    Source:
        P(|T| > t) is the incomplete beta function I_x(ν/2, 1/2) at x = ν/(ν + t²): Abramowitz & Stegun
        (1964), 26.7.1.

    Example:
        >>> round(t_quantile(0.975, 8), 6)
        2.306004
    """
    tails = 2 * (1 - share)
    low, high = 0.0, 2.0
    while incomplete_beta(freedom / (freedom + high * high), freedom / 2, 0.5) > tails:
        low, high = high, high * 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        over = incomplete_beta(freedom / (freedom + middle * middle), freedom / 2, 0.5) > tails
        low, high = (middle, high) if over else (low, middle)
    return (low + high) / 2


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta function I_x(a, b) for 0 < x <= 1, by its continued fraction (DLMF 8.17.22)."""
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(1 - x, b, a)
    front = exp(a * log(x) + b * log1p(-x) + lgamma(a + b) - lgamma(a) - lgamma(b)) / a
    value, numerator, denominator, change, step = 1.0, 1.0, 0.0, inf, 0
    while abs(change - 1) > 1e-15 and step < 10_000:
        half = step // 2
        if step == 0:
            factor = 1.0
        elif step % 2:
            factor = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            factor = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        denominator = 1 / (1 + factor * denominator)
        numerator = 1 + factor / numerator
        change = numerator * denominator
        value *= change
        step += 1
    return front * (value - 1)
