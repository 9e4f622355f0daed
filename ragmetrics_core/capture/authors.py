"""What models of a run wrote, as against what was found and only quotes it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ragmetrics_core.capture.letters import letters_of
from ragmetrics_core.capture.nested_engines import (
    LONGEST_FRAME,
    frame_of,
    separate_engines,
)
from ragmetrics_core.capture.passages import share_a_passage
from ragmetrics_core.capture.tree import Document, DocumentKey, Node

LEAST = 32  # letters of a reply that another text repeats by no chance
_MOST_OF_IT = 0.5


@dataclass(frozen=True, eq=False)
class ModelTexts:
    """The **own words** of a run: what its models wrote, as against what was found.

    A nested engine hands its answer on as a document. That is no evidence, and here it
    is recognised.

    Args:
        replies: What models and nested engines answered, each with the moment of its
            end. Queries, verdicts and routes are none: these steer the run.
        asked: Questions, queries and other texts that steer. A frame around a reply may
            repeat them.
        originals: The texts that were found: of documents that retrievers and tools
            returned, and of tools' results that no model wrote.
    """

    replies: Sequence[tuple[float, str]]
    asked: Sequence[str]
    originals: Collection[str]
    _hold_by_text: dict[tuple[str, int], bool] = field(default_factory=dict)

    def hold(self, text: str, before: float) -> bool:
        """Whether a document's text is a model's reply in a frame: "Sub question: …  Response: …".

        A text that was found, or cut from what was found, is no model's, whatever it
        quotes. Neither is a page of which a model's sentence is only a small part: a
        web page that repeats the rewritten question (LangGraph's CRAG).

        Args:
            text: The text of a document.
            before: When it was there; later replies do not count.
        """
        n_replies = sum(ended <= before for ended, _ in self._reply_streams)
        if n_replies == 0:
            return False
        if (text, n_replies) not in self._hold_by_text:
            is_reply = self._is_framed_reply(text, n_replies)
            self._hold_by_text[text, n_replies] = is_reply
        return self._hold_by_text[text, n_replies]

    def _is_framed_reply(self, text: str, n_replies: int) -> bool:
        """Whether a document's text is a model's reply, alone or in a frame.

        The text must hold an earlier reply. Replies and queries must make up most of
        it. What is left of it without them is the frame. Neither the text nor the frame
        may come from a text that a search or tool returned (``originals``).

        Texts are compared as streams: their letters and digits alone, as bytes.

        Args:
            text: The text of a document.
            n_replies: How many of the run's replies were there before the document.
        """
        if text in self.originals:
            return False
        text_stream = letters_of(text)
        earlier_replies = [reply for _, reply in self._reply_streams[:n_replies]]
        replies_inside = [reply for reply in earlier_replies if reply in text_stream]
        if not replies_inside:
            return False
        queries_inside = [
            query for query in self._query_streams if query in text_stream
        ]
        frame = _remove_parts(text_stream, [*replies_inside, *queries_inside])
        n_bytes_of_models = len(text_stream) - len(frame)
        if n_bytes_of_models < _MOST_OF_IT * len(text_stream):
            return False
        for original in self._original_streams:
            # Only the frame is compared by passages, since a reply may quote a source.
            if text_stream in original or share_a_passage(frame, original):
                return False
        return True

    @cached_property
    def _reply_streams(self) -> list[tuple[float, bytes]]:
        """The replies that are long enough, as streams, the earliest first."""
        replies = []
        for ended, reply in self.replies:
            letters = letters_of(reply) if len(reply) >= LEAST else b""
            if letters:
                replies.append((ended, letters))
        return sorted(replies)

    @cached_property
    def _query_streams(self) -> list[bytes]:
        """The queries and questions that are long enough, as streams, each once."""
        long_texts = [text for text in dict.fromkeys(self.asked) if len(text) >= LEAST]
        return _streams_with_letters(long_texts)

    @cached_property
    def _original_streams(self) -> list[bytes]:
        """The texts that were found, as streams."""
        return _streams_with_letters(self.originals)


def _streams_with_letters(texts: Iterable[str]) -> list[bytes]:
    """The letters of some texts, without those that have none."""
    streams = [letters_of(text) for text in texts]
    return [letters for letters in streams if letters]


def _remove_parts(letters: bytes, parts: Iterable[bytes]) -> bytes:
    """A text without some parts of it, which may overlap; each is taken out once."""
    is_covered = bytearray(len(letters))
    for part in parts:
        start = letters.find(part)
        is_covered[start : start + len(part)] = b"\1" * len(part)
    marked_letters = zip(letters, is_covered, strict=True)
    return bytes(letter for letter, covered in marked_letters if not covered)


def name_authors(root: Node) -> None:
    """Write into documents which call of the run wrote them.

    LlamaIndex's engines for sub-questions and several steps hand on answers as nodes,
    with ids of their own, and so do retrievers that ask an engine. Another document
    that a retriever ever held has no author. What a tool hands on of answers inside it
    counts as taken by the tool.

    Args:
        root: The outermost call; its calls, and the documents taken by them, are
            changed.
    """
    separate_engines(root)
    nodes = list(root.walk())
    answers = _answers_inside(nodes)
    if not answers:
        return
    originals = _originals_of(nodes)
    for node in nodes:
        if node.kind == "tool" and node.text:
            node.input_documents = _documents_handed_on(node, answers)
            continue
        earlier = [call for call in answers if (call.ended or 0) < node.began]
        documents = []
        for document in node.input_documents:
            author = _author(document, earlier, answers, originals)
            documents.append(replace(document, author=author))
        node.input_documents = tuple(documents)
    hand_on_authors([root])


def _answers_inside(nodes: Sequence[Node]) -> dict[Node, str]:
    """What agents and steps below the outermost call answered, by the call."""
    answers = {}
    for node in nodes[1:]:
        answer = (node.text or "").strip()
        if node.kind in ("agent", "step") and answer:
            answers[node] = answer
    return answers


def _originals_of(nodes: Sequence[Node]) -> _Originals:
    """The documents of retrievers and rerankers, without what nested engines wrote.

    A retriever may ask an engine, and a reranker hands on what that wrote.
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
    return _Originals(ids, texts)


def hand_on_authors(roots: Sequence[Node]) -> None:
    """Write the authors of documents into other runs that were handed the documents.

    An application may call the reranker of what a retriever took from an engine as a
    run of its own.

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
    """The authors of the documents that some calls gave, by the document's key.

    Documents that no call of the run wrote are left out.
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
    """Documents with their authors; those without one in the mapping stay as they are."""
    with_authors = []
    for document in documents:
        author = author_by_key.get(document.key, document.author)
        with_authors.append(replace(document, author=author))
    return tuple(with_authors)


@dataclass(frozen=True)
class _Originals:
    """What retrievers and rerankers returned.

    Attributes:
        ids: The ids of the documents.
        texts: Their texts.
    """

    ids: Collection[str]
    texts: Collection[str]

    def hold(self, document: Document) -> bool:
        """Whether a document is one of them."""
        has_their_id = document.id is not None and document.id in self.ids
        return has_their_id or document.text in self.texts


def _author(
    document: Document,
    earlier: Iterable[Node],
    answers: Mapping[Node, str],
    originals: _Originals,
) -> Node | None:
    """The call that wrote a document's text; None if the document was found.

    It is the first of some earlier calls whose answer stands in the document, perhaps
    in a frame. A page that quotes a whole document as well must be no more than a short
    frame.
    """
    if originals.hold(document):
        return None
    for answering in earlier:
        if answers[answering] not in document.text:
            continue
        frame = frame_of(document.text, answers[answering], answering.query)
        # an answer may quote a whole document, and so may a page that holds the two
        quotes_one = any(text in document.text for text in originals.texts)
        if not quotes_one or len(frame) < LONGEST_FRAME:
            return answering
    return None


def _documents_handed_on(
    tool: Node, answers: Mapping[Node, str]
) -> tuple[Document, ...]:
    """What a tool hands on of the answers of engines inside it, perhaps among other words."""
    text = tool.text or ""
    lines = (text.strip(), *text.splitlines())
    documents = []
    for inner in tool.walk():
        if answers.get(inner) in lines:
            documents.append(Document(text, author=inner))
    return tuple(documents)
