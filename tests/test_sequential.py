"""Gates that stop as soon as they are decided: values worked by hand, and the laws of the design."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, permutations, product
from math import inf, sqrt
from pathlib import Path
from random import Random
from statistics import fmean
from types import ModuleType

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lanes import examples

from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.reporting.gates import UntilDecided
from ragmetrics_core.statistics.stopping import (
    Outcome,
    Score,
    SequentialGate,
    draw_order,
    join_outcomes,
)

Unit = tuple[Score, ...]

JUST_ABOVE = 0.5 + 2e-9
"""A threshold that is still above one half after it has been lowered against rounding.
"""


def fed(gate: SequentialGate, units: Iterable[Unit]) -> SequentialGate:
    for unit in units:
        gate.update(*unit)
    return gate


def ones(count: int) -> list[Unit]:
    return [(1.0,)] * count


# Stakes against *mean ≤ .5*: δ / .5, at most .95: .032, .08, .2, .5 and .95. A 1 pays 2
# for 1, so that the wealth is 1.032, 1.08, 1.2, 1.5 and 1.95. Mean ≤ .5 of four units,
# one of them 1: the other three have a mean of at most 1/3, the stakes are δ · (4/3) /
# (2/3), .032, .08, .2, .5 and .95 again, and a 1 pays 3 for 1.
@pytest.mark.parametrize(
    ("options", "units", "e_value"),
    [
        ({}, [(1.0,)], 6.762 / 5),
        ({}, [(1.0,), (1.0,)], (1.065024 + 1.1664 + 1.44 + 2.25 + 3.8025) / 5),
        ({}, [(1.0,), (0.0,)], 6.762 / 5),  # the highest so far; now it is .76
        ({}, [(0.75,)], (1.016 + 1.04 + 1.1 + 1.25 + 1.475) / 5),
        ({}, [(0.0,)], 6.762 / 5),  # the same against *mean ≥ .5*
        ({}, [(1.0,), ()], 6.762 / 5),
        ({}, [(None,)], 1.0),
        ({"population": 4}, [(1.0,)], 6.762 / 5),
        (
            {"population": 4},
            [(1.0,), (1.0,)],
            (1.032 * 1.064 + 1.08 * 1.16 + 1.2 * 1.4 + 1.5 * 2 + 1.95 * 2.9) / 5,
        ),
        ({"population": 4}, [(1.0,), (1.0,), (1.0,)], inf),
        ({"population": 4}, [(1.0,), (0.0,), (0.0,), (0.0,)], inf),
        ({"largest_cluster": 2}, [(1.0, 1.0)], 6.762 / 5),
        ({"largest_cluster": 2}, [(1.0,)], (1.016 + 1.04 + 1.1 + 1.25 + 1.475) / 5),
        ({"largest_cluster": 2}, [(1.0, 0.0)], 1.0),
    ],
)
def test_evidence_worked_by_hand(
    options: dict[str, int], units: list[Unit], e_value: float
) -> None:
    assert fed(SequentialGate(JUST_ABOVE, **options), units).e_value == pytest.approx(
        e_value, rel=1e-7
    )


def test_an_undefined_unit_of_a_population_enters_as_the_mean() -> None:
    # Mean ≤ .5 of four, one of them 1: the rest have 1/3 at most, and .5 pays 1.5 for
    # 1.
    gate = fed(SequentialGate(JUST_ABOVE, population=4), [(1.0,), ()])
    assert gate.e_value == pytest.approx(
        (1.032 * 1.016 + 1.08 * 1.04 + 1.2 * 1.1 + 1.5 * 1.25 + 1.95 * 1.475) / 5
    )


def test_a_decision() -> None:
    gate = SequentialGate(0.5)
    assert [gate.update(1.0) for _ in range(7)] == ["undecided"] * 6 + ["passed"]
    # 26.2; after six 14.2
    assert gate.e_value == pytest.approx(
        (1.032**7 + 1.08**7 + 1.2**7 + 1.5**7 + 1.95**7) / 5
    )
    assert gate.decided_at == 7
    assert fed(gate, [(0.0,)] * 500).decision == "passed"
    assert gate.decided_at == 7
    assert gate.e_value >= 20


@pytest.mark.parametrize(
    ("threshold", "options", "units", "outcome", "at"),
    [
        (0.5, {}, ones(7), "passed", 7),
        (0.5, {}, [(0.0,)] * 7, "failed", 7),
        (0.5, {"gates": 2}, [(0.0,)] * 7, "undecided", None),  # 26 is less than 2 / .05
        (0.5, {"gates": 2}, [(0.0,)] * 8, "failed", 8),
        (0.5, {"gates": 100}, ones(7), "passed", 7),
        (0.6, {"margin": 0.1}, ones(7), "passed", 7),
        # against *mean ≥ .6*: no margin
        (0.6, {"margin": 0.1}, [(0.0,)] * 5, "failed", 5),
        (0.5, {"min_samples": 10}, ones(10), "passed", 10),
        # there are no more
        (0.5, {"min_samples": 10, "population": 5}, ones(5), "passed", 5),
        (0.0, {}, [(0.0,)], "passed", 1),
        (1.0, {}, [*ones(50), (0.99,)], "failed", 51),
        (1.0, {}, ones(500), "undecided", None),
        (1.0, {"population": 3}, ones(3), "passed", 3),
        # the sum is 2.4, and 2.4 / 3 just below .8
        (0.8, {"population": 3}, [(0.6,), (1.0,), (0.8,)], "passed", 3),
        (
            0.5,
            {"population": 3, "min_scored": 0.5},
            [(1.0,), (None,), (0.0,)],
            "undecided",
            None,
        ),
        (
            0.5,
            {"population": 3, "min_scored": 0.5},
            [(1.0,), (None,), (1.0,)],
            "passed",
            3,
        ),
        (0.5, {"population": 3, "min_scored": 0.0}, [(), (), ()], "undecided", None),
        (0.3, {"population": 9, "min_scored": 0.0}, [()] * 9, "undecided", None),
        (0.5, {"min_scored": 0.0}, [(None,)] * 300, "undecided", None),
        (0.5, {}, [*[()] * 2, *ones(37)], "undecided", None),  # 37 of 39 are scored
        (0.5, {}, [*[()] * 2, *ones(38)], "passed", 40),
        (0.5, {}, [*[(None,)] * 2, *ones(38)], "passed", 40),
        (0.5, {}, [*[(None,)] * 2, *ones(37)], "undecided", None),
        # a retriever that finds nothing has nothing to score
        (0.0, {}, [()] * 200, "undecided", None),
        (0.5, {"largest_cluster": 3}, [(1.0, 1.0, 1.0)] * 7, "passed", 7),
        (0.5, {"largest_cluster": 3}, [(1.0, 0.0)] * 99, "undecided", None),
    ],
)
def test_outcomes(
    threshold: float,
    options: dict[str, float],
    units: list[Unit],
    outcome: Outcome,
    at: int | None,
) -> None:
    gate = fed(SequentialGate(threshold, **options), units)  # type: ignore[arg-type]
    assert (gate.decision, gate.decided_at) == (outcome, at)


def test_undefined_rows_of_a_cluster_are_rows() -> None:
    gate = SequentialGate(0.5, largest_cluster=4)
    for _ in range(30):
        gate.update(1.0, 1.0, undefined=1)
    assert (gate.rows, gate.scored, gate.decision) == (90, 60, "undecided")
    gate.update(undefined=4)
    assert (gate.rows, gate.scored) == (94, 60)


def test_bounds_of_a_population_meet_at_its_mean() -> None:
    bounds = fed(
        SequentialGate(0.5, population=4), [(1.0,), (0.2,), (0.6,), ()]
    ).interval
    assert (bounds.low, bounds.high) == pytest.approx((0.6, 0.6), abs=2e-6)
    bounds = fed(
        SequentialGate(0.5, population=4), [(1.0,), (0.2,), (0.6,), (None,)]
    ).interval
    assert (bounds.low, bounds.high) == pytest.approx((0.45, 0.7), abs=2e-6)
    assert bounds.method == "betting, valid whenever one stops"


def test_bounds_before_any_score() -> None:
    bounds = SequentialGate(0.5).interval
    assert (bounds.low, bounds.high) == (0.0, 1.0)


def test_long_runs_stay_numbers() -> None:
    gate = fed(SequentialGate(0.5, min_samples=3000), [*ones(3000), *[(0.0,)] * 3000])
    assert (gate.decision, gate.e_value) == ("passed", inf)
    # as decided
    assert (
        fed(SequentialGate(0.5), ones(20)).e_value
        == fed(SequentialGate(0.5), ones(7)).e_value
    )


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan"), (0.5, 0.4), (0.0, 1.5)])
def test_what_is_no_score_is_refused(score: Score) -> None:
    gate = SequentialGate(0.5)
    with pytest.raises(InputError, match=r"in \[0, 1\]"):
        gate.update(score)
    assert gate.rows == 0


def test_more_than_was_announced_is_refused() -> None:
    gate = fed(SequentialGate(0.5, population=2), [(1.0,), (1.0,)])
    with pytest.raises(
        InputError, match="more units than the population has, which is 2"
    ):
        gate.update(1.0)
    with pytest.raises(InputError, match="a unit of 3 rows; largest_cluster is 2"):
        SequentialGate(0.5, largest_cluster=2).update(1.0, 1.0, undefined=1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold": 80}, "threshold is a share from 0 to 1; got 80"),
        ({"threshold": float("nan")}, "threshold"),
        ({"alpha": 0}, "alpha lies between 0 and 0.5"),
        ({"alpha": 0.5}, "alpha"),
        ({"margin": -0.1}, "margin"),
        ({"min_scored": 95}, "min_scored is a share"),
        ({"population": 0}, "population is a number of at least 1; got 0"),
        ({"largest_cluster": 0}, "largest_cluster"),
        ({"gates": 0}, "gates"),
        (
            {"population": 10, "largest_cluster": 2},
            "in a population each sample is a unit",
        ),
    ],
)
def test_bad_settings(options: dict[str, float], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        SequentialGate(**{"threshold": 0.8, **options})  # type: ignore[arg-type]


def test_optionsof_a_run() -> None:
    gate = UntilDecided(margin=0.02).gate(0.8, rows=300, largest_cluster=4)
    assert gate.population is None
    assert fed(gate, ones(9)).decision == "undecided"
    assert UntilDecided(on="point").gate(0.8, rows=300).population == 300
    for bad in ({"on": "mean"}, {"alpha": 5}, {"margin": 2}, {"max_samples": 0}):
        with pytest.raises(SettingError, match=next(iter(bad))):
            UntilDecided(**bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcomes", "outcome"),
    [
        (["passed", "passed"], "passed"),
        (["passed", "undecided"], "undecided"),
        (["undecided", "failed"], "failed"),
        (["passed", "failed"], "failed"),
        (["undecided"], "undecided"),
        ([], "undecided"),
    ],
)
def test_gates_together(outcomes: list[Outcome], outcome: Outcome) -> None:
    assert join_outcomes(outcomes) == outcome


# The laws.

SCORES = st.sampled_from([0.0, 0.2, 1 / 3, 0.5, 0.8, 0.95, 1.0])
UNITS = st.lists(
    st.one_of(
        st.tuples(SCORES),
        st.just(()),
        st.just((None,)),
        st.tuples(SCORES, st.one_of(SCORES, st.none())),
    ),
    min_size=1,
    max_size=60,
)
SINGLE = st.lists(
    st.one_of(st.tuples(SCORES), st.just(()), st.just((None,))), min_size=1, max_size=60
)
THRESHOLDS = st.sampled_from([0.0, 0.1, 0.5, 0.8, 0.95, 1.0])


def open_gate(
    threshold: float, units: Sequence[Unit], more: int | None
) -> SequentialGate:
    """A gate with nothing but its evidence; ``more``: units that the population has besides, None for a stream."""
    population = None if more is None else len(units) + more
    largest = 1 if more is not None else 2
    return SequentialGate(
        threshold, population=population, largest_cluster=largest, min_scored=0
    )


STREAMS_AND_POPULATIONS = st.one_of(
    st.tuples(UNITS, st.none()),
    st.tuples(SINGLE, st.integers(min_value=0, max_value=40)),
)


@given(STREAMS_AND_POPULATIONS, THRESHOLDS)
def test_a_decision_is_never_undone(
    case: tuple[list[Unit], int | None], threshold: float
) -> None:
    units, more = case
    gate = open_gate(threshold, units, more)
    said = [gate.update(*unit) for unit in units]
    decided = [outcome for outcome in said if outcome != "undecided"]
    assert len(set(decided)) <= 1
    assert said == ["undecided"] * (len(said) - len(decided)) + decided
    assert gate.decided_at == (len(said) - len(decided) + 1 if decided else None)


@settings(max_examples=examples(40))
@given(STREAMS_AND_POPULATIONS)
def test_bounds_are_nested(case: tuple[list[Unit], int | None]) -> None:
    units, more = case
    gate = open_gate(0.5, units, more)
    low, high = 0.0, 1.0
    for unit in units[:25]:
        gate.update(*unit)
        bounds = gate.interval
        assert 0 <= low <= bounds.low
        assert bounds.high <= high <= 1
        low, high = bounds.low, bounds.high


@settings(max_examples=examples(60))
@given(STREAMS_AND_POPULATIONS, THRESHOLDS)
def test_a_gate_outside_the_bounds_is_decided(
    case: tuple[list[Unit], int | None], threshold: float
) -> None:
    units, more = case
    gate = fed(open_gate(threshold, units, more), units)
    bounds = gate.interval
    # two wrong bounds, as a deliberately bad order can give
    assume(bounds.low <= bounds.high)
    outcome = (
        "passed"
        if threshold < bounds.low
        else "failed"
        if threshold > bounds.high
        else "undecided"
    )
    if outcome != "undecided" or bounds.low + 1e-5 < threshold < bounds.high - 1e-5:
        assert gate.decision == outcome


@settings(max_examples=examples(60))
@given(STREAMS_AND_POPULATIONS, st.data())
def test_bounds_are_monotone_in_the_scores(
    case: tuple[list[Unit], int | None], data: st.DataObject
) -> None:
    units, more = case
    raised = [
        (
            tuple(
                score if score is None else max(score, data.draw(SCORES))
                for score in unit
            )
            if place % 3 == 0
            else unit
        )
        for place, unit in enumerate(units)
    ]
    lower, higher = (
        fed(open_gate(0.5, units, more), own).interval for own in (units, raised)
    )
    assert lower.low <= higher.low
    assert lower.high <= higher.high


@settings(max_examples=examples(60))
@given(STREAMS_AND_POPULATIONS, st.data())
def test_a_failure_only_widens_the_bounds(
    case: tuple[list[Unit], int | None], data: st.DataObject
) -> None:
    units, more = case
    broken = [
        tuple(data.draw(st.sampled_from([score, None])) for score in unit)
        for unit in units
    ]
    known, unknown = (
        fed(open_gate(0.5, units, more), own).interval for own in (units, broken)
    )
    assert unknown.low <= known.low
    assert known.high <= unknown.high


@given(UNITS)
def test_the_order_within_a_cluster_says_nothing(units: list[Unit]) -> None:
    gates = [
        fed(open_gate(0.5, units, None), own)
        for own in (units, [unit[::-1] for unit in units])
    ]
    assert gates[0].e_value == pytest.approx(gates[1].e_value)


@given(SINGLE, st.integers(0, 9))
def test_undefined_units_say_nothing_of_a_stream(units: list[Unit], place: int) -> None:
    gates = [
        fed(open_gate(0.5, units, None), own)
        for own in (units, [*units[:place], (), *units[place:]])
    ]
    assert gates[0].e_value == pytest.approx(gates[1].e_value)


@given(
    st.lists(st.one_of(st.tuples(SCORES), st.just(())), min_size=1, max_size=12),
    THRESHOLDS,
)
def test_a_population_ends_with_the_mean_of_its_scores(
    units: list[Unit], threshold: float
) -> None:
    scores = [score for unit in units for score in unit if isinstance(score, float)]
    # nothing but certainty
    gate = SequentialGate(threshold, alpha=1e-300, population=len(units), min_scored=0)
    fed(gate, units)
    assert gate.decision == (
        ("passed" if fmean(scores) >= threshold - 1e-9 else "failed")
        if scores
        else gate.decision
    )
    assert (
        scores
        or 0 < threshold < 1
        or gate.decision == ("passed" if threshold == 0 else "undecided")
    )


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(SCORES, min_size=3, max_size=6),
    st.lists(st.sampled_from(["scored", "undefined"]), min_size=6, max_size=6),
    st.sampled_from([0.05, 0.2, 0.499]),
)
def test_the_risk_in_a_population_over_all_orders(
    values: list[float], kinds: list[str], alpha: float
) -> None:
    units: list[Unit] = [
        (value,) if kind == "scored" else ()
        for value, kind in zip(values, kinds, strict=False)
    ]
    scored = [unit[0] for unit in units if unit]
    assume(scored)
    mean = fmean(score for score in scored if score is not None)
    for outcome, threshold in (("passed", mean + 1e-6), ("failed", mean)):
        if threshold <= 1:
            wrong = [
                fed(
                    SequentialGate(
                        threshold, alpha=alpha, population=len(units), min_scored=0
                    ),
                    order,
                ).decision
                == outcome
                for order in permutations(units)
            ]
            assert fmean(wrong) <= alpha


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(
        st.lists(SCORES, min_size=1, max_size=3).map(tuple), min_size=2, max_size=3
    ),
    st.sampled_from([0.05, 0.2, 0.499]),
)
def test_the_risk_in_a_stream_of_clusters_over_all_sequences(
    kinds: list[Unit], alpha: float
) -> None:
    scores = [score for unit in kinds for score in unit if isinstance(score, float)]
    mean = fmean(scores)
    for outcome, threshold in (("passed", mean + 1e-6), ("failed", mean)):
        if threshold <= 1:
            wrong = [
                fed(
                    SequentialGate(threshold, alpha=alpha, largest_cluster=3), order
                ).decision
                == outcome
                for order in product(kinds, repeat=6)
            ]
            assert fmean(wrong) <= alpha


def test_the_risk_over_seeds() -> None:
    draw = Random(7)
    scores = [draw.choice([0.0, 0.2, 0.4, 0.6, 0.8, 1.0]) for _ in range(120)]
    contents = [f"row {number}" for number in range(120)]
    wrong = {"passed": 0, "failed": 0}
    for seed in range(400):
        order = draw_order(contents, seed=seed)
        for outcome, threshold in (
            ("passed", fmean(scores) + 1e-6),
            ("failed", fmean(scores)),
        ):
            gate = SequentialGate(threshold, population=120)
            wrong[outcome] += (
                fed(gate, [(scores[place],) for (place,) in order[:-1]]).decision
                == outcome
            )
    assert max(wrong.values()) / 400 <= 0.05 + 2 * sqrt(0.05 * 0.95 / 400)


# The order.

ROWS = st.lists(
    st.tuples(st.sampled_from("abcdé\udcff"), st.sampled_from([None, "k", "l"])),
    max_size=12,
)


@given(ROWS, st.randoms(use_true_random=False), st.integers(0, 3))
def test_the_order_of_the_file_makes_no_difference(
    rows: list[tuple[str, str | None]], draw: Random, seed: int
) -> None:
    def said(own: list[tuple[str, str | None]]) -> list[list[tuple[str, str | None]]]:
        order = draw_order(
            [content for content, _ in own], seed=seed, clusters=[key for _, key in own]
        )
        assert sorted(place for unit in order for place in unit) == list(
            range(len(own))
        )
        return [sorted((own[place] for place in unit), key=repr) for unit in order]

    shuffled = list(rows)
    draw.shuffle(shuffled)
    assert said(rows) == said(shuffled)


def test_equal_rows_are_no_neighbours() -> None:
    contents = ["same"] * 50 + [f"other {number}" for number in range(50)]
    taken = [place < 50 for (place,) in draw_order(contents)]
    assert 5 < sum(taken[:20]) < 15
    changes = sum(one != other for one, other in pairwise(taken))
    assert 35 < changes < 65


def test_a_seed_is_an_order() -> None:
    contents = [f"row {number}" for number in range(200)]
    first = [draw_order(contents, seed=seed)[0] for seed in range(40)]
    assert len({place for (place,) in first}) > 30
    assert draw_order(contents, seed=1) == draw_order(contents, seed=1)


def test_clusters_are_units() -> None:
    order = draw_order(["a", "b", "c", "d", "a"], clusters=["x", None, "x", "y", None])
    assert sorted(order) == [[0, 2], [1], [3], [4]]
    assert draw_order(["a"], clusters=["a"]) == [[0]]


# The simulation.

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "sequential.py"


@pytest.fixture(scope="module")
def bench() -> Iterator[ModuleType]:
    if not SCRIPT.is_file():
        pytest.skip("a checkout without its benchmarks")
    spec = importlib.util.spec_from_file_location("simulated_sequential", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPT.parent))
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        yield module


def test_the_simulation_decides_as_the_gate_does(bench: ModuleType) -> None:
    assert [measured.share for measured in bench.agreement(25)] == [1.0, 1.0]


def test_the_simulated_risk_and_clusters(bench: ModuleType) -> None:
    found = [*bench.risk(100, (100,)), *bench.clusters(60, 100)]
    assert len(found) == 40 + 6
    assert [str(one) for one in found if not one.kept] == []
