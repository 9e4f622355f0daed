"""Messages that a span tells in events, as OpenTelemetry's conventions allow.

The latest conventions write the attributes of messages into an event. Older ones write
an event for each message, with its role in the event's name.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragmetrics_core.data.messages import text_of_content

_DETAILS = "gen_ai.client.inference.operation.details"
_REPLY = "gen_ai.choice"
_TOOL_MESSAGE = "gen_ai.tool.message"
_ROLE_BY_EVENT = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    _TOOL_MESSAGE: "tool",
}


def attributes_of_events(
    events: Iterable[tuple[str, Mapping[str, Any]]], operation: object
) -> dict[str, Any]:
    """Make attributes of the messages that stand in the events of a span.

    The attributes are those of OpenTelemetry's latest conventions. Older conventions
    write an event for each message. Example: the event ``("gen_ai.user.message",
    {"content": "Who?"})`` becomes a message under "gen_ai.input.messages". A newer
    event holds the attributes ready made: they replace the messages of older events.

    Args:
        events: The name and the attributes of each event, the first one first.
        operation: What the span names as its operation.
    """
    attributes: dict[str, Any] = {}
    prompt: list[dict[str, Any]] = []
    replies: list[dict[str, Any]] = []
    for name, event_attributes in events:
        if name == _DETAILS:
            # the newer event, with "gen_ai.input.messages" ready made; where several
            # events have the same attribute, the first event's counts
            attributes = {**event_attributes, **attributes}
        elif name in _ROLE_BY_EVENT:
            content = event_attributes.get("content")
            prompt.append(_message(_ROLE_BY_EVENT[name], content))
        elif name == _REPLY:
            replies.append(_message("assistant", event_attributes.get("message")))
    if operation == "execute_tool":
        # the messages are the tool's arguments and its result
        return {**_of_tool(prompt, replies), **attributes}
    if prompt:
        attributes.setdefault("gen_ai.input.messages", prompt)
    if replies:
        attributes.setdefault("gen_ai.output.messages", replies)
    return attributes


def _of_tool(
    prompt: Sequence[Mapping[str, Any]], replies: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The arguments and the result of a tool, told by an event for each of the two."""
    attributes = {}
    if prompt:
        attributes["gen_ai.tool.call.arguments"] = prompt[0]["parts"]
    if replies:
        result = text_of_content(replies[0]["parts"])
        attributes["gen_ai.tool.call.result"] = result or replies[0]["parts"]
    return attributes


def _message(role: str, content: object) -> dict[str, Any]:
    """A message by the latest conventions, of the content of an event."""
    decoded = _decoded(content)
    if isinstance(decoded, list):
        return {"role": role, "parts": [_part(part) for part in decoded]}
    if isinstance(decoded, Mapping):
        return {"role": role, "parts": decoded}
    return {"role": role, "parts": [{"type": "text", "content": str(decoded or "")}]}


def _decoded(content: object) -> Any:
    """What a text of JSON stands for; any other content as it is."""
    if not isinstance(content, str) or not content.startswith(("[", "{")):
        return content
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content


def _part(part: object) -> object:
    """Write a part of a message in the form of the latest conventions.

    Amazon Bedrock names the kind of a part, a text or the call or result of a tool, by
    its only key. Example: ``{"text": "Hi"}`` becomes ``{"type": "text", "content":
    "Hi"}``. Parts of other forms stay as they are.
    """
    if not isinstance(part, Mapping):
        return part
    if isinstance(part.get("text"), str) and "type" not in part:
        return {"type": "text", "content": part["text"]}
    call = part.get("toolUse")
    if isinstance(call, Mapping):
        return {
            "type": "tool_call",
            "id": call.get("toolUseId"),
            "name": call.get("name"),
            "arguments": call.get("input"),
        }
    result = part.get("toolResult")
    if isinstance(result, Mapping):
        return {
            "type": "tool_call_response",
            "id": result.get("toolUseId"),
            "response": result.get("content"),
        }
    return part
