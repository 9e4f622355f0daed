"""Samples of recorded traces, by the same rules as the adapters'.

A **mark** is an attribute by which a span of a known instrumentation is recognised.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

from ragmetrics_core.capture import InputError, Overrides, RowError, Turns
from ragmetrics_core.data import Sample
from ragmetrics_core.traces import haystack, llamaindex
from ragmetrics_core.traces.dialects import DIALECTS, Reading
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
_LLAMAINDEX_METHOD = re.compile(
    r"\w+\.[_a]*(query|retrieve|synthesize|get_response|run_agent_step)$"
)
_HAYSTACK_SPAN = re.compile(
    r"haystack[._]|((Async)?Pipeline|SuperComponent|Agent)\.run"
)
_OPENINFERENCE_MARK = "openinference.span.kind"
_MAX_KEYS = 12  # of attributes, in a message
_SPANS_ARE_MISSING = (
    "spans of the trace are missing: beside its root one stands whose parent is not"
    " there"
)
_NO_MARK = "no span bears the mark of a known instrumentation ({}); attributes seen: {}"


@dataclass(frozen=True)
class _UsedTraces(Overrides):
    """Overrides that find nothing, and note of which traces samples are made.

    Attributes:
        traces: The ids of these traces.
    """

    traces: set[str] = field(default_factory=set)

    def find(self, field: str, run: Any, *places: Any) -> tuple[bool, Any]:  # noqa: ARG002  # overridden
        """Note the traces of a sample in the making."""
        self.traces.update(places)
        return False, None


@dataclass
class Notes:
    """What a reading of spans left out.

    Attributes:
        without: Traces that gave no sample, with the reason in the words of
            docs/traces.md.
        bad: A problem for each line that was not read, and for each span.
    """

    without: list[tuple[str, Code]] = field(default_factory=list)
    bad: list[RowError] = field(default_factory=list)


class TraceReader:
    """Makes samples of traces as they end.

    It remembers of each trace what later ones go on with.

    Args:
        dialect: The only dialect that is read; None for all.
        resolve: Texts of documents of which only ids were recorded.

    Raises:
        InputError: If there is no such dialect.

    Attributes:
        turns: Joins runs of one question or conversation; its ``finish`` gives what
            still waits there.
        used: Which traces samples were made of.
        without: Why a trace gives no sample, of each that was read, whether it gave one
            or not.
        has_marked_spans: Whether any span bore a mark; until then ``keys`` are names of
            attributes.
    """

    def __init__(
        self, dialect: str | None = None, resolve: Resolve | None = None
    ) -> None:
        if dialect is not None and dialect not in DIALECTS:
            raise InputError(
                f"no dialect {dialect!r}; there are: {', '.join(DIALECTS)}"
            )
        self._dialect = dialect
        self._resolve = resolve
        self._evaluator_questions = llamaindex.EvaluatorQuestions()
        self.used = _UsedTraces()
        self.turns: Turns[Call] = Turns(trees_of, self.used)
        self.without: dict[str, Code] = {}
        self.has_marked_spans = False
        self.keys: set[str] = set()

    def read(self, trace: str, spans: Sequence[Span] | None) -> list[Sample]:
        """Read a trace and return the samples that are complete with it.

        Args:
            trace: The id of the trace.
            spans: Its spans; None if they are too large.

        Raises:
            InputError: If ``resolve`` raises.
        """
        if spans is None:
            self.without[trace] = "too_large"
            return []
        try:
            return self._read(trace, spans)
        except InputError:
            raise
        except WRONG:
            self.without[trace] = "unreadable"
            self.used.traces.discard(trace)
            return []

    def _read(self, trace: str, spans: Sequence[Span]) -> list[Sample]:
        """Read a trace and return the samples that are complete with it.

        It is noted in ``without`` why the trace gives no sample; that holds only if
        none is made of it.
        """
        calls = calls_of(spans, self._dialect, self._resolve)
        all_calls = chain.from_iterable(call.walk() for call in calls)
        readings = [call.reading for call in all_calls if call.reading is not None]
        self._note_keys(spans, readings)
        # it holds only if no sample is made of the trace
        self.without[trace] = _why_no_sample(readings)
        if _is_haystack(spans):
            if not any(_holds_sockets(span) for span in spans):
                self.without[trace] = "framework"
                return []
            haystack.read(calls)
        is_llamaindex = _is_llamaindex(spans)
        if is_llamaindex:
            llamaindex.read(calls)
        samples: list[Sample] = []
        for call in calls:
            samples += self.turns.add(call)
        samples += self.turns.part()
        if _lacks_spans(calls, spans):
            samples = [
                _with_warning(sample, _SPANS_ARE_MISSING, grade="incomplete")
                for sample in samples
            ]
        if is_llamaindex:
            samples = self._leave_out_evaluators(samples)
            self._evaluator_questions.remember_tool_arguments(calls)
        return samples

    def _note_keys(self, spans: Sequence[Span], readings: Sequence[Reading]) -> None:
        """Note what attributes there are, for the message that none is a mark."""
        if readings:
            self.has_marked_spans = True
        if self.has_marked_spans or len(self.keys) > _MAX_KEYS:
            return
        for span in spans:
            self.keys.update(span.attributes)

    def _leave_out_evaluators(self, samples: Sequence[Sample]) -> list[Sample]:
        """Leave out samples that an evaluator asked for.

        The others get a warning where the question may be none of a user's.
        """
        users_samples = []
        for sample in samples:
            if self._evaluator_questions.is_not_from_user(sample):
                self.used.traces.discard(str(sample.id))
                self.without[str(sample.id)] = "judge"
            else:
                users_samples.append(sample)
        with_warnings = []
        for sample in users_samples:
            doubt = self._evaluator_questions.doubt(sample)
            with_warnings.append(_with_warning(sample, doubt))
        return with_warnings


def _why_no_sample(readings: Sequence[Reading]) -> Code:
    """Why a trace gives no sample, if it gives none."""
    if any(reading.kind == "retriever" for reading in readings):
        return "incomplete"
    if any(_has_content(reading) for reading in readings):
        return "no_retrieval"
    return "no_content"


def _has_content(reading: Reading) -> bool:
    return (
        reading.input is not None or reading.output is not None or bool(reading.prompt)
    )


def _is_haystack(spans: Sequence[Span]) -> bool:
    return any(_is_of_haystack(span) for span in spans)


def _is_of_haystack(span: Span) -> bool:
    return "haystack" in span.scope or _HAYSTACK_SPAN.match(span.name) is not None


def _holds_sockets(span: Span) -> bool:
    """Whether a span of Haystack says what went into a component and came out."""
    return (
        haystack.is_traced_by_haystack(span) or _OPENINFERENCE_MARK in span.attributes
    )


def _is_llamaindex(spans: Sequence[Span]) -> bool:
    return any(_is_of_llamaindex(span) for span in spans)


def _is_of_llamaindex(span: Span) -> bool:
    message_format = span.attributes.get("mlflow.message.format")
    mark = f"{span.scope} {message_format}".replace("_", "")
    return "llamaindex" in mark or bool(_LLAMAINDEX_METHOD.match(span.name))


def _lacks_spans(calls: Sequence[Call], spans: Sequence[Span]) -> bool:
    """Whether calls stand beside the root whose parents are not there.

    One alone may be a span around all, which was left out.
    """
    ids = {span.id for span in spans}
    parents = {call.span.parent for call in calls if not call.span.remote}
    missing_parents = parents - ids
    return "" in missing_parents and len(missing_parents) > 1


def _with_warning(
    sample: Sample,
    warning: str | None,
    *,
    grade: Literal["incomplete"] | None = None,
) -> Sample:
    """The sample with a further warning in its notes, if there is one."""
    notes = sample.capture
    if notes is None or warning is None:
        return sample
    changes: dict[str, Any] = {"warnings": (*notes.warnings, warning)}
    if grade is not None:
        changes["grade"] = grade
    changed_notes = notes.model_copy(update=changes)
    return sample.model_copy(update={"capture": changed_notes})


class SpanSamples(Iterable[Sample]):
    """The samples of recorded spans, read anew each time.

    Reading to the end fills ``notes``, which say which traces gave no sample; see
    ``samples_from_spans``.
    """

    def __init__(
        self,
        source: Source,
        resolve: Resolve | None,
        dialect: str | None,
        max_trace_mb: int,
    ) -> None:
        self._resolve = resolve
        self._dialect = dialect
        self.notes = Notes()
        self._new_reader()  # an unknown dialect is refused at once
        self.lines = Lines(source, max_trace_mb * 2**20)

    def __iter__(self) -> Iterator[Sample]:
        """Read the traces and yield their samples; ``notes`` are filled at the end.

        Raises:
            InputError: If a file cannot be read, or no span bears a known mark.
        """
        reader = self._new_reader()
        self.notes = Notes(bad=self.lines.bad)
        for trace, spans in traces_of(self.lines):
            yield from reader.read(trace, spans)
        if reader.keys and not reader.has_marked_spans:
            known = ", ".join(DIALECTS)
            seen = ", ".join(sorted(reader.keys)[:_MAX_KEYS])
            raise InputError(_NO_MARK.format(known, seen))
        yield from reader.turns.finish()
        without = []
        for trace, code in reader.without.items():
            if trace not in reader.used.traces:
                without.append((trace, code))
        self.notes.without = without

    def samples_and_bad_rows(self) -> Iterator[Sample | RowError]:
        """Yield the samples, then an error for all that was not read.

        These are lines, spans, and traces that are too large or unreadable. Nobody
        knows what they hold, so an evaluation counts them as bad rows. A trace that was
        read and gave no sample is no error.
        """
        # reading to the end fills the notes
        yield from self
        unknown_traces = {}
        for trace, code in self.notes.without:
            if code in _UNKNOWN_CONTENT:
                unknown_traces[trace] = code
        for error in self.notes.bad:
            # a span that made its whole trace unreadable is counted with the trace
            if isinstance(error, UnreadableSpan) and error.trace in unknown_traces:
                continue
            yield error
        for trace, code in unknown_traces.items():
            in_words = code.replace("_", " ")
            yield RowError(f"trace {trace} is {in_words}")

    def _new_reader(self) -> TraceReader:
        return TraceReader(self._dialect, self._resolve)


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
