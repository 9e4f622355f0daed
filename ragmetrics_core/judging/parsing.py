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
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from ragmetrics_core.data import CutOffReply, MalformedReply
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.models.chat import Choice

T = TypeVar("T")

# The tags between which a model reasons before it replies.
_OPENING_OF_REASONING = lazy_pattern(r"\s*<think(?:ing)?>", re.IGNORECASE)
_END_OF_REASONING = lazy_pattern(r"</think(?:ing)?>", re.IGNORECASE)
# What may follow the last object: spaces, emphasis, the end of a fence, closing tags.
_CLOSING = lazy_pattern(r"(?:[\s*]|`{3,}|</[\w-]++>)*+\Z")
# The opening of a fence of code, or of a tag, right before an object.
_FENCE = lazy_pattern(r"`{3,}\w{0,20}\Z")
_TAG = lazy_pattern(r"<[\w-]{1,40}>\Z")
_LONGEST_OPENING = 80
# What may stand beside an object on its line: spaces, emphasis, a byte order mark.
_BLANK = " \t\r*\ufeff"
# An opening brace, with its closing one where nothing but plain text is between them.
# Most objects of a hostile reply are such.
_OUTERMOST = lazy_pattern(r"\{(?:[^{}\"']*+(?P<flat>\}))?")
# Opening braces in a row, a closing brace, or a quote.
_STRUCTURE = lazy_pattern(r"\{+|[}\"']")
_STRING_END = {
    '"': lazy_pattern(r'(?:[^"\\]++|\\.)*+"', re.DOTALL),
    "'": lazy_pattern(r"(?:[^'\\]++|\\.)*+'", re.DOTALL),
}
# Characters of a reply in which slips of form are corrected. No reply to our questions
# is longer, and a hostile one would take long.
_TOLERANT_LIMIT = 65_536
# what JSON does not know: other quotes and names, comments, commas before a closing
# bracket
_SLIP = lazy_pattern(
    r"(?P<string>\"(?:[^\"\\]++|\\.)*+(?:\"|\Z)|'(?:[^'\\]++|\\.)*+(?:'|\Z))"
    r"|(?<!\w)(?P<name>(?:True|False|None)\b|(?!\d)\w++(?=\s*+:))"
    r"|//[^\n]*+|/\*.*?(?:\*/|\Z)|,(?=\s*+[}\]])",
    re.DOTALL,
)
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}
_ESCAPED = lazy_pattern(r'\\(.)|"', re.DOTALL)


@dataclass(frozen=True, slots=True, repr=False)
class ReadReply(Generic[T]):
    """A reply that was read from the text of a model, and where it stands there.

    Args:
        value: The reply.
        choice: What the model wrote.
        start: Where the reply's JSON object begins in the text of the choice.
        end: Where it ends.
    """

    value: T
    choice: Choice
    start: int
    end: int


class FoundObject(NamedTuple):
    """A JSON object in a reply.

    Attributes:
        fields: Its names and values.
        start: Where it begins in the reply's text.
        end: Where it ends.
    """

    fields: dict[str, Any]
    start: int
    end: int


def find_objects(choice: Choice, names: Sequence[str]) -> Iterator[FoundObject]:
    """Yield the JSON objects of a reply that may be the verdict.

    ``names`` are the fields of a verdict. Example with "useful": ``{"useful": 1}`` is
    yielded, ``{"id": 7}`` is skipped. After the last object it is checked that the
    reply does not merely quote a verdict, as 'it shows {"useful": 1} as its form' may:
    an object must begin a line or follow a colon, and no words may follow the last.

    Raises:
        CutOffReply: If the reply ends at the token limit before an object is complete.
        MalformedReply: If there is no object, if one is incomplete or not well-formed,
            or if all may be quotations.
    """
    # only objects near the beginning are repaired: a repair of long text takes long
    reply_start = _start_of_reply(choice)
    end_of_repairs = reply_start + _TOLERANT_LIMIT
    may_all_be_quotations = True
    end_of_last: int | None = None
    for span in _spans_with_names(choice, names, reply_start):
        found = _parse_span(choice, span, end_of_repairs)
        if not span.may_be_quotation:
            may_all_be_quotations = False
        end_of_last = found.end
        yield found
    if end_of_last is None:
        _fail_without_object(choice, names)
    if may_all_be_quotations or not _CLOSING.match(choice.text, end_of_last):
        _fail(
            choice,
            "its JSON object stands among words, as a quotation does; it must begin a"
            " line and end the reply",
        )


@dataclass(frozen=True, slots=True)
class _ObjectSpan:
    """Where a JSON object stands in a reply.

    Args:
        start: Where it begins.
        end: Where it ends; None if no brace closes it.
        may_be_quotation: Whether it stands within a sentence, which may quote it.
    """

    start: int
    end: int | None
    may_be_quotation: bool


def _parse_span(choice: Choice, span: _ObjectSpan, end_of_repairs: int) -> FoundObject:
    """Parse the JSON object at a place of a reply; raise an error if it is none.

    Slips of form, such as single quotes, are repaired if it ends before
    ``end_of_repairs``.
    """
    if span.end is None:
        _fail(choice, "its JSON object is incomplete")
    fields = _parse_object(
        choice.text[span.start : span.end],
        tolerantly=span.end <= end_of_repairs,
    )
    if fields is None:
        _fail(choice, "its JSON object is not well-formed")
    return FoundObject(fields, span.start, span.end)


