"""Signs that letters and digits do not tell: "-5" is not "5", nor "a == b" "a != b". Pure.

Prompt and text are compared by their letters and digits, so a sign that a cleaner took
away leaves no trace there. The signs of numbers and of comparisons are therefore
counted, as they are written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from unicodedata import normalize

from ragmetrics_core.data.lazy_patterns import lazy_pattern

# what divides the digits of a number, as in "1.234,56", and how it is written here
_SEPARATORS = ".,'’"
_AS_POINTS = str.maketrans(dict.fromkeys(_SEPARATORS, "."))
_NUMBER = lazy_pattern(r"\d+(?:\.\d+)*")
# in "12 400" and "1.234,56", but not in "0.125" and "1874 315"
_BEFORE_THOUSANDS = lazy_pattern(
    rf"(?<=\d)(?<!\b0)(?<!\d\d\d\d)[{_SEPARATORS} \xa0\u202f](?=\d{{3}}(?!\d))"
)
_DIGITS = lazy_pattern(r"\d+")
# digits that stand apart: "31,5", "10-15", "10 ^ 6"
_APART = lazy_pattern(r"\d[^\w]{1,3}\d")
_IN_TABLE = lazy_pattern(r"\d\s*[;|]")  # a number in a cell
# digits that stand raised, lowered, as a fraction or in a circle behind a digit: "10²"
_SMALL_DIGITS = lazy_pattern(
    r"(?<=\d)[²³¹¼½¾\u2070-\u2079\u2080-\u2089\u2150-\u215f\u2189\u2460-\u249b]+"
)

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
    "minus": ("-−–", r"""(?<![^\s(\[=:;,"'*_|].)\d"""),
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


def _patterns() -> Iterator[tuple[str, str, re.Pattern[str]]]:
    """Yield for each sign its kind, the sign, and the pattern that begins with it."""
    for kind, (signs, beside) in _SIGNS_AND_BESIDE.items():
        for sign in signs:
            yield kind, sign, lazy_pattern(re.escape(sign) + beside)


_PATTERNS = tuple(_patterns())


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
    for kind, sign, pattern in _PATTERNS:
        if sign in text:  # fast, and so is a pattern that begins with one character
            n_by_kind[kind] += len(pattern.findall(text))
    return +n_by_kind  # without kinds of which there are none


def _lacks_numbers(passage: str, text: str) -> bool:
    """Whether a passage lacks a number of a text, however both write their numbers.

    Example: for "31,5 m and 12 400 crowns", "31.5 m and 12400 crowns" lacks none, but
    "315 m and 124,00 crowns" lacks both.
    """
    # full-width digits are digits
    text = normalize("NFKC", text)
    passage = normalize("NFKC", passage)
    # the passage may hold a list: "2,3" is one number or two
    digits_of_passage: list[str] = _DIGITS.findall(passage)
    digits_of_text: list[str] = _DIGITS.findall(text)
    numbers_shown = _count_numbers(passage) | Counter(digits_of_passage)
    if numbers_shown >= _count_numbers(text):
        return False
    # "5,3" of a text in CSV stands as "5 | 3" in a table
    is_in_table = _IN_TABLE.search(passage) is not None
    return not is_in_table or not numbers_shown >= Counter(digits_of_text)


def _count_numbers(text: str) -> Counter[str]:
    """Count the numbers of a text, each in one form of writing.

    Example: "1,234.5", "1.234,5" and "1 234.5" are all "1234.5". "31,5" is "31.5".
    """
    numbers: list[str] = _NUMBER.findall(
        _BEFORE_THOUSANDS.sub("", text).translate(_AS_POINTS)
    )
    return Counter(numbers)
