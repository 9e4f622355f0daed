"""Agents whose tools return text: each answered run is a sample, and the text is evidence of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, tool
from langchain_ragmetrics import capture
from langgraph.checkpoint.memory import InMemorySaver

QUESTION = "Who lit the lamp of the lighthouse first?"
FACT = "Anna Berg lit the lamp of the lighthouse for the first time in May 1882."
ROOMS = "The lighthouse has eleven rooms; the keeper slept in the one below the lamp."
ANSWER = "Anna Berg lit it in May 1882."


class Scripted(GenericFakeChatModel):
    """Says its lines one after the other."""

    def bind_tools(self, tools: Any, **settings: Any) -> Any:
        return self


@tool
def search_knowledge(query: str) -> str:
    """Returns a text."""
    return FACT


@tool
def search_rooms(query: str) -> str:
    """Returns another text."""
    return ROOMS


@tool
def calculate(query: str) -> str:
    """Returns a number."""
    return "1882"


@tool(response_format="content_and_artifact")
def look_up(query: str) -> tuple[str, list[Document]]:
    """Returns documents."""
    return ROOMS, [Document(ROOMS)]


@dataclass(frozen=True)
class Shape:
    """An agent with some tools, and what its sample must say.

    Attributes:
        tools: The tools, each called once in this order.
        kinds: The kind of each call of the ledger.
        contexts: The texts of the contexts.
        evidence_from: How the contexts are known.
        grade: The grade of the sample.
        named: The tools that the sentence names, as the setting shows them.
        code: The code with which utilization and accuracy are undefined; empty where
            they are scored.
        context_tools: The tools that the user names.
    """

    tools: Sequence[BaseTool]
    kinds: Sequence[str]
    contexts: Sequence[str] = ()
    evidence_from: str | None = "undivided"
    grade: str = "inferred"
    named: str = ""
    code: str = "undivided"
    context_tools: frozenset[str] = frozenset()


SHAPES: dict[str, Shape] = {
    "a text": Shape([search_knowledge], ["tool"], named='{"search_knowledge"}'),
    "a text of a tool that is named": Shape(
        [search_knowledge],
        ["retrieval"],
        [FACT],
        grade="exact",
        code="",
        context_tools=frozenset({"search_knowledge"}),
    ),
    "a number": Shape([calculate], ["tool"], named='{"calculate"}'),
    "two texts": Shape(
        [search_knowledge, search_rooms],
        ["tool", "tool"],
        named='{"search_knowledge", "search_rooms"}',
    ),
    "a text and documents": Shape(
        [look_up, search_knowledge],
        ["retrieval", "tool"],
        [ROOMS],
        "prompt",
        named='{"search_knowledge"}',
        code="",
    ),
    "a number and documents": Shape(
        [look_up, calculate],
        ["retrieval", "tool"],
        [ROOMS],
        "prompt",
        grade="exact",
        code="",
    ),
    "a named text and a number": Shape(
        [search_knowledge, calculate],
        ["retrieval", "tool"],
        [FACT],
        grade="exact",
        code="",
        context_tools=frozenset({"search_knowledge"}),
    ),
}


def play(tools: Sequence[BaseTool]) -> None:
    lines = [
        AIMessage(
            "",
            tool_calls=[{"name": one.name, "args": {"query": "lamp"}, "id": one.name}],
        )
        for one in tools
    ]
    agent = create_agent(
        Scripted(messages=iter([*lines, AIMessage(ANSWER)])), list(tools)
    )
    agent.invoke({"messages": [("user", QUESTION)]})


@pytest.mark.parametrize("name", SHAPES)
def test_the_text_of_a_tool(name: str) -> None:
    shape = SHAPES[name]
    with capture(context_tools=shape.context_tools or None, reference=FACT) as captured:
        play(shape.tools)
    (sample,) = captured.samples
    assert sample.capture is not None
    assert sample.ledger is not None
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert [context.text for context in sample.contexts] == list(shape.contexts)
    assert [call.kind for call in sample.ledger.calls] == list(shape.kinds)
    assert sample.capture.grade == shape.grade
    assert sample.capture.evidence_from == shape.evidence_from
    said = [text for text in sample.capture.warnings if "context_tools=" in text]
    assert len(said) == bool(shape.named)
    assert shape.named in " ".join(said)
    counted = [text for text in captured.problems.counts if shape.named in text]
    assert len(counted) == (shape.code == "undivided")
    metrics = ["context_adherence", "context_utilization", "retrieval_accuracy"]
    (result,) = captured.evaluate(metrics, judge="lexical").results
    assert result.results["context_adherence"].status == "scored"
    for metric in metrics[1:]:
        outcome = result.results[metric]
        assert getattr(outcome, "code", "") == shape.code
        assert shape.code == "" or shape.named in outcome.reason


def test_a_run_that_called_no_tool_is_none() -> None:
    with capture() as captured:
        play([])
    assert not captured.samples


def test_a_model_that_only_wishes_for_a_tool_gives_no_sample() -> None:
    model = Scripted(
        messages=iter(
            [AIMessage("", tool_calls=[{"name": "a", "args": {}, "id": "1"}])]
        )
    )
    with capture() as captured:
        model.invoke(QUESTION)
    assert not captured.samples


def test_the_tools_of_an_earlier_turn_are_not_named_again() -> None:
    def wish(name: str) -> AIMessage:
        call = {"name": name, "args": {"query": "lamp"}, "id": f"call {name}"}
        return AIMessage("", tool_calls=[call])

    lines = [wish("search_rooms"), AIMessage("Eleven.")]
    lines += [wish("search_knowledge"), AIMessage(ANSWER)]
    agent = create_agent(
        Scripted(messages=iter(lines)),
        [search_knowledge, search_rooms],
        checkpointer=InMemorySaver(),
    )
    thread: Any = {"configurable": {"thread_id": "one"}}
    with capture() as captured:
        agent.invoke({"messages": [("user", "How many rooms?")]}, thread)
        agent.invoke({"messages": [("user", QUESTION)]}, thread)
    _, second = captured.samples
    assert second.ledger is not None
    assert [call.turn for call in second.ledger.calls] == [1, 2]
    report = captured.evaluate(["context_utilization"], judge="lexical")
    reason = report.results[1].results["context_utilization"].reason
    assert 'context_tools={"search_knowledge"}' in reason


@tool
def search_notes(query: str) -> str:
    """Returns numbered texts."""
    return f"[1] {ROOMS}\n[2] {FACT}"


@pytest.mark.parametrize("named", [None, {"search_notes"}])
def test_a_mark_of_a_tools_text_is_unknown_and_not_dangling(
    named: set[str] | None,
) -> None:
    """The model was shown something under the number, though no context is."""
    call = {"name": "search_notes", "args": {"query": "lamp"}, "id": "1"}
    lines = [AIMessage("", tool_calls=[call]), AIMessage(f"{ANSWER} [2]")]
    agent = create_agent(Scripted(messages=iter(lines)), [search_notes])
    with capture(context_tools=named) as captured:
        agent.invoke({"messages": [("user", "Who lit the lamp?")]})
    (sample,) = captured.samples
    assert sample.citations is None
    assert sample.citations_unknown
