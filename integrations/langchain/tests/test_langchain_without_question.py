"""Where nobody asked anything that can be read, nothing is exact.

A document is never the question. The user's message to a model without a chain is one.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_fakes import Shelf, Speaker, document, joined
from langchain_ragmetrics import capture

BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
SUMMARY = "A summary: the bridge of 1874, opened by the mayor."


def summarised(value: object) -> str:
    found = joined(Shelf(books=[document(BRIDGE, "bridge")]).invoke(""))
    return str(Speaker(lines=SUMMARY).invoke(f"Summarise this:\n{found}").text)


def by_number() -> None:
    RunnableLambda(summarised).invoke(3)


def by_settings() -> None:
    RunnableLambda(summarised).invoke({"limit": 3, "pages": 4})


def by_nothing() -> None:
    RunnableLambda(summarised).invoke({})


def blank() -> None:
    RunnableLambda(summarised).invoke({"question": "  "})


@pytest.mark.parametrize("application", [by_number, by_settings, by_nothing, blank])
def test_without_a_question_nothing_is_exact(application: Callable[[], None]) -> None:
    with capture() as captured:
        application()
    (sample,) = captured.samples
    assert not (sample.question or "").strip()
    assert [context.text for context in sample.known_contexts] == [BRIDGE]
    assert sample.capture is not None
    assert "question_guessed" in sample.capture.doubts


def test_a_question_that_the_caller_says_is_one() -> None:
    with capture(question="What does the page say?") as captured:
        by_number()
    (sample,) = captured.samples
    assert sample.question == "What does the page say?"
    assert sample.capture is not None
    assert (sample.capture.grade, sample.capture.warnings) == ("exact", ())


def test_documents_that_a_chain_is_given_are_not_the_question() -> None:
    """A script: a search, a chain that summarises what it found, a chain that writes on the summary."""
    question = "When was the bridge of Velm opened?"
    summarise = (
        ChatPromptTemplate.from_template("Summarise: {text}")
        | Speaker(lines=SUMMARY)
        | StrOutputParser()
    )
    write = (
        ChatPromptTemplate.from_template("Write a post: {text}")
        | Speaker(lines="Come to Velm!")
        | StrOutputParser()
    )
    with capture() as captured:
        found = Shelf(books=[document(BRIDGE, "bridge")]).invoke(question)
        write.invoke({"text": summarise.invoke({"text": joined(found)})})
    (sample,) = captured.samples
    assert sample.question == question
    assert sample.standalone_question is None
    assert [context.text for context in sample.known_contexts] == [BRIDGE]
