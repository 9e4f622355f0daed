"""A rate that several processes of one machine keep together: a token bucket in a SQLite file.

Nothing is reserved ahead: a call that may not leave yet asks again later. A process that dies holds nothing back.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping

from ragmetrics_core.data.errors import JudgeError
from ragmetrics_core.endpoints import own_file
from ragmetrics_core.endpoints.chat import ChatReply
from ragmetrics_core.endpoints.database import Database

RATES = own_file.Kind(
    holds="rates",
    application_id=0x52614D72,  # "RaMr"
    steps=(
        (
            "CREATE TABLE rates (model TEXT NOT NULL, unit TEXT NOT NULL, level REAL NOT NULL, seen REAL NOT NULL, "
            "PRIMARY KEY (model, unit)) WITHOUT ROWID",
        ),
    ),
    made="the rate of calls is kept in %s, for all processes that name this file",
    without="the rate of calls is kept by this process alone",
)
_GET = "SELECT unit, level, seen FROM rates WHERE model = ?"
_PUT = "INSERT OR REPLACE INTO rates (model, unit, level, seen) VALUES (?, ?, ?, ?)"
_Levels = dict[str, tuple[float, float]]  # by unit: how full its bucket was, and when
_REPLY_TOKENS = 100.0
_BURST_FROM = 120.0  # calls or tokens per minute, from which on a second's worth may leave at once
_AT_ONCE = 1e-6  # seconds that no clock tells apart
_LONGEST_WAIT = 5.0  # seconds until a call that waits asks again, at most


class SharedRate(Database):
    """At most so many calls and tokens to one model in any minute, by all processes that name one file; a ``Limiter``.

    The processes are to name the same limits. One whose file cannot be written keeps the rate by itself, and says so.

    Args:
        path: The file.
        model: The model's name and endpoint; the file holds a digest of it.
        per_minute: Most ``requests`` and ``tokens`` in any minute.
        check: Called before a call leaves; raises if none may any more.
        sleep: Waits, in seconds.
        clock: Seconds since a moment that all processes share.

    Raises:
        ForeignFile: If there is a file that is not ours.

    Source:
        The leaky bucket as a meter (ITU-T I.371). The time that went by is measured from the last entry, so that a
        clock that is set back holds nobody up.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        model: tuple[str, ...],
        per_minute: Mapping[str, float],
        *,
        check: Callable[[], None] = lambda: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(path, RATES)
        self._model = hashlib.sha256("\n".join(model).encode()).hexdigest()
        self._per_minute = dict(per_minute)
        self._check = check
        self._sleep = sleep
        self._clock = clock
        self._reply_tokens = _REPLY_TOKENS
        self._correction = 0.0

    def begin(self) -> None:
        """Start anew: at first, and in a forked process."""
        super().begin()
        self._turn = asyncio.Lock()
        self._alone: _Levels = {}  # of this process, while the file cannot be written

    async def acquire(self, tokens: float) -> float:
        """Wait until a call of about so many tokens may leave; returns the tokens that it was counted with.

        Raises:
            LimitReached: If none may leave any more.
        """
        async with self._turn:  # the others of this process wait here: one asks at a time
            while True:
                self._check()
                counted = tokens + self._reply_tokens
                wait = await self._asked({"requests": 1.0, "tokens": counted})
                if not wait:
                    return counted
                await self._sleep(min(wait, _LONGEST_WAIT))

    def observe(self, ticket: float, outcome: ChatReply | JudgeError | None) -> None:
        """Learn from a reply how long replies are; what was counted wrongly is corrected with the next call."""
        if isinstance(outcome, ChatReply):
            usage = outcome.usage
            self._correction += usage.prompt_tokens + usage.completion_tokens - ticket
            self._reply_tokens += 0.1 * (usage.completion_tokens - self._reply_tokens)

    async def _asked(self, amounts: Mapping[str, float]) -> float:
        """Count a call, and return 0; or return the seconds after which to ask again."""
        correction, self._correction = self._correction, 0.0
        waits: list[float] = []

        def ask(connection: sqlite3.Connection) -> None:
            levels = {unit: (level, seen) for unit, level, seen in connection.execute(_GET, (self._model,))}
            waits.append(self._counted(levels, amounts, correction))
            connection.executemany(_PUT, [(self._model, unit, *entry) for unit, entry in levels.items()])

        with self.lock:
            written = self.write([ask])
        if written and (done := self.committed()) is not None:
            await asyncio.wrap_future(done)
        return waits[0] if self.trouble is None else self._counted(self._alone, amounts, correction)

    def _counted(self, levels: _Levels, amounts: Mapping[str, float], correction: float) -> float:
        """Count a call in the levels, if they allow it; returns the seconds after which they will."""
        now, wait = self._clock(), 0.0
        for unit, per_minute in self._per_minute.items():
            burst = per_minute / 60 if per_minute >= _BURST_FROM else 0.0
            rate = (per_minute - burst) / 60
            level, seen = levels.get(unit, (0.0, now))
            level = max(level - max(now - seen, 0.0) * rate, 0.0) + (correction if unit == "tokens" else 0.0)
            levels[unit] = (max(level, 0.0), now)
            wait = max(wait, (level - burst) / rate)
        if wait > _AT_ONCE:
            return wait
        levels.update((unit, (levels[unit][0] + amounts[unit], now)) for unit in self._per_minute)
        return 0.0
