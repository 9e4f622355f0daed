"""Agreement of scores and verdicts with labels of people, and seeded bootstrap intervals for all of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
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


def matthews(pairs: Sequence[tuple[bool, bool]]) -> float | None:
    """Matthews' correlation of verdicts and labels; None if one side does not vary."""
    return correlation([(float(verdict), float(label)) for verdict, label in pairs])


def kappa(pairs: Sequence[tuple[bool, bool]]) -> float | None:
    """Cohen's kappa: agreement beyond chance; None if both sides are constant and equal.

    Source:
        Cohen (1960), Educational and Psychological Measurement 20(1).
    """
    if not pairs:
        return None
    one, other = (fmean(side) for side in zip(*pairs, strict=True))
    return _beyond(pairs, one * other + (1 - one) * (1 - other))


def gwet(pairs: Sequence[tuple[bool, bool]]) -> float | None:
    """Gwet's AC1: agreement beyond chance that a lopsided prevalence does not deflate; None without rows.

    Source:
        Gwet (2008), British Journal of Mathematical and Statistical Psychology 61(1).
    """
    if not pairs:
        return None
    share = fmean(float(value) for pair in pairs for value in pair)
    return _beyond(pairs, 2 * share * (1 - share))


def _beyond(pairs: Sequence[tuple[bool, bool]], chance: float) -> float | None:
    agreed = fmean(verdict == label for verdict, label in pairs)
    return (agreed - chance) / (1 - chance) if chance < 1 else None


def brier(pairs: Sequence[tuple[float, bool]]) -> float | None:
    """Mean squared difference of score and label, 0 is best; None without rows."""
    return fmean((score - label) ** 2 for score, label in pairs) if pairs else None


def krippendorff(rows: Sequence[Sequence[bool]]) -> float | None:
    """Krippendorff's alpha for nominal labels of several annotators; None if nothing varies.

    Args:
        rows: The labels of each unit; units with one label tell nothing.

    Source:
        Krippendorff (2011), Computing Krippendorff's alpha-reliability.
    """
    units = [row for row in rows if len(row) > 1]
    values = [value for row in units for value in row]
    count, ones = len(values), sum(values)
    if not 0 < ones < count:
        return None
    observed = sum(2 * sum(row) * (len(row) - sum(row)) / (len(row) - 1) for row in units) / count
    expected = 2 * ones * (count - ones) / (count * (count - 1))
    return 1 - observed / expected


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
