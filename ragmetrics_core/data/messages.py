"""Messages of chat models, as providers and frameworks write them.

A message says who spoke, and what was said.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from operator import is_
from types import NoneType
from typing import Any, NamedTuple

from ragmetrics_core.data.scalars import (
    is_number,
    is_present,
    is_prose,
    number_as_text,
)

ROLES = {
    **dict.fromkeys(
        ("human", "user", "customer", "HumanMessage", "HumanMessageChunk"), "user"
    ),
    **dict.fromkeys(
        ("ai", "assistant", "model", "chatbot", "bot", "agent"), "assistant"
    ),
    **dict.fromkeys(("gpt", "AIMessage", "AIMessageChunk"), "assistant"),
    **dict.fromkeys(("system", "developer", "SystemMessage"), "system"),
    **dict.fromkeys(("tool", "function", "ToolMessage", "FunctionMessage"), "tool"),
}
"""Who spoke, by the names that are in use."""

CALL_PARTS = ("tool_call", "tool_use")
"""Types of parts of messages that are calls of tools."""

RESULT_PARTS = ("tool_result", "tool_call_response")
"""Types of parts of messages that are what a tool returned."""

_CALL_KEYS = ("tool_calls", "tool_call", "function_call", "functionCall", "toolUse")
_SAID_PARTS = ("text", "output_text", "refusal")
# "web_search_call" of OpenAI, "server_tool_use" and "web_search_tool_result" of Anthropic
_ENDS_OF_TOOL_PARTS = ("_call", "_tool_use", "_tool_result")
_SILENT_PARTS = ("image", "reasoning", "thinking", "redacted_thinking", *CALL_PARTS)
# in a user's message, and said by nobody; a "document" may have no type
_SHOWN_PARTS = (*RESULT_PARTS, "document", "search_result")
# in the type of a part, or in its names where it has none, as in Amazon Bedrock's
_SAID_BY_NOBODY = re.compile(
    r"tool|function|reason|think|\bsource|refusal", re.IGNORECASE
)
_WRAPPER_KEYS = ("message", "message_content", "tool_call", "tool_call_result")
_CONTENT_KEYS = ("content", "contents", "parts", "blocks", "value", "text", "message")
_WHOLE_CONTENTS = ("content", "parts", "blocks")  # each is all that the message says
# How the type of a part begins, or its key at Gemini, that holds no text for a judge.
_MEDIA = ("image", "input_image", "audio", "input_audio", "video", "media", "inline")
_FILES = (
    *("file", "files", "input_file", "document_url", "container_upload"),
    *("fileData", "file_data", "attachments", "experimental_attachments"),
)
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
_TIMES = ("created_at", "timestamp", "created", "time")  # of a message
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_FIRST_SECOND = 100_000_000  # since 1970: a smaller number may be how long it took


MEDIA_REFUSED = (
    "an image, a recording or a file, which no judge is shown; say in words what it"
    " holds, or leave the row out"
)
"""What is wrong with such messages."""


ANYONE = ""
"""The role of a message that does not say who spoke."""


class SaidMessage(NamedTuple):
    """A message's role and text, and whether it holds media or calls a tool, too.

    Of its parts there are also those types that are not known and may belong to it, and
    whether some are documents, which are shown and not said.
    """

    role: str
    text: str
    has_media: bool = False
    calls_tool: bool = False
    unknown_types: Sequence[str] = ()
    shows_documents: bool = False


class UnwrappedMessage(NamedTuple):
    """A message without the object that a framework has put around it.

    Attributes:
        class_name: What the framework's object calls the message, such as
            "HumanMessage" or "human"; "" if it has no name for it, or if there is none.
        fields: The fields of the message itself.
    """

    class_name: str
    fields: Mapping[str, Any]

    @property
    def speaker(self) -> object:
        """Who wrote it, in the message's own word; None if it does not say."""
        keys = ("type", "from", "speaker", "sender")
        names = [self.fields.get("role"), self.class_name, *map(self.fields.get, keys)]
        return next(filter(None, names), None)

    @property
    def role(self) -> str | None:
        """Who wrote it: "user", "assistant", "system" or "tool"; None for another."""
        return known_role(self.speaker)

    @property
    def content(self) -> Any:
        """What stands under the first key of a content that says something.

        Vercel's SDK writes an empty content beside filled parts. Where none says
        anything, the first that is there; None without any.
        """
        contents = [self.fields[key] for key in _CONTENT_KEYS if key in self.fields]
        filled = [each for each in contents if text_of_content(each)]
        return next(iter(filled or contents), None)

    @property
    def text(self) -> str:
        """What it says.

        A model writes one text in many blocks, and a tool a result in each block: those
        of an MCP server may be ["Lit in 1882.", "A horn followed."], each on a line of
        its own.
        """
        content = self.fields["content"]
        if isinstance(content, list) and self.role == "tool":
            return "\n".join(map(text_of_content, content))
        return text_of_content(content)


