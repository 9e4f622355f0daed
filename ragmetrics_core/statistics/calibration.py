"""Are scores probabilities? Slope and intercept, the curve in equal-mass bins, the debiased calibration error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean

from ragmetrics_core.data.intervals import wilson

FEWEST_FOR_ERROR = 200
"""A calibration error over fewer labels would mostly show noise."""

_CLIP = 1e-3
_BINS = 10


@dataclass(frozen=True, slots=True)
class Bin:
    """One bin of the calibration curve: mean score, share of positive labels with its Wilson interval, rows."""

    score: float
    share: float
    low: float
    high: float
    count: int


def slope_and_intercept(pairs: Sequence[tuple[float, bool]]) -> tuple[float, float] | None:
    """Logistic regression of the label on the score's log-odds: 1 and 0 for calibrated scores.

    Args:
        pairs: Score and label; scores are kept .001 away from 0 and 1.

    Returns:
        Slope and intercept; None if a class is missing, the scores do not vary, or they separate the classes.

    Source:
        Cox (1958), Biometrika 45(3/4); Newton's method.
    """
    labels = [float(label) for _, label in pairs]
    odds = [log(p / (1 - p)) for p in (min(1 - _CLIP, max(_CLIP, score)) for score, _ in pairs)]
    positive, negative = ([score for score, own in pairs if own is wanted] for wanted in (True, False))
    if not positive or not negative or len(set(odds)) < 2:
        return None
    if max(negative) <= min(positive) or max(positive) <= min(negative):
        return None
    slope = intercept = 0.0
    for _ in range(100):
        expected = [1 / (1 + exp(-max(-30.0, min(30.0, intercept + slope * x)))) for x in odds]
        weights = [max(1e-12, p * (1 - p)) for p in expected]
        rest = [label - p for label, p in zip(labels, expected, strict=True)]
        a, b = sum(weights), sum(w * x for w, x in zip(weights, odds, strict=True))
        c = sum(w * x * x for w, x in zip(weights, odds, strict=True))
        g, h = sum(rest), sum(r * x for r, x in zip(rest, odds, strict=True))
        step = (c * g - b * h) / (a * c - b * b), (a * h - b * g) / (a * c - b * b)
        intercept, slope = intercept + step[0], slope + step[1]
        if max(map(abs, step)) < 1e-10:
            break
    return slope, intercept


def curve(pairs: Sequence[tuple[float, bool]], *, bins: int = _BINS) -> list[Bin]:
    """The calibration curve in bins of equal mass; equal scores stay in one bin.

    Args:
        pairs: Score and label.
        bins: Most bins.
    """
    ordered = sorted(pairs, key=lambda pair: pair[0])
    found: list[list[tuple[float, bool]]] = []
    target = len(ordered) / bins
    for place, pair in enumerate(ordered):
        tied = bool(found) and found[-1][-1][0] == pair[0]
        if not found or (not tied and place >= target * len(found)):
            found.append([])
        found[-1].append(pair)
    return [_bin(own) for own in found]


def _bin(pairs: Sequence[tuple[float, bool]]) -> Bin:
    positive = sum(label for _, label in pairs)
    low, high = wilson(positive, len(pairs))
    return Bin(fmean(score for score, _ in pairs), positive / len(pairs), low, high, len(pairs))


def calibration_error(pairs: Sequence[tuple[float, bool]]) -> float | None:
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
