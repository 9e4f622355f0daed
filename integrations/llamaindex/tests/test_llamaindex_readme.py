"""The README's code runs, the example runs, the package is put together as LlamaHub wants it."""

import re
import runpy
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from doc_blocks import examples, run_example
from llama_index.core import Settings

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BLOCKS = list(examples(README.read_text(encoding="utf-8")))
pytestmark = [
    # The framework's batch runner uses a deprecated function of its own, and its chat
    # memory closes no database.
    pytest.mark.filterwarnings("ignore:.*asyncio_module:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*aiosqlite:ResourceWarning"),
    # The framework's workflows look at all members of an agent, deprecated pydantic
    # ones among them.
    pytest.mark.filterwarnings(
        "ignore:The `(__fields|model_):pydantic.warnings.PydanticDeprecatedSince20"
    ),
    pytest.mark.filterwarnings(
        "ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211"
    ),
    pytest.mark.usefixtures("databases_let_go"),
]


def test_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Settings, "_llm", None)
    names: dict[str, Any] = {"__name__": "readme"}
    assert len(BLOCKS) >= 4
    for block in BLOCKS:
        run_example(block, README, names)
        if "capture(answer_from" in block.code:
            (sample,) = names["captured"].samples
            assert (sample.question, sample.answer) == (
                "What did the author do?",
                "He wrote.",
            )
            assert (sample.contexts[0].text, sample.id) == ("As a child he wrote.", "7")
    assert names["result"].score is not None
    assert names["watching"].aggregates["context_adherence"].scored == 1
    assert len(names["report"].results) == 1


def test_the_page_on_agents_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("llama_index.core.llms.mock")
    if not hasattr(sys.modules["llama_index.core.llms.mock"], "MockFunctionCallingLLM"):
        pytest.skip("this release has no fake that calls functions")
    page = (ROOT.parents[1] / "docs" / "agents.md").read_text(encoding="utf-8")
    section = page.partition("\n## LlamaIndex\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(block, "agents.md", "exec"), names)
    assert len(names["captured"].samples) == 2


def test_the_example_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = ROOT.parents[1] / "examples"
    monkeypatch.syspath_prepend(examples)
    report = runpy.run_path(str(examples / "llamaindex_engine.py"))["report"]
    assert "context_adherence" in capsys.readouterr().out
    assert len(report.results) == 8
    for result in report.results:
        assert result.sample is not None
        assert result.sample.answer
        assert result.sample.retrieved
        assert result.results["context_adherence"].status == "scored"


def test_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["name"] == "llama-index-evaluation-ragmetrics"
    hub = project["tool"]["llamahub"]
    assert hub["import_path"] == "llama_index.evaluation.ragmetrics"
    for name in hub["class_authors"]:
        assert hasattr(import_module("llama_index.evaluation.ragmetrics"), name)
    source = ROOT / "src" / "llama_index"
    assert not (source / "__init__.py").exists()
    assert not (source / "evaluation" / "__init__.py").exists()
    assert (source / "evaluation" / "ragmetrics" / "py.typed").exists()
