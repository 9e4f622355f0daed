"""In which order the calls of a run stand in the ledger. Pure.

They stand by step, then in the model's own order of its tool calls, then by their
beginning.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise
from math import inf

from ragmetrics_core.capture.calls import Calls, end_of
from ragmetrics_core.capture.tree import Node, Path

_LAST = 1 << 30  # the rank of a call that no model made
# step, rank among the model's calls, branch, beginning
Place = tuple[int, int, str, float]


@dataclass(frozen=True, eq=False)
class CallOrder:
    """The order of the calls of one run.

    A **step** is the number of model calls that began before a call in the same tool.

    Attributes:
        calls: The calls.
    """

    calls: Calls

    def of(self, call: Node) -> list[Place]:
        """What a call is sorted by: the places of the tools around it, then its own."""
        path = self.calls.paths[call]
        places = []
        for depth, node in enumerate(path):
            if node.kind == "tool" or node is call:
                around = tools_of(path[:depth])
                step = bisect_left(self._beginnings.get(around, ()), node.began)
                branch = next(
                    (one.branch for one in reversed(path[: depth + 1]) if one.branch),
                    "",
                )
                places.append(
                    (step, self._ranks.get(node.call, _LAST), branch, node.began)
                )
        return places

    def step_of(self, call: Node) -> int:
        """The step of a call.

        It is the number of the turn's model calls that began before it, or before the
        outermost tool around it.
        """
        return self.of(call)[0][0]

    def agent_of(self, call: Node) -> str | None:
        """The agent that made a call; None where there are not several."""
        return _agent(self.calls.paths[call]) if len(self._agents) > 1 else None

    @cached_property
    def models(self) -> list[Node]:
        """The application's own calls of models that did not fail.

        Those inside another model's call, a retriever or a reranker are left out.
        """
        inner = {node for model in self.calls.prompted for node in [*model.walk()][1:]}
        return [
            node for node in self.calls.prompted if not node.error and node not in inner
        ]

    @cached_property
    def _agents(self) -> set[str | None]:
        return {_agent(self.calls.paths[node]) for node in self.models}

    @cached_property
    def _ranks(self) -> Mapping[str | None, int]:
        """The place of each tool call among those that models made, by its id."""
        replies = [node.reply for node in self.calls.nodes if node.reply is not None]
        ranks: dict[str | None, int] = {}
        for rank, call in enumerate(call for reply in replies for call in reply.calls):
            ranks.setdefault(call.id, rank)
        return ranks

    @cached_property
    def _beginnings(self) -> Mapping[Path, list[float]]:
        """When the models began, in order, by the tools around them."""
        beginnings: dict[Path, list[float]] = defaultdict(list)
        for model in self.models:
            beginnings[tools_of(self.calls.paths[model])].append(model.began)
        return {around: sorted(moments) for around, moments in beginnings.items()}

    def began_with_those_beside(self, chosen: Iterable[Node]) -> dict[Node, float]:
        """For each of some calls when the first began of those that ran beside it.

        Calls in branches that ran at the same time count, too.
        """
        calls = list(chosen)
        paths = self.calls.paths
        # of each call that holds some of them
        branches: dict[Node, set[Node]] = defaultdict(set)
        first_inside: dict[Node, float] = {}
        for call in calls:
            for node in paths[call]:
                first_inside[node] = min(first_inside.get(node, call.began), call.began)
            for parent, branch in pairwise(paths[call]):
                branches[parent].add(branch)
        first_beside: dict[Node, float] = {}
        for siblings in branches.values():
            first_beside |= _first_beside(
                sorted(siblings, key=lambda node: node.began), first_inside
            )
        ran = set(calls)
        began = {}
        for call in calls:
            # the call, and those that it stands in
            around = [node.began for node in paths[call] if node in ran]
            beside = [first_beside.get(node, call.began) for node in paths[call]]
            began[call] = min([*around, *beside])
        return began


def tools_of(path: Path) -> Path:
    """Return the tools in a path, the outermost first.

    Model calls with the same tools around them are the loop of one agent.
    """
    return tuple(node for node in path if node.kind == "tool")


def _agent(path: Path) -> str | None:
    return next((node.agent for node in reversed(path) if node.agent), None)


def _first_beside(
    siblings: Sequence[Node], first_inside: Mapping[Node, float]
) -> dict[Node, float]:
    """For each of some calls the first moment inside the others beside it.

    Those beside it ran at the same time. The moment is infinite for a call that ran
    alone: what is inside it began when it did, and not all at once.

    Calls that had begun before lie in a heap until they have ended. Of those that begin
    while a call runs, only the smallest so far of each stretch are held, so that the
    smallest up to its end is found by bisection.

    Args:
        siblings: The calls, sorted by their beginning.
        first_inside: For each call the first moment inside it.
    """
    first: dict[Node, float] = {}
    running: list[tuple[float, int]] = []
    for number, node in enumerate(siblings):
        while running and end_of(siblings[running[0][1]]) <= node.began:
            heappop(running)
        first[node] = running[0][0] if running else inf
        heappush(running, (first_inside[node], number))
    # from the latest to the earliest, of those whose first moment is smaller than all
    # between
    begins: list[float] = []
    moments: list[float] = []
    for node in reversed(siblings):
        later = bisect_right(begins, -end_of(node))  # these begin when it has ended
        if later < len(moments):
            first[node] = min(first[node], moments[later])
        while moments and moments[-1] >= first_inside[node]:
            begins.pop()
            moments.pop()
        begins.append(-node.began)
        moments.append(first_inside[node])
    return first
