"""Samples of recorded traces, by the same rules as the adapters'.

A **mark** is an attribute by which a span of a known instrumentation is recognised.
"""

import gzip
import json
import re
import sys
import tempfile
import weakref
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

from ragmetrics_core.capture.plain_values import Overrides
from ragmetrics_core.capture.tree import Tree
from ragmetrics_core.capture.turns import Turns
from ragmetrics_core.data import (
    InputError,
    RowError,
    Sample,
    as_input_error,
    import_extra,
    json_value,
)
from ragmetrics_core.traces.dialects import DIALECTS, dialects_of
from ragmetrics_core.traces.notes import SPANS_ARE_MISSING, Code, Notes
from ragmetrics_core.traces.span_trees import (
    ANSWER_TOOLS,
    Call,
    Resolve,
    calls_of,
    trees_of,
)
from ragmetrics_core.traces.span_values import mapping, plain
from ragmetrics_core.traces.spans import (
    ERRORS_OF_OTHER_FORMS,
    MAX_KEYS,
    MLFLOW_SIZES,
    Span,
    UnknownForm,
    spans_in,
)
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
_NO_MARK = "no span bears the mark of a known instrumentation ({}); attributes seen: {}"

# The files are read twice: once to learn in which lines the spans of each trace stand,
# and then the lines of one trace after the other. Only these places are held of all
# traces.

# what cannot be read twice is kept in memory up to here, then in a temporary file
_MAX_SPOOLED_IN_MEMORY = 64 * 2**20
_PIECE = 2**20  # bytes of a line that are looked through at once
_LONG = 4 * 2**20  # of a longer line the memory that it would take is estimated first
_OBJECT = 64  # bytes of an object of Python, with its entry in a list or mapping
_MAX_RECENT_LINES = 4
# Bytes that a packed file may always hold; a larger one may hold so many times its
# size. Traces in gzip hold 10 to 50 times.
_UNPACKED_ALWAYS_ALLOWED = _MAX_SPOOLED_IN_MEMORY
_MAX_UNPACKED_RATIO = 100
_ROWS_AT_ONCE = 16  # of a Parquet file, whose cells may unpack to any size
_NO_FORM = (
    "{} holds no spans in a known form (OTLP JSON, Phoenix, MLflow, Langfuse,"
    " LangSmith); keys seen: {}"
)
SpanSource = str | Path | Iterable[Any]


class LinePlace(NamedTuple):
    """Where one line stands, or one value if the source is a list of values.

    Attributes:
        file_number: Which of the files holds the line; 0 for a list of values.
        offset: Where the line begins in its file, in bytes; the index of a value.
        length: How many bytes the line has; 0 for a value.
    """

    file_number: int
    offset: int
    length: int


