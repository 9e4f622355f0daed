"""What a run may spend, and how fast: caps on calls, money and time, and limits per minute."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ragmetrics_core.data.errors import JudgeError, LimitReached, SettingError
from ragmetrics_core.endpoints.chat import ChatReply

_REPLY_TOKENS = 100.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may spend. A cap that is reached ends the run with everything that is done until then.

    Args:
        max_calls: Most calls to models, retries and repairs included; replies from the store are free.
        max_cost: Most US dollars. A call is sent if it and those in flight fit, each as dear as the dearest call so
            far; while no price is known, it is sent alone. What turns out dearer than any call before may exceed
            the cap, by what it is dearer. Calls that failed count as free.
        deadline: Most seconds for the run; calls in flight at its end are given up.
        requests_per_minute: Most calls to each model in any minute.
        tokens_per_minute: Most tokens to and from each model in any minute; estimated before a call, and corrected
            by its reply.
        rate_file: A file by which all processes of this machine that name it keep the limits per minute together;
            they are to name the same limits. By default each process keeps them by itself.

    Raises:
        SettingError: If a limit is not positive, or ``rate_file`` has nothing to keep.
        ForeignFile: If there is a file that is not ours.
    """

    max_calls: int | None = None
    max_cost: float | None = None
    deadline: float | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    rate_file: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        for name in ("max_calls", "max_cost", "deadline", "requests_per_minute", "tokens_per_minute"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise SettingError(f"{name} must be above 0, got {value}; leave it out for no limit")
        if self.rate_file is not None:
            from ragmetrics_core.endpoints import own_file, shared_rate  # SQLite is not needed for other limits

            if not self.per_minute:
                raise SettingError("rate_file needs requests_per_minute or tokens_per_minute, which it keeps")
            with contextlib.suppress(OSError):  # what cannot be read is told when it is used
                own_file.check(Path(self.rate_file).expanduser(), shared_rate.RATES)

    @property
    def per_minute(self) -> dict[str, float]:
        """Most ``requests`` and ``tokens`` in any minute, where there is such a limit."""
        limits = {"requests": self.requests_per_minute, "tokens": self.tokens_per_minute}
        return {unit: limit for unit, limit in limits.items() if limit is not None}


class Limiter(Protocol):
    """Decides when a call may leave. Every call passes through several, one after the other."""

    async def acquire(self, tokens: float) -> Any:
        """Wait until a call of about so many tokens may leave; returns what ``observe`` is to be given.

        Raises:
            LimitReached: If none may leave any more.
        """

    def observe(self, ticket: Any, outcome: ChatReply | JudgeError | None) -> None:
        """Learn how a call ended that was let through: with a reply, with an error, or None if it was given up."""


class Budget:
    """What is left of a run's caps, shared by all calls of the run, on one event loop; a ``Limiter``.

    Args:
        limits: The limits; None for none.
        clock: Seconds, monotonic.
        sleep: Waits, in seconds.

    Attributes:
        limits: The limits.
        calls: Calls sent so far.
        spent: US dollars so far.
        reached: The cap that ended the run; None as long as none did.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.limits = limits or Limits()
        self.calls = 0
        self.spent = 0.0
        self.reached: LimitReached | None = None
        self.clock = clock
        self._sleep = sleep
        self._end = None if self.limits.deadline is None else clock() + self.limits.deadline
        self._dearest: float | None = None
        self._in_flight = 0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def remaining(self) -> float | None:
        """Seconds left, at least 0; None without a deadline."""
        return None if self._end is None else max(self._end - self.clock(), 0.0)

    async def pause(self, seconds: float) -> None:
        """Wait, but not beyond the deadline."""
        left = self.remaining
        await self._sleep(seconds if left is None else min(seconds, left))

    def check(self) -> None:
        """End the run if a cap is reached.

        Raises:
            LimitReached: If so, now or before.
        """
        if self.remaining == 0.0:
            self.expire()
        if self.reached is None and self.limits.max_calls is not None and self.calls >= self.limits.max_calls:
            self._stop(f"max_calls={self.limits.max_calls} was reached")
        if self.reached is not None:
            raise self.reached.with_traceback(None)

    async def acquire(self, tokens: float) -> None:
        """Count a call that is about to be sent; with ``max_cost`` wait until it is sure to fit.

        Raises:
            LimitReached: If the call may not be sent.
        """
        del tokens
        self.check()
        while not self._fits():
            if not self._in_flight:
                self._stop(f"max_cost={self.limits.max_cost:g} was reached")
            else:
                future = asyncio.get_running_loop().create_future()
                self._waiting.append(future)
                await future
            self.check()
        self.calls += 1
        self._in_flight += 1

    def observe(self, ticket: None, outcome: ChatReply | JudgeError | None) -> None:
        """Note what a call cost; one that failed cost nothing."""
        del ticket
        self._in_flight -= 1
        if isinstance(outcome, ChatReply) and outcome.usage.cost is not None:
            self.spent += outcome.usage.cost
            self._dearest = max(self._dearest or 0.0, outcome.usage.cost)
        elif isinstance(outcome, ChatReply) and self.limits.max_cost is not None:
            self._stop("the price of the judge's model is not known, so max_cost cannot be held; use max_calls")
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def expire(self) -> LimitReached:
        """End the run for want of time."""
        return self._stop(f"the deadline of {self.limits.deadline:g} s was reached")

    def _fits(self) -> bool:
        """True if ``max_cost`` leaves room for one more call beside those in flight."""
        if self.limits.max_cost is None:
            return True
        if self._dearest is None:
            return not self._in_flight
        return self.spent + (self._in_flight + 1) * self._dearest <= self.limits.max_cost

    def _stop(self, why: str) -> LimitReached:
        """Send no more calls."""
        if self.reached is None:
            money = f" and ${self.spent:.4f}" if self.spent else ""
            self.reached = LimitReached(f"{why}, after {self.calls} calls{money}")
        return self.reached


class RateLimiter:
    """At most so many calls and tokens to one model in any minute; a ``Limiter``.

    Args:
        budget: The run's, whose limits and clock it keeps.
    """

    def __init__(self, budget: Budget) -> None:
        limits, clock = budget.limits, budget.clock
        requests, tokens = limits.requests_per_minute, limits.tokens_per_minute
        self._requests = None if requests is None else Schedule(requests, clock)
        self._tokens = None if tokens is None else Schedule(tokens, clock)
        self._reply_tokens = _REPLY_TOKENS
        self._budget = budget

    async def acquire(self, tokens: float) -> float:
        """Wait for a place in the schedule; returns the tokens reserved."""
        self._budget.check()
        wait = 0.0 if self._requests is None else self._requests.reserve()
        reserved = tokens + self._reply_tokens
        if self._tokens is not None:
            wait = max(wait, self._tokens.reserve(reserved))
        if wait > 0:
            await self._budget.pause(wait)
        return reserved

    def observe(self, ticket: float, outcome: ChatReply | JudgeError | None) -> None:
        """Learn from a reply how long replies are."""
        if self._tokens is not None and isinstance(outcome, ChatReply):
            usage = outcome.usage
            self._tokens.correct(usage.prompt_tokens + usage.completion_tokens - ticket)
            self._reply_tokens += 0.1 * (usage.completion_tokens - self._reply_tokens)


class Schedule:
    """At most so much in any minute, spread evenly, up to a second's worth at once.

    Args:
        per_minute: The limit.
        clock: Seconds, monotonic.

    Source:
        The generic cell rate algorithm (ITU-T I.371), as a virtual schedule.
    """

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        burst = per_minute / 60 if per_minute >= 120 else 0.0
        self._rate = (per_minute - burst) / 60
        self._tolerance = burst / self._rate
        self._clock = clock
        self._due = float("-inf")

    def reserve(self, amount: float = 1.0) -> float:
        """Take a place in the schedule; returns the seconds to wait for it."""
        now = self._clock()
        start = max(now, self._due - self._tolerance)
        self._due = max(start, self._due) + amount / self._rate
        return start - now

    def correct(self, amount: float) -> None:
        """Add to what was reserved, or take back if below 0."""
        self._due += amount / self._rate
