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
from functools import lru_cache
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

from ragmetrics_core.data import InputError, RowError, extra, told
from ragmetrics_core.traces.spans import WRONG, Span, UnknownForm, spans_in

_SPOOLED = 64 * 2**20  # what cannot be read twice is kept in memory up to here, then in a temporary file
_LONGEST = 256 * 2**20
_NO_FORM = "{} holds no spans in a known form (OTLP JSON, Phoenix, MLflow, Langfuse, LangSmith); keys seen: {}"

Source = str | Path | Iterable[Any]


class Lines:
    """The lines of files or the items of a list, which can be read again by their number and place."""

    def __init__(self, source: Source) -> None:
        listed = [source] if isinstance(source, (str, Path)) else list(source)
        self.paths = [Path(one) for one in listed if isinstance(one, (str, Path))]
        self.items = [] if self.paths else listed
        self.bad: list[RowError] = []
        self._files: list[BufferedReader] = []
        self.piped = _spooled(sys.stdin.buffer) if Path("-") in self.paths else None
        if self.piped is not None:
            weakref.finalize(self, self.piped.close)
        self.parsed = lru_cache(maxsize=4)(self._parsed)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Open the files for one reading."""
        with ExitStack() as stack:
            self.parsed.cache_clear()
            named = (self.piped if one == Path("-") else stack.enter_context(_opened(one)) for one in self.paths)
            self._files = [one for one in named if one is not None]
            yield

    def places(self) -> Iterator[tuple[int, int, int]]:
        """Number of the file, offset and length of each line; of a list the number of the item."""
        yield from ((0, number, 0) for number in range(len(self.items)))
        for number, file in enumerate(self._files):
            file.seek(0)
            first, second = file.readline(_LONGEST).strip(), file.readline(_LONGEST)
            file.seek(0)
            # A value over several lines ends with its bracket if it is indented, else with the file.
            last = (b"}" if first[:1] == b"{" else b"]") if second[:1].isspace() else b"\n\n"
            last, length = last if first[-1:] in (b"{", b"[", b",") else b"", 0
            while (line := file.readline(_LONGEST)) or length:
                length += len(line) if length or line.strip() else 0
                if length and (not line or line.startswith(last) or length >= _LONGEST):
                    yield number, file.tell() - length, length
                    length = 0

    def _parsed(self, file: int, offset: int, length: int) -> list[Span]:
        """The spans of one line."""
        if self.items:
            return list(spans_in(self.items[offset]))
        self._files[file].seek(offset)
        return list(spans_in(json.loads(self._files[file].read(length))))


def traces_of(lines: Lines, largest: int) -> Iterator[tuple[str, list[Span] | None]]:
    """Each trace with its spans, None where they are larger than ``largest`` bytes; in the order in which they ended.

    Raises:
        InputError: If nothing has a known form.
    """
    with closing(sqlite3.connect("")) as index, lines.opened():  # a temporary file, once it is larger than its cache
        index.execute("CREATE TABLE lines (trace TEXT, ended INT, size INT, file INT, at INT, length INT)")
        lines.bad.clear()
        seen = ""
        for number, place in enumerate(lines.places(), start=1):
            try:
                spans = lines.parsed(*place)
            except (UnknownForm, *WRONG) as error:
                seen = seen or (str(error) if isinstance(error, UnknownForm) else "")
                lines.bad.append(RowError(f"line {number} holds no span: {type(error).__name__}"))
                continue
            lines.bad += [RowError(f"line {number} holds a span that cannot be read") for one in spans if not one.id]
            share = place[2] // max(1, len(spans))
            rows = [(one.trace, one.end, share, *place) for one in spans if one.trace]
            index.executemany("INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?)", rows)
        if lines.bad and not index.execute("SELECT 1 FROM lines LIMIT 1").fetchone():
            form = _NO_FORM.format(", ".join(map(str, lines.paths)) or "the list", seen)
            raise InputError(form) if seen else lines.bad[0]
        index.execute("CREATE INDEX by_trace ON lines (trace)")
        order = "SELECT trace, max(ended), sum(size) FROM lines GROUP BY trace ORDER BY 2, 1"
        for trace, _, size in index.execute(order):
            where = "SELECT DISTINCT file, at, length FROM lines WHERE trace = ? ORDER BY file, at"
            yield trace, None if size > largest else _together(trace, lines, index.execute(where, (trace,)).fetchall())


def _together(trace: str, lines: Lines, places: list[tuple[int, int, int]]) -> list[Span]:
    """The spans of a trace, each once, with what events tell of them."""
    found: dict[str, Span] = {}
    for span in (span for place in places for span in lines.parsed(*place) if span.trace == trace):
        known = found.get(span.id, span)
        first, more = (known, span) if known.name else (span, known)
        found[span.id] = replace(first, attributes={**more.attributes, **first.attributes})
        both = [(first.attributes[key], more.attributes[key]) for key in first.attributes.keys() & more.attributes]
        if any(None not in pair and str(pair[0]) != str(pair[1]) for pair in both):  # two spans of one id
            found[""] = Span(trace, "", name="unreadable")
    return [span for span in found.values() if span.name]


def _opened(path: Path) -> BufferedReader:
    """A file whose lines are JSON and that can be read twice."""
    with told(f"{path} cannot be read"):
        source = path.open("rb")
        start = source.peek(4)[:4] if source.seekable() else b""
    if start == b"PAR1":
        source.close()
        batches = extra("pyarrow.parquet", "parquet", f"reading {path}").ParquetFile(path).iter_batches(batch_size=1000)
        rows = (row for batch in batches for row in batch.to_pylist())
        return _spooled(json.dumps(row, default=str).encode() + b"\n" for row in rows)
    if start[:2] == b"\x1f\x8b":
        with source, gzip.open(source) as packed:
            return _spooled(_unpacked(packed))
    return source if source.seekable() else _spooled(source)


def _unpacked(packed: gzip.GzipFile) -> Iterator[bytes]:
    """What a file holds; where it was cut off or is damaged, a line that is no JSON."""
    try:
        yield from iter(lambda: packed.read1(2**20), b"")
    except (EOFError, OSError, zlib.error):
        yield b"\0"


def _spooled(parts: Iterable[bytes]) -> BufferedReader:
    file = tempfile.SpooledTemporaryFile(max_size=_SPOOLED)  # noqa: SIM115  # lives as long as the samples are read
    file.writelines(parts)
    return cast("BufferedReader", file)
