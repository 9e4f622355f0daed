"""Runs that end at a router: nothing was searched, no model was called, and the application answered by itself."""

from __future__ import annotations

from typing import Any

from haystack import Document, Pipeline
from haystack.components.builders import PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.components.routers import ConditionalRouter
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack_integrations.components.evaluators.ragmetrics import capture
from haystack_rows import connected

FERRY = "The Osta ferry crosses the lake every hour in summer."
ASKING = "{% for one in documents %}{{ one.content }}\n{% endfor %}\n{{ query }}"
QUESTION = "How often does the Osta ferry go?"
SPAM = "Buy cheap watches now, my friend?"

STORE = InMemoryDocumentStore()
STORE.write_documents([Document(id="ferry", content=FERRY)])


def router() -> ConditionalRouter:
    routes = [
        {
            "condition": "{{ 'watches' in query }}",
            "output": "{{ query }}",
            "output_name": "spam",
            "output_type": str,
        },
        {
            "condition": "{{ 'watches' not in query }}",
            "output": "{{ query }}",
            "output_name": "ham",
            "output_type": str,
        },
    ]
    return ConditionalRouter(routes)


def routed() -> Pipeline:
    """A pipeline that answers what its router lets through."""
    return connected(
        ("router.ham", "retriever.query"),
        ("router.ham", "prompt.query"),
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        router=router(),
        retriever=InMemoryBM25Retriever(STORE),
        prompt=PromptBuilder(ASKING, required_variables="*"),
        llm=MockChatGenerator(response_fn=lambda _: "Every hour."),
    )


def counts(*runs: tuple[Pipeline, dict[str, Any]]) -> tuple[list[str | None], int]:
    """The questions of the samples of some runs, and how many runs were counted as without one."""
    with capture() as captured:
        for pipeline, inputs in runs:
            pipeline.run(inputs)
    questions = [sample.question for sample in captured.samples]
    assert all(
        words.startswith("runs of Haystack neither retrieved nor answered")
        for words in captured.problems.counts
    )
    return questions, len(captured.problems)


def asked(question: str) -> dict[str, Any]:
    return {"router": {"query": question}}


def test_a_run_that_a_router_turns_away_is_no_sample() -> None:
    pipeline = routed()
    assert counts((pipeline, asked(SPAM))) == ([], 1)
    runs = [(pipeline, asked(QUESTION)), (pipeline, asked(SPAM))]
    assert counts(*runs) == ([QUESTION], 0)


def test_a_run_whose_question_another_one_answers_is_not_counted() -> None:
    fallback = connected(llm=MockChatGenerator(response_fn=lambda _: "No."))
    asking_both = [
        (routed(), asked(SPAM)),
        (fallback, {"llm": {"messages": SPAM}}),
    ]
    assert counts(*asking_both) == ([SPAM], 0)


def test_a_router_alone_and_a_builder_alone_prepare_and_are_not_counted() -> None:
    alone = connected(router=router())
    builder = connected(prompt=PromptBuilder("Say {{ query }}"))
    prepared = [
        (alone, asked(SPAM)),
        (builder, {"prompt": {"query": SPAM}}),
        (routed(), asked(QUESTION)),
    ]
    assert counts(*prepared) == ([QUESTION], 0)
