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
from llama_index.evaluation.ragmetrics.capture.snapshot import (
    copy_arguments,
    copy_error,
    copy_result,
    fields_of,
    plain,
    result_of,
    start_fields,
    streamed,
)
from llama_index.evaluation.ragmetrics.capture.streams import observe
from llama_index_instrumentation.span import active_span_id

from ragmetrics_core.capturing import Listener, Listeners, guarded, is_judge_work, renew_after_fork

_MOST_PENDING = 256
_PENDING_SECONDS = 60.0


@dataclass(slots=True, eq=False, weakref_slot=True)
class Live:
    """A run that goes on.

    Args:
        run: What is kept of it.
        listeners: Who gets it.
        ended: True once over.
        since: When it ended, on the monotonic clock.
    """

    run: Run
    listeners: tuple[Listener, ...]
    ended: bool = False
    since: float = 0.0

    @property
    def wants_data(self) -> bool:
        """True if someone named keys or paths, so that inputs and outputs are needed whole."""
        return any(one.data for one in self.listeners)


Track = tuple[Live, Span]
"""A run and the step of it that a span stands in."""


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """Where an open span stands: in one run, in several if a capture was opened within a run, or in none."""

    tracks: tuple[Track, ...] = ()
    in_model: bool = False


_OUTSIDE = _Place()
_IGNORED = _Place()


