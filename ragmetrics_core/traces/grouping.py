"""The spans of files, trace by trace, in bounded memory: where each line of a trace stands is kept on disk."""

import gzip
import json
import sqlite3
import sys
import tempfile
import weakref
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

from ragmetrics_core.data import InputError, RowError, extra, json_value, told
from ragmetrics_core.traces.spans import WRONG, Span, UnknownForm, spans_in
from ragmetrics_core.traces.splitting import elements

# what cannot be read twice is kept in memory up to here, then in a temporary file
_SPOOLED = 64 * 2**20
_PIECE = 2**20  # that a line is looked through by
_LONG = 4 * 2**20  # a line that is not read before it is known what it would take
_OBJECT = 64  # bytes of an object of Python, with its place in the one that holds it
_PLACE = 128  # bytes of what is noted of each element of a long line
_MOST_RECENT = 4
# bytes of a packed file, and how many times its own size
MOST_UNPACKED, _MOST_TIMES = 2**30, 200
_NO_FORM = (
    "{} holds no spans in a known form (OTLP JSON, Phoenix, MLflow, Langfuse,"
    " LangSmith); keys seen: {}"
)

Source = str | Path | Iterable[Any]


class Lines:
    """The lines of files or the items of a list, which can be read again by their number and place."""

    def __init__(self, source: Source, largest: int = 256 * 2**20) -> None:
        self.largest = largest
        listed = [source] if isinstance(source, (str, Path)) else list(source)
        self.paths = [Path(one) for one in listed if isinstance(one, (str, Path))]
        self.items = [] if self.paths else listed
        self.bad: list[RowError] = []
        self._files: list[BufferedReader] = []
        self.piped = _spooled(sys.stdin.buffer) if Path("-") in self.paths else None
        if self.piped is not None:
            weakref.finalize(self, self.piped.close)
        self._recent: dict[tuple[int, int, int], list[Span]] = {}

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Open the files for one reading."""
        with ExitStack() as stack:
            self._recent.clear()
            named = (
                self.piped if one == Path("-") else stack.enter_context(_opened(one))
                for one in self.paths
            )
            self._files = [one for one in named if one is not None]
            try:
                yield
            finally:
                self._recent.clear()

    def places(self) -> Iterator[tuple[int, int, int]]:
        """Number of the file, offset and length of each line.

        Of a list the number of the item.

        Of a long line that holds a list each element is a place of its own.
        """
        yield from ((0, number, 0) for number in range(len(self.items)))
        for number, file in enumerate(self._files):
            for offset, length in _values(file):
                most = self.largest // _PLACE
                parts = (
                    elements(file, offset, length, most=most)
                    if length > _LONG
                    else None
                )
                yield from ((number, *part) for part in parts or [(offset, length)])
                file.seek(offset + length)

    def parsed(self, file: int, offset: int, length: int) -> list[Span]:
        """The spans of one line; of the latest lines they are remembered, unless those are long."""
        place = (file, offset, length)
        if place not in self._recent:
            if length > _LONG or len(self._recent) >= _MOST_RECENT:
                self._recent.clear()
            self._recent[place] = self._parsed(*place)
        return self._recent[place]

    def _parsed(self, file: int, offset: int, length: int) -> list[Span]:
        """The spans of one line.

        Raises:
            TooLarge: If it would take more memory than ``largest`` bytes.
        """
        if self.items:
            return list(spans_in(self.items[offset]))
        most = max(self.largest, _LONG)
        if length > most:
            raise TooLarge(length, most)
        self._files[file].seek(offset)
        text = self._files[file].read(length)
        if length > _LONG and (weight := _weight(text)) > most:
            raise TooLarge(weight, most)
        return list(spans_in(json_value(text)))


class UnreadableSpan(RowError):
    """A span that cannot be read, in a line with others; ``trace`` is "" if it names none."""

    def __init__(self, line: int, trace: str) -> None:
        super().__init__(f"line {line} holds a span that cannot be read")
        self.trace = trace


class TooLarge(Exception):
    """A line would take more memory than it may."""

    def __init__(self, needed: int, most: int) -> None:
        super().__init__(
            f"would take {needed / 2**20:,.0f} MB of memory, and"
            f" max_trace_mb={most // 2**20} allows no more: write one trace on a line,"
            " or give samples_from_spans a larger max_trace_mb="
        )


def _weight(text: bytes) -> int:
    """How many bytes a text of JSON takes once it is read, nearly: each value and each field is an object."""
    return len(text) + _OBJECT * (
        text.count(b"{") + text.count(b"[") + text.count(b",")
    )


def _values(file: BufferedReader) -> Iterator[tuple[int, int]]:
    """Offset and length of each value of a file: a line, or lines up to the one that closes what the first opened."""
    closing, length = _closing(file), 0
    file.seek(0)
    closes = begins_line = True
    while piece := file.readline(_PIECE):
        if begins_line:
            closes = piece.startswith(closing)
        begins_line = piece.endswith(b"\n")
        length += len(piece) if length or piece.strip() else 0
        if length and begins_line and closes:
            offset = file.tell() - length
            yield offset, length
            file.seek(offset + length)
            length = 0
    if length:
        yield file.tell() - length, length


def _closing(file: BufferedReader) -> bytes:
    """How the line begins that ends a value: any line, unless the first line only opens it."""
    file.seek(0)
    first, last = b"", b""
    while piece := file.readline(_PIECE):
        shown = piece.strip()
        first, last = first or shown[:1], shown[-1:] or last
        if piece.endswith(b"\n"):
            break
    if last not in (b"{", b"[", b","):
        return b""
    if file.readline(1).isspace():  # an indented value ends with its bracket
        return b"}" if first == b"{" else b"]"
    return b"\n\n"  # no line begins so: the value ends with the file


def traces_of(lines: Lines) -> Iterator[tuple[str, list[Span] | None]]:
    """Each trace with its spans, None where they are larger than allowed.

    In the order in which they ended.

    Raises:
        InputError: If nothing has a known form.
    """
    # a temporary file, once it is larger than its cache
    with closing(sqlite3.connect("")) as index, lines.opened():
        index.execute(
            "CREATE TABLE lines (trace TEXT, ended INT, size INT, file INT, at INT,"
            " length INT)"
        )
        lines.bad.clear()
        seen = ""
        for number, place in enumerate(lines.places(), start=1):
            try:
                spans = lines.parsed(*place)
            except TooLarge as error:
                lines.bad.append(RowError(f"line {number} {error}"))
                continue
            except (UnknownForm, *WRONG) as error:
                seen = seen or (str(error) if isinstance(error, UnknownForm) else "")
                why = (
                    str(error) if isinstance(error, RowError) else type(error).__name__
                )
                lines.bad.append(RowError(f"line {number} holds no span: {why}"))
                continue
            unreadable = [one for one in spans if not one.id or not _is_text(one.trace)]
            lines.bad += [UnreadableSpan(number, one.trace) for one in unreadable]
            share = place[2] // max(1, len(spans))
            rows = [
                (one.trace, one.end, share, *place)
                for one in spans
                if one.trace and _is_text(one.trace)
            ]
            index.executemany("INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?)", rows)
        if lines.bad and not index.execute("SELECT 1 FROM lines LIMIT 1").fetchone():
            form = _NO_FORM.format(", ".join(map(str, lines.paths)) or "the list", seen)
            raise InputError(form) if seen else lines.bad[0]
        index.execute("CREATE INDEX by_trace ON lines (trace)")
        order = (
            "SELECT trace, max(ended), sum(size) FROM lines GROUP BY trace ORDER BY"
            " 2, 1"
        )
        for trace, _, size in index.execute(order):
            where = (
                "SELECT DISTINCT file, at, length FROM lines WHERE trace = ? ORDER BY"
                " file, at"
            )
            yield (
                trace,
                (
                    None
                    if size > lines.largest
                    else _together(
                        trace, lines, index.execute(where, (trace,)).fetchall()
                    )
                ),
            )


def _is_text(name: str) -> bool:
    """False for a name with half a character, which JSON can hold and no index can."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _together(
    trace: str, lines: Lines, places: list[tuple[int, int, int]]
) -> list[Span]:
    """The spans of a trace, each once, with what events tell of them."""
    found: dict[str, Span] = {}
    for span in (
        span for place in places for span in lines.parsed(*place) if span.trace == trace
    ):
        known = found.get(span.id, span)
        first, more = (known, span) if known.name else (span, known)
        found[span.id] = replace(
            first, attributes={**more.attributes, **first.attributes}
        )
        both = [
            (first.attributes[key], more.attributes[key])
            for key in first.attributes.keys() & more.attributes
        ]
        # two spans of one id
        if any(None not in pair and str(pair[0]) != str(pair[1]) for pair in both):
            found[""] = Span(trace, "", name="unreadable")
    return [span for span in found.values() if span.name]


