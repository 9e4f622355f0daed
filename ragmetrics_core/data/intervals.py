"""Wilson's score interval for a share, and an unbiased estimate of one.

The estimate is for counting that stopped early.
"""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist


def wilson(successes: float, count: int, level: float = 0.95) -> tuple[float, float]:
    """Return a confidence interval for a share of successes, Wilson's.

    Args:
        successes: Number of successes, 0 … count.
        count: Number of trials, > 0.
        level: Confidence level in (0, 1).

    Returns:
        Lower and upper bound in [0, 1].

    Source:
        Wilson (1927), JASA 22(158), 209–212.

    Examples:
        >>> low, high = wilson(5, 5)
        >>> round(low, 3), high
        (0.566, 1.0)
    """
    if count <= 0:
        raise ValueError(f"a share needs at least one trial, got {count}")
    z = NormalDist().inv_cdf(0.5 + level / 2)
    z_squared = z * z
    share = successes / count
    variance = share * (1 - share) / count
    centre = share + z_squared / (2 * count)
    half_width = z * sqrt(variance + z_squared / (4 * count * count))
    divisor = 1 + z_squared / count
    low = max(0.0, (centre - half_width) / divisor)
    high = min(1.0, (centre + half_width) / divisor)
    # Rounding must not leave a sliver beside a share of 0 or 1.
    if successes == 0:
        low = 0.0
    if successes == count:
        high = 1.0
    return low, high


def stopped_estimate(verdicts: Sequence[bool], polls: int) -> float:
    """Return an unbiased estimate of p(yes) for polling that stopped early.

    Polling stops at a decided majority of an odd number of polls.

    Args:
        verdicts: The verdicts in order, up to the one that decided.
        polls: Number of polls that were planned, n >= 3.

    Returns:
        In [0, 1]: (a-1)/(k-1) if the a-th yes came at poll k, y/(k-1) if the b-th no
        did; yes / answered if nothing was decided.

    Source:
        Girshick, Mosteller & Savage (1946), Annals of Mathematical Statistics 17(1).

    Examples:
        >>> stopped_estimate([True, False, True, True], 5)
        0.6666666666666666
    """
    n_yes = sum(verdicts)
    n_polls = len(verdicts)
    n_no = n_polls - n_yes
    yes_decides_from = polls // 2 + 1
    no_decides_from = (polls + 1) // 2
    if n_yes >= yes_decides_from:
        return (n_yes - 1) / (n_polls - 1)
    if n_no >= no_decides_from:
        return n_yes / (n_polls - 1)
    return n_yes / n_polls
