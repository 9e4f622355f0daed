"""Whether scores are probabilities: calibration slope, curve and error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log, sqrt, tanh
from statistics import fmean
from typing import NamedTuple

from ragmetrics_core.data.intervals import wilson
from ragmetrics_core.statistics.means import mean_interval, share_clusters

FEWEST_FOR_ERROR = 200
"""A calibration error over fewer labels would mostly show noise."""

_CLIP = 1e-3
# Newton's method ends after a dozen steps, unless the labels are nearly separated.
_MAX_STEPS = 50
_TOLERANCE = 1e-9

Pairs = Sequence[tuple[float, bool]]


@dataclass(frozen=True, slots=True)
class Bin:
    """One bin of the calibration curve.

    It holds the mean score, the share of positive labels with its interval, and the
    number of rows. The interval is Wilson's, or one over clusters.
    """

    score: float
    share: float
    low: float
    high: float
    count: int


class _Row(NamedTuple):
    """A score with its label and the number of its cluster."""

    score: float
    label: bool
    cluster_number: int


@lru_cache(maxsize=1)  # both numbers are asked for, one after the other
def slope_and_intercept(
    pairs: tuple[tuple[float, bool], ...],
) -> tuple[float, float] | None:
    """Slope and intercept that turn scores into probabilities of a positive label.

    ``logit(probability) = slope · logit(score) + intercept``. Scores that are
    probabilities already have slope 1 and intercept 0. Example: of 10 rows with the
    score .9 people call 6 positive, of 10 with .1 they call 4 so: slope .18, intercept
    0. The scores are too extreme.

    Args:
        pairs: Score and label of each row.

    Returns:
        Slope and intercept; None if all labels are equal, scores do not vary, or a
        score separates the labels (nearly), so that they determine no slope.

    Source:
        Cox (1958), Biometrika 45(3/4).
    """
    if _are_separated(pairs):
        return None
    counts: dict[float, _Counts] = {}
    for score, label in pairs:
        clipped = min(max(score, _CLIP), 1 - _CLIP)  # 0 and 1 have infinite log-odds
        log_odds = log(clipped / (1 - clipped))
        n_rows, n_positive = counts.get(log_odds, _Counts(0, 0))
        counts[log_odds] = _Counts(n_rows + 1, n_positive + bool(label))
    if len(counts) == 1:
        return None
    return _logistic_weights(counts)


class _Counts(NamedTuple):
    """How many rows have a score, and how many of these a positive label."""

    n_rows: int
    n_positive: int


def _logistic_weights(counts: Mapping[float, _Counts]) -> tuple[float, float] | None:
    """Fit a logistic regression of two weights by Newton's method.

    Example: slope 1 and intercept 0 say that the scores are right as they are.

    Args:
        counts: For the log-odds of each score, the labels of its rows.

    Returns:
        Slope and intercept; None if the labels do not determine them.
    """
    slope = 0.0
    intercept = 0.0
    for _ in range(_MAX_STEPS):
        gradient_of_slope = 0.0
        gradient_of_intercept = 0.0
        # minus the second derivatives (Hessian) of the log-likelihood
        by_slope = 0.0
        by_both = 0.0
        by_intercept = 0.0
        for x, (n_rows, n_positive) in counts.items():
            probability = (1 + tanh((slope * x + intercept) / 2)) / 2
            residual = n_positive - n_rows * probability
            gradient_of_slope += x * residual
            gradient_of_intercept += residual
            weight = n_rows * probability * (1 - probability)
            by_slope += weight * x * x
            by_both += weight * x
            by_intercept += weight
        determinant = by_slope * by_intercept - by_both**2
        # nearly the smallest eigenvalue over the largest
        if determinant <= _TOLERANCE * (by_slope + by_intercept) ** 2:
            return None
        step_of_slope = (
            by_intercept * gradient_of_slope - by_both * gradient_of_intercept
        ) / determinant
        step_of_intercept = (
            by_slope * gradient_of_intercept - by_both * gradient_of_slope
        ) / determinant
        slope += step_of_slope
        intercept += step_of_intercept
        if max(abs(step_of_slope), abs(step_of_intercept)) < _TOLERANCE:
            return slope, intercept
    return None


def _are_separated(pairs: Pairs) -> bool:
    """Whether a threshold separates the classes, or there is one class only."""
    positive = [score for score, label in pairs if label]
    negative = [score for score, label in pairs if not label]
    if not positive or not negative:
        return True
    are_positive_above = max(negative) <= min(positive)
    are_positive_below = max(positive) <= min(negative)
    return are_positive_above or are_positive_below


def curve(
    pairs: Pairs, *, bins: int = 10, clusters: Sequence[int] | None = None
) -> list[Bin]:
    """Compute the calibration curve: how many labels are positive as scores rise.

    Example: of the 20 rows with scores from .7 to .8, 15 have a positive label: a bin
    with .75.

    Args:
        pairs: Score and label of each row.
        bins: How many bins there are at most, of about the same number of rows.
        clusters: Number of each row's cluster (rows that are not independent), negative
            for a row that stands alone; None if all rows do.
    """
    cluster_numbers = [-1] * len(pairs) if clusters is None else clusters
    rows = [
        _Row(float(score), bool(label), cluster_number)
        for (score, label), cluster_number in zip(pairs, cluster_numbers, strict=True)
    ]
    rows.sort(key=lambda row: row.score)
    return [_bin(bin_rows) for bin_rows in _divide(rows, bins)]


def _divide(rows: Sequence[_Row], n_bins: int) -> list[list[_Row]]:
    """Divide sorted rows into bins of about the same size; equal scores stay together.

    Example: scores .1, .2, .2, .3 in two bins: [.1, .2, .2] and [.3].
    """
    rows_per_bin = len(rows) / n_bins
    rows_by_bin: list[list[_Row]] = []
    previous_score: float | None = None
    for row_index, row in enumerate(rows):
        is_tied = row.score == previous_score
        are_bins_full = row_index >= rows_per_bin * len(rows_by_bin)
        if are_bins_full and not is_tied:
            rows_by_bin.append([])
        rows_by_bin[-1].append(row)
        previous_score = row.score
    return rows_by_bin


def _bin(rows: Sequence[_Row]) -> Bin:
    labels = [row.label for row in rows]
    cluster_numbers = [row.cluster_number for row in rows]
    low, high = _bounds_of_share(labels, cluster_numbers)
    return Bin(
        score=fmean(row.score for row in rows),
        share=sum(labels) / len(rows),
        low=low,
        high=high,
        count=len(rows),
    )


def _bounds_of_share(
    labels: Sequence[bool], clusters: Sequence[int]
) -> tuple[float, float]:
    """Interval of the share of positive labels: over clusters, Wilson's without any."""
    values = [float(label) for label in labels]
    interval = mean_interval(values, clusters) if share_clusters(clusters) else None
    if interval is None:
        return wilson(sum(labels), len(labels))
    return interval.low, interval.high


def calibration_error(pairs: Pairs) -> float | None:
    """How far scores are from being probabilities: the debiased calibration error.

    It compares mean score and share of positive labels in bins of scores, and takes off
    what chance alone would give. Example: in each bin the mean score is .2 above the
    share, as .8 and .6: a little less than .2.

    Returns:
        A number in [0, 1], 0 is best; None for fewer than 200 labels.

    Source:
        Kumar, Liang & Ma (2019), Verified uncertainty calibration, definition 5.2.
    """
    if len(pairs) < FEWEST_FOR_ERROR:
        return None
    sum_over_rows = 0.0
    for each_bin in curve(pairs):
        if each_bin.count > 1:  # the noise of one row cannot be estimated
            squared_error = (each_bin.score - each_bin.share) ** 2
            variance = each_bin.share * (1 - each_bin.share)
            noise = variance / (each_bin.count - 1)
            sum_over_rows += each_bin.count * (squared_error - noise)
    mean_square = max(0.0, sum_over_rows / len(pairs))
    return sqrt(mean_square)
