"""Traces judged as they end, by a span processor.

It fits OpenTelemetry's SDK, but imports nothing of it.
"""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable
from functools import partial
from itertools import chain
from typing import Any

from ragmetrics_core.capture import BackgroundEvaluator, WatchSettings, guard_hook
from ragmetrics_core.capture.captured import Redact
from ragmetrics_core.capture.hooks import Lock
from ragmetrics_core.data import Sample, SampleResult
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.engine.resolve import JudgeLike
from ragmetrics_core.engine.run import Metrics
from ragmetrics_core.models.judge_work import is_judge_work
from ragmetrics_core.models.limits import Limits
from ragmetrics_core.reporting.report import Sink
from ragmetrics_core.traces.notes import Code
from ragmetrics_core.traces.reader import TraceReader
from ragmetrics_core.traces.span_trees import Resolve
from ragmetrics_core.traces.spans import Span, spans_in

_SHUTDOWN_SECONDS = 2.0
_LET_GO = (
    "more than max_open={} spans are held of traces that go on or wait: the quietest"
    " are let go"
)
_UNENDED = (
    "a trace went on when the processor stopped, or spans came later than linger_s:"
    " they are not judged"
)


class SampleProcessor(BackgroundEvaluator[int]):
    """Judges in the background what a traced application does.

    It is a span processor for the application's tracer provider.

    The application's threads only put ended spans by. Samples are made of a trace as
    ``samples_from_spans`` makes them, ``linger_s`` after its root in this process has
    ended, and judged as by an adapter's ``watch``.

    Args:
        metrics: Metrics or their names; None for the usual ones, ``[]`` to count
            only.
        judge: The name of a model, a judge, or a chat model; see
            ``ragmetrics_core.evaluate``.
        linger_s: How long spans are waited for that end after their root, in seconds.
        max_open: Most spans held of traces that go on or wait for the judge; beyond,
            the trace that was quiet longest is let go.
        resolve: As for ``samples_from_spans``.
        dialect: As for ``samples_from_spans``.
        context_tools: As for ``samples_from_spans``.
        sample_rate: Share of the traces that are judged, as for an adapter's ``watch``.
        max_queue: As for an adapter's ``watch``; so are the arguments that follow.
        on_result: Called with each result.
        sinks: Where results go.
        concurrency: Most model calls in flight.
        limits: What judging may spend.
        redact: A function through which each sample goes as it is made.

    Raises:
        SettingError: If a setting is invalid.
        InputError: If there is no such dialect.

    Attributes:
        without_sample: How many traces gave no sample as they ended, by the codes of
            docs/traces.md.
        dropped: Traces not judged: they were let go, went on at the end, or more than
            ``max_queue`` waited.

    Examples:
        >>> from opentelemetry.sdk.trace import TracerProvider
        >>> processor = SampleProcessor(["context_adherence"], "lexical")
        >>> provider = TracerProvider()
        >>> provider.add_span_processor(processor)
        >>> with provider.get_tracer("app").start_as_current_span("answer") as span:
        ...     span.set_attributes({"openinference.span.kind": "CHAIN", "input.value": "Hello"})
        >>> processor.stop()
        True
        >>> processor.without_sample
        Counter({'no_retrieval': 1})
    """

    def __init__(
        self,
        metrics: Metrics = None,
        judge: JudgeLike = None,
        *,
        linger_s: float = 1.0,
        max_open: int = 10_000,
        resolve: Resolve | None = None,
        dialect: str | None = None,
        context_tools: Collection[str] | None = None,
        sample_rate: float = 1.0,
        max_queue: int | None = 1000,
        on_result: Callable[[SampleResult], None] | None = None,
        sinks: Iterable[Sink] = (),
        concurrency: int = 8,
        limits: Limits | None = None,
        redact: Redact | None = None,
    ) -> None:
        """Check the settings and begin to watch.

        The class describes all arguments. A trace is judged ``linger_s`` seconds after
        its root span has ended, since some spans end later. Spans of at most
        ``max_open`` unfinished traces are held. ``resolve`` gives the texts of documents
        whose ids alone were recorded, and ``dialect`` names the instrumentation.
        """
        if linger_s < 0 or max_open < 1:
            raise SettingError(
                f"linger_s must be at least 0 and max_open 1, got {linger_s} and"
                f" {max_open}"
            )
        self._max_open = max_open
        self._new_reader = partial(TraceReader, dialect, resolve, context_tools)
        # guards the ended spans: threads of the application put them in, and the
        # thread that judges takes them out
        self._spans_lock = Lock()
        settings = WatchSettings(
            sample_rate=sample_rate,
            max_queue=max_queue,
            on_result=on_result,
            sinks=sinks,
            concurrency=concurrency,
            limits=limits,
            redact=redact,
        )
        super().__init__(
            self._samples_of_trace,
            metrics,
            judge,
            settings,
            linger_s=linger_s,
            # of runs that were interrupted: a later trace may resume them
            finish=lambda: self._reader.finish(),
        )

    def after_fork(self) -> None:
        """Begin anew in a forked process: earlier spans are the parent's as well."""
        super().after_fork()
        self._reader = self._new_reader()
        self.without_sample: Counter[Code] = Counter()
        # Ended spans that wait for the end of the root around them, by the id of their
        # trace. The trace of the latest span is the last.
        self._held_spans: OrderedDict[int, list[Any]] = OrderedDict()
        self._n_held_spans = 0  # of all traces together
        # Ids of traces that were let go. Their later spans are forgotten as well: no
        # sample is made of a part.
        self._let_go_traces: OrderedDict[int, None] = OrderedDict()

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Called by the SDK; what a span says is known when it has ended."""

    _on_ending = on_start

    @guard_hook
    def on_end(self, span: Any) -> None:
        """Keep a span that has ended, and record its trace if it is the root.

        Example: the span "retrieve" ends and is held; the root "answer" around it ends,
        and the trace with both spans is queued for judging. Spans of a judge's own
        calls are left out. If more than ``max_open`` spans are held, the trace that was
        quiet for longest is **let go**: its spans are forgotten, and later spans of it
        as well, since no sample is made of a part.
        """
        trace = span.context.trace_id
        n_let_go = 0
        with self._spans_lock:
            if self._stopped or is_judge_work() or trace in self._let_go_traces:
                return
            self._held_spans.setdefault(trace, []).append(span)
            self._held_spans.move_to_end(trace)
            self._n_held_spans += 1
            while self._n_held_spans > self._max_open:
                quietest_trace = next(iter(self._held_spans))
                self._let_go(quietest_trace)
                n_let_go += 1
        if n_let_go:
            self._count_lost(n_let_go, _LET_GO.format(self._max_open))
        if _is_root(span):
            is_queued = self.record(trace)
            if not is_queued:  # the queue is full, and counts the trace as lost
                with self._spans_lock:
                    self._let_go(trace)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Judge all traces whose root has ended; False at the timeout."""
        return self.flush(timeout_millis / 1000)

    def shutdown(self) -> None:
        """Stop after two seconds at most.

        Call ``force_flush`` or ``stop`` before to wait for the judge.
        """
        self.stop(_SHUTDOWN_SECONDS)

    def _let_go(self, trace: int) -> None:
        """Forget the spans of a trace and do not take any later ones."""
        spans = self._held_spans.pop(trace, ())
        self._n_held_spans -= len(spans)
        self._let_go_traces[trace] = None
        if len(self._let_go_traces) > self._max_open:
            self._let_go_traces.popitem(last=False)

    def _take_ended_spans(self, trace: int) -> list[Any]:
        """Remove and return the roots of a trace that have ended, with all spans inside them.

        Spans inside of others that have not ended stay. A trace may have several roots
        in this process, which end one after the other. Example: the root "answer" and
        "retrieve" inside it have ended: both are returned. "retrieve" inside a second
        root that goes on stays.
        """
        ended_spans: list[Any] = []
        spans_by_parent = defaultdict[int, list[Any]](list)
        with self._spans_lock:
            for span in self._held_spans.pop(trace, ()):
                if _is_root(span):  # it has ended: only ended spans are held
                    ended_spans.append(span)
                else:
                    spans_by_parent[span.parent.span_id].append(span)
            # the list grows while the loop goes through it: by the spans inside each span
            for span in ended_spans:
                ended_spans += spans_by_parent.pop(span.context.span_id, ())
            self._n_held_spans -= len(ended_spans)
            if spans_by_parent:
                waiting = chain.from_iterable(spans_by_parent.values())
                self._held_spans[trace] = list(waiting)
        return ended_spans

    def _samples_of_trace(self, trace: int) -> list[Sample]:
        """Make the samples that are complete with the ended spans of a trace.

        A trace without a sample is counted in ``without_sample`` by its reason, such as
        "no_retrieval".
        """
        spans: list[Span] = []
        for ended_span in self._take_ended_spans(trace):
            spans += spans_in(ended_span)
        if not spans:
            return []
        name = spans[0].trace
        samples = self._reader.read(name, spans)
        reason = self._reader.reason_by_trace_without_sample.get(name)
        if reason is not None:
            self.without_sample[reason] += 1
        # a process that never ends has no end of traces
        self._reader.reason_by_trace_without_sample.clear()
        return samples

    def stop(self, timeout: float | None = None) -> bool:
        """Accept no further spans, judge the ended traces, and count the others.

        See ``flush``.
        """
        has_judged_all = super().stop(timeout)
        with self._spans_lock:
            n_unended = len(self._held_spans)
            self._held_spans.clear()
        self._count_lost(n_unended, _UNENDED)
        return has_judged_all


def _is_root(span: Any) -> bool:
    """Whether nothing in this process is around a span."""
    return span.parent is None or bool(span.parent.is_remote)
