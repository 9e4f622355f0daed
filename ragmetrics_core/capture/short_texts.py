"""Where short texts stand in a prompt, and what stands beside them. Pure.

The words of a short text may stand in any sentence. So it matters what stands on its
left and on its right: a letter, a gap such as a space, or a mark such as a quote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum

from ragmetrics_core.capture.byte_spans import EqualSpan
from ragmetrics_core.capture.letters import Prompt, Text, letters_of
from ragmetrics_core.capture.occurrences import (
    MOST_OCCURRENCES,
    MOST_TRIES,
    Occurrence,
    SoughtText,
)

_MARKS = re.compile(
    r"""[\n\r\t"'`“”„«»‘’<>]|\\[nrt"']|&(?:amp;)*(?:quot|apos|lt|gt|\#39|\#34|\#x27);"""
)
_NUMBERED = re.compile(r"(?:^|\n|\\n)\W*\d{1,3}[.):\]]\s*$")
_LONGEST_NUMBERING = 20  # characters in which the number of a list's line stands


class Border(IntEnum):
    """What stands on one side of a short text.

    The members grow: ``LETTER`` < ``GAP`` < ``MARK``. A larger one sets the text off
    better from what stands around it.
    """

    LETTER = 0  # another letter touches it
    GAP = 1  # a space or the like
    MARK = 2  # a quote, a tag, a bullet, a line's end, or the end of the message


def occurrences_of_short_text(
    sought_text: SoughtText, prompt: Prompt
) -> Iterator[tuple[Occurrence, Border, Border]]:
    """Yield where a text too short for an anchor stands in a prompt.

    Each message is searched by itself. The search of a message ends after 500
    occurrences, or after 64 of a text without letters, such as a row of dots. Then
    ``n_tries_left`` of the text is set to 0: more occurrences may stand in the message.

    Args:
        sought_text: The text.
        prompt: The prompt.

    Yields:
        The occurrence, its border on the left, and its border on the right.
    """
    starts = prompt.message_starts
    for message, message_start in zip(prompt.messages, starts, strict=True):
        if sought_text.text.letters:
            occurrences = _occurrences_by_letters(sought_text, message, message_start)
        else:
            occurrences = _occurrences_by_characters(
                sought_text, message, message_start
            )
        for occurrence in occurrences:
            span = occurrence.spans[0]  # a short text is found in one piece
            # spans count from the start of the prompt, borders from that of the message
            start = span.prompt_start - message_start
            left, right = _borders_in(
                message, start, start + span.size, occurrence.literal_offsets
            )
            yield occurrence, left, right


def borders_of(span: EqualSpan, prompt: Prompt) -> tuple[Border, Border]:
    """Return what stands on the left and on the right of a span of a prompt."""
    message_index = prompt.message_index_at(span.prompt_start)
    message_start = prompt.message_starts[message_index]
    return _borders_in(
        prompt.messages[message_index],
        span.prompt_start - message_start,
        span.prompt_end - message_start,
        literal_offsets=None,
    )


def _occurrences_by_letters(
    sought_text: SoughtText, message: Text, message_start: int
) -> Iterator[Occurrence]:
    """Yield where the letters of a short text stand in a message.

    After 500 occurrences the search ends, and ``n_tries_left`` of the text is set to 0.

    Args:
        sought_text: The text.
        message: The message.
        message_start: Where the message begins in the prompt's letters.
    """
    letters = sought_text.text.letters
    start = -1
    for _ in range(MOST_OCCURRENCES):
        start = message.letters.find(letters, start + 1)
        if start < 0:
            return
        span = EqualSpan(message_start + start, text_start=0, size=len(letters))
        yield Occurrence(sought_text, [span])
    sought_text.n_tries_left = 0


def _occurrences_by_characters(
    sought_text: SoughtText, message: Text, message_start: int
) -> Iterator[Occurrence]:
    """Yield where a text without letters, such as a row of dots, stands in a message.

    The text is looked for character by character, since it has no letters. After 64
    occurrences the search ends, and ``n_tries_left`` of the text is set to 0.

    Args:
        sought_text: The text.
        message: The message.
        message_start: Where the message begins in the prompt's letters.

    Yields:
        An occurrence with two positions. Its only span counts letters: it has size 0,
        and begins behind the letters before the text. Its ``literal_offsets`` count
        characters of the message as written.
    """
    characters = sought_text.text.raw.strip()
    offset = -1
    for _ in range(MOST_TRIES):
        offset = message.raw.find(characters, offset + 1)
        if offset < 0:
            return
        n_letters_before = len(letters_of(message.raw[:offset]))
        empty_span = EqualSpan(message_start + n_letters_before, text_start=0, size=0)
        literal_offsets = (offset, offset + len(characters))
        yield Occurrence(sought_text, [empty_span], literal_offsets)
    sought_text.n_tries_left = 0


def _borders_in(
    message: Text, start: int, end: int, literal_offsets: tuple[int, int] | None
) -> tuple[Border, Border]:
    """Return what stands on the left and on the right of a short text in a message.

    The number of a list's line, as in "3. text", sets the text off like a quote does.

    There are two ways to count: ``start`` and ``end`` count only the letters of the
    message, all other offsets its characters. ``gap_at`` leads from one to the other.

    Args:
        message: The message that shows the text.
        start: Where the text begins, counted in the letters of the message.
        end: Where it ends, counted in the letters of the message.
        literal_offsets: Only for a text without letters, such as "...": where it begins
            and ends, counted in the characters of the message as written. Its ``start``
            and ``end`` are equal. None for a text with letters.
    """
    # A gap is the characters between two letters: left gap, text, right gap. Its
    # offsets count characters.
    left_gap_start, text_start = message.gap_at(start)
    text_end, right_gap_end = message.gap_at(end)
    if literal_offsets:
        # "..." is itself a part of the one gap between the letters around it
        text_start, text_end = literal_offsets
    has_letters = literal_offsets is None
    before = message.raw[max(text_start - _LONGEST_NUMBERING, 0) : text_start]
    is_numbered = _NUMBERED.search(before) is not None
    left = _border(
        message.raw[left_gap_start:text_start],
        is_at_edge=start == 0 or is_numbered,
        has_letters=has_letters,
    )
    right = _border(
        message.raw[text_end:right_gap_end],
        is_at_edge=end == len(message.letters),
        has_letters=has_letters,
    )
    return left, right


def _border(between: str, *, is_at_edge: bool, has_letters: bool) -> Border:
    """Return what stands on one side of a short text.

    Args:
        between: The characters between the text and the next letter.
        is_at_edge: Whether there is no such letter, or a list's number instead.
        has_letters: Whether the text has letters; a row of dots touches no word.
    """
    # an apostrophe alone is no quote: it stands inside a word
    is_apostrophe = between in ("'", "’")
    is_marked = _MARKS.search(between) is not None and not is_apostrophe
    if is_at_edge or is_marked:
        return Border.MARK
    if between or not has_letters:
        return Border.GAP
    return Border.LETTER
