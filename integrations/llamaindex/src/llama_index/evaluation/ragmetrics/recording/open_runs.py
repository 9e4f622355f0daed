"""What is known of runs that go on: open runs, and a record of each span in them."""

import itertools
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from llama_index.core.schema import BaseNode
from llama_index.evaluation.ragmetrics.recording.run import Kind, Run

from ragmetrics_core.capture import (
    Listener,
    Message,
    Node,
    words_of,
)

MOST_CALLS = 10_000  # of one run; a workflow that never ends must not fill the memory
_MOST_SEARCHERS = 1000
# gives the next moment, over all runs: whole numbers, without gaps
tick = itertools.count().__next__


class WrittenAnswer(NamedTuple):
    """A streamed answer, as its engine wrote it.

    Attributes:
        text: The answer, or what was written of it.
        error: What broke the writing off; None if it came to its end.
    """

    text: str
    error: BaseException | None = None

    def text_before(self, unread: str) -> str:
        """Return the part of the answer before what was not read of it.

        Example: of "Rome is old" " old" was not read: "Rome is". The pieces of a stream
        may begin with white space, which the answer does not.
        """
        if self.text == unread.lstrip():
            return ""
        return self.text.removesuffix(unread)


@dataclass(slots=True, eq=False, weakref_slot=True)
class OpenRun:
    """A run that goes on, with those who get it when it has ended.

    Attributes:
        run: The run.
        listeners: Who gets it once it has ended.
        needs_data: Whether its inputs and outputs are copied whole, because the user
            names keys or paths in them.
        spans: The ids of the spans that are recorded as calls of it.
        written_answers: The answers that were written, by the identity of the streamed
            chat's response.
        awaited_response_id: The identity of the response whose answer the run waits
            for; None if it waits for none.
        untaken_pieces: Pieces of that answer that the application has not taken.
        ended: Whether it was handed over.
    """

    run: Run
    listeners: tuple[Listener, ...]
    needs_data: bool
    spans: list[str] = field(default_factory=list)
    written_answers: dict[int, WrittenAnswer] = field(default_factory=dict)
    awaited_response_id: int | None = None
    untaken_pieces: Collection[str] = ()
    ended: bool = False

    def awaited_answer(self) -> WrittenAnswer | None:
        """The answer that the run waits for; None if it is not written, or if none is."""
        if self.awaited_response_id is None:
            return None
        return self.written_answers.get(self.awaited_response_id)

    def is_streamed_to(self, listener: Listener) -> bool:
        """Whether a listener waits for an answer that is read from a stream."""
        return listener in self.listeners and self.run.is_streamed


class CallOfRun(NamedTuple):
    """A call in a run that goes on; further calls are put below it."""

    open_run: OpenRun
    call: Node


@dataclass(frozen=True, slots=True, eq=False)
class SpanRecord:
    """What is recorded of a **span**, which is the framework's own record of a method's call.

    A span stands in one run, in several if a capture was opened within a run, or in
    none.

    Attributes:
        calls_of_runs: The runs that it stands in, each with the innermost recorded call
            in that run.
        kind: What the span does, if it is recorded as a call; None for other spans.
        kinds_around_and_own: Kinds of the recorded calls from the outermost one to this
            span.
        events_of_step: What the step of a workflow was sent in which the span stands;
            usually one event.
        node: The innermost recorded call. It is missing in runs that have too many
            calls.
        has_search_in_stream: Of a model's call: whether a chunk of its reply tells that
            its provider searched.
    """

    calls_of_runs: tuple[CallOfRun, ...] = ()
    kind: Kind | None = None
    kinds_around_and_own: frozenset[Kind] = frozenset()
    events_of_step: tuple[object, ...] = ()
    node: Node | None = None
    has_search_in_stream: bool = False

    @property
    def open_runs(self) -> tuple[OpenRun, ...]:
        """The runs that the span stands in."""
        return tuple(open_run for open_run, _ in self.calls_of_runs)

    @property
    def is_call(self) -> bool:
        """Whether the span is recorded as a call.

        It is none if it is a part of the call around it, stands in no run, or if its
        run has too many calls.
        """
        return self.kind is not None and self.node is not None

    def without_run(self, ended_run: OpenRun) -> "SpanRecord":
        """The record without the span's call in one of its runs."""
        calls_of_other_runs = tuple(
            call_of_run
            for call_of_run in self.calls_of_runs
            if call_of_run.open_run is not ended_run
        )
        return replace(self, calls_of_runs=calls_of_other_runs)


