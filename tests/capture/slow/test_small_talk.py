"""Small talk around a question that searches, in each framework: no sample before it, and never a fault."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain
from typing import Any
from uuid import uuid4

import langchain_ragmetrics
import pytest
from haystack import Document
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import Tool
from haystack_integrations.components.evaluators import (
    ragmetrics as haystack_ragmetrics,
)
from langchain.agents import create_agent
from langchain_core.documents import Document as LangChainDocument
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage as LlamaIndexMessage
from llama_index.core.base.llms.types import TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.evaluation import ragmetrics as llamaindex_ragmetrics

from ragmetrics_core.reporting.diagnosis import is_declined

pytestmark = pytest.mark.filterwarnings(
    "ignore:The `(__fields|model_):pydantic.warnings.PydanticDeprecatedSince20",
    "ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211",
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


async def find(query: str) -> list[NodeWithScore]:
    """Looks something up."""
    return [NodeWithScore(node=TextNode(text=TEXT), score=0.9)]


def llamaindex(begun: list[str]) -> None:
    wish = ToolCallBlock(
        tool_name="find", tool_kwargs={"query": "lamp"}, tool_call_id="1"
    )
    said = [[[wish]] * asks(q) + [[TextBlock(text=TALK[q])]] for q in begun]
    lines: Any = chain.from_iterable(said)
    model = MockFunctionCallingLLM(
        response_generator=lambda *_, **__: LlamaIndexMessage(
            role="assistant", blocks=next(lines)
        )
    )
    agent = FunctionAgent(tools=[find], llm=model, streaming=False)

    async def talk() -> None:
        memory = ChatMemoryBuffer.from_defaults(token_limit=4000)
        for question in begun:
            await agent.run(user_msg=question, memory=memory)

    asyncio.run(talk())


def haystack(begun: list[str]) -> None:
    wish = ChatMessage.from_assistant(tool_calls=[ToolCall("find", {"query": "lamp"})])
    said: list[Any] = []
    for question in begun:
        said += [*[wish] * asks(question), TALK[question]]
    finds = Tool(
        "find",
        "Looks something up.",
        {"type": "object", "properties": {"query": {"type": "string"}}},
        lambda query: {"documents": [Document(content=TEXT)]},
    )
    agent = Agent(chat_generator=MockChatGenerator(said), tools=[finds])
    messages: list[ChatMessage] = []
    for question in begun:
        messages.append(ChatMessage.from_user(question))
        messages = agent.run(messages=messages)["messages"]


def asks(question: str) -> int:
    return int(question.startswith("Who"))


FRAMEWORKS: dict[str, tuple[Callable[[list[str]], None], Any]] = {
    "LangChain": (langchain, langchain_ragmetrics.capture),
    "LlamaIndex": (llamaindex, llamaindex_ragmetrics.capture),
    "Haystack": (haystack, haystack_ragmetrics.capture),
}


@pytest.fixture(params=FRAMEWORKS)
def play(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Play some turns of one conversation, and return what was captured of them."""
    application, capture = FRAMEWORKS[request.param]

    def played(*questions: str, **settings: Any) -> Any:
        with capture(conversation=uuid4().hex, **settings) as captured:
            application(list(questions))
        return captured

    return played


def test_what_was_said_before_any_search_is_no_sample(play):
    captured = play("Hi", "Who lit the lamp?", context_tools=None)
    (sample,) = captured.samples
    assert sample.question == "Who lit the lamp?"
    assert sample.ledger.turn == 2
    assert [turn.content for turn in sample.history] == ["Hi", TALK["Hi"]]
    assert not play("Hi").samples


def test_thanks_behind_a_search_are_a_turn_that_no_metric_scores(play):
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


def test_a_turn_that_was_offered_a_named_tool_is_a_sample(play):
    (sample,) = play("Hi", context_tools={"find", "look_up"}).samples
    assert sample.question == "Hi"
    assert "no_search" in sample.capture.doubts


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_talk_that_may_have_been_searched_for_says_what_makes_it_no_sample(framework):
    """LangChain reports each search, and a memory that is handed in names a conversation."""
    application, capture = FRAMEWORKS[framework]
    with capture() as captured:
        application(["Hi"])
    for sample in captured.samples:
        assert "say context_tools=set()" in sample.capture.doubts["no_search"]
    assert len(captured.samples) == (framework == "Haystack")
    with capture(context_tools=set()) as captured:
        application(["Hi"])
    assert captured.samples == ()
