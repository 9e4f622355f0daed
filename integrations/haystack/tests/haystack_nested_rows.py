"""Shapes of Haystack applications: memory and conversations, nested pipelines."""

from __future__ import annotations

from typing import Any

from haystack import Document, SuperComponent, component
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder, PromptBuilder
from haystack.components.joiners import ListJoiner
from haystack.dataclasses import ChatMessage
from haystack_rows import (
    QUESTION,
    TEMPLATE,
    Build,
    Expected,
    Row,
    Swallowing,
    adding_to,
    asked,
    bm25,
    connected,
    first_sentence,
    llm,
    rag,
    retriever,
)

ROWS: dict[str, Build] = {}
row = adding_to(ROWS)


@component
class Remembering:
    """Earlier turns, whose prompts hold old contexts."""

    @component.output_types(messages=list[ChatMessage])
    def run(self, key: str) -> dict[str, Any]:
        old = (
            "- Anna Brandt kept the lighthouse lamp until 1903.\n\nQuestion: Who kept"
            " the lamp?"
        )
        return {
            "messages": [
                ChatMessage.from_user(old),
                ChatMessage.from_assistant("Anna Brandt"),
            ]
        }


@component
class Inner:
    """A component that runs a pipeline of its own."""

    def __init__(self) -> None:
        self.pipeline = connected(retriever=retriever())

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        return self.pipeline.run({"retriever": {"query": query}})["retriever"]


# Memory and conversations


@row
def swallowed_by_a_writer() -> Row:
    app = rag(memory=Swallowing())
    app.connect("llm.replies", "memory.messages")
    return Row(
        app,
        asked("retriever", "prompt"),
        [Expected(bm25(), first_sentence(bm25()))],
    )


@row
def with_memory() -> Row:
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("memory.messages", "joiner.values"),
        ("prompt.prompt", "joiner.values"),
        ("joiner.values", "llm.messages"),
        memory=Remembering(),
        retriever=retriever(1),
        prompt=ChatPromptBuilder([ChatMessage.from_user(TEMPLATE)]),
        joiner=ListJoiner(list[ChatMessage]),
        llm=llm(),
    )
    inputs = {**asked("retriever", "prompt"), "memory": {"key": "s1"}}
    found = bm25(top_k=1)
    expected = Expected(found, first_sentence(found), retrieved=found, history=2)
    return Row(app, inputs, [expected], modes=("run",))


@row
def conversation() -> Row:
    turns = [
        ChatMessage.from_user("Is there a lighthouse?"),
        ChatMessage.from_assistant("Yes."),
        ChatMessage.from_user(QUESTION),
    ]
    app = connected(
        ("llm.replies", "answers.replies"), llm=llm(), answers=AnswerBuilder()
    )
    return Row(
        app,
        {"llm": {"messages": turns}, "answers": {"query": QUESTION}},
        [Expected([], first_sentence([]), history=2, doubts=("no_search",))],
    )


# Nested pipelines


@row
def whole_rag_in_a_super_component() -> Row:
    inner = rag(answers=AnswerBuilder())
    inner.connect("llm.replies", "answers.replies")
    outer = connected(
        rag=SuperComponent(
            inner,
            {"query": ["retriever.query", "prompt.query", "answers.query"]},
            {"answers.answers": "answers"},
        )
    )
    return Row(
        outer,
        asked("rag"),
        [Expected(bm25(), first_sentence(bm25()), retrieved=bm25())],
    )


@row
def pipeline_in_a_component() -> Row:
    app = connected(
        ("inner.documents", "prompt.documents"),
        ("prompt", "llm"),
        inner=Inner(),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
    )
    return Row(
        app,
        asked("inner", "prompt"),
        [Expected(bm25(), first_sentence(bm25()), retrieved=bm25())],
    )
