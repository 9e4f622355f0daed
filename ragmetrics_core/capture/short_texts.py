"""Where short texts stand in a prompt, and what stands beside them. Pure.

The words of a short text may stand in any sentence. So it matters what stands on its
left and on its right: a letter, a gap such as a space, or a mark such as a quote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from ragmetrics_core.capture.byte_spans import EqualSpan
from ragmetrics_core.capture.letters import Prompt, Text, letters_of
from ragmetrics_core.capture.occurrences import (
    MOST_OCCURRENCES,
    MOST_TRIES,
    Occurrence,
    SoughtText,
)
from ragmetrics_core.data.lazy_patterns import lazy_pattern

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


def short_texts_standing_apart(
    occurrences: Sequence[Occurrence], prompt: Prompt
) -> set[Occurrence]:
    """Find the occurrences of short texts that touch no word of another text.

    Example: "Art" in '"Art"' and in "ArtBridge", where "Bridge" is another text. They
    may touch each other, as two titles do, or a long text that stands there whole.
    """
    if not any(occurrence.sought_text.is_short for occurrence in occurrences):
        return set()
    whole = [occurrence for occurrence in occurrences if occurrence.is_whole]
    whole.sort(key=lambda occurrence: occurrence.begins_at)
    short_occurrences = [each for each in whole if each.sought_text.is_short]
    long_occurrences = [each for each in whole if not each.sought_text.is_short]
    apart_on_left = _apart_on_left(short_occurrences, long_occurrences, prompt)
    return set(_apart_on_right(apart_on_left, long_occurrences, prompt))


def _apart_on_left(
    short_occurrences: Iterable[Occurrence],
    long_occurrences: Iterable[Occurrence],
    prompt: Prompt,
) -> list[Occurrence]:
    """Keep the short texts that no word touches on the left.

    A short text is kept if no letter stands before it, or if this letter ends a whole
    text. Example: the title "Art" is kept in ``"Art``, and in "BridgeArt" if "Bridge" is
    a whole text. It is left out in "Start", since "St" is no whole text.

    Args:
        short_occurrences: Where short texts, such as titles, stand whole in the prompt;
            in the prompt's order.
        long_occurrences: Where longer texts stand whole in the prompt.
        prompt: The prompt.
    """
    # where a whole text ends, counted in letters and digits of the prompt
    ends_of_texts = {each.spans[-1].prompt_end for each in long_occurrences}
    apart: list[Occurrence] = []
    for occurrence in short_occurrences:
        span = occurrence.spans[0]  # a short text stands in one piece
        touches_word = borders_of(span, prompt).left == Border.LETTER
        if not touches_word or span.prompt_start in ends_of_texts:
            apart.append(occurrence)
            # "ArtArt": the second "Art" follows the end of a whole text, the first
            ends_of_texts.add(span.prompt_end)
    return apart


def _apart_on_right(
    short_occurrences: Sequence[Occurrence],
    long_occurrences: Iterable[Occurrence],
    prompt: Prompt,
) -> list[Occurrence]:
    """Keep the short texts with no other word right after their last letter.

    Example: the title "Art" stands in ``Art"`` and in "ArtBridge", where another whole
    text, "Bridge", begins right after it. "Artist" is left out: "ist" is no such text.

    Args:
        short_occurrences: Where short texts, such as titles, stand whole in the prompt;
            in the prompt's order.
        long_occurrences: Where longer texts stand whole in the prompt.
        prompt: The prompt.
    """
    # where a whole text begins, counted in letters and digits of the prompt
    starts_of_texts = {each.spans[0].prompt_start for each in long_occurrences}
    apart: list[Occurrence] = []
    # from the prompt's end, so that the text after each one was looked at before
    for occurrence in reversed(short_occurrences):
        span = occurrence.spans[0]  # a short text stands in one piece
        touches_word = borders_of(span, prompt).right == Border.LETTER
        if not touches_word or span.prompt_end in starts_of_texts:
            apart.append(occurrence)
            starts_of_texts.add(span.prompt_start)
    return apart


def occurrences_of_short_text(
    sought_text: SoughtText, prompt: Prompt
) -> Iterator[tuple[Occurrence, Borders]]:
    """Yield where a text of fewer than 16 bytes stands in a prompt, with its borders.

    Example: "art" in 'the "art" of party' stands between marks, and between letters.
    If the text stands in very many places, not all of them are yielded, and its
    ``n_tries_left`` is set to 0.
    """
    starts = prompt.message_starts
    for message, message_start in zip(prompt.messages, starts, strict=True):
        for occurrence in _occurrences_in(message, message_start, sought_text):
            # a short text is found in one piece
            start = occurrence.spans[0].prompt_start - message_start
            end = start + sought_text.size
            borders = _borders_in(message, start, end, occurrence.literal_offsets)
            yield occurrence, borders


def borders_of(span: EqualSpan, prompt: Prompt) -> Borders:
    """Return what stands on the left and on the right of a span of a prompt."""
    message_index = prompt.message_index_at(span.prompt_start)
    message_start = prompt.message_starts[message_index]
    return _borders_in(
        prompt.messages[message_index],
        span.prompt_start - message_start,
        span.prompt_end - message_start,
    )


def _occurrences_in(
    message: Text, message_start: int, sought_text: SoughtText
) -> Iterator[Occurrence]:
    """Yield where a short text stands in a message.

    A text without letters, such as "...", is looked for by its characters.

    Args:
        message: The message.
        message_start: Where the message begins in the prompt's letters.
        sought_text: The text.
    """
    if sought_text.text.letters:
        yield from _occurrences_by_letters(sought_text, message, message_start)
    else:
        yield from _occurrences_by_characters(sought_text, message, message_start)


def _occurrences_by_letters(
    sought_text: SoughtText, message: Text, message_start: int
) -> Iterator[Occurrence]:
    """Yield where the letters of a short text stand in a message.

    Example: "art" stands in "Art of party" at the letters 0 and 6. After 500
    occurrences the search ends, and ``n_tries_left`` of the text is set to 0.

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
    """Yield where a text without letters, such as "...", stands in a message.

    Places in a prompt are counted in its letters and digits. Example: in "Yes, ...",
    "..." stands after 3 of them, and its literal offsets are 5 and 8.

    After 64 occurrences the search ends, and ``n_tries_left`` of the text is set to 0.

    Args:
        sought_text: The text.
        message: The message of the prompt in which it is sought.
        message_start: How many letters and digits the prompt has before the message.
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
    message: Text,
    start: int,
    end: int,
    literal_offsets: tuple[int, int] | None = None,
) -> Borders:
    """Return what stands on the left and on the right of a short text in a message.

    Example: "art" in "party" has a letter on both sides, in "the art of" a gap, and in
    'the "art" of' a mark.

    Args:
        message: The message.
        start: How many letters and digits of the message stand before the text: 3 for
            "art" in 'the "art" of'.
        end: The same for the end of the text: 6.
        literal_offsets: For a text without letters, such as "...", the offsets in the
            message at which it begins and ends. None for a text with letters.
    """
    # Where the characters that are no letters stand before and after the text, ' "'
    # and '" '. ``start`` and ``end`` count letters; these offsets count all characters.
    left_gap_start, text_start = message.gap_at(start)
    text_end, right_gap_end = message.gap_at(end)
    if literal_offsets is not None:
        text_start, text_end = literal_offsets
    left = _border(message.raw[left_gap_start:text_start])
    right = _border(message.raw[text_end:right_gap_end])
    # the text begins the message, or stands after the number of a line: "3. art"
    if start == 0 or _ends_with_numbering(message.raw, text_start):
        left = Border.MARK
    if end == len(message.letters):
        right = Border.MARK
    # a letter never joins the dots of "...": they count as set off by a gap at least
    if literal_offsets is not None:
        return Borders(max(left, Border.GAP), max(right, Border.GAP))
    return Borders(left, right)


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
