"""Laws of the statistics: order, mirrors and range for any rows; equality with brute force and other libraries.

Libraries that take seconds to load are asked at night; by day the definitions are
written out.
"""

import random
import statistics
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, product
from math import fsum, isclose

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lanes import examples
from scipy import stats

from ragmetrics_core.data.scalars import stopped_estimate, wilson
from ragmetrics_core.statistics import means, rater_agreement
from ragmetrics_core.statistics.corrected_means import Scores, ppi

GRADES = [0.0, 0.2, 0.25, 0.5, 0.8, 1.0]
# In 64ths, so that one less a score is exact.
SCORES = st.lists(
    st.sampled_from(GRADES) | st.integers(0, 64).map(lambda part: part / 64),
    min_size=1,
    max_size=30,
)
VERDICT_PAIRS = st.lists(
    st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=25
)
SCORE_PAIRS = st.lists(
    st.tuples(st.sampled_from(GRADES), st.booleans()), min_size=2, max_size=25
)
FEW_EXAMPLES = settings(max_examples=examples(30), deadline=None)


@st.composite
def clustered(draw: st.DrawFn) -> tuple[list[float], list[int]]:
    """Scores with the numbers of their clusters, negative for one of its own."""
    scores = draw(SCORES)
    keys = draw(
        st.lists(st.integers(-1, 4), min_size=len(scores), max_size=len(scores))
    )
    return scores, keys


# Means and their intervals.


@FEW_EXAMPLES
@given(SCORES)
def test_a_median_is_that_of_the_standard_library(scores):
    assert means.median(scores) == pytest.approx(statistics.median(scores), abs=1e-15)


def test_numbers_of_many_scores_are_those_of_few_at_a_time():
    chance = random.Random(1)
    # more than are objects of Python at one time
    scores = chance.choices(GRADES, k=200_003)
    keys = chance.choices(range(-1, 1000), k=len(scores))
    assert means.median(scores) == statistics.median(scores)
    assert means.median(scores[:200_000]) == statistics.median(scores[:200_000])
    sums, sizes = means.sum_clusters(scores, keys)
    counted = Counter(keys)
    alone = counted.pop(-1)
    assert sorted(sizes) == sorted([*map(float, counted.values()), *[1.0] * alone])
    assert fsum(sums) == pytest.approx(fsum(scores))


@FEW_EXAMPLES
@given(SCORES)
def test_a_standard_deviation_is_that_of_the_standard_library(scores):
    assume(len(scores) > 1)
    assert means.sd(scores) == pytest.approx(statistics.stdev(scores), abs=1e-12)


@FEW_EXAMPLES
@given(st.floats(0.6, 0.9999), st.integers(1, 1100))
def test_quantiles_of_t_are_those_of_scipy(share, freedom):
    assert means.t_quantile(share, freedom) == pytest.approx(
        stats.t.ppf(share, freedom), rel=1e-8
    )


@FEW_EXAMPLES
@given(clustered(), st.randoms(use_true_random=False))
def test_the_order_of_scores_and_the_names_of_clusters_say_nothing(case, chance):
    scores, keys = case
    rows = list(zip(scores, keys, strict=True))
    chance.shuffle(rows)
    renamed = {key: key if key < 0 else 1000 - 7 * key for key in keys}
    shuffled = means.mean_interval(
        [score for score, _ in rows], [renamed[key] for _, key in rows]
    )
    expected = means.mean_interval(scores, keys)
    assert (shuffled.low, shuffled.high) == pytest.approx(
        (expected.low, expected.high), abs=1e-9
    )
    assert (shuffled.method, shuffled.clusters) == (expected.method, expected.clusters)


@FEW_EXAMPLES
@given(clustered())
def test_the_interval_of_the_misses_is_the_mirror_of_that_of_the_scores(case):
    scores, keys = case
    expected = means.mean_interval(scores, keys)
    mirrored = means.mean_interval([1 - score for score in scores], keys)
    assert (mirrored.low, mirrored.high) == pytest.approx(
        (1 - expected.high, 1 - expected.low), abs=1e-9
    )
    centre = means.mean(scores)
    assert centre is not None
    assert 0 <= expected.low <= centre <= expected.high <= 1


