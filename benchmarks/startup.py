"""Import time and installed size of the core, and of each adapter beyond its framework.

uv run benchmarks/startup.py
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

ADAPTERS = {
    "langchain-ragmetrics": ("langchain_ragmetrics", "langchain_core.callbacks"),
    "llama-index-evaluation-ragmetrics": ("llama_index.evaluation.ragmetrics", "llama_index.core"),
    "ragmetrics-haystack": ("haystack_integrations.components.evaluators.ragmetrics", "haystack"),
}
_REPEATS = 3


def seconds(module: str, before: str = "sys") -> float:
    """CPU seconds that importing a module takes after another one, in a fresh interpreter; the best of a few."""
    code = (
        f"import {before}\nfrom time import process_time as now\nstart = now()\nimport {module}\nprint(now() - start)"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
            for _ in range(_REPEATS)]  # fmt: skip
    return min(float(said.split()[-1]) for said in runs)


def core_size() -> int:
    """Bytes of the core's own files."""
    folder = Path(__file__).parents[1] / "ragmetrics_core"
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


def main() -> None:
    """Print one row per package that is installed."""
    pydantic = seconds("pydantic")
    bare, everything = seconds("ragmetrics_core"), seconds("ragmetrics_core, ragmetrics_core.engine.evaluation")
    print(f"startup: import ragmetrics_core: {bare / pydantic:.2f} × import pydantic")
    print(f"startup: import of evaluate: {everything / pydantic:.2f} × import pydantic")
    print(f"startup: installed size of the core {core_size() / 1e6:.2f} MB, without dependencies")
    for package, (module, framework) in ADAPTERS.items():
        try:
            size = sum(Path(str(file.locate())).stat().st_size for file in files(package) or ())
        except (PackageNotFoundError, FileNotFoundError):
            continue
        ratio = seconds(module, framework) / seconds(framework)
        print(f"startup: {package} beyond {framework}: {ratio:.2f} × its import, {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
