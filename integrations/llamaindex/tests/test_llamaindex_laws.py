"""Laws: how an engine is called changes no sample, and capture changes neither what it does nor what it returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lanes import examples
from llama_index.core import get_response_synthesizer
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.evaluation.ragmetrics import capture

from ragmetrics_core.data.sample import Sample

PAGES = {
    "bridge": "The Velm bridge was opened in 1874 by the mayor of the town.",
    "ferry": "The Osta ferry crosses the lake every hour in summer.",
    "mill": "The Tarn mill ground corn until the flood of 1910 took its wheel.",
}
WORDS = st.lists(st.sampled_from([*PAGES, "nothing"]), min_size=1, max_size=4)
law = settings(
    max_examples=examples(3),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


class Application:
    """A query engine, and the log of what its parts were called with, in order."""

    def __init__(self, kit: ModuleType) -> None:
        self.kit = kit
        self.log: list[str] = []

    def search(self, query: str) -> list[Any]:
        self.log.append(f"search {query}")
        return [
            self.kit.node(word, text, 0.9)
            for word, text in PAGES.items()
            if word in query
        ]

    def engine(self, *, streaming: bool = False) -> RetrieverQueryEngine:
        log = self.log

        class Guide(self.kit.ScriptedLLM):  # type: ignore[name-defined, misc]  # a class of the fixture
            def _said(self, prompt: str) -> str:
                log.append(prompt)
                return (
                    f"This is said of {sum(text in prompt for text in PAGES.values())}"
                    " pages, and no more."
                )

        synthesizer = get_response_synthesizer(llm=Guide(), streaming=streaming)
        return RetrieverQueryEngine(
            self.kit.FixedRetriever(self.search), response_synthesizer=synthesizer
        )


def one_by_one(made: Application, questions: list[str]) -> list[str]:
    return [str(made.engine().query(question)) for question in questions]


def streamed(made: Application, questions: list[str]) -> list[str]:
    return [str(made.engine(streaming=True).query(question)) for question in questions]


def in_threads(made: Application, questions: list[str]) -> list[str]:
    with ThreadPoolExecutor(4) as pool:
        futures = [
            pool.submit(copy_context().run, made.engine().query, question)
            for question in questions
        ]
        return [str(one.result()) for one in futures]


async def _at_once(made: Application, questions: list[str]) -> list[str]:
    return [
        str(one)
        for one in await asyncio.gather(
            *(made.engine().aquery(question) for question in questions)
        )
    ]


async def _with_limits(made: Application, questions: list[str]) -> list[str]:
    return [
        str(await asyncio.wait_for(made.engine().aquery(question), 60))
        for question in questions
    ]


WAYS: dict[str, Callable[[Application, list[str]], list[str]]] = {
    "query": one_by_one,
    "streamed": streamed,
    "threads": in_threads,
    "gather": lambda made, questions: asyncio.run(_at_once(made, questions)),
    "wait_for": lambda made, questions: asyncio.run(_with_limits(made, questions)),
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


@pytest.mark.parametrize("way", WAYS)
@law
@given(words=WORDS)
def test_how_an_engine_is_called_changes_no_sample(
    kit: ModuleType, way: str, words: list[str]
) -> None:
    questions = questions_of(words)
    with capture() as usual:
        returned = one_by_one(Application(kit), questions)
    with capture() as captured:
        assert WAYS[way](Application(kit), questions) == returned
    assert len(captured.samples) == len(questions)
    assert by_question(captured.samples) == by_question(usual.samples)


@pytest.mark.parametrize("way", ["query", "streamed", "wait_for"])
@law
@given(words=WORDS)
def test_capture_changes_neither_calls_nor_values(
    kit: ModuleType, way: str, words: list[str]
) -> None:
    runs = []
    for watched in (nullcontext(), capture()):
        application = Application(kit)
        with watched:
            returned = WAYS[way](application, questions_of(words))
        runs.append((returned, application.log))
    assert runs[0] == runs[1]
