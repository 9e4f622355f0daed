"""The share of good answers as people would count it.

People label some samples, drawn at random with equal probabilities; the judge scores
all of them. The labels' mean is right but rough. The judge's scores say how the labelled
samples differ from the others, and so make it sharper (PPI++).
"""

import random
from collections.abc import Sequence
from itertools import compress
from math import sqrt
from statistics import covariance, fmean, pvariance
from typing import NamedTuple

from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.frozen import Frozen
from ragmetrics_core.data.scalars import wilson
from ragmetrics_core.statistics.means import (
    Interval,
    mean_interval,
    ratio_mean,
    share_clusters,
    sum_clusters,
    t_quantile,
)

FEWEST = 5
"""With fewer labels of the rarer class only the labels themselves are used."""

_FOLDS = 5
_ROUNDING = 1e-9
# A variance of scores under which they say nothing.
_CONSTANT = 1e-12


class CorrectedMean(Frozen):
    """A mean corrected by labels.

    Attributes:
        mean: Estimated share of samples that people would call good.
        interval: Its 95 % interval.
        weight: Of the judge's scores, 0 (worthless) to 1; None if they were not used.
        labelled: Number of labels.
        unlabelled: Number of samples with a score alone.
    """

    mean: float
    interval: Interval
    weight: float | None
    labelled: int
    unlabelled: int

    @property
    def sentence(self) -> str:
        """The estimate in words."""
        low = self.interval.low
        high = self.interval.high
        n_samples = self.labelled + self.unlabelled
        basis = f"{self.interval.method}; {self.labelled} labels"
        if self.weight is not None:
            basis += f", weight of the judge {self.weight:.2f}"
        return (
            f"People would say yes to {self.mean:.3f} [{low:.3f}, {high:.3f}] of the"
            f" {n_samples} scored samples ({basis})"
        )


class Scores(NamedTuple):
    """Scores with the numbers of their clusters (negative: a cluster of its own)."""

    values: Sequence[float]
    cluster_numbers: Sequence[int]


def _as_python_numbers(scores: Scores) -> Scores:
    """The scores as Python's numbers, whose precision is that of the formulas."""
    values = [float(value) for value in scores.values]
    return Scores(values, [int(number) for number in scores.cluster_numbers])


def ppi(labels: Sequence[bool], scores: Scores, unlabelled: Scores) -> CorrectedMean:
    """Estimate the share of yes among all samples, of which some have labels.

    The samples with labels may be better or worse than the others by chance. Their
    scores tell, and the share of yes is corrected by it (prediction-powered inference).
    Example: of the labels 70 % are yes. The labelled samples score .62 on average, the
    others .67, which is .05 higher. The estimate is .70 + .05 = .75 if the scores follow
    the labels fully (weight 1), and .70 if they say nothing about them (weight 0).

    Args:
        labels: Labels of samples that were drawn at random.
        scores: Scores of these samples, in the same order.
        unlabelled: Scores of the samples without a label.

    Returns:
        The estimate with a 95 % interval. It is the mean label alone if labels or
        clusters are too few to estimate the correction.

    Raises:
        InputError: If there are no labels.

    Source:
        Angelopoulos, Duchi & Zrnic (2023), PPI++, arXiv:2311.01453. Degrees of freedom
        after Welch (1947), Biometrika 34(1–2). Two made-up labels, a yes and a no,
        widen the interval. Coverage: ``benchmarks/simulated_statistics.py``.
    """
    if len(labels) == 0:
        raise InputError("a calibrated mean needs labels")
    scores = _as_python_numbers(scores)
    unlabelled = _as_python_numbers(unlabelled)
    n_unlabelled = len(unlabelled.values)
    n_yes = sum(bool(label) for label in labels)
    are_labels_few = min(n_yes, len(labels) - n_yes) < FEWEST
    # a variance is estimated from two clusters at least
    sums, _ = sum_clusters(unlabelled.values, unlabelled.cluster_numbers)
    if are_labels_few or len(sums) < 2:
        return _labels_alone(labels, scores.cluster_numbers, n_unlabelled=n_unlabelled)
    label_values = [float(label) for label in labels]
    # From 0 to 1: how much the scores say about the labels. It is estimated for each
    # label from other labels, so that no label influences its own correction.
    weight_for_each_label = _weights(label_values, scores, unlabelled)
    # label − weight · (score − mean score of the unlabelled samples): the label of a
    # sample that scores higher than the unlabelled ones is lowered
    unlabelled_mean = fmean(unlabelled.values)
    corrected_labels = [
        label - weight * (score - unlabelled_mean)
        for label, weight, score in zip(
            label_values, weight_for_each_label, scores.values, strict=True
        )
    ]
    mean = min(1.0, max(0.0, fmean(corrected_labels)))
    mean_weight = fmean(weight_for_each_label)
    corrected = Scores(corrected_labels, scores.cluster_numbers)
    return CorrectedMean(
        mean=mean,
        interval=_interval(mean, corrected, unlabelled, mean_weight),
        weight=mean_weight,
        labelled=len(labels),
        unlabelled=n_unlabelled,
    )


