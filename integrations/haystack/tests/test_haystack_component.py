"""The component: its sockets, its outputs, its YAML."""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.components.builders import AnswerBuilder, PromptBuilder
from haystack.components.evaluators import FaithfulnessEvaluator
from haystack.components.generators.chat import MockChatGenerator, OpenAIChatGenerator
from haystack.components.joiners import AnswerJoiner
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.core.errors import (
    SerializationError,
)
from haystack.dataclasses import ChatMessage, ExtractedAnswer, GeneratedAnswer
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.evaluation import EvaluationRunResult
from haystack.utils import Secret
from haystack_integrations.components.evaluators.ragmetrics import (
    RagMetricsEvaluator,
)
from judge_replies import poll
from loopback import LoopbackServer

from ragmetrics_core import ContextAdherence, Criterion, ScriptedJudge
from ragmetrics_core.data.asking import Question
from ragmetrics_core.data.errors import (
    AuthenticationFailed,
    JudgeUnavailable,
    RagMetricsError,
    SettingError,
    UnusableReply,
)
from ragmetrics_core.data.replies import Answer, R
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.polls import Adherent

QUESTION = "When was the lighthouse built?"
DOCUMENT = Document(id="built", content="The lighthouse was built in 1856.", score=0.5)
ANSWER = "The lighthouse was built in 1856."


def answer(
    text: str = ANSWER, documents: list[Document] | None = None
) -> GeneratedAnswer:
    return GeneratedAnswer(
        text, QUESTION, [DOCUMENT] if documents is None else documents, {"model": "m"}
    )


def evaluator(
    metrics: Any = ("context_adherence", "context_utilization"), **settings: Any
) -> RagMetricsEvaluator:
    if "chat_generator" not in settings:
        settings.setdefault("judge", "lexical")
    return RagMetricsEvaluator(list(metrics), **settings)


def polls(*verdicts: Any) -> ScriptedJudge:
    return ScriptedJudge({Adherent: [poll(verdict) for verdict in verdicts]})


# Sockets


def pipeline(component_under_test: Any) -> Pipeline:
    store = InMemoryDocumentStore()
    store.write_documents([DOCUMENT])
    made = Pipeline()
    made.add_component("retriever", InMemoryBM25Retriever(store))
    made.add_component(
        "prompt",
        PromptBuilder(
            "{% for d in documents %}{{ d.content }}{% endfor %}\nQuestion: {{ query }}"
        ),
    )
    made.add_component("llm", MockChatGenerator(ANSWER))
    made.add_component("answer_builder", AnswerBuilder())
    made.add_component("evaluator", component_under_test)
    made.connect("retriever.documents", "prompt.documents")
    made.connect("prompt", "llm")
    made.connect("llm.replies", "answer_builder.replies")
    made.connect("retriever.documents", "answer_builder.documents")
    return made


INPUTS: dict[str, Any] = {
    name: {"query": QUESTION} for name in ("retriever", "prompt", "answer_builder")
}


@pytest.mark.parametrize("mode", ["run", "run_async"])
def test_one_wire(mode: str) -> None:
    app = pipeline(evaluator())
    app.connect("answer_builder.answers", "evaluator.answers")
    result = app.run(INPUTS) if mode == "run" else asyncio.run(app.run_async(INPUTS))
    found = result["evaluator"]
    assert found["results"]["context_adherence"]["status"] == ["scored"]
    assert (
        found["score"]
        == found["individual_scores"][0]
        == found["results"]["context_adherence"]["score"]
        > 0.5
    )
    assert found["meta"]["judges"] == ["lexical"]
    assert found["meta"]["warnings"] == []


def test_the_wire_takes_joined_and_extracted_answers() -> None:
    made = Pipeline()
    made.add_component("joiner", AnswerJoiner())
    made.add_component("evaluator", evaluator())
    made.connect("joiner.answers", "evaluator.answers")
    extracted = ExtractedAnswer(
        query=QUESTION, score=0.9, data="1856", document=DOCUMENT
    )
    found = made.run({"joiner": {"answers": [answer(), extracted]}})["evaluator"]
    assert len(found["individual_scores"]) == 2


