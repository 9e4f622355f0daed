"""A file of results that lost rows, holds copies or broken lines decides no gate by them."""

import json
import os
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragmetrics_core import Report, Sample, evaluate
from ragmetrics_core.capture import BackgroundEvaluator, JsonlSink, WatchSettings
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import errors
from ragmetrics_core.data.errors import LEFT, InputError, SettingError
from ragmetrics_core.data.results import ErrorInfo
from ragmetrics_core.reporting.gates import decide

GATE = ["--fail-under", "adherence=0.5"]
MODES: list[list[str]] = [[], ["--strict"]]
RIGHT = "Anna lit the lamp in the tower."
WRONG = "A wizard built the harbour in 1871."


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)


def a_run(n_right: int, n_wrong: int, path: str = "results.jsonl") -> list[str]:
    """Judge rows, the right answers first; return the lines of the file of results."""
    rows = [
        {
            "id": str(number),
            "question": f"Who lit lamp {number}?",
            "contexts": [RIGHT],
            "answer": RIGHT if number < n_right else WRONG,
        }
        for number in range(n_right + n_wrong)
    ]
    evaluate(rows, ["adherence"], judge="lexical").to_jsonl(path)
    return Path(path).read_text().splitlines(keepends=True)


def watched(numbers: range, path: str = "sink.jsonl", answer: str = RIGHT) -> None:
    """Write the results of so many answers to a sink, as ``watch(sinks=…)`` does."""
    background = BackgroundEvaluator(
        lambda sample: [sample],
        ["context_adherence"],
        "lexical",
        settings=WatchSettings(sinks=[JsonlSink(path)]),
    )
    for number in numbers:
        question = f"Who lit lamp {number}?"
        background.record(Sample(question=question, contexts=[RIGHT], answer=answer))
    assert background.stop(timeout=30)


Lines = list[str]


def with_index(line: str, index: int) -> str:
    return json.dumps(json.loads(line) | {"index": index}) + "\n"


LOSSES: dict[str, Callable[[Lines], Lines]] = {
    "header, the first rows, closing line": lambda lines: [*lines[:31], lines[-1]],
    "header and the first rows": lambda lines: lines[:31],
    "one row is missing": lambda lines: [*lines[:40], *lines[41:]],
    "rows of one index": lambda lines: [
        lines[0],
        *[with_index(line, 0) for line in lines[1:31]],
        lines[-1],
    ],
    "one row many times": lambda lines: [lines[0], *[lines[1]] * 60, lines[-1]],
    "a row beyond the input": lambda lines: [
        *lines[:-2],
        with_index(lines[-2], 600),
        lines[-1],
    ],
}


def test_a_whole_run_is_decided():
    a_run(30, 90)
    for mode in MODES:
        assert main(["report", "results.jsonl", *GATE, *mode]) == 1


@pytest.mark.nightly
@pytest.mark.parametrize("loss", LOSSES)
def test_a_part_of_a_run_is_undecided(loss, capsys):
    lines = a_run(30, 90)
    Path("part.jsonl").write_text("".join(LOSSES[loss](lines)))
    for mode in MODES:
        assert main(["report", "part.jsonl", *GATE, *mode]) == 3
    compared = ["compare", "results.jsonl", "part.jsonl", "--fail-on-regression"]
    assert main(compared) == 3
    assert "undecided" in capsys.readouterr().out


def test_rows_that_were_chosen_without_their_header_decide_no_gate(capsys):
    """``jq -c 'select(.results…)'`` leaves them; a sink may write gaps, being killed."""
    rows = a_run(30, 0)[1:-1]
    watched(range(30))
    lines_of_sink = Path("sink.jsonl").read_text().splitlines(keepends=True)
    for lines, code in ((rows, 3), (lines_of_sink, 0)):
        chosen = [*lines[:20], *lines[22:]]
        for some in (lines, chosen, lines[:10]):  # nobody knows how many there were
            Path("some.jsonl").write_text("".join(some))
            assert main(["report", "some.jsonl", *GATE]) == code
    capsys.readouterr()
    Path("some.jsonl").write_text("".join(rows))
    main(["report", "some.jsonl", *GATE])
    assert "no header, and rows may be missing" in capsys.readouterr().out


