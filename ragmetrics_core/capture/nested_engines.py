"""Engines inside a retriever: what they wrote is no document that was found.

LlamaIndex's ``RecursiveRetriever``, and every retriever whose nodes point to objects,
may ask a query engine instead of a store. The engine's answer then stands among the
nodes of the retriever. What the engine itself found is the evidence.
"""

from collections.abc import Sequence
from dataclasses import replace

from ragmetrics_core.capture.tree import Document, Node

# Letters around an answer: "Query: …\nResponse: …" has fewer. A page that quotes an
# answer has more.
LONGEST_FRAME = 32


def separate_engines(root: Node) -> None:
    """Take engines out of the retrievers that hand on their answers as documents.

    Such a retriever becomes a step. Inside it stand the engines, with what they found,
    and beside them the search, with the documents that no engine wrote. A search that
    led to engines alone chose among them and found nothing: it is ignored, like the
    selector of a router.

    Args:
        root: The outermost call of a run; calls inside it are changed.
    """
    for child in root.children:
        separate_engines(child)
    if root.kind == "retriever" and root.documents:
        engines = _engines_inside(root)
        found_inside = _documents_found_inside(root)
        authors = [
            _engine_that_wrote(document, engines, found_inside)
            for document in root.documents
        ]
        if any(author is not None for author in authors):
            _separate(root, engines, authors)


def frame_of(text: str, answer: str, query: str | None) -> str:
    """What stands around an answer in a text, without the query that it answers."""
    frame = text.replace(answer, "")
    if query:
        frame = frame.replace(query, "")
    return frame


def _engines_inside(retriever: Node) -> list[Node]:
    """The outermost engines below a retriever that answered, in the order in which they began."""
    engines: list[Node] = []
    for child in retriever.children:
        if child.kind == "agent":
            engines.append(child)
        else:
            engines += _engines_inside(child)
    answered = [engine for engine in engines if (engine.text or "").strip()]
    return sorted(answered, key=lambda engine: engine.began)


def _documents_found_inside(retriever: Node) -> set[str]:
    """The texts of the documents that searches below a retriever found.

    An engine may repeat one of them word for word.
    """
    return {
        document.text
        for node in retriever.walk()
        if node is not retriever and node.kind == "retriever"
        for document in node.documents or ()
    }


def _engine_that_wrote(
    document: Document, engines: Sequence[Node], found_inside: set[str]
) -> Node | None:
    """The engine whose answer a document is, perhaps in a frame; None if it was found."""
    if document.text in found_inside:
        return None
    for engine in engines:
        answer = (engine.text or "").strip()
        if answer not in document.text:
            continue
        query = engine.query or ""
        repeats_the_query = query != "" and query in document.text
        frame = frame_of(document.text, answer, query)
        if repeats_the_query or len(frame) < LONGEST_FRAME:
            return engine
    return None


def _separate(
    retriever: Node, engines: Sequence[Node], authors: Sequence[Node | None]
) -> None:
    """Make a retriever a step that holds its engines and, beside them, its search.

    Args:
        retriever: The retriever; it keeps its documents, with their authors.
        engines: The engines inside it.
        authors: The engine that wrote each of its documents; None for one that was
            found.
    """
    documents = tuple(
        replace(document, author=author)
        for document, author in zip(retriever.documents or (), authors, strict=True)
    )
    found = tuple(document for document in documents if document.author is None)
    search = replace(retriever, documents=found)
    search.kind = "retriever" if found else "ignored"
    _remove_below(search, engines)
    retriever.kind = "step"
    retriever.query = None
    retriever.documents = documents
    retriever.children = [search, *engines]


def _remove_below(node: Node, engines: Sequence[Node]) -> None:
    """Remove some engines from all calls below a call."""
    node.children = [child for child in node.children if child not in engines]
    for child in node.children:
        _remove_below(child, engines)
