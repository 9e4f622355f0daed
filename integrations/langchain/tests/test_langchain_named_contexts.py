"""Contexts that the user names: what the run returned goes first, what has no text is refused, none is not exact."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
from langchain_core.runnables import RunnableLambda
from langchain_fakes import Speaker
from langchain_ragmetrics import capture
from langgraph.graph import START, StateGraph

QUESTION = "When was the bridge of Velm opened?"
BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
ANSWER = "It was opened in 1874."


class State(TypedDict):
    question: str
    chunks: list[Any]
    answer: str


def run(found: list[Any], begins_with: list[Any] | None = None) -> None:
    """A graph that searches where LangChain does not see it, and starts with an empty list."""

    def search(state: State) -> dict[str, Any]:
        return {"chunks": found}

    def answer(state: State) -> dict[str, Any]:
        shown = f"Use only this:\n{state['chunks']}\n\nQuestion: {state['question']}"
        return {"answer": Speaker(lines=ANSWER).invoke(shown).text}

    graph = StateGraph(State)
    graph.add_node("search", search)
    graph.add_node("reply", answer)
    graph.add_edge(START, "search")
    graph.add_edge("search", "reply")
    graph.compile().invoke(
        {"question": QUESTION, "chunks": begins_with or [], "answer": ""}
    )


def test_what_the_run_returned_goes_before_what_it_was_given() -> None:
    with capture(contexts_from="chunks") as captured:
        run([{"text": BRIDGE, "source": "a.md"}])
        run([BRIDGE], begins_with=["an old list"])
    for sample in captured.samples:
        assert [context.text for context in sample.known_contexts] == [BRIDGE]
        assert sample.answer == ANSWER
    assert len(captured.samples) == 2


def test_contexts_that_nothing_recorded_brought_arrived_all_the_same() -> None:
    with capture(contexts_from="chunks") as captured:
        run([{"text": BRIDGE, "source": "a.md"}])
    (sample,) = captured.samples
    assert sample.retrieved is None
    assert sample.ledger is not None
    (call,) = sample.ledger.calls
    assert (call.kind, call.query, call.shown) == ("retrieval", None, (0,))
    assert [item.text for item in call.items] == [BRIDGE]
    assert sample.capture is not None
    assert (sample.capture.grade, sample.capture.evidence_from) == ("exact", "named")


def test_dictionaries_without_a_text_are_refused() -> None:
    with capture(contexts_from="chunks") as captured:
        run([{"body_html": BRIDGE, "source": "a.md"}])
    assert not captured.samples
    (problem,) = captured.problems.counts
    assert "body_html, source" in problem
    assert BRIDGE not in problem


def test_where_no_context_is_named_nothing_is_exact() -> None:
    with capture(contexts_from="chunks") as captured:
        run([])
    (sample,) = captured.samples
    assert sample.contexts == ()
    assert sample.capture is not None
    assert sample.capture.grade != "exact"
    assert any("contexts_from" in warning for warning in sample.capture.warnings)


@pytest.mark.parametrize("path", ["chunks", "output.chunks"])
def test_a_path_that_leads_nowhere_is_not_exact(path: str) -> None:
    with capture(contexts_from=path) as captured:
        RunnableLambda(
            lambda question: str(Speaker(lines=ANSWER).invoke(question).text)
        ).invoke(QUESTION)
    grades = [
        sample.capture.grade
        for sample in captured.samples
        if sample.capture is not None
    ]
    assert "exact" not in grades
    assert grades or captured.problems.counts


def test_a_run_that_is_refused_takes_no_other_with_it() -> None:
    with capture(contexts_from="chunks") as captured:
        for found in ([BRIDGE], [{"body_html": BRIDGE}], [{"text": BRIDGE}]):
            run(found)
    assert [
        [context.text for context in sample.known_contexts]
        for sample in captured.samples
    ] == [[BRIDGE], [BRIDGE]]
