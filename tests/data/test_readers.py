"""The same rows give the same samples, whatever format they stand in: above all where something is missing."""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from ragmetrics_core import ContextSufficiency, Sample, ScriptedJudge
from ragmetrics_core.data.errors import RowError
from ragmetrics_core.engine.row_files import read_samples
from ragmetrics_core.engine.sample_sources import (
    ColumnsRead,
    iterate_samples,
    table_rows,
)
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


def compressed(write: Callable[[Path, Rows], object]) -> Callable[[Path, Rows], None]:
    def write_compressed(path: Path, rows: Rows) -> None:
        write(path, rows)
        path.write_bytes(gzip.compress(path.read_bytes()))

    return write_compressed


def by_columns(rows: Rows) -> dict[str, list[Any]]:
    return {name: [row.get(name) for row in rows] for name in COLUMNS}


def as_pandas_writes(orient: Any) -> Callable[[Path, Rows], object]:
    def write(path: Path, rows: Rows) -> None:
        frame = pd.DataFrame(by_columns(rows), dtype=object)
        path.write_text(frame.to_json(orient=orient), "utf-8")

    return write


def write_workbook(path: Path, rows: Rows) -> None:
    workbook = openpyxl.Workbook()
    workbook.active.append(COLUMNS)
    for row in rows:
        cells = [row.get(name) for name in COLUMNS]
        workbook.active.append(
            [json.dumps(cell) if isinstance(cell, list) else cell for cell in cells]
        )
    workbook.create_sheet("empty")
    workbook.save(path)


class HuggingFace:
    """A data set as ``datasets`` has it: its format says what its rows are."""

    column_names = COLUMNS

    def __init__(self, rows: Rows, kind: str | None = None, **given: Any) -> None:
        self._rows, self._transform = rows, given.pop("transform", None)
        self.format = {
            "type": "custom" if self._transform else kind,
            "format_kwargs": {},
            "columns": given.pop("columns", None) or COLUMNS,
            "output_all_columns": given.pop("output_all_columns", False),
        }

    def with_format(self, kind: str | None, **given: Any) -> HuggingFace:
        return HuggingFace(self._rows, kind, **given)

    def __iter__(self) -> Iterator[Any]:
        shows_all = self.format["output_all_columns"]
        names = COLUMNS if shows_all else self.format["columns"]
        for row in self._rows:
            cells = {name: row.get(name) for name in names}
            if self._transform:
                cells = self._transform(cells)
            in_frames = self.format["type"] == "pandas"
            yield pd.DataFrame([cells]) if in_frames else cells


class HuggingFaceStream(HuggingFace):
    """A stream of ``datasets``: it has a format, but does not tell it."""

    def __init__(self, rows: Rows, kind: str | None = None) -> None:
        super().__init__(rows)
        self._kind = kind
        del self.format

    def with_format(self, kind: str | None) -> HuggingFaceStream:
        return HuggingFaceStream(self._rows, kind)

    def __iter__(self) -> Iterator[Any]:
        return iter(HuggingFace(self._rows, self._kind))


class ClassLabel:
    """A feature of ``datasets`` whose cells are numbers of classes; -1 for no label."""

    def int2str(self, number: int) -> str:
        return ("no", "yes")[number]


def test_classes_of_a_data_set_are_read_by_their_names() -> None:
    rows = HuggingFace([{"question": "Q?", "answer": each} for each in (1, 0, -1)])
    rows.features = {"question": object(), "answer": ClassLabel()}  # type: ignore[attr-defined]
    rows.with_format = lambda *_, **__: rows  # type: ignore[method-assign]
    answers = [row["answer"] for row in table_rows(rows)]
    assert answers == ["yes", "no", -1]


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
    **{
        f"JSON of pandas, {orient}": in_a_file("a.json", as_pandas_writes(orient))
        for orient in ("columns", "index", "split", "records")
    },
    "JSON of lists": in_a_file(
        "a.json", lambda path, rows: path.write_text(json.dumps(by_columns(rows)))
    ),
    "lists": lambda rows: list(iterate_samples(by_columns(rows), {})),
    "Hugging Face": lambda rows: list(iterate_samples(HuggingFace(rows), {})),
    "Hugging Face by pandas": lambda rows: list(
        iterate_samples(HuggingFace(rows, "pandas"), {})
    ),
    "Hugging Face by pandas, all columns": lambda rows: list(
        iterate_samples(
            HuggingFace(rows, "pandas", columns=["question"], output_all_columns=True),
            {},
        )
    ),
    "a stream of Hugging Face": lambda rows: list(
        iterate_samples(HuggingFaceStream(rows, "pandas"), {})
    ),
    "JSONL by gzip": in_a_file(
        "a.jsonl.gz", compressed(lambda path, rows: path.write_text(as_lines(rows)))
    ),
    "CSV by gzip": in_a_file("a.CSV.GZ", compressed(lambda *given: write_csv(*given))),
    "a workbook": in_a_file("a.xlsx", write_workbook),
    "CSV": in_a_file("a.csv", write_csv),
    "Parquet": in_a_file("a.parquet", write_parquet),
    "Arrow": lambda rows: list(iterate_samples(arrow_table(rows), {})),
    "pandas": lambda rows: list(iterate_samples(pd.DataFrame(list(rows)), {})),
    "pandas of Parquet": lambda rows: list(
        iterate_samples(with_numpy_arrays(rows), {})
    ),
}


@pytest.mark.parametrize("kind", [None, "pandas"])
def test_columns_that_a_data_set_hides_are_not_read(kind):
    rows = [{"question": "Who?", "contexts": ["a"], "answer": "Anna.", "facts": ["b"]}]
    shown = HuggingFace(rows, kind, columns=["question", "answer"])
    samples = list(iterate_samples(shown, {}))
    assert samples == [Sample(question="Who?", answer="Anna.")]


def test_the_rows_of_a_data_set_are_those_its_own_function_gives():
    rows = [{"question": "Who?", "answer": "Peter."}]
    changed = HuggingFace(rows, transform=lambda row: {**row, "answer": "Anna."})
    samples = list(iterate_samples(changed, {}))
    assert samples == [Sample(question="Who?", answer="Anna.")]


def test_a_table_by_columns_may_begin_with_a_gap():
    table = {"question": [None, "Who?"], "contexts": [["a"], ["b"]]}
    samples = list(iterate_samples(table, {}))
    assert [getattr(sample, "question", "") for sample in samples] == [None, "Who?"]


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


@pytest.mark.nightly
@FEW_EXAMPLES
@given(rows_with_gaps())
def test_rows_give_the_same_samples_in_every_format(rows):
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
def test_only_an_empty_list_says_that_nothing_was_shown(name):
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
