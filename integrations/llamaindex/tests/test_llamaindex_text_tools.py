"""LlamaIndex agents whose tools return text: the text is evidence of the ledger, and no context unless it is named."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest
from lighthouse import ANSWER, FACT, QUESTION, ROOMS
from llama_index.core import Document
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage, ChatResponse, MessageRole
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.evaluation.ragmetrics import capture
from tool_texts import SHAPES, check

# The framework's own classes set these off.
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:The `(__fields|model_):pydantic.warnings.PydanticDeprecatedSince20"
    ),
    pytest.mark.filterwarnings(
        "ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211"
    ),
    pytest.mark.filterwarnings("ignore:.*asyncio_module:DeprecationWarning"),
]


async def search_knowledge(query: str) -> str:
    """Returns a text."""
    return FACT


async def search_rooms(query: str) -> str:
    """Returns another text."""
    return ROOMS


async def calculate(query: str) -> str:
    """Returns a number."""
    return "1882"


async def order_state(query: str) -> str:
    """Returns a few words."""
    return "Shipped on 4 May."


async def look_up(query: str) -> list[NodeWithScore]:
    """Returns documents."""
    return [NodeWithScore(node=TextNode(id_="rooms", text=ROOMS), score=0.5)]


async def play(kit: ModuleType, names: Sequence[str]) -> None:
    llm = kit.ToolLLM(calls=[(name, {"query": "lamp"}) for name in names], last=ANSWER)
    agent = FunctionAgent(
        tools=[search_knowledge, search_rooms, calculate, order_state, look_up],
        llm=llm,
        streaming=False,
    )
    memory = ChatMemoryBuffer.from_defaults(token_limit=4000)
    await agent.run(user_msg=QUESTION, memory=memory)


@pytest.mark.parametrize("name", SHAPES)
def test_the_text_of_a_tool(name: str, kit: ModuleType) -> None:
    shape = SHAPES[name]
    with capture(context_tools=shape.context_tools or None, reference=FACT) as captured:
        asyncio.run(play(kit, shape.tools))
    check(captured, shape)


def test_tools_that_one_reply_calls_stand_in_the_order_of_the_reply(
    kit: ModuleType,
) -> None:
    """The earlier a tool is called, the later it ends; more are called than run at a time."""
    topics = ["lamp", "tower", "keeper", "rooms", "stairs", "door"]

    class CallingAll(kit.ToolLLM):  # type: ignore[misc,name-defined]
        def _reply(self, messages: Any) -> ChatResponse:
            if any(message.role == MessageRole.TOOL for message in messages):
                self.calls = []
                return ChatResponse(
                    message=ChatMessage(role=MessageRole.ASSISTANT, content=ANSWER)
                )
            tool_calls = [
                {"id": topic, "name": "read", "arguments": json.dumps({"topic": topic})}
                for topic in topics
            ]
            message = ChatMessage(
                role=MessageRole.ASSISTANT,
                content="",
                additional_kwargs={"tool_calls": tool_calls},
            )
            return ChatResponse(message=message, delta="")

    async def read(topic: str) -> str:
        """Returns a text on a topic."""
        for _ in range(len(topics) - topics.index(topic)):
            await asyncio.sleep(0)
        return f"A page on the {topic}."

    async def run() -> None:
        agent = FunctionAgent(tools=[read], llm=CallingAll(), streaming=False)
        await agent.run(user_msg=QUESTION)

    with capture() as captured:
        asyncio.run(run())
    (sample,) = captured.samples
    assert sample.ledger is not None
    assert [call.query for call in sample.ledger.calls] == topics


async def search_web(query: str) -> list[Document]:
    """Returns documents without scores, as ``TavilyToolSpec.search`` does."""
    return [Document(text=FACT), Document(text=ROOMS)]


@pytest.mark.parametrize("named", [None, {"search_web"}])
def test_a_tool_that_returns_documents_brings_as_many_contexts(
    named: set[str] | None, kit: ModuleType
) -> None:
    llm = kit.ToolLLM(calls=[("search_web", {"query": "lamp"})], last=ANSWER)
    agent = FunctionAgent(tools=[search_web], llm=llm, streaming=False)

    async def ask() -> None:
        await agent.run(user_msg=QUESTION)

    with capture(context_tools=named) as captured:
        asyncio.run(ask())
    (sample,) = captured.samples
    assert sample.capture is not None
    assert sample.capture.grade == "exact"
    assert [context.text for context in sample.known_contexts] == [FACT, ROOMS]
