"""The framework's hooks: one span handler that copies what happens and hands each finished run to its sinks.

Spans are classified by the type of their instance, not by name. A run begins at the outermost engine (query, chat
or workflow); a retriever or synthesizer outside of any engine is a run of its own, and a synthesizer joins what was
retrieved for it before. Nothing is assembled here.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from threading import RLock
from time import monotonic
from typing import Any, Protocol

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.chat_engine.types import BaseChatEngine, StreamingAgentChatResponse
from llama_index.core.evaluation.base import BaseEvaluator
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.response_synthesizers.base import BaseSynthesizer
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import BaseTool, ToolOutput
from llama_index.core.workflow import Workflow
from llama_index.evaluation.ragmetrics.capture.run import (
    ENTRIES,
    MOST_SPANS,
    Kind,
    Run,
    Span,
    Streamed,
    answer_of,
    fields_of,
    nodes_of,
    plain,
    question_of,
    sources_of,
    streamed,
    turns_of,
)
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.span import active_span_id
from llama_index_instrumentation.span.base import BaseSpan
from llama_index_instrumentation.span_handlers import BaseSpanHandler
from pydantic import PrivateAttr

from ragmetrics_core.capturing import Problems, guarded

_METHODS: tuple[tuple[type, Kind, frozenset[str]], ...] = (
    (BaseQueryEngine, "query", frozenset({"query", "aquery"})),
    (BaseChatEngine, "chat", frozenset({"chat", "achat", "stream_chat", "astream_chat"})),
    (Workflow, "workflow", frozenset({"run"})),
    (BaseRetriever, "retrieve", frozenset({"retrieve", "aretrieve"})),
    (BaseSynthesizer, "synth", frozenset({"synthesize", "asynthesize"})),
    (StreamingAgentChatResponse, "write", frozenset({"write_response_to_history", "awrite_response_to_history"})),
    (BaseTool, "tool", frozenset({"call", "acall", "__call__"})),
)
_ROOTS: frozenset[Kind] = ENTRIES | {"retrieve", "synth"}
_EVALUATING = frozenset({"evaluate", "aevaluate", "evaluate_response", "aevaluate_response"})
_UUID = 37  # characters of "-" and a UUID at the end of a span's id
_MOST_PENDING = 256
_PENDING_SECONDS = 60.0

_paused: ContextVar[bool] = ContextVar("ragmetrics_paused", default=False)


class Sink(Protocol):
    """Who gets finished runs."""

    problems: Problems

    def record(self, run: Run) -> None:
        """Keep a finished run; cheap, from any thread."""


@dataclass(frozen=True, eq=False)
class Scope:
    """Where a sink gets runs from.

    Args:
        sink: Who gets them.
        everywhere: Runs of the whole process, not only of the context that opened the scope.
        threads: Also runs in threads without a context of their own, while this is the only such scope.
        data: Whether inputs and outputs are needed as plain data.
        under: The framework's span in which the scope was opened.
    """

    sink: Sink
    everywhere: bool = False
    threads: bool = False
    data: bool = False
    under: str | None = field(default_factory=active_span_id.get)


_scopes: ContextVar[tuple[Scope, ...]] = ContextVar("ragmetrics_scopes", default=())


@dataclass(slots=True, eq=False)
class _Live:
    """A run that goes on.

    Args:
        run: What is kept of it.
        scopes: Who gets it.
        waiting: Identity of the streamed chat response that is not yet written.
        written: Streamed chat responses that were written, by identity.
        ended: True once over.
        since: When it ended, on the monotonic clock.
    """

    run: Run
    scopes: tuple[Scope, ...]
    waiting: int | None = None
    written: dict[int, Span] = field(default_factory=dict)
    ended: bool = False
    since: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """Where an open span stands: in which run, under which step; neither for spans outside of all runs."""

    live: _Live | None = None
    step: Span | None = None
    in_model: bool = False


_OUTSIDE = _Place()
_IGNORED = _Place()


class _Fanned(Problems):
    """Errors of the hooks, counted for everyone who is recording."""

    def __init__(self, scopes: Iterable[Scope]) -> None:
        super().__init__()
        self._open = scopes

    def record(self, hook: str, error: BaseException) -> None:
        """Count an error in all open scopes."""
        for scope in tuple(self._open):
            scope.sink.problems.record(hook, error)


class Recorder:
    """Follows the framework's spans and hands finished runs to the open scopes.

    Attributes:
        problems: Errors of the hooks go to every open scope.
    """

    def __init__(self) -> None:
        self._opened: list[Scope] = []
        self.problems = _Fanned(self._opened)
        self._places: dict[str, _Place] = {}
        self._pending: deque[_Live] = deque()
        self._lock = RLock()
        self._hooks = _Hooks(self)

    # -- scopes

    def open(self, scope: Scope) -> None:
        """Hand runs to a scope from now on."""
        root = get_dispatcher()
        with self._lock:
            self._opened.append(scope)
            if not any(handler is self._hooks for handler in root.span_handlers):
                root.add_span_handler(self._hooks)

    def close(self, scope: Scope) -> None:
        """Begin no further runs for a scope; those that go on still reach it."""
        with self._lock:
            self._opened[:] = [other for other in self._opened if other is not scope]
        self.release(scope)

    def release(self, scope: Scope) -> None:
        """Hand over retrievals that waited for a synthesizer."""
        with self._lock:
            found = [live for live in self._pending if scope in live.scopes]
            for live in found:
                self._pending.remove(live)
        for live in found:
            self._hand_over(live)

    def _wanted(self, parent_id: str | None, *, known: bool) -> tuple[Scope, ...]:
        """The scopes that a run belongs to which begins here."""
        own = _scopes.get()
        outermost = known or parent_id is None
        wanted = [s for s in own if s in self._opened and (outermost or parent_id == s.under)]
        everywhere = [s for s in self._opened if s.everywhere and (outermost or parent_id == s.under)]
        if not own and outermost:
            local = [s for s in self._opened if not s.everywhere]
            wanted += [s for s in local if s.threads] if len(local) == 1 else []
        return (*wanted, *everywhere)

    # -- spans

    @guarded
    def enter(self, id_: str, bound: inspect.BoundArguments, instance: object, parent_id: str | None) -> None:
        """A span began."""
        if not self._opened and not self._places:
            return
        place = None if parent_id is None else self._places.get(parent_id)
        kind = kind_of(type(instance), id_)
        if place is _IGNORED:
            self._places[id_] = _IGNORED
        elif place is not None and place.live is not None:
            self._step(id_, kind, bound, instance, place)
        else:
            scopes = self._wanted(parent_id, known=place is not None)
            if scopes:
                self._begin(id_, kind, bound, scopes)

    def _begin(self, id_: str, kind: Kind | None, bound: inspect.BoundArguments, scopes: tuple[Scope, ...]) -> None:
        """A span outside of all runs: a run of its own, or something around runs to come."""
        if _paused.get() or (kind in _ROOTS and judging()):
            self._places[id_] = _IGNORED
        elif kind == "post" or kind in _ROOTS:
            step = Span(kind, id_)
            self._entered(step, bound.arguments)
            live = self._joined(step, scopes)
            if live is None and kind != "post":
                live = _Live(Run(step), scopes)
                self._inputs(live, bound.arguments)
            if live is not None:
                live.run.spans.append(step)
                self._places[id_] = _Place(live, step)
        else:
            self._places[id_] = _OUTSIDE

    def _joined(self, step: Span, scopes: tuple[Scope, ...]) -> _Live | None:
        """The run of earlier retrievals that a postprocessor or synthesizer outside of all engines goes on with."""
        if step.kind not in ("post", "synth") or not step.taken:
            return None
        with self._lock:
            found = covering(step, [live for live in self._pending if live.scopes == scopes])
            if not found:
                return None
            first = found[0]
            for live in found:
                if live is not first:
                    self._pending.remove(live)
                    first.run.spans += live.run.spans
            if step.kind == "synth":
                self._pending.remove(first)
                first.run.root, first.ended = step, False
            return first

    def _step(self, id_: str, kind: Kind | None, bound: inspect.BoundArguments, instance: object, at: _Place) -> None:
        """A span inside a run."""
        live = at.live
        if live is None:
            return
        if kind is None:
            if isinstance(instance, BaseLLM):
                if not at.in_model and at.step is not None and at.step.kind != "post":
                    self._note_model(live, instance)
                at = _Place(live, at.step, in_model=True)
            self._places[id_] = at
        elif kind == "query" and judging():
            self._places[id_] = _IGNORED
        elif len(live.run.spans) >= MOST_SPANS:
            live.run.cut = True
            self._places[id_] = _Place(live, at.step)
        else:
            step = Span(kind, id_, at.step)
            live.run.spans.append(step)
            self._places[id_] = _Place(live, step)
            self._entered(step, bound.arguments)

    @guarded
    def _entered(self, step: Span, arguments: dict[str, Any]) -> None:
        """Copy what a step was given."""
        if step.kind in ("query", "retrieve"):
            step.question = question_of(next(iter(arguments.values()), None))
        elif step.kind == "chat":
            step.question = question_of(arguments.get("message", next(iter(arguments.values()), None)))
            step.history = turns_of(arguments.get("chat_history"))
        elif step.kind == "synth":
            step.question, step.taken = question_of(arguments.get("query")), nodes_of(arguments.get("nodes"))
        elif step.kind == "post":
            query = arguments.get("query_bundle") or arguments.get("query_str")
            step.question, step.taken = question_of(query), nodes_of(arguments.get("nodes"))
        elif step.kind == "workflow":
            loose = arguments.get("kwargs")
            fields = (loose if isinstance(loose, dict) else {}) | fields_of(arguments.get("start_event"))
            step.history = turns_of(fields.get("chat_history"))
            step.fields = {name: text for name, value in fields.items() if (text := question_of(value))}

    @guarded
    def _left_with(self, step: Span, instance: object, result: object) -> None:
        """Copy what a step returned."""
        if step.kind in ("retrieve", "post"):
            step.given = nodes_of(result)
        elif step.kind == "tool":
            output = result.raw_output if isinstance(result, ToolOutput) else None
            listed = isinstance(output, list) and all(isinstance(item, NodeWithScore) for item in output)
            step.given = nodes_of(output) if listed else None
        elif step.kind == "write":
            step.answer = instance.response if isinstance(instance, StreamingAgentChatResponse) else None
        else:
            step.answer, step.given = answer_of(result), sources_of(result)

    @guarded
    def _inputs(self, live: _Live, arguments: dict[str, Any]) -> None:
        """Copy all arguments, where the user names keys or paths."""
        if any(scope.data for scope in live.scopes):
            given = {name: plain(value) for name, value in arguments.items()}
            live.run.inputs = {**given, **(plain(fields_of(arguments.get("start_event"))) or {})}

    @guarded
    def _outputs(self, live: _Live, result: object) -> None:
        """Copy all of the result, where the user names keys or paths."""
        if any(scope.data for scope in live.scopes):
            given = plain(result)
            live.run.outputs = {"result": given, **(given if isinstance(given, dict) else {})}

    @guarded
    def _note_model(self, live: _Live, model: BaseLLM) -> None:
        name = model.metadata.model_name
        live.run.model = None if name == "unknown" else name  # the framework's word for no name

    @guarded
    def exit(self, id_: str, instance: object, result: object) -> None:
        """A span ended with a result."""
        step, live = self._left(id_)
        if step is None or live is None:
            return
        self._left_with(step, instance, result)
        if step.kind == "write":
            self._written(live, step, instance)
        elif step is live.run.root:
            self._outputs(live, result)
            self._returned(live, step, result)

    @guarded
    def drop(self, id_: str, instance: object, error: BaseException | None) -> None:
        """A span ended with an exception."""
        step, live = self._left(id_)
        if step is None or live is None:
            return
        _failed(step, error)
        if step.kind == "write":
            self._written(live, step, instance)
        elif step is live.run.root:
            self._end(live)

    def _left(self, id_: str) -> tuple[Span | None, _Live | None]:
        """The step that a span is, if it is one; steps keep their place until their run ends."""
        place = self._places.get(id_)
        if place is None:
            return None, None
        if place.step is None or place.step.id != id_:
            del self._places[id_]
            return None, None
        return place.step, place.live

    # -- ends of runs

    def _returned(self, live: _Live, root: Span, result: object) -> None:
        """The root returned: the run is over, unless its answer is still streaming."""
        response = streamed(result)
        if response is None or root.answer is not None:
            self._end(live)
        elif isinstance(response, StreamingAgentChatResponse) and response.is_writing_to_memory:
            with self._lock:
                live.waiting = id(response)
                written = live.written.get(live.waiting)
            weakref.finalize(response, self._abandoned, live).atexit = False
            if written is not None:
                self._answered(live, written)
        else:
            self._observe(live, response)

    def _written(self, live: _Live, step: Span, instance: object) -> None:
        with self._lock:
            live.written[id(instance)] = step
            waited = live.waiting == id(instance)
        if waited:
            self._answered(live, step)

    def _answered(self, live: _Live, written: Span) -> None:
        """A streamed chat answer was written to its end, or failed."""
        root = live.run.root
        root.answer, root.error, root.interrupted = written.answer, written.error, written.interrupted
        self._end(live)

    def _observe(self, live: _Live, response: Streamed) -> None:
        """Put a generator around a stream that copies what the application reads from it."""
        if isinstance(response, StreamingResponse):
            response.response_gen = self._watched(self._reading(live, response.response_gen, str), live)
        elif isinstance(response, AsyncStreamingResponse):
            response.response_gen = self._watched(self._areading(live, response.response_gen, str), live)
        elif response.chat_stream is not None:
            response.chat_stream = self._watched(self._reading(live, response.chat_stream, _delta), live)
        elif response.achat_stream is not None:
            response.achat_stream = self._watched(self._areading(live, response.achat_stream, _delta), live)

    def _watched(self, stream: Any, live: _Live) -> Any:
        weakref.finalize(stream, self._abandoned, live).atexit = False
        return stream

    def _reading(self, live: _Live, tokens: Iterator[Any], text: Any) -> Generator[Any, None, None]:
        read: list[Any] = []
        try:
            for token in tokens:
                read.append(token)
                yield token
        except BaseException as error:
            self._read(live, read, text, error)
            raise
        self._read(live, read, text, None)

    async def _areading(self, live: _Live, tokens: Any, text: Any) -> AsyncGenerator[Any, None]:
        read: list[Any] = []
        try:
            async for token in tokens:
                read.append(token)
                yield token
        except BaseException as error:
            self._read(live, read, text, error)
            raise
        self._read(live, read, text, None)

    @guarded
    def _read(self, live: _Live, tokens: list[Any], text: Any, error: BaseException | None) -> None:
        """A stream was read to its end, was broken off, or failed."""
        said = "".join(map(text, tokens))
        if error is None:
            live.run.root.answer = said
        else:
            live.run.partial = said or None
            _failed(live.run.root, None if isinstance(error, GeneratorExit) else error)
            live.run.complete = False
        self._end(live)

    @guarded
    def _abandoned(self, live: _Live) -> None:
        """A streamed answer is gone; if it was not read, nobody will."""
        if not live.ended:
            live.run.complete = False
            self._end(live)

    def _end(self, live: _Live) -> None:
        """Forget a run's places and hand it over; a retrieval on its own first waits for its synthesizer."""
        with self._lock:
            if live.ended:
                return
            live.ended, live.since = True, monotonic()
            for step in live.run.spans:
                self._places.pop(step.id, None)
            over = [live]
            if live.run.root.kind == "retrieve" and live.run.root.error is None:
                self._pending.append(live)
                over = list(self._stale(live.since))
        for one in over:
            self._hand_over(one)

    def _stale(self, now: float) -> Iterator[_Live]:
        """Retrievals that no synthesizer goes on with any more."""
        while self._pending and (len(self._pending) > _MOST_PENDING or now - self._pending[0].since > _PENDING_SECONDS):
            yield self._pending.popleft()

    def _hand_over(self, live: _Live) -> None:
        for scope in live.scopes:
            scope.sink.record(live.run)


