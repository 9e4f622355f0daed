"""Blocking calls in daemon threads: a hanging endpoint holds up neither the event loop nor the end of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context
from typing import Generic, TypeVar

T = TypeVar("T")


class _Handover(Generic[T]):
    """Hands what a thread ends with, result or exception, to whoever waits."""

    def __init__(self) -> None:
        self.future: Future[T] = Future()
        self.future.set_running_or_notify_cancel()  # whoever gives up waiting cannot take it back

    def __enter__(self) -> Future[T]:
        return self.future

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, StopIteration) or (error is not None and not isinstance(error, Exception)):
            # asyncio hands on neither; who waits would wait for ever, or the loop that all judges share would end
            stopped = RuntimeError(f"the call raised {type(error).__name__}")
            stopped.__cause__ = error
            error = stopped
        if error is not None:
            self.future.set_exception(error)
        return True


def in_thread(call: Callable[[], T], *, context: Context, name: str) -> Future[T]:
    """Call in a daemon thread of its own.

    Args:
        call: What is called, once.
        context: The context that it is called in; an empty one hides it from tracers.
        name: Name of the thread.

    Returns:
        What the call returns or raises, whatever it is. Giving up waiting does not end the call.
    """
    handover: _Handover[T] = _Handover()

    def work() -> None:
        with handover as done:
            done.set_result(call())

    threading.Thread(target=context.run, args=(work,), name=name, daemon=True).start()
    return handover.future
