"""What is kept of a run: plain copies of documents, messages and answers, and one node per span.

Nothing here refers to an object of the application, except the metadata values of
documents; what the application changes after the run does not change what was recorded.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import haystack
from haystack.dataclasses import (
    ChatMessage,
    ExtractedAnswer,
    GeneratedAnswer,
    TextContent,
)
from pydantic import BaseModel

from ragmetrics_core.capture import (
    Answer,
    Document,
    Listener,
    Message,
    ToolCall,
    is_bulk,
    kept_once,
)

PIPELINE = "haystack.pipeline.run"
COMPONENT = "haystack.component.run"
AGENT = "haystack.agent.run"
AGENT_LLM = "haystack.agent.step.llm"
AGENT_TOOL = "haystack.agent.step.tool"
KEPT = frozenset({PIPELINE, COMPONENT, AGENT, AGENT_LLM, AGENT_TOOL})

_EDITED = re.compile(r"The parameters for tool '[^']*' were updated by the user to:\n")
_DEPTH = 6
tick = itertools.count(1).__next__  # gives the next position in time, over all runs


@dataclass(frozen=True, slots=True)
class CopiedMessage(Message):
    """A copy of a ``ChatMessage``.

    Attributes:
        tool_calls: The tools that the message calls; of a tool's message the calls that
            it answers.
        holds_no_text: Whether it, or a tool's result in it, holds a part that is no text,
            such as an image.
        meta: What the model's provider said of a reply, with the name of the model; empty
            for other messages.
    """

    holds_no_text: bool = field(default=False, compare=False)
    meta: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


def copied(value: object, depth: int = _DEPTH) -> Any:
    """Copy a value, as objects of the core.

    Example: ``{"documents": [Document(content="Rome")]}`` of Haystack becomes a
    mapping with a tuple of one ``Document`` of the core. Lists become tuples.
    Embeddings, lists of more than 10,000 items and objects of any other class become
    None, but for pydantic's models and the application's own dataclasses.

    Args:
        value: A value of Haystack's or of the application.
        depth: How many containers inside of each other are read; what lies deeper
            becomes None.
    """
    if value is None or isinstance(
        value, (str, bool, int, float, Document, Message, Answer)
    ):
        return value
    if isinstance(value, haystack.Document):
        return _document(value)
    if isinstance(value, ChatMessage):
        return _message(value)
    if isinstance(value, GeneratedAnswer):
        return _generated(value)
    if isinstance(value, TextContent):  # a block of a tool's result
        return {"type": "text", "text": value.text}
    if isinstance(value, ExtractedAnswer):
        return Answer(value.data, is_extracted=True, question=value.query)
    if depth == 0:
        return None
    if isinstance(value, (list, tuple, set, frozenset)):
        elements = list(value)
        if is_bulk(elements):
            return None
        if _are_answers_of_one_conversation(value):
            elements = elements[-1:]  # only the last one answers the question
        return tuple(copied(element, depth - 1) for element in elements)
    if not isinstance(value, Mapping):
        kind = type(value)
        is_plain_dataclass = "__dataclass_fields__" in vars(kind)
        is_plain_dataclass = is_plain_dataclass and "__slots__" not in vars(kind)
        is_of_haystack = kind.__module__.startswith("haystack")
        is_of_application = is_plain_dataclass and not is_of_haystack
        if not is_of_application and not isinstance(value, BaseModel):
            return None
        value = vars(value)
    return {str(key): copied(element, depth - 1) for key, element in value.items()}


def _document(document: haystack.Document) -> Document:
    text, score = document.content or "", document.score
    key = (haystack.Document, document.id, score, text, repr(document.meta))
    return kept_once(
        key, lambda: Document(text, document.id, score, dict(document.meta or {}))
    )


def _generated(answer: GeneratedAnswer) -> Answer:
    """Copy an answer that an ``AnswerBuilder`` made, with its replies and documents.

    The builder keeps the model's replies and the model's name in the answer's
    metadata. Example: the reply "Thought: … Answer: Rome [1]" and a pattern that
    cuts out "Rome [1]": the answer is "Rome [1]", and ``replies`` holds the whole
    reply.
    """
    meta = answer.meta or {}
    messages = meta.get("all_messages")
    replies = []
    for message in messages if isinstance(messages, list) else []:
        text = message.text if isinstance(message, ChatMessage) else message
        if isinstance(text, str) and text:
            replies.append(text)
    model = meta.get("model")
    return Answer(
        answer.data,
        replies=tuple(replies),
        documents=tuple(map(_document, answer.documents or ())),
        question=answer.query,
        model=model if isinstance(model, str) else None,
    )


def tools_in(tools: object) -> Iterator[Any]:
    """Yield the tools of one, of a set of tools, or of a list of both."""
    # the class of tools takes long to import
    if isinstance(getattr(tools, "name", None), str):
        yield tools
    elif isinstance(tools, Iterable) and not isinstance(tools, str):
        for each in tools:
            yield from tools_in(each)


def _message(message: ChatMessage) -> CopiedMessage:
    """Copy a message of Haystack's.

    A message of a tool has no text of its own: it gets the texts of the tool's results.
    Example: the result "12 °C" of ``weather("Rome")`` becomes the text "12 °C", with
    the call ``weather``.

    Haystack may put a message in the place of earlier ones, to shorten a conversation,
    or note in a message that the user edited a call of a tool. Nobody said such a
    message: its role is *summary* or *other*.
    """
    role = str(message.role.value)
    compaction = message.meta.get("context_compaction")
    if isinstance(compaction, dict) and role != "tool":
        is_summary = "summar" in str(compaction.get("strategy"))
        role = "summary" if is_summary else "other"
    elif role == "user" and _EDITED.match(message.text or ""):
        role = "other"
    results = message.tool_call_results
    texts: list[str] = []
    # what cannot be read as text; older releases have no files
    not_texts: list[object] = [*message.images, *getattr(message, "files", ())]
    for result in results:
        parts = result.result if isinstance(result.result, list) else [result.result]
        for part in parts:
            text = part.text if isinstance(part, TextContent) else part
            if isinstance(text, str):
                texts.append(text)
            else:
                not_texts.append(part)
    # the calls of tools that it asks for, and those that it answers
    tool_calls = []
    for call in (*message.tool_calls, *(result.origin for result in results)):
        arguments = copied(call.arguments) or {}
        tool_calls.append(ToolCall(call.tool_name, arguments, call.id))
    return CopiedMessage(
        role,
        message.text or "\n".join(texts),
        tuple(tool_calls),
        holds_no_text=bool(not_texts),
        meta=dict(message.meta) if message.role.value == "assistant" else {},
    )


def _are_answers_of_one_conversation(elements: Collection[object]) -> bool:
    """Whether elements are answers that an ``AnswerBuilder`` made of a conversation.

    Example: the messages [user "Who?", assistant "Anna"] become two answers, "Who?" and
    "Anna". The builder keeps all messages in each answer's metadata.
    """
    return any(
        isinstance(message, ChatMessage) and message.role.value != "assistant"
        for element in elements
        if isinstance(element, GeneratedAnswer)
        for message in (element.meta or {}).get("all_messages") or ()
    )


@dataclass(eq=False, slots=True)
class Node:
    """One span of a run: what Haystack records of one call of a component, agent or tool."""

    operation: str  # Haystack's name of it, e.g. ``haystack.component.run``
    name: str  # of the component or tool; "" for others
    type: str  # class of the component, with its module
    parent: Node | None  # the span around it
    opened: int  # when it began, by ``tick``
    # the components that may send each of its inputs
    senders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gives_documents: bool = False  # by the types of its outputs
    gives_replies: bool = False  # by the names of its outputs
    closed: int = 0  # when it ended; 0 while it goes on
    # the tools that the model of a component, or of an agent's step, is told of
    offered_tools: tuple[str, ...] = ()
    # those of them with which the framework's own toolset finds further tools
    tools_that_find_tools: tuple[str, ...] = ()
    # values of its input sockets
    input: Mapping[str, Any] = field(default_factory=dict, repr=False)
    # values of its output sockets; None if it ended without
    output: Any = field(default=None, repr=False)
    # the exception that it ended with
    error: str | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"Node({self.operation!r}, {self.path!r})"

    @property
    def path(self) -> str:
        """Names of the components around it and its own, with dots.

        That of the run itself is left out: a component that code ran by itself.
        """
        around = reversed(self.ancestors[:-1])
        names = [node.name for node in around if node.operation == COMPONENT]
        return ".".join(filter(None, (*names, self.name)))

    @property
    def ancestors(self) -> tuple[Node, ...]:
        """The spans around it, innermost first."""
        ancestors = []
        node = self.parent
        while node is not None:
            ancestors.append(node)
            node = node.parent
        return tuple(ancestors)

    @property
    def agent(self) -> Node | None:
        """The agent around it."""
        return next((node for node in self.ancestors if node.operation == AGENT), None)

    @property
    def output_by_socket(self) -> Mapping[str, Any]:
        """Its outputs by socket; empty if it left none."""
        return self.output if isinstance(self.output, dict) else {}


@dataclass(eq=False, repr=False)
class Run:
    """One run of a pipeline or agent, as it was recorded.

    Attributes:
        listeners: Who gets the run once it has ended.
        task_or_thread: The thread and task that it began in.
        nodes: Its spans, in the order in which they began; the first is the run itself.
        complete: Whether it came to its end, be it by an error of the application; False
            if it was cancelled, abandoned or paused.
        paused: Whether a breakpoint stopped it.
    """

    listeners: tuple[Listener, ...] = ()
    task_or_thread: str = ""
    nodes: list[Node] = field(default_factory=list)
    complete: bool = True  # until its root is left otherwise
    paused: bool = False

    def __repr__(self) -> str:
        return f"Run({len(self.nodes)} spans)"

    @property
    def root(self) -> Node:
        """The span of the run itself."""
        return self.nodes[0]

    @property
    def began(self) -> int:
        """When it began, by ``tick``."""
        return self.root.opened

    @property
    def input(self) -> Mapping[str, Any]:
        """What the user gave, by component and socket; for an agent by socket."""
        return self.root.input

    @property
    def output(self) -> Mapping[str, Any]:
        """What the user got, by component and socket; for an agent by socket."""
        return self.root.output_by_socket

    def components(self) -> Iterator[Node]:
        """Its component spans, in the order in which they began."""
        return (node for node in self.nodes if node.operation == COMPONENT)
