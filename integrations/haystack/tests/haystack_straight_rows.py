"""Shapes of Haystack applications: straight pipelines."""

from __future__ import annotations

from typing import Any

from haystack import component
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder, PromptBuilder
from haystack.components.converters import OutputAdapter
from haystack.dataclasses import ChatMessage
from haystack_rows import (
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
class Several:
    """A generator with n replies."""

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        return {
            "replies": [
                ChatMessage.from_assistant(f"Variant {n}", meta={"model": "several"})
                for n in range(3)
            ]
        }


@row
def answer_builder() -> Row:
    app = rag(answers=AnswerBuilder())
    app.connect("llm.replies", "answers.replies")
    app.connect("retriever.documents", "answers.documents")
    return Row(
        app,
        asked("retriever", "prompt", "answers"),
        [Expected(bm25(), first_sentence(bm25()), retrieved=bm25())],
    )


@row
def chat_prompt_builder() -> Row:
    template = [
        ChatMessage.from_system("Answer in English."),
        ChatMessage.from_user(TEMPLATE),
    ]
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        retriever=retriever(),
        prompt=ChatPromptBuilder(template),
        llm=llm(),
    )
    return Row(
        app,
        asked("retriever", "prompt"),
        [Expected(bm25(), first_sentence(bm25()))],
    )


@row
def cited_documents_only() -> Row:
    app = rag(answers=AnswerBuilder(reference_pattern=r"(\d) lines"))
    app.connect("llm.replies", "answers.replies")
    app.connect("retriever.documents", "answers.documents")
    return Row(
        app,
        asked("retriever", "prompt", "answers"),
        [Expected(bm25(), first_sentence(bm25()))],
    )


@row
def documents_through_text() -> Row:
    app = connected(
        ("retriever.documents", "flatten.documents"),
        ("flatten", "prompt.context"),
        ("prompt", "llm"),
        retriever=retriever(),
        flatten=OutputAdapter(
            "{% for d in documents %}- {{ d.content }}\n{% endfor %}", str
        ),
        prompt=PromptBuilder("{{ context }}\nQuestion: {{ query }}"),
        llm=llm(),
    )
    return Row(
        app,
        asked("retriever", "prompt"),
        [Expected(bm25(), first_sentence(bm25()), retrieved=bm25())],
    )


@row
def several_replies() -> Row:
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        ("llm.replies", "answers.replies"),
        retriever=retriever(),
        prompt=PromptBuilder(TEMPLATE),
        llm=Several(),
        answers=AnswerBuilder(),
    )
    return Row(
        app,
        asked("retriever", "prompt", "answers"),
        [Expected(bm25(), f"Variant {n}") for n in range(3)],
    )
