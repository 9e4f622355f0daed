"""Documents that an application made of those that it had found, and searched in again. Pure.

Example: a search finds A and B. The application cuts both to their first 100 letters,
joins these to one new document, and a later search finds it. It is made of A and B: what
the prompt shows of it, it shows of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ragmetrics_core.capture.calls import began_after
from ragmetrics_core.capture.locating import locate
from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.tree import Document, DocumentKey, Node

# Texts are compared by pieces of this length, in bytes of their letters.
_PIECE = 16
# So much of a document stands in those that it is made of. Chunks of one page overlap by
# less.
_LEAST_SHARE = 0.9
# At least so much of it is found by whole pieces, as its parts begin and end within one.
_LEAST_SHARE_BY_PIECES = 0.6


def keys_of_joined_documents(
    documents_by_search: Mapping[Node, Sequence[Document]],
) -> frozenset[DocumentKey]:
    """Return the keys of the documents that are made of what earlier searches found.

    A document that an earlier search found as well is none of them, nor is one that has
    words of its own beside theirs.

    Args:
        documents_by_search: What each search returned.
    """
    searches = sorted(documents_by_search, key=lambda search: search.began)
    pieces = _Pieces()
    waiting: list[Node] = []  # searches before, of which the pieces are not known yet
    joined: set[DocumentKey] = set()
    for search in searches:
        still_running = []
        for earlier in waiting:
            if began_after(search, earlier):
                pieces.add(documents_by_search[earlier])
            else:
                still_running.append(earlier)
        waiting = [*still_running, search]
        for document in documents_by_search[search]:
            if pieces.make_up(document):
                joined.add(document.key)
    return frozenset(joined)


class _Pieces:
    """The pieces of documents that were found so far, to recognise them in later ones."""

    def __init__(self) -> None:
        self._document_by_piece: dict[bytes, Document] = {}
        self._normalized_added_documents: set[bytes] = set()

    def add(self, documents: Iterable[Document]) -> None:
        """Add the pieces of documents; of equal pieces the first counts."""
        for document in documents:
            normalized = normalize_text(document.text_without_metadata)
            if normalized in self._normalized_added_documents:
                continue
            self._normalized_added_documents.add(normalized)
            for start in range(0, len(normalized) - _PIECE + 1, _PIECE):
                piece = normalized[start : start + _PIECE]
                self._document_by_piece.setdefault(piece, document)

    def make_up(self, document: Document) -> bool:
        """Whether a document is made of those that were added, and of no other words.

        Example: "It is old. It fell." is made of the added "It is old." and "It fell.".
        A document that was added itself is not: a search found it, and nothing made it.
        """
        normalized = normalize_text(document.text_without_metadata)
        was_added_itself = normalized in self._normalized_added_documents
        if not normalized or was_added_itself:
            return False
        pieces = self._added_pieces_in(normalized)
        # A quick look first. It may see a little less of the document than is there: a
        # part that was cut within one of its pieces of 16 bytes has only some of these.
        if len(pieces) * _PIECE < _LEAST_SHARE_BY_PIECES * len(normalized):
            return False
        # the look that decides, which compares whole texts and is costly
        origins = [self._document_by_piece[piece] for piece in pieces]
        origin_by_key = {origin.key: origin for origin in origins}  # each once
        return _share_from(origin_by_key.values(), document) >= _LEAST_SHARE

    def _added_pieces_in(self, normalized: bytes) -> list[bytes]:
        """List the pieces of 16 bytes of added documents that stand in a text.

        Pieces that overlap are not both listed. Example: ``itwasbuiltin1874`` is a piece
        of an added document, and stands in ``notesitwasbuiltin1874itfell``.
        """
        pieces = []
        start = 0
        while start <= len(normalized) - _PIECE:
            piece = normalized[start : start + _PIECE]
            if piece in self._document_by_piece:
                pieces.append(piece)
                start += _PIECE
            else:
                start += 1
        return pieces


def _share_from(origins: Iterable[Document], document: Document) -> float:
    """Return the share of a document that stands in others, 0 to 1."""
    texts = [origin.text_without_metadata for origin in origins]
    text = document.text_without_metadata
    n_located = 0.0
    for origin_text, finding in zip(texts, locate(texts, text).findings, strict=True):
        n_located += finding.coverage * len(normalize_text(origin_text))
    return n_located / len(normalize_text(text))
