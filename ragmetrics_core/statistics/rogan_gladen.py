"""The share of good answers as people would count it, from a judge's verdicts and its errors (Rogan–Gladen)."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt
from statistics import NormalDist, fmean

from ragmetrics_core.data.errors import InputError
from ragmetrics_core.statistics.calibrated import FEWEST, Calibrated, Scores, labels_alone
from ragmetrics_core.statistics.clusters import grouped
from ragmetrics_core.statistics.statistics import Interval

_Z = NormalDist().inv_cdf(0.975)


class NotCorrectable(InputError):
    """The labels say nothing that the verdicts could be corrected by."""


def corrected_mean(labels: Sequence[bool], scores: Scores, others: Scores, *, threshold: float = 0.5) -> Calibrated:
    """Correct the share of positive verdicts by the judge's sensitivity and specificity.

    Args:
        labels: Labels of the labelled samples, which were drawn at random with equal probabilities.
        scores: Their scores, in the same order.
        others: Scores of the samples without a label.
        threshold: Scores from it on are a positive verdict; fixed on other data.

    Returns:
        (q + sp − 1) / (se + sp − 1), cut to [0, 1], with q the share of positive verdicts among the other samples.
        The interval is Lang & Reiczigel's, widened by the design effect where samples come in clusters. Labels
        alone if no sample is without one.

    Raises:
        NotCorrectable: If a class has fewer than five labels, or sensitivity + specificity <= 1: such a judge
            tells the classes apart no better than chance.
        InputError: If there are no labels.

    Source:
        Rogan & Gladen (1978), American Journal of Epidemiology 107(1); Lang & Reiczigel (2014), Preventive
        Veterinary Medicine 113(1). The design effect is that of the linearised estimate (delta method).

    Example:
        >>> half = Scores([0.9] * 40 + [0.1] * 10 + [0.9] * 5 + [0.1] * 45, [-1] * 100)
        >>> others = Scores([0.9] * 50 + [0.1] * 50, [-1] * 100)
        >>> round(corrected_mean([True] * 50 + [False] * 50, half, others).mean, 3)  # (.5 + .9 − 1) / (.8 + .9 − 1)
        0.571
    """
    if not labels:
        raise InputError("a calibrated mean needs labels")
    if not others.values:
        return labels_alone([float(label) for label in labels], scores.keys, 0)
    own, rest = ([score >= threshold for score in side.values] for side in (scores, others))
    yes, no = ([v is y for v, y in zip(own, labels, strict=True) if y is wanted] for wanted in (True, False))
    if min(len(yes), len(no)) < FEWEST:
        raise NotCorrectable(f"it needs {FEWEST} labels of each class; there are {len(yes)} yes and {len(no)} no")
    right = fmean(yes), fmean(no)
    if sum(yes) * len(no) + sum(no) * len(yes) <= len(yes) * len(no):
        raise NotCorrectable(
            f"sensitivity {right[0]:.2f} + specificity {right[1]:.2f} <= 1, so the verdicts tell nothing"
        )
    share = (fmean(rest) + right[1] - 1) / (right[0] + right[1] - 1)
    mean = min(1.0, max(0.0, share))
    effect = _design_effect(_linearised(labels, own, rest, right), [*scores.keys, *others.keys])
    low, high = _bounds(sum(rest), len(rest), (sum(yes), len(yes)), (sum(no), len(no)), effect)
    name = "Rogan–Gladen, interval after Lang & Reiczigel" + (
        f", variance times the design effect {effect:.2f}" if effect > 1 else ""
    )
    return Calibrated(mean, Interval(min(mean, low), max(mean, high), name), None, len(labels), len(rest))


def _bounds(
    positive: int, count: int, yes: tuple[int, int], no: tuple[int, int], effect: float
) -> tuple[float, float]:  # fmt: skip
    """Lang & Reiczigel's interval, cut to [0, 1]; all of it if the judge is not surely better than chance.

    Args:
        positive: Positive verdicts among the samples without a label.
        count: Number of these.
        yes: Right verdicts on positive labels, and number of these.
        no: The same for negative labels.
        effect: Factor of the variance.
    """
    sensitivity, specificity = ((right + 1) / (of + 2) for right, of in (yes, no))
    share = (positive + _Z**2 / 2) / (count + _Z**2)
    errors = [p * (1 - p) / (of + 2) for p, (_, of) in ((sensitivity, yes), (specificity, no))]
    gain = sensitivity + specificity - 1
    if gain <= _Z * sqrt(effect * fsum(errors)):
        return 0.0, 1.0  # a ratio whose denominator may be zero has no bounded interval
    mean = min(1.0, max(0.0, (share + specificity - 1) / gain))
    shift = 2 * _Z**2 * (mean * errors[0] - (1 - mean) * errors[1])
    spread = share * (1 - share) / (count + _Z**2) + mean**2 * errors[0] + (1 - mean) ** 2 * errors[1]
    half = _Z * sqrt(effect * spread) / gain
    return min(1.0, max(0.0, mean + shift - half)), max(0.0, min(1.0, mean + shift + half))


def _linearised(
    labels: Sequence[bool], own: Sequence[bool], rest: Sequence[bool], right: tuple[float, float]
) -> list[float]:
    """What each sample adds to the error of the estimate, to first order: labelled ones first."""
    gain, share, positive = right[0] + right[1] - 1, fmean(rest), sum(labels)
    mean = (share + right[1] - 1) / gain
    labelled = [
        -mean * (verdict - right[0]) / positive
        if label
        else (1 - mean) * (1 - verdict - right[1]) / (len(labels) - positive)
        for label, verdict in zip(labels, own, strict=True)
    ]
    return [part / gain for part in (*labelled, *((verdict - share) / len(rest) for verdict in rest))]


def _design_effect(parts: Sequence[float], keys: Sequence[int]) -> float:
    """Variance with clusters over that without, at least 1."""
    sums, _ = grouped(parts, keys)
    alone = fsum(part**2 for part in parts)
    if len(sums) == len(parts) or alone <= 0 or len(sums) < 2:
        return 1.0
    return max(1.0, fsum(own**2 for own in sums) * len(sums) / (len(sums) - 1) / alone)
