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
    current_task_or_thread,
    guard_hook,
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
_UUID_SIZE = 37
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
class _OpenRun:
    """A run that goes on, and who gets it.

    Attributes:
        run: The run.
        listeners: Who gets it once it has ended.
        needs_data: Whether its inputs and outputs are needed whole.
        spans: The ids of the spans that stand in it.
        written_answers: By the identity of a streamed chat's response: the answer that
            was written, and the error that broke it off; None for no error.
        awaited_response_id: The identity of the response whose answer the run waits
            for.
        untaken_pieces: Pieces of that answer that the application has not taken.
        ended: Whether it was handed over.
    """

    run: Run
    listeners: tuple[Listener, ...]
    needs_data: bool
    spans: list[str] = field(default_factory=list)
    written_answers: dict[int, tuple[str, BaseException | None]] = field(
        default_factory=dict
    )
    awaited_response_id: int | None = None
    untaken_pieces: Collection[str] = ()
    ended: bool = False

    def is_streamed_to(self, listener: Listener) -> bool:
        """Whether a listener waits for an answer that is read from a stream."""
        return listener in self.listeners and self.run.streamed


_CallOfRun = tuple[_OpenRun, Node]


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """Where an open span stands.

    It stands in one run, in several if a capture was opened within a run, or in none.

    Attributes:
        calls_of_runs: The runs, each with the call of the span in it.
        kind: The kind of a span that is a call of its own; None for others.
        kinds_around: Kinds of the calls around it.
        event_of_step: What the step that it stands in was sent.
        node: The innermost call, which stands in all runs but those that are cut.
    """

    calls_of_runs: tuple[_CallOfRun, ...] = ()
    kind: Kind | None = None
    kinds_around: frozenset[Kind] = frozenset()
    event_of_step: object = None
    node: Node | None = None


_OUTSIDE, _IGNORED = _Place(), _Place()
# The run whose streamed answer is read here: its model may be called only now.
_reading: ContextVar[_Place | None] = ContextVar("ragmetrics_reading", default=None)


