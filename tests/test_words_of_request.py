"""Words that a provider cites from a document of the request, and that the answer repeats."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_ragmetrics import capture

from ragmetrics_core import Sample

QUESTION = "When was the lighthouse opened?"
ANSWER = "It was opened on 4 May 1874."
GUIDE = "Answer from the documents, and be short."
TEXTS = (
    "The lighthouse is made of riveted iron plates from the Brenner foundry.",
    "The lighthouse was opened on 4 May 1874 by the mayor Elias Holm.",
)


class Shelf(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
        return [Document(text) for text in TEXTS]


def document(text: str) -> dict[str, Any]:
    return {"type": "document", "source": {"type": "text", "data": text}}


def asked(citation: dict[str, Any]) -> Sample:
    """A guide and the retrieved texts as Anthropic's documents; the answer cites this."""
    block = {"type": "text", "text": ANSWER, "citations": [citation]}
    model = GenericFakeChatModel(messages=iter([AIMessage([block])]))

    def answer(question: str) -> str:
        found = [document(each.page_content) for each in Shelf().invoke(question)]
        ask = {"type": "text", "text": question}
        return model.invoke([HumanMessage([document(GUIDE), *found, ask])]).text

    with capture() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize(
    "is_nested", [False, True], ids=["as sent", "as LangChain nests"]
)
@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("char_location", "document_index"),
        ("search_result_location", "search_result_index"),
    ],
)
def test_words_that_the_answer_repeats_are_a_quote_of_the_request(
    kind: str, place: str, is_nested: bool
) -> None:
    index = {"extras": {place: 2}} if is_nested else {place: 2}
    sample = asked({"type": kind, "cited_text": "4 May 1874", "title": None, **index})
    assert sample.capture is not None
    assert sample.capture.grade == "exact", sample.capture.warnings
    assert sample.citations is not None, sample.citations_unknown
    assert [citation.contexts for citation in sample.citations] == [(1,)]


def test_words_of_the_answer_without_a_place_are_no_quote() -> None:
    """As LangChain gives them for Gemini: the part of the answer that is cited for."""
    sample = asked({"type": "citation", "cited_text": ANSWER, "title": "a.txt"})
    assert sample.capture is not None
    assert sample.capture.grade == "incomplete"
    assert ANSWER not in [context.text for context in sample.contexts]
