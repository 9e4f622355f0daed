"""Which of the documents that arrived stands behind each context. Pure.

A context stands under the **key** of the document of which it was made
(``Document.key``). A step between search and prompt may have cut, merged or renamed
documents, so that the key of a document that arrived is not always that of its context.
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
    """For each document the key of the context that shows it.

    It is the context of the same key, else of the same id, else the one that has or
    holds its text. An id counts where it names one document alone. A document of which
    none of these is shown may have been cut or merged by a step that kept no id. Then
    it stands behind a context that no other document accounts for: chunks overlap, and
    a few shared sentences make no other chunk out of one.

    Args:
        documents: All documents that arrived, in any order.
        contexts: The contexts, each by the key of the document behind it.

    Returns:
        A key of a context for each document, in the same order; None for one that is
        not shown.
    """
    context_keys = _context_keys_by_name_or_text(documents, contexts)
    # a step may have cut or merged these, and kept no id
    unplaced = [index for index, key in enumerate(context_keys) if key is None]
    unaccounted = [key for key in contexts if key not in context_keys]
    if not unplaced or not unaccounted:
        return context_keys
    reworked_keys = _keys_of_most_text(
        [documents[index] for index in unplaced],
        {key: contexts[key].text for key in unaccounted},
    )
    for index, key in zip(unplaced, reworked_keys, strict=True):
        context_keys[index] = key
    return context_keys


def _context_keys_by_name_or_text(
    documents: Sequence[Document], contexts: Mapping[DocumentKey, Context]
) -> list[DocumentKey | None]:
    """For each document the context of its key, its id or its text.

    None for a document of which no context has any of these, nor holds its text.
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
    """For each document the key of the text that was made of it; None if there is none.

    Either the text holds at least half of the document, or it is cut out of it: at
    least half of the text stands in the document.
    """
    keys = list(text_by_key)
    texts = list(text_by_key.values())
    document_texts = [document.text for document in documents]
    found_keys: list[DocumentKey | None] = [None] * len(documents)
    # documents of which a text holds most
    for place in locate(document_texts, texts).findings:
        document_index = place.candidate_index
        text_index = place.message_index
        if text_index is not None and place.coverage >= HALF:
            found_keys[document_index] = keys[text_index]
    # texts of which a document holds most
    for place in locate(texts, document_texts).findings:
        cut_index = place.candidate_index
        holder_index = place.message_index
        if holder_index is None or place.coverage < HALF:
            continue
        if found_keys[holder_index] is None:
            found_keys[holder_index] = keys[cut_index]
    return found_keys


def keys_without_origin(
    documents: Sequence[Document], contexts: Mapping[DocumentKey, Context]
) -> list[DocumentKey]:
    """The keys of contexts behind which none of the documents stands."""
    context_keys = context_keys_of(documents, contexts)
    return keys_unexplained(context_keys, documents, contexts)


def keys_unexplained(
    context_keys: Sequence[DocumentKey | None],
    documents: Sequence[Document],
    contexts: Mapping[DocumentKey, Context],
) -> list[DocumentKey]:
    """The keys of contexts behind which none of the documents stands.

    Args:
        context_keys: For each document the key of the context that shows it, as
            ``context_keys_of`` gives it.
        documents: The documents.
        contexts: The contexts by key.
    """
    unexplained_keys = []
    explained_keys = set(context_keys)
    for key, context in contexts.items():
        if key in explained_keys or derives_from(context.text, documents):
            continue
        unexplained_keys.append(key)
    return unexplained_keys


@dataclass(frozen=True)
class ContextOrigins:
    """Which contexts show which of some documents, and which contexts show none.

    Attributes:
        context_keys: For each document the key of the context that shows it; None if
            none does.
        foreign_keys: The keys of contexts behind which none of the documents stands.
        keys_by_id_alone: The keys of contexts that have the id of a document, and no
            words of it.
    """

    context_keys: list[DocumentKey | None]
    foreign_keys: list[DocumentKey]
    keys_by_id_alone: frozenset[DocumentKey]


@dataclass(frozen=True)
class MatchedDocuments:
    """Which of some given documents stand behind others.

    Attributes:
        keys: For each of the others the key of the given document that holds it, or was
            made of it; None if there is none.
        unexplained: The keys of the given documents behind which none stands.
    """

    keys: list[DocumentKey | None]
    unexplained: list[DocumentKey]


def explain(
    documents: Sequence[Document], given: Sequence[Document]
) -> MatchedDocuments:
    """Find out which given documents hold, or are made of, which of some documents.

    Args:
        documents: Documents that were there before.
        given: Documents that a call gave.
    """
    given_by_key = {document.key: document.context() for document in given}
    keys = context_keys_of(documents, given_by_key)
    return MatchedDocuments(keys, keys_unexplained(keys, documents, given_by_key))


def origins_of(
    documents: Sequence[Document], contexts: Mapping[DocumentKey, Context]
) -> ContextOrigins:
    """Find out which contexts show which documents.

    Args:
        documents: The documents.
        contexts: The contexts, each by the key of the document behind it.
    """
    context_keys = context_keys_of(documents, contexts)
    foreign_keys = keys_unexplained(context_keys, documents, contexts)
    by_id_alone: set[DocumentKey] = set()
    for document, key in zip(documents, context_keys, strict=True):
        if key is None or key == document.key:
            continue
        text = contexts[key].text
        if document.text not in text and not derives_from(text, [document]):
            by_id_alone.add(key)
    return ContextOrigins(context_keys, foreign_keys, frozenset(by_id_alone))


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
