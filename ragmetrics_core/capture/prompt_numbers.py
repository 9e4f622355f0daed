"""Numbers in the lines of a prompt, as in "Source 1:", each with the word before it. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.context_blocks import blocks_in
from ragmetrics_core.data.label_shapes import shape_of_label
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import SOURCE_WORD

CHUNK = "chunk"
"""The numbering that counts the pieces of one document."""

_LONGEST_LABEL = 120
# A number after a word for a source: "Chunk 1", "Source ID: 3", "document[2]".
_NUMBER_BEHIND_A_WORD = lazy_pattern(
    rf"""(?<![^\W\d_])(?P<word>{SOURCE_WORD})
    [ \t_\-]?(?:(?:ids?|index|no|numbers?|nr)\b\.?)?
    [\s"':=\#(\[]*(?P<number>[0-9]{{1,4}})(?![\w.]*\w)""",
    re.IGNORECASE | re.VERBOSE,
)
# Words that name the same numbering.
_NUMBERING_OF_WORD = {
    "doc": "document",
    "ref": "reference",
    "dokumente": "dokument",
    "quellen": "quelle",
}
# What may differ from label to label: "1", "D1", "R-001", "chunk_1"
_TOKEN = lazy_pattern(r"[\w-]*\d[\w-]*")
_SIGNS = " \t#*[](){}<>:.-"  # around it
_WORD = lazy_pattern(r"[^\W\d_]{2,24}")
_MOST_WORDS_OF_A_LABEL = 3  # beside its number; more words make a sentence
_IN_ROUND_BRACKETS = lazy_pattern(r"\([^()\n]*\)")  # "(page 4)" of "Kilde 1 (page 4):"
_LABEL_OF_ITS_OWN = lazy_pattern(r"\s*(?P<label>[^\n:]{1,80}:)(?=\s)")  # "D1: It fell."
# How a line that labels a text with a number begins: "[1]", "Source 1", "1.".
IN_BRACKETS_FIRST = lazy_pattern(r"^[ \t#>*\-]*\[([0-9]{1,9})\]", re.MULTILINE)
BEHIND_A_WORD = lazy_pattern(
    r"^[ \t#>*\-\[<(]*[A-Za-z]+[ \t]*(?:id|no\.?|number)?[ \t\"'#\[=:]*([0-9]{1,9})\b",
    re.MULTILINE | re.IGNORECASE,
)
# "Ticket 1:", which labels the text behind it
_WORD_AND_NUMBER = lazy_pattern(
    r"(?<!\w)(?P<word>[^\W\d_]+)[ \t]+(?P<number>[0-9]{1,9})[ \t*\])>]*:(?=\s)"
)
IN_A_LIST = lazy_pattern(r"^[ \t#>*\-]*([0-9]{1,9})[.):]", re.MULTILINE)
FORMS_OF_NUMBERS = (IN_BRACKETS_FIRST, BEHIND_A_WORD, IN_A_LIST)


def numbers_in_form(form: re.Pattern[str], text: str) -> set[str]:
    """Return all numbers with which lines of a text begin in one of ``FORMS_OF_NUMBERS``.

    "[1] It is old." and "[2] It fell." give ``{"1", "2"}`` for the form in brackets.
    """
    return {str(int(number)) for number in form.findall(text)}


def words_before_number(number: str, prompts: Iterable[str]) -> set[str]:
    """Return the words behind which prompts show a number as a label, in lower case.

    Example: "Document 1: It is old." and "Ticket 1: It fell." give
    ``{"document", "ticket"}`` for "1".
    """
    labels = _WORD_AND_NUMBER.finditer("\n".join(prompts))
    return {
        label["word"].lower()
        for label in labels
        if label["number"].lstrip("0") == number.lstrip("0")
    }


def lines_by_number_in_brackets(prompts: Iterable[str]) -> dict[str, set[str]]:
    """Return what lines of prompts say behind a number in brackets, by the number.

    "[1] a.pdf" gives ``{"1": {"a.pdf"}}``.
    """
    shown = "\n".join([*prompts, ""])  # each line has an end
    lines_by_number: dict[str, set[str]] = {}
    for match in IN_BRACKETS_FIRST.finditer(shown):
        line = shown[match.end() : shown.find("\n", match.end())]
        lines_by_number.setdefault(str(int(match[1])), set()).add(line.strip())
    return lines_by_number


@dataclass(frozen=True, slots=True)
class _ShownContext:
    """A context that a prompt shows.

    Attributes:
        index: The index of the context.
        line_before: What stands before it in its line, else in the line above.
    """

    index: int
    line_before: str


def labels_differing_in_a_token(
    prompts: Sequence[str], contexts: Sequence[str]
) -> dict[str, int]:
    r"""Return the index of each context by its label, if the labels differ in one token.

    The words of a label need not be known. Examples, with their contexts:

    - "Kilde 1: IRON\nKilde 2: STEEL" and [STEEL, IRON]:
      ``{"Kilde 1": 1, "Kilde 2": 0, "1": 1, "2": 0}``;
    - "<D1> IRON\n<D2> STEEL" and [IRON, STEEL]: ``{"D1": 0, "D2": 1}``;
    - the same for the contexts ["D1: IRON", "D2: STEEL"], which hold their labels.

    Args:
        prompts: The messages that the model was shown.
        contexts: The contexts.

    Returns:
        The indexes; empty unless one message shows each context once.
    """
    shown_contexts = _contexts_shown_once(prompts, contexts)
    context_indexes = [shown.index for shown in shown_contexts]
    lines_before = [shown.line_before for shown in shown_contexts]
    tokens = _tokens_that_differ(lines_before)
    if tokens and all(map(str.isdigit, tokens)):
        # any number may stand in a line, as a year does: only a count labels the texts
        return _context_indexes_by_count(tokens, lines_before, context_indexes)
    if tokens:
        return _context_indexes_by_id(tokens, context_indexes)
    labels_in_contexts = [
        _label_of_its_own(contexts[index]) for index in context_indexes
    ]
    return _context_indexes_by_id(
        _tokens_that_differ(labels_in_contexts), context_indexes
    )


