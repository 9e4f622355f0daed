"""Agreement statistics against values worked by hand, and against scipy and scikit-learn where named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core.statistics.agreement import accuracy, auroc, correlation, f1, kappa, line, spearman

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=20)


def test_verdicts() -> None:
    pairs = [(True, True), (True, True), (True, False), (False, True), (False, False)]
    assert accuracy(pairs) == pytest.approx(0.6)
    assert f1(pairs) == pytest.approx(2 / 3)  # precision and recall are both 2 / 3
    assert f1([(False, False)]) is None
    assert accuracy([]) is None
    assert auroc([(0.9, True), (0.5, False), (0.5, True)]) == pytest.approx(0.75)


def test_ranks() -> None:
    # Pearson's r of the ranks (1, 2.5, 2.5, 4) and (1, 3, 2, 4), as scipy.stats.spearmanr gives it.
    assert spearman([(1, 10), (2, 30), (2, 20), (3, 40)]) == pytest.approx(0.9486832980505138)
    assert spearman([(1, 1), (1, 2)]) is None
    assert spearman([]) is None


@given(PAIRS)
def test_ranks_know_no_scale(pairs: list[tuple[int, int]]) -> None:
    value = spearman(pairs)
    assert value == spearman([(left**3, 2 * right + 1) for left, right in pairs])
    assert value is None or -1.000001 <= value <= 1.000001
    flipped = spearman([(-left, right) for left, right in pairs])
    assert flipped == (None if value is None else pytest.approx(-value))


def test_calibration_is_the_line_of_labels_on_scores() -> None:
    assert line([(0.2, 0.1), (0.4, 0.2), (0.8, 0.4)]) == pytest.approx((0.5, 0.0))
    assert line([(0.0, 0.0), (1.0, 1.0)]) == (1.0, 0.0)
    assert line([(0.5, 0.0), (0.5, 1.0)]) is None
    assert line([]) is None
    assert correlation([(0.5, 0.0), (0.5, 1.0)]) is None


def test_kappa() -> None:
    # Cohen's 20/5/10/15 table: observed .7, by chance .5.
    table = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert kappa(table) == pytest.approx(0.4)
    assert kappa([("y", "y")] * 3) is None
    assert kappa([("y", "n"), ("n", "y")]) == pytest.approx(-1)
    assert kappa([]) is None
