"""Observing a streamed answer: copied token by token while the application reads it, never read for it."""

import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.evaluation.ragmetrics.capture.snapshot import Streamed

Ended = Callable[[str, BaseException | None], None]  # called once with what was read, and what broke it off
Within = Callable[[], AbstractContextManager[object]]  # around each piece: a model may be called only then

_END = object()


def observe(response: Streamed, ended: Ended, within: Within) -> None:
    """Put a generator of the same kind and content around a response's stream, which tells how its reading ended."""
    for name in ("response_gen", "chat_stream", "achat_stream"):
        stream = vars(response).get(name)
        if stream is not None:
            read = (_areading if isinstance(stream, AsyncIterator) else _reading)(stream, ended, within)
            weakref.finalize(read, ended, "", GeneratorExit()).atexit = False  # never started, it ends without a word
            setattr(response, name, read)


def _told(ended: Ended, read: list[str]) -> ExitStack:
    """Says how a reading ended when it is left."""
    left = ExitStack()
    left.push(lambda _, error, __: ended("".join(read), error))
    return left


def _reading(pieces: Any, ended: Ended, within: Within) -> Generator[Any, None, None]:
    read: list[str] = []
    with _told(ended, read):
        while True:
            with within():
                piece = next(pieces, _END)
            if piece is _END:
                return
            read.append(_text(piece))
            yield piece


async def _areading(pieces: Any, ended: Ended, within: Within) -> AsyncGenerator[Any, None]:
    read: list[str] = []
    with _told(ended, read):
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
