"""Marks that are links, as ``[1](#3)``: their targets must be what the marks name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_closing_sources import prompt_of
from test_two_numberings import cited, sample_of

from ragmetrics_core.data.citations import read_citations

FILES = prompt_of("[{n}] docs/Travel_{n}.pdf\n{text}")
NUMBERED_TARGETS = (
    "#{}",
    "#source-{}",
    "#ref{}",
    "#cite_note-{}",
    "id={}",
    "cite:{}",
    "{}",
    "<#{}>",
    '#{} "The source"',
)


@given(
    target=st.sampled_from(NUMBERED_TARGETS),
    number=st.integers(1, 3),
    number_in_target=st.integers(1, 12),
)
def test_a_number_in_the_target_is_that_of_the_mark_or_the_mark_is_unknown(
    target: str, number: int, number_in_target: int
) -> None:
    answer = f"Faro is old [{number}]({target.format(number_in_target)})."
    sample = sample_of(prompt_of("[{n}] {text}"), answer)
    if number == number_in_target:
        assert set(cited(sample)) == {(number - 1,)}
    else:
        assert sample.citations is None


@pytest.mark.parametrize(
    "target", ["#", "#sources", "#references", "/docs/Travel_1.pdf", "#travel-1"]
)
def test_a_target_of_the_same_source_or_of_none_leaves_the_mark_known(
    target: str,
) -> None:
    assert cited(sample_of(FILES, f"Faro is old [1]({target}).")) == [(0,)]


@pytest.mark.parametrize(
    "target",
    [
        "/docs/Travel_3.pdf",
        "travel_3",
        "#travel-3",
        "#abc",  # without a number
        "/leave",
        "leave.pdf",
        "/x_1.pdf",
    ],
)
@pytest.mark.parametrize("mark", ["[1]", "[docs/Travel_1.pdf]"])
def test_a_target_with_another_name_makes_the_mark_unknown(
    mark: str, target: str
) -> None:
    sample = sample_of(FILES, f"Faro is old {mark}({target}).")
    assert sample.citations is None


@pytest.mark.parametrize(("target", "is_known"), [("#1", True), ("#2", False)])
def test_the_targets_of_marks_count_in_a_table_as_well(
    target: str, is_known: bool
) -> None:
    read = read_citations(f"It is old [1]({target}).", {"1": 0, "2": 1})
    assert (read.citations is not None) == is_known
    assert ("target" in read.why_unknown) != is_known
