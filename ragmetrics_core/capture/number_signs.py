"""Signs that make another number of a number: "-5" is not "5", and "1.5" not "15". Pure.

Prompt and text are compared by their letters and digits, so a sign that a cleaner took
away leaves no trace there. These signs are therefore counted, as they are written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

_DIGITS_APART = "digits apart"
# digits with something between them, but not with a sign inside of a number: "10-15" and
# "10 / 15", but not "1,874" or "1.5"
_APART = re.compile(r"\d[^\w.,]+(?=\d)")


class _NumberSign(NamedTuple):
    """A sign beside a number.

    Attributes:
        kind: What it means. The "-" and the "−" of a number below zero are of one kind.
        character: The sign. A text without it is not searched, which is fast.
        pattern: Matches the sign beside its number. It begins with the sign, because a
            search for one character is fast.
    """

    kind: str
    character: str
    pattern: re.Pattern[str]


# By what the signs mean: the signs, and the pattern of what stands beside each of them.
# The pattern begins behind the sign.
_SIGNS_AND_BESIDE = {
    # "-5", but not "well-5"
    "minus": ("-−–", r"""(?<![^\s(\[=:;,"'*_|].)\d"""),
    # "10-15": digits that become one number without it
    _DIGITS_APART: ("-−–", r"(?<=\d.)\d"),
    # "1.5", but not "1.500", which may be a thousand and a half
    "point": (".", r"(?<=\d.)\d(?!\d\d(?!\d))"),
    # "5%" and "5 %"
    "percent": ("%", r"(?:(?<=\d.)|(?<=\d\s.))"),
    # "x < 5"
    "less": ("<≤", r"(?:(?<=\S.)|(?<=\S[ \xa0].))\s*\d"),
    # "x > 5"
    "more": (">≥", r"(?:(?<=\S.)|(?<=\S[ \xa0].))\s*\d"),
    # "2*3"
    "times": ("*×", r"(?:(?<=\d.)|(?<=\d\s.))\s*\d"),
}


def _all_signs() -> Iterator[_NumberSign]:
    """Yield each sign with its pattern."""
    for kind, (characters, beside) in _SIGNS_AND_BESIDE.items():
        for character in characters:
            pattern = re.compile(re.escape(character) + beside)
            yield _NumberSign(kind, character, pattern)


_SIGNS = tuple(_all_signs())


def count_number_signs(text: str) -> Counter[str]:
    """Count the signs of a text's numbers by their kind; kinds that it lacks are left out.

    Examples:
        >>> dict(count_number_signs("It was -5 degrees, then -6, with 1.5 m of snow."))
        {'minus': 2, 'point': 1}
    """
    n_by_kind: Counter[str] = Counter()
    for kind, character, pattern in _SIGNS:
        if character in text:
            n_signs = len(pattern.findall(text))
            if n_signs:
                n_by_kind[kind] += n_signs
    if _DIGITS_APART in n_by_kind:
        n_by_kind[_DIGITS_APART] = _count_digits_apart(text)
    return n_by_kind


def lacks_number_signs(written: str, n_by_kind: Counter[str]) -> bool:
    """Whether a passage has fewer signs of numbers than the text that it shows.

    Example: "It lies 10–15 km away" lacks no sign of "It lies 10-15 km away", "It lies
    1015 km away" does.

    Args:
        written: The passage, as it is written.
        n_by_kind: The signs of the text; see ``count_number_signs``.
    """
    on_one_line = " ".join(written.split())  # a line may end between "5" and "%"
    n_in_passage = count_number_signs(on_one_line)
    if _DIGITS_APART in n_by_kind:  # any other sign keeps them apart as well
        n_in_passage[_DIGITS_APART] = _count_digits_apart(on_one_line)
    return bool(n_by_kind - n_in_passage)


def _count_digits_apart(text: str) -> int:
    """Count the places at which digits stand apart: one in "10-15", none in "1,015"."""
    return len(_APART.findall(text))
