"""Agreement with people against scikit-learn, statsmodels and hand-worked values; the command; assert_score."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from ragmetrics_core import Report, Sample, SampleResult, Scored, Undefined
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import InputError, RowError, SettingError
from ragmetrics_core.reporting.labels import Label, matched, read_labels
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.statistics.agreement import (
    Labelled,
    auroc,
    balanced_accuracy,
    brier,
    gwet,
    human_kappa,
    kappa,
    krippendorff,
    matthews,
    measure_all,
    measures,
)
from ragmetrics_core.statistics.calibration import calibration_error, curve, slope_and_intercept
from ragmetrics_core.testing.assertions import UndecidedWarning, assert_score

PAIRS = st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.5, 0.5, 0.8, 1.0]), st.booleans()), min_size=4, max_size=30)


@given(PAIRS)
def test_measures_against_scikit_learn(pairs: list[tuple[float, bool]]) -> None:
    scores, labels = zip(*pairs, strict=True)
    verdicts = [score >= 0.5 for score in scores]
    judged = list(zip(verdicts, labels, strict=True))
    assert brier(pairs) == pytest.approx(reference.mean_squared_error(labels, scores))
    if len(set(labels)) < 2:
        assert auroc(pairs) is balanced_accuracy(judged) is None
        return
    assert auroc(pairs) == pytest.approx(reference.roc_auc_score(labels, scores))
    assert balanced_accuracy(judged) == pytest.approx(reference.balanced_accuracy_score(labels, verdicts))
    assert kappa(judged) == pytest.approx(reference.cohen_kappa_score(labels, verdicts))
    if len(set(verdicts)) == 2:
        assert matthews(judged) == pytest.approx(reference.matthews_corrcoef(labels, verdicts))
    else:
        assert matthews(judged) is None


def test_gwet_by_hand() -> None:
    # 8 of 10 agree; share of yes over both sides 17/20; chance 2 · .85 · .15 = .255; (.8 − .255) / .745
    pairs = [(True, True)] * 7 + [(True, False)] * 2 + [(False, True)] * 0 + [(False, False)]
    share = (9 + 7) / 20
    chance = 2 * share * (1 - share)
    assert gwet(pairs) == pytest.approx((0.8 - chance) / (1 - chance))
    assert gwet([]) is None
    assert gwet([(True, True)] * 5) == 1  # where kappa is undefined
    assert kappa([(True, True)] * 5) is None


def test_krippendorff_by_hand() -> None:
    # Krippendorff (2011), section A: two observers, ten binary units, four agreeing zeros … alpha = .095
    first = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    second = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    rows = [(bool(a), bool(b)) for a, b in zip(first, second, strict=True)]
    assert krippendorff(rows) == pytest.approx(0.095, abs=0.001)
    assert krippendorff([*rows, (True,)]) == krippendorff(rows)  # one label tells nothing
    assert krippendorff([(True, True)]) is None


def calibrated(count: int, sharpen: float, seed: int = 0) -> list[tuple[float, bool]]:
    """Scores whose log-odds are ``sharpen`` times those of the label's true probability."""
    draw = random.Random(seed)
    truth = [draw.uniform(0.05, 0.95) for _ in range(count)]
    return [(p**sharpen / (p**sharpen + (1 - p) ** sharpen), draw.random() < p) for p in truth]


def test_calibration_slope_against_statsmodels() -> None:
    pairs = calibrated(300, 2.0)
    odds = np.log([s / (1 - s) for s, _ in pairs])
    fit = sm.Logit([float(label) for _, label in pairs], sm.add_constant(odds)).fit(disp=0)
    found = slope_and_intercept(pairs)
    assert found == pytest.approx((fit.params[1], fit.params[0]), abs=1e-6)
    assert found is not None
    assert found[0] == pytest.approx(0.5, abs=0.1)  # scores twice as sure as they should be
    assert (
        slope_and_intercept([(0.1, False), (0.5, True), (0.5, False), (0.9, True)]) is None
    )  # separated but for a tie
    assert slope_and_intercept([(0.5, True), (0.5, False)]) is None


def test_the_debiased_error_is_near_zero_for_calibrated_scores_and_not_for_others() -> None:
    means = [calibration_error(calibrated(400, 1.0, seed)) or 0.0 for seed in range(20)]
    assert sum(means) / 20 < 0.03
    assert (calibration_error(calibrated(400, 4.0)) or 0) > 0.1
    assert calibration_error(calibrated(199, 1.0)) is None


def test_the_curve_has_equal_mass_and_keeps_ties_together() -> None:
    bins = curve([(i / 100, i % 2 == 0) for i in range(100)])
    assert [one.count for one in bins] == [10] * 10
    assert bins[0].score == pytest.approx(0.045)
    assert (bins[0].low, bins[0].high) == pytest.approx((0.2366, 0.7634), abs=1e-4)  # Wilson, 5 of 10
    assert [one.count for one in curve([(0.0, False)] * 70 + [(1.0, True)] * 30)] == [70, 30]


def rows_of(source: str, *given: tuple[float, bool]) -> list[Labelled]:
    return [Labelled(score, (label,), source) for score, label in given]


