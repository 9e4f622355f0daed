"""The same rows give the same samples, whatever format they stand in: above all where something is missing."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from ragmetrics_core import ContextSufficiency, Sample, ScriptedJudge
from ragmetrics_core.data.errors import RowError
from ragmetrics_core.engine.columns_read import ColumnsRead
from ragmetrics_core.engine.row_files import read_samples
from ragmetrics_core.engine.sample_sources import iterate_samples
from ragmetrics_core.metrics.context_sufficiency import SufficientContexts

pa = pytest.importorskip("pyarrow")

FEW_EXAMPLES = settings(max_examples=examples(25), deadline=None)
COLUMNS = ("question", "contexts", "retrieved", "answer", "reference", "facts")
Rows = Sequence[Mapping[str, Any]]
Reader = Callable[[Rows], list[Sample | RowError]]


def in_a_file(name: str, write: Callable[[Path, Rows], object]) -> Reader:
    """A reader of the file that ``write`` makes of rows."""

    def read(rows: Rows) -> list[Sample | RowError]:
        with TemporaryDirectory() as folder:
            path = Path(folder) / name
            write(path, rows)
            return list(read_samples(path, ColumnsRead()))

    return read


def as_lines(rows: Rows) -> str:
    return "\n".join(map(json.dumps, rows))


def write_csv(path: Path, rows: Rows) -> None:
    """Lists as JSON, and None as an empty cell: a table of texts has no other."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {
                    name: json.dumps(cell) if isinstance(cell, list) else cell
                    for name, cell in row.items()
                }
            )


def arrow_table(rows: Rows) -> Any:
    text, texts = pa.string(), pa.list_(pa.string())
    is_of_lists = {"contexts", "retrieved", "facts"}
    schema = pa.schema(
        [(name, texts if name in is_of_lists else text) for name in COLUMNS]
    )
    return pa.Table.from_pylist(list(rows), schema=schema)


def write_parquet(path: Path, rows: Rows) -> None:
    import pyarrow.parquet as pq

    pq.write_table(arrow_table(rows), path)


def with_numpy_arrays(rows: Rows) -> pd.DataFrame:
    """What pandas reads of Parquet: lists are arrays, and what is missing is None."""
    return arrow_table(rows).to_pandas()


READERS: dict[str, Reader] = {
    "rows": lambda rows: list(iterate_samples(rows, {})),
    "rows with every key": lambda rows: list(
        iterate_samples([{name: row.get(name) for name in COLUMNS} for row in rows], {})
    ),
    "JSONL": in_a_file(
        "a.jsonl", lambda path, rows: path.write_text(as_lines(rows), "utf-8")
    ),
    "JSON": in_a_file(
        "a.json", lambda path, rows: path.write_text(json.dumps(list(rows)), "utf-8")
    ),
    "CSV": in_a_file("a.csv", write_csv),
    "Parquet": in_a_file("a.parquet", write_parquet),
    "Arrow": lambda rows: list(iterate_samples(arrow_table(rows), {})),
    "pandas": lambda rows: list(iterate_samples(pd.DataFrame(list(rows)), {})),
    "pandas of Parquet": lambda rows: list(
        iterate_samples(with_numpy_arrays(rows), {})
    ),
}

TEXTS = st.sampled_from(["Anna lit it.", "It was in May [1].", "So no."])
NOTHING_OR_TEXT = st.none() | TEXTS
NOTHING_OR_TEXTS = st.none() | st.lists(TEXTS, max_size=3)


@st.composite
def rows_with_gaps(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows of which each cell may be missing, as None or as no key at all."""
    rows: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 4))):
        row: dict[str, Any] = {"question": f"Who lit lamp {number}?"}
        for name in COLUMNS[1:]:
            is_of_lists = name in ("contexts", "retrieved", "facts")
            cell = draw(NOTHING_OR_TEXTS if is_of_lists else NOTHING_OR_TEXT)
            if cell is not None or draw(st.booleans()):
                row[name] = cell
        rows.append(row)
    return rows


@FEW_EXAMPLES
@given(rows_with_gaps())
def test_rows_give_the_same_samples_in_every_format(rows: list[dict[str, Any]]) -> None:
    known = [
        row.get("contexts") is not None or row.get("retrieved") == [] for row in rows
    ]
    of_format = {name: read(rows) for name, read in READERS.items()}
    for samples in of_format.values():
        assert samples == of_format["rows"]
        read_rows = [one for one in samples if isinstance(one, Sample)]
        assert [one.contexts is not None for one in read_rows] == known


NOT_RECORDED = {
    "no key": {},
    "None": {"contexts": None},
    "NaN": {"contexts": math.nan},
    "NA of pandas": {"contexts": pd.NA},
    "an empty text": {"contexts": ""},
    "a blank text": {"contexts": " \n"},
    "a list of None": {"contexts": [None]},
    "a list of NaN": {"contexts": [math.nan]},
    "an array of NaN": {"contexts": np.array([math.nan])},
    "a list of NaN as a text": {"contexts": "[nan]"},
    "null as a text": {"contexts": "null"},
}
NONE_WERE_SHOWN = {
    "an empty list": {"contexts": []},
    "an empty tuple": {"contexts": ()},
    "an empty array": {"contexts": np.array([])},
    "an empty list as a text": {"contexts": "[]"},
    "an object of empty lists": {"contexts": {"text": [], "id": []}},
}


@pytest.mark.parametrize("name", [*NOT_RECORDED, *NONE_WERE_SHOWN])
def test_only_an_empty_list_says_that_nothing_was_shown(name: str) -> None:
    """A missing cell says nothing: a score of 0 would be about what nobody recorded."""
    cells = {**NOT_RECORDED, **NONE_WERE_SHOWN}[name]
    sample = Sample.from_row({"question": "When?", "answer": "In May.", **cells})
    judge = ScriptedJudge({SufficientContexts: {"sufficient": 1}})
    result = ContextSufficiency(declining=False).score(sample, judge=judge)
    assert sample.contexts == (() if name in NONE_WERE_SHOWN else None)
    assert judge.asked == []
    if name in NONE_WERE_SHOWN:
        assert result.value == 0.0
    else:
        assert (result.status, result.code) == ("undefined", "missing")
        assert "no contexts were recorded" in result.reason
