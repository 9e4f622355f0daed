"""Scoring recorded runs in the background, beside an application that never waits for it."""

from __future__ import annotations

import atexit
import logging
import math
import os
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from ragmetrics_core.capturing.guarded import Problems, guarded
from ragmetrics_core.capturing.judge_work import as_judge_work
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.engine.run import JudgeLike, Metrics
from ragmetrics_core.engine.run import Run as EvaluationRun
from ragmetrics_core.reporting.report import Report

logger = logging.getLogger("ragmetrics_core")

Run = TypeVar("Run")

_EXIT_SECONDS = 2.0


@dataclass
class Aggregate:
    """Running figures of one metric, in constant memory.

    Attributes:
        scored: Number of scores.
        undefined: Samples for which the metric is undefined.
        failed: Samples that failed.
        mean: Mean score; None without scores.
        low: Lowest score.
        high: Highest score.
    """

    scored: int = 0
    undefined: int = 0
    failed: int = 0
    mean: float | None = None
    low: float = math.inf
    high: float = -math.inf
    _squares: float = 0.0

    @property
    def sd(self) -> float | None:
        """Sample standard deviation; None below two scores."""
        return math.sqrt(self._squares / (self.scored - 1)) if self.scored > 1 else None

    def add(self, status: str, value: float | None) -> None:
        """Count one result (Welford's update)."""
        if value is None:
            self.undefined += status == "undefined"
            self.failed += status == "failed"
            return
        before = self.mean or 0.0
        self.scored += 1
        self.mean = before + (value - before) / self.scored
        self._squares += (value - before) * (value - self.mean)
        self.low, self.high = min(self.low, value), max(self.high, value)