def test_sources_are_never_pooled() -> None:
    # Perfect within each source, and below chance if both were pooled.
    rows = rows_of("a", (0.1, False), (0.2, True), (0.1, False), (0.2, True)) + rows_of(
        "b", (0.8, False), (0.9, True), (0.8, False), (0.9, True)
    )
    found = {(one.measure, one.source): one for one in measure_all(rows, measures(0.5), draws=50)}
    assert [found["AUROC", place].value for place in ("a", "b", None)] == [1.0, 1.0, 1.0]
    assert found["AUROC", None].interval == (1.0, 1.0)
    assert found["AUROC", None].count == 2
    assert found["prevalence", "a"].value == 0.5
    assert found["human alpha", "a"].value is None
    assert found["calibration error", "a"].value is None


def test_the_human_ceiling() -> None:
    votes = [(True, True, False), (True, True), (False, False, False), (False, True, True), (True, False, True)]
    rows = [Labelled(0.5, own) for own in votes]
    pairs = [((0, 1), votes), ((0, 2), [v for v in votes if len(v) > 2]), ((1, 2), [v for v in votes if len(v) > 2])]
    kappas = [reference.cohen_kappa_score([v[a] for v in own], [v[b] for v in own]) for (a, b), own in pairs]
    assert human_kappa(rows) == pytest.approx(sum(kappas) / 3)
    assert [row.yes for row in rows] == [True, True, False, True, True]


def report_of(*scores: float | None, judge: str = "lexical") -> Report:
    rows = []
    for index, score in enumerate(scores):
        result = (
            Undefined(metric="m", reason="no answer") if score is None else Scored(metric="m", value=score, reason="")
        )
        rows.append(SampleResult(index=index, sample=Sample(id=f"s{index}"), results={"m": result}))
    return Report(rows, RunFacts(judges=(judge,), metrics={"m": "m|v1"}))


def test_reading_and_matching(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    lines = [
        {"id": "s0", "x": {"y": [1, 0.4, True]}},
        {"id": "s1", "x": {"y": 0}, "source": "b"},
        {"id": "s9", "x": {"y": 1}},
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    labels = read_labels(path, column="x.y")
    assert labels[0] == Label("s0", (True, False, True), "all")
    found = matched(report_of(0.9, None), "m", labels)
    assert [(row.score, row.votes) for row in found] == [(0.9, (True, False, True))]
    with pytest.raises(InputError, match="matched by id"):
        matched(report_of(0.9), "m", labels[1:])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no labels"),
        ("{", "line 1: not JSON"),
        ('{"label": 1}', 'line 1: needs an object with "id"'),
        ('{"id": 1, "label": 2}', "line 1: 'label' must be a number from 0 to 1"),
        ('{"id": 1, "label": "Zanzibar"}', "line 1: 'label' must be"),
        ('{"id": 1, "label": []}', "line 1: 'label' must be"),
    ],
)
def test_broken_labels(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(text)
    with pytest.raises((InputError, RowError), match=words) as caught:
        read_labels(path)
    assert "Zanzibar" not in str(caught.value)
    with pytest.raises(InputError, match="cannot be read"):
        read_labels(tmp_path / "none.jsonl")


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    scores = [0.1, 0.9, 0.2, 0.8, 0.4, 0.6]
    report_of(*scores).to_jsonl("r.jsonl")
    report_of(*[1 - score for score in scores], judge="contrary").to_jsonl("o.jsonl")
    labels = [{"id": f"s{i}", "label": score > 0.5} for i, score in enumerate(scores)]
    Path("labels.jsonl").write_text("\n".join(map(json.dumps, labels)))
    assert main(["agreement", "r.jsonl", "labels.jsonl", "--against", "o.jsonl", "--draws", "20"]) == 0
    shown = capsys.readouterr().out
    assert "m by lexical: 6 labelled scores" in shown
    assert "AUROC" in shown
    line = next(line for line in shown.splitlines() if "AUROC, difference" in line)
    assert line.split()[-3:] == ["1.000", "[1.000,", "1.000]"]
    assert "Minus contrary, on the same rows:" in shown
    assert "mean over sources" not in shown  # one source
    assert main(["agreement", "r.jsonl", "labels.jsonl", "--metric", "nothing"]) == 2


# assert_score -------------------------------------------------------------------------------------------


def test_one_result() -> None:
    assert_score(Scored(metric="m", value=0.8, reason=""), at_least=0.8)
    with pytest.raises(AssertionError, match=r"m is 0\.7000, less than 0\.8"):
        assert_score(Scored(metric="m", value=0.7, reason="Zanzibar"), at_least=0.8)
    with pytest.raises(AssertionError, match="m is undefined: no answer"):
        assert_score(Undefined(metric="m", reason="no answer"), at_least=0.1)
    with pytest.raises(SettingError, match=r"\[0, 1\]"):
        assert_score(Scored(metric="m", value=0.7, reason=""), at_least=80)


def test_a_report_with_three_outcomes() -> None:
    good, bad, few = report_of(*[0.95] * 60), report_of(*[0.2] * 60), report_of(0.9, 0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_score(good, at_least=0.8)
        assert_score(few, at_least=0.8, undecided="pass")
    with pytest.raises(AssertionError, match=r"m misses 0\.8"):
        assert_score(bad, at_least=0.8)
    with pytest.warns(UndecidedWarning, match=r"m may or may not reach 0\.8"):
        assert_score(few, at_least=0.8)
    with pytest.raises(AssertionError, match="may or may not"):
        assert_score(few, at_least=0.8, metric="m", undecided="fail")
    with pytest.raises(AssertionError, match="other was not measured"):
        assert_score(good, at_least=0.8, metric="other")
    with pytest.raises(SettingError, match="no metric"):
        assert_score(Report([]), at_least=0.8)
