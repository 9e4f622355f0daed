"""Losses planted into pipelines of the real frameworks: the journey names the stage, or says why it cannot.

Each pipeline has the shape of a public one. It finds three passages; the last holds
what the question needs. Five faults are planted into each. What is expected stands
first, with facts asked about and without any judge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from haystack import Document as HaystackDocument
from haystack import Pipeline, component
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
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture as capture_langchain
from llama_index.core import PromptTemplate, get_response_synthesizer
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.postprocessor import LLMRerank, SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever as LlamaRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex
from losses import losses

from ragmetrics_core import (
    ContextUtilization,
    Report,
    RetrievalAccuracy,
    Sample,
    ScriptedJudge,
    evaluate,
)
from ragmetrics_core.data import Fact, SampleResult
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.metrics.fact_matrix import FactInContext
from ragmetrics_core.reporting.journey import Journey, Loss

QUESTION = "When was the Velm bridge opened?"
ANSWER = "It was opened in 1874."
FACT = "opened at last in 1874"
TEXTS = (
    "The Velm is a river of the north; it rises in the hills and ends in a wide lake.",
    "Bridges are built of stone, of iron or of wood, and some of them carry a railway.",
    "After years of quarrels in the council of the town the Velm bridge was opened at"
    " last in 1874, by the mayor.",
)
CUT = 60  # signs of each passage that a prompt shows where it cuts
FAULTS = ("reranked", "filtered", "cut", "not shown", "not useful")


@dataclass(frozen=True)
class Expected:
    """What the journey must name: of facts, of passages without a judge, and by which step."""

    loss: Loss | None  # None where nobody knows what became of the facts
    without_judge: Loss | None
    by: str = ""
    unknown: str = ""  # a stage of which it must say that nothing is known
    is_hedged: bool = False  # the passages may tell nothing


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


def in_prompt(texts: Sequence[str], fault: str) -> str:
    """The passages as a pipeline's own function writes them into the prompt."""
    if fault == "cut":
        texts = [text[:CUT] for text in texts]
    if fault == "not shown":
        texts = texts[:2]
    return "\n\n".join(texts)


# LangChain


class Found(BaseRetriever):
    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[Document]:
        return [Document(text, id=f"d{place}") for place, text in enumerate(TEXTS)]


class FirstTwo(BaseDocumentCompressor):
    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        return documents[:2]


class All(BaseDocumentCompressor):
    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        return documents


def langchain(find: Any, fault: str) -> list[Sample]:
    def format_docs(documents: list[Document]) -> str:
        return in_prompt([one.page_content for one in documents], fault)

    prompt = ChatPromptTemplate.from_template(
        "Use only:\n{context}\n\nAsked: {question}"
    )
    chain = (
        {"context": find | format_docs, "question": RunnablePassthrough()}
        | prompt
        | FakeListChatModel(responses=[ANSWER])
        | StrOutputParser()
    )
    with capture_langchain() as captured:
        chain.invoke(QUESTION)
    return list(captured.samples)


def chain(fault: str) -> list[Sample]:
    """langchain-ai/rag-from-scratch, rag_from_scratch_1_to_4.ipynb: retriever, format_docs, prompt, model."""

    def keep(documents: list[Document]) -> list[Document]:
        return documents[:2] if fault in ("reranked", "filtered") else documents

    return langchain(Found() | RunnableLambda(keep), fault)


def compression(fault: str) -> list[Sample]:
    """langchain-ai/rag-from-scratch, rag_from_scratch_15_to_18.ipynb: a reranker inside of a retriever."""
    drops = fault in ("reranked", "filtered")
    compressor = FirstTwo() if drops else All()
    return langchain(
        ContextualCompressionRetriever(
            base_compressor=compressor, base_retriever=Found()
        ),
        fault,
    )


# LlamaIndex


class Says(CustomLLM):
    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted", context_window=8192, num_output=256)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        is_ranking = "Relevance" in prompt or "relevance" in prompt
        ranked = "Doc: 1, Relevance: 9\nDoc: 2, Relevance: 8"
        return CompletionResponse(text=ranked if is_ranking else ANSWER)

    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> Any:
        yield self.complete(prompt)


