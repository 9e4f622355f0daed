"""Passages that a step widened after the search were retrieved with all of their text: a window, a page."""

from __future__ import annotations

from typing import Any

import pytest
from haystack import Document as HaystackDocument
from haystack import Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.preprocessors import DocumentSplitter
from haystack.components.retrievers import SentenceWindowRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack_integrations.components.evaluators import (
    ragmetrics as haystack_ragmetrics,
)
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document as LangChainDocument
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture as capture_langchain
from llama_index.core.postprocessor import MetadataReplacementPostProcessor
from llama_index.core.query_engine import CitationQueryEngine, RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever as LlamaRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex
from test_planted_losses import ANSWER, QUESTION, TEXTS, Says, journeys
from test_planted_losses_of_same_ids import PROMPT

from ragmetrics_core import Context, Sample, ScriptedJudge, evaluate
from ragmetrics_core.capture import Document, texts_around
from ragmetrics_core.capture.origins import context_keys_of
from ragmetrics_core.capture.tree import DocumentKey
from ragmetrics_core.capture.widening import with_widened_texts
from ragmetrics_core.data import Fact
from ragmetrics_core.metrics.fact_matrix import FactInContext
from ragmetrics_core.reporting.sample_journey import journey_of

# the first words of each text; what the question needs stands behind them
CHUNKS = tuple(text[:40] for text in TEXTS)
PAGE = dict(zip(CHUNKS, TEXTS, strict=True))


# LangChain


class Chunks(BaseRetriever):
    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[LangChainDocument]:
        return [LangChainDocument(chunk) for chunk in CHUNKS]


def chain() -> Sample:
    """A function puts the page for each chunk."""

    def widen(documents: list[LangChainDocument]) -> list[LangChainDocument]:
        return [LangChainDocument(PAGE[one.page_content]) for one in documents]

    inputs = {
        "context": Chunks() | RunnableLambda(widen),
        "question": RunnablePassthrough(),
    }
    with capture_langchain() as captured:
        (inputs | PROMPT | FakeListChatModel(responses=[ANSWER])).invoke(QUESTION)
    (sample,) = captured.samples
    return sample


# LlamaIndex


class Sentences(LlamaRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(
                    text=chunk,
                    metadata={"window": text},
                    excluded_llm_metadata_keys=["window"],
                )
            )
            for chunk, text in PAGE.items()
        ]


def window(engine_class: Any) -> Sample:
    """run-llama/llama_index, docs/examples/node_postprocessor/MetadataReplacementDemo.ipynb."""
    replacing = MetadataReplacementPostProcessor(target_metadata_key="window")
    engine = engine_class.from_args(
        Sentences(), llm=Says(), node_postprocessors=[replacing]
    )
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    (sample,) = captured.samples
    return sample


def citation_window() -> Sample:
    replacing = MetadataReplacementPostProcessor(target_metadata_key="window")
    engine = CitationQueryEngine(
        retriever=Sentences(), llm=Says(), node_postprocessors=[replacing]
    )
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    (sample,) = captured.samples
    return sample


# Haystack


@component
class FindsChunks:
    @component.output_types(documents=list[HaystackDocument])
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": [HaystackDocument(content=chunk) for chunk in CHUNKS]}


@component
class Widens:
    @component.output_types(documents=list[HaystackDocument])
    def run(self, documents: list[HaystackDocument]) -> dict[str, Any]:
        pages = [PAGE[document.content or ""] for document in documents]
        return {"documents": [HaystackDocument(content=page) for page in pages]}


def pipeline() -> Sample:
    built = Pipeline()
    built.add_component("search", FindsChunks())
    built.add_component("widen", Widens())
    loop = "{% for d in documents %}{{ d.content }}\n\n{% endfor %}"
    built.add_component(
        "prompt", PromptBuilder(f"{loop}Asked: {{{{ query }}}}", required_variables="*")
    )
    built.add_component("llm", MockChatGenerator(ANSWER))
    built.connect("search.documents", "widen.documents")
    built.connect("widen.documents", "prompt.documents")
    built.connect("prompt", "llm")
    asked = {name: {"query": QUESTION} for name in ("search", "prompt")}
    with haystack_ragmetrics.capture() as captured:
        built.run(asked)
    (sample,) = captured.samples
    return sample