@FEW_EXAMPLES
@given(SCORES)
def test_scores_that_stand_alone_are_clusters_of_one(scores):
    alone = means.mean_interval(scores)
    assert means.mean_interval(scores, [-1] * len(scores)) == alone
    assert means.mean_interval(scores, range(len(scores))) == alone
    assert not means.share_clusters(range(len(scores)))
    assert means.share_clusters([*range(len(scores)), 0])


@FEW_EXAMPLES
@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 4)), min_size=2, max_size=8))
def test_a_ratio_mean_is_the_formula_of_its_source(clusters):
    sums, sizes = (
        [float(total) for total, _ in clusters],
        [float(size) for _, size in clusters],
    )
    centre, error, freedom = means.ratio_mean(sums, sizes)
    assert centre == pytest.approx(sum(sums) / sum(sizes))
    count = len(clusters)
    residuals = [total - centre * size for total, size in zip(sums, sizes, strict=True)]
    variance = count / (count - 1) * sum(own**2 for own in residuals) / sum(sizes) ** 2
    assert error == pytest.approx(variance**0.5)
    assert freedom == count - 1


@FEW_EXAMPLES
@given(st.integers(1, 60), st.data())
def test_at_wilsons_bounds_the_share_seen_is_just_as_many_errors_away_as_the_level_allows(
    count, data
):
    successes = data.draw(st.integers(0, count))
    low, high = wilson(successes, count)
    errors_away = statistics.NormalDist().inv_cdf(0.975)
    for bound in (low, high):
        variance = bound * (1 - bound) / count
        assert (successes / count - bound) ** 2 == pytest.approx(
            errors_away**2 * variance, abs=1e-9
        )
    assert 0 <= low <= successes / count <= high <= 1
    if successes < count:
        more = wilson(successes + 1, count)
        assert (low <= more[0], high <= more[1]) == (True, True)


@pytest.mark.parametrize("count", [0, -1])
def test_a_share_of_nothing_is_refused(count):
    with pytest.raises(ValueError, match="at least one trial"):
        wilson(0, count)


@pytest.mark.parametrize("polls", [3, 5, 7, 9, 11, 13, 15])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.8, 1.0])
def test_the_estimate_after_an_early_stop_is_unbiased(polls, share):
    wanted, unwanted = polls // 2 + 1, (polls + 1) // 2
    expectation, total = 0.0, 0.0
    open_sequences: list[tuple[bool, ...]] = [()]
    while open_sequences:
        verdicts = open_sequences.pop()
        yes, no = sum(verdicts), len(verdicts) - sum(verdicts)
        if yes == wanted or no == unwanted:
            chance = share**yes * (1 - share) ** no
            estimate = stopped_estimate(verdicts, polls)
            assert 0 <= estimate <= 1
            expectation += chance * estimate
            total += chance
        else:
            open_sequences += [(*verdicts, True), (*verdicts, False)]
    assert (total, expectation) == pytest.approx((1, share))
    assert stopped_estimate([True, False], 5) == 0.5  # nothing is decided


# Two runs.


def _permuted_by_force(sums: Sequence[float]) -> float:
    observed = abs(fsum(sums)) - 1e-9
    totals = [
        abs(fsum(sign * own for sign, own in zip(signs, sums, strict=True)))
        for signs in product((1, -1), repeat=len(sums))
    ]
    return sum(total >= observed for total in totals) / len(totals)


@FEW_EXAMPLES
@given(
    st.lists(
        st.sampled_from([-1.0, -0.6, -0.2, 0.0, 0.1, 0.3, 0.7]), min_size=1, max_size=10
    ),
    st.lists(st.integers(-1, 2), min_size=10, max_size=10),
)
def test_an_exact_permutation_test_is_brute_force_over_clusters(differences, keys):
    keys = keys[: len(differences)]
    sums = [own for own in means.sum_clusters(differences, keys)[0] if abs(own) > 1e-9]
    found = means.permutation(differences, keys)
    assert found == (pytest.approx(_permuted_by_force(sums)), True)
    assert means.permutation([-own for own in differences], keys) == found


@FEW_EXAMPLES
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30))
def test_the_interval_of_a_difference_is_mirrored_where_the_runs_change_places(
    differences,
):
    forth, back = (
        means.difference_interval(differences),
        means.difference_interval([-own for own in differences]),
    )
    assert (back.low, back.high) == pytest.approx((-forth.high, -forth.low), abs=1e-9)
    assert -1 <= forth.low <= forth.high <= 1
    low, high = means.one_sided_bounds(differences, [])
    assert forth.low - 1e-12 <= low <= high <= forth.high + 1e-12
    assert means.standard_error(differences, []) > 0


