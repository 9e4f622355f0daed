"""Values of a provider's reply: any JSON; nothing is taken for granted. Pure."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from pydantic import BaseModel

Fields = Mapping[Any, Any]  # a JSON object, or what looks like one

# Gemini's names of what it found, in its two forms of JSON
GROUNDING_KEYS = ("grounding_metadata", "groundingMetadata")
PAGE_KEYS = ("url_context_metadata", "urlContextMetadata")
DEEPEST = 6  # levels of blocks inside each other that are read
_LARGEST_SCORE = 1_000_000_000


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a list or a tuple."""
    return isinstance(value, (list, tuple))


def is_place(value: object) -> TypeGuard[int]:
    """Whether a value is a place in a text or a list, counted from 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def objects_in(value: object) -> Iterator[Fields]:
    """The JSON objects of a list; none for anything else.

    Some frameworks hand on the objects of a provider's client as they are: these are
    read as the JSON that they stand for.
    """
    if not is_list(value):
        return
    for element in value:
        if isinstance(element, Mapping):
            yield element
        elif isinstance(element, BaseModel):
            yield element.model_dump()


def words_in(value: object) -> Iterator[str]:
    """The texts of a list that are not blank; none for anything else."""
    if is_list(value):
        for element in value:
            if isinstance(element, str) and element.strip():
                yield element


def field_of(fields: Fields, name: str) -> Any:
    """A field by its name in Python, else by the name that Google's JSON gives it.

    Examples:
        >>> field_of({"groundingChunks": [1]}, "grounding_chunks")
        [1]
    """
    first_word, *other_words = name.split("_")
    name_in_json = first_word + "".join(word.capitalize() for word in other_words)
    return fields.get(name, fields.get(name_in_json))


def inner_object(fields: Fields, name: str) -> Fields:
    """The JSON object in a field; an empty one where the field holds anything else."""
    value = fields.get(name)
    return value if isinstance(value, Mapping) else {}


def finite_score(value: object) -> float | None:
    """A score that is a finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # an integer of JSON may be larger than any float
    if isinstance(value, int) and abs(value) > _LARGEST_SCORE:
        return None
    return float(value) if math.isfinite(value) else None


def as_json(value: object) -> str:
    """A value as JSON; empty for one that cannot be written as JSON."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return ""


def arguments_in(text: object) -> Fields:
    """Read the arguments of a tool from their JSON; {} for anything else.

    Examples:
        >>> arguments_in('{"query": "lamp"}')
        {'query': 'lamp'}
        >>> arguments_in('{"query": "la')
        {}
    """
    try:
        arguments = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, Mapping) else {}


def as_text(returned: object, depth: int = DEEPEST) -> str:
    """Return as text what a tool returned: logs, output, blocks of text, else JSON.

    Example: ``[{"type": "text", "text": "It fell."}, "In May."]`` gives the lines "It
    fell." and "In May.". Empty for None.
    """
    if isinstance(returned, str):
        return returned
    if isinstance(returned, Mapping):
        text = _text_in_object(returned, depth)
        if text is not None:
            return text
    elif is_list(returned) and depth:
        parts = [as_text(part, depth - 1) for part in returned]
        return "\n".join(part for part in parts if part)
    return "" if returned is None else as_json(returned)


def _text_in_object(returned: Fields, depth: int) -> str | None:
    """The text that a tool returned under a usual key; None without such a key."""
    for key in ("text", "logs", "stdout", "message", "content"):
        value = returned.get(key)
        if isinstance(value, str):
            return value
        if is_list(value) and value and depth:
            return as_text(value, depth - 1)
    return None
