"""What a run may spend, and how fast: caps on calls, money and time; slots for calls in flight; limits per minute."""

import asyncio
import contextlib
import hashlib
import math
import os
import sqlite3
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, Self

from pydantic import Field, field_validator, model_validator

from ragmetrics_core.data import (
    JudgeError,
    LimitReached,
    RateLimited,
    SettingError,
    Settings,
    TransientJudgeError,
)
from ragmetrics_core.models.chat import ChatReply
from ragmetrics_core.models.own_file import Kind, OwnFile, check


class Limits(Settings):
    """What a run may spend.

    A cap that is reached ends the run with everything that is done until then.

    A call is sent if it and those in flight fit ``max_cost``, each as dear as the
    dearest call so far; while no price is known, it is sent alone. What turns out
    dearer than any call before may exceed the cap, by what it is dearer. Calls that
    failed count as free. Tokens are estimated before a call, and corrected by its
    reply.

    Raises:
        SettingError: If a limit is not positive, or ``rate_file`` has nothing to keep.
        ForeignFile: If there is a file that is not ours.
    """

    max_calls: int | None = Field(
        None, gt=0, description="most calls to models, retries too, stored replies not"
    )
    max_cost: float | None = Field(None, gt=0, description="most US dollars")
    deadline: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="most seconds; calls in flight at its end are given up",
    )
    requests_per_minute: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="most calls to each model in any minute",
    )
    tokens_per_minute: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="most tokens to and from each model in any minute",
    )
    max_live: int | None = Field(
        None,
        gt=0,
        description="with batches: a later round of at most so many is asked live",
    )
    rate_file: str | os.PathLike[str] | None = Field(
        None,
        repr=False,
        description=(
            "keep the limits per minute together with all processes that name this file"
        ),
    )

    @field_validator("*", mode="before")
    @classmethod
    def _is_a_number(cls, value: object) -> object:
        if isinstance(value, bool) or value == math.inf:
            raise SettingError(f"give a number, or None for no limit, got {value}")
        return value

    @model_validator(mode="after")
    def _kept(self) -> Self:
        if self.rate_file is not None:
            if not self.per_minute:
                raise SettingError(
                    "rate_file needs requests_per_minute or tokens_per_minute, which it"
                    " keeps"
                )
            # what cannot be read is told when it is used
            with contextlib.suppress(OSError):
                check(Path(self.rate_file).expanduser(), RATES)
        return self

    @property
    def per_minute(self) -> dict[str, float]:
        """Most ``requests`` and ``tokens`` in any minute.

        A unit without such a limit is left out.
        """
        limits = {
            "requests": self.requests_per_minute,
            "tokens": self.tokens_per_minute,
        }
        return {unit: limit for unit, limit in limits.items() if limit is not None}


class Limiter(Protocol):
    """Decides when a call may leave; every call passes through several."""

    async def acquire(self, tokens: float) -> Any:
        """Wait until a call of so many tokens may leave; gives what ``observe`` gets.

        ``LimitReached`` if none may.
        """

    def observe(self, ticket: Any, outcome: ChatReply | JudgeError | None) -> None:
        """Learn how a call ended that was let through.

        ``outcome`` is the reply or the error. It is None if the call was given up.
        """


