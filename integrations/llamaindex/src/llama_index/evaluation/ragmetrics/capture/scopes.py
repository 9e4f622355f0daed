"""Who gets which runs: captures by context, watches by process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from llama_index.evaluation.ragmetrics.capture.run import Run
from llama_index_instrumentation.span import active_span_id

from ragmetrics_core.capturing import Problems

_paused: ContextVar[bool] = ContextVar("ragmetrics_paused", default=False)


class Sink(Protocol):
    """Who gets finished runs."""

    problems: Problems

    def record(self, run: Run) -> None:
        """Keep a finished run; cheap, from any thread."""


@dataclass(frozen=True, eq=False)
class Scope:
    """Where a sink gets runs from.

    Args:
        sink: Who gets them.
        everywhere: Runs of the whole process, not only of the context that opened the scope.
        threads: Also runs in threads without a context of their own, while this is the only such scope.
        data: Whether inputs and outputs are needed as plain data.
        under: The framework's span in which the scope was opened.
    """

    sink: Sink
    everywhere: bool = False
    threads: bool = False
    data: bool = False
    under: str | None = field(default_factory=active_span_id.get)


_entered: ContextVar[tuple[Scope, ...]] = ContextVar("ragmetrics_scopes", default=())


class Scopes:
    """The open scopes. An immutable tuple is replaced at each change, so that reading it needs no lock."""

    def __init__(self) -> None:
        self.open: tuple[Scope, ...] = ()
        self._lock = Lock()

    def add(self, scope: Scope) -> None:
        """Open a scope."""
        with self._lock:
            self.open = (*self.open, scope)

    def remove(self, scope: Scope) -> None:
        """Close a scope."""
        with self._lock:
            self.open = tuple(other for other in self.open if other is not scope)

    def wanted(self, parent_id: str | None, taken: tuple[Scope, ...], *, outermost: bool) -> tuple[Scope, ...]:
        """The scopes for which a run begins here.

        Args:
            parent_id: The framework's span around it.
            taken: Scopes for which this is inside of a run; another scope wants it only if it was opened in there.
            outermost: False if the span around it is unknown: then this is a part of something that began before
                capturing did, unless the scope itself was opened in that span.
        """
        entered = _entered.get()
        if taken:
            return tuple(scope for scope in entered if scope not in taken and scope in self.open)
        here = [scope for scope in self.open if scope.everywhere or scope in entered]
        found = [scope for scope in here if outermost or parent_id == scope.under]
        if not entered and outermost:
            local = [scope for scope in self.open if not scope.everywhere]
            found += [scope for scope in local if scope.threads] if len(local) == 1 else []
        return tuple(found)


class SharedProblems(Problems):
    """Errors of the hooks, counted for everyone who is recording.

    Args:
        scopes: The open scopes.
    """

    def __init__(self, scopes: Scopes) -> None:
        super().__init__()
        self._scopes = scopes

    def record(self, hook: str, error: BaseException) -> None:
        """Count an error in all open scopes; without any it is only logged."""
        if not self._scopes.open:
            super().record(hook, error)
        for scope in self._scopes.open:
            scope.sink.problems.record(hook, error)


@contextmanager
def entered(scope: Scope) -> Iterator[None]:
    """Runs that begin inside belong to a scope."""
    _entered.set((*_entered.get(), scope))
    try:
        yield
    finally:
        # No token: the block may be left in another context than it was entered in.
        _entered.set(tuple(other for other in _entered.get() if other is not scope))


@contextmanager
def paused() -> Iterator[None]:
    """Record nothing that begins inside: a judge at work is no application."""
    token = _paused.set(True)
    try:
        yield
    finally:
        _paused.reset(token)


def pause_for_good() -> None:
    """Record nothing that begins in this context from now on."""
    _paused.set(True)


def is_paused() -> bool:
    """True where nothing is recorded."""
    return _paused.get()
