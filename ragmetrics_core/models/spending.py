"""Notes what the calls of one question have cost so far.

A judge returns what an answer cost. If a deadline, an interrupt or a crash ends the
judge before, it returns nothing. So every call is also noted here, when it is sent and
when it is answered. The tasks that a judge starts note their calls in the same place,
because they inherit the context.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ragmetrics_core.data import Usage

_current: ContextVar["Spending | None"] = ContextVar(
    "ragmetrics_spending", default=None
)


class Spending:
    """What the calls of one question have cost so far."""

    def __init__(self) -> None:
        self._usages: list[Usage] = []

    def note(self, usage: Usage) -> None:
        """Add what a call cost."""
        self._usages.append(usage)

    @property
    def usage(self) -> Usage:
        """The sum of all notes."""
        return sum(self._usages, Usage())


@contextmanager
def note_spending() -> Iterator[Spending]:
    """Yield an object that notes what the calls inside the block cost."""
    spending = Spending()
    token = _current.set(spending)
    try:
        yield spending
    finally:
        _current.reset(token)


def spending_here() -> Spending:
    """Return the object that notes what the present question spends.

    Outside of any question it is an object that nobody reads.
    """
    return _current.get() or Spending()
