"""What models of a run wrote, as against what was found and only quotes it. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ragmetrics_core.capture.letters import stream
from ragmetrics_core.capture.nested_engines import (
    LONGEST_FRAME,
    frame_of,
    separate_engines,
)
from ragmetrics_core.capture.passages import share_a_passage
from ragmetrics_core.capture.tree import Document, Node

LEAST = 32  # letters of a reply that another text repeats by no chance
_MOST_OF_IT = 0.5


@dataclass(frozen=True, eq=False)
class OwnWords:
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
    _known: dict[tuple[str, int], bool] = field(default_factory=dict)

    def hold(self, text: str, before: float) -> bool:
        """Whether a document's text is a model's reply in a frame: "Sub question: …  Response: …".

        A text that was found, or cut from what was found, is no model's, whatever it
        quotes. Neither is a page of which a model's sentence is only a small part: a
        web page that repeats the rewritten question (LangGraph's CRAG).

        Args:
            text: The text of a document.
            before: When it was there; later replies do not count.
        """
        until = sum(ended <= before for ended, _ in self._replies)
        if not until:
            return False
        if (text, until) not in self._known:
            self._known[text, until] = self._is_framed_reply(text, until)
        return self._known[text, until]

    def _is_framed_reply(self, text: str, until: int) -> bool:
        """Whether a text is a model's reply, alone or in a frame of queries.

        Args:
            text: The text of a document.
            until: How many replies were there, the earliest first.
        """
        if text in self.originals:
            return False
        host = stream(text)
        replies = [reply for _, reply in self._replies[:until] if reply in host]
        if not replies:
            return False
        own = [*replies, *(query for query in self._asked if query in host)]
        if _count_covered_bytes(host, own) < _MOST_OF_IT * len(host):
            return False
        # a reply may quote what was found; the frame around it does not
        frame = _remove_parts(host, own)
        return not any(
            host in original or share_a_passage(frame, original)
            for original in self._originals
        )

    @cached_property
    def _replies(self) -> list[tuple[float, bytes]]:
        """The replies that are long enough, as streams, the earliest first."""
        long_ones = [
            (ended, stream(reply))
            for ended, reply in self.replies
            if len(reply) >= LEAST
        ]
        return sorted((ended, reply) for ended, reply in long_ones if reply)

    @cached_property
    def _asked(self) -> list[bytes]:
        """The queries and questions that are long enough, as streams."""
        return [words for words in map(stream, _long_enough(self.asked)) if words]

    @cached_property
    def _originals(self) -> list[bytes]:
        """The texts that were found, as streams."""
        return [words for words in map(stream, self.originals) if words]


def _long_enough(texts: Iterable[str]) -> Iterator[str]:
    return (text for text in dict.fromkeys(texts) if len(text) >= LEAST)


def _count_covered_bytes(host: bytes, parts: Iterable[bytes]) -> int:
    """How many bytes of a text some parts of it cover together."""
    return len(host) - len(_remove_parts(host, parts))


def _remove_parts(host: bytes, parts: Iterable[bytes]) -> bytes:
    """A text without some parts of it, which may overlap; each is taken out once."""
    covered = bytearray(len(host))
    for part in parts:
        start = host.find(part)
        covered[start : start + len(part)] = b"\1" * len(part)
    return bytes(
        byte for byte, is_covered in zip(host, covered, strict=True) if not is_covered
    )


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
    answers = {
        node: (node.text or "").strip()
        for node in nodes[1:]
        if node.kind in ("agent", "step")
    }
    answers = {node: text for node, text in answers.items() if text}
    if not answers:
        return
    found = _documents_found(nodes)
    originals = _Originals(
        frozenset(document.id for document in found if document.id is not None),
        frozenset(document.text for document in found),
    )
    for node in nodes:
        if node.kind == "tool" and node.text:
            node.taken = _documents_handed_on(node, answers)
            continue
        earlier = [
            answering for answering in answers if (answering.ended or 0) < node.began
        ]
        node.taken = tuple(
            replace(document, author=_author(document, earlier, answers, originals))
            for document in node.taken
        )
    hand_on_authors([root])


def _documents_found(nodes: Sequence[Node]) -> list[Document]:
    """The documents of retrievers and rerankers, without what engines wrote.

    A reranker hands on what a retriever took from an engine.
    """
    written_keys = {
        document.key
        for node in nodes
        for document in node.documents or ()
        if document.author is not None
    }
    return [
        document
        for node in nodes
        if node.kind in ("retriever", "reranker")
        for document in node.documents or ()
        if document.key not in written_keys
    ]


def hand_on_authors(roots: Sequence[Node]) -> None:
    """Write the authors of documents into other runs that were handed the documents.

    An application may call the reranker of what a retriever took from an engine as a
    run of its own.

    Args:
        roots: The outermost calls of runs of one turn; documents of their calls are
            changed.
    """
    nodes = [node for root in roots for node in root.walk()]
    author_by_key = {
        document.key: document.author
        for node in nodes
        for document in node.documents or ()
        if document.author is not None
    }
    for node in nodes if author_by_key else ():
        node.taken = _with_authors(node.taken, author_by_key)
        if node.documents is not None:
            node.documents = _with_authors(node.documents, author_by_key)


def _with_authors(
    documents: Sequence[Document], author_by_key: Mapping[tuple[str, ...], Node | None]
) -> tuple[Document, ...]:
    """Documents with their authors; those without one in the mapping stay as they are."""
    return tuple(
        replace(document, author=author_by_key.get(document.key, document.author))
        for document in documents
    )


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
    return tuple(
        Document(text, author=inner)
        for inner in tool.walk()
        if answers.get(inner) in lines
    )
