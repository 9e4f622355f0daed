"""What is kept of a run: the core's tree of calls, and what the framework itself says of question and answer."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

from llama_index.evaluation.ragmetrics.recording.kinds import Kind

from ragmetrics_core.capture import Listener, Message, Tree


@dataclass(slots=True, repr=False, eq=False, weakref_slot=True)
class Run(Tree):
    """A tree as it is recorded, with what else is kept of the run.

    Attributes:
        kind: What the outermost call, its root, does.
        is_streamed: Whether its answer is read from a stream.
        listeners: Who gets it once it has ended; nobody when it was handed over.
        span_ids: The ids of the spans that are recorded as calls of it, while it goes
            on.
        written: The answers that chat engines wrote, and what broke them off, by the
            identity of the streamed response.
        awaited_response: The identity of the streamed chat response whose answer the
            run waits for; None if it waits for none.
        memory: The memory of its conversation, until it has ended.
        has_examples: Whether its engine puts messages of its own before the memory's.
        summaries: What a memory put in the place of earlier messages.
        templates: The messages of which the framework made its models' prompts.
    """

    kind: Kind = "query"
    is_streamed: bool = False
    listeners: tuple[Listener, ...] = ()
    span_ids: list[str] = field(default_factory=list)
    written: dict[int, tuple[str, BaseException | None]] = field(default_factory=dict)
    awaited_response: int | None = None
    memory: object = None
    has_examples: bool = False
    summaries: set[str] = field(default_factory=set)
    templates: tuple[tuple[Message, ...], ...] = ()

    @property
    def began(self) -> float:
        """When it began."""
        return self.root.began


def call_when_gone(
    target: object, function: Callable[..., object], *arguments: object
) -> None:
    """Have a function called once an object is freed, but not when the process exits."""
    finalizer = weakref.finalize(target, function, *arguments)
    finalizer.atexit = False
