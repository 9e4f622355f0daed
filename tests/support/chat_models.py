"""What the chat models of tests share: what they can do, and the tokens of a reply."""

from loopback import tokens

from ragmetrics_core.models.chat import Capabilities, ChatModel, TokenAlternatives


class PolledModel(ChatModel):
    """Takes every request as it is, and gives no log-probabilities."""

    def capabilities(self) -> Capabilities:
        return Capabilities(n=True, logprobs=False, json_schema=True, temperature=True)


def weighed_tokens(
    text: str, probability: float | None, mass: float = 0.99
) -> tuple[TokenAlternatives, ...]:
    """The tokens of a reply; see ``loopback.tokens``."""
    return tuple(
        TokenAlternatives(
            entry["token"],
            entry["logprob"],
            tuple(
                (other["token"], other["logprob"]) for other in entry["top_logprobs"]
            ),
        )
        for entry in tokens(text, probability, mass)
    )
