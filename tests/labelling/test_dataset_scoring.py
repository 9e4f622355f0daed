"""Judges and metrics on sets: statistics, intervals over documents, marks and caveats."""

from dataclasses import replace
from typing import Any

import pytest
from dataset_toys import SIZE, corpus, judge, quoting_reply
from judge_replies import covered, facts

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
from ragmetrics_core.labelling.judge_scores import Score
from ragmetrics_core.labelling.reviews import Review, review_items
from ragmetrics_core.labelling.sets import AnySet, ContinuousSet, DiscreteSet
from ragmetrics_core.metrics.fact_matrix import ExtractFacts, FactInContext

ACCURACY = RetrievalAccuracy()


def set_of_questions(count: int) -> DiscreteSet:
    maker = Maker(judge())
    settings = DiscreteSettings(chunk_size=SIZE, questions=count)
    pairs = write_pairs(corpus(), settings, maker)
    return build_discrete(corpus(), pairs, settings, maker=maker)


def set_of_documents(count: int) -> ContinuousSet:
    settings = ContinuousSettings(chunk_size=SIZE, documents=count)
    return build_continuous(corpus(), settings, Maker(judge()))


@pytest.fixture(scope="module")
def discrete() -> DiscreteSet:
    return set_of_questions(6)


@pytest.fixture(scope="module")
def continuous() -> ContinuousSet:
    return set_of_documents(3)


def values(score: Score) -> dict[str, float | None]:
    return {name: measured.value for name, measured in score.values.items()}


def decide(reviews: Reviews, items: Any, label: Any = None) -> None:
    """Have Ada decide about items: as they were, or by this label."""
    for item in items:
        own = label or item.was
        reviews.add(Review(item=item.id, was=item.was, label=own, reviewer="Ada"))


def test_a_judge_that_is_right(discrete, continuous):
    found = score_set(discrete, None, ACCURACY, judge(), draws=50)
    assert values(found) == {"accuracy": 1, "AUROC": 1, "F1": 1}
    assert (found.points, found.missing, found.documents) == (12, 0, 5)
    # one fact per answer: 6 extractions, 12 points × 2 documents
    assert found.usage.calls == 6 + 12 * 2
    assert found.usage.cost == pytest.approx(0.03)
    found = score_set(continuous, None, ACCURACY, judge(), draws=20)
    right = {"MAE": 0, "Spearman": 1, "slope": 1, "intercept": 0}
    assert values(found) == pytest.approx(right)
    assert (found.points, found.documents) == (360, 3)
    assert found.usage.calls == 3 * (4 * 7 + 1)  # none for a combination


def test_a_judge_that_says_yes_to_everything(discrete, continuous):
    script = {
        ExtractFacts: facts("one", "two"),
        FactInContext: lambda question: covered(0.9),
    }
    yes = ScriptedJudge(script, name="yes")
    found = values(score_set(discrete, None, ACCURACY, yes, draws=20))
    expected = {"accuracy": 0.5, "AUROC": 0.5, "F1": pytest.approx(2 / 3)}
    assert found == expected
    on_shares = score_set(continuous, None, ACCURACY, yes, draws=20)
    labels = [point.label for point in continuous.points]
    mean_label = sum(labels) / len(labels)
    assert on_shares.values["MAE"].value == pytest.approx(1 - mean_label)
    assert on_shares.values["Spearman"].value is None
    assert "undefined" in score_table(continuous, None, [on_shares])


def test_a_score_of_one_half_is_not_above_the_threshold(discrete):
    script = {
        ExtractFacts: facts("one", "two"),
        FactInContext: lambda question: covered(0.9 * (question["fact"] == "one")),
    }
    half = ScriptedJudge(script, name="half")
    found = values(score_set(discrete, None, ACCURACY, half, draws=20))
    assert found == {"accuracy": 0.5, "AUROC": 0.5, "F1": 0}


def test_points_without_a_score_are_counted(continuous, discrete):
    failing = ScriptedJudge({ExtractFacts: UnusableReply("nothing")})
    given: list[tuple[AnySet, int]] = [(continuous, 360), (discrete, 12)]
    for labelled_set, points in given:
        found = score_set(labelled_set, None, ACCURACY, failing, draws=5)
        assert (found.points, found.missing) == (0, points)
        assert set(values(found).values()) == {None}
        assert f"0 ({points} missing)" in score_table(labelled_set, None, [found])


@pytest.mark.nightly
def test_a_metric_without_a_matrix_is_asked_per_point(continuous, discrete):
    given: list[tuple[AnySet, int]] = [(continuous, 360), (discrete, 12)]
    for labelled_set, points in given:
        metric, own = ContextAdherence(), LexicalJudge()
        assert score_set(labelled_set, None, metric, own, draws=5).points == points


