"""What is replaced outside of Haystack's tracing, each with its case and its way back.

- ``run`` and ``run_async`` of the classes of components: an application calls a
  component by itself, outside of any pipeline, for which Haystack opens no span.
- ``__call__`` of their metaclass: a class that is made while somebody listens follows with
  its first instance.

Both are put back when the last listener leaves, but where somebody else replaced them
after us.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from haystack import component
from haystack.core.component.component import ComponentMeta

from ragmetrics_core.capture import Lock, Problems, guard_hook

Method = Callable[..., Any]
_NAMES = ("run", "run_async")
_AGENTS = "haystack.components.agents.agent"


class RunMethods:
    """Replaces the ``run`` and ``run_async`` of all classes of components, and restores them.

    A class that is made meanwhile follows with its first instance.

    Args:
        observing: Makes the method that takes the place of another.
        problems: Where internal errors are counted.
    """

    def __init__(self, observing: Callable[[Method], Method], problems: Problems):
        self._observing = observing
        self.problems = problems
        # by class and name: the method of the class, and ours in its place
        self._replaced: dict[tuple[type, str], tuple[Method, Method]] = {}
        self._lock = Lock()

    @guard_hook
    def take(self) -> None:
        """Replace the methods of all classes that are registered, and of their subclasses."""
        with self._lock:
            self._replace(ComponentMeta, "__call__", self._following)
            classes = list(component.registry.values())
            for each in classes:  # the list grows while the loop runs
                self._replace_runs_of(each)
                classes += each.__subclasses__()

    @guard_hook
    def leave(self) -> None:
        """Restore all methods but those that somebody else replaced after us."""
        with self._lock:
            for (owner, name), (method, ours) in self._replaced.items():
                if vars(owner).get(name) is ours:
                    setattr(owner, name, method)
            self._replaced.clear()

    def _replace_runs_of(self, owner: type) -> None:
        # an agent opens a span of its own; its module takes long to import
        if any(each.__module__ == _AGENTS for each in owner.__mro__):
            return
        for name in _NAMES:
            self._replace(owner, name, self._observing)

    def _replace(
        self, owner: type, name: str, make: Callable[[Method], Method]
    ) -> None:
        """Replace a method that a class defines itself, once."""
        method = vars(owner).get(name)
        if inspect.isfunction(method) and (owner, name) not in self._replaced:
            ours = make(method)
            self._replaced[owner, name] = (method, ours)
            setattr(owner, name, ours)

    def _following(self, call: Method) -> Method:
        """Make the metaclass's ``__call__`` that replaces the methods of a new class, too."""

        def make_instance(owner: type, *args: Any, **kwargs: Any) -> Any:
            instance = call(owner, *args, **kwargs)
            self._follow(owner)
            return instance

        return make_instance

    @guard_hook
    def _follow(self, owner: type) -> None:
        with self._lock:
            if self._replaced:  # somebody still listens
                for each in owner.__mro__:
                    if isinstance(each, ComponentMeta):
                        self._replace_runs_of(each)
