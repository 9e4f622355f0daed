"""What tests of metrics and answers need: assertions, and a contract to inherit.

Importing it loads nothing else: the names below are imported at their first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragmetrics_core.testing.assertions import UndecidedWarning as UndecidedWarning
    from ragmetrics_core.testing.assertions import assert_score as assert_score

__all__ = ["UndecidedWarning", "assert_score"]


def __getattr__(name: str) -> Any:
    """Import a public name at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.assertions"), name)
