"""The framework's hooks: one span handler that copies what happens and hands each finished run to its sinks.

A run begins at the outermost engine (query, chat or workflow); a retriever or synthesizer outside of any engine is a
run of its own, and a synthesizer joins what was retrieved for it before. Nothing is assembled here.
"""

from __future__ import annotations

import inspect
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from threading import RLock
from time import monotonic
from typing import Any

from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.chat_engine.types import StreamingAgentChatResponse
from llama_index.evaluation.ragmetrics.capture.hooks import Events, Spans, install
from llama_index.evaluation.ragmetrics.capture.kinds import ROOTS, judging, kind_of
from llama_index.evaluation.ragmetrics.capture.run import MOST_SPANS, Kind, Run, Span
from llama_index.evaluation.ragmetrics.capture.scopes import Scope, Scopes, SharedProblems, is_paused
from llama_index.evaluation.ragmetrics.capture.snapshot import (
    copy_arguments,
    copy_error,
    copy_result,
    fields_of,
    plain,
    result_of,
    streamed,
)
from llama_index.evaluation.ragmetrics.capture.streams import observe

from ragmetrics_core.capturing import guarded

_MOST_PENDING = 256
_PENDING_SECONDS = 60.0


@dataclass(slots=True, eq=False, weakref_slot=True)
class Live:
    """A run that goes on.

    Args:
        run: What is kept of it.
        scopes: Who gets it.
        ended: True once over.
        since: When it ended, on the monotonic clock.
    """

    run: Run
    scopes: tuple[Scope, ...]
    ended: bool = False
    since: float = 0.0

    @property
    def wants_data(self) -> bool:
        """True if someone named keys or paths, so that inputs and outputs are needed whole."""
        return any(scope.data for scope in self.scopes)


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """Where an open span stands: in which run, under which step; neither for spans outside of all runs."""

    live: Live | None = None
    step: Span | None = None
    in_model: bool = False


_OUTSIDE = _Place()
_IGNORED = _Place()


