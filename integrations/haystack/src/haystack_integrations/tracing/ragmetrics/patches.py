"""What is replaced outside of Haystack's tracing, each with its case and its way back.

- ``run`` and ``run_async`` of the classes of components: an application calls a
  component by itself, outside of any pipeline, for which Haystack opens no span.
- ``__call__`` of their metaclass: a class that is made while somebody listens follows with
  its first instance.

Both are put back when the last listener leaves, but where somebody else replaced them
after us.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from haystack import component
from haystack.core.component.component import ComponentMeta

from ragmetrics_core.capture import Listeners, ReplacedMethods, guard_hook

Method = Callable[..., Any]
_AGENTS = "haystack.components.agents.agent"


class RunMethods(ReplacedMethods):
    """Replaces the ``run`` and ``run_async`` of all classes of components, and restores them.

    Args:
        observing: Makes the method that takes the place of another.
        listeners: Who listens, and where internal errors are counted.
    """

    def __init__(self, observing: Callable[[Method], Method], listeners: Listeners):
        super().__init__()
        self._observing = observing
        self.problems = listeners.problems

    @guard_hook
    def take(self) -> None:
        """Replace the methods of all classes that are registered, and of their subclasses."""
        with self.lock:
            self.replace(ComponentMeta, "__call__", self._following)
            classes = list(component.registry.values())
            for each in classes:  # the list grows while the loop runs
                self._replace_runs_of(each)
                classes += each.__subclasses__()

    def _replace_runs_of(self, owner: type) -> None:
        # an agent opens a span of its own; its module takes long to import
        if any(each.__module__ == _AGENTS for each in owner.__mro__):
            return
        for name in ("run", "run_async"):
            self.replace(owner, name, self._observing)

    def _following(self, call: Method) -> Method:
        """Make the metaclass's ``__call__`` that replaces the methods of a new class, too."""

        def make_instance(owner: type, *args: Any, **kwargs: Any) -> Any:
            instance = call(owner, *args, **kwargs)
            self._follow(owner)
            return instance

        return make_instance

    @guard_hook
    def _follow(self, owner: type) -> None:
        with self.lock:
            if self:  # somebody still listens
                for each in owner.__mro__:
                    if isinstance(each, ComponentMeta):
                        self._replace_runs_of(each)
