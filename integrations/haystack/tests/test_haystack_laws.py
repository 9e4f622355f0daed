"""Laws: how a pipeline is run changes no sample, and capture changes neither what the application does nor returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

import pytest
from haystack import Document, Pipeline, component
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import ComponentTool, create_tool_from_function
from haystack_integrations.components.evaluators.ragmetrics import capture
from haystack_rows import connected
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from own_words import FOUND_PAGES, NAMED, PASSED, Passed, check_evidence, check_page

from ragmetrics_core.data.sample import Sample

PAGES = {
    "bridge": "The Velm bridge was opened in 1874 by the mayor of the town.",
    "ferry": "The Osta ferry crosses the lake every hour in summer.",
    "mill": "The Tarn mill ground corn until the flood of 1910 took its wheel.",
}
WORDS = st.lists(st.sampled_from([*PAGES, "nothing"]), min_size=1, max_size=4)
ASKING = (
    "Use only this:\n{% for one in documents %}{{ one.content }}\n{% endfor"
    " %}\nQuestion: {{ query }}"
)
law = settings(max_examples=examples(3))


@component
class Searching:
    """A retriever that logs what it is asked."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        self.log.append(f"search {query}")
        return {
            "documents": [
                Document(id=word, content=text)
                for word, text in PAGES.items()
                if word in query
            ]
        }


@dataclass
class Application:
    """A pipeline, and the log of what its parts were called with, in order."""

    log: list[str] = field(default_factory=list)

    def say(self, messages: list[ChatMessage]) -> str:
        self.log.append("\n".join(str(one.text) for one in messages))
        return (
            f"This is said of {sum(text in self.log[-1] for text in PAGES.values())}"
            " pages, and no more."
        )

    def pipeline(self, **names: str) -> Pipeline:
        retriever, prompt, llm = (
            names.get(name, name) for name in ("retriever", "prompt", "llm")
        )
        parts: dict[str, Any] = {
            retriever: Searching(self.log),
            prompt: ChatPromptBuilder(
                [ChatMessage.from_user(ASKING)], required_variables="*"
            ),
            llm: MockChatGenerator(response_fn=self.say),
        }
        wires = [
            (f"{retriever}.documents", f"{prompt}.documents"),
            (f"{prompt}.prompt", f"{llm}.messages"),
        ]
        return connected(*wires, **parts)


def given_to(
    question: str, retriever: str = "retriever", prompt: str = "prompt"
) -> dict[str, Any]:
    return {retriever: {"query": question}, prompt: {"query": question}}


def in_threads(made: Callable[[], Pipeline], questions: list[str]) -> list[Any]:
    with ThreadPoolExecutor(4) as pool:
        futures = [
            pool.submit(copy_context().run, made().run, given_to(question))
            for question in questions
        ]
        return [one.result() for one in futures]


async def at_once(made: Callable[[], Pipeline], questions: list[str]) -> list[Any]:
    return list(
        await asyncio.gather(
            *(made().run_async(given_to(question)) for question in questions)
        )
    )


async def with_limits(made: Callable[[], Pipeline], questions: list[str]) -> list[Any]:
    return [
        await asyncio.wait_for(made().run_async(given_to(question)), 60)
        for question in questions
    ]


def with_a_callback(made: Callable[[], Pipeline], questions: list[str]) -> list[Any]:
    told = {"streaming_callback": lambda chunk: None}
    return [made().run({**given_to(question), "llm": told}) for question in questions]


WAYS: dict[str, Callable[[Callable[[], Pipeline], list[str]], list[Any]]] = {
    "run": lambda made, questions: [
        made().run(given_to(question)) for question in questions
    ],
    "streaming": with_a_callback,
    "threads": in_threads,
    "gather": lambda made, questions: asyncio.run(at_once(made, questions)),
    "wait_for": lambda made, questions: asyncio.run(with_limits(made, questions)),
}


def facts(sample: Sample) -> dict[str, Any]:
    said = sample.model_dump()
    for passage in said["capture"]["passages"] or ():
        passage.pop("retriever")  # named after its component
    said["ledger"].pop("conversation")
    return said


