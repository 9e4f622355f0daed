"""Measured use in Haystack: which documents a pipeline's own generator read."""

from __future__ import annotations

from typing import Any

from haystack import Document, Pipeline, component
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage
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


@PLANTED
def test_the_documents_that_the_generator_reads_are_used(
    rendering: str, k: int, read: tuple[str, ...]
) -> None:
    def reply(messages: list[ChatMessage]) -> str:
        return reply_to("\n".join(each.text or "" for each in messages), read)

    generator = MockChatGenerator(response_fn=reply)
    pipeline = Pipeline()
    pipeline.add_component("search", Finds(k))
    pipeline.add_component("ask", Asks(rendering))
    pipeline.add_component("llm", generator)
    pipeline.connect("search.documents", "ask.documents")
    pipeline.connect("ask.messages", "llm.messages")
    with capture(keep_prompts=True) as captured:
        pipeline.run({"search": {"query": QUESTION}, "ask": {"query": QUESTION}})
    with capture() as outside:
        check(captured, outside, generator, read)
