"""The nightly script passes only where all that it runs has passed.

Uv and npm are stand-ins here.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lanes import rest_at_night

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / ".ci"

pytestmark = [
    pytest.mark.skipif(
        not SCRIPTS.is_dir(), reason="a checkout without its CI scripts"
    ),
    pytest.mark.skipif(sys.platform == "win32", reason="scripts of a POSIX shell"),
]

# A stand-in that notes how it was called. The variable FAULT names the one call that
# goes wrong.
UV = r"""#!/usr/bin/env bash
call="$UV_PYTHON $(basename "$PWD"): $*"
printf '%s\n' "$call" >>"$CALLS"
case "$*" in
"pip freeze"*)
    printf 'a==1\n-e here\n'
    if [[ $* == *" .venv/"* && $FAULT != "nothing newer" ]]; then printf 'b==2\n'; fi ;;
"run pytest"*)
    if [[ $call == "$SKIPS"* ]]; then printf 'SKIPPED [1] tests/page/slow/test_page.py:1: no browser\n'; fi
    printf '9 passed\n' ;;
esac
[[ $call != "$FAULT"* ]]
"""
NPM = r"""#!/usr/bin/env bash
while [ "$1" != --prefix ]; do shift; done
mkdir -p "$2/node_modules/axe-core" && touch "$2/node_modules/axe-core/axe.min.js"
"""
PYTHON = r"""#!/usr/bin/env bash
if [ "$1" = "$MISSING" ]; then exit 1; fi
printf 'python%s\n' "$1"
"""
MATRIX = r"""#!/usr/bin/env bash
printf 'matrix %s\n' "$*" >>"$CALLS"
[[ "matrix $*" != "$FAULT" ]]
"""
PROJECT = """[tool.uv]
constraint-dependencies = [
    "a<=1",
]
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with our scripts, a project with one upper bound, and the stand-ins beside it."""
    folder = tmp_path / "checkout"
    shutil.copytree(SCRIPTS, folder / ".ci")
    (folder / "pyproject.toml").write_text(PROJECT)
    write_script(folder / ".ci" / "python", PYTHON)
    write_script(folder / ".ci" / "matrix", MATRIX)
    for name, text in {
        "uv": UV,
        "npm": NPM,
        "chromium": "#!/bin/sh",
        "chromedriver": "#!/bin/sh",
    }.items():
        write_script(tmp_path / "bin" / name, text)
    return folder


def write_script(path: Path, text: str) -> None:
    """An executable file of that text."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text + "\n")
    path.chmod(0o755)


def run_nightly(checkout: Path, **variables: str) -> tuple[int, list[str], list[str]]:
    """Its exit code, the lines after *outcomes* without their seconds, and how uv was called."""
    git = [
        "git",
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@example.org",
        "-c",
        "commit.gpgsign=false",
    ]
    for arguments in (
        ["init", "--quiet"],
        ["add", "."],
        ["commit", "--quiet", "--message", "all"],
    ):
        subprocess.run([*git, *arguments], cwd=checkout, check=True)
    calls = checkout.parent / "calls.txt"
    path = f"{checkout.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
    given = {"FAULT": "none", "SKIPS": "none", "MISSING": "none", **variables}
    run = subprocess.run(
        [checkout / ".ci" / "nightly"],
        env={**os.environ, **given, "CALLS": str(calls), "PATH": path},
        capture_output=True,
        text=True,
    )
    outcomes = run.stdout.partition("== outcomes\n")[2].splitlines()
    return (
        run.returncode,
        [line.partition(" (")[0] for line in outcomes],
        calls.read_text().splitlines(),
    )


ALL = {
    "3.11": "all tests on Python 3.11",
    "3.12": "all tests on Python 3.12",
    "3.13": "all tests on Python 3.13",
    "resolution": "installing the newest releases",
    "newest": "all tests with the newest releases",
    "wheels": "wheels with the lowest and the newest releases",
    "lowest adapters": "all tests of the adapters with the lowest releases",
    "newest adapters": "all tests of the adapters with the newest releases",
    "laws": "the laws on ten times as many examples",
}
AFTER_THE_NEWEST = ["wheels", "lowest adapters", "newest adapters", "laws"]


