"""Vector stores that the application searches by hand, beside a retriever or alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.llms import LLM, ChatMessage
from llama_index.core.memory.memory import BaseMemoryBlock
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import SimpleVectorStore, VectorStoreQuery
from llama_index.core.vector_stores.types import VectorStoreQueryResult
from llama_index.evaluation.ragmetrics import capture

QUESTION = "Who lit the lamp of the tower?"
LAMP = "Anna lit the lamp of the tower every evening."
OIL = "The lamp of the tower burned whale oil until 1901."
QUERY = VectorStoreQuery(query_embedding=[1.0, 0.0], similarity_top_k=1)

Search = Callable[[], list[str]]


class StoreWithTexts(SimpleVectorStore):
    """A store that returns its nodes, as most databases do."""

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        return VectorStoreQueryResult([TextNode(id_="oil", text=OIL)], [1.0], ["oil"])


def in_a_store(store: SimpleVectorStore) -> Search:
    """A search by hand that finds one text."""
    store.add([TextNode(id_="oil", text=OIL, embedding=[1.0, 0.0])])

    def search() -> list[str]:
        assert store.query(QUERY).ids == ["oil"]
        return [OIL]

    return search


class Engine(CustomQueryEngine):
    """Shows what a retriever found and what was found by hand."""

    llm: LLM
    retriever: BaseRetriever
    search: Any

    def custom_query(self, query_str: str) -> str:
        found = [node.text for node in self.retriever.retrieve(query_str)]
        prompt = "\n".join([*found, *self.search(), query_str])
        return self.llm.complete(prompt).text


def in_an_engine(kit: ModuleType, search: Search) -> None:
    retriever = kit.FixedRetriever([kit.node("lamp", LAMP)])
    engine = Engine(llm=kit.ScriptedLLM(), retriever=retriever, search=search)
    engine.query(QUESTION)


def in_plain_functions(kit: ModuleType, search: Search) -> None:
    found = kit.FixedRetriever([kit.node("lamp", LAMP)]).retrieve(QUESTION)
    texts = [node.text for node in found]
    kit.ScriptedLLM().complete("\n".join([*texts, *search(), QUESTION]))


APPLICATIONS = [in_an_engine, in_plain_functions]


def sample_of(
    kit: ModuleType,
    search: Search,
    application: Callable[[ModuleType, Search], None] = in_an_engine,
) -> Any:
    with capture() as captured:
        application(kit, search)
    assert not captured.problems
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize("application", APPLICATIONS)
def test_what_a_store_found_beside_a_retriever_is_retrieved_and_shown(
    kit: ModuleType, application: Callable[[ModuleType, Search], None]
) -> None:
    sample = sample_of(kit, in_a_store(StoreWithTexts()), application)
    assert [context.text for context in sample.known_contexts] == [LAMP, OIL]
    assert [context.id for context in sample.retrieved] == ["lamp", "oil"]
    assert sample.capture.grade in ("exact", "inferred")


@pytest.mark.parametrize("application", APPLICATIONS)
def test_a_store_that_names_only_ids_beside_a_retriever_leaves_the_sample_incomplete(
    kit: ModuleType, application: Callable[[ModuleType, Search], None]
) -> None:
    sample = sample_of(kit, in_a_store(SimpleVectorStore()), application)
    assert sample.capture.grade == "incomplete"
    assert "names only ids" in sample.capture.doubts["not_recorded"]


def test_a_question_without_a_search_by_hand_is_not_in_doubt(kit: ModuleType) -> None:
    with capture() as captured:
        for search in (in_a_store(SimpleVectorStore()), list[str]):
            in_plain_functions(kit, search)
    by_hand, by_the_retriever = captured.samples
    assert by_hand.capture.grade == "incomplete"
    assert "not_recorded" not in by_the_retriever.capture.doubts


def test_queries_of_retrievers_themselves_are_no_further_searches(
    kit: ModuleType,
) -> None:
    index = VectorStoreIndex([TextNode(id_="oil", text=OIL)])
    retriever = index.as_retriever(similarity_top_k=1)
    sample = sample_of(
        kit, lambda: [node.text for node in retriever.retrieve(QUESTION)]
    )
    assert [context.id for context in sample.retrieved] == ["lamp", "oil"]
    assert sample.capture.grade == "exact"
    assert len(sample.ledger.calls) == 2


class Notebook(BaseMemoryBlock[str]):
    """A memory that looks up in a store what was said before."""

    store: SimpleVectorStore

    async def _aget(
        self, messages: list[ChatMessage] | None = None, **kwargs: Any
    ) -> str:
        return self.store.query(QUERY).nodes[0].text

    async def _aput(self, messages: list[ChatMessage]) -> None:
        raise NotImplementedError


def test_what_a_memory_looks_up_in_a_store_is_not_retrieved(kit: ModuleType) -> None:
    store = StoreWithTexts()
    in_a_store(store)
    memory = Notebook(name="notebook", store=store)
    sample = sample_of(kit, lambda: [asyncio.run(memory.aget([ChatMessage(QUESTION)]))])
    assert [context.id for context in sample.retrieved] == ["lamp"]


def test_results_are_left_alone_when_nobody_captures() -> None:
    before = VectorStoreQueryResult.__init__
    with capture():
        assert VectorStoreQueryResult.__init__ is not before
        assert VectorStoreQueryResult(ids=["a"]) == VectorStoreQueryResult(ids=["a"])
    assert VectorStoreQueryResult.__init__ is before
