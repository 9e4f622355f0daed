"""Agreement of scores with labels and of raters with each other, and seeded bootstrap intervals."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from statistics import fmean
from typing import TypeVar

Row = TypeVar("Row")
Interval = tuple[float, float]


def auroc(pairs: Sequence[tuple[float, bool]]) -> float | None:
    """Probability that a positive row has the higher score; ties count one half.

    Args:
        pairs: Score and label of each row.

    Returns:
        In [0, 1]; None if one of the classes is missing.
    """
    positives = sum(label for _, label in pairs)
    negatives = len(pairs) - positives
    if not positives or not negatives:
        return None
    ordered = sorted(pairs, key=lambda pair: pair[0])
    below, wins, start = 0, 0.0, 0
    while start < len(ordered):
        end = start
        while end < len(ordered) and ordered[end][0] == ordered[start][0]:
            end += 1
        tied = sum(label for _, label in ordered[start:end])
        wins += tied * (below + (end - start - tied) / 2)
        below += end - start - tied
        start = end
    return wins / (positives * negatives)


def balanced_accuracy(pairs: Sequence[tuple[bool, bool]]) -> float | None:
    """Mean of the accuracies on both classes.

    Args:
        pairs: Verdict and label of each row.

    Returns:
        In [0, 1]; None if one of the classes is missing.
    """
    right = {label: [verdict == label for verdict, own in pairs if own == label] for label in (True, False)}
    if not all(right.values()):
        return None
    return fmean(map(fmean, right.values()))


def mean_error(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Mean absolute difference of two numbers per row; None without rows."""
    return fmean(abs(left - right) for left, right in pairs) if pairs else None


def correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Pearson's r; None if one side does not vary."""
    if not pairs:
        return None
    left, right = (fmean(side) for side in zip(*pairs, strict=True))
    product = sum((one - left) * (other - right) for one, other in pairs)
    spread = sum((one - left) ** 2 for one, _ in pairs) * sum((other - right) ** 2 for _, other in pairs)
    return product / spread**0.5 if spread > 0 else None


def average_precision(verdicts: Sequence[bool]) -> float:
    """Average precision of a ranked list of verdicts; 0.0 if none is positive."""
    hits, total = 0, 0.0
    for rank, verdict in enumerate(verdicts, 1):
        hits += verdict
        total += hits / rank if verdict else 0.0
    return total / hits if hits else 0.0


def bootstrap(
    rows: Sequence[Row], statistic: Callable[[Sequence[Row]], float | None], *, draws: int, seed: int = 0
) -> Interval | None:
    """95 % percentile interval of a statistic by resampling rows.

    Args:
        rows: Rows of one source.
        statistic: What to compute; resamples where it is None are left out.
        draws: Number of resamples.
        seed: Of the resampling.
    """
    values = sorted(_resampled(rows, statistic, draws, seed))
    return _middle(values) if values else None


def macro_bootstrap(
    sources: Sequence[Sequence[Row]],
    statistic: Callable[[Sequence[Row]], float | None],
    *,
    draws: int,
    seed: int = 0,
) -> Interval | None:
    """95 % percentile interval of the mean of a statistic over sources, resampling rows within each source.

    Args:
        sources: Rows per source.
        statistic: As for ``bootstrap``.
        draws: Number of resamples.
        seed: Of the resampling.
    """
    columns = [_resampled(rows, statistic, draws, seed + index) for index, rows in enumerate(sources)]
    values = sorted(fmean(values) for values in zip(*(column for column in columns if column), strict=False))
    return _middle(values) if values else None


def _resampled(
    rows: Sequence[Row], statistic: Callable[[Sequence[Row]], float | None], draws: int, seed: int
) -> list[float]:
    generator = random.Random(seed)  # noqa: S311 - resampling is no cryptography
    values = (statistic(generator.choices(rows, k=len(rows))) for _ in range(draws if rows else 0))
    return [value for value in values if value is not None]


def _middle(values: Sequence[float]) -> Interval:
    return values[round(0.025 * (len(values) - 1))], values[round(0.975 * (len(values) - 1))]


def accuracy(pairs: Sequence[tuple[bool, bool]]) -> float | None:
    """Share of verdicts that equal the label; None without rows."""
    return fmean(verdict == label for verdict, label in pairs) if pairs else None


def f1(pairs: Sequence[tuple[bool, bool]]) -> float | None:
    """Harmonic mean of precision and recall of the positive verdicts.

    Args:
        pairs: Verdict and label of each row.

    Returns:
        In [0, 1]; None if neither a verdict nor a label is positive.

    Example:
        >>> f1([(True, True), (True, False), (False, True)])
        0.5
    """
    hits = sum(verdict and label for verdict, label in pairs)
    marked = sum(verdict for verdict, _ in pairs) + sum(label for _, label in pairs)
    return 2 * hits / marked if marked else None


def spearman(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Spearman's rank correlation, ties with their mean rank; None if one side does not vary.

    Example:
        >>> round(spearman([(1, 1), (2, 3), (3, 2)]), 12)
        0.5
    """
    if not pairs:
        return None
    left, right = (_ranks(side) for side in zip(*pairs, strict=True))
    return correlation(list(zip(left, right, strict=True)))


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda index: values[index])
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for index in order[start:end]:
            ranks[index] = (start + end - 1) / 2
        start = end
    return ranks


def calibration(pairs: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Slope and intercept of the least-squares line of labels on scores; (1, 0) is perfectly calibrated.

    Args:
        pairs: Score and label of each row.

    Returns:
        None if the scores do not vary.

    Example:
        >>> calibration([(0.0, 0.5), (1.0, 1.0)])
        (0.5, 0.5)
    """
    if not pairs:
        return None
    score, label = (fmean(side) for side in zip(*pairs, strict=True))
    spread = sum((own - score) ** 2 for own, _ in pairs)
    if spread <= 0:
        return None
    slope = sum((own - score) * (other - label) for own, other in pairs) / spread
    return slope, label - slope * score


def kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Cohen's kappa of two raters over any categories.

    Args:
        pairs: The category that each rater chose, per item.

    Returns:
        At most 1; None without items, or if both chose one category throughout.

    Source:
        Cohen (1960), Educational and Psychological Measurement 20(1).

    Example:
        >>> kappa([("yes", "yes"), ("yes", "no"), ("no", "no"), ("no", "no")])
        0.5
    """
    if not pairs:
        return None
    categories = {category for pair in pairs for category in pair}
    shares = [
        [sum(pair[side] == category for pair in pairs) / len(pairs) for category in categories] for side in (0, 1)
    ]
    chance = sum(one * other for one, other in zip(*shares, strict=True))
    return None if chance >= 1 else (sum(one == other for one, other in pairs) / len(pairs) - chance) / (1 - chance)
