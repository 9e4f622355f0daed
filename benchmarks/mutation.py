"""Mutation testing: plants small faults in a copy of each source file and says which of them no test catches.

    uv run benchmarks/mutation.py ragmetrics_core/statistics/means.py [FILE or FOLDER …]
        [--mutants 40] [--seed 0] [--jobs 1] [--survivors FILE] [--tests MODULE …]

Paths are relative to the current folder, the project's root; its tests stand in
``tests/``. The work tree is never written to but for ``build/mutation/``, which holds
the coverage of each test module. A test module is measured again when it changed. Where
a source file changed since, the lines of then are matched with those of now; a new line
is taken to be run by what runs its neighbours. Delete the folder to measure everything
again.

A mutant is tried in a process of its own, forked from one that has imported the heavy
packages. An import hook gives that process the mutated source. Only tests that run the
mutated line are run: those of the test module that knows the file best, then the
others, fastest first, up to ``TEST_SECONDS`` of recorded time. The first test that
fails ends the process: the mutant is *killed*. So does a time limit relative to the
recorded time: *timeout*, which counts as killed. A mutant that no test runs is
*uncovered*; it counts as not killed. The tests that are chosen for a file are run once
without a fault first; those that fail are left out, as they would kill every mutant.

Which mutants are tried depends on the seed and on the text of each mutated line, so
that an edit elsewhere in a file leaves the choice nearly as it was. Operators take
turns; otherwise constants would be most of the mutants. Mutants that change no
behaviour stand with their reason in ``benchmarks/mutation_equivalent.toml`` and are not
counted. They are found by the mutated statement, so that line breaks do not matter.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from itertools import islice, pairwise, zip_longest
from multiprocessing import get_context
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Literal

ROOT = Path.cwd()
CACHE = ROOT / "build" / "mutation"
EQUIVALENT = Path(__file__).with_name("mutation_equivalent.toml")
DELETED = "delete: "  # before a statement that a mutant lacks

# of covering tests that one mutant is tried with, by their recorded time
TEST_SECONDS = 30.0
MEMORY = 8 * 2**30  # bytes; a mutant that wants more is killed by the MemoryError
# Imported once, before processes are forked; what is not installed is left out.
HEAVY = [
    "pytest",
    "_pytest.pytester",
    "hypothesis.strategies",
    "pydantic",
    "aiohttp.web",
    "xdist.plugin",
    "pytest_timeout",
    "anyio.pytest_plugin",
    "numpy",
    "scipy.stats",
    "pandas",
    "statsmodels.api",
    "sklearn.metrics",
    "pyarrow.parquet",
    "jinja2",
    "bm25s",
    "coverage",
    "sqlite3",
]
PYTEST_OPTIONS = [
    "-q",
    "-x",
    "-n",
    "0",
    "--tb=no",
    "--capture=fd",
    "-p",
    "no:langsmith_plugin",
    "-p",
    "no:phoenix",
    "-p",
    "no:cacheprovider",
    "-o",
    "timeout=0",
]  # what a test may take is limited here
PYTEST_OPTIONS += [
    "-W",
    "ignore:Module already imported:pytest.PytestAssertRewriteWarning",
]

Outcome = Literal["killed", "timeout", "survived", "uncovered"]


# Mutants


@dataclass(frozen=True)
class Mutant:
    """One small change of one source file."""

    file: str
    operator: str
    line: int
    last_line: int
    source: str
    diff: str
    statement: str  # as EQUIVALENT names it, whatever its line breaks

    @property
    def text(self) -> str:
        """The first changed line as the mutant has it, without its indentation."""
        added = [
            line[1:].strip() for line in self.diff.splitlines() if line.startswith("+")
        ]
        return added[0] if added else ""


@dataclass(frozen=True)
class Change:
    """A piece of the source, by offsets of its characters, and what is put in its place."""

    operator: str
    start: int
    end: int
    replacement: str


SWAPPED_COMPARISONS: Mapping[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", ">"),
    ast.LtE: ("<=", ">="),
    ast.Gt: (">", "<"),
    ast.GtE: (">=", "<="),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
}
MOVED_BOUNDARIES: Mapping[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}
CHANGED_ARITHMETIC: Mapping[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "*"),
    ast.Pow: (r"\*\*", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: (r"\|", "&"),
}
DELETABLE = (
    ast.Expr,
    ast.AugAssign,
    ast.Raise,
    ast.Continue,
    ast.Break,
    ast.Delete,
    ast.Assert,
)
# Keyword arguments that say nothing about what a function computes.
KEYWORDS_LEFT_ALONE = {"strict", "slots", "repr", "stacklevel"}
# What these are given is for the type checker.
FOR_TYPES_ONLY = {"cast", "TypeVar", "NewType", "ParamSpec"}
# The order of what these are given says nothing.
OF_ANY_ORDER = {"max", "min", "suppress"}


class Changes(ast.NodeVisitor):
    """Collects all changes of one source file."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.changes: list[Change] = []
        self._line_starts = [0]
        for line in source.splitlines(keepends=True):
            self._line_starts.append(self._line_starts[-1] + len(line))
        self._lines = source.splitlines(keepends=True)
        self.visit(ast.parse(source))

    # Where a node stands

    def _offset(self, line: int, column_in_bytes: int) -> int:
        before = self._lines[line - 1].encode()[:column_in_bytes]
        return self._line_starts[line - 1] + len(before.decode())

    def start_of(self, node: ast.expr | ast.stmt) -> int:
        """The offset of a node's first character."""
        return self._offset(node.lineno, node.col_offset)

    def end_of(self, node: ast.expr | ast.stmt) -> int:
        """The offset behind a node's last character."""
        return self._offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def _text(self, node: ast.expr | ast.stmt) -> str:
        return self.source[self.start_of(node) : self.end_of(node)]

    # How changes are noted

    def _replace(
        self, operator: str, node: ast.expr | ast.stmt, replacement: str
    ) -> None:
        self.changes.append(
            Change(operator, self.start_of(node), self.end_of(node), replacement)
        )

    def _replace_between(
        self,
        operator: str,
        left: ast.expr,
        right: ast.expr,
        pattern: str,
        replacement: str,
    ) -> None:
        """Replaces the operator sign that stands between two operands."""
        start, end = self.end_of(left), self.start_of(right)
        word = pattern[0].isalpha()
        match = re.search(
            rf"\b{pattern}\b" if word else pattern, self.source[start:end]
        )
        if match:
            self.changes.append(
                Change(
                    operator, start + match.start(), start + match.end(), replacement
                )
            )

    def _negate(self, condition: ast.expr) -> None:
        if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
            self._replace("negation", condition, f"({self._text(condition.operand)})")
        else:
            self._replace("negation", condition, f"(not ({self._text(condition)}))")

    # What is left alone

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leaves f-strings alone: before Python 3.12 what stands in them has no right position."""

    def visit_Import(self, node: ast.Import) -> None:
        """Leaves imports alone."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Leaves imports alone."""

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Leaves the labels of a Literal alone."""
        if not (isinstance(node.value, ast.Name) and node.value.id == "Literal"):
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Leaves ``__all__`` alone; the setting of an attribute or an item can be deleted."""
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id == "__all__":
            return
        if isinstance(target, ast.Attribute | ast.Subscript):
            self._delete(node)
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Leaves the annotation alone."""
        if node.value:
            self.visit(node.value)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Leaves decorators, bases and class keywords alone."""
        self._visit_body(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Leaves decorators and annotations alone."""
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default:
                self.visit(default)
        self._visit_body(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """Leaves decorators and annotations alone."""
        self.visit_FunctionDef(node)

    def _visit_body(
        self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    ) -> None:
        for statement in node.body:
            self.visit(statement)

    # Operators

    def visit_Compare(self, node: ast.Compare) -> None:
        """Swaps comparisons and moves boundaries."""
        for (left, right), sign in zip(
            pairwise([node.left, *node.comparators]), node.ops, strict=True
        ):
            self._replace_between(
                "comparison", left, right, *SWAPPED_COMPARISONS[type(sign)]
            )
            if type(sign) in MOVED_BOUNDARIES:
                self._replace_between(
                    "boundary", left, right, *MOVED_BOUNDARIES[type(sign)]
                )
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Changes arithmetic."""
        if type(node.op) in CHANGED_ARITHMETIC:
            self._replace_between(
                "arithmetic", node.left, node.right, *CHANGED_ARITHMETIC[type(node.op)]
            )
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Drops a minus."""
        if isinstance(node.op, ast.USub):
            self._replace("arithmetic", node, self._text(node.operand))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Makes and of or, and or of and."""
        sign, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in pairwise(node.values):
            self._replace_between("and/or", left, right, sign, other)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Moves numbers by one, swaps True and False, empties strings."""
        value = node.value
        if isinstance(value, bool):
            self._replace("constant", node, str(not value))
        elif isinstance(value, int | float):
            self._replace("constant", node, f"({value + 1!r})")
            self._replace("constant", node, f"({value - 1!r})")
        elif isinstance(value, str | bytes) and value:
            self._replace("string", node, '""' if isinstance(value, str) else 'b""')

    def visit_If(self, node: ast.If) -> None:
        """Negates the condition."""
        if self._text(node.test).endswith("TYPE_CHECKING"):
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        """Negates the condition."""
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """Negates the condition."""
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """Negates the conditions."""
        for condition in node.ifs:
            self._negate(condition)
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        """Returns None instead."""
        if node.value and not (
            isinstance(node.value, ast.Constant) and node.value.value is None
        ):
            self._replace("return", node.value, "None")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Swaps neighbours among the positional arguments."""
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in FOR_TYPES_ONLY:
            return
        for left, right in pairwise([] if name in OF_ANY_ORDER else node.args):
            if not isinstance(left, ast.Starred) and not isinstance(right, ast.Starred):
                between = self.source[self.end_of(left) : self.start_of(right)]
                swapped = self._text(right) + between + self._text(left)
                self.changes.append(
                    Change(
                        "arguments", self.start_of(left), self.end_of(right), swapped
                    )
                )
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        """Leaves some keyword arguments alone."""
        if node.arg not in KEYWORDS_LEFT_ALONE:
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Changes arithmetic, or deletes the statement."""
        self._delete(node)
        if type(node.op) in CHANGED_ARITHMETIC:
            self._replace_between(
                "arithmetic",
                node.target,
                node.value,
                *CHANGED_ARITHMETIC[type(node.op)],
            )
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Deletes the statement, unless it is a docstring or an ellipsis."""
        if not isinstance(node.value, ast.Constant):
            self._delete(node)
            self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        """Deletes statements that no other method knows."""
        if isinstance(
            node, ast.Raise | ast.Continue | ast.Break | ast.Delete | ast.Assert
        ):
            self._delete(node)
        super().generic_visit(node)

    def _delete(self, node: ast.stmt) -> None:
        self._replace("deletion", node, "pass" + "\n" * self._text(node).count("\n"))


def mutants_of(file: str, source: str) -> list[Mutant]:
    """All mutants of one file, in no order; some may not compile."""
    mutants = []
    statements = _statements(source)
    for change in Changes(source).changes:
        mutated = source[: change.start] + change.replacement + source[change.end :]
        line = source.count("\n", 0, change.start) + 1
        last_line = source.count("\n", 0, change.end) + 1
        diff = _diff(file, source, mutated, line, last_line)
        statement = _changed_statement(source, statements, change)
        mutants.append(
            Mutant(file, change.operator, line, last_line, mutated, diff, statement)
        )
    return mutants


@dataclass(frozen=True)
class Statement:
    """Where a statement stands, by offsets; a compound one ends before its body."""

    start: int
    end: int
    has_body: bool


def _statements(source: str) -> list[Statement]:
    """All statements of a source; each stands before those inside it."""
    places = Changes(source)
    statements = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = places.start_of(body[0]) if body else places.end_of(node)
            statements.append(Statement(places.start_of(node), end, bool(body)))
    return statements


def _changed_statement(
    source: str, statements: Sequence[Statement], change: Change
) -> str:
    """The innermost statement as the change makes it, or ``delete:`` and what it deletes.

    Empty where the change is in no statement's head, as behind an ``except``.
    """
    around = [
        statement
        for statement in statements
        if statement.start <= change.start and change.end <= statement.end
    ]
    if not around:
        return ""
    innermost = around[-1]
    if change.operator == "deletion":
        return DELETED + normalized(source[innermost.start : innermost.end])
    text = (
        source[innermost.start : change.start]
        + change.replacement
        + source[change.end : innermost.end]
    )
    if innermost.has_body:
        text += "..."
    return normalized(re.sub(r"^elif\b", "if", text))


def normalized(statement: str) -> str:
    """A statement as ``ast`` writes it, or nothing where it does not compile."""
    deleted = DELETED if statement.startswith(DELETED) else ""
    try:
        return deleted + ast.unparse(ast.parse(statement.removeprefix(DELETED)))
    except SyntaxError:
        return ""


def stale_equivalents() -> list[tuple[str, str]]:
    """Entries of EQUIVALENT that are no mutant of what the sources say now."""
    by_file: dict[str, set[str]] = defaultdict(set)
    for file, statement in equivalent_mutants():
        by_file[file].add(statement)
    stale = []
    for file, listed in sorted(by_file.items()):
        path = ROOT / file
        source = path.read_text(encoding="utf-8") if path.exists() else ""
        statements = _statements(source)
        changed = {
            _changed_statement(source, statements, change)
            for change in Changes(source).changes
        }
        stale += [(file, statement) for statement in sorted(listed - changed)]
    return stale


def _is_a_program(mutant: Mutant) -> bool:
    try:
        compile(mutant.source, mutant.file, "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def _diff(file: str, source: str, mutated: str, line: int, last_line: int) -> str:
    """The lines that changed, as a unified diff of the file shows them."""
    before, after = source.splitlines(), mutated.splitlines()
    n_after = last_line - line + 1 + len(after) - len(before)
    removed, added = before[line - 1 : last_line], after[line - 1 : line - 1 + n_after]
    pairs = [pair for pair in zip_longest(removed, added) if pair[0] != pair[1]]
    signed = [f"-{old}" for old, _ in pairs if old is not None]
    signed += [f"+{new}" for _, new in pairs if new is not None and new.strip()]
    return "\n".join([f"{file}:{line}", *signed])


def chosen(mutants: Iterable[Mutant], at_most: int, seed: int) -> list[Mutant]:
    """At most that many mutants, the operators in turn.

    The order within an operator follows from seed and text.
    """
    by_operator: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_operator[mutant.operator].append(mutant)

    def drawn(mutant: Mutant) -> tuple[str, int]:
        text = mutant.diff.partition("\n")[2]
        return (
            hashlib.sha256(f"{seed}|{mutant.operator}|{text}".encode()).hexdigest(),
            mutant.line,
        )

    orders = [sorted(group, key=drawn) for _, group in sorted(by_operator.items())]
    in_turn = (
        mutant for turn in zip_longest(*orders) for mutant in turn if mutant is not None
    )
    drawn_first = islice(filter(_is_a_program, in_turn), at_most)
    return sorted(
        drawn_first, key=lambda mutant: (mutant.line, mutant.operator, mutant.text)
    )


def equivalent_mutants() -> set[tuple[str, str]]:
    """File and statement of each mutant that changes no behaviour."""
    if not EQUIVALENT.exists():
        return set()
    entries = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["equivalent"]
    return {(entry["file"], normalized(entry["statement"])) for entry in entries}


# Tests in processes of their own


class MutantImporter(
    importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader
):
    """Gives one module the source of a mutant when it is imported."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - as importlib calls it
        target: ModuleType | None = None,  # noqa: ARG002 - as importlib calls it
    ) -> importlib.machinery.ModuleSpec | None:
        """The mutated module; all others are found as ever."""
        if fullname != self.name:
            return None
        package = (
            [str(Path(self.path).parent)]
            if Path(self.path).name == "__init__.py"
            else None
        )
        return importlib.util.spec_from_file_location(
            fullname, self.path, loader=self, submodule_search_locations=package
        )

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - as importlib calls it
        """The compiled mutant."""
        return compile(self._source, self.path, "exec", dont_inherit=True)


class ChosenTests:
    """A pytest plugin: runs only some tests, in the order given, each within a time limit."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._seconds = seconds

    def pytest_configure(self) -> None:
        """Hypothesis draws the same examples each time and does not look for a smaller one."""
        from hypothesis import Phase, settings

        phases = [Phase.explicit, Phase.generate]
        settings.register_profile(
            "mutation", derandomize=True, phases=phases, database=None, deadline=None
        )
        settings.load_profile("mutation")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leaves out what was not chosen."""
        order = {node: place for place, node in enumerate(self._seconds)}
        items[:] = sorted(
            (item for item in items if item.nodeid in order),
            key=lambda item: order[item.nodeid],
        )

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Sets alarms, which end the process: of processor time, and of time on the clock for what only waits."""
        recorded = self._seconds.get(nodeid, 1.0)
        # the first test that needs a client also pays for its import
        signal.setitimer(signal.ITIMER_PROF, 10 + 10 * recorded)
        signal.setitimer(signal.ITIMER_REAL, 30 + 20 * recorded)


class Recorder:
    """A pytest plugin: notes how long each test takes, whether it passes, and which lines it runs."""

    def __init__(self, coverage: Any) -> None:
        self._coverage = coverage
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Lines from here on are run by this test."""
        self._coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Adds up setup, call and teardown."""
        self.seconds[report.nodeid] += report.duration
        if report.outcome != "passed":
            self.failed.add(report.nodeid)


class PassedTests:
    """A pytest plugin: writes the names of the tests that passed into a file, a line each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test has passed when setup, call and teardown have."""
        if report.outcome != "passed":
            self._failed.add(report.nodeid)
        elif report.when == "teardown" and report.nodeid not in self._failed:
            with self._path.open("a", encoding="utf-8") as file:
                print(report.nodeid, file=file)


def in_child(work: Callable[[], int]) -> int:
    """Runs the work in a forked process and returns its exit status, or minus the signal that ended it."""
    folder = tempfile.mkdtemp(prefix="mutation-")
    child = os.fork()
    if child == 0:
        status = 70
        try:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            for stream, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
                os.dup2(os.open(os.devnull, mode), stream)
            os.environ["TMPDIR"] = tempfile.tempdir = folder
            status = work()
        except BaseException:  # noqa: BLE001 - the parent raises it
            Path(folder, "failure").write_text(traceback.format_exc(), encoding="utf-8")
        finally:
            os._exit(status)
    try:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        failure = Path(folder, "failure")
        if failure.exists():
            raise RuntimeError(
                f"the tests could not be run:\n{failure.read_text(encoding='utf-8')}"
            )
        return status
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what the tests started
        shutil.rmtree(folder, ignore_errors=True)


def run_tests(
    modules: Sequence[str], plugins: Sequence[object], options: Sequence[str] = ()
) -> int:
    """Runs pytest on some test modules in this process."""
    import pytest

    return int(pytest.main([*PYTEST_OPTIONS, *options, *modules], plugins=plugins))


# Which tests run which lines


@dataclass(frozen=True)
class Coverage:
    """What one test module runs of the sources."""

    module: str
    seconds: Mapping[str, float]  # of each test that passes

    digests: Mapping[str, str]  # of the source files as they were measured

    def lines(self, file: str) -> Mapping[int, Sequence[str]]:
        """For each line of a source file the tests that run it.

        What an import runs has the test ''.
        """
        if file not in self.digests:
            return {}
        from coverage import CoverageData

        data = CoverageData(basename=str(_data_file(self.module)))
        data.read()
        by_line = data.contexts_by_lineno(str(ROOT / file))
        measured_source = (CACHE / "sources" / self.digests[file]).read_text(
            encoding="utf-8"
        )
        lines_of_then = _lines_of_then(
            measured_source, (ROOT / file).read_text(encoding="utf-8")
        )
        return {
            line: [
                test
                for then in lines
                for test in by_line.get(then, ())
                if not test or test in self.seconds
            ]
            for line, lines in lines_of_then.items()
        }


@cache
def _lines_of_then(before: str, now: str) -> Mapping[int, Sequence[int]]:
    """For each line of a source the lines of an earlier version that it is taken for, counted from one."""
    matched: dict[int, Sequence[int]] = {}
    blocks = SequenceMatcher(
        None, before.splitlines(), now.splitlines(), autojunk=False
    ).get_opcodes()
    for tag, before_start, before_end, now_start, now_end in blocks:
        for place in range(now_start, now_end):
            if tag == "equal":
                matched[place + 1] = [before_start + place - now_start + 1]
            else:
                # what stood there, and its neighbours
                matched[place + 1] = range(before_start, before_end + 2)
    return matched


def _data_file(module: str) -> Path:
    return CACHE / f"{Path(module).stem}.coverage"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def measure(module: str, package: str) -> int:
    """Runs one test module once and writes what it runs into the cache."""
    from coverage import Coverage as Measuring

    started = time.monotonic()
    data_file = _data_file(module)
    measuring = Measuring(
        data_file=str(data_file), include=[f"{ROOT / package}/*"], config_file=False
    )
    measuring.erase()
    recorder = Recorder(measuring)
    measuring.start()
    options = [option for option in PYTEST_OPTIONS if option != "-x"]
    import pytest

    status = int(pytest.main([*options, module], plugins=[recorder]))
    measuring.stop()
    measuring.save()
    passed = {
        node: seconds
        for node, seconds in recorder.seconds.items()
        if node not in recorder.failed
    }
    known = {
        "digest": _digest((ROOT / module).read_bytes()),
        "sources": _keep_sources(measuring.get_data()),
        "seconds": passed,
        "failed": sorted(recorder.failed),
        "status": status,
        "took": time.monotonic() - started,
    }
    data_file.with_suffix(".json").write_text(
        json.dumps(known, indent=1), encoding="utf-8"
    )
    return 0


def _keep_sources(data: Any) -> dict[str, str]:
    """Keeps the measured source files as they are now, and says under which digest."""
    folder = CACHE / "sources"
    folder.mkdir(exist_ok=True)
    digests = {}
    for path in sorted(data.measured_files()):
        content = Path(path).read_bytes()
        digest = _digest(content)
        (folder / digest).write_bytes(content)
        digests[str(Path(path).relative_to(ROOT))] = digest
    return digests


def _is_stale(module: str) -> bool:
    """Whether a test module has to be measured: it is new or changed."""
    path = _data_file(module).with_suffix(".json")
    if not path.exists():
        return True
    known = json.loads(path.read_text(encoding="utf-8"))
    return bool(known["digest"] != _digest((ROOT / module).read_bytes()))


def fast_modules() -> list[str]:
    """Test modules of the fast lane; all where the tests have no lanes."""
    modules = sorted((ROOT / "tests").rglob("test_*.py"))
    try:
        from lanes import is_fast
    except ImportError:
        return [str(path.relative_to(ROOT)) for path in modules]
    return [str(path.relative_to(ROOT)) for path in modules if is_fast(path)]


def measured(
    files: Sequence[str], modules: Sequence[str], pool: ProcessPoolExecutor
) -> list[Coverage]:
    """The coverage of the test modules, from the cache where nothing changed."""
    CACHE.mkdir(parents=True, exist_ok=True)
    package = files[0].partition("/")[0]
    stale = [module for module in modules if _is_stale(module)]
    for number, module in enumerate(
        pool.map(_measured_in_child, stale, [package] * len(stale)), 1
    ):
        print(f"coverage {number}/{len(stale)}: {module}", file=sys.stderr, flush=True)
    return [coverage for module in modules if (coverage := _read(module))]


def _measured_in_child(module: str, package: str) -> str:
    status = in_child(lambda: measure(module, package))
    return (
        module
        if status == 0
        else f"{module} could not be measured (exit status {status})"
    )


def _read(module: str) -> Coverage | None:
    path = _data_file(module).with_suffix(".json")
    if not path.exists():
        return None
    known = json.loads(path.read_text(encoding="utf-8"))
    return Coverage(module, known["seconds"], known["sources"])


# One file


@dataclass(frozen=True)
class Covering:
    """For one source file, what each of its lines is run by."""

    seconds: Mapping[str, float]
    tests_by_line: Mapping[int, frozenset[str]]
    # outside of all functions: any test may depend on them
    imported_lines: frozenset[int]
    best_module: str

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests to try a mutant with.

        A line that an import runs may change anything in the file: then all tests that
        run a line of it. The coverage names only the first test that imports the
        module.
        """
        lines = range(mutant.line, mutant.last_line + 1)
        is_imported = any(line in self.imported_lines for line in lines)
        by_line = (
            self.tests_by_line.values()
            if is_imported
            else (self.tests_by_line.get(line, ()) for line in lines)
        )
        tests: set[str] = set().union(*by_line)
        return sorted(tests, key=lambda test: (self.seconds[test], test))

    def stages(self, mutant: Mutant) -> Iterator[dict[str, float]]:
        """First the tests of the module that knows the file best, then others, with what each took."""
        tests = self.tests(mutant)
        left = TEST_SECONDS
        for is_best in (True, False):
            stage: dict[str, float] = {}
            for test in tests:
                if (_module_of(test) == self.best_module) == is_best and self.seconds[
                    test
                ] <= left:
                    stage[test] = self.seconds[test]
                    left -= self.seconds[test]
            if stage:
                yield stage


def _module_of(test: str) -> str:
    return test.partition("::")[0]


def covering(file: str, coverages: Iterable[Coverage]) -> Covering:
    """Joins what all test modules run of one file."""
    seconds: dict[str, float] = {}
    tests_by_line: dict[int, set[str]] = defaultdict(set)
    tests_and_lines: dict[str, tuple[int, int]] = {}
    for coverage in coverages:
        seconds |= coverage.seconds
        lines = coverage.lines(file)
        own_lines = {
            line: [test for test in tests if test] for line, tests in lines.items()
        }
        for line, tests in own_lines.items():
            tests_by_line[line] |= set(tests)
        n_lines = sum(1 for tests in own_lines.values() if tests)
        n_tests = len({test for tests in own_lines.values() for test in tests})
        tests_and_lines[coverage.module] = (n_lines, n_tests)
    best = max(tests_and_lines, key=lambda module: tests_and_lines[module], default="")
    frozen = {line: frozenset(tests) for line, tests in tests_by_line.items()}
    return Covering(
        seconds,
        frozen,
        _imported_lines((ROOT / file).read_text(encoding="utf-8")),
        best,
    )


def _imported_lines(source: str) -> frozenset[int]:
    """The lines that an import runs: those outside of the bodies of functions."""
    lines = set(range(1, len(source.splitlines()) + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines -= set(
                range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
            )
    return frozenset(lines)


def passing(seconds: Mapping[str, float]) -> frozenset[str]:
    """Those of some tests that pass on the sources as they are.

    A test that was measured before another source changed may fail by now. It would
    kill every mutant.
    """
    modules = list(dict.fromkeys(map(_module_of, seconds)))
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        path = Path(folder, "passed")
        path.touch()
        plugins = [ChosenTests(seconds), PassedTests(path)]
        in_child(lambda: run_tests(modules, plugins, ["--maxfail=0"]))
        return frozenset(path.read_text(encoding="utf-8").splitlines())


def tried(mutant: Mutant, stages: Sequence[Mapping[str, float]]) -> Outcome:
    """What becomes of one mutant."""
    if not stages:
        return "uncovered"
    module = mutant.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def with_mutant(stage: Mapping[str, float]) -> int:
        sys.meta_path.insert(
            0, MutantImporter(module, str(ROOT / mutant.file), mutant.source)
        )
        try:
            # now: pytest's own import hook would stand before ours
            importlib.import_module(module)
            modules = list(dict.fromkeys(_module_of(test) for test in stage))
            return run_tests(modules, [ChosenTests(stage)])
        except Exception:  # noqa: BLE001 - whatever a mutant raises when it is imported, or pytest at its end
            return 1

    for stage in stages:
        status = in_child(lambda stage=stage: with_mutant(stage))
        if status in (-signal.SIGALRM, -signal.SIGPROF):
            return "timeout"
        # 5: a parametrized test has another name under the mutant
        if status not in (0, 5):
            return "killed"
    return "survived"


def _tried(
    mutant: Mutant, stages: Sequence[Mapping[str, float]]
) -> tuple[Mutant, Outcome]:
    return mutant, tried(mutant, stages)


# The command


def _files(paths: Iterable[str]) -> list[str]:
    """Source files below the paths, relative to the root."""
    files: list[str] = []
    for path in paths:
        full = (ROOT / path).resolve()
        if not full.exists():
            sys.exit(f"{path}: there is no such file or folder under {ROOT}")
        found = sorted(full.rglob("*.py")) if full.is_dir() else [full]
        files += [str(file.relative_to(ROOT)) for file in found]
    return list(dict.fromkeys(files))


def _share(counts: Counter[str]) -> str:
    total = counts.total()
    return f"{(counts['killed'] + counts['timeout']) / total:4.0%}" if total else "   –"


def _row(name: str, counts: Counter[str], seconds: float | None = None) -> str:
    numbers = [
        counts.total(),
        counts["killed"],
        counts["timeout"],
        counts["survived"],
        counts["uncovered"],
    ]
    columns = "".join(f"{number:>10}" for number in numbers)
    return f"{name:<52}{columns}{_share(counts):>8}" + (
        f"{seconds:>7.0f} s" if seconds is not None else ""
    )


HEADING = (
    f"{'':<52}"
    + "".join(
        f"{name:>10}"
        for name in ("mutants", "killed", "timeout", "survived", "uncovered")
    )
    + f"{'caught':>8}"
)


def _room(file: str) -> str:
    return str(Path(file).parent)


def main() -> None:
    """Tries the mutants of all files and prints what became of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="+", metavar="FILE or FOLDER")
    parser.add_argument(
        "--mutants", type=int, default=40, help="at most that many for each file"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument(
        "--survivors",
        type=Path,
        metavar="FILE",
        help="write what no test catches here, too",
    )
    parser.add_argument(
        "--tests",
        nargs="+",
        metavar="MODULE",
        help="try these alone; else all fast test modules",
    )
    options = parser.parse_args()

    for file, statement in stale_equivalents():
        print(f"{EQUIVALENT.name}: {file} has no mutant {statement!r}", file=sys.stderr)
    files = _files(options.paths)
    _import_heavy_packages()
    by_room: dict[str, Counter[str]] = defaultdict(Counter)
    not_caught: list[str] = []
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("fork")) as pool:
        coverages = measured(files, options.tests or fast_modules(), pool)
        print(HEADING, flush=True)
        for file in files:
            started = time.monotonic()
            counts: Counter[str] = Counter()
            for mutant, outcome in _of_one_file(file, coverages, pool, options):
                counts[outcome] += 1
                if outcome in ("survived", "uncovered"):
                    not_caught.append(f"{outcome} [{mutant.operator}] {mutant.diff}")
            by_room[_room(file)] += counts
            print(_row(file, counts, time.monotonic() - started), flush=True)
            if options.survivors:
                options.survivors.write_text(
                    "\n\n".join(not_caught) + "\n", encoding="utf-8"
                )
    print(
        "\n" + "\n".join(_row(room, counts) for room, counts in sorted(by_room.items()))
    )
    print(
        "\nNot caught:\n\n" + "\n\n".join(not_caught) if not_caught else "\nAll caught."
    )


def _of_one_file(
    file: str,
    coverages: Iterable[Coverage],
    pool: ProcessPoolExecutor,
    options: argparse.Namespace,
) -> Iterator[tuple[Mutant, Outcome]]:
    source = (ROOT / file).read_text(encoding="utf-8")
    not_counted = equivalent_mutants()
    mutants = [
        mutant
        for mutant in chosen(mutants_of(file, source), options.mutants, options.seed)
        if (file, mutant.statement) not in not_counted
    ]
    of_file = covering(file, coverages)
    stages = [list(of_file.stages(mutant)) for mutant in mutants]
    chosen_tests = {
        test: seconds
        for stages_of_mutant in stages
        for stage in stages_of_mutant
        for test, seconds in stage.items()
    }
    passed = pool.submit(passing, chosen_tests).result() if chosen_tests else set()
    n_failing = len(chosen_tests.keys() - passed)
    if n_failing:
        print(
            f"{file}: {n_failing} of {len(chosen_tests)} tests fail without a fault and"
            " are left out",
            file=sys.stderr,
        )
    return pool.map(_tried, mutants, [_without_failing(one, passed) for one in stages])


def _without_failing(
    stages: Sequence[Mapping[str, float]], passed: Collection[str]
) -> list[dict[str, float]]:
    """The stages without the tests that fail anyhow; those of which none is left are gone."""
    left = [
        {test: seconds for test, seconds in stage.items() if test in passed}
        for stage in stages
    ]
    return [stage for stage in left if stage]


def _import_heavy_packages() -> None:
    """Imports once what each process would import otherwise.

    Nothing of the project is among it.
    """
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]
    # a process with threads is not to be forked
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in HEAVY:
        try:
            importlib.import_module(name)
        except ImportError:
            continue


if __name__ == "__main__":
    main()
