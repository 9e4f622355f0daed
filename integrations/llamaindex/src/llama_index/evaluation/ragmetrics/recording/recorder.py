"""The framework's hooks: what happens is copied, and each finished run is handed to those who listen.

A run begins at the outermost engine (query, chat or workflow); a retriever, reranker,
synthesizer or model outside of any engine is a run of its own. Nothing is assembled
here, and runs that belong together are joined by the core.
"""

import itertools
import threading
import weakref
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Generator,
    Iterator,
    Mapping,
)
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from llama_index.core.agent.workflow.workflow_events import AgentOutput
from llama_index.core.chat_engine.types import (
    BaseChatEngine,
    StreamingAgentChatResponse,
)
from llama_index.core.evaluation.dataset_generation import DatasetGenerator
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import VectorStoreQueryResult
from llama_index.evaluation.ragmetrics.recording import snapshot
from llama_index.evaluation.ragmetrics.recording.hooks import (
    CONTEXTS,
    SEARCHES,
    Events,
    Spans,
    given_context,
    install,
    observe,
    untaken_of,
)
from llama_index.evaluation.ragmetrics.recording.run import (
    MEMORY,
    ROOTS,
    Kind,
    Run,
    called_by,
    kind_of,
)
from llama_index_instrumentation.span import active_span_id

from ragmetrics_core import capture
from ragmetrics_core.capture import (
    Listener,
    Listeners,
    Message,
    Node,
    guard_hook,
    strand,
    words_of,
)

MOST_CALLS = 10_000  # of one run; a workflow that never ends must not fill the memory
# Kinds that are not listed are named alike.
_NODES: dict[Kind, Any] = {
    "query": "agent",
    "chat": "agent",
    "workflow": "agent",
    "predict": "agent",
}
# Kinds that answer from what was found outside of them.
_ANSWER_BY_THEMSELVES: frozenset[Kind] = frozenset(
    ("model", "program", "predict", "synth", "respond")
)
_NODES |= {
    "retrieve": "retriever",
    "post": "reranker",
    "synth": "step",
    "respond": "step",
    "program": "step",
}
# characters of "-" and a UUID at the end of a span's id, behind class and method
_UUID = 37
_clock = itertools.count()
_NOBODY_READ = (
    "nobody read the streamed answer: whether the user received it is not certain"
)
_SEARCHED_BY_HAND = (
    "a vector store was queried without a retriever before this call: what it found, and"
    " what of that was shown, is not recorded"
)
_MOST_STRANDS = 1000
_NOT_READ_YET = (
    "a streamed answer was not read to its end when the block ended; its sample is there"
    " once it is read, or its response is gone"
)


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Live:
    """A run that goes on, and who gets it.

    Attributes:
        run: The run.
        listeners: Who gets it once it has ended.
        data: Whether its inputs and outputs are needed whole.
        spans: The ids of the spans that stand in it.
        written: By the identity of a streamed chat's response: the answer that was
            written, and the error that broke it off.
        awaits: The identity of the response whose answer the run waits for.
        untaken: Pieces of that answer that the application has not taken.
        ended: Whether it was handed over.
    """

    run: Run
    listeners: tuple[Listener, ...]
    data: bool  # inputs and outputs are needed whole
    spans: list[str] = field(default_factory=list)
    written: dict[int, tuple[str, BaseException | None]] = field(default_factory=dict)
    awaits: int | None = None
    # pieces of that answer that the application has not taken
    untaken: Collection[str] = ()
    ended: bool = False

    def is_streamed_to(self, listener: Listener) -> bool:
        """Whether a listener waits for an answer that is read from a stream."""
        return listener in self.listeners and self.run.streamed


_Track = tuple[_Live, Node]


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """Where an open span stands.

    It stands in one run, in several if a capture was opened within a run, or in none.

    Attributes:
        tracks: The runs, each with the call of the span in it.
        kind: The kind of a span that is a call of its own; None for others.
        within: Kinds of the calls around it.
        event: What the step that it stands in was sent.
        node: The innermost call, which stands in all runs but those that are cut.
    """

    tracks: tuple[_Track, ...] = ()  # the runs, with the call in each
    kind: Kind | None = None  # of a span that is a call of its own
    within: frozenset[Kind] = frozenset()  # kinds of the calls around it
    event: object = None  # what the step that it stands in was sent
    # the innermost call, which stands in all runs but those that are cut
    node: Node | None = None


