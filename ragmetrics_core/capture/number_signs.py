"""Signs that letters and digits do not tell: "-5" is not "5", nor "a == b" "a != b". Pure.

Prompt and text are compared by their letters and digits, so a sign that a cleaner took
away leaves no trace there. The signs of numbers and of comparisons are therefore
counted, as they are written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple
from unicodedata import normalize

from ragmetrics_core.data.lazy_patterns import lazy_pattern

_HYPHENS = "-−–"
# a number with its separators, as in "1.234,56" and "4.5.1874"
_NUMBER = lazy_pattern(r"\d+(?:[.,'’]\d+)*")
_SEPARATOR = lazy_pattern(r"[.,'’]")
# digits that stand apart: "31,5", "10-15", "10 ^ 6"
_APART = lazy_pattern(r"\d[^\w]{1,3}\d")
# the blank in "12 400"
_BLANK_OF_THOUSANDS = lazy_pattern(r"(?<=\d)[ \xa0\u202f](?=\d{3}(?!\d))")
_IN_TABLE = lazy_pattern(r"\d\s*[;|]")  # a number in a cell
# digits that stand raised, lowered, as a fraction or in a circle behind a digit: "10²"
_SMALL_DIGITS = lazy_pattern(
    r"(?<=\d)[²³¹¼½¾\u2070-\u2079\u2080-\u2089\u2150-\u215f\u2189\u2460-\u249b]+"
)
_SIZE_OF_GROUP = 3  # digits between two separators of thousands


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


# "5 €" and "€5"
_NUMBER_BESIDE = r"(?:(?<=\d.)|(?<=\d\s.)|(?=\s?\d))"
_CURRENCIES = "$€£¥₹₽₩₺¢"


def _between_terms(operator: str) -> str:
    """The pattern of an operator between two terms: "a == b", but not "== Lamps =="."""
    behind_term = r"""(?:(?<=[\w)\]"'].)|(?<=[\w)\]"'][ \xa0].))"""
    return rf"""{behind_term}{operator}[ \xa0]?[\w("'\[-]"""


# By what the signs mean: the signs, and the pattern of what stands beside each of them.
# The pattern begins after the sign.
_SIGNS_AND_BESIDE = {
    **{currency: (currency, _NUMBER_BESIDE) for currency in _CURRENCIES},
    "equal": ("=", _between_terms("={1,2}")),
    "unequal": ("!≠", _between_terms("(?:(?<=!)={1,2}|(?<=≠))")),
    # "-5", but not "well-5"
    "minus": (_HYPHENS, r"""(?<![^\s(\[=:;,"'*_|].)\d"""),
    # "5%" and "5 %"
    "percent": ("%", r"(?:(?<=\d.)|(?<=\d\s.))"),
    # "x < 5"
    "less": ("<≤", r"(?:(?<=\S.)|(?<=\S[ \xa0].))=?\s*\d"),
    # "x > 5", but not the arrows "-> 5" and "=> 5"
    "more": (">≥", r"(?<![-=].)(?:(?<=\S.)|(?<=\S[ \xa0].))=?\s*\d"),
    # "2*3", but not the "*" at the beginning of a line in a list
    "times": ("*×", r"(?:(?<=\d.)|(?<=\d[ \xa0].))\s*\d"),
    "plus or minus": ("±", r"\s*\d"),
}


def _all_signs() -> Iterator[_NumberSign]:
    """Yield each sign with its pattern."""
    for kind, (characters, beside) in _SIGNS_AND_BESIDE.items():
        for character in characters:
            pattern = re.compile(re.escape(character) + beside)
            yield _NumberSign(kind, character, pattern)


_SIGNS = tuple(_all_signs())


class NumberSigns:
    """The signs of a text's numbers and comparisons.

    Args:
        text: The text as it is written, without its tags.

    Attributes:
        n_by_kind: How many signs it has, by their kind; kinds that it lacks are left out.
        has_digits_apart: Whether it has digits with a sign or a blank between them, as in
            "10-15" and "31,5", or small ones, as in "10²". Without it they would be one
            number.

    Examples:
        >>> signs = NumberSigns("It was -5 degrees, then -6, with 1.5 m for 10-15 days.")
        >>> dict(signs.n_by_kind), signs.has_digits_apart
        ({'minus': 2}, True)
    """

    def __init__(self, text: str) -> None:
        self._text = _with_small_digits_apart(text)
        self.n_by_kind = _count_signs(self._text)
        self.has_digits_apart = _APART.search(self._text) is not None

    def __bool__(self) -> bool:
        """Whether the text has any sign."""
        return bool(self.n_by_kind) or self.has_digits_apart

    def lack_in(self, passage: str) -> bool:
        """Whether a passage that shows the letters of the text lacks one of its signs.

        Example: "10–15 days at -5" lacks no sign of "10-15 days at -5". "1015 days at
        -5" and "10-15 days at 5" do.

        Args:
            passage: The passage as it is written.
        """
        # a line may end between "5" and "%"
        on_one_line = _with_small_digits_apart(" ".join(passage.split()))
        if self.n_by_kind - _count_signs(on_one_line):
            return True
        return self.has_digits_apart and _lacks_numbers(on_one_line, self._text)


def _with_small_digits_apart(text: str) -> str:
    """Write small digits behind a digit with a sign between them: "10²" as "10^2"."""
    if text.isascii():  # nearly always; the search takes its time
        return text
    return _SMALL_DIGITS.sub(lambda digits: f"^{normalize('NFKC', digits[0])}", text)


def _count_signs(text: str) -> Counter[str]:
    """Count the signs of a text's numbers by their kind: {"minus": 1} for "at -5"."""
    n_by_kind: Counter[str] = Counter()
    for kind, character, pattern in _SIGNS:
        if character in text:
            n_signs = len(pattern.findall(text))
            if n_signs:
                n_by_kind[kind] += n_signs
    return n_by_kind


def _lacks_numbers(passage: str, text: str) -> bool:
    """Whether a passage lacks a number of a text, however both write their numbers.

    Example: for "31,5 m and 12 400 crowns", "31.5 m and 12400 crowns" lacks none, but
    "315 m and 124,00 crowns" lacks both.
    """
    # full-width digits are digits
    text = normalize("NFKC", text)
    passage = normalize("NFKC", passage)
    # the passage may hold a list: "2,3" is one number or two
    numbers_shown = Counter(_numbers(passage)) + Counter(
        _numbers(passage.replace(",", " "))
    )
    if not Counter(_numbers(text)) - numbers_shown:
        return False
    # "5,3" of a text in CSV stands as "5 | 3" in a table
    if _IN_TABLE.search(passage):
        return bool(Counter(_numbers(text.replace(",", " "))) - numbers_shown)
    # "12 400" may be one number or two
    text = _BLANK_OF_THOUSANDS.sub("", text)
    passage = _BLANK_OF_THOUSANDS.sub("", passage)
    return bool(Counter(_numbers(text)) - Counter(_numbers(passage)))


def _numbers(text: str) -> Iterator[str]:
    """Yield the numbers of a text, each in one form of writing.

    Example: "1,234.5", "1.234,5" and "1234.5" are all "1234.5". "1,234" is "1234", and
    "31,5" is "31.5". A list without blanks, as "1874,31,5", is three numbers.
    """
    for match in _NUMBER.finditer(text):
        first, *groups = _SEPARATOR.split(match[0])
        if not groups:
            yield first
            continue
        are_thousands = first != "0" and all(
            len(group) == _SIZE_OF_GROUP for group in groups
        )
        are_thousands_but_last = all(
            len(group) == _SIZE_OF_GROUP for group in groups[:-1]
        )
        if are_thousands:
            yield "".join([first, *groups])
        elif are_thousands_but_last:
            yield "".join([first, *groups[:-1]]) + "." + groups[-1]
        elif "." not in match[0]:
            yield from [first, *groups]
        else:  # a date or a version
            yield match[0]
