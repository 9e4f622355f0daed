"""Vector stores that a step searches by hand, beside a retriever or alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.example_selectors import SemanticSimilarityExampleSelector
from langchain_core.prompts import PromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_fakes import ANSWER, PARIS, QUESTION, Shelf, Speaker, document
from langchain_ragmetrics import add_documents, capture, observe
from langchain_ragmetrics.values import Snapshots
from langgraph.graph import START, StateGraph

ROME = "Rome is the capital of Italy, and lies on the river Tiber."
LYON = "Lyon lies where the Saône meets the Rhône."


def store(text: str = ROME) -> InMemoryVectorStore:
    made = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    made.add_documents([Document(text, id="r")])
    return made


def answer(question: str, *texts: str) -> str:
    prompt = "\n".join([*texts, question])
    return str(Speaker(lines=[ANSWER]).invoke(prompt).text)


def beside_a_retriever(search: Callable[[str], list[Any]]) -> Any:
    """The one sample of a step that asks a retriever, and searches by hand."""
    retriever = Shelf(books=[document(PARIS, "p")])

    def step(question: str) -> str:
        found = [*retriever.invoke(question), *search(question)]
        return answer(question, *(one.page_content for one in found))

    with capture() as captured:
        RunnableLambda(step).invoke(QUESTION)
    assert not captured.problems
    (sample,) = captured.samples
    return sample


def scored(texts: InMemoryVectorStore) -> Callable[[str], list[Document]]:
    def search(question: str) -> list[Document]:
        return [one for one, _ in texts.similarity_search_with_score(question)]

    return search


def lookup(question: str) -> list[Document]:
    """A function of the application that is named like a method of a cache."""
    return store().similarity_search(question)


@pytest.mark.parametrize(
    "search",
    [
        lookup,
        store().similarity_search,
        lambda question: store().similarity_search(question),
        scored(store()),
        lambda question: observe(store()).similarity_search(question),
        lambda question: store().as_retriever().invoke(question),
        lambda question: asyncio.run(store().asimilarity_search(question)),
        lambda question: asyncio.run(store().as_retriever().ainvoke(question)),
    ],
)
def test_what_was_found_by_hand_is_retrieved_once_and_shown(
    search: Callable[[str], list[Any]],
) -> None:
    sample = beside_a_retriever(lambda question: search(question))
    assert [context.text for context in sample.known_contexts] == [PARIS, ROME]
    assert [context.id for context in sample.retrieved] == ["p", "r"]
    assert [len(call.items) for call in sample.ledger.calls] == [1, 1]
    assert sample.capture.grade == "exact"


def test_examples_that_are_chosen_from_a_store_are_no_evidence() -> None:
    examples = SemanticSimilarityExampleSelector(vectorstore=store(), k=1)
    sample = beside_a_retriever(
        lambda question: examples.select_examples({"question": question}) and []
    )
    assert [context.id for context in sample.retrieved] == ["p"]


class Ranks(BaseRetriever):
    """Searches for other words than it is asked, and has a model rank what it found."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        words = "capital, Italy"
        found = store().similarity_search(words)
        asks = PromptTemplate.from_template("Is it of use for {query}?\n{text}")
        for one in found:
            (asks | Speaker(lines=["9"])).invoke(
                {"query": words, "text": one.page_content}
            )
        return found


def test_what_a_search_has_a_model_asked_is_no_question_of_the_user() -> None:
    with capture() as captured:
        found = Ranks().invoke(QUESTION)
        answer(QUESTION, *(one.page_content for one in found))
    (sample,) = captured.samples
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert not sample.capture.doubts


def test_classes_of_stores_are_left_as_they_were() -> None:
    before = InMemoryVectorStore.similarity_search
    with capture():
        assert InMemoryVectorStore.similarity_search is not before
        with capture():
            pass
        assert InMemoryVectorStore.similarity_search is not before
    assert InMemoryVectorStore.similarity_search is before


def test_a_search_that_fails_reaches_the_application_as_it_is() -> None:
    class Failing(InMemoryVectorStore):
        def similarity_search(self, query: str, k: int = 4, **_: Any) -> list[Document]:
            raise ConnectionError(f"{query} {k}")

    texts = Failing(DeterministicFakeEmbedding(size=8))
    with capture() as captured, pytest.raises(ConnectionError, match=r"^query 4$"):
        texts.similarity_search("query")
    with capture() as captured:
        found = store().similarity_search("query")
    assert [one.page_content for one in found] == [ROME]
    assert not captured.samples