def _interval(
    mean: float, corrected: Scores, unlabelled: Scores, mean_weight: float
) -> Interval:
    """Compute the 95 % interval of the mean of corrected labels, cut to [0, 1].

    It is uncertain for two reasons: the labels are a sample, and so is the mean score
    without labels that corrects them. Both errors are put together.

    Args:
        mean: The estimate, which the interval includes.
        corrected: label − weight · (score − mean unlabelled score), with the clusters.
        unlabelled: The scores of the unlabelled samples, with the clusters.
        mean_weight: The mean weight of the scores in the correction.
    """
    # Two made-up labels, 0 and 1, give the interval a width even if all labels agree.
    labelled_mean, labelled_error, labelled_freedom = ratio_mean(
        *sum_clusters(*corrected), made_up_values=(0.0, 1.0)
    )
    _, unlabelled_error, unlabelled_freedom = ratio_mean(*sum_clusters(*unlabelled))
    # The correction has the unlabelled mean score times the weight, and so its error.
    labelled_variance = labelled_error**2
    unlabelled_variance = (mean_weight * unlabelled_error) ** 2
    variance = labelled_variance + unlabelled_variance
    # Welch's formula gives the degrees of freedom of the sum of both means; they are at
    # most those of the labels.
    labelled_term = labelled_variance**2 / labelled_freedom
    unlabelled_term = unlabelled_variance**2 / unlabelled_freedom
    welch_freedom = variance**2 / (labelled_term + unlabelled_term)
    freedom = min(labelled_freedom, int(welch_freedom + _ROUNDING))
    half_width = t_quantile(0.975, freedom) * sqrt(variance)
    # The made-up labels draw the middle to .5, so that the estimate may lie outside.
    low = min(mean, labelled_mean - half_width)
    high = max(mean, labelled_mean + half_width)
    method = "PPI++, weight cross-fitted in 5 folds, t with one label added at 0 and one at 1"
    return Interval(max(0.0, low), min(1.0, high), method)


def _labels_alone(
    labels: Sequence[bool], cluster_numbers: Sequence[int], *, n_unlabelled: int
) -> CorrectedMean:
    """Return the labels' own mean, without the judge's scores: .75 for 3 yes and 1 no.

    The interval is Wilson's. If several labels are of one cluster (samples that are not
    independent), the interval is one over clusters.

    Args:
        labels: The labels.
        cluster_numbers: The number of each label's cluster; negative if it has none.
        n_unlabelled: How many samples have no label; it is only noted.
    """
    n_positive = sum(bool(label) for label in labels)
    interval = None
    if share_clusters(cluster_numbers):
        interval = mean_interval(labels, cluster_numbers)
    if interval is None:
        low, high = wilson(n_positive, len(labels))
        interval = Interval(low, high, "Wilson on the labels alone")
    return CorrectedMean(
        mean=n_positive / len(labels),
        interval=interval,
        weight=None,
        labelled=len(labels),
        unlabelled=n_unlabelled,
    )


def _weights(
    labels: Sequence[float], scores: Scores, unlabelled: Scores
) -> list[float]:
    """Estimate for each label the weight of its score in the corrected mean, 0 to 1.

    The weight is λ of PPI++: cov(label, score) / ((1 + n / N) · var(score)), with n
    labelled and N unlabelled samples. It is estimated on labels of other clusters, so
    that no label influences its own weight. Example: scores that follow the labels
    closely have a weight near 1, scores that do not vary 0.
    """
    variance = pvariance([*scores.values, *unlabelled.values])
    if variance < _CONSTANT:
        return [0.0] * len(labels)
    labelled_per_unlabelled = len(labels) / len(unlabelled.values)
    divisor = (1 + labelled_per_unlabelled) * variance
    fold_of_samples = _folds(scores.cluster_numbers)
    weight_by_fold = []
    for left_out_fold in range(_FOLDS):
        used = [fold != left_out_fold for fold in fold_of_samples]
        weight = 0.0
        if sum(used) > 1:
            labels_used = list(compress(labels, used))
            scores_used = list(compress(scores.values, used))
            weight = covariance(labels_used, scores_used) / divisor
        weight_by_fold.append(min(1.0, max(0.0, weight)))
    return [weight_by_fold[fold] for fold in fold_of_samples]


def _folds(cluster_numbers: Sequence[int]) -> list[int]:
    """Deal samples at random into five folds, and return the fold of each.

    The samples of a cluster are in one fold. The draw is the same at every call.
    """
    unique_numbers = [  # of each sample that of its cluster, or one of its own
        -1 - index if number < 0 else number
        for index, number in enumerate(cluster_numbers)
    ]
    shuffled_numbers = sorted(set(unique_numbers))
    random.Random(0).shuffle(shuffled_numbers)  # noqa: S311  # a split is no cryptography
    fold_by_number = {
        number: index % _FOLDS for index, number in enumerate(shuffled_numbers)
    }
    return [fold_by_number[number] for number in unique_numbers]
