"""Sources that a provider names for places of its model's reply. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.provider_calls import names_of_source, text_of_item
from ragmetrics_core.capture.provider_payloads import (
    Fields,
    field_of,
    inner_object,
    is_list,
    is_place,
    objects_in,
)

_OF_FILES_MADE_BY_THE_MODEL = ("container_file_citation", "file_path")
# Keys of Anthropic's citations, each with the kinds of blocks of the request that it
# counts, in the names of Anthropic and of LangChain.
_KINDS_COUNTED = {
    "document_index": ("document", "text-plain", "file"),
    "search_result_index": ("search_result",),
}
KINDS_OF_EVIDENCE = frozenset(chain.from_iterable(_KINDS_COUNTED.values()))
"""The types of the blocks of a request by which an application hands in evidence."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """A source that the provider names for a place of the reply.

    Attributes:
        start: Where that place begins in the reply's text; None if it is not told.
        end: Where it ends, after its last sign; None if it is not told. The place is a
            point, with ``start == end``, if the provider tells only where the sentence
            ends that it cites the source for.
        names: What the source is called: address, id, file name, title.
        quote: Words of the source; None if none are given.
        place_in_request: Where the request holds the source, as a key that says what
            is counted and the count from 0: ``("document_index", 1)``. None if the
            provider does not say. Words of such a source are surely a quote.
        text: The text of the source, where the provider says which one it means.
    """

    start: int | None
    end: int | None
    names: tuple[str, ...] = field(repr=False)
    quote: str | None = field(default=None, repr=False)
    place_in_request: tuple[str, int] | None = None
    text: str | None = field(default=None, repr=False)

    def without_words_of(self, reply: str) -> Annotation:
        """The same, without a quote that is the reply's own text.

        LangChain gives as cited text of Gemini the part of the answer that is cited
        for. It is no evidence of anything. A document of the request may have the words
        of the reply: then they are a quote.

        Args:
            reply: The text of the reply, in one line.
        """
        quote = as_one_line(self.quote)
        if self.place_in_request or not quote or quote not in reply:
            return self
        return replace(self, quote=None)


def annotation_of(
    citation: Fields, offset: int, block_bounds: tuple[int, int] | None
) -> Annotation | None:
    """Convert a citation in the form of any provider into an annotation.

    ``{"url": "https://a.test", "start_index": 0, "end_index": 4}`` with the offset 10
    cites "https://a.test" for the characters 10 to 14 of the reply.

    Args:
        citation: The citation, with ``start_index`` and ``end_index`` if the provider
            says which part of the reply it stands for.
        offset: The place in the reply from which these indexes are counted.
        block_bounds: Where the block of text with this citation begins and ends in the
            reply; None if unknown. A citation without indexes stands for all of it.

    Returns:
        The annotation. None for a file that the model made, or without name and quote.
    """
    if is_of_models_file(citation):
        return None
    source = _source_of(citation)
    names = names_of_source(source)
    quote = _quote_of(source)
    if not names and quote is None:
        return None
    # a citation that tells no place stands for all of its block
    start_in_reply, end_in_reply = block_bounds or (None, None)
    start, end = _span_in_block(citation, source)
    if start is not None and end is not None:
        start_in_reply, end_in_reply = start + offset, end + offset
    return Annotation(
        start_in_reply,
        end_in_reply,
        names,
        quote,
        # ("document_index", 1): the source is the second document that the application
        # handed in with its request
        place_in_request=_place_of_source_in_request(source),
        text=_text_of_page(citation, source),
    )


def is_of_models_file(citation: Fields) -> bool:
    """Whether a citation names a file that the model made: it is no source."""
    return citation.get("type") in _OF_FILES_MADE_BY_THE_MODEL


def _source_of(citation: Fields) -> Fields:
    """Return the object of a citation that names the source: often the citation itself.

    OpenAI nests it, ``{"url_citation": {"url": …}}``, and LangChain does under "value".
    """
    source = citation
    for key in ("url_citation", "file_citation", "value"):
        # without this key the source stays as it is
        source = inner_object(source, key) or source
    return source


def _span_in_block(
    citation: Fields, source: Fields
) -> tuple[int, int] | tuple[None, None]:
    """Return where the words that a citation stands for begin and end in their block.

    ``{"start_index": 0, "end_index": 4}`` gives (0, 4). For a file OpenAI only tells
    where the cited sentence ends, as at 16: (16, 16). (None, None) if nothing is told.

    Args:
        citation: The citation.
        source: The object in it, or itself, that names the source.
    """
    start, end = source.get("start_index"), source.get("end_index")
    if is_place(start) and is_place(end) and start <= end:
        return start, end
    end_of_sentence = _end_of_sentence_citing_file(
        citation
    ) or _end_of_sentence_citing_file(source)
    if end_of_sentence is None:
        return None, None
    return end_of_sentence, end_of_sentence


def _text_of_page(citation: Fields, source: Fields) -> str | None:
    """The text of a cited page, which OpenRouter gives beside its address; else None."""
    text = source.get("content")
    is_page = citation.get("type") == "url_citation"
    return text if is_page and isinstance(text, str) and text.strip() else None


def _end_of_sentence_citing_file(citation: Fields) -> int | None:
    """Where a sentence of the reply ends that OpenAI cites a file for; None if not told.

    ``{"type": "file_citation", "file_id": "file-1", "index": 16}`` gives 16. LangChain
    calls it ``file_index``, and may nest it.
    """
    for fields in (citation, inner_object(citation, "extras")):
        for key in ("index", "file_index"):
            end_of_sentence = fields.get(key)
            if "file_id" in fields and is_place(end_of_sentence):
                return end_of_sentence
    return None


def _place_of_source_in_request(citation: Fields) -> tuple[str, int] | None:
    """Where the request holds a cited source; None if the citation does not count it.

    LangChain may nest the number under ``extras``.
    """
    for fields in (citation, inner_object(citation, "extras")):
        for key in _KINDS_COUNTED:
            index = fields.get(key)
            if is_place(index):
                return key, index
    return None


def text_at_place(
    place: tuple[str, int] | None, request_blocks: Sequence[tuple[str, str]]
) -> str | None:
    """Return the text of the block of a request that a citation counts.

    Args:
        place: What is counted, and the count: ``("document_index", 1)``.
        request_blocks: Type and text of each block of evidence in the request.

    Returns:
        The text. None if no such block was recorded, or if it has no text, as a PDF.
    """
    if place is None:
        return None
    _, index = place
    texts = _texts_counted(place, request_blocks)
    return (texts[index] or None) if index < len(texts) else None


def holds_place(
    place: tuple[str, int], request_blocks: Sequence[tuple[str, str]]
) -> bool:
    """Whether a request has the block that a citation counts, be it without a text."""
    _, index = place
    return index < len(_texts_counted(place, request_blocks))


def _texts_counted(
    place: tuple[str, int], request_blocks: Sequence[tuple[str, str]]
) -> list[str]:
    key, _ = place
    return [text for kind, text in request_blocks if kind in _KINDS_COUNTED[key]]


def _quote_of(citation: Fields) -> str | None:
    """The words of the source that a citation gives; None if it gives none."""
    words = citation.get("cited_text")
    return words if isinstance(words, str) and words.strip() else None


def annotations_of_grounding(
    grounding: Fields, chunks: Sequence[Fields], reply: str
) -> Iterator[Annotation]:
    """Yield an annotation for each chunk that Gemini names for a part of its reply.

    Example: Gemini says that bytes 0 to 9 of the reply rest on the chunks 0 and 1, which
    are web pages: two annotations, one with the name of each page. A chunk without a
    name is called "grounding chunk 1". The annotations count characters, not bytes.

    Args:
        grounding: The grounding metadata.
        chunks: Its sources, each as the object that names it.
        reply: The text of the reply.
    """
    reply_bytes = reply.encode(errors="replace")
    for support in objects_in(field_of(grounding, "grounding_supports")):
        segment = inner_object(support, "segment")
        # Gemini leaves out a start of 0
        start_in_bytes = field_of(segment, "start_index") or 0
        start = _place_in_characters(reply_bytes, start_in_bytes)
        end = _place_in_characters(reply_bytes, field_of(segment, "end_index"))
        chunk_indexes = field_of(support, "grounding_chunk_indices")
        if not is_list(chunk_indexes):
            continue
        for chunk_index in chunk_indexes:
            names: tuple[str, ...] = ()
            text = None
            if is_place(chunk_index) and chunk_index < len(chunks):
                names = names_of_source(chunks[chunk_index])
                # the chunks of one file share its name, and differ by their texts
                text = text_of_item(chunks[chunk_index])
            if not names:
                # the chunk has no name, or the metadata has no chunk of this index
                number = chunk_index if is_place(chunk_index) else ""
                names = (f"grounding chunk {number}",)
            yield Annotation(start, end, names, text=text)


def _place_in_characters(text_as_bytes: bytes, place: object) -> int | None:
    """Convert a place counted in bytes of a text into one counted in characters.

    None if the value is no place.
    """
    if not is_place(place):
        return None
    return len(text_as_bytes[:place].decode(errors="ignore"))
