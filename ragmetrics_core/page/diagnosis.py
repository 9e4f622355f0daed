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
from collections.abc import Iterable, Mapping, Sequence
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
    that must hold together, such as ``{"facts_prompted": True, "adherent": False}``:
    the prompt held the facts, but the answer does not rest on them. The first rule with
    a condition that holds is the diagnosis.

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
    """Collect what all results of a row say on the subjects of the rules.

    A subject is a question such as "facts_found": were the facts retrieved?
    Example: ``({"adherent": False}, {"adherent": "context_adherence 0.10"})``.

    Returns:
        The finding on each subject, and by subject the score that it rests on.
    """
    findings: dict[str, Finding] = {}
    score_words_by_subject: dict[str, str] = {}
    for name, result in row.results.items():
        findings_of_result = _findings_of_result(result)
        findings.update(findings_of_result)
        score = result.status if result.value is None else format(result.value, ".2f")
        for subject in findings_of_result:
            score_words_by_subject[subject] = f"{name} {score}"
        # The metric looked for the facts in the retrieved texts, so it cannot tell
        # whether they reached the prompt. The recorded steps can: their finding counts.
        if _cannot_tell_of_prompt(result):
            findings.update(_findings_of_journey(row))
    return findings, score_words_by_subject


def _holds(condition: Mapping[str, Finding], findings: Mapping[str, Finding]) -> bool:
    """Whether the findings are the ones in the condition."""
    return all(
        findings.get(subject, "missing") == finding_needed
        for subject, finding_needed in condition.items()
    )


def _findings_of_result(result: MetricResult) -> dict[str, Finding]:
    """Return what one metric's result says on the subjects of the rules.

    A finding is True, False, or None if the score is too close to one half.
    Example: an adherence of .1 gives {"adherent": False}, one of .5 {"adherent": None}.

    Returns:
        The finding on each subject: "abstained" (the answer declines), "adherent" (it
        rests on the contexts), "over_declined" (it declines, though the contexts were
        enough), "matching" (it says what the reference says). On facts: "facts_found",
        "facts_prompted", "any_fact", "facts_lost". On chunks: "any_useful",
        "well_ranked".
    """
    if isinstance(result, Undefined):
        return {"abstained": True} if result.code == "abstained" else {}
    if not isinstance(result, Scored):
        return {}
    evidence = result.evidence
    if isinstance(evidence, FactMatrix):  # were facts found, did they reach the prompt
        return _findings_of_facts(result.value, evidence)
    if isinstance(evidence, JudgedChunks):  # is a chunk useful, do such come first
        return _findings_of_chunks(result.value, evidence)
    if isinstance(evidence, Polled):
        return {"adherent": _is_surely_adherent(result.value, evidence)}
    if isinstance(evidence, Sufficed):  # "I don't know" though the contexts would do
        return {"over_declined": evidence.case == "over_declined"}
    # in spite of its name, context_recall scores the answer against the reference
    if evidence is not None and evidence.kind == "context_recall":
        return {"matching": _is_clearly_above_half(result.value)}
    return {}


def _is_surely_adherent(score: float, evidence: Polled) -> bool | None:
    """Whether the contexts support the answer; None if the polls leave it open.

    They do if repeated polls may give a score on the other side of one half, or if the
    polls without an answer may.
    """
    range_of_repeats = evidence.repeatability or _usual_range(score)
    bounds_of_missing_polls = evidence.bounds or ()
    return _side_of_half(score, *range_of_repeats, *bounds_of_missing_polls)


def _usual_range(score: float) -> tuple[float, float]:
    """Where a score may lie whose evidence does not say how uncertain it is."""
    return score - _USUAL_MARGIN, score + _USUAL_MARGIN


def _is_clearly_above_half(score: float) -> bool | None:
    """Whether a score is above one half; None if it lies within a tenth of it.

    This is for scores whose evidence does not say how uncertain they are.
    """
    return _side_of_half(*_usual_range(score))


def _side_of_half(*values: float) -> bool | None:
    """True if all values lie above one half, False if all lie below, else None."""
    if min(values) > HALF:
        return True
    if max(values) < HALF:
        return False
    return None


def _findings_of_facts(score: float, evidence: FactMatrix) -> dict[str, Finding]:
    """Say whether the facts of the reference were retrieved, and reached the prompt.

    Example: the retrieved texts surely hold 90 % of the facts, and the prompt 20 %: the
    facts were found, did not reach the prompt, and many were lost between both.

    Args:
        score: The share of the facts that the retrieved texts hold.
        evidence: The probability that each text holds each fact, and the score of the
            prompt, where the prompt differs from the retrieved texts.
    """
    least_sure, most_sure = _UNSURE
    surely_held = _share_of_facts(evidence, above=most_sure)
    maybe_held = _share_of_facts(evidence, above=least_sure)
    shares_retrieved = (surely_held, maybe_held, score)
    score_of_prompt = evidence.contexts_value
    if score_of_prompt is None:  # the prompt held what was retrieved
        score_of_prompt = score
    return {
        "facts_found": _side_of_half(*shares_retrieved),
        "facts_prompted": _side_of_half(*shares_retrieved, score_of_prompt),
        "any_fact": _is_share_above_0(surely_held, maybe_held),
        "facts_lost": score - score_of_prompt >= _LOST,
    }


def _is_share_above_0(low: float, high: float) -> bool | None:
    """Whether a share between low and high is above 0; None if it may be or not."""
    if low > 0:
        return True
    return False if high == 0 else None


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


def _cannot_tell_of_prompt(result: MetricResult) -> bool:
    """Whether a metric sought facts, but not only in what the prompt held."""
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


def _findings_of_chunks(score: float, evidence: JudgedChunks) -> dict[str, Finding]:
    """Say whether any chunk is useful, and whether useful chunks come first.

    Args:
        score: The average precision, which is 1 if all useful chunks come first.
        evidence: The verdict on each chunk, in the order of the chunks.
    """
    verdicts = [
        _sure_verdict(chunk.useful, chunk.probability) for chunk in evidence.chunks
    ]
    if True in verdicts:
        return {"any_useful": True, "well_ranked": _is_well_ranked(score, verdicts)}
    may_be_useful = None in verdicts
    return {"any_useful": None if may_be_useful else False}


def _is_well_ranked(score: float, verdicts: Sequence[bool | None]) -> bool | None:
    """Whether useful chunks come first; None if that is too close to call.

    Args:
        score: The average precision that the metric computed.
        verdicts: Whether each chunk is useful; None if that is not sure.
    """
    if_unsure_are_useful = average_precision(
        [useful is not False for useful in verdicts]
    )
    if_unsure_are_useless = average_precision([useful is True for useful in verdicts])
    is_score_sure = score == if_unsure_are_useful == if_unsure_are_useless
    if is_score_sure:
        return _is_clearly_above_half(score)
    return _side_of_half(score, if_unsure_are_useful, if_unsure_are_useless)


def _sure_verdict(useful: bool | None, probability: float | None) -> bool | None:
    """The verdict on a chunk; None where its probability leaves it open."""
    if probability is None:
        return useful
    least_sure, most_sure = _UNSURE
    if least_sure < probability < most_sure:
        return None
    return probability > HALF
