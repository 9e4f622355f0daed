"""Evaluating many samples with several metrics: sync, async and streaming."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Future
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any

from ragmetrics_core.engine.carrying import Seat, carry_out
from ragmetrics_core.engine.loop import submit
from ragmetrics_core.engine.progress import Display, Progress
from ragmetrics_core.engine.tables import Samples, each_sample
from ragmetrics_core.judging.chat import ChatModel
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.judging.resolve import resolve_judge
from ragmetrics_core.judging.store import MemoryStore, ReplyStore
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.registry import chosen
from ragmetrics_core.model.errors import RowError, SettingError
from ragmetrics_core.model.results import SampleResult
from ragmetrics_core.model.sample import Sample
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.run_facts import RunFacts

Metrics = Iterable[Metric | str] | Metric | str | None
JudgeLike = Judge | ChatModel | str | None
Show = bool | Callable[[Progress], None] | None

_POOL = 64  # samples looked at before the run by metrics that need other samples


class Run:
    """One run: metrics with their judges' sessions, and the samples in flight.

    Args:
        metrics: Metrics and names of metrics; None for all.
        judge: Judge of every metric that names none; see ``resolve_judge``.
        concurrency: Most model calls in flight per judge.
        store: Where replies are kept; None for a store of this run, in memory.

    Raises:
        SettingError: If a setting is invalid.
    """

    def __init__(self, metrics: Metrics, judge: JudgeLike, concurrency: int, store: ReplyStore | None) -> None:
        if concurrency < 1:
            raise SettingError(f"concurrency must be at least 1, got {concurrency}")
        self.metrics = chosen(metrics)
        self.concurrency = concurrency
        self.interrupted = False
        self._started = time.monotonic()
        self._date = datetime.now(UTC).isoformat(timespec="seconds")
        self._seats = self._seated(judge, MemoryStore() if store is None else store)

    def _seated(self, judge: JudgeLike, store: ReplyStore) -> dict[str, Seat]:
        """One session per distinct judge, shared by the metrics that use it."""
        by_model: dict[str | None, Seat] = {}
        for metric in self.metrics:
            model = metric.model if judge is None else None
            if model not in by_model:
                session = resolve_judge(judge, metric_model=model).session(concurrency=self.concurrency, store=store)
                by_model[model] = Seat(session)
        return {metric.name: by_model[metric.model if judge is None else None] for metric in self.metrics}

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
        )

    def start(self, items: Iterable[Sample | RowError]) -> Iterator[Future[SampleResult]]:
        """Start samples as they are consumed; each future gives one sample's results."""
        iterator = iter(items)
        pool = list(islice(iterator, _POOL))
        samples = [item for item in pool if isinstance(item, Sample)]
        self.metrics = [metric.prepare(samples) for metric in self.metrics]
        for index, item in enumerate(chain(pool, iterator)):
            yield self.submit(index, item)

    def submit(self, index: int, item: Sample | RowError) -> Future[SampleResult]:
        """Start judging one sample; the future gives its results."""
        return submit(self._judge(index, item))

    async def _judge(self, index: int, item: Sample | RowError) -> SampleResult:
        if isinstance(item, RowError):
            return SampleResult(index=index, sample=None, problem=str(item))
        outcomes = await asyncio.gather(*(carry_out(metric, item, self._seats[metric.name]) for metric in self.metrics))
        results = {metric.name: outcome for metric, outcome in zip(self.metrics, outcomes, strict=True)}
        return SampleResult(index=index, sample=item, results=results)

    def check(self) -> None:
        """End the run if a judge has never answered and says that it never will.

        Raises:
            JudgeUnavailable: With the judge's own sentence.
        """
        for seat in self._seats.values():
            if seat.unavailable is not None and not seat.answered:
                raise seat.unavailable

    @property
    def window(self) -> int:
        """Most samples in flight, so that memory is bounded while every call slot is used."""
        return 2 * self.concurrency


def iter_results(
    samples: Samples,
    metrics: Metrics = None,
    *,
    judge: JudgeLike = None,
    concurrency: int = 32,
    store: ReplyStore | None = None,
    progress: Show = False,
    **columns: Any,
) -> Iterator[SampleResult]:
    """Evaluate samples and yield their results in input order, in bounded memory.

    Arguments and errors are those of ``evaluate``. Samples are read as results are consumed, a bounded number
    ahead.
    """
    run = Run(metrics, judge, concurrency, store)
    return stream(run, samples, progress=progress, columns=_columns(columns))


def stream(run: Run, samples: Samples, *, progress: Show, columns: Mapping[str, Any]) -> Iterator[SampleResult]:
    """Yield the results of a run in input order; an interrupt yields what is done and marks the run."""
    waiting: deque[Future[SampleResult]] = deque()
    started = run.start(each_sample(samples, columns))
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


