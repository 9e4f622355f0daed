"""Contexts that the user names: what the run returned goes first, what has no text is refused, none is not exact."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

import pytest
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llama_index.evaluation.ragmetrics import capture

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:The `(__fields|model_):pydantic.warnings.PydanticDeprecatedSince20"
    ),
    pytest.mark.filterwarnings(
        "ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211"
    ),
]

QUESTION = "When was the bridge of Velm opened?"
BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
ANSWER = "It was opened in 1874."


def run(kit: ModuleType, found: list[Any], **given: Any) -> None:
    """A workflow that searches where LlamaIndex does not see it."""
    llm = kit.ScriptedLLM(script={"": ANSWER})

    class Searching(Workflow):
        @step
        async def answer(self, event: StartEvent) -> StopEvent:
            reply = await llm.acomplete(
                f"Use only this:\n{found}\n\nQuestion: {event.query}"
            )
            return StopEvent(result={"chunks": found, "answer": str(reply)})

    async def call() -> None:
        await Searching().run(query=QUESTION, **given)

    asyncio.run(call())


def test_what_the_run_returned_goes_before_what_it_was_given(kit: ModuleType) -> None:
    with capture(contexts_from="chunks") as captured:
        run(kit, [{"text": BRIDGE, "source": "a.md"}], chunks=[])
        run(kit, [BRIDGE], chunks=["an old list"])
    for sample in captured.samples:
        assert [context.text for context in sample.known_contexts] == [BRIDGE]
        assert sample.answer == ANSWER
    assert len(captured.samples) == 2


def test_dictionaries_without_a_text_are_refused(kit: ModuleType) -> None:
    with capture(contexts_from="chunks") as captured:
        run(kit, [{"body_html": BRIDGE, "source": "a.md"}])
    assert not captured.samples
    (problem,) = captured.problems.counts
    assert "body_html, source" in problem
    assert BRIDGE not in problem


def test_where_no_context_is_named_nothing_is_exact(kit: ModuleType) -> None:
    with capture(contexts_from="chunks") as captured:
        run(kit, [])
    (sample,) = captured.samples
    assert sample.contexts == ()
    assert sample.capture is not None
    assert sample.capture.grade != "exact"
    assert any("contexts_from" in warning for warning in sample.capture.warnings)


def test_a_run_that_is_refused_takes_no_other_with_it(kit: ModuleType) -> None:
    with capture(contexts_from="chunks") as captured:
        for found in ([BRIDGE], [{"body_html": BRIDGE}], [{"text": BRIDGE}]):
            run(kit, found)
    assert [
        [context.text for context in sample.known_contexts]
        for sample in captured.samples
    ] == [[BRIDGE], [BRIDGE]]
