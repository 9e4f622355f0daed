"""Scores recorded runs in the background, while the application goes on.

A recorded run goes through these hands::

    record()            in the application's thread: puts the run into the queue
    the thread of ours  makes its samples, and starts judging them
    the judges' loop    asks the models
    the thread of ours  counts the results, and hands them to sinks and ``on_result``

The application never waits for any of this.
"""

import atexit
import os
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any, Generic, Self, TypedDict, Unpack
from uuid import uuid4

from ragmetrics_core.capture.captured import Redact, Redaction
from ragmetrics_core.capture.hooks import (
    Listener,
    Problems,
    Run,
    guard_hook,
    renew_after_fork,
)
from ragmetrics_core.capture.plain_values import FieldPlace, Overrides
from ragmetrics_core.data import Sample, SampleResult, SettingError
from ragmetrics_core.data.errors import crash_in_words
from ragmetrics_core.engine.resolve import JudgeLike
from ragmetrics_core.engine.run import Metrics
from ragmetrics_core.engine.run import Run as EvaluationRun
from ragmetrics_core.metrics.registry import choose_metrics
from ragmetrics_core.models.judge_work import as_judge_work, is_judge_work
from ragmetrics_core.models.limits import Limits
from ragmetrics_core.reporting.jsonl import json_line
from ragmetrics_core.reporting.report import Report, Sink, check_sink

if TYPE_CHECKING:
    from ragmetrics_core.capture.front_door import FrontDoor

_EXIT_SECONDS = 2.0
_SECONDS_TO_CUT_OFF = 0.5  # what is judged when stop() gives up ends within these
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
        finish: Makes the samples of runs that ``make_samples`` keeps because a further
            run may belong to them. It is called whenever ``flush``, ``report`` or ``stop``
            wait.
        samples_due: Makes the samples of those of these runs that have waited long
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
        finish: Callable[[], Iterable[Sample]] = tuple,
        samples_due: Callable[[], Iterable[Sample]] = tuple,
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
        self._finish = finish
        # the same, of those that have waited long enough
        self._samples_due = samples_due
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
        self._given_up = ""  # what ``stop`` gave up, in words
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

        What is unjudged at the timeout is given up: no further call begins, nothing
        waits for it any more, and a problem says how many runs it is.
        """
        return self._wait(timeout, stop=True)

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
        if stop:
            self._on_stop()
        with self._state_changed:
            if not self._stopped:
                # the lingering of queued runs ends; runs held back come last, since
                # queued ones may belong to them
                self._queue = deque((0.0, work) for _, work in self._queue)
                self._put_in_queue(self._finish)
            self._stopped = self._stopped or stop
            self._state_changed.notify_all()
            self._state_changed.wait_for(
                lambda: self._given_up or not (self._queue or self._n_in_flight),
                timeout,
            )
            is_unjudged = bool(self._queue or self._n_in_flight)
            if stop and is_unjudged and not self._given_up:
                self._given_up = (
                    f"{self.pending} runs were not judged when stop() gave up after"
                    f" {timeout:g} seconds"
                )
                self.problems.note(self._given_up)
                self._queue.clear()
                self._run.cut_off()
                self._state_changed.notify_all()
                # what these cost is still counted
                self._state_changed.wait_for(
                    lambda: not self._n_in_flight, _SECONDS_TO_CUT_OFF
                )
            is_all_judged = not (self._given_up or is_unjudged)
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
            no_runs = (self._finish, self._samples_due)
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
        update: dict[str, object] = {}
        if n_judged > len(results):
            note = (
                f"the latest {len(results):,} of {n_judged:,} results are kept; a sink"
                " gets them all"
            )
            update["notes"] = (*facts.notes, note)
        if not is_all_judged:
            update["interrupted"] = True
            not_yet = f"{self.pending} runs not yet judged"
            update["stopped"] = self._given_up or not_yet
        elif not results and self.problems:
            update["stopped"] = self.problems.why_no_sample
        return Report(results=results, run=facts.model_copy(update=update))

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
                    self._queue.append((0.0, self._samples_due))
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
        # why no further sample is judged; "" while it goes on
        if self._run.stopped and not self._given_up:
            self.problems.note(f"samples are not judged: {self._run.stopped}")
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


# A sink is the user's object that results are written to. It may raise, be slow or hang:
# so each has a bounded queue and a thread of its own.

FLUSH_SECONDS = 5.0
"""A sink is flushed at the latest this many seconds after a result was written to it."""

_ROW_BEGINS = b'{"index": '

FLUSH = None
"""What stands in a sink's queue in place of a result, and asks for a flush."""


