"""A step drops a text with which another one begins or ends: in all three frameworks it is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from haystack import Document, Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack_integrations.components.evaluators.ragmetrics import (
    capture as capture_haystack,
)
from langchain_core.documents import Document as LangChainDocument
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from langchain_ragmetrics import capture as capture_langchain
from langgraph.graph import END, START, StateGraph
from llama_index.core.llms.mock import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever as LlamaIndexRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex
from typing_extensions import TypedDict

from ragmetrics_core import Sample

QUESTION = "What is the fare at the harbour?"
SCHOOL = "line: 7\nstop: School\nfare: 30"
ADULTS = "The fare from the harbour on line four for adults is"
RISE = "saw the fare from the harbour rise to nine crowns."
# the text that a step drops, and the one that it hands on
ALIKE = {
    "12 and 125": ("stop: Harbour\nfare: 12", "stop: Harbour\nfare: 125"),
    "12 and 12.50": ("stop: Harbour\nfare: 12", "stop: Harbour\nfare: 12.50"),
    "four and fourteen": (f"{ADULTS} four", f"{ADULTS} fourteen"),
    "with a full stop": (f"{ADULTS} 12.", f"{ADULTS} 125."),
    "2024 and 12024": (f"2024 {RISE}", f"12024 {RISE}"),
}


class State(TypedDict, total=False):
    question: str
    documents: list[LangChainDocument]
    picked: list[LangChainDocument]
    answer: str


class Found(BaseRetriever):
    texts: tuple[str, ...]

    def _get_relevant_documents(self, *_: Any, **__: Any) -> list[LangChainDocument]:
        return [
            LangChainDocument(text, id=str(place))
            for place, text in enumerate(self.texts)
        ]


PROMPT = ChatPromptTemplate.from_template("{context}\nQuestion: {question}")


def written(documents: list[LangChainDocument]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def chain(texts: tuple[str, ...]) -> list[Sample]:
    def rerank(documents: list[LangChainDocument]) -> list[LangChainDocument]:
        return documents[1:]

    inputs = {
        "context": Found(texts=texts) | rerank | written,
        "question": RunnablePassthrough(),
    }
    with capture_langchain() as captured:
        (inputs | PROMPT | FakeListChatModel(responses=["It is 30."])).invoke(QUESTION)
    return list(captured.samples)


def graph_that_keeps_all(texts: tuple[str, ...]) -> list[Sample]:
    """The state holds all documents beside those that a node picked."""
    model = FakeListChatModel(responses=["It is 30."])

    def search(state: State) -> State:
        return {"documents": Found(texts=texts).invoke(state["question"])}

    def rerank(state: State) -> State:
        return {"picked": state["documents"][1:]}

    def generate(state: State) -> State:
        asked = {"context": written(state["picked"]), "question": state["question"]}
        return {"answer": str(model.invoke(PROMPT.invoke(asked)).content)}

    builder = StateGraph(State)
    last = START
    for node in (search, rerank, generate):
        builder.add_node(node.__name__, node)
        builder.add_edge(last, node.__name__)
        last = node.__name__
    builder.add_edge(last, END)
    with capture_langchain() as captured:
        builder.compile().invoke({"question": QUESTION})
    return list(captured.samples)


@component
class Finds:
    def __init__(self, texts: tuple[str, ...]) -> None:
        self.texts = texts

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        return {
            "documents": [
                Document(id=str(place), content=text)
                for place, text in enumerate(self.texts)
            ]
        }


@component
class Reranks:
    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        return {"documents": documents[1:]}


@component
class Answers:
    @component.output_types(replies=list[str])
    def run(self, prompt: str) -> dict[str, Any]:
        return {"replies": ["It is 30."]}


def pipeline(texts: tuple[str, ...]) -> list[Sample]:
    template = "{% for d in documents %}{{ d.content }}\n{% endfor %}{{ question }}"
    built = Pipeline()
    built.add_component("find", Finds(texts))
    built.add_component("rerank", Reranks())
    built.add_component("prompt", PromptBuilder(template, required_variables="*"))
    built.add_component("llm", Answers())
    built.connect("find.documents", "rerank.documents")
    built.connect("rerank.documents", "prompt.documents")
    built.connect("prompt.prompt", "llm.prompt")
    with capture_haystack() as captured:
        built.run({"find": {"query": QUESTION}, "prompt": {"question": QUESTION}})
    return list(captured.samples)


class FindsNodes(LlamaIndexRetriever):
    def __init__(self, texts: tuple[str, ...]) -> None:
        super().__init__()
        self.texts = texts

    def _retrieve(self, *_: Any) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=TextNode(id_=str(place), text=text), score=float(place))
            for place, text in enumerate(self.texts)
        ]


def query_engine(texts: tuple[str, ...]) -> list[Sample]:
    engine = RetrieverQueryEngine.from_args(
        FindsNodes(texts),
        llm=MockLLM(max_tokens=5),
        node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.5)],
    )
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    return list(captured.samples)


RUNS: dict[str, Callable[[tuple[str, ...]], list[Sample]]] = {
    "LangChain": chain,
    "LangGraph": graph_that_keeps_all,
    "Haystack": pipeline,
    "LlamaIndex": query_engine,
}


@pytest.mark.parametrize("framework", RUNS)
@pytest.mark.parametrize("name", ALIKE)
def test_a_dropped_text_with_which_a_shown_one_begins_or_ends_is_lost(
    framework: str, name: str
) -> None:
    dropped, kept = ALIKE[name]
    (sample,) = RUNS[framework]((dropped, kept, SCHOOL))
    assert sample.capture is not None
    notes = sample.capture.passages or ()
    assert [note.kept for note in notes] == [False, True, True]
    assert notes[0].share in (0.0, None)
    assert [note.share for note in notes[1:]] == [1.0, 1.0]
    assert notes[0].dropped_by is not None
