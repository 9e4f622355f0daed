"""Texts that a retriever's span records in a form of the application's own. Pure.

Frameworks record documents of their own classes. A retriever that was traced by hand
may return texts, objects with a text in them, or the answer of a vector store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ragmetrics_core.capture.tree import Document
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.traces.values import recorded_document

FORM_NOT_READ = (
    "a retriever's span holds what was found in a form that is not read; let it record a"
    " list of texts, or of objects with a field text, content or page_content"
)
# Fields of an object that hold its text, the first that is there.
_TEXT_FIELDS = (
    "text",
    "content",
    "page_content",
    "chunk",
    "passage",
    "body",
    "document",
)
# Fields of an object in which the object with the text stands: "payload" of Qdrant,
# "_source" of Elasticsearch, "metadata" of Pinecone.
_FIELDS_AROUND_TEXT = (
    "document",
    "node",
    "payload",
    "entity",
    "_source",
    "properties",
    "metadata",
)
# Fields of an answer in which the list of what was found stands.
_LIST_FIELDS = (
    "documents",
    "docs",
    "results",
    "matches",
    "hits",
    "points",
    "chunks",
    "passages",
    "nodes",
    "contexts",
    "sources",
    "data",
    "items",
    "output",
)
_ID_FIELDS = ("id", "_id", "doc_id", "document_id", "chunk_id")
_SCORE_FIELDS = ("score", "_score", "relevance_score", "similarity")
_INDEX_FIELDS = ("index", "document_index", "corpus_id")
_DEEPEST = 5  # lists and objects in each other that are looked into
_LOOKS_LIKE_CODE = lazy_pattern(
    r"\s*[\[{(<]|\w+\("
)  # a list or an object as Python shows it


def found_texts(output: object) -> tuple[Document, ...] | None:
    """Read what a retriever returned, in any usual form, as documents.

    Example: ``["It fell."]``, ``[{"text": "It fell."}]`` and ``{"matches": [{"metadata":
    {"text": "It fell."}}]}`` are one document. A single text is one document as well.

    Returns:
        The documents; () if nothing was found. None if the output cannot be read.
    """
    if isinstance(output, str):
        return _document_of_text(output)
    if not _holds_anything(output):
        return ()
    documents: list[Document] = []
    return tuple(documents) if _read_into(documents, output, _DEEPEST) else None


def documents_by_index(
    output: object, documents: tuple[Document, ...]
) -> tuple[Document, ...] | None:
    """Read what a reranker returned as indexes of the documents that it was given.

    Example: ``[2, 0]`` and ``{"results": [{"index": 2}, {"index": 0}]}`` are the third
    and the first document. Of three documents, ``[1, 0, 2]`` may be the scores as well:
    nobody knows.

    Returns:
        The documents; None if the output holds anything but indexes, or numbers that
        may be a score for each document.
    """
    elements = list(_elements_of(output) or ())
    indexes: list[int] = []
    for element in elements:
        index = _index_in(element)
        if index is None:
            return None
        indexes.append(index)
    are_distinct = len(set(indexes)) == len(indexes)
    if not indexes or not are_distinct or max(indexes) >= len(documents):
        return None
    # a bare number does not say that it is an index, as {"index": 2} does
    are_bare = not all(isinstance(element, Mapping) for element in elements)
    may_be_scores = are_bare and len(indexes) == len(documents)
    return None if may_be_scores else tuple(documents[index] for index in indexes)


def holds_only_numbers(output: object) -> bool:
    """Whether an output is a number, or holds nothing but numbers: no text, no id."""
    if isinstance(output, Mapping):
        output = tuple(output.values())
    if isinstance(output, (list, tuple)):
        return bool(output) and all(map(holds_only_numbers, output))
    return isinstance(output, (int, float))


def _document_of_text(text: str) -> tuple[Document, ...] | None:
    """Return a text as one document; None for a list or object that Python wrote."""
    if not text.strip():
        return ()
    return None if _LOOKS_LIKE_CODE.match(text) else (Document(text),)


def _holds_anything(value: object) -> bool:
    """Whether a value holds a text, a number or an object, at any depth."""
    if isinstance(value, Mapping):
        return any(map(_holds_anything, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_holds_anything, value))
    return value not in (None, "")


def _read_into(documents: list[Document], value: object, depth: int) -> bool:
    """Add the documents that a value holds; False where anything is no document.

    Args:
        documents: The documents so far, which grow.
        value: A list, an answer that holds a list, or what stands for one document.
        depth: How many lists and objects in each other are looked into.
    """
    if depth == 0:
        return False
    elements = _elements_of(value)
    if elements is not None:
        return all(_read_into(documents, element, depth - 1) for element in elements)
    document = _document_of(value)
    if document is None:
        return False
    documents.append(document)
    return True


def _elements_of(value: object) -> Iterable[Any] | None:
    """Return the elements of a list, or of the list in an answer; None for others.

    ``("It fell.", 0.8)`` is no list, but a text with its score.
    """
    if isinstance(value, (list, tuple)):
        return None if _is_text_with_score(value) else value
    if isinstance(value, Mapping) and _text_in(value) is None:
        for name in _LIST_FIELDS:
            inner = value.get(name)
            if isinstance(inner, (list, tuple)):
                return inner
            if isinstance(inner, Mapping) and _text_in(inner) is None:
                return _elements_of(inner)
    return None


def _is_text_with_score(value: list[Any] | tuple[Any, ...]) -> bool:
    """Whether a list is a text, and a number beside it."""
    if len(value) != 2:
        return False
    text, score = value
    is_score = isinstance(score, (int, float)) and not isinstance(score, bool)
    return isinstance(text, str) and is_score


def _document_of(value: object) -> Document | None:
    """Return the document that a value stands for; None if it stands for none.

    Example: "It is old.", ``["It is old.", .9]`` with a score, and ``{"id": "a",
    "text": "It is old."}`` are documents with the same text.
    """
    if isinstance(value, Document):
        return value
    if isinstance(value, str):
        return Document(value) if value.strip() else None
    if isinstance(value, (list, tuple)):  # a text with its score
        return recorded_document(value[0], score=value[1])
    if not isinstance(value, Mapping):
        return None
    text = _text_in(value)
    if text is None:
        return None
    name = _first_of(value, _ID_FIELDS)
    score = _first_of(value, _SCORE_FIELDS)
    return recorded_document(text, name, score, value.get("metadata"))


def _text_in(value: Mapping[str, Any]) -> str | None:
    """Return the text of an object, perhaps inside a further object; None without one."""
    for name in _TEXT_FIELDS:
        text = value.get(name)
        if isinstance(text, str) and text.strip():
            return text
    for name in _FIELDS_AROUND_TEXT:
        inner = value.get(name)
        if isinstance(inner, Document):
            return inner.text
        if isinstance(inner, Mapping):
            text = _text_in(inner)
            if text is not None:
                return text
    return None


def _index_in(value: object) -> int | None:
    """Return the index that a value is, or names in a field; None for any other value."""
    if isinstance(value, Mapping):
        value = _first_of(value, _INDEX_FIELDS)
    is_index = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_index and isinstance(value, int) else None


def _first_of(value: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return the first of some fields that holds anything; None if none does."""
    for name in names:
        if value.get(name) is not None:
            return value[name]
    return None
