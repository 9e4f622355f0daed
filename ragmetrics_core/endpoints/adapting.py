"""Fits requests to what an endpoint can do, and learns it where nobody knows.

A feature that may be missing is tried once. An endpoint that rejects it, or that accepts and ignores it, is
remembered, and the request is served without: several replies by several calls, log-probabilities not at all
(the judge polls instead), a JSON schema by the prompt alone. Each such fallback is named in the usage. Two features
have two forms, of which an endpoint may know only one: the schema, and the limit of a reply's length.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

from ragmetrics_core.data.errors import ContextWindowExceeded, RequestRejected
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints.chat import Arrived, Capabilities, ChatModel, ChatReply, ChatRequest
from ragmetrics_core.endpoints.wrappers import Wrapper

T = TypeVar("T")
Feature = Literal["logprobs", "n", "schema_form", "json_schema", "temperature", "limit_form"]

# In the order in which they are given up.
_FEATURES: tuple[Feature, ...] = ("logprobs", "n", "schema_form", "json_schema", "temperature", "limit_form")
_FORMS: frozenset[Feature] = frozenset({"schema_form", "limit_form"})  # another form is no loss
_SPELLINGS: dict[Feature, tuple[str, ...]] = {
    "logprobs": ("logprobs",),
    "n": ("param n", "parameter n", "'n'"),
    "schema_form": ("response_format", "json_schema"),
    "json_schema": ("response_format", "json_schema"),
    "temperature": ("temperature",),
    "limit_form": ("max_tokens",),
}
_REASONING_FACTOR = 16


async def gathered(tasks: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all to their end, then return their results or raise the first error."""
    running = [asyncio.ensure_future(task) for task in tasks]
    await asyncio.gather(*running, return_exceptions=True)
    return [task.result() for task in running]


class Learned:
    """What was learned about a model by trying; shared by all sessions of a judge."""

    def __init__(self) -> None:
        self.missing: set[Feature] = set()


