"""The chat model of the core: LiteLLM, which reaches every provider.

The only file that knows it.

``import litellm`` takes seconds and would fetch lists, so it happens at the first call,
in a thread, with the lists that come with the package. Its retries and its
console output are off. It would load a ``.env`` file that stands above its own folder,
so it is told not to. Its clients are held to our rules: ``litellm_clients``.
"""

import asyncio
import copy
import functools
import importlib.util
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ragmetrics_core.data import errors
from ragmetrics_core.data.frozen import check_seconds
from ragmetrics_core.models.addresses import (
    endpoint_address,
    headers_that_say_who,
    proxy_for,
    public_address,
)
from ragmetrics_core.models.attempts import call_authors_code
from ragmetrics_core.models.cache_keys import (
    endpoint_key,
    provider_addresses,
    public_form,
)
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatReply,
    ChatRequest,
    check_prices,
)
from ragmetrics_core.models.compatible_model import EndpointModel
from ragmetrics_core.models.endpoint_errors import Fault, judge_error
from ragmetrics_core.models.endpoint_sentences import leave_secret_out
from ragmetrics_core.models.limits import Patience
from ragmetrics_core.models.openai_form import (
    choice_of,
    facts_of_listed_model,
    prices_in_litellm,
    reply_of,
    request_body,
)

# What LiteLLM fetches at its import or at the first call, unless it is told not to.
_FETCHED_LISTS = ("MODEL_COST_MAP", "ANTHROPIC_BETA_HEADERS")
# An application's own cache, which knows no addresses and tells one reply as five.
_NO_CACHE = {"no-cache": True, "no-store": True}
_NO_KEY = "none-was-named"  # clients want one; the header that holds it is not sent


@functools.cache
def _litellm() -> Any:
    """Import LiteLLM and return the module.

    LiteLLM is told to use the lists of its package instead of fetching them, to read no
    ``.env`` file, and to print nothing. What the user has set for it stays.
    Example: with ``LITELLM_LOG=DEBUG`` in the environment it logs as usual.
    """
    for name in _FETCHED_LISTS:
        os.environ.setdefault(f"LITELLM_LOCAL_{name}", "True")
    mode_before = os.environ.get("LITELLM_MODE")
    # In this mode LiteLLM reads no .env file: a file in the working folder must not be
    # able to send requests to another address.
    os.environ["LITELLM_MODE"] = "PRODUCTION"
    try:
        import litellm as module  # takes seconds
    finally:
        if mode_before is None:
            del os.environ["LITELLM_MODE"]
        else:
            os.environ["LITELLM_MODE"] = mode_before

    litellm: Any = module
    litellm.suppress_debug_info = True
    if "LITELLM_LOG" not in os.environ:
        for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
            logger = logging.getLogger(name)
            if logger.level == logging.NOTSET:
                logger.setLevel(logging.CRITICAL)
    return litellm


