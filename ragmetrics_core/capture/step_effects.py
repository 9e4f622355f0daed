"""What steps and retrievers did to the retrieved documents between search and prompt. Pure.

A search finds passages A, B and C, and a reranker returns B and A. Then the reranker
took the documents with indexes 0, 1 and 2 and returned those with indexes 1 and 0. An
**index** counts the retrieved documents from 0.

All texts are compared once, in ``effects_of``; ``passage_notes`` reads the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ragmetrics_core.capture.calls import Calls, began_after
from ragmetrics_core.capture.normalized_text import Text, normalize_text
from ragmetrics_core.capture.origins import match_documents
from ragmetrics_core.capture.passages import share_held
from ragmetrics_core.capture.rewriting import DocumentChange
from ragmetrics_core.capture.tree import Document, DocumentKey, Node
from ragmetrics_core.capture.word_edges import is_contained_as_words
from ragmetrics_core.data.sentences import split_sentences
from ragmetrics_core.data.word_borders import holds_as_words


@dataclass(frozen=True)
class FoundByInnerSearch:
    """A document that a search inside a retriever found.

    Attributes:
        document: The document.
        search: The search that found it first; one without searches inside it, where
            there is one.
        rank: The document's rank there, from 1.
    """

    document: Document
    search: Node
    rank: int


@dataclass(frozen=True)
class CutByRetriever:
    """A document that a search inside a retriever found, and of which it returned parts.

    Attributes:
        found: The document, and the search that found it.
        document_keys_of_parts: The keys of the documents that are parts of it.
    """

    found: FoundByInnerSearch
    document_keys_of_parts: frozenset[DocumentKey]


@dataclass(frozen=True)
class RetrieverEffect:
    """What a retriever did to the documents that searches inside it found.

    Attributes:
        retriever: The retriever.
        dropped: Those of these documents that it did not return; empty where that is
            not known.
        cut: Those of which it returned parts; empty where that is not known.
        document_keys_in_new_words: The keys of documents that it returned in words that
            no search inside it found. If no found document is known to be behind one of
            them, nobody knows which documents it dropped or cut.
    """

    retriever: Node
    dropped: tuple[FoundByInnerSearch, ...]
    cut: tuple[CutByRetriever, ...]
    document_keys_in_new_words: frozenset[DocumentKey]


@dataclass(frozen=True)
class StepEffect:
    """What a reranker or filter did to the retrieved documents.

    Attributes:
        name: Its name.
        node: The call.
        indexes_taken: Indexes of the retrieved documents that it was given.
        indexes_returned: Indexes of the retrieved documents that it returned, in its
            order.
        returns_unknown_texts: Whether it returned texts that were made of no known
            document.
    """

    name: str
    node: Node
    indexes_taken: frozenset[int]
    indexes_returned: tuple[int, ...]
    returns_unknown_texts: bool


@dataclass(frozen=True)
class StepEffects:
    """What steps and retrievers did to the retrieved documents.

    Attributes:
        steps: The rerankers and filters between the searches and the answer.
        retrievers: The retrievers that hand on what searches inside them found.
        replacing_step_by_document_index: For the index of a document that a step took,
            and in the place of which it returned others, the name of the first such
            step.
        perhaps_searching_step_by_document_index: The same, only of those of these steps
            that perhaps replaced nothing and searched for further documents: nobody
            recorded where the documents that they added come from.
        document_keys_of_unknown_origin: The keys of the documents that these steps
            added.
        copy_by_document_index: For the index of a document that a step left out as a
            duplicate, the index of the document of the same text that it handed on.
        documents_added: What steps before the answer returned in the place of documents
            that they took, in their order; then the texts around documents that others
            returned beside these.
    """

    steps: tuple[StepEffect, ...]
    retrievers: tuple[RetrieverEffect, ...]
    replacing_step_by_document_index: Mapping[int, str]
    perhaps_searching_step_by_document_index: Mapping[int, str]
    document_keys_of_unknown_origin: frozenset[DocumentKey]
    copy_by_document_index: Mapping[int, int]
    documents_added: tuple[Document, ...]


def effects_of(
    changes: Sequence[DocumentChange],
    calls: Calls,
    retrieved: Sequence[Document],
    answering_call: Node | None,
) -> StepEffects:
    """Find out what steps and retrievers did to the retrieved documents.

    Example: a search found A, B and C, and a reranker returned B and A. Its effect:
    it took the documents with the indexes 0, 1 and 2, and returned those with 1 and 0.

    Args:
        changes: For each step of the run the documents that it took, dropped and added.
        calls: The calls of the run.
        retrieved: The retrieved documents.
        answering_call: The call that wrote the answer; None if it is unknown.
    """
    # what rerankers and filters returned, and in which order
    step_effects = [
        _step_effect(step, retrieved)
        for step in _steps_before_answer(changes, calls, answering_call)
    ]
    # what retrievers dropped and cut of the documents that searches inside them found
    retriever_effects = [
        _retriever_effect(retriever, found)
        for retriever, found in _found_inside_each_retriever(calls).items()
    ]
    # steps that returned other documents in the place of some, as a translator does
    replacing = _changes_that_replace_documents(changes, calls)
    # Of some of these nobody recorded where the other documents come from: the step may
    # have translated documents, or have dropped them and searched for further ones.
    perhaps_searching = [
        change for change in replacing if change.texts_of_unknown_origin
    ]
    return StepEffects(
        steps=tuple(step_effects),
        retrievers=tuple(retriever_effects),
        replacing_step_by_document_index=_first_step_by_document_index(
            retrieved, replacing
        ),
        perhaps_searching_step_by_document_index=_first_step_by_document_index(
            retrieved, perhaps_searching
        ),
        document_keys_of_unknown_origin=_keys_of_unknown_origin(perhaps_searching),
        # {3: 0}: a step removed document 3, a duplicate of document 0
        copy_by_document_index=_copy_by_document_index(retrieved, changes, calls.nodes),
        documents_added=(
            # the translation that a step returned in the place of "Es fiel."
            *_documents_added_before(replacing, answering_call),
            # the window "It opened in 1874. It fell." that a step returned for the
            # sentence "It fell."
            *_widened_documents_before(calls.nodes, answering_call),
        ),
    )


def _changes_that_replace_documents(
    changes: Iterable[DocumentChange], calls: Calls
) -> list[DocumentChange]:
    """Return the changes of steps that dropped documents and returned others."""
    steps_with_documents = set(calls.steps_with_documents)
    return [
        change
        for change in changes
        if change.replaces_documents and change.node in steps_with_documents
    ]


def _keys_of_unknown_origin(
    changes: Iterable[DocumentChange],
) -> frozenset[DocumentKey]:
    """Return the keys of the documents of which nobody recorded where they come from."""
    document_keys = set()
    for change in changes:
        document_keys |= {document.key for document in change.texts_of_unknown_origin}
    return frozenset(document_keys)


def _documents_added_before(
    changes: Iterable[DocumentChange], answering_call: Node | None
) -> tuple[Document, ...]:
    """Return the documents that steps added before the answering call began."""
    added: list[Document] = []
    for change in changes:
        if _is_before(change.node, answering_call):
            added += change.added
    return tuple(added)


def _widened_documents_before(
    nodes: Iterable[Node], answering_call: Node | None
) -> Iterator[Document]:
    """Yield documents with the wider texts that calls returned before the answer.

    Example: a call was given the sentence "It fell.", and returned the window "It opened
    in 1874. It fell.": a document with the sentence's id and this text.
    """
    for node in nodes:
        if node.kind == "reranker" and _is_before(node, answering_call):
            for document, text in zip(
                node.input_documents, node.new_texts, strict=False
            ):
                yield replace(document, text=text)


def _copy_by_document_index(
    retrieved: Sequence[Document],
    changes: Iterable[DocumentChange],
    nodes: Iterable[Node],
) -> dict[int, int]:
    """Find the duplicates that steps removed, and which copy of each was kept.

    Example: two searches found "Opened in 1874." as a.txt (index 0) and as b.txt (index
    3). A step took both and returned a.txt, and no later call took b.txt: {3: 0}.

    Args:
        retrieved: The retrieved documents. An index counts them from 0.
        changes: For each step the documents that it took and returned.
        nodes: All calls of the run.

    Returns:
        The index of the copy that was kept, by the index of the removed duplicate.
    """
    index_by_identity = _index_by_identity(retrieved)  # id, else text and metadata
    copy_by_document_index: dict[int, int] = {}
    for change in changes:
        # {"Opened in 1874.": 0}: the text of a.txt, which the step handed on
        index_by_kept_text = _index_by_kept_text(change.node, retrieved)
        if not index_by_kept_text:
            continue
        removed = _identities_removed(change, nodes)
        for identity in removed.intersection(index_by_identity):
            duplicate_index = index_by_identity[identity]
            text = retrieved[duplicate_index].text
            copy_index = _index_of_copy(text, index_by_kept_text)
            if copy_index is not None:
                copy_by_document_index.setdefault(duplicate_index, copy_index)
    return copy_by_document_index


def _identities_removed(
    change: DocumentChange, nodes: Iterable[Node]
) -> set[DocumentKey]:
    """Return the identities of the documents that nobody has any longer after a step.

    The step took them, and did not hand them on; nor did a later call take them.
    """
    identities_taken = _identities_of(change.documents_taken)
    identities_handed_on = _identities_of(_handed_on(change.node))
    identities_taken_later = _identities_taken_after(change.node, nodes)
    return identities_taken - identities_handed_on - identities_taken_later


def _index_of_copy(text: str, index_by_kept_text: Mapping[str, int]) -> int | None:
    """Return the index of the document that a step kept in the place of a duplicate.

    Its text is equal, or equal but for white space and case, or it holds the duplicate:
    "It fell." is a duplicate beside "It fell. It was old." None if no such text was kept.

    Args:
        text: The text of the document that the step removed.
        index_by_kept_text: The indexes of the documents that it handed on, by text.
    """
    if text in index_by_kept_text:
        return index_by_kept_text[text]
    duplicate = Text(text)
    kept_texts = [(Text(kept), index) for kept, index in index_by_kept_text.items()]
    for kept_text, index in kept_texts:
        if duplicate.normalized == kept_text.normalized:
            return index
    for kept_text, index in kept_texts:
        if is_contained_as_words(duplicate, kept_text):
            return index
    return None


def _index_by_kept_text(step: Node, retrieved: Sequence[Document]) -> dict[str, int]:
    """Return, by its text, the index of each retrieved document that a step handed on.

    Of several documents with one text the first counts. A step that counts its
    documents anew gives the id of one to the text of another: such a document is left
    out.
    """
    index_by_identity = _index_by_identity(retrieved)
    index_by_text: dict[str, int] = {}
    for document in _handed_on(step):
        index = index_by_identity.get(document.identity)
        if index is not None and retrieved[index].text == document.text:
            index_by_text.setdefault(document.text, index)
    return index_by_text


def _index_by_identity(retrieved: Sequence[Document]) -> dict[DocumentKey, int]:
    """Return the index of each retrieved document by its identity."""
    return {document.identity: index for index, document in enumerate(retrieved)}


def _identities_of(documents: Iterable[Document]) -> set[DocumentKey]:
    """Return the identities of some documents."""
    return {document.identity for document in documents}


def _handed_on(step: Node) -> tuple[Document, ...]:
    """Return the documents that a step returned or passed on."""
    return (*(step.documents or ()), *step.documents_passed_on)


def _identities_taken_after(step: Node, nodes: Iterable[Node]) -> set[DocumentKey]:
    """Return the identities of the documents that calls after a step took."""
    identities: set[DocumentKey] = set()
    for later in nodes:
        if began_after(later, step):
            identities |= _identities_of(later.input_documents)
            identities |= _identities_of(later.documents_among_inputs)
    return identities


def _first_step_by_document_index(
    retrieved: Sequence[Document], changes: Sequence[DocumentChange]
) -> dict[int, str]:
    """Name for each retrieved document the first of some steps that dropped it.

    Example: "translator" took the document 0 and returned its translation: ``{0:
    "translator"}``. Documents that no such step dropped are left out.
    """
    step_by_document_index: dict[int, str] = {}
    for change in changes:
        dropped_keys = match_documents(retrieved, change.dropped).successor_keys
        for index, dropped_key in enumerate(dropped_keys):
            if dropped_key is not None:
                step_by_document_index.setdefault(index, change.node.name)
    return step_by_document_index


@dataclass(frozen=True)
class _StepBeforeAnswer:
    """A reranker or filter between the searches and the answer.

    Attributes:
        change: What it made of its documents.
        documents_taken: The documents that it was given; where nobody recorded these,
            all that was found before it.
    """

    change: DocumentChange
    documents_taken: tuple[Document, ...]


def _steps_before_answer(
    changes: Sequence[DocumentChange], calls: Calls, answering_call: Node | None
) -> list[_StepBeforeAnswer]:
    """List the rerankers and filters that ended before the answering call began.

    Example: a reranker ran from 1.0 to 2.0, the answering call began at 3.0, and a
    filter ended at 5.0: the reranker. All count if the answering call is None, unknown.
    """
    steps: list[_StepBeforeAnswer] = []
    for change in changes:
        node = change.node
        if not _is_reranker_or_filter(change) or _is_reported_by_search(node, calls):
            continue
        if _is_before(node, answering_call):
            documents_taken = change.documents_taken or _documents_found_before(
                node, calls
            )
            steps.append(_StepBeforeAnswer(change, documents_taken))
    return steps


def _is_before(step: Node, answering_call: Node | None) -> bool:
    """Whether a step ended before the answering call began; True if that is unknown."""
    return answering_call is None or began_after(answering_call, step)


def _is_reranker_or_filter(change: DocumentChange) -> bool:
    """Whether a change was made by a reranker that returned documents, or by a filter."""
    is_reranker = change.node.kind == "reranker" and change.node.documents is not None
    return is_reranker or change.is_filter


def _is_reported_by_search(node: Node, calls: Calls) -> bool:
    """Whether what a step returned counts as found: by itself, or by a retriever around it."""
    callers = calls.paths[node][:-1]
    is_in_retriever = any(caller.kind == "retriever" for caller in callers)
    return is_in_retriever or node in calls.retrievals


def _documents_found_before(node: Node, calls: Calls) -> tuple[Document, ...]:
    """List all documents that searches found before a step began."""
    found: list[Document] = []
    for search, documents in calls.retrievals.items():
        if began_after(node, search):
            found += documents
    return tuple(found)


def _step_effect(step: _StepBeforeAnswer, retrieved: Sequence[Document]) -> StepEffect:
    """Say which of the retrieved documents a step took and returned."""
    change = step.change
    return StepEffect(
        change.node.name,
        change.node,
        frozenset(_indexes_of(step.documents_taken, retrieved)),
        tuple(_indexes_of(change.returned, retrieved)),
        returns_unknown_texts=_has_unknown_texts(change, retrieved),
    )


def _has_unknown_texts(change: DocumentChange, retrieved: Sequence[Document]) -> bool:
    """Whether a step returned new texts that were made of no retrieved document.

    A text of unknown origin counts as retrieved. It may be a translation all the same.
    """
    if not change.replaces_documents:
        return False
    if change.texts_of_unknown_origin:
        return True
    return bool(match_documents(retrieved, change.returned).unmatched_keys)


def _indexes_of(
    documents: Sequence[Document], retrieved: Sequence[Document]
) -> list[int]:
    """Find the indexes that documents of a step have among the retrieved documents.

    The ids tell. The words of all documents are compared instead if an id is unknown, or
    if a document has the text of one retrieved document, and the id of another.

    Example: A (id "0") and B (id "1") were retrieved. A step returned B with the id
    "1": [1]. Another step counted its documents anew, and returned B with the id "0",
    which is the id of A: the words tell that it is B, so [1] as well.

    Returns:
        The indexes, in the order of ``documents``.
    """
    index_by_identity = _index_by_identity(retrieved)
    retrieved_texts = {other.text for other in retrieved}
    indexes: list[int] = []
    for document in documents:
        index = index_by_identity.get(document.identity)
        if index is None:  # the step gave it a new id
            return _indexes_by_words(documents, retrieved)
        # the id "0" of A, with the text of B
        has_other_text = document.text not in retrieved[index].texts
        if has_other_text and document.text in retrieved_texts:
            return _indexes_by_words(documents, retrieved)
        indexes.append(index)
    return list(dict.fromkeys(indexes))


def _indexes_by_words(
    documents: Sequence[Document], retrieved: Sequence[Document]
) -> list[int]:
    """Recognise retrieved documents in a step's documents by their words.

    Example: a search found "The bridge is old. It was opened to the public in spring
    1874." (index 0) and "IRON" (index 1). A reranker returned "IRON" and the cut text
    "It was opened to the public in spring 1874.": [1, 0].

    Args:
        documents: The documents that the step took or returned.
        retrieved: The retrieved documents.

    Returns:
        The indexes of the recognised retrieved documents, in the order of the step.
    """
    # the rank of a document is its place in the step's list, from 0
    document_keys = dict.fromkeys(document.key for document in documents)
    rank_by_key = {
        document_key: rank for rank, document_key in enumerate(document_keys)
    }
    # for each retrieved document: the key of the step's document made of it, or None
    step_keys = match_documents(retrieved, documents).successor_keys
    ranks_and_indexes = []
    for retrieved_index, document_key in enumerate(step_keys):
        if document_key is not None:
            ranks_and_indexes.append((rank_by_key[document_key], retrieved_index))
    return [index for _, index in sorted(ranks_and_indexes)]


def _retriever_effect(
    retriever: Node, found_by_inner_searches: Sequence[FoundByInnerSearch]
) -> RetrieverEffect:
    """Say which documents of searches inside it a retriever dropped, cut or rewrote.

    Example: the searches found A, B and "It is old. It fell.", and the retriever returned
    A and "It is old.": it dropped B, and cut "It is old." out of the third document.
    """
    documents = [found.document for found in found_by_inner_searches]
    returned = retriever.documents or ()
    parts_by_document_index = _parts_by_document_index(documents, returned)
    matched = match_documents(documents, returned)
    effect = _effect_by_likeness(
        retriever,
        found_by_inner_searches,
        parts_by_document_index,
        matched.successor_keys,
    )
    # returned texts that were made of no document found inside, as far as is known
    keys_of_new_texts = frozenset(matched.unmatched_keys).difference(
        *parts_by_document_index.values()
    )
    return _with_new_texts(effect, keys_of_new_texts) if keys_of_new_texts else effect


def _effect_by_likeness(
    retriever: Node,
    found_by_inner_searches: Sequence[FoundByInnerSearch],
    parts_by_document_index: Mapping[int, frozenset[DocumentKey]],
    successor_keys: Sequence[DocumentKey | None],
) -> RetrieverEffect:
    """Say which documents a retriever dropped, cut or rewrote, by what it returned.

    Args:
        retriever: The retriever.
        found_by_inner_searches: The documents that searches inside it found.
        parts_by_document_index: By the index of such a document the keys of the returned
            documents that are parts of it.
        successor_keys: For each such document the key of the returned document that has
            its id or most of its words; None if there is none.
    """
    returned = retriever.documents or ()
    normalized_returned = [normalize_text(document.text) for document in returned]
    dropped: list[FoundByInnerSearch] = []
    cut: list[CutByRetriever] = []
    document_keys_rewritten: set[DocumentKey] = set()
    for index, found in enumerate(found_by_inner_searches):
        if _is_handed_on_whole(found.document, normalized_returned):
            continue
        keys_of_its_parts = parts_by_document_index.get(index)
        rewritten_key = successor_keys[index]
        if keys_of_its_parts:
            cut.append(CutByRetriever(found, keys_of_its_parts))
        elif rewritten_key is not None:
            document_keys_rewritten.add(rewritten_key)
        else:
            dropped.append(found)
    return RetrieverEffect(
        retriever, tuple(dropped), tuple(cut), frozenset(document_keys_rewritten)
    )


def _with_new_texts(
    effect: RetrieverEffect, keys_of_new_texts: frozenset[DocumentKey]
) -> RetrieverEffect:
    """Add to a retriever's effect the new texts that it returned.

    Example: B was found inside a retriever, and nothing like B was returned: it seems
    dropped. But a new text was returned, "A tower fell.", which may be B in other words:
    then B was not dropped. So nobody knows what was dropped, and what seems to be cut
    out of a document counts as written in new words, too.
    """
    document_keys_in_new_words = effect.document_keys_in_new_words | keys_of_new_texts
    for cut in effect.cut:
        document_keys_in_new_words |= cut.document_keys_of_parts
    return RetrieverEffect(
        effect.retriever,
        dropped=(),
        cut=(),
        document_keys_in_new_words=document_keys_in_new_words,
    )


def _parts_by_document_index(
    documents: Sequence[Document], returned: Sequence[Document]
) -> dict[int, frozenset[DocumentKey]]:
    """Find the returned documents that are parts of a longer one that was found.

    Example: the documents "It is old. It fell." and "IRON" were found, and "It is old."
    and "IRON" returned: ``{0: {key of "It is old."}}``.

    Args:
        documents: What searches inside a retriever found.
        returned: What the retriever returned.
    """
    texts_found = {text for document in documents for text in document.own_texts}
    # each document with and without its metadata
    texts_by_document_index = [
        [Text(text) for text in document.own_texts] for document in documents
    ]
    keys_by_document_index: dict[int, set[DocumentKey]] = {}
    for part in returned:
        if part.text in texts_found:
            continue  # it is a document of its own
        text = Text(part.text)
        sentences = [Text(sentence) for sentence in split_sentences(part.text)]
        indexes_holding_it = [
            index
            for index, texts in enumerate(texts_by_document_index)
            if any(_is_part(text, sentences, whole) for whole in texts)
        ]
        if indexes_holding_it:
            # of several that hold its words, the one with its id, else its metadata
            index = min(
                indexes_holding_it,
                key=lambda index: _unlikeness(documents[index], part),
            )
            keys_by_document_index.setdefault(index, set()).add(part.key)
    return {
        index: frozenset(document_keys)
        for index, document_keys in keys_by_document_index.items()
    }


def _is_part(text: Text, sentences: Sequence[Text], whole: Text) -> bool:
    """Whether a text is a part of a longer one, or all its sentences stand there."""
    if not text.normalized or len(text.normalized) >= len(whole.normalized):
        return False
    if _stands_in(text, whole):
        return True
    return all(
        _stands_in(sentence, whole) for sentence in sentences if sentence.normalized
    )


def _stands_in(text: Text, whole: Text) -> bool:
    """Whether a text stands in another one, and cuts none of its words or numbers."""
    return is_contained_as_words(text, whole) or holds_as_words(whole.raw, text.raw)


def _unlikeness(document: Document, part: Document) -> int:
    """Tell how unlike a part is to a document that holds its words: 0 to 2.

    0 if it has the document's id, 1 if it has its metadata, else 2.
    """
    if part.own_id is not None and part.own_id == document.own_id:
        return 0
    return 1 if part.metadata == document.metadata else 2


def _is_handed_on_whole(
    document: Document, normalized_returned: Sequence[bytes]
) -> bool:
    """Whether the returned texts hold a document: one of them, or all together."""
    return any(
        _is_held_whole(normalize_text(text), normalized_returned)
        for text in document.own_texts
    )


def _is_held_whole(normalized: bytes, normalized_returned: Sequence[bytes]) -> bool:
    """Whether one of the returned texts holds a text, or all of them together do.

    All are given normalized (``normalize_text``).
    """
    if any(normalized in returned for returned in normalized_returned):
        return True
    return share_held(normalized, normalized_returned) == 1


def _found_inside_each_retriever(calls: Calls) -> dict[Node, list[FoundByInnerSearch]]:
    """List, for each retriever with searches inside it, the documents that these found.

    Such a retriever compresses documents, or fuses several lists.
    """
    found_by_retriever = {}
    for retriever in calls.retrievals:
        found_by_inner_searches = _found_by_inner_searches(retriever)
        if found_by_inner_searches and retriever.documents is not None:
            found_by_retriever[retriever] = found_by_inner_searches
    return found_by_retriever


def _found_by_inner_searches(retriever: Node) -> list[FoundByInnerSearch]:
    """List the documents that retrievers inside a retriever found, each once.

    Example: a retriever compresses what a fusion of "bm25" and "dense" found: these
    two are searches, and the fusion only hands on what they found.
    """
    _, *inner_calls = retriever.walk()
    searches = [call for call in inner_calls if call.kind == "retriever"]
    searches.sort(key=_has_inner_search)  # the innermost first, else as they began
    found: dict[str, FoundByInnerSearch] = {}
    for search in searches:
        for rank, document in enumerate(search.documents or (), start=1):
            document_key = document.own_id or document.text
            found.setdefault(document_key, FoundByInnerSearch(document, search, rank))
    return list(found.values())


def _has_inner_search(search: Node) -> bool:
    """Whether a retriever has other retrievers inside it."""
    _, *inner_calls = search.walk()
    return any(call.kind == "retriever" for call in inner_calls)
