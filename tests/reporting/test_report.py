"""Reports: order, tables, pages, and JSON lines that survive crashes and newer versions."""

import csv
import json
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from ragmetrics_core import evaluate
from ragmetrics_core.data.errors import InputError, MissingDependency, SettingError
from ragmetrics_core.data.metric_evidence import Evidence
from ragmetrics_core.data.replies import Usage
from ragmetrics_core.data.results import (
    ErrorInfo,
    Failed,
    SampleResult,
    Scored,
    Undefined,
)
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.sample_parts import CaptureNotes, Context
from ragmetrics_core.metrics.context_utilization import UtilizationEvidence
from ragmetrics_core.reporting.jsonl import FORMAT, JsonlWriter
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.run_facts import RunFacts

SECRET = "Zanzibar"
RUN = RunFacts(
    version="0.1.0",
    judges=("gpt-4o-mini",),
    metrics={"context_recall": "recall|v1"},
    started="2025-01-01T00:00:00Z",
    seconds=1.5,
    concurrency=4,
    notes=("context_adherence left out: undefined on every row",),
)


def a_row(index: int, value: float = 0.5, **metadata: Any) -> SampleResult:
    sample = Sample(
        id=f"s{index}",
        question=f"{SECRET} {index}",
        contexts=[SECRET],
        answer=SECRET,
        metadata=metadata,
    )
    usage = Usage(calls=2, cost=0.25, models=("gpt",))
    scored = Scored(metric="context_recall", reason=SECRET, value=value, usage=usage)
    return SampleResult(index=index, sample=sample, results={"context_recall": scored})


def full_report() -> Report:
    evidence = UtilizationEvidence(formula="f", chunks=(), useful=1)
    error = ErrorInfo(type="RateLimited", message="slow down")
    others = {
        "context_utilization": Scored(
            metric="context_utilization", reason="r", value=1, evidence=evidence
        ),
        "mine": Failed(
            metric="mine",
            reason="r",
            error=error,
            evidence=Evidence(kind="own", extra=[1, 2]),
        ),
    }
    undefined = Undefined(metric="context_recall", reason="no answer")
    return Report(
        [
            a_row(0),
            SampleResult(
                index=1,
                sample=Sample(),
                results={"context_recall": undefined, **others},
            ),
            SampleResult(index=2, sample=None, problem="row 3 is no object"),
            SampleResult(index=3, sample=Sample(question="q")),
        ],
        RUN,
    )


def test_results_are_in_input_order():
    report = Report([a_row(2), a_row(0), a_row(1)], RUN)
    assert [row.index for row in report.results] == [0, 1, 2]
    assert report == Report([a_row(0), a_row(1), a_row(2)], RUN)
    assert report != Report([a_row(0)], RUN)
    assert report[1].index == 1
    assert [row.index for row in report] == [0, 1, 2]
    with pytest.raises(IndexError):
        report[3]


def test_metrics_scores_usage():
    report = full_report()
    assert report.metrics == ("context_recall", "context_utilization", "mine")
    assert report.scores("context_recall") == [0.5, None, None, None]
    assert report.scores("mine") == [None] * 4
    assert report.usage == Usage(calls=2, cost=0.25, models=("gpt",))
    with pytest.raises(
        SettingError, match="there are: context_recall, context_utilization, mine"
    ):
        report.scores("context_recal")
    assert report.scores("recall") == report.scores("context_recall")
    own = {
        name: Scored(metric=name, reason="", value=value)
        for name, value in (("recall", 0.1), ("my_recall", 0.9))
    }
    assert Report([SampleResult(index=0, sample=Sample(), results=own)]).scores(
        "recall"
    ) == [0.1]


def test_repr_computes_nothing_and_shows_no_texts(monkeypatch):
    report = full_report()
    with monkeypatch.context() as patch:
        patch.delattr(Report, "summary")
        assert (
            repr(report)
            == "Report(4 rows, 2 judged: context_recall, context_utilization, mine)"
        )
    for text in (repr(report), repr(report.summary()), report.table()):
        assert SECRET not in text


