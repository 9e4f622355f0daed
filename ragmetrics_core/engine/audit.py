"""The audit: some samples are judged again with their chunks shuffled, to see whether places sway the judge."""

import random
from collections.abc import Sequence

from ragmetrics_core.data import JudgedChunk, JudgedChunks, SampleResult
from ragmetrics_core.endpoints.store import MemoryStore
from ragmetrics_core.engine.run import JudgeLike, Run, stream
from ragmetrics_core.metrics.context_utilization import ContextUtilization
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.reporting.run_facts import Audit


def audit(
    results: Sequence[SampleResult],
    metrics: Sequence[Metric],
    *,
    judge: JudgeLike = None,
    concurrency: int = 32,
    count: int = 50,
    seed: int = 0,
) -> Audit | None:
    """Judge the chunks of some results of a run again in a shuffled order, without stored replies, by its judge.

    The first Context Utilization among its metrics is asked again with its own settings, on ``count`` samples at most,
    drawn at random among those with two judged chunks or more; ``seed`` is that of the draw and of the shuffling. None
    if the run has no Context Utilization.
    """
    metric = next((metric for metric in metrics if isinstance(metric, ContextUtilization)), None)
    if metric is None:
        return None
    draw = random.Random(seed)  # noqa: S311 - sampling is no cryptography
    fit = [(row.sample, found) for row in results if row.sample and len(found := _chunks(row, metric.name)) > 1]
    chosen = draw.sample(fit, min(count, len(fit)))
    orders = [draw.sample(range(len(found)), len(found)) for _, found in chosen]
    shuffled = [
        sample.model_copy(update={"contexts": tuple(sample.contexts[place] for place in order)})
        for (sample, _), order in zip(chosen, orders, strict=True)
    ]
    run = Run([metric], judge, concurrency, MemoryStore())
    again = [_chunks(row, metric.name) for row in stream(run, shuffled, progress=False, columns={})]
    verdicts = [
        (place, before[order[place]].useful, chunk.useful)
        for (_, before), order, after in zip(chosen, orders, again, strict=True)
        for place, chunk in enumerate(after)
        if chunk.useful is not None and before[order[place]].useful is not None
    ]
    last = max((place for place, _, _ in verdicts), default=-1)
    places = [[bool(new) for at, _, new in verdicts if at == place] for place in range(last + 1)]
    return Audit(
        samples=sum(bool(own) for own in again),
        chunks=len(verdicts),
        changed=sum(old != new for _, old, new in verdicts),
        failed=sum(not own for own in again),
        seed=seed,
        by_place=tuple((sum(own), len(own)) for own in places),
    )


def _chunks(row: SampleResult, name: str) -> tuple[JudgedChunk, ...]:
    """The judged chunks of a sample in rank order; empty if the metric was not scored."""
    result = row.results.get(name)
    found = None if result is None or result.value is None else result.evidence
    return found.chunks if isinstance(found, JudgedChunks) else ()
