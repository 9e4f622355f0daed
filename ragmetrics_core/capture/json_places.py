"""Where the parts of a text stand in JSON that holds the text as a string. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from ragmetrics_core.data import Citation
from ragmetrics_core.data.lazy_patterns import lazy_pattern

_STRING = lazy_pattern(r'"(?P<inside>[^"\\]*(?:\\.[^"\\]*)*)"')
# One sign of a string, as JSON writes it. Signs beyond U+FFFF may take two escapes.
_SIGN = lazy_pattern(
    r"\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|\\u\w{4}|\\.|.", re.DOTALL
)


def with_places_in_json(
    citations: Iterable[Citation], text: str, json_text: str
) -> tuple[Citation, ...]:
    r"""Return citations of a text with their places in JSON that holds this text.

    Of the text "It fell [1]." the citation of 0 to 12 is one of 12 to 24 in
    ``{"answer": "It fell [1]."}``. Where the JSON holds the text twice, or in another
    form, each citation is for all of the JSON, and has no mark.

    Args:
        citations: The citations of the text.
        text: The text.
        json_text: The JSON, perhaps in a fence.
    """
    places = _places_of_signs(text, json_text)
    changed = []
    for citation in citations:
        start, end, mark = 0, len(json_text), None
        if places is not None:
            start, end = places[citation.start], places[citation.end]
            if citation.mark is not None:
                mark = places[citation.mark[0]], places[citation.mark[1]]
        places_in_json = {"start": start, "end": end, "mark": mark}
        changed.append(citation.model_copy(update=places_in_json))
    return tuple(changed)


def _places_of_signs(text: str, json_text: str) -> list[int] | None:
    """Return where each sign of a text stands in JSON, and where the text ends.

    None unless exactly one string of the JSON is the text.
    """
    begin = json_text.find("{")  # behind the first line of a fence
    strings = [
        string
        for string in _STRING.finditer(json_text, max(begin, 0))
        if json.loads(string[0], strict=False) == text
    ]
    if len(strings) != 1:
        return None
    start, end = strings[0].span("inside")
    places = [sign.start() for sign in _SIGN.finditer(json_text, start, end)]
    return [*places, end]
