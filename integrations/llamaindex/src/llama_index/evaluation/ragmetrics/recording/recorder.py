"""The framework's hooks: what happens is copied, and each finished run is handed to those who listen.

A run begins at the outermost engine (query, chat or workflow); a retriever, reranker,
synthesizer or model outside of any engine is a run of its own. Nothing is assembled
here, and runs that belong together are joined by the core.
"""

import threading
import weakref
from collections.abc import (
    AsyncGenerator,
    Callable,
    Generator,
    Mapping,
)
from dataclasses import replace
from functools import partial
from typing import Any

from llama_index.core.agent.workflow.workflow_events import AgentOutput
from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.core.chat_engine.types import (
    BaseChatEngine,
    StreamingAgentChatResponse,
)
from llama_index.core.evaluation.dataset_generation import DatasetGenerator
from llama_index.core.vector_stores.types import VectorStoreQueryResult
from llama_index.core.workflow import Workflow
from llama_index.evaluation.ragmetrics.recording import snapshot
from llama_index.evaluation.ragmetrics.recording.hooks import (
    CONTEXTS,
    SEARCHES,
    Events,
    Spans,
    given_context,
    install,
    observe,
    untaken_pieces_of,
)
from llama_index.evaluation.ragmetrics.recording.kept_conversations import start_over
from llama_index.evaluation.ragmetrics.recording.open_runs import (
    IGNORED,
    NOT_RECORDED,
    BeginningSpan,
    CallOfRun,
    NodesOfTestData,
    OpenRun,
    SpanRecord,
    StoreSearchers,
    WrittenAnswer,
    add_call,
    call_of_same_model,
    error_in_words,
    is_answer_read_here,
    is_inside_retriever,
    is_no_call_of_its_own,
    listeners_without_run,
    marked_as_reading,
    note_end,
    record_inside_call,
    tick,
    with_runs_read_here,
)
from llama_index.evaluation.ragmetrics.recording.run import (
    KINDS_OF_CALLS,
    KINDS_WITHOUT_SEARCH,
    MEMORY,
    ROOTS,
    Kind,
    Run,
    StepOfWorkflow,
    call_when_gone,
    kind_of,
    preparing_caller,
)
from llama_index.evaluation.ragmetrics.recording.workflow_steps import (
    copy_nodes_returned,
    copy_nodes_taken,
    events_among,
)
from llama_index_instrumentation.span import active_span_id

from ragmetrics_core import capture
from ragmetrics_core.capture import (
    Listener,
    Listeners,
    Node,
    current_task_or_thread,
    guard_hook,
)

