"""Agents whose tools return text: what the sample of such a run must say, the same for every framework.

A framework's test makes an agent with the five tools that ``SHAPES`` names:
``search_knowledge`` returns ``FACT`` as text and ``search_rooms`` returns ``ROOMS`` as
text; ``calculate`` returns a number as text; ``order_state`` returns a few words as
text; ``look_up`` returns ``ROOMS`` as a document.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lighthouse import ANSWER, FACT, QUESTION, ROOMS

from ragmetrics_core.capture.captured import Captured

METRICS = ("context_adherence", "context_utilization", "retrieval_accuracy")


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
    "a few words and documents": Shape(
        ["look_up", "order_state"],
        ["retrieval", "tool"],
        [ROOMS],
        "prompt",
        named='{"order_state"}',
        code="",
    ),
    "a named text and a number": Shape(
        ["search_knowledge", "calculate"],
        ["retrieval", "tool"],
        [FACT],
        grade="exact",
        code="",
        context_tools=frozenset({"search_knowledge"}),
    ),
    "a named text and one that is left out": Shape(
        ["search_knowledge", "search_rooms"],
        ["retrieval", "tool"],
        [FACT],
        grade="exact",
        code="",
        context_tools=frozenset({"search_knowledge"}),
    ),
    "a text whose tool is named with a slip": Shape(
        ["search_knowledge"],
        ["tool"],
        named='{"search_knowledge"}',
        context_tools=frozenset({"search_knowlege"}),
    ),
    "a text, and a name that no tool has": Shape(
        ["search_knowledge", "calculate"],
        ["tool", "tool"],
        grade="exact",
        named='{"search_knowledge", "calculate"}',
        context_tools=frozenset({"nope"}),
    ),
}


def check(captured: Captured, shape: Shape) -> None:
    """Assert what one run of the shape's agent, captured with ``reference=FACT``, must say."""
    (sample,) = captured.samples
    assert sample.capture is not None
    assert sample.ledger is not None
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert [context.text for context in sample.contexts] == list(shape.contexts)
    assert [call.kind for call in sample.ledger.calls] == list(shape.kinds)
    assert sample.capture.grade == shape.grade
    assert sample.capture.evidence_from == shape.evidence_from
    hints = [text for text in sample.capture.warnings if "context_tools=" in text]
    assert len(hints) == bool(shape.named)
    assert shape.named in " ".join(hints)
    _check_results(captured, shape)


def _check_results(captured: Captured, shape: Shape) -> None:
    (result,) = captured.evaluate(METRICS, judge="lexical").results
    assert result.results["context_adherence"].status == "scored"
    for metric in ("context_utilization", "retrieval_accuracy"):
        outcome = result.results[metric]
        assert getattr(outcome, "code", "") == shape.code
        assert shape.code == "" or shape.named in outcome.reason
