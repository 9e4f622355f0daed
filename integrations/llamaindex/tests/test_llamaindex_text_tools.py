"""LlamaIndex agents whose tools return text: the text is evidence of the ledger, and no context unless it is named."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import ModuleType

import pytest
from lighthouse import ANSWER, FACT, QUESTION, ROOMS
from llama_index.core.agent.workflow import FunctionAgent
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


async def look_up(query: str) -> list[NodeWithScore]:
    """Returns documents."""
    return [NodeWithScore(node=TextNode(id_="rooms", text=ROOMS), score=0.5)]


async def play(kit: ModuleType, names: Sequence[str]) -> None:
    llm = kit.ToolLLM(calls=[(name, {"query": "lamp"}) for name in names], last=ANSWER)
    agent = FunctionAgent(
        tools=[search_knowledge, search_rooms, calculate, look_up],
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
