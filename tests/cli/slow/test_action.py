"""The GitHub action: its steps, run as a runner runs them, on a repository with answers."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
ACTION: Mapping[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS: list[Mapping[str, Any]] = ACTION["runs"]["steps"]

_EXPRESSION = re.compile(r"\$\{\{\s*(?P<name>[\w.-]+)\s*\}\}")

# Prints the ids of earlier comments where they are asked for, and keeps what is written.
_GH = """#!/usr/bin/env bash
printf '%s\\n' "$*" >>"$FAKE/calls"
for argument in "$@"; do
  case $argument in
    body=@*) cp "${argument#body=@}" "$FAKE/body" ;;
    --jq) cat "$FAKE/ids"; exit ;;
  esac
done
exit "$(cat "$FAKE/status")"
"""
_PYTHON = """#!/usr/bin/env bash
printf '%s\\n' "$@" >"$FAKE/python"
"""

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the action's steps are run by bash"
)


@dataclass
class Runner:
    """Runs the steps of the action as GitHub's runner does.

    Args:
        folder: Where the job works.
        inputs: What the workflow gives.
        pull_request: Number of the pull request; "" for a push.
        ids: Ids of the comments of earlier runs, one a line.
        gh_status: With what ``gh`` ends.
    """

    folder: Path
    inputs: Mapping[str, str]
    pull_request: str = "7"
    ids: str = ""
    gh_status: int = 0
    outputs: dict[str, str] = field(default_factory=dict)
    log: str = ""

    def __post_init__(self) -> None:
        self.fake = self.folder / "fake"
        self.temporary = self.folder / "temp"
        for folder in (self.fake, self.temporary):
            folder.mkdir(exist_ok=True)
        (self.fake / "ids").write_text(self.ids)
        (self.fake / "status").write_text(str(self.gh_status))
        for name, text in (("gh", _GH), ("python", _PYTHON)):
            program = self.fake / name
            program.write_text(text)
            program.chmod(0o755)

    def run(self, name: str) -> int:
        """Run the step of this name; the exit status."""
        (step,) = [step for step in STEPS if step.get("name") == name]
        output_file = self.folder / "output"
        output_file.write_text("")
        environment = {
            **os.environ,
            "PATH": f"{self.fake}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "FAKE": str(self.fake),
            "RUNNER_TEMP": str(self.temporary),
            "GITHUB_OUTPUT": str(output_file),
            "GITHUB_STEP_SUMMARY": str(self.folder / "step-summary"),
            "GITHUB_REPOSITORY": "somebody/answers",
        }
        for variable, value in step["env"].items():
            environment[variable] = _EXPRESSION.sub(self._value, value)
        script = self.folder / "step.sh"
        script.write_text(step["run"])
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        self.log += done.stdout + done.stderr
        for line in output_file.read_text().splitlines():
            key, _, value = line.partition("=")
            assert key == "exit-code"
            self.outputs[step["id"]] = value
        return done.returncode

    def run_all(self) -> int:
        """Run all steps but the installation; the status of the job."""
        for step in STEPS:
            if step.get("name") in (None, "Install"):
                continue
            status = self.run(step["name"])
            if status:
                return status
        return 0

    def _value(self, expression: re.Match[str]) -> str:
        name = expression["name"]
        values = {
            "github.event.pull_request.number": self.pull_request,
            "github.action_path": "/the/action",
            "github.token": "a-token",
            "steps.evaluate.outputs.exit-code": self.outputs.get("evaluate", ""),
            "steps.compare.outputs.exit-code": self.outputs.get("compare", ""),
        }
        if name in values:
            return values[name]
        room, _, key = name.partition(".")
        assert room == "inputs", name
        default = str(ACTION["inputs"][key].get("default", ""))
        return self.inputs.get(key, _EXPRESSION.sub(self._value, default))

    @property
    def comment(self) -> str:
        """What was written on the pull request."""
        return (self.fake / "body").read_text("utf-8")

    @property
    def calls(self) -> str:
        """The calls of ``gh``, one a line."""
        file = self.fake / "calls"
        return file.read_text("utf-8") if file.exists() else ""


def write_answers(folder: Path, *, answer: str = "Anna lit the lamp.") -> str:
    """Write forty answers of different questions; the file's name."""
    lines = []
    for number in range(40):
        row = {
            "id": f"q{number}",
            "question": f"Who lit lamp {number}?",
            "contexts": [f"Anna lit the lamp. It was lamp {number}."],
            "answer": answer,
        }
        lines.append(json.dumps(row))
    (folder / "answers.jsonl").write_text("\n".join(lines))
    return "answers.jsonl"


