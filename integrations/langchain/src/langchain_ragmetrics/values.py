"""Reading LangChain's values: documents and messages, live or as the dicts that checkpoints and servers give back."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any, Literal, NamedTuple

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.prompt_values import PromptValue
from pydantic import BaseModel

from ragmetrics_core import Context

SCORE_KEYS = ("relevance_score", "score", "similarity_score", "similarity", "_score")
DISTANCE_KEYS = ("distance", "_distance")
_DEPTH = 4

Role = Literal["user", "assistant", "system", "tool", "other"]
_ROLES: dict[str, Role] = {
    "human": "user",
    "user": "user",
    "HumanMessage": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "developer": "system",
    "SystemMessage": "system",
    "tool": "tool",
    "ToolMessage": "tool",
    "function": "tool",
    "FunctionMessage": "tool",
}


class Said(NamedTuple):
    """One chat message.

    Args:
        role: Who spoke.
        text: The text blocks, joined.
        calls: Names of the tools that the message calls.
    """

    role: Role
    text: str
    calls: tuple[str, ...] = ()


def is_number(value: object) -> bool:
    """True for real numbers, numpy's included, but not for booleans."""
    return isinstance(value, Real) and not isinstance(value, bool)


def context_of(value: object) -> Context | None:
    """A context from a document, a document with its score, or a document as a dict; None for anything else."""
    if isinstance(value, Document):
        return _context(value.page_content, value.id, value.metadata)
    if isinstance(value, (tuple, list)) and len(value) == 2 and is_number(value[1]):
        inner = context_of(value[0])
        return None if inner is None else inner.model_copy(update={"score": float(value[1])})
    if isinstance(value, Mapping):
        fields: Mapping[str, Any] = value["kwargs"] if _is_serialized(value) else value
        text, metadata, name = fields.get("page_content"), fields.get("metadata"), fields.get("id")
        if isinstance(text, str):
            return _context(text, name if isinstance(name, str) else None, metadata)
    return None


def _context(text: str, name: str | None, metadata: object) -> Context:
    kept = {str(key): entry for key, entry in metadata.items()} if isinstance(metadata, Mapping) else {}
    return Context(text=text, id=name, score=score_in(kept), metadata=kept)


def score_in(metadata: Mapping[str, Any]) -> float | None:
    """The score that a retriever or reranker left in the metadata, in its own unit."""
    for key in SCORE_KEYS:
        if is_number(metadata.get(key)):
            return float(metadata[key])
    return None


def contexts_in(value: object, depth: int = _DEPTH) -> Iterator[Context]:
    """Documents in a value and its dicts and lists; never those inside messages."""
    found = context_of(value)
    if found is not None:
        yield found
    elif depth and not isinstance(value, (str, BaseMessage)):
        if isinstance(value, Mapping):
            items: Iterator[object] = iter(value.values()) if said(value) is None else iter(())
        elif isinstance(value, (list, tuple)):
            items = iter(value)
        else:
            return
        for item in items:
            yield from contexts_in(item, depth - 1)


def copied(value: object, *, messages: bool = False, depth: int = _DEPTH) -> Any:
    """A snapshot: containers and documents are copied, what else they hold is shared.

    Args:
        value: Inputs or outputs of a run.
        messages: Copy messages and other objects with fields as well, which a later step may edit in place.
        depth: Levels of containers to copy.
    """
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Document):
        return value.model_copy(update={"metadata": dict(value.metadata)})
    if isinstance(value, dict) and depth:
        return {key: copied(item, messages=messages, depth=depth - 1) for key, item in value.items()}
    if depth and (type(value) is list or type(value) is tuple):
        items = [copied(item, messages=messages, depth=depth - 1) for item in value]
        return items if type(value) is list else tuple(items)
    if messages and isinstance(value, BaseModel):
        return value.model_copy()
    if messages and dataclasses.is_dataclass(value) and not isinstance(value, type) and not is_command(value):
        return copy.copy(value)
    return value


def said(value: object) -> Said | None:
    """A message in any of the forms that LangChain accepts or stores; None for anything else."""
    if isinstance(value, BaseMessage):
        calls = tuple(call["name"] for call in value.tool_calls) if isinstance(value, AIMessage) else ()
        return Said(_ROLES.get(value.type, "other"), text_of(value.content), calls)
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and value[0] in _ROLES:
        return Said(_ROLES[value[0]], text_of(value[1]))
    if isinstance(value, Mapping):
        fields: Mapping[str, Any] = value["kwargs"] if _is_serialized(value) else value
        kind = value["id"][-1] if _is_serialized(value) else value.get("role", value.get("type"))
        if isinstance(kind, str) and kind in _ROLES and "content" in fields:
            made = [call for call in fields.get("tool_calls") or () if isinstance(call, Mapping)]
            return Said(_ROLES[kind], text_of(fields["content"]), tuple(str(call.get("name", "")) for call in made))
    return None


def _is_serialized(value: Mapping[str, Any]) -> bool:
    """True for an object as LangChain's ``dumpd`` writes it."""
    return value.get("lc") == 1 and isinstance(value.get("kwargs"), Mapping) and isinstance(value.get("id"), list)


def text_of(content: object) -> str:
    """The text blocks of a message's content, joined."""
    if isinstance(content, str):
        return content
    if isinstance(content, (list, tuple)):
        return "".join(text_of(block) for block in content)
    if isinstance(content, Mapping) and content.get("type", "text") in ("text", "output_text"):
        return text_of(content.get("text"))
    return ""


def conversation(value: object) -> tuple[Said, ...] | None:
    """Messages of a list or prompt value; None if it holds anything else."""
    if isinstance(value, PromptValue):
        value = value.to_messages()
    if not isinstance(value, (list, tuple)) or not value:
        return None
    found = [Said("user", item) if isinstance(item, str) else said(item) for item in value]
    kept = tuple(one for one in found if one is not None)
    return kept if len(kept) == len(found) else None


def fields_of(value: object) -> Mapping[str, Any] | None:
    """Fields of a dict, pydantic model, dataclass or named tuple; None for anything else."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, BaseMessage) or is_command(value):
        return None
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return dict(value._asdict())
    return None


def is_command(value: object) -> bool:
    """True for LangGraph's ``Command``, which resumes or routes a graph; LangGraph is not imported for it."""
    return type(value).__name__ == "Command" and type(value).__module__.startswith("langgraph")


def compact(value: object) -> str:
    """A structured value as compact JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    fields = fields_of(value)
    return json.dumps(value if fields is None else dict(fields), ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    fields = fields_of(value)
    return str(value) if fields is None else dict(fields)


def artifacts_of(output: object) -> Iterator[object]:
    """What a tool returned beside its text: the artifact of its message, or of the messages of its command."""
    if isinstance(output, ToolMessage):
        yield output.artifact
    elif isinstance(output, Mapping) and said(output) is not None:
        yield (output["kwargs"] if _is_serialized(output) else output).get("artifact")
    elif is_command(output):
        yield from artifacts_of(getattr(output, "update", None))  # LangGraph is not imported for its type
    elif isinstance(output, (list, tuple)) and all(said(item) is not None for item in output):
        for item in output:
            yield from artifacts_of(item)
    elif isinstance(output, Mapping):
        for item in output.values():
            yield from artifacts_of(item)
    else:
        yield output
