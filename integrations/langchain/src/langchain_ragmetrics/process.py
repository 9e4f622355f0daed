"""One recorder for the process: `capture` and `watch` are seen by every run without being passed to any."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from langchain_core.tracers.context import register_configure_hook

from langchain_ragmetrics.capturing.recorder import Recorder, Sink
from ragmetrics_core.capturing.judge_work import is_judge_work

if TYPE_CHECKING:
    from langchain_core.callbacks import BaseCallbackHandler


class Receiver:
    """Somebody who gets finished roots.

    Args:
        sink: Called with each root, in the application's thread.
        everywhere: Gets the roots of the whole process, not only those of its own context.
        threads: Gets roots of threads that carry no context, if it is the only receiver with a context.
    """

    def __init__(self, sink: Sink, *, everywhere: bool = False, threads: bool = True) -> None:
        self.sink = sink
        self.everywhere = everywhere
        self.threads = threads


_here: ContextVar[tuple[Receiver, ...]] = ContextVar("langchain_ragmetrics_receivers", default=())
_receivers: list[Receiver] = []
_lock = threading.Lock()
_hooked = False


class _ProcessRecorder(Recorder):
    """The recorder that LangChain's configure hook adds to every run while somebody listens."""

    def sinks(self) -> tuple[Sink, ...]:
        """Everybody who listens in this context."""
        return receivers()


def receivers() -> tuple[Sink, ...]:
    """Sinks of the receivers that a root gets if it starts here and now."""
    if not _receivers or is_judge_work():
        return ()
    current = tuple(_receivers)
    local = [one for one in _here.get() if one in current]
    if not local and _in_plain_thread():
        contextual = [one for one in current if not one.everywhere]
        local = [one for one in contextual if one.threads] if len(contextual) == 1 else []
    return tuple(one.sink for one in (*local, *(one for one in current if one.everywhere)))


def _in_plain_thread() -> bool:
    """True outside of asyncio: a task always carries the context in which it was made, a thread does not."""
    return asyncio._get_running_loop() is None  # noqa: SLF001  # documented for this use, and does not raise


RECORDER = _ProcessRecorder()


class _Slot:
    """Stands where LangChain expects a context variable: a variable would not be seen by threads of the user."""

    def get(self) -> BaseCallbackHandler | None:
        """The recorder while somebody listens."""
        return RECORDER if receivers() else None


def listen(receiver: Receiver) -> Callable[[], None]:
    """Start to receive roots.

    Returns:
        A function that ends it.
    """
    global _hooked  # the hook stays registered: LangChain has no way to take it back
    with _lock:
        if not _hooked:
            register_configure_hook(cast("ContextVar[Any]", _Slot()), inheritable=True)
            _hooked = True
        _receivers.append(receiver)
    token = None if receiver.everywhere else _here.set((*_here.get(), receiver))

    def end() -> None:
        with _lock:
            if receiver in _receivers:
                _receivers.remove(receiver)
        if token is not None and receiver in _here.get():
            _here.set(tuple(one for one in _here.get() if one is not receiver))

    return end