_OUTSIDE, _IGNORED = _Place(), _Place()
# The run whose streamed answer is read here: its model may be called only now.
_reading: ContextVar[_Place | None] = ContextVar("ragmetrics_reading", default=None)


@contextmanager
def _within(live: _Live) -> Iterator[None]:
    before = _reading.get()
    _reading.set(_Place(((live, live.run.root),)))
    try:
        yield
    finally:
        _reading.set(before)  # no token: a generator may go on in another context


class Recorder:
    """Makes runs of the framework's spans, and hands each to those who listen.

    Attributes:
        listeners: Who listens.
        problems: Errors of the hooks, counted for everybody who listens.
    """

    def __init__(self) -> None:
        self.listeners = Listeners(self._opened, self._closed)
        self.problems = self.listeners.problems
        self._spans, self._events = Spans(self), Events(recorder=self)
        capture.renew_after_fork(self)

    def after_fork(self) -> None:
        """Start anew in a forked child.

        Runs go on in the parent, and its locks may be held for ever.
        """
        self._lock = threading.RLock()
        self._places: dict[str, _Place] = {}
        # pieces of a streamed chat answer, by the span that writes it
        self._writing: dict[str, list[str]] = {}
        # by open span, what tells that nothing will end it
        self._ends: dict[str, weakref.finalize[Any, Any]] = {}
        # strands in which a store was queried outside of all runs, the last one last
        self._searched_by_hand: dict[str, None] = {}
        # nodes that generators of test data made for themselves
        self._test_data: set[str] = set()

    def _opened(self, listener: Listener) -> None:
        listener.under = active_span_id.get()
        install(self._spans, self._events)
        CONTEXTS.begin()
        SEARCHES.begin(self.searched)

    def _closed(self, listener: Listener) -> None:
        """Stop watching, once nobody listens any more.

        A run whose streamed answer was not read yet is noted as a problem of the
        listener.
        """
        if not self.listeners.open:
            CONTEXTS.end()
            SEARCHES.end()
            self._searched_by_hand.clear()
        lives = {
            live for place in list(self._places.values()) for live, _ in place.tracks
        }
        if any(live.is_streamed_to(listener) for live in lives):
            listener.problems.note(_NOT_READ_YET)

    def _wanted(
        self, parent_id: str | None, around: _Place | None
    ) -> tuple[Listener, ...]:
        """Return the listeners for whom a run begins with a span."""
        listening = self.listeners.here()
        listening_around = (
            [listener for live, _ in around.tracks for listener in live.listeners]
            if around is not None
            else []
        )
        # inside of a run for these; another one wants it only if it began to listen in
        # there
        if listening_around:
            return tuple(
                listener
                for listener in listening
                if listener not in listening_around and not listener.everywhere
            )
        # If the span around it is unknown, it is a part of something that began before
        # capturing did.
        return tuple(
            listener
            for listener in listening
            if parent_id is None or around is not None or parent_id == listener.under
        )

    @guard_hook
    def enter(
        self,
        id_: str,
        arguments: Mapping[str, Any],
        instance: object,
        parent_id: str | None,
    ) -> None:
        """A span began: find its place, unless it belongs to nothing that is watched.

        Args:
            id_: The span's id, which ends in class, method and a UUID.
            arguments: What its method was given.
            instance: Whose method it is.
            parent_id: The span around it; None if there is none.
        """
        if isinstance(instance, BaseChatEngine) and ".reset-" in id_:
            snapshot.start_over(instance)
        if not self.listeners.open and not self._places:
            return
        reading = _reading.get()
        parent = None if parent_id is None else self._places.get(parent_id)
        around = _joined(parent, reading)
        owner: type = type(instance)
        kind = kind_of(owner, id_[:-_UUID].rpartition(".")[2])
        if kind == "write":
            self._writing[id_] = []
            kind = None
        if around is _IGNORED:
            self._places[id_] = _IGNORED
            return
        # While a streamed answer is read no run begins.
        fresh = () if reading is not None else self._wanted(parent_id, around)
        surroundings = around or _OUTSIDE
        if surroundings.tracks or fresh:
            place = self._watched(kind, arguments, instance, surroundings, fresh)
            if place.kind is not None:
                for live, _ in place.tracks:
                    live.spans.append(id_)
            self._places[id_] = place

    def _watched(
        self,
        kind: Kind | None,
        arguments: Mapping[str, Any],
        instance: object,
        around: _Place,
        fresh: tuple[Listener, ...],
    ) -> _Place:
        """The place of a span in a run, or of one that begins a run for ``fresh``.

        What a judge does, or a generator of test data, is ignored with all inside it.
        A call that only shortens the memory is ignored by itself.
        """
        caller = called_by() if kind in ROOTS else None
        is_judge_work = bool(around.tracks) and capture.is_judge_work()
        if is_judge_work or (caller is not None and caller not in MEMORY):
            return _IGNORED
        place = self._placed(kind, arguments, instance, around, fresh)
        if caller is not None and place.kind is not None and place.node is not None:
            place.node.kind = "ignored"
        return place

    @guard_hook
    def follow(self, id_: str, bound_args: object) -> None:
        """Forget an open span also if the framework never says that it ended.

        It says nothing where telling the application's exception raises in its turn.
        The framework holds the arguments of a call until it has said so; once they are
        gone, nothing more will come.
        """
        if id_ in self._places or id_ in self._writing:
            self._ends[id_] = weakref.finalize(bound_args, self._lost, id_)
            self._ends[id_].atexit = False

    @guard_hook
    def _lost(self, id_: str) -> None:
        if id_ in self._ends:
            self.leave(id_, None, None, GeneratorExit())

    def _placed(
        self,
        kind: Kind | None,
        arguments: Mapping[str, Any],
        instance: object,
        around: _Place,
        fresh: tuple[Listener, ...],
    ) -> _Place:
        """Find the place of a span, and make its call.

        A span that is no call of its own has the place around it.
        """
        twin = _twin(around, snapshot.prompt_of(arguments)) if kind == "model" else None
        if kind is None or twin is not None or _is_looked_through(kind, around):
            self._prompted(around, arguments)
            return replace(
                around,
                kind=None,
                event=arguments.get("ev", around.event),
                node=twin or around.node,
            )
        if not around.tracks and kind not in ROOTS:
            return _Place(kind=kind)
        node = self._call(kind, arguments, instance, around)
        tracks = tuple(_added(node, live, parent) for live, parent in around.tracks)
        if fresh and kind in ROOTS:
            live = self._begun(kind, node, arguments, instance, fresh)
            tracks = (*tracks, (live, node))
        entered = "synth" if kind == "respond" else kind
        return _Place(tracks, kind, around.within | {entered}, None, node)

    def _call(
        self,
        kind: Kind,
        arguments: Mapping[str, Any],
        instance: object,
        around: _Place,
    ) -> Node:
        """The call of a span, with copies of what it was given."""
        node = Node(_NODES.get(kind, kind), type(instance).__name__, next(_clock))
        if kind == "tool" and "program" in around.within:
            node.kind = "ignored"  # a structured answer
        self._copied(snapshot.copy_event, node, around.event)
        self._copied(snapshot.copy_arguments, kind, node, arguments, instance)
        return node

    def _begun(
        self,
        kind: Kind,
        node: Node,
        arguments: Mapping[str, Any],
        instance: object,
        listeners: tuple[Listener, ...],
    ) -> _Live:
        """Begin a run with a call, for those who listen."""
        needs_data = any(listener.data for listener in listeners)
        run = Run(node, kind=kind, strand=strand())
        if kind in _ANSWER_BY_THEMSELVES and run.strand in self._searched_by_hand:
            del self._searched_by_hand[run.strand]
            run.doubts = (_SEARCHED_BY_HAND,)
        live = _Live(run, listeners, needs_data)
        for listener in listeners:
            listener.begun = True
        self._copied(
            snapshot.copy_start,
            live.run,
            arguments,
            instance,
            needs_data,
            given_context(),
        )
        return live

    @guard_hook
    def leave(
        self, id_: str, instance: object, result: object, error: BaseException | None
    ) -> None:
        """Record the end of a span, with a result or an exception.

        The call gets its result, its end and its error. If it is the root of a run, the
        run ends with it. The place of a call is known until its run ends, because a
        part of its reply may come late. The place of any other span is forgotten here.

        Args:
            id_: The id of the span.
            instance: The object whose method ran; None for a step of a workflow.
            result: What it returned; None if it raised.
            error: What it raised; None if it returned.
        """
        waiting_end = self._ends.pop(id_, None)
        if waiting_end is not None:
            # the span has ended, so its end need not be told when its object goes
            waiting_end.detach()
        place = self._places.get(id_, _OUTSIDE)
        node = place.node if place.kind is not None else None
        if node is None or not place.tracks:
            self._places.pop(id_, None)
        self._wrote(id_, place, instance, error)
        self._note_test_data(place, result)
        if isinstance(result, AgentOutput) and instance is None:
            self._agent_said(place, result)
        if node is None or place.kind is None:
            return
        if error is None:
            self._copied(snapshot.copy_result, place.kind, node, result, instance)
        _note_end(node, error)
        is_of_test_data = self._found_test_data(node)
        for live, _ in place.tracks:
            if is_of_test_data and live.run.kind in ("query", "retrieve"):
                live.run.root.kind = "ignored"
            if node is live.run.root:
                self._leave_root(live, result, error)

    def _leave_root(
        self, live: _Live, result: object, error: BaseException | None
    ) -> None:
        """End a run whose outermost call failed; one whose call returned may still stream."""
        if error is None:
            self._copied(snapshot.copy_outcome, live.run, result, live.data)
            self._finish(live, result)
        else:
            live.run.complete = isinstance(error, Exception)
            self._end(live)

    def _note_test_data(self, place: _Place, result: object) -> None:
        """Remember the nodes that a generator of test data made for itself."""
        if place.kind == "ignored" and called_by() is DatasetGenerator:
            nodes = result if isinstance(result, list) else ()
            self._test_data |= {
                node.node_id for node in nodes if isinstance(node, BaseNode)
            }

    def _found_test_data(self, node: Node) -> bool:
        """Whether a retriever found nothing but nodes that a generator of test data made."""
        if node.kind != "retriever":
            return False
        ids = {document.id for document in node.documents or ()}
        return bool(ids) and ids <= self._test_data

    @guard_hook
    def hear(self, id_: str | None, delta: str) -> None:
        """Note a piece of a streamed chat answer that the engine wrote."""
        if id_ in self._writing:
            self._writing[id_].append(delta)

    @guard_hook
    def searched(self, result: VectorStoreQueryResult) -> None:
        """Record a search that the application made without a retriever."""
        place = self._places.get(active_span_id.get() or "", _OUTSIDE)
        is_of_a_retriever = place.kind == "retrieve" or "retrieve" in place.within
        if place is _IGNORED or is_of_a_retriever or called_by() is not None:
            return
        if not place.tracks:
            self._search_by_hand()
            return
        documents = snapshot.documents_of_result(result)
        node = Node("retriever", "vector store", next(_clock), documents=documents)
        node.ended = next(_clock)
        for live, parent in place.tracks:
            _added(node, live, parent)
            if documents is None:
                live.run.ids_alone |= set(result.ids or ())

    def _search_by_hand(self) -> None:
        """Note a search outside of all runs.

        The next call of a model in this strand may show what it found.
        """
        if not self.listeners.here():
            return
        here = strand()
        self._searched_by_hand.pop(here, None)
        self._searched_by_hand[here] = None
        if len(self._searched_by_hand) > _MOST_STRANDS:
            del self._searched_by_hand[next(iter(self._searched_by_hand))]

    @guard_hook
    def said(self, id_: str | None, reply: object) -> None:
        """Note the whole reply of a model; it ends a run that is a streaming model alone."""
        place = self._places.get(id_ or "", _OUTSIDE)
        if (
            place.node is None
            or place.node.kind != "model"
            or place.node.reply is not None
        ):
            return
        self._copied(snapshot.note_reply, place.node, reply)
        place.node.ended = next(_clock)
        for live, _ in place.tracks:
            if place.node is live.run.root and live.run.streamed:
                self._end(live)

    @guard_hook
    def _copied(self, copy: Callable[..., object], *arguments: object) -> None:
        """Copy something for a run.

        Each copy is guarded by itself: what cannot be copied is missing, and the run is
        still recorded.
        """
        copy(*arguments)

    @guard_hook
    def _prompted(self, place: _Place, llm_arguments: Mapping[str, Any]) -> None:
        """Take the history from a model's template, where no memory could be read."""
        for live, _ in place.tracks:
            if live.run.kind == "chat":
                live.run.history = live.run.history or snapshot.prompted_turns(
                    llm_arguments
                )

    @guard_hook
    def _agent_said(self, place: _Place, output: AgentOutput) -> None:
        """Note the reply of an agent's model, and the tools that it called."""
        for _, node in place.tracks:
            model = next(
                (child for child in reversed(node.children) if child.kind == "model"),
                None,
            )
            if model is not None and (output.tool_calls or model.reply is None):
                self._copied(snapshot.note_reply, model, output)
                model.ended = next(_clock)

    @guard_hook
    def _finish(self, live: _Live, result: object) -> None:
        """End a run whose root returned, or follow its answer while that is streaming."""
        run, response = live.run, snapshot.result_of(result)
        # a thread may have written all of it by now
        run.streamed = isinstance(response, snapshot.Streamed)
        if run.kind == "model" and isinstance(result, (Generator, AsyncGenerator)):
            run.streamed = True
            weakref.finalize(result, self._end, live).atexit = False
        elif (
            isinstance(response, StreamingAgentChatResponse)
            and response.is_writing_to_memory
        ):
            self._follow_chat(live, response)
        elif not isinstance(response, snapshot.Streamed) or run.root.text is not None:
            self._end(live)
        else:
            observe(response, partial(self._streamed, live), partial(_within, live))

    @guard_hook
    def _wrote(
        self, id_: str, place: _Place, response: object, error: BaseException | None
    ) -> None:
        """Note for its runs that a streamed chat answer was written to its end.

        At that moment its chat may not have returned yet, or be no run of its own.
        """
        heard = self._writing.pop(id_, None)
        if heard is None or not isinstance(response, StreamingAgentChatResponse):
            return
        # where it ended well the response has it, but in older cores
        heard_text = "".join(heard)
        written = (
            (heard_text, error)
            if error is not None
            else (response.response or heard_text.strip(), None)
        )
        for live, _ in place.tracks:
            live.written[id(response)] = written
            self._awaited(live)

    def _follow_chat(self, live: _Live, response: StreamingAgentChatResponse) -> None:
        """Wait until a chat's answer is written and read, or its response is gone.

        The engine of the chat writes the answer, perhaps after the chat has returned.
        """
        weakref.finalize(response, self._left, live).atexit = False
        # first: from then on the thread that writes may end the run
        self._copied(self._follow_reading, live, response)
        live.awaits = id(response)
        if live.run.root.text is not None:
            live.written.setdefault(id(response), (live.run.root.text, None))
        self._awaited(live)

    def _follow_reading(
        self, live: _Live, response: StreamingAgentChatResponse
    ) -> None:
        """Know from now on what the application has not read of a run's answer."""
        live.untaken = untaken_of(response, partial(self._awaited, live))

    @guard_hook
    def _awaited(self, live: _Live) -> None:
        """End a run if the answer that it awaits is written and read.

        The answer may be written before its chat returns, or after.
        """
        if live.awaits not in live.written:
            return
        text, error = live.written[live.awaits]
        if error is not None or not live.untaken:
            self._streamed(live, text, error)

    @guard_hook
    def _left(self, live: _Live) -> None:
        """End a run whose response is gone before its answer was read to its end.

        What was read of the answer counts. The run is incomplete if something was left
        unread. If nobody read anything the whole answer stays, in doubt.
        """
        # what was never written to its end counts as left
        text, error = live.written.get(live.awaits or 0, ("", GeneratorExit()))
        unread = "".join(live.untaken).rstrip()
        text_read = text.removesuffix(unread)
        if error is None and not text_read.strip():
            live.run.doubts = (_NOBODY_READ,)
        elif error is None and unread:
            text, error = text_read, GeneratorExit()
        self._streamed(live, text, error)

    @guard_hook
    def _streamed(
        self, live: _Live, answer_text: str, error: BaseException | None
    ) -> None:
        """Note how the reading of a streamed answer ended, and end the run.

        Args:
            live: The run.
            answer_text: What was read.
            error: The error that broke it off, ``GeneratorExit`` if the application
                stopped reading; None if it was read to its end.
        """
        if live.ended:
            return
        # what was written by the time that the chat returned may not have been read
        live.run.root.text = answer_text if error is None else None
        if error is not None:
            live.run.partial, live.run.complete = answer_text or None, False
            live.run.root.error = (
                None if isinstance(error, GeneratorExit) else _error_in_words(error)
            )
        self._end(live)

    @guard_hook
    def _end(self, live: _Live) -> None:
        """Forget the places of a run, and hand it to its listeners, once."""
        with self._lock:
            if live.ended:
                return
            live.ended = True
            for id_ in live.spans:
                place = self._places.pop(id_, _OUTSIDE)
                other_tracks = tuple(
                    track for track in place.tracks if track[0] is not live
                )
                if other_tracks:
                    self._places[id_] = replace(place, tracks=other_tracks)
        for listener in live.listeners:
            listener.record(live.run)


