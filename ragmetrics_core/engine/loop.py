"""The one event loop on which all judge I/O runs, in a daemon thread of its own.

Notebooks, running loops, ``score()`` and background evaluators share the judges'
clients this way, without crossing loops. A process forked later makes its own.

Judges of a user's own that call no model may compute for long. They share a second loop
(``submit_users_code``), so that they hold up neither other judges nor the deadline of a
run.
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
_USERS_THREAD = "ragmetrics-own-judges"
_users_loop: asyncio.AbstractEventLoop | None = None
# Made when work on the users' loop was given up: the loop sets it as soon as it runs
# again. While it is not set, code that computes still blocks the loop. None if no work
# was given up.
_users_loop_went_on: threading.Event | None = None
# a loop holds its tasks weakly: one that only waits would be collected
_pending: set[Future[Any]] = set()


def submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Start work on the judges' loop from any thread.

    ``SettingError`` on the judges' loop itself, where waiting for the result would
    never end.
    """
    if threading.current_thread().name in {
        _JUDGES_THREAD,
        _USERS_THREAD,
        *COMPUTING_THREADS,
    }:
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


def submit_users_code(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Start work of a judge of a user's own on the loop for such judges.

    The work has the context variables of the caller.
    """
    future = asyncio.run_coroutine_threadsafe(work, _loop_of_users_code())
    _pending.add(future)
    future.add_done_callback(_pending.discard)
    future.add_done_callback(_check_users_loop)
    return future


def _check_users_loop(future: Future[Any]) -> None:
    """After work was given up, find out whether the loop for users' code still runs.

    The loop is asked to set an event. It cannot while code that computes blocks it.
    """
    global _users_loop_went_on
    if not future.cancelled():
        return
    with _lock:
        is_being_asked = (
            _users_loop_went_on is not None and not _users_loop_went_on.is_set()
        )
        if _users_loop is not None and not is_being_asked:
            _users_loop_went_on = threading.Event()
            _users_loop.call_soon_threadsafe(_users_loop_went_on.set)


def _loop_of_users_code() -> asyncio.AbstractEventLoop:
    """Return the loop for judges of users' own; the first call makes it.

    Where code that was given up still blocks the loop, a new loop takes its place.
    """
    global _users_loop, _users_loop_went_on
    with _lock:
        is_blocked = (
            _users_loop_went_on is not None and not _users_loop_went_on.is_set()
        )
        if _users_loop is None or is_blocked:
            _users_loop = asyncio.new_event_loop()
            _users_loop_went_on = None
            threading.Thread(
                target=_keep_running,
                args=(_users_loop,),
                name=_USERS_THREAD,
                daemon=True,
            ).start()
        return _users_loop


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
    """Forget both loops in a forked child, where their threads do not run.

    The next call makes new ones.
    """
    global _judges_loop, _judges_thread, _users_loop, _users_loop_went_on
    global _lock, _pending
    _judges_loop = None
    _judges_thread = None
    _users_loop = None
    _users_loop_went_on = None
    _lock = threading.Lock()
    _pending = set()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_loops)
