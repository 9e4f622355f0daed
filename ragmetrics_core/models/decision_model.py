"""Models that answer typed questions with probabilities, and write nothing.

They are chat models to the session alone, which keeps their answers, limits and prices:
the message of a request is its state and questions as JSON, and each choice of a reply
is the answer to one of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ragmetrics_core.data import errors
from ragmetrics_core.data.frozen import check_number
from ragmetrics_core.models.addresses import OPENAI, openai_endpoint
from ragmetrics_core.models.chat import ChatModel, ChatReply, ChatRequest
from ragmetrics_core.models.compatible_model import OpenAICompatibleModel
from ragmetrics_core.models.decision_forms import (
    openai_body,
    openai_choices,
    systemone_choices,
    systemone_fields,
    tokens_by_name,
)
from ragmetrics_core.models.endpoint_errors import Fault
from ragmetrics_core.models.litellm_model import LiteLLMModel
from ragmetrics_core.models.openai_form import decision_prices, priced, reply_of
from ragmetrics_core.models.threads import computed

_PATH = "decisions"
_NOT_IMPLEMENTED = 501


class DecisionModel(ChatModel):
    """A model that answers typed questions; it is asked by ``DecisionJudge`` alone.

    Attributes:
        most_questions: Most questions that one request may hold.
    """

    most_questions: int = 128


class OpenAIDecisionModel(DecisionModel):
    """A model behind an endpoint that speaks OpenAI's ``POST /v1/decisions``.

    Args:
        model: Its name there, with or without ``decisions/``.
        api_base: Address of the endpoint, up to and with ``/v1``; None takes
            ``OPENAI_BASE_URL``, else OpenAI's own.
        api_key: The key.
        api_key_env: The environment variable that holds it. With neither, OpenAI's own
            address gets ``OPENAI_API_KEY``, and ``api_base`` gets none.
        timeout: Seconds for one call.
        prices: US dollars per token read and given; by default those of our dated file.
        most_questions: Most questions in one request.
        extra: Further fields of the request's body.

    Raises:
        SettingError: If a number is out of range, or address and key are named in
            different places.

    Examples:
        >>> OpenAIDecisionModel("gpt-6-luna", api_key="secret").name
        'decisions/gpt-6-luna'
    """

    name = ""
    cache_key: str | None = ""

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        api_key_env: str | None = None,
        timeout: float = 60.0,
        prices: tuple[float, float] | None = None,
        most_questions: int = 400,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        check_number("OpenAIDecisionModel(most_questions=)", most_questions, least=1)
        self.model = model.removeprefix("decisions/")
        self.name = f"decisions/{self.model}"
        self.most_questions = most_questions
        endpoint = openai_endpoint(
            api_base, key_named=api_key is not None or api_key_env is not None
        )
        address = endpoint.address or OPENAI
        if prices is None and address == OPENAI:
            prices = decision_prices(self.model)
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
        self.cache_key = f"decisions|{self._client.cache_key}"

    def __repr__(self) -> str:
        return f"OpenAIDecisionModel({self.model!r}, api_base={self.address!r})"

    @property
    def address(self) -> str:
        """Where requests go, without user, query or key."""
        return self._client.address

    def prices(self) -> tuple[float, float] | None:
        """US dollars per token read and given; None if unknown."""
        return self._client.prices()

    async def prepare(self) -> None:
        """Import the HTTP client in a thread; it takes a moment."""
        await self._client.prepare()

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await self._client.aclose()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Send one request; a choice of the reply is the answer to a question.

        Raises:
            JudgeError: As the status and code of the reply say.
        """
        text = request.messages[0].content
        body = await computed(
            lambda: {**openai_body(self.model, text), **self._extra}, size=len(text)
        )
        data = json.dumps(body).encode()
        answered = await self._client.call("POST", _PATH, data)
        reply = reply_of(
            self.name,
            openai_choices(self.name, text, answered),
            usage=tokens_by_name(answered),
            models=[answered.get("model")],
            key=self._client.key(),
        )
        return priced(reply, self.prices())


class _DecisionClient(OpenAICompatibleModel):
    """Our client at the path of typed questions."""

    def key(self) -> str:
        """The key that is sent; "" for none."""
        return self._key()

    def _error(self, kind: type[errors.JudgeError], fault: Fault) -> errors.JudgeError:
        if fault.status != _NOT_IMPLEMENTED:
            return super()._error(kind, fault)
        return errors.ModelNotFound(
            f"{self.name} at {self.address} answers no typed questions (HTTP 501): start"
            " that server with a decision model"
        )


class SystemOneModel(DecisionModel, LiteLLMModel):
    """A model that answers System One's typed questions, reached through LiteLLM.

    Args:
        model: LiteLLM's name of it, provider first, with or without ``systemone/``,
            e.g. ``"typesafe/jev-latest"``. A name without a provider, with ``api_base``,
            is a server of one's own: llama.cpp, SGLang, Ollama, ``transformers serve``.
        most_questions: Most questions in one request.
        settings: All others are those of ``LiteLLMModel``; prices are those of what is
            read and given.

    Raises:
        MissingDependency: If LiteLLM is not installed.

    Examples:
        >>> SystemOneModel("typesafe/jev-1.13").name
        'systemone/typesafe/jev-1.13'
    """

    def __init__(
        self, model: str, *, most_questions: int = 128, **settings: Any
    ) -> None:
        check_number("SystemOneModel(most_questions=)", most_questions, least=1)
        provided = model.removeprefix("systemone/")
        if "/" not in provided and settings.get("api_base") is not None:
            provided = f"hosted_vllm/{provided}"
        super().__init__(provided, **settings)
        self.name = f"systemone/{model.removeprefix('systemone/')}"
        self.most_questions = most_questions

    def __repr__(self) -> str:
        return f"SystemOneModel({self.model!r})"

    @property
    def cache_key(self) -> str | None:
        """Address, model and settings, apart from those of the same model as a chat."""
        key = super().cache_key
        return None if key is None else f"systemone|{key}"

    async def _called(self, litellm: Any, request: ChatRequest) -> Any:
        text = request.messages[0].content
        asked = await computed(lambda: systemone_fields(text), size=len(text))
        return await litellm.asystemone(**asked, **self._how_to_call(), **self._extra)

    def _reply(self, response: Any, request: ChatRequest) -> ChatReply:
        answered = response.model_dump()
        reply = reply_of(
            self.name,
            systemone_choices(self.name, request.messages[0].content, answered),
            usage=tokens_by_name(answered),
            models=[answered.get("model")],
            key=self._key(),
        )
        return self._priced(reply, response)
