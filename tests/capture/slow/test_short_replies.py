"""A reply of a word or two that is handed on as a document is no sure evidence, in each framework."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import langchain_ragmetrics
import pytest
from haystack import Document, Pipeline, component
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.joiners import DocumentJoiner
from haystack.dataclasses import ChatMessage
from haystack_integrations.components.evaluators import (
    ragmetrics as haystack_ragmetrics,
)
from langchain_core.documents import Document as LangChainDocument
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from llama_index.core import get_response_synthesizer
from llama_index.core.base.llms.types import ChatMessage as LlamaIndexMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.query_engine import (
    RetrieverQueryEngine,
    SubQuestionQueryEngine,
)
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.retrievers import BaseRetriever as LlamaIndexRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import QueryEngineTool
from llama_index.evaluation import ragmetrics as llamaindex_ragmetrics

QUESTION = "Compare what Ida Holm wrote and what she painted."
PAGES = {
    "Which essays did she write?": "Ida Holm wrote twelve essays on the lamps of Skarn.",
    "What did she paint?": "After her journey she painted the harbour of Vik.",
}
ANSWER = "She wrote on the lamps of Skarn, and painted the harbour of Vik."
REPLIES = (("Essays.", "Harbour."), ("12", "1"), ("She", "painted Vik"))
Run = Callable[[tuple[str, str], str], None]


# LangChain: a map step, and a step that reads what it made


class Finds(BaseRetriever):
    def _get_relevant_documents(self, *_: Any, **__: Any) -> list[LangChainDocument]:
        return [LangChainDocument(page) for page in PAGES.values()]


def langchain(replies: tuple[str, str], frame: str) -> None:
    reads_page = FakeListChatModel(responses=list(replies))
    reads_all = FakeListChatModel(responses=[ANSWER])

    def sum_up(question: str) -> dict[str, Any]:
        documents = []
        for page in Finds().invoke(question):
            said = reads_page.invoke(f"Say it in a word: {page.page_content}").text
            documents.append(LangChainDocument(frame.format(said)))
        return {"question": question, "context": documents}

    def answer(given: dict[str, Any]) -> str:
        texts = [document.page_content for document in given["context"]]
        return reads_all.invoke("\n".join([*texts, given["question"]])).text

    (RunnableLambda(sum_up) | RunnableLambda(answer)).invoke(QUESTION)


# LlamaIndex: an engine that asks others


class FindsNodes(LlamaIndexRetriever):
    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=PAGES[query_bundle.query_str]))]


def model_that(says: Callable[[str], str]) -> MockFunctionCallingLLM:
    def reply(messages: Any, **_: Any) -> LlamaIndexMessage:
        prompt = "\n".join(message.content or "" for message in messages)
        return LlamaIndexMessage(role="assistant", content=says(prompt))

    return MockFunctionCallingLLM(response_generator=reply, is_chat_model=True)


def llamaindex(replies: tuple[str, str], frame: str) -> None:
    """The framework has a frame of its own."""
    asked = [{"sub_question": each, "tool_name": "pages"} for each in PAGES]
    plan = f"```json\n{json.dumps({'items': asked})}\n```"
    first_page, _ = PAGES.values()
    reads_page = model_that(
        lambda prompt: replies[0] if first_page in prompt else replies[1]
    )
    inner = RetrieverQueryEngine.from_args(FindsNodes(), llm=reads_page)
    tool = QueryEngineTool.from_defaults(inner, name="pages", description="Pages.")
    SubQuestionQueryEngine.from_defaults(
        [tool],
        question_gen=LLMQuestionGenerator.from_defaults(model_that(lambda _: plan)),
        response_synthesizer=get_response_synthesizer(llm=model_that(lambda _: ANSWER)),
        llm=model_that(lambda _: ANSWER),
        use_async=False,
        verbose=False,
    ).query(QUESTION)


# Haystack: documents made of replies, joined with those that were found


@component
class Finder:
    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": [Document(content=page) for page in PAGES.values()]}


@component
class Prompts:
    @component.output_types(messages=list[ChatMessage])
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        texts = [document.content or "" for document in documents]
        return {"messages": [ChatMessage.from_user("\n".join([*texts, query]))]}


@component
class Keeps:
    """Makes a document of each reply."""

    def __init__(self, frame: str) -> None:
        self.frame = frame

    @component.output_types(documents=list[Document])
    def run(self, replies: list[ChatMessage]) -> dict[str, Any]:
        texts = [self.frame.format(reply.text) for reply in replies]
        return {"documents": [Document(content=text) for text in texts]}


def haystack(replies: tuple[str, str], frame: str) -> None:
    pipeline = Pipeline()
    pipeline.add_component("finder", Finder())
    pipeline.add_component("first", Prompts())
    pipeline.add_component("sums", MockChatGenerator(replies[0]))
    pipeline.add_component("keeps", Keeps(frame))
    pipeline.add_component("joiner", DocumentJoiner())
    pipeline.add_component("prompts", Prompts())
    pipeline.add_component("llm", MockChatGenerator(ANSWER))
    pipeline.connect("finder.documents", "first.documents")
    pipeline.connect("first.messages", "sums.messages")
    pipeline.connect("sums.replies", "keeps.replies")
    pipeline.connect("keeps.documents", "joiner.documents")
    pipeline.connect("finder.documents", "joiner.documents")
    pipeline.connect("joiner.documents", "prompts.documents")
    pipeline.connect("prompts.messages", "llm.messages")
    asking = {name: {"query": QUESTION} for name in ("finder", "prompts")}
    pipeline.run({**asking, "first": {"query": "Say it in a word."}})


@pytest.mark.parametrize("frame", ["{}", "Summary 1: {}"])
@pytest.mark.parametrize("replies", REPLIES, ids=" ".join)
@pytest.mark.parametrize(
    ("application", "capture"),
    [
        (langchain, langchain_ragmetrics.capture),
        (llamaindex, llamaindex_ragmetrics.capture),
        (haystack, haystack_ragmetrics.capture),
    ],
    ids=["LangChain", "LlamaIndex", "Haystack"],
)
def test_a_reply_of_a_word_that_is_handed_on_is_no_sure_evidence(
    application: Run, capture: Any, replies: tuple[str, str], frame: str
) -> None:
    for settings in ({}, {"contexts_from": lambda _: list(PAGES.values())}):
        with capture(**settings) as captured:
            application(replies, frame)
        (sample,) = captured.samples
        assert sample.answer == ANSWER
        texts = [context.text for context in sample.known_contexts]
        is_right = sorted(texts) == sorted(PAGES.values())
        assert is_right or "by_data_flow" in sample.capture.doubts
        assert not settings or (is_right and sample.capture.grade == "exact")