class JsonlSink(Sink):
    """Appends each result to a file of JSON lines, as the rows of a report.

    The file holds texts of the samples, so a new one is readable for its owner alone.
    Where an earlier process died in the middle of a line, a new line begins.

    It grows without an end. It is opened for each row, so that ``logrotate`` and the like
    may rename it at any time. A run that is repeated needs a new file: where its first
    rows stand again, no gate is decided.

    Args:
        path: The file, in a folder that exists; it may exist, if its first line is such
            a row or the beginning of one.

    Raises:
        SettingError: If another file stands there, or there is no such folder.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        beginning = b""
        with suppress(OSError):
            if self._path.is_file():
                with self._path.open("rb") as file:
                    beginning = file.read(len(_ROW_BEGINS))
        if not _ROW_BEGINS.startswith(beginning):
            raise SettingError(
                f"JsonlSink({str(path)!r}) would append to a file that no sink"
                " began; name another file"
            )
        if not self._path.parent.is_dir():
            raise SettingError(f"JsonlSink({str(path)!r}): there is no such folder")

    def write(self, result: SampleResult) -> None:
        """Append one line; it has been given to the operating system on return."""
        appended = result.model_copy(update={"appended": uuid4().hex})
        line = json_line(appended).encode()
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(self._path, flags, 0o600), "a+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            if size and file.read(1) != b"\n":
                line = b"\n" + line
            file.write(line)


def checked_sinks(sinks: object) -> list[Sink]:
    """Return the sinks of a watch as a list, checked that each can be written to.

    Raises:
        SettingError: If it is no list of sinks.
    """
    is_text = isinstance(sinks, (str, bytes, os.PathLike))
    if is_text or not isinstance(sinks, Iterable):
        raise SettingError(
            "sinks= takes a list of sinks, e.g. sinks=[JsonlSink('scores.jsonl')]; got a"
            f" {type(sinks).__name__}"
        )
    listed_sinks = list(sinks)
    for sink in listed_sinks:
        check_sink(sink)
    return listed_sinks


class Outlet:
    """A sink that may raise, be slow or hang, behind a queue and a thread of its own.

    The sink is written to and flushed in that thread alone. It is flushed when somebody
    asks for it, and ``FLUSH_SECONDS`` after a result. Results that it did not take are
    counted in ``problems``.

    Args:
        sink: The sink.
        problems: Where errors and lost results are counted.
        max_queue: Most results that wait for the sink; None for any number.
    """

    def __init__(self, sink: Sink, problems: Problems, max_queue: int | None) -> None:
        self._sink = sink
        self._max_queue = max_queue
        self._name = type(sink).__name__
        self._problems = problems
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Begin with an empty queue and no thread, when made and in a forked process.

        Results that waited before the fork are sent by the parent process.
        """
        self._queue = Queue[SampleResult | None]()  # has always room for ``FLUSH``
        # when the results written since the last flush are flushed; None without any
        self._flush_due_at: float | None = None
        self._thread: threading.Thread | None = None

    def put(self, result: SampleResult | None) -> None:
        """Put a result into the queue, or ``FLUSH``; never blocks.

        If ``max_queue`` results wait, a further result is lost, and counted as a
        problem. ``FLUSH`` is never lost: the sink may hold results until it comes.
        """
        has_room = self._max_queue is None or self._queue.qsize() < self._max_queue
        if has_room or result is FLUSH:
            self._queue.put_nowait(result)
        else:
            self._problems.note(
                f"{self._name} is slower than the judge: results are not sent to it"
            )
        with self._queue.mutex:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="ragmetrics-sink", daemon=True
                )
                self._thread.start()

    @property
    def is_behind(self) -> bool:
        """Whether a result waits for the sink, or was written to it and not flushed."""
        return bool(self._queue.unfinished_tasks) or self._flush_due_at is not None

    def wait(self, deadline: float) -> None:
        """Wait until the sink has all results; note a problem if it is too slow.

        Args:
            deadline: The latest time to wait for, by the monotonic clock.
        """
        with self._queue.all_tasks_done:
            seconds_left = max(0.0, deadline - time.monotonic())
            is_all_sent = self._queue.all_tasks_done.wait_for(
                lambda: not self._queue.unfinished_tasks, seconds_left
            )
        if not is_all_sent:
            self._problems.note(f"{self._name} did not take all results in time")

    def _work(self) -> None:
        """Send queued results to the sink for ever: the thread's own function.

        The sink is flushed when the queue asks for it, and ``FLUSH_SECONDS`` after the
        first result that was written since the last flush: results that come at 0.0 and
        0.5 are flushed together.
        """
        # calls of the sink's own client are no runs of the application
        with as_judge_work():
            while True:
                with suppress(Empty):  # no result came until the flush was due
                    due_at = self._flush_due_at
                    seconds = None
                    if due_at is not None:
                        seconds = max(0.0, due_at - time.monotonic())
                    result = self._queue.get(timeout=seconds)
                    self._send(result)
                    if result is FLUSH:
                        self._flush_due_at = None
                    elif self._flush_due_at is None:
                        self._flush_due_at = time.monotonic() + FLUSH_SECONDS
                    self._queue.task_done()
                due_at = self._flush_due_at
                if due_at is not None and due_at <= time.monotonic():
                    self._send(FLUSH)
                    self._flush_due_at = None

    def _send(self, result: SampleResult | None) -> None:
        """Write a result to the sink, or flush it for ``FLUSH``; count what it raises."""
        try:
            if result is FLUSH:
                self._sink.flush()
            else:
                self._sink.write(result)
        except BaseException as error:  # noqa: BLE001  # this thread is ours, and goes on
            # without the error's words: a sink of the user's may put texts into them
            self._problems.note(
                f"{self._name}: {type(error).__name__}",
                f"the sink {self._name} raised {crash_in_words(error)}, and may not have"
                " kept a result; mend the sink. The application and other sinks are not"
                " affected",
            )


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
        overrides = Overrides(**places)
        self.turns = front_door.turns(overrides, Problems())
        super().__init__(
            self.turns.add,
            metrics,
            front_door.as_judge(judge),
            WatchSettings(**settings),
            finish=self.turns.finish,
            samples_due=self.turns.samples_due,
            on_stop=lambda: front_door.listeners.remove(listener),
            problems=self.turns.problems,
        )
        # it hands each finished run over, whose samples our thread makes and judges
        listener = Listener(
            self.problems,
            self.record,
            all_contexts=True,
            names_looked_up=overrides.names_looked_up,
        )
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
