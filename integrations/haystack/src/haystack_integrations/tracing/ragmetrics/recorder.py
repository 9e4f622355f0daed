"""The tracer: a tee over whatever tracer is active.

It copies what passes by and assembles nothing.

Spans find the run that they belong to by their parent or, where Haystack gives none, by
a context variable. A pipeline's own span is never the current one: its components name
it as their parent, and code that consumes ``run_async_generator`` in the same context
must not look as if it ran inside.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from functools import partial
from itertools import islice
from traceback import walk_stack
from typing import Any

from haystack.core.errors import BreakpointException, PipelineRuntimeError
from haystack.tracing.tracer import NullSpan, Span, Tracer, enable_tracing, tracer
from haystack_integrations.tracing.ragmetrics.nodes import (
    AGENT,
    COMPONENT,
    KEPT,
    PIPELINE,
    Node,
    Run,
    copied,
    tick,
)

from ragmetrics_core.capture import (
    Listener,
    Listeners,
    guard_hook,
    is_capturing,
    is_judge_work,
    strand,
    texts_in,
    words_of,
)

_OURS = "haystack_integrations.components.evaluators.ragmetrics."
_SPANS = (
    "haystack.component",
    "haystack.agent",
    "haystack.agent.step.llm",
    "haystack.agent.step.tool",
)
_INPUTS = frozenset(f"{span}.input" for span in _SPANS)
_OUTPUTS = frozenset(
    (*(f"{span}.output" for span in _SPANS), "haystack.pipeline.output_data")
)
_DISPLACED = (
    "another tracer was enabled meanwhile and took our place; enable tracers before"
    " capture() or watch()"
)
_FRAMES = 40

_current: ContextVar[TeeSpan | None] = ContextVar(
    "ragmetrics_haystack_span", default=None
)
# in the order in which they began; each operation on it is atomic
_open_runs: dict[Run, None] = {}


class TeeSpan(Span):
    """A span that records into a node of a run, beside another tracer's span.

    Everything is passed on to that. ``outer`` was the current span when it began.
    """

    def __init__(
        self, inner: Span, run: Run, node: Node, outer: TeeSpan | None = None
    ) -> None:
        self.inner, self.run, self.node, self.outer = inner, run, node, outer
        self.problems = run.problems

    def __getattr__(self, name: str) -> Any:
        # What only the other tracer's span has; a copy under construction has no inner
        # one.
        return getattr(object.__getattribute__(self, "inner"), name)

    def set_tag(self, key: str, value: Any) -> None:
        """Set a tag on both."""
        self._keep(key, value)
        self.inner.set_tag(key, value)

    def set_content_tag(self, key: str, value: Any) -> None:
        """Copy content; the other tracer decides for itself whether it takes it."""
        self._keep(key, value)
        self.inner.set_content_tag(key, value)

    def raw_span(self) -> Any:
        """The other tracer's own span object."""
        return self.inner.raw_span()

    def get_correlation_data_for_logs(self) -> dict[str, Any]:
        """That of the other tracer."""
        return self.inner.get_correlation_data_for_logs()

    @guard_hook
    def _keep(self, key: str, value: Any) -> None:
        """Note what a span says of itself: its input, its output, its failure."""
        if self.node.operation not in KEPT:
            return
        if key in _INPUTS:
            self.node.input = copied(value) or {}
        elif key in _OUTPUTS:
            self.node.output = copied(value)
        elif key == "haystack.tool.error":
            self.node.failed = bool(value)

    @guard_hook
    def closed(self, error: BaseException | None) -> None:
        """The block of code under the span was left, with an error or without."""
        if isinstance(error, Exception):
            self.node.error = words_of(
                error, lambda raised: f"{type(raised).__name__}: {raised}"
            )
        if error is not None and self.node is self.run.root:
            self.run.paused = isinstance(error, BreakpointException)
            failed = (
                error.pipeline_snapshot
                if isinstance(error, PipelineRuntimeError)
                else None
            )
            self.run.resumable = self.run.paused or failed is not None
            self.run.error = None if self.run.paused else self.node.error
            # else cancelled, abandoned, interrupted or paused
            self.run.complete = self.run.error is not None
        self.node.closed = tick()


