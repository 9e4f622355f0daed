"""From what a span recorded to plain values.

Plain values are texts, documents, messages, and mappings and tuples of these.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from ragmetrics_core.capture import Document, Message, ToolCall
from ragmetrics_core.data import json_value
from ragmetrics_core.data.messages import (
    CALL_PARTS,
    RESULT_PARTS,
    ROLES,
    text_of_content,
    unwrap_message,
)

_WRITTEN_OBJECT = re.compile(
    r"[A-Z]\w*\((?:\Z|\)\Z|\w+(?:=|\Z)|[A-Z]\w*\()|<[A-Z]\w*\(|<.* at 0x[0-9a-f]+.*>",
    re.DOTALL,
)
_HAYSTACK_FIELDS = ("id", "content", "blob", "score", "embedding", "sparse_embedding")
# smolagents has two roles of its own
_ROLES = {**ROLES, "tool-call": "assistant", "tool-response": "tool"}
CONTENT_FIELDS = ("content", "contents", "parts", "blocks")
"""Names under which a message may hold what it says, or its blocks."""

_PROMPT_FIELDS = ("messages", "prompt", "prompts")
_REPLY_FIELDS = (
    "replies",
    "generations",
    "message",
    "messages",
    "choices",
    "output",
    "text",
    "content",
)
# levels of a value that are read; what stands deeper is left out
_DEPTH = 8


@dataclass(frozen=True, slots=True)
class ToolMessage(Message):
    """A tool's message, with what the tool returned beside its text.

    Attributes:
        artifact: What it returned beside the text, such as documents; None for nothing.
    """

    artifact: Any = field(default=None, repr=False)


def plain(value: object) -> Any:
    """Make the plain value of an attribute, which may be JSON."""
    decoded = decode(value)
    return _plain(value if decoded is None else decoded, _DEPTH)


def _plain(value: object, depth: int) -> Any:
    """The plain value of what is no text of JSON, down to a depth."""
    if isinstance(value, str) and value.startswith('{"node":'):
        return _document(decode(value)) or value  # a node of LlamaIndex in a list
    if isinstance(value, str):
        return None if value == "null" else value
    # none of the elements and fields below the deepest level
    if isinstance(value, list):
        elements = value if depth else []
        return _pair(value) or tuple(_plain(entry, depth - 1) for entry in elements)
    if isinstance(value, Mapping):
        fields = value if depth else {}
        return (
            _document(value)
            or _message(value)
            or {str(key): _plain(entry, depth - 1) for key, entry in fields.items()}
        )
    return value


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a value that is a mapping; for any other an empty one."""
    return value if isinstance(value, Mapping) else {}


def decode(value: object) -> Any:
    """What a text of JSON stands for; None for any other text.

    A value that is no text is returned as it is.
    """
    if not isinstance(value, str):
        return value
    if not value.lstrip().startswith(("{", "[", '"')):
        return None
    try:
        return json_value(value)
    except (ValueError, RecursionError):
        return None


def recorded_document(
    text: object, name: object = None, score: object = None, metadata: object = None
) -> Document:
    """Make a document of what a span recorded of it.

    Example: the text "Rome is old.", the id 7 and the metadata '{"score": 0.8}' give a
    document with the id "7" and the score 0.8.

    Args:
        text: Its text; None if the text was not recorded, which gives "".
        name: Its id; None if it has none.
        score: Its score. If this is no number, a score among the metadata counts.
        metadata: A mapping, or a mapping as JSON. Anything else gives no metadata.
    """
    fields = mapping(decode(metadata))
    metadata_by_name = {str(key): value for key, value in fields.items()}
    id_ = None if name is None else str(name)
    return Document.scored_by_metadata(str(text or ""), id_, metadata_by_name, score)


def _document(value: object) -> Document | None:
    """Read a document of LlamaIndex, Haystack or LangChain; None for any other value.

    Its keys tell whose it is. Example: ``{"page_content": "Rome is old."}`` is a
    document of LangChain.
    """
    _, fields = unwrap_message(mapping(value))
    document_id = fields.get("id")
    score = fields.get("score")
    node = fields.get("node")
    if isinstance(node, Mapping) and "id_" in node:  # LlamaIndex
        text = node.get("text")
        return recorded_document(text, node["id_"], score, node.get("metadata"))
    if {"id", "content", "blob"} <= set(fields):  # Haystack
        # the metadata may be written beside the fields
        beside = {key: fields[key] for key in fields if key not in _HAYSTACK_FIELDS}
        metadata = fields.get("meta", beside)
        return recorded_document(fields["content"], document_id, score, metadata)
    text = fields.get("page_content")
    if isinstance(text, str):  # LangChain
        return recorded_document(text, document_id, score, fields.get("metadata"))
    return None


def _pair(value: list[Any]) -> Document | Message | None:
    """A document with its score, or a message with its role; None for other lists."""
    if len(value) != 2:
        return None
    content, companion = value
    if isinstance(content, str) and content in ROLES:
        return _message({"role": content, "content": companion})
    if type(companion) not in (int, float):
        return None
    document = _document(content)
    if document is None:
        return None
    return replace(document, score=float(companion))


