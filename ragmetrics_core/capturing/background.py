"""Scoring recorded runs in the background, beside an application that never waits for it."""

import atexit
import math
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from ragmetrics_core.capturing.captured import Redact, Redaction
from ragmetrics_core.capturing.hooks import Problems, guarded, renew_after_fork
from ragmetrics_core.capturing.sinks import Outlet
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.endpoints.framework_model import as_judge_work
from ragmetrics_core.endpoints.limits import Limits
from ragmetrics_core.engine.run import JudgeLike, Metrics
from ragmetrics_core.engine.run import Run as EvaluationRun
from ragmetrics_core.reporting.report import Report, Sink

Run = TypeVar("Run")

_EXIT_SECONDS = 2.0
_SINK_SECONDS = 10.0  # for a sink that hangs, where nobody said how long to wait


@dataclass
class Aggregate:
    """Running figures of one metric, in constant memory: how many samples had which outcome, and their scores."""

    scored: int = 0
    undefined: int = 0
    failed: int = 0
    mean: float | None = None  # None without scores
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


@dataclass(eq=False)
class _Judging:
    """A recorded run whose samples are being judged, and how many of them still are."""

    left: int


class BackgroundEvaluator(Generic[Run]):
    """Assembles samples and scores them in a daemon thread of its own; the application never waits.

    ``FrontDoor.watch`` says what the settings mean. In the thread ``build`` makes samples of a recorded run, and at
    each ``flush`` ``rest`` those that wait for a further run. What a limit cuts off is counted in ``problems``;
    ``seed`` is that of the choice that ``sample_rate`` makes.

    Raises:
        SettingError: If a setting is invalid.

    Attributes:
        problems: Internal errors, those of ``on_result`` included.
        dropped: Runs not judged because the queue was full.
        aggregates: Running figures per metric; in a forked process those of that process.
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
        sinks: Iterable[Sink] = (),
        concurrency: int = 8,
        limits: Limits | None = None,
        redact: Redact | None = None,
        rest: Callable[[], Iterable[Sample]] | None = None,
        problems: Problems | None = None,
        seed: int | None = None,
    ) -> None:
        if not 0 < sample_rate <= 1:
            raise SettingError(f"sample_rate must lie in (0, 1], got {sample_rate}")
        self.problems = Problems() if problems is None else problems
        self._build, self._rest, self._redaction = build, rest, Redaction(redact, self.problems)
        self._run = EvaluationRun(metrics, judge, concurrency, None, limits)
        self._new_run = partial(EvaluationRun, tuple(self._run.metrics), judge, concurrency, None, limits)
        self._sample_rate, self._max_queue, self._keep, self._on_result = sample_rate, max_queue, keep, on_result
        self.outlets = [Outlet(sink, self.problems, max_queue) for sink in sinks]
        self._random = random.Random(seed)  # noqa: S311  # a sampling decision, no secret
        self._stopped = False
        self._begin()
        renew_after_fork(self)
        atexit.register(_at_exit, weakref.ref(self))

    def _begin(self) -> None:
        """Nothing recorded, nothing judged."""
        self.dropped = 0
        self.aggregates = {metric.name: Aggregate() for metric in self._run.metrics}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._queue: deque[Callable[[], Iterable[Sample]]] = deque()
        self._done: deque[tuple[_Judging, Future[SampleResult]]] = deque()
        self._unjudged = self._flying = self._count = 0
        self._results: list[SampleResult] = []

    def after_fork(self) -> None:
        """In a forked child the thread is gone, and what was recorded before is the parent's to judge."""
        self._run = self._new_run()
        self._begin()

    @guarded
    def record(self, run: Run) -> None:
        """Queue a finished run; never blocks, from any thread."""
        with self._changed:
            if self._stopped and threading.current_thread() is not self._thread:  # what waited comes from that one
                return
            if self._max_queue is not None and len(self._queue) >= self._max_queue:
                self.dropped += 1
                self.problems.note(
                    f"the judge is slower than the application: more than {self._max_queue} runs wait; "
                    "further ones are dropped"
                )
                return
            self._take(partial(self._build, run))

    def _take(self, making: Callable[[], Iterable[Sample]]) -> None:
        self._queue.append(making)
        self._unjudged += 1
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="ragmetrics-background", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything recorded so far is judged; False at the timeout, in seconds, None for none."""
        return self._wait(timeout, stop=False)

    def stop(self, timeout: float | None = None) -> bool:
        """Accept no further runs, and wait as ``flush`` does; how many are unjudged at the timeout is a problem."""
        if not (done := self._wait(timeout, stop=True)):
            self.problems.note(f"{self.pending} runs were not judged when stop() gave up after {timeout:g} seconds")
        return done

    def _wait(self, timeout: float | None, *, stop: bool) -> bool:
        with self._changed:
            if self._rest is not None and not self._stopped:
                self._take(self._rest)  # in the queue, behind all runs that may still go with them
            self._stopped = self._stopped or stop
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: self._unjudged == 0, timeout)
        until = time.monotonic() + (_SINK_SECONDS if timeout is None else timeout)
        for outlet in self.outlets:
            outlet.put(None)
        for outlet in self.outlets:
            outlet.wait(until)
        return done

    @property
    def pending(self) -> int:
        """Runs recorded but not yet judged."""
        with self._changed:
            return self._unjudged - sum(making is self._rest for making in self._queue)  # asking for the rest is no run

    def report(self, timeout: float | None = None) -> Report:
        """Wait for the judge and report on everything judged so far; ``SettingError`` if results are not kept."""
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

    def _work(self) -> None:
        """Body of the background thread: runs are started in order, their results taken as they are done."""
        with as_judge_work():
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._done or self._may_start or self._is_over)
                    if self._is_over and not self._done:
                        self._thread = None
                        return
                    done, self._done = self._done, deque()
                    making = self._queue.popleft() if self._may_start else None
                    self._flying += making is not None
                for judging, future in done:
                    self._finish(future)
                    self._one_less(judging)
                if making is not None:
                    judging = _Judging(left=1)  # the start itself: no result may end the run before it
                    self._start(making, judging)
                    self._one_less(judging)

    @property
    def _may_start(self) -> bool:
        return bool(self._queue) and self._flying < self._run.window

    @property
    def _is_over(self) -> bool:
        return self._stopped and not self._queue and not self._flying

    def _one_less(self, judging: _Judging) -> None:
        with self._changed:
            judging.left -= 1
            if not judging.left:
                self._flying -= 1
                self._unjudged -= 1
                self._changed.notify_all()

    @guarded
    def _start(self, making: Callable[[], Iterable[Sample]], judging: _Judging) -> None:
        for made in making():
            if self._sample_rate < 1 and self._random.random() >= self._sample_rate:
                continue
            sample = self._redaction.redact(made)
            if sample is None:
                continue
            future = self._run.follow(self._count, sample)
            self._count += 1
            with self._changed:
                judging.left += 1
            future.add_done_callback(partial(self._landed, judging))

    def _landed(self, judging: _Judging, future: Future[SampleResult]) -> None:
        """A sample is judged; called on the judges' loop, which must not wait for ``on_result``."""
        with self._changed:
            self._done.append((judging, future))
            self._changed.notify_all()

    @guarded
    def _finish(self, future: Future[SampleResult]) -> None:
        result = future.result()
        if self._run.stopped:
            self.problems.note(f"a limit was reached, so that samples are not judged: {self._run.stopped}")
        for name, outcome in result.results.items():
            self.aggregates[name].add(outcome.status, outcome.value)
            if outcome.status == "failed":
                self.problems.note(f"{name} failed: {outcome.error.type}")
        if self._keep:
            with self._changed:
                self._results.append(result)
        for outlet in self.outlets:
            outlet.put(result)
        if self._on_result is not None:
            self._on_result(result)


def _at_exit(reference: weakref.ref[BackgroundEvaluator[Any]]) -> None:
    """Best effort for two seconds, then ``stop`` says what is missing."""
    evaluator = reference()
    if evaluator is not None and (evaluator.pending or any(one.queue.unfinished_tasks for one in evaluator.outlets)):
        evaluator.stop(timeout=_EXIT_SECONDS)
