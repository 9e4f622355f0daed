"""The JSON schema of a reply, from the question's pydantic model."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

# What every endpoint with schemas knows; bounds of numbers and the like are checked
# when the reply is read.
_KEYWORDS = ("type", "enum", "anyOf", "items", "description")


@lru_cache(maxsize=64)
def schema_of(model: type[BaseModel]) -> Mapping[str, Any]:
    """Return the strict JSON schema of a reply: all fields, no others."""
    schema = model.model_json_schema()
    return _make_strict(schema, schema.get("$defs", {}))


def _make_strict(
    schema: Mapping[str, Any], definitions: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a JSON schema in the keywords that every endpoint knows.

    References are replaced by what they stand for. All fields of an object are
    required, and it has no others. Anything else, such as bounds of numbers, is left
    out. Example: ``{"$ref": "#/$defs/Verdict"}`` becomes the schema of "Verdict", and
    ``{"const": 1}`` becomes ``{"enum": [1]}``.

    Args:
        schema: The schema, or a part of it.
        definitions: What references stand for, by their names.
    """
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _make_strict(definitions[name], definitions)
    strict: dict[str, Any] = {key: schema[key] for key in _KEYWORDS if key in schema}
    if "const" in schema:
        strict["enum"] = [schema["const"]]
    if "items" in schema:
        strict["items"] = _make_strict(schema["items"], definitions)
    if "anyOf" in schema:
        strict["anyOf"] = [
            _make_strict(option, definitions) for option in schema["anyOf"]
        ]
    if "properties" in schema:
        properties = {
            name: _make_strict(value, definitions)
            for name, value in schema["properties"].items()
        }
        strict.pop("description", None)  # the docstring of the model is for its readers
        strict["properties"] = properties
        strict["required"] = list(properties)
        strict["additionalProperties"] = False
    return strict
