"""Finds the JSON object in a judge's reply. It tolerates slips of form, may fail, and never guesses.

Prose and code fences around the object, trailing commas, single quotes and unquoted names are tolerated.
Truncated objects, repeated keys, NaN and infinities are not. Several objects that hold the field asked for
must agree.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

import json5

from ragmetrics_core.data.errors import ConflictingVerdicts, CutOffReply, MalformedReply
from ragmetrics_core.endpoints.chat import Choice

T = TypeVar("T")

_THINKING = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_UNFINISHED_THINKING = re.compile(r"\s*<think(?:ing)?>", re.IGNORECASE)
_STRUCTURE = re.compile(r"[{}\"']")
_STRING_END = {'"': re.compile(r'(?:[^"\\]++|\\.)*+"', re.DOTALL), "'": re.compile(r"(?:[^'\\]++|\\.)*+'", re.DOTALL)}
# json5 is written in Python: 64 KB take a quarter of a second. No reply of ours is longer.
_JSON5_LIMIT = 65_536


@dataclass(frozen=True, slots=True, repr=False)
class Found(Generic[T]):
    """The verdict of a reply.

    Args:
        value: The verdict.
        start: Where the object that holds it begins in the reply's text.
        end: Where it ends.
    """

    value: T
    start: int
    end: int


def read(
    choice: Choice, field: str, parse: Callable[[dict[str, Any]], T], essence: Callable[[T], object] = lambda it: it
) -> Found[T]:
    """Read the verdict from a reply.

    Args:
        choice: The reply.
        field: Name of the field that holds the verdict.
        parse: Makes the verdict of an object that has the field; raises ``MalformedReply``.
        essence: What of two verdicts must be equal for them to agree.

    Returns:
        The verdict and where it was found.

    Raises:
        CutOffReply: If the reply ends at the token limit before the verdict is complete.
        MalformedReply: If there is no object with the field, or the object is not well-formed.
        ConflictingVerdicts: If several objects hold different verdicts.
    """
    text = choice.text
    thinking = _THINKING.match(text)
    if thinking is None and _UNFINISHED_THINKING.match(text):
        _fail(choice, "it ends within its reasoning")
    found: list[Found[T]] = []
    tolerance = _Tolerance()
    for start, end in spans(text, thinking.end() if thinking else 0):
        if text.find(field, start, len(text) if end is None else end) < 0:
            continue
        if end is None:
            _fail(choice, "its JSON object is incomplete")
        value = tolerance.parse(text[start:end])
        if value is None:
            _fail(choice, "its JSON object is not well-formed")
        if field in value:
            found.append(_parsed(choice, value, parse, start, end))
    if not found:
        _fail(choice, f"it holds no JSON object with the field {field!r}")
    if any(essence(other.value) != essence(found[0].value) for other in found):
        raise ConflictingVerdicts("it holds several verdicts that contradict each other", raw=text)
    return found[0]


def _parsed(
    choice: Choice, value: dict[str, Any], parse: Callable[[dict[str, Any]], T], start: int, end: int
) -> Found[T]:
    try:
        return Found(parse(value), start, end)
    except MalformedReply as error:
        raise MalformedReply(str(error), raw=choice.text) from None


def _fail(choice: Choice, problem: str) -> NoReturn:
    if choice.finish == "length":
        raise CutOffReply("the reply ended at the token limit, before the verdict was complete", raw=choice.text)
    raise MalformedReply(problem, raw=choice.text)


def spans(text: str, start: int = 0) -> Iterator[tuple[int, int | None]]:
    """Yield where the outermost ``{...}`` of a text begin and end; an end of None: it is never closed."""
    depth, opened, position = 0, 0, start
    while (match := _STRUCTURE.search(text, position)) is not None:
        mark, position = match[0], match.end()
        if mark == "{":
            opened = opened if depth else match.start()
            depth += 1
        elif mark == "}" and depth:
            depth -= 1
            if not depth:
                yield opened, position
        elif mark in _STRING_END and depth:
            string = _STRING_END[mark].match(text, position)
            if string is None:
                break
            position = string.end()
    if depth:
        yield opened, None


class _Tolerance:
    """Parses the objects of one reply strictly, then tolerantly as long as the reply's budget lasts."""

    def __init__(self) -> None:
        self._budget = _JSON5_LIMIT

    def parse(self, text: str) -> dict[str, Any] | None:
        """Parse one object; None if it is not well-formed."""
        try:
            value = json.loads(text, strict=False, object_pairs_hook=_distinct, parse_constant=_no_constant)
        except _NotJsonError:
            return None
        except (ValueError, RecursionError):
            value = self._tolerant(text)
        return value if isinstance(value, dict) and _finite(value) else None

    def _tolerant(self, text: str) -> object:
        self._budget -= len(text)
        if self._budget < 0:
            return None
        try:
            return json5.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            return None


class _NotJsonError(ValueError):
    """A repeated key or a constant that JSON does not have: no parser may accept it."""


def _distinct(pairs: Any) -> dict[str, Any]:
    items = list(pairs)
    if len(dict(items)) < len(items):
        raise _NotJsonError("repeated key")
    return dict(items)


def _no_constant(name: str) -> NoReturn:
    raise _NotJsonError(name)


def _finite(value: object) -> bool:
    """False if a number in it overflowed to infinity."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    return all(map(_finite, value)) if isinstance(value, list) else True


_STRINGS = re.compile(r'"(?P<double>(?:[^"\\]++|\\.)*+)"' + "|" + r"'(?P<single>(?:[^'\\]++|\\.)*+)'", re.DOTALL)
_VALUE = re.compile(r"\s*+:\s*+[\"']?\s*+")


def value_offsets(text: str, field: str, start: int, end: int) -> tuple[int, ...]:
    """Where the values of all fields of this name begin, quotes and spaces skipped.

    Args:
        text: A reply.
        field: The field's name.
        start: Where the object begins.
        end: Where it ends.

    Returns:
        Offsets into the text, in order. Names inside strings do not count; neither do unquoted names.
    """
    offsets = []
    for key in _STRINGS.finditer(text, start, end):
        if field in (key["double"], key["single"]) and (value := _VALUE.match(text, key.end(), end)):
            offsets.append(value.end())
    return tuple(offsets)
