"""What a model wrote as documents was not retrieved: hypothetical pages, summaries of what was found."""

from __future__ import annotations

from typing import Any

import pytest
from haystack import Document, Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.retrievers.in_memory import (
    InMemoryBM25Retriever,
    InMemoryEmbeddingRetriever,
)
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack_integrations.components.evaluators.ragmetrics import capture

QUESTION = "When was the bridge of Velm opened?"
BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town of Velm."
FERRY = "The Osta ferry crosses the lake every hour in summer, and never in winter."
ANSWER = "It dates from the year 1874."
ASKING = (
    "Use only this:\n{% for one in documents %}{{ one.content }}\n{% endfor %}"
    "\nQuestion: {{ question }}"
)


@component
class Imagining:
    """Writes pages that might answer (HyDE), as documents."""

    @component.output_types(documents=list[Document])
    def run(self, prompt: str, count: int = 2) -> dict[str, Any]:
        pages = [f"A page on the bridge, number {page}." for page in range(count)]
        return {"documents": [Document(content=f"{prompt} {page}") for page in pages]}


@component
class Embedding:
    """The mean of what was imagined."""

    @component.output_types(embedding=list[float])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        return {"embedding": [1.0 * len(documents), 1.0]}


@component
class Speaking:
    """A generator of the application's own."""

    @component.output_types(replies=list[str])
    def run(self, prompt: str) -> dict[str, Any]:
        return {"replies": [ANSWER] if prompt else []}


@component
class Summing:
    """Writes each document anew."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        return {
            "documents": [
                Document(content=self.words(one.content or ""), meta=one.meta)
                for one in documents
            ]
        }

    def words(self, text: str) -> str:
        """The beginning of one text, and of another nothing."""
        if "ferry" in text:
            return "On boats: hourly."
        return f"In short, {text[:30].lower()}, as they say."


def store(**fields: Any) -> InMemoryDocumentStore:
    made = InMemoryDocumentStore()
    made.write_documents(
        [
            Document(id="bridge", content=BRIDGE, embedding=[1.0, 0.5], **fields),
            Document(id="ferry", content=FERRY, embedding=[0.0, 1.0], **fields),
        ]
    )
    return made


def imagining(pipeline: Pipeline) -> None:
    pipeline.add_component("asking", PromptBuilder("Imagine: {{ question }}"))
    pipeline.add_component("generator", Imagining())
    pipeline.add_component("embedder", Embedding())
    pipeline.connect("asking", "generator.prompt")
    pipeline.connect("generator.documents", "embedder.documents")


def test_pages_that_a_model_imagined_are_not_retrieved() -> None:
    pipeline = Pipeline()
    imagining(pipeline)
    pipeline.add_component("retriever", InMemoryEmbeddingRetriever(store()))
    pipeline.add_component("builder", PromptBuilder(ASKING, required_variables="*"))
    pipeline.add_component("model", Speaking())
    pipeline.connect("embedder.embedding", "retriever.query_embedding")
    pipeline.connect("retriever.documents", "builder.documents")
    pipeline.connect("builder", "model.prompt")
    asked = {"asking": {"question": QUESTION}, "builder": {"question": QUESTION}}
    with capture() as captured:
        pipeline.run(asked)
    (sample,) = captured.samples
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert [context.id for context in sample.retrieved or ()] == ["bridge", "ferry"]
    assert [context.text for context in sample.known_contexts] == [BRIDGE, FERRY]
    assert sample.ledger is not None
    assert [len(call.items) for call in sample.ledger.calls] == [2]
    assert sample.capture is not None
    assert sample.capture.grade == "exact"


@component
class Prompted:
    """A retriever of the application's own, which calls its question a prompt."""

    @component.output_types(documents=list[Document])
    def run(self, prompt: str) -> dict[str, Any]:
        return {"documents": [Document(id="bridge", content=BRIDGE)] if prompt else []}


def test_a_retriever_that_the_user_gives_a_prompt_retrieves() -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", Prompted())
    pipeline.add_component("builder", PromptBuilder(ASKING, required_variables="*"))
    pipeline.add_component("model", Speaking())
    pipeline.connect("retriever.documents", "builder.documents")
    pipeline.connect("builder", "model.prompt")
    with capture() as captured:
        pipeline.run(
            {"retriever": {"prompt": QUESTION}, "builder": {"question": QUESTION}}
        )
    (sample,) = captured.samples
    assert [context.id for context in sample.retrieved or ()] == ["bridge"]
    assert sample.capture is not None
    assert sample.capture.grade == "exact"


@pytest.mark.parametrize("fields", [{}, {"meta": {"page": 3}}])
def test_what_a_step_wrote_of_the_documents_is_not_retrieved(
    fields: dict[str, Any],
) -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store(**fields)))
    pipeline.add_component("summariser", Summing())
    pipeline.add_component("builder", PromptBuilder(ASKING, required_variables="*"))
    pipeline.add_component("model", Speaking())
    pipeline.connect("retriever.documents", "summariser.documents")
    pipeline.connect("summariser.documents", "builder.documents")
    pipeline.connect("builder", "model.prompt")
    with capture() as captured:
        pipeline.run(
            {"retriever": {"query": QUESTION}, "builder": {"question": QUESTION}}
        )
    (sample,) = captured.samples
    found = {context.id for context in sample.retrieved or ()}
    assert found == {"bridge", "ferry"}
    assert sample.ledger is not None
    assert [len(call.items) for call in sample.ledger.calls] == [2, 2]
    assert sample.capture is not None
    assert "changed_by_step" in sample.capture.doubts
