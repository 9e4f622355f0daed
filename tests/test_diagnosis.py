"""Where samples went wrong, by rule, and silence where a score lies within its uncertainty."""

from __future__ import annotations

from typing import Any

import pytest

from ragmetrics_core.data.intervals import wilson
from ragmetrics_core.data.metric_evidence import AnsweringCase, Cell, JudgedChunk
from ragmetrics_core.data.results import MetricResult, SampleResult, Scored, Undefined
from ragmetrics_core.data.sample import Fact, Sample
from ragmetrics_core.metrics.adherence_evidence import AdherenceEvidence
from ragmetrics_core.metrics.context_recall import Rating, RecallEvidence
from ragmetrics_core.metrics.context_sufficiency import SufficiencyEvidence
from ragmetrics_core.metrics.context_utilization import UtilizationEvidence
from ragmetrics_core.metrics.fact_matrix import AccuracyEvidence
from ragmetrics_core.page.diagnosis import RULES, Diagnosis, diagnose


def chunks(*verdicts: bool | float) -> Scored:
    """Context Utilization of verdicts, or of probabilities that make verdicts."""
    useful = [verdict > 0.5 for verdict in verdicts]
    evidence = UtilizationEvidence(
        formula="AP",
        chunks=tuple(
            JudgedChunk(
                rank=rank,
                useful=yes,
                probability=None if isinstance(given, bool) else given,
            )
            for rank, (given, yes) in enumerate(zip(verdicts, useful, strict=True), 1)
        ),
        useful=sum(useful),
    )
    hits = [rank for rank, yes in enumerate(useful, 1) if yes]
    value = sum(n / rank for n, rank in enumerate(hits, 1)) / len(hits) if hits else 0.0
    return Scored(metric="mine", value=value, reason="", evidence=evidence)


def enough(case: AnsweringCase) -> Scored:
    """Context Sufficiency of a sample, and what the application did with it."""
    is_enough = case in ("answered", "over_declined")
    evidence = SufficiencyEvidence(
        sufficient=is_enough,
        probability=float(is_enough),
        declined=case.endswith("declined"),
        case=case,
    )
    return Scored(metric="s", value=float(is_enough), reason="", evidence=evidence)


def polls(yes: int, no: int) -> Scored:
    evidence = AdherenceEvidence(
        asked=yes + no, yes=yes, no=no, repeatability=wilson(yes, yes + no)
    )
    return Scored(metric="a", value=yes / (yes + no), reason="", evidence=evidence)


def facts(
    *best: float, after_cutting: float | None = None, value: float | None = None
) -> Scored:
    evidence = AccuracyEvidence(
        facts=tuple(Fact(text=f"fact {place}") for place, _ in enumerate(best)),
        facts_from="sample",
        evaluated="contexts",
        context_ids=(None, None),
        cells=tuple((Cell(probability=p), Cell(probability=0.0)) for p in best),
        contexts_value=after_cutting,
    )
    share = sum(p > 0.5 for p in best) / len(best)
    return Scored(
        metric="r",
        value=share if value is None else value,
        reason="",
        evidence=evidence,
    )


def recall(value: float) -> Scored:
    evidence = RecallEvidence(
        band="", best=0, ratings=(Rating(score=value),), with_contexts=True
    )
    return Scored(metric="c", value=value, reason="", evidence=evidence)