def by_question(samples: Any) -> list[dict[str, Any]]:
    return sorted(map(facts, samples), key=lambda one: str(one["question"]))


def replies(returned: list[Any]) -> list[str]:
    return [one["llm"]["replies"][0].text for one in returned]


def questions_of(words: list[str]) -> list[str]:
    return [
        f"What of the {word}, for the reader of page {number}?"
        for number, word in enumerate(words)
    ]


@pytest.mark.parametrize("way", WAYS)
@law
@given(words=WORDS)
def test_how_a_pipeline_is_run_changes_no_sample(way: str, words: list[str]) -> None:
    questions = questions_of(words)
    with capture() as one_by_one:
        returned = replies(WAYS["run"](Application().pipeline, questions))
    with capture() as captured:
        assert replies(WAYS[way](Application().pipeline, questions)) == returned
    assert len(captured.samples) == len(questions)
    assert by_question(captured.samples) == by_question(one_by_one.samples)


NAMES = st.lists(
    st.sampled_from(
        ["a", "generator", "joiner", "embedder", "query", "ranker", "answers"]
    ),
    unique=True,
)


@law
@given(word=st.sampled_from([*PAGES]), names=NAMES.filter(lambda some: len(some) >= 3))
def test_names_of_components_change_no_sample(word: str, names: list[str]) -> None:
    retriever, prompt, llm, *_ = names
    (question,) = questions_of([word])
    with capture() as usual:
        Application().pipeline().run(given_to(question))
    with capture() as captured:
        renamed = Application().pipeline(retriever=retriever, prompt=prompt, llm=llm)
        renamed.run(given_to(question, retriever, prompt))
    assert by_question(captured.samples) == by_question(usual.samples)


@pytest.mark.parametrize("way", ["run", "streaming", "wait_for"])
@law
@given(words=WORDS)
def test_capture_changes_neither_calls_nor_values(way: str, words: list[str]) -> None:
    runs = []
    for watched in (nullcontext(), capture()):
        application = Application()
        with watched:
            returned = replies(WAYS[way](application.pipeline, questions_of(words)))
        runs.append((returned, application.log))
    assert runs[0] == runs[1]


def noting(passed: list[Passed]) -> Agent:
    """An agent whose model passes texts to a tool, and searches at last."""
    by_text = {each.text: each for each in passed}
    stored: list[Document] = []

    @component
    class Stored:
        @component.output_types(documents=list[Document])
        def run(self, query: str) -> dict[str, Any]:
            return {"documents": stored}

    def note(text: str) -> Any:
        """Keeps a note."""
        each = by_text[text]
        documents = [Document(content=each.text), Document(content=each.page)]
        if each.way == "store":
            stored.extend(documents)
        return documents if each.way == "documents" else each.told

    search = ComponentTool(component=Stored(), name="search", description="Searches.")
    wishes = [ToolCall("note", {"text": each.text}) for each in passed]
    lines = [
        ChatMessage.from_assistant(tool_calls=[wish])
        for wish in (*wishes, ToolCall("search", {"query": "house"}))
    ]
    model = MockChatGenerator([*lines, ChatMessage.from_assistant("The answer.")])
    tools = [create_tool_from_function(note), search]
    return Agent(chat_generator=model, tools=tools)


@settings(max_examples=examples(10))
@given(passed=PASSED, named=NAMED)
def test_what_a_model_passes_to_a_tool_never_comes_back_as_evidence(
    passed: list[Passed], named: frozenset[str] | None
) -> None:
    with capture(context_tools=named) as captured:
        noting(passed).run(messages=[ChatMessage.from_user("Which house is it?")])
    (sample,) = captured.samples
    check_evidence(sample, passed)


@pytest.mark.parametrize("name", FOUND_PAGES)
def test_a_page_that_no_model_wrote_stays_as_it_is(name: str) -> None:
    question, argument, page = FOUND_PAGES[name]
    agent = noting([Passed("page", argument, page)])
    with capture(context_tools={"note"}) as captured:
        agent.run(messages=[ChatMessage.from_user(question)])
    (sample,) = captured.samples
    check_page(sample, page)
