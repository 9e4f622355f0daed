"""Typed questions to a model on this machine: tiny Llamas, through transformers' pipeline.

The probabilities of one are given; another has random weights, and reads all it is
shown.
"""

from __future__ import annotations

import json
import pickle
import time
from pathlib import Path
from typing import Any

import pytest
import tiny_encoders as tiny
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from typed_rows import METRICS, ROW, SAMPLE

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    Metric,
    Report,
    RetrievalAccuracy,
    Sample,
    evaluate,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.encoders.local_decisions import LocalDecisionModel
from ragmetrics_core.engine.dry_run import estimate
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.judging.decision_judge import DecisionJudge

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")

YES = {"Yes": 0.75, "No": 0.245}


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> LocalDecisionModel:
    folder = tmp_path_factory.mktemp("models") / "reading"
    return LocalDecisionModel(tiny.reading_model(folder))


def judged(
    model: LocalDecisionModel,
    *metrics: Metric,
    row: Sample = SAMPLE,
    **settings_of_run: Any,
) -> Report:
    return evaluate(
        [row],
        metrics or METRICS,
        judge=DecisionJudge(model),
        progress=False,
        **{"store": False, **settings_of_run},
    )


def values(report: Report) -> dict[str, float | None]:
    return {name: result.value for name, result in report.results[0].results.items()}


def test_the_four_metrics_are_scored_without_a_key(reading: LocalDecisionModel) -> None:
    report = judged(reading)
    results = report.results[0].results
    assert [result.status for result in results.values()] == ["scored"] * 4
    assert report.usage.cost == 0.0
    assert report.usage.prompt_tokens > 0
    assert {result.judge for result in results.values()} == {"local/reading"}


def test_the_probability_is_the_labels_share(tmp_path: Path) -> None:
    model = LocalDecisionModel(tiny.chat_model(tmp_path / "tiny", YES))
    (result,) = judged(model, RetrievalAccuracy()).results[0].results.values()
    evidence: Any = result.evidence
    cells = [cell for row in evidence.cells for cell in row]
    expected = [pytest.approx(0.75 / 0.995)] * 6
    assert [cell.probability for cell in cells] == expected
    assert {cell.mode for cell in cells} == {"decision"}


def test_an_answer_depends_on_the_texts(reading: LocalDecisionModel) -> None:
    other = Sample.from_row({**ROW, "contexts": ["Fog lay over the harbour."]})
    metrics = (ContextAdherence(cause=False), ContextRecall())
    assert values(judged(reading, *metrics)) != values(
        judged(reading, *metrics, row=other)
    )


def test_a_metric_alone_scores_as_beside_three(reading: LocalDecisionModel) -> None:
    together = values(judged(reading))
    alone: dict[str, float | None] = {}
    for metric in METRICS:
        alone |= values(judged(reading, metric))
    assert alone == together


# What the pipeline lacks


def test_acceptance_12_texts_longer_than_the_model_reads_are_never_answered(
    tmp_path: Path,
) -> None:
    """The pipeline answers 6,000 tokens in 512 positions without a word."""
    model = LocalDecisionModel(tiny.chat_model(tmp_path / "tiny", YES, longest=512))
    sample = Sample.from_row({**ROW, "contexts": ["Anna lit the lamp. " * 900]})
    (result,) = (
        judged(model, ContextAdherence(cause=False), row=sample)
        .results[0]
        .results.values()
    )
    assert (result.status, result.value) == ("failed", None)
    assert result.error is not None
    assert result.error.type in ("ContextWindowExceeded", "QuestionNotSupported")


def test_a_long_context_is_asked_about_in_windows(tmp_path: Path) -> None:
    model = LocalDecisionModel(tiny.chat_model(tmp_path / "tiny", YES, longest=900))
    sample = Sample.from_row({**ROW, "contexts": ["Anna lit the lamp. " * 160]})
    report = judged(model, RetrievalAccuracy(), row=sample)
    (result,) = report.results[0].results.values()
    evidence: Any = result.evidence
    assert result.status == "scored"
    assert [cell.windows for row in evidence.cells for cell in row] == [2, 2]
    assert "windows" in report.usage.fallbacks


