"""What is imported only where it is used.

These are modules that come with an extra, and objects of the user's own.
"""

import os
import sys
from importlib import import_module
from typing import Any

from ragmetrics_core.data.errors import MissingDependency, SettingError


def import_extra(module: str, name: str, needed_for: str) -> Any:
    """Import a module of an optional package, such as ``"scipy.stats"``.

    The extra ``name`` brings the package. ``MissingDependency`` if it is not installed;
    the sentence begins with ``needed_for``.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingDependency(
            f'{needed_for} needs {package}: pip install "ragmetrics-core[{name}]"'
        ) from error


def import_named_object(place: str) -> Any:
    """Import ``module:name`` from where Python looks or from the working directory.

    "json:loads" gives the function ``json.loads``. Raises ``SettingError`` if it is not
    there.
    """
    module, _, name = place.strip().partition(":")
    if not module or not name or module.startswith("."):
        raise SettingError(f"{place!r} must be written module:name")
    # The search path is put back afterwards; the imported module may change it, too.
    paths_before = list(sys.path)
    sys.path.append(os.getcwd())
    try:
        imported_module = import_module(module)
    except (
        ImportError,
        SyntaxError,
        NameError,
        TypeError,
        AttributeError,
        LookupError,
        ValueError,
    ) as error:
        raise SettingError(
            f"{place} cannot be imported from here or from where Python looks: {error}"
        ) from error
    finally:
        sys.path[:] = paths_before
    if not hasattr(imported_module, name):
        raise SettingError(f"{place}: the module {module!r} has no {name!r}")
    return getattr(imported_module, name)
