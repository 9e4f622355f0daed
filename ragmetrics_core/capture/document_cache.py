"""Equal documents that runs tell of again and again are copied once, and take memory once."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ragmetrics_core.capture.tree import Document

_MOST_RECENT = 1_000
_recent_documents: dict[Hashable, Document] = {}


def kept_once(key: Hashable, make_copy: Callable[[], Document]) -> Document:
    """Return the copy that a recent run made under a key, else a new one.

    Args:
        key: All that the copy is made of.
        make_copy: Makes it.
    """
    document = _recent_documents.get(key)
    if document is None:
        if len(_recent_documents) >= _MOST_RECENT:
            _recent_documents.clear()
        document = _recent_documents[key] = make_copy()
    return document
