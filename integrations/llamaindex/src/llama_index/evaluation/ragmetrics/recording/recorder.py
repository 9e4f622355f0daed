"""The framework's hooks: what happens is copied, and each finished run is handed to those who listen.

A run begins at the outermost engine (query, chat or workflow); a retriever, reranker,
synthesizer or model outside of any engine is a run of its own. Nothing is assembled
here, and runs that belong together are joined by the core.
"""

import itertools
import threading
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from llama_index.core.agent.workflow.workflow_events import AgentOutput
from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.core.chat_engine.types import StreamingAgentChatResponse
from llama_index.core.instrumentation.events.llm import (
    LLMChatEndEvent,
    LLMChatInProgressEvent,
    LLMCompletionEndEvent,
    LLMCompletionInProgressEvent,
)
from llama_index.core.vector_stores.types import VectorStoreQueryResult
from llama_index.core.workflow import Workflow
from llama_index.evaluation.ragmetrics.recording import copies
from llama_index.evaluation.ragmetrics.recording.patches import (
    REPLACED_METHODS,
    is_called_aside,
    tell_async_rerankings,
    tell_searches,
    wrap_stream,
)
from llama_index.evaluation.ragmetrics.recording.run import (
    KINDS_OF_CALLS,
    ROOTS,
    STORE_METHOD,
    Kind,
    Run,
    call_when_gone,
    kind_of,
)
from llama_index.evaluation.ragmetrics.recording.tree import as_run, trees_of
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.base import BaseEvent
from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span import active_span_id
from llama_index_instrumentation.span.base import BaseSpan
from llama_index_instrumentation.span_handlers import BaseSpanHandler
from pydantic import Field, PrivateAttr

from ragmetrics_core.capture import (
    FrontDoor,
    Listener,
    Listeners,
    Node,
    current_task_or_thread,
    guard_hook,
    is_judge_work,
    may_tell_of_search,
    renew_after_fork,
    words_of,
)

if TYPE_CHECKING:
    from ragmetrics_core.capture import JudgeLike

_MOST_CALLS = 10_000  # of one run; a workflow that never ends must not fill the memory
_TOO_MANY_CALLS = f"of more steps than the {_MOST_CALLS} that are kept of a run"
# characters of "-" and a UUID at the end of a span's id, behind class and method
_UUID_SIZE = 37
_NOT_READ_YET = (
    "a streamed answer was not read to its end when the block ended; its sample is there"
    " once it is read, or its response is gone"
)
_UNKNOWN_SEARCH = "of a search without a retriever, of which the store names only ids"
# gives the next moment, over all runs: whole numbers, without gaps
_tick = itertools.count().__next__


@dataclass(frozen=True, slots=True, eq=False)
class OpenSpan:
    """A **span**, the framework's own record of a method's call, while it is needed.

    Attributes:
        run: The run that it stands in; None if it stands in none.
        node: The innermost recorded call; further calls are put below it.
        kind: What the span does, if it is recorded as a call; None for other spans.
        kinds: Kinds of the recorded calls from the outermost one to this span.
        events: What the step of a workflow was sent in which the span stands.
    """

    run: Run | None = None
    node: Node | None = None
    kind: Kind | None = None
    kinds: frozenset[Kind] = frozenset()
    events: tuple[object, ...] = ()

    def inside(self) -> "OpenSpan":
        """A span inside this one that is no call of its own."""
        if self.kind is None:
            return self
        return OpenSpan(self.run, self.node, None, self.kinds, self.events)


# Who listened when a store was searched in this task, outside of any run, and named
# only ids: the next run that answers may have been shown texts that are not known.
_listeners_of_unknown_search: ContextVar[tuple[Listener, ...]] = ContextVar(
    "ragmetrics_unknown_search", default=()
)

# stands around a span that is in no run
_NO_SPAN = OpenSpan()
# a span, such as a judge's, inside which nothing is recorded
_IGNORED = OpenSpan()
# The span below which calls are put while the application reads a streamed answer: a
# model may be called only then.
_span_while_reading: ContextVar[OpenSpan | None] = ContextVar(
    "ragmetrics_reading", default=None
)

# The id of the span around an async reranking, and that of ours in its place: the
# framework makes none, and names the outer one to what is called inside.
_span_of_reranking: ContextVar[tuple[str | None, str]] = ContextVar(
    "ragmetrics_reranking", default=("", "")
)


