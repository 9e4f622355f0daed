"""The innermost wrapper: limits of calls in flight, per minute, and of the whole run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ragmetrics_core.data.errors import (
    ContextWindowExceeded,
    JudgeError,
    JudgeTimeout,
    JudgeUnavailable,
    LimitReached,
    RateLimited,
    TransientJudgeError,
)
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints.chat import ChatModel, ChatReply, ChatRequest
from ragmetrics_core.endpoints.limits import Allowance
from ragmetrics_core.endpoints.pacing import Pace, Slots
from ragmetrics_core.endpoints.shared_rate import SharedRate
from ragmetrics_core.endpoints.wrappers import Wrapper

_REPLY_TOKENS = 100.0
_ENOUGH = 32


@dataclass
class Gate:
    """Whether a first call got through, so that others need not wait for it.

    Attributes:
        opened: True if so.
    """

    opened: bool = False


class Limited(Wrapper):
    """Limits the calls in flight, their duration and their pace, and sends the first call alone.

    A first call that shows the judge to be unavailable ends the session: all later calls raise the same error
    without calling. Sent alone, it is the only one that a wrong key costs. Of a judge that has answered, one refused
    call tells little, e.g. a firewall may have taken offence at its text; 32 refusals in a row end the session too.

    Args:
        inner: The model.
        concurrency: Most calls in flight; fewer for a while when the endpoint asks to slow down.
        timeout: Seconds for one call, queueing not included; None for no limit.
        settled: Awaited before each call, e.g. until every reply so far is on disk; what is lost with a killed
            process is then no more than the calls in flight.
        allowance: What the run may spend; None for no limit.
        gate: Whether an earlier session of the same judge got through; None for a closed gate.
    """

    def __init__(
        self,
        inner: ChatModel,
        concurrency: int,
        timeout: float | None,
        settled: Callable[[], Awaitable[None]] | None = None,
        allowance: Allowance | None = None,
        gate: Gate | None = None,
    ) -> None:
        super().__init__(inner)
        self._timeout = timeout
        self._settled = settled
        self._allowance = allowance = allowance or Allowance()
        self._slots = Slots(concurrency, allowance.clock)
        requests, tokens = allowance.limits.requests_per_minute, allowance.limits.tokens_per_minute
        self._shared = None
        if allowance.limits.rate_file is not None:
            self._shared = SharedRate(
                *(allowance.limits.rate_file, (inner.name, inner.endpoint), allowance.limits.per_minute),
                check=allowance.check, sleep=allowance.sleep,
            )  # fmt: skip
            requests = tokens = None
        self._requests = None if requests is None else Pace(requests, allowance.clock)
        self._tokens = None if tokens is None else Pace(tokens, allowance.clock)
        self._reply_tokens = _REPLY_TOKENS
        self._alone = asyncio.Lock()
        self._gate = gate or Gate()
        self._unavailable: JudgeUnavailable | None = None
        self._answered = False
        self._refusals = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Call the model as soon as a slot is free and the limits allow it.

        Raises:
            JudgeTimeout: If no reply came in time.
            LimitReached: If a cap of the run is reached.
            JudgeError: Whatever the model raises.
        """
        if not self._gate.opened:
            async with self._alone:
                if not self._gate.opened:
                    return await self._in_slot(request)
        return await self._in_slot(request)

    async def _in_slot(self, request: ChatRequest) -> ChatReply:
        await self._place()
        try:
            if self._settled is not None:
                await self._settled()
            return await self._admitted(request)
        finally:
            self._slots.give_back()

    async def _place(self) -> None:
        """Wait for a slot, but not beyond the deadline."""
        left = self._allowance.remaining
        if left is None:
            await self._slots.take()
            return
        try:
            async with asyncio.timeout(left):
                await self._slots.take()
        except TimeoutError:
            raise self._out_of_time() from None

    async def _admitted(self, request: ChatRequest) -> ChatReply:
        """Call when the pace allows it, and note what it cost."""
        if self._unavailable is not None:
            raise self._unavailable.with_traceback(None)
        estimate = await self._keep_pace(request)
        await self._allowance.admit()
        usage, reply, sent = None, None, self._allowance.clock()
        try:
            reply = await self._call(request)
            usage = reply.usage
        except TransientJudgeError as error:
            if isinstance(error, RateLimited) or error.retry_after:
                self._slots.slow_down(sent, error.retry_after)
            raise
        finally:
            self._allowance.settle(usage)
            self._correct(estimate, usage)
            if self._shared is not None:
                self._shared.observe(estimate, reply)
        self._slots.went_well()
        return reply

    async def _call(self, request: ChatRequest) -> ChatReply:
        left = self._allowance.remaining
        limits = [seconds for seconds in (self._timeout, left) if seconds is not None]
        try:
            async with asyncio.timeout(min(limits, default=None)) as timer:
                reply = await self.inner.complete(request)
        except TimeoutError as error:
            self._gate.opened = True
            if timer.expired() and left is not None and left == min(limits):
                raise self._out_of_time(in_flight=True) from None
            within = f"within {self._timeout:g} s" if timer.expired() else "in time"
            raise JudgeTimeout(f"{self.name} sent no reply {within}") from (None if timer.expired() else error)
        except JudgeUnavailable as error:
            self._gate.opened = True
            self._refusals += 1
            error.single = self._answered and self._refusals < _ENOUGH
            if not error.single:
                self._unavailable = error
            raise
        except ContextWindowExceeded as error:
            self._gate.opened = True
            raise _counted(error, request) from error
        except JudgeError:
            self._gate.opened = True
            raise
        self._gate.opened = self._answered = True
        self._refusals = 0
        return reply

    def _out_of_time(self, *, in_flight: bool = False) -> LimitReached:
        """End the run at its deadline."""
        self._allowance.expire()
        error = LimitReached(str(self._allowance.reached))
        error.in_flight = in_flight
        return error

    async def _keep_pace(self, request: ChatRequest) -> float:
        """Wait for a place in the schedule; returns the tokens reserved."""
        self._allowance.check()
        if self._shared is not None:
            return await self._shared.acquire(_prompt_tokens(request))
        wait = 0.0 if self._requests is None else self._requests.reserve()
        estimate = 0.0
        if self._tokens is not None:
            estimate = _prompt_tokens(request) + request.n * self._reply_tokens
            wait = max(wait, self._tokens.reserve(estimate))
        if wait > 0:
            await self._allowance.sleep(wait)
        return estimate

    def _correct(self, estimate: float, usage: Usage | None) -> None:
        """Learn from a reply how long replies are."""
        if self._tokens is not None and usage is not None:
            self._tokens.correct(usage.prompt_tokens + usage.completion_tokens - estimate)
            self._reply_tokens += 0.1 * (usage.completion_tokens - self._reply_tokens)


def _prompt_tokens(request: ChatRequest) -> int:
    """About how many tokens a request has: four characters each."""
    return sum(len(message.content) for message in request.messages) // 4


def _counted(error: ContextWindowExceeded, request: ChatRequest) -> ContextWindowExceeded:
    """The same error with the length of the request, estimated where the endpoint did not say it."""
    if error.tokens is not None or not error.where:
        return error
    return ContextWindowExceeded.counted(error.where, _prompt_tokens(request), error.window, about="about ")
