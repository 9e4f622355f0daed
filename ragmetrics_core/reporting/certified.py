"""A threshold from which on scores are surely precise enough, certified by labels drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, sqrt
from statistics import NormalDist

from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.reporting.drawing import check_random, scored_samples
from ragmetrics_core.reporting.labels import Label
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.statistics.statistics import incomplete_beta

_ALPHA = 0.05
_POWER = 0.8
_ENOUGH_TO_PLAN = 10
_WRONG_AT_START = 2


@dataclass(frozen=True, slots=True)
class Step:
    """One threshold: labels from it on, how many of them are yes, share of the run's scored samples from it on."""

    threshold: float
    yes: int
    count: int
    share: float

    @property
    def low(self) -> float:
        """One-sided 95 % lower bound of the precision."""
        return lower_bound(self.yes, self.count)


@dataclass(frozen=True, slots=True)
class Certified:
    """What the labels certify.

    Args:
        target: The precision asked for.
        step: The lowest threshold that is certified; None if none is.
        best: Else the threshold that fewest more labels would certify if its share of yes stayed; None if none.
        needed: Else about how many labels of the run would do; None if no number is known that would.
        samples: Scored samples of the run.
    """

    target: float
    step: Step | None
    best: Step | None
    needed: int | None
    samples: int

    @property
    def sentence(self) -> str:
        """The finding in words."""
        if self.step is not None:
            own = self.step
            return (
                f"Certified: scores from {own.threshold:g} on are right in at least {self.target:g} of this run's "
                f"cases ({own.yes} of {own.count} labels, 95 % lower bound {own.low:.3f}; {own.share:.0%} of the "
                f"{self.samples} scored samples reach it; exact binomial bounds, fixed sequence)"
            )
        start = f"No threshold is certified for a precision of {self.target:g}: "
        if self.needed is None:
            return f"{start}from no threshold on are more labels right than that, so more labels would hardly do"
        more = f", more than the {self.samples} scored samples of this run" if self.needed > self.samples else ""
        if self.best is None:
            return f"{start}at least {self.needed} labels are needed, all of them right{more}"
        return (
            f"{start}{self.best.yes} of {self.best.count} labels are right from {self.best.threshold:g} on; if that "
            f"stays so, about {self.needed} labels, drawn anew, would do{more}"
        )


def lower_bound(yes: int, count: int) -> float:
    """One-sided 95 % lower bound of a share.

    Source:
        Clopper & Pearson (1934), Biometrika 26(4).

    Example:
        >>> round(lower_bound(29, 29), 4)  # .05 ** (1 / 29)
        0.9019
    """
    if yes == 0:
        return 0.0
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if _at_least(yes, count, middle) <= _ALPHA else (low, middle)
    return low


def _at_least(yes: int, count: int, share: float) -> float:
    """Probability of so many successes or more."""
    return incomplete_beta(share, yes, count - yes + 1) if yes > 0 and share > 0 else float(yes <= 0)


@lru_cache(maxsize=256)
def fewest(target: float, wrong: int = 0) -> int:
    """Fewest labels that certify a precision although some of them are wrong.

    Example:
        >>> fewest(0.9), fewest(0.9, 2)
        (29, 61)
    """
    count = wrong + 1
    while _at_least(count - wrong, count, target) > _ALPHA:
        count += 1
    return count


def certify(labelled: Sequence[tuple[float, bool]], scores: Sequence[float], target: float) -> Certified:
    """The lowest threshold from which on the precision is surely high enough.

    Thresholds are tested from the strictest down, each at 5 %, until one fails; so with 95 % no threshold that is
    too low for the target is certified. The sequence starts where so many labels are expected that two wrong ones
    are no failure (one, none, if the labels are too few for that), which depends on the scores only.

    Args:
        labelled: Score and label of samples drawn at random from the run.
        scores: Scores of all scored samples of the run, those with labels too.
        target: The precision, above 0 and below 1.

    Returns:
        The threshold, or how many labels would do. It holds for the samples of this run, clusters or not.

    Raises:
        SettingError: If the target is not in that range.
        InputError: If there is no label.

    Source:
        Fixed-sequence testing: Angelopoulos et al. (2021), Learn then Test, arXiv:2110.01052. Number of labels:
        Fleiss, Levin & Paik (2003), Statistical Methods for Rates and Proportions, 3rd ed., section 2.5.
    """
    if not 0 < target <= 0.999:
        raise SettingError(f"a precision to certify lies above 0 and up to 0.999, e.g. 0.9; got {target:g}")
    if not labelled:
        raise InputError("a threshold needs labels to be certified")
    steps = _steps(labelled, scores)
    found = None
    for step in steps[_start(steps, len(labelled), target) :]:
        if step.count == 0 or _at_least(step.yes, step.count, target) > _ALPHA:
            break
        found = step
    best, needed = (None, None) if found else _plan(steps, len(labelled), target)
    return Certified(target, found, best, needed, len(scores))


def _steps(labelled: Sequence[tuple[float, bool]], scores: Sequence[float]) -> list[Step]:
    """Every score of the run as a threshold, the strictest first."""
    rest = sorted(labelled)
    ordered = sorted(scores, reverse=True)
    steps, yes, count = [], 0, 0
    for place, threshold in enumerate(ordered, 1):
        if place < len(ordered) and ordered[place] == threshold:
            continue
        while rest and rest[-1][0] >= threshold:
            yes, count = yes + rest.pop()[1], count + 1
        steps.append(Step(threshold, yes, count, place / len(ordered)))
    return steps


def _start(steps: Sequence[Step], labels: int, target: float) -> int:
    """Index of the first threshold to test; behind the last one if the labels are too few for any."""
    for wrong in range(_WRONG_AT_START, -1, -1):
        if (needed := fewest(target, wrong)) <= labels:
            return next(place for place, step in enumerate(steps) if step.share * labels >= needed - 1e-9)
    return len(steps)


def _plan(steps: Sequence[Step], labels: int, target: float) -> tuple[Step | None, int | None]:
    """The most promising threshold, and about how many labels of the run certify it with 80 %."""
    plans = [
        (ceil(_enough(step.yes / step.count, target) / step.share), step)
        for step in steps
        if step.count >= _ENOUGH_TO_PLAN and step.yes > target * step.count
    ]
    if plans:
        needed, best = min(plans, key=lambda plan: plan[0])
        return best, max(needed, labels + 1)
    few = fewest(target)
    return None, few if labels < few else None


def _enough(share: float, target: float) -> float:
    """Labels from the threshold on with which an exact one-sided test finds this share with about 80 %."""
    normal = NormalDist()
    spread = normal.inv_cdf(1 - _ALPHA) * sqrt(target * (1 - target)) + normal.inv_cdf(_POWER) * sqrt(
        share * (1 - share)
    )
    return max((spread / (share - target)) ** 2, fewest(target))


def certify_precision(
    report: Report, metric: str, labels: Sequence[Label], target: float, *, assume_random: bool = False
) -> Certified:
    """Certify a threshold of a run's scores for a precision.

    Args:
        report: The run.
        metric: Name of the metric.
        labels: Labels, as ``draw`` drew them and people filled them in.
        target: The precision.
        assume_random: Take labels that no draw recorded for a random sample.

    Raises:
        InputError: If the labels are no random sample by their own record, or none belongs to a scored sample.
    """
    if not assume_random:
        check_random(labels)
    known = {label.id: label.yes for label in labels if label.votes}
    scored = [(sample.id, score) for sample, score in scored_samples(report, metric)]
    labelled = [(score, known[name]) for name, score in scored if name in known]
    return certify(labelled, [score for _, score in scored], target)
