"""Whether a text begins and ends at the borders of words where it stands. Pure.

A prompt with "The fare is 125." has all letters of the text "The fare is 12." and does
not show it: the text would end inside of a number of the prompt. Words that another
text has beside it are no such case, as where two pieces of one page are joined.

Places are counted in bytes of the normalized texts (``normalized_text``).
"""

from __future__ import annotations

from ragmetrics_core.capture.byte_spans import clip_spans
from ragmetrics_core.capture.normalized_text import (
    Prompt,
    Text,
    decode_escapes,
    normalize_text,
)
from ragmetrics_core.capture.occurrences import LongerWords, Occurrence
from ragmetrics_core.capture.passages import SHORTEST
from ragmetrics_core.data.word_borders import divides_word, holds_as_words

_DIGITS = range(ord("0"), ord("9") + 1)
_BESIDE = 4  # bytes on both sides of a place that tell whether a number goes on there
_LONGEST_WORD = 64  # characters of a word that are looked at


def is_contained_as_words(text: Text, host: Text) -> bool:
    """Whether a text stands whole in another one, and does not cut its words or numbers.

    It must be too long for mere chance: 16 letters and digits. A piece of the other
    text, as it is written there, may begin or end within a word (``holds_as_words``).
    """
    normalized = text.normalized
    if len(normalized) < SHORTEST:
        return False
    start = host.normalized.find(normalized)
    while start >= 0:
        end = start + len(normalized)
        cuts_word = _begins_inside_of_word(host, start) or _ends_inside_of_word(
            host, end
        )
        if not cuts_word:
            return True
        start = host.normalized.find(normalized, end)
    return holds_as_words(host.raw, text.raw)


def cut_longer_words(
    occurrence: Occurrence, prompt: Prompt, is_of_text: bytearray
) -> None:
    """Take away a text's first or last word where the prompt has a longer one.

    Example: the text "The fare is 12." in the prompt "The fare is 125.": "The fare is"
    is left of the occurrence, which is marked as ``longer_words.behind``.

    Args:
        occurrence: Where the text stands. Its spans are changed; none is left of a text
            that is one word.
        prompt: The prompt.
        is_of_text: For each byte of the normalized prompt 1 if it is of a sought text.
            Where the next byte is of another sought text, as where two pieces of a page
            are joined within a word, the prompt's word does not count as longer.
    """
    longer_words = _longer_words_around(occurrence, prompt, is_of_text)
    if not any(longer_words):
        return
    text = occurrence.sought_text.text
    text_start = 0
    text_end = len(text.normalized)
    if longer_words.before:
        text_start += _size_of_first_word(text)
    if longer_words.behind:
        text_end -= _size_of_last_word(text)
    occurrence.spans = clip_spans(
        occurrence.spans, text_start=text_start, text_end=text_end
    )
    occurrence.longer_words = longer_words


def _longer_words_around(
    occurrence: Occurrence, prompt: Prompt, is_of_text: bytearray
) -> LongerWords:
    """Tell at which ends of a text the prompt has a longer word than the text.

    Example: the text "The fare is 12." in the prompt "The fare is 125.": behind it. An
    occurrence without the text's first or last byte has no longer word at that end.
    """
    first = min(occurrence.spans, key=lambda span: span.text_start)
    last = max(occurrence.spans, key=lambda span: span.text_end)
    if first.size == 0:  # a text without letters, such as "..."
        return LongerWords(before=False, behind=False)
    shows_first_byte = first.text_start == 0
    shows_last_byte = last.text_end == occurrence.sought_text.size
    return LongerWords(
        before=shows_first_byte
        and _has_longer_word_before(first.prompt_start, prompt, is_of_text),
        behind=shows_last_byte
        and _has_longer_word_behind(last.prompt_end, prompt, is_of_text),
    )


def _has_longer_word_before(place: int, prompt: Prompt, is_of_text: bytearray) -> bool:
    """Whether a word that no sought text has goes on at a letter of the prompt."""
    index = prompt.index_in_message(place)
    if index == 0 or is_of_text[place - 1] or not _may_be_of_one_word(prompt, place):
        return False
    return _begins_inside_of_word(prompt.message_at(place), index)


def _has_longer_word_behind(place: int, prompt: Prompt, is_of_text: bytearray) -> bool:
    """Whether a word goes on that ends behind a letter, and no sought text has its end.

    Args:
        place: Where the letter ends, an index in the normalized prompt.
        prompt: The prompt.
        is_of_text: For each byte of the normalized prompt 1 if it is of a sought text.
    """
    message = prompt.message_at(place)
    index = prompt.index_in_message(place)
    if index == len(message.normalized) or is_of_text[place]:
        return False
    return _may_be_of_one_word(prompt, place) and _ends_inside_of_word(message, index)


def _may_be_of_one_word(prompt: Prompt, place: int) -> bool:
    """Whether the letters before and behind a place are two digits or two letters.

    This is fast, and spares most texts a look at the prompt as it is written.
    """
    is_digit_before = prompt.normalized[place - 1] in _DIGITS
    return is_digit_before == (prompt.normalized[place] in _DIGITS)


def _begins_inside_of_word(message: Text, index: int) -> bool:
    """Whether a word of a message begins before a letter and goes on with it."""
    return _is_inside_of_word(message, index, message.raw_start_at(index))


def _ends_inside_of_word(message: Text, index: int) -> bool:
    """Whether a word of a message goes on behind the letter that ends at an index."""
    return _is_inside_of_word(message, index, message.raw_end_before(index))


def _is_inside_of_word(message: Text, index: int, offset: int) -> bool:
    """Whether a place of a message lies inside of a word or number.

    Example: in "The fare is 125." the place before the "5". An escape counts as the
    letter that it stands for, as in "caf&eacute;s".

    Args:
        message: The message.
        index: How many normalized bytes of the message stand before the place.
        offset: The place in the message as it is written.
    """
    # a few bytes on both sides of the place, as they are written, with their signs
    start = message.raw_end_before(max(index - _BESIDE, 0))
    end = message.raw_start_at(min(index + _BESIDE, len(message.normalized)))
    before = decode_escapes(message.raw[start:offset])
    behind = decode_escapes(message.raw[offset:end])
    return divides_word(before + behind, len(before))


def _size_of_first_word(text: Text) -> int:
    """Count the letters of a text's first word or number, in bytes."""
    start, end = text.offsets_of(0, 1)
    longest_end = min(start + _LONGEST_WORD, len(text.raw))
    while end < longest_end and divides_word(text.raw, end):
        end += 1
    return len(normalize_text(text.raw[start:end]))


def _size_of_last_word(text: Text) -> int:
    """Count the letters of a text's last word or number, in bytes."""
    n_bytes = len(text.normalized)
    start, end = text.offsets_of(n_bytes - 1, n_bytes)
    first_start = max(end - _LONGEST_WORD, 0)
    while start > first_start and divides_word(text.raw, start):
        start -= 1
    return len(normalize_text(text.raw[start:end]))
