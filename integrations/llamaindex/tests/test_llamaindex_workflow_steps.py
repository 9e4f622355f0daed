"""Steps of a workflow that drop nodes are told by their names, as far as their events hold the nodes.

Public applications write such steps with events like ``RerankEvent(nodes=…)``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest
from counted_steps import count_steps
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from llama_index.core.llms import MockLLM
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.workflow import (
    Event,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from llama_index.evaluation.ragmetrics import capture

from ragmetrics_core import evaluate
from ragmetrics_core.data import Sample
from ragmetrics_core.reporting.journey import Passage, journey_of

QUESTION = "When was the Velm bridge opened?"
TEXTS = (
    "The Velm is a river of the north; it rises in the hills and ends in a wide lake.",
    "Bridges are built of stone, of iron or of wood, and some of them carry a railway.",
    "After years of quarrels the Velm bridge was opened at last in 1874, by the mayor.",
    "The ferry over the Velm was given up in the year in which the railway was opened.",
)
Nodes = list[NodeWithScore]


class Found(Event):
    nodes: list[NodeWithScore]


class Ranked(Event):
    nodes: list[NodeWithScore]


def nodes_of(places: Sequence[int]) -> Nodes:
    return [
        NodeWithScore(
            node=TextNode(id_=f"d{place}", text=TEXTS[place], metadata={"page": place}),
            score=0.9 - place / 10,
        )
        for place in places
    ]


def search(kit: ModuleType, places: Sequence[int] = range(4)) -> Nodes:
    retriever = kit.FixedRetriever(lambda query: nodes_of(places))
    found: Nodes = retriever.retrieve(QUESTION)
    return found


def answer(nodes: Sequence[NodeWithScore]) -> StopEvent:
    context = "\n\n".join(node.text for node in nodes)
    reply = MockLLM().complete(f"Context:\n{context}\nQuestion: {QUESTION}")
    return StopEvent(result=str(reply))


def sample_of(workflow: Workflow) -> Sample:
    async def run() -> None:
        await workflow.run(query=QUESTION)

    with capture() as captured:
        asyncio.run(run())
    (sample,) = captured.samples
    return sample


def passages_of(workflow: Workflow) -> list[Passage]:
    report = evaluate([sample_of(workflow)], metrics=["utilization"], judge="lexical")
    followed = journey_of(report.results[0])
    assert followed is not None
    return list(followed.passages)


class Reranking(Workflow):
    """Searches, picks some nodes in a step, and answers from these."""

    def __init__(self, kit: ModuleType, pick: Callable[[Nodes], Nodes]) -> None:
        super().__init__(timeout=60)
        self.kit, self.pick = kit, pick

    @step
    async def retrieve(self, ev: StartEvent) -> Found:
        return Found(nodes=search(self.kit))

    @step
    async def rerank(self, found: Found) -> Ranked:
        return Ranked(nodes=self.pick(found.nodes))

    @step
    async def synthesize(self, ev: Ranked) -> StopEvent:
        return answer(ev.nodes)


@settings(max_examples=examples(15), deadline=None)
@given(
    order=st.permutations(range(4)), n_kept=st.integers(1, 3), scores_anew=st.booleans()
)
def test_law_what_a_step_does_not_hand_on_was_dropped_by_it(
    kit: ModuleType, *, order: list[int], n_kept: int, scores_anew: bool
) -> None:
    picked = order[:n_kept]

    def pick(nodes: Nodes) -> Nodes:
        chosen = [nodes[place] for place in picked]
        if scores_anew:
            return [NodeWithScore(node=one.node, score=0.5) for one in chosen]
        return chosen

    passages = passages_of(Reranking(kit, pick))
    assert [passage.id for passage in passages] == ["d0", "d1", "d2", "d3"]
    for place, passage in enumerate(passages):
        if place in picked:
            assert (passage.kept, passage.shown) == (True, "whole")
            assert passage.rank_kept == picked.index(place) + 1
        else:
            assert (passage.kept, passage.dropped_by) == (False, "rerank")


async def run_beside(workflow: Workflow) -> None:
    await workflow.run(query=QUESTION)


def test_steps_of_two_runs_at_once_are_told_apart(kit: ModuleType) -> None:
    async def both() -> None:
        await asyncio.gather(
            run_beside(Reranking(kit, lambda nodes: nodes[:1])),
            run_beside(Reranking(kit, lambda nodes: nodes[1:])),
        )

    with capture() as captured:
        asyncio.run(both())
    told = []
    for sample in captured.samples:
        assert sample.capture is not None
        notes: Any = sample.capture.passages
        told.append([note.dropped_by for note in notes])
    one = [None, "rerank", "rerank", "rerank"]
    other = ["rerank", None, None, None]
    assert sorted(told, key=str) == sorted([one, other], key=str)


@pytest.mark.parametrize("row", [7, 0.5, "row", {"row": 1}, ["row"]])
def test_what_capture_does_grows_with_no_long_list_of_a_step(row: object) -> None:
    class Between(Event):
        rows: list[object]

    class Reading(Workflow):
        @step
        async def read(self, event: StartEvent) -> Between:
            return Between(rows=event.rows)

        @step
        async def hand_on(self, event: Between) -> StopEvent:
            return StopEvent(result=event.rows)

    def captured_run(size: int) -> None:
        async def run() -> object:
            return await Reading().run(question="Which?", rows=[row] * size)

        with capture():
            assert asyncio.run(run()) == [row] * size

    captured_run(20_000)  # what is made once is made now
    n_steps = count_steps(lambda: captured_run(20_000), "ragmetrics")
    assert 0 < count_steps(lambda: captured_run(80_000), "ragmetrics") <= n_steps + 50
