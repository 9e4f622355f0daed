"""Documents and citations of Cohere's chat, as its two interfaces write them. Pure.

The first interface lists ``documents`` beside the reply and names them in its citations
by ``document_ids``. The second one writes each cited document into the ``sources`` of
the citation, and says nothing of other documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ragmetrics_core.capture.provider_citations import Annotation
from ragmetrics_core.capture.provider_payloads import (
    Fields,
    as_json,
    inner_object,
    is_place,
    objects_in,
    words_in,
)
from ragmetrics_core.capture.tree import Document

# Keys of a document that hold its text, the usual ones first.
_TEXT_KEYS = ("snippet", "text", "content", "data")


@dataclass(frozen=True, slots=True)
class CohereDocuments:
    """What a reply of Cohere tells of documents.

    Attributes:
        documents: The documents whose text it tells, each once.
        annotations: Which documents it cites for which part of the reply.
        ids_without_text: The ids of documents that it cites without a text.
        lists_all_documents: Whether it lists all documents that the model was shown,
            and not only those that it cites.
    """

    documents: tuple[Document, ...]
    annotations: tuple[Annotation, ...] = field(repr=False)
    ids_without_text: tuple[str, ...]
    lists_all_documents: bool


def documents_of_cohere(place: Fields) -> CohereDocuments | None:
    """Read the documents of a Cohere reply, and which parts of the reply cite them.

    Example: the citation ``{"start": 0, "end": 8, "text": "It fell.", "sources": […]}``
    becomes an annotation of characters 0 to 8.

    Args:
        place: The message, its metadata, or the provider's whole response.

    Returns:
        What the reply tells; None for a reply of another provider.
    """
    citations = [
        citation
        for citation in objects_in(place.get("citations"))
        if "document_ids" in citation or "sources" in citation
    ]
    listed = [fields for fields in objects_in(place.get("documents")) if _id_of(fields)]
    # Cohere's first interface always has the key "citations" beside "documents". Its
    # value is empty or None if the reply cites no document.
    is_first_interface = bool(listed) and "citations" in place
    if not citations and not is_first_interface:
        return None
    document_by_id = _documents_by_id(listed, citations)
    annotations = list(_annotations_of(citations, document_by_id))
    # an annotation's names are the ids of the cited documents; its quote is the text of
    # the document, None if the reply does not tell the text
    ids_without_text: list[str] = []
    for annotation in annotations:
        if annotation.quote is None:
            ids_without_text += annotation.names
    with_text = [document for document in document_by_id.values() if document.text]
    return CohereDocuments(
        documents=tuple(with_text),
        annotations=tuple(annotations),
        ids_without_text=tuple(dict.fromkeys(ids_without_text)),
        lists_all_documents=bool(listed),
    )


def _documents_by_id(
    listed: Sequence[Fields], citations: Sequence[Fields]
) -> dict[str, Document]:
    """The documents of a reply by their ids: those listed, and those inside citations."""
    document_by_id = {_id_of(fields): _document(fields) for fields in listed}
    for citation in citations:
        for source in objects_in(citation.get("sources")):
            fields = inner_object(source, "document")
            if fields:
                document_by_id.setdefault(_id_of(source), _document(fields))
    return document_by_id


def _annotations_of(
    citations: Sequence[Fields], document_by_id: Mapping[str, Document]
) -> Iterator[Annotation]:
    """Yield an annotation for each source of each citation, with the source's text.

    Example: ``{"start": 0, "end": 8, "document_ids": ["d1", "d2"]}`` gives two, both
    for the characters 0 to 8.
    """
    for citation in citations:
        start, end = citation.get("start"), citation.get("end")
        has_span = is_place(start) and is_place(end)
        span = (start, end) if has_span else (None, None)
        for source_id, quote in _sources_of(citation, document_by_id):
            yield Annotation(*span, (source_id,), quote)


def _sources_of(
    citation: Fields, document_by_id: Mapping[str, Document]
) -> Iterator[tuple[str, str | None]]:
    """Yield the id and the text of each source that a citation names.

    ``{"document_ids": ["d1"]}`` gives "d1" with the text of this document, or with None
    if the reply does not hold the text. The output of a tool may be a source as well.
    """
    output_by_id: dict[str, Fields] = {}
    ids = list(words_in(citation.get("document_ids")))
    # {"sources": [{"id": "t1", "tool_output": {…}}]}
    for source in objects_in(citation.get("sources")):
        ids.append(_id_of(source))
        tool_output = inner_object(source, "tool_output")
        if tool_output:
            output_by_id[_id_of(source)] = tool_output
    for source_id in dict.fromkeys(ids):  # each once
        text: str | None = None
        if source_id in output_by_id:
            text = _text_of_output(output_by_id[source_id])
        elif source_id in document_by_id:
            text = document_by_id[source_id].text or None
        yield source_id, text


def _text_of_output(output: Fields) -> str:
    """The output of a tool as text: its only text, else all of it as JSON."""
    texts = list(words_in(list(output.values())))
    return texts[0] if len(output) == len(texts) == 1 else as_json(output)


def _id_of(fields: Fields) -> str:
    """The id of a document or source; empty if it has none."""
    own_id = fields.get("id")
    return own_id if isinstance(own_id, str) else ""


def _document(fields: Fields) -> Document:
    """Make a document of the fields that an application gave to Cohere.

    ``{"id": "d1", "snippet": "It fell.", "title": "Iron"}`` has the text "It fell." and
    the metadata title. Without a text under a usual name, such as "snippet", the object
    under "data" is read; without that, all fields joined are the text.
    """
    fields_with_words = {
        str(key): value
        for key, value in fields.items()
        if isinstance(value, str) and value.strip() and key != "id"
    }
    keys_of_text = [key for key in _TEXT_KEYS if key in fields_with_words]
    nested = inner_object(fields, "data")
    # {"id": "d1", "data": {"snippet": "It fell."}}
    if not keys_of_text and nested:
        return _document({**nested, "id": _id_of(fields)})
    if keys_of_text:
        text = fields_with_words[keys_of_text[0]]
    else:  # {"id": "d1", "title": "Iron", "year": "1874"}: "Iron" and "1874"
        text = "\n".join(fields_with_words.values())
    metadata = {key: value for key, value in fields_with_words.items() if value != text}
    return Document(text, _id_of(fields) or None, None, metadata)
