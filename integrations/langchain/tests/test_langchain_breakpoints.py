"""Graphs that stop before their tools without an interrupt, and go on with no input."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolCall
from langchain_core.tools import BaseTool, create_retriever_tool, tool
from langchain_fakes import ANSWER, PARIS, QUESTION, Shelf, Speaker, calls, document
from langchain_ragmetrics import capture
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


def search(query: str, name: str) -> ToolCall:
    return ToolCall(name="search", args={"query": query}, id=name)


@tool
def erase(name: str) -> str:
    """Erases a group."""
    return f"{name} is erased"


def searching() -> BaseTool:
    return create_retriever_tool(
        Shelf(books=[document(PARIS, "p")]), "search", "Searches."
    )


def graph(*lines: Any, using: BaseTool) -> Any:
    """The agent of the tutorial, which stops before each call of its tool."""
    model = Speaker(lines=list(lines))
    made = StateGraph(MessagesState)
    made.add_node(
        "agent", lambda state: {"messages": [model.invoke(state["messages"])]}
    )
    made.add_node("tools", ToolNode([using]))
    made.add_edge(START, "agent")
    made.add_conditional_edges("agent", tools_condition, {"tools": "tools", END: END})
    made.add_edge("tools", "agent")
    return made.compile(checkpointer=InMemorySaver(), interrupt_before=["tools"])


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_graph_that_stops_before_its_tools_and_is_resumed_is_one_turn(
    rounds: int,
) -> None:
    searches = [
        AIMessage("", tool_calls=[search("capital", f"call {number}")])
        for number in range(rounds)
    ]
    made = graph(*searches, ANSWER, using=searching())
    config = {"configurable": {"thread_id": "one"}}
    with capture() as captured:
        made.invoke({"messages": [("user", QUESTION)]}, config)
        for _ in range(rounds):
            made.invoke(None, config)
    (sample,) = captured.samples
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert [context.text for context in sample.known_contexts] == [PARIS]
    assert sample.ledger is not None
    assert sample.ledger.turn == 1
    assert sample.capture is not None
    assert sample.capture.grade == "exact"


def test_a_graph_that_nobody_resumes_lets_the_next_question_be_one() -> None:
    made = graph(calls("search", query="capital"), ANSWER, using=searching())
    with capture() as captured:
        config = {"configurable": {"thread_id": "one"}}
        made.invoke({"messages": [("user", "Which one?")]}, config)
        made.invoke({"messages": [("user", QUESTION)]}, config)
    assert [sample.question for sample in captured.samples] == []
    assert sum(captured.problems.counts.values()) >= 1


def test_each_resumed_turn_that_called_a_tool_is_a_sample() -> None:
    lines: list[Any] = []
    for _ in range(2):
        lines += [calls("erase", name="group one"), AIMessage("It is gone.")]
    made = graph(*lines, using=erase)
    config = {"configurable": {"thread_id": "one"}}
    with capture() as captured:
        for question in ("Erase group one, please.", "Erase it again."):
            made.invoke({"messages": [("user", question)]}, config)
            made.invoke(None, config)
    assert [sample.answer for sample in captured.samples] == ["It is gone."] * 2
