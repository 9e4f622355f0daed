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
        doubts: The codes of what is uncertain.
        named: The tools that the sentence of "tool_text" names.
        is_scored: Whether utilization and accuracy are scored.
        context_tools: The tools that the user names.
    """

    tools: Sequence[str]
    kinds: Sequence[str]
    contexts: Sequence[str] = ()
    doubts: Sequence[str] = ("tool_text",)
    named: Sequence[str] = ()
    is_scored: bool = False
    context_tools: frozenset[str] = frozenset()


_NAMED = frozenset({"search_knowledge"})
SHAPES: dict[str, Shape] = {
    "a text": Shape(["search_knowledge"], ["tool"], named=["search_knowledge"]),
    "a text of a tool that is named": Shape(
        ["search_knowledge"],
        ["retrieval"],
        [FACT],
        ["undivided"],
        is_scored=True,
        context_tools=_NAMED,
    ),
    "a number": Shape(["calculate"], ["tool"], named=["calculate"]),
    "two texts": Shape(
        ["search_knowledge", "search_rooms"],
        ["tool", "tool"],
        named=["search_knowledge", "search_rooms"],
    ),
    "a text and documents": Shape(
        ["look_up", "search_knowledge"],
        ["retrieval", "tool"],
        [ROOMS],
        named=["search_knowledge"],
        is_scored=True,
    ),
    "a number and documents": Shape(
        ["look_up", "calculate"], ["retrieval", "tool"], [ROOMS], (), is_scored=True
    ),
    "a few words and documents": Shape(
        ["look_up", "order_state"],
        ["retrieval", "tool"],
        [ROOMS],
        named=["order_state"],
        is_scored=True,
    ),
    "a named text and one that is left out": Shape(
        ["search_knowledge", "search_rooms"],
        ["retrieval", "tool"],
        [FACT],
        ["undivided"],
        is_scored=True,
        context_tools=_NAMED,
    ),
    "a text whose tool is named with a slip": Shape(
        ["search_knowledge"],
        ["tool"],
        named=["search_knowledge"],
        context_tools=frozenset({"search_knowlege"}),
    ),
}


def check(captured: Captured, shape: Shape) -> None:
    """Assert what one run of the shape's agent, captured with ``reference=FACT``, must say."""
    (sample,) = captured.samples
    assert sample.capture is not None
    assert sample.ledger is not None
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert [context.text for context in sample.known_contexts] == list(shape.contexts)
    assert [call.kind for call in sample.ledger.calls] == list(shape.kinds)
    assert list(sample.capture.doubts) == list(shape.doubts)
    hint = sample.capture.doubts.get("tool_text", "")
    assert all(name in hint for name in shape.named)
    _check_results(captured, shape)


def _check_results(captured: Captured, shape: Shape) -> None:
    (result,) = captured.evaluate(METRICS, judge="lexical").results
    assert result.results["context_adherence"].status == "scored"
    for metric in ("context_utilization", "retrieval_accuracy"):
        outcome = result.results[metric]
        assert (outcome.status == "scored") == shape.is_scored
        if not shape.is_scored:
            assert all(name in outcome.reason for name in shape.named)
