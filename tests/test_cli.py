"""The command line as its users meet it: exit codes, sentences, files."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from loopback import LoopbackServer
from plausible import plausible_reply

from ragmetrics_core import Report, evaluate
from ragmetrics_core.cli.main import Lines, main
from ragmetrics_core.cli.parsers import COMMANDS, parse
from ragmetrics_core.data import SampleResult
from ragmetrics_core.engine import progress
from ragmetrics_core.reporting.gates import decide, parse_gate
from ragmetrics_core.reporting.report import JsonlWriter

GOOD = {
    "question": "Who lit the lamp?",
    "contexts": ["Anna lit the lamp."],
    "answer": "Anna lit the lamp.",
}
OTHER = {**GOOD, "answer": "Anna."}
SCRIPT = str(Path(sys.executable).with_name("ragmetrics"))


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Writes rows to a JSONL file in the current folder, and returns its name."""
    monkeypatch.chdir(tmp_path)
    for name in ("RAGMETRICS_JUDGE", "RAGMETRICS_API_BASE"):
        monkeypatch.delenv(name, raising=False)

    def write(*given: Any, name: str = "rows.jsonl") -> str:
        lines = (row if isinstance(row, str) else json.dumps(row) for row in given)
        Path(name).write_text("".join(f"{line}\n" for line in lines))
        return name

    return write


def script(*arguments: str, judge_url: str = "") -> list[str]:
    judge = ["--judge", "openai/x", "--api-base", judge_url] if judge_url else []
    return [SCRIPT, *arguments, *judge]


def environment() -> dict[str, str]:
    return {**os.environ, "OPENAI_API_KEY": "none", "PYTHONWARNINGS": "default"}


def test_all_well(rows: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", rows(GOOD), "--explain"]) == 0
    shown = capsys.readouterr()
    assert "context_utilization  1.000" in shown.out
    not_scored = "context_recall, rows not scored: 1 without context or another input."
    assert not_scored in shown.out
    assert "Rows: 1 no fault found." in shown.out
    assert (
        "Judge: lexical (compares words; misses subtle failures, and some gross ones)."
        in shown.out
    )
    assert "context_utilization" not in shown.err


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (
            ["--fail-under", "utilization=0.5"],
            0,
            "passed: context_utilization",
        ),
        (
            ["--fail-under", "adherence=0.99"],
            1,
            "failed: context_adherence",
        ),
        (["--fail-under", "adherence=0.5"], 0, "1 row cannot tell it from 0.5"),
        (
            ["--fail-under", "adherence=0.5", "--strict"],
            3,
            "undecided: context_adherence",
        ),
        (["--fail-under", "answered=0.8"], 0, "passed: answered reaches 0.8"),
        (
            ["--fail-under", "share(adherence>0.5)=0.9"],
            0,
            "passed: share(context_adherence>0.5) reaches 0.9: share 1.000 of 1 row",
        ),
        (
            ["--fail-under", "adherence=0.5", "--fail-under", "recall=0.5"],
            3,
            "undecided: context_recall is not held: nothing was scored",
        ),
    ],
)
def test_gates(
    rows: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    code: int,
    said: str,
) -> None:
    assert main(["evaluate", rows(GOOD), "--quiet", *options]) == code
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("mode", [(), ("--strict",)])
def test_a_gate_does_not_pass_rows_that_nobody_judged(
    rows: Callable[..., str], capsys: pytest.CaptureFixture[str], mode: tuple[str, ...]
) -> None:
    file = rows(*[GOOD] * 3, *[{**GOOD, "contexts": None}] * 97)
    command = [
        "evaluate",
        file,
        "--metrics",
        "adherence",
        "--quiet",
        *mode,
        "--fail-under",
        "adherence=0.1",
    ]
    assert main(command) == 3
    assert ": 3 of 100 rows were scored" in capsys.readouterr().out
    assert main([*command, "--min-scored", "0.03"]) == 0
    with pytest.raises(SystemExit):
        main([*command, "--min-scored", "95"])


def test_a_gate_passes_on_its_whole_interval(
    rows: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            ["evaluate", rows(*[GOOD] * 60), "--fail-under", "context_utilization=0.9"]
        )
        == 0
    )
    assert "passed: context_utilization" in capsys.readouterr().out


