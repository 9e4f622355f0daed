"""What the calls of a run brought: one list of passages, and who brought and kept them. Pure.

A **passage** is a document from the moment on when a first call brought it: a search, a
tool, a step, or the caller who handed it in. Later lists of documents hold it again,
perhaps in other words. No prompt is looked into here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ragmetrics_core.capture.calls import (
    LABEL,
    Calls,
    DocumentList,
    end_of,
)
from ragmetrics_core.capture.divided import divided
from ragmetrics_core.capture.doubts import Doubt
from ragmetrics_core.capture.forms import letters_of
from ragmetrics_core.capture.plain_values import parse_json, texts_in
from ragmetrics_core.capture.shown import SHORTEST
from ragmetrics_core.capture.tree import JOINED, Document, DocumentKey, Node

Kind = Literal["retrieval", "tool", "given", "written"]

_PIECE = SHORTEST // 2
_MOST_LOOKED_AT = 8
_MOST_LETTERS_BESIDE = 0.2  # of a document that only joins others


@dataclass(eq=False)
class Passage:
    """A document, from the call on that first brought it.

    Attributes:
        document: The document, as that call gave it.
        found_by: The call.
        rank: Its rank there, from 1.
        is_retrieved: Whether a search brought it, so that it is no mere version of
            another passage.
        versions: Its texts in lists of documents, each with the document.
    """

    document: Document
    found_by: Node
    rank: int
    is_retrieved: bool = True
    versions: dict[str, Document] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Brought:
    """What one call brought as evidence: a call of the ledger.

    Attributes:
        kind: "retrieval" for documents, "tool" for another tool's text, "given" for
            documents that were handed in, "written" for a text of a model.
        call: The call.
        documents: The documents; () for a text.
        text: The text of a tool.
        error: What the call failed with.
        is_widening: Whether the documents hold passages that were found before, and
            more, or were made of them: they were not retrieved.
        is_of_unknown_origin: Whether no call is known that brought the documents: the
            call was handed them. They count where they are contexts.
    """

    kind: Kind
    call: Node
    documents: tuple[Document, ...] = ()
    text: str | None = None
    error: str | None = None
    is_widening: bool = False
    is_of_unknown_origin: bool = False


class Found:
    """What the calls of a run brought.

    Attributes:
        calls: The calls of the run.
        passages: All passages, by identity, in the order in which they were brought.
        brought: What each call brought.
        lists: All lists of documents, without those that a model wrote, the earliest
            first.
        doubts: What is uncertain about them.
    """

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.passages: dict[DocumentKey, Passage] = {}
        self.brought: list[Brought] = []
        self.lists: list[DocumentList] = []
        self.doubts: list[Doubt] = []
        self._identity_of_text: dict[str, DocumentKey] = {}
        self._identities_by_letters: dict[str, DocumentKey] = {}
        self._passages_by_letters = _PassagesByLetters()
        self._shared_ids = _ids_of_several_texts(calls)
        self._written = _Written(calls)
        self._documents_from_nowhere: dict[Node, list[Document]] = {}
        self._read_lists()
        for call, documents in self._documents_from_nowhere.items():
            self.brought.append(
                Brought("given", call, tuple(documents), is_of_unknown_origin=True)
            )

    def identity(self, document: Document) -> DocumentKey:
        """Return what tells a document from others, whatever became of its text."""
        if document.text in self._identity_of_text:
            return self._identity_of_text[document.text]
        if document.id is not None and document.id not in self._shared_ids:
            return ("id", document.id)
        return document.key

    def retriever_around(self, call: Node) -> Node | None:
        """Return the outermost retriever around a search; None without one."""
        callers = self.calls.paths[call][:-1]
        return next((caller for caller in callers if caller.kind == "retriever"), None)

    def is_written(self, document: Document, moment: float) -> bool:
        """Whether a model of the run wrote a document that was there at a moment."""
        return self._written.holds(document, moment)

    # Reading the lists in their order

    def _read_lists(self) -> None:
        for each in self._all_lists():
            documents = tuple(
                document
                for document in each.documents
                if document.text.strip() and not self.is_written(document, each.moment)
            )
            is_in_search = self._is_in_search(each.call)
            if each.is_returned and self._is_search(each.call):
                self._doubt_imagined(each.call, documents)
                self._bring(
                    each.call, documents, "retrieval", is_listed=not is_in_search
                )
            elif each.is_returned and each.call.kind != "ignored":
                documents = self._read_step(each.call, documents, is_in_search)
            elif self._is_outermost(each.call):
                self._bring(each.call, self._new(documents), "given", is_listed=True)
            else:
                self._name_versions(documents)
            self.lists.append(
                DocumentList(each.moment, each.call, each.is_returned, documents)
            )
            for document in documents:
                self._note(document, each.call)
        self._add_failed_searches()

    def _doubt_imagined(self, search: Node, documents: Sequence[Document]) -> None:
        """Note a search that returned what a model inside it wrote of nothing found."""
        _, *inner_calls = search.walk()
        replies = {letters_of(inner.reply.text) for inner in inner_calls if inner.reply}
        if not replies:
            return
        originals = [
            letters_of(document.text)
            for inner in inner_calls
            for document in inner.documents or ()
        ]
        for document in documents:
            letters = letters_of(document.text)
            if letters in replies and not any(letters in each for each in originals):
                self.doubts.append(Doubt("changed_by_step", search.name))
                return

    def _all_lists(self) -> list[DocumentList]:
        """Return the lists of the calls, and the passages of the tools that the user named."""
        lists = list(self.calls.lists)
        for tool in self.calls.named_tools:
            documents = divided(tool.text or "", tool.result)
            if documents is None:
                documents = (Document(tool.text or ""),)
                self.doubts.append(Doubt("undivided", tool.name))
            lists.append(
                DocumentList(end_of(tool), tool, is_returned=True, documents=documents)
            )
        return sorted(lists, key=lambda each: each.moment)

    def _is_search(self, call: Node) -> bool:
        return call.kind == "retriever" or call in self.calls.named_tools

    def _is_in_search(self, call: Node) -> bool:
        """Whether a retriever around a call returns what was found inside it."""
        return self.retriever_around(call) is not None

    def _is_outermost(self, call: Node) -> bool:
        """Whether a call is the run itself, or one of several runs that were joined."""
        path = self.calls.paths[call]
        return len(path) == 1 or (len(path) == 2 and path[0].name in JOINED)

    def _new(self, documents: Iterable[Document]) -> tuple[Document, ...]:
        """Leave out the documents that were there before, by identity or text."""
        return tuple(
            document
            for document in documents
            if self.identity(document) not in self.passages
            and letters_of(document.text) not in self._identities_by_letters
        )

    def _read_step(
        self, call: Node, documents: Sequence[Document], is_in_search: bool
    ) -> tuple[Document, ...]:
        """Read what a step returned: versions of passages, and documents that it found.

        Returns:
            The documents without those that only join passages.
        """
        new_documents = self._new(documents)
        found: list[Document] = []
        joined: list[Document] = []
        wider: list[Document] = []
        for document in new_documents:
            origins = self._passages_around_or_inside(document)
            if len(origins) > 1 and _joins(document, origins):
                joined.append(document)
            elif origins and self._is_version(document, origins):
                self._identity_of_text[document.text] = self.identity(
                    origins[0].document
                )
            elif origins:
                wider.append(document)
            else:
                found.append(document)
        has_taken = bool(call.input_documents or call.documents_among_inputs)
        is_changed = has_taken and not self._keeps_some(call, documents)
        if is_changed and found:
            self.doubts.append(Doubt("changed_by_step", call.name))
        if is_changed or (has_taken and call.kind == "reranker"):
            found, wider = [], [*found, *wider]
        if call.kind == "tool":
            found = self._found_by_tool(call, documents, found)
        self._bring(call, found, "retrieval", is_listed=not is_in_search)
        self._bring(
            call, wider, "retrieval", is_listed=not is_in_search, is_widening=True
        )
        return tuple(document for document in documents if document not in joined)

    def _found_by_tool(
        self, tool: Node, documents: Sequence[Document], new: Sequence[Document]
    ) -> list[Document]:
        """List what a tool found itself: also what an earlier search had found.

        What a call inside it found is told by that call.
        """
        inside = {
            self.identity(document)
            for inner in tool.walk()
            if inner is not tool
            for document in inner.documents or ()
        }
        return [
            document
            for document in documents
            if document in new
            or (
                self.identity(document) in self.passages
                and self.identity(document) not in inside
            )
        ]

    def _name_versions(self, documents: Sequence[Document]) -> None:
        """Note which documents that a call was handed are passages in other words."""
        for document in self._new(documents):
            origins = self._passages_around_or_inside(document)
            if origins and self._is_version(document, origins):
                origin = self.identity(origins[0].document)
                self._identity_of_text[document.text] = origin

    def _keeps_some(self, call: Node, documents: Sequence[Document]) -> bool:
        """Whether a step returned any of the documents that it took, as they were."""
        taken = {
            document.text
            for document in (*call.input_documents, *call.documents_among_inputs)
        }
        return any(document.text in taken for document in documents)

    def _passages_around_or_inside(self, document: Document) -> list[Passage]:
        """List the passages whose text holds a document's text, or stands in it."""
        return self._passages_by_letters.around_or_inside(letters_of(document.text))

    def _is_version(self, document: Document, origins: Sequence[Passage]) -> bool:
        """Whether a document without a name of its own is a passage in other words."""
        if len(origins) > 1:
            return False
        return document.id is None or _joins(document, origins)

    def _bring(
        self,
        call: Node,
        documents: Sequence[Document],
        kind: Kind,
        *,
        is_listed: bool,
        is_widening: bool = False,
    ) -> None:
        """Note what a call brought; ``is_listed``: the ledger has the call."""
        is_search = self._is_search(call) or _is_empty_search(call)
        for rank, document in enumerate(documents, start=1):
            identity = self.identity(document)
            if identity not in self.passages:
                self._add_passage(identity, Passage(document, call, rank))
        if is_listed and (documents or (is_search and not is_widening)):
            self.brought.append(
                Brought(kind, call, tuple(documents), is_widening=is_widening)
            )

    def _add_passage(self, identity: DocumentKey, passage: Passage) -> None:
        self.passages[identity] = passage
        self._passages_by_letters.add(passage)

    def _note(self, document: Document, call: Node) -> None:
        """Note the text in which a list holds a passage."""
        identity = self.identity(document)
        passage = self.passages.get(identity)
        letters = letters_of(document.text)
        if passage is None:
            identity = self._identities_by_letters.get(letters, identity)
            passage = self.passages.get(identity)
        if passage is None:
            passage = Passage(document, call, 1, is_retrieved=False)
            self._add_passage(identity, passage)
            self._documents_from_nowhere.setdefault(call, []).append(document)
        passage.versions.setdefault(document.text, document)
        self._identities_by_letters.setdefault(letters, identity)

    def _add_failed_searches(self) -> None:
        for node in self.calls.nodes:
            if node.kind == "retriever" and node.error and not self._is_in_search(node):
                self.brought.append(Brought("retrieval", node, error=node.error))

    # What was retrieved

    def retrieved(self, shown: Sequence[DocumentKey]) -> tuple[Document, ...] | None:
        """Return what searches returned, each document once; None if nothing searched.

        Without a search it is what steps first returned. Of searches that ran beside
        each other, the one whose document is shown first goes first.

        Args:
            shown: The identities of the documents shown, in the order of the prompt.
        """
        retrievals = [
            each
            for each in self.brought
            if each.kind == "retrieval" and each.error is None and not each.is_widening
        ]
        if not retrievals:
            return None
        documents: dict[DocumentKey, Document] = {}
        for each in self._in_order(retrievals, shown):
            for document in each.documents:
                documents.setdefault(self.identity(document), document)
        return tuple(documents.values())

    def _in_order(
        self, retrievals: Sequence[Brought], shown: Sequence[DocumentKey]
    ) -> list[Brought]:
        """Sort searches by their begin; those that ran beside each other by what is shown."""
        ranks = {identity: rank for rank, identity in enumerate(shown)}
        in_order: list[Brought] = []
        beside: list[Brought] = []

        def first_rank(brought: Brought) -> int:
            identities = map(self.identity, brought.documents)
            return min((ranks.get(each, len(ranks)) for each in identities), default=0)

        for each in sorted(retrievals, key=lambda each: each.call.began):
            if not any(self._ran_beside(each.call, other.call) for other in beside):
                in_order += sorted(beside, key=first_rank)
                beside = []
            beside.append(each)
        return in_order + sorted(beside, key=first_rank)

    def _ran_beside(self, call: Node, other: Node) -> bool:
        """Whether two calls, or the branches of the run in which they stand, overlap."""
        for around, around_other in zip(
            self.calls.paths[call], self.calls.paths[other], strict=False
        ):
            if around is not around_other:
                is_begun = around.began < end_of(around_other)
                return is_begun and around_other.began < end_of(around)
        return False