@pytest.fixture(scope="module")
def certain(tmp_path_factory: pytest.TempPathFactory) -> LocalDecisionModel:
    folder = tmp_path_factory.mktemp("models") / "certain"
    return LocalDecisionModel(tiny.chat_model(folder, YES))


@settings(max_examples=12, deadline=None)
@given(n_words=st.integers(1, 60), beyond=st.booleans())
def test_law_a_prompt_is_answered_up_to_the_window_and_not_beyond(
    certain: LocalDecisionModel, n_words: int, beyond: bool
) -> None:
    text = request_text(["predicate", "Is it so?", []], state="lamp " * n_words)
    length = certain._answer_each(text).usage.prompt_tokens
    before = certain._window
    certain._window = length - 1 if beyond else length
    try:
        (choice,) = certain._answer_each(text).choices
    finally:
        certain._window = before
    assert (choice.finish == "length") is beyond


def request_text(*questions: list[Any], state: str = "A lamp.") -> str:
    return json.dumps({"state": {"text": state}, "questions": questions})


@pytest.mark.parametrize("mass", [0.02, 0.5, 0.89])
def test_acceptance_12_labels_that_are_unlikely_give_no_probability(
    tmp_path: Path, mass: float
) -> None:
    unlikely = {"Yes": 0.99 * mass, "No": 0.01 * mass}
    model = LocalDecisionModel(tiny.chat_model(tmp_path / "tiny", unlikely))
    (result,) = judged(model, ContextUtilization()).results[0].results.values()
    assert (result.status, result.value) == ("failed", None)
    assert result.error is not None
    assert result.error.type == "MalformedReply"
    assert f"probability of only {mass:.3f}" in result.reason


def test_labels_above_the_floor_are_read(tmp_path: Path) -> None:
    likely = {"Yes": 0.6, "No": 0.31}
    model = LocalDecisionModel(tiny.chat_model(tmp_path / "tiny", likely))
    (result,) = judged(model, ContextUtilization()).results[0].results.values()
    assert result.value == 1.0


def test_each_question_fails_by_itself(tmp_path: Path) -> None:
    model = LocalDecisionModel(tiny.chat_model(tmp_path / "tiny", YES))
    options = [["A", "one"], ["B", "two"]]
    text = request_text(["predicate", "Is it so?", []], ["choice", "Which?", options])
    first, second = model._answer_each(text).choices
    assert (first.finish, second.finish) == ("stop", "other")


@settings(max_examples=8, deadline=None)
@given(order=st.permutations(range(3)))
def test_law_an_answer_does_not_depend_on_the_company(
    reading: LocalDecisionModel, order: list[int]
) -> None:
    questions = [["predicate", f"`text` is about {word}.", []] for word in "abc"]
    together = reading._answer_each(
        request_text(*[questions[place] for place in order])
    )
    for place, choice in zip(order, together.choices, strict=True):
        (alone,) = reading._answer_each(request_text(questions[place])).choices
        assert alone.text == choice.text


# The house


