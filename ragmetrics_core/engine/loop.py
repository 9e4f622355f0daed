"""The one event loop on which all judge I/O runs, in a daemon thread of its own.

Notebooks, running loops, ``score()`` and background evaluators share the judges'
clients this way, without crossing loops. A process forked later makes its own.

Judges of a user's own that call no model may compute for long. They share a second loop
(``submit_apart``), so that they hold up neither other judges nor the deadline of a run.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from ragmetrics_core.data import SettingError
from ragmetrics_core.models.threads import COMPUTING

T = TypeVar("T")

logger = logging.getLogger("ragmetrics_core")

_THREAD = "ragmetrics-judges"
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None
_APART = "ragmetrics-own-judges"
_loop_apart: asyncio.AbstractEventLoop | None = None
# set as soon as that loop goes on, after somebody gave up waiting for it
_came_back: threading.Event | None = None
# a loop holds its tasks weakly: one that only waits would be collected
_waited: set[Future[Any]] = set()


def submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Start work on the judges' loop from any thread.

    ``SettingError`` on the judges' loop itself, where waiting for the result would
    never end.
    """
    if threading.current_thread().name in {_THREAD, _APART, *COMPUTING}:
        work.close()
        raise SettingError(
            "a judge or a metric's plan cannot call score or evaluate: in a judge await"
            " other_judge.answer(question), or await asyncio.to_thread(metric.score,"
            " ...); in a plan ask with 'yield from ask([...])'"
        )
    future = asyncio.run_coroutine_threadsafe(work, _running())
    _waited.add(future)
    future.add_done_callback(_waited.discard)
    return future


def submit_apart(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Start work of a user's own code on the loop for it.

    The work has the context of the caller.
    """
    future = asyncio.run_coroutine_threadsafe(work, _running_apart())
    _waited.add(future)
    future.add_done_callback(_waited.discard)
    future.add_done_callback(_look_after)
    return future


def _look_after(future: Future[Any]) -> None:
    """See whether the loop goes on after work that was given up.

    The loop may be held by what still computes.
    """
    global _came_back
    with _lock:
        if (
            future.cancelled()
            and _loop_apart is not None
            and (_came_back is None or _came_back.is_set())
        ):
            _came_back = threading.Event()
            _loop_apart.call_soon_threadsafe(_came_back.set)


def _running_apart() -> asyncio.AbstractEventLoop:
    """The loop for code of users' own.

    Another one where that code holds it and nobody waits for it any more.
    """
    global _loop_apart, _came_back
    with _lock:
        if _loop_apart is None or (_came_back is not None and not _came_back.is_set()):
            _loop_apart, _came_back = asyncio.new_event_loop(), None
            threading.Thread(
                target=_keep_running, args=(_loop_apart,), name=_APART, daemon=True
            ).start()
        return _loop_apart


def run(work: Coroutine[Any, Any, T]) -> T:
    """Do work on the judges' loop, as ``submit`` does, and wait for it.

    Who stops waiting, e.g. by Ctrl-C, ends it.
    """
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
            _thread = threading.Thread(
                target=_keep_running, args=(_loop,), name=_THREAD, daemon=True
            )
            _thread.start()
        return _loop


def _keep_running(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop for ever.

    What a task of somebody's judge raises to end the process ends that task alone.
    """
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            logger.warning("a judge raised what ends a process; the run goes on")
        else:
            return


def _forget() -> None:
    """In a forked child the thread is gone: the next call makes a new loop."""
    global _loop, _thread, _lock, _waited, _loop_apart, _came_back
    _loop, _thread, _lock, _waited = None, None, threading.Lock(), set()
    _loop_apart, _came_back = None, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
