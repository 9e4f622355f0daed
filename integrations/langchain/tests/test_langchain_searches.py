"""A search that finds nothing is a search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.tools import BaseTool, create_retriever_tool, tool
from langchain_fakes import Shelf, Speaker, calls, document, joined
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
    return create_retriever_tool(Shelf(books=books), "search", "Searches.", response_format="content_and_artifact")


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


TOOLS = [of_the_framework, of_the_framework_with_artifact, with_artifact, with_a_retriever_inside]


def asked(made: Callable[[], BaseTool], *queries: str, answer: str) -> Sample:
    with capture() as captured:
        lines: list[Any] = [*(calls("search", query=query) for query in queries), answer]
        create_agent(Speaker(lines=lines), [made()]).invoke({"messages": [("user", QUESTION)]})
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize("made", TOOLS)
def test_a_search_that_found_nothing_is_a_search(made: Callable[[], BaseTool]) -> None:
    sample = asked(made, "opening year", answer="I do not know.")
    assert (sample.retrieved, sample.contexts, sample.answer) == ((), (), "I do not know.")
    assert sample.capture is not None
    assert sample.capture.evidence_from == "none_found"
    assert sample.capture.warnings == ()
    assert sample.ledger is not None
    assert [(call.kind, call.query, call.items) for call in sample.ledger.calls] == [("retrieval", "opening year", ())]


@pytest.mark.parametrize("made", TOOLS)
def test_the_query_after_a_search_that_found_nothing_is_no_rewrite(made: Callable[[], BaseTool]) -> None:
    sample = asked(made, "opening year", "bridge of Velm", answer="In 1874.")
    assert [context.text for context in sample.contexts] == [BRIDGE]
    assert sample.standalone_question is None
    assert sample.ledger is not None
    kinds = [(call.kind, call.query, len(call.items)) for call in sample.ledger.calls]
    assert kinds == [("retrieval", "opening year", 0), ("retrieval", "bridge of Velm", 1)]
