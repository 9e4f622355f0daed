"""The tracer: a tee over whatever tracer is active.

It copies what passes by and assembles nothing.

Spans find the run that they belong to by their parent or, where Haystack gives none, by
a context variable. A pipeline's own span is never the current one: its components name
it as their parent, and code that consumes ``run_async_generator`` in the same context
must not look as if it ran inside.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from haystack.core.errors import BreakpointException
from haystack.tracing.tracer import NullSpan, Span, Tracer, enable_tracing, tracer
from haystack_integrations.tracing.ragmetrics.nodes import (
    AGENT,
    AGENT_LLM,
    COMPONENT,
    KEPT,
    PIPELINE,
    Node,
    Run,
    copied,
    tick,
    tools_in,
)
from haystack_integrations.tracing.ragmetrics.patches import Method, RunMethods

from ragmetrics_core.capture import (
    Listener,
    Listeners,
    current_task_or_thread,
    guard_hook,
    is_judge_work,
    words_of,
)

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
# where the framework makes the tool with which an agent finds further ones
_SEARCHABLE_TOOLSET = "haystack.tools.searchable_toolset"
_DISPLACED = (
    "another tracer was enabled meanwhile and took our place; enable tracers before"
    " capture() or watch()"
)

_GENERATOR = "haystack.chat_generator.run"
# the framework opens these spans around a generator's own run
_OF_GENERATORS = (AGENT_LLM, _GENERATOR)
# older releases open no span for a hook
_AROUND_HOOKS = ("haystack.agent.hook", AGENT)

_current: ContextVar[TeeSpan | None] = ContextVar(
    "ragmetrics_haystack_span", default=None
)
# what the last embedder that ran by itself returned, and the text that it embedded
_embedded: ContextVar[tuple[object, object]] = ContextVar(
    "ragmetrics_haystack_embedded", default=(None, None)
)
_running_components: set[TeeSpan] = set()
_NO_SPAN = contextlib.nullcontext(NullSpan())


class TeeSpan(Span):
    """A span that records into a node of a run, and hands everything on to another tracer's span.

    Attributes:
        inner: The other tracer's span.
        run: The run in which it records.
        node: What it records.
        current_before: Our span that was the current one when it began, and is again
            when it has ended; None if there was none.
        component: The component whose run it is; None until that has begun.
        problems: Where errors of the recording are counted.
    """

    def __init__(
        self, inner: Span, run: Run, node: Node, current_before: TeeSpan | None = None
    ) -> None:
        self.inner = inner
        self.run = run
        self.node = node
        self.current_before = current_before
        self.component: object = None
        self.problems = LISTENERS.problems

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

    def belongs_to(self, component: object) -> None:
        """Note the component whose run it is."""
        self.component = component
        _running_components.add(self)

    @guard_hook
    def _keep(self, key: str, value: Any) -> None:
        """Record a tag of a span: its input or its output."""
        if self.node.operation not in KEPT:
            return
        if key in _INPUTS:
            self.node.input = copied(value) or {}
            given = value.get("tools") or getattr(self.component, "tools", None)
            tools = list(tools_in(given))
            self.node.offered_tools = tuple(tool.name for tool in tools)
            self.node.tools_that_find_tools = tuple(
                tool.name
                for tool in tools
                if getattr(getattr(tool, "function", None), "__module__", None)
                == _SEARCHABLE_TOOLSET
            )
        elif key in _OUTPUTS:
            self.node.output = copied(value)
            if self.node is self.run.root and "embedding" in value:
                _embedded.set((value["embedding"], self.node.input.get("text")))

    @guard_hook
    def closed(self, error: BaseException | None) -> None:
        """Record that the block of code under the span was left.

        Args:
            error: What was raised in the block; None if the block came to its end.
        """
        is_pause = isinstance(error, BreakpointException)
        if isinstance(error, Exception) and not is_pause:
            self.node.error = words_of(error)
        elif error is not None and self.node is self.run.root:
            # one that was paused, cancelled or interrupted may go on
            self.run.complete = False
            self.run.paused = is_pause
        self.node.closed = tick()


class Tee(Tracer):
    """A tracer that records, and hands all on to the tracer that was active before.

    Once the application has enabled another tracer, it records nothing more.

    Attributes:
        inner: The tracer that was active before, such as OpenTelemetry's.
        problems: Where errors of the recording are counted.
    """

    def __init__(self, inner: Tracer) -> None:
        self.inner = inner
        self.problems = LISTENERS.problems

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
        """Trace a block of code with the tracer ``inner``, and record it as well.

        Example: ``inner`` is OpenTelemetry's tracer: a component gets a span there, and
        a node in our run. What a judge does is neither traced nor recorded.

        Args:
            operation_name: What the block does, by Haystack's name.
            tags: What Haystack says of it.
            parent_span: The span around it; None if it is not known.

        Yields:
            A span that records and traces; for a block that is not recorded the span of
            ``inner``; for a judge's work one that does nothing.
        """
        if is_judge_work():
            yield NullSpan()
            return
        inner_parent = parent_span
        if isinstance(parent_span, TeeSpan):  # ``inner`` knows only its own spans
            inner_parent = parent_span.inner
        with self.inner.trace(
            operation_name, tags=tags, parent_span=inner_parent
        ) as inner_span:
            span = self._begin_span(operation_name, tags or {}, parent_span, inner_span)
            with self.opened(span, inner_span) as recording_span:
                yield recording_span

    @contextlib.contextmanager
    def opened(self, span: TeeSpan | None, otherwise: Span) -> Iterator[Span]:
        """End a span when the block of code under it is left.

        Args:
            span: The span; None for a block that is not recorded.
            otherwise: The span that such a block gets.
        """
        if span is None:
            yield otherwise
            return
        error: BaseException | None = None
        try:
            yield span
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._end_span(span, error)

    def current_span(self) -> Span | None:
        """The other tracer's current span."""
        return self.inner.current_span()

    @guard_hook
    def begin_bare(
        self, component: Any, run: Method, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> TeeSpan | None:
        """Begin to record a component outside of any pipeline, which ``inner`` does not see.

        It gets the name that it has in a pipeline, if it is in one. A retriever that is
        given an embedding gets the text that was embedded as well.
        """
        pipeline = component.__haystack_added_to_pipeline__
        name = pipeline.get_component_name(component) if pipeline else ""
        outputs = component.__haystack_output__._sockets_dict  # noqa: SLF001  # as a pipeline reads it
        tags = {
            "haystack.component.name": name or type(component).__name__,
            "haystack.component.fully_qualified_type": (
                f"{type(component).__module__}.{type(component).__name__}"
            ),
            "haystack.component.output_spec": {
                socket: {"type": each.type} for socket, each in outputs.items()
            },
        }
        span = self._begin_span(COMPONENT, tags, None, NullSpan(), component)
        if span is not None:
            _, *names = inspect.signature(run).parameters
            inputs = {**dict(zip(names, args, strict=False)), **kwargs}
            embedding, text = _embedded.get()
            if any(value is embedding for value in inputs.values()):
                inputs = {"text": text, **inputs}
            span.set_content_tag("haystack.component.input", inputs)
        return span

    @guard_hook
    def _begin_span(
        self,
        operation: str,
        tags: dict[str, Any],
        parent_span: Span | None,
        inner_span: Span,
        component: object = None,
    ) -> TeeSpan | None:
        """Begin to record a span as a node of a run; None if it is not recorded.

        Example: a component's span inside a pipeline becomes a node of the pipeline's
        run.

        Args:
            operation: What the span does, by Haystack's name.
            tags: What Haystack says of it.
            parent_span: The span around it; None if Haystack does not say.
            inner_span: The span that the application's own tracer, such as
                OpenTelemetry's, has begun for it. The returned span hands on to it.
            component: The component that runs outside of any pipeline; None for others.
        """
        if _tracer_slot.tee is not self:  # the application enabled another tracer
            return None
        current_span = _open_span()
        # a parent that we did not record tells nothing: what is open here is around
        span_around = parent_span if isinstance(parent_span, TeeSpan) else current_span
        if span_around is not None:
            run, node_around = span_around.run, span_around.node
        elif component is not None and _is_part_of_another(component):
            run, node_around = Run(), None  # in a thread of its own: nobody gets it
        elif (component is not None or operation in (PIPELINE, AGENT)) and (
            listeners := LISTENERS.begin()
        ):
            run, node_around = Run(listeners, current_task_or_thread()), None
        else:  # a run that nobody listens to
            return None
        # a hook of an agent asks it, and no component around it
        if operation == _GENERATOR and node_around is not None:
            is_of_agent = node_around.operation in _AROUND_HOOKS
            operation = COMPONENT if is_of_agent else operation
        node = _node(operation, tags, node_around)
        if operation == PIPELINE:  # only a pipeline has its input already
            data = tags.get("haystack.pipeline.input_data")
            node.input = copied(data) or {}
        run.nodes.append(node)
        span = TeeSpan(inner_span, run, node, current_before=current_span)
        if component is not None:
            span.belongs_to(component)
        # A pipeline's span never is the current one: its components name it as their
        # parent.
        if operation != PIPELINE:
            _current.set(span)
        return span

    @guard_hook
    def _end_span(self, span: TeeSpan, error: BaseException | None) -> None:
        """Record that the block of code under a span was left, perhaps with an error.

        The span around becomes the current one. The end of the outermost span hands its
        run to the listeners.
        """
        # an abandoned generator is closed in another context
        if _current.get() is span:
            _current.set(span.current_before)
        _running_components.discard(span)
        span.closed(error)
        if span.node is span.run.root:
            listeners = span.run.listeners
            span.run.listeners = ()  # a second end of the root hands nothing on
            for listener in listeners:
                listener.record(span.run)


def _open_span() -> TeeSpan | None:
    """The innermost span of this context that has not ended."""
    span = _current.get()
    while span is not None and span.node.closed:
        span = span.current_before
    return span


def _is_part_of_another(component: object) -> bool:
    """Whether a component that runs now holds this one: it may run it in a thread of its own."""
    for span in tuple(_running_components):
        for value in vars(span.component).values():
            parts = value.values() if isinstance(value, Mapping) else value
            is_collection = isinstance(value, (list, tuple, Mapping))
            if value is component or (
                is_collection and any(part is component for part in parts)
            ):
                return True
    return False


def _observing(run: Method) -> Method:
    """Make the method that takes the place of a component's ``run`` or ``run_async``.

    That one is bound to the component before it is called: another tracer may have
    wrapped it, and learns from this which component runs.
    """
    if inspect.iscoroutinefunction(run):

        @functools.wraps(run)
        async def run_observed_async(self: Any, *args: Any, **kwargs: Any) -> Any:
            with bare_span(self, run, args, kwargs) as span:
                output = await run.__get__(self)(*args, **kwargs)
                span.set_content_tag("haystack.component.output", output)
                return output

        return run_observed_async

    @functools.wraps(run)
    def run_observed(self: Any, *args: Any, **kwargs: Any) -> Any:
        with bare_span(self, run, args, kwargs) as span:
            output = run.__get__(self)(*args, **kwargs)
            span.set_content_tag("haystack.component.output", output)
            return output

    return run_observed


def bare_span(
    component: object, run: Method, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> contextlib.AbstractContextManager[Span]:
    """The span around the run of a component; it does nothing inside of a pipeline's."""
    tee = _tracer_slot.tee
    if tee is None or tracer.actual_tracer is not tee or is_judge_work():
        return _NO_SPAN
    span = _open_span()
    if span is not None:
        is_of_one = span.node.operation in (COMPONENT, *_OF_GENERATORS)
        if span.component is None and is_of_one:
            span.belongs_to(component)  # the first that runs in it
        # its pipeline or agent opened its span, or we did
        if span.component is component:
            return _NO_SPAN
    return tee.opened(tee.begin_bare(component, run, args, kwargs), NullSpan())


def _node(operation: str, tags: dict[str, Any], parent: Node | None) -> Node:
    """Make the node of a span that begins, of what Haystack says of it (its tags).

    Example: a component's span gives a node with its name "retriever" and its class.
    """
    inputs = tags.get("haystack.component.input_spec") or {}
    outputs = tags.get("haystack.component.output_spec") or {}
    return Node(
        operation,
        name=str(
            tags.get("haystack.component.name") or tags.get("haystack.tool.name") or ""
        ),
        # Haystack makes the name anew at each call
        type=sys.intern(str(tags.get("haystack.component.fully_qualified_type", ""))),
        parent=parent,
        opened=tick(),
        senders={
            name: tuple(senders)
            for name, socket in inputs.items()
            if (senders := socket.get("senders"))
        },
        gives_documents=any(
            "Document" in str(socket.get("type")) for socket in outputs.values()
        ),
        gives_replies="replies" in outputs,
    )


class _TracerSlot:
    """The place for the one tracer that Haystack has per process.

    Attributes:
        tee: Our tracer, which was put into the place; None while nobody listens.
    """

    tee: Tee | None = None

    def take(self, listener: Listener) -> None:
        """Put a tee over the active tracer, unless it is there."""
        actual = tracer.actual_tracer
        if actual is not self.tee:
            # another tracer took our place, and the earlier listeners missed spans
            for listener_before in LISTENERS.open:
                if listener_before is not listener:
                    listener_before.problems.note(_DISPLACED)
            self.tee = Tee(actual)
            enable_tracing(self.tee)
        _run_methods.take()

    def leave(self, listener: Listener) -> None:
        """Take our tracer out when the last listener leaves, if it is still in place."""
        if tracer.actual_tracer is not self.tee:
            listener.problems.note(_DISPLACED)
        if not LISTENERS.open:
            _run_methods.restore()
            self.tee = None
            if isinstance(tracer.actual_tracer, Tee):
                enable_tracing(tracer.actual_tracer.inner)


_tracer_slot = _TracerSlot()
LISTENERS = Listeners(_tracer_slot.take, _tracer_slot.leave)
_run_methods = RunMethods(_observing, LISTENERS)