@FEW_EXAMPLES
@given(st.integers(0, 40), st.integers(0, 40))
def test_mcnemar_is_a_binomial_test(first, second):
    expected = stats.binomtest(first, first + second).pvalue if first + second else 1.0
    assert means.mcnemar(first, second) == pytest.approx(expected)
    assert means.mcnemar(first, second) == means.mcnemar(second, first)


def _closed_bonferroni(p_values: Sequence[float], tested: int) -> float:
    """The largest p-value of Bonferroni over all sets of tests that one test is in."""
    others = [p_value for place, p_value in enumerate(p_values) if place != tested]
    largest = 0.0
    for size in range(len(p_values)):
        for further in combinations(others, size):
            together = [p_values[tested], *further]
            largest = max(largest, min(1.0, len(together) * min(together)))
    return largest


@FEW_EXAMPLES
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closed_test_of_bonferroni(p_values):
    expected = [_closed_bonferroni(p_values, tested) for tested in range(len(p_values))]
    assert means.holm(p_values) == pytest.approx(expected)


# Agreement with people.


@FEW_EXAMPLES
@given(SCORE_PAIRS)
def test_auroc_is_the_share_of_pairs_in_order_and_brier_the_mean_square(pairs):
    positive, negative = (
        [score for score, label in pairs if label is wanted] for wanted in (True, False)
    )
    above = [
        float(one > other) + (one == other) / 2
        for one in positive
        for other in negative
    ]
    expected = None if not above else pytest.approx(sum(above) / len(above))
    assert rater_agreement.auroc(pairs) == expected
    squares = [(score - label) ** 2 for score, label in pairs]
    assert rater_agreement.brier(pairs) == pytest.approx(sum(squares) / len(squares))


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator else None


def _close_to(expected: float | None) -> object:
    return None if expected is None else pytest.approx(expected, abs=1e-12)


@FEW_EXAMPLES
@given(VERDICT_PAIRS)
def test_measures_of_verdicts_are_the_formulas_of_the_table_of_four(pairs):
    counted = Counter(pairs)
    hits, false_alarms = counted[True, True], counted[True, False]
    misses, rejections = counted[False, True], counted[False, False]
    positive, negative = hits + misses, false_alarms + rejections
    marked, unmarked = hits + false_alarms, misses + rejections
    total = len(pairs)
    both_accuracies = hits * negative + rejections * positive
    determinant = hits * rejections - false_alarms * misses
    assert rater_agreement.accuracy(pairs) == pytest.approx((hits + rejections) / total)
    assert rater_agreement.balanced_accuracy(pairs) == _close_to(
        _ratio(both_accuracies, 2 * positive * negative)
    )
    assert rater_agreement.f1(pairs) == _close_to(_ratio(2 * hits, positive + marked))
    assert rater_agreement.matthews(pairs) == _close_to(
        _ratio(determinant, (positive * negative * marked * unmarked) ** 0.5)
    )
    assert rater_agreement.kappa(pairs) == _close_to(
        _ratio(2 * determinant, marked * negative + unmarked * positive)
    )
    swapped = [(label, verdict) for verdict, label in pairs]
    for measure in (
        rater_agreement.kappa,
        rater_agreement.matthews,
        rater_agreement.f1,
        rater_agreement.accuracy,
    ):
        assert measure(pairs) == _close_to(measure(swapped))


