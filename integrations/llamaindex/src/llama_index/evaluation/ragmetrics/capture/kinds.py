"""What a span does, by the type of its instance: names alone would mistake a user's own step for the framework's."""

from __future__ import annotations

import sys
from functools import lru_cache
from types import FrameType

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.base_selector import BaseSelector
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.chat_engine.types import BaseChatEngine, StreamingAgentChatResponse
from llama_index.core.evaluation.base import BaseEvaluator
from llama_index.core.evaluation.dataset_generation import DatasetGenerator
from llama_index.core.evaluation.retrieval.base import BaseRetrievalEvaluator
from llama_index.core.indices.base import BaseIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.objects import ObjectRetriever
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.response_synthesizers.base import BaseSynthesizer
from llama_index.core.schema import TransformComponent
from llama_index.core.tools import BaseTool
from llama_index.core.types import BasePydanticProgram
from llama_index.core.workflow import Workflow
from llama_index.evaluation.ragmetrics.capture.run import Kind

ROOTS: frozenset[Kind] = frozenset(
    {"query", "chat", "workflow", "retrieve", "post", "synth", "respond", "model", "program"}
)
"""Kinds that are a run of their own where nothing is around them."""

_WAYS = ("", "a", "stream_", "astream_")
_METHODS: tuple[tuple[type, Kind, frozenset[str]], ...] = (
    (BaseQueryEngine, "query", frozenset({"query", "aquery"})),
    (BaseChatEngine, "chat", frozenset({"chat", "achat", "stream_chat", "astream_chat"})),
    (Workflow, "workflow", frozenset({"run"})),
    (BaseRetriever, "retrieve", frozenset({"retrieve", "aretrieve"})),
    (BaseSynthesizer, "synth", frozenset({"synthesize", "asynthesize"})),
    (BaseSynthesizer, "respond", frozenset({"get_response", "aget_response"})),
    (StreamingAgentChatResponse, "write", frozenset({"write_response_to_history", "awrite_response_to_history"})),
    (BaseTool, "tool", frozenset({"call", "acall", "__call__"})),
    (BaseLLM, "program", frozenset({"structured_predict", "astructured_predict"})),
    (
        BaseLLM,
        "model",
        frozenset(f"{mode}{name}" for mode in ("", "a", "stream_", "astream_") for name in ("chat", "complete")),
    ),
    (BasePydanticProgram, "program", frozenset({"__call__", "acall"})),
    (BaseSelector, "ignored", frozenset({"select", "aselect"})),
    (TransformComponent, "ignored", frozenset({"__call__", "acall"})),
)
_JUDGING = frozenset({"evaluate", "aevaluate", "evaluate_response", "aevaluate_response"})
_TEST_DATA = (
    DatasetGenerator,
    frozenset({"_agenerate_dataset", "generate_questions_from_nodes", "generate_dataset_from_nodes"}),
)
# What prepares or checks an application: judging, writing test data, finding tools, building an index.
_ASIDE: tuple[tuple[type, frozenset[str]], ...] = (
    (BaseEvaluator, _JUDGING),
    (BaseRetrievalEvaluator, _JUDGING),
    _TEST_DATA,
    (ObjectRetriever, frozenset({"retrieve", "aretrieve"})),
    (BaseIndex, frozenset({"build_index_from_nodes", "insert", "insert_nodes", "update_ref_doc", "refresh_ref_docs"})),
    (IngestionPipeline, frozenset({"run", "arun"})),
)
_NAMES = frozenset(name for _, names in _ASIDE for name in names)
_UUID = 37  # characters of "-" and a UUID at the end of a span's id


def kind_of(owner: type, span_id: str) -> Kind | None:
    """What a span does; None for what capturing looks through.

    Args:
        owner: Type of the span's instance.
        span_id: The framework's id of it: class, method and a UUID.
    """
    return _kind(owner, span_id[:-_UUID].rpartition(".")[2])


@lru_cache(maxsize=4096)
def _kind(owner: type, method: str) -> Kind | None:
    if issubclass(owner, BaseNodePostprocessor) and method.endswith("postprocess_nodes"):
        return "post"
    return next((kind for base, kind, methods in _METHODS if method in methods and issubclass(owner, base)), None)


def is_aside(owners: tuple[tuple[type, frozenset[str]], ...] = _ASIDE) -> bool:
    """True if an evaluator, a generator of test data, an index being built or a retriever of tools called this."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # the one way to see who called, or awaits
    while frame is not None:
        name = frame.f_code.co_name
        if name in _NAMES:
            found = frame.f_locals.get("self")
            if any(name in names and isinstance(found, owner) for owner, names in owners):
                return True
        frame = frame.f_back
    return False


def is_test_data() -> bool:
    """True if a generator of test data called this; the tasks that it starts do not show it."""
    return is_aside((_TEST_DATA,))
