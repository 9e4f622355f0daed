"""Documents that a step makes of a tool's result (corrective RAG): what the prompt shows of them was shown."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.tools import tool
from langchain_fakes import Shelf, Speaker, document, joined
from langchain_ragmetrics import capture
from langgraph.graph import START, StateGraph

QUESTION = "When was the bridge of Velm opened?"
BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
WEB = [
    "The bridge of Velm is a listed monument today.",
    "On opening day in 1874 a band played on the bridge.",
]


class State(TypedDict):
    question: str
    documents: list[Document]
    generation: str


@tool
def web_search(query: str) -> list[dict[str, str]]:
    """Searches the web."""
    return [
        {"content": text, "url": f"https://web.example/{number}"}
        for number, text in enumerate(WEB)
    ]


def as_one_each(results: list[dict[str, str]]) -> list[Document]:
    return [
        Document(result["content"], metadata={"url": result["url"]})
        for result in results
    ]


def as_one(results: list[dict[str, str]]) -> list[Document]:
    return [Document("\n".join(result["content"] for result in results))]


@pytest.mark.parametrize("made", [as_one_each, as_one])
@pytest.mark.parametrize("shown", [True, False])
def test_a_tools_result_that_stands_in_the_prompt_as_documents_was_shown(
    made: Any, shown: bool
) -> None:
    def retrieve(state: State) -> dict[str, Any]:
        return {
            "documents": (
                Shelf(books=[document(BRIDGE, "bridge")]).invoke(state["question"])
            )
        }

    def search(state: State) -> dict[str, Any]:
        found = made(web_search.invoke({"query": state["question"]}))
        return {"documents": [*state["documents"], *(found if shown else [])]}

    def generate(state: State) -> dict[str, Any]:
        prompt = (
            f"Use only this:\n{joined(state['documents'])}\n\nQuestion:"
            f" {state['question']}"
        )
        return {"generation": str(Speaker(lines="In 1874.").invoke(prompt).text)}

    graph = StateGraph(State)
    before = START
    for name, node in (
        ("retrieve", retrieve),
        ("search", search),
        ("generate", generate),
    ):
        graph.add_node(name, node)
        graph.add_edge(before, name)
        before = name
    with capture() as captured:
        graph.compile().invoke({"question": QUESTION})
    (sample,) = captured.samples
    assert [context.text for context in sample.known_contexts] == [
        BRIDGE,
        *(
            one.page_content
            for one in (made(web_search.invoke({"query": ""})) if shown else [])
        ),
    ]
    assert sample.ledger is not None
    tools = [call.shown for call in sample.ledger.calls if call.kind == "tool"]
    assert () not in tools if shown else tools == [()]