def test_all_lanes_run_on_each_python_and_with_the_newest_releases(checkout):
    code, outcomes, calls = run_nightly(checkout)
    assert outcomes == [f"passed  {name}" for name in ALL.values()]
    assert code == 0
    assert [call for call in calls if "pytest" in call or "matrix" in call] == [
        "python3.11 checkout: run pytest -m ",
        "python3.12 checkout: run pytest -m ",
        "python3.13 checkout: run pytest -m ",
        "python3.13 newest: run pytest -m ",
        "matrix ",
        "matrix tests lowest -m ",
        "matrix tests newest -m ",
        (
            "python3.13 checkout: run pytest -m hypothesis --hypothesis-profile=deep"
            " --timeout=3000"
        ),
    ]


FAILURES = [
    ({"FAULT": "python3.11 checkout: run pytest"}, "3.11"),
    ({"FAULT": "python3.13 newest: run pytest"}, "newest"),
    ({"FAULT": "matrix tests lowest -m "}, "lowest adapters"),
    ({"SKIPS": "python3.11 checkout:"}, "3.11"),
    ({"FAULT": "python3.12 checkout: run pytest"}, "3.12"),
    ({"FAULT": "python3.12 checkout: run python"}, "3.12"),
    ({"FAULT": "python3.13 checkout: run pytest -m hypothesis"}, "laws"),
    ({"FAULT": "matrix "}, "wheels"),
    ({"FAULT": "matrix tests newest -m "}, "newest adapters"),
    ({"SKIPS": "python3.13 newest:"}, "newest"),
]


@pytest.mark.parametrize(("variables", "failed"), rest_at_night(4, FAILURES))
def test_one_failure_or_skipped_test_fails_the_night_and_all_else_runs(
    checkout, variables, failed
):
    code, outcomes, _ = run_nightly(checkout, **variables)
    assert outcomes == [
        f"{'FAILED' if key == failed else 'passed'}  {name}"
        for key, name in ALL.items()
    ]
    assert code == 1


def test_a_python_that_is_missing_fails_the_night(checkout):
    code, outcomes, _ = run_nightly(checkout, MISSING="3.12")
    assert outcomes[1] == "FAILED  all tests on Python 3.12: there is none here"
    assert len(outcomes) == len(ALL)
    assert code == 1


@pytest.mark.parametrize(
    "fault",
    rest_at_night(
        1,
        [
            "python3.13 newest: sync",
            "python3.13 checkout: sync",
            "python3.13 newest: pip freeze",
        ],
    ),
)
def test_newest_releases_that_cannot_be_installed_fail_the_night(checkout, fault):
    code, outcomes, _ = run_nightly(checkout, FAULT=fault)
    assert outcomes[3:] == [
        "FAILED  installing the newest releases",
        *(f"passed  {ALL[key]}" for key in AFTER_THE_NEWEST),
    ]
    assert code == 1


def test_upper_bounds_that_are_written_in_another_way_fail_the_night(checkout):
    (checkout / "pyproject.toml").write_text(
        '[tool.uv]\nconstraint-dependencies = ["a<=1"]\n'
    )
    code, outcomes, _ = run_nightly(checkout)
    assert outcomes[3:] == [
        "FAILED  installing the newest releases",
        *(f"passed  {ALL[key]}" for key in AFTER_THE_NEWEST),
    ]
    assert code == 1


def test_where_nothing_is_newer_no_test_counts_as_passed_with_newer_releases(checkout):
    code, outcomes, calls = run_nightly(checkout, FAULT="nothing newer")
    assert (
        outcomes[4]
        == "not run  all tests with the newest releases: none is newer than those above"
    )
    assert not any("newest: run pytest" in call for call in calls)
    assert code == 0


def test_the_upper_bounds_of_this_project_are_written_as_the_script_takes_them_away(
    checkout,
):
    shutil.copy(ROOT / "pyproject.toml", checkout)
    code, outcomes, _ = run_nightly(checkout)
    assert outcomes[3] == "passed  installing the newest releases"
    assert code == 0


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("9 passed in 3s\n", 0),
        (
            "SKIPPED [1] tests/page/slow/test_page.py:1: no browser\n8 passed, 1 skipped\n",
            1,
        ),
        ("", 1),  # pytest said nothing, or its words were lost on the way
        (None, 1),
    ],
)
def test_an_output_that_does_not_say_that_nothing_was_skipped_is_a_failure(
    tmp_path, output, code
):
    path = tmp_path / "tests.txt"
    if output is not None:
        path.write_text(output)
    script = SCRIPTS / "none_skipped"
    run = subprocess.run([script, path], capture_output=True)
    assert run.returncode == code
