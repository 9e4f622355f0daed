"""One recorder for the process: `capture` and `watch` are seen by every run without being passed to any."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from langchain_core.tracers.context import register_configure_hook

from langchain_ragmetrics.capturing.recorder import Recorder, Sink
from ragmetrics_core.capturing import Listener, Listeners

if TYPE_CHECKING:
    from langchain_core.callbacks import BaseCallbackHandler


class _ProcessRecorder(Recorder):
    """The recorder that LangChain's configure hook adds to every run while somebody listens."""

    def sinks(self) -> tuple[Sink, ...]:
        """Everybody who listens in this context; a root begins for them."""
        listening = LISTENERS.here()
        for one in listening:
            one.begun = True
        return tuple(one.record for one in listening)


class _Slot:
    """Stands where LangChain expects a context variable: a variable would not be seen by threads of the user."""

    hooked = False

    def get(self) -> BaseCallbackHandler | None:
        """The recorder while somebody listens."""
        return RECORDER if LISTENERS.here() else None

    def hook(self, listener: Listener) -> None:
        """Stand there from the first listener on; LangChain has no way to take a hook back."""
        del listener
        if not self.hooked:
            self.hooked = True
            register_configure_hook(cast("ContextVar[Any]", self), inheritable=True)


LISTENERS = Listeners(_Slot().hook)
RECORDER = _ProcessRecorder(LISTENERS.problems)
