"""Nodes of a graph that pick documents under another key of its state, or are called for one document each.

The state keeps all documents beside those that were picked. The answering prompt tells
from which of the lists it was written.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_ragmetrics import capture
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from test_planted_losses import ANSWER, QUESTION, Found, journeys
from test_planted_losses_of_same_ids import PROMPT
from typing_extensions import TypedDict

from ragmetrics_core import Sample


class State(TypedDict, total=False):
    question: str
    documents: list[Document]
    picked: list[Document]
    ranked: list[Document]
    approved: Annotated[list[Document], operator.add]
    answer: str


def search(state: State) -> State:
    return {"documents": Found().invoke(state["question"])}


def answers_from(key: str) -> Callable[[State], State]:
    """A node that answers from the documents that the state holds under a key."""
    model = FakeListChatModel(responses=[ANSWER])

    def generate(state: State) -> State:
        documents: Any = state.get(key) or []
        context = "\n\n".join(document.page_content for document in documents)
        asked = {"context": context, "question": state["question"]}
        return {"answer": str(model.invoke(PROMPT.invoke(asked)).content)}

    return generate


def graph_of(*nodes: Callable[[State], State]) -> Sample:
    """What is captured of a graph whose nodes run one after the other."""
    builder = StateGraph(State)
    last = START
    for node in nodes:
        builder.add_node(node.__name__, node)
        builder.add_edge(last, node.__name__)
        last = node.__name__
    builder.add_edge(last, END)
    return captured_run(builder)


def captured_run(builder: Any) -> Sample:
    with capture() as captured:
        builder.compile().invoke({"question": QUESTION})
    (sample,) = captured.samples
    return sample


def told(sample: Sample) -> list[tuple[bool | None, str | None]]:
    """Of each passage whether it was kept, and who dropped it."""
    assert sample.capture is not None
    return [(note.kept, note.dropped_by) for note in sample.capture.passages or ()]


def as_they_are(documents: Sequence[Document]) -> list[Document]:
    return list(documents)


def as_copies(documents: Sequence[Document]) -> list[Document]:
    return [
        Document(document.page_content, metadata={"score": 0.5})
        for document in documents
    ]


Form: TypeAlias = Callable[[Sequence[Document]], list[Document]]
FORMS = pytest.mark.parametrize("form", [as_they_are, as_copies])
KEPT = (True, None)


def pick_two(form: Form) -> Callable[[State], State]:
    """Make the node "pick", which puts the first two documents under another key."""

    def pick(state: State) -> State:
        return {"picked": form(state["documents"][:2])}

    return pick


@FORMS
def test_a_node_that_picks_under_another_key_dropped_the_others(form: Form) -> None:
    sample = graph_of(search, pick_two(form), answers_from("picked"))
    assert told(sample) == [KEPT, KEPT, (False, "pick")]
    judged, unjudged = journeys(sample)
    assert (judged.mend, unjudged.mend) == ("not_kept", "not_kept")


@FORMS
def test_two_nodes_that_pick_each_under_a_key_of_its_own(form: Form) -> None:
    def rank(state: State) -> State:
        return {"ranked": form(state["picked"][1:])}

    sample = graph_of(search, pick_two(form), rank, answers_from("ranked"))
    assert told(sample) == [(False, "rank"), KEPT, (False, "pick")]


def test_a_pick_that_the_prompt_was_not_written_from_drops_nothing() -> None:
    def pick(state: State) -> State:
        return {"picked": state["documents"][:1]}

    sample = graph_of(search, pick, answers_from("documents"))
    assert not any(dropped_by for _, dropped_by in told(sample))
    assert sample.capture is not None
    assert [note.share for note in sample.capture.passages or ()] == [1.0] * 3


def test_a_pick_is_not_blamed_where_the_prompt_shows_no_document_at_all() -> None:
    """The prompt may have been written from the list of all documents, and have no place."""

    def pick(state: State) -> State:
        model = FakeListChatModel(responses=["yes"])
        for document in state["documents"]:
            model.invoke(f"Is it relevant?\n{document.page_content}")
        return {"picked": state["documents"][:1]}

    sample = graph_of(search, pick, answers_from("ranked"))
    assert sample.contexts == ()
    assert told(sample) == [(None, None)] * 3
    judged, _ = journeys(sample)
    assert judged.mend == "not_shown"


class OneDocument(TypedDict):
    number: int
    document: Document


@FORMS
@pytest.mark.parametrize("asks_a_model", [False, True])
@pytest.mark.parametrize("approved", [(0,), (0, 1), (2,)])
def test_a_grader_that_is_called_for_each_document_drops_those_that_it_rejects(
    approved: tuple[int, ...],
    form: Form,
    *,
    asks_a_model: bool,
) -> None:
    def for_each(state: State) -> list[Send]:
        return [
            Send("grade", {"number": number, "document": document})
            for number, document in enumerate(state["documents"])
        ]

    def grade(state: OneDocument) -> State:
        is_approved = state["number"] in approved
        if asks_a_model:
            verdict = "yes" if is_approved else "no"
            model = FakeListChatModel(responses=[verdict])
            model.invoke(f"Is it relevant?\n{state['document'].page_content}")
        return {"approved": form([state["document"]]) if is_approved else []}

    builder = StateGraph(State)
    builder.add_node("search", search)
    builder.add_node("grade", grade)
    builder.add_node("generate", answers_from("approved"))
    builder.add_edge(START, "search")
    builder.add_conditional_edges("search", for_each, ["grade"])
    builder.add_edge("grade", "generate")
    builder.add_edge("generate", END)
    sample = captured_run(builder)
    expected = [KEPT if number in approved else (False, "grade") for number in range(3)]
    assert told(sample) == expected
    judged, unjudged = journeys(sample)
    assert unjudged.mend == "not_kept"
    assert judged.mend == (None if 2 in approved else "not_kept")
