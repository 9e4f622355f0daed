"""A callback handler that evaluates what it sees, in the background."""

import threading
from collections.abc import Callable

from langchain_core.tracers.schemas import Run
from typing_extensions import Unpack

from langchain_ragmetrics.capturing.recorder import Recorder, Sink
from langchain_ragmetrics.capturing.trees import Finding, FindingOptions, assembler
from langchain_ragmetrics.judges import LangChainJudge, as_judge
from ragmetrics_core import Report, Sample
from ragmetrics_core.capturing import Aggregate, BackgroundEvaluator, Metrics, Problems, SampleResult, guarded


class RagMetricsCallback(Recorder):
    """Evaluates every chain, agent or graph that it is passed to; the application never waits for it.

    Args:
        metrics: Metrics or their names; None for all, ``[]`` to capture only.
        judge: A judge, a chat model or runnable of LangChain, or a model's name; see ``ragmetrics_core.evaluate``.
        max_samples: Most roots evaluated; later ones are counted and a warning says so. None never drops.
        on_result: Called with each ``SampleResult``, in the background thread.
        concurrency: Most model calls in flight.
        **options: Where question, contexts and answer are; see ``capture``.

    Raises:
        SettingError: If a setting is invalid.

    Attributes:
        problems: Internal errors and what the user should know; an application's own error is ``Sample.error``.
        dropped: Roots not evaluated because of ``max_samples``.

    Example:
        >>> from langchain_core.documents import Document
        >>> from langchain_core.runnables import RunnableLambda
        >>> find = RunnableLambda(lambda question: [Document("Paris is the capital of France.")])
        >>> evaluator = RagMetricsCallback(metrics=["context_utilization"], judge="lexical")
        >>> chain = find | (lambda documents: "Paris is the capital of France.")
        >>> _ = chain.invoke("Capital of France?", config={"callbacks": [evaluator]})
        >>> evaluator.report().scores("context_utilization")
        [1.0]
    """

    def __init__(
        self,
        metrics: Metrics = None,
        judge: LangChainJudge = None,
        *,
        max_samples: int | None = None,
        on_result: Callable[[SampleResult], None] | None = None,
        concurrency: int = 8,
        **options: Unpack[FindingOptions],
    ) -> None:
        turns = assembler(Finding(**options), Problems())
        turns.share()
        self._background = BackgroundEvaluator(
            turns.add,
            metrics,
            as_judge(judge),
            max_queue=None,
            keep=True,
            on_result=on_result,
            concurrency=concurrency,
            rest=turns.finish,
            problems=turns.problems,
        )
        super().__init__(self._background.problems)
        self._max_samples = max_samples
        self._recorded = 0
        self._counting = threading.Lock()
        self.dropped = 0

    @property
    def aggregates(self) -> dict[str, Aggregate]:
        """Running figures per metric, without waiting."""
        return self._background.aggregates

    @property
    def pending(self) -> int:
        """Roots recorded but not yet judged."""
        return self._background.pending

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Samples of everything seen so far; waits as ``report`` does."""
        return self._background.samples

    def report(self, timeout: float | None = None) -> Report:
        """Wait for the judge and report on everything seen so far.

        Args:
            timeout: Seconds to wait at most; the report says what is missing. None waits as long as it takes.
        """
        return self._background.report(timeout)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything seen so far is judged; False at the timeout."""
        return self._background.flush(timeout)

    def sinks(self) -> tuple[Sink, ...]:
        """Every root is for this handler."""
        return (self._take,)

    @guarded
    def _take(self, run: Run) -> None:
        with self._counting:
            if self._max_samples is not None and self._recorded >= self._max_samples:
                self.dropped += 1
                self.problems.note(f"more than max_samples={self._max_samples} runs were seen; later ones are dropped")
                return
            self._recorded += 1
        self._background.record(run)
