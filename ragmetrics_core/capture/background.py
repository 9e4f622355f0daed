"""Scores recorded runs in the background, while the application goes on.

A recorded run goes through these hands::

    record()            in the application's thread: puts the run into the queue
    the thread of ours  makes its samples, and starts judging them
    the judges' loop    asks the models
    the thread of ours  counts the results, and hands them to sinks and ``on_result``

The application never waits for any of this.
"""

import atexit
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypedDict, Unpack

from ragmetrics_core.capture.captured import Redact, Redaction
from ragmetrics_core.capture.hooks import (
    Listener,
    Problems,
    Run,
    guard_hook,
    renew_after_fork,
)
from ragmetrics_core.capture.plain_values import FieldPlace, Overrides
from ragmetrics_core.capture.sinks import FLUSH, Outlet, checked_sinks
from ragmetrics_core.data import Sample, SampleResult, SettingError
from ragmetrics_core.engine.resolve import JudgeLike
from ragmetrics_core.engine.run import Metrics
from ragmetrics_core.engine.run import Run as EvaluationRun
from ragmetrics_core.metrics.registry import choose_metrics
from ragmetrics_core.models.judge_work import as_judge_work, is_judge_work
from ragmetrics_core.models.limits import Limits
from ragmetrics_core.reporting.report import Report, Sink

if TYPE_CHECKING:
    from ragmetrics_core.capture.front_door import FrontDoor

_EXIT_SECONDS = 2.0
_IDLE_SECONDS = 30.0  # after these, runs that wait for a further one are looked at
_MOST_RESULTS = 1000
_FULL = (
    "the judge is slower than the application: more than {} runs wait; further ones are"
    " dropped"
)
_WAITS_FOR_ITSELF = (
    "flush(), report(), samples and stop() wait until everything is judged, which"
    " on_result, redact, a sink, a metric or a judge is itself part of: call them"
    " elsewhere, and there use the result, aggregates or pending"
)
# the arguments of a watch that say where things are found
_PLACES = ("question_from", "contexts_from", "answer_from", "context_tools")
# for slow sinks to take the results, where ``flush`` and ``stop`` were given no timeout
_SINK_SECONDS = 10.0


@dataclass
class Aggregate:
    """Running figures of one metric, in constant memory.

    They say how many samples had which outcome, and the mean score.
    """

    scored: int = 0
    undefined: int = 0
    failed: int = 0
    mean: float | None = None  # None without scores

    def add(self, status: str, value: float | None) -> None:
        """Count one result."""
        if status == "undefined":
            self.undefined += 1
        elif status == "failed":
            self.failed += 1
        if value is not None:
            mean_before = self.mean or 0.0
            self.scored += 1
            self.mean = mean_before + (value - mean_before) / self.scored


@dataclass(frozen=True, kw_only=True)
class WatchSettings:
    """What is judged in the background, and what becomes of the results.

    Args:
        sample_rate: Share of the samples that are judged, in (0, 1]; whole
            conversations, where they have an id.
        max_queue: Most runs waiting; later ones are dropped and counted. None never
            drops.
        on_result: Called in the background thread with each result, in the order in
            which they are done.
        sinks: Where results go, each in a thread of its own: ``JsonlSink``, or yours
            with ``write`` and ``flush``.
        concurrency: Most model calls in flight.
        limits: What judging may spend; see ``ragmetrics_core.evaluate``.
        redact: A function through which each sample goes as it is made.

    Raises:
        SettingError: If ``sample_rate`` is no share.
    """

    sample_rate: float = 1.0
    max_queue: int | None = 1000
    on_result: Callable[[SampleResult], None] | None = None
    sinks: Iterable[Sink] = ()
    concurrency: int = 8
    limits: Limits | None = None
    redact: Redact | None = None

    def __post_init__(self) -> None:
        """Check the share."""
        if not 0 < self.sample_rate <= 1:
            raise SettingError(
                f"sample_rate must lie in (0, 1], got {self.sample_rate}"
            )


