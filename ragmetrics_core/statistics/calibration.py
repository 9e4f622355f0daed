"""Are scores probabilities? Slope and intercept, the curve in equal-mass bins, the debiased calibration error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

from ragmetrics_core.data.extras import extra
from ragmetrics_core.data.intervals import wilson

FEWEST_FOR_ERROR = 200
"""A calibration error over fewer labels would mostly show noise."""

_CLIP = 1e-3
_BINS = 10

Pairs = Sequence[tuple[float, bool]]


@dataclass(frozen=True, slots=True)
class Bin:
    """One bin of the calibration curve: mean score, share of positive labels with its Wilson interval, rows."""

    score: float
    share: float
    low: float
    high: float
    count: int


def slope_and_intercept(pairs: Pairs) -> tuple[float, float] | None:
    """Logistic regression of the label on the score's log-odds: 1 and 0 for calibrated scores; needs scipy.

    Args:
        pairs: Score and label; scores are kept .001 away from 0 and 1.

    Returns:
        Slope and intercept; None if a class is missing, the scores do not vary, or they separate the classes.

    Source:
        Cox (1958), Biometrika 45(3/4); Newton's method.
    """
    positive, negative = ([score for score, own in pairs if own is wanted] for wanted in (True, False))
    if not positive or not negative or max(negative) <= min(positive) or max(positive) <= min(negative):
        return None
    needed_for = "the slope of a calibration"
    numpy, special = extra("numpy", "stats", needed_for), extra("scipy.special", "stats", needed_for)
    scores, labels = numpy.asarray(pairs, dtype=float).T
    odds = special.logit(scores.clip(_CLIP, 1 - _CLIP))
    if odds.min() == odds.max():
        return None
    design, found = numpy.column_stack([odds, numpy.ones(len(odds))]), numpy.zeros(2)
    for _ in range(100):
        expected = special.expit((design @ found).clip(-30, 30))
        weighted = design * (expected * (1 - expected)).clip(1e-12)[:, None]
        step = numpy.linalg.solve(weighted.T @ design, design.T @ (labels - expected))
        found += step
        if abs(step).max() < 1e-10:
            break
    return float(found[0]), float(found[1])


def curve(pairs: Pairs, *, bins: int = _BINS) -> list[Bin]:
    """The calibration curve in bins of equal mass, at most so many; equal scores stay in one bin."""
    ordered = sorted(pairs, key=lambda pair: pair[0])
    found: list[list[tuple[float, bool]]] = []
    target = len(ordered) / bins
    for place, pair in enumerate(ordered):
        tied = bool(found) and found[-1][-1][0] == pair[0]
        if not found or (not tied and place >= target * len(found)):
            found.append([])
        found[-1].append(pair)
    return [_bin(own) for own in found]


def _bin(pairs: Pairs) -> Bin:
    positive = sum(label for _, label in pairs)
    low, high = wilson(positive, len(pairs))
    return Bin(fmean(score for score, _ in pairs), positive / len(pairs), low, high, len(pairs))


def calibration_error(pairs: Pairs) -> float | None:
    """Root mean squared difference of score and share over equal-mass bins, less what noise alone would give.

    Returns:
        In [0, 1], 0 is best; None under 200 labels.

    Source:
        Kumar, Liang & Ma (2019), Verified uncertainty calibration, definition 5.2.
    """
    if len(pairs) < FEWEST_FOR_ERROR:
        return None
    total = sum(
        own.count * ((own.score - own.share) ** 2 - own.share * (1 - own.share) / (own.count - 1))
        for own in curve(pairs)
        if own.count > 1
    )
    return sqrt(max(0.0, total / len(pairs)))
