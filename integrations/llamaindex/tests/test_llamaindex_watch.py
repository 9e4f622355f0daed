"""Watching in the background."""

import asyncio
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from llama_index.core import get_response_synthesizer
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore
from llama_index.evaluation.ragmetrics import capture, watch
from llama_index.evaluation.ragmetrics.recording.recorder import RECORDER
from said import poll, polls

from ragmetrics_core import ContextAdherence, ScriptedJudge
from ragmetrics_core.capture import JsonlSink
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
    watching = watch([])
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

    watching = watch([ContextAdherence()], Asking())
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


# the framework's own dataset
