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


def seconds(module: str, before: str = "sys") -> float:
    """CPU seconds that importing a module takes after another one, in a fresh interpreter; the best of a few."""
    code = (
        f"import {before}\nfrom time import process_time as now\nstart = now()\nimport"
        f" {module}\nprint(now() - start)"
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
    print(
        f"startup: installed size of the core {size(*CORE) / 1e6:.2f} MB, without"
        " dependencies"
    )
    for package, (folder, module, framework) in ADAPTERS.items():
        try:
            distribution(package)
        except PackageNotFoundError:
            continue
        ratio = seconds(module, framework) / seconds(framework)
        installed = size(f"integrations/{folder}/src") / 1e6
        print(
            f"startup: {package} beyond {framework}: {ratio:.2f} × its import,"
            f" {installed:.2f} MB"
        )


if __name__ == "__main__":
    main()
