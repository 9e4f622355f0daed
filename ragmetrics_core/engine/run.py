"""One run: metrics with their judges, and samples in flight.

Results come in input order and in bounded memory.
"""

import asyncio
import logging
import os
import platform
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping, Sized
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from ragmetrics_core.data import (
    JudgeUnavailable,
    LimitReached,
    RagMetricsError,
    RowError,
    Sample,
    SampleResult,
    SettingError,
    Usage,
    import_deferred,
)
from ragmetrics_core.data.errors import crash_in_words, is_ours
from ragmetrics_core.engine.loop import submit, wait_for
from ragmetrics_core.engine.progress import Display, Show
from ragmetrics_core.engine.resolve import NOBODY, JudgeLike
from ragmetrics_core.engine.sample_judging import (
    SampleJudging,
    distinct_judges,
    judges_by_metric,
    refuse_unknown_prices,
)
from ragmetrics_core.engine.sample_sources import (
    Samples,
    iterate_samples,
    warn_of_oddities,
)
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.registry import MetricLike, choose_metrics
from ragmetrics_core.models.addresses import proxy_for, public_address
from ragmetrics_core.models.chat import ChatModel
from ragmetrics_core.models.judge_work import as_judge_work
from ragmetrics_core.models.limits import Budget, Limits
from ragmetrics_core.models.reply_store import StoreLike, resolve_store
from ragmetrics_core.reporting.run_facts import RunFacts

if TYPE_CHECKING:
    from ragmetrics_core.scale.batches import ParkingStore

logger = logging.getLogger("ragmetrics_core")

Metrics = Iterable[MetricLike] | MetricLike | None

_PACKAGES_BY_MODULE = {
    "litellm": "litellm",
    "langchain_core": "langchain-core",
    "llama_index.core": "llama-index-core",
    "haystack": "haystack-ai",
}
AHEAD = 1024
"""Most rows that may have started whose results nobody has taken.

A slow row delays the results of all rows behind it, since results are given in input
order. Up to this many rows are judged meanwhile; their results wait.
"""
# Two ready results are given for each new row that starts. So the results that have
# piled up behind a slow row become fewer.
_RESULTS_BEFORE_A_ROW = 2
# An endless stream of samples asks a judge that answers no more again after so long.
_OUTAGE_SECONDS = 300.0
# Seconds that the loop of all judges has to end its rows after an interrupt.
_SECONDS_TO_INTERRUPT = 4.0


