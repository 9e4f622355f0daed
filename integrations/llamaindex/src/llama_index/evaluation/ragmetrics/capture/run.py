"""What is kept of a run: the core's tree of calls, and what the framework itself says of question and answer."""

from dataclasses import dataclass, field
from typing import Any, Literal

from ragmetrics_core import Turn
from ragmetrics_core.capturing import Document, Node

Root = Literal["query", "chat", "workflow", "retrieve", "post", "synth", "respond", "model", "program", "predict"]
Kind = Literal[Root, "tool", "write", "ignored"]
"""What a span of the framework does."""


@dataclass(frozen=True, slots=True)
class Pointer(Document):
    """A node that stands for another index or table: evidence only where it is itself handed on."""


@dataclass(slots=True, repr=False, eq=False)
class Run:
    """One run of an application, from its outermost call inwards."""

    kind: Kind  # what the outermost call does
    root: Node  # the outermost call, with its question and answer; the others are its children
    strand: str = ""  # the task or thread it began in
    conversation: str | None = None  # the name of what keeps it: a memory or a chat engine
    history: tuple[Turn, ...] = ()  # earlier turns that it was given, or that its memory holds
    fields: dict[str, str] = field(default_factory=dict)  # texts of a workflow's start event
    sources: tuple[Document, ...] = ()  # the source nodes that its result names
    streamed: bool = False  # its answer is read from a stream
    partial: str | None = None  # what was read of a stream that broke off
    complete: bool = True  # False if a stream was not read to its end, or the run was interrupted
    calls: int = 1
    cut: bool = False  # calls are missing because there were too many
    inputs: dict[str, Any] = field(default_factory=dict)  # arguments as plain data, where the user names keys or paths
    outputs: dict[str, Any] = field(default_factory=dict)  # the result as plain data, likewise
    result: object = None  # what the application returned, where nothing else is known
    other: tuple[Document, ...] | None = None  # nodes without a text, once they are taken out of the tree
