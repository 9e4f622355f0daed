"""Rows from files: JSONL, JSON, CSV and Parquet; each row knows the place that it came from."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from ragmetrics_core.data import (
    PARTIAL,
    USUAL_NAMES,
    Sample,
    as_input_error,
    import_extra,
    json_lines,
    json_value,
    open_text,
    plain_name,
    read_text,
    repeated_names,
)
from ragmetrics_core.data.arrow import arrow_rows
from ragmetrics_core.data.errors import CutOffLine, InputError, RowError
from ragmetrics_core.engine.columns_read import ColumnsRead
from ragmetrics_core.engine.sample_sources import refuse_wrong_columns
from ragmetrics_core.labelling.csv_rows import csv_rows
from ragmetrics_core.reporting.jsonl import is_row_of_results

Located = tuple[str, Any]
"""A place such as ``file.jsonl, line 3``, and a row or the reason why there is none."""

_LISTS = (
    "data",
    "samples",
    "rows",
    "examples",
    "records",
    "results",
    "testCases",
    "test_cases",
)
_KNOWN = {
    plain_name(name): field for field, names in USUAL_NAMES.items() for name in names
}
_LINES = (".jsonl", ".ndjson")
_HEADER = re.compile(r'\s*\{\s*"ragmetrics_report"\s*:')
_CLOSING_LINE = re.compile(r'\s*\{\s*"run"\s*:')
# what interrupted runs leave, and what a sink that rotates its file puts aside
_LEFT = re.compile(rf"({re.escape(PARTIAL)})?(\.\d+)?$")


def read_samples(
    path: Path,
    columns: Mapping[str, Any],
    limit: int | None = None,
    unread: dict[str, None] | None = None,
    columns_read: ColumnsRead | None = None,
) -> Iterator[Sample | RowError]:
    """Samples of a file, lazily; a row that is no sample comes as its error, with file and row number.

    Args:
        path: A ``.jsonl``, ``.json``, ``.csv``, ``.tsv`` or ``.parquet`` file.
        columns: Per field of the sample where rows have it; found by itself if not
            given.
        limit: Read at most so many rows.
        unread: Gets the names of columns that no field was made of.
        columns_read: Notes which columns fields were made of.

    Raises:
        InputError: If the file cannot be read as what its name says.
        SettingError: If no row has a column that was named, or two columns of the first
            row may hold one field.
        MissingDependency: If Parquet support is not installed.
    """
    if columns_read is None:
        columns_read = ColumnsRead(columns)
    rows = islice(read_rows(path), limit)
    yield from refuse_wrong_columns(_located(rows, columns_read, unread))


def _located(
    rows: Iterable[tuple[str, Any]],
    columns_read: ColumnsRead,
    unread: dict[str, None] | None,
) -> Iterator[Sample | RowError]:
    """The samples of rows, or their errors with their places.

    ``unread`` gets the names of columns that no field was made of.
    """
    for place, row in rows:
        for sample in columns_read.read_samples(row):
            if isinstance(sample, RowError):
                yield type(sample)(f"{place}: {sample}")
                continue
            if unread is not None and isinstance(row, Mapping):
                for name in map(str, row):
                    if name in sample.metadata:
                        unread[name] = None
            yield sample


def check_readable(path: Path) -> None:
    """Raise ``InputError`` for what is no file, or whose name has no known suffix, before anything is judged."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the files in it")
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if not path.is_file():
        raise InputError(
            f"{path} is a pipe or a device, and files are read twice; save it to a file"
            " first"
        )
    if (suffix := _suffix(path)) not in READERS:
        kind = (
            f"unknown kind of file {suffix!r}"
            if suffix
            else "its name has no suffix that tells its kind"
        )
        raise InputError(f"{path}: {kind}; use {', '.join(READERS)}")


def why_part(path: Path) -> str:
    """Why results in a file are no more than a part of their samples.

    "" if they are all, or the file holds no results.
    """
    if _suffix(path) not in _LINES:
        return ""
    run: Mapping[str, Any] | None = None  # what the latest results say of their run
    is_closed = True
    with as_input_error(f"{path} cannot be read"), open_text(path) as file:
        for line in file:
            if _HEADER.match(line):
                if not is_closed:
                    break
                is_closed = False
            elif not is_closed and _CLOSING_LINE.match(line):
                value = json_value(line)
                is_closed = _is_closing_line(value)
                run = value["run"] if is_closed else None
            if run is not None and _reason_of_part(run):
                return f"{path} is a part: the run that wrote it {_reason_of_part(run)}"
    if is_closed:
        return ""
    return f"{path} is a part: the run that wrote it was killed or still goes on"


def _reason_of_part(run: Mapping[str, Any]) -> str:
    """Why a run did not judge all its samples, by its closing line; "" if it did."""
    if run.get("interrupted") or run.get("stopped"):
        return "ended early"
    if run.get("decisions"):
        return (
            "stopped when its gates were decided, so its rows were chosen by their"
            " scores"
        )
    return ""


def _suffix(path: Path) -> str:
    """The suffix that tells the kind, also of files that were put aside."""
    return Path(_LEFT.sub("", path.name)).suffix.casefold()


def read_rows(path: Path) -> Iterator[Located]:
    """Rows of a file as they are, each with its place; ``InputError`` if it cannot be read as what its name says."""
    check_readable(path)
    with as_input_error(f"{path} cannot be read"):
        yield from READERS[_suffix(path)](path)


