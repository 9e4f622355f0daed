"""What a prompt shows twice, what another call showed, and what an earlier message showed already."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_fakes import Shelf, Speaker, document, joined
from langchain_ragmetrics import capture

from ragmetrics_core.data.sample import Sample

QUESTION = "When was the bridge of Velm opened, and how often does the ferry go?"
BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
FERRY = "The Osta ferry crosses the lake every hour in summer."


def texts(sample: Sample) -> list[str]:
    return [context.text for context in sample.known_contexts]


@pytest.mark.parametrize(
    "escaped",
    [html.escape, repr, json.dumps, lambda text: html.escape(html.escape(text))],
)
def test_a_document_that_a_prompt_shows_twice_in_two_forms_is_one_context(
    escaped: Any,
) -> None:
    text = (
        'It\'s "the" bridge of Öst & Velm, opened in 1874 by the <mayor> of the town.'
    )

    def answer(question: str) -> str:
        (found,) = Shelf(books=[document(text, "bridge")]).invoke(question)
        shown = f"{found.page_content}\n---\n{escaped(found.page_content)}"
        return str(Speaker(lines="In 1874.").invoke(f"{shown}\n{question}").text)

    with capture() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    assert texts(sample) == [text]
    assert sample.capture is not None
    assert sample.capture.doubts == {}


def test_a_document_that_only_an_earlier_answer_repeats_is_not_shown() -> None:
    """What the model said before is no evidence now."""
    shelf = Shelf(books=[document(BRIDGE, "bridge"), document(FERRY, "ferry")])
    history: list[BaseMessage] = [HumanMessage("The bridge?"), AIMessage(BRIDGE)]

    def answer(question: str) -> str:
        _, ferry = shelf.invoke(question)
        prompt = [SystemMessage(ferry.page_content), *history, HumanMessage(question)]
        return str(Speaker(lines="Every hour.").invoke(prompt).text)

    with capture() as captured:
        RunnableLambda(answer).invoke("How often does the ferry go?")
    (sample,) = captured.samples
    assert texts(sample) == [FERRY]


@pytest.mark.parametrize("n_letters", range(5, 60, 5))
def test_passages_that_are_cut_are_what_was_shown_or_in_doubt(n_letters: int) -> None:
    shelf = Shelf(books=[document(BRIDGE, "bridge"), document(FERRY, "ferry")])
    beginnings = [BRIDGE[:n_letters], FERRY[:n_letters]]

    def answer(question: str) -> str:
        shown = "\n".join(
            one.page_content[:n_letters] for one in shelf.invoke(question)
        )
        return str(Speaker(lines="In 1874.").invoke(f"{shown}\n\n{question}").text)

    with capture() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    assert sample.capture is not None
    is_right = [text.strip(" .") for text in texts(sample)] == [
        text.strip(" .") for text in beginnings
    ]
    assert is_right or {"in_part", "by_data_flow"} & set(sample.capture.doubts)


SENTENCES = [
    "The bridge was opened in 1874 by the mayor",
    "The ferry crosses the lake every hour in summer",
    "The mill ground corn until the flood of 1910",
]


class Splitting(BaseDocumentCompressor):
    """Cuts a document into its sentences, and keeps some of them."""

    kept: list[int]

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> list[Document]:
        sentences = documents[0].page_content.rstrip(".").split(". ")
        return [Document(sentences[place]) for place in self.kept]


@pytest.mark.parametrize("separator", ["\n\n", ". ", "\n---\n"])
@pytest.mark.parametrize("kept", [[0, 1, 2], [0, 1], [2, 1, 0], [1]])
def test_the_pieces_of_a_split_document_are_the_contexts(
    separator: str, kept: list[int]
) -> None:
    whole = Document(". ".join(SENTENCES) + ".")
    retriever = ContextualCompressionRetriever(
        base_compressor=Splitting(kept=kept), base_retriever=Shelf(books=[whole])
    )
    chain = (
        {
            "context": retriever
            | (lambda found: separator.join(one.page_content for one in found)),
            "question": RunnablePassthrough(),
        }
        | ChatPromptTemplate.from_template("{context}\nQuestion: {question}")
        | Speaker(lines="In 1874.")
    )
    with capture() as captured:
        chain.invoke(QUESTION)
    (sample,) = captured.samples
    assert texts(sample) == [SENTENCES[place] for place in kept]
    assert sample.retrieved is not None
    assert [one.text for one in sample.retrieved] == texts(sample)
    assert sample.capture is not None
    assert sample.capture.grade == "exact"
    assert sample.capture.warnings == ()


class Dropping(BaseDocumentCompressor):
    """Keeps the first document."""

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> list[Document]:
        return list(documents[:1])


def test_what_a_kept_prompt_shows_of_a_dropped_document_is_no_context() -> None:
    """The client keeps each whole prompt; a later search finds the same, and drops it."""
    pages = [document(BRIDGE, "bridge"), document(FERRY, "ferry")]

    def prompt(found: list[Document], question: str) -> HumanMessage:
        return HumanMessage(f"CONTEXT:\n{joined(found)}\nQUESTION:\n{question}")

    dropping = ContextualCompressionRetriever(
        base_compressor=Dropping(), base_retriever=Shelf(books=pages)
    )
    earlier = [
        HumanMessage("And the ferry?"),
        prompt(pages[1:], "And the ferry?"),
        AIMessage("Every hour, in summer."),
    ]

    def answered(messages: list[BaseMessage]) -> Any:
        question = str(messages[-1].text)
        found = dropping.invoke(question)
        model = Speaker(lines="In 1874.")
        return model.invoke([*messages[:-1], prompt(found, question)])

    with capture() as captured:
        RunnableLambda(answered).invoke([*earlier, HumanMessage(QUESTION)])
    (sample,) = captured.samples
    assert texts(sample) == [BRIDGE]
    assert [turn.content for turn in sample.history] == [
        "And the ferry?",
        "Every hour, in summer.",
    ]
