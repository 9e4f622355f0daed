"""Rogan–Gladen: by hand, against the delta method, undefined where it must be, and on the command line."""

from __future__ import annotations

import json
from math import sqrt
from pathlib import Path

import pytest

from ragmetrics_core import Report, Sample, Scored
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.statistics.corrected_means import (
    NotCorrectable,
    Scores,
    rogan_gladen,
)


def scores_of(*groups: tuple[int, float], keys: list[int] | None = None) -> Scores:
    values = [score for count, score in groups for _ in range(count)]
    return Scores(values, keys or [-1] * len(values))


def labels_of(yes: int, no: int) -> list[bool]:
    return [True] * yes + [False] * no


def test_the_estimate_by_hand() -> None:
    # Sensitivity 18/20, specificity 8/10, 60 of 100 verdicts positive: (.6 + .8 − 1) /
    # (.9 + .8 − 1) = 4/7
    own = scores_of((18, 0.9), (2, 0.1), (2, 0.9), (8, 0.1))
    found = rogan_gladen(labels_of(20, 10), own, scores_of((60, 0.9), (40, 0.1)))
    assert found.mean == pytest.approx(4 / 7)
    assert (found.labelled, found.unlabelled, found.weight) == (30, 100, None)
    # Lang & Reiczigel by hand: se 19/22, sp 9/12, q (60 + z²/2)/(100 + z²) = .59630;
    # mean .34630/.61364 = .56434; errors se(1 − se)/22 = .0053531 and sp(1 − sp)/12 =
    # .015625; shift 2z²(.56434 · .0053531 − .43566 · .015625) = −.029089; spread
    # .0023182 + .31848 · .0053531 + .18980 · .015625 = .0069887; half z √spread/.61364
    # = .26701
    assert (found.interval.low, found.interval.high) == pytest.approx(
        (0.26824, 0.80227), abs=1e-4
    )


def test_five_labels_of_each_class_are_enough() -> None:
    found = rogan_gladen(
        labels_of(5, 5), scores_of((5, 1.0), (5, 0.0)), scores_of((7, 1.0), (3, 0.0))
    )
    assert found.mean == pytest.approx(0.7)


@pytest.mark.parametrize(
    # of 100; (q + .8 − 1) / .7 is −1/7 at .1 and 8/7 at 1: no share, so the nearest one
    ("positive", "mean"),
    [(10, 0.0), (100, 1.0)],
)
def test_an_estimate_beyond_the_range_is_cut_and_its_interval_holds_it(
    positive: int, mean: float
) -> None:
    own = scores_of((18, 0.9), (2, 0.1), (2, 0.9), (8, 0.1))
    found = rogan_gladen(
        labels_of(20, 10), own, scores_of((positive, 0.9), (100 - positive, 0.1))
    )
    assert found.mean == mean
    assert mean in (found.interval.low, found.interval.high)
    assert 0 <= found.interval.low < found.interval.high <= 1


def test_a_score_at_the_threshold_is_a_positive_verdict() -> None:
    own = scores_of((18, 0.7), (2, 0.1), (2, 0.7), (8, 0.1))
    others = scores_of((60, 0.7), (40, 0.69))
    assert rogan_gladen(
        labels_of(20, 10), own, others, threshold=0.7
    ).mean == pytest.approx(4 / 7)


def test_many_labels_give_the_interval_of_the_delta_method() -> None:
    own = scores_of((18000, 1.0), (2000, 0.0), (2000, 1.0), (8000, 0.0))
    found = rogan_gladen(
        labels_of(20000, 10000), own, scores_of((60000, 1.0), (40000, 0.0))
    )
    mean = 4 / 7
    variance = (
        0.6 * 0.4 / 100000
        + mean**2 * 0.9 * 0.1 / 20000
        + (1 - mean) ** 2 * 0.8 * 0.2 / 10000
    )
    half = 1.959964 * sqrt(variance) / 0.7
    assert (found.interval.low, found.interval.high) == pytest.approx(
        (mean - half, mean + half), abs=2e-4
    )


def test_a_perfect_judge_is_believed() -> None:
    found = rogan_gladen(
        labels_of(20, 10),
        scores_of((20, 1.0), (10, 0.0)),
        scores_of((70, 1.0), (30, 0.0)),
    )
    assert found.mean == pytest.approx(0.7)
    assert found.interval.low < 0.7 < found.interval.high


