"""Passages that a step widened after the search. Pure.

A search may compare single sentences, and a step after it may then put the sentences
around each of them into the prompt, or a whole page for a chunk. The retrieved document
is given the wide text, here as in the ledger: a fact that stands in it was retrieved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.origins import match_documents
from ragmetrics_core.capture.passages import SHORTEST
from ragmetrics_core.capture.tree import Document, DocumentKey
from ragmetrics_core.data import Context


def with_widened_texts(
    retrieved: Sequence[Document],
    context_keys: Sequence[DocumentKey | None],
    contexts: Mapping[DocumentKey, Context],
    documents_added: Iterable[Document],
) -> tuple[Document, ...]:
    """Return the retrieved documents, with longer texts where a step widened them.

    Example: a search found the sentence "It fell.", and a step put "It opened in 1874.
    It fell." in its place. The document gets this longer text: that of the context that
    shows it. If a reranker then dropped it, no context shows it, and the longer text is
    looked up among the documents that steps added: the year was retrieved all the same.

    Args:
        retrieved: The documents, in their order.
        context_keys: For each document the key of the context that shows it; None if
            no context does.
        contexts: The contexts of the prompt by their keys.
        documents_added: What steps before the answer put in the place of others.
    """
    keys_of_texts = list(context_keys)
    text_by_key = {key: context.text for key, context in contexts.items()}
    has_document_without_context = None in context_keys
    if has_document_without_context:
        added = _added_texts(documents_added, retrieved)
        # for each document the key of the added document that was made of it, or None
        added_keys = match_documents(retrieved, added).successor_keys
        keys_of_texts = [
            context_key or added_key
            for context_key, added_key in zip(context_keys, added_keys, strict=True)
        ]
        text_by_key = {document.key: document.text for document in added} | text_by_key
    return tuple(_with_wider_texts(retrieved, keys_of_texts, text_by_key))


def _with_wider_texts(
    documents: Sequence[Document],
    keys: Sequence[DocumentKey | None],
    text_by_key: Mapping[DocumentKey, str],
) -> list[Document]:
    """Return documents with longer texts that were made of them.

    A text may be made of several documents, such as two sentences of one paragraph. Then
    only the first of them gets the text.

    Args:
        documents: The documents.
        keys: For each document the key of the text made of it; None without one.
        text_by_key: The texts. One that is hardly longer than its documents is not used.
    """
    widened = list(documents)
    for key, indexes in _document_indexes_by_key(keys).items():
        text = text_by_key[key]
        if _is_wider(text, [documents[index] for index in indexes]):
            first_index = indexes[0]
            widened[first_index] = replace(documents[first_index], text=text)
    return widened


def _added_texts(
    documents_added: Iterable[Document], retrieved: Iterable[Document]
) -> list[Document]:
    """Return the documents that steps added, and whose texts no search found.

    The longest come first: of a window and the page around it, the page holds more.
    """
    texts_retrieved = {document.text for document in retrieved}
    longest_first = sorted(documents_added, key=lambda added: -len(added.text))
    return [
        document for document in longest_first if document.text not in texts_retrieved
    ]


def _document_indexes_by_key(
    keys: Sequence[DocumentKey | None],
) -> dict[DocumentKey, list[int]]:
    """Return the indexes at which each key stands: {k: [0, 2]} for (k, None, k)."""
    document_indexes_by_key: dict[DocumentKey, list[int]] = {}
    for index, key in enumerate(keys):
        if key is not None:
            document_indexes_by_key.setdefault(key, []).append(index)
    return document_indexes_by_key


def _is_wider(text: str, documents: Sequence[Document]) -> bool:
    """Whether a text holds the first of some documents, and more than all of them.

    It must have ``SHORTEST`` letters more at least. It may hold the document without its
    heading: "file: a.md, It opened in 1870. It fell." holds "file: a.md, It fell.".
    """
    if text == documents[0].text:  # as most steps hand documents on
        return False
    normalized = normalize_text(text)
    n_bytes = sum(len(normalize_text(document.text)) for document in documents)
    is_longer = len(normalized) - n_bytes >= SHORTEST
    return is_longer and any(
        normalize_text(own_text) in normalized for own_text in documents[0].own_texts
    )
