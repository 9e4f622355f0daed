"""Wrappers around a chat model, each with its protocol: what they share, and retries.

From the outside in: ``Stored`` → ``Adapting`` → ``Retrying`` → ``Limited`` → the model, the others in files of their
own. From ``Retrying`` outwards errors are values in ``ChatReply.failures``; only ``JudgeUnavailable`` is raised,
because it ends the run.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from ragmetrics_core.data.errors import (
    EmptyReply,
    JudgeError,
    JudgeUnavailable,
    LimitReached,
    TransientJudgeError,
)
from ragmetrics_core.data.frozen import safe
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints.chat import Capabilities, ChatModel, ChatReply, ChatRequest, Choice
from ragmetrics_core.endpoints.pacing import LONGEST_PAUSE

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
    def cache_key(self) -> str | None:
        """The inner model's."""
        return self.inner.cache_key

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
        deadline: Seconds after which a request is not repeated any more, however long the endpoint says to wait.
    """

    def __init__(
        self,
        inner: ChatModel,
        attempts: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        shortest: float = 0.5,
        deadline: float = LONGEST_PAUSE,
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
                reply = _cleaned(await self.inner.complete(request))
            except LimitReached as error:
                return ChatReply((), Usage(calls=attempt - (not error.in_flight)), (error,) * request.n)
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
                if attempt == reply.usage.calls == 1:
                    return reply  # nothing to correct
                return replace(reply, usage=replace(reply.usage, calls=attempt, faults=attempt - 1))
        raise AssertionError("unreachable: the last attempt returns")

    def _wait(self, error: JudgeError, attempt: int) -> float | None:
        """Seconds to wait before the next attempt; None if there shall be none."""
        if not isinstance(error, TransientJudgeError) or attempt == self._attempts:
            return None
        jitter = self._random.uniform(0, min(self._shortest * 2 ** (attempt - 1), _LONGEST_WAIT))
        if error.retry_after is None:
            return jitter
        return max(jitter, error.retry_after + min(jitter, self._shortest))


def _cleaned(reply: ChatReply) -> ChatReply:
    """The reply without lone surrogates and NUL, which neither a file nor the next request can carry."""
    models = tuple(map(safe, reply.usage.models))
    if models != reply.usage.models:
        reply = replace(reply, usage=replace(reply.usage, models=models))
    if any(safe(choice.text) != choice.text for choice in reply.choices):
        return replace(reply, choices=tuple(map(_cleaned_choice, reply.choices)))
    return reply


def _cleaned_choice(choice: Choice) -> Choice:
    tokens = tuple(replace(token, token=safe(token.token)) for token in choice.tokens)
    return replace(choice, text=safe(choice.text), tokens=tokens)
