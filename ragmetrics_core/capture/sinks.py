"""Where results go while an application runs: each sink behind a bounded queue and a thread of its own."""

from __future__ import annotations

import threading
import time
import traceback
from itertools import pairwise
from pathlib import Path
from queue import Full, Queue

from ragmetrics_core.capture.hooks import Problems, guard_hook, renew_after_fork
from ragmetrics_core.data import SampleResult
from ragmetrics_core.models.framework_model import as_judge_work
from ragmetrics_core.reporting.jsonl import json_line
from ragmetrics_core.reporting.report import Sink


class JsonlSink(Sink):
    """Appends each result to a file of JSON lines, as the rows of a report.

    Texts of the samples are in it.

    A file that would grow over ``max_mb`` becomes ``PATH.1``, that one ``PATH.2``, …;
    ``keep`` of them stay.
    """

    def __init__(self, path: str | Path, *, max_mb: float = 64, keep: int = 5) -> None:
        self._path, self._most, self._keep = Path(path), max_mb * 1e6, max(1, keep)

    def write(self, result: SampleResult) -> None:
        """Append one line; it has left this process when this returns."""
        line = json_line(result).encode()
        if self._path.exists() and self._path.stat().st_size + len(line) > self._most:
            names = [
                self._path,
                *(Path(f"{self._path}.{n}") for n in range(1, self._keep + 1)),
            ]
            for name, later in reversed([*pairwise(names)]):
                if name.exists():
                    name.replace(later)
        with self._path.open("ab") as file:
            file.write(line)


class ProblemsOfSink:
    """Counts what a sink raises under the sink's own name."""

    def __init__(self, sink_name: str, problems: Problems) -> None:
        self._sink_name = sink_name
        self._problems = problems

    def record(self, hook: str, error: BaseException) -> None:
        """Count an error; the first of its kind is logged, without its words.

        A sink of the user's may put texts of samples into them.
        """
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else hook
        self._problems.note(
            f"{self._sink_name}: {type(error).__name__}",
            f"the sink {self._sink_name} raised {type(error).__name__} at {place}, and"
            " did not take a result; mend the sink. The application and other sinks"
            " are not affected",
        )

    def note(self, message: str) -> None:
        """Count something that the user should know."""
        self._problems.note(message)


class Outlet:
    """A sink that may raise, be slow or hang.

    What it did not take is counted in ``problems``.
    """

    def __init__(self, sink: Sink, problems: Problems, max_queue: int | None) -> None:
        self._sink, self._most = sink, max_queue or 0
        self.problems = ProblemsOfSink(type(sink).__name__, problems)
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Nothing waits: what was written before is the parent's."""
        self.queue = Queue[SampleResult | None](self._most)  # None asks for a flush
        self._thread: threading.Thread | None = None

    def put(self, result: SampleResult | None) -> None:
        """Queue a result, or a flush; never blocks."""
        try:
            self.queue.put_nowait(result)
        except Full:
            self.problems.note(
                f"{type(self._sink).__name__} is slower than the judge: results are not"
                " sent to it"
            )
        with self.queue.mutex:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="ragmetrics-sink", daemon=True
                )
                self._thread.start()

    def wait(self, until: float) -> None:
        """Wait until all is sent, at most to this time of the monotonic clock."""
        with self.queue.all_tasks_done:
            left = max(0.0, until - time.monotonic())
            if not self.queue.all_tasks_done.wait_for(
                lambda: not self.queue.unfinished_tasks, left
            ):
                self.problems.note(
                    f"{type(self._sink).__name__} did not take all results in time"
                )

    def _work(self) -> None:
        with as_judge_work():  # a client that is traced is no run of the application
            while True:
                self._send(self.queue.get())
                self.queue.task_done()

    @guard_hook
    def _send(self, result: SampleResult | None) -> None:
        if result is None:
            self._sink.flush()
        else:
            self._sink.write(result)