class Budget:
    """What is left of a run's caps, shared by all calls of the run, on one event loop.

    A ``Limiter``.

    Attributes:
        calls: Calls sent so far.
        spent: US dollars so far.
        reached: The cap that ended the run; None as long as none did.
        interrupted: Whether somebody ended the run before it was done.
        live: Whether a run in batches asks live what no batch has answered.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.limits, self.clock, self._sleep = limits or Limits(), clock, sleep
        self.calls, self.spent = 0, 0.0
        self.reached: LimitReached | None = None
        self.interrupted = False
        self.live = False
        self._began = clock()
        self._why = ""
        self._dearest: float | None = None
        self._in_flight = 0
        self._ended = asyncio.Event()  # a call; another one for each
        # what the end of the run gives up, and so many seconds later
        self._timed: dict[asyncio.Timeout, float] = {}

    @property
    def remaining(self) -> float | None:
        """Seconds left, at least 0; None without a deadline."""
        deadline = self.limits.deadline
        return (
            None
            if deadline is None
            else max(self._began + deadline - self.clock(), 0.0)
        )

    @asynccontextmanager
    async def in_time(self, *, grace: float = 0.0) -> AsyncIterator[None]:
        """Give up the block after the deadline or an interrupt of the run.

        It ends with ``LimitReached``, ``grace`` seconds later.
        """
        remaining = self.remaining
        try:
            async with asyncio.timeout(
                None if remaining is None else remaining + grace
            ) as timeout:
                self._timed[timeout] = grace
                try:
                    yield
                finally:
                    del self._timed[timeout]
        except TimeoutError:
            if not timeout.expired():
                raise
            reached = (
                self.reached
                if self.interrupted and self.reached is not None
                else self.expire()
            )
            raise reached.with_traceback(None) from None

    def interrupt(self) -> None:
        """End the run at once; call it on the run's event loop.

        What is in flight is given up, and says what it cost until then.
        """
        self.interrupted = True
        if self.reached is None:
            self.reached = LimitReached("it was interrupted")
        now = asyncio.get_running_loop().time()
        for timeout, grace in self._timed.items():
            if not timeout.expired():
                timeout.reschedule(now + grace)

    async def pause(self, seconds: float) -> None:
        """Wait, but not beyond the deadline."""
        left = self.remaining
        await self._sleep(seconds if left is None else min(seconds, left))

    def check(self) -> None:
        """End the run, with ``LimitReached``, if a cap is reached, now or before."""
        if self.remaining == 0.0:
            self.expire()
        if self.limits.max_calls is not None and self.calls >= self.limits.max_calls:
            self._stop(f"max_calls={self.limits.max_calls} was reached")
        if self.reached is not None:
            raise self.reached.with_traceback(None)

    async def acquire(self, tokens: float) -> Any:
        """Count a call about to be sent, with ``max_cost`` as soon as it surely fits.

        Else ``LimitReached``.
        """
        del tokens
        self.check()
        while not self._fits():
            if self._in_flight:
                await self._ended.wait()
            else:
                self._stop(f"max_cost={self.limits.max_cost:g} was reached")
            self.check()
        self.calls += 1
        self._in_flight += 1

    def observe(self, ticket: Any, outcome: ChatReply | JudgeError | None) -> None:
        """Note what a call cost; one that failed cost nothing."""
        del ticket
        self._in_flight -= 1
        if isinstance(outcome, ChatReply) and outcome.usage.cost is not None:
            self.spent += outcome.usage.cost
            self._dearest = max(self._dearest or 0.0, outcome.usage.cost)
        elif isinstance(outcome, ChatReply) and self.limits.max_cost is not None:
            self._stop(
                "the price of the judge's model is not known, so max_cost cannot be"
                " held; use max_calls"
            )
        self._ended.set()
        self._ended = asyncio.Event()

    def expire(self) -> LimitReached:
        """End the run for want of time."""
        return self._stop(f"the deadline of {self.limits.deadline:g} s was reached")

    def _fits(self) -> bool:
        """True if ``max_cost`` leaves room for one more call beside those in flight."""
        if self.limits.max_cost is None:
            return True
        if self._dearest is None:
            return not self._in_flight
        return (
            self.spent + (self._in_flight + 1) * self._dearest <= self.limits.max_cost
        )

    @property
    def sentence(self) -> str:
        """Why the run ended; "" if it did not end.

        Calls and money are those of now, because what was in flight is paid later.
        """
        if self.reached is None or not self._why:
            return str(self.reached or "")
        money = f" and ${self.spent:.4f}" if self.spent else ""
        return f"{self._why}, after {self.calls} calls{money}"

    def _stop(self, why: str) -> LimitReached:
        """Send no more calls."""
        if self.reached is None:
            self._why = why
            self.reached = LimitReached(why)
            self.reached = LimitReached(self.sentence)
        return self.reached


_IN_A_ROW = 4  # refusals, from which on there are fewer slots
_NARROWER = 0.7


class Slots:
    """The slots of a session for calls in flight; a ``Limiter``.

    There are ``most`` at most, whichever run they are of.

    When several calls in a row are refused, there are fewer slots; each call that goes
    well makes more again. A single refusal says nothing: the request that met it waits
    by itself, all others go on.
    """

    def __init__(self, most: int) -> None:
        self.most, self.taken = most, 0
        # most calls in flight that the endpoint takes; a real number
        self._width = math.inf
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._refused = self._sent = self._narrowed = 0

    @property
    def width(self) -> int:
        """Slots that there are now."""
        return self.most if self._width >= self.most else int(self._width)

    async def acquire(self, tokens: float) -> int:
        """Wait for a slot; returns the number of the call."""
        del tokens
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._wake()
        try:
            await future
        except asyncio.CancelledError:
            # it may just have been given one
            self._wake(given_back=not future.cancelled())
            raise
        self._sent += 1
        return self._sent

    def observe(self, ticket: int, outcome: ChatReply | JudgeError | None) -> None:
        """Learn how a call ended, and give its slot back."""
        if isinstance(outcome, ChatReply):
            self._refused, self._width = 0, self._width + 1 / self._width
        elif isinstance(outcome, RateLimited) or (
            isinstance(outcome, TransientJudgeError) and outcome.retry_after
        ):
            self._refused += 1
            if self._refused >= _IN_A_ROW and ticket > self._narrowed:
                self._width = max(min(self._width, self.taken) * _NARROWER, 1.0)
                # calls on their way by now say nothing about fewer slots
                self._narrowed = self._sent
        self._wake(given_back=True)

    def _wake(self, *, given_back: bool = False) -> None:
        """Give the slots that are free to those who wait."""
        self.taken -= given_back
        while self._waiting and self.taken < self.width:
            future = self._waiting.popleft()
            if not future.done():
                self.taken += 1
                future.set_result(None)


RATES = Kind(
    holds="rates",
    application_id=0x52614D72,  # "RaMr"
    version=1,
    table=(
        "CREATE TABLE rates (model TEXT NOT NULL, unit TEXT NOT NULL, level REAL NOT"
        " NULL, seen REAL NOT NULL, PRIMARY KEY (model, unit)) WITHOUT ROWID"
    ),
    made="the rate of calls is kept in %s, for all processes that name this file",
    without="the rate of calls is kept by this process alone",
)
_LEVELS = "SELECT unit, level, seen FROM rates WHERE model = ?"
_SET_LEVEL = (
    "INSERT OR REPLACE INTO rates (model, unit, level, seen) VALUES (?, ?, ?, ?)"
)
_REPLY_TOKENS = 100.0  # until there are replies
# calls or tokens per minute, from which on a second's worth may leave at once
_BURST_FROM = 120.0
_AT_ONCE = 5e-7  # seconds that no clock tells apart
_LONGEST_WAIT = 5.0  # seconds until a call that waits asks again, at most


class RateLimiter:
    """At most so many calls and tokens to one model in any minute; a ``Limiter``.

    With ``rate_file`` all processes that name it keep the rate together. Nothing is
    reserved ahead: a call that may not leave yet asks again later, and a process that
    dies holds nothing back. One whose file cannot be written keeps the rate by itself,
    and says so.

    Source:
        The leaky bucket as a meter (ITU-T I.371). The time that went by is measured
        from the last entry, so that a clock that is set back holds nobody up.
    """

    def __init__(
        self,
        budget: Budget,
        model: Sequence[str],
        clock: Callable[[], float] | None = None,
    ) -> None:
        file = budget.limits.rate_file
        self._budget = budget
        # Of the model's name and endpoint the file holds a digest.
        self._model = hashlib.sha256("\n".join(model).encode()).hexdigest()
        self._file = None if file is None else OwnFile(file, RATES)
        self._clock = clock or (budget.clock if file is None else time.time)
        # by unit: how full its bucket was, and when
        self._levels: dict[str, tuple[float, float]] = {}
        self._turn = asyncio.Lock()
        self._reply_tokens = _REPLY_TOKENS
        self._correction = 0.0

    async def acquire(self, tokens: float) -> float:
        """Wait until a call of about so many tokens may leave.

        Returns the tokens that it was counted with.
        """
        # the others of this process wait here: one asks at a time
        async with self._turn:
            while True:
                self._budget.check()
                counted = tokens + self._reply_tokens
                wait = await self._asked(counted)
                if not wait:
                    return counted
                await self._budget.pause(min(wait, _LONGEST_WAIT))

    def observe(self, ticket: float, outcome: ChatReply | JudgeError | None) -> None:
        """Learn from a reply how long replies are.

        What was counted wrongly is corrected with the next call.
        """
        if isinstance(outcome, ChatReply):
            usage = outcome.usage
            self._correction += usage.prompt_tokens + usage.completion_tokens - ticket
            self._reply_tokens += 0.1 * (usage.completion_tokens - self._reply_tokens)

    async def _asked(self, tokens: float) -> float:
        """Count a call, and return 0.

        Or return the seconds after which to ask again.
        """
        correction, self._correction = self._correction, 0.0
        waits: list[float] = []

        def ask(connection: sqlite3.Connection) -> None:
            levels = {
                unit: (level, seen)
                for unit, level, seen in connection.execute(_LEVELS, (self._model,))
            }
            waits.append(self._counted(levels, tokens, correction))
            connection.executemany(
                _SET_LEVEL,
                [(self._model, unit, *entry) for unit, entry in levels.items()],
            )

        if self._file is not None:
            self._file.write(ask)
            await self._file.settled()
            if self._file.trouble is None:
                return waits[0]
        return self._counted(self._levels, tokens, correction)

    def _counted(
        self, levels: dict[str, tuple[float, float]], tokens: float, correction: float
    ) -> float:
        """Count a call in the levels, if they allow it.

        Returns the seconds after which they will.
        """
        now, wait = self._clock(), 0.0
        limits = self._budget.limits.per_minute
        for unit, per_minute in limits.items():
            burst = per_minute / 60 if per_minute >= _BURST_FROM else 0.0
            rate = (per_minute - burst) / 60
            level, seen = levels.get(unit, (0.0, now))
            level = max(level - max(now - seen, 0.0) * rate, 0.0) + (
                correction if unit == "tokens" else 0.0
            )
            levels[unit] = (max(level, 0.0), now)
            wait = max(wait, (level - burst) / rate)
        if wait > _AT_ONCE:
            return wait
        for unit in limits:
            levels[unit] = (
                levels[unit][0] + (tokens if unit == "tokens" else 1.0),
                now,
            )
        return 0.0
