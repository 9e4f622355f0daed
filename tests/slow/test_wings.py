"""A wing can be removed: core and command judge, report and compare without it, and say what needs it."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ragmetrics_core.data import MissingDependency, deferred_imports
from ragmetrics_core.data.deferred_imports import import_deferred

SOURCE = Path(__file__).parents[2] / "ragmetrics_core"
CORE = frozenset(
    [
        "data",
        "metrics",
        "judging",
        "models",
        "engine",
        "statistics",
        "reporting",
        "page",
        "lexical",
    ]
)
WINGS = sorted(
    room.name
    for room in SOURCE.iterdir()
    if (room / "__init__.py").is_file() and room.name not in CORE
)
NEEDED_BY = {
    "encoders": "ragmetrics_core.EncoderJudge",
    "scale": "evaluate(rows, judge='lexical', batch=True)",
    "traces": "report.write_to('otel')",
}
"""What a user may ask of the core that needs a wing."""
COMMAND_NEEDING = {
    "demo": "demo",
    "labelling": "card --judge lexical --data rows.csv",
    "measured_use": "measure-use a.jsonl --model openai/m --dry-run",
    "scale": "store show",
    "traces": "evaluate spans.jsonl --traces",
}
"""A command that needs a wing."""

WITHOUT = """
import importlib, json, pkgutil, sys
from pathlib import Path

wings, needed_by, commands_needing, core = map(json.loads, sys.argv[1:])


class Removed:
    def find_spec(self, name, path=None, target=None):
        if any(f"{name}.".startswith(f"{wing}.") for wing in wings):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Removed())
import ragmetrics_core
from ragmetrics_core import ContextAdherence, Report, evaluate
from ragmetrics_core.data import MissingDependency
from ragmetrics_core.engine.row_files import read_rows

Path("rows.csv").write_text(
    "question,contexts,answer\\n"
    'Who?,"[""Anna lit the lamp.""]",Anna.\\n'
    'Who lit it?,"[""Anna lit the lamp.""]",Berta.\\n'
)

for room in core:
    package = importlib.import_module(f"ragmetrics_core.{room}")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)

rows = [row for _, row in read_rows(Path("rows.csv"))]
report = evaluate(rows, judge="lexical", progress=False)
assert len(report.scores("context_adherence")) == 2
assert "context_adherence" in report.table()
assert ContextAdherence().score(answer="Anna.", contexts=["Anna."], judge="lexical")
report.to_jsonl("run.jsonl")
assert Report.from_jsonl("run.jsonl") == report
assert report.compare(report).changes
for wing, use in needed_by.items():
    try:
        eval(use)
    except MissingDependency as error:
        assert f"needs {wing}, which is not installed" in str(error), error
    else:
        raise AssertionError(f"{use} does without {wing}")

if "ragmetrics_core.cli" not in wings:
    from ragmetrics_core.cli.main import main

    asked = ["evaluate", "rows.csv", "--judge", "lexical"]
    assert main([*asked, "--out", "a.jsonl", "--fail-under", "adherence=0.99"]) == 1
    assert main([*asked, "--out", "b.jsonl", "--report", "b.html"]) == 0
    assert main(["report", "a.jsonl", "--fail-under", "adherence=0.1"]) == 0
    assert main(["compare", "a.jsonl", "b.jsonl", "--fail-on-regression"]) == 0
    for command in commands_needing:
        assert main(command.split()) == 2
assert not [name for name in sys.modules if name.startswith(tuple(wings))]
"""


@pytest.mark.parametrize(
    "wings",
    [
        WINGS,
        [wing for wing in WINGS if wing != "cli"],
        *(pytest.param([wing], marks=pytest.mark.nightly) for wing in WINGS),
    ],
    ids=",".join,
)
def test_core_and_command_stand_without_wings(wings, tmp_path):
    needing = [wing for wing in wings if wing in COMMAND_NEEDING and "cli" not in wings]
    arguments = (
        [f"ragmetrics_core.{wing}" for wing in wings],
        {f"ragmetrics_core.{w}": use for w, use in NEEDED_BY.items() if w in wings},
        [COMMAND_NEEDING[wing] for wing in needing],
        sorted(CORE),
    )
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *map(json.dumps, arguments)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    for wing in WINGS:
        sentence = f"the command needs ragmetrics_core.{wing}, which is not installed"
        assert (sentence in done.stderr) == (wing in needing)


def imported_in(file: Path) -> list[str]:
    """The modules that a file imports, at load time or inside a function.

    What it imports for the checker of types alone stands in a block of its own.
    """
    tree = ast.parse(file.read_text("utf-8"))
    for block in ast.walk(tree):
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            block.body = []
    return [
        statement.module
        for statement in ast.walk(tree)
        if isinstance(statement, ast.ImportFrom) and statement.module
    ]


@pytest.mark.parametrize("room", sorted(CORE))
def test_no_room_of_the_core_imports_a_wing_but_by_import_deferred(room):
    wings = tuple(f"ragmetrics_core.{wing}" for wing in WINGS)
    past_it = [
        (file.name, module)
        for file in (SOURCE / room).rglob("*.py")
        for module in imported_in(file)
        if module.startswith(wings)
    ]
    assert past_it == []


def test_what_is_imported_by_its_place_is_there():
    calls = [
        call
        for file in SOURCE.rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "import_deferred"
    ]
    assert calls
    for call in calls:
        assert callable(import_deferred(*map(ast.literal_eval, call.args)))


def test_what_a_room_itself_lacks_is_said_as_it_is(monkeypatch):
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    monkeypatch.setattr(deferred_imports, "import_module", missing)
    with pytest.raises(ModuleNotFoundError, match="numpy") as caught:
        import_deferred("page.render:write_page", "a page")
    assert not isinstance(caught.value, MissingDependency)
