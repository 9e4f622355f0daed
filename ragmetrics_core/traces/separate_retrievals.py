"""Retrievals that were recorded in a trace of their own, without the model's call.

An application that calls retriever and model one after the other, without a span around
both, writes a trace for each. The two belong together if they name the same
conversation, or if one links to the other, and the model was shown what the retriever
found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from ragmetrics_core.capture.forms import letters_of
from ragmetrics_core.capture.shown import shows_some
from ragmetrics_core.capture.tree import Node
from ragmetrics_core.traces.dialects import session_of
from ragmetrics_core.traces.span_calls import Call
from ragmetrics_core.traces.span_trees import trees_of

_MOST_WAITING = 1000


@dataclass(frozen=True)
class TraceOfCalls:
    """A trace as the outermost calls of its spans.

    Attributes:
        trace: Its id.
        calls: The calls.
        conversation: The only conversation that its spans name; None if they name none,
            or several.
        links: The ids of other traces that its spans link to.
    """

    trace: str
    calls: tuple[Call, ...]
    conversation: str | None
    links: frozenset[str]

    @property
    def has_link_or_conversation(self) -> bool:
        """Whether another trace can be known to belong to it: by either of these."""
        return bool(self.links) or self.conversation is not None

    @staticmethod
    def of(trace: str, calls: Sequence[Call]) -> TraceOfCalls:
        """Collect the links and the conversation of a trace from all its calls.

        Example: all spans that name a conversation name "t1": it is the trace's. If
        they name several, the trace has none.

        Args:
            trace: The id of the trace.
            calls: Its outermost calls.
        """
        conversations = set()
        links: set[str] = set()
        for call in _with_those_inside(calls):
            links.update(call.span.links)
            conversation = session_of(call.span.attributes)
            if conversation is not None:
                conversations.add(conversation)
        only_conversation = conversations.pop() if len(conversations) == 1 else None
        return TraceOfCalls(trace, tuple(calls), only_conversation, frozenset(links))

    @property
    def kinds(self) -> set[str]:
        """What the calls of the trace are: model, retriever, tool and so on."""
        kinds: set[str] = set()
        for call in _with_those_inside(self.calls):
            if call.reading is not None:
                kinds.add(call.reading.kind or "step")
        return kinds

    def is_linked_with(self, other: TraceOfCalls) -> bool:
        """Whether one of two traces links to the other."""
        return self.trace in other.links or other.trace in self.links

    @property
    def nodes(self) -> list[Node]:
        """The calls as nodes of the core's trees."""
        trees = chain.from_iterable(trees_of(call) for call in self.calls)
        return [node for tree in trees for node in tree.root.walk()]


class WaitingRetrievals:
    """Traces that only retrieved, which wait for a model's call in another trace.

    Memory is bounded: where more than a thousand wait, the eldest are given up.
    """

    def __init__(self) -> None:
        self._waiting: list[TraceOfCalls] = []  # the eldest first

    def add(self, retrieval: TraceOfCalls) -> list[TraceOfCalls]:
        """Let a trace wait, and return the waiting traces that are given up."""
        self._waiting.append(retrieval)
        n_too_many = max(0, len(self._waiting) - _MOST_WAITING)
        given_up = self._waiting[:n_too_many]
        del self._waiting[:n_too_many]
        return given_up

    def take_those_shown_in(self, answering: TraceOfCalls) -> list[TraceOfCalls]:
        """Remove and return the traces whose documents a later trace shows to a model.

        They are of the same conversation, or one of the two links to the other. A trace
        that retrieves for itself takes none.
        """
        if "retriever" in answering.kinds:
            return []
        may_be_shown = [
            retrieval
            for retrieval in self._waiting
            if _are_of_one_conversation(retrieval, answering)
            or retrieval.is_linked_with(answering)
        ]
        if not may_be_shown:
            return []
        prompts = _streams_of_prompts(answering.nodes)
        shown_retrievals = []
        for retrieval in may_be_shown:
            if _shows_a_document_of(retrieval, prompts):
                shown_retrievals.append(retrieval)
                self._waiting.remove(retrieval)
        return shown_retrievals

    def take_all(self) -> list[TraceOfCalls]:
        """Remove and return all that wait, in the order in which they came."""
        all_of_them = self._waiting
        self._waiting = []
        return all_of_them


def only_retrieves(trace: TraceOfCalls) -> bool:
    """Whether a trace holds a retriever's run and nothing else.

    A chain that broke off after its retrieval is none: a later run may resume it.
    """
    if not trace.kinds.isdisjoint(("model", "tool")):
        return False
    trees = list(chain.from_iterable(trees_of(call) for call in trace.calls))
    return bool(trees) and all(tree.root.kind == "retriever" for tree in trees)


def _are_of_one_conversation(trace: TraceOfCalls, other: TraceOfCalls) -> bool:
    """Whether two traces name the same conversation."""
    return trace.conversation is not None and trace.conversation == other.conversation


def _with_those_inside(calls: Sequence[Call]) -> Iterator[Call]:
    """The calls and all calls inside them."""
    return chain.from_iterable(call.walk() for call in calls)


def _streams_of_prompts(nodes: Sequence[Node]) -> list[str]:
    """The messages that models were shown, normalized, without their own words."""
    streams = []
    for node in nodes:
        for message in node.prompt:
            if message.role != "assistant":
                streams.append(letters_of(message.text))
    return streams


def _shows_a_document_of(retrieval: TraceOfCalls, prompts: Sequence[str]) -> bool:
    """Whether a passage of a document that was found stands in a prompt."""
    for node in retrieval.nodes:
        for document in node.documents or ():
            normalized = letters_of(document.text)
            if any(shows_some(prompt, normalized) for prompt in prompts):
                return True
    return False
