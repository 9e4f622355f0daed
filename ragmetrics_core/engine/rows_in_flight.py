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
"""Most rows that may have started whose results nobody has taken.

A slow row delays the results of all rows behind it, since results are given in input
order. Up to this many rows are judged meanwhile; their results wait.
"""
# Two ready results are given for each new row that starts. So the results that have
# piled up behind a slow row become fewer.
_RESULTS_BEFORE_A_ROW = 2
# Seconds that what is in flight has to end after an interrupt.
_SECONDS_TO_END = 2.0


class RowsInFlight:
    """Starts rows in input order and gives their results in input order.

    Rows may end in any order. A row that does not end keeps no other row from being
    judged, up to ``AHEAD`` rows behind it.

    A row is *finished* once it is judged. It is *taken* once the run has looked at its
    result, in input order. Only then is the result handed on to the caller of the run.

    Attributes:
        results_not_handed_on: The results of finished rows that the caller of the run
            has not got yet, by the row's index in the input. After an interrupt they
            are still given.
        _tasks: The tasks that judge rows now; an interrupt waits for them.
        _futures_not_taken: The futures of the rows that have started and are not taken,
            in input order.
        _futures_unfinished: Those of them whose rows are not finished.
        _next_end: Gets done when the next row finishes, whichever that is; then a new
            future takes its place.
    """

    def __init__(self, judging: SampleJudging, window: int) -> None:
        """Begin with no row started.

        Args:
            judging: Judges a row.
            window: Most rows that are judged at a time.
        """
        # By the row's index in the input: results that the run's caller has not got
        # yet.
        self.results_not_handed_on: dict[int, SampleResult] = {}
        self._judging = judging
        self._most_judged = window
        self._tasks: set[asyncio.Task[Any]] = set()  # each judges a row now
        # The rows that have started and whose results the run has not looked at yet, in
        # input order. They may be finished.
        self._futures_not_taken: deque[Future[SampleResult]] = deque()
        # The rows among them that are still being judged.
        self._futures_unfinished: set[Future[SampleResult]] = set()
        # Done when any row finishes; then a new future takes its place.
        self._next_end: Future[None] = _uncancellable_future()
        self._lock = threading.Lock()  # held while ``_next_end`` is replaced

    def start(
        self, index: int, row: Sample | RowError, metrics: Sequence[Metric]
    ) -> None:
        """Start judging the next row."""
        judging = self._judge(index, row, metrics)
        future = submit(judging)
        self._futures_unfinished.add(future)
        self._futures_not_taken.append(future)
        future.add_done_callback(self._note_end)

    async def _judge(
        self, index: int, row: Sample | RowError, metrics: Sequence[Metric]
    ) -> SampleResult:
        """Judge a row, and keep its result until it is taken."""
        # The task is noted here and not in `start`: where an interrupt hits `start`
        # before the row's future is stored, it must still find the row.
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._tasks.add(task)
        try:
            result = await self._judging.judge(index, row, metrics)
        finally:
            self._tasks.discard(task)
        self.results_not_handed_on[index] = result
        return result

    def _note_end(self, future: Future[SampleResult]) -> None:
        """Wake those who wait for any row to finish; called in the loop's thread."""
        self._futures_unfinished.discard(future)
        with self._lock:
            ended = self._next_end
            self._next_end = _uncancellable_future()
        ended.set_result(None)

    def futures_until_room(
        self, *, most_not_taken: int, is_over: Callable[[], bool]
    ) -> Iterator[Future[Any]]:
        """Yield futures to wait for, until one more row may start.

        The caller takes results in input order: after each future of a row it calls
        ``take``. Example: 8 rows may be judged at a time, and 8 are. If row 0 has
        finished, its future is yielded. If not, a future without a result (None) is
        yielded that is done as soon as any of the 8 has finished.

        Args:
            most_not_taken: How many rows may have started whose results the caller has
                not taken; at least as many as may be judged at a time.
            is_over: Says whether no further row shall start at all.
        """
        # First results that wait to be taken, two before each new row. So the results
        # that piled up behind a slow row become fewer.
        for _ in range(_RESULTS_BEFORE_A_ROW):
            if self._are_many_not_taken() and self._futures_not_taken[0].done():
                yield self._futures_not_taken[0]
        while not is_over():
            # Read before the check: if a row finishes during it, this future is done,
            # and waiting for it ends at once.
            any_row_finishes = self._next_end
            if self._has_room(most_not_taken):
                return
            next_result = self._futures_not_taken[0]
            yield next_result if next_result.done() else any_row_finishes

    def _are_many_not_taken(self) -> bool:
        """Whether as many rows are not taken as may be judged at a time."""
        return len(self._futures_not_taken) >= self._most_judged

    def _has_room(self, most_not_taken: int) -> bool:
        """Whether one more row may start, by how many are judged and not taken now."""
        may_be_judged = len(self._futures_unfinished) < self._most_judged
        return may_be_judged and len(self._futures_not_taken) < most_not_taken

    def futures_until_all_are_taken(self) -> Iterator[Future[SampleResult]]:
        """Yield the future of each row that has started, in input order.

        The caller calls ``take`` for each row before it asks for the next one.
        """
        while self._futures_not_taken:
            yield self._futures_not_taken[0]

    def take(self) -> None:
        """Count the next row as taken, since the run has got its result."""
        self._futures_not_taken.popleft()

    def end(self) -> Iterator[SampleResult]:
        """End all rows after an interrupt, and yield the results that nobody has taken.

        A row that does not end within a few seconds, e.g. because its judge blocks the
        event loop, is given up without a result.
        """
        with suppress(TimeoutError):
            submit(self._end_tasks()).result(timeout=2 * _SECONDS_TO_END)
        for index in sorted(self.results_not_handed_on):
            result = self.results_not_handed_on.pop(index)
            # Without any of these, all metrics were cut off before they spent anything.
            if result.results or result.unfinished or result.problem:
                yield result

    async def _end_tasks(self) -> None:
        """Cut all rows off, and wait a few seconds until they have ended."""
        self._judging.interrupt()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_SECONDS_TO_END)

    def cancel(self) -> None:
        """Give up what is in flight."""
        for future in self._futures_not_taken:
            future.cancel()


def _uncancellable_future() -> Future[None]:
    """Return a future that cannot be cancelled.

    Several callers may wait for it, and a caller that gives up would cancel it for the
    others.
    """
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future