def _is_empty_search(tool: Node) -> bool:
    """Whether a tool gave an empty list of documents, and no search inside it tells of one."""
    if tool.kind != "tool" or tool.documents != ():
        return False
    _, *inner_calls = tool.walk()
    return all(inner.documents is None for inner in inner_calls)


def _joins(document: Document, origins: Sequence[Passage]) -> bool:
    """Whether a document is made of passages and hardly anything else."""
    letters = letters_of(document.text)
    n_letters = len(letters)
    inside = [letters_of(passage.document.text) for passage in origins]
    for each in sorted(inside, key=len, reverse=True):
        letters = letters.replace(each, "", 1)
    return len(letters) <= _MOST_LETTERS_BESIDE * n_letters


def _ids_of_several_texts(calls: Calls) -> frozenset[str]:
    """Return the ids that name nothing: searches, or the caller, gave them to different texts."""
    letters_by_id: dict[str, set[str]] = {}
    shared: set[str] = set()
    brought = [calls.tree.root.input_documents]
    brought += [search.documents or () for search in calls.searches]
    for documents in brought:
        for document in documents:
            if document.id is not None:
                letters_by_id.setdefault(document.id, set()).add(
                    letters_of(document.text)
                )
    for each in calls.lists:
        in_list: dict[str, str] = {}
        for document in each.documents:
            if document.id is not None:
                letters = letters_of(document.text)
                if in_list.setdefault(document.id, letters) != letters:
                    shared.add(document.id)
    for document_id, forms in letters_by_id.items():
        if len(forms) > 1 and not _are_cuts(forms):
            shared.add(document_id)
    return frozenset(shared)


