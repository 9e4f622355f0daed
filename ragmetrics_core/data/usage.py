"""What answering cost: calls, tokens, money, and what was repeated or replaced on the way."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """What answering cost.

    Args:
        calls: Requests that reached the model, repairs and retries included.
        stored: Replies taken from the store instead of a call.
        repairs: Calls that asked again because a reply was unusable.
        faults: Calls repeated after transient faults, whether or not the last one succeeded.
        prompt_tokens: Tokens sent, as the endpoint counts them.
        completion_tokens: Tokens received.
        cost: US dollars; None where the price is unknown.
        fallbacks: What the endpoint could not do and was replaced, e.g. ``n``, ``logprobs``.
        models: Names of the models as the endpoint returned them.
    """

    calls: int = 0
    stored: int = 0
    repairs: int = 0
    faults: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = 0.0
    fallbacks: tuple[str, ...] = ()
    models: tuple[str, ...] = ()

    def __add__(self, other: Usage) -> Usage:
        """Sum of both; an unknown cost stays unknown."""
        return Usage(*(_sum(getattr(self, one.name), getattr(other, one.name)) for one in fields(self)))


def _sum(one: Any, other: Any) -> Any:
    if isinstance(one, tuple):
        return one if one == other or not other else tuple(sorted({*one, *other}))
    return None if one is None or other is None else one + other
