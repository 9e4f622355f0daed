"""Cuts documents into chunks, at borders of paragraphs or sentences where there are any."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pydantic import Field

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.frozen import Frozen, Text

CHUNK_SIZE = 2000
_GAP = re.compile(r"\s")

# From the best border to the worst; each match ends where the next chunk may begin.
_BORDERS = (re.compile(r"\n[ \t]*\n\s*"), re.compile(r"[.!?…][\"'”’)\]]*\s+|[。！？]"), re.compile(r"\s+"))


class Document(Frozen):
    """A text to make chunks of.

    Args:
        id: Its name, unique among the documents.
        text: The text.
    """

    id: str
    text: Text = Field(repr=False)


class Chunk(Frozen):
    """A part of a document.

    Args:
        id: ``document#number``, from 0.
        document: Id of its document.
        text: The text, without white space at its ends.
    """

    id: str
    document: str
    text: Text = Field(repr=False)


def chunked(document: Document, *, size: int = CHUNK_SIZE, overlap: int = 0) -> tuple[Chunk, ...]:
    """Cut a document into chunks.

    Args:
        document: The document.
        size: Most characters of a chunk.
        overlap: Characters at the end of a chunk that the next one repeats, at most; whole words only.

    Returns:
        Chunks in order, none of them blank. Without overlap only white space is lost between them.

    Raises:
        SettingError: If the size is not positive, or the overlap is not below half of it.

    Example:
        >>> [chunk.text for chunk in chunked(Document(id="d", text="One two. Three four. Five."), size=15)]
        ['One two.', 'Three four.', 'Five.']
    """
    if size < 1 or not 0 <= overlap <= (size - 1) // 2:
        raise SettingError(f"a chunk has at least 1 character and overlaps by less than half; got {size} and {overlap}")
    text, texts, start = document.text, list[str](), 0
    while start < len(text):
        end = _end(text, start, size)
        texts.append(text[start:end].strip())
        gap = None  # the next chunk begins after the first white space of the overlap
        if overlap and end < len(text):
            gap = _GAP.search(text, max(end - overlap - 1, start + 1), end - 1)
        start = gap.end() if gap else end
    named = enumerate(filter(None, texts))
    return tuple(Chunk(id=f"{document.id}#{number}", document=document.id, text=text) for number, text in named)


def all_chunks(documents: Iterable[Document], *, size: int = CHUNK_SIZE, overlap: int = 0) -> tuple[Chunk, ...]:
    """Chunks of several documents, in order; see ``chunked``."""
    return tuple(chunk for document in documents for chunk in chunked(document, size=size, overlap=overlap))


def _end(text: str, start: int, size: int) -> int:
    """Where a chunk ends: at the last border in the second half of what fits."""
    if len(text) - start <= size:
        return len(text)
    fits = size + text[start + size].isspace()  # white space at the end of a chunk does not count
    for border in _BORDERS:
        ends = [found.end() for found in border.finditer(text[start : start + fits]) if found.end() > size // 2]
        if ends:
            return start + ends[-1]
    return start + size
