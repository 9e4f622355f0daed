"""The adapter of the documentation keeps the contract, and the contract notices what is wrong with one."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragmetrics_core.testing import AdapterContract

PAGE = Path(__file__).parents[1] / "docs" / "own_adapter.md"
FRAMEWORK, ADAPTER, _, CONTRACT = re.findall(
    r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
)
IMPORTS = "from minirag import HOOKS, Chunk, Pipeline\n"
TESTS = [name for name in dir(AdapterContract) if name.startswith("test_")]


def contract(folder: Path, framework: str, adapter: str) -> Any:
    """The contract of the page, over a framework and an adapter as files."""
    (folder / "minirag.py").write_text(framework)
    (folder / "minirag_ragmetrics.py").write_text(IMPORTS + adapter)
    importlib.invalidate_caches()
    module = importlib.import_module("minirag_ragmetrics")
    namespace = {**vars(module)}
    exec(CONTRACT, namespace)  # our own documentation
    return namespace["TestMinirag"]()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder from which modules are imported, here and in processes."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield tmp_path
    for name in ("minirag", "minirag_ragmetrics"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", TESTS)
def test_the_adapter_of_the_page_keeps_the_contract(name: str, folder: Path) -> None:
    assert getattr(contract(folder, FRAMEWORK, ADAPTER), name)() is None


FAULTS = {
    "hook left installed": (
        "        HOOKS.remove(RECORDER)\n",
        "        pass\n",
        "test_no_hook_stays_when_nobody_listens",
    ),
    "guard taken away": (
        "    @guard_hook\n",
        "",
        "test_a_fault_of_the_adapter_does_not_reach_the_application",
    ),
    "metadata not copied": (
        "dict(chunk.metadata)",
        "chunk.metadata",
        "test_chunks_are_copied",
    ),
    "run kept when it has ended": (
        "            del self._runs[number]\n",
        "",
        "test_a_block_that_has_ended_is_forgotten",
    ),
    "run of a judge kept": (
        "LISTENERS.begin()",
        "LISTENERS.open",
        "test_a_judges_own_run_is_no_sample",
    ),
    "anything is a run": (
        "    raise SettingError(",
        "    return run\n    raise SettingError(",
        "test_what_is_no_run_is_refused_in_words",
    ),
    "kind misspelt": (
        'Node("retriever"',
        'Node("retrieve"',
        "test_golden_turns",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_contract_notices_a_fault(fault: str, folder: Path) -> None:
    text, wrong_text, name = FAULTS[fault]
    assert ADAPTER.count(text) == 1
    wrong = contract(folder, FRAMEWORK, ADAPTER.replace(text, wrong_text))
    with pytest.raises((AssertionError, LookupError, AttributeError)):
        getattr(wrong, name)()


def test_the_contract_notices_a_left_stream_that_is_kept_for_ever(folder: Path) -> None:
    deaf = FRAMEWORK.replace("except BaseException", "except Exception")
    wrong = contract(folder, deaf, ADAPTER)
    with pytest.raises(AssertionError, match="the recorder keeps runs"):
        wrong.test_a_block_that_has_ended_is_forgotten()