def _context_indexes_by_id(
    ids: Sequence[str], context_indexes: Sequence[int]
) -> dict[str, int]:
    """Return the index of each context by its id: {"D1": 0, "D2": 1}.

    Empty unless the ids have one shape: "D1" and "R-02" have not.
    """
    shapes = {shape_of_label(context_id) for context_id in ids}
    are_of_one_shape = len(shapes) == 1 and None not in shapes
    return dict(zip(ids, context_indexes, strict=True)) if are_of_one_shape else {}


def _context_indexes_by_count(
    numbers: Sequence[str], lines: Sequence[str], context_indexes: Sequence[int]
) -> dict[str, int]:
    """Return the index of each context by its number, and by the line with the number.

    "Kilde 1 (a.pdf):" and "Kilde 2:" give the labels "1", "2", "Kilde 1" and "Kilde 2".
    Empty unless the numbers are 1, 2, … in this order, as years are not.
    """
    if list(numbers) != [str(count) for count in range(1, len(numbers) + 1)]:
        return {}
    names = [_IN_ROUND_BRACKETS.sub("", line).strip(_SIGNS) for line in lines]
    context_indexes_by_label = dict(zip(names, context_indexes, strict=True))
    context_indexes_by_label.update(zip(numbers, context_indexes, strict=True))
    return context_indexes_by_label


def _contexts_shown_once(
    prompts: Iterable[str], contexts: Sequence[str]
) -> list[_ShownContext]:
    """List the contexts in the order of a prompt that shows each of them once.

    Empty if there is no such prompt, or if another prompt shows a context as well.
    """
    n_prompts_with_contexts = 0
    shown_contexts: list[_ShownContext] = []
    for prompt in prompts:
        blocks = blocks_in(prompt, contexts)
        n_prompts_with_contexts += bool(blocks)
        for block in blocks:
            line = line_before(prompt, block.start)
            shown_contexts.append(_ShownContext(block.context_index, line))
    context_indexes = sorted(shown.index for shown in shown_contexts)
    is_each_shown_once = context_indexes == list(range(len(contexts)))
    if n_prompts_with_contexts != 1 or not is_each_shown_once:
        return []
    return shown_contexts


def _tokens_that_differ(lines: Sequence[str]) -> list[str]:
    """Return from each line the one token that no other line has; [] without such tokens.

    A token is a number, or a word with a digit such as "D1". "[webpage 1 begin]" and
    "[webpage 2 begin]" give ["1", "2"]. The words around the tokens must be the same in
    all lines.
    """
    plain_lines = [_IN_ROUND_BRACKETS.sub("", line) for line in lines]
    words_around = {tuple(_TOKEN.split(line)) for line in plain_lines}
    if len(words_around) != 1:
        return []
    n_words = len(_WORD.findall(" ".join(words_around.pop())))
    tokens_by_line = [_TOKEN.findall(line) for line in plain_lines]
    if len(lines) == 1:
        # no other line to compare it with: it must be hardly more than its token
        is_label = len(tokens_by_line[0]) == 1 and n_words <= 1
        return tokens_by_line[0] if is_label else []
    is_sentence = n_words > _MOST_WORDS_OF_A_LABEL
    return [] if is_sentence else _tokens_at_differing_position(tokens_by_line)


def _tokens_at_differing_position(tokens_by_line: Iterable[Sequence[str]]) -> list[str]:
    """Return the tokens at the only position at which lines differ, if all differ there.

    [["2024", "1"], ["2024", "2"]], the tokens of two lines, gives ["1", "2"]. Else [].
    """
    # the first tokens of all lines, the second tokens of all lines, …
    tokens_by_position = zip(*tokens_by_line, strict=True)
    differing = [tokens for tokens in tokens_by_position if len(set(tokens)) > 1]
    if len(differing) != 1:
        return []
    tokens = differing[0]
    has_each_line_its_own = len(set(tokens)) == len(tokens)
    return list(tokens) if has_each_line_its_own else []


def line_before(prompt: str, start: int) -> str:
    """Return what stands before a place of a prompt in its line, else in the line above."""
    text_before = prompt[max(0, start - _LONGEST_LABEL) : start]
    lines = [line.strip() for line in text_before.split("\n") if line.strip()]
    return lines[-1] if lines else ""


def _label_of_its_own(text: str) -> str:
    """Return what stands before the first colon of a text: "D1:" of "D1: It fell."."""
    label = _LABEL_OF_ITS_OWN.match(text)
    return "" if label is None else label["label"]


def numbers_with_numbering_in(line: str) -> list[tuple[str, str]]:
    """List the numbers of a line that stand after words such as "Source" or "Chunk".

    Returns:
        Pairs of a numbering and a number. The numbering is the word before the number,
        in lower case and singular.

    Examples:
        >>> numbers_with_numbering_in("Chunk 1 of document 3:")
        [('chunk', '1'), ('document', '3')]
    """
    pairs = []
    for match in _NUMBER_BEHIND_A_WORD.finditer(line):
        word = match["word"].lower().removesuffix("s")
        numbering = _NUMBERING_OF_WORD.get(word, word)
        pairs.append((numbering, str(int(match["number"]))))
    return pairs
