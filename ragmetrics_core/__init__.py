"""Evaluate retrieval and answers of RAG applications: evidence, cost and confidence for every score.

The names that most programs need; all others are imported from their packages, e.g.
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

    The stub, which type checkers read, has lines such as ``from module import evaluate
    as evaluate``. The package imports "evaluate" from that module at its first use.

    Args:
        package: The package's name.
        path: The package's file, beside which the stub lies.
    """
    module_and_name_by_public_name = {}
    for statement in ast.parse(_stub_of(package, path)).body:
        if isinstance(statement, ast.ImportFrom) and statement.module:
            for alias in statement.names:
                public_name = alias.asname or alias.name
                source = (statement.module, alias.name)
                module_and_name_by_public_name[public_name] = source

    def import_on_use(name: str) -> Any:
        if name not in module_and_name_by_public_name:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from ragmetrics_core.data.deferred_imports import whole_installation_for

        module, name_in_module = module_and_name_by_public_name[name]
        with whole_installation_for(name):
            value = getattr(import_module(module), name_in_module)
        setattr(import_module(package), name, value)  # found at once from now on
        return value

    names = sorted(module_and_name_by_public_name)
    return import_on_use, lambda: names, names


def _stub_of(package: str, path: str) -> bytes:
    """The text of a package's stub, also if the package is in a zip file."""
    spec: Any = sys.modules[package].__spec__
    stub: bytes = spec.loader.get_data(str(Path(path).with_suffix(".pyi")))
    return stub


__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
