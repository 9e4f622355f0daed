"""Rows of CSV and TSV, read strictly, and of Arrow tables.

A quotation mark that is not closed must not swallow the rows behind it. So two things
are held against each record. It has as many cells as the header has columns. Where it
goes on over several lines, these do not look like rows of their own. Each line of a
record that cannot be used is a bad row, so that a gate counts what was swallowed.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ragmetrics_core.data import find_repeated_names, open_text, plain_name
from ragmetrics_core.data.columns import KNOWN_NAMES
from ragmetrics_core.data.errors import InputError, RowError

# A line above the header that is blank, or says such as "# exported in May": it holds
# no sign that may stand between two cells.
_COMMENT = re.compile(r"#[^,;\t|]*|\s*")
_ABOVE_HEADER = re.compile(r"#|\s+\Z")
# A separator in what should be quoted ended the cell.
_TORN_CELL = re.compile(r'\s+"[^"]*(""[^"]*)*')
_SEPARATOR_LINE = re.compile(r"sep=(.)", re.IGNORECASE)
# Some programs write a second one, behind that which names the encoding.
_BYTE_ORDER_MARK = "\ufeff"


class Record(NamedTuple):
    """The cells of one record, and the lines of the file that it was read from."""

    cells: list[str]
    lines: list[str]
    first_line: int

    @property
    def last_line(self) -> int:
        """The number of its last line in the file."""
        return self.first_line + len(self.lines) - 1


def csv_rows(path: Path) -> Iterator[tuple[str, dict[str, str] | RowError]]:
    """Yield the rows of a CSV or TSV file, each with its place, such as "a.csv, row 3".

    A row is a mapping from column to cell, such as ``{"question": "Why?"}``, or the
    error that says why it cannot be used. The header line names the columns. A record
    that cannot be used gives a bad row for each of its lines: an unclosed quotation mark
    joins the rows behind it to one record.

    Raises:
        InputError: If a quotation mark is not closed, two columns have one name, or the
            file cannot be read.
    """
    csv.field_size_limit(2**31 - 1)  # the most that a C long holds everywhere
    with open_text(path, newline="") as file:
        top_lines = [file.readline().lstrip(_BYTE_ORDER_MARK)]
        while _ABOVE_HEADER.match(top_lines[-1]):
            top_lines.append(file.readline())
        # A top line such as "sep=;", which Excel writes above the header, names what
        # stands between two cells.
        separator_line = _SEPARATOR_LINE.fullmatch(top_lines[-1].strip())
        if separator_line is not None:
            separator = separator_line[1]
            records = _records(file, separator, path, len(top_lines) + 1)
        else:
            # A comment may have commas, and a header may begin with "#". Of the lines that
            # may be the header, that counts which has most known columns, else the first.
            headers = [line for line in top_lines if not _COMMENT.fullmatch(line)]
            header_line = max(
                headers or [""],
                key=lambda line: _columns_in(line, _likely_separator(path, line))[0],
            )
            separator = _likely_separator(path, header_line)
            n_above = top_lines.index(header_line)
            lines = chain(top_lines[n_above:], file)
            records = _records(lines, separator, path, n_above + 1)
        header = next(records, None)
        if header is None:
            return
        n_columns = len(_cells_of_line(header.lines[0], separator))
        if _has_swallowed(header, n_columns, separator):
            raise InputError(
                f"{path}, lines {header.first_line} to {header.last_line}: the header"
                " goes on over lines that look like rows; close its quotation mark"
            )
        refuse_repeated_names(path, filter(None, header.cells))

        row_number = 0
        for record in records:
            problem = _problem(record, header.cells, separator)
            if problem is not None:
                for _ in record.lines:
                    row_number += 1
                    yield f"{path}, row {row_number}", RowError(problem)
                continue
            row_number += 1
            # Of joined files each has its header, perhaps with other usual columns.
            names = [record.cells[0].lstrip(_BYTE_ORDER_MARK), *record.cells[1:]]
            others = {*names} - {*header.cells}
            are_usual = all(plain_name(name) in KNOWN_NAMES for name in others)
            is_sure = len(names) > 2 or len(others) < 2
            if len({*names}) == len(names) and are_usual and is_sure:
                header = record._replace(cells=names)
            row = dict(zip(header.cells, record.cells, strict=True))
            yield f"{path}, row {row_number}", row


def _records(
    file: Iterable[str], separator: str, path: Path, line_number: int
) -> Iterator[Record]:
    """Yield the records of a file, each with the lines that it was read from.

    A record is a row of cells. A cell in quotes may hold line breaks, so the record may
    take several lines, such as 2 to 4. Records with nothing but empty cells are passed
    over.

    Raises:
        InputError: If the quoting of a record is broken.
    """
    # ``csv.reader`` takes as many lines as the next record has, and does not say which.
    # So the iterator that hands them out adds each to this list.
    lines_of_record: list[str] = []
    lines = _lines_also_added_to(lines_of_record, file)
    reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        lines_of_record.clear()
        try:
            cells = next(reader, None)
        except csv.Error as error:
            lines_in_words = f"line {line_number}"
            if len(lines_of_record) > 1:
                last_line_number = line_number + len(lines_of_record) - 1
                lines_in_words = f"lines {line_number} to {last_line_number}"
            raise InputError(
                f"{path}, {lines_in_words}: not CSV ({error}): a cell that begins with a"
                " quotation mark must end with one, and marks in it must be doubled;"
                " mend it, or give the rows as JSONL"
            ) from None
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield Record(cells, list(lines_of_record), line_number)
        line_number += len(lines_of_record)


def _lines_also_added_to(notes: list[str], file: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a file without a byte order mark, and add each to the notes."""
    for index, line in enumerate(file):
        plain_line = line.lstrip(_BYTE_ORDER_MARK) if index == 0 else line
        notes.append(plain_line)
        yield plain_line


