"""Copies of what the framework's objects hold at one moment; they are live, and applications change them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llama_index.core.agent.workflow.workflow_events import AgentOutput, ToolCallResult
from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    PydanticResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.chat_engine.types import AgentChatResponse, StreamingAgentChatResponse
from llama_index.core.llms import ChatMessage
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.tools import BaseTool, ToolOutput
from llama_index.core.workflow import Event, StopEvent
from llama_index.evaluation.ragmetrics.capture.run import Node, Span

from ragmetrics_core import Turn

Streamed = StreamingResponse | AsyncStreamingResponse | StreamingAgentChatResponse

_ANSWER_FIELDS = ("result", "answer", "response", "output", "text")


def copy_arguments(step: Span, arguments: Mapping[str, Any]) -> None:
    """Copy what a step was given into it."""
    first = next(iter(arguments.values()), None)
    if step.kind in ("query", "retrieve"):
        step.question = question_of(first)
    elif step.kind == "chat":
        step.question = question_of(arguments.get("message", first))
        step.history = turns_of(arguments.get("chat_history"))
    elif step.kind == "synth":
        step.question, step.taken = question_of(arguments.get("query")), nodes_of(arguments.get("nodes"))
    elif step.kind == "post":
        query = arguments.get("query_bundle") or arguments.get("query_str")
        step.question, step.taken = question_of(query), nodes_of(arguments.get("nodes"))
    elif step.kind == "workflow":
        fields = start_fields(arguments)
        step.history = turns_of(fields.get("chat_history"))
        step.fields = {name: text for name, value in fields.items() if (text := question_of(value))}


def copy_result(step: Span, instance: object, result: object) -> None:
    """Copy what a step returned into it."""
    if step.kind in ("retrieve", "post"):
        step.given = nodes_of(result)
    elif step.kind == "tool":
        output = result.raw_output if isinstance(result, ToolOutput) else None
        listed = isinstance(output, list) and all(isinstance(item, NodeWithScore) for item in output)
        step.given = nodes_of(output) if listed else None
        step.answer = result.content if isinstance(result, ToolOutput) and not result.is_error else None
        step.name = (instance.metadata.name or "") if isinstance(instance, BaseTool) else ""
    elif step.kind == "write":
        written = isinstance(instance, StreamingAgentChatResponse) and instance.response
        step.answer = written or "".join(step.heard).strip()  # older cores leave the response to its reader
    else:
        step.answer, step.given = answer_of(result), sources_of(result)


def copy_error(step: Span, error: BaseException | None) -> None:
    """Note what a step ended with."""
    if error is not None:
        step.error = f"{type(error).__name__}: {error}"
        step.interrupted = not isinstance(error, Exception)


def node_of(item: NodeWithScore) -> Node:
    """Copy a node."""
    node = item.node
    return Node(
        id=node.node_id,
        score=None if item.score is None else float(item.score),
        metadata=dict(node.metadata),
        text=node.get_content(metadata_mode=MetadataMode.LLM),
        plain=node.get_content(metadata_mode=MetadataMode.NONE),
    )


def nodes_of(value: object) -> tuple[Node, ...]:
    """Copy all scored nodes of a list; anything else gives none."""
    if not isinstance(value, (list, tuple)):
        return ()
    return tuple(node_of(item) for item in value if isinstance(item, NodeWithScore))


def question_of(value: object) -> str | None:
    """The text of a question: a text, a query bundle or a chat message."""
    if isinstance(value, QueryBundle):
        return value.query_str
    if isinstance(value, ChatMessage):
        return value.content
    return value if isinstance(value, str) else None


def turns_of(value: object) -> tuple[Turn, ...]:
    """Chat messages with a text, as turns."""
    if not isinstance(value, (list, tuple)):
        return ()
    return tuple(
        Turn(role=str(message.role.value), content=message.content)
        for message in value
        if isinstance(message, ChatMessage) and message.content
    )


def fields_of(event: object) -> dict[str, Any]:
    """All fields of a workflow's event, declared or not."""
    if not isinstance(event, Event):
        return {}
    declared = {name: getattr(event, name) for name in type(event).model_fields}
    return {**dict(event.items()), **declared}


def start_fields(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What a workflow was started with: its start event's fields, in older workflows loose keywords."""
    loose = arguments.get("kwargs")
    return (loose if isinstance(loose, dict) else {}) | fields_of(arguments.get("start_event"))


def result_of(result: object) -> object:
    """What a workflow's stop event carries, else the result itself."""
    if not isinstance(result, StopEvent):
        return result
    if result.result is not None:
        return result.result
    fields = fields_of(result)
    return next((fields[name] for name in _ANSWER_FIELDS if fields.get(name) is not None), None)


def streamed(result: object) -> Streamed | None:
    """The streamed response in a result, None if it does not stream."""
    found = result_of(result)
    return found if isinstance(found, Streamed) else None


def answer_of(result: object) -> str | None:
    """The answer's text in anything that an engine returns; None if there is none, or not yet."""
    found = result_of(result)
    if isinstance(found, (str, Response, AgentChatResponse)):
        return found if isinstance(found, str) else found.response
    if isinstance(found, PydanticResponse):
        return None if found.response is None else str(found)
    if isinstance(found, (StreamingResponse, AsyncStreamingResponse)):
        return found.response_txt
    if isinstance(found, StreamingAgentChatResponse):
        return (found.response or None) if found.is_done else None
    if isinstance(found, AgentOutput):
        return found.response.content
    if isinstance(found, Mapping):
        return next((str(found[name]) for name in _ANSWER_FIELDS if found.get(name) is not None), None)
    return None


def sources_of(result: object) -> tuple[Node, ...]:
    """The source nodes that a result names."""
    found = result_of(result)
    if isinstance(found, (Response, PydanticResponse, AgentChatResponse, Streamed)):
        return nodes_of(found.source_nodes)
    return ()


def tool_sources_of(result: object) -> tuple[Node, ...]:
    """The nodes that an agent's tools returned, as its output lists them."""
    found = result_of(result)
    if not isinstance(found, AgentOutput):
        return ()
    calls: Iterable[object] = found.tool_calls  # the framework puts results among the calls
    outputs = [call.tool_output.raw_output for call in calls if isinstance(call, ToolCallResult)]
    return tuple(node for output in outputs for node in (nodes_of(output) or sources_of(output)))


def plain(value: object, depth: int = 6) -> Any:
    """Plain data of a value, for keys and paths that the user names; what is no data becomes None."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if depth == 0:
        return None
    if isinstance(value, NodeWithScore):
        node = node_of(value)
        return {"id": node.id, "text": node.text, "score": node.score, "metadata": node.metadata}
    if isinstance(value, (QueryBundle, ChatMessage)):
        return question_of(value)
    if isinstance(value, (list, tuple)):
        return [plain(item, depth - 1) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, (Response, PydanticResponse, AgentChatResponse, Streamed, AgentOutput)):
        return {
            "response": answer_of(value),
            "source_nodes": plain(getattr(value, "source_nodes", []), depth - 1),
            "metadata": plain(getattr(value, "metadata", None), depth - 1),
        }
    if isinstance(value, Event):
        return {name: plain(item, depth - 1) for name, item in fields_of(value).items()}
    return None
