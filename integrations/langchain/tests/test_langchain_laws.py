"""Laws: how a chain is called changes no sample, and capture changes neither what the application does nor returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import crossed, examples
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_core.tools import create_retriever_tool, tool
from langchain_fakes import PROMPT, Shelf, Speaker, calls, document, drained, joined
from langchain_ragmetrics import capture
from own_words import FOUND_PAGES, NAMED, PASSED, Passed, check_evidence, check_page

from ragmetrics_core.data.sample import Sample

PAGES = {
    "bridge": "The Velm bridge was opened in 1874 by the mayor of the town.",
    "ferry": "The Osta ferry crosses the lake every hour in summer.",
    "mill": "The Tarn mill ground corn until the flood of 1910 took its wheel.",
}
WORDS = st.lists(st.sampled_from([*PAGES, "nothing"]), min_size=1, max_size=4)
law = settings(max_examples=examples(2))


@dataclass
class Application:
    """A chain or an agent, and the log of what its parts were called with, in order."""

    log: list[str] = field(default_factory=list)

    def search(self, query: str) -> list[Document]:
        self.log.append(f"search {query}")
        return [document(text, word) for word, text in PAGES.items() if word in query]

    def say(self, messages: Any) -> str:
        self.log.append("\n".join(str(one.text) for one in messages))
        return (
            f"This is said of {sum(text in self.log[-1] for text in PAGES.values())}"
            " pages, and no more."
        )

    def chain(self) -> Runnable[Any, Any]:
        context = Shelf(books=self.search) | joined
        speaker = Speaker(lines=self.say)
        return (
            {"context": context, "question": RunnablePassthrough()}
            | PROMPT
            | speaker
            | StrOutputParser()
        )

    def agent(self) -> Runnable[Any, Any]:
        tool = create_retriever_tool(Shelf(books=self.search), "search", "Searches.")

        def line(messages: Any) -> Any:
            asked = isinstance(messages[-1], HumanMessage)
            return (
                calls("search", query=str(messages[-1].text))
                if asked
                else self.say(messages)
            )

        agent = create_agent(Speaker(lines=line), [tool])

        def ask(question: str) -> str:
            return str(
                agent.invoke({"messages": [("user", question)]})["messages"][-1].text
            )

        return RunnableLambda(ask)


def in_threads(app: Runnable[Any, Any], questions: list[str]) -> list[Any]:
    with ThreadPoolExecutor(4) as pool:
        futures = [
            pool.submit(copy_context().run, app.invoke, question)
            for question in questions
        ]
        return [one.result() for one in futures]


async def at_once(app: Runnable[Any, Any], questions: list[str]) -> list[Any]:
    return list(
        await asyncio.gather(*(app.ainvoke(question) for question in questions))
    )


async def in_tasks_with_limits(
    app: Runnable[Any, Any], questions: list[str]
) -> list[Any]:
    return [await asyncio.wait_for(app.ainvoke(question), 60) for question in questions]


async def streamed_async(app: Runnable[Any, Any], questions: list[str]) -> list[Any]:
    return ["".join(await drained(app.astream(question))) for question in questions]


WAYS: dict[str, Callable[[Runnable[Any, Any], list[str]], list[Any]]] = {
    "invoke": lambda app, questions: [app.invoke(question) for question in questions],
    "stream": lambda app, questions: [
        "".join(app.stream(question)) for question in questions
    ],
    "batch": lambda app, questions: app.batch(questions),
    "threads": in_threads,
    "abatch": lambda app, questions: asyncio.run(app.abatch(questions)),
    "gather": lambda app, questions: asyncio.run(at_once(app, questions)),
    "wait_for": lambda app, questions: asyncio.run(
        in_tasks_with_limits(app, questions)
    ),
    "astream": lambda app, questions: asyncio.run(streamed_async(app, questions)),
}


def facts(sample: Sample) -> dict[str, Any]:
    said = sample.model_dump()
    said["ledger"].pop("conversation")
    return said


def by_question(samples: Any) -> list[dict[str, Any]]:
    return sorted(map(facts, samples), key=lambda one: str(one["question"]))


def questions_of(words: list[str]) -> list[str]:
    return [
        f"What of the {word}, for the reader of page {number}?"
        for number, word in enumerate(words)
    ]


@pytest.mark.parametrize(("way", "kind"), crossed([*WAYS], ["chain", "agent"]))
@law
@given(words=WORDS)
def test_how_an_application_is_called_changes_no_sample(
    way: str, kind: str, words: list[str]
) -> None:
    questions = questions_of(words)
    with capture() as one_by_one:
        returned = WAYS["invoke"](getattr(Application(), kind)(), questions)
    with capture() as captured:
        assert WAYS[way](getattr(Application(), kind)(), questions) == returned
    assert len(captured.samples) == len(questions)
    assert by_question(captured.samples) == by_question(one_by_one.samples)


@pytest.mark.parametrize(
    ("way", "kind"),
    crossed(["invoke", "stream", "wait_for", "astream"], ["chain", "agent"]),
)
@law
@given(words=WORDS)
def test_capture_changes_neither_calls_nor_values(
    way: str, kind: str, words: list[str]
) -> None:
    runs = []
    for watched in (nullcontext(), capture()):
        application = Application()
        with watched:
            returned = WAYS[way](getattr(application, kind)(), questions_of(words))
        runs.append((returned, application.log))
    assert runs[0] == runs[1]


def noting(passed: list[Passed]) -> Runnable[Any, Any]:
    """An agent whose model passes texts to a tool, and searches at last."""
    by_text = {each.text: each for each in passed}
    stored: list[Document] = []

    @tool(response_format="content_and_artifact")
    def note(text: str) -> tuple[str, list[Document] | None]:
        """Keeps a note."""
        each = by_text[text]
        documents = [document(each.text), document(each.page, each.page[-9:])]
        if each.way == "store":
            stored.extend(documents)
        return each.told, documents if each.way == "documents" else None

    search = create_retriever_tool(Shelf(books=lambda _: stored), "search", "Searches.")
    wishes = [("note", {"text": each.text}) for each in passed]
    lines: list[Any] = [
        AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"c{number}"}])
        for number, (name, args) in enumerate([*wishes, ("search", {"query": "house"})])
    ]
    return create_agent(Speaker(lines=[*lines, "The answer."]), [note, search])


@settings(max_examples=examples(10))
@given(passed=PASSED, named=NAMED)
def test_what_a_model_passes_to_a_tool_never_comes_back_as_evidence(
    passed: list[Passed], named: frozenset[str] | None
) -> None:
    with capture(context_tools=named) as captured:
        noting(passed).invoke({"messages": [("user", "Which house is it?")]})
    (sample,) = captured.samples
    check_evidence(sample, passed)


@pytest.mark.parametrize("name", FOUND_PAGES)
def test_a_page_that_no_model_wrote_stays_as_it_is(name: str) -> None:
    question, argument, page = FOUND_PAGES[name]
    agent = noting([Passed("page", argument, page)])
    with capture(context_tools={"note"}) as captured:
        agent.invoke({"messages": [("user", question)]})
    (sample,) = captured.samples
    check_page(sample, page)
