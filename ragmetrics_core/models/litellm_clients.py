"""Checks what the httpx clients of LiteLLM send and receive, during our calls alone.

LiteLLM makes a client for each provider and event loop, and keeps it. Its clients
follow redirects, read replies of any length, and send the key that the environment
holds to whatever address they were given. We add event hooks to each of these clients,
which prevent all three. No class is changed, and no client of anybody else. Outside of
our calls the hooks do nothing.

Imported with LiteLLM, which brings httpx.
"""

import os
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NoReturn

import httpx

from ragmetrics_core.data import errors
from ragmetrics_core.models.addresses import (
    ADDRESS_VARIABLE,
    KEY_VARIABLE,
    headers_that_say_who,
    host_of,
    is_on_this_machine,
    proxy_for,
    public_address,
    variable_naming,
)
from ragmetrics_core.models.endpoint_errors import (
    MOST_BYTES,
    error_of_large_reply,
    error_of_redirect,
)


@dataclass
class LiteLLMCall:
    """A call of ours through LiteLLM.

    Args:
        model: Name of the model.
        given_key: The key that the caller gave; "" for none.
        given_address: The address that the caller gave; "" for the provider's own.
        given_headers: Values of headers that the caller gave.
        refusals: Why a hook did not send the request, follow its redirect or read its
            reply.
        address: The address that was called, without secrets; "" before the call.
    """

    model: str
    given_key: str
    given_address: str
    given_headers: frozenset[str]
    refusals: list[errors.JudgeError] = field(default_factory=list)
    address: str = ""

    def refuse(self, refusal: errors.JudgeError) -> NoReturn:
        """Raise an error, and note it: LiteLLM wraps it in one of its own."""
        self.refusals.append(refusal)
        raise refusal


current_call: ContextVar[LiteLLMCall | None] = ContextVar(
    "ragmetrics_litellm_call", default=None
)
"""Our call that the running task makes; None for calls of others."""


def guard_clients(litellm: Any) -> None:
    """Add our hooks to the clients that LiteLLM has made, and to all that it will make."""
    cache = litellm.in_memory_llm_clients_cache
    for client in (
        litellm.module_level_client,
        litellm.module_level_aclient,
        *cache.cache_dict.values(),
    ):
        _guard_client(client)
    if not isinstance(cache.set_cache, _GuardingSetter):
        cache.set_cache = _GuardingSetter(cache.set_cache)


class _GuardingSetter:
    """Stands in for LiteLLM's function that keeps a new client; adds our hooks first."""

    def __init__(self, set_cache: Any) -> None:
        self._set_cache = set_cache

    # The further arguments are LiteLLM's own, and are handed on as they are.
    def __call__(self, key: str, value: object, *rest: Any, **options: Any) -> Any:
        _guard_client(value)
        return self._set_cache(key, value, *rest, **options)


def _guard_client(keeper: object) -> None:
    """Add our hooks to the httpx client of one of LiteLLM's handlers or of an SDK."""
    fields = vars(keeper) if hasattr(keeper, "__dict__") else {}
    # The httpx client is the object itself, its "client" (LiteLLM's handlers), or its
    # "_client" (newer handlers, and OpenAI's SDK).
    for client in (keeper, fields.get("client"), fields.get("_client")):
        if isinstance(client, httpx.AsyncClient):
            _add_hooks(client, _check_request_async, _check_response_async)
        elif isinstance(client, httpx.Client):
            _add_hooks(client, _check_request, _check_response)
        else:
            continue
        if "event_hooks" in fields:  # a handler gives these to later clients
            fields["event_hooks"] = client.event_hooks


def _add_hooks(client: Any, check_request: Any, check_response: Any) -> None:
    hooks = client.event_hooks
    if check_request not in hooks["request"]:
        hooks["request"].append(check_request)
        hooks["response"].append(check_response)


def _check_request(request: httpx.Request) -> None:
    """Make sure that a request sends no key to an address that the key is not for.

    LiteLLM adds the keys of the environment to every request. They are removed from a
    request to an address that the caller gave. To the provider's own address they may
    go; but if a variable of the environment changed that address, the request is
    refused. The address is noted in our call, and so is a refusal.

    Raises:
        AuthenticationFailed: If a key that the caller did not give would go to an
            address that a variable of the environment names.
        JudgeUnavailable: If what is for this machine would go to a proxy.
    """
    call = current_call.get()
    if call is None:
        return
    url = str(request.url)
    call.address = public_address(url).removesuffix("/chat/completions")
    refusal: errors.JudgeError | None = None
    if is_on_this_machine(url) and proxy_for(url, spares_this_machine=False):
        refusal = errors.JudgeUnavailable(
            f"{call.model} at {call.address} would be asked through the proxy of the"
            " environment, though it is on this machine: set"
            f" NO_PROXY={request.url.host}"
        )
    elif call.given_address:
        # What the caller gave is for the address that the caller gave. Some providers
        # take no address, so that LiteLLM calls another host: without these headers.
        given_headers: frozenset[str] = frozenset()
        given_key = ""
        if host_of(url) == host_of(call.given_address):
            given_headers = call.given_headers
            given_key = call.given_key
        for name in headers_that_say_who(request.headers, given_headers, given_key):
            del request.headers[name]
    elif not call.given_key and headers_that_say_who(
        request.headers, call.given_headers, key=""
    ):
        address_variable = variable_naming(url, os.environ.items())
        if address_variable:
            refusal = errors.AuthenticationFailed(
                f"{address_variable} names an address that is not the provider's own,"
                f" {call.address}, and {call.model} would send its usual key there: name"
                f" address and key with {ADDRESS_VARIABLE} and {KEY_VARIABLE}, or"
                " --api-base and --api-key-env"
            )
    if refusal is not None:
        call.refuse(refusal)


def _check_response(response: httpx.Response) -> None:
    """Refuse a redirect before it is followed."""
    call = current_call.get()
    if call is not None and response.has_redirect_location:
        call.refuse(error_of_redirect(call.model))


async def _check_request_async(request: httpx.Request) -> None:
    _check_request(request)


async def _check_response_async(response: httpx.Response) -> None:
    """Refuse a redirect, and bound the reply's size before it is read."""
    _check_response(response)
    call = current_call.get()
    if call is not None and isinstance(response.stream, httpx.AsyncByteStream):
        response.stream = _BoundedStream(response.stream, call)


class _BoundedStream(httpx.AsyncByteStream):
    """A stream of bytes that raises an error when it becomes too long."""

    def __init__(self, stream: httpx.AsyncByteStream, call: LiteLLMCall) -> None:
        self._stream = stream
        self._call = call

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._stream:
            size += len(part)
            if size > MOST_BYTES:
                await self.aclose()
                self._call.refuse(error_of_large_reply(self._call.model))
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
