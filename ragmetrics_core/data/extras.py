"""Packages that come with an extra: imported where they are used, with a sentence that says what to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ragmetrics_core.data.errors import MissingDependency


def extra(module: str, name: str, needed_for: str) -> Any:
    """Import a module of an optional package.

    Args:
        module: The module, e.g. ``"scipy.stats"``.
        name: The extra that brings it.
        needed_for: What needs it, the beginning of the sentence.

    Raises:
        MissingDependency: If it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingDependency(f'{needed_for} needs {package}: pip install "ragmetrics-core[{name}]"') from error
