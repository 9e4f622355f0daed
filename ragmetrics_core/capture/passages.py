"""Whether two texts share a passage, by their letters alone. Pure.

This serves where no place in a prompt is needed. Texts are compared as streams of
letters (``letters``), so that escapes, quotes and other white space make no difference.
"""

import re

PASSAGE = 48  # bytes that two texts share by no chance
EDGE = 32  # as many at the beginning or the end of one of them
SHORTEST = 16  # a text of fewer bytes stands in others by chance
_STEP = 16
# of each shared passage one such window, taken at every step, lies inside it
_WINDOW = PASSAGE - _STEP + 1


def stands_in(text: bytes, host: bytes) -> bool:
    """Whether a text that is long enough to be no chance stands whole in another one."""
    return len(text) >= SHORTEST and text in host


def share_a_passage(one: bytes, other: bytes) -> bool:
    """Whether a passage of one text stands in the other.

    A passage is an edge of either, a run from its middle, or all of it.
    """
    if _an_edge_stands_in(one, other) or _an_edge_stands_in(other, one):
        return True
    shorter, longer = sorted((one, other), key=len)
    starts = range(0, len(shorter) - _WINDOW + 1, _STEP)
    return any(shorter[start : start + _WINDOW] in longer for start in starts)


def _an_edge_stands_in(text: bytes, host: bytes) -> bool:
    if len(text) < EDGE:
        return stands_in(text, host)
    return text[:EDGE] in host or text[-EDGE:] in host


def stands_apart(text: str, message: str) -> bool:
    """Whether a text stands apart in a message.

    It stands behind a colon, a quote, a bracket or a line's beginning, and ends at a
    quote, a bracket or a line's end.
    """
    apart = rf"(?:^|[:\n\"'`>(\[])[ \t]*{re.escape(text)}[ \t]*(?:$|[\n\"'`<)\]])"
    return text in message and re.search(apart, message) is not None