@contextmanager
def _reading_of(open_run: _OpenRun) -> Iterator[None]:
    before = _reading.get()
    _reading.set(_Place(((open_run, open_run.run.root),)))
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
        self._end_watchers: dict[str, weakref.finalize[Any, Any]] = {}
        # tasks or threads in which a store was queried outside of all runs, the last one last
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
        open_runs = {
            open_run
            for place in list(self._places.values())
            for open_run, _ in place.calls_of_runs
        }
        if any(open_run.is_streamed_to(listener) for open_run in open_runs):
            listener.problems.note(_NOT_READ_YET)

    def _listeners_of_new_run(
        self, parent_id: str | None, around: _Place | None
    ) -> tuple[Listener, ...]:
        """Return the listeners for which a new span begins a run.

        Args:
            parent_id: The id of the span around the new one; None if there is none.
            around: What was recorded of the span around; None if nothing was.
        """
        listening = self.listeners.here()
        listeners_of_runs_around: list[Listener] = []
        if around is not None:
            for open_run, _ in around.calls_of_runs:
                listeners_of_runs_around += open_run.listeners
        if listeners_of_runs_around:
            # Inside a recorded run: those who do not get that run, since they began to
            # listen inside it. Who listens everywhere wants outermost runs alone.
            return tuple(
                listener
                for listener in listening
                if listener not in listeners_of_runs_around and not listener.everywhere
            )
        is_parent_unrecorded = parent_id is not None and around is None
        if not is_parent_unrecorded:
            # Outside of all runs: everybody.
            return tuple(listening)
        # The span is a part of something that began before it could be recorded: those
        # who began to listen under that very parent.
        return tuple(listener for listener in listening if listener.under == parent_id)

    @guard_hook
    def enter(
        self,
        id_: str,
        arguments: Mapping[str, Any],
        instance: object,
        parent_id: str | None,
    ) -> None:
        """Find the place of a span that begins, and keep it for as long as it is open.

        A **span** is the framework's record of one call of a method. Its place says in
        which recorded runs it stands. A span that belongs to nothing that is watched
        has none; one inside of an ignored span is ignored. A reset of a chat engine
        begins another conversation.

        Args:
            id_: The span's id, which ends in class, method and a UUID.
            arguments: What its method was given.
            instance: The object whose method it is.
            parent_id: The id of the span around it; None if there is none.
        """
        if isinstance(instance, BaseChatEngine) and ".reset-" in id_:
            snapshot.start_over(instance)
        if not self.listeners.open and not self._places:
            return
        # the place of a run whose streamed answer is read here, which may make calls
        place_of_reading = _reading.get()
        parent = None if parent_id is None else self._places.get(parent_id)
        around = _place_while_reading(parent, place_of_reading)
        kind = self._kind_of_span(id_, instance)
        if around is _IGNORED:
            self._places[id_] = _IGNORED
            return
        new_listeners: tuple[Listener, ...] = ()
        if place_of_reading is None:  # no run begins while a streamed answer is read
            new_listeners = self._listeners_of_new_run(parent_id, around)
        surroundings = around or _OUTSIDE
        if not surroundings.calls_of_runs and not new_listeners:
            return
        place = self._place_unless_ignored(
            kind, arguments, instance, surroundings, new_listeners
        )
        if place.kind is not None:
            for open_run, _ in place.calls_of_runs:
                open_run.spans.append(id_)
        self._places[id_] = place

    def _kind_of_span(self, id_: str, instance: object) -> Kind | None:
        """What a span does, by the class and the method in its id.

        None if it is no call that is recorded. Such is a span in which an engine writes
        a streamed answer: the pieces of the answer are collected from now on.
        """
        method = id_[:-_UUID_SIZE].rpartition(".")[2]
        owner: type = type(instance)
        kind = kind_of(owner, method)
        if kind == "write":
            self._writing[id_] = []
            return None
        return kind

    def _place_unless_ignored(
        self,
        kind: Kind | None,
        arguments: Mapping[str, Any],
        instance: object,
        around: _Place,
        new_listeners: tuple[Listener, ...],
    ) -> _Place:
        """Find the place of a span, unless it is ignored with all that it calls.

        A span is ignored where a judge works, or something that prepares, such as a
        generator of test data. Of a memory that shortens a conversation only the call
        itself is ignored, and not what is inside it.

        Args:
            kind: What the span does; None if it is no call that is recorded.
            arguments: What its method was given.
            instance: The object whose method it is.
            around: The place of the span around it.
            new_listeners: Those for whom a run begins with the span.
        """
        # what prepares or remembers and is among the callers here, such as a memory
        caller = called_by() if kind in ROOTS else None
        is_judge_work = bool(around.calls_of_runs) and capture.is_judge_work()
        if is_judge_work or (caller is not None and caller not in MEMORY):
            return _IGNORED
        place = self._place_of_span(kind, arguments, instance, around, new_listeners)
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
            self._end_watchers[id_] = weakref.finalize(bound_args, self._lost, id_)
            self._end_watchers[id_].atexit = False

    @guard_hook
    def _lost(self, id_: str) -> None:
        if id_ in self._end_watchers:
            self.leave(id_, None, None, GeneratorExit())

    def _place_of_span(
        self,
        kind: Kind | None,
        arguments: Mapping[str, Any],
        instance: object,
        around: _Place,
        new_listeners: tuple[Listener, ...],
    ) -> _Place:
        """Find the place of a span in the runs around it, and record its call.

        A span may be no call of its own: capturing looks through it, or it is a second
        span of a call of a model that is recorded already. Such a span has the place of
        the span around it. For ``new_listeners`` a run begins with the call, if calls
        of its kind may begin a run. Arguments are as for ``_place_unless_ignored``.
        """
        call_of_same_model: Node | None = None
        if kind == "model":
            prompt = snapshot.prompt_of(arguments)
            call_of_same_model = _call_of_same_model(around, prompt)
        belongs_to_other_call = call_of_same_model is not None
        if kind is None or belongs_to_other_call or _is_looked_through(kind, around):
            self._note_history_of_prompt(around, arguments)
            return replace(
                around,
                kind=None,
                event_of_step=arguments.get("ev", around.event_of_step),
                node=call_of_same_model or around.node,
            )
        if not around.calls_of_runs and kind not in ROOTS:
            return _Place(kind=kind)
        node = self._make_call(kind, arguments, instance, around)
        calls_of_runs = []
        for open_run, parent in around.calls_of_runs:
            calls_of_runs.append(_add_call(node, open_run, parent))
        if new_listeners and kind in ROOTS:
            open_run = self._begin_run(kind, node, arguments, instance, new_listeners)
            calls_of_runs.append((open_run, node))
        # a part of a synthesizer counts as a whole one for what is inside of it
        kind_for_calls_inside: Kind = "synth" if kind == "respond" else kind
        return _Place(
            tuple(calls_of_runs),
            kind,
            around.kinds_around | {kind_for_calls_inside},
            event_of_step=None,
            node=node,
        )

    def _make_call(
        self,
        kind: Kind,
        arguments: Mapping[str, Any],
        instance: object,
        around: _Place,
    ) -> Node:
        """The call of a span, with copies of what it was given."""
        node = Node(_NODES.get(kind, kind), type(instance).__name__, next(_clock))
        if kind == "tool" and "program" in around.kinds_around:
            node.kind = "ignored"  # a structured answer
        self._copy_guarded(snapshot.copy_event, node, around.event_of_step)
        self._copy_guarded(snapshot.copy_arguments, kind, node, arguments, instance)
        return node

    def _begin_run(
        self,
        kind: Kind,
        node: Node,
        arguments: Mapping[str, Any],
        instance: object,
        listeners: tuple[Listener, ...],
    ) -> _OpenRun:
        """Begin a run with its outermost call, and copy what that was given.

        The application may have searched a store by itself, where nobody recorded what
        it found. A model that is called afterwards on the same task or thread (the same
        thread and task) may have been shown that: its run gets a doubt.

        Args:
            kind: What the call does.
            node: The recorded call.
            arguments: What its method was given.
            instance: The object whose method it is.
            listeners: Those who get the run.
        """
        needs_data = any(listener.data for listener in listeners)
        run = Run(node, kind=kind, task_or_thread=current_task_or_thread())
        if (
            kind in _ANSWER_BY_THEMSELVES
            and run.task_or_thread in self._searched_by_hand
        ):
            del self._searched_by_hand[run.task_or_thread]
            run.doubts = (_SEARCHED_BY_HAND,)
        open_run = _OpenRun(run, listeners, needs_data)
        for listener in listeners:
            listener.begun = True
        self._copy_guarded(
            snapshot.copy_start,
            open_run.run,
            arguments,
            instance,
            needs_data,
            given_context(),
        )
        return open_run

    @guard_hook
    def leave(
        self, id_: str, instance: object, result: object, error: BaseException | None
    ) -> None:
        """Record the end of a span, with a result or an exception.

        A span is the framework's record of one call of a method. Its recorded call gets
        the result, the end and the error. If the call is the outermost one of a run,
        the run ends with it, or when its streamed answer is read. The place of a call
        is known until its run ends, because a part of its reply may come late. The
        place of any other span is forgotten here.

        Args:
            id_: The id of the span.
            instance: The object whose method ran; None for a step of a workflow.
            result: What it returned; None if it raised.
            error: What it raised; None if it returned.
        """
        end_watcher = self._end_watchers.pop(id_, None)
        if end_watcher is not None:
            # It would report the end of the span a second time, when the arguments of
            # the span are freed.
            end_watcher.detach()
        place = self._places.get(id_, _OUTSIDE)
        node = place.node if place.kind is not None else None
        if node is None or not place.calls_of_runs:
            self._places.pop(id_, None)
        self._note_written_answer(id_, place, instance, error)
        self._note_test_data(place, result)
        is_step_of_workflow = instance is None
        if isinstance(result, AgentOutput) and is_step_of_workflow:
            self._note_reply_of_agent(place, result)
        if node is None or place.kind is None:
            return
        if error is None:
            self._copy_guarded(snapshot.copy_result, place.kind, node, result, instance)
        _note_end(node, error)
        # A search that finds nothing but test data is the generator's own: its run
        # answers no user.
        is_of_test_data = self._found_test_data(node)
        for open_run, _ in place.calls_of_runs:
            if is_of_test_data and open_run.run.kind in ("query", "retrieve"):
                open_run.run.root.kind = "ignored"
            if node is open_run.run.root:
                self._leave_root(open_run, result, error)

    def _leave_root(
        self, open_run: _OpenRun, result: object, error: BaseException | None
    ) -> None:
        """End a run whose outermost call failed; one whose call returned may still stream."""
        if error is None:
            self._copy_guarded(
                snapshot.copy_outcome, open_run.run, result, open_run.needs_data
            )
            self._end_or_follow(open_run, result)
        else:
            open_run.run.is_complete = isinstance(error, Exception)
            self._end(open_run)

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
        """Record what a vector store found for a search without a retriever.

        What a retriever searches is left out, and what prepares or remembers, such as
        the building of an index. A search outside of all runs is only noted.

        Args:
            result: The store's result. It may name ids alone, whose texts are unknown.
        """
        place = self._places.get(active_span_id.get() or "", _OUTSIDE)
        is_of_retriever = place.kind == "retrieve" or "retrieve" in place.kinds_around
        is_preparation = called_by() is not None
        if place is _IGNORED or is_of_retriever or is_preparation:
            return
        if not place.calls_of_runs:
            self._search_by_hand()
            return
        documents = snapshot.documents_of_result(result)
        node = Node("retriever", "vector store", next(_clock), documents=documents)
        node.ended = next(_clock)
        for open_run, parent in place.calls_of_runs:
            _add_call(node, open_run, parent)
            if documents is None:
                open_run.run.ids_alone |= set(result.ids or ())

    def _search_by_hand(self) -> None:
        """Note a search outside of all runs.

        The next call of a model in this task or thread may show what it found.
        """
        if not self.listeners.here():
            return
        here = current_task_or_thread()
        self._searched_by_hand.pop(here, None)
        self._searched_by_hand[here] = None
        if len(self._searched_by_hand) > _MOST_STRANDS:
            del self._searched_by_hand[next(iter(self._searched_by_hand))]

    @guard_hook
    def said(self, id_: str | None, reply: object) -> None:
        """Note the whole reply of a model, which the framework tells in an event.

        The reply is the end of a run that consists of a streaming model alone. Nothing
        is noted if the span is no call of a model or has its reply already.

        Args:
            id_: The id of the span in which the event was sent; None if in none.
            reply: The reply.
        """
        place = self._places.get(id_ or "", _OUTSIDE)
        node = place.node
        if node is None or node.kind != "model" or node.reply is not None:
            return
        self._copy_guarded(snapshot.note_reply, node, reply)
        node.ended = next(_clock)
        for open_run, _ in place.calls_of_runs:
            is_outermost_call = node is open_run.run.root
            if is_outermost_call and open_run.run.streamed:
                self._end(open_run)

    @guard_hook
    def _copy_guarded(self, copy: Callable[..., object], *arguments: object) -> None:
        """Copy something for a run.

        Each copy is guarded by itself: what cannot be copied is missing, and the run is
        still recorded.
        """
        copy(*arguments)

    @guard_hook
    def _note_history_of_prompt(
        self, place: _Place, llm_arguments: Mapping[str, Any]
    ) -> None:
        """Take the history from a model's template, where no memory could be read."""
        for open_run, _ in place.calls_of_runs:
            if open_run.run.kind == "chat":
                open_run.run.history = open_run.run.history or snapshot.prompted_turns(
                    llm_arguments
                )

    @guard_hook
    def _note_reply_of_agent(self, place: _Place, output: AgentOutput) -> None:
        """Note the reply of an agent's model, and the tools that it called."""
        for _, node in place.calls_of_runs:
            model = next(
                (child for child in reversed(node.children) if child.kind == "model"),
                None,
            )
            if model is not None and (output.tool_calls or model.reply is None):
                self._copy_guarded(snapshot.note_reply, model, output)
                model.ended = next(_clock)

    @guard_hook
    def _end_or_follow(self, open_run: _OpenRun, result: object) -> None:
        """End a run whose outermost call returned, or follow its streamed answer.

        To follow a streamed answer means that the run ends when the answer has been
        read, or is dropped. There are three kinds of streams:

        - the stream of a model: an event tells the whole reply, which ends the run, or
          the stream is dropped;
        - the answer of a chat, which the engine writes to its memory by itself;
        - any other response with a stream in it. If a thread has written all of the
          answer already, nothing is left to follow.

        Args:
            open_run: The run.
            result: What the outermost call returned.
        """
        run = open_run.run
        response = snapshot.result_of(result)
        run.streamed = isinstance(response, snapshot.Streamed)
        if run.kind == "model" and isinstance(result, (Generator, AsyncGenerator)):
            run.streamed = True
            weakref.finalize(result, self._end, open_run).atexit = False
            return
        if (
            isinstance(response, StreamingAgentChatResponse)
            and response.is_writing_to_memory
        ):
            self._follow_chat(open_run, response)
            return
        is_whole = run.root.text is not None
        if is_whole or not isinstance(response, snapshot.Streamed):
            self._end(open_run)
            return
        observe(
            response,
            on_end=partial(self._end_stream, open_run),
            while_fetching=partial(_reading_of, open_run),
        )

    @guard_hook
    def _note_written_answer(
        self, id_: str, place: _Place, response: object, error: BaseException | None
    ) -> None:
        """Note that the engine of a chat has written a streamed answer to its end.

        Nothing is done for a span that wrote none. At this moment the chat itself may
        not have returned yet; if a run waits for the answer, it may end now.

        Args:
            id_: The id of the span that wrote.
            place: Its place, which says in which runs it stands.
            response: The response with the answer.
            error: What broke the writing off; None if it came to its end.
        """
        pieces = self._writing.pop(id_, None)
        if pieces is None or not isinstance(response, StreamingAgentChatResponse):
            return
        text = "".join(pieces)
        if error is None:
            # older releases leave it out of the response
            text = response.response or text.strip()
        for open_run, _ in place.calls_of_runs:
            open_run.written_answers[id(response)] = (text, error)
            self._end_if_written_and_read(open_run)

    def _follow_chat(
        self, open_run: _OpenRun, response: StreamingAgentChatResponse
    ) -> None:
        """Wait until a chat's answer is written and read, or its response is gone.

        The engine of the chat writes the answer, perhaps after the chat has returned.
        """
        weakref.finalize(response, self._end_unread, open_run).atexit = False
        # first: from then on the thread that writes may end the run
        self._copy_guarded(self._follow_reading, open_run, response)
        open_run.awaited_response_id = id(response)
        if open_run.run.root.text is not None:
            open_run.written_answers.setdefault(
                id(response), (open_run.run.root.text, None)
            )
        self._end_if_written_and_read(open_run)

    def _follow_reading(
        self, open_run: _OpenRun, response: StreamingAgentChatResponse
    ) -> None:
        """Know from now on what the application has not read of a run's answer."""
        open_run.untaken_pieces = untaken_of(
            response, partial(self._end_if_written_and_read, open_run)
        )

    @guard_hook
    def _end_if_written_and_read(self, open_run: _OpenRun) -> None:
        """End a run if the answer that it waits for is written and read.

        The answer may be written before its chat returns, or after.
        """
        if open_run.awaited_response_id not in open_run.written_answers:
            return
        text, error = open_run.written_answers[open_run.awaited_response_id]
        if error is not None or not open_run.untaken_pieces:
            self._end_stream(open_run, text, error)

    @guard_hook
    def _end_unread(self, open_run: _OpenRun) -> None:
        """End a run whose response object is gone, perhaps before it was read.

        - If the engine never wrote the answer to its end, the run is incomplete and has
          no answer.
        - If the engine failed, the run is incomplete, with the error.
        - If the application read a part of the answer, the run is incomplete, and that
          part is kept.
        - If the application read nothing, the whole answer is kept, with a doubt
          whether the user received it.
        - If the application read all of it, the run ends as usual.
        """
        response_id = open_run.awaited_response_id
        if response_id is None or response_id not in open_run.written_answers:
            # GeneratorExit stands for an application that stopped reading
            self._end_stream(open_run, "", GeneratorExit())
            return
        text, error = open_run.written_answers[response_id]
        if error is not None:
            self._end_stream(open_run, text, error)
            return
        # the application has read all but the pieces at the end that it did not take
        unread = "".join(open_run.untaken_pieces).rstrip()
        text_read = text.removesuffix(unread)
        if not text_read.strip():
            open_run.run.doubts = (_NOBODY_READ,)
            self._end_stream(open_run, text, None)
        elif unread:
            self._end_stream(open_run, text_read, GeneratorExit())
        else:
            self._end_stream(open_run, text, None)

    @guard_hook
    def _end_stream(
        self, open_run: _OpenRun, answer_text: str, error: BaseException | None
    ) -> None:
        """Note how the reading of a streamed answer ended, and end the run.

        Args:
            open_run: The run.
            answer_text: The answer, or the part of it that was read. If there is an
                error, it is kept as ``partial`` and the run is marked as incomplete.
            error: The error that broke it off, ``GeneratorExit`` if the application
                stopped reading; None if it was read to its end.
        """
        if open_run.ended:
            return
        # what was written by the time that the chat returned may not have been read
        open_run.run.root.text = answer_text if error is None else None
        if error is not None:
            open_run.run.partial_answer, open_run.run.is_complete = (
                answer_text or None,
                False,
            )
            open_run.run.root.error = (
                None if isinstance(error, GeneratorExit) else _error_in_words(error)
            )
        self._end(open_run)

    @guard_hook
    def _end(self, open_run: _OpenRun) -> None:
        """Forget the places of a run, and hand it to its listeners, once."""
        with self._lock:
            if open_run.ended:
                return
            open_run.ended = True
            for id_ in open_run.spans:
                place = self._places.pop(id_, _OUTSIDE)
                other_calls = tuple(
                    call_of_run
                    for call_of_run in place.calls_of_runs
                    if call_of_run[0] is not open_run
                )
                if other_calls:
                    self._places[id_] = replace(place, calls_of_runs=other_calls)
        for listener in open_run.listeners:
            listener.record(open_run.run)


