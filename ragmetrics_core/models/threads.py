"""Runs work beside the event loop, in daemon threads.

So neither a call that hangs nor a long computation holds up the loop, or the exit of
the process.

A call that may wait gets a thread of its own (``call_in_thread``). Our computations
take turns in one thread (``compute_beside_loop``), because many threads would leave the
loop too little of the interpreter. There are two such threads (*lanes*): one for the
requests and replies of models, and one for the embedded judge, whose long texts so hold
up no call.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextvars import Context, copy_context
from functools import partial
from queue import SimpleQueue
from typing import Literal, TypeVar

T = TypeVar("T")

Lane = Literal["calls", "judge"]
_THREADS: dict[Lane, str] = {
    "calls": "ragmetrics-computing",
    "judge": "ragmetrics-judging",
}
COMPUTING_THREADS = frozenset(_THREADS.values())
# So many characters are rendered, hashed or read in less than a millisecond.
_QUICK = 10_000

_lock = threading.Lock()
_jobs: dict[Lane, SimpleQueue[Callable[[], None]]] = {}


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

    _queue_of_computing(lane).put(work_unless_cancelled)
    return await asyncio.wrap_future(future)


def _carry_out(call: Callable[[], T], future: Future[T]) -> None:
    """Call a function, and put its result, or what it raises, into a future."""
    try:
        future.set_result(call())
    except (StopIteration, CancelledError) as error:
        # asyncio cannot hand on these two as the exception of a future
        future.set_exception(_replacement_of(error))
    except Exception as error:  # noqa: BLE001  # the caller gets whatever it is
        future.set_exception(error)
    except BaseException as error:  # noqa: BLE001  # e.g. SystemExit, which would end the loop of all judges
        future.set_exception(_replacement_of(error))


def _replacement_of(error: BaseException) -> RuntimeError:
    """Return an error that a future can hand on, in place of one that it cannot."""
    replacement = RuntimeError(f"the call raised {type(error).__name__}")
    replacement.__cause__ = error
    return replacement


def _queue_of_computing(lane: Lane) -> SimpleQueue[Callable[[], None]]:
    """Return the queue of jobs of a lane; start the lane's thread at the first need."""
    with _lock:
        if lane not in _jobs:
            _jobs[lane] = SimpleQueue()
            threading.Thread(
                target=_compute, args=(_jobs[lane],), name=_THREADS[lane], daemon=True
            ).start()
        return _jobs[lane]


def _compute(jobs: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        jobs.get()()


def _forget_threads() -> None:
    """Forget the threads in a forked child, where they do not run.

    The next need starts new ones.
    """
    global _jobs, _lock
    _jobs = {}
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
