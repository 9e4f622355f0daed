"""Evaluate retrieval and answers of RAG applications: evidence, cost and confidence for every score.

The names that most programs need; all others are imported from their rooms, e.g.
``ragmetrics_core.data``. Importing the package loads nothing heavy: every name is
imported at its first use.
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def names_of_stub(
    package: str, path: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and the names of a package with a stub.

    Each name is imported at its first use.

    Names are listed once, in the stub that type checkers read: ``from room import name
    as name``.
    """
    spec: Any = sys.modules[package].__spec__
    # also where it comes from a zip file
    stub: bytes = spec.loader.get_data(str(Path(path).with_suffix(".pyi")))
    homes = {}
    for statement in ast.parse(stub).body:
        if isinstance(statement, ast.ImportFrom) and statement.module:
            for alias in statement.names:
                homes[alias.asname or alias.name] = (statement.module, alias.name)

    def named(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, original = homes[name]
        value = getattr(import_module(home), original)
        setattr(import_module(package), name, value)
        return value

    names = sorted(homes)
    return named, lambda: names, names


__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
