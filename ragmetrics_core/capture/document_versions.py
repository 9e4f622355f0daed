"""Which version of a document counts where lists or prompts hold several. Pure.

Documents are told apart by their keys (``Document.key``). Versions of a document have
different texts, and so different keys, but one id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ragmetrics_core.capture.findings import Finding, unite_findings
from ragmetrics_core.capture.prompt_search import ShownDocument
from ragmetrics_core.capture.tree import Document, DocumentKey


def latest_versions(lists: Iterable[Sequence[Document]]) -> list[Document]:
    """Return each document once, as the latest list holds it.

    It has the score of the last step that scored it. Example: a search returned A with
    the score 0.9, and a later step returned A without a score: A with 0.9.

    Args:
        lists: Lists of documents, the latest first.
    """
    latest: dict[DocumentKey, Document] = {}
    for documents in lists:
        for document in documents:
            latest_version = latest.setdefault(document.key, document)
            if latest_version.score is None and document.score is not None:
                scored = replace(latest_version, score=document.score)
                latest[document.key] = scored
    return _without_bare_texts(latest.values())


def _without_bare_texts(documents: Collection[Document]) -> list[Document]:
    """Leave out documents without an id whose text another document has.

    A step may hand on the text of a document without its id.
    """
    texts_with_id: set[str] = set()
    for document in documents:
        if document.id is not None:
            texts_with_id.update(document.texts)
    return [
        document
        for document in documents
        if document.id is not None or document.text not in texts_with_id
    ]


def document_keys_in_retrieved_order(
    lists: Sequence[Sequence[Document]],
) -> list[DocumentKey]:
    """Return the keys of all documents of some lists, the first retrieved first.

    Args:
        lists: The lists, the latest first.
    """
    document_keys: dict[DocumentKey, None] = {}
    for documents in reversed(lists):
        for document in documents:
            document_keys[document.key] = None
    return list(document_keys)


def unite_shown_documents(
    shown_in_prompts: Iterable[Mapping[DocumentKey, ShownDocument]],
) -> dict[DocumentKey, ShownDocument]:
    """Unite the documents that several prompts show, by their keys.

    Example: one prompt shows the first half of A, another the second half, and B: A as
    a whole, and B.

    Args:
        shown_in_prompts: What each prompt shows.
    """
    shown_documents_by_key: dict[DocumentKey, ShownDocument] = {}
    for shown_in_prompt in shown_in_prompts:
        for document_key, shown_document in shown_in_prompt.items():
            if document_key in shown_documents_by_key:
                earlier = shown_documents_by_key[document_key]
                shown_documents_by_key[document_key] = _unite_shown_document(
                    earlier, shown_document
                )
            else:
                shown_documents_by_key[document_key] = shown_document
    return shown_documents_by_key


def _unite_shown_document(
    earlier: ShownDocument, later: ShownDocument
) -> ShownDocument:
    """Unite what the prompts of two calls show of one document.

    If both show the same text of it, their parts count together. So they do if one
    shows it with a heading, and the other without. Otherwise the prompt counts that
    shows more.
    """
    document, earlier_finding = earlier
    _, later_finding = later
    if later_finding.is_of_same_text_as(earlier_finding):
        return document, unite_findings([earlier_finding, later_finding])
    shown = later if later_finding.coverage > earlier_finding.coverage else earlier
    united = _unite_in_longer_text(earlier_finding, later_finding)
    if united is not None and united.coverage > shown[1].coverage:
        return document, united
    return shown


def _unite_in_longer_text(earlier: Finding, later: Finding) -> Finding | None:
    """Unite what two prompts show of two texts of one document, if one holds the other.

    Example: one prompt shows "file: a.md, It is", the beginning of the document with its
    heading. The other shows "old.", the end of the document without it. Together they
    show all of "file: a.md, It is old.". None if neither text holds the other.
    """
    findings = [earlier, later]
    texts = [finding.shown_in_prompts[0].text for finding in findings]
    longer = max(texts, key=lambda text: len(text.normalized))
    in_longer = [finding.in_longer_text(longer) for finding in findings]
    parts = [part for part in in_longer if part is not None]
    return unite_findings(parts) if len(parts) == len(findings) else None


def order_with_unknown(
    shown_documents_by_key: Mapping[DocumentKey, object],
    unknown_documents: Mapping[DocumentKey, object],
    lists: Sequence[Sequence[Document]],
) -> list[DocumentKey]:
    """Insert unknown documents between the shown ones, in the order of their list.

    Example: the prompts show C and A, and may show B. The last search gave [A, B, C]:
    B follows A, so the order is [C, A, B].

    Args:
        shown_documents_by_key: The documents shown, in the order of the prompts.
        unknown_documents: The documents that the prompts may show or not.
        lists: The lists of documents, the latest first. The first list with a shown
            document counts; unknown documents of other lists are left out.
    """
    ordered_keys = list(shown_documents_by_key)
    previous_key: DocumentKey | None = None  # the neighbour before, shown or inserted
    for document_key in _keys_of_first_list_with(shown_documents_by_key, lists):
        if document_key in unknown_documents and document_key not in ordered_keys:
            index = 0
            if previous_key is not None:
                index = ordered_keys.index(previous_key) + 1
            ordered_keys.insert(index, document_key)
        if document_key in ordered_keys:
            previous_key = document_key
    return ordered_keys


def _keys_of_first_list_with(
    shown_documents_by_key: Mapping[DocumentKey, object],
    lists: Sequence[Sequence[Document]],
) -> list[DocumentKey]:
    """Return the keys of the first list that holds a shown document; empty if none does."""
    for documents in lists:
        document_keys = [document.key for document in documents]
        if not shown_documents_by_key.keys().isdisjoint(document_keys):
            return document_keys
    return []


def best_versions(
    shown_documents_by_key: Mapping[DocumentKey, ShownDocument],
) -> dict[DocumentKey, ShownDocument]:
    """Drop the weaker versions of each document; versions of a document share its id.

    Versions that are shown whole are kept. If none is shown whole, the version with
    most characters shown is kept. Example: of the page "a" and its summary, also "a",
    the prompt shows the whole summary and a sentence of the page: the page is dropped.
    """
    weaker_keys: set[DocumentKey] = set()
    for document_keys in _keys_by_id(shown_documents_by_key).values():
        best_keys = _keys_of_fullest(document_keys, shown_documents_by_key)
        weaker_keys.update(
            document_key
            for document_key in document_keys
            if document_key not in best_keys
        )
    return {
        document_key: shown_document
        for document_key, shown_document in shown_documents_by_key.items()
        if document_key not in weaker_keys
    }


def _keys_by_id(
    shown_documents_by_key: Mapping[DocumentKey, ShownDocument],
) -> dict[str, list[DocumentKey]]:
    """Return the keys of the versions of each document that has an id."""
    keys_by_id: dict[str, list[DocumentKey]] = {}
    for document_key, (document, _) in shown_documents_by_key.items():
        if document.own_id is not None:
            keys_by_id.setdefault(document.own_id, []).append(document_key)
    return keys_by_id


def _keys_of_fullest(
    document_keys: Sequence[DocumentKey],
    shown_documents_by_key: Mapping[DocumentKey, ShownDocument],
) -> list[DocumentKey]:
    """Return the versions of a document that are shown whole, else the one shown most.

    Example: 40 characters of the page and 25 of its summary are shown: the page.

    Args:
        document_keys: The keys of the versions; at least one.
        shown_documents_by_key: The documents shown.
    """
    whole_keys = []
    n_characters_by_key: dict[DocumentKey, int] = {}
    for document_key in document_keys:
        _, finding = shown_documents_by_key[document_key]
        n_characters_by_key[document_key] = len(finding.text)
        if finding.extent == "whole":
            whole_keys.append(document_key)
    if whole_keys:
        return whole_keys
    return [
        max(document_keys, key=lambda document_key: n_characters_by_key[document_key])
    ]