def unwrap_message(value: Mapping[str, Any]) -> UnwrappedMessage:
    """Return a message without the object that a framework has put around it.

    Example: LangChain writes ``{"type": "constructor", "id": [..., "HumanMessage"],
    "kwargs": {"content": "Hi"}}``: the class is "HumanMessage", and the fields are
    ``{"content": "Hi"}``. A bare message is returned as it is, without a class.
    """
    # LangChain's dumpd: {"id": […, "HumanMessage"], "kwargs": {…}, …}
    is_serialised = value.get("lc") == 1 and isinstance(value.get("id"), list)
    if is_serialised and isinstance(value.get("kwargs"), Mapping):
        return UnwrappedMessage(str(value["id"][-1]), value["kwargs"])
    # LangChain's messages_to_dict: {"type": "human", "data": {…}}
    if isinstance(value.get("data"), Mapping) and value.get("type") in ROLES:
        return UnwrappedMessage(str(value["type"]), value["data"])
    # OpenInference: {"message": {…}} and nothing beside it
    if len(value) == 1:
        (key,) = value
        if key in _WRAPPER_KEYS and isinstance(value[key], Mapping):
            return UnwrappedMessage("", value[key])
    return UnwrappedMessage("", value)


def known_role(speaker: object) -> str | None:
    """Return the role of who spoke; None for a name that is not in use."""
    if not isinstance(speaker, str):
        return None
    return ROLES.get(speaker) or ROLES.get(speaker.casefold())


def messages_of_pair(value: object) -> list[Mapping[str, Any]]:
    """Return a pair of texts as messages; [] for anything else.

    ``("human", "Hi")`` is one by the user, and ``("Hi", "Hello")`` two: by the user and
    by the assistant. The second is None where nobody answered yet.
    """
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return []
    first, second = value
    texts = [each for each in value if isinstance(each, str)]
    if not texts or not all(isinstance(each, (str, NoneType)) for each in value):
        return []
    if first is None:  # Gradio's greeting
        return [{"role": "assistant", "content": second}]
    role = known_role(first)
    if role is not None:
        return [{"role": role, "content": second}]
    return [
        {"role": "user", "content": first},
        {"role": "assistant", "content": second},
    ]


def with_written_messages(value: Any, depth: int = _DEEPEST) -> Any:
    """Return a value in which each message object of a framework is a mapping.

    Example: LangChain's ``HumanMessage("Who?")`` becomes ``{"role": "user", "content":
    "Who?"}``. No framework is imported: an object is a message if it names a known role
    and can be written, and a reply or a prompt if it holds messages. A value without
    such an object is returned itself.

    Args:
        value: A message, a list or mapping that may hold some, or anything else.
        depth: How many containers inside of each other are looked into.
    """
    if value is None or not depth or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, (list, tuple, Mapping)):
        parts = list(value.values() if isinstance(value, Mapping) else value)
        written = [with_written_messages(part, depth - 1) for part in parts]
        if all(map(is_, parts, written)):
            return value
        if isinstance(value, Mapping):
            return dict(zip(value, written, strict=True))
        return written
    names = [getattr(value, name, None) for name in ("role", "type")]
    roles = [ROLES[name] for name in names if isinstance(name, str) and name in ROLES]
    # pydantic's, as of LangChain and LlamaIndex; Haystack's
    write = getattr(value, "model_dump", None) or getattr(value, "to_dict", None)
    if roles and write is not None:
        fields = write()
        for name in ("content", "blocks"):
            if name in fields:
                calls = {key: fields[key] for key in _CALL_KEYS if fields.get(key)}
                return {"role": roles[0], "content": fields[name], **calls}
        return value
    for holder in _MESSAGE_HOLDERS:
        held = with_written_messages(getattr(value, holder, None), depth - 1)
        if any(said_messages(held)):
            return {holder: held}
    return value


