"""What the documentation shows runs: README, examples in docstrings, the example."""

from __future__ import annotations

import doctest
import importlib
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from doc_blocks import run_examples
from haystack import tracing
from haystack.tracing.tracer import NullTracer

HERE = Path(__file__).parents[1]
MODULES = [
    f"haystack_integrations.components.evaluators.ragmetrics.{name}"
    for name in ("evaluator", "model")
]


def test_the_readme_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = HERE / "README.md"
    names: dict[str, Any] = {}
    assert len(run_examples(page.read_text(encoding="utf-8"), page, names)) >= 3
    said = capsys.readouterr().out
    assert "context_adherence" in said
    assert names["sample"].question == names["question"]
    assert names["sample"].answer == "The old lighthouse was built in 1856."
    assert isinstance(tracing.tracer.actual_tracer, NullTracer)


def test_the_page_on_agents_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = HERE.parents[1].joinpath("docs", "agents.md").read_text(encoding="utf-8")
    (block,) = re.findall(
        r"```python\n(.*?)```",
        page.partition("\n## Haystack\n")[2].partition("\n## ")[0],
        re.DOTALL,
    )
    # other tests run this page, too, and a name would continue their conversation
    block = block.replace('"keeper"', '"keeper of this test"')
    names: dict[str, Any] = {}
    # Haystack 3.1 reads no postponed annotations
    exec(compile(block, "agents.md", "exec", dont_inherit=True), names)
    assert len(names["captured"].samples) == 2


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module: str) -> None:
    found = importlib.import_module(module)
    assert doctest.testmod(found).attempted > 0
    assert doctest.testmod(found).failed == 0


def test_the_example_evaluates_a_real_corpus(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = HERE.parents[1] / "examples"
    monkeypatch.syspath_prepend(examples)
    report = runpy.run_path(str(examples / "haystack_pipeline.py"))["report"]
    assert "context_adherence" in capsys.readouterr().out
    assert all(
        row.results["context_utilization"].status == "scored" for row in report.results
    )
    assert all(
        row.sample is not None and len(row.sample.known_contexts) == 4
        for row in report.results
    )
    summary = {found.metric: found.mean for found in report.summary().metrics}
    assert summary["context_adherence"] is not None
    assert summary["context_adherence"] > 0.8  # the generator only quotes


def test_no_package_of_haystack_is_hidden() -> None:
    for path in ("", "components", "components/evaluators", "tracing"):
        assert not (
            HERE / "src" / "haystack_integrations" / path / "__init__.py"
        ).exists()
    for path in (HERE, HERE.parent, HERE / "tests"):
        assert not (path / "__init__.py").exists()
