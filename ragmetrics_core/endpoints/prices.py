"""What OpenAI's own models cost and can do, from a dated file; nothing is fetched."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from ragmetrics_core.endpoints.chat import Capabilities


class Listed(NamedTuple):
    """A model of the file.

    Args:
        prices: US dollars per prompt token and per reply token.
        capabilities: What it can do.
    """

    prices: tuple[float, float]
    capabilities: Capabilities


def listed(model: str) -> Listed | None:
    """What the file says of one of OpenAI's models, named without ``openai/``; None if it is not in it."""
    row = _table()["models"].get(model)
    if row is None:
        return None
    sent, received, kind = row
    able = Capabilities(n=True, logprobs=True, json_schema=kind == "chat", temperature=True, reasoning=False)
    if kind == "reasoning":
        able = Capabilities(n=None, logprobs=None, json_schema=True, temperature=False, reasoning=True)
    return Listed((sent / 1e6, received / 1e6), able)


def checked() -> str:
    """The day on which the prices were looked up."""
    return str(_table()["checked"])


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    return dict(json.loads(files("ragmetrics_core.endpoints").joinpath("openai_prices.json").read_text("utf-8")))
