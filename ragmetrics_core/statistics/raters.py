"""Agreement of verdicts with labels beyond chance, of annotators with each other, and the Brier score."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from ragmetrics_core.statistics.agreement import correlation


def matthews(pairs: Sequence[tuple[bool, bool]]) -> float | None:
    """Matthews' correlation of verdicts and labels; None if one side does not vary."""
    return correlation([(float(verdict), float(label)) for verdict, label in pairs])


def gwet(pairs: Sequence[tuple[bool, bool]]) -> float | None:
    """Gwet's AC1: agreement beyond chance that a lopsided prevalence does not deflate; None without rows.

    Source:
        Gwet (2008), British Journal of Mathematical and Statistical Psychology 61(1).
    """
    if not pairs:
        return None
    share = fmean(float(value) for pair in pairs for value in pair)
    agreed, chance = fmean(verdict == label for verdict, label in pairs), 2 * share * (1 - share)
    return (agreed - chance) / (1 - chance)


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
