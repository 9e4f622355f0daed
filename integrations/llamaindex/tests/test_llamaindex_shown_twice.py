"""What several calls show counts together; what one prompt shows twice is two contexts; sources are as numbered."""

from __future__ import annotations

import random
import re
from types import ModuleType
from typing import Any

import pytest
from llama_index.core import get_response_synthesizer
from llama_index.core.indices.prompt_helper import PromptHelper
from llama_index.core.node_parser import TokenTextSplitter
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import CitationQueryEngine, RetrieverQueryEngine
from llama_index.core.response_synthesizers import ResponseMode
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.evaluation.ragmetrics import capture

from ragmetrics_core.data.sample import Sample

QUESTION = "When was the bridge of Velm opened?"
BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
FERRY = "The Osta ferry crosses the lake every hour in summer."


def texts(sample: Sample) -> list[str]:
    return [context.text for context in sample.known_contexts]


def engine(
    nodes: list[Any], llm: Any, kit: ModuleType, **settings: Any
) -> RetrieverQueryEngine:
    synthesizer = get_response_synthesizer(llm=llm, **settings)
    return RetrieverQueryEngine(
        kit.FixedRetriever(nodes), response_synthesizer=synthesizer
    )


def overlapping_chunks(
    kit: ModuleType, count: int = 9, size: int = 60, step: int = 45
) -> list[Any]:
    """Chunks of a page of words of which no two are equal.

    Each begins inside of the one before.
    """
    rng = random.Random(7)
    words = [
        "".join(rng.choices("etaoinshrdlu", k=rng.randint(3, 9))) + str(number)
        for number in range(count * step)
    ]
    places = range(0, len(words), step)
    return [
        kit.node(f"n{start}", " ".join(words[start : start + size]), 1 - start / 1000)
        for start in places
    ]


MODES = (
    ResponseMode.COMPACT,
    ResponseMode.COMPACT_ACCUMULATE,
    ResponseMode.TREE_SUMMARIZE,
)


@pytest.mark.parametrize("window", [680, *range(720, 801, 20)])
@pytest.mark.parametrize("mode", MODES)
def test_chunks_that_overlap_are_whole_where_the_prompts_show_them_whole_together(
    kit: ModuleType, window: int, mode: ResponseMode
) -> None:
    """The framework packs chunks into prompts that overlap by a tenth, its default."""
    _check_union(kit, window, mode)


def _check_union(kit: ModuleType, window: int, mode: ResponseMode) -> None:
    """Compare what capture says with the words that the prompts show."""
    prompts: list[str] = []

    class Guide(kit.ScriptedLLM):  # type: ignore[name-defined, misc]  # a class of the fixture
        def _said(self, prompt: str) -> str:
            prompts.append(prompt)
            return f"Draft number {len(prompts)} of an answer."

    nodes = overlapping_chunks(kit)
    helper = PromptHelper(
        context_window=window, num_output=20, tokenizer=str.split, separator=" "
    )
    with capture() as captured:
        engine(nodes, Guide(), kit, prompt_helper=helper, response_mode=mode).query(
            QUESTION
        )
    (sample,) = captured.samples
    shown = {word for prompt in prompts for word in re.findall(r"\S+", prompt)}
    whole = [node.text for node in nodes if shown.issuperset(node.text.split())]
    assert sample.capture is not None
    cut = [warning for warning in sample.capture.warnings if "cut" in warning]
    assert len(cut) == len(nodes) - len(whole), cut
    assert [text for text in texts(sample) if text in whole] == whole


class Repeating(BaseNodePostprocessor):
    """Puts the best node at both ends, where models read best."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> Any:
        return [*nodes, nodes[0]]


class OtherEdition(BaseNodePostprocessor):
    """Adds a node of the same words from another page."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> Any:
        return [
            *nodes,
            NodeWithScore(node=TextNode(id_="second edition", text=BRIDGE), score=0.1),
        ]


@pytest.mark.parametrize("postprocessor", [Repeating, OtherEdition])
def test_a_text_that_stands_twice_in_one_prompt_is_one_context(
    kit: ModuleType, postprocessor: Any
) -> None:
    nodes = [kit.node("bridge", BRIDGE, 0.9), kit.node("ferry", FERRY, 0.8)]
    prompts: list[str] = []

    class Guide(kit.ScriptedLLM):  # type: ignore[name-defined, misc]  # a class of the fixture
        def _said(self, prompt: str) -> str:
            prompts.append(prompt)
            return "In 1874."

    synthesizer = get_response_synthesizer(llm=Guide())
    retriever = kit.FixedRetriever(nodes)
    asking = RetrieverQueryEngine(
        retriever, synthesizer, node_postprocessors=[postprocessor()]
    )
    with capture() as captured:
        asking.query(QUESTION)
    assert [prompt.count(BRIDGE) for prompt in prompts] == [2]
    (sample,) = captured.samples
    assert texts(sample) == [BRIDGE, FERRY]
    assert [one.id for one in sample.retrieved or ()][:2] == ["bridge", "ferry"]


def test_a_document_that_several_calls_are_shown_is_one_context(
    kit: ModuleType,
) -> None:
    nodes = [
        kit.node("bridge", BRIDGE, 0.9),
        kit.node("ferry", FERRY, 0.8),
        kit.node("bridge", BRIDGE, 0.7),
    ]
    with capture() as captured:
        engine(nodes, kit.ScriptedLLM(), kit, response_mode=ResponseMode.REFINE).query(
            QUESTION
        )
    (sample,) = captured.samples
    assert texts(sample) == [BRIDGE, FERRY]


@pytest.mark.parametrize("chunk_size", [20, 40, 1000])
def test_numbered_sources_are_the_contexts_and_never_stand_beside_a_whole_page(
    kit: ModuleType, chunk_size: int
) -> None:
    page = " ".join(
        f"Sentence {number} tells of the bridge and its builder {number * 7}."
        for number in range(12)
    )
    splitter = TokenTextSplitter(
        chunk_size=chunk_size, chunk_overlap=5, tokenizer=str.split
    )
    nodes = [kit.node("bridge", BRIDGE, 0.9), kit.node("page", page, 0.5)]
    asking = CitationQueryEngine(
        retriever=kit.FixedRetriever(nodes),
        llm=kit.ScriptedLLM(script={"": "In 1874 [1]."}),
        text_splitter=splitter,
    )
    with capture() as captured:
        response = asking.query(QUESTION)
    (sample,) = captured.samples
    sources = [source.node.get_content().strip() for source in response.source_nodes]
    assert [text.strip() for text in texts(sample)] == sources
    assert [one.text for one in sample.retrieved or ()] == [BRIDGE, page]


NOTES = ["Nothing of relevance stands in this document.", "NOT RELEVANT"]


@pytest.mark.parametrize("note", NOTES)
def test_equal_replies_to_several_documents_all_feed_the_answer(
    kit: ModuleType, note: str
) -> None:
    nodes = [kit.node("bridge", BRIDGE, 0.9), kit.node("ferry", FERRY, 0.8)]
    llm = kit.ScriptedLLM(script={note: "I do not know.", "": note})
    helper = PromptHelper(
        context_window=240, num_output=20, tokenizer=str.split, separator=" "
    )
    with capture() as captured:
        engine(
            nodes, llm, kit, prompt_helper=helper, response_mode=ResponseMode.ACCUMULATE
        ).query(QUESTION)
    (sample,) = captured.samples
    assert texts(sample) == [BRIDGE, FERRY]
    assert sample.capture is not None
    assert sample.capture.evidence_from == "prompt"
    assert sample.capture.grade in ("exact", "inferred")
