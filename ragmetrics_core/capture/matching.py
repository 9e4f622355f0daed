"""Compare a prompt and a text byte by byte, and step over small differences. Pure.

Both are compared by their normalized text (``normalized_text``). A **step** skips a few
bytes that only the prompt has, such as a line number, or that only the text has, such
as a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ragmetrics_core.capture.byte_spans import LONGEST_STEP, EqualSpan
from ragmetrics_core.data.lazy_patterns import lazy_pattern

# the fewest bytes that must be equal after a step; fewer are equal by chance
RESUMED_LENGTH = 12
# The length of a word. Four equal bytes are enough where they end the text, follow the
# number of a line, or stand inside of what was put in.
WORD_LENGTH = 4
LINE_NUMBER = lazy_pattern(rb"\d{1,4}")
# the most bytes of tags that are stepped over at once
_LONGEST_TAG = 96
_FIRST_COMPARED = 64  # bytes compared first; then twice as many, and so on
# a letter beyond ASCII takes several bytes; all but its first byte are among these
_NOT_FIRST_OF_LETTER = bytes(range(0x80, 0xC0))


class NormalizedPrompt(NamedTuple):
    """A normalized prompt, with which a normalized text is compared.

    Attributes:
        normalized: The normalized text.
        tag_ends: Where each tag begins and ends in it. "The <b>Brandt"
            is normalized to "thebbrandt", in which the tag is the first "b": ``{3:
            4}``.
    """

    normalized: bytes
    tag_ends: Mapping[int, int]

    def backwards(self) -> NormalizedPrompt:
        """Return the bytes in reverse order, to compare backwards.

        If, of 100 bytes, a tag has those from 10 to 12, it then has 88 to 90.
        """
        size = len(self.normalized)
        tag_ends = {size - end: size - start for start, end in self.tag_ends.items()}
        return NormalizedPrompt(self.normalized[::-1], tag_ends)


class _Step(NamedTuple):
    """What is skipped where prompt and text differ.

    Attributes:
        n_in_prompt: How many bytes of the prompt: what only the prompt has.
        n_in_text: How many bytes of the text: what only the text has.
    """

    n_in_prompt: int
    n_in_text: int


class PromptComparison:
    """Compares texts with one prompt, both ways from a place where they agree."""

    def __init__(self, prompt: NormalizedPrompt) -> None:
        """Take the prompt, and reverse its bytes once, to compare backwards."""
        self._prompt = prompt
        self._reversed_prompt = prompt.backwards()

    def run_around(
        self, prompt_offset: int, text: bytes, text_offset: int
    ) -> list[EqualSpan]:
        """Compare prompt and text backwards and forwards from a place where both agree.

        Prompt "… the Douro [1], in the north of the country", text "… the Douro, in the
        north of the country": from "Douro" on, the comparison steps over the "1".

        Args:
            prompt_offset: The place in the prompt, in normalized bytes.
            text: The normalized text.
            text_offset: The place in the text, in bytes as well.

        Returns:
            The spans of equal bytes, in the prompt's order. No span begins or ends
            inside of a character of several bytes, such as "é".
        """
        spans_before = self._spans_before(prompt_offset, text, text_offset)
        if spans_before and spans_before[-1].prompt_end == prompt_offset:
            # the last span before ends at the offset: compare forwards from the start
            # of this span, so that both sides become one span
            last_span = spans_before.pop()
            prompt_offset = last_span.prompt_start
            text_offset = last_span.text_start
        spans_behind = _collect_equal_spans(
            self._prompt, prompt_offset, text, text_offset
        )
        spans = [*spans_before, *spans_behind]
        if text.isascii():
            return spans
        shortened_spans = [_without_half_characters(text, span) for span in spans]
        return [span for span in shortened_spans if span.size]

    def _spans_before(
        self, prompt_offset: int, text: bytes, text_offset: int
    ) -> list[EqualSpan]:
        """Return the spans of equal bytes before an offset of the prompt and of a text.

        ``_collect_equal_spans`` only compares forwards, so it gets prompt and text
        reversed. A span from 10 to 30 of a reversed prompt of 100 bytes is the span
        from 70 to 90 of the prompt.
        """
        if prompt_offset == 0 or text_offset == 0:
            return []
        prompt_size = len(self._prompt.normalized)
        text_size = len(text)
        reversed_spans = _collect_equal_spans(
            self._reversed_prompt,
            prompt_size - prompt_offset,
            text[::-1],
            text_size - text_offset,
        )
        spans = []
        # the last span of the reversed prompt is the first span of the prompt
        for span in reversed(reversed_spans):
            prompt_start = prompt_size - span.prompt_end
            text_start = text_size - span.text_end
            spans.append(EqualSpan(prompt_start, text_start, span.size))
        return spans


def _collect_equal_spans(
    prompt: NormalizedPrompt, prompt_offset: int, text: bytes, text_offset: int
) -> list[EqualSpan]:
    """Collect the equal spans of a prompt and a text, and step over small differences.

    Example: the text "theferrygoes…" and the prompt "theferry12goes…" give two spans,
    "theferry" and "goes…". Up to 24 bytes are skipped in each; where both then still
    differ, the spans end.

    A tag of the prompt is skipped as well, also where its bytes equal the text by
    chance: the text "The big" and the prompt "The <b>big" are equal in ``theb``, of
    which the ``b`` is the tag. The span is shortened to ``the``, and goes on behind it.

    Args:
        prompt: The prompt.
        prompt_offset: The byte at which the comparison begins.
        text: The normalized text.
        text_offset: Where in the text the comparison begins.
    """
    normalized = prompt.normalized
    spans = []
    while True:
        n_equal = count_equal_bytes(normalized, prompt_offset, text, text_offset)
        span = EqualSpan(prompt_offset, text_offset, n_equal)
        step: _Step | None
        tag_start = _start_of_tag(prompt, text, span)
        if tag_start is None:
            step = _next_step(normalized, span.prompt_end, text, span.text_end)
        else:  # end before the tag, and step over it: nothing of the text is skipped
            span = span._replace(size=tag_start - prompt_offset)
            n_bytes_of_tag = prompt.tag_ends[tag_start] - tag_start
            step = _Step(n_in_prompt=n_bytes_of_tag, n_in_text=0)
        if span.size:
            spans.append(span)
        if step is None:
            return spans
        prompt_offset = span.prompt_end + step.n_in_prompt
        text_offset = span.text_end + step.n_in_text


def _start_of_tag(prompt: NormalizedPrompt, text: bytes, span: EqualSpan) -> int | None:
    """Return where a tag of the prompt begins that interrupts a text; None without one.

    Example: the text "The lamp" is normalized to "thelamp". The prompt "The <b>lamp"
    has "theblamp", and the "b" at 3 is a tag. Their equal bytes, "the", end at 3, and
    behind the tag the prompt goes on with the text's next word, "lamp": 3.

    Args:
        prompt: The prompt.
        text: The normalized text.
        span: The equal bytes.
    """
    if not prompt.tag_ends or span.text_end == len(text):
        return None
    for tag_start in _starts_of_tags(prompt, span):
        # where the text goes on if this tag interrupts it
        text_offset = span.text_start + (tag_start - span.prompt_start)
        if _has_next_word(prompt, tag_start, text, text_offset):
            return tag_start
    return None


def _starts_of_tags(prompt: NormalizedPrompt, span: EqualSpan) -> Iterator[int]:
    """Yield where tags begin at the end of some equal bytes, and then shortly before.

    The first bytes of a tag may equal the text by chance. Example: the prompt "The
    <b>big" is normalized to "thebbig", and the text "The big" to "thebig". Their equal
    bytes are "theb", and the last of these is the tag.

    Args:
        prompt: The prompt.
        span: The equal bytes. Tags among the last 24 of them are yielded.
    """
    furthest_back = max(span.prompt_end - LONGEST_STEP, span.prompt_start)
    for offset in range(span.prompt_end, furthest_back - 1, -1):
        n_bytes_of_tag = prompt.tag_ends.get(offset, offset) - offset  # 0: no tag
        if 0 < n_bytes_of_tag <= _LONGEST_TAG:
            yield offset


def _has_next_word(
    prompt: NormalizedPrompt, prompt_offset: int, text: bytes, text_offset: int
) -> bool:
    """Whether the next word of a text stands in a prompt, perhaps with tags inside.

    Args:
        prompt: The prompt.
        prompt_offset: The byte at which the word must stand.
        text: The normalized text.
        text_offset: Where the word begins.
    """
    for byte in text[text_offset : text_offset + WORD_LENGTH]:
        prompt_offset = prompt.tag_ends.get(prompt_offset, prompt_offset)
        if prompt.normalized[prompt_offset : prompt_offset + 1] != bytes([byte]):
            return False
        prompt_offset += 1
    return True


def count_equal_bytes(
    prompt: bytes, prompt_offset: int, text: bytes, text_offset: int
) -> int:
    """Count the equal bytes of a prompt and a text, up to the first difference.

    Example: "ironbridge" and "ironmine" from 0 on: 4.

    Args:
        prompt: The normalized prompt.
        prompt_offset: Where in the prompt the comparison begins.
        text: The normalized text.
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
) -> _Step | None:
    """Find how many bytes to skip in a prompt and in a text until both are equal again.

    Example: the prompt goes on with "12goes…", 12 being the number of a line, and the
    text with "goes…": 2 and 0. The prompt lacks the word "old" of the text: 0 and 3.
    None if both stay different.
    """
    n_digits = _digits_of_line_number(prompt, prompt_offset, text, text_offset)
    if n_digits:
        return _Step(n_in_prompt=n_digits, n_in_text=0)
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
            return _Step(resumed_offset - prompt_offset, n_skipped_in_text)
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


def _without_half_characters(text: bytes, span: EqualSpan) -> EqualSpan:
    """Shorten a span that begins or ends inside a letter of several bytes.

    Args:
        text: The normalized text.
        span: The span. What is returned holds whole letters only.
    """
    part = text[span.text_start : span.text_end].lstrip(_NOT_FIRST_OF_LETTER)
    n_cut = span.size - len(part)
    size = len(part.decode("utf-8", "ignore").encode())
    return EqualSpan(span.prompt_start + n_cut, span.text_start + n_cut, size)
