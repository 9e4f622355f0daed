"""Where a prompt that shows a text has other words than the text. Pure.

Locating steps over a few letters that only the prompt or only the text has. Most of them
change no word of the text: the number of a line, a tag, a citation mark. Others do, such
as a date that the application replaced, or a "not" that it put in. A text with such a
**difference** is not shown whole.

Prompt and text are compared by their letters, as bytes (``letters``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from ragmetrics_core.capture.byte_spans import LONGEST_STEP, EqualSpan
from ragmetrics_core.capture.letters import (
    BEGINNING_OF_LINE,
    Prompt,
    Text,
    decode_escapes,
    letters_of,
)
from ragmetrics_core.capture.matching import RESUMED_LENGTH
from ragmetrics_core.capture.occurrences import MOST_APART
from ragmetrics_core.data.lazy_patterns import lazy_pattern

# what changes no word: a tag, the target of a link, a mark such as "[12, p. 3]"
MARKUP = lazy_pattern(
    r"</?[A-Za-z!][^<>]{0,300}>|\]\([^()\s]{1,300}\)|\[[^\[\]\d]{0,24}\d[^\[\]]{0,24}\]"
)
# the end of a sentence or of a paragraph
_SENTENCE_END = lazy_pattern(r"[.!?:;…][\"'”’»)\]*_]*\s|[。！？]|\n\s*\n")
# the most bytes of a text's last word that may be missing, and their share of all its bytes
_MOST_OF_LAST_WORD = 3
_SHARE_OF_LAST_WORD = 0.02
_NOT_FIRST_OF_LETTER = range(0x80, 0xC0)  # bytes inside of a letter of several bytes


class IntactRange(NamedTuple):
    """A range of a text that a prompt shows without other words in it.

    Attributes:
        start: Where it begins in the letters of the text.
        end: Where it ends there.
        prompt_end: Where its last equal letter ends in the letters of the prompt.
    """

    start: int
    end: int
    prompt_end: int


def intact_ranges(
    text: Text, prompt: Prompt, spans: Iterable[EqualSpan]
) -> list[IntactRange]:
    """Return the ranges of a text that a prompt shows without other words in them.

    Example: the text "It opened in 1874 and fell.", and the prompt "It opened in 1875
    and fell.": one range ends before the "4", and one begins after it.

    A tag or a mark such as "[12]" that only the text has is no other word.

    Args:
        text: The text. All places are counted in its letters and digits.
        prompt: The prompt.
        spans: Where text and prompt have equal letters; at least one span.

    Returns:
        The ranges in the order of the text. Two meet where the prompt puts a word
        between them.
    """
    in_order = sorted(spans, key=lambda span: span.text_start)
    start = in_order[0].text_start
    # before the first equal letters the text has only tags and marks
    if not _words_of_text(text, 0, start):
        start = 0
    ranges = []
    for before, after in pairwise(in_order):
        if _is_difference(text, prompt, before, after):
            ranges.append(IntactRange(start, before.text_end, before.prompt_end))
            start = after.text_start
    last = in_order[-1]
    end = last.text_end
    # after the last equal letters the text has only tags and marks
    if not _words_of_text(text, end, len(text.letters)):
        end = len(text.letters)
    return [*ranges, IntactRange(start, end, last.prompt_end)]


def is_rest_of_last_word(text: Text, start: int) -> bool:
    """Whether no more than the last letters of a text's last word follow.

    Prompts of several calls that divide a text may cut it there. A digit counts: "18"
    is not "1874".
    """
    n_letters = len(text.letters)
    n_missing = n_letters - start
    if n_missing > min(_MOST_OF_LAST_WORD, _SHARE_OF_LAST_WORD * n_letters):
        return False
    raw_start, _ = text.gap_at(start)
    rest = re.match(r"[^\W\d]+", text.raw[raw_start:])
    return rest is not None and len(letters_of(rest[0])) == n_missing


def _is_difference(
    text: Text, prompt: Prompt, before: EqualSpan, after: EqualSpan
) -> bool:
    """Whether text and prompt have other words between two spans of equal letters.

    Example: the text "It opened in 1874." and the prompt "It was opened in 1874."
    differ after "It". The prompt "It [2] opened in 1874." has no other words.

    Four cases are told apart:

    - the next span stands elsewhere: whether the text has words between the spans
    - the prompt leaves out letters of the text: "It opened" for "It was opened"
    - the prompt puts letters in: "It was opened" for "It opened"
    - both have letters there: "1875" for "1874"
    """
    # what only the text has
    text_gap = (before.text_end, max(after.text_start, before.text_end))
    n_put_in = after.prompt_start - before.prompt_end
    goes_on = 0 <= n_put_in <= MOST_APART + LONGEST_STEP
    # the next span stands in another place of the prompt: what the prompt has between
    # the spans belongs to other texts
    if not goes_on:
        return bool(_words_of_text(text, *text_gap))
    # The prompt leaves letters out: of "<p>port" either the first or the second "p" may
    # be left out. The first belongs to a tag: then no word is left out.
    is_left_out = n_put_in == 0 and text_gap[0] < text_gap[1]
    if is_left_out:
        shifted_gaps = _shifted(text.letters, text_gap, most_back=before.size)
        return all(_words_of_text(text, *gap) for gap in shifted_gaps)
    # The prompt puts letters in, and what it puts in ends with the letters that only the
    # text seems to have: so the prompt has these, too. Example: the first byte of two
    # Cyrillic letters is the same.
    put_in = (before.prompt_end, after.prompt_start)
    gap_letters = text.letters[slice(*text_gap)]
    if prompt.letters[slice(*put_in)].endswith(gap_letters):
        put_in = (put_in[0], put_in[1] - len(gap_letters))
        # the text goes on without a gap: "It was opened"
        return _puts_words_in(
            text, prompt, before.text_end, put_in, most_back=before.size
        )
    # both have letters there: "1874" and "1875"
    return _words_of_text(text, *text_gap) != _words_of_prompt(prompt, *put_in)


def _puts_words_in(
    text: Text,
    prompt: Prompt,
    text_offset: int,
    put_in: tuple[int, int],
    *,
    most_back: int,
) -> bool:
    """Whether the letters that a prompt puts into a text are words in a sentence.

    Example: the text is "It fell in 1874.", and the prompt shows "It never fell in
    1874.": True. False for words between two sentences of the text, which change
    neither, and for a repetition of the words before, as where two chunks overlap.

    Args:
        text: The text.
        prompt: The prompt.
        text_offset: The letter of the text before which the letters are put in.
        put_in: Where the letters begin and end in the prompt.
        most_back: How many letters before them are equal in text and prompt.
    """
    # The letters put in may also begin further back: as the first or second "p" of
    # "<p>port". False if one reading is a tag, or stands between two sentences.
    for start, end in _shifted(prompt.letters, put_in, most_back=most_back):
        n_back = put_in[0] - start
        words = _words_of_prompt(prompt, start, end)
        if not words or _is_between_sentences(text, text_offset - n_back):
            return False
    # ``words`` is now the reading that begins furthest back. A repetition of fewer than
    # 12 letters, as in "had had", may be chance: it counts as words.
    repeats_words_before = text.letters.endswith(words, 0, text_offset)
    return not repeats_words_before or len(words) < RESUMED_LENGTH


def _is_between_sentences(text: Text, text_offset: int) -> bool:
    """Whether a sentence or a paragraph of a text ends before one of its letters."""
    raw_start, raw_end = text.gap_at(text_offset)
    between = decode_escapes(text.raw[raw_start:raw_end])
    return _SENTENCE_END.search(between) is not None


def _shifted(
    letters: bytes, gap: tuple[int, int], *, most_back: int
) -> Iterator[tuple[int, int]]:
    """Yield a gap, and the same gap further back where the letters allow it.

    Nobody can say which of two equal letters was put in. Example: the prompt has the
    letters ``thepport`` and the text ``theport``. The gap (4, 5) is the second "p" of
    the prompt, and (3, 4) the first one.

    Args:
        letters: The letters of prompt or text.
        gap: Where the gap begins and ends in them.
        most_back: How many letters back the gap may begin.
    """
    start, end = gap
    for _ in range(min(most_back, LONGEST_STEP) + 1):
        if not _is_inside_of_letter(letters, start):
            yield start, end
        # other letters would be left in the text
        if start == 0 or letters[start - 1] != letters[end - 1]:
            return
        start -= 1
        end -= 1


def _is_inside_of_letter(letters: bytes, index: int) -> bool:
    """Whether an index of the bytes lies inside of a letter of several bytes."""
    return index < len(letters) and letters[index] in _NOT_FIRST_OF_LETTER


def _words_of_text(text: Text, start: int, end: int) -> bytes:
    """Return the letters ``[start, end)`` of a text that are no tags, links or marks."""
    if start >= end:
        return b""
    return letters_of(MARKUP.sub(" ", text.written_around(start, end)))


def _words_of_prompt(prompt: Prompt, start: int, end: int) -> bytes:
    """Return the letters ``[start, end)`` of a prompt that no markup has.

    Example: ``fellin1879`` where the prompt has "<b>fell</b> in 1879 [2]". Tags, the
    targets of links, marks such as "[2]", and the number of a line are left out.

    Args:
        prompt: The prompt.
        start: The first letter, counted in the letters of all messages.
        end: The end, in the same message.
    """
    message_index = prompt.message_index_at(start)
    message = prompt.messages[message_index]
    message_start = prompt.message_starts[message_index]
    written = message.written_around(start - message_start, end - message_start)
    return letters_of(_without_line_number(MARKUP.sub(" ", written), message))


def _without_line_number(written: str, message: Text) -> str:
    r"""Leave out the first number of a line that counts the lines of a message.

    Example: "fell.\n3. It" becomes "fell. It" in a message with a line "2. …".
    """
    number = BEGINNING_OF_LINE.search(written)
    if number is None or not _counts_lines(number, message):
        return written
    return f"{written[: number.start()]} {written[number.end() :]}"


def _counts_lines(number: re.Match[str], message: Text) -> bool:
    """Whether a number at the beginning of a line counts the lines.

    Then a line before or after has the number before or the next one.
    """
    value = int(number["number"])
    return not message.line_numbers.isdisjoint((value - 1, value + 1))
