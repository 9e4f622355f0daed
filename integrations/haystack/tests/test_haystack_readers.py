"""A reader that cuts answers out of documents, beside a model or before it: the model's text is the answer."""

from __future__ import annotations

from typing import Any

import pytest
from haystack import Document, component
from haystack.components.builders import ChatPromptBuilder
from haystack.components.converters import OutputAdapter
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


@component
class Scores:
    """Grades what was answered."""

    @component.output_types(score=float)
    def run(self, given: list[str]) -> dict[str, Any]:
        return {"score": float(len(given))}


FIRST = "{{ answers[0].data }}"
ALL = "{{ answers | texts }}"


def texts_of(answers: list[ExtractedAnswer]) -> list[str]:
    return [answer.data or "" for answer in answers]


@pytest.mark.parametrize(
    ("handed_on", "is_scored", "settings"),
    [
        (FIRST, False, {}),
        (FIRST, False, {"answer_from": "adapter.output"}),
        (FIRST, False, {"answer_from": "reader.answers"}),
        (FIRST, False, {"answer_from": "reader"}),
        (ALL, True, {}),
        (ALL, True, {"answer_from": "reader.answers"}),
    ],
)
def test_a_readers_answer_stays_one_whoever_hands_it_on(
    handed_on: str, is_scored: bool, settings: dict[str, Any]
) -> None:
    adapter = OutputAdapter(
        handed_on,
        output_type=list[str] if is_scored else str,
        custom_filters={"texts": texts_of},
    )
    pipeline = connected(
        ("retriever.documents", "reader.documents"),
        ("reader.answers", "adapter.answers"),
        retriever=InMemoryBM25Retriever(STORE, top_k=2),
        reader=Reader(),
        adapter=adapter,
    )
    if is_scored:
        pipeline.add_component("scores", Scores())
        pipeline.connect("adapter", "scores.given")
    inputs = {"query": QUESTION}
    with capture(**settings) as captured:
        pipeline.run({"retriever": inputs, "reader": inputs})
    (sample,) = captured.samples
    assert sample.retrieved is not None
    assert sample.answer == sample.retrieved[0].text[:20]
    assert sample.contexts == sample.retrieved
    assert sample.capture is not None
    assert sample.capture.grade == "exact"