class Run:
    """One run: metrics with their judges' sessions, and samples in flight.

    Arguments and errors are those of ``evaluate``.

    Attributes:
        why_part: Why the samples are only a part of all, e.g. because they come from a
            report whose run ended early; "" if they are complete.
        ends_with_judge: Whether the run ends, as by a limit, once a judge answers no more.
            One over an iterator does: each row may run the user's application.
        batch_store: The store of a run in batches. It holds requests back, to send many
            of them at once. None in a run that sends each by itself.
    """

    def __init__(
        self,
        metrics: Metrics,
        judge: JudgeLike,
        concurrency: int,
        store: StoreLike,
        limits: Limits | Budget | None = None,
        *,
        batch: bool = False,
    ) -> None:
        """Check the settings, and open the judges' sessions; nothing is judged yet.

        Args:
            metrics: What is measured; None for the usual ones.
            judge: Who judges: a judge, a chat model or its name; None for a default.
            concurrency: Most calls in flight; with 32 up to 64 rows are judged at once.
            store: Where replies are kept.
            limits: What the run may spend. A run in batches goes through its samples
                several times, a ``Run`` each time: each later one is given the budget
                of the first, and so cannot spend more than is left.
            batch: Whether requests are held back, and sent many at once.
        """
        self._budget = limits if isinstance(limits, Budget) else Budget(limits)
        if concurrency < 1:
            raise SettingError(f"concurrency must be at least 1, got {concurrency}")
        if batch and self._budget.limits.requests_per_minute:
            raise SettingError("batches know no limits per minute: leave them out")
        self._started_at = time.monotonic()
        self._date = datetime.now(UTC).isoformat(timespec="seconds")
        self.metrics = choose_metrics(metrics)
        self.concurrency = concurrency
        self.interrupted = False
        # what the user's iterator of rows raised behind its first row
        self.source_error: Exception | None = None
        self._notes: list[str] = []  # on the columns of a table
        self._n_given = 0  # rows whose results the run's caller got
        self._n_rows: int | None = None  # all rows, where their number is known
        self.why_part = ""
        self.ends_with_judge = False
        # Whether the caller chose the judge of each metric, instead of a default.
        is_one_named = judge is not None or "RAGMETRICS_JUDGE" in os.environ
        self._is_judge_chosen = is_one_named or all(
            metric.model is not None for metric in self.metrics if metric.asks_judge
        )
        judge_by_metric = judges_by_metric(self.metrics, judge)
        self.judges = list(distinct_judges(judge_by_metric).values())
        self.store = resolve_store(store)
        self.batch_store: ParkingStore | None = None
        if batch:  # its package is optional, and so imported only here
            make_parking_store = import_deferred(
                "scale.batches:ParkingStore", "a run in batches"
            )
            self.batch_store = make_parking_store(
                self.store, self._chat_models, self._budget
            )
            self.store = self.batch_store
        self._judging = SampleJudging(
            judge_by_metric,
            concurrency=concurrency,
            store=self.store,
            budget=self._budget,
        )
        self._judging.check_signatures(self.metrics)
        # The rows that have started and whose results nobody has taken, in their order.
        self._started: deque[Future[SampleResult]] = deque()
        # By the row's index in the input: the results that the run's caller has not
        # got yet. An interrupt finds them here, whatever it interrupted.
        self._results: dict[int, SampleResult] = {}

    @property
    def _chat_models(self) -> list[ChatModel]:
        return list(chain.from_iterable(judge.models for judge in self.judges))

    def check_prices(self) -> None:
        """Refuse, by ``SettingError``, a cap on money where a price is not known."""
        if self._budget.limits.max_cost is not None:
            refuse_unknown_prices(self._chat_models)

    @property
    def stopped(self) -> str:
        """Why not everything was judged; empty if everything was.

        The first of these that holds is named: batches not yet answered, a limit that
        was reached, a judge that answers no more, rows that could not be read on, an
        interrupt, samples that are only a part of all.
        """
        if self.batch_store is not None and self.has_unanswered_batches:
            return self.batch_store.state_in_words
        if self._budget.sentence:
            reason = self._budget.sentence
        elif self._judging.unavailable is not None:
            reason = str(self._judging.unavailable)
        elif self.source_error is not None:
            crash = crash_in_words(self.source_error)
            return f"reading the rows raised {crash}; the rows before it were judged"
        elif self.interrupted:
            reason = "it was interrupted"
        else:
            return self.why_part
        if self._n_rows is None or self._n_given >= self._n_rows:
            return reason
        n_left = self._n_rows - self._n_given
        return f"{reason}; {n_left:,} of {self._n_rows:,} rows were not begun"

    def silence_in_words(self, least_seconds: float) -> str:
        """Say that no reply came for so long, and from where; "" if one came.

        Where calls fail, and are sent again, it is said three times as soon, with why.
        """
        seconds = self._budget.seconds_silent
        fault = self._budget.fault
        if fault and seconds >= least_seconds / 3:
            return f"asking again for {seconds:.0f} s: {fault}"
        if seconds < least_seconds:
            return ""
        places = [
            place
            for judge in self.judges
            for place in _addresses_of(judge) or (judge.name,)
        ]
        return (
            f"no reply for {seconds:.0f} s (a slow one: --timeout) from"
            f" {', '.join(places)}"
        )

    @property
    def facts(self) -> RunFacts:
        """What is known of the run so far: versions, judges, settings, its end.

        Example: ``judges`` ("gpt",), ``seconds`` 12.1, and the signature of each
        metric.
        """
        packages = {"python": platform.python_version()}
        for module, package in _PACKAGES_BY_MODULE.items():
            if module in sys.modules:  # only of what is imported
                packages[package] = _version_of(package)
        details_by_judge = {
            judge.session.name: judge.session.details for judge in self._judging.judges
        }
        addresses_by_judge: dict[str, tuple[str, ...]] = {}
        for judge in self.judges:
            addresses = _addresses_of(judge)
            if addresses:
                addresses_by_judge[judge.name] = addresses
        return RunFacts(
            version=_version_of("ragmetrics-core"),
            packages=packages,
            models=tuple(sorted(self._judging.models)),
            judges=tuple(judge.name for judge in self.judges if judge is not NOBODY),
            judge_chosen=self._is_judge_chosen,
            details=details_by_judge,
            addresses=addresses_by_judge,
            metrics={metric.name: metric.signature for metric in self.metrics},
            questions={metric.name: metric.asks for metric in self.metrics},
            started=self._date,
            seconds=round(time.monotonic() - self._started_at, 3),
            concurrency=self.concurrency,
            interrupted=self.interrupted,
            stopped=self.stopped,
            notes=tuple(self._notes),
        )

    @property
    def most_rows(self) -> int:
        """Most rows that are judged at a time."""
        return self._judging.most_rows

    def start_rows(
        self, samples: Samples, columns: Mapping[str, Any]
    ) -> Iterator[Future[Any]]:
        """Start judging the rows, and yield futures to wait for, one after the other.

        The caller waits for each future before it asks for the next one. There are two
        kinds:

        - the future of the next row in order: gives its ``SampleResult``, which the
          caller hands to ``take``;
        - a future that gives None, as soon as one more row may be judged.

        Args:
            samples: What holds the samples.
            columns: For rows, by field of the sample: the column that holds it, or a
                function that returns it.
        """
        # samples of a report whose run ended early are only a part; the report says so
        self.why_part = self.why_part or getattr(samples, "why_part", "")
        # what an earlier evaluation by this run left, if its caller went before its end
        self._started.clear()
        self._results.clear()
        self._n_given, self._n_rows = 0, _number_of_rows(samples)
        self.ends_with_judge |= self._n_rows is None
        for judge in self._judging.judges:
            judge.ends_run = self.ends_with_judge
        rows = self._until_source_fails(
            warn_of_oddities(iterate_samples(samples, columns, self._notes))
        )
        for index, row in enumerate(rows):
            # No further row starts once a limit is reached, or a judge that never answered
            # says that it never will; where the run ends with a judge, one that did, too.
            if self._budget.remaining == 0.0:
                self._budget.expire()
            judging = self._judging
            end = judging.unavailable if self.ends_with_judge else judging.refused
            if end is not None or self._budget.reached is not None:
                break
            self._started.append(submit(self._judge(index, row)))
            # Results are taken before one more row starts. A slow row delays all behind
            # it, and many of these are judged meanwhile.
            for _ in range(_RESULTS_BEFORE_A_ROW):
                if self._started and self._started[0].done():
                    yield self._started[0]
            while len(self._started) >= max(AHEAD, self.most_rows):
                yield self._started[0]
            if len(self._started) >= self.most_rows:
                yield submit(self._judging.wait_for_room())
        while self._started:
            yield self._started[0]

    async def _judge(self, index: int, row: Sample | RowError) -> SampleResult:
        """Judge a row, and keep its result until the run's caller gets it."""
        result = await self._judging.judge(index, row, self.metrics)
        self._results[index] = result
        return result

    def _until_source_fails(
        self, rows: Iterator[Sample | RowError]
    ) -> Iterator[Sample | RowError]:
        """Yield rows; end where the user's iterator raises, so that what is judged stays.

        Raises:
            Exception: What the iterator raised before its first row.
        """
        has_begun = False
        try:
            for row in rows:
                has_begun = True
                yield row
        except RagMetricsError:
            raise
        except Exception as error:  # whatever a user's iterator raises
            if not has_begun:
                raise
            self.source_error = error
            logger.error("%s", self.stopped)  # its words may hold texts

    def take(self, result: SampleResult) -> SampleResult:
        """Take the next row's result.

        Raises:
            JudgeUnavailable: If a judge has never answered and says that it never will.
                Where calls to another judge were paid, nothing is raised: the run ends
                with the results it has.
        """
        self._started.popleft()
        refusal = self._judging.refused
        was_paid = any(judge.paid for judge in self._judging.judges)
        if refusal is not None and not was_paid:
            raise refusal
        return result

    def hand_on(self, result: SampleResult) -> SampleResult:
        """Return a result, which an interrupt need not give any more."""
        del self._results[result.index]
        self._n_given += 1
        return result

    def interrupt(self) -> Iterator[SampleResult]:
        """End the run before its rows are done, and yield what nobody has got.

        These are the results of the rows that are done, and of the rows that were cut
        off what they cost. A row that was cut off before it cost anything counts as not
        begun, and so does one that does not end within a few seconds, e.g. because its
        judge blocks the event loop.
        """
        self.interrupted = True
        with suppress(TimeoutError):
            submit(self._judging.interrupt()).result(timeout=_SECONDS_TO_INTERRUPT)
        for index in sorted(self._results):
            result = self._results.pop(index)
            # Without any of these, all metrics were cut off before they spent anything.
            if result.results or result.usage != Usage() or result.problem:
                self._n_given += 1
                yield result

    def raise_if_ended_early(self, before: str = "") -> None:
        """Raise why the run ended before all was judged, for those whom a part misleads.

        Args:
            before: What the sentence begins with.

        Raises:
            KeyboardInterrupt: After an interrupt (Ctrl-C).
            JudgeUnavailable: If a limit, or a judge that answers no more, ended it.
        """
        if self.interrupted:
            raise KeyboardInterrupt
        if self.stopped:
            raise JudgeUnavailable(f"{before}{self.stopped}")

    def cut_off(self) -> None:
        """End the run now: what is in flight ends soon, and no further call begins."""
        submit(self._judging.cut_off())

    def give_up_unfinished_rows(self) -> None:
        """End what is in flight."""
        for future in self._started:
            future.cancel()

    @property
    def has_unanswered_batches(self) -> bool:
        """Whether batches have not yet answered what the run asked.

        False after an interrupt, and in a run without batches.
        """
        return (
            self.batch_store is not None
            and self.batch_store.needs_further_pass
            and not self.interrupted
        )

    async def do_before_deadline(self, work: Awaitable[object]) -> None:
        """Do work for the whole run, up to its deadline.

        At the deadline the work is given up, and the run says why it ended.
        """
        with suppress(LimitReached):
            async with self._budget.in_time():
                await work

    def is_ready_for_next_pass(self, *, wait_for_batches: bool) -> bool:
        """Whether a run in batches can go through its samples once more now.

        It can when the batches have ended.

        Args:
            wait_for_batches: Whether to wait here until the batches end. If not, or if
                the deadline comes first, the same call goes on later.
        """
        if self.batch_store is None or not self.has_unanswered_batches:
            return False
        return wait_for_batches and wait_for(self.batch_store.wait())

    def start_one_sample(self, index: int, sample: Sample) -> Future[SampleResult]:
        """Start judging the next sample of an endless stream, which no recorder sees.

        A judge that answers no more is asked again after some minutes.
        """
        seconds = time.monotonic() - self._judging.opened_at
        if self._judging.unavailable is not None and seconds > _OUTAGE_SECONDS:
            self._judging.open_sessions()
        with as_judge_work():
            return submit(self._judging.judge(index, sample, self.metrics))


