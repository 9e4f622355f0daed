"""Tells documents that a model of the run wrote from documents that were found. Pure.

A nested engine hands its answer on as a document: "Sub question: When did it open?
Response: In 1874." Such a document is no evidence. Its **author** is the call that wrote
the answer. A found page that quotes "In 1874." among its own words has no author.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ragmetrics_core.capture.tree import Document, DocumentKey, Node

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


def name_authors(root: Node) -> None:
    """Set the author of each input document that a nested engine or agent wrote.

    Example: a nested engine answers "In 1874.", and LlamaIndex gives the next call the
    document "Sub question: When did it open? Response: In 1874.". The author of this
    document is the engine.

    Args:
        root: The outermost call; the calls below it are changed.
    """
    separate_engines(root)  # moves engines out of retrievers, to be calls beside them
    nodes = list(root.walk())
    answer_by_call = _answers_of_nested_calls(nodes)
    if not answer_by_call:
        return
    found_documents = _documents_found(nodes)
    for node in nodes:
        if node.kind == "tool" and node.text:
            # A tool's text counts, not what it was given. In the place of its inputs
            # stand the answers of engines inside it that its text repeats.
            node.input_documents = _answers_handed_on(node, answer_by_call)
        else:
            node.input_documents = _inputs_with_authors(
                node, answer_by_call, found_documents
            )
    copy_authors([root])  # to other copies of the documents


def _inputs_with_authors(
    node: Node, answer_by_call: Mapping[Node, str], found_documents: _FoundDocuments
) -> tuple[Document, ...]:
    """Return the documents that a call was given, each with the call that wrote it.

    The author is a call that answered before; None for a document that was found.
    """
    earlier_answers = _answers_before(node, answer_by_call)
    with_authors = []
    for document in node.input_documents:
        author = _author(document, earlier_answers, found_documents)
        with_authors.append(replace(document, author=author))
    return tuple(with_authors)


def _answers_before(node: Node, answer_by_call: Mapping[Node, str]) -> dict[Node, str]:
    """Return the answers of the calls that ended before another call began.

    A call without an end counts as well: it has answered all the same.
    """
    earlier_answers: dict[Node, str] = {}
    for call, answer in answer_by_call.items():
        if call.ended is None or call.ended < node.began:
            earlier_answers[call] = answer
    return earlier_answers


def _answers_of_nested_calls(nodes: Sequence[Node]) -> dict[Node, str]:
    """Return the answers of agents and steps below the outermost call, by the call."""
    answers = {}
    for node in nodes[1:]:
        answer = (node.text or "").strip()
        if node.kind in ("agent", "step") and answer:
            answers[node] = answer
    return answers


def _documents_found(nodes: Sequence[Node]) -> _FoundDocuments:
    """Return the documents of retrievers and rerankers that no nested engine wrote.

    Example: a search found "It fell." with the id "a": the ids are {"a"}, the texts
    {"It fell."}. A retriever may ask an engine and return its answer as a document. Such
    documents have their author already, and are left out.
    """
    written_keys = set(_author_by_key(nodes))
    ids = set()
    texts = set()
    for node in nodes:
        if node.kind not in ("retriever", "reranker"):
            continue
        for document in node.documents or ():
            if document.key in written_keys:
                continue
            texts.add(document.text)
            if document.id is not None:
                ids.add(document.id)
    return _FoundDocuments(ids, texts)


def copy_authors(roots: Sequence[Node]) -> None:
    """Give all copies of a document the author that one copy has.

    A retriever may ask an engine and return its answer as a document. The application
    may then call a reranker with that document, as a run of its own.

    Args:
        roots: The outermost calls of runs of one turn; documents of their calls are
            changed.
    """
    nodes: list[Node] = []
    for root in roots:
        nodes += root.walk()
    author_by_key = _author_by_key(nodes)
    if not author_by_key:
        return
    for node in nodes:
        node.input_documents = _with_authors(node.input_documents, author_by_key)
        if node.documents is not None:
            node.documents = _with_authors(node.documents, author_by_key)


def _author_by_key(nodes: Iterable[Node]) -> dict[DocumentKey, Node]:
    """Return the authors of the documents that calls returned, by the document's key.

    Documents without an author are left out.
    """
    author_by_key = {}
    for node in nodes:
        for document in node.documents or ():
            if document.author is not None:
                author_by_key[document.key] = document.author
    return author_by_key


def _with_authors(
    documents: Sequence[Document], author_by_key: Mapping[DocumentKey, Node]
) -> tuple[Document, ...]:
    """Return documents with the authors of a mapping; other documents stay as they are."""
    with_authors = []
    for document in documents:
        author = author_by_key.get(document.key, document.author)
        with_authors.append(replace(document, author=author))
    return tuple(with_authors)


@dataclass(frozen=True)
class _FoundDocuments:
    """The documents that retrievers and rerankers returned, and no engine wrote.

    Attributes:
        ids: The ids of the documents.
        texts: Their texts.
    """

    ids: Collection[str]
    texts: Collection[str]

    def hold(self, document: Document) -> bool:
        """Return whether a document is one of them, by its id or its text."""
        has_their_id = document.id is not None and document.id in self.ids
        return has_their_id or document.text in self.texts


def _author(
    document: Document, answer_by_call: Mapping[Node, str], found: _FoundDocuments
) -> Node | None:
    """Return the first call whose answer a document's text is, alone or among few words.

    Example: the document "Response: In 1874." and the call that answered "In 1874.".

    Args:
        document: The document.
        answer_by_call: The answers that were there before the document.
        found: The documents that retrievers and rerankers returned: none of them has
            an author.
    """
    if found.hold(document):
        return None
    for call, answer in answer_by_call.items():
        if answer not in document.text:
            continue
        # a page may hold a found document, an answer and many words besides
        holds_found_text = any(text in document.text for text in found.texts)
        words_around_answer = frame_of(document.text, answer, call.query)
        if not holds_found_text or len(words_around_answer) < LONGEST_FRAME:
            return call
    return None


def _answers_handed_on(
    tool: Node, answer_by_call: Mapping[Node, str]
) -> tuple[Document, ...]:
    """Return the answers of engines inside a tool that it returned, as documents.

    Who reads the tool's text reads these answers. Example: an engine inside the tool
    answered "In 1874.", and the tool returned this as its text: the document "In 1874.",
    whose author is the engine. If the answer is only a line of the tool's text, the
    document is the whole text.

    Args:
        tool: The tool.
        answer_by_call: The answers of nested calls.
    """
    text = tool.text or ""
    lines = (text.strip(), *text.splitlines())
    documents = []
    for inner_call in tool.walk():
        if answer_by_call.get(inner_call) in lines:
            documents.append(Document(text, author=inner_call))
    return tuple(documents)
