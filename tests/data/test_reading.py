"""Files of rows: what is read, and what is said of files that cannot be read."""

import gzip
import io
import json
import sys
import zipfile
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from ragmetrics_core import Report, Sample, evaluate
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import (
    InputError,
    MissingDependency,
    NotJson,
    RowError,
    SettingError,
)
from ragmetrics_core.engine.row_files import read_samples, reason_of_part
from ragmetrics_core.engine.sample_sources import ColumnsRead, iterate_samples
from ragmetrics_core.labelling.labels import read_labels
from ragmetrics_core.metrics.registry import metrics_with_settings


def read(path: Path, **columns: Any) -> list[Sample | RowError]:
    return list(read_samples(path, ColumnsRead(columns)))


def answers(path: Path) -> list[str | None]:
    return [
        item.answer if isinstance(item, Sample) else str(item) for item in read(path)
    ]


@pytest.fixture
def written(tmp_path: Path) -> Any:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def test_jsonl(written):
    path = written(
        "a.jsonl",
        '\ufeff{"answer": "a"}\r\n\n   \n{"answer": "b\\u2028"}\n{"answer":'
        ' \n[1]\n{"answer": "ä\u2028c"}',
    )
    assert answers(path) == [
        "a",
        "b\u2028",
        f"{path}, line 5: not JSON (Expecting value); write each line as json.dumps does",
        f"{path}, line 6: a row must be an object with named fields, got list;"
        " write it as {name: value}",
        "ä\u2028c",
    ]


def test_joined_files_of_jsonl_have_a_byte_order_mark_each(written):
    path = written("a.jsonl", '\ufeff{"answer": "a"}\n' * 2)
    assert answers(path) == ["a", "a"]


def test_jsonl_nested_too_deeply(written):
    path = written("a.jsonl", "[" * 100_000 + "\n" + '{"answer": "b"}')
    assert answers(path) == [f"{path}, line 1: not JSON (nested too deeply)", "b"]


@pytest.mark.parametrize(
    "content",
    [
        '[{"answer": "a"}, {"answer": "b"}]',
        '\ufeff{"data": [{"answer": "a"}, {"answer": "b"}]}',
        '{"version": 1, "results": [{"answer": "a"}, {"answer": "b"}]}',
        (
            '{"prompt": "template", "testCases": [{"actualOutput": "a"},'
            ' {"actualOutput": "b"}]}'
        ),
    ],
)
def test_json(written, content):
    assert answers(written("a.json", content)) == ["a", "b"]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ({"data": [], "samples": [{"answer": "a"}]}, ["a"]),
        ({"samples": [{"answer": "a"}], "rows": []}, ["a"]),
        ({"data": [], "samples": []}, []),
        ({"data": 3, "samples": [{"answer": "a"}]}, ["a"]),
    ],
)
def test_of_several_lists_the_one_that_is_not_empty_has_the_rows(written, data, found):
    assert answers(written("a.json", json.dumps(data))) == found


def test_json_of_a_single_object(written):
    assert answers(written("a.json", '{"answer": "a"}')) == ["a"]
    row = {"question": "q", "answer": "a", "results": ["one"]}
    (sample,) = read(written("b.json", json.dumps(row)), contexts="results")
    assert isinstance(sample, Sample)
    assert [context.text for context in sample.known_contexts] == ["one"]


def test_json_counts_items(written):
    path = written("a.json", '[{"answer": "a"}, 3]')
    assert (
        answers(path)[1]
        == f"{path}, item 2: a row must be an object with named fields, got int; write it as {{name: value}}"
    )


@pytest.mark.parametrize(
    ("name", "separator"), [("a.csv", ","), ("a.tsv", "\t"), ("A.CSV", ",")]
)
def test_csv(written, name, separator):
    cells = ["question", "contexts", "answer", "ground_truth"]
    rows = [
        separator.join(cells),
        separator.join(
            ['"say ""hi"""', "\"['one', 'two, three']\"", '"two\r\nlines"', ""]
        ),
        separator.join(["q", "one context", "a"]),
        separator.join(["q", "c", "a", "r", "more"]),
    ]
    path = written(name, "\ufeff" + "\n".join(rows))
    first, fewer, more = read(path)
    assert isinstance(first, Sample)
    assert (first.question, first.answer, first.reference) == (
        'say "hi"',
        "two\r\nlines",
        (),
    )
    assert [context.text for context in first.known_contexts] == ["one", "two, three"]
    assert str(fewer) == f"{path}, row 2: fewer cells than the header has columns"
    assert str(more) == f"{path}, row 3: more cells than the header has columns"


