"""What a retriever drops of its inner searches: which document, found by which search at which rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from haystack import Pipeline, SuperComponent
from haystack.components.builders import PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.rankers import MetaFieldRanker
from haystack_integrations.components.evaluators import (
    ragmetrics as haystack_ragmetrics,
)
from hypothesis import given
from hypothesis import strategies as st
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MultiQueryRetriever,
)
from langchain_core.documents import BaseDocumentCompressor
from langchain_core.documents import Document as LangChainDocument
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_ragmetrics import capture as capture_langchain
from llama_index.core import get_response_synthesizer
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever as LlamaRetriever
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex
from test_planted_losses import ANSWER, QUESTION, TEXTS, Says
from test_planted_losses import Finds as HaystackFinds

from ragmetrics_core import Report, Sample, evaluate
from ragmetrics_core.capture import Document, Message, Node, Tree, samples_of
from ragmetrics_core.data import CaptureNotes
from ragmetrics_core.reporting.sample_journey import Passage, journey_of

DOCUMENTS = tuple(
    Document(f"Passage number {place}: {text}", f"d{place}")
    for place, text in enumerate([*TEXTS, TEXTS[2].replace("1874", "1912")])
)


def dropped_of(sample: Sample) -> list[Passage]:
    """The passages that no search handed on, as the journey of a sample tells them."""
    report = evaluate([sample], metrics=["utilization"], judge="lexical")
    return dropped_in(report)


def dropped_in(report: Report) -> list[Passage]:
    followed = journey_of(report.results[0])
    assert followed is not None
    return [passage for passage in followed.passages if passage.rank is None]


def told(passages: Sequence[Passage]) -> list[tuple[Any, ...]]:
    return [
        (one.id, one.retriever, one.retriever_rank, one.dropped_by) for one in passages
    ]


# On a neutral tree of calls


def run(retriever: Node) -> Sample:
    found = retriever.documents or ()
    prompt = "\n".join([*(document.text for document in found), QUESTION])
    model = Node(
        "model",
        "llm",
        50.0,
        51.0,
        prompt=(Message("user", prompt),),
        reply=Message("assistant", ANSWER),
    )
    root = Node("step", "chain", 0.0, 99.0, children=[retriever, model])
    root.text = ANSWER
    (sample,) = samples_of(Tree(root, question=QUESTION, question_place="input"))
    return sample


SOME = st.lists(st.sampled_from(DOCUMENTS), min_size=1, unique_by=lambda one: one.id)


@given(SOME, SOME, st.data())
def test_law_each_dropped_document_is_told_with_its_first_search_and_rank(
    first: list[Document], second: list[Document], data: st.DataObject
) -> None:
    found = {document.id: document for document in (*first, *second)}
    kept_ids = data.draw(st.sets(st.sampled_from(sorted(map(str, found)))))
    kept = [document for id_, document in found.items() if id_ in kept_ids]
    sparse = Node("retriever", "sparse", 2.0, 2.5, documents=tuple(first))
    dense = Node("retriever", "dense", 3.0, 3.5, documents=tuple(second))
    # the fusion begins before the searches, and hands all of them on
    fused = Node("retriever", "fusion", 1.5, 4.0, documents=tuple(found.values()))
    fused.children = [sparse, dense]
    best = Node("retriever", "best", 1.0, 4.5, documents=tuple(kept), children=[fused])
    sample = run(best)
    expected = []
    for search, documents in ((sparse, first), (dense, second)):
        for rank, document in enumerate(documents, start=1):
            is_new = document.id not in {id_ for id_, *_ in expected}
            if document.id not in kept_ids and is_new:
                expected.append((document.id, search.name, rank, "best"))
    assert told(dropped_of(sample)) == expected
    assert sample.capture is not None
    n_dropped = Counter({"best": len(expected)}) if expected else None
    assert sample.capture.dropped_inside == n_dropped


def test_a_report_that_is_read_again_tells_the_same(tmp_path: Path) -> None:
    inside = Node("retriever", "sparse", 2.0, 2.5, documents=DOCUMENTS[:3])
    best = Node("retriever", "best", 1.0, 3.0, documents=DOCUMENTS[1:2])
    best.children = [inside]
    report = evaluate([run(best)], metrics=["utilization"], judge="lexical")
    report.to_jsonl(tmp_path / "report.jsonl")
    again = Report.from_jsonl(tmp_path / "report.jsonl")
    assert told(dropped_in(again)) == told(dropped_in(report))
    assert told(dropped_in(report)) == [
        ("d0", "sparse", 1, "best"),
        ("d2", "sparse", 3, "best"),
    ]


def test_an_older_report_tells_how_many_were_dropped() -> None:
    sample = Sample(
        question=QUESTION,
        answer=ANSWER,
        contexts=(),
        retrieved=(),
        capture=CaptureNotes(grade="exact", dropped_inside={"best": 2}),
    )
    assert told(dropped_of(sample)) == [(None, None, None, "best")] * 2


def test_a_retriever_that_rewrites_tells_of_no_document_that_it_dropped_it() -> None:
    inside = Node("retriever", "sparse", 2.0, 2.5, documents=DOCUMENTS[:2])
    summary = Document("Rivers rise, and many bridges are of iron.", "new")
    best = Node("retriever", "best", 1.0, 3.0, documents=(summary,), children=[inside])
    sample = run(best)
    assert dropped_of(sample) == []
    assert sample.capture is not None
    (note,) = sample.capture.passages or ()
    assert note.written_anew_by == "best"


def test_beside_a_text_in_new_words_a_part_may_be_written_anew_too() -> None:
    """It returned the end of a document: alone it was cut, beside a new text who knows."""
    end = "The first bridge of iron was opened in the spring of 1874."
    whole = Document(f"It rains in the hills above the valley. {end}", "whole")
    part = Document(end, "part")
    new = Document("Rivers rise, and many bridges are of iron.", "new")

    def notes_of(*returned: Document) -> CaptureNotes:
        inside = Node("retriever", "sparse", 2.0, 2.5, documents=(whole,))
        best = Node("retriever", "best", 1.0, 3.0, [inside], documents=returned)
        notes = run(best).capture
        assert notes is not None
        return notes

    alone = notes_of(part)
    assert [note.written_anew_by for note in alone.passages or ()] == [None]
    assert [each.cut_by for each in alone.passages_cut_inside or ()] == ["best"]
    both = notes_of(part, new)
    assert [note.written_anew_by for note in both.passages or ()] == ["best"] * 2
    assert both.passages_cut_inside is None


# LangChain


class Finds(BaseRetriever):
    places: tuple[int, ...]

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[LangChainDocument]:
        return [LangChainDocument(TEXTS[at], id=f"d{at}") for at in self.places]


class Sparse(Finds):
    pass


class Dense(Finds):
    pass


class First(BaseDocumentCompressor):
    n: int

    def compress_documents(
        self, documents: Sequence[Any], query: str, callbacks: Any = None
    ) -> Sequence[Any]:
        return documents[: self.n]


def langchain(retriever: BaseRetriever) -> Sample:
    def prompt(documents: list[LangChainDocument]) -> str:
        return "\n\n".join(one.page_content for one in documents) + QUESTION

    chain = retriever | prompt | FakeListChatModel(responses=[ANSWER])
    with capture_langchain() as captured:
        chain.invoke(QUESTION)
    (sample,) = captured.samples
    return sample


def test_a_compression_tells_what_it_dropped() -> None:
    compression = ContextualCompressionRetriever(
        base_compressor=First(n=1), base_retriever=Finds(places=(1, 2, 0))
    )
    name = "ContextualCompressionRetriever"
    assert told(dropped_of(langchain(compression))) == [
        ("d2", "Finds", 2, name),
        ("d0", "Finds", 3, name),
    ]


def test_a_compression_of_a_fusion_names_the_searches() -> None:
    fusion = EnsembleRetriever(
        retrievers=[Sparse(places=(0, 1)), Dense(places=(2, 0))], weights=[0.5, 0.5]
    )
    compression = ContextualCompressionRetriever(
        base_compressor=First(n=1), base_retriever=fusion
    )
    dropped = told(dropped_of(langchain(compression)))
    name = "ContextualCompressionRetriever"
    assert sorted(dropped) == [("d1", "Sparse", 2, name), ("d2", "Dense", 1, name)]


def test_several_queries_drop_nothing_but_what_they_found_twice() -> None:
    several = MultiQueryRetriever(
        retriever=Finds(places=(1, 2)),
        llm_chain=RunnableLambda(lambda _: ["first", "second"]),
    )
    assert dropped_of(langchain(several)) == []


# LlamaIndex


class Nodes(LlamaRetriever):
    def __init__(self, *places: int) -> None:
        self.places = places
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(id_=f"d{place}", text=TEXTS[place]), score=0.9 - rank / 3
            )
            for rank, place in enumerate(self.places)
        ]


class Postprocessing(LlamaRetriever):
    """A retriever of an application: it searches, and filters by score."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        nodes = Nodes(2, 1, 0).retrieve(query_bundle)
        cutoff = SimilarityPostprocessor(similarity_cutoff=0.5)
        return cutoff.postprocess_nodes(nodes, query_bundle)