def text_of_content(content: object) -> str:
    """Return the texts of a message's content, joined.

    ``[{"type": "text", "text": "Blue"}, {"type": "image", …}]`` has the text "Blue":
    images, calls of tools and a model's thoughts have none. "" without any text.
    """
    if isinstance(content, str) or is_number(content):
        return str(number_as_text(content))
    if isinstance(content, (list, tuple)):
        return "".join(text_of_content(part) for part in content)
    return _text_of_part(content) if isinstance(content, Mapping) else ""


def holds_media(content: object) -> bool:
    """Tell whether a message's content holds an image or a recording."""
    if isinstance(content, (list, tuple)):
        return any(map(holds_media, content))
    if not isinstance(content, Mapping):
        return False
    # Ollama writes {"content": "Who?", "images": ["iVBO…"]}
    objects = [
        key
        for key, value in content.items()
        if value and isinstance(value, (Mapping, list, tuple))
    ]
    names = [str(name) for name in (_kind(content), *objects)]
    return any(name.startswith(_MEDIA) or name in _FILES for name in names)


def names_media(document: object) -> bool:
    """Tell whether a document, or the node in it, has a field that holds media."""
    fields: Mapping[str, Any] = getattr(document, "__dict__", {})
    if isinstance(document, Mapping):
        fields = document
    if fields.get("node"):
        return names_media(fields["node"])
    return any(
        str(name).startswith(_MEDIA) and is_present(value)
        for name, value in fields.items()
        if not isinstance(value, list) or value
    )


def _kind(part: Mapping[str, Any]) -> object:
    """Return the type of a part of a content; LlamaIndex calls it otherwise.

    Vercel's SDK writes "tool-result" for "tool_result".
    """
    kind = part.get("type") or part.get("block_type")
    return kind.replace("-", "_") if isinstance(kind, str) else kind


def _text_of_part(part: Mapping[str, Any]) -> str:
    """Return the text of one part of a content, ``{"type": "text", "text": "Blue"}``.

    "" for an image, a call of a tool, or a model's thoughts.
    """
    # OpenInference writes the part one level deeper: {"message_content": {…}}
    fields = unwrap_message(part).fields
    kind = _kind(fields)
    # "web_fetch_tool_result": what the provider found, and nobody said
    is_of_provider = isinstance(kind, str) and kind.endswith("_tool_result")
    is_thought = fields.get("thought") is True  # Gemini's mark
    if kind in _SILENT_PARTS or is_of_provider or is_thought:
        return ""
    # a document: {"type": "document", "source": {"type": "text", "data": "Page one"}};
    # Amazon Bedrock's stands one level deeper: {"document": {"source": {"text": …}}}
    if isinstance(fields.get("document"), Mapping):
        fields = fields["document"]
    source = fields.get("source")
    if isinstance(source, Mapping):  # on lines of its own; "" for a file
        if "type" not in source:
            text = text_of_content(source.get("text") or source.get("content"))
            return f"{text}\n" if text else ""
        if source["type"] == "content":  # a text in parts
            return f"{text_of_content(source.get('content'))}\n"
        return f"{source.get('data')}\n" if source["type"] == "text" else ""
    # OpenAI's assistants write {"type": "text", "text": {"value": "Blue"}}
    of_text = ("value",) if kind is None else ()
    for key in ("text", "content", "response", "result", *of_text):
        if fields.get(key):
            return text_of_content(fields[key])
    return ""


