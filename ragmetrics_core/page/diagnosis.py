"""Where a sample probably went wrong, from its metrics together.

There are the rules, their reasoning and the remedies.

A diagnosis is a hypothesis, made by rule and not by asking. The rules follow the
pipeline and the first that holds counts, because later stages inherit what earlier ones
lost. Each rule compares scores with one half: below it more is wrong than right. A
score whose uncertainty holds one half decides nothing. Its uncertainty is

- polls: their Wilson interval, widened by the bounds of missing polls (one "yes" of
  five is undecided);
- facts: each fact with its best probability between .3 and .7 may be covered or not;
- chunks: average precision with the verdicts between .3 and .7 may go either way (the
  two extremes);
- everything else, which tells no uncertainty: a tenth to either side, a convention.
"""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Literal, NamedTuple

from pydantic import Field, TypeAdapter

from ragmetrics_core.data import (
    FactMatrix,
    Frozen,
    JudgedChunks,
    MetricResult,
    Polled,
    SampleResult,
    Scored,
    Undefined,
    has_answer_without_context,
)
from ragmetrics_core.metrics.average_precision import average_precision
from ragmetrics_core.reporting.sample_journey import journey_of

Code = Literal[
    "no_context",
    "outside_store",
    "retrieval",
    "dropped",
    "ranking",
    "declined",
    "generation",
]
Says = bool | Literal["missing"] | None
"""What the metrics say of something.

They say yes, no, or that it is too close to call (None). Or no metric speaks of it.
"""

HALF = 0.5
_CONVENTION = 0.1
_UNSURE = (0.3, 0.7)
_LOST = 0.25


class Rule(Frozen):
    """One diagnosis as the report explains it."""

    title: str = Field(description="what probably happened, in a few words")
    stage: str = Field(description="the stage of the pipeline to mend")
    reasoning: str = Field(description="why the rule's condition points there")
    remedy: str = Field(description="what to try")
    holds: tuple[dict[str, Says], ...] = Field(
        default=(),
        description=(
            "the rule holds if one of these does: all that it names is said so;"
            " uncertain is not missing"
        ),
    )


_TEXTS = tomllib.loads(
    files("ragmetrics_core.page").joinpath("diagnosis.toml").read_text("utf-8")
)
RULES = TypeAdapter(dict[Code, Rule]).validate_python(_TEXTS)
"""The rules in the order in which they are tried."""


class Diagnosis(NamedTuple):
    """Where a sample probably went wrong.

    It is the rule that holds, and in words the scores that made it hold.
    """

    code: Code
    because: tuple[str, ...] = ()


def diagnose(row: SampleResult) -> Diagnosis | None:
    """Name the stage at which a sample probably went wrong: the first rule that holds.

    None where nothing is wrong, nothing is certain enough, or the application itself
    failed.
    """
    sample = row.sample
    if sample is None or row.problem or sample.error is not None:
        return None
    if has_answer_without_context(sample):
        return Diagnosis("no_context")
    sayings: dict[str, Says] = {}
    scores: dict[str, str] = {}  # by what they say something of
    for name, result in row.results.items():
        sayings_of_result = _said(result)
        sayings.update(sayings_of_result)
        score = result.status if result.value is None else format(result.value, ".2f")
        scores.update(dict.fromkeys(sayings_of_result, f"{name} {score}"))
        if _asked_of_retrieved_alone(result) and sample.retrieved is not None:
            sayings.update(_of_recorded_facts(row))
    for code, rule in RULES.items():
        for condition in rule.holds:
            if _holds(condition, sayings):
                reasons = [
                    scores[subject] for subject in condition if subject in scores
                ]
                return Diagnosis(code, tuple(dict.fromkeys(reasons)))
    return None


def _holds(condition: Mapping[str, Says], sayings: Mapping[str, Says]) -> bool:
    """Whether all that a condition names is said so."""
    return all(
        sayings.get(subject, "missing") == wanted
        for subject, wanted in condition.items()
    )


def _said(result: MetricResult) -> dict[str, Says]:
    """What one result says."""
    if isinstance(result, Undefined):
        return {"abstained": True} if result.code == "abstained" else {}
    if not isinstance(result, Scored):
        return {}
    value, evidence = result.value, result.evidence
    near = (value - _CONVENTION, value + _CONVENTION)
    if isinstance(evidence, FactMatrix):
        return _of_facts(value, evidence)
    if isinstance(evidence, JudgedChunks):
        return _of_chunks(value, evidence)
    if isinstance(evidence, Polled):
        return {
            "adherent": _sure(
                value, *(evidence.repeatability or near), *(evidence.bounds or ())
            )
        }
    if evidence is not None and evidence.kind == "context_recall":
        return {"matching": _sure(*near)}
    return {}


def _sure(*values: float) -> bool | None:
    """On which side of one half all of them lie; None if they do not lie on one."""
    above = min(values) > HALF
    return above if above or max(values) < HALF else None


def _of_facts(value: float, evidence: FactMatrix) -> dict[str, Says]:
    best = [
        max((cell.probability or 0.0 for cell in row), default=0.0)
        for row in evidence.cells
    ]
    weights = [fact.weight for fact in evidence.facts]
    least, most = (
        sum(weight for weight, p in zip(weights, best, strict=True) if p > bound)
        / sum(weights)
        for bound in reversed(_UNSURE)
    )
    prompted = value if evidence.contexts_value is None else evidence.contexts_value
    return {
        # a diagnosis never contradicts the score
        "facts_found": _sure(least, most, value),
        "facts_prompted": _sure(least, most, value, prompted),
        "any_fact": True if least > 0 else False if most == 0 else None,
        "facts_lost": value - prompted >= _LOST,
    }


def _asked_of_retrieved_alone(result: MetricResult) -> bool:
    """Whether a metric sought facts without saying what of them the model was shown."""
    evidence = result.evidence
    return isinstance(evidence, FactMatrix) and evidence.contexts_value is None


def _of_recorded_facts(row: SampleResult) -> dict[str, Says]:
    """What the journey says of facts between retrieval and prompt, if it is settled."""
    followed = journey_of(row)
    if followed is None or not followed.is_settled:
        return {}
    n_lost = sum(fact.lost in ("not_kept", "not_shown") for fact in followed.facts)
    return {"facts_lost": n_lost >= _LOST * len(followed.facts)}


def _of_chunks(value: float, evidence: JudgedChunks) -> dict[str, Says]:
    sure = [_verdict(chunk.useful, chunk.probability) for chunk in evidence.chunks]
    if True not in sure:
        return {"any_useful": None if None in sure else False}
    extremes = [
        average_precision([v is not False for v in sure]),
        average_precision([v is True for v in sure]),
        value,
    ]
    margin = _CONVENTION if len(set(extremes)) == 1 else 0.0
    return {
        "any_useful": True,
        "well_ranked": _sure(min(extremes) - margin, max(extremes) + margin),
    }


def _verdict(useful: bool | None, probability: float | None) -> bool | None:
    if probability is None:
        return useful
    return None if _UNSURE[0] < probability < _UNSURE[1] else probability > HALF