class Recorder:
    """Follows the framework's spans and hands finished runs to those who listen.

    Attributes:
        listeners: Who listens.
        problems: Errors of the hooks; they are counted for everybody who listens.
    """

    def __init__(self) -> None:
        self.listeners = Listeners(self._opened, self.release)
        self.problems = self.listeners.problems
        self._spans, self._events = Spans(self), Events(self)
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """In a forked child: what was going on goes on in the parent, and its locks may be held for ever."""
        self._lock = RLock()
        self._places: dict[str, _Place] = {}
        self._pending: deque[Live] = deque()
        self._writing: dict[str, Span] = {}  # by the span's id
        self._written: dict[int, Span] = {}  # by the identity of the response, like the next
        self._waiting: dict[int, list[Live]] = {}

    def _opened(self, listener: Listener) -> None:
        listener.under = active_span_id.get()
        install(self._spans, self._events)

    def release(self, listener: Listener) -> None:
        """Hand over retrievals that waited for a synthesizer."""
        with self._lock:
            found = [live for live in self._pending if listener in live.listeners]
            for live in found:
                self._pending.remove(live)
        for live in found:
            self._hand_over(live)

    def _wanted(self, parent_id: str | None, taken: tuple[Listener, ...], *, outermost: bool) -> tuple[Listener, ...]:
        """For whom a run begins here.

        Args:
            parent_id: The framework's span around it.
            taken: Those for whom this is inside of a run; another one wants it only if it began to listen in there.
            outermost: False if the span around it is unknown: then this is a part of something that began before
                capturing did, unless the listener itself began in that span.
        """
        found = self.listeners.here()
        if taken:
            return tuple(one for one in found if one not in taken and not one.everywhere)
        return tuple(one for one in found if outermost or parent_id == one.under)

    @guarded
    def enter(self, id_: str, bound: inspect.BoundArguments, instance: object, parent_id: str | None) -> None:
        """A span began."""
        if not self.listeners.open and not self._places:
            return
        around = None if parent_id is None else self._places.get(parent_id)
        kind = kind_of(type(instance), id_)
        if kind == "write":  # it may run in a thread that knows nothing of its chat
            self._writing[id_] = Span(kind, id_)
            return
        tracks = () if around is None else around.tracks
        taken = tuple(one for live, _ in tracks for one in live.listeners)
        fresh = self._wanted(parent_id, taken, outermost=parent_id is None or around is not None)
        if around is _IGNORED or (tracks and is_judge_work()) or ((tracks or fresh) and kind in ROOTS and judging()):
            self._places[id_] = _IGNORED
        elif isinstance(instance, BaseLLM):
            self._places[id_] = self._in_model(instance, around)
        elif tracks or fresh:
            if kind is not None:
                tracks = tuple(self._step(kind, id_, bound.arguments, *track) for track in tracks)
                tracks += self._begun(kind, id_, bound.arguments, fresh)
            self._places[id_] = _Place(tracks, in_model=around is not None and around.in_model)

    def _step(self, kind: Kind, id_: str, arguments: Mapping[str, Any], live: Live, around: Span) -> Track:
        if len(live.run.spans) >= MOST_SPANS:
            live.run.cut = True
            return live, around
        step = Span(kind, id_, around)
        live.run.spans.append(step)
        self._given(step, arguments)
        return live, step

    def _begun(
        self, kind: Kind, id_: str, arguments: Mapping[str, Any], listeners: tuple[Listener, ...]
    ) -> tuple[Track, ...]:
        """A run that begins with a span, or one that goes on with it, if anyone wants it."""
        if not listeners or kind not in ROOTS | {"post"}:
            return ()
        step = Span(kind, id_)
        self._given(step, arguments)
        live = self._joined(step, listeners)
        if live is None and kind == "post":
            return ()
        if live is None:
            live = Live(Run(step), listeners)
            for one in listeners:
                one.begun = True
            self._inputs(live, arguments)
        live.run.spans.append(step)
        return ((live, step),)

    def _in_model(self, model: BaseLLM, around: _Place | None) -> _Place:
        """A call of a model; the calls that it makes of itself are not looked at."""
        if around is None:
            return _OUTSIDE
        for live, step in () if around.in_model else around.tracks:
            if step.kind != "post":
                self._model(live, model)
        return _Place(around.tracks, in_model=True)

    def _joined(self, step: Span, listeners: tuple[Listener, ...]) -> Live | None:
        """The earlier retrievals that a postprocessor or synthesizer outside of all engines goes on with."""
        if step.kind not in ("post", "synth") or not step.taken:
            return None
        with self._lock:
            found = covering(step, [live for live in self._pending if live.listeners == listeners])
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

    @guarded
    def exit(self, id_: str, instance: object, result: object) -> None:
        """A span ended with a result."""
        writing = self._writing.pop(id_, None)
        if writing is not None:
            self._returned(writing, instance, result)
            self._wrote(writing, instance)
        for live, step in self._left(id_):
            self._returned(step, instance, result)
            if step is live.run.root:
                self._outputs(live, result)
                self._finish(live, result)

    @guarded
    def drop(self, id_: str, instance: object, error: BaseException | None) -> None:
        """A span ended with an exception."""
        writing = self._writing.pop(id_, None)
        if writing is not None:
            copy_error(writing, error)
            self._wrote(writing, instance)
        for live, step in self._left(id_):
            copy_error(step, error)
            if step is live.run.root:
                self._end(live)

    @guarded
    def hear(self, id_: str | None, delta: str) -> None:
        """A piece of a streamed chat answer was written."""
        writing = None if id_ is None else self._writing.get(id_)
        if writing is not None:
            writing.heard.append(delta)

    def _left(self, id_: str) -> list[Track]:
        """The steps that a span is, if it is any; they keep their place until their run ends, for what comes late."""
        place = self._places.get(id_, _OUTSIDE)
        own = [(live, step) for live, step in place.tracks if step.id == id_]
        if not own:
            self._places.pop(id_, None)
        return own

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
            live.run.inputs = plain({**arguments, **start_fields(arguments)})

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
                step = self._written.get(key)
                if step is None:
                    self._waiting.setdefault(key, []).append(live)
                    weakref.finalize(response, self._forgotten, key).atexit = False
            if step is not None:
                self._answered(live, step)
        else:
            observe(response, partial(self._streamed, live))

    def _wrote(self, step: Span, instance: object) -> None:
        """A streamed chat answer was written; its chat may not have returned yet, or not be a run of its own."""
        key = id(instance)
        with self._lock:
            waiting = self._waiting.pop(key, [])
            self._written[key] = step
        weakref.finalize(instance, self._forgotten, key).atexit = False
        for live in waiting:
            self._answered(live, step)

    @guarded
    def _forgotten(self, key: int) -> None:
        """A streamed chat response is gone: what was not written by now never will be."""
        with self._lock:
            self._written.pop(key, None)
            waiting = self._waiting.pop(key, [])
        for live in waiting:
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
                self._leave(step, live)
            over = [live]
            if live.run.root.kind == "retrieve" and live.run.root.error is None:
                self._pending.append(live)
                over = list(self._stale(live.since))
        for one in over:
            self._hand_over(one)

    def _hand_over(self, live: Live) -> None:
        for step in live.run.spans:  # a postprocessor may have joined a retrieval that waited
            self._leave(step, live)
        for listener in live.listeners:
            listener.record(live.run)

    def _leave(self, step: Span, live: Live) -> None:
        place = self._places.pop(step.id, _OUTSIDE)
        others = tuple(track for track in place.tracks if track[0] is not live)
        if others:
            self._places[step.id] = _Place(others)

    def _stale(self, now: float) -> Iterator[Live]:
        """Retrievals that no synthesizer goes on with any more."""
        while self._pending and (len(self._pending) > _MOST_PENDING or now - self._pending[0].since > _PENDING_SECONDS):
            yield self._pending.popleft()


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
