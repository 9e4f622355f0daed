"""Answers that a second call writes from a first answer, which cites numbered contexts."""

from __future__ import annotations

from haystack import Pipeline
from haystack.components.builders import PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack_integrations.components.evaluators import (
    ragmetrics as haystack_ragmetrics,
)
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_ragmetrics import capture as capture_langchain
from test_planted_losses import QUESTION, Finds, Found

from ragmetrics_core import Sample


def in_langchain(draft: str, answer: str) -> Sample:
    """A chain that answers from numbered passages, and one that translates the answer."""
    context = Found() | (
        lambda documents: "\n".join(
            f"[{number}] {document.page_content}"
            for number, document in enumerate(documents, start=1)
        )
    )
    asked = ChatPromptTemplate.from_template("Cite.\n{context}\n\nAsked: {question}")
    translated = ChatPromptTemplate.from_template("Translate this:\n{draft}")
    drafts = (
        {"context": context, "question": RunnablePassthrough()}
        | asked
        | FakeListChatModel(responses=[draft])
        | StrOutputParser()
    )
    chain = {"draft": drafts} | translated | FakeListChatModel(responses=[answer])
    with capture_langchain() as captured:
        chain.invoke(QUESTION)
    (sample,) = captured.samples
    return sample


def in_haystack(draft: str, answer: str) -> Sample:
    """The same as a pipeline of Haystack."""
    numbered = (
        "{% for d in documents %}[{{ loop.index }}] {{ d.content }}\n{% endfor %}"
    )
    pipeline = Pipeline()
    pipeline.add_component("finds", Finds((0, 1, 2)))
    pipeline.add_component(
        "asked",
        PromptBuilder(
            f"Cite.\n{numbered}\nAsked: {{{{ query }}}}",
            required_variables=["documents", "query"],
        ),
    )
    pipeline.add_component("drafts", MockChatGenerator(draft))
    pipeline.add_component(
        "translated",
        PromptBuilder(
            "Translate this:\n{{ replies[0].text }}", required_variables=["replies"]
        ),
    )
    pipeline.add_component("translates", MockChatGenerator(answer))
    pipeline.connect("finds.documents", "asked.documents")
    pipeline.connect("asked.prompt", "drafts.messages")
    pipeline.connect("drafts.replies", "translated.replies")
    pipeline.connect("translated.prompt", "translates.messages")
    with haystack_ragmetrics.capture() as captured:
        pipeline.run({"finds": {"query": QUESTION}, "asked": {"query": QUESTION}})
    (sample,) = captured.samples
    return sample


def test_a_number_that_the_writing_call_was_not_shown_is_unknown() -> None:
    for draft in ("The keeper lived next door [3].", "The keeper lived next door."):
        for written in (in_langchain, in_haystack):
            sample = written(draft, "Der Waerter wohnte nebenan [1].")
            assert sample.citations is None
            assert "was not shown this number" in sample.citations_unknown


def test_a_number_of_the_first_answer_is_handed_on() -> None:
    draft = "The keeper lived next door [3]. It is old [1-2]."
    answer = "Der Waerter wohnte nebenan [3]. Es ist alt [2]."
    for written in (in_langchain, in_haystack):
        sample = written(draft, answer)
        assert [c.contexts for c in sample.citations or ()] == [(2,), (1,)]
