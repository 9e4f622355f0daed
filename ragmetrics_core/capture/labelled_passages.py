"""Passages that a prompt labels like the contexts, and that nothing recorded has found. Pure.

An index of the application's own is no run of any framework. Where its hits stand in one
list with what a retriever found, "[Page 4]" and "[Page 7]" above them, the labels tell.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from ragmetrics_core.capture.letters import stream

_FEWEST_LETTERS = 3  # of a label; a number alone numbers anything
_LONGEST_LABEL = 80
_PASSAGE = 48  # letters of a passage, as it is compared with what is known
_SHORTEST = 32
_NUMBER = re.compile(r"\d+")
# What stands before a text that is a value of JSON or of a repr: no label.
_VALUE_BEGINS = re.compile(r"""\{|["']\s*:\s*["']$|=\s*["']$""")


def unknown_passages(
    prompts: Sequence[str], contexts: Iterable[str], known: Collection[str]
) -> int:
    """Count passages under a label like that of a context that are not known.

    Args:
        prompts: The messages that the answering call was shown.
        contexts: Texts that stand there.
        known: All texts that were found, said, asked or written in the run.
    """
    openings = [text.strip()[:_PASSAGE] for text in contexts]
    passages: list[str] = []
    for prompt in prompts:
        passages += _passages_under_labels(openings, prompt)
    if not passages:
        return 0
    known_streams = [stream(text) for text in known]
    unknown: set[bytes] = set()
    for passage in passages:
        letters = stream(passage)[:_PASSAGE]
        if len(letters) < _SHORTEST:
            continue
        if not any(letters in known_text for known_text in known_streams):
            unknown.add(letters)
    return len(unknown)


def _passages_under_labels(openings: Iterable[str], prompt: str) -> Iterator[str]:
    """Passages of a prompt under labels like those above the openings of some texts."""
    shapes: set[str] = set()
    for opening in openings:
        label = _label_of(opening, prompt)
        if label is not None and _is_numbered(label):
            shapes.add(_shape(label))
    for shape in shapes:
        yield from _passages_under(shape, prompt)


def _label_of(opening: str, prompt: str) -> str | None:
    """What stands before a text in its line, else the line above; None if there is nothing."""
    start = prompt.find(opening)
    if start < 0 or not opening:
        return None
    text_before = prompt[max(0, start - 2 * _LONGEST_LABEL) : start]
    text_above, _, beside = text_before.rpartition("\n")
    _, _, line_above = text_above.rpartition("\n")
    return beside.strip() or line_above.strip() or None


def _shape(label: str) -> str:
    """A label without its numbers, by which labels are compared."""
    return _NUMBER.sub("#", label)


def _is_numbered(label: str) -> bool:
    """Whether what stands before a text is a label with a number, and no value of JSON."""
    if len(label) > _LONGEST_LABEL or _VALUE_BEGINS.search(label):
        return False
    n_letters = sum(character.isalpha() for character in label)
    has_number = "#" in _shape(label)
    return has_number and n_letters >= _FEWEST_LETTERS


def _passages_under(shape: str, prompt: str) -> Iterator[str]:
    """Yield what stands behind each label of a shape: the rest of its line, else the line below."""
    pattern = re.escape(shape).replace(r"\#", "#").replace("#", r"\d{1,9}")
    lines = prompt.split("\n")
    lines_below = [*lines[1:], ""]
    for line, line_below in zip(lines, lines_below, strict=True):
        label = re.match(rf"\s*{pattern}\s*", line)
        if label is not None:
            rest_of_line = line[label.end() :].strip()
            yield rest_of_line or line_below.strip()
