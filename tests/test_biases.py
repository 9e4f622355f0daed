"""What a run shows of biases of its judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragmetrics_core import (
    Sample,
    Scored,
    evaluate,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.replies import Usage
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.page.biases import correlations, usefulness_by_rank


def scored(index: int, value: float, **fields: Any) -> SampleResult:
    result = Scored(
        metric="m",
        value=value,
        reason="",
        judge="j",
        usage=Usage(models=("gpt-4o-mini",)),
    )
    return SampleResult(index=index, sample=Sample(**fields), results={"m": result})


def test_a_judge_that_loves_length_is_marked() -> None:
    rows = [
        scored(i, i / 20, answer="x" * (i + 1), contexts=["same"]) for i in range(20)
    ]
    found = {one.trait: one for one in correlations(rows, ["m"])}
    assert found["answer length"].rho == pytest.approx(1.0)
    assert found["answer length"].notable
    assert found["context length"].rho is None  # it does not vary
    assert not found["context length"].notable
    assert correlations(rows[:9], ["m"]) == []


def test_the_interval_of_a_correlation_by_hand() -> None:
    rows = [
        scored(i, value, answer="x" * (i + 1))
        for i, value in enumerate([0.1, 0.3, 0.2, 0.5, 0.4] * 4)
    ]
    one = next(
        found for found in correlations(rows, ["m"]) if found.trait == "answer length"
    )
    # scipy.stats.spearmanr; then Bonett & Wright by hand: tanh(atanh(rho) ± 1.959964
    # √((1 + rho²/2) / (20 − 3)))
    assert (one.rho, one.low, one.high) == pytest.approx(
        (0.196205, -0.273953, 0.590671), abs=1e-5
    )


ROWS = [
    {
        "question": "Who lit the lamp?",
        "contexts": ["Anna Brandt lit the lamp.", "Boats sail.", "Fog is thick."],
        "answer": "Anna Brandt lit the lamp.",
    },
    {
        "question": "Who built it?",
        "contexts": ["Rain falls.", "The guild built the tower."],
        "answer": "The guild built the tower.",
    },
]


def test_usefulness_by_rank() -> None:
    report = evaluate(ROWS, "utilization", judge="lexical")
    shares = usefulness_by_rank(report.results)
    assert [(share.rank, share.useful, share.count) for share in shares] == [
        (1, 1, 2),
        (2, 1, 2),
        (3, 0, 1),
    ]
    # Wilson for one of two: .5 ± .4055
    assert (shares[0].low, shares[0].high) == pytest.approx((0.0945, 0.9055), abs=1e-4)


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert main(["evaluate", "rows.jsonl", "--report", "report.html"]) == 0
    shown = capsys.readouterr().out
    assert "Report: report.html" in shown
    page = Path("report.html").read_text("utf-8")
    assert "context_recall left out" in page
    assert "; context_adherence AUROC 0.85 [" in page
    assert main(["evaluate", "rows.jsonl", "--report", "none/report.html"]) == 2
    assert "there is no folder none" in capsys.readouterr().err
