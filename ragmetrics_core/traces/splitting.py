"""The parts of a value of JSON that is too long to be read whole: where each element of its list begins and ends."""

import json
import re
from collections.abc import Iterator
from io import BufferedReader

_CHUNK = 2**20
_OUTSIDE, _INSIDE = re.compile(rb'["\[\]{},]'), re.compile(rb'["\\]')  # of a text
_LISTED = re.compile(
    rb'\s*(?:\[|\{\s*"(?:data|observations|resourceSpans|resourceLogs)"\s*:\s*\[)'
)
_HOLDING_SPANS = frozenset(
    {"data", "observations", "resourceSpans", "resourceLogs", "scopeSpans", "scopeLogs"}
)
_LONGEST_REST = 2**16  # of an object, behind its list


def elements(
    file: BufferedReader, offset: int, length: int, *, most: int
) -> list[tuple[int, int]] | None:
    """Offset and length of each element of the list that a value is, or that its first field holds.

    None if it is no such value, has more than ``most`` elements, is not complete, or
    has further fields that may hold spans: it can only be read whole.
    """
    file.seek(offset)
    opening = _LISTED.match(file.read(min(length, 256)))
    if opening is None:
        return None
    end = offset + length
    places: list[tuple[int, int]] = []
    begin = offset + opening.end()
    for position, is_last in _boundaries(file, begin, end):
        places.append((begin, position - begin))
        begin = position + 1
        if len(places) > most:
            return None
        if is_last:
            return places if _holds_no_spans(file, opening[0], begin, end) else None
    return None


def _boundaries(
    file: BufferedReader, start: int, end: int
) -> Iterator[tuple[int, bool]]:
    """Where the elements of a list end, whose opening bracket is behind.

    And whether it is the last one.
    """
    depth, in_text, position = 1, False, start
    escaped = False  # the next byte belongs to a backslash
    while position < end:
        file.seek(position)
        chunk = file.read(min(_CHUNK, end - position))
        if not chunk:
            return
        at = 1 if escaped else 0
        escaped = False
        while (
            mark := (_INSIDE if in_text else _OUTSIDE).search(chunk, at)
        ) is not None:
            at = mark.end()
            if mark[0] == b"\\":
                at += 1
                escaped = at > len(chunk)
            elif mark[0] == b'"':
                in_text = not in_text
            elif mark[0] == b",":
                if depth == 1:
                    yield position + mark.start(), False
            elif mark[0] in b"[{":
                depth += 1
            else:
                depth -= 1
                if depth == 0:
                    yield position + mark.start(), True
                    return
        position += len(chunk)


def _holds_no_spans(file: BufferedReader, opening: bytes, begin: int, end: int) -> bool:
    """True if what stands behind the list ends the value, and holds no further spans."""
    if end - begin > _LONGEST_REST:
        return False
    file.seek(begin)
    rest = file.read(end - begin).strip()
    if opening.strip() == b"[":
        return not rest
    try:
        return _HOLDING_SPANS.isdisjoint(json.loads(b"{" + rest.removeprefix(b",")))
    except (ValueError, RecursionError):
        return False
