"""What tests of metrics, adapters and judges need: assertions, contracts to inherit, a loopback server, fixtures.

Importing it loads nothing else: the names below are imported at their first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragmetrics_core.testing.assertions import UndecidedWarning as UndecidedWarning
    from ragmetrics_core.testing.assertions import assert_score as assert_score

__all__ = ["UndecidedWarning", "assert_score"]


def __getattr__(name: str) -> Any:
    """Import a public name at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ragmetrics_core.testing import assertions

    return getattr(assertions, name)
