"""Wrappers around a chat model, each with its protocol: stored replies and retries.

From the outside in: ``Stored`` → ``Adapting`` → ``Retrying`` → ``Limited`` (two files of their own) → the model. From
``Retrying`` outwards errors are values in ``ChatReply.failures``; only ``JudgeUnavailable`` is raised, because it
ends the run.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import chain, repeat

from ragmetrics_core.judging.chat import Capabilities, ChatModel, ChatReply, ChatRequest, Choice, Origin
from ragmetrics_core.judging.store import ReplyStore
from ragmetrics_core.model.errors import (
    EmptyReply,
    JudgeError,
    JudgeUnavailable,
    TransientJudgeError,
)
from ragmetrics_core.model.questions import Usage

_LONGEST_WAIT = 60.0


class Wrapper(ChatModel):
    """A chat model around another one.

    Args:
        inner: The model inside.
    """

    def __init__(self, inner: ChatModel) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        """The inner model's name."""
        return self.inner.name

    @property
    def endpoint(self) -> str:
        """The inner model's endpoint."""
        return self.inner.endpoint

    def capabilities(self) -> Capabilities:
        """The inner model's capabilities."""
        return self.inner.capabilities()

    async def prepare(self) -> None:
        """Prepare the inner model."""
        await self.inner.prepare()


