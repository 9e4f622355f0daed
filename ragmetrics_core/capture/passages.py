"""Of stage 4: the passages that the calls of a run brought. Pure.

A **passage** is a document from the moment on when a first call brought it: a search, a
tool, a step, or the caller who handed it in. Later lists of documents hold it again,
perhaps in other words, in pieces, or inside a longer text. No prompt is looked into here.

Example: a search found a page, a citing engine cut it into "[1] It opened in 1874." and
"[2] It has two wells.", and handed these to a model. The page is the one passage.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from ragmetrics_core.capture.calls import (
    Brought,
    BroughtKind,
    Calls,
    DocumentList,
    Origins,
    end_of,
)
from ragmetrics_core.capture.divided import divided
from ragmetrics_core.capture.doubts import Doubt
from ragmetrics_core.capture.forms import SHORTEST, form_of, is_entry, letters_of
from ragmetrics_core.capture.shown import shows, shows_some
from ragmetrics_core.capture.tree import JOINED, Document, DocumentKey, Node

_UNDIVIDED = (
    "the text of tool {} may be several passages, or none, and counts as one context; name"
    " the contexts by contexts_from=, such as a function that is given the run and"
    " returns a list of texts, or let the tool return a list"
)
_CUT = (
    "the text of tool {} repeats what a model passed to a tool, and may have found it,"
    " too: that part is left out; name the contexts by contexts_from="
)
_CHANGED = (
    "the step {} returned new documents in the place of some that it was given, and may"
    " have found or written them"
)
_HANDED = (
    "the call {} was handed documents that repeat lines of what was found, and may have"
    " been made of that, or found elsewhere"
)
_REPLIED = (
    "the step {} held a document that says what a model replied in a word or two, and may"
    " have been made of that, or found"
)
# what numbers a piece, by its place in the list: "Source 1:", "[2]", "3."
_LABEL = re.compile(r"\W{0,4}(?:[^\W\d]+\W{0,2})?(\d{1,3})[\])>.:]+\s")
_OWN_LABEL = re.compile(r"\D{0,16}\d{1,3}")  # of a passage, by its letters


@dataclass(frozen=True, eq=False)
class Passage:
    """A document, from the call on that first brought it.

    Attributes:
        document: The document, as that call gave it.
        found_by: The call.
        rank: Its rank there, from 1.
    """

    document: Document
    found_by: Node
    rank: int


class Passages:
    """The passages that the calls of a run brought.

    Attributes:
        by_identity: All passages, in the order in which they were brought.
        made_of: The passage that a document was cut out of, perhaps with a label before
            it, or each that it may be cut out of: no call brought that document.
        of_earlier_turns: Those that only an earlier turn found, as a state keeps them.
        letters_of_earlier_turns: The letters of what earlier turns found.
        brought: What each call brought.
        lists: All lists of documents, without those that a model wrote, the earliest
            first; also of the documents that a step made of a tool's text.
        doubts: What is uncertain about them.
    """

    def __init__(self, calls: Calls, origins: Origins) -> None:
        self._calls = calls
        self.by_identity: dict[DocumentKey, Passage] = {}
        self.made_of: dict[DocumentKey, tuple[DocumentKey, ...]] = {}
        self.of_earlier_turns: set[DocumentKey] = set()
        self.brought: list[Brought] = []
        self.lists = _with_lists_of_tools(calls, origins)
        # a tool that searched in vain may say no more than that, or what it found elsewhere
        in_vain = [
            node.name
            for node in calls.nodes
            if node.name in calls.named_to_search and calls.searched_in_vain(node)
            if letters_of(node.text) and divided(node.text or "") != ()
        ]
        self.doubts = [
            Doubt("undivided", _UNDIVIDED.format(name))
            for name in (*origins.undivided, *in_vain)
        ]
        for name in origins.cut:
            self.doubts.append(Doubt("undivided", _CUT.format(name), True))
        self._keys: dict[int, DocumentKey] = {}  # by document of the tree, which stays
        # of copies of passages without an id
        self._identity_of_other: dict[DocumentKey, DocumentKey] = {}
        self._identity_by_letters: dict[str, DocumentKey] = {}
        self._shared_ids = _ids_of_several_texts(calls)
        self._of_unknown_origin: dict[Node, list[Document]] = {}
        # what the state of a graph keeps of earlier turns is given by nobody
        self.letters_of_earlier_turns = {
            letters_of(item.text)
            for earlier in calls.tree.earlier_calls
            for item in earlier.items
        }
        replies = {
            call: letters_of(calls.replies[call].answer) for call in calls.models
        }
        self._short_replies = {
            call: letters
            for call, letters in replies.items()
            if len(letters) < SHORTEST
        }
        for each in self.lists:
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
        brought.
        """
        return any(
            each.is_made_of_others or each.is_of_unknown_origin for each in self.brought
        )

    def identity(self, document: Document) -> DocumentKey:
        """Return what tells a document from others: its id, else its text and metadata."""
        if document.id is not None and document.id not in self._shared_ids:
            key: DocumentKey = ("id", document.id)
        else:
            key = self._keys.get(id(document)) or document.key
            self._keys[id(document)] = key
        return self._identity_of_other.get(key, key)

    # Reading the lists in their order

    def _read_list(self, each: DocumentList) -> None:
        """Note what a call brought, and the passages that it took or handed on."""
        call, documents = each.call, each.documents
        known_texts = self._identity_by_letters
        if self._may_be_replied(each):
            self.doubts.append(Doubt("by_data_flow", _REPLIED.format(call.name)))
        path = self._calls.paths[call]
        if each.is_returned and self._is_search(call):
            joined: list[Document] = []
            found: list[Document] = []
            for document in documents:
                is_joined = self._is_joined(document, call)
                (joined if is_joined else found).append(document)
            self._bring(call, joined, "given", is_made_of_others=True)
            if found or not joined:
                self._bring(call, found, "retrieval")
        elif each.is_returned:
            self._read_step(call, documents)
        elif len(path) == 1 or (len(path) == 2 and path[0].name in JOINED):
            # handed to the run, or to one of several runs that were joined
            new_documents = [each for each in documents if not self._is_there(each)]
            self._bring(call, new_documents, "given")
        elif not any(self._is_there(each, known_texts) for each in documents):
            # in the place of all that was found, as by a citing engine
            others = self._leave_out_pieces(documents, known_texts)
            known = "\n".join(known_texts) if others else ""
            for document in others:
                lines = map(letters_of, document.text_without_metadata.splitlines())
                if any(len(line) >= SHORTEST and line in known for line in lines):
                    self.doubts.append(Doubt("by_data_flow", _HANDED.format(call.name)))
        for document in documents:
            self._note(document, call)

    def _may_be_replied(self, each: DocumentList) -> bool:
        """Whether a document of a step is new, and says what a model replied in a word or two.

        A reranker may have a model cut out what it returns.
        """
        call = each.call
        if each.is_returned and call.kind in ("retriever", "tool"):
            return False
        short_replies = [
            letters
            for model, letters in self._short_replies.items()
            if end_of(model) <= each.moment
            if call.kind != "reranker" or call not in self._calls.paths[model]
        ]
        return any(
            _is_labelled(document.text, letters) and not self._is_there(document)
            for document in each.documents
            for letters in short_replies
        )

    def _is_search(self, call: Node) -> bool:
        """Whether a call found all that it returned: a retriever, or a tool by itself.

        What was asked nothing, and only made documents of a tool's text, is no retriever.
        """
        if call.kind == "retriever" and call.query is None and call.documents:
            keys = map(self.identity, call.documents)
            finders = [
                self.by_identity[key].found_by
                for key in keys
                if key in self.by_identity
            ]
            are_texts = all(
                each.kind == "tool" and each.documents is None for each in finders
            )
            return len(finders) < len(call.documents) or not are_texts
        if call.kind != "tool" or self._documents_at_hand(call):
            return call.kind == "retriever"
        _, *inner_calls = call.walk()
        return all(
            inner.kind != "retriever" and inner.documents is None
            for inner in inner_calls
        )

    def _documents_at_hand(self, call: Node) -> list[Document]:
        """List what a call was given, and what the calls inside it returned."""
        _, *inner_calls = call.walk()
        documents = [*call.input_documents, *call.documents_among_inputs]
        for inner in inner_calls:
            documents += inner.documents or ()
        return [each for each in documents if self.identity(each) in self.by_identity]

    def _is_there(self, document: Document, passages: Iterable[str] = ()) -> bool:
        """Whether a document was there before, by identity or text.

        A text that a longer one of some passages holds may be cut out of that.
        """
        if self.identity(document) in self.by_identity:
            return True
        letters = letters_of(document.text)
        if letters not in self._identity_by_letters:
            return False
        return all(known == letters for known in _holders(letters, passages))

    def _read_step(self, call: Node, documents: Sequence[Document]) -> None:
        """Read what a step returned: passages, and documents that it found or made.

        It made what stands in passages, or holds some: windows, summaries. And where it
        left out some of what it had at hand, it made all of it, and what it cut out
        belongs to those who found it. A reranker that kept all widened it: what it
        added, such as the next passage, was retrieved by no search.
        """
        at_hand = {
            letters_of(each.text): self.identity(each)
            for each in self._documents_at_hand(call)
        }
        is_reranker = call.kind == "reranker" and bool(at_hand)
        if at_hand.keys() <= {letters_of(each.text) for each in documents}:
            found: list[Document] = []
            made: list[Document] = []
            for each in documents:
                if not self._is_there(each):
                    is_made = is_reranker or self._is_made(each)
                    (made if is_made else found).append(each)
            self._bring(call, found, "retrieval")
        else:
            made = self._leave_out_pieces(documents, at_hand)
            asks_a_model = any(inner.kind == "model" for inner in call.walk())
            if not all(
                (is_reranker and self._is_made(each))
                or (not asks_a_model and self._is_page_around(each))
                for each in made
            ):
                self.doubts.append(Doubt("by_data_flow", _CHANGED.format(call.name)))
        self._bring(call, made, "given", is_made_of_others=True)

    def _is_joined(self, document: Document, search: Node) -> bool:
        """Whether a text is made of nothing but passages that were there before a search.

        Example: an index of the moment, of the passages that were found, in one text.
        """
        whole = rest = letters_of(document.text)
        for passage in self.by_identity.values():
            letters = letters_of(passage.document.text)
            is_part = SHORTEST <= len(letters) < len(whole) and letters in rest
            if is_part and search not in self._calls.paths[passage.found_by]:
                rest = rest.replace(letters, "")
        return bool(whole) and not rest

    def _is_made(self, document: Document) -> bool:
        """Whether a document is cut out of a passage, or holds one, by their letters."""
        letters = letters_of(document.text)
        known_texts = self._identity_by_letters
        is_around = any(
            len(each) >= SHORTEST and each in letters for each in known_texts
        )
        return is_around or bool(_holders(letters, known_texts))

    def _is_page_around(self, document: Document) -> bool:
        """Whether a document holds passages and more, as a page does the sentences found."""
        whole = rest = letters_of(document.text)
        for each in self._identity_by_letters:
            rest = rest.replace(each, "") if len(each) >= SHORTEST else rest
        return SHORTEST <= len(rest) < len(whole)

    def _leave_out_pieces(
        self, documents: Iterable[Document], passages: Mapping[str, DocumentKey]
    ) -> list[Document]:
        """Note the documents that were cut out of passages, and return other new ones.

        A piece stands in a passage but for a label with its place in the list: "[1] It
        opened in 1874.". One of a word or two stands there behind the piece before it.

        Args:
            documents: A list of documents.
            passages: The identity of each passage that they may be cut out of, by its
                letters.
        """
        others = []
        before = ""  # the pieces of the same passage, by their letters
        for rank, document in enumerate(documents, start=1):
            if self._is_there(document, passages):
                continue
            text = document.text_without_metadata
            with_label = letters_of(text)
            label = _LABEL.match(text)
            if label is not None and int(label[1]) in (rank - 1, rank):
                text = text[label.end() :]
            letters = letters_of(text)
            holders = []
            if before and letters:
                holders = _holders(before + letters, passages)
            if not holders:
                before = ""
                holders = _holders(with_label, passages)
                # a passage that begins with another number has a label of its own
                for known in _holders(letters, passages):
                    if not _OWN_LABEL.fullmatch(known.partition(letters)[0]):
                        holders.append(known)
            if not holders:
                others.append(document)
                continue
            before += letters
            found = [passages[known] for known in holders]
            same = self._identity_by_letters.get(letters_of(document.text))
            if same is not None:
                found.append(same)
            origins = [self.made_of.get(each, (each,)) for each in found]
            identities = tuple(dict.fromkeys(chain.from_iterable(origins)))
            if len(identities) > 1:
                self.doubts.append(Doubt("in_part"))
            self.made_of[self.identity(document)] = identities
        return others

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
            self.by_identity.setdefault(self.identity(document), passage)
        is_empty_search = not is_made_of_others and self._is_search(call)
        if (documents or is_empty_search) and not self._calls.is_in_search(call):
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
        if identity not in self.by_identity:
            known = self._identity_by_letters.get(letters)
            if known is None:
                self.by_identity[identity] = Passage(document, call, 1)
                if letters in self.letters_of_earlier_turns:
                    self.of_earlier_turns.add(identity)
                elif identity not in self.made_of:
                    self._of_unknown_origin.setdefault(call, []).append(document)
            elif document.id is None and identity not in self.made_of:
                self._identity_of_other[identity] = known
                identity = known
        self._identity_by_letters.setdefault(letters, identity)

    # What was retrieved

    def retrieved(
        self, shown: Sequence[DocumentKey | None]
    ) -> tuple[Document, ...] | None:
        """Return what searches returned, each document once; None if nothing searched.

        Without a search it is what steps first returned. Of searches that ran beside
        each other, the one whose document is shown first goes first.

        Args:
            shown: The identities of the documents shown, in the order of the prompt.
        """
        found: dict[Node, list[Document]] = {}
        for each in self.brought:
            is_search = each.kind == "retrieval" and not each.is_made_of_others
            if is_search and each.error is None:
                found.setdefault(each.call, []).extend(each.documents)
        if not found:
            return None
        ranks = {identity: rank for rank, identity in enumerate(shown)}

        def first_rank(call: Node) -> int:
            identities = map(self.identity, found[call])
            return min((ranks.get(each, len(ranks)) for each in identities), default=0)

        documents: dict[DocumentKey, Document] = {}
        for call in self._calls.in_order(found, first_rank):
            for document in found[call]:
                documents.setdefault(self.identity(document), document)
        return tuple(documents.values())


