"""LangChain's values: snapshots of what steps hold, and the plain values that the rules read."""

import copy
import dataclasses
from collections.abc import Mapping
from numbers import Real
from types import NoneType
from typing import Any, TypeGuard, TypeVar

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.prompt_values import PromptValue
from pydantic import BaseModel

from ragmetrics_core.capture import Document as CapturedDocument
from ragmetrics_core.capture import (
    Message,
    ToolCall,
    UnwrappedMessage,
    is_bulk,
    unwrap_message,
)

_Value = TypeVar("_Value")
_DEPTH_COPIED = 4
# deeper than a structured answer: {"output": {"answer": [{"quotes": ["It fell."]}]}}
_DEPTH_READ = 10
_PLAIN = (str, int, float, CapturedDocument, Message)
_WITHOUT_DOCUMENTS = frozenset((str, int, float, bool, NoneType))
_MAPPINGS = (dict, Mapping)  # a dict is told at once


class _CopyOfDocument(CapturedDocument):
    """The core's document, which a function of the user's reads as LangChain's."""

    __slots__ = ()

    @property
    def page_content(self) -> str:
        return self.text


class _CopyOfMessage(Message):
    """The core's message, which a function of the user's reads as LangChain's."""

    __slots__ = ()

    @property
    def type(self) -> str:
        return {"user": "human", "assistant": "ai"}.get(self.role, self.role)


class Snapshots:
    """Takes what passes by in one run; later steps cannot change it.

    Documents and messages become the core's, and equal ones are one object.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Any] = {}
        # by the identity of a document of the application: it, and ours
        self._documents: dict[int, tuple[Document, CapturedDocument]] = {}

    def once(self, value: _Value) -> _Value:
        """The value; equal texts and messages are one object."""
        key: tuple[object, ...] = (value,)
        if isinstance(value, Message):
            ids_of_calls = [call.id for call in value.tool_calls]
            key = (value.role, value.text, *ids_of_calls)
        known: _Value = self._known.setdefault(key, value)
        return known if known == value else value

    def copied(self, value: object, depth: int = _DEPTH_COPIED) -> Any:
        """Take a snapshot of what a run was given or returned.

        Containers and objects with fields are copied; what else they hold is shared. A
        list that is too long, such as an embedding, is shared as well: no rule reads it.

        Args:
            value: What a run was given or returned, or a part of it.
            depth: How many containers inside of each other are copied.
        """
        if value is None or isinstance(value, (int, float)):
            return value
        if isinstance(value, str):
            return self.once(value)
        if isinstance(value, dict) and depth > 0:
            return {
                key: self.copied(element, depth - 1) for key, element in value.items()
            }
        if depth > 0 and (type(value) is list or type(value) is tuple):
            if is_bulk(value):
                return value
            elements = [self.copied(element, depth - 1) for element in value]
            return elements if type(value) is list else tuple(elements)
        if isinstance(value, Document):
            return self._document(value)
        if isinstance(value, BaseMessage):
            return self.once(message_of(value))
        return copy.copy(value) if fields_of(value) is not None else value

    def documents(self, value: object, depth: int = _DEPTH_COPIED) -> Any:
        """Take of a value only the documents that it holds, under the names where they stand.

        Example: {"question": "Who?", "found": [document], "kept": []} gives {"found":
        (document,), "kept": ()}. An empty list may say that documents were dropped.
        None if a value holds neither.
        """
        if type(value) in _WITHOUT_DOCUMENTS:
            return None
        if type(value) is Document:
            return self._document(value)
        if isinstance(value, (list, tuple)):
            if depth == 0 or is_bulk(value):
                return None
            scored = _document(value) if len(value) == 2 else None
            if scored is not None:
                return scored
            parts = [self.documents(element, depth - 1) for element in value]
            held = tuple([part for part in parts if part is not None])
            return held if held or not value else None
        if isinstance(value, (BaseMessage, PromptValue)):
            return None
        fields = fields_of(value)
        if not fields:
            return None
        document = _document_of_fields(fields)
        if document is not None or depth == 0:
            return document
        by_name = {}
        for name, field in fields.items():
            part = self.documents(field, depth - 1)
            if part is not None:
                by_name[str(name)] = part
        return by_name or None

    def _document(self, value: Document) -> CapturedDocument:
        """The core's document; the same one while the application does not change it."""
        _, known = self._documents.get(id(value), (value, None))
        if (
            known is not None
            and known.text == value.page_content
            and known.id == value.id
            and known.metadata == value.metadata
        ):
            return known
        document = _document_of(value.page_content, value.id, value.metadata)
        self._documents[id(value)] = value, document
        return document


