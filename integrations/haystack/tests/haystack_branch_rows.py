"""Shapes of Haystack applications: branches, routers, loops."""

from __future__ import annotations

from typing import Any

from haystack import Document, Pipeline, component
from haystack.components.builders import AnswerBuilder, PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.joiners import AnswerJoiner, BranchJoiner
from haystack.components.routers import ConditionalRouter
from haystack.dataclasses import ChatMessage
from haystack_rows import (
    OTHER,
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
    retriever,
)

ROWS: dict[str, Build] = {}
row = adding_to(ROWS)


@component
class Validating:
    """Sends the first reply back, and lets the second one through."""

    @component.output_types(invalid=str, valid=str)
    def run(self, replies: list[ChatMessage]) -> dict[str, Any]:
        text = replies[0].text or ""
        return {"valid": text} if text.startswith("Corrected") else {"invalid": text}


def drafted(messages: list[ChatMessage]) -> str:
    text = messages[-1].text or ""
    return (
        "Corrected: 1856."
        if "Improve:" in text
        else "A first draft that is not good enough."
    )


def routes(*conditions: tuple[str, str]) -> ConditionalRouter:
    return ConditionalRouter(
        [
            {
                "condition": condition,
                "output": "{{ query }}",
                "output_name": name,
                "output_type": str,
            }
            for condition, name in conditions
        ]
    )


@row
def routed() -> Row:
    app = connected(
        ("router.island", "one.query"),
        ("router.other", "two.query"),
        ("one.documents", "joiner.value"),
        ("two.documents", "joiner.value"),
        ("joiner.value", "prompt.documents"),
        ("prompt", "llm"),
        router=routes(("{{ 'Island' in query }}", "island"), ("{{ True }}", "other")),
        one=retriever(2),
        two=retriever(1),
        joiner=BranchJoiner(list[Document]),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
    )
    found = bm25(top_k=2)
    return Row(
        app,
        asked("router", "prompt"),
        [Expected(found, first_sentence(found), retrieved=found)],
    )


@row
def two_models() -> Row:
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt", "a"),
        ("prompt", "b"),
        ("a.replies", "answers_a.replies"),
        ("b.replies", "answers_b.replies"),
        ("answers_a.answers", "joiner.answers"),
        ("answers_b.answers", "joiner.answers"),
        retriever=retriever(),
        prompt=PromptBuilder(TEMPLATE),
        a=MockChatGenerator("It was 1856.", model="a"),
        b=MockChatGenerator("In 1856.", model="b"),
        answers_a=AnswerBuilder(),
        answers_b=AnswerBuilder(),
        joiner=AnswerJoiner(),
    )
    inputs = asked("retriever", "prompt", "answers_a", "answers_b")
    return Row(
        app,
        inputs,
        [
            Expected(bm25(), "It was 1856."),
            Expected(bm25(), "In 1856."),
        ],
        runs_models_beside_each_other=True,
    )


@row
def self_correcting_loop() -> Row:
    template = "{% if draft %}Improve: {{ draft }}{% else %}" + TEMPLATE + "{% endif %}"
    app = Pipeline(max_runs_per_component=5)
    for name, one in {
        "retriever": retriever(),
        "prompt": PromptBuilder(template, required_variables=["query"]),
        "llm": MockChatGenerator(response_fn=drafted),
        "check": Validating(),
    }.items():
        app.add_component(name, one)
    app.connect("retriever.documents", "prompt.documents")
    app.connect("prompt", "llm")
    app.connect("llm.replies", "check.replies")
    app.connect("check.invalid", "prompt.draft")
    expected = Expected(
        bm25(), "Corrected: 1856.", retrieved=bm25(), doubts=("answer_guessed",)
    )
    return Row(app, asked("retriever", "prompt"), [expected])


@row
def two_hops() -> Row:
    """The second round retrieves anew: the prompt of the last call counts, not the first round."""

    def hop(messages: list[ChatMessage]) -> str:
        text = messages[-1].text or ""
        return (
            "Corrected: Elsfleth."
            if "crane" in text and "- The harbour" in text
            else "search again"
        )

    again = ConditionalRouter(
        [
            {
                "condition": "{{ 'Corrected' in replies[0].text }}",
                "output": "{{ replies[0].text }}",
                "output_name": "done",
                "output_type": str,
            },
            {
                "condition": "{{ True }}",
                "output": OTHER,
                "output_name": "next",
                "output_type": str,
            },
        ]
    )
    app = connected(
        ("first.value", "retriever.query"),
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        ("llm.replies", "again.replies"),
        ("again.next", "first.value"),
        first=BranchJoiner(str),
        retriever=retriever(1),
        prompt=PromptBuilder(TEMPLATE),
        llm=MockChatGenerator(response_fn=hop),
        again=again,
    )
    found = bm25(OTHER, 1)
    inputs = {"first": {"value": QUESTION}, "prompt": {"query": QUESTION}}
    expected = Expected(
        found,
        "Corrected: Elsfleth.",
        retrieved=[*bm25(top_k=1), *found],
    )
    return Row(app, inputs, [expected])


@row
def questions_that_follow_the_answer() -> Row:
    """Only what suggests them is an output: it may be a last step."""
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        ("llm.replies", "suggest.replies"),
        ("suggest", "suggester"),
        retriever=retriever(),
        prompt=PromptBuilder(TEMPLATE),
        llm=MockChatGenerator("The light was lit in 1856, by Anna Brod.", model="a"),
        suggest=PromptBuilder("Suggest what to ask next.\n{{ replies[0].text }}"),
        suggester=MockChatGenerator("Ask who Anna Brod was.", model="b"),
    )
    expected = Expected(
        bm25(),
        "Ask who Anna Brod was.",
        retrieved=bm25(),
        doubts=("answer_guessed",),
    )
    inputs = asked("retriever", "prompt")
    return Row(app, inputs, [expected])


@row
def questions_beside_the_answer() -> Row:
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("retriever.documents", "suggest.documents"),
        ("prompt", "llm"),
        ("suggest", "suggester"),
        retriever=retriever(),
        prompt=PromptBuilder(TEMPLATE),
        llm=MockChatGenerator("The light was lit in 1856.", model="a"),
        suggest=PromptBuilder(
            "What can be asked of these?{% for d in documents %}{{ d.content }}{% endfor %}"
        ),
        suggester=MockChatGenerator("Ask who Anna Brod was.", model="b"),
    )
    inputs = asked("retriever", "prompt")
    return Row(
        app,
        inputs,
        [Expected(bm25(), "The light was lit in 1856.")],
        runs_models_beside_each_other=True,
    )
