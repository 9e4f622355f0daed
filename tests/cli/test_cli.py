"""The command line as its users meet it: exit codes, sentences, files."""

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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from loopback import Fault, LoopbackServer
from plausible import plausible_reply

from ragmetrics_core import Report, evaluate
from ragmetrics_core.cli.main import Lines, main
from ragmetrics_core.cli.parsers import COMMANDS, parse
from ragmetrics_core.data import SampleResult
from ragmetrics_core.reporting.gates import decide, parse_gate
from ragmetrics_core.reporting.jsonl import JsonlWriter

GOOD = {
    "question": "Who lit the lamp?",
    "contexts": ["Anna lit the lamp."],
    "answer": "Anna lit the lamp.",
}
OTHER = {**GOOD, "answer": "Anna."}
SCRIPT = str(Path(sys.executable).with_name("ragmetrics"))
ENVIRONMENT = {"OPENAI_API_KEY": "none", "PYTHONWARNINGS": "default"}


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Writes rows to a JSONL file in the current folder, and returns its name."""
    monkeypatch.chdir(tmp_path)
    for name in ("RAGMETRICS_JUDGE", "RAGMETRICS_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "none")

    def write(*given: Any, name: str = "rows.jsonl") -> str:
        lines = (row if isinstance(row, str) else json.dumps(row) for row in given)
        Path(name).write_text("".join(f"{line}\n" for line in lines))
        return name

    return write


def run(words: str) -> int:
    """Run ``ragmetrics`` with words as a shell splits them."""
    return main(shlex.split(words))


def script(*words: str, env: dict[str, str] = ENVIRONMENT, **pipes: Any) -> Any:
    """Run ``ragmetrics`` as a process of its own, in the test's environment and ``env``."""
    pipes = pipes or {"capture_output": True}
    env = {**os.environ, **env}
    return subprocess.run([SCRIPT, *words], env=env, **pipes)


def fails(capsys: pytest.CaptureFixture[str], words: str) -> str:
    """The last line on standard error of a command that exits with 2."""
    assert run(words) == 2
    return capsys.readouterr().err.splitlines()[-1]


# Gates and exit codes


def test_all_well(rows, capsys, monkeypatch):
    rows(GOOD, GOOD)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert run("evaluate rows.jsonl --explain --out out.jsonl") == 0
    shown = capsys.readouterr()
    assert "context_utilization 1.000" in shown.out
    not_scored = "context_recall, rows not scored: 2 without an input that it needs."
    assert not_scored in shown.out
    assert "Rows: 2 no fault found." in shown.out
    worth = "words only (lexical: misses subtle failures, and some gross ones)"
    assert f"Judge: {worth}." in shown.out
    # the very command of an evaluation that reads
    judged = "next   ragmetrics evaluate rows.jsonl --judge gpt-4o-mini"
    assert judged in shown.out
    assert "context_utilization" not in shown.err
    report = Report.from_jsonl("out.jsonl")
    assert (len(report.results), report.run.interrupted) == (2, False)
    assert report.scores("context_utilization") == [1.0, 1.0]


# options behind one good row, the exit code, and what is printed
GATES = [
    ("--fail-under utilization=0.5", 0, "passed: context_utilization"),
    ("--fail-under adherence=0.99", 1, "failed: context_adherence"),
    ("--fail-under adherence=0.5", 0, "A close call: other rows could miss 0.5"),
    ("--fail-under adherence=0.5 --strict", 3, "undecided: context_adherence"),
    ("--fail-under answered=0.8", 0, "passed: answered reaches 0.8"),
    (
        "--fail-under 'share(adherence>0.5)=0.9'",
        0,
        "passed: share(context_adherence>0.5) reaches 0.9: share 1.000 of 1 row",
    ),
    (
        "--fail-under adherence=0.5 --fail-under recall=0.5",
        3,
        "undecided: context_recall cannot be decided: nothing was scored",
    ),
    (
        "--dry-run --fail-under adherence=0.9",
        3,
        "undecided: context_adherence=0.9: a dry run judges nothing.",
    ),
]


@pytest.mark.parametrize(("options", "code", "said"), GATES)
def test_gates(rows, capsys, options, code, said):
    assert run(f"evaluate {rows(GOOD)} --quiet {options}") == code
    assert said in " ".join(capsys.readouterr().out.split())  # lines are wrapped