def evaluate(
    samples: Samples,
    metrics: Metrics = None,
    *,
    judge: JudgeLike = None,
    concurrency: int = 32,
    store: ReplyStore | None = None,
    progress: Show = None,
    **columns: Any,
) -> Report:
    """Score every sample with every metric.

    Args:
        samples: Samples, rows as mappings, a data frame, or a Hugging Face dataset. Rows need no mapping.
        metrics: Metrics or their names; None for all that apply to at least one sample.
        judge: A judge, a chat model, or a model's name such as ``"gpt-4o-mini"`` or ``"ollama/llama3.1"``; by
            default the metric's own ``model``, then ``RAGMETRICS_JUDGE``, then the embedded judge.
        concurrency: Most model calls in flight.
        store: Where replies are kept, so that nothing is asked twice; by default in memory, for this run.
        progress: True or False; None shows a bar on a terminal and logs elsewhere; a callable gets the progress.
        **columns: For rows, where a field is: ``question_column=``, ``contexts_column=``, ``answer_column=``,
            ``ground_truth_column=``, … — a name, a dotted path or a callable.

    Returns:
        A report with one entry per sample, in input order. It holds all samples and results in memory; for
        more than memory holds use ``iter_results``. An interrupt (Ctrl-C) ends the run with what is done.

    Raises:
        SettingError: If a setting is invalid or a metric unknown.
        JudgeUnavailable: If the judge's first call shows that it will answer nothing, e.g. for a wrong key.

    Example:
        >>> report = evaluate([{"question": "Capital?", "contexts": ["Paris."], "answer": "Paris"}])
        >>> report.scores("context_utilization")
        [1.0]
    """
    run = Run(metrics, judge, concurrency, store)
    results = list(stream(run, samples, progress=progress, columns=_columns(columns)))
    return _report(run, results, asked=metrics is not None)


async def aevaluate(
    samples: Samples,
    metrics: Metrics = None,
    *,
    judge: JudgeLike = None,
    concurrency: int = 32,
    store: ReplyStore | None = None,
    progress: Show = False,
    **columns: Any,
) -> Report:
    """Score every sample with every metric, without blocking the caller's event loop; see ``evaluate``."""
    run = Run(metrics, judge, concurrency, store)
    results = [result async for result in _astream(run, samples, progress, _columns(columns))]
    return _report(run, results, asked=metrics is not None)


async def _astream(
    run: Run, samples: Samples, progress: Show, columns: Mapping[str, Any]
) -> AsyncIterator[SampleResult]:
    waiting: deque[Future[SampleResult]] = deque()
    with Display(len(samples) if isinstance(samples, Sized) else None, progress) as display:
        try:
            for future in run.start(each_sample(samples, columns)):
                waiting.append(future)
                while len(waiting) >= run.window:
                    yield await _next(run, waiting, display)
            while waiting:
                yield await _next(run, waiting, display)
        finally:
            for future in waiting:
                future.cancel()


async def _next(run: Run, waiting: deque[Future[SampleResult]], display: Display) -> SampleResult:
    result = await asyncio.wrap_future(waiting[0])
    waiting.popleft()
    run.check()
    display.add(result)
    return result


def _report(run: Run, results: Sequence[SampleResult], *, asked: bool) -> Report:
    """The report; metrics that nobody asked for by name and that never applied are left out, and it says so."""
    facts = run.facts
    if asked:
        return Report(results=results, run=facts)
    idle = [metric.name for metric in run.metrics if results and all(_idle(result, metric.name) for result in results)]
    kept = [
        result.model_copy(update={"results": {k: v for k, v in result.results.items() if k not in idle}})
        for result in results
    ]
    notes = tuple(f"{name} left out: {_why(results, name)} on every row" for name in idle)
    metrics = {name: signature for name, signature in facts.metrics.items() if name not in idle}
    return Report(results=kept, run=facts.model_copy(update={"metrics": metrics, "notes": facts.notes + notes}))


def _idle(result: SampleResult, name: str) -> bool:
    return result.sample is None or result.results[name].status == "undefined"


def _why(results: Sequence[SampleResult], name: str) -> str:
    reasons = {result.results[name].reason for result in results if result.sample is not None}
    return reasons.pop() if len(reasons) == 1 else "undefined"


def _columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Column arguments by field of the sample."""
    fields = {}
    for name, column in columns.items():
        if not name.endswith("_column"):
            raise SettingError(f"unknown argument {name!r}; columns are named like question_column=")
        field = name.removesuffix("_column")
        if column is not None:
            fields["reference" if field == "ground_truth" else field] = column
    return fields


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # 20 ms that an import need not pay

    try:
        return version("ragmetrics-core")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"