class Retrying(Wrapper):
    """Repeats calls that failed for a passing reason, with exponential backoff and full jitter.

    Args:
        inner: The model.
        attempts: Most calls for one request.
        sleep: Waits, in seconds.
        shortest: Longest wait after the first failure, in seconds; doubles with each further one.
        deadline: Seconds after which a request is not repeated any more.
    """

    def __init__(
        self,
        inner: ChatModel,
        attempts: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        shortest: float = 0.5,
        deadline: float = 600.0,
    ) -> None:
        super().__init__(inner)
        self._attempts = attempts
        self._sleep = sleep
        self._shortest = shortest
        self._deadline = deadline
        self._random = random.Random()  # noqa: S311 - jitter is no secret

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Call until there is a reply, an error that will not pass, or no attempt left.

        Returns:
            The reply, or its failures as values; ``usage`` counts every call and the faults survived.

        Raises:
            JudgeUnavailable: If no call will succeed.
        """
        end = time.monotonic() + self._deadline
        for attempt in range(1, self._attempts + 1):
            try:
                reply = await self.inner.complete(request)
            except JudgeUnavailable:
                raise
            except JudgeError as error:
                wait = self._wait(error, attempt)
                if wait is None or time.monotonic() + wait > end:
                    return ChatReply((), Usage(calls=attempt, faults=attempt - 1), (error,) * request.n)
                await self._sleep(wait)
            else:
                if not reply.choices:
                    reply = replace(reply, failures=(EmptyReply("the endpoint returned no reply"),) * request.n)
                return replace(reply, usage=replace(reply.usage, calls=attempt, faults=attempt - 1))
        raise AssertionError("unreachable: the last attempt returns")

    def _wait(self, error: JudgeError, attempt: int) -> float | None:
        """Seconds to wait before the next attempt; None if there shall be none."""
        if not isinstance(error, TransientJudgeError) or attempt == self._attempts:
            return None
        jitter = self._random.uniform(0, min(self._shortest * 2 ** (attempt - 1), _LONGEST_WAIT))
        if error.retry_after is None:
            return jitter
        return None if error.retry_after > _LONGEST_WAIT else error.retry_after + min(jitter, self._shortest)


_Outcome = Choice | JudgeError | None


class Stored(Wrapper):
    """Takes replies from the store where they are known; equal requests in flight share one call.

    Args:
        inner: The model.
        store: Where single replies are kept.
    """

    def __init__(self, inner: ChatModel, store: ReplyStore) -> None:
        super().__init__(inner)
        self._store = store
        self._flights: dict[str, asyncio.Future[_Outcome]] = {}
        self._reading = asyncio.Lock()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return stored replies, and those of one call for all that are missing.

        Raises:
            JudgeUnavailable: If no call will succeed.
        """
        keys = self._keys(request)
        outcomes: dict[str, _Outcome] = {}
        usage = Usage()
        while missing := [key for key in keys if outcomes.get(key) is None]:
            known = {key: choice for key in missing if (choice := self._store.get(key)) is not None}
            shared = {key: self._flights[key] for key in missing if key not in known and key in self._flights}
            own = [key for key in missing if key not in known and key not in shared]
            outcomes |= known
            usage = sum(map(_from_store, known.values()), usage)
            if own:
                fetched, cost = await self._fetch(request, own)
                outcomes |= fetched
                usage += cost
            for key, flight in shared.items():
                outcomes[key] = await asyncio.shield(flight)  # None if its owner gave up: ask again
                usage += Usage(stored=outcomes[key] is not None)
        ordered = [outcomes[key] for key in keys]
        return ChatReply(
            choices=tuple(outcome for outcome in ordered if isinstance(outcome, Choice)),
            usage=usage,
            failures=tuple(outcome for outcome in ordered if isinstance(outcome, JudgeError)),
        )

    def reject(self, request: ChatRequest) -> None:
        """Mark the stored replies to a request as unusable, so that they are asked again."""
        for key in self._keys(request):
            self._store.reject(key)

    def adopt(self, request: ChatRequest, choice: Choice) -> None:
        """Keep a repaired reply in place of the unusable one, which is set aside."""
        (key,) = self._keys(request)
        self._store.reject(key)
        self._store.put({key: choice}, Usage())

    async def _fetch(self, request: ChatRequest, keys: list[str]) -> tuple[dict[str, _Outcome], Usage]:
        """Ask for several replies in one call, keep each as it comes, and hand them to whoever waits."""
        flights = {key: asyncio.get_running_loop().create_future() for key in keys}
        self._flights |= flights
        outcomes: dict[str, _Outcome] = dict.fromkeys(keys)

        def keep(position: int, reply: ChatReply) -> None:
            named = dict(zip(keys[position:], map(_stamped(reply), reply.choices), strict=False))
            self._store.put(named, reply.usage)
            outcomes.update(named)

        try:
            reply = await self.inner.complete(replace(request, n=len(keys), arrived=keep))
            if reply.choices and not any(outcomes.values()):
                keep(0, reply)
            unanswered = [key for key in keys if outcomes[key] is None]
            none = EmptyReply("the endpoint returned fewer replies than asked for")
            outcomes |= dict(zip(unanswered, chain(reply.failures, repeat(none)), strict=False))
        finally:
            for key, flight in flights.items():
                del self._flights[key]
                flight.set_result(outcomes[key])
        # Reading a reply takes longer than sending the next request. One reply is read per turn of the loop, once it
        # is kept, so that freed slots send first and a burst of replies does not leave the endpoint idle.
        async with self._reading:
            await asyncio.sleep(0)
        return outcomes, reply.usage

    def _keys(self, request: ChatRequest) -> list[str]:
        """One key per reply: everything that changes it."""
        content = [
            self.name,
            self.endpoint,
            [(message.role, message.content) for message in request.messages],
            request.schema,
            request.temperature,
            request.top_logprobs,
            request.max_tokens,
            request.replicate,
        ]
        common = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
        keys = []
        for poll in range(request.first_poll, request.first_poll + request.n):
            key = common.copy()
            key.update(f"|poll {poll}".encode())
            keys.append(key.hexdigest())
        return keys


def _from_store(choice: Choice) -> Usage:
    return Usage(stored=1, models=(choice.origin.model,) if choice.origin.model else ())


def _stamped(reply: ChatReply) -> Callable[[Choice], Choice]:
    """Note on each choice of a call which call gave it."""
    origin = Origin(next(iter(reply.usage.models), ""), len(reply.choices))
    return lambda choice: replace(choice, origin=origin)
