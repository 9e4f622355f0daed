"""The contract of all adapters, on a real pipeline: store, BM25-free retriever, prompt, model, answer builder."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
from haystack import Document, Pipeline, component
from haystack.components.builders import AnswerBuilder, PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.core.errors import PipelineRuntimeError
from haystack.dataclasses import ChatMessage
from haystack.evaluation import EvaluationRunResult
from haystack.tracing import tracer
from haystack_integrations.components.evaluators.ragmetrics import (
    RagMetricsEvaluator,
    capture,
)
from haystack_integrations.components.evaluators.ragmetrics import (
    evaluator as evaluator_module,
)

from ragmetrics_core import Report
from ragmetrics_core.data.results import MetricResult, SampleResult
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.testing import AdapterContract
from ragmetrics_core.testing.adapter_contract import GOLDEN_TURNS, GoldenTurn

TEMPLATE = (
    "{% for document in documents %}{{ document.content }}\n{% endfor %}Question: {{"
    " query }}"
)


@component
class FixedRetriever:
    """Returns the documents of a turn, as a store would."""

    def __init__(self, documents: list[Document]) -> None:
        self.documents = documents

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": list(self.documents)}


@component
class BrokenGenerator:
    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        raise RuntimeError("the model is gone")


@component
class Turning:
    """A reranker: the last document goes, and the others change places."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        return {"documents": documents[-2::-1]}


def pipeline(
    turn: GoldenTurn,
    generator: Any = None,
    template: str = TEMPLATE,
    reranker: Any = None,
) -> Pipeline:
    documents = [
        Document(id=c.id or "", content=c.text, score=c.score, meta=dict(c.metadata))
        for c in turn.contexts
    ]
    made = Pipeline()
    made.add_component("retriever", FixedRetriever(documents))
    made.add_component("prompt", PromptBuilder(template))
    made.add_component("llm", generator or MockChatGenerator(turn.answer or ""))
    made.add_component("answers", AnswerBuilder())
    if reranker is None:
        made.connect("retriever.documents", "prompt.documents")
    else:
        made.add_component("reranker", reranker)
        made.connect("retriever.documents", "reranker.documents")
        made.connect("reranker.documents", "prompt.documents")
    made.connect("prompt.prompt", "llm.messages")
    made.connect("llm.replies", "answers.replies")
    made.connect("retriever.documents", "answers.documents")
    return made


def inputs(turn: GoldenTurn) -> dict[str, Any]:
    return {
        name: {"query": turn.question} for name in ("retriever", "prompt", "answers")
    }


def read_in_a_loop(made: Pipeline, given: dict[str, Any]) -> Iterator[object]:
    """Run a pipeline's stream in an event loop of its own, which stands still meanwhile."""
    with asyncio.Runner() as runner:
        handle: AsyncIterator[object] = runner.run(begun(made, given))
        while True:
            try:
                piece = runner.run(following(handle))
            except StopAsyncIteration:
                return
            yield piece


async def begun(made: Pipeline, given: dict[str, Any]) -> AsyncIterator[object]:
    return aiter(made.stream(given))


async def following(pieces: AsyncIterator[object]) -> object:
    return await anext(pieces)


class TestContract(AdapterContract):
    module: ClassVar[str] = "haystack_integrations.components.evaluators.ragmetrics"
    framework: ClassVar[str] = "haystack"

    def play(self, turn: GoldenTurn) -> tuple[list[Sample], Any]:
        with capture() as captured:
            result = pipeline(turn).run(inputs(turn))
        assert not captured.problems
        return list(captured.samples), result

    def play_uncaptured(self, turn: GoldenTurn) -> Any:
        return pipeline(turn).run(inputs(turn))

    def play_streamed(self, turn: GoldenTurn) -> list[Sample]:
        chunks: list[str] = []
        generator = MockChatGenerator(
            turn.answer or "",
            streaming_callback=lambda chunk: chunks.append(chunk.content),
        )
        with capture() as captured:
            pipeline(turn, generator).run(inputs(turn))
        assert len(chunks) > 1
        return list(captured.samples)

    def play_prompt(self, turn: GoldenTurn, prompt: str) -> list[Sample]:
        made = pipeline(
            turn, template="{{ prompt }}{% if documents and query %}{% endif %}"
        )
        given = inputs(turn)
        given["prompt"]["prompt"] = prompt
        with capture() as captured:
            made.run(given)
        return list(captured.samples)

    async def play_async(self, turn: GoldenTurn) -> list[Sample]:
        with capture() as captured:
            await pipeline(turn).run_async(inputs(turn))
        return list(captured.samples)

    def play_unanswered(self, turn: GoldenTurn) -> list[Sample]:
        with capture() as captured, pytest.raises(PipelineRuntimeError):
            pipeline(turn, BrokenGenerator()).run(inputs(turn))
        return list(captured.samples)

    def play_two(self, one: GoldenTurn, two: GoldenTurn) -> list[Sample]:
        made = pipeline(
            two, template=TEMPLATE.replace("in documents", "in first + documents")
        )
        documents = [
            Document(id=c.id or "", content=c.text, score=c.score) for c in one.contexts
        ]
        made.add_component("first", FixedRetriever(documents))
        made.connect("first.documents", "prompt.first")
        with capture() as captured:
            made.run({**inputs(two), "first": {"query": two.question}})
        return list(captured.samples)

    def play_reranked(self, turn: GoldenTurn) -> list[Sample]:
        made = pipeline(turn, reranker=Turning())
        with capture() as captured:
            made.run(inputs(turn))
        return list(captured.samples)

    def play_changed(self, turn: GoldenTurn) -> list[Sample]:
        made = pipeline(turn)
        with capture() as captured:
            made.run(inputs(turn))
        for document in made.get_component("retriever").documents:
            object.__setattr__(document, "content", "changed")
            document.meta.clear()
        return list(captured.samples)

    def begin(self, turn: GoldenTurn) -> Iterator[object]:
        pieces = read_in_a_loop(pipeline(turn), inputs(turn))
        next(pieces)
        return pieces

    def hooks(self) -> object:
        return tracer.actual_tracer

    def to_native_and_back(self, result: MetricResult) -> tuple[float | None, str]:
        evaluator = RagMetricsEvaluator(
            metrics=[result.metric], judge="lexical", raise_on_failure=False
        )
        row = SampleResult(index=0, sample=Sample(), results={result.metric: result})
        with patch.object(evaluator_module, "evaluate", return_value=Report([row])):
            outputs = evaluator.run(
                questions=["?"], contexts=[["!"]], predicted_answers=["!"]
            )
        native = EvaluationRunResult("run", {"row": [0]}, outputs["results"])
        detailed = native.detailed_report(output_format="json")
        assert isinstance(detailed, dict)
        value = detailed[result.metric][0]
        return (None if math.isnan(value) else value), native.results[result.metric][
            "reasons"
        ][0]


def test_stream_api_gives_the_same_sample() -> None:
    turn = GOLDEN_TURNS[0]

    async def streamed() -> list[Sample]:
        with capture() as captured:
            handle = pipeline(turn).stream(inputs(turn))
            async for _ in handle:
                pass
        return list(captured.samples)

    (sample,) = asyncio.run(streamed())
    assert sample.answer == turn.answer
    assert [context.id for context in sample.known_contexts] == [
        context.id for context in turn.contexts
    ]
