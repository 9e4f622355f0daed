"""Haystack agents whose tools return text: the text is evidence of the ledger, and no context unless it is named."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import pytest
from haystack import Document
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import create_tool_from_function
from haystack_integrations.components.evaluators.ragmetrics import capture

QUESTION = "Who lit the lamp of the lighthouse first?"
FACT = "Anna Berg lit the lamp of the lighthouse for the first time in May 1882."
ROOMS = "The lighthouse has eleven rooms; the keeper slept in the one below the lamp."
ANSWER = "Anna Berg lit it in May 1882."


@dataclass(frozen=True)
class Shape:
    """An agent with some tools, and what its sample must say.

    Attributes:
        tools: The names of the tools, each called once in this order.
        kinds: The kind of each call of the ledger.
        contexts: The texts of the contexts.
        evidence_from: How the contexts are known.
        grade: The grade of the sample.
        named: The tools that the sentence names, as the setting shows them.
        code: The code with which utilization and accuracy are undefined; empty where
            they are scored.
        context_tools: The tools that the user names.
    """

    tools: Sequence[str]
    kinds: Sequence[str]
    contexts: Sequence[str] = ()
    evidence_from: str | None = "undivided"
    grade: str = "inferred"
    named: str = ""
    code: str = "undivided"
    context_tools: frozenset[str] = frozenset()


SHAPES: dict[str, Shape] = {
    "a text": Shape(["search_knowledge"], ["tool"], named='{"search_knowledge"}'),
    "a text of a tool that is named": Shape(
        ["search_knowledge"],
        ["retrieval"],
        [FACT],
        grade="exact",
        code="",
        context_tools=frozenset({"search_knowledge"}),
    ),
    "a number": Shape(["calculate"], ["tool"], named='{"calculate"}'),
    "two texts": Shape(
        ["search_knowledge", "search_rooms"],
        ["tool", "tool"],
        named='{"search_knowledge", "search_rooms"}',
    ),
    "a text and documents": Shape(
        ["look_up", "search_knowledge"],
        ["retrieval", "tool"],
        [ROOMS],
        "prompt",
        named='{"search_knowledge"}',
        code="",
    ),
    "a number and documents": Shape(
        ["look_up", "calculate"],
        ["retrieval", "tool"],
        [ROOMS],
        "prompt",
        grade="exact",
        code="",
    ),
}


def search_knowledge(query: Annotated[str, "what to look for"]) -> str:
    """Returns a text."""
    return FACT


def search_rooms(query: Annotated[str, "what to look for"]) -> str:
    """Returns another text."""
    return ROOMS


def calculate(query: Annotated[str, "what to add up"]) -> str:
    """Returns a number."""
    return "1882"


def look_up(query: Annotated[str, "what to look for"]) -> dict[str, list[Document]]:
    """Returns documents."""
    return {"documents": [Document(content=ROOMS)]}


FUNCTIONS = (search_knowledge, search_rooms, calculate, look_up)


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
    tools = shape.context_tools or None
    with capture(context_tools=tools, reference=FACT) as captured:
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
