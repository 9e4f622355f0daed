"""Whether a prompt has other words in the place of a text's first or last words. Pure.

A text of which the first words lack in a prompt was either cut there, or these words were
replaced: "Elias Holm opened it" may be shown as "[PERSON] opened it". What was replaced
was not cut away, so the two must be told apart.

Prompt and text are compared by their letters, as bytes (``letters``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ragmetrics_core.capture.byte_spans import EqualSpan
from ragmetrics_core.capture.letters import Prompt, Text, decode_escapes, letters_of
from ragmetrics_core.data.lazy_patterns import lazy_pattern

# what ends the place of a text: the end of a line, dots that cut it, a tag of a template,
# a quote that is no apostrophe, a parenthesis such as "(a.txt)", a note of its cutting
_BOUNDARY = lazy_pattern(
    r"""\n|\.\.\.|…|</?[a-z][^<>]{0,300}>|(?<!\w)["'“”‘’«»]|["'“”‘’«»](?!\w)|\("""
    r"""|[\[<]\s*(?i:truncat|cut|snip|omit|contin|\+?\d+\smore)"""
)
# words before a located text that name it, as in "Question: "
_LABEL_AT_END = lazy_pattern(r"[^.!?;|\]>]{0,40}:\s*$")
_FARTHEST = 400  # letters of the prompt that are looked at beside the text
# so many letters beside a boundary may be equal to the text by chance
_BY_CHANCE = 3
# words that replace others have this share of their letters at least; fewer are the
# number or the label of the next text
_LEAST_SHARE = 0.5
# what stands for a name or a number, however long: "[PERSON]", "<DATE_1>", "XXXX", "****"
_MASK = lazy_pattern(r"[\[<{][A-Z][A-Z_0-9 ]{2,30}[\]>}]|\b[xX]{3,}\b|[*█#]{4,}")


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
    opened it on 4 May" in a line of its own: other words stand before, and none after.

    Args:
        spans: Where text and prompt have equal letters; at least one span.
        text_size: The number of bytes of the text's letters.
        prompt: The prompt.
        taken: For each byte of the prompt's letters 1 if a located text has taken it.
            Words that another text has taken do not count as a replacement.
    """
    first = min(spans, key=lambda span: span.text_start)
    last = max(spans, key=lambda span: span.text_end)
    n_lacking_behind = text_size - last.text_end
    before = behind = False
    # _replace says whether words are long enough to stand for the letters that lack
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
    start = max(start, taken.rfind(1, start, end) + 1)  # after a located text
    words = _with_signs(message, start - message_start, end - message_start)
    # A boundary is sought in the text's first letters, too: of "Context: he built it" the
    # "t" may count as the first letter of "the", and then "Context" alone is before it.
    first_letter = end - message_start
    first_letters = _without_signs(message, first_letter, first_letter + _BY_CHANCE)
    begins_at = 0
    for boundary in _BOUNDARY.finditer(words + first_letters):
        begins_at = boundary.end()
    return words[begins_at:]


def _words_behind(start: int, prompt: Prompt, taken: bytearray) -> str:
    """Return the words after a place of the prompt that are of no located text.

    Example: in "opened on [DATE]. Porto lies on the Douro." the words after "on" are
    " [DATE]. ", if "Porto lies on the Douro." is a located text.

    Args:
        start: The place, an index in the prompt's letters. What stands after it in
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
    is_text_behind = first_taken >= 0
    if is_text_behind:
        end = first_taken
    words = _with_signs(message, start - message_start, end - message_start)
    # A boundary is sought in the text's last letters, too: of "he built i[truncated]" the
    # "t" may count as the last letter of "it", and "runcated]" alone is no boundary.
    end_of_text = start - message_start
    last_letters = _without_signs(message, end_of_text - _BY_CHANCE, end_of_text)
    boundary = _BOUNDARY.search(last_letters + words)
    if boundary is not None:
        words = words[: max(boundary.start() - len(last_letters), 0)]
    return _LABEL_AT_END.sub("", words) if is_text_behind else words


def _with_signs(message: Text, start: int, end: int) -> str:
    """Return some letters of a message as written, with the signs on both sides of them.

    Escapes are decoded. Example: the letters 2 to 5 of "It [2] is." are " [2] is.".

    Args:
        message: The message.
        start: The first letter.
        end: After the last letter.
    """
    raw_start, _ = message.gap_at(start)
    _, raw_end = message.gap_at(end)
    return decode_escapes(message.raw[raw_start:raw_end])


def _without_signs(message: Text, start: int, end: int) -> str:
    """Return some letters of a message as written, without the signs on their sides.

    Escapes are decoded. Example: the letters 2 to 5 of "It [2] is." are "2] is".

    Args:
        message: The message.
        start: The first letter; less than 0 for the message's first one.
        end: After the last letter; it may lie after the message's last one.
    """
    _, raw_start = message.gap_at(max(start, 0))
    raw_end, _ = message.gap_at(min(end, len(message.letters)))
    return decode_escapes(message.raw[raw_start:raw_end])
