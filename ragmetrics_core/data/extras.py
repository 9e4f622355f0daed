"""What is imported only where it is used: modules that come with an extra, and objects of the user's own."""

import os
import sys
from importlib import import_module
from typing import Any

from ragmetrics_core.data.errors import MissingDependency, SettingError


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


def own(place: str) -> Any:
    """Import ``module:name``; the module is looked for as Python does, and in the working directory.

    Raises:
        SettingError: If there is no such module, or it has nothing of this name.
    """
    module, _, name = place.strip().partition(":")
    if not module or not name or module.startswith("."):
        raise SettingError(f"{place!r} must be written module:name")
    before = list(sys.path)
    sys.path.append(os.getcwd())
    try:
        found = import_module(module)
    except (ImportError, SyntaxError, NameError, TypeError, AttributeError, LookupError, ValueError) as error:
        raise SettingError(f"{place} cannot be imported from here or from where Python looks: {error}") from error
    finally:
        sys.path[:] = before
    if not hasattr(found, name):
        raise SettingError(f"{place}: the module {module!r} has no {name!r}")
    return getattr(found, name)