class BackgroundEvaluator(Generic[Run]):
    """Makes samples of recorded runs and scores them in a daemon thread of its own.

    The application never waits. Samples that a limit leaves unjudged are counted in
    ``problems``.

    Args:
        make_samples: Makes the samples of a recorded run; called in the thread.
        metrics: Metrics or their names; None for the usual ones, ``[]`` to count
            only.
        judge: A judge, a chat model, or a model's name.
        settings: What is judged, and what becomes of the results; None for the usual.
        make_waiting_samples: Makes the samples of runs that ``make_samples`` keeps
            because a further run may belong to them. It is called whenever ``flush``, ``report``
            or ``stop`` wait.
        make_due_samples: Makes the samples of those of these runs that have waited long
            enough. It is called now and then while nothing is recorded.
        on_stop: Called when the evaluator stops.
        problems: Where internal errors are counted; None for a new count.
        linger_s: How many seconds a recorded run stays in the queue before
            ``make_samples`` is called with it. ``flush``, ``report`` and ``stop`` end this wait.

    Raises:
        SettingError: If a setting is invalid.

    Attributes:
        problems: Internal errors, those of ``on_result`` included.
        dropped: Runs not judged because the queue was full.
        aggregates: Running figures per metric; in a forked process those of that
            process.
    """

    def __init__(
        self,
        make_samples: Callable[[Run], Iterable[Sample]],
        metrics: Metrics = None,
        judge: JudgeLike = None,
        settings: WatchSettings | None = None,
        *,
        make_waiting_samples: Callable[[], Iterable[Sample]] = tuple,
        make_due_samples: Callable[[], Iterable[Sample]] = tuple,
        on_stop: Callable[[], None] = lambda: None,
        problems: Problems | None = None,
        linger_s: float = 0.0,
    ) -> None:
        """Prepare the evaluator; its thread starts with the first recorded run.

        The arguments are explained in the class's docstring. Example: with
        ``linger_s=1.0`` a recorded trace is read after one second, together with spans
        that came late.
        """
        self._settings = settings or WatchSettings()
        self.problems = Problems() if problems is None else problems
        self._make_samples = make_samples  # of one recorded run
        # ``make_samples`` may keep a run back, to join it with a later run of the same
        # question: this makes the samples of such runs. ``tuple`` makes none.
        self._make_waiting_samples = make_waiting_samples
        # the same, of those that have waited long enough
        self._make_due_samples = make_due_samples
        self._on_stop = on_stop
        self._redaction = Redaction(self._settings.redact, self.problems)
        # makes what scores the samples: one per process, made anew after a fork
        self._new_evaluation_run = partial(
            EvaluationRun,
            choose_metrics(metrics),
            judge,
            self._settings.concurrency,
            None,  # no progress is shown
            self._settings.limits,
        )
        # each sink, with a thread and a queue of its own
        self.outlets = [
            Outlet(sink, self.problems, self._settings.max_queue)
            for sink in checked_sinks(self._settings.sinks)
        ]
        self._linger_seconds = linger_s  # how long a recorded run stays in the queue
        self._stopped = False
        renew_after_fork(self)  # calls after_fork(), now and in each forked process
        atexit.register(_stop_at_exit, weakref.ref(self))

    def __repr__(self) -> str:
        """Show the metrics and what went wrong, and no text of a sample."""
        metrics = ", ".join(self.aggregates)
        return (
            f"BackgroundEvaluator({metrics}; {self.dropped} dropped,"
            f" {len(self.problems)} problems)"
        )

    def __enter__(self) -> Self:
        """Watch while the block runs."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and wait until everything is judged."""
        self.stop()

    def after_fork(self) -> None:
        """Begin anew with an empty queue, a new lock, no thread and counts of zero.

        A web server forks four workers: each inherits neither the thread nor a usable
        lock, and judges its own runs. The parent judges the runs from before the fork.
        """
        self.dropped = 0
        self._run = self._new_evaluation_run()
        self.aggregates = {metric.name: Aggregate() for metric in self._run.metrics}
        # the lock of all attributes below; it is notified when one of them changes
        self._state_changed = threading.Condition()
        self._thread: threading.Thread | None = None
        # what makes samples, with the earliest time for it by the monotonic clock
        self._queue: deque[tuple[float, Callable[[], Iterable[Sample]]]] = deque()
        # judged samples whose results the thread has not counted yet
        self._uncounted_results: deque[Future[SampleResult]] = deque()
        self._n_in_flight = 0  # samples that are being made or judged
        self._n_judging_begun = 0  # samples, also the ones that are judged by now
        self._n_results = 0
        # what ``report`` needs: of many results the latest
        self._results: deque[SampleResult] = deque(maxlen=_MOST_RESULTS)

    @guard_hook
    def record(self, run: Run) -> bool:
        """Put a finished run into the queue; return whether it was taken.

        It never blocks, and may be called from any thread. A run is not taken if the
        queue is full, which is counted, or if the evaluator was stopped.
        """
        with self._state_changed:
            max_queue = self._settings.max_queue
            if self._stopped:
                return False
            if max_queue is not None and len(self._queue) >= max_queue:
                self._count_lost(1, _FULL.format(max_queue))
                return False
            self._put_in_queue(
                partial(self._make_samples, run),
                time.monotonic() + self._linger_seconds,
            )
            return True

    def _count_lost(self, runs: int, why: str) -> None:
        """Count runs that are not judged, and note the reason as a problem."""
        with self._state_changed:
            self.dropped += runs
        for _ in range(runs):
            self.problems.note(why)

    def _put_in_queue(
        self, make_samples: Callable[[], Iterable[Sample]], due: float = 0.0
    ) -> None:
        """Put a function into the queue, and start the thread if none runs.

        Args:
            make_samples: Makes samples; called in the thread.
            due: The earliest time for calling it, by the monotonic clock; by default it
                may be called at once.
        """
        self._queue.append((due, make_samples))
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name="ragmetrics-background", daemon=True
            )
            self._thread.start()
        self._state_changed.notify_all()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything recorded so far is judged.

        False at the timeout, in seconds, None for none.
        """
        return self._wait(timeout, stop=False)

    def stop(self, timeout: float | None = None) -> bool:
        """Accept no further runs, and wait as ``flush`` does.

        How many are unjudged at the timeout is a problem.
        """
        if is_judge_work():
            raise SettingError(_WAITS_FOR_ITSELF)
        self._on_stop()
        is_all_judged = self._wait(timeout, stop=True)
        if not is_all_judged:
            self.problems.note(
                f"{self.pending} runs were not judged when stop() gave up after"
                f" {timeout:g} seconds"
            )
        return is_all_judged

    def _wait(self, timeout: float | None, *, stop: bool) -> bool:
        """Wait until all recorded runs are judged and the sinks have the results.

        Args:
            timeout: The most seconds to wait for the judge, and once more for the
                sinks. None to wait for the judge for ever, and for the sinks
                ``_SINK_SECONDS``.
            stop: Whether no further run is accepted from now on.

        Returns:
            Whether all was judged in time.

        Raises:
            SettingError: If a judge or metric calls it: it would wait for itself.
        """
        if is_judge_work():
            raise SettingError(_WAITS_FOR_ITSELF)
        with self._state_changed:
            if not self._stopped:
                # the lingering of queued runs ends; runs held back come last, since
                # queued ones may belong to them
                self._queue = deque((0.0, work) for _, work in self._queue)
                self._put_in_queue(self._make_waiting_samples)
            self._stopped = self._stopped or stop
            self._state_changed.notify_all()
            is_all_judged = self._state_changed.wait_for(
                lambda: not (self._queue or self._n_in_flight), timeout
            )
        # all sinks hand on what they hold, at the same time
        deadline = time.monotonic() + (_SINK_SECONDS if timeout is None else timeout)
        for outlet in self.outlets:
            outlet.put(FLUSH)
        for outlet in self.outlets:
            outlet.wait(deadline)
        return is_all_judged

    @property
    def pending(self) -> int:
        """The number of runs that wait, and of samples that are being judged."""
        with self._state_changed:
            # entries of flush() and of this thread are no runs
            no_runs = (self._make_waiting_samples, self._make_due_samples)
            waiting = [work for _, work in self._queue if work not in no_runs]
            return self._n_in_flight + len(waiting)

    def report(self, timeout: float | None = None) -> Report:
        """Wait for the judge, and report on what was judged so far.

        It holds the latest 1,000 results, and says so where there were more.

        Args:
            timeout: The most seconds to wait; None for any number. At the timeout the
                report says that it is not complete.
        """
        is_all_judged = self.flush(timeout)
        with self._state_changed:
            results = sorted(self._results, key=lambda result: result.index)
            n_judged = self._n_results
        facts = self._run.facts
        if n_judged > len(results):
            note = (
                f"the latest {len(results):,} of {n_judged:,} results are kept; a sink"
                " gets them all"
            )
            facts = facts.model_copy(update={"notes": (*facts.notes, note)})
        if not is_all_judged:
            facts = facts.model_copy(
                update={
                    "interrupted": True,
                    "stopped": f"{self.pending} runs not yet judged",
                }
            )
        elif not results and self.problems:
            why = self.problems.why_no_sample
            facts = facts.model_copy(update={"stopped": why})
        return Report(results=results, run=facts)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Samples of the latest 1,000 results."""
        results = self.report().results
        return tuple(result.sample for result in results if result.sample is not None)

    def _work(self) -> None:
        """Start queued runs in order, and count results, until stopped.

        It is what the background thread does. It ends once the evaluator is stopped and
        nothing waits or is being judged. Example: three samples are judged and two runs
        wait: it counts three results, and makes the samples of the first run.
        """
        with as_judge_work():  # calls of models in here are no runs of the application
            while self._wait_for_work():
                make_samples: Callable[[], Iterable[Sample]] | None = None
                with self._state_changed:
                    results = self._uncounted_results
                    self._uncounted_results = deque()
                    n_done = len(results)
                    if self._seconds_until_start == 0:
                        _, make_samples = self._queue.popleft()
                        # the making of the samples counts, too
                        self._n_in_flight += 1
                        n_done += 1
                # without the lock, since both calls run code of the user
                for result in results:
                    self._count_result(result)
                if make_samples is not None:
                    self._start_judging(make_samples)
                with self._state_changed:
                    self._n_in_flight -= n_done
                    self._state_changed.notify_all()

    def _wait_for_work(self) -> bool:
        """Wait until a result is there to be counted or a run may be started.

        Returns:
            Whether there is such work. False if the evaluator is stopped and there will
            be none; the thread, which must end then, is forgotten.
        """
        with self._state_changed:
            while not self._uncounted_results and self._seconds_until_start != 0:
                if self._stopped and not (self._queue or self._n_in_flight):
                    self._thread = None
                    return False
                seconds = self._seconds_until_start or _IDLE_SECONDS
                has_changed = self._state_changed.wait(seconds)
                if not has_changed and not self._queue:
                    self._queue.append((0.0, self._make_due_samples))
            return True

    @property
    def _seconds_until_start(self) -> float | None:
        """The seconds until samples of the next run may be made; 0 if they may be now.

        None while no run waits, or too many samples are being judged.
        """
        if not self._queue or self._n_in_flight >= self._run.most_rows:
            return None
        due, _ = self._queue[0]
        return max(0.0, due - time.monotonic())

    @guard_hook
    def _start_judging(self, make_samples: Callable[[], Iterable[Sample]]) -> None:
        """Make samples, and begin to judge the ones that are drawn.

        Turns of one conversation are drawn together, so that a conversation is judged
        as a whole or not at all. A sample that ``redact`` drops is not judged.
        """
        for unredacted in make_samples():
            name = unredacted.id
            if unredacted.ledger is not None and unredacted.ledger.conversation:
                name = unredacted.ledger.conversation
            drawn = random.Random(name).random()  # noqa: S311  # no secret
            if drawn >= self._settings.sample_rate:
                continue
            sample = self._redaction.redact(unredacted)
            if sample is None:
                continue
            future = self._run.start_one_sample(self._n_judging_begun, sample)
            self._n_judging_begun += 1
            with self._state_changed:
                self._n_in_flight += 1
            future.add_done_callback(self._take_result)

    def _take_result(self, future: Future[SampleResult]) -> None:
        """Hand a judged sample to our thread, which counts it.

        This method runs on the judges' loop, which must not wait for ``on_result``.
        """
        with self._state_changed:
            self._uncounted_results.append(future)
            self._state_changed.notify_all()

    @guard_hook
    def _count_result(self, future: Future[SampleResult]) -> None:
        """Count the outcomes of a judged sample, and hand its result on.

        A sample has a ``context_recall`` of 0.8, and ``context_adherence`` failed: 0.8
        enters the mean, the failure is a problem, and sinks and ``on_result`` get both.
        An exception, such as one of ``on_result``, is counted as a problem.
        """
        result = future.result()
        if self._run.stopped:  # why no further sample is judged; "" while it goes on
            self.problems.note(
                "a limit was reached, so that samples are not judged:"
                f" {self._run.stopped}"
            )
        for name, outcome in result.results.items():
            self.aggregates[name].add(outcome.status, outcome.value)
            if outcome.status == "failed":
                self.problems.note(f"{name} failed: {outcome.error.type}")
        with self._state_changed:
            self._n_results += 1
            self._results.append(result)
        for outlet in self.outlets:
            outlet.put(result)
        if self._settings.on_result is not None:
            self._settings.on_result(result)


