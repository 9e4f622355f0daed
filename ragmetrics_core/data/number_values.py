"""What counts as a number where a value comes from outside."""

from typing import TypeGuard


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number. True and False are none, though Python has them as ints."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