def test_csv_with_a_huge_cell(written):
    long = "word " * 200_000
    (sample,) = read(written("a.csv", f"answer\n{long}\n"))
    assert isinstance(sample, Sample)
    assert sample.answer == long


@pytest.mark.parametrize("marks", ["\ufeff", "\ufeff\ufeff", "\ufeff\ufeff\ufeff"])
@pytest.mark.parametrize(
    "content",
    ["id,answer\n7,a\n", '"id","answer"\n"7","a"\n', "sep=,\nid,answer\n7,a\n"],
)
def test_marks_at_the_beginning_belong_to_no_column(written, marks, content):
    (sample,) = read(written("a.csv", marks + content))
    assert isinstance(sample, Sample)
    assert (sample.id, sample.answer) == ("7", "a")


def table(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    parquet.write_table(pa.Table.from_pylist([*rows]), path)
    return path


def test_parquet(tmp_path):
    rows: list[dict[str, Any]] = [
        {
            "query": "q",
            "documents": [{"text": "a", "id": "1", "meta": {"page": 1}}],
            "response": "x",
        },
        {"query": "q", "documents": [], "response": None},
        {"query": None, "documents": None, "response": "z"},
    ]
    first, second, third = read(table(tmp_path / "a.parquet", rows))
    assert isinstance(first, Sample)
    assert (
        first.contexts[0].text,
        first.contexts[0].id,
        first.contexts[0].metadata,
    ) == ("a", "1", {"page": 1})
    assert isinstance(second, Sample)
    assert (second.contexts, second.answer) == ((), None)
    assert isinstance(third, Sample)
    assert third.answer == "z"


def test_numbers_of_tables_are_the_texts_that_they_are_written_as(tmp_path):
    """0.1 of single precision is 0.10000000149011612 of double precision."""
    columns = {
        "answer": pa.array([0.1, None], pa.float32()),
        "reference": pa.array([Decimal("5.10"), None]),
    }
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    batch = pa.RecordBatch.from_pydict(columns)
    frame = pd.read_parquet(tmp_path / "a.parquet")
    for first, second in (
        read(tmp_path / "a.parquet"),
        iterate_samples(batch, {}),
        iterate_samples(frame, {}),
    ):
        assert first == Sample(answer="0.1", reference=("5.10",))
        assert second == Sample()


def test_parquet_counts_rows_over_batches(tmp_path):
    path = table(
        tmp_path / "a.parquet",
        [{"replies": ["a"] if n != 600 else ["a", None]} for n in range(601)],
    )
    *_, last = read(path)
    assert str(last).startswith(f"{path}, row 601: answer: 2 answers in one row")


TWO_ANSWERS = pa.table([["a"], ["b"], ["c"]], names=["answer", "question", "answer"])


def test_parquet_with_two_columns_of_one_name(tmp_path):
    parquet.write_table(TWO_ANSWERS, tmp_path / "a.parquet")
    with pytest.raises(
        InputError,
        match=r"a\.parquet: several columns are named answer; rename all but one",
    ):
        read(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    "second",
    [
        pa.array([b"fine", b"\xff"]).view(pa.string()),
        pa.array([0, 10**14], pa.timestamp("s")),
        pa.array([0, 10**7], pa.date32()),
        pa.array(
            [[("a", "b")], [("a", "b"), ("a", "c")]], pa.map_(pa.string(), pa.string())
        ),
    ],
)
def test_values_that_python_cannot_hold_are_bad_rows(tmp_path, second):
    rows = pa.table({"answer": ["a", "b"], "when": second})
    parquet.write_table(rows, tmp_path / "a.parquet")
    for first, bad in (
        read(tmp_path / "a.parquet"),
        iterate_samples(rows, {}),
        iterate_samples(rows.to_batches()[0], {}),
    ):
        assert isinstance(first, Sample)
        assert first.answer == "a"
        assert isinstance(bad, RowError)
        assert "when: a value that Python cannot hold (" in str(bad)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv"])
def test_not_utf_8(written, name):
    lines = [b"question,answer", *[b'{"answer": "a"}'] * 1000, b"caf\xe9", b"\xff"]
    path = written(name, b"\n".join(lines))
    command = rf"iconv -f WINDOWS-1252 -t UTF-8 .*{name} > .*a\.utf8{path.suffix}"
    with pytest.raises(
        InputError,
        match=rf"{name}, line 1002: not UTF-8; save the file as UTF-8, .*: {command}",
    ):
        read(path)


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.jsonl.gz"])
@pytest.mark.parametrize("end", ["Gr\u00fc".encode()[:-1], b"\xff\nAnna"])
def test_utf_8_in_which_a_letter_is_broken_is_no_other_encoding(written, name, end):
    content = "question,answer\nWhere?,Z\u00fcrich\nWhere?,".encode() + end
    content = gzip.compress(content) if name.endswith(".gz") else content
    with pytest.raises(InputError, match="line 3: a letter of its UTF-8 is cut off"):
        read(written(name, content))


CSV = 'question;"context";answer\nWho?;Änne lit it.;"She; did."\n'
JSONL = '{"question": "Who?", "context": "Änne lit it.", "answer": "She; did."}\n'


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be"]
)
@pytest.mark.parametrize(
    ("name", "content"), [("a.csv", CSV), ("a.jsonl", JSONL), ("a.json", JSONL)]
)
def test_encodings_that_their_first_bytes_name(written, name, content, encoding):
    mark = "\ufeff" if encoding[-3:] in ("-le", "-be") else ""
    (sample,) = read(written(name, (mark + content).encode(encoding)))
    assert isinstance(sample, Sample)
    assert (sample.question, sample.contexts[0].text, sample.answer) == (
        "Who?",
        "Änne lit it.",
        "She; did.",
    )