def plain(value: object, containers: tuple[object, ...] = ()) -> Any:
    """Turn a value of LangChain into plain values, which the rules of the core read.

    Plain values are texts, numbers, documents, messages, and mappings and tuples of
    these. Example: ``{"tags": ["a"]}`` becomes ``{"tags": ("a",)}``. A dataclass or a
    Pydantic object becomes a mapping of its fields. Any other object becomes None.

    Args:
        value: The value.
        containers: The containers that it stands in, from the outermost. One of these
            within itself is empty, and so is what lies deeper than ten containers.
    """
    if value is None or isinstance(value, _PLAIN):
        return value
    document_or_message = _document(value) or message_of(value)
    if document_or_message is not None:
        return document_or_message
    is_left_out = len(containers) == _DEPTH_READ or any(
        value is container for container in containers
    )
    inside = (*containers, value)
    if isinstance(value, (list, tuple)):
        if is_left_out or is_bulk(value):
            return ()
        return tuple(plain(element, inside) for element in value)
    fields = fields_of(value)
    if fields is None:
        return None
    if is_left_out:
        return {}
    return {str(name): plain(field, inside) for name, field in fields.items()}


def _document(value: object) -> CapturedDocument | None:
    """Read a document: LangChain's own, one stored as a dict, or one with its score.

    Example: ``Document(page_content="Rome is old.")``, ``{"page_content": "Rome is
    old."}`` and the pair of a document and 0.8 each give a document with this text, the
    last one with the score 0.8. None for anything else.
    """
    if isinstance(value, Document):
        return _document_of(value.page_content, value.id, value.metadata)
    if isinstance(value, (tuple, list)) and len(value) == 2:
        possible_document, score = value
        if not isinstance(score, Real) or isinstance(score, bool):
            return None
        document = _document(possible_document)
        if document is None:
            return None
        return dataclasses.replace(document, score=float(score))
    if isinstance(value, _MAPPINGS):
        return _document_of_fields(value)
    return None


def _document_of_fields(value: Mapping[Any, Any]) -> CapturedDocument | None:
    """Read a document that is stored as its fields; None if they are of anything else."""
    fields = unwrap_message(value).fields if "lc" in value else value
    text = fields.get("page_content")
    if not isinstance(text, str):
        return None
    return _document_of(text, fields.get("id"), fields.get("metadata"))


def _document_of(text: str, name: object, metadata: object) -> CapturedDocument:
    """Make a document of the core, whose score may stand in its metadata."""
    fields = metadata if isinstance(metadata, _MAPPINGS) else {}
    return _CopyOfDocument.scored_by_metadata(
        text,
        name if isinstance(name, str) else None,
        {str(key): entry for key, entry in fields.items()},
    )


def unwrapped(value: object) -> UnwrappedMessage | None:
    """The kind and the fields of a message in any form that LangChain accepts or stores.

    Example: ``HumanMessage("Who?")``, ("human", "Who?") and {"role": "user", "content":
    "Who?"} all are a message of the user with the content "Who?". None for anything
    else.
    """
    if isinstance(value, BaseMessage):
        return UnwrappedMessage(value.type, vars(value))
    if isinstance(value, tuple) and len(value) == 2:
        kind, content = value
        value = {"role": kind, "content": content}
    if isinstance(value, Mapping):
        message = unwrap_message(value)
        if "content" in message.fields and message.role is not None:
            return message
    return None


def message_of(value: object) -> Message | None:
    """Read a message; None for anything else."""
    message = unwrapped(value)
    return None if message is None else read_message(message)


def read_message(message: UnwrappedMessage) -> Message:
    """Make a message of the core: who speaks, the texts in its content, and its calls."""
    role = message.role or "other"
    # LangChain's middleware put it in the place of earlier messages
    arguments = message.fields.get("additional_kwargs")
    if arguments and arguments.get("lc_source") == "summarization":
        role = "summary"
    calls = message.fields.get("tool_calls") or ()
    tool_calls = []
    for call in calls:
        if isinstance(call, Mapping):
            arguments = call.get("args")
            tool_call = ToolCall(
                str(call.get("name", "")),
                arguments if isinstance(arguments, Mapping) else {},
                call.get("id"),
            )
            tool_calls.append(tool_call)
    return _CopyOfMessage(role, message.text, tuple(tool_calls))


def fields_of(value: object) -> Mapping[str, Any] | None:
    """The fields, by name, of a mapping, pydantic model or dataclass.

    Example: a dataclass ``State(question="Who?")`` gives {"question": "Who?"}. None for
    anything else, and for commands of LangGraph: their fields say nothing.
    """
    if isinstance(value, _MAPPINGS):
        return value
    if is_command(value):
        return None
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
        }
    return None


def is_command(value: object) -> TypeGuard[Any]:
    """True for LangGraph's ``Command``, which resumes or routes a graph.

    LangGraph is not imported for it.
    """
    return type(value).__name__ == "Command" and type(value).__module__.startswith(
        "langgraph"
    )