def _is_looked_through(kind: Kind, around: _Place) -> bool:
    """Whether a span is no call of its own, so that capturing looks through it.

    Such spans are a tool that calls itself, a part of a synthesizer, and a prediction
    inside a run.
    """
    if kind == "tool":
        return around.kind == "tool"
    if kind == "respond":
        return "synth" in around.within
    return kind == "predict" and bool(around.tracks)


def _joined(around: _Place | None, reading: _Place | None) -> _Place | None:
    """The place around a span, with the runs whose streamed answer is read there.

    None if the span stands nowhere and nothing is read.
    """
    if around is None or reading is None or around is _IGNORED:
        return around or reading
    lives = [live for live, _ in around.tracks]
    return replace(
        around,
        tracks=(
            *around.tracks,
            *(track for track in reading.tracks if track[0] not in lives),
        ),
    )


def _added(node: Node, live: _Live, parent: Node) -> _Track:
    """Add a call to a run below another call, and return the place of the call.

    Where the run has too many calls already it is marked as cut, and the call is left
    out.
    """
    if live.run.calls >= MOST_CALLS:
        live.run.cut = True
        return live, parent
    live.run.calls += 1
    # a node stands in several runs
    if not any(child is node for child in parent.children[-1:]):
        parent.children.append(node)
    return live, node


def _note_end(node: Node, error: BaseException | None) -> None:
    """Note in a call when it ended, and the error that it ended with."""
    node.ended = next(_clock)
    # A step that waits for a person has not failed: it runs again.
    if type(error).__name__ == "WaitingForEvent":
        node.control = True
        node.error = None
    else:
        node.error = _error_in_words(error) or node.error


def _error_in_words(error: BaseException | None) -> str | None:
    return (
        None
        if error is None
        else words_of(error, lambda raised: f"{type(raised).__name__}: {raised}")
    )


def _twin(around: _Place, prompt: tuple[Message, ...]) -> Node | None:
    """The call of a model that another span belongs to; None if there is none.

    It is the call around the span, or a call just before it with the same prompt: the
    framework may make two spans of one call.
    """
    if around.node is not None and around.node.kind == "model" and around.node.prompt:
        return around.node
    last_children = [
        child for _, parent in around.tracks[:1] for child in parent.children[-1:]
    ]
    return next(
        (
            child
            for child in last_children
            if child.kind == "model" and child.reply is None and child.prompt == prompt
        ),
        None,
    )


RECORDER = Recorder()
