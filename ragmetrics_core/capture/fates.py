"""What became of each retrieved passage: one note a passage, for the journey. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ragmetrics_core.capture.evidence import Evidence, Fate
from ragmetrics_core.capture.forms import letters_of
from ragmetrics_core.capture.found import Found
from ragmetrics_core.capture.tree import Document, DocumentKey, Node
from ragmetrics_core.data import PassageNote


def notes_on_passages(
    found: Found, found_evidence: Evidence, retrieved: Sequence[Document] | None
) -> tuple[PassageNote, ...] | None:
    """Say what became of each retrieved passage; None if these are unknown.

    Example: a search found A, B and C, a reranker dropped C, and a context shows A. The
    notes say: A shown whole, B kept and not shown, C dropped by the reranker.

    Args:
        found: What the calls brought.
        found_evidence: The contexts, and the fate of each passage.
        retrieved: The retrieved documents; None if these are unknown.
    """
    if retrieved is None:
        return None
    identities = [found.identity(document) for document in retrieved]
    places = _places_of_contexts(found_evidence)
    notes = [
        _note(
            document,
            found_evidence.fates.get(identity),
            _place(identity, document, places),
            found_evidence,
        )
        for identity, document in zip(identities, retrieved, strict=True)
    ]
    return tuple(notes)


def _places_of_contexts(found_evidence: Evidence) -> dict[DocumentKey | str, int]:
    """Return the place of each context, by its identity and by its letters."""
    places: dict[DocumentKey | str, int] = {}
    contexts = found_evidence.contexts or ()
    pairs = zip(contexts, found_evidence.identities, strict=True)
    for place, (context, identity) in enumerate(pairs):
        places.setdefault(letters_of(context.text), place)
        if identity is not None:
            places.setdefault(identity, place)
    return places


def _place(
    identity: DocumentKey,
    document: Document,
    places: dict[DocumentKey | str, int],
) -> int | None:
    """Return the place of the context that shows a document; None without one."""
    place = places.get(identity)
    if place is None:
        place = places.get(letters_of(document.text))
    return place


def _note(
    document: Document,
    fate: Fate | None,
    place: int | None,
    found_evidence: Evidence,
) -> PassageNote:
    """Return the note on one retrieved passage."""
    if fate is None:
        return PassageNote(context=place)
    is_dropped = fate.dropped_by is not None and place is None
    return PassageNote(
        retriever=_name_of(fate.passage.found_by),
        rank=fate.passage.rank,
        kept=True if place is not None and fate.is_kept is False else fate.is_kept,
        rank_kept=fate.rank_kept,
        dropped_by=_name_of(fate.dropped_by) if is_dropped else None,
        context=place,
        share=_share(document, fate, place, found_evidence),
    )


def _name_of(call: Node | None) -> str | None:
    return None if call is None else call.name


def _share(
    document: Document, fate: Fate, place: int | None, found_evidence: Evidence
) -> float | None:
    """Return the share of a passage's letters that was shown; None if it is unknown."""
    if found_evidence.evidence_from not in ("prompt", "named"):
        is_seen = found_evidence.prompts is not None and fate.showing.extent == "not"
        return 0.0 if is_seen and place is None else None
    if place is None:
        return 0.0 if fate.showing.extent == "not" else None
    contexts = found_evidence.contexts or ()
    shown = letters_of(contexts[place].text)
    if any(letters_of(text) in shown for text in document.own_texts):
        return 1.0
    letters = letters_of(document.text_without_metadata)
    is_part = fate.showing.extent == "part" and bool(letters)
    return min(len(shown) / len(letters), 1.0) if is_part else None
