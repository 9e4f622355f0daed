"""Work beside the event loop, in daemon threads.

Neither hanging calls nor long computing hold up the loop or the exit.

A call that may wait gets a thread of its own (``call_in_thread``). Pure computing of
ours takes turns (``compute_beside_loop``): many threads that compute would take the
interpreter from the loop one after the other. There is one thread for what calls to
models need, and one for the embedded judge, so that its longest text holds up no call.
What nobody waits for any more ends at its next step (``raise_if_cancelled``).
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
# characters that take less than a millisecond to render, to hash or to read
_QUICK = 10_000

_lock = threading.Lock()
_jobs: dict[Lane, SimpleQueue[Callable[[], None]]] = {}
_given_up: ContextVar[threading.Event | None] = ContextVar(
    "ragmetrics_given_up", default=None
)


def call_in_thread(call: Callable[[], T], *, context: Context, name: str) -> Future[T]:
    """Call in a daemon thread of this name.

    An empty context hides the call from tracers.

    What it returns or raises, whatever it is, comes as a future. Giving up waiting does
    not end the call.
    """
    future: Future[T] = Future()
    # whoever gives up waiting cannot take it back
    future.set_running_or_notify_cancel()
    work = partial(_carry_out, call, future)
    threading.Thread(target=context.run, args=(work,), name=name, daemon=True).start()
    return future


def is_being_cancelled() -> bool:
    """Whether somebody cancels the running task.

    A CancelledError that a client raises by itself is a failure of it.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class GivenUp(Exception):
    """Nobody waits any more for what is computed."""


def raise_if_cancelled() -> None:
    """Raise ``GivenUp`` where nobody waits any more for what is computed here.

    Long loops call it at each step.
    """
    given_up = _given_up.get()
    if given_up is not None and given_up.is_set():
        raise GivenUp


async def compute_beside_loop(
    call: Callable[[], T], *, size: int | None = None, lane: Lane = "calls"
) -> T:
    """Compute something in the lane's thread, and await the result.

    The thread takes one job after the other. If the caller is cancelled, a job that has
    not begun is dropped, and one that runs ends at its next ``raise_if_cancelled``.

    Args:
        call: What computes, without waiting for anything.
        size: How many characters it goes through; few are gone through at once, on
            this loop. None if they take long in any case.
        lane: The thread: "calls" for what calls to models need, "judge" for what the
            embedded judge computes.
    """
    if size is not None and size <= _QUICK:
        return call()
    future: Future[T] = Future()
    given_up = threading.Event()
    context = copy_context()
    # ``raise_if_cancelled`` finds the event in the context of the job
    context.run(_given_up.set, given_up)
    work = partial(context.run, _carry_out, call, future)

    def work_unless_cancelled() -> None:
        if future.set_running_or_notify_cancel():
            work()

    _queue_of_computing(lane).put(work_unless_cancelled)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        given_up.set()
        raise


def _carry_out(call: Callable[[], T], future: Future[T]) -> None:
    """Call, and hand what it returns or raises to who waits."""
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001  # who waits would wait for ever
        if isinstance(error, Exception) and not isinstance(
            error, (StopIteration, CancelledError)
        ):
            future.set_exception(error)
        else:  # asyncio hands on neither, or the loop that all judges share would end
            stopped = RuntimeError(f"the call raised {type(error).__name__}")
            stopped.__cause__ = error
            future.set_exception(stopped)


def _queue_of_computing(lane: Lane) -> SimpleQueue[Callable[[], None]]:
    """What is to be computed by a thread, which is started at the first need."""
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
    """In a forked child the thread is gone: the next need starts a new one."""
    global _jobs, _lock
    _jobs = {}
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