def _spans_with_names(
    choice: Choice, names: Sequence[str], reply_start: int
) -> Iterator[_ObjectSpan]:
    """Yield the outermost objects of a reply in whose text a name occurs.

    Example: in '{"id": 7} {"useful": 1}' with the name "useful" only the second object
    is yielded. Each comes with whether it may be a quotation: so it may in the middle of
    a sentence, 'I would not say {"useful": 1} here', and not where the reply begins.
    """
    name_search = _NameSearch(choice.text, names)
    previous_end = reply_start
    stands_as_verdict = True  # at the beginning of the reply
    for start, end in find_spans(choice.text, reply_start):
        # The text between two objects decides. Of '{…}{…}', without a text between
        # them, the second object stands as the first one does.
        if start > previous_end:
            stands_as_verdict = _stands_as_verdict(
                choice.text[previous_end:start], previous_does=stands_as_verdict
            )
        # ``end`` is None for an object that is never closed: it is the last one
        previous_end = start if end is None else end
        if name_search.is_between(start, end):
            yield _ObjectSpan(start, end, may_be_quotation=not stands_as_verdict)


class _NameSearch:
    """Searches a text for names in ascending spans, reading the text once per name."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self._text = text
        # Where each name occurs next; -1 before the first search.
        self._next_index = dict.fromkeys(names, -1)

    def is_between(self, start: int, end: int | None) -> bool:
        """Tell whether any name begins between two indices.

        ``start`` must not be lower than in the call before. ``end`` None is the text's
        end.
        """
        for name, next_index in self._next_index.items():
            if next_index < start:
                index = self._text.find(name, start)
                self._next_index[name] = len(self._text) if index < 0 else index
        if end is None:
            end = len(self._text)
        return min(self._next_index.values()) < end


def _stands_as_verdict(text_before: str, *, previous_does: bool) -> bool:
    """Tell whether an object stands where a verdict stands, and not within a sentence.

    A verdict stands at the beginning of a line or a code fence, or after a colon.

    Args:
        text_before: The text between the object before and this one, or between the
            reply's beginning and the first object.
        previous_does: Whether the object before stands so. If nothing but blanks or a
            tag is between the two, this decides.
    """
    between = text_before.rstrip(_BLANK)
    tag = _TAG.search(between[-_LONGEST_OPENING:])
    if tag is not None:
        between = between[: -len(tag[0])].rstrip(_BLANK)
    if not between:
        return previous_does
    if between[-1] in ":：\n":
        return True
    return _FENCE.search(between[-_LONGEST_OPENING:]) is not None


def _start_of_reply(choice: Choice) -> int:
    """Return where the reply itself begins: behind the model's reasoning, if any.

    Servers may have cut away the opening tag of the reasoning. Without it, a closing
    tag inside an object is a quotation.
    """
    text = choice.text
    closing_tag = _END_OF_REASONING.search(text)
    if _OPENING_OF_REASONING.match(text):
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


def _fail_without_object(choice: Choice, names: Sequence[str]) -> NoReturn:
    """Raise the error of a reply that has no object with one of these fields.

    It names the last one: a reply gives the reason first, and then the verdict.
    """
    _fail(choice, f"it holds no JSON object with the field {names[-1]!r}")


def _fail(choice: Choice, problem: str) -> NoReturn:
    """Raise the error of a reply with this problem, or of one that was cut off."""
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
    opening = _OUTERMOST.search(text, start)
    while opening is not None:
        if opening["flat"]:
            end: int | None = opening.end()
        else:
            end = _find_closing(text, opening.start())
        yield opening.start(), end
        if end is None:
            return
        opening = _OUTERMOST.search(text, end)


def _find_closing(text: str, start: int) -> int | None:
    """Find where an object ends: behind the brace that closes the one at ``start``.

    In ``{"a": {"b": "}"}} ok`` it is 17: the brace inside the string does not count.
    None for ``{"a": 1``, which is never closed.
    """
    n_open_braces = 0
    match = _STRUCTURE.search(text, start)
    while match is not None:
        mark = match[0]
        position = match.end()
        if mark == "}":
            n_open_braces -= 1
            if n_open_braces == 0:
                return position
        elif mark in _STRING_END:  # a quote, which opens a string
            end_of_string = _STRING_END[mark].match(text, position)
            if end_of_string is None:
                return None
            position = end_of_string.end()
        else:
            n_open_braces += len(mark)  # opening braces in a row are one match: "{{"
        match = _STRUCTURE.search(text, position)
    return None


def _parse_object(text: str, *, tolerantly: bool) -> dict[str, Any] | None:
    """Return an object, read strictly, else tolerantly where that is allowed.

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
    """Return an object of its pairs; ``ValueError`` if a key stands twice."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("repeated key")
    return dict(pairs)


def _refuse_infinite(number: str) -> float:
    """Return the number that a text is; ``ValueError`` for NaN and infinities."""
    value = float(number)
    if not math.isfinite(value):
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
    slip = match[0]
    if match["string"]:
        content = slip[1:-1]
        return f'"{_ESCAPED.sub(_correct_escape, content)}"'
    if slip in _CONSTANTS:
        return _CONSTANTS[slip]
    if match["name"]:
        return f'"{slip}"'
    return ""  # a comment, or a comma before a closing bracket


def _correct_escape(match: re.Match[str]) -> str:
    """Return an escape of JavaScript or Python as one of JSON.

    A bare double quote gets a backslash. An escape that JSON does not know loses its
    backslash.
    """
    escaped_character = match[1]
    if escaped_character is None:  # a bare double quote
        return '\\"'
    if escaped_character in '"\\/bfnrtu':
        return match[0]
    return escaped_character


# Strings in double or single quotes; one that is never closed runs to the end.
_STRINGS = lazy_pattern(
    r'"(?P<double>(?:[^"\\]++|\\.)*+)(?:"|\Z)'
    + "|"
    + r"'(?P<single>(?:[^'\\]++|\\.)*+)(?:'|\Z)",
    re.DOTALL,
)
_VALUE = lazy_pattern(r"\s*+:\s*+[\"']?\s*+")


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