def test_a_file_of_facts_of_an_earlier_release_is_rows(written):
    """Its rows bring their facts; that they were frozen is no longer checked."""
    file = {
        "ragmetrics_facts": 2,
        "model": "m",
        "extraction": "io",
        "prompts": "",
        "frozen": "1f",
        "rows": [{"question": "Who?", "reference": "Anna.", "facts": ["Anna."]}],
    }
    (sample,) = read(written("facts.json", json.dumps(file)))
    assert isinstance(sample, Sample)
    assert [fact.text for fact in sample.facts or ()] == ["Anna."]


def zipped(name: str, content: str) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(name, content)
    return archive.getvalue()


HEADER = '{"ragmetrics_report": 2, "run": {}}'
ROW = '{"index": 0, "sample": {"answer": "a"}, "results": {}, "problem": ""}'
CLOSING = '{"run": {}}'
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
TWO_LISTS = '{"samples": [{"answer": "a"}], "n": 1, "data": [{"answer": "b"}]}'
LISTED = '[{"question": "a"}, {"question": "b"}]'
REFUSED: list[tuple[str, str | bytes, str]] = [
    ("a.json", TWO_LISTS, r"several lists that may be the rows \(samples, data\)"),
    (
        "a.json",
        '{"results": [{"question": "a"}], "failed": [{"question": "b"}], "tags": [{}]}',
        r"several lists that may be the rows \(results, failed\)",
    ),
    *(
        ("a.json", text, "needs a list of objects, found")
        for text in ("3", '"a"', "null")
    ),
    *(("a.json", text, "a.json: not JSON") for text in ("{", "")),
    (
        "a.csv",
        "answer,answer\na,b\n",
        "several columns are named answer; rename all but",
    ),
    ("a.parquet", "PAR1, but only in name", r"a\.parquet: not Parquet"),
    ("a.parquet", "", r"a\.parquet: not Parquet"),
    *(
        ("a.jsonl.gz", gzip.compress(JSONL.encode())[:-n_lost], "is damaged or cut off")
        for n_lost in (1, 9, 20)
    ),
    *(
        (f"a.{suffix}", POINTER, "by: git lfs pull")
        for suffix in ("csv", "jsonl", "json", "parquet", "xlsx")
    ),
    ("a.csv", zipped("a.csv", CSV), "is no text but a zip archive"),
    (
        "a.csv",
        CSV.encode("utf-16-le"),
        "not UTF-8; .* if .* UTF-16LE: iconv -f UTF-16LE",
    ),
    (
        "a.csv",
        CSV.encode("utf-16-be"),
        "not UTF-8; .* if .* UTF-16BE: iconv -f UTF-16BE",
    ),
    ("a.csv", CSV.encode("latin-1"), "line 2: not UTF-8; .*: iconv -f WINDOWS-1252"),
    ("a.csv", CSV.encode("utf-16")[:-1], "begins like utf-16-.e and does not go on so"),
    # JSON in other shapes
    (
        "a.jsonl",
        json.dumps(json.loads(LISTED), indent=2),
        r"over several lines.*jq -c '\.\[\]' ",
    ),
    (
        "a.jsonl",
        json.dumps({"question": "a", "contexts": ["b"]}, indent=2),
        r"over several lines.*jq -c \. .* name it \.json",
    ),
    ("a.jsonl", LISTED, r"jq -c '\.\[\]' .*name it \.json"),
    # what follows results
    *(
        (
            "a.jsonl",
            "\n".join([HEADER, ROW, CLOSING, *more]),
            "give each file by itself",
        )
        for more in ([HEADER, ROW, CLOSING], [ROW], ['{"answer": "a"}'])
    ),
]