def test_a_search_of_an_observed_store_belongs_to_the_model_that_shows_what_it_found() -> (
    None
):
    with capture() as captured:
        (found,) = observe(store()).similarity_search(QUESTION)
        answer(QUESTION, found.page_content)
    (sample,) = captured.samples
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert [context.id for context in sample.known_contexts] == ["r"]
    assert sample.capture.grade == "exact"


def test_a_search_before_the_run_belongs_to_the_run_whose_prompt_shows_it() -> None:
    chain = RunnableLambda(lambda question: answer(question, found.page_content))
    with capture() as captured:
        (found,) = store().similarity_search(QUESTION)
        chain.invoke(QUESTION)
    (sample,) = captured.samples
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert [context.id for context in sample.known_contexts] == ["r"]
    assert sample.capture.grade == "exact"


def test_a_search_that_no_model_is_shown_is_no_sample() -> None:
    with capture() as captured:
        store().similarity_search(QUESTION)
        beside = RunnableLambda(lambda question: answer(question, PARIS))
        beside.invoke(QUESTION)
    assert not captured.samples
    assert any("a store was searched" in words for words in captured.problems.counts)


def test_what_cannot_be_recorded_of_a_search_is_counted_and_the_search_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(self: Snapshots, value: object, depth: int = 4) -> object:
        if isinstance(value, dict) and "documents" in value:
            raise TypeError("no copy")
        return value

    def search(question: str) -> str:
        return store().similarity_search(question)[0].page_content

    monkeypatch.setattr(Snapshots, "documents", broken)
    with capture() as captured:
        assert RunnableLambda(search).invoke(QUESTION) == ROME
    assert any("on_retriever_end" in words for words in captured.problems.counts)


class Shelves(InMemoryVectorStore):
    """Finds, for each of two queries, its own two of three texts."""

    found: ClassVar = {
        "When was the ferry built?": [ROME, PARIS],
        "ferry year": [PARIS, LYON],
    }

    def similarity_search(self, query: str, k: int = 4, **_: Any) -> list[Document]:
        return [Document(text) for text in self.found[query]][:k]


class State(TypedDict, total=False):
    """The state of LangGraph's tutorials on retrieval."""

    question: str
    query: str
    context: list[Document]
    answer: str


def graph_that_searches_again(report: Callable[[list[Document]], object]) -> Any:
    """A graph whose node searches by hand, puts what it found into the state, and searches again."""
    texts = Shelves(DeterministicFakeEmbedding(size=8))

    def search(state: State) -> State:
        found = texts.similarity_search(state.get("query", state["question"]))
        report(found)
        return {"context": found}

    def rewrite(_: State) -> State:
        return {"query": str(Speaker(lines=["ferry year"]).invoke("Rewrite").text)}

    def write(state: State) -> State:
        found = [one.page_content for one in state["context"]]
        return {"answer": answer(state["question"], *found)}

    graph = StateGraph(State)
    graph.add_sequence([("search", search), ("rewrite", rewrite)])
    graph.add_sequence([("search again", search), ("write", write)])
    graph.add_edge(START, "search")
    graph.add_edge("rewrite", "search again")
    return graph.compile()


def reported_with_scores(found: list[Document]) -> None:
    add_documents([(one, 0.5) for one in found])


def test_each_search_of_a_graph_is_a_call_with_its_query_and_all_it_found() -> None:
    with capture() as captured:
        graph_that_searches_again(len).invoke({"question": "When was the ferry built?"})
    (sample,) = captured.samples
    assert sample.ledger is not None
    assert [
        (call.query, [item.text for item in call.items], call.shown)
        for call in sample.ledger.calls
    ] == [
        ("When was the ferry built?", [ROME, PARIS], (1,)),
        ("ferry year", [PARIS, LYON], (0, 1)),
    ]
    assert [context.text for context in sample.retrieved or ()] == [ROME, PARIS, LYON]
    assert sample.capture.grade == "exact"


def test_what_the_application_tells_of_its_search_by_hand_goes_first() -> None:
    with capture() as captured:
        graph_that_searches_again(reported_with_scores).invoke(
            {"question": "When was the ferry built?"}
        )
    (sample,) = captured.samples
    assert sample.ledger is not None
    scores = [[item.score for item in call.items] for call in sample.ledger.calls]
    assert scores == [[0.5, 0.5], [0.5, 0.5]]


def test_a_search_that_the_application_tells_to_have_found_nothing_is_a_search() -> (
    None
):
    def step(question: str) -> str:
        add_documents([])
        return answer(question)

    with capture() as captured:
        RunnableLambda(step).invoke(QUESTION)
    (sample,) = captured.samples
    assert sample.retrieved == ()
    assert sample.contexts == ()