def test_nothing_scored(
    rows: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    loopback_server: Callable[..., LoopbackServer],
) -> None:
    server = loopback_server(lambda body: "no verdict at all")
    arguments = [
        "--judge",
        "openai/x",
        "--api-base",
        server.base_url,
        "--metrics",
        "recall",
    ]
    assert (
        run_with_key(["evaluate", rows({**GOOD, "reference": "Anna."}), *arguments])
        == 1
    )
    shown = capsys.readouterr()
    assert "1 result failed: " in shown.out
    assert shown.err.endswith("ragmetrics: nothing was scored\n")


def run_with_key(arguments: Sequence[str]) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "none")
        return main(arguments)


def fails(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> str:
    """The last line on standard error of a command that exits with 2."""
    assert main(arguments) == 2
    return capsys.readouterr().err.splitlines()[-1]


BAD_INPUT = [
    (["evaluate", "missing.jsonl"], "missing.jsonl: no such file"),
    (["evaluate", "."], ". is a folder; give the files in it"),
    (["evaluate", "rows.jsonl", "missing.jsonl"], "missing.jsonl: no such file"),
    (
        ["evaluate", "rows.jsonl", "--stop-at-bad-row"],
        "rows.jsonl, line 2: answer: needs a text, found dict",
    ),
    (
        ["evaluate", "rows.jsonl", "--answer-column", "reply", "--stop-at-bad-row"],
        "rows.jsonl, line 1: no column 'reply'",
    ),
    (
        ["evaluate", "rows.jsonl", "--out", "rows.jsonl"],
        "--out rows.jsonl would overwrite the input",
    ),
    (
        ["evaluate", "rows.jsonl", "--out", "rows.jsonl/where.jsonl"],
        "--out rows.jsonl/where.jsonl cannot be written: ",
    ),
    (
        ["evaluate", "rows.jsonl", "--metrics", "bleu"],
        "no metric is named 'bleu'; there are: context_utilization",
    ),
    (["evaluate", "rows.jsonl", "--metrics", ","], "no metric is named ''"),
    (
        ["evaluate", "rows.jsonl", "--fail-under", "bleu=1"],
        "no metric 'bleu' for a gate",
    ),
    (
        ["evaluate", "rows.jsonl", "--fail-under", "recall=2"],
        "the threshold of a gate is a number from 0 to 1",
    ),
    (
        [
            "evaluate",
            "rows.jsonl",
            "--metrics",
            "recall",
            "--fail-under",
            "adherence=1",
        ],
        "no metric 'adherence'",
    ),
    (
        ["evaluate", "rows.jsonl", "--set", "polls=3"],
        "--set is written METRIC.SETTING=VALUE",
    ),
    (
        ["evaluate", "rows.jsonl", "--set", "adherence.poll=3"],
        "poll: no such setting (did you mean 'polls'?); there are: name, model,",
    ),
    (
        ["evaluate", "rows.jsonl", "--set", "adherence.polls=0"],
        "ContextAdherence: polls: Input should be greater",
    ),
    (["evaluate", "rows.jsonl", "--set", "bleu.polls=3"], "no metric is named 'bleu'"),
    (
        ["evaluate", "rows.jsonl", "--metrics", "recall", "--set", "adherence.polls=3"],
        "is not among the metrics",
    ),
    (
        ["evaluate", "rows.jsonl", "--api-base", "http://127.0.0.1:1"],
        "--api-base needs a model",
    ),
    (
        ["evaluate", "rows.jsonl", "--judge="],
        "the value of --judge is empty, perhaps a variable that is not set",
    ),
    (["evaluate", "rows.jsonl", "--judge", " "], "the value of --judge is empty"),
    (["evaluate", "rows.jsonl", ""], "an argument is empty"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD_INPUT)
def test_bad_input(
    rows: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    rows(GOOD, {**GOOD, "answer": {}})
    assert said in fails(capsys, arguments)
    assert json.loads(Path("rows.jsonl").read_text().splitlines()[0]) == GOOD


def with_an_empty_value(example: str) -> list[list[str]]:
    """The arguments of an example, once with each of its files and values of options given empty."""
    arguments = shlex.split(example)[1:]
    places = [
        place
        for place, word in enumerate(arguments)
        if not word.startswith("--")
        and (arguments[place - 1].startswith("--") or "." in word)
    ]
    return [[*arguments[:place], "", *arguments[place + 1 :]] for place in places]


OPTIONS_OF_MODELS = [
    "--judge",
    "--api-base",
    "--api-key-env",
    "--store",
    "--max-calls",
    "--metrics",
    "--cluster",
]
EMPTY_VALUES = [
    arguments
    for command in COMMANDS.values()
    for arguments in with_an_empty_value(command["example"])
]
EMPTY_VALUES += [["evaluate", "rows.jsonl", option, ""] for option in OPTIONS_OF_MODELS]
EMPTY_VALUES += [
    ["evaluate", "rows.jsonl", f"{option}="] for option in OPTIONS_OF_MODELS
]
EMPTY_VALUES += [
    ["compare", "a.jsonl", "b.jsonl", "--metrics", ""],
    ["compare", "a.jsonl", "b.jsonl", "--slice="],
]


@pytest.mark.parametrize("arguments", EMPTY_VALUES, ids=" ".join)
def test_a_variable_that_is_not_set_is_no_option_that_is_not_given(
    rows: Callable[..., str], capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    rows(GOOD)
    before = sorted(Path().iterdir())
    assert "is empty, perhaps a variable that is not set; give a value" in fails(
        capsys, arguments
    )
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize(
    "setting",
    ['judge = ""', 'api_base = " "', 'store = ""', 'metrics = [""]', 'gates = [""]'],
)
def test_an_empty_setting_of_the_project_is_refused(
    rows: Callable[..., str], capsys: pytest.CaptureFixture[str], setting: str
) -> None:
    rows(GOOD)
    Path("ragmetrics.toml").write_text(setting, "utf-8")
    assert "is empty: give a value, or leave it out" in fails(
        capsys, ["evaluate", "rows.jsonl"]
    )


@pytest.mark.parametrize(
    "options",
    [
        ["--limit", "0"],
        ["--limit", "x"],
        ["--concurrency", "-1"],
        ["--lim", "3"],
        ["--x"],
    ],
)
def test_options_that_do_not_parse(
    rows: Callable[..., str], options: list[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["evaluate", rows(GOOD), *options])


@pytest.mark.parametrize(
    "options",
    [["--strict"], ["--min-answered", "0.1"], ["--min-scored", "0.99"]],
    ids=lambda options: options[0],
)
@pytest.mark.parametrize(
    ("command", "gate"),
    [
        (["evaluate", "rows.jsonl", "--metrics", "adherence"], "--fail-under"),
        (["compare", "whole.jsonl", "copy.jsonl"], "--fail-on-regression"),
    ],
    ids=["evaluate", "compare"],
)
def test_how_a_gate_is_held_is_refused_where_none_is(
    rows: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    gate: str,
    options: list[str],
) -> None:
    """Who says how a gate is held has forgotten the gate."""
    if options[0].startswith("--min") and command[0] == "compare":
        return
    rows(GOOD)
    finished("whole.jsonl")
    Path("copy.jsonl").write_bytes(Path("whole.jsonl").read_bytes())
    said = fails(capsys, [*command, *options])
    assert f"{options[0]} belongs to {gate}, and no gate is held" in said
    assert "Spent" not in said
    assert main(command) == 0
    given = {"--fail-under": [gate, "adherence=0"], "--fail-on-regression": [gate]}
    assert main([*command, *given[gate], *options]) in (0, 1, 3)


@pytest.mark.parametrize("suffix", ["csv", "TSV", "parquet"])
def test_results_are_not_written_under_the_name_of_a_table(
    rows: Callable[..., str], capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    command = ["evaluate", rows(GOOD), "--out", f"results.{suffix}"]
    assert "name it .jsonl" in fails(capsys, command)
    assert not Path(f"results.{suffix}").exists()


def test_bad_rows_are_named_counted_and_left_out(
    rows: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {**GOOD, "answer": {"SECRET": 7}}
    assert (
        main(
            ["evaluate", rows(GOOD, *[bad] * 7, "{"), "--explain", "--out", "out.jsonl"]
        )
        == 0
    )
    shown = capsys.readouterr()
    assert (
        "ragmetrics: rows.jsonl, line 2: answer: needs a text, found dict" in shown.err
    )
    assert "rows.jsonl, line 6:" in shown.err
    assert "rows.jsonl, line 7:" not in shown.err
    assert "ragmetrics: rows.jsonl: further bad rows are only counted" in shown.err
    assert "9 rows, 8 unreadable." in shown.out
    assert "SECRET" not in shown.out + shown.err
    problems = [result.problem for result in Report.from_jsonl("out.jsonl").results]
    assert (
        problems[-1]
        == "rows.jsonl, line 9: not JSON (Expecting property name enclosed in double"
        " quotes)"
    )


def test_no_metric_applies(
    rows: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    said = fails(capsys, ["evaluate", rows({"frage": "Wer?", "antwort": "Anna."})])
    assert (
        "no metric applies to rows.jsonl (rows: 1, bad: 0; context_utilization: no"
        " question; context_a" in said
    )
    assert (
        "; its columns are frage, antwort; name those that hold them: --question-column"
        " NAME, --contexts-column NAME, --answer-column NAME" in said
    )
    for options in ([], ["--dry-run"]):
        said = fails(
            capsys,
            [
                "evaluate",
                rows({"prompt": "Who?", "docs": ["Anna."], "said": "Anna."}),
                *options,
            ],
        )
        assert "no answer" in said
        assert "--answer-column said, --reference-column said" in said
        said = fails(capsys, ["evaluate", rows(), *options])
        assert said.startswith("ragmetrics: rows.jsonl holds no rows: write it again")
    assert "no metric applies to rows.jsonl (rows: 2, bad: 2)" in fails(
        capsys, ["evaluate", rows("{]", "3")]
    )
    assert "; context_recall: no reference)" in fails(
        capsys, ["evaluate", rows(GOOD), "--metrics", "recall"]
    )


def test_several_files_are_one_run(
    rows: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    names = [
        rows(GOOD, GOOD, name="a.jsonl"),
        rows(GOOD, name="b.jsonl"),
        rows({"answer": "x"}, name="c.jsonl"),
    ]
    assert main(["evaluate", *names, "--explain"]) == 0
    assert "Rows: 3 no fault found, 1 input missing." in capsys.readouterr().out
    assert main(["evaluate", "c.jsonl", rows({"answer": "y"}, name="d.jsonl")]) == 2
    first, last = capsys.readouterr().err.splitlines()[-2:]
    assert first.startswith("ragmetrics: no metric applies to c.jsonl (")
    assert last.startswith("ragmetrics: no metric applies to d.jsonl (rows: 1, bad: 0")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty.jsonl", ""),
        ("empty.json", "[]"),
        ("empty.csv", "question,contexts,answer\n"),
    ],
)
@pytest.mark.parametrize("large", [False, True])
def test_an_empty_file_among_others_is_refused_before_a_gate_passes_without_it(
    rows: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    large: bool,
    name: str,
    text: str,
) -> None:
    """A large file is not read twice, so each file is looked into before the run."""
    if large:
        monkeypatch.setattr("ragmetrics_core.cli.source._LARGE", 0)
    Path(name).write_text(text)
    command = ["evaluate", rows(*[GOOD] * 60), name, "--fail-under", "adherence=0.1"]
    said = fails(capsys, command)
    assert f"{name} holds no rows" in said


def finished(path: str) -> list[str]:
    """The lines of a results file that a whole run over 60 rows wrote."""
    made = [{**GOOD, "id": str(n), "question": f"Who lit lamp {n}?"} for n in range(60)]
    report = evaluate(made, "adherence", judge="lexical", progress=False)
    report.to_jsonl(path)
    return Path(path).read_text().splitlines()


PARTS: dict[str, Callable[[list[str]], list[str]]] = {
    "killed": lambda lines: lines[:41],
    "closed as interrupted": lambda lines: [
        *lines[:41],
        json.dumps({"run": {"interrupted": True}}),
    ],
    "stopped at a limit": lambda lines: [
        *lines[:41],
        json.dumps({"run": {"stopped": "max_calls"}}),
    ],
    "until decided": lambda lines: [
        *lines[:41],
        json.dumps(
            {
                "run": {
                    "decisions": [
                        {"metric": "m", "outcome": "passed", "sentence": "enough"}
                    ]
                }
            }
        ),
    ],
    "behind a whole one": lambda lines: [*lines, *lines[:41]],
    "before a whole one": lambda lines: [*lines[:41], *lines],
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", ["part.jsonl", "part.jsonl.partial"])
def test_a_gate_on_results_that_are_a_part_is_undecided(
    rows: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    part: str,
    name: str,
) -> None:
    """Whole results are judged once more and pass; a part says so wherever it goes."""
    rows()
    lines = finished("whole.jsonl")
    gate = ["--metrics", "adherence", "--fail-under", "adherence=0.1"]
    assert main(["evaluate", "whole.jsonl", *gate]) == 0
    assert " part" not in capsys.readouterr().out
    Path(name).write_text("\n".join(PARTS[part](lines)) + "\n")
    for options in ([], ["--strict"]):
        command = ["evaluate", name, *gate, *options, "--summary", "s.md"]
        assert main([*command, "--out", "again.jsonl"]) == 3
        assert f"{name} is a part" in capsys.readouterr().out
        assert f"{name} is a part" in Path("s.md").read_text()
    # what was made of a part is one, too
    assert main(["evaluate", "again.jsonl", *gate]) == 3
    said = fails(capsys, ["evaluate", name, *gate, "--until-decided"])
    assert f"{name} is a part" in said


def test_a_gate_on_a_report_that_is_a_part_is_undecided_in_python(
    rows: Callable[..., str],
) -> None:
    rows()
    lines = finished("whole.jsonl")
    gate = parse_gate("adherence=0.1", ["context_adherence"])
    for part, outcome in {"killed": "undecided", "": "passed"}.items():
        text = "\n".join(PARTS[part](lines) if part else lines) + "\n"
        Path("report.jsonl").write_text(text)
        before = Report.from_jsonl("report.jsonl")
        again = evaluate(before, "adherence", judge="lexical", progress=False)
        assert decide(gate, again).outcome == outcome


def test_a_broken_file_is_found_before_anything_is_judged(
    rows: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    loopback_server: Callable[..., LoopbackServer],
) -> None:
    server = loopback_server()
    judge = ["--judge", "openai/x", "--api-base", server.base_url, "--out", "out.jsonl"]
    Path("b.json").write_text("[{]")
    assert "b.json: not JSON" in fails(
        capsys, ["evaluate", rows(GOOD), "b.json", *judge]
    )
    names = [rows(GOOD, name="a.jsonl"), rows(*[GOOD] * 200, "{", name="c.jsonl")]
    assert "c.jsonl, line 201: not JSON" in fails(
        capsys, ["evaluate", *names, "--stop-at-bad-row", *judge]
    )
    assert not server.requests
    assert not Path("out.jsonl").exists()


def test_limit_holds_for_each_file(
    rows: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    names = [rows(GOOD, GOOD, GOOD, name=name) for name in ("a.jsonl", "b.jsonl")]
    assert main(["evaluate", *names, "--limit", "2", "--explain"]) == 0
    assert "Rows: 4 no fault found." in capsys.readouterr().out


def test_columns_can_be_named(
    rows: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    row = {
        "q": "Who?",
        "run": {"found": ["Anna did."]},
        "a": "Anna did.",
        "gold": "Anna did.",
        "f": ["Anna"],
        "n": 1,
    }
    options = [
        "--question-column",
        "q",
        "--contexts-column",
        "run.found",
        "--answer-column",
        "a",
    ]
    options += [
        "--ground-truth-column",
        "gold",
        "--facts-column",
        "f",
        "--id-column",
        "n",
        "--out",
        "out.jsonl",
    ]
    assert main(["evaluate", rows(row), *options]) == 0
    assert "not scored" not in capsys.readouterr().out
    (result,) = Report.from_jsonl("out.jsonl").results
    assert result.sample is not None
    assert (result.sample.id, result.sample.reference, result.sample.question) == (
        "1",
        ("Anna did.",),
        "Who?",
    )
    assert {outcome.status for outcome in result.results.values()} == {"scored"}


def test_settings_reach_the_metrics(rows: Callable[..., str]) -> None:
    options = [
        "--metrics",
        "adherence,utilization",
        "--set",
        "adherence.polls=3",
        "--set",
        "utilization.k=1",
    ]
    options += ["--set", "adherence.language=German", "--out", "out.jsonl"]
    assert main(["evaluate", rows(GOOD), *options]) == 0
    signatures = Report.from_jsonl("out.jsonl").run.metrics
    assert list(signatures) == ["context_adherence", "context_utilization"]
    assert signatures["context_adherence"].settings["polls"] == "3"


def test_out_holds_what_was_measured(
    rows: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", rows(GOOD, GOOD), "--out", "out.jsonl"]) == 0
    assert "compare out.jsonl NEW.jsonl" in capsys.readouterr().out
    report = Report.from_jsonl("out.jsonl")
    assert (len(report.results), report.run.interrupted) == (2, False)
    assert report.scores("context_utilization") == [1.0, 1.0]


def test_metrics_lists_all_and_what_they_need(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["evaluate", "--list-metrics"])
    shown = capsys.readouterr().out
    assert "context_adherence (by default)\n" in shown
    assert "citation_quality (if --metrics names it)\n" in shown
    assert "needs: reference or facts" in shown
    assert shown.count("signature: ") == 8


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out.startswith("ragmetrics 0.")


def test_a_judge_that_cannot_be_used(
    rows: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    loopback_server: Callable[..., LoopbackServer],
) -> None:
    from loopback import Fault

    server = loopback_server(faults=lambda number: Fault(401, code="invalid_api_key"))
    arguments = [
        "evaluate",
        rows(*[GOOD] * 50),
        "--judge",
        "openai/x",
        "--api-base",
        server.base_url,
    ]
    assert run_with_key(arguments) == 2
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .startswith("ragmetrics: the judge cannot be used: ")
    )
    assert len(server.requests) == 1


def test_a_model_as_judge(
    rows: Callable[..., str], loopback_server: Callable[..., LoopbackServer]
) -> None:
    server = loopback_server()
    command = script(
        "evaluate",
        "--explain",
        rows(GOOD, OTHER),
        "--quiet",
        "--out",
        "out.jsonl",
        judge_url=server.base_url,
    )
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Spent: {len(server.requests)} calls, " in done.stdout
    assert "price unknown" in done.stdout
    assert len(Report.from_jsonl("out.jsonl").results) == 2


def test_progress_goes_to_standard_error(
    rows: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    often = (
        "import sys; from ragmetrics_core.engine import progress; progress.LOG_SECONDS"
        " = 0.0; "
    )
    often += "from ragmetrics_core.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [
        sys.executable,
        "-c",
        often,
        "evaluate",
        rows(GOOD, OTHER),
        "--judge",
        "lexical",
    ]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=False
    )
    first, last = done.stderr.splitlines()
    assert re.fullmatch(r"1/2 samples, 0 failed, 0 calls, \$0\.0000, \d+ s left", first)
    assert last == "2/2 samples, 0 failed, 0 calls, $0.0000"
    assert "samples, 0 failed" not in done.stdout
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    assert main([*command[3:], "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_interrupt_leaves_what_was_done(
    rows: Callable[..., str], loopback_server: Callable[..., LoopbackServer]
) -> None:
    held = {"question": "HOLD", "contexts": ["x"], "answer": "y"}
    distinct = [{**GOOD, "answer": f"{number} lamps"} for number in range(3)]
    with LoopbackServer(lambda _: '{"reason": "r", "useful": 1}') as server:
        plain, released = server.reply, server.stopped

        def reply(body: Any) -> Any:
            if "HOLD" in json.dumps(body):
                released.wait()
            return plain(body)

        server.reply = reply
        name = rows(*distinct, held, held)
        options = ["--quiet", "--out", "out.jsonl", "--metrics", "utilization"]
        # Below a shell in the background an interrupt is ignored; the launcher makes it
        # count again.
        launcher = (
            "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL);"
            " os.execv(sys.argv[1], sys.argv[1:])"
        )
        command = [
            sys.executable,
            "-c",
            launcher,
            *script("evaluate", name, *options, judge_url=server.base_url),
        ]
        with subprocess.Popen(
            command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            try:
                wait_for_lines(Path("out.jsonl.partial"), 4, process)
                process.send_signal(signal.SIGINT)
                output, errors = process.communicate(timeout=60)
            finally:
                process.kill()
    assert process.returncode == 130
    # LiteLLM may warn of log lines of its own that an interrupt cuts off.
    assert (
        "ragmetrics: interrupted; what was done is counted above\n" in errors.decode()
    )
    assert "Traceback" not in errors.decode()
    assert b"context_utilization" in output
    assert (
        "ragmetrics: out.jsonl is as it was; what was judged stands in"
        " out.jsonl.partial\n" in errors.decode()
    )
    assert not Path("out.jsonl").exists()
    report = Report.from_jsonl("out.jsonl.partial")
    # which shared its call with the last
    assert [bool(row.results) for row in report.results] == [True] * 3 + [False]
    # also that which was given up
    assert [row.usage.calls for row in report.results] == [1] * 4
    assert report.run.interrupted
    assert main(["evaluate", "out.jsonl.partial", "--out", "other.jsonl"]) == 0


def test_an_interrupt_between_two_results_tells_what_was_in_flight(
    rows: Callable[..., str],
    loopback_server: Callable[..., LoopbackServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = loopback_server(plausible_reply)
    monkeypatch.setenv("RAGMETRICS_JUDGE", "openai-compatible/test")
    monkeypatch.setenv("RAGMETRICS_API_BASE", server.base_url)
    write, written = JsonlWriter.write, Counter[str]()

    def pressed(self: JsonlWriter, result: SampleResult) -> None:
        write(self, result)
        written["rows"] += 1
        if written["rows"] == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(JsonlWriter, "write", pressed)
    name = rows(*({**GOOD, "answer": f"{number} lamps"} for number in range(400)))
    options = [
        "--quiet",
        "--no-store",
        "--metrics",
        "utilization",
        "--concurrency",
        "2",
        "--out",
        "out.jsonl",
    ]
    assert main(["evaluate", name, *options]) == 130
    report = Report.from_jsonl("out.jsonl.partial")
    assert report.run.interrupted
    # one that is given up may not have arrived
    assert report.usage.calls >= len(server.requests)
    assert 3 <= len(report.results) < 400


def wait_for_lines(path: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a file has so many lines, or the process has ended, which fails."""
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05)


def test_a_reader_that_goes_away_changes_no_exit_code(rows: Callable[..., str]) -> None:
    name = rows(
        *[{**GOOD, "id": one, "answer": "Nobody knows kayaks."} for one in "abc"]
    )
    command = script("evaluate", name, "--quiet", "--fail-under", "adherence=0.9")
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            command,
            env=environment(),
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
        )
        demo = subprocess.run(
            script("demo"), stdout=writing, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")
    assert (demo.returncode, demo.stderr) == (0, b"")


def test_a_dry_run_decides_no_gate(
    rows: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    gates = ["--fail-under", "adherence=0.9", "--fail-under", "utilization=0.5"]
    assert main(["evaluate", rows(GOOD), "--dry-run", *gates]) == 3
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "undecided: context_adherence=0.9: a dry run judges nothing.",
        "undecided: context_utilization=0.5: a dry run judges nothing.",
    ]


def test_cells_that_say_nothing_are_missing(rows: Callable[..., str]) -> None:
    gaps = ["nan", "NaN", "NULL", "null", " <NA> ", r"\N", "#N/A"]
    for name, comma in (("a.csv", ","), ("a.tsv", "\t")):
        lines = [
            "question,contexts,answer,lang",
            "q,c,None,",  # may be an answer, but is no context
            "q,None,N/A,x",
            "q,c,,",
            *(f"q,{gap},{gap}," for gap in gaps),
        ]
        Path(name).write_text("\n".join(lines).replace(",", comma))
        assert (
            main(
                [
                    "evaluate",
                    name,
                    "--metrics",
                    "adherence,utilization",
                    "--out",
                    "out.jsonl",
                ]
            )
            == 0
        )
        read = [
            row.sample for row in Report.from_jsonl("out.jsonl").results if row.sample
        ]
        assert [sample.answer for sample in read] == ["None", "N/A", *[None] * 8]
        assert [len(sample.known_contexts) for sample in read] == [1, 0, 1, *[0] * 7]


def test_a_narrow_encoding_does_not_end_the_run(rows: Callable[..., str]) -> None:
    narrow = {**environment(), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        script("evaluate", rows(GOOD), "--explain"),
        env=narrow,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert b"0.207?1.000" in done.stdout


def test_columns_that_nobody_read_are_named(
    rows: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    row = {**GOOD, "refrence": "Anna.", "metadata": {"lang": "en"}}
    assert (
        main(
            [
                "evaluate",
                rows(row, {**row, "late": 1}),
                "--explain",
                "--out",
                "out.jsonl",
            ]
        )
        == 0
    )
    assert (
        "rows.jsonl: columns that were not recognised: refrence, late, kept as"
        " metadata\n" in capsys.readouterr().out
    )
    assert main(["evaluate", "out.jsonl"]) == 0
    assert main(["evaluate", rows(GOOD)]) == 0
    assert "not recognised" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["a", "b", None], None),
        (
            ["a", "b", None, None],
            "1 sample has the question, contexts and answer of an earlier one",
        ),
        (["a", "b", "a"], "1 sample has the id of an earlier one"),
        (["a", "a", "b", "a", "b"], "3 samples have the id of an earlier one"),
    ],
)
def test_ids_that_are_not_unique_are_warned_of_once(
    rows: Callable[..., str],
    caplog: pytest.LogCaptureFixture,
    ids: list[str | None],
    said: str | None,
) -> None:
    given = [{**GOOD, "id": one} for one in ids]
    assert main(["evaluate", rows(*given)]) == 0
    warnings = [
        record.message for record in caplog.records if record.levelname == "WARNING"
    ]
    assert [message.startswith(said or "") for message in warnings] == (
        [True] if said else []
    )
    caplog.clear()
    evaluate([{**GOOD, "id": one} for one in ids], metrics="utilization")
    assert len(
        [record for record in caplog.records if record.levelname == "WARNING"]
    ) == (1 if said else 0)


def test_a_log_line_is_not_glued_to_a_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the line of a counter or a bar is open when something is logged."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    handler = Lines()
    for stream, line in (
        (Terminal(), "\r\x1b[Kkept in x\n"),
        (io.StringIO(), "kept in x\n"),
    ):
        monkeypatch.setattr(sys, "stderr", stream)
        handler.emit(logging.makeLogRecord({"msg": "kept in x"}))
        assert stream.getvalue() == line


def test_a_gate_for_each_language_and_the_summary_of_a_job(
    rows: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = rows(
        {**GOOD, "language": "de"},
        {
            **GOOD,
            "question": "Who sang?",
            "answer": "Bert sang of 1856.",
            "language": "e|n",
        },
    )
    gate = ["--fail-under", "adherence=0.5@metadata.language"]
    assert main(["evaluate", name, *gate, "--summary", "summary.md"]) == 1
    told = Path("summary.md").read_text()
    assert (
        "- **failed**: context_adherence by language: 1 of 2 slices reach 0.5. "
        r'"e\|n": misses 0.5' in told
    )
    assert "| context_adherence | 0." in told
    assert (
        "Judge: lexical (compares words; misses subtle failures, and some gross ones)."
        in told
    )
    assert "Bert" not in told
    job = Path("job.md")
    job.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(job))
    assert main(["evaluate", name, "--out", "a.jsonl"]) == 0
    assert job.read_text().startswith("before\n## ragmetrics\n")
    assert main(["compare", "a.jsonl", "a.jsonl".replace("a", "b")]) == 2
    Path("b.jsonl").write_text(Path("a.jsonl").read_text())
    assert main(["compare", "a.jsonl", "b.jsonl"]) == 0
    told = r"a\.jsonl, .* UTC → b\.jsonl, .* UTC\nBoth runs came to the same"
    assert re.search(rf"## ragmetrics compare\n\n```\n{told}", job.read_text())
    assert "{" not in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_an_example_that_parses(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    example = COMMANDS[name]["example"]
    with pytest.raises(SystemExit) as ended:
        main([*name.split(), "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert told.endswith(f"Example: {example}")
    below = [other for other in COMMANDS if other.startswith(f"{name} ")]
    if name == "dataset":
        assert all(f"{other.split()[1]} " in told for other in below)
    else:
        assert parse(shlex.split(example)[1:]).command == name
    with pytest.raises(SystemExit):
        main(["--help"])
    assert (f" {name} " in capsys.readouterr().out) is (" " not in name)


MISTYPED = {
    "evalute a.jsonl": "there is no 'evalute' (did you mean 'evaluate'?)",
    "dataset discret docs": "there is no 'discret' (did you mean 'discrete'?)",
    "card --dat x": "there is no option --dat (did you mean '--data'?)",
    "card --data x --limit many": "--limit: needs a whole number of at least 1; got 'many'",
    "card --data x --limit 0": "--limit: needs a whole number of at least 1; got '0'",
    "evaluate a.jsonl --max-cost cheap": "--max-cost: needs a number; got 'cheap'",
    "evaluate a.jsonl --min-scored 95": "--min-scored: needs a number from 0 to 1; got '95'",
    "evaluate a.jsonl --store x --no-store": "not allowed with argument --store",
    "dataset facts a.jsonl --extraction ct": "there is no 'ct' (did you mean 'cot'?)",
    "store prun": "there is no 'prun' (did you mean 'prune'?)",
}


@pytest.mark.parametrize("typed", MISTYPED)
def test_what_is_mistyped_names_what_would_be_right(
    typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(typed.split())
    assert ended.value.code == 2
    assert MISTYPED[typed] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("faithfulness", "context_adherence"),
        ("FaithfulnessMetric", "context_adherence"),
        ("Groundedness", "context_adherence"),
        ("answer_correctness", "context_recall"),
        ("context-precision", "context_utilization"),
        ("ContextualPrecisionMetric", "context_utilization"),
        ("contextual_recall", "retrieval_accuracy"),
        ("context_adherance", "context_adherence"),
    ],
)
def test_a_name_of_another_library_gets_the_nearest_of_ours(
    name: str,
    nearest: str,
    rows: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["evaluate", rows(GOOD), "--metrics", name]) == 2
    assert f" (did you mean {nearest!r}?); there are: " in capsys.readouterr().err


def test_a_name_that_is_like_none_gets_no_suggestion(
    rows: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", rows(GOOD), "--metrics", "toxicity"]) == 2
    assert "nearest" not in capsys.readouterr().err
