"""The handlers that the framework calls, and what follows a streamed answer.

A streamed answer is copied while the application reads it; it is never read in the
application's place. The handlers only hand on to the recorder, which guards itself,
because the framework swallows what a handler raises.
"""

import functools
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import AsyncGeneratorType, GeneratorType
from typing import Any

from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.core.instrumentation.events.llm import (
    LLMChatEndEvent,
    LLMChatInProgressEvent,
    LLMCompletionEndEvent,
    LLMCompletionInProgressEvent,
)
from llama_index.core.vector_stores.types import VectorStoreQueryResult
from llama_index.evaluation.ragmetrics.recording.run import call_when_gone
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.base import BaseEvent
from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span.base import BaseSpan
from llama_index_instrumentation.span_handlers import BaseSpanHandler
from pydantic import Field, PrivateAttr

# Called with what was read, and what broke it off; only the first call has an effect.
OnEnd = Callable[[str, BaseException | None], None]
# a context around the fetching of each piece: a model may be called only then
WhileFetching = Callable[[], AbstractContextManager[object]]
_END = object()  # stands behind the last piece of a stream


class Spans(BaseSpanHandler[BaseSpan]):
    """Hands spans to the recorder; the framework's own bookkeeping is not used."""

    _recorder: Any = PrivateAttr()

    def __init__(self, recorder: Any) -> None:
        super().__init__()
        self._recorder = recorder

    def span_enter(self, *_: Any, **span: Any) -> None:
        """Hand on that a span began, and what its method was given."""
        self._recorder.on_span_begin(
            span["id_"],
            span["bound_args"].arguments,
            span.get("instance"),
            span.get("parent_id"),
        )

    def span_exit(self, *_: Any, **span: Any) -> None:
        """Hand on that a span ended with a result."""
        self._recorder.on_span_end(
            span["id_"], span.get("instance"), span.get("result"), None
        )

    def span_drop(self, *_: Any, **span: Any) -> None:
        """Hand on that a span ended with an exception."""
        self._recorder.on_span_end(
            span["id_"],
            span.get("instance"),
            None,
            span.get("err") or GeneratorExit(),
        )

    def new_span(self, *_: Any, **__: Any) -> None:
        """Make no span of the framework's own: nothing would read it."""

    prepare_to_exit_span = prepare_to_drop_span = new_span  # type: ignore[pydantic-field]  # methods, no fields


class Events(BaseEventHandler):
    """Hands to the recorder what no span shows: chunks and replies of streams."""

    recorder: Any = Field(repr=False)

    def handle(self, event: BaseEvent, **_: Any) -> None:
        """Hand on a model's reply or a chunk of it."""
        if isinstance(event, (LLMChatInProgressEvent, LLMCompletionInProgressEvent)):
            self.recorder.on_model_chunk(event.span_id, event.response)
        elif isinstance(event, (LLMChatEndEvent, LLMCompletionEndEvent)):
            self.recorder.on_model_reply(event.span_id, event.response)


def install(spans: Spans, events: Events) -> None:
    """Put the handlers on the root dispatcher, unless they are there."""
    root = get_dispatcher()
    # Handlers compare equal by value, so ours are looked for by identity; others may
    # have removed them.
    if not any(handler is spans for handler in root.span_handlers):
        root.add_span_handler(spans)
    if not any(handler is events for handler in root.event_handlers):
        root.add_event_handler(events)


@contextmanager
def searches_told(
    on_search: Callable[[VectorStoreQueryResult], object],
) -> Iterator[None]:
    """Have it told when a vector store was searched, of which no span tells, until it is left.

    All stores make one class of result: its constructor tells of each search.

    Args:
        on_search: Called with each result of a vector store.
    """
    make_result: Any = VectorStoreQueryResult.__init__

    @functools.wraps(make_result)
    def tell(result: VectorStoreQueryResult, *args: Any, **kw: Any) -> None:
        make_result(result, *args, **kw)
        on_search(result)

    make_and_tell: Any = tell
    VectorStoreQueryResult.__init__ = make_and_tell  # type: ignore[method-assign]
    try:
        yield
    finally:
        # others may have replaced it meanwhile
        if VectorStoreQueryResult.__init__ is make_and_tell:
            VectorStoreQueryResult.__init__ = make_result  # type: ignore[method-assign]


def observe(
    response: object, on_end: OnEnd, while_fetching: WhileFetching = nullcontext
) -> None:
    """Replace the stream of a response by a stream that reports how its reading ended.

    A generator that is dropped before its first piece runs none of its code: ``on_end``
    is called when the replacement is gone.

    Args:
        response: The response.
        on_end: Called with the text read, and with the error that ended the reading. It
            may be called again, and then does nothing.
        while_fetching: Makes the context in which each piece is fetched.
    """
    for name in ("response_gen", "chat_stream", "achat_stream"):
        stream = vars(response).get(name)
        if stream is None:
            continue
        replacement: Generator[Any, Any, Any] | AsyncGenerator[Any, Any]
        if isinstance(stream, GeneratorType):
            replacement = _hand_on(stream, on_end, while_fetching)
        elif isinstance(stream, AsyncGeneratorType):
            replacement = _hand_on_async(stream, on_end, while_fetching)
        else:
            # A stream of another class stays, because the application may use what a
            # wrapper lacks. It counts as a stream that was never read.
            on_end("", GeneratorExit())
            continue
        call_when_gone(replacement, on_end, "", GeneratorExit())
        setattr(response, name, replacement)


def _hand_on(
    pieces: Generator[Any, Any, Any], on_end: OnEnd, while_fetching: WhileFetching
) -> Generator[Any, Any, Any]:
    """Hand on the pieces of a streamed answer, and tell at the end what was read.

    Example: pieces "Rome", " is", " old", and the application stops behind the second:
    ``on_end("Rome is", GeneratorExit())``.
    """
    pieces_read: list[str] = []
    try:
        while True:
            with while_fetching():
                piece = next(pieces, _END)
            if piece is _END:
                break
            pieces_read.append(_text(piece))
            yield piece
    except BaseException as error:
        pieces.close()
        on_end("".join(pieces_read), error)
        raise
    on_end("".join(pieces_read), None)


async def _hand_on_async(
    pieces: AsyncGenerator[Any, Any], on_end: OnEnd, while_fetching: WhileFetching
) -> AsyncGenerator[Any, Any]:
    """Hand on the pieces of an async stream, as ``_hand_on`` does."""
    pieces_read: list[str] = []
    try:
        while True:
            try:
                with while_fetching():
                    # no anext(): with a default it fails where a tracer's wrapper has a
                    # coroutine for a method
                    piece = await pieces.__anext__()
            except StopAsyncIteration:
                break
            pieces_read.append(_text(piece))
            yield piece
    except BaseException as error:
        await pieces.aclose()
        on_end("".join(pieces_read), error)
        raise
    on_end("".join(pieces_read), None)


def _text(piece: object) -> str:
    """The text of a token, or of a chunk of a chat or a completion."""
    chunk = (
        piece.delta if isinstance(piece, (ChatResponse, CompletionResponse)) else piece
    )
    return chunk if isinstance(chunk, str) else ""
