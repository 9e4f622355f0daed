"""Models that answer typed questions with probabilities, and write no text.

A request holds a *state*, which is the texts to judge, and questions about it. The
session treats these models as chat models, so that it stores their answers and keeps
limits and prices: a request's only message is the state and the questions as JSON, and
each choice of a reply is the answer to one question.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from ragmetrics_core.data import errors
from ragmetrics_core.data.frozen import check_number
from ragmetrics_core.models.addresses import (
    OPENAI,
    TYPESAFE,
    Provider,
    provider_endpoint,
)
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
)
from ragmetrics_core.models.compatible_model import OpenAICompatibleModel
from ragmetrics_core.models.decision_forms import (
    Body,
    no_answers,
    object_of_single_names,
    openai_body,
    openai_choices,
    systemone_choices,
    systemone_fields,
    tokens_by_name,
)
from ragmetrics_core.models.endpoint_errors import Fault
from ragmetrics_core.models.litellm_model import LiteLLMModel
from ragmetrics_core.models.openai_form import add_price, decision_prices, reply_of
from ragmetrics_core.models.threads import compute_beside_loop

DECISIONS = "decisions/"
SYSTEM_ONE = "systemone/"
"""The prefixes of the names of these models; each stands for a form of endpoint."""

_TYPESAFE = "typesafe/"
# Providers that are reached through LiteLLM, also at an address of the user's: their
# endpoint is not POST /v1/systemone, or takes no plain key.
_THROUGH_LITELLM = frozenset(
    {
        "azure_ai",
        "cloudflare",
        "databricks",
        "hosted_vllm",
        "openrouter",
        "perplexity",
        "strands_decider",
    }
)
_NOT_IMPLEMENTED = 501


class DecisionModel(ChatModel):
    """A model that answers typed questions; it is asked by ``DecisionJudge`` alone.

    Attributes:
        most_questions: Most questions that one request may hold.
        on_this_machine: Whether it computes on this machine. Its calls then take turns,
            and have no time limit.
    """

    most_questions: int = 128
    on_this_machine: bool = False

    @property
    def details(self) -> Mapping[str, str]:
        """Settings that change answers, for the signature of results."""
        return {}


class ServedDecisionModel(DecisionModel):
    """A model behind an endpoint of typed questions, reached by our own client.

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
        most_questions: Most questions in one request; None for the class's own number.
        extra: Further fields of the request's body.

    Raises:
        SettingError: If no model is named, a number is out of range, or address and key
            are named in different places.
    """

    name = ""
    cache_key: str | None = ""
    # The prefix of its name, "decisions/" or "systemone/"; also the endpoint's path.
    form: ClassVar[str]
    provider: ClassVar[Provider]

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        api_key_env: str | None = None,
        timeout: float = 60.0,
        prices: tuple[float, float] | None = None,
        most_questions: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Check the settings that the class describes, and make the HTTP client.

        Nothing is sent. A model has three names: "systemone/typesafe/jev-1.13.0" in
        results (``name``), "typesafe/jev-1.13.0" without the prefix (``model_name``),
        and "jev-1.13.0" as the endpoint knows it (``model``).

        Raises:
            SettingError: As the class says.
        """
        if most_questions is not None:
            self.most_questions = self._checked_most_questions(most_questions)
        # ``form`` is the prefix of names: "decisions/" or "systemone/".
        model_name = model.removeprefix(self.form)
        self.name = f"{self.form}{model_name}"
        has_key = api_key is not None or api_key_env is not None
        endpoint = provider_endpoint(self.provider, api_base, has_key=has_key)
        # the address given here or in a variable, else the provider's own
        address = self._with_version(endpoint.address or self.provider.address)
        self.model = self._name_at_endpoint(
            model_name, is_address_given=api_base is not None
        )
        if not self.model.strip("/"):
            raise no_model(self.form)
        # The prices in our dated file hold at the provider's own address alone.
        if prices is None and address == self.provider.address:
            prices = decision_prices(model_name)
        self._extra = dict(extra or {})
        self._client = _DecisionClient(
            address,
            self.model,
            api_key=api_key,
            api_key_env=api_key_env or endpoint.key_variable,
            timeout=timeout,
            prices=prices,
            extra=extra,
            name=self.name,
        )
        self.cache_key = f"{self.form}|{self._client.cache_key}"

    def _checked_most_questions(self, most_questions: int) -> int:
        """Return a number of questions; ``SettingError`` if it is not at least 1."""
        place = f"{type(self).__name__}(most_questions=)"
        check_number(place, most_questions, least=1)
        return most_questions

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, api_base={self.address!r})"

    @property
    def address(self) -> str:
        """Where requests go, without user, query or key."""
        return self._client.address

    def prices(self) -> tuple[float, float] | None:
        """Return US dollars per token read and given; None if unknown."""
        return self._client.prices()

    async def prepare(self) -> None:
        """Import the HTTP client in a thread; it takes a moment."""
        await self._client.prepare()

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await self._client.aclose()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Send one request; each choice of the reply is the answer to one question.

        Example: texts and 3 questions: a reply of 3 choices, the first e.g. "[0.9]".
        Where the request goes, and how it is written, depends on the endpoint's form:
        "decisions/" (OpenAI's) or "systemone/" (System One's).

        Args:
            request: Its first message holds, as JSON, the texts to judge (the state)
                and the questions about them.

        Raises:
            JudgeError: If the endpoint cannot be reached, replies with an error, or
                sends no answers; its class goes by the reply's status and code.
        """
        state_and_questions = request.messages[0].content
        # In a thread if the text is long: converting it would hold up the event loop.
        body = await compute_beside_loop(
            lambda: {**self._body(state_and_questions), **self._extra},
            size=len(state_and_questions),
        )
        data = json.dumps(body).encode()
        path = self.form.strip("/")  # …/v1/decisions or …/v1/systemone
        reply_body = await self._client.call("POST", path, data)
        reply = reply_of(
            self.name,
            self._choices(state_and_questions, reply_body),
            usage=tokens_by_name(reply_body),
            models=[reply_body.get("model")],
            # An endpoint may echo the key as its model's name.
            secret_to_leave_out=self._client.key(),
        )
        return add_price(reply, self.prices())

    def _with_version(self, address: str) -> str:
        """Return an address with the version that the endpoint's path begins with."""
        return address

    def _name_at_endpoint(self, model: str, *, is_address_given: bool) -> str:
        """Return the model's name as its endpoint knows it.

        Args:
            model: The name without the prefix of the form.
            is_address_given: Whether the caller gave the address of the endpoint.
        """
        del is_address_given  # the same at all addresses
        return model

    @abstractmethod
    def _body(self, request: str) -> Body:
        """Return the body of a request, as this form of endpoint takes it."""

    @abstractmethod
    def _choices(self, request: str, body: Any) -> tuple[Choice, ...]:
        """Read the answers from a reply's body; ``UnusableReply`` if it holds none."""


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
    most_questions = 400

    def _body(self, request: str) -> Body:
        return openai_body(self.model, request)

    def _choices(self, request: str, body: Any) -> tuple[Choice, ...]:
        return openai_choices(self.name, request, body)


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
    most_questions = 64  # of transformers serve, the least that is known

    def _with_version(self, address: str) -> str:
        # TypeSafe's SDK and LiteLLM name addresses without it
        if "?" in address or address.rstrip("/").endswith("/v1"):
            return address
        return f"{address.rstrip('/')}/v1"

    def _name_at_endpoint(self, model: str, *, is_address_given: bool) -> str:
        if is_address_given:
            return model
        if not model:
            raise no_model(self.form)
        if not model.startswith(_TYPESAFE):
            raise errors.SettingError(
                f"{self.name} needs the address of its endpoint: api_base= (--api-base)"
                " or RAGMETRICS_API_BASE, e.g. http://127.0.0.1:8000/v1; a provider"
                " stands before the model, e.g. systemone/typesafe/jev-1.13.0"
            )
        return model.removeprefix(_TYPESAFE)

    def _body(self, request: str) -> Body:
        return {"model": self.model, **systemone_fields(request)}

    def _choices(self, request: str, body: Any) -> tuple[Choice, ...]:
        return systemone_choices(self.name, request, body)


