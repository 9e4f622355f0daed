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
# "[2] ", "2. ", "**Source 2**: ", "Note on page 2 – ", "- " at the beginning of a line
# A full stop ends a number alone: after words it ends a sentence, "Built in 16. …".
_LIST_LABEL = (
    r"(?m)^[ \t]*(?:"
    r"[^\w\n]{0,3}\d{1,3}[ \t]?[^\w\s,]{1,4}"
    r"|[^\w\n]{0,3}(?:[^\W\d]{1,16}[ \t]){0,4}[^\W\d]{0,16}[ \t#]?\d{1,3}[ \t]?[^\w\s,.]{1,4}"
    r"|[-*•–]"
    r")[ \t]*"
)
_END_OF_ENTRY = r"[ \t]*[.;,]?[ \t]*$"
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


def has_words(message: str, words: str) -> bool:
    """Whether some words stand in a message as such, not as parts of longer words.

    False for no words.
    """
    if not words or words not in message:
        return False
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", message) is not None
