"""Single values of rows: what is missing, what was written as text, and what lies inside."""

from __future__ import annotations

import ast
import io
import json
import math
import tokenize
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ragmetrics_core.data.frozen import blank


def present(value: Any) -> bool:
    """False for None, NaN, NaT and texts that show nothing; an empty list is a value: nothing was retrieved.

    Example:
        >>> present(float("nan")), present(" "), present([]), present(0)
        (False, False, True, True)
    """
    value = plain_data(value)
    if isinstance(value, str):
        return not blank(value)
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # of pandas, which is not imported here
        return False
    return not (isinstance(value, float) and math.isnan(value))


def plain_data(value: Any) -> Any:
    """Arrays and scalars of numpy as lists and numbers; everything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value


def number_as_text(value: Any) -> Any:
    """A number as its text, whole ones without decimals, which data frames add beside gaps; all else as it is.

    Example:
        >>> number_as_text(1856), number_as_text(1856.0), number_as_text(0.5), number_as_text(True)
        ('1856', '1856', '0.5', True)
    """
    value = plain_data(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    return str(int(value)) if isinstance(value, int) or value.is_integer() else repr(value)


def structured(value: Any) -> Any:
    r"""Lists and objects that stand in a text become data: JSON, or Python as data frames write it.

    Example:
        >>> structured("['a', None]"), structured("['a'\n 'b']"), structured("[sic]")
        (['a', None], ['a', 'b'], '[sic]')
    """
    value = plain_data(value)
    if not (isinstance(value, str) and value.strip()[:1] in ("[", "{")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a text is no code of ours: its escapes are nobody's mistake
            return ast.literal_eval(_with_commas(value.strip()))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, tokenize.TokenError):
        return value


def _with_commas(text: str) -> str:
    """Commas between neighbouring strings: numpy writes none, and Python would join the strings."""
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER)
    ]
    parts = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        joined = before is not None and before.type == token.type == tokenize.STRING
        parts.append(f", {token.string}" if joined else token.string)
    return " ".join(parts)


def follow(value: Any, path: Sequence[str]) -> tuple[bool, Any]:
    """Follow a path through dicts, JSON strings and list indices.

    Args:
        value: Where the path starts.
        path: Keys of mappings and indices of lists.

    Returns:
        Whether something is there, and what.

    Example:
        >>> follow({"prediction": '{"contexts": ["a", "b"]}'}, ["prediction", "contexts", "1"])
        (True, 'b')
    """
    for part in path:
        value = structured(value)
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, (list, tuple)) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return False, None
    return True, value


def first(item: Any, keys: Sequence[str]) -> Any:
    """The first value that is there and not None; keys with dots are names, or else paths."""
    for key in keys:
        there, value = (True, item[key]) if isinstance(item, Mapping) and key in item else follow(item, key.split("."))
        if there and value is not None:
            return value
    return None
