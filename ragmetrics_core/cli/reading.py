"""Rows from files: JSONL, JSON, CSV and Parquet; each row knows the place that it came from."""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ragmetrics_core.data.errors import InputError, MissingDependency, RowError
from ragmetrics_core.data.rows import sample_from_row
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.datasets.facts import MAGIC, read_facts
from ragmetrics_core.engine.tables import each_sample

Located = tuple[str, Any]
"""A place such as ``file.jsonl, line 3``, and a row or the reason why there is none."""

_LISTS = ("data", "samples", "rows", "examples", "records", "results", "testCases", "test_cases")


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
    for number, (place, row) in enumerate(read_rows(path)):
        if limit is not None and number >= limit:
            return
        for item in each_sample([row], columns):
            yield RowError(f"{place}: {item}") if isinstance(item, RowError) else item


def check_readable(path: Path) -> None:
    """Refuse what is no file of a known kind, before anything is judged.

    Raises:
        InputError: If there is no such file, it is a folder, or its name has an unknown suffix.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the files in it")
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if path.suffix.casefold() not in _READERS:
        kind = f"unknown kind of file {path.suffix!r}" if path.suffix else "its name has no suffix that tells its kind"
        raise InputError(f"{path}: {kind}; use {', '.join(_READERS)}")


def read_rows(path: Path) -> Iterator[Located]:
    """Rows of a file as they are, each with its place.

    Raises:
        InputError: If the file cannot be read as what its name says.
    """
    check_readable(path)
    try:
        yield from _READERS[path.suffix.casefold()](path)
    except UnicodeDecodeError:
        raise InputError(f"{path}, line {_undecodable(path)}: not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'cannot be read'}") from None


def _undecodable(path: Path) -> int:
    """Number of the first line that is not UTF-8."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 1


def _jsonl(path: Path) -> Iterator[Located]:
    report = False
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            row = _parsed(line)
            if isinstance(row, Mapping) and "ragmetrics_report" in row:
                report = True
            elif isinstance(row, Mapping) and MAGIC in row:
                read_facts(path)  # refuses frozen facts that were changed
            elif not report:
                yield f"{path}, line {number}", row
            elif isinstance(row, Mapping) and "sample" in row:  # results of an earlier run, judged once more
                bad = RowError("was no sample in the run that wrote this file")
                yield f"{path}, line {number}", row["sample"] or bad


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
        data = data[lists[0]] if lists and not _is_sample(data) else [data]
    if not isinstance(data, list):
        raise InputError(f"{path}: needs a list of objects, found {type(data).__name__}")
    for number, row in enumerate(data, start=1):
        yield f"{path}, item {number}", row


def _is_sample(data: Mapping[str, Any]) -> bool:
    """Whether an object is one sample rather than the frame around a list of them."""
    try:
        sample = sample_from_row(data, {})
    except RowError:
        return False
    return sample.question is not None and sample.answer is not None


def _csv(path: Path) -> Iterator[Located]:
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t" if path.suffix.casefold() == ".tsv" else ",")
        try:
            doubled = [name for name, count in Counter(reader.fieldnames or ()).items() if name and count > 1]
            if doubled:
                raise InputError(f"{path}: several columns are named {', '.join(doubled)}; rename all but one")
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
