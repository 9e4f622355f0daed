"""Agreement of scores with labels, of verdicts with labels, of people with each other.

Bootstrap intervals.

Rows are pairs: what the judge says first, what people say second. A measure is None
where it is undefined.
"""

import random
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from statistics import fmean
from typing import TypeVar

from ragmetrics_core.statistics.calibration import (
    calibration_error,
    slope_and_intercept,
)

Row = TypeVar("Row")
Bounds = tuple[float, float]
Numbers = Sequence[tuple[float, float]]
Verdicts = Sequence[tuple[bool, bool]]

_ROUNDING = 1e-12


def auroc(pairs: Sequence[tuple[float, bool]]) -> float | None:
    """Probability that a positive row has the higher score, ties count one half.

    None without both classes.
    """
    positives = sum(bool(label) for _, label in pairs)
    both = positives * (len(pairs) - positives)
    ranks = zip(_ranks([score for score, _ in pairs]), pairs, strict=True)
    above = (
        sum(rank for rank, (_, label) in ranks if label)
        - positives * (positives - 1) / 2
    )
    return above / both if both else None


def mean_error(pairs: Numbers) -> float | None:
    """Mean absolute difference of two numbers per row; None without rows."""
    return (
        fmean(abs(float(left) - float(right)) for left, right in pairs)
        if len(pairs)
        else None
    )


def brier(pairs: Numbers) -> float | None:
    """Mean squared difference of score and label, 0 is best; None without rows."""
    return (
        fmean((float(score) - float(label)) ** 2 for score, label in pairs)
        if len(pairs)
        else None
    )


def correlation(pairs: Numbers) -> float | None:
    """Pearson's r; None if one side does not vary."""
    try:
        return (
            statistics.correlation(*zip(*pairs, strict=True))
            if len(pairs) > 1
            else None
        )
    except statistics.StatisticsError:
        return None


def spearman(pairs: Numbers) -> float | None:
    """Spearman's rank correlation, ties with their mean rank.

    None if one side does not vary.
    """
    sides = [_ranks(side) for side in zip(*pairs, strict=True)]
    return correlation(list(zip(*sides, strict=True)))


def line(pairs: Numbers) -> tuple[float, float] | None:
    """Slope and intercept of the least-squares line of labels on scores.

    None if the scores do not vary.
    """
    try:
        found = (
            statistics.linear_regression(*zip(*pairs, strict=True))
            if len(pairs) > 1
            else None
        )
    except statistics.StatisticsError:
        return None
    return found and (found.slope, found.intercept)


def _ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value from 0, equal ones with their mean rank."""
    rank: dict[float, float] = {}
    start = 0
    for value, count in sorted(Counter(values).items()):
        rank[value] = start + (count - 1) / 2
        start += count
    return [rank[value] for value in values]


def accuracy(pairs: Verdicts) -> float | None:
    """Share of verdicts that equal the label; None without rows."""
    return fmean(verdict == label for verdict, label in pairs) if len(pairs) else None


def balanced_accuracy(pairs: Verdicts) -> float | None:
    """Mean of the accuracies on both classes; None without both."""
    right = [
        [verdict == label for verdict, label in pairs if label == wanted]
        for wanted in (True, False)
    ]
    return fmean(map(fmean, right)) if all(right) else None


def f1(pairs: Verdicts) -> float | None:
    """Harmonic mean of precision and recall of the positive verdicts.

    None if nothing is positive.
    """
    # one by one: numpy's True + True is True
    marked = sum(bool(value) for pair in pairs for value in pair)
    both = sum(bool(verdict and label) for verdict, label in pairs)
    return 2 * both / marked if marked else None


def matthews(pairs: Verdicts) -> float | None:
    """Matthews' correlation of verdicts and labels; None if one side does not vary."""
    return correlation([(float(verdict), float(label)) for verdict, label in pairs])


def gwet(pairs: Verdicts) -> float | None:
    """Gwet's AC1: agreement beyond chance that a lopsided prevalence does not deflate; None without rows.

    Source:
        Gwet (2008), British Journal of Mathematical and Statistical Psychology 61(1).
    """
    if len(pairs) == 0:
        return None
    share = fmean(float(value) for pair in pairs for value in pair)
    chance = 2 * share * (1 - share)
    return (fmean(verdict == label for verdict, label in pairs) - chance) / (1 - chance)


def kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Cohen's kappa of two raters over any categories.

    None without items, or if both chose one category throughout.

    Source:
        Cohen (1960), Educational and Psychological Measurement 20(1).
    """
    if len(pairs) == 0:
        return None
    sides = list(zip(*pairs, strict=True))
    chance = (
        sum(sides[0].count(one) * sides[1].count(one) for one in set(sides[0]))
        / len(pairs) ** 2
    )
    return (
        None
        if chance >= 1
        else (fmean(one == other for one, other in pairs) - chance) / (1 - chance)
    )


def krippendorff(rows: Sequence[Sequence[bool]]) -> float | None:
    """Krippendorff's alpha for nominal labels of several annotators, per unit.

    None if nothing varies.

    Source:
        Krippendorff (2011), Computing Krippendorff's alpha-reliability.
    """
    units = [[bool(label) for label in row] for row in rows if len(row) > 1]
    count, ones = sum(map(len, units)), sum(map(sum, units))
    if not 0 < ones < count:
        return None
    observed = (
        sum(2 * sum(row) * (len(row) - sum(row)) / (len(row) - 1) for row in units)
        / count
    )
    return 1 - observed * count * (count - 1) / (2 * ones * (count - ones))


def bootstrap(
    sources: Sequence[Sequence[Row]],
    statistic: Callable[[Sequence[Row]], float | None],
    *,
    draws: int,
    seed: int = 0,
) -> Bounds | None:
    """Return the bootstrap interval of the mean of a statistic over sources.

    It is the 95 % percentile interval. The rows of each source are resampled ``draws``
    times.

    Resamples where the statistic is None, and sources where it always is, are left out.
    The interval is None if all resamples of a source agree, as where a judge is always
    right. Rows that never differ cannot show how much others would, and an interval
    without width would say that they never do.
    """
    return _bounds(
        [
            _resampled(rows, {"": statistic}, draws, number)[""]
            for number, rows in enumerate(sources, seed)
        ]
    )


def _resampled(
    rows: Sequence[Row],
    statistics: Mapping[str, Callable[[Sequence[Row]], float | None]],
    draws: int,
    seed: int = 0,
) -> dict[str, list[float]]:
    """Return the values of every statistic in ``draws`` resamples of the rows.

    The resamples are the same for all statistics. Where a statistic is None, its value
    is left out.
    """
    draw = random.Random(seed)  # noqa: S311 - resampling is no cryptography
    found: dict[str, list[float]] = {name: [] for name in statistics}
    for _ in range(draws if rows else 0):
        drawn = draw.choices(rows, k=len(rows))
        for name, statistic in statistics.items():
            if (value := statistic(drawn)) is not None:
                found[name].append(value)
    return found


def _bounds(columns: Sequence[Sequence[float]]) -> Bounds | None:
    """The interval of the mean over sources, from the resampled values of each."""
    known = [own for own in columns if own]
    if not known or any(max(own) - min(own) <= _ROUNDING for own in known):
        return None
    means = sorted(fmean(values) for values in zip(*known, strict=False))
    low, high = (means[round(share * (len(means) - 1))] for share in (0.025, 0.975))
    return (low, high) if high - low > _ROUNDING else None


@dataclass(frozen=True, slots=True)
class Labelled:
    """The judge's score of a sample with the votes of people on it.

    There is at least one vote, one per annotator. ``source`` says where the sample
    comes from.

    ``rival`` is the score of another judge, where two are compared; ``id`` says which
    sample it is. ``verdict`` is the judge's own, and ``rival_verdict`` the rival's,
    where that does not follow from the score; else None.
    """

    score: float
    votes: tuple[bool, ...]
    source: str = "all"
    rival: float | None = None
    id: str = field(default="", compare=False)
    verdict: bool | None = None
    rival_verdict: bool | None = None
    yes: bool = field(init=False)

    def __post_init__(self) -> None:
        """Count the votes: ``yes`` is the majority's, a tie is a no.

        Each row is drawn thousands of times.
        """
        object.__setattr__(self, "yes", 2 * sum(self.votes) > len(self.votes))

    def says(self, threshold: float = 0.5) -> bool:
        """The judge's own verdict, else whether its score reaches the threshold."""
        return self.score >= threshold if self.verdict is None else self.verdict

    def of_rival(self) -> "Labelled":
        """The same row as the rival scores it; the row itself if there is none."""
        return (
            self
            if self.rival is None
            else replace(self, score=self.rival, verdict=self.rival_verdict)
        )


