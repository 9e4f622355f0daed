"""Are scores probabilities? Slope and intercept, the curve in equal-mass bins, the debiased calibration error."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

from ragmetrics_core.data.extras import extra
from ragmetrics_core.data.intervals import wilson

FEWEST_FOR_ERROR = 200
"""A calibration error over fewer labels would mostly show noise."""

_CLIP = 1e-3
_NEEDED = ("numpy", "scipy.optimize", "scipy.special")

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

    Scores are kept .001 from 0 and 1. None without both classes, or if scores do not vary or (nearly) separate them.

    Source:
        Cox (1958), Biometrika 45(3/4).
    """
    positive, negative = ([score for score, own in pairs if own is wanted] for wanted in (True, False))
    if not positive or not negative or max(negative) <= min(positive) or max(positive) <= min(negative):
        return None
    numpy, optimize, special = (extra(name, "stats", "the slope of a calibration") for name in _NEEDED)
    scores, labels = numpy.asarray(pairs, dtype=float).T
    odds = special.logit(scores.clip(_CLIP, 1 - _CLIP))
    if odds.min() == odds.max():
        return None
    design = numpy.column_stack([odds, numpy.ones(len(odds))])
    found = optimize.root(lambda weights: design.T @ (special.expit(design @ weights) - labels), numpy.zeros(2))
    return (float(found.x[0]), float(found.x[1])) if found.success else None


def curve(pairs: Pairs, *, bins: int = 10) -> list[Bin]:
    """The calibration curve in bins of equal mass, at most so many; equal scores stay in one bin."""
    found: list[list[tuple[float, bool]]] = []
    for place, pair in enumerate(sorted(pairs, key=lambda pair: pair[0])):
        tied = bool(found) and found[-1][-1][0] == pair[0]
        if not found or (not tied and place >= len(pairs) / bins * len(found)):
            found.append([])
        found[-1].append(pair)
    yes = [sum(label for _, label in own) for own in found]
    return [
        Bin(fmean(score for score, _ in own), count / len(own), *wilson(count, len(own)), len(own))
        for count, own in zip(yes, found, strict=True)
    ]


def calibration_error(pairs: Pairs) -> float | None:
    """Root mean squared difference of score and share over equal-mass bins, less what noise alone would give.

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
