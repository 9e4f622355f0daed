"""LangChain's values: snapshots of what steps hold, and the plain values that the rules read."""

import copy
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.prompt_values import PromptValue
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from ragmetrics_core import capture
from ragmetrics_core.capture import SCORE_KEYS, Message, ToolCall

_DEPTH = 4
_SHORT = 8  # items; a list of more numbers is a vector
ROLES = {
    **dict.fromkeys(("human", "user", "HumanMessage", "HumanMessageChunk"), "user"),
    **dict.fromkeys(("ai", "assistant", "AIMessage", "AIMessageChunk"), "assistant"),
    **dict.fromkeys(("system", "developer", "SystemMessage"), "system"),
    **dict.fromkeys(("tool", "ToolMessage", "function", "FunctionMessage"), "tool"),
    "summary": "summary",
    "other": "other",
}


def copied(value: object, *, messages: bool = False, depth: int = _DEPTH) -> Any:
    """A snapshot: containers and documents are copied, what else they hold is shared.

    Args:
        value: Inputs or outputs of a run.
        messages: Copy messages and other objects with fields as well, which a later
            step may edit in place.
        depth: Levels of containers to copy.
    """
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Document):
        return value.model_copy(update={"metadata": dict(value.metadata)})
    if isinstance(value, dict) and depth:
        return {
            key: copied(element, messages=messages, depth=depth - 1)
            for key, element in value.items()
        }
    if depth and (type(value) is list or type(value) is tuple):
        if _looks_like_vector(value):
            # no rule reads it, and copying the embeddings of a step would hold the
            # application up
            return value
        elements = [
            copied(element, messages=messages, depth=depth - 1) for element in value
        ]
        return elements if type(value) is list else tuple(elements)
    if messages and isinstance(value, BaseModel):
        return value.model_copy()
    if (
        messages
        and dataclasses.is_dataclass(value)
        and not isinstance(value, type)
        and not is_command(value)
    ):
        return copy.copy(value)
    return value


def plain(value: object, depth: int = _DEPTH) -> Any:
    """The same as plain values: texts, documents, messages, mappings and sequences of these.

    Live objects are read, and the dicts that checkpoints and servers give back.
    """
    if value is None or isinstance(value, (str, int, float)):
        return value
    document_or_message = _document(value) or message_of(value)
    if document_or_message is not None:
        return document_or_message
    if isinstance(value, PromptValue):
        value = value.to_messages()
    if isinstance(value, (list, tuple)) and not hasattr(value, "_asdict"):
        if _looks_like_vector(value) and all(
            type(element) in (int, float) for element in value
        ):
            return ()
        return tuple(plain(element, depth - 1) for element in value) if depth else ()
    fields = fields_of(value)
    if fields is not None:
        return (
            {str(key): plain(element, depth - 1) for key, element in fields.items()}
            if depth
            else {}
        )
    # an object of any class
    answer = None if is_command(value) else getattr(value, "answer", None)
    return {"answer": answer} if isinstance(answer, str) else None


def _looks_like_vector(value: Sequence[object]) -> bool:
    """True for a long list whose first and last items are numbers.

    An embedding is one, and a list of token ids.
    """
    return (
        len(value) > _SHORT
        and type(value[0]) in (int, float)
        and type(value[-1]) in (int, float)
    )