@pytest.mark.parametrize(
    ("name", "content", "said"), REFUSED, ids=[said for *_, said in REFUSED]
)
def test_what_cannot_be_read_as_its_name_says_is_refused(written, name, content, said):
    with pytest.raises(InputError, match=said):
        read(written(name, content))


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (CSV, ("Who?", "She; did.")),
        ("sep=;\r\n" + CSV, ("Who?", "She; did.")),
        ("question\tanswer\na, b\tc; d\n", ("a, b", "c; d")),
        ("question|answer\na|b\n", ("a", "b")),
        ("question,answer;more\na,b\n", ("a", None)),  # the comma makes a known column
        ("answer\na;b\n", (None, "a;b")),
        ('"question, the first";answer\na;b\n', (None, "b")),
    ],
)
def test_the_separator_is_what_makes_known_columns(written, content, found):
    (sample,) = read(written("a.csv", content))
    assert isinstance(sample, Sample)
    assert (sample.question, sample.answer) == found


def test_cells_are_as_long_as_every_system_allows(written, monkeypatch):
    def windows(limit: int) -> None:
        if limit > 2**31 - 1:
            raise OverflowError("Python int too large to convert to C long")

    monkeypatch.setattr("csv.field_size_limit", windows)
    assert answers(written("a.csv", "answer\na\n")) == ["a"]


def test_lines_of_a_log_are_bad_rows_before_good_ones(written):
    *broken, row = read(written("a.jsonl", 'Building\nDone\n{"question": "a"}\n'))
    assert [type(line) for line in broken] == [NotJson, NotJson]
    assert row == Sample(question="a")


@pytest.mark.parametrize(
    "data",
    [{"answers": ["a"], "contexts": ["b"]}, {"question": "q", "contexts": ["b"]}],
)
def test_one_sample_is_no_table_of_columns(written, data):
    (sample,) = read(written("a.json", json.dumps(data)))
    assert isinstance(sample, Sample)
    assert sample.contexts[0].text == "b"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.jsonl", "no such file"),
        ("folder.jsonl", "is a folder; give the files in it"),
        ("folder", "is a folder; give the files in it"),
        ("a.ods", r"unknown kind of file '\.ods'; use \.jsonl, .*\.parquet"),
        ("a", "its name has no suffix that tells its kind; use"),
    ],
)
def test_what_is_no_file_of_rows(tmp_path, name, message):
    if name.startswith("folder"):
        (tmp_path / name).mkdir()
    elif name != "missing.jsonl":
        (tmp_path / name).write_text("x")
    with pytest.raises(InputError, match=message):
        read(tmp_path / name)


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv"])
def test_empty_files_have_no_rows(written, name):
    assert read(written(name, "")) == []


def test_limit_counts_rows_of_the_file(written):
    path = written("a.jsonl", '{"answer": "a"}\nbroken\n{"answer": "c"}\n')
    found = list(read_samples(path, ColumnsRead(), 2))
    assert [isinstance(item, Sample) for item in found] == [True, False]


def test_results_of_an_earlier_run_can_be_judged_again(tmp_path):
    rows: list[Any] = [
        {"id": "7", "question": "q", "contexts": ["c"], "answer": "a", "lang": "en"},
        {"answer": {}},
    ]
    report = evaluate(rows, metrics="adherence")
    report.to_jsonl(tmp_path / "a.jsonl")
    first, second = read(tmp_path / "a.jsonl")
    assert isinstance(first, Sample)
    assert (first.id, first.question, first.metadata["lang"]) == ("7", "q", "en")
    assert str(second).endswith(
        "row 2: was no sample: answer: needs a text, found dict"
    )
    assert (
        Report.from_jsonl(tmp_path / "a.jsonl").results[0].sample
        == report.results[0].sample
    )


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([HEADER, ROW, CLOSING], ["a"]),
        ([HEADER, ROW], ["a"]),
        ([HEADER, ROW, '{"index": 19', CLOSING], ["a", "line 3: not JSON"]),
        ([ROW, ROW.replace('"a"', '"b"')], ["a", "b"]),
        ([HEADER, CLOSING], []),
    ],
)
def test_the_samples_of_results_are_rows(written, lines, found):
    path = written("a.jsonl", "\n".join(lines) + "\n")
    for text, answer in zip(found, answers(path), strict=True):
        assert text in answer
    is_part = lines != [HEADER, ROW, CLOSING] and bool(found)
    assert bool(reason_of_part(path)) is is_part