class _Hooks(BaseSpanHandler[BaseSpan]):
    """The span handler that the framework calls."""

    _recorder: Recorder = PrivateAttr()

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    @classmethod
    def class_name(cls) -> str:
        """Name of the handler."""
        return "RagMetricsSpanHandler"

    def span_enter(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        parent_id: str | None = None,
        tags: dict[str, Any] | None = None,  # noqa: ARG002  # the framework's signature
        **_: Any,
    ) -> None:
        """A span began."""
        self._recorder.enter(id_, bound_args, instance, parent_id)

    def span_exit(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,  # noqa: ARG002  # the framework's signature
        instance: Any | None = None,
        result: Any | None = None,
        **_: Any,
    ) -> None:
        """A span ended with a result."""
        self._recorder.exit(id_, instance, result)

    def span_drop(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,  # noqa: ARG002  # the framework's signature
        instance: Any | None = None,
        err: BaseException | None = None,
        **_: Any,
    ) -> None:
        """A span ended with an exception."""
        self._recorder.drop(id_, instance, err)

    def new_span(self, *_: Any, **__: Any) -> None:
        """The framework's own bookkeeping is not used."""

    def prepare_to_exit_span(self, *_: Any, **__: Any) -> None:
        """The framework's own bookkeeping is not used."""

    def prepare_to_drop_span(self, *_: Any, **__: Any) -> None:
        """The framework's own bookkeeping is not used."""


