"""Passages that a step widened after the search. Pure.

A search may compare single sentences, and a step behind it may then put the sentences
around each of them into the prompt, or a whole page for a chunk. The retrieved document
is given the wide text, here as in the ledger: a fact that stands in it was retrieved.
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
    """Return the retrieved documents, with longer texts where a step widened them.

    A step may replace a sentence by the page around it. The first document of a context
    gets the context's text if the context holds this document and has at least
    ``SHORTEST`` letters more than all its documents together.

    Args:
        retrieved: The documents, in their order; None where these are unknown.
        context_keys: For each document the key of the context that shows it; None if
            no context does.
        contexts: The contexts, each by the key of the document of which it was made.
    """
    if retrieved is None:
        return None
    indexes_by_key: dict[DocumentKey, list[int]] = {}
    for index, key in enumerate(context_keys):
        if key is not None:
            indexes_by_key.setdefault(key, []).append(index)
    widened = list(retrieved)
    for key, indexes in indexes_by_key.items():
        text = contexts[key].text
        context_letters = letters_of(text)
        n_letters_of_documents = 0
        for index in indexes:
            n_letters_of_documents += len(letters_of(retrieved[index].text))
        n_letters_added = len(context_letters) - n_letters_of_documents
        first_index = indexes[0]
        first = retrieved[first_index]
        holds_first = letters_of(first.text) in context_letters
        if n_letters_added >= SHORTEST and holds_first:
            widened[first_index] = replace(first, text=text)
    return tuple(widened)
