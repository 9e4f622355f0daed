"""The mutation command on a module of a few lines."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

a_process_for_each_mutant = pytest.mark.nightly

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "mutation.py"

SOURCE = '''\
"""A module of which one function is tested well, one badly and one not at all."""

LIMIT = 10


def tested(number):
    """Whether a number is over the limit."""
    return number > LIMIT


def badly_tested(number):
    """Whether a number is over a hundred; no test asks at a hundred."""
    return number > 100


def untested(number):
    """One more."""
    return number + 1


def ends(number):
    """Counts down."""
    while number > 0:
        number -= 1
    return number
'''
TESTS = """\
def test_ends():
    from tiny.module import ends  # the coverage names only this test for what the import runs

    assert ends(3) == 0


def test_tested():
    from tiny.module import tested

    assert [tested(number) for number in (9, 10, 11)] == [False, False, True]


def test_badly_tested():
    from tiny.module import badly_tested

    assert [badly_tested(number) for number in (0, 200)] == [False, True]
"""

# As with a package that brings a pytest plugin: pytest's own import hook loads its
# modules.
CONFTEST = "import pytest\n\npytest.register_assert_rewrite('tiny')\n"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("project")
    files = {
        "tiny/module.py": SOURCE,
        "tests/test_tiny.py": TESTS,
        "pytest.ini": "[pytest]\n",
        "conftest.py": CONFTEST,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    command = [
        sys.executable,
        str(SCRIPT),
        "tiny/module.py",
        "--mutants",
        "99",
        "--tests",
        "tests/test_tiny.py",
    ]
    command += ["--survivors", "survivors.txt"]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=1500
    )
    assert done.returncode == 0, done.stderr
    assert (root / "tiny" / "module.py").read_text() == SOURCE
    return (root / "survivors.txt").read_text() + done.stdout.partition("\n\n")[0]


@a_process_for_each_mutant
def test_a_mutant_that_a_test_catches_is_killed(printed):
    assert "number >= LIMIT" not in printed
    assert "number < LIMIT" not in printed
    # what only an import runs is tried with all tests of the file
    assert "LIMIT = (11)" not in printed


@a_process_for_each_mutant
def test_a_mutant_that_no_test_catches_survives_with_its_place(printed):
    expected = (
        "survived [boundary] tiny/module.py:13\n-    return number > 100\n+    return"
        " number >= 100"
    )
    assert expected in printed


@a_process_for_each_mutant
def test_a_mutant_that_no_test_runs_is_uncovered(printed):
    assert (
        "uncovered [arithmetic] tiny/module.py:18\n-    return number + 1\n+    return"
        " number - 1" in printed
    )


@a_process_for_each_mutant
def test_a_mutant_that_does_not_end_counts_as_caught(printed):
    assert "number += 1" not in printed
    mutants, killed, timeouts, survived, uncovered = map(
        int, printed.splitlines()[-1].split()[1:6]
    )
    assert timeouts >= 1
    assert mutants == killed + timeouts + survived + uncovered


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module; it takes the current folder for the project's root."""
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(SCRIPT.parent)
    monkeypatch.delitem(sys.modules, "mutation", raising=False)
    return importlib.import_module("mutation")


def test_a_listed_mutant_that_no_source_has_any_more_is_told(
    command, monkeypatch, tmp_path
):
    listed = [
        ("module.py", "return number >= 100"),
        ("module.py", "return number >= 101"),
        ("gone.py", "delete: number -= 1"),
    ]
    entries = [
        f"[[equivalent]]\nfile = {file!r}\nstatement = {statement!r}\n"
        for file, statement in listed
    ]
    (tmp_path / "module.py").write_text(SOURCE)
    (tmp_path / "listed.toml").write_text("\n".join(entries))
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "EQUIVALENT", tmp_path / "listed.toml")
    assert sorted(command.stale_equivalents()) == sorted(listed[1:])


@pytest.mark.parametrize(
    ("source", "mutated"),
    [
        ("x = f(\n    1\n) > y", "x = f(1) >= y"),
        (
            "def f():\n    while (\n        a > b\n    ):\n        a -= 1",
            "while a >= b: ...",
        ),
        ("if a:\n    b()\nelif c > 1:\n    # why\n    d()", "if c >= 1: ..."),
        ("def f(n=a > b):\n    return n", "def f(n=a >= b): ..."),
        (
            "def f():\n    if a:\n        raise E(\n            'no'\n        )",
            "delete: raise E('no')",
        ),
        ("for x in 'ä', *y:\n    x += 1  # ü\n", "delete: x += 1"),
    ],
)
def test_a_mutant_is_named_by_its_statement_whatever_the_line_breaks(
    source, mutated, command
):
    statements = [mutant.statement for mutant in command.mutants_of("f.py", source)]
    assert command.normalized(mutated) in statements


CHANGED_SINCE = """\
import pytest


def test_that_passes():
    pass


def test_that_fails():
    raise AssertionError


@pytest.fixture
def broken():
    yield
    raise AssertionError


def test_that_fails_at_its_end(broken):
    pass


def test_that_was_not_chosen():
    pass
"""


@pytest.mark.nightly
def test_tests_that_fail_without_a_fault_are_left_out(tmp_path):
    """Else they would kill every mutant."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    module = tmp_path / "tests" / "test_tiny.py"
    module.parent.mkdir()
    module.write_text(CHANGED_SINCE)
    names = ("passes", "fails", "fails_at_its_end", "is_gone")
    chosen = {f"tests/test_tiny.py::test_that_{name}": 0.1 for name in names}
    done = subprocess.run(
        [sys.executable, "-c", f"import mutation; print(*mutation.passing({chosen}))"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SCRIPT.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["tests/test_tiny.py::test_that_passes"]