def _with_lists_of_tools(calls: Calls, origins: Origins) -> list[DocumentList]:
    """Return all lists of documents, with one for each tool of whose text a step made some.

    Example: a step calls a search tool that returns rows, and makes documents of the
    rows: the tool found these, when it returned.
    """
    tools: list[Node] = []
    for tool in calls.text_tools:
        is_written = origins.texts_of_tools.get(tool, ("written", ""))[0] == "written"
        is_told = tool in calls.named_tools or calls.is_handed_on(tool, tools)
        if not is_written and not is_told:
            tools.append(tool)
    tools_inside: dict[Node, list[Node]] = {}
    for tool in tools:
        for around in calls.paths[tool]:
            tools_inside.setdefault(around, []).append(tool)
    made: dict[Node, dict[DocumentKey, Document]] = {}
    known: set[str] = set()  # texts of documents, by their letters
    found_otherwise: set[str] = set()
    for each in origins.lists:
        documents = {letters_of(document.text): document for document in each.documents}
        new = documents.keys() - known
        known |= new
        is_retriever = each.call.kind == "retriever" and each.call.query is not None
        if is_retriever or each.call.kind == "tool" or not each.is_returned:
            found_otherwise |= documents.keys()
            continue
        inside = tools_inside.get(each.call, [])
        for tool in tools if new else inside:
            perhaps_made = documents.keys() if tool in inside else new
            perhaps_made = perhaps_made - found_otherwise
            is_ended = end_of(tool) <= each.moment
            if is_ended and any(
                _is_made_of(documents[it], tool) for it in perhaps_made
            ):
                of_tool = [it for it in documents.values() if _is_made_of(it, tool)]
                made.setdefault(tool, {}).update((it.key, it) for it in of_tool)
    lists = [*origins.lists]
    for tool, found in made.items():
        lists.append(DocumentList(end_of(tool), tool, tuple(found.values())))
    return sorted(lists, key=lambda each: each.moment)


def _is_made_of(document: Document, tool: Node) -> bool:
    """Whether most of a document stands in a tool's text, perhaps a line behind a label."""
    letters = letters_of(document.text)
    if len(letters) < SHORTEST:
        return shows([tool.text or ""], document.text)
    text = letters_of(tool.text)
    if letters in text:
        return True
    lines = [letters_of(line) for line in document.text.splitlines()]
    n_shown = sum(len(line) for line in lines if shows_some(text, line))
    return 2 * n_shown > len(letters)


def _holders(letters: str, passages: Iterable[str]) -> list[str]:
    """List the passages in which a text of some length stands, all by their letters."""
    if len(letters) < SHORTEST:
        return []
    return [known for known in passages if letters in known]


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
        longest = max(forms, key=len)
        if not all(form in longest for form in forms):  # no cuts of one text
            shared.add(document_id)
    return frozenset(shared)


def _is_labelled(text: str, piece: str) -> bool:
    """Whether a text is a piece of some letters, alone or behind a label: "Noted: Porto"."""
    form = form_of(text)
    label = form.letters.removesuffix(piece)
    if not piece or label == form.letters:
        return False
    place = form.place_in_source(len(label), len(form.letters))
    return not label or (len(label) < SHORTEST and is_entry(text, *place))
