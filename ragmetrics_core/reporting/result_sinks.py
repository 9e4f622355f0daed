"""Where results go, one after another: what a sink is, and writing a report to one."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from ragmetrics_core.data import SampleResult, SettingError


class Sink(Protocol):
    """Where results go, one after another."""

    def write(self, result: SampleResult) -> None:
        """Take one result."""

    def flush(self) -> None:
        """Return when all that was written has arrived; most keep nothing back."""


def write_all(results: Sequence[SampleResult], sink: Sink) -> None:
    """Write results to a sink in their order, and flush it.

    Raises:
        SettingError: If it is no sink.
        Exception: What the sink raises, after the results before were flushed.
    """
    check_sink(sink)
    n_written = 0
    try:
        for result in results:
            sink.write(result)
            n_written += 1
    except Exception as error:
        error.add_note(
            f"{n_written} of {len(results)} results were written to the sink"
            f" {type(sink).__name__} before"
        )
        with suppress(Exception):  # the first error says what to mend
            sink.flush()
        raise
    sink.flush()


def check_sink(sink: object) -> None:
    """Raise ``SettingError`` for an object to which no result can be written."""
    problem = _problem_of_sink(sink)
    if problem:
        raise SettingError(
            f"{problem}; a sink is an object with write(result) and flush(), e.g."
            " JsonlSink('scores.jsonl')"
        )


def _problem_of_sink(sink: object) -> str:
    """Say why results cannot be written to an object that was given as a sink.

    A sink is an object with the methods ``write(result)`` and ``flush()``. Example: for
    "out.jsonl" the problem is "a str is no sink: for a file of results give …".

    Returns:
        A sentence without its full stop; an empty text if the object can be used.
    """
    kind = type(sink).__name__
    if isinstance(sink, type):
        return f"the sink {sink.__name__} is a class: give one of its objects"
    if isinstance(sink, (str, os.PathLike)):
        return f"a {kind} is no sink: for a file of results give JsonlSink(path)"
    if inspect.isroutine(sink):
        return "a function is no sink: give it as on_result="
    for name in ("write", "flush"):
        method = getattr(sink, name, None)
        if not callable(method):
            return f"the sink {kind} has no method {name}"
        if inspect.iscoroutinefunction(method):
            return (
                f"the {name} of the sink {kind} is an 'async def', which nobody awaits:"
                f" write 'def {name}', it may wait in its own thread, e.g. by"
                " asyncio.run(…)"
            )
    # the ``write`` of the base class ``Sink`` is a placeholder that writes nothing
    inherits_write = getattr(type(sink), "write", None) is Sink.write
    if inherits_write:
        return f"the sink {kind} has no method write of its own"
    return ""
