"""Every notebook and script of ``examples/`` runs in an empty folder, and the notebooks show what stands in them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from notebooks import code_cells

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
# what others import, and what tests/scale/engines runs where MLflow is installed
NO_SCRIPTS = {"langchain_stand_ins.py", "mlflow_scorers.py", "own_docs.py"}
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if path.name not in NO_SCRIPTS)


def python(folder: Path, *arguments: str) -> str:
    """What a fresh interpreter prints in ``folder``."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "RAGMETRICS_JUDGE": ""},
        text=True,
        capture_output=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_show_what_they_say(path, tmp_path):
    python(
        tmp_path,
        str(EXAMPLES.parent / "tests" / "support" / "notebooks.py"),
        "--check",
        path.name,
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_hold_outputs(path):
    cells = code_cells(json.loads(path.read_text("utf-8")))
    assert sum(bool(cell["outputs"]) for cell in cells) >= 2
    assert [
        output
        for cell in cells
        for output in cell["outputs"]
        if output["output_type"] == "error"
    ] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_begins_with_an_evaluator_and_ends_with_a_report(path):
    cells = code_cells(json.loads(path.read_text("utf-8")))
    sources = ["".join(cell["source"]) for cell in cells]
    evaluators = ("Evaluator", "RagMetricsCallback", "evaluate(")
    assert any(name in sources[1] for name in evaluators)
    assert sources[-1] == "report"
    (output,) = cells[-1]["outputs"]
    assert "Only words were compared" in "".join(output["data"]["text/html"])


@pytest.mark.parametrize(
    ("adapter", "evaluator"),
    [
        ("langchain", "RagMetricsCallback("),
        ("llamaindex", "ContextAdherenceEvaluator("),
        ("haystack", "RagMetricsEvaluator("),
    ],
)
def test_the_page_of_an_adapter_begins_with_its_evaluator(adapter, evaluator):
    page = EXAMPLES.parent / "integrations" / adapter / "README.md"
    text = page.read_text("utf-8")
    assert text.index(evaluator) < text.index("with capture(")


@pytest.mark.nightly
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_score(path, tmp_path):
    assert "context_adherence" in python(tmp_path, str(path))


def test_there_is_one_for_each_framework_and_one_for_a_table():
    assert {path.stem for path in NOTEBOOKS} == {
        "haystack",
        "langchain",
        "llamaindex",
        "table",
    }
