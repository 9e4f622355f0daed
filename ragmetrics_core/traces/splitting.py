"""Where the elements of a list stand in JSON that is too long to be read whole."""

import json
from collections.abc import Iterator
from io import BufferedReader

from ragmetrics_core.data.lazy_patterns import lazy_pattern

_CHUNK = 2**20
# what counts outside of a text, and inside of one
_OUTSIDE = lazy_pattern(rb'["\[\]{},]')
_INSIDE = lazy_pattern(rb'["\\]')
_LISTED = lazy_pattern(
    rb'\s*(?:\[|\{\s*"(?:data|observations|resourceSpans|resourceLogs)"\s*:\s*\[)'
)
_HOLDING_SPANS = frozenset(
    {"data", "observations", "resourceSpans", "resourceLogs", "scopeSpans", "scopeLogs"}
)
_LONGEST_REST = 2**16  # of an object, behind its list


def elements(
    file: BufferedReader, offset: int, length: int, *, most: int
) -> list[tuple[int, int]] | None:
    """Find where the elements of a list of spans stand in JSON too long to be read.

    The JSON value is the list itself, or an object whose first field holds the list.
    Example: ``[{"a": 1}, {"b": 2}]`` gives (1, 8) and (10, 9), for each element its
    offset and its length with the blanks around it.

    Args:
        file: The file that holds the value.
        offset: Where the value begins.
        length: How many bytes it has.
        most: How many elements may be noted, as their number takes memory.

    Returns:
        Offset and length of each element. None if the value can only be read whole:
        it begins otherwise, has too many elements, or has spans behind the list.
    """
    file.seek(offset)
    n_bytes_of_opening = min(length, 256)
    # ``[`` of a list, or ``{"data": [`` of an object
    opening = _LISTED.match(file.read(n_bytes_of_opening))
    if opening is None:
        return None
    is_in_object = opening[0].strip() != b"["
    end = offset + length
    places: list[tuple[int, int]] = []
    start = offset + opening.end()  # of the next element
    for position, is_last in _boundaries(file, start, end):
        places.append((start, position - start))
        start = position + 1
        if len(places) > most:
            return None
        if is_last:
            # an object may have fields behind its list: ``], "resourceLogs": […]}``
            has_no_further_spans = _ends_without_spans(file, start, end, is_in_object)
            return places if has_no_further_spans else None
    return None


def _boundaries(
    file: BufferedReader, start: int, end: int
) -> Iterator[tuple[int, bool]]:
    """Yield the end of each element of a list, and whether the element is the last one.

    An element ends at a comma, the last one at the closing bracket.

    Args:
        file: The file.
        start: Where the first element begins, behind the opening bracket.
        end: Where the value ends.
    """
    depth = 1
    for position, mark in _marks_outside_texts(file, start, end):
        if mark in (b"[", b"{"):
            depth += 1
        elif mark == b",":
            if depth == 1:
                yield position, False
        else:
            depth -= 1
            if depth == 0:
                yield position, True
                return


def _marks_outside_texts(
    file: BufferedReader, start: int, end: int
) -> Iterator[tuple[int, bytes]]:
    """Yield the commas and brackets of JSON that stand outside of texts.

    Example: of ``["a,b", 1]`` the bracket at 0, the comma at 6 and the bracket at 9.
    The comma within "a,b" stands in a text.

    The file is read in chunks. Whether a text has begun is remembered from one chunk to
    the next, and so is a backslash at the end of a chunk.

    Args:
        file: The file.
        start: Where to begin; no text may have begun there.
        end: Where to stop.

    Yields:
        The position of each, and the byte itself.
    """
    in_text = False
    is_escaped = False  # the chunk before ended with a backslash
    position = start
    while position < end:
        file.seek(position)
        chunk = file.read(min(_CHUNK, end - position))
        if not chunk:
            return
        searched_from = 1 if is_escaped else 0  # an escaped first byte is passed over
        is_escaped = False
        while True:
            pattern = _INSIDE if in_text else _OUTSIDE
            mark = pattern.search(chunk, searched_from)
            if mark is None:
                break
            searched_from = mark.end()
            if mark[0] == b"\\":
                searched_from += 1
                is_escaped = searched_from > len(chunk)
            elif mark[0] == b'"':
                in_text = not in_text
            else:
                yield position + mark.start(), mark[0]
        position += len(chunk)


def _ends_without_spans(
    file: BufferedReader, begin: int, end: int, is_in_object: bool
) -> bool:
    """Whether a value holds no spans behind its list.

    Args:
        file: The file.
        begin: Where the list has ended.
        end: Where the value ends.
        is_in_object: Whether the list is a field of an object, which ends with it.
    """
    if end - begin > _LONGEST_REST:
        return False
    file.seek(begin)
    rest = file.read(end - begin).strip()
    if not is_in_object:
        return not rest
    other_fields = b"{" + rest.removeprefix(b",")
    try:
        return _HOLDING_SPANS.isdisjoint(json.loads(other_fields))
    except (ValueError, RecursionError):
        return False
