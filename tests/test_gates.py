"""Gates: three outcomes, and how they are written."""

from __future__ import annotations

import pytest

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.results import SampleResult, Scored, Undefined
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.reporting.gates import Gate, decide, parse_gate
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.run_facts import RunFacts


def report(*values: float) -> Report:
    return Report(
        SampleResult(index=index, sample=Sample(), results={"m": Scored(metric="m", reason="", value=value)})
        for index, value in enumerate(values)
    )


# 18 of 20: Wilson .699 to .972 (scipy 1.17.1, binomtest(18, 20).proportion_ci(method="wilson")).
EIGHTEEN = report(*[1.0] * 18, 0.0, 0.0)


@pytest.mark.parametrize(
    ("at_least", "outcome", "point"),
    [
        (0.69, "passed", "passed"),
        (0.71, "undecided", "passed"),
        (0.95, "undecided", "failed"),
        (0.98, "failed", "failed"),
    ],
)
def test_outcomes(at_least: float, outcome: str, point: str) -> None:
    gate = Gate(metric="m", at_least=at_least)
    assert decide(gate, EIGHTEEN).outcome == outcome
    assert decide(gate, EIGHTEEN, on="point").outcome == point
    assert decide(gate, EIGHTEEN.summary()) == decide(gate, EIGHTEEN)


def test_sentences() -> None:
    gate = Gate(metric="m", at_least=0.9)
    assert decide(gate, EIGHTEEN).sentence == (
        "m may or may not reach 0.9: mean 0.9000, 95 % interval 0.6990–0.9721 (Wilson), 20 scored. "
        "More samples would decide."
    )
    assert decide(gate, EIGHTEEN, on="point").sentence == "m reaches 0.9: mean 0.9000, 20 scored."
    assert "misses 0.98" in repr(decide(Gate(metric="m", at_least=0.98), EIGHTEEN))


def test_rounding_does_not_decide() -> None:
    thirds = report(0.6, 1, 0.8)  # the sum is 2.4, and 2.4 / 3 is just below 0.8
    assert decide(Gate(metric="m", at_least=0.8), thirds, on="point").outcome == "passed"


def test_the_ends_of_the_scale() -> None:
    assert decide(Gate(metric="m", at_least=0), report(0.0)).outcome == "passed"
    assert decide(Gate(metric="m", at_least=1), report(1.0)).outcome == "undecided"


def test_nothing_scored_has_failed() -> None:
    row = SampleResult(index=0, sample=Sample(), results={"m": Undefined(metric="m", reason="")})
    decision = decide(Gate(metric="m", at_least=0), Report([row]))
    assert (decision.outcome, decision.sentence) == ("failed", "m: nothing was scored (1 undefined, 0 failed).")


def test_not_measured_has_failed() -> None:
    decision = decide(Gate(metric="n", at_least=0), EIGHTEEN)
    assert (decision.outcome, decision.sentence) == ("failed", "n was not measured; this run has m.")
    assert decide(Gate(metric="n", at_least=0), Report([], RunFacts())).sentence.endswith("this run has no metric.")


def test_rows_without_a_score_are_named() -> None:
    rows = [*EIGHTEEN.results, SampleResult(index=20, sample=Sample())]
    assert "20 scored, 1 not scored" in decide(Gate(metric="m", at_least=0.5), Report(rows)).sentence


@pytest.mark.parametrize(
    ("text", "metric", "at_least"),
    [
        ("adherence=0.8", "context_adherence", 0.8),
        ("utilization=1", "context_utilization", 1.0),
        (" Recall = .5 ", "context_recall", 0.5),
        ("accuracy=0", "retrieval_accuracy", 0.0),
        ("context_recall=0.25", "context_recall", 0.25),
    ],
)
def test_parsing(text: str, metric: str, at_least: float) -> None:
    gate = parse_gate(text)
    assert (gate.metric, gate.at_least) == (metric, at_least)
    assert parse_gate(str(gate)) == gate


def test_own_names() -> None:
    assert parse_gate("Mine=0.5", names=["Mine"]).metric == "Mine"
    assert parse_gate("recall=0.5", names=["recall", "context_recall"]).metric == "recall"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("adherence", "metric=threshold"),
        ("=0.5", "metric=threshold"),
        ("", "metric=threshold"),
        ("adherance=0.5", "utilization, adherence, recall, accuracy, context_utilization"),
        ("recall=80", "0 to 1"),
        ("recall=nan", "0 to 1"),
        ("recall=-0.1", "0 to 1"),
        ("recall=high", "'high'"),
        ("recall=", "0 to 1"),
        ("recall==0.5", "0 to 1"),
    ],
)
def test_bad_gates(text: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        parse_gate(text)


def test_only_metrics_of_the_run_are_offered() -> None:
    with pytest.raises(SettingError, match=r"there are: recall, context_recall, mine$"):
        parse_gate("adherence=0.5", names=["context_recall", "mine"])
