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
from ragmetrics_core.data.metric_evidence import Sufficed
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
_CONVENTION = 0.1  # to either side of a score that tells no uncertainty
_UNSURE = (0.3, 0.7)  # a probability between these decides nothing
_LOST = 0.25  # the least share of facts lost behind the search that is a fault


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
    """Name the stage of the pipeline at which a sample probably went wrong.

    A rule for each stage says what the metrics must say of the sample, such as that the
    facts were retrieved but the answer is not supported. The first rule that holds
    counts, with the scores that make it hold.

    None where nothing is wrong, nothing is certain enough, or the application itself
    failed.
    """
    sample = row.sample
    if sample is None or row.problem or sample.error is not None:
        return None
    if has_answer_without_context(sample):
        return Diagnosis("no_context")
    sayings, score_by_subject = _sayings_of_row(row)
    for code, rule in RULES.items():
        # the conditions of a rule: it holds if any of them does
        for condition in rule.holds:
            if not _holds(condition, sayings):
                continue
            scores: dict[str, None] = {}  # as an ordered set
            for subject in condition:
                if subject in score_by_subject:
                    scores[score_by_subject[subject]] = None
            return Diagnosis(code, because=tuple(scores))
    return None


def _sayings_of_row(row: SampleResult) -> tuple[dict[str, Says], dict[str, str]]:
    """What all results of a row say about the subjects that rules ask for.

    A subject is a question such as "facts_found": were the facts retrieved? The answer
    is yes, no, or None, which is too close to call.

    Returns:
        What is said of each subject, and by subject the score that says it, in words.
    """
    sayings: dict[str, Says] = {}
    score_by_subject: dict[str, str] = {}
    for name, result in row.results.items():
        sayings_of_result = _sayings_of_result(result)
        sayings.update(sayings_of_result)
        score = result.status if result.value is None else format(result.value, ".2f")
        for subject in sayings_of_result:
            score_by_subject[subject] = f"{name} {score}"
        # the metric does not say which facts the prompt held; what was recorded may
        if _leaves_prompt_open(result):
            sayings.update(_sayings_of_journey(row))
    return sayings, score_by_subject


def _holds(condition: Mapping[str, Says], sayings: Mapping[str, Says]) -> bool:
    """Whether all that a condition names is said so."""
    return all(
        sayings.get(subject, "missing") == wanted
        for subject, wanted in condition.items()
    )


def _sayings_of_result(result: MetricResult) -> dict[str, Says]:
    """What one metric's result says about the subjects that rules ask for.

    What it says depends on the evidence. A score near one half says nothing: how near
    follows from what the evidence tells of its uncertainty, else it is 0.1. Without a
    score nothing is said, but that an answer only declines.
    """
    if isinstance(result, Undefined):
        return {"abstained": True} if result.code == "abstained" else {}
    if not isinstance(result, Scored):
        return {}
    evidence = result.evidence
    # the range in which a score without a known uncertainty may lie
    around_value = (result.value - _CONVENTION, result.value + _CONVENTION)
    if isinstance(evidence, FactMatrix):
        return _sayings_of_facts(result.value, evidence)
    if isinstance(evidence, JudgedChunks):
        return _sayings_of_chunks(result.value, evidence)
    if isinstance(evidence, Polled):
        # the range in which other polls, or those without an answer, may put the score
        reach_of_polls = evidence.repeatability or around_value
        bounds = evidence.bounds or ()
        return {"adherent": _side_of_half(result.value, *reach_of_polls, *bounds)}
    if isinstance(evidence, Sufficed):
        return {"over_declined": evidence.case == "over_declined"}
    if evidence is not None and evidence.kind == "context_recall":
        return {"matching": _side_of_half(*around_value)}
    return {}


def _side_of_half(*values: float) -> bool | None:
    """True if all values lie above one half, False if all lie below, else None."""
    if min(values) > HALF:
        return True
    return False if max(values) < HALF else None


def _sayings_of_facts(value: float, evidence: FactMatrix) -> dict[str, Says]:
    """What a search for facts in texts says: were they retrieved, and in the prompt?

    A fact that may be there or not, because its best probability is neither low nor
    high, makes the share of facts uncertain: it lies between a least and a most share.
    What is said never contradicts the score itself.

    Args:
        value: The score: the share of facts in what was retrieved.
        evidence: The probability of each fact in each text, and the share of facts in
            the prompt, where that was another text.
    """
    least_probability, most_probability = _UNSURE
    least_share = _share_of_facts(evidence, above=most_probability)
    most_share = _share_of_facts(evidence, above=least_probability)
    value_of_prompt = evidence.contexts_value
    if value_of_prompt is None:  # the prompt held what was retrieved
        value_of_prompt = value
    any_fact: Says = None  # None: too close to call
    if least_share > 0:
        any_fact = True
    elif most_share == 0:
        any_fact = False
    return {
        "facts_found": _side_of_half(least_share, most_share, value),
        "facts_prompted": _side_of_half(
            least_share, most_share, value, value_of_prompt
        ),
        "any_fact": any_fact,
        # many of the facts that were retrieved are not in the prompt
        "facts_lost": value - value_of_prompt >= _LOST,
    }


def _share_of_facts(evidence: FactMatrix, *, above: float) -> float:
    """The share of facts, by weight, that some text holds with more than a probability."""
    weight_of_all = sum(fact.weight for fact in evidence.facts)
    weight_found = 0.0
    for fact, cells in zip(evidence.facts, evidence.cells, strict=True):
        if any((cell.probability or 0.0) > above for cell in cells):
            weight_found += fact.weight
    return weight_found / weight_of_all


def _leaves_prompt_open(result: MetricResult) -> bool:
    """Whether a metric sought facts, and not in what the model was shown alone."""
    evidence = result.evidence
    return isinstance(evidence, FactMatrix) and evidence.contexts_value is None


def _sayings_of_journey(row: SampleResult) -> dict[str, Says]:
    """Whether facts were lost between retrieval and prompt, as far as it was recorded."""
    followed = journey_of(row)
    if followed is None or not followed.is_settled:
        return {}
    n_lost = sum(fact.lost in ("not_kept", "not_shown") for fact in followed.facts)
    return {"facts_lost": n_lost >= _LOST * len(followed.facts)}


def _sayings_of_chunks(value: float, evidence: JudgedChunks) -> dict[str, Says]:
    """What verdicts on chunks say: is any useful, and do the useful ones come first?

    The order is judged by average precision, which is 1 if all useful chunks come
    first. A chunk of which the judge is unsure may be useful or not, so average
    precision lies between the values for both.
    """
    verdicts = [
        _sure_verdict(chunk.useful, chunk.probability) for chunk in evidence.chunks
    ]
    if True not in verdicts:
        return {"any_useful": None if None in verdicts else False}
    # a verdict is None where the judge is unsure
    if_unsure_are_useful = [verdict is not False for verdict in verdicts]
    if_unsure_are_not = [verdict is True for verdict in verdicts]
    values = [
        average_precision(if_unsure_are_useful),
        average_precision(if_unsure_are_not),
        value,
    ]
    # without any unsure chunk the values are equal, and their uncertainty is not known
    margin = _CONVENTION if len(set(values)) == 1 else 0.0
    return {
        "any_useful": True,
        "well_ranked": _side_of_half(min(values) - margin, max(values) + margin),
    }


def _sure_verdict(useful: bool | None, probability: float | None) -> bool | None:
    """The verdict on a chunk; None where its probability leaves it open."""
    if probability is None:
        return useful
    least_sure, most_sure = _UNSURE
    if least_sure < probability < most_sure:
        return None
    return probability > HALF