def said_messages(value: object, depth: int = _DEEPEST) -> Iterator[SaidMessage]:
    """Yield the messages of a request or a reply, in order; also those without a text.

    Args:
        value: The request or the reply. Anything else holds no message.
        depth: How many containers inside of each other are looked into.

    Examples:
        >>> talk = {"messages": [{"role": "user", "content": "Who?"}]}
        >>> [(message.role, message.text) for message in said_messages(talk)]
        [('user', 'Who?')]
    """
    if depth and isinstance(value, (list, tuple)):
        unknown = unknown_types_of_parts(value)
        if unknown is not None:
            # a provider's own tool may have returned before the text
            ends_in_tool = str(_kind(value[-1])).endswith(_ENDS_OF_TOOL_PARTS)
            calls_tool = ends_in_tool or any(
                _kind(part) in CALL_PARTS for part in value
            )
            text, has_media = text_of_content(value), holds_media(value)
            yield SaidMessage(ANYONE, text, has_media, calls_tool, unknown)
            return
        value = oldest_first(value)
        pairs = [messages_of_pair(item) for item in value]
        if all(len(messages) == 1 for messages in pairs):  # [("human", "Hi"), …]
            value = [message for (message,) in pairs]
        messages = list(
            chain.from_iterable(said_messages(item, depth - 1) for item in value)
        )
        # several, none of which says who spoke, are no messages
        is_of_unknown = all(message.role == ANYONE for message in messages)
        yield from () if is_of_unknown and len(messages) > 1 else messages
    if not depth or not isinstance(value, Mapping):
        return
    message = unwrap_message(value)
    content = message.content
    # in a field of its own, or in its content
    parts = content if isinstance(content, (list, tuple)) else ()
    calls_tool = any(
        _kind(fields) in CALL_PARTS or any(map(fields.get, _CALL_KEYS))
        for fields in (message.fields, message.fields.get("additional_kwargs"), *parts)
        if isinstance(fields, Mapping)
    )
    # {"role": "user"} and what has no known role are no messages
    has_content = any(key in message.fields for key in _CONTENT_KEYS)
    if message.role is not None and (has_content or calls_tool):
        yield _said_by(message, message.role, calls_tool=calls_tool)
        return
    if str(value.get("type")).endswith("_call"):  # OpenAI's, beside messages
        yield SaidMessage("assistant", "", calls_tool=True)
        return
    if isinstance(message.fields.get("role"), str):  # of somebody else
        if message.role is None and has_content:
            yield SaidMessage(message.fields["role"], text_of_content(content))
        return
    for holder in _MESSAGE_HOLDERS:
        if isinstance(value.get(holder), (Mapping, list, tuple)):
            yield from said_messages(value[holder], depth - 1)
            return
    # A choice of a model that completes texts, which knows no roles.
    if "text" in value and "finish_reason" in value:
        yield SaidMessage("assistant", text_of_content(value["text"]))


def oldest_first(messages: Sequence[Any]) -> Sequence[Any]:
    """Return messages in the order in which they were said, as far as their times tell.

    What OpenAI lists of a thread begins with the newest.

    Examples:
        >>> said = [{"text": "b", "created": 1760000009}, {"text": "a", "created": 1760000007}]
        >>> [each["text"] for each in oldest_first(said)]
        ['a', 'b']
    """
    for name in _TIMES:
        times: list[Any] = [
            each.get(name) for each in messages if isinstance(each, Mapping)
        ]
        are_numbers = all(
            type(time) in (int, float) and time >= _FIRST_SECOND for time in times
        )
        are_dates = all(isinstance(time, str) and _DATE.match(time) for time in times)
        if not times or len(times) < len(messages) or not (are_numbers or are_dates):
            continue
        run_backwards = all(first >= last for first, last in pairwise(times))
        if run_backwards and times[0] != times[-1]:
            return messages[::-1]
    return messages


