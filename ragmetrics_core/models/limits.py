"""What a run may spend, and how fast.

``Budget`` holds the caps on calls, money and time, ``Slots`` the number of calls in
flight, ``RateLimiter`` the calls per minute. Each call passes all three.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from pydantic import Field, field_validator

from ragmetrics_core.data import (
    JudgeError,
    LimitReached,
    RateLimited,
    SettingError,
    Settings,
    TransientJudgeError,
    Usage,
)
from ragmetrics_core.data.errors import NoReplyInTime
from ragmetrics_core.models.chat import ChatReply


class Limits(Settings):
    """What a run may spend.

    A cap that is reached ends the run with everything that is done until then.

    **Calls.** Stored replies are none. Of a judge of a user's own each question is one,
    or as many as its answer says.

    **Money.** The price of a call is known once its reply is there. So a call is sent
    if it and the calls in flight fit ``max_cost``, each counted as dear as the dearest
    call so far. The first call is sent alone. A call that turns out dearer than all
    before may exceed the cap by the difference. A call that failed counts as free.

    Raises:
        SettingError: If a limit is not positive.
    """

    max_calls: int | None = Field(
        default=None, gt=0, description="most calls to models, retries included"
    )
    max_cost: float | None = Field(default=None, gt=0, description="most US dollars")
    deadline: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="most seconds; calls in flight at its end are given up",
    )
    requests_per_minute: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="most calls to each model in any minute",
    )

    @field_validator("*", mode="before")
    @classmethod
    def _is_a_number(cls, value: object) -> object:
        """Refuse true, false and infinity, which pydantic would take for numbers."""
        if isinstance(value, bool) or value == math.inf:
            raise SettingError(f"give a number, or None for no limit, got {value}")
        return value


class Budget:
    """What is left of a run's caps.

    All calls of the run share it, on one event loop.

    Args:
        limits: The caps; None for no cap.
        clock: Gives the time in seconds.
        sleep: Waits for so many seconds.

    Attributes:
        calls: Calls sent so far.
        spent: US dollars so far.
        reached: The cap that ended the run; None as long as none did.
        interrupted: Whether somebody ended the run before it was done.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Begin to count calls, costs and time of a run: the deadline runs from now.

        Example: with ``Limits(max_calls=10)`` and 9 calls sent, one more may leave.
        """
        self.limits = limits or Limits()
        self.clock = clock
        self._sleep = sleep
        self.calls = 0
        self.spent = 0.0
        self.reached: LimitReached | None = None
        self.interrupted = False
        self._began_at = clock()
        # The cap that ended the run, in words; "" if none did.
        self._cap_in_words = ""
        # Price of the dearest call so far; None while no price is known.
        self._dearest: float | None = None
        self._n_in_flight = 0
        # When the run began to wait for a reply; None where it waits for none.
        self._silent_since: float | None = None
        # Why a call is sent again; "" once one was answered, or was the last attempt.
        self.fault = ""
        # Set when any call ends; then a new event takes its place.
        self._next_end = asyncio.Event()
        # The blocks of code that are cancelled when the run ends (``in_time``): the
        # timeout of each, and how many seconds after the end it is cancelled.
        self._grace_by_timeout: dict[asyncio.Timeout, float] = {}

    @property
    def remaining(self) -> float | None:
        """Seconds left, at least 0; None without a deadline."""
        deadline = self.limits.deadline
        if deadline is None:
            return None
        return max(self._began_at + deadline - self.clock(), 0.0)

    @property
    def seconds_silent(self) -> float:
        """Seconds since the last reply, or since the first call was sent; 0 without one."""
        silent_since = self._silent_since  # the loop's thread may change it
        return 0.0 if silent_since is None else self.clock() - silent_since

    @asynccontextmanager
    async def in_time(self, *, grace: float = 0.0) -> AsyncIterator[None]:
        """Run the block, but cancel it at the deadline or when the run is interrupted.

        Args:
            grace: Seconds that the block has after the deadline, or after the
                interruption, to end by itself.

        Raises:
            LimitReached: If the block was cancelled, or the run had ended before.
        """
        remaining = self.remaining
        if self.interrupted or remaining == 0.0:
            raise self.expire().with_traceback(None)
        seconds = None if remaining is None else remaining + grace
        try:
            async with asyncio.timeout(seconds) as timeout:
                self._grace_by_timeout[timeout] = grace  # for ``interrupt``
                try:
                    yield
                finally:
                    del self._grace_by_timeout[timeout]
        except TimeoutError:
            if not timeout.expired():  # the block itself raised the TimeoutError
                raise
            raise self.expire().with_traceback(None) from None

    def interrupt(self) -> None:
        """End the run at once; must be called on the run's event loop.

        Calls in flight are cancelled after their seconds of grace, in which they may
        still say what they cost.
        """
        self.interrupted = True
        if self.reached is None:
            self.reached = LimitReached("it was interrupted")
        now = asyncio.get_running_loop().time()
        for timeout, grace in self._grace_by_timeout.items():
            if not timeout.expired():
                timeout.reschedule(now + grace)

    async def pause(self, seconds: float) -> None:
        """Wait so many seconds, but not beyond the deadline."""
        remaining = self.remaining
        await self._sleep(seconds if remaining is None else min(seconds, remaining))

    def check(self) -> None:
        """End the run if a cap is reached.

        Raises:
            LimitReached: If a cap is reached now, or was reached before.
        """
        if self.remaining == 0.0:
            self.expire()
        max_calls = self.limits.max_calls
        if max_calls is not None and self.calls >= max_calls:
            self.stop(f"max_calls={max_calls} was reached")
        if self.reached is not None:
            raise self.reached.with_traceback(None)

    async def acquire(self) -> int:
        """Count a call that is about to be sent, and return its number.

        Under ``max_cost`` the call waits for the end of calls in flight until it is
        sure to fit beside the others.

        Raises:
            LimitReached: If a cap is reached.
        """
        self.check()
        while not self._fits():
            if self._n_in_flight:
                await self._next_end.wait()
            else:
                # not even one more call is sure to fit
                self.stop(f"max_cost={self.limits.max_cost:g} was reached")
            self.check()
        self.calls += 1
        self._n_in_flight += 1
        if self._silent_since is None:
            self._silent_since = self.clock()
        return self.calls

    def observe(self, number: int, usage: Usage | None) -> None:
        """Count what a call cost.

        Args:
            number: The number of the call.
            usage: What it used, with as many faults as calls if its reply was broken
                off; None if it failed or was given up, and cost nothing.
        """
        del number  # the limits of a job on several machines need it
        self._n_in_flight -= 1
        if usage is not None and usage.faults < max(usage.calls, 1):
            self.fault = ""
            self._silent_since = self.clock() if self._n_in_flight else None
        if usage is not None and usage.cost is not None:
            self.spent += usage.cost
            self._dearest = max(self._dearest or 0.0, usage.cost)
        elif usage is not None and self.limits.max_cost is not None:
            self.stop(
                "the price of the judge's model is not known, or its server counts no"
                " tokens, so max_cost cannot be held; use max_calls, or have a judge of"
                " your own say what an answer cost:"
                " Answer(reply, Usage(calls=1, cost=0.001))"
            )
        self._next_end.set()
        self._next_end = asyncio.Event()

    def expire(self) -> LimitReached:
        """End the run because its deadline has passed, if nothing ended it before."""
        if self.reached is not None:
            return self.reached
        return self.stop(f"the deadline of {self.limits.deadline:g} s was reached")

    def _fits(self) -> bool:
        """True if ``max_cost`` leaves room for one more call beside those in flight."""
        if self.limits.max_cost is None:
            return True
        if self._dearest is None:  # no price is known: one call alone
            return not self._n_in_flight
        n_unpaid = self._n_in_flight + 1
        return self.spent + n_unpaid * self._dearest <= self.limits.max_cost

    @property
    def sentence(self) -> str:
        """Why the run ended; "" if it did not end.

        The calls and the money in it are those of now: calls that were in flight when
        the run ended are paid later.
        """
        if self.reached is None:
            return ""
        if not self._cap_in_words:  # it was interrupted
            return str(self.reached)
        return self._cap_and_spending()

    def _cap_and_spending(self) -> str:
        money = f" and ${self.spent:.4f}" if self.spent else ""
        calls = "1 call" if self.calls == 1 else f"{self.calls} calls"
        fault = f"; the last that failed: {self.fault}" if self.fault else ""
        return f"{self._cap_in_words}, after {calls}{money}{fault}"

    def stop(self, cap_in_words: str) -> LimitReached:
        """Send no more calls, and return the error that says which cap ended the run.

        The first cap that is reached counts.
        """
        if self.reached is None:
            self._cap_in_words = cap_in_words
            self.reached = LimitReached(self._cap_and_spending())
        return self.reached


# The most seconds that a call is waited for, however late its endpoint answers.
_MOST_PATIENCE = 300.0
# By how much the slowest answer seen counts less with each answer after it.
_FORGETTING = 0.97


class Patience:
    """How many seconds a call to an endpoint may take.

    A server that works on one call after the other answers the last of many late. What
    is answered late is not lost: three times the slowest answer is waited for, so that
    the slots may double meanwhile. Where all stay silent, the time triples.

    Args:
        seconds: The least time of a call.
    """

    def __init__(self, seconds: float) -> None:
        self.least = seconds
        self._slowest_answer = 0.0
        self._n_answers = 0

    @property
    def seconds(self) -> float:
        """The time that a call may take now."""
        return max(self.least, min(3 * self._slowest_answer, self.most))

    @property
    def most(self) -> float:
        """The most time that a call may ever take."""
        return max(self.least, _MOST_PATIENCE)

    @asynccontextmanager
    async def during_call(self, model: str) -> AsyncIterator[None]:
        """Give the block the time of a call, and learn from how long it took.

        Args:
            model: The model's name, for the error.

        Raises:
            NoReplyInTime: If the time ended first.
        """
        seconds = self.seconds
        n_answers_before = self._n_answers
        began_at = time.monotonic()
        try:
            async with asyncio.timeout(seconds) as time_limit:
                yield
        except TimeoutError:
            if not time_limit.expired():  # the block itself raised the TimeoutError
                raise
            if self._n_answers == n_answers_before:
                self._slowest_answer = max(self._slowest_answer, seconds)
            raise late_error(model, seconds, self.least) from None
        self._n_answers += 1
        remembered = _FORGETTING * self._slowest_answer
        self._slowest_answer = max(time.monotonic() - began_at, remembered)


def late_error(
    model: str, seconds: float, seconds_at_first: float | None = None
) -> NoReplyInTime:
    """Return the error of a call that was not answered in its time.

    Args:
        model: The model's name.
        seconds: The time of the call.
        seconds_at_first: The time that was set; None if it never grows.
    """
    has_grown = seconds_at_first is not None and seconds > seconds_at_first
    grown = (
        f" (timeout {seconds_at_first:.4g} at first, then longer)" if has_grown else ""
    )
    return NoReplyInTime(
        f"{model} sent no reply within {seconds:.4g} s{grown}: raise --timeout (timeout="
        " of the model and of its judge), or lower --concurrency"
    )


# After so many refusals in a row only this share of the slots is left.
_REFUSALS_IN_A_ROW = 4
_SHARE_AFTER_REFUSALS = 0.7
_SHARE_AFTER_LATE_CALL = 0.5
# How many calls a server on this machine gets at first: most work on few at once.
FIRST_SLOTS_ON_THIS_MACHINE = 4


class Slots:
    """The slots of a session for calls in flight.

    All runs of the session share the slots. If the endpoint refuses several calls in a
    row because they are too many, the number of slots falls, and it halves if a call is
    not answered in time. Each call that goes well lets it rise again, slowly after
    refusals, or where a server of this machine let later calls overtake it. A single
    refusal changes nothing: its request waits by itself, and all others go on.

    A call takes one slot. On a server of this machine it takes one for each of its
    replies: five choices wait there until five places are free, and never find them
    while shorter calls go on coming. One that wants more slots than there are is sent
    alone.

    Args:
        most: The most slots.
        first: Slots at first; None for the most.

    Attributes:
        most: As given.
        taken: Slots that calls hold now.
    """

    def __init__(self, most: int, first: int | None = None) -> None:
        self.most = most
        self.taken = 0
        # Estimate of how many calls in flight the endpoint takes; it grows by
        # fractions.
        self._width = math.inf if first is None else float(first)
        self._is_narrow_at_first = first is not None
        # Until the endpoint refuses calls, each quick answer gives a slot more.
        self._has_refused = False
        self._quickest_answer = math.inf  # seconds
        self._newest_answered = 0  # the ticket of the call
        # A future and the slots for each call that waits, first come first served.
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._n_refused_in_a_row = 0
        self._n_sent = 0
        # How many calls had been sent when the number of slots last fell.
        self._n_sent_at_narrowing = 0

    @property
    def width(self) -> int:
        """Slots that there are now."""
        return self.most if self._width >= self.most else int(self._width)

    def of_call(self, n_replies: int) -> int:
        """Slots that a call for some replies takes."""
        return n_replies if self._is_narrow_at_first else 1

    async def acquire(self, n_replies: int = 1) -> int:
        """Wait for the slots of a call, and return its number as its ticket."""
        slot = asyncio.get_running_loop().create_future()
        n_slots = self.of_call(n_replies)
        self._waiting.append((slot, n_slots))
        self._hand_out()
        try:
            await slot
        except asyncio.CancelledError:
            if not slot.cancelled():  # the slots had just been handed to this call
                self.taken -= n_slots
            self._hand_out()
            raise
        self._n_sent += 1
        return self._n_sent

    def observe(
        self,
        ticket: int,
        outcome: ChatReply | JudgeError | None,
        *,
        n_replies: int = 1,
        seconds: float = 0.0,
        time_of_a_call: float = math.inf,
    ) -> None:
        """Learn how a call ended, and give its slots back.

        A quick answer took less than half of the time of a call, or than twice the
        quickest one: then it did not wait for others. Slow answers leave the number of
        slots as it is: the endpoint has enough to do.

        Args:
            ticket: The number of the call.
            outcome: How it ended; None if it was given up.
            n_replies: How many replies it was to bring.
            seconds: How long it took.
            time_of_a_call: The seconds that a call may take at first.
        """
        n_slots = self.of_call(n_replies)
        # refused because there are too many calls
        is_told_to_wait = isinstance(outcome, RateLimited) or (
            isinstance(outcome, TransientJudgeError) and bool(outcome.retry_after)
        )
        if isinstance(outcome, ChatReply):
            self._n_refused_in_a_row = 0
            self._newest_answered = max(self._newest_answered, ticket)
            self._quickest_answer = min(self._quickest_answer, seconds)
            if seconds < max(time_of_a_call / 2, 2 * self._quickest_answer):
                # After refusals there is one slot more when each of ``width`` calls has
                # gone well.
                self._width += 1 / self._width if self._has_refused else 1
        elif is_told_to_wait:
            self._n_refused_in_a_row += 1
            if self._n_refused_in_a_row >= _REFUSALS_IN_A_ROW:
                self._has_refused = True
                self._narrow_after(ticket, _SHARE_AFTER_REFUSALS)
        elif isinstance(outcome, NoReplyInTime) and self.taken > n_slots:
            # A call that was alone did not wait for others. One that later calls overtook
            # never found the places that it needs.
            was_overtaken = ticket < self._newest_answered
            self._has_refused |= self._is_narrow_at_first and was_overtaken
            self._narrow_after(ticket, _SHARE_AFTER_LATE_CALL)
            self._quickest_answer = math.inf  # of shorter calls, perhaps
        self.taken -= n_slots
        self._hand_out()

    def _narrow_after(self, ticket: int, share: float) -> None:
        """Leave a share of the slots, unless the call left before their number last fell."""
        if ticket > self._n_sent_at_narrowing:
            in_use = min(self._width, self.taken)
            self._width = max(in_use * share, 1.0)
            self._n_sent_at_narrowing = self._n_sent

    def _hand_out(self) -> None:
        """Hand free slots to the calls that wait, in order."""
        while self._waiting:
            slot, n_slots = self._waiting[0]
            if not slot.done():  # the call was not cancelled meanwhile
                if self.taken and self.taken + n_slots > self.width:
                    return
                self.taken += n_slots
                slot.set_result(None)
            self._waiting.popleft()


# A call that waits looks so often, in seconds, whether the run ended.
_LONGEST_WAIT = 5.0


class RateLimiter:
    """Spaces the calls of a run to one model, so that no minute holds too many.

    Args:
        budget: The run's budget, which has the limit and the clock.
    """

    def __init__(self, budget: Budget) -> None:
        per_minute = budget.limits.requests_per_minute
        self._budget = budget
        self._seconds_between = 0.0 if per_minute is None else 60 / per_minute
        self._next_leaves_at = budget.clock()

    async def acquire(self) -> None:
        """Wait until a call may leave.

        Raises:
            LimitReached: If the run ends before that.
        """
        leaves_at = max(self._next_leaves_at, self._budget.clock())
        self._next_leaves_at = leaves_at + self._seconds_between
        self._budget.check()
        while self._budget.clock() < leaves_at:
            wait = leaves_at - self._budget.clock()
            await self._budget.pause(min(wait, _LONGEST_WAIT))
            self._budget.check()
