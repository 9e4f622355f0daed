"""The one event loop on which all judge I/O runs, in a daemon thread of its own.

Notebooks, running loops, ``score()`` and background evaluators share the judges'
clients this way, without crossing loops. A process forked later makes its own.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from ragmetrics_core.data import SettingError
from ragmetrics_core.models.threads import COMPUTING_THREADS

T = TypeVar("T")

logger = logging.getLogger("ragmetrics_core")

_JUDGES_THREAD = "ragmetrics-judges"
_lock = threading.Lock()
_judges_loop: asyncio.AbstractEventLoop | None = None
_judges_thread: threading.Thread | None = None
# a loop holds its tasks weakly: one that only waits would be collected
_pending: set[Future[Any]] = set()


def submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Start work on the judges' loop from any thread.

    ``SettingError`` on the judges' loop itself, where waiting for the result would
    never end.
    """
    if threading.current_thread().name in {_JUDGES_THREAD, *COMPUTING_THREADS}:
        work.close()
        raise SettingError(
            "a judge or a metric's plan cannot call score or evaluate: in a judge await"
            " other_judge.answer(question), or await asyncio.to_thread(metric.score,"
            " ...); in a plan ask with 'yield from ask([...])'"
        )
    future = asyncio.run_coroutine_threadsafe(work, _loop_of_judges())
    _pending.add(future)
    future.add_done_callback(_pending.discard)
    return future


def run(work: Coroutine[Any, Any, T]) -> T:
    """Do work on the judges' loop, as ``submit`` does, and wait for its result.

    If the wait ends before, e.g. by Ctrl-C, the work is cancelled.
    """
    future = submit(work)
    try:
        return future.result()
    finally:
        future.cancel()


def _loop_of_judges() -> asyncio.AbstractEventLoop:
    """Return the judges' loop, which the first call in a process makes."""
    global _judges_loop, _judges_thread  # one loop per process is the point
    with _lock:
        has_thread = _judges_thread is not None and _judges_thread.is_alive()
        if _judges_loop is None or not has_thread:
            _judges_loop = asyncio.new_event_loop()
            _judges_thread = threading.Thread(
                target=_keep_running,
                args=(_judges_loop,),
                name=_JUDGES_THREAD,
                daemon=True,
            )
            _judges_thread.start()
        return _judges_loop


def _keep_running(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop for ever.

    A judge that raises ``SystemExit`` or ``KeyboardInterrupt`` ends its own task alone.
    """
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            logger.warning("a judge raised what ends a process; the run goes on")
        else:
            return


def _forget_loops() -> None:
    """Forget the loop in a forked child, where its thread does not run.

    The next call makes a new one.
    """
    global _judges_loop, _judges_thread, _lock, _pending
    _judges_loop = None
    _judges_thread = None
    _lock = threading.Lock()
    _pending = set()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_loops)