class BackgroundEvaluator(Generic[Run]):
    """Assembles samples and scores them in a daemon thread of its own; the application never waits.

    Args:
        build: Pure function from a recorded run to its samples; runs in the background thread.
        metrics: Metrics or their names; an empty list only counts.
        judge: See ``evaluate``.
        sample_rate: Share of the runs that are judged, in (0, 1].
        max_queue: Most runs waiting; later ones are dropped and counted. None never drops.
        keep: Keep every result for ``report()``; otherwise only ``aggregates`` are kept, in constant memory.
        on_result: Called in the background thread with each ``SampleResult``.
        concurrency: Most model calls in flight.
        seed: Seed of the choice that ``sample_rate`` makes; None for a random one.

    Raises:
        SettingError: If a setting is invalid.

    Attributes:
        problems: Internal errors, those of ``on_result`` included.
        dropped: Runs not judged because the queue was full.
        aggregates: Running figures per metric.
    """

    def __init__(
        self,
        build: Callable[[Run], Iterable[Sample]],
        metrics: Metrics = None,
        judge: JudgeLike = None,
        *,
        sample_rate: float = 1.0,
        max_queue: int | None = 1000,
        keep: bool = False,
        on_result: Callable[[SampleResult], None] | None = None,
        concurrency: int = 8,
        seed: int | None = None,
    ) -> None:
        if not 0 < sample_rate <= 1:
            raise SettingError(f"sample_rate must lie in (0, 1], got {sample_rate}")
        self.problems = Problems()
        self.dropped = 0
        self._build = build
        self._run = EvaluationRun(metrics, judge, concurrency, None)
        self._new_run = partial(EvaluationRun, tuple(self._run.metrics), judge, concurrency, None)
        self.aggregates = {metric.name: Aggregate() for metric in self._run.metrics}
        self._sample_rate, self._max_queue, self._keep, self._on_result = sample_rate, max_queue, keep, on_result
        self._random = random.Random(seed)  # noqa: S311  # a sampling decision, no secret
        self._queue: deque[Run] = deque()
        self._unjudged = 0
        self._results: list[SampleResult] = []
        self._count = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._stopped = False
        atexit.register(_at_exit, weakref.ref(self))

    @guarded
    def record(self, run: Run) -> None:
        """Queue a finished run; never blocks, from any thread."""
        if self._sample_rate < 1 and self._random.random() >= self._sample_rate:
            return
        if os.getpid() != self._pid:
            self._after_fork()
        with self._changed:
            if self._stopped:
                return
            if self._max_queue is not None and len(self._queue) >= self._max_queue:
                self.dropped += 1
                self.problems.note(
                    f"the judge is slower than the application: more than {self._max_queue} runs wait; "
                    "further ones are dropped"
                )
                return
            self._queue.append(run)
            self._unjudged += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._work_marked, name="ragmetrics-background", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything recorded so far is judged.

        Args:
            timeout: Seconds to wait at most; None waits as long as it takes.

        Returns:
            True if nothing is left, False at the timeout.
        """
        if os.getpid() != self._pid:
            self._after_fork()
        with self._changed:
            return self._changed.wait_for(lambda: self._unjudged == 0, timeout)

    def stop(self, timeout: float | None = None) -> bool:
        """Accept no further runs, and wait as ``flush`` does."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        return self.flush(timeout)

    @property
    def pending(self) -> int:
        """Runs recorded but not yet judged."""
        return self._unjudged

    def report(self, timeout: float | None = None) -> Report:
        """Wait for the judge and report on everything judged so far.

        Raises:
            SettingError: If results are not kept.
        """
        if not self._keep:
            raise SettingError("results are not kept (keep=False); use aggregates or on_result")
        done = self.flush(timeout)
        with self._changed:
            results = sorted(self._results, key=lambda result: result.index)
        facts = self._run.facts
        if not done:
            facts = facts.model_copy(update={"interrupted": True, "stopped": f"{self.pending} runs not yet judged"})
        return Report(results=results, run=facts)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Samples of the kept results."""
        return tuple(result.sample for result in self.report().results if result.sample is not None)

    def _work_marked(self) -> None:
        with as_judge_work():
            self._work()

    def _work(self) -> None:
        """Body of the background thread: bounded work in flight, in order of arrival."""
        flying: deque[Any] = deque()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or flying or self._stopped)
                if self._stopped and not self._queue and not flying:
                    self._thread = None
                    return
                run = self._queue.popleft() if self._queue and len(flying) < self._run.window else None
            if run is not None:
                flying.append(self._start(run) or [])
            if flying and (run is None or len(flying) >= self._run.window):
                for future in flying.popleft():
                    self._finish(future)
                with self._changed:
                    self._unjudged -= 1
                    self._changed.notify_all()

    @guarded
    def _start(self, run: Run) -> list[Any]:
        futures = []
        for sample in self._build(run):
            futures.append(self._run.submit(self._count, sample))
            self._count += 1
        return futures

    @guarded
    def _finish(self, future: Any) -> None:
        result: SampleResult = future.result()
        for name, outcome in result.results.items():
            self.aggregates[name].add(outcome.status, outcome.value)
            if outcome.status == "failed":
                self.problems.note(f"{name} failed: {outcome.error.type}")
        if self._keep:
            with self._changed:
                self._results.append(result)
        if self._on_result is not None:
            self._on_result(result)

    def _after_fork(self) -> None:
        """In a forked child the thread is gone and the parent judges what was queued, in slots that it holds."""
        self._run = self._new_run()
        self._changed, self._queue = threading.Condition(), deque()
        self._thread, self._unjudged, self._pid = None, 0, os.getpid()


def _at_exit(reference: weakref.ref[BackgroundEvaluator[Any]]) -> None:
    """Best effort for two seconds, then one line that says what is missing."""
    evaluator = reference()
    if evaluator is None or not evaluator.pending or os.getpid() != evaluator._pid:  # noqa: SLF001  # same file
        return
    deadline = time.monotonic() + _EXIT_SECONDS
    if not evaluator.stop(timeout=deadline - time.monotonic()):
        logger.warning("ragmetrics: %d runs were not judged before the process ended; call flush()", evaluator.pending)
