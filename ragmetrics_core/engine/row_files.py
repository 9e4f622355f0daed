"""Rows from files of JSONL, JSON, CSV, Parquet and Excel; each row knows its place."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import ROUND_HALF_UP, Decimal, localcontext
from importlib import import_module
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

from ragmetrics_core.data import (
    PARTIAL,
    Sample,
    as_input_error,
    import_extra,
    json_lines,
    open_text,
    read_text,
)
from ragmetrics_core.data.columns import USUAL_NAMES
from ragmetrics_core.data.csv_and_arrow import (
    arrow_rows,
    csv_rows,
    refuse_repeated_names,
    why_nameless,
)
from ragmetrics_core.data.errors import InputError, MissingDependency, RowError
from ragmetrics_core.data.files import no_json_lines, open_bytes
from ragmetrics_core.data.name_matching import did_you_mean
from ragmetrics_core.data.scalars import FormattedNumber, is_number
from ragmetrics_core.engine.sample_sources import (
    ColumnsRead,
    refuse_wrong_columns,
    rows_of_columns,
)
from ragmetrics_core.reporting.jsonl import is_line_of_results
from ragmetrics_core.reporting.report import Report

Located = tuple[str, Any]
"""A place such as ``file.jsonl, line 3``, and a row or the reason why there is none."""

_NAMES_OF_LISTS = (
    "data",
    "samples",
    "rows",
    "examples",
    "records",
    "results",
    "testCases",
    "test_cases",
)
_NO_VALUE = object()  # of a formula in a workbook
_MERGED_CELLS = re.compile(rb'<(?:\w+:)?mergeCell ref="([A-Z]+(\d+):[A-Z]+(\d+))"')
# the format of a cell that shows 85%, 85.0%, 1,234 or 00042
_NUMBER_FORMAT = re.compile(r"(?:#,##)?(0+(?:\.(0+))?(%?))")
# what interrupted runs leave, what logrotate puts aside, and what gzip compresses
_LEFT = re.compile(rf"({re.escape(PARTIAL)})?(\.\d+)?(\.gz)?$", re.IGNORECASE)


def read_samples(
    path: Path, columns_read: ColumnsRead, limit: int | None = None
) -> Iterator[Sample | RowError]:
    """Yield the samples of a file; a row that is no sample comes as an error.

    The error names file and row. Rows are read when they are asked for.

    Args:
        path: A ``.jsonl``, ``.json``, ``.csv`` or ``.tsv`` file, also with ``.gz``; a
            ``.parquet`` or ``.xlsx`` file.
        columns_read: Makes samples of rows, and notes which columns it read.
        limit: Read at most so many rows.

    Raises:
        InputError: If the file cannot be read as what its name says.
        SettingError: If no row has a column that was named, or two columns of the first
            row may hold one field.
        MissingDependency: If Parquet support is not installed.
    """
    rows = islice(read_rows(path), limit)

    def samples() -> Iterator[Sample | RowError]:
        for place, row in rows:
            sample = columns_read.read_sample(row)
            if isinstance(sample, RowError):  # the error names the place: "line 3"
                error_class = type(sample)
                sample = error_class(f"{place}: {sample}")
            yield sample

    yield from refuse_wrong_columns(samples())


def check_readable(path: Path) -> None:
    """Raise ``InputError`` for what is no file, or has no known suffix."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the files in it")
    if not path.exists():
        near = ""
        with suppress(OSError):  # there may be no such folder, either
            names = [file.name for file in path.parent.iterdir() if file.is_file()]
            near = did_you_mean(path.name, names)
        raise InputError(f"{path}: no such file{near}")
    if not path.is_file():
        raise InputError(
            f"{path} is a pipe or a device, and files are read twice; save it to a file"
            " first"
        )
    suffix = _suffix(path)
    if suffix in READERS:
        return
    problem = "its name has no suffix that tells its kind"
    if suffix:
        problem = f"unknown kind of file {suffix!r}"
    raise InputError(f"{path}: {problem}; use {', '.join(READERS)}")


def reason_of_part(path: Path) -> str:
    """Say why the results in a file are only a part of what their run was to judge.

    "" if the run judged all its samples, or the file holds no results.
    """
    if READERS.get(_suffix(path)) is not _jsonl or not holds_results(path):
        return ""
    reason = Report.from_jsonl(path).run.why_part
    return f"{path} is a part: {reason}" if reason else ""


def holds_results(path: Path) -> bool:
    """Tell whether the first line of a file is the header or a row of results."""
    with open_text(path) as file:
        lines = json_lines(path, file)
        _, first_value = next(lines, ("", None))
    return is_line_of_results(first_value)


def _suffix(path: Path) -> str:
    """Return the suffix that tells the kind, also of files that were put aside."""
    return Path(_LEFT.sub("", path.name)).suffix.casefold()


