"""Putting the tracer in place, and taking it away again."""

from __future__ import annotations

import threading

from haystack.tracing.tracer import enable_tracing, tracer
from haystack_integrations.tracing.ragmetrics.recorder import Sink, Tee, everywhere, scoped

_lock = threading.Lock()
_users = 0
_tee: Tee | None = None


def attach(sink: Sink, *, process: bool) -> None:
    """Begin to deliver runs.

    Args:
        sink: Who gets them.
        process: Runs of the whole process; else those that begin in this context and its copies.
    """
    global _users  # one tracer per process, as Haystack has it
    with _lock:
        _users += 1
        actual = tracer.actual_tracer
        if not isinstance(actual, Tee) or actual.retired:
            _retire()
            enable_tracing(_installed(Tee(actual)))
        if process:
            everywhere.sinks = (*everywhere.sinks, sink)
    if not process:
        scoped.set((*scoped.get(), sink))


def detach(sink: Sink) -> None:
    """Deliver no run that begins from now on; the last one out removes the tracer, if it is still in place."""
    global _users
    scoped.set(tuple(other for other in scoped.get() if other is not sink))
    with _lock:
        _users -= 1
        everywhere.sinks = tuple(other for other in everywhere.sinks if other is not sink)
        if _users == 0:
            actual = tracer.actual_tracer
            _retire()
            if isinstance(actual, Tee):
                enable_tracing(actual.inner)


def _installed(tee: Tee) -> Tee:
    global _tee
    _tee = tee
    return tee


def _retire() -> None:
    """A tracer that was displaced, or is no longer wanted, only passes on from now on."""
    if _tee is not None:
        _tee.retired = True


def displaced() -> bool:
    """True if another tracer was enabled over ours, so that nothing is recorded."""
    return tracer.actual_tracer is not _tee
