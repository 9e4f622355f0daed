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
_DEEPEST = 6  # objects and lists in each other


class SaidMessage(NamedTuple):
    """A message's role and text."""

    role: str
    text: str


def unwrap_message(value: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the class and the fields of a message inside a tool's wrapper.

    Example: LangChain writes ``{"type": "constructor", "id": [..., "HumanMessage"],
    "kwargs": {"content": "Hi"}}``: ("HumanMessage", {"content": "Hi"}). The class may
    also be a type such as "human". It is "" if the wrapper names none. An object
    without a wrapper is returned as it is, with "".
    """
    # LangChain's dumpd: {"id": […, "HumanMessage"], "kwargs": {…}, …}
    if _is_serialised_by_langchain(value):
        return str(value["id"][-1]), value["kwargs"]
    # LangChain's messages_to_dict: {"type": "human", "data": {…}}
    if isinstance(value.get("data"), Mapping) and value.get("type") in ROLES:
        return str(value["type"]), value["data"]
    # OpenInference: {"message": {…}} and nothing beside it
    if len(value) == 1:
        (key,) = value
        if key in _WRAPPER_KEYS and isinstance(value[key], Mapping):
            return "", value[key]
    return "", value


def _is_serialised_by_langchain(value: Mapping[str, Any]) -> bool:
    """Tell whether an object is one of {"lc": 1, "id": [module, …, class], "kwargs": {…}}."""
    if value.get("lc") != 1 or not isinstance(value.get("kwargs"), Mapping):
        return False
    return isinstance(value.get("id"), list)


def text_of_content(content: object) -> str:
    """Return the texts of a message's content, joined.

    ``[{"type": "text", "text": "Blue"}, {"type": "image", …}]`` has the text "Blue":
    images, calls of tools and a model's thoughts have none. "" without any text.
    """
    if isinstance(content, str):
        return content
    if isinstance(content, (list, tuple)):
        return "".join(text_of_content(part) for part in content)
    if not isinstance(content, Mapping):
        return ""
    _, part = unwrap_message(content)
    if part.get("type") in _SILENT_PARTS:
        return ""
    # a document: {"type": "document", "source": {"type": "text", "data": "Page one"}}
    if isinstance(part.get("source"), Mapping):
        return _text_of_document(part["source"])
    for key in ("text", "content", "response", "result"):
        if part.get(key):
            return text_of_content(part[key])
    return ""


def _text_of_document(source: Mapping[str, Any]) -> str:
    """Return the text of a document in a message, on lines of its own; "" for a file.

    ``{"type": "content", "content": [{"type": "text", "text": "Page one"}]}`` is a text
    in parts.
    """
    if source.get("type") == "content":
        return f"{text_of_content(source.get('content'))}\n"
    return f"{source.get('data')}\n" if source.get("type") == "text" else ""


def said_messages(value: object, depth: int = _DEEPEST) -> Iterator[SaidMessage]:
    """Yield the messages of a request or a reply that say something, in order.

    Args:
        value: The request or the reply. Anything else holds no message.
        depth: How many containers inside of each other are looked into.

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
    # A choice of a model that completes texts, which knows no roles.
    if "text" in value and "finish_reason" in value:
        yield SaidMessage("assistant", text_of_content(value["text"]))


def _message_in(value: Mapping[str, Any]) -> SaidMessage | None:
    """Return the message that an object is.

    ``{"role": "user", "content": "Hi"}`` is "Hi" by the user. None without a known role
    or without content, as for ``{"role": "user"}``.
    """
    class_name, fields = unwrap_message(value)
    speaker = fields.get("role") or class_name or fields.get("type")
    role = ROLES.get(speaker) if isinstance(speaker, str) else None
    content = None
    for key in _CONTENT_KEYS:
        if key in fields:
            content = fields[key]
            break
    if role is None or content is None:
        return None
    return SaidMessage(role, text_of_content(content))
