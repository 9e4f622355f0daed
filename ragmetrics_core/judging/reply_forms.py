"""The form of a reply, from the question's pydantic model.

It holds the schema for the model that is asked, and how a reply is read.
"""

from collections.abc import Mapping
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
from ragmetrics_core.judging.parsing import ReadReply, find_objects
from ragmetrics_core.models.chat import Choice

# Annotations of fields that hold the judge's own words.
_TEXT: tuple[object, ...] = (str,)
_TEXTS: tuple[object, ...] = (tuple[str, ...], list[str])
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


def read(choice: Choice, question: Question[R]) -> ReadReply[R]:
    """Find and read the reply to a question in what a model wrote.

    A JSON object counts as a reply if it has a required field of the question's
    ``Reply``. If there are several that agree, the first one is returned.

    Raises:
        ContentRefused: If the model or a content filter refused to answer.
        EmptyReply: If there is no text.
        CutOffReply: If the reply ended at the token limit before it was complete.
        MalformedReply: If it holds no such object, or one that is not well-formed.
        ConflictingVerdicts: If several objects contradict each other.
    """
    _refuse_without_text(choice)
    first_reply, *other_replies = _replies_in(choice, question)
    if other_replies:
        verdict = _what_must_agree(first_reply.value)
        if any(_what_must_agree(reply.value) != verdict for reply in other_replies):
            raise ConflictingVerdicts(
                "it holds several verdicts that contradict each other", raw=choice.text
            )
    return first_reply


def _replies_in(choice: Choice, question: Question[R]) -> list[ReadReply[R]]:
    """Read each JSON object that counts as a reply to the question.

    An object counts if it has one of the fields that the reply must have; the form then
    checks the other fields. Asked for "useful", ``{"useful": 0}`` counts and
    ``{"note": "useful"}`` does not. Raises ``MalformedReply`` if there is none.
    """
    identifying_fields = _fields_that_identify(question.Reply)
    replies: list[ReadReply[R]] = []
    for fields, start, end in find_objects(choice, identifying_fields):
        # the name of a field may also stand in a text of the object
        if any(name in fields for name in identifying_fields):
            value = _validate(choice, fields, question)
            replies.append(ReadReply(value, choice, start, end))
    if not replies:
        # one name will do; the last is the verdict where the reason is asked for first
        raise MalformedReply(
            f"it holds no JSON object with the field {identifying_fields[-1]!r}",
            raw=choice.text,
        )
    return replies


def _refuse_without_text(choice: Choice) -> None:
    """Raise the error of a reply that is refused, empty, or cut off before it began."""
    text = choice.text
    if choice.finish == "refused":
        raise ContentRefused(
            "the model or a content filter refused to answer", raw=text
        )
    if text.strip():
        return
    if choice.finish == "length":
        raise CutOffReply(
            "the reply ended at the token limit, before it began", raw=text
        )
    raise EmptyReply("the reply is empty", raw=text)


def _validate(choice: Choice, value: dict[str, Any], question: Question[R]) -> R:
    """Read an object as the reply to a question.

    Raises ``MalformedReply``, which names the field that is wrong.
    """
    try:
        return question.read(value)
    except ValidationError as error:
        problems = error.errors(
            include_url=False, include_context=False, include_input=False
        )
    place = ".".join(map(str, problems[0]["loc"])) or "reply"
    message = problems[0]["msg"].removeprefix("Value error, ")
    raise MalformedReply(f"the field {place!r}: {message}", raw=choice.text)


@lru_cache(maxsize=64)
def _fields_that_identify(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the fields that tell a reply: an object without any is no reply."""
    required = [
        info.alias or name
        for name, info in model.model_fields.items()
        if info.is_required()
    ]
    return tuple(required or model.model_fields)


def _what_must_agree(reply: BaseModel) -> object:
    """Return what of two replies must be equal for them to agree.

    Comments need not: neither texts nor lists of texts, if there is another field.
    Where all fields are such, lists of texts count, and where all are texts, every text
    does.
    """
    for comments in (_TEXT + _TEXTS, _TEXT, ()):
        essence = _without_comments(reply, comments)
        if essence:
            return essence
    return None


def _without_comments(
    reply: BaseModel, comments: tuple[object, ...]
) -> dict[str, object]:
    """Return the fields of a reply that are no comments.

    Comments are left out of objects in a list, too.
    """
    fields = type(reply).model_fields
    list_name = list_field(type(reply))
    essence: dict[str, object] = {}
    for name, value in reply:
        if _is_comment(fields[name], comments):
            continue
        essence[name] = (
            tuple(map(_what_must_agree, value)) if name == list_name else value
        )
    return essence


def _is_comment(field: FieldInfo, comments: tuple[object, ...]) -> bool:
    """True for free text; a text with a rule of its own, such as a length, is none."""
    return field.annotation in comments and all(
        isinstance(rule, BeforeValidator) for rule in field.metadata
    )