@pytest.mark.parametrize(
    ("own", "labels", "message"),
    [
        (
            scores_of((5, 1.0), (5, 0.0), (5, 1.0), (5, 0.0)),
            labels_of(10, 10),
            r"0\.50 \+ specificity 0\.50 <= 1",
        ),
        (
            scores_of((2, 1.0), (8, 0.0), (5, 1.0), (5, 0.0)),
            labels_of(10, 10),
            r"0\.20 \+ specificity 0\.50 <= 1",
        ),
        (scores_of((10, 1.0), (4, 0.0)), labels_of(10, 4), "10 yes and 4 no"),
        (scores_of((10, 1.0)), labels_of(10, 0), "10 yes and 0 no"),
    ],
)
def test_where_it_is_undefined(own: Scores, labels: list[bool], message: str) -> None:
    with pytest.raises(NotCorrectable, match=message):
        rogan_gladen(labels, own, scores_of((10, 1.0), (10, 0.0)))


def test_a_judge_hardly_better_than_chance_says_nothing_sure() -> None:
    own = scores_of((6, 1.0), (4, 0.0), (5, 1.0), (5, 0.0))
    found = rogan_gladen(labels_of(10, 10), own, scores_of((50, 1.0), (50, 0.0)))
    assert (found.interval.low, found.interval.high) == (0.0, 1.0)


def test_without_others_and_without_labels() -> None:
    found = rogan_gladen(labels_of(7, 5), scores_of((12, 1.0)), scores_of())
    assert found.mean == pytest.approx(7 / 12)
    assert found.interval.method == "Wilson on the labels alone"
    with pytest.raises(InputError, match="needs labels"):
        rogan_gladen([], scores_of(), scores_of((1, 1.0)))


def test_samples_said_twice_double_the_variance() -> None:
    # Every sample stands twice in its cluster: the variance of the estimate is twice
    # that of as many samples alone.
    groups, others = ((36, 1.0), (4, 0.0), (4, 1.0), (16, 0.0)), ((120, 1.0), (80, 0.0))
    labels = labels_of(40, 20)
    alone = rogan_gladen(labels, scores_of(*groups), scores_of(*others))
    twins = [place // 2 for place in range(260)]
    found = rogan_gladen(
        labels, scores_of(*groups, keys=twins[:60]), scores_of(*others, keys=twins[60:])
    )
    width, wide = (one.interval.high - one.interval.low for one in (alone, found))
    # 130 clusters of 260 samples: the design effect is 2 · 130/129 · 259/260
    assert wide / width == pytest.approx(sqrt(2 * 130 / 129 * 259 / 260))
    assert found.interval.method.endswith("the design effect 2.01")
    assert found.mean == alone.mean


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    scores = [1.0] * 18 + [0.0] * 2 + [1.0] * 2 + [0.0] * 8 + [1.0] * 60 + [0.0] * 40
    rows = [
        SampleResult(
            index=index,
            sample=Sample(
                id=f"s{index}", question="q", metadata={"conversation_id": index // 2}
            ),
            results={"m": Scored(metric="m", value=score, reason="r")},
        )
        for index, score in enumerate(scores)
    ]
    Report(rows, RunFacts(metrics={"m": "m|v1"})).to_jsonl("r.jsonl")
    lines = [
        json.dumps({"id": f"s{index}", "label": int(index < 20)}) for index in range(30)
    ]
    Path("l.jsonl").write_text("\n".join(lines))
    arguments = [
        "agreement",
        "r.jsonl",
        "l.jsonl",
        "--draws",
        "2",
        "--assume-random",
        "--calibrate",
        "rogan-gladen",
    ]
    assert main(arguments) == 0
    shown = capsys.readouterr().out.splitlines()[-1]
    assert shown.startswith("People would say yes to 0.571 [")
    assert "design effect" in shown
    assert main([*arguments, "--cluster", "none"]) == 0
    shown = capsys.readouterr().out.splitlines()[-1]
    assert shown.startswith(
        "People would say yes to 0.571 [0.268, 0.802] of the 130 scored samples"
        " (Rogan–Gladen"
    )
    assert "design effect" not in shown
    # all verdicts are yes: specificity 0
    assert main([*arguments, "--threshold", "0"]) == 0
    assert (
        "Rogan–Gladen is undefined here: sensitivity 1.00 + specificity 0.00 <= 1"
        in capsys.readouterr().out
    )
