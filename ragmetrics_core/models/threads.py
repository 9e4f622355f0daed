"""Runs work beside the event loop, in daemon threads.

So neither a call that hangs nor a long computation holds up the loop, or the exit of
the process.

A call that may wait gets a thread of its own (``call_in_thread``). Our computations
take turns in one thread (``compute_beside_loop``), because many threads would leave the
loop too little of the interpreter. There are two such threads (*lanes*): one for the
requests and replies of models, and one for the embedded judge, whose long texts so hold
up no call. A computation for which nobody waits any more ends at its next step
(``raise_if_cancelled``).
"""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextvars import Context, ContextVar, copy_context
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
# Set inside of a job: an event that is set once nobody waits for the job any more.
_given_up: ContextVar[threading.Event | None] = ContextVar(
    "ragmetrics_given_up", default=None
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


class GivenUp(Exception):
    """Nobody waits any more for the result of a computation."""


def raise_if_cancelled() -> None:
    """Raise ``GivenUp`` if nobody waits any more for the running computation.

    Long loops call this at each step.
    """
    given_up = _given_up.get()
    if given_up is not None and given_up.is_set():
        raise GivenUp


async def compute_beside_loop(
    call: Callable[[], T], *, size: int | None = None, lane: Lane = "calls"
) -> T:
    """Run a computation beside the event loop, and return its result.

    A small computation runs at once, on the loop. Any other waits for its turn in the
    lane's thread. If the caller is cancelled, a computation that has not begun is
    dropped, and a running one ends at its next ``raise_if_cancelled``. Example: with
    ``size=500`` a digest is made at once, with ``size=50_000`` in the thread.

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
    given_up = threading.Event()
    context = copy_context()
    # In this context ``raise_if_cancelled`` finds the event.
    context.run(_given_up.set, given_up)
    work = partial(context.run, _carry_out, call, future)

    def work_unless_cancelled() -> None:
        if future.set_running_or_notify_cancel():  # False if the caller has gone
            work()

    _queue_of_computing(lane).put(work_unless_cancelled)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        given_up.set()
        raise


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
