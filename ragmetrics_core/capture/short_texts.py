"""Where short texts stand in a prompt, and what stands beside them. Pure.

The words of a short text may stand in any sentence. So it matters what stands on its
left and on its right: a letter, a gap such as a space, or a mark such as a quote.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from ragmetrics_core.capture.byte_spans import EqualSpan
from ragmetrics_core.capture.normalized_text import Prompt, Text, normalize_text
from ragmetrics_core.capture.occurrences import (
    MOST_OCCURRENCES,
    MOST_TRIES,
    Occurrence,
    SoughtText,
)
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.word_borders import divides_word

_MARKS = lazy_pattern(
    r"""[\n\r\t"'`“”„«»‘’<>]|\\[nrt"']|&(?:amp;)*(?:quot|apos|lt|gt|\#39|\#34|\#x27);"""
)
_NUMBERED = lazy_pattern(r"(?:^|\n|\\n)\W*\d{1,3}[.):\]]\s*$")
# a text of fewer bytes must stand in a line or in quotes: its words may stand anywhere
_VERY_SHORT = 16
_LONGEST_NUMBERING = 20  # characters in which the number of a list's line stands


class Border(IntEnum):
    """What stands on one side of a short text.

    The members grow: ``LETTER`` < ``GAP`` < ``MARK``. A larger one sets the text off
    better from what stands around it.
    """

    LETTER = 0  # another letter touches it
    GAP = 1  # a space or the like
    MARK = 2  # a quote, a tag, a bullet, a line's end, or the end of the message


class Borders(NamedTuple):
    """What stands on both sides of a short text.

    Attributes:
        left: What stands on its left.
        right: What stands on its right.
    """

    left: Border
    right: Border


def stands_by_itself(size: int, borders: Borders) -> bool:
    """Whether its borders set a short text off from other words.

    A very short text, of fewer than 16 bytes, needs marks on both sides, such as
    quotes; any other one needs gaps.

    Args:
        size: The number of bytes of the text.
        borders: What stands on both sides.
    """
    border_needed = Border.MARK if size < _VERY_SHORT else Border.GAP
    return min(borders) >= border_needed


def is_inside_of_word(size: int, borders: Borders) -> bool:
    """Whether a very short text is a part of a word, as "art" is of "party".

    A mark on one side makes it doubtful: ``"art"s`` may hold the whole text.

    Args:
        size: The number of bytes of the text.
        borders: What stands on both sides.
    """
    touches_letter = Border.LETTER in borders
    has_mark = Border.MARK in borders
    return size < _VERY_SHORT and touches_letter and not has_mark


def occurrences_of_short_text(
    sought_text: SoughtText, prompt: Prompt
) -> Iterator[Occurrence]:
    """Yield where a text of fewer than 32 bytes stands in a prompt.

    Example: "art" stands twice in 'the "art" of party'. A text without letters, such as
    "...", is looked for by its characters. If the text stands in very many places, not
    all of them are yielded, and its ``n_tries_left`` is set to 0.
    """
    find_in = _occurrences_by_characters
    if sought_text.text.normalized:
        find_in = _occurrences_in_normalized
    starts = prompt.message_starts
    for message, message_start in zip(prompt.messages, starts, strict=True):
        yield from find_in(sought_text, message, message_start)


def borders_of(occurrence: Occurrence, prompt: Prompt) -> Borders:
    """Return what stands on the left and on the right of a text in a prompt.

    Example: "art" in "party" has a letter on both sides, in "the art of" a gap, and in
    'the "art" of' a mark.

    Args:
        occurrence: Where the text stands in one piece.
        prompt: The prompt.
    """
    span = occurrence.spans[0]
    message = prompt.message_at(span.prompt_start)
    # Where the text begins and ends in the normalized message: 3 and 6 for "art" in
    # 'the "art" of', which is normalized to "theartof".
    normalized_start = prompt.index_in_message(span.prompt_start)
    normalized_end = prompt.index_in_message(span.prompt_end)
    if occurrence.literal_offsets is None:
        # where it begins and ends in the message as written: 5 and 8
        start = message.raw_start_at(normalized_start)
        end = message.raw_end_before(normalized_end)
        return Borders(
            _left_border(message, normalized_start, start),
            _right_border(message, normalized_end, end),
        )
    # "..." has no letters, and so no place of its own in the normalized message
    start, end = occurrence.literal_offsets
    left = _left_border(message, normalized_start, start)
    right = _right_border(message, normalized_end, end)
    # of "Yes..." the "s" touches the dots, and yet the dots are not cut out of a word
    return Borders(_gap_if_letter(left), _gap_if_letter(right))


