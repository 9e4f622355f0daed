"""Are scores probabilities?

Slope and intercept, the curve in equal-mass bins, the debiased calibration error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from statistics import fmean

from ragmetrics_core.data.extras import extra
from ragmetrics_core.data.intervals import wilson

FEWEST_FOR_ERROR = 200
"""A calibration error over fewer labels would mostly show noise."""

_CLIP = 1e-3
# of Newton's method, which a dozen end where the labels are not nearly separated
_STEPS, _NEAR = 50, 1e-9

Pairs = Sequence[tuple[float, bool]]


@dataclass(frozen=True, slots=True)
class Bin:
    """One bin of the calibration curve.

    It holds the mean score, the share of positive labels with its Wilson interval, and
    the number of rows.
    """

    score: float
    share: float
    low: float
    high: float
    count: int


@lru_cache(maxsize=1)  # both numbers are asked for, one after the other
def slope_and_intercept(
    pairs: tuple[tuple[float, bool], ...],
) -> tuple[float, float] | None:
    """Return slope and intercept of the label's logistic regression on the score.

    The regression takes the score's log-odds. Calibrated scores have slope 1 and
    intercept 0. It needs numpy.

    Scores are kept .001 from 0 and 1. None without both classes, or if scores do not
    vary or (nearly) separate them.

    Source:
        Cox (1958), Biometrika 45(3/4).
    """
    positive, negative = (
        [score for score, own in pairs if own is wanted] for wanted in (True, False)
    )
    if (
        not positive
        or not negative
        or max(negative) <= min(positive)
        or max(positive) <= min(negative)
    ):
        return None
    # scipy's own solver takes a second to import
    numpy = extra("numpy", "stats", "the slope of a calibration")
    scores, labels = numpy.asarray(pairs, dtype=float).T
    kept = scores.clip(_CLIP, 1 - _CLIP)
    odds = numpy.log(kept / (1 - kept))
    design, weights = numpy.column_stack([odds, numpy.ones(len(odds))]), numpy.zeros(2)
    for _ in range(_STEPS if odds.min() < odds.max() else 0):
        chance = (1 + numpy.tanh(design @ weights / 2)) / 2
        curved = (design.T * (chance * (1 - chance))) @ design
        if not numpy.linalg.cond(curved) < 1 / _NEAR:
            return None
        weights += (step := numpy.linalg.solve(curved, design.T @ (labels - chance)))
        if abs(step).max() < _NEAR:
            return float(weights[0]), float(weights[1])
    return None


def curve(pairs: Pairs, *, bins: int = 10) -> list[Bin]:
    """The calibration curve in bins of equal mass, at most so many.

    Equal scores stay in one bin.
    """
    found: list[list[tuple[float, bool]]] = []
    plain_pairs = [(float(score), bool(label)) for score, label in pairs]
    for place, pair in enumerate(sorted(plain_pairs, key=lambda pair: pair[0])):
        tied = bool(found) and found[-1][-1][0] == pair[0]
        if not found or (not tied and place >= len(pairs) / bins * len(found)):
            found.append([])
        found[-1].append(pair)
    yes = [sum(label for _, label in own) for own in found]
    return [
        Bin(
            fmean(score for score, _ in own),
            count / len(own),
            *wilson(count, len(own)),
            len(own),
        )
        for count, own in zip(yes, found, strict=True)
    ]


def calibration_error(pairs: Pairs) -> float | None:
    """Return the debiased calibration error over equal-mass bins.

    It is the root mean squared difference of score and share, less what noise alone
    would give.

    In [0, 1], 0 is best; None under 200 labels.

    Source:
        Kumar, Liang & Ma (2019), Verified uncertainty calibration, definition 5.2.
    """
    if len(pairs) < FEWEST_FOR_ERROR:
        return None
    total = sum(
        own.count
        * ((own.score - own.share) ** 2 - own.share * (1 - own.share) / (own.count - 1))
        for own in curve(pairs)
        if own.count > 1
    )
    return sqrt(max(0.0, total / len(pairs)))
