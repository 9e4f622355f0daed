"""Agreement of scores with labels, of verdicts with labels, of people with each other.

Rows are pairs: what the judge says first, what people say second. A measure is None
where it is undefined. Intervals are those of the bootstrap.
"""

import random
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain, combinations, compress
from math import log, sqrt, tanh
from statistics import fmean
from typing import TypeVar

from ragmetrics_core.data.scalars import is_yes

Item = TypeVar("Item")
Bounds = tuple[float, float]
Numbers = Sequence[tuple[float, float]]
Verdicts = Sequence[tuple[bool, bool]]

_ROUNDING = 1e-12


def auroc(pairs: Sequence[tuple[float, bool]]) -> float | None:
    """AUROC: how well scores separate positive from negative labels.

    It is the probability that a positive row has a higher score than a negative one,
    where ties count one half; 0.5 is chance, 1 is best. None without both labels.
    Example: yes at .9 and .6, no at .7 and .4: 3 of 4 pairs are in order, .75.

    Args:
        pairs: Score and label of each row.
    """
    labels = [bool(label) for _, label in pairs]
    n_positive = labels.count(True)
    n_negative = labels.count(False)
    if n_positive == 0 or n_negative == 0:
        return None
    ranks = _ranks([score for score, _ in pairs])  # from 0
    rank_sum_of_positive = sum(compress(ranks, labels), 0.0)
    # the rank sum if all positive rows had the lowest scores
    least_rank_sum = n_positive * (n_positive - 1) / 2
    # Pairs of a positive and a negative row in which the positive one scores higher:
    # U of Mann and Whitney.
    n_in_order = rank_sum_of_positive - least_rank_sum
    n_pairs = n_positive * n_negative
    return n_in_order / n_pairs


def mean_error(pairs: Numbers) -> float | None:
    """Mean absolute difference of two numbers per row; None without rows."""
    if len(pairs) == 0:
        return None
    return fmean(abs(difference) for difference in _differences(pairs))


def brier(pairs: Numbers) -> float | None:
    """Mean squared difference of score and label, 0 is best; None without rows."""
    if len(pairs) == 0:
        return None
    return fmean(difference**2 for difference in _differences(pairs))


def _differences(pairs: Numbers) -> list[float]:
    return [float(number) - float(label) for number, label in pairs]


def correlation(pairs: Numbers) -> float | None:
    """Pearson's r; None if one side does not vary."""
    if len(pairs) < 2:
        return None
    judged, labels = zip(*pairs, strict=True)
    try:
        return statistics.correlation(judged, labels)
    except statistics.StatisticsError:
        return None


def spearman(pairs: Numbers) -> float | None:
    """Spearman's rank correlation, ties with their mean rank.

    None if one side does not vary.
    """
    ranked_sides = [_ranks(side) for side in zip(*pairs, strict=True)]
    ranked_pairs = list(zip(*ranked_sides, strict=True))
    return correlation(ranked_pairs)


def line(pairs: Numbers) -> tuple[float, float] | None:
    """Slope and intercept of the least-squares line of labels on scores.

    None if the scores do not vary.
    """
    if len(pairs) < 2:
        return None
    scores, labels = zip(*pairs, strict=True)
    try:
        regression = statistics.linear_regression(scores, labels)
    except statistics.StatisticsError:
        return None
    return regression.slope, regression.intercept


def _ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value from 0, equal ones with their mean rank."""
    rank_by_value: dict[float, float] = {}
    n_smaller = 0
    for value, count in sorted(Counter(values).items()):
        rank_by_value[value] = n_smaller + (count - 1) / 2
        n_smaller += count
    return [rank_by_value[value] for value in values]


def accuracy(pairs: Verdicts) -> float | None:
    """Share of verdicts that equal the label; None without rows."""
    if len(pairs) == 0:
        return None
    return fmean(verdict == label for verdict, label in pairs)


def balanced_accuracy(pairs: Verdicts) -> float | None:
    """Mean of the accuracies on both classes; None without both."""
    positive_pairs = [(verdict, label) for verdict, label in pairs if label]
    negative_pairs = [(verdict, label) for verdict, label in pairs if not label]
    on_positive = accuracy(positive_pairs)
    on_negative = accuracy(negative_pairs)
    if on_positive is None or on_negative is None:
        return None
    return fmean([on_positive, on_negative])


def f1(pairs: Verdicts) -> float | None:
    """Harmonic mean of precision and recall of the positive verdicts.

    None if nothing is positive.
    """
    # bool() of each: numpy's True + True is True
    n_verdicts = sum(bool(verdict) for verdict, _ in pairs)
    n_labels = sum(bool(label) for _, label in pairs)
    n_both = sum(bool(verdict and label) for verdict, label in pairs)
    n_positive = n_verdicts + n_labels
    if n_positive == 0:
        return None
    return 2 * n_both / n_positive


def matthews(pairs: Verdicts) -> float | None:
    """Matthews' correlation of verdicts and labels; None if one side does not vary."""
    numbers = [(float(verdict), float(label)) for verdict, label in pairs]
    return correlation(numbers)


def kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Cohen's kappa of two raters: how far they agree beyond chance.

    1 is full agreement. 0 is chance: two raters who choose at random, but each category
    as often as these, would reach it. Example: they agree on .75 of the items, and by
    chance would on .5: (.75 - .5) / (1 - .5) = .5. None without items, or if both
    raters chose the same category for all items.

    Args:
        pairs: For each item, what the first and what the second rater chose.

    Source:
        Cohen (1960), Educational and Psychological Measurement 20(1).
    """
    if len(pairs) == 0:
        return None
    choices_of_first, choices_of_second = zip(*pairs, strict=True)
    # of all combinations of a choice of the first with a choice of the second rater
    n_equal_combinations = 0
    for category in set(choices_of_first):
        n_of_first = choices_of_first.count(category)
        n_of_second = choices_of_second.count(category)
        n_equal_combinations += n_of_first * n_of_second
    agreement_by_chance = n_equal_combinations / len(pairs) ** 2
    if agreement_by_chance >= 1:
        return None
    agreement = fmean(first == second for first, second in pairs)
    return (agreement - agreement_by_chance) / (1 - agreement_by_chance)


def bootstrap(
    sources: Sequence[Sequence[Item]],
    statistic: Callable[[Sequence[Item]], float | None],
    *,
    draws: int,
) -> Bounds | None:
    """Return the 95 % percentile interval of the mean of a statistic over sources.

    None if all resamples of a source agree, as where a judge is always right.

    Args:
        sources: The rows of each source, which are resampled.
        statistic: What is computed of the rows of one source. Resamples where it is
            None are left out.
        draws: How many resamples are drawn of each.
    """
    values_by_source = [
        _values_of_resamples(rows, {"": statistic}, draws, seed)[""]
        for seed, rows in enumerate(sources)
    ]
    return _bounds(values_by_source)


def _values_of_resamples(
    rows: Sequence[Item],
    statistics: Mapping[str, Callable[[Sequence[Item]], float | None]],
    draws: int,
    seed: int = 0,
) -> dict[str, list[float]]:
    """Compute statistics on the same resamples of the rows (bootstrap).

    A resample has as many rows as there are, drawn with replacement.
    Example: rows [1, 2] and the statistic "sum", 3 draws: {"sum": [4, 2, 3]}.

    Returns:
        By name, the values of a statistic in the resamples where it is not None.
    """
    values_by_name: dict[str, list[float]] = {name: [] for name in statistics}
    if not rows:
        return values_by_name
    random_source = random.Random(seed)  # noqa: S311  # resampling is no cryptography
    for _ in range(draws):
        resample = random_source.choices(rows, k=len(rows))
        for name, statistic in statistics.items():
            value = statistic(resample)
            if value is not None:
                values_by_name[name].append(value)
    return values_by_name


def _bounds(values_by_source: Sequence[Sequence[float]]) -> Bounds | None:
    """The 95 % percentile interval of a mean over sources, from resampled values.

    Example: in two resamples source A has the values .5 and .7, source B .7 and .9: the
    means over both sources are .6 and .8.

    Args:
        values_by_source: For each source the measure in each resample of its rows. A
            source without any value is left out.

    Returns:
        Lower and upper end. None without any values, if all values of one source are
        equal, or if the interval has no width.
    """
    resampled_values = [values for values in values_by_source if values]
    # Of a judge that is right on all rows of a source, each resample says 1.0. That does
    # not show how much other rows would differ.
    if not resampled_values or any(_agree(values) for values in resampled_values):
        return None
    # The first mean is over the first resample of each source, and so on. Not strict: a
    # source has fewer values if the measure is undefined in a resample.
    means = [fmean(values) for values in zip(*resampled_values, strict=False)]
    means.sort()
    last_index = len(means) - 1
    low = means[round(0.025 * last_index)]
    high = means[round(0.975 * last_index)]
    return None if _agree([low, high]) else (low, high)


def _agree(values: Sequence[float]) -> bool:
    """Whether values differ by rounding at most."""
    return max(values) - min(values) <= _ROUNDING


@dataclass(frozen=True, slots=True)
class Labelled:
    """The judge's score of a sample with the votes of people on it.

    Args:
        score: The judge's.
        votes: At least one, one per annotator.
        source: Where the sample comes from.
        length: Characters of the text that was judged, or by how many the second of two
            is longer; 0 where nobody asks.
        id: Which sample it is.
        verdict: The judge's own, where it does not follow from the score; else None.

    Attributes:
        is_labelled_yes: What the majority of the votes says; a tie is a no.
    """

    score: float
    votes: tuple[bool, ...]
    source: str = "all"
    length: int = 0
    id: str = field(default="", compare=False)
    verdict: bool | None = None
    is_labelled_yes: bool = field(init=False)

    def __post_init__(self) -> None:
        """Count the votes once, because each row is drawn thousands of times."""
        n_yes = sum(self.votes)
        n_no = len(self.votes) - n_yes
        object.__setattr__(self, "is_labelled_yes", n_yes > n_no)

    def is_judged_yes(self) -> bool:
        """The judge's own verdict, else whether its score is above one half."""
        return is_yes(self.score) if self.verdict is None else self.verdict


