"""Rows of Arrow tables."""

from collections.abc import Iterator
from typing import Any, Literal

from ragmetrics_core.data.errors import RowError

# What pyarrow raises for a text that is no UTF-8, a time beyond all of Python's, and a
# map with one key twice.
_UNREADABLE = (ValueError, OverflowError, KeyError)

Maps = Literal["strict", "lossy"]
"""Whether a map with one key twice is an error, or the key's last value counts."""


def arrow_rows(
    table: Any, *, maps: Maps = "strict"
) -> Iterator[dict[str, Any] | RowError]:
    """Yield the rows of an Arrow table or record batch as mappings.

    A row with a value that Python cannot hold comes as its error.
    """
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
        if not _is_readable(column, maps):
            unreadable_columns.append(name)
    columns_in_words = ", ".join(unreadable_columns)
    return RowError(
        f"{columns_in_words}: a value that Python cannot hold ({problem}): a text"
        " that is no UTF-8, a time out of range, or an object with one key twice; mend"
        " it where the table is made"
    )


def _is_readable(column: Any, maps: Maps) -> bool:
    try:
        column.to_pylist(maps_as_pydicts=maps)
    except _UNREADABLE:
        return False
    return True
