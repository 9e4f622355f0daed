"""A chat model behind any endpoint that speaks OpenAI's protocol.

It is built on aiohttp and takes a twentieth of the CPU of LiteLLM.
"""

import asyncio
import atexit
import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, Self

from ragmetrics_core.data import did_you_mean, errors
from ragmetrics_core.data.frozen import check_seconds
from ragmetrics_core.models.addresses import (
    NAME_A_KEY,
    OPENAI,
    PROVIDERS,
    TYPESAFE,
    endpoint_address,
    provider_endpoint,
    proxy_for,
    public_address,
)
from ragmetrics_core.models.cache_keys import endpoint_key
from ragmetrics_core.models.chat import (
    CONNECTING_SECONDS,
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    check_prices,
)
from ragmetrics_core.models.endpoint_errors import (
    MOST_BYTES,
    Fault,
    error_of_large_reply,
    error_of_redirect,
    judge_error,
    status_of_body,
    wait_in_headers,
)
from ragmetrics_core.models.endpoint_sentences import leave_secret_out, without_secret
from ragmetrics_core.models.limits import Patience
from ragmetrics_core.models.openai_form import (
    chat_reply,
    facts_of_listed_model,
    names_of_models,
    prices_in_litellm,
    request_body,
)
from ragmetrics_core.models.threads import compute_beside_loop

if TYPE_CHECKING:
    import aiohttp

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_FIRST_STATUS_OF_ERRORS = 300
_IDLE_SECONDS = 15.0
# Time and size limits for a call that sends or fetches a file of requests in a batch.
_SECONDS_OF_FILES = 600.0
_BYTES_OF_FILES = 2**30
# The price of a request in a batch at OpenAI, as a share of the usual price.
_PRICE_FACTOR_IN_BATCHES = 0.5

_CHAT_PATH = "chat/completions"


class EndpointModel(ChatModel):
    """What models at an endpoint have in common: key, time, abilities and prices."""

    name = ""
    api_key_env: str | None
    _api_key: str | None
    _patience: Patience
    _capabilities: Capabilities
    _prices: tuple[float, float] | None

    @property
    def timeout(self) -> float:
        """Seconds that a call may take at first; more where the endpoint answers late."""
        return self._patience.least

    def capabilities(self) -> Capabilities:
        """Return what was stated; other features are tried once."""
        return self._capabilities

    def prices(self) -> tuple[float, float] | None:
        """Return US dollars per prompt token and per reply token; None if unknown."""
        return self._prices

    def _key(self) -> str:
        """Return the key that was given, else that of its variable now; "" for none."""
        if self._api_key is not None:
            return self._api_key.strip()
        return os.environ.get(self.api_key_env or "", "").strip()

    @property
    def _advice_on_key(self) -> str:
        """What to do where an address wants a key, and none was given."""
        if self.api_key_env:
            return f"set {self.api_key_env} or pass api_key="
        return NAME_A_KEY