def _is_number(value: object) -> bool:
    """True for real numbers, numpy's included, but not for booleans."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _document(value: object) -> capture.Document | None:
    """A document, a document with its score, or a document as a dict.

    None for anything else.
    """
    if isinstance(value, Document):
        return _document_of(value.page_content, value.id, value.metadata)
    if isinstance(value, (tuple, list)) and len(value) == 2 and _is_number(value[1]):
        inner = _document(value[0])
        return (
            None if inner is None else dataclasses.replace(inner, score=float(value[1]))
        )
    if isinstance(value, Mapping):
        fields = _unwrapped(value)
        if isinstance(fields.get("page_content"), str):
            return _document_of(
                fields["page_content"], fields.get("id"), fields.get("metadata")
            )
    return None


def _document_of(text: str, name: object, metadata: object) -> capture.Document:
    """A document of the core.

    Its score is the first number under a usual key of its metadata; None without one.
    """
    metadata_copied = (
        {str(key): entry for key, entry in metadata.items()}
        if isinstance(metadata, Mapping)
        else {}
    )
    score = next(
        (
            float(metadata_copied[key])
            for key in SCORE_KEYS
            if _is_number(metadata_copied.get(key))
        ),
        None,
    )
    return capture.Document(
        text, name if isinstance(name, str) else None, score, metadata_copied
    )


def message_of(value: object) -> Message | None:
    """A message in any of the forms that LangChain accepts or stores.

    None for anything else.
    """
    if isinstance(value, BaseMessage):
        calls = value.tool_calls if isinstance(value, AIMessage) else ()
        return Message(
            ROLES.get(kind_of(value), "other"),
            text_of(value.content),
            tuple(map(_call, calls)),
        )
    if (
        isinstance(value, tuple)
        and len(value) == 2
        and isinstance(value[0], str)
        and value[0] in ROLES
    ):
        return Message(ROLES[value[0]], text_of(value[1]))
    if isinstance(value, Mapping):
        fields = _unwrapped(value)
        kind = (
            value["id"][-1]
            if fields is not value
            else value.get("role", value.get("type"))
        )
        if isinstance(kind, str) and kind in ROLES and "content" in fields:
            tool_calls = [
                call
                for call in fields.get("tool_calls") or ()
                if isinstance(call, Mapping)
            ]
            return Message(
                ROLES[kind], text_of(fields["content"]), tuple(map(_call, tool_calls))
            )
    return None


def provider_evidence_of(message: object) -> capture.ProviderEvidence:
    """What the provider of a model found while it wrote a message.

    Empty for a message of anybody else. LangChain keeps it in the content, in the
    additional arguments and in the metadata.
    """
    if isinstance(message, AIMessage):
        return capture.evidence_in_reply(
            {"content": message.content},
            message.additional_kwargs,
            message.response_metadata,
        )
    said = message_of(message) if isinstance(message, Mapping) else None
    if said is None or said.role != "assistant" or not isinstance(message, Mapping):
        return capture.ProviderEvidence()
    fields = _unwrapped(message)
    return capture.evidence_in_reply(
        {"content": fields.get("content")},
        fields.get("additional_kwargs"),
        fields.get("response_metadata"),
    )


def messages_shown(message: object) -> Iterator[Message]:
    """Yield what a model is shown of a message: the message, and what a provider found for it.

    Nothing for what is no message.
    """
    said = message_of(message)
    if said is None:
        return
    yield said
    found = provider_evidence_of(message).message
    if found is not None:
        yield found


def kind_of(message: BaseMessage) -> str:
    """The type of a message, as LangChain names it.

    A summary that a middleware put in the place of earlier messages has a type of its
    own.
    """
    return (
        "summary"
        if message.additional_kwargs.get("lc_source") == "summarization"
        else message.type
    )


def _call(call: Mapping[str, Any]) -> ToolCall:
    arguments = call.get("args")
    return ToolCall(
        str(call.get("name", "")),
        arguments if isinstance(arguments, Mapping) else {},
        call.get("id"),
    )


def _unwrapped(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fields of an object as LangChain's ``dumpd`` writes it, else the mapping itself."""
    serialized = (
        value.get("lc") == 1
        and isinstance(value.get("kwargs"), Mapping)
        and isinstance(value.get("id"), list)
    )
    return value["kwargs"] if serialized else value


def text_of(content: object) -> str:
    """The text blocks of a message's content, joined."""
    if isinstance(content, str):
        return content
    if isinstance(content, (list, tuple)):
        return "".join(text_of(block) for block in content)
    if not isinstance(content, Mapping):
        return ""
    # evidence as providers take it
    if content.get("type") in ("document", "search_result", "tool_result"):
        data = _data_of_source(content.get("source"))
        return text_of(data or content.get("content")) + "\n"
    return (
        text_of(content.get("text"))
        if content.get("type", "text") in ("text", "text-plain", "output_text")
        else ""
    )


def _data_of_source(source: object) -> object:
    """What Anthropic's document holds: a text or blocks of text; None for a file."""
    if not isinstance(source, Mapping):
        return None
    if source.get("type") == "text":
        return source.get("data")
    return source.get("content") if source.get("type") == "content" else None


def fields_of(value: object) -> Mapping[str, Any] | None:
    """Fields of a dict, pydantic model, dataclass or named tuple.

    None for anything else.
    """
    if isinstance(value, Mapping):
        return value
    if isinstance(value, BaseMessage) or is_command(value):
        return None
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
        }
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return dict(value._asdict())
    return None


def is_command(value: object) -> bool:
    """True for LangGraph's ``Command``, which resumes or routes a graph.

    LangGraph is not imported for it.
    """
    return type(value).__name__ == "Command" and type(value).__module__.startswith(
        "langgraph"
    )


def compact(value: object) -> str:
    """A structured value as compact JSON."""
    return json.dumps(to_jsonable_python(value, fallback=str), ensure_ascii=False)


def artifacts_of(output: object) -> Iterator[object]:
    """Yield what a tool returned beside its text.

    That is the artifact of its message, or of the messages of its command. An output of
    another kind is yielded itself.
    """
    if isinstance(output, ToolMessage):
        yield output.artifact
    elif isinstance(output, Mapping) and message_of(output) is not None:
        yield _unwrapped(output).get("artifact")
    elif is_command(output):
        # LangGraph is not imported for its type
        yield from artifacts_of(getattr(output, "update", None))
    elif isinstance(output, (list, tuple)) and all(
        message_of(part) is not None for part in output
    ):
        for part in output:
            yield from artifacts_of(part)
    elif isinstance(output, Mapping):
        for part in output.values():
            yield from artifacts_of(part)
    else:
        yield output
