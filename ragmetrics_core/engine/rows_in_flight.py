"""The rows of a run that have started and whose results nobody has taken yet."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, cast

from ragmetrics_core.data import RowError, Sample, SampleResult
from ragmetrics_core.engine.loop import submit
from ragmetrics_core.engine.sample_judging import SampleJudging
from ragmetrics_core.metrics.metric import Metric

AHEAD = 1024
"""Most rows behind the next one to give that have started.

Those that are done wait as results.
"""
# Results that are given, where there are any, before one more row starts: so what waited
# behind a slow row becomes less.
_RESULTS_BEFORE_A_ROW = 2
# Seconds that what is in flight has to end after an interrupt.
_SECONDS_TO_END = 2.0


class RowsInFlight:
    """Starts rows in input order and gives their results in input order.

    Rows may end in any order. So a row that does not end keeps no other from being
    judged, up to ``AHEAD`` rows behind it.

    Args:
        judging: What judges a row.
        window: Most rows that are judged at a time.

    Attributes:
        untaken: Results that are ready and that nobody has got yet, by their index.
    """

    def __init__(self, judging: SampleJudging, window: int) -> None:
        self.untaken: dict[int, SampleResult] = {}
        self._judging = judging
        self._window = window
        self._tasks: set[asyncio.Task[Any]] = set()
        # Rows that have started and that nobody has taken; those that are not done.
        self._started: deque[Future[SampleResult]] = deque()
        self._unfinished: set[Future[SampleResult]] = set()
        # Is done as soon as any of the unfinished is.
        self._next_end: Future[None] = _uncancellable()
        self._lock = threading.Lock()

    def start(
        self, index: int, row: Sample | RowError, metrics: Sequence[Metric]
    ) -> None:
        """Start judging the next row."""
        future = submit(self._judge(index, row, metrics))
        self._unfinished.add(future)
        self._started.append(future)
        future.add_done_callback(self._ended)

    async def _judge(
        self, index: int, row: Sample | RowError, metrics: Sequence[Metric]
    ) -> SampleResult:
        """Judge a row.

        An interrupt finds the row here, even if it came before anybody held the row's
        future.
        """
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._tasks.add(task)
        try:
            result = await self._judging.judge(index, row, metrics)
        finally:
            self._tasks.discard(task)
        self.untaken[index] = result
        return result

    def _ended(self, future: Future[SampleResult]) -> None:
        """Tell who waits, in whichever thread, that a row is done."""
        self._unfinished.discard(future)
        with self._lock:
            ended = self._next_end
            self._next_end = _uncancellable()
        ended.set_result(None)

    def until_room(
        self, *, one_by_one: bool, is_over: Callable[[], bool]
    ) -> Iterator[Future[Any]]:
        """What is to be waited for until one more row may start.

        It is the result of the next row, which is to be taken; or None, where that row
        is not done and the end of another one leaves room for more.

        Args:
            one_by_one: Whether no row may start before the next one to give is looked
                at, because its result may end the run.
            is_over: Says whether no further row shall start at all.
        """
        n_given = 0
        while len(self._started) >= self._window and not is_over():
            # before looking: what ends from here on is not missed
            next_end = self._next_end
            may_go_ahead = not one_by_one and len(self._started) < AHEAD
            has_room = may_go_ahead and len(self._unfinished) < self._window
            is_row_due = has_room and n_given >= _RESULTS_BEFORE_A_ROW
            if self._started[0].done() and not is_row_due:
                n_given += 1
                yield self._started[0]
            elif has_room:
                return
            elif may_go_ahead:
                yield next_end
            else:
                yield self._started[0]

    def until_all_are_taken(self) -> Iterator[Future[SampleResult]]:
        """The results of what has started, in input order; each is to be taken."""
        while self._started:
            yield self._started[0]

    def take(self) -> None:
        """Count the next row as taken."""
        self._started.popleft()

    def end(self) -> Iterator[SampleResult]:
        """End all rows after an interrupt, and give the results that are ready.

        What does not end within two seconds, such as a judge that blocks the loop of
        all judges, is given up untold.
        """
        with suppress(TimeoutError):
            submit(self._end_tasks()).result(timeout=2 * _SECONDS_TO_END)
        for index in sorted(self.untaken):
            result = self.untaken.pop(index)
            if result.results or result.unfinished or result.problem:
                yield result

    async def _end_tasks(self) -> None:
        self._judging.interrupt()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_SECONDS_TO_END)

    def cancel(self) -> None:
        """Give up what is in flight."""
        for future in self._started:
            future.cancel()


def _uncancellable() -> Future[None]:
    """Return a future that cannot be cancelled.

    It stays the one to be told, though somebody who waits for it gives up.
    """
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future