class _DecisionClient(OpenAICompatibleModel):
    """Our client at the path of typed questions."""

    def key(self) -> str:
        """Return the key that is sent; "" for none."""
        return self._key()

    def _parsed(self, content: bytes) -> Any:
        return json.loads(content, object_pairs_hook=object_of_single_names)

    def _error(self, fault: Fault) -> errors.JudgeError:
        if fault.status == _NOT_IMPLEMENTED:
            return _no_decision_model(f"{self.name} at {self.address}")
        return super()._error(fault)


class LiteLLMDecisionModel(DecisionModel, LiteLLMModel):
    """A model of typed questions of a provider that LiteLLM reaches.

    LiteLLM reads answers before we do: a number that is sent as a text counts as one.

    Args:
        model: LiteLLM's name of it, provider first, with or without ``systemone/``,
            e.g. ``"perplexity/pplx-decide"``.
        most_questions: Most questions in one request.
        prices: US dollars per token read and given, if you know better.
        api_base: This and all others are as in ``LiteLLMModel``.

    Raises:
        MissingDependency: If LiteLLM is not installed.

    Examples:
        >>> LiteLLMDecisionModel("databricks/decide").name
        'systemone/databricks/decide'
    """

    def __init__(
        self,
        model: str,
        *,
        most_questions: int = 128,
        api_base: str | None = None,
        api_key: str | None = None,
        api_key_env: str | None = None,
        timeout: float = 60.0,
        capabilities: Capabilities | None = None,
        prices: tuple[float, float] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Check and keep the settings that the class describes; nothing is sent.

        Example: "systemone/azure_ai/m" is LiteLLM's "azure_ai/m".
        """
        # ``most_questions`` are those of one request.
        check_number("LiteLLMDecisionModel(most_questions=)", most_questions, least=1)
        # Only our own names begin with "systemone/"; LiteLLM does not know the prefix.
        name_for_litellm = model.removeprefix(SYSTEM_ONE)
        super().__init__(
            name_for_litellm,
            api_base=api_base,
            api_key=api_key,
            api_key_env=api_key_env,
            timeout=timeout,
            capabilities=capabilities,
            prices=prices,
            extra=extra,
        )
        self.name = f"{SYSTEM_ONE}{name_for_litellm}"
        self.most_questions = most_questions

    def __repr__(self) -> str:
        return f"LiteLLMDecisionModel({self.model!r})"

    @property
    def cache_key(self) -> str | None:
        """Address, model and settings, apart from those of the same model as a chat."""
        key = super().cache_key
        return None if key is None else f"{SYSTEM_ONE}|{key}"

    async def _call_litellm(self, litellm: Any, request: ChatRequest) -> Any:
        text = request.messages[0].content
        request_fields = await compute_beside_loop(
            lambda: systemone_fields(text), size=len(text)
        )
        return await litellm.asystemone(
            **request_fields, **self._how_to_call(), **self._extra
        )

    def _reply(self, response: Any, request: ChatRequest) -> ChatReply:
        answered = response.model_dump()
        reply = reply_of(
            self.name,
            systemone_choices(self.name, request.messages[0].content, answered),
            usage=tokens_by_name(answered),
            models=[answered.get("model")],
            secret_to_leave_out=self._key(),
        )
        return add_price(reply, self._prices)

    def _translate_error(self, error: Exception) -> errors.JudgeError:
        fault = Fault.of(error)
        if fault.status == _NOT_IMPLEMENTED:
            return _no_decision_model(self.name)
        if _UNREAD_BY_LITELLM in fault.text:
            # that body came with a success, whatever status LiteLLM gives it
            return no_answers(self.name, "systemone")
        return super()._translate_error(error)


_UNREAD_BY_LITELLM = "returned an unexpected response"


def decision_model(
    name: str, *, api_base: str | None = None, api_key_env: str | None = None
) -> DecisionModel | None:
    """Return the client for the name of a model of typed questions.

    A typed question is answered with probabilities, not in words. Examples:

    - "openai/gpt-4o" is a chat model: None.
    - "decisions/gpt-6-luna" gives an ``OpenAIDecisionModel``.
    - "systemone/jev" and "systemone/typesafe/jev" give a ``SystemOneModel``.
    - "systemone/openrouter/jev" gives a ``LiteLLMDecisionModel``.

    Args:
        name: The name.
        api_base: Address of the endpoint; None for the provider's own.
        api_key_env: The environment variable that holds its key.

    Returns:
        The client; None for a name with another prefix, which is no such model.

    Raises:
        SettingError: If no model is named, or its address is missing.
        MissingDependency: If LiteLLM is needed and not installed.
    """
    if name.startswith(DECISIONS):
        return OpenAIDecisionModel(name, api_base=api_base, api_key_env=api_key_env)
    if not name.startswith(SYSTEM_ONE):
        return None
    model = name.removeprefix(SYSTEM_ONE)  # "jev" or "openrouter/jev"
    if not _is_reached_through_litellm(model, api_base):
        return SystemOneModel(name, api_base=api_base, api_key_env=api_key_env)
    _, _, model_of_provider = model.partition("/")
    if not model_of_provider:  # the name was "systemone/openrouter"
        raise no_model(SYSTEM_ONE)
    return LiteLLMDecisionModel(name, api_base=api_base, api_key_env=api_key_env)


def _is_reached_through_litellm(model: str, api_base: str | None) -> bool:
    """Whether a model of typed questions is called by LiteLLM, not by our own client.

    Example: "openrouter/jev" is; "jev" and "typesafe/jev" are not.

    Args:
        model: MODEL or PROVIDER/MODEL.
        api_base: Address of the endpoint; None if the user gives none.
    """
    provider, slash, _ = model.partition("/")
    if provider in _THROUGH_LITELLM:  # our client does not speak its protocol
        return True
    names_provider = bool(slash)
    is_address_known = api_base is not None or model.startswith(_TYPESAFE)
    return names_provider and not is_address_known


def no_model(form: str) -> errors.SettingError:
    """Return the error for a name that is just the prefix, such as "decisions/"."""
    example = "gpt-6-luna" if form == DECISIONS else "typesafe/jev-1.13.0"
    return errors.SettingError(
        f"{form} names no model: give {form}MODEL, e.g. {form}{example}"
    )


def _no_decision_model(where: str) -> errors.JudgeUnavailable:
    """Return the error of a server whose model answers no typed questions."""
    return errors.JudgeUnavailable(
        f"{where} answers no typed questions (HTTP 501): start that server with a"
        " decision model"
    )
