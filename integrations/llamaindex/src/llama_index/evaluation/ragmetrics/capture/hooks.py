"""The handlers that the framework calls, and streamed answers: copied while the application reads, never read for it.

Handlers hand on what they are told; their errors would be swallowed unseen.
"""

import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.core.instrumentation.events.chat_engine import StreamChatDeltaReceivedEvent
from llama_index.core.instrumentation.events.llm import LLMChatEndEvent, LLMCompletionEndEvent
from llama_index.evaluation.ragmetrics.capture.snapshot import Streamed
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.base import BaseEvent
from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span.base import BaseSpan
from llama_index_instrumentation.span_handlers import BaseSpanHandler
from pydantic import Field, PrivateAttr

Ended = Callable[[str, BaseException | None], None]  # called once with what was read, and what broke it off
Within = Callable[[], AbstractContextManager[object]]  # around each piece: a model may be called only then

_END = object()


class Spans(BaseSpanHandler[BaseSpan]):
    """Hands spans to the recorder; the framework's own bookkeeping is not used."""

    _recorder: Any = PrivateAttr()

    def __init__(self, recorder: Any) -> None:
        super().__init__()
        self._recorder = recorder

    def span_enter(self, *_: Any, **given: Any) -> None:
        """A span began."""
        self._recorder.enter(given["id_"], given["bound_args"].arguments, given.get("instance"), given.get("parent_id"))

    def span_exit(self, *_: Any, **given: Any) -> None:
        """A span ended with a result."""
        self._recorder.leave(given["id_"], given.get("instance"), given.get("result"), None)

    def span_drop(self, *_: Any, **given: Any) -> None:
        """A span ended with an exception."""
        self._recorder.leave(given["id_"], given.get("instance"), None, given.get("err") or GeneratorExit())

    def new_span(self, *_: Any, **__: Any) -> None:
        """Nothing is kept."""

    prepare_to_exit_span = prepare_to_drop_span = new_span  # type: ignore[pydantic-field]  # methods, no fields


class Events(BaseEventHandler):
    """Hands to the recorder what no span shows: pieces of streamed answers, and models' whole replies."""

    recorder: Any = Field(repr=False)

    def handle(self, event: BaseEvent, **_: Any) -> None:
        """An event."""
        if isinstance(event, StreamChatDeltaReceivedEvent):
            self.recorder.hear(event.span_id, event.delta)
        elif isinstance(event, (LLMChatEndEvent, LLMCompletionEndEvent)):
            self.recorder.said(event.span_id, event.response)


def install(spans: Spans, events: Events) -> None:
    """Put the handlers on the root dispatcher, unless they are there."""
    root = get_dispatcher()
    # Handlers compare equal by value, so ours are looked for by identity; others may have removed them.
    if not any(one is spans for one in root.span_handlers):
        root.add_span_handler(spans)
    if not any(one is events for one in root.event_handlers):
        root.add_event_handler(events)


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