def _message(value: Mapping[str, Any]) -> Message | None:
    """Read a message of a chat, in the form of LangChain, a provider or a convention.

    Example: ``{"role": "user", "content": "Who?"}`` is the user's message "Who?".
    ``{"role": "user"}`` is an empty message. None for a value that is no message: it
    has no known role, or it has other fields but neither a content nor calls of tools.
    """
    # LangChain may write its class around the fields: {"id": [..., "HumanMessage"],
    # "kwargs": {"content": "Hi"}}. A bare message has the class "".
    class_name, own_fields = unwrap_message(value)
    role = _ROLES.get(
        str(own_fields.get("role") or class_name or own_fields.get("type"))
    )
    if role is None:
        return None
    content = _first_of(own_fields, CONTENT_FIELDS)
    # LangChain keeps what only some providers have, such as "tool_calls", in a field
    fields = {**mapping(own_fields.get("additional_kwargs")), **own_fields}
    calls = list(fields.get("tool_calls") or ())
    parts = content if isinstance(content, list) else []
    for part in parts:
        if isinstance(part, Mapping) and (
            part.get("type") in CALL_PARTS or "tool_call" in part or "tool_name" in part
        ):
            calls.append(part)
    # some conventions leave an empty content out: {"role": "assistant"}
    is_empty_message = set(fields) == {"role"}
    if content is None and not calls and not is_empty_message:
        return None
    tool_calls = tuple(_tool_call(call) for call in calls if isinstance(call, Mapping))
    text = text_of_content(content)
    # Some providers write the result of a tool into a message of the user, which holds
    # nothing else. Of several results the first one counts.
    are_results = [mapping(part).get("type") in RESULT_PARTS for part in parts]
    if parts and all(are_results):
        ids = _first_of(mapping(parts[0]), ("id", "tool_use_id"))
        call_id = own_fields.get("tool_call_id", ids)
        return _tool_message(text, tool_calls, {**fields, "tool_call_id": call_id})
    if role == "tool":
        return _tool_message(text, tool_calls, fields)
    return Message(role, text, tool_calls)


def _tool_message(
    text: str, tool_calls: tuple[ToolCall, ...], fields: Mapping[str, Any]
) -> ToolMessage:
    """A tool's message, with the call that it answers and what was returned beside it.

    Args:
        text: The text of the message.
        tool_calls: The calls that it names as such; else its fields tell the call.
        fields: The fields of the message.
    """
    if not tool_calls:
        name = str(fields.get("name") or "")
        tool_calls = (ToolCall(name, id=fields.get("tool_call_id")),)
    artifact = _plain(fields.get("artifact"), _DEPTH)
    return ToolMessage("tool", text, tool_calls, artifact)


def _first_of(fields: Mapping[str, Any], names: Iterable[str]) -> Any:
    """The value of the first of these fields that is there; None if none is."""
    for name in names:
        if name in fields:
            return fields[name]
    return None


def _tool_call(call: Mapping[str, Any]) -> ToolCall:
    """The call of a tool that a model made, in any form in which providers write it."""
    _, fields = unwrap_message(call)
    function = mapping(fields.get("function")) or fields
    name = function.get("name") or function.get("tool_name") or ""
    arguments = _first_of(function, ("args", "arguments", "input"))
    return ToolCall(str(name), mapping(decode(arguments)), fields.get("id"))


def messages_in(value: object) -> tuple[Message, ...]:
    """Find the messages that a model was shown, in a value that was read before.

    In such a value lists were turned into tuples, and each mapping with a role into a
    ``Message``. A text alone is the user's message: ``("Who?",)`` gives one message of
    the user. A mapping is searched under "messages", "prompt" and "prompts".
    """
    if isinstance(value, tuple):
        return tuple(chain.from_iterable(map(messages_in, value)))
    if isinstance(value, Mapping):
        if value.get("type") == "text":
            # OpenTelemetry writes the system's instructions as parts without a role:
            # [{"type": "text", "content": "Be brief."}]
            return (Message("system", text_of_content(value)),)
        return messages_in(tuple(value.get(name) for name in _PROMPT_FIELDS))
    if isinstance(value, str) and value.strip():
        return (Message("user", value),)
    if isinstance(value, Message):
        return (value,)
    return ()


def replies_in(value: object) -> tuple[Message, ...]:
    """Find what a model said, in the forms that providers and frameworks return.

    Example: ``{"choices": ({"message": …},)}`` of OpenAI gives the message in it. One
    text is one reply. The reading has made tuples of lists before, and a ``Message`` of
    each mapping with a role.
    """
    if isinstance(value, tuple):
        return tuple(chain.from_iterable(map(replies_in, value)))
    if isinstance(value, Mapping):
        for name in _REPLY_FIELDS:
            replies = replies_in(value.get(name))
            if replies:
                return replies
        return ()
    if isinstance(value, str) and value.strip():
        return (Message("assistant", value),)
    if isinstance(value, Message) and value.role == "assistant":
        return (value,)
    return ()


def without_written_objects(value: Any) -> Any:
    """The plain value with None for each text that is an object as Python writes it.

    Examples: "StopEvent(result='Anna')", perhaps cut, and "<Stream at 0x7f2a>".
    """
    if isinstance(value, str):
        return None if _WRITTEN_OBJECT.match(value) else value
    if isinstance(value, tuple):
        return tuple(map(without_written_objects, value))
    if isinstance(value, Mapping):
        return {key: without_written_objects(entry) for key, entry in value.items()}
    return value
