"""How fast calls go out: slots that narrow when the endpoint asks to slow down, and limits per minute."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

_NARROWER = 0.7
LONGEST_PAUSE = 600.0
"""Most seconds that an endpoint is waited for when it says how long; beyond, its calls fail."""


class Slots:
    """Places for calls in flight, shared by all workers of a session.

    When the endpoint asks to slow down, all workers wait as long as it says, and there are fewer places; each
    call that goes well widens them again, by one place for as many calls as there are places.

    Args:
        most: Places at the beginning, and the most there are.
        clock: Seconds, monotonic.

    Attributes:
        width: Places now, as a real number.
        taken: Places taken now.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.width = float(most)
        self.taken = 0
        self._most = most
        self._clock = clock
        self._paused_until = self._narrowed = float("-inf")
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Wait for a place, in order of arrival."""
        if not self._waiting and self._free():
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
        """Leave a place to the next."""
        self.taken -= 1
        self._wake()

    def slow_down(self, sent: float, retry_after: float | None) -> None:
        """Note that a call was told to slow down.

        Args:
            sent: When it was sent; calls sent before the places were last narrowed do not narrow them again.
            retry_after: Seconds to wait, if the endpoint said so; all workers wait, unless it is too long to.
        """
        now = self._clock()
        if sent >= self._narrowed:
            self.width = max(min(self.width, float(self.taken)) * _NARROWER, 1.0)
            self._narrowed = now
        if retry_after and retry_after <= LONGEST_PAUSE:
            until = now + retry_after
            if until > self._paused_until:
                self._paused_until = until
                asyncio.get_running_loop().call_later(until - now, self._wake)

    def went_well(self) -> None:
        """Note that a call was answered."""
        if self.width < self._most:
            self.width = min(self.width + 1 / self.width, float(self._most))
            self._wake()

    def _free(self) -> bool:
        return self.taken < int(self.width) and self._clock() >= self._paused_until

    def _wake(self) -> None:
        while self._waiting and self._free():
            future = self._waiting.popleft()
            if not future.done():
                self.taken += 1
                future.set_result(None)
        if self._waiting and self.taken == 0 and (left := self._paused_until - self._clock()) > 0:
            asyncio.get_running_loop().call_later(left, self._wake)  # a timer that came too early


class Pace:
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