def test_lost_rows_are_counted():
    lines = a_run(30, 90)
    Path("part.jsonl").write_text("".join([*lines[:31], lines[-1]]))
    report = Report.from_jsonl("part.jsonl")
    assert report.run.stopped == "only 30 of its 120 rows are in the file"
    assert report.run.why_part
    comparison = Report.from_jsonl("results.jsonl").compare(report)
    assert "only 30 of its 120 rows" in comparison.stopped
    report.to_jsonl("again.jsonl")
    assert Report.from_jsonl("again.jsonl").run.stopped == report.run.stopped


def test_rows_that_stand_twice_in_a_file_count_once():
    header, *rows, closing_line = a_run(3, 1)
    lines = [header, *rows, rows[0], rows[2], closing_line]
    Path("twice.jsonl").write_text("".join(lines))
    report = Report.from_jsonl("twice.jsonl")
    assert len(report.results) == 4
    counted = "2 rows of twice.jsonl stood there before, and counted once"
    assert report.run.left_out == (counted,)
    assert f" 4 rows ({counted}), " in decide("adherence=0.1", report).sentence
    assert report.run.stopped == ""


def test_a_copied_sink_counts_once():
    watched(range(6))
    text = Path("sink.jsonl").read_text()
    Path("sink.jsonl").write_text(text * 3)
    report = Report.from_jsonl("sink.jsonl")
    assert len(report.results) == 6
    assert "12 rows of sink.jsonl stood there before" in report.run.left_out[0]


@pytest.mark.nightly
@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_sink_begins_a_line_after_a_kill(cut, capsys):
    watched(range(40))
    text = Path("sink.jsonl").read_text()
    Path("sink.jsonl").write_text(text[:-cut])  # the process died in mid-line
    watched(range(40, 50))
    report = Report.from_jsonl("sink.jsonl")
    is_whole = cut == 1  # only the line end is missing
    questions = [row.sample.question for row in report if row.sample is not None]
    assert len(report.results) == 50
    assert len(questions) == 49 + is_whole
    assert questions[-1] == "Who lit lamp 49?"
    capsys.readouterr()
    for mode in MODES:
        code = main(["report", "sink.jsonl", *GATE, *mode])
        assert code == (0 if is_whole else 3)
    printed = " ".join(capsys.readouterr().out.split())
    assert ("1 line could not be read: sink.jsonl, line 40" in printed) is not is_whole


def test_a_broken_row_of_a_run_is_told_with_its_line_and_why(capsys):
    lines = a_run(40, 0)
    lines[7] = lines[7].replace('"value": ', '"value": 7')
    lines[9] = "[1]\n"
    Path("results.jsonl").write_text("".join(lines))
    capsys.readouterr()
    assert main(["report", "results.jsonl", *GATE]) == 3
    printed = " ".join(capsys.readouterr().out.split())
    told = "2 lines could not be read: results.jsonl, line 8: results.context_adherence"
    assert told in printed
    assert "less than or equal to 1" in printed
    assert "ended early" not in printed
    assert "results.jsonl 40 rows" in printed
    broken = [row for row in Report.from_jsonl("results.jsonl") if row.sample is None]
    assert [row.number for row in broken] == [7, 9]  # the places that are missing
    assert [row.problem.partition(":")[0] for row in broken] == [
        "results.jsonl, line 8",
        "results.jsonl, line 10",
    ]
    Path("copy.jsonl").write_text("".join(lines))
    compared = ["compare", "results.jsonl", "copy.jsonl", "--fail-on-regression"]
    assert main(compared) == 3


@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-16LE", "UTF-16BE"])
def test_results_that_an_editor_saved_as_utf_16_are_refused(encoding, capsys):
    Path("results.jsonl").write_text("".join(a_run(3, 1)), encoding)
    assert main(["report", "results.jsonl", *GATE]) == 2
    assert (
        f"results.jsonl: not UTF-8; save the file as UTF-8, or if it is {encoding}: ic"
        in (capsys.readouterr().err)
    )


