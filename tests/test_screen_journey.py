"""The journey on the first screen: the stage to mend, what each stage lost, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core import Report, Sample, Scored, Undefined
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import (
    CaptureNotes,
    Cell,
    Fact,
    JudgedChunk,
    JudgedChunks,
    PassageNote,
    SampleResult,
)
from ragmetrics_core.metrics.context_recall import Rating, RecallEvidence
from ragmetrics_core.metrics.fact_matrix import AccuracyEvidence
from ragmetrics_core.page.first_screen import FirstScreen, screen_of
from ragmetrics_core.reporting.run_facts import Decision, RunFacts

NOISE = "Bread is baked twice a week in the old kitchen."
FACT = "Anna Brandt built the lamp of Vale in 1871."


def accuracy(*found: bool) -> Scored:
    """One fact, found in some of the retrieved texts."""
    cells = (tuple(Cell(probability=0.9 if own else 0.1) for own in found),)
    evidence = AccuracyEvidence(
        facts=(Fact(text=FACT),),
        facts_from="io",
        evaluated="contexts",
        context_ids=(None,) * len(found),
        cells=cells,
        soft=0.9,
    )
    return Scored(
        metric="retrieval_accuracy",
        value=float(any(found)),
        reason="",
        evidence=evidence,
    )


def utilization(*useful: bool) -> Scored:
    chunks = tuple(
        JudgedChunk(rank=rank, useful=verdict) for rank, verdict in enumerate(useful, 1)
    )
    return Scored(
        metric="context_utilization",
        value=float(any(useful)),
        reason="",
        evidence=JudgedChunks(chunks=chunks),
    )


def recall(value: float) -> Scored:
    evidence = RecallEvidence(
        band="", best=0, ratings=(Rating(score=value),), with_contexts=True
    )
    return Scored(metric="context_recall", value=value, reason="", evidence=evidence)


def row(index: int, *results: Any, **fields: Any) -> SampleResult:
    fields.setdefault("answer", "It is not known to me who built it.")
    sample = Sample(question=f"Who built lamp {index}?", **fields)
    named = {result.metric: result for result in results}
    return SampleResult(index=index, sample=sample, results=named)


def notes(*are_kept: bool) -> CaptureNotes:
    """What a reranker kept of the passages of a store, all of which was then shown."""
    passages = tuple(
        PassageNote(
            retriever="store",
            rank=rank,
            kept=is_kept,
            dropped_by=None if is_kept else "picker",
            context=0 if is_kept else None,
            share=float(is_kept),
        )
        for rank, is_kept in enumerate(are_kept, start=1)
    )
    return CaptureNotes(grade="exact", evidence_from="prompt", passages=passages)


def dropped(index: int, value: float = 0.1) -> SampleResult:
    """A row whose fact a reranker drops."""
    return row(
        index,
        accuracy(False, True),
        recall(value),
        contexts=(NOISE,),
        retrieved=(NOISE, FACT),
        capture=notes(True, False),
    )


def with_one_text(index: int, text: str, value: float) -> SampleResult:
    return row(
        index,
        accuracy(text == FACT),
        recall(value),
        contexts=(text,),
        retrieved=(text,),
        capture=notes(True),
    )


def not_found(index: int) -> SampleResult:
    """A row whose fact no retrieved text holds."""
    return with_one_text(index, NOISE, 0.1)


def astray(index: int) -> SampleResult:
    """A row whose answer does not follow from the text that was shown."""
    return with_one_text(index, FACT, 0.1)


def well(index: int) -> SampleResult:
    return with_one_text(index, FACT, 1.0)


def numbered(*rows: SampleResult) -> list[SampleResult]:
    return [own.model_copy(update={"index": at}) for at, own in enumerate(rows)]


def screen(rows: list[SampleResult], *decisions: Decision, **facts: Any) -> FirstScreen:
    report = Report(rows, RunFacts(**facts))
    return screen_of(report, report.summary(), report.run, decisions)


KINDS = {"dropped": dropped, "not_found": not_found, "astray": astray, "well": well}
STAGE_OF_KIND = {
    "dropped": "facts.not_kept",
    "not_found": "facts.not_retrieved",
    "astray": "generation",
}


@given(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=12))
def test_the_stage_with_most_rows_is_mended_first(kinds: list[str]) -> None:
    """Of facts the stage that lost most; an answer's fault where it has more rows."""
    first = screen(numbered(*(KINDS[kind](at) for at, kind in enumerate(kinds))))
    counts = {kind: kinds.count(kind) for kind in STAGE_OF_KIND}
    if not any(counts.values()):
        assert first.mend_first is None
        return
    # of equals the earlier stage
    of_search = max(("not_found", "dropped"), key=lambda kind: counts[kind])
    wanted = of_search if counts[of_search] >= counts["astray"] else "astray"
    assert first.mend_first is not None
    assert first.mend_first.code == STAGE_OF_KIND[wanted]
    assert first.mend_first.count == counts[wanted]
    rows = [at for at, kind in enumerate(kinds) if kind == wanted]
    assert [own.index for own in first.mend_first.examples] == rows[:3]
    assert ("A rule guessed this" in first.to_mend.how_found) == (wanted == "astray")


