"""Passages that a prompt labels like the contexts, and that nothing recorded has found. Pure.

An index of the application's own is no run of any framework. Where its hits stand in one
list with what a retriever found, "[Page 4]" and "[Page 7]" above them, the labels tell.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.findings import BETWEEN_PIECES
from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.prompt_numbers import line_before
from ragmetrics_core.data.lazy_patterns import lazy_pattern

_FEWEST_LETTERS = 3  # of a label; a number without brackets numbers anything
_LONGEST_LABEL = 80
_LENGTH_COMPARED = 48  # letters of a passage that are compared with what is known
_SHORTEST_PASSAGE = 12  # fewer letters are a remark, such as "See above."
_NUMBER_IN_BRACKETS = lazy_pattern(r"\s*[\[【［](\d{1,9})[\]】］]\s*")
_NUMBER = lazy_pattern(r"\d+")
# What stands before a text that is a value of JSON or of a repr: no label.
_VALUE_BEGINS = lazy_pattern(r"""\{|["']\s*:\s*["']$|=\s*["']$""")


def unknown_passages(
    prompts: Sequence[str], contexts: Iterable[str], known: Iterable[str]
) -> int:
    """Count the passages under headings like "Page 4:" that no recorded call brought.

    Example: a search found the text under "Page 4:". The prompt also has "Page 7: The
    ferry …", which no search found and nobody wrote: 1.

    Args:
        prompts: The messages that the answering call was shown.
        contexts: The contexts of the sample. Headings above them show what a heading
            looks like in these prompts.
        known: All texts that were found, said, asked or written in the run. A passage
            is known if it stands in one of them.
    """
    # The first 48 characters of each context: by them its heading is found in a prompt.
    openings = [_first_piece(text)[:_LENGTH_COMPARED] for text in contexts]
    passages: list[str] = []
    for prompt in prompts:
        passages += _passages_with_labels_like(openings, prompt)
    if not passages:
        return 0
    beginnings = _beginnings_of_other_passages(passages, openings)
    normalized_known_texts = [normalize_text(text) for text in known]
    unknown_beginnings = [
        beginning
        for beginning in beginnings
        if not any(beginning in known_text for known_text in normalized_known_texts)
    ]
    return len(unknown_beginnings)


def _beginnings_of_other_passages(
    passages: Iterable[str], openings_of_contexts: Iterable[str]
) -> set[bytes]:
    """Return the normalized beginnings of the passages that are no context and no remark.

    With the context "It is old by now.", "It is old by now. </doc>" is that context:
    more may stand behind it in its line. "See above." is a remark. "The ferry was blue."
    gives ``{b"theferrywasblue"}``. A passage of several prompts counts once.
    """
    normalized_openings = {normalize_text(opening) for opening in openings_of_contexts}
    # few letters may be equal by chance
    lengths = {len(opening) for opening in normalized_openings}
    lengths_compared = [length for length in lengths if length >= _SHORTEST_PASSAGE]
    beginnings: set[bytes] = set()
    for passage in passages:
        normalized = normalize_text(passage)
        # one look-up for each length of an opening, however many contexts there are
        begins_with_opening = any(
            normalized[:length] in normalized_openings for length in lengths_compared
        )
        is_remark = len(normalized) < _SHORTEST_PASSAGE
        if not begins_with_opening and not is_remark:
            beginnings.add(normalized[:_LENGTH_COMPARED])
    return beginnings


def _first_piece(context: str) -> str:
    """Return the first piece of a context that the prompt shows in pieces.

    Example: "It fell in … by night." is shown as "It fell in [YEAR] by night.". A prompt
    that has other words than the first or last ones gives "… fell in 1874 …".
    """
    text = context.strip().removeprefix("… ").removesuffix(" …")
    piece, _, _ = text.partition(BETWEEN_PIECES)
    return piece


def _passages_with_labels_like(openings: Iterable[str], prompt: str) -> Iterator[str]:
    """Yield the passages of a prompt that stand under the same kind of label as a context.

    Example: a context stands under "Page 4:". The passages under "Page 4:" and under
    "Page 7:" are yielded.

    Args:
        openings: The first characters of the contexts.
        prompt: The prompt.
    """
    openings_here = [opening for opening in openings if opening and opening in prompt]
    openings_here.sort(key=prompt.index)
    # what stands before each context: it need not be a label
    words_before = [
        line_before(prompt, prompt.index(opening)) for opening in openings_here
    ]
    for pattern in _patterns_of(words_before):
        passages = _passages_with_labels(pattern, prompt, words_before[0])
        # "[1] Be brief. [2] Be kind." is a list of rules: only lists in which a context
        # stands count
        if pattern is _NUMBER_IN_BRACKETS:
            passages = _passages_in_lists_with(openings_here, passages)
        for passage in passages:
            yield passage.text


def _patterns_of(labels: Iterable[str]) -> list[re.Pattern[str]]:
    """Return a pattern for each kind of label, whose group is the first number.

    Example: "Page 4:" and "Page 7:" give one pattern, which finds "Page 12:" as well.
    What has no number, or is a value of JSON, is no label.

    Args:
        labels: What stands before each context, such as ``Page 4:``.
    """
    pattern_by_shape: dict[str, re.Pattern[str]] = {}
    for label in labels:
        if _NUMBER_IN_BRACKETS.fullmatch(label):
            pattern_by_shape["[#]"] = _NUMBER_IN_BRACKETS
        elif _is_label_with_number(label):
            shape = _shape(label)
            pattern_by_shape[shape] = _pattern_of_shape(shape)
    return list(pattern_by_shape.values())


@dataclass(frozen=True)
class _LabelledPassage:
    """A passage under a label.

    Attributes:
        number: The first number of the label.
        text: The passage.
    """

    number: int
    text: str


def _passages_with_labels(
    pattern: re.Pattern[str], prompt: str, words_before_first_context: str
) -> list[_LabelledPassage]:
    """Return the passages that have a label of one kind above or below them.

    Args:
        pattern: Finds these labels, such as "(page 4)".
        prompt: The prompt.
        words_before_first_context: What stands before the first context: its label, if
            the labels stand above the texts.
    """
    texts_under_labels = list(_passages_under(pattern, prompt))
    do_labels_stand_above = pattern.search(words_before_first_context) is not None
    if do_labels_stand_above:
        return texts_under_labels
    # "IRON", "(page 4)", "WOOD", "(page 7)", "Be brief.": of the two texts under labels
    # only WOOD has a label below it
    return texts_under_labels[:-1]


def _passages_in_lists_with(
    openings: Sequence[str], passages: Sequence[_LabelledPassage]
) -> list[_LabelledPassage]:
    """Return the passages of the numbered lists in which at least one context stands.

    Example: "[1] Be brief. [2] Be kind. [1] IRON [2] STEEL", where IRON is a context:
    the second list counts, the first are rules. A list ends where the numbers fall.

    Args:
        openings: The first characters of the contexts.
        passages: The passages under numbers, in the order of the prompt.
    """
    lists: list[list[_LabelledPassage]] = []
    for passage in passages:
        goes_on = bool(lists) and passage.number > lists[-1][-1].number
        if goes_on:
            lists[-1].append(passage)
        else:
            lists.append([passage])
    in_lists: list[_LabelledPassage] = []
    for passages_of_list in lists:
        has_context = any(
            passage.text.startswith(tuple(openings)) for passage in passages_of_list
        )
        if has_context:
            in_lists += passages_of_list
    return in_lists


def _shape(label: str) -> str:
    """Return a label without its numbers, by which labels are compared."""
    return _NUMBER.sub("#", label)


def _is_label_with_number(label: str) -> bool:
    """Whether what stands before a context is a label with a number, and no value of JSON."""
    if len(label) > _LONGEST_LABEL or _VALUE_BEGINS.search(label):
        return False
    n_letters = sum(character.isalpha() for character in label)
    has_number = "#" in _shape(label)
    return has_number and n_letters >= _FEWEST_LETTERS


def _pattern_of_shape(shape: str) -> re.Pattern[str]:
    """Return a pattern that finds labels of a shape; its group is the first number.

    Args:
        shape: The label with ``#`` in place of each number, such as ``Page #:``.
    """
    pattern = re.escape(shape).replace(r"\#", "#")
    pattern = pattern.replace("#", r"(\d{1,9})", 1).replace("#", r"\d{1,9}")
    return re.compile(rf"\s*{pattern}\s*")


def _passages_under(label: re.Pattern[str], prompt: str) -> Iterator[_LabelledPassage]:
    """Yield the passage after each label: the rest of its line, else the line below.

    Example: "Page 4: IRON" and, in two lines, "Page 7:" and "WOOD" give IRON and WOOD.

    Args:
        label: Finds a label at the start of a line; its group is the first number.
        prompt: The prompt.
    """
    lines = prompt.split("\n")
    lines_below = [*lines[1:], ""]
    for line, line_below in zip(lines, lines_below, strict=True):
        match = label.match(line)
        if match is not None:
            rest_of_line = line[match.end() :].strip()
            yield _LabelledPassage(int(match[1]), rest_of_line or line_below.strip())
