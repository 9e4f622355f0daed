"""Where a sample probably went wrong, from its metrics together: rules, their reasoning and the remedies.

A diagnosis is a hypothesis, made by rule and not by asking. The rules follow the pipeline and the first that
holds counts, because later stages inherit what earlier ones lost. Each rule compares scores with one half: below
it more is wrong than right. A score whose uncertainty holds one half decides nothing. Its uncertainty is

- polls: their Wilson interval, widened by the bounds of missing polls (one "yes" of five is undecided);
- facts: each fact with its best probability between .3 and .7 may be covered or not;
- chunks: average precision with the verdicts between .3 and .7 may go either way (the two extremes);
- everything else, which tells no uncertainty: a tenth to either side, a convention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ragmetrics_core.data.evidence import FactMatrix, JudgedChunks, Polled
from ragmetrics_core.data.results import MetricResult, SampleResult, Scored, Undefined

Code = Literal["no_context", "outside_store", "retrieval", "ranking", "generation"]

HALF = 0.5
_CONVENTION = 0.1
_UNSURE = (0.3, 0.7)
_LOST = 0.25


@dataclass(frozen=True, slots=True)
class Rule:
    """One diagnosis as the report explains it.

    Args:
        title: What probably happened, in a few words.
        reasoning: Why the rule's condition points there.
        remedy: What to try.
    """

    title: str
    reasoning: str
    remedy: str


RULES: dict[Code, Rule] = {
    "no_context": Rule(
        "answered without context",
        "There is an answer, and no text reached the generator: whatever it says comes from the model itself.",
        "Let the application decline when nothing is retrieved; look for filters or thresholds that empty the list.",
    ),
    "outside_store": Rule(
        "question outside the store",
        "No chunk is useful and no fact of the reference (or, without one, nothing that the answer claims) is in any "
        "of them: the retriever found nothing on the matter, as when the store does not hold it.",
        "Search the store by hand for the fact. If it is not there, add the document or let the application decline.",
    ),
    "retrieval": Rule(
        "retrieval missed it",
        "Less than half of the facts of the reference are in the chunks.",
        "Retrieve more chunks, try hybrid search or query rewriting, and look at how documents are cut.",
    ),
    "ranking": Rule(
        "useful chunks rank low",
        "Useful chunks were found, but useless ones stand above them, or facts were lost between retrieving and "
        "prompting.",
        "Add or tune a reranker; check what cutting and filtering after retrieval drop.",
    ),
    "generation": Rule(
        "generation went astray",
        "What is needed stands in the contexts, but the answer is not based on them or does not match the reference.",
        "Look at the prompt and the unsupported claims; try a stronger model, a lower temperature, fewer chunks.",
    ),
}
"""The rules in the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class _Signals:
    """What is certain about a sample; None where a metric is missing or lies within its uncertainty."""

    facts_covered: bool | None = None
    any_fact: bool | None = None
    lost_facts: bool = False
    any_useful: bool | None = None
    well_ranked: bool | None = None
    adherent: bool | None = None
    abstained: bool = False
    matching: bool | None = None


def diagnose(row: SampleResult) -> Code | None:
    """Name the stage at which a sample probably went wrong.

    Args:
        row: All results of the sample.

    Returns:
        The code of the first rule that holds; None where nothing is wrong, nothing is certain enough, or the
        application itself failed.
    """
    sample = row.sample
    if sample is None or sample.error is not None:
        return None
    if not sample.missing("answer") and sample.missing("contexts"):
        return "no_context"
    signals = _Signals(**{k: v for result in row.results.values() for k, v in _signals(result).items()})
    return next((code for code in RULES if code != "no_context" and _holds(code, signals)), None)


def _holds(code: Code, found: _Signals) -> bool:
    poor_answer = found.adherent is False or found.matching is False
    if code == "outside_store":
        nothing = found.any_fact is False or (found.any_fact is None and (found.adherent is False or found.abstained))
        return found.any_useful is False and nothing
    if code == "retrieval":
        return found.facts_covered is False
    if code == "ranking":
        return found.lost_facts or (found.any_useful is True and found.well_ranked is False)
    there = found.facts_covered is True or (found.facts_covered is None and found.any_useful is True)
    return there and poor_answer


def _signals(result: MetricResult) -> dict[str, bool]:
    if isinstance(result, Undefined):
        return {"abstained": result.code == "abstained"}
    if not isinstance(result, Scored):
        return {}
    evidence = result.evidence
    if isinstance(evidence, FactMatrix):
        return _of_facts(result.value, evidence)
    if isinstance(evidence, JudgedChunks):
        return _of_chunks(result.value, evidence)
    if isinstance(evidence, Polled):
        return _sure("adherent", *_adherence_bounds(result.value, evidence))
    if evidence is not None and evidence.kind == "context_recall":
        return _sure("matching", result.value - _CONVENTION, result.value + _CONVENTION)
    return {}


def _sure(name: str, low: float, high: float) -> dict[str, bool]:
    """The signal if one half lies outside the bounds, nothing otherwise."""
    return {name: low > HALF} if low > HALF or high < HALF else {}


def _of_facts(value: float, evidence: FactMatrix) -> dict[str, bool]:
    best = [max((cell.probability or 0.0 for cell in row), default=0.0) for row in evidence.cells]
    weights = [fact.weight for fact in evidence.facts]
    low, high = (
        sum(weight for weight, p in zip(weights, best, strict=True) if p > bound) / sum(weights)
        for bound in reversed(_UNSURE)
    )
    found = _sure("facts_covered", low, high)
    if low > 0 or high == 0:
        found["any_fact"] = low > 0
    if evidence.contexts_value is not None:
        found["lost_facts"] = value - evidence.contexts_value >= _LOST
    return found


def _of_chunks(value: float, evidence: JudgedChunks) -> dict[str, bool]:
    sure = [_verdict(chunk.useful, chunk.probability) for chunk in evidence.chunks]
    found = {}
    if True in sure or not any(verdict is None for verdict in sure):
        found["any_useful"] = True in sure
    if True not in sure:
        return found
    extremes = [_precision([verdict is not False for verdict in sure]), _precision([bool(v) for v in sure]), value]
    margin = _CONVENTION if len(set(extremes)) == 1 else 0.0
    return {**found, **_sure("well_ranked", min(extremes) - margin, max(extremes) + margin)}


def _verdict(useful: bool | None, probability: float | None) -> bool | None:
    if probability is None:
        return useful
    return None if _UNSURE[0] < probability < _UNSURE[1] else probability > HALF


def _precision(verdicts: list[bool]) -> float:
    """Average precision of verdicts in rank order, at least one of them positive."""
    ranks = [rank for rank, verdict in enumerate(verdicts, 1) if verdict]
    return sum(found / rank for found, rank in enumerate(ranks, 1)) / len(ranks)


def _adherence_bounds(value: float, evidence: Polled) -> tuple[float, float]:
    low, high = evidence.repeatability or (value - _CONVENTION, value + _CONVENTION)
    return min(low, *(evidence.bounds or (low,)), value), max(high, *(evidence.bounds or (high,)), value)
