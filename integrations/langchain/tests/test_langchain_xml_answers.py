"""Answers in XML that ``XMLOutputParser`` reads, as in LangChain's how-to guide on citations."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import XMLOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_ragmetrics import capture

from ragmetrics_core import Sample

TEXTS = (
    "Descale the Aurora X2 every 200 cycles.",
    "The warranty excludes lime damage.",
)
ANSWER = "Every 200 cycles."


def citation(source_id: int, quote: str) -> str:
    return (
        f"<citation><source_id>{source_id}</source_id><quote>{quote}</quote></citation>"
    )


def shown(documents: list[Document]) -> str:
    return "\n".join(
        f"<source><source_id>{index}</source_id>"
        f"<article_snippet>{document.page_content}</article_snippet></source>"
        for index, document in enumerate(documents)
    )


def sample_of(reply: str) -> Sample:
    chain = RunnablePassthrough.assign(
        context=lambda inputs: [Document(text) for text in TEXTS]
    ).assign(
        answer=RunnablePassthrough.assign(
            context=lambda inputs: shown(inputs["context"])
        )
        | ChatPromptTemplate.from_template("{context}\n{question}")
        | FakeListChatModel(responses=[reply])
        | XMLOutputParser(parser="xml")
    )
    with capture() as captured:
        chain.invoke({"question": "How often?"})
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize(("source_id", "cited"), [(1, ((1,), ())), (3, ((), ("3",)))])
def test_the_answer_is_the_text_of_its_element(source_id: int, cited: Any) -> None:
    quote = "excludes lime damage" if source_id == 1 else "comes in red"
    citations = citation(0, "every 200 cycles") + citation(source_id, quote)
    sample = sample_of(
        f"<cited_answer><answer>{ANSWER}</answer>"
        f"<citations>{citations}</citations></cited_answer>"
    )
    assert sample.answer == ANSWER
    assert sample.capture is not None
    assert sample.capture.grade == "exact"
    found = [(one.contexts, one.dangling) for one in sample.citations or ()]
    assert found == [((0,), ()), cited]


def test_a_list_of_equal_things_is_no_element_with_an_answer() -> None:
    facts = "<facts><text>It is old.</text><text>It fell.</text></facts>"
    sample = sample_of(facts)
    assert sample.answer == '{"facts": [{"text": "It is old."}, {"text": "It fell."}]}'


def test_a_list_of_a_single_thing_is_no_element_with_an_answer() -> None:
    sample = sample_of("<facts><text>It is old.</text></facts>")
    assert sample.answer == '{"facts": [{"text": "It is old."}]}'
