"""Fits requests to what an endpoint can do, and learns it where nobody knows.

A feature that may be missing is tried once. An endpoint that rejects it, or that accepts and ignores it, is
remembered, and the request is served without: several replies by several calls, log-probabilities not at all
(the judge polls instead), a JSON schema by the prompt alone. Each such fallback is named in the usage. Two features
have two forms, of which an endpoint may know only one: the schema, and the limit of a reply's length.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, TypeVar

from ragmetrics_core.data.errors import ContextWindowExceeded, JudgeError, RequestRejected
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints.chat import Capabilities, ChatModel, ChatReply, ChatRequest, Choice

T = TypeVar("T")
Send = Callable[[ChatRequest], Awaitable[ChatReply]]
Arrived = Callable[[int, ChatReply], None]
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
_GUESSES = 2  # requests from which everything may be removed in vain
_REMEMBERED = 1_000
_REMEMBERED_SECONDS = 600.0


async def gathered(work: Iterable[Coroutine[Any, Any, T] | asyncio.Future[T]], *, hasty: bool = False) -> list[T]:
    """Run all to their end, then return their results or raise the first error; who leaves leaves none running.

    Args:
        work: What to run.
        hasty: End the others with the first error.
    """
    work = list(work)
    if len(work) == 1:
        return [await work[0]]  # the usual case needs no task of its own
    running = [asyncio.ensure_future(one) for one in work]
    try:
        if running:
            await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION if hasty else asyncio.ALL_COMPLETED)
    finally:
        left = [task for task in running if not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        failed = [task for task in running if not task.cancelled() and task.exception() is not None]
    return [task.result() for task in (*failed, *running)]


class Fitting:
    """What is known of a model, and how requests are made to fit; shared by all runs of a session.

    Args:
        model: The model.
        learned: Features that it lacks, as far as is known from trying; added to.
    """

    def __init__(self, model: ChatModel, learned: set[Feature]) -> None:
        self.learned = learned
        self._model = model
        self._in_vain = 0
        self._rejected: OrderedDict[str, tuple[float, JudgeError]] = OrderedDict()
        self._removing = asyncio.Lock()

    async def complete(self, key: str, request: ChatRequest, send: Send, arrived: Arrived) -> ChatReply:
        """Send a request without the features that the model does not have.

        Args:
            key: Digest of the request; one that was rejected in every form is not sent again for a while.
            request: The request.
            send: Sends a request; gives failures as values.
            arrived: Told of what each call gave as soon as it did, with the position of its first reply.

        Returns:
            All that was given, what it cost, and failures for replies that are missing.

        Raises:
            JudgeUnavailable: If no call will succeed.
        """
        since, error = self._rejected.get(key, (0.0, None))
        if error is not None and time.monotonic() < since + _REMEMBERED_SECONDS:
            return ChatReply((), failures=(error,) * request.n)
        lacked = self._missing()
        missing = set(lacked)
        asking = _Asking(request, send, arrived)
        await self._ask(asking, missing)
        if asking.rejected:
            async with self._removing:  # one request finds out for all
                await self._with_less(asking, missing)
        if asking.rejected:
            self._in_vain += 1
            self._rejected[key] = time.monotonic(), asking.failures[0]
            if len(self._rejected) > _REMEMBERED:
                self._rejected.popitem(last=False)
            missing -= missing - lacked  # nothing was gained by what was removed
        elif _without_logprobs(request, asking.choices) and "logprobs" not in missing:
            self.learned.add("logprobs")
            missing.add("logprobs")
        lost = tuple(sorted(feature for feature in _wanted(request) if feature in missing and feature not in _FORMS))
        return ChatReply(
            tuple(asking.choices), asking.usage + Usage(fallbacks=lost) if lost else asking.usage, asking.failures
        )

    def _missing(self) -> frozenset[Feature]:
        return _lacking(self._model.capabilities(), frozenset(self.learned))

    async def _with_less(self, asking: _Asking, missing: set[Feature]) -> None:
        """Give up one feature after the other until the endpoint takes the request; adds them to ``missing``."""
        if self._missing() - missing:  # another request has found out meanwhile
            missing |= self._missing()
            await self._ask(asking, missing, careful=True)
        untried = [feature for feature in _wanted(asking.request) if feature not in missing]
        while asking.rejected and (feature := self._suspect(untried, asking.failures)):
            untried.remove(feature)
            missing.add(feature)
            await self._ask(asking, missing, careful=True)
            if not asking.rejected:
                self.learned.add(feature)

    def _suspect(self, untried: Sequence[Feature], failures: Sequence[Exception]) -> Feature | None:
        """The feature that the rejection names, else the next to give up; only models that say so want another limit.

        Where everything was removed in vain before, nothing is removed that the rejection does not name.
        """
        said = str(failures[0])
        named = (feature for feature in untried if any(spelling in said for spelling in _SPELLINGS[feature]))
        if (feature := next(named, None)) is not None or self._in_vain >= _GUESSES:
            return feature
        return next((feature for feature in untried if feature != "limit_form"), None)

    async def _ask(self, asking: _Asking, missing: set[Feature], *, careful: bool = False) -> None:
        """Ask for the replies that are still missing.

        Args:
            asking: The request.
            missing: What it shall not use.
            careful: Of several calls, send the first alone, as it may be rejected like the one before.
        """
        request, asking.failures = self._fitted(asking.request, missing), ()
        if len(asking.left) > 1 and "n" not in missing:
            await asking.call(replace(request, n=len(asking.left)))
            if not asking.left or asking.failures:
                return
            self.learned.add("n")  # the endpoint gave fewer
            missing.add("n")
            careful = False
        if request.n > 1:
            request = replace(request, n=1)
        if careful or len(asking.left) == 1:
            await asking.call(request)
            if asking.failures:
                asking.failures *= len(asking.left)
                return
        if asking.left:
            await gathered([asking.call(request, position) for position in tuple(asking.left)])

    def _fitted(self, request: ChatRequest, missing: set[Feature]) -> ChatRequest:
        if "json_schema" in missing:
            request = replace(request, schema=None)
        elif "schema_form" in missing:
            request = replace(request, schema_in_object=True)
        if "logprobs" in missing and request.top_logprobs:
            request = replace(request, top_logprobs=0)
        if "temperature" in missing:
            request = replace(request, temperature=None)
        if "limit_form" in missing:
            request = replace(request, newer_limit=True)
        reasons = self._model.capabilities().reasoning or "temperature" in missing
        if reasons and request.max_tokens is not None:
            request = replace(request, max_tokens=request.max_tokens * _REASONING_FACTOR)
        return request


class _Asking:
    """One request on its way.

    Attributes:
        left: Positions of the replies that are still missing.
        choices: Replies so far.
        failures: Why the replies that are left were not given, when they were asked for last.
        usage: What it cost so far.
    """

    __slots__ = ("_arrived", "_send", "choices", "failures", "left", "request", "usage")

    def __init__(self, request: ChatRequest, send: Send, arrived: Arrived) -> None:
        self.request = request
        self.left = list(range(request.n))
        self.choices: list[Choice] = []
        self.failures: tuple[JudgeError, ...] = ()
        self.usage = Usage()
        self._send, self._arrived = send, arrived

    async def call(self, request: ChatRequest, position: int | None = None) -> None:
        """Send a call for the reply at a position, or for the first ones that are left."""
        position = self.left[0] if position is None else position
        reply = await self._send(request)
        self.usage = reply.usage if not self.choices and not self.usage.calls else self.usage + reply.usage
        if not reply.choices:
            self.failures += reply.failures
            return
        given = reply.choices[: request.n]
        self.choices += given
        for place in range(position, position + len(given)):
            self.left.remove(place)
        self._arrived(position, reply)

    @property
    def rejected(self) -> bool:
        """True if the endpoint rejected what is left for its form."""
        return bool(self.failures) and all(
            isinstance(error, RequestRejected) and not isinstance(error, ContextWindowExceeded)
            for error in self.failures
        )


def corrected(stated: Capabilities, learned: set[Feature] | frozenset[Feature]) -> Capabilities:
    """What a model says it can do, corrected by what it turned out to lack."""
    lacking = learned - _FORMS
    return replace(stated, **dict.fromkeys(lacking, False)) if lacking else stated


@lru_cache(maxsize=64)
def _lacking(stated: Capabilities, learned: frozenset[Feature]) -> frozenset[Feature]:
    known = corrected(stated, learned)
    lacking = {feature for feature in _FEATURES if feature not in _FORMS and getattr(known, feature) is False} | learned
    if known.temperature is False:
        lacking.add("n")
    if "json_schema" in lacking:
        lacking.add("schema_form")  # there is none to put into another form
    return frozenset(lacking)


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


def _without_logprobs(request: ChatRequest, choices: Sequence[Choice]) -> bool:
    """True if log-probabilities were asked for and a complete reply came without."""
    if not request.top_logprobs:
        return False
    return any(choice.finish == "stop" and choice.text.strip() and not choice.tokens for choice in choices)