Statistic = Callable[[Sequence[Labelled]], float | None]
_MeasureOfGroups = Callable[[Sequence[Sequence[Labelled]]], float | None]


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


def _scores_and_labels(rows: Sequence[Labelled]) -> list[tuple[float, bool]]:
    return [(row.score, row.is_labelled_yes) for row in rows]


def _slope_or_intercept(index: int, rows: Sequence[Labelled]) -> float | None:
    fitted = slope_and_intercept(tuple(_scores_and_labels(rows)))
    return None if fitted is None else fitted[index]


def _verdicts_and_labels(rows: Sequence[Labelled]) -> list[tuple[bool, bool]]:
    return [(row.is_judged_yes(), row.is_labelled_yes) for row in rows]


def _judge_kappa(rows: Sequence[Labelled]) -> float | None:
    labels = {row.is_labelled_yes for row in rows}
    return kappa(_verdicts_and_labels(rows)) if len(labels) > 1 else None


def _judge_matthews(rows: Sequence[Labelled]) -> float | None:
    """Matthews' correlation; 0 for a judge that says the same of both labels.

    None would leave out the source where the judge is worst.
    """
    pairs = _verdicts_and_labels(rows)
    verdicts = {verdict for verdict, _ in pairs}
    labels = {label for _, label in pairs}
    if len(verdicts) == 1 and len(labels) == 2:
        return 0.0
    return matthews(pairs)


MEASURES: dict[str, Statistic] = {
    "AUROC": lambda rows: auroc(_scores_and_labels(rows)),
    "balanced accuracy": lambda rows: balanced_accuracy(_verdicts_and_labels(rows)),
    "kappa": _judge_kappa,
    "MCC": _judge_matthews,
    "Brier": lambda rows: brier(_scores_and_labels(rows)),
    "slope": partial(_slope_or_intercept, 0),
    "intercept": partial(_slope_or_intercept, 1),
    "calibration error": lambda rows: calibration_error(_scores_and_labels(rows)),
    "prevalence": lambda rows: fmean(row.is_labelled_yes for row in rows),
}
"""The measures of agreement between a judge and people, by name.

Each is a function from labelled rows to a number, or None where it is undefined:
``MEASURES["kappa"](rows)`` may be .7.
"""


