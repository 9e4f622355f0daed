"""Under which number a prompt showed each context, so that a mark such as ``[1]`` has a meaning. Pure."""

import re
from collections.abc import Iterator, Sequence

_OPENING = 200  # signs of a context by which it is found in a prompt
_LONGEST_LABEL = 120
_LINES_ABOVE = 3  # of which a label may be the first, and the others name a title
_NAME = r"(?:source|document|doc|passage|context|chunk|citation|reference|result)"
# A label alone: "[1]", "Source 1:", "Source ID: 0", "Document [1](Title: A)", "### 1".
_LABEL = re.compile(
    rf"""[\s#>*\-<{{"']*
    (?:\[(?P<bracket>[0-9]{{1,4}})\]
      |{_NAME}[ \t]*(?:id|no\.?|number)?[ \t]*["']?[#\[=:]*[ \t]*["']?(?P<word>[0-9]{{1,4}})\b["'\]]?)
    [ \t]*(?:\([^()\n]*\))?[\s:.\-–)\]>"',*]*""",
    re.IGNORECASE | re.VERBOSE,
)
_LISTED = re.compile(r"[ \t]*(?P<word>[0-9]{1,4})[.):][ \t]*")
_NAMED_LINE = re.compile(r"[\w ]{1,40}:.*")
# What a context begins with where the application wrote its number into it.
_OWN = re.compile(
    rf"(?:\[(?P<bracket>[0-9]{{1,4}})\]|{_NAME}[ \t]*#?(?P<word>[0-9]{{1,4}})[:.)])",
    re.IGNORECASE,
)


def numbering_in(
    prompts: Sequence[str], contexts: Sequence[str], *, lists: bool = False
) -> dict[str, int] | None:
    r"""Return the place of each context by the number under which prompts show it.

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
    openings = [_opening(text) for text in contexts]
    if not all(openings) or len(set(openings)) < len(openings):
        return None
    numbering: dict[str, int] = {}
    for place, opening in enumerate(openings):
        numbers = set(_numbers_before(opening, prompts, lists=lists))
        if len(numbers) != 1:
            return None
        (number,) = numbers
        if number is None or number in numbering:
            return None
        numbering[number] = place
    return numbering or None


def _opening(text: str) -> str:
    """The beginning of a context, behind a number of its own; parts end at ``…``."""
    return text.partition("…")[0].strip()[:_OPENING].strip()


def _numbers_before(
    opening: str, prompts: Sequence[str], *, lists: bool
) -> Iterator[str | None]:
    """The number before each place where a text stands; None for a place without."""
    for prompt in prompts:
        start = prompt.find(opening)
        while start >= 0:
            yield _number(prompt, start, opening, lists=lists)
            start = prompt.find(opening, start + len(opening))


def _number(prompt: str, start: int, opening: str, *, lists: bool) -> str | None:
    """The number of the text that begins at a place of a prompt."""
    before = prompt[max(0, start - _LINES_ABOVE * _LONGEST_LABEL) : start]
    *above, beside = before.split("\n")
    lines = [beside, *reversed(above)] if beside.strip() else above[::-1]
    for line in _lines_that_may_label([one for one in lines if one.strip()]):
        label = _LABEL.fullmatch(line) or (_LISTED.fullmatch(line) if lists else None)
        if label is not None:
            return _digits(label)
    own = _OWN.match(opening)
    return None if own is None else _digits(own)


def _lines_that_may_label(lines: Sequence[str]) -> Iterator[str]:
    """The line before a text, and those above it as long as they name something, as titles do."""
    for line in lines[:_LINES_ABOVE]:
        yield line
        if not _NAMED_LINE.fullmatch(line.strip()):
            return


def _digits(label: re.Match[str]) -> str:
    """The number of a label, without zeros before it."""
    groups = label.groupdict()
    return str(int(groups.get("bracket") or groups["word"]))
