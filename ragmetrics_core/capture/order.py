"""The order in which the calls of a run count, however long each took. Pure.

Calls that a model asks for in one reply run beside each other: the reply's order counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from functools import cached_property

from ragmetrics_core.capture.calls import Calls
from ragmetrics_core.capture.tree import Node, Path

_LAST = 1 << 30  # the rank of a call that no model asked for


def tools_of(path: Path) -> Path:
    """Return the tools in a path, the outermost first."""
    return tuple(node for node in path if node.kind == "tool")


class Order:
    """The order of a run's calls: by step, then as the model asked, then by beginning."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    def sort_keys(self, call: Node) -> list[tuple[object, ...]]:
        """Return the keys of each tool around a call, then the call's own."""
        path = self.calls.paths[call]
        return [self._sort_key(node) for node in (*tools_of(path[:-1]), call)]

    def step_of(self, call: Node) -> int:
        """Return how many calls of models of the turn began before a call.

        Of a call inside tools the outermost tool counts.
        """
        outermost = (*tools_of(self.calls.paths[call][:-1]), call)[0]
        return self._step(outermost)

    def agent_of(self, call: Node) -> str | None:
        """Return the agent that made a call; None where the run has only one agent."""
        if len(self._agents) <= 1:
            return None
        return _innermost_agent(self.calls.paths[call])

    def _sort_key(self, call: Node) -> tuple[object, ...]:
        path = self.calls.paths[call]
        began, branches = _beginning_and_branches(path)
        rank = self._rank_by_tool_call.get(call.tool_call_id, _LAST)
        return self._step(call), rank, began, branches, call.began

    def _step(self, call: Node) -> int:
        tools_around = tools_of(self.calls.paths[call][:-1])
        return bisect_left(self._beginnings.get(tools_around, ()), call.began)

    @cached_property
    def _model_calls(self) -> list[Node]:
        """The application's own calls of models that did not fail, of nested ones the outermost."""
        inner: set[Node] = set()
        for model in self.calls.prompted:
            _, *inside = model.walk()
            inner.update(inside)
        return [
            node for node in self.calls.prompted if not node.error and node not in inner
        ]

    @cached_property
    def _agents(self) -> set[str | None]:
        return {_innermost_agent(self.calls.paths[node]) for node in self._model_calls}

    @cached_property
    def _rank_by_tool_call(self) -> dict[str | None, int]:
        """The number of each tool call among all that models asked for, by its id."""
        ranks: dict[str | None, int] = {}
        for node in self.calls.nodes:
            for tool_call in node.reply.tool_calls if node.reply is not None else ():
                ranks.setdefault(tool_call.id, len(ranks))
        ranks.pop(None, None)
        return ranks

    @cached_property
    def _beginnings(self) -> dict[Path, list[float]]:
        """When the model calls began, in order, by the tools around them."""
        beginnings: dict[Path, list[float]] = defaultdict(list)
        for model in self._model_calls:
            beginnings[tools_of(self.calls.paths[model])].append(model.began)
        for moments in beginnings.values():
            moments.sort()
        return beginnings


def _innermost_agent(path: Path) -> str | None:
    return next((node.agent for node in reversed(path) if node.agent), None)


def _beginning_and_branches(path: Path) -> tuple[float, str]:
    """Return when a call counts as begun, and its parallel branches.

    Branches of a parallel step begin in any order: they count as begun with the step
    around the outermost of them, and are ordered by name.
    """
    branches = [node.branch for node in path if node.branch]
    counted_from = path[-1]
    for depth, node in enumerate(path):
        if node.branch:
            counted_from = path[max(depth - 1, 0)]
            break
    return counted_from.began, "/".join(branches)