class WatchArguments(TypedDict, total=False):
    """Arguments of ``FrontDoor.watch`` that others hand on, for editors and type checkers."""

    sample_rate: float
    max_queue: int | None
    on_result: Callable[[SampleResult], None] | None
    sinks: Iterable[Sink]
    concurrency: int
    limits: Limits | None
    redact: Redact | None
    question_from: FieldPlace | None
    contexts_from: FieldPlace | None
    answer_from: FieldPlace | None
    context_tools: Collection[str] | None


class WatchingEvaluator(BackgroundEvaluator[Run]):
    """Scores the runs of one framework in the background, until it is stopped.

    Args:
        front_door: Tells who records the runs, and makes samples of them.
        metrics: As for ``FrontDoor.watch``.
        judge: As for ``FrontDoor.watch``.
        **arguments: As for ``FrontDoor.watch``.

    Attributes:
        turns: Makes the samples.
    """

    def __init__(
        self,
        front_door: "FrontDoor[Run]",
        metrics: Metrics = None,
        judge: object = None,
        **arguments: Unpack[WatchArguments],
    ) -> None:
        """Prepare the evaluator, and listen."""
        settings: dict[str, Any] = dict(arguments)
        names = WatchArguments.__annotations__
        unknown = [name for name in settings if name not in names]
        if unknown:
            raise TypeError(
                f"{type(self).__name__}() takes no argument {unknown[0]!r}, but metrics,"
                f" judge, {', '.join(names)}"
            )
        places = {name: settings.pop(name, None) for name in _PLACES}
        self.turns = front_door.turns(Overrides(**places), Problems())
        super().__init__(
            self.turns.add,
            metrics,
            front_door.as_judge(judge),
            WatchSettings(**settings),
            make_waiting_samples=self.turns.finish,
            make_due_samples=self.turns.samples_due,
            on_stop=lambda: front_door.listeners.remove(listener),
            problems=self.turns.problems,
        )
        # it hands each finished run over, whose samples our thread makes and judges
        listener = Listener(self.problems, self.record, all_contexts=True)
        front_door.listeners.add(listener)


def _stop_at_exit(reference: weakref.ref[BackgroundEvaluator[Any]]) -> None:
    """Wait two seconds for what is not judged yet, when the process ends.

    ``stop`` notes how many runs are left. The reference is weak, so that it does not
    keep the evaluator until then.
    """
    evaluator = reference()
    if evaluator is None:
        return
    sinks_are_behind = any(outlet.is_behind for outlet in evaluator.outlets)
    if sinks_are_behind or evaluator.pending:
        evaluator.stop(timeout=_EXIT_SECONDS)
