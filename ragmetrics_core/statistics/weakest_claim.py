"""The weakest of several claims, corrected for how many there are.

The least of twelve noisy probabilities lies lower than the least of two, also where all
claims are true. A correction that is fitted on labelled answers takes that back.

    logit(score) = intercept + slope · logit(weakest) + per_claim · ln(number of claims)
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from operator import mul

from ragmetrics_core.data.one_half import is_yes
from ragmetrics_core.statistics.log_odds import log_odds, probability

_RIDGE = 1e-2
_COEFFICIENTS_THAT_CHANGE_NOTHING = (0.0, 1.0, 0.0)
"""Intercept, slope and ``per_claim`` of a correction that changes nothing."""
_ROUNDS = 100
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
        fitted_for: The judge whose claims it was fitted on, as ``describe_judge`` says. It
            corrects no other. "" if that is not known.
    """

    intercept: float
    slope: float
    per_claim: float
    fitted_for: str = ""

    def score(self, weakest: float, n_claims: int) -> float:
        """The corrected probability that all claims are supported, in [0, 1]."""
        from_weakest = self.slope * log_odds(weakest)
        from_number = self.per_claim * log(max(1, n_claims))
        log_odds_of_all = self.intercept + from_weakest + from_number
        return probability(log_odds_of_all)


def describe_judge(judge: str, settings: Mapping[str, str]) -> str:
    """A judge by its name and settings, e.g. ``bag (kind nli, window 62)``.

    The correction itself is left out: it changes no claim's probability.
    """
    in_words = []
    for name in sorted(settings):
        if name != "correction":
            in_words.append(f"{name} {settings[name]}")
    if not in_words:
        return judge
    return f"{judge} ({', '.join(in_words)})"


def fit_correction(answers: Sequence[WeakestClaim]) -> ClaimCorrection | None:
    """Fit a correction of the weakest claim's probability by the number of claims.

    Of ten claims, one is likelier to look weak by accident than of two, so that answers
    with many claims would be rejected too often. With the correction .4 may be enough
    for the weakest of ten claims. A logistic regression predicts whether all of an
    answer is supported, from the log-odds of its weakest claim and the logarithm of its
    number of claims; more confidence or more claims never lower it. Each source of
    answers counts the same. None with fewer than five answers of either label.
    """
    labels = [answer.supported for answer in answers]
    n_rarer = min(labels.count(True), labels.count(False))
    if n_rarer < _FEWEST_OF_A_CLASS:
        return None
    features = [
        [1.0] * len(answers),  # of the intercept
        [log_odds(answer.probability) for answer in answers],
        [log(max(1, answer.n_claims)) for answer in answers],
    ]
    answer_weights = _weights_of_answers(answers)
    coefficients = list(_COEFFICIENTS_THAT_CHANGE_NOTHING)
    # One coefficient after the other takes a step to its best value, many times over.
    for _ in range(_ROUNDS):
        for index in range(len(coefficients)):
            coefficients[index] += _newton_step(
                index, features, labels, answer_weights, coefficients
            )
            may_be_negative = index == 0  # the intercept
            if not may_be_negative:
                coefficients[index] = max(0.0, coefficients[index])
    intercept, slope, per_claim = (round(value, 4) for value in coefficients)
    return ClaimCorrection(intercept, slope, per_claim)


def _weights_of_answers(answers: Sequence[WeakestClaim]) -> list[float]:
    """How much each answer counts in the fit; all together they count 1.

    Each source counts the same. Example: of two sources with 10 and 40 answers, an
    answer counts 1/20 or 1/80.
    """
    n_by_source = Counter(answer.source for answer in answers)
    weights = []
    for answer in answers:
        share_in_source = 1 / n_by_source[answer.source]
        weights.append(share_in_source / len(n_by_source))
    return weights


def _newton_step(
    index: int,
    features: Sequence[Sequence[float]],
    labels: Sequence[bool],
    answer_weights: Sequence[float],
    coefficients: Sequence[float],
) -> float:
    """Say by how much to change one coefficient, to predict the labels better.

    The regression predicts the probability that an answer is supported. Example: most
    answers are supported, but are predicted at .3: the intercept must rise, so its
    change is positive. The change is a Newton step for the log loss, plus a penalty
    (ridge) that grows with the coefficient's distance from its start value.

    Args:
        index: Which coefficient is to change: 0 the intercept, 1 the slope, 2
            ``per_claim``.
        features: For each coefficient, what it is multiplied with in each answer.
        labels: For each answer, whether it is supported.
        answer_weights: How much each answer counts; all together 1.
        coefficients: All coefficients so far.
    """
    # first and second derivative of the penalty, then of the log loss
    start_value = _COEFFICIENTS_THAT_CHANGE_NOTHING[index]
    gradient = _RIDGE * (coefficients[index] - start_value)
    curvature = _RIDGE
    predictions = _predict_supported(features, coefficients)
    for feature, predicted, label, weight in zip(
        features[index], predictions, labels, answer_weights, strict=True
    ):
        gradient += weight * feature * (predicted - label)
        curvature += weight * feature * feature * predicted * (1 - predicted)
    step = -gradient / curvature
    return max(-2.0, min(2.0, step))  # a longer step might overshoot


def _predict_supported(
    features: Sequence[Sequence[float]], coefficients: Sequence[float]
) -> list[float]:
    """The probability that an answer is supported, as the regression has it, of each.

    Args:
        features: For each coefficient, what it is multiplied with in each answer.
        coefficients: The coefficients.
    """
    predictions = []
    for features_of_answer in zip(*features, strict=True):
        logit = sum(map(mul, coefficients, features_of_answer))
        predictions.append(probability(logit))
    return predictions


def shares_rejected(
    answers: Sequence[WeakestClaim], correction: ClaimCorrection | None
) -> tuple[float | None, float | None]:
    """The share of supported answers that is rejected, and of unsupported ones.

    Args:
        answers: Labelled answers.
        correction: What corrects their weakest claims; None for the plain ones.

    Returns:
        The shares below one half; None where there is no such answer.
    """
    supported = [answer for answer in answers if answer.supported]
    unsupported = [answer for answer in answers if not answer.supported]
    of_supported = _share_rejected(supported, correction)
    of_unsupported = _share_rejected(unsupported, correction)
    return of_supported, of_unsupported


def _share_rejected(
    answers: Sequence[WeakestClaim], correction: ClaimCorrection | None
) -> float | None:
    """The share of answers whose score lies below one half; None without answers."""
    if not answers:
        return None
    n_rejected = 0
    for answer in answers:
        score = answer.probability
        if correction is not None:
            score = correction.score(answer.probability, answer.n_claims)
        if not is_yes(score):
            n_rejected += 1
    return n_rejected / len(answers)
