"""The sources that an answer names in a closing line, such as ``SOURCES: a.txt, b.txt``. Pure.

langchain-ai/langchain, the "with sources" recipe: the model ends its answer with this
line, which cites for all of the answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import SOURCES_HEADING

_CLOSING = lazy_pattern(
    rf"(?P<heading>^[ \t]*[*_]{{0,3}}{SOURCES_HEADING}(?:\(s\))?[*_]{{0,3}}[ \t]*[:：][*_]{{0,3}})"
    r"(?P<listed>[^\n]+|(?:\s*\n[ \t]*[-*•][ \t]+[^\n]+)+)\s*\Z",
    re.IGNORECASE | re.MULTILINE,
)
_BETWEEN_NAMES = lazy_pattern(r"[,;\n]|\band\b")
_BULLET = lazy_pattern(r"^[ \t]*[-*•][ \t]+", re.MULTILINE)
_AROUND_NAME = " \t\r\"'“”`*_."
_LONGEST_LINE = 1000


@dataclass(frozen=True, slots=True)
class ClosingSources:
    """The sources of a closing line.

    Args:
        names: What it names, as written, such as "[2]" or "a.txt".
        start: Where the line begins in the answer.
        end: Where it ends there.
    """

    names: tuple[str, ...]
    start: int
    end: int


def closing_sources_in(answer: str) -> ClosingSources | None:
    r"""Find the sources that the end of an answer lists; None if it lists none.

    Examples:
        >>> closing_sources_in("It fell.\nSOURCES: a.txt, [2]").names
        ('a.txt', '[2]')
    """
    tail_start = max(0, len(answer) - _LONGEST_LINE)
    found = _CLOSING.search(answer, tail_start)
    if found is None or not answer[: found.start()].strip():
        return None
    listed = _BULLET.sub("", found["listed"])
    names = [name.strip(_AROUND_NAME) for name in _BETWEEN_NAMES.split(listed)]
    return ClosingSources(
        tuple(name for name in names if name), found.start(), found.end()
    )
