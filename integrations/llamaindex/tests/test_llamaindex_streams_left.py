"""A streamed chat answer: the engine itself reads the model to its end, whatever the application reads."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.evaluation.ragmetrics import capture

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


def not_read(chat: ContextChatEngine) -> None:
    written(chat.stream_chat(QUESTION))


def sample_of(kit: ModuleType, reading: Callable[[ContextChatEngine], None]) -> Any:
    with capture() as captured:
        reading(chat_of(kit))
    assert not captured.problems
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize(
    "reading",
    [
        read_in_two_parts,
        read_when_written,
        taken_as_text,
        read_async,
        stopped,
        not_read,
    ],
)
def test_an_answer_is_what_the_engine_wrote_however_it_is_read(
    kit: ModuleType, reading: Callable[[ContextChatEngine], None]
) -> None:
    sample = sample_of(kit, reading)
    assert (sample.answer, sample.capture.grade) == ("The answer.", "exact")
    assert [context.text for context in sample.known_contexts] == ["Anna lit the lamp."]
    assert not sample.capture.warnings