def test_a_share_of_answers_that_nobody_asks_for_is_not_held(rows, capsys):
    """Answers that decline as their references do have a recall of 1."""
    unknown = "I don't know."
    rows(*[{**GOOD, "answer": unknown, "reference": unknown}] * 20)
    gate = "evaluate rows.jsonl --metrics recall --fail-under recall=0.5"
    said = "o metric of the run tells whether answers decline."
    for share in ("0.9", "0.5"):  # 0.5 is the default, too
        assert run(f"{gate} --min-answered {share}") == 3
        assert f"cannot be decided: n{said}" in " ".join(
            capsys.readouterr().out.split()
        )
    assert run(gate) == 0
    assert f"N{said}" in " ".join(capsys.readouterr().out.split())


def test_an_application_that_always_declines_is_no_bad_input(rows, capsys):
    """The same verdict as ``report`` gives on the file."""
    rows(*[{**GOOD, "answer": "I don't know."}] * 40)
    command = "evaluate rows.jsonl --metrics adherence --out out.jsonl"
    for gate, code, said in (
        ("", 1, "0 of 40 answered"),
        ("--fail-under adherence=0.5", 3, "undecided: context_adherence cannot be"),
    ):
        assert run(f"{command} {gate} --summary out.md") == code
        assert said in " ".join(capsys.readouterr().out.split())
        assert run(f"report out.jsonl {gate}") == code
        assert said in " ".join(capsys.readouterr().out.split())
        assert "40 declined" in Path("out.md").read_text()


@pytest.mark.parametrize("mode", ["", "--strict"])
def test_a_gate_does_not_pass_rows_that_nobody_judged(rows, capsys, mode):
    judged = [{**GOOD, "question": f"Who lit lamp {n}?"} for n in range(3)]
    rows(*judged, *[{**GOOD, "contexts": None}] * 97)
    command = (
        f"evaluate rows.jsonl --metrics adherence --fail-under adherence=0.1 {mode}"
    )
    assert run(command) == 3
    assert ": 3 of 100 rows were scored" in capsys.readouterr().out
    assert run(f"{command} --min-scored 0.03") == 0


@pytest.mark.parametrize("option", ["--strict", "--min-answered 0.1", "--min-scored 1"])
@pytest.mark.parametrize(
    ("command", "gate"),
    [
        ("evaluate rows.jsonl --metrics adherence", "--fail-under adherence=0"),
        ("compare whole.jsonl copy.jsonl", "--fail-on-regression"),
    ],
)
def test_how_a_gate_is_held_is_refused_where_none_is(
    rows, capsys, command, gate, option
):
    """Who says how a gate is held has forgotten the gate."""
    if option.startswith("--min") and command.startswith("compare"):
        return
    rows(GOOD)
    finished("whole.jsonl")
    Path("copy.jsonl").write_bytes(Path("whole.jsonl").read_bytes())
    said = fails(capsys, f"{command} {option}")
    assert f"{option.split()[0]} belongs to {gate.split()[0]}: give" in said
    assert run(command) == 0
    assert run(f"{command} {gate} {option}") in (0, 1, 3)


def test_a_gate_for_each_language_and_the_summary_of_a_job(rows, capsys, monkeypatch):
    sung = {"question": "Who sang?", "answer": "Bert sang of 1856.", "language": "e|n"}
    name = rows({**GOOD, "language": "de"}, {**GOOD, **sung})
    gate = "--fail-under adherence=0.5@metadata.language"
    assert run(f"evaluate {name} {gate} --summary summary.md") == 1
    told = Path("summary.md").read_text()
    slices = "context_adherence by language: 1 of 2 slices reach 0.5, over 2 rows. "
    assert rf'- **failed**: {slices}"e\|n": misses 0.5' in told
    assert "| context_adherence | 0." in told
    assert "Judge: words only (lexical: misses" in told
    assert "Bert" not in told
    job = Path("job.md")
    job.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(job))
    assert run(f"evaluate {name} --out a.jsonl") == 0
    assert job.read_text().startswith("before\n## ragmetrics\n")
    assert run("compare a.jsonl b.jsonl") == 2
    Path("b.jsonl").write_bytes(Path("a.jsonl").read_bytes())
    assert run("compare a.jsonl b.jsonl") == 0
    told = r"a\.jsonl, .* UTC → b\.jsonl, .* UTC\nBoth runs came to the same"
    assert re.search(rf"## ragmetrics compare\n\n```\n{told}", job.read_text())
    assert "{" not in capsys.readouterr().err


def test_nothing_scored(rows, capsys, loopback_server):
    server = loopback_server(lambda body: "no verdict at all")
    judge = f"--judge openai/x --api-base {server.base_url}"
    name = rows({**GOOD, "reference": "Anna."})
    assert run(f"evaluate {name} {judge} --metrics recall") == 1
    shown = capsys.readouterr()
    assert "1 result failed: " in shown.out
    assert shown.err.endswith("ragmetrics: nothing was scored\n")
    too_short = f"evaluate {name} {judge} --metrics recall --deadline 0.000001"
    assert run(too_short) == 1
    assert run(f"{too_short} --fail-under recall=0") == 3
    reason = "ragmetrics: nothing was scored: the deadline of 1e-06 s was reached"
    assert capsys.readouterr().err.startswith(reason)