def _is_looked_through(kind: Kind, around: _Place) -> bool:
    """Whether a span is no call of its own, so that capturing looks through it.

    Such spans are a tool that calls itself, a part of a synthesizer, and a prediction
    inside a run.
    """
    if kind == "tool":
        return around.kind == "tool"
    if kind == "respond":
        return "synth" in around.kinds_around
    return kind == "predict" and bool(around.calls_of_runs)


def _place_while_reading(
    around: _Place | None, reading: _Place | None
) -> _Place | None:
    """The place around a span, with the runs whose streamed answer is read there.

    None if the span stands nowhere and nothing is read.
    """
    if around is None or reading is None or around is _IGNORED:
        return around or reading
    open_runs = [open_run for open_run, _ in around.calls_of_runs]
    return replace(
        around,
        calls_of_runs=(
            *around.calls_of_runs,
            *(
                call_of_run
                for call_of_run in reading.calls_of_runs
                if call_of_run[0] not in open_runs
            ),
        ),
    )


def _add_call(node: Node, open_run: _OpenRun, parent: Node) -> _CallOfRun:
    """Add a call to a run below another call, and return the place of the call.

    Where the run has too many calls already it is marked as cut, and the call is left
    out.
    """
    if open_run.run.calls >= MOST_CALLS:
        open_run.run.cut = True
        return open_run, parent
    open_run.run.calls += 1
    # a node stands in several runs
    if not any(child is node for child in parent.children[-1:]):
        parent.children.append(node)
    return open_run, node


