"""Passages that a prompt labels like the contexts, and that nothing recorded has found. Pure.

An index of the application's own is no run of any framework. Where its hits stand in one
list with what a retriever found, "[Page 4]" and "[Page 7]" above them, the labels tell.
"""

import re
from collections.abc import Collection, Iterable, Sequence

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
    """How many passages of some prompts stand under a label like that of a context and are not known.

    Args:
        prompts: The messages that the answering call was shown.
        contexts: Texts that stand there.
        known: All texts that were found, said, asked or written in the run.
    """
    openings = [text.strip()[:_PASSAGE] for text in contexts]
    streams: list[bytes] = []
    unknown = set()
    for prompt in prompts:
        shapes = {
            _shape(label)
            for opening in openings
            for label in _label_of(opening, prompt)
            if _is_numbered(label)
        }
        passages = [passage for shape in shapes for passage in _under(shape, prompt)]
        streams = streams or [stream(text) for text in known] if passages else streams
        for passage in passages:
            letters = stream(passage)[:_PASSAGE]
            if len(letters) >= _SHORTEST and not any(letters in one for one in streams):
                unknown.add(letters)
    return len(unknown)


def _label_of(opening: str, prompt: str) -> Iterable[str]:
    """What stands before a text in its line; else the line above."""
    start = prompt.find(opening) if opening else -1
    if start < 0:
        return
    before = prompt[max(0, start - 2 * _LONGEST_LABEL) : start]
    *above, beside = before.split("\n")[-2:]
    label = beside.strip() or "".join(above).strip()
    if label:
        yield label


def _shape(label: str) -> str:
    """A label without its numbers, by which labels are compared."""
    return _NUMBER.sub("#", label)


def _is_numbered(label: str) -> bool:
    if len(label) > _LONGEST_LABEL or _VALUE_BEGINS.search(label):
        return False
    letters = sum(character.isalpha() for character in label)
    return letters >= _FEWEST_LETTERS and "#" in _shape(label)


def _under(shape: str, prompt: str) -> Iterable[str]:
    """What stands behind each label of a shape: the rest of its line, else the line below."""
    pattern = re.escape(shape).replace(r"\#", "#").replace("#", r"\d{1,9}")
    lines = prompt.split("\n")
    for place, line in enumerate(lines):
        found = re.match(rf"\s*{pattern}\s*", line)
        if found is None:
            continue
        below = lines[place + 1] if place + 1 < len(lines) else ""
        yield line[found.end() :].strip() or below.strip()