def test_a_judge_that_cannot_be_used(rows, capsys, loopback_server):
    server = loopback_server(faults=lambda number: Fault(401, code="invalid_api_key"))
    judge = f"--judge openai/x --api-base {server.base_url}"
    said = fails(capsys, f"evaluate {rows(*[GOOD] * 50)} {judge}")
    assert said.startswith("ragmetrics: the judge cannot be used: ")
    assert len(server.requests) == 1


# What is refused


# words behind "evaluate", and the last line; the second row of rows.jsonl is bad
BAD_INPUT = {
    "missing.jsonl": "missing.jsonl: no such file",
    ".": ". is a folder; give the files in it",
    "rows.jsonl missing.jsonl": "missing.jsonl: no such file",
    "rows.jsonl --stop-at-bad-row": "line 2: answer: needs a text, found dict",
    "rows.jsonl --answer-column reply --stop-at-bad-row": "line 1: no column 'reply'",
    "rows.jsonl --out rows.jsonl": "--out rows.jsonl would overwrite the input",
    "rows.jsonl --out rows.jsonl/x.jsonl": "x.jsonl cannot be written: ",
    "rows.jsonl --out results.csv": "name it .jsonl",
    "rows.jsonl --out results.TSV": "name it .jsonl",
    "rows.jsonl --out results.parquet": "name it .jsonl",
    "rows.jsonl --out results.jsonl.gz": "name it .jsonl",
    "rows.jsonl --out page.html": "name it .jsonl",
    "rows.jsonl --report results.jsonl": "name it .html",
    "rows.jsonl --summary data.json": "name it .md",
    "rows.jsonl --metrics bleu": "no metric is named 'bleu'; there are: context_util",
    "rows.jsonl --metrics ,": "no metric is named ''",
    "rows.jsonl --fail-under bleu=1": "no metric 'bleu' for a gate",
    "rows.jsonl --fail-under recall=2": "threshold of a gate is a number from 0 to 1",
    "rows.jsonl --metrics recall --fail-under adherence=1": "no metric 'adherence'",
    "rows.jsonl --set polls=3": "--set is written METRIC.SETTING=VALUE",
    "rows.jsonl --set adherence.poll=3": "no such setting (did you mean 'polls'?)",
    "rows.jsonl --set adherence.polls=0": "polls: Input should be greater",
    "rows.jsonl --set adherence.polls=1000000": "polls: Input should be less",
    "rows.jsonl --set bleu.polls=3": "no metric is named 'bleu'",
    "rows.jsonl --metrics recall --set adherence.polls=3": "not among the metrics",
    "rows.jsonl --api-base http://127.0.0.1:1": "--api-base needs a model",
    "rows.jsonl --judge=": "the value of --judge is empty, perhaps a variable",
    "rows.jsonl --judge ' '": "the value of --judge is empty",
    "rows.jsonl ''": "an argument is empty",
}


@pytest.mark.parametrize("words", BAD_INPUT)
def test_bad_input(rows, capsys, words):
    rows(GOOD, {**GOOD, "answer": {}})
    before = Path("rows.jsonl").read_bytes()
    assert BAD_INPUT[words] in fails(capsys, f"evaluate {words}")
    assert Path("rows.jsonl").read_bytes() == before


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
    "judge",
    "api-base",
    "api-key-env",
    "store",
    "max-calls",
    "metrics",
    "cluster",
]
EMPTY_VALUES = [
    *(
        arguments
        for command in COMMANDS.values()
        for arguments in with_an_empty_value(command["example"])
    ),
    *(["evaluate", "rows.jsonl", f"--{option}", ""] for option in OPTIONS_OF_MODELS),
    *(["evaluate", "rows.jsonl", f"--{option}="] for option in OPTIONS_OF_MODELS),
    ["compare", "a.jsonl", "b.jsonl", "--slice="],
]


@pytest.mark.parametrize("arguments", EMPTY_VALUES, ids=" ".join)
def test_a_variable_that_is_not_set_is_no_option_that_is_not_given(
    rows, capsys, arguments
):
    rows(GOOD)
    said = fails(capsys, shlex.join(arguments))
    assert "is empty, perhaps a variable that is not set; give a value" in said
    assert [path.name for path in Path().iterdir()] == ["rows.jsonl"]


