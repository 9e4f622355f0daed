"""Where contexts stand in a prompt. Pure."""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_OPENING = 200  # characters of a context by which it is found in a prompt
_SHORTEST = 32  # characters by which it is found without its last word
_CLOSING = 80  # characters by which its end is found
_MOST_OCCURRENCES = 20  # of one context in one prompt


@dataclass(frozen=True, slots=True)
class Block:
    """Where a context stands in a prompt.

    Args:
        context_index: The index of the context.
        start: Where it begins in the prompt.
        end: Where it ends there.
    """

    context_index: int
    start: int
    end: int


def blocks_in(prompt: str, contexts: Sequence[str]) -> list[Block]:
    """Find where contexts stand in a prompt, in its order.

    Example: in "[1] IRON [2] WOOD" the contexts WOOD and IRON stand at 13 to 17 and at
    4 to 8: two blocks, that of IRON first. A context that begins inside of another one
    is left out.
    """
    indexes_by_text: dict[str, list[int]] = {}
    for index, text in enumerate(contexts):
        indexes_by_text.setdefault(text.strip(), []).append(index)
    blocks: list[Block] = []
    for text, indexes in indexes_by_text.items():
        blocks += _blocks_of_text(text, indexes, prompt)
    return _without_inner_blocks(blocks)


def _without_inner_blocks(blocks: Iterable[Block]) -> list[Block]:
    """Sort blocks, and leave out blocks that begin inside of another one."""
    blocks_apart: list[Block] = []
    for block in sorted(blocks, key=lambda block: (block.start, -block.end)):
        if not blocks_apart or block.start >= blocks_apart[-1].end:
            blocks_apart.append(block)
    return blocks_apart


def _blocks_of_text(text: str, indexes: Sequence[int], prompt: str) -> list[Block]:
    """Find where a text stands in a prompt, and to which context each place belongs.

    Example: the contexts 0 and 3 are both "Closed on Monday.", and the prompt holds it
    three times: the places belong to 0, 3 and 3.

    Args:
        text: The text.
        indexes: The indexes of the contexts with this text.
        prompt: The prompt.
    """
    spans = _spans_in_any_form(text, prompt)
    n_left_over = len(spans) - len(indexes)
    # places that are left over belong to the last context; a context may get no place
    owners = [*indexes, *([indexes[-1]] * n_left_over)]
    pairs = zip(owners, spans, strict=False)
    return [Block(context_index, start, end) for context_index, (start, end) in pairs]


def _spans_in_any_form(text: str, prompt: str) -> list[tuple[int, int]]:
    """Return where a text stands in a prompt: as it is, else as a string of JSON."""
    for form in _forms(text):
        spans = list(itertools.islice(_spans(form, prompt), _MOST_OCCURRENCES))
        if spans:
            return spans
    return []


def _forms(text: str) -> Iterator[str]:
    """Yield the text, and then the two strings of JSON as which a prompt may show it."""
    yield text
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]


def _spans(text: str, prompt: str) -> Iterator[tuple[int, int]]:
    """Yield where a text begins and ends in a prompt, each time that it stands there.

    A text of several parts, divided by "…", reaches from the first part to the last.
    """
    opening = _opening_in(prompt, text)
    start = prompt.find(opening) if opening else -1
    while start >= 0:
        end = _end_of(text, prompt, start + len(opening))
        yield start, end
        start = prompt.find(opening, end)


def _opening_in(prompt: str, text: str) -> str:
    """Return the first characters of a text by which it is found in a prompt.

    These are its first 200 characters, up to a "…". A prompt may break off inside of the
    last word of a short text: "The bridge was opened in the year of the flo" shows "The
    bridge was opened in the year of the flood". Then the last word is left out.
    """
    first_part = text.partition("…")[0]
    opening = first_part[:_OPENING].strip()
    is_all_of_text = opening == text
    if opening in prompt or not is_all_of_text:
        return opening
    without_last_word = opening.rpartition(" ")[0].rstrip()
    return without_last_word if len(without_last_word) >= _SHORTEST else opening


def _end_of(text: str, prompt: str, end_of_opening: int) -> int:
    """Return where a text ends in a prompt.

    Example: the text "It is old. … built in 1874." ends after "1874." in the prompt "It
    is old. It was built in 1874. When?". If its last characters do not stand near its
    opening, it ends with its opening.

    Args:
        text: The text.
        prompt: The prompt.
        end_of_opening: Where its first characters end in the prompt.
    """
    last_part = text.rpartition("…")[2].strip()
    closing = last_part[-_CLOSING:].strip()
    if not closing:
        return end_of_opening
    # a short text's opening holds its closing
    start = prompt.find(closing, max(0, end_of_opening - len(closing)))
    is_near = 0 <= start <= end_of_opening + 2 * len(text)
    return start + len(closing) if is_near else end_of_opening
