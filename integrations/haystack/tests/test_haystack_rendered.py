"""Law: documents in any rendering, order and number give the sample that the generator of the run knows."""

from __future__ import annotations

from typing import Any

import pytest
from haystack import Document, Pipeline, component
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage
from haystack_integrations.components.evaluators.ragmetrics import capture
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from rendered_runs import ANSWER, QUESTION, RENDERINGS, Run, check, generated


@component
class Finds:
    def __init__(self, run: Run) -> None:
        self.texts = run.texts

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        documents = [Document(f"d{n}", text) for n, text in enumerate(self.texts)]
        return {"documents": documents}


@component
class Asks:
    def __init__(self, run: Run) -> None:
        self.messages = [
            ChatMessage.from_user(text)
            if role == "user"
            else ChatMessage.from_assistant(text)
            for role, text in run.messages
        ]

    @component.output_types(messages=list[ChatMessage])
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        return {"messages": self.messages}


@pytest.mark.parametrize("rendering", RENDERINGS)
@settings(max_examples=examples(5), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_law_of_renderings(rendering: str, seed: int) -> None:
    run = generated(seed, rendering)
    pipeline = Pipeline()
    pipeline.add_component("search", Finds(run))
    pipeline.add_component("ask", Asks(run))
    pipeline.add_component("llm", MockChatGenerator(ANSWER))
    pipeline.connect("search.documents", "ask.documents")
    pipeline.connect("ask.messages", "llm.messages")
    with capture() as captured:
        pipeline.run({"search": {"query": QUESTION}, "ask": {"query": QUESTION}})
    (sample,) = captured.samples
    check(sample, run)
