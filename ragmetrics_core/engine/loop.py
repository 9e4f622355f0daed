"""The one event loop on which all judge I/O runs, in a daemon thread of its own.

Notebooks, running loops, ``score()`` and background evaluators share the judges' clients this way, without
crossing loops. A process forked later makes its own.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from ragmetrics_core.data import SettingError
from ragmetrics_core.endpoints.threads import COMPUTING

T = TypeVar("T")

logger = logging.getLogger("ragmetrics_core")

_THREAD = "ragmetrics-judges"
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None
_waited: set[Future[Any]] = set()  # a loop holds its tasks weakly: one that only waits would be collected


def submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Start work on the judges' loop from any thread.

    ``SettingError`` on the judges' loop itself, where waiting for the result would never end.
    """
    if threading.current_thread().name in {_THREAD, *COMPUTING}:
        work.close()
        raise SettingError(
            "a judge or a metric's plan cannot call score or evaluate: in a judge await other_judge.answer(question), "
            "or await asyncio.to_thread(metric.score, ...); in a plan ask with 'yield from ask([...])'"
        )
    future = asyncio.run_coroutine_threadsafe(work, _running())
    _waited.add(future)
    future.add_done_callback(_waited.discard)
    return future


def run(work: Coroutine[Any, Any, T]) -> T:
    """Do work on the judges' loop, as ``submit`` does, and wait for it; who stops waiting, e.g. by Ctrl-C, ends it."""
    future = submit(work)
    try:
        return future.result()
    finally:
        future.cancel()


def _running() -> asyncio.AbstractEventLoop:
    global _loop, _thread  # one loop per process is the point
    with _lock:
        if _loop is None or _thread is None or not _thread.is_alive():
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_keep_running, args=(_loop,), name=_THREAD, daemon=True)
            _thread.start()
        return _loop


def _keep_running(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop for ever: what a task of somebody's judge raises to end the process ends that task alone."""
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            logger.warning("a judge raised what ends a process; the run goes on")
        else:
            return


def _forget() -> None:
    """In a forked child the thread is gone: the next call makes a new loop."""
    global _loop, _thread, _lock, _waited
    _loop, _thread, _lock, _waited = None, None, threading.Lock(), set()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