@contextmanager
def _marked_as_reading(run: Run) -> Iterator[None]:
    """Mark what is called inside as a part of a run whose streamed answer is read."""
    before = _span_while_reading.get()
    _span_while_reading.set(OpenSpan(run, run.root))
    try:
        yield
    finally:
        # no token: a generator may go on in another context
        _span_while_reading.set(before)


class Spans(BaseSpanHandler[BaseSpan]):
    """Hands spans to the recorder, which guards itself: the framework swallows what is raised."""

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


class Recorder:
    """Makes runs of the framework's spans, and hands each to those who listen.

    Attributes:
        listeners: Who listens.
        problems: Errors of the hooks, counted for everybody who listens.
    """

    def __init__(self) -> None:
        self.listeners = Listeners(self._opened, self._closed)
        self.problems = self.listeners.problems
        # the hooks by which the framework reports to this object
        self._span_handler = Spans(self)
        self._event_handler = Events(recorder=self)
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Start anew in a forked child process, without any open run.

        Runs go on in the parent, and its locks may be held for ever.
        """
        self._lock = threading.RLock()
        # By the span's id. That of a call stays until its run ends, any other until the
        # span ends.
        self._spans: dict[str, OpenSpan] = {}

    def _opened(self, _: Listener) -> None:
        """Put the hooks in for a new listener, unless they are there."""
        tell_searches(self.on_search_of_store)
        tell_async_rerankings(self.on_async_reranking)
        root = get_dispatcher()
        # Handlers compare equal by value, so ours are looked for by identity; others may
        # have removed them.
        if not any(handler is self._span_handler for handler in root.span_handlers):
            root.add_span_handler(self._span_handler)
        if not any(handler is self._event_handler for handler in root.event_handlers):
            root.add_event_handler(self._event_handler)

    def _closed(self, listener: Listener) -> None:
        """Note as a problem of the listener that a streamed answer was not read yet."""
        if not self.listeners.open:
            REPLACED_METHODS.restore()
        for span in list(self._spans.values()):
            run = span.run
            if run is not None and run.is_streamed and listener in run.listeners:
                listener.problems.note(_NOT_READ_YET)
                return

    # A span begins

    @guard_hook
    def on_span_begin(
        self,
        id_: str,
        arguments: Mapping[str, Any],
        instance: object,
        parent_id: str | None,
    ) -> None:
        """Record a span as it begins: as a call of the run around it, or of a new run.

        Example: the span of ``engine.query`` begins a run if somebody listens, and the
        span of ``retriever.retrieve`` inside it becomes a call of the run.

        Args:
            id_: The span's id, which ends in class, method and a UUID.
            arguments: What its method was given.
            instance: The object whose method it is; None for a step of a workflow.
            parent_id: The id of the span around it; None if there is none.
        """
        if not self.listeners.open and not self._spans:
            return  # nobody listens, and no run is open
        around = self._span_around(parent_id)
        listeners: tuple[Listener, ...] = ()
        if around.run is None and around is not _IGNORED:
            listeners = self.listeners.here()
            # What is inside a span that began before anybody listened is a run for the
            # blocks that were opened there, and for nobody else.
            if parent_id is not None and parent_id not in self._spans:
                listeners = tuple([each for each in listeners if not each.all_contexts])
            if not listeners:
                return
        span = self._span(id_, arguments, instance, around, listeners)
        self._spans[id_] = span
        # meanwhile another thread may have ended the run, which forgets its spans
        if span.run is not None and not span.run.listeners:
            del self._spans[id_]

    def _span_around(self, parent_id: str | None) -> OpenSpan:
        """The span around a new one, else the run whose streamed answer is read here."""
        outer_id, reranking_id = _span_of_reranking.get()
        if parent_id == outer_id:
            parent_id = reranking_id
        around = self._spans.get(parent_id or "")
        return around or _span_while_reading.get() or _NO_SPAN

    def _span(
        self,
        id_: str,
        arguments: Mapping[str, Any],
        instance: object,
        around: OpenSpan,
        listeners: tuple[Listener, ...],
    ) -> OpenSpan:
        """Record a span as a call, or tell that it is none.

        Returns:
            The span as a call of the run around it, or as the root of a new run.
            ``_IGNORED`` if it does the work of a judge or a memory, or stands in such a
            span. Else a span inside the one around it, that is no call of its own: a
            method that is looked through, a part of the call around it, what begins no
            run, and what a run that is too long made further.
        """
        method = id_[:-_UUID_SIZE].rpartition(".")[2]
        owner: type = type(instance)
        kind = kind_of(owner, method)
        # older releases name the workflow as the object of a step
        may_be_step = instance is None or isinstance(instance, Workflow)
        if kind is None and may_be_step and copies.events_among(arguments):
            kind = "step"
        run = around.run
        if around is _IGNORED:
            return _IGNORED
        if run is not None and kind == "write":
            wrap_stream(instance, partial(self._note_written, run, id(instance)))
        # of the call around it only a part, such as a tool that calls itself
        is_part = kind == "write" or (kind == "predict" and run is not None)
        is_part = is_part or (kind == around.kind and kind in ("tool", "post"))
        if kind is None or is_part:
            if run is not None and "prompt_args" in arguments:
                self._copy(copies.copy_talk_of_template, run, arguments)
            return around.inside()
        if kind in ROOTS and (is_called_aside() or is_judge_work()):
            return _IGNORED  # the work of a judge or a memory answers no user
        if run is None and kind not in ROOTS:
            return around.inside()
        if run is not None and len(run.span_ids) >= _MOST_CALLS:
            run.root.evidence_not_recorded = (_TOO_MANY_CALLS,)
            return around.inside()

        # a call of the run around it, else the root of a new run
        name = method if kind == "step" else type(instance).__name__
        node = Node(KINDS_OF_CALLS.get(kind, kind), name, _tick())
        events = around.events
        if kind == "step":
            events = copies.events_among(arguments)
            self._copy(copies.copy_documents_taken, node, events)
            if run is not None:
                self._copy_what_is_looked_into(run, node, events, is_end=False)
        else:
            if events:
                self._copy(copies.copy_event, node, events[0])
            self._copy(copies.copy_arguments, kind, node, arguments, instance)
        # A program lets a model fill in a form by calling a tool. That is no tool of
        # the application.
        if kind == "tool" and "program" in around.kinds:
            node.kind = "ignored"
        if around.node is not None:
            calls_around = around.node.children
            if kind == "model" and calls_around and calls_around[-1].kind == "model":
                # a model without async methods runs only when its async stream is read
                last = calls_around[-1]
                is_unread = last.ended is not None and last.reply is None
                if is_unread and last.error is None and last.prompt == node.prompt:
                    return OpenSpan(around.run, last, None, around.kinds, events)
            calls_around.append(node)
        if run is None:
            run = self._new_run(kind, node, listeners)
            self._copy(copies.copy_start, run, arguments, instance)
        run.span_ids.append(id_)
        return OpenSpan(run, node, kind, around.kinds | {kind}, events)

    def _new_run(self, kind: Kind, root: Node, listeners: tuple[Listener, ...]) -> Run:
        """Begin a run with its outermost call."""
        for listener in listeners:
            listener.begun = True
        if kind not in ("retrieve", "post"):
            listened = _listeners_of_unknown_search.get()
            if not set(listened).isdisjoint(listeners):
                root.evidence_not_recorded += (_UNKNOWN_SEARCH,)
                _listeners_of_unknown_search.set(())
        task_or_thread = current_task_or_thread()
        return Run(root, kind=kind, task_or_thread=task_or_thread, listeners=listeners)

    @guard_hook
    def _copy(self, copy: Callable[..., object], *arguments: object) -> None:
        """Copy something for a run.

        Each copy is guarded by itself: what cannot be copied is missing, and the run is
        still recorded.
        """
        copy(*arguments)

    def _copy_what_is_looked_into(
        self, run: Run, step: Node, events: Sequence[object], *, is_end: bool
    ) -> None:
        """Copy the fields of a step's events if the user looks into them."""
        names = frozenset[str]().union(
            *(each.names_looked_up for each in run.listeners)
        )
        if names:
            copy = partial(copies.copy_what_is_looked_into, is_end=is_end)
            self._copy(copy, step, names, events)

    # A span ends

    @guard_hook
    def on_span_end(
        self, id_: str, instance: object, result: object, error: BaseException | None
    ) -> None:
        """Record the end of a span, and of the run if it is the outermost one.

        Args:
            id_: The id of the span.
            instance: The object whose method ran; None for a step of a workflow.
            result: What it returned; None if it raised.
            error: What it raised; None if it returned.
        """
        span = self._spans.get(id_, _NO_SPAN)
        run, node = span.run, span.node
        is_stream = isinstance(result, (Generator, AsyncGenerator))
        if span.kind is None and is_stream and run is not None and run.listeners:
            run.span_ids.append(id_)  # what is called while it is read names this span
        elif span.kind in (None, "step"):
            # that of a step is not kept, because it holds the step's events
            self._spans.pop(id_, None)
        if span.kind is None or node is None or run is None:
            return
        if isinstance(result, AgentOutput) and span.kind == "step":
            self._copy(copies.note_reply_of_agent, node, result, _tick())
        if error is None and span.kind == "step":
            self._copy(copies.copy_documents_returned, node, span.events, result)
            events = result if isinstance(result, list) else [result]
            self._copy_what_is_looked_into(run, node, events, is_end=True)
        elif error is None:
            self._copy(copies.copy_result, span.kind, node, result, instance)
        node.ended = _tick()
        # A step that waits for a person has not failed: it runs again.
        if type(error).__name__ == "WaitingForEvent":
            node.is_control = True
            node.error = None
        elif error is not None:
            node.error = words_of(error)
        if node is run.root and error is None:
            self._copy(copies.copy_outcome, run, result)
            self._end_or_wait_for_stream(run, result)
        elif node is run.root:
            # an interrupt, such as a cancelled task, leaves the run incomplete
            run.is_complete = isinstance(error, Exception)
            self._end(run)

    @guard_hook
    def on_search_of_store(self, result: VectorStoreQueryResult) -> None:
        """Record what a vector store found as a retriever's search.

        A retriever's own search is recorded already. Where the store names only ids, the
        texts that the model may be shown are unknown.
        """
        parent_id = active_span_id.get()
        around = self._span_around(parent_id)
        if "retrieve" in around.kinds or is_called_aside():
            return
        if result.nodes or not result.ids:
            id_ = f"{type(result).__name__}.{STORE_METHOD}-{uuid4()}"
            self.on_span_begin(id_, {}, result, parent_id)
            self.on_span_end(id_, result, result, None)
        elif around.node is not None:
            around.node.evidence_not_recorded += (_UNKNOWN_SEARCH,)
        else:
            _listeners_of_unknown_search.set(self.listeners.here())

    async def on_async_reranking(
        self,
        method: Callable[..., Awaitable[object]],
        postprocessor: object,
        *args: object,
        **kw: object,
    ) -> object:
        """Record what a postprocessor does async as a span, and return what it returns."""
        outer_id = active_span_id.get()
        id_ = f"{type(postprocessor).__name__}.apostprocess_nodes-{uuid4()}"
        arguments = {**dict(zip(("nodes", "query_bundle"), args, strict=False)), **kw}
        self.on_span_begin(id_, arguments, postprocessor, outer_id)
        before = _span_of_reranking.get()
        if id_ in self._spans:
            _span_of_reranking.set((outer_id, id_))
        try:
            nodes = await method(postprocessor, *args, **kw)
        except BaseException as error:
            self.on_span_end(id_, postprocessor, None, error)
            raise
        finally:
            _span_of_reranking.set(before)
        self.on_span_end(id_, postprocessor, nodes, None)
        return nodes

    # Streams

    @guard_hook
    def _end_or_wait_for_stream(self, run: Run, result: object) -> None:
        """End a run whose outermost call returned, or wait until its stream is read.

        A query engine's stream is read by the application. The answer of a chat engine
        is written by a thread or task of the engine, whoever reads it. The stream of a
        model that was called alone ends with the event of its whole reply.
        """
        response = copies.unwrap_stop_event(result)
        is_models_stream = run.kind == "model" and isinstance(
            result, (Generator, AsyncGenerator)
        )
        run.is_streamed = is_models_stream or isinstance(response, copies.Streamed)
        if is_models_stream:
            call_when_gone(result, self._end, run)
        elif (
            # a chat engine writes its answer in a thread or task of its own
            isinstance(response, StreamingAgentChatResponse)
            and response.is_writing_to_memory
        ):
            run.awaited_response = id(response)
            call_when_gone(response, self._end_stream, run, "", GeneratorExit())
            self._end_if_written(run)
        elif isinstance(response, copies.Streamed) and run.root.text is None:
            # calls while it is read belong to this run
            wrap_stream(
                response,
                partial(self._end_stream, run),
                while_fetching=partial(_marked_as_reading, run),
            )
        else:
            self._end(run)

    @guard_hook
    def _note_written(
        self, run: Run, response_id: int, text: str, error: BaseException | None
    ) -> None:
        """Keep the answer that a chat's engine has written.

        The chat itself may return before or after.
        """
        run.written.setdefault(response_id, (text.strip(), error))
        self._end_if_written(run)

    def _end_if_written(self, run: Run) -> None:
        """End a run if the answer that it waits for is written, or broken off."""
        if run.awaited_response in run.written:
            self._end_stream(run, *run.written[run.awaited_response])

    @guard_hook
    def on_model_chunk(
        self, id_: str | None, chunk: ChatResponse | CompletionResponse
    ) -> None:
        """Keep whether a chunk of a model's streamed reply tells of its provider's search."""
        span = self._spans.get(id_ or "")
        call = None if span is None else span.node
        if call is not None and not call.may_have_searched:
            call.may_have_searched = may_tell_of_search(chunk.raw)

    @guard_hook
    def on_model_reply(self, id_: str | None, reply: object) -> None:
        """Record the whole reply of a model's stream, which the framework tells in an event.

        A call without a stream is still going on when the event comes, and returns the
        reply itself.
        """
        span = self._spans.get(id_ or "", _NO_SPAN)
        call = span.node
        if call is None or call.kind != "model" or call.reply is not None:
            return
        if call.ended is None:
            return  # without a stream: what the call returns is read at its end
        self._copy(copies.note_reply, call, reply)
        call.ended = _tick()
        run = span.run
        # the model may have called another one, or itself by another method
        if run is not None and run.kind == "model" and run.is_streamed:
            self._end(run)

    @guard_hook
    def _end_stream(
        self, run: Run, answer_text: str, error: BaseException | None
    ) -> None:
        """Record how a streamed answer ended, and end the run.

        Example: the application read "Rome is" and stopped: the partial answer is "Rome
        is", the run is not complete, and it has no error.

        Args:
            run: The run.
            answer_text: The answer, or the part of it that was read.
            error: The error that broke it off, ``GeneratorExit`` if the application
                stopped reading; None if it was read to its end.
        """
        if not run.listeners:
            return
        if error is None:
            run.root.text = answer_text
            self._copy(copies.note_streamed_reply, run.root, answer_text)
        else:
            # what was written by the time that the chat returned may not have been read
            run.root.text = None
            run.partial_answer = answer_text or None
            run.is_complete = False
            has_stopped_reading = isinstance(error, GeneratorExit)
            run.root.error = None if has_stopped_reading else words_of(error)
        self._end(run)

    @guard_hook
    def _end(self, run: Run) -> None:
        """Forget the spans of a run, and hand the run to its listeners, once."""
        with self._lock:
            listeners, run.listeners = run.listeners, ()
            for id_ in run.span_ids:
                self._spans.pop(id_, None)
            run.span_ids.clear()
        run.memory = None
        for listener in listeners:
            listener.record(run)


def _as_judge(judge: Any) -> "JudgeLike":
    # The clients of models are behind it, which recording does not need.
    from llama_index.evaluation.ragmetrics.model import as_judge

    return as_judge(judge)


RECORDER = Recorder()
# makes this adapter's three functions
_ADAPTER: FrontDoor[Run] = FrontDoor(
    RECORDER.listeners,
    trees_of,
    _as_judge,
    as_run=as_run,
    unseen=(
        "no query engine, chat engine, agent, workflow, retriever, synthesizer or model"
        " of LlamaIndex ran in it; make the calls inside the block, or make samples of"
        " responses with samples_from(response)"
    ),
    hint=(
        "LlamaIndex's runs were seen, but none gave a sample; say where things are by"
        " question_from=, contexts_from= and answer_from=, or name tools whose text is a"
        " context in context_tools="
    ),
)
capture = _ADAPTER.capture
watch = _ADAPTER.watch
samples_from = _ADAPTER.samples_from