def human_kappa(rows: Sequence[Labelled]) -> float | None:
    """Return the mean of Cohen's kappa over all pairs of annotators: .6 of .5 and .7.

    None with one annotator, or if kappa is undefined for all pairs.

    Args:
        rows: At least one row. The first votes are of the same annotator, and so on.
    """
    n_annotators = max(len(row.votes) for row in rows)
    kappas = []
    for first, second in combinations(range(n_annotators), 2):
        # of the rows that both labelled: ``second`` is the higher index
        votes_by_row = [row.votes for row in rows if len(row.votes) > second]
        kappa_of_pair = kappa([(votes[first], votes[second]) for votes in votes_by_row])
        if kappa_of_pair is not None:
            kappas.append(kappa_of_pair)
    return fmean(kappas) if kappas else None


def measure_all(
    groups: Sequence[Sequence[Labelled]],
    statistics: Mapping[str, Statistic],
    *,
    draws: int = 500,
) -> list[Measured]:
    """Compute every measure on each source, and its mean over the sources.

    Each value has a 95 % bootstrap interval. Rows of different sources are never pooled.
    Example: "kappa" with .6 on source A and .8 on B: three values, .6, .8 and .7.

    Args:
        groups: The rows in groups that are not independent, such as the rows of one
            sample. Groups are counted and resampled whole.
        statistics: The measures by name; each is computed on rows.
        draws: How many resamples are drawn.

    Returns:
        For each measure its values on the sources, then its mean over those where it is
        defined, whose source is None and whose count is that of these sources.
    """
    measures_by_name: dict[str, _MeasureOfGroups] = {
        name: partial(_of_groups, measure_of_rows)
        for name, measure_of_rows in statistics.items()
    }
    groups_by_source: dict[str, list[Sequence[Labelled]]] = {}
    for group in groups:
        groups_by_source.setdefault(group[0].source, []).append(group)
    resampled_by_source = {
        source: _values_of_resamples(groups_of_source, measures_by_name, draws)
        for source, groups_of_source in groups_by_source.items()
    }
    measured: list[Measured] = []
    for name, measure in measures_by_name.items():
        on_sources = []
        for source, groups_of_source in groups_by_source.items():
            value = measure(groups_of_source)
            bounds = None
            if value is not None:
                bounds = _bounds([resampled_by_source[source][name]])
            count = len(groups_of_source)
            on_sources.append(Measured(name, source, count, value, bounds))
        values = [one.value for one in on_sources if one.value is not None]
        if len(on_sources) == 1:  # the mean of one is itself
            over_all = replace(on_sources[0], source=None, count=len(values))
        else:
            # each source is resampled by itself
            both = zip(groups_by_source.values(), on_sources, strict=True)
            defined = [groups for groups, one in both if one.value is not None]
            interval = bootstrap(defined, measure, draws=draws)
            mean = fmean(values) if values else None
            over_all = Measured(name, None, len(values), mean, interval)
        measured += [*on_sources, over_all]
    return measured


def _of_groups(
    statistic: Statistic, groups: Sequence[Sequence[Labelled]]
) -> float | None:
    return statistic(list(chain.from_iterable(groups)))


FEWEST_FOR_ERROR = 200
"""A calibration error over fewer labels would mostly show noise."""

_N_BINS = 10
_CLIP = 1e-3
# Newton's method ends after a dozen steps, unless the labels are nearly separated.
_MAX_STEPS = 50
_TOLERANCE = 1e-9

Pairs = Sequence[tuple[float, bool]]


@lru_cache(maxsize=1)  # both numbers are asked for, one after the other
def slope_and_intercept(
    pairs: tuple[tuple[float, bool], ...],
) -> tuple[float, float] | None:
    """Slope and intercept that turn scores into probabilities of a positive label.

    ``logit(probability) = slope · logit(score) + intercept``. Scores that are
    probabilities already have slope 1 and intercept 0. Example: of 10 rows with the
    score .9 people call 6 positive, of 10 with .1 they call 4 so: slope .18, intercept
    0. The scores are too extreme.

    Args:
        pairs: Score and label of each row.

    Returns:
        Slope and intercept; None if all labels are equal, scores do not vary, or a
        score separates the labels (nearly), so that they determine no slope.

    Source:
        Cox (1958), Biometrika 45(3/4).
    """
    positive = [score for score, label in pairs if label]
    negative = [score for score, label in pairs if not label]
    if not positive or not negative:
        return None
    # a threshold separates the classes
    if max(negative) <= min(positive) or max(positive) <= min(negative):
        return None
    # by the log-odds of a score its rows, and how many have a positive label
    counts: dict[float, tuple[int, int]] = {}
    for score, label in pairs:
        clipped = min(max(score, _CLIP), 1 - _CLIP)  # 0 and 1 have infinite log-odds
        log_odds = log(clipped / (1 - clipped))
        n_rows, n_positive = counts.get(log_odds, (0, 0))
        counts[log_odds] = (n_rows + 1, n_positive + bool(label))
    if len(counts) == 1:
        return None
    return _logistic_weights(counts)


