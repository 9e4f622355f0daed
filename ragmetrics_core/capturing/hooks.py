"""Hooks that never harm the application: errors are logged once and counted, and no lock outlives a fork."""

import functools
import inspect
import logging
import os
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, cast
from weakref import WeakSet

logger = logging.getLogger("ragmetrics_core")

P = ParamSpec("P")
T = TypeVar("T")


class Problems:
    """Internal errors of a recorder: counted by place, each place logged once. Truthy if there were any."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        renew_after_fork(self)

    def __len__(self) -> int:
        return sum(self._counts.values())

    def __repr__(self) -> str:
        return f"Problems({dict(self._counts)})"

    @property
    def counts(self) -> dict[str, int]:
        """How often each problem occurred, by ``hook: error``."""
        with self._lock:
            return dict(self._counts)

    def record(self, hook: str, error: BaseException) -> None:
        """Count an error of a hook; the first of its kind is logged, without any text of the application."""
        frames = traceback.extract_tb(error.__traceback__)
        place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        key = f"{hook}: {type(error).__name__}"
        self.add(key, f"ragmetrics could not record a run ({key}{place}); the application is not affected")

    def note(self, message: str) -> None:
        """Count something that is no error but that the user should know; logged once."""
        self.add(message, message)

    def add(self, key: str, sentence: str) -> None:
        """Count a problem; the first of its kind is logged, by a sentence."""
        with self._lock:
            self._counts[key] += 1
            first = self._counts[key] == 1
        if first:
            logger.warning("%s", sentence)

    def after_fork(self) -> None:
        """In a forked child: the parent's threads may have held the lock."""
        self._lock = threading.Lock()


def guarded(hook: Callable[P, T]) -> Callable[P, T]:
    """Make a hook of a recorder harmless: its errors are counted in ``self.problems`` and None is returned.

    The hook is a method, sync or async. Only ``Exception`` is stopped: an interrupt or a cancellation of the
    application passes.
    """
    if inspect.iscoroutinefunction(hook):

        @functools.wraps(hook)
        async def guarded_async(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return await hook(self, *args, **kwargs)
            except Exception as error:  # noqa: BLE001  # the application must not notice
                self.problems.record(hook.__qualname__, error)

        return cast("Callable[P, T]", guarded_async)

    @functools.wraps(hook)
    def guarded_sync(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return hook(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001  # the application must not notice
            self.problems.record(hook.__qualname__, error)

    return cast("Callable[P, T]", guarded_sync)


# What a fork leaves behind: locks that no thread of the child will ever release. Their owners renew them.


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
