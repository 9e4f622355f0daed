"""From what a span recorded to plain values: texts, documents, messages, mappings and tuples of these."""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from ragmetrics_core.capture import SCORE_KEYS, Document, Message, ToolCall
from ragmetrics_core.data import json_value
from ragmetrics_core.data.messages import CALL_PARTS, ROLES, text_of, unwrapped

_NAMED = re.compile(
    r"<NodeWithScore\(node=\w+\(id_=(.*)\), score=([^)]*)\)>", re.DOTALL
)
_OBJECT = re.compile(r"[A-Z]\w*\((?:\)|\w+=|$).*", re.DOTALL)
_STRANGE = re.compile(r"<.* at 0x[0-9a-f]+.*>", re.DOTALL)
# Python's own words for what is no literal, outside of texts: a member of an
# enumeration, and any other object.
_WORDS = re.compile(
    r"""('(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")|<[\w.]+: ('\w*')>|<(?:[^<>]|<[^<>]*>)*>""",
    re.DOTALL,
)
_HAYSTACK = ("id", "content", "blob", "score", "embedding", "sparse_embedding")
_DEPTH = 8
# A value that is nested deeper is none that an application recorded; how deep a Python
# can read differs by its version.
_DEEPEST = 100
# Of JSON, all but the brackets that open and close a list or an object outside of
# texts.
_NO_BRACKETS = re.compile(r""""(?:[^"\\]|\\.)*+"|[^][{}"]+""", re.DOTALL)


class NestedTooDeeply(ValueError):
    """A value is nested deeper than any that is read: its trace cannot be read."""


@dataclass(frozen=True, slots=True)
class ToolMessage(Message):
    """A tool's message, with what the tool returned beside its text."""

    artifact: Any = field(default=None, repr=False)


def plain(value: object, depth: int = _DEPTH) -> Any:
    """The plain value of an attribute, which may be JSON; ``NestedTooDeeply`` on every Python at the same depth."""
    if depth == _DEPTH:
        _refuse_deep_value(value)
    if isinstance(value, str):
        found = _decoded(value) if depth == _DEPTH else None
        return (
            (None if value == "null" else value)
            if found is None
            else plain(found, depth - 1)
        )
    if isinstance(value, list):
        return _pair(value) or (
            tuple(plain(item, depth - 1) for item in value) if depth else ()
        )
    if not isinstance(value, Mapping):
        return value
    known = _document(value) or _message(value)
    return known or (
        {str(key): plain(item, depth - 1) for key, item in value.items()}
        if depth
        else {}
    )


def mapping(value: Any) -> Mapping[str, Any]:
    """A value that is a mapping; any other is an empty one."""
    return value if isinstance(value, Mapping) else {}


def _decoded(value: object) -> Any:
    """What a text of JSON stands for, None for any other text.

    What is no text as it is.
    """
    if not isinstance(value, str):
        return value
    if value.lstrip()[:1] not in ("{", "[", '"'):
        return None
    _refuse_deep_text(value)
    try:
        return json_value(value)
    except (ValueError, RecursionError):
        return None


def _refuse_deep_text(text: str) -> None:
    """Raise ``NestedTooDeeply`` for JSON that opens more than the deepest number of brackets inside one another."""
    if text.count("{") + text.count("[") <= _DEEPEST:
        return
    steps = (
        1 if bracket in "{[" else -1
        for bracket in _NO_BRACKETS.sub("", text)
        if bracket in "{}[]"
    )
    if max(accumulate(steps), default=0) > _DEEPEST:
        raise NestedTooDeeply


def _refuse_deep_value(value: object) -> None:
    """Raise ``NestedTooDeeply`` for lists and mappings that stand deeper inside one another, without recursion."""
    level = [value]
    for _ in range(_DEEPEST + 1):
        level = [item for outer in level for item in _items(outer)]
        if not level:
            return
    raise NestedTooDeeply


def _items(value: object) -> Iterable[Any]:
    """What stands inside a mapping or a list; nothing inside any other value."""
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def made(
    text: object, name: object = None, score: object = None, metadata: object = None
) -> Document:
    """A document of what was recorded of it."""
    kept = {str(key): entry for key, entry in mapping(_decoded(metadata)).items()}
    scores = (
        float(one)
        for one in (score, *map(kept.get, SCORE_KEYS))
        if isinstance(one, (int, float))
    )
    return Document(
        str(text or ""), None if name is None else str(name), next(scores, None), kept
    )


def _document(value: object) -> Document | None:
    fields = unwrapped(mapping(value))[1]
    node = fields.get("node")
    if isinstance(node, Mapping) and "id_" in node:
        return _scored(node, fields.get("score"))
    # Haystack, which writes metadata beside the fields
    if {"id", "content", "blob"} <= set(fields):
        told = {key: one for key, one in fields.items() if key not in _HAYSTACK}
        return made(
            fields["content"],
            fields["id"],
            fields.get("score"),
            fields.get("meta", told),
        )
    text = fields.get("page_content")
    return (
        made(text, *map(fields.get, ("id", "score", "metadata")))
        if isinstance(text, str)
        else None
    )


