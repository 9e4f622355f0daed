"""Slots for calls in flight: as many as a run wants, and fewer while the endpoint refuses what is sent."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque

from ragmetrics_core.data.errors import JudgeError, RateLimited, TransientJudgeError
from ragmetrics_core.endpoints.chat import ChatReply

_IN_A_ROW = 4
_NARROWER = 0.7


class Queue:
    """Who waits for a slot, in order of arrival.

    Attributes:
        taken: Slots taken now.
    """

    def __init__(self) -> None:
        self.taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def most(self) -> float:
        """Slots that there are now."""
        raise NotImplementedError

    async def take(self) -> None:
        """Wait for a slot."""
        if not self._waiting and self.taken < self.most:
            self.taken += 1
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if not future.cancelled():
                self.give_back()
            elif future in self._waiting:
                self._waiting.remove(future)
            raise

    def give_back(self) -> None:
        """Leave a slot to the next."""
        self.taken -= 1
        self.wake()

    def wake(self) -> None:
        """Give the slots that are free to those who wait."""
        while self._waiting and self.taken < self.most:
            future = self._waiting.popleft()
            if not future.done():
                self.taken += 1
                future.set_result(None)


class SharedSlots(Queue):
    """The slots of a session: as many as the run with the most wants, whoever shares it.

    When several calls in a row are refused, there are fewer slots; each call that goes well makes more again. A single
    refusal says nothing: the request that met it waits by itself, all others go on.

    Attributes:
        width: Most calls in flight that the endpoint takes, as a real number; infinite until it refuses.
    """

    def __init__(self) -> None:
        super().__init__()
        self.width = math.inf
        self._wanted: Counter[int] = Counter()
        self._most = 0
        self._refused = 0
        self._sent = self._narrowed = 0

    @property
    def most(self) -> float:
        """Slots that there are now."""
        return self._most if self.width >= self._most else max(int(self.width), 1)

    def enter(self, wanted: int) -> None:
        """Note a run that has calls in flight."""
        self._wanted[wanted] += 1
        self._most = max(self._most, wanted)
        self.wake()

    def leave(self, wanted: int) -> None:
        """Note that a run has none any more."""
        self._wanted[wanted] -= 1
        if not self._wanted[wanted]:
            del self._wanted[wanted]
            self._most = max(self._wanted, default=0)

    def sent(self) -> int:
        """The number of a call that is about to leave."""
        self._sent += 1
        return self._sent

    def observe(self, number: int, outcome: ChatReply | JudgeError | None) -> None:
        """Learn how a call ended; None if it was given up."""
        if isinstance(outcome, ChatReply):
            self._refused = 0
            if self.width < math.inf:
                self.width += 1 / self.width
                if self.width >= self._most:
                    self.width = math.inf
                self.wake()
        elif isinstance(outcome, RateLimited) or (isinstance(outcome, TransientJudgeError) and outcome.retry_after):
            self._refused += 1
            if self._refused >= _IN_A_ROW and number > self._narrowed:
                self.width = max(min(self.width, self.taken) * _NARROWER, 1.0)
                self._narrowed = self._sent  # calls on their way by now say nothing about fewer slots


class Slots(Queue):
    """The slots of one run within those of its session; a ``Limiter``.

    Args:
        most: Most calls of the run in flight.
        shared: The session's.
    """

    def __init__(self, most: int, shared: SharedSlots) -> None:
        super().__init__()
        self._own = most
        self._shared = shared
        self._inside = False

    @property
    def most(self) -> float:
        """Slots that the run wants."""
        return self._own

    async def acquire(self, tokens: float) -> int:
        """Wait for a slot of the run and one of the session; returns the call's number."""
        del tokens
        await self.take()
        if not self._inside:
            self._inside = True
            self._shared.enter(self._own)
        try:
            await self._shared.take()
        except asyncio.CancelledError:
            self._leave()
            raise
        return self._shared.sent()

    def observe(self, ticket: int, outcome: ChatReply | JudgeError | None) -> None:
        """Give both back, and learn how the call ended."""
        self._shared.observe(ticket, outcome)
        self._shared.give_back()
        self._leave()

    def _leave(self) -> None:
        self.give_back()
        if not self.taken:
            self._inside = False
            self._shared.leave(self._own)
