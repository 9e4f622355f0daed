"""Telling Haystack's generator for OpenAI from others, without importing OpenAI's client."""

from __future__ import annotations

import sys


def is_openai(generator: object) -> bool:
    """True for an ``OpenAIChatGenerator`` or what derives from it; where its module is not loaded there is none."""
    module = sys.modules.get("haystack.components.generators.chat.openai")
    return module is not None and isinstance(generator, module.OpenAIChatGenerator)
