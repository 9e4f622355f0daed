"""Losses planted where two stores give the same ids: no passage vanishes, and the journey names the stage.

Each pipeline asks two stores that count from "d0". The first finds two passages, the
second finds the one that the question needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from haystack import Document as HaystackDocument
from haystack import Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.joiners import DocumentJoiner, ListJoiner
from haystack.components.rankers import MetaFieldRanker
from haystack_integrations.components.evaluators import (
    ragmetrics as haystack_ragmetrics,
)
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex
from planted_pipelines import (
    ANSWER,
    QUESTION,
    TEXTS,
    Expected,
    Found,
    Nodes,
    check,
    langchain,
    synthesizer,
)

from ragmetrics_core import Sample

STORES = (TEXTS[:2], TEXTS[2:])  # each counts from "d0"

_FINE = Expected("not_useful", None)
_CUT = Expected("cut", "cut")
_OUT = Expected("not_shown", "not_shown")


def _expected(dropped: Expected) -> dict[str, Expected]:
    return {"none": _FINE, "dropped": dropped, "cut": _CUT, "not shown": _OUT}


_BY_JOINER = Expected("not_shown", "not_kept", by="joiner")
_BY_RANKER = Expected("not_shown", "not_kept", by="ranker")

EXPECTED: dict[str, dict[str, Expected]] = {
    "chain": _expected(Expected("not_shown", "not_kept", by="keep")),
    "query engine": _expected(
        Expected("not_shown", "not_kept", by="SimilarityPostprocessor")
    ),
    # rankers drop what has the id of another document
    "ranker": {"none": _BY_RANKER},
    "joiner": {"none": _BY_JOINER},
}


# LangChain


def chain(fault: str) -> list[Sample]:
    first, second = (Found(texts=texts) for texts in STORES)

    def search(question: str) -> list[Document]:
        return first.invoke(question) + second.invoke(question)

    def keep(documents: list[Document]) -> list[Document]:
        return documents[:2] if fault == "dropped" else documents

    return langchain(RunnableLambda(search) | keep, fault)


# LlamaIndex


def query_engine(fault: str) -> list[Sample]:
    """An engine of the user's own that asks two retrievers; one retriever would drop by id."""
    retrievers = (Nodes(STORES[0], (0.9, 0.9)), Nodes(STORES[1], (0.3,)))

    class Engine(CustomQueryEngine):
        def custom_query(self, query_str: str) -> Any:
            nodes = [node for one in retrievers for node in one.retrieve(query_str)]
            if fault == "dropped":
                cutoff = SimilarityPostprocessor(similarity_cutoff=0.5)
                nodes = cutoff.postprocess_nodes(nodes)
            return synthesizer(fault).synthesize(query_str, nodes)

    with capture_llamaindex() as captured:
        Engine().query(QUESTION)
    return list(captured.samples)


# Haystack


@component
class AllOf:
    """A retriever of all texts of a store."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        self.texts = texts

    @component.output_types(documents=list[HaystackDocument])
    def run(self, query: str) -> dict[str, Any]:
        found = []
        for place, text in enumerate(self.texts):
            meta = {"year": -TEXTS.index(text)}
            found.append(HaystackDocument(id=f"d{place}", content=text, meta=meta))
        return {"documents": found}


def joined_by(joiner: Any) -> list[Sample]:
    """A pipeline of two stores, whose ranker drops what has the id of another document."""
    loop = "{% for d in documents %}{{ d.content }}\n\n{% endfor %}"
    prompt = PromptBuilder(f"{loop}Asked: {{{{ query }}}}", required_variables="*")
    pipeline = Pipeline()
    pipeline.add_component("joiner", joiner)
    pipeline.add_component("ranker", MetaFieldRanker("year", top_k=3))
    pipeline.add_component("prompt", prompt)
    pipeline.add_component("llm", MockChatGenerator(ANSWER))
    for name, texts in zip(("first", "second"), STORES, strict=True):
        pipeline.add_component(name, AllOf(texts))
        pipeline.connect(f"{name}.documents", "joiner")
    pipeline.connect("joiner", "ranker.documents")
    pipeline.connect("ranker", "prompt.documents")
    pipeline.connect("prompt", "llm")
    asked = {name: {"query": QUESTION} for name in ("first", "second", "prompt")}
    with haystack_ragmetrics.capture() as captured:
        pipeline.run(asked)
    return list(captured.samples)


PIPELINES: dict[str, Callable[[str], list[Sample]]] = {
    "chain": chain,
    "query engine": query_engine,
    "ranker": lambda fault: joined_by(ListJoiner(list[HaystackDocument])),
    "joiner": lambda fault: joined_by(DocumentJoiner()),
}
ROWS = [(name, fault) for name in EXPECTED for fault in EXPECTED[name]]


@pytest.mark.parametrize(("name", "fault"), ROWS)
def test_a_loss_is_named_although_two_stores_give_one_id(name, fault):
    expected = EXPECTED[name][fault]
    (sample,) = PIPELINES[name](fault)
    judged = check(sample, expected)
    missing = judged.of("not_retrieved", "facts")
    is_lost_inside = expected.loss == "not_retrieved"
    assert is_lost_inside or missing is None or missing.lost == 0


@pytest.mark.parametrize("name", ["chain", "query engine"])
def test_what_both_stores_found_is_retrieved_and_shown(name):
    (sample,) = PIPELINES[name]("none")
    found = [("d0", TEXTS[0]), ("d1", TEXTS[1]), ("d0", TEXTS[2])]
    assert [(one.id, one.text) for one in sample.retrieved or ()] == found
    assert [(one.id, one.text) for one in sample.known_contexts] == found
    assert (sample.capture.grade, sample.capture.warnings) == ("exact", ())
