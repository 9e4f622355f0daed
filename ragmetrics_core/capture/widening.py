"""Passages that a step widened after the search: a window around a sentence, a page for a chunk. Pure.

What was searched for is the small text, and what was found with it is the large one. So
the passage has the large text, among the retrieved documents as in the ledger: a fact
that stands in it was retrieved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ragmetrics_core.capture.letters import letters_of
from ragmetrics_core.capture.passages import SHORTEST
from ragmetrics_core.capture.tree import Document, DocumentKey
from ragmetrics_core.data import Context


def with_widened_texts(
    retrieved: Sequence[Document] | None,
    context_keys: Sequence[DocumentKey | None],
    contexts: Mapping[DocumentKey, Context],
) -> tuple[Document, ...] | None:
    """Return the retrieved documents, with the texts that a step widened them to.

    A document was widened if a context holds all of it and a passage that no document
    behind the same context holds. Of several documents behind one context the first
    has the text of the context.

    Args:
        retrieved: The documents, in their order; None where these are unknown.
        context_keys: For each document the key of the context that shows it; None if
            none does.
        contexts: The contexts, each by the key of the document of which it was made.
    """
    if retrieved is None:
        return None
    places_by_key: dict[DocumentKey, list[int]] = {}
    for place, key in enumerate(context_keys):
        if key is not None:
            places_by_key.setdefault(key, []).append(place)
    widened = list(retrieved)
    for key, places in places_by_key.items():
        text = contexts[key].text
        documents = [retrieved[place] for place in places]
        n_letters_of_documents = sum(
            len(letters_of(document.text)) for document in documents
        )
        adds_passage = len(letters_of(text)) >= n_letters_of_documents + SHORTEST
        first = documents[0]
        if adds_passage and letters_of(first.text) in letters_of(text):
            widened[places[0]] = replace(first, text=text)
    return tuple(widened)
