"""What a capture saw: runs as they were recorded, samples as they are asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ragmetrics_core.capturing.forks import renew_after_fork
from ragmetrics_core.capturing.guarded import Problems, guarded
from ragmetrics_core.capturing.judge_work import as_judge_work
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.engine.evaluation import aevaluate, evaluate
from ragmetrics_core.engine.run import JudgeLike, Metrics
from ragmetrics_core.reporting.report import Report

Run = TypeVar("Run")


@dataclass(frozen=True)
class Given:
    """Values that the user gives for what is captured.

    Args:
        question: The question, instead of the one found.
        reference: The expected answer, one or several.
        id: Id of the sample; further samples of the same capture get ``id#1``, ``id#2``, ….
        metadata: The user's own data.
    """

    question: str | None = None
    reference: str | tuple[str, ...] | list[str] | None = None
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def applied(self, sample: Sample, number: int) -> Sample:
        """A sample with these values in it.

        Args:
            sample: The captured sample.
            number: How many samples the same capture gave before.
        """
        update: dict[str, Any] = {}
        if self.question is not None:
            update["question"] = self.question
        if self.reference is not None:
            update["reference"] = self.reference
        if self.id is not None:
            update["id"] = self.id if number == 0 else f"{self.id}#{number}"
        if self.metadata:
            update["metadata"] = {**sample.metadata, **self.metadata}
        if not update:
            return sample
        # Fields, not a dump: contexts are shared, not copied.
        return Sample(**{**{name: getattr(sample, name) for name in Sample.model_fields}, **update})


class Captured(Generic[Run]):
    """Samples of the runs that a capture saw.

    Recording a run only keeps it; samples are assembled when they are first asked for, in the thread that asks.

    Args:
        build: Pure function from a recorded run to its samples.
        given: Values of the user.
        max_samples: Most runs kept; later ones are counted in ``dropped`` with a warning. None keeps all.

    Attributes:
        problems: Internal errors; an application's own error is ``Sample.error``.
        dropped: Runs not kept because of ``max_samples``.
    """

    def __init__(
        self, build: Callable[[Run], Iterable[Sample]], *, given: Given | None = None, max_samples: int | None = None
    ) -> None:
        self.problems = Problems()
        self.dropped = 0
        self._build = build
        self._given = given or Given()
        self._max_samples = max_samples
        self._pending: list[Run] = []
        self._samples: list[Sample] = []
        self._kept = 0
        self._lock = threading.RLock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """In a forked child: the parent's threads may have held the lock."""
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"Captured({self._kept} runs, {len(self.problems)} problems, {self.dropped} dropped)"

    def record(self, run: Run) -> None:
        """Keep a finished run; cheap, from any thread."""
        with self._lock:
            if self._max_samples is not None and self._kept >= self._max_samples:
                self.dropped += 1
                self.problems.note(
                    f"more than max_samples={self._max_samples} runs were captured; later ones are dropped"
                )
                return
            self._kept += 1
            self._pending.append(run)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Samples of all runs recorded so far, in the order in which the runs ended."""
        with self._lock:
            pending, self._pending = self._pending, []
            for run in pending:
                self._assemble(run)
            return tuple(self._samples)

    @guarded
    def _assemble(self, run: Run) -> None:
        for sample in self._build(run):
            self._samples.append(self._given.applied(sample, len(self._samples)))

    def evaluate(self, metrics: Metrics = None, *, judge: JudgeLike = None, **settings: Any) -> Report:
        """Score what was captured; see ``ragmetrics_core.evaluate``."""
        samples = self.samples
        with as_judge_work():
            return evaluate(samples, metrics, judge=judge, **settings)

    async def aevaluate(self, metrics: Metrics = None, *, judge: JudgeLike = None, **settings: Any) -> Report:
        """Score what was captured, without blocking the event loop."""
        samples = self.samples
        with as_judge_work():
            return await aevaluate(samples, metrics, judge=judge, **settings)
