"""The protocol of chat models, which the LLM judge asks.

A model takes a chat request, and returns choices (its replies) and their usage.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from ragmetrics_core.data import JudgeError, SettingError, Usage
from ragmetrics_core.data.scalars import is_number

if TYPE_CHECKING:
    _stated = property
else:
    # which an object may set, where its class does not
    from functools import cached_property as _stated

Finish = Literal["stop", "tool_calls", "length", "refused", "other"]


CONNECTING_SECONDS = 10.0
"""Seconds after which all attempts to connect are given up."""


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message; its content never appears in the repr."""

    role: Literal["system", "user", "assistant"]
    content: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request to a chat model: what is sent, and nothing else.

    Args:
        messages: In order.
        schema: JSON schema of the reply; None where the prompt alone describes its
            form.
        json_mode: Ask for JSON of any form, where no schema is sent.
        n: Number of independent replies.
        temperature: None leaves it to the endpoint.
        top_logprobs: Alternatives per token wanted; 0 = no log-probabilities.
        needs_logprobs: Whether it is not asked without log-probabilities.
        max_tokens: Limit of the reply's length, in tokens.
        newer_limit: Send the limit under its newer name, ``max_completion_tokens``.
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = field(default=None, repr=False)
    json_mode: bool = False
    n: int = 1
    temperature: float | None = 0.0
    top_logprobs: int = 0
    needs_logprobs: bool = False
    max_tokens: int | None = None
    newer_limit: bool = False


@dataclass(frozen=True, slots=True)
class TokenAlternatives:
    """A token of a reply, with its natural log-probability.

    ``alternatives`` are the tokens that the model might have written at its place, each
    with its log-probability; the token itself is usually among them.
    """

    token: str = field(repr=False)
    logprob: float
    alternatives: tuple[tuple[str, float], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Origin:
    """The call that gave a reply.

    Attributes:
        model: The model as the endpoint named it; "" if it did not.
        together: How many replies the call gave.
    """

    model: str = ""
    together: int = 1


@dataclass(frozen=True, slots=True)
class Choice:
    """One reply.

    Args:
        text: Its text, without separate reasoning.
        finish: ``stop``, ``tool_calls`` (it calls a tool), ``length`` (cut off),
            ``refused``, or ``other``.
        tokens: Log-probabilities, where asked for and given.
        origin: The call that gave it; filled in by the session.
    """

    text: str = field(repr=False)
    finish: Finish = "stop"
    tokens: tuple[TokenAlternatives, ...] = field(default=(), repr=False)
    origin: Origin = Origin()


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a chat model returned: a choice for each reply, and the usage.

    ``failures`` holds an error for each missing reply. The session fills it in, to keep
    the replies that did come. Models raise instead, unless an error broke off all
    replies, and their tokens were counted.
    """

    choices: tuple[Choice, ...]
    usage: Usage = field(default_factory=Usage)
    failures: tuple[JudgeError, ...] = ()

    @property
    def error(self) -> JudgeError | None:
        """The error in place of all replies; None if one came, or none was wanted."""
        return None if self.choices else next(iter(self.failures), None)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model can do.

    True, False, or None: unknown, to be tried once and remembered.

    Args:
        n: Several replies in one request.
        logprobs: Log-probabilities of tokens and their alternatives.
        json_schema: Replies bound to a JSON schema.
        temperature: A sampling temperature; False for reasoning models.
        reasoning: Hidden reasoning that counts against the limit of the reply's length.
    """

    n: bool | None = None
    logprobs: bool | None = None
    json_schema: bool | None = None
    temperature: bool | None = None
    reasoning: bool | None = None


@runtime_checkable
class ChatModel(Protocol):
    """A chat model, as the LLM judge asks it.

    It may be LiteLLM in the core, a framework's model object in an adapter, or one of
    your own.

    Implementations inherit from it, for its defaults; ``name`` and ``complete`` have
    none.
    """

    @_stated
    def name(self) -> str:
        """Name of the model, for results."""

    @_stated
    def cache_key(self) -> str | None:
        """The part of the key of stored replies that tells models of one name apart.

        It names the address and all settings that change replies, and never a secret.
        None if they are not known: replies are then kept for the process only.
        """
        return None

    @property
    def address(self) -> str:
        """Host and path that requests go to, for results; "" if that is not known.

        It holds no user, query or key.
        """
        return ""

    @property
    def timeout(self) -> float | None:
        """Seconds that a call may take at first; None where the model sets no limit."""
        return None

    def capabilities(self) -> Capabilities:
        """Return what the model can do, as far as that is known without a call.

        By default nothing is known, and each feature is tried once.
        """
        return Capabilities()

    async def prepare(self) -> None:
        """Load what ``capabilities`` and the first call need, e.g. a slow import.

        The loading does not block the loop.
        """
        return

    async def aclose(self) -> None:
        """Close the connections of the running loop, if the model has any."""
        return

    def prices(self) -> tuple[float, float] | None:
        """Return US dollars per prompt token and per reply token.

        (0, 0) if calls are free; None if the prices are unknown, as they may be before
        ``prepare``.
        """
        return None

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Send one request.

        Returns:
            The reply; an endpoint that ignores ``n`` returns fewer choices, one that
            ignores log-probabilities returns none.

        Raises:
            JudgeError: Mapped from whatever the endpoint or client raised. Any other
                exception is mapped by what it says of the endpoint: an HTTP status, a
                timeout, a lost connection.
        """


def check_prices(model: str, prices: object) -> None:
    """Raise ``SettingError`` for prices that are not two numbers of at least 0.

    Args:
        model: Name of the model, for the message.
        prices: The prices; None, for unknown prices, is allowed.
    """
    if prices is None:
        return
    if isinstance(prices, (tuple, list)):
        are_prices = all(is_number(each) and 0 <= each < math.inf for each in prices)
        if are_prices and len(prices) == 2:
            return
        prices_in_words = "; ".join(map(repr, prices))
    else:
        prices_in_words = type(prices).__name__
    raise SettingError(
        f"the prices of {model} must be two numbers of at least 0, US dollars per"
        " prompt token and per reply token, or None where they are not known; got"
        f" {prices_in_words}"
    )


def check_model(model: object) -> None:
    """Refuse an object that is not a chat model, or lacks a part of one.

    Example: ``check_model(MyModel)`` says that it is a class; for ``MyModel()`` with
    ``def complete`` the message asks for ``async def complete``.

    Raises:
        SettingError: If it is a class, no ``ChatModel``, has no name, or has no method
            ``complete`` that is an ``async def``.
    """
    if isinstance(model, type):
        lack = "is a class: give one of its objects"
    elif not isinstance(model, ChatModel):
        lack = "must inherit from ChatModel"
    elif not isinstance(model.name, str) or not model.name.strip():
        lack = "has no name, which results show"
    elif type(model).complete is ChatModel.complete:
        lack = "has no method complete"
    elif not iscoroutinefunction(model.complete):
        # Code that blocks can be run in a thread, which ``complete`` awaits.
        lack = (
            "has a complete that is no 'async def': await what blocks as"
            " models.threads.call_in_thread"
        )
    else:
        return
    model_class = model if isinstance(model, type) else type(model)
    raise SettingError(
        f"{model_class.__name__} {lack}; a chat model inherits from"
        " ragmetrics_core.models.chat.ChatModel and has a name and 'async def"
        " complete(self, request)'"
    )