def _gap_if_letter(border: Border) -> Border:
    """Return a gap for a letter, and any other border as it is."""
    return Border.GAP if border is Border.LETTER else border


def _left_border(message: Text, normalized_start: int, start: int) -> Border:
    """Return what stands on the left of a text in a message.

    Args:
        message: The message.
        normalized_start: Where the text begins in the normalized message.
        start: Where the text begins in the message as written.
    """
    # "50" in "12.50", which is one number
    if divides_word(message.raw, start):
        return Border.LETTER
    # nothing stands before it, or only the number of a line, as in "3. art"
    if normalized_start == 0 or _ends_with_numbering(message.raw, start):
        return Border.MARK
    raw_end_before = message.raw_end_before(normalized_start)
    return _border(message.raw[raw_end_before:start])


def _right_border(message: Text, normalized_end: int, end: int) -> Border:
    """Return what stands on the right of a text in a message.

    Args:
        message: The message.
        normalized_end: Where the text ends in the normalized message.
        end: Where the text ends in the message as written.
    """
    # "12" in "12.50", which is one number
    if divides_word(message.raw, end):
        return Border.LETTER
    if normalized_end == len(message.normalized):
        return Border.MARK
    start_of_next_letter = message.raw_start_at(normalized_end)
    return _border(message.raw[end:start_of_next_letter])


def _occurrences_in_normalized(
    sought_text: SoughtText, message: Text, message_start: int
) -> Iterator[Occurrence]:
    """Yield where a short text stands in a message.

    Example: "art" stands in "Art of party" at the bytes 0 and 6. After 500
    occurrences the search ends, and ``n_tries_left`` of the text is set to 0.

    Args:
        sought_text: The text.
        message: The message.
        message_start: Where the message begins in the normalized prompt.
    """
    normalized = sought_text.text.normalized
    start = -1
    for _ in range(MOST_OCCURRENCES):
        start = message.normalized.find(normalized, start + 1)
        if start < 0:
            return
        span = EqualSpan(message_start + start, text_start=0, size=len(normalized))
        yield Occurrence(sought_text, [span])
    sought_text.n_tries_left = 0


def _occurrences_by_characters(
    sought_text: SoughtText, message: Text, message_start: int
) -> Iterator[Occurrence]:
    """Yield where a text without letters, such as "...", stands in a message.

    Normalized, "Yes, ..." is ``yes``, in which the dots are no bytes: their span is
    empty, and stands behind byte 3. Their place in the message as written is noted
    beside it, as literal offsets: 5 and 8.

    After 64 occurrences the search ends, and ``n_tries_left`` of the text is set to 0.

    Args:
        sought_text: The text.
        message: The message of the prompt in which it is sought.
        message_start: How many normalized bytes the prompt has before the message.
    """
    characters = sought_text.text.raw.strip()
    offset = -1
    for _ in range(MOST_TRIES):
        offset = message.raw.find(characters, offset + 1)
        if offset < 0:
            return
        n_bytes_before = len(normalize_text(message.raw[:offset]))
        # the place of the text in the normalized prompt, of which it has no bytes
        empty_span = EqualSpan(message_start + n_bytes_before, text_start=0, size=0)
        literal_offsets = (offset, offset + len(characters))
        yield Occurrence(sought_text, [empty_span], literal_offsets)
    sought_text.n_tries_left = 0


def _ends_with_numbering(raw: str, end: int) -> bool:
    """Whether a line's number, such as "3. ", stands before an offset of a message."""
    before = raw[max(end - _LONGEST_NUMBERING, 0) : end]
    return _NUMBERED.search(before) is not None


def _border(between: str) -> Border:
    """Return what the characters between a short text and the next letter are."""
    # an apostrophe alone is no quote: it stands inside a word
    is_apostrophe = between in ("'", "’")
    if _MARKS.search(between) and not is_apostrophe:
        return Border.MARK
    return Border.GAP if between else Border.LETTER
