"""Average precision over ranks, exact, for verdicts and probabilities; discounted gain.

Pure functions.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import fsum, log2


def average_precision(verdicts: Sequence[bool]) -> float:
    """Return the mean of the precision at the ranks of useful chunks.

    ``verdicts`` say whether the chunk at each rank is useful, rank 1 first.

    Returns:
        In [0, 1], higher is better; 0.0 if none is useful.

    Source:
        Buckley & Voorhees (2000), SIGIR; as in TREC, over the retrieved useful chunks.

    Examples:
        >>> average_precision([False, True]), average_precision([True, False])
        (0.5, 1.0)
    """
    useful_ranks = [
        rank for rank, is_useful in enumerate(verdicts, start=1) if is_useful
    ]
    precisions = [
        Fraction(n_useful, rank) for n_useful, rank in enumerate(useful_ranks, start=1)
    ]
    return float(sum(precisions, Fraction(0)) / (len(precisions) or 1))


def random_order(count: int, useful: int) -> float:
    """Return the average precision expected of the same verdicts in random order.

    ``count`` is the number of chunks, above 0; ``useful`` of them are useful.

    Returns:
        In [0, 1]; 0.0 if none is useful.

    Source:
        Bestgen (2015), "Exact expected average precision of the random baseline", PBML
        103.

    Examples:
        >>> round(random_order(5, 1), 4)
        0.4567
    """
    if useful == 0 or count == 1:
        return float(useful)
    harmonic_number = sum(Fraction(1, rank) for rank in range(1, count + 1))
    useful_share_of_rest = Fraction(useful - 1, count - 1)
    gain_of_early_ranks = (count - useful) * harmonic_number / (count * (count - 1))
    return float(useful_share_of_rest + gain_of_early_ranks)


def expected_average_precision(probabilities: Sequence[float]) -> float:
    """Return the expected average precision of chunks that are useful with some chance.

    Example: two chunks are useful with a chance of .5 each. The average precision is 1
    if both are useful, 1 if the first is, .5 if the second is, 0 if none is: mean .625.

    ``probabilities`` has for the chunk at each rank the probability that it is useful,
    independently of the others.

    Returns:
        In [0, 1]; equals ``average_precision`` where all probabilities are 0 or 1.

    Source:
        Exact, by Poisson-binomial convolution: the sum over n of E[S · 1{N = n}] / n,
        for N useful chunks with the sum S of the precisions at their ranks.

    Examples:
        >>> expected_average_precision([0.5, 0.5])
        0.625
    """
    # at index n: how probable it is that exactly n of the chunks so far are useful, and
    # the sum of their precisions, weighed by the probability of each way to these n
    chances = [1.0]
    weighted_precisions = [0.0]
    for rank, chance in enumerate(map(float, probabilities), start=1):
        chances.append(0.0)
        weighted_precisions.append(0.0)
        # n are useful now: n were, and this chunk is useless; or n - 1 were, and it is
        # useful. From the highest n down, so that n - 1 is still that of before.
        for n in range(rank, 0, -1):
            if_useful = weighted_precisions[n - 1] + n / rank * chances[n - 1]
            weighted_precisions[n] *= 1 - chance
            weighted_precisions[n] += chance * if_useful
            chances[n] = (1 - chance) * chances[n] + chance * chances[n - 1]
        chances[0] *= 1 - chance
    terms = [weighted_precisions[n] / n for n in range(1, len(weighted_precisions))]
    return min(1.0, fsum(terms))


def discounted_gain(gains: Sequence[float]) -> float:
    """Sum gains in order of rank, each discounted by the logarithm of its rank."""
    return fsum(gain / log2(rank + 1) for rank, gain in enumerate(gains, start=1))
