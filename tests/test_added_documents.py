"""Steps that add documents to those found, as a neighbouring chunk: what they add was retrieved, shown or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture
from llama_index.core import SummaryIndex
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import PrevNextNodePostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import (
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex
from test_planted_losses import ANSWER, QUESTION, TEXTS, journeys
from test_planted_losses_of_same_ids import PROMPT

from ragmetrics_core import Sample

Documents: TypeAlias = list[Document]
Step: TypeAlias = Callable[[Documents], Any]


class FirstTwoFound(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> Documents:
        return [Document(text, id=f"d{place}") for place, text in enumerate(TEXTS[:2])]


def add_neighbour(documents: Documents) -> Documents:
    return [*documents, Document(TEXTS[2], id="next")]


def keep_two(documents: Documents) -> Documents:
    return documents[:2]


def write(documents: Sequence[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def write_two(documents: Documents) -> str:
    return write(documents[:2])


def _sample_of_chain(*steps: Step) -> Sample:
    context: Any = FirstTwoFound()
    for step in steps:
        context = context | RunnableLambda(step)
    asked = {"context": context, "question": RunnablePassthrough()}
    model = FakeListChatModel(responses=[ANSWER])
    with capture() as captured:
        (asked | PROMPT | model | StrOutputParser()).invoke(QUESTION)
    (sample,) = captured.samples
    return sample


class FirstOne(BaseNodePostprocessor):
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return nodes[:1]


def _sample_of_engine(*rerankers: BaseNodePostprocessor) -> Sample:
    found, neighbour = TextNode(text=TEXTS[0]), TextNode(text=TEXTS[2])
    next_node = RelatedNodeInfo(node_id=neighbour.node_id)
    found.relationships[NodeRelationship.NEXT] = next_node
    store = SimpleDocumentStore()
    store.add_documents([found, neighbour])
    neighbours = PrevNextNodePostprocessor(docstore=store, num_nodes=1)
    engine = RetrieverQueryEngine.from_args(
        SummaryIndex(nodes=[found]).as_retriever(),
        llm=MockLLM(),
        node_postprocessors=[neighbours, *rerankers],
    )
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    (sample,) = captured.samples
    return sample


def _told_of_neighbour(sample: Sample) -> tuple[str | None, float | None, str | None]:
    """Of the added passage: what found it, which share was shown, what dropped it."""
    assert sample.retrieved is not None
    assert sample.capture is not None
    place = [passage.text for passage in sample.retrieved].index(TEXTS[2])
    note = (sample.capture.passages or ())[place]
    return note.retriever, note.share, note.dropped_by


@pytest.mark.parametrize(
    ("steps", "share", "dropped_by", "loss"),
    [
        ((add_neighbour, keep_two, write), 0.0, "keep_two", "not_kept"),
        ((add_neighbour, write_two), 0.0, None, "not_shown"),
        ((add_neighbour, write), 1.0, None, None),
    ],
    ids=["dropped", "not written", "shown"],
)
def test_an_added_document_is_followed_to_the_prompt(
    steps: Sequence[Step], share: float, dropped_by: str | None, loss: str | None
) -> None:
    sample = _sample_of_chain(*steps)
    assert _told_of_neighbour(sample) == ("add_neighbour", share, dropped_by)
    facts, _ = journeys(sample)
    lost_facts = [
        stage.loss for stage in facts.stages if stage.unit == "facts" and stage.lost
    ]
    assert lost_facts == ([loss] if loss else [])


def test_a_neighbour_that_a_postprocessor_fetched_and_a_reranker_dropped() -> None:
    told = _told_of_neighbour(_sample_of_engine(FirstOne()))
    assert told == ("PrevNextNodePostprocessor", 0.0, "FirstOne")
    facts, _ = journeys(_sample_of_engine(FirstOne()))
    assert facts.mend == "not_kept"


def test_a_neighbour_that_is_shown_was_retrieved_as_well() -> None:
    told = _told_of_neighbour(_sample_of_engine())
    assert told[:2] == ("PrevNextNodePostprocessor", 1.0)


def test_a_step_that_drops_one_and_adds_one_need_not_have_searched() -> None:
    """It may have written the passage anew."""

    def replace_last(documents: Documents) -> Documents:
        return [*documents[:1], Document(TEXTS[2], id="new")]

    sample = _sample_of_chain(replace_last, lambda documents: write(documents[:1]))
    assert sample.retrieved is not None
    assert TEXTS[2] not in [passage.text for passage in sample.retrieved]


OTHER_TEXT = "Trains need four hours to the coast."


class NextFound(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> Documents:
        return [Document(TEXTS[2], id="next")]


def _texts_retrieved(sample: Sample) -> list[str]:
    assert sample.retrieved is not None
    return [passage.text for passage in sample.retrieved]


def test_of_a_step_that_searches_its_search_tells_what_it_found() -> None:
    """It adds a note as well, which no search found."""

    def search_on(documents: Documents) -> Documents:
        found = NextFound().invoke(QUESTION)
        return [*documents, *found, Document(OTHER_TEXT, id="note")]

    assert _texts_retrieved(_sample_of_chain(search_on, write_two)) == list(TEXTS)


def test_what_a_step_adds_before_the_search_is_to_be_searched() -> None:
    def load(_: Documents) -> Documents:
        return [Document(f"{TEXTS[0]} {TEXTS[1]} {TEXTS[2]}", id="page")]

    def load_more(pages: Documents) -> Documents:
        return [*pages, Document(OTHER_TEXT, id="other page")]

    def search_in(_: Documents) -> Documents:
        return FirstTwoFound().invoke(QUESTION)

    context: Any = RunnableLambda(load) | RunnableLambda(load_more)
    context = context | RunnableLambda(search_in) | RunnableLambda(write)
    asked = {"context": context, "question": RunnablePassthrough()}
    model = FakeListChatModel(responses=[ANSWER])
    with capture() as captured:
        (asked | PROMPT | model | StrOutputParser()).invoke(QUESTION)
    (sample,) = captured.samples
    assert _texts_retrieved(sample) == list(TEXTS[:2])