class LiteLLMModel(EndpointModel):
    """A model that LiteLLM reaches.

    Examples are OpenAI, Anthropic, Mistral, Ollama and vLLM. There are a hundred
    others.

    Args:
        model: LiteLLM's name of it, provider first, e.g. ``"openai/gpt-4o-mini"`` or
            ``"ollama/llama3.1"``.
        api_base: Address of an endpoint of your own; None for the provider's.
        api_key: The key.
        api_key_env: The environment variable that holds it. With neither, the
            provider's own address gets the key in the provider's usual variable, and
            ``api_base`` gets none.
        timeout: Seconds for one call.
        capabilities: What the endpoint can do; by default each feature is tried once.
        prices: US dollars per prompt token and per reply token, if you know better than
            our dated file and LiteLLM's table, which hold for providers' own addresses.
        extra: Further arguments of ``litellm.acompletion``, e.g. ``{"seed": 1}``.

    Examples:
        >>> LiteLLMModel("ollama/llama3.1", api_base="http://127.0.0.1:11434", api_key="secret")
        LiteLLMModel('ollama/llama3.1', api_base='http://127.0.0.1:11434')
    """

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        api_key_env: str | None = None,
        timeout: float = 60.0,
        capabilities: Capabilities | None = None,
        prices: tuple[float, float] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Check and keep the settings that the class describes.

        It is checked that LiteLLM is installed. The first call imports it, which takes
        seconds. Example: ``LiteLLMModel("ollama/llama3", timeout=0)`` is refused.

        Raises:
            SettingError: If the name or the address is invalid, a number is out of
                range, or the name means a client of LiteLLM's whose requests we cannot
                check.
            MissingDependency: If LiteLLM is not installed.
        """
        check_seconds("LiteLLMModel(timeout=)", timeout)
        if importlib.util.find_spec("litellm") is None:
            raise errors.MissingDependency(
                f"{model} is reached through LiteLLM: pip install"
                " 'ragmetrics-core[litellm]'; without it there are OpenAI's own models"
                " and openai-compatible/MODEL with api_base=. A judge of your own is"
                " named module:name"
            )
        if "://" in model:
            raise errors.SettingError(
                "a model's name holds no address; name the address with api_base="
            )
        # For these names LiteLLM uses a client without httpx, to which no hook can be
        # added.
        if model.startswith("aiohttp_openai/"):
            raise errors.SettingError(
                f"{model}: name it openai/{model.partition('/')[2]}"
            )
        self.model = self.name = model
        self.api_base = api_base
        self.api_key_env = api_key_env
        self._api_key = api_key
        self._patience = Patience(timeout)
        self._given_address = None if api_base is None else endpoint_address(api_base)
        # Without secrets. The provider's own address is "" until the first call shows
        # it.
        self._shown_address = self._given_address.shown if self._given_address else ""
        check_prices(model, prices)
        # Our dated file names OpenAI's models without the prefix.
        listed_model = facts_of_listed_model(model.removeprefix("openai/"))
        if listed_model is not None:
            prices = prices or listed_model.prices
        elif api_base is None:
            prices = prices or prices_in_litellm(model)
        self._prices = prices
        self._extra = dict(extra or {})
        self._capabilities = capabilities or Capabilities()
        self._is_prepared = False

    def __repr__(self) -> str:
        base = (
            f", api_base={self._given_address.shown!r}" if self._given_address else ""
        )
        return f"LiteLLMModel({self.model!r}{base})"

    @property
    def cache_key(self) -> str | None:
        """The key under which replies are stored: address, model, extra arguments.

        Without a given address, the provider's addresses in the environment count, and
        LiteLLM's own for all providers.
        """
        settings = public_form(self._extra)
        if not isinstance(settings, Mapping):
            return None
        if self._given_address is not None:
            return endpoint_key(self._given_address.shown, self.model, settings)
        addresses = provider_addresses()
        address_of_all = getattr(sys.modules.get("litellm"), "api_base", None)
        if address_of_all:  # the application may have set it
            addresses["litellm.api_base"] = str(address_of_all)
        return endpoint_key(
            "", self.model, {"": addresses, **settings} if addresses else settings
        )

    @property
    def address(self) -> str:
        """Where requests go, without user, query or key.

        The provider's own is known after the first call.
        """
        return self._shown_address

    async def prepare(self) -> None:
        """Import LiteLLM in a thread. Only the first call does anything.

        Raises:
            JudgeUnavailable: If LiteLLM does not know who provides the model.
        """
        if self._is_prepared:
            return
        if not await asyncio.to_thread(knows_provider, self.model, self.api_base):
            raise errors.JudgeUnavailable(
                f"nothing provides the model {self.name}: give provider/model as LiteLLM"
                " knows it, e.g. openai/gpt-4o-mini or ollama/llama3.1"
            )
        self._is_prepared = True

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Send one request through LiteLLM, and return the reply.

        Example: a ``TransientJudgeError`` says "gpt sent no reply within 60 s".

        Raises:
            JudgeError: By what LiteLLM raises; if no reply comes in time; or if our
                hooks in LiteLLM's clients refused to send the request or to read its
                reply.
        """
        await self.prepare()
        # Imported only here, since it imports httpx, which comes with LiteLLM.
        from ragmetrics_core.models.litellm_clients import (
            LiteLLMCall,
            current_call,
            guard_clients,
        )

        litellm = _litellm()
        guard_clients(litellm)  # puts our hooks into LiteLLM's clients
        secrets = [self._key()]
        named_headers: set[str] = set()
        for name in ("extra_headers", "headers"):
            headers = self._extra.get(name)
            if isinstance(headers, Mapping):
                named_headers.update(map(str, headers.values()))
                for header in headers_that_say_who(headers, (), ""):
                    secrets += str(headers[header]).split()[-1:]  # behind "Bearer"
        # our hooks note here what they see of this call
        call = LiteLLMCall(
            self.name, self._key(), self.api_base or "", frozenset(named_headers)
        )
        token = current_call.set(call)
        endpoint: dict[str, str] = {}
        if self.api_base is not None:
            endpoint = {"api_base": self.api_base, "api_key": _NO_KEY}
        if self._key():
            endpoint["api_key"] = self._key()
        send = functools.partial(
            litellm.acompletion,
            **copy.deepcopy(request_body(request)),  # which LiteLLM may change
            model=self.model,
            timeout=self._patience.most,  # ours ends before
            num_retries=0,
            max_retries=0,
            **endpoint,
            **{"cache": _NO_CACHE, **self._extra},
        )
        try:
            async with self._patience.during_call(self.name):
                response = await call_authors_code(self._where, send)
                return self._reply(response, tuple(secrets))
        except errors.JudgeError as error:
            # A hook that refuses raises, and LiteLLM wraps that in an exception of its
            # own. So the hook has noted its error, too, which says what happened.
            failure = call.refusals[0] if call.refusals else self._with_advice(error)
            for secret in secrets:
                leave_secret_out(failure, secret)
            with suppress(errors.SettingError):  # LiteLLM may know other proxies
                proxy = proxy_for(call.address)
                if proxy is not None:
                    sentence = f"{failure} (through {public_address(proxy)})"
                    failure.args = (sentence, *failure.args[1:])
        finally:
            current_call.reset(token)
            # the provider's address, which nobody knows before the first call
            self._shown_address = self._shown_address or call.address
        raise failure

    def _reply(self, response: Any, secrets: tuple[str, ...]) -> ChatReply:
        """Make a reply of LiteLLM's response."""
        usage = dict(getattr(response, "usage", None) or ())
        choices = []
        for choice in response.choices or ():
            # Only the fields that are needed are read: to dump the whole object would
            # take a tenth of the call's time.
            message = choice.message
            provider_fields = getattr(message, "provider_specific_fields", None) or {}
            refusal = getattr(message, "refusal", None)
            logprobs = getattr(choice, "logprobs", None)
            choices.append(
                choice_of(
                    getattr(message, "content", None),
                    choice.finish_reason,
                    refusal or provider_fields.get("refusal"),
                    logprobs and logprobs.model_dump(),
                )
            )
        return reply_of(
            self.name,
            choices,
            usage=usage,
            models=[response.model],
            prices=self._prices,
            secrets=secrets,
        )

    @property
    def _where(self) -> str:
        """The model's name, with its address if one was given."""
        if self._given_address is None:
            return self.name
        return f"{self.name} at {self._given_address.shown}"

    def _with_advice(self, error: errors.JudgeError) -> errors.JudgeError:
        """Return an error; one of a missing key says how to give it."""
        if not isinstance(error, errors.AuthenticationFailed) or self._key():
            return error
        advice = self._advice_on_key
        if not self.api_key_env and self.api_base is None:
            facts = _litellm().validate_environment(self.model)
            variables = ", ".join(facts.get("missing_keys", ()))
            if not variables:
                return error
            advice = f"set {variables} or pass api_key="
        return judge_error(Fault(401), self._where, advice_on_key=advice)


def knows_provider(model: str, api_base: str | None) -> bool:
    """Whether LiteLLM is installed and knows who provides a model of this name."""
    try:
        litellm = _litellm()
    except ImportError:
        return False
    try:
        litellm.get_llm_provider(model, api_base=api_base)
    except litellm.exceptions.BadRequestError:
        return False
    return True
