"""What a comparison says of a second run, and when it stops a CI job."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outcomes import Outcome, outcomes_of, result_of
from planted import RightJudge, planted_rows, sample_of

from ragmetrics_core import Report, Sample, evaluate
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.results import (
    SampleResult,
    Signature,
)
from ragmetrics_core.reporting.run_facts import RunFacts

DECLINE = "declined"


def run(ids: bool = True, **metrics: Sequence[Outcome]) -> Report:
    """A report with the outcomes of each metric, row by row."""
    count = len(next(iter(metrics.values())))
    rows = []
    for index in range(count):
        sample = Sample(
            id=f"s{index}" if ids else None,
            question=f"q{index}",
            answer="a",
            metadata={"topic": "ab"[index % 2]},
        )
        results = {
            name: result_of(values[index], name) for name, values in metrics.items()
        }
        rows.append(SampleResult(index=index, sample=sample, results=results))
    signatures = {name: Signature(metric=name) for name in metrics}
    return Report(rows, RunFacts(metrics=signatures))


def noisy(mean: float, count: int, seed: int) -> list[float]:
    draw = random.Random(seed)
    return [min(1.0, max(0.0, draw.gauss(mean, 0.1))) for _ in range(count)]


BEFORE = noisy(0.6, 60, 1)
BETTER = [min(1.0, score + 0.2) for score in BEFORE]
WORSE = [max(0.0, score - 0.3) for score in BEFORE]
HALF_DECLINED: list[Outcome] = [DECLINE] * 30 + [1.0] * 30


@pytest.mark.parametrize(
    ("before", "after", "verdict", "outcome"),
    [
        (BEFORE, BEFORE, "identical", "passed"),
        (BEFORE, BETTER, "better", "passed"),
        (BEFORE, WORSE, "worse", "failed"),
        (BEFORE, noisy(0.6, 60, 2), "cannot tell", "passed"),
        ([0.9] * 13, [0.9] * 12 + [0.8], "cannot tell", "passed"),
        ([0.9] * 13, [0.1] * 13, "worse", "failed"),
        ([0.9] * 2000, [0.9] * 1999 + [0.89], "same", "passed"),
        ([DECLINE] * 20, [DECLINE] * 20, "identical", "passed"),
        (["missing"] * 20, ["missing"] * 20, "identical", "passed"),
        # declining is no escape; what the judge failed on is unknown
        ([1.0] * 60, HALF_DECLINED, "worse", "failed"),
        ([0.5] * 60, HALF_DECLINED, "worse", "failed"),
        ([1.0] * 60, ["failed"] * 30 + [1.0] * 30, "cannot tell", "undecided"),
        ([1.0] * 60, ["failed"] * 3 + [1.0] * 57, "cannot tell", "passed"),
        ([0.9] * 60, ["failed"] * 9 + [0.1] * 51, "worse", "failed"),
        ([1.0] * 60, ["missing"] * 60, "worse", "failed"),
        (HALF_DECLINED, [1.0] * 60, "cannot tell", "passed"),
        (["failed"] * 20, ["failed"] * 20, "cannot tell", "undecided"),
    ],
)
def test_verdicts(before, after, verdict, outcome):
    comparison = run(m=before).compare(run(m=after))
    assert comparison["m"].verdict == verdict
    assert outcomes_of(comparison) == {"m": outcome}
    strict = outcomes_of(comparison, strict=True)["m"]
    assert strict == ("undecided" if verdict == "cannot tell" else outcome)
    assert verdict in comparison.table()
    lost, won = comparison["m"].lost_scores, comparison["m"].won_scores
    moved = f"; {lost} lost their score, {won} won one"
    assert (moved in comparison.table()) is (lost + won > 0)


def test_a_loss_up_to_the_margin_is_none():
    slight = [max(0.0, score - 0.05) for score in BEFORE]
    first, second = run(m=BEFORE), run(m=slight)
    assert first.compare(second)["m"].verdict == "worse"
    assert first.compare(second, margin=0.2)["m"].verdict == "same"
    assert outcomes_of(first.compare(second, margin=0.2)) == {"m": "passed"}


def test_a_strictly_better_run_passes_beside_identical_metrics():
    """Only the answers improved; what was retrieved is as it was."""
    same = noisy(0.5, 60, 3)
    missing = ["missing"] * 60
    before = run(answers=BEFORE, search=same, order=same, other=missing)
    after = run(answers=BETTER, search=same, order=same, other=missing)
    comparison = before.compare(after)
    verdicts = {change.metric: change.verdict for change in comparison.changes}
    assert verdicts == {
        "answers": "better",
        "search": "identical",
        "order": "identical",
        "other": "identical",
    }
    assert set(outcomes_of(comparison, strict=True).values()) == {"passed"}
    assert comparison.headline == "The second run is better."
    told = "all 60 outcomes are equal"
    assert comparison["search"].in_words == told
    assert comparison["other"].in_words == f"{told}; none is scored"


@pytest.mark.nightly
def test_many_tests_are_corrected_for():
    """Of many metrics without a change hardly any is called worse by chance."""
    n_worse = 0
    for seed in range(20):
        before = {f"m{one}": noisy(0.6, 20, 1000 + one) for one in range(8)}
        after = {f"m{one}": noisy(0.6, 20, 9000 + 8 * seed + one) for one in range(8)}
        comparison = run(**before).compare(run(**after))
        n_worse += "failed" in outcomes_of(comparison).values()
    assert n_worse <= 3


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.3, 1.0, DECLINE, "missing"]), min_size=1),
    st.randoms(use_true_random=False),
)
def test_a_run_against_itself_in_any_order_passes(outcomes, draw):
    for ids in (True, False):
        report = run(ids, m=outcomes)
        rows = list(report.results)
        draw.shuffle(rows)
        shuffled = [
            row.model_copy(update={"index": index}) for index, row in enumerate(rows)
        ]
        comparison = report.compare(Report(shuffled, report.run))
        assert comparison["m"].verdict == "identical"
        assert outcomes_of(comparison, strict=True) == {"m": "passed"}


def asked(*answers: str, question: str = "Who?", ids: Sequence[str] = ()) -> Report:
    rows = []
    for index, answer in enumerate(answers):
        own_id = ids[index] if ids else None
        sample = Sample(id=own_id, question=question, answer=answer)
        results = {"m": result_of(len(answer) / 10)}
        rows.append(SampleResult(index=index, sample=sample, results=results))
    return Report(rows, RunFacts(metrics={"m": Signature(metric="m")}))


def test_rows_are_matched_by_id_or_question_and_never_by_place():
    with pytest.raises(InputError, match="questions stand several times"):
        asked("a", "bb").compare(asked("cc", "dd"))
    # with ids of their own they can be told
    matched = asked("a", "bb", ids="xy").compare(asked("bb", "a", ids="yx")).matched
    assert [(one.sample.id, two.sample.id) for one, two in matched.pairs] == [  # type: ignore[union-attr]
        ("x", "x"),
        ("y", "y"),
    ]
    # rows of a question that stands twice are left out, and said
    rows = [*asked("a", "bb").results, *asked("a", question="When?").results]
    report = Report(
        [row.model_copy(update={"index": index}) for index, row in enumerate(rows)],
        RunFacts(metrics={"m": Signature(metric="m")}),
    )
    comparison = report.compare(report)
    matched = comparison.matched
    assert [one.sample.question for one, _ in matched.pairs] == ["When?"]  # type: ignore[union-attr]
    assert "several times in a run: 1 question (" in str(matched)
    assert outcomes_of(comparison, strict=True) == {"m": "undecided"}
    # a set of questions that grew or shrank
    grown = Report(report.results[1:], report.run)
    one = Report(report.results[2:], report.run)
    assert len(one.compare(grown).matched.pairs) == 1
    assert len(grown.compare(one).matched.pairs) == 1
    with pytest.raises(InputError, match="no sample in common"):
        asked("a", question="Who?").compare(asked("b", question="When?"))


def with_ids(report: Report, *ids: str) -> Report:
    """The same rows with ids, one for each."""
    rows = [
        row.model_copy(update={"sample": row.sample.model_copy(update={"id": key})})
        for row, key in zip(report.results, ids, strict=True)
        if row.sample is not None
    ]
    return Report(rows, report.run)


def test_ids_that_are_new_in_each_run_hinder_no_comparison():
    before = run(m=BEFORE)
    old = with_ids(before, *(f"old {n}" for n in range(len(BEFORE))))
    new = with_ids(before, *(f"new {n}" for n in range(len(BEFORE))))
    comparison = old.compare(new)
    assert comparison.matched.by == "question"
    assert "matched by question, as no id is in both; 0 only" in str(comparison.matched)
    assert comparison["m"].verdict == "identical"


def test_ids_that_are_places_of_rows_are_told():
    """Pairs of them are pairs of other questions: nobody is told to compare them."""
    before = run(m=BEFORE)
    places = [str(n) for n in range(len(BEFORE))]
    first = with_ids(before, *places)
    second = with_ids(before, *places[::-1])
    told = (
        rf"^{len(BEFORE)} of {len(BEFORE)} questions of the first run stand at another"
    )
    with pytest.raises(InputError, match=told) as refused:
        first.compare(second)
    assert "anyway" not in str(refused.value)
    assert first.compare(second, anyway=True).matched.by == "id"


@pytest.mark.parametrize("n_fallen", range(1, 11))
def test_a_look_into_slices_changes_no_verdict_of_all_rows(n_fallen):
    before = run(m=[1.0] * 20)
    after = run(m=[0.0] * n_fallen + [1.0] * (20 - n_fallen))
    alone = before.compare(after)
    assert before.compare(after, slices="topic")["m"] == alone["m"]
    assert alone["m"].verdict == ("worse" if n_fallen > 5 else "cannot tell")


def test_a_slice_of_its_own_is_worse():
    after = [
        score if place % 2 else max(0.0, score - 0.4)
        for place, score in enumerate(BEFORE)
    ]
    comparison = run(m=BEFORE).compare(run(m=after), slices="topic")
    verdicts = {change.name: change.verdict for change in comparison.changes}
    assert verdicts == {"m": "worse", "m [a]": "worse", "m [b]": "identical"}


def test_a_slice_that_is_worse_is_told_where_the_whole_is_not():
    after = [0.9 if place % 2 else 0.3 for place in range(60)]
    comparison = run(m=[0.6] * 60).compare(run(m=after), slices="topic")
    assert outcomes_of(comparison) == {
        "m": "passed",
        "m [a]": "failed",
        "m [b]": "passed",
    }
    assert "better or worse, but a slice is worse." in comparison.headline


def test_a_run_that_ended_early_and_a_metric_that_is_gone_are_undecided():
    first = run(m=BEFORE, n=BEFORE)
    stopped = Report(first.results, first.run.model_copy(update={"interrupted": True}))
    assert set(outcomes_of(first.compare(stopped)).values()) == {"undecided"}
    assert outcomes_of(first.compare(run(m=BEFORE))) == {
        "m": "passed",
        "n": "undecided",
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("after", "code"),
    [("same", 0), ("better", 0), ("worse", 1), ("reordered", 0), ("few", 0)],
)
def test_exit_codes(after, code, capsys):
    first = run(m=BEFORE)
    if after == "few":
        first = run(m=BEFORE[:13])
    second = {
        "same": first,
        "better": run(m=BETTER),
        "worse": run(m=WORSE),
        "reordered": Report(
            [row.model_copy(update={"index": 59 - row.index}) for row in first.results],
            first.run,
        ),
        "few": run(m=noisy(0.6, 13, 7)),
    }[after]
    first.to_jsonl("a.jsonl")
    second.to_jsonl("b.jsonl")
    arguments = ["compare", "a.jsonl", "b.jsonl", "--fail-on-regression"]
    assert main(arguments) == code
    out = capsys.readouterr().out
    verdict, *_ = out.splitlines()
    known = {
        "same": "No metric is worse",
        "better": "No metric is worse",
        "worse": "Worse: 1 of 1",
        "reordered": "No metric is worse",
        "few": "No metric is known to be worse; for 1 of 1 these rows are too few",
    }[after]
    assert verdict.startswith(f"{known}: exit {code}, at which a CI job ")


@pytest.mark.usefixtures("folder")
def test_what_rows_of_one_document_cannot_tell_is_laid_to_their_cluster(capsys):
    for name, scores in {"a.jsonl": BETTER, "b.jsonl": WORSE}.items():
        run(m=scores).to_jsonl(name)
    arguments = ["compare", "a.jsonl", "b.jsonl", "--fail-on-regression"]
    assert main([*arguments, "--cluster", "topic"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "these rows, or their clusters (--cluster), are too few" in out
    assert "over 60 rows in 2 clusters; " in out
    assert main(arguments) == 1


@pytest.mark.nightly
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("has_reference", [True, False])
def test_half_of_the_answers_decline(has_reference):
    good = [row for row in planted_rows() if row["fault"] == "no fault"]
    good = [row for row in good if (row["reference"] is not None) == has_reference]
    rows = [{**row, "id": f"{row['id']}-{copy}"} for row in good for copy in range(6)]
    polite: list[dict[str, Any]] = [dict(row) for row in rows]
    for row in polite[::2]:
        row["answer"] = "The sources do not say."
    for name, each in {"a.jsonl": rows, "b.jsonl": polite}.items():
        judge = RightJudge().judge()
        report = evaluate(map(sample_of, each), judge=judge)
        report.to_jsonl(name)
    arguments = ["compare", "a.jsonl", "b.jsonl", "--fail-on-regression"]
    assert main(arguments) == 1


@pytest.mark.parametrize(
    ("n_kept", "outcome"),
    [(40, "passed"), (38, "passed"), (37, "undecided"), (2, "undecided")],
)
def test_a_run_that_lost_rows_passes_no_gate(n_kept, outcome):
    before, after = run(good=[1.0] * 40), run(good=[1.0] * n_kept)
    assert outcomes_of(before.compare(after)) == {"good": outcome}


def test_a_run_whose_retriever_died_is_compared():
    """Nothing was asked of its contexts, which is no other way of measuring."""
    rows = [row for row in planted_rows() if row["fault"] == "no fault"][:10]
    dead = [{**row, "contexts": [], "retrieved": []} for row in rows]
    before, after = (
        evaluate(map(sample_of, each), judge=RightJudge().judge())
        for each in (rows, dead)
    )
    comparison = before.compare(after)
    verdicts = {change.verdict for change in comparison.changes}
    assert "worse" in verdicts
    assert "better" not in verdicts
    stages = "Faults in 10 rows: search 0 → 10, prompt 0 → 0, answer 0 → 0."
    assert comparison.headline.endswith(stages)
