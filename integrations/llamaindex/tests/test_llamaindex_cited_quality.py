"""Citations of a captured CitationQueryEngine are judged from the run alone."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from llama_index.core.query_engine import CitationQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.evaluation.ragmetrics import capture

from ragmetrics_core import ScriptedJudge
from ragmetrics_core.metrics.citation_support import Supports, SupportsAlone

TEXTS = ("The Velm rises in the hills.", "The bridge was opened in 1874.")
ANSWER = "It was opened in 1874 [2]. It rises in the hills [2]. It is red [9]."


def holds(passage: str, statement: str) -> int:
    """Whether the last word of a statement stands in a passage."""
    return int(statement.rstrip(".").split()[-1] in passage)


def together(question: Any) -> dict[str, int]:
    passages = " ".join(question["passages"])
    return {"supported": holds(passages, question["statement"])}


def each(question: Any) -> dict[str, Any]:
    part = question.parts["passages"]
    return {
        "passages": [
            {"label": label, "supported": holds(text, question["statement"])}
            for label, text in zip(part.labels, part.texts, strict=True)
        ]
    }


def test_a_captured_answer_is_judged_by_what_the_prompt_numbered(
    kit: ModuleType,
) -> None:
    nodes = [
        NodeWithScore(node=TextNode(id_=f"n{place}", text=text), score=0.9)
        for place, text in enumerate(TEXTS)
    ]
    engine = CitationQueryEngine.from_args(
        None,
        retriever=kit.FixedRetriever(nodes),
        llm=kit.ScriptedLLM(script={"Source 1": ANSWER}),
    )
    with capture() as captured:
        engine.query("When was the bridge opened?")
    judge = ScriptedJudge({Supports: together, SupportsAlone: each})
    report = captured.evaluate(["citation_quality"], judge=judge)
    result = report.results[0].results["citation_quality"]
    evidence: Any = result.evidence
    assert [statement.fault for statement in evidence.statements] == [
        None,
        "misattributed",
        "unsupported",
    ]
    assert evidence.statements[1].supporting == (1,)
    assert evidence.dangling == 1
    assert result.value == 1 / 3
