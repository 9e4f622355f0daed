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
from langchain_ragmetrics.demo import demo

HERE = Path(__file__).parents[1]


def test_readme_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (HERE / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 8
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert names["report"].scores("context_utilization") == [1.0, 1.0]
    assert names["watching"].aggregates["context_adherence"].mean > 0.5


@pytest.mark.parametrize(("example", "questions"), [("chain.py", 3), ("agent.py", 2)])
def test_examples_run(example: str, questions: int, capsys: pytest.CaptureFixture[str]) -> None:
    report = runpy.run_path(str(HERE / "examples" / example))["report"]
    assert "context_adherence" in capsys.readouterr().out
    assert len(report.results) == questions
    for result in report.results:
        assert result.sample.question.endswith("?")
        assert len(result.sample.contexts) == 4
        assert all(context.id and context.score for context in result.sample.contexts)
        assert result.results["context_adherence"].value > 0.5  # a quotation adheres


def test_demo_runs_a_chain(capsys: pytest.CaptureFixture[str]) -> None:
    report = demo()
    assert len(capsys.readouterr().out.strip().splitlines()) == 1
    assert set(report.metrics) >= {"context_adherence", "context_recall", "context_utilization"}
    assert [result.sample.error for result in report.results if result.sample] == [None] * 8


def test_examples_in_docstrings_run() -> None:
    modules = pkgutil.walk_packages(langchain_ragmetrics.__path__, "langchain_ragmetrics.")
    results = [doctest.testmod(importlib.import_module(module.name)) for module in modules]
    assert sum(result.attempted for result in results) >= 23
    assert not any(result.failed for result in results)
