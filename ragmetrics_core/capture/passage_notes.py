"""What became of each retrieved document on its way to the model. Pure.

Each retrieved document has a note (``PassageNote``): which call found it at which rank,
whether a reranker or filter kept it, and which context shows how much of it. Say a
search finds A and B, a reranker drops B, and half of A stands in the prompt as the
first context. Then A was kept, its context is 0 and its share 0.5; B was dropped by
the reranker and has the share 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.calls import end_of
from ragmetrics_core.capture.origins import MatchedContexts
from ragmetrics_core.capture.prompt_contents import ShownToCall
from ragmetrics_core.capture.step_effects import (
    RetrieverEffect,
    StepEffect,
    StepEffects,
)
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
# Where the contexts come from prompts, a tool's text or the user, it is known what the
# model was shown of each document.
_SOURCES_THAT_TELL_WHAT_WAS_SHOWN = ("prompt", "undivided", "named")


@dataclass(frozen=True)
class Passages:
    """What became of all retrieved documents.

    Attributes:
        notes: A note for each document; None where it is unknown what was retrieved.
        dropped_inside: For the name of each retriever how many documents it dropped of
            those that searches inside it found.
        warnings: How many documents were not shown, and how many contexts were not
            retrieved.
    """

    notes: tuple[PassageNote, ...] | None
    dropped_inside: Mapping[str, int]
    warnings: tuple[str, ...] = ()


def passages_of(
    retrieved: Sequence[Document] | None,
    documents_by_search: Mapping[Node, Documents],
    effects: StepEffects,
    matched_contexts: MatchedContexts,
    rewriting_steps: Mapping[DocumentKey, str],
    contexts: Mapping[DocumentKey, Context],
    evidence_from: EvidenceFrom | None,
    shown: ShownToCall | None,
    *,
    has_passages_from_elsewhere: bool,
) -> Passages:
    """Note what became of each retrieved document between its search and the answer.

    Args:
        retrieved: The documents, as the sample lists them; None where that is unknown.
        documents_by_search: What each search brought, in the order of the calls.
        effects: What steps and retrievers did to the documents.
        matched_contexts: Which context shows which document.
        rewriting_steps: The names of the steps that rewrote contexts, each by the key
            of the context.
        contexts: The contexts, each by the key of the document of which it was made.
        evidence_from: What tells the contexts; None if there are none.
        shown: What the answering call was shown; None where no prompt says so.
        has_passages_from_elsewhere: Whether the prompt shows passages that no recorded
            search found. They may be retrieved ones that a function of the application
            rewrote.
    """
    n_dropped_by_name = _count_dropped_inside(effects.retrievers)
    if retrieved is None:
        return Passages(None, n_dropped_by_name)
    notes = _notes_of_searches_and_steps(retrieved, documents_by_search, effects.steps)
    notes = _add_rewriting_retrievers(notes, retrieved, effects.retrievers)
    if evidence_from in _SOURCES_THAT_TELL_WHAT_WAS_SHOWN:
        context_keys = matched_contexts.context_keys
        notes = _add_shown_parts(notes, retrieved, context_keys, contexts, shown)
        if rewriting_steps:
            notes = _add_rewriting_steps(notes, effects.writer_by_index)
        notes = _add_rewriting_steps_of_contexts(
            notes, matched_contexts, rewriting_steps
        )
        if has_passages_from_elsewhere:
            notes = [_without_share_if_not_shown(note) for note in notes]
        if shown is not None:
            notes = _drop_uncertain_shares(notes, retrieved, shown)
    if evidence_from == "none_found":
        # the framework says that no document reached the model
        notes = [note.model_copy(update={"share": 0.0}) for note in notes]
    warnings = _warnings_of_contexts(
        matched_contexts.unmatched_keys, rewriting_steps, len(contexts)
    )
    if evidence_from == "prompt":
        warnings = [*_warnings_of_hidden_documents(notes), *warnings]
    return Passages(tuple(notes), n_dropped_by_name, tuple(warnings))


def _warnings_of_hidden_documents(notes: Sequence[PassageNote]) -> list[str]:
    """Say how many retrieved documents the model was not shown.

    Nothing is said where it was shown none at all: the rules of the contexts say that.
    """
    hidden = [note for note in notes if note.share == 0.0]
    if not hidden or len(hidden) == len(notes):
        return []
    return [_HIDDEN.format(len(hidden), len(notes))]


def _warnings_of_contexts(
    unmatched_keys: Iterable[DocumentKey],
    rewriting_steps: Mapping[DocumentKey, str],
    n_contexts: int,
) -> list[str]:
    """Say how many contexts show no retrieved document in its own words.

    Args:
        unmatched_keys: The keys of the contexts that show no retrieved document.
        rewriting_steps: For the key of each context that a step rewrote the name of the
            step.
        n_contexts: How many contexts there are in all.
    """
    warnings = []
    if rewriting_steps:
        names = ", ".join(dict.fromkeys(rewriting_steps.values()))
        warnings.append(_WRITTEN_ANEW.format(names, len(rewriting_steps), n_contexts))
    keys_from_elsewhere = [key for key in unmatched_keys if key not in rewriting_steps]
    if keys_from_elsewhere:
        warnings.append(_FOREIGN.format(len(keys_from_elsewhere), n_contexts))
    return warnings


def _add_rewriting_steps(
    notes: Sequence[PassageNote], writer_by_index: Mapping[int, str]
) -> list[PassageNote]:
    """Name the step that may have rewritten a document which no context shows.

    Such a document may stand in the prompt in other words, so that its share becomes
    unknown.

    Args:
        notes: The notes so far, one for each retrieved document.
        writer_by_index: For the index of each document that a rewriting step took and
            did not return, the name of the step.
    """
    new_notes: list[PassageNote] = []
    for index, note in enumerate(notes):
        writer = writer_by_index.get(index)
        # a document that a reranker or filter is known to have dropped stays so
        is_known_as_dropped = note.kept is False
        if note.share == 0.0 and not is_known_as_dropped and writer is not None:
            update = {"share": None, "written_anew_by": writer}
            note = note.model_copy(update=update)
        new_notes.append(note)
    return new_notes


def _add_rewriting_steps_of_contexts(
    notes: Sequence[PassageNote],
    matched_contexts: MatchedContexts,
    rewriting_steps: Mapping[DocumentKey, str],
) -> list[PassageNote]:
    """Name the step that rewrote a document and kept its id.

    The document's context was then matched by the id alone. How much of the document
    the model was shown becomes unknown.

    Args:
        notes: The notes so far, one for each retrieved document.
        matched_contexts: Which context shows which document.
        rewriting_steps: The names of the steps that rewrote contexts, each by the key
            of the context.
    """
    new_notes: list[PassageNote] = []
    for note, key in zip(notes, matched_contexts.context_keys, strict=True):
        is_by_id_alone = key in matched_contexts.keys_matched_by_id_alone
        if key is not None and is_by_id_alone and key in rewriting_steps:
            update = {"share": None, "written_anew_by": rewriting_steps[key]}
            note = note.model_copy(update=update)
        new_notes.append(note)
    return new_notes


def _without_share_if_not_shown(note: PassageNote) -> PassageNote:
    """Make the share of a note unknown if it is 0 and no step dropped the document."""
    if note.share == 0.0 and note.kept is not False:
        return note.model_copy(update={"share": None})
    return note


def _drop_uncertain_shares(
    notes: Sequence[PassageNote], retrieved: Sequence[Document], shown: ShownToCall
) -> list[PassageNote]:
    """The notes, without the word "not shown" where the prompt holds a few words.

    These are the document's first words, or what a model wrote that was shown the
    document alone.

    Args:
        notes: The notes so far, one for each retrieved document.
        retrieved: The retrieved documents.
        shown: What the answering call was shown.
    """
    uncertain_keys = shown.keys_behind_notes | shown.keys_perhaps_cut
    return [
        _without_share_if_not_shown(note) if document.key in uncertain_keys else note
        for note, document in zip(notes, retrieved, strict=True)
    ]


def _notes_of_searches_and_steps(
    retrieved: Sequence[Document],
    documents_by_search: Mapping[Node, Documents],
    steps: Sequence[StepEffect],
) -> list[PassageNote]:
    """Note for each retrieved document which search found it and which step dropped it.

    Args:
        retrieved: The retrieved documents.
        documents_by_search: What each search returned.
        steps: The rerankers and filters, with the indexes of the documents that each
            took and returned.
    """
    search_by_document = _first_searches(documents_by_search)
    # steps whose output no other reranker or filter took
    last_steps = [step for step in steps if not _is_worked_on(step, steps)]
    notes: list[PassageNote] = []
    for index, document in enumerate(retrieved):
        search, rank = search_by_document.get(document.identity, (None, None))
        steps_that_took = [step for step in steps if index in step.indexes_taken]
        kept, rank_kept, dropped_by = _kept_by_steps(index, steps_that_took, last_steps)
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
    index: int, steps_that_took: Sequence[StepEffect], last_steps: Sequence[StepEffect]
) -> tuple[bool | None, int | None, str | None]:
    """Tell whether rerankers and filters kept one retrieved document.

    Args:
        index: The index of the document among the retrieved ones.
        steps_that_took: The steps that were given the document.
        last_steps: The steps whose output no other step took.

    Returns:
        Whether the document was kept, its rank among what the last step returned, and
        the name of the step that dropped it. What is not known is None.
    """
    if not steps_that_took:
        return None, None, None
    if any(index in step.indexes_returned for step in last_steps):
        if len(last_steps) > 1:  # several results have no common order
            return True, None, None
        rank_kept = last_steps[0].indexes_returned.index(index) + 1
        return True, rank_kept, None
    dropper = _first_that_dropped(index, steps_that_took)
    if dropper is None:
        # Each step that took the document returned it, but the last step did not get
        # it. So it was dropped between two steps, and no known step dropped it.
        return False, None, None
    if dropper.returns_unknown_texts:
        # one of these texts may be this document in other words
        return None, None, None
    return False, None, dropper.name


def _first_that_dropped(
    index: int, steps_that_took: Sequence[StepEffect]
) -> StepEffect | None:
    """Find the first step that took a document and did not return it.

    None if every step that took the document returned it.
    """
    for step in steps_that_took:
        if index not in step.indexes_returned:
            return step
    return None


def _add_shown_parts(
    notes: Sequence[PassageNote],
    retrieved: Sequence[Document],
    context_keys: Sequence[DocumentKey | None],
    contexts: Mapping[DocumentKey, Context],
    shown: ShownToCall | None,
) -> list[PassageNote]:
    """Add to each note which context shows its document, and how much of it.

    There are three outcomes:

    - no context shows the document: ``context`` is None, and ``share`` is 0;
    - a context was found in a prompt: ``context`` is its index, from 0, and ``share``
      is the part of the document that it shows;
    - a context was not found in a prompt, and is listed because the documents before
      and behind it in a list were: ``context`` is its index, and ``share`` is None.

    Args:
        notes: The notes so far, one for each retrieved document.
        retrieved: The retrieved documents.
        context_keys: For each document the key of the context that shows it; None if
            none does.
        contexts: The contexts, in the order of the prompt.
        shown: What was found in the prompts; None where the user named the contexts.
            Named contexts count as shown.
    """
    index_by_key = {key: index for index, key in enumerate(contexts)}
    new_notes: list[PassageNote] = []
    for note, document, key in zip(notes, retrieved, context_keys, strict=True):
        index: int | None = None
        share: float | None = 0.0
        if key is not None:
            index = index_by_key[key]
            is_in_prompt = shown is None or key in shown.shown_documents
            share = None
            if is_in_prompt:
                share = _share_shown(document, key, contexts[key], shown)
        update = {"context": index, "share": share}
        new_notes.append(note.model_copy(update=update))
    return new_notes


def _count_dropped_inside(retrievers: Iterable[RetrieverEffect]) -> dict[str, int]:
    """Count the documents that each retriever dropped of those found inside it, by its name."""
    n_dropped_by_name: dict[str, int] = {}
    for effect in retrievers:
        if effect.n_dropped:
            name = effect.retriever.name
            n_before = n_dropped_by_name.get(name, 0)
            n_dropped_by_name[name] = n_before + effect.n_dropped
    return n_dropped_by_name


def _add_rewriting_retrievers(
    notes: Sequence[PassageNote],
    retrieved: Sequence[Document],
    retrievers: Sequence[RetrieverEffect],
) -> list[PassageNote]:
    """Name the retriever that rewrote a document, in the notes of such documents."""
    new_notes = []
    for note, document in zip(notes, retrieved, strict=True):
        for effect in retrievers:
            if document.key in effect.rewritten_keys:
                update = {"written_anew_by": effect.retriever.name}
                note = note.model_copy(update=update)
        new_notes.append(note)
    return new_notes


def _is_worked_on(step: StepEffect, steps: Sequence[StepEffect]) -> bool:
    """Whether a later step took documents that a step returned.

    A later step that also took a document which the step had dropped does not count: it
    worked beside the step, on what the search had found.
    """
    indexes_dropped = step.indexes_taken.difference(step.indexes_returned)
    for later in steps:
        if later is step or later.node.began < end_of(step.node):
            continue
        took_its_documents = not later.indexes_taken.isdisjoint(step.indexes_returned)
        took_dropped_ones = not later.indexes_taken.isdisjoint(indexes_dropped)
        if took_its_documents and not took_dropped_ones:
            return True
    return False


def _first_searches(
    documents_by_search: Mapping[Node, Documents],
) -> dict[DocumentKey, tuple[str | None, int]]:
    """Find for each document the call that found it first.

    Returns:
        By the identity of a document the name of that call, None if it has none, and
        the document's rank there, from 1.
    """
    searches: dict[DocumentKey, tuple[str | None, int]] = {}
    for node, documents in documents_by_search.items():
        for rank, document in enumerate(documents, start=1):
            searches.setdefault(document.identity, (node.name or None, rank))
    return searches


def _share_shown(
    document: Document, key: DocumentKey, context: Context, shown: ShownToCall | None
) -> float:
    """Return the share of a document's letters that its context shows, from 0 to 1.

    A document without letters counts as shown whole.

    Args:
        document: The retrieved document.
        key: The key of the document of which the context was made.
        context: The context.
        shown: What was found in the prompts, by key; None where the user named the
            contexts.
    """
    if shown is not None and key == document.key:
        # the prompt shows this very document, and the share was measured there
        _, finding = shown.shown_documents[key]
        return 1.0 if finding.extent == "whole" else finding.coverage
    if document.text in context.text:
        return 1.0
    # A step cut or shortened the document, or the user named the context: the lengths
    # are compared.
    n_letters = sum(map(str.isalnum, document.text))
    if n_letters == 0:
        return 1.0
    n_shown = sum(map(str.isalnum, context.text))
    return min(1.0, n_shown / n_letters)
