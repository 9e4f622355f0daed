"""What is kept of a run: copies of what the framework's objects held when it happened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from ragmetrics_core import Turn

Kind = Literal["query", "chat", "workflow", "retrieve", "post", "synth", "write", "tool"]

ENTRIES: frozenset[Kind] = frozenset({"query", "chat", "workflow"})
MOST_SPANS = 10_000  # of one run; a workflow that never ends must not fill the memory


@dataclass(frozen=True, slots=True, repr=False)
class Node:
    """A node as it was at one moment.

    Args:
        id: The framework's id of the node; None for the text of a tool.
        score: The retriever's or reranker's score.
        metadata: A shallow copy.
        text: The text as the model sees it (``MetadataMode.LLM``).
        plain: The text alone (``MetadataMode.NONE``).
    """

    id: str | None
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
        name: Name of the tool that it called.
        question: The question it was asked.
        history: Earlier turns that it was given.
        fields: Texts of a workflow's start event.
        taken: Nodes that it was given; None if it takes none.
        given: Nodes that it returned; None if it returned none, or has not returned.
        answer: What it answered.
        heard: Pieces of a streamed chat answer while it is written.
        error: What it ended with, instead of returning.
        interrupted: True if it was cancelled, not failed.
    """

    kind: Kind
    id: str
    parent: Span | None = None
    name: str = ""
    question: str | None = None
    history: tuple[Turn, ...] = ()
    fields: dict[str, str] = field(default_factory=dict)
    taken: tuple[Node, ...] | None = None
    given: tuple[Node, ...] | None = None
    answer: str | None = None
    heard: list[str] = field(default_factory=list)
    error: str | None = None
    interrupted: bool = False

    def within(self, kinds: Iterable[Kind]) -> bool:
        """True if a step around this one is of one of these kinds."""
        return self.around(kinds) is not None

    def around(self, kinds: Iterable[Kind]) -> Span | None:
        """The nearest step around this one that is of one of these kinds."""
        return next((step for step in self.path() if step.kind in kinds), None)

    def path(self) -> Iterator[Span]:
        """The steps around this one, from the nearest outwards."""
        step = self.parent
        while step is not None:
            yield step
            step = step.parent


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