def _are_cuts(forms: Iterable[str]) -> bool:
    """Whether all texts are cut out of the longest one."""
    longest = max(forms, key=len)
    return all(form in longest for form in forms)


class _PassagesByLetters:
    """Finds the passages that hold a text or stand in it, without comparing it with all.

    Each text is cut into pieces of 8 letters, one behind the other. Where it holds
    another one, some of the other's letters begin a piece: at one of 8 places in turn
    all of the other's pieces are its own. So the rarest piece of each turn is looked up,
    and only passages with such a piece are compared.
    """

    def __init__(self) -> None:
        self._passages: list[Passage] = []
        self._n_read = 0  # the later passages wait until a text is looked up
        self._numbers_by_piece: dict[str, list[int]] = {}
        self._numbers_by_rare_piece: dict[str, list[int]] = {}

    def add(self, passage: Passage) -> None:
        """Add a passage; one that is too short is never found."""
        self._passages.append(passage)

    def _read(self, number: int) -> None:
        """Note the pieces of a passage."""
        letters = letters_of(self._passages[number].document.text)
        if len(letters) < SHORTEST:
            return
        for piece in _pieces(letters):
            self._numbers_by_piece.setdefault(piece, []).append(number)
        for piece in _rare_pieces(letters, self._numbers_by_rare_piece):
            self._numbers_by_rare_piece.setdefault(piece, []).append(number)

    def around_or_inside(self, letters: str) -> list[Passage]:
        """List the passages whose letters hold others or stand in them, as they were added."""
        if len(letters) < SHORTEST or not self._passages:
            return []
        for number in range(self._n_read, len(self._passages)):
            self._read(number)
        self._n_read = len(self._passages)
        numbers: set[int] = set()
        for piece in _rare_pieces(letters, self._numbers_by_piece):
            numbers.update(self._numbers_by_piece.get(piece, ()))
        for piece in _pieces(letters):
            numbers.update(self._numbers_by_rare_piece.get(piece, ()))
        candidates = [self._passages[number] for number in sorted(numbers)]
        return [each for each in candidates if _is_one_in_other(each, letters)]


