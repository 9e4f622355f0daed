"""The handlers that the framework calls, and what follows a streamed answer.

A streamed answer is copied while the application reads it; it is never read in the
application's place. The handlers only hand on to the recorder, which guards itself,
because the framework swallows what a handler raises.
"""

import asyncio
import functools
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable
from contextlib import AbstractContextManager, ExitStack
from contextvars import ContextVar
from functools import partial
from types import AsyncGeneratorType, GeneratorType
from typing import Any

from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.core.chat_engine.types import StreamingAgentChatResponse
from llama_index.core.instrumentation.events.chat_engine import (
    StreamChatDeltaReceivedEvent,
)
from llama_index.core.instrumentation.events.llm import (
    LLMChatEndEvent,
    LLMChatInProgressEvent,
    LLMCompletionEndEvent,
    LLMCompletionInProgressEvent,
)
from llama_index.core.vector_stores.types import VectorStoreQueryResult
from llama_index.core.workflow import Context, Workflow
from llama_index.evaluation.ragmetrics.recording.run import call_when_gone
from llama_index.evaluation.ragmetrics.recording.snapshot import Streamed
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
        self._recorder.watch_for_lost_end(span["id_"], span["bound_args"])

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
    """Hands to the recorder what no span shows.

    These are the pieces of streamed answers, the chunks of models' replies, and the
    whole replies.
    """

    recorder: Any = Field(repr=False)

    def handle(self, event: BaseEvent, **_: Any) -> None:
        """Hand on a piece of a streamed answer, or a model's reply or a chunk of it."""
        if isinstance(event, StreamChatDeltaReceivedEvent):
            self.recorder.on_piece_written(event.span_id, event.delta)
        elif isinstance(event, (LLMChatInProgressEvent, LLMCompletionInProgressEvent)):
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


# The context that the run which begins here was given: no span names it, and nothing
# else lives from one run of a workflow to the next.
_given_context: ContextVar[Context | None] = ContextVar(
    "ragmetrics_given_context", default=None
)


def given_context() -> Context | None:
    """The context that the workflow's run which goes on here was given as ``ctx=``.

    None if it was given none, or if the run began before anybody listened.
    """
    return _given_context.get()


class _RunsWithTheirContext:
    """Notes the context that each run of a workflow is given, while somebody listens.

    No span of the framework names it, so ``Workflow.run`` is replaced meanwhile.
    """

    def __init__(self) -> None:
        # the framework's method and ours in its place; None while nobody listens
        self._original: Any = None
        self._replacement: Any = None

    def begin(self) -> None:
        """Have each run of a workflow note the context that it is given, from now on.

        ``Workflow.run`` is replaced by a method that notes the context (its first
        argument, or ``ctx=``) and then runs the workflow as before. Example: within
        ``workflow.run(ctx=context)`` the noted context is ``context``; after the call
        the previous context is noted again. A second ``begin`` changes nothing.
        """
        if self._replacement is not None:
            return
        original = Workflow.run

        def run(workflow: Workflow, *args: Any, **kwargs: Any) -> Any:
            first_argument = args[0] if args else kwargs.get("ctx")
            context = first_argument if isinstance(first_argument, Context) else None
            context_before = _given_context.get()
            _given_context.set(context)
            try:
                return original(workflow, *args, **kwargs)
            finally:
                _given_context.set(context_before)

        replacement: Any = functools.wraps(original)(run)
        self._original = original
        self._replacement = replacement
        Workflow.run = replacement  # type: ignore[method-assign]  # the same method, wrapped to note its context

    def end(self) -> None:
        """Put the original back, unless others have replaced it meanwhile."""
        if Workflow.run is self._replacement:
            Workflow.run = self._original  # type: ignore[method-assign]  # as it was
            self._original = self._replacement = None


CONTEXTS = _RunsWithTheirContext()


class _SearchesOfStores:
    """Reports each result that a vector store makes of a search, while somebody listens.

    No span names a search that the application makes without a retriever. All stores
    make the same class of result, so its constructor is replaced meanwhile.
    """

    def __init__(self) -> None:
        # the framework's method and ours in its place; None while nobody listens
        self._original: Any = None
        self._replacement: Any = None

    def begin(self, on_result: Callable[[VectorStoreQueryResult], object]) -> None:
        """Call ``on_result`` with each result of a vector store from now on.

        The constructor of ``VectorStoreQueryResult`` is replaced by one that calls
        ``on_result`` behind the framework's own.
        """
        if self._replacement is not None:
            return
        original = VectorStoreQueryResult.__init__

        def init(result: VectorStoreQueryResult, *args: Any, **kwargs: Any) -> None:
            original(result, *args, **kwargs)
            on_result(result)

        replacement: Any = functools.wraps(original)(init)
        self._original = original
        self._replacement = replacement
        VectorStoreQueryResult.__init__ = replacement  # type: ignore[method-assign]  # its own, and told

    def end(self) -> None:
        """Put the original back, unless others have replaced it meanwhile."""
        if VectorStoreQueryResult.__init__ is self._replacement:
            VectorStoreQueryResult.__init__ = self._original  # type: ignore[method-assign]  # as it was
            self._original = self._replacement = None


SEARCHES = _SearchesOfStores()