def read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows as ``read_rows`` gives them; ``InputError`` if one is no object."""
    for place, row in read_rows(path):
        if not isinstance(row, dict):
            found = (
                row
                if isinstance(row, RowError)
                else f"needs an object, found {type(row).__name__}"
            )
            raise InputError(f"{place}: {found}")
        yield place, row


def _jsonl(path: Path) -> Iterator[Located]:
    with open_text(path) as file:
        if next(filter(None, map(str.strip, file)), "") in ("{", "[", "[{"):
            raise InputError(
                f"{path}: an object over several lines, and .jsonl has one on each"
                f" line; name it .json, or convert it: jq -c . {shlex.quote(str(path))}"
                " > rows.jsonl"
            )
        file.seek(0)
        yield from _rows_of_lines(json_lines(path, file))


def _rows_of_lines(lines: Iterator[Located]) -> Iterator[Located]:
    """The rows of lines: as they are, or the samples of an earlier run's results, which are judged once more.

    Results begin with a header, at the top or behind the closing line of other results.
    From there on each line is a row, a closing line or a bad row, so that no line goes
    missing.
    """
    within_results = False
    header_may_come = True
    for place, value in lines:
        if isinstance(value, Mapping) and "ragmetrics_report" in value:
            within_results = True
            if not header_may_come:
                yield (
                    place,
                    RowError(
                        "the header of a results file among other lines; give each file"
                        " by itself"
                    ),
                )
            header_may_come = False
        elif within_results:
            header_may_come = _is_closing_line(value)
            if not header_may_come:
                yield place, _row_of_results(value)
        else:
            header_may_come = False
            is_row_of_sink = is_row_of_results(value)
            yield place, _row_of_results(value) if is_row_of_sink else value


def _is_closing_line(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and value.keys() == {"run"}
        and isinstance(value["run"], Mapping)
    )


def _row_of_results(value: Any) -> Any:
    """The sample of a line of results, or the ``RowError`` why it has none."""
    if isinstance(value, CutOffLine):
        return RowError("was cut off with its run")
    if isinstance(value, RowError):
        return value
    if not isinstance(value, Mapping) or "sample" not in value:
        return RowError(
            "is no line of a results file, which began above; give other rows in a file"
            " of their own"
        )
    return value["sample"] or RowError("was no sample in the run that wrote this file")


def _json(path: Path) -> Iterator[Located]:
    _, data = next(
        json_lines(path, [read_text(path)]),
        ("", RowError("not JSON: the file is empty")),
    )
    if isinstance(data, RowError):
        raise InputError(f"{path}: {data}")
    if isinstance(data, Mapping) and "ragmetrics_facts" in data:
        # facts are made of rows, so their module stands above
        from ragmetrics_core.labelling.facts import read_facts

        data = list(read_facts(path).rows)  # refuses frozen facts that were changed
    elif isinstance(data, Mapping):
        if columns := [
            name for name, column in data.items() if _is_column(name, column)
        ]:
            raise InputError(
                f"{path} holds columns ({', '.join(columns)}) and not rows; write rows,"
                " e.g. with pandas:"
                f" pandas.DataFrame(json.load(open({str(path)!r}))).to_json('rows.json',"
                " orient='records')"
            )
        data = [data] if _is_sample(data) else _framed_rows(data, path)
    if not isinstance(data, list):
        raise InputError(
            f"{path}: needs a list of objects, found {type(data).__name__}"
        )
    yield from (
        (f"{path}, item {number}", row) for number, row in enumerate(data, start=1)
    )


def _framed_rows(data: Mapping[str, Any], path: Path) -> list[Any]:
    """The list of rows in an object, or the object as the only row; ``InputError`` if several lists may be the rows."""
    lists: dict[str, list[Any]] = {
        name: data[name] for name in _LISTS if isinstance(data.get(name), list)
    }
    filled = [name for name, rows in lists.items() if rows]
    if len(filled) > 1:
        raise InputError(
            f"{path} holds several lists that may be the rows ({', '.join(filled)});"
            " keep one of them"
        )
    if filled:
        return lists[filled[0]]
    return [] if lists else [data]


def _is_column(name: str, value: Any) -> bool:
    """Whether the texts of many rows stand under one name, as a list or by row number."""
    numbered = (
        isinstance(value, Mapping)
        and bool(value)
        and all(str(key).isdecimal() for key in value)
    )
    one = _KNOWN.get(plain_name(name)) in ("question", "answer") and name[-1] != "s"
    return one and (numbered or isinstance(value, list))


def _is_sample(data: Mapping[str, Any]) -> bool:
    """Whether an object is one sample rather than the frame around a list of them."""
    try:
        sample = Sample.from_row(data)
    except RowError:
        return False
    return sample.question is not None and sample.answer is not None


def _parquet(path: Path) -> Iterator[Located]:
    pa, parquet = (
        import_extra(name, "parquet", "Reading Parquet")
        for name in ("pyarrow", "pyarrow.parquet")
    )
    try:
        with parquet.ParquetFile(path) as file:
            if doubled := repeated_names(file.schema_arrow.names):
                raise InputError(
                    f"{path}: several columns are named {', '.join(doubled)}; rename"
                    " all but one"
                )
            rows = (
                row
                for batch in file.iter_batches(batch_size=256)
                for row in arrow_rows(batch)
            )
            for number, row in enumerate(rows, start=1):
                yield f"{path}, row {number}", row
    except pa.ArrowException as error:
        raise InputError(
            f"{path}: not Parquet ({str(error).splitlines()[0]})"
        ) from None


READERS = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".json": _json,
    ".csv": csv_rows,
    ".tsv": csv_rows,
    ".parquet": _parquet,
}
