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

ENTRIES: frozenset[Kind] = frozenset({"query", "chat", "workflow"})
MOST_CALLS = 10_000  # of one run; a workflow that never ends must not fill the memory


@dataclass(frozen=True, slots=True)
class Pointer(Document):
    """A node that stands for another index or table: evidence only where it is itself handed on."""


@dataclass(slots=True, repr=False, eq=False)
class Run:
    """One run of an application, from its outermost call inwards.

    Args:
        kind: What the outermost call does.
        root: The outermost call; the others are its children.
        strand: The task or thread it began in.
        question: The question it was asked.
        history: Earlier turns that it was given, or that its memory holds.
        fields: Texts of a workflow's start event.
        answer: What it answered.
        sources: The source nodes that its result names; None if it names none.
        streamed: Its answer was read from a stream.
        partial: What was read of a stream that broke off.
        complete: False if a stream was not read to its end, or the run was interrupted.
        calls: How many calls it has.
        cut: True if calls are missing because there were too many.
        inputs: The outermost call's arguments as plain data, where the user names keys or paths.
        outputs: Its result as plain data, likewise.
    """

    kind: Kind
    root: Node
    strand: str = ""
    question: str | None = None
    history: tuple[Turn, ...] = ()
    fields: dict[str, str] = field(default_factory=dict)
    answer: str | None = None
    sources: tuple[Document, ...] | None = None
    streamed: bool = False
    partial: str | None = None
    complete: bool = True
    calls: int = 1
    cut: bool = False
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, repr=False, eq=False)
class Written:
    """A streamed chat answer as the framework's own thread writes it to the history.

    Args:
        heard: Its pieces.
        answer: All of it, once written.
        error: What broke it off.
    """

    heard: list[str] = field(default_factory=list)
    answer: str | None = None
    error: BaseException | None = None