class Lines:
    """The lines of files or the values of a list, which can be read again by place.

    Args:
        source: A path or several, ``-`` for standard input; else values that hold
            spans. It is never both.
        max_bytes: Bytes of memory that one line, or all spans of one trace, may take.

    Attributes:
        paths: The files, opened when they are read; empty if the source is values.
        values: The values; empty if the source is files.
        unreadable: Why lines and spans were not read.
        piped: A copy of standard input, which can be read once only.
    """

    def __init__(self, source: SpanSource, max_bytes: int = 256 * 2**20) -> None:
        """Tell paths from values, and copy standard input, which "-" stands for.

        Args:
            source: One path, such as "spans.jsonl", several paths, or values such as
                ``[{"spanId": …}, …]``. Where any path is given, all must be paths.
            max_bytes: Bytes of memory that one line, or all spans of one trace, may
                take; what is larger is left out.
        """
        self.max_bytes = max_bytes
        sources = [source] if isinstance(source, (str, Path)) else list(source)
        self.paths = [Path(path) for path in sources if isinstance(path, (str, Path))]
        self.values = [] if self.paths else sources
        self.unreadable: list[RowError] = []
        self.piped: BufferedReader | None = None
        if Path("-") in self.paths:
            self.piped = _spool(sys.stdin.buffer)
            weakref.finalize(self, self.piped.close)
        self._files: list[BufferedReader] = []  # while they are open
        # a cache, because several traces may stand in one line
        self._spans_of_recent_lines: dict[LinePlace, list[Span]] = {}

    @contextmanager
    def open_files(self) -> Iterator[None]:
        """Open the files for one reading."""
        with ExitStack() as stack:
            self._files = [
                self.piped
                if self.piped and path == Path("-")
                else stack.enter_context(_open(path))
                for path in self.paths
            ]
            try:
                yield
            finally:
                self._spans_of_recent_lines.clear()

    def places(self) -> Iterator[LinePlace]:
        """Yield the place of each line, or of each value of a list."""
        for number in range(len(self.values)):
            yield LinePlace(0, number, 0)
        for number, file in enumerate(self._files):
            for offset, length in _values(file):
                yield LinePlace(number, offset, length)

    def parse(self, place: LinePlace) -> list[Span]:
        """Parse the spans of one line.

        Those of the latest lines are remembered, unless the lines are long.

        Raises:
            TooLarge: If the line would take more memory than ``max_bytes``. Lines up to
                ``_LONG`` bytes are always read.
        """
        if place in self._spans_of_recent_lines:
            return self._spans_of_recent_lines[place]
        is_long = place.length > _LONG
        if is_long or len(self._spans_of_recent_lines) >= _MAX_RECENT_LINES:
            self._spans_of_recent_lines.clear()
        if self.values:
            spans = list(spans_in(self.values[place.offset]))
        else:
            most = max(self.max_bytes, _LONG)
            if place.length > most:
                raise TooLarge(place.length, most)
            file = self._files[place.file_number]
            file.seek(place.offset)
            text = file.read(place.length)
            if is_long:
                # each value and each field is an object
                n_objects = text.count(b"{") + text.count(b"[") + text.count(b",")
                needed = len(text) + _OBJECT * n_objects
                if needed > most:
                    raise TooLarge(needed, most)
            spans = list(spans_in(json_value(text)))
        self._spans_of_recent_lines[place] = spans
        return spans


class UnreadableSpan(RowError):
    """A span that cannot be read, in a line with others.

    Attributes:
        trace: The id of its trace; "" if it names none.
    """

    def __init__(self, line: int, trace: str) -> None:
        super().__init__(f"line {line} holds a span that cannot be read")
        self.trace = trace


@dataclass
class _PlacesOfTrace:
    """Where the spans of a trace stand.

    Attributes:
        ended: When its latest span ended, in nanoseconds since 1970.
        size: How many bytes its spans take in the files, about.
        lines: The lines that hold them, in their order; the values say nothing.
    """

    ended: int = 0
    size: int = 0
    lines: dict[LinePlace, None] = field(default_factory=dict)


class TooLarge(Exception):
    """A line would take more memory than it may."""

    def __init__(self, needed: int, most: int) -> None:
        super().__init__(
            f"would take {needed / 2**20:,.0f} MB of memory, and"
            f" max_trace_mb={most // 2**20} allows no more: write one trace on a line,"
            " or give samples_from_spans a larger max_trace_mb="
        )


def _values(file: BufferedReader) -> Iterator[tuple[int, int]]:
    """Yield where the JSON values of a file stand: offset and length of each.

    Usually each line is a value. In an indented file a value is several lines, and its
    last line begins with "}". Example: the lines ``{"a": 1}`` and ``{"b": 2}`` yield
    (0, 9) and (9, 9). The caller may read other parts of the file between two values.
    """
    # What the last line of a value begins with: b"}" in an indented file. It is b"" if
    # each line is a value: any line begins with b"", so each line closes one.
    closing_start = _start_of_closing_line(file)
    value_offset = 0  # of the value in the making
    value_length = 0  # of its lines so far; 0 between two values
    offset = 0  # of the line
    while True:
        # a long line is read in pieces, so that it never stands in memory whole
        file.seek(offset)
        piece = beginning = file.readline(_PIECE)
        if not piece:
            break
        length = len(piece)
        is_blank = not piece.strip()
        while piece and not piece.endswith(b"\n"):
            piece = file.readline(_PIECE)
            length += len(piece)
            is_blank = is_blank and not piece.strip()
        if value_length == 0:
            value_offset = offset
        offset += length
        if value_length == 0 and is_blank:
            continue
        value_length += length
        if beginning.startswith(closing_start):
            yield value_offset, value_length
            value_length = 0
    if value_length:  # a value that the file ends with, and no line closes
        yield value_offset, value_length


