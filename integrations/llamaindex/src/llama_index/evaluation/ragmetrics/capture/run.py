"""What is kept of a run: copies of what the framework's objects held when it happened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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
from llama_index.core.workflow import Event, StopEvent

from ragmetrics_core import Turn

Kind = Literal["query", "chat", "workflow", "retrieve", "post", "synth", "write", "tool"]
Streamed = StreamingResponse | AsyncStreamingResponse | StreamingAgentChatResponse

ENTRIES: frozenset[Kind] = frozenset({"query", "chat", "workflow"})
MOST_SPANS = 10_000  # of one run; a workflow that never ends must not fill the memory

_ANSWER_FIELDS = ("result", "answer", "response", "output", "text")


@dataclass(frozen=True, slots=True, repr=False)
class Node:
    """A node as it was at one moment.

    Args:
        id: The framework's id of the node.
        score: The retriever's or reranker's score.
        metadata: A shallow copy.
        text: The text as the model sees it (``MetadataMode.LLM``).
        plain: The text alone (``MetadataMode.NONE``).
    """

    id: str
    score: float | None
    metadata: dict[str, Any]
    text: str
    plain: str


@dataclass(slots=True, repr=False, eq=False)
class Span:
    """One step of a run.

    Args:
        kind: What it did.
        id: The framework's id of the span.
        parent: The nearest step around it.
        question: The question it was asked.
        history: Earlier turns that it was given.
        fields: Texts of a workflow's start event.
        taken: Nodes that it was given; None if it takes none.
        given: Nodes that it returned; None if it returned none, or has not returned.
        answer: What it answered.
        error: What it ended with, instead of returning.
        interrupted: True if it was cancelled, not failed.
    """

    kind: Kind
    id: str
    parent: Span | None = None
    question: str | None = None
    history: tuple[Turn, ...] = ()
    fields: dict[str, str] = field(default_factory=dict)
    taken: tuple[Node, ...] | None = None
    given: tuple[Node, ...] | None = None
    answer: str | None = None
    error: str | None = None
    interrupted: bool = False

    def within(self, kinds: Iterable[Kind]) -> bool:
        """True if a step around this one is of one of these kinds."""
        return self.around(kinds) is not None

    def around(self, kinds: Iterable[Kind]) -> Span | None:
        """The nearest step around this one that is of one of these kinds."""
        step = self.parent
        while step is not None and step.kind not in kinds:
            step = step.parent
        return step


@dataclass(slots=True, repr=False, eq=False)
class Run:
    """One run of an application, from its outermost engine inwards.

    Args:
        root: The outermost step.
        spans: All steps in the order in which they began, the root among them.
        model: The model that was called last.
        partial: What was read of a stream that broke off.
        complete: False if a stream was not read to its end, or the run was interrupted.
        cut: True if steps are missing because there were too many.
        inputs: The root's arguments as plain data, where the user names keys or paths.
        outputs: The root's result as plain data, likewise.
    """

    root: Span
    spans: list[Span] = field(default_factory=list)
    model: str | None = None
    partial: str | None = None
    complete: bool = True
    cut: bool = False
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)


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
        return found.response if found.is_done else None
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
    if isinstance(value, Event):
        kept = fields_of(value) | ({"result": value.result} if isinstance(value, StopEvent) else {})
        return {name: plain(item, depth - 1) for name, item in kept.items()}
    if isinstance(value, (Response, PydanticResponse, AgentChatResponse, Streamed, AgentOutput)):
        return {
            "response": answer_of(value),
            "source_nodes": plain(getattr(value, "source_nodes", []), depth - 1),
            "metadata": plain(getattr(value, "metadata", None), depth - 1),
        }
    return None
