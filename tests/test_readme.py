"""Every example of the README and the documentation runs, and every command parses."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ragmetrics_core.cli import main as command

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^ {4}(\S.*)$", re.MULTILINE)


def commands(path: Path) -> list[str]:
    """The commands of a page's indented blocks, without comments, split at ``&&``."""
    lines = [line.partition("  #")[0].strip() for line in _INDENTED.findall(path.read_text(encoding="utf-8"))]
    return [part.strip() for line in lines for part in line.split("&&")]


@pytest.mark.parametrize("path", [page for page in PAGES if _PYTHON.search(page.read_text())], ids=lambda p: p.name)
def test_python_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)
    page = path.read_text(encoding="utf-8")
    namespace: dict[str, object] = {"__name__": "readme"}
    for block in _PYTHON.finditer(page):
        before = page[: block.start(1)].count("\n")
        exec(compile("\n" * before + block[1], str(path), "exec"), namespace)
    assert len(namespace) > 2, "the examples define nothing"


def test_the_readme_has_examples_and_commands() -> None:
    assert len(_PYTHON.findall(README.read_text())) >= 3
    assert len([text for text in commands(README) if text.startswith("ragmetrics ")]) >= 4


RUNS = [text.removeprefix("uv run ") for page in PAGES for text in commands(page)]


@pytest.mark.parametrize("text", [text for text in RUNS if text.startswith("ragmetrics ")])
def test_commands_parse(text: str) -> None:
    options = command._parser().parse_args(shlex.split(text)[1:])
    assert callable(options.run)


def test_scripts_exist() -> None:
    scripts = [shlex.split(text)[0] for text in RUNS if text.split()[0].endswith(".py")]
    assert [name for name in scripts if not (ROOT / name).is_file()] == []


def test_the_two_commands_and_what_ci_runs() -> None:
    assert commands(README)[:3] == ["pip install uv", "uv run ragmetrics demo", "uv run pytest"]
    workflow = ROOT / ".ci" / "run"
    if not workflow.is_file():
        pytest.skip("a checkout without its CI script")
    assert "uv run pytest" in workflow.read_text().splitlines()
