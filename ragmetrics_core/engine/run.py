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
from ragmetrics_core.reporting.run_facts import Audit, RunFacts

if TYPE_CHECKING:
    from ragmetrics_core.scale.batches import ParkingStore
    from ragmetrics_core.sequential.until import Decider

Metrics = Iterable[Metric | str] | Metric | str | None
JudgeLike = Judge | ChatModel | str | None
Show = bool | Callable[[Progress], None] | None

_PACKAGES = {"litellm": "litellm", "langchain_core": "langchain-core"} | {
    "llama_index.core": "llama-index-core",
    "haystack": "haystack-ai",
}
# questions that wait for a slot, between two attempts, or for their reply to be read
_AHEAD = 32
_ENDING = 2.0  # seconds that what is in flight has to end after an interrupt
POOL = 64  # samples that metrics look at which need others
AHEAD = 1024
"""Most rows behind the next one to give that have started.

Those that are done wait as results.
"""
# results, where there are, for one row that starts: what waited behind a slow row
# becomes less
_GIVEN_FOR_ONE = 2


class Run:
    """One run: metrics with their judges' sessions, and samples in flight; arguments and errors as of ``evaluate``."""

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
        self.metrics = chosen(metrics)
        self.concurrency = concurrency
        # most samples in flight, so that memory is bounded while every call slot is
        # used
        self.window = 2 * concurrency
        self.interrupted = False
        self.audit: Audit | None = None
        self._models: set[str] = set()
        # by index the rows that are judged and that nobody has got yet
        self.untaken: dict[int, SampleResult] = {}
        self._in_flight: set[asyncio.Task[Any]] = set()
        # rows that have started, and that nobody has taken
        self._waiting: deque[Future[SampleResult]] = deque()
        # those of them that are not done
        self._unfinished: set[Future[SampleResult]] = set()
        self._next_end: Future[None] = _uncancellable()  # of any of these
        self._lock = threading.Lock()
        self._before: tuple[Sample, ...] = ()
        self._started, self._date = (
            time.monotonic(),
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self.store = resolve_store(store)
        self.parking: ParkingStore | None = None
        self._budget = limits if isinstance(limits, Budget) else Budget(limits)
        self._slots = asyncio.Semaphore(concurrency + max(_AHEAD, concurrency // 8))
        self._door = asyncio.Lock()
        if self._budget.limits.max_live and not batch:
            raise SettingError(
                "max_live belongs to runs in batches: add batch=True (--batch), or"
                " leave it out"
            )
        models = {
            metric.name: metric.model if judge is None else None
            for metric in self.metrics
        }
        judges = {
            model: resolve_judge(judge, metric_model=model) for model in models.values()
        }
        self.judges = list(judges.values())
        for own_judge in self.judges:
            check_judge(own_judge)
        self._chat_models = [model for own in self.judges for model in own.models]
        for model in self._chat_models:
            _check_prices_stated(model)
        if batch:
            if until is not None or self._budget.limits.per_minute:
                raise SettingError(
                    "batches know neither until= nor limits per minute: leave them out"
                )
            self.store = self.parking = _parking_store(
                self.store, self._chat_models, self._budget
            )
        asked = {
            model: RunJudge(
                own.session(
                    concurrency=concurrency, store=self.store, budget=self._budget
                ),
                self._slots,
                self._budget,
            )
            for model, own in judges.items()
        }
        for judge_of_run in asked.values():
            check_judge(judge_of_run.session)
        self._judges = {name: asked[model] for name, model in models.items()}
        self._check_signatures()
        if gates and until is None:
            raise SettingError(
                'gates= end a run until="decided"; of a run over all rows ask'
                " decide(gate, report)"
            )
        addresses = {
            judge.session.name: _addresses(judge.session) for judge in asked.values()
        }
        self.decider: Decider | None = None
        if until is not None:
            self.decider = _decider(until, gates, self.metrics, addresses)

    def check_prices(self) -> None:
        """Refuse a cap on money where nobody knows what a call costs.

        It is refused by ``SettingError``.
        """
        for model in (
            self._chat_models if self._budget.limits.max_cost is not None else ()
        ):
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
        """Why not everything was judged: a limit, a judge that refuses, an interrupt; "" if nothing ended the run."""
        refusing = (judge.unavailable for judge in self._judges.values())
        error = self._budget.sentence or next(filter(None, refusing), None)
        if self.parking is not None and self.waiting:
            return self.parking.said
        return str(error) if error else "it was interrupted" if self.interrupted else ""

    @property
    def facts(self) -> RunFacts:
        """What is known of the run so far."""
        loaded = {
            package: _version(package)
            for module, package in _PACKAGES.items()
            if module in sys.modules
        }
        return RunFacts(
            version=_version("ragmetrics-core"),
            packages={"python": platform.python_version(), **loaded},
            models=tuple(sorted(self._models)),
            judges=tuple(
                dict.fromkeys(judge.session.name for judge in self._judges.values())
            ),
            details={
                judge.session.name: judge.session.details
                for judge in self._judges.values()
            },
            addresses={
                judge.name: asked
                for judge in self.judges
                if (asked := _addresses(judge))
            },
            metrics={metric.name: metric.signature for metric in self.metrics},
            started=self._date,
            seconds=round(time.monotonic() - self._started, 3),
            concurrency=self.concurrency,
            interrupted=self.interrupted,
            audit=self.audit,
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
        rows = warn_of_doubles(each_sample(samples, columns, widened=widened))
        items = (
            self.decider.drawn(rows, listed=isinstance(samples, Sized))
            if self.decider
            else iter(enumerate(rows))
        )
        self.untaken.clear()
        pool = list(islice(items, POOL))
        others = [item for _, item in pool if isinstance(item, Sample)]
        self.metrics = [prepared(metric, others) for metric in self.metrics]
        self._check_signatures()
        for index, item in chain(pool, items):
            if self._over or (self.decider is not None and self.decider.done):
                break
            self._start(index, item)
            yield from self._until_room()
        while self._waiting:
            yield self._waiting[0]

    def _start(self, index: int, item: Sample | RowError) -> None:
        future = submit(self._row(index, item))
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
        given = 0
        while len(self._waiting) >= self.window and not self._over:
            # before looking: what ends from here on is not missed
            next_end = self._next_end
            # A decision may end the run: no row that it may not need starts before the
            # next one is looked at.
            may_go_ahead = self.decider is None and len(self._waiting) < AHEAD
            has_room = may_go_ahead and len(self._unfinished) < self.window
            if self._waiting[0].done() and not (has_room and given == _GIVEN_FOR_ONE):
                given += 1
                yield self._waiting[0]
            elif has_room:
                return
            else:
                yield next_end if may_go_ahead else self._waiting[0]

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
            if (
                not judge.answered
                and judge.unavailable
                and not isinstance(judge.unavailable, LimitReached)
            ):
                return judge.unavailable
        return None

    def take(self, result: SampleResult) -> SampleResult:
        """Take a due result.

        A run ends here if its judge has never answered and says that it never will.

        That is by ``JudgeUnavailable``, with the judge's own sentence, unless other
        calls of the run were paid: then the run ends with what is done.
        """
        self._waiting.popleft()
        if self._refused is not None and not any(
            judge.paid for judge in self._judges.values()
        ):
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
            submit(self._end_rows()).result(timeout=2 * _ENDING)
        for index in sorted(self.untaken):
            result = self.untaken.pop(index)
            if result.results or result.unfinished or result.problem:
                yield result

    async def _end_rows(self) -> None:
        self._budget.interrupt()
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=_ENDING)

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
        return bool(
            self.parking
            and self.waiting
            and (self.parking.small or (wait and wait_for(self.parking.wait())))
        )

    def follow(self, index: int, sample: Sample) -> Future[SampleResult]:
        """Start judging a sample of a stream without end.

        Metrics that need others take those before it.
        """
        metrics = [prepared(metric, self._before) for metric in self.metrics]
        if any(metric.needs_others for metric in self.metrics):
            self._before = (*self._before, sample)[-POOL:]
        return submit(self._judge(index, sample, metrics))

    async def _row(self, index: int, item: Sample | RowError) -> SampleResult:
        """Judge a row of the table.

        An interrupt finds the row here, even if it came before anybody held the row's
        future.
        """
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._in_flight.add(task)
        try:
            result = await self._judge(index, item, self.metrics)
        finally:
            self._in_flight.discard(task)
        self.untaken[index] = result
        return result

    async def _judge(
        self, index: int, item: Sample | RowError, metrics: Sequence[Metric]
    ) -> SampleResult:
        if isinstance(item, RowError):
            return SampleResult(index=index, sample=None, problem=str(item))
        # Samples come in one after the other, while no question waits for a slot.
        async with asyncio.TaskGroup() as group, self._door:
            async with self._slots:
                running = [
                    group.create_task(carry_out(it, item, self._judges[it.name]))
                    for it in metrics
                ]
            await asyncio.sleep(0)  # their first questions stand before the next sample
        outcomes = [task.result() for task in running]
        self._models.update(*(outcome.usage.models for outcome in outcomes))
        spent = sum(
            (outcome.usage for outcome in outcomes if was_cut_off(outcome)), Usage()
        )
        results = {
            metric.name: own
            for metric, own in zip(metrics, outcomes, strict=True)
            if not was_cut_off(own)
        }
        return SampleResult(
            index=index,
            sample=item,
            results=results,
            unfinished=spent if spent != Usage() else None,
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
    with Display(
        len(samples) if isinstance(samples, Sized) else None, progress
    ) as display:
        try:
            if run.parking is not None:
                wait_for(run.in_time(run.parking.look()))
            for future in run.due(samples, columns, widened=display.widen):
                taken: SampleResult | None = future.result()
                if taken is None:  # another row than the next one is done
                    continue
                result = display.add(run.take(taken))
                index = result.index
                # and at once, before an interrupt can come between, it is given
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
    with Display(
        len(samples) if isinstance(samples, Sized) else None, progress
    ) as display:
        try:
            for future in run.due(samples, columns, widened=display.widen):
                taken: SampleResult | None = await asyncio.wrap_future(future)
                if taken is None:  # another row than the next one is done
                    continue
                result = display.add(run.take(taken))
                del run.untaken[result.index]
                yield result
        finally:
            run.give_up()
            # another process may hold the file's lock for a while
            await asyncio.to_thread(run.store.flush)


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
