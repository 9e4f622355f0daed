"""The fixture and marker ``ragmetrics`` in a project of its own, with ``ragmetrics.toml`` and under xdist."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import ragmetrics_core

pytest_plugins = ["pytester"]

TESTS = """
import pytest

GOOD = {"question": "Who lit the lamp?", "contexts": ["Anna lit the lamp."], "answer": "Anna lit the lamp."}
BAD = {**GOOD, "answer": "Bert sank 1856 ships."}


def test_of_the_file(ragmetrics):
    report = ragmetrics([GOOD] * 3)
    assert report.metrics == ("context_adherence",)


@pytest.mark.ragmetrics("utilization=0.9", metrics=["utilization"])
def test_of_the_marker(ragmetrics):
    assert ragmetrics([GOOD]).metrics == ("context_utilization",)


def test_of_arguments(ragmetrics):
    row = {**GOOD, "lang": "de", "rag_answer": "Bob did, I think."}
    ragmetrics([row], gates="adherence=0.5@lang")


def test_that_fails(ragmetrics):
    ragmetrics([BAD], gates=["adherence=0.8"])


def test_that_is_undecided(ragmetrics):
    ragmetrics([GOOD] * 2, strict=True, gates=["adherence=0.8"])


def test_without(): ...
"""


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """What a run within this process loads is forgotten behind it: all of ours is loaded before."""
    for module in walk_packages(ragmetrics_core.__path__, "ragmetrics_core."):
        import_module(module.name)


@pytest.fixture
def project(pytester: pytest.Pytester) -> Path:
    folder = pytester.path
    (folder / "test_answers.py").write_text(TESTS)
    (folder / "ragmetrics.toml").write_text(
        'metrics = ["adherence"]\njudge = "lexical"\n[columns]\nquestion = "question"\n'
    )
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    return folder


# Those of others that are installed here, too, would load half of them for seconds in
# each process; those of Hypothesis and anyio more than half a second.
PLUGINS_LEFT_OUT = (
    "-p",
    "no:cacheprovider",
    "-p",
    "no:phoenix",
    "-p",
    "no:langsmith_plugin",
    "-p",
    "no:hypothesispytest",
    "-p",
    "no:anyio",
    "-p",
    "no:timeout",  # it would end the time of the test around it
)
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Runs pytest in the project, and gives its exit code and what it told."""

    def run(*options: str, in_a_process: bool = False) -> tuple[int, str]:
        how = pytester.runpytest_inprocess
        if in_a_process:
            how = pytester.runpytest_subprocess
        done = how(*PLUGINS_LEFT_OUT, "-W", "error", *options)
        return int(done.ret), str(done.stdout) + str(done.stderr)

    return run


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.nightly)])
def test_gates_decide_and_the_terminal_says_what_was_measured(project, run, workers):
    code, told = run("-n", workers, in_a_process=workers == "2")
    assert (code, "2 failed, 4 passed" in told) == (1, True), told
    summary = told.partition("= ragmetrics =")[2]
    assert "test_answers.py::test_of_the_marker\n" in summary
    assert "passed: context_utilization reaches 0.9: mean 1.000 of" in summary
    assert "failed: context_adherence misses 0.8" in summary
    assert (
        "passed: context_adherence by lang: 1 of 1 slices reach 0.5, over " in summary
    )
    assert "no field takes the texts in rag_answer" in summary
    assert (
        "Judge: words only (lexical: misses subtle failures, and some gross ones)"
        in summary
    )
    why = "row 1: made up?: context_adherence 0.0"
    assert why in told.partition("short test summary")[0]
    assert "test_without" not in summary.partition("short test summary")[0]
    assert "Bert" not in summary.partition("short test summary")[0]


def test_without_gates_the_table_is_shown(project, run):
    code, told = run("-k", "of_the_file", "-n", "0")
    assert code == 0
    assert "context_adherence 0.9" in told.partition("= ragmetrics =")[2]


GATES_THAT_MAY_BE_LOST = """
import pytest

BAD = [{"question": "Who?", "contexts": ["Anna lit the lamp."], "answer": "Bert sank 1856 ships."}] * 40
GOOD = [{**row, "answer": "Anna lit the lamp."} for row in BAD]


@pytest.mark.ragmetrics("adherence=0.8")
class TestOfAClass:
    def test_fails_by_the_class(self, ragmetrics):
        ragmetrics(BAD)

    def test_passes_beside_it(self): ...


@pytest.mark.ragmetrics("adherence=0")
@pytest.mark.ragmetrics("adherence=0.8")
def test_fails_by_the_second_marker(ragmetrics):
    ragmetrics(BAD)


@pytest.mark.ragmetrics("adherence=0.8")
def test_fails_as_nothing_was_measured(ragmetrics): ...


@pytest.mark.ragmetrics("adherence=0.8")
def test_fails_as_it_has_no_fixture(): ...


@pytest.mark.ragmetrics("adherence=0.8", gates=[])
def test_fails_as_gates_are_named_twice(ragmetrics):
    ragmetrics(BAD)


def test_passes_without_a_gate(ragmetrics):
    ragmetrics(BAD)


"""

