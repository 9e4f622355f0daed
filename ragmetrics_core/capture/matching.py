"""Compare a prompt and a text byte by byte, and step over small differences. Pure.

Both are compared by their letters (``letters``). A **step** skips a few bytes that only
the prompt has, such as a line number, or that only the text has, such as a word.
"""

from __future__ import annotations

from collections.abc import Mapping

from ragmetrics_core.capture.byte_spans import LONGEST_STEP, EqualSpan
from ragmetrics_core.data.lazy_patterns import lazy_pattern

# the fewest bytes that must be equal after a step; fewer are equal by chance
RESUMED_LENGTH = 12
# The length of a word. Four equal bytes are enough where they end the text, follow the
# number of a line, or stand inside of what was put in.
WORD_LENGTH = 4
LINE_NUMBER = lazy_pattern(rb"\d{1,4}")
# the most letters of tags that are stepped over at once
_LONGEST_TAG = 96
_NO_TAGS: Mapping[int, int] = {}
_FIRST_COMPARED = 64  # bytes compared first; then twice as many, and so on
# a letter beyond ASCII takes several bytes; all but its first byte are among these
_NOT_FIRST_OF_LETTER = bytes(range(0x80, 0xC0))


def collect_equal_spans(
    prompt: bytes,
    prompt_offset: int,
    text: bytes,
    text_offset: int,
    *,
    tag_ends: Mapping[int, int] = _NO_TAGS,
) -> list[EqualSpan]:
    """Collect the equal spans of a prompt and a text, and step over small differences.

    Example: the text "theferrygoes…" and the prompt "theferry12goes…" give two spans,
    "theferry" and "goes…". Up to 24 bytes are skipped in each; where both then still
    differ, the spans end.

    Args:
        prompt: The letters of the prompt.
        prompt_offset: Where in the prompt the comparison begins.
        text: The letters of the text.
        text_offset: Where in the text the comparison begins.
        tag_ends: Where each tag of the prompt, such as "<b>", begins and ends: ``{3:
            4}``. A span ends before a tag that the text has not; the tag is skipped.
    """
    spans = []
    while True:
        n_equal = count_equal_bytes(prompt, prompt_offset, text, text_offset)
        n_equal, n_of_tag = _before_tag(
            prompt, prompt_offset, text, text_offset, n_equal, tag_ends
        )
        if n_equal:
            spans.append(EqualSpan(prompt_offset, text_offset, n_equal))
        prompt_offset += n_equal + n_of_tag
        text_offset += n_equal
        if n_of_tag:
            continue
        step = _next_step(prompt, prompt_offset, text, text_offset)
        if step is None:
            return spans
        n_skipped_in_prompt, n_skipped_in_text = step
        prompt_offset += n_skipped_in_prompt
        text_offset += n_skipped_in_text


def _before_tag(
    prompt: bytes,
    prompt_offset: int,
    text: bytes,
    text_offset: int,
    n_equal: int,
    tag_ends: Mapping[int, int],
) -> tuple[int, int]:
    """Find a tag of the prompt, after which the text goes on.

    Example: the prompt "The <b>Brandt</b> lamp" has the letters "thebbrandtblamp", and
    the text "The Brandt lamp" has "thebrandtlamp". They begin alike up to "theb", by
    chance: the tag "<b>" begins after "the".

    Args:
        prompt: The letters of the prompt.
        prompt_offset: Where the equal bytes begin in the prompt.
        text: The letters of the text.
        text_offset: Where the equal bytes begin in the text.
        n_equal: The number of equal bytes.
        tag_ends: By the offset at which a tag of the prompt begins: where it ends.

    Returns:
        How many bytes before the tag are equal, and how many bytes the tag has: 0 if
        there is no such tag.
    """
    if not tag_ends or text_offset + n_equal == len(text):
        return n_equal, 0
    # Step back from the end of the equal bytes to the beginning of a tag: the first
    # letters of the tag may be equal by chance, as the "b" of "<b>" and of "Brandt".
    for n_before in range(n_equal, max(n_equal - LONGEST_STEP, 0) - 1, -1):
        tag_start = prompt_offset + n_before
        if tag_start not in tag_ends:
            continue
        n_of_tag = tag_ends[tag_start] - tag_start
        word_offset = text_offset + n_before
        goes_on = _goes_on(prompt, tag_start, text, word_offset, tag_ends)
        if 0 < n_of_tag <= _LONGEST_TAG and goes_on:
            return n_before, n_of_tag
    return n_equal, 0


def _goes_on(
    prompt: bytes,
    prompt_offset: int,
    text: bytes,
    text_offset: int,
    tag_ends: Mapping[int, int],
) -> bool:
    """Whether the next word of a text stands in a prompt, perhaps with tags inside.

    Args:
        prompt: The letters of the prompt.
        prompt_offset: Where the word must stand.
        text: The letters of the text.
        text_offset: Where the word begins.
        tag_ends: By the offset at which a tag of the prompt begins: where it ends.
    """
    for byte in text[text_offset : text_offset + WORD_LENGTH]:
        prompt_offset = tag_ends.get(prompt_offset, prompt_offset)
        if prompt[prompt_offset : prompt_offset + 1] != bytes([byte]):
            return False
        prompt_offset += 1
    return True


