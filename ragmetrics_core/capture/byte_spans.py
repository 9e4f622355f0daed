"""Bytes that agree between a prompt and a text, and what several such spans are together. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

STEP = 24  # up to so many bytes put in or left out are stepped over
_FAR = 1 << 40  # behind the end of any prompt or text


class Span(NamedTuple):
    """Bytes that agree between a prompt and a text.

    Attributes:
        start: Where they begin in the prompt.
        text_start: Where they begin in the text.
        size: How many they are.
    """

    start: int
    text_start: int
    size: int

    @property
    def end(self) -> int:
        """Behind them in the prompt."""
        return self.start + self.size

    @property
    def text_end(self) -> int:
        """Behind them in the text."""
        return self.text_start + self.size


def size_of(spans: Iterable[Span]) -> int:
    """How many bytes agree."""
    return sum([span.size for span in spans])


def clip(
    spans: Iterable[Span],
    start: int = 0,
    end: int = _FAR,
    text_start: int = 0,
    text_end: int = _FAR,
) -> list[Span]:
    """Cut spans to a range of the prompt and a range of the text.

    A span pairs bytes of the prompt with equal bytes of the text, so both of its sides
    are cut by the same number of bytes. Spans of which nothing is left are dropped.

    Args:
        spans: The spans.
        start: The first byte of the prompt that may stay.
        end: The byte behind the last one of the prompt that may stay.
        text_start: The first byte of the text that may stay.
        text_end: The byte behind the last one of the text that may stay.
    """
    clipped = []
    for span in spans:
        # counted from the start of the span: the first byte that stays, and the end
        first = max(start - span.start, text_start - span.text_start, 0)
        behind_last = min(end - span.start, text_end - span.text_start, span.size)
        n_left = behind_last - first
        if n_left > 0:
            clipped.append(Span(span.start + first, span.text_start + first, n_left))
    return clipped


def runs_of(spans: Iterable[Span]) -> list[list[Span]]:
    """Spans in the order of the text, divided into runs.

    A **run** is a row of spans between which there are only small steps.
    """
    runs: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: span.text_start):
        if runs and _is_small_step(runs[-1][-1], span):
            runs[-1].append(span)
        else:
            runs.append([span])
    return runs


def _is_small_step(before: Span, after: Span) -> bool:
    """Whether one span follows another within a step, in the prompt and in the text."""
    put_in = after.start - before.end
    left_out = after.text_start - before.text_end
    return 0 <= put_in <= STEP and left_out <= STEP


def subtract_spans(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """What is left of spans without the bytes of the text that the others hold."""
    rest = list(spans)
    for other in others:
        before = clip(rest, text_end=other.text_start)
        behind = clip(rest, text_start=other.text_end)
        rest = [*before, *behind]
    return rest
