"""The sources that an answer names in a closing line, such as ``SOURCES: a.txt, b.txt``. Pure.

langchain-ai/langchain, the "with sources" recipe: the model ends its answer with this
line, which cites for all of the answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import PAGE_WORD, SOURCES_HEADING
from ragmetrics_core.data.source_lists import closing_marks_in

_ITEMS = r"(?:\s*\n[ \t]*[-*•][ \t]+[^\n]+)+"
_CLOSING = lazy_pattern(
    rf"^[ \t]*[*_]{{0,3}}{SOURCES_HEADING}(?:\(s\))?[*_]{{0,3}}[ \t]*[:：][*_]{{0,3}}"
    rf"(?P<listed>[^\n]+|{_ITEMS})\s*\Z",
    re.IGNORECASE | re.MULTILINE,
)
# "## References" or "**Sources**", and items below it
_CLOSING_WITHOUT_COLON = lazy_pattern(
    r"^[ \t]*(?:\#{1,6}[ \t]+[*_]{0,3}|[*_]{2,3})(?!further)"
    rf"{SOURCES_HEADING}[*_]{{0,3}}[ \t]*[:：]?[*_]{{0,3}}[ \t]*(?P<listed>{_ITEMS})\s*\Z",
    re.IGNORECASE | re.MULTILINE,
)
_MARK = lazy_pattern(r"([\[［【][^\[\]［］【】\n]{1,200}[\]］】])")
# but no comma before a page, as in "a.pdf, p. 3"
_BETWEEN_NAMES = lazy_pattern(
    rf",(?!\s*{PAGE_WORD}[ \t]*[:=]?[ \t]*\d)|[;\n]|\band\b",
    re.IGNORECASE,
)
# "- ", and of "- Heat Pump Guide: https://a.test" the title: the address names the source
_BULLET = lazy_pattern(
    r"^[ \t]*[-*•][ \t]+(?:[^:\[\]\n]{1,200}:[ \t]+(?=<?https?://))?", re.MULTILINE
)
# "[Heat Pump Guide](https://a.test)"; the words of "[2](https://a.test)" are a number
_LINK = lazy_pattern(
    r"\[(?!\d{1,4}\])[^\[\]\n]{1,200}\]\(<?(?P<address>https?://[^()<>\s]{1,500})>?\)"
)
_AROUND_NAME = " \t\r\"'“”`*_.&、，"
_LONGEST_LINE = 1000


@dataclass(frozen=True, slots=True)
class ClosingSources:
    """The sources of a closing line.

    Args:
        start: Where the line begins in the answer.
        start_of_names: From where on its names stand: behind its colon, or from its
            start where they are marks alone.
        end: Where it ends.
        are_marks_alone: Whether the sources are marks such as "[2]", and no names.
    """

    start: int
    start_of_names: int
    end: int
    are_marks_alone: bool = False


def closing_sources_in(answer: str) -> ClosingSources | None:
    r"""Find the sources that the end of an answer lists; None if it lists none.

    Examples:
        >>> closing_sources_in("It fell.\nSOURCES: a.txt, [2]")
        ClosingSources(start=9, start_of_names=17, end=28, are_marks_alone=False)
    """
    return _marks_in_last_lines(answer) or _names_behind_heading(answer)


def _marks_in_last_lines(answer: str) -> ClosingSources | None:
    """Find last lines that hold marks alone, behind a heading of any word: "Lu: [1], [2]"."""
    spans_of_lines = closing_marks_in(answer)
    if not spans_of_lines:
        return None
    start, _ = spans_of_lines[0]
    _, end = spans_of_lines[-1]
    # the heading holds no mark: the marks are looked for from its start on
    return ClosingSources(start, start_of_names=start, end=end, are_marks_alone=True)


def _names_behind_heading(answer: str) -> ClosingSources | None:
    """Find a last line that names sources behind a heading such as "Sources:"."""
    tail_start = max(0, len(answer) - _LONGEST_LINE)
    line = _CLOSING.search(answer, tail_start) or _CLOSING_WITHOUT_COLON.search(
        answer, tail_start
    )
    if line is None or not answer[: line.start()].strip():
        return None
    return ClosingSources(line.start(), line.start("listed"), line.end())


def names_in_closing(closing: ClosingSources, answer: str) -> list[str]:
    r"""Return the names and marks that a closing line lists behind its colon, as written.

    Examples:
        >>> answer = "It fell.\nSources: a.txt, b.txt, p. 7 and 3 [4]."
        >>> names_in_closing(closing_sources_in(answer), answer)
        ['a.txt', 'b.txt, p. 7', '3', '[4]']
    """
    listed = answer[closing.start_of_names : closing.end]
    if closing.are_marks_alone:  # between "[1], [2] и [3]" stand no names
        return _MARK.findall(listed)
    names: list[str] = []
    # "a.txt, " and "[4]": the words between marks, and the marks
    for piece in _MARK.split(_LINK.sub(r"\g<address>", _BULLET.sub("", listed))):
        is_mark = _MARK.fullmatch(piece) is not None
        names += [piece] if is_mark else _BETWEEN_NAMES.split(piece)
    stripped_names = [name.strip(_AROUND_NAME) for name in names]
    return [name for name in stripped_names if name]
