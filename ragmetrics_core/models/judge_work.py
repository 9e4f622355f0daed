"""Marks the work of judges, so that capturing leaves it out, and notes what it spends.

It stands apart from the models, because everything that records a run asks for the mark.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar

from ragmetrics_core.data import Usage

_active: ContextVar[bool] = ContextVar("ragmetrics_judge_work", default=False)


@contextmanager
def as_judge_work() -> Iterator[None]:
    """Mark everything started inside as work of judges.

    Tasks and copied contexts inherit the mark.
    """
    token = _active.set(True)
    try:
        yield
    finally:
        _active.reset(token)


def judge_context() -> Context:
    """Return an empty context that is marked as a judge's.

    It is for calls of a judge's model. No tracer of the application is set in it.
    Instrumentation by OpenTelemetry is told to look away, and a tracer that does not
    ask finds a parent that is not sampled: by default, or where it samples a share of
    the traces, it samples none below it.
    """
    context = Context()
    context.run(_active.set, True)
    opentelemetry = sys.modules.get("opentelemetry.context")
    trace = sys.modules.get("opentelemetry.trace")
    if opentelemetry is not None:
        # what all read; 1.4 has none
        key = getattr(opentelemetry, "_SUPPRESS_INSTRUMENTATION_KEY", "")
        looking_away = opentelemetry.set_value(key, True, opentelemetry.Context())
        if trace is not None:
            # the highest id of a trace: a sampler of a share of them takes the low ones
            ids = trace.SpanContext(2**128 - 1, 1, is_remote=False)
            parent = trace.NonRecordingSpan(ids)
            looking_away = trace.set_span_in_context(parent, looking_away)
        context.run(opentelemetry.attach, looking_away)
    return context


def is_judge_work() -> bool:
    """True inside the work of a judge: a recorder looks away."""
    return _active.get()


class JudgedRow:
    """A row of a run, while it is judged."""


judged_row: ContextVar[JudgedRow | None] = ContextVar("ragmetrics_row", default=None)
"""The row that is judged; None outside of runs."""

_current: ContextVar[list[Usage] | None] = ContextVar(
    "ragmetrics_spending", default=None
)


@contextmanager
def note_spending() -> Iterator[list[Usage]]:
    """Yield a list to which each call inside the block adds what it cost."""
    spending: list[Usage] = []
    token = _current.set(spending)
    try:
        yield spending
    finally:
        _current.reset(token)


def spending_here() -> list[Usage]:
    """Return the list of what the calls of the present question cost.

    Outside of any question it is one that nobody reads.
    """
    spending = _current.get()
    return [] if spending is None else spending
