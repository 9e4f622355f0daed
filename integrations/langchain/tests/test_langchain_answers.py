"""The answer is what the application says to its user: no verdict, no query, no stream's name, no draft."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_fakes import Shelf, Speaker, calls, document, joined
from langchain_ragmetrics import capture
from langgraph.graph import START, StateGraph
from pydantic import BaseModel

from ragmetrics_core.data.sample import Sample

QUESTION = "When was the bridge of Velm opened?"
BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
FERRY = "The Osta ferry crosses the lake every hour in summer."
ANSWER = "It was opened in 1874."
SUMMARY = "A summary: the bridge of 1874, opened by the mayor."
POST = "Come and see our old bridge, built long ago! #velm"


def shelf() -> Shelf:
    return Shelf(books=[document(BRIDGE, "bridge"), document(FERRY, "ferry")])


def said(line: Any, prompt: str) -> str:
    return str(Speaker(lines=line).invoke(prompt).text)


def grounded(state: dict[str, Any]) -> tuple[str, str]:
    """The documents found, as text, and the answer that a model wrote from them."""
    found = joined(shelf().invoke(state["question"]))
    return found, said(
        ANSWER, f"Use only this:\n{found}\n\nQuestion: {state['question']}"
    )


def only_sample(application: Callable[[], object]) -> Sample:
    with capture() as captured:
        application()
    (sample,) = captured.samples
    return sample


def texts(sample: Sample) -> list[str]:
    return [context.text for context in sample.known_contexts]


def grade(sample: Sample) -> str:
    assert sample.capture is not None
    return str(sample.capture.grade)


def codes(sample: Sample) -> list[str]:
    assert sample.capture is not None
    return sorted(sample.capture.doubts or ())


def graph(state: type, **nodes: Callable[[Any], dict[str, Any]]) -> Runnable[Any, Any]:
    """Steps one after the other."""
    made = StateGraph(state)
    before = START
    for name, step in nodes.items():
        made.add_node(name, step)
        made.add_edge(before, name)
        before = name
    return made.compile()


@pytest.mark.parametrize(
    "verdict", ["yes", "Yes.", "grounded", "not relevant", "supported"]
)
def test_a_verdict_on_the_answer_is_not_the_answer_for_sure(verdict: str) -> None:
    """Self-RAG and its many copies return what the last node decided beside the draft."""

    def answer_and_check(state: dict[str, Any]) -> dict[str, Any]:
        found, draft = grounded(state)
        return {
            "draft": draft,
            "output": said(verdict, f"Is this grounded? {draft}\n{found}"),
        }

    sample = only_sample(
        lambda: RunnableLambda(answer_and_check).invoke({"question": QUESTION})
    )
    assert sample.answer == ANSWER or codes(sample) == ["answer_guessed"]
    assert texts(sample) == [BRIDGE, FERRY]


@pytest.mark.parametrize(
    "verdict", ["yes", '{"binary_score": "yes"}', '{"grounded": true, "score": 1}']
)
def test_a_run_that_returns_only_a_verdict_is_not_answered_by_it_for_sure(
    verdict: str,
) -> None:
    def check(state: dict[str, Any]) -> str:
        found, draft = grounded(state)
        return said(verdict, f"Is this grounded? {draft}\n{found}")

    sample = only_sample(lambda: RunnableLambda(check).invoke({"question": QUESTION}))
    assert sample.answer == ANSWER or grade(sample) != "exact"


@pytest.mark.parametrize("key", ["result", "output", "text"])
def test_a_query_that_the_run_returns_is_not_its_answer_for_sure(key: str) -> None:
    query = "opening year of the bridge of Velm"

    def search(state: dict[str, Any]) -> dict[str, Any]:
        written = said(query, f"Rewrite this for a search: {state['question']}")
        return {key: written, "documents": shelf().invoke(written)}

    sample = only_sample(lambda: RunnableLambda(search).invoke({"question": QUESTION}))
    assert sample.standalone_question == query
    assert grade(sample) != "exact"


class PostState(TypedDict):
    question: str
    context: str
    summary: str
    answer: str
    post: str


def test_of_a_text_and_what_a_later_call_made_of_it_the_first_is_no_answer_for_sure() -> (
    None
):
    """Retrieve, summarise, write a post: who reads the post never sees the summary."""
    application = graph(
        PostState,
        retrieve=lambda state: {"context": joined(shelf().invoke(state["question"]))},
        summarise=lambda state: {
            "answer": said(
                SUMMARY, f"Summarise for {state['question']}:\n{state['context']}"
            )
        },
        write=lambda state: {
            "post": said(POST, f"Write a post on this: {state['answer']}")
        },
    )
    sample = only_sample(lambda: application.invoke({"question": QUESTION}))
    assert texts(sample) == [BRIDGE, FERRY]
    assert sample.answer == POST or grade(sample) != "exact"


class StreamState(TypedDict):
    question: str
    answer: Any


def test_the_name_of_a_stream_in_memory_is_no_answer() -> None:
    """An application puts the stream itself, or its ``str()``, where the answer belongs."""

    def answer(state: StreamState) -> dict[str, Any]:
        found = joined(shelf().invoke(state["question"]))
        return {
            "answer": str(Speaker(lines=ANSWER).stream(f"{found}\n{state['question']}"))
        }

    sample = only_sample(
        lambda: graph(StreamState, answer=answer).invoke({"question": QUESTION})
    )
    assert sample.answer is None
    assert grade(sample) == "incomplete"


# A structure with a field for the answer, which the model leaves empty where nothing answers


class Cited(BaseModel):
    """An answer, and what it rests on."""

    answer: str | None
    citations: list[str] = []


def cited(text: str | None, *sources: str) -> AIMessage:
    return calls("Cited", answer=text, citations=list(sources))


def in_a_chain(line: AIMessage) -> None:
    def step(question: str) -> Any:
        structured = Speaker(lines=line).with_structured_output(Cited)
        return structured.invoke(f"{joined(shelf().invoke(question))}\n\n{question}")

    RunnableLambda(step).invoke(QUESTION)


def under_a_key(line: AIMessage) -> None:
    def step(given: dict[str, Any]) -> Any:
        found = shelf().invoke(given["input"])
        structured = Speaker(lines=line).with_structured_output(Cited)
        answered = structured.invoke(f"{joined(found)}\n\n{given['input']}")
        return {**given, "context": found, "answer": answered}

    RunnableLambda(step).invoke({"input": QUESTION})


def as_a_dictionary(line: AIMessage) -> None:
    def step(question: str) -> Any:
        found = joined(shelf().invoke(question))
        Speaker(lines=line).invoke(f"{found}\n\n{question}")
        return line.tool_calls[0]["args"]

    RunnableLambda(step).invoke(QUESTION)


def as_json(line: AIMessage) -> None:
    def step(question: str) -> str:
        found = joined(shelf().invoke(question))
        said_as_json = json.dumps(line.tool_calls[0]["args"])
        return said(said_as_json, f"{found}\n\n{question}")

    RunnableLambda(step).invoke(QUESTION)


@pytest.mark.parametrize("sources", [(), ("bridge.pdf",)])
@pytest.mark.parametrize("empty", [None, " "])
@pytest.mark.parametrize(
    "application", [in_a_chain, under_a_key, as_a_dictionary, as_json]
)
def test_an_answer_that_the_model_left_empty_is_none(
    application: Callable[[AIMessage], None], empty: str | None, sources: tuple[str]
) -> None:
    sample = only_sample(lambda: application(cited(empty, *sources)))
    assert sample.question == QUESTION
    assert sample.answer is None
    assert texts(sample) == [BRIDGE, FERRY]
    assert codes(sample) == ["no_answer"]
