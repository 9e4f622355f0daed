"""Certified thresholds: bounds against scipy, the sequence by hand, how many labels would do, the command."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ragmetrics_core import Report, Sample, Scored
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import InputError, MissingDependency, SettingError
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.statistics.certification import certify, fewest_labels


def test_fewest_labels() -> None:
    assert fewest_labels(0.05) == 1  # a right one has a chance of exactly 5 %
    # .9 ** 29 = .047 and .9 ** 28 = .052; the others from scipy.stats.binom.sf(n −
    # wrong − 1, n, target) <= .05
    assert [fewest_labels(0.9, wrong) for wrong in (0, 1, 2)] == [29, 46, 61]
    assert fewest_labels(0.5) == 5
    assert fewest_labels(0.95) == 59


def test_the_sequence_stops_where_the_labels_stop_certifying() -> None:
    # All 100 samples are labelled: 70 right at .9, then .8 with 2 of 10 wrong, then .1
    # with 20 wrong.
    labelled = (
        [(0.9, True)] * 70
        + [(0.8, True)] * 8
        + [(0.8, False)] * 2
        + [(0.1, False)] * 20
    )
    found = certify(labelled, [score for score, _ in labelled], 0.9)
    assert found.step is not None
    assert (found.step.threshold, found.step.n_yes, found.step.n_labels) == (
        0.8,
        78,
        80,
    )
    assert found.step.share == pytest.approx(0.8)
    assert found.sentence.startswith(
        "Certified: scores from 0.8 on are right in at least 0.9"
    )
    assert (
        "78 of 80 labels, 95 % lower bound 0.923; 80% of the 100 scored samples"
        in found.sentence
    )


def test_a_failure_at_the_top_ends_the_sequence() -> None:
    # Wrong at the top: the first threshold fails, and what comes after it is not
    # tested, good as it looks.
    labelled = [(0.9, False)] * 10 + [(0.8, True)] * 51 + [(0.7, True)] * 400
    assert certify(labelled, [score for score, _ in labelled], 0.9).step is None


def test_few_labels_start_with_fewer_errors() -> None:
    # 29 labels of as many samples: one threshold can be tested, and none may be wrong.
    assert certify([(0.5, True)] * 29, [0.5] * 29, 0.9).step is not None
    found = certify([(0.5, True)] * 28, [0.5] * 28, 0.9)
    assert (found.step, found.best is not None, found.needed) == (None, True, 29)


@pytest.mark.parametrize(
    ("labelled", "threshold"),
    [
        # 46 labels start where one wrong label of 46 is no failure, which is at the
        # end; 29 of 30 would be one.
        ([(0.9, True)] * 29 + [(0.9, False)] + [(0.5, True)] * 16, 0.5),
        # 45 labels start where none of 29 may be wrong, which is at .9.
        ([(0.9, True)] * 29 + [(0.9, False)] + [(0.5, True)] * 15, None),
        # 61 labels start where two of 61 are no failure.
        ([(0.9, True)] * 28 + [(0.9, False)] * 2 + [(0.5, True)] * 31, 0.5),
        ([(0.9, True)] * 28 + [(0.9, False)] * 2 + [(0.5, True)] * 30, None),
    ],
)
def test_the_sequence_starts_where_as_many_wrong_labels_as_possible_are_no_failure(
    labelled: list[tuple[float, bool]], threshold: float | None
) -> None:
    step = certify(labelled, [score for score, _ in labelled], 0.9).step
    assert (step and step.threshold) == threshold


def test_a_plan_needs_ten_labels_and_is_the_one_of_fewest_labels() -> None:
    assert certify([(0.8, True)] * 9, [0.8] * 100, 0.9).best is None
    assert certify([(0.8, True)] * 10, [0.8] * 100, 0.9).best is not None
    # From .9 on all 10 are right, in a tenth of the samples: 29 of those are 290
    # labels; from .5 on 20 of 20 are.
    labelled = [(0.9, True)] * 10 + [(0.5, True)] * 10
    found = certify(labelled, [0.9] * 10 + [0.5] * 90, 0.9)
    assert found.best is not None
    assert (
        found.best.threshold,
        found.best.n_yes,
        found.best.n_labels,
        found.best.share,
    ) == (0.5, 20, 20, 1.0)
    assert found.needed == 29


def test_how_many_labels_would_do() -> None:
    # 19 of 20 from .8 on, half of the samples; Fleiss' formula by hand for .95 against
    # .9: ((1.644854 · √.09 + .841621 · √.0475) / .05)² = 183.2; half of the samples:
    # 367
    labelled = [(0.8, True)] * 19 + [(0.8, False)] + [(0.2, False)] * 20
    found = certify(labelled, [0.8] * 500 + [0.2] * 500, 0.9)
    assert found.step is None
    assert found.needed == 367
    assert (
        "19 of 20 labels are right from 0.8 on; if that stays so, about 367 labels"
        in found.sentence
    )
    few = certify([(0.8, True)] * 5, [0.8] * 20, 0.9)
    assert few.needed == 29
    assert few.sentence.endswith(
        "at least 29 labels are needed, all of them right, more than the 20 scored"
        " samples of this run"
    )
    bad = certify([(0.8, True), (0.8, False)] * 30, [0.8] * 60, 0.9)
    assert bad.needed is None
    assert "more labels would hardly do" in bad.sentence


def test_labels_that_would_have_done_are_drawn_anew_with_one_more() -> None:
    # From .9 on 60 of 65 are right, too few, and that ends the sequence; from .5 on far
    # fewer than the 465 labels would have certified it.
    labelled = [(0.9, False)] * 5 + [(0.9, True)] * 60 + [(0.5, True)] * 400
    found = certify(labelled, [score for score, _ in labelled], 0.9)
    assert found.step is None
    assert found.best is not None
    assert (found.best.threshold, found.needed) == (0.5, 466)


def test_what_cannot_be_certified() -> None:
    for target in (0, 1, -1, float("nan")):
        with pytest.raises(SettingError, match=r"above 0 and up to 0\.999"):
            certify([(0.5, True)], [0.5], target)
    with pytest.raises(InputError, match="needs labels"):
        certify([], [0.5], 0.9)


def test_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(
        MissingDependency,
        match=r"certifying a threshold needs scipy: .*ragmetrics-core\[stats\]",
    ):
        certify([(0.5, True)] * 50, [0.5] * 50, 0.87)


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        SampleResult(
            index=index,
            sample=Sample(id=f"s{index}", question="q"),
            results={
                "m": Scored(metric="m", value=0.9 if index < 70 else 0.2, reason="r")
            },
        )
        for index in range(100)
    ]
    Report(rows, RunFacts(metrics={"m": "m|v1"})).to_jsonl("r.jsonl")
    Path("l.jsonl").write_text(
        "\n".join(json.dumps({"id": f"s{n}", "label": int(n < 70)}) for n in range(100))
    )
    arguments = [
        "agreement",
        "r.jsonl",
        "l.jsonl",
        "--draws",
        "2",
        "--certify-precision",
        "0.9",
    ]
    assert main(arguments) == 2
    assert "labels drawn at random" in capsys.readouterr().err
    assert main([*arguments, "--assume-random"]) == 0
    shown = capsys.readouterr().out.splitlines()[-1]
    assert shown.startswith(
        "Certified: scores from 0.9 on are right in at least 0.9 of this run's cases"
        " (70 of 70"
    )