def _scored(node: Mapping[str, Any], score: object) -> Document:
    """A node of LlamaIndex, with the text that models are shown of it, and as another form the text alone."""
    told, text = _decoded(node.get("metadata")) or {}, str(node.get("text") or "")
    line = str(node.get("metadata_template") or "{key}: {value}")
    joint = str(node.get("metadata_separator") or "\n")
    whole = str(node.get("text_template") or "{metadata_str}\n\n{content}")
    seen = [
        name
        for name in told
        if name not in (node.get("excluded_llm_metadata_keys") or ())
    ]
    lines = joint.join(
        line.replace("{key}", name).replace("{value}", str(told[name])) for name in seen
    )
    shown = (
        whole.replace("{metadata_str}", lines).replace("{content}", text).strip()
        if lines and text
        else text
    )
    return replace(
        made(shown, node["id_"], score, told), forms=() if shown == text else (text,)
    )


def _pair(value: list[Any]) -> Document | Message | None:
    """A document with its score, or a message with its role."""
    if len(value) == 2 and isinstance(value[0], str) and value[0] in ROLES:
        return _message({"role": value[0], "content": value[1]})
    scored = (
        _document(value[0])
        if len(value) == 2 and type(value[1]) in (int, float)
        else None
    )
    return scored and replace(scored, score=float(value[1]))


def _message(value: Mapping[str, Any]) -> Message | None:
    """A message of LangChain, of a provider or of a convention.

    None for anything else.
    """
    kind, fields = unwrapped(value)
    role = ROLES.get(str(fields.get("role") or kind or fields.get("type")))
    content = next(
        (
            fields[key]
            for key in ("content", "contents", "parts", "blocks")
            if key in fields
        ),
        None,
    )
    parts = (
        [one for one in content if isinstance(one, Mapping)]
        if isinstance(content, list)
        else []
    )
    fields = {**mapping(fields.get("additional_kwargs")), **fields}
    calls = list(fields.get("tool_calls") or ())
    calls += (
        one
        for one in parts
        if one.get("type") in CALL_PARTS or {"tool_call", "tool_name"} & set(one)
    )
    if role is None or (content is None and not calls and set(fields) != {"role"}):
        return None
    found = tuple(_call(one) for one in calls if isinstance(one, Mapping))
    if role != "tool":
        return Message(role, text_of(content), found)
    found = found or (
        ToolCall(str(fields.get("name") or ""), id=fields.get("tool_call_id")),
    )
    return ToolMessage(
        role, text_of(content), found, plain(fields.get("artifact"), _DEPTH - 1)
    )


def _call(call: Mapping[str, Any]) -> ToolCall:
    call = unwrapped(call)[1]
    inner = mapping(call.get("function")) or call
    given = _decoded(
        next(
            (inner[key] for key in ("args", "arguments", "input") if key in inner), None
        )
    )
    return ToolCall(
        str(inner.get("name") or inner.get("tool_name") or ""),
        mapping(given),
        call.get("id"),
    )


def messages_in(value: object) -> tuple[Message, ...]:
    """The messages that a model was shown."""
    if isinstance(value, tuple):
        return tuple(one for item in value for one in messages_in(item))
    if isinstance(value, Mapping):
        if value.get("type") == "text":
            return (Message("system", text_of(value)),)
        return tuple(
            one
            for name in ("messages", "prompt", "prompts")
            for one in messages_in(value.get(name))
        )
    said = Message("user", value) if isinstance(value, str) and value.strip() else value
    return (said,) if isinstance(said, Message) else ()


def replies_in(value: object) -> tuple[Message, ...]:
    """What a model said, in any of the forms in which providers and frameworks return it."""
    if isinstance(value, tuple):
        return tuple(one for item in value for one in replies_in(item))
    if isinstance(value, Mapping):
        names = (
            "generations",
            "message",
            "messages",
            "choices",
            "output",
            "text",
            "content",
        )
        return next(
            (found for name in names if (found := replies_in(value.get(name)))), ()
        )
    said = (
        Message("assistant", value)
        if isinstance(value, str) and value.strip()
        else value
    )
    return (said,) if isinstance(said, Message) and said.role == "assistant" else ()


def opened(value: Any, *, whole: bool = False, depth: int = _DEPTH) -> Any:
    """A value with LlamaIndex's objects that stand in it as text: as JSON, as Python writes them, or only named.

    With ``whole`` any text that has the form of an object is one.
    """
    if depth and isinstance(value, tuple):
        return tuple(opened(one, whole=whole, depth=depth - 1) for one in value)
    if depth and isinstance(value, Mapping):
        return {
            key: opened(one, whole=whole or key == "ev", depth=depth - 1)
            for key, one in value.items()
        }
    if not isinstance(value, str):
        return value
    named = _NAMED.fullmatch(value)
    if named is not None:
        return Document("", named[1], None if named[2] == "None" else float(named[2]))
    if value.startswith('{"node":'):
        return plain(value)
    if (whole or value.startswith("ChatMessage(")) and _OBJECT.fullmatch(value):
        return evaluated(value)
    return None if _STRANGE.fullmatch(value) else value


def evaluated(text: str) -> Any:
    """The fields of an object as Python writes it; None where it was cut."""
    try:
        return plain(
            _fields_of(
                ast.parse(
                    _WORDS.sub(lambda one: one[1] or one[2] or "None", text),
                    mode="eval",
                ).body
            )
        )
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _fields_of(node: ast.AST) -> Any:
    if isinstance(node, ast.Call) and not node.args:
        return {
            str(one.arg).lstrip("_"): _fields_of(one.value) for one in node.keywords
        }
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_fields_of(one) for one in node.elts]
    if isinstance(node, ast.Dict):
        return {
            str(_fields_of(key)): _fields_of(one)
            for key, one in zip(node.keys, node.values, strict=True)
            if key
        }
    return (
        ast.literal_eval(node)
        if isinstance(node, (ast.Constant, ast.UnaryOp))
        else None
    )
