"""Where a prompt that shows a text has other words than the text. Pure.

Locating steps over a few bytes that only the prompt or only the text has. Most of them
change no word of the text: the number of a line, a tag, a citation mark. Others do, such
as a date that the application replaced, or a "not" that it put in. A text with such a
**difference** is not shown whole.

Prompt and text are compared by their normalized text (``normalized_text``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from ragmetrics_core.capture.byte_spans import LONGEST_STEP, EqualSpan
from ragmetrics_core.capture.matching import RESUMED_LENGTH
from ragmetrics_core.capture.normalized_text import (
    BEGINNING_OF_LINE,
    Prompt,
    Text,
    normalize_text,
)
from ragmetrics_core.capture.occurrences import MOST_APART
from ragmetrics_core.data.lazy_patterns import lazy_pattern

# what changes no word: a tag, the target of a link, a mark such as "[12, p. 3]"
MARKUP = lazy_pattern(
    r"</?[A-Za-z!][^<>]{0,300}>|\]\([^()\s]{1,300}\)|\[[^\[\]\d]{0,24}\d[^\[\]]{0,24}\]"
)
# the end of a sentence or of a paragraph
_SENTENCE_END = lazy_pattern(r"[.!?:;…][\"'”’»)\]*_]*\s|[。！？]|\n\s*\n")
# whole words, and signs around them with the end of a line behind
_LAST_WORDS_OF_LINE = lazy_pattern(r"\W.*\n\W*", re.DOTALL)
# the most bytes of a text's last word that may be missing, and their share of all its bytes
_MOST_OF_LAST_WORD = 3
_SHARE_OF_LAST_WORD = 0.02
_FARTHEST = MOST_APART + LONGEST_STEP  # bytes between two spans that follow each other
_NOT_FIRST_OF_LETTER = range(0x80, 0xC0)  # bytes inside of a letter of several bytes


class IntactRange(NamedTuple):
    """A range of a text that a prompt shows without other words in it.

    Attributes:
        start: Where it begins in the normalized text.
        end: Where it ends there.
        end_in_prompt: Where it ends in the normalized prompt. A reader looks there
            whether the prompt goes on within the last word: "in" of "inside".
    """

    start: int
    end: int
    end_in_prompt: int


def intact_ranges(
    text: Text, prompt: Prompt, spans: Iterable[EqualSpan]
) -> list[IntactRange]:
    """Return the ranges of a text that a prompt shows without other words in them.

    Example: the text "It opened in 1874 and fell.", and the prompt "It opened in 1875
    and fell.". The ranges are "It opened in 187" and "and fell".

    A tag or a mark such as "[12]" that only the text has is no other word.

    Args:
        text: The text.
        prompt: The prompt.
        spans: Where the normalized text and prompt are equal; at least one span.

    Returns:
        The ranges in the order of the text. If the prompt only puts a word in, as "not"
        in "It is not old.", a range ends where the next begins.
    """
    in_order = sorted(spans, key=lambda span: span.text_start)
    first, last = in_order[0], in_order[-1]
    start = _start_with_markup_before(text, first.text_start)
    ranges = []
    for before, after in pairwise(in_order):
        if _has_other_words(text, prompt, _gap_between(before, after)):
            # here one range ends, behind "187", and the next one begins, before "and"
            ranges.append(IntactRange(start, before.text_end, before.prompt_end))
            start = after.text_start
    end = _end_with_markup_behind(text, last.text_end)
    ranges.append(IntactRange(start, end, last.prompt_end))
    return ranges


def _start_with_markup_before(text: Text, start: int) -> int:
    """Return 0 if a text has only tags and marks before a byte, else this byte's index."""
    has_words_before = _words_of_text(text, _ByteRange(0, start))
    return start if has_words_before else 0


def _end_with_markup_behind(text: Text, end: int) -> int:
    """Return a text's end if only tags and marks stand behind ``end``, else ``end``."""
    n_bytes = len(text.normalized)
    has_words_behind = _words_of_text(text, _ByteRange(end, n_bytes))
    return end if has_words_behind else n_bytes


def is_rest_of_last_word(text: Text, start: int) -> bool:
    """Whether no more than the last letters of a text's last word follow.

    Prompts of several calls that divide a text may cut it there. A digit counts: "18"
    is not "1874".
    """
    n_bytes = len(text.normalized)
    n_missing = n_bytes - start
    if n_missing > min(_MOST_OF_LAST_WORD, _SHARE_OF_LAST_WORD * n_bytes):
        return False
    raw_start = text.raw_end_before(start)
    rest = re.match(r"[^\W\d]+", text.raw[raw_start:])
    return rest is not None and len(normalize_text(rest[0])) == n_missing


