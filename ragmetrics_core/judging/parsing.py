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

from ragmetrics_core.data.errors import ConflictingVerdicts, CutOffReply, MalformedReply
from ragmetrics_core.endpoints.chat import Choice

T = TypeVar("T")

_THINKING = re.compile(r"\s*<think(?:ing)?>", re.IGNORECASE)
_THOUGHT = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_STRUCTURE = re.compile(r"\{+|[}\"']")
_STRING_END = {'"': re.compile(r'(?:[^"\\]++|\\.)*+"', re.DOTALL), "'": re.compile(r"(?:[^'\\]++|\\.)*+'", re.DOTALL)}
_TOLERANT_LIMIT = 65_536  # no reply of ours is longer
_PART = re.compile(
    r"(?P<space>\s++|//[^\n]*+|/\*.*?\*/)"
    r"|(?P<string>\"(?:[^\"\\]++|\\.)*+\"|'(?:[^'\\]++|\\.)*+')"
    r"|(?P<name>(?:True|False|None|true|false|null|NaN|Infinity)\b(?!\s*+:)|[^\W\d]\w*+(?=\s*+:))"
    r"|(?P<number>-?(?:\d++(?:\.\d++)?|\.\d++)(?:[eE][-+]?\d++)?(?!\w))"
    r"|(?P<mark>[{}\[\],:])",
    re.DOTALL,
)
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}
_CONSTANTS |= {name: name for name in ("true", "false", "null", "NaN", "Infinity")}
_ESCAPED = re.compile(r'\\(.)|"', re.DOTALL)


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
    thought = _thought(choice)
    found: list[Found[T]] = []
    tolerance = _Tolerance()
    for start, end in spans(text, thought):
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


def _thought(choice: Choice) -> int:
    """Where the reply proper begins: behind a reasoning, whose opening tag servers may have cut away.

    Without the opening tag, a closing one inside an object is a quotation.
    """
    text = choice.text
    ended = _THOUGHT.search(text)
    if _THINKING.match(text):
        return ended.end() if ended else _fail(choice, "it ends within its reasoning")
    if ended is None or any(start < ended.start() < (end or len(text)) for start, end in spans(text)):
        return 0
    return ended.end()


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
        if mark[0] == "{":
            opened = opened if depth else match.start()
            depth += len(mark)
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
        self._budget = _TOLERANT_LIMIT

    def parse(self, text: str) -> dict[str, Any] | None:
        """Parse one object; None if it is not well-formed."""
        try:
            value = _strictly(text)
        except _NotJsonError:
            return None
        except (ValueError, RecursionError):
            value = self._tolerantly(text)
        return value if isinstance(value, dict) else None

    def _tolerantly(self, text: str) -> object:
        self._budget -= len(text)
        if self._budget < 0:
            return None
        try:
            return _strictly(_corrected(text))
        except (ValueError, RecursionError):
            return None


class _NotJsonError(ValueError):
    """A repeated key or a number that JSON does not have: no parser may accept it."""


def _strictly(text: str) -> object:
    return json.loads(text, strict=False, object_pairs_hook=_distinct, parse_constant=_no_number, parse_float=_finite)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise _NotJsonError("repeated key")
    return dict(pairs)


def _no_number(name: str) -> NoReturn:
    raise _NotJsonError(name)


def _finite(number: str) -> float:
    value = float(number)
    return value if math.isfinite(value) else _no_number(number)


def _corrected(text: str) -> str:
    """The text as JSON: names and strings in double quotes, no comments, no commas before a closing bracket.

    Raises:
        ValueError: If there is something that is no part of JSON, and no such slip either.
    """
    parts: list[str] = []
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            raise _NotJsonError("no part of JSON")
        position = match.end()
        part = match[0]
        if match.lastgroup == "space":
            continue
        if match.lastgroup == "string":
            part = f'"{_ESCAPED.sub(_escape, part[1:-1])}"'
        elif match.lastgroup == "name":
            part = _CONSTANTS.get(part) or f'"{part}"'
        elif match.lastgroup == "number":
            part = f"0{part}" if part.startswith(".") else part
        elif part in "]}" and parts[-1:] == [","]:
            parts.pop()
        parts.append(part)
    return "".join(parts)


def _escape(match: re.Match[str]) -> str:
    """A double quote gets its backslash, one that JSON does not know loses it."""
    if match[1] is None:
        return '\\"'
    return match[0] if match[1] in '"\\/bfnrtu' else match[1]


_STRINGS = re.compile(  # one that is never closed runs to the end
    r'"(?P<double>(?:[^"\\]++|\\.)*+)(?:"|\Z)' + "|" + r"'(?P<single>(?:[^'\\]++|\\.)*+)(?:'|\Z)", re.DOTALL
)
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