RECORDER = Recorder()


@contextmanager
def paused() -> Iterator[None]:
    """Record nothing that begins inside: a judge at work is no application."""
    token = _paused.set(True)
    try:
        yield
    finally:
        _paused.reset(token)


def pause_for_good() -> None:
    """Record nothing that begins in this context from now on."""
    _paused.set(True)


@contextmanager
def scoped(scope: Scope) -> Iterator[None]:
    """Hand the runs that begin inside to a scope."""
    RECORDER.open(scope)
    before = _scopes.get()
    _scopes.set((*before, scope))
    try:
        yield
    finally:
        _scopes.set(tuple(other for other in _scopes.get() if other is not scope))
        RECORDER.close(scope)


def kind_of(owner: type, span_id: str) -> Kind | None:
    """What a span does, by the type of its instance and the method; None for what capturing looks through."""
    return _kind(owner, span_id[:-_UUID].rpartition(".")[2])


@lru_cache(maxsize=4096)
def _kind(owner: type, method: str) -> Kind | None:
    if issubclass(owner, BaseNodePostprocessor) and method.endswith("postprocess_nodes"):
        return "post"
    return next((kind for base, kind, methods in _METHODS if issubclass(owner, base) and method in methods), None)


def judging() -> bool:
    """True if an evaluator of the framework is at work around here: its hidden engines are no application."""
    frame = sys._getframe(1)  # noqa: SLF001  # the one way to see who called, awaiting coroutines included
    while frame is not None:
        if frame.f_code.co_name in _EVALUATING and isinstance(frame.f_locals.get("self"), BaseEvaluator):
            return True
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
    return False


def covering(step: Span, pending: list[_Live]) -> list[_Live]:
    """The latest retrievals that together returned all nodes of a step, for the same question where it has one."""
    wanted = {node.id for node in step.taken or ()}
    found: list[_Live] = []
    for live in reversed(pending):
        if step.question is not None and live.run.root.question != step.question:
            continue
        ids = {node.id for span in live.run.spans for node in span.given or ()}
        if wanted & ids:
            found.insert(0, live)
            wanted -= ids
        if not wanted:
            return found
    return []


def _failed(step: Span, error: BaseException | None) -> None:
    """Note what a step ended with."""
    if error is not None:
        step.error = f"{type(error).__name__}: {error}"
        step.interrupted = not isinstance(error, Exception)


def _delta(chunk: Any) -> str:
    return chunk.delta or ""
