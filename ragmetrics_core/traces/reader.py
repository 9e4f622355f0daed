"""Samples of recorded traces, by the same rules as the adapters'."""

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ragmetrics_core.capturing import InputError, Overrides, RowError, Turns
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.traces.dialects import DIALECTS
from ragmetrics_core.traces.spans import Span, spans_in
from ragmetrics_core.traces.trees import Call, Resolve, Unreadable, calls_of, trees_of

Code = Literal["no_retrieval", "incomplete", "no_content", "framework", "unreadable"]
_FRAMEWORK = re.compile(r"^\w+\.[_a]*(query|retrieve|synthesize|run_agent_step)$|^(Async)?Pipeline\.run|^Agent\.run")
_WRONG = (TypeError, ValueError, LookupError, AttributeError, RecursionError)  # what values of wrong types lead to
_NONE = "{} spans; none bears the mark of a known instrumentation ({}); attributes seen: {}"


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
    """What is to be known of a reading.

    Args:
        without: Each trace that gave no sample, and why: ``no_retrieval``; ``incomplete``: it broke off or waits for a
            person; ``no_content``: it recorded no texts; ``framework``: it is of LlamaIndex or Haystack, whose spans
            are not read yet; ``unreadable``: its spans make no tree.
        bad: Lines that hold no spans.
    """

    without: list[tuple[str, Code]] = field(default_factory=list)
    bad: list[RowError] = field(default_factory=list)


class SpanSamples(Iterable[Sample]):
    """The samples of recorded spans, read anew each time; ``notes`` then say what gave none; see the function below."""

    def __init__(
        self, source: str | Path | Iterable[Any], *, resolve: Resolve | None = None, dialect: str | None = None
    ) -> None:
        if dialect is not None and dialect not in DIALECTS:
            raise InputError(f"no dialect {dialect!r}; there are: {', '.join(DIALECTS)}")
        self._source, self._resolve, self._dialect, self.notes = source, resolve, dialect, Notes()

    def _values(self) -> Iterator[Any]:
        """The JSON values of a file, one or one per line; the items of a list."""
        if not isinstance(self._source, (str, Path)):
            yield from self._source
            return
        try:
            raw = Path(self._source).read_bytes()
        except OSError as error:
            raise InputError(f"{self._source} cannot be read: {error.strerror}") from None
        raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        lines = raw.split(b"\n") if raw.split(b"\n", 1)[0].rstrip()[-1:] in (b"}", b"]") else [raw]
        yield from (line for line in lines if line.strip())

    def _traces(self) -> list[list[Span]]:
        """The spans of each trace, each once, in the order in which the traces ended."""
        traces: dict[str, dict[str, Span]] = {}
        self.notes = Notes()
        for number, value in enumerate(self._values(), start=1):
            try:
                for span in spans_in(json.loads(value) if isinstance(value, bytes) else value):
                    traces.setdefault(span.trace, {})[span.id] = span
            except _WRONG as error:
                self.notes.bad.append(RowError(f"value {number} holds no span: {type(error).__name__}"))
        found = [list(spans.values()) for spans in traces.values()]
        return sorted(found, key=lambda some: (max(one.end for one in some), some[0].trace))

    def __iter__(self) -> Iterator[Sample]:
        used, without, known = _Used(), dict[str, Code](), False
        turns: Turns[Call] = Turns(trees_of, used)
        traces = self._traces()
        for spans in traces:
            try:
                calls = calls_of(spans, self._dialect, self._resolve)
                told = [one.said for call in calls for one in call.walk() if one.said is not None]
                known = known or bool(told)
                content = any(one.input is not None or one.output is not None or one.prompt for one in told)
                retrieves = any(one.kind == "retriever" for one in told)
                without[spans[0].trace] = "incomplete" if retrieves else "no_retrieval" if content else "no_content"
                if any(_FRAMEWORK.match(span.name) for span in spans):
                    without[spans[0].trace] = "framework"
                    continue
                found = [sample for call in calls for sample in turns.add(call)]
            except (Unreadable, *_WRONG) as error:
                if isinstance(error, InputError):
                    raise
                without[spans[0].trace] = "unreadable"
                continue
            yield from found
        if not known:
            seen = sorted({key for spans in traces[:9] for span in spans for key in span.attributes})[:12]
            raise InputError(_NONE.format(sum(map(len, traces)), ", ".join(DIALECTS), ", ".join(seen)))
        yield from turns.finish()
        self.notes.without = [(trace, code) for trace, code in without.items() if trace not in used.traces]


def samples_from_spans(
    source: str | Path | Iterable[Any], *, resolve: Resolve | None = None, dialect: str | None = None
) -> SpanSamples:
    """Make samples of recorded traces, as the adapter of the framework would.

    Args:
        source: A file of OTLP JSON, the console exporter's objects, or what Phoenix, MLflow, Langfuse or LangSmith
            export, one value or one per line, gzipped or not; or a list of such values or of spans of the SDK. Spans
            stand in any order, traces may be interleaved.
        resolve: Texts of documents of which only ids were recorded: a mapping, or a function that gets the ids that a
            trace needs and returns one.
        dialect: ``openinference``, ``otel``, ``mlflow``, ``langfuse``, ``langsmith`` or ``traceloop``; None tells it
            by the attributes of each span.

    Returns:
        The samples; ``Sample.id`` is the id of the trace. Afterwards ``notes`` say which traces gave none, and why.

    Raises:
        InputError: If the file cannot be read, no span bears a known mark, or ``resolve`` raises; when read.
    """
    return SpanSamples(source, resolve=resolve, dialect=dialect)
