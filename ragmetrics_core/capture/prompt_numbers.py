"""Under which number a prompt showed each context, so that a mark such as ``[1]`` has a meaning. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence

from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import SOURCE_WORD

CHUNK = "chunk"
"""The kind of a number that counts the pieces of one document."""

_OPENING = 200  # characters of a context by which it is found in a prompt
_LONGEST_LABEL = 120
# A label may stand up to three lines above its context. Lines between them name a title.
_MOST_LINES = 3
_NAME = r"(?:source|document|doc|passage|context|chunk|citation|reference|result)"
# A label alone: "[1]", "Source 1:", "Source ID: 0", "Document [1](Title: A)", "### 1".
_LABEL = lazy_pattern(
    rf"""[\s#>*\-<{{"']*
    (?:\[(?P<bracket>[0-9]{{1,4}})\]
      |{_NAME}[ \t]*(?:id|no\.?|number)?[ \t]*["']?[#\[=:]*[ \t]*["']?(?P<word>[0-9]{{1,4}})\b["'\]]?)
    [ \t]*(?:\([^()\n]*\))?[\s:.\-–)\]>"',*]*""",
    re.IGNORECASE | re.VERBOSE,
)
# the number of a list's item: "1.", "2)"
_ITEM_NUMBER = lazy_pattern(r"[ \t]*(?P<word>[0-9]{1,4})[.):][ \t]*")
# "Title: Bridges"
_FIELD_LINE = lazy_pattern(r"[\w ]{1,40}:.*")
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
# What a context begins with where the application wrote its number into it.
_OWN_NUMBER = lazy_pattern(
    rf"(?:\[(?P<bracket>[0-9]{{1,4}})\]|{_NAME}[ \t]*#?(?P<word>[0-9]{{1,4}})"
    r"(?:[:)]|\.(?!\w)))",  # "doc1.pdf" is a file
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


def numbering_in(
    prompts: Sequence[str], contexts: Sequence[str], *, lists: bool = False
) -> dict[str, int] | None:
    r"""Map the number under which prompts show a context to the context's index.

    The number stands before the context in its line, in the line above, or at the
    beginning of the context itself: ``[1]``, ``Source 1:``, ``Document [1](Title: …)``.

    Args:
        prompts: The messages that the model was shown.
        contexts: The contexts in their order.
        lists: Whether the number of a list, ``1.``, counts as well.

    Returns:
        The numbering; None unless every context stands under a number of its own.

    Examples:
        >>> numbering_in(["[1] It is old.\n[2] It fell.\n\nWhat fell?"], ["It is old.", "It fell."])
        {'1': 0, '2': 1}
        >>> numbering_in(["It is old.\nIt fell."], ["It is old.", "It fell."]) is None
        True
    """
    openings = [_opening(text) for text in contexts]  # first characters of each
    begin_alike = len(set(openings)) < len(openings)
    if begin_alike or not all(openings):
        return None
    index_by_number: dict[str, int] = {}
    for index, opening in enumerate(openings):
        numbers = set(_numbers_at_occurrences(opening, prompts, lists=lists))
        if len(numbers) != 1:  # in no prompt, or under several numbers
            return None
        (number,) = numbers
        if number is None or number in index_by_number:
            return None
        index_by_number[number] = index
    return index_by_number or None


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


def _numbers_at_occurrences(
    opening: str, prompts: Sequence[str], *, lists: bool
) -> Iterator[str | None]:
    """Yield the number of each place at which a context stands; None without a number.

    Args:
        opening: The first characters of the context.
        prompts: The messages that the model was shown.
        lists: Whether the number of a list's item, ``1.``, counts.
    """
    for prompt in prompts:
        start = prompt.find(opening)
        while start >= 0:
            yield _number_at(prompt, start, opening, lists=lists)
            start = prompt.find(opening, start + len(opening))


def _number_at(prompt: str, start: int, opening: str, *, lists: bool) -> str | None:
    """Return the number of the context that begins at an index of a prompt.

    "[2]" before the context gives 2, and so does a context that begins with "Source 2:"
    and has no label before it. None without a number, or if the label has two, as
    "Source 1 (Document 3):".

    Args:
        prompt: The prompt.
        start: Where the context begins.
        opening: The first characters of the context.
        lists: Whether the number of a list's item, ``1.``, is a label as well.
    """
    n_before = _MOST_LINES * _LONGEST_LABEL  # characters
    text_before = prompt[max(0, start - n_before) : start]
    for line in _lines_that_may_label(text_before):
        label = _LABEL.fullmatch(line)
        if label is None and lists:
            label = _ITEM_NUMBER.fullmatch(line)
        if label is not None:
            number = _digits(label)
            return None if _has_other_number(line, number) else number
    own_number = _OWN_NUMBER.match(opening)
    return None if own_number is None else _digits(own_number)


def _has_other_number(line: str, number: str) -> bool:
    """Whether a label such as "Source 1 (Document 3):" has a second number.

    The number of a chunk does not count.
    """
    return any(
        kind != CHUNK and other_number != number
        for kind, other_number in numbers_by_kind_in(line)
    )


def _lines_that_may_label(text_before: str) -> Iterator[str]:
    """Yield the lines before a context, the nearest first; at most three.

    The nearest is what stands beside the context in its own line, or else the line
    above. The next line counts only if the one between is a field, such as a title.
    Blank lines do not count.
    """
    nearest_first = reversed(text_before.split("\n"))
    lines = [line for line in nearest_first if line.strip()]
    for line in lines[:_MOST_LINES]:
        yield line
        is_field = _FIELD_LINE.fullmatch(line.strip()) is not None
        if not is_field:
            return


def _digits(label: re.Match[str]) -> str:
    """Return the number of a label, without zeros before it."""
    groups = label.groupdict()
    return str(int(groups.get("bracket") or groups["word"]))
