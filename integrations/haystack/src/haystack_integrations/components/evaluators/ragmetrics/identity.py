"""What makes up a ChatGenerator of Haystack, as far as it changes replies."""

from __future__ import annotations

import os
from collections.abc import Mapping

from haystack.core.component import Component
from haystack.utils import Secret
from haystack_integrations.components.evaluators.ragmetrics.openai_generator import is_openai

from ragmetrics_core.endpoints.identity import attributes_of

_OPENAI = "https://api.openai.com/v1"
# How a generator is called and watched, not what it replies.
_IGNORED = frozenset({"_is_warmed_up", "_tools_warmed_up", "max_retries", "streaming_callback", "timeout"})


def parts(thing: object) -> Mapping[str, object] | None:
    """Settings of components, also of one within another; None for anything else.

    Where no address is set, the client takes it from the environment as soon as it is made.
    """
    if isinstance(thing, Secret):
        return {}
    if not isinstance(thing, Component):
        return None
    held = attributes_of(thing).items()
    told = {name: value for name, value in held if name not in _IGNORED and not isinstance(value, Secret)}
    if is_openai(thing) and not told.get("api_base_url"):
        told["api_base_url"] = os.environ.get("OPENAI_BASE_URL") or _OPENAI
    return told
