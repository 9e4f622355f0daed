"""Measured use in Haystack: which documents a pipeline's own generator read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest
from haystack import Document, Pipeline, component, tracing
from haystack.components.generators.chat import (
    FallbackChatGenerator,
    MockChatGenerator,
)
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tracing import Span, Tracer
from haystack.tracing.tracer import ProxyTracer
from haystack_integrations.components.evaluators.ragmetrics import (
    HaystackModel,
    capture,
)
from measured_runs import (
    PASSAGES,
    PLANTED,
    QUESTION,
    RENDERINGS,
    check,
    reply_to,
    verdicts_of,
)

from ragmetrics_core.data import JudgeError
from ragmetrics_core.models.chat import ChatRequest, Message


@component
class Finds:
    def __init__(self, k: int) -> None:
        self.k = k

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        texts = PASSAGES[: self.k]
        return {"documents": [Document(f"d{n}", text) for n, text in enumerate(texts)]}


@component
class Asks:
    def __init__(self, rendering: str) -> None:
        self.rendering = rendering

    @component.output_types(messages=list[ChatMessage])
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        texts = [document.content or "" for document in documents]
        made = {"user": ChatMessage.from_user, "system": ChatMessage.from_system}
        messages = RENDERINGS[self.rendering](texts)
        return {"messages": [made[role](text) for role, text in messages]}


def application(rendering: str, k: int, generator: Any) -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("search", Finds(k))
    pipeline.add_component("ask", Asks(rendering))
    pipeline.add_component("llm", generator)
    pipeline.connect("search.documents", "ask.documents")
    pipeline.connect("ask.messages", "llm.messages")
    return pipeline


RUN = {"search": {"query": QUESTION}, "ask": {"query": QUESTION}}


def shown(messages: list[ChatMessage]) -> str:
    return "\n".join(each.text or "" for each in messages)


@PLANTED
def test_the_documents_that_the_generator_reads_are_used(
    rendering: str, k: int, read: tuple[str, ...]
) -> None:
    generator = MockChatGenerator(
        response_fn=lambda messages: reply_to(shown(messages), read)
    )
    with capture(keep_prompts=True) as captured:
        application(rendering, k, generator).run(RUN)
    with capture() as outside:
        check(captured, outside, generator, read)


def test_text_beside_a_call_of_a_tool_is_no_answer() -> None:
    call = ToolCall("search", {"query": QUESTION})

    def reply(messages: list[ChatMessage]) -> ChatMessage:
        if "amber" in shown(messages):
            return ChatMessage.from_assistant(reply_to(shown(messages), ["amber"]))
        return ChatMessage.from_assistant("Let me search.", tool_calls=[call])

    generator = MockChatGenerator(response_fn=reply)
    with capture(keep_prompts=True) as captured:
        application("numbered", 2, generator).run(RUN)
    (sample,) = captured.measure_use(model=generator)
    assert "calls a tool" in str(sample.use)


class Noting(Tracer, Span):
    """Notes what is opened and tagged."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @contextmanager
    def trace(self, operation_name: str, *_: Any, **__: Any) -> Iterator[Span]:
        self.told.append(operation_name)
        yield self

    def current_span(self) -> Span:
        return self

    def set_tag(self, key: str, value: Any) -> None:
        self.told.append(key)


@pytest.mark.parametrize("ours", ["measure_use", "judge", "judge_async", "fails"])
def test_a_tracer_sees_the_applications_calls_alone(ours: str) -> None:
    meanwhile: list[threading.Thread] = []
    fails: list[str] = []

    def reply(messages: list[ChatMessage]) -> str:
        if meanwhile:
            thread = meanwhile.pop()
            thread.start()
            thread.join()
            for name in fails:
                raise RuntimeError(name)
        with tracing.tracer.trace("inside") as span:
            span.set_tag("inside.tag", 1)
            current = tracing.tracer.current_span()
            assert current is not None
            current.set_tag("current.tag", 1)
        return reply_to(shown(messages), ["amber"])

    generator: Any = FallbackChatGenerator([MockChatGenerator(response_fn=reply)])
    pipeline = application("numbered", 2, generator)

    def ask_application() -> None:
        pipeline.run(RUN)

    tracer = Noting()
    methods = dict(vars(ProxyTracer))
    tracing.enable_tracing(tracer)
    try:
        with capture(keep_prompts=True) as captured:
            ask_application()
        alone = list(tracer.told)
        meanwhile.append(threading.Thread(target=ask_application))
        if ours == "measure_use":
            (sample,) = captured.measure_use(model=generator)
            assert sample.use is not None
            assert verdicts_of(sample.use) == ("amber",)
        else:
            fails.extend(["down"] if ours == "fails" else [])
            model = HaystackModel(generator, judge_async=ours == "judge_async")
            request = ChatRequest((Message("user", PASSAGES[0]),))
            raised: AbstractContextManager[object] = nullcontext()
            if fails:
                raised = pytest.raises(JudgeError)
            with raised:
                asyncio.run(model.complete(request))
    finally:
        tracing.disable_tracing()
    assert not meanwhile
    assert "haystack.pipeline.run" in alone
    assert {"inside", "inside.tag", "current.tag"} <= {*alone}
    assert tracer.told == alone * 2
    assert dict(vars(ProxyTracer)) == methods
