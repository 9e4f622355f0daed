"""The audit: judges some samples again with their chunks shuffled.

It shows whether places sway the judge.
"""

import random
from collections import Counter
from collections.abc import Sequence

from ragmetrics_core.data import JudgedChunk, JudgedChunks, SampleResult
from ragmetrics_core.engine.run import JudgeLike, Run, stream
from ragmetrics_core.metrics.context_utilization import ContextUtilization
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.models.reply_store import MemoryStore
from ragmetrics_core.reporting.run_facts import Audit


def audit(
    results: Sequence[SampleResult],
    metrics: Sequence[Metric],
    *,
    judge: JudgeLike,
    concurrency: int,
    count: int = 50,
) -> Audit | None:
    """Judge the chunks of some results again in a shuffled order.

    The judge is that of the run. Stored replies are not used.

    The first Context Utilization among its metrics is asked again with its own
    settings, on ``count`` samples at most, drawn at random among those with two judged
    chunks or more. None if the run has no Context Utilization.
    """
    metric = next(
        (metric for metric in metrics if isinstance(metric, ContextUtilization)), None
    )
    if metric is None:
        return None
    draw = random.Random(0)  # noqa: S311 - sampling is no cryptography
    fit = [
        (row.sample, found)
        for row in results
        if row.sample and len(found := _chunks(row, metric.name)) > 1
    ]
    chosen = draw.sample(fit, min(count, len(fit)))
    orders = [draw.sample(range(len(found)), len(found)) for _, found in chosen]
    shuffled = [
        sample.model_copy(
            update={"contexts": tuple(sample.contexts[place] for place in order)}
        )
        for (sample, _), order in zip(chosen, orders, strict=True)
    ]
    run = Run([metric], judge, concurrency, MemoryStore())
    again = [
        _chunks(row, metric.name)
        for row in stream(run, shuffled, progress=False, columns={})
    ]
    if run.interrupted:
        raise KeyboardInterrupt
    verdicts = [
        (place, before[order[place]].useful, chunk.useful)
        for (_, before), order, after in zip(chosen, orders, again, strict=True)
        for place, chunk in enumerate(after)
        if chunk.useful is not None and before[order[place]].useful is not None
    ]
    judged = Counter(place for place, _, _ in verdicts)
    useful = Counter(place for place, _, new in verdicts if new)
    return Audit(
        samples=sum(bool(own) for own in again),
        chunks=len(verdicts),
        changed=sum(old != new for _, old, new in verdicts),
        failed=sum(not own for own in again),
        by_place=tuple(
            (useful[place], judged[place])
            for place in range(max(judged, default=-1) + 1)
        ),
    )


def _chunks(row: SampleResult, name: str) -> tuple[JudgedChunk, ...]:
    """The judged chunks of a sample in rank order.

    Empty if the metric was not scored.
    """
    result = row.results.get(name)
    found = None if result is None or result.value is None else result.evidence
    return found.chunks if isinstance(found, JudgedChunks) else ()
