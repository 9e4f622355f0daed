"""The framework's hooks: a span handler that copies what happens and hands each finished run to those who listen.

A run begins at the outermost engine (query, chat or workflow); a retriever, reranker, synthesizer or model outside of
any engine is a run of its own. Nothing is assembled here, and runs that belong together are joined by the core.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from llama_index.core.agent.workflow.workflow_events import AgentOutput, ToolCall
from llama_index.core.chat_engine.types import StreamingAgentChatResponse
from llama_index.evaluation.ragmetrics.capture.hooks import Events, Spans, install
from llama_index.evaluation.ragmetrics.capture.kinds import ROOTS, is_aside, kind_of
from llama_index.evaluation.ragmetrics.capture.run import ENTRIES, MOST_CALLS, Kind, Run, Written
from llama_index.evaluation.ragmetrics.capture.snapshot import (
    agent_reply,
    copy_arguments,
    copy_error,
    copy_outcome,
    copy_result,
    copy_start,
    fields_of,
    last_model,
    model_name,
    plain,
    prompt_of,
    reply_of,
    result_of,
    start_fields,
    streamed,
    told_turns,
)
from llama_index.evaluation.ragmetrics.capture.streams import observe
from llama_index_instrumentation.span import active_span_id

from ragmetrics_core.capturing import Listener, Listeners, Message, Node, guarded, is_judge_work, renew_after_fork

_NODES: dict[Kind, Any] = {"retrieve": "retriever", "post": "reranker", "synth": "step", "respond": "step"}
_NODES |= {"program": "step", **dict.fromkeys(ENTRIES, "agent")}  # others have the name of their node's kind
_clock = itertools.count()


@dataclass(slots=True, eq=False, weakref_slot=True)
class Live:
    """A run that goes on.

    Args:
        run: What is kept of it.
        listeners: Who gets it.
        ids: The framework's spans that are places in it.
        written: Streamed chat answers that were written, by the identity of their response.
        awaits: The identity of the response whose answer is still to be written.
        ended: True once over.
    """

    run: Run
    listeners: tuple[Listener, ...]
    ids: list[str] = field(default_factory=list)
    written: dict[int, Written] = field(default_factory=dict)
    awaits: int | None = None
    ended: bool = False


Track = tuple[Live, Node]
"""A run and the call of it that a span stands in."""


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """Where an open span stands: in one run, in several if a capture was opened within a run, or in none.

    Args:
        tracks: The runs, with the call in each.
        kind: What the span does, if it is a call of its own.
        synthesizes: It stands inside a synthesizer.
        call: Id of the tool call that it answers.
        node: Its own call, which is in all runs but those that are cut.
    """

    tracks: tuple[Track, ...] = ()
    kind: Kind | None = None
    synthesizes: bool = False
    call: str | None = None
    node: Node | None = None


_OUTSIDE = _Place()
_IGNORED = _Place()
_reading: ContextVar[_Place | None] = ContextVar("ragmetrics_reading", default=None)
"""The run whose streamed answer is read here: its model may be called only now."""


@contextmanager
def _within(live: Live) -> Iterator[None]:
    before = _reading.get()
    _reading.set(_Place(((live, live.run.root),)))
    try:
        yield
    finally:
        _reading.set(before)  # no token: a generator may go on in another context


class Recorder:
    """Follows the framework's spans and hands finished runs to those who listen.

    Attributes:
        listeners: Who listens.
        problems: Errors of the hooks; they are counted for everybody who listens.
    """

    def __init__(self) -> None:
        self.listeners = Listeners(self._opened)
        self.problems = self.listeners.problems
        self._spans, self._events = Spans(self), Events(self)
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """In a forked child: what was going on goes on in the parent, and its locks may be held for ever."""
        self._lock = threading.RLock()
        self._places: dict[str, _Place] = {}
        self._writing: dict[str, Written] = {}  # by the span's id

    def _opened(self, listener: Listener) -> None:
        listener.under = active_span_id.get()
        install(self._spans, self._events)

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
        if kind == "write":
            self._writing[id_], kind = Written(), None
        if around is None:
            around = _reading.get()
        tracks = () if around is None else around.tracks
        taken = tuple(one for live, _ in tracks for one in live.listeners)
        fresh = self._wanted(parent_id, taken, outermost=parent_id is None or around is not None)
        if around is _IGNORED or (tracks and is_judge_work()) or ((tracks or fresh) and kind in ROOTS and is_aside()):
            self._places[id_] = _IGNORED
        elif tracks or fresh:
            self._places[id_] = self._placed(kind, id_, bound.arguments, instance, around or _OUTSIDE, fresh)

    def _placed(
        self,
        kind: Kind | None,
        id_: str,
        arguments: Mapping[str, Any],
        instance: object,
        around: _Place,
        fresh: tuple[Listener, ...],
    ) -> _Place:
        """The place of a span: a call of its own, or one that capturing looks through."""
        again = kind == "tool" and around.kind == "tool"  # a tool that is called calls itself
        twin = _twin(around, prompt_of(arguments)) if kind == "model" else None
        if kind is None or again or twin is not None or (kind == "respond" and around.synthesizes):
            event = arguments.get("ev")
            call = event.tool_id if isinstance(event, ToolCall) else around.call
            self._condensing(around, arguments.get("prompt_args"))
            return _Place(around.tracks, None, around.synthesizes, call, twin or around.node)
        tracks, node = around.tracks, None
        if tracks or kind in ROOTS:
            node = Node(_NODES.get(kind, kind), type(instance).__name__, next(_clock), call=around.call)
            self._given(kind, node, arguments, instance)
            tracks = tuple(self._added(node, live, parent) for live, parent in tracks)
            if fresh and kind in ROOTS:
                tracks += ((self._begun(kind, node, arguments, instance, fresh), node),)
            for live, _ in tracks:
                live.ids.append(id_)
        return _Place(tracks, kind, around.synthesizes or kind in ("synth", "respond"), None, node)

    def _added(self, node: Node, live: Live, parent: Node) -> Track:
        if live.run.calls >= MOST_CALLS:
            live.run.cut = True
            return live, parent
        live.run.calls += 1
        if not any(child is node for child in parent.children[-1:]):  # a node stands in several runs
            parent.children.append(node)
        return live, node

    def _begun(
        self,
        kind: Kind,
        node: Node,
        arguments: Mapping[str, Any],
        instance: object,
        listeners: tuple[Listener, ...],
    ) -> Live:
        live = Live(Run(kind, node, _strand()), listeners)
        for one in listeners:
            one.begun = True
        self._started(live, arguments, instance)
        return live

    @guarded
    def exit(self, id_: str, instance: object, result: object) -> None:
        """A span ended with a result."""
        place = self._left(id_)
        self._wrote(id_, place, instance, None)
        if place.kind is None:
            if isinstance(result, AgentOutput) and instance is None:
                self._agent_said(place, result)
            return
        if place.node is not None:
            self._returned(place.kind, place.node, result)
            place.node.ended = next(_clock)
        for live, _ in place.tracks:
            if place.node is live.run.root:
                self._outcome(live, result)
                self._finish(live, result)

    @guarded
    def drop(self, id_: str, instance: object, error: BaseException | None) -> None:
        """A span ended with an exception."""
        place = self._left(id_)
        self._wrote(id_, place, instance, error)
        if place.kind is None or place.node is None:
            return
        copy_error(place.node, error)
        place.node.ended = next(_clock)
        for live, _ in place.tracks:
            if place.node is live.run.root:
                live.run.complete = live.run.complete and isinstance(error, Exception)
                self._end(live)

    @guarded
    def hear(self, id_: str | None, delta: str) -> None:
        """A piece of a streamed chat answer was written."""
        writing = None if id_ is None else self._writing.get(id_)
        if writing is not None:
            writing.heard.append(delta)

    @guarded
    def said(self, id_: str | None, reply: object) -> None:
        """A model has said all that it says."""
        place = self._places.get(id_ or "", _OUTSIDE)
        node = place.node
        if node is not None and node.kind == "model" and node.reply is None:
            node.reply, node.ended = reply_of(reply), next(_clock)
        for live, _ in place.tracks:
            if node is live.run.root and live.run.kind == "model" and live.run.streamed:
                self._end(live)

    def _left(self, id_: str) -> _Place:
        """The place of a span; one that is a call keeps it until its run ends, for what comes late."""
        place = self._places.get(id_, _OUTSIDE)
        if place.kind is None or not place.tracks:
            self._places.pop(id_, None)
        return place

    # Copies are guarded one by one: what cannot be copied is missing, and the run is still recorded.

    @guarded
    def _given(self, kind: Kind, node: Node, arguments: Mapping[str, Any], instance: object) -> None:
        if kind == "model":
            node.model = model_name(instance)
        copy_arguments(kind, node, arguments, instance)

    @guarded
    def _condensing(self, place: _Place, arguments: object) -> None:
        """A model is about to condense a question: the conversation, where no memory could be read."""
        told = arguments.get("chat_history") if isinstance(arguments, dict) else None
        for live, _ in place.tracks if isinstance(told, str) else ():
            if live.run.kind == "chat" and not live.run.history:
                live.run.history = told_turns(told or "")

    @guarded
    def _returned(self, kind: Kind, node: Node, result: object) -> None:
        copy_result(kind, node, result)

    @guarded
    def _started(self, live: Live, arguments: Mapping[str, Any], instance: object) -> None:
        if any(one.data for one in live.listeners):
            live.run.inputs = plain({**arguments, **start_fields(arguments)})
        copy_start(live.run, arguments, instance)

    @guarded
    def _outcome(self, live: Live, result: object) -> None:
        if any(one.data for one in live.listeners):
            given = plain(result_of(result))
            rest = given if isinstance(given, dict) else {}
            live.run.outputs = {**plain(fields_of(result)), "result": given, **rest}
        copy_outcome(live.run, result)

    @guarded
    def _agent_said(self, place: _Place, output: AgentOutput) -> None:
        """A step of an agent ended: its model's reply, with the tools that it called."""
        for _, node in place.tracks:
            model = last_model(node)
            if model is not None and (output.tool_calls or model.reply is None):
                model.reply, model.ended = agent_reply(output), next(_clock)

    @guarded
    def _finish(self, live: Live, result: object) -> None:
        """The root returned: the run is over, unless its answer is still streaming."""
        run, response = live.run, streamed(result)
        if run.kind == "model" and run.root.reply is None and inspect.isgenerator(result) | inspect.isasyncgen(result):
            run.streamed = True
            weakref.finalize(result, self._end, live).atexit = False
        elif response is None or run.answer is not None:
            self._end(live)
        elif isinstance(response, StreamingAgentChatResponse) and response.is_writing_to_memory:
            run.streamed = True
            with self._lock:
                written = live.written.get(id(response))
                live.awaits = id(response)
            if written is not None:
                self._streamed(live, written.answer or "".join(written.heard), written.error)
            else:  # what is not written by the time that the response is gone never will be
                weakref.finalize(response, self._streamed, live, "", GeneratorExit()).atexit = False
        else:
            run.streamed = True
            observe(response, partial(self._streamed, live), partial(_within, live))

    @guarded
    def _wrote(self, id_: str, place: _Place, response: object, error: BaseException | None) -> None:
        """A streamed chat answer was written; its chat may not have returned yet, or not be a run of its own."""
        written = self._writing.pop(id_, None)
        if written is None or not isinstance(response, StreamingAgentChatResponse):
            return
        said = "".join(written.heard)
        written.error, written.answer = error, response.response or said.strip()  # older cores leave it to the reader
        for live, _ in place.tracks:
            with self._lock:
                live.written[id(response)] = written
                awaited = live.awaits == id(response)
            if awaited:
                self._streamed(live, said if error else written.answer, error)

    @guarded
    def _streamed(self, live: Live, said: str, error: BaseException | None) -> None:
        """A streamed answer was read to its end, failed, was broken off, or was forgotten unread."""
        if live.ended:
            return
        if error is None:
            live.run.answer = said
        else:
            live.run.partial, live.run.complete = said or None, False
            copy_error(live.run.root, None if isinstance(error, GeneratorExit) else error)
        self._end(live)

    @guarded
    def _end(self, live: Live) -> None:
        """Forget a run's places and hand it over."""
        with self._lock:
            if live.ended:
                return
            live.ended = True
            for id_ in live.ids:
                place = self._places.pop(id_, _OUTSIDE)
                others = tuple(track for track in place.tracks if track[0] is not live)
                if others:
                    self._places[id_] = replace(place, tracks=others)
        for listener in live.listeners:
            listener.record(live.run)


def _twin(around: _Place, prompt: tuple[Message, ...]) -> Node | None:
    """The call of a model that another one belongs to: one inside it, or its second span for one prompt."""
    if around.node is not None and around.node.kind == "model" and around.node.prompt:
        return around.node
    last = [child for _, parent in around.tracks[:1] for child in parent.children[-1:]]
    return next((one for one in last if one.kind == "model" and one.reply is None and one.prompt == prompt), None)


def _strand() -> str:
    """The task or thread that runs here."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return f"thread {threading.get_ident()}" if task is None else f"task {id(task)}"


RECORDER = Recorder()
