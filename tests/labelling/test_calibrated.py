"""Calibrated means and the draw of labels: by hand, by simulation in the benchmark, and on the command line."""

import json
import random
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from ragmetrics_core import Report, Sample, Scored
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.data.scalars import wilson
from ragmetrics_core.labelling.labels import draw
from ragmetrics_core.reporting.judge_card import Card
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.statistics.corrected_means import Scores, ppi


def alone(*values: float) -> Scores:
    return Scores(values, [-1] * len(values))


def report_of(*scores: float) -> Report:
    rows = [
        SampleResult(
            index=index,
            sample=Sample(
                id=f"s{index}", question=f"q{index}", answer="a", contexts=["c"]
            ),
            results={"m": Scored(metric="m", value=score, reason="r")},
        )
        for index, score in enumerate(scores)
    ]
    return Report(rows, RunFacts(metrics={"m": "m|v1"}, started="2026-11-26"))


def test_a_constant_judge_leaves_the_labels():
    labels = [True] * 12 + [False] * 8
    found = ppi(labels, alone(*[0.7] * 20), alone(*[0.7] * 100))
    assert found.weight == 0
    assert found.mean == pytest.approx(0.6)
    padded = [*map(float, labels), 0.0, 1.0]
    # scipy.stats.t.interval over the labels, one of 0 and one of 1
    expected = stats.t.interval(0.95, 21, sum(padded) / 22, stats.sem(padded))
    assert (found.interval.low, found.interval.high) == pytest.approx(expected)


def test_a_perfect_judge_gives_the_mean_of_all_scores():
    labels = [True, False] * 50
    scores = [float(label) for label in labels]
    others = [1.0] * 700 + [0.0] * 300
    found = ppi(labels, alone(*scores), alone(*others))
    # weight = cov / ((1 + n/N) var), nearly 1 / 1.1; the estimate moves from the
    # labels' .5 towards the scores' .7
    assert found.weight == pytest.approx(1 / 1.1, rel=0.25)
    assert found.mean == pytest.approx(0.5 + (found.weight or 0) * 0.2, abs=0.005)
    narrow = found.interval.high - found.interval.low
    low, high = wilson(50, 100)
    assert narrow < high - low


@pytest.mark.parametrize("n_right", [5, 15])
def test_an_interval_as_wide_as_can_be_ends_at_0_and_1(n_right):
    """Two clusters of unlabelled rows, one all right and one all wrong, tell nearly nothing."""
    labels = [True] * n_right + [False] * (20 - n_right)
    others = Scores([1.0] * 10 + [0.0] * 10, [0] * 10 + [1] * 10)
    interval = ppi(labels, alone(*map(float, labels)), others).interval
    assert (interval.low, interval.high) == (0.0, 1.0)