@pytest.mark.parametrize(
    "setting",
    ['judge = ""', 'api_base = " "', 'store = ""', 'metrics = [""]', 'gates = [""]'],
)
def test_an_empty_setting_of_the_project_is_refused(rows, capsys, setting):
    rows(GOOD)
    Path("ragmetrics.toml").write_text(setting, "utf-8")
    said = fails(capsys, "evaluate rows.jsonl")
    assert "is empty: give a value, or leave it out" in said


# Files and rows


def test_bad_rows_are_named_counted_and_left_out(rows, capsys):
    bad = {**GOOD, "answer": {"SECRET": 7}}
    rows(GOOD, *[bad] * 7, "{")
    assert run("evaluate rows.jsonl --explain --out out.jsonl") == 0
    shown = capsys.readouterr()
    assert "ragmetrics: rows.jsonl, line 2: answer: needs a text, found" in shown.err
    assert "rows.jsonl, line 6:" in shown.err
    assert "rows.jsonl, line 7:" not in shown.err
    assert "rows.jsonl: further bad rows are only counted" in shown.err
    assert "9 rows, 8 unreadable." in shown.out
    assert "SECRET" not in shown.out + shown.err
    problem = Report.from_jsonl("out.jsonl").results[-1].problem
    assert problem.startswith("rows.jsonl, line 9: not JSON (Expecting property name")


NOT_APPLIED = [
    (
        [{"frage": "Wer?", "antwort": "Anna."}],
        "(rows: 1, bad: 0; context_utilization: no question; context_adherence: no",
        "; its columns are frage, antwort; name those that hold them: --question-column"
        " NAME, --contexts-column NAME, --answer-column NAME",
    ),
    (
        [{"prompt": "Who?", "docs": ["Anna."], "said": "Anna."}],
        "no answer",
        "; name those that hold them: --answer-column NAME, --reference-column NAME",
    ),
    (
        [{"messages": [{"role": "user", "content": "Who?"}], "docs": ["Anna."]}],
        "no reference",
        "; name those that hold them: --question-column NAME, ",
    ),
    (["{]", "3"], "no metric applies to rows.jsonl (rows: 2, bad: 2)", ""),
    ([], "ragmetrics: rows.jsonl holds no rows: write it again", ""),
]


@pytest.mark.parametrize("mode", ["", "--dry-run"])
@pytest.mark.parametrize(("given", "why", "advice"), NOT_APPLIED)
def test_no_metric_applies(rows, capsys, given, why, advice, mode):
    said = fails(capsys, f"evaluate {rows(*given)} {mode}")
    if mode and "bad: 2" in why:
        return  # a dry run counts no bad rows
    assert why in said
    assert advice in said


def test_ids_of_contexts_that_differ_are_no_column_to_name(rows, capsys):
    row = {"contexts": [{"text": "a", "doc_id": "d", "chunk_id": "c"}]}
    name = rows({"question": "Q", "expected_ids": ["c"], **row})
    said = fails(capsys, f"evaluate {name} --metrics ranking")
    assert "several that differ" in said
    assert "-column" not in said


def test_several_files_are_one_run(rows, capsys):
    rows(GOOD, GOOD, GOOD, name="a.jsonl")
    rows(GOOD, name="b.jsonl")
    rows({"answer": "x"}, name="c.jsonl")
    assert run("evaluate a.jsonl b.jsonl c.jsonl --explain --limit 2") == 0
    screen = capsys.readouterr().out
    assert "Rows: 3 no fault found, 1 input missing." in screen
    assert "no more than 2 rows of a.jsonl read, by --limit" in screen
    assert "rows of b.jsonl read" not in screen
    rows({"answer": "x"}, name="copy.jsonl")
    said = fails(capsys, "evaluate a.jsonl c.jsonl copy.jsonl")
    assert said.endswith("copy.jsonl is a copy of c.jsonl; name one of them")
    rows({"answer": "y"}, name="d.jsonl")
    assert run("evaluate c.jsonl d.jsonl") == 2
    first, last = capsys.readouterr().err.splitlines()[-2:]
    assert first.startswith("ragmetrics: no metric applies to c.jsonl (")
    assert last.startswith("ragmetrics: no metric applies to d.jsonl (rows: 1, bad: 0")


EMPTY_FILES = {
    "empty.jsonl": "",
    "empty.json": "[]",
    "empty.csv": "question,contexts,answer\n",
}


@pytest.mark.parametrize("name", EMPTY_FILES)
def test_an_empty_file_among_others_is_refused_before_a_gate_passes_without_it(
    rows, capsys, name
):
    Path(name).write_text(EMPTY_FILES[name])
    command = f"evaluate {rows(*[GOOD] * 60)} {name} --fail-under adherence=0.1"
    assert f"{name} holds no rows" in fails(capsys, command)