# characters of "-" and a UUID at the end of a span's id, behind class and method
_UUID_SIZE = 37
_READ_BY_NOBODY = (
    "nobody read the streamed answer: whether the user received it is not certain"
)
_STORE_SEARCHED_BEFORE = (
    "a vector store was queried without a retriever before this call: what it found, and"
    " what of that was shown, is not recorded"
)
_NOT_READ_YET = (
    "a streamed answer was not read to its end when the block ended; its sample is there"
    " once it is read, or its response is gone"
)


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
        self._spans = Spans(self)
        self._events = Events(recorder=self)
        capture.renew_after_fork(self)

    def after_fork(self) -> None:
        """Start anew in a forked child process, without any open run.

        Runs go on in the parent, and its locks may be held for ever.
        """
        self._lock = threading.RLock()
        # By the span's id. The record of a call stays until its run ends, any other
        # until the span ends.
        self._records: dict[str, SpanRecord] = {}
        # pieces of a streamed chat answer, by the span that writes it
        self._pieces_written: dict[str, list[str]] = {}
        # by the id of an open span: calls us if nothing is left that could end it
        self._end_watchers: dict[str, weakref.finalize[Any, Any]] = {}
        self._store_searchers = StoreSearchers()
        self._test_data = NodesOfTestData()

    def _opened(self, listener: Listener) -> None:
        """Put the hooks in for a new listener, and note under which span it listens."""
        listener.under = active_span_id.get()
        install(self._spans, self._events)
        CONTEXTS.begin()
        SEARCHES.begin(self.on_store_search)

    def _closed(self, listener: Listener) -> None:
        """Take the hooks out, once nobody listens any more.

        A run whose streamed answer was not read yet is noted as a problem of the
        listener.
        """
        if not self.listeners.open:
            CONTEXTS.end()
            SEARCHES.end()
            self._store_searchers.clear()
        open_runs: set[OpenRun] = set()
        for record in list(self._records.values()):
            open_runs.update(record.open_runs)
        if any(open_run.is_streamed_to(listener) for open_run in open_runs):
            listener.problems.note(_NOT_READ_YET)

    def _listeners_of_new_run(
        self, parent_id: str | None, outer: SpanRecord | None
    ) -> tuple[Listener, ...]:
        """Return the listeners for which a new span begins a run.

        Example: ``engine.query`` inside a capture, with no span around it: the capture.
        Inside a run that a listener gets already, no new run begins for this listener.

        Args:
            parent_id: The id of the span around the new one; None if there is none.
            outer: The record of the span around; None if it has none.
        """
        if is_answer_read_here():
            return ()
        listening = self.listeners.here()
        if outer is not None and outer.calls_of_runs:
            return listeners_without_run(listening, outer)
        began_before_recording = parent_id is not None and outer is None
        if began_before_recording:
            return tuple(
                listener for listener in listening if listener.under == parent_id
            )
        return tuple(listening)

    @guard_hook
    def on_span_begin(
        self,
        id_: str,
        arguments: Mapping[str, Any],
        instance: object,
        parent_id: str | None,
    ) -> None:
        """Record a **span**, the framework's record of one call of a method, as it begins.

        Example: the span of ``engine.query`` begins a run if somebody listens, and the
        span of ``retriever.retrieve`` inside it becomes a call of the run. A span that
        stands in no run, and can begin none, gets no record.

        Args:
            id_: The span's id, which ends in class, method and a UUID.
            arguments: What its method was given.
            instance: The object whose method it is.
            parent_id: The id of the span around it; None if there is none.
        """
        if isinstance(instance, BaseChatEngine) and ".reset-" in id_:
            start_over(instance)  # the user reset the chat
        if not self.listeners.open and not self._records:
            return  # nobody listens, and no run is open
        method = id_[:-_UUID_SIZE].rpartition(".")[2]
        kind = self._kind_of_span(id_, method, arguments, instance)
        span = BeginningSpan(kind, method, arguments, instance)
        record = self._record_of_beginning(span, parent_id)
        if record is not None:
            self._keep_record(id_, record)

    def _record_of_beginning(
        self, span: BeginningSpan, parent_id: str | None
    ) -> SpanRecord | None:
        """Make the record of a span that begins; None if it needs none.

        Inside a span that is ignored, such as a judge's, a span is ignored, too.

        Args:
            span: The span.
            parent_id: The id of the span around it; None if there is none.
        """
        outer = self._record_around(parent_id)
        if outer is IGNORED:
            return IGNORED
        stands_in_run = outer is not None and bool(outer.calls_of_runs)
        # those for whom a run may begin with this span
        new_listeners: tuple[Listener, ...] = ()
        if span.kind in ROOTS or not stands_in_run:
            new_listeners = self._listeners_of_new_run(parent_id, outer)
        if not stands_in_run and not new_listeners:
            return None
        if outer is None:
            outer = NOT_RECORDED
        return self._record_unless_ignored(span, outer, new_listeners)

    def _record_around(self, parent_id: str | None) -> SpanRecord | None:
        """Return the record of the span around a new one; None if there is none.

        What is called while a streamed answer is read belongs to that run as well.
        """
        outer = None if parent_id is None else self._records.get(parent_id)
        return with_runs_read_here(outer)

    def _keep_record(self, id_: str, record: SpanRecord) -> None:
        """Keep a span's record; that of a call is dropped when its runs have ended."""
        self._records[id_] = record
        if record.kind is not None:
            for open_run, _ in record.calls_of_runs:
                open_run.spans.append(id_)

    def _kind_of_span(
        self, id_: str, method: str, arguments: Mapping[str, Any], instance: object
    ) -> Kind | None:
        """Tell what a span does, by the class of its object and the name of its method.

        A step of a workflow is told by its events. Returns None for a span that is
        recorded as no call. One kind of these has an effect: when an engine begins to
        write a streamed answer, the pieces of the answer are collected from now on.
        """
        owner: type = type(instance)
        kind = kind_of(owner, method)
        if kind == "write":
            self._pieces_written[id_] = []
            return None
        # older releases name the workflow as the object of a step
        may_be_step = instance is None or isinstance(instance, Workflow)
        if kind is None and may_be_step and events_among(arguments):
            return "step"
        return kind

    def _record_unless_ignored(
        self,
        span: BeginningSpan,
        outer: SpanRecord,
        new_listeners: tuple[Listener, ...],
    ) -> SpanRecord:
        """Make the record of a span, or return ``IGNORED`` if it answers no user.

        ``IGNORED`` and the kind "ignored" differ. ``IGNORED``: neither the span nor
        what is inside it is recorded. Examples: a judge's model call, and a query that
        a generator of test data makes. The kind "ignored": the call is recorded, but
        does not count. Example: a memory calls a model to shorten a conversation.
        """
        # The class up the call stack that prepares or remembers, such as
        # ``DatasetGenerator``. It is looked for where a run could begin.
        caller_class = preparing_caller() if span.kind in ROOTS else None
        # a judge at work inside a recorded run, such as an evaluator that a query calls
        is_judge = bool(outer.calls_of_runs) and capture.is_judge_work()
        is_memory = caller_class in MEMORY
        is_preparation = caller_class is not None and not is_memory
        if is_judge or is_preparation:
            return IGNORED
        record = self._record_span(span, outer, new_listeners)
        if is_memory and record.kind is not None and record.node is not None:
            record.node.kind = "ignored"
        return record

    @guard_hook
    def watch_for_lost_end(self, id_: str, bound_args: object) -> None:
        """End an open span also if the framework never says that it ended.

        The framework says nothing where it fails itself while it reports the
        application's exception. It holds the arguments of a call until it has reported
        the end; once they are gone, nothing more will come.

        Args:
            id_: The id of the span.
            bound_args: The arguments of the call.
        """
        if id_ in self._records or id_ in self._pieces_written:
            self._end_watchers[id_] = call_when_gone(bound_args, self._lost, id_)

    @guard_hook
    def _lost(self, id_: str) -> None:
        if id_ in self._end_watchers:
            self.on_span_end(id_, None, None, GeneratorExit())

    def _record_span(
        self,
        span: BeginningSpan,
        outer: SpanRecord,
        new_listeners: tuple[Listener, ...],
    ) -> SpanRecord:
        """Make the record of a span, and record its call in the runs around it.

        There are three cases:

        - The span is a part of a call that is recorded: no new call. Example: the
          framework reports one ``llm.chat`` as two spans.
        - The span stands in no run, and begins none: no call. Example: a tool that the
          application calls by itself.
        - Any other span is a new call. Example: ``retriever.retrieve("Who?")`` inside a
          query becomes a call below the query's.

        Args:
            span: The span.
            outer: The record of the span around it; empty if it stands in no run.
            new_listeners: Who gets a run that this span begins; () if it begins none.
        """
        kind = span.kind
        if kind == "model":
            prompt = snapshot.prompt_of(span.arguments)
            call_reported_before = call_of_same_model(outer, prompt)
            if call_reported_before is not None:
                return record_inside_call(outer, call_reported_before)
        # no kind: a helper method of the call around, such as ``llm.predict``
        if kind is None or is_no_call_of_its_own(kind, outer):
            self._take_history_from_template(outer, span.arguments)
            return record_inside_call(outer, None)
        listeners = new_listeners if kind in ROOTS else ()
        is_in_run = bool(outer.calls_of_runs)
        if not is_in_run and not listeners:
            return SpanRecord(kind=kind)
        return self._record_new_call(kind, span, outer, listeners)

    def _record_new_call(
        self,
        kind: Kind,
        span: BeginningSpan,
        outer: SpanRecord,
        listeners: tuple[Listener, ...],
    ) -> SpanRecord:
        """Record a span as a new call in each run around it, and begin a run with it.

        A **span** is the framework's report of one method, a call its entry (a ``Node``)
        in the tree of a run. Usually one run is around it. Example of two: an
        application is captured, and one of its functions opens a capture of its own.

        Args:
            kind: What the call does.
            span: The span.
            outer: The record of the span around it.
            listeners: Who gets a run that begins with the call; () if none begins.
        """
        node = self._make_call(kind, span, outer)
        calls_of_runs = []
        for open_run, call_around in outer.calls_of_runs:
            calls_of_runs.append(add_call(node, open_run, call_around))
        if listeners:
            new_run = self._begin_run(kind, node, span, listeners)
            calls_of_runs.append(CallOfRun(new_run, node))
        # what a workflow's step was sent: a ``ToolCall`` event of an agent, for example
        events_of_step = events_among(span.arguments) if kind == "step" else ()
        return SpanRecord(
            tuple(calls_of_runs),
            kind,
            kinds_around_and_own=outer.kinds_around_and_own | {kind},
            events_of_step=events_of_step,
            node=node,
        )

    def _make_call(self, kind: Kind, span: BeginningSpan, outer: SpanRecord) -> Node:
        """Make the recorded call of a span, with copies of what it was given.

        Example: ``retriever.retrieve("Who?")`` becomes a node of the kind "retriever"
        with the query "Who?".
        """
        if kind == "step":
            return self._make_step(span)
        name = type(span.instance).__name__
        node = Node(KINDS_OF_CALLS.get(kind, kind), name, tick())
        # A program lets a model fill in a form by calling a tool. That is no tool of
        # the application.
        if kind == "tool" and "program" in outer.kinds_around_and_own:
            node.kind = "ignored"
        self._copy_agent_and_tool_call(node, outer)
        self._copy_guarded(
            snapshot.copy_arguments, kind, node, span.arguments, span.instance
        )
        return node

    def _copy_agent_and_tool_call(self, node: Node, outer: SpanRecord) -> None:
        """Copy into a call inside an agent's step what the step was sent.

        The step of a tool is sent one event, the model's tool call: the tool that runs
        inside it carries this call out. The step of an agent is sent one event with the
        agent's name: the model that is called inside it speaks for this agent.
        """
        if outer.events_of_step:
            self._copy_guarded(snapshot.copy_event, node, outer.events_of_step[0])

    def _make_step(self, span: BeginningSpan) -> StepOfWorkflow:
        """Make the recorded call of a workflow's step, with the nodes it was sent."""
        step = StepOfWorkflow("step", span.method, tick())
        self._copy_guarded(copy_nodes_taken, step, events_among(span.arguments))
        return step

    def _begin_run(
        self,
        kind: Kind,
        node: Node,
        span: BeginningSpan,
        listeners: tuple[Listener, ...],
    ) -> OpenRun:
        """Begin a run with its outermost call, and copy what the call was given.

        Example: ``engine.chat("Who?", chat_history=[…])`` begins a run with the
        question and the history.

        Args:
            kind: What the call does.
            node: The recorded call.
            span: The span of the call.
            listeners: Those who get the run.
        """
        # the user of a listener may name keys or paths in the whole arguments
        needs_data = any(listener.needs_data for listener in listeners)
        run = Run(node, kind=kind, task_or_thread=current_task_or_thread())
        self._doubt_after_unrecorded_search(run)
        for listener in listeners:
            listener.begun = True
        self._copy_guarded(
            snapshot.copy_start,
            run,
            span.arguments,
            span.instance,
            needs_data,
            given_context(),
        )
        return OpenRun(run, listeners, needs_data)

    def _doubt_after_unrecorded_search(self, run: Run) -> None:
        """Add a doubt to a run that may answer from an unrecorded search of a store.

        Such a run searches nothing by itself, as a model that is called alone. It is the
        next one in the task or thread that searched.
        """
        searches_nothing = run.kind in KINDS_WITHOUT_SEARCH
        if searches_nothing and self._store_searchers.take(run.task_or_thread):
            run.doubts = (_STORE_SEARCHED_BEFORE,)

    @guard_hook
    def on_span_end(
        self, id_: str, instance: object, result: object, error: BaseException | None
    ) -> None:
        """Record the end of a **span**, the framework's record of one call of a method.

        Example: ``retriever.retrieve("Who?")`` returned two nodes: both, and the time
        of the end, are written into the recorded call. The end of the outermost call
        ends the run, too.

        Args:
            id_: The id of the span.
            instance: The object whose method ran; None for a step of a workflow.
            result: What it returned; None if it raised.
            error: What it raised; None if it returned.
        """
        end_watcher = self._end_watchers.pop(id_, None)
        if end_watcher is not None:
            end_watcher.detach()  # it would report the end a second time
        record = self._record_of_ended(id_)
        # first: this answer may be what the run waits for that ends below
        if id_ in self._pieces_written:
            self._note_written_answer(id_, record, instance, error)
        if record.kind == "ignored" and preparing_caller() is DatasetGenerator:
            self._test_data.add(result)
        is_step_of_workflow = instance is None
        if is_step_of_workflow and isinstance(result, AgentOutput):
            self._note_reply_of_agent(record, result)
        if record.is_call:
            self._end_call(record, instance, result, error)

    def _record_of_ended(self, id_: str) -> SpanRecord:
        """Return the record of a span that has ended, and drop it if nobody needs it.

        That of a call is needed until its run ends, since calls below it may come later.
        That of a workflow's step is dropped, because it holds the step's events.
        """
        record = self._records.get(id_, NOT_RECORDED)
        if not record.is_call or record.kind == "step":
            self._records.pop(id_, None)
        return record

    def _end_call(
        self,
        record: SpanRecord,
        instance: object,
        result: object,
        error: BaseException | None,
    ) -> None:
        """Write into a span's call its result, its end and its error.

        Example: the end of ``engine.query`` writes the answer, and ends the run, since
        no call is around it. The end of the retriever inside writes its documents.

        Args:
            record: What is recorded of the span: its call, and the runs in whose trees
                this call stands. Usually that is one run.
            instance: The object whose method ran.
            result: What the method returned; None if it raised.
            error: What it raised; None if it returned.
        """
        call = record.node
        # a span without a call of its own, such as a helper method inside a retriever
        if record.kind is None or call is None:
            return
        if error is None and isinstance(call, StepOfWorkflow):
            self._copy_guarded(copy_nodes_returned, call, record.events_of_step, result)
        elif error is None:
            self._copy_guarded(
                snapshot.copy_result, record.kind, call, result, instance
            )
        note_end(call, error)
        is_search_of_test_data = self._test_data.is_all_found_by(call)
        for open_run, _ in record.calls_of_runs:
            if is_search_of_test_data:
                # a ``DatasetGenerator`` looks for texts to ask about: no user has asked
                _ignore_search(open_run.run)
            if call is open_run.run.root:
                self._end_outermost_call(open_run, result, error)

    def _end_outermost_call(
        self, open_run: OpenRun, result: object, error: BaseException | None
    ) -> None:
        """Record the end of a run's outermost call, and end the run with it.

        If the call returned a stream, the run ends when the stream is read or dropped.

        Args:
            open_run: The run.
            result: What the call returned; None if it raised.
            error: What it raised; None if it returned.
        """
        if error is None:
            self._copy_guarded(
                snapshot.copy_outcome, open_run.run, result, open_run.needs_data
            )
            self._end_or_wait_for_stream(open_run, result)
        else:
            # an interrupt, such as a cancelled task, leaves the run incomplete
            open_run.run.is_complete = isinstance(error, Exception)
            self._end(open_run)

    @guard_hook
    def on_piece_written(self, id_: str | None, delta: str) -> None:
        """Keep a piece of a streamed chat answer that the engine wrote."""
        if id_ in self._pieces_written:
            self._pieces_written[id_].append(delta)

    @guard_hook
    def on_store_search(self, result: VectorStoreQueryResult) -> None:
        """Record what a vector store found, if the application searched without a retriever.

        Outside of all runs only the fact is kept that a store was searched.

        Args:
            result: The store's result. It may name ids alone, whose texts are unknown.
        """
        record = self._records.get(active_span_id.get() or "", NOT_RECORDED)
        if record is IGNORED or is_inside_retriever(record):
            return
        if preparing_caller() is not None:
            # an index that is built, or a memory that is read, searches stores as well
            return
        if record.calls_of_runs:
            self._record_store_search(record, result)
        else:
            self._note_search_outside()

    def _record_store_search(
        self, record: SpanRecord, result: VectorStoreQueryResult
    ) -> None:
        """Record a search of a store as a call of a retriever in the runs of a span."""
        documents = snapshot.documents_of_result(result)
        node = Node("retriever", "vector store", tick(), documents=documents)
        node.ended = tick()
        for open_run, parent in record.calls_of_runs:
            add_call(node, open_run, parent)
            if documents is None:
                open_run.run.ids_without_texts |= set(result.ids or ())

    def _note_search_outside(self) -> None:
        """Remember that a store was searched outside of all runs, in this task or thread.

        The next call of a model there may show what the search found.
        """
        if not self.listeners.here():
            return
        self._store_searchers.add(current_task_or_thread())

    @guard_hook
    def on_model_chunk(
        self, id_: str | None, chunk: ChatResponse | CompletionResponse
    ) -> None:
        """Keep whether a chunk of a model's streamed reply tells of its provider's search."""
        record = self._records.get(id_ or "")
        if id_ is None or record is None or record.has_search_in_stream:
            return
        if capture.chunk_tells_of_search(chunk.raw):
            self._records[id_] = replace(record, has_search_in_stream=True)

    @guard_hook
    def on_model_reply(self, id_: str | None, reply: object) -> None:
        """Record the whole reply of a model's stream, which the framework tells in an event.

        Example: ``llm.stream_chat`` has streamed "Rome is old.": the event holds the
        whole text, and the model's call gets it as its reply. A call without a stream
        is still going on when the event comes, and returns the reply itself.

        Args:
            id_: The id of the span in which the event was sent; None if in none.
            reply: The reply.
        """
        record = self._records.get(id_ or "", NOT_RECORDED)
        call = record.node
        if call is None or call.kind != "model" or call.reply is not None:
            return
        if call.ended is None:
            return  # without a stream: what the call returns is read at its end
        # of a stream the event does not tell that the provider searched: its chunks do
        note_reply = partial(
            snapshot.note_reply, has_search_in_stream=record.has_search_in_stream
        )
        self._copy_guarded(note_reply, call, reply)
        call.ended = tick()
        for open_run in record.open_runs:
            if call is open_run.run.root:
                self._end_streamed_model(open_run)

    def _end_streamed_model(self, open_run: OpenRun) -> None:
        """End a run that is one streaming call of a model, since its reply is whole.

        The application called ``llm.stream_chat`` by itself. The call returned its stream
        at once, and the run has waited for the reply. A call without a stream ends its
        run when it returns.
        """
        if open_run.run.is_streamed:
            self._end(open_run)

    @guard_hook
    def _copy_guarded(self, copy: Callable[..., object], *arguments: object) -> None:
        """Copy something for a run.

        Each copy is guarded by itself: what cannot be copied is missing, and the run is
        still recorded.
        """
        copy(*arguments)

    @guard_hook
    def _take_history_from_template(
        self, outer: SpanRecord, arguments: Mapping[str, Any]
    ) -> None:
        """Take a history from a model's template, where no other place tells one.

        Example: a chat engine calls ``llm.predict(template, chat_history="user: Hi…")``
        to condense a question. Of other methods the arguments hold no template.

        Args:
            outer: The record of the span around the method's, such as the engine's.
            arguments: What the method was given.
        """
        for open_run, _ in outer.calls_of_runs:
            run = open_run.run
            if run.kind == "chat" and not run.history:
                run.history = snapshot.prompted_turns(arguments)
            elif not run.history and not run.conversation_fields:
                run.conversation_fields = snapshot.prompted_fields(arguments)

    @guard_hook
    def _note_reply_of_agent(self, record: SpanRecord, output: AgentOutput) -> None:
        """Record the reply of an agent's model, and the tools that it called."""
        for _, node in record.calls_of_runs:
            models = [child for child in node.children if child.kind == "model"]
            if not models:
                continue
            last_model = models[-1]
            if output.tool_calls or last_model.reply is None:
                self._copy_guarded(snapshot.note_reply, last_model, output)
                last_model.ended = tick()

    @guard_hook
    def _end_or_wait_for_stream(self, open_run: OpenRun, result: object) -> None:
        """End a run whose outermost call returned, or wait until its stream is read.

        Example: ``engine.query("Who?")`` returned its text: the run ends now. A run
        with a stream ends when the application has read the stream, or drops it.

        Args:
            open_run: The run; ``run.is_streamed`` notes whether its answer is a stream.
            result: What the outermost call returned.
        """
        run = open_run.run
        response = snapshot.without_stop_event(result)
        is_models_stream = run.kind == "model" and isinstance(
            result, (Generator, AsyncGenerator)
        )
        run.is_streamed = is_models_stream or isinstance(response, snapshot.Streamed)
        # If the engine itself has read its stream, the call has the text already.
        has_text = run.root.text is not None
        if is_models_stream:
            # ``llm.stream_chat()``, called alone: once the stream is read,
            # ``on_model_reply`` ends the run; if it is dropped, the run ends here
            call_when_gone(result, self._end, open_run)
        elif snapshot.is_being_written(response):
            # ``chat_engine.stream_chat()``: a thread of the engine writes the answer
            self._follow_chat(open_run, response)
        elif isinstance(response, snapshot.Streamed) and not has_text:
            # a query engine's stream; calls while it is read belong to this run
            observe(
                response,
                on_end=partial(self._end_stream, open_run),
                while_fetching=partial(marked_as_reading, open_run),
            )
        else:
            self._end(open_run)

    @guard_hook
    def _note_written_answer(
        self,
        id_: str,
        record: SpanRecord,
        response: object,
        error: BaseException | None,
    ) -> None:
        """Keep the answer that a chat's engine has streamed in a span.

        Example: a thread writes "Rome is old" while ``stream_chat`` returns a response.
        If the thread ends first, the run looks the answer up later, by the response's
        ``id()``. If ``stream_chat`` returned first, the run waits, and may end now.

        Args:
            id_: The id of the span.
            record: The record of the span.
            response: The response with the answer. A span that returned anything else
                wrote no answer.
            error: What broke the writing off; None if it came to its end.
        """
        pieces = self._pieces_written.pop(id_)
        if not isinstance(response, StreamingAgentChatResponse):
            return
        text = "".join(pieces)
        if error is None:
            # ``response.response`` is empty in older releases: the pieces are joined then
            text = response.response or text.strip()
        # several runs, if a capture was opened inside a run
        for open_run in record.open_runs:
            open_run.written_answers[id(response)] = WrittenAnswer(text, error)
            self._end_if_written_and_read(open_run)

    def _follow_chat(
        self, open_run: OpenRun, response: StreamingAgentChatResponse
    ) -> None:
        """Wait until a chat's answer is written and read, or its response is gone.

        The engine of the chat writes the answer, perhaps after the chat has returned.
        """
        call_when_gone(response, self._end_unread, open_run)
        # first: from then on the thread that writes may end the run
        self._copy_guarded(self._follow_reading, open_run, response)
        open_run.awaited_response_id = id(response)
        if open_run.run.root.text is not None:
            open_run.written_answers.setdefault(
                id(response), WrittenAnswer(open_run.run.root.text)
            )
        self._end_if_written_and_read(open_run)

    def _follow_reading(
        self, open_run: OpenRun, response: StreamingAgentChatResponse
    ) -> None:
        """Know from now on what the application has not read of a run's answer."""
        open_run.untaken_pieces = untaken_pieces_of(
            response, partial(self._end_if_written_and_read, open_run)
        )

    @guard_hook
    def _end_if_written_and_read(self, open_run: OpenRun) -> None:
        """End a run if the answer that it waits for is written and read.

        The answer may be written before its chat returns, or after.
        """
        written_answer = open_run.awaited_answer()
        if written_answer is None:
            return
        is_broken_off = written_answer.error is not None
        if is_broken_off or not open_run.untaken_pieces:
            self._end_stream(open_run, written_answer.text, written_answer.error)

    @guard_hook
    def _end_unread(self, open_run: OpenRun) -> None:
        """End a run whose response object is gone, perhaps before it was read."""
        written_answer = open_run.awaited_answer()
        if written_answer is None:  # the engine never wrote the answer to its end
            # stands for the error of an application that stopped reading
            self._end_stream(open_run, "", GeneratorExit())
        elif written_answer.error is not None:
            self._end_stream(open_run, written_answer.text, written_answer.error)
        else:
            self._end_read_in_part(open_run, written_answer)

    def _end_read_in_part(
        self, open_run: OpenRun, written_answer: WrittenAnswer
    ) -> None:
        """End a run of whose whole answer perhaps only a part was read.

        Example: of "Rome is old" the application read "Rome is": that is kept, as a
        partial answer. If nothing was read, the answer is kept whole, with a doubt.
        """
        unread = "".join(open_run.untaken_pieces).rstrip()
        text_read = written_answer.text_before(unread)
        if not text_read.strip():
            open_run.run.doubts = (_READ_BY_NOBODY,)
            self._end_stream(open_run, written_answer.text, None)
        elif unread:
            self._end_stream(open_run, text_read, GeneratorExit())
        else:
            self._end_stream(open_run, written_answer.text, None)

    @guard_hook
    def _end_stream(
        self, open_run: OpenRun, answer_text: str, error: BaseException | None
    ) -> None:
        """Record how the reading of a streamed answer ended, and end the run.

        Example: the application read "Rome is" and stopped: the partial answer is "Rome
        is", the run is not complete, and it has no error.

        Args:
            open_run: The run.
            answer_text: The answer, or the part of it that was read. If there is an
                error, the text is kept as a partial answer and the run is marked as
                incomplete.
            error: The error that broke it off, ``GeneratorExit`` if the application
                stopped reading; None if it was read to its end.
        """
        if open_run.ended:
            return
        run = open_run.run
        if error is None:
            run.root.text = answer_text
        else:
            # what was written by the time that the chat returned may not have been read
            run.root.text = None
            run.partial_answer = answer_text or None
            run.is_complete = False
            has_stopped_reading = isinstance(error, GeneratorExit)
            run.root.error = None if has_stopped_reading else error_in_words(error)
        self._end(open_run)

    @guard_hook
    def _end(self, open_run: OpenRun) -> None:
        """Drop the records of a run's spans, and hand the run to its listeners, once.

        A second call for the same run does nothing.
        """
        with self._lock:
            if open_run.ended:
                return
            open_run.ended = True
            for id_ in open_run.spans:
                record = self._records.pop(id_, NOT_RECORDED)
                if len(record.calls_of_runs) > 1:  # another run goes on
                    self._records[id_] = record.without_run(open_run)
        for listener in open_run.listeners:
            listener.record(open_run.run)


def _ignore_search(run: Run) -> None:
    """Let no sample be made of a run that is a search, or a query by a search."""
    if run.kind in ("query", "retrieve"):
        run.root.kind = "ignored"


RECORDER = Recorder()
