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
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
)
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from langchain_ragmetrics import capture as capture_langchain
from langgraph.graph import END, START, StateGraph
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex
from planted_pipelines import (
    ANSWER,
    CUT,
    PROMPT,
    QUESTION,
    TEXTS,
    Expected,
    FirstTwo,
    Found,
    Nodes,
    check,
    in_prompt,
    langchain,
    synthesizer,
)
from typing_extensions import TypedDict

from ragmetrics_core import Sample

STORES = (TEXTS[:2], TEXTS[2:])  # each counts from "d0"

_FINE = Expected("not_useful", None)
_CUT = Expected("cut", "cut")
_OUT = Expected("not_shown", "not_shown")
_UNSEEN = Expected("not_shown", "not_shown", unknown="kept")


def _expected(dropped: Expected) -> dict[str, Expected]:
    return {"none": _FINE, "dropped": dropped, "cut": _CUT, "not shown": _OUT}


_BY_JOINER = Expected("not_shown", "not_kept", by="joiner")
_BY_RANKER = Expected("not_shown", "not_kept", by="ranker")

EXPECTED: dict[str, dict[str, Expected]] = {
    "chain": _expected(Expected("not_shown", "not_kept", by="keep")),
    "graph": _expected(Expected("not_shown", "not_kept", by="keep")),
    "compression": _expected(_UNSEEN),
    "query engine": _expected(
        Expected("not_shown", "not_kept", by="SimilarityPostprocessor")
    ),
    "two sockets": _expected(_UNSEEN),
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


def compression(fault: str) -> list[Sample]:
    stores: list[Any] = [Found(texts=texts) for texts in STORES]
    find: Any = EnsembleRetriever(retrievers=stores, weights=[0.9, 0.1])
    if fault == "dropped":
        find = ContextualCompressionRetriever(
            base_compressor=FirstTwo(), base_retriever=find
        )
    return langchain(find, fault)


class State(TypedDict, total=False):
    question: str
    documents: list[Document]
    answer: str


def graph(fault: str) -> list[Sample]:
    first, second = (Found(texts=texts) for texts in STORES)
    model = FakeListChatModel(responses=[ANSWER])

    def search(state: State) -> State:
        return {"documents": first.invoke(QUESTION)}

    def search_further(state: State) -> State:
        return {"documents": state["documents"] + second.invoke(QUESTION)}

    def keep(state: State) -> State:
        documents = state["documents"]
        return {"documents": documents[:2] if fault == "dropped" else documents}

    def generate(state: State) -> State:
        texts = [document.page_content for document in state["documents"]]
        asked = {"context": in_prompt(texts, fault), "question": QUESTION}
        return {"answer": str(model.invoke(PROMPT.invoke(asked)).content)}

    builder = StateGraph(State)
    names = []
    for node in (search, search_further, keep, generate):
        builder.add_node(node.__name__, node)
        names.append(node.__name__)
    for before, behind in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(before, behind)
    with capture_langchain() as captured:
        builder.compile().invoke({"question": QUESTION})
    return list(captured.samples)


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


def _haystack(fault: str, joiner: Any = None) -> list[Sample]:
    """A pipeline of two stores; without a joiner the prompt has a socket for each."""
    text = f"d.content[:{CUT}]" if fault == "cut" else "d.content"
    documents = "first + second" if joiner is None else "documents"
    n_shown = 2 if fault in ("dropped", "not shown") and joiner is None else 3
    if fault == "not shown":
        n_shown = 2
    loop = (
        f"{{% for d in ({documents})[:{n_shown}] %}}{{{{ {text} }}}}\n\n{{% endfor %}}"
    )
    prompt = PromptBuilder(
        f"Use only:\n{loop}Asked: {{{{ query }}}}", required_variables="*"
    )
    pipeline = Pipeline()
    pipeline.add_component("prompt", prompt)
    pipeline.add_component("llm", MockChatGenerator(ANSWER))
    pipeline.connect("prompt", "llm")
    if joiner is not None:
        top_k = 2 if fault == "dropped" else 3
        pipeline.add_component("joiner", joiner)
        pipeline.add_component("ranker", MetaFieldRanker("year", top_k=top_k))
        pipeline.connect("joiner", "ranker.documents")
        pipeline.connect("ranker", "prompt.documents")
    for name, texts in zip(("first", "second"), STORES, strict=True):
        pipeline.add_component(name, AllOf(texts))
        socket = f"prompt.{name}" if joiner is None else "joiner"
        pipeline.connect(f"{name}.documents", socket)
    asked = {name: {"query": QUESTION} for name in ("first", "second", "prompt")}
    with haystack_ragmetrics.capture() as captured:
        pipeline.run(asked)
    return list(captured.samples)


def two_sockets(fault: str) -> list[Sample]:
    return _haystack(fault)


def ranker(fault: str) -> list[Sample]:
    return _haystack(fault, ListJoiner(list[HaystackDocument]))


def joiner(fault: str) -> list[Sample]:
    return _haystack(fault, DocumentJoiner())


PIPELINES: dict[str, Callable[[str], list[Sample]]] = {
    "chain": chain,
    "compression": compression,
    "graph": graph,
    "query engine": query_engine,
    "two sockets": two_sockets,
    "ranker": ranker,
    "joiner": joiner,
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


@pytest.mark.parametrize("name", ["chain", "graph", "query engine", "two sockets"])
def test_what_both_stores_found_is_retrieved_and_shown(name):
    (sample,) = PIPELINES[name]("none")
    found = [("d0", TEXTS[0]), ("d1", TEXTS[1]), ("d0", TEXTS[2])]
    assert [(one.id, one.text) for one in sample.retrieved or ()] == found
    assert [(one.id, one.text) for one in sample.known_contexts] == found
    assert (sample.capture.grade, sample.capture.warnings) == ("exact", ())
