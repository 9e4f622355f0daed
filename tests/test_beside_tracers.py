"""Beside OpenInference, begun before or after us, a streamed answer and its sample are as they are alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import langchain_ragmetrics
import pytest
from haystack import Document, Pipeline, component
from haystack.components.builders import AnswerBuilder, PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack_integrations.components.evaluators import (
    ragmetrics as haystack_ragmetrics,
)
from langchain_core.documents import Document as LangChainDocument
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from llama_index.core import SummaryIndex
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode
from llama_index.evaluation import ragmetrics as llamaindex_ragmetrics
from openinference.instrumentation.haystack import HaystackInstrumentor
from openinference.instrumentation.langchain import LangChainInstrumentor
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from opentelemetry.sdk.trace import TracerProvider

from ragmetrics_core import Sample

QUESTION = "Who lit the lamp?"
TEXT = "Anna Berg lit the lamp of Skarn in 1882."
ANSWER = "Anna Berg lit it."


class Finds(BaseRetriever):
    def _get_relevant_documents(self, *_: Any, **__: Any) -> list[LangChainDocument]:
        return [LangChainDocument(TEXT, id="a")]


async def langchain() -> str:
    prompt = ChatPromptTemplate.from_template("{context}\n{question}")
    given = {"context": Finds(), "question": RunnablePassthrough()}
    chain = given | prompt | FakeListChatModel(responses=[ANSWER])
    return "".join([piece.text async for piece in chain.astream(QUESTION)])


def engine() -> Any:
    index = SummaryIndex([TextNode(text=TEXT, id_="a")])
    return index.as_query_engine(
        llm=MockLLM(max_tokens=5), streaming=True, use_async=True
    )


async def llamaindex() -> str:
    response = await engine().aquery(QUESTION)
    return "".join([piece async for piece in response.async_response_gen()])


async def llamaindex_sync() -> str:
    return "".join(await asyncio.to_thread(read_engine))


def read_engine() -> list[str]:
    return list(engine().query(QUESTION).response_gen)


@component
class Found:
    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": [Document(id="a", content=TEXT)]}


async def haystack() -> str:
    pieces: list[str] = []
    template = "{% for d in documents %}{{ d.content }}{% endfor %} {{ query }}"
    model = MockChatGenerator(
        ANSWER, streaming_callback=lambda piece: pieces.append(piece.content)
    )
    pipeline = Pipeline()
    for name, part in {
        "retriever": Found(),
        "prompt": PromptBuilder(template, required_variables="*"),
        "llm": model,
        "answers": AnswerBuilder(),
    }.items():
        pipeline.add_component(name, part)
    pipeline.connect("retriever.documents", "prompt.documents")
    pipeline.connect("prompt.prompt", "llm.messages")
    pipeline.connect("llm.replies", "answers.replies")
    asked = {"query": QUESTION}
    pipeline.run({"retriever": asked, "prompt": asked, "answers": asked})
    return "".join(pieces)


TRACED: dict[str, tuple[Callable[[], Any], Callable[[], Any], Any]] = {
    "LangChain": (langchain, langchain_ragmetrics.capture, LangChainInstrumentor),
    "LlamaIndex": (llamaindex, llamaindex_ragmetrics.capture, LlamaIndexInstrumentor),
    "LlamaIndex, sync": (
        llamaindex_sync,
        llamaindex_ragmetrics.capture,
        LlamaIndexInstrumentor,
    ),
    "Haystack": (haystack, haystack_ragmetrics.capture, HaystackInstrumentor),
}


@contextmanager
def traced(instrumentor: Any) -> Iterator[None]:
    tracing = instrumentor()
    tracing.instrument(tracer_provider=TracerProvider())
    try:
        yield
    finally:
        tracing.uninstrument()


def run(name: str, tracer: str) -> tuple[str, list[Sample]]:
    """Return what an application said, and its samples, alone or beside a tracer."""
    application, capture, instrumentor = TRACED[name]
    with ExitStack() as opened:
        if tracer == "before":
            opened.enter_context(traced(instrumentor))
        captured = opened.enter_context(capture())
        if tracer == "after":
            opened.enter_context(traced(instrumentor))
        said = asyncio.run(application())
    assert not captured.problems.counts
    return said, captured.samples


@pytest.mark.parametrize("name", TRACED)
def test_a_stream_beside_a_tracer_is_as_alone(name: str) -> None:
    alone = run(name, "none")
    (sample,) = alone[1]
    assert sample.capture is not None
    assert (sample.capture.grade, sample.question) == ("exact", QUESTION)
    assert list(sample.context_texts) == [TEXT]
    assert sample.answer == alone[0]
    assert run(name, "before") == alone
    assert run(name, "after") == alone
