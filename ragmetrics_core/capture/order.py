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
from ragmetrics_core.capture.tree import Node, Path, ToolCall

_LAST = 1 << 30  # the rank of a call that no model made
# step, rank among the model's calls, beginning of the calls beside each other, branches,
# beginning
Place = tuple[int, int, float, str, float]


@dataclass(frozen=True, eq=False)
class CallOrder:
    """The order of the calls of one run.

    A **step** is the number of model calls that began before a call in the same tool.

    Attributes:
        calls: The calls.
    """

    calls: Calls

    def places_of(self, call: Node) -> list[Place]:
        """What a call is sorted by: the places of the tools around it, then its own."""
        path = self.calls.paths[call]
        places = []
        for depth, node in enumerate(path):
            if node.kind != "tool" and node is not call:
                continue
            tools_around = tools_of(path[:depth])
            models_began = self._beginnings_by_tools.get(tools_around, ())
            step = bisect_left(models_began, node.began)
            rank = self._rank_by_tool_call.get(node.tool_call_id, _LAST)
            began, branches = _beginning_and_branches(path[: depth + 1])
            places.append((step, rank, began, branches, node.began))
        return places

    def step_of(self, call: Node) -> int:
        """The step of a call.

        It is the number of the turn's model calls that began before it, or before the
        outermost tool around it.
        """
        outermost_place = self.places_of(call)[0]
        step, *_ = outermost_place
        return step

    def agent_of(self, call: Node) -> str | None:
        """The agent that made a call; None where there are not several."""
        if len(self._agents) <= 1:
            return None
        return _innermost_agent(self.calls.paths[call])

    @cached_property
    def model_calls(self) -> list[Node]:
        """The application's own calls of models that did not fail.

        Those inside another model's call, a retriever or a reranker are left out.
        """
        prompted = self.calls.prompted
        inner_calls: set[Node] = set()
        for model in prompted:
            _, *inside_model = model.walk()
            inner_calls.update(inside_model)
        return [node for node in prompted if not node.error and node not in inner_calls]

    @cached_property
    def _agents(self) -> set[str | None]:
        """The agents that called models; None stands for calls that belong to no agent."""
        return {_innermost_agent(self.calls.paths[node]) for node in self.model_calls}

    @cached_property
    def _rank_by_tool_call(self) -> Mapping[str | None, int]:
        """The place of each tool call among those that models made, by its id."""
        tool_calls: list[ToolCall] = []
        for node in self.calls.nodes:
            if node.reply is not None:
                tool_calls += node.reply.tool_calls
        rank_by_id: dict[str | None, int] = {}
        for rank, tool_call in enumerate(tool_calls):
            rank_by_id.setdefault(tool_call.id, rank)
        return rank_by_id

    @cached_property
    def _beginnings_by_tools(self) -> Mapping[Path, list[float]]:
        """When the model calls began, in order, by the tools around them."""
        beginnings: dict[Path, list[float]] = defaultdict(list)
        for model in self.model_calls:
            tools_around = tools_of(self.calls.paths[model])
            beginnings[tools_around].append(model.began)
        for moments in beginnings.values():
            moments.sort()
        return beginnings

    def began_with_those_beside(self, chosen: Iterable[Node]) -> dict[Node, float]:
        """For each of some calls when the first began of those that ran beside it.

        Calls in branches that ran at the same time count, too.
        """
        calls = list(chosen)
        paths = self.calls.paths
        # the calls on the way to the chosen ones, by the call that holds them
        branches_of: dict[Node, set[Node]] = defaultdict(set)
        first_inside: dict[Node, float] = {}
        for call in calls:
            for node in paths[call]:
                first_inside[node] = min(first_inside.get(node, call.began), call.began)
            for parent, branch in pairwise(paths[call]):
                branches_of[parent].add(branch)
        first_beside: dict[Node, float] = {}
        for branches in branches_of.values():
            siblings = sorted(branches, key=lambda node: node.began)
            first_beside.update(_first_beside(siblings, first_inside))
        chosen_calls = set(calls)
        began: dict[Node, float] = {}
        for call in calls:
            moments = [first_beside.get(node, call.began) for node in paths[call]]
            # the call itself, and those that it stands in
            moments += [node.began for node in paths[call] if node in chosen_calls]
            began[call] = min(moments)
        return began


def tools_of(path: Path) -> Path:
    """Return the tools in a path, the outermost first.

    Model calls with the same tools around them are the loop of one agent.
    """
    return tuple(node for node in path if node.kind == "tool")


def _innermost_agent(path: Path) -> str | None:
    """The agent that the last call of a path belongs to; None if it belongs to none."""
    agents = (node.agent for node in reversed(path) if node.agent)
    return next(agents, None)


def _beginning_and_branches(path: Path) -> tuple[float, str]:
    """What orders the last call of a path: when it began, and its branches.

    Branches, such as the steps of a parallel one in LangChain, run at once. They begin
    together, with the call around the outermost of them, and their names order them.
    """
    branches = [node.branch for node in path if node.branch]
    around = path[-1]
    for place, node in enumerate(path):
        if node.branch:
            around = path[max(place - 1, 0)]
            break
    return around.began, "/".join(branches)


def _first_beside(
    siblings: Sequence[Node], first_inside: Mapping[Node, float]
) -> dict[Node, float]:
    """For each of some calls the first moment inside the others beside it.

    Those beside it ran at the same time. The moment is infinite for a call that ran
    alone: what is inside it began when it did, and not all at once.

    Args:
        siblings: The calls, sorted by their beginning.
        first_inside: For each call the first moment inside it.
    """
    first_beside = _first_of_earlier_siblings(siblings, first_inside)
    _lower_to_later_siblings(first_beside, siblings, first_inside)
    return first_beside


def _first_of_earlier_siblings(
    siblings: Sequence[Node], first_inside: Mapping[Node, float]
) -> dict[Node, float]:
    """For each call the first moment inside those that ran when it began.

    The moment is infinite where none ran. Calls lie in a heap until they have ended.
    """
    first: dict[Node, float] = {}
    running: list[tuple[float, int]] = []
    for number, node in enumerate(siblings):
        while running:
            _, number_of_first = running[0]
            if end_of(siblings[number_of_first]) > node.began:
                break
            heappop(running)
        first[node] = inf
        if running:
            first[node], _ = running[0]
        heappush(running, (first_inside[node], number))
    return first


def _lower_to_later_siblings(
    first_beside: dict[Node, float],
    siblings: Sequence[Node],
    first_inside: Mapping[Node, float],
) -> None:
    """Lower the first moments to those inside of calls that begin while a call runs.

    The calls are taken from the latest to the earliest. Only those are held whose first
    moment is smaller than all between, so that the smallest up to the end of a call is
    found by bisection.

    Args:
        first_beside: The first moments; those that a later call undercuts are changed.
        siblings: The calls, sorted by their beginning.
        first_inside: For each call the first moment inside it.
    """
    negative_beginnings: list[float] = []  # rising, as bisection needs it
    moments: list[float] = []
    for node in reversed(siblings):
        # those before this index begin when the call has ended
        first_while_running = bisect_right(negative_beginnings, -end_of(node))
        if first_while_running < len(moments):
            earliest = moments[first_while_running]
            first_beside[node] = min(first_beside[node], earliest)
        while moments and moments[-1] >= first_inside[node]:
            negative_beginnings.pop()
            moments.pop()
        negative_beginnings.append(-node.began)
        moments.append(first_inside[node])