class Nodes(LlamaRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        scores = (0.9, 0.8, 0.3)
        return [
            NodeWithScore(
                node=TextNode(id_=f"d{place}", text=text), score=scores[place]
            )
            for place, text in enumerate(TEXTS)
        ]


def query_engine(fault: str) -> list[Sample]:
    """run-llama/llama_index, docs/examples/node_postprocessor/LLMReranker-Gatsby.ipynb."""
    postprocessors: list[Any] = []
    if fault == "reranked":
        postprocessors.append(LLMRerank(llm=Says(), top_n=2))
    if fault == "filtered":
        postprocessors.append(SimilarityPostprocessor(similarity_cutoff=0.5))

    def shown(**fields: Any) -> str:
        return in_prompt(fields["context_str"].split("\n\n"), fault)

    template = PromptTemplate(
        "Use only:\n{context_str}\n\nAsked: {query_str}",
        function_mappings={"context_str": shown},
    )
    synthesizer = get_response_synthesizer(llm=Says(), text_qa_template=template)
    engine = RetrieverQueryEngine(
        Nodes(), synthesizer, node_postprocessors=postprocessors
    )
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    return list(captured.samples)


# Haystack


@component
class Finds:
    """A retriever of some of the texts."""

    def __init__(self, places: tuple[int, ...]) -> None:
        self.places = places

    @component.output_types(documents=list[HaystackDocument])
    def run(self, query: str) -> dict[str, Any]:
        found = [
            HaystackDocument(
                id=f"d{place}",
                content=TEXTS[place],
                score=0.9 - place / 4,
                meta={"year": -place},
            )
            for place in self.places
        ]
        return {"documents": found}


def hybrid(fault: str) -> list[Sample]:
    """deepset-ai/haystack-tutorials, tutorials/33_Hybrid_Retrieval.ipynb: two retrievers, a joiner, a ranker."""
    shown = {
        "cut": "{% for d in documents %}{{ d.content[:"
        + str(CUT)
        + "] }}\n\n{% endfor %}",
        "not shown": "{% for d in documents[:2] %}{{ d.content }}\n\n{% endfor %}",
    }.get(fault, "{% for d in documents %}{{ d.content }}\n\n{% endfor %}")
    pipeline = Pipeline()
    pipeline.add_component("words", Finds((0, 1)))
    pipeline.add_component("vectors", Finds((1, 2)))
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


PIPELINES: dict[str, Callable[[str], list[Sample]]] = {
    "chain": chain,
    "compression": compression,
    "query engine": query_engine,
    "hybrid": hybrid,
}
JUDGE = ScriptedJudge(
    {
        Useful: lambda asked: {"useful": FACT in asked["chunk"]},
        FactInContext: lambda asked: {"covered": asked["fact"] in asked["context"]},
    }
)


def journeys(sample: Sample) -> tuple[Journey, Journey]:
    """The journey where facts are asked about, and that without a judge."""
    asked = sample.model_copy(update={"facts": (Fact(text=FACT),)})
    metrics = [ContextUtilization(), RetrievalAccuracy()]
    judged = evaluate([asked], metrics=metrics, judge=JUDGE)
    unjudged = Report([SampleResult(index=0, sample=sample, results={})])
    return judged.journey(), unjudged.journey()


def check(sample: Sample, expected: Expected) -> Journey:
    """Assert that the journey names the expected loss; return that with facts asked about."""
    judged, unjudged = journeys(sample)
    facts = losses(judged)
    assert facts <= {expected.loss}, judged
    # of a passage that was cut nobody tells whether the fact is left
    is_fact_lost = expected.loss == "not_shown"
    assert facts or judged.facts_unknown or not is_fact_lost
    of_passages = losses(unjudged, "passages")
    assert of_passages & {"not_kept", "not_shown", "cut"} <= {expected.without_judge}
    assert expected.is_hedged or expected.without_judge in {None, *of_passages}
    kept = unjudged.of("not_kept")
    droppers = [] if kept is None else list(kept.by)
    assert droppers == ([expected.by] if expected.by else [])
    unknown = {stage for stage, _ in judged.unknown}
    assert not expected.unknown or expected.unknown in unknown
    return judged


def test_every_fault_is_expected_of_every_pipeline() -> None:
    assert set(EXPECTED) == {(name, fault) for name in PIPELINES for fault in FAULTS}


@pytest.mark.parametrize(("name", "fault"), EXPECTED)
def test_a_planted_loss_is_named_at_its_stage(name: str, fault: str) -> None:
    expected = EXPECTED[name, fault]
    (sample,) = PIPELINES[name](fault)
    check(sample, expected)


class FoundNothing(BaseRetriever):
    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[Document]:
        return []


def test_a_search_that_finds_nothing_missed_each_fact() -> None:
    (sample,) = langchain(FoundNothing(), "none")
    assert sample.retrieved == ()
    judged, unjudged = journeys(sample)
    assert losses(judged) == {"not_retrieved"}
    missed = judged.of("not_retrieved", "facts")
    assert missed is not None
    assert (missed.lost, missed.of) == (1, 1)
    assert ("facts", "no metric asked which facts of a reference were retrieved") in (
        unjudged.unknown
    )
