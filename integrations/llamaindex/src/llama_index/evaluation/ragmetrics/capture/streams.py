"""Observing a streamed answer: copied token by token while the application reads it, never read for it."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.evaluation.ragmetrics.capture.snapshot import Streamed

Ended = Callable[[str, BaseException | None], None]
"""Called once with what was read, and what broke it off."""


def observe(response: Streamed, ended: Ended) -> None:
    """Put a generator around a response's stream.

    Args:
        response: What the application gets; its stream is replaced by one of the same kind and content.
        ended: Called when the stream was read to its end, failed, was closed, or was forgotten unread.
    """
    if isinstance(response, StreamingResponse):
        response.response_gen = _kept(_reading(response.response_gen, _token, ended), ended)
    elif isinstance(response, AsyncStreamingResponse):
        response.response_gen = _kept(_areading(response.response_gen, _token, ended), ended)
    elif response.chat_stream is not None:
        response.chat_stream = _kept(_reading(response.chat_stream, _delta, ended), ended)
    elif response.achat_stream is not None:
        response.achat_stream = _kept(_areading(response.achat_stream, _delta, ended), ended)


def _kept(stream: Any, ended: Ended) -> Any:
    """A generator that was never started ends without a word; its finalizer says so."""
    weakref.finalize(stream, ended, "", GeneratorExit()).atexit = False
    return stream


class _Read:
    """What was read of a stream; says how it ended when the reading is left."""

    def __init__(self, ended: Ended) -> None:
        self._texts: list[str] = []
        self._ended = ended

    def __enter__(self) -> list[str]:
        return self._texts

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._ended("".join(self._texts), error)


def _reading(tokens: Any, text: Callable[[Any], str], ended: Ended) -> Generator[Any, None, None]:
    with _Read(ended) as read:
        for token in tokens:
            read.append(text(token))
            yield token


async def _areading(tokens: Any, text: Callable[[Any], str], ended: Ended) -> AsyncGenerator[Any, None]:
    with _Read(ended) as read:
        async for token in tokens:
            read.append(text(token))
            yield token


def _token(token: object) -> str:
    return token if isinstance(token, str) else ""


def _delta(chunk: object) -> str:
    delta = getattr(chunk, "delta", None)  # chat and completion chunks alike
    return delta if isinstance(delta, str) else ""