def test_table_fits_and_is_plain():
    named = {
        "[red]a metric of the user's own with a very long name": "x",
        "context_utilization": "y",
    }
    rows = [a_row(index, index / 60) for index in range(60)]
    text = Report(
        [*rows, *full_report().results], RUN.model_copy(update={"metrics": named})
    ).table()
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in text
    assert "[red]" in text
    recall = next(line.split() for line in lines if line.startswith("context_recall"))
    assert recall[-1] == "61/1/0"
    flat = " ".join(text.split())
    assert "judge bias not" in flat
    assert "added at 0" not in flat, "how intervals are made stands in the methods"
    assert "context_recall, rows not scored: 1 " in flat
    assert "64 rows, 1 without a result, 1 unreadable." in flat
    assert "left out: undefined on every row" in flat


def test_table_by_hand():
    table = Report([a_row(0, 1.0), a_row(1, 0.0)], RUN).table()
    line = next(
        line for line in table.splitlines() if line.startswith("context_recall")
    )
    # Wilson for one of two: .5 ± .4055 (1.96 / (2 √(2 + 1.96²)))
    assert line.split() == [
        "context_recall",
        "0.500",
        "0.095–0.905",
        "0.50",
        "0.71",
        "0.00–1.00",
        "2/0/0",
    ]


def test_table_tells_of_an_interrupted_run():
    run = RunFacts(interrupted=True, stopped="the key was refused")
    assert "The results are incomplete: the key was refused." in Report([], run).table()
    assert (
        "The results are incomplete: it was interrupted."
        in Report([], RunFacts(interrupted=True)).table()
    )


def test_html_is_escaped():
    run = RunFacts(metrics={"<script>": ""}, notes=("<b>&",), stopped="<i>")
    html = Report([], run)._repr_html_()
    for raw in ("<script>", "<b>", "<i>"):
        assert raw not in html
    assert "&lt;script&gt;" in html


def test_to_pandas():
    pd = pytest.importorskip("pandas")
    frame = full_report().to_pandas()
    assert list(frame.columns) == [
        *("row", "id", "question", "answer", "reference", "metadata"),
        *("fault", "stage"),
        *("context_recall", "context_recall_status", "context_recall_reason"),
        "context_utilization",
        "context_utilization_status",
        "context_utilization_reason",
        *("mine", "mine_status", "mine_reason"),
        *("calls", "cost", "problem"),
    ]
    assert frame["context_recall"].iloc[0] == 0.5
    assert frame["context_recall_status"].tolist()[:2] == ["scored", "undefined"]
    assert all(value is pd.NA for value in frame["context_recall"].iloc[1:])
    assert frame["question"].iloc[2] is pd.NA
    assert frame["problem"].tolist() == [pd.NA, pd.NA, "row 3 is no object", pd.NA]
    assert frame["calls"].tolist() == [2, 0, 0, 0]
    assert frame["fault"].tolist()[2:] == ["unreadable", "not judged"]
    assert len(Report([]).to_pandas()) == 0


def told_rows() -> Report:
    """Rows with and without a fault, and one of which nobody can say."""
    lamp = ["Anna lit the lamp in 1856."]
    rows: list[dict[str, Any]] = [
        {
            "answer": "Anna lit the lamp in 1856.",
            "reference": ["Anna.", "Anna lit it."],
        },
        {
            "answer": "A wizard built it in 1871.",
            "reference": "Anna lit the lamp.",
            "metadata": {"user": "Zoë", "n": 2},
        },
        {"answer": "I do not know.", "reference": "Anna."},
    ]
    samples = [
        Sample(id=f"q-{place}", question="Who lit it?", contexts=lamp, **row)
        for place, row in enumerate(rows)
    ]
    return evaluate(samples, judge="lexical")


