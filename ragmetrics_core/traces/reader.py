"""Samples of recorded traces, by the same rules as the adapters'.

A **mark** is an attribute by which a span of a known instrumentation is recognised.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain

from ragmetrics_core.capture.plain_values import Overrides
from ragmetrics_core.capture.stages import samples_of
from ragmetrics_core.capture.tree import Tree
from ragmetrics_core.capture.turns import Turns
from ragmetrics_core.data import Sample
from ragmetrics_core.data.errors import InputError, RowError
from ragmetrics_core.traces.dialects import (
    DIALECTS,
    dialects_of,
    switches_of,
)
from ragmetrics_core.traces.grouping import Lines, SpanSource, UnreadableSpan, traces_of
from ragmetrics_core.traces.notes import SPANS_ARE_MISSING, Code, Notes
from ragmetrics_core.traces.span_trees import (
    ANSWER_TOOLS,
    Call,
    Resolve,
    calls_of,
    trees_of,
)
from ragmetrics_core.traces.span_values import mapping, plain
from ragmetrics_core.traces.spans import ERRORS_OF_OTHER_FORMS, MLFLOW_SIZES, Span
from ragmetrics_core.traces.unread import with_unknown_fates

# The traces of these codes may hold answers that nobody judged.
_UNKNOWN_CONTENT: tuple[Code, ...] = ("too_large", "unreadable")
# What the spans of LlamaIndex and of Haystack bear: the scope of an instrumentation, or
# the name of a method or component.
_FRAMEWORK_SPAN = re.compile(
    r"(?i:llama_?index|haystack[._ ])"
    r"|\w\.[_a]*(query|retrieve|synthesize|get_response|run_agent_step)$"
    r"|\b((Async)?Pipeline|SuperComponent|Agent)\.run"
)
_OF_FRAMEWORK = (
    "spans of LlamaIndex and Haystack do not tell which calls were made for a user, and"
    " what reached the model: the adapter's capture() does"
)
_MAX_KEYS = 12  # of attributes, in a message
_NO_MARK = "no span bears the mark of a known instrumentation ({}); attributes seen: {}"


class TraceReader:
    """Makes samples of traces as they end.

    It remembers of each trace what later traces go on with.

    Args:
        dialect: The only dialect that is read; None for all. A **dialect** is a set of
            names of attributes, such as OpenInference's.
        resolve: Gives the texts of documents whose ids alone were recorded; see
            ``samples_from_spans``.
        context_tools: Names of the tools whose text is a context.
        keep_prompts: Whether samples keep the prompts of their answers.

    Raises:
        InputError: If there is no such dialect.
        SettingError: If ``context_tools`` is one text.

    Attributes:
        reason_by_trace_without_sample: Why a trace gives no sample, by its id; of each
            trace that was read and gave none so far.
        notes: What the samples lack, and what may have been searches in traces without
            a sample.
        dialects: The dialects whose marks were seen on spans.
        has_marked_spans: Whether any span bore the mark of a dialect.
        attributes_without_mark: Names of attributes that were seen while no span bore a
            mark.
    """

    def __init__(
        self,
        dialect: str | None,
        resolve: Resolve | None,
        context_tools: Collection[str] | None,
        *,
        keep_prompts: bool = False,
    ) -> None:
        """Check the dialect, and begin without any trace; see the class."""
        if dialect is not None and dialect not in DIALECTS:
            raise InputError(
                f"no dialect {dialect!r}; there are: {', '.join(DIALECTS)}"
            )
        self._dialect = dialect
        self._resolve = resolve
        # Makes the samples: one for each turn (question and answer) of a conversation.
        overrides = Overrides(context_tools=context_tools, keep_prompts=keep_prompts)
        # whether the user says so, by an empty ``context_tools``
        self._is_no_tool_a_search = context_tools is not None and not context_tools
        self._turns = Turns[Tree](lambda tree: (tree,), samples_of, overrides)
        # why a trace gave no sample, such as "no_retrieval"
        self.reason_by_trace_without_sample: dict[str, Code] = {}
        self.notes = Notes()
        self.dialects: set[str] = set()  # the dialects of the spans so far
        # A mark is an attribute that tells a span's dialect. If no span has a mark, the
        # spans are in no known dialect: the error that says so names their attributes.
        self.has_marked_spans = False
        self.attributes_without_mark: set[str] = set()

    def read(self, trace: str, spans: Sequence[Span] | None) -> list[Sample]:
        """Read a trace and return the samples that are complete with it.

        Usually that is one sample. If there is none, ``reason_by_trace_without_sample``
        says why: "too_large", "unreadable", or what ``_read`` found.

        Args:
            trace: The id of the trace.
            spans: Its spans; None if they are too large.

        Raises:
            InputError: If ``resolve`` raises.
        """
        if spans is None:
            self.reason_by_trace_without_sample[trace] = "too_large"
            return []
        try:
            samples = self._read(trace, spans)
        except InputError:
            raise
        except ERRORS_OF_OTHER_FORMS:
            self.reason_by_trace_without_sample[trace] = "unreadable"
            # what was read of it before joins no other trace
            with suppress(*ERRORS_OF_OTHER_FORMS):
                self._turns.finish_trace()
            return []
        if samples:  # a run that went on in this trace has the id of its first trace
            self.reason_by_trace_without_sample.pop(trace, None)
        return self._noted(samples)

    def finish(self) -> list[Sample]:
        """Return the samples of the runs that wait to be resumed, and forget these."""
        return self._noted(self._turns.finish())

    def _noted(self, samples: Iterable[Sample]) -> list[Sample]:
        """Return samples as they are handed on, and note whose they are and what they lack."""
        samples = list(map(with_unknown_fates, samples))
        for sample in samples:
            self.reason_by_trace_without_sample.pop(str(sample.id), None)
            self.notes.count_what_is_missing(sample)
        if self._is_no_tool_a_search:
            self.notes.tools.clear()
        return samples

    def _read(self, trace: str, spans: Sequence[Span]) -> list[Sample]:
        """Read a trace, and return the samples that are finished with it.

        Example: a query that retrieved and called a model gives one sample. A trace
        without a sample leaves the reason in ``reason_by_trace_without_sample``.

        Args:
            trace: The id of the trace.
            spans: Its spans.
        """
        calls = calls_of(spans, self._dialect, self._resolve)
        all_calls = [call for outermost in calls for call in outermost.walk()]
        readings = [call.reading for call in all_calls if call.reading is not None]
        # The dialects that wrote the spans. While no span bore a mark, by which a dialect
        # is recognised, the names of the attributes are noted, for the message on that.
        if readings:
            self.has_marked_spans = True
        is_full = len(self.attributes_without_mark) > _MAX_KEYS
        for span in spans:
            self.dialects.update(dialects_of(span.attributes))
            if not self.has_marked_spans and not is_full:
                self.attributes_without_mark.update(span.attributes)
        # of use only if the trace gives no sample; ``read`` removes it if it gives one
        has_content = any(
            reading.input is not None or reading.output is not None or reading.prompt
            for reading in readings
        )
        reason: Code = "no_retrieval" if has_content else "no_content"
        if any(reading.kind == "retriever" for reading in readings):
            reason = "incomplete"
        self.reason_by_trace_without_sample[trace] = reason

        has_missing_spans = _has_missing_spans(calls, spans)
        is_of_framework = any(
            _FRAMEWORK_SPAN.search(
                f"{span.scope} {span.attributes.get('mlflow.message.format')} {span.name}"
            )
            for span in spans
        )
        samples: list[Sample] = []
        for tree in chain.from_iterable(map(trees_of, calls)):
            # what is in doubt in a trace is so in each of its turns
            if has_missing_spans:
                tree.root.evidence_not_recorded += (SPANS_ARE_MISSING,)
            if is_of_framework:
                tree.root.remarks += (_OF_FRAMEWORK,)
            samples += self._turns.add(tree)
        samples += self._turns.finish_trace()
        if samples or reason != "no_retrieval":
            return samples

        # a tool that returned text may have retrieved: ``context_tools`` may name it
        tools: set[str] = set()
        kinds: set[str] = set()
        for call in all_calls:
            reading = call.reading
            if reading is not None and reading.kind == "tool" and reading.output:
                tools.add(reading.tool or call.span.name)
            if reading is not None and reading.kind == "step" and reading.documents:
                kinds.add(reading.kind_word)
        self.notes.tools.update(tools - ANSWER_TOOLS)
        self.notes.kinds.update(kinds)
        return []


def _has_missing_spans(calls: Sequence[Call], spans: Sequence[Span]) -> bool:
    """Whether a trace shows that spans of it are missing.

    There are two signs: MLflow noted more spans than there are, or a span names a
    parent that is not there. Example: a span names the parent "b7", and no span has
    this id. A parent in another process does not count. A trace without a root may have
    one missing parent: a span of another process, around all of the trace.

    Args:
        calls: The outermost calls of the trace.
        spans: The spans of the trace, at least one.
    """
    sizes = mapping(plain(spans[0].attributes.get(MLFLOW_SIZES)))
    n_spans_of_mlflow = sizes.get("num_spans")
    if isinstance(n_spans_of_mlflow, int) and len(spans) < n_spans_of_mlflow:
        return True
    ids = {span.id for span in spans}
    has_root = False
    missing_parents: set[str] = set()
    for call in calls:
        parent = call.span.parent
        if not parent:
            has_root = True
        elif parent not in ids and not call.span.remote:
            missing_parents.add(parent)
    n_parents_elsewhere = 0 if has_root else 1
    return len(missing_parents) > n_parents_elsewhere


class SpanSamples(Iterable[Sample]):
    """The samples of recorded spans, read anew each time.

    Reading to the end fills ``notes``, which say which traces gave no sample; see
    ``samples_from_spans``.
    """

    def __init__(self, lines: Lines, new_reader: Callable[[], TraceReader]) -> None:
        """Take the lines, and what makes a reader that remembers no trace yet."""
        self.lines = lines
        self.notes = Notes()
        self._new_reader = new_reader

    def __iter__(self) -> Iterator[Sample]:
        """Read the traces anew, yield their samples, and fill ``notes`` at the end.

        Example: a file of two traces, a question with its answer and a health check:
        one sample is yielded, and ``notes`` says why the other trace gave none.

        Raises:
            InputError: If a file cannot be read, or if no span has an attribute by
                which an instrumentation is recognised.
        """
        reader = self._new_reader()
        self.notes = reader.notes
        self.notes.unreadable = self.lines.unreadable
        for trace, spans in traces_of(self.lines):
            yield from reader.read(trace, spans)
        if reader.attributes_without_mark and not reader.has_marked_spans:
            known = ", ".join(DIALECTS)
            seen = ", ".join(sorted(reader.attributes_without_mark)[:_MAX_KEYS])
            raise InputError(_NO_MARK.format(known, seen))
        # samples of interrupted runs that no later trace resumed
        yield from reader.finish()
        # the id of each trace that gave none, with the reason, such as "no_retrieval"
        self.notes.without_sample = list(reader.reason_by_trace_without_sample.items())
        # settings of the instrumentations that make them record texts
        self.notes.switches = switches_of(reader.dialects)

    def samples_and_bad_rows(self) -> Iterator[Sample | RowError]:
        """Yield the samples, then an error for each line, span or trace left unread.

        Example: a file of three lines, and the last line is cut off: the samples of the
        first two, and one error. Nobody knows what the unread line holds, so an
        evaluation counts it as a bad row. A trace that was read and gave no sample is
        no error.
        """
        yield from self
        # ``notes`` are whole now, since all samples were read
        code_by_unread_trace = {
            trace: code
            for trace, code in self.notes.without_sample
            if code in _UNKNOWN_CONTENT
        }
        for error in self.notes.unreadable:
            # a span that made its whole trace unreadable is counted with the trace
            trace_of_span = error.trace if isinstance(error, UnreadableSpan) else None
            if trace_of_span not in code_by_unread_trace:
                yield error
        for trace, code in code_by_unread_trace.items():
            code_in_words = code.replace("_", " ")
            yield RowError(f"trace {trace} is {code_in_words}")


def samples_from_spans(
    source: SpanSource,
    *,
    resolve: Resolve | None = None,
    dialect: str | None = None,
    max_trace_mb: int = 256,
    context_tools: Collection[str] | None = None,
    keep_prompts: bool = False,
) -> SpanSamples:
    """Make samples of recorded traces, as the adapter of the framework would.

    Args:
        source: A path or several, ``-`` for standard input; or spans: values of the
            same forms, or spans of the OpenTelemetry SDK. Files are told by content:
            OTLP JSON, console output, Phoenix (also Parquet), MLflow, Langfuse and
            LangSmith, gzipped or not; spans stand in any order, traces may be
            interleaved.
        resolve: Texts of documents whose ids alone were recorded: a mapping, or a
            function that gets the ids that a trace needs and returns one.
        dialect: ``openinference``, ``otel``, ``mlflow``, ``langfuse``, ``langsmith`` or
            ``traceloop``; None tells it by the attributes of each span.
        max_trace_mb: Larger traces are left out and noted, and so are lines that would
            take more memory to read.
        context_tools: Names of the tools whose text is a context, where they return no
            documents; an empty set if no tool searches. As for an adapter's
            ``capture``.
        keep_prompts: Whether samples keep the prompts of their answers; as for
            ``capture``.

    Returns:
        The samples; ``Sample.id`` is the id of the trace. Afterwards ``notes`` say
        which traces gave none, and why.

    Raises:
        InputError: If a file cannot be read, nothing has a known form or mark, or
            ``resolve`` raises; when read.
        SettingError: If ``context_tools`` is one text instead of a set of names.
    """
    new_reader = partial(
        TraceReader, dialect, resolve, context_tools, keep_prompts=keep_prompts
    )
    new_reader()  # an unknown dialect is refused at once
    return SpanSamples(Lines(source, max_trace_mb * 2**20), new_reader)
