"""The sources that an answer names in a closing line, such as ``SOURCES: a.txt, b.txt``. Pure.

langchain-ai/langchain, the "with sources" recipe: the model ends its answer with this
line, which cites for all of the answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import SOURCES_HEADING
from ragmetrics_core.data.source_lists import closing_marks_in

_CLOSING = lazy_pattern(
    rf"(?P<heading>^[ \t]*[*_]{{0,3}}{SOURCES_HEADING}(?:\(s\))?[*_]{{0,3}}[ \t]*[:：][*_]{{0,3}})"
    r"(?P<listed>[^\n]+|(?:\s*\n[ \t]*[-*•][ \t]+[^\n]+)+)\s*\Z",
    re.IGNORECASE | re.MULTILINE,
)
_OPENING_OF_MARK = lazy_pattern(r"[\[［【]")
_BETWEEN_NAMES = lazy_pattern(r"[,;\n]|\band\b")
_BULLET = lazy_pattern(r"^[ \t]*[-*•][ \t]+", re.MULTILINE)
_AROUND_NAME = " \t\r\"'“”`*_.&、，"
_LONGEST_LINE = 1000


@dataclass(frozen=True, slots=True)
class ClosingSources:
    """The sources of a closing line.

    Args:
        start: Where the line begins in the answer.
        start_of_names: Where the sources begin behind its colon.
        end: Where it ends.
        are_marks_alone: Whether the sources are marks such as "[2]", and no names.
    """

    start: int
    start_of_names: int
    end: int
    are_marks_alone: bool = False


def closing_sources_in(answer: str) -> ClosingSources | None:
    r"""Find the sources that the end of an answer lists; None if it lists none.

    Its heading is "Sources:" or another such word; before marks alone, it is any word.

    Examples:
        >>> closing_sources_in("It fell.\nSOURCES: a.txt, [2]")
        ClosingSources(start=9, start_of_names=17, end=28, are_marks_alone=False)
    """
    lines_of_marks = closing_marks_in(answer)
    if lines_of_marks:
        start, end = lines_of_marks[0][0], lines_of_marks[-1][1]
        opening = _OPENING_OF_MARK.search(answer, start)
        start_of_names = end if opening is None else opening.start()
        return ClosingSources(start, start_of_names, end, are_marks_alone=True)
    tail_start = max(0, len(answer) - _LONGEST_LINE)
    found = _CLOSING.search(answer, tail_start)
    if found is None or not answer[: found.start()].strip():
        return None
    return ClosingSources(found.start(), found.start("listed"), found.end())


def names_in_closing(listed: str) -> list[str]:
    """Return the names that a closing line lists behind its colon, as written.

    Examples:
        >>> names_in_closing(" a.txt, b.txt and 3.")
        ['a.txt', 'b.txt', '3']
    """
    names = _BETWEEN_NAMES.split(_BULLET.sub("", listed))
    stripped_names = [name.strip(_AROUND_NAME) for name in names]
    return [name for name in stripped_names if name]
