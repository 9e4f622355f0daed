"""Which documents a step of an application was given, brought and passed on. Pure.

A step is a node of a graph, a step of a workflow or a function in a chain. What it was
given and what it returned are plain values, such as ``{"documents": [A, B]}``.
"""

from collections.abc import Mapping
from typing import Any

from ragmetrics_core.capture.plain_values import documents_in
from ragmetrics_core.capture.tree import Document, DocumentKey, Node

# under which recorders put the value that a step was given, or returned
_WRAPPERS = ("outputs", "output", "inputs", "input")


def note_documents_of_step(node: Node, given: object, returned: object) -> None:
    """Write into a step's call which documents it brought, and which it passed on.

    Example: a step was given [A], and returned [A, B]: it passed A on, and brought B. A
    with another text or score counts as brought. A step that returned an empty list in
    the place of its documents dropped them all: its documents are ().

    Args:
        node: The call, with its ``documents_among_inputs``; it is changed.
        given: What the step was given.
        returned: What it returned.
    """
    identities_given = {_identity(document) for document in node.documents_among_inputs}
    documents = list(documents_in(returned))
    brought = [each for each in documents if _identity(each) not in identities_given]
    passed_on = [each for each in documents if _identity(each) in identities_given]
    # an empty list stands where it was given documents
    given_by_name, returned_by_name = _by_name(given), _by_name(returned)
    emptied = [
        given_by_name.get(name)
        for name, value in returned_by_name.items()
        if isinstance(value, (list, tuple)) and not value
    ]
    drops_all = not documents and any(any(documents_in(each)) for each in emptied)
    node.documents = tuple(brought) if brought or drops_all else None
    node.documents_passed_on = tuple(passed_on)
    n_lists = sum(any(documents_in(each)) for each in returned_by_name.values())
    node.sorts_documents = n_lists > 1


def note_what_was_left_out(node: Node) -> None:
    """Make a retriever that left out what retrievers inside it found a reranker.

    Example: a ``ContextualCompressionRetriever`` returns one of five documents. The
    search is the one that found five.
    """
    inside = [inner for child in node.children for inner in child.walk()]
    searches = [inner for inner in inside if inner.kind == "retriever"]
    kept_by_key: dict[DocumentKey, list[Document]] = {}
    for document in node.documents or ():
        kept_by_key.setdefault(document.key, []).append(document)
    for search in searches:
        for document in search.documents or ():
            if document not in kept_by_key.get(document.key, ()):
                node.kind = "reranker"


def _by_name(value: object) -> Mapping[Any, object]:
    """Return a value without what a recorder put around it; under "" if it has no names."""
    if not isinstance(value, Mapping):
        return {"": value}
    for name in _WRAPPERS:
        if name in value:
            return _by_name(value[name])
    return value


def _identity(document: Document) -> tuple[str | None, str, float | None]:
    """Return what must be equal for a document to count as passed on, not brought."""
    return document.id, document.text, document.score
