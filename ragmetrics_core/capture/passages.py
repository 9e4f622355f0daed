"""Whether two texts share a passage, by their letters alone. Pure.

This serves where no place in a prompt is needed. Texts are compared as streams of
letters (``normalized_text``), so that escapes, quotes and other white space make no
difference.
"""

import re

from ragmetrics_core.capture.normalized_text import normalize_text

# Lengths in bytes of the letters. A shorter text stands in another one by chance.
PASSAGE = 48  # from the middle of a text
EDGE = 32  # from the beginning or the end of a text
SHORTEST = 16  # a whole text
_STEP = 16
# Windows of this length are taken at every step. So long a window lies inside each
# shared passage, wherever the passage begins.
_WINDOW = PASSAGE - _STEP + 1


def is_contained_in(text: bytes, host: bytes) -> bool:
    """Whether a text stands whole in another text, and is too long for mere chance.

    Both are given normalized (``normalize_text``).
    """
    is_long_enough = len(text) >= SHORTEST
    return is_long_enough and text in host


def share_a_passage(text: bytes, other: bytes) -> bool:
    """Whether a passage of one text stands in the other.

    A passage is a beginning or an end of one of them, a piece from the middle, or all
    of a text. Both texts are given normalized (``normalize_text``). Example: two chunks
    of a page that overlap share a passage, two that only name the same town do not.
    """
    if _edge_stands_in(text, other) or _edge_stands_in(other, text):
        return True
    shorter, longer = sorted((text, other), key=len)
    starts = range(0, len(shorter) - _WINDOW + 1, _STEP)
    return any(shorter[start : start + _WINDOW] in longer for start in starts)


def is_long_enough(text: str) -> bool:
    """Whether a text is so long that it stands in another one by no chance."""
    return len(normalize_text(text)) >= SHORTEST


def _edge_stands_in(text: bytes, host: bytes) -> bool:
    """Whether the first or the last bytes of a text stand in another one.

    A text that is no longer than an edge must stand there whole.
    """
    if len(text) < EDGE:
        return is_contained_in(text, host)
    beginning = text[:EDGE]
    end = text[-EDGE:]
    return beginning in host or end in host


def stands_apart(text: str, message: str) -> bool:
    """Whether a text stands apart in a message.

    It stands after a colon, a quote, a bracket or a line's beginning, and ends at a
    quote, a bracket or a line's end.
    """
    if text not in message:
        return False
    before = r"(?:^|[:\n\"'`>(\[])[ \t]*"
    behind = r"[ \t]*(?:$|[\n\"'`<)\]])"
    text_apart = f"{before}{re.escape(text)}{behind}"
    return re.search(text_apart, message) is not None
