"""Work beside the event loop, in daemon threads: neither hanging calls nor long computing hold up the loop or the exit.

A call that may wait gets a thread of its own (``in_thread``). Pure computing of ours takes turns in a single thread
(``computed``): many threads that compute would take the interpreter from the loop one after the other.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextvars import Context, copy_context
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")

COMPUTING = "ragmetrics-computing"
_QUICK = 10_000  # characters that take less than a millisecond to render, to hash or to read

_lock = threading.Lock()
_jobs: SimpleQueue[Callable[[], None]] | None = None


def in_thread(call: Callable[[], T], *, context: Context, name: str) -> Future[T]:
    """Call in a daemon thread of this name; an empty context hides the call from tracers.

    What it returns or raises, whatever it is, comes as a future. Giving up waiting does not end the call.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # whoever gives up waiting cannot take it back
    work = partial(_carried_out, call, future)
    threading.Thread(target=context.run, args=(work,), name=name, daemon=True).start()
    return future


def is_being_cancelled() -> bool:
    """Whether somebody cancels the running task; a CancelledError that a client raises by itself is a failure of it."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def computed(call: Callable[[], T], *, size: int | None = None) -> T:
    """Compute something beside the event loop, after what others asked for before; who gives up waiting takes it back.

    Args:
        call: What computes, without waiting for anything.
        size: How many characters it goes through; few are gone through at once. None if they take long in any case.
    """
    if size is not None and size <= _QUICK:
        return call()
    future: Future[T] = Future()
    work = partial(copy_context().run, _carried_out, call, future)

    def unless_taken_back() -> None:
        if future.set_running_or_notify_cancel():
            work()

    _running().put(unless_taken_back)
    return await asyncio.wrap_future(future)


def _carried_out(call: Callable[[], T], future: Future[T]) -> None:
    """Call, and hand what it returns or raises to who waits."""
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001  # who waits would wait for ever
        if isinstance(error, Exception) and not isinstance(error, (StopIteration, CancelledError)):
            future.set_exception(error)
        else:  # asyncio hands on neither, or the loop that all judges share would end
            stopped = RuntimeError(f"the call raised {type(error).__name__}")
            stopped.__cause__ = error
            future.set_exception(stopped)


def _running() -> SimpleQueue[Callable[[], None]]:
    """What is to be computed by the thread, which is started at the first need."""
    global _jobs  # one thread per process is the point
    with _lock:
        if _jobs is None:
            _jobs = SimpleQueue()
            threading.Thread(target=_compute, args=(_jobs,), name=COMPUTING, daemon=True).start()
        return _jobs


def _compute(jobs: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        jobs.get()()


def _forget() -> None:
    """In a forked child the thread is gone: the next need starts a new one."""
    global _jobs, _lock
    _jobs, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
