"""The evidence that reports read, by its shape, whichever metric gave it."""

from __future__ import annotations

from typing import TypeVar

from ragmetrics_core.data.evidence import FactMatrix, JudgedChunk, JudgedChunks, Polled
from ragmetrics_core.data.results import MetricResult

E = TypeVar("E", FactMatrix, JudgedChunks, Polled)


def evidence_of(result: MetricResult | None, kind: type[E]) -> E | None:
    """The evidence of a result if it is of one shape, whatever the metric is called."""
    found = None if result is None else result.evidence
    return found if isinstance(found, kind) else None


def chunks_of(result: MetricResult | None) -> tuple[JudgedChunk, ...]:
    """The judged chunks in rank order; empty without Context Utilization."""
    found = evidence_of(result, JudgedChunks)
    return found.chunks if found else ()


def any_useful(result: MetricResult | None) -> bool | None:
    """True if any chunk was judged useful; None if that is not known."""
    found = evidence_of(result, JudgedChunks)
    if found is not None and found.useful is not None:
        return found.useful > 0
    verdicts = [chunk.useful for chunk in chunks_of(result) if chunk.useful is not None]
    return any(verdicts) if verdicts else None


def facts_of(result: MetricResult | None) -> tuple[str, ...] | None:
    """The texts of the facts; None without Retrieval Accuracy."""
    found = evidence_of(result, FactMatrix)
    return None if found is None else tuple(fact.text for fact in found.facts)


def modes_of(result: MetricResult | None) -> list[str]:
    """How the probabilities behind a score were obtained."""
    found = evidence_of(result, FactMatrix)
    cells = [cell.mode for row in found.cells for cell in row] if found else []
    return [*cells, *(chunk.mode for chunk in chunks_of(result))]
