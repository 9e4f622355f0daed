"""Models that answer typed questions with probabilities, and write no text.

A request holds a *state*, which is the texts to judge, and questions about it. The
session treats these models as chat models, so that it stores their answers and keeps
limits and prices: a request's only message is the state and the questions as JSON, and
each choice of a reply is the answer to one question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from ragmetrics_core.data import errors
from ragmetrics_core.models.addresses import (
    OPENAI,
    TYPESAFE,
    Provider,
    provider_endpoint,
)
from ragmetrics_core.models.chat import ChatModel, ChatReply, ChatRequest
from ragmetrics_core.models.compatible_model import OpenAICompatibleModel
from ragmetrics_core.models.decision_forms import (
    Body,
    choices_of,
    object_of_single_names,
    openai_fields,
    systemone_fields,
)
from ragmetrics_core.models.endpoint_errors import Fault
from ragmetrics_core.models.openai_form import decision_prices, reply_of

DECISIONS = "decisions/"
SYSTEM_ONE = "systemone/"
"""The prefixes of the names of these models; each stands for a form of endpoint."""

_NOT_IMPLEMENTED = 501


class DecisionModel(ChatModel):
    """A model that answers typed questions; it is asked by ``DecisionJudge`` alone.

    Attributes:
        most_questions: Most questions that one request may hold.
    """

    most_questions: int = 128


class ServedDecisionModel(OpenAICompatibleModel, DecisionModel):
    """A model behind an endpoint of typed questions.

    Its subclasses are the two forms of endpoint: ``OpenAIDecisionModel`` for POST
    /v1/decisions, ``SystemOneModel`` for POST /v1/systemone.

    Args:
        model: Its name there, with or without the prefix (``form``) of its class.
        api_base: Address of the endpoint, up to and with ``/v1``; None takes the
            address in the provider's variable, else the provider's own.
        api_key: The key.
        api_key_env: The environment variable that holds the key. If neither ``api_key``
            nor ``api_key_env`` is given, the provider's own address gets the key in the
            provider's usual variable. ``api_base`` then gets no key.
        timeout: Seconds for one call.
        prices: US dollars per token read and given. None takes the prices of our dated
            file at the provider's own address; at any other they are unknown.

    Raises:
        SettingError: If no model is named, a number is out of range, or address and key
            are named in different places.
    """

    # The prefix of its name, "decisions/" or "systemone/"; also the endpoint's path.
    form: ClassVar[str]
    provider: ClassVar[Provider]
    # What stands before the names of the provider's own models; "" for nothing.
    own_prefix: ClassVar[str] = ""
    # Writes state and questions as this form of endpoint takes them.
    _fields: Callable[[str], Body]
    _object_of_pairs = staticmethod(object_of_single_names)

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        api_key_env: str | None = None,
        timeout: float = 60.0,
        prices: tuple[float, float] | None = None,
    ) -> None:
        """Check the settings that the class describes; nothing is sent.

        A model has three names: "systemone/typesafe/jev-1.13.0" in results (``name``),
        "typesafe/jev-1.13.0" without the prefix, and "jev-1.13.0" as the endpoint knows
        it (``model``).

        Raises:
            SettingError: As the class says.
        """
        model = model.removeprefix(self.form)
        has_key = api_key is not None or api_key_env is not None
        endpoint = provider_endpoint(self.provider, api_base, has_key=has_key)
        # the address given here or in a variable, else the provider's own
        address = self._with_version(endpoint.address or self.provider.address)
        name_there = model
        if api_base is None and self.own_prefix:
            if model and not model.startswith(self.own_prefix):
                raise errors.SettingError(
                    f"{self.form}{model} needs the address of its endpoint: api_base="
                    " (--api-base) or RAGMETRICS_API_BASE, e.g."
                    " http://127.0.0.1:8000/v1; a provider stands before the model, e.g."
                    f" {self.form}{self.own_prefix}jev-1.13.0"
                )
            name_there = model.removeprefix(self.own_prefix)
        if not name_there.strip("/"):
            example = (
                f"{self.own_prefix}jev-1.13.0" if self.own_prefix else "gpt-6-luna"
            )
            raise errors.SettingError(
                f"{self.form} names no model: give {self.form}MODEL, e.g."
                f" {self.form}{example}"
            )
        # The prices in our dated file hold at the provider's own address alone.
        if prices is None and address == self.provider.address:
            prices = decision_prices(model)
        super().__init__(
            address,
            name_there,
            api_key=api_key,
            api_key_env=api_key_env or endpoint.key_variable,
            timeout=timeout,
            prices=prices,
            name=f"{self.form}{model}",
        )
        self.cache_key = f"{self.form}|{self.cache_key}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, api_base={self.address!r})"

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Send one request; each choice of the reply is the answer to one question.

        Example: texts and 3 questions: a reply of 3 choices, the first e.g. "[0.9]".

        Args:
            request: Its first message holds, as JSON, the texts to judge (the state)
                and the questions about them.

        Raises:
            JudgeError: If the endpoint cannot be reached, replies with an error, or
                sends no answers; its class goes by the reply's status and code.
        """
        reply_body = await self._ask(self.form.strip("/"), request)
        try:
            choices = choices_of(request.messages[0].content, reply_body)
        except errors.UnusableReply as error:
            raise errors.UnusableReply(
                f"{self.name} sent {error}: check that the endpoint speaks the form of"
                f" /v1/{self.form.strip('/')}"
            ) from None
        tokens = reply_body.get("usage")
        counted = tokens if isinstance(tokens, Mapping) else {}
        return reply_of(
            self.name,
            choices,
            usage={
                "prompt_tokens": counted.get("input_tokens"),
                "completion_tokens": counted.get("output_tokens"),
            },
            models=[reply_body.get("model")],
            prices=self.prices(),
            # An endpoint may echo the key as its model's name.
            secrets=(self._key(),),
        )

    def _with_version(self, address: str) -> str:
        """Return an address with the version that the endpoint's path begins with."""
        return address

    def _error(self, fault: Fault) -> errors.JudgeError:
        if fault.status == _NOT_IMPLEMENTED:
            return errors.JudgeUnavailable(
                f"{self.name} at {self.address} answers no typed questions (HTTP 501):"
                " start that server with a decision model"
            )
        return super()._error(fault)

    def body(self, request: ChatRequest) -> Body:
        """Return the body of a request, as it is sent."""
        return {"model": self.model, **self._fields(request.messages[0].content)}


