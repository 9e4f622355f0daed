"""Passages that a prompt labels like the contexts, and that nothing recorded has found. Pure.

An index of the application's own is no run of any framework. Where its hits stand in one
list with what a retriever found, "[Page 4]" and "[Page 7]" above them, the labels tell.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.letters import letters_of

_FEWEST_LETTERS = 3  # of a label; a number without brackets numbers anything
_LONGEST_LABEL = 80
_PASSAGE = 48  # letters of a passage, as it is compared with what is known
_SHORTEST = 12  # fewer are a remark, such as "See above."
_NUMBER_IN_BRACKETS = re.compile(r"\s*[\[【［](\d{1,9})[\]】］]\s*")
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
    known_streams = [letters_of(text) for text in known]
    # a line may hold more than the text: a closing tag, a score, the name of a file
    beginnings = tuple(letters_of(opening) for opening in openings)
    long_beginnings = tuple(one for one in beginnings if len(one) >= _SHORTEST)
    unknown: set[bytes] = set()
    for passage in passages:
        letters = letters_of(passage)
        is_remark = len(letters) < _SHORTEST
        if is_remark or letters.startswith(long_beginnings):
            continue
        beginning = letters[:_PASSAGE]
        if not any(beginning in known_text for known_text in known_streams):
            unknown.add(beginning)
    return len(unknown)


def _passages_under_labels(openings: Iterable[str], prompt: str) -> Iterator[str]:
    """Passages of a prompt under labels like those above the openings of some texts.

    A number in brackets may number anything, such as the rules of the instructions. So
    it counts where it goes on with the numbers of the texts.
    """
    openings_here = [opening for opening in openings if opening and opening in prompt]
    openings_here.sort(key=prompt.index)
    labels = [_label_of(opening, prompt) for opening in openings_here]
    patterns: dict[str, re.Pattern[str]] = {}
    for label in labels:
        if _NUMBER_IN_BRACKETS.fullmatch(label):
            patterns["[#]"] = _NUMBER_IN_BRACKETS
        elif _is_numbered(label):
            patterns[_shape(label)] = _pattern_of_shape(_shape(label))
    for pattern in patterns.values():
        passages = list(_passages_under(pattern, prompt))
        stands_behind_texts = pattern.search(labels[0]) is None
        if stands_behind_texts:
            # what follows the last label is no passage
            passages = passages[:-1]
        if pattern is _NUMBER_IN_BRACKETS:
            passages = _passages_in_lists_of(openings_here, passages)
        yield from (passage.text for passage in passages)


@dataclass(frozen=True)
class _Labelled:
    """A passage under a label.

    Attributes:
        number: The first number of the label.
        text: The passage.
    """

    number: int
    text: str


def _passages_in_lists_of(
    openings: Sequence[str], passages: Sequence[_Labelled]
) -> list[_Labelled]:
    """Those of some passages that stand in one list with some texts.

    A list ends where the numbers begin anew.

    Args:
        openings: What the texts begin with.
        passages: The passages under numbers, in the order of the prompt.
    """
    lists: list[list[_Labelled]] = []
    for passage in passages:
        goes_on = bool(lists) and passage.number > lists[-1][-1].number
        if goes_on:
            lists[-1].append(passage)
        else:
            lists.append([passage])
    in_lists: list[_Labelled] = []
    for listed in lists:
        if any(passage.text.startswith(tuple(openings)) for passage in listed):
            in_lists += listed
    return in_lists


def _label_of(opening: str, prompt: str) -> str:
    """What stands before a text in its line, else the line above; empty if nothing does."""
    start = prompt.index(opening)
    text_before = prompt[max(0, start - 2 * _LONGEST_LABEL) : start]
    text_above, _, beside = text_before.rpartition("\n")
    _, _, line_above = text_above.rpartition("\n")
    return beside.strip() or line_above.strip()


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


def _pattern_of_shape(shape: str) -> re.Pattern[str]:
    """What finds labels of a shape; its group is the first number."""
    pattern = re.escape(shape).replace(r"\#", "#")
    pattern = pattern.replace("#", r"(\d{1,9})", 1).replace("#", r"\d{1,9}")
    return re.compile(rf"\s*{pattern}\s*")


def _passages_under(label: re.Pattern[str], prompt: str) -> Iterator[_Labelled]:
    """Yield what stands behind each label: the rest of its line, else the line below."""
    lines = prompt.split("\n")
    lines_below = [*lines[1:], ""]
    for line, line_below in zip(lines, lines_below, strict=True):
        found = label.match(line)
        if found is not None:
            rest_of_line = line[found.end() :].strip()
            yield _Labelled(int(found[1]), rest_of_line or line_below.strip())
