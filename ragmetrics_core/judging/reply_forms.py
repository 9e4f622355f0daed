"""The form of a reply, from the question's pydantic model.

It holds the schema for the model that is asked, and how a reply is read.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic.fields import FieldInfo

from ragmetrics_core.data import Question, R, list_field
from ragmetrics_core.data.errors import (
    ConflictingVerdicts,
    ContentRefused,
    CutOffReply,
    EmptyReply,
    MalformedReply,
)
from ragmetrics_core.judging.parsing import Found, objects
from ragmetrics_core.models.chat import Choice

_COMMENTS: tuple[tuple[object, ...], ...] = (
    (str, tuple[str, ...], list[str]),
    (str,),
    (),
)
# What every endpoint with schemas knows; bounds of numbers and the like are checked
# when the reply is read.
_KEYWORDS = ("type", "enum", "anyOf", "items", "description")


@lru_cache(maxsize=64)
def schema_of(model: type[BaseModel]) -> Mapping[str, Any]:
    """The strict JSON schema of a reply: all fields, no others."""
    made = model.model_json_schema()
    return _strict(made, made.get("$defs", {}))


@lru_cache(maxsize=64)
def described(model: type[BaseModel], template: str) -> bool:
    """Whether a template names every field of the reply, in quotes.

    The schema would then say it twice.
    """
    return all(f'"{name}"' in template for name in _names(schema_of(model)))


def _names(schema: Mapping[str, Any]) -> Iterator[str]:
    for name, value in schema.get("properties", {}).items():
        yield name
        yield from _names(value.get("items", value))


def _strict(schema: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return _strict(known[schema["$ref"].rpartition("/")[2]], known)
    strict: dict[str, Any] = {key: schema[key] for key in _KEYWORDS if key in schema}
    if "const" in schema:
        strict["enum"] = [schema["const"]]
    if "items" in schema:
        strict["items"] = _strict(schema["items"], known)
    if "anyOf" in schema:
        strict["anyOf"] = [_strict(option, known) for option in schema["anyOf"]]
    if "properties" in schema:
        properties = {
            name: _strict(value, known) for name, value in schema["properties"].items()
        }
        strict.pop("description", None)  # the docstring of the model is for its readers
        strict |= {
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
    return strict


def read(choice: Choice, question: Question[R]) -> Found[R]:
    """Read the reply to a question, and where it stands.

    The question's ``Reply`` reads every object that has a required field.

    ``UnusableReply`` if there is no such object, it is not well-formed or complete, or
    several contradict each other.
    """
    if choice.finish == "refused":
        raise ContentRefused(
            "the model or a content filter refused to answer", raw=choice.text
        )
    if not choice.text.strip():
        if choice.finish == "length":
            raise CutOffReply(
                "the reply ended at the token limit, before it began", raw=choice.text
            )
        raise EmptyReply("the reply is empty", raw=choice.text)
    names = _required(question.Reply)
    found = [
        Found(_read(choice, value, question), choice, start, end)
        for value, start, end in objects(choice, names)
        if any(name in value for name in names)
    ]
    if not found:
        raise MalformedReply(
            f"it holds no JSON object with the field {names[-1]!r}", raw=choice.text
        )
    if any(_essence(other.value) != _essence(found[0].value) for other in found[1:]):
        raise ConflictingVerdicts(
            "it holds several verdicts that contradict each other", raw=choice.text
        )
    return found[0]


def _read(choice: Choice, value: dict[str, Any], question: Question[R]) -> R:
    try:
        return question.read(value)
    except ValidationError as error:
        problem = error.errors(
            include_url=False, include_context=False, include_input=False
        )[0]
    place = ".".join(map(str, problem["loc"])) or "reply"
    message = problem["msg"].removeprefix("Value error, ")
    raise MalformedReply(f"the field {place!r}: {message}", raw=choice.text)


@lru_cache(maxsize=64)
def _required(model: type[BaseModel]) -> tuple[str, ...]:
    """The fields of which an object must have one to count as the reply."""
    required = [
        info.alias or name
        for name, info in model.model_fields.items()
        if info.is_required()
    ]
    return tuple(required or model.model_fields)


def _essence(reply: BaseModel) -> object:
    """Return what of two replies must be equal for them to agree.

    That is all but comments, as far as there is anything else.
    """
    items = list_field(type(reply))
    for comments in _COMMENTS:
        kept = {
            name: value
            for name, value in reply
            if not _is_comment(type(reply).model_fields[name], comments)
        }
        if kept:
            return (
                kept
                if items is None
                else {**kept, items: tuple(map(_essence, kept[items]))}
            )
    return None


def _is_comment(field: FieldInfo, comments: tuple[object, ...]) -> bool:
    """True for free text; a text with a rule of its own, such as a length, is none."""
    return field.annotation in comments and all(
        isinstance(rule, BeforeValidator) for rule in field.metadata
    )
