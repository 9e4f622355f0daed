"""What answering cost: calls, tokens, money, and what was repeated or replaced on the way."""

from dataclasses import dataclass


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

    def __add__(self, other: "Usage") -> "Usage":
        """Sum of both; an unknown cost stays unknown."""
        known = self.cost is not None and other.cost is not None
        return Usage(
            calls=self.calls + other.calls,
            stored=self.stored + other.stored,
            repairs=self.repairs + other.repairs,
            faults=self.faults + other.faults,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cost=(self.cost or 0.0) + (other.cost or 0.0) if known else None,
            fallbacks=_merged(self.fallbacks, other.fallbacks),
            models=_merged(self.models, other.models),
        )


def _merged(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return one if one == other or not other else tuple(sorted({*one, *other}))