def test_a_table_says_what_became_of_each_row():
    frame = told_rows().to_pandas()
    assert frame["row"].tolist() == [1, 2, 3]
    assert frame["id"].tolist() == ["q-0", "q-1", "q-2"]
    assert json.loads(frame["reference"][0]) == ["Anna.", "Anna lit it."]
    assert frame["reference"].tolist()[2] == "Anna."
    assert frame["metadata"].isna().tolist() == [True, False, True]
    assert frame["metadata"][1] == '{"user": "Zoë", "n": 2}'
    report = told_rows()
    assert frame["fault"].tolist() == [fault.name for fault in report.faults]
    assert frame["fault"][1] == "made up?"
    assert frame["stage"][1] == "answer"
    assert frame["stage"].isna().tolist()[0]


def test_excel_reads_the_table(tmp_path):
    told_rows().to_csv(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes().startswith(b"\xef\xbb\xbfrow,id,")
    with (tmp_path / "t.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["row"] for row in rows] == ["1", "2", "3"]
    assert "Zoë" in rows[1]["metadata"]


def test_the_worst_rows_come_with_and_without_a_metric():
    report = told_rows()
    numbers = [row.number for row in report.worst(3)]
    assert numbers[0] == 2
    assert report.faults[1].kind == "fault"
    assert sorted(numbers) == [1, 2, 3]
    assert [row.number for row in report.worst(1)] == numbers[:1]
    scores = report.scores("context_adherence")
    lowest = report.worst(2, "adherence")
    assert [row.results["context_adherence"].value for row in lowest] == sorted(
        score for score in scores if score is not None
    )[:2]
    with pytest.raises(SettingError, match=r"worst\(count=\)"):
        report.worst("adherence")  # type: ignore[arg-type]


def test_rows_are_called_by_their_ids_too():
    shown = str(told_rows())
    assert '  row 2 (q-1)  x  made up?           "' in shown
    row_lines = [line for line in shown.splitlines() if line.startswith("  row ")]
    assert max(map(len, row_lines)) <= 80
    assert ">2 (q-1)</th>" in told_rows()._repr_html_()


def test_to_pandas_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependency, match=r"ragmetrics-core\[pandas\]"):
        Report([]).to_pandas()


def test_importing_loads_no_pandas():
    code = (
        "import sys, ragmetrics_core.reporting.gates; print({'pandas', 'numpy'}"
        " & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


# JSON lines
# ---------------------------------------------------------------------------------------------


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=5,
)


class Colour(str, Enum):  # noqa: UP042 - the older kind of enumeration is what is tested
    RED = "red"


def test_metadata_that_json_cannot_hold(tmp_path):
    circular: dict[str, Any] = {"a": 1}
    circular["self"] = circular
    deep: list[Any] = []
    for _ in range(3000):
        deep = [deep]
    row = a_row(
        0,
        nan=float("nan"),
        inf=[float("inf")],
        path=Path("x"),
        raw=b"\xff",
        keys={1: (2, 3), (4, 5): {6}},
        colour=Colour.RED,
        lone="\ud800",
        model=Context(text="t"),
        circular=circular,
        deep=deep,
        kind=Usage,
    )
    row.sample.metadata.update(
        count=np.int64(4), flag=np.True_, gap=np.float32("nan"), array=np.arange(2000)
    )
    Report([row]).to_jsonl(tmp_path / "r.jsonl")
    sample = Report.from_jsonl(tmp_path / "r.jsonl").results[0].sample
    found = sample.metadata
    assert (found["count"], found["flag"], found["gap"], found["array"]) == (
        4,
        True,
        None,
        [*range(2000)],
    )
    assert (found["nan"], found["inf"], found["path"], found["raw"]) == (
        None,
        [None],
        "x",
        "b'\\xff'",
    )
    assert (found["keys"], found["colour"], found["lone"]) == (
        {"1": [2, 3], "(4, 5)": [6]},
        "red",
        "\ufffd",
    )
    assert found["model"]["text"] == "t"
    assert found["circular"] == {"a": 1, "self": "<dict>"}
    assert "Usage" in found["kind"]


def test_streaming_in_any_order(tmp_path):
    path = tmp_path / "r.jsonl"
    start = RUN.model_copy(update={"seconds": 0.0})
    with JsonlWriter(path, start) as writer:
        writer.write(a_row(1))
        assert not path.exists()
        partial = Report.from_jsonl(f"{path}.partial")  # on disk at once
        assert (len(partial.results), partial.run.interrupted) == (1, True)
        writer.write(a_row(0))
        writer.close(RUN)
        writer.close(RUN)  # twice does no harm
    assert Report.from_jsonl(path) == Report([a_row(0), a_row(1)], RUN)


def test_a_killed_run_says_so_and_its_cut_off_last_line_is_a_row_that_could_not_be_read(
    tmp_path,
):
    path = tmp_path / "r.jsonl.partial"
    with JsonlWriter(tmp_path / "r.jsonl", RUN) as writer:
        writer.write(a_row(0))
        writer.write(a_row(1, note="é"))
    assert writer.left == path
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b"\xc3") + 1])  # inside a character
    report = Report.from_jsonl(path)
    assert report.run.interrupted
    assert [row.problem for row in report.results] == [
        "",
        f"{path}, line 3: not JSON (not UTF-8)",
    ]
    path.write_bytes(whole[:-1])  # only the end of the line is missing
    report = Report.from_jsonl(path)
    assert len(report.results) == 2
    assert "no closing line" in report.run.stopped


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def write_lines(path: Path, lines: list[Any]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def test_fields_of_newer_versions_are_ignored(tmp_path):
    path = tmp_path / "r.jsonl"
    full_report().to_jsonl(path)
    assert Report.from_jsonl(path) == full_report()
    lines = lines_of(path)
    assert lines[0]["ragmetrics_report"] == FORMAT
    assert "contexts" not in lines[2]["sample"]  # they are not known
    lines[0]["new"] = lines[0]["run"]["new"] = lines[-1]["run"]["new"] = 1
    row = lines[1]
    row["new"] = row["sample"]["new"] = row["sample"]["contexts"][0]["new"] = {
        "scored": 1
    }
    row["results"]["context_recall"]["new"] = row["results"]["context_recall"]["usage"][
        "new"
    ] = 1
    lines[2]["results"]["context_utilization"]["evidence"]["new"] = 1
    lines[2]["results"]["mine"]["new"] = 1
    write_lines(path, lines)
    report = Report.from_jsonl(path)
    assert report == full_report()
    assert report.results[1].results["mine"].evidence == Evidence(
        kind="own", extra=[1, 2]
    )


def test_a_header_says_nothing_of_the_end_and_may_hold_no_facts(tmp_path):
    path = tmp_path / "r.jsonl"
    for run in ({}, {"run": {}}, {"run": {"seconds": 2}}):
        write_lines(path, [{"ragmetrics_report": 1, **run}])
        read = Report.from_jsonl(path).run
        assert read.seconds == run.get("run", {}).get("seconds", 0)
        assert read.interrupted
        assert "no closing line" in read.stopped
    full_report().to_jsonl(path)
    header, *_, closing = map(json.loads, path.read_text().splitlines())
    assert "interrupted" not in header["run"]
    assert closing["run"]["interrupted"] is False


HEADER = '{"ragmetrics_report": 1, "run": {}}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty: a sink has seen no run yet"),
        ("\n\n", "is empty: a sink has seen no run yet"),
        ("question,answer\n", "line 1: no results of ragmetrics begin here"),
        ('{"question": "q"}\n', "line 1: no results of ragmetrics begin here"),
        ('{"ragmetrics_rep', "line 1: no results of ragmetrics begin here"),
        ('{"ragmetrics_report": 0, "run": {}}\n', "line 1: .*newer ragmetrics"),
        (f'{{"ragmetrics_report": {FORMAT + 1}, "run": {{}}}}\n', "newer ragmetrics"),
        ('{"ragmetrics_report": 1, "run": 3}\n', "line 1: RunFacts"),
        (HEADER + '\n{"index": 0\n', "line 2: not JSON"),
        (HEADER + "\n[1]\n", "line 2: a JSON object is needed, got list"),
        (HEADER + '\n\n{"index": "Zanzibar", "sample": null}\n', "line 3: index: "),
        (HEADER + '\n{"index": 0}\n', "line 2: sample: "),
        (HEADER + '\n{"index": -1, "sample": null}\n', "line 2: index: "),
        (
            HEADER + '\n{"run": {}}\n{"index": 0, "sample": null}\n',
            "line 3: nothing may follow the closing line 2",
        ),
        (HEADER + "\n" + "[" * 100_000 + "\n", "line 2: not JSON"),
    ],
)
def test_broken_files_name_the_line(tmp_path, text, words):
    path = tmp_path / "r.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=words) as caught:
        Report.from_jsonl(path)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("place", "edited"),
    [
        ("value", "1.0"),
        ("value", True),
        ("evidence", {"kind": "own", "chunks": [{"rank": 1, "useful": "yes"}]}),
        ("evidence", {"kind": "own", "chunks": [{"rank": 1, "useful": 1}]}),
        ("evidence", {"kind": "own", "chunks": [{"rank": 1, "probability": "0.9"}]}),
        ("evidence", {"kind": "own", "asked": 3, "repeatability": [False, True]}),
        (
            "evidence",
            {
                "kind": "own",
                "facts": [{"text": "f"}],
                "cells": [[{"probability": "1"}]],
            },
        ),
    ],
)
def test_an_edited_text_or_truth_value_is_no_number(tmp_path, place, edited):
    row = {"metric": "own", "status": "scored", "reason": "", "value": 1, place: edited}
    path = tmp_path / "r.jsonl"
    path.write_text(
        f"{HEADER}\n{json.dumps({'index': 0, 'sample': None, 'results': {'own': row}})}\n",
        "utf-8",
    )
    with pytest.raises(InputError, match=f"line 2: .*{place}"):
        Report.from_jsonl(path)


