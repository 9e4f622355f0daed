"""Bytes that agree between a prompt and a text, and what several such spans are together. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

LONGEST_STEP = 24  # up to so many bytes put in or left out are stepped over
_FAR = 1 << 40  # behind the end of any prompt or text


class EqualSpan(NamedTuple):
    """Bytes that agree between a prompt and a text.

    Attributes:
        prompt_start: Where they begin in the prompt.
        text_start: Where they begin in the text.
        size: How many they are.
    """

    prompt_start: int
    text_start: int
    size: int

    @property
    def prompt_end(self) -> int:
        """Behind them in the prompt."""
        return self.prompt_start + self.size

    @property
    def text_end(self) -> int:
        """Behind them in the text."""
        return self.text_start + self.size


def total_size(spans: Iterable[EqualSpan]) -> int:
    """How many bytes agree."""
    return sum([span.size for span in spans])


def clip_spans(
    spans: Iterable[EqualSpan],
    start: int = 0,
    end: int = _FAR,
    text_start: int = 0,
    text_end: int = _FAR,
) -> list[EqualSpan]:
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
        first = max(start - span.prompt_start, text_start - span.text_start, 0)
        behind_last = min(
            end - span.prompt_start, text_end - span.text_start, span.size
        )
        n_left = behind_last - first
        if n_left > 0:
            clipped.append(
                EqualSpan(span.prompt_start + first, span.text_start + first, n_left)
            )
    return clipped


def split_into_runs(spans: Iterable[EqualSpan]) -> list[list[EqualSpan]]:
    """Spans in the order of the text, divided into runs.

    A **run** is a row of spans between which there are only small steps.
    """
    runs: list[list[EqualSpan]] = []
    for span in sorted(spans, key=lambda span: span.text_start):
        if runs and _is_small_step(runs[-1][-1], span):
            runs[-1].append(span)
        else:
            runs.append([span])
    return runs


def _is_small_step(before: EqualSpan, after: EqualSpan) -> bool:
    """Whether one span follows another within a step, in the prompt and in the text."""
    put_in = after.prompt_start - before.prompt_end
    left_out = after.text_start - before.text_end
    return 0 <= put_in <= LONGEST_STEP and left_out <= LONGEST_STEP


def subtract_spans(
    spans: Iterable[EqualSpan], others: Iterable[EqualSpan]
) -> list[EqualSpan]:
    """What is left of spans without the bytes of the text that the others hold."""
    rest = list(spans)
    for other in others:
        before = clip_spans(rest, text_end=other.text_start)
        behind = clip_spans(rest, text_start=other.text_end)
        rest = [*before, *behind]
    return rest
