"""What steps and retrievers made of the retrieved passages between search and prompt. Pure.

All is found out once, as values that ``passage_notes`` reads. A **place** is the index
of a passage among the retrieved documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.calls import Calls, end_of
from ragmetrics_core.capture.origins import MatchedDocuments, explain
from ragmetrics_core.capture.rewriting import DocumentChange
from ragmetrics_core.capture.tree import Document, DocumentKey, Node


@dataclass(frozen=True)
class HandingOn:
    """What became, inside one retriever, of what searches inside it found.

    Attributes:
        retriever: The retriever.
        n_dropped: How many it did not hand on, if that is known; else 0.
        keys_written_anew: The keys of documents that it gave and no search inside it
            found. Where there are any, nobody knows what it dropped.
    """

    retriever: Node
    n_dropped: int
    keys_written_anew: frozenset[DocumentKey]


@dataclass(frozen=True)
class StepEffect:
    """A reranker or filter, with the places of what it took and gave.

    Attributes:
        name: Its name.
        node: The call.
        took: Places, among the retrieved documents, of those that it was given.
        gave: Places of those that it returned, in its order.
        wrote_anew: Whether it returned texts that it made of no retrieved document that
            is known.
    """

    name: str
    node: Node
    took: frozenset[int]
    gave: tuple[int, ...]
    wrote_anew: bool


@dataclass(frozen=True)
class StepEffects:
    """What became of the passages inside retrievers and in steps.

    Attributes:
        steps: The rerankers and filters between the searches and the answer.
        handings_on: What retrievers handed on of what searches inside them found.
        writer_by_place: By the place of a passage that a step which wrote documents
            anew did not hand on, the name of the first such step.
    """

    steps: tuple[StepEffect, ...]
    handings_on: tuple[HandingOn, ...]
    writer_by_place: Mapping[int, str]


def effects_of(
    changes: Sequence[DocumentChange],
    calls: Calls,
    retrieved: Sequence[Document],
    answered_by: Node | None,
) -> StepEffects:
    """Find out what became of the passages inside retrievers and in steps.

    Args:
        changes: What the steps of the run made of their documents.
        calls: The calls of the run.
        retrieved: The retrieved documents.
        answered_by: The call that answered; None if no call is known.
    """
    writers = [
        change
        for change in changes
        if change.replaces and change.node in calls.steps_with_documents
    ]
    steps = _steps_before_answer(changes, calls, answered_by)
    found_by_retriever = _found_inside_retrievers(calls)
    # here alone texts are compared
    of_writers = [explain(retrieved, writer.gone) for writer in writers]
    taken_by_steps = [explain(retrieved, step.taken) for step in steps]
    given_by_steps = [explain(retrieved, step.change.gave) for step in steps]
    of_retrievers = [
        explain(found_inside, retriever.documents or ())
        for retriever, found_inside in found_by_retriever.items()
    ]
    return StepEffects(
        steps=tuple(
            _step_effect(step, retrieved, taken, given)
            for step, taken, given in zip(
                steps, taken_by_steps, given_by_steps, strict=True
            )
        ),
        handings_on=tuple(
            _handing_on(retriever, explained)
            for retriever, explained in zip(
                found_by_retriever, of_retrievers, strict=True
            )
        ),
        writer_by_place=_writer_by_place(writers, of_writers),
    )


@dataclass(frozen=True)
class _StepBefore:
    """A reranker or filter between the searches and the answer.

    Attributes:
        change: What it made of its documents.
        taken: What it was given; all that was found before it where nobody recorded it.
    """

    change: DocumentChange
    taken: tuple[Document, ...]


def _steps_before_answer(
    changes: Sequence[DocumentChange], calls: Calls, answered_by: Node | None
) -> list[_StepBefore]:
    """The rerankers and filters between the searches and the answer, in their order.

    Of plain steps those count that are known to drop documents.
    """
    steps: list[_StepBefore] = []
    for change in changes:
        node = change.node
        is_reranker = node.kind == "reranker" and node.documents is not None
        is_too_late = answered_by is not None and end_of(node) > answered_by.began
        *around, _ = calls.paths[node]
        is_in_retriever = any(call.kind == "retriever" for call in around)
        is_search = node in calls.retrievals
        if not (is_reranker or change.is_filter):
            continue
        if is_too_late or is_in_retriever or is_search:
            continue
        taken = change.taken or _documents_found_before(node, calls)
        steps.append(_StepBefore(change, taken))
    return steps


def _documents_found_before(node: Node, calls: Calls) -> tuple[Document, ...]:
    """All that was found before a step of which nobody recorded what it was given."""
    found: list[Document] = []
    for search, documents in calls.retrievals.items():
        if end_of(search) <= node.began:
            found += documents
    return tuple(found)


def _step_effect(
    step: _StepBefore,
    retrieved: Sequence[Document],
    taken: MatchedDocuments,
    given: MatchedDocuments,
) -> StepEffect:
    """What a step did to the retrieved documents.

    Args:
        step: The step.
        retrieved: The retrieved documents.
        taken: Which of the documents that it took stand behind the retrieved ones.
        given: The same of the documents that it gave.
    """
    change = step.change
    place_by_identity = {
        document.identity: place for place, document in enumerate(retrieved)
    }
    return StepEffect(
        change.node.name,
        change.node,
        frozenset(_places(step.taken, taken, place_by_identity)),
        tuple(_places(change.gave, given, place_by_identity)),
        wrote_anew=change.replaces and bool(given.unexplained),
    )


def _places(
    documents: Sequence[Document],
    explained: MatchedDocuments,
    place_by_identity: Mapping[DocumentKey, int],
) -> list[int]:
    """Places of documents among the retrieved, in the order of the documents.

    Args:
        documents: Documents that a step took or gave.
        explained: Which of them stand behind the retrieved documents.
        place_by_identity: The places of the retrieved documents, by their identities.
    """
    identities = [document.identity for document in documents]
    if all(identity in place_by_identity for identity in identities):
        places = [place_by_identity[identity] for identity in identities]
        return list(dict.fromkeys(places))
    # a step that changed texts and kept no ids: they are known by what they share
    keys = dict.fromkeys(document.key for document in documents)
    rank_by_key = {key: rank for rank, key in enumerate(keys)}
    ranked_places = []
    for place, key in enumerate(explained.keys):
        if key is not None:
            ranked_places.append((rank_by_key[key], place))
    return [place for _, place in sorted(ranked_places)]


def _writer_by_place(
    writers: Sequence[DocumentChange], explanations: Sequence[MatchedDocuments]
) -> dict[int, str]:
    """By the place of a passage that was not handed on, the first step that wrote anew.

    Args:
        writers: The steps that wrote documents anew.
        explanations: For each of them, which of the documents that it did not hand on
            stand behind the retrieved ones.
    """
    writer_by_place: dict[int, str] = {}
    for writer, explained in zip(writers, explanations, strict=True):
        for place, key in enumerate(explained.keys):
            if key is not None:
                writer_by_place.setdefault(place, writer.node.name)
    return writer_by_place


def _handing_on(retriever: Node, explained: MatchedDocuments) -> HandingOn:
    """What became, inside a retriever, of what searches inside it found."""
    keys_anew = frozenset(explained.unexplained)
    n_dropped = 0 if keys_anew else explained.keys.count(None)
    return HandingOn(retriever, n_dropped, keys_anew)


def _found_inside_retrievers(calls: Calls) -> dict[Node, list[Document]]:
    """What searches inside retrievers found, by the retriever.

    Such a retriever compresses, or fuses several lists.
    """
    found_by_retriever = {}
    for retriever in calls.retrievals:
        found_inside = _documents_of_inner_searches(retriever)
        if found_inside and retriever.documents is not None:
            found_by_retriever[retriever] = found_inside
    return found_by_retriever


def _documents_of_inner_searches(retriever: Node) -> list[Document]:
    """What retrievers inside a retriever found, each document once."""
    documents: dict[str, Document] = {}
    for node in retriever.walk():
        if node is retriever or node.kind != "retriever":
            continue
        for document in node.documents or ():
            documents[document.own_id or document.text] = document
    return list(documents.values())
