"""Numbers in the lines of a prompt, as in "Source 1:", each with the word before it. Pure."""

import re
from collections.abc import Iterable, Sequence

from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import SOURCE_WORD

CHUNK = "chunk"
"""The kind of a number that counts the pieces of one document."""

_OPENING = 200  # characters of a context by which it is found in a prompt
_LONGEST_LABEL = 120
# A number after a word for a source: "Chunk 1", "Source ID: 3", "document[2]".
_NUMBER_BEHIND_A_WORD = lazy_pattern(
    rf"""(?<![^\W\d_])(?P<word>{SOURCE_WORD})
    [ \t_\-]?(?:(?:ids?|index|no|numbers?|nr)\b\.?)?
    [\s"':=\#(\[]*(?P<number>[0-9]{{1,4}})(?![\w.]*\w)""",
    re.IGNORECASE | re.VERBOSE,
)
# Words that mean the same kind of source.
_KIND_OF_WORD = {
    "doc": "document",
    "ref": "reference",
    "dokumente": "dokument",
    "quellen": "quelle",
}
# Any word and a number: "Kilde 1:", "Фрагмент 2.", "Extrait n° 3 (page 4) :".
_COUNTED = lazy_pattern(
    r"[\s#>*\-\[(<]*(?P<word>[^\W\d_]{2,24})[ \t]*(?:n[°ºo]\.?|nr\.?|\#)?[ \t]*"
    r"(?P<number>[0-9]{1,3})[\s\])>*]*(?:\([^()\n]*\))?[\s:：.)>|*–—-]*",
    re.IGNORECASE,
)
# How a line that labels a text with a number begins: "[1]", "Source 1", "1.".
IN_BRACKETS_FIRST = lazy_pattern(r"^[ \t#>*\-]*\[([0-9]{1,9})\]", re.MULTILINE)
BEHIND_A_WORD = lazy_pattern(
    r"^[ \t#>*\-\[<(]*[A-Za-z]+[ \t]*(?:id|no\.?|number)?[ \t\"'#\[=:]*([0-9]{1,9})\b",
    re.MULTILINE | re.IGNORECASE,
)
_IN_A_LIST = lazy_pattern(r"^[ \t#>*\-]*([0-9]{1,9})[.):]", re.MULTILINE)
FORMS_OF_NUMBERS = (IN_BRACKETS_FIRST, BEHIND_A_WORD, _IN_A_LIST)


def numbers_in_form(form: re.Pattern[str], text: str) -> set[str]:
    """Return all numbers with which lines of a text begin in one of ``FORMS_OF_NUMBERS``.

    "[1] It is old." and "[2] It fell." give ``{"1", "2"}`` for the form in brackets.
    """
    return {str(int(number)) for number in form.findall(text)}


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


def counted_in(
    prompts: Sequence[str], contexts: Sequence[str]
) -> dict[str, int] | None:
    r"""Return the index of each context by its number, where one word counts them all.

    Example: "Kilde 1: IRON\nKilde 2: STEEL" with the contexts [STEEL, IRON] gives
    ``{"1": 1, "Kilde 1": 1, "2": 0, "Kilde 2": 0}``. The word need not be known: its numbers are 1, 2, … in the
    order of the prompt.

    Args:
        prompts: The messages that the model was shown.
        contexts: The contexts.

    Returns:
        The numbering; None unless one message shows each context once, counted by one
        word.
    """
    openings = [_opening(text) for text in contexts]  # first characters of each
    prompts_with_contexts = [
        prompt
        for prompt in prompts
        if any(opening and opening in prompt for opening in openings)
    ]
    if len(prompts_with_contexts) != 1:
        return None
    (prompt,) = prompts_with_contexts
    if any(prompt.count(opening) != 1 for opening in openings):
        return None
    # the indexes of the contexts, in the order of the prompt
    in_order = sorted(
        range(len(openings)), key=lambda index: prompt.index(openings[index])
    )
    words = set()
    index_by_number: dict[str, int] = {}
    for count, index in enumerate(in_order, start=1):
        label = _count_before(prompt, prompt.index(openings[index]))  # "Kilde 1:"
        if label is None or int(label["number"]) != count:
            return None
        words.add(label["word"].lower())
        index_by_number[str(count)] = index
        index_by_number[f"{label['word']} {count}"] = index
    return index_by_number if len(words) == 1 else None


def _count_before(prompt: str, start: int) -> re.Match[str] | None:
    """Match the word and number that stand before a place of a prompt; None without."""
    text_before = prompt[max(0, start - _LONGEST_LABEL) : start]
    lines = [line for line in text_before.split("\n") if line.strip()]
    return _COUNTED.fullmatch(lines[-1]) if lines else None


def numbers_by_kind_in(line: str) -> list[tuple[str, str]]:
    """List the numbers of a line that stand after words such as "Source" or "Chunk".

    Returns:
        Pairs of a kind and a number. The kind is the word in lower case and singular.

    Examples:
        >>> numbers_by_kind_in("Chunk 1 of document 3:")
        [('chunk', '1'), ('document', '3')]
    """
    pairs = []
    for match in _NUMBER_BEHIND_A_WORD.finditer(line):
        word = match["word"].lower().removesuffix("s")
        kind = _KIND_OF_WORD.get(word, word)
        pairs.append((kind, str(int(match["number"]))))
    return pairs


def _opening(text: str) -> str:
    """Return the first characters of a context; parts of it are divided by ``…``."""
    first_part = text.partition("…")[0].strip()
    return first_part[:_OPENING].strip()
