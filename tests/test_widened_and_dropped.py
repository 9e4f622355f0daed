"""A passage that was widened and then dropped: its fact was retrieved, and lost behind that.

A search finds the first words of each page, a step puts the page in their place, and a
later step or the template leaves out the last page, which states the fact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from haystack import Document as HaystackDocument
from haystack import Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack_integrations.components.evaluators import (
    ragmetrics as haystack_ragmetrics,
)
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document as LangChainDocument
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture as capture_langchain
from llama_index.core.postprocessor import MetadataReplacementPostProcessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex
from test_planted_losses import ANSWER, QUESTION, TEXTS, Says, journeys
from test_planted_losses_of_same_ids import PROMPT
from test_widening import PAGE, Chunks, FindsChunks, Sentences, Widens

from ragmetrics_core import Sample
from ragmetrics_core.capture import Document
from ragmetrics_core.capture.widening import with_widened_texts
from ragmetrics_core.reporting.sample_journey import Loss

N_KEPT = 2


# LangChain


def pages(chunks: list[LangChainDocument]) -> list[LangChainDocument]:
    return [LangChainDocument(PAGE[chunk.page_content]) for chunk in chunks]


def rerank(documents: list[LangChainDocument]) -> list[LangChainDocument]:
    return documents[:N_KEPT]


def write(documents: list[LangChainDocument]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def write_first(documents: list[LangChainDocument]) -> str:
    return write(documents[:N_KEPT])


def chain(way: Runnable[Any, Any]) -> Sample:
    inputs: Any = {"context": way, "question": RunnablePassthrough()}
    with capture_langchain() as captured:
        (inputs | PROMPT | FakeListChatModel(responses=[ANSWER])).invoke(QUESTION)
    (sample,) = captured.samples
    return sample


# Haystack


@component
class Reranks:
    @component.output_types(documents=list[HaystackDocument])
    def run(self, documents: list[HaystackDocument]) -> dict[str, Any]:
        return {"documents": documents[:N_KEPT]}


def pipeline(template: str, *steps: tuple[str, Any]) -> Sample:
    built = Pipeline()
    built.add_component("search", FindsChunks())
    sender = "search.documents"
    for name, step in steps:
        built.add_component(name, step)
        built.connect(sender, f"{name}.documents")
        sender = f"{name}.documents"
    template = f"{template}Asked: {{{{ query }}}}"
    built.add_component("prompt", PromptBuilder(template, required_variables="*"))
    built.add_component("llm", MockChatGenerator(ANSWER))
    built.connect(sender, "prompt.documents")
    built.connect("prompt", "llm")
    asked = {name: {"query": QUESTION} for name in ("search", "prompt")}
    with haystack_ragmetrics.capture() as captured:
        built.run(asked)
    (sample,) = captured.samples
    return sample


ALL = "{% for d in documents %}{{ d.content }}\n\n{% endfor %}"
FIRST = "{% for d in documents[:2] %}{{ d.content }}\n\n{% endfor %}"


# LlamaIndex


class Reranker(BaseNodePostprocessor):
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return nodes[:N_KEPT]


def window(*postprocessors: BaseNodePostprocessor) -> Sample:
    engine = RetrieverQueryEngine.from_args(
        Sentences(), llm=Says(), node_postprocessors=list(postprocessors)
    )
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    (sample,) = captured.samples
    return sample


WINDOWS = MetadataReplacementPostProcessor(target_metadata_key="window")
PAGES = RunnableLambda(pages)

ROWS: dict[str, tuple[Callable[[], Sample], Loss, str]] = {
    "chain": (lambda: chain(Chunks() | PAGES | rerank | write), "not_kept", "rerank"),
    "chain, list": (lambda: chain(Chunks() | PAGES | rerank), "not_kept", "rerank"),
    "chain, written": (
        lambda: chain(Chunks() | PAGES | write_first),
        "not_shown",
        "",
    ),
    "pipeline": (
        lambda: pipeline(ALL, ("widen", Widens()), ("rerank", Reranks())),
        "not_kept",
        "rerank",
    ),
    "pipeline, written": (
        lambda: pipeline(FIRST, ("widen", Widens())),
        "not_shown",
        "",
    ),
    "sentence window": (lambda: window(WINDOWS, Reranker()), "not_kept", "Reranker"),
    # nobody fetched the page of a chunk that was dropped before
    "chain, dropped before": (
        lambda: chain(Chunks() | RunnableLambda(rerank) | PAGES | write),
        "not_retrieved",
        "",
    ),
    "pipeline, dropped before": (
        lambda: pipeline(ALL, ("rerank", Reranks()), ("widen", Widens())),
        "not_retrieved",
        "",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_fact_beside_a_dropped_passage_is_lost_where_the_passage_is(
    name: str,
) -> None:
    run, loss, by = ROWS[name]
    judged, _ = journeys(run())
    assert judged.mend == loss
    stage = judged.of(loss, "facts")
    assert stage is not None
    assert (stage.lost, stage.of) == (1, 1)
    if by:
        passages = judged.of(loss, "passages")
        assert passages is not None
        assert dict(passages.by) == {by: 1}


# The rule


WORDS = st.text("abcdefghijklmnopqrstuvwxyz ", min_size=16, max_size=60)


@given(WORDS, WORDS, st.integers(0, 2), st.booleans())
def test_a_hidden_passage_has_the_longest_text_that_a_step_made_of_it(
    before: str, behind: str, place: int, is_window_first: bool
) -> None:
    found = [Document(text, str(number)) for number, text in enumerate(TEXTS)]
    window_text = f"{before.strip()} is the window.\n{TEXTS[place]}"
    added = [
        Document(window_text, "w"),
        Document(f"{window_text}\n{behind.strip()} is the page.", "p"),
    ]
    if not is_window_first:
        added.reverse()
    widened = with_widened_texts(found, [None] * 3, {}, added)
    expected = list(TEXTS)
    expected[place] = max((document.text for document in added), key=len)
    assert [document.text for document in widened] == expected
    # a document with a context keeps its text
    contexts = {document.key: document.context() for document in found}
    shown = with_widened_texts(found, list(contexts), contexts, added)
    assert shown == tuple(found)
    # as does one whose page another search found
    beside = [*found, added[0], added[1]]
    assert with_widened_texts(beside, [None] * 5, {}, added) == tuple(beside)
