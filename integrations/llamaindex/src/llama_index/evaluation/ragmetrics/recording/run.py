"""What is kept of a run, and what a span of the framework does in it.

A run is the core's tree of calls, with what the framework itself says of question and
answer. What a span does is told by the type of its instance and its method: names alone
would mistake a user's own step for the framework's.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, get_args

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.chat_engine.types import (
    BaseChatEngine,
    StreamingAgentChatResponse,
)
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.response_synthesizers.base import BaseSynthesizer
from llama_index.core.tools import BaseTool
from llama_index.core.types import BasePydanticProgram
from llama_index.core.vector_stores.types import VectorStoreQueryResult
from llama_index.core.workflow import Workflow

from ragmetrics_core.capture import Listener, Message, Tree

Root = Literal[
    "query",
    "chat",
    "workflow",
    "retrieve",
    "post",
    "synth",
    "model",
    "program",
    "predict",
]
Kind = Literal[Root, "tool", "step", "write"]
"""What a span of the framework does; a ``step`` is one of a workflow."""

# Kinds that are a run of their own where nothing is around them.
ROOTS: frozenset[Kind] = frozenset(get_args(Root))
# What kind of call of the core's tree a span is; a kind that is not listed keeps its name.
KINDS_OF_CALLS: dict[Kind, Any] = {
    "query": "agent",
    "chat": "agent",
    "workflow": "agent",
    "predict": "agent",
    "retrieve": "retriever",
    "post": "reranker",
    "synth": "step",
    "program": "step",
}
STORE_METHOD = "query"  # of a store that is searched by hand, of which no span tells
_METHODS: tuple[tuple[type, Kind, str], ...] = (
    (BaseQueryEngine, "query", "query aquery"),
    (BaseChatEngine, "chat", "chat achat stream_chat astream_chat"),
    (Workflow, "workflow", "run"),
    (BaseRetriever, "retrieve", "retrieve aretrieve"),
    (VectorStoreQueryResult, "retrieve", STORE_METHOD),
    (BaseSynthesizer, "synth", "synthesize asynthesize"),
    (
        StreamingAgentChatResponse,
        "write",
        "write_response_to_history awrite_response_to_history",
    ),
    (BaseTool, "tool", "call acall __call__"),
    (BasePydanticProgram, "program", "__call__ acall"),
    (BaseLLM, "program", "structured_predict astructured_predict"),
    (BaseLLM, "predict", "predict_and_call apredict_and_call"),
    (
        BaseLLM,
        "model",
        (
            "chat achat stream_chat astream_chat complete acomplete stream_complete"
            " astream_complete"
        ),
    ),
)


@lru_cache(maxsize=4096)
def kind_of(owner: type, method: str) -> Kind | None:
    """What a method does, by the type of its instance.

    None for what capturing looks through.
    """
    if issubclass(owner, BaseNodePostprocessor) and method.endswith(
        "postprocess_nodes"
    ):
        return "post"
    for base, kind, names in _METHODS:
        if method in names.split() and issubclass(owner, base):
            return kind
    return None


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
