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
# So many results are given, where there are any, before one more row starts: so the
# results that have piled up behind a slow row become fewer.
_RESULTS_BEFORE_A_ROW = 2
# Seconds that what is in flight has to end after an interrupt.
_SECONDS_TO_END = 2.0


class RowsInFlight:
    """Starts rows in input order and gives their results in input order.

    Rows may end in any order. So a row that does not end keeps no other from being
    judged, up to ``AHEAD`` rows behind it.

    Attributes:
        results_not_taken: Results that are ready and that nobody has got yet, by
            their index.
    """

    def __init__(self, judging: SampleJudging, window: int) -> None:
        """Begin with no row started.

        Args:
            judging: What judges a row.
            window: Most rows that are judged at a time.
        """
        self.results_not_taken: dict[int, SampleResult] = {}
        self._judging = judging
        self._most_judged = window
        self._tasks: set[asyncio.Task[Any]] = set()
        # Of rows that have started and that nobody has taken, in input order.
        self._futures_not_taken: deque[Future[SampleResult]] = deque()
        # Those of them that are not done.
        self._futures_unfinished: set[Future[SampleResult]] = set()
        # Is done as soon as any of the unfinished is.
        self._next_end: Future[None] = _uncancellable_future()
        self._lock = threading.Lock()

    def start(
        self, index: int, row: Sample | RowError, metrics: Sequence[Metric]
    ) -> None:
        """Start judging the next row."""
        future = submit(self._judge(index, row, metrics))
        self._futures_unfinished.add(future)
        self._futures_not_taken.append(future)
        future.add_done_callback(self._note_end)

    async def _judge(
        self, index: int, row: Sample | RowError, metrics: Sequence[Metric]
    ) -> SampleResult:
        """Judge a row, and keep its result until it is taken."""
        # Its task is noted here and not by `start`: an interrupt may come there before
        # anything holds the row's future, and has to find the row all the same.
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._tasks.add(task)
        try:
            result = await self._judging.judge(index, row, metrics)
        finally:
            self._tasks.discard(task)
        self.results_not_taken[index] = result
        return result

    def _note_end(self, future: Future[SampleResult]) -> None:
        """Tell those who wait, in whichever thread, that a row is done."""
        self._futures_unfinished.discard(future)
        with self._lock:
            ended = self._next_end
            self._next_end = _uncancellable_future()
        ended.set_result(None)

    def futures_until_room(
        self, *, one_by_one: bool, is_over: Callable[[], bool]
    ) -> Iterator[Future[Any]]:
        """Give futures to wait for, one after the other, until one more row may start.

        The next row is the first in input order whose result nobody has taken. It may
        be slower than the rows behind it, which go on meanwhile, up to a bound.

        A future gives the result of the next row, which is to be taken. Or it gives
        None, where that row is not done and the end of any other one makes room for one
        more.

        Args:
            one_by_one: Whether the next row's result must be looked at before a row may
                start, because that result may end the run.
            is_over: Says whether no further row shall start at all.
        """
        n_given = 0
        while len(self._futures_not_taken) >= self._most_judged and not is_over():
            # Taken before anything is looked at, so that no row ends unnoticed between.
            next_end = self._next_end
            next_row = self._futures_not_taken[0]
            # AHEAD is the bound on rows that have started behind the next one
            others_may_start = not one_by_one and len(self._futures_not_taken) < AHEAD
            n_judged = len(self._futures_unfinished)
            has_room = others_may_start and n_judged < self._most_judged
            # Two results are given before a row starts, so that those that have piled
            # up become fewer.
            has_given_enough = n_given >= _RESULTS_BEFORE_A_ROW
            if has_room and (has_given_enough or not next_row.done()):
                return
            if next_row.done():
                n_given += 1
                yield next_row
            elif others_may_start:
                yield next_end
            else:
                yield next_row

    def futures_until_all_are_taken(self) -> Iterator[Future[SampleResult]]:
        """Give the futures of all rows that have started, in input order.

        Each result is to be taken before the next one is asked for.
        """
        while self._futures_not_taken:
            yield self._futures_not_taken[0]

    def take(self) -> None:
        """Count the next row as taken: its result has been given."""
        self._futures_not_taken.popleft()

    def end(self) -> Iterator[SampleResult]:
        """End all rows after an interrupt, and give the results that are ready.

        What does not end within two seconds, such as a judge that blocks the loop of
        all judges, is given up, and nothing is said of it.
        """
        with suppress(TimeoutError):
            submit(self._end_tasks()).result(timeout=2 * _SECONDS_TO_END)
        for index in sorted(self.results_not_taken):
            result = self.results_not_taken.pop(index)
            # A row whose metrics were all cut off before they spent anything says
            # nothing.
            if result.results or result.unfinished or result.problem:
                yield result

    async def _end_tasks(self) -> None:
        """Cut the rows off, and wait until they have ended."""
        self._judging.interrupt()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_SECONDS_TO_END)

    def cancel(self) -> None:
        """Give up what is in flight."""
        for future in self._futures_not_taken:
            future.cancel()


def _uncancellable_future() -> Future[None]:
    """Return a future that cannot be cancelled.

    Several may wait for it; one that gives up must not end the wait of the others.
    """
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future
