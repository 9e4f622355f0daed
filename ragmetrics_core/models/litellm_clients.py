"""The httpx clients that LiteLLM makes, held to our rules during our calls alone.

LiteLLM makes a client for each provider and event loop, and keeps it. Its clients
follow redirects, read replies of any length, and send the key that the environment
holds to whatever address they were given. We add event hooks to each of these clients.
No class is changed, and no client of anybody else. Outside of our calls the hooks do
nothing.

Imported with LiteLLM, which brings httpx.
"""

import os
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import httpx

from ragmetrics_core.data import errors
from ragmetrics_core.models.addresses import (
    ADDRESS_VARIABLE,
    KEY_VARIABLE,
    has_host_of,
    headers_that_tell_who,
    variable_naming,
)
from ragmetrics_core.models.endpoint_errors import (
    MOST_BYTES,
    error_of_large_reply,
    error_of_redirect,
)
from ragmetrics_core.models.urls import public_address


@dataclass
class LiteLLMCall:
    """Our call that is going on.

    Args:
        model: Name of the model.
        given_key: The key that was given; "" for none.
        given_address: The address that was given; "" for the provider's own.
        given_headers: Values of headers that the caller gave.
        refusals: Why a request was not sent, or its reply not followed or not read.
        address: What was asked, as it may be shown.
    """

    model: str
    given_key: str
    given_address: str
    given_headers: frozenset[str]
    refusals: list[errors.JudgeError] = field(default_factory=list)
    address: str = ""


current_call: ContextVar[LiteLLMCall | None] = ContextVar(
    "ragmetrics_litellm_call", default=None
)
"""Our call that the running task makes; None for calls of others."""


def guard_clients(litellm: Any) -> None:
    """Hold the clients that LiteLLM keeps to our rules, and those that it will make."""
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
    """LiteLLM's function that keeps a new client, with our guard before it."""

    def __init__(self, set_cache: Any) -> None:
        self._set_cache = set_cache

    def __call__(self, key: str, value: object, *rest: Any, **options: Any) -> Any:
        _guard_client(value)
        return self._set_cache(key, value, *rest, **options)


def _guard_client(keeper: object) -> None:
    """Add our hooks to the httpx client of one of LiteLLM's handlers or of an SDK."""
    fields = vars(keeper) if hasattr(keeper, "__dict__") else {}
    # in LiteLLM's handlers "client", in newer ones and in OpenAI's SDK "_client"
    for client in (keeper, fields.get("client"), fields.get("_client")):
        if isinstance(client, httpx.AsyncClient):
            _add_hooks(client, _check_request_async, _check_response_async)
        elif isinstance(client, httpx.Client):
            _add_hooks(client, _check_request, _check_response)
        else:
            continue
        if "event_hooks" in fields:  # with these a handler makes its client anew
            fields["event_hooks"] = client.event_hooks


def _add_hooks(client: Any, check_request: Any, check_response: Any) -> None:
    hooks = client.event_hooks
    if check_request not in hooks["request"]:
        hooks["request"].append(check_request)
        hooks["response"].append(check_response)


def _check_request(request: httpx.Request) -> None:
    """Before a request is sent: see to its address and its key."""
    call = current_call.get()
    if call is not None:
        _guard_key(call, request)


def _check_response(response: httpx.Response) -> None:
    """Before a redirect is followed: refuse it."""
    call = current_call.get()
    if call is not None and response.has_redirect_location:
        asked = str(response.request.url)
        location = response.headers["Location"]
        refusal = error_of_redirect(call.model, asked, location, call.given_key)
        call.refusals.append(refusal)
        raise refusal


async def _check_request_async(request: httpx.Request) -> None:
    _check_request(request)


async def _check_response_async(response: httpx.Response) -> None:
    """Before a reply is read: refuse a redirect, and bound the reply's size."""
    _check_response(response)
    call = current_call.get()
    if call is not None and isinstance(response.stream, httpx.AsyncByteStream):
        response.stream = _BoundedStream(response.stream, call)


class _BoundedStream(httpx.AsyncByteStream):
    """A stream that ends with an error where it is too long."""

    def __init__(self, stream: httpx.AsyncByteStream, call: LiteLLMCall) -> None:
        self._stream = stream
        self._call = call

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._stream:
            size += len(part)
            if size > MOST_BYTES:
                await self.aclose()
                refusal = error_of_large_reply(self._call.model)
                self._call.refusals.append(refusal)
                raise refusal
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


def _guard_key(call: LiteLLMCall, request: httpx.Request) -> None:
    """Take from a request every key that was not given for its address.

    To a given address goes only what was given with it: other headers that tell who
    asks are removed. The provider's own address gets the provider's usual key. But if
    the environment names another address for LiteLLM, the request is refused.

    Args:
        call: Our call. The address is noted in it, and so is a refusal.
        request: What LiteLLM is about to send.

    Raises:
        AuthenticationFailed: If the environment names the address for LiteLLM, and a
            key would go there.
    """
    url = str(request.url)
    path = "/v1/systemone" if url.endswith("/v1/systemone") else "/chat/completions"
    call.address = public_address(url).removesuffix(path)
    # Some providers take no address: LiteLLM then asks another host than the given one.
    is_given_host = not call.given_address or has_host_of(url, call.given_address)
    # names of the headers that tell who asks and were not given for this address
    credentials = headers_that_tell_who(
        request.headers,
        call.given_headers if is_given_host else (),
        call.given_key if is_given_host else "",
    )
    if call.given_address:
        for name in credentials:
            del request.headers[name]
        return
    # LiteLLM asks the address that it knows of the provider: a key that was given, or
    # none, may go there. The provider's usual key may, unless the environment has
    # changed the address.
    if call.given_key or not credentials:
        return
    address_variable = variable_naming(url, os.environ.items())
    if address_variable:
        refusal = errors.AuthenticationFailed(
            f"{address_variable} names an address that is not the provider's own,"
            f" {call.address}, and {call.model} would send its usual key there: name"
            f" address and key with {ADDRESS_VARIABLE} and {KEY_VARIABLE}, or"
            " --api-base and --api-key-env"
        )
        call.refusals.append(refusal)
        raise refusal
