"""The demonstration: what it says, what it scores, where it finds its pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragmetrics_core import Report
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import InputError
from ragmetrics_core.demo import own_docs
from ragmetrics_core.metrics.registry import METRICS


def test_every_metric_scores_and_faults_are_seen_or_missed_as_said() -> None:
    report = own_docs.demo()
    summary = report.summary()
    assert all(
        summary[name].count >= len(own_docs.QUESTIONS) and not summary[name].failed
        for name in METRICS
    )
    generators = {row.sample.generator for row in report.results[:3] if row.sample}
    assert generators == {"extractive"}
    names = [name for name, _ in own_docs.HANDWRITTEN]
    seen = {
        name
        for name, diagnosis in zip(names, report.faults[-len(names) :], strict=True)
        if diagnosis.kind == "fault"
    }
    assert "made up" in seen
    assert "grounded" not in seen
    assert "a swapped name" not in seen, "a judge of words cannot see it"


def test_answers_are_quotations() -> None:
    chunks = own_docs.corpus()
    for question, _ in own_docs.QUESTIONS:
        found = own_docs.retrieve(question, chunks)
        quoted = own_docs.answer(question, [chunk.text for chunk in found])
        assert any(quoted in chunk.text for chunk in found)
    assert own_docs.answer("?", ()) == "I don't know."


def test_the_command_writes_its_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--out", str(tmp_path / "out.jsonl")]) == 0
    assert "context_adherence" in capsys.readouterr().out
    assert len(Report.from_jsonl(tmp_path / "out.jsonl").results) == len(
        own_docs.QUESTIONS + own_docs.HANDWRITTEN
    )


def test_pages_come_from_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "corpus").mkdir()
    for page in ("how_it_works.md", "metrics.md"):
        (tmp_path / "corpus" / page).write_text(
            "# A heading that is left out of the corpus\n\n" + f"{page} " * 9
        )
    monkeypatch.setattr(own_docs, "files", lambda package: tmp_path)
    assert [chunk.id for chunk in own_docs.corpus()] == [
        "how_it_works.md#0",
        "metrics.md#0",
    ]


def test_pages_come_from_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_docs, "files", lambda package: tmp_path)
    assert len(own_docs.corpus()) > 20
    monkeypatch.setattr(own_docs, "__file__", str(tmp_path / "a" / "b" / "c.py"))
    with pytest.raises(
        InputError, match=r"the demo's page how_it_works\.md is missing; install"
    ):
        own_docs.corpus()
