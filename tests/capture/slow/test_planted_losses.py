"""Losses planted into pipelines of the real frameworks: the journey names the stage, or says why it cannot.

Each pipeline has the shape of a public one. Five faults are planted into each. What is
expected stands first, with facts asked about and without any judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pytest
from haystack import Pipeline
from haystack.components.builders import PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.joiners import DocumentJoiner
from haystack.components.rankers import MetaFieldRanker
from haystack_integrations.components.evaluators import (
    ragmetrics as haystack_ragmetrics,
)
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_ragmetrics import capture as capture_langchain
from langgraph.graph import END, START, StateGraph
from llama_index.core.postprocessor import LLMRerank, SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex
from losses import losses
from planted_pipelines import (
    ANSWER,
    CUT,
    PROMPT,
    QUESTION,
    TEXTS,
    Expected,
    Finds,
    FirstTwo,
    Found,
    Nodes,
    Says,
    check,
    in_prompt,
    journeys,
    langchain,
    synthesizer,
)
from typing_extensions import TypedDict

from ragmetrics_core import Sample

FAULTS = ("reranked", "filtered", "cut", "not shown", "not useful")

# A plain function of a chain is known by what it was handed and passed on.
_BY_KEEP = Expected("not_shown", "not_kept", by="keep")
_CUT = Expected("cut", "cut")
_OUT = Expected("not_shown", "not_shown")
_NOISE = Expected("not_useful", None, unknown="cited")

EXPECTED: dict[tuple[str, str], Expected] = {
    ("chain", "reranked"): _BY_KEEP,
    ("chain", "filtered"): _BY_KEEP,
    ("chain", "cut"): _CUT,
    ("chain", "not shown"): _OUT,
    ("chain", "not useful"): _NOISE,
    ("graph", "reranked"): _BY_KEEP,
    ("graph", "filtered"): _BY_KEEP,
    ("graph", "cut"): _CUT,
    ("graph", "not shown"): _OUT,
    ("graph", "not useful"): _NOISE,
    ("compression", "reranked"): _OUT,
    ("compression", "filtered"): _OUT,
    # what a retriever cuts inside itself is what it returned
    ("compression", "cut"): Expected("cut", "cut", is_hedged=True),
    ("compression", "not shown"): _OUT,
    ("compression", "not useful"): _NOISE,
    ("query engine", "reranked"): Expected("not_shown", "not_kept", by="LLMRerank"),
    ("query engine", "filtered"): Expected(
        "not_shown", "not_kept", by="SimilarityPostprocessor"
    ),
    ("query engine", "cut"): _CUT,
    ("query engine", "not shown"): _OUT,
    ("query engine", "not useful"): _NOISE,
    ("hybrid", "reranked"): Expected("not_shown", "not_kept", by="ranker"),
    ("hybrid", "filtered"): Expected("not_shown", "not_kept", by="joiner"),
    ("hybrid", "cut"): _CUT,
    ("hybrid", "not shown"): _OUT,
    ("hybrid", "not useful"): _NOISE,
}


# LangChain


class All(BaseDocumentCompressor):
    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        return documents


def chain(fault: str, texts: tuple[str, ...] = TEXTS) -> list[Sample]:
    """langchain-ai/rag-from-scratch, rag_from_scratch_1_to_4.ipynb: retriever, format_docs, prompt, model."""

    def keep(documents: list[Document]) -> list[Document]:
        return documents[:2] if fault in ("reranked", "filtered") else documents

    return langchain(Found(texts=texts) | RunnableLambda(keep), fault)


class State(TypedDict, total=False):
    question: str
    documents: list[Document]
    kept: list[Document]
    answer: str


def graph(fault: str, texts: tuple[str, ...] = TEXTS) -> list[Sample]:
    """Its state holds all documents beside those that a node keeps."""
    model = FakeListChatModel(responses=[ANSWER])

    def search(state: State) -> State:
        return {"documents": Found(texts=texts).invoke(state["question"])}

    def keep(state: State) -> State:
        drops = fault in ("reranked", "filtered")
        return {"kept": state["documents"][:2] if drops else state["documents"]}

    def generate(state: State) -> State:
        shown = in_prompt([one.page_content for one in state["kept"]], fault)
        asked = {"context": shown, "question": state["question"]}
        return {"answer": str(model.invoke(PROMPT.invoke(asked)).content)}

    builder = StateGraph(State)
    last = START
    for node in (search, keep, generate):
        builder.add_node(node.__name__, node)
        builder.add_edge(last, node.__name__)
        last = node.__name__
    builder.add_edge(last, END)
    with capture_langchain() as captured:
        builder.compile().invoke({"question": QUESTION})
    return list(captured.samples)


def compression(fault: str, texts: tuple[str, ...] = TEXTS) -> list[Sample]:
    """langchain-ai/rag-from-scratch, rag_from_scratch_15_to_18.ipynb: a reranker inside of a retriever."""
    drops = fault in ("reranked", "filtered")
    compressor = FirstTwo() if drops else All()
    return langchain(
        ContextualCompressionRetriever(
            base_compressor=compressor, base_retriever=Found(texts=texts)
        ),
        fault,
    )


# LlamaIndex


def query_engine(fault: str, texts: tuple[str, ...] = TEXTS) -> list[Sample]:
    """run-llama/llama_index, docs/examples/node_postprocessor/LLMReranker-Gatsby.ipynb."""
    postprocessors: list[Any] = []
    if fault == "reranked":
        postprocessors.append(LLMRerank(llm=Says(), top_n=2))
    if fault == "filtered":
        postprocessors.append(SimilarityPostprocessor(similarity_cutoff=0.5))
    engine = RetrieverQueryEngine(
        Nodes(texts), synthesizer(fault), node_postprocessors=postprocessors
    )
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    return list(captured.samples)


# Haystack


def hybrid(fault: str, texts: tuple[str, ...] = TEXTS) -> list[Sample]:
    """deepset-ai/haystack-tutorials, tutorials/33_Hybrid_Retrieval.ipynb: two retrievers, a joiner, a ranker."""
    shown = {
        "cut": "{% for d in documents %}{{ d.content[:"
        + str(CUT)
        + "] }}\n\n{% endfor %}",
        "not shown": "{% for d in documents[:2] %}{{ d.content }}\n\n{% endfor %}",
    }.get(fault, "{% for d in documents %}{{ d.content }}\n\n{% endfor %}")
    pipeline = Pipeline()
    pipeline.add_component("words", Finds((0, 1), texts))
    pipeline.add_component("vectors", Finds((1, 2), texts))
    pipeline.add_component(
        "joiner", DocumentJoiner(top_k=2 if fault == "filtered" else 3)
    )
    pipeline.add_component(
        "ranker", MetaFieldRanker("year", top_k=2 if fault == "reranked" else 3)
    )
    pipeline.add_component(
        "prompt",
        PromptBuilder(
            "Use only:\n" + shown + "Asked: {{ query }}",
            required_variables=["documents", "query"],
        ),
    )
    pipeline.add_component("llm", MockChatGenerator(ANSWER))
    pipeline.connect("words.documents", "joiner.documents")
    pipeline.connect("vectors.documents", "joiner.documents")
    pipeline.connect("joiner", "ranker")
    pipeline.connect("ranker.documents", "prompt.documents")
    pipeline.connect("prompt", "llm")
    asked = {name: {"query": QUESTION} for name in ("words", "vectors", "prompt")}
    with haystack_ragmetrics.capture() as captured:
        pipeline.run(asked)
    return list(captured.samples)


class Run(Protocol):
    def __call__(self, fault: str, texts: tuple[str, ...] = TEXTS) -> list[Sample]: ...


PIPELINES: dict[str, Run] = {
    "chain": chain,
    "graph": graph,
    "compression": compression,
    "query engine": query_engine,
    "hybrid": hybrid,
}


def test_every_fault_is_expected_of_every_pipeline():
    assert set(EXPECTED) == {(name, fault) for name in PIPELINES for fault in FAULTS}


@pytest.mark.parametrize(("name", "fault"), EXPECTED)
def test_a_planted_loss_is_named_at_its_stage(name, fault):
    expected = EXPECTED[name, fault]
    (sample,) = PIPELINES[name](fault)
    check(sample, expected)


ADULTS = "The fare from the harbour on line four for adults is"
RISE = "saw the fare from the harbour rise to nine crowns."
# the text that a step drops, and one that it hands on, which begins or ends with it
ALIKE = {
    "12 and 125": ("stop: Harbour\nfare: 12", "stop: Harbour\nfare: 125"),
    "12 and 12.50": ("stop: Harbour\nfare: 12", "stop: Harbour\nfare: 12.50"),
    "four and fourteen": (f"{ADULTS} four", f"{ADULTS} fourteen"),
    "with a full stop": (f"{ADULTS} 12.", f"{ADULTS} 125."),
    "2024 and 12024": (f"2024 {RISE}", f"12024 {RISE}"),
}


@pytest.mark.parametrize("run", [chain, graph, query_engine, hybrid])
@pytest.mark.parametrize("name", ALIKE)
def test_a_dropped_text_with_which_a_shown_one_begins_or_ends_is_lost(name, run):
    dropped, kept = ALIKE[name]
    school = "line: 7\nstop: School\nfare: 30"
    (sample,) = run("filtered", (school, kept, dropped))
    assert sample.capture is not None
    texts = [document.text for document in sample.retrieved or ()]
    notes = dict(zip(texts, sample.capture.passages or (), strict=True))
    assert [notes[text].kept for text in (school, kept, dropped)] == [True, True, False]
    assert [notes[text].share for text in (school, kept)] == [1.0, 1.0]
    assert notes[dropped].share in (0.0, None)
    assert notes[dropped].dropped_by is not None


class FoundNothing(BaseRetriever):
    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[Document]:
        return []


def test_a_search_that_finds_nothing_missed_each_fact():
    (sample,) = langchain(FoundNothing(), "none")
    assert sample.retrieved == ()
    judged, unjudged = journeys(sample)
    assert losses(judged) == {"not_retrieved"}
    missed = judged.of("not_retrieved", "facts")
    assert (missed.lost, missed.of) == (1, 1)
    assert ("facts", "no metric asked which facts of a reference were retrieved") in (
        unjudged.unknown
    )
