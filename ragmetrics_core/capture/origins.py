"""Which document each context shows. Pure.

The **key** of a document is its id and text, or its text and metadata
(``Document.key``). A context has the key of the document of which it was made. A step
between search and prompt may have cut, merged or renamed documents: a search found
"It is old. It fell in 1874.", and the prompt shows "It fell in 1874." under another id.
Then the keys differ, and the texts tell that the context shows this document.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.locating import DISTINCTIVE_LENGTH, locate
from ragmetrics_core.capture.tree import Document, DocumentKey
from ragmetrics_core.data import Context

HALF = 0.5


def context_keys_of(
    documents: Sequence[Document], contexts: Mapping[DocumentKey, Context]
) -> list[DocumentKey | None]:
    """Find for each document the context that shows it, and return the context's key.

    The key of a context is the id and the text of the document of which it was made. A
    context shows a document if it has the document's key, its id, or its whole text. A
    document without such a context may have been cut or merged. It is then compared
    with the contexts that show no other document: chunks overlap, so that a context
    which shows one chunk shares sentences with its neighbour.

    Args:
        documents: The documents, in any order.
        contexts: The contexts, each by the key of the document of which it was made.

    Returns:
        For each document, in the same order, the key of its context; None if no context
        shows it.
    """
    context_keys = _context_keys_by_name_or_text(documents, contexts)
    indexes_without_context = [
        index for index, key in enumerate(context_keys) if key is None
    ]
    keys_without_document = [key for key in contexts if key not in context_keys]
    if not indexes_without_context or not keys_without_document:
        return context_keys
    keys_by_shared_text = _keys_of_most_text(
        [documents[index] for index in indexes_without_context],
        {key: contexts[key].text for key in keys_without_document},
    )
    for index, key in zip(indexes_without_context, keys_by_shared_text, strict=True):
        context_keys[index] = key
    return context_keys


def _context_keys_by_name_or_text(
    documents: Sequence[Document], contexts: Mapping[DocumentKey, Context]
) -> list[DocumentKey | None]:
    """Find for each document the context that has its key, its id or its text.

    Returns:
        For each document the key of that context, else of a context that holds its text
        as a part; None if there is none.
    """
    first_of_id: dict[str, DocumentKey] = {}
    first_of_text: dict[str, DocumentKey] = {}
    for key, context in contexts.items():
        first_of_text.setdefault(context.text, key)
        if context.id:
            first_of_id.setdefault(context.id, key)
    context_keys: list[DocumentKey | None] = []
    for document in documents:
        context_key: DocumentKey | None = None
        if document.key in contexts:
            context_key = document.key
        elif document.own_id:
            context_key = first_of_id.get(document.own_id)
        if context_key is None:
            context_key = first_of_text.get(document.text)
        if context_key is None:
            context_key = _key_of_holder(document.text, contexts)
        context_keys.append(context_key)
    return context_keys


def _key_of_holder(
    text: str, contexts: Mapping[DocumentKey, Context]
) -> DocumentKey | None:
    """The key of the first context inside which a text stands as it is.

    None if no context holds it, or if it is too short to be sure.
    """
    if len(text) < DISTINCTIVE_LENGTH:
        return None
    for key, context in contexts.items():
        if text in context.text:
            return key
    return None


def _keys_of_most_text(
    documents: Sequence[Document], text_by_key: Mapping[DocumentKey, str]
) -> list[DocumentKey | None]:
    """Find for each document the text that was made of it, and return the text's key.

    Either the text holds at least half of the document, or it was cut out of the
    document: at least half of the text stands there. None if there is no such text.
    """
    keys = list(text_by_key)
    texts = list(text_by_key.values())
    document_texts = [document.text for document in documents]
    found_keys: list[DocumentKey | None] = [None] * len(documents)
    # A finding has two indexes: of the candidate, in the first list, and of the message
    # that holds it, in the second list. Coverage is the share of the candidate that
    # stands there.
    # a text may hold most of a document: several documents were merged
    for finding in locate(document_texts, texts).findings:
        document_index = finding.candidate_index
        text_index = finding.message_index
        if text_index is not None and finding.coverage >= HALF:
            found_keys[document_index] = keys[text_index]
    # a document may hold most of a text: the text was cut out of it
    for finding in locate(texts, document_texts).findings:
        text_index = finding.candidate_index
        holder_index = finding.message_index
        if holder_index is None or finding.coverage < HALF:
            continue
        if found_keys[holder_index] is None:
            found_keys[holder_index] = keys[text_index]
    return found_keys


def keys_of_unmatched_contexts(
    documents: Sequence[Document], contexts: Mapping[DocumentKey, Context]
) -> list[DocumentKey]:
    """List the keys of contexts that show none of some documents.

    Args:
        documents: The documents.
        contexts: The contexts, each by the key of the document of which it was made.
    """
    context_keys = context_keys_of(documents, contexts)
    return _keys_without_document(context_keys, documents, contexts)


def _keys_without_document(
    context_keys: Sequence[DocumentKey | None],
    documents: Sequence[Document],
    contexts: Mapping[DocumentKey, Context],
) -> list[DocumentKey]:
    """List the keys of contexts that show none of some documents, nor are made of them.

    Args:
        context_keys: For each document the key of the context that shows it, as
            ``context_keys_of`` gives it.
        documents: The documents.
        contexts: The contexts by key.
    """
    keys_without_document = []
    keys_with_document = set(context_keys)
    for key, context in contexts.items():
        if key in keys_with_document or derives_from(context.text, documents):
            continue
        keys_without_document.append(key)
    return keys_without_document


@dataclass(frozen=True)
class MatchedContexts:
    """Which context shows which document.

    Attributes:
        context_keys: For each document the key of the context that shows it; None if
            no context does.
        unmatched_keys: The keys of contexts that show none of the documents.
        keys_matched_by_id_alone: The keys of contexts that have the id of a document,
            but other words: the text was rewritten.
    """

    context_keys: list[DocumentKey | None]
    unmatched_keys: list[DocumentKey]
    keys_matched_by_id_alone: frozenset[DocumentKey]


def match_contexts(
    documents: Sequence[Document], contexts: Mapping[DocumentKey, Context]
) -> MatchedContexts:
    """Find out which context shows which document.

    Args:
        documents: The documents.
        contexts: The contexts, each by the key (id and text) of the document of which
            it was made. It may show a document with another key as well: one with the
            same id, or with words of the context.

    Returns:
        The context of each document, the contexts of no document, and the contexts that
        have a document's id and none of its words.
    """
    context_keys = context_keys_of(documents, contexts)
    unmatched_keys = _keys_without_document(context_keys, documents, contexts)
    keys_by_id_alone: set[DocumentKey] = set()
    for document, key in zip(documents, context_keys, strict=True):
        if key is None or key == document.key:
            continue
        # The keys differ, so that the context was matched by its id or by its words.
        # If it has none of the document's words, it was the id alone.
        context_text = contexts[key].text
        holds_document = document.text in context_text
        if not holds_document and not derives_from(context_text, [document]):
            keys_by_id_alone.add(key)
    return MatchedContexts(context_keys, unmatched_keys, frozenset(keys_by_id_alone))


@dataclass(frozen=True)
class MatchedDocuments:
    """Which later document was made of which earlier document.

    Attributes:
        later_keys: For each earlier document the key of the later document that holds
            it or was made of it; None if there is none.
        unmatched_keys: The keys of the later documents that were made of no earlier
            document.
    """

    later_keys: list[DocumentKey | None]
    unmatched_keys: list[DocumentKey]


def match_documents(
    earlier: Sequence[Document], later: Sequence[Document]
) -> MatchedDocuments:
    """Find out which later document was made of which earlier document.

    Documents are matched by key, by id, and by the words that they share.

    Args:
        earlier: Documents that were there before.
        later: Documents that a call took or returned.
    """
    context_by_key = {document.key: document.context() for document in later}
    later_keys = context_keys_of(earlier, context_by_key)
    unmatched_keys = _keys_without_document(later_keys, earlier, context_by_key)
    return MatchedDocuments(later_keys, unmatched_keys)


def derives_from(text: str, documents: Sequence[Document]) -> bool:
    """Whether a text was cut from documents, or made of them.

    At least half of the text stands in them, or it holds at least half of one. Less
    proves nothing: chunks of one page overlap.
    """
    document_texts: list[str] = []
    for document in documents:
        document_texts += document.texts
    places_in_documents = locate([text], document_texts).findings
    places_of_documents = locate(document_texts, text).findings
    places = (*places_in_documents, *places_of_documents)
    return any(place.coverage >= HALF for place in places)
