"""What is imported only where it is used.

These are packages of ours that may be left out of an installation, such as scale,
traces and data sets: what needs one says so, and everything else works. They are also
modules that come with an extra, and objects of the user's own.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ragmetrics_core.data.errors import MissingDependency, SettingError


def import_deferred(place: str, needed_for: str) -> Any:
    """Import what one of our packages has, e.g. ``"page.render:write_page"``.

    Raises:
        MissingDependency: If the package was left out of this installation; the
            sentence begins with ``needed_for``.
    """
    module_name, _, name = place.partition(":")
    with whole_installation_for(needed_for):
        module = import_module(f"ragmetrics_core.{module_name}")
    return getattr(module, name)


@contextmanager
def whole_installation_for(purpose: str) -> Iterator[None]:
    """Say what to do where a package of ours was left out of this installation.

    Args:
        purpose: What needs it, which begins the sentence, such as "a page of results".

    Raises:
        MissingDependency: If the block imports a package of ours that is not there.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        first, _, rest = (error.name or "").partition(".")
        if first != "ragmetrics_core":
            raise  # something that a package of ours needs
        raise MissingDependency(
            f"{purpose} needs ragmetrics_core.{rest.partition('.')[0]}, which is not"
            " installed: install ragmetrics-core again, with all of its packages"
        ) from error


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
    except (Exception, SystemExit) as error:  # the module is the user's
        raise SettingError(
            f"{place} cannot be imported from here or from where Python looks:"
            f" {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.path[:] = paths_before
    if not hasattr(imported_module, name):
        raise SettingError(f"{place}: the module {module!r} has no {name!r}")
    return getattr(imported_module, name)
