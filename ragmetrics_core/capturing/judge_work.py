"""Marks work of judges, so that recorders never capture it as runs of the application."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar

_active: ContextVar[bool] = ContextVar("ragmetrics_judge_work", default=False)


@contextmanager
def as_judge_work() -> Iterator[None]:
    """Mark everything started inside as work of judges; tasks and copied contexts inherit the mark."""
    token = _active.set(True)
    try:
        yield
    finally:
        _active.reset(token)


def judge_context() -> Context:
    """An empty context that is marked: for calls of a judge's model, where no tracer of the application is set."""
    context = Context()
    context.run(_active.set, True)
    return context


def is_judge_work() -> bool:
    """True inside the work of a judge: a recorder looks away."""
    return _active.get()
