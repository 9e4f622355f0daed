"""Sentences that count say what they count: table by table, held against rows made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragmetrics_core import Report, Sample, Scored
from ragmetrics_core.data.metric_evidence import JudgedChunk
from ragmetrics_core.data.results import (
    ErrorInfo,
    Failed,
    MetricResult,
    SampleResult,
    Undefined,
)
from ragmetrics_core.metrics.context_utilization import UtilizationEvidence
from ragmetrics_core.page.counts import Counted, verdict_on
from ragmetrics_core.reporting.run_facts import RunFacts


def chunks(value: float, *verdicts: bool | None) -> Scored:
    judged = tuple(
        JudgedChunk(rank=rank, useful=own, reason="r")
        for rank, own in enumerate(verdicts, 1)
    )
    evidence = UtilizationEvidence(
        formula="AP", chunks=judged, useful=verdicts.count(True)
    )
    return Scored(
        metric="context_utilization", value=value, reason="r", evidence=evidence
    )


def scored(metric: str, value: float) -> Scored:
    return Scored(metric=metric, value=value, reason="r")


def rows(*results: MetricResult) -> list[SampleResult]:
    sample = Sample(question="q", contexts=["c"], answer="a")
    return [
        SampleResult(index=at, sample=sample, results={own.metric: own})
        for at, own in enumerate(results)
    ]


FAILED = Failed(
    metric="m", reason="r", error=ErrorInfo(type="RateLimited", message="slow")
)
SENTENCES: dict[str, tuple[list[MetricResult], Counted, str]] = {
    "a useful text last of two is not first": (
        [chunks(0.5, False, True)] * 26
        + [chunks(1.0, True)] * 17
        + [chunks(0.0, False)] * 17,
        Counted(17, 60),
        "17 of 60 retrievals put a useful text first",
    ),
    "no verdict on the first text": (
        [
            chunks(0.5, None, True),
            chunks(1.0, True),
            scored("context_utilization", 1.0),
        ],
        Counted(1, 1),
        "1 of 1 retrieval puts a useful text first",
    ),
    "no verdict at all": (
        [scored("context_utilization", 1.0)],
        Counted(0, 0),
        "1 retrieval scored",
    ),
    "a tie of polls does not rest on the text": (
        [scored("context_adherence", value) for value in (0.5, 0.6, 1.0, 0.4)],
        Counted(2, 4),
        "2 of 4 answers rest on the retrieved text",
    ),
    "a partial match is no match": (
        [scored("context_recall", value) for value in (0.5, 0.64, 0.65, 1.0)],
        Counted(2, 4),
        "2 of 4 answers match the expected answer mostly or wholly",
    ),
    "half of the facts": (
        [scored("retrieval_accuracy", value) for value in (0.49996, 0.5, 1.0)],
        Counted(2, 3),
        "2 of 3 retrievals find at least half of what is needed",
    ),
    "a metric of one's own": (
        [scored("m", 0.5), scored("m", 0.2), FAILED, Undefined(metric="m", reason="r")],
        Counted(1, 2),
        "1 of 2 rows scores one half or more",
    ),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_the_page_counts_what_its_first_sentences_say(
    name: str, tmp_path: Path
) -> None:
    results, counted, sentence = SENTENCES[name]
    metric = results[0].metric
    report = Report(rows(*results), RunFacts(metrics={metric: f"{metric}|v1"}))
    verdicts = [verdict_on(metric, own) for own in results if isinstance(own, Scored)]
    known = [verdict for verdict in verdicts if verdict is not None]
    assert Counted(sum(known), len(known)) == counted
    report.to_html(tmp_path / "page.html")
    page = " ".join((tmp_path / "page.html").read_text("utf-8").split())
    n_scored = len(verdicts)
    few = ": too few to say, 30 wanted" if n_scored < 30 else ""
    assert f"<td>{sentence}{few}." in page


@pytest.mark.parametrize(
    ("values", "sign"),
    [
        (
            [0.5] * 20 + [0.9] * 12,
            "the mean may be low: 0.650 is under 0.7, a rule of thumb of this tool,"
            " and its interval reaches that.",
        ),
        ([0.5] * 40, "low mean: 0.500, under 0.7."),
        ([0.75] * 40, ""),
    ],
)
def test_a_mean_is_called_low_only_where_its_interval_is(
    values: list[float], sign: str
) -> None:
    numbers = Report(rows(*(scored("m", value) for value in values))).summary()["m"]
    assert numbers.interval is not None
    means = [
        found
        for found in numbers.signs
        if "mean" in found.partition(";")[0] and "median" not in found
    ]
    assert means == ([f"m: {sign}"] if sign else [])


def test_useful_chunks_are_counted_over_the_scores_that_tell() -> None:
    results = [chunks(1.0, True)] * 199 + [
        chunks(0.0, False),
        scored("context_utilization", 0.5),
        FAILED,
    ]
    report = Report(
        rows(*results),
        RunFacts(metrics={"context_utilization": "context_utilization|v1"}),
    )
    assert "any useful chunk in 199 of 200 scored rows" in " ".join(
        report.table().split()
    )
