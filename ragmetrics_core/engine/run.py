"""One run: metrics with their judges, and samples in flight.

Results come in input order and in bounded memory.
"""

import asyncio
import platform
import sys
import threading
import time
from collections import deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Sized,
)
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal, cast

from ragmetrics_core.data import (
    JudgeUnavailable,
    LimitReached,
    MetricResult,
    RowError,
    Sample,
    SampleResult,
    SettingError,
    Usage,
)
from ragmetrics_core.engine.loop import run as wait_for
from ragmetrics_core.engine.loop import submit
from ragmetrics_core.engine.progress import Display, Progress
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.engine.sample_sources import Samples, each_sample, warn_of_doubles
from ragmetrics_core.engine.scoring import RunJudge, carry_out, prepared, was_cut_off
from ragmetrics_core.judging.judge import Judge, check_judge
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.registry import chosen
from ragmetrics_core.models.chat import ChatModel, check_prices
from ragmetrics_core.models.limits import Budget, Limits
from ragmetrics_core.models.reply_store import ReplyStore, StoreLike, resolve_store
from ragmetrics_core.reporting.gates import Gate, Until, UntilDecided
from ragmetrics_core.reporting.run_facts import RunFacts

if TYPE_CHECKING:
    from ragmetrics_core.scale.batches import ParkingStore
    from ragmetrics_core.sequential.until import Decider

Metrics = Iterable[Metric | str] | Metric | str | None
JudgeLike = Judge | ChatModel | str | None
Show = bool | Callable[[Progress], None] | None

_PACKAGES_BY_MODULE = {
    "litellm": "litellm",
    "langchain_core": "langchain-core",
    "llama_index.core": "llama-index-core",
    "haystack": "haystack-ai",
}
# Questions beyond those in flight that may be open: they wait for a slot, between two
# attempts, or for their reply to be read.
_MIN_QUESTIONS_AHEAD = 32
# Seconds that what is in flight has to end after an interrupt.
_SECONDS_TO_END = 2.0
POOL = 64  # samples that metrics look at which need others
AHEAD = 1024
"""Most rows behind the next one to give that have started.

Those that are done wait as results.
"""
# Results that are given, where there are any, before one more row starts: so what waited
# behind a slow row becomes less.
_RESULTS_BEFORE_A_ROW = 2


