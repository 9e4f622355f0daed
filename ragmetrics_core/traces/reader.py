"""Samples of recorded traces, by the same rules as the adapters'."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from ragmetrics_core.capture import InputError, Overrides, RowError, Turns
from ragmetrics_core.data import Sample
from ragmetrics_core.traces import haystack, llamaindex
from ragmetrics_core.traces.dialects import DIALECTS
from ragmetrics_core.traces.grouping import Lines, Source, UnreadableSpan, traces_of
from ragmetrics_core.traces.span_trees import Call, Resolve, calls_of, trees_of
from ragmetrics_core.traces.spans import WRONG, Span

Code = Literal[
    "no_retrieval",
    "incomplete",
    "no_content",
    "judge",
    "framework",
    "too_large",
    "unreadable",
]
# The traces of these codes may hold answers that nobody judged.
_UNKNOWN_CONTENT: tuple[Code, ...] = ("too_large", "unreadable")
_LLAMAINDEX = re.compile(
    r"\w+\.[_a]*(query|retrieve|synthesize|get_response|run_agent_step)$"
)
_HAYSTACK = re.compile(r"haystack[._]|((Async)?Pipeline|SuperComponent|Agent)\.run")
_MARK = "openinference.span.kind"
_LOST = (
    "spans of the trace are missing: beside its root one stands whose parent is not"
    " there"
)
_NONE = "no span bears the mark of a known instrumentation ({}); attributes seen: {}"


@dataclass(frozen=True)
class _Used(Overrides):
    """Nothing said by the user; notes of which traces samples are made."""

    traces: set[str] = field(default_factory=set)

    def find(self, field: str, run: Any, *places: Any) -> tuple[bool, Any]:  # noqa: ARG002  # the one it overrides
        """Note the traces of a sample in the making."""
        self.traces.update(places)
        return False, None


@dataclass
class Notes:
    """Traces that gave no sample, and why, in the words of docs/traces.md.

    And lines that hold no spans.
    """

    without: list[tuple[str, Code]] = field(default_factory=list)
    bad: list[RowError] = field(default_factory=list)


class TraceReader:
    """Makes samples of traces as they end, and remembers of each what later ones go on with.

    Attributes:
        turns: Joins runs of one question or conversation; its ``finish`` gives what
            still waits there.
        used: Which traces samples were made of.
        without: Why a trace gives no sample, of each that was read, whether it gave one
            or not.
        known: Whether any span bore a mark; until then ``seen`` are attributes.
    """

    def __init__(
        self, dialect: str | None = None, resolve: Resolve | None = None
    ) -> None:
        if dialect is not None and dialect not in DIALECTS:
            raise InputError(
                f"no dialect {dialect!r}; there are: {', '.join(DIALECTS)}"
            )
        self._dialect, self._resolve, self._asides = (
            dialect,
            resolve,
            llamaindex.Asides(),
        )
        self.used, self.without, self.known, self.seen = (
            _Used(),
            dict[str, Code](),
            False,
            set[str](),
        )
        self.turns: Turns[Call] = Turns(trees_of, self.used)

    def read(self, trace: str, spans: Sequence[Span] | None) -> list[Sample]:
        """The samples that are complete with a trace.

        None are the spans of one that is too large.
        """
        try:
            if spans is not None:
                return self._read(trace, spans)
            self.without[trace] = "too_large"
        except WRONG as error:
            if isinstance(error, InputError):
                raise
            self.without[trace] = "unreadable"
            self.used.traces.discard(trace)
        return []

    def _read(self, trace: str, spans: Sequence[Span]) -> list[Sample]:
        calls = calls_of(spans, self._dialect, self._resolve)
        told = [
            one.reading
            for call in calls
            for one in call.walk()
            if one.reading is not None
        ]
        self.known = self.known or bool(told)
        self.seen.update(
            ()
            if self.known or len(self.seen) > 12
            else (key for one in spans for key in one.attributes)
        )
        content = any(
            one.input is not None or one.output is not None or one.prompt
            for one in told
        )
        retrieves = any(one.kind == "retriever" for one in told)
        self.without[trace] = (
            "incomplete" if retrieves else "no_retrieval" if content else "no_content"
        )
        if any(
            "haystack" in span.scope or _HAYSTACK.match(span.name) for span in spans
        ):
            if not any(
                haystack.is_traced_by_haystack(one) or _MARK in one.attributes
                for one in spans
            ):
                self.without[trace] = "framework"
                return []
            haystack.read(calls)
        marks = [
            f"{one.scope} {one.attributes.get('mlflow.message.format')}".replace(
                "_", ""
            )
            for one in spans
        ]
        is_llamaindex = any("llamaindex" in one for one in marks) or any(
            _LLAMAINDEX.match(one.name) for one in spans
        )
        if is_llamaindex:
            llamaindex.read(calls)
        found = [
            sample for call in calls for sample in self.turns.add(call)
        ] + self.turns.part()
        above = {one.span.parent for one in calls if not one.span.remote} - {
            one.id for one in spans
        }
        # one alone may be a span around all, which was left out
        if "" in above and len(above) > 1:
            found = [_warned(sample, _LOST, grade="incomplete") for sample in found]
        if is_llamaindex:
            judged = [sample for sample in found if self._asides.are_judged(sample)]
            found = [
                _warned(sample, self._asides.doubt(sample))
                for sample in found
                if sample not in judged
            ]
            self._asides.hear(calls)
            self.used.traces.difference_update(str(sample.id) for sample in judged)
            self.without.update((str(sample.id), "judge") for sample in judged)
        return found


def _warned(sample: Sample, warning: str | None, **more: str) -> Sample:
    """The sample with a further warning in its notes, if there is one, and what else changes there."""
    notes = sample.capture
    if notes is None or warning is None:
        return sample
    told = {"warnings": (*notes.warnings, warning), **more}
    return sample.model_copy(update={"capture": notes.model_copy(update=told)})


class SpanSamples(Iterable[Sample]):
    """The samples of recorded spans, read anew each time; ``notes`` then say what gave none; see the function below."""

    def __init__(
        self,
        source: Source,
        resolve: Resolve | None,
        dialect: str | None,
        max_trace_mb: int,
    ) -> None:
        self._begin, self.notes = partial(TraceReader, dialect, resolve), Notes()
        self._begin()  # an unknown dialect is refused at once
        self.lines = Lines(source, max_trace_mb * 2**20)

    def __iter__(self) -> Iterator[Sample]:
        reader, self.notes = self._begin(), Notes(bad=self.lines.bad)
        for trace, spans in traces_of(self.lines):
            yield from reader.read(trace, spans)
        if reader.seen and not reader.known:
            raise InputError(
                _NONE.format(", ".join(DIALECTS), ", ".join(sorted(reader.seen)[:12]))
            )
        yield from reader.turns.finish()
        self.notes.without = [
            one for one in reader.without.items() if one[0] not in reader.used.traces
        ]

    def samples_and_bad_rows(self) -> Iterator[Sample | RowError]:
        """The samples, then an error for each trace, line and span that cannot be read.

        Nobody knows what those hold, so an evaluation counts them as bad rows.
        """
        yield from self
        unknown_traces = {
            trace: code
            for trace, code in self.notes.without
            if code in _UNKNOWN_CONTENT
        }
        for error in self.notes.bad:
            # a span that made its whole trace unreadable is counted with the trace
            if (
                not isinstance(error, UnreadableSpan)
                or error.trace not in unknown_traces
            ):
                yield error
        for trace, code in unknown_traces.items():
            yield RowError(f"trace {trace} is {code.replace('_', ' ')}")


def samples_from_spans(
    source: Source,
    *,
    resolve: Resolve | None = None,
    dialect: str | None = None,
    max_trace_mb: int = 256,
) -> SpanSamples:
    """Make samples of recorded traces, as the adapter of the framework would.

    Args:
        source: A path or several, ``-`` for standard input; or spans: values of the
            same forms, or spans of the OpenTelemetry SDK. Files are told by content:
            OTLP JSON, console output, Phoenix (also Parquet), MLflow, Langfuse and
            LangSmith, gzipped or not; spans stand in any order, traces may be
            interleaved.
        resolve: Texts of documents of which only ids were recorded: a mapping, or a
            function that gets the ids that a trace needs and returns one.
        dialect: ``openinference``, ``otel``, ``mlflow``, ``langfuse``, ``langsmith`` or
            ``traceloop``; None tells it by the attributes of each span.
        max_trace_mb: Larger traces are left out and noted, and so are lines that would
            take more memory to read.

    Returns:
        The samples; ``Sample.id`` is the id of the trace. Afterwards ``notes`` say
        which traces gave none, and why.

    Raises:
        InputError: If a file cannot be read, nothing has a known form or mark, or
            ``resolve`` raises; when read.
    """
    return SpanSamples(source, resolve, dialect, max_trace_mb)