DOUBLED = "an object has more than one value for {}; keep one of them"


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ('{"answer": "a", "answer": "b"}', "answer"),
        ('{"answer": "a", "answer": "a"}', "answer"),
        ('{"id": 1, "answer": "a", "id": 2, "answer": "b", "id": 3}', "id, answer"),
        ('{"contexts": [{"text": "a", "text": "b"}]}', "text"),
        ('{"answer": "a", "\\u0061nswer": "b"}', "answer"),
    ],
)
def test_an_object_with_a_key_twice_is_a_bad_row(written, line, keys):
    path = written("a.jsonl", f'{line}\n{{"answer": "c"}}\n{line}')
    bad = DOUBLED.format(keys)
    assert answers(path) == [f"{path}, line 1: {bad}", "c", f"{path}, line 3: {bad}"]
    with pytest.raises(InputError, match=f"b.json: {bad}"):
        read(written("b.json", f"[{line}]"))
    with pytest.raises(RowError, match=f"c.jsonl, line 1: {bad}"):
        read_labels(written("c.jsonl", line))
    with pytest.raises(InputError, match=f"e.jsonl, line 2: {bad}"):
        Report.from_jsonl(written("e.jsonl", f"{HEADER}\n{line}\n"))
    with pytest.raises(SettingError, match=f"--set adherence.polls: {bad}"):
        metrics_with_settings(["adherence"], [f"adherence.polls={line}"])


def test_an_integer_that_python_does_not_read_is_named_so(written):
    digits = sys.get_int_max_str_digits() + 1
    (bad,) = answers(written("a.jsonl", f'{{"id": {"1" * digits}}}\n'))
    assert str(bad).endswith(
        "line 1: an integer of more than 4,300 digits; write it as a text"
    )


class PolarsLike:
    """Iterates over columns, as Polars does."""

    iter_slices = None  # which tells it from a relation of DuckDB

    columns = ("question",)

    def __iter__(self) -> Any:
        return iter(["no row"])

    def iter_rows(self, *, named: bool) -> Any:
        assert named
        return iter([{"question": "q"}])


class DuckDBLike:
    """Iterates over tuples, as a relation of DuckDB does."""

    def iter_rows(self, batch_size: int = 1024) -> Any:
        return iter([("q",)])

    def to_dicts(self) -> list[dict[str, Any]]:
        return [{"question": "q"}]


@pytest.mark.parametrize(
    "samples",
    [
        [Sample(question="q")],
        ({"question": "q"} for _ in range(1)),
        pd.DataFrame({"question": ["q"], "answer": [float("nan")]}, index=[7]),
        pa.table({"question": ["q"]}),
        PolarsLike(),
        DuckDBLike(),
    ],
)
def test_tables(samples):
    assert list(iterate_samples(samples, {})) == [Sample(question="q")]


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ("rows.csv", "got one str; read the file first"),
        (Path("rows.csv"), "Path; read the file first"),
        (
            {"train": [], "test": []},
            "got one dict; choose one of its tables: train, test",
        ),
        (Sample(), "got one Sample$"),
        (None, "got one NoneType$"),
        (
            pd.DataFrame([["a", "b"]], columns=["answer", "answer"]),
            "several columns of the data frame .* named answer;",
        ),
        (
            TWO_ANSWERS,
            "several columns of the Arrow table are named answer; rename all but one",
        ),
        (
            TWO_ANSWERS.to_batches()[0],
            "several columns of the Arrow table are named answer; rename all but one",
        ),
    ],
)
def test_what_is_no_table(samples, message):
    with pytest.raises(SettingError, match=message):
        list(iterate_samples(samples, {}))


def test_a_frame_with_columns_of_two_levels_is_read_as_one_flattened_by_dots():
    names = [("input", "question"), ("output", ""), ("docs", "found")]
    columns = pd.MultiIndex.from_tuples(names)
    frame = pd.DataFrame([["Who?", "Anna.", ["A."]]], columns=columns)
    (sample,) = iterate_samples(frame, {"contexts": "docs.found"})
    expected = Sample(question="Who?", answer="Anna.", contexts=["A."])
    assert sample == expected


