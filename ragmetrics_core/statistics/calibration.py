"""Whether scores are probabilities: calibration slope and error."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import log, sqrt, tanh
from statistics import fmean
from typing import NamedTuple

FEWEST_FOR_ERROR = 200
"""A calibration error over fewer labels would mostly show noise."""

_N_BINS = 10
_CLIP = 1e-3
# Newton's method ends after a dozen steps, unless the labels are nearly separated.
_MAX_STEPS = 50
_TOLERANCE = 1e-9

Pairs = Sequence[tuple[float, bool]]


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
    positive = [score for score, label in pairs if label]
    negative = [score for score, label in pairs if not label]
    if not positive or not negative:
        return None
    # a threshold separates the classes
    if max(negative) <= min(positive) or max(positive) <= min(negative):
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
    plain_pairs = [(float(score), bool(label)) for score, label in pairs]
    for bin_pairs in _bins(sorted(plain_pairs, key=lambda pair: pair[0])):
        count = len(bin_pairs)
        if count > 1:  # the noise of one row cannot be estimated
            share = sum(label for _, label in bin_pairs) / count
            squared_error = (fmean(score for score, _ in bin_pairs) - share) ** 2
            noise = share * (1 - share) / (count - 1)
            sum_over_rows += count * (squared_error - noise)
    mean_square = max(0.0, sum_over_rows / len(pairs))
    return sqrt(mean_square)


def _bins(sorted_pairs: Pairs) -> list[list[tuple[float, bool]]]:
    """Divide pairs, sorted by their scores, into ten bins of about the same size.

    Equal scores stay together. Example, with two bins: scores .1, .2, .2, .3 become
    [.1, .2, .2] and [.3].
    """
    pairs_per_bin = len(sorted_pairs) / _N_BINS
    bins: list[list[tuple[float, bool]]] = []
    previous_score: float | None = None
    for index, (score, label) in enumerate(sorted_pairs):
        is_tied = score == previous_score
        are_bins_full = index >= pairs_per_bin * len(bins)
        if are_bins_full and not is_tied:
            bins.append([])
        bins[-1].append((score, label))
        previous_score = score
    return bins
