"""Judges and metrics on sets: statistics, intervals over documents, marks and caveats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dataset_toys import SIZE, corpus, judge, quoting_reply
from said import covered, facts

from ragmetrics_core import (
    ContextAdherence,
    LexicalJudge,
    RetrievalAccuracy,
    ScriptedJudge,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import UnusableReply
from ragmetrics_core.labelling import (
    ContinuousSettings,
    DiscreteSettings,
    Maker,
    Reviews,
    build_continuous,
    build_discrete,
    score_set,
    score_table,
    write_pairs,
    write_set,
)
from ragmetrics_core.labelling.judge_scores import metrics_with_prompts
from ragmetrics_core.labelling.reviews import (
    Review,
    items_to_review,
    review_items,
)
from ragmetrics_core.labelling.sets import ContinuousSet, DiscreteSet
from ragmetrics_core.metrics.fact_matrix import ExtractFacts, FactInContext


@pytest.fixture(scope="module")
def discrete() -> DiscreteSet:
    maker = Maker(judge())
    settings = DiscreteSettings(chunk_size=SIZE, questions=6)
    return build_discrete(
        corpus(), write_pairs(corpus(), settings, maker), settings, maker=maker
    )


@pytest.fixture(scope="module")
def continuous() -> ContinuousSet:
    return build_continuous(
        corpus(), ContinuousSettings(chunk_size=SIZE, documents=3), Maker(judge())
    )


def test_a_judge_that_is_right_on_the_discrete_set(discrete: DiscreteSet) -> None:
    found = score_set(
        discrete, None, RetrievalAccuracy(), judge(), prompt="io", draws=50
    )
    assert {name: value.value for name, value in found.values.items()} == {
        "accuracy": 1,
        "AUROC": 1,
        "F1": 1,
    }
    assert (found.points, found.missing, found.documents) == (12, 0, 5)
    # one fact per answer: 6 extractions, 12 points × 2 documents
    assert found.usage.calls == 6 + 12 * 2
    assert found.usage.cost == pytest.approx(0.03)


def test_a_judge_that_is_right_on_the_continuous_set(continuous: ContinuousSet) -> None:
    found = score_set(
        continuous, None, RetrievalAccuracy(), judge(), prompt="io", draws=20
    )
    assert {name: value.value for name, value in found.values.items()} == {
        "MAE": 0,
        "Spearman": pytest.approx(1),
        "slope": pytest.approx(1),
        "intercept": pytest.approx(0),
    }
    assert (found.points, found.documents) == (360, 3)
    assert found.usage.calls == 3 * (4 * 7 + 1)  # none for a combination


def test_a_judge_that_says_yes_to_everything(
    discrete: DiscreteSet, continuous: ContinuousSet
) -> None:
    script = {
        ExtractFacts: facts("one", "two"),
        FactInContext: lambda question: covered(0.9),
    }
    yes = ScriptedJudge(script, name="yes")
    on_points = score_set(discrete, None, RetrievalAccuracy(), yes, draws=20).values
    assert on_points["accuracy"].value == 0.5
    assert on_points["AUROC"].value == 0.5
    assert on_points["F1"].value == pytest.approx(2 / 3)
    on_shares = score_set(continuous, None, RetrievalAccuracy(), yes, draws=20).values
    labels = [point.label for point in continuous.points]
    assert on_shares["MAE"].value == pytest.approx(1 - sum(labels) / len(labels))
    assert on_shares["Spearman"].value is None
    assert "undefined" in score_table(
        continuous,
        None,
        [score_set(continuous, None, RetrievalAccuracy(), yes, draws=5)],
    )


def test_points_without_a_score_are_counted(
    continuous: ContinuousSet, discrete: DiscreteSet
) -> None:
    failing = ScriptedJudge({ExtractFacts: UnusableReply("nothing")})
    for given, points in ((continuous, 360), (discrete, 12)):
        found = score_set(given, None, RetrievalAccuracy(), failing, draws=5)
        assert (found.points, found.missing) == (0, points)
        assert {value.value for value in found.values.values()} == {None}
        assert f"0 ({points} missing)" in score_table(given, None, [found])


def test_a_metric_without_a_matrix_is_asked_per_point(
    continuous: ContinuousSet, discrete: DiscreteSet
) -> None:
    found = score_set(continuous, None, ContextAdherence(), LexicalJudge(), draws=5)
    assert found.points == 360
    assert found.values["Spearman"].value is not None
    assert (
        score_set(discrete, None, ContextAdherence(), LexicalJudge(), draws=5).points
        == 12
    )


def test_one_document_has_no_intervals() -> None:
    one = build_continuous(
        corpus(), ContinuousSettings(chunk_size=SIZE, documents=1), Maker(judge())
    )
    found = score_set(one, None, RetrievalAccuracy(), LexicalJudge())
    assert {value.interval for value in found.values.values()} == {None}
    table = score_table(one, None, [found])
    assert "One document: no intervals" in table
    assert "[" not in table.splitlines()[3]
    assert (
        "120 points of 1 documents, skewed: 4 hold no golden chunk, 8 all of them"
        in table
    )


def test_the_same_scores_give_the_same_intervals(continuous: ContinuousSet) -> None:
    first, again = (
        score_set(continuous, None, RetrievalAccuracy(), LexicalJudge(), draws=50)
        for _ in range(2)
    )
    assert first.values == again.values
    # where all resamples agree there is none
    assert all(
        value.interval is None or value.interval[0] < value.interval[1]
        for value in first.values.values()
    )
    assert "3 documents are few" in score_table(continuous, None, [first])


def test_variants() -> None:
    metrics = [RetrievalAccuracy(), ContextAdherence()]
    names = [
        (metric.name, prompt)
        for metric, prompt in metrics_with_prompts(metrics, judge(), ["io", "cot"])
    ]
    assert names == [
        ("retrieval_accuracy", "io"),
        ("retrieval_accuracy", "cot"),
        ("context_adherence", ""),
    ]
    assert [
        prompt
        for _, prompt in metrics_with_prompts(metrics, LexicalJudge(), ["io", "cot"])
    ] == ["", ""]
    (io, _), (cot, _) = metrics_with_prompts(
        [RetrievalAccuracy()], judge(), ["io", "cot"]
    )
    assert io.settings()["extraction"] == "io"
    assert cot.settings()["extraction"] == "cot"


def test_marks_and_headings(
    discrete: DiscreteSet, continuous: ContinuousSet, tmp_path: Path
) -> None:
    def table(given: Any, own: Any, reviews: Reviews | None) -> str:
        return score_table(
            given,
            reviews,
            [score_set(given, reviews, RetrievalAccuracy(), own, draws=5)],
            name="s",
        )

    circular = table(discrete, LexicalJudge(), None)
    assert circular.startswith(
        "s: discrete set, agreement with the retriever's ranks, not accuracy (no points"
        " reviewed)"
    )
    assert "lexical†" in circular
    assert "† not evidence" in circular
    shown = table(continuous, judge(name="elsewhere/other"), None)
    assert shown.startswith(
        "s: continuous set, agreement with the labelling model, not accuracy (no cells"
        " reviewed)"
    )
    assert "†" not in shown

    reviews = Reviews(tmp_path / "set.jsonl", discrete)
    items = review_items(discrete)
    for item in items[:4]:
        reviews.add(
            Review(item=item.id, was=item.was, label="ambiguous", reviewer="Ada")
        )
    partly = table(discrete, LexicalJudge(), reviews)
    assert "not accuracy (only 4 of 12 points reviewed)" in partly
    assert "lexical†" in partly
    assert "8 points: " in partly
    assert "4 left out as ambiguous" in partly
    for item in items[4:]:
        reviews.add(Review(item=item.id, was=item.was, label=item.was, reviewer="Ada"))
    whole = table(discrete, LexicalJudge(), reviews)
    assert whole.startswith("s: discrete set, agreement with reviewed labels\n")
    assert "†" not in whole


def test_one_command_scores_both_sets(
    discrete: DiscreteSet,
    continuous: ContinuousSet,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths = [str(tmp_path / "discrete.jsonl"), str(tmp_path / "continuous.jsonl")]
    for path, given in zip(paths, (discrete, continuous), strict=True):
        write_set(path, given)
    assert (
        main(
            [
                "dataset",
                "score",
                *paths,
                "--judge",
                "lexical",
                "--quiet",
                "--draws",
                "50",
            ]
        )
        == 0
    )
    shown = capsys.readouterr().out
    for path in paths:  # what a set holds is no answer of an application
        assert main(["evaluate", path, "--judge", "lexical"]) == 2
        said = capsys.readouterr().err
        assert f"judges are scored: ragmetrics dataset score {path}" in said
    for word in (
        "accuracy",
        "AUROC",
        "F1",
        "MAE",
        "Spearman",
        "slope",
        "intercept",
        "calls",
        "cost",
        "not evidence",
    ):
        assert word in shown
    assert "d0p0w1" not in shown
    assert main(["dataset", "score", paths[1], "--judge", "lexical", "--dry-run"]) == 0
    assert "3 points or documents" in capsys.readouterr().out
    assert main(["dataset", "score", paths[0], "--prompts", "else"]) == 2
    assert (
        main(
            [
                "dataset",
                "score",
                paths[0],
                "--api-base",
                "http://127.0.0.1:1/v1",
                "--judge",
                "lexical",
            ]
        )
        == 0
    )


def test_several_judges_and_prompts(
    continuous: ContinuousSet,
    tmp_path: Path,
    loopback_server: Any,
    monkeypatch: Any,
    capsys: Any,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    server = loopback_server(quoting_reply, probability=None)
    path = tmp_path / "set.jsonl"
    write_set(path, continuous)
    command = [
        "dataset",
        "score",
        str(path),
        "--judge",
        "lexical",
        "--judge",
        "openai-compatible/m",
        "--prompts",
        "io,cot",
    ]
    command += ["--api-base", server.base_url, "--quiet", "--draws", "5"]
    assert main(command) == 0
    rows = [
        line.split()
        for line in capsys.readouterr().out.splitlines()
        if "retrieval_accuracy" in line
    ]
    assert [(row[0], row[2]) for row in rows] == [
        ("lexical", "-"),
        ("openai-compatible/m", "io"),
        ("openai-compatible/m", "cot"),
    ]
    # cells are asked once, facts once per prompt
    assert len(server.requests) == 3 * (28 + 1 + 1)


def test_ambiguous_points_enter_no_score(discrete: DiscreteSet, tmp_path: Path) -> None:
    reviews = Reviews(tmp_path / "set.jsonl", discrete)
    point = discrete.points[0]
    reviews.add(
        Review(item=point.id, was=point.by_rank, label="ambiguous", reviewer="Anna")
    )
    measured = score_set(
        discrete, reviews, RetrievalAccuracy(), judge(), prompt="io", draws=5
    )
    assert (measured.points, measured.missing) == (11, 0)


def test_one_document_has_no_interval_and_many_are_not_few() -> None:
    settings = DiscreteSettings(chunk_size=SIZE, questions=1)
    pairs = write_pairs(corpus(), settings, Maker(judge()))
    alone = build_discrete(corpus(), pairs, settings)
    score = score_set(alone, None, ContextAdherence(), LexicalJudge(), draws=5)
    assert score.documents == 1
    assert {value.interval for value in score.values.values()} == {None}
    assert "One document: no intervals" in score_table(alone, None, [score])
    few = replace(score, documents=19)
    many = replace(score, documents=20)
    assert "19 documents are few" in score_table(alone, None, [few])
    assert "are few" not in score_table(alone, None, [many])


def test_texts_to_review_stand_in_an_order_that_tells_no_rank(
    discrete: DiscreteSet,
) -> None:
    for item in review_items(discrete):
        assert list(item.texts) == sorted(item.texts)
    assert any(
        [context.text for context in point.sample.known_contexts]
        != sorted(context.text for context in point.sample.known_contexts)
        for point in discrete.points
    )


def test_a_second_reviewer_gets_at_least_one_item(
    discrete: DiscreteSet, tmp_path: Path
) -> None:
    reviews = Reviews(tmp_path / "set.jsonl", discrete)
    point = discrete.points[0]
    reviews.add(
        Review(item=point.id, was=point.by_rank, label="positive", reviewer="Anna")
    )
    items = items_to_review(discrete, reviews, second=True, share=0.01)
    assert [item.id for item in items] == [point.id]