def stream(
    run: Run, samples: Samples, *, progress: Show, columns: Mapping[str, Any]
) -> Iterator[SampleResult]:
    """Yield the results of a run in input order.

    A run in batches first takes in the replies of earlier batches. At its end it
    submits the requests that have no reply yet. Example: the first run over 100 samples
    submits a batch; a second run over them takes in the replies of the batch.

    An interrupt (Ctrl-C) ends the run. The results that are done are then yielded, with
    those of rows that were cut off after something was paid.

    ``columns`` says, by field of the sample, which column of a row holds it, or which
    function returns it.
    """
    with Display(_number_of_rows(samples), progress) as display:
        futures = run.start_rows(samples, columns)
        try:
            if run.batch_store is not None:
                take_in_replies = run.batch_store.look_at_batches()
                wait_for(run.do_before_deadline(take_in_replies))
            for future in futures:
                display.wait_for(future, run.silence_in_words)
                next_result: SampleResult | None = future.result()
                if next_result is not None:  # None: one more row may be judged
                    yield run.hand_on(display.add(run.take(next_result)))
            if run.batch_store is not None:
                wait_for(run.do_before_deadline(run.batch_store.submit()))
        except KeyboardInterrupt:
            for result in run.interrupt():
                yield display.add(result)
        finally:
            run.give_up_unfinished_rows()