def read_rows(path: Path) -> Iterator[Located]:
    """Yield the rows of a file as they are, each with its place.

    Raises:
        InputError: If the file cannot be read as what its suffix says.
    """
    check_readable(path)
    with as_input_error(f"{path} cannot be read"):
        yield from READERS[_suffix(path)](path)


def read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows as ``read_rows`` gives them; ``InputError`` if one is no object."""
    for place, row in read_rows(path):
        if isinstance(row, RowError):
            raise InputError(f"{place}: {row}")
        if not isinstance(row, dict):
            raise InputError(f"{place}: needs an object, found {type(row).__name__}")
        yield place, row


def _jsonl(path: Path) -> Iterator[Located]:
    if holds_results(path):  # its samples are judged again
        for result in Report.from_jsonl(path).results:
            row: Any = RowError(f"was no sample: {result.problem}")
            if result.sample is not None:
                row = result.sample.model_dump(mode="json")
            yield f"{path}, row {result.number}", row
        return
    with open_text(path) as file:
        lines = json_lines(path, file)
        first_lines = list(islice(lines, 2))
        if len(first_lines) == 1 and isinstance(first_lines[0][1], list):
            raise no_json_lines(path)
        yield from chain(first_lines, lines)


def _json(path: Path) -> Iterator[Located]:
    """Yield the rows of a ``.json`` file, each with its place.

    It holds a list of rows, an object around such a list, a table by its columns, or one
    sample.
    """
    text = read_text(path)
    nothing = ("", RowError("not JSON: the file is empty"))
    _, rows = next(json_lines(path, [text]), nothing)
    if isinstance(rows, RowError):
        _, first = next(json_lines(path, text.split("\n")[:1]), ("", None))
        if isinstance(first, Mapping):
            raise InputError(f"{path} holds an object on each line; name it .jsonl")
        raise InputError(f"{path}: {rows}")
    if isinstance(rows, Mapping):
        by_columns = rows_of_columns(rows)
        rows = _find_rows(rows, path) if by_columns is None else by_columns
    if not isinstance(rows, list):
        raise InputError(
            f"{path}: needs a list of objects, found {type(rows).__name__}"
        )
    for number, row in enumerate(rows, start=1):
        yield f"{path}, item {number}", row


def _find_rows(data: Mapping[str, Any], path: Path) -> list[Any]:
    """Return the rows that an object of a JSON file holds.

    They stand in a list of objects under a usual name: ``{"samples": [{…}, {…}]}`` holds
    two rows. An object without such a list is itself the only row. If such a list is
    empty, there are no rows. Another list beside it may be of rows if they ask something.

    Raises:
        InputError: If several lists may be the rows.
    """
    lists = {
        name: rows
        for name, rows in data.items()
        if isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows)
    }
    usual = [name for name in lists if name in _NAMES_OF_LISTS]
    if not usual:
        return [data]
    asks = USUAL_NAMES["question"]
    filled = [
        name
        for name, rows in lists.items()
        if any(name in usual or not row.keys().isdisjoint(asks) for row in rows)
    ]
    if len(filled) > 1:
        raise InputError(
            f"{path} holds several lists that may be the rows ({', '.join(filled)}); keep"
            " one of them"
        )
    return next((lists[name] for name in filled if name in usual), [])


def _parquet(path: Path) -> Iterator[Located]:
    """Yield the rows of a Parquet file, each with its place; 256 are in memory at once.

    Raises:
        InputError: If the file is not Parquet, or two columns have one name.
        MissingDependency: If pyarrow is not installed.
    """
    pyarrow = import_extra("pyarrow", "parquet", "Reading Parquet")
    parquet = import_extra("pyarrow.parquet", "parquet", "Reading Parquet")
    row_number = 0
    try:
        with open_bytes(path) as content, parquet.ParquetFile(content) as file:
            refuse_repeated_names(path, file.schema_arrow.names)
            for batch in file.iter_batches(batch_size=256):
                for row in arrow_rows(batch):
                    row_number += 1
                    yield f"{path}, row {row_number}", row
    except pyarrow.ArrowException as error:
        first_line = str(error).splitlines()[0]
        raise InputError(f"{path}: not Parquet ({first_line})") from None


def _workbook(path: Path) -> Iterator[Located]:
    """Yield the rows of the only sheet of a workbook, each with its place.

    A row with a formula whose value the file lacks comes as an error.

    Raises:
        InputError: If it is no workbook, several sheets hold something, cells of several
            rows are merged, or two columns have one name.
        MissingDependency: If openpyxl is not installed.
    """
    with open_bytes(path) as content:
        is_workbook = is_zipfile(content)
    if not is_workbook:
        raise InputError(
            f"{path}: no workbook of Excel's form .xlsx; save it anew, without a password"
        )
    try:
        rows_by_sheet = _rows_by_sheet(path)
    except MissingDependency:
        raise
    except Exception as error:  # noqa: BLE001  # what is damaged fails anywhere
        raise InputError(f"{path}: no workbook ({type(error).__name__})") from None
    if len(rows_by_sheet) > 1:
        raise InputError(
            f"{path}: several sheets hold something ({', '.join(rows_by_sheet)});"
            " save the one that is meant as CSV, or alone"
        )
    with ZipFile(path) as parts:
        sheets = [name for name in parts.namelist() if "worksheets/" in name]
        stored = b"".join(map(parts.read, sheets))
    for merged, first, last in _MERGED_CELLS.findall(stored):
        if first != last:  # the value stands in the first row alone
            raise InputError(
                f"{path}: the cells {merged.decode()} are merged; give each row a value"
                " of its own"
            )
    if b"http://purl.oclc.org/ooxml/" in stored:  # of which openpyxl sees no cells
        raise InputError(
            f"{path}: in the form Strict Open XML; save it as Excel Workbook"
        )
    if not rows_by_sheet:
        return
    ((header, *rows),) = rows_by_sheet.values()
    # some programs write no empty cells at the end of a row
    header += [None] * (max(map(len, rows), default=0) - len(header))
    names = [
        f"column {number}" if value in (None, _NO_VALUE) else str(value)
        for number, value in enumerate(header, start=1)
    ]
    refuse_repeated_names(path, names)
    for values in rows:
        reason = why_nameless(header, values)
        if reason is not None:
            raise InputError(f"{path}: {reason}")
    for row_number, values in enumerate(rows, start=1):
        row = dict(zip_longest(names, values))
        lacking = [name for name, value in row.items() if value is _NO_VALUE]
        problem = RowError(
            f"{', '.join(lacking)}: a formula whose value the file lacks; open it in a"
            " spreadsheet program and save it"
        )
        yield f"{path}, row {row_number}", problem if lacking else row


def _rows_by_sheet(path: Path) -> dict[str, list[list[Any]]]:
    """Return the rows of a workbook that hold something, by the name of their sheet.

    Excel's errors are None. A formula is ``_NO_VALUE`` where only its text was saved,
    as programs write it that cannot compute it.
    """
    try:
        load: Any = import_module("openpyxl").load_workbook
    except ImportError as error:
        raise MissingDependency(
            f"{path}: reading a workbook needs openpyxl: pip install openpyxl"
        ) from error
    rows_by_sheet: dict[str, list[list[Any]]] = {}
    with path.open("rb") as file, path.open("rb") as same_file:
        formulas = load(same_file, read_only=True)
        for sheet in load(file, read_only=True, data_only=True).worksheets:
            for each in (sheet, formulas[sheet.title]):
                each.reset_dimensions()  # a hint, which some programs write too small
            rows_of_formulas = formulas[sheet.title].iter_rows()
            for cells, formula_cells in zip(
                sheet.iter_rows(), rows_of_formulas, strict=True
            ):
                row = [_value_of_cell(cell) for cell in cells]
                for place, (cell, formula) in enumerate(
                    zip(cells, formula_cells, strict=True)
                ):
                    # a value that is an empty text has another type
                    is_number = formula.data_type == "f" and cell.data_type == "n"
                    if is_number and cell.value is None:
                        row[place] = _NO_VALUE
                    elif is_number and cell.value == 0:  # perhaps of a text, "=) Hello"
                        row[place] = FormattedNumber(0)
                if any(value is not None for value in row):
                    rows_by_sheet.setdefault(sheet.title, []).append(row)
    return rows_by_sheet


def _value_of_cell(cell: Any) -> Any:
    """Return the value of a workbook's cell: None for an error, "85%" for a share.

    A share is stored as 0.85, also where somebody typed 85%. A number comes as it is
    shown, but for the signs between its thousands, which differ by country. In a format
    of its own, such as "0.0 kg", it is a ``FormattedNumber``.
    """
    if cell.data_type == "e":
        return None
    if isinstance(cell.value, str):  # "_x000D_" stands for a carriage return
        return import_module("openpyxl.utils.escape").unescape(cell.value)
    if not is_number(cell.value) or cell.number_format in ("General", "@"):
        return cell.value
    number_format = _NUMBER_FORMAT.fullmatch(cell.number_format)
    if number_format is None:
        return FormattedNumber(cell.value)
    shortest, decimals, percent = number_format.groups()
    with localcontext(rounding=ROUND_HALF_UP):
        shown = f"{Decimal(repr(cell.value)):.{len(decimals or '')}{percent or 'f'}}"
    return shown.zfill(len(shortest))


READERS = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".json": _json,
    ".csv": csv_rows,
    ".tsv": csv_rows,
    ".parquet": _parquet,
    ".xlsx": _workbook,
}
