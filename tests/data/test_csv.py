"""CSV and TSV are read strictly: what a writer wrote comes back, and no mistake in quoting loses a row unseen."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core import Sample
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.csv_and_arrow import csv_rows
from ragmetrics_core.data.errors import InputError, RowError

SEPARATORS = st.sampled_from([(".csv", ","), (".tsv", "\t")])
Rows = list[list[str]]


def rows_of(content: str, suffix: str = ".csv") -> list[dict[str, Any] | RowError]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"a{suffix}"
        path.write_bytes(content.encode())
        return [row for _, row in csv_rows(path)]


def written(header: Sequence[str], rows: Rows, separator: str, quoting: Any) -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=separator, quoting=quoting)
            writer.writerows([header, *rows])
        return path.read_bytes().decode()


HEADER = ("question", "answer", "contexts")
NOTHING = ("nan", "NaN", "NULL", "null", "<NA>", r"\N", "#N/A", "#REF!", "#NAME?")
texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12
)
prose = texts | st.sampled_from(
    [
        *NOTHING,
        "",
        '5" pipe',
        'say "hi"',
        "a, b; c",
        "two\nlines",
        "x\ty",
        '"',
        '""',
        "\r",
        ',"',
    ]
)
rows_of_texts = st.lists(st.lists(prose, min_size=3, max_size=3), max_size=6)
QUOTINGS = st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])


@given(rows_of_texts, SEPARATORS, QUOTINGS)
def test_what_was_written_comes_back(rows, kind, quoting):
    suffix, separator = kind
    found = rows_of(written(HEADER, rows, separator, quoting), suffix)
    expected = [row for row in rows if any(map(str.strip, row))]
    assert [
        list(row.values()) if isinstance(row, dict) else row for row in found
    ] == expected


single_lines = st.sampled_from(
    ["a", "Who lit it?", "", "a, b", 'say "hi"', ',"x"', "\t", "'", 'it is 5"', "4"]
)
tables = st.lists(
    st.lists(single_lines, min_size=3, max_size=3), min_size=1, max_size=6
)


@given(tables, SEPARATORS, QUOTINGS, st.data())
def test_one_quotation_mark_too_many_or_too_few_loses_no_row(rows, kind, quoting, data):
    suffix, separator = kind
    content = written(HEADER, rows, separator, quoting)
    body = content.index("\n") + 1
    if data.draw(st.booleans()) and '"' in content[body:]:
        marks = [at for at in range(body, len(content)) if content[at] == '"']
        at = data.draw(st.sampled_from(marks))
        damaged = content[:at] + content[at + 1 :]
    else:
        at = data.draw(st.integers(body, len(content)))
        damaged = content[:at] + '"' + content[at:]
    try:
        found = rows_of(damaged, suffix)
    except InputError:
        return
    whole = [row for row in found if isinstance(row, dict)]
    filled = [row for row in rows if any(map(str.strip, row))]
    assert len(found) >= len(filled)  # a row of empty cells is none
    assert len(whole) == len(found) or len(whole) < len(rows)


@pytest.mark.parametrize("swallowed", [1, 2, 3])
@pytest.mark.parametrize("columns", [2, 3, 5])
@pytest.mark.parametrize("separator", [",", ";", "|"])
def test_a_cell_that_swallows_few_rows_makes_each_of_them_a_bad_row(
    swallowed, columns, separator
):
    header = ["question", "answer", "contexts", "reference", "id"][:columns]
    lines = [separator.join(f"text {n}" for _ in range(columns)) for n in range(9)]
    opened = lines[3].split(separator)
    lines[3] = separator.join([*opened[:-1], f'"{opened[-1]}'])
    lines[3 + swallowed] += '"'
    found = rows_of("\n".join([separator.join(header), *lines]))
    assert [at for at, row in enumerate(found) if isinstance(row, RowError)] == list(
        range(3, 4 + swallowed)
    )
    assert len(found) == 9


@pytest.mark.parametrize("nothing", [",,", " , ,", '"","",""', ",,\r"])
def test_lines_of_separators_alone_are_no_rows(nothing):
    found = rows_of(f"{HEAD}q,a,c\n{nothing}\nq,a,c\n" + f"{nothing}\n" * 5)
    assert [isinstance(row, dict) for row in found] == [True, True]


@pytest.mark.parametrize("mark", ["\u00a0", "\u200b", "\u2009", "\t"])
def test_a_column_is_found_whatever_blank_stands_in_its_name(mark):
    (row,) = rows_of(f"{mark}question,Expected{mark}Output,answer\nWho?,Anna.,Bert.\n")
    assert isinstance(row, dict)
    sample = Sample.from_row(row)
    assert (sample.question, sample.reference, sample.answer) == (
        "Who?",
        ("Anna.",),
        "Bert.",
    )


@pytest.mark.parametrize(
    ("suffix", "separator"), [(".csv", ","), (".tsv", "\t"), (".csv", ";")]
)
@pytest.mark.parametrize("columns", [2, 3, 5])
@pytest.mark.parametrize("place", ["first cell", "last cell"])
def test_a_cell_that_swallows_rows_makes_each_of_them_a_bad_row(
    suffix, separator, columns, place
):
    header = ["id", "question", "answer", "contexts", "reference"][5 - columns :]
    lines = [separator.join(f"text {n}" for _ in range(columns)) for n in range(60)]
    opened = lines[3].split(separator)
    opened[0 if place == "first cell" else -1] = '"an answer that begins with a mark'
    lines[3] = separator.join(opened)
    lines[52] += '"'
    found = rows_of("\n".join([separator.join(header), *lines]), suffix)
    assert [at for at, row in enumerate(found) if isinstance(row, RowError)] == list(
        range(3, 53)
    )
    assert "goes on from line 5 to line 54, over lines that look like rows" in str(
        found[3]
    )
    assert len(found) == 60


HEAD = "question,answer,contexts\n"
DAMAGED: dict[str, tuple[str, str]] = {
    "not closed at the end": (
        'q,a,c\nq,"a,c\nq,a,c\n',
        "lines 3 to 4: not CSV (unexpected end of data)",
    ),
    "text behind a closed cell": (
        'q,"a" b,c\n',
        "line 2: not CSV (',' expected after '\"')",
    ),
    "closed by a later cell": ('q,"a,c\nq,"b",c\n', "lines 2 to 3: not CSV"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_quoting_after_which_nothing_is_sure_is_refused_with_its_lines(name):
    content, said = DAMAGED[name]
    with pytest.raises(InputError) as refused:
        rows_of(HEAD + content)
    assert said in str(refused.value)


BAD: dict[str, tuple[str, list[str]]] = {
    "a cell that swallowed a line": (
        '"q",a,"\nb,",c"\nq,a,c\n',
        ["more cells than", "more cells than", ""],
    ),
    "fewer cells": ("q,a\nq,a,c\n", ["fewer cells than the header has columns", ""]),
    "more cells": ("q,a,c,d\nq,a,c\n", ["more cells than the header has columns", ""]),
    "a broken line": ("q,first line\nsecond line,c\n", ["fewer cells", "fewer cells"]),
    "a cell torn in two": ('q, "a, b"\n"q", a,"c"\n', ["a blank before its", ""]),
    "a first cell torn in two": (' "q, r",c\n', ["a blank before its"]),
    "a torn cell with marks": ('q, "a ""b"", c"\n', ["a blank before its"]),
    "NUL": ("q,a\0,c\nq,a,c\n", ["holds a NUL character", ""]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_record_that_cannot_be_used_is_a_named_bad_row(name):
    content, said = BAD[name]
    found = rows_of(HEAD + content)
    assert len(found) == len(said)
    for row, words in zip(found, said, strict=True):
        assert isinstance(row, RowError) is bool(words)
        assert words in str(row)


GOOD: dict[str, str] = {
    "lines of prose": (
        'q,a,"Paris, Rome, London.\nBerlin, Bonn, Cologne.\nOslo, Bergen, Tromsø."\n'
    ),
    "a table in the middle": 'q,"year,gdp,pop\n2001,3,4\n2002,3,4",c\n',
    "a number over two lines": 'q,a,"There were\n1,000,000 lamps."\n',
    "code that is indented": 'q,a,"def f():\n,b,c"\n',
    "marks in cells without quotes": 'q,5" pipe,7" pipe"\n',
    "a mark beside quoted cells": '"q",5" pipe,"c"\n',
    "marks behind a blank": 'q, "a" or "b", "c"\n',
    "a blank and a mark in quotes": 'q," ""a, b",c\n',
    "blank lines": "\n\nq,a,c\n  \n\n",
}


@pytest.mark.parametrize("name", GOOD)
def test_text_that_is_no_mistake_is_taken_as_it_is(name):
    (row,) = rows_of(HEAD + GOOD[name])
    assert isinstance(row, dict)


def test_a_header_that_swallows_rows_is_refused():
    with pytest.raises(
        InputError,
        match="lines 1 to 4: the header goes on over lines that look like rows",
    ):
        rows_of('question,answer,"contexts\nq,a,c\nq,a,c\nq,a,c"\nq,a,c\n')


def test_json_in_tsv_needs_no_quotes():
    (row,) = rows_of('question\tcontexts\tanswer\nq\t["one", "two"]\ta "b" c\n', ".tsv")
    assert isinstance(row, dict)
    assert json.loads(row["contexts"]) == ["one", "two"]


def test_one_file_of_tsv_has_one_way_to_write_a_mark():
    """One cell is not read without its marks and, after a broken one, with them."""
    content = 'question\tanswer\nq\t"Yes"\nq\t"Yes" she said\nq\t"Yes"\n'
    with pytest.raises(InputError, match="line 3: not CSV"):
        rows_of(content, ".tsv")


TEXT = "Anna lit the lamp in 1856"
SWALLOWING = "question,contexts,answer\n" + "".join(
    f"Who lit it?,{TEXT},{answer}\n"
    for answer in [
        *[TEXT] * 50,
        f'"{TEXT}',
        *["Bert sank ships"] * 49,
        'Bert sank ships"',
        *[TEXT] * 50,
    ]
)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("content", "options", "code", "said"),
    [
        (SWALLOWING, [], 3, "Not scored: 51 unreadable."),
        (SWALLOWING, ["--strict"], 3, "Not scored: 51 unreadable."),
        (SWALLOWING, ["--stop-at-bad-row"], 2, "from line 52 to line 102"),
        (SWALLOWING.replace('ships"', "ships"), [], 2, "lines 52 to 152: not CSV"),
    ],
)
def test_a_gate_counts_the_rows_that_a_mark_swallowed(
    content, options, code, said, tmp_path, capsys
):
    path = tmp_path / "rows.csv"
    path.write_text(content, "utf-8")
    command = [
        "evaluate",
        str(path),
        "--judge",
        "lexical",
        "--quiet",
        "--fail-under",
        "adherence=0.5",
    ]
    assert main([*command, *options]) == code
    output = capsys.readouterr()
    assert said in output.out + output.err


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("above", ["# exported in May\n", "#\n# v2: all rows\n", "\n"])
@pytest.mark.parametrize("table", ["a;b\n1;2\n", "sep=;\na;b\n1;2\n", "#;b\n1;2\n"])
def test_comments_above_the_header_are_passed_over(mark, above, table):
    expected = rows_of(table)
    assert len(expected) == 1
    assert rows_of(f"{mark}{above}{table}") == expected
    number = f"{above}{table}".count("\n") + 1
    with pytest.raises(InputError, match=f", line {number}: not CSV"):
        rows_of(f'{mark}{above}{table}3;"4" 5\n')


@pytest.mark.parametrize(
    "above",
    ["# exported, by tool\n# v2\n", "# v2\n# a; b, c\n\n", "# 1, 2, 3\n# 4\n# 5|6\n"],
)
@pytest.mark.parametrize(
    "table", ["question,answer\nWho?,Anna.\n", "#;Question;answer\n1;Who?;Anna.\n"]
)
def test_a_comment_with_commas_is_none_of_a_table_with_known_columns(above, table):
    assert len(rows_of(table)) == 1
    assert rows_of(above + table) == rows_of(table)


def test_rows_that_begin_as_a_comment_does_are_rows():
    rows = rows_of("#,question\n#1,Who?\n#2,Why?\n")
    assert rows == [{"#": "#1", "question": "Who?"}, {"#": "#2", "question": "Why?"}]


@pytest.mark.parametrize("top", ["Evaluation of October,,", "question,,answer"])
def test_a_filled_cell_under_no_name_may_stand_below_a_title(top):
    """As in a workbook."""
    (row,) = rows_of(f"{top}\nWho?,A.,Anna.\n")
    assert isinstance(row, RowError)
    assert str(row).startswith("column 2 has no name, perhaps as the header")
    assert "or as the first row is a title" in str(row)


@pytest.mark.parametrize("table", [",question\n0,Who?\n", "question,,\nWho?,,\n"])
def test_an_index_and_empty_columns_need_no_name(table):
    (row,) = rows_of(table)
    assert isinstance(row, dict)
    assert row["question"] == "Who?"
