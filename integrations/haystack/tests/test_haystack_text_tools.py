"""Haystack agents whose tools return text: the text is evidence of the ledger, and no context unless it is named."""

from collections.abc import Sequence
from typing import Annotated

import pytest
from haystack import Document
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import create_tool_from_function
from haystack_integrations.components.evaluators.ragmetrics import capture
from lighthouse import ANSWER, FACT, QUESTION, ROOMS
from tool_texts import SHAPES, check


def search_knowledge(query: Annotated[str, "what to look for"]) -> str:
    """Returns a text."""
    return FACT


def search_rooms(query: Annotated[str, "what to look for"]) -> str:
    """Returns another text."""
    return ROOMS


def calculate(query: Annotated[str, "what to add up"]) -> str:
    """Returns a number."""
    return "1882"


def order_state(query: Annotated[str, "what to look for"]) -> str:
    """Returns a few words."""
    return "Shipped on 4 May."


def look_up(query: Annotated[str, "what to look for"]) -> dict[str, list[Document]]:
    """Returns documents."""
    return {"documents": [Document(content=ROOMS)]}


FUNCTIONS = (search_knowledge, search_rooms, calculate, order_state, look_up)


def play(names: Sequence[str]) -> None:
    lines = [
        ChatMessage.from_assistant(tool_calls=[ToolCall(name, {"query": "lamp"})])
        for name in names
    ]
    agent = Agent(
        chat_generator=MockChatGenerator([*lines, ANSWER]),
        tools=[create_tool_from_function(function) for function in FUNCTIONS],
    )
    agent.run(messages=[ChatMessage.from_user(QUESTION)])


@pytest.mark.parametrize("name", SHAPES)
def test_the_text_of_a_tool(name: str) -> None:
    shape = SHAPES[name]
    with capture(context_tools=shape.context_tools or None, reference=FACT) as captured:
        play(shape.tools)
    check(captured, shape)
