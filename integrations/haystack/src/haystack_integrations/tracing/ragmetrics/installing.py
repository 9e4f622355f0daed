"""Putting the tracer in place while somebody listens, and taking it away again."""

from __future__ import annotations

from haystack.tracing.tracer import enable_tracing, tracer
from haystack_integrations.tracing.ragmetrics.recorder import Tee, settle

from ragmetrics_core.capturing import Listener, Listeners

_DISPLACED = "another tracer was enabled meanwhile and took our place; enable tracers before capture() or watch()"


class _Place:
    """The one tracer that Haystack has per process, and ours in it."""

    tee: Tee | None = None

    def take(self, listener: Listener) -> None:
        """Put a tee over the active tracer, unless it is there."""
        del listener
        actual = tracer.actual_tracer
        if not isinstance(actual, Tee) or actual.retired:
            self._retire()
            self.tee = Tee(actual, LISTENERS)
            enable_tracing(self.tee)

    def leave(self, listener: Listener) -> None:
        """The last one out removes the tee, if it is still in place."""
        settle(listener)
        if tracer.actual_tracer is not self.tee:
            listener.problems.note(_DISPLACED)
        if not LISTENERS.open:
            actual = tracer.actual_tracer
            self._retire()
            if isinstance(actual, Tee):
                enable_tracing(actual.inner)

    def _retire(self) -> None:
        """A tee that was displaced, or is no longer wanted, only passes on from now on."""
        if self.tee is not None:
            self.tee.retired = True


_place = _Place()
LISTENERS = Listeners(_place.take, _place.leave)
