"""A character that no encoding can carry loses nothing that was judged, wherever it stands and wherever results go."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lanes import crossed
from pyarrow import parquet

from ragmetrics_core import Report, Sample, Scored, evaluate, metric
from ragmetrics_core.capture.background import JsonlSink
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.results import ErrorInfo, Failed, SampleResult, Undefined
from ragmetrics_core.labelling.labels import draw
from ragmetrics_core.reporting.judge_card import Card
from ragmetrics_core.scale.scorer import columns_of_results

LONE, SHOWN = "a\ud800b", "a\N{REPLACEMENT CHARACTER}b"
ROW: dict[str, Any] = {
    "id": "s1",
    "question": "Who?",
    "contexts": ["Anna lit it."],
    "answer": "Anna lit it.",
}
PLACES: dict[str, dict[str, Any]] = {
    "id": {"id": LONE},
    "question": {"question": LONE},
    "answer": {"answer": LONE},
    "context": {"contexts": [LONE]},
    "context's id": {"contexts": [{"text": "t", "id": LONE, "metadata": {LONE: LONE}}]},
    "reference": {"reference": LONE},
    "metadata": {LONE: LONE, "tags": {LONE: [LONE]}},
    "conversation": {"conversation_id": LONE},
    "generator": {"generator": LONE},
    "error": {"error": LONE},
    "history": {"history": [{"role": LONE, "content": LONE}]},
    "facts": {"facts": [LONE]},
    "name of a column": {f"x{LONE}": 1},
}


def judged(row: dict[str, Any]) -> Report:
    """A run over two rows, with a metric whose reason holds the character, and a bad row."""

    @metric(name="own", version="1", requires=())
    def own(sample: Sample) -> Scored:
        del sample
        return Scored(metric="own", reason=LONE, value=0.5)

    report = evaluate(
        [{**ROW, "id": "s0"}, {**ROW, **row}], ["adherence", own], judge="lexical"
    )
    failed = Failed(
        metric="m",
        reason=LONE,
        error=ErrorInfo(type="RateLimited", message=LONE, raw=LONE),
    )
    more = [
        # What a hook of the user's changed with model_copy was not validated.
        SampleResult(
            index=2,
            sample=Sample().model_copy(update={"id": LONE, "answer": LONE}),
            results={"m": failed},
        ),
        SampleResult(
            index=3,
            sample=Sample(),
            results={"m": Undefined(metric="m", reason=LONE, sample_id=LONE)},
        ),
        SampleResult(index=4, sample=None, problem=LONE),
    ]
    return Report([*report.results, *more], report.run)


def as_columns(report: Report, path: Path) -> None:
    parquet.write_table(
        pa.table(columns_of_results(report.results, report.metrics)), path
    )


WRITERS: dict[str, Callable[[Report, Path], object]] = {
    "JSONL": lambda report, path: report.to_jsonl(path),
    "CSV": lambda report, path: report.to_csv(path),
    "Parquet": lambda report, path: report.to_parquet(path),
    "columns": as_columns,
    "HTML": lambda report, path: report.to_html(path),
    "sink": lambda report, path: report.write_to(JsonlSink(path)),
    "table": lambda report, path: path.write_text(
        report.table(), "utf-8", errors="replace"
    ),
    "notebook": lambda report, path: path.write_text(
        "".join(shown._repr_html_() for shown in (report, *report.results)), "utf-8"
    ),
    "comparison": lambda report, path: (
        Report(report.results[:2], report.run)
        .compare(Report(report.results[:2], report.run))
        .to_html(path)
    ),
}


@pytest.mark.nightly
@pytest.mark.parametrize("place", PLACES)
def test_every_file_is_written_whole(place, tmp_path):
    report = judged(PLACES[place])
    for name, write in WRITERS.items():
        path = tmp_path / name
        write(report, path)
        assert path.stat().st_size > 0, name
    again = Report.from_jsonl(tmp_path / "JSONL")
    assert [row.results.keys() for row in again.results][2:] == [
        row.results.keys() for row in report.results
    ][2:]
    assert len(parquet.read_table(tmp_path / "Parquet")) == 5
    rows = (tmp_path / "CSV").read_text("utf-8")
    assert SHOWN in rows
    assert len((tmp_path / "sink").read_text("utf-8").splitlines()) == 5


@pytest.mark.nightly
@pytest.mark.parametrize(("place", "job"), crossed(list(PLACES), [True, False]))
def test_the_command_writes_everything(place, job, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    row = {**ROW, **PLACES[place]}
    Path("rows.jsonl").write_text(
        json.dumps(row)
        + "\n"
        + json.dumps({**ROW, "id": "s2", "answer": 5.5})
        + "\n{\n"
    )
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "job.md")
    command = [
        "evaluate",
        "rows.jsonl",
        "--judge",
        "lexical",
        "--out",
        "out.jsonl",
        "--report",
        "page.html",
    ]
    command += [
        "--fail-under",
        f"adherence=0@{LONE if place == 'metadata' else 'conversation_id'}",
    ]
    if place not in ("metadata", "conversation"):
        command = command[:-2]
    assert main(command if job else [*command, "--summary", "own.md"]) in (0, 1, 3)
    capsys.readouterr()
    assert len(Report.from_jsonl("out.jsonl").results) == 3
    assert "ragmetrics" in Path("job.md" if job else "own.md").read_text("utf-8")
    assert Path("page.html").stat().st_size > 0


def test_labels_are_drawn_from_such_samples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evaluate([{**ROW, "id": LONE}], "adherence", judge="lexical").to_jsonl("run.jsonl")
    words = ["card", "--results", "run.jsonl", "--to-label", "1"]
    assert main([*words, "--report", "page.html"]) == 0
    assert draw(Report.from_jsonl("run.jsonl"), 1) == [SHOWN]
    label = {"id": SHOWN, "label": 1, "drawn": 1, "of": 1}
    Path("labels.jsonl").write_text(json.dumps(label))
    assert main([*words[:3], "--data", "labels.jsonl", "--out", "card.json"]) == 0
    assert Card.read("card.json").corrected["context_adherence"].labelled == 1