INSIDE = {"question": "Who?", "answer": "Anna."}


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ({"q1": INSIDE, "q2": {**INSIDE, "lang": "en"}}, "q1, q2"),
        ({"q1": INSIDE}, "q1"),
        ({"version": "1.1", "testcases": [INSIDE]}, "testcases"),
        (
            {"config": {}, "errors": [], "train": [INSIDE], "dev": [INSIDE]},
            "train, dev",
        ),
    ],
)
def test_rows_inside_of_an_object_are_named(content, names, written):
    (row,) = read(written("a.json", json.dumps(content)))
    assert isinstance(row, RowError)
    said = f"item 1: the rows stand under {names}; write these alone, as a list"
    assert str(row).endswith(said)


@pytest.mark.parametrize(
    "content",
    [
        {"asked": {"question": "Who?"}, "told": {"answer": "Anna."}},
        {"question": "Who?", "items": [INSIDE]},
        {"asked": {1: "Who?"}, "items": []},
    ],
)
def test_parts_of_one_row_are_no_rows(content):
    (sample,) = iterate_samples([content], {})
    assert isinstance(sample, Sample)


def test_rows_that_are_none_come_as_errors():
    first, second = iterate_samples([{"answer": {}}, 4], {})
    assert str(first) == "answer: needs a text, found dict"
    assert isinstance(second, RowError)


ROW_OF_WORKBOOK = ["Who?", "Anna."]


STRICT = b"http://purl.oclc.org/ooxml/spreadsheetml/"  # of Excel's other form of .xlsx


def workbook(path: Path, **sheets: list[list[Any]]) -> Path:
    made = openpyxl.Workbook()
    made.remove(made.active)
    for name, lines in sheets.items():
        sheet = made.create_sheet(name)
        for line in lines:
            sheet.append(line)
    made.save(path)
    return path


@pytest.mark.parametrize(
    ("sheets", "said"),
    [
        (
            {"one": [["question"], ["a"]], "two": [["question"], ["b"]]},
            r"several sheets hold something \(one, two\); save",
        ),
        (
            {"one": [["answer", "answer"], ["a", "b"]]},
            "several columns are named answer",
        ),
        (
            {"one": [["contexts", None, "answer"], ["a", "b", "c"]]},
            "column 2 has no name, perhaps as .* merged, or as the first row is a title",
        ),
    ],
)
def test_a_workbook_that_is_not_one_table_is_refused(sheets, said, tmp_path):
    with pytest.raises(InputError, match=said):
        read(workbook(tmp_path / "a.xlsx", **sheets))


@pytest.mark.parametrize(
    ("merged", "is_refused"), [("A2:A3", True), ("A2:B3", True), ("A2:B2", False)]
)
def test_cells_that_are_merged_over_rows_are_refused(merged, is_refused, tmp_path):
    """The value stands in the first of the rows alone."""
    lines = [["question", "answer"], ROW_OF_WORKBOOK, ROW_OF_WORKBOOK]
    path = workbook(tmp_path / "a.xlsx", one=lines)
    made = openpyxl.load_workbook(path)
    made["one"].merge_cells(merged)
    made.save(path)
    if is_refused:
        with pytest.raises(InputError, match=f"the cells {merged} are merged; give"):
            read(path)
    else:
        assert len(read(path)) == 2


def test_a_formula_without_its_value_makes_a_bad_row(tmp_path):
    """A program that computes nothing wrote it; the cell is not empty."""
    head = ["question", "answer"]
    lines: list[list[Any]] = [
        head,
        ROW_OF_WORKBOOK,
        ["When?", '=CONCATENATE("in"," May")'],
        [],
        ["Why?", None],
        ["How many?", 3],
    ]
    first, second, third, fourth = read(workbook(tmp_path / "a.xlsx", one=lines))
    assert first.answer == "Anna."
    assert isinstance(second, RowError)
    assert "row 2: answer: a formula whose value the file lacks" in str(second)
    assert (third.answer, fourth.answer) == (None, "3")


def stored_otherwise(path: Path, what: bytes, otherwise: bytes) -> Path:
    """Write a workbook as another program would."""
    with zipfile.ZipFile(path) as parts:
        stored = {name: parts.read(name) for name in parts.namelist()}
    assert any(what in content for content in stored.values())
    with zipfile.ZipFile(path, "w") as parts:
        for name, content in stored.items():
            parts.writestr(name, content.replace(what, otherwise))
    return path


