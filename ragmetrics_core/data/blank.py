"""What counts as nothing where a value comes from outside."""

import math
from typing import Any
from unicodedata import category

from ragmetrics_core.data.number_values import plain_data

# What tables write for nothing: numpy, pandas, databases, Excel.
_WORDS_FOR_NOTHING = ("nan", "none", "null", "na", "n/a", "#n/a", "<na>", "\\n", "nat")


def is_present(value: Any) -> bool:
    """False for None, NaN, pandas' NA and NaT, and texts that show nothing.

    True for an empty list: it says that nothing was retrieved.
    """
    value = plain_data(value)
    if isinstance(value, str):
        return not is_blank(value)
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
    for character in text:
        has_no_shape = category(character) in ("Cf", "Cc")
        if not character.isspace() and not has_no_shape:
            return False
    return True


def is_word_for_nothing(text: str) -> bool:
    """Tell whether a text is a word such as ``None``, perhaps in brackets."""
    word = text.strip()
    # "[nan]", which is no valid JSON
    if word[:1] + word[-1:] in ("[]", "{}"):
        word = word[1:-1].strip()
    return word.casefold() in _WORDS_FOR_NOTHING