def _is_one_in_other(passage: Passage, letters: str) -> bool:
    of_passage = letters_of(passage.document.text)
    return letters in of_passage or of_passage in letters


def _pieces(letters: str) -> set[str]:
    """Cut letters into pieces, the rest at the end left out."""
    starts = range(0, len(letters) - _PIECE + 1, _PIECE)
    return {letters[start : start + _PIECE] for start in starts}


def _rare_pieces(letters: str, known: Mapping[str, Sequence[int]]) -> set[str]:
    """Return for each of the first 8 places a piece that begins there, or pieces later.

    It is the one that fewest passages have; of a long text some pieces are looked at.
    """
    step = _PIECE * max(1, len(letters) // (_PIECE * _MOST_LOOKED_AT))
    rare_pieces = set()
    for first in range(_PIECE):
        starts = range(first, len(letters) - _PIECE + 1, step)
        pieces = [letters[start : start + _PIECE] for start in starts]
        rare_pieces.add(min(pieces, key=lambda piece: len(known.get(piece, ()))))
    return rare_pieces


class _Written:
    """Tells documents that a model of the run wrote from those that were found.

    A document is written if half of its text is recorded replies, and the queries that
    they answer. A text that a search without a model inside it returned was found.
    """

    def __init__(self, calls: Calls) -> None:
        self._replies: list[tuple[float, str]] = []
        for call in calls.models:
            is_steering = (
                call in calls.query_writers or calls.reply_forms[call] <= LABEL
            )
            if not is_steering:
                for letters in calls.replies[call].letters:
                    self._replies.append((end_of(call), letters))
        for node in calls.nodes[1:]:
            if node.kind == "agent" and node.text:
                self._replies.append((end_of(node), letters_of(node.text)))
        self._replies = [
            (moment, letters)
            for moment, letters in self._replies
            if len(letters) >= SHORTEST
        ]
        self._originals = self._texts_found(calls) if self._replies else frozenset()
        queries = {letters_of(node.query) for node in calls.nodes if node.query}
        self._queries = sorted(
            (query for query in queries if len(query) >= SHORTEST), key=len
        )

    def holds(self, document: Document, moment: float) -> bool:
        """Whether a document that was there at a moment is a model's."""
        if document.author is not None:
            return True
        if not self._replies or document.text in self._originals:
            return False
        letters = letters_of(document.text)
        written = [
            reply
            for ended, reply in self._replies
            if ended <= moment and reply in letters
        ]
        rest = letters
        for part in (*written, *reversed(self._queries)) if written else ():
            rest = rest.replace(part, "")
        return bool(written) and 2 * len(rest) <= len(letters)

    @staticmethod
    def _texts_found(calls: Calls) -> frozenset[str]:
        texts: set[str] = set()
        for node in calls.nodes:
            if node.kind not in ("retriever", "tool"):
                continue
            for document in node.documents or ():
                texts.update(document.texts)
            has_model = any(inner.kind in ("model", "agent") for inner in node.walk())
            if node.kind == "tool" and node.text and not has_model:
                texts.add(node.text)
                texts.update(texts_in(parse_json(node.text)))
        return frozenset(texts)
