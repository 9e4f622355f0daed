"""Blocks of one conversation give the same samples in whichever order they are read."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from haystack import Pipeline, component
from haystack.components.builders import ChatPromptBuilder
from haystack.dataclasses import ChatMessage
from haystack.dataclasses import Document as HaystackDocument
from haystack_integrations.components.evaluators.ragmetrics import (
    capture as capture_haystack,
)
from lanes import crossed
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_ragmetrics import capture
from llama_index.core.base.base_retriever import BaseRetriever as LlamaIndexRetriever
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex

TEXTS = (
    "Harlow Bridge was opened on 4 May 1874 by the engineer Ruth Calder.",
    "The repair of the piers cost the county 41,000 pounds in all.",
    "Electric lamps replaced the gas lamps of the bridge in October 1931.",
)
QUESTIONS = ("When was it opened?", "And the repair?", "And the lamps?")
ANSWERS = ("On 4 May 1874.", "41,000 pounds.", "In October 1931.")
TEXT_BY_QUESTION = dict(zip(QUESTIONS, TEXTS, strict=True))
Said = tuple[str, str]  # a question and its answer


class Finds(BaseRetriever):
    text: str

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[Document]:
        return [Document(self.text)]


def ask_langchain(turn: int, said: tuple[Said, ...]) -> None:
    model = FakeListChatModel(responses=[ANSWERS[turn]])
    history: list[Any] = []
    for question, answer in said:
        history += [HumanMessage(question), AIMessage(answer)]

    def answer_it(inputs: dict[str, Any]) -> str:
        (found,) = Finds(text=TEXTS[turn]).invoke(inputs["question"])
        prompt = f"{found.page_content}\nQuestion: {inputs['question']}"
        return str(model.invoke([*inputs["history"], HumanMessage(prompt)]).content)

    RunnableLambda(answer_it).invoke({"question": QUESTIONS[turn], "history": history})


class FindsNodes(LlamaIndexRetriever):
    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        node = TextNode(text=TEXT_BY_QUESTION[query_bundle.query_str])
        return [NodeWithScore(node=node, score=1.0)]


MEMORY = ChatMemoryBuffer.from_defaults(token_limit=4000)


def ask_llamaindex(turn: int, said: tuple[Said, ...]) -> None:
    if not said:
        MEMORY.reset()
    engine = ContextChatEngine.from_defaults(
        retriever=FindsNodes(), llm=MockLLM(), memory=MEMORY
    )
    engine.chat(QUESTIONS[turn])


@component
class FindsDocuments:
    @component.output_types(documents=list[HaystackDocument])
    def run(self, query: str) -> dict[str, Any]:
        text = TEXT_BY_QUESTION[query]
        return {"documents": [HaystackDocument(content=text)]}


@component
class Generates:
    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        said = [index for index, text in enumerate(TEXTS) if text in str(messages)]
        return {"replies": [ChatMessage.from_assistant(ANSWERS[said[-1]])]}


def ask_haystack(turn: int, said: tuple[Said, ...]) -> None:
    template = []
    for question, answer in said:
        template.append(ChatMessage.from_user(question))
        template.append(ChatMessage.from_assistant(answer))
    template.append(
        ChatMessage.from_user("{{ documents[0].content }}\nQuestion: {{ question }}")
    )
    pipeline = Pipeline()
    pipeline.add_component("retriever", FindsDocuments())
    pipeline.add_component("prompt", ChatPromptBuilder(template))
    pipeline.add_component("llm", Generates())
    pipeline.connect("retriever.documents", "prompt.documents")
    pipeline.connect("prompt.prompt", "llm.messages")
    question = QUESTIONS[turn]
    pipeline.run({"retriever": {"query": question}, "prompt": {"question": question}})


FRAMEWORKS: dict[str, tuple[Any, Callable[[int, tuple[Said, ...]], None]]] = {
    "langchain": (capture, ask_langchain),
    "llamaindex": (capture_llamaindex, ask_llamaindex),
    "haystack": (capture_haystack, ask_haystack),
}
_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _no_loop() -> None:
    """No loop of the thread's own: LlamaIndex would else make one and never close it."""
    asyncio.set_event_loop(None)


def conversation_in_blocks(framework: str) -> list[Any]:
    """Three turns of a new conversation, each in a block of its own."""
    open_block, ask = FRAMEWORKS[framework]
    name = f"blocks read later, {framework} {next(_numbers)}"
    blocks = []
    for turn in range(len(QUESTIONS)):
        said = tuple(zip(QUESTIONS[:turn], ANSWERS[:turn], strict=True))
        with open_block(conversation=name) as captured:
            ask(turn, said)
        blocks.append(captured)
    return blocks


def evidence_of(block: Any) -> tuple[int, list[tuple[int, tuple[str, ...]]]]:
    """The number of a block's turn, and the texts of each call of its ledger."""
    (sample,) = block.samples
    calls = [
        (call.turn, tuple(item.text for item in call.items))
        for call in sample.ledger.calls
    ]
    return sample.ledger.turn, calls


EXPECTED = [
    (turn + 1, [(number + 1, (TEXTS[number],)) for number in range(turn + 1)])
    for turn in range(len(TEXTS))
]


@pytest.mark.parametrize(
    ("framework", "order"),
    crossed([*FRAMEWORKS], list(itertools.permutations(range(3)))),
)
def test_blocks_of_one_conversation_may_be_read_in_any_order(framework, order):
    blocks = conversation_in_blocks(framework)
    for index in order:
        assert evidence_of(blocks[index]) == EXPECTED[index]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_block_that_is_read_before_it_ends_goes_on_from_the_earlier_ones(framework):
    open_block, ask = FRAMEWORKS[framework]
    name = f"a block that goes on, {framework}"
    with open_block(conversation=name) as first:
        ask(0, ())
    with open_block(conversation=name) as second:
        ask(1, ((QUESTIONS[0], ANSWERS[0]),))
        assert evidence_of(second) == EXPECTED[1]
    assert evidence_of(first) == EXPECTED[0]


def test_a_block_that_nobody_holds_is_left_out():
    blocks = conversation_in_blocks("langchain")
    last = blocks.pop()
    blocks.clear()
    gc.collect()
    (sample,) = last.samples
    assert [call.turn for call in sample.ledger.calls] == [sample.ledger.turn]
