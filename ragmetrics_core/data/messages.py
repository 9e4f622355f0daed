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
_WRAPPER_KEYS = ("message", "message_content", "tool_call", "tool_call_result")
_CONTENT_KEYS = ("content", "contents", "parts", "blocks")
# Where a request or a reply holds its messages: OpenAI, Anthropic, Gemini, Ollama,
# LangChain, LangGraph.
_MESSAGE_HOLDERS = (
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


class SaidMessage(NamedTuple):
    """A message's role and text."""

    role: str
    text: str


def unwrap_message(value: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The class and fields of an object as LangChain and OpenInference write it."""
    if (
        value.get("lc") == 1
        and isinstance(value.get("kwargs"), Mapping)
        and isinstance(value.get("id"), list)
    ):
        return str(value["id"][-1]), value["kwargs"]
    if isinstance(value.get("data"), Mapping) and value.get("type") in ROLES:
        return str(value["type"]), value["data"]
    inner = next((value[key] for key in _WRAPPER_KEYS if key in value), None)
    return "", inner if isinstance(inner, Mapping) and len(value) == 1 else value


def text_of_content(content: object) -> str:
    """The texts of a message's content, joined."""
    if isinstance(content, (list, tuple)):
        return "".join(text_of_content(part) for part in content)
    if not isinstance(content, Mapping):
        return content if isinstance(content, str) else ""
    content = unwrap_message(content)[1]
    if content.get("type") in _SILENT_PARTS:
        return ""
    source = content.get("source")  # of a document as providers take it
    if isinstance(source, Mapping):
        return f"{source.get('data')}\n" if source.get("type") == "text" else ""
    return next(
        (
            text_of_content(content[key])
            for key in ("text", "content", "response", "result")
            if content.get(key)
        ),
        "",
    )


def said_messages(value: object, depth: int = _DEPTH) -> Iterator[SaidMessage]:
    """The messages of a request or a reply that say something, in order.

    None where it holds no message.

    Examples:
        >>> list(said_messages({"messages": [{"role": "user", "content": "Who?"}]}))
        [SaidMessage(role='user', text='Who?')]
    """
    if depth and isinstance(value, (list, tuple)):
        for item in value:
            yield from said_messages(item, depth - 1)
    if not depth or not isinstance(value, Mapping):
        return
    message = _message_in(value)
    if message is not None:
        if message.text.strip():
            yield message
        return
    for holder in _MESSAGE_HOLDERS:
        if isinstance(value.get(holder), (Mapping, list, tuple)):
            yield from said_messages(value[holder], depth - 1)
            return
    # a choice of a model that completes texts
    if {"text", "finish_reason"} <= set(value):
        yield SaidMessage("assistant", text_of_content(value["text"]))


def _message_in(value: Mapping[str, Any]) -> SaidMessage | None:
    kind, fields = unwrap_message(value)
    written = fields.get("role") or kind or fields.get("type")
    role = ROLES.get(written) if isinstance(written, str) else None
    content = next((fields[key] for key in _CONTENT_KEYS if key in fields), None)
    return (
        None
        if role is None or content is None
        else SaidMessage(role, text_of_content(content))
    )
