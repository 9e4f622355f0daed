"""The lanes of the tests: which are fast, and which run only at night; CONTRIBUTING.md explains them.

A test is *fast* unless its module imports something slow, itself or through a module in
``tests/``, or stands in the table of slow modules. A test is *nightly* where its own decorator says so.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from hypothesis import settings

_ROOT = Path(__file__).parents[1]

# What takes seconds to load, or starts a browser or a terminal.
SLOW_IMPORTS = frozenset(
    {
        "haystack",
        "haystack_integrations",
        "langchain",
        "langchain_classic",
        "langchain_core",
        "langchain_ragmetrics",
        "langgraph",
        "litellm",
        "llama_index",
        "mlflow",
        "openinference",
        "phoenix",
        "pty",
        "selenium",
        "workflows",
    }
)

# A line that imports something, also of a program that stands in a text: who writes one
# runs it.
_IMPORT = re.compile(
    r"^\s*(?:from|import)\s+(\w+)|\bimportorskip\(\"(\w+)", re.MULTILINE
)

# Modules that are slow although they import nothing of that kind, each with the reason.
SLOW_MODULES = {
    "tests/test_action.py": "runs the command once or more for each test",
    "tests/test_endpoints_of_users.py": "one of its tests loads LiteLLM",
    "tests/test_every_module.py": "imports every adapter, and so every framework",
    "tests/test_examples.py": (
        "runs the examples, which build applications of every framework"
    ),
    "tests/test_imports.py": "starts an interpreter for each test, or several",
    "tests/test_killed.py": "kills a run again and again",
    "tests/test_leaving.py": "waits for an endpoint after each way of leaving a run",
    "tests/test_measured_use_benchmark.py": "its applications are LangChain's",
    "tests/test_nightly.py": "runs a script of many processes for each test",
    "tests/test_published_calls.py": "some models of its tests are LiteLLM's",
    "tests/test_pytest_plugin.py": "runs pytest inside pytest",
    "tests/test_readme.py": (
        "runs the examples of all pages, which build applications of every framework"
    ),
    "tests/test_report_command.py": (
        "runs a block of the README, which builds an application of LangChain"
    ),
    "tests/test_simulation.py": "simulates thousands of samples",
    "tests/test_spending.py": "loads LiteLLM, whose import takes seconds",
    "tests/test_store_disk.py": "fills a disk, in processes of its own",
    "tests/test_store_processes.py": "starts several processes for each test",
    "tests/test_traces_law.py": (
        "records every shape of the adapters' tests by real instrumentations"
    ),
    "tests/test_until.py": "runs the command and pytest in processes of their own",
    "tests/test_wings.py": "starts an interpreter for each wing",
}

# After so many seconds a nightly test counts as one that hangs; the others have those
# in pyproject.toml.
NIGHTLY_SECONDS = 1800

# So many examples of a law are tried where it does not say how many.
LAW_EXAMPLES = 50


def examples(count: int) -> int:
    """How many examples of a law are tried: ``count`` of them, or more where the run chose a deeper profile."""
    return count * settings().max_examples // LAW_EXAMPLES


@cache
def is_fast_module(path: Path) -> bool:
    """Whether the tests of a module are fast: it is none of an adapter's, and imports nothing slow."""
    name = path.relative_to(_ROOT).as_posix()
    if not name.startswith("tests/") or name in SLOW_MODULES:
        return False
    return not _imports_something_slow(path)


@cache
def _imports_something_slow(path: Path) -> bool:
    """Whether a module does, in its functions, too, or one in ``tests/`` that it imports."""
    source = path.read_text(encoding="utf-8")
    roots = {before or within for before, within in _IMPORT.findall(source)}
    if roots & SLOW_IMPORTS:
        return True
    shared = (path.with_name(f"{root}.py") for root in roots - {path.stem})
    return any(_imports_something_slow(module) for module in shared if module.is_file())
