"""The page on data sets: its commands are commands, its Python is Python, its names are public."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

from ragmetrics_core import datasets
from ragmetrics_core.cli.main import _parser

PAGE = (Path(__file__).parents[1] / "docs" / "datasets.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("line", re.findall(r"^    ragmetrics (.+)$", PAGE, re.MULTILINE))
def test_commands(line: str) -> None:
    assert _parser().parse_args(shlex.split(line, comments=True)).run


def test_python() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module == "ragmetrics_core.datasets":
                assert all(hasattr(datasets, alias.name) for alias in node.names)
