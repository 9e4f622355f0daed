"""Values as they come from outside: which are missing, and what is a number or a share.

A probability or a share above one half is a yes, everywhere. Of a share there are
Wilson's score interval, and an unbiased estimate for counting that stopped early.
"""

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from math import sqrt
from numbers import Real
from statistics import NormalDist
from typing import Any, TypeGuard
from unicodedata import category, normalize


class FormattedNumber(float):
    """A number that its table shows in a format of its own, as 0.5 is shown as 0.5 kg."""


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number: not True or False, which Python has as ints."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def plain_data(value: Any) -> Any:
    """Arrays and scalars of numpy as lists and numbers; everything else as it is.

    A number of single precision is the one that it is written as: 0.1, not
    0.10000000149011612.
    """
    if not hasattr(value, "tolist"):
        return value
    is_scalar = isinstance(value, Real) and not isinstance(value, float)
    data = value.tolist()
    return float(str(value)) if is_scalar and isinstance(data, float) else data


def number_as_text(value: Any) -> Any:
    """Return a number as its text, and every other value as it is.

    A whole number has no decimals. Data frames add them to a column with gaps.
    """
    number = plain_data(value)
    if isinstance(number, Decimal):  # of databases and Parquet
        return str(number)
    if not is_number(number):
        return number
    is_whole = isinstance(number, int) or number.is_integer()
    return str(int(number)) if is_whole else repr(number)


# What programs write for nothing: Python, numpy, pandas, R and databases. People write
# other words, and write these otherwise: a name is "Nan", and "Null" is German.
_MARKS_OF_NOTHING = {"None", "nan", "NaN", "NaT", "NULL", "null", "<NA>", "\\N"}
_MARKS_OF_NOTHING |= {"NA", "N/A", "n/a"}
_MARKS_OF_NOTHING |= {"[NULL]", "(null)", "<null>", "<nil>"}  # of DBeaver, Oracle, Go
# Excel's (ECMA-376, part 1, 18.18.11) and other sheets', in any language: "#REF!", "#NOM?"
_ERROR_OF_A_SHEET = re.compile(r"#(?:N/[AD]|NV|¡?[A-ZÀ-Þ]+(?:/0)?[!?])")

_PROSE = re.compile(
    r"\S\s+\S+\s+\S|[\u3040-\u9fff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]{6}"
)


def is_present(value: Any) -> bool:
    """False for None, NaN, pandas' NA and NaT, and texts that show nothing.

    What programs write for nothing, such as "NULL", shows nothing either. True for an
    empty list: it says that nothing was retrieved.
    """
    value = plain_data(value)
    if isinstance(value, str):
        return not is_blank(value) and not _is_mark(value.strip())
    # pandas is not imported here, so its types are known by their names
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return False
    is_nan = isinstance(value, float) and math.isnan(value)
    return not is_nan


def is_blank(text: str) -> bool:
    """Return True for a text that shows nothing.

    Such a text is empty, white space, or signs without a shape, such as a byte order
    mark.
    """
    return all(
        character.isspace() or category(character) in ("Cf", "Cc") for character in text
    )


def is_prose(text: str) -> bool:
    """Return True for a text of three words, or of a script without blanks between them.

    Such are those of East Asia, Thai, Lao, Burmese and Khmer.
    """
    return _PROSE.search(text) is not None


def composed_text(text: str) -> str:
    """Return an id or a text as it is compared: letters composed, single blanks.

    One program writes é as one sign, another as two.
    """
    return " ".join(normalize("NFC", text).split())


def is_placeholder(text: str) -> bool:
    """Tell whether a text stands for none: it has only blanks, dashes and dots.

    Other signs may be what was asked for: "#" begins a comment.
    """
    return all(
        sign in ".…" or category(sign) == "Pd" or is_blank(sign) for sign in text
    )


def is_word_for_nothing(text: str) -> bool:
    """Tell whether a text is a word such as ``None``, perhaps in brackets."""
    word = text.strip()
    # "[nan]", which is no valid JSON
    if word[:1] + word[-1:] in ("[]", "{}"):
        word = word[1:-1].strip()
    return _is_mark(word) or word.casefold() in ("none", "na", "n/a")


def _is_mark(word: str) -> bool:
    return word in _MARKS_OF_NOTHING or bool(_ERROR_OF_A_SHEET.fullmatch(word))


ROUNDING = 1e-9
"""Means such as (0.6 + 1 + 0.8) / 3 miss 0.8 by rounding alone."""

ONE_HALF = 0.5
"""The highest probability or share that is a no."""


def is_yes(p: float) -> bool:
    """Tell whether a probability, or a share of polls, is a yes: one half is a no.

    Args:
        p: From 0 to 1.

    Returns:
        True above .5.
    """
    return p > ONE_HALF


def wilson(successes: float, count: int) -> tuple[float, float]:
    """Return a 95 % confidence interval for a share of successes, Wilson's.

    Args:
        successes: Number of successes, 0 … count.
        count: Number of trials, > 0.

    Returns:
        Lower and upper bound in [0, 1].

    Source:
        Wilson (1927), JASA 22(158), 209–212.

    Examples:
        >>> low, high = wilson(5, 5)
        >>> round(low, 3), high
        (0.566, 1.0)
    """
    if count <= 0:
        raise ValueError(f"a share needs at least one trial, got {count}")
    z = NormalDist().inv_cdf(0.975)
    z_squared = z * z
    share = successes / count
    variance = share * (1 - share) / count
    centre = share + z_squared / (2 * count)
    half_width = z * sqrt(variance + z_squared / (4 * count * count))
    divisor = 1 + z_squared / count
    low = max(0.0, (centre - half_width) / divisor)
    high = min(1.0, (centre + half_width) / divisor)
    # Rounding must not leave a sliver beside a share of 0 or 1.
    if successes == 0:
        low = 0.0
    if successes == count:
        high = 1.0
    return low, high


def stopped_estimate(verdicts: Sequence[bool], polls: int) -> float:
    """Return an unbiased estimate of p(yes) for polling that stopped early.

    Polling stops at a decided majority of an odd number of polls.

    Args:
        verdicts: The verdicts in order, up to the one that decided.
        polls: Number of polls that were planned, n >= 3.

    Returns:
        In [0, 1]: (a-1)/(k-1) if the a-th yes came at poll k, y/(k-1) if the b-th no
        did; yes / answered if nothing was decided.

    Source:
        Girshick, Mosteller & Savage (1946), Annals of Mathematical Statistics 17(1).

    Examples:
        >>> stopped_estimate([True, False, True, True], 5)
        0.6666666666666666
    """
    n_yes = sum(verdicts)
    n_polls = len(verdicts)
    n_no = n_polls - n_yes
    yes_decides_from = polls // 2 + 1
    no_decides_from = (polls + 1) // 2
    if n_yes >= yes_decides_from:
        return (n_yes - 1) / (n_polls - 1)
    if n_no >= no_decides_from:
        return n_yes / (n_polls - 1)
    return n_yes / n_polls
