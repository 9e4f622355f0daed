"""LangChain's values: snapshots of what steps hold, and the plain values that the rules read."""

import copy
import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, TypeGuard

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.prompt_values import PromptValue
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from ragmetrics_core.capture import Document as CapturedDocument
from ragmetrics_core.capture import Message, ToolCall
from ragmetrics_core.capture.plain_values import documents_in
from ragmetrics_core.capture.providers import ProviderEvidence, evidence_in_reply
from ragmetrics_core.capture.tree import SCORE_KEYS
from ragmetrics_core.data.messages import ROLES, text_of_content, unwrap_message

_DEPTH_COPIED = 4
# deeper than a structured answer: {"output": {"answer": [{"quotes": ["It fell."]}]}}
_DEPTH_READ = 10
_SHORT = 8  # items; a list of more numbers is a vector


class Copier:
    """Takes snapshots of what passes by in one root; later steps cannot change them.

    What one step returns and the next one takes is one document: it is copied once.
    """

    def __init__(self) -> None:
        # by the identity of a document: the document and its copy
        self._copies: dict[int, tuple[Document, Document]] = {}

    def forget(self) -> None:
        """Let go of the application's documents: its root has ended."""
        self._copies.clear()

    def copied(
        self, value: object, *, messages: bool = False, depth: int = _DEPTH_COPIED
    ) -> Any:
        """Take a snapshot of a run's inputs or outputs.

        Containers and documents are copied; what else they hold is shared. Example: of
        {"docs": [document]} the mapping, the list and the document are copied. A long
        list of numbers, such as an embedding, is shared as well: no rule reads it, and
        to copy the embeddings of a step would hold the application up.

        Args:
            value: Inputs or outputs of a run, or a part of them.
            messages: Copy messages and other objects with fields as well, which a later
                step may edit in place.
            depth: How many containers inside of each other are copied.
        """
        if value is None or isinstance(value, (str, int, float)):
            return value
        if isinstance(value, Document):
            return self._document(value)
        if isinstance(value, dict) and depth > 0:
            return {
                key: self.copied(element, messages=messages, depth=depth - 1)
                for key, element in value.items()
            }
        if depth > 0 and (type(value) is list or type(value) is tuple):
            if _looks_like_vector(value):
                return value
            elements = [
                self.copied(element, messages=messages, depth=depth - 1)
                for element in value
            ]
            return elements if type(value) is list else tuple(elements)
        return _copied_object(value) if messages else value

    def tool_output(self, output: Any) -> Any:
        """Copy what a tool returned.

        Of a command of LangGraph its update of the state is copied. A message keeps its
        artifact: the object beside its text, such as documents.
        """
        if is_command(output):
            output = output.update
        if isinstance(output, ToolMessage):
            artifact = self.copied(output.artifact)
            return output.model_copy(update={"artifact": artifact})
        if isinstance(output, dict):
            return {key: self.tool_output(part) for key, part in output.items()}
        if isinstance(output, list):
            return [self.tool_output(part) for part in output]
        return self.copied(output)

    def _document(self, document: Document) -> Document:
        """Copy a document, unless it was copied before and is unchanged."""
        known = self._copies.get(id(document))
        if known is not None and _is_as_copied(document, known[1]):
            return known[1]
        copy = document.model_copy(update={"metadata": dict(document.metadata)})
        self._copies[id(document)] = document, copy
        return copy


def _is_as_copied(document: Document, copy: Document) -> bool:
    """Whether a document holds the very objects that its copy holds."""
    if document.page_content is not copy.page_content or document.id != copy.id:
        return False
    metadata = document.metadata
    return len(metadata) == len(copy.metadata) and all(
        name in copy.metadata and copy.metadata[name] is value
        for name, value in metadata.items()
    )


def _copied_object(value: object) -> Any:
    """A shallow copy of a pydantic object or a dataclass; anything else as it is.

    A command of LangGraph, which tells a graph where to go, is not copied.
    """
    if isinstance(value, BaseModel):
        return value.model_copy()
    is_instance_of_dataclass = dataclasses.is_dataclass(value) and not isinstance(
        value, type
    )
    if is_instance_of_dataclass and not is_command(value):
        return copy.copy(value)
    return value


