"""Bytes that are equal in a prompt and a text, and what several such spans are together. Pure.

Both are compared by their normalized text (``normalized_text``), so offsets count bytes
of letters.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

LONGEST_STEP = 24  # the most bytes put in or left out that are stepped over
_BEHIND_ALL = 1 << 40  # an offset after the end of any prompt or text


class EqualSpan(NamedTuple):
    """Bytes that are equal in a prompt and a text.

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
        """Where they end in the prompt."""
        return self.prompt_start + self.size

    @property
    def text_end(self) -> int:
        """Where they end in the text."""
        return self.text_start + self.size


def total_size(spans: Iterable[EqualSpan]) -> int:
    """Count the bytes of all spans."""
    return sum([span.size for span in spans])


def clip_spans(
    spans: Iterable[EqualSpan],
    prompt_start: int = 0,
    prompt_end: int = _BEHIND_ALL,
    text_start: int = 0,
    text_end: int = _BEHIND_ALL,
) -> list[EqualSpan]:
    """Cut spans to a range of the prompt and a range of the text; drop empty ones.

    Examples:
        >>> span = EqualSpan(prompt_start=10, text_start=0, size=8)
        >>> clip_spans([span], prompt_start=12)
        [EqualSpan(prompt_start=12, text_start=2, size=6)]
    """
    clipped = []
    for span in spans:
        n_cut_before = max(
            prompt_start - span.prompt_start, text_start - span.text_start, 0
        )
        n_cut_behind = max(span.prompt_end - prompt_end, span.text_end - text_end, 0)
        n_left = span.size - n_cut_before - n_cut_behind
        if n_left > 0:
            new_prompt_start = span.prompt_start + n_cut_before
            new_text_start = span.text_start + n_cut_before
            clipped.append(EqualSpan(new_prompt_start, new_text_start, n_left))
    return clipped


def split_into_runs(spans: Iterable[EqualSpan]) -> list[list[EqualSpan]]:
    """Sort spans by their place in the text, and split them into runs.

    A **run** is a row of spans with only small steps between them: at most 24 bytes are
    put in or left out. Example: spans of the text's bytes 0 to 40, 50 to 90 and 400 to
    500, in the same order in the prompt, are two runs: the first two spans, and the
    third.
    """
    runs: list[list[EqualSpan]] = []
    for span in sorted(spans, key=lambda span: span.text_start):
        if runs and _is_small_step(runs[-1][-1], span):
            runs[-1].append(span)
        else:
            runs.append([span])
    return runs


def _is_small_step(before: EqualSpan, after: EqualSpan) -> bool:
    """Whether one span follows another closely, both in the prompt and in the text."""
    n_put_in = after.prompt_start - before.prompt_end
    n_left_out = after.text_start - before.text_end
    return 0 <= n_put_in <= LONGEST_STEP and n_left_out <= LONGEST_STEP


def subtract_spans(
    spans: Iterable[EqualSpan], others: Iterable[EqualSpan]
) -> list[EqualSpan]:
    """Cut away from spans what other spans hold of the same text, and return the rest.

    A span that is cut in its middle leaves two spans; a span that the others hold whole
    leaves none.

    Examples:
        >>> span = EqualSpan(prompt_start=10, text_start=0, size=8)
        >>> subtract_spans([span], [EqualSpan(prompt_start=90, text_start=2, size=3)])
        [EqualSpan(prompt_start=10, text_start=0, size=2), EqualSpan(prompt_start=15, text_start=5, size=3)]
    """
    # sorted, and none touches the next: [(2, 5)] in the example
    ranges = text_ranges(others)
    rest = []
    for span in spans:
        text_start = span.text_start  # where the part that is not looked at yet begins
        # the first range that ends after the start of the span
        index = bisect_right(ranges, text_start, key=_range_end)
        while index < len(ranges) and ranges[index][0] < span.text_end:
            range_start, range_end = ranges[index]
            # what stands before the range; nothing if the span begins within the range
            rest += clip_spans([span], text_start=text_start, text_end=range_start)
            text_start = range_end
            index += 1
        rest += clip_spans([span], text_start=text_start)
    return rest


def text_ranges(spans: Iterable[EqualSpan]) -> list[tuple[int, int]]:
    """Return the ranges of the text that spans hold, in order; none touches the next.

    Example: spans of the bytes 30 to 60, 0 to 40 and 80 to 90: (0, 60) and (80, 90).
    """
    ranges: list[tuple[int, int]] = []
    for start, end in sorted((span.text_start, span.text_end) for span in spans):
        if ranges and start <= ranges[-1][1]:
            last_start, last_end = ranges[-1]
            ranges[-1] = (last_start, max(last_end, end))
        else:
            ranges.append((start, end))
    return ranges


def _range_end(text_range: tuple[int, int]) -> int:
    """Return where a range of the text ends: ranges are sorted by this."""
    return text_range[1]
