"""The rows of a run in flight: which may start, in which order results are given, and what an interrupt leaves."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from ragmetrics_core import (
    Sample,
    ScriptedJudge,
    aevaluate,
    evaluate,
    iter_results,
    metric,
)
from ragmetrics_core.data.replies import Usage
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.engine.loop import run as wait_for
from ragmetrics_core.engine.loop import submit
from ragmetrics_core.engine.rows_in_flight import AHEAD, RowsInFlight


class JudgingByHand:
    """Stands in for what judges rows: a row ends when the test says so, with the result that the test gives."""

    def __init__(self) -> None:
        self.open: dict[int, asyncio.Future[SampleResult]] = {}
        self.at_interrupt: dict[int, SampleResult] = {}
        self.left: list[int] = []

    async def judge(self, index: int, row: Any, metrics: Any) -> SampleResult:
        self.open[index] = asyncio.get_running_loop().create_future()
        try:
            return await self.open[index]
        except asyncio.CancelledError:
            self.left.append(index)
            raise
        finally:
            del self.open[index]

    def interrupt(self) -> None:
        for index, result in self.at_interrupt.items():
            self.open[index].set_result(result)


class ByHand:
    """Rows in flight, of which the test starts and ends one after the other."""

    def __init__(self, window: int) -> None:
        self.judging = JudgingByHand()
        self.rows = RowsInFlight(self.judging, window)  # type: ignore[arg-type]  # a stand-in
        self.n_started = 0
        self.n_taken = 0

    @property
    def open(self) -> list[int]:
        """The rows that have started and not ended, in order."""
        wait_for(_turns())
        return sorted(self.judging.open)

    @property
    def n_ahead(self) -> int:
        """How many rows have started and are not taken."""
        return self.n_started - self.n_taken

    def start(self) -> None:
        index = self.n_started
        self.rows.start(index, Sample(id=str(index)), [])
        self.n_started += 1

    def end(self, index: int) -> None:
        result = SampleResult(index=index, sample=None, problem=f"row {index}")
        wait_for(self._end(index, result))

    async def _end(self, index: int, result: SampleResult) -> None:
        await _turns()
        self.judging.open[index].set_result(result)
        await _turns()

    def take(self, future: Future[Any]) -> SampleResult:
        """Take a result as a run does."""
        result: SampleResult = future.result(0)
        self.rows.take()
        del self.rows.results_not_handed_on[result.index]
        self.n_taken += 1
        return result


async def _turns() -> None:
    """Let all who are ready on the judges' loop have their turns."""
    for _ in range(8):
        await asyncio.sleep(0)


def never() -> bool:
    return False


@settings(max_examples=examples(60), deadline=None)
@given(
    window=st.integers(1, 5),
    ahead=st.integers(1, 12),
    count=st.integers(0, 30),
    one_by_one=st.booleans(),
    last_before_over=st.integers(0, 40),
    draws=st.data(),
)
def test_rows_are_given_in_order_and_as_many_go_on_as_there_is_room_for(
    window: int,
    ahead: int,
    count: int,
    one_by_one: bool,
    last_before_over: int,
    draws: st.DataObject,
) -> None:
    """Whichever row ends next: no row is lost, none waits while there is room, and there is never more than room."""
    ahead = max(ahead, window)
    rows = ByHand(window)
    given_rows: list[int] = []

    def is_over() -> bool:
        return rows.n_started > last_before_over

    def has_room() -> bool:
        """Whether one more row may start, as far as there are slots and places behind a slow row."""
        may_go_ahead = not one_by_one and rows.n_ahead < ahead
        return may_go_ahead and len(rows.open) < window

    def until_done(future: Future[Any], *, wants_room: bool) -> None:
        """End one row after another, in any order, until a consumer that waits for it goes on."""
        while not future.done():
            assert not (wants_room and has_room()), "a row waits although there is room"
            rows.end(draws.draw(st.sampled_from(rows.open)))

    for _ in range(count):
        if is_over():
            break
        rows.start()
        for _ in range(draws.draw(st.integers(0, 2))):  # some end early
            if rows.open:
                rows.end(draws.draw(st.sampled_from(rows.open)))
        n_ready_given = 0
        for future in rows.rows.futures_until_room(
            most_not_taken=window if one_by_one else ahead, is_over=is_over
        ):
            assert rows.n_ahead >= window, "nothing waits below the window"
            if future.done():
                assert not (has_room() and n_ready_given >= 2), "a row is due"
                n_ready_given += 1
            else:
                until_done(future, wants_room=True)
            if future.result(0) is not None:
                given_rows.append(rows.take(future).index)
        if not is_over():
            assert len(rows.open) < window or rows.n_ahead < window
            assert rows.n_ahead < (window if one_by_one else ahead)
    for future in rows.rows.futures_until_all_are_taken():
        until_done(future, wants_room=False)
        given_rows.append(rows.take(future).index)
    assert given_rows == list(range(rows.n_started))
    assert rows.rows.results_not_handed_on == {}
    assert rows.n_started == min(count, last_before_over + 1)


def test_a_row_that_finishes_while_room_is_sought_is_not_missed() -> None:
    """Else a slot stays empty until another row finishes, which may never be."""
    rows = ByHand(window=2)
    rows.start()
    rows.start()

    def row_1_finishes_now() -> bool:
        if 1 in rows.open:
            rows.end(1)
        return False

    for future in rows.rows.futures_until_room(
        most_not_taken=AHEAD, is_over=row_1_finishes_now
    ):
        assert future.done()
    rows.end(0)


