"""What hands expect: the forms in which people of other libraries call and read."""

from collections.abc import Callable
from typing import Any

import pytest

from ragmetrics_core import ContextAdherence, Report, evaluate
from ragmetrics_core.data import SettingError

ROW = {
    "question": "Who lit the lamp?",
    "contexts": ["Anna lit the lamp."],
    "answer": "Anna lit the lamp.",
}
WRONG = ROW | {"answer": "A wizard built the harbour in 1871."}


def result(row: dict[str, Any] = ROW, **settings: Any) -> Any:
    return ContextAdherence(**settings).score(**row, judge="lexical")


def report() -> Report:
    return evaluate([ROW, WRONG], ["adherence"], judge="lexical")


HIGH = result().value
MEAN = (result().value + result(WRONG).value) / 2
HABITS: dict[str, tuple[Callable[[], Any], Any]] = {
    "result.score": (lambda: result().score, HIGH),
    "float(result)": (lambda: float(result()), HIGH),
    "no score": (lambda: ContextAdherence().score(answer="x").score, None),
    "report[metric].mean": (lambda: report()["context_adherence"].mean, MEAN),
    "report[short name].mean": (lambda: report()["adherence"].mean, MEAN),
    "len(report)": (lambda: len(report()), 2),
    "for row in report": (lambda: [row.index for row in report()], [0, 1]),
    "print(report)": (lambda: "context_adherence" in str(report()), True),
    "report.to_pandas()": (
        lambda: list(report().to_pandas()["context_adherence"]),
        [HIGH, result(WRONG).value],
    ),
    "one string as contexts": (
        lambda: result(ROW | {"contexts": "Anna lit the lamp."}).value,
        HIGH,
    ),
    "threshold, passed": (lambda: result(threshold=0.8).passed, True),
    "threshold, not passed": (lambda: result(WRONG, threshold=0.8).passed, False),
    "no threshold": (lambda: result().passed, None),
    "threshold, no score": (
        lambda: ContextAdherence(threshold=0.8).score(answer="x").passed,
        None,
    ),
}


@pytest.mark.parametrize("habit", HABITS)
def test_what_hands_expect(habit):
    call, wanted = HABITS[habit]
    found = call()
    if isinstance(wanted, float):
        wanted = pytest.approx(wanted)
    assert found == wanted


def test_a_threshold_changes_neither_score_nor_signature():
    assert result(threshold=0.8).value == HIGH
    assert result(threshold=0.8).signature == result().signature
    with pytest.raises(SettingError):
        ContextAdherence(threshold=8)


def test_a_passed_result_stays_passed_in_a_file(tmp_path):
    judged = evaluate([ROW], [ContextAdherence(threshold=0.8)], judge="lexical")
    judged.to_jsonl(tmp_path / "r.jsonl")
    (row,) = Report.from_jsonl(tmp_path / "r.jsonl")
    assert row.results["context_adherence"].passed is True


def test_a_metric_that_was_not_measured_is_named():
    with pytest.raises(SettingError, match="context_recall"):
        report()["context_recall"]