@pytest.mark.nightly
def test_a_passed_gate_passes_and_its_verdict_is_the_comment(tmp_path):
    gates = {"fail-under": "adherence=0.7\nutilization=0.5\n"}
    runner = Runner(tmp_path, {"answers": write_answers(tmp_path), **gates})
    assert runner.run_all() == 0, runner.log
    assert runner.outputs["evaluate"] == "0"
    assert "context_adherence reaches 0.7" in runner.comment
    assert "context_utilization reaches 0.5" in runner.comment
    assert runner.comment in (tmp_path / "step-summary").read_text("utf-8")
    assert "--method POST repos/somebody/answers/issues/7/comments" in runner.calls
    assert (tmp_path / "results.jsonl").exists()
    assert (tmp_path / "report.html").exists()


def test_a_failed_gate_fails_the_job_after_the_comment(tmp_path):
    answers = write_answers(tmp_path, answer="Carl Voss bought the mill in 1830.")
    runner = Runner(tmp_path, {"answers": answers, "fail-under": "adherence=0.7"})
    assert runner.run_all() == 1, runner.log
    assert "**failed**: context_adherence" in runner.comment
    assert re.search(
        r"^\| row \d+ \(q\d+\) \| made up\? \| ", runner.comment, re.MULTILINE
    )
    assert "Carl Voss" not in runner.comment  # no text of a sample


@pytest.mark.nightly
def test_the_comment_of_the_run_before_is_replaced(tmp_path):
    answers = write_answers(tmp_path)
    runner = Runner(tmp_path, {"answers": answers}, ids="11\n12\n")
    assert runner.run_all() == 0, runner.log
    assert "--method PATCH repos/somebody/answers/issues/comments/12" in runner.calls
    assert "--method POST" not in runner.calls


@pytest.mark.nightly
def test_the_earlier_run_is_compared_with(tmp_path):
    answers = write_answers(tmp_path)
    (tmp_path / "before").mkdir()
    before = Runner(tmp_path / "before", {"answers": f"../{answers}"})
    assert before.run_all() == 0, before.log
    now = Runner(
        tmp_path, {"answers": answers, "earlier-results": "before/results.jsonl"}
    )
    assert now.run_all() == 0, now.log
    assert "ragmetrics compare" in now.comment
    assert "40 rows matched" in now.comment