def _logistic_weights(
    counts: Mapping[float, tuple[int, int]],
) -> tuple[float, float] | None:
    """Fit a logistic regression of two weights by Newton's method.

    Example: slope 1 and intercept 0 say that the scores are right as they are.

    Args:
        counts: For the log-odds of each score its rows, and how many of these have a
            positive label.

    Returns:
        Slope and intercept; None if the labels do not determine them.
    """
    slope = 0.0
    intercept = 0.0
    for _ in range(_MAX_STEPS):
        gradient_of_slope = 0.0
        gradient_of_intercept = 0.0
        # minus the second derivatives (Hessian) of the log-likelihood
        by_slope = 0.0
        by_both = 0.0
        by_intercept = 0.0
        for x, (n_rows, n_positive) in counts.items():
            probability = (1 + tanh((slope * x + intercept) / 2)) / 2
            residual = n_positive - n_rows * probability
            gradient_of_slope += x * residual
            gradient_of_intercept += residual
            weight = n_rows * probability * (1 - probability)
            by_slope += weight * x * x
            by_both += weight * x
            by_intercept += weight
        determinant = by_slope * by_intercept - by_both**2
        # nearly the smallest eigenvalue over the largest
        if determinant <= _TOLERANCE * (by_slope + by_intercept) ** 2:
            return None
        step_of_slope = (
            by_intercept * gradient_of_slope - by_both * gradient_of_intercept
        ) / determinant
        step_of_intercept = (
            by_slope * gradient_of_intercept - by_both * gradient_of_slope
        ) / determinant
        slope += step_of_slope
        intercept += step_of_intercept
        if max(abs(step_of_slope), abs(step_of_intercept)) < _TOLERANCE:
            return slope, intercept
    return None


def calibration_error(pairs: Pairs) -> float | None:
    """How far scores are from being probabilities: the debiased calibration error.

    It compares mean score and share of positive labels in bins of scores, and takes off
    what chance alone would give. Example: in each bin the mean score is .2 above the
    share, as .8 and .6: a little less than .2.

    Returns:
        A number in [0, 1], 0 is best; None for fewer than 200 labels.

    Source:
        Kumar, Liang & Ma (2019), Verified uncertainty calibration, definition 5.2.
    """
    if len(pairs) < FEWEST_FOR_ERROR:
        return None
    sum_over_rows = 0.0
    plain_pairs = [(float(score), bool(label)) for score, label in pairs]
    for bin_pairs in _bins(sorted(plain_pairs, key=lambda pair: pair[0])):
        count = len(bin_pairs)
        if count > 1:  # the noise of one row cannot be estimated
            share = sum(label for _, label in bin_pairs) / count
            squared_error = (fmean(score for score, _ in bin_pairs) - share) ** 2
            noise = share * (1 - share) / (count - 1)
            sum_over_rows += count * (squared_error - noise)
    mean_square = max(0.0, sum_over_rows / len(pairs))
    return sqrt(mean_square)


def _bins(sorted_pairs: Pairs) -> list[list[tuple[float, bool]]]:
    """Divide pairs, sorted by their scores, into ten bins of about the same size.

    Equal scores stay together. Example, with two bins: scores .1, .2, .2, .3 become
    [.1, .2, .2] and [.3].
    """
    pairs_per_bin = len(sorted_pairs) / _N_BINS
    bins: list[list[tuple[float, bool]]] = []
    previous_score: float | None = None
    for index, (score, label) in enumerate(sorted_pairs):
        is_tied = score == previous_score
        are_bins_full = index >= pairs_per_bin * len(bins)
        if are_bins_full and not is_tied:
            bins.append([])
        bins[-1].append((score, label))
        previous_score = score
    return bins
