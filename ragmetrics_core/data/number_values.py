"""Numbers where a value comes from outside."""

from typing import Any, TypeGuard


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number: not True or False, which Python has as ints."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def plain_data(value: Any) -> Any:
    """Arrays and scalars of numpy as lists and numbers; everything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value