def _start_of_closing_line(file: BufferedReader) -> bytes:
    """Return the bytes with which the last line of a value begins.

    They are b"", with which any line begins, unless the first line of the file only
    opens a value. Examples: the first line ``{"a": 1}`` is a whole value: b"". The first
    line ``{`` and an indented second line: b"}".
    """
    file.seek(0)
    first_sign = b""  # of the first line
    last_sign = b""
    while piece := file.readline(_PIECE):  # a long line is read in several pieces
        text = piece.strip()
        first_sign = first_sign or text[:1]
        last_sign = text[-1:] or last_sign
        if piece.endswith(b"\n"):
            break
    if last_sign not in (b"{", b"[", b","):
        return b""
    if file.readline(1).isspace():  # an indented value ends with its bracket
        return b"}" if first_sign == b"{" else b"]"
    return b"\n\n"  # no line begins so: the value ends with the file


def traces_of(lines: Lines) -> Iterator[tuple[str, list[Span] | None]]:
    """Yield the id of each trace, and its spans.

    Traces that ended first come first. None stands in place of spans that are larger
    than allowed. Example: ("0af7…", [a query's span, a retriever's span]).

    Args:
        lines: Where the spans stand. Its ``unreadable`` is filled on the way.

    Raises:
        InputError: If nothing has a known form.
    """
    with lines.open_files():
        places_by_trace = _places_by_trace(lines)
        by_end = sorted(
            places_by_trace, key=lambda trace: (places_by_trace[trace].ended, trace)
        )
        for trace in by_end:
            places = places_by_trace[trace]
            if places.size > lines.max_bytes:
                yield trace, None
            else:
                yield trace, _spans_of_trace(trace, lines, places.lines)


def _places_by_trace(lines: Lines) -> dict[str, _PlacesOfTrace]:
    """Read all lines, and return where the spans of each trace stand.

    Example: line 3 holds spans of the traces "a" and "b": it is a place of both. Lines
    without a span are noted in ``lines.unreadable``, which is emptied first.

    Raises:
        InputError: If no line holds a span, and some cannot be read.
    """
    places_by_trace: defaultdict[str, _PlacesOfTrace] = defaultdict(_PlacesOfTrace)
    lines.unreadable.clear()
    keys_of_first_unknown_form = ""
    for number, place in enumerate(lines.places(), start=1):
        try:
            spans = lines.parse(place)
        except TooLarge as error:
            lines.unreadable.append(RowError(f"line {number} {error}"))
            continue
        except (UnknownForm, *ERRORS_OF_OTHER_FORMS) as error:
            # an ``UnknownForm`` names the line's keys; an error at the end shows them
            if isinstance(error, UnknownForm) and not keys_of_first_unknown_form:
                keys_of_first_unknown_form = str(error)
            # the words of our own error, of any other its type
            is_ours = isinstance(error, RowError)
            reason = str(error) if is_ours else type(error).__name__
            lines.unreadable.append(RowError(f"line {number} holds no span: {reason}"))
            continue
        for span in spans:
            # a span that cannot be read counts as well: it makes its trace unreadable
            if span.trace:
                places = places_by_trace[span.trace]
                places.ended = max(places.ended, span.end)
                # each span of a line has an equal share of the line's length
                places.size += place.length // len(spans)
                places.lines[place] = None
            if not span.id:
                lines.unreadable.append(UnreadableSpan(number, span.trace))
    if lines.unreadable and not places_by_trace:
        names = ", ".join(map(str, lines.paths)) or "the list"
        if keys_of_first_unknown_form:
            raise InputError(_NO_FORM.format(names, keys_of_first_unknown_form))
        raise RowError(f"{names}, {lines.unreadable[0]}")
    return places_by_trace