@pytest.mark.nightly  # scikit-learn and statsmodels take ten seconds to load
@given(VERDICT_PAIRS, st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(deadline=None)
def test_measures_are_those_of_other_libraries(pairs, p_values):
    from sklearn import metrics as sklearn_metrics
    from statsmodels.stats.multitest import multipletests
    from statsmodels.stats.proportion import proportion_confint

    verdicts, labels = [verdict for verdict, _ in pairs], [label for _, label in pairs]
    assert rater_agreement.accuracy(pairs) == pytest.approx(
        sklearn_metrics.accuracy_score(labels, verdicts)
    )
    if len(set(labels)) == 2:
        expected = sklearn_metrics.balanced_accuracy_score(labels, verdicts)
        assert rater_agreement.balanced_accuracy(pairs) == pytest.approx(expected)
    if any(labels) or any(verdicts):
        assert rater_agreement.f1(pairs) == pytest.approx(
            sklearn_metrics.f1_score(labels, verdicts)
        )
    if len(set(labels)) == len(set(verdicts)) == 2:
        expected = sklearn_metrics.matthews_corrcoef(labels, verdicts)
        assert rater_agreement.matthews(pairs) == pytest.approx(expected, abs=1e-12)
    if len({*labels, *verdicts}) == 2:
        expected = sklearn_metrics.cohen_kappa_score(labels, verdicts)
        assert rater_agreement.kappa(pairs) == pytest.approx(expected, abs=1e-12)
    assert means.holm(p_values) == pytest.approx(
        multipletests(p_values, method="holm")[1]
    )
    successes, count = sum(labels), len(labels)
    expected_bounds = proportion_confint(successes, count, method="wilson")
    assert wilson(successes, count) == pytest.approx(expected_bounds, abs=1e-9)


def test_the_calibration_error_by_hand():
    # Two bins of 100: .2 with 30 of 100, .9 with 80 of 100; each less share · (1 −
    # share) / 99.
    pairs = [(0.2, n < 30) for n in range(100)] + [(0.9, n < 80) for n in range(100)]
    expected = (((0.1**2 - 0.3 * 0.7 / 99) + (0.1**2 - 0.8 * 0.2 / 99)) / 2) ** 0.5
    assert rater_agreement.calibration_error(pairs) == pytest.approx(expected)
    assert rater_agreement.calibration_error(pairs[1:]) is None
    right = [(0.5, n % 2 == 0) for n in range(200)]
    assert rater_agreement.calibration_error(right) == 0.0


def test_a_bin_of_one_row_adds_nothing_to_the_calibration_error():
    # The noise of one row cannot be estimated. 199 rows of one score stay in one bin.
    pairs = [(0.5, n < 150) for n in range(199)] + [(0.9, False)]
    share = 150 / 199
    of_the_large_bin = (0.5 - share) ** 2 - share * (1 - share) / 198
    expected = (199 / 200 * of_the_large_bin) ** 0.5
    assert rater_agreement.calibration_error(pairs) == pytest.approx(expected)


# Means as people would count them.


@FEW_EXAMPLES
@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from(GRADES)), min_size=12, max_size=40
    ),
    SCORES,
)
def test_a_calibrated_mean_of_the_noes_is_the_mirror(rows, others):
    labels, scores = [label for label, _ in rows], [score for _, score in rows]
    alone, rest = Scores(scores, [-1] * len(scores)), Scores(others, [-1] * len(others))
    turned = (
        Scores([1 - own for own in scores], alone.cluster_numbers),
        Scores([1 - own for own in others], rest.cluster_numbers),
    )
    found, mirrored = (
        ppi(labels, alone, rest),
        ppi([not label for label in labels], *turned),
    )
    assert mirrored.mean == pytest.approx(1 - found.mean, abs=1e-9)
    bounds = (1 - found.interval.high, 1 - found.interval.low)
    assert (mirrored.interval.low, mirrored.interval.high) == pytest.approx(
        bounds, abs=1e-9
    )
    assert 0 <= found.interval.low <= found.mean <= found.interval.high <= 1
    assert found.weight is None or 0 <= found.weight <= 1
    assert (found.labelled, found.unlabelled) == (len(labels), len(others))


# Coverage, by simulation with seeds; the benchmark has the large grid.


@pytest.mark.parametrize("mean", [0.5, 0.9, 0.97])
def test_intervals_cover_the_mean_of_polls_in_clusters(mean):
    chance = np.random.default_rng(28)
    covered = 0
    for _ in range(200):
        centres = chance.beta(20 * mean, 20 * (1 - mean), size=25)
        scores = [
            float(own)
            for centre in centres
            for own in chance.binomial(5, centre, size=3) / 5
        ]
        interval = means.mean_interval(scores, [place // 3 for place in range(75)])
        assert interval is not None
        covered += interval.low <= mean <= interval.high
    assert covered / 200 >= 0.92
    assert isclose(covered / 200, 0.96, abs_tol=0.045)
