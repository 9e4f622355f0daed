"""Whether a prompt has other words in the place of a text's first or last words. Pure.

A text of which the first words lack in a prompt was either cut there, or these words were
replaced: "Elias Holm opened it" may be shown as "[PERSON] opened it". What was replaced
was not cut away, so the two must be told apart.

Prompt and text are compared by their normalized text (``normalized_text``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ragmetrics_core.capture.byte_spans import EqualSpan
from ragmetrics_core.capture.normalized_text import Prompt, normalize_text
from ragmetrics_core.data.lazy_patterns import lazy_pattern

# what ends the place of a text: the end of a line, dots that cut it, a tag of a template,
# a quote that is no apostrophe, a parenthesis such as "(a.txt)", a note of its cutting
_BOUNDARY = lazy_pattern(
    r"""\n|\.\.\.|…|</?[a-z][^<>]{0,300}>|(?<!\w)["'“”‘’«»]|["'“”‘’«»](?!\w)|\("""
    r"""|[\[<]\s*(?i:truncat|cut|snip|omit|contin|\+?\d+\smore)"""
)
_FARTHEST = 400  # letters of the prompt that are looked at beside the text
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
    spans: Sequence[EqualSpan], text_size: int, prompt: Prompt, is_byte_taken: bytearray
) -> ReplacedEdges:
    """Find out at which edges of a text the prompt has other words.

    Example: of "Elias Holm opened it on 4 May 1874 at dawn." a prompt shows "[PERSON]
    opened it on 4 May" in a line of its own: other words stand before, and none after.

    Args:
        spans: Where text and prompt have equal letters; at least one span.
        text_size: The number of bytes of the normalized text.
        prompt: The prompt.
        is_byte_taken: For each byte of the normalized prompt 1 if a located text has
            taken it. Words that another text has taken do not count as a replacement.
    """
    first = min(spans, key=lambda span: span.text_start)
    last = max(spans, key=lambda span: span.text_end)
    before = behind = False
    n_missing_before = first.text_start
    if n_missing_before:
        written_before = _written_before(first.prompt_start, prompt, is_byte_taken)
        before = _may_replace(written_before, n_bytes=n_missing_before)
    n_missing_behind = text_size - last.text_end
    if n_missing_behind:
        written_behind = _written_behind(last.prompt_end, prompt, is_byte_taken)
        behind = _may_replace(written_behind, n_bytes=n_missing_behind)
    return ReplacedEdges(before, behind)


def _may_replace(written: str, *, n_bytes: int) -> bool:
    """Whether what a prompt has is enough to stand for so many letters of a text."""
    is_long_enough = len(normalize_text(written)) >= _LEAST_SHARE * n_bytes
    return is_long_enough or _MASK.search(written) is not None


def _written_before(end: int, prompt: Prompt, is_byte_taken: bytearray) -> str:
    """Return what stands before a place of the prompt and is of no located text.

    Example: in the line "[2] Anna Brandt opened it" it is "[2] Anna Brandt " before
    "opened".

    Args:
        end: The place, an index in the normalized prompt. What stands before it in
            another line, or outside of the quotes around it, is left out.
        prompt: The prompt.
        is_byte_taken: For each byte of the normalized prompt 1 if a located text has
            taken it.
    """
    message_start = end - prompt.index_in_message(end)
    start = max(end - _FARTHEST, message_start)
    start = max(start, is_byte_taken.rfind(1, start, end) + 1)  # after a located text
    written = prompt.written_around(start, end)
    begins_at = 0
    for boundary in _BOUNDARY.finditer(written):
        begins_at = boundary.end()
    return written[begins_at:]


def _written_behind(start: int, prompt: Prompt, is_byte_taken: bytearray) -> str:
    """Return what stands after a place of the prompt and is of no located text.

    Example: in "opened on [DATE]. Porto lies on the Douro." it is " [DATE]. " after
    "on", if "Porto lies on the Douro." is a located text.

    Args:
        start: The place, an index in the normalized prompt. What stands after it in
            another line, or outside of the quotes around it, is left out.
        prompt: The prompt.
        is_byte_taken: For each byte of the normalized prompt 1 if a located text has
            taken it.
    """
    message_start = start - prompt.index_in_message(start)
    message_end = message_start + len(prompt.message_at(start).normalized)
    end = min(start + _FARTHEST, message_end)
    first_taken = is_byte_taken.find(1, start, end)
    if first_taken >= 0:
        end = first_taken
    written = prompt.written_around(start, end)
    boundary = _BOUNDARY.search(written)
    return written if boundary is None else written[: boundary.start()]