def _spans_of_trace(
    trace: str, lines: Lines, places: Iterable[LinePlace]
) -> list[Span]:
    """Read the spans of a trace, each id once.

    Several records may tell of one span, and are merged into one. Example: the span
    "b7" and a log event with the id "b7" that holds its messages. If two records
    contradict each other, a span without an id is added, by which ``calls_of`` knows
    that the trace cannot be read.

    Args:
        trace: The id of the trace.
        lines: The lines of all files.
        places: Where the lines stand that hold spans of the trace.
    """
    span_by_id: dict[str, Span] = {}
    for span in chain.from_iterable(lines.parse(place) for place in places):
        if span.trace != trace:  # the line holds spans of other traces, too
            continue
        earlier = span_by_id.get(span.id)
        if earlier is None:
            span_by_id[span.id] = span
            continue
        # events of a span tell of it without a name
        named, event = (earlier, span) if earlier.name else (span, earlier)
        attributes = {**event.attributes, **named.attributes}
        span_by_id[span.id] = replace(named, attributes=attributes)
        for name in earlier.attributes.keys() & span.attributes:
            first_value = earlier.attributes[name]
            second_value = span.attributes[name]
            if first_value is None or second_value is None:
                continue
            if str(first_value) != str(second_value):
                span_by_id[""] = Span(trace, "", name="unreadable")
    # events of a span that was not recorded have no name, and are left out
    return [span for span in span_by_id.values() if span.name]


def _open(path: Path) -> BufferedReader:
    """Open a file so that its lines are JSON and can be read twice.

    Parquet and gzip are unpacked into a temporary file first, and a pipe, which cannot
    be read twice, is copied into one. Example: "spans.jsonl" is opened as it is.

    Raises:
        InputError: If the file cannot be read, or unpacks to too much.
    """
    with as_input_error(f"{path} cannot be read"):
        source = path.open("rb")
        start = source.peek(4)[:4] if source.seekable() else b""
    if start == b"PAR1":  # Parquet
        source.close()
        parquet = import_extra("pyarrow.parquet", "parquet", f"reading {path}")
        batches = parquet.ParquetFile(path).iter_batches(_ROWS_AT_ONCE)
        rows = chain.from_iterable(batch.to_pylist() for batch in batches)
        lines = (json.dumps(row, default=str).encode() + b"\n" for row in rows)
        return _spool(_refuse_too_much(path, lines))
    if start.startswith(b"\x1f\x8b"):  # gzip
        with source, gzip.open(source) as packed:
            return _spool(_refuse_too_much(path, _unpacked(packed)))
    if not source.seekable():
        return _spool(source)
    return source


def _unpacked(packed: gzip.GzipFile) -> Iterator[bytes]:
    """Yield what a packed file holds.

    Where it was cut off or is damaged, a line follows that is no JSON.
    """
    try:
        while part := packed.read1(_PIECE):
            yield part
    except (EOFError, OSError, zlib.error):
        yield b"\0"


def _refuse_too_much(path: Path, parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the parts of a packed file; ``InputError`` if no traces hold as much."""
    size_of_file = path.stat().st_size
    most = max(_UNPACKED_ALWAYS_ALLOWED, _MAX_UNPACKED_RATIO * size_of_file)
    size = 0
    for part in parts:
        size += len(part)
        if size > most:
            raise InputError(
                f"{path} unpacks to more than {most // 2**20:,} MB,"
                f" {_MAX_UNPACKED_RATIO} times its size, as no traces do: unpack it"
                " yourself, and give the file that comes of it"
            )
        yield part


def _spool(parts: Iterable[bytes]) -> BufferedReader:
    """Keep what cannot be read twice, in memory or in a temporary file."""
    # lives as long as the samples are read
    file = tempfile.SpooledTemporaryFile(max_size=_MAX_SPOOLED_IN_MEMORY)  # noqa: SIM115
    try:
        file.writelines(parts)
    except BaseException:
        file.close()
        raise
    return cast("BufferedReader", file)


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
        self._turns = Turns[Tree](lambda tree: (tree,), overrides)
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
        is_full = len(self.attributes_without_mark) > MAX_KEYS
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
            seen = ", ".join(sorted(reader.attributes_without_mark)[:MAX_KEYS])
            raise InputError(_NO_MARK.format(known, seen))
        # samples of interrupted runs that no later trace resumed
        yield from reader.finish()
        # the id of each trace that gave none, with the reason, such as "no_retrieval"
        self.notes.without_sample = list(reader.reason_by_trace_without_sample.items())
        # settings of the instrumentations that make them record texts
        self.notes.switches = {
            dialect: names["switch"]
            for dialect, names in DIALECTS.items()
            if dialect in reader.dialects and "switch" in names
        }

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
