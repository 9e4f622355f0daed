"""One run: metrics with their judges, samples in flight, results in input order and in bounded memory."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Future
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any

from ragmetrics_core.data.errors import JudgeUnavailable, LimitReached, RowError, SettingError
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints.chat import ChatModel
from ragmetrics_core.endpoints.limits import Allowance, Limits
from ragmetrics_core.endpoints.store import ReplyStore, StoreLike, resolve_store
from ragmetrics_core.engine.carrying import Room, Seat, carry_out
from ragmetrics_core.engine.loop import submit
from ragmetrics_core.engine.progress import Display, Progress
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.engine.tables import Samples, each_sample, warn_of_doubles
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.metric import Metric, Outcome
from ragmetrics_core.metrics.registry import chosen
from ragmetrics_core.reporting.run_facts import Audit, RunFacts

Metrics = Iterable[Metric | str] | Metric | str | None
JudgeLike = Judge | ChatModel | str | None
Show = bool | Callable[[Progress], None] | None

_AHEAD = 32  # questions that wait for a slot, between two attempts, or for their reply to be read
_POOL = 64  # samples that metrics look at which need others


class Run:
    """One run: metrics with their judges' sessions, and the samples in flight.

    Args:
        metrics: Metrics and names of metrics; None for all.
        judge: Judge of every metric that names none; see ``resolve_judge``.
        concurrency: Most model calls in flight per judge.
        store: Where replies are kept; see ``resolve_store``.
        limits: What the run may spend; None for no limit.

    Raises:
        SettingError: If a setting is invalid.
    """

    def __init__(
        self, metrics: Metrics, judge: JudgeLike, concurrency: int, store: StoreLike, limits: Limits | None = None
    ) -> None:
        if concurrency < 1:
            raise SettingError(f"concurrency must be at least 1, got {concurrency}")
        self.metrics = chosen(metrics)
        self.concurrency = concurrency
        self.interrupted = False
        self.audit: Audit | None = None
        self._before: tuple[Sample, ...] = ()
        self._started = time.monotonic()
        self._date = datetime.now(UTC).isoformat(timespec="seconds")
        self._store = resolve_store(store)
        self._allowance = Allowance(limits)
        self._room = Room(concurrency + max(_AHEAD, concurrency // 8))
        self._seats = self._seated(judge, self._store)

    def _seated(self, judge: JudgeLike, store: ReplyStore) -> dict[str, Seat]:
        """One session per distinct judge, shared by the metrics that use it."""
        by_model: dict[str | None, Seat] = {}
        for metric in self.metrics:
            model = metric.model if judge is None else None
            if model not in by_model:
                session = resolve_judge(judge, metric_model=model).session(
                    concurrency=self.concurrency, store=store, allowance=self._allowance
                )
                by_model[model] = Seat(session, self._room)
        return {metric.name: by_model[metric.model if judge is None else None] for metric in self.metrics}

    @property
    def stopped(self) -> str:
        """Why not everything was judged: a limit, a judge that refuses, an interrupt; "" if nothing ended the run."""
        refusing = (seat.unavailable for seat in self._seats.values())
        error = self._allowance.reached or next(filter(None, refusing), None)
        return str(error) if error is not None else "it was interrupted" if self.interrupted else ""

    @property
    def facts(self) -> RunFacts:
        """What is known of the run so far."""
        return RunFacts(
            version=_version(),
            judges=tuple(dict.fromkeys(seat.judge.name for seat in self._seats.values())),
            metrics={metric.name: metric.signature for metric in self.metrics},
            started=self._date,
            seconds=round(time.monotonic() - self._started, 3),
            concurrency=self.concurrency,
            interrupted=self.interrupted,
            audit=self.audit,
            stopped=self.stopped,
        )

    def start(self, items: Iterable[Sample | RowError]) -> Iterator[Future[SampleResult]]:
        """Start samples as they are consumed; each future gives one sample's results."""
        iterator = iter(items)
        pool = list(islice(iterator, _POOL))
        samples = [item for item in pool if isinstance(item, Sample)]
        self.metrics = [metric.prepare(samples) for metric in self.metrics]
        for index, item in enumerate(chain(pool, iterator)):
            if self._allowance.reached is not None:
                return
            yield submit(self._judge(index, item, self.metrics))

    def follow(self, index: int, sample: Sample) -> Future[SampleResult]:
        """Start judging a sample of a stream without end; metrics that need others take those before it."""
        metrics = [metric.prepare(self._before) for metric in self.metrics]
        if any(metric.needs_others for metric in self.metrics):
            self._before = (*self._before, sample)[-_POOL:]
        return submit(self._judge(index, sample, metrics))

    async def _judge(self, index: int, item: Sample | RowError, metrics: Sequence[Metric]) -> SampleResult:
        if isinstance(item, RowError):
            return SampleResult(index=index, sample=None, problem=str(item))
        outcomes = await self._room.enter(
            lambda: (carry_out(metric, item, self._seats[metric.name]) for metric in metrics)
        )
        named = {metric.name: outcome for metric, outcome in zip(metrics, outcomes, strict=True)}
        spent = sum((outcome.usage for outcome in outcomes if _cut(outcome)), Usage())
        return SampleResult(
            index=index,
            sample=item,
            results={name: outcome for name, outcome in named.items() if not _cut(outcome)},
            unfinished=spent if spent != Usage() else None,
        )

    def check(self) -> None:
        """End the run if a judge has never answered and says that it never will.

        Raises:
            JudgeUnavailable: With the judge's own sentence.
        """
        for seat in self._seats.values():
            if seat.answered:
                continue
            if seat.unavailable is not None and not isinstance(seat.unavailable, LimitReached):
                raise seat.unavailable
            if seat.unreachable is not None:  # all attempts of the first question failed: a wrong address
                raise JudgeUnavailable(str(seat.unreachable)) from seat.unreachable

    def finish(self) -> None:
        """Have every reply on disk, where the store has one."""
        self._store.flush()

    @property
    def window(self) -> int:
        """Most samples in flight, so that memory is bounded while every call slot is used."""
        return 2 * self.concurrency


