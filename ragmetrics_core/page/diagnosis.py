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
from collections.abc import Iterable, Mapping
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
Finding = bool | Literal["missing"] | None
"""What the metrics say on a subject, such as "facts_found": were facts retrieved?

They say yes, no, or that it is too close to call (None). "missing": no metric speaks of
the subject.
"""

HALF = 0.5
_USUAL_MARGIN = 0.1  # to either side of a score that tells no uncertainty
_UNSURE = (0.3, 0.7)  # a probability between these decides nothing
_LOST = 0.25  # the least share of facts lost behind the search that is a fault


class Rule(Frozen):
    """One diagnosis as the report explains it."""

    title: str = Field(description="what probably happened, in a few words")
    stage: str = Field(description="the stage of the pipeline to mend")
    reasoning: str = Field(description="why the rule's condition points there")
    remedy: str = Field(description="what to try")
    holds: tuple[dict[str, Finding], ...] = Field(
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

    Each stage has a rule with one or more conditions. A condition names the findings
    that must hold together, such as ``{"facts_prompted": True, "adherent": False}``: the
    prompt held the facts, but the answer does not rest on them. The first rule with a
    condition that holds is the diagnosis.

    Returns:
        The diagnosis, with the scores that the condition rests on. None where nothing
        is wrong, nothing is certain enough, or the application itself failed.
    """
    sample = row.sample
    if sample is None or row.problem or sample.error is not None:
        return None
    if has_answer_without_context(sample):
        return Diagnosis("no_context")
    findings, score_words_by_subject = _findings_of_row(row)
    for code, rule in RULES.items():
        for condition in rule.holds:
            if _holds(condition, findings):
                return Diagnosis(code, _scores_on(condition, score_words_by_subject))
    return None


def _scores_on(
    subjects: Iterable[str], score_words_by_subject: Mapping[str, str]
) -> tuple[str, ...]:
    """The scores that speak of these subjects, each once, as "context_recall 0.40"."""
    score_words: dict[str, None] = {}  # as an ordered set
    for subject in subjects:
        if subject in score_words_by_subject:
            score_words[score_words_by_subject[subject]] = None
    return tuple(score_words)


def _findings_of_row(row: SampleResult) -> tuple[dict[str, Finding], dict[str, str]]:
    """Collect what all results of a row say on the subjects that rules ask for.

    A subject is a question such as "facts_found": were the facts retrieved? The finding
    is True, False, or None if it is too close to call.

    Returns:
        The finding on each subject, and by subject the score that it rests on, such as
        "retrieval_accuracy 0.40".
    """
    findings: dict[str, Finding] = {}
    score_words_by_subject: dict[str, str] = {}
    for name, result in row.results.items():
        findings_of_result = _findings_of_result(result)
        findings.update(findings_of_result)
        score = result.status if result.value is None else format(result.value, ".2f")
        for subject in findings_of_result:
            score_words_by_subject[subject] = f"{name} {score}"
        if _leaves_prompt_open(result):
            # The metric does not say which facts the prompt held. The steps from
            # retrieval to prompt, where the run recorded them, may say it.
            findings.update(_findings_of_journey(row))
    return findings, score_words_by_subject


def _holds(condition: Mapping[str, Finding], findings: Mapping[str, Finding]) -> bool:
    """Whether the findings are those that the condition names."""
    return all(
        findings.get(subject, "missing") == wanted
        for subject, wanted in condition.items()
    )


def _findings_of_result(result: MetricResult) -> dict[str, Finding]:
    """Return what one metric's result says on the subjects that rules ask for.

    A finding is True, False, or None if it is uncertain. A finding that rests on a score
    is uncertain if the range in which the score may lie holds one half. The subjects
    depend on the kind of evidence:

    - abstained: the answer declines.
    - adherent: the contexts support the answer.
    - over_declined: the answer declines although the contexts suffice.
    - matching: the answer matches the reference.
    - Those of facts and of chunks are told by the two functions called for them.
    """
    if isinstance(result, Undefined):
        # without a score, only an answer that declines says something
        return {"abstained": True} if result.code == "abstained" else {}
    if not isinstance(result, Scored):
        return {}
    evidence = result.evidence
    # for evidence that does not say how uncertain the score is
    usual_range = (result.value - _USUAL_MARGIN, result.value + _USUAL_MARGIN)
    if isinstance(evidence, FactMatrix):
        return _findings_of_facts(result.value, evidence)
    if isinstance(evidence, JudgedChunks):
        return _findings_of_chunks(result.value, evidence)
    if isinstance(evidence, Polled):
        # where the score may lie if the polls were repeated
        range_of_repeats = evidence.repeatability or usual_range
        # where it may lie if the polls without an answer had said yes or no
        bounds = evidence.bounds or ()
        return {"adherent": _side_of_half(result.value, *range_of_repeats, *bounds)}
    if isinstance(evidence, Sufficed):
        # the metric has decided the case itself: no score is compared with one half
        return {"over_declined": evidence.case == "over_declined"}
    if evidence is not None and evidence.kind == "context_recall":
        return {"matching": _side_of_half(*usual_range)}
    return {}


def _side_of_half(*values: float) -> bool | None:
    """True if all values lie above one half, False if all lie below, else None."""
    if min(values) > HALF:
        return True
    if max(values) < HALF:
        return False
    return None


def _findings_of_facts(value: float, evidence: FactMatrix) -> dict[str, Finding]:
    """Return what a search for the facts of the reference says: where do they stand?

    Where the judge is unsure, the retrieved texts may hold a fact or not. So the share
    of retrieved facts lies between two values: with the surely held facts only, and with
    those that may be held. A finding on a share is True if both values and the score lie
    above one half, False if all of them lie below, else None.

    Args:
        value: The score: the share of the facts that the retrieved texts hold.
        evidence: The probability of each fact in each text, and the share of the facts
            that the prompt holds, where the prompt differs from the retrieved texts.

    Returns:
        Four findings: whether most facts were retrieved, whether most reached the
        prompt, whether any was retrieved, and whether many were lost between the two.
    """
    least_sure, most_sure = _UNSURE
    least_share = _share_of_facts(evidence, above=most_sure)
    most_share = _share_of_facts(evidence, above=least_sure)
    share_in_prompt = evidence.contexts_value
    if share_in_prompt is None:  # the prompt held what was retrieved
        share_in_prompt = value
    facts_found = _side_of_half(least_share, most_share, value)
    # where the judge is unsure of retrieved facts, it is unsure of the prompt as well
    facts_prompted = _side_of_half(least_share, most_share, value, share_in_prompt)
    any_fact: Finding = None
    if least_share > 0:
        any_fact = True
    elif most_share == 0:
        any_fact = False
    return {
        "facts_found": facts_found,
        "facts_prompted": facts_prompted,
        "any_fact": any_fact,
        "facts_lost": value - share_in_prompt >= _LOST,
    }


def _share_of_facts(evidence: FactMatrix, *, above: float) -> float:
    """Return the share of facts, by weight, that some text holds.

    Args:
        evidence: The probability of each fact in each text.
        above: A text holds a fact if its probability is above this.
    """
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


def _findings_of_journey(row: SampleResult) -> dict[str, Finding]:
    """Return whether many facts were lost between retrieval and prompt.

    Empty if the recorded steps do not show what became of every fact.
    """
    journey = journey_of(row)
    if journey is None or not journey.knows_every_fact:
        return {}
    n_lost = sum(fact.lost in ("not_kept", "not_shown") for fact in journey.facts)
    return {"facts_lost": n_lost >= _LOST * len(journey.facts)}


def _findings_of_chunks(value: float, evidence: JudgedChunks) -> dict[str, Finding]:
    """Return what verdicts on chunks say: is any useful, and do useful ones come first?

    Average precision measures the order; it is 1 if all useful chunks come first. Where
    the judge is unsure of a chunk, it is computed as if all such chunks were useful, and
    as if none were. The order counts as good or bad only if these two values and the
    score lie on the same side of one half.

    Args:
        value: The score: average precision, as the metric computed it.
        evidence: The verdict on each chunk, in the order of the chunks.
    """
    # None where the judge is unsure
    verdicts = [
        _sure_verdict(chunk.useful, chunk.probability) for chunk in evidence.chunks
    ]
    if True not in verdicts:
        return {"any_useful": None if None in verdicts else False}
    useful_if_unsure_are = [verdict is not False for verdict in verdicts]
    useful_if_unsure_are_not = [verdict is True for verdict in verdicts]
    possible_values = [
        average_precision(useful_if_unsure_are),
        average_precision(useful_if_unsure_are_not),
        value,  # where the judge is unsure, the score may lie outside of both
    ]
    low = min(possible_values)
    high = max(possible_values)
    if low == high:  # no chunk is unsure, so nothing tells how uncertain the score is
        low -= _USUAL_MARGIN
        high += _USUAL_MARGIN
    return {"any_useful": True, "well_ranked": _side_of_half(low, high)}


def _sure_verdict(useful: bool | None, probability: float | None) -> bool | None:
    """The verdict on a chunk; None where its probability leaves it open."""
    if probability is None:
        return useful
    least_sure, most_sure = _UNSURE
    if least_sure < probability < most_sure:
        return None
    return probability > HALF