def _is_marked_word(skipped_in_text: bytes, skipped_in_prompt: bytes) -> bool:
    """Whether a word is skipped because the prompt marks it, as "<b>Porto</b>" does."""
    return len(skipped_in_text) >= WORD_LENGTH and skipped_in_text in skipped_in_prompt


def count_equal_bytes(
    prompt: bytes, prompt_offset: int, text: bytes, text_offset: int
) -> int:
    """Count the equal bytes of a prompt and a text, up to the first difference.

    Example: "ironbridge" and "ironmine" from 0 on: 4.

    Args:
        prompt: The letters of the prompt.
        prompt_offset: Where in the prompt the comparison begins.
        text: The letters of the text.
        text_offset: Where in the text the comparison begins.
    """
    most = min(len(prompt) - prompt_offset, len(text) - text_offset)
    n_equal = 0
    # blocks of 64, 128, 256 … bytes are compared at once, which is fast
    n_compared = _FIRST_COMPARED
    while n_equal < most:
        end = min(n_equal + n_compared, most)
        part_of_prompt = prompt[prompt_offset + n_equal : prompt_offset + end]
        part_of_text = text[text_offset + n_equal : text_offset + end]
        if part_of_prompt != part_of_text:
            return n_equal + _first_difference(part_of_prompt, part_of_text)
        n_equal = end
        n_compared *= 2
    return most


def _first_difference(left: bytes, right: bytes) -> int:
    """Return the index of the first byte that differs in two different byte strings.

    Both have the same length.
    """
    # XOR of both as numbers: equal leading bytes give leading zeros, which fall away
    difference = int.from_bytes(left, "big") ^ int.from_bytes(right, "big")
    n_bytes_from_difference = (difference.bit_length() + 7) // 8
    return len(left) - n_bytes_from_difference


def _next_step(
    prompt: bytes, prompt_offset: int, text: bytes, text_offset: int
) -> tuple[int, int] | None:
    """Find how many bytes to skip in a prompt and in a text until both are equal again.

    Example: the prompt goes on with "12goes…", 12 being the number of a line, and the
    text with "goes…": (2, 0). The prompt lacks the word "old" of the text: (0, 3).

    Returns:
        The number of bytes in the prompt, and in the text. None if both stay different.
    """
    n_digits = _digits_of_line_number(prompt, prompt_offset, text, text_offset)
    if n_digits:
        return n_digits, 0
    # skip 0, 1, … 24 bytes of the text, and look for its next 12 bytes in the prompt,
    # from 0 to 24 bytes further on
    n_rest = len(text) - text_offset
    most_skipped = min(LONGEST_STEP, n_rest - RESUMED_LENGTH)
    furthest_end = prompt_offset + LONGEST_STEP + RESUMED_LENGTH
    for n_skipped_in_text in range(most_skipped + 1):
        start = text_offset + n_skipped_in_text
        resumed_bytes = text[start : start + RESUMED_LENGTH]
        resumed_offset = prompt.find(resumed_bytes, prompt_offset, furthest_end)
        if resumed_offset >= 0:
            n_skipped_in_prompt = resumed_offset - prompt_offset
            return n_skipped_in_prompt, n_skipped_in_text
    return None


def _digits_of_line_number(
    prompt: bytes, prompt_offset: int, text: bytes, text_offset: int
) -> int:
    """Count the digits of a line's number that the prompt puts before the text goes on.

    The text goes on with a word of four bytes, or to its end. Example: the prompt goes
    on with "12goes…" and the text with "goes…": 2. Without such a number 0.
    """
    digits = LINE_NUMBER.match(prompt, prompt_offset)
    next_bytes = text[text_offset : text_offset + WORD_LENGTH]
    if digits is None or not next_bytes:
        return 0
    # the last digits may be the text's own, as in "12" + "2010 was dry"
    for n_digits in range(1, digits.end() - prompt_offset + 1):
        if prompt.startswith(next_bytes, prompt_offset + n_digits):
            return n_digits
    return 0


def without_half_letters(text: bytes, span: EqualSpan) -> EqualSpan:
    """Shorten a span that begins or ends inside a letter of several bytes.

    Args:
        text: The letters of the text.
        span: The span. What is returned holds whole letters only.
    """
    part = text[span.text_start : span.text_end].lstrip(_NOT_FIRST_OF_LETTER)
    n_cut = span.size - len(part)
    size = len(part.decode("utf-8", "ignore").encode())
    return EqualSpan(span.prompt_start + n_cut, span.text_start + n_cut, size)
