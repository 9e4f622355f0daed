"""The one event loop on which all judge I/O runs, in a daemon thread of its own.

Notebooks, running loops, ``score()`` and background evaluators share the judges'
clients this way, without crossing loops. Async functions of users' metrics have a loop
of their own, so that they hold up no judge. A process forked later makes its own.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from ragmetrics_core.data import SettingError
from ragmetrics_core.models.threads import JUDGES_THREAD, OUR_THREADS, loop_in_thread

T = TypeVar("T")

_METRICS_THREAD = "ragmetrics-metrics"


def submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Start work on the judges' loop from any thread.

    ``SettingError`` on the judges' loop itself, where waiting for the result would
    never end.
    """
    if threading.current_thread().name in OUR_THREADS:
        work.close()
        raise SettingError(
            "a judge or a metric's plan cannot call score or evaluate: in a judge await"
            " other_judge.answer(question), or await asyncio.to_thread(metric.score,"
            " ...); in a plan ask with 'yield from ask([...])'"
        )
    return asyncio.run_coroutine_threadsafe(work, loop_in_thread(JUDGES_THREAD))


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Do work on the judges' loop, as ``submit`` does, and wait for its result.

    If the wait ends before, e.g. by Ctrl-C, the work is cancelled. ``SettingError`` in
    an async metric, whose loop such a wait would hold up.
    """
    if threading.current_thread().name == _METRICS_THREAD:
        work.close()
        raise SettingError("an async metric awaits: await metric.ascore(...)")
    future = submit(work)
    try:
        return future.result()
    finally:
        future.cancel()


def run_metric(work: Coroutine[Any, Any, T]) -> T:
    """Do the work of a user's async metric on the loop of these, and wait for it."""
    return asyncio.run_coroutine_threadsafe(
        work, loop_in_thread(_METRICS_THREAD)
    ).result()