class Tee(Tracer):
    """A tracer beside ``inner``, the one that was active.

    Where it is not the one in our place, it only passes on.
    """

    def __init__(self, inner: Tracer) -> None:
        self.inner, self.problems = inner, LISTENERS.problems

    def __getattr__(self, name: str) -> Any:
        # what only the other tracer has, e.g. flush()
        return getattr(object.__getattribute__(self, "inner"), name)

    @contextlib.contextmanager
    def trace(
        self,
        operation_name: str,
        tags: dict[str, Any] | None = None,
        parent_span: Span | None = None,
    ) -> Iterator[Span]:
        """Trace a block of code with the other tracer, and record it."""
        if is_judge_work():
            yield NullSpan()
            return
        theirs = parent_span.inner if isinstance(parent_span, TeeSpan) else parent_span
        with self.inner.trace(operation_name, tags=tags, parent_span=theirs) as inner:
            span = (
                self._opened(operation_name, tags or {}, parent_span, inner)
                if _place.tee is self
                else None
            )
            if span is None:
                yield inner
                return
            if operation_name != PIPELINE:
                _current.set(span)
            with contextlib.ExitStack() as block:
                block.push(partial(self._left, span))
                yield span

    def current_span(self) -> Span | None:
        """The other tracer's current span, recording where ours does."""
        theirs, ours = self.inner.current_span(), _open_span()
        return (
            theirs
            if ours is None
            else TeeSpan(theirs or ours.inner, ours.run, ours.node, ours.outer)
        )

    @guard_hook
    def _opened(
        self,
        operation: str,
        tags: dict[str, Any],
        parent_span: Span | None,
        inner: Span,
    ) -> TeeSpan | None:
        """Begin to record a span; None if it is part of no run that is recorded.

        An outermost pipeline or agent begins a run, if somebody listens. Spans of our
        own evaluator are left out.
        """
        owner = str(tags.get("haystack.component.fully_qualified_type", ""))
        if owner.startswith(_OURS):
            return None  # the evaluator itself is no part of what is evaluated
        outer = _open_span()
        around = parent_span if isinstance(parent_span, TeeSpan) else outer
        begun = (
            self._begun(tags)
            if around is None and operation in (PIPELINE, AGENT)
            else None
        )
        run, parent = (
            (around.run, around.node) if around is not None else begun or (None, None)
        )
        if run is None:
            return None
        name = (
            tags.get("haystack.component.name") or tags.get("haystack.tool.name") or ""
        )
        takes, gives = (
            tags.get(f"haystack.component.{side}_spec") or {}
            for side in ("input", "output")
        )
        node = Node(operation, name, owner, parent, tick(), takes, gives)
        if operation == PIPELINE:
            node.input = copied(tags.get("haystack.pipeline.input_data")) or {}
        run.nodes.append(node)
        return TeeSpan(inner, run, node, outer)

    def _begun(self, tags: dict[str, Any]) -> tuple[Run, Node | None] | None:
        """A new run for those who listen; or the one that a bare thread belongs to."""
        if (
            _open_runs
            and not is_capturing()
            and threading.current_thread() is not threading.main_thread()
        ):
            around = _started_by(
                set(texts_in(copied(tags.get("haystack.pipeline.input_data"))))
            )
            if around is not None:
                return around
        listening = LISTENERS.begin()
        if not listening:
            return None
        run = Run(listening[0].problems, listening, strand())
        _open_runs[run] = None
        return run, None

    @guard_hook
    def _left(
        self, span: TeeSpan, _kind: object, error: BaseException | None, _trace: object
    ) -> None:
        """The block of code under a span was left, with an error or without."""
        # an abandoned generator is closed in another context
        if _current.get() is span:
            _current.set(span.outer)
        span.closed(error)
        if span.node is span.run.root:
            _open_runs.pop(span.run, None)
            listeners, span.run.listeners = span.run.listeners, ()
            for listener in listeners:
                listener.record(span.run)


def _open_span() -> TeeSpan | None:
    """The innermost span of this context that has not ended."""
    span = _current.get()
    while span is not None and span.node.closed:
        span = span.outer
    return span


def _started_by(texts: set[str]) -> tuple[Run, Node] | None:
    """The run and the open component that started a bare thread; None if none did.

    The thread executes a method of the component's class, and the component's inputs
    hold these texts.
    """
    # The one way to see who started a bare thread's work.
    callers = (
        frame.f_locals.get("self") for frame, _ in islice(walk_stack(None), _FRAMES)
    )
    owners = [
        type(caller)
        for caller in callers
        if inspect.getattr_static(caller, "__haystack_input__", None) is not None
    ]
    types = {f"{owner.__module__}.{owner.__name__}" for owner in owners}
    for run in list(_open_runs) if texts and types else ():
        waiting = (
            node
            for node in reversed(run.nodes)
            if node.operation == COMPONENT and not node.closed
        )
        for node in waiting:
            if node.type in types and texts <= set(texts_in(node.input)):
                return run, node
    return None


class _Place:
    """The one tracer that Haystack has per process, and ours in it."""

    tee: Tee | None = None

    def take(self, listener: Listener) -> None:
        """Put a tee over the active tracer, unless it is there."""
        actual = tracer.actual_tracer
        if actual is not self.tee:
            for listener_before in LISTENERS.open:
                if listener_before is not listener:
                    listener_before.problems.note(_DISPLACED)
            self.tee = Tee(actual)
            enable_tracing(self.tee)

    def leave(self, listener: Listener) -> None:
        """The last one out removes the tee, if it is still in place."""
        if tracer.actual_tracer is not self.tee:
            listener.problems.note(_DISPLACED)
        if not LISTENERS.open:
            self.tee = None
            if isinstance(tracer.actual_tracer, Tee):
                enable_tracing(tracer.actual_tracer.inner)


_place = _Place()
LISTENERS = Listeners(_place.take, _place.leave)
