"""Import time and installed size of the core, and of each adapter beyond its framework.

uv run benchmarks/startup.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
ADAPTERS = {
    "langchain-ragmetrics": (
        "langchain",
        "langchain_ragmetrics",
        "langchain_core.callbacks",
    ),
    "llama-index-evaluation-ragmetrics": (
        "llamaindex",
        "llama_index.evaluation.ragmetrics",
        "llama_index.core",
    ),
    "ragmetrics-haystack": (
        "haystack",
        "haystack_integrations.components.evaluators.ragmetrics",
        "haystack",
    ),
}
"""Folder, module and framework of each adapter."""

CORE = ("ragmetrics_core", "docs/how_it_works.md", "docs/metrics.md")
"""What the core's wheel holds: its package, and the pages that the demonstration reads.
"""

_REPEATS = 3
_HELP = (
    "from ragmetrics_core.cli.parsers import parser_of\n"
    "parser_of('evaluate').format_help()"
)


def seconds(module: str, before: str = "sys") -> float:
    """CPU seconds that importing a module takes after another one; the best of a few."""
    return seconds_of(f"import {module}", before)


def seconds_of(statement: str, before: str = "sys") -> float:
    """CPU seconds of a statement in a fresh interpreter; the best of a few."""
    code = (
        f"import {before}\nfrom time import process_time as now\nstart = now()\n"
        f"{statement}\nprint(now() - start)"
    )
    # as installed
    kept = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONDONTWRITEBYTECODE"
    }
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=kept,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(_REPEATS)
    ]
    return min(float(said.split()[-1]) for said in runs)


def size(*places: str) -> int:
    """Bytes that a wheel of these files and folders of the checkout installs, its own metadata left out."""
    found = [
        file for place in places for file in (ROOT / place, *(ROOT / place).rglob("*"))
    ]
    return sum(
        file.stat().st_size
        for file in found
        if file.is_file() and "__pycache__" not in file.parts
    )


def main() -> None:
    """Print one row per package that is installed."""
    pydantic = seconds("pydantic")
    bare, everything = (
        seconds("ragmetrics_core"),
        seconds("ragmetrics_core, ragmetrics_core.engine.evaluation"),
    )
    print(f"startup: import ragmetrics_core: {bare / pydantic:.2f} × import pydantic")
    print(f"startup: import of evaluate: {everything / pydantic:.2f} × import pydantic")
    print(
        "startup: import of evaluate:"
        f" {seconds('ragmetrics_core.engine.evaluation', 'pydantic'):.2f} s beyond"
        " pydantic"
    )
    rows = "[{'question': 'q', 'contexts': ['c'], 'answer': 'c'}]"
    first_evaluation = seconds_of(
        f"from ragmetrics_core import evaluate\nevaluate({rows}, judge='lexical')"
    )
    print(f"startup: import and first evaluation: {first_evaluation:.2f} s")
    print(
        f"startup: help of the command evaluate: {seconds_of(_HELP):.2f} s; goal ≤ 0.3"
    )
    print(
        f"startup: installed size of the core {size(*CORE) / 1e6:.2f} MB, without"
        " dependencies"
    )
    for package, (folder, module, framework) in ADAPTERS.items():
        try:
            distribution(package)
        except PackageNotFoundError:
            continue
        # a bare import loads next to nothing: each name is loaded at its first use
        everything = seconds_of(f"from {module} import *", framework)
        ratio = everything / seconds(framework)
        installed = size(f"integrations/{folder}/src") / 1e6
        print(
            f"startup: {package} beyond {framework}: {everything:.2f} s for all its"
            f" names, {ratio:.2f} × its import, {installed:.2f} MB"
        )


if __name__ == "__main__":
    main()
