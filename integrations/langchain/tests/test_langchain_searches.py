"""A search that finds nothing is a search.

An engine behind a tool shows its documents to its own model only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.tools import BaseTool, create_retriever_tool, tool
from langchain_fakes import Shelf, Speaker, calls, document, joined, rag
from langchain_ragmetrics import capture

from ragmetrics_core.data.sample import Sample

QUESTION = "When was the bridge of Velm opened?"
BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
NOTHING = "Nothing was found."


def books(query: str) -> list[Document]:
    return [document(BRIDGE, "bridge")] if "bridge" in query else []


def of_the_framework() -> BaseTool:
    return create_retriever_tool(Shelf(books=books), "search", "Searches.")


def of_the_framework_with_artifact() -> BaseTool:
    return create_retriever_tool(
        Shelf(books=books),
        "search",
        "Searches.",
        response_format="content_and_artifact",
    )


def with_artifact() -> BaseTool:
    """The tutorial's tool: text for the model, documents beside it, from a store that reports nothing."""

    @tool(response_format="content_and_artifact")
    def search(query: str) -> tuple[str, list[Document]]:
        """Searches."""
        found = books(query)
        return joined(found) or NOTHING, found

    return search


def with_a_retriever_inside() -> BaseTool:
    @tool
    def search(query: str) -> str:
        """Searches."""
        return joined(Shelf(books=books).invoke(query)) or NOTHING

    return search


TOOLS = [
    of_the_framework,
    of_the_framework_with_artifact,
    with_artifact,
    with_a_retriever_inside,
]


def asked(made: Callable[[], BaseTool], *queries: str, answer: str) -> Sample:
    with capture() as captured:
        lines: list[Any] = [
            *(calls("search", query=query) for query in queries),
            answer,
        ]
        create_agent(Speaker(lines=lines), [made()]).invoke(
            {"messages": [("user", QUESTION)]}
        )
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize("made", TOOLS)
def test_a_search_that_found_nothing_is_a_search(made: Callable[[], BaseTool]) -> None:
    sample = asked(made, "opening year", answer="I do not know.")
    assert (sample.retrieved, sample.contexts, sample.answer) == (
        (),
        (),
        "I do not know.",
    )
    assert sample.capture is not None
    assert sample.capture.doubts == {}
    assert sample.ledger is not None
    assert [(call.kind, call.query, call.items) for call in sample.ledger.calls] == [
        ("retrieval", "opening year", ())
    ]


@pytest.mark.parametrize("made", TOOLS)
def test_the_query_after_a_search_that_found_nothing_is_no_rewrite(
    made: Callable[[], BaseTool],
) -> None:
    sample = asked(made, "opening year", "bridge of Velm", answer="In 1874.")
    assert [context.text for context in sample.known_contexts] == [BRIDGE]
    assert sample.standalone_question is None
    assert sample.ledger is not None
    kinds = [(call.kind, call.query, len(call.items)) for call in sample.ledger.calls]
    assert kinds == [
        ("retrieval", "opening year", 0),
        ("retrieval", "bridge of Velm", 1),
    ]


class Guide(Speaker):
    """The model behind the tool."""


def test_capture_says_that_the_answering_call_saw_only_the_words_of_a_tool() -> None:
    guide = Guide(lines="The bridge dates from the year 1874, says the guide.")

    @tool
    def ask_the_guide(query: str) -> str:
        """Asks the guide."""
        return str(rag(Shelf(books=books), guide).invoke(query))

    speaker = Speaker(lines=[calls("ask_the_guide", query="bridge"), "In 1874."])
    with capture() as captured:
        create_agent(speaker, [ask_the_guide]).invoke(
            {"messages": [("user", QUESTION)]}
        )
    (sample,) = captured.samples
    assert [context.text for context in sample.known_contexts] == [BRIDGE]
    assert not any(BRIDGE in prompt for prompt in speaker.prompts)
    assert sample.capture is not None
    assert sample.capture.evidence_from == "prompt"  # that of the guide, which was read
