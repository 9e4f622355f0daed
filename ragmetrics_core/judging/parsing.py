"""Finds the JSON objects in a judge's reply.

It tolerates slips of form, may fail, and never guesses.

Prose before the object, code fences around it, trailing commas, single quotes and
unquoted names are tolerated. Truncated objects, repeated keys, NaN and infinities are
not; nor is an object that may be quoted, because it stands within a sentence or words
follow it.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from ragmetrics_core.data import CutOffReply, MalformedReply
from ragmetrics_core.models.chat import Choice

T = TypeVar("T")

_THINKING = re.compile(r"\s*<think(?:ing)?>", re.IGNORECASE)
_THOUGHT = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_CLOSING = re.compile(r"(?:[\s*]|`{3,}|</[\w-]++>)*+\Z")
_FENCE = re.compile(r"`{3,}\w{0,20}\Z")
_TAG = re.compile(r"<[\w-]{1,40}>\Z")
_UNSEEN = " \t\r*\ufeff"  # emphasis with it
_LONGEST_OPENING = 80
# most objects of a hostile reply hold nothing
_OUTERMOST = re.compile(r"\{(?:[^{}\"']*+(?P<flat>\}))?")
_STRUCTURE = re.compile(r"\{+|[}\"']")
_STRING_END = {
    '"': re.compile(r'(?:[^"\\]++|\\.)*+"', re.DOTALL),
    "'": re.compile(r"(?:[^'\\]++|\\.)*+'", re.DOTALL),
}
_TOLERANT_LIMIT = 65_536  # no reply of ours is longer
# what JSON does not know: other quotes and names, comments, commas before a closing
# bracket
_SLIP = re.compile(
    r"(?P<string>\"(?:[^\"\\]++|\\.)*+(?:\"|\Z)|'(?:[^'\\]++|\\.)*+(?:'|\Z))"
    r"|(?<!\w)(?P<name>(?:True|False|None)\b|(?!\d)\w++(?=\s*+:))"
    r"|//[^\n]*+|/\*.*?(?:\*/|\Z)|,(?=\s*+[}\]])",
    re.DOTALL,
)
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}
_ESCAPED = re.compile(r'\\(.)|"', re.DOTALL)


@dataclass(frozen=True, slots=True, repr=False)
class Found(Generic[T]):
    """A reply that was read, and where it stands.

    Its object begins and ends at these places in the text of the choice.
    """

    value: T
    choice: Choice
    start: int
    end: int


def find_objects(
    choice: Choice, names: Sequence[str]
) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Yield the objects of a reply that may be meant.

    They are those in whose text one of these names of fields occurs. Each comes with
    where it begins in the reply's text, and where it ends.

    Raises:
        CutOffReply: If the reply ends at the token limit before an object is complete,
            or without any.
        MalformedReply: If an object is not complete or not well-formed, or may be
            quoted: none of them begins the reply, a line or a fence or stands after a
            colon, or words follow the last.
    """
    text = choice.text
    reply_start = _end_of_reasoning(choice)
    tolerated_end = reply_start + _TOLERANT_LIMIT
    name_search = _NameSearch(text, names)
    before = reply_start  # where the object before ends, or the reply begins
    stands_free = True  # begins the reply, a line or a fence, as a quotation does not
    any_stands_free = False
    last_end = None
    for start, end in find_spans(text, reply_start):
        if start > before:  # else it directly follows the object before, and is as free
            stands_free = _begins_where_objects_may(text, before, start, stands_free)
        before = start if end is None else end
        if not name_search.is_between(start, end):
            continue
        if end is None:
            _fail(choice, "its JSON object is incomplete")
        value = _parse_object(text[start:end], tolerantly=end <= tolerated_end)
        if value is None:
            _fail(choice, "its JSON object is not well-formed")
        any_stands_free = any_stands_free or stands_free
        last_end = end
        yield value, start, end
    if last_end is None:
        _fail(choice, f"it holds no JSON object with the field {names[-1]!r}")
    if not any_stands_free or not _CLOSING.match(text, last_end):
        _fail(
            choice,
            "its JSON object stands among words, as a quotation does; it must begin a"
            " line and end the reply",
        )