def plain(value: object, containers: tuple[object, ...] = ()) -> Any:
    """Turn a value of LangChain into plain values, which the rules of the core read.

    Plain values are texts, numbers, documents, messages, and mappings and tuples of
    these. Example: ``{"tags": ["a"]}`` becomes ``{"tags": ("a",)}``. A dataclass or a
    Pydantic object becomes a mapping of its fields. Any other object becomes
    ``{"answer": …}`` if it has a text ``answer``, else None.

    Args:
        value: The value.
        containers: The containers that it stands in, from the outermost. One of these
            within itself is empty, and so is what lies deeper than ten containers.
    """
    if value is None or isinstance(value, (str, int, float)):
        return value
    document_or_message = _document(value) or message_of(value)
    if document_or_message is not None:
        return document_or_message
    # a prompt template returned it
    if isinstance(value, PromptValue):
        value = value.to_messages()
    # a named tuple is read by its fields, below
    is_named_tuple = isinstance(value, tuple) and hasattr(value, "_asdict")
    is_left_out = len(containers) == _DEPTH_READ or any(
        value is container for container in containers
    )
    inside = (*containers, value)
    if isinstance(value, (list, tuple)) and not is_named_tuple:
        return () if is_left_out else _plain_elements(value, inside)
    fields = fields_of(value)
    if fields is not None and is_left_out:
        return {}
    if fields is not None:
        return {str(name): plain(field, inside) for name, field in fields.items()}
    return _plain_answer(value)


def _plain_answer(value: object) -> dict[str, str] | None:
    """A mapping of an object's ``answer``; None if it has no such text.

    LangGraph's ``Command`` says where a graph goes on: an ``answer`` there is no result.
    """
    if is_command(value):
        return None
    answer = getattr(value, "answer", None)
    return {"answer": answer} if isinstance(answer, str) else None


def _plain_elements(
    elements: Sequence[object], containers: tuple[object, ...]
) -> tuple[Any, ...]:
    """The elements of a list or tuple as plain values.

    A vector of numbers, such as an embedding, has none that a rule reads.

    Args:
        elements: The list or tuple.
        containers: What its elements stand in, the list itself last.
    """
    if _looks_like_vector(elements):
        kinds = {type(element) for element in elements}
        if kinds <= {int, float}:
            return ()
    return tuple(plain(element, containers) for element in elements)


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
        if not _is_number(score):
            return None
        document = _document(possible_document)
        if document is None:
            return None
        return dataclasses.replace(document, score=float(score))
    if isinstance(value, Mapping):
        fields = unwrap_message(value).fields
        text = fields.get("page_content")
        if isinstance(text, str):
            return _document_of(text, fields.get("id"), fields.get("metadata"))
    return None


def _document_of(text: str, name: object, metadata: object) -> CapturedDocument:
    """Make a document of the core.

    Its score is the first number under a usual key of its metadata: {"score": 0.8}
    gives 0.8. None without one.
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
    return CapturedDocument(
        text, name if isinstance(name, str) else None, score, metadata_copied
    )


def message_of(value: object) -> Message | None:
    """Read a message in any of the forms that LangChain accepts or stores.

    Example: ``HumanMessage("Who?")``, ("human", "Who?") and {"role": "user", "content":
    "Who?"} all give the user's message "Who?". None for anything else.
    """
    if isinstance(value, BaseMessage):
        calls = value.tool_calls if isinstance(value, AIMessage) else ()
        return _message(_role_of(value), value.content, calls)
    if isinstance(value, tuple) and len(value) == 2:
        kind, content = value
        if isinstance(kind, str) and kind in ROLES:
            return _message(ROLES[kind], content)
    if isinstance(value, Mapping):
        unwrapped = unwrap_message(value)
        if unwrapped.role is not None and "content" in unwrapped.fields:
            calls = unwrapped.fields.get("tool_calls") or ()
            return _message(unwrapped.role, unwrapped.fields["content"], calls)
    return None


def _role_of(message: BaseMessage) -> str:
    """The role of who speaks in a message, "summary" or "other".

    A summary is a message that LangChain's middleware put in the place of earlier ones.
    """
    if message.additional_kwargs.get("lc_source") == "summarization":
        return "summary"
    return ROLES.get(message.type, "other")


def _message(role: str, content: object, calls: Iterable[object] = ()) -> Message:
    """Make a message of the core: who speaks, the texts in its content, and its calls.

    A model writes one text in many blocks, and a tool a result in each block: those of
    an MCP server may be ["Lit in 1882.", "A horn followed."], each on a line of its own.
    """
    if role == "assistant" and isinstance(content, list):
        content = list(filter(_is_text_block, content))
    if role == "tool" and isinstance(content, list):
        text = "\n".join(map(text_of_content, content))
    else:
        text = text_of_content(content)
    tool_calls = [_call(call) for call in calls if isinstance(call, Mapping)]
    return Message(role, text, tuple(tool_calls))


def _is_text_block(block: object) -> bool:
    """Whether a block of a model's reply is text: neither code, an image nor a result."""
    if not isinstance(block, Mapping):
        return isinstance(block, str)
    return block.get("type", "text") in ("text", "text-plain", "output_text")


