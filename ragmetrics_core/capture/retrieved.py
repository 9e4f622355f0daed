"""What was retrieved for an answer, and what became of it. A part of stage 3.

Say a search finds passages A, B and C, a reranker drops C, and the prompt shows A.
Then all three were retrieved, and the notes say: A was shown, B was kept and not
shown, C was dropped by the reranker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ragmetrics_core.capture.answer import FoundAnswer
from ragmetrics_core.capture.call_results import CallResults
from ragmetrics_core.capture.calls import names_of
from ragmetrics_core.capture.context_rules import Contexts
from ragmetrics_core.capture.origins import match_contexts
from ragmetrics_core.capture.passage_notes import Passages, passages_of
from ragmetrics_core.capture.prompt_contents import ShownToCall
from ragmetrics_core.capture.question import Turn
from ragmetrics_core.capture.rewriting import changes_of, rewriting_step_by_key
from ragmetrics_core.capture.step_effects import effects_of
from ragmetrics_core.capture.tree import DISTANCE_KEYS, Document, Node
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


def retrieved_of(
    turn: Turn,
    found_answer: FoundAnswer,
    contexts: Contexts,
    shown: ShownToCall | None,
    call_results: CallResults,
) -> Retrieved:
    """Find what was retrieved for an answer, and what became of it.

    Args:
        turn: The question, and the calls that were made for it.
        found_answer: The answer, and the call that wrote it.
        contexts: The contexts of the answer.
        shown: What the answering call was shown; None if that is not known, and where
            the user named the contexts, so that it does not matter.
        call_results: What the searches and tools of the turn returned.
    """
    context_by_key = contexts.by_key
    # what steps found that searched without the framework's knowledge
    by_step = call_results.documents_of_steps(context_by_key)
    # a context that the user named has a number as its key, and not a document's key
    shown_keys = () if contexts.evidence_from == "named" else contexts.keys
    documents = call_results.documents_retrieved(shown_keys, by_step)
    documents_by_search = {**turn.calls.retrievals, **by_step}

    # which context shows which document
    matched_contexts = match_contexts(documents or (), context_by_key)
    # A step may have rewritten a context that matches no document, or that matches one
    # by the id alone and has another text.
    keys_perhaps_rewritten = [
        *matched_contexts.unmatched_keys,
        *matched_contexts.keys_matched_by_id_alone,
    ]
    texts_perhaps_rewritten = {
        key: context_by_key[key].text for key in keys_perhaps_rewritten
    }
    changes = changes_of(turn.calls.nodes)
    rewriting_steps = rewriting_step_by_key(texts_perhaps_rewritten, changes)
    # what rerankers, filters and retrievers did to the documents
    effects = effects_of(
        changes, turn.calls, documents or (), found_answer.writing_call
    )
    passages = passages_of(
        documents,
        documents_by_search,
        effects,
        matched_contexts,
        rewriting_steps,
        context_by_key,
        contexts.evidence_from,
        shown,
        has_passages_from_elsewhere=contexts.n_from_elsewhere > 0,
    )
    warnings = list(passages.warnings)
    if _carry_a_distance(documents or contexts.items):
        warnings.append(_DISTANCE)
    return Retrieved(
        documents=with_widened_texts(
            documents, matched_contexts.context_keys, context_by_key
        ),
        by_step=by_step,
        sources=names_of(documents_by_search),
        passages=passages,
        warnings=tuple(warnings),
    )


def _carry_a_distance(carriers: Iterable[Document | Context]) -> bool:
    """Whether one of some documents or contexts has a distance in its metadata."""
    return any(
        not carrier.metadata.keys().isdisjoint(DISTANCE_KEYS) for carrier in carriers
    )
