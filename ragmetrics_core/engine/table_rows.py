"""Reads rows from what holds them: a data frame, an Arrow table, traces, a list."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from ragmetrics_core.data import (
    USUAL_NAMES,
    Sample,
    SettingError,
    find_repeated_names,
    plain_name,
)
from ragmetrics_core.data.csv_and_arrow import arrow_rows
from ragmetrics_core.data.scalars import plain_data

# A single row has a text there, so a list is the column of a table.
_NAMES_OF_TEXTS = {
    plain_name(name) for name in (*USUAL_NAMES["question"], *USUAL_NAMES["answer"])
}


def table_rows(samples: Any) -> Iterator[Any]:
    """Iterate over the rows of a table, list or stream, lazily.

    Tables are recognised by their methods, so that no library of tables is imported.
    Example: a pandas frame of 3 rows yields 3 mappings of column and value; a list
    yields its elements as they are.

    Raises:
        SettingError: If it is one row, or nothing that holds rows.
    """
    if hasattr(samples, "with_format") and hasattr(samples, "column_names"):
        samples = samples.with_format(None)  # Hugging Face: rows as mappings
    if isinstance(samples, Mapping):
        rows = rows_of_columns(samples)
        if rows is not None:
            return iter(rows)
    if hasattr(samples, "samples_and_bad_rows"):  # recorded traces
        return iter(samples.samples_and_bad_rows())
    if hasattr(samples, "itertuples") and hasattr(samples, "columns"):  # pandas
        # Phoenix exports the ids of its spans as the named levels of an index.
        index_names = getattr(getattr(samples, "index", None), "names", ())
        levels = [
            name
            for name in index_names
            if name is not None and name not in samples.columns
        ]
        if levels:
            samples = samples.reset_index(level=levels)
        names = [str(name) for name in samples.columns]
        _refuse_repeated_columns(names, "data frame")
        rows_of_pandas = samples.itertuples(index=False, name=None)
        return (dict(zip(names, values, strict=True)) for values in rows_of_pandas)
    if hasattr(samples, "iter_rows") and hasattr(samples, "columns"):  # Polars
        return iter(samples.iter_rows(named=True))
    # an Arrow table or record batch
    if hasattr(samples, "to_pylist") and hasattr(samples, "column_names"):
        _refuse_repeated_columns(samples.column_names, "Arrow table")
        return arrow_rows(samples)
    if hasattr(samples, "to_pylist"):  # an Arrow array of structs
        return iter(samples.to_pylist())
    # A sample, a mapping or a text can be iterated over too, but holds no rows.
    is_one_row = isinstance(samples, (Sample, Mapping, str, bytes))
    if isinstance(samples, Iterable) and not is_one_row:
        return iter(samples)
    hint = ""
    if isinstance(samples, (str, PurePath)):
        hint = "; read the file first, or use the command: ragmetrics evaluate FILE"
    elif isinstance(samples, Mapping) and all(map(_is_table, samples.values())):
        hint = f"; choose one of its tables: {', '.join(map(str, samples))}"
    raise SettingError(
        "samples must be several: a list of Sample or rows, got one"
        f" {type(samples).__name__}{hint}"
    )


def _is_table(split: Any) -> bool:
    """Whether a part of a data set, such as "train", is a table or a list of rows."""
    if isinstance(split, list):
        return all(isinstance(row, Mapping) for row in split)
    return hasattr(split, "columns") or hasattr(split, "column_names")


def rows_of_columns(table: Mapping[Any, Any]) -> list[dict[Any, Any]] | None:
    """Return the rows of a table that is written by its columns; None for anything else.

    pandas and Hugging Face write ``{"question": ["a", "b"], …}``, ``{"question": {"0":
    "a", "1": "b"}, …}``, ``{"0": {"question": "a"}, …}`` and ``{"columns": ["question"],
    "data": [["a"], ["b"]]}``. A single row, whose question is a text, is none.

    Raises:
        SettingError: If its columns are lists of different lengths.
    """
    columns = {name: plain_data(cells) for name, cells in table.items()}
    names, lines = columns.get("columns"), columns.get("data")
    if isinstance(names, list) and isinstance(lines, list):
        lengths = {len(line) if isinstance(line, list) else -1 for line in lines}
        if lengths <= {len(names)}:
            return [dict(zip(names, line, strict=True)) for line in lines]
        return None
    if columns and all(isinstance(cells, Mapping) for cells in columns.values()):
        if _number_rows(columns):
            return list(columns.values())
        indices = {tuple(cells) for cells in columns.values()}
        if len(indices) > 1 or not _number_rows(*indices):
            return None
        columns = {name: list(cells.values()) for name, cells in columns.items()}
    if not all(isinstance(cells, list) for cells in columns.values()):
        return None
    has_texts = any(
        plain_name(str(name)) in _NAMES_OF_TEXTS
        and any(isinstance(cell, str) for cell in cells)
        for name, cells in columns.items()
    )
    if not has_texts:
        return None
    n_cells = {str(name): len(cells) for name, cells in columns.items()}
    if len(set(n_cells.values())) > 1:
        if any(
            isinstance(cell, Mapping) for cells in columns.values() for cell in cells
        ):
            return None  # a list of rows or of messages is no column
        counts = ", ".join(f"{name} {count}" for name, count in n_cells.items())
        raise SettingError(
            f"it is a table by columns, which differ in their number of cells ({counts}):"
            " give each as many, null for none"
        )
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]


def _number_rows(index: Iterable[Any]) -> bool:
    """Whether the keys of an object number rows: "0", "1" and so on."""
    return all(str(key).isdecimal() for key in index)


def _refuse_repeated_columns(names: Iterable[str], table: str) -> None:
    """Raise ``SettingError`` if columns of a ``table``, e.g. Arrow's, share a name."""
    repeats = find_repeated_names(names)
    if repeats:
        raise SettingError(
            f"several columns of the {table} are named {', '.join(repeats)};"
            " rename all but one"
        )
