"""Traces judged as they end: a span processor of OpenTelemetry's SDK, of which nothing is imported."""

from collections import Counter, OrderedDict, defaultdict
from typing import Any

from ragmetrics_core.capture import (
    BackgroundEvaluator,
    JudgeLike,
    Metrics,
    SettingError,
    guarded,
    is_judge_work,
)
from ragmetrics_core.capture.hooks import Lock
from ragmetrics_core.data import Sample
from ragmetrics_core.traces.reader import Code, TraceReader
from ragmetrics_core.traces.span_trees import Resolve
from ragmetrics_core.traces.spans import spans_in

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
    """Judges what a traced application does, in the background: a span processor for its tracer provider.

    The application's threads only put ended spans by. Samples are made of a trace as
    ``samples_from_spans`` makes them, ``linger_s`` after its root in this process has
    ended, and judged as by an adapter's ``watch``.

    Args:
        metrics: Metrics or their names; None for all, ``[]`` to count only.
        judge: The name of a model, a judge, or a chat model; see
            ``ragmetrics_core.evaluate``.
        linger_s: How long spans are waited for that end after their root, in seconds.
        max_open: Most spans held of traces that go on or wait for the judge; beyond,
            the trace that was quiet longest is let go.
        resolve: As for ``samples_from_spans``.
        dialect: As for ``samples_from_spans``.
        **settings: ``sample_rate``, ``max_queue``, ``keep``, ``on_result``, ``sinks``,
            ``concurrency``, ``limits`` and ``redact``, as for an adapter's ``watch``.

    Raises:
        SettingError: If a setting is invalid.
        InputError: If there is no such dialect.

    Attributes:
        without: How many traces gave no sample as they ended, by the codes of
            docs/traces.md; a retrieval that a later trace goes on with is
            ``incomplete``.
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
        >>> processor.without
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
        **settings: Any,
    ) -> None:
        if linger_s < 0 or max_open < 1:
            raise SettingError(
                f"linger_s must be at least 0 and max_open 1, got {linger_s} and"
                f" {max_open}"
            )
        self._most, self._dialect, self._resolve, self._ending = (
            max_open,
            dialect,
            resolve,
            Lock(),
        )
        settings |= {"linger_s": linger_s, "rest": lambda: self._reader.turns.finish()}
        super().__init__(self._made, metrics, judge, **settings)

    def after_fork(self) -> None:
        """See the one it extends; what spans said before is the parent's as well."""
        super().after_fork()
        self._reader, self.without = (
            TraceReader(self._dialect, self._resolve),
            Counter[Code](),
        )
        # spans by trace, that of the latest span last
        self._open: OrderedDict[int, list[Any]] = OrderedDict()
        # traces that were let go: what comes later is no whole
        self._gone: OrderedDict[int, None] = OrderedDict()
        self._held = 0

    def on_start(self, *_: object, **__: object) -> None:
        """Called by the SDK; what a span says is known when it has ended."""

    _on_ending = on_start

    @guarded
    def on_end(self, span: Any) -> None:
        """Put a span by that has ended; what judges do is left out."""
        trace, lost = span.context.trace_id, 0
        with self._ending:
            if self._stopped or is_judge_work() or trace in self._gone:
                return
            self._open.setdefault(trace, []).append(span)
            self._open.move_to_end(trace)
            self._held += 1
            while self._held > self._most:
                self._let_go(next(iter(self._open)))
                lost += 1
        if lost:
            self._lost(lost, _LET_GO.format(self._most))
        if _is_root(span) and not self.record(trace):
            with self._ending:
                self._let_go(trace)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Judge all traces whose root has ended; False at the timeout."""
        return self.flush(timeout_millis / 1000)

    def shutdown(self) -> None:
        """Stop, after two seconds at most; ``force_flush`` or ``stop`` before it waits for the judge."""
        self.stop(_SHUTDOWN_SECONDS)

    def _let_go(self, trace: int) -> None:
        self._held -= len(self._open.pop(trace, ()))
        self._gone[trace] = None
        if len(self._gone) > self._most:
            self._gone.popitem(last=False)

    def _whole(self, trace: int) -> list[Any]:
        """The roots of a trace that have ended, with all inside them.

        What is inside of others stays.
        """
        inside = defaultdict[int | None, list[Any]](list)
        with self._ending:
            for span in self._open.pop(trace, ()):
                inside[None if _is_root(span) else span.parent.span_id].append(span)
            found = inside.pop(None, [])
            for span in found:
                found += inside.pop(span.context.span_id, ())
            self._held -= len(found)
            if inside:
                self._open[trace] = [
                    span for spans in inside.values() for span in spans
                ]
        return found

    def _made(self, trace: int) -> list[Sample]:
        spans = [one for span in self._whole(trace) for one in spans_in(span)]
        found = self._reader.read(spans[0].trace, spans) if spans else []
        if spans and not found:
            self.without[self._reader.without[spans[0].trace]] += 1
        self._reader.without.clear()
        self._reader.used.traces.clear()
        return found

    def stop(self, timeout: float | None = None) -> bool:
        """Accept no further spans, judge the traces that have ended, and count the others; see ``flush``."""
        done = super().stop(timeout)
        with self._ending:
            lost = len(self._open)
            self._open.clear()
        self._lost(lost, _UNENDED)
        return done


def _is_root(span: Any) -> bool:
    """Whether nothing in this process is around a span."""
    return span.parent is None or bool(span.parent.is_remote)
