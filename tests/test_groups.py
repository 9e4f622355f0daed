"""Which samples are a cluster or a slice: one rule of keys for summaries, comparisons, drawn orders and streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.results import SampleResult, Scored
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.reporting.pairing import group_of, numbering
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.statistics.stopping import draw_order

KEYS = st.one_of(
    st.integers(-3, 3),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(min_size=1).filter(str.isalpha),
    st.tuples(st.integers(-2, 2), st.booleans()),
    st.lists(st.sampled_from(["a", "b", "a, b"])),
    st.dictionaries(st.sampled_from("ab"), st.integers(-2, 2)),
)


def is_one(left: Any, right: Any) -> bool:
    """Whether two keys mean one group: equal values, of which a truth value is no number.

    The text that writes a truth value is the same key.
    """
    if isinstance(left, str) != isinstance(right, str):
        return str(left) == str(right)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(is_one, left, right))
    return bool(left == right)


def report_of(keys: Sequence[Any], name: str = "document") -> Report:
    rows = [
        SampleResult(
            index=place,
            sample=Sample(
                id=str(place),
                question="q",
                answer="a",
                contexts=["c"],
                metadata={name: key},
            ),
            results={"m": Scored(metric="m", value=place % 4 / 4, reason="r")},
        )
        for place, key in enumerate(keys)
    ]
    return Report(rows, RunFacts(metrics={"m": "m|v1"}))


@pytest.mark.parametrize("by", ["conversation", "auto"])
@pytest.mark.parametrize(
    ("left", "right"),
    [(-1, -2), (1, True), (0, False), ("1", True), ((1,), (True,)), (2**61, 1)],
)
def test_unlike_keys_are_two_clusters_slices_and_units(
    left: Any, right: Any, by: str
) -> None:
    keys = [left, left, right, right]
    report = report_of(keys, "conversation")
    interval = report.summary(cluster=by)["m"].interval
    assert interval is not None
    assert interval.clusters == 2
    summary = report.summary(slices=["conversation"])
    assert [own.rows for own in summary.slices["conversation"].values()] == [2, 2]
    groups = [group_of(row.sample, by) for row in report.results]
    assert sorted(map(len, draw_order(["row"] * 4, clusters=groups))) == [2, 2]


@pytest.mark.parametrize(
    ("left", "right"),
    [(7, "7"), (7, 7.0), ([1, "a"], (1, "a")), ({"a": 1, "b": 2}, {"b": 2, "a": 1})],
)
def test_one_key_written_in_two_ways_is_one_cluster(left: Any, right: Any) -> None:
    number_of = numbering("document")
    assert (
        number_of(Sample(metadata={"document": left}))
        == number_of(Sample(metadata={"document": right}))
        == 0
    )


@given(st.lists(KEYS, min_size=1, max_size=12))
def test_samples_share_a_number_if_and_only_if_their_keys_are_one(
    keys: list[Any],
) -> None:
    number_of = numbering("document")
    numbers = [number_of(Sample(metadata={"document": key})) for key in keys]
    for left, one in zip(keys, numbers, strict=True):
        for right, other in zip(keys, numbers, strict=True):
            assert (one == other) == is_one(left, right)
    # in order of appearance, without gaps
    assert sorted(set(numbers)) == list(range(len(set(numbers))))


@pytest.mark.parametrize("key", [None, "", " ", float("nan")])
def test_a_key_that_says_nothing_leaves_a_sample_alone(key: Any) -> None:
    number_of = numbering("document")
    sample = Sample(question="q", metadata={"document": key, "conversation": key})
    assert (number_of(sample), group_of(sample, "auto")) == (-1, None)


PARTS = st.lists(st.sampled_from(["a", "b", "c.d", "id"]), min_size=1, max_size=4)


@given(PARTS, st.data())
def test_a_key_is_found_by_its_path_however_much_of_it_is_flattened(
    parts: list[str], data: st.DataObject
) -> None:
    """``{"a": {"b": 7}}``, ``{"a.b": 7}``, and in between."""
    metadata: Any = 7
    name = ""
    for part in reversed(parts):
        name = f"{part}.{name}" if name else part
        if data.draw(st.booleans()):
            metadata, name = {name: metadata}, ""
    metadata = {name: metadata} if name else metadata
    path = ".".join(parts)
    sample = Sample(metadata=metadata)
    assert group_of(sample, path) == "7"
    assert group_of(sample, f"metadata.{path}") == "7"
    assert group_of(sample, f"{path}.none") is None


@dataclass(frozen=True)
class Person:
    name: str


class Nameless:
    """Equal to others of its kind, and shown by its address alone."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Nameless)

    def __hash__(self) -> int:
        return 0


def test_a_callable_may_give_any_key_that_can_be_written() -> None:
    sample = Sample(question="q", contexts=["one text"])
    assert group_of(sample, lambda _: Person("Ada")) != group_of(
        sample, lambda _: Person("Bob")
    )
    assert group_of(sample, lambda _: {"b", "a"}) == group_of(
        sample, lambda _: {"a", "b"}
    )
    assert group_of(sample, "contexts") != group_of(
        Sample(contexts=["another one"]), "contexts"
    )
    with pytest.raises(SettingError, match="Nameless"):
        group_of(sample, lambda _: Nameless())


def test_slices_honour_the_bootstrap() -> None:
    report = report_of([place % 2 == 0 for place in range(1200)], "even")
    summary = report.summary(bootstrap=True, slices=["even"])
    slices = {"all": summary, **summary.slices["even"]}
    methods = {
        name: own["m"].interval and own["m"].interval.method
        for name, own in slices.items()
    }
    assert set(methods) == {"all", "True", "False"}
    assert {str(method).partition(",")[0] for method in methods.values()} == {
        "BCa bootstrap"
    }
    alone = Report([row for row in report.results if row.index % 2 == 0]).summary(
        bootstrap=True
    )
    assert summary.slices["even"]["True"]["m"].interval == alone["m"].interval


@pytest.mark.parametrize(
    "metadata",
    [
        {"extra": {"metadata": {"session_id": "near"}}},
        {"a": {"b": {"c": {"session_id": "deep"}}}, "d": {"session_id": "near"}},
        {"d": {"session_id": "near"}, "a": {"b": {"session_id": "deep"}}},
        {"d": '{"session_id": "near"}'},
    ],
    ids=["inside", "before the near one", "behind the near one", "JSON"],
)
def test_a_conversation_is_found_inside_of_objects_and_the_least_deep_counts(
    metadata: dict[str, object],
) -> None:
    assert group_of(Sample(metadata=metadata), "auto") == "session_id=near"


def test_a_conversation_is_not_looked_for_below_four_objects() -> None:
    metadata = {"a": {"b": {"c": {"d": {"session_id": "deep"}}}}}
    assert group_of(Sample(metadata=metadata), "auto") is None
