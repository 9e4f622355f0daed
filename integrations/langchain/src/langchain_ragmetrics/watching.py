"""`watch`: the whole process, in the background and in bounded memory."""

from __future__ import annotations

from collections.abc import Callable

from typing_extensions import Unpack

from langchain_ragmetrics.background import Background
from langchain_ragmetrics.capturing.finding import Finding, FindingOptions
from langchain_ragmetrics.judges import LangChainJudge
from langchain_ragmetrics.process import Receiver, listen
from ragmetrics_core.capturing import Aggregate, Problems
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.engine.run import Metrics


class Watch:
    """What `watch` returns: running figures, and the way to stop.

    Attributes:
        problems: Internal errors and what the user should know.
    """

    def __init__(
        self,
        metrics: Metrics,
        judge: LangChainJudge,
        *,
        sample_rate: float,
        max_queue: int,
        on_result: Callable[[SampleResult], None] | None,
        concurrency: int,
        seed: int | None,
        finding: Finding,
    ) -> None:
        self._background = Background(
            finding,
            metrics,
            judge,
            share=sample_rate,
            max_queue=max_queue,
            keep=False,
            on_result=on_result,
            concurrency=concurrency,
            seed=seed,
        )
        self._end = listen(Receiver(self._background.record, everywhere=True))

    def __repr__(self) -> str:
        return f"Watch({', '.join(self.aggregates)}; {self.dropped} dropped, {len(self.problems)} problems)"

    @property
    def problems(self) -> Problems:
        """Internal errors and what the user should know."""
        return self._background.problems

    @property
    def aggregates(self) -> dict[str, Aggregate]:
        """Running figures per metric."""
        return self._background.aggregates

    @property
    def dropped(self) -> int:
        """Runs not judged because the judge was slower than the application."""
        return self._background.dropped

    @property
    def pending(self) -> int:
        """Runs recorded but not yet judged."""
        return self._background.pending

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything seen so far is judged; False at the timeout."""
        return self._background.settle(timeout)

    def stop(self, timeout: float | None = None) -> bool:
        """See no further runs, and wait as ``flush`` does."""
        self._end()
        done = self._background.settle(timeout)
        self._background.stop(timeout=0)
        return done


def watch(
    metrics: Metrics = None,
    judge: LangChainJudge = None,
    *,
    sample_rate: float = 1.0,
    max_queue: int = 1000,
    on_result: Callable[[SampleResult], None] | None = None,
    concurrency: int = 8,
    seed: int | None = None,
    **options: Unpack[FindingOptions],
) -> Watch:
    """Evaluate every LangChain run of this process in the background, until ``stop()``.

    Args:
        metrics: Metrics or their names; None for all.
        judge: A judge, a chat model or runnable of LangChain, or a model's name.
        sample_rate: Share of the samples that are judged, in (0, 1].
        max_queue: Most runs waiting; later ones are dropped and counted.
        on_result: Called with each ``SampleResult``, in the background thread; results are not kept.
        concurrency: Most model calls in flight.
        seed: Seed of the choice that ``sample_rate`` makes; None for a random one.
        **options: Where question, contexts and answer are; see ``Finding``.

    Returns:
        Running figures in ``aggregates``; ``flush(timeout)`` waits, ``stop()`` ends it.

    Raises:
        SettingError: If a setting is invalid.

    Example:
        >>> from langchain_core.documents import Document
        >>> from langchain_core.runnables import RunnableLambda
        >>> find = RunnableLambda(lambda question: [Document("Paris is the capital of France.")])
        >>> watching = watch(["context_utilization"], "lexical")
        >>> _ = (find | (lambda documents: "Paris is the capital of France.")).invoke("Capital of France?")
        >>> watching.stop(), watching.aggregates["context_utilization"].mean
        (True, 1.0)
    """
    return Watch(
        metrics,
        judge,
        sample_rate=sample_rate,
        max_queue=max_queue,
        on_result=on_result,
        concurrency=concurrency,
        seed=seed,
        finding=Finding(**options),
    )
