"""Samples of recorded traces, by the same rules as the adapters'."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from ragmetrics_core.capturing import InputError, Overrides, RowError, Turns
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.traces import haystack
from ragmetrics_core.traces.dialects import DIALECTS
from ragmetrics_core.traces.grouping import WRONG, Lines, Source, traces_of
from ragmetrics_core.traces.trees import Call, Resolve, Unreadable, calls_of, trees_of

Code = Literal["no_retrieval", "incomplete", "no_content", "framework", "too_large", "unreadable"]
_LLAMAINDEX = re.compile(r"\w+\.[_a]*(query|retrieve|synthesize|run_agent_step)$")
_HAYSTACK = re.compile(r"haystack[._]|((Async)?Pipeline|SuperComponent|Agent)\.run")
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
    """Traces that gave no sample, and why, in the words of docs/traces.md; and lines that hold no spans."""

    without: list[tuple[str, Code]] = field(default_factory=list)
    bad: list[RowError] = field(default_factory=list)


class SpanSamples(Iterable[Sample]):
    """The samples of recorded spans, read anew each time; ``notes`` then say what gave none; see the function below."""

    def __init__(
        self, source: Source, *, resolve: Resolve | None = None, dialect: str | None = None, max_trace_mb: int = 256
    ) -> None:
        if dialect is not None and dialect not in DIALECTS:
            raise InputError(f"no dialect {dialect!r}; there are: {', '.join(DIALECTS)}")
        self._lines, self._largest = Lines(source), max_trace_mb * 2**20
        self._resolve, self._dialect, self.notes = resolve, dialect, Notes()

    def __iter__(self) -> Iterator[Sample]:
        used, without, known, seen = _Used(), dict[str, Code](), False, set[str]()
        turns: Turns[Call] = Turns(trees_of, used)
        self.notes = Notes(bad=self._lines.bad)
        for trace, spans in traces_of(self._lines, self._largest):
            if spans is None:
                without[trace] = "too_large"
                continue
            try:
                calls = calls_of(spans, self._dialect, self._resolve)
                marked = [(one.span.name, one.said, one in calls) for call in calls for one in call.walk() if one.said]
                told = [said for _, said, _ in marked]
                known = known or bool(told)
                seen.update(() if known or len(seen) > 12 else (key for span in spans for key in span.attributes))
                content = any(one.input is not None or one.output is not None or one.prompt for one in told)
                retrieves = any(one.kind == "retriever" for one in told)
                without[trace] = "incomplete" if retrieves else "no_retrieval" if content else "no_content"
                is_haystack = any("haystack" in span.scope or _HAYSTACK.match(span.name) for span in spans)
                unread = is_haystack and not any("openinference.span.kind" in span.attributes for span in spans)
                if unread or any(_LLAMAINDEX.match(span.name) for span in spans):
                    without[trace] = "framework"
                    continue
                if is_haystack:
                    haystack.read(marked)
                found = [sample for call in calls for sample in turns.add(call)]
            except (Unreadable, *WRONG) as error:
                if isinstance(error, InputError):
                    raise
                without[trace] = "unreadable"
                continue
            yield from found
        if seen and not known:
            raise InputError(_NONE.format(", ".join(DIALECTS), ", ".join(sorted(seen)[:12])))
        yield from turns.finish()
        self.notes.without = [(trace, code) for trace, code in without.items() if trace not in used.traces]


def samples_from_spans(
    source: Source, *, resolve: Resolve | None = None, dialect: str | None = None, max_trace_mb: int = 256
) -> SpanSamples:
    """Make samples of recorded traces, as the adapter of the framework would.

    Args:
        source: A path or several, ``-`` for standard input; or spans: values of the same forms, or spans of the
            OpenTelemetry SDK. Files are told by content: OTLP JSON, console output, Phoenix (also Parquet), MLflow,
            Langfuse and LangSmith, gzipped or not; spans stand in any order, traces may be interleaved.
        resolve: Texts of documents of which only ids were recorded: a mapping, or a function that gets the ids that a
            trace needs and returns one.
        dialect: ``openinference``, ``otel``, ``mlflow``, ``langfuse``, ``langsmith`` or ``traceloop``; None tells it
            by the attributes of each span.
        max_trace_mb: Larger traces are left out and noted.

    Returns:
        The samples; ``Sample.id`` is the id of the trace. Afterwards ``notes`` say which traces gave none, and why.

    Raises:
        InputError: If a file cannot be read, nothing has a known form or mark, or ``resolve`` raises; when read.
    """
    return SpanSamples(source, resolve=resolve, dialect=dialect, max_trace_mb=max_trace_mb)