def _likely_separator(path: Path, header: str) -> str:
    """The separator that makes most known columns of the header, then most columns.

    Of equals the first.
    """
    if path.suffix.casefold() == ".tsv":
        return "\t"
    return max(",;\t|", key=lambda separator: _columns_in(header, separator))


def _columns_in(header: str, separator: str) -> tuple[int, int]:
    """Return how many known columns a separator makes, and how many columns at all."""
    names = next(csv.reader([header], delimiter=separator), [])
    n_known = sum(plain_name(name) in KNOWN_NAMES for name in names)
    return n_known, len(names)


def refuse_repeated_names(path: Path, names: Iterable[str]) -> None:
    """Raise ``InputError`` if columns of a file share a name."""
    repeated_names = find_repeated_names(names)
    if repeated_names:
        raise InputError(
            f"{path}: several columns are named {', '.join(repeated_names)}; rename all"
            " but one"
        )


def _problem(record: Record, columns: Sequence[str], separator: str) -> str | None:
    """Say why a record is no row of the table; None if it is one.

    Under the columns a, b: "1,2,3" has "more cells than the header has columns".
    """
    if any("\0" in line for line in record.lines):
        return (
            "holds a NUL character, which no text has: the file is damaged, or in"
            " another encoding"
        )
    if _has_swallowed(record, len(columns), separator):
        return (
            "a quotation mark that is not closed: a cell goes on from line"
            f" {record.first_line} to line {record.last_line}, over lines that look"
            " like rows; close it, or, if that text is meant, give the rows as JSONL"
        )
    written = separator + "".join(record.lines)
    torn = filter(_TORN_CELL.fullmatch, record.cells)
    if any(separator + cell in written for cell in torn):
        return (
            "a cell with a blank before its quotation mark, which quotes nothing there, as"
            " in 'Who?, \"Anna, in May\"'; take the blank away, or give the rows as JSONL"
        )
    if len(record.cells) > len(columns):
        return "more cells than the header has columns"
    if len(record.cells) < len(columns):
        return "fewer cells than the header has columns"
    return why_nameless(columns, record.cells)


