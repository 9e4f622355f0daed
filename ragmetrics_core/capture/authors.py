"""Tells documents that a model of the run wrote from documents that were found. Pure.

A nested engine hands its answer on as a document: "Sub question: When did it open?
Response: In 1874." Such a document is no evidence. Its **author** is the call that wrote
the answer. A found page that quotes "In 1874." among its own words has no author.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ragmetrics_core.capture.nested_engines import (
    LONGEST_FRAME,
    frame_of,
    separate_engines,
)
from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.passages import share_a_passage
from ragmetrics_core.capture.tree import Document, DocumentKey, Node

LEAST = 32  # letters of a reply that another text repeats by no chance
_MOST_OF_IT = 0.5


@dataclass(frozen=True, eq=False)
class ModelTexts:
    """The texts that the models of a run wrote, to recognise them in documents.

    A nested engine hands its answer on as a document, perhaps in a frame such as "Sub
    question: … Response: …". That is no evidence.

    Args:
        replies: The answers of models and nested engines, each with the moment of its
            end. Queries, verdicts and routes are left out: these steer the run.
        queries: Questions, queries and other texts that steer the run. A frame around a
            reply may repeat them.
        originals: The texts that were found: of documents that retrievers and tools
            returned, and of tools' results that no model wrote.
    """

    replies: Sequence[tuple[float, str]]
    queries: Sequence[str]
    originals: Collection[str]
    # by document text and by how many replies ended before it was there
    _is_reply_by_text: dict[tuple[str, int], bool] = field(default_factory=dict)

    def are_source_of(self, text: str, before: float) -> bool:
        """Return whether a document's text is a reply of a model, alone or in a frame.

        A text that was found, or cut from a text that was found, is no model's, even if
        it quotes a reply. A page is no model's either if a model's sentence is only a
        small part of the page, as where a web page repeats the rewritten question.

        Args:
            text: The text of a document.
            before: When the document was there; later replies do not count.
        """
        n_replies = bisect_right(self._ends_of_replies, before)
        if n_replies == 0:
            return False
        if (text, n_replies) not in self._is_reply_by_text:
            is_reply = self._is_framed_reply(text, n_replies)
            self._is_reply_by_text[text, n_replies] = is_reply
        return self._is_reply_by_text[text, n_replies]

    def _is_framed_reply(self, text: str, n_replies: int) -> bool:
        """Return whether a document's text is a model's reply, alone or in a frame.

        Replies and queries must make up most of it, as in "Answer: It opened in 1874."
        Neither the text nor its frame, here "Answer:", may come from a found text.

        Args:
            text: The text of a document.
            n_replies: How many of the run's replies were there before the document.
        """
        if text in self.originals:
            return False
        text_stream = normalize_text(text)
        frame = self._frame_around_replies(text_stream, n_replies)
        if frame is None:
            return False
        n_bytes_of_models = len(text_stream) - len(frame)
        if n_bytes_of_models < _MOST_OF_IT * len(text_stream):
            return False
        for original in self._original_streams:
            # Only the frame is compared by passages, since a reply may quote a source.
            if text_stream in original or share_a_passage(frame, original):
                return False
        return True

    def _frame_around_replies(self, text_stream: bytes, n_replies: int) -> bytes | None:
        """Return what is left of a text without the replies and queries that it holds.

        Example: of "Question: When? Answer: In 1874." with the query "When?" and the
        reply "In 1874.", the letters ``questionanswer`` are left.

        Args:
            text_stream: The letters and digits of the text, as bytes.
            n_replies: How many of the run's replies may stand in it, the earliest first.

        Returns:
            The words left, as such bytes; None if the text holds no reply.
        """
        earlier_replies = [reply for _, reply in self._reply_streams[:n_replies]]
        replies_inside = [reply for reply in earlier_replies if reply in text_stream]
        if not replies_inside:
            return None
        queries_inside = [
            query for query in self._query_streams if query in text_stream
        ]
        return _remove_parts(text_stream, [*replies_inside, *queries_inside])

    @cached_property
    def _reply_streams(self) -> list[tuple[float, bytes]]:
        """The replies that are long enough, as streams, the earliest first."""
        replies = []
        for ended, reply in self.replies:
            normalized = normalize_text(reply) if len(reply) >= LEAST else b""
            if normalized:
                replies.append((ended, normalized))
        return sorted(replies)

    @cached_property
    def _ends_of_replies(self) -> list[float]:
        """When the replies that are long enough ended, the earliest first."""
        return [ended for ended, _ in self._reply_streams]

    @cached_property
    def _query_streams(self) -> list[bytes]:
        """The queries and questions that are long enough, as streams, each once."""
        long_texts = [
            text for text in dict.fromkeys(self.queries) if len(text) >= LEAST
        ]
        return _streams_with_letters(long_texts)

    @cached_property
    def _original_streams(self) -> list[bytes]:
        """The texts that were found, as streams."""
        return _streams_with_letters(self.originals)


def _streams_with_letters(texts: Iterable[str]) -> list[bytes]:
    """Return the letters and digits of texts as bytes; texts without any are left out."""
    streams = [normalize_text(text) for text in texts]
    return [normalized for normalized in streams if normalized]


def _remove_parts(normalized: bytes, parts: Iterable[bytes]) -> bytes:
    """Return a text without some parts of it; the parts may overlap.

    Only the first occurrence of each part is removed. Example: "abcab" without "ab" and
    "bc" is "ab".
    """
    is_covered = bytearray(len(normalized))
    for part in parts:
        start = normalized.find(part)
        is_covered[start : start + len(part)] = b"\1" * len(part)
    bytes_with_cover = zip(normalized, is_covered, strict=True)
    return bytes(letter for letter, covered in bytes_with_cover if not covered)


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
