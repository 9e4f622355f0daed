"""What makes up an LLM of LlamaIndex, as far as it changes replies."""

from __future__ import annotations

from collections.abc import Mapping

from llama_index.core.llms import LLM

from ragmetrics_core.endpoints.identity import fields_of

# How an LLM is called and watched, not what it replies.
_IGNORED = frozenset({"callback_manager", "max_retries", "rate_limiter", "reuse_client", "timeout"})


def parts(thing: object) -> Mapping[str, object] | None:
    """Fields of LLMs, also of one within another; None for anything else."""
    if not isinstance(thing, LLM):
        return None
    return {name: value for name, value in fields_of(thing).items() if name not in _IGNORED}
