"""Retrievers that ask query engines: what the engines found is evidence, what they wrote is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import (
    BaseRetriever,
    QueryFusionRetriever,
    RecursiveRetriever,
)
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle, TextNode
from llama_index.evaluation.ragmetrics import capture

from ragmetrics_core.data.sample import Sample

BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
FERRY = "The Osta ferry crosses the lake every hour in summer."
ASKED = "When was the bridge opened?"
WRITTEN = "It was opened in 1874."
ANSWER = "The mayor opened it, in 1874."


class Reversed(BaseNodePostprocessor):
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return nodes[::-1]


def model(kit: ModuleType) -> Any:
    """Answers from the page, and from what was written after that."""
    return kit.ScriptedLLM(script={WRITTEN: ANSWER, BRIDGE: WRITTEN})


def engine(kit: ModuleType) -> RetrieverQueryEngine:
    bridge = kit.FixedRetriever([kit.node("b", BRIDGE)])
    return RetrieverQueryEngine.from_args(bridge)


def pointer(**more: Any) -> NodeWithScore:
    node = IndexNode(text="All about the bridge.", index_id="bridge", id_="p", **more)
    return NodeWithScore(node=node, score=0.9)


def recursive(kit: ModuleType, *beside: NodeWithScore) -> RecursiveRetriever:
    """The framework's guide on document agents: each document has an engine of its own."""
    return RecursiveRetriever(
        "vector",
        retriever_dict={"vector": kit.FixedRetriever([pointer(), *beside])},
        query_engine_dict={"bridge": engine(kit)},
    )


def with_objects(kit: ModuleType, *beside: NodeWithScore) -> BaseRetriever:
    """A retriever whose nodes point to engines."""
    retriever: BaseRetriever = kit.FixedRetriever([pointer(obj=engine(kit)), *beside])
    return retriever


def fused(kit: ModuleType, *beside: NodeWithScore) -> BaseRetriever:
    retrievers = [recursive(kit), kit.FixedRetriever(list(beside))]
    return QueryFusionRetriever(
        retrievers, num_queries=1, use_async=False, llm=model(kit)
    )


def asked(retriever: BaseRetriever, *, reranked: bool) -> None:
    processors = [Reversed()] if reranked else []
    RetrieverQueryEngine.from_args(retriever, node_postprocessors=processors).query(
        ASKED
    )


def asked_async(retriever: BaseRetriever, *, reranked: bool) -> None:
    processors = [Reversed()] if reranked else []
    made = RetrieverQueryEngine.from_args(retriever, node_postprocessors=processors)

    async def query() -> None:
        await made.aquery(ASKED)

    asyncio.run(query())


def asked_by_functions(retriever: BaseRetriever, *, reranked: bool) -> None:
    """The application calls retriever, postprocessor and model by itself."""
    nodes = retriever.retrieve(ASKED)
    if reranked:
        nodes = Reversed().postprocess_nodes(nodes, query_str=ASKED)
    pages = "\n".join(node.text for node in nodes)
    Settings.llm.complete(f"Pages:\n{pages}\nQuery: {ASKED}")


def only_sample(
    kit: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[[], None],
) -> Sample:
    monkeypatch.setattr(Settings, "_llm", model(kit))
    with capture() as captured:
        run()
    assert not captured.problems
    (sample,) = captured.samples
    return sample


def calls_of(sample: Sample) -> list[tuple[str, list[str]]]:
    assert sample.ledger is not None
    return [
        (call.kind, [item.text for item in call.items]) for call in sample.ledger.calls
    ]


@pytest.mark.parametrize("reranked", [False, True])
@pytest.mark.parametrize("ask", [asked, asked_async, asked_by_functions])
@pytest.mark.parametrize("make", [recursive, with_objects])
def test_what_an_engine_in_a_retriever_wrote_is_no_evidence(
    kit: ModuleType, monkeypatch: pytest.MonkeyPatch, make: Any, ask: Any, reranked: Any
) -> None:
    sample = only_sample(kit, monkeypatch, lambda: ask(make(kit), reranked=reranked))
    assert (sample.question, sample.answer) == (ASKED, ANSWER)
    assert [context.text for context in sample.known_contexts] == [BRIDGE]
    assert [context.text for context in sample.retrieved or ()] == [BRIDGE]
    assert calls_of(sample) == [("written", [WRITTEN]), ("retrieval", [BRIDGE])]
    assert sample.capture is not None
    # of plain functions nobody says which reply answers
    doubts = ["answer_guessed"] if ask is asked_by_functions else []
    assert list(sample.capture.doubts) == doubts


@pytest.mark.parametrize("reranked", [False, True])
@pytest.mark.parametrize("ask", [asked, asked_by_functions])
@pytest.mark.parametrize("make", [recursive, with_objects, fused])
def test_what_the_retriever_found_beside_an_engine_stays(
    kit: ModuleType, monkeypatch: pytest.MonkeyPatch, make: Any, ask: Any, reranked: Any
) -> None:
    beside = kit.node("f", FERRY)
    sample = only_sample(
        kit, monkeypatch, lambda: ask(make(kit, beside), reranked=reranked)
    )
    assert (sample.question, sample.answer) == (ASKED, ANSWER)
    assert {context.id for context in sample.known_contexts} == {"b", "f"}
    assert {context.id for context in sample.retrieved or ()} == {"b", "f"}
    calls = calls_of(sample)
    assert ("written", [WRITTEN]) in calls
    found = {tuple(texts) for kind, texts in calls if kind == "retrieval"}
    assert found == {(FERRY,), (BRIDGE,)}
    assert sample.capture is not None
    # of plain functions nobody says which reply answers
    doubts = ["answer_guessed"] if ask is asked_by_functions else []
    assert list(sample.capture.doubts) == doubts


def test_a_page_that_repeats_the_engines_answer_is_evidence(
    kit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = f"{WRITTEN} Ever since, the town has held a fair beside it in spring."
    beside = NodeWithScore(node=TextNode(text=page, id_="page"), score=0.4)
    sample = only_sample(
        kit, monkeypatch, lambda: asked(with_objects(kit, beside), reranked=False)
    )
    assert {context.text for context in sample.known_contexts} == {BRIDGE, page}
