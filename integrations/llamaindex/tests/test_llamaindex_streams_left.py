"""A streamed chat answer that the application stops reading: the engine itself reads the model to its end."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from grades import warnings_of_its_own
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.evaluation.ragmetrics import capture, watch

from ragmetrics_core.capture import Captured

pytestmark = pytest.mark.skipif(
    "write_response_to_history" not in inspect.getsource(ContextChatEngine.stream_chat),
    reason="in this release the engine writes no more than the application reads",
)

QUESTION = "Who lit the lamp?"
WAIT_S = 20


def chat_of(kit: ModuleType, reply: str = "The answer.") -> ContextChatEngine:
    return ContextChatEngine.from_defaults(
        retriever=kit.FixedRetriever([kit.node("a", "Anna lit the lamp.")]),
        llm=kit.ScriptedLLM(script={"": reply}),
        memory=ChatMemoryBuffer.from_defaults(token_limit=3000),
    )


def written(response: Any) -> Any:
    """A response of which the engine has written the whole answer."""
    until = time.monotonic() + WAIT_S
    while not response.is_done and time.monotonic() < until:
        time.sleep(0.001)
    assert response.is_done
    return response


def stopped(chat: ContextChatEngine) -> None:
    for piece in chat.stream_chat(QUESTION).response_gen:
        assert piece == "The"
        break


def stopped_async(chat: ContextChatEngine) -> None:
    async def reading() -> None:
        response = await chat.astream_chat(QUESTION)
        pieces = response.async_response_gen()
        assert await anext(pieces) == "The"
        await pieces.aclose()

    asyncio.run(reading())


def read_in_two_parts(chat: ContextChatEngine) -> None:
    response = chat.stream_chat(QUESTION)
    assert next(response.response_gen) == "The"
    assert "".join(response.response_gen) == " answer."


def read_when_written(chat: ContextChatEngine) -> None:
    assert "".join(written(chat.stream_chat(QUESTION)).response_gen) == "The answer."


def taken_as_text(chat: ContextChatEngine) -> None:
    assert str(written(chat.stream_chat(QUESTION))) == "The answer."


def read_async(chat: ContextChatEngine) -> None:
    async def reading() -> str:
        response = await chat.astream_chat(QUESTION)
        await response.awrite_response_to_history_task
        return "".join([piece async for piece in response.async_response_gen()])

    assert asyncio.run(reading()) == "The answer."


def sample_of(kit: ModuleType, reading: Callable[[ContextChatEngine], None]) -> Any:
    with capture() as captured:
        reading(chat_of(kit))
    assert not captured.problems
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize("reading", [stopped, stopped_async])
def test_an_answer_that_the_user_stopped_is_incomplete(
    kit: ModuleType, reading: Callable[[ContextChatEngine], None]
) -> None:
    sample = sample_of(kit, reading)
    assert (sample.question, sample.answer) == (QUESTION, None)
    assert (sample.capture.grade, sample.capture.complete) == ("incomplete", False)
    assert warnings_of_its_own(sample.capture) == [
        "the streamed answer was not read to its end"
    ]
    assert [text.text for text in sample.capture.intermediate] == ["The"]
    assert [context.text for context in sample.known_contexts] == ["Anna lit the lamp."]


@pytest.mark.parametrize(
    "reading", [read_in_two_parts, read_when_written, taken_as_text, read_async]
)
def test_an_answer_that_was_read_to_its_end_is_exact(
    kit: ModuleType, reading: Callable[[ContextChatEngine], None]
) -> None:
    sample = sample_of(kit, reading)
    assert (sample.answer, sample.capture.grade) == ("The answer.", "exact")
    assert not sample.capture.warnings


def test_an_answer_that_nobody_read_is_in_doubt(kit: ModuleType) -> None:
    sample = sample_of(
        kit, lambda chat: str(written(chat.stream_chat(QUESTION)).response_gen)
    )
    assert (sample.answer, sample.capture.grade) == ("The answer.", "inferred")
    assert list(sample.capture.doubts) == ["which_turn"]


@pytest.mark.parametrize(
    ("n_read", "answer", "grade"),
    [(0, "The answer.", "inferred"), (1, None, "incomplete")],
)
def test_white_space_before_an_answer_is_no_part_of_what_was_read(
    kit: ModuleType, n_read: int, answer: str | None, grade: str
) -> None:
    """The model writes " The answer.", and the engine keeps "The answer."."""

    def read_some(chat: ContextChatEngine) -> None:
        pieces = written(chat.stream_chat(QUESTION)).response_gen
        assert "".join(next(pieces) for _ in range(n_read)) == " The" * n_read

    with capture() as captured:
        read_some(chat_of(kit, reply=" The answer."))
    (sample,) = captured.samples
    assert sample.capture is not None
    assert (sample.answer, sample.capture.grade) == (answer, grade)


def test_a_response_that_the_application_keeps_gives_its_sample_once_it_is_read(
    kit: ModuleType,
) -> None:
    watching = watch(["context_utilization"], "lexical", keep=True)
    with capture() as captured:
        response = written(chat_of(kit).stream_chat(QUESTION))
        reading = response.response_gen
        assert next(reading) == "The"
        assert not captured.samples
        assert next(reading) == " answer."
        (sample,) = captured.samples
        assert watching.flush(WAIT_S)
        assert len(watching.report().results) == 1
        watching.stop()
    assert (sample.answer, sample.capture.grade) == ("The answer.", "exact")
    assert response.response == "The answer."
    assert not captured.problems


def test_a_kept_response_that_is_not_read_when_the_block_ends_is_said(
    kit: ModuleType,
) -> None:
    with capture() as captured:
        response = written(chat_of(kit).stream_chat(QUESTION))
    assert not captured.samples
    assert said_of(captured) == ["a streamed answer was not read to its end"]
    assert "".join(response.response_gen) == "The answer."
    (sample,) = captured.samples
    assert (sample.answer, sample.capture.grade) == ("The answer.", "exact")


def said_of(captured: Captured[Any]) -> list[str]:
    return [words.partition(" when the block")[0] for words in captured.problems.counts]
