"""Plain functions that search several times, rerank what was found, and ask a model: one sample with all searches."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.evaluation.ragmetrics import capture

BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
FERRY = "The Osta ferry crosses the lake every hour in summer."
MILL = "The Tarn mill ground corn until the flood of 1910 took its wheel."
PAGES = {"b": BRIDGE, "f": FERRY, "m": MILL}
QUESTIONS = ["When was the bridge opened?", "Until when did the mill run?"]
WRITTEN = "opening by the mayor\nflood of the river"
ANSWER = "That is told by the pages of the town."


class Reversed(BaseNodePostprocessor):
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return nodes[::-1]


def bundle(nodes: list[NodeWithScore], question: str) -> list[NodeWithScore]:
    return Reversed().postprocess_nodes(nodes, QueryBundle(question))


def silent(nodes: list[NodeWithScore], _: str) -> list[NodeWithScore]:
    return Reversed().postprocess_nodes(nodes)


def none(nodes: list[NodeWithScore], _: str) -> list[NodeWithScore]:
    return nodes[::-1]


@pytest.mark.parametrize("rerank", [bundle, silent, none])
@pytest.mark.parametrize("kinds", [("b", "f"), ("bf", "fm"), ("b", "bf"), ("bf", "b")])
def test_two_searches_for_one_question_are_both_of_its_sample(
    kit: ModuleType, rerank: Any, kinds: tuple[str, str]
) -> None:
    """Vectors and key words are searched, as in hybrid search by hand."""
    stores = [
        kit.FixedRetriever([kit.node(one, PAGES[one]) for one in ids]) for ids in kinds
    ]
    model = kit.ScriptedLLM(script={"": ANSWER})
    with capture() as captured:
        for question in QUESTIONS:
            found = [node for store in stores for node in store.retrieve(question)]
            nodes = list({node.node_id: node for node in found}.values())
            pages = "\n".join(node.text for node in rerank(nodes, question))
            model.complete(f"{pages}\nQuestion: {question}")
    assert not captured.problems
    assert [sample.question for sample in captured.samples] == QUESTIONS
    all_ids = list(dict.fromkeys("".join(kinds)))
    for sample in captured.samples:
        assert [context.id for context in sample.known_contexts] == all_ids[::-1]
        assert [context.id for context in sample.retrieved or ()] == all_ids
        assert sample.ledger is not None
        calls = [
            (call.query, "".join(item.id or "" for item in call.items))
            for call in sample.ledger.calls
        ]
        assert calls == [(sample.question, ids) for ids in kinds]
        assert sample.capture is not None
        assert (sample.capture.grade, sample.capture.warnings) == ("exact", ())


@pytest.mark.parametrize("rerank", [bundle, silent, none])
@pytest.mark.parametrize("is_first", [True, False])
def test_queries_that_a_model_wrote_are_searched_beside_the_question(
    kit: ModuleType, rerank: Any, is_first: bool
) -> None:
    def pages(query: str) -> list[NodeWithScore]:
        ids = {"opening by the mayor": "b", "flood of the river": "m"}
        return [kit.node(one, PAGES[one]) for one in ids.get(query, "f")]

    store = kit.FixedRetriever(pages)
    model = kit.ScriptedLLM(script={"Write": WRITTEN, "": ANSWER})
    with capture() as captured:
        for question in QUESTIONS:
            queries = model.complete(f"Write queries for: {question}").text.split("\n")
            asked = [question, *queries] if is_first else [*queries, question]
            nodes = [node for query in asked for node in store.retrieve(query)]
            shown = "\n".join(node.text for node in rerank(nodes, question))
            model.complete(f"{shown}\nQuestion: {question}")
    assert [sample.question for sample in captured.samples] == QUESTIONS
    order = "fbm" if is_first else "bmf"
    for sample in captured.samples:
        assert [context.id for context in sample.known_contexts] == list(order[::-1])
        assert [context.id for context in sample.retrieved or ()] == list(order)
        assert sample.ledger is not None
        assert len(sample.ledger.calls) == len(order)
        assert sample.capture is not None
        assert sample.capture.grade == "exact"