def test_a_broken_file_is_found_before_anything_is_judged(
    rows, capsys, loopback_server
):
    server = loopback_server()
    judge = f"--judge openai/x --api-base {server.base_url} --out out.jsonl"
    rows(GOOD)
    Path("b.json").write_text("[{]")
    said = fails(capsys, f"evaluate rows.jsonl b.json {judge}")
    assert "b.json: not JSON" in said
    rows(*[GOOD] * 200, "{", name="c.jsonl")
    said = fails(capsys, f"evaluate rows.jsonl c.jsonl --stop-at-bad-row {judge}")
    assert "c.jsonl, line 201: not JSON" in said
    assert not server.requests
    assert not Path("out.jsonl").exists()


@pytest.mark.parametrize("is_appended", [False, True])
def test_a_file_is_judged_as_it_stood_at_first_or_not(
    is_appended, rows, capsys, loopback_server
):
    name = rows(*[GOOD] * 300)

    def change(body: Any) -> Any:
        if len(server.requests) == 1:
            with Path(name).open("a" if is_appended else "w") as file:
                file.write(json.dumps({**GOOD, "answer": "Nobody did."}) + "\n")
        return plausible_reply(body)

    server = loopback_server(change)
    command = (
        f"evaluate {name} --judge openai/x --api-base {server.base_url} --no-store"
        " --metrics adherence --fail-under adherence=0.1 --out out.jsonl"
    )
    if is_appended:
        assert run(command) == 0
        (source,) = Report.from_jsonl("out.jsonl").run.inputs
        assert source.rows == 300
    else:
        assert "was changed while it was read" in fails(capsys, command)
        assert not Path("out.jsonl").exists()


def finished(path: str) -> list[str]:
    """The lines of a results file that a whole run over 12 rows wrote."""
    made = [{**GOOD, "id": str(n), "question": f"Who lit lamp {n}?"} for n in range(12)]
    evaluate(made, "adherence", judge="lexical").to_jsonl(path)
    return Path(path).read_text().splitlines()


def closed(lines: list[str], **facts: Any) -> list[str]:
    """A part of a results file with a closing line that says so."""
    return [*lines[:9], json.dumps({"run": facts})]


DECISION = {"metric": "m", "outcome": "passed", "sentence": "enough"}
PARTS: dict[str, Callable[[list[str]], list[str]]] = {
    "killed": lambda lines: lines[:9],
    "closed as interrupted": lambda lines: closed(lines, interrupted=True),
    "stopped at a limit": lambda lines: closed(lines, stopped="max_calls"),
    "until decided": lambda lines: closed(lines, decisions=[DECISION]),
    "with a broken line": lambda lines: [*lines[:6], "broken", *lines[7:]],
}


@pytest.mark.nightly
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", ["part.jsonl", "part.jsonl.partial"])
def test_a_gate_on_results_that_are_a_part_is_undecided(rows, capsys, part, name):
    """Whole results are judged once more and pass; a part says so wherever it goes."""
    rows()
    lines = finished("whole.jsonl")
    gate = "--metrics adherence --fail-under adherence=0.1"
    assert run(f"evaluate whole.jsonl {gate}") == 0
    assert " part" not in capsys.readouterr().out
    Path(name).write_text("\n".join(PARTS[part](lines)) + "\n")
    for mode in ("", "--strict"):
        made = "--summary s.md --out again.jsonl"
        assert run(f"evaluate {name} {gate} {mode} {made}") == 3
        assert f"{name} is a part" in " ".join(capsys.readouterr().out.split())
        assert f"{name} is a part" in Path("s.md").read_text()
    # what was made of a part is one, too
    assert run(f"evaluate again.jsonl {gate}") == 3


def test_a_gate_on_a_report_that_is_a_part_is_undecided_in_python(rows):
    rows()
    lines = finished("whole.jsonl")
    gate = parse_gate("adherence=0.1", ["context_adherence"])
    for text, outcome in ((lines[:9], "undecided"), (lines, "passed")):
        Path("report.jsonl").write_text("\n".join(text) + "\n")
        before = Report.from_jsonl("report.jsonl")
        again = evaluate(before, "adherence", judge="lexical")
        assert decide(gate, again).outcome == outcome