class _ByteRange(NamedTuple):
    """A range of bytes of a normalized text or prompt.

    Attributes:
        start: Where they begin.
        end: Where they end.
    """

    start: int
    end: int

    @property
    def size(self) -> int:
        """How many bytes they are; negative if the second span stands further up."""
        return self.end - self.start


class _Gap(NamedTuple):
    """What stands between two spans of equal bytes.

    Example: the text "It opened in 1874." and the prompt "It was opened in 1875." have
    "It" and "opened in 187" in common. Between them the text has nothing, and the prompt
    has "was".

    Attributes:
        in_text: The bytes that only the text has.
        in_prompt: The bytes that only the prompt has.
        n_equal_before: How many equal bytes stand before them.
    """

    in_text: _ByteRange
    in_prompt: _ByteRange
    n_equal_before: int

    @property
    def is_near(self) -> bool:
        """Whether the prompt goes on with the second span soon after the first one.

        Else the second span stands elsewhere in the prompt, perhaps above the first one,
        and what the prompt has between them belongs to other texts.
        """
        return 0 <= self.in_prompt.size <= _FARTHEST


def _gap_between(before: EqualSpan, after: EqualSpan) -> _Gap:
    """Return what text and prompt have between two spans, in the order of the text."""
    # two spans that stand elsewhere in the prompt may hold the same bytes of the text
    end_in_text = max(before.text_end, after.text_start)
    return _Gap(
        in_text=_ByteRange(before.text_end, end_in_text),
        in_prompt=_ByteRange(before.prompt_end, after.prompt_start),
        n_equal_before=before.size,
    )


def _has_other_words(text: Text, prompt: Prompt, gap: _Gap) -> bool:
    """Whether prompt and text have other words in a gap, and not only tags and marks.

    Examples for the text "It opened in 1874.":

    - the prompt "It opened 1874." leaves "in" out: True;
    - the prompt "It never opened in 1874." puts "never" in: True;
    - the prompt "It closed in 1874." replaces "opened": True;
    - the prompt "It [2] opened in 1874." puts a mark in: False.
    """
    if not gap.is_near:
        return bool(_words_of_text(text, gap.in_text))
    if gap.in_prompt.size == 0 and gap.in_text.size > 0:
        return _leaves_words_out(text, gap)
    put_in = _normalized_put_in(text, prompt, gap)
    if put_in is not None:
        return _puts_words_in(text, prompt, put_in, gap.n_equal_before)
    words_of_text = _words_of_text(text, gap.in_text)
    return words_of_text != _words_of_prompt(prompt, gap.in_prompt)


def _leaves_words_out(text: Text, gap: _Gap) -> bool:
    """Whether the bytes of a text that a prompt leaves out are words.

    Of "<p>port" the prompt leaves out one "p". The first one is a tag: False.
    """
    # nobody can tell which of two equal bytes was left out: try those further back, too
    readings = _shifted(text.normalized, gap.in_text, most_back=gap.n_equal_before)
    return all(_words_of_text(text, reading) for reading in readings)


class _PutIn(NamedTuple):
    """Bytes that only the prompt has, between two bytes of a text.

    Example: the text "It fell." and the prompt "It never fell.": ``in_prompt`` (2, 7)
    holds ``never``, and ``text_offset`` 2 is the "f" of the text.

    Attributes:
        in_prompt: Where they stand in the normalized prompt.
        text_offset: The byte of the text before which they are put in.
    """

    in_prompt: _ByteRange
    text_offset: int


def _normalized_put_in(text: Text, prompt: Prompt, gap: _Gap) -> _PutIn | None:
    """Return what a prompt puts into a text; None if it replaces bytes of the text.

    The text may have the end of a letter there: each Cyrillic letter has two bytes, and
    the first one may be equal by chance. The prompt's bytes then end with this end.
    """
    normalized_text = text.normalized[gap.in_text.start : gap.in_text.end]
    normalized_prompt = prompt.normalized[gap.in_prompt.start : gap.in_prompt.end]
    if not normalized_prompt.endswith(normalized_text):
        return None
    end = gap.in_prompt.end - gap.in_text.size
    return _PutIn(_ByteRange(gap.in_prompt.start, end), gap.in_text.start)


def _puts_words_in(
    text: Text, prompt: Prompt, put_in: _PutIn, n_equal_before: int
) -> bool:
    """Whether the bytes that a prompt puts into a text are words in a sentence.

    Example: for the text "It fell in 1874." the prompt has "It never fell in 1874.":
    True. False for a tag, for words between two sentences of the text, which change
    neither of them, and where the prompt repeats words of the text.

    Args:
        text: The text.
        prompt: The prompt.
        put_in: The bytes.
        n_equal_before: How many bytes before them are equal in text and prompt.
    """
    # In "<p>port" the first or the second "p" may be put into "port": nobody can tell.
    readings = _readings(prompt, put_in, n_equal_before)
    for reading in readings:
        is_markup = not _words_of_prompt(prompt, reading.in_prompt)
        if is_markup or _is_between_sentences(text, reading.text_offset):
            return False
    # the readings go back in the prompt: the last one is the first place
    return not _repeats_words(text, prompt, first=readings[-1], second=readings[0])


