"""What became of each retrieved passage on its way to the model. Pure.

A part of the evidence: which call found the passage at which rank, whether a reranker
or filter handed it on, and which context shows how much of it. A **passage** is one of
the retrieved documents; its place is its index among them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.calls import end_of
from ragmetrics_core.capture.origins import ContextOrigins
from ragmetrics_core.capture.prompt_contents import ShownToCall
from ragmetrics_core.capture.step_effects import HandingOn, StepEffect, StepEffects
from ragmetrics_core.capture.tree import Document, DocumentKey, Node
from ragmetrics_core.data import Context, EvidenceFrom, PassageNote

Documents = tuple[Document, ...]

_FOREIGN = (
    "{} of {} contexts are not among the retrieved documents: they came with the"
    " question, as a tool's text, or a step wrote them anew"
)
_WRITTEN_ANEW = (
    "{} wrote documents anew: {} of {} contexts are among these, and which of the"
    " retrieved documents they were made of is not known"
)
_HIDDEN = "{} of {} retrieved documents were not shown to the model"
# where contexts come from prompts or from the user, what they show of a passage is known
_SAYING_WHAT_WAS_SHOWN = ("prompt", "undivided", "named")


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
    documents_by_search: Mapping[Node, Documents],
    effects: StepEffects,
    origins: ContextOrigins,
    written_anew: Mapping[DocumentKey, str],
    contexts: Mapping[DocumentKey, Context],
    evidence_from: EvidenceFrom | None,
    shown: ShownToCall | None,
    *,
    has_passages_from_elsewhere: bool,
) -> Passages:
    """Say what became of the retrieved documents between the searches and the answer.

    Args:
        retrieved: The documents, as the sample lists them; None where that is unknown.
        documents_by_search: What each search brought, in the order of the calls.
        effects: What steps and retrievers made of the documents.
        origins: Which of the contexts show which of the documents.
        written_anew: The contexts that a step wrote anew, with the name of the step.
        contexts: The contexts, each by the key of the document of which it was made.
        evidence_from: Where the contexts were found; None if there are none.
        shown: What the answering call was shown; None where no prompt says so.
        has_passages_from_elsewhere: Whether the prompt shows passages beside the
            contexts that nothing recorded has found. They may be retrieved ones that a
            function of the application wrote anew.
    """
    n_dropped_by_name = _count_dropped_inside(effects.handings_on)
    if retrieved is None:
        return Passages(None, n_dropped_by_name)
    notes = _notes_of_searches_and_steps(retrieved, documents_by_search, effects.steps)
    notes = _add_retrievers_that_write(notes, retrieved, effects.handings_on)
    context_keys = origins.context_keys
    foreign_keys = origins.foreign_keys
    n_hidden = context_keys.count(None)
    if evidence_from in _SAYING_WHAT_WAS_SHOWN:
        notes = _add_shown_parts(notes, retrieved, context_keys, contexts, shown)
        if written_anew:
            notes = _add_writers(notes, effects.writer_by_place)
        notes = _add_writers_of_contexts(
            notes, context_keys, written_anew, origins.keys_by_id_alone
        )
        if has_passages_from_elsewhere:
            notes = [_without_share_if_not_shown(note) for note in notes]
        n_hidden = sum(note.share == 0.0 for note in notes)
    n_foreign = sum(key not in written_anew for key in foreign_keys)
    warnings: list[str] = []
    # where no passage is shown at all, that is said elsewhere
    if evidence_from == "prompt" and 0 < n_hidden < len(retrieved):
        warnings.append(_HIDDEN.format(n_hidden, len(retrieved)))
    warnings += _warnings_of_contexts(written_anew, n_foreign, len(contexts))
    return Passages(tuple(notes), n_dropped_by_name, tuple(warnings))


def _warnings_of_contexts(
    written_anew: Mapping[DocumentKey, str], n_foreign: int, n_contexts: int
) -> list[str]:
    """What the user should know of contexts that are none of the retrieved documents.

    Args:
        written_anew: The contexts that a step wrote anew, with its name.
        n_foreign: How many others there are.
        n_contexts: How many contexts there are in all.
    """
    warnings = []
    if written_anew:
        names = ", ".join(dict.fromkeys(written_anew.values()))
        warnings.append(_WRITTEN_ANEW.format(names, len(written_anew), n_contexts))
    if n_foreign:
        warnings.append(_FOREIGN.format(n_foreign, n_contexts))
    return warnings


def _add_writers(
    notes: Sequence[PassageNote], writer_by_place: Mapping[int, str]
) -> list[PassageNote]:
    """Say of each passage that seems not shown whether a step may have written it anew.

    It may if a step that writes documents anew took the passage and did not hand it on,
    and contexts of such a step were shown. What became of the passage is then not
    known.

    Args:
        notes: The notes so far, one for each retrieved document.
        writer_by_place: By the place of a passage the name of such a step.
    """
    notes_with_writers: list[PassageNote] = []
    for place, note in enumerate(notes):
        writer = writer_by_place.get(place)
        is_lost = note.share == 0.0 and note.kept is not False
        if is_lost and writer is not None:
            update = {"share": None, "written_anew_by": writer}
            note = note.model_copy(update=update)
        notes_with_writers.append(note)
    return notes_with_writers


def _add_writers_of_contexts(
    notes: Sequence[PassageNote],
    context_keys: Sequence[DocumentKey | None],
    written_anew: Mapping[DocumentKey, str],
    keys_by_id_alone: Collection[DocumentKey],
) -> list[PassageNote]:
    """Say of each passage whether the context of its id is written in other words.

    A step may keep the id and write the text anew. How much of the passage the model
    was shown is then not known, although the context stands for it.

    Args:
        notes: The notes so far, one for each retrieved document.
        context_keys: For each document the key of the context that shows it.
        written_anew: The contexts that a step wrote anew, with its name.
        keys_by_id_alone: The keys of contexts that have the id of a retrieved document,
            and no words of it.
    """
    notes_with_writers: list[PassageNote] = []
    for note, key in zip(notes, context_keys, strict=True):
        if key is not None and key in written_anew and key in keys_by_id_alone:
            update = {"share": None, "written_anew_by": written_anew[key]}
            note = note.model_copy(update=update)
        notes_with_writers.append(note)
    return notes_with_writers


def _without_share_if_not_shown(note: PassageNote) -> PassageNote:
    """The note of a passage that no step dropped, without the word that it was not shown."""
    if note.share == 0.0 and note.kept is not False:
        return note.model_copy(update={"share": None})
    return note


def _notes_of_searches_and_steps(
    retrieved: Sequence[Document],
    documents_by_search: Mapping[Node, Documents],
    steps: Sequence[StepEffect],
) -> list[PassageNote]:
    """Note for each retrieved document which search found it and which step dropped it.

    Args:
        retrieved: The retrieved documents.
        documents_by_search: What each search returned.
        steps: The rerankers and filters, with the places of the documents that each
            took and gave.
    """
    search_by_document = _first_searches(documents_by_search)
    # those whose output no other reranker or filter took
    last_steps = [step for step in steps if not _is_worked_on(step, steps)]
    notes: list[PassageNote] = []
    for place, document in enumerate(retrieved):
        search, rank = search_by_document.get(document.identity, (None, None))
        steps_that_took = [step for step in steps if place in step.took]
        kept, rank_kept, dropped_by = _kept_by_steps(place, steps_that_took, last_steps)
        notes.append(
            PassageNote(
                retriever=search,
                rank=rank,
                kept=kept,
                rank_kept=rank_kept,
                dropped_by=dropped_by,
            )
        )
    return notes


def _kept_by_steps(
    place: int, steps_that_took: Sequence[StepEffect], last_steps: Sequence[StepEffect]
) -> tuple[bool | None, int | None, str | None]:
    """Tell whether rerankers and filters kept one retrieved document.

    Args:
        place: The place of the document among the retrieved ones.
        steps_that_took: The steps that were given the document.
        last_steps: The steps whose output no other step took.

    Returns:
        Whether the document was kept, its rank among what the last step returned, and
        the name of the step that dropped it. What is not known is None.
    """
    if not steps_that_took:
        return None, None, None
    if any(place in step.gave for step in last_steps):
        if len(last_steps) > 1:  # several results have no common order
            return True, None, None
        rank_kept = last_steps[0].gave.index(place) + 1
        return True, rank_kept, None
    dropper = _first_that_dropped(place, steps_that_took)
    if dropper is None:
        return False, None, None
    if dropper.wrote_anew:
        # the document may live on in a text that the step wrote
        return None, None, None
    return False, None, dropper.name


def _first_that_dropped(
    place: int, steps_that_took: Sequence[StepEffect]
) -> StepEffect | None:
    """The first step that took a passage and did not give it.

    None if each that took it gave it: then a step beside them was the last.
    """
    droppers = (step for step in steps_that_took if place not in step.gave)
    return next(droppers, None)


def _add_shown_parts(
    notes: Sequence[PassageNote],
    retrieved: Sequence[Document],
    context_keys: Sequence[DocumentKey | None],
    contexts: Mapping[DocumentKey, Context],
    shown: ShownToCall | None,
) -> list[PassageNote]:
    """Add to each note which context shows its document, and how much of it.

    The context is given by its place, from 0. There are three outcomes. No context
    shows the document: it has no place, and the share is 0. A context shows it: it has
    a place and a share. A context stands for it and the prompts do not tell whether it
    was shown: it has a place, and the share is None.

    Args:
        notes: The notes so far, one for each retrieved document.
        retrieved: The retrieved documents.
        context_keys: For each document the key of the context that shows it; None if
            none does.
        contexts: The contexts, in the order of the prompt.
        shown: What was located in the prompts; None where the user named the contexts.
            These count as shown.
    """
    place_of_context = {key: place for place, key in enumerate(contexts)}
    notes_with_parts: list[PassageNote] = []
    for note, document, key in zip(notes, retrieved, context_keys, strict=True):
        place: int | None = None
        share: float | None = 0.0
        if key is not None:
            place = place_of_context[key]
            # a context may be there only because its neighbours in a list were shown
            is_located = shown is None or key in shown.shown_documents
            share = None
            if is_located:
                share = _share_shown(document, key, contexts[key], shown)
        update = {"context": place, "share": share}
        notes_with_parts.append(note.model_copy(update=update))
    return notes_with_parts


def _count_dropped_inside(handings_on: Iterable[HandingOn]) -> dict[str, int]:
    """By the name of a retriever, how much it dropped of what searches inside it found."""
    n_dropped_by_name: dict[str, int] = {}
    for handing_on in handings_on:
        if handing_on.n_dropped:
            name = handing_on.retriever.name
            n_before = n_dropped_by_name.get(name, 0)
            n_dropped_by_name[name] = n_before + handing_on.n_dropped
    return n_dropped_by_name


def _add_retrievers_that_write(
    notes: Sequence[PassageNote],
    retrieved: Sequence[Document],
    handings_on: Sequence[HandingOn],
) -> list[PassageNote]:
    """Say of each passage whether its retriever wrote it anew, of what was found inside."""
    notes_with_writers = []
    for note, document in zip(notes, retrieved, strict=True):
        for handing_on in handings_on:
            if document.key in handing_on.keys_written_anew:
                update = {"written_anew_by": handing_on.retriever.name}
                note = note.model_copy(update=update)
        notes_with_writers.append(note)
    return notes_with_writers


def _is_worked_on(step: StepEffect, steps: Sequence[StepEffect]) -> bool:
    """Whether a later step took what this one gave.

    One that also took what this one had dropped stands beside it.
    """
    dropped = step.took.difference(step.gave)
    for later in steps:
        if later is step or later.node.began < end_of(step.node):
            continue
        took_its_documents = not later.took.isdisjoint(step.gave)
        stands_beside = not later.took.isdisjoint(dropped)
        if took_its_documents and not stands_beside:
            return True
    return False


def _first_searches(
    documents_by_search: Mapping[Node, Documents],
) -> dict[DocumentKey, tuple[str | None, int]]:
    """By document the name of the call that found it first, and its rank there.

    The name is None if the call has none. Ranks count from 1.
    """
    searches: dict[DocumentKey, tuple[str | None, int]] = {}
    for node, documents in documents_by_search.items():
        for rank, document in enumerate(documents, start=1):
            searches.setdefault(document.identity, (node.name or None, rank))
    return searches


def _share_shown(
    document: Document, key: DocumentKey, context: Context, shown: ShownToCall | None
) -> float:
    """The share of a document's letters that its context shows, 0 to 1.

    It was measured where the document was located itself. Otherwise the context is a
    rework of the document, or the user named it: then the numbers of letters are
    compared. A document without letters counts as shown whole.
    """
    if shown is not None and key == document.key:
        _, showing = shown.shown_documents[key]
        return 1.0 if showing.extent == "whole" else showing.coverage
    if document.text in context.text:
        return 1.0
    n_letters = sum(map(str.isalnum, document.text))
    if n_letters == 0:
        return 1.0
    n_shown = sum(map(str.isalnum, context.text))
    return min(1.0, n_shown / n_letters)
