"""Retrieval Ranking equals what its measures are defined as, and is a metric like the others."""

import json
from math import log2
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core import Report, RetrievalRanking, Sample, evaluate
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import Scored, SettingError, Undefined
from ragmetrics_core.metrics.retrieval_ranking import Measure

MEASURES: tuple[Measure, ...] = get_args(Measure)


def passages(ids: list[str]) -> list[dict[str, str]]:
    return [{"id": each, "text": f"text {each}"} for each in ids]


def score(measure: Measure, k: int | None, ranked: list[str], wanted: Any) -> float:
    metric = RetrievalRanking(measure=measure, k=k)
    result = metric.score(retrieved=passages(ranked), expected_ids=wanted)
    assert isinstance(result, Scored)
    return result.value


def reference(measure: Measure, k: int, ranked: list[str], wanted: set[str]) -> float:
    """The measures as ranx defines them, written out with loops."""
    first = ranked[:k]
    ranks_of_hits = [
        rank for rank in range(1, len(first) + 1) if first[rank - 1] in wanted
    ]
    if measure == "hit_rate":
        return float(len(ranks_of_hits) > 0)
    if measure == "recall":
        return len(ranks_of_hits) / len(wanted)
    if measure == "precision":
        return len(ranks_of_hits) / k
    if measure == "mrr":
        return 1 / ranks_of_hits[0] if ranks_of_hits else 0.0
    gain = 0.0
    for rank in ranks_of_hits:
        gain += 1 / log2(rank + 1)
    highest = 0.0
    for rank in range(1, min(k, len(wanted)) + 1):
        highest += 1 / log2(rank + 1)
    return gain / highest


IDS = [f"d{number}" for number in range(12)]


@given(
    ranked=st.lists(st.sampled_from(IDS), unique=True, min_size=1),
    wanted=st.sets(st.sampled_from(IDS), min_size=1),
    k=st.integers(1, 15),
    measure=st.sampled_from(MEASURES),
)
def test_it_equals_the_definition(ranked, wanted, k, measure):
    found = score(measure, k, ranked, sorted(wanted))
    assert found == pytest.approx(reference(measure, k, ranked, wanted), abs=1e-12)


@given(
    ranked=st.lists(st.sampled_from(IDS), unique=True, min_size=1),
    wanted=st.sets(st.sampled_from(IDS), min_size=1),
    measure=st.sampled_from(MEASURES),
)
def test_ids_and_texts_give_the_same(ranked, wanted, measure):
    metric = RetrievalRanking(measure=measure)
    by_texts = metric.score(
        retrieved=passages(ranked),
        expected_contexts=[f" text\n {each} " for each in wanted],
    )
    assert by_texts.value == score(measure, None, ranked, sorted(wanted))


# worked by hand: b and z are expected, and b stands at rank 2 of 3
BY_HAND = {
    ("ndcg", 2): (1 / log2(3)) / (1 + 1 / log2(3)),
    ("ndcg", None): (1 / log2(3)) / (1 + 1 / log2(3)),
    ("hit_rate", 1): 0.0,
    ("hit_rate", 2): 1.0,
    ("recall", 2): 1 / 2,
    ("precision", 2): 1 / 2,
    ("precision", None): 1 / 3,
    ("precision", 10): 1 / 10,
    ("mrr", 2): 1 / 2,
    ("mrr", 1): 0.0,
}


@pytest.mark.parametrize(("measure", "k"), BY_HAND)
def test_values_worked_by_hand(measure, k):
    found = score(measure, k, ["a", "b", "c"], ["b", "z"])
    assert found == pytest.approx(BY_HAND[measure, k])
    # a repeat counts at its first rank
    again = score(measure, k, ["a", "a", "b", "c", "b"], ["z", "b", "b"])
    assert again == pytest.approx(BY_HAND[measure, k])


@pytest.mark.parametrize("measure", MEASURES)
def test_a_search_that_found_nothing_scores_0(measure):
    metric = RetrievalRanking(measure=measure, k=3)
    assert metric.score(Sample(retrieved=[], expected_ids=["a"])).value == 0.0


UNDEFINED = {
    "nothing is expected": (
        {"retrieved": passages(["a"])},
        "no expected_ids and no expected_contexts",
    ),
    "an empty list is expected": (
        {"retrieved": passages(["a"]), "expected_ids": []},
        "no expected_ids and no expected_contexts",
    ),
    "nobody knows what was retrieved": (
        {"answer": "x", "expected_ids": ["a"]},
        "no retrieved and no contexts|no contexts",
    ),
    "a passage without an id": (
        {"retrieved": ["A text."], "expected_ids": ["a"]},
        "rank 1 of what was retrieved has no single id",
    ),
}


@pytest.mark.parametrize("case", UNDEFINED)
def test_it_is_undefined(case):
    fields, reason = UNDEFINED[case]
    result = RetrievalRanking().score(**fields)
    assert isinstance(result, Undefined)
    assert any(part in result.reason for part in reason.split("|"))


def test_settings_are_checked():
    with pytest.raises(SettingError):
        RetrievalRanking(k=0)
    with pytest.raises(SettingError):
        RetrievalRanking(measure="map")