Statistic = Callable[[Sequence[Labelled]], float | None]


@dataclass(frozen=True, slots=True)
class Measured:
    """A measure over a source, or the mean over them (source None).

    None where undefined, or all resamples agree.
    """

    measure: str
    source: str | None
    count: int
    value: float | None
    interval: Bounds | None


def measures(threshold: float) -> dict[str, Statistic]:
    """The measures of agreement by name.

    Verdicts are the judge's own, else scores from the threshold on.
    """

    def scores(rows: Sequence[Labelled]) -> list[tuple[float, bool]]:
        return [(row.score, row.yes) for row in rows]

    def verdicts(rows: Sequence[Labelled]) -> list[tuple[bool, bool]]:
        return [(row.says(threshold), row.yes) for row in rows]

    return {
        "AUROC": lambda rows: auroc(scores(rows)),
        "balanced accuracy": lambda rows: balanced_accuracy(verdicts(rows)),
        "MCC": lambda rows: matthews(verdicts(rows)),
        "kappa": lambda rows: (
            kappa(verdicts(rows)) if len({row.yes for row in rows}) > 1 else None
        ),
        "Gwet's AC1": lambda rows: gwet(verdicts(rows)),
        "prevalence": lambda rows: fmean(row.yes for row in rows),
        "Brier": lambda rows: brier(scores(rows)),
        "slope": lambda rows: (
            slope_and_intercept(tuple(scores(rows))) or (None, None)
        )[0],
        "intercept": lambda rows: (
            slope_and_intercept(tuple(scores(rows))) or (None, None)
        )[1],
        "calibration error": lambda rows: calibration_error(scores(rows)),
        "human kappa": human_kappa,
        "human alpha": lambda rows: krippendorff([row.votes for row in rows]),
    }


def rival_measures(threshold: float) -> dict[str, Statistic]:
    """Differences between the judge and its rival on the same rows: judge − rival."""

    def difference(rows: Sequence[Labelled], compute: Statistic) -> float | None:
        own = compute(rows)
        other = compute([row.of_rival() for row in rows if row.rival is not None])
        return None if own is None or other is None else own - other

    known = {
        name: measures(threshold)[name]
        for name in ("AUROC", "balanced accuracy", "Brier")
    }
    return {
        f"{name}, difference": partial(difference, compute=compute)
        for name, compute in known.items()
    }


def human_kappa(rows: Sequence[Labelled]) -> float | None:
    """Mean kappa over pairs of annotators, in the order of the votes: the ceiling; None with one annotator."""
    people = combinations(range(max(len(row.votes) for row in rows)), 2)
    pairs = (
        [(row.votes[a], row.votes[b]) for row in rows if len(row.votes) > b]
        for a, b in people
    )
    known = [value for value in map(kappa, pairs) if value is not None]
    return fmean(known) if known else None


def measure_all(
    groups: Sequence[Sequence[Labelled]],
    wanted: Mapping[str, Statistic],
    *,
    draws: int = 500,
) -> list[Measured]:
    """Return every measure per source, and its mean over sources.

    Each has a 95 % bootstrap interval. Nothing is pooled.

    Rows that hang together, such as those of one sample, are a group; groups are
    counted and resampled whole.
    """
    sources: dict[str, list[Sequence[Labelled]]] = {}
    for group in groups:
        sources.setdefault(group[0].source, []).append(group)
    over = {name: partial(_over, compute) for name, compute in wanted.items()}
    drawn = {source: _resampled(own, over, draws) for source, own in sources.items()}
    found = []
    for name, compute in over.items():
        values = {source: compute(own) for source, own in sources.items()}
        interval = None
        for source, own in sources.items():
            interval = (
                None if values[source] is None else _bounds([drawn[source][name]])
            )
            found.append(Measured(name, source, len(own), values[source], interval))
        known = [value for value in values.values() if value is not None]
        defined = [own for source, own in sources.items() if values[source] is not None]
        if len(sources) > 1:  # the mean of one is itself
            interval = bootstrap(defined, compute, draws=draws)
        found.append(
            Measured(name, None, len(known), fmean(known) if known else None, interval)
        )
    return found


def _over(compute: Statistic, groups: Sequence[Sequence[Labelled]]) -> float | None:
    return compute([row for group in groups for row in group])