def test_one_document_has_no_interval_and_many_are_not_few():
    one: list[tuple[AnySet, str]] = [
        (set_of_questions(1), "2 points: 1 positive, 1 negative"),
        (
            set_of_documents(1),
            "120 points of 1 document, skewed: 4 hold no golden chunk, 8 all of them",
        ),
    ]
    for labelled_set, composition in one:
        score = score_set(labelled_set, None, ACCURACY, LexicalJudge(), draws=5)
        assert score.documents == 1
        assert {measured.interval for measured in score.values.values()} == {None}
        table = score_table(labelled_set, None, [score])
        assert "One document: no intervals" in table
        assert "[" not in table.splitlines()[3]
        assert composition in table
        few, many = (replace(score, documents=count) for count in (19, 20))
        assert "19 documents are few" in score_table(labelled_set, None, [few])
        assert "are few" not in score_table(labelled_set, None, [many])


def test_the_same_scores_give_the_same_intervals(continuous):
    first, again = (
        score_set(continuous, None, ACCURACY, LexicalJudge(), draws=50)
        for _ in range(2)
    )
    assert first.values == again.values
    for measured in first.values.values():  # none where all resamples agree
        assert measured.interval is None or measured.interval[0] < measured.interval[1]


@pytest.mark.nightly
def test_marks_and_headings(discrete, continuous, tmp_path):
    def table(given: AnySet, own: Any, reviews: Reviews | None) -> str:
        score = score_set(given, reviews, ACCURACY, own, draws=5)
        return score_table(given, reviews, [score], name="s")

    circular = table(discrete, LexicalJudge(), None)
    by_ranks = "agreement with the retriever's ranks, not accuracy (no points reviewed)"
    assert circular.startswith(f"s: discrete set, {by_ranks}")
    assert "lexical†" in circular
    assert "† not evidence" in circular
    shown = table(continuous, judge(name="elsewhere/other"), None)
    by_model = "agreement with the labelling model, not accuracy (no cells reviewed)"
    assert shown.startswith(f"s: continuous set, {by_model}")
    assert "†" not in shown

    reviews = Reviews(tmp_path / "set.jsonl", discrete)
    items = review_items(discrete)
    decide(reviews, items[:4], "ambiguous")
    partly = table(discrete, LexicalJudge(), reviews)
    assert "not accuracy (only 4 of 12 points reviewed)" in partly
    assert "lexical†" in partly
    assert "8 points: " in partly
    assert "4 left out as ambiguous" in partly
    score = score_set(discrete, reviews, ACCURACY, LexicalJudge(), draws=5)
    assert (score.points, score.missing) == (8, 0)
    decide(reviews, items[4:])
    whole = table(discrete, LexicalJudge(), reviews)
    assert whole.startswith("s: discrete set, agreement with reviewed labels\n")
    assert "†" not in whole


@pytest.mark.nightly
def test_one_command_scores_both_sets(
    discrete, continuous, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    write_set("discrete.jsonl", discrete)
    write_set("continuous.jsonl", continuous)
    sets, lexical = ["discrete.jsonl", "continuous.jsonl"], ["--judge", "lexical"]
    score = ["dataset", "score"]
    assert main([*score, *sets, *lexical, "--quiet", "--draws", "50"]) == 0
    shown = capsys.readouterr().out
    for words in ("accuracy AUROC F1", "MAE Spearman slope intercept", "calls cost"):
        assert all(word in shown for word in words.split())
    assert "not evidence" in shown
    assert "d0p0w1" not in shown
    for name in sets:  # what a set holds is no answer of an application
        assert main(["evaluate", name, *lexical]) == 2
        assert "no metric applies to" in capsys.readouterr().err
    assert main([*score, sets[1], *lexical, "--dry-run"]) == 0
    assert "3 points or documents" in capsys.readouterr().out
    endpoint = ["--api-base", "http://127.0.0.1:1/v1"]
    assert main([*score, sets[0], *endpoint, *lexical]) == 0


def test_several_judges_and_a_setting(continuous, tmp_path, loopback_server, capsys):
    server = loopback_server(quoting_reply, probability=None)
    path = tmp_path / "set.jsonl"
    write_set(path, continuous)
    judges = ["--judge", "lexical", "--judge", "openai-compatible/m"]
    options = ["--api-base", server.base_url, "--quiet", "--draws", "5"]
    for extraction in ("io", "cot"):
        setting = ["--set", f"accuracy.extraction={extraction}"]
        assert main(["dataset", "score", str(path), *judges, *options, *setting]) == 0
        lines = capsys.readouterr().out.splitlines()
        rows = [line.split() for line in lines if "retrieval_accuracy" in line]
        assert [row[0] for row in rows] == ["lexical", "openai-compatible/m"]
    # cells are asked once, facts once per prompt
    assert len(server.requests) == 3 * (28 + 1 + 1)


def test_texts_to_review_stand_in_an_order_that_tells_no_rank(discrete):
    items = review_items(discrete)
    assert all(list(item.texts) == sorted(item.texts) for item in items)
    for point in discrete.points:
        texts = [context.text for context in point.sample.known_contexts]
        if texts != sorted(texts):
            break
    else:
        pytest.fail("the order of the ranks is that of the texts")
