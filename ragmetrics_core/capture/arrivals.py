"""What arrived in one turn, whatever the answer was shown of it. A part of stage 3.

An **arrival** is one time that a call brought documents, a text or an error. The ledger
lists arrivals. Which documents stand behind a tool's text is located here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ragmetrics_core.capture.calls import Calls, end_of
from ragmetrics_core.capture.order import CallOrder, tools_of
from ragmetrics_core.capture.origins import derives_from, keys_of_unmatched_contexts
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.rewriting import rewritten_documents
from ragmetrics_core.capture.tool_results import (
    documents_behind,
    is_made_of_documents,
    is_written_by_model,
    repeated_reply,
)
from ragmetrics_core.capture.tree import JOINED, Document, DocumentKey, Node, Path
from ragmetrics_core.data import Context, EvidenceCall

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
    def all_arrivals(self) -> list[Arrival]:
        """What arrived, in the order in which the calls began."""
        arrivals: list[Arrival] = []
        for node, path in self.calls.paths.items():
            arrivals += self._arrivals_at(node, path[:-1])
        return arrivals

    def arrivals_to_list(
        self,
        answer: str | None,
        earlier: Sequence[EvidenceCall],
        documents_of_steps: Mapping[Node, tuple[Document, ...]],
    ) -> list[Arrival]:
        """Return what arrived, as the ledger lists it: in the order of its calls.

        A text that a model wrote is left out where the ledger has it already: as the
        answer, or among the texts of earlier turns.

        Args:
            answer: The answer of this turn.
            earlier: The ledger's calls of earlier turns.
            documents_of_steps: The documents of searches that no framework reports, by
                step. They are arrivals as well.
        """
        known_lines = {as_one_line(answer)}
        for call in earlier:
            if call.kind == "written":
                known_lines.update(as_one_line(context.text) for context in call.items)
        arrivals = []
        for arrival in self.all_arrivals:
            is_known = as_one_line(arrival.text) in known_lines
            if not is_known or self._is_listed_anyway(arrival):
                arrivals.append(arrival)
        for step, documents in documents_of_steps.items():
            arrivals.append(Arrival("retrieval", step, documents))
        return sorted(
            arrivals, key=lambda arrival: self.order.sort_keys_of(arrival.node)
        )

    def documents_retrieved(
        self,
        shown_keys: Sequence[DocumentKey] = (),
        documents_of_steps: Mapping[Node, tuple[Document, ...]] | None = None,
    ) -> tuple[Document, ...] | None:
        """Return what retrievers returned and steps added, each document once.

        Searches that ran at the same time have no order of their own. Of these comes
        first the one whose documents the answer was shown first, else the one that the
        ledger lists first.

        Args:
            shown_keys: The keys of the documents shown, in the order of the prompt.
            documents_of_steps: The documents of searches that no framework reports, by
                step; None for none.

        Returns:
            The documents; None if no call is known to have retrieved any.
        """
        documents_by_call = {**self.calls.retrievals, **(documents_of_steps or {})}
        if not documents_by_call:
            return None
        retrieved: dict[DocumentKey, Document] = {}
        texts: set[str] = set()
        for node in self._sort_retrievals(documents_by_call, shown_keys):
            documents = documents_by_call[node]
            # a tool or step may hand on what a retriever had found, or write it anew
            if node.kind != "retriever":
                documents = tuple(
                    document
                    for document in self._drop_rewritten(documents)
                    if document.text not in texts
                )
            for document in documents:
                retrieved.setdefault(document.identity, document)
                texts.add(document.text)
        return tuple(retrieved.values())

    def _sort_retrievals(
        self,
        documents_by_call: Mapping[Node, Sequence[Document]],
        shown_keys: Sequence[DocumentKey],
    ) -> list[Node]:
        """Retrievals in the order in which they began.

        Those that ran at the same time count as begun together. Of these comes first
        the one whose documents were shown first.
        """
        began = self.order.earliest_concurrent_begin(documents_by_call)
        n_shown = len(shown_keys)
        rank_by_key: dict[DocumentKey, int] = {}
        for rank, key in enumerate(shown_keys):
            rank_by_key.setdefault(key, rank)

        def position(node: Node) -> tuple[object, ...]:
            ranks = [
                rank_by_key.get(document.key, n_shown)
                for document in documents_by_call[node]
            ]
            first_shown = min(ranks, default=n_shown)
            return began[node], first_shown, self.order.sort_keys_of(node)

        return sorted(documents_by_call, key=position)

    def documents_of_steps(
        self, contexts: Mapping[DocumentKey, Context]
    ) -> dict[Node, tuple[Document, ...]]:
        """Return the documents of searches that no framework reports, by step.

        Such a search is ``store.similarity_search`` inside a node of a graph, or a step
        that makes documents of web pages (LangGraph's CRAG). A step is taken for a
        search if it returned a context that nothing else brought.

        Args:
            contexts: The contexts, by the keys of the documents behind them.

        Returns:
            For each such step the contexts that it brought, and its other new documents
            unless they were cut from, or made of, documents that were there before.
        """
        arrived: list[Document] = []
        for arrival in self.all_arrivals:
            arrived += arrival.documents
        # keys of the contexts that nothing has brought so far
        missing_keys = set(keys_of_unmatched_contexts(arrived, contexts))
        documents_by_step: dict[Node, tuple[Document, ...]] = {}
        if not missing_keys:
            return documents_by_step
        for step in self.calls.steps_with_documents:
            if not self._may_be_a_search(step):
                continue
            candidates = self._documents_perhaps_found_by(step, arrived)
            if missing_keys.isdisjoint(document.key for document in candidates):
                continue
            brought = []
            for document in candidates:
                is_missing = document.key in missing_keys
                if is_missing or not derives_from(document.text, arrived):
                    brought.append(document)
            documents_by_step[step] = tuple(brought)
            arrived += brought
            missing_keys.difference_update(document.key for document in brought)
        return documents_by_step

    def _documents_perhaps_found_by(
        self, step: Node, arrived: Sequence[Document]
    ) -> tuple[Document, ...]:
        """Return the documents of a step that it may have searched for.

        Args:
            step: The step.
            arrived: The documents that were there before; they are left out.
        """
        new_documents = _documents_not_before(step.documents, arrived)
        # a summary or translation that a step made of one document that it took
        not_rewritten = self._drop_rewritten(new_documents)
        # a model's reply that was put into a document
        return self.calls.without_texts_of_models(not_rewritten, end_of(step))

    def _may_be_a_search(self, step: Node) -> bool:
        """Whether a call that gave documents may have searched for them unseen.

        An agent brings them by calls of its own, and what happens inside a retriever
        or tool is told by that.
        """
        if step.kind not in ("step", "reranker"):
            return False
        path = self.calls.paths[step]
        return not self._is_listed_by_caller(path)

    def _drop_rewritten(self, documents: Iterable[Document]) -> tuple[Document, ...]:
        """Documents without those that a step made of documents that it took."""
        return tuple(
            document
            for document in documents
            if document.key not in self._keys_written_anew
        )

    @cached_property
    def _keys_written_anew(self) -> frozenset[DocumentKey]:
        """The keys of the documents that steps made of documents that they took."""
        keys: set[DocumentKey] = set()
        for step in self.calls.steps_with_documents:
            later_lists = self.calls.lists_after(end_of(step))
            for document in rewritten_documents(step, later_lists):
                keys.add(document.key)
        return frozenset(keys)

    def _is_listed_anyway(self, arrival: Arrival) -> bool:
        """Whether the ledger lists an arrival although it has its text already.

        It does so unless a model wrote the text. A text of a model is listed anyway if
        a tool returned it, and if the agent's model was called later and could read it.
        """
        if arrival.kind != "written":
            return True
        if arrival.node.kind != "tool":
            return False
        tools_around = tools_of(self.calls.paths[arrival.node][:-1])
        for call in self.order.model_calls:
            # calls inside the same tools are those of one agent
            is_same_agent = tools_of(self.calls.paths[call]) == tools_around
            if is_same_agent and call.began > arrival.node.began:
                return True
        return False

    def _is_listed_by_caller(self, path: Path) -> bool:
        """Whether one of some calls speaks for what happens inside it.

        A retriever does, and so does a tool whose result is made of documents.
        """
        return any(
            call.kind == "retriever" or call in self._tools_made_of_documents
            for call in path
        )

    @cached_property
    def _tools_made_of_documents(self) -> frozenset[Node]:
        """Tools whose result is made of the documents behind it."""
        tools = [node for node in self.calls.nodes if node.kind == "tool"]
        return frozenset(tool for tool in tools if is_made_of_documents(tool))

    # What one call brought by itself

    def _arrivals_at(self, node: Node, above: Path) -> Iterator[Arrival]:
        """Yield what one call brought by itself, by the kind of the call.

        Nothing comes of a call that another call around it speaks for.

        Args:
            node: The call.
            above: The calls around it, the outermost first.
        """
        if self._is_listed_by_caller(above):
            return
        if node.kind == "tool":
            # a control tool hands over or asks a person, and brings no evidence
            if not node.is_control and not self._is_run_again(node):
                yield from self._arrivals_of_tool(node)
        elif node.kind == "retriever":
            if node.error or node.documents is not None:
                documents = _documents_not_before(node.documents)
                yield Arrival("retrieval", node, documents, error=node.error)
        elif node.kind == "model":
            yield from self._summaries_in_prompt(node)
        elif node.kind == "agent":
            yield from self._documents_handed_in(node, above)
            # the text of an agent that stands alone is the answer itself
            if above and node.text:
                yield from _answer_of_sub_run(node, above)
            elif node in self.calls.retrievals:
                yield from self._documents_introduced(node)
        else:
            if node.kind == "step":
                yield from self._documents_handed_in(node, above)
            # these count only where no retriever or tool reported documents
            if node in self.calls.retrievals:
                yield from self._documents_introduced(node)

    def _documents_handed_in(self, node: Node, above: Path) -> Iterator[Arrival]:
        """Yield the documents that came with the question, at the outermost call.

        These are the documents that it was handed and that no search found.

        Args:
            node: The call.
            above: The calls around it, the outermost first.
        """
        is_in_joined_runs = len(above) == 1 and above[0].name in JOINED
        if above and not is_in_joined_runs:
            return
        retrieved: list[Document] = []
        for documents in self.calls.retrievals.values():
            retrieved += documents
        handed_in = _documents_not_before(node.input_documents, retrieved)
        if handed_in:
            yield Arrival("given", node, handed_in)

    def _summaries_in_prompt(self, model: Node) -> Iterator[Arrival]:
        """Yield the summaries of earlier messages that no earlier prompt held."""
        summaries = [
            message.text for message in model.prompt if message.role == "summary"
        ]
        if not summaries:
            return
        earlier_texts: set[str] = set()
        for call in self.order.model_calls:
            if call.began < model.began:
                earlier_texts.update(message.text for message in call.prompt)
        for summary in dict.fromkeys(summaries):
            if summary not in earlier_texts:
                yield Arrival("written", model, text=summary)

    def _documents_introduced(self, step: Node) -> Iterator[Arrival]:
        """Yield the documents of a step that no retrieval before it held."""
        if not step.documents:
            return
        documents_before: list[Document] = []
        for node, documents in self.calls.retrievals.items():
            if node.began < step.began:
                documents_before += documents
        introduced = self._drop_rewritten(
            _documents_not_before(step.documents, documents_before)
        )
        if introduced:
            yield Arrival("retrieval", step, introduced)

    def _arrivals_of_tool(self, tool: Node) -> Iterator[Arrival]:
        """Yield what a tool brought.

        A tool that failed brings its error. A tool named in ``context_tools`` that
        returned text alone brings that text as a document. A tool whose result is made
        of documents brings these. Any other tool that ended brings its text, and apart
        from it the documents that no call inside it found. A tool that never ended
        brings nothing.
        """
        if tool.error:
            kind: Kind = "retrieval" if self._has_searched(tool) else "tool"
            yield Arrival(kind, tool, error=tool.error)
        elif tool in self.calls.context_tool_calls:
            yield Arrival("retrieval", tool, (Document(tool.text or ""),))
        elif tool in self._tools_made_of_documents:
            documents = _documents_not_before(documents_behind(tool))
            yield Arrival("retrieval", tool, documents)
        elif tool.ended is not None:
            text = tool.text if (tool.text or "").strip() else None
            kind = self._kind_of_text(tool, text)
            yield Arrival(kind, tool, text=repeated_reply(tool) or text)
            found_inside: list[Document] = []
            for node in tool.walk():
                if node is not tool:
                    found_inside += node.documents or ()
            documents = _documents_not_before(tool.documents, found_inside)
            if documents:
                yield Arrival("retrieval", tool, documents)

    def _has_searched(self, tool: Node) -> bool:
        """Whether a tool is a search: it is named as one, gave documents or retrieved."""
        if tool.name in self.calls.context_tools or tool.documents is not None:
            return True
        return any(node.kind == "retriever" for node in tool.walk())

    def _kind_of_text(self, tool: Node, text: str | None) -> Kind:
        """What kind of arrival the text of a tool is.

        It is ``written`` if a model inside the tool wrote it. It is ``retrieval`` if
        the tool is named in ``context_tools`` and found no text, else ``tool``.
        """
        if is_written_by_model(tool, self.calls.nodes):
            return "written"
        if text is None and tool.name in self.calls.context_tools:
            return "retrieval"
        return "tool"

    def _is_run_again(self, tool: Node) -> bool:
        """Whether a later run of the turn made the same tool call again.

        A graph that is resumed runs the interrupted tool once more. Only the last time
        counts.
        """
        if tool.tool_call_id is None:
            return False
        run = self.calls.paths[tool][1:2]
        for again, path in self.calls.paths.items():
            is_in_another_run = path[0].name in JOINED and path[1:2] != run
            is_same_call = (
                again.kind == "tool" and again.tool_call_id == tool.tool_call_id
            )
            if not is_in_another_run or not is_same_call:
                continue
            if again.began > tool.began and again.query == tool.query:
                return True
        return False


def _answer_of_sub_run(agent: Node, above: Path) -> Iterator[Arrival]:
    """Yield what a sub-agent or nested engine answered, unless a call around it says the same.

    Args:
        agent: The sub-agent.
        above: The calls around it.
    """
    texts_around = [caller.text for caller in above]
    for caller in above:
        if caller.kind == "tool":
            texts_around.append(repeated_reply(caller))
    lines_around = {as_one_line(text) for text in texts_around if text}
    if as_one_line(agent.text) not in lines_around:
        yield Arrival("written", agent, text=agent.text)


def _documents_not_before(
    documents: Sequence[Document] | None, before: Iterable[Document] = ()
) -> tuple[Document, ...]:
    """Documents that were not there before and that no call of the run wrote.

    Documents are the same if they have the same id or the same text. An id counts where
    it names one document alone (``shared_ids``).

    Args:
        documents: The documents; None counts as none.
        before: Those that were there before.
    """
    known: set[object] = set()
    for document in before:
        known.add(document.identity)
        known.add(document.text)
    new_documents = []
    for document in documents or ():
        is_written = document.author is not None
        is_known = document.identity in known or document.text in known
        if not is_written and not is_known:
            new_documents.append(document)
    return tuple(new_documents)