def test_columns_and_settings_can_be_named(rows, capsys):
    text = "Anna did."
    row = {"q": "Who?", "run": {"found": [text]}, "a": text, "gold": text, "n": 1}
    columns = "--question-column q --contexts-column run.found --answer-column a"
    more = "--ground-truth-column gold --id-column n --out out.jsonl"
    more += " --history-column state.messages"
    settings = "--set adherence.polls=3 --set utilization.k=1"
    name = rows({**row, "f": ["Anna"], "state": {"messages": ["Hi.", "Hello."]}})
    assert run(f"evaluate {name} {columns} {more} --facts-column f {settings}") == 0
    assert "not scored" not in capsys.readouterr().out
    report = Report.from_jsonl("out.jsonl")
    (result,) = report.results
    sample = result.sample
    assert (sample.id, sample.reference, sample.question) == ("1", (text,), "Who?")
    assert [turn.content for turn in sample.history] == ["Hi.", "Hello."]
    assert {outcome.status for outcome in result.results.values()} == {"scored"}
    assert report.run.metrics["context_adherence"].settings["polls"] == "3"


def test_a_reader_that_went_away_changes_no_exit_code(rows, monkeypatch):
    """As ``head`` does, which has read enough."""
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert run(f"evaluate {rows(GOOD)}") == 0


def test_columns_that_nobody_read_are_named(rows, capsys):
    row = {**GOOD, "refrence": "Anna.", "metadata": {"lang": "en"}}
    name = rows(row, {**row, "late": 1})
    assert run(f"evaluate {name} --explain --out out.jsonl") == 0
    unread = "columns that were not recognised: refrence, late, kept as metadata\n"
    assert f"rows.jsonl: {unread}" in capsys.readouterr().out
    assert run("evaluate out.jsonl") == 0
    assert "not recognised" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [
        "--contexts-column a --contexts-column b",
        "--reference-column a --answer-column c --ground-truth-column b",
    ],
)
def test_a_second_column_of_a_field_is_refused(rows, capsys, options):
    with pytest.raises(SystemExit, match="2"):
        run(f"evaluate {rows(GOOD)} {options}")
    assert " b: a column was named for this field before" in capsys.readouterr().err


def chunk_rows(*chunks: object, is_said_once: bool = False) -> list[dict[str, Any]]:
    """Rows as a join of answers and chunks gives them."""
    return [
        {
            "question": f"Who lit lamp {n}?",
            "answer": "" if is_said_once and place else "Anna did.",
            "contexts": chunk,
        }
        for n in range(2)
        for place, chunk in enumerate(chunks)
    ]


CHUNKS = (
    "the same question and answer stand in 6 rows with other contexts: if these are"
    " chunks of one answer, group them into one row"
)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (chunk_rows(["a"], ["b"], ["c"]), [CHUNKS]),
        # that each is one text tells the same, and another cause
        (chunk_rows("a", "b", "c"), [CHUNKS]),
        (
            chunk_rows(["a"], ["b"], ["c"])[::2]
            + chunk_rows(["a"], ["b"], ["c"])[1::2],
            [CHUNKS],
        ),
        (chunk_rows(["a"], ["b"], ["c"], is_said_once=True), [CHUNKS]),
        (
            [
                {"answer": f"Anna lit lamp {n}.", "contexts": [text]}
                for n in range(2)
                for text in "abc"
            ],
            [CHUNKS],
        ),
        (chunk_rows(["a", "b"], ["c", "d"], ["e"]), []),
        ([{**GOOD, "answer": None, "contexts": [one]} for one in "abc"], []),
    ],
)
def test_a_row_for_each_chunk_is_told_once(rows, capsys, caplog, given, said):
    name = rows(*given)
    run(f"evaluate {name} --no-files --metrics adherence")
    words = " ".join(capsys.readouterr().out.split())
    assert [note for note in [CHUNKS] if note in words] == said
    assert words.count(" ! ") == len(said)
    caplog.clear()
    evaluate(given, "adherence", judge="lexical")
    warned = [one.message for one in caplog.records if one.levelname == "WARNING"]
    assert warned == said


SAME_ID = (
    "the id of an earlier one; labels and comparisons need an id of its own for each,"
    " or none at all"
)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["a", "b", None], []),
        (
            ["a", "b", None, None],
            ["1 sample has the question, contexts and answer of an earlier one"],
        ),
        (["a", "b", "a"], [f"1 sample has {SAME_ID}"]),
        (["a", "a", "b", "a", "b"], [f"3 samples have {SAME_ID}"]),
    ],
)
def test_ids_that_are_not_unique_are_warned_of_once(rows, caplog, ids, said):
    given = [{**GOOD, "id": one} for one in ids]
    name = rows(*given)
    for judge in (
        lambda: run(f"evaluate {name}"),
        lambda: evaluate(given, metrics="utilization"),
    ):
        caplog.clear()
        judge()
        warned = [one.message for one in caplog.records if one.levelname == "WARNING"]
        assert warned == said


# What is printed, and where