def stream(run: Run, samples: Samples, *, progress: Show, columns: Mapping[str, Any]) -> Iterator[SampleResult]:
    """Yield the results of a run in input order; an interrupt yields what is done and marks the run."""
    waiting: deque[Future[SampleResult]] = deque()
    started = run.start(warn_of_doubles(each_sample(samples, columns)))
    with Display(len(samples) if isinstance(samples, Sized) else None, progress) as display:
        try:
            exhausted = False
            while not exhausted or waiting:
                while not exhausted and len(waiting) < run.window:
                    future = next(started, None)
                    exhausted = future is None
                    if future is not None:
                        waiting.append(future)
                if waiting:
                    result = waiting[0].result()
                    waiting.popleft()
                    run.check()
                    display.add(result)
                    yield result
        except KeyboardInterrupt:
            run.interrupted = True
            yield from _finished(waiting, display)
        finally:
            for future in waiting:
                future.cancel()
            run.finish()


def _finished(waiting: deque[Future[SampleResult]], display: Display) -> Iterator[SampleResult]:
    """Results that were complete when the run was interrupted."""
    done = [future for future in waiting if future.done() and not future.cancelled()]
    for future in waiting:
        future.cancel()
    waiting.clear()
    for future in done:
        result = future.result()
        display.add(result)
        yield result


async def astream(
    run: Run, samples: Samples, *, progress: Show, columns: Mapping[str, Any]
) -> AsyncIterator[SampleResult]:
    """Yield the results of a run in input order, without blocking the caller's event loop."""
    waiting: deque[Future[SampleResult]] = deque()
    with Display(len(samples) if isinstance(samples, Sized) else None, progress) as display:
        try:
            for future in run.start(warn_of_doubles(each_sample(samples, columns))):
                waiting.append(future)
                while len(waiting) >= run.window:
                    yield await _next(run, waiting, display)
            while waiting:
                yield await _next(run, waiting, display)
        finally:
            for future in waiting:
                future.cancel()
            await asyncio.to_thread(run.finish)  # another process may hold the file's lock for a while


async def _next(run: Run, waiting: deque[Future[SampleResult]], display: Display) -> SampleResult:
    result = await asyncio.wrap_future(waiting[0])
    waiting.popleft()
    run.check()
    display.add(result)
    return result


def _cut(outcome: Outcome) -> bool:
    """True for a metric that a limit of the run kept from its end: it is reported as not judged."""
    return outcome.status == "failed" and outcome.error.type == LimitReached.__name__


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # 20 ms that an import need not pay

    try:
        return version("ragmetrics-core")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"
