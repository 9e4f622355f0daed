"""Images and earlier responses in a request to Haystack's generator leave facts unknown."""

from __future__ import annotations

from typing import Any

from haystack import Document, Pipeline, component
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage, ImageContent
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack_integrations.components.evaluators.ragmetrics import capture

from ragmetrics_core import Sample

IRON = "The lighthouse of Norwick is made of riveted iron plates."
PICTURE = ImageContent(
    base64_image="iVBORw0KGgo=", mime_type="image/png", validation=False
)


@component
class Generator:
    """Says the same whatever it is asked; its reply repeats what the request named."""

    def __init__(self, repeated: dict[str, Any] | None = None) -> None:
        self.repeated = {"object": "response", **(repeated or {})}

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage],
        generation_kwargs: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        reply = ChatMessage.from_assistant("On 4 May 1874.", meta=self.repeated)
        return {"replies": [reply]}


@component
class Prompt:
    """Shows the documents, and perhaps a picture."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts

    @component.output_types(messages=list[ChatMessage])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        text = "\n".join(document.content or "" for document in documents)
        said = ChatMessage.from_user(content_parts=[f"{text}\nWhen?", *self.parts])
        return {"messages": [said]}


def asked(
    *parts: Any, repeated: dict[str, Any] | None = None, **parameters: Any
) -> Sample:
    store = InMemoryDocumentStore()
    store.write_documents([Document(content=IRON)])
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store))
    pipeline.add_component("prompt", Prompt(list(parts)))
    pipeline.add_component("generator", Generator(repeated))
    pipeline.connect("retriever.documents", "prompt.documents")
    pipeline.connect("prompt.messages", "generator.messages")
    with capture() as captured:
        pipeline.run(
            {
                "retriever": {"query": "lighthouse of Norwick"},
                "generator": {"generation_kwargs": parameters},
            }
        )
    (sample,) = captured.samples
    return sample


def test_an_image_is_remarked() -> None:
    sample = asked(PICTURE)
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    assert "an image" in str(sample.capture.unread_texts)


def test_an_earlier_response_makes_a_sample_incomplete() -> None:
    sample = asked(previous_response_id="resp_1")
    assert sample.capture is not None
    assert sample.capture.grade == "incomplete"
    assert "previous_response_id" in str(sample.capture.unread_texts)


def test_what_the_generator_was_made_with_is_told_by_its_reply() -> None:
    sample = asked(repeated={"prompt": {"id": "pmpt_1"}, "conversation": None})
    assert sample.capture is not None
    assert sample.capture.grade == "incomplete"
    assert "(prompt)" in str(sample.capture.unread_texts)


def test_texts_and_usual_settings_leave_a_sample_exact() -> None:
    sample = asked(temperature=0.5)
    assert sample.capture is not None
    assert sample.capture.grade == "exact", sample.capture.warnings
    assert sample.capture.unread_texts == ()
