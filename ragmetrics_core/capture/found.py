"""What the calls of a run brought: one list of passages, and who brought and kept them. Pure.

A **passage** is a document from the moment on when a first call brought it: a search, a
tool, a step, or the caller who handed it in. Later lists of documents hold it again,
perhaps in other words. No prompt is looked into here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Literal

from ragmetrics_core.capture.calls import Calls, DocumentList, Passage, end_of
from ragmetrics_core.capture.divided import divided
from ragmetrics_core.capture.doubts import Doubt
from ragmetrics_core.capture.forms import letters_of
from ragmetrics_core.capture.shown import SHORTEST
from ragmetrics_core.capture.tree import JOINED, Document, DocumentKey, Node
from ragmetrics_core.data.lazy_patterns import lazy_pattern

BroughtKind = Literal["retrieval", "tool", "given", "written"]

_WORD = lazy_pattern(r"\w+")
_FIRST_WORDS = 2


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
        # of documents that are passages in other words, or copies of them without an id
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
    def has_documents_of_unknown_origin(self) -> bool:
        """Whether a call was handed documents that no call is known to have brought.

        They may be made of passages, such as the numbered pieces of a citing engine.
        """
        return bool(self._of_unknown_origin)

    def identity(self, document: Document) -> DocumentKey:
        """Return what tells a document from others, also where it is one of them, changed."""
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
        is_search = call.kind == "retriever" or call in self.calls.named_tools
        if each.is_returned and is_search:
            self._doubt_imagined(call, documents)
            # a search all of whose documents a model wrote brought nothing, not even ()
            if documents or not each.documents:
                self._bring(call, documents, "retrieval")
        elif each.is_returned:
            self._read_step(call, documents)
        elif self._is_outermost(call):
            self._bring(call, self._new(documents), "given")
        else:
            self._tie_to_passages(documents)
        self.lists.append(DocumentList(each.moment, call, each.is_returned, documents))
        for document in documents:
            self._note(document, call)

    def _doubt_imagined(self, search: Node, documents: Sequence[Document]) -> None:
        """Note a search that returned what a model inside it wrote of nothing found.

        ``Writers`` knows no replies from inside of searches. Only a text that equals
        one is told, as a doubt: a search may well find what its model was shown.
        """
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
        where it kept nothing of what it was given, it made all of it.
        """
        origins = self._tie_to_passages(documents)
        new_documents = self._new(documents)
        made = [each for each in new_documents if origins.get(each.text)]
        others = [each for each in new_documents if not origins.get(each.text)]
        taken = {
            document.text
            for document in (*call.input_documents, *call.documents_among_inputs)
        }
        is_changed = bool(taken) and taken.isdisjoint(each.text for each in documents)
        is_joining = any(len(origins[each.text]) > 1 for each in made)
        if (is_changed and others) or (is_joining and call.kind != "reranker"):
            self.doubts.append(Doubt("changed_by_step", call.name))
        if is_changed or (taken and call.kind == "reranker"):
            made, others = [*others, *made], []
        if call.kind == "tool":
            others = self._found_by_tool(call, documents, others)
        self._bring(call, others, "retrieval")
        self._bring(call, made, "retrieval", is_made_of_others=True)

    def _found_by_tool(
        self, tool: Node, documents: Sequence[Document], new: Sequence[Document]
    ) -> list[Document]:
        """List what a tool found itself: also what an earlier search had found.

        What a call inside it found is told by that call.
        """
        _, *inner_calls = tool.walk()
        inside = {
            self.identity(document)
            for inner in inner_calls
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

    def _tie_to_passages(
        self, documents: Sequence[Document]
    ) -> dict[str, list[DocumentKey]]:
        """Take new documents for passages, where they are passages in other words.

        A document that is the only one of its only passage is this passage, cut or with
        words around it; with an id of its own only where it holds little else.

        Returns:
            The passages that hold each new document, or stand in it, by its text.
        """
        new_documents = self._new(documents)
        if not new_documents:
            return {}
        index = _PassageIndex(self.passages)
        origins = {each.text: index.around_or_inside(each) for each in new_documents}
        n_made = Counter(chain.from_iterable(origins.values()))
        for document in new_documents:
            of_document = origins[document.text]
            is_alone = len(of_document) == 1 and n_made[of_document[0]] == 1
            if is_alone and (
                document.id is None
                or self._is_most_of(document, self.passages[of_document[0]])
            ):
                self._identity_of_other[self._own_identity(document)] = of_document[0]
        return origins

    @staticmethod
    def _is_most_of(document: Document, passage: Passage) -> bool:
        """Whether a passage is four fifths of the document that holds it."""
        letters = letters_of(passage.document.text)
        n_letters = len(letters_of(document.text))
        return len(letters) <= n_letters and 5 * len(letters) >= 4 * n_letters

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
        is_search = call.kind == "retriever" or call in self.calls.named_tools
        is_empty_search = not is_made_of_others and (
            is_search or _is_empty_search(call)
        )
        is_listed = not self.calls.is_in_search(call)
        if is_listed and (documents or is_empty_search):
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


class _PassageIndex:
    """Finds passages that hold a text or stand in it, without comparing it with each.

    A text stands in others where it stands in all of them, joined. A passage stands in
    a text only where its first words do.
    """

    def __init__(self, passages: Mapping[DocumentKey, Passage]) -> None:
        self._letters = {
            identity: letters_of(passage.document.text)
            for identity, passage in passages.items()
        }
        self._identities = list(passages)
        self._joined = "\n".join(self._letters.values())
        lengths = (len(letters) + 1 for letters in self._letters.values())
        self._starts = list(accumulate(lengths, initial=0))
        self._by_first_words: dict[tuple[str, ...], list[DocumentKey]] = {}
        for identity, passage in passages.items():
            if len(self._letters[identity]) >= SHORTEST:
                first_words = tuple(_words(passage.document.text)[:_FIRST_WORDS])
                self._by_first_words.setdefault(first_words, []).append(identity)

    def around_or_inside(self, document: Document) -> list[DocumentKey]:
        """List the passages that hold a document's text or stand in it; two at most hold it."""
        letters = letters_of(document.text)
        if len(letters) < SHORTEST:
            return []
        found: list[DocumentKey] = []
        start = self._joined.find(letters)
        while start >= 0 and len(found) <= 1:
            place = bisect_right(self._starts, start) - 1
            found.append(self._identities[place])
            start = self._joined.find(letters, self._starts[place + 1])
        words = _words(document.text)
        windows = set(zip(*(words[n:] for n in range(_FIRST_WORDS)), strict=False))
        for first_words in self._by_first_words.keys() & windows:
            for identity in self._by_first_words[first_words]:
                if self._letters[identity] in letters:
                    found.append(identity)
        return list(dict.fromkeys(found))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
