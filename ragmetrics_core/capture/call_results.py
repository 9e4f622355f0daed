"""What each call of one turn returned as evidence. A part of stage 3.

A **call result** is what one call returned that an answer may rest on: documents, a
text or an error. A search tool that returned three pages is one call result with three
documents; a calculator is one with the text "42". Whether the answer was shown any of
it does not matter here. The ledger lists these results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ragmetrics_core.capture.calls import Calls, began_after, end_of
from ragmetrics_core.capture.order import CallOrder, tools_of
from ragmetrics_core.capture.origins import derives_from, keys_of_unmatched_contexts
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.rewriting import adds_to_documents, rewritten_documents
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
class CallResult:
    """What one call returned that an answer may rest on.

    Attributes:
        kind: "retrieval" for what a search found, "tool" for another tool's text,
            "given" for documents that the run was handed, "written" for a text that a
            model wrote, as in the ledger.
        call: The call.
        documents: The documents that it returned; empty for a text or an error.
        text: The text that it returned; None for documents, an error or an empty
            result.
        error: What the call failed with; None if it did not fail.
    """

    kind: Kind
    call: Node
    documents: tuple[Document, ...] = ()
    text: str | None = None
    error: str | None = None


@dataclass(frozen=True, eq=False)
class CallResults:
    """What the calls of one turn returned as evidence.

    Attributes:
        calls: The calls of the turn.
    """

    calls: Calls

    @cached_property
    def call_order(self) -> CallOrder:
        """The order of the calls."""
        return CallOrder(self.calls)

    @cached_property
    def all_results(self) -> list[CallResult]:
        """The results of all calls, in the order in which the calls began."""
        results: list[CallResult] = []
        for node, path in self.calls.paths.items():
            results += self._results_of_call(node, path[:-1])
        return results

    def results_for_ledger(
        self,
        answer: str | None,
        earlier: Sequence[EvidenceCall],
        documents_of_steps: Mapping[Node, tuple[Document, ...]],
    ) -> list[CallResult]:
        """Return the calls' results that the ledger lists, in the order of the ledger.

        Left out is the result of a sub-agent that replied "It fell in 1874." if the run
        answers just this, or if a model already wrote it in an earlier turn: the answer
        cannot rest on itself.

        Args:
            answer: The answer of this turn; None if there is none.
            earlier: The ledger's calls of earlier turns.
            documents_of_steps: The documents of steps that searched by themselves, such
                as a graph's node that calls ``store.similarity_search``.
        """
        # the answer, and what models of earlier turns wrote, each in one line
        known_lines = {as_one_line(answer)}
        for call in earlier:
            if call.kind == "written":
                known_lines.update(as_one_line(context.text) for context in call.items)
        results = [
            result
            for result in self.all_results
            if not self._is_written_again(result, known_lines)
        ]
        for step, documents in documents_of_steps.items():
            results.append(CallResult("retrieval", step, documents))
        return sorted(
            results, key=lambda result: self.call_order.sort_keys_of(result.call)
        )

    def _is_written_again(self, result: CallResult, known_lines: set[str]) -> bool:
        """Whether a text that a model wrote is the answer, or one of an earlier turn.

        It counts all the same if a model may have read it as the text of a tool.
        """
        if result.kind != "written" or as_one_line(result.text) not in known_lines:
            return False
        return not self._was_perhaps_read_by_agent(result)

    def documents_retrieved(
        self,
        shown_keys: Sequence[DocumentKey] = (),
        documents_of_steps: Mapping[Node, tuple[Document, ...]] | None = None,
    ) -> tuple[Document, ...] | None:
        """Return the retrieved documents, each once, in the order of their searches.

        A retriever found [A, B], then a tool returned [B, C]: A, B, C. Of two documents
        with one id the first counts. None if no call retrieved anything.

        Args:
            shown_keys: The keys of the documents shown, in the order of the prompt. Of
                two searches that ran in parallel, the one that found the document shown
                first goes first.
            documents_of_steps: The documents of steps that searched by themselves, such
                as a graph's node that calls ``store.similarity_search``; None for none.
        """
        documents_by_call = {**self.calls.retrievals, **(documents_of_steps or {})}
        if not documents_by_call:
            return None
        document_by_identity: dict[DocumentKey, Document] = {}
        known_texts: set[str] = set()  # of documents found by earlier calls
        for call in self._sort_retrievals(documents_by_call, shown_keys):
            documents = documents_by_call[call]
            if call.kind != "retriever":
                # perhaps the tool or step only repeats documents that were found before
                documents = self._not_handed_on(documents, known_texts)
            for document in documents:
                document_by_identity.setdefault(document.identity, document)
                known_texts.add(document.text)
        return tuple(document_by_identity.values())

    def _not_handed_on(
        self, documents: Iterable[Document], known_texts: Collection[str]
    ) -> tuple[Document, ...]:
        """Leave out documents that a step only handed on, or that it rewrote."""
        return tuple(
            document
            for document in self._without_rewritten(documents)
            if document.text not in known_texts
        )

    def _sort_retrievals(
        self,
        documents_by_call: Mapping[Node, Sequence[Document]],
        shown_keys: Sequence[DocumentKey],
    ) -> list[Node]:
        """Sort retrieving calls by their begin; parallel calls by their first rank.

        Searches for "cats" and for "dogs" ran in parallel, and the prompt shows a page
        on dogs first: the search for "dogs" goes first.

        Args:
            documents_by_call: The calls, each with the documents that it returned.
            shown_keys: The keys of the documents shown, in the order of the prompt.
        """
        # parallel calls have one begin here, the earliest
        began = self.call_order.earliest_concurrent_begin(documents_by_call)
        n_shown = len(shown_keys)  # the rank of documents that are not shown
        rank_by_key: dict[DocumentKey, int] = {}
        for rank, document_key in enumerate(shown_keys):
            rank_by_key.setdefault(document_key, rank)

        def sort_key(call: Node) -> tuple[object, ...]:
            ranks = [
                rank_by_key.get(document.key, n_shown)
                for document in documents_by_call[call]
            ]
            first_rank = min(ranks, default=n_shown)
            return began[call], first_rank, self.call_order.sort_keys_of(call)

        return sorted(documents_by_call, key=sort_key)

    def documents_of_steps(
        self,
        contexts: Mapping[DocumentKey, Context],
        answering_call: Node | None = None,
    ) -> dict[Node, tuple[Document, ...]]:
        """Find the documents of steps that searched by themselves, without a retriever.

        A graph's node calls ``store.similarity_search`` and returns [A, B], the prompt
        shows A, and no recorded search found A: the node found A and B. A step that
        was given [A], and returned [A, C] before the answer, found C: it may fetch the
        next chunk of a file, whatever the prompt shows.

        Args:
            contexts: The contexts of the answer, by the key of their document.
            answering_call: The call that wrote the answer; None if it is unknown.
        """
        known_documents: list[Document] = []
        for result in self.all_results:
            known_documents += result.documents
        # of contexts that no recorded search found
        missing_keys = set(keys_of_unmatched_contexts(known_documents, contexts))
        documents_by_step: dict[Node, tuple[Document, ...]] = {}
        for step in filter(self._may_be_a_search, self.calls.steps_with_documents):
            if _is_before(step, answering_call) and adds_to_documents(
                step, known_documents
            ):
                # it was given [A], and returned [A, C]: it found C
                found = self._documents_added_by(step, known_documents)
            else:
                # it returned [A, B], and A is a context: it found A and B
                found = self._documents_found_with_context(
                    step, known_documents, missing_keys
                )
            if found:
                documents_by_step[step] = found
                # a later step that returns them again did not find them
                known_documents += found
                missing_keys.difference_update(document.key for document in found)
        return documents_by_step

    def _documents_added_by(
        self, step: Node, known_documents: Sequence[Document]
    ) -> tuple[Document, ...]:
        """Return the documents of a step that are no pieces or unions of known ones."""
        return tuple(
            document
            for document in self._documents_perhaps_found_by(step, known_documents)
            if not derives_from(document.text, known_documents)
        )

    def _documents_found_with_context(
        self,
        step: Node,
        known_documents: Sequence[Document],
        missing_keys: Collection[DocumentKey],
    ) -> tuple[Document, ...]:
        """Return what a step found, if it returned a context that no known search returned.

        ``missing_keys`` are the keys of such contexts. Other documents are left out if
        they are pieces or unions of known ones. Example: a step returned A, B and the
        first half of C, a search found C, and A is a context that no search found: the
        step found A and B.
        """
        if not missing_keys:
            return ()
        candidates = self._documents_perhaps_found_by(step, known_documents)
        if not any(document.key in missing_keys for document in candidates):
            return ()
        return tuple(
            document
            for document in candidates
            if document.key in missing_keys
            or not derives_from(document.text, known_documents)
        )

    def _documents_perhaps_found_by(
        self, step: Node, known_documents: Sequence[Document]
    ) -> tuple[Document, ...]:
        """Return the documents of a step that it may have searched for.

        Left out are known documents, documents that it rewrote, and replies of models.
        """
        unknown_documents = _not_written_by_models(
            step.documents, besides=known_documents
        )
        not_rewritten = self._without_rewritten(unknown_documents)
        return self.calls.without_texts_of_models(not_rewritten, end_of(step))

    def _may_be_a_search(self, step: Node) -> bool:
        """Whether a call that returned documents may have searched for them unseen."""
        if step.kind not in ("step", "reranker"):
            return False  # an agent's documents come from calls of its own
        path = self.calls.paths[step]
        return not self._has_caller_returning_documents(path)

    def _without_rewritten(self, documents: Iterable[Document]) -> tuple[Document, ...]:
        """Leave out the documents that a step made of documents that it took."""
        return tuple(
            document
            for document in documents
            if document.key not in self._rewritten_keys
        )

    @cached_property
    def _rewritten_keys(self) -> frozenset[DocumentKey]:
        """The keys of the documents that steps made of documents that they took."""
        document_keys: set[DocumentKey] = set()
        for step in self.calls.steps_with_documents:
            later_lists = self.calls.lists_after(end_of(step))
            for document in rewritten_documents(step, later_lists):
                document_keys.add(document.key)
        return frozenset(document_keys)

    def _was_perhaps_read_by_agent(self, result: CallResult) -> bool:
        """Whether an agent's model may have read a text that a tool returned.

        It may if it was called after the tool: a calculator returned "42", and then the
        agent's model was called again. False for a text that no tool returned.
        """
        if result.call.kind != "tool":
            return False
        tools_around = tools_of(self.calls.paths[result.call][:-1])
        for call in self.call_order.model_calls:
            # calls inside the same tools are those of one agent
            is_same_agent = tools_of(self.calls.paths[call]) == tools_around
            if is_same_agent and call.began > result.call.began:
                return True
        return False

    def _has_caller_returning_documents(self, path: Path) -> bool:
        """Whether any of the calls returns all documents that are found inside it.

        A retriever does, and so does a tool that only presents the documents found
        inside it: the ledger shows this call alone.
        """
        return any(
            call.kind == "retriever" or call in self._tools_made_of_documents
            for call in path
        )

    @cached_property
    def _tools_made_of_documents(self) -> frozenset[Node]:
        """The tools whose result only presents the documents found inside them."""
        tools = [node for node in self.calls.nodes if node.kind == "tool"]
        return frozenset(tool for tool in tools if is_made_of_documents(tool))

    # What one call returned by itself

    def _results_of_call(self, node: Node, above: Path) -> Iterator[CallResult]:
        """Yield what one call returned that the answer may rest on.

        Example: a search tool calls a retriever and returns its documents. The tool
        yields them; the retriever yields nothing.

        Args:
            node: The call.
            above: The calls around it, the outermost first.
        """
        # a retriever or a tool around the call returns what was found inside it
        if self._has_caller_returning_documents(above):
            return
        if node.kind == "tool":
            yield from self._results_of_tool(node)
        elif node.kind == "retriever":
            yield from _documents_of_retriever(node)
        elif node.kind == "model":
            yield from self._new_summaries_in_prompt(node)
        else:
            yield from self._results_of_step_or_agent(node, above)

    def _results_of_step_or_agent(
        self, node: Node, above: Path
    ) -> Iterator[CallResult]:
        """Yield the documents of a step, agent or reranker, or the text of a sub-agent.

        The text of the outermost agent is the answer, and no evidence.
        """
        if node.kind in ("step", "agent"):
            yield from self._documents_handed_in(node, above)
        is_sub_agent_with_text = node.kind == "agent" and bool(above and node.text)
        if is_sub_agent_with_text:
            yield from _answer_of_sub_run(node, above)
        elif node in self.calls.retrievals:
            yield from self._documents_not_retrieved_before(node)

    def _documents_handed_in(self, node: Node, above: Path) -> Iterator[CallResult]:
        """Yield the documents among the inputs of the run that no search found.

        Example: an engine is called with a question and the documents A and B, and its
        search found B: A is yielded. Nothing is yielded for a call inside the run. Of
        several runs that were joined, each is a run of its own.
        """
        is_outermost_of_joined = len(above) == 1 and above[0].name in JOINED
        if above and not is_outermost_of_joined:
            return
        retrieved: list[Document] = []
        for documents in self.calls.retrievals.values():
            retrieved += documents
        handed_in = _not_written_by_models(node.input_documents, besides=retrieved)
        if handed_in:
            yield CallResult("given", node, handed_in)

    def _new_summaries_in_prompt(self, model: Node) -> Iterator[CallResult]:
        """Yield the summaries of earlier messages that a model's prompt is first to hold.

        A memory puts "The user asked about the bridge." into two prompts, in place of
        old messages: the summary is yielded for the first prompt. What the model itself
        replied is not yielded.
        """
        summaries = [
            message.text for message in model.prompt if message.role == "summary"
        ]
        if not summaries:
            return
        earlier_texts: set[str] = set()  # of all earlier prompts
        for call in self.call_order.model_calls:
            if call.began < model.began:
                earlier_texts.update(message.text for message in call.prompt)
        for summary in dict.fromkeys(summaries):
            if summary not in earlier_texts:
                yield CallResult("written", model, text=summary)

    def _documents_not_retrieved_before(self, step: Node) -> Iterator[CallResult]:
        """Yield the documents of a step that no retrieval before it returned.

        Example: a search found A; then a step returned A and B: B is yielded.
        """
        if not step.documents:
            return
        documents_before: list[Document] = []
        for node, documents in self.calls.retrievals.items():
            if node.began < step.began:
                documents_before += documents
        introduced = self._without_rewritten(
            _not_written_by_models(step.documents, besides=documents_before)
        )
        if introduced:
            yield CallResult("retrieval", step, introduced)

    def _results_of_tool(self, tool: Node) -> Iterator[CallResult]:
        """Yield what a tool returned: an error, documents, a text, or a text and documents.

        A retriever's tool gives its documents; a calculator gives the text "42"; a web
        search gives its text and its pages. A hand-off to another agent gives nothing,
        nor does a call that a resumed graph makes again.
        """
        if tool.is_control or self._is_repeated_later(tool):
            return
        if tool.error:
            kind: Kind = "retrieval" if self._has_searched(tool) else "tool"
            yield CallResult(kind, tool, error=tool.error)
        elif tool in self.calls.context_tool_calls:
            # the user named the tool in ``context_tools``: its text is a document
            yield CallResult("retrieval", tool, (Document(tool.text or ""),))
        elif tool in self._tools_made_of_documents:
            # The tool's text only presents what a retriever inside it found, "1. It is
            # old. 2. It fell.". These documents are yielded here, and not a second time
            # as results of the retriever.
            documents = _not_written_by_models(documents_behind(tool))
            yield CallResult("retrieval", tool, documents)
        elif tool.ended is not None:  # it ran to its end, so that its text is known
            yield self._text_of_tool(tool)
            yield from _documents_beside_text(tool)

    def _text_of_tool(self, tool: Node) -> CallResult:
        """Return a tool's text as a result; of '{"answer": "It fell."}' the model's reply alone."""
        text = tool.text if (tool.text or "").strip() else None
        kind = self._kind_of_text(tool, text)
        return CallResult(kind, tool, text=repeated_reply(tool) or text)

    def _has_searched(self, tool: Node) -> bool:
        """Whether a tool is a search: it is named as one, gave documents or retrieved."""
        if tool.name in self.calls.context_tools or tool.documents is not None:
            return True
        return any(node.kind == "retriever" for node in tool.walk())

    def _kind_of_text(self, tool: Node, text: str | None) -> Kind:
        """Tell the kind of a tool's text, as the ledger names it.

        Returns:
            "written" if a model wrote the text, "retrieval" if there is no text and the
            user named the tool in ``context_tools``, else "tool".
        """
        if is_written_by_model(tool, self.calls.nodes):
            return "written"
        if text is None and tool.name in self.calls.context_tools:
            return "retrieval"
        return "tool"

    def _is_repeated_later(self, tool: Node) -> bool:
        """Whether a later run of the turn made the same tool call again.

        A graph that is resumed runs the interrupted tool once more. Only the last time
        counts.
        """
        if tool.tool_call_id is None:
            return False
        run = self._joined_run_of(tool)
        for later in self.calls.nodes:
            if _repeats(later, tool):
                later_run = self._joined_run_of(later)
                if later_run is not None and later_run is not run:
                    return True
        return False

    def _joined_run_of(self, node: Node) -> Node | None:
        """Return the run in which a call was made, where several runs were joined.

        Joined runs stand below one root. None for the root, and in a single run.
        """
        path = self.calls.paths[node]
        if path[0].name not in JOINED or len(path) == 1:
            return None
        return path[1]


def _repeats(later: Node, tool: Node) -> bool:
    """Whether a later call is the same tool call, with the same query."""
    if later.kind != "tool" or later.tool_call_id != tool.tool_call_id:
        return False
    return later.began > tool.began and later.query == tool.query


def _documents_of_retriever(retriever: Node) -> Iterator[CallResult]:
    """Yield the documents or the error of a retriever; nothing if it never ended."""
    if retriever.error or retriever.documents is not None:
        documents = _not_written_by_models(retriever.documents)
        yield CallResult("retrieval", retriever, documents, error=retriever.error)


def _documents_beside_text(tool: Node) -> Iterator[CallResult]:
    """Yield the documents that a tool returned beside a text of its own.

    Those of a retriever inside the tool are left out: the retriever yields them.
    """
    documents = _not_written_by_models(
        tool.documents, besides=_returned_by_calls_inside(tool)
    )
    if documents:
        yield CallResult("retrieval", tool, documents)


def _returned_by_calls_inside(tool: Node) -> list[Document]:
    """List the documents that calls inside a tool returned."""
    _, *inner_calls = tool.walk()
    documents: list[Document] = []
    for inner_call in inner_calls:
        documents += inner_call.documents or ()
    return documents


def _answer_of_sub_run(agent: Node, above: Path) -> Iterator[CallResult]:
    """Yield the answer of a sub-agent or nested engine, unless a call around it returns the same.

    ``above`` are the calls around it.
    """
    texts_around = [caller.text for caller in above]
    for caller in above:
        if caller.kind == "tool":
            texts_around.append(repeated_reply(caller))
    lines_around = {as_one_line(text) for text in texts_around if text}
    if as_one_line(agent.text) not in lines_around:
        yield CallResult("written", agent, text=agent.text)


def _is_before(step: Node, answering_call: Node | None) -> bool:
    """Whether a step ended before the answering call began; False if that is unknown."""
    return answering_call is not None and began_after(answering_call, step)


def _not_written_by_models(
    documents: Sequence[Document] | None, besides: Iterable[Document] = ()
) -> tuple[Document, ...]:
    """Leave out documents that a model call wrote, and those known already.

    A document is known if one of ``besides`` has the same identity (its id, as a rule)
    or the same text.
    """
    known_documents = tuple(besides)
    known_identities = {document.identity for document in known_documents}
    known_texts = {document.text for document in known_documents}
    return tuple(
        document
        for document in documents or ()
        if document.author is None
        and document.identity not in known_identities
        and document.text not in known_texts
    )
