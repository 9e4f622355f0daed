"""What stands beside marks and decides whether they cite: titles in brackets, and reasoning."""

from __future__ import annotations

import pytest

from ragmetrics_core.data.citations import read_citations

SO = "It is so [Manual]."


@pytest.mark.parametrize(
    "answer",
    [
        f"{SO} It is old [Colour Guide].",
        f"{SO} It is old [The Colour Guide of all the signs at sea].",
        f"{SO} It is [name withheld] old [Colour Guide].",
        f"It is new [1]. {SO} It is old [Colour Guide].",
        f"{SO} It is new [1]. It is old [Colour Guide].",
    ],
)
def test_a_title_beside_a_mark_that_is_one_makes_the_citations_unknown(
    answer: str,
) -> None:
    assert read_citations(answer, {"Manual": 0, "1": 1}).citations is None


@pytest.mark.parametrize(
    "behind",
    [
        "",
        "It is old [colour guide].",
        "It is old [Colour\nGuide].",
        "It is old [Ok].",
        "It is old [Colour Guide](https://a.test).",
        "It is old [Colour Guide][c].",
        "[Colour Guide]: https://a.test",
    ],
)
def test_what_is_no_title_leaves_the_citations_known(behind: str) -> None:
    read = read_citations(f"{SO} {behind}", {"Manual": 0})
    assert [citation.contexts for citation in read.citations or ()] == [(0,)]


def test_a_title_beside_numbers_leaves_the_citations_known() -> None:
    read = read_citations("It is so [2]. It is old [Colour Guide].", {"1": 0, "2": 1})
    assert [citation.contexts for citation in read.citations or ()] == [(1,)]


@pytest.mark.parametrize(
    ("opening", "closing"),
    [("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("◁think▷", "◁/think▷")],
)
def test_a_mark_before_the_reasoning_cites_and_one_in_it_does_not(
    opening: str, closing: str
) -> None:
    answer = f"It is so [1]. {opening}Is it [2]?{closing} It is old [1]."
    read = read_citations(answer, {"1": 0, "2": 1})
    assert [citation.contexts for citation in read.citations or ()] == [(0,), (0,)]
