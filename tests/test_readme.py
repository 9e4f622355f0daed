"""Every example of the README and the documentation runs, and every command parses."""

from __future__ import annotations

import json
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


# LlamaIndex's workflows look at every attribute of an agent, those too that pydantic deprecates.
@pytest.mark.filterwarnings("ignore:The `(__fields|model_):pydantic.warnings.PydanticDeprecatedSince20")
@pytest.mark.filterwarnings("ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211")
@pytest.mark.parametrize("path", [page for page in PAGES if _PYTHON.search(page.read_text())], ids=lambda p: p.name)
def test_python_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)
    page = path.read_text(encoding="utf-8")
    namespace: dict[str, object] = {"__name__": "readme"}
    for block in _PYTHON.finditer(page):
        before = page[: block.start(1)].count("\n")
        exec(compile("\n" * before + block[1], str(path), "exec", dont_inherit=True), namespace)
    assert len(namespace) > 2, "the examples define nothing"


def test_the_readme_has_examples_and_commands() -> None:
    assert len(_PYTHON.findall(README.read_text())) >= 3
    assert len([text for text in commands(README) if text.startswith("ragmetrics ")]) >= 4


RUNS = [text.removeprefix("uv run ") for page in PAGES for text in commands(page)]


@pytest.mark.parametrize("text", [text for text in RUNS if text.startswith("ragmetrics ")])
def test_commands_parse(text: str) -> None:
    words = shlex.split(text)[1:]
    options = command._parser(words[0]).parse_args(words)
    assert callable(options.run)


WORDS = {"AUROC", "MIT"}  # what a cell may say in capitals alone


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_no_cell_of_a_table_waits_to_be_filled_in(path: Path) -> None:
    cells = [
        cell.strip()
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
        for cell in line.split("|")
    ]
    assert [cell for cell in cells if re.fullmatch(r"[A-Z_]{2,}|\?+|\.{3}|…", cell) and cell not in WORDS] == []


def test_scripts_exist() -> None:
    scripts = [shlex.split(text)[0] for text in RUNS if text.split()[0].endswith(".py")]
    assert [name for name in scripts if not (ROOT / name).is_file()] == []


def test_the_two_commands_and_what_ci_runs() -> None:
    assert commands(README)[:3] == ["pip install uv", "uv run ragmetrics demo", "uv run pytest"]
    workflow = ROOT / ".ci" / "run"
    if not workflow.is_file():
        pytest.skip("a checkout without its CI script")
    assert "uv run pytest" in workflow.read_text().splitlines()


REPORTED = [
    text
    for page in (ROOT / "docs" / "report.md", ROOT / "docs" / "statistics.md")
    for text in commands(page)
    if text.startswith("ragmetrics ")
]


@pytest.mark.parametrize("text", REPORTED)
def test_commands_of_reports_and_statistics_run(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)
    rows = [
        {"id": f"s{n}", "query": f"Who lit lamp {n}?", "contexts": ["Fog.", f"Anna lit lamp {n}."],
         "response": f"Anna lit lamp {n}." if n % 2 else "Somebody else.", "topic": "ab"[n % 2],
         "conversation_id": n // 3, "user": {"id": n // 2}}
        for n in range(12)
    ]  # fmt: skip
    Path("answers.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for name in ("before.jsonl", "after.jsonl", "results.jsonl", "other.jsonl"):
        assert command.main(["evaluate", "answers.jsonl", "--quiet", "--out", name]) == 0
    labels = [{"id": f"s{n}", "label": n % 2, "labels": {"adherent": n % 2}} for n in range(12)]
    Path("labels.jsonl").write_text("\n".join(map(json.dumps, labels)))
    code = command.main(shlex.split(text)[1:])
    few = ("--fail-on-regression", "--against before", "--dry-run")  # twelve pairs are too few to rule a loss out
    assert code == (3 if any(option in text for option in few) else 0)
    written = [shlex.split(text)[place + 1] for place, part in enumerate(shlex.split(text)) if part == "--report"]
    assert all(Path(name).read_text("utf-8").startswith("<!DOCTYPE html>") for name in written)
