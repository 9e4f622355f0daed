"""Small talk around a question that searches: no sample before it, and never a fault."""

from __future__ import annotations

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
