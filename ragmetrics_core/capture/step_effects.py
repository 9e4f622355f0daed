"""What steps and retrievers did to the retrieved documents between search and prompt. Pure.

A search finds passages A, B and C, and a reranker returns B and A. Then the reranker
took the documents with indexes 0, 1 and 2 and returned those with indexes 1 and 0. An
**index** is that of a document among the retrieved documents, from 0.

All texts are compared once, in ``effects_of``; ``passage_notes`` reads the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.calls import Calls, end_of
from ragmetrics_core.capture.origins import MatchedDocuments, match_documents
from ragmetrics_core.capture.rewriting import DocumentChange
from ragmetrics_core.capture.tree import Document, DocumentKey, Node


@dataclass(frozen=True)
class RetrieverEffect:
    """What a retriever did to the documents that searches inside it found.

    Attributes:
        retriever: The retriever.
        n_dropped: How many of these documents it did not return; 0 where that is not
            known.
        rewritten_keys: The keys of documents that it returned and no search inside it
            found. If there are any, nobody knows which documents it dropped.
    """

    retriever: Node
    n_dropped: int
    rewritten_keys: frozenset[DocumentKey]


@dataclass(frozen=True)
class StepEffect:
    """What a reranker or filter did to the retrieved documents.

    Attributes:
        name: Its name.
        node: The call.
        indexes_taken: Indexes of the retrieved documents that it was given.
        indexes_returned: Indexes of the retrieved documents that it returned, in its
            order.
        returns_unknown_texts: Whether it returned texts that were made of no known
            document.
    """

    name: str
    node: Node
    indexes_taken: frozenset[int]
    indexes_returned: tuple[int, ...]
    returns_unknown_texts: bool


@dataclass(frozen=True)
class StepEffects:
    """What steps and retrievers did to the retrieved documents.

    Attributes:
        steps: The rerankers and filters between the searches and the answer.
        retrievers: The retrievers that hand on what searches inside them found.
        writer_by_index: For the index of a document that a rewriting step took and did
            not return, the name of the first such step.
    """

    steps: tuple[StepEffect, ...]
    retrievers: tuple[RetrieverEffect, ...]
    writer_by_index: Mapping[int, str]


def effects_of(
    changes: Sequence[DocumentChange],
    calls: Calls,
    retrieved: Sequence[Document],
    answering_call: Node | None,
) -> StepEffects:
    """Find out what steps and retrievers did to the retrieved documents.

    It tells three things: what each reranker and filter before the answer kept, what
    each retriever kept of what searches inside it found, and which step may have
    rewritten which retrieved document.

    Args:
        changes: What the steps of the run made of their documents.
        calls: The calls of the run.
        retrieved: The retrieved documents.
        answering_call: The call that wrote the answer; None if it is unknown.
    """
    step_effects = []
    for step in _steps_before_answer(changes, calls, answering_call):
        taken = match_documents(retrieved, step.taken)
        returned = match_documents(retrieved, step.change.returned)
        step_effects.append(_step_effect(step, retrieved, taken, returned))

    retriever_effects = []
    for retriever, found_inside in _found_inside_retrievers(calls).items():
        matched = match_documents(found_inside, retriever.documents or ())
        retriever_effects.append(_retriever_effect(retriever, matched))

    # For the index of a retrieved document, the name of the first step that may have
    # rewritten it: the step dropped it and returned other documents.
    writer_by_index: dict[int, str] = {}
    steps_with_documents = set(calls.steps_with_documents)
    for change in changes:
        is_writer = change.replaces_documents and change.node in steps_with_documents
        if not is_writer:
            continue
        dropped = match_documents(retrieved, change.dropped)
        # for each retrieved document the key of the dropped document that equals it
        for index, dropped_key in enumerate(dropped.later_keys):
            if dropped_key is not None:
                writer_by_index.setdefault(index, change.node.name)
    return StepEffects(tuple(step_effects), tuple(retriever_effects), writer_by_index)


@dataclass(frozen=True)
class _StepBeforeAnswer:
    """A reranker or filter between the searches and the answer.

    Attributes:
        change: What it made of its documents.
        taken: The documents that it was given; where nobody recorded these, all that
            was found before it.
    """

    change: DocumentChange
    taken: tuple[Document, ...]


def _steps_before_answer(
    changes: Sequence[DocumentChange], calls: Calls, answering_call: Node | None
) -> list[_StepBeforeAnswer]:
    """List the rerankers and filters that ended before the answering call began.

    Args:
        changes: For each step of the run the documents that it was given and those that
            it returned, in the order of the steps.
        calls: The calls of the run.
        answering_call: The call that wrote the answer; None if it is unknown. Then all
            rerankers and filters count.
    """
    steps: list[_StepBeforeAnswer] = []
    for change in changes:
        node = change.node
        is_reranker = node.kind == "reranker" and node.documents is not None
        if not is_reranker and not change.is_filter:
            continue
        if answering_call is not None and end_of(node) > answering_call.began:
            continue
        callers = calls.paths[node][:-1]
        if any(caller.kind == "retriever" for caller in callers):
            continue  # the retriever around it tells what it returned
        if node in calls.retrievals:
            continue  # it counts as a search itself, which found its documents
        taken = change.taken or _documents_found_before(node, calls)
        steps.append(_StepBeforeAnswer(change, taken))
    return steps


def _documents_found_before(node: Node, calls: Calls) -> tuple[Document, ...]:
    """List all documents that searches found before a step began."""
    found: list[Document] = []
    for search, documents in calls.retrievals.items():
        if end_of(search) <= node.began:
            found += documents
    return tuple(found)


def _step_effect(
    step: _StepBeforeAnswer,
    retrieved: Sequence[Document],
    taken: MatchedDocuments,
    returned: MatchedDocuments,
) -> StepEffect:
    """Say what a step did to the retrieved documents.

    Args:
        step: The step.
        retrieved: The retrieved documents.
        taken: Which document that the step took was made of which retrieved one.
        returned: Which document that it returned was made of which retrieved one.
    """
    change = step.change
    index_by_identity = {
        document.identity: index for index, document in enumerate(retrieved)
    }
    indexes_taken = _indexes_of(step.taken, taken, index_by_identity)
    indexes_returned = _indexes_of(change.returned, returned, index_by_identity)
    return StepEffect(
        change.node.name,
        change.node,
        frozenset(indexes_taken),
        tuple(indexes_returned),
        returns_unknown_texts=change.replaces_documents
        and bool(returned.unmatched_keys),
    )


def _indexes_of(
    documents: Sequence[Document],
    matched: MatchedDocuments,
    index_by_identity: Mapping[DocumentKey, int],
) -> list[int]:
    """Find the indexes that some documents have among the retrieved documents.

    Args:
        documents: Documents that a step took or returned.
        matched: For each retrieved document the key of the one among ``documents`` that
            was made of it, by the words that they share.
        index_by_identity: The indexes of the retrieved documents by their identities: a
            document keeps its identity as long as it keeps its id.

    Returns:
        The indexes, in the order of ``documents``.
    """
    identities = [document.identity for document in documents]
    if all(identity in index_by_identity for identity in identities):
        indexes = [index_by_identity[identity] for identity in identities]
        return list(dict.fromkeys(indexes))
    # the step changed texts and kept no ids, so that shared words tell
    keys = dict.fromkeys(document.key for document in documents)
    rank_by_key = {key: rank for rank, key in enumerate(keys)}
    ranks_and_indexes = []
    for retrieved_index, key in enumerate(matched.later_keys):
        if key is not None:
            ranks_and_indexes.append((rank_by_key[key], retrieved_index))
    return [index for _, index in sorted(ranks_and_indexes)]


def _retriever_effect(retriever: Node, matched: MatchedDocuments) -> RetrieverEffect:
    """Say what a retriever did to the documents that searches inside it found.

    Args:
        retriever: The retriever.
        matched: Which document that it returned was made of which found one.
    """
    rewritten_keys = frozenset(matched.unmatched_keys)
    n_dropped = 0 if rewritten_keys else matched.later_keys.count(None)
    return RetrieverEffect(retriever, n_dropped, rewritten_keys)


def _found_inside_retrievers(calls: Calls) -> dict[Node, list[Document]]:
    """List, for each retriever with searches inside it, the documents that these found.

    Such a retriever compresses documents, or fuses several lists.
    """
    found_by_retriever = {}
    for retriever in calls.retrievals:
        found_inside = _documents_of_inner_searches(retriever)
        if found_inside and retriever.documents is not None:
            found_by_retriever[retriever] = found_inside
    return found_by_retriever


def _documents_of_inner_searches(retriever: Node) -> list[Document]:
    """List the documents that retrievers inside a retriever found, each once."""
    documents: dict[str, Document] = {}
    for node in retriever.walk():
        if node is retriever or node.kind != "retriever":
            continue
        for document in node.documents or ():
            documents[document.own_id or document.text] = document
    return list(documents.values())
