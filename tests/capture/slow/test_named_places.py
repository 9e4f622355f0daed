"""A function names the contexts of some runs of a block; the others keep what was read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import langchain_ragmetrics
import pytest
from haystack import Document, Pipeline, component
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage
from haystack_integrations.components.evaluators import (
    ragmetrics as haystack_ragmetrics,
)
from langchain_core.documents import Document as LangChainDocument
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.llms import CustomLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever as LlamaIndexRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.evaluation import ragmetrics as llamaindex_ragmetrics

BOOK = "When was the lighthouse of Skarn built?"
TABLE = "How high is the lighthouse of Skarn?"
PAGE = "The lighthouse of Skarn was built in 1850 by Ida Holm."
ROW = "lighthouse of Skarn | height 31 m"
ANSWER = "In 1850, by Ida Holm."


class Finds(BaseRetriever):
    def _get_relevant_documents(self, *_: Any, **__: Any) -> list[LangChainDocument]:
        return [LangChainDocument(PAGE)]


def langchain(question: str) -> None:
    model = FakeListChatModel(responses=[ANSWER])

    def answer(asked: str) -> str:
        (page,) = Finds().invoke(asked)
        return model.invoke(f"{page.page_content}\n{asked}").text

    RunnableLambda(answer).invoke(question)


class FindsNodes(LlamaIndexRetriever):
    def _retrieve(self, *_: Any, **__: Any) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=PAGE))]


class Says(CustomLLM):
    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def complete(self, prompt: str, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=ANSWER)

    def stream_complete(self, prompt: str, **_: Any) -> Any:
        raise NotImplementedError


def llamaindex(question: str) -> None:
    RetrieverQueryEngine.from_args(FindsNodes(), llm=Says()).query(question)


@component
class Finder:
    @component.output_types(messages=list[ChatMessage], documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        prompt = ChatMessage.from_user(f"{PAGE}\n{query}")
        return {"messages": [prompt], "documents": [Document(content=PAGE)]}


def haystack(question: str) -> None:
    pipeline = Pipeline()
    pipeline.add_component("finder", Finder())
    pipeline.add_component("llm", MockChatGenerator(ANSWER))
    pipeline.connect("finder.messages", "llm.messages")
    pipeline.run({"finder": {"query": question}})


@pytest.mark.parametrize(
    ("application", "capture", "question_of"),
    [
        (langchain, langchain_ragmetrics.capture, lambda run: run.inputs["input"]),
        (llamaindex, llamaindex_ragmetrics.capture, lambda run: run.root.query),
        (
            haystack,
            haystack_ragmetrics.capture,
            lambda run: run.input["finder"]["query"],
        ),
    ],
    ids=["LangChain", "LlamaIndex", "Haystack"],
)
def test_a_run_for_which_the_function_names_nothing_keeps_what_was_read(
    application: Callable[[str], None], capture: Any, question_of: Callable[[Any], str]
) -> None:
    def rows(run: Any) -> list[str] | None:
        return [ROW] if question_of(run) == TABLE else None

    with capture(contexts_from=rows) as captured:
        application(BOOK)
        application(TABLE)
    of_book, of_table = captured.samples
    for sample, text in ((of_book, PAGE), (of_table, ROW)):
        assert [context.text for context in sample.known_contexts] == [text]
        assert sample.capture.grade == "exact"
    assert of_book.capture.evidence_from == "prompt"
    assert of_table.capture.evidence_from == "named"


@pytest.mark.parametrize(
    "contexts_from", ["context", lambda run: run.outputs["context"]]
)
def test_a_place_that_holds_none_names_nothing(contexts_from: Any) -> None:
    def answer(asked: dict[str, str]) -> dict[str, Any]:
        (page,) = Finds().invoke(asked["question"])
        model = FakeListChatModel(responses=[ANSWER])
        said = model.invoke(f"{page.page_content}\n{asked['question']}").text
        return {"answer": said, "context": None}

    with langchain_ragmetrics.capture(contexts_from=contexts_from) as captured:
        RunnableLambda(answer).invoke({"question": BOOK})
    (sample,) = captured.samples
    assert [context.text for context in sample.known_contexts] == [PAGE]
    assert sample.capture.grade == "exact"


def test_a_run_that_searches_nothing_and_for_which_nothing_is_named_is_no_sample() -> (
    None
):
    with langchain_ragmetrics.capture(contexts_from=lambda run: None) as captured:
        RunnableLambda(str.upper).invoke("An index is built.")
        langchain(BOOK)
    (sample,) = captured.samples
    assert sample.question == BOOK
