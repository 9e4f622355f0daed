"""Cuts documents into chunks, at borders of paragraphs or sentences where there are any."""

import re

from pydantic import Field

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.frozen import Frozen, Text
from ragmetrics_core.data.sample import Context

CHUNK_SIZE = 2000
_GAP = re.compile(r"\s")

# From the best border to the worst; each match ends where the next chunk may begin.
_BORDERS = (re.compile(r"\n[ \t]*\n\s*"), re.compile(r"[.!?…][\"'”’)\]]*\s+|[。！？]"), re.compile(r"\s+"))


class Document(Frozen):
    """A text to make chunks of."""

    id: str = Field(description="Its name, unique among the documents.")
    text: Text = Field(repr=False, description="The text.")


def chunked(document: Document, *, size: int = CHUNK_SIZE, overlap: int = 0) -> tuple[Context, ...]:
    """Cut a document into chunks.

    Args:
        document: The document.
        size: Most characters of a chunk.
        overlap: Characters at the end of a chunk that the next one repeats, at most; whole words only.

    Returns:
        Chunks in order with ids ``document#number``, none of them blank, without white space at their ends. Without
        overlap only white space is lost between them.

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
    return tuple(Context(id=f"{document.id}#{number}", text=text) for number, text in named)


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