def content_of_sent(message: object) -> object:
    """The content of a message that the application sends: not of a model's reply."""
    if isinstance(message, BaseMessage):
        return () if isinstance(message, AIMessage) else message.content
    if not isinstance(message, Mapping):
        return ()
    unwrapped = unwrap_message(message)
    return () if unwrapped.role == "assistant" else unwrapped.fields.get("content")


def provider_evidence_of(message: object) -> ProviderEvidence:
    """Read what the provider of a model searched and found while it wrote a message.

    LangChain keeps it in the message's content, in its additional arguments and in its
    metadata. Example: OpenAI searched the web and cites two pages: they are the
    evidence. The message may be an object or stored as a mapping. The evidence is empty
    for a message that no model wrote, and for what is no message.
    """
    if isinstance(message, AIMessage):
        return evidence_in_reply(
            {"content": message.content},
            message.additional_kwargs,
            message.response_metadata,
        )
    if not isinstance(message, Mapping):
        return ProviderEvidence()
    plain_message = message_of(message)
    if plain_message is None or plain_message.role != "assistant":
        return ProviderEvidence()
    fields = unwrap_message(message).fields
    return evidence_in_reply(
        {"content": fields.get("content")},
        fields.get("additional_kwargs"),
        fields.get("response_metadata"),
    )


def messages_shown(message: object) -> Iterator[Message]:
    """Yield what a model is shown of a message: the message, and what a provider found for it.

    Nothing is yielded for what is no message.
    """
    message_said = message_of(message)
    if message_said is None:
        return
    yield message_said
    message_of_provider = provider_evidence_of(message).message
    if message_of_provider is not None:
        yield message_of_provider


def offered_tools(parameters: object) -> tuple[str, ...]:
    """The names of the tools that the parameters of a request offer to a model.

    Example: ``{"tools": [{"type": "function", "function": {"name": "search"}}]}`` offers
    "search". Providers write the name there or one level higher.
    """
    tools = parameters.get("tools") if isinstance(parameters, Mapping) else None
    names: list[str] = []
    for tool in tools if isinstance(tools, (list, tuple)) else ():
        fields = tool.get("function", tool) if isinstance(tool, Mapping) else tool
        name = fields.get("name") if isinstance(fields, Mapping) else fields
        if isinstance(name, str):
            names.append(name)
    return tuple(names)


def _call(call: Mapping[str, Any]) -> ToolCall:
    arguments = call.get("args")
    return ToolCall(
        str(call.get("name", "")),
        arguments if isinstance(arguments, Mapping) else {},
        call.get("id"),
    )


def fields_of(value: object) -> Mapping[str, Any] | None:
    """The fields, by name, of a mapping, pydantic model, dataclass or named tuple.

    Example: a dataclass ``State(question="Who?")`` gives {"question": "Who?"}. None for
    anything else. None also for messages and for commands of LangGraph: their single
    fields say nothing.
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
    """Yield the artifacts that a tool returned: objects beside its text.

    A message of a tool holds one: ``ToolMessage("2 hits", artifact=documents, …)``
    yields the documents. A tool may also return messages, a mapping that holds some, or
    a command of LangGraph, whose update of the state holds some. Any other output is
    yielded itself.
    """
    if isinstance(output, ToolMessage):
        yield output.artifact
    elif isinstance(output, Mapping) and message_of(output) is not None:
        yield unwrap_message(output).fields.get("artifact")
    elif is_command(output):
        # by name, since LangGraph may not be installed, which has the type
        yield from artifacts_of(getattr(output, "update", None))
    elif _holds_messages_only(output):
        for message in output:
            yield from artifacts_of(message)
    elif isinstance(output, Mapping):
        for part in output.values():
            yield from artifacts_of(part)
    else:
        yield output


def _holds_messages_only(output: object) -> TypeGuard[Sequence[object]]:
    """Whether an output is a list or tuple of messages."""
    if not isinstance(output, (list, tuple)):
        return False
    return all(message_of(element) is not None for element in output)


def documents_of(result: object) -> list[Document]:
    """The documents that a search of a store returned, with their scores if it gave them."""
    documents = []
    for document in documents_in(plain(result)):
        metadata = dict(document.metadata)
        if document.score is not None:
            metadata["relevance_score"] = document.score
        documents.append(
            Document(page_content=document.text, metadata=metadata, id=document.id)
        )
    return documents
