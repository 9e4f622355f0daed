"""What makes up a runnable of LangChain, as far as it changes replies."""

from __future__ import annotations

from collections.abc import Mapping

from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable
from pydantic import BaseModel

from ragmetrics_core.endpoints.identity import attributes_of, fields_of

# How a model is called, watched and kept, not what it replies.
_OF_MODELS = frozenset(
    {
        *("cache", "callbacks", "custom_get_token_ids", "metadata", "name", "rate_limiter", "tags", "verbose"),
        *("max_retries", "request_timeout", "stream_chunk_timeout", "timeout"),
    }
)
_OF_CONFIGS = frozenset({"callbacks", "max_concurrency", "recursion_limit", "run_id", "run_name"})
_OF_RUNNABLES = frozenset({"name"})


def parts(thing: object) -> Mapping[str, object] | None:
    """Fields of models and chains, functions of lambdas; None for anything that is no runnable."""
    if not isinstance(thing, Runnable):
        return None
    held = fields_of(thing) if isinstance(thing, BaseModel) else attributes_of(thing)
    ignored = _OF_MODELS if isinstance(thing, BaseLanguageModel) else _OF_RUNNABLES
    told = {name: value for name, value in held.items() if name not in ignored}
    config = told.get("config")
    if isinstance(config, Mapping):
        told["config"] = {name: value for name, value in config.items() if name not in _OF_CONFIGS}
    return told
