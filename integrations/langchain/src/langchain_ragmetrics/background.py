"""Assembling and judging beside the application: what the callback and `watch` share."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from langchain_core.tracers.schemas import Run

from langchain_ragmetrics.capturing.assembling import Assembler
from langchain_ragmetrics.capturing.finding import Finding
from langchain_ragmetrics.judges import LangChainJudge, as_judge
from ragmetrics_core.capturing import BackgroundEvaluator
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.engine.run import Metrics


class Background(BackgroundEvaluator[Run | Sample]):
    """Scores the samples of roots in the background; a flush also scores what waits for a further root.

    Args:
        finding: Where question, contexts and answer are.
        metrics: Metrics or their names; None for all.
        judge: A judge, a chat model or runnable of LangChain, or a model's name.
        share: Share of the samples that is judged, in (0, 1].
        max_queue: Most roots waiting; None never drops.
        keep: Keep every result for ``report``.
        on_result: Called with each result.
        concurrency: Most model calls in flight.
        seed: Seed of the choice that ``share`` makes.
    """

    def __init__(
        self,
        finding: Finding,
        metrics: Metrics,
        judge: LangChainJudge,
        *,
        share: float = 1.0,
        max_queue: int | None,
        keep: bool,
        on_result: Callable[[SampleResult], None] | None,
        concurrency: int,
        seed: int | None = None,
    ) -> None:
        if not 0 < share <= 1:
            raise SettingError(f"sample_rate must lie in (0, 1], got {share}")
        # Samples are drawn, not roots: roots that belong together must not be torn apart.
        self._share, self._choice = share, random.Random(seed)  # noqa: S311  # a sampling decision, no secret
        super().__init__(
            self._samples_of,
            metrics,
            as_judge(judge),
            max_queue=max_queue,
            keep=keep,
            on_result=on_result,
            concurrency=concurrency,
        )
        self._assembler = Assembler(finding, self.problems)

    def settle(self, timeout: float | None) -> bool:
        """Judge everything recorded so far, and what waits for a further root; False at the timeout."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self.flush(timeout):
            return False
        for sample in self._assembler.finish():
            self.record(sample)
        return self.flush(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def _samples_of(self, item: Run | Sample) -> list[Sample]:
        found = [item] if isinstance(item, Sample) else self._assembler.add(item)
        return [sample for sample in found if self._share == 1 or self._choice.random() < self._share]