def test_a_formula_whose_value_is_0_is_no_text(tmp_path):
    """Some programs write so a text that begins with "="."""
    lines = [["answer", "n"], ["=) Anna.", 1], ["Rain.", "=A1-A1"]]
    path = workbook(tmp_path / "a.xlsx", one=lines)
    first, second = read(stored_otherwise(path, b"</f><v />", b"</f><v>0</v>"))
    assert "or by a formula; write it as a text" in str(first)
    assert (second.answer, second.metadata) == ("Rain.", {"n": 0})


def test_a_workbook_is_read_beyond_the_size_that_it_names(tmp_path):
    lines = [["question", "answer"], *[ROW_OF_WORKBOOK] * 2]
    path = workbook(tmp_path / "a.xlsx", one=lines)
    stored_otherwise(path, b'ref="A1:B3"', b'ref="A1:A2"')
    assert answers(path) == ["Anna.", "Anna."]


FORMATS_OF_WORKBOOKS = {
    "0%": "13%",
    "0.0%": "12.5%",
    "0.00%": "12.50%",
    "0.00": "0.13",
    "000": "000",
    "#,##0.0": "0.1",
    "General": "0.125",
    "@": "0.125",
    '0.00" kg"': None,
    "# ?/?": None,
    "0.0E+00": None,
}


def test_a_number_in_a_workbook_is_the_text_that_it_shows_or_refused(tmp_path):
    lines = [["answer", "price"], *[[0.125, 0.125]] * len(FORMATS_OF_WORKBOOKS)]
    path = workbook(tmp_path / "a.xlsx", one=[*lines, ["12%"]])
    made = openpyxl.load_workbook(path)
    for number, number_format in enumerate(FORMATS_OF_WORKBOOKS, start=2):
        for column in "AB":
            made["one"][f"{column}{number}"].number_format = number_format
    made.save(path)
    rows = read(path)
    shown = [getattr(row, "answer", None) for row in rows]
    assert shown == [*FORMATS_OF_WORKBOOKS.values(), "12%"]
    told = [str(row) for row in rows if isinstance(row, RowError)]
    assert ["answer' shows a number in a format" in reason for reason in told] == [
        True
    ] * 3
    made["one"]["A1"] = "price of it"  # a column of no field keeps its number
    made.save(path)
    assert read(path)[8].metadata == {"price of it": 0.125, "price": 0.125}


def test_what_excel_writes_for_signs_is_read_as_these_signs(tmp_path):
    lines = [["answer_x000D_"], ["one_x000D_\ntwo"], ["_x005F_x000D_"], ["_x00e9_"]]
    path = workbook(tmp_path / "a.xlsx", one=lines)
    assert answers(path) == ["one\r\ntwo", "_x000D_", "\u00e9"]


def test_a_workbook_may_have_an_index_without_a_name(tmp_path):
    pd.DataFrame({"answer": ["a"]}).to_excel(tmp_path / "a.xlsx")
    assert answers(tmp_path / "a.xlsx") == ["a"]


def test_several_objects_in_a_json_file_are_named(written):
    with pytest.raises(InputError, match=r"an object on each line; name it \.jsonl"):
        read(written("a.json", f"{JSONL}\n{JSONL}"))
    indented = json.dumps(json.loads(JSONL), indent=1)
    with pytest.raises(
        InputError, match=r"Extra data: .*\); write several rows as one"
    ):
        read(written("a.json", f"{indented}\n{indented}"))


def test_what_is_no_workbook_and_what_it_needs_are_named(written, monkeypatch):
    with pytest.raises(InputError, match=r"a\.xlsx: no workbook"):
        read(written("a.xlsx", CSV))
    path = workbook(
        written("b.xlsx", ""), one=[["question", "answer"], ROW_OF_WORKBOOK]
    )
    assert len(read(path)) == 1
    changed = path.with_name("c.xlsx")
    for old, new, told in (
        (
            b"http://schemas.openxmlformats.org/spreadsheetml/2006/",
            STRICT,
            "save it as E",
        ),
        (b"<sheetData>", b"<sheetData", r"no workbook \("),
    ):
        with ZipFile(path) as parts, ZipFile(changed, "w") as copy:
            for name in parts.namelist():
                copy.writestr(name, parts.read(name).replace(old, new))
        with pytest.raises(InputError, match=told):
            read(changed)
    damaged = bytearray(path.read_bytes())
    with ZipFile(path) as parts:
        start = parts.getinfo("xl/worksheets/sheet1.xml").header_offset
    damaged[start + 60 : start + 90] = b"!" * 30
    changed.write_bytes(damaged)
    with pytest.raises(InputError, match=r"c\.xlsx: no workbook \("):
        read(changed)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingDependency, match="pip install openpyxl"):
        read(path)