async def astream(
    run: Run, samples: Samples, *, progress: Show, columns: Mapping[str, Any]
) -> AsyncIterator[SampleResult]:
    """Yield the results of a run in input order, on the caller's event loop.

    It does what ``stream`` does, but takes no run in batches. Example: if row 1
    finishes before row 0, the result of row 0 is still the first.

    ``columns`` says, by field of the sample, which column of a row holds it, or which
    function returns it.
    """
    with Display(_number_of_rows(samples), progress) as display:
        futures = run.start_rows(samples, columns)
        try:
            for future in futures:
                next_result: SampleResult | None = await asyncio.wrap_future(future)
                if next_result is not None:
                    yield run.hand_on(display.add(run.take(next_result)))
        finally:
            run.give_up_unfinished_rows()


def _number_of_rows(samples: Samples) -> int | None:
    """Return the number of rows; None for an iterator, whose length nobody knows."""
    return len(samples) if isinstance(samples, Sized) else None


@cache
def _version_of(package: str) -> str:
    """Return the version of an installed package; "unknown" if it is not installed."""
    # importing it takes 20 ms, which `import ragmetrics_core` need not pay
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"


def _addresses_of(judge: Judge) -> tuple[str, ...]:
    """Return the known addresses of a judge's models, without repeats.

    A proxy on the way stands behind its address.
    """
    addresses: list[str] = []
    for model in judge.models:
        # only of our own clients is known that they heed the environment
        proxy = proxy_for(model.address) if is_ours(type(model)) else None
        through = f" through {public_address(proxy)}" if proxy else ""
        if model.address:
            addresses.append(f"{model.address}{through}")
    return tuple(dict.fromkeys(addresses))
