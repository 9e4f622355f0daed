"""Signs that make another number of a number: "-5" is not "5", and "1.5" not "15". Pure.

Prompt and text are compared by their letters and digits, so a sign that a cleaner took
away leaves no trace there. These signs are therefore counted, as they are written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

_HYPHENS = "-−–"
# numbers with nothing but hyphens between them, as in "10-15" and "1874-05-04"
_HYPHENATED = re.compile(rf"\d+(?:[{_HYPHENS}]\d+)+")
_NUMBER = re.compile(r"\d+")
_HYPHEN_BETWEEN_DIGITS = tuple(
    re.compile(rf"{hyphen}(?<=\d.)\d") for hyphen in _HYPHENS
)


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
# The pattern begins after the sign.
_SIGNS_AND_BESIDE = {
    # "-5", but not "well-5"
    "minus": (_HYPHENS, r"""(?<![^\s(\[=:;,"'*_|].)\d"""),
    # "1.5", but not "1.500", which may be a thousand and a half
    "point": (".", r"(?<=\d.)\d(?!\d\d(?!\d))"),
    # "5%" and "5 %"
    "percent": ("%", r"(?:(?<=\d.)|(?<=\d\s.))"),
    # "x < 5"
    "less": ("<≤", r"(?:(?<=\S.)|(?<=\S[ \xa0].))\s*\d"),
    # "x > 5", but not the arrows "-> 5" and "=> 5"
    "more": (">≥", r"(?<![-=].)(?:(?<=\S.)|(?<=\S[ \xa0].))\s*\d"),
    # "2*3", but not the "*" at the beginning of a line in a list
    "times": ("*×", r"(?:(?<=\d.)|(?<=\d[ \xa0].))\s*\d"),
}


def _all_signs() -> Iterator[_NumberSign]:
    """Yield each sign with its pattern."""
    for kind, (characters, beside) in _SIGNS_AND_BESIDE.items():
        for character in characters:
            pattern = re.compile(re.escape(character) + beside)
            yield _NumberSign(kind, character, pattern)


_SIGNS = tuple(_all_signs())


class NumberSigns:
    """The signs of a text's numbers.

    Args:
        text: The text as it is written, without its tags.

    Attributes:
        n_by_kind: How many signs it has, by their kind; kinds that it lacks are left out.
        has_hyphenated: Whether it has numbers with a hyphen between them, as "10-15".

    Examples:
        >>> signs = NumberSigns("It was -5 degrees, then -6, with 1.5 m for 10-15 days.")
        >>> dict(signs.n_by_kind), signs.has_hyphenated
        ({'minus': 2, 'point': 1}, True)
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.n_by_kind = _count_signs(text)
        self.has_hyphenated = any(
            pattern.search(text) for pattern in _HYPHEN_BETWEEN_DIGITS
        )

    def __bool__(self) -> bool:
        """Whether the text has any sign."""
        return bool(self.n_by_kind) or self.has_hyphenated

    def lack_in(self, passage: str) -> bool:
        """Whether a passage that shows the letters of the text lacks one of its signs.

        Example: "10–15 days at -5" lacks no sign of "10-15 days at -5". "1015 days at
        -5" and "10-15 days at 5" do.

        Args:
            passage: The passage as it is written.
        """
        on_one_line = " ".join(passage.split())  # a line may end between "5" and "%"
        if self.n_by_kind - _count_signs(on_one_line):
            return True
        if not self.has_hyphenated:
            return False
        joined_numbers = _joined_numbers(self._text)
        return not joined_numbers.isdisjoint(_NUMBER.findall(on_one_line))


def _count_signs(text: str) -> Counter[str]:
    """Count the signs of a text's numbers by their kind: {"minus": 1} for "at -5"."""
    n_by_kind: Counter[str] = Counter()
    for kind, character, pattern in _SIGNS:
        if character in text:
            n_signs = len(pattern.findall(text))
            if n_signs:
                n_by_kind[kind] += n_signs
    return n_by_kind


def _joined_numbers(text: str) -> set[str]:
    """Return what a text's numbers with hyphens would be without them.

    Example: "10-15 of 1874-05-04" gives {"1015", "18740504"}. A number that the text has
    in any case is left out.
    """
    joined = {re.sub(r"\D", "", each) for each in _HYPHENATED.findall(text)}
    return joined.difference(_NUMBER.findall(text))
