"""What is kept of a run: the core's tree of calls, and what the framework itself says of question and answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ragmetrics_core import Turn
from ragmetrics_core.capturing import Document, Node

Kind = Literal[
    "query", "chat", "workflow", "retrieve", "post", "synth", "respond", "model", "program", "tool", "write", "ignored"
]
"""What a span of the framework does."""


@dataclass(frozen=True, slots=True)
class Pointer(Document):
    """A node that stands for another index or table: evidence only where it is itself handed on."""


@dataclass(slots=True, repr=False, eq=False)
class Run:
    """One run of an application, from its outermost call inwards.

    Args:
        kind: What the outermost call does.
        root: The outermost call, with the question it was asked and what it answered; the others are its children.
        strand: The task or thread it began in.
        history: Earlier turns that it was given, or that its memory holds.
        fields: Texts of a workflow's start event.
        sources: The source nodes that its result names.
        streamed: Its answer is read from a stream.
        partial: What was read of a stream that broke off.
        complete: False if a stream was not read to its end, or the run was interrupted.
        calls: How many calls it has.
        cut: True if calls are missing because there were too many.
        inputs: The outermost call's arguments as plain data, where the user names keys or paths.
        outputs: Its result as plain data, likewise.
        other: Nodes without a text, once they are taken out of the tree.
    """

    kind: Kind
    root: Node
    strand: str = ""
    history: tuple[Turn, ...] = ()
    fields: dict[str, str] = field(default_factory=dict)
    sources: tuple[Document, ...] = ()
    streamed: bool = False
    partial: str | None = None
    complete: bool = True
    calls: int = 1
    cut: bool = False
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    other: tuple[Document, ...] | None = None
