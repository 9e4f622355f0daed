"""What the calls of one question have cost so far.

It is for a question that is cut off before its judge can say so.

A judge returns what an answer cost. If a deadline, an interrupt or a crash ends it
before, nothing is returned; so every call is also noted here, when it leaves and when
it is answered. Tasks that a judge starts note theirs in the same place, because they
inherit the context.
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
        self.usage = Usage()

    def note(self, usage: Usage) -> None:
        """Add what a call cost."""
        self.usage += usage


@contextmanager
def note_spending() -> Iterator[Spending]:
    """Note here what is spent inside the block."""
    spending = Spending()
    token = _current.set(spending)
    try:
        yield spending
    finally:
        _current.reset(token)


def spending_here() -> Spending:
    """Where to note what is spent; outside any question it is noted for nobody."""
    return _current.get() or Spending()
