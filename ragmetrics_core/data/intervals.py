"""Wilson's score interval for a share, and an unbiased estimate of one.

The estimate is for counting that stopped early.
"""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist


def wilson(successes: float, count: int, level: float = 0.95) -> tuple[float, float]:
    """Confidence interval for a binomial share.

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
    z, share = NormalDist().inv_cdf(0.5 + level / 2), successes / count
    centre = share + z * z / (2 * count)
    half = z * sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    low, high = ((centre + side) / (1 + z * z / count) for side in (-half, half))
    return 0.0 if successes == 0 else max(0.0, low), (
        1.0 if successes == count else min(1.0, high)
    )


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
    yes, count = sum(verdicts), len(verdicts)
    if yes >= polls // 2 + 1:
        return (yes - 1) / (count - 1)
    if count - yes >= (polls + 1) // 2:
        return yes / (count - 1)
    return yes / count