def test_indented_results_are_to_be_converted_not_judged_again():
    """``jq .`` writes them so, and ``jq -s .``."""
    rows = [json.loads(line) for line in a_run(3, 1)]
    one_after_another = "\n".join(json.dumps(row, indent=2) for row in rows)
    a_list = json.dumps(rows, indent=2)
    for text, jq_filter in ((one_after_another, "."), (a_list, "'.[]'")):
        Path("indented.jsonl").write_text(text)
        command = re.escape(f"jq -c {jq_filter} indented.jsonl > lines.jsonl")
        with pytest.raises(InputError, match=command):
            Report.from_jsonl("indented.jsonl")


def test_equal_rows_of_two_processes_are_two_rows():
    """A health check is the first question of each process, which counts from 0."""
    for numbers in (range(3), range(1), range(1)):
        watched(numbers)
    assert main(["report", "sink.jsonl", *GATE]) == 0
    report = Report.from_jsonl("sink.jsonl")
    assert len(report.results) == 5
    assert not report.run.notes


def test_a_run_that_was_repeated_on_its_sink_decides_no_gate(capsys):
    """A write failed, or a limit was reached, and all rows are written once more."""
    a_run(10, 10)
    report = Report.from_jsonl("results.jsonl")
    sink = JsonlSink("sink.jsonl")
    for row in report.results[:10]:
        sink.write(row)
    assert main(["report", "sink.jsonl", *GATE]) == 0
    report.write_to(JsonlSink("sink.jsonl"))
    capsys.readouterr()
    assert main(["report", "sink.jsonl", "--fail-under", "adherence=0.6"]) == 3
    printed = " ".join(capsys.readouterr().out.split())
    assert "its first rows stand there again, as of a run that was repeated" in printed
    assert len(Report.from_jsonl("sink.jsonl").results) == 30  # none is dropped


def test_runs_before_and_after_a_change_on_one_sink_decide_no_gate(capsys):
    """Their rows have the same ids and questions, and other answers."""
    for answer in ("Anna lit it.", "Peter sold boats."):
        rows = [
            {
                "id": f"r{n}",
                "question": f"Who lit lamp {n}?",
                "contexts": ["Anna lit it."],
                "answer": answer,
            }
            for n in range(3)
        ]
        evaluate(rows, ["adherence"], judge="lexical").write_to(JsonlSink("sink.jsonl"))
    capsys.readouterr()
    assert main(["report", "sink.jsonl", "--fail-under", "adherence=0.3"]) == 3
    printed = " ".join(capsys.readouterr().out.split())
    assert "its first rows stand there again, as of a run that was repeated" in printed


def test_a_list_of_files_is_no_file():
    paths: Any = ["a.jsonl", "b.jsonl"]
    with pytest.raises(SettingError, match=r"got a list\. Several are joined by"):
        Report.from_jsonl(paths)


@pytest.mark.skipif(sys.platform == "win32", reason="it has no such modes")
def test_the_file_of_a_sink_is_for_its_owner_alone():
    before = os.umask(0o022)
    try:
        sink = JsonlSink("private.jsonl")
        for row in Report.from_jsonl(str(an_old_run())):
            sink.write(row)
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path("private.jsonl").stat().st_mode) == 0o600


def an_old_run() -> Path:
    a_run(3, 1)
    return Path("results.jsonl")


def test_an_error_of_an_earlier_version_is_read_as_the_nearest_one():
    for earlier, nearest in LEFT.items():
        assert ErrorInfo(type=earlier, message="m").type == nearest
        assert issubclass(getattr(errors, nearest), errors.JudgeError)


@pytest.mark.parametrize(
    ("number", "retrieved", "contexts"),
    [(3, None, None), (3, [{"text": "a"}], None), (3, [], ()), (4, None, ())],
)
def test_no_contexts_of_an_old_file_were_not_known_unless_nothing_was_found(
    number, retrieved, contexts, tmp_path
):
    sample = {"question": "q", "contexts": [], "retrieved": retrieved}
    row = {"index": 0, "sample": sample, "results": {}, "problem": ""}
    lines = [{"ragmetrics_report": number, "run": {}}, row, {"run": {}}]
    path = tmp_path / "old.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (result,) = Report.from_jsonl(path).results
    assert result.sample.contexts == contexts