def llamaindex(retriever: LlamaRetriever) -> Sample:
    engine = RetrieverQueryEngine(retriever, get_response_synthesizer(llm=Says()))
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_a_fusion_tells_what_its_top_k_left_out(top_k: int) -> None:
    fusion = QueryFusionRetriever(
        [Nodes(2, 0), Nodes(2, 1)],
        llm=Says(),
        similarity_top_k=top_k,
        num_queries=1,
        use_async=False,
    )
    sample = llamaindex(fusion)
    dropped = dropped_of(sample)
    ids_kept = {context.id for context in sample.retrieved or ()}
    assert {one.id for one in dropped} == {"d0", "d1", "d2"} - ids_kept
    for passage in dropped:
        assert (passage.retriever, passage.retriever_rank) == ("Nodes", 2)
        assert passage.dropped_by == "QueryFusionRetriever"


def test_a_retriever_with_a_postprocessor_inside_tells_what_it_dropped() -> None:
    assert told(dropped_of(llamaindex(Postprocessing()))) == [
        ("d0", "Nodes", 3, "Postprocessing")
    ]


# Haystack


def haystack_search(*, n_ranked: int) -> SuperComponent:
    """A component that wraps a pipeline of a search and a ranker."""
    inner = Pipeline()
    inner.add_component("search", HaystackFinds((0, 1, 2)))
    inner.add_component("ranker", MetaFieldRanker("year", top_k=n_ranked))
    inner.connect("search", "ranker")
    return SuperComponent(
        inner,
        input_mapping={"query": ["search.query"]},
        output_mapping={"ranker.documents": "documents"},
    )


def test_a_ranker_in_a_wrapped_search_of_haystack_is_named() -> None:
    pipeline = Pipeline()
    pipeline.add_component("wrapped", haystack_search(n_ranked=2))
    template = "{% for d in documents %}{{ d.content }}\n{% endfor %}{{ query }}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables="*"))
    pipeline.add_component("llm", MockChatGenerator(ANSWER))
    pipeline.connect("wrapped.documents", "prompt.documents")
    pipeline.connect("prompt", "llm")
    with haystack_ragmetrics.capture() as captured:
        pipeline.run({"wrapped": {"query": QUESTION}, "prompt": {"query": QUESTION}})
    (sample,) = captured.samples
    report = evaluate([sample], metrics=["utilization"], judge="lexical")
    followed = journey_of(report.results[0])
    assert followed is not None
    lost = [one for one in followed.passages if one.lost == "not_kept"]
    assert [(one.id, one.retriever, one.retriever_rank) for one in lost] == [
        ("d2", "wrapped.search", 3)
    ]
    assert {one.dropped_by for one in lost} == {"wrapped.ranker"}