class Recorder:
    """Follows the framework's spans and hands finished runs to the open scopes.

    Attributes:
        problems: Errors of the hooks; they are counted in every open scope.
    """

    def __init__(self) -> None:
        self.scopes = Scopes()
        self.problems = SharedProblems(self.scopes)
        self._places: dict[str, _Place] = {}
        self._pending: deque[Live] = deque()
        self._lock = RLock()
        self._written: dict[int, Span] = {}
        self._waiting: dict[int, Live] = {}
        self._spans, self._events = Spans(self), Events(self)

    def open(self, scope: Scope) -> None:
        """Hand runs to a scope from now on."""
        self.scopes.add(scope)
        with self._lock:
            install(self._spans, self._events)

    def close(self, scope: Scope) -> None:
        """Begin no further runs for a scope; those that go on still reach it."""
        self.scopes.remove(scope)
        self.release(scope)

    def release(self, scope: Scope) -> None:
        """Hand over retrievals that waited for a synthesizer."""
        with self._lock:
            found = [live for live in self._pending if scope in live.scopes]
            for live in found:
                self._pending.remove(live)
        for live in found:
            _hand_over(live)

    @guarded
    def enter(self, id_: str, bound: inspect.BoundArguments, instance: object, parent_id: str | None) -> None:
        """A span began."""
        if not self.scopes.open and not self._places:
            return
        around = None if parent_id is None else self._places.get(parent_id)
        kind = kind_of(type(instance), id_)
        if around is _IGNORED:
            self._places[id_] = _IGNORED
        elif kind == "write":  # it may run in a thread that knows nothing of its chat
            self._places[id_] = _Place(None, Span(kind, id_))
        elif around is not None and around.live is not None:
            self._places[id_] = self._inside(id_, kind, bound.arguments, instance, around)
        else:
            scopes = self.scopes.wanted(parent_id, outermost=parent_id is None or around is not None)
            if scopes:
                self._places[id_] = self._outside(id_, kind, bound.arguments, scopes)

    def _outside(self, id_: str, kind: Kind | None, arguments: Mapping[str, Any], scopes: tuple[Scope, ...]) -> _Place:
        """A span outside of all runs: it begins one, goes on with one, or stands around runs to come."""
        if is_paused() or (kind in ROOTS and judging()):
            return _IGNORED
        if kind is None or kind not in ROOTS | {"post"}:
            return _OUTSIDE
        step = Span(kind, id_)
        self._given(step, arguments)
        live = self._joined(step, scopes)
        if live is None:
            if kind == "post":
                return _OUTSIDE
            live = Live(Run(step), scopes)
            self._inputs(live, arguments)
        live.run.spans.append(step)
        return _Place(live, step)

    def _joined(self, step: Span, scopes: tuple[Scope, ...]) -> Live | None:
        """The earlier retrievals that a postprocessor or synthesizer outside of all engines goes on with."""
        if step.kind not in ("post", "synth") or not step.taken:
            return None
        with self._lock:
            found = covering(step, [live for live in self._pending if live.scopes == scopes])
            if not found:
                return None
            first, *others = found
            for live in others:
                self._pending.remove(live)
                first.run.spans += live.run.spans
            if step.kind == "synth":
                self._pending.remove(first)
                first.run.root, first.ended = step, False
            return first

    def _inside(
        self, id_: str, kind: Kind | None, arguments: Mapping[str, Any], instance: object, around: _Place
    ) -> _Place:
        """A span inside of a run: a step of it, or something to look through."""
        live = around.live
        if live is None or (kind == "query" and judging()):
            return _IGNORED
        if kind is None:
            if not isinstance(instance, BaseLLM):
                return around
            if not around.in_model and around.step is not None and around.step.kind != "post":
                self._model(live, instance)
            return _Place(live, around.step, in_model=True)
        if len(live.run.spans) >= MOST_SPANS:
            live.run.cut = True
            return _Place(live, around.step)
        step = Span(kind, id_, around.step)
        live.run.spans.append(step)
        self._given(step, arguments)
        return _Place(live, step)

    @guarded
    def exit(self, id_: str, instance: object, result: object) -> None:
        """A span ended with a result."""
        step, live = self._left(id_)
        if step is None:
            return
        self._returned(step, instance, result)
        if step.kind == "write":
            self._wrote(step, instance)
        elif live is not None and step is live.run.root:
            self._outputs(live, result)
            self._finish(live, result)

    @guarded
    def drop(self, id_: str, instance: object, error: BaseException | None) -> None:
        """A span ended with an exception."""
        step, live = self._left(id_)
        if step is None:
            return
        copy_error(step, error)
        if step.kind == "write":
            self._wrote(step, instance)
        elif live is not None and step is live.run.root:
            self._end(live)

    @guarded
    def hear(self, id_: str | None, delta: str) -> None:
        """A piece of a streamed chat answer was written."""
        place = None if id_ is None else self._places.get(id_)
        if place is not None and place.step is not None and place.step.id == id_:
            place.step.heard.append(delta)

    def _left(self, id_: str) -> tuple[Span | None, Live | None]:
        """The step that a span is, if it is one; steps keep their place until their run ends."""
        place = self._places.get(id_)
        if place is None:
            return None, None
        step = place.step if place.step is not None and place.step.id == id_ else None
        if step is None or step.kind == "write":
            self._places.pop(id_, None)
        return step, place.live

    # Copies are guarded one by one: what cannot be copied is missing, and the run is still recorded.

    @guarded
    def _given(self, step: Span, arguments: Mapping[str, Any]) -> None:
        copy_arguments(step, arguments)

    @guarded
    def _returned(self, step: Span, instance: object, result: object) -> None:
        copy_result(step, instance, result)

    @guarded
    def _inputs(self, live: Live, arguments: Mapping[str, Any]) -> None:
        if live.wants_data:
            live.run.inputs = plain({**arguments, **fields_of(arguments.get("start_event"))})

    @guarded
    def _outputs(self, live: Live, result: object) -> None:
        if live.wants_data:
            given = plain(result_of(result))
            live.run.outputs = {
                **plain(fields_of(result)),
                "result": given,
                **(given if isinstance(given, dict) else {}),
            }

    @guarded
    def _model(self, live: Live, model: BaseLLM) -> None:
        name = model.metadata.model_name
        live.run.model = None if name == "unknown" else name  # the framework's word for no name

    @guarded
    def _finish(self, live: Live, result: object) -> None:
        """The root returned: the run is over, unless its answer is still streaming."""
        response = streamed(result)
        if response is None or live.run.root.answer is not None:
            self._end(live)
        elif isinstance(response, StreamingAgentChatResponse) and response.is_writing_to_memory:
            key = id(response)
            with self._lock:
                step = self._written.pop(key, None)
                if step is None:
                    self._waiting[key] = live
                    weakref.finalize(response, self._forgotten, key).atexit = False
            if step is not None:
                self._answered(live, step)
        else:
            observe(response, partial(self._streamed, live))

    def _wrote(self, step: Span, instance: object) -> None:
        """A streamed chat answer was written; its chat may not have returned yet, or not be a run of its own."""
        key = id(instance)
        with self._lock:
            live = self._waiting.pop(key, None)
            if live is None:
                self._written[key] = step
                weakref.finalize(instance, self._forgotten, key).atexit = False
        if live is not None:
            self._answered(live, step)

    @guarded
    def _forgotten(self, key: int) -> None:
        """A streamed chat response is gone: what was not written by now never will be."""
        with self._lock:
            self._written.pop(key, None)
            live = self._waiting.pop(key, None)
        if live is not None:
            self._streamed(live, "", GeneratorExit())

    def _answered(self, live: Live, written: Span) -> None:
        root = live.run.root
        root.answer, root.error, root.interrupted = written.answer, written.error, written.interrupted
        if written.error is not None:
            live.run.partial, live.run.complete = "".join(written.heard) or None, False
        self._end(live)

    @guarded
    def _streamed(self, live: Live, said: str, error: BaseException | None) -> None:
        """A streamed answer was read to its end, failed, was broken off, or was forgotten unread."""
        if live.ended:
            return
        if error is None:
            live.run.root.answer = said
        else:
            live.run.partial, live.run.complete = said or None, False
            copy_error(live.run.root, None if isinstance(error, GeneratorExit) else error)
        self._end(live)

    def _end(self, live: Live) -> None:
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
            _hand_over(one)

    def _stale(self, now: float) -> Iterator[Live]:
        """Retrievals that no synthesizer goes on with any more."""
        while self._pending and (len(self._pending) > _MOST_PENDING or now - self._pending[0].since > _PENDING_SECONDS):
            yield self._pending.popleft()


def _hand_over(live: Live) -> None:
    for scope in live.scopes:
        scope.sink.record(live.run)


def covering(step: Span, pending: list[Live]) -> list[Live]:
    """The latest retrievals that together returned all nodes of a step, for the same question where it has one."""
    wanted = {node.id for node in step.taken or ()}
    found: list[Live] = []
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


RECORDER = Recorder()
