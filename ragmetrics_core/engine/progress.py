"""What a run shows while it goes on.

It is a line on a terminal or in a notebook's cell, and log lines otherwise.
"""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from ragmetrics_core.data import SampleResult
from ragmetrics_core.data.display import is_terminal

logger = logging.getLogger("ragmetrics_core")

# Seconds between two log lines, and between two updates of the line on a terminal.
LOG_SECONDS = 10.0
LINE_SECONDS = 0.2
# Seconds without any reply after which that is said.
SILENT_SECONDS = 30.0
_LOOKING_SECONDS = 1.0  # so often it is looked whether there was a reply
_LONGEST_LINE = 79


@dataclass
class Progress:
    """How far a run is.

    ``total`` and ``done`` count samples, bad rows included. ``total`` is None if it is
    not known beforehand.

    ``failed`` counts results, ``calls`` those to the judge; ``cost`` is in US dollars,
    None once a price is unknown.
    """

    total: int | None
    done: int = 0
    failed: int = 0
    calls: int = 0
    cost: float | None = 0.0
    started: float = field(default_factory=time.monotonic)

    def add(self, result: SampleResult) -> None:
        """Count one sample's results."""
        self.done += 1
        self.failed += sum(one.status == "failed" for one in result.results.values())
        usage = result.usage
        self.calls += usage.calls
        if self.cost is None or usage.cost is None:
            self.cost = None
        else:
            self.cost += usage.cost

    def line(self) -> str:
        """Return a line for people: samples done, failed, calls, cost, time left.

        Without a total, the line says no time left. Example:
        "12/50 samples, 1 failed, 30 calls, $0.0012, 19 s left".
        """
        of_total = ""
        time_left = ""
        if self.total is not None:
            of_total = f"/{self.total}"
            if 0 < self.done < self.total:
                seconds_each = (time.monotonic() - self.started) / self.done
                seconds_left = seconds_each * (self.total - self.done)
                time_left = f", {seconds_left:.0f} s left"
        cost = "price unknown" if self.cost is None else f"${self.cost:.4f}"
        return (
            f"{self.done}{of_total} samples, {self.failed} failed, {self.calls} calls,"
            f" {cost}{time_left}"
        )


Show = bool | Callable[[Progress], None] | None
"""True or False; None: a line on a terminal, else logs; a callable gets progress."""


class Display:
    """Shows the progress of a run until it ends; use it as a context manager."""

    def __init__(self, total: int | None, show: Show) -> None:
        """Begin at no sample done, and find out where the progress can be shown.

        Example: ``Display(100, show=True)`` shows a line that counts up to 100 samples.

        Args:
            total: How many samples there will be; None if nobody knows.
            show: True for a line, False for nothing; None for a line on a terminal or
                in a notebook, and for log lines elsewhere. A callable gets the
                ``Progress`` after each sample.
        """
        self.progress = Progress(total)
        self._show = show
        self._last_shown = time.monotonic()
        in_notebook = type(sys.stderr).__module__.startswith("ipykernel")
        has_reader = in_notebook or is_terminal(sys.stderr)
        self._shows_line = show is True or (show is None and has_reader)
        self._cancelled_before = _times_cancelled()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shows_line:
            _write(f"\r{' ' * _columns()}\r")

    def add(self, result: SampleResult) -> SampleResult:
        """Count one sample, show it and hand it on."""
        self.progress.add(result)
        if callable(self._show):
            self._show(self.progress)
        pause = LINE_SECONDS if self._shows_line else LOG_SECONDS
        is_time = time.monotonic() - self._last_shown >= pause
        if self._show is not False and is_time:
            self._show_line(self.progress.line())
        return result

    def wait_for(
        self, future: Future[Any], silence_in_words: Callable[[float], str]
    ) -> None:
        """Wait until a future is done, and say where no reply comes meanwhile.

        A Ctrl-C ends the wait also in a coroutine, whose task asyncio then cancels.

        Args:
            future: The future.
            silence_in_words: Says that no reply came for so many seconds; "" if one
                came.
        """
        pause = 0.0 if self._shows_line else LOG_SECONDS
        shows_words = not (self._show is False or callable(self._show))
        while True:
            if _times_cancelled() > self._cancelled_before:
                raise KeyboardInterrupt
            if future.done():
                return
            # A wait without an end may sleep through a Ctrl-C that comes as it begins.
            wait([future], timeout=min(_LOOKING_SECONDS, SILENT_SECONDS))
            words = silence_in_words(SILENT_SECONDS)
            if shows_words and words and time.monotonic() - self._last_shown >= pause:
                self._show_line(words)

    def _show_line(self, line: str) -> None:
        self._last_shown = time.monotonic()
        if self._shows_line:
            _write(f"\r{line[: _columns()]:<{_columns()}}")
        else:
            logger.info("%s", line)


def _times_cancelled() -> int:
    """How often the task that runs this was asked to end; 0 outside of a task."""
    with suppress(RuntimeError):  # no loop runs
        task = asyncio.current_task()
        return 0 if task is None else task.cancelling()
    return 0


def _columns() -> int:
    """Return how long the line may be: one that the terminal breaks is never wiped."""
    with suppress(AttributeError, OSError, ValueError):
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
        return min(columns - 1, _LONGEST_LINE) if columns > 1 else _LONGEST_LINE
    return _LONGEST_LINE


def _write(text: str) -> None:
    """Write to standard error; a run does not end because that is missing or closed."""
    with suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()