class Adapting(Wrapper):
    """Fits each request to the model's capabilities.

    Args:
        inner: The model.
        learned: What was learned in earlier sessions.
    """

    def __init__(self, inner: ChatModel, learned: Learned) -> None:
        super().__init__(inner)
        self._learned = learned

    def capabilities(self) -> Capabilities:
        """What the model says it can do, corrected by what was learned."""
        lacking = self._learned.missing - _FORMS
        known = self.inner.capabilities()
        return replace(known, **dict.fromkeys(lacking, False)) if lacking else known

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Send a request without the features that the model does not have.

        Returns:
            As many choices and failures as replies were asked for.

        Raises:
            JudgeUnavailable: If no call will succeed.
        """
        missing = self._missing()
        wanted = _wanted(request)
        reply = await self._send(request, missing)
        if _rejected(reply):
            reply = await self._with_less(request, wanted, missing, reply)
        if _without_logprobs(request, reply) and "logprobs" not in missing:
            self._learned.missing.add("logprobs")
            missing.add("logprobs")
        if _rejected(reply) or not (fallbacks := _lost(wanted, missing)):
            return reply
        return replace(reply, usage=reply.usage + Usage(fallbacks=fallbacks))

    def _missing(self) -> set[Feature]:
        known = self.capabilities()
        missing: set[Feature] = {f for f in _FEATURES if f not in _FORMS and getattr(known, f) is False}
        missing |= self._learned.missing
        if known.temperature is False:
            missing.add("n")
        if "json_schema" in missing:
            missing.add("schema_form")  # there is none to put into another form
        return missing

    async def _with_less(
        self, request: ChatRequest, wanted: list[Feature], missing: set[Feature], first: ChatReply
    ) -> ChatReply:
        """Give up one feature after the other until the endpoint takes the request; adds them to ``missing``."""
        untried = [feature for feature in wanted if feature not in missing]
        reply, spent = first, Usage()
        while _rejected(reply) and (feature := _suspect(untried, reply.failures)):
            spent += reply.usage
            untried.remove(feature)
            missing.add(feature)
            reply = await self._send(request, missing)
            if not _rejected(reply):
                self._learned.missing.add(feature)
        return replace(first if _rejected(reply) else reply, usage=reply.usage + spent)

    async def _send(self, request: ChatRequest, missing: set[Feature]) -> ChatReply:
        request = self._fitted(request, missing)
        if request.n == 1 and request.arrived is None:
            return await self.inner.complete(request)
        arrived, request = request.arrived, replace(request, arrived=None)
        if request.n == 1 or "n" in missing:
            return await self._singly(request, range(request.n), arrived)
        reply = await self.inner.complete(request)
        if not reply.choices:
            return reply
        if len(reply.choices) < request.n:
            return await self._with_rest(request, reply, missing, arrived)
        return replace(reply, choices=reply.choices[: request.n])

    async def _with_rest(
        self, request: ChatRequest, reply: ChatReply, missing: set[Feature], arrived: Arrived | None
    ) -> ChatReply:
        """Ask one by one for the replies that an endpoint left out; it may reject what it had not seen before."""
        self._learned.missing.add("n")
        missing.add("n")
        given = len(reply.choices)
        if arrived is not None:
            arrived(0, reply)
        later = None if arrived is None else lambda position, one: arrived(given + position, one)
        left = replace(request, n=request.n - given, first_poll=request.first_poll + given, arrived=later)
        rest = await self._send(left, missing)
        if _rejected(rest):
            rest = await self._with_less(left, _wanted(left), missing, rest)
        usage = reply.usage + rest.usage + Usage(fallbacks=("n",))
        return ChatReply(reply.choices + rest.choices, usage, rest.failures)

    async def _singly(self, request: ChatRequest, polls: range, arrived: Arrived | None) -> ChatReply:
        """Ask for each reply in a call of its own."""

        async def one(poll: int) -> ChatReply:
            reply = await self.inner.complete(replace(request, n=1, first_poll=request.first_poll + poll))
            if arrived is not None and reply.choices:
                arrived(poll, reply)
            return reply

        replies = await gathered(map(one, polls))
        return ChatReply(
            choices=tuple(choice for reply in replies for choice in reply.choices[:1]),
            usage=sum((reply.usage for reply in replies), Usage()),
            failures=tuple(error for reply in replies for error in reply.failures[:1]),
        )

    def _fitted(self, request: ChatRequest, missing: set[Feature]) -> ChatRequest:
        if "json_schema" in missing:
            request = replace(request, schema=None)
        elif "schema_form" in missing:
            request = replace(request, schema_in_object=True)
        if "logprobs" in missing:
            request = replace(request, top_logprobs=0)
        if "temperature" in missing:
            request = replace(request, temperature=None)
        if "limit_form" in missing:
            request = replace(request, newer_limit=True)
        reasons = self.inner.capabilities().reasoning or "temperature" in missing
        if reasons and request.max_tokens is not None:
            request = replace(request, max_tokens=request.max_tokens * _REASONING_FACTOR)
        return request


def _wanted(request: ChatRequest) -> list[Feature]:
    wants: dict[Feature, bool] = {
        "logprobs": request.top_logprobs > 0,
        "n": request.n > 1,
        "schema_form": request.schema is not None and not request.schema_in_object,
        "json_schema": request.schema is not None,
        "temperature": request.temperature is not None,
        "limit_form": request.max_tokens is not None,
    }
    return [feature for feature in _FEATURES if wants[feature]]


def _lost(wanted: Sequence[Feature], missing: set[Feature]) -> tuple[str, ...]:
    """What the request was served without."""
    return tuple(feature for feature in wanted if feature in missing and feature not in _FORMS)


def _without_logprobs(request: ChatRequest, reply: ChatReply) -> bool:
    """True if log-probabilities were asked for and a complete reply came without."""
    whole = (choice for choice in reply.choices if choice.finish == "stop" and choice.text.strip())
    return request.top_logprobs > 0 and any(not choice.tokens for choice in whole)


def _rejected(reply: ChatReply) -> bool:
    """True if the endpoint rejected the request for its form."""
    return not reply.choices and all(
        isinstance(error, RequestRejected) and not isinstance(error, ContextWindowExceeded) for error in reply.failures
    )


def _suspect(untried: Sequence[Feature], failures: Sequence[Exception]) -> Feature | None:
    """The feature that the rejection names, else the next to give up; only models that say so want another limit."""
    said = str(failures[0]) if failures else ""
    named = (feature for feature in untried if any(spelling in said for spelling in _SPELLINGS[feature]))
    return next(named, None) or next((feature for feature in untried if feature != "limit_form"), None)
