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
from ragmetrics_core.data.extras import extra
from ragmetrics_core.data.frozen import Frozen

_ALPHA = 0.05
_Z, _Z_POWER = NormalDist().inv_cdf(1 - _ALPHA), NormalDist().inv_cdf(0.8)
_ENOUGH_TO_PLAN = 10
_WRONG_AT_START = 2
_MOST_LABELS = 10_000  # of which two may be wrong at the highest target


@dataclass(frozen=True, slots=True)
class Step:
    """One threshold, with what lies at or above it.

    ``count`` labels lie there, ``yes`` of them are yes. ``share`` is that of the run's
    scored samples.
    """

    threshold: float
    yes: int
    count: int
    share: float


class Certified(Frozen):
    """What the labels certify."""

    target: float = Field(description="the precision asked for")
    samples: int = Field(description="scored samples of the run")
    step: Step | None = Field(
        None, description="the lowest threshold that is certified; None if none is"
    )
    best: Step | None = Field(
        None,
        description=(
            "else that which fewest more labels certify if its share of yes stays"
        ),
    )
    needed: int | None = Field(
        None,
        description="else about how many labels would do; None if that is not known",
    )

    @property
    def sentence(self) -> str:
        """The finding in words."""
        if (own := self.step) is not None:
            exact = (
                _stats()
                .binomtest(own.yes, own.count, alternative="greater")
                .proportion_ci(1 - _ALPHA, "exact")
            )
            return (
                f"Certified: scores from {own.threshold:g} on are right in at least"
                f" {self.target:g} of this run's cases ({own.yes} of {own.count}"
                f" labels, 95 % lower bound {exact.low:.3f}; {own.share:.0%} of the"
                f" {self.samples} scored samples reach it; exact binomial bounds, fixed"
                " sequence)"
            )
        if self.needed is None:
            why = (
                "from no threshold on are more labels right than that, so more labels"
                " would hardly do"
            )
        elif self.best is None:
            why = f"at least {self.needed} labels are needed, all of them right"
        else:
            right = (
                f"{self.best.yes} of {self.best.count} labels are right from"
                f" {self.best.threshold:g} on"
            )
            why = (
                f"{right}; if that stays so, about {self.needed} labels, drawn anew,"
                " would do"
            )
        if (self.needed or 0) > self.samples:
            why += f", more than the {self.samples} scored samples of this run"
        return f"No threshold is certified for a precision of {self.target:g}: {why}"


def _stats() -> Any:
    return extra("scipy.stats", "stats", "certifying a threshold")


@lru_cache(maxsize=256)
def fewest(target: float, wrong: int = 0) -> int:
    """Fewest labels that certify a precision although some of them are wrong."""
    counts = range(wrong + 1, _MOST_LABELS)
    low = _stats().binom.sf([count - wrong - 1 for count in counts], counts, target)
    return counts[int((low <= _ALPHA).argmax())]


def certify(
    labelled: Sequence[tuple[float, bool]], scores: Sequence[float], target: float
) -> Certified:
    """The lowest threshold from which on the precision is surely high enough.

    Thresholds are tested from the strictest down, each at 5 %, until one fails; so with
    95 % no threshold that is too low for the target is certified. The sequence starts
    where so many labels are expected that two wrong ones are no failure (one, none, if
    the labels are too few for that), which depends on the scores only.

    Args:
        labelled: Score and label of samples drawn at random from the run.
        scores: Scores of all scored samples of the run, those with labels too.
        target: The precision, above 0 and at most 0.999.

    Returns:
        The threshold, or how many labels would do. It holds for the samples of this
        run, clusters or not.

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
    if not 0 < target <= 0.999:
        raise SettingError(
            "a precision to certify lies above 0 and up to 0.999, e.g. 0.9; got"
            f" {target:g}"
        )
    if len(labelled) == 0:
        raise InputError("a threshold needs labels to be certified")
    pairs = [(float(score), bool(label)) for score, label in labelled]
    steps = _steps(pairs, [float(score) for score in scores])
    tested = steps[_start(steps, len(labelled), target) :]
    # sf(−1, 0, target) is 1: a threshold without labels fails.
    p_values = _stats().binom.sf(
        [step.yes - 1 for step in tested], [step.count for step in tested], target
    )
    passed = next(
        (place for place, p in enumerate(p_values) if not p <= _ALPHA), len(tested)
    )
    if passed:
        return Certified(target=target, samples=len(scores), step=tested[passed - 1])
    best, needed = _plan(steps, len(labelled), target)
    return Certified(target=target, samples=len(scores), best=best, needed=needed)


def _steps(
    labelled: Sequence[tuple[float, bool]], scores: Sequence[float]
) -> list[Step]:
    """Every score of the run as a threshold, the strictest first."""
    rest, steps, reached, yes = sorted(labelled), list[Step](), 0, 0
    for threshold, count in sorted(Counter(scores).items(), reverse=True):
        reached += count
        while rest and rest[-1][0] >= threshold:
            yes += rest.pop()[1]
        steps.append(
            Step(threshold, yes, len(labelled) - len(rest), reached / len(scores))
        )
    return steps


def _start(steps: Sequence[Step], labels: int, target: float) -> int:
    """Index of the first threshold to test.

    Behind the last one if the labels are too few for any.
    """
    for wrong in range(_WRONG_AT_START, -1, -1):
        if (needed := fewest(target, wrong)) <= labels:
            return next(
                place
                for place, step in enumerate(steps)
                if step.share * labels >= needed - 1e-9
            )
    return len(steps)


def _plan(
    steps: Sequence[Step], labels: int, target: float
) -> tuple[Step | None, int | None]:
    """Return the most promising threshold, and about how many labels certify it.

    The labels are drawn from the whole run; with so many it is certified with 80 %. The
    threshold is None if none is promising. The number is None if it is not known.
    """
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
    """Return how many labels are needed from the threshold on.

    With so many an exact one-sided test finds this share with about 80 %.
    """
    spread = _Z * sqrt(target * (1 - target)) + _Z_POWER * sqrt(share * (1 - share))
    return max((spread / (share - target)) ** 2, fewest(target))