def observe(response: Streamed, on_end: OnEnd, while_fetching: WhileFetching) -> None:
    """Replace the stream of a response by a stream that reports how its reading ended.

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
        if isinstance(stream, (GeneratorType, AsyncGeneratorType)):
            setattr(response, name, _observed(stream, on_end, while_fetching))
        else:
            # A stream of another class stays, because the application may use what a
            # wrapper lacks. It counts as a stream that was never read.
            on_end("", GeneratorExit())


def _observed(
    stream: "GeneratorType[Any, Any, Any] | AsyncGeneratorType[Any, Any]",
    on_end: OnEnd,
    while_fetching: WhileFetching,
) -> Generator[Any, Any, Any] | AsyncGenerator[Any, Any]:
    """Wrap a generator so that ``on_end`` learns how its reading ended.

    A generator that is dropped before its first piece runs none of its code: ``on_end``
    is called when the wrapper is gone.
    """
    wrapper: Generator[Any, Any, Any] | AsyncGenerator[Any, Any]
    if isinstance(stream, AsyncGeneratorType):
        wrapper = _hand_on_async(stream, on_end, while_fetching)
    else:
        wrapper = _hand_on(stream, on_end, while_fetching)
    call_when_gone(wrapper, on_end, "", GeneratorExit())
    return wrapper


class _UntakenPieces(deque[str]):
    """The pieces of a streamed answer that nobody has taken yet.

    ``emptied`` is called when the last one is taken.
    """

    def __init__(self, pieces: Iterable[str], emptied: Callable[[], object]) -> None:
        super().__init__(pieces)
        self._emptied = emptied  # called when the last piece is taken

    def popleft(self) -> str:
        piece = super().popleft()
        if not self:
            self._emptied()
        return piece


class _AsyncPieces(asyncio.Queue[str]):
    """The framework's queue of pieces, which says when it is empty."""

    def __init__(self, emptied: Callable[[], object]) -> None:
        self.untaken = _UntakenPieces((), emptied)
        super().__init__()

    def _init(self, maxsize: int) -> None:
        del maxsize
        self._queue = self.untaken


def untaken_pieces_of(
    response: StreamingAgentChatResponse, emptied: Callable[[], object]
) -> Collection[str]:
    """Return the pieces of a streamed chat answer that the application has not taken.

    The collection goes on to change: of "Rome ", "is ", "old." it holds "old." alone,
    once two were taken. The engine itself writes the pieces, to the end, whether the
    application reads on or not.

    Args:
        response: The response, before the application has it.
        emptied: Called when the last one was taken. The queue may be locked then.
    """
    if response.achat_stream is None:
        with response.queue.mutex:
            untaken = _UntakenPieces(response.queue.queue, emptied)
            response.queue.queue = untaken
        return untaken
    pieces = _AsyncPieces(emptied)
    while response.aqueue is not None and not response.aqueue.empty():
        pieces.put_nowait(response.aqueue.get_nowait())
    response.aqueue = pieces
    return pieces.untaken


def _calling_at_the_end(on_end: OnEnd, pieces_read: list[str]) -> ExitStack:
    """Return a context that calls ``on_end`` when it is left.

    It hands on the text read, and the error that ended the reading.
    """
    on_leaving = ExitStack()
    on_leaving.push(lambda _, error, __: on_end("".join(pieces_read), error))
    return on_leaving


def _hand_on(
    pieces: Generator[Any, Any, Any], on_end: OnEnd, while_fetching: WhileFetching
) -> Generator[Any, Any, Any]:
    """Hand on the pieces of a streamed answer, and tell at the end what was read.

    Example: pieces "Rome", " is", " old", and the application stops behind the second:
    ``on_end("Rome is", GeneratorExit())``. What the application sends or throws in goes
    to the generator inside, as with ``yield from``.

    Args:
        pieces: The framework's generator of the pieces.
        on_end: Called at the end with the text read, and the error; None for none.
        while_fetching: Makes a context in which each piece is fetched.
    """
    pieces_read: list[str] = []
    with _calling_at_the_end(on_end, pieces_read):
        advance = partial(next, pieces)  # how the next piece is fetched
        while True:
            try:
                with while_fetching():
                    piece = advance()
            except StopIteration as end:
                return end.value
            pieces_read.append(_text(piece))
            try:
                # here the application takes the piece, and may send or throw something
                sent = yield piece
            except GeneratorExit:  # the application stops reading
                pieces.close()
                raise
            except BaseException as error:  # noqa: BLE001  # what the application throws in is for the framework's generator
                advance = partial(pieces.throw, error)
            else:
                advance = partial(pieces.send, sent)


async def _hand_on_async(
    pieces: AsyncGenerator[Any, Any], on_end: OnEnd, while_fetching: WhileFetching
) -> AsyncGenerator[Any, Any]:
    """Hand on the pieces of an async stream, and tell at the end what was read.

    Example: "Rome ", "is ", "old." are handed on one by one, and ``on_end`` gets "Rome
    is old." and no error. What the application sends or throws in goes to the generator
    inside.

    Args:
        pieces: The stream of the framework.
        on_end: Called at the end, with the text that was read, and the error or None.
        while_fetching: Makes a context that is open while a piece is fetched.
    """
    pieces_read: list[str] = []
    with _calling_at_the_end(on_end, pieces_read):
        advance = partial(anext, pieces)  # how the next piece is fetched
        while True:
            try:
                with while_fetching():
                    piece = await advance()
            except StopAsyncIteration:
                return
            pieces_read.append(_text(piece))
            try:
                # here the application takes the piece, and may send or throw something
                sent = yield piece
            except GeneratorExit:  # the application stops reading
                await pieces.aclose()
                raise
            except BaseException as error:  # noqa: BLE001  # what the application throws in is for the framework's generator
                advance = partial(pieces.athrow, error)
            else:
                advance = partial(pieces.asend, sent)


def _text(piece: object) -> str:
    """The text of a token, or of a chunk of a chat or a completion."""
    chunk = (
        piece.delta if isinstance(piece, (ChatResponse, CompletionResponse)) else piece
    )
    return chunk if isinstance(chunk, str) else ""
