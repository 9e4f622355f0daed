"""The order in which the calls of a run stand in the ledger. Pure.

Calls are sorted by their step, then in the order in which the model asked for them, then
by when they began. A **step** counts the model calls before a call::

    model      asks for the tools "search" and "weather"
    weather    began first     step 1, second tool call of the model
    search     began second    step 1, first tool call: stands before "weather"
    model      answers
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import inf
from typing import NamedTuple

from ragmetrics_core.capture.calls import Calls, end_of
from ragmetrics_core.capture.tree import Node, Path, ToolCall

_LAST = 1 << 30  # the rank of a call that no model asked for


class SortKey(NamedTuple):
    """What a call is sorted by; the first field that differs decides.

    Attributes:
        step: How many calls the model of the same agent had begun before.
        rank: The call's number among the tool calls that models asked for.
        parallel_began: When the parallel step around the call began; without one, when
            the call itself began.
        branches: The names of the branches around the call, so that the branch "a" of a
            parallel step comes before "b", whichever began first; empty without one.
        began: When the call itself began, which orders the calls of one branch.
    """

    step: int
    rank: int
    parallel_began: float
    branches: str
    began: float


@dataclass(frozen=True, eq=False)
class CallOrder:
    """The order of the calls of one run.

    Attributes:
        calls: The calls.
    """

    calls: Calls

    def sort_keys_of(self, call: Node) -> list[SortKey]:
        """Return the keys by which a call is sorted: of each tool around it, then its own.

        Example: a retriever inside the tool "research" has two keys, the key of
        "research" and its own. So all calls inside "research" stay together.
        """
        path = self.calls.paths[call]  # from the outermost call down to this call
        tools_around = tools_of(path[:-1])
        return [self._sort_key(node) for node in (*tools_around, call)]

    def _sort_key(self, call: Node) -> SortKey:
        """Return the key of a call among those with the same tools around them."""
        path = self.calls.paths[call]
        # calls with the same tools around them belong to the same agent
        models_began = self._model_beginnings_by_tools.get(tools_of(path[:-1]), ())
        parallel_began, branches = _beginning_and_branches(path)
        return SortKey(
            step=bisect_left(models_began, call.began),
            rank=self._rank_by_tool_call.get(call.tool_call_id, _LAST),
            parallel_began=parallel_began,
            branches=branches,
            began=call.began,
        )

    def step_of(self, call: Node) -> int:
        """Return the step of a call.

        It is the number of the turn's model calls that began before it, or before the
        outermost tool around it.
        """
        key_of_outermost, *_ = self.sort_keys_of(call)
        return key_of_outermost.step

    def agent_of(self, call: Node) -> str | None:
        """Return the agent that made a call; None where the run has only one agent."""
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
        """The number of each tool call among all that models asked for, by its id.

        Example: a model asked for ``search`` (id "t1") and ``add`` (id "t2"): ``{"t1":
        0, "t2": 1}``.
        """
        tool_calls: list[ToolCall] = []
        for node in self.calls.nodes:
            if node.reply is not None:
                tool_calls += node.reply.tool_calls
        rank_by_id: dict[str | None, int] = {}
        for rank, tool_call in enumerate(tool_calls):
            rank_by_id.setdefault(tool_call.id, rank)
        return rank_by_id

    @cached_property
    def _model_beginnings_by_tools(self) -> Mapping[Path, list[float]]:
        """When the model calls began, in ascending order, by the tools around them.

        Example: an agent's model began at 1.0 and 5.0, and a model inside the tool
        "research" at 2.0: ``{(): [1.0, 5.0], (research,): [2.0]}``.
        """
        beginnings: dict[Path, list[float]] = defaultdict(list)
        for model in self.model_calls:
            tools_around = tools_of(self.calls.paths[model])
            beginnings[tools_around].append(model.began)
        for moments in beginnings.values():
            moments.sort()
        return beginnings

    def earliest_concurrent_begin(self, chosen: Collection[Node]) -> dict[Node, float]:
        """Find for each call when the first of the calls that ran beside it began.

        Example: a search ran from 1.0 to 3.0, another from 2.0 to 4.0, a third from 6.0
        to 7.0. The first two get 1.0. The third ran alone, and gets 6.0.
        """
        first_begin_beside = self._first_begin_beside(chosen)
        earliest: dict[Node, float] = {}
        for call in chosen:
            begins = [call.began]
            # the outermost call first, such as a parallel step, then its branch, …, and
            # at last the call itself
            for node in self.calls.paths[call]:
                if node in first_begin_beside:
                    begins.append(first_begin_beside[node])
                # a chosen call around the call ran at the same time
                if node in chosen:
                    begins.append(node.began)
            earliest[call] = min(begins)
        return earliest

    def _first_begin_beside(self, chosen: Collection[Node]) -> dict[Node, float]:
        """Return when the first chosen call began in the branches beside a call, by call.

        Example: a parallel step has two branches. The first searched at 1.0, the second
        at 2.0: the first branch gets 2.0, and the second 1.0. The chosen calls and the
        calls around them are looked at; those that ran alone are left out.
        """
        first_begin_inside = self._first_begin_inside(chosen)
        first_begin_beside: dict[Node, float] = {}
        for siblings in self._siblings_around(chosen):
            first_begin_beside.update(
                _smallest_value_beside(siblings, first_begin_inside)
            )
        return first_begin_beside

    def _first_begin_inside(self, chosen: Collection[Node]) -> dict[Node, float]:
        """Return for each call the earliest begin of the chosen calls in its subtree.

        The call itself belongs to its subtree. Calls without a chosen call are left out.
        """
        first_begin_inside: dict[Node, float] = {}
        for call in chosen:
            for node in self.calls.paths[call]:
                first_so_far = first_begin_inside.get(node, call.began)
                first_begin_inside[node] = min(first_so_far, call.began)
        return first_begin_inside

    def _siblings_around(self, chosen: Collection[Node]) -> Iterator[list[Node]]:
        """Yield the chosen calls and the calls around them; siblings come together.

        Example: of two parallel branches, each with a chosen search, the branches are
        one list, and each search is a list of its own. A list is sorted by beginning.
        """
        siblings_by_parent: dict[Node, set[Node]] = defaultdict(set)
        for call in chosen:
            for parent, child in pairwise(self.calls.paths[call]):
                siblings_by_parent[parent].add(child)
        for siblings in siblings_by_parent.values():
            yield sorted(siblings, key=lambda node: node.began)


def tools_of(path: Path) -> Path:
    """Return the tools in a path, the outermost first.

    Model calls with the same tools around them are the loop of one agent.
    """
    return tuple(node for node in path if node.kind == "tool")


def _innermost_agent(path: Path) -> str | None:
    """Return the agent that the last call of a path belongs to; None without one."""
    agents = (node.agent for node in reversed(path) if node.agent)
    return next(agents, None)


def _beginning_and_branches(path: Path) -> tuple[float, str]:
    """Return when the last call of a path counts as begun, and its parallel branches.

    The branches of a parallel step, as in LangChain's ``RunnableParallel``, begin in any
    order. They all count as begun with the step around the outermost of them, and are
    ordered by their names.

    Returns:
        The moment, and the names joined by "/"; without branches the call's own
        beginning, and "".
    """
    branches = [node.branch for node in path if node.branch]
    counted_from = path[-1]
    for depth, node in enumerate(path):
        if node.branch:
            counted_from = path[max(depth - 1, 0)]
            break
    return counted_from.began, "/".join(branches)


def _smallest_value_beside(
    siblings: Sequence[Node], value_by_call: Mapping[Node, float]
) -> dict[Node, float]:
    """Return for each call the smallest value of the other calls that ran beside it.

    Calls ran beside each other if they overlap, or if a chain of overlapping calls
    leads from one to the other. Example: a pool of two threads ran three searches, from
    1.0 to 3.0, from 2.0 to 5.0 and from 3.5 to 6.0: all ran beside each other.

    Args:
        siblings: Calls with one parent, sorted by their beginning.
        value_by_call: The value of each sibling, such as a moment.

    Returns:
        The values; a call that ran alone is left out.
    """
    smallest_beside: dict[Node, float] = {}
    for calls_beside in _overlapping(siblings):
        if len(calls_beside) == 1:
            continue
        smallest, second, *_ = sorted(value_by_call[call] for call in calls_beside)
        for call in calls_beside:
            has_smallest = value_by_call[call] == smallest
            smallest_beside[call] = second if has_smallest else smallest
    return smallest_beside


def _overlapping(siblings: Iterable[Node]) -> Iterator[list[Node]]:
    """Divide calls, sorted by their beginning, where each call before had ended."""
    calls_beside: list[Node] = []
    last_end = -inf
    for call in siblings:
        if call.began >= last_end and calls_beside:
            yield calls_beside
            calls_beside = []
        calls_beside.append(call)
        last_end = max(last_end, end_of(call))
    if calls_beside:
        yield calls_beside