@pytest.mark.parametrize("nothing", [[], iter(()), pd.DataFrame({"question": []})])
def test_that_there_is_no_row_is_said(nothing, caplog):
    assert len(evaluate(nothing, ["adherence"], judge="lexical").results) == 0
    assert [record.getMessage() for record in caplog.records].count(
        "There is no row: nothing is evaluated."
    ) == 1


def test_columns_of_different_lengths_are_named(tmp_path, capsys):
    table = {"question": ["Who?", "When?"], "contexts": [["a"]]}
    sentence = r"by columns, which differ in .*\(question 2, contexts 1\)"
    with pytest.raises(SettingError, match=sentence):
        evaluate(table, judge="lexical")
    path = tmp_path / "a.json"
    path.write_text(json.dumps(table))
    assert main(["evaluate", str(path), "--no-store", "--no-files"]) == 2
    assert "by columns, which differ" in capsys.readouterr().err


@pytest.mark.parametrize("beside", [{}, {"reply_text": "Anna."}])
def test_rows_without_any_answer_name_the_option_and_the_columns(beside):
    row = {
        "question": "Who?",
        "contexts": ["Anna lit it."],
        "reference": "Anna",
        **beside,
    }
    told = str(evaluate([row] * 3, judge="lexical"))
    assert "--answer-column (in Python answer_column=)" in " ".join(told.split())
    for column in row:
        assert column in told
    assert "answered nothing" not in told
    some = str(evaluate([row, row, {**row, "answer": "Anna."}], judge="lexical"))
    assert "no row has" not in some


ONE_ROW = "Who?,Anna.\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", f"question,answer\n{ONE_ROW}question,answer\n{ONE_ROW}"),
        ("a.csv", f"\ufeffquestion,answer\n{ONE_ROW}\ufeffquestion,answer\n{ONE_ROW}"),
        ("a.csv", f'question,answer\n{ONE_ROW}\ufeff"question","answer"\n{ONE_ROW}'),
        ("a.csv", f",question,answer\n0,{ONE_ROW},question,answer\n0,{ONE_ROW}"),
        ("a.tsv", "question\tanswer\nWho?\tAnna.\n" * 2),
        ("a.csv", "Question;Answer\nWho?;Anna.\nquestion;answer\nWho?;Anna.\n"),
    ],
)
@pytest.mark.parametrize("form", ["file", "gzip", "workbook", "parquet", "frame"])
def test_a_header_that_stands_again_among_the_rows_is_a_bad_row(
    written, tmp_path, name, content, form
):
    """As ``cat a.csv b.csv`` leaves it, and ``to_csv(mode="a")`` of pandas."""
    path = written(name, content)
    frame = pd.read_csv(path, sep=None, engine="python")
    if form == "gzip":
        path = written(f"{name}.gz", gzip.compress(content.encode()))
    if form == "workbook":
        frame.to_excel(path := tmp_path / "a.xlsx")
    if form == "parquet":
        frame.to_parquet(path := tmp_path / "a.parquet")
    rows = list(iterate_samples(frame, {})) if form == "frame" else read(path)
    header_again_between_two_samples(*rows)


def header_again_between_two_samples(first, second, third):
    assert (first.question, third.answer) == ("Who?", "Anna.")
    assert isinstance(second, RowError)
    assert "it repeats the header: files were joined" in str(second)


def test_rows_behind_a_header_of_another_order_are_read_by_it(written):
    """Only the reader of CSV sees the lines, so only there they can be read."""
    joined = f"question,answer\n{ONE_ROW}answer,question\nAnna.,Who?\n"
    header_again_between_two_samples(*read(written("a.csv", joined)))


def test_rows_behind_a_header_with_another_usual_column_are_read_by_it(written):
    first = "question,contexts,answer\nWho?,It was Anna.,Anna.\n"
    second = "question,contexts,reference\nWho?,It was Anna.,Bob.\n"
    for line in (second, second.replace("question", "query")):
        answered, header, expected = read(written("a.csv", first + line))
        assert (answered.answer, answered.reference) == ("Anna.", ())
        assert "it repeats the header: files were joined" in str(header)
        assert (expected.answer, expected.reference) == (None, ("Bob.",))


def test_a_row_whose_cells_only_resemble_its_columns_is_a_sample(written):
    for cells in [
        "question,the answer",
        "answer,answer",
        "?,answer",
        "context,response",
    ]:
        (sample,) = read(written("a.csv", f"question,answer\n{cells}\n"))
        assert isinstance(sample, Sample)
