"""What was retrieved for an answer, and what became of it. A part of stage 3.

Say a search finds passages A, B and C, a reranker drops C, and the prompt shows A.
Then all three were retrieved, and the notes say: A was shown, B was kept and not
shown, C was dropped by the reranker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.calls import names_of
from ragmetrics_core.capture.context_rules import AnsweredTurn, Contexts
from ragmetrics_core.capture.origins import MatchedContexts, match_contexts
from ragmetrics_core.capture.passage_notes import (
    DocumentRecord,
    Passages,
    passages_of,
)
from ragmetrics_core.capture.rewriting import changes_of, rewriting_step_by_key
from ragmetrics_core.capture.sibling_calls import (
    ShownToOtherCalls,
    shown_to_other_calls,
)
from ragmetrics_core.capture.step_effects import effects_of
from ragmetrics_core.capture.tree import DISTANCE_KEYS, Document, DocumentKey, Node
from ragmetrics_core.capture.widening import with_widened_texts
from ragmetrics_core.data import Context

_DISTANCE = (
    "documents carry a distance (lower is better); it is not taken as their score"
)


@dataclass(frozen=True, eq=False)
class Retrieved:
    """What was retrieved for an answer.

    Attributes:
        documents: The documents; None if it is unknown what was retrieved. A document
            that a step widened has the wide text.
        by_step: For each step that searched without the framework's knowledge the
            documents that it found.
        sources: Names of the calls that retrieved.
        passages: What became of each document.
        warnings: What the user should know of all these.
    """

    documents: tuple[Document, ...] | None
    by_step: Mapping[Node, tuple[Document, ...]]
    sources: tuple[str, ...]
    passages: Passages
    warnings: tuple[str, ...]


def retrieved_of(answered_turn: AnsweredTurn, contexts: Contexts) -> Retrieved:
    """Find the documents retrieved for an answer, and what became of each.

    Example: a search found A, B and C, a reranker dropped C, and the prompt holds A.
    Then A, B and C were retrieved; the passages say that A was shown, that B was kept
    but not shown, and that the reranker dropped C.

    Args:
        answered_turn: The turn, its answer, and what its searches and tools returned.
        contexts: The contexts of the sample.
    """
    call_results = answered_turn.call_results
    # A plain function of a graph may search, and nobody recorded it as a retriever:
    # for each such function the documents that it returned.
    by_step = call_results.documents_of_steps(
        contexts.by_document_key, answered_turn.found_answer.writing_call
    )
    documents_by_search = {**answered_turn.calls.retrievals, **by_step}
    # A, B and C; None if no call retrieved anything
    documents = call_results.documents_retrieved(_document_keys(contexts), by_step)
    # Which context shows A, what steps such as the reranker did to A, B and C, and the
    # like: the notes of the passages are read from it.
    document_record = _record_of(
        documents or (), documents_by_search, answered_turn, contexts
    )
    passages = passages_of(documents, document_record)
    if documents is not None:
        # Of "It fell." a step may have made "It opened in 1874. It fell.". The document
        # then gets this wider text.
        documents = with_widened_texts(
            documents,
            document_record.matched_contexts.context_keys,
            contexts.by_document_key,
            document_record.step_effects.documents_added,
        )
    warnings = list(passages.warnings)
    # metadata such as {"distance": 0.2} look like a score; but lower is better, so the
    # distance is not taken as one, and a warning says so
    if _carry_a_distance(documents or contexts.items):
        warnings.append(_DISTANCE)
    return Retrieved(
        documents=documents,
        by_step=by_step,
        sources=names_of(documents_by_search),
        passages=passages,
        warnings=tuple(warnings),
    )


def _record_of(
    documents: Sequence[Document],
    documents_by_search: Mapping[Node, tuple[Document, ...]],
    answered_turn: AnsweredTurn,
    contexts: Contexts,
) -> DocumentRecord:
    """Put together what a run tells of its retrieved documents.

    Example: the documents are A, B and C. The record says that a context shows A, that a
    reranker took all three and returned A and B, and which calls were shown B.
    """
    matched_contexts = match_contexts(documents, contexts.by_document_key)
    # what the prompt of the answering call shows; None if no prompt is known, or if the
    # user named other contexts than those of the prompt, by ``contexts_from="docs"``
    shown_to_call = answered_turn.shown_unless_named(contexts)
    # Each step handed on a list of documents. Which of these lists the prompt was written
    # from is seen by the texts that the prompt shows.
    texts_in_prompt = []
    if shown_to_call is not None:
        texts_in_prompt = [context.text for context in contexts.items]
    # what rerankers, filters and other steps dropped, added and rewrote
    changes = changes_of(answered_turn.calls.nodes, texts_in_prompt)
    answering_call = answered_turn.found_answer.writing_call
    texts_rewritten = _texts_rewritten(contexts, matched_contexts)
    return DocumentRecord(
        documents_by_search=documents_by_search,
        step_effects=effects_of(
            changes, answered_turn.calls, documents, answering_call
        ),
        matched_contexts=matched_contexts,
        rewriting_steps=rewriting_step_by_key(texts_rewritten, changes),
        contexts=contexts,
        shown_to_answering_call=shown_to_call,
        shown_to_other_calls=_shown_to_others(answered_turn, contexts),
    )


def _shown_to_others(
    answered_turn: AnsweredTurn, contexts: Contexts
) -> ShownToOtherCalls:
    """Return what other calls than the answering call were shown.

    It matters only where prompts tell the contexts: else nothing is returned.
    """
    if contexts.evidence_from != "prompt":
        return ShownToOtherCalls()
    return shown_to_other_calls(
        answered_turn.found_answer, answered_turn.calls, answered_turn.prompt_contents
    )


def _document_keys(contexts: Contexts) -> Sequence[DocumentKey]:
    """Return the keys of the documents behind some contexts.

    A context that the user named has a number as its key, and no known document.
    """
    return () if contexts.evidence_from == "named" else contexts.document_keys


def _texts_rewritten(
    contexts: Contexts, matched_contexts: MatchedContexts
) -> dict[DocumentKey, str]:
    """Return the texts of contexts that a step may have rewritten, by context key.

    Such a context matches no document, or matches it by the id alone.
    """
    context_by_key = contexts.by_document_key
    document_keys = [
        *matched_contexts.unmatched_keys,
        *matched_contexts.context_keys_matched_by_id_alone,
    ]
    return {
        document_key: context_by_key[document_key].text
        for document_key in document_keys
    }


def _carry_a_distance(carriers: Iterable[Document | Context]) -> bool:
    """Whether any of the documents or contexts has a distance in its metadata."""
    return any(
        not carrier.metadata.keys().isdisjoint(DISTANCE_KEYS) for carrier in carriers
    )
