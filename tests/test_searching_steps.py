"""Steps that search by themselves and hand on fewer documents than they found.

A node of a graph, a function of a chain and a step of a workflow: what such a step
leaves out it dropped. It is no step if the prompt shows what it left out all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_ragmetrics import capture
from langgraph.graph import END, START, StateGraph
from llama_index.core.llms import MockLLM
from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex
from test_planted_losses import ANSWER, QUESTION, TEXTS, Found, Nodes, journeys
from test_planted_losses_of_same_ids import PROMPT
from typing_extensions import TypedDict

from ragmetrics_core import Sample

Pick: TypeAlias = Callable[[list[Document]], list[Document]]


class State(TypedDict, total=False):
    question: str
    documents: list[Document]
    relevant: list[Document]
    also_shown: str
    answer: str


def found_by_retriever(question: str) -> list[Document]:
    return Found().invoke(question)


def found_in_store(question: str) -> list[Document]:
    """The scores of the search are thrown away, as by a threshold."""
    embedding = DeterministicFakeEmbedding(size=16)
    store = InMemoryVectorStore.from_texts(TEXTS, embedding)
    pairs = store.similarity_search_with_score(question, k=3)
    in_order = sorted(pairs, key=lambda pair: TEXTS.index(pair[0].page_content))
    return [document for document, _ in in_order]


def found_by_function_inside(question: str) -> list[Document]:
    """The function hands its documents on in a list of its caller's."""
    documents: list[Document] = []

    def collect(query: str) -> int:
        documents.extend(Found().invoke(query))
        return len(documents)

    RunnableLambda(collect).invoke(question)
    return documents


def keep_two(documents: list[Document]) -> list[Document]:
    return documents[:2]


