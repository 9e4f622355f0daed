"""Evaluating a whole process in the background."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self

from haystack_integrations.components.evaluators.ragmetrics.capturing import Place
from haystack_integrations.tracing.ragmetrics.installing import attach, detach, displaced
from haystack_integrations.tracing.ragmetrics.nodes import Run
from haystack_integrations.tracing.ragmetrics.samples import Where, samples_from

from ragmetrics_core.capturing import BackgroundEvaluator
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.engine.run import JudgeLike, Metrics


class Watcher(BackgroundEvaluator[Run]):
    """Judges every run of the process in a thread of its own, until it is stopped; made by ``watch``."""

    _attached = False

    def start(self) -> Self:
        """Begin to take runs."""
        attach(self, process=True)
        self._attached = True
        return self

    def stop(self, timeout: float | None = None) -> bool:
        """Take no further runs, remove the tracer, and wait for the judge.

        Args:
            timeout: Seconds to wait at most; None waits as long as it takes.

        Returns:
            True if nothing is left, False at the timeout.
        """
        if self._attached:
            self._attached = False
            if displaced():
                self.problems.note(
                    "another tracer was enabled after watch() and took its place; enable tracers before watch()"
                )
            detach(self)
        return super().stop(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def watch(
    metrics: Metrics = None,
    judge: JudgeLike = None,
    *,
    sample_rate: float = 1.0,
    max_queue: int | None = 1000,
    keep: bool = False,
    on_result: Callable[[SampleResult], None] | None = None,
    concurrency: int = 8,
    seed: int | None = None,
    question_from: Place | None = None,
    contexts_from: Place | None = None,
    answer_from: Place | None = None,
    generator: str | None = None,
    build: Callable[[Run], Any] | None = None,
) -> Watcher:
    """Evaluate every run of every pipeline and agent of the process in the background; none of them waits.

    Args:
        metrics: Metrics or their names; None for all.
        judge: See ``ragmetrics_core.evaluate``; ``HaystackModel`` for a model of Haystack.
        sample_rate: Share of the runs that are judged, in (0, 1].
        max_queue: Most runs waiting; later ones are dropped and counted.
        keep: Keep every result for ``report()``; otherwise only running figures are kept, in constant memory.
        on_result: Called in the background thread with each result.
        concurrency: Most model calls in flight.
        seed: Seed of the choice that ``sample_rate`` makes.
        question_from: See ``capture``.
        contexts_from: See ``capture``.
        answer_from: See ``capture``.
        generator: See ``capture``.
        build: See ``capture``.

    Returns:
        The watcher: ``aggregates``, ``flush(timeout)``, ``report()``, ``stop()``.

    Raises:
        SettingError: If a setting is invalid.

    Example:
        >>> watcher = watch(["context_adherence"], judge="lexical")
        >>> watcher.stop()
        True
    """
    where = Where(question_from, contexts_from, answer_from, build, generator)
    where.check()
    watcher = Watcher(
        partial(samples_from, where=where),
        metrics,
        judge,
        sample_rate=sample_rate,
        max_queue=max_queue,
        keep=keep,
        on_result=on_result,
        concurrency=concurrency,
        seed=seed,
    )
    return watcher.start()
