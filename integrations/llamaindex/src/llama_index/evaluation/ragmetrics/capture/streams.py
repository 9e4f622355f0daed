"""Observing a streamed answer: copied token by token while the application reads it, never read for it."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, Self

from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.evaluation.ragmetrics.capture.snapshot import Streamed

Ended = Callable[[str, BaseException | None], None]
"""Called once with what was read, and what broke it off."""

Within = Callable[[], AbstractContextManager[object]]
"""Makes the surroundings of each piece: a model may be called only when its answer is read."""

_END = object()


def observe(response: Streamed, ended: Ended, within: Within) -> None:
    """Put a generator around a response's stream.

    Args:
        response: What the application gets; its stream is replaced by one of the same kind and content.
        ended: Called when the stream was read to its end, failed, was closed, or was forgotten unread.
        within: What each piece is read in.
    """
    if isinstance(response, StreamingResponse):
        response.response_gen = _kept(_reading(response.response_gen, ended, within), ended)
    elif isinstance(response, AsyncStreamingResponse):
        response.response_gen = _kept(_areading(response.response_gen, ended, within), ended)
    elif response.chat_stream is not None:
        response.chat_stream = _kept(_reading(response.chat_stream, ended, within), ended)
    elif response.achat_stream is not None:
        response.achat_stream = _kept(_areading(response.achat_stream, ended, within), ended)


def _kept(stream: Any, ended: Ended) -> Any:
    """A generator that was never started ends without a word; its finalizer says so."""
    weakref.finalize(stream, ended, "", GeneratorExit()).atexit = False
    return stream


class _Read(list[str]):
    """What was read of a stream; says how it ended when the reading is left."""

    def __init__(self, ended: Ended) -> None:
        super().__init__()
        self._ended = ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._ended("".join(self), error)


def _reading(pieces: Any, ended: Ended, within: Within) -> Generator[Any, None, None]:
    with _Read(ended) as read:
        while True:
            with within():
                piece = next(pieces, _END)
            if piece is _END:
                return
            read.append(_text(piece))
            yield piece


async def _areading(pieces: Any, ended: Ended, within: Within) -> AsyncGenerator[Any, None]:
    with _Read(ended) as read:
        while True:
            with within():
                piece = await anext(pieces, _END)
            if piece is _END:
                return
            read.append(_text(piece))
            yield piece


def _text(piece: object) -> str:
    """The text of a token, or of a chunk of a chat or a completion."""
    chunk = piece.delta if isinstance(piece, (ChatResponse, CompletionResponse)) else piece
    return chunk if isinstance(chunk, str) else ""