@pytest.mark.parametrize("count", [4, 30])
def test_the_interval_holds_the_variance_of_the_unlabelled_rows(count):
    # Each of 25 clusters has a yes and a no with scores of 1 and 0, so that every fold
    # gives the same weight.
    labels, keys = [True, False] * 25, [place // 2 for place in range(50)]
    scores = Scores([float(label) for label in labels], keys)
    values = [place / (count - 1) for place in range(count)]
    found = ppi(labels, scores, alone(*values))
    covariance = 40 / (4 * 39)  # of labels and scores on four fifths of the labels
    weight = covariance / ((1 + 50 / count) * np.var([*scores.values, *values]))
    assert found.weight == pytest.approx(weight)
    corrected = 0.5 - weight * (0.5 - np.mean(values))  # of every cluster
    clusters = [*[corrected] * 25, 0.0, 1.0]
    own, others = stats.sem(clusters) ** 2, (weight * stats.sem(values)) ** 2
    welch = (own + others) ** 2 / (own**2 / 26 + others**2 / (count - 1))
    half = stats.t.ppf(0.975, min(26, int(welch))) * np.sqrt(own + others)
    assert found.mean == pytest.approx(corrected)
    bounds = (found.interval.low, found.interval.high)
    assert bounds == pytest.approx((np.mean(clusters) - half, np.mean(clusters) + half))


def test_the_interval_covers_where_the_unlabelled_rows_are_no_more_than_the_labels():
    # Of a good judge's interval half the variance is that of the unlabelled rows:
    # without it four of five are covered.
    chance = random.Random(27)
    covered = 0
    for _ in range(300):
        labels = [chance.random() < 0.6 for _ in range(100)]
        others = [float(chance.random() < 0.6) for _ in range(100)]
        found = ppi(labels, alone(*map(float, labels)), alone(*others))
        covered += found.interval.low <= 0.6 <= found.interval.high
    assert 0.92 <= covered / 300 <= 0.99


def test_unlabelled_rows_of_one_cluster_tell_nothing_of_others():
    labels = [True, False] * 25
    scores = alone(*map(float, labels))
    others = Scores([1.0] * 700 + [0.0] * 300, [3] * 1000)
    found = ppi(labels, scores, others)
    assert (found.weight, found.mean) == (None, 0.5)
    assert (found.interval.low, found.interval.high) == pytest.approx(wilson(25, 50))
    several = ppi(
        labels, scores, Scores(others.values, [place // 334 for place in range(1000)])
    )
    many = ppi(labels, scores, Scores(others.values, [-1] * 1000))
    assert (
        several.interval.high - several.interval.low
        > many.interval.high - many.interval.low
    )


def test_few_of_a_class_use_the_labels_alone():
    labels = [True] * 26 + [False] * 4
    found = ppi(labels, alone(*[0.5] * 30), alone(0.1, 0.9))
    assert found.weight is None
    assert (found.interval.low, found.interval.high) == pytest.approx(wilson(26, 30))
    assert found.interval.method == "Wilson on the labels alone"
    clustered = ppi(
        labels, Scores([0.5] * 30, [n // 2 for n in range(30)]), alone(0.1, 0.9)
    )
    assert clustered.interval.method.startswith("t over 15 clusters")
    with pytest.raises(InputError, match="needs labels"):
        ppi([], alone(), alone(0.5))


def test_five_labels_of_the_rarer_class_and_two_clusters_of_others_are_enough():
    labels = [True] * 25 + [False] * 5
    scores = alone(*[0.9] * 25, *[0.2] * 5)
    assert ppi(labels, scores, Scores([0.9, 0.9, 0.2], [0, 0, 1])).weight is not None
    assert (
        ppi(
            [not label for label in labels], scores, Scores([0.9, 0.9, 0.2], [0, 0, 1])
        ).weight
        is not None
    )
    assert ppi(labels, scores, Scores([0.9, 0.9, 0.2], [0, 0, 0])).weight is None


def test_the_weight_of_a_timid_judge_is_one_and_of_a_reversed_one_none():
    labels = [True, False] * 20
    timid = ppi(labels, alone(*[0.55, 0.45] * 20), alone(*[0.55] * 600, *[0.45] * 200))
    # The scores tell labels apart, by a tenth; they are ten times as sure as they say,
    # and count as they are.
    assert timid.weight == 1
    assert timid.mean == pytest.approx(0.5 + (0.525 - 0.5))
    reversed_judge = ppi(
        labels, alone(*[0.1, 0.9] * 20), alone(*[0.9] * 600, *[0.1] * 200)
    )
    assert (reversed_judge.weight, reversed_judge.mean) == (0, 0.5)


def test_the_mean_stands_in_the_card_and_on_reports_of_the_run(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    chance = random.Random(3)
    truth = {f"s{index}": chance.random() < 0.6 for index in range(80)}
    report = report_of(*[0.9 if yes else 0.2 for yes in truth.values()])
    report.to_jsonl("r.jsonl")
    lines = [
        json.dumps({"id": name, "label": int(truth[name]), "drawn": 40, "of": 80})
        for name in draw(report, 40)
    ]
    Path("labels.jsonl").write_text("\n".join(lines))
    words = ["card", "--results", "r.jsonl", "--data", "labels.jsonl", "--draws", "10"]
    assert main([*words, "--out", "cards/own.json", "--report", "card.html"]) == 0
    shown = capsys.readouterr().out
    (sentence,) = re.findall("^People would say yes to .*$", shown, re.MULTILINE)
    assert "of the 80 scored samples (PPI++" in sentence
    assert "40 labels, weight of the judge 0." in sentence
    assert sentence in Path("card.html").read_text()

    monkeypatch.setenv("RAGMETRICS_CARDS", "cards")
    mean = Card.read("cards/own.json").corrected["m"].mean
    on_page = f"by 40 labels of people: <strong>{mean:.2f}</strong>"
    assert main(["report", "r.jsonl", "--report", "r.html"]) == 0
    assert on_page in Path("r.html").read_text()
    # another run of the same judge has another mean
    other = Report(report.results, report.run.model_copy(update={"started": "later"}))
    other.to_html("other.html")
    assert "labels of people" not in Path("other.html").read_text()


def test_clusters_widen_the_calibrated_mean_on_the_command_line(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    labels = [index // 8 % 2 for index in range(160)]  # eight turns agree
    rows = [
        SampleResult(
            index=index,
            sample=Sample(
                id=f"s{index}", question="q", metadata={"conversation_id": index // 8}
            ),
            results={"m": Scored(metric="m", value=0.8 * label, reason="r")},
        )
        for index, label in enumerate(labels)
    ]
    Report(rows, RunFacts(metrics={"m": "m|v1"})).to_jsonl("r.jsonl")
    lines = [
        json.dumps({"id": f"s{index}", "label": label})
        for index, label in enumerate(labels[:64])
    ]
    Path("l.jsonl").write_text("\n".join(lines))
    arguments = ["card", "--results", "r.jsonl", "--data", "l.jsonl", "--draws", "2"]
    widths = []
    for cluster in ("auto", "none"):
        assert main([*arguments, "--assume-random", "--cluster", cluster]) == 0
        bounds = re.search(
            r"People would .*\[([\d.]+), ([\d.]+)\]", capsys.readouterr().out
        )
        low, high = bounds.groups()
        widths.append(float(high) - float(low))
    assert widths[0] > 2 * widths[1] > 0