PIPELINES = {
    "chain": chain,
    "sentence window": lambda: window(RetrieverQueryEngine),
    "sentence window, cited": citation_window,
    "pipeline": pipeline,
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_fact_beside_what_was_searched_for_was_retrieved_and_shown(name: str) -> None:
    sample = PIPELINES[name]()
    for document, text in zip(sample.retrieved or (), TEXTS, strict=True):
        assert text in document.text
    judged, _ = journeys(sample)
    (fact,) = [stage for stage in judged.stages if stage.unit == "facts"][:1]
    assert (fact.loss, fact.lost, fact.of) == ("not_retrieved", 0, 1)
    assert judged.mend in (None, "not_useful", "not_cited")


SENTENCES = (
    "Seats on the ferry cost 38 euros.",
    "Pay for them at the counter of the harbour.",
    "A cabin for two costs 96 euros.",
    "The office on the mole opens at nine in the morning.",
    "It closes at six in the evening.",
)


def windows(template: str, *, found: tuple[int, ...]) -> Sample:
    """A sample of a search for single sentences, and the windows around them.

    Args:
        template: What the prompt shows of ``windows``.
        found: The places of the sentences that the search finds.
    """
    text = " ".join(SENTENCES)
    splitter = DocumentSplitter(split_by="period", split_length=1)
    sentences = splitter.run([HaystackDocument(content=text)])["documents"]
    store = InMemoryDocumentStore()
    store.write_documents(sentences)

    @component
    class FindsSentences:
        @component.output_types(documents=list[HaystackDocument])
        def run(self, query: str) -> dict[str, Any]:
            return {"documents": [sentences[place] for place in found]}

    built = Pipeline()
    built.add_component("search", FindsSentences())
    built.add_component("window", SentenceWindowRetriever(store, window_size=1))
    built.add_component("prompt", PromptBuilder(template, required_variables="*"))
    built.add_component("llm", MockChatGenerator(ANSWER))
    built.connect("search.documents", "window.retrieved_documents")
    built.connect("window.context_windows", "prompt.windows")
    built.connect("prompt", "llm")
    asked = {name: {"query": QUESTION} for name in ("search", "prompt")}
    with haystack_ragmetrics.capture() as captured:
        built.run(asked)
    (sample,) = captured.samples
    return sample


ALL_WINDOWS = "{% for w in windows %}{{ w }}\n{% endfor %}Asked: {{ query }}"
LAST_WINDOW = "{{ windows[-1] }}\nAsked: {{ query }}"


@pytest.mark.parametrize(
    ("template", "found", "lost"),
    [
        (ALL_WINDOWS, (1, 4), None),
        (LAST_WINDOW, (1, 4), "not_shown"),
        (LAST_WINDOW, (4, 1), None),
        (ALL_WINDOWS, (4,), "not_retrieved"),
    ],
)
def test_a_fact_of_a_window_that_was_found_was_retrieved(
    template: str, found: tuple[int, ...], lost: str | None
) -> None:
    """The fact stands beside the found sentence."""
    fact = SENTENCES[2]
    sample = windows(template, found=found)
    asked = sample.model_copy(update={"facts": (Fact(text=fact),)})
    judge = ScriptedJudge(
        {FactInContext: lambda asked: {"covered": asked["fact"] in asked["context"]}}
    )
    report = evaluate([asked], metrics=["accuracy"], judge=judge)
    followed = journey_of(report.results[0])
    assert followed is not None
    assert [(one.lost, one.known) for one in followed.facts] == [(lost, True)]


@pytest.mark.parametrize(
    ("returned", "around"),
    [
        ({"windows": ["Red. It fell.", "It is old. Blue."]}, True),
        ({"documents": [], "windows": ("It fell. Red.", "It is old.")}, True),
        ({"windows": ["It is old. Blue.", "Red. It fell."]}, False),
        ({"windows": ["Red. It fell. It is old."]}, False),
        ({"prompt": "Red. It fell. It is old."}, False),
        ({"windows": ["It fell.", None]}, False),
        ({}, False),
    ],
    ids=["in order", "beside others", "disordered", "one", "text", "none", "empty"],
)
def test_texts_around_documents_are_one_for_each_in_their_order(
    returned: dict[str, Any], *, around: bool
) -> None:
    documents = [Document(" It fell."), Document("It is old.")]
    expected = tuple(returned["windows"]) if around else ()
    assert texts_around(documents, returned) == expected


# The rule


WORDS = st.text("abcdefghijklmnopqrstuvwxyz ", min_size=0, max_size=60)


def widened_texts(
    found: list[Document], contexts: dict[DocumentKey, Context]
) -> tuple[Document, ...]:
    return with_widened_texts(found, context_keys_of(found, contexts), contexts, ())


@given(WORDS, WORDS, st.integers(0, 2))
def test_a_passage_has_the_text_that_it_was_widened_to(
    before: str, behind: str, place: int
) -> None:
    found = [Document(text, str(number)) for number, text in enumerate(TEXTS)]
    wide = f"{before}\n{TEXTS[place]}\n{behind}"
    shown = [
        Document(wide if number == place else text, str(number))
        for number, text in enumerate(TEXTS)
    ]
    contexts = {document.key: document.context() for document in shown}
    widened = widened_texts(found, contexts)
    assert widened is not None
    n_letters = sum(map(str.isalpha, before + behind))
    expected = list(TEXTS)
    if n_letters >= 16:
        expected[place] = wide
    assert [document.text for document in widened] == expected
    assert [document.id for document in widened] == ["0", "1", "2"]


def test_documents_that_were_merged_keep_their_texts() -> None:
    found = [Document(text) for text in TEXTS]
    merged = Document("\n".join(TEXTS))
    assert widened_texts(found, {merged.key: merged.context()}) == tuple(found)


def test_a_passage_that_was_cut_keeps_its_text() -> None:
    found = [Document(TEXTS[0], "a")]
    cut = Document(TEXTS[0][:40], "a")
    assert widened_texts(found, {cut.key: cut.context()}) == tuple(found)


def test_a_longer_rewording_under_the_same_id_is_no_widened_text() -> None:
    found = Document("It was opened on 4 May 1874.", "a")
    longer = "The mayor cut the ribbon of the new bridge on a windy morning in spring."
    reworded = Document(longer, "a")
    contexts = {reworded.key: reworded.context()}
    assert with_widened_texts([found], [reworded.key], contexts, ()) == (found,)
