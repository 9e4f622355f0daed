"""Steps of a workflow that drop nodes are told by their names, as far as their events hold the nodes.

Public applications write such steps with events like ``RerankEvent(nodes=…)``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from llama_index.core.llms import MockLLM
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.workflow import (
    Context,
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


class Asked(Event):
    query: str


class One(Event):
    node: NodeWithScore | None


class Done(Event):
    """An event without nodes."""


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


def fates(workflow: Workflow) -> dict[str | None, tuple[bool | None, str | None]]:
    """By the id of a passage whether it was kept, and what dropped it."""
    return {
        passage.id: (passage.kept, passage.dropped_by)
        for passage in passages_of(workflow)
    }


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
            assert (passage.lost, passage.dropped_by) == ("not_kept", "rerank")


def test_a_step_that_hands_on_an_empty_list_dropped_all_nodes(kit: ModuleType) -> None:
    all_dropped = {f"d{place}": (False, "rerank") for place in range(4)}
    assert fates(Reranking(kit, lambda nodes: [])) == all_dropped


def test_a_step_that_hands_on_all_nodes_dropped_none(kit: ModuleType) -> None:
    passages = passages_of(Reranking(kit, lambda nodes: nodes))
    assert {passage.dropped_by for passage in passages} == {None}
    assert {passage.shown for passage in passages} == {"whole"}


class Grading(Workflow):
    """Sends each node to a grader, and collects what it lets pass."""

    def __init__(self, kit: ModuleType, passing: set[str]) -> None:
        super().__init__(timeout=60)
        self.kit, self.passing = kit, passing

    @step
    async def retrieve(self, ctx: Context, ev: StartEvent) -> One | None:
        for node in search(self.kit):
            ctx.send_event(One(node=node))
        return None

    @step(num_workers=1)
    async def grade(self, ev: One) -> Ranked:
        assert ev.node is not None
        return Ranked(nodes=[ev.node] if ev.node.node_id in self.passing else [])

    @step
    async def gather(self, ctx: Context, ev: Ranked) -> Found | None:
        graded = ctx.collect_events(ev, [Ranked] * 4)
        if graded is None:
            return None
        return Found(nodes=[node for event in graded for node in event.nodes])

    @step
    async def synthesize(self, ev: Found) -> StopEvent:
        return answer(ev.nodes)


@pytest.mark.parametrize("passing", [{"d0", "d2"}, {"d3"}, {"d1", "d2", "d3"}])
def test_a_grader_of_single_nodes_is_named(kit: ModuleType, passing: set[str]) -> None:
    told = fates(Grading(kit, passing))
    for place in range(4):
        id_ = f"d{place}"
        expected = (True, None) if id_ in passing else (False, "grade")
        assert told[id_] in (expected, (None, None))


class Collecting(Workflow):
    """Searches twice, collects both lists, and keeps the best nodes of both."""

    def __init__(self, kit: ModuleType, keep: Sequence[str]) -> None:
        super().__init__(timeout=60)
        self.kit, self.keep = kit, keep

    @step
    async def plan(self, ctx: Context, ev: StartEvent) -> Asked | None:
        ctx.send_event(Asked(query="0 1 2"))
        ctx.send_event(Asked(query="2 3"))
        return None

    @step
    async def retrieve(self, ev: Asked) -> Found:
        return Found(nodes=search(self.kit, [int(place) for place in ev.query.split()]))

    @step
    async def fuse(self, ctx: Context, ev: Found) -> Ranked | None:
        both = ctx.collect_events(ev, [Found, Found])
        if both is None:
            return None
        node_by_id = {node.node_id: node for event in both for node in event.nodes}
        return Ranked(nodes=[node_by_id[id_] for id_ in self.keep])

    @step
    async def synthesize(self, ev: Ranked) -> StopEvent:
        return answer(ev.nodes)


class ByStore(Workflow):
    """Hands its nodes on in the store of the context: no event holds them."""

    def __init__(self, kit: ModuleType) -> None:
        super().__init__(timeout=60)
        self.kit = kit

    @step
    async def retrieve(self, ctx: Context, ev: StartEvent) -> Done:
        await ctx.store.set("nodes", search(self.kit))
        return Done()

    @step
    async def rerank(self, ctx: Context, ev: Done) -> Asked:
        nodes = await ctx.store.get("nodes")
        await ctx.store.set("nodes", nodes[:2])
        return Asked(query=QUESTION)

    @step
    async def synthesize(self, ctx: Context, ev: Asked) -> StopEvent:
        return answer(await ctx.store.get("nodes"))


def test_what_a_step_drops_in_the_store_is_not_said_to_be_dropped_by_anything(
    kit: ModuleType,
) -> None:
    report = evaluate([sample_of(ByStore(kit))], metrics=["utilization"])
    followed = journey_of(report.results[0])
    assert followed is not None
    assert {passage.kept for passage in followed.passages} == {None}
    assert "no step" in followed.unknown["kept"]


class Aside(Workflow):
    """A side step picks nodes for a log; the answer is written from all."""

    def __init__(self, kit: ModuleType) -> None:
        super().__init__(timeout=60)
        self.kit = kit

    @step
    async def retrieve(self, ctx: Context, ev: StartEvent) -> Found:
        return Found(nodes=search(self.kit))

    @step
    async def log_best(self, ctx: Context, ev: Found) -> Ranked | None:
        return Ranked(nodes=ev.nodes[:1])

    @step
    async def write(self, ctx: Context, ev: Found) -> Done:
        self.stop = answer(ev.nodes)
        return Done()

    @step
    async def finish(self, ctx: Context, ev: Ranked | Done) -> StopEvent | None:
        both = ctx.collect_events(ev, [Ranked, Done])
        return None if both is None else self.stop


def test_a_step_beside_the_answer_drops_nothing(kit: ModuleType) -> None:
    passages = passages_of(Aside(kit))
    assert {passage.dropped_by for passage in passages} == {None}
    assert {passage.shown for passage in passages} == {"whole"}


class Cleaning(Workflow):
    """A step cuts its nodes to their first sentence: it drops none."""

    def __init__(self, kit: ModuleType, clean: Callable[[str], str]) -> None:
        super().__init__(timeout=60)
        self.kit, self.clean = kit, clean

    @step
    async def retrieve(self, ev: StartEvent) -> Found:
        return Found(nodes=search(self.kit))

    @step
    async def clean_up(self, ev: Found) -> Ranked:
        nodes = [
            NodeWithScore(
                node=TextNode(id_=node.node_id, text=self.clean(node.text)), score=0.5
            )
            for node in ev.nodes[:3]
        ]
        return Ranked(nodes=nodes)

    @step
    async def synthesize(self, ev: Ranked) -> StopEvent:
        return answer(ev.nodes)


def test_a_step_may_clean_nodes_and_drop_one(kit: ModuleType) -> None:
    passages = passages_of(Cleaning(kit, str.upper))
    kept = [(passage.kept, passage.dropped_by) for passage in passages]
    assert kept == [(True, None)] * 3 + [(False, "clean_up")]


def test_a_step_that_cuts_nodes_keeps_them(kit: ModuleType) -> None:
    passages = passages_of(Cleaning(kit, lambda text: text[:60]))
    assert {passage.shown for passage in passages[:3]} <= {"cut", None}
    assert passages[3].lost in ("not_kept", "not_shown")


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