class OpenAICompatibleModel(EndpointModel):
    """A model behind an endpoint that speaks OpenAI's chat protocol.

    Examples are vLLM, SGLang, llama.cpp, Ollama, TGI and OpenAI.

    Args:
        base_url: Address of the endpoint, up to and with ``/v1``.
        model: Its name there.
        api_key: The key.
        api_key_env: The environment variable that holds the key, where ``api_key`` is
            None. No other one is read.
        timeout: Seconds for one call.
        capabilities: What the endpoint can do; by default each feature is tried once.
        prices: US dollars per prompt token and per reply token; None if unknown.
        extra: Further fields of the request's body, e.g. ``{"seed": 1}``.
        name: Name in results; by default ``openai-compatible/`` and the model's.

    Attributes:
        batch_share: What a request in a batch costs there, as a share of the prices.

    Examples:
        >>> OpenAICompatibleModel("http://127.0.0.1:8000/v1", "llama3.1", api_key="secret")
        OpenAICompatibleModel('http://127.0.0.1:8000/v1', 'llama3.1')
    """

    cache_key: str | None = ""
    batch_share = 1.0
    # Makes an object of a reply of its names and values; None for a usual one.
    _object_of_pairs: Callable[[Sequence[tuple[str, Any]]], Any] | None = None

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        api_key_env: str | None = None,
        timeout: float = 60.0,
        capabilities: Capabilities | None = None,
        prices: tuple[float, float] | None = None,
        extra: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        """Check and keep the settings that the class describes; nothing is sent.

        Example: "http://localhost:8000/v1" and "llama3": the name shown is "openai-
        compatible/llama3".

        Raises:
            SettingError: If no model is named, the address cannot be read, or a number
                is out of range.
        """
        check_seconds("OpenAICompatibleModel(timeout=)", timeout)
        if not model.strip():
            raise errors.SettingError(
                f"{name or type(self).__name__} names no model: give the name that the"
                " endpoint knows it by"
            )
        check_prices(name or model, prices)
        address = endpoint_address(base_url)
        self.base_url = address.shown.rstrip("/")
        self.model = model
        self.name = name or f"openai-compatible/{model}"
        # further fields of every request's body
        self._extra = dict(extra or {})
        self.cache_key = endpoint_key(self.base_url, model, self._extra)
        self._proxy = proxy_for(self.base_url)
        self._api_key = api_key
        self.api_key_env = api_key_env
        self._patience = Patience(timeout)
        self._capabilities = capabilities or Capabilities()
        self._prices = prices

    @property
    def address(self) -> str:
        """Where requests go."""
        return self.base_url

    def __repr__(self) -> str:
        return f"OpenAICompatibleModel({self.base_url!r}, {self.model!r})"

    @classmethod
    def named(
        cls,
        name: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        api_key_env: str | None = None,
        timeout: float = 60.0,
    ) -> Self:
        """Return the client of a provider's model: ``addresses`` lists the providers.

        Example: ``"groq/llama-3.3-70b"`` gets Groq's address and the key in
        ``GROQ_API_KEY``; ``"gpt-4o-mini"`` gets OpenAI's, and the prices in our list.

        Args:
            name: The provider and its name of the model. Without a provider, it is
                OpenAI.
            api_base: The address. None takes that in the provider's variable, such as
                ``OPENAI_BASE_URL``, or else the provider's own.
            api_key: The key.
            api_key_env: The variable of the environment that holds the key.
            timeout: Seconds that a call may take at first.

        Without ``api_key`` and ``api_key_env`` the key depends on the address:

        - the provider's own address: the key in its usual variable;
        - another address in the provider's variable: the key in
          ``RAGMETRICS_API_KEY``;
        - another address in ``api_base``: no key is sent.

        Raises:
            SettingError: If a key is given here, and the address comes from a variable;
                if the model is Azure's, and no address is named; or if the provider is
                none of those in ``addresses``.
        """
        prefix, slash, model = name.partition("/")
        if not slash:
            prefix, model = "openai", name
        if prefix not in PROVIDERS:
            raise errors.SettingError(
                f"no address is known for {prefix}/…: give base_url and model, as in"
                " OpenAICompatibleModel('http://127.0.0.1:8000/v1', 'llama3.1')"
            )
        provider = PROVIDERS[prefix]
        has_key = api_key is not None or api_key_env is not None
        endpoint = provider_endpoint(provider, api_base, has_key=has_key)
        address = provider.whole(endpoint.address or provider.address)
        listed_model = facts_of_listed_model(model) if provider is OPENAI else None
        capabilities: Capabilities | None = None
        prices: tuple[float, float] | None = None
        if listed_model is not None:
            prices = listed_model.prices
            # A gateway at another address may refuse what OpenAI itself can do.
            if address == OPENAI.address:
                capabilities = listed_model.capabilities
        elif provider.owns(address):
            prices = prices_in_litellm(name)
        client = cls(
            address,
            model,
            api_key=api_key,
            api_key_env=api_key_env or endpoint.key_variable,
            timeout=timeout,
            capabilities=capabilities,
            prices=prices,
            name=name,
        )
        if listed_model is not None:
            client.batch_share = _PRICE_FACTOR_IN_BATCHES
        return client

    @property
    def batch_prices(self) -> tuple[float, float] | None:
        """US dollars per token of a request in a batch; None if unknown."""
        if self._prices is None:
            return None
        price_sent, price_received = self._prices
        return price_sent * self.batch_share, price_received * self.batch_share

    async def prepare(self) -> None:
        """Import aiohttp in a thread; it takes a moment."""
        if "aiohttp" not in sys.modules:
            await asyncio.to_thread(importlib.import_module, "aiohttp")

    def reply(self, body: Any, prices: tuple[float, float] | None) -> ChatReply:
        """Make a reply of its body, as parsed from JSON.

        Args:
            body: The body.
            prices: US dollars per token sent and received; None if unknown.

        Raises:
            TransientJudgeError: If the body is no chat reply.
        """
        return chat_reply(self.name, body, prices, (self._key(),))

    def body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the body of a request, as it is sent."""
        return {"model": self.model, **request_body(request), **self._extra}

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Send one request, and return the reply.

        Raises:
            JudgeError: If the endpoint cannot be reached, or replies with an error;
                then status and code decide.
        """
        return self.reply(await self._ask(_CHAT_PATH, request), self._prices)

    async def _ask(self, path: str, request: ChatRequest) -> Any:
        """Send a request as JSON, and return the body of the reply, parsed.

        Some endpoints answer "200 OK", with an error in the body.
        """
        length = sum(len(message.content) for message in request.messages)
        data = await compute_beside_loop(
            lambda: json.dumps(self.body(request)).encode(), size=length
        )
        content = await self.call("POST", path, data)
        body = await self.read_json(content)
        status = status_of_body(body)
        if status is not None:
            raise self._error_of_reply(status, {}, content)
        return body

    async def call(self, method: str, path: str, data: Any = None) -> bytes:
        """Call the endpoint at a path below ``base_url``; raises as ``complete`` does.

        Example: ``call("POST", "chat/completions", data)`` returns the reply's JSON.

        Args:
            method: ``GET`` or ``POST``.
            path: The path, with its query if it has one.
            data: JSON as bytes, or a form of aiohttp; None for nothing.
        """
        url = f"{self.base_url}/{path}"
        is_of_files = path.startswith("files")  # files hold the requests of a batch
        patience = Patience(_SECONDS_OF_FILES) if is_of_files else self._patience
        most_bytes = _BYTES_OF_FILES if is_of_files else MOST_BYTES
        async with patience.during_call(self.name):
            status, headers, content = await self._send(method, url, data, most_bytes)
        if status in _REDIRECTS and "Location" in headers:
            raise error_of_redirect(self.name)
        if status >= _FIRST_STATUS_OF_ERRORS:
            raise self._error_of_reply(status, headers, content)
        return content

    async def read_json(self, content: bytes) -> Any:
        """Read a reply as JSON; ``TransientJudgeError`` if it is none."""
        try:
            return await compute_beside_loop(
                partial(json.loads, content, object_pairs_hook=self._object_of_pairs),
                size=len(content),
            )
        except (ValueError, RecursionError) as raised:
            problem = "that is no JSON: check the address, up to and with /v1"
            is_of_other = True
            beginning = content.lstrip()
            if beginning.startswith(b"<"):
                problem += ", and whether a sign-in has run out"
            elif not beginning:
                is_of_other = False
                problem = (
                    "that is empty, as one that was cut off: run again later or check"
                    " the endpoint"
                )
            elif isinstance(raised, UnicodeDecodeError):
                is_of_other = False
                problem = (
                    "that is no text, as one that is broken or was compressed twice:"
                    " check the endpoint"
                )
            elif beginning.startswith(b"data:"):
                problem = (
                    "that is streamed, which was not asked for: turn that off there"
                )
            elif beginning.startswith(b"{"):
                is_of_other = False
                problem = (
                    "whose JSON is not whole, as one that was cut off: run again later"
                    " or check the endpoint"
                )
            error = errors.TransientJudgeError(f"{self.name} sent a body {problem}")
            error.is_of_other = is_of_other
            raise error from None

    def _error_of_reply(
        self, status: int, headers: Mapping[str, str], content: bytes
    ) -> errors.JudgeError:
        """Return the error for the status and the content of a reply."""
        seconds_to_wait = wait_in_headers(headers)
        text = content.decode(errors="replace")
        return self.error_of(Fault.from_reply(status, text, seconds_to_wait))

    def error_of(self, fault: Fault) -> errors.JudgeError:
        """Return the error for a fault that the endpoint told, without its key."""
        error = self._error(fault)
        leave_secret_out(error, self._key())
        return error

    def without_key(self, content: bytes) -> bytes:
        """Return the content of a file of lines without the key that is sent."""
        key = self._key()
        lines = (line.decode(errors="replace") for line in BytesIO(content))
        return b"".join(without_secret(line, key).encode() for line in lines)

    async def _send(
        self, method: str, url: str, data: Any, most_bytes: int
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request; return the status, the headers and the content of the reply.

        Example: ``(200, {"content-type": …}, b'{"choices": …}')``. A status such as 503
        is returned, too, and raises nothing here.

        Raises:
            JudgeError: If nothing could be sent, no reply came, or the reply was too
                large.
        """
        import aiohttp  # not every run needs it

        headers = self._headers()
        if isinstance(data, bytes):
            headers["Content-Type"] = "application/json"
        # The longest wait for a further part of the reply. A file comes in many parts,
        # and may take longer in all.
        longest_pause = 2 * self._patience.seconds
        timeout = aiohttp.ClientTimeout(
            connect=CONNECTING_SECONDS, sock_read=longest_pause
        )
        try:
            async with _session().request(
                method,
                url,
                data=data,
                headers=headers,
                proxy=self._proxy,
                allow_redirects=False,
                timeout=timeout,
            ) as response:
                parts: list[bytes] = []
                n_bytes = 0
                async for part in response.content.iter_any():
                    parts.append(part)
                    n_bytes += len(part)
                    if n_bytes > most_bytes:
                        response.close()
                        raise error_of_large_reply(self.name, most_bytes)
                return response.status, response.headers, b"".join(parts)
        except (aiohttp.ClientError, OSError) as raised:
            # aiohttp's own classes of time-outs say whether it was connected.
            fault = Fault.of(raised)
            error = self._error(fault)
            is_of_reply = isinstance(raised, aiohttp.ClientResponseError)
            if is_of_reply and not fault.is_refused_by_proxy:
                # Its status is aiohttp's own.
                problem = "that breaks the rules of HTTP"
                if fault.has_large_headers:
                    problem = "with headers that are too long or too many"
                error = errors.TransientJudgeError(
                    f"{self.name} sent a reply {problem}: check the endpoint"
                )
            is_payload = isinstance(raised, aiohttp.ClientPayloadError)
            has_begun = is_payload or fault.has_large_headers
            is_without_tls = url.startswith("http:") and not has_begun
            is_broken = type(error) is errors.TransientJudgeError and error.is_sent
            if is_broken and is_without_tls:
                begins = ", and whether its address begins with https://"
                error.args = (f"{error}{begins}",)
        # Raised outside of the handler, so that the client's exception, which may hold
        # keys and texts, is not attached to it.
        raise error

    async def aclose(self) -> None:
        """Close the connections of the running loop; the next call opens new ones."""
        session = _sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    def _headers(self) -> dict[str, str]:
        """Return the header with the key; {} without a key.

        Example: ``{"Authorization": "Bearer sk-…"}``.

        Raises:
            AuthenticationFailed: If the key holds a character that no key has, or there
                is none, and the endpoint is known to want a key.
        """
        key = self._key()
        is_more_than_key = key.casefold().startswith(("bearer ", '"', "'"))
        if is_more_than_key or not (key.isascii() and key.isprintable()):
            raise errors.AuthenticationFailed(
                f"the key for {self.name} holds what no key has, e.g. a line break, a"
                ' quotation mark or "Bearer": copy it again, alone'
            )
        if key:
            return {"Authorization": f"Bearer {key}"}
        for provider in (*PROVIDERS.values(), TYPESAFE):
            if provider.key_variable is not None and provider.owns(self.base_url):
                raise self._error(Fault(401))  # it answers nobody without a key
        return {}

    def _error(self, fault: Fault) -> errors.JudgeError:
        """Return the error for a fault, with advice."""
        proxy = f" through {public_address(self._proxy)}" if self._proxy else ""
        names = f"the names that it knows stand at {self.base_url}/models"
        advice_on_model = f"check its name and the address, up to and with /v1; {names}"
        if self.base_url == OPENAI.address:
            similar_name = did_you_mean(self.model, names_of_models())
            advice_on_model = f"check its name{similar_name}; {names}"
        return judge_error(
            fault,
            f"{self.name} at {self.base_url}{proxy}",
            advice_on_key="" if self._key() else self._advice_on_key,
            advice_on_model=advice_on_model,
        )


# The connections of each event loop.
_sessions: dict[asyncio.AbstractEventLoop, "aiohttp.ClientSession"] = {}


def _session() -> "aiohttp.ClientSession":
    """Return the connections of the running loop; the first call opens them.

    They stay open between calls. Their number is not limited here, since the session's
    slots limit the calls.
    """
    import aiohttp

    loop = asyncio.get_running_loop()
    session = _sessions.get(loop)
    if session is None or session.closed:
        for known_loop in list(_sessions):
            if known_loop.is_closed():
                del _sessions[known_loop]
        connector = aiohttp.TCPConnector(
            limit=0, keepalive_timeout=_IDLE_SECONDS, ttl_dns_cache=300
        )
        session = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar()
        )
        _sessions[loop] = session
    return session


@atexit.register
def _close() -> None:
    """Close all connections at the end of the process, so that nothing is printed."""
    closings = [
        asyncio.run_coroutine_threadsafe(session.close(), loop)
        for loop, session in list(_sessions.items())
        if loop.is_running()
    ]
    wait(closings, timeout=1.0)
