"""From what a span recorded to plain values: texts, documents, messages, mappings and tuples of these."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ragmetrics_core.capturing import SCORE_KEYS, Document, Message, ToolCall

_ROLES = {
    **dict.fromkeys(("human", "user", "HumanMessage", "HumanMessageChunk"), "user"),
    **dict.fromkeys(("ai", "assistant", "model", "AIMessage", "AIMessageChunk"), "assistant"),
    **dict.fromkeys(("system", "developer", "SystemMessage"), "system"),
    **dict.fromkeys(("tool", "function", "ToolMessage", "FunctionMessage"), "tool"),
}
_DEPTH = 8


@dataclass(frozen=True, slots=True)
class ToolMessage(Message):
    """A tool's message, with what the tool returned beside its text."""

    artifact: Any = field(default=None, repr=False)


def plain(value: object, depth: int = _DEPTH) -> Any:
    """The plain value of an attribute, which may be JSON."""
    if isinstance(value, str):
        found = _decoded(value) if depth == _DEPTH else None
        return (None if value == "null" else value) if found is None else plain(found, depth - 1)
    if isinstance(value, list):
        return _pair(value) or (tuple(plain(item, depth - 1) for item in value) if depth else ())
    if not isinstance(value, Mapping):
        return value
    known = _document(value) or _message(value)
    return known or ({str(key): plain(item, depth - 1) for key, item in value.items()} if depth else {})


def _decoded(value: object) -> Any:
    """What a text of JSON stands for, None for any other text; what is no text as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.lstrip()[:1] in ("{", "[", '"') else None
    except (ValueError, RecursionError):
        return None


def _unwrapped(value: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The class and fields of an object as LangChain and OpenInference write it."""
    if value.get("lc") == 1 and isinstance(value.get("kwargs"), Mapping) and isinstance(value.get("id"), list):
        return str(value["id"][-1]), value["kwargs"]
    if isinstance(value.get("data"), Mapping) and value.get("type") in _ROLES:
        return str(value["type"]), value["data"]
    inner = next((value[key] for key in ("message", "message_content", "tool_call") if key in value), None)
    return "", inner if isinstance(inner, Mapping) and len(value) == 1 else value


def made(text: object, name: object = None, score: object = None, metadata: object = None) -> Document:
    """A document of what was recorded of it."""
    metadata = _decoded(metadata)
    kept = {str(key): entry for key, entry in metadata.items()} if isinstance(metadata, Mapping) else {}
    scores = (float(one) for one in (score, *map(kept.get, SCORE_KEYS)) if isinstance(one, (int, float)))
    return Document(str(text or ""), None if name is None else str(name), next(scores, None), kept)


def _document(value: object) -> Document | None:
    fields = _unwrapped(value)[1] if isinstance(value, Mapping) else {}
    text = fields.get("page_content")
    return made(text, *map(fields.get, ("id", "score", "metadata"))) if isinstance(text, str) else None


def _pair(value: list[Any]) -> Document | Message | None:
    """A document with its score, or a message with its role."""
    if len(value) == 2 and isinstance(value[0], str) and value[0] in _ROLES:
        return _message({"role": value[0], "content": value[1]})
    scored = _document(value[0]) if len(value) == 2 and type(value[1]) in (int, float) else None
    return scored and replace(scored, score=float(value[1]))


def _message(value: Mapping[str, Any]) -> Message | None:
    """A message of LangChain, of a provider or of a convention; None for anything else."""
    kind, fields = _unwrapped(value)
    role = _ROLES.get(str(fields.get("role") or kind or fields.get("type")))
    content = next((fields[key] for key in ("content", "contents", "parts") if key in fields), None)
    parts = [one for one in content if isinstance(one, Mapping)] if isinstance(content, list) else []
    calls = [*(fields.get("tool_calls") or ()), *(one for one in parts if one.get("type") in ("tool_call", "tool_use"))]
    if role is None or (content is None and not calls and set(fields) != {"role"}):
        return None
    found = tuple(_call(one) for one in calls if isinstance(one, Mapping))
    if role != "tool":
        return Message(role, text_of(content), found)
    found = found or (ToolCall(str(fields.get("name") or ""), id=fields.get("tool_call_id")),)
    return ToolMessage(role, text_of(content), found, plain(fields.get("artifact"), _DEPTH - 1))


def _call(call: Mapping[str, Any]) -> ToolCall:
    call = _unwrapped(call)[1]
    inner = call["function"] if isinstance(call.get("function"), Mapping) else call
    given = _decoded(next((inner[key] for key in ("args", "arguments", "input") if key in inner), None))
    return ToolCall(str(inner.get("name") or ""), given if isinstance(given, Mapping) else {}, call.get("id"))


def text_of(content: object) -> str:
    """The texts of a message's content, joined."""
    if isinstance(content, (list, tuple)):
        return "".join(text_of(part) for part in content)
    if not isinstance(content, Mapping):
        return content if isinstance(content, str) else ""
    content = _unwrapped(content)[1]
    if content.get("type") in ("image", "reasoning", "thinking", "tool_call", "tool_use"):
        return ""
    source = content.get("source")  # of a document as providers take it
    if isinstance(source, Mapping):
        return f"{source.get('data')}\n" if source.get("type") == "text" else ""
    return next((text_of(content[key]) for key in ("text", "content", "response", "result") if content.get(key)), "")


def messages_in(value: object) -> tuple[Message, ...]:
    """The messages that a model was shown."""
    if isinstance(value, tuple):
        return tuple(one for item in value for one in messages_in(item))
    if isinstance(value, Mapping):
        if value.get("type") == "text":
            return (Message("system", text_of(value)),)
        return tuple(one for name in ("messages", "prompt", "prompts") for one in messages_in(value.get(name)))
    said = Message("user", value) if isinstance(value, str) and value.strip() else value
    return (said,) if isinstance(said, Message) else ()


def replies_in(value: object) -> tuple[Message, ...]:
    """What a model said, in any of the forms in which providers and frameworks return it."""
    if isinstance(value, tuple):
        return tuple(one for item in value for one in replies_in(item))
    if isinstance(value, Mapping):
        names = ("generations", "message", "messages", "choices", "output", "text", "content")
        return next((found for name in names if (found := replies_in(value.get(name)))), ())
    said = Message("assistant", value) if isinstance(value, str) and value.strip() else value
    return (said,) if isinstance(said, Message) and said.role == "assistant" else ()


def each(value: object, kind: type, depth: int = _DEPTH) -> Iterator[Any]:
    """Values of a kind, however deep."""
    if isinstance(value, kind):
        yield value
    elif depth and isinstance(value, (Mapping, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from each(item, kind, depth - 1)