@pytest.mark.parametrize("contexts", [DOCUMENT.content, [DOCUMENT.content]])
def test_one_text_for_the_contexts_of_an_answer_is_one_context(contexts: Any) -> None:
    found = evaluator(["context_utilization"]).run(
        questions=[QUESTION], contexts=[contexts], predicted_answers=[ANSWER]
    )
    assert found["results"]["context_utilization"]["status"] == ["scored"]


def test_an_expected_answer_may_be_a_web_address() -> None:
    address = "https://a.example/b"
    found = evaluator(["context_recall"]).run(
        questions=[QUESTION],
        contexts=[[address]],
        predicted_answers=[address],
        ground_truth_answers=[address],
    )
    assert found["individual_scores"] == [1.0]


def test_lists_as_of_the_frameworks_own_evaluators() -> None:
    given = {
        "questions": [QUESTION] * 2,
        "contexts": [[DOCUMENT.content or ""]] * 2,
        "predicted_answers": [ANSWER, "Nobody knows the keeper."],
    }
    ours = evaluator().run(**given)
    theirs = FaithfulnessEvaluator(
        chat_generator=MockChatGenerator(
            '{"statements": ["s"], "statement_scores": [1]}'
        ),
        progress_bar=False,
    ).run(**given)
    assert {"score", "individual_scores", "results", "meta"} <= set(theirs) & set(ours)
    assert len(ours["individual_scores"]) == len(theirs["individual_scores"]) == 2
    assert ours["individual_scores"][0] > ours["individual_scores"][1]
    recall = evaluator(["context_recall"]).run(
        **given, ground_truth_answers=[ANSWER, ANSWER]
    )
    assert recall["results"]["context_recall"]["status"] == ["scored", "scored"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"answers": [answer()], "query": QUESTION}, "answers; query"),
        ({"query": QUESTION, "questions": [QUESTION]}, "query; questions"),
        ({"questions": [QUESTION], "predicted_answers": []}, "differ in length"),
        (
            {"answers": [answer()], "ground_truth_answers": ["a", "b"]},
            "differ in length",
        ),
        ({"answers": ["text"]}, "GeneratedAnswer"),
        ({"questions": [QUESTION], "contexts": [[3]]}, "must be a text or an object"),
    ],
)
def test_unclear_inputs_are_errors_in_words(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        evaluator().run(**given)


@pytest.mark.parametrize("given", [{}, {"answers": []}, {"questions": []}])
def test_nothing_gives_empty_results(given: dict[str, Any]) -> None:
    found = evaluator().run(**given)
    assert math.isnan(found["score"])
    assert found["individual_scores"] == []
    assert found["results"]["context_adherence"]["status"] == []


@pytest.mark.parametrize(
    ("settings", "cut"),
    [
        ({}, False),
        ({"reference_pattern": r"\[(\d)\]"}, True),
        (
            {
                "reference_pattern": r"\[(\d)\]",
                "return_only_referenced_documents": False,
            },
            False,
        ),
    ],
)
def test_a_cut_list_is_said(settings: dict[str, Any], cut: bool) -> None:
    documents = [Document(content=f"Text {n}") for n in range(3)]
    made = AnswerBuilder(**settings).run(
        query=QUESTION, replies=["So it is [1] [3]."], documents=documents
    )["answers"]
    warnings = evaluator().run(answers=made)["meta"]["warnings"]
    assert bool(warnings) is cut
    assert all("cited" in warning for warning in warnings)


# Outputs


def test_results_fit_the_frameworks_report() -> None:
    answers = [answer(), answer("", []), answer("Nobody knows the keeper.")]
    found = evaluator().run(answers=answers)
    column = found["results"]["context_adherence"]
    assert column["status"] == ["scored", "undefined", "scored"]
    assert math.isnan(column["individual_scores"][1])
    assert column["score"] == pytest.approx(
        (column["individual_scores"][0] + column["individual_scores"][2]) / 2
    )
    assert column["reasons"][1] == "no answer"
    assert column["evidence"][0]["kind"] == "context_adherence"
    json.dumps(column["evidence"])
    native = EvaluationRunResult(
        "run", {"answer": [one.data for one in answers]}, found["results"]
    )
    aggregated: Any = native.aggregated_report(output_format="json")
    assert aggregated["metrics"] == ["context_adherence", "context_utilization"]
    assert aggregated["score"][0] == column["score"]


def test_failures_raise_or_are_nan(caplog: pytest.LogCaptureFixture) -> None:
    judge = ScriptedJudge({Adherent: UnusableReply("no verdict", raw="secret reply")})
    with pytest.raises(
        RagMetricsError,
        match=r"context_adherence of answer 0: UnusableReply.*raise_on_failure=False",
    ):
        evaluator(["context_adherence"], judge=judge).run(answers=[answer()])
    found = evaluator(["context_adherence"], judge=judge, raise_on_failure=False).run(
        answers=[answer()]
    )
    assert found["results"]["context_adherence"]["status"] == ["failed"]
    assert math.isnan(found["score"])
    assert "secret" not in caplog.text


class Refusing(Judge):
    name = "refusing"

    async def answer(self, question: Question[R]) -> Answer[R]:
        raise AuthenticationFailed("the endpoint refused the key")


def test_an_unavailable_judge() -> None:
    judge = Refusing()
    with pytest.raises(JudgeUnavailable, match="refused the key"):
        evaluator(["context_adherence"], judge=judge).run(answers=[answer()])
    quiet = evaluator(["context_adherence"], judge=judge, raise_on_failure=False)
    found = quiet.run(answers=[answer()])
    assert found["results"]["context_adherence"]["status"] == ["failed"]


@pytest.mark.parametrize(
    "settings",
    [
        {"metrics": ["nothing"]},
        {"metrics": [{"name": "adherence", "setting": {}}]},
        {"metrics": [3]},
        {"judge": "lexical", "chat_generator": MockChatGenerator()},
    ],
)
def test_wrong_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        RagMetricsEvaluator(**settings)


def test_closing_reaches_the_generator() -> None:
    calls: list[str] = []

    class Generator:
        def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
            return {"replies": [ChatMessage.from_assistant("{}")]}

        def close(self) -> None:
            calls.append("close")

    made = Pipeline()
    made.add_component("evaluator", component_with(Generator()))
    made.close()
    assert calls == ["close"]
    evaluator().close()


def component_with(generator: Any) -> RagMetricsEvaluator:
    return RagMetricsEvaluator(["context_adherence"], chat_generator=generator)


# YAML


def in_a_fresh_process(tmp_path: Path, *runs: tuple[str, dict[str, Any]]) -> list[Any]:
    """Load pipelines under the default allowlist in another process and run them."""
    (tmp_path / "runs.json").write_text(json.dumps(runs), encoding="utf-8")
    code = (
        "import json, sys\nfrom haystack import Pipeline\nwith"
        f" open({str(tmp_path / 'runs.json')!r}) as file: runs ="
        " json.load(file)\nprint(json.dumps([Pipeline.loads(yaml).run(given)['evaluator']"
        " for yaml, given in runs]))\n"
    )
    settings = {
        **os.environ,
        "HAYSTACK_TELEMETRY_ENABLED": "False",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=settings,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.nightly
def test_yaml_round_trip_with_the_embedded_judge(tmp_path: Path) -> None:
    metrics = [
        "context_utilization",
        ContextAdherence(polls=3, name="grounded"),
        {"name": "context_recall"},
    ]
    app = pipeline(evaluator(metrics, raise_on_failure=False, concurrency=3))
    app.connect("answer_builder.answers", "evaluator.answers")
    given = {**INPUTS, "evaluator": {"ground_truth_answers": [ANSWER]}}
    yaml = app.dumps()
    assert Pipeline.loads(yaml).to_dict()["components"] == app.to_dict()["components"]
    # The store of the fresh process is empty: it gets the document through the
    # component's other sockets instead.
    single = Pipeline()
    single.add_component("evaluator", evaluator(metrics))
    parts = {
        "evaluator": {
            "query": QUESTION,
            "replies": ANSWER,
            "ground_truth_answers": [ANSWER],
            "documents": None,
        }
    }
    lists = {
        "evaluator": {
            "questions": [QUESTION],
            "contexts": [[DOCUMENT.content]],
            "predicted_answers": [ANSWER],
            "ground_truth_answers": [ANSWER],
        }
    }
    alone = single.dumps()
    again, *there = in_a_fresh_process(
        tmp_path, (yaml, given), (alone, parts), (alone, lists)
    )
    assert set(again["results"]) == {
        "context_utilization",
        "grounded",
        "context_recall",
    }
    here = [
        json.loads(json.dumps(single.run(one)["evaluator"])) for one in (parts, lists)
    ]
    assert _without_nan(there) == _without_nan(here)


def _without_nan(value: Any) -> Any:
    return json.loads(json.dumps(value), parse_constant=str)


@pytest.mark.nightly
def test_yaml_round_trip_with_a_generator_and_a_secret(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    loopback_server: Callable[..., LoopbackServer],
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "sk-not-a-real-key")
    server = loopback_server()
    generator = OpenAIChatGenerator(
        api_key=Secret.from_env_var("JUDGE_KEY"),
        model="judge",
        api_base_url=server.base_url,
    )
    made = Pipeline()
    made.add_component(
        "evaluator",
        evaluator(
            ["context_adherence", "context_utilization"], chat_generator=generator
        ),
    )
    yaml = made.dumps()
    assert "JUDGE_KEY" in yaml
    assert "sk-not" not in yaml
    given = {
        "evaluator": {
            "questions": [QUESTION],
            "contexts": [[DOCUMENT.content]],
            "predicted_answers": [ANSWER],
        }
    }
    here = made.run(given)["evaluator"]
    (there,) = in_a_fresh_process(tmp_path, (yaml, given))
    assert _without_nan(there) == _without_nan(json.loads(json.dumps(here)))
    assert here["meta"]["prompt_tokens"] > 0
    assert server.requests[0].headers["authorization"] == "Bearer sk-not-a-real-key"
    made.close()


def test_a_judge_object_cannot_be_dumped() -> None:
    with pytest.raises(SerializationError, match="ScriptedJudge"):
        evaluator(judge=polls("yes")).to_dict()


def test_a_criterion_is_dumped_with_its_sentence() -> None:
    polite = Criterion("polite", "The answer is polite.", reads=["answer", "contexts"])
    made = Pipeline()
    made.add_component("evaluator", evaluator([polite], judge="lexical"))
    loaded = Pipeline.loads(made.dumps()).get_component("evaluator")
    assert loaded.metrics == (polite,)


@pytest.mark.parametrize(
    "judged_by",
    [
        {"judge": "lexical"},
        {"chat_generator": MockChatGenerator("yes")},
        {"judge": MockChatGenerator("yes")},
    ],
)
def test_a_dictionary_makes_the_component_again(judged_by: dict[str, Any]) -> None:
    made = RagMetricsEvaluator(
        [ContextAdherence(polls=3)], raise_on_failure=False, concurrency=3, **judged_by
    )
    again = RagMetricsEvaluator.from_dict(made.to_dict())
    assert again.metrics == made.metrics
    assert again.to_dict() == made.to_dict()
    is_generator = judged_by.get("judge") != "lexical"
    assert isinstance(again.chat_generator, MockChatGenerator) is is_generator
    for each in (made, again):
        meta = each.run(query=QUESTION, documents=[DOCUMENT], replies=ANSWER)["meta"]
        assert (meta["calls"] > 0) is is_generator


def test_a_metric_of_ones_own_cannot_be_dumped() -> None:
    class Own(ContextAdherence):
        """A metric that no name stands for."""

    with pytest.raises(SerializationError, match="a Own"):
        evaluator([Own()]).to_dict()
