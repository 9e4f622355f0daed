"""Evaluate retrieval and answers of RAG applications: evidence, cost and confidence for every score.

The names that most programs need; all others are imported from their rooms, e.g. ``ragmetrics_core.data.errors``.
Importing the package loads nothing heavy: every name is imported at its first use.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

# Names are listed once, in the stub that type checkers read: "from room import name as name".
_LINES = Path(__file__).with_name("__init__.pyi").read_text("utf-8").splitlines()
_HOME = {line.split()[-1]: line.split()[1] for line in _LINES if line.startswith("from ")}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Import a public name at its first use."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