class Run:
    """One run: metrics with their judges' sessions, and samples in flight.

    Arguments and errors are those of ``evaluate``.
    """

    def __init__(
        self,
        metrics: Metrics,
        judge: JudgeLike,
        concurrency: int,
        store: StoreLike,
        limits: Limits | Budget | None = None,
        *,
        until: Until = None,
        gates: Sequence[Gate | str] | str = (),
        batch: bool = False,
    ) -> None:
        if concurrency < 1:
            raise SettingError(f"concurrency must be at least 1, got {concurrency}")
        self._budget = limits if isinstance(limits, Budget) else Budget(limits)
        _check_settings(self._budget.limits, batch=batch, until=until, gates=gates)
        self.metrics = chosen(metrics)
        self.concurrency = concurrency
        # Most samples in flight: memory is bounded, and every call slot is used.
        self.window = 2 * concurrency
        self.interrupted = False
        # why the samples themselves are no more than a part; "" if they are all
        self.why_part = ""
        self._models: set[str] = set()
        self._samples_before: tuple[Sample, ...] = ()
        self._started = time.monotonic()
        self._date = datetime.now(UTC).isoformat(timespec="seconds")
        # Rows that are judged and that nobody has got yet, by their index.
        self.untaken: dict[int, SampleResult] = {}
        self._in_flight: set[asyncio.Task[Any]] = set()
        # Rows that have started and that nobody has taken; those that are not done.
        self._waiting: deque[Future[SampleResult]] = deque()
        self._unfinished: set[Future[SampleResult]] = set()
        # Is done as soon as any of the unfinished is.
        self._next_end: Future[None] = _uncancellable()
        self._lock = threading.Lock()
        # Samples come in one after the other.
        self._door = asyncio.Lock()

        judge_by_metric = {
            metric.name: self._judge_name(metric, judge) for metric in self.metrics
        }
        judge_by_name = {
            name: resolve_judge(judge, metric_model=name)
            for name in judge_by_metric.values()
        }
        self.judges = list(judge_by_name.values())
        for given_judge in self.judges:
            check_judge(given_judge)
        self._chat_models = [
            model for given_judge in self.judges for model in given_judge.models
        ]
        for model in self._chat_models:
            _check_prices_stated(model)

        self.store = resolve_store(store)
        self.parking: ParkingStore | None = None
        if batch:
            self.store = self.parking = _parking_store(
                self.store, self._chat_models, self._budget
            )
        n_ahead = max(_MIN_QUESTIONS_AHEAD, concurrency // 8)
        self._slots = asyncio.Semaphore(concurrency + n_ahead)
        judge_of_run_by_name = {
            name: self._judge_of_run(given_judge)
            for name, given_judge in judge_by_name.items()
        }
        self._judges = {
            metric_name: judge_of_run_by_name[judge_name]
            for metric_name, judge_name in judge_by_metric.items()
        }
        self._check_signatures()
        self.decider: Decider | None = None
        if until is not None:
            sessions = [judge.session for judge in judge_of_run_by_name.values()]
            addresses = {session.name: _addresses(session) for session in sessions}
            self.decider = _decider(until, gates, self.metrics, addresses)

    @staticmethod
    def _judge_name(metric: Metric, judge: JudgeLike) -> str | None:
        """The name of the metric's own model, where no judge is given for all."""
        return metric.model if judge is None else None

    def _judge_of_run(self, judge: Judge) -> RunJudge:
        session = judge.session(
            concurrency=self.concurrency, store=self.store, budget=self._budget
        )
        check_judge(session)
        return RunJudge(session, self._slots, self._budget)

    def check_prices(self) -> None:
        """Refuse a cap on money where nobody knows what a call costs.

        It is refused by ``SettingError``.
        """
        if self._budget.limits.max_cost is None:
            return
        for model in self._chat_models:
            wait_for(model.prepare())
            if model.prices() is None:
                raise SettingError(
                    f"the price of {model.name} is not known, so max_cost cannot be"
                    " held: limit max_calls instead, or evaluate from Python with a"
                    " model that is given prices="
                )

    def _check_signatures(self) -> None:
        """Check that every metric and judge can say what its settings are.

        If one cannot, the run ends before anything is paid.
        """
        for metric in self.metrics:
            self._judges[metric.name].signature_of(metric)

    @property
    def stopped(self) -> str:
        """Why not everything was judged; empty if nothing ended the run.

        It is a limit, a judge that refuses, an interrupt, or batches on their way.
        """
        if self.parking is not None and self.waiting:
            return self.parking.said
        if self._budget.sentence:
            return str(self._budget.sentence)
        for judge in self._judges.values():
            if judge.unavailable is not None:
                return str(judge.unavailable)
        return "it was interrupted" if self.interrupted else self.why_part

    @property
    def facts(self) -> RunFacts:
        """What is known of the run so far."""
        packages = {"python": platform.python_version()}
        for module, package in _PACKAGES_BY_MODULE.items():
            if module in sys.modules:
                packages[package] = _version(package)
        details = {
            judge.session.name: judge.session.details for judge in self._judges.values()
        }
        addresses = {judge.name: _addresses(judge) for judge in self.judges}
        return RunFacts(
            version=_version("ragmetrics-core"),
            packages=packages,
            models=tuple(sorted(self._models)),
            judges=tuple(details),
            details=details,
            addresses={name: known for name, known in addresses.items() if known},
            metrics={metric.name: metric.signature for metric in self.metrics},
            started=self._date,
            seconds=round(time.monotonic() - self._started, 3),
            concurrency=self.concurrency,
            interrupted=self.interrupted,
            stopped=self.stopped,
            notes=(self.decider.note,) if self.decider else (),
            decisions=self.decider.decisions if self.decider else (),
        )

    def due(
        self,
        samples: Samples,
        columns: Mapping[str, Any],
        *,
        widened: Callable[[int], None],
    ) -> Iterator[Future[Any]]:
        """Start as many samples as may be in flight, and give what is to be waited for.

        That is the ``SampleResult`` of the next row, which is to be taken; or None,
        where that row is not done and the end of another one leaves room for more: one
        row that does not end keeps no other from being judged.

        ``widened`` is told of each row that holds several samples how many more than
        one.
        """
        self.why_part = self.why_part or getattr(samples, "why_part", "")
        if self.why_part and self.decider is not None:
            raise SettingError(
                "no gate can be decided on a part of the samples while the run goes on:"
                f" {self.why_part}; give the rows that it was made of"
            )
        rows = warn_of_doubles(each_sample(samples, columns, widened=widened))
        numbered_rows: Iterator[tuple[int, Sample | RowError]] = enumerate(rows)
        if self.decider is not None:
            is_listed = isinstance(samples, Sized)
            numbered_rows = self.decider.drawn(rows, listed=is_listed)
        self.untaken.clear()
        pool = list(islice(numbered_rows, POOL))
        pool_samples = [row for _, row in pool if isinstance(row, Sample)]
        self.metrics = [prepared(metric, pool_samples) for metric in self.metrics]
        self._check_signatures()
        for index, row in chain(pool, numbered_rows):
            is_decided = self.decider is not None and self.decider.done
            if self._over or is_decided:
                break
            self._start(index, row)
            yield from self._until_room()
        while self._waiting:
            yield self._waiting[0]

    def _start(self, index: int, row: Sample | RowError) -> None:
        future = submit(self._row(index, row))
        self._unfinished.add(future)
        self._waiting.append(future)
        future.add_done_callback(self._ended)

    def _ended(self, future: Future[SampleResult]) -> None:
        """Tell who waits, in whichever thread, that a row is done."""
        self._unfinished.discard(future)
        with self._lock:
            ended, self._next_end = self._next_end, _uncancellable()
        ended.set_result(None)

    def _until_room(self) -> Iterator[Future[Any]]:
        """What is to be waited for until one more row may start."""
        n_given = 0
        while len(self._waiting) >= self.window and not self._over:
            # before looking: what ends from here on is not missed
            next_end = self._next_end
            # A decision may end the run: no row that it may not need starts before the
            # next one is looked at.
            may_go_ahead = self.decider is None and len(self._waiting) < AHEAD
            has_room = may_go_ahead and len(self._unfinished) < self.window
            is_row_due = has_room and n_given == _RESULTS_BEFORE_A_ROW
            if self._waiting[0].done() and not is_row_due:
                n_given += 1
                yield self._waiting[0]
            elif has_room:
                return
            elif may_go_ahead:
                yield next_end
            else:
                yield self._waiting[0]

    @property
    def _over(self) -> bool:
        """True if no further row shall start.

        That is so if a cap is reached, or a judge has only ever refused.
        """
        if self._budget.remaining == 0.0:
            self._budget.expire()
        return self._budget.reached is not None or self._refused is not None

    @property
    def _refused(self) -> JudgeUnavailable | None:
        """Why a judge that never answered says that it never will.

        None if there is no such judge.
        """
        for judge in self._judges.values():
            error = judge.unavailable
            is_refusal = error is not None and not isinstance(error, LimitReached)
            if is_refusal and not judge.answered:
                return error
        return None

    def take(self, result: SampleResult) -> SampleResult:
        """Take a due result.

        Raises:
            JudgeUnavailable: If a judge has never answered and says that it never will,
                with its own sentence. Where other calls of the run were paid, the run
                ends with what is done instead.
        """
        self._waiting.popleft()
        was_paid = any(judge.paid for judge in self._judges.values())
        if self._refused is not None and not was_paid:
            raise self._refused
        if self.decider is not None:
            self.decider.take(result)
        return result

    def interrupt(self) -> Iterator[SampleResult]:
        """End the run before its rows are done.

        Of what was in flight, give what is done and what the rest cost.

        What does not end within two seconds, such as a judge that blocks the loop of
        all judges, is given up untold.
        """
        self.interrupted = True
        with suppress(TimeoutError):
            submit(self._end_rows()).result(timeout=2 * _SECONDS_TO_END)
        for index in sorted(self.untaken):
            result = self.untaken.pop(index)
            if result.results or result.unfinished or result.problem:
                yield result

    async def _end_rows(self) -> None:
        self._budget.interrupt()
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=_SECONDS_TO_END)

    def give_up(self) -> None:
        """End what is in flight."""
        for future in self._waiting:
            future.cancel()

    @property
    def waiting(self) -> bool:
        """True if batches are to answer what the run asked."""
        return (
            self.parking is not None
            and bool(self.parking.waiting)
            and not self.interrupted
        )

    async def in_time(self, work: Awaitable[object]) -> None:
        """Do work for the whole run, up to its deadline.

        At the deadline the work is given up, and the run says why it ended.
        """
        with suppress(LimitReached):
            async with self._budget.in_time():
                await work

    def waited(self, wait: bool) -> bool:
        """True if the samples are to be gone through again.

        They are gone through after batches have ended, if told to ``wait``, or live.
        """
        if self.parking is None or not self.waiting:
            return False
        if self.parking.small:
            return True
        return wait and wait_for(self.parking.wait())

    def follow(self, index: int, sample: Sample) -> Future[SampleResult]:
        """Start judging a sample of a stream without end.

        Metrics that need others take those before it.
        """
        metrics = [prepared(metric, self._samples_before) for metric in self.metrics]
        if any(metric.needs_others for metric in self.metrics):
            self._samples_before = (*self._samples_before, sample)[-POOL:]
        return submit(self._judge(index, sample, metrics))

    async def _row(self, index: int, row: Sample | RowError) -> SampleResult:
        """Judge a row of the table.

        An interrupt finds the row here, even if it came before anybody held the row's
        future.
        """
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._in_flight.add(task)
        try:
            result = await self._judge(index, row, self.metrics)
        finally:
            self._in_flight.discard(task)
        self.untaken[index] = result
        return result

    async def _judge(
        self, index: int, row: Sample | RowError, metrics: Sequence[Metric]
    ) -> SampleResult:
        if isinstance(row, RowError):
            return SampleResult(index=index, sample=None, problem=str(row))
        # Samples come in one after the other, while no question waits for a slot.
        async with asyncio.TaskGroup() as group, self._door:
            async with self._slots:
                tasks = {
                    metric.name: group.create_task(
                        carry_out(metric, row, self._judges[metric.name])
                    )
                    for metric in metrics
                }
            await asyncio.sleep(0)  # their first questions stand before the next sample
        results: dict[str, MetricResult] = {}
        unfinished = Usage()
        for name, task in tasks.items():
            outcome = task.result()
            self._models.update(outcome.usage.models)
            if was_cut_off(outcome):
                unfinished += outcome.usage
            else:
                results[name] = outcome
        return SampleResult(
            index=index,
            sample=row,
            results=results,
            unfinished=unfinished if unfinished != Usage() else None,
        )


