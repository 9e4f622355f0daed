"""Small talk around a question that searches: no sample before it, and never a fault."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain
from typing import Any
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document as LangChainDocument
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langchain_ragmetrics import capture
from langgraph.checkpoint.memory import InMemorySaver

from ragmetrics_core.reporting.diagnosis import is_declined

pytestmark = pytest.mark.filterwarnings(
    "ignore:The `(__fields|model_):pydantic.warnings.PydanticDeprecatedSince20",
    "ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211",
    "ignore:.*aiosqlite:ResourceWarning",
)

TEXT = "Anna Berg lit the lamp of Skarn in 1882."
TALK = {
    "Hi": "Hello! How can I help you?",
    "Who lit the lamp?": "Anna Berg lit the lamp in 1882.",
    "Thanks!": "You're welcome!",
}


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self.bind(tools=[{"name": each.name} for each in tools])


@tool(response_format="content_and_artifact")
def look_up(query: str) -> Any:
    """Looks something up."""
    return TEXT, [LangChainDocument(TEXT)]


def langchain(begun: list[str]) -> None:
    wish = {"name": "look_up", "args": {"query": "lamp"}, "id": "1"}
    said = [[AIMessage("", tool_calls=[wish])] * asks(q) + [TALK[q]] for q in begun]
    model = Scripted(messages=chain.from_iterable(said))
    agent = create_agent(model, [look_up], checkpointer=InMemorySaver())
    for question in begun:
        agent.invoke(
            {"messages": [("user", question)]}, {"configurable": {"thread_id": "t"}}
        )


def asks(question: str) -> int:
    return int(question.startswith("Who"))


def play(*questions: str, **settings: Any) -> Any:
    """Play some turns of one conversation, and return what was captured of them."""
    with capture(conversation=uuid4().hex, **settings) as captured:
        langchain(list(questions))
    return captured


def test_what_was_said_before_any_search_is_no_sample():
    captured = play("Hi", "Who lit the lamp?", context_tools=None)
    (sample,) = captured.samples
    assert sample.question == "Who lit the lamp?"
    assert sample.ledger.turn == 2
    assert [turn.content for turn in sample.history] == ["Hi", TALK["Hi"]]
    assert not play("Hi").samples


def test_thanks_behind_a_search_are_a_turn_that_no_metric_scores():
    captured = play("Hi", "Who lit the lamp?", "Thanks!")
    report = captured.evaluate(["adherence", "utilization"], judge="lexical")
    asked, thanked = captured.samples
    assert (asked.question, thanked.question) == ("Who lit the lamp?", "Thanks!")
    assert thanked.ledger.turn == 3
    assert [call.turn for call in thanked.ledger.calls] == [2]
    row = list(report)[1]
    assert {each.status for each in row.results.values()} == {"undefined"}
    assert is_declined(row)
    assert report.scores("context_adherence")[0] > 0.5


def test_a_turn_that_was_offered_a_named_tool_is_a_sample():
    (sample,) = play("Hi", context_tools={"find", "look_up"}).samples
    assert sample.question == "Hi"
    assert "no_search" in sample.capture.doubts


def test_talk_that_searched_nowhere_is_no_sample():
    """LangChain reports each search."""
    for settings in ({}, {"context_tools": set()}):
        with capture(**settings) as captured:
            langchain(["Hi"])
        assert captured.samples == ()


SUMS = ("Hi, I am Bob.", "What is 2 + 3?", "What is my name?")
SUMS_SAID = ("Hello, Bob!", None, "That is 5.", "Your name is Bob.")  # None: it adds


def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return str(a + b)


def langchain_sums(**settings: Any) -> Any:
    wish = {"name": "add", "args": {"a": 2, "b": 3}, "id": "1"}
    said = [each or AIMessage("", tool_calls=[wish]) for each in SUMS_SAID]
    model = Scripted(messages=iter(said))
    agent = create_agent(model, [tool(add)], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": uuid4().hex}}
    with capture(**settings) as captured:
        for question in SUMS:
            agent.invoke({"messages": [("user", question)]}, thread)
    return captured


def llamaindex_sums(**settings: Any) -> Any:
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.base.llms.types import TextBlock, ToolCallBlock
    from llama_index.core.llms import ChatMessage
    from llama_index.core.llms.mock import MockFunctionCallingLLM
    from llama_index.core.memory import ChatMemoryBuffer
    from llama_index.evaluation.ragmetrics import capture

    wish = ToolCallBlock(
        tool_name="add", tool_kwargs={"a": 2, "b": 3}, tool_call_id="1"
    )
    lines = iter([TextBlock(text=each) if each else wish for each in SUMS_SAID])

    def says(messages: Any, **_: Any) -> ChatMessage:
        return ChatMessage(role="assistant", blocks=[next(lines)])

    async def talk() -> None:
        model = MockFunctionCallingLLM(response_generator=says)
        agent = FunctionAgent(tools=[add], llm=model, streaming=False)
        memory = ChatMemoryBuffer.from_defaults(token_limit=4000)
        for question in SUMS:
            await agent.run(user_msg=question, memory=memory)

    with capture(**settings) as captured:
        asyncio.run(talk())
    return captured


def haystack_sums(**settings: Any) -> Any:
    from haystack.components.agents import Agent
    from haystack.components.generators.chat import MockChatGenerator
    from haystack.dataclasses import ChatMessage, ToolCall
    from haystack.tools import create_tool_from_function
    from haystack_integrations.components.evaluators.ragmetrics import capture

    wish = ChatMessage.from_assistant(tool_calls=[ToolCall("add", {"a": 2, "b": 3})])
    model = MockChatGenerator([each or wish for each in SUMS_SAID])
    agent = Agent(chat_generator=model, tools=[create_tool_from_function(add)])
    messages: list[ChatMessage] = []
    with capture(conversation=uuid4().hex, **settings) as captured:
        for question in SUMS:
            messages.append(ChatMessage.from_user(question))
            messages = agent.run(messages=messages)["messages"]
    return captured


@pytest.mark.parametrize(
    "sums", [langchain_sums, llamaindex_sums, haystack_sums], ids=lambda it: it.__name__
)
def test_what_rests_on_a_tool_in_doubt_is_in_doubt(sums: Callable[..., Any]):
    """Whether the tool searches only the user knows; if none does, the rest is talk."""
    added, named = sums().samples
    assert [added.question, named.question] == [*SUMS[1:]]
    assert added.capture.grade == named.capture.grade == "inferred"
    assert list(added.capture.doubts) == ["undivided"]
    assert added.capture.doubts == named.capture.doubts

    (added,) = sums(context_tools=set()).samples
    assert (added.question, added.capture.grade) == (SUMS[1], "exact")
    assert [call.kind for call in added.ledger.calls] == ["tool"]

    _, added, named = sums(context_tools={"add"}).samples
    assert [each.text for each in added.contexts] == ["5"]
    assert named.contexts is None
    assert named.capture.grade == "exact"
    assert [call.kind for call in named.ledger.calls] == ["retrieval"]
