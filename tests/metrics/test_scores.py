"""What may stand as a score: a number in [0, 1], else the result is failed and names the metric."""

import math

import pytest
from judge_replies import covered, facts, poll, polls, useful

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    Metric,
    RetrievalAccuracy,
    Sample,
    ScriptedJudge,
    evaluate,
)
from ragmetrics_core.data.metric_evidence import Evidence
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.context_recall import RateRecall
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.metrics.fact_matrix import ExtractFacts, FactInContext
from ragmetrics_core.metrics.polls import Adherent

SAMPLE = Sample(question="q", contexts=["c"], answer="a", reference="r")


class Fixed(Metric):
    """A metric of a user's own that gives one number."""

    name: str = "fixed"
    number: float

    def plan(self, sample):
        return self.scored(self.number, "as set", Evidence(kind="fixed"))
        yield


@pytest.mark.parametrize(
    "number", [math.nan, math.inf, -math.inf, 5.0, -0.1, 1.0001, -1e-6, 1e300]
)
def test_what_is_no_score_is_failed_and_names_the_metric(number):
    result = Fixed(number=number).score(SAMPLE, judge=ScriptedJudge({}))
    assert (result.status, result.value, result.error.type) == (
        "failed",
        None,
        "ScoreOutOfRange",
    )
    assert result.reason.startswith(f"fixed came to {number}, ")
    assert result.evidence.kind == "fixed"


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (1.0000000000000002, 1.0),
        (1 + 1e-9, 1.0),
        (-1e-17, 0.0),
        (0.0, 0.0),
        (1, 1.0),
        (0.3, 0.3),
    ],
)
def test_only_the_dust_of_floating_point_is_rounded(number, value):
    assert Fixed(number=number).score(SAMPLE, judge=ScriptedJudge({})).value == value


def test_a_run_counts_it_as_failed_beside_the_others():
    report = evaluate(
        [SAMPLE],
        [Fixed(number=math.nan), Fixed(name="fine", number=0.5)],
        judge="lexical",
    )
    (row,) = report.results
    broken, fine = row.results["fixed"], row.results["fine"]
    assert (broken.status, fine.value) == ("failed", 0.5)


class Altered(Fixed):
    """A metric that alters the result of another one by a copy, which nothing validates."""

    def plan(self, sample):
        outcome = yield from Fixed(number=0.5).plan(sample)
        return outcome.model_copy(update={"value": self.number})


@pytest.mark.parametrize(
    ("number", "value"), [(math.nan, None), (100.0, None), (-0.5, None), (0.25, 0.25)]
)
def test_an_altered_result_is_held_to_the_same(number, value):
    result = Altered(number=number).score(SAMPLE, judge=ScriptedJudge({}))
    assert (result.status, result.value) == (
        "failed" if value is None else "scored",
        value,
    )


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 5.0, -0.5])
@pytest.mark.parametrize(
    ("metric", "replies"),
    [
        (ContextUtilization(), lambda p: {Useful: useful(True, p)}),
        (
            ContextUtilization(relevance="probability"),
            lambda p: {Useful: useful(True, p)},
        ),
        (ContextAdherence(), lambda p: {Adherent: polls([poll("yes")], p=p)}),
        (ContextRecall(), lambda p: {RateRecall: {"score": p}}),
        (
            RetrievalAccuracy(),
            lambda p: {ExtractFacts: facts("f"), FactInContext: covered(p)},
        ),
    ],
    ids=["binary", "probability", "adherence", "recall", "accuracy"],
)
def test_a_judge_that_gives_no_probability_fails_the_metric(metric, replies, wrong):
    class Careless(Judge):
        name = "careless"

        async def answer(self, question):
            return await ScriptedJudge(replies(wrong)).answer(question)

    assert metric.score(SAMPLE, judge=Careless()).status == "failed"