def _note_end(node: Node, error: BaseException | None) -> None:
    """Note in a call when it ended, and the error that it ended with."""
    node.ended = next(_clock)
    # A step that waits for a person has not failed: it runs again.
    if type(error).__name__ == "WaitingForEvent":
        node.is_control = True
        node.error = None
    else:
        node.error = _error_in_words(error) or node.error


def _error_in_words(error: BaseException | None) -> str | None:
    return (
        None
        if error is None
        else words_of(error, lambda raised: f"{type(raised).__name__}: {raised}")
    )


def _call_of_same_model(around: _Place, prompt: tuple[Message, ...]) -> Node | None:
    """Find the recorded call of a model to which another span of a model belongs.

    The framework may make two spans of one call. The call is the one around the span,
    or the last one just before it, if it has the same prompt and no reply yet.

    Args:
        around: The place of the span around it.
        prompt: What the model is given.

    Returns:
        The call; None if the span is a call of its own.
    """
    node = around.node
    if node is not None and node.kind == "model" and node.prompt:
        return node
    if not around.calls_of_runs:
        return None
    # A span may stand in several runs, which have the same calls here: one is enough.
    _, parent = around.calls_of_runs[0]
    if not parent.children:
        return None
    last_call = parent.children[-1]
    has_same_prompt = last_call.kind == "model" and last_call.prompt == prompt
    return last_call if has_same_prompt and last_call.reply is None else None


RECORDER = Recorder()