def _said_by(message: UnwrappedMessage, role: str, *, calls_tool: bool) -> SaidMessage:
    """Return what a message of a known role says.

    A part of an unknown type that holds prose may be said, and is not read. The names of
    one without a type stand for it: Amazon Bedrock writes ``{"citationsContent":
    {"content": [{"text": "Blue."}]}}``.
    """
    content = message.content
    parts = content if isinstance(content, (list, tuple)) else ()
    # OpenAI's spoken replies have no content beside {"audio": {…}}
    has_media = holds_media([message.fields, *map(message.fields.get, _CONTENT_KEYS)])
    shown = [
        part
        for part in parts
        if isinstance(part, Mapping)
        and (_kind(part) in _SHOWN_PARTS or "document" in part)
    ]
    unread: list[str] = []
    if parts and role != "tool":
        content = [part for part in parts if part not in shown]
        for part in shown:
            is_document = "document" in (_kind(part), *part)
            has_media = has_media or (is_document and not text_of_content([part]))
        for part in content:
            fields = unwrap_message(part).fields if isinstance(part, Mapping) else {}
            name = str(_kind(fields) or ", ".join(map(str, fields)))
            is_silent = fields.get("thought") is True or _SAID_BY_NOBODY.search(name)
            is_read = holds_media(part) or bool(text_of_content(part))
            if not (is_silent or is_read) and _holds_prose(part):
                unread.append(name)
    wholes: dict[str, str] = {}  # by its key what each of them says, without blanks
    for key in _WHOLE_CONTENTS:
        if words := text_of_content(message.fields.get(key)).split():
            wholes[key] = "".join(words)
    if len({*wholes.values()}) > 1:  # nobody knows which of them was said
        unread += wholes
    shows_documents = role == "tool" or bool(text_of_content(shown))
    text = text_of_content(content)
    return SaidMessage(role, text, has_media, calls_tool, unread, shows_documents)


def _holds_prose(value: object, depth: int = _DEEPEST) -> bool:
    if isinstance(value, str):
        return is_prose(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    parts = value if isinstance(value, (list, tuple)) and depth else ()
    return any(_holds_prose(part, depth - 1) for part in parts)


def is_of_parts(value: object) -> bool:
    """Tell whether a value is a list of parts of one message, all of known types."""
    return unknown_types_of_parts(value) == []


def unknown_types_of_parts(value: object) -> list[str] | None:
    """Return those types of the parts of one message that are not known.

    Example: ``[{"type": "text", "text": "Blue"}, …]``. Beside a text there may be calls
    and results of a provider's tools. Of other parts, such as a table, nobody knows
    whether they belong to what is said. None for what is no list of parts.
    """
    if not isinstance(value, (list, tuple)) or not value:
        return None
    if not all(isinstance(part, Mapping) for part in value):
        return None
    kinds = [str(part.get("type")) for part in value]
    has_said_part = not set(kinds).isdisjoint(_SAID_PARTS)
    unknown: list[str] = []
    for part, kind in zip(value, kinds, strict=True):
        is_known = kind in (*_SAID_PARTS, *_SILENT_PARTS) or holds_media(part)
        is_of_tool = has_said_part and kind.endswith(_ENDS_OF_TOOL_PARTS)
        if not (is_known or is_of_tool):
            # without a text, or with a message, it is a list of something else
            if not has_said_part or unwrap_message(part).role is not None:
                return None
            unknown.append(kind)
    return unknown


def last_said(messages: Sequence[SaidMessage], role: str) -> list[str]:
    """Return what a speaker said last: texts with nothing of another between them.

    What was said before or beside a call of a tool is not meant for the end, and what was
    said before the user's last words is no reply to them.
    """
    texts: list[str] = []
    for message in reversed(messages):
        is_speaker = message.role in (role, ANYONE)
        is_asked = message.role == "user" and message.text.strip() != ""
        ends_before = message.calls_tool if is_speaker else is_asked or texts
        if ends_before:
            break
        if is_speaker and message.text.strip():
            texts.insert(0, message.text)
    return texts


def several_in_one_row(field: str, number: int) -> str:
    """Say that a row holds several answers or references, as untyped parts may be."""
    return (
        f"{field}: {number} {field}s in one row, or pieces of one; write a row for each,"
        " with one conversation_id where they share their contexts, or the pieces joined"
    )
