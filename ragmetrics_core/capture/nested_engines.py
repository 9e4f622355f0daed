"""Query engines inside a retriever: the answer that an engine wrote was not found by a search.

LlamaIndex's ``RecursiveRetriever``, and every retriever whose nodes point to objects,
may ask a query engine instead of a store. The engine's answer then stands among the
documents of the retriever, often as "Query: …  Response: …". The evidence is what the
engine itself found.
"""

from collections.abc import Sequence
from dataclasses import replace

from ragmetrics_core.capture.tree import Document, Node

# A **frame** is what stands around an answer in a text, without the query: of
# "Query: …\nResponse: …" it is "Query: \nResponse: ". A page that quotes an answer has
# a longer frame. Letters:
LONGEST_FRAME = 32


def separate_engines(root: Node) -> None:
    """Take engines out of the retrievers that hand on their answers as documents.

    Such a retriever becomes a step around its engines and its search. The search keeps
    the documents that no engine wrote. Example: a retriever returned A, which it found,
    and "In 1874.", the answer of an engine inside it: the search found A alone. Without
    any such document the search is left out: it only chose among engines.

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
    """Return what stands around an answer in a text, without the query that it answers."""
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
    """Find the engine whose answer a document of a retriever is; None without one.

    An engine may repeat a text that was found inside the retriever. Such a document was
    written by none.
    """
    if document.text in found_inside:
        return None
    for engine in engines:
        if _is_answer_of(engine, document.text):
            return engine
    return None


def _is_answer_of(engine: Node, text: str) -> bool:
    """Whether a text is an engine's answer, with the query or with few words around it.

    A page that was found may hold the answer too, but does not repeat the query.
    """
    answer = (engine.text or "").strip()
    if answer not in text:
        return False
    query = engine.query or ""
    has_query = query != "" and query in text
    return has_query or len(frame_of(text, answer, query)) < LONGEST_FRAME


def _separate(
    retriever: Node, engines: Sequence[Node], authors: Sequence[Node | None]
) -> None:
    """Turn a retriever into a step around its engines and its search.

    Args:
        retriever: The retriever; it is changed. Each document is told its author.
        engines: The engines inside it.
        authors: For each document of the retriever the engine that wrote it; None for
            a document that was found.
    """
    documents = tuple(
        replace(document, author=author)
        for document, author in zip(retriever.documents or (), authors, strict=True)
    )
    search = _search_beside(retriever, documents, engines)
    retriever.kind = "step"
    retriever.query = None
    retriever.documents = documents
    retriever.children = [search, *engines]


def _search_beside(
    retriever: Node, documents: Sequence[Document], engines: Sequence[Node]
) -> Node:
    """Return a copy of a retriever without its engines and without what they wrote.

    The copy is ignored if nothing else was found.
    """
    found = tuple(document for document in documents if document.author is None)
    search = replace(retriever, documents=found)
    search.kind = "retriever" if found else "ignored"
    _remove_below(search, engines)
    return search


def _remove_below(node: Node, engines: Sequence[Node]) -> None:
    """Remove some engines from all calls below a call."""
    node.children = [child for child in node.children if child not in engines]
    for child in node.children:
        _remove_below(child, engines)
