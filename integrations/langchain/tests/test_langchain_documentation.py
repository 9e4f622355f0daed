"""README and examples run as they stand."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import runpy
from pathlib import Path
from typing import Any

import langchain_ragmetrics
import pytest
from doc_blocks import run_examples

HERE = Path(__file__).parents[1]
EXAMPLES = HERE.parents[1] / "examples"


def test_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = HERE / "README.md"
    names: dict[str, Any] = {}
    assert len(run_examples(page.read_text(encoding="utf-8"), page, names)) >= 3
    assert names["report"].scores("context_utilization") == [1.0, 1.0]


def test_the_page_on_agents_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = HERE.parents[1].joinpath("docs", "agents.md").read_text(encoding="utf-8")
    section = page.partition("\n## LangChain and LangGraph\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    # other tests run this page, too, and a name would continue their conversation
    block = block.replace("visitor-7", "visitor of this test")
    names: dict[str, Any] = {}
    exec(compile(block, "agents.md", "exec", dont_inherit=True), names)
    assert len(names["captured"].samples) == 2


@pytest.mark.parametrize(("example", "questions"), [("chain", 8), ("agent", 2)])
def test_examples_run(
    example: str,
    questions: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    report = runpy.run_path(str(EXAMPLES / f"langchain_{example}.py"))["report"]
    assert "context_adherence" in capsys.readouterr().out
    assert len(report.results) == questions
    for result in report.results:
        assert result.sample.question.endswith("?")
        assert len(result.sample.known_contexts) == 4
        assert all(
            context.id and context.score for context in result.sample.known_contexts
        )
        assert result.results["context_adherence"].value > 0.5  # a quotation adheres


def test_examples_in_docstrings_run() -> None:
    modules = pkgutil.walk_packages(
        langchain_ragmetrics.__path__, "langchain_ragmetrics."
    )
    results = [
        doctest.testmod(importlib.import_module(module.name)) for module in modules
    ]
    assert sum(result.attempted for result in results) >= 19
    assert not any(result.failed for result in results)
