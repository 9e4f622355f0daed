"""What became of each retrieved passage on its way to the model. Pure.

A part of the evidence: which call found the passage at which rank, whether a reranker
or filter handed it on, and which context shows how much of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.calls import Calls, Key, end_of
from ragmetrics_core.capture.origins import keys_that_show, keys_unexplained
from ragmetrics_core.capture.showings import Shown
from ragmetrics_core.capture.tree import Document, Node
from ragmetrics_core.data import Context, EvidenceFrom, PassageNote

Documents = tuple[Document, ...]
Name = tuple[str, ...]


_FOREIGN = (
    "{} of {} contexts are not among the retrieved documents: they came with the"
    " question, as a tool's text, or a step wrote them anew"
)
_HIDDEN = "{} of {} retrieved documents were not shown to the model"
_TOLD_BY = ("prompt", "undivided", "named")


@dataclass(frozen=True)
class Passages:
    """What became of all retrieved passages.

    Attributes:
        notes: What became of each; None where it is unknown what was retrieved.
        dropped_inside: How many were found inside a retriever that did not hand them
            on, by its name.
        warnings: How many were not shown, how many contexts were not retrieved.
    """

    notes: tuple[PassageNote, ...] | None
    dropped_inside: Mapping[str, int]
    warnings: tuple[str, ...] = ()


def passages_of(
    retrieved: Sequence[Document] | None,
    found: Mapping[Node, Documents],
    calls: Calls,
    answered_by: Node | None,
    contexts: Mapping[Key, Context],
    evidence_from: EvidenceFrom | None,
    shown: Shown | None,
) -> Passages:
    """Say what became of the retrieved documents between the searches and the answer.

    Args:
        retrieved: The documents, as the sample lists them; None where that is unknown.
        found: What each search brought, in the order of the calls.
        calls: The calls of the run.
        answered_by: The call that answered; what ran after it kept nothing from it.
        contexts: The contexts by the documents behind them.
        evidence_from: What tells the contexts.
        shown: What the answering call was shown; None where no prompt tells.
    """
    dropped = _count_dropped_inside(calls)
    if retrieved is None:
        return Passages(None, dropped)
    notes = _notes(retrieved, found, calls, answered_by)
    keys = keys_that_show(retrieved, contexts)
    warnings: list[str] = []
    n_hidden = keys.count(None)
    if evidence_from == "prompt" and 0 < n_hidden < len(retrieved):
        warnings.append(_HIDDEN.format(n_hidden, len(retrieved)))
    n_foreign = len(keys_unexplained(keys, retrieved, contexts))
    if n_foreign:
        warnings.append(_FOREIGN.format(n_foreign, len(contexts)))
    if evidence_from in _TOLD_BY:
        notes = _with_shown_parts(notes, retrieved, keys, contexts, shown)
    return Passages(tuple(notes), dropped, tuple(warnings))


def _notes(
    retrieved: Sequence[Document],
    found: Mapping[Node, Documents],
    calls: Calls,
    answered_by: Node | None,
) -> list[PassageNote]:
    """Who found each of the retrieved documents, and who kept or dropped it.

    A document that no reranker or filter took has ``kept=None``. It has a rank behind
    the last step only where there is one last step.
    """
    searches = _searches(found)
    steps = _steps_between(calls, retrieved, answered_by)
    last_steps = [step for step in steps if not _is_worked_on(step, steps)]
    handed_on = {place for step in last_steps for place in step.gave}
    notes: list[PassageNote] = []
    for place, document in enumerate(retrieved):
        search, rank = searches.get(_name_of(document), (None, None))
        took_it = [step for step in steps if place in step.took]
        is_kept = place in handed_on if took_it else None
        droppers = [step.name for step in took_it if place not in step.gave]
        rank_kept = None
        if is_kept and len(last_steps) == 1:
            rank_kept = last_steps[0].gave.index(place) + 1
        notes.append(
            PassageNote(
                retriever=search,
                rank=rank,
                kept=is_kept,
                rank_kept=rank_kept,
                dropped_by=droppers[0] if is_kept is False and droppers else None,
            )
        )
    return notes


def _with_shown_parts(
    notes: Sequence[PassageNote],
    retrieved: Sequence[Document],
    keys: Sequence[Key | None],
    contexts: Mapping[Key, Context],
    shown: Shown | None,
) -> list[PassageNote]:
    """Add to each note which context shows its document, and how much of it.

    The context is given by its place, from 0. There are three outcomes. No context
    shows the document: it has no place, and the share is 0. A context shows it: it has
    a place and a share. A context stands for it and the prompts do not tell whether it
    was shown: it has a place, and the share is None.

    Args:
        notes: The notes so far, one for each retrieved document.
        retrieved: The retrieved documents.
        keys: For each document the key of the context that shows it; None if none does.
        contexts: The contexts, in the order of the prompt.
        shown: What was located in the prompts; None where the user named the contexts.
            These count as shown.
    """
    places = {key: place for place, key in enumerate(contexts)}
    noted: list[PassageNote] = []
    for note, document, key in zip(notes, retrieved, keys, strict=True):
        place: int | None = None
        share: float | None = 0.0
        if key is not None:
            place = places[key]
            # a context may be there only because its neighbours in a list were shown
            is_told = shown is None or key in shown.found
            share = _share(document, key, contexts[key], shown) if is_told else None
        noted.append(note.model_copy(update={"context": place, "share": share}))
    return noted


def _count_dropped_inside(calls: Calls) -> dict[str, int]:
    """Count what searches inside a retriever found and the retriever did not hand on.

    By the retriever's name: one that compresses, or fuses several lists.
    """
    dropped: dict[str, int] = {}
    for outer in calls.retrievals:
        inner = [node for node in outer.walk() if node is not outer]
        found_inside = [
            document
            for node in inner
            if node.kind == "retriever"
            for document in node.documents or ()
        ]
        once = list(
            {
                document.id or document.text: document for document in found_inside
            }.values()
        )
        if not once or outer.documents is None:
            continue
        handed_on = {document.key: document.context() for document in outer.documents}
        n_dropped = keys_that_show(once, handed_on).count(None)
        if n_dropped:
            dropped[outer.name] = dropped.get(outer.name, 0) + n_dropped
    return dropped


@dataclass(frozen=True)
class _Step:
    """A reranker or filter, with the places of what it took and gave.

    Attributes:
        name: Its name.
        node: The call.
        took: Places, among the retrieved documents, of those that it was given.
        gave: Places of those that it returned, in its order.
    """

    name: str
    node: Node
    took: frozenset[int]
    gave: tuple[int, ...]


def _steps_between(
    calls: Calls, retrieved: Sequence[Document], answered_by: Node | None
) -> list[_Step]:
    """What by profession takes and gives documents, before the answer, in order.

    Of a plain step nobody knows whether it handed on what it does not name.
    """
    nodes = [
        node
        for node in calls.nodes
        if node.kind == "reranker"
        and node.documents is not None
        and (answered_by is None or end_of(node) <= answered_by.began)
        and node not in calls.retrievals
        and not any(around.kind == "retriever" for around in calls.paths[node][:-1])
    ]
    places = {_name_of(document): place for place, document in enumerate(retrieved)}
    steps: list[_Step] = []
    for node in sorted(nodes, key=end_of):
        taken_documents = node.taken or _there_before(node, calls)
        took = _places(taken_documents, retrieved, places)
        gave = _places(node.documents or (), retrieved, places)
        steps.append(_Step(node.name, node, frozenset(took), tuple(gave)))
    return steps


def _there_before(node: Node, calls: Calls) -> Documents:
    """All that was found before a step of which nobody recorded what it was given."""
    return tuple(
        document
        for search, documents in calls.retrievals.items()
        if end_of(search) <= node.began
        for document in documents
    )


def _is_worked_on(step: _Step, steps: Sequence[_Step]) -> bool:
    """Whether a later step took what this one gave.

    One that also took what this one had dropped stands beside it.
    """
    dropped = step.took.difference(step.gave)
    return any(
        not later.took.isdisjoint(step.gave) and later.took.isdisjoint(dropped)
        for later in steps
        if later is not step and later.node.began >= end_of(step.node)
    )


def _places(
    documents: Sequence[Document],
    retrieved: Sequence[Document],
    places: Mapping[Name, int],
) -> list[int]:
    """Places of documents among the retrieved, in the order of the documents.

    A text that a step changed and gave no id is sought by what it shares with them.
    """
    names = [_name_of(document) for document in documents]
    if all(name in places for name in names):
        return list(dict.fromkeys(places[name] for name in names))
    by_key = {document.key: document.context() for document in documents}
    order = {key: rank for rank, key in enumerate(by_key)}
    keys = keys_that_show(retrieved, by_key)
    ranked = [(order[key], place) for place, key in enumerate(keys) if key is not None]
    return [place for _, place in sorted(ranked)]


def _name_of(document: Document) -> Name:
    """What tells documents of a run apart: the id, else all that is known of one."""
    return ("id", document.id) if document.id is not None else document.key


def _searches(
    found: Mapping[Node, Documents],
) -> dict[Name, tuple[str | None, int | None]]:
    """By document the name of the call that found it first, and its rank there."""
    searches: dict[Name, tuple[str | None, int | None]] = {}
    for node, documents in found.items():
        for rank, document in enumerate(documents, start=1):
            searches.setdefault(_name_of(document), (node.name or None, rank))
    return searches


def _share(
    document: Document, key: Key, context: Context, shown: Shown | None
) -> float:
    """The share of a document's letters that its context shows, 0 to 1.

    It was measured where the document was located itself. Otherwise the context is a
    rework of the document, or the user named it: then the numbers of letters are
    compared. A document without letters counts as shown whole.
    """
    if shown is not None and key == document.key:
        _, showing = shown.found[key]
        return 1.0 if showing.extent == "whole" else showing.coverage
    if document.text in context.text:
        return 1.0
    n_letters = sum(map(str.isalnum, document.text))
    n_shown = sum(map(str.isalnum, context.text))
    return min(1.0, n_shown / n_letters) if n_letters else 1.0
