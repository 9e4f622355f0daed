"""Bytes that agree between a prompt and a text, and what several such spans are together. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

STEP = 24  # up to so many bytes put in or left out are stepped over
_FAR = 1 << 40  # behind the end of any prompt or text


class Span(NamedTuple):
    """Bytes that agree between a prompt and a text.

    Attributes:
        at: Where they begin in the prompt.
        of: Where they begin in the text.
        size: How many they are.
    """

    at: int
    of: int
    size: int

    @property
    def end(self) -> int:
        """Behind them in the prompt."""
        return self.at + self.size

    @property
    def last(self) -> int:
        """Behind them in the text."""
        return self.of + self.size


def size_of(spans: Iterable[Span]) -> int:
    """How many bytes agree."""
    return sum([span.size for span in spans])


def within(
    spans: Iterable[Span],
    start: int = 0,
    end: int = _FAR,
    first: int = 0,
    last: int = _FAR,
) -> list[Span]:
    """What of spans stands between two places of the prompt, and between two of the text."""
    clipped = []
    for at, of, size in spans:
        cut = max(start - at, first - of, 0)
        upto = min(size, end - at, last - of)
        if cut < upto:
            clipped.append(Span(at + cut, of + cut, upto - cut))
    return clipped


def runs_of(spans: Iterable[Span]) -> list[list[Span]]:
    """Spans in the order of the text, those together between which there are but small steps."""
    runs: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: span.of):
        if runs and _is_small_step(runs[-1][-1], span):
            runs[-1].append(span)
        else:
            runs.append([span])
    return runs


def _is_small_step(before: Span, after: Span) -> bool:
    return 0 <= after.at - before.end <= STEP and after.of - before.last <= STEP


def subtract_spans(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """What of spans is of other bytes of the text than all of the others."""
    rest = list(spans)
    for other in others:
        rest = [*within(rest, last=other.of), *within(rest, first=other.last)]
    return rest