@pytest.mark.parametrize(
    "column", ["expected_ids", "reference_context_ids", "relevant_doc_ids"]
)
def test_usual_columns_are_found(column):
    sample = Sample.from_row({"retrieved": passages(["1"]), column: "[1, 2]"})
    assert sample.expected_ids == ("1", "2")
    assert sample.metadata == {}
    sample = Sample.from_row({"reference_contexts": ["A.", "B."]})
    assert [context.text for context in sample.expected_contexts] == ["A.", "B."]


def test_the_contexts_stand_in_for_what_was_retrieved():
    ranking = RetrievalRanking(measure="mrr")
    found = ranking.score(contexts=passages(["a", "b"]), expected_ids="b")
    assert found.value == 0.5
    assert "at rank 2" in found.reason


def test_ids_are_the_same_whatever_a_table_made_of_them(tmp_path):
    """With gaps pandas makes floats of a column of numbers; cells keep their blanks."""
    frame = pd.DataFrame(
        {"contexts": [passages(["1", " k7"])] * 4, "expected_ids": [1, None, 3, 1]}
    )
    report = evaluate(frame, ["ranking"], judge="lexical")
    assert report.scores("ranking") == [1.0, None, 0.0, 1.0]
    frame["contexts"] = frame["contexts"].map(json.dumps)
    frame.to_csv(tmp_path / "ids.csv", index=False)
    assert "1.0" in (tmp_path / "ids.csv").read_text()
    text = pd.read_csv(tmp_path / "ids.csv", dtype=str)
    text.loc[3, "expected_ids"] = '["k7 ", "1.0"]'
    report = evaluate(text, ["ranking"], judge="lexical")
    assert report.scores("ranking") == [1.0, None, 0.0, 1.0]


def test_ids_that_differ_only_in_their_form_stay_two_where_both_are_there():
    ranking = RetrievalRanking(measure="mrr")
    both = passages(["1", "1.0"])
    assert ranking.score(retrieved=both, expected_ids=["1.0"]).value == 0.5
    assert ranking.score(retrieved=both, expected_ids=["1"]).value == 1.0
    composed, decomposed = "caf\u00e9.pdf", "cafe\u0301.pdf"
    found = ranking.score(retrieved=passages([composed]), expected_ids=[decomposed])
    assert found.value == 1.0
    found = ranking.score(retrieved=[composed], expected_contexts=[decomposed])
    assert found.value == 1.0


def test_ids_of_two_forms_are_shown_where_none_matches():
    result = RetrievalRanking().score(retrieved=passages(["doc-7"]), expected_ids=[7])
    assert result.value == 0.0
    assert "expected is e.g. '7', and retrieved 'doc-7'" in result.reason
    assert "as numbers" not in result.reason


@pytest.mark.parametrize(
    ("retrieved", "expected"),
    [("7", "007"), ("1.2345678901234568e16", "12345678901234567")],
)
def test_ids_that_a_table_has_read_as_numbers_are_named_as_the_cause(
    retrieved, expected
):
    result = RetrievalRanking().score(
        retrieved=passages(["a", retrieved]), expected_ids=[expected]
    )
    assert "some are equal as numbers: write ids as text, alike" in result.reason


@pytest.mark.parametrize(
    ("expected", "is_told"),
    [(["anna lit it."], True), (["Anna lit"], True), (["Sun.", "Anna lit"], False)],
)
def test_how_texts_match_is_told_where_none_does(expected, is_told):
    result = RetrievalRanking().score(
        retrieved=["Sun.", "Anna  lit it."], expected_contexts=expected
    )
    assert (result.value == 0) is is_told
    assert ("write whole chunks as they are stored" in result.reason) is is_told


def test_it_is_in_report_page_and_gates_like_the_others(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)
    rows = [
        {
            "question": f"Where is {number}?",
            "retrieved": passages(["a", "b"]),
            "expected_ids": ["b"],
        }
        for number in range(40)
    ]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    command = ["evaluate", "rows.jsonl", "--metrics", "ranking", "--out", "out.jsonl"]
    command += ["--set", "ranking.measure=recall", "--set", "ranking.k=1"]
    assert main([*command, "--fail-under", "ranking=0.5"]) == 1
    printed = capsys.readouterr()
    assert "judge: none was asked" in printed.out
    assert "lexical" not in printed.out + printed.err
    report = Report.from_jsonl("out.jsonl")
    assert report.run.judges == ()
    assert report.scores("retrieval_ranking") == [0.0] * 40
    evidence = report.results[0].results["retrieval_ranking"].evidence
    assert [each.id for each in evidence.passages] == ["a", "b"]  # type: ignore[attr-defined]
    assert report.results[0].sample.expected_ids == ("b",)
    gate = ["--fail-under", "ranking=0.5", "--report", "page.html"]
    assert main(["report", "out.jsonl", *gate]) == 1
    page = Path("page.html").read_text()
    assert "retrieval_ranking" in page
    better = evaluate(rows, [RetrievalRanking(k=2, measure="recall")])
    assert better.scores("retrieval_ranking") == [1.0] * 40
    assert "retrieval_ranking" not in evaluate(rows, judge="lexical").metrics
