"""What was measured of passages, in words: over rows, beside a judge, and behind a claim."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core import ContextUtilization, ScriptedJudge, evaluate
from ragmetrics_core.data import MeasuredUse, PassageUse, Sample, SampleResult
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.reporting.use_in_words import (
    agreement_lines,
    passages_behind,
    use_in_one_line,
)

VERDICTS: dict[str, Any] = {
    "u": "used",
    "r": "redundant",
    "n": "not used",
    "?": "cannot tell",
}


def use(verdicts: str) -> MeasuredUse:
    """The use of passages by the first letters of their verdicts; a pair is redundant."""
    pair = tuple(place for place, letter in enumerate(verdicts) if letter == "r")
    passages = tuple(PassageUse(verdict=VERDICTS[letter]) for letter in verdicts)
    return MeasuredUse(model="m", passages=passages, redundant=(pair,) if pair else ())


def rows(*verdicts: str) -> list[SampleResult]:
    return [
        SampleResult(index=index, sample=Sample(question="?", use=use(each)))
        for index, each in enumerate(verdicts)
    ]


@pytest.mark.parametrize(
    ("verdicts", "line"),
    [
        ([], ""),
        (
            ["unn", "nun"],
            "Measured on 2 rows: 1.0 of 3.0 passages change the answer; k = 2 would have"
            " kept 100% of the answers.",
        ),
        # of a pair the first is enough
        (
            ["rnr"],
            "Measured on 1 row: 1.0 of 3.0 passages change the answer; k = 1 would have"
            " kept 100% of the answers.",
        ),
        # a passage of which nobody can tell may be needed
        (
            ["un?"],
            "Measured on 1 row: 1.0 of 3.0 passages change the answer; of 1 passage"
            " nobody can tell.",
        ),
        (["nnu"], "Measured on 1 row: 1.0 of 3.0 passages change the answer."),
    ],
)
def test_the_line_over_all_rows(verdicts: list[str], line: str) -> None:
    assert use_in_one_line(rows(*verdicts)) == line


def test_the_first_screen_has_the_line() -> None:
    report = evaluate(
        [Sample(question="?", answer="Yes.", contexts=["a"], use=use("u"))],
        ContextUtilization(),
        judge="lexical",
        progress=False,
    )
    assert "Measured on 1 row: 1.0 of 1.0 passages" in str(report)
    assert "Measured on 1 row: 1.0 of 1.0 passages" in report._repr_html_()


def test_rows_that_could_not_be_measured_are_told() -> None:
    failed = MeasuredUse(model="m", why_not="late")
    more = SampleResult(index=9, sample=Sample(question="?", use=failed))
    assert use_in_one_line([*rows("u"), more]).endswith("1 row could not be measured.")


@given(st.lists(st.text("un", min_size=1, max_size=5), min_size=1, max_size=8))
def test_the_answers_that_k_keeps_need_nothing_behind_it(verdicts: list[str]) -> None:
    line = use_in_one_line(rows(*verdicts))
    if "k = " in line:
        k = int(line.split("k = ")[1].split(" ")[0])
        n_kept = sum("u" not in each[k:] for each in verdicts)
        assert n_kept >= 0.95 * len(verdicts)
        assert f"{n_kept / len(verdicts):.0%} of the answers" in line


def test_a_judge_is_set_against_what_was_measured() -> None:
    judge = ScriptedJudge(
        {Useful: lambda question: {"useful": "useful" in question["chunk"]}}
    )
    texts = ["a useful one", "another", "a useful third", "the last"]
    samples = [
        Sample(question=f"{n}?", answer="Yes.", contexts=texts, use=use(verdicts))
        for n, verdicts in enumerate(["unun", "unnn", "?nuu"])
    ]
    report = evaluate(samples, ContextUtilization(), judge=judge, progress=False)
    head, useful, unuseful, kappa = agreement_lines(report.results)
    assert head == "context_utilization, 11 passages:    used  not used"
    assert useful.split() == ["judged", "useful", "4", "1"]
    assert unuseful.split() == ["judged", "not", "useful", "1", "5"]
    # agreement 9/11, by chance (5·5 + 6·6)/121
    assert kappa.startswith("  kappa 0.63")


def test_a_judge_that_says_the_same_of_all_has_no_kappa() -> None:
    judge = ScriptedJudge({Useful: {"useful": 1}})
    sample = Sample(question="?", answer="Yes.", contexts=["a", "b"], use=use("uu"))
    report = evaluate([sample], ContextUtilization(), judge=judge, progress=False)
    assert [*agreement_lines(report.results)][-1].startswith("  kappa unknown")


@pytest.mark.parametrize(
    ("claim", "behind"),
    [
        ("It opened in 1874.", (0,)),
        ("It is red.", ()),
        ("It fell in 1901.", None),
    ],
)
def test_a_claim_has_the_passage_without_which_it_leaves_the_answer(
    claim: str, behind: tuple[int, ...] | None
) -> None:
    whole = "It opened in 1874. It is red."
    measured = MeasuredUse(
        model="m",
        answers=(whole, whole),
        answer_without_any="It is red.",
        passages=(
            PassageUse(verdict="used", answer="It is red."),
            PassageUse(verdict="not used", answer=whole),
        ),
    )
    assert passages_behind(claim, measured) == behind
