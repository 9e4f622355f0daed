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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ragmetrics_core.data.evidence import AccuracyEvidence, AdherenceEvidence, RecallEvidence, UtilizationEvidence
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
class Diagnosis:
    """Where a sample probably went wrong.

    Args:
        code: The rule that holds.
        because: The scores that made it hold, in words.
    """

    code: Code
    because: tuple[str, ...] = ()


class _Signals(dict[str, bool | None]):
    """What the metrics say, by name: None where it lies within its uncertainty; a metric that is missing says nothing.

    Attributes:
        words: Per name the score that says so.
    """

    def __init__(self, row: SampleResult) -> None:
        super().__init__()
        self.words: dict[str, str] = {}
        for name, result in row.results.items():
            found = _signals(result)
            self.update(found)
            score = f"{name} {result.status if result.value is None else format(result.value, '.2f')}"
            self.words.update(dict.fromkeys(found, score))

    def missing(self, name: str) -> bool:
        """True if no metric speaks of it at all; what is uncertain is not missing."""
        return name not in self

    def of(self, *names: str) -> tuple[str, ...]:
        """The scores behind some names, each once."""
        return tuple(dict.fromkeys(self.words[name] for name in names if name in self.words))


def diagnose(row: SampleResult) -> Diagnosis | None:
    """Name the stage at which a sample probably went wrong.

    Args:
        row: All results of the sample.

    Returns:
        The first rule that holds, with the scores that made it hold; None where nothing is wrong, nothing is
        certain enough, or the application itself failed.
    """
    sample = row.sample
    if sample is None or sample.error is not None:
        return None
    if not sample.missing("answer") and sample.missing("contexts"):
        return Diagnosis("no_context")
    signals = _Signals(row)
    for code, rule in _CONDITIONS.items():
        if names := rule(signals):
            return Diagnosis(code, signals.of(*names))
    return None


def _outside_store(found: _Signals) -> tuple[str, ...]:
    if found.get("any_useful") is not False:
        return ()
    if found.get("any_fact") is False:
        return ("any_useful", "any_fact")
    if found.missing("any_fact") and (found.get("adherent") is False or found.get("abstained")):
        return ("any_useful", "adherent", "abstained")
    return ()


def _retrieval(found: _Signals) -> tuple[str, ...]:
    return ("facts_covered",) if found.get("facts_covered") is False else ()


def _ranking(found: _Signals) -> tuple[str, ...]:
    if found.get("lost_facts"):
        return ("lost_facts",)
    return ("well_ranked",) if found.get("any_useful") and found.get("well_ranked") is False else ()


def _generation(found: _Signals) -> tuple[str, ...]:
    poor = tuple(name for name in ("adherent", "matching") if found.get(name) is False)
    there = "any_useful" if found.missing("facts_prompted") else "facts_prompted"
    return (there, *poor) if poor and found.get(there) else ()


_CONDITIONS: dict[Code, Callable[[_Signals], tuple[str, ...]]] = {
    "outside_store": _outside_store,
    "retrieval": _retrieval,
    "ranking": _ranking,
    "generation": _generation,
}
"""Per rule the names of the signals that make it hold, empty if it does not."""


def _signals(result: MetricResult) -> dict[str, bool | None]:
    if isinstance(result, Undefined):
        return {"abstained": True} if result.code == "abstained" else {}
    if not isinstance(result, Scored):
        return {}
    evidence = result.evidence
    if isinstance(evidence, AccuracyEvidence):
        return _of_facts(result.value, evidence)
    if isinstance(evidence, UtilizationEvidence):
        return _of_chunks(result.value, evidence)
    if isinstance(evidence, AdherenceEvidence):
        return {"adherent": _sure(*_adherence_bounds(result.value, evidence))}
    if isinstance(evidence, RecallEvidence):
        return {"matching": _sure(result.value - _CONVENTION, result.value + _CONVENTION)}
    return {}


def _sure(low: float, high: float) -> bool | None:
    """On which side of one half the bounds lie; None if they hold it."""
    return low > HALF if low > HALF or high < HALF else None


def _of_facts(value: float, evidence: AccuracyEvidence) -> dict[str, bool | None]:
    best = [max((cell.probability or 0.0 for cell in row), default=0.0) for row in evidence.cells]
    weights = [fact.weight for fact in evidence.facts]
    least, most = (
        sum(weight for weight, p in zip(weights, best, strict=True) if p > bound) / sum(weights)
        for bound in reversed(_UNSURE)
    )
    low, high = min(least, value), max(most, value)  # a diagnosis never contradicts the score
    prompted = value if evidence.contexts_value is None else evidence.contexts_value
    return {
        "facts_covered": _sure(low, high),
        "facts_prompted": _sure(min(low, prompted), max(high, prompted)),
        "any_fact": True if least > 0 else False if most == 0 else None,
        "lost_facts": value - prompted >= _LOST,
    }


def _of_chunks(value: float, evidence: UtilizationEvidence) -> dict[str, bool | None]:
    sure = [_verdict(chunk.useful, chunk.probability) for chunk in evidence.chunks]
    if True not in sure:
        return {"any_useful": None if None in sure else False}
    extremes = [_precision([verdict is not False for verdict in sure]), _precision([bool(v) for v in sure]), value]
    margin = _CONVENTION if len(set(extremes)) == 1 else 0.0
    return {"any_useful": True, "well_ranked": _sure(min(extremes) - margin, max(extremes) + margin)}


def _verdict(useful: bool | None, probability: float | None) -> bool | None:
    if probability is None:
        return useful
    return None if _UNSURE[0] < probability < _UNSURE[1] else probability > HALF


def _precision(verdicts: list[bool]) -> float:
    """Average precision of verdicts in rank order, at least one of them positive."""
    ranks = [rank for rank, verdict in enumerate(verdicts, 1) if verdict]
    return sum(found / rank for found, rank in enumerate(ranks, 1)) / len(ranks)


def _adherence_bounds(value: float, evidence: AdherenceEvidence) -> tuple[float, float]:
    low, high = evidence.repeatability or (value - _CONVENTION, value + _CONVENTION)
    return min(low, *(evidence.bounds or (low,)), value), max(high, *(evidence.bounds or (high,)), value)
