"""Agreement with people against values worked by hand, and against scikit-learn, scipy and statsmodels where named."""

import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from ragmetrics_core.statistics.rater_agreement import (
    MEASURES,
    Labelled,
    bootstrap,
    calibration_error,
    correlation,
    human_kappa,
    line,
    measure_all,
    slope_and_intercept,
    spearman,
)


def test_calibration_is_the_line_of_labels_on_scores():
    assert line([(0.2, 0.1), (0.4, 0.2), (0.8, 0.4)]) == pytest.approx((0.5, 0.0))
    assert line([(0.0, 0.0), (1.0, 1.0)]) == (1.0, 0.0)
    assert line([(0.5, 0.0), (0.5, 1.0)]) is None
    assert line([]) is None
    assert correlation([(0.5, 0.0), (0.5, 1.0)]) is None


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.2, 0.5, 1.0]), st.integers(0, 5).map(float)),
        min_size=3,
    )
)
def test_spearman_against_scipy(pairs):
    left, right = zip(*pairs, strict=True)
    if len(set(left)) > 1 and len(set(right)) > 1:
        assert spearman(pairs) == pytest.approx(spearmanr(left, right).statistic)
    else:
        assert spearman(pairs) is None


def calibrated(count: int, sharpen: float, seed: int = 0) -> list[tuple[float, bool]]:
    """Scores whose log-odds are ``sharpen`` times those of the label's true probability."""
    draw = random.Random(seed)
    truth = [draw.uniform(0.05, 0.95) for _ in range(count)]
    return [
        (p**sharpen / (p**sharpen + (1 - p) ** sharpen), draw.random() < p)
        for p in truth
    ]


def test_calibration_slope_against_statsmodels():
    pairs = tuple(calibrated(300, 2.0))
    # sm.Logit(labels, sm.add_constant(log-odds)).fit().params, statsmodels 0.15.0;
    # scores twice as sure as they should
    assert slope_and_intercept(pairs) == pytest.approx(
        (0.44911903819604776, -0.10501884361895528), abs=1e-6
    )
    assert (
        slope_and_intercept(((0.1, False), (0.5, True), (0.5, False), (0.9, True)))
        is None
    )  # separated but for a tie
    assert slope_and_intercept(((0.5, True), (0.5, False))) is None


def test_the_debiased_error_is_near_zero_for_calibrated_scores_and_not_for_others():
    means = [calibration_error(calibrated(400, 1.0, seed)) or 0.0 for seed in range(20)]
    assert sum(means) / 20 < 0.03
    assert (calibration_error(calibrated(400, 4.0)) or 0) > 0.1
    assert calibration_error(calibrated(199, 1.0)) is None


def rows_of(source: str, *given: tuple[float, bool]) -> list[list[Labelled]]:
    """Rows of which each stands alone."""
    return [[Labelled(score, (label,), source)] for score, label in given]


def test_sources_are_never_pooled():
    # Perfect within each source, and below chance if both were pooled.
    rows = rows_of("a", (0.1, False), (0.2, True), (0.1, False), (0.2, True)) + rows_of(
        "b", (0.8, False), (0.9, True), (0.8, False), (0.9, True)
    )
    found = {
        (one.measure, one.source): one for one in measure_all(rows, MEASURES, draws=50)
    }
    assert [found["AUROC", place].value for place in ("a", "b", None)] == [
        1.0,
        1.0,
        1.0,
    ]
    assert found["AUROC", None].interval is None
    assert found["AUROC", None].count == 2
    assert found["prevalence", "a"].value == 0.5
    assert found["calibration error", "a"].value is None


def test_resamples_that_agree_give_no_interval():
    perfect = rows_of("a", *[(0.1, False), (0.9, True)] * 4)
    mixed = rows_of("b", *[(0.1, False), (0.9, True), (0.4, True), (0.6, False)] * 4)
    alone = {
        one.measure: one.interval for one in measure_all(perfect, MEASURES, draws=200)
    }
    for measure in ("AUROC", "balanced accuracy", "MCC", "kappa"):
        assert alone[measure] is None, measure
    assert alone["prevalence"] is not None
    both = {
        (one.measure, one.source): one.interval
        for one in measure_all([*perfect, *mixed], MEASURES, draws=200)
    }
    assert both["AUROC", "b"] is not None
    # it would take the perfect source for one without any doubt
    assert both["AUROC", None] is None
    # each is half right as a whole
    pairs = [[*one, *two] for one, two in zip(mixed[::2], mixed[1::2], strict=True)]
    whole = {
        one.measure: one
        for one in measure_all(pairs, MEASURES, draws=200)
        if one.source
    }
    assert (whole["AUROC"].count, whole["balanced accuracy"].count) == (8, 8)
    # one of each pair is a yes, whichever are drawn
    assert whole["prevalence"].interval is None
    assert bootstrap([[0.1, 0.1, 0.1]], fmean, draws=50) is None
    assert bootstrap([[0.5]], fmean, draws=50) is None


def test_the_human_ceiling():
    votes = [
        (True, True, False),
        (True, True),
        (False, False, False),
        (False, True, True),
        (True, False, True),
    ]
    rows = [Labelled(0.5, own) for own in votes]
    # sklearn.metrics.cohen_kappa_score of annotators 1 and 2, 1 and 3, 2 and 3: 1/6, 0,
    # 0 (scikit-learn 1.9.1)
    assert human_kappa(rows) == pytest.approx(1 / 18)
    assert [row.is_labelled_yes for row in rows] == [True, True, False, True, True]


def test_a_source_of_one_class_is_left_out_of_the_mean_kappa():
    rows = [
        [Labelled(score, (label,), "both")]
        for score, label in ((0.1, False), (0.9, True), (0.8, False))
    ]
    rows += [[Labelled(score, (True,), "yes only")] for score in (0.9, 0.9, 0.1)]
    found = {
        one.source: one
        for one in measure_all(rows, {"kappa": MEASURES["kappa"]}, draws=20)
    }
    assert (found["yes only"].value, found[None].count, found[None].value) == (
        None,
        1,
        found["both"].value,
    )


@pytest.mark.parametrize(("labels", "sources"), [((True, False), 1), ((True, True), 0)])
def test_the_mean_over_one_source_says_over_how_many_it_is(labels, sources):
    rows = [
        [Labelled(score, (label,), "only")]
        for score, label in zip((0.9, 0.1), labels, strict=True)
    ]
    (_, mean) = measure_all(rows, {"kappa": MEASURES["kappa"]}, draws=20)
    assert (mean.source, mean.count, mean.value is None) == (None, sources, not sources)


def test_one_half_is_a_no_and_a_verdict_of_its_own_goes_before_the_score():
    scores = (0.49, 0.5, 0.51)
    verdicts = [Labelled(score, (True,)).is_judged_yes() for score in scores]
    assert verdicts == [False, False, True]
    assert Labelled(0.9, (True,), verdict=False).is_judged_yes() is False
    assert Labelled(0.1, (True,), verdict=True).is_judged_yes() is True
