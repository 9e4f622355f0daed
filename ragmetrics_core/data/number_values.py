"""Numbers where a value comes from outside."""

from typing import Any, TypeGuard


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number: not True or False, which Python has as ints."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def plain_data(value: Any) -> Any:
    """Arrays and scalars of numpy as lists and numbers; everything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value


def number_as_text(value: Any) -> Any:
    """Return a number as its text, and every other value as it is.

    A whole number has no decimals. Data frames add them to a column with gaps.
    """
    number = plain_data(value)
    if not is_number(number):
        return number
    is_whole = isinstance(number, int) or number.is_integer()
    return str(int(number)) if is_whole else repr(number)
