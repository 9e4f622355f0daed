"""What a fork leaves behind: locks that no thread of the child will ever release. Their owners renew them."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Renewed(Protocol):
    """An object with locks or threads."""

    def after_fork(self) -> None:
        """Called in a forked child, before any other code of it runs."""


_living: WeakSet[Renewed] = WeakSet()


def renew_after_fork(owner: Renewed) -> None:
    """Have an object told when it wakes up in a forked child; it is not kept alive for that."""
    _living.add(owner)


def _in_child() -> None:
    for owner in list(_living):
        owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