def test_metrics_lists_all_and_what_they_need(capsys):
    with pytest.raises(SystemExit, match="0"):
        run("evaluate --list-metrics")
    shown = capsys.readouterr().out
    assert "context_adherence (by default)\n" in shown
    assert "citation_quality (if --metrics names it)\n" in shown
    assert "needs: reference or facts" in shown
    assert "Sufficiency and citations need contexts, too" in shown
    assert shown.count("signature: ") == 8


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        run("--version")
    assert capsys.readouterr().out.startswith("ragmetrics 0.")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_an_example_that_parses(name, capsys):
    example = COMMANDS[name]["example"]
    with pytest.raises(SystemExit) as ended:
        run(f"{name} --help")
    told = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert told.endswith(f"Example: {example}")
    below = [other for other in COMMANDS if other.startswith(f"{name} ")]
    if name == "dataset":
        assert all(f"{other.split()[1]} " in told for other in below)
    else:
        assert parse(shlex.split(example)[1:]).command == name
    with pytest.raises(SystemExit):
        run("--help")
    assert (name in capsys.readouterr().out.split()) is (" " not in name)


@pytest.mark.nightly
def test_a_model_as_judge_in_a_process(rows, loopback_server):
    server = loopback_server()
    judge = ("--judge", "openai/x", "--api-base", server.base_url)
    name = rows(GOOD, OTHER)
    done = script(
        "evaluate", name, "--explain", "--quiet", "--out", "out.jsonl", *judge
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"Spent: {len(server.requests)} calls, ".encode() in done.stdout
    assert b"price unknown" in done.stdout
    assert len(Report.from_jsonl("out.jsonl").results) == 2


def test_a_narrow_encoding_does_not_end_the_run(rows):
    narrow = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}
    done = script("evaluate", rows(GOOD), "--explain", env=narrow)
    assert done.returncode == 0
    assert b"1.00?1.00" in done.stdout  # lowest and highest score


@pytest.mark.nightly
def test_a_reader_that_goes_away_changes_no_exit_code(rows):
    name = rows(*[{**GOOD, "id": one, "answer": "Nobody knows it."} for one in "abc"])
    reading, writing = os.pipe()
    os.close(reading)
    pipes = {"stdout": writing, "stderr": subprocess.PIPE}
    try:
        gate = ("--quiet", "--fail-under", "adherence=0.9")
        done = script("evaluate", name, *gate, **pipes)
        demo = script("demo", **pipes)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")
    assert (demo.returncode, demo.stderr) == (0, b"")


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="there is no device that is always full"
)
@pytest.mark.parametrize(
    "gate", ["adherence=0.9", pytest.param("adherence=0.1", marks=pytest.mark.nightly)]
)
def test_what_cannot_be_shown_is_no_gate_that_failed(gate, rows, monkeypatch):
    """Exit 2 and a sentence: the disk of the log is full, or nobody opened the output."""
    monkeypatch.delenv(
        "PYTHONUNBUFFERED", raising=False
    )  # else nothing is left to write
    name = rows(GOOD)
    words = f"ragmetrics evaluate {name} --quiet --fail-under {gate} --out out.jsonl"
    for command in (words, "ragmetrics evaluate --help"):
        full = subprocess.run(
            f"{SCRIPT.removesuffix('ragmetrics')}{command} > /dev/full",
            shell=True,
            capture_output=True,
            text=True,
        )
        assert (full.returncode, full.stderr) == (
            2,
            "ragmetrics: No space left on device\n",
        )
    assert len(Report.from_jsonl("out.jsonl")) == 1
    for closed in (">&-", ">&- 2>&-", "> /dev/full 2>&1"):
        done = subprocess.run(
            f"{SCRIPT.removesuffix('ragmetrics')}{words} {closed}",
            shell=True,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 2
        assert "output is closed" in done.stderr or closed != ">&-"


def test_a_closed_output_is_a_sentence_within_a_process_too(rows, monkeypatch):
    name = rows(GOOD)
    closed, told = io.StringIO(), io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    monkeypatch.setattr(sys, "stderr", told)
    assert run(f"evaluate {name} --quiet --no-files") == 2
    assert told.getvalue().startswith("ragmetrics: standard output is closed")
    monkeypatch.setattr(sys, "stderr", closed)
    assert run(f"evaluate {name} --quiet --no-files") == 2


@pytest.mark.nightly
def test_without_standard_error_gates_decide_the_exit_code(rows):
    name = rows(GOOD)
    for gate, code in (("adherence=0.9", 0), ("adherence=0.99", 1)):
        words = f"{SCRIPT} evaluate {name} --fail-under {gate} 2>&-"
        done = subprocess.run(words, shell=True, capture_output=True)
        assert done.returncode == code
        assert b"The gate" in done.stdout


@pytest.mark.parametrize(
    "option", ["--out", "--report", "--store", "--summary", "--no-files"]
)
def test_a_name_that_is_too_long_is_named(option, rows, capsys):
    told = fails(capsys, f"evaluate {rows(GOOD)} {option} {'x' * 300}")
    assert "File name too long" in told


def test_files_stand_before_and_after_options(rows, capsys):
    first, second = rows(GOOD), rows(OTHER, name="other.jsonl")
    assert run(f"evaluate {first} --quiet {second} --no-files") == 0
    assert "2 rows" in capsys.readouterr().out


OFTEN = (
    "import sys; from ragmetrics_core.engine import progress; progress.LOG_SECONDS = 0.0;"
    " from ragmetrics_core.cli.main import main; sys.exit(main(sys.argv[1:]))"
)


@pytest.mark.nightly
@pytest.mark.parametrize("quiet", [False, True])
def test_progress_goes_to_standard_error(rows, quiet):
    words = ["evaluate", rows(GOOD, OTHER), "--judge", "lexical"]
    done = subprocess.run(
        [sys.executable, "-c", OFTEN, *words, *(["--quiet"] if quiet else [])],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
    )
    counted = (
        r"1/2 samples, 0 failed, 0 calls, \$0\.0000, \d+ s left\n2/2 samples, .*\n"
    )
    assert re.fullmatch("" if quiet else counted, done.stderr)
    assert "samples, 0 failed" not in done.stdout


def test_a_log_line_is_not_glued_to_a_counter(monkeypatch):
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


def test_what_is_logged_while_the_process_ends_is_a_line():
    """A client may find then that it was left open, when nothing can be imported."""
    program = """
import logging
from ragmetrics_core.cli.main import Lines
logging.basicConfig(format="%(message)s", handlers=[Lines()])
class Client:
    def __del__(self, log=logging.getLogger("client").error):
        log("left open")
client = Client()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "left open\n")


# Interrupts


def wait_for_lines(path: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a file has so many lines, or the process has ended, which fails."""
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05)


