"""Hands results to sinks while an application runs.

A sink is the user's object that results are written to. It may raise, be slow or hang:
so each has a bounded queue and a thread of its own.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from uuid import uuid4

from ragmetrics_core.capture.hooks import Problems, renew_after_fork
from ragmetrics_core.data import SampleResult, SettingError
from ragmetrics_core.data.errors import crash_in_words
from ragmetrics_core.models.judge_work import as_judge_work
from ragmetrics_core.reporting.jsonl import json_line
from ragmetrics_core.reporting.report import Sink, check_sink

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
