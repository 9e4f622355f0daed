"""What was measured of passages, in words: over rows, beside a judge, and behind a claim."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_runs import one_search

from ragmetrics_core import ContextUtilization, ScriptedJudge, evaluate
from ragmetrics_core.data import (
    CaptureNotes,
    MeasuredUse,
    PassageNote,
    PassageUse,
    Sample,
    SampleResult,
)
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.page.sample_rows import passages_behind
from ragmetrics_core.reporting.use_in_words import agreement_lines, use_in_one_line

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


def sample(verdicts: str, passages: tuple[PassageNote, ...] | None) -> Sample:
    return Sample(
        question="?",
        contexts=[f"context {place}" for place in range(len(verdicts))],
        use=use(verdicts),
        capture=CaptureNotes(passages=passages),
    )


def rows_of(*samples: Sample) -> list[SampleResult]:
    return [
        SampleResult(index=index, sample=each) for index, each in enumerate(samples)
    ]


def rows(*verdicts: str) -> list[SampleResult]:
    """Rows whose contexts stand as one search found them."""
    return rows_of(*(sample(each, one_search(range(len(each)))) for each in verdicts))


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
            "Measured on 1 row: 1.0 to 2.0 of 3.0 passages change the answer; of 1 passage"
            " nobody can tell.",
        ),
        (
            ["unn", *["unnn"] * 18, "u??n"],
            "Measured on 20 rows: 1.0 to 1.1 of 4.0 passages change the answer; k = 1 would"
            " have kept at least 95% of the answers; of 2 passages nobody can tell.",
        ),
        (
            ["nnu", "un"],
            "Measured on 2 rows: 1.0 of 2.5 passages change the answer; every k below 3"
            " would have changed more than 5% of the answers.",
        ),
        (["u"], "Measured on 1 row: 1.0 of 1.0 passages change the answer."),
    ],
)
def test_the_line_over_all_rows(verdicts, line):
    assert use_in_one_line(rows(*verdicts)) == line


def test_k_counts_the_ranks_of_the_search_not_the_places_in_the_prompt():
    reversed_in_prompt = sample("unn", one_search([2, 1, 0]))
    line = use_in_one_line(rows_of(reversed_in_prompt))
    assert "every k below 3 would have changed more than 5% of the answers" in line
    line = use_in_one_line(rows_of(sample("nnu", one_search([2, 1, 0]))))
    assert "k = 1 would have kept 100% of the answers" in line
    line = use_in_one_line(rows_of(sample("nrr", one_search([0, 2, 1]))))
    assert "k = 2 would have kept 100% of the answers" in line


@pytest.mark.parametrize(
    "passages",
    [
        pytest.param(None, id="nothing is known of ranks"),
        pytest.param(one_search([0, 1]) + one_search([2]), id="two of one name"),
        pytest.param(
            one_search([0, 1]) + one_search([None, None, 2], "b")[2:], id="two searches"
        ),
        pytest.param(one_search([0, 1, 2, None]), id="one found is in no prompt"),
        pytest.param(one_search([0, 1, 1]), id="one context shows two"),
    ],
)
def test_no_k_is_told_where_contexts_are_not_just_what_one_search_found(passages):
    line = use_in_one_line(rows_of(sample("unn", passages)))
    assert line == "Measured on 1 row: 1.0 of 3.0 passages change the answer."
    more = [*rows("unn"), *rows_of(sample("nnu", passages))]
    words = "k = 1 would have kept 100% of the answers to 1 row of one search each"
    assert words in use_in_one_line(more)


def test_the_first_screen_has_the_line():
    report = evaluate(
        [Sample(question="?", answer="Yes.", contexts=["a"], use=use("u"))],
        ContextUtilization(),
        judge="lexical",
    )
    assert "Measured on 1 row: 1.0 of 1.0 passages" in str(report)
    assert "Measured on 1 row: 1.0 of 1.0 passages" in report._repr_html_()


def test_rows_that_could_not_be_measured_are_told():
    failed = MeasuredUse(model="m", why_not="late")
    more = SampleResult(index=9, sample=Sample(question="?", use=failed))
    assert use_in_one_line([*rows("u"), more]).endswith("1 row could not be measured.")


@given(st.lists(st.text("un", min_size=1, max_size=5), min_size=1, max_size=8))
def test_the_answers_that_k_keeps_need_nothing_behind_it(verdicts):
    line = use_in_one_line(rows(*verdicts))
    if "k = " in line:
        k = int(line.split("k = ")[1].split(" ")[0])
        n_kept = sum("u" not in each[k:] for each in verdicts)
        assert n_kept >= 0.95 * len(verdicts)
        assert f"{n_kept / len(verdicts):.0%} of the answers" in line


def test_a_judge_is_set_against_what_was_measured():
    judge = ScriptedJudge(
        {Useful: lambda question: {"useful": "useful" in question["chunk"]}}
    )
    texts = ["a useful one", "another", "a useful third", "the last"]
    samples = [
        Sample(question=f"{n}?", answer="Yes.", contexts=texts, use=use(verdicts))
        for n, verdicts in enumerate(["unun", "unnn", "?nuu"])
    ]
    report = evaluate(samples, ContextUtilization(), judge=judge)
    head, useful, unuseful, kappa = agreement_lines(report.results)
    assert head == "context_utilization, 11 passages:    used  not used"
    assert useful.split() == ["judged", "useful", "4", "1"]
    assert unuseful.split() == ["judged", "not", "useful", "1", "5"]
    # agreement 9/11, by chance (5·5 + 6·6)/121
    assert kappa.startswith("  kappa 0.63 [")


def test_a_judge_that_says_the_same_of_all_has_no_kappa():
    judge = ScriptedJudge({Useful: {"useful": 1}})
    sample = Sample(question="?", answer="Yes.", contexts=["a", "b"], use=use("uu"))
    report = evaluate([sample], ContextUtilization(), judge=judge)
    assert [*agreement_lines(report.results)][-1].startswith("  kappa unknown")


LIT, RED, OPEN = "It was lit in 1874.", "The boat is red.", "The bridge is open."
WHOLE = f"{LIT} {RED}"


def measured(whole: str, without_any: str, *without: str, pair: bool = False) -> Any:
    """What is behind claims, by the answers without all and each; equal ones are unused."""
    verdicts = ["not used" if answer == whole else "used" for answer in without]
    return MeasuredUse(
        model="m",
        answers=(whole, whole),
        answer_without_any=without_any,
        passages=tuple(
            PassageUse(verdict=VERDICTS["r"] if pair else verdict, answer=answer)
            for verdict, answer in zip(verdicts, without, strict=True)
        ),
        redundant=((0, 1),) if pair else (),
    )


@pytest.mark.parametrize(
    ("claim", "use", "behind"),
    [
        pytest.param(LIT, measured(WHOLE, RED, RED, WHOLE), (0,), id="leaves"),
        pytest.param(RED, measured(WHOLE, RED, RED, WHOLE), (), id="stays"),
        pytest.param(
            "It fell in 1901.", measured(WHOLE, RED, RED), None, id="not said"
        ),
        pytest.param(
            OPEN, measured(OPEN, "The bridge is not open.", OPEN), None, id="denied"
        ),
        pytest.param(
            OPEN,
            measured(OPEN, "Nobody knows if the bridge is open.", OPEN),
            None,
            id="within a doubt",
        ),
        pytest.param(
            "Anna met Bert.",
            measured("Anna met Bert.", "Bert met Anna.", "Anna met Bert."),
            None,
            id="turned round",
        ),
        pytest.param(
            OPEN,
            measured(OPEN, "The bridge was built; is it? The shop is open.", OPEN),
            None,
            id="scattered",
        ),
        pytest.param(
            RED,
            measured(WHOLE, "No idea.", "A red boat is shown.", LIT),
            None,
            id="one answer says it in other words",
        ),
        pytest.param(OPEN, measured(OPEN, OPEN, "No."), None, id="needs both or none"),
        pytest.param(
            OPEN, measured(OPEN, OPEN, OPEN, OPEN, pair=True), None, id="of a pair"
        ),
    ],
)
def test_a_claim_has_the_passage_without_which_it_leaves_the_answer(claim, use, behind):
    assert passages_behind(claim, use, "What is known?") == behind


def test_words_of_the_question_do_not_keep_a_claim_in_an_answer():
    use = measured(RED, "No boat is named.", "No boat is named.")
    assert passages_behind(RED, use, "Which boat?") == (0,)
    assert passages_behind(RED, use, "What is it?") is None


def test_a_claim_that_one_repeat_lacks_is_of_unknown_origin():
    use = measured(WHOLE, RED, RED).model_copy(update={"answers": (WHOLE, RED)})
    assert passages_behind(LIT, use, "?") is None
    assert passages_behind(RED, use, "?") == ()