@dataclass(frozen=True, slots=True, eq=False)
class BeginningSpan:
    """A call of a method that begins, as the framework reports it.

    Attributes:
        kind: What the call does; None if no call is recorded of it.
        method: The name of the method.
        arguments: What the method was given.
        instance: The object whose method it is; None for a step of a workflow.
    """

    kind: Kind | None
    method: str
    arguments: Mapping[str, Any]
    instance: object


class StoreSearchers:
    """Tasks and threads in which a vector store was searched outside of all runs.

    The next call of a model there may show what the search found.
    """

    def __init__(self) -> None:
        """Begin without any."""
        # an ordered set: the last one to search stands last
        self._searchers: dict[str, None] = {}

    def add(self, task_or_thread: str) -> None:
        """Remember a task or thread; the one that searched longest ago may be forgotten."""
        # put at the end, also if it is there already
        self._searchers.pop(task_or_thread, None)
        self._searchers[task_or_thread] = None
        if len(self._searchers) > _MOST_SEARCHERS:
            oldest = next(iter(self._searchers))
            del self._searchers[oldest]

    def take(self, task_or_thread: str) -> bool:
        """Whether a store was searched in a task or thread, which is forgotten then."""
        if task_or_thread not in self._searchers:
            return False
        del self._searchers[task_or_thread]
        return True

    def clear(self) -> None:
        """Forget all."""
        self._searchers.clear()


