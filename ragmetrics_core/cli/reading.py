"""Rows from files: JSONL, JSON, CSV and Parquet; each row knows the place that it came from."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ragmetrics_core.engine.tables import each_sample
from ragmetrics_core.model.errors import InputError, MissingDependency, RowError
from ragmetrics_core.model.sample import Sample

Located = tuple[str, Any]
"""A place such as ``file.jsonl, line 3``, and a row or the reason why there is none."""

_LISTS = ("data", "samples", "rows", "examples", "records", "results")


def read_samples(path: Path, columns: Mapping[str, Any], limit: int | None = None) -> Iterator[Sample | RowError]:
    """Samples of a file, lazily; a row that is no sample comes as its error, with file and row number.

    Args:
        path: A ``.jsonl``, ``.json``, ``.csv``, ``.tsv`` or ``.parquet`` file.
        columns: Per field of the sample where rows have it; found by itself if not given.
        limit: Read at most so many rows.

    Raises:
        InputError: If the file cannot be read as what its name says.
        MissingDependency: If Parquet support is not installed.
    """
    for number, (place, row) in enumerate(_rows(path)):
        if limit is not None and number >= limit:
            return
        for item in each_sample([row], columns):
            yield RowError(f"{place}: {item}") if isinstance(item, RowError) else item


def _rows(path: Path) -> Iterator[Located]:
    reader = _READERS.get(path.suffix.casefold())
    if reader is None:
        raise InputError(f"{path}: unknown kind of file {path.suffix or 'without suffix'!r}; use {', '.join(_READERS)}")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the files in it")
    try:
        yield from reader(path)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'cannot be read'}") from None


def _jsonl(path: Path) -> Iterator[Located]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield f"{path}, line {number}", _parsed(line)


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return RowError(f"not JSON ({getattr(error, 'msg', 'nested too deeply')})")


def _json(path: Path) -> Iterator[Located]:
    data = _parsed(path.read_text(encoding="utf-8-sig"))
    if isinstance(data, RowError):
        raise InputError(f"{path}: {data}")
    if isinstance(data, Mapping):
        lists = [name for name in _LISTS if isinstance(data.get(name), list)]
        data = data[lists[0]] if lists else [data]
    if not isinstance(data, list):
        raise InputError(f"{path}: needs a list of objects, found {type(data).__name__}")
    for number, row in enumerate(data, start=1):
        yield f"{path}, item {number}", row


def _csv(path: Path) -> Iterator[Located]:
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t" if path.suffix.casefold() == ".tsv" else ",")
        try:
            for number, row in enumerate(reader, start=1):
                if None in row:
                    yield f"{path}, row {number}", RowError("more cells than the header has columns")
                else:
                    yield f"{path}, row {number}", row
        except csv.Error as error:
            raise InputError(f"{path}, line {reader.line_num}: not CSV ({error})") from None


def _parquet(path: Path) -> Iterator[Located]:
    try:
        import pyarrow as pa  # an extra; only for Parquet files
        from pyarrow import parquet
    except ImportError:
        raise MissingDependency('Parquet files need: pip install "ragmetrics-core[parquet]"') from None
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=256):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}, row {number}", row
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: not Parquet ({str(error).splitlines()[0]})") from None


_READERS: dict[str, Callable[[Path], Iterator[Located]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".json": _json,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
}