ABSTAINED = Undefined(metric="a", reason="", code="abstained")


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([], None),
        ([chunks(True, False), polls(5, 0), facts(1.0, 1.0), recall(1.0)], None),
        # the store does not hold it
        ([chunks(False, False), facts(0.1, 0.0)], "outside_store"),
        ([chunks(False, False), polls(0, 5)], "outside_store"),
        ([chunks(False, False), ABSTAINED], "outside_store"),
        # no fact of the reference is there, whatever the answer made of the chunks
        ([chunks(True, 0.4), facts(0.1, 0.0)], "outside_store"),
        # retrieval missed it
        ([chunks(True, False), facts(1.0, 0.0, 0.0)], "retrieval"),
        ([facts(1.0, 0.4, 0.4)], None),  # between one third and all
        # ranking
        ([chunks(False, False, True), facts(1.0)], "ranking"),
        ([chunks(True), facts(1.0, 1.0, after_cutting=0.5)], "dropped"),
        ([chunks(True), facts(1.0, 1.0, after_cutting=1.0)], None),
        ([chunks(0.4, 0.1, 0.9)], None),  # .33 or .83
        ([chunks(False, True)], None),  # exactly one half
        # declined though the text was there
        ([facts(1.0), ABSTAINED, recall(0.0)], "declined"),
        ([chunks(True), ABSTAINED, recall(0.0)], "declined"),
        ([chunks(True), ABSTAINED], "declined"),
        ([facts(0.4), chunks(True), ABSTAINED], None),  # may be there or not
        ([facts(0.0), chunks(True), ABSTAINED], "outside_store"),
        ([chunks(False, False, True), ABSTAINED], "ranking"),
        ([enough("over_declined")], "declined"),
        ([enough("answered")], None),
        ([enough("rightly_declined")], None),
        ([chunks(False), enough("over_declined"), ABSTAINED], "outside_store"),
        # generation
        ([chunks(True, False), polls(0, 5)], "generation"),
        ([facts(1.0), polls(5, 0), recall(0.2)], "generation"),
        # the Wilson interval of one of five holds one half
        ([facts(1.0), polls(1, 4)], None),
        ([facts(1.0), recall(0.45)], None),
        # uncertain is not missing: what is known of the facts decides
        ([facts(0.4, 0.4), chunks(True, True), polls(0, 5)], None),
        ([facts(0.6, 0.4, 0.4), chunks(True, True), recall(0.1)], None),
        ([facts(0.4), chunks(False, False), polls(0, 5)], None),
        # the prompt held less than half
        ([facts(1.0, 1.0, 0.0, after_cutting=0.45), polls(0, 5)], None),
        # another score than the cells'
        ([facts(1.0, 1.0, value=0.4), chunks(True, True), polls(0, 5)], None),
        ([polls(0, 5)], None),  # nothing tells whether the contexts held it
    ],
)
def test_rules(results: list[MetricResult], code: str | None) -> None:
    sample = Sample(question="q", contexts=["c"], answer="a")
    row = SampleResult(
        index=0, sample=sample, results={str(i): r for i, r in enumerate(results)}
    )
    found = diagnose(row)
    assert (found and found.code) == code


@pytest.mark.parametrize("best", [(0.0, 0.1), (0.9, 0.1, 0.1), (0.9, 0.9)])
def test_equal_retrievals_do_not_miss_for_one_answer_alone(
    best: tuple[float, ...],
) -> None:
    """With a reference, whether the retrieved text holds the answer is said by it alone."""
    answers: list[list[MetricResult]] = [
        [chunks(False, False), recall(0.1), polls(0, 5)],
        [chunks(True, False), recall(1.0), polls(5, 0)],
        [chunks(False, False), recall(0.0), ABSTAINED],
    ]
    missed = set()
    for results in answers:
        own = {str(i): r for i, r in enumerate([facts(*best), *results])}
        sample = Sample(question="q", contexts=["c"], answer="a")
        found = diagnose(SampleResult(index=0, sample=sample, results=own))
        code = found.code if found else None
        missed.add(code if code in ("outside_store", "retrieval") else None)
    assert len(missed) == 1


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"answer": "a"}, None),  # contexts that were never recorded are not known
        ({"answer": "a", "contexts": []}, "no_context"),
        ({"answer": "a", "contexts": [" "]}, "no_context"),
        ({"question": "q"}, None),
        ({"answer": "a", "error": "it broke"}, None),
    ],
)
def test_before_any_metric(fields: dict[str, Any], code: str | None) -> None:
    found = diagnose(SampleResult(index=0, sample=Sample(**fields)))
    assert (found and found.code) == code


def test_the_scores_that_fired_a_rule_are_named() -> None:
    results = {
        "accuracy": facts(1.0, 1.0),
        "adherence": polls(0, 5),
        "recall": recall(0.9),
        "use": chunks(True),
    }
    found = diagnose(
        SampleResult(
            index=0,
            sample=Sample(question="q", contexts=["c"], answer="a"),
            results=results,
        )
    )
    assert found == Diagnosis("generation", ("accuracy 1.00", "adherence 0.00"))


@pytest.mark.parametrize("accuracy", [0.0, 0.1, 0.3, 0.4, 0.45, 0.49])
@pytest.mark.parametrize("cells", [(0.9, 0.9), (0.6, 0.4), (0.4, 0.4, 0.9), (0.2, 0.2)])
def test_what_is_needed_does_not_stand_in_contexts_that_score_below_half(
    accuracy: float, cells: tuple[float, ...]
) -> None:
    results = dict(
        enumerate(
            [
                facts(*cells, value=accuracy),
                chunks(True, True),
                polls(0, 5),
                recall(0.0),
            ]
        )
    )
    row = SampleResult(
        index=0,
        sample=Sample(question="q", contexts=["c"], answer="a"),
        results={str(name): result for name, result in results.items()},
    )
    found = diagnose(row)
    assert found is None or found.code != "generation"


def test_a_bad_row_and_the_explanations() -> None:
    assert diagnose(SampleResult(index=0, sample=None, problem="no object")) is None
    assert all(rule.title and rule.reasoning and rule.remedy for rule in RULES.values())
