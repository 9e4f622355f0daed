"""Shapes of Haystack applications: runs that do not end well, and what the user says."""

from __future__ import annotations

from typing import Any

from haystack import Document, SuperComponent, component
from haystack.components.builders import (
    AnswerBuilder,
    ChatPromptBuilder,
    PromptBuilder,
)
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.joiners import ListJoiner
from haystack.dataclasses import ChatMessage
from haystack_integrations.components.evaluators.ragmetrics import RagMetricsEvaluator
from haystack_rows import (
    QUESTION,
    TEMPLATE,
    Build,
    Expected,
    Row,
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
class Breaking:
    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        raise RuntimeError("the store is gone")


# Runs that do not end well


@row
def broken_retriever() -> Row:
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        retriever=Breaking(),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
    )
    return Row(
        app,
        asked("retriever", "prompt"),
        [
            Expected(
                [], None, error=True, complete=False, doubts=("no_answer", "no_search")
            )
        ],
    )


@row
def abandoned() -> Row:
    return Row(
        rag(),
        asked("retriever", "prompt"),
        [Expected(bm25(), None, complete=False, doubts=("no_answer",))],
        modes=("abandoned",),
    )


# What the user says, and what is no part of the application


@row
def with_the_evaluator_inside() -> Row:
    app = rag(
        answers=AnswerBuilder(),
        evaluator=RagMetricsEvaluator(["context_adherence"], judge="lexical"),
    )
    app.connect("llm.replies", "answers.replies")
    app.connect("retriever.documents", "answers.documents")
    app.connect("answers.answers", "evaluator.answers")
    return Row(
        app,
        asked("retriever", "prompt", "answers"),
        [Expected(bm25(), first_sentence(bm25()))],
    )


@row
def overridden() -> Row:
    inner = rag(answers=AnswerBuilder())
    inner.connect("llm.replies", "answers.replies")
    outer = connected(
        rag=SuperComponent(
            inner,
            {"query": ["retriever.query", "prompt.query", "answers.query"]},
            {"answers.answers": "answers"},
        )
    )
    places = {
        "contexts_from": "rag.retriever.documents",
        "answer_from": "rag.prompt.prompt",
        "question_from": "rag.query",
    }
    prompt = PromptBuilder(TEMPLATE).run(documents=bm25(), query=QUESTION)["prompt"]
    return Row(
        outer,
        asked("rag"),
        [Expected(bm25(), prompt)],
        capture=places,
    )


@row
def builder_named() -> Row:
    app = rag(answers=AnswerBuilder(), shadow=MockChatGenerator("In 1856, I think."))
    app.connect("llm.replies", "answers.replies")
    app.connect("prompt", "shadow")
    return Row(
        app,
        asked("retriever", "prompt", "answers"),
        [Expected(bm25(), first_sentence(bm25()))],
        capture={"answer_from": "answers.answers"},
    )


@row
def generator_named() -> Row:
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        ("prompt", "shadow"),
        retriever=retriever(),
        prompt=PromptBuilder(TEMPLATE),
        llm=MockChatGenerator("In 1856."),
        shadow=MockChatGenerator("In 1856, I think."),
    )
    return Row(
        app,
        asked("retriever", "prompt"),
        [Expected(bm25(), "In 1856.")],
        capture={"answer_from": "llm"},
    )


@component
class Guarding:
    """Puts a text of its own in the place of a reply."""

    @component.output_types(final=str)
    def run(self, replies: list[ChatMessage]) -> dict[str, Any]:
        return {"final": f"[{len(replies)} removed]"}


@component
class Asking:
    @component.output_types(query=str)
    def run(self, replies: list[ChatMessage]) -> dict[str, Any]:
        return {"query": replies[0].text}


@row
def text_in_place_of_the_reply() -> Row:
    """Whatever the name of the one output."""
    app = rag(guard=Guarding())
    app.connect("llm.replies", "guard.replies")
    return Row(
        app,
        asked("retriever", "prompt"),
        [Expected(bm25(), "[1 removed]", doubts=("further_call",))],
    )


@row
def graded_in_one_list() -> Row:
    """The reply of the model and the grade of another one leave in one list."""
    app = rag(
        grade=ChatPromptBuilder(
            [ChatMessage.from_user("Grade: {{ replies[0].text }}")]
        ),
        grader=MockChatGenerator("Eight of ten, but short."),
        both=ListJoiner(list[ChatMessage]),
    )
    app.connect("llm.replies", "grade.replies")
    app.connect("grade.prompt", "grader.messages")
    app.connect("llm.replies", "both.values")
    app.connect("grader.replies", "both.values")
    return Row(
        app,
        asked("retriever", "prompt"),
        [Expected(bm25(), first_sentence(bm25()), doubts=("answer_guessed",))],
    )


@row
def two_texts_in_place_of_the_reply() -> Row:
    """Which of them the user is given nobody knows."""
    app = rag(guard=Guarding(), other=Guarding())
    app.connect("llm.replies", "guard.replies")
    app.connect("llm.replies", "other.replies")
    return Row(
        app,
        asked("retriever", "prompt"),
        [Expected(bm25(), first_sentence(bm25()), doubts=("answer_guessed",))],
    )


@row
def a_prompt_made_of_a_reply_and_documents() -> Row:
    """Its answer is written elsewhere."""
    app = connected(
        ("rewrite", "rewriter.messages"),
        ("rewriter.replies", "asks.replies"),
        ("asks.query", "retriever.query"),
        ("asks.query", "prompt.query"),
        ("retriever.documents", "prompt.documents"),
        rewrite=PromptBuilder("Rewrite: {{ query }}", required_variables="*"),
        rewriter=MockChatGenerator(QUESTION),
        asks=Asking(),
        retriever=retriever(),
        prompt=PromptBuilder(TEMPLATE),
    )
    return Row(
        app,
        asked("rewrite"),
        [Expected(bm25(), None, doubts=("by_data_flow", "no_answer"))],
    )