# Below a shell in the background an interrupt is ignored; this makes it count again.
LAUNCHER = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL);"
    " os.execv(sys.argv[1], sys.argv[1:])"
)


@pytest.mark.nightly
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_leaves_what_was_done(rows, sent):
    held = {"question": "HOLD", "contexts": ["x"], "answer": "y"}
    distinct = [{**GOOD, "answer": f"{number} lamps"} for number in range(3)]
    with LoopbackServer(lambda _: '{"useful": 1, "reason": "r"}') as server:
        plain, released = server.reply, server.stopped

        def reply(body: Any) -> Any:
            if "HOLD" in json.dumps(body):
                released.wait()
            return plain(body)

        server.reply = reply
        name = rows(*distinct, held, held)
        words = f"evaluate {name} --quiet --out out.jsonl --metrics utilization"
        judge = ["--judge", "openai/x", "--api-base", server.base_url]
        command = [sys.executable, "-c", LAUNCHER, SCRIPT, *words.split(), *judge]
        with subprocess.Popen(
            command,
            env={**os.environ, **ENVIRONMENT},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                wait_for_lines(Path("out.jsonl.partial"), 4, process)
                process.send_signal(sent)
                output, error_bytes = process.communicate(timeout=60)
            finally:
                process.kill()
    errors = error_bytes.decode()
    assert process.returncode == 130
    assert "ragmetrics: interrupted; what was done is counted above\n" in errors
    assert "Traceback" not in errors
    assert b"context_utilization" in output
    kept = "what was judged stands in out.jsonl.partial\n"  # of an earlier file nothing
    assert f"\nragmetrics: {kept}" in f"\n{errors}"
    assert not Path("out.jsonl").exists()
    report = Report.from_jsonl("out.jsonl.partial")
    # the held row shared its call with the last; that which was given up counts, too
    assert [bool(row.results) for row in report.results] == [True] * 3 + [False]
    assert [row.usage.calls for row in report.results] == [1] * 4
    assert report.run.interrupted
    # judged again, it is still a part
    assert run("evaluate out.jsonl.partial --out other.jsonl") == 3


def test_an_interrupt_between_two_results_tells_what_was_in_flight(
    rows, loopback_server, monkeypatch
):
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
    options = "--quiet --no-store --metrics utilization --concurrency 2 --out out.jsonl"
    assert run(f"evaluate {name} {options}") == 130
    report = Report.from_jsonl("out.jsonl.partial")
    assert report.run.interrupted
    # one that is given up may not have arrived
    assert report.usage.calls >= len(server.requests)
    assert 3 <= len(report.results) < 400
