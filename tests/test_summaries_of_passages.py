"""A model sums up the passages, and the answering call is shown the summary alone.

Then nobody knows what became of each passage, whichever words the last prompt has for
the question. A call that only revises a draft is another matter: the draft's writer
answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from haystack import Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.dataclasses import Document as HaystackDocument
from haystack_integrations.components.evaluators.ragmetrics import (
    capture as capture_haystack,
)
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_ragmetrics import capture
from llama_index.core.base.base_retriever import (
    BaseRetriever as LlamaIndexRetriever,
)
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex

from ragmetrics_core import Sample, evaluate
from ragmetrics_core.reporting.sample_journey import SampleJourney, journey_of

QUESTION = "And when was it opened?"
REWRITTEN = "When was Harlow Bridge opened to the public?"
IN_OTHER_WORDS = "In which year did the old bridge open?"
TEXTS = (
    "Harlow Bridge was opened on 4 May 1874 by the engineer Ruth Calder.",
    "The repair of the piers cost the county 41,000 pounds in all.",
)
SUMMARY = "The bridge is old, and its piers were once repaired at great cost."
ANSWER = "Long ago, as it seems."
SUM_UP = "Summarise what matters.\n{texts}"
ANSWER_FROM = "Answer from this:\n{summary}\nQuestion: {question}"


class Finds(BaseRetriever):
    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[Document]:
        return [Document(text) for text in TEXTS]


def langchain_sample(
    last_question: str, sum_up: str = SUM_UP, answer_from: str = ANSWER_FROM
) -> Sample:
    model = FakeListChatModel(responses=[REWRITTEN, SUMMARY, ANSWER])

    def answer(question: str) -> str:
        query = str(model.invoke(f"Rewrite: {question}").content)
        texts = "\n".join(each.page_content for each in Finds().invoke(query))
        prompt = sum_up.format(texts=texts, question=question)
        summary = str(model.invoke(prompt).content)
        prompt = answer_from.format(summary=summary, question=last_question)
        return str(model.invoke(prompt).content)

    with capture() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    return sample


class FindsNodes(LlamaIndexRetriever):
    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=text), score=1.0) for text in TEXTS]


class SaysInTurn(CustomLLM):
    replies: list[str]

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        return CompletionResponse(text=self.replies.pop(0))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        yield self.complete(prompt)


class SumsUp(CustomQueryEngine):
    retriever: FindsNodes
    model: SaysInTurn
    last_question: str

    def custom_query(self, query_str: str) -> str:
        query = self.model.complete(f"Rewrite: {query_str}").text
        found = self.retriever.retrieve(query)
        texts = "\n".join(each.node.text for each in found)
        summary = self.model.complete(SUM_UP.format(texts=texts)).text
        prompt = ANSWER_FROM.format(summary=summary, question=self.last_question)
        return str(self.model.complete(prompt).text)


def llamaindex_sample(last_question: str) -> Sample:
    engine = SumsUp(
        retriever=FindsNodes(),
        model=SaysInTurn(replies=[REWRITTEN, SUMMARY, ANSWER]),
        last_question=last_question,
    )
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    (sample,) = captured.samples
    return sample


@component
class FindsDocuments:
    @component.output_types(documents=list[HaystackDocument])
    def run(self, queries: list[str]) -> dict[str, Any]:
        return {"documents": [HaystackDocument(content=text) for text in TEXTS]}


@component
class Generates:
    def __init__(self, reply: str) -> None:
        self.reply = reply

    @component.output_types(replies=list[str])
    def run(self, prompt: str) -> dict[str, Any]:
        return {"replies": [self.reply]}


def haystack_sample(last_question: str) -> Sample:
    texts = "{% for document in documents %}{{ document.content }}\n{% endfor %}"
    templates = {
        "rewrite": "Rewrite: {{ question }}",
        "sum_up": SUM_UP.format(texts=texts),
        "answer": ANSWER_FROM.format(summary="{{ summary[0] }}", question="{{ last }}"),
    }
    pipeline = Pipeline()
    pipeline.add_component("retriever", FindsDocuments())
    for name, reply in zip(templates, (REWRITTEN, SUMMARY, ANSWER), strict=True):
        builder = PromptBuilder(templates[name], required_variables="*")
        pipeline.add_component(name, builder)
        pipeline.add_component(f"{name}_model", Generates(reply))
        pipeline.connect(f"{name}.prompt", f"{name}_model.prompt")
    pipeline.connect("rewrite_model.replies", "retriever.queries")
    pipeline.connect("retriever.documents", "sum_up.documents")
    pipeline.connect("sum_up_model.replies", "answer.summary")
    with capture_haystack() as captured:
        pipeline.run(
            {"rewrite": {"question": QUESTION}, "answer": {"last": last_question}}
        )
    (sample,) = captured.samples
    return sample


FRAMEWORKS: dict[str, Callable[[str], Sample]] = {
    "langchain": langchain_sample,
    "llamaindex": llamaindex_sample,
    "haystack": haystack_sample,
}


def followed(sample: Sample) -> SampleJourney:
    facts = Sample.from_row({"question": "q", "facts": TEXTS}).facts
    asked = sample.model_copy(update={"facts": facts})
    report = evaluate([asked], metrics=["accuracy"], judge="lexical")
    journey = journey_of(report.results[0])
    assert journey is not None
    return journey


@pytest.mark.parametrize("last_question", [QUESTION, REWRITTEN, IN_OTHER_WORDS])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_of_summed_up_passages_nobody_knows_what_was_shown(
    framework: str, last_question: str
) -> None:
    sample = FRAMEWORKS[framework](last_question)
    assert sample.answer == ANSWER
    journey = followed(sample)
    assert [passage.shown for passage in journey.passages] == [None, None]
    assert [fact.known for fact in journey.facts] == [False, False]
    assert "in other words than those that it took" in journey.unknown["shown"]


def test_a_summary_for_the_question_is_no_draft_where_a_rewrite_is_asked_last() -> None:
    sample = langchain_sample(REWRITTEN, sum_up="{texts}\nSum up for: {question}")
    journey = followed(sample)
    assert [passage.shown for passage in journey.passages] == [None, None]


def test_the_passages_of_a_draft_that_is_only_revised_were_shown() -> None:
    sample = langchain_sample(
        "",
        sum_up="{texts}\nQuestion: {question}",
        answer_from="Write this more politely:\n{summary}",
    )
    journey = followed(sample)
    assert [passage.shown for passage in journey.passages] == ["whole", "whole"]
