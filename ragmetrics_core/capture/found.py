"""What the calls of a run brought: one list of passages, and who brought and kept them. Pure.

A **passage** is a document from the moment on when a first call brought it: a search, a
tool, a step, or the caller who handed it in. Later lists of documents hold it again,
perhaps in other words. No prompt is looked into here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ragmetrics_core.capture.calls import Calls, DocumentList, Passage, end_of
from ragmetrics_core.capture.divided import divided
from ragmetrics_core.capture.doubts import Doubt
from ragmetrics_core.capture.forms import SHORTEST, letters_of
from ragmetrics_core.capture.tree import JOINED, Document, DocumentKey, Node

BroughtKind = Literal["retrieval", "tool", "given", "written"]


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
        is_made_of_others: Whether the call made the documents of others, or put them in
            their stead: they were not retrieved.
        is_of_unknown_origin: Whether no call is known that brought the documents: the
            call was handed them. They count where they are contexts.
    """

    kind: BroughtKind
    call: Node
    documents: tuple[Document, ...] = ()
    text: str | None = None
    error: str | None = None
    is_made_of_others: bool = False
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
        self._keys: dict[int, DocumentKey] = {}  # by document of the tree, which stays
        # of copies of passages without an id
        self._identity_of_other: dict[DocumentKey, DocumentKey] = {}
        self._identity_by_letters: dict[str, DocumentKey] = {}
        self._shared_ids = _ids_of_several_texts(calls)
        self._of_unknown_origin: dict[Node, list[Document]] = {}
        for each in self._all_lists():
            self._read_list(each)
        for node in calls.nodes:
            if node.kind == "retriever" and node.error and not calls.is_in_search(node):
                self.brought.append(Brought("retrieval", node, error=node.error))
        for call, documents in self._of_unknown_origin.items():
            self.brought.append(
                Brought("given", call, tuple(documents), is_of_unknown_origin=True)
            )

    @property
    def may_be_shown_changed(self) -> bool:
        """Whether prompts may show passages as documents that were made of them.

        A call made documents of others, or was handed some that no call is known to have
        brought, such as the numbered pieces of a citing engine.
        """
        return any(
            each.is_made_of_others or each.is_of_unknown_origin for each in self.brought
        )

    def identity(self, document: Document) -> DocumentKey:
        """Return what tells a document from others."""
        own_identity = self._own_identity(document)
        return self._identity_of_other.get(own_identity, own_identity)

    def _own_identity(self, document: Document) -> DocumentKey:
        """Return the id of a document, else its text and metadata."""
        if document.id is not None and document.id not in self._shared_ids:
            return ("id", document.id)
        key = self._keys.get(id(document))
        if key is None:
            key = self._keys[id(document)] = document.key
        return key

    # Reading the lists in their order

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

    def _read_list(self, each: DocumentList) -> None:
        """Note what a call brought, and the passages that it took or handed on."""
        call = each.call
        documents = tuple(
            document
            for document in each.documents
            if document.text.strip()
            and self.calls.writers.of(document, each.moment) is None
        )
        if each.is_returned and self._is_search(call):
            # a search all of whose documents a model wrote brought nothing, not even ()
            if documents or not each.documents:
                self._bring(call, documents, "retrieval")
        elif each.is_returned:
            self._read_step(call, documents)
        elif self._is_outermost(call):
            self._bring(call, self._new(documents), "given")
        self.lists.append(DocumentList(each.moment, call, each.is_returned, documents))
        for document in documents:
            self._note(document, call)

    def _is_search(self, call: Node) -> bool:
        """Whether a call found all that it returned: a retriever, or a tool by itself."""
        if call.kind == "retriever" or call in self.calls.named_tools:
            return True
        return call.kind == "tool" and not self._documents_at_hand(call)

    def _documents_at_hand(self, call: Node) -> list[Document]:
        """List what a call was given, and what the calls inside it returned."""
        _, *inner_calls = call.walk()
        documents = [*call.input_documents, *call.documents_among_inputs]
        for inner in inner_calls:
            documents += inner.documents or ()
        return [each for each in documents if self.identity(each) in self.passages]

    def _is_outermost(self, call: Node) -> bool:
        """Whether a call is the run itself, or one of several runs that were joined."""
        path = self.calls.paths[call]
        return len(path) == 1 or (len(path) == 2 and path[0].name in JOINED)

    def _new(self, documents: Iterable[Document]) -> list[Document]:
        """Leave out the documents that were there before, by identity or text."""
        return [
            document
            for document in documents
            if self.identity(document) not in self.passages
            and letters_of(document.text) not in self._identity_by_letters
        ]

    def _read_step(self, call: Node, documents: Sequence[Document]) -> None:
        """Read what a step returned: passages, and documents that it found or made.

        It made what stands in passages, or holds some: pieces, windows, summaries. And
        where it left out some of what it had at hand, it made all of it.
        """
        new_documents = self._new(documents)
        at_hand = {letters_of(each.text) for each in self._documents_at_hand(call)}
        is_reranker = call.kind == "reranker" and bool(at_hand)
        if not is_reranker and at_hand <= {letters_of(each.text) for each in documents}:
            made = [each for each in new_documents if self._is_made(each)]
        else:
            made = new_documents
            if not all(self._is_made(each, is_cut=not is_reranker) for each in made):
                self.doubts.append(Doubt("changed_by_step", call.name))
        texts_made = {each.text for each in made}
        others = [each for each in new_documents if each.text not in texts_made]
        self._bring(call, others, "retrieval")
        self._bring(call, made, "retrieval", is_made_of_others=True)

    def _is_made(self, document: Document, *, is_cut: bool = False) -> bool:
        """Whether a document is cut out of a passage, or holds one, by their letters."""
        letters = letters_of(document.text)
        if len(letters) < SHORTEST:
            return False
        return any(
            letters in known
            or (not is_cut and len(known) >= SHORTEST and known in letters)
            for known in self._identity_by_letters
        )

    def _bring(
        self,
        call: Node,
        documents: Sequence[Document],
        kind: BroughtKind,
        *,
        is_made_of_others: bool = False,
    ) -> None:
        """Note what a call brought; a call inside of a search is no call of the ledger."""
        for rank, document in enumerate(documents, start=1):
            passage = Passage(document, call, rank)
            self.passages.setdefault(self.identity(document), passage)
        is_empty_search = not is_made_of_others and self._is_search(call)
        if (documents or is_empty_search) and not self.calls.is_in_search(call):
            self.brought.append(
                Brought(
                    kind,
                    call,
                    tuple(documents),
                    is_made_of_others=is_made_of_others,
                )
            )

    def _note(self, document: Document, call: Node) -> None:
        """Note the text in which a list holds a passage."""
        identity = self.identity(document)
        letters = letters_of(document.text)
        if identity not in self.passages:
            known = self._identity_by_letters.get(letters)
            if known is None:
                self.passages[identity] = Passage(document, call, 1)
                self._of_unknown_origin.setdefault(call, []).append(document)
            elif document.id is None:
                self._identity_of_other[identity] = known
                identity = known
        self._identity_by_letters.setdefault(letters, identity)

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
            if each.kind == "retrieval"
            and each.error is None
            and not each.is_made_of_others
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
        """Whether two calls, or the parts of the run in which they stand, overlap."""
        for around, around_other in zip(
            self.calls.paths[call], self.calls.paths[other], strict=False
        ):
            if around is not around_other:
                is_begun = around.began < end_of(around_other)
                return is_begun and around_other.began < end_of(around)
        return False


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
