"""A reader that cuts answers out of documents, beside a model or before it: the model's text is the answer."""

from __future__ import annotations

from typing import Any

import pytest
from haystack import Document, component
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage, ExtractedAnswer
from haystack_integrations.components.evaluators.ragmetrics import capture
from haystack_rows import QUESTION, STORE, connected

ANSWER = "It was built in the year 1856, as the notes say."


@component
class Reader:
    """Cuts the first letters out of each document."""

    @component.output_types(answers=list[ExtractedAnswer])
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        span = ExtractedAnswer.Span(0, 20)
        return {
            "answers": [
                ExtractedAnswer(
                    query=query,
                    score=0.9,
                    data=(document.content or "")[:20],
                    document=document,
                    context=document.content,
                    document_offset=span,
                    context_offset=span,
                    meta={},
                )
                for document in documents
            ]
        }


@pytest.mark.parametrize("outputs_from", [None, {"reader", "llm"}, {"llm"}])
@pytest.mark.parametrize("feeding", ["reader.answers", "retriever.documents"])
def test_the_model_answers_where_a_reader_stands_beside_it(
    outputs_from: set[str] | None, feeding: str
) -> None:
    text = "one.document.content" if feeding == "reader.answers" else "one.content"
    prompt = (
        f"{{% for one in documents %}}{{{{ {text} }}}}\n{{% endfor %}}{{{{ query }}}}"
    )
    pipeline = connected(
        ("retriever.documents", "reader.documents"),
        (feeding, "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        retriever=InMemoryBM25Retriever(STORE, top_k=2),
        reader=Reader(),
        prompt=ChatPromptBuilder(
            [ChatMessage.from_user(prompt)], required_variables="*"
        ),
        llm=MockChatGenerator(ANSWER),
    )
    inputs = {"query": QUESTION}
    with capture() as captured:
        pipeline.run(
            {"retriever": inputs, "reader": inputs, "prompt": inputs},
            include_outputs_from=outputs_from,
        )
    (sample,) = captured.samples
    assert sample.answer == ANSWER
    assert sample.retrieved is not None
    assert [one.id for one in sample.known_contexts] == [
        one.id for one in sample.retrieved
    ]
    assert sample.capture is not None
    assert sample.capture.grade == "exact"