GATES_OF_THE_FILE = """
ROWS = [{"question": "Who?", "contexts": ["Anna lit the lamp."], "answer": "Anna lit the lamp."}] * 40


def test_fails_as_nothing_was_measured(ragmetrics):
    for rows in []:
        ragmetrics(rows)


def test_passes(ragmetrics):
    ragmetrics(ROWS)


def test_passes_without_the_fixture(): ...
"""


def test_the_nearest_settings_file_above_a_test_is_read(project, run):
    """As in a repository of several projects, where pytest's root folder is above them all."""
    service = project / "service" / "tests"
    service.mkdir(parents=True)
    (service.parent / "ragmetrics.toml").write_text(
        'judge = "lexical"\ngates = ["adherence=0.99"]\n'
    )
    (service / "test_service.py").write_text(GATES_OF_THE_FILE)
    _, told = run("-n", "0", "-rA", "service")
    assert "2 failed, 1 passed" in told
    assert "context_adherence misses 0.99" in told


def test_a_marked_test_case_of_unittest_which_cannot_measure_passes_no_gate(
    project, run
):
    (project / "test_answers.py").write_text(
        "import pytest, unittest\n"
        '@pytest.mark.ragmetrics("adherence=0.5")\n'
        "class TestAnswers(unittest.TestCase):\n"
        "    def test_it(self): pass\n"
    )
    _, told = run("-n", "0", "-rA")
    assert "1 failed" in told
    assert "the gates adherence=0.5 were not held" in told


def test_a_test_that_measures_nothing_passes_no_gate_of_the_file(project, run):
    (project / "ragmetrics.toml").write_text(
        'judge = "lexical"\nmetrics = ["adherence"]\ngates = ["adherence=0.5"]\n'
    )
    (project / "test_answers.py").write_text(GATES_OF_THE_FILE)
    _, told = run("-n", "0", "-rA")
    assert "2 passed" in told
    assert "1 failed" in told
    assert (
        "the gates adherence=0.5 were not held: the test never called the fixture"
        " ragmetrics" in told
    )


@pytest.mark.nightly
def test_no_gate_of_a_marker_is_lost(project, run):
    (project / "test_answers.py").write_text(GATES_THAT_MAY_BE_LOST)
    _, told = run("-n", "0", "-rA")
    outcomes = [
        line.partition(" - ")[0].split("::")[-1]
        for line in told.splitlines()
        if line.startswith(("FAILED", "ERROR"))
    ]
    assert sorted(outcomes) == [
        "test_fails_as_gates_are_named_twice",
        "test_fails_as_it_has_no_fixture",
        "test_fails_as_nothing_was_measured",
        "test_fails_by_the_class",
        "test_fails_by_the_second_marker",
    ], told
    assert "2 passed" in told
    assert "no gate was named: nothing is held" in told


def test_a_wrong_file_is_told(project, run):
    (project / "ragmetrics.toml").write_text('gate = "adherence=0.8"\n')
    code, told = run("-k", "of_the_file", "-n", "0")
    assert code == 1
    assert "gate: no such setting (did you mean 'gates'?)" in told


def test_the_plugin_loads_nothing_heavy(project, run, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (project / "test_answers.py").write_text(
        "import sys\ndef test_modules():\n    heavy = {'pydantic', 'aiohttp',"
        " 'scipy', 'ragmetrics_core.data.results'}\n    assert"
        " 'ragmetrics_core.testing.plugin' in sys.modules and not heavy &"
        " set(sys.modules)\n"
    )
    code, told = run("-p", "ragmetrics_core.testing.plugin", in_a_process=True)
    assert code == 0, told


def test_the_marker_is_listed(project, run):
    assert "@pytest.mark.ragmetrics(*gates, **how): " in run("--markers", "-n", "0")[1]


def test_a_missing_key_and_a_wrong_gate_are_a_line_each(project, run, monkeypatch):
    for name in ("OPENAI_API_KEY", "RAGMETRICS_API_BASE", "RAGMETRICS_JUDGE"):
        monkeypatch.delenv(name, raising=False)
    (project / "ragmetrics.toml").write_text('judge = "lexical"')
    (project / "test_answers.py").write_text("""
def test_key(ragmetrics):
    ragmetrics([{"answer": "a", "contexts": ["a"]}], judge="gpt-4o-mini", gates="adherence=0.8")

def test_gate(ragmetrics):
    ragmetrics((1 / 0 for _ in "no row is read"), gates="adherance=0.8")
""")
    status, shown = run("-q")
    assert status == 1
    assert "Traceback" not in shown
    assert "plugin.py" not in shown
    assert "set OPENAI_API_KEY" in shown
    assert "did you mean 'context_adherence'" in shown
    assert "During handling" not in shown
    failures = shown.partition("FAILURES")[2].partition("short test summary")[0]
    assert len(failures.splitlines()) <= 6