class OpenAIDecisionModel(ServedDecisionModel):
    """A model behind an endpoint that speaks OpenAI's ``POST /v1/decisions``.

    Without ``api_base`` it is OpenAI's own, or that of ``OPENAI_BASE_URL``.
    ``ServedDecisionModel`` says what it takes.

    Examples:
        >>> OpenAIDecisionModel("gpt-6-luna", api_key="secret").name
        'decisions/gpt-6-luna'
    """

    form = DECISIONS
    provider = OPENAI
    _fields = staticmethod(openai_fields)
    most_questions = 400


class SystemOneModel(ServedDecisionModel):
    """A model behind an endpoint that speaks System One's ``POST /v1/systemone``.

    Examples are llama.cpp, SGLang, Ollama and ``transformers serve``, named as they
    know it, with ``api_base``. Without it ``typesafe/MODEL`` is TypeSafe's own.
    ``ServedDecisionModel`` says what it takes.

    Examples:
        >>> SystemOneModel("typesafe/jev-1.13.0", api_key="secret")
        SystemOneModel('jev-1.13.0', api_base='https://api.typesafe.ai/v1')
    """

    form = SYSTEM_ONE
    provider = TYPESAFE
    own_prefix = "typesafe/"
    _fields = staticmethod(systemone_fields)
    most_questions = 64  # of transformers serve, the least that is known

    def _with_version(self, address: str) -> str:
        # TypeSafe's SDK and LiteLLM name addresses without it
        if address.rstrip("/").endswith("/v1"):
            return address
        return f"{address.rstrip('/')}/v1"


def decision_model(
    name: str,
    *,
    api_base: str | None = None,
    api_key_env: str | None = None,
    timeout: float = 60.0,
) -> DecisionModel | None:
    """Return the client for the name of a model of typed questions.

    A typed question is answered with probabilities, not in words. Examples:

    - "openai/gpt-4o" is a chat model: None.
    - "decisions/gpt-6-luna" gives an ``OpenAIDecisionModel``.
    - "systemone/typesafe/jev" gives a ``SystemOneModel``; so does "systemone/jev" with
      ``api_base``.

    Args:
        name: The name.
        api_base: Address of the endpoint; None for the provider's own.
        api_key_env: The environment variable that holds its key.
        timeout: Seconds that a call may take at first.

    Returns:
        The client; None for a name with another prefix, which is no such model.

    Raises:
        SettingError: If no model is named, or its address is missing.
    """
    for model_class in (OpenAIDecisionModel, SystemOneModel):
        if name.startswith(model_class.form):
            return model_class(
                name, api_base=api_base, api_key_env=api_key_env, timeout=timeout
            )
    return None
