"""Messages of chat models, as providers and frameworks write them.

A message says who spoke, and what was said.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

ROLES = {
    **dict.fromkeys(("human", "user", "HumanMessage", "HumanMessageChunk"), "user"),
    **dict.fromkeys(
        ("ai", "assistant", "model", "AIMessage", "AIMessageChunk"), "assistant"
    ),
    **dict.fromkeys(("system", "developer", "SystemMessage"), "system"),
    **dict.fromkeys(("tool", "function", "ToolMessage", "FunctionMessage"), "tool"),
}
"""Who spoke, by the names that are in use."""

CALL_PARTS = ("tool_call", "tool_use")
"""Types of parts of messages that are calls of tools."""

_SILENT_PARTS = ("image", "reasoning", "thinking", *CALL_PARTS)
_AROUND = ("message", "message_content", "tool_call", "tool_call_result")
_CONTENT = ("content", "contents", "parts", "blocks")
# Where a request or a reply holds its messages: OpenAI, Anthropic, Gemini, Ollama,
# LangChain, LangGraph.
_HOLDERS = (
    "messages",
    "choices",
    "message",
    "candidates",
    "generations",
    "output",
    "input",
    "contents",
    "content",
)
_DEPTH = 6


class Said(NamedTuple):
    """A message's role and text."""

    role: str
    text: str


def unwrapped(value: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The class and fields of an object as LangChain and OpenInference write it."""
    if (
        value.get("lc") == 1
        and isinstance(value.get("kwargs"), Mapping)
        and isinstance(value.get("id"), list)
    ):
        return str(value["id"][-1]), value["kwargs"]
    if isinstance(value.get("data"), Mapping) and value.get("type") in ROLES:
        return str(value["type"]), value["data"]
    inner = next((value[key] for key in _AROUND if key in value), None)
    return "", inner if isinstance(inner, Mapping) and len(value) == 1 else value


def text_of(content: object) -> str:
    """The texts of a message's content, joined."""
    if isinstance(content, (list, tuple)):
        return "".join(text_of(part) for part in content)
    if not isinstance(content, Mapping):
        return content if isinstance(content, str) else ""
    content = unwrapped(content)[1]
    if content.get("type") in _SILENT_PARTS:
        return ""
    source = content.get("source")  # of a document as providers take it
    if isinstance(source, Mapping):
        return f"{source.get('data')}\n" if source.get("type") == "text" else ""
    return next(
        (
            text_of(content[key])
            for key in ("text", "content", "response", "result")
            if content.get(key)
        ),
        "",
    )


def messages_said(value: object, depth: int = _DEPTH) -> Iterator[Said]:
    """The messages of a request or a reply that say something, in order.

    None where it holds no message.

    Examples:
        >>> list(messages_said({"messages": [{"role": "user", "content": "Who?"}]}))
        [Said(role='user', text='Who?')]
    """
    if depth and isinstance(value, (list, tuple)):
        for item in value:
            yield from messages_said(item, depth - 1)
    if not depth or not isinstance(value, Mapping):
        return
    message = _message(value)
    if message is not None:
        if message.text.strip():
            yield message
        return
    for holder in _HOLDERS:
        if isinstance(value.get(holder), (Mapping, list, tuple)):
            yield from messages_said(value[holder], depth - 1)
            return
    # a choice of a model that completes texts
    if {"text", "finish_reason"} <= set(value):
        yield Said("assistant", text_of(value["text"]))


def _message(value: Mapping[str, Any]) -> Said | None:
    kind, fields = unwrapped(value)
    written = fields.get("role") or kind or fields.get("type")
    role = ROLES.get(written) if isinstance(written, str) else None
    content = next((fields[key] for key in _CONTENT if key in fields), None)
    return None if role is None or content is None else Said(role, text_of(content))
