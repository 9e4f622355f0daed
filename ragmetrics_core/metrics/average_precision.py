"""Average precision over ranks, exact, for verdicts, probabilities and grades.

Pure functions.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from math import fsum, log2


def precisions(verdicts: Sequence[bool]) -> list[Fraction]:
    """Precision at each rank: the share of useful chunks among the first k.

    Examples:
        >>> [str(p) for p in precisions([True, False, True])]
        ['1', '1/2', '2/3']
    """
    return [
        Fraction(useful, rank)
        for rank, useful in enumerate(accumulate(map(int, verdicts)), start=1)
    ]


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
    hits = [
        precision
        for precision, verdict in zip(precisions(verdicts), verdicts, strict=True)
        if verdict
    ]
    return float(sum(hits, Fraction(0)) / len(hits)) if hits else 0.0


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
    harmonic = sum(Fraction(1, rank) for rank in range(1, count + 1))
    return float(
        Fraction(useful - 1, count - 1)
        + (count - useful) * harmonic / (count * (count - 1))
    )


def expected_average_precision(probabilities: Sequence[float]) -> float:
    """Return the expectation of average precision over independent verdicts.

    Each chunk is useful with its own p(useful), in [0, 1], independently of the others.

    Returns:
        In [0, 1]; equals ``average_precision`` where all probabilities are 0 or 1.

    Source:
        Exact, by Poisson-binomial convolution: sum over k of p_k / k · E[(1 + S_<k) /
        (1 + S_<k + S_>k)]. All terms with the same number of useful chunks share their
        convolutions, so that n chunks take n² steps.

    Examples:
        >>> expected_average_precision([0.5, 0.5])
        0.625
    """
    # by number of useful chunks so far: its probability; the sum over k of its terms
    hits, weighed = [1.0], [0.0]
    for rank, probability in enumerate(map(float, probabilities), start=1):
        weighed = _convolved(weighed, probability)
        for number, share in enumerate(hits, start=1):
            weighed[number] += probability / rank * number * share
        hits = _convolved(hits, probability)
    return min(
        1.0, fsum(share / number for number, share in enumerate(weighed) if number)
    )


def _convolved(distribution: Sequence[float], probability: float) -> list[float]:
    """Distribution of a count after one more independent trial."""
    pairs = zip((*distribution, 0.0), (0.0, *distribution), strict=True)
    return [same * (1 - probability) + fewer * probability for same, fewer in pairs]


def generalised_average_precision(gains: Sequence[float]) -> float:
    """Return average precision with gains instead of verdicts.

    ``gains`` are those of the chunks at each rank, in [0, 1]. The formula is the same.

    Returns:
        In [0, 1]; 0.0 if all gains are zero. Equals ``average_precision`` for gains 0
        and 1.

    Source:
        Kishida (2005), NII Technical Report NII-2005-014E, section 3.

    Examples:
        >>> round(generalised_average_precision([1, 0.5]), 4)
        0.9167
    """
    gains = [float(gain) for gain in gains]
    total = fsum(gains)
    terms = (
        sum_ / rank * gain
        for rank, (sum_, gain) in enumerate(
            zip(accumulate(gains), gains, strict=True), 1
        )
    )
    return min(1.0, fsum(terms) / total) if total else 0.0


def ndcg(gains: Sequence[float]) -> float:
    """Normalised discounted cumulative gain with linear gains and log2 discount.

    Returns:
        In [0, 1]; 0.0 if all gains are zero.

    Source:
        Järvelin & Kekäläinen (2002), ACM TOIS 20(4).

    Examples:
        >>> ndcg([1, 0]), round(ndcg([0, 1]), 4)
        (1.0, 0.6309)
    """
    gains = [float(gain) for gain in gains]
    found, ideal = (
        fsum(gain / log2(rank + 1) for rank, gain in enumerate(order, start=1))
        for order in (gains, sorted(gains, reverse=True))
    )
    return min(1.0, found / ideal) if ideal else 0.0
