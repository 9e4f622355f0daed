"""Means and intervals against hand-worked values, scipy 1.17.1, and their laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core.data.errors import InputError
from ragmetrics_core.statistics.means import (
    Interval,
    mean,
    mean_interval,
    median,
    padded_t_interval,
    sd,
)

SCORES = st.lists(
    st.floats(0, 1) | st.sampled_from([0.0, 0.2, 0.5, 1.0]), min_size=1, max_size=40
)


def interval_of(values: list[float], **settings: float | bool) -> Interval:
    interval = mean_interval(values, **settings)  # type: ignore[arg-type]
    assert interval is not None
    return interval


def test_nothing_and_one_value():
    assert (mean([]), median([]), sd([]), mean_interval([])) == (None, None, None, None)
    assert (mean([0.3]), sd([0.3])) == (0.3, None)
    assert interval_of([0.3]).high > interval_of([0.3]).low


def test_t_interval_with_two_scores_added_at_each_end():
    interval = interval_of([0.8, 0.6, 1, 0.4, 0.8])
    # scipy.stats.t.interval(.95, 8, mean(x), sem(x)) of the scores and 0, 0, 1, 1,
    # scipy 1.17.1
    assert (interval.low, interval.high) == pytest.approx(
        (0.31051387670371894, 0.9339305677407255), rel=1e-10
    )
    assert interval.method == "t with 2 added at 0 and 2 at 1"


def test_two_valued_scores_get_wilson():
    interval = interval_of([1, 1, 0, 1])
    # scipy.stats.binomtest(3, 4).proportion_ci(method="wilson"), scipy 1.17.1
    assert (interval.low, interval.high) == pytest.approx(
        (0.30064184258240184, 0.9544127391902995)
    )
    assert interval.method == "Wilson"


@pytest.mark.parametrize(
    ("values", "keys", "method"),
    [
        ([0.1 + index / 1000 for index in range(400)], [], "t with"),
        ([0.1 + index / 1000 for index in range(400)], [-1] * 400, "t with"),
        ([0.0] * 30 + [1.0] * 30, [], "Wilson"),
        ([0.0] * 30 + [1.0] * 30, list(range(60)), "Wilson"),
        ([0.0] * 30 + [1.0] * 30, [0, 0, *range(1, 59)], "t over 59 clusters"),
    ],
)
def test_choice_of_method(values, keys, method):
    interval = mean_interval(values, keys)
    assert interval.method.startswith(method)


@pytest.mark.parametrize("value", [0.0, 0.1, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("count", [1, 2, 299, 300, 2000])
def test_equal_scores_never_give_zero_width(value, count):
    interval = interval_of([value] * count)
    assert interval.high > interval.low
    assert interval.low <= value <= interval.high


def test_extreme_skewness_stays_in_range():
    for values in (
        [0.0] * 300 + [1e-6 * index for index in range(1, 11)] + [1.0],
        [1.0] * 2000 + [0.0, *[0.999] * 10],
    ):
        interval = interval_of(values)
        assert 0 <= interval.low < interval.high <= 1
        assert (
            padded_t_interval(values, (), ends=(0.0, 1.0), added=2, level=0.9999).high
            >= interval.high
        )


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan"), float("inf")])
def test_scores_outside_the_range_are_refused(bad):
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        mean_interval([0.5, bad])


@given(SCORES)
def test_a_higher_level_is_wider(values):
    narrow, middle, wide = (
        padded_t_interval(values, (), ends=(0.0, 1.0), added=2, level=own)
        for own in (0.8, 0.95, 0.9999)
    )
    assert (
        0
        <= wide.low
        <= middle.low
        <= narrow.low
        <= narrow.high
        <= middle.high
        <= wide.high
        <= 1
    )


@given(st.floats(0, 1), st.integers(1, 50))
def test_the_mean_of_equal_scores_is_exact(value, count):
    assert mean([value] * count) == value
