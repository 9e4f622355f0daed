"""What arrived in one turn, whatever the answer was shown of it. A part of stage 3.

An **arrival** is one time that a call brought documents, a text or an error. The ledger
lists arrivals. Which documents stand behind a tool's text is located here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ragmetrics_core.capture.calls import (
    Calls,
    Key,
    Reply,
    end_of,
    is_asked_later,
    text_of,
)
from ragmetrics_core.capture.locating import OWN, locate
from ragmetrics_core.capture.order import CallOrder, tools_of
from ragmetrics_core.capture.origins import derives_from, keys_without_origin
from ragmetrics_core.capture.plain_values import as_one_line, parse_json, texts_in
from ragmetrics_core.capture.tree import JOINED, Document, Node, Path
from ragmetrics_core.data import Context, EvidenceCall

_MARKS = " .!?\"'`)]}>"
Kind = Literal["retrieval", "tool", "given", "written"]


@dataclass(frozen=True)
class Arrival:
    """One time that evidence arrived in a turn, whatever the answer was shown of it.

    Attributes:
        kind: What arrived, in the words of the ledger's ``EvidenceCall.kind``.
        node: The call that brought it.
        documents: The documents that arrived; empty for a text or an error.
        text: The text that arrived; None for documents, an error or an empty result.
        error: What the call failed with; None if it did not fail.
    """

    kind: Kind
    node: Node
    documents: tuple[Document, ...] = ()
    text: str | None = None
    error: str | None = None


@dataclass(frozen=True, eq=False)
class Arrivals:
    """All that arrived in one turn, and which call brought it.

    Attributes:
        calls: The calls of the turn.
    """

    calls: Calls

    @cached_property
    def order(self) -> CallOrder:
        """The order of the calls."""
        return CallOrder(self.calls)

    @cached_property
    def found(self) -> list[Arrival]:
        """What arrived, in no order yet."""
        return [
            arrival
            for node, path in self.calls.paths.items()
            for arrival in self._of(node, path[:-1])
        ]

    def arrivals_to_tell(
        self,
        answer: str | None,
        earlier: Sequence[EvidenceCall],
        added: Mapping[Node, tuple[Document, ...]],
    ) -> list[Arrival]:
        """Return the arrivals that the ledger lists, in its order.

        A text that a model wrote is left out where the ledger has it already: as the
        answer, or among the texts of earlier turns.

        Args:
            answer: The answer of this turn.
            earlier: The ledger's calls of earlier turns.
            added: The documents that steps brought, as ``documents_of_steps`` gives them.
        """
        known_lines = {
            as_one_line(context.text)
            for call in earlier
            if call.kind == "written"
            for context in call.items
        }
        known_lines.add(as_one_line(answer))
        arrivals = [
            arrival
            for arrival in self.found
            if self._is_evidence(arrival)
            or as_one_line(arrival.text) not in known_lines
        ]
        arrivals += [
            Arrival("retrieval", step, documents) for step, documents in added.items()
        ]
        return sorted(arrivals, key=lambda arrival: self.order.of(arrival.node))

    def documents_retrieved(
        self,
        shown_keys: Sequence[Key] = (),
        added: Mapping[Node, tuple[Document, ...]] | None = None,
    ) -> tuple[Document, ...] | None:
        """Return what retrievers returned and steps added, each document once.

        Searches that ran at the same time have no order of their own. Of these comes
        first the one whose documents the answer was shown first, else the one that the
        ledger lists first.

        Args:
            shown_keys: The keys of the documents shown, in the order of the prompt.
            added: The documents that steps brought, as ``documents_of_steps`` gives them.

        Returns:
            The documents; None if no call is known to have retrieved any.
        """
        documents_of = {**self.calls.retrievals, **(added or {})}
        if not documents_of:
            return None
        once: dict[Key, Document] = {}
        texts: set[str] = set()
        for node in self._sort_retrievals(documents_of, shown_keys):
            fresh = [
                document
                for document in documents_of[node]
                if node.kind == "retriever" or document.text not in texts
            ]
            for document in fresh:
                once.setdefault(
                    ("id", document.id) if document.id is not None else document.key,
                    document,
                )
                texts.add(document.text)
        return tuple(once.values())

    def _sort_retrievals(
        self, documents_of: Mapping[Node, Sequence[Document]], shown_keys: Sequence[Key]
    ) -> list[Node]:
        """Retrievals in the order in which they began.

        Those that ran at the same time count as begun together. Of these comes first
        the one whose documents were shown first.
        """
        began = self.order.began_with_those_beside(documents_of)
        rank: dict[Key, int] = {}
        for place, key in enumerate(shown_keys):
            rank.setdefault(key, place)

        def position(node: Node) -> tuple[object, ...]:
            first_shown = min(
                (
                    rank.get(document.key, len(shown_keys))
                    for document in documents_of[node]
                ),
                default=len(shown_keys),
            )
            return began[node], first_shown, self.order.of(node)

        return sorted(documents_of, key=position)

    def documents_of_steps(
        self, contexts: Mapping[Key, Context]
    ) -> dict[Node, tuple[Document, ...]]:
        """Return the documents of searches that no framework reports, by step.

        Such a search is ``store.similarity_search`` inside a node of a graph, or a step
        that makes documents of web pages (LangGraph's CRAG). A step is taken for one if
        it returned a context that nothing else brought. Of its documents those count
        that are such contexts, or are no rework of what had arrived.

        Args:
            contexts: The contexts, by the keys of the documents behind them.
        """
        arrived = [document for arrival in self.found for document in arrival.documents]
        missing = set(keys_without_origin(arrived, contexts))
        brought: dict[Node, tuple[Document, ...]] = {}
        steps = [
            node for node in self.calls.reworking if node.kind in ("step", "reranker")
        ]
        for step in steps if missing else ():
            if self._is_inside(self.calls.paths[step]) or _rewrites_documents(step):
                continue
            documents = self.calls.drop_written(
                _fresh(step.documents, arrived), end_of(step)
            )
            if missing.isdisjoint(document.key for document in documents):
                continue
            new = [
                document
                for document in documents
                if document.key in missing or not derives_from(document.text, arrived)
            ]
            brought[step] = tuple(new)
            arrived += new
            missing.difference_update(document.key for document in new)
        return brought

    def _is_evidence(self, arrival: Arrival) -> bool:
        """Whether the ledger lists an arrival in any case.

        It does so unless a model wrote the text. A text of a model also counts if a
        tool returned it and a model was called later that could read it.
        """
        if arrival.kind != "written":
            return True
        around = tools_of(self.calls.paths[arrival.node][:-1])
        models = self.order.models
        later = (
            call
            for call in models
            if call.began > arrival.node.began
            and tools_of(self.calls.paths[call]) == around
        )
        return arrival.node.kind == "tool" and any(later)

    def _is_inside(self, path: Path) -> bool:
        """Whether one of the calls around a call speaks for what happens inside it.

        A retriever does, and so does a tool whose result is made of documents.
        """
        return any(
            around.kind == "retriever" or around in self._whole for around in path
        )

    @cached_property
    def _whole(self) -> frozenset[Node]:
        """Tools whose result is made of documents."""
        tools = [node for node in self.calls.nodes if node.kind == "tool"]
        return frozenset(tool for tool in tools if _is_made_of_documents(tool))

    # What one call brought by itself

    def _of(self, node: Node, above: Path) -> Iterator[Arrival]:
        """Yield what one call brought by itself, by the kind of the call.

        Nothing comes of a call whose result another call around it reports.

        Args:
            node: The call.
            above: The calls around it, the outermost first.
        """
        if self._is_inside(above):
            return
        # an agent may have been handed documents, and brings its answer below as well
        if node.kind in ("step", "agent"):
            yield from self._find_given(node, above)
        if node.kind == "tool":
            if not node.control and not self._is_run_again(node):
                yield from self._of_tool(node)
        elif node.kind == "retriever":
            if node.error or node.documents is not None:
                yield Arrival(
                    "retrieval", node, _fresh(node.documents), error=node.error
                )
        # the text of an agent that stands alone is the answer itself
        elif node.kind == "agent" and above and node.text:
            yield from _of_sub_run(node, above)
        elif node.kind == "model":
            yield from self._summaries(node)
        # a plain step counts only where no retriever or tool reported documents
        elif node.documents and node in self.calls.retrievals:
            yield from self._find_introduced(node)

    def _find_given(self, node: Node, above: Path) -> Iterator[Arrival]:
        """Documents that came with the question: those that the outermost call was handed."""
        is_outermost = not above or (above[0].name in JOINED and len(above) == 1)
        if is_outermost:
            retrieved = (
                document
                for documents in self.calls.retrievals.values()
                for document in documents
            )
            handed_in = _fresh(node.taken, retrieved)
            if handed_in:
                yield Arrival("given", node, handed_in)

    def _summaries(self, model: Node) -> Iterator[Arrival]:
        """Summaries of earlier messages that no earlier prompt held."""
        for text in dict.fromkeys(
            message.text for message in model.prompt if message.role == "summary"
        ):
            earlier = [
                call.prompt for call in self.order.models if call.began < model.began
            ]
            if not any(
                text == message.text for prompt in earlier for message in prompt
            ):
                yield Arrival("written", model, text=text)

    def _find_introduced(self, step: Node) -> Iterator[Arrival]:
        """Documents of a step that no retrieval before it held.

        Steps count as retrievals only where no retriever or tool reported documents.
        """
        retrievals = self.calls.retrievals.items()
        before = (
            document
            for node, documents in retrievals
            if node.began < step.began
            for document in documents
        )
        fresh = _fresh(step.documents, before)
        if fresh:
            yield Arrival("retrieval", step, fresh)

    def _of_tool(self, tool: Node) -> Iterator[Arrival]:
        """Yield what a tool brought.

        A tool that failed brings its error. A tool named in ``context_tools`` that
        returned text alone brings that text as a document. A tool whose result is made
        of documents brings these. Any other tool that ended brings its text, and apart
        from it the documents that no call inside it found. A tool that never ended
        brings nothing.
        """
        inner = [*tool.walk()][1:]
        is_named = tool.name in self.calls.context_tools
        if tool.error:
            searched = (
                is_named
                or tool.documents is not None
                or any(node.kind == "retriever" for node in inner)
            )
            yield Arrival("retrieval" if searched else "tool", tool, error=tool.error)
        elif tool in self.calls.tool_texts:
            yield Arrival("retrieval", tool, (Document(tool.text or ""),))
        elif tool in self._whole:
            yield Arrival("retrieval", tool, _fresh(_documents(tool)))
        elif tool.ended is not None:
            text = tool.text if (tool.text or "").strip() else None
            yield Arrival(
                self._kind_of_text(tool, text), tool, text=_repeats(tool) or text
            )
            fresh = _fresh(
                tool.documents,
                (document for node in inner for document in node.documents or ()),
            )
            if fresh:
                yield Arrival("retrieval", tool, fresh)

    def _kind_of_text(self, tool: Node, text: str | None) -> Kind:
        """What kind of arrival the text of a tool is.

        It is ``written`` if a model inside the tool wrote it. It is ``retrieval`` if
        the tool is named in ``context_tools`` and found no text, else ``tool``.
        """
        if _is_written(tool, self.calls.nodes):
            return "written"
        return (
            "retrieval"
            if tool.name in self.calls.context_tools and text is None
            else "tool"
        )

    def _is_run_again(self, node: Node) -> bool:
        """Whether a later run of the turn made the same tool call again.

        A graph that is resumed runs the interrupted tool once more. Only the last time
        counts.
        """
        if node.call is None:
            return False
        run = self.calls.paths[node][1:2]
        later = (
            node
            for node, path in self.calls.paths.items()
            if path[0].name in JOINED and path[1:2] != run
        )
        same = (
            again for again in later if again.kind == "tool" and again.call == node.call
        )
        return any(
            again.began > node.began and again.query == node.query for again in same
        )


def _of_sub_run(agent: Node, above: Path) -> Iterator[Arrival]:
    """What a sub-agent or nested engine answered, unless a call around it says the same."""
    around = [caller.text for caller in above]
    around += [_repeats(caller) for caller in above if caller.kind == "tool"]
    if as_one_line(agent.text) not in map(as_one_line, filter(None, around)):
        yield Arrival("written", agent, text=agent.text)


def _fresh(
    documents: Sequence[Document] | None, before: Iterable[Document] = ()
) -> tuple[Document, ...]:
    """Documents that were not there before and that no call of the run wrote.

    Documents are the same if they have the same id or the same text.
    """
    known_keys = {
        key
        for document in before
        for key in (document.id or document.key, document.text)
    }
    return tuple(
        document
        for document in documents or ()
        if document.author is None
        and not {document.id or document.key, document.text} & known_keys
    )


def _rewrites_documents(step: Node) -> bool:
    """Whether a reranker gave another text for each document that it took.

    Such texts are summaries, and no documents that were found.
    """
    documents_before, returned = step.taken, step.documents or ()
    if (
        step.kind != "reranker"
        or not documents_before
        or len(documents_before) != len(returned)
    ):
        return False
    return {document.text for document in documents_before}.isdisjoint(
        document.text for document in returned
    )


def _documents(tool: Node) -> tuple[Document, ...] | None:
    """The documents behind a tool's result; None if nothing was searched.

    They are its own, else those of retrievers inside it.
    """
    if tool.documents is not None:
        return tool.documents
    inner = [
        node.documents
        for node in tool.walk()
        if node.kind == "retriever" and node.documents is not None
    ]
    return (
        tuple(
            {
                document.key: document for documents in inner for document in documents
            }.values()
        )
        if inner
        else None
    )


def _is_made_of_documents(tool: Node) -> bool:
    """Whether a tool's result is made of the documents behind it: both are one call.

    A tool that failed counts if no model ran inside it. Otherwise its text shows some
    of the documents; or there is no text, or the search found nothing.
    """
    documents = _documents(tool)
    if tool.error:
        return not any(node.kind == "model" for node in tool.walk())
    if documents is None or _repeats(tool):
        return False
    places_shown = locate(
        [text for document in documents for text in document.texts], tool.text or ""
    ).order
    return bool(places_shown) or not documents or not (tool.text or "").strip()


def _replies_inside(tool: Node) -> list[str]:
    """What models inside a tool wrote.

    A query that a search inside it was asked is left out: what was found may quote it.
    """
    inner = [*tool.walk()][1:]
    texts = []
    for node in inner:
        text = text_of(node) or (node.text or "" if node.kind == "agent" else "")
        if text.strip() and not is_asked_later(node, inner):
            texts.append(text)
    return texts


def _repeats(tool: Node) -> str | None:
    """What a model inside a tool wrote and the tool hands on word for word.

    None if there is nothing such.
    """
    text = tool.text or ""
    own_lines = {as_one_line(text), *map(as_one_line, texts_in(parse_json(text)))}
    return next(
        (
            reply
            for reply in reversed(_replies_inside(tool))
            if as_one_line(reply) in own_lines
        ),
        None,
    )


def _is_written(tool: Node, nodes: Iterable[Node]) -> bool:
    """Whether a tool's text is what a model wrote, perhaps in a frame.

    The model ran inside the tool, or had chosen the tool's arguments.
    """
    if _repeats(tool) or _holds_a_reply_in_a_frame(tool):
        return True
    return _echoes_an_argument(tool, nodes)


def _holds_a_reply_in_a_frame(tool: Node) -> bool:
    """Whether a reply of a model inside a tool makes up the tool's text.

    It is a line of the text, most of the text, or a long passage of it.
    """
    text = tool.text or ""
    whole_line = as_one_line(text)
    lines = {as_one_line(line) for line in text.splitlines()}
    replies = _replies_inside(tool)
    for reply in map(as_one_line, replies):
        if reply in lines or (reply in whole_line and 2 * len(reply) > len(whole_line)):
            return True
    longer = [reply for reply in replies if len(reply) >= OWN]
    if not longer:
        return False
    return any(place.extent == "whole" for place in locate(longer, text).places)


def _echoes_an_argument(tool: Node, nodes: Iterable[Node]) -> bool:
    """Whether a tool's text ends with an argument that a model had chosen.

    What stands around the argument is the frame. A frame that is longer than half of
    the text, or holds a number, tells something by itself.
    """
    whole_line = as_one_line(tool.text)
    rest = whole_line.rstrip(_MARKS)
    arguments = (
        argument
        for node in nodes
        if node.began < tool.began
        for argument in Reply(node.reply).arguments
    )
    for argument in map(as_one_line, arguments):
        if len(argument) >= OWN:
            rest = rest.replace(argument.rstrip(_MARKS), "\0")
    # an echoed query ends no text, or a number stands beside it
    frame = rest.replace("\0", "").lstrip("0123456789 ")
    return (
        rest.endswith("\0")
        and 2 * len(frame) <= len(whole_line)
        and not any(map(str.isdigit, frame))
    )
