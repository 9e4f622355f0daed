"""Lines of a prompt that may be the beginning of a document, cut short. Pure.

Locating finds a piece of a document from ``EDGE`` bytes of letters on, since fewer stand
in a prompt by chance. A whole line that is the beginning of a document is a sign all the
same: an application may cut each document to a few words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.passages import EDGE, SHORTEST, without_list_label


def short_lines(
    texts: Iterable[str], normalized_known_texts: Collection[bytes]
) -> set[bytes]:
    """Return the lines, normalized, that are too short to be located as a piece.

    Example: "- Anna lit the old lamp" gives ``annalittheoldlamp``.

    Args:
        texts: The messages of a prompt.
        normalized_known_texts: Normalized texts that stand there for another
            reason. A line with which one of these begins is left out.
    """
    lines: set[bytes] = set()
    for text in texts:
        for line in text.splitlines():
            normalized = normalize_text(without_list_label(line))
            is_known = any(
                known.startswith(normalized) for known in normalized_known_texts
            )
            if SHORTEST <= len(normalized) < EDGE and not is_known:
                lines.add(normalized)
    return lines


def begins_with_any(normalized: bytes, lines: Collection[bytes]) -> bool:
    """Whether a text begins with any of the lines, and goes on after it.

    Args:
        normalized: The normalized text.
        lines: As ``short_lines`` returns them.
    """
    longest = min(EDGE, len(normalized))
    return any(normalized[:length] in lines for length in range(SHORTEST, longest))