def _readings(prompt: Prompt, put_in: _PutIn, n_equal_before: int) -> list[_PutIn]:
    """List which bytes of a prompt may be those put in, the furthest back last.

    Example: the text "port" and the prompt "<p>port". The second "p" may be put in
    before the "o", or the first "p" before the other one.

    Args:
        prompt: The prompt.
        put_in: The bytes, where they would be put in last.
        n_equal_before: How many bytes before them are equal in text and prompt.
    """
    readings = []
    for normalized in _shifted(
        prompt.normalized, put_in.in_prompt, most_back=n_equal_before
    ):
        n_back = put_in.in_prompt.start - normalized.start
        readings.append(_PutIn(normalized, put_in.text_offset - n_back))
    return readings


def _repeats_words(
    text: Text, prompt: Prompt, *, first: _PutIn, second: _PutIn
) -> bool:
    r"""Whether the words that a prompt puts into a text repeat words beside them.

    Example: two chunks of the text "It fell in 1874, at last." overlap. The prompt has
    "It fell in 1874,\n1874, at last.": True. A repetition of fewer than 12 bytes, as
    in "had had", may be chance: it counts only at the end of a line, as here.

    Args:
        text: The text.
        prompt: The prompt.
        first: The bytes put in, if it was the first "1874" that was put in.
        second: The bytes put in, if it was the second one.
    """
    words = _words_of_prompt(prompt, first.in_prompt)
    # The first "1874" stands before its equal in the text, the second one behind it.
    first_is_repeated = text.normalized.startswith(words, first.text_offset)
    second_repeats = text.normalized.endswith(words, 0, second.text_offset)
    if not first_is_repeated and not second_repeats:
        return False
    is_long = len(words) >= RESUMED_LENGTH
    return is_long or _are_last_words_of_line(prompt, first.in_prompt)


def _is_between_sentences(text: Text, text_offset: int) -> bool:
    """Whether a sentence or a paragraph of a text ends before one of its bytes."""
    between = text.written_around(text_offset, text_offset)
    return _SENTENCE_END.search(between) is not None


def _shifted(
    normalized: bytes, span: _ByteRange, *, most_back: int
) -> Iterator[_ByteRange]:
    """Yield a range of bytes, and the same range further back where the bytes allow it.

    Nobody can say which of two equal bytes was put in. Example: the prompt has
    ``thepport`` and the text ``theport``. The range (4, 5) is the second "p" of
    the prompt, and (3, 4) the first one.

    Args:
        normalized: The normalized prompt or text.
        span: The range.
        most_back: How many bytes further back it may begin.
    """
    start, end = span
    for _ in range(min(most_back, LONGEST_STEP) + 1):
        if not _is_inside_of_letter(normalized, start):
            yield _ByteRange(start, end)
        # further back, other bytes would be left in the text
        if start == 0 or normalized[start - 1] != normalized[end - 1]:
            return
        start -= 1
        end -= 1


def _is_inside_of_letter(normalized: bytes, index: int) -> bool:
    """Whether an index of the bytes lies inside of a letter of several bytes."""
    return index < len(normalized) and normalized[index] in _NOT_FIRST_OF_LETTER


def _words_of_text(text: Text, span: _ByteRange) -> bytes:
    """Return the bytes of a range in a text that are no tags, links or marks."""
    if span.size <= 0:
        return b""
    return normalize_text(MARKUP.sub(" ", text.written_around(span.start, span.end)))


def _words_of_prompt(prompt: Prompt, span: _ByteRange) -> bytes:
    """Return the bytes of a range in a message of a prompt that are words.

    Example: ``fellin1879`` for "<b>fell</b> in 1879 [2]". Tags, the targets of links,
    marks such as "[2]", and the number of a line are left out.
    """
    written = MARKUP.sub(" ", prompt.written_around(span.start, span.end))
    return normalize_text(_without_line_number(written, prompt.message_at(span.start)))


def _are_last_words_of_line(prompt: Prompt, span: _ByteRange) -> bool:
    """Whether the bytes of a range in a prompt are whole words behind which a line ends."""
    written = prompt.written_around(span.start, span.end)
    return _LAST_WORDS_OF_LINE.fullmatch(written) is not None


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