def _check_settings(
    limits: Limits, *, batch: bool, until: Until, gates: Sequence[Gate | str] | str
) -> None:
    """Refuse, by ``SettingError``, settings that do not go together."""
    if limits.max_live and not batch:
        raise SettingError(
            "max_live belongs to runs in batches: add batch=True (--batch), or"
            " leave it out"
        )
    if batch and (until is not None or limits.per_minute):
        raise SettingError(
            "batches know neither until= nor limits per minute: leave them out"
        )
    if gates and until is None:
        raise SettingError(
            'gates= end a run until="decided"; of a run over all rows ask'
            " decide(gate, report)"
        )


def _parking_store(
    store: ReplyStore, models: Sequence[ChatModel], budget: Budget
) -> "ParkingStore":
    """Where requests of a run in batches wait: the wing is asked for only then."""
    from ragmetrics_core.scale.batches import ParkingStore

    return ParkingStore(store, models, budget)


def _decider(
    until: UntilDecided | Literal["decided"],
    gates: Sequence[Gate | str] | str,
    metrics: Sequence[Metric],
    addresses: Mapping[str, tuple[str, ...]],
) -> "Decider":
    """What ends a run until decided: the wing is asked for only then."""
    from ragmetrics_core.sequential.until import Decider

    return Decider(until, gates, metrics, addresses)


