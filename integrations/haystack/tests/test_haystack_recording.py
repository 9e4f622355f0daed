"""The tracer: nothing mixed, lost or doubled; other tracers go on; nothing is left behind; no harm is done."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from counted_steps import count_steps
from haystack import Document, Pipeline, component, tracing
from haystack.components.agents import Agent
from haystack.components.builders import (
    AnswerBuilder,
    PromptBuilder,
)
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.rankers import LostInTheMiddleRanker
from haystack.dataclasses import ChatMessage, GeneratedAnswer, ToolCall
from haystack.tools import Tool
from haystack.tracing import Span, Tracer
from haystack.tracing.tracer import NullTracer
from haystack_integrations.components.evaluators.ragmetrics import (
    HaystackModel,
    capture,
    samples_from,
    watch,
)
from haystack_integrations.tracing.opentelemetry import OpenTelemetryTracer
from haystack_integrations.tracing.ragmetrics import Run, Tee
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragmetrics_core.capture import Captured
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.sample import Sample

TEMPLATE = (
    "{% for document in documents %}- {{ document.content }}\n{% endfor %}\nQuestion:"
    " {{ query }}"
)


def echoed(messages: list[ChatMessage]) -> str:
    return f"Echo of {(messages[-1].text or '').rpartition(': ')[2]}"


@component
class Numbered:
    """Retrieves two documents that name the query.

    Waits, so that concurrent runs overlap.
    """

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        return {
            "documents": [
                Document(
                    id=f"{query}-{n}", content=f"Text {n} on {query}", score=1 / (n + 1)
                )
                for n in range(2)
            ]
        }

    @component.output_types(documents=list[Document])
    async def run_async(self, query: str) -> dict[str, Any]:
        await asyncio.sleep(0)
        return self.run(query)


def rag(generator: Any = None) -> Pipeline:
    made = Pipeline()
    made.add_component("retriever", Numbered())
    made.add_component("prompt", PromptBuilder(TEMPLATE))
    made.add_component("llm", generator or MockChatGenerator(response_fn=echoed))
    made.add_component("answers", AnswerBuilder())
    made.connect("retriever.documents", "prompt.documents")
    made.connect("prompt", "llm")
    made.connect("llm.replies", "answers.replies")
    return made


def inputs(query: str) -> dict[str, Any]:
    return {name: {"query": query} for name in ("retriever", "prompt", "answers")}


def check(sample: Sample) -> str:
    """Every field belongs to the same question, which is returned."""
    query = sample.question or ""
    assert sample.answer == f"Echo of {query}"
    assert [context.id for context in sample.known_contexts] == [
        f"{query}-0",
        f"{query}-1",
    ]
    assert sample.retrieved == sample.contexts
    return query


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    assert isinstance(tracing.tracer.actual_tracer, NullTracer)
    tracing.disable_tracing()


# Concurrency


def test_to_thread_is_in_the_capture() -> None:
    async def main() -> Captured[Run]:
        with capture() as captured:
            await asyncio.to_thread(rag().run, inputs("q"))
        return captured

    assert [check(sample) for sample in asyncio.run(main()).samples] == ["q"]


def test_a_cancelled_run_is_incomplete() -> None:
    @component
    class Waiting:
        @component.output_types(replies=list[ChatMessage])
        def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
            return {"replies": []}

        @component.output_types(replies=list[ChatMessage])
        async def run_async(self, messages: list[ChatMessage]) -> dict[str, Any]:
            await asyncio.Event().wait()
            return {"replies": []}

    async def main() -> Captured[Run]:
        with capture() as captured, pytest.raises(TimeoutError):
            await asyncio.wait_for(rag(Waiting()).run_async(inputs("q")), 0.2)
        return captured

    (sample,) = asyncio.run(main()).samples
    assert (sample.question, sample.answer, sample.error) == ("q", None, None)
    assert sample.capture is not None
    assert not sample.capture.complete


# Other tracers


class Strict(Tracer):
    """A tracer that only accepts its own spans as parents, and keeps its tags."""

    def __init__(self) -> None:
        self.spans: list[StrictSpan] = []

    @contextlib.contextmanager
    def trace(
        self, operation_name: str, tags: Any = None, parent_span: Span | None = None
    ) -> Iterator[Span]:
        assert parent_span is None or isinstance(parent_span, StrictSpan)
        span = StrictSpan(operation_name, parent_span)
        span.set_tags(tags or {})
        self.spans.append(span)
        yield span

    def current_span(self) -> Span | None:
        return self.spans[-1] if self.spans else None

    def flush(self) -> str:
        return "flushed"


class StrictSpan(Span):
    def __init__(self, name: str, parent: Span | None) -> None:
        self.name, self.parent, self.tags = name, parent, dict[str, Any]()

    def set_tag(self, key: str, value: Any) -> None:
        self.tags[key] = value

    def special(self) -> str:
        return "special"

    def get_correlation_data_for_logs(self) -> dict[str, Any]:
        return {"trace": "t"}


def agent() -> Agent:
    def reply(messages: list[ChatMessage]) -> ChatMessage:
        done = any(message.tool_call_results for message in messages)
        return (
            ChatMessage.from_assistant("Done.")
            if done
            else ChatMessage.from_assistant(tool_calls=[ToolCall("t", {"x": "1"})])
        )

    schema = {
        "type": "object",
        "properties": {"x": {"type": "string"}},
        "required": ["x"],
    }
    return Agent(
        chat_generator=MockChatGenerator(response_fn=reply),
        tools=[Tool("t", "d", schema, function=lambda x: f"found {x}")],
    )


def played(tracer: Tracer) -> None:
    rag().run(inputs("q"))
    agent().run(messages=[ChatMessage.from_user("q")])
    asyncio.run(rag().run_async(inputs("q")))


def test_a_strict_tracer_sees_the_same_with_and_without_us() -> None:
    def outline(tracer: Strict) -> list[Any]:
        return [
            (span.name, span.parent and span.parent.name, sorted(span.tags))
            for span in tracer.spans
        ]  # type: ignore[attr-defined]

    plain, teed = Strict(), Strict()
    tracing.enable_tracing(plain)
    played(plain)
    tracing.enable_tracing(teed)
    with capture() as captured:
        actual: Any = tracing.tracer.actual_tracer
        assert isinstance(actual, Tee)
        assert actual.flush() == "flushed"
        played(teed)
    assert tracing.tracer.actual_tracer is teed
    tracing.disable_tracing()
    assert outline(teed) == outline(plain)
    assert len(captured.samples) == 3


def test_opentelemetry_of_haystack_goes_on() -> None:
    def exported(with_us: bool) -> list[Any]:
        exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracing.enable_tracing(OpenTelemetryTracer(provider.get_tracer("test")))
        with capture() if with_us else contextlib.nullcontext() as captured:
            played(tracing.tracer)
        assert captured is None or len(captured.samples) == 3
        tracing.disable_tracing()
        spans = exporter.get_finished_spans()
        names = {span.context.span_id: span.name for span in spans}
        return [
            (
                s.name,
                names.get(s.parent.span_id) if s.parent else None,
                sorted(s.attributes or {}),
            )
            for s in spans
        ]

    without = exported(False)
    assert exported(True) == without
    assert len(without) > 10
    assert not any("ragmetrics" in str(span) for span in without)


def test_a_tracer_enabled_inside_stays() -> None:
    inside = Strict()
    with capture() as captured:
        tracing.enable_tracing(inside)
        with capture() as again:
            rag().run(inputs("q"))
    assert tracing.tracer.actual_tracer is inside
    tracing.disable_tracing()
    assert [sample.question for sample in again.samples] == ["q"]
    assert [sample.question for sample in captured.samples] == ["q"]
    assert any("another tracer" in problem for problem in captured.problems.counts)
    assert not again.problems


# No harm, nothing left


@pytest.mark.parametrize("meta", [None, {}, {"vector": np.zeros(3)}, {"pages": [1, 2]}])
def test_a_document_that_comes_again_is_recorded_each_time(meta: Any) -> None:
    @component
    class Shelf:
        @component.output_types(documents=list[Document])
        def run(self, query: str) -> dict[str, Any]:
            texts = ("Text 0 on q", "Text 1 on q")
            return {"documents": [Document(content=text, meta=meta) for text in texts]}

    made = Pipeline()
    made.add_component("retriever", Shelf())
    made.add_component("ranker", LostInTheMiddleRanker())
    made.add_component("prompt", PromptBuilder(TEMPLATE))
    made.add_component("llm", MockChatGenerator(response_fn=echoed))
    made.connect("retriever.documents", "ranker.documents")
    made.connect("ranker.documents", "prompt.documents")
    made.connect("prompt", "llm")
    with capture() as captured:
        made.run({"retriever": {"query": "q"}, "prompt": {"query": "q"}})
    assert captured.problems.counts == {}
    (sample,) = captured.samples
    texts = ["Text 0 on q", "Text 1 on q"]
    assert sorted(context.text for context in sample.known_contexts) == texts
    assert sample.ledger is not None
    assert [item.text for item in sample.ledger.calls[0].items] == texts


def test_internal_errors_stay_inside(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("secret text")

    expected = rag().run(inputs("q"))
    for place in ("recorder.copied", "recorder.Node"):
        with monkeypatch.context() as patch, capture() as captured:
            patch.setattr(f"haystack_integrations.tracing.ragmetrics.{place}", broken)
            assert rag().run(inputs("q")) == expected
            assert (
                agent().run(messages=[ChatMessage.from_user("q")])["last_message"].text
                == "Done."
            )
        assert captured.samples == ()
    assert "secret text" not in caplog.text
    assert "ZeroDivisionError" in caplog.text


# The judge and watch


class Nested:
    """A ChatGenerator that runs a pipeline of its own: as a judge it must not be captured."""

    def __init__(self) -> None:
        self.calls = 0

    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        self.calls += 1
        rag().run(inputs("judge"))
        return {
            "replies": [
                ChatMessage.from_assistant(
                    '{"supported": 1, "claims": 1, "reason": "r", "unsupported": []}'
                )
            ]
        }

    async def run_async(self, messages: list[ChatMessage]) -> dict[str, Any]:
        return self.run(messages)


@pytest.mark.parametrize("judge_async", [False, True])
def test_judge_calls_are_not_captured(judge_async: bool) -> None:
    judge = Nested()
    watcher = watch([], judge="lexical")
    with capture() as captured:
        rag().run(inputs("q"))
        captured.evaluate(
            ["context_adherence"],
            judge=HaystackModel(judge, judge_async=judge_async),
            progress=False,
        )
    assert judge.calls
    assert [sample.question for sample in captured.samples] == ["q"]
    assert watcher.stop(10)
    assert [sample.question for sample in watcher.samples] == ["q"]


def test_watch_says_when_it_was_displaced() -> None:
    watcher = watch([], judge="lexical")
    tracing.enable_tracing(NullTracer())
    watcher.stop()
    watcher.stop()
    assert any("another tracer" in problem for problem in watcher.problems.counts)


# Results instead of runs


def test_an_answer_that_carries_documents_keeps_them_beside_others_in_the_output() -> (
    None
):
    shown, found = Document(content="Shown."), Document(content="Found.")
    answer = GeneratedAnswer(data="It is.", query="Is it?", documents=[shown])
    (sample,) = samples_from(
        {"answers": {"answers": [answer]}, "shelf": {"documents": [shown, found]}}
    )
    assert [context.text for context in sample.known_contexts] == ["Shown."]


def test_samples_from_results() -> None:
    app = rag()
    result = app.run(inputs("q"), include_outputs_from={"retriever"})
    (sample,) = samples_from(result)
    assert (sample.question, sample.answer) == ("q", "Echo of q")
    assert [context.id for context in sample.known_contexts] == ["q-0", "q-1"]
    (bare,) = samples_from(result["answers"]["answers"])
    assert (bare.question, bare.answer, bare.contexts) == ("q", "Echo of q", None)
    (spoken,) = samples_from(agent().run(messages=[ChatMessage.from_user("q")]))
    assert spoken.answer == "Done."
    documents = {"retriever": result["retriever"]}
    texts = {"llm": {"replies": ["Echo of q"]}}
    for returned, said in ((documents, None), (documents | texts, "Echo of q")):
        (sample,) = samples_from(returned)
        assert (sample.question, sample.answer) == (None, said)
        assert [context.id for context in sample.known_contexts] == ["q-0", "q-1"]
        assert sample.capture is not None
        assert ("no_answer" in sample.capture.doubts) is (said is None)
    with pytest.raises(SettingError, match="int"):
        samples_from(3)


@component
class Rows:
    """Reads a table."""

    @component.output_types(rows=list[dict[str, int]])
    def run(self, size: int) -> dict[str, Any]:
        return {"rows": [{"row": 1}] * size}


def test_what_capture_does_grows_with_no_long_list_of_a_component() -> None:
    app = Pipeline()
    app.add_component("rows", Rows())

    def captured_run(size: int) -> None:
        with capture():
            assert len(app.run({"rows": {"size": size}})["rows"]["rows"]) == size

    captured_run(20_000)  # what is made once is made now
    n_steps = count_steps(lambda: captured_run(20_000), "ragmetrics")
    assert 0 < count_steps(lambda: captured_run(80_000), "ragmetrics") <= n_steps + 50
