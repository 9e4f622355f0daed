"""Wilson's score interval for a share, used by evidence and by reports."""

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

    Example:
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
    return 0.0 if successes == 0 else max(0.0, low), 1.0 if successes == count else min(1.0, high)