def test_files_that_cannot_be_opened(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        Report.from_jsonl(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="cannot be written"):
        Report([]).to_jsonl(tmp_path / "none" / "r.jsonl")


# Parquet
# ------------------------------------------------------------------------------


def test_to_parquet(tmp_path):
    pd = pytest.importorskip("pandas")
    full_report().to_parquet(tmp_path / "r.parquet")
    frame = pd.read_parquet(tmp_path / "r.parquet")
    assert frame["context_recall"].tolist()[0] == 0.5
    assert list(frame.columns) == list(full_report().to_pandas().columns)
    with pytest.raises(InputError, match="cannot be written"):
        full_report().to_parquet(tmp_path / "none" / "r.parquet")


def test_a_table_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    pd = pytest.importorskip("pandas")
    full_report().to_parquet(path := tmp_path / "r.parquet")
    old = path.read_bytes()

    def run_full(_, path, **kwargs):
        path.write_bytes(b"PAR1")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", run_full)
    with pytest.raises(InputError, match="No space left on device"):
        full_report().to_parquet(path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_grades_of_captured_samples_are_counted():
    grades = ["exact", "inferred", "exact", None]
    notes = [
        CaptureNotes() if grade is None else CaptureNotes(grade=grade)
        for grade in grades
    ]
    rows = [
        SampleResult(index=place, sample=Sample(capture=one), results={})
        for place, one in enumerate(notes)
    ]
    report = Report([*rows, SampleResult(index=4, sample=Sample(), results={})])
    assert report.summary().grades == {"exact": 2, "inferred": 1}
    assert "Captured: 2 exact, 1 inferred." in report.table()
    assert "Captured" not in Report([rows[3]]).table()


@pytest.mark.parametrize(
    "begin", ["=", "+", "-", "@", "|", "%", " =", "\t", "\r", "\n"]
)
def test_a_text_that_a_spreadsheet_may_compute_begins_with_an_apostrophe(
    begin, tmp_path
):
    text = f"{begin}1"
    samples = [
        Sample(question=text, answer="1 + 1"),
        Sample(question="plain @ = text", answer=text),
    ]
    rows = [
        SampleResult(index=place, sample=sample, results={})
        for place, sample in enumerate(samples)
    ]
    Report(rows).to_csv(tmp_path / "report.csv")
    with (tmp_path / "report.csv").open(encoding="utf-8-sig", newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["question"], first["answer"]) == (f"'{text}", "1 + 1")
    assert (second["question"], second["answer"]) == ("plain @ = text", f"'{text}")