def stream(
    run: Run, samples: Samples, *, progress: Show, columns: Mapping[str, Any]
) -> Iterator[SampleResult]:
    """Yield the results of a run in input order.

    An interrupt yields what is done or was paid, and marks the run.
    """
    with Display(_length(samples), progress) as display:
        try:
            if run.parking is not None:
                wait_for(run.in_time(run.parking.look()))
            for future in run.due(samples, columns, widened=display.widen):
                due_result: SampleResult | None = future.result()
                if due_result is None:  # another row than the next one is done
                    continue
                result = display.add(run.take(due_result))
                index = result.index
                # No statement stands between these two, where an interrupt could come.
                del run.untaken[index]
                yield result
            if run.parking is not None:
                wait_for(run.in_time(run.parking.submit()))
        except KeyboardInterrupt:
            for result in run.interrupt():
                yield display.add(result)
        finally:
            run.give_up()
            run.store.flush()


async def astream(
    run: Run, samples: Samples, *, progress: Show, columns: Mapping[str, Any]
) -> AsyncIterator[SampleResult]:
    """Yield the results of a run in input order.

    The caller's event loop is not blocked.
    """
    with Display(_length(samples), progress) as display:
        try:
            for future in run.due(samples, columns, widened=display.widen):
                due_result: SampleResult | None = await asyncio.wrap_future(future)
                if due_result is None:  # another row than the next one is done
                    continue
                result = display.add(run.take(due_result))
                del run.untaken[result.index]
                yield result
        finally:
            run.give_up()
            # another process may hold the file's lock for a while
            await asyncio.to_thread(run.store.flush)


def _length(samples: Samples) -> int | None:
    """How many rows there are; None where nobody knows before they have come."""
    return len(samples) if isinstance(samples, Sized) else None


def _check_prices_stated(model: ChatModel) -> None:
    """Refuse prices of a user's own model that are none.

    Ours check theirs, and may have to load a table for them.
    """
    if type(model).__module__.startswith("ragmetrics_core."):
        return
    try:
        prices = model.prices()
    except Exception:  # noqa: BLE001  # it may know them only after prepare, and is asked again then
        return
    check_prices(model.name, prices)


def _uncancellable() -> Future[None]:
    """Return a future that cannot be cancelled.

    It stays the one to be told, though somebody who waits for it gives up.
    """
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future


def _addresses(judge: Judge) -> tuple[str, ...]:
    """The addresses that a judge's models ask, in order, as far as they are known."""
    return tuple(
        dict.fromkeys(model.address for model in judge.models if model.address)
    )


@cache
def _version(package: str) -> str:
    # 20 ms that an import need not pay
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"
