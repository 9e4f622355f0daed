"""Runs work beside the event loop, in daemon threads.

So neither a call that hangs nor a long computation holds up the loop, or the exit of
the process.

All judges are asked on one event loop, in a thread of its own (``loop_in_thread``).
Code of a user's own may block it, and is awaited on a second one
(``await_users_code``). A call that may wait gets a thread of its own
(``call_in_thread``). Our computations
take turns in one thread (``compute_beside_loop``), because many threads would leave the
loop too little of the interpreter. There are two such threads (*lanes*): one for the
requests and replies of models, and one for the embedded judge, whose long texts so hold
up no call.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextvars import Context, copy_context
from functools import partial
from queue import SimpleQueue
from typing import Literal, TypeVar

from ragmetrics_core.data.errors import is_ours

T = TypeVar("T")

JUDGES_THREAD = "ragmetrics-judges"
_USERS_THREAD = "ragmetrics-users"
Lane = Literal["calls", "judge"]
_THREADS: dict[Lane, str] = {
    "calls": "ragmetrics-computing",
    "judge": "ragmetrics-judging",
}
OUR_THREADS = frozenset({JUDGES_THREAD, _USERS_THREAD, *_THREADS.values()})
# So many characters are rendered, hashed or read in less than a millisecond.
_QUICK = 10_000

_lock = threading.Lock()
_jobs: dict[Lane, SimpleQueue[Callable[[], None]]] = {}
_loops: dict[str, tuple[asyncio.AbstractEventLoop, threading.Thread]] = {}
_logger = logging.getLogger("ragmetrics_core")


def loop_in_thread(name: str) -> asyncio.AbstractEventLoop:
    """Return the event loop in the daemon thread of this name.

    The first call in a process starts it.
    """
    with _lock:
        if name not in _loops or not _loops[name][1].is_alive():
            loop = asyncio.new_event_loop()
            thread = threading.Thread(
                target=_keep_running, args=(loop,), name=name, daemon=True
            )
            _loops[name] = (loop, thread)
            thread.start()
        return _loops[name][0]


def _keep_running(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop for ever.

    A judge that raises ``SystemExit`` or ``KeyboardInterrupt`` ends its own task alone.
    """
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            _logger.warning("a judge raised what ends a process; the run goes on")
        else:
            return


async def await_users_code(owner: object, call: Callable[[], Awaitable[T]]) -> T:
    """Await the call of an object, where it holds up neither our calls nor a deadline.

    Code of a user's own may block the event loop that awaits it. On the judges' loop it
    is therefore awaited on another one, which all objects of users share: a client of
    theirs belongs to one loop.

    Args:
        owner: The object whose code it is. What is ours is awaited here.
        call: The call.
    """
    is_on_judges_loop = threading.current_thread().name == JUDGES_THREAD
    if is_ours(type(owner)) or not is_on_judges_loop:
        return await call()

    async def awaited_there() -> T:
        return await call()

    users_loop = loop_in_thread(_USERS_THREAD)
    return await asyncio.wrap_future(
        asyncio.run_coroutine_threadsafe(awaited_there(), users_loop)
    )


def call_in_thread(call: Callable[[], T], *, context: Context, name: str) -> Future[T]:
    """Call a function in a new daemon thread, and return a future for its result.

    The future also gives whatever the function raises. It cannot be cancelled: a caller
    that stops waiting does not end the call.

    Args:
        call: The function.
        context: The context variables that it sees. An empty context hides it from
            tracers.
        name: The name of the thread.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # from now on it cannot be cancelled
    work = partial(_carry_out, call, future)
    threading.Thread(target=context.run, args=(work,), name=name, daemon=True).start()
    return future


def is_being_cancelled() -> bool:
    """Whether somebody cancels the running task.

    Otherwise a ``CancelledError`` was raised by a client by itself, as a failure.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def compute_beside_loop(
    call: Callable[[], T], *, size: int | None = None, lane: Lane = "calls"
) -> T:
    """Run a computation beside the event loop, and return its result.

    A small computation runs at once, on the loop. Any other waits for its turn in the
    lane's thread. If the caller is cancelled, a computation that has not begun is
    dropped. Example: with ``size=500`` a digest is made at once, with ``size=50_000``
    in the thread.

    Args:
        call: The computation; it must not wait for anything.
        size: How many characters it goes through, which decides whether it is small.
            None if it takes long in any case.
        lane: Which thread: "calls" for the requests and replies of models, "judge" for
            the embedded judge.
    """
    if size is not None and size <= _QUICK:
        return call()
    future: Future[T] = Future()
    work = partial(copy_context().run, _carry_out, call, future)

    def work_unless_cancelled() -> None:
        if future.set_running_or_notify_cancel():  # False if the caller has gone
            work()

    with _lock:
        if lane not in _jobs:  # the first need starts the lane's thread
            _jobs[lane] = SimpleQueue()
            threading.Thread(
                target=_run_jobs, args=(_jobs[lane],), name=_THREADS[lane], daemon=True
            ).start()
        jobs = _jobs[lane]
    jobs.put(work_unless_cancelled)
    return await asyncio.wrap_future(future)


def _carry_out(call: Callable[[], T], future: Future[T]) -> None:
    """Call a function, and put its result, or what it raises, into a future."""
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001  # the caller gets whatever it is
        # asyncio cannot hand on these two as the exception of a future, and what is no
        # ``Exception``, such as SystemExit, would end the loop of all judges
        cannot_be_handed_on = isinstance(error, (StopIteration, CancelledError))
        if cannot_be_handed_on or not isinstance(error, Exception):
            replacement = RuntimeError(f"the call raised {type(error).__name__}")
            replacement.__cause__ = error
            error = replacement
        future.set_exception(error)


def _run_jobs(jobs: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        jobs.get()()


def _forget_threads() -> None:
    """Forget the threads in a forked child, where they do not run.

    The next need starts new ones.
    """
    global _jobs, _lock, _loops
    _jobs = {}
    _loops = {}
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