@pytest.mark.parametrize(
    ("inputs", "status"),
    [
        pytest.param({}, 0, marks=pytest.mark.nightly),
        ({"fail-on-regression": "true"}, 1),
        pytest.param(
            {"fail-on-regression": "true", "margin": "0.99"},
            0,
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_a_regression_fails_the_job_where_that_is_wanted(tmp_path, inputs, status):
    options = {"options": "--metrics\nadherence\n"}
    before = Runner(tmp_path, {"answers": write_answers(tmp_path), **options})
    assert before.run("Evaluate") == 0, before.log
    (tmp_path / "results.jsonl").rename(tmp_path / "before.jsonl")
    worse = write_answers(tmp_path, answer="Carl Voss bought the mill in 1830.")
    inputs = {"answers": worse, "earlier-results": "before.jsonl", **options, **inputs}
    now = Runner(tmp_path, inputs)
    assert now.run_all() == status, now.log
    assert "40 of 40 rows moved" in now.comment
    assert "| row 1 (q0) | context_adherence | " in now.comment


@pytest.mark.parametrize("name", ["fail-on-regression", "comment"])
@pytest.mark.parametrize("value", ["yes", "True", "1", ""])
def test_a_choice_that_is_neither_true_nor_false_fails_the_job(tmp_path, name, value):
    runner = Runner(tmp_path, {"answers": write_answers(tmp_path), name: value})
    assert runner.run("Evaluate") == 2
    assert "must be true or false" in runner.log
    assert not (tmp_path / "results.jsonl").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("earlier", ["", "nowhere.jsonl"])
def test_without_an_earlier_run_there_is_no_comparison(tmp_path, earlier):
    inputs = {"answers": write_answers(tmp_path), "earlier-results": earlier}
    runner = Runner(tmp_path, inputs)
    assert runner.run_all() == 0, runner.log
    assert "ragmetrics compare" not in runner.comment


@pytest.mark.nightly
def test_results_of_an_earlier_job_are_not_compared(tmp_path):
    answers = write_answers(tmp_path)
    first = Runner(tmp_path, {"answers": answers})
    assert first.run_all() == 0, first.log
    (tmp_path / "before.jsonl").write_bytes((tmp_path / "results.jsonl").read_bytes())
    inputs = {"answers": "nowhere.jsonl", "earlier-results": "before.jsonl"}
    runner = Runner(tmp_path, inputs)
    assert runner.run_all() == 2
    assert "exit code 2 and no verdict" in runner.comment
    assert "worse" not in runner.comment


@pytest.mark.nightly
def test_a_broken_earlier_file_is_a_warning(tmp_path):
    (tmp_path / "before.jsonl").write_text("no results\n")
    inputs = {"answers": write_answers(tmp_path), "earlier-results": "before.jsonl"}
    runner = Runner(tmp_path, inputs)
    assert runner.run_all() == 0
    assert "::warning::The two runs were not compared" in runner.log


@pytest.mark.nightly
def test_a_token_that_may_not_write_is_a_warning(tmp_path):
    runner = Runner(tmp_path, {"answers": write_answers(tmp_path)}, gh_status=1)
    assert runner.run_all() == 0
    assert "::warning::The comment was not written" in runner.log


def test_bad_input_ends_with_its_code_and_no_comment_is_empty(tmp_path):
    runner = Runner(tmp_path, {"answers": "nowhere.jsonl"})
    assert runner.run_all() == 2
    assert "exit code 2 and no verdict" in runner.comment
    assert "nowhere.jsonl" in runner.log


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("inputs", "pull_request"), [({}, ""), ({"comment": "false"}, "7")]
)
def test_nothing_is_written_where_nobody_asked(tmp_path, inputs, pull_request):
    answers = write_answers(tmp_path)
    runner = Runner(tmp_path, {"answers": answers, **inputs}, pull_request)
    assert runner.run_all() == 0, runner.log
    assert runner.calls == ""


@pytest.mark.nightly
def test_no_input_is_run(tmp_path):
    """What stands in an input is an argument, however it is written."""
    hostile = "$(touch taken); touch taken `touch taken` '\""
    for name in ("answers", "fail-under", "judge", "earlier-results"):
        folder = tmp_path / name
        folder.mkdir()
        runner = Runner(folder, {"answers": write_answers(folder), name: hostile})
        runner.run_all()
        assert not (folder / "taken").exists(), name
    for step in STEPS:
        assert "${{" not in step.get("run", ""), step.get("name")


@pytest.mark.parametrize(
    ("inputs", "installed"),
    [({}, "/the/action"), ({"requirement": "ragmetrics-core==0.1"}, None)],
)
def test_what_is_installed(tmp_path, inputs, installed):
    runner = Runner(tmp_path, inputs)
    assert runner.run("Install") == 0, runner.log
    arguments = (runner.fake / "python").read_text().splitlines()
    assert arguments[:3] == ["-m", "pip", "install"]
    assert arguments[-1] == (installed or inputs["requirement"])


@pytest.mark.nightly
def test_options_are_those_of_the_command(tmp_path):
    inputs = {"answers": write_answers(tmp_path), "options": "--metrics\nadherence\n"}
    runner = Runner(tmp_path, inputs)
    assert runner.run_all() == 0, runner.log
    assert "context_adherence" in runner.comment
    assert "context_utilization" not in runner.comment
