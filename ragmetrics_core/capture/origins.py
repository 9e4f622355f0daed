"""Which document each context shows. Pure.

The **key** of a document is its id and text, or its text and metadata
(``Document.key``). A context has the key of the document that it shows. A step
between search and prompt may have cut, merged or renamed documents: a search found
"It is old. It fell in 1874.", and the prompt shows "It fell in 1874." under another id.
Then the keys differ, and the texts tell that the context shows this document.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.locating import DISTINCTIVE_LENGTH, locate
from ragmetrics_core.capture.tree import Document, DocumentKey
from ragmetrics_core.data import Context
from ragmetrics_core.data.word_borders import holds_as_words

HALF = 0.5


def context_keys_of(
    documents: Sequence[Document], contexts: Mapping[DocumentKey, Context]
) -> list[DocumentKey | None]:
    """Find for each document the context that shows it, and return the context's key.

    Example: a search found "It is old. It fell in 1874." with the id "a", and a context
    has the same id: its key is returned. If the application cut the text, and the
    context is "It fell in 1874." without an id, the words that both share decide.

    Args:
        documents: The documents, in any order.
        contexts: The contexts, each by the key of its document.

    Returns:
        For each document the key of its context; None if no context shows it.
    """
    document_keys: list[DocumentKey | None] = [document.key for document in documents]
    if all(key in contexts for key in document_keys):
        return document_keys  # the prompt shows each document as it was found
    context_keys = _context_keys_by_name_or_text(documents, contexts)
    indexes_without_context = [
        index for index, key in enumerate(context_keys) if key is None
    ]
    # A context that was found for one chunk is not tried for others. The next chunk
    # overlaps the first: by its words it would match this context, too.
    keys_without_document = [key for key in contexts if key not in context_keys]
    if not indexes_without_context or not keys_without_document:
        return context_keys
    keys_by_shared_text = _keys_of_texts_made_from(
        [documents[index] for index in indexes_without_context],
        {key: contexts[key].text for key in keys_without_document},
    )
    for index, key in zip(indexes_without_context, keys_by_shared_text, strict=True):
        context_keys[index] = key
    return context_keys


def _context_keys_by_name_or_text(
    documents: Sequence[Document], contexts: Mapping[DocumentKey, Context]
) -> list[DocumentKey | None]:
    """Find for each document the key of the context that has its key, id or text.

    Example: for the document "It fell in 1874." with the id "a" the first of these is
    returned: the key of the context with the same key, with the id "a", with this text,
    or with this text inside a longer text. None if there is no such context.
    """
    key_by_id = _keys_by_trusted_ids(documents, contexts)
    key_by_text: dict[str, DocumentKey] = {}
    for key, context in contexts.items():
        key_by_text.setdefault(context.text, key)  # of equal texts the first counts
    context_keys: list[DocumentKey | None] = []
    for document in documents:
        if document.key in contexts:
            context_keys.append(document.key)
            continue
        context_keys.append(
            key_by_id.get(document.own_id or "")
            or key_by_text.get(document.text)
            or _key_of_holder(document, contexts)
        )
    return context_keys


def _keys_by_trusted_ids(
    documents: Iterable[Document], contexts: Mapping[DocumentKey, Context]
) -> dict[str, DocumentKey]:
    """Return the keys of the contexts by their ids; of equal ids the first counts.

    Ids that a step between search and prompt gave anew are left out. Example: a search
    found "It is old." as "0" and "It fell." as "1", and the context "It fell." has the
    id "0", since it stands first in the prompt. This "0" is not the document "0".
    """
    ids_by_text: dict[str, set[str]] = {}
    for document in documents:
        if document.own_id:
            ids_by_text.setdefault(document.text, set()).add(document.own_id)
    key_by_id: dict[str, DocumentKey] = {}
    for key, context in contexts.items():
        ids_of_documents = ids_by_text.get(context.text)  # with the context's text
        is_given_anew = ids_of_documents and context.id not in ids_of_documents
        if context.id and not is_given_anew:
            key_by_id.setdefault(context.id, key)
    return key_by_id


def _key_of_holder(
    document: Document, contexts: Mapping[DocumentKey, Context]
) -> DocumentKey | None:
    """Return the key of the first context in which a document stands, if one holds it.

    It may stand there without its heading. Example: of the document "file: a.md, It fell
    in 1874." the context "file: a.md, It opened in 1870. It fell in 1874." holds the text
    without the heading. "It is 12" does not stand in "It is 125". A text that is too
    short to be sure of is not looked for.
    """
    for text in document.own_texts:
        if len(text) < DISTINCTIVE_LENGTH:
            continue
        for key, context in contexts.items():
            if holds_as_words(context.text, text):
                return key
    return None


def _keys_of_texts_made_from(
    documents: Sequence[Document], text_by_key: Mapping[DocumentKey, str]
) -> list[DocumentKey | None]:
    """Find for each document the key of the text that was made from it, or None.

    A text was made from a document if one of the two holds half of the other. Example:
    a page has ten sentences. "Summary: …" with six of them was made from the page, and
    so was a text that is one sentence of the page.
    """
    keys = list(text_by_key)
    texts = list(text_by_key.values())
    document_texts = [document.text for document in documents]
    # _halves_found(a, b): for each of a the text of b that holds half of it. First: the
    # index of a document, with the index of a text that holds half of the document.
    text_index_by_document = dict(_halves_found(document_texts, texts))
    # Then the other way round: a text, and a document that holds half of the text. A
    # document that has a text already keeps it.
    for text_index, document_index in _halves_found(texts, document_texts):
        text_index_by_document.setdefault(document_index, text_index)
    found_keys: list[DocumentKey | None] = [None] * len(documents)
    for document_index, text_index in text_index_by_document.items():
        found_keys[document_index] = keys[text_index]
    return found_keys


def _halves_found(
    sought: Sequence[str], holders: Sequence[str]
) -> Iterator[tuple[int, int]]:
    """Yield pairs of indexes: a sought text, and the holder in which half of it stands."""
    for finding in locate(sought, holders).findings:
        if finding.message_index is not None and finding.coverage >= HALF:
            yield finding.candidate_index, finding.message_index


def keys_of_unmatched_contexts(
    documents: Sequence[Document], contexts: Mapping[DocumentKey, Context]
) -> list[DocumentKey]:
    """List the keys of contexts that show no document.

    Args:
        documents: The documents.
        contexts: The contexts, each by the key of its document.
    """
    context_keys = context_keys_of(documents, contexts)
    return _keys_without_document(context_keys, documents, contexts)


def _keys_without_document(
    context_keys: Sequence[DocumentKey | None],
    documents: Sequence[Document],
    contexts: Mapping[DocumentKey, Context],
) -> list[DocumentKey]:
    """List the keys of contexts that show no document, nor are made of documents.

    ``context_keys`` holds for each document the key of the context that shows it.
    """
    keys_with_document = set(context_keys)
    return [
        key
        for key, context in contexts.items()
        if key not in keys_with_document and not derives_from(context.text, documents)
    ]


@dataclass(frozen=True)
class MatchedContexts:
    """Which context shows which document.

    Attributes:
        context_keys: For each document the key of the context that shows it; None if
            no context does.
        unmatched_keys: The keys of contexts that show none of the documents.
        context_keys_matched_by_id_alone: The keys of contexts that have the id of a
            document, but other words: the text was rewritten.
    """

    context_keys: list[DocumentKey | None]
    unmatched_keys: list[DocumentKey]
    context_keys_matched_by_id_alone: frozenset[DocumentKey]


def match_contexts(
    documents: Sequence[Document], contexts: Mapping[DocumentKey, Context]
) -> MatchedContexts:
    """Find which context shows which document.

    Example: documents A and B were found; the contexts are A as it is, a summary with
    the id of B, and a text from elsewhere. A and B are matched, B by its id alone; the
    third context is unmatched.

    Args:
        documents: The documents.
        contexts: The contexts, each by the key of its document.
    """
    context_keys = context_keys_of(documents, contexts)
    unmatched_keys = _keys_without_document(context_keys, documents, contexts)
    keys_by_id_alone: set[DocumentKey] = set()
    for document, key in zip(documents, context_keys, strict=True):
        # No context shows the document, or its context has the same text: a key holds id
        # and text, so that a rewritten text has another key.
        if key is None or key == document.key:
            continue
        # the context has the document's id, and other words: the text was rewritten
        if not _has_words_of(contexts[key].text, document):
            keys_by_id_alone.add(key)
    return MatchedContexts(context_keys, unmatched_keys, frozenset(keys_by_id_alone))


def _has_words_of(text: str, document: Document) -> bool:
    """Whether a text holds a document, or was made of it."""
    return document.text in text or derives_from(text, [document])


@dataclass(frozen=True)
class MatchedDocuments:
    """For each earlier document the later document that was made of it.

    Attributes:
        successor_keys: For each earlier document the key of the later document that holds
            it or was made of it; None if there is none.
        unmatched_keys: The keys of the later documents that were made of no earlier
            document.
    """

    successor_keys: list[DocumentKey | None]
    unmatched_keys: list[DocumentKey]


def match_documents(
    earlier: Sequence[Document], later: Sequence[Document]
) -> MatchedDocuments:
    """Find for each earlier document the later document that was made of it.

    Documents are matched by key, by id, and by the words that they share.

    Args:
        earlier: Documents that were there before.
        later: Documents that a call took or returned.
    """
    context_by_key = {document.key: document.context() for document in later}
    successor_keys = context_keys_of(earlier, context_by_key)
    unmatched_keys = _keys_without_document(successor_keys, earlier, context_by_key)
    return MatchedDocuments(successor_keys, unmatched_keys)


def derives_from(text: str, documents: Sequence[Document]) -> bool:
    """Whether a text was cut from documents, or made of them.

    At least half of the text stands in them, or it holds at least half of one. Example:
    "Summary: " and six of a page's ten sentences. Less proves nothing: chunks of one
    page overlap.
    """
    document_texts: list[str] = []
    for document in documents:
        document_texts += document.texts
    places_in_documents = locate([text], document_texts).findings
    places_of_documents = locate(document_texts, text).findings
    places = (*places_in_documents, *places_of_documents)
    return any(place.coverage >= HALF for place in places)