class NodesOfTestData:
    """The nodes that a generator of test data makes for itself.

    LlamaIndex's ``DatasetGenerator`` writes questions about an application's nodes, and
    searches them for this: no user has asked.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self._ids: set[str] = set()

    def add(self, made: object) -> None:
        """Remember the nodes in what the generator made, if it is a list."""
        nodes = made if isinstance(made, list) else ()
        self._ids |= {node.node_id for node in nodes if isinstance(node, BaseNode)}

    def is_all_found_by(self, call: Node) -> bool:
        """Whether a call is a search that found only such nodes."""
        found_ids = {document.id for document in call.documents or ()}
        is_search = call.kind == "retriever" and bool(found_ids)
        return is_search and found_ids <= self._ids


# the record of a span that stands in no run; a span inside it may begin a run
NOT_RECORDED = SpanRecord()
# the record of a span, such as a judge's, inside which nothing is recorded either
IGNORED = SpanRecord()
# The record below which calls are put while the application reads a streamed answer: a
# model may be called only then.
record_while_reading: ContextVar[SpanRecord | None] = ContextVar(
    "ragmetrics_reading", default=None
)


@contextmanager
def marked_as_reading(open_run: OpenRun) -> Iterator[None]:
    """Mark what is called inside as a part of a run whose streamed answer is read."""
    before = record_while_reading.get()
    record_while_reading.set(SpanRecord((CallOfRun(open_run, open_run.run.root),)))
    try:
        yield
    finally:
        # no token: a generator may go on in another context
        record_while_reading.set(before)


def is_answer_read_here() -> bool:
    """Whether a streamed answer is being read in this context."""
    return record_while_reading.get() is not None


def with_runs_read_here(outer: SpanRecord | None) -> SpanRecord | None:
    """Add the run whose streamed answer is read in this context to a record.

    A model may be called only when the application reads: its call belongs to the run
    that is read. Example: no span is around, and the answer of a run is read: a record
    of this run alone.

    Args:
        outer: The record of the span around; None if it has none.

    Returns:
        The record, with the run that is read. None if there is neither.
    """
    reading = record_while_reading.get()
    if reading is None or outer is IGNORED:
        return outer
    if outer is None:
        return reading
    calls_of_runs = list(outer.calls_of_runs)
    for call_of_run in reading.calls_of_runs:
        if call_of_run.open_run not in outer.open_runs:
            calls_of_runs.append(call_of_run)
    return replace(outer, calls_of_runs=tuple(calls_of_runs))


def listeners_without_run(
    listening: Collection[Listener], outer: SpanRecord
) -> tuple[Listener, ...]:
    """Pick the listeners to whom none of the runs around a span belongs.

    They began to listen within such a run. A listener to all threads
    (``everywhere``) gets outermost runs only, and is left out.
    """
    listeners_of_runs_around: list[Listener] = []
    for open_run, _ in outer.calls_of_runs:
        listeners_of_runs_around += open_run.listeners
    return tuple(
        listener
        for listener in listening
        if listener not in listeners_of_runs_around and not listener.everywhere
    )


def is_no_call_of_its_own(kind: Kind, outer: SpanRecord) -> bool:
    """Whether a span belongs to the call around it, so that no call is recorded of it.

    Args:
        kind: What the span does.
        outer: The record of the span around it.
    """
    if kind == "tool":  # a tool that calls itself
        return outer.kind == "tool"
    if kind == "respond":  # a method that a synthesizer calls on itself
        return not outer.kinds_around_and_own.isdisjoint(("synth", "respond"))
    # a prediction inside of a run
    return kind == "predict" and bool(outer.calls_of_runs)


def is_inside_retriever(record: SpanRecord) -> bool:
    """Whether a span is a retriever, or stands inside of one."""
    return record.kind == "retrieve" or "retrieve" in record.kinds_around_and_own


def record_inside_call(outer: SpanRecord, node: Node | None) -> SpanRecord:
    """Make the record of a span that is no call of its own.

    Spans inside it are calls in the same runs as spans beside it.

    Args:
        outer: The record of the span around it.
        node: The recorded call that the span reports again; None if it reports none.
    """
    return replace(outer, kind=None, node=node or outer.node)


def add_call(node: Node, open_run: OpenRun, parent: Node) -> CallOfRun:
    """Add a call to a run below another call.

    If the run has too many calls already, the call is left out, and the run is marked
    as cut.

    Returns:
        The run, with the call below which further calls are put: the new one, or
        ``parent`` if the new one was left out.
    """
    if open_run.run.n_calls >= MOST_CALLS:
        open_run.run.is_cut = True
        return CallOfRun(open_run, parent)
    open_run.run.n_calls += 1
    # where several runs share these calls, an earlier one has put it there
    is_there = bool(parent.children) and parent.children[-1] is node
    if not is_there:
        parent.children.append(node)
    return CallOfRun(open_run, node)


def call_of_same_model(outer: SpanRecord, prompt: tuple[Message, ...]) -> Node | None:
    """Find the recorded model call that a new span of a model only reports again.

    The framework may report one call of a model as two spans, one inside the other or
    one behind the other.

    Args:
        outer: The record of the span around the new one.
        prompt: What the model is given by the new span.

    Returns:
        The recorded call; None if the new span is a call of its own.
    """
    call_around = outer.node
    if call_around is not None and _is_model_with_prompt(call_around):
        return call_around
    call_before = _last_call_inside(outer)
    if call_before is None or call_before.reply is not None:
        return None
    has_same_prompt = call_before.kind == "model" and call_before.prompt == prompt
    return call_before if has_same_prompt else None


def _is_model_with_prompt(call: Node) -> bool:
    """Whether a call is one of a model whose prompt was recorded."""
    return call.kind == "model" and bool(call.prompt)


def _last_call_inside(record: SpanRecord) -> Node | None:
    """The last call directly below a span's call; None if there is none.

    The calls are the same in all runs of the span.
    """
    for _, call in record.calls_of_runs[:1]:
        for last_call in call.children[-1:]:
            return last_call
    return None


def note_end(node: Node, error: BaseException | None) -> None:
    """Note in a call when it ended, and the error that it ended with."""
    node.ended = tick()
    # A step that waits for a person has not failed: it runs again.
    if type(error).__name__ == "WaitingForEvent":
        node.is_control = True
        node.error = None
    else:
        node.error = error_in_words(error) or node.error


def error_in_words(error: BaseException | None) -> str | None:
    """An error's class and message; None for no error."""
    if error is None:
        return None
    return words_of(error, lambda raised: f"{type(raised).__name__}: {raised}")
