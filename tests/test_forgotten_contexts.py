"""A prompt that has no place for what was retrieved: the journey says where it was lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from haystack import Pipeline, component
from haystack.components.builders import ChatPromptBuilder, PromptBuilder
from haystack.dataclasses import ChatMessage
from haystack.dataclasses import Document as HaystackDocument
from haystack_integrations.components.evaluators.ragmetrics import (
    capture as capture_haystack,
)
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture
from llama_index.core import PromptTemplate
from llama_index.core.base.base_retriever import (
    BaseRetriever as LlamaIndexRetriever,
)
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex

from ragmetrics_core import Sample, evaluate
from ragmetrics_core.capture.forgotten_contexts import has_no_trace_of
from ragmetrics_core.reporting.sample_journey import SampleJourney, journey_of

QUESTION = "When was the Velm bridge opened?"
ANSWER = "I do not know."
TEXTS = [
    "The Velm bridge was opened in May of 1874 by the mayor, after years of quarrels.",
    "Carriages paid a toll of two pence there until the county bought the rights.",
]
INSTRUCTION = "You are a polite guide."
WHY = "holds no word of what was retrieved"


def followed(sample: Sample) -> SampleJourney:
    asked = sample.model_copy(update={"reference": (TEXTS[0],)})
    report = evaluate([asked], metrics=["accuracy"], judge="lexical")
    journey = journey_of(report.results[0])
    assert journey is not None
    expected = "not_shown" if is_known(sample) else None
    assert report.journey().mend == expected
    return journey


def is_known(sample: Sample) -> bool:
    assert sample.capture is not None
    return any(WHY in words for words in sample.capture.warnings)


def check_that_all_were_lost_at_the_prompt(sample: Sample) -> None:
    assert sample.capture is not None
    # the retrieved ones stand for the contexts, as a guess
    assert sample.capture.grade == "inferred"
    assert [context.text for context in sample.contexts] == TEXTS
    assert is_known(sample)
    assert sample.ledger is not None
    assert [call.shown for call in sample.ledger.calls] == [()]
    journey = followed(sample)
    assert [passage.lost for passage in journey.passages] == ["not_shown"] * 2
    assert [(fact.lost, fact.known) for fact in journey.facts] == [("not_shown", True)]
    assert not {"shown", "facts"} & set(journey.unknown)


def check_that_nothing_is_told(sample: Sample) -> None:
    assert not is_known(sample)
    journey = followed(sample)
    assert [passage.lost for passage in journey.passages] == [None] * 2
    assert [fact.known for fact in journey.facts] == [False]
    assert "shown" in journey.unknown
    # a retrieved text holds the fact: retrieval did not lose it
    asked = sample.model_copy(update={"reference": (TEXTS[0],)})
    whole = evaluate([asked], metrics=["accuracy"], judge="lexical").journey()
    retrieval = whole.of("not_retrieved", "facts")
    assert retrieval is not None
    assert (retrieval.lost, retrieval.of) == (0, 1)
    assert whole.of("not_shown", "facts") is None
    assert "of 1 of 1 fact it is not known what became of them" in whole.sentence
    assert "see whether the prompt has a place for the contexts" in whole.sentence


# LangChain


class Finds(BaseRetriever):
    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[Document]:
        return [Document(text) for text in TEXTS]


def chain_with(
    shown: Callable[[list[Document]], str], template: str, **settings: Any
) -> Sample:
    model = FakeListChatModel(responses=[ANSWER])
    chain = (
        {"context": Finds() | RunnableLambda(shown), "question": RunnablePassthrough()}
        | ChatPromptTemplate.from_template(template)
        | model.bind(**settings)
    )
    with capture() as captured:
        chain.invoke(QUESTION)
    (sample,) = captured.samples
    return sample


def joined(documents: list[Document]) -> str:
    return "\n".join(document.page_content for document in documents)


FORGETS = {
    "no place": (joined, INSTRUCTION + "\n{question}"),
    "an empty text": (lambda documents: "", INSTRUCTION + "\n{context}\n{question}"),
    "a place of another name": (
        joined,
        "Context: {{context}}\nQuestion: {question}",
    ),
}


@pytest.mark.parametrize("name", FORGETS)
def test_a_chain_whose_template_forgets_its_contexts(name: str) -> None:
    check_that_all_were_lost_at_the_prompt(chain_with(*FORGETS[name]))


MAY_SHOW: dict[str, tuple[Callable[[list[Document]], str], str, dict[str, Any]]] = {
    "a number that stands in a text": (
        lambda documents: "1874",
        "{context}\n{question}",
        {},
    ),
    "a word of a text": (lambda documents: "quarrels", "{context}\n{question}", {}),
    "room for other words": (
        lambda documents: "Die Bruecke ist seit langem offen, und alle freuen sich.",
        "{context}\n{question}",
        {},
    ),
    "documents beside the messages": (
        lambda documents: "",
        "{context}{question}",
        {"documents": [{"text": TEXTS[0]}]},
    ),
}


@pytest.mark.parametrize("name", MAY_SHOW)
def test_a_prompt_that_may_show_something_leaves_it_unknown(name: str) -> None:
    shown, template, settings = MAY_SHOW[name]
    check_that_nothing_is_told(chain_with(shown, template, **settings))


def test_an_image_in_the_prompt_may_show_what_was_retrieved() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aaaa"}}
    model = FakeListChatModel(responses=[ANSWER])

    def answer(question: str) -> Any:
        Finds().invoke(question)
        parts: list[Any] = [{"type": "text", "text": question}, image]
        return model.invoke([HumanMessage(parts)])

    with capture() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    check_that_nothing_is_told(sample)


def test_a_search_after_the_answer_was_not_lost_at_the_prompt() -> None:
    model = FakeListChatModel(responses=[ANSWER])

    def answer(question: str) -> Any:
        said = model.invoke(question)
        Finds().invoke(question)
        return said

    with capture() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    check_that_nothing_is_told(sample)


# LlamaIndex


class FindsNodes(LlamaIndexRetriever):
    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=text), score=1.0) for text in TEXTS]


class Says(CustomLLM):
    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        return CompletionResponse(text=ANSWER)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        yield CompletionResponse(text=ANSWER, delta=ANSWER)


def engine_with(template: str) -> Sample:
    engine = RetrieverQueryEngine.from_args(
        FindsNodes(), llm=Says(), text_qa_template=PromptTemplate(template)
    )
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    (sample,) = captured.samples
    return sample


def test_an_engine_whose_template_forgets_its_contexts() -> None:
    sample = engine_with(INSTRUCTION + "\n{query_str}")
    check_that_all_were_lost_at_the_prompt(sample)


def test_an_engine_whose_prompt_may_show_something_leaves_it_unknown() -> None:
    check_that_nothing_is_told(engine_with("Of the quarrels: {query_str}"))


# Haystack


@component
class FindsDocuments:
    @component.output_types(documents=list[HaystackDocument])
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": [HaystackDocument(content=text) for text in TEXTS]}


@component
class Generates:
    @component.output_types(replies=list[str])
    def run(self, prompt: str) -> dict[str, Any]:
        return {"replies": [ANSWER]}


@component
class GeneratesMessages:
    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        return {"replies": [ChatMessage.from_assistant(ANSWER)]}


@component
class GeneratesFromText:
    """Takes the text of a prompt builder where others take messages."""

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: str) -> dict[str, Any]:
        return {"replies": [ChatMessage.from_assistant(ANSWER)]}


TEMPLATE = INSTRUCTION + "\n{{ query }}{% if false %}{{ documents }}{% endif %}"
BUILDERS = {
    "text": lambda: (PromptBuilder(template=TEMPLATE), Generates(), "prompt"),
    "messages": lambda: (
        ChatPromptBuilder(template=[ChatMessage.from_user(TEMPLATE)]),
        GeneratesMessages(),
        "messages",
    ),
    "text in the place of messages": lambda: (
        PromptBuilder(template=TEMPLATE),
        GeneratesFromText(),
        "messages",
    ),
}


def test_a_pipeline_whose_prompt_may_show_something_leaves_it_unknown() -> None:
    template = TEMPLATE + " The mayor and the quarrels are not to be named."
    check_that_nothing_is_told(pipeline_with(PromptBuilder(template), Generates()))


@pytest.mark.parametrize("name", BUILDERS)
def test_a_pipeline_whose_template_forgets_its_contexts(name: str) -> None:
    check_that_all_were_lost_at_the_prompt(pipeline_with(*BUILDERS[name]()))


def pipeline_with(builder: Any, generator: Any, socket: str = "prompt") -> Sample:
    pipeline = Pipeline()
    pipeline.add_component("retriever", FindsDocuments())
    pipeline.add_component("builder", builder)
    pipeline.add_component("llm", generator)
    pipeline.connect("retriever.documents", "builder.documents")
    pipeline.connect("builder.prompt", f"llm.{socket}")
    with capture_haystack() as captured:
        pipeline.run({"retriever": {"query": QUESTION}, "builder": {"query": QUESTION}})
    (sample,) = captured.samples
    return sample


# The rule itself


WORDS = st.text("abcdefghij", min_size=4, max_size=8)


@given(
    st.lists(st.lists(WORDS, min_size=12, max_size=20), min_size=1, max_size=5),
    st.data(),
)
def test_a_prompt_with_a_word_of_a_single_document_has_a_trace(
    documents: list[list[str]], data: st.DataObject
) -> None:
    """And so has one with all words of a document in other words, or with a number."""
    texts = [f"{' '.join(words)} {n}" for n, words in enumerate(documents, start=71)]
    question = "Who?"
    assert has_no_trace_of(texts, [question, "Say it."], [question])
    index = data.draw(st.integers(0, len(texts) - 1))
    others = {word for words in documents[:index] for word in words}
    others |= {word for words in documents[index + 1 :] for word in words}
    own_words = [word for word in documents[index] if word not in others]
    for word in [*own_words[:1], str(71 + index)]:
        assert not has_no_trace_of(texts, [f"{question} {word}"], [question])
    in_other_words = "K".join(texts[index]).replace(" ", "")
    assert not has_no_trace_of(texts, [question, in_other_words], [question])


def test_without_documents_there_is_nothing_to_forget() -> None:
    assert not has_no_trace_of([], [QUESTION], [QUESTION])
