"""Who gets the runs that begin here: captures by context, watches by process; work of judges reaches nobody."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ragmetrics_core.capturing.hooks import Problems, renew_after_fork
from ragmetrics_core.endpoints.framework_model import is_judge_work


class Listener:
    """Somebody who gets finished runs.

    Those of the whole process (``everywhere``), or of its context, with those that carry the context of no capture at
    all (``all_threads``). ``data``: it needs inputs and outputs whole, because the user names keys or paths.

    Attributes:
        record: Called with each finished run, in the application's thread.
        under: What the framework was doing when listening began, where an adapter needs to know.
        begun: True once a run began for it; adapters say so.
        missed: True once something began that carries no capture's context and was left out for that.
    """

    def __init__(
        self, problems: Problems, *, everywhere: bool = False, all_threads: bool = False, data: bool = False
    ) -> None:
        self.problems = problems
        self.everywhere, self.all_threads, self.data = everywhere, all_threads, data
        self.record: Callable[[Any], None] = _idle
        self.under: object = None
        self.begun = self.missed = False


def _idle(what: object) -> None:
    """Until a listener knows where runs go, and for an adapter without hooks to put in place."""


_entered: ContextVar[tuple[Listener, ...]] = ContextVar("ragmetrics_listeners", default=())


class Listeners:
    """The open listeners of one framework.

    ``opened`` is called with each listener before runs reach it, and puts the adapter's hooks in place; ``closed`` when
    it has gone.

    Attributes:
        open: The listeners; an immutable tuple that is replaced at each change, so that reading it needs no lock.
        problems: Errors of the hooks, counted for everybody who listens.
    """

    def __init__(self, opened: Callable[[Listener], None] = _idle, closed: Callable[[Listener], None] = _idle) -> None:
        self.open: tuple[Listener, ...] = ()
        self.problems: Problems = _Shared(self)
        self._opened, self._closed = opened, closed
        self._lock = threading.RLock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """In a forked child: the parent's threads may have held the lock."""
        self._lock = threading.RLock()

    def add(self, listener: Listener) -> None:
        """Begin to hand runs to a listener."""
        with self._lock:
            self.open = (*self.open, listener)
            self._opened(listener)
        if not listener.everywhere:
            _entered.set((*_entered.get(), listener))

    def remove(self, listener: Listener) -> None:
        """Begin no further runs for a listener; those that go on still reach it."""
        if not listener.everywhere:
            # No token: a block may be left in another context than it was entered in.
            _entered.set(tuple(other for other in _entered.get() if other is not listener))
        with self._lock:
            if listener not in self.open:
                return
            self.open = tuple(other for other in self.open if other is not listener)
            self._closed(listener)

    def here(self) -> tuple[Listener, ...]:
        """Who gets a run that begins here and now; nobody gets the work of a judge."""
        if not self.open or is_judge_work():
            return ()
        entered = _entered.get()
        found = tuple(one for one in self.open if one.everywhere or one in entered)
        strangers = [one for one in self.open if not one.everywhere]
        if not strangers or any(not one.everywhere for one in found):
            return found
        for one in strangers:
            one.missed = one.missed or not one.all_threads
        return (*found, *(one for one in strangers if one.all_threads))


def in_a_capture() -> bool:
    """Whether code here carries the context of any capture; a thread that was started bare does not."""
    return bool(_entered.get())


class _Shared(Problems):
    """Errors of hooks: counted for all who listen; without any they are only logged."""

    def __init__(self, listeners: Listeners) -> None:
        super().__init__()
        self._listeners = listeners

    def add(self, key: str, sentence: str) -> None:
        """Count a problem for everybody who listens."""
        listening = self._listeners.open
        if not listening:
            super().add(key, sentence)
        for one in listening:
            one.problems.add(key, sentence)


def strand() -> str:
    """The thread and task that run here: runs of one may belong to one question."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs here
        task = None
    return f"{threading.get_ident()}/" + ("" if task is None else f"{id(task)}/{task.get_name()}")