def why_nameless(header: Sequence[Any], cells: Sequence[Any]) -> str | None:
    """Say which filled cell of a row stands under no name; None if none does.

    A header merged over two columns is stored as the name of the first. An index, as
    pandas writes it without a name, stands before the named ones.
    """
    nothing = (None, "")
    for number, (name, cell) in enumerate(zip(header, cells, strict=False), start=1):
        is_behind_named = any(before not in nothing for before in header[:number])
        if name in nothing and cell not in nothing and is_behind_named:
            return (
                f"column {number} has no name, perhaps as the header before it is merged,"
                " or as the first row is a title; name it, or empty it"
            )
    return None


def _cells_of_line(line: str, separator: str) -> list[str]:
    """Return the cells of one line by itself.

    A quotation mark that is not closed in it is a character like others.
    """
    mark = re.escape(separator)
    # in quotes that are closed, or all up to the next separator
    cell = rf'(?:^|{mark})("(?:[^"]++|"")*+"(?={mark}|$)|[^{mark}]*+)'
    return re.findall(cell, line.rstrip("\r\n"))


def _has_swallowed(record: Record, n_columns: int, separator: str) -> bool:
    """Tell whether a record of several lines is rather that many rows.

    That is so where a quotation mark of the first row is not closed. Then the first
    line and at least half of the others look like rows by themselves. In a table of one
    column every line looks like a row, so nothing can be said.
    """
    first_line, *lines_behind = record.lines
    if n_columns == 1 or not lines_behind:
        return False
    if not _looks_like_row(first_line, n_columns, separator):
        return False
    n_like_rows = sum(
        _looks_like_row(line, n_columns, separator) for line in lines_behind
    )
    return 2 * n_like_rows >= len(lines_behind)


def _looks_like_row(line: str, n_columns: int, separator: str) -> bool:
    """Whether a line looks like a row: a cell for each column, and no prose.

    Behind a separator of prose stands a blank, or it stands between two digits, as in
    1,5.
    """
    cells = _cells_of_line(line, separator)
    if len(cells) != n_columns or not cells[0].strip():
        return False
    if any(cell.startswith(" ") for cell in cells[1:]):
        return False
    are_all_between_digits = all(
        before[-1:].isdigit() and behind[:1].isdigit()
        for before, behind in pairwise(cells)
    )
    return not are_all_between_digits


# What pyarrow raises for a text that is no UTF-8, a time beyond all of Python's, and a
# map with one key twice.
_UNREADABLE = (ValueError, OverflowError, KeyError)

Maps = Literal["strict", "lossy"]
"""Whether a map with one key twice is an error, or the key's last value counts."""


def arrow_rows(
    table: Any, *, maps: Maps = "strict"
) -> Iterator[dict[str, Any] | RowError]:
    """Yield the rows of an Arrow table or record batch as mappings.

    A row with a value that Python cannot hold comes as its error. Numbers of single
    precision are the ones that they are written as: 0.1, not 0.10000000149011612.
    """
    for place, column in enumerate(table.columns):
        if str(column.type) == "float":
            as_written = column.cast("string").cast("double")
            table = table.set_column(place, table.column_names[place], as_written)
    try:
        # The whole table is read before the first row is given, so no row comes twice.
        yield from table.to_pylist(maps_as_pydicts=maps)
        return
    except _UNREADABLE:  # somewhere in the table; now row by row
        pass
    for index in range(table.num_rows):
        yield _row_or_error(table.slice(index, 1), maps)


def _row_or_error(table_of_one_row: Any, maps: Maps) -> dict[str, Any] | RowError:
    """Read the only row of a table.

    Where Python cannot hold a value of the row, such as a date in the year 20000, an
    error is returned that names the columns of such values. ``maps`` says whether a map
    that has one key twice is such a value.
    """
    try:
        return dict(table_of_one_row.to_pylist(maps_as_pydicts=maps)[0])
    except _UNREADABLE as error:
        problem = type(error).__name__
    unreadable_columns: list[str] = []
    columns = zip(table_of_one_row.column_names, table_of_one_row.columns, strict=True)
    for name, column in columns:
        try:
            column.to_pylist(maps_as_pydicts=maps)
        except _UNREADABLE:
            unreadable_columns.append(name)
    return RowError(
        f"{', '.join(unreadable_columns)}: a value that Python cannot hold ({problem}): a text"
        " that is no UTF-8, a time out of range, or an object with one key twice; mend"
        " it where the table is made"
    )
