"""Blocking calls in daemon threads: a hanging endpoint holds up neither the event loop nor the end of the process."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context
from typing import TypeVar

T = TypeVar("T")


def in_thread(call: Callable[[], T], *, context: Context, name: str) -> Future[T]:
    """Call in a daemon thread of this name; an empty context hides the call from tracers.

    What it returns or raises, whatever it is, comes as a future. Giving up waiting does not end the call.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # whoever gives up waiting cannot take it back

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001  # who waits would wait for ever
            if isinstance(error, Exception) and not isinstance(error, StopIteration):
                future.set_exception(error)
            else:  # asyncio hands on neither, or the loop that all judges share would end
                stopped = RuntimeError(f"the call raised {type(error).__name__}")
                stopped.__cause__ = error
                future.set_exception(stopped)

    threading.Thread(target=context.run, args=(work,), name=name, daemon=True).start()
    return future
