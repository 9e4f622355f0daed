"""Clusters, paired differences, permutation, McNemar, Holm and power against scipy, statsmodels and closed forms."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as reference_mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.reporting.grouping import group_of
from ragmetrics_core.statistics.means import mean_interval, ratio_mean
from ragmetrics_core.statistics.paired import (
    detectable,
    difference_interval,
    holm,
    mcnemar,
    pairs_needed,
    permutation,
)

VALUES = [0.2, 0.4, 0.9, 1.0, 0.0, 0.6, 0.8, 0.8, 1.0, 0.4]
KEYS = [0, 0, 0, 1, 1, 2, 2, -1, -1, 3]


def test_the_error_over_clusters_against_statsmodels() -> None:
    own = [key if key >= 0 else 10 + place for place, key in enumerate(KEYS)]
    fit = sm.OLS(VALUES, np.ones(10)).fit(cov_type="cluster", cov_kwds={"groups": own})
    assert ratio_mean(VALUES, KEYS)[1] == pytest.approx(fit.bse[0])
    found = mean_interval(VALUES, KEYS)
    assert found is not None
    assert found.clusters == 6
    assert found.design_effect == pytest.approx(fit.bse[0] ** 2 / (np.var(VALUES, ddof=1) / 10))


def test_the_interval_with_clusters_added_against_statsmodels() -> None:
    # Clusters of one size: adding a cluster at an end is adding its values.
    values, keys = [0.2, 0.4, 0.9, 1.0, 0.6, 0.8], [0, 0, 1, 1, 2, 2]
    more = [*values, 0, 0, 0, 0, 1, 1, 1, 1]
    groups = [*keys, 3, 3, 4, 4, 5, 5, 6, 6]
    fit = sm.OLS(more, np.ones(14)).fit(cov_type="cluster", cov_kwds={"groups": groups})
    half = stats.t.ppf(0.975, 6) * fit.bse[0]
    interval = mean_interval(values, keys)
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx(
        (max(0, fit.params[0] - half), min(1, fit.params[0] + half)), rel=1e-9
    )
    assert interval.method == "t over 3 clusters, 2 added at 0 and 2 at 1"


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_one_cluster_and_equal_values_have_width(value: float) -> None:
    for keys in ([0] * 5, [0, 0, 1, 1, 1]):
        found = mean_interval([value] * 5, keys)
        assert found is not None
        assert found.low <= value <= found.high
        assert found.high > found.low
        assert found.design_effect is None


@pytest.mark.parametrize(
    ("by", "key"),
    [
        ("conversation_id", "c1"),
        ("metadata.user.id", 7),
        ("user.id", 7),
        ("user.none", None),
        ("id", "s1"),
        ("tags", '["a", "b"]'),
        (lambda sample: sample.question[0], "W"),
        ("auto", "conversation_id=c1"),
        (None, None),
    ],
)
def test_keys(by: Any, key: object) -> None:
    metadata = {"conversation_id": "c1", "user": {"id": 7}, "tags": ["a", "b"]}
    assert group_of(Sample(id="s1", question="Who?", metadata=metadata), by) == key


def test_no_key() -> None:
    assert group_of(Sample(question="q"), "auto") is None
    with pytest.raises(SettingError, match="name, a path"):
        group_of(Sample(), "")


def test_a_difference_by_hand() -> None:
    values = [0.2, -0.1, 0.4, 0.0]
    padded = [*values, 1.0, -1.0]
    # scipy.stats.t.interval over the differences and one of −1 and of +1
    low, high = stats.t.interval(0.95, 5, np.mean(padded), stats.sem(padded))
    found = difference_interval(values)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.method == "t with 1 added at −1 and 1 at 1"
    assert "over 2 clusters" in difference_interval(values, [0, 0, 1, 1]).method


# Binary fractions: sums that are equal are equal in floating point, too.
DIFFERENCES = st.lists(st.sampled_from([-1.0, -0.5, -0.25, 0.0, 0.25, 0.75, 1.0]), min_size=2, max_size=10)


@given(DIFFERENCES)
def test_permutation_against_scipy(values: list[float]) -> None:
    # scipy tries every pattern, those of zeros too, and counts ties with its own tolerance
    expected = stats.permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=2**11, vectorized=False
    ).pvalue if any(values) else 1.0  # fmt: skip
    found = permutation(values, [-1] * len(values))
    assert found.exact
    assert found.p == pytest.approx(min(1.0, expected))


def test_clusters_flip_as_a_whole() -> None:
    # Sums .4 and .4: of the four patterns both equal signs reach .8.
    assert permutation([0.2, 0.2, 0.4], [0, 0, 1]).p == 0.5
    assert permutation([0.2, -0.2, 0.4], [0, 0, 1]).p == 1.0  # a cluster that cancels out changes nothing


def test_exact_up_to_sixteen_and_random_above() -> None:
    sixteen = permutation([0.5] * 16, [-1] * 16)
    assert sixteen.exact
    assert sixteen.p == 2 / 2**16
    values = [0.3] * 20 + [-0.3] * 10 + [0.0] * 50
    found = permutation(values, [-1] * 80)
    assert not found.exact
    # A sum of signs: P(|20 − 10| or more of 30) is two-sided binomial, scipy.stats.binomtest(20, 30).pvalue
    expected = stats.binomtest(20, 30).pvalue
    assert found.p == pytest.approx(expected, abs=4 * sqrt(expected / 9999))
    assert found == permutation(values, [-1] * 80)
    assert permutation([1.0] * 100, [-1] * 100).p == 1 / 10_000


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 5), (3, 3), (10, 2), (0, 40)])
def test_mcnemar_against_statsmodels(first: int, second: int) -> None:
    expected = reference_mcnemar([[0, first], [second, 0]], exact=True).pvalue if first + second else 1.0
    assert mcnemar(first, second) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_against_statsmodels(values: list[float]) -> None:
    assert holm(values) == pytest.approx(list(multipletests(values, method="holm")[1]))


def test_power_against_statsmodels() -> None:
    pairs, spread = 400, 0.3
    smallest = detectable(spread / sqrt(pairs))
    # The normal approximation and the t test's power agree to .001 at 400 pairs.
    assert TTestPower().power(smallest / spread, pairs, 0.05) == pytest.approx(0.8, abs=0.002)
    expected = TTestPower().solve_power(0.02 / spread, power=0.8, alpha=0.05)
    assert pairs_needed(spread / sqrt(pairs), pairs, 0.02) == pytest.approx(expected, rel=0.002)
