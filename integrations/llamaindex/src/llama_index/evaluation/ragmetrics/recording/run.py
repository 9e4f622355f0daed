"""What is kept of a run: the core's tree of calls, and what the framework itself says of question and answer."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass

from llama_index.evaluation.ragmetrics.recording.kinds import Kind

from ragmetrics_core.capture import Tree


@dataclass(slots=True, repr=False, eq=False)
class Run(Tree):
    """A tree as it is recorded, with what else is kept of the run.

    Its root is the outermost call.
    """

    kind: Kind = "query"  # what the outermost call does
    is_streamed: bool = False  # its answer is read from a stream


def call_when_gone(
    target: object, function: Callable[..., object], *arguments: object
) -> None:
    """Have a function called once an object is freed, but not when the process exits."""
    finalizer = weakref.finalize(target, function, *arguments)
    finalizer.atexit = False
