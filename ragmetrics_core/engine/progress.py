"""What a run shows while it goes on: a bar on a terminal, log lines otherwise."""

import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from ragmetrics_core.data.results import SampleResult

logger = logging.getLogger("ragmetrics_core")

_LOG_SECONDS = 10.0


@dataclass
class Progress:
    """How far a run is: samples in ``total`` (None if not known beforehand) and ``done``, bad rows included.

    ``failed`` counts results, ``calls`` those to the judge; ``cost`` is in US dollars, None once a price is unknown.
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
        self.failed += sum(outcome.status == "failed" for outcome in result.results.values())
        usage = result.usage
        self.calls += usage.calls
        self.cost = None if self.cost is None or usage.cost is None else self.cost + usage.cost

    def line(self) -> str:
        """One line for people: done, failed, calls, cost, time left."""
        of = left = ""
        if self.total is not None:
            of, each = f"/{self.total}", (time.monotonic() - self.started) / max(self.done, 1)
            left = f", {each * (self.total - self.done):.0f} s left" if 0 < self.done < self.total else ""
        cost = "price unknown" if self.cost is None else f"${self.cost:.4f}"
        return f"{self.done}{of} samples, {self.failed} failed, {self.calls} calls, {cost}{left}"


class Display:
    """Shows progress until the run ends, over ``total`` samples or None; use it as a context manager.

    ``show`` is True or False; None shows a bar on a terminal and log lines elsewhere; a callable gets the ``Progress``
    after each sample.
    """

    def __init__(self, total: int | None, show: bool | Callable[[Progress], None] | None = None) -> None:
        self.progress = Progress(total)
        self._show = show
        self._bar: Any = None
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        if self._show is True or (self._show is None and sys.stderr.isatty()):
            from rich.console import Console  # imported only where a bar is shown
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar

            columns = (BarColumn(bar_width=24), TextColumn("{task.description}", markup=False))
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task(self.progress.line(), total=self.progress.total)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def add(self, result: SampleResult) -> SampleResult:
        """Count one sample, show it and hand it on."""
        self.progress.add(result)
        if callable(self._show):
            self._show(self.progress)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self.progress.done, description=self.progress.line())
        elif self._show is not False and time.monotonic() - self._last >= _LOG_SECONDS:
            self._last = time.monotonic()
            logger.info("%s", self.progress.line())
        return result
