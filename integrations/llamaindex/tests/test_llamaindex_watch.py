"""Watching in the background, labelled datasets, and running an engine over questions."""

import asyncio
import json
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from llama_index.core import get_response_synthesizer
from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation import QueryResponseDataset
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore
from llama_index.evaluation.ragmetrics import (
    capture,
    evaluate_query_engine,
    load_rag_dataset,
    watch,
)
from llama_index.evaluation.ragmetrics.recording.recorder import RECORDER
from said import poll, polls

from ragmetrics_core import ContextAdherence, Sample, ScriptedJudge
from ragmetrics_core.capture import JsonlSink
from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.replies import Answer
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.polls import Adherent

ADHERENT = ScriptedJudge({Adherent: polls((poll("yes", "It says so."),))})


@pytest.fixture
def engine(kit: ModuleType) -> RetrieverQueryEngine:
    def nodes(question: str) -> list[NodeWithScore]:
        if question == "broken":
            raise kit.Broken("the store is down")
        return [kit.node("a", f"About {question}", 0.5)]

    return RetrieverQueryEngine(
        kit.FixedRetriever(nodes),
        response_synthesizer=get_response_synthesizer(llm=kit.ScriptedLLM()),
    )


def test_watch(engine: RetrieverQueryEngine, kit: ModuleType, tmp_path: Path) -> None:
    results, sink = [], JsonlSink(tmp_path / "scores.jsonl")
    watching = watch(
        [ContextAdherence()],
        ADHERENT,
        keep=True,
        on_result=results.append,
        sinks=[sink],
    )
    try:
        threads = [
            threading.Thread(target=engine.query, args=(f"question {n}",))
            for n in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kit.FixedRetriever([kit.node("b", "alone")]).retrieve("only retrieved")
        assert watching.flush(timeout=20)
        assert len(results) == 21
        assert watching.aggregates["context_adherence"].scored == 20
        assert watching.aggregates["context_adherence"].undefined == 1
    finally:
        assert watching.stop(timeout=20)
    engine.query("after the end")
    assert len(watching.report().results) == 21
    assert len((tmp_path / "scores.jsonl").read_text().splitlines()) == 21
    assert not watching.problems
    assert not RECORDER.listeners.open


def test_watch_beside_capture(engine: RetrieverQueryEngine) -> None:
    watching = watch([], keep=True)
    with capture(id="mine") as captured:
        engine.query("both")
    assert watching.stop(timeout=10)
    assert [sample.id for sample in watching.samples] == [None]
    assert [sample.id for sample in captured.samples] == ["mine"]


def test_a_judge_that_queries_is_not_watched(engine: RetrieverQueryEngine) -> None:
    class Asking(Judge):
        name = "asking"

        async def answer(self, question: Any) -> Answer[Any]:
            response = await engine.aquery("of the judge")
            return Answer(polls((poll("yes", str(response)),)))

    watching = watch([ContextAdherence()], Asking(), keep=True)
    engine.query("of the user")
    assert watching.stop(timeout=10)
    assert [sample.question for sample in watching.samples] == ["of the user"]
    with capture() as captured:
        engine.query("of the user")
        for report in (
            captured.evaluate([ContextAdherence()], judge=Asking(), progress=False),
            asyncio.run(captured.aevaluate([ContextAdherence()], judge=Asking())),
        ):
            assert report.scores("context_adherence") == [1.0]
    assert len(captured.samples) == 1


EXAMPLES = [
    {
        "query": "What is an index?",
        "query_by": {"model_name": "gpt-4", "type": "ai"},
        "reference_contexts": ["An index holds nodes.", "A node is a chunk."],
        "reference_answer": "It holds nodes.",
        "reference_answer_by": {"model_name": "gpt-4", "type": "ai"},
    },
    {
        "query": "And a node?",
        "query_by": None,
        "reference_contexts": None,
        "reference_answer": "",
        "reference_answer_by": None,
    },
]


def test_load_rag_dataset(tmp_path: Path) -> None:
    path = tmp_path / "rag_dataset.json"
    path.write_text(json.dumps({"examples": EXAMPLES}), encoding="utf-8")
    by_object = SimpleNamespace(
        examples=[SimpleNamespace(**example) for example in EXAMPLES]
    )
    for dataset in (path, str(path), {"examples": EXAMPLES}, by_object):
        first, second = load_rag_dataset(dataset)
        assert (first.question, first.reference) == (
            "What is an index?",
            ("It holds nodes.",),
        )
        assert first.metadata["reference_contexts"] == [
            "An index holds nodes.",
            "A node is a chunk.",
        ]
        assert (second.question, second.reference, second.metadata) == (
            "And a node?",
            (),
            {},
        )
    path.write_text("no json", encoding="utf-8")
    with pytest.raises(InputError, match="no JSON"):
        load_rag_dataset(path)
    path.write_text(
        json.dumps({"queries": {"7": "What is an index?"}, "responses": {}}),
        encoding="utf-8",
    )
    (only,) = load_rag_dataset(path)
    assert (only.id, only.question, only.reference) == ("7", "What is an index?", ())
    with pytest.raises(InputError, match="examples"):
        load_rag_dataset({"rows": []})
    with pytest.raises(InputError, match="example 0"):
        load_rag_dataset({"examples": [{"reference_answer": "x"}]})


def test_evaluate_query_engine(engine: RetrieverQueryEngine, kit: ModuleType) -> None:
    shown = []
    questions = [
        "plain",
        Sample(
            question="with reference",
            reference="The answer.",
            id="7",
            metadata={"a": 1},
        ),
        {"question": "a row", "ground_truth": "The answer."},
        "broken",
    ]
    report = evaluate_query_engine(
        engine,
        questions,
        ["context_adherence", "context_recall"],
        judge="lexical",
        progress=shown.append,
    )
    samples = [result.sample for result in report.results]
    assert [sample.question for sample in samples if sample] == [
        "plain",
        "with reference",
        "a row",
        "broken",
    ]
    assert [sample.reference for sample in samples if sample] == [
        (),
        ("The answer.",),
        ("The answer.",),
        (),
    ]
    assert samples[1] is not None
    assert (samples[1].id, samples[1].metadata, samples[1].answer) == (
        "7",
        {"a": 1},
        "The answer.",
    )
    assert samples[3] is not None
    assert (samples[3].error or "").startswith("Broken")
    assert report.results[3].results["context_adherence"].status == "undefined"
    assert report.results[1].results["context_recall"].value == 1.0
    assert len(shown) == 8
    streaming = RetrieverQueryEngine(
        kit.FixedRetriever([kit.node("a", "a")]),
        response_synthesizer=get_response_synthesizer(
            llm=kit.ScriptedLLM(), streaming=True
        ),
    )
    report = evaluate_query_engine(
        streaming,
        SimpleNamespace(examples=[SimpleNamespace(**EXAMPLES[0])]),
        [],
        progress=False,
    )
    assert report.results[0].sample is not None
    assert report.results[0].sample.answer == "The answer."
    assert report.results[0].sample.reference == ("It holds nodes.",)
    with pytest.raises(InputError, match="question 1"):
        evaluate_query_engine(engine, ["a", " "], judge="lexical")


# the framework's own dataset
@pytest.mark.filterwarnings("ignore:Call to deprecated class:DeprecationWarning")
def test_evaluate_query_engine_on_a_query_response_dataset(
    engine: RetrieverQueryEngine,
) -> None:
    dataset = QueryResponseDataset.from_qr_pairs(
        [("What is an index?", "It holds nodes."), ("And a node?", "A chunk.")]
    )
    report = evaluate_query_engine(engine, dataset, [], progress=False)
    samples = [result.sample for result in report.results if result.sample is not None]
    assert [(one.id, one.question, one.reference) for one in samples] == [
        ("0", "What is an index?", ("It holds nodes.",)),
        ("1", "And a node?", ("A chunk.",)),
    ]


def test_a_question_that_fails_ends_no_other(
    engine: RetrieverQueryEngine, kit: ModuleType
) -> None:
    report = evaluate_query_engine(engine, ["broken", "plain"], [], progress=False)
    failed, answered = [result.sample for result in report.results]
    assert failed is not None
    assert answered is not None
    assert failed.error == "Broken: the store is down"
    assert (answered.answer, answered.error) == ("The answer.", None)


def test_a_streamed_answer_that_breaks_is_told_in_its_sample(kit: ModuleType) -> None:
    llm = kit.ScriptedLLM(fails_after=1)
    streaming = RetrieverQueryEngine(
        kit.FixedRetriever([kit.node("a", "a")]),
        response_synthesizer=get_response_synthesizer(llm=llm, streaming=True),
    )
    sample = (
        evaluate_query_engine(streaming, ["q"], [], progress=False).results[0].sample
    )
    assert sample is not None
    assert (sample.answer, sample.error) == (None, "Broken: the stream broke")


def test_an_interrupt_of_an_engine_ends_the_run(kit: ModuleType) -> None:
    def interrupted(question: str) -> list[NodeWithScore]:
        raise KeyboardInterrupt

    engine = RetrieverQueryEngine(
        kit.FixedRetriever(interrupted),
        response_synthesizer=get_response_synthesizer(llm=kit.ScriptedLLM()),
    )
    with pytest.raises(KeyboardInterrupt):
        evaluate_query_engine(engine, ["q"], [], progress=False)


def test_an_engine_without_spans_is_judged_by_what_it_returns(kit: ModuleType) -> None:
    class Unseen:
        def query(self, question: str) -> object:
            if question == "broken":
                raise LookupError("the shelf is empty")
            if question == "odd":
                return 7
            return Response("Ada.", source_nodes=[kit.node("a", "Ada lit the lamp.")])

    engine: Any = Unseen()
    report = evaluate_query_engine(
        engine, ["Who?", "broken", "odd"], "adherence", progress=False
    )
    answered, broken, odd = [result.sample for result in report.results]
    assert (answered.question, answered.answer) == ("Who?", "Ada.")
    assert [context.text for context in answered.known_contexts] == [
        "Ada lit the lamp."
    ]
    assert broken.error == "LookupError: the shelf is empty"
    assert "cannot be read" in odd.error
    assert report.results[0].results["context_adherence"].status == "scored"
