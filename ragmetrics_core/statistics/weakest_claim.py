"""The weakest of several claims, corrected for how many there are.

The least of twelve noisy probabilities lies lower than the least of two, also where all
claims are true. A correction that is fitted on labelled answers takes that back.

    logit(score) = intercept + slope · logit(weakest) + per_claim · ln(number of claims)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

from ragmetrics_core.statistics.log_odds import log_odds, probability

_RIDGE = 1e-2
_STEPS = 100
_FEWEST_OF_A_CLASS = 5


@dataclass(frozen=True, slots=True)
class WeakestClaim:
    """The weakest claim of a labelled answer.

    Args:
        probability: The least probability among its claims.
        n_claims: How many claims it makes.
        supported: Whether people say that all of the answer is supported.
        source: Where it comes from.
    """

    probability: float
    n_claims: int
    supported: bool
    source: str = "all"


@dataclass(frozen=True, slots=True)
class ClaimCorrection:
    """A correction of the weakest claim's probability for the number of claims.

    Args:
        intercept: Log-odds of an answer of one claim whose probability is one half.
        slope: How far the log-odds follow those of the weakest claim; not negative.
        per_claim: What they gain with the logarithm of the number of claims.
        fitted_for: The judge whose claims it was fitted on, from ``fitted_for``; it
            corrects no other. "" if that is not known.
    """

    intercept: float
    slope: float
    per_claim: float
    fitted_for: str = ""

    def score(self, weakest: float, n_claims: int) -> float:
        """The corrected probability that all claims are supported, in [0, 1]."""
        return probability(
            self.intercept
            + self.slope * log_odds(weakest)
            + self.per_claim * log(max(1, n_claims))
        )


def fitted_for(judge: str, settings: Mapping[str, str]) -> str:
    """A judge by its name and settings, e.g. ``bag (kind nli, window 62)``.

    The correction itself is left out: it changes no claim's probability.
    """
    in_words = [
        f"{name} {settings[name]}" for name in sorted(settings) if name != "correction"
    ]
    return f"{judge} ({', '.join(in_words)})" if in_words else judge


def fit_correction(answers: Sequence[WeakestClaim]) -> ClaimCorrection | None:
    """Fit the correction by logistic regression with a small ridge.

    Sources weigh the same. Slope and weight of the number are not negative.

    Returns:
        The correction; None with fewer than five answers of either label.
    """
    n_supported = sum(answer.supported for answer in answers)
    if min(n_supported, len(answers) - n_supported) < _FEWEST_OF_A_CLASS:
        return None
    counts: dict[str, int] = {}
    for answer in answers:
        counts[answer.source] = counts.get(answer.source, 0) + 1
    masses = [1 / counts[answer.source] / len(counts) for answer in answers]
    columns = [
        [1.0] * len(answers),
        [log_odds(answer.probability) for answer in answers],
        [log(max(1, answer.n_claims)) for answer in answers],
    ]
    labels = [answer.supported for answer in answers]
    weights = [0.0, 1.0, 0.0]
    for _ in range(_STEPS):
        for place, column in enumerate(columns):
            weights[place] += _step(columns, labels, masses, column, weights, place)
            if place > 0:
                weights[place] = max(0.0, weights[place])
    intercept, slope, per_claim = (round(weight, 4) for weight in weights)
    return ClaimCorrection(intercept, slope, per_claim)


def _step(
    columns: Sequence[Sequence[float]],
    labels: Sequence[bool],
    masses: Sequence[float],
    column: Sequence[float],
    weights: Sequence[float],
    place: int,
) -> float:
    """Newton's step for one weight; the ridge draws the slope to 1, the others to 0."""
    target = 1.0 if place == 1 else 0.0
    gradient = _RIDGE * (weights[place] - target)
    curvature = _RIDGE
    for row, (label, mass, value) in enumerate(
        zip(labels, masses, column, strict=True)
    ):
        logit = sum(
            weight * values[row]
            for weight, values in zip(weights, columns, strict=True)
        )
        guess = probability(logit)
        gradient += mass * value * (guess - label)
        curvature += mass * value * value * guess * (1 - guess)
    return max(-2.0, min(2.0, -gradient / curvature))


def rejected(
    answers: Sequence[WeakestClaim], correction: ClaimCorrection | None
) -> tuple[float | None, float | None]:
    """The share of supported answers that is rejected, and of unsupported ones.

    Args:
        answers: Labelled answers.
        correction: What corrects their weakest claims; None for the plain ones.

    Returns:
        The shares below one half; None where there is no such answer.
    """
    shares: list[float | None] = []
    for label in (True, False):
        scores = [
            answer.probability
            if correction is None
            else correction.score(answer.probability, answer.n_claims)
            for answer in answers
            if answer.supported is label
        ]
        n_rejected = sum(score < 0.5 for score in scores)
        shares.append(n_rejected / len(scores) if scores else None)
    of_supported, of_unsupported = shares
    return of_supported, of_unsupported