def _opened(path: Path) -> BufferedReader:
    """A file whose lines are JSON and that can be read twice."""
    with told(f"{path} cannot be read"):
        source = path.open("rb")
        start = source.peek(4)[:4] if source.seekable() else b""
    if start == b"PAR1":
        source.close()
        batches = (
            extra("pyarrow.parquet", "parquet", f"reading {path}")
            .ParquetFile(path)
            .iter_batches(batch_size=1000)
        )
        rows = (row for batch in batches for row in batch.to_pylist())
        return _spooled(json.dumps(row, default=str).encode() + b"\n" for row in rows)
    if start[:2] == b"\x1f\x8b":
        with source, gzip.open(source) as packed:
            return _spooled(_bounded(path, _unpacked(packed)))
    return source if source.seekable() else _spooled(source)


def _unpacked(packed: gzip.GzipFile) -> Iterator[bytes]:
    """What a file holds; where it was cut off or is damaged, a line that is no JSON."""
    try:
        yield from iter(lambda: packed.read1(2**20), b"")
    except (EOFError, OSError, zlib.error):
        yield b"\0"


def _bounded(path: Path, parts: Iterable[bytes]) -> Iterator[bytes]:
    """The parts of a packed file, as long as it does not hold more than any traces would."""
    most = max(MOST_UNPACKED, _MOST_TIMES * path.stat().st_size)
    size = 0
    for part in parts:
        size += len(part)
        if size > most:
            raise InputError(
                f"{path} unpacks to more than {most // 2**20:,} MB, {_MOST_TIMES} times"
                " its size, as no traces do: unpack it yourself, and give the file"
                " that comes of it"
            )
        yield part


def _spooled(parts: Iterable[bytes]) -> BufferedReader:
    file = tempfile.SpooledTemporaryFile(max_size=_SPOOLED)  # noqa: SIM115  # lives as long as the samples are read
    try:
        file.writelines(parts)
    except BaseException:
        file.close()
        raise
    return cast("BufferedReader", file)