class _NameSearch:
    """Looks for names in a text from place to place, so that each is read once only."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self._text = text
        self._next_place = dict.fromkeys(names, -1)

    def is_between(self, start: int, end: int | None) -> bool:
        """Whether any name begins between two places; ``start`` never goes back."""
        for name, place in self._next_place.items():
            if place < start:
                found_at = self._text.find(name, start)
                is_absent = found_at < 0
                self._next_place[name] = len(self._text) if is_absent else found_at
        if end is None:
            end = len(self._text)
        return min(self._next_place.values()) < end


def _begins_where_objects_may(text: str, behind: int, start: int, before: bool) -> bool:
    """Whether an object begins the reply, a line or a fence, or follows a colon.

    The object begins at ``start``; the one before it ends, or the reply begins, at
    ``behind``. An object that directly follows another one takes ``before``, which is
    what was said of that one.
    """
    between = text[behind:start].rstrip(_UNSEEN)
    if tag := _TAG.search(between[-_LONGEST_OPENING:]):
        between = between[: -len(tag[0])].rstrip(_UNSEEN)
    if not between:
        return before
    return (
        between[-1] in ":：\n" or _FENCE.search(between[-_LONGEST_OPENING:]) is not None
    )


def _end_of_reasoning(choice: Choice) -> int:
    """Return where the reply proper begins: behind a reasoning.

    Servers may have cut away the opening tag of the reasoning. Without it, a closing
    tag inside an object is a quotation.
    """
    text = choice.text
    closing_tag = _THOUGHT.search(text)
    if _THINKING.match(text):
        if closing_tag is None:
            _fail(choice, "it ends within its reasoning")
        return closing_tag.end()
    if closing_tag is None:
        return 0
    is_quoted = any(
        start < closing_tag.start() < (end or len(text))
        for start, end in find_spans(text)
    )
    return 0 if is_quoted else closing_tag.end()


def _fail(choice: Choice, problem: str) -> NoReturn:
    if choice.finish == "length":
        raise CutOffReply(
            "the reply ended at the token limit, before the verdict was complete",
            raw=choice.text,
        )
    raise MalformedReply(problem, raw=choice.text)


def find_spans(text: str, start: int = 0) -> Iterator[tuple[int, int | None]]:
    """Yield where the outermost ``{...}`` of a text begin and end.

    The end is None for one that is never closed.
    """
    position = start
    while (opening := _OUTERMOST.search(text, position)) is not None:
        position = opening.end()
        if not opening["flat"]:
            closed = _find_closing(text, opening.start())
            if closed is None:
                yield opening.start(), None
                return
            position = closed
        yield opening.start(), position


def _find_closing(text: str, start: int) -> int | None:
    """Where the ``{...}`` ends that begins here; None if it is never closed."""
    depth, position = 0, start
    while (match := _STRUCTURE.search(text, position)) is not None:
        mark, position = match[0], match.end()
        if mark == "}":
            depth -= 1
            if not depth:
                return position
        elif mark[0] == "{":
            depth += len(mark)
        else:
            string = _STRING_END[mark].match(text, position)
            if string is None:
                return None
            position = string.end()
    return None


def _parse_object(text: str, *, tolerantly: bool) -> dict[str, Any] | None:
    """An object, read strictly, else tolerantly where that is allowed.

    None if it is not well-formed.
    """
    try:
        value: dict[str, Any] = _DECODER.decode(text)
    except (ValueError, RecursionError):
        if not tolerantly:
            return None
        return _parse_object(_SLIP.sub(_correct_slip, text), tolerantly=False)
    return value


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("repeated key")
    return dict(pairs)


def _refuse_infinite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise ValueError("no number of JSON")
    return value


_DECODER = json.JSONDecoder(
    strict=False,
    object_pairs_hook=_refuse_repeated_keys,
    parse_constant=_refuse_infinite,
    parse_float=_refuse_infinite,
)


def _correct_slip(match: re.Match[str]) -> str:
    """Return a slip of form as JSON.

    Names and strings get double quotes. Comments, and commas before a closing bracket,
    are left out.
    """
    if match["string"]:
        return f'"{_ESCAPED.sub(_correct_escape, match[0][1:-1])}"'
    if match[0] in _CONSTANTS:
        return _CONSTANTS[match[0]]
    return f'"{match[0]}"' if match["name"] else ""


def _correct_escape(match: re.Match[str]) -> str:
    """A double quote gets its backslash, one that JSON does not know loses it."""
    if match[1] is None:
        return '\\"'
    return match[0] if match[1] in '"\\/bfnrtu' else match[1]


_STRINGS = re.compile(  # one that is never closed runs to the end
    r'"(?P<double>(?:[^"\\]++|\\.)*+)(?:"|\Z)'
    + "|"
    + r"'(?P<single>(?:[^'\\]++|\\.)*+)(?:'|\Z)",
    re.DOTALL,
)
_VALUE = re.compile(r"\s*+:\s*+[\"']?\s*+")


def value_offsets(text: str, field: str, start: int, end: int) -> tuple[int, ...]:
    """Return where the values of all fields of one name begin in an object.

    Quotes and spaces before a value are skipped. Names inside strings do not count;
    neither do unquoted names.

    Returns:
        Offsets into the text, in order.
    """
    offsets = []
    for key in _STRINGS.finditer(text, start, end):
        if field not in (key["double"], key["single"]):
            continue
        value = _VALUE.match(text, key.end(), end)
        if value is not None:
            offsets.append(value.end())
    return tuple(offsets)