def test_waiting_for_its_turn_is_no_timeout(
    certain: LocalDecisionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_to = certain._answer_one

    def slow(request: Any) -> Any:
        time.sleep(0.1)
        return answer_to(request)

    monkeypatch.setattr(certain, "_answer_one", slow)
    judge = DecisionJudge(certain, timeout=0.15)
    metrics = [ContextUtilization(), RetrievalAccuracy()]
    report = evaluate([SAMPLE], metrics, judge=judge, progress=False, store=False)
    assert [result.status for result in report.results[0].results.values()] == [
        "scored"
    ] * 2
    assert report.usage.faults == 0


def test_a_second_run_asks_nothing(reading: LocalDecisionModel, tmp_path: Path) -> None:
    store = tmp_path / "replies"
    first = judged(reading, store=store)
    again = judged(reading, store=store)
    assert first.usage.calls > 0
    assert again.usage.calls == 0
    assert values(first) == values(again)


def test_results_and_store_know_the_weights(
    reading: LocalDecisionModel, certain: LocalDecisionModel
) -> None:
    assert DecisionJudge(reading).details["commit"] == reading.details["commit"]
    assert reading.cache_key != certain.cache_key


def test_other_labels_of_the_same_weights_have_other_replies(tmp_path: Path) -> None:
    folder = tiny.reading_model(tmp_path / "tiny")
    before = LocalDecisionModel(folder)
    swapped = {"labels": {"noul": ["B", "A"]}}
    (folder / "decision.json").write_text(json.dumps(swapped))
    after = LocalDecisionModel(folder)
    assert before.cache_key != after.cache_key
    assert before.details != after.details


def test_a_dry_run_says_that_it_costs_nothing(reading: LocalDecisionModel) -> None:
    assert estimate([SAMPLE], METRICS, DecisionJudge(reading)).high.cost == 0.0


def test_a_name_leads_to_a_folder(tmp_path: Path) -> None:
    folder = tiny.chat_model(tmp_path / "tiny", YES)
    judge = resolve_judge(f"local/{folder}")
    assert isinstance(judge, DecisionJudge)
    assert judge.name == "local/tiny"
    with pytest.raises(SettingError, match="takes no endpoint"):
        resolve_judge(f"local/{folder}", api_base="http://127.0.0.1:1/v1")


def test_the_command_line_judges_on_this_machine(tmp_path: Path) -> None:
    folder = tiny.chat_model(tmp_path / "tiny", YES)
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(ROW) + "\n")
    out = tmp_path / "out.jsonl"
    arguments = ["evaluate", str(rows), "--judge", f"local/{folder}", "--no-store"]
    assert main([*arguments, "--metrics", "utilization", "--out", str(out)]) == 0
    assert values(Report.from_jsonl(out)) == {"context_utilization": 1.0}


def test_a_copy_in_another_process_is_the_same_model(
    reading: LocalDecisionModel,
) -> None:
    text = request_text(["predicate", "Is it so?", []])
    copied = pickle.loads(pickle.dumps(reading))
    assert copied._answer_each(text).choices == reading._answer_each(text).choices


def test_a_folder_that_is_none_says_so(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="is no folder on this machine"):
        LocalDecisionModel(tmp_path / "nowhere")


def test_a_folder_without_a_model_says_so(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot be loaded for typed questions"):
        LocalDecisionModel(tmp_path)


def test_a_transformers_without_the_pipeline_says_which_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny.chat_model(tmp_path / "tiny", YES)
    monkeypatch.setattr(transformers.pipelines, "get_supported_tasks", list)
    with pytest.raises(SettingError, match=r"install 5\.23"):
        LocalDecisionModel(folder)


def test_labels_that_are_no_single_tokens_are_refused_at_once(tmp_path: Path) -> None:
    folder = tiny.chat_model(tmp_path / "tiny", YES)
    labels = {"labels": {"noul": ["Certainly", "Certainly not"]}}
    (folder / "decision.json").write_text(json.dumps(labels))
    with pytest.raises(SettingError, match="not one token each"):
        LocalDecisionModel(folder)


def test_a_model_that_states_no_window_needs_one(tmp_path: Path) -> None:
    folder = tiny.chat_model(tmp_path / "tiny", YES, longest=200_000)
    with pytest.raises(SettingError, match="window="):
        LocalDecisionModel(folder)
    assert LocalDecisionModel(folder, window=64).details["window"] == "64"


def test_a_window_beyond_the_models_positions_is_refused(tmp_path: Path) -> None:
    folder = tiny.chat_model(tmp_path / "tiny", YES, longest=512)
    with pytest.raises(SettingError, match="it has 512 positions"):
        LocalDecisionModel(folder, window=513)


def test_a_model_without_a_chat_template_is_refused(tmp_path: Path) -> None:
    folder = tiny.chat_model(tmp_path / "tiny", YES)
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(SettingError, match="has no chat template"):
        LocalDecisionModel(folder)
