"""How far a prompt and a text run along from a place on, over small steps. Pure.

Both are streams: letters and digits as bytes (``letters``). A **step** is a few bytes
that were put into the prompt, or left out of the text: a line number, a mark, a word.
"""

from __future__ import annotations

import re

from ragmetrics_core.capture.byte_spans import LONGEST_STEP, EqualSpan

RESUMED_LENGTH = (
    12  # after a step at least so many bytes must agree; fewer do by chance
)
# so many are enough where they end the text, follow a line's number, or stand between
# two marks
WORD_LENGTH = 4
LINE_NUMBER = re.compile(rb"\d{1,4}")
_FIRST_COMPARED = 64  # bytes compared first; then twice as many, and so on
_INSIDE = bytes(range(0x80, 0xC0))  # bytes that go on with a letter beyond ASCII


def collect_equal_spans(
    prompt: bytes, place: int, text: bytes, offset: int
) -> list[EqualSpan]:
    """Spans in which a prompt and a text agree, as long as steps lead on.

    Args:
        prompt: The prompt.
        place: Where in the prompt they begin to agree.
        text: The text.
        offset: Where in the text they begin to agree.
    """
    spans = []
    while True:
        size = count_equal_bytes(prompt, place, text, offset)
        if size:
            spans.append(EqualSpan(place, offset, size))
        place += size
        offset += size
        step = _next_step(prompt, place, text, offset)
        if step is None:
            return spans
        n_put_in, n_left_out = step
        if n_left_out >= WORD_LENGTH:
            word = text[offset : offset + n_left_out]
            word_place = prompt.find(word, place, place + n_put_in)
            if word_place >= 0:  # not left out: both ends of it are marked
                spans.append(EqualSpan(word_place, offset, n_left_out))
        place += n_put_in
        offset += n_left_out


def count_equal_bytes(prompt: bytes, place: int, text: bytes, offset: int) -> int:
    """How many bytes agree from a place of a prompt and an offset of a text on."""
    most = min(len(prompt) - place, len(text) - offset)
    n_equal = 0
    n_compared = _FIRST_COMPARED
    while n_equal < most:
        upto = min(n_equal + n_compared, most)
        left = prompt[place + n_equal : place + upto]
        right = text[offset + n_equal : offset + upto]
        if left != right:
            # as numbers, they differ from the first differing byte downwards
            difference = int.from_bytes(left, "big") ^ int.from_bytes(right, "big")
            n_from_first_difference = (difference.bit_length() + 7) // 8
            return n_equal + len(left) - n_from_first_difference
        n_equal = upto
        n_compared *= 2
    return most


def _next_step(
    prompt: bytes, place: int, text: bytes, offset: int
) -> tuple[int, int] | None:
    """How many bytes to step over in the prompt and in the text.

    Behind them both agree again. None if they do not agree again within a step.
    """
    n_digits = _digits_of_line_number(prompt, place, text, offset)
    if n_digits:
        return n_digits, 0
    n_rest = len(text) - offset
    most_left_out = min(LONGEST_STEP, n_rest - RESUMED_LENGTH)
    for n_left_out in range(most_left_out + 1):
        resumed_at = offset + n_left_out
        resumed = text[resumed_at : resumed_at + RESUMED_LENGTH]
        resumed_place = prompt.find(
            resumed, place, place + LONGEST_STEP + RESUMED_LENGTH
        )
        if resumed_place >= 0:
            return resumed_place - place, n_left_out
    return None


def _digits_of_line_number(prompt: bytes, place: int, text: bytes, offset: int) -> int:
    """How many digits stand in the prompt before the text goes on; 0 if it does not.

    The digits are the number of a line. The text goes on with a word, or to its end.
    """
    digits = LINE_NUMBER.match(prompt, place)
    following = text[offset : offset + WORD_LENGTH]
    if digits is None or not following:
        return 0
    for n_digits in range(1, digits.end() - place + 1):
        if prompt.startswith(following, place + n_digits):
            return n_digits
    return 0


def without_half_letters(text: bytes, span: EqualSpan) -> EqualSpan:
    """Return a span without halves of letters at its ends."""
    part = text[span.text_start : span.text_end].lstrip(_INSIDE)
    n_cut = span.size - len(part)
    size = len(part.decode("utf-8", "ignore").encode())
    return EqualSpan(span.prompt_start + n_cut, span.text_start + n_cut, size)
