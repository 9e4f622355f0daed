"""Passages that an application cuts and joins to a new document, in which it searches again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from haystack import Document as HaystackDocument
from haystack import Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack_integrations.components.evaluators import ragmetrics as for_haystack
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document as LangChainDocument
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_ragmetrics import capture as capture_langchain
from llama_index.core import Document as LlamaDocument
from llama_index.core import SummaryIndex
from llama_index.core.schema import TextNode
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex
from test_planted_losses import Says
from test_rewriting import FindsTexts

from ragmetrics_core import Sample, ScriptedJudge, evaluate
from ragmetrics_core.capture import Document, Message, Node, Tree, samples_of
from ragmetrics_core.data import Fact, PassageNote
from ragmetrics_core.metrics.fact_matrix import FactInContext
from ragmetrics_core.reporting.sample_journey import SampleJourney, journey_of

QUESTION = "What does the night ferry cost?"
ANSWER = "It costs 38 euros."
TEXTS = (
    "The night ferry to Halmstad leaves the east quay at 22:40 every day except Sunday."
    " Boarding begins one hour before departure, at gate seven.",
    "Fares of this year: a seat on board costs 38 euros when it is paid at the counter."
    " A cabin for two costs 96 euros, and breakfast is included.",
    "Families travel with children under six free of charge if they share a cabin."
    " Cots are handed out at the reception on deck four.",
)
FACTS = ("gate seven", "96 euros", "deck four")  # each stands in the end of its text
CUT = 90  # letters of each text that the application keeps


def followed(sample: Sample) -> SampleJourney:
    """Follow the facts, each of which a text holds if it stands there."""
    judge = ScriptedJudge(
        {FactInContext: lambda asked: {"covered": asked["fact"] in asked["context"]}}
    )
    facts = tuple(Fact(text=fact) for fact in FACTS)
    asked = sample.model_copy(update={"facts": facts})
    journey = journey_of(
        evaluate([asked], metrics=["accuracy"], judge=judge).results[0]
    )
    assert journey is not None
    return journey


def check_that_all_are_cut(sample: Sample) -> None:
    """Assert that the three texts were cut, and their facts with them."""
    journey = followed(sample)
    cut = [
        passage.shown
        for passage, document in zip(
            journey.passages, sample.retrieved or (), strict=True
        )
        if any(text in document.text for text in TEXTS)
    ]
    assert cut == ["cut"] * 3
    assert [fact.lost for fact in journey.facts] == ["cut"] * 3


def joined(texts: Any) -> str:
    return "\n".join(text[:CUT] for text in texts)


# On a neutral tree of calls


def run(later_text: str, *, dropped: int | None = None) -> tuple[PassageNote, ...]:
    """What became of the three texts, where the prompt shows what a later search found.

    Args:
        later_text: What the later search found.
        dropped: The place of a text that a reranker dropped before; None without one.
    """
    documents = tuple(Document(text, f"d{at}") for at, text in enumerate(TEXTS))
    calls = [Node("retriever", "first", 1.0, 2.0, documents=documents)]
    if dropped is not None:
        kept = tuple(one for at, one in enumerate(documents) if at != dropped)
        reranker = Node("reranker", "rank", 3.0, 4.0, documents=kept)
        reranker.input_documents = documents
        calls.append(reranker)
    later = (Document(later_text, "new"),)
    calls.append(Node("retriever", "later", 5.0, 6.0, documents=later))
    model = Node("model", "llm", 7.0, 8.0, reply=Message("assistant", ANSWER))
    model.prompt = (Message("user", f"{later_text}\n{QUESTION}"),)
    root = Node("step", "chain", 0.0, 9.0, children=[*calls, model])
    root.text = ANSWER
    (sample,) = samples_of(Tree(root, question=QUESTION, question_place="input"))
    assert sample.capture is not None
    assert sample.contexts
    return (sample.capture.passages or ())[:3]


@given(st.permutations(range(3)), st.integers(60, 120), st.integers(1, 3))
def test_law_of_each_text_as_much_was_shown_as_the_new_document_has(
    order: list[int], n_kept: int, n_texts: int
) -> None:
    used = order[:n_texts]
    notes = run("\n".join(TEXTS[at][:n_kept] for at in used))
    for at, note in enumerate(notes):
        share = n_kept / len(TEXTS[at]) if at in used else 0.0
        assert note.share == pytest.approx(share, abs=0.06)


@given(st.integers(0, 2), st.integers(0, 60))
def test_law_a_chunk_that_overlaps_with_an_earlier_one_shows_nothing_of_it(
    at: int, n_shared: int
) -> None:
    own = "In autumn the harbour office moves to the customs house beside the mole."
    notes = run(f"{TEXTS[at][len(TEXTS[at]) - n_shared :]} {own}")
    assert [note.share for note in notes] == [0.0] * 3


def test_what_a_reranker_dropped_is_not_shown_by_a_part_of_it() -> None:
    notes = run(TEXTS[1][:CUT], dropped=1)
    assert [note.kept for note in notes] == [True, False, True]
    assert [note.share for note in notes] == [0.0] * 3


# The frameworks


def test_a_later_index_of_langchain_over_the_joined_text() -> None:
    def search_again(documents: list[LangChainDocument]) -> list[LangChainDocument]:
        text = joined(document.page_content for document in documents)
        store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
        store.add_documents([LangChainDocument(text)])
        return store.as_retriever().invoke(QUESTION)

    def prompt(documents: list[LangChainDocument]) -> str:
        return documents[0].page_content + f"\n\n{QUESTION}"

    chain = (
        FindsTexts(found_texts=list(TEXTS))
        | RunnableLambda(search_again)
        | RunnableLambda(prompt)
        | FakeListChatModel(responses=[ANSWER])
    )
    with capture_langchain() as captured:
        chain.invoke(QUESTION)
    (sample,) = captured.samples
    check_that_all_are_cut(sample)


def test_a_later_index_of_llamaindex_over_the_joined_text() -> None:
    nodes = [
        TextNode(id_=f"d{at}", text=text, metadata={"file_name": f"{at}.md"})
        for at, text in enumerate(TEXTS)
    ]

    class SearchesTwice(Workflow):
        @step
        async def answer(self, event: StartEvent) -> StopEvent:
            found = await SummaryIndex(nodes=nodes).as_retriever().aretrieve(QUESTION)
            text = joined(node.node.get_content() for node in found)
            again = SummaryIndex.from_documents([LlamaDocument(text=text)])
            engine = again.as_query_engine(llm=Says())
            return StopEvent(result=engine.query(event.query))

    async def ask() -> None:
        await SearchesTwice().run(query=QUESTION)

    with capture_llamaindex() as captured:
        asyncio.run(ask())
    (sample,) = captured.samples
    check_that_all_are_cut(sample)


@component
class FindsAll:
    """A retriever that finds all texts."""

    @component.output_types(documents=list[HaystackDocument])
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": [HaystackDocument(content=text) for text in TEXTS]}


@component
class SearchesAgain:
    """A retriever in a text that it joins of documents."""

    @component.output_types(documents=list[HaystackDocument])
    def run(self, documents: list[HaystackDocument], query: str) -> dict[str, Any]:
        text = joined(document.content for document in documents)
        return {"documents": [HaystackDocument(content=text)]}


def test_a_later_search_of_haystack_in_the_joined_text() -> None:
    pipeline = Pipeline()
    pipeline.add_component("search", FindsAll())
    pipeline.add_component("again", SearchesAgain())
    template = "{{ documents[0].content }}\nQ: {{ query }}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables="*"))
    pipeline.add_component("llm", MockChatGenerator(ANSWER))
    pipeline.connect("search.documents", "again.documents")
    pipeline.connect("again.documents", "prompt.documents")
    pipeline.connect("prompt", "llm")
    queries = {name: {"query": QUESTION} for name in ("search", "again", "prompt")}
    with for_haystack.capture() as captured:
        pipeline.run(queries)
    (sample,) = captured.samples
    check_that_all_are_cut(sample)
