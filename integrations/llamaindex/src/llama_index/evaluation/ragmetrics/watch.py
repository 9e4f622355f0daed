"""Watching the whole process: every run is judged in the background, and the application never waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_index.evaluation.ragmetrics.capture.recorder import RECORDER
from llama_index.evaluation.ragmetrics.capture.run import Run
from llama_index.evaluation.ragmetrics.capture.samples import samples_from
from llama_index.evaluation.ragmetrics.capture.scopes import Scope, pause_for_good
from llama_index.evaluation.ragmetrics.model import JudgeOrLLM, as_judge

from ragmetrics_core import Sample, SampleResult
from ragmetrics_core.capturing import BackgroundEvaluator


class Watch(BackgroundEvaluator[Run]):
    """A running watch; see ``ragmetrics_core.capturing.BackgroundEvaluator``."""

    scope: Scope | None = None

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until every run that ended is judged; False at the timeout.

        A retrieval on its own is held back for a synthesizer that may go on with it, for up to a minute: here it
        counts as ended.
        """
        if self.scope is not None:
            RECORDER.release(self.scope)
        return super().flush(timeout)

    def stop(self, timeout: float | None = None) -> bool:
        """Watch no further runs, and wait as ``flush`` does."""
        if self.scope is not None:
            RECORDER.close(self.scope)
        return super().stop(timeout)


def watch(
    metrics: Any = None,
    judge: JudgeOrLLM = None,
    *,
    sample_rate: float = 1.0,
    max_queue: int | None = 1000,
    keep: bool = False,
    on_result: Callable[[SampleResult], None] | None = None,
    concurrency: int = 8,
    seed: int | None = None,
) -> Watch:
    """Judge what the process's query engines, chat engines, agents and workflows do from now on.

    Args:
        metrics: Metrics or their names; None for all four.
        judge: A LlamaIndex LLM, a judge, a chat model or a model's name.
        sample_rate: Share of the runs that are judged, in (0, 1].
        max_queue: Most runs waiting; later ones are dropped and counted.
        keep: Keep every result for ``report()``; otherwise only running ``aggregates``.
        on_result: Called in the background with each result.
        concurrency: Most model calls in flight.
        seed: Seed of the choice that ``sample_rate`` makes.

    Returns:
        The watch, with ``aggregates``, ``dropped``, ``flush(timeout)``, ``report()`` and ``stop()``.

    Raises:
        SettingError: If a setting is invalid.
    """
    evaluator = Watch(
        _built,
        metrics,
        as_judge(judge),
        sample_rate=sample_rate,
        max_queue=max_queue,
        keep=keep,
        on_result=on_result,
        concurrency=concurrency,
        seed=seed,
    )
    evaluator.scope = Scope(evaluator, everywhere=True)
    RECORDER.open(evaluator.scope)
    return evaluator


def _built(run: Run) -> list[Sample]:
    """Samples of a run, in the background thread, where a judge at work must not be watched in turn."""
    pause_for_good()
    return samples_from(run)
