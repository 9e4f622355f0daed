"""Certifies a threshold from which on scores are surely precise enough.

It takes labels drawn at random, and needs scipy.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, sqrt
from statistics import NormalDist
from typing import Any

from pydantic import Field

from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.data.extras import import_extra
from ragmetrics_core.data.frozen import Frozen

_ALPHA = 0.05
_Z_ALPHA = NormalDist().inv_cdf(1 - _ALPHA)
_Z_POWER = NormalDist().inv_cdf(0.8)
# Labels from a threshold on without which its share of yes says little.
_MIN_LABELS_TO_PLAN = 10
# Wrong labels that the first threshold tested may have.
_WRONG_AT_START = 2
# So many labels allow two wrong ones at the highest target.
_MAX_LABELS = 10_000


@dataclass(frozen=True, slots=True)
class ThresholdCounts:
    """A possible threshold, with counts of the samples that reach it.

    Attributes:
        threshold: The score.
        n_yes: How many labels of samples that reach it are yes.
        n_labels: How many labels there are of samples that reach it.
        share: Share of the run's scored samples that reach it.
    """

    threshold: float
    n_yes: int
    n_labels: int
    share: float


class Certified(Frozen):
    """What the labels certify."""

    target: float = Field(description="the precision asked for")
    samples: int = Field(description="scored samples of the run")
    step: ThresholdCounts | None = Field(
        default=None,
        description="the lowest threshold that is certified; None if none is",
    )
    best: ThresholdCounts | None = Field(
        default=None,
        description=(
            "else that which fewest more labels certify if its share of yes stays"
        ),
    )
    needed: int | None = Field(
        default=None,
        description="else about how many labels would do; None if that is not known",
    )

    @property
    def sentence(self) -> str:
        """The finding in words."""
        if self.step is not None:
            return self._certified_sentence(self.step)
        reason = self._reason_for_none()
        if self.needed is not None and self.needed > self.samples:
            reason += f", more than the {self.samples} scored samples of this run"
        return f"No threshold is certified for a precision of {self.target:g}: {reason}"

    def _certified_sentence(self, counts: ThresholdCounts) -> str:
        test = _stats().binomtest(counts.n_yes, counts.n_labels, alternative="greater")
        bounds = test.proportion_ci(1 - _ALPHA, "exact")
        return (
            f"Certified: scores from {counts.threshold:g} on are right in at least"
            f" {self.target:g} of this run's cases ({counts.n_yes} of {counts.n_labels}"
            f" labels, 95 % lower bound {bounds.low:.3f}; {counts.share:.0%} of the"
            f" {self.samples} scored samples reach it; exact binomial bounds, fixed"
            " sequence)"
        )

    def _reason_for_none(self) -> str:
        if self.needed is None:
            return (
                "from no threshold on are more labels right than that, so more labels"
                " would hardly do"
            )
        if self.best is None:
            return f"at least {self.needed} labels are needed, all of them right"
        return (
            f"{self.best.n_yes} of {self.best.n_labels} labels are right from"
            f" {self.best.threshold:g} on; if that stays so, about {self.needed} labels,"
            " drawn anew, would do"
        )


def _stats() -> Any:
    return import_extra("scipy.stats", "stats", "certifying a threshold")


@lru_cache(maxsize=256)
def fewest_labels(target: float, wrong: int = 0) -> int:
    """Return the fewest labels that certify a precision although some are wrong.

    Args:
        target: The precision.
        wrong: How many labels are wrong.
    """
    counts = range(wrong + 1, _MAX_LABELS)
    n_right_less_one = [count - wrong - 1 for count in counts]
    p_values = _stats().binom.sf(n_right_less_one, counts, target)
    is_enough = p_values <= _ALPHA
    first_enough = int(is_enough.argmax())
    return counts[first_enough]


def certify(
    labelled: Sequence[tuple[float, bool]], scores: Sequence[float], target: float
) -> Certified:
    """Find the lowest threshold whose precision surely reaches the target.

    The precision of a threshold is the share of yes among the samples whose scores
    reach it. "Surely" means: with a probability of 95 % no threshold is certified whose
    precision is below the target.

    Example with target .9: of samples that score .9, 80 have the label yes; of samples
    that score .2, 10 have the label no. The threshold .9 is certified. With 20 of yes
    instead of 80 it is not, as 20 right ones of 20 may be chance. The result then says
    that 44 labels in all would do.

    Args:
        labelled: Score and label of samples drawn at random from the run.
        scores: Scores of all scored samples of the run, those with labels too.
        target: The precision, above 0 and at most 0.999.

    Returns:
        The threshold; or, if none is certified, how many labels would do. It holds for
        the samples of this run, not for other samples.

    Raises:
        SettingError: If the target is not in that range.
        InputError: If there is no label.
        MissingDependency: If scipy is not installed.

    Source:
        Bounds: Clopper & Pearson (1934), Biometrika 26(4). Fixed-sequence testing:
        Angelopoulos et al. (2021), Learn then Test, arXiv:2110.01052. Number of labels:
        Fleiss, Levin & Paik (2003), Statistical Methods for Rates and Proportions, 3rd
        ed., section 2.5.
    """
    _check_target(target)
    if len(labelled) == 0:
        raise InputError("a threshold needs labels to be certified")
    pairs = [(float(score), bool(label)) for score, label in labelled]
    # Each score of the run is a possible threshold. The highest ones stand first.
    thresholds = _count_at_each_threshold(pairs, [float(score) for score in scores])
    # The very highest are reached by too few labels to be tested. The others are tested
    # from high to low, and the first failure ends the test (fixed-sequence testing).
    testable = _thresholds_with_enough_labels(thresholds, len(labelled), target)
    certified = _last_before_a_failure(testable, target)
    if certified is not None:
        return Certified(target=target, samples=len(scores), step=certified)
    easiest, n_labels_needed = _easiest_to_certify(thresholds, len(labelled), target)
    return Certified(
        target=target, samples=len(scores), best=easiest, needed=n_labels_needed
    )


def _check_target(target: float) -> None:
    """Raise ``SettingError`` for a precision that no labels could certify."""
    if not 0 < target <= 0.999:
        raise SettingError(
            "a precision to certify lies above 0 and up to 0.999, e.g. 0.9; got"
            f" {target:g}"
        )


def _last_before_a_failure(
    thresholds: Sequence[ThresholdCounts], target: float
) -> ThresholdCounts | None:
    """Test thresholds in their order, each at 5 %; return the last before a failure.

    None if the first one fails.
    """
    # sf(−1, 0, target) is 1: a threshold without labels fails.
    n_right_less_one = [counts.n_yes - 1 for counts in thresholds]
    n_labels = [counts.n_labels for counts in thresholds]
    p_values = _stats().binom.sf(n_right_less_one, n_labels, target)
    certified = None
    for counts, p_value in zip(thresholds, p_values, strict=True):
        is_certified = p_value <= _ALPHA
        if not is_certified:
            break
        certified = counts
    return certified


def _count_at_each_threshold(
    labelled: Sequence[tuple[float, bool]], scores: Sequence[float]
) -> list[ThresholdCounts]:
    """Count for every score of the run, as a threshold, the samples that reach it.

    Example: samples score .9, .8 and .8, and a sample with .8 has the label yes. The
    threshold .9 has no label and 1/3 of the samples. The threshold .8 has one label, a
    yes, and all samples.

    Args:
        labelled: Score and label of the labelled samples.
        scores: Scores of all scored samples.

    Returns:
        The thresholds with their counts, the highest one first.
    """
    labelled_below = sorted(labelled)  # the highest score is popped first
    n_samples_reaching = 0
    n_yes = 0
    thresholds = []
    for threshold, n_of_score in sorted(Counter(scores).items(), reverse=True):
        n_samples_reaching += n_of_score
        while labelled_below and labelled_below[-1][0] >= threshold:
            _, label = labelled_below.pop()
            if label:
                n_yes += 1
        n_labels = len(labelled) - len(labelled_below)
        share_reaching = n_samples_reaching / len(scores)
        thresholds.append(ThresholdCounts(threshold, n_yes, n_labels, share_reaching))
    return thresholds


def _thresholds_with_enough_labels(
    thresholds: Sequence[ThresholdCounts], n_labels: int, target: float
) -> Sequence[ThresholdCounts]:
    """The thresholds from the strictest one on that has enough labels for the test.

    Enough labels certify the target although two of them are no. If no threshold has so
    many, one label may be no, and else none. What the labels say decides nothing here.
    """
    for n_wrong in range(_WRONG_AT_START, -1, -1):
        n_needed = fewest_labels(target, n_wrong)
        if n_needed > n_labels:
            continue
        for index, counts in enumerate(thresholds):
            n_expected = counts.share * n_labels
            if n_expected >= n_needed - 1e-9:
                return thresholds[index:]
    return ()


def _easiest_to_certify(
    thresholds: Sequence[ThresholdCounts], n_labels: int, target: float
) -> tuple[ThresholdCounts | None, int | None]:
    """Say how many labels could certify a threshold.

    Example: a precision of .95 is wanted. Of 50 labels 40 reach the threshold .8, and
    all 40 are yes. But 40 are too few to certify it. Returned: the counts of .8, and 74,
    the number of labels that would suffice.

    Args:
        thresholds: Possible thresholds with their counts; none is certified so far.
        n_labels: How many labels there are so far.
        target: The precision to certify.

    Returns:
        The threshold that needs fewest labels, None if none looks precise enough; and
        how many labels it needs, None if more labels would hardly help.
    """
    promising = [counts for counts in thresholds if _is_promising(counts, target)]
    if promising:
        easiest = min(promising, key=lambda counts: _labels_needed(counts, target))
        n_needed = _labels_needed(easiest, target)
        # ``n_labels`` certified nothing: at least one more is needed
        return easiest, max(n_needed, n_labels + 1)
    # 20 labels certify no precision of .9, even if all are yes: ask for enough first
    if n_labels < fewest_labels(target):
        return None, fewest_labels(target)
    return None, None


def _is_promising(counts: ThresholdCounts, target: float) -> bool:
    """Whether enough labels reach the threshold, and more are right than the target."""
    has_enough_labels = counts.n_labels >= _MIN_LABELS_TO_PLAN
    return has_enough_labels and counts.n_yes > target * counts.n_labels


def _labels_needed(counts: ThresholdCounts, target: float) -> int:
    """Return about how many labels of the whole run would certify a threshold.

    If the share of yes stays as it is, that many labels, drawn anew, certify the
    threshold with a probability of 80 %.
    """
    share_of_yes = counts.n_yes / counts.n_labels
    deviation_at_target = _Z_ALPHA * sqrt(target * (1 - target))
    deviation_at_share = _Z_POWER * sqrt(share_of_yes * (1 - share_of_yes))
    spread = deviation_at_target + deviation_at_share
    excess = share_of_yes - target
    enough_for_power = (spread / excess) ** 2
    n_reaching_threshold = max(enough_for_power, fewest_labels(target))
    return ceil(n_reaching_threshold / counts.share)