def test_two_results_are_given_before_a_row_although_there_is_room_for_it() -> None:
    rows = ByHand(window=2)
    for index in range(6):
        rows.start()
        rows.end(index)
    given_rows = []
    for future in rows.rows.futures_until_room(most_not_taken=AHEAD, is_over=never):
        given_rows.append(rows.take(future).index)
    assert given_rows == [0, 1]


def test_what_waits_behind_a_slow_row_becomes_less_but_keeps_no_slot_empty() -> None:
    """Two results are given for each row that starts, also if there was no room when the second was given."""
    rows = ByHand(window=2)
    for index in range(8):
        rows.start()
        if index:
            rows.end(index)
    rows.start()  # row 8: row 0 and row 8 are in flight, 1 to 7 wait
    rows.end(0)
    rows.start()  # row 9: both slots are taken
    given_rows = []
    for future in rows.rows.futures_until_room(most_not_taken=AHEAD, is_over=never):
        given_rows.append(rows.take(future).index)
        if len(given_rows) == 4:  # a row ends while results are given
            rows.end(9)
    assert given_rows == [0, 1, 2, 3]


def test_an_interrupt_gives_what_is_done_or_was_paid_in_input_order() -> None:
    rows = ByHand(window=8)
    for _ in range(6):
        rows.start()
    rows.end(4)
    rows.end(1)
    paid = SampleResult(index=3, sample=None, unfinished=Usage(calls=1))
    nothing = SampleResult(index=2, sample=None)
    wait_for(_turns())
    rows.judging.at_interrupt = {3: paid, 2: nothing}
    result_of_0 = SampleResult(index=0, sample=None, problem="row 0")
    rows.judging.at_interrupt[0] = result_of_0
    # row 5 does not end: it is given up, and nobody waits for ever
    began = time.monotonic()
    results = list(rows.rows.end())
    assert time.monotonic() - began >= 1.5, "what is in flight has time to end"
    assert [result.index for result in results] == [0, 1, 3, 4]
    assert results[2].unfinished == Usage(calls=1)
    assert rows.rows.results_not_handed_on == {}
    rows.rows.cancel()
    assert rows.open == []
    assert rows.judging.left == [5]


def test_an_interrupt_of_nothing_gives_nothing_at_once() -> None:
    rows = ByHand(window=2)
    rows.start()
    rows.end(0)
    for future in rows.rows.futures_until_all_are_taken():
        rows.take(future)
    began = time.monotonic()
    assert list(rows.rows.end()) == []
    assert time.monotonic() - began < 1.5


def test_an_interrupt_while_the_loop_of_all_judges_is_blocked_comes_to_an_end() -> None:
    """A chat model of a user's own may block that loop: what is ready is given all the same."""
    rows = ByHand(window=2)
    rows.start()
    rows.start()
    rows.end(0)
    released = threading.Event()

    async def block() -> None:
        released.wait(20)

    blocking = submit(block())
    try:
        results = list(rows.rows.end())
    finally:
        released.set()
        blocking.result(20)
    assert [result.index for result in results] == [0]
    rows.rows.cancel()
    assert rows.open == []


def test_a_row_that_is_given_up_is_no_longer_in_flight() -> None:
    rows = ByHand(window=2)
    rows.start()
    rows.start()
    assert rows.open == [0, 1]
    rows.rows.cancel()
    assert rows.open == []
    assert sorted(rows.judging.left) == [0, 1]


# The same through the public interfaces


def numbered(count: int) -> Iterator[Sample]:
    return (Sample(answer=str(number)) for number in range(count))


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("how", ["evaluate", "aevaluate", "iter_results"])
def test_at_most_two_rows_per_slot_are_judged_at_a_time(
    concurrency: int, how: str
) -> None:
    window = 2 * concurrency
    lock, window_is_full = threading.Lock(), threading.Event()
    one_too_many = threading.Event()
    first_ends = threading.Event()
    begun: list[str | None] = []

    @metric(requires=["answer"])
    def held(sample: Sample) -> bool:
        """Whether the window is filled, and no more starts while the first row of it goes on."""
        with lock:
            begun.append(sample.answer)
            n_begun = len(begun)
        if n_begun == window:
            window_is_full.set()
        if n_begun > window and not first_ends.is_set():
            one_too_many.set()
        if not window_is_full.wait(20):
            return False
        if n_begun > 1:
            return first_ends.wait(20)
        is_one_too_many = one_too_many.wait(0.1)
        first_ends.set()
        return not is_one_too_many

    options: dict[str, Any] = {
        "judge": ScriptedJudge({}),
        "concurrency": concurrency,
        "progress": False,
    }
    if how == "aevaluate":
        results: Any = asyncio.run(aevaluate(numbered(20), held, **options)).results
    elif how == "evaluate":
        results = evaluate(numbered(20), held, **options).results
    else:
        results = list(iter_results(numbered(20), held, **options))
    assert [row.results["held"].value for row in results] == [1.0] * 20
    assert sorted(map(str, begun)) == sorted(map(str, range(20)))


def test_an_async_run_that_is_left_leaves_no_row_and_no_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever waits may be cancelled: what the rows tell them by is not."""
    released, begun = threading.Event(), threading.Semaphore(0)

    @metric(requires=["answer"])
    def waiting(sample: Sample) -> bool:
        begun.release()
        return released.wait(20)

    async def leave() -> None:
        task = asyncio.create_task(
            aevaluate(
                numbered(10), waiting, judge=ScriptedJudge({}), concurrency=1
            )  # two rows start, and neither ends
        )
        await asyncio.to_thread(begun.acquire)
        await asyncio.to_thread(begun.acquire)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    released.set()
    wait_for(_turns())
    assert [record.getMessage() for record in caplog.records] == []
    assert not begun.acquire(timeout=0.05), "no further row starts"
