"""Measured use in Haystack: which documents a pipeline's own generator read."""

from __future__ import annotations

from typing import Any

from haystack import Document, Pipeline, component
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ToolCall
from haystack_integrations.components.evaluators.ragmetrics import capture
from measured_runs import PASSAGES, PLANTED, QUESTION, RENDERINGS, check, reply_to


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


def application(rendering: str, k: int, generator: MockChatGenerator) -> Pipeline:
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
