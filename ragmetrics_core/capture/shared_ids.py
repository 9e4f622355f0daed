"""Ids that stand for several documents of one run, as where two stores count from "0".

An id names a document only within its store. Two searches of one run may ask two
stores, and nobody tells which. So an id that was given to several texts names none of
them alone: its documents are told apart by id and text together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from ragmetrics_core.capture.passages import shares_a_passage_with_any
from ragmetrics_core.capture.tree import Document, Node


def mark_shared_ids(root: Node) -> None:
    """Mark the documents of a run whose id was given to several texts.

    Example: two stores both count from "0": the documents with the id "0" are marked.

    Args:
        root: The outermost call; the documents of all calls are changed.
    """
    nodes = list(root.walk())
    shared_ids = _ids_of_several_searches(root)
    for node in nodes:
        shared_ids.update(_ids_of_several_texts(node.input_documents))
        shared_ids.update(_ids_of_several_texts(node.documents or ()))
    if not shared_ids:
        return
    for node in nodes:
        node.input_documents = _marked(node.input_documents, shared_ids)
        if node.documents is not None:
            node.documents = _marked(node.documents, shared_ids)


def _ids_of_several_searches(root: Node) -> set[str]:
    """Find the ids that two searches gave to different texts.

    A search is not compared with the searches inside it: it may return what they found
    in other words.
    """
    shared_ids: set[str] = set()
    for searches in _searches_by_level(root):
        shared_ids.update(_ids_with_other_texts(searches))
    return shared_ids


def _searches_by_level(root: Node) -> Iterator[list[Node]]:
    """Yield the outermost searches of a run, then the searches inside each of them, and so on.

    Example: two searches at the top, and a search inside the first one: a list
    of these two and the documents that the run was handed (as if a tool returned them),
    then a list of the inner search.
    """
    around_root = Node("step", children=[root])
    handed_in = Node("tool", documents=root.input_documents)
    levels = [[*_searches_below(around_root), handed_in]]
    while levels:
        searches = levels.pop()
        yield searches
        for search in searches:
            searches_inside = list(_searches_below(search))
            if searches_inside:
                levels.append(searches_inside)


def _is_search(node: Node) -> bool:
    """Whether a call is a search that gave a list of documents."""
    return node.kind in ("retriever", "tool") and node.documents is not None


def _searches_below(node: Node) -> Iterator[Node]:
    """Yield the searches inside a call that are in no other search inside it."""
    for child in sorted(node.children, key=lambda child: child.began):
        if child.kind == "ignored":
            continue
        if _is_search(child):
            yield child
        else:
            yield from _searches_below(child)


def _ids_with_other_texts(searches: Sequence[Node]) -> set[str]:
    """Find the ids under which two different documents were found.

    Example: two vector stores both count from "0". One search found "0": "The bridge
    opened in 1874.", the other "0": "The ferry runs hourly.": the id "0" is shared.

    Args:
        searches: The searches in the order in which they began. None of them ran inside
            another one.
    """
    texts_by_id: dict[str, list[str]] = {}  # the texts found so far under each id
    shared_ids = set()
    for search in searches:
        for document in search.documents or ():
            if document.id is None:
                continue
            texts_before = texts_by_id.setdefault(document.id, [])
            # a tool may repeat an earlier document in other words
            if _is_other_document(document.text, texts_before, search):
                shared_ids.add(document.id)
            if document.text not in texts_before:
                texts_before.append(document.text)
    return shared_ids


def _is_other_document(text: str, texts_before: Sequence[str], search: Node) -> bool:
    """Whether a text that a search found is of another document than earlier texts.

    A tool, or a search that was given documents, may repeat in other words what was
    found before. Then its text must share no passage with the earlier texts.
    """
    if not texts_before or text in texts_before:
        return False
    may_repeat = search.kind == "tool" or bool(search.input_documents)
    return not may_repeat or not shares_a_passage_with_any(text, texts_before)


def _ids_of_several_texts(documents: Iterable[Document]) -> set[str]:
    """The ids that stand for different texts in one list."""
    text_by_id: dict[str, str] = {}
    shared_ids = set()
    for document in documents:
        if document.id is None:
            continue
        if text_by_id.setdefault(document.id, document.text) != document.text:
            shared_ids.add(document.id)
    return shared_ids


def _marked(
    documents: Sequence[Document], shared_ids: Collection[str]
) -> tuple[Document, ...]:
    """Documents; the ones with shared ids are marked."""
    marked_documents = []
    for document in documents:
        if document.id in shared_ids:
            document = replace(document, has_shared_id=True)
        marked_documents.append(document)
    return tuple(marked_documents)
