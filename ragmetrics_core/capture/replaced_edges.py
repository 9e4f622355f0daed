"""Whether a prompt has other words in the place of a text's first or last words. Pure.

A text of which the first words lack in a prompt was either cut there, or these words were
replaced: "Elias Holm opened it" may be shown as "[PERSON] opened it". What was replaced
was not cut away, so the two must be told apart.

Prompt and text are compared by their letters, as bytes (``letters``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ragmetrics_core.capture.byte_spans import EqualSpan
from ragmetrics_core.capture.letters import Prompt, Text, decode_escapes, letters_of

# what ends the place of a text: the end of a line, dots that cut it, a tag of a template,
# a quote that is no apostrophe
_BOUNDARY = re.compile(
    r"""\n|\.\.\.|…|</?[a-z][^<>]{0,300}>|(?<!\w)["'“”‘’«»]|["'“”‘’«»](?!\w)"""
)
_FARTHEST = 400  # letters of the prompt that are looked at beside the text
# so many letters beside a boundary may be equal to the text by chance
_BY_CHANCE = 3
# words that replace others have this share of their letters at least; fewer are the
# number or the label of the next text
_LEAST_SHARE = 0.5
# what stands for a name or a number, however long: "[PERSON]", "<DATE_1>", "XXXX", "****"
_MASK = re.compile(r"[\[<{](?!TRUNC)[A-Z][A-Z_0-9 ]{2,30}[\]>}]|\b[xX]{3,}\b|[*█#]{4,}")


class ReplacedEdges(NamedTuple):
    """Where a prompt has other words than a text of which it shows a part.

    Attributes:
        before: Whether other words stand in the place of the first words.
        behind: Whether other words stand in the place of the last words.
    """

    before: bool
    behind: bool


NOTHING_REPLACED = ReplacedEdges(before=False, behind=False)


def replaced_edges(
    spans: Sequence[EqualSpan], text_size: int, prompt: Prompt, taken: bytearray
) -> ReplacedEdges:
    """Find out at which edges of a text the prompt has other words.

    Example: of "Elias Holm opened it on 4 May 1874 at dawn." a prompt shows "[PERSON]
    opened it on 4 May" in a line of its own: other words stand before, and none behind.

    Args:
        spans: Where text and prompt have equal letters; at least one span.
        text_size: The number of bytes of the text's letters.
        prompt: The prompt.
        taken: For each byte of the prompt's letters 1 if a located text has taken it.
            The words of another text replace nothing.
    """
    first = min(spans, key=lambda span: span.text_start)
    last = max(spans, key=lambda span: span.text_end)
    n_lacking_behind = text_size - last.text_end
    before = behind = False
    if first.text_start > 0:
        words = _words_before(first.prompt_start, prompt, taken)
        before = _replace(words, n_lacking=first.text_start)
    if n_lacking_behind > 0:
        words = _words_behind(last.prompt_end, prompt, taken)
        behind = _replace(words, n_lacking=n_lacking_behind)
    return ReplacedEdges(before, behind)


def _replace(words: str, *, n_lacking: int) -> bool:
    """Whether some words are enough to replace so many letters of a text."""
    is_long_enough = len(letters_of(words)) >= _LEAST_SHARE * n_lacking
    return is_long_enough or _MASK.search(words) is not None


def _words_before(end: int, prompt: Prompt, taken: bytearray) -> str:
    """Return the words before a place of the prompt that are of no located text.

    Example: in the line "[2] Anna Brandt opened it" the words before "opened" are "[2]
    Anna Brandt ".

    Args:
        end: The place, an index in the prompt's letters. What stands before it in
            another line, or outside of the quotes around it, is left out.
        prompt: The prompt.
        taken: For each byte of the prompt's letters 1 if a located text has taken it.
    """
    message_index = prompt.message_index_at(end)
    message = prompt.messages[message_index]
    message_start = prompt.message_starts[message_index]
    start = max(end - _FARTHEST, message_start)
    start = max(start, taken.rfind(1, start, end) + 1)  # behind a located text
    # The same places in the message as written. ``gap_at`` returns where the signs
    # between two letters begin and end: the signs at both places belong to the words.
    raw_start, _ = message.gap_at(start - message_start)
    _, raw_end = message.gap_at(end - message_start)
    if _has_boundary_between(end, end + _BY_CHANCE, message_start, message):
        return ""  # "ter" in the line below "Context:", whose "t" is the text's as well
    return _BOUNDARY.split(decode_escapes(message.raw[raw_start:raw_end]))[-1]


def _words_behind(start: int, prompt: Prompt, taken: bytearray) -> str:
    """Return the words behind a place of the prompt that are of no located text.

    Example: in "opened on [DATE]. Porto lies on the Douro." the words behind "on" are
    " [DATE]. ", if "Porto lies on the Douro." is a located text.

    Args:
        start: The place, an index in the prompt's letters. What stands behind it in
            another line, or outside of the quotes around it, is left out.
        prompt: The prompt.
        taken: For each byte of the prompt's letters 1 if a located text has taken it.
    """
    # of the letter before the place: a message may end there
    message_index = prompt.message_index_at(start - 1)
    message = prompt.messages[message_index]
    message_start = prompt.message_starts[message_index]
    end = min(start + _FARTHEST, message_start + len(message.letters))
    first_taken = taken.find(1, start, end)
    if first_taken >= 0:  # a located text
        end = first_taken
    # The same places in the message as written. ``gap_at`` returns where the signs
    # between two letters begin and end: the signs at both places belong to the words.
    raw_start, _ = message.gap_at(start - message_start)
    _, raw_end = message.gap_at(end - message_start)
    if _has_boundary_between(start - _BY_CHANCE, start, message_start, message):
        return (
            ""  # "cliff" in the line above "Answer:", whose "A" is the text's as well
        )
    return _BOUNDARY.split(decode_escapes(message.raw[raw_start:raw_end]), 1)[0]


def _has_boundary_between(
    start: int, end: int, message_start: int, message: Text
) -> bool:
    """Whether a line ends, or the like, between two letters of a message.

    Example: between the "t" and the "e" of two lines, "Context:" and "ter", a line ends.

    Args:
        start: The first letter, an index in the prompt's letters.
        end: Behind the last letter.
        message_start: Where the message begins in the prompt's letters.
        message: The message.
    """
    _, raw_start = message.gap_at(max(start - message_start, 0))
    raw_end, _ = message.gap_at(min(end - message_start, len(message.letters)))
    return _BOUNDARY.search(decode_escapes(message.raw[raw_start:raw_end])) is not None