def test_the_journey_is_told_in_words_with_its_interval() -> None:
    first = screen(numbered(*(dropped(at) for at in range(8)), not_found(8), well(9)))
    assert first.mend_first is not None
    assert first.mend_first.mending is not None
    assert first.mend_first.mending.stage == "reranking, filtering and fusion"
    stage = first.journey.of("not_kept", "facts")
    assert stage is not None
    assert (stage.lost, stage.of) == (8, 9)
    low, high = (round(100 * end) for end in (stage.interval.low, stage.interval.high))
    assert first.to_mend.why == (
        "8 of 9 facts dropped between search and prompt, 95 % interval"
        f" {low} to {high} %; in 8 rows"
    )
    assert first.stage_losses.startswith(
        "Lost on the way, with 95 % intervals: 1 of 10 facts in no retrieved text ("
    )
    dropped_passages = "8 of 18 passages dropped between search and prompt"
    assert dropped_passages in first.stage_losses
    assert ", 8 by picker" in first.stage_losses
    assert first.to_mend.how_found == ""


def test_passages_that_nobody_needed_name_no_stage() -> None:
    """A reranker is there to drop: without a fault nothing is to be mended."""
    rows = [
        own.model_copy(update={"results": {"context_utilization": utilization(True)}})
        for own in (dropped(at) for at in range(5))
    ]
    first = screen(rows)
    assert first.mend_first is None
    assert first.journey.mend == "not_kept"
    assert "5 of 10 passages dropped" in first.stage_losses


def test_passages_count_where_the_retrieved_text_lacks_the_answer() -> None:
    """Without a fact nobody knows that the lost passage was needed, and that is said."""
    abstained = Undefined(metric="context_adherence", reason="", code="abstained")
    of_search = {
        "context_utilization": utilization(False),
        "context_adherence": abstained,
    }
    rows = [dropped(at).model_copy(update={"results": of_search}) for at in range(4)]
    first = screen(rows)
    assert first.mend_first is not None
    assert first.mend_first.code == "passages.not_kept"
    assert first.mend_first.count == 4
    assert first.to_mend.how_found.startswith(
        "It is not known whether what was lost was"
    )


def test_of_the_gate_at_risk_the_stage_with_most_rows_against_it() -> None:
    def gate(outcome: Any) -> Decision:
        return Decision(metric="context_recall", outcome=outcome, sentence="s.")

    # three rows lost a fact and two have a right answer all the same
    rows = numbered(
        dropped(0, 1.0), dropped(1, 1.0), dropped(2), astray(3), astray(4), well(5)
    )
    failed = screen(rows, gate("failed"))
    assert failed.mend_first is not None
    assert failed.mend_first.code == "generation"
    assert failed.to_mend.at_risk == (
        "Of the 3 rows that count against context_recall, whose gate is not passed,"
        " 2 are of this kind."
    )
    more = screen(numbered(*rows, dropped(6), dropped(7)), gate("failed"))
    assert more.mend_first is not None
    assert more.mend_first.code == "facts.not_kept"
    assert "Of the 5 rows" in more.to_mend.at_risk
    assert " 3 are of this kind." in more.to_mend.at_risk
    assert screen(rows, gate("passed")).to_mend.at_risk == ""


def test_a_run_until_decided_has_no_interval_of_a_loss() -> None:
    decision = {"metric": "m", "outcome": "passed", "sentence": "s"}
    first = screen(numbered(dropped(0), well(1)), decisions=(decision,))
    words = first.to_mend.why + first.stage_losses
    assert "interval" not in words
    assert "%" not in words
    assert first.stage_losses.startswith("Lost on the way: 1 of 2 facts dropped")


def test_a_stage_that_nobody_knows_is_not_named() -> None:
    """Without what was retrieved a rule guesses, and it is said what would tell."""
    rows = numbered(
        *(row(at, accuracy(False), recall(0.1), contexts=(NOISE,)) for at in range(3)),
        row(3, accuracy(True), recall(1.0), contexts=(FACT,)),
    )
    first = screen(rows)
    assert first.journey.mend == "missing"
    assert first.mend_first is not None
    assert first.mend_first.code == "outside_store"
    assert first.to_mend.how_found == (
        "A rule guessed this from the scores. What the retriever returned (the column"
        " retrieved, or captured runs) would tell whether the search or a later step"
        " lost it."
    )
    assert "3 of 4 facts in no text that the model was shown" in first.stage_losses


def test_rows_that_were_drawn_are_said_to_be_drawn() -> None:
    rows = numbered(dropped(0), well(1))
    report = Report(rows)
    more = report.summary().model_copy(update={"rows": 3})
    words = screen_of(report, more, report.run).stage_losses
    assert words.startswith("Lost on the way in the rows drawn, with 95 % intervals: ")
    assert "drawn" not in screen(rows).stage_losses


def test_nothing_known_is_nothing_said() -> None:
    bare = SampleResult(index=0, sample=Sample(question="q"), results={})
    assert screen([bare]).stage_losses == ""
    all_well = screen([well(0)]).stage_losses
    assert all_well.startswith("Nothing was lost at ")
    assert "stages of which something is known." in all_well


def test_page_and_terminal_name_the_same_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = numbered(*(dropped(at) for at in range(3)), not_found(3), well(4))
    Report(rows).to_jsonl("results.jsonl")
    assert main(["report", "results.jsonl"]) == 0
    terminal = capsys.readouterr().out.splitlines()
    page = " ".join(Path("results.html").read_text().split())
    first = screen(rows)
    assert first.stage_losses in terminal
    (mend,) = (line for line in terminal if line.startswith("Mend first: "))
    assert mend.startswith(
        f"Mend first: reranking, filtering and fusion ({first.to_mend.why})."
    )
    assert mend.endswith("Look at rows 1, 2, 3.")
    assert (
        f"Mend first: reranking, filtering and fusion</strong> ({first.to_mend.why})."
        in page
    )
    assert (
        'data-value="facts.not_kept">facts dropped between search and prompt<' in page
    )
    assert "Reranking, filtering and fusion: 3 by picker" in page
    assert (
        "  row 1: fact dropped between search and prompt: Who built lamp 0?" in terminal
    )
