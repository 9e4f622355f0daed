"""Clusters, paired differences, permutation, Holm and power against scipy, statsmodels and closed forms."""

from math import sqrt

import numpy as np
import pytest
from scipy import stats

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.reporting.groups import group_of
from ragmetrics_core.statistics.means import (
    detectable,
    difference_interval,
    mean_interval,
    one_sided_bounds,
    permutation,
    ratio_mean,
    standard_error,
    sum_clusters,
)

VALUES = [0.2, 0.4, 0.9, 1.0, 0.0, 0.6, 0.8, 0.8, 1.0, 0.4]
KEYS = [0, 0, 0, 1, 1, 2, 2, -1, -1, 3]


def test_the_error_over_clusters_against_statsmodels():
    # sm.OLS(VALUES, np.ones(10)).fit(cov_type="cluster", cov_kwds={"groups": …}).bse,
    # statsmodels 0.15.0
    assert ratio_mean(*sum_clusters(VALUES, KEYS))[1] == pytest.approx(
        0.07116178749862877
    )
    found = mean_interval(VALUES, KEYS)
    assert found.clusters == 6
    # over np.var(VALUES, ddof=1) / 10
    assert found.design_effect == pytest.approx(0.4185123966942147)


def test_the_interval_with_clusters_added_against_statsmodels():
    # Clusters of one size: adding a cluster at an end is adding its values.
    values, keys = [0.2, 0.4, 0.9, 1.0, 0.6, 0.8], [0, 0, 1, 1, 2, 2]
    # With 0, 0, 0, 0, 1, 1, 1, 1 in four clusters: .564286 ± stats.t.ppf(.975, 6) ·
    # .172763, statsmodels 0.15.0
    interval = mean_interval(values, keys)
    assert (interval.low, interval.high) == pytest.approx(
        (0.14155069932934677, 0.9870207292420821), rel=1e-9
    )
    assert interval.method == "t over 3 clusters, 2 added at 0 and 2 at 1"


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_one_cluster_and_equal_values_have_width(value):
    for keys in ([0] * 5, [0, 0, 1, 1, 1]):
        found = mean_interval([value] * 5, keys)
        assert found.low <= value <= found.high
        assert found.high > found.low
        assert found.design_effect is None


@pytest.mark.parametrize(
    ("by", "key"),
    [
        ("conversation_id", "c1"),
        ("metadata.user.id", "7"),
        ("user.id", "7"),
        ("user.none", None),
        ("team.name", "red"),
        ("metadata.team.name", "red"),
        ("metadata.team.size", "4"),
        ("trace.mlflow.user", "8"),
        ("id", "s1"),
        ("tags", '["a", "b"]'),
        ("auto", "conversation_id=c1"),
        (None, None),
    ],
)
def test_keys(by, key):
    metadata = {
        "conversation_id": "c1",
        "user": {"id": 7},
        "tags": ["a", "b"],
        "team.name": "red",
        "metadata.team.size": 4,
        "trace": {"mlflow.user": 8},
    }
    assert group_of(Sample(id="s1", question="Who?", metadata=metadata), by) == key


def test_no_key():
    assert group_of(Sample(answer="a"), "auto") is None
    assert group_of(Sample(question=" "), "auto") is None
    with pytest.raises(SettingError, match="name, a path"):
        group_of(Sample(), "")


def test_a_difference_by_hand():
    values = [0.2, -0.1, 0.4, 0.0]
    padded = [*values, 1.0, -1.0]
    # scipy.stats.t.interval over the differences and one of −1 and of +1
    low, high = stats.t.interval(0.95, 5, np.mean(padded), stats.sem(padded))
    found = difference_interval(values)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.method == "t with 1 added at −1 and 1 at 1"
    assert "over 2 clusters" in difference_interval(values, [0, 0, 1, 1]).method


def test_one_sided_bounds_and_their_standard_error_by_hand():
    # Eight ties, −1 and 1: squares of 2 over ten pairs, so the error is √(2 · 10/9) /
    # 10 = .149071; scipy.stats.t.ppf(.95, 9) = 1.833113 of it are .273264, and the
    # normal quantile of .95 is 1.644854.
    assert one_sided_bounds([0.0] * 8, []) == pytest.approx(
        (-0.273264, 0.273264), abs=1e-6
    )
    assert standard_error([0.0] * 8, []) == pytest.approx(0.273264 / 1.644854, abs=1e-6)
    # As four pairs of twins: √(2 · 4 · 6/5) / 12 = .258199, t with 5 degrees of freedom
    # 2.015048
    assert one_sided_bounds([0.0] * 8, [0, 0, 1, 1, 2, 2, 3, 3]) == pytest.approx(
        (-0.520283, 0.520283), abs=1e-6
    )


def test_clusters_flip_as_a_whole():
    # Sums .4 and .4: of the four patterns both equal signs reach .8.
    assert permutation([0.2, 0.2, 0.4], [0, 0, 1]).p == 0.5
    # a cluster that cancels out changes nothing
    assert permutation([0.2, -0.2, 0.4], [0, 0, 1]).p == 1.0


def test_exact_up_to_sixteen_and_random_above():
    sixteen = permutation([0.5] * 16, [-1] * 16)
    assert sixteen.exact
    assert sixteen.p == 2 / 2**16
    assert not permutation([0.5] * 17, [-1] * 17).exact
    values = [0.3] * 20 + [-0.3] * 10 + [0.0] * 50
    found = permutation(values, [-1] * 80)
    assert not found.exact
    # A sum of signs: P(|20 − 10| or more of 30) is two-sided binomial,
    # scipy.stats.binomtest(20, 30).pvalue
    expected = stats.binomtest(20, 30).pvalue
    assert found.p == pytest.approx(expected, abs=4 * sqrt(expected / 9999))
    assert found == permutation(values, [-1] * 80)
    assert permutation([1.0] * 100, [-1] * 100).p == 1 / 10_000


def test_power_against_statsmodels():
    # TTestPower().solve_power, statsmodels 0.15.0; the normal approximation and the t
    # test agree to .2 % here.
    error = 0.3 / sqrt(400)
    assert detectable(error) == pytest.approx(0.042125231047658855, rel=0.003)