def write(documents: Sequence[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


SEARCHES = {
    "retriever": found_by_retriever,
    "store": found_in_store,
    "function inside": found_by_function_inside,
}


def _sample_of_graph(
    find: Callable[[str], list[Document]],
    pick: Pick,
    grade: Pick | None = None,
    *,
    also_writes_all: bool = False,
) -> Sample:
    model = FakeListChatModel(responses=[ANSWER])

    def retrieve(state: State) -> State:
        documents = find(state["question"])
        also_shown = write(documents) if also_writes_all else ""
        return {"documents": pick(documents), "also_shown": also_shown}

    def grader(state: State) -> State:
        return {"relevant": (grade or pick)(state["documents"])}

    def generate(state: State) -> State:
        documents = state["relevant"] if grade else state["documents"]
        context = state["also_shown"] or write(documents)
        asked = {"context": context, "question": state["question"]}
        return {"answer": str(model.invoke(PROMPT.invoke(asked)).content)}

    builder = StateGraph(State)
    builder.add_node("retrieve", retrieve)
    builder.add_node("grader", grader)
    builder.add_node("generate", generate)
    builder.add_edge(START, "retrieve")
    builder.add_edge("retrieve", "grader" if grade else "generate")
    builder.add_edge("grader", "generate")
    builder.add_edge("generate", END)
    with capture() as captured:
        builder.compile().invoke({"question": QUESTION})
    (sample,) = captured.samples
    return sample


def _dropped_by(sample: Sample) -> dict[str, str | None]:
    """By the text of each passage: the step that dropped it."""
    assert sample.capture is not None
    assert sample.retrieved is not None
    texts = [passage.text for passage in sample.retrieved]
    notes = sample.capture.passages or ()
    return {text: note.dropped_by for text, note in zip(texts, notes, strict=True)}


@pytest.mark.parametrize("search", SEARCHES)
def test_a_node_that_searches_drops_what_it_leaves_out(search: str) -> None:
    sample = _sample_of_graph(SEARCHES[search], keep_two)
    expected = {TEXTS[0]: None, TEXTS[1]: None, TEXTS[2]: "retrieve"}
    assert _dropped_by(sample) == expected
    facts, _ = journeys(sample)
    assert facts.mend == "not_kept"


@pytest.mark.parametrize("search", SEARCHES)
def test_a_grader_behind_it_is_named_for_its_own_part_alone(search: str) -> None:
    sample = _sample_of_graph(SEARCHES[search], keep_two, lambda found: found[:1])
    expected = {TEXTS[0]: None, TEXTS[1]: "grader", TEXTS[2]: "retrieve"}
    assert _dropped_by(sample) == expected


MORE_TEXTS = ("Ferries leave at night.", "Trains need four hours to the coast.")


class FindsMore(BaseRetriever):
    """Finds other texts than the first search."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[Document]:
        return [Document(text, id=text[:5]) for text in MORE_TEXTS]


def test_a_node_that_adds_what_it_found_to_what_it_was_given_drops_the_rest() -> None:
    def add_one(documents: list[Document]) -> list[Document]:
        return [*documents, *FindsMore().invoke(QUESTION)[:1]]

    sample = _sample_of_graph(found_by_retriever, lambda found: found, add_one)
    dropped = {text for text, step in _dropped_by(sample).items() if step == "grader"}
    assert dropped == {MORE_TEXTS[1]}


def test_a_filter_that_a_node_calls_inside_is_named_in_place_of_the_node() -> None:
    """It alone is told to have kept documents, and at which ranks."""
    keep_two_inside = RunnableLambda(keep_two)
    sample = _sample_of_graph(found_by_retriever, keep_two_inside.invoke)
    assert sample.capture is not None
    notes = sample.capture.passages or ()
    assert [(note.rank_kept, note.dropped_by) for note in notes] == [
        (1, None),
        (2, None),
        (None, "keep_two"),
    ]


def test_what_the_prompt_shows_all_the_same_was_not_dropped() -> None:
    """The node writes all that it found into a text of the state."""
    sample = _sample_of_graph(found_by_retriever, keep_two, also_writes_all=True)
    assert set(_dropped_by(sample).values()) == {None}
    assert len(sample.contexts) == len(TEXTS)


def test_a_node_that_translates_what_it_found_dropped_nothing() -> None:
    def translate(documents: list[Document]) -> list[Document]:
        return [
            Document(f"Übersetzt: Absatz Nummer {place}, wortlos und knapp")
            for place in range(len(documents))
        ]

    sample = _sample_of_graph(found_by_retriever, translate)
    assert set(_dropped_by(sample).values()) <= {None}


def test_a_function_of_a_chain_that_searches_drops_what_it_leaves_out() -> None:
    def find(question: str) -> list[Document]:
        return keep_two(Found().invoke(question))

    context = RunnableLambda(find) | RunnableLambda(write)
    model = FakeListChatModel(responses=[ANSWER])
    asked = {"context": context, "question": RunnablePassthrough()}
    with capture() as captured:
        (asked | PROMPT | model | StrOutputParser()).invoke(QUESTION)
    (sample,) = captured.samples
    assert _dropped_by(sample)[TEXTS[2]] == "find"


@settings(deadline=None, max_examples=15)
@given(places=st.sets(st.integers(0, 2), min_size=1))
def test_whatever_it_hands_on_the_rest_is_dropped(places: set[int]) -> None:
    def pick(documents: list[Document]) -> list[Document]:
        return [document for place, document in enumerate(documents) if place in places]

    sample = _sample_of_graph(found_by_retriever, pick)
    dropped = {text for text, step in _dropped_by(sample).items() if step == "retrieve"}
    assert dropped == {TEXTS[place] for place in range(3) if place not in places}
    assert {context.text for context in sample.contexts}.isdisjoint(dropped)


class Picked(Event):
    nodes: list[Any]


class Searching(Workflow):
    @step
    async def retrieve(self, event: StartEvent) -> Picked:
        nodes = await Nodes().aretrieve(QUESTION)
        return Picked(nodes=nodes[:2])

    @step
    async def answer(self, event: Picked) -> StopEvent:
        context = "\n\n".join(node.text for node in event.nodes)
        return StopEvent(
            result=str(await MockLLM().acomplete(f"{context}\n{QUESTION}"))
        )


def test_a_step_of_a_workflow_that_searches_drops_what_it_leaves_out() -> None:
    async def run() -> object:
        return await Searching().run(query=QUESTION)

    with capture_llamaindex() as captured:
        asyncio.run(run())
    (sample,) = captured.samples
    assert _dropped_by(sample)[TEXTS[2]] == "retrieve"
