"""The stage of a fault is right or unknown, never wrong: on rows whose faults are known."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from judge_replies import poll as polled
from planted import ROWS, RightJudge, planted_rows, sample_of

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    RetrievalAccuracy,
    Sample,
    ScriptedJudge,
    evaluate,
)
from ragmetrics_core.data.sample_parts import CaptureNotes
from ragmetrics_core.metrics.answer_relevance import Addresses
from ragmetrics_core.metrics.context_recall import RateRecall
from ragmetrics_core.metrics.context_sufficiency import SufficientContexts
from ragmetrics_core.metrics.declined import Declined
from ragmetrics_core.metrics.fact_matrix import ExtractFacts, FactInContext
from ragmetrics_core.metrics.polls import Adherent


def test_the_frozen_rows_are_those_that_the_module_makes():
    assert json.loads(ROWS.read_text(encoding="utf-8")) == planted_rows()


def test_every_stage_is_right_or_unknown():
    rows = planted_rows()
    report = evaluate([sample_of(row) for row in rows], judge=RightJudge().judge())
    counts: Counter[tuple[str, bool]] = Counter()
    wrong = []
    for row, diagnosis in zip(rows, report.faults, strict=True):
        has_reference = row["reference"] is not None
        if diagnosis.stage == row["stage"]:
            counts["right", has_reference] += 1
        elif diagnosis.stage is None:
            counts["unknown", has_reference] += 1
        else:
            wrong.append((row["id"], row["fault"], diagnosis))
    assert not wrong
    assert counts["unknown", True] <= 0.1 * counts["right", True]
    assert counts["right", False] > counts["unknown", False]


def test_no_fault_passes_for_fine_where_the_expected_answer_is_known():
    """Also where the embedded judge calls its score uncertain, and recall is good."""
    rows = [row for row in planted_rows() if row["stage"] and row["reference"]]
    report = evaluate(map(sample_of, rows), judge="lexical")
    kinds = Counter(diagnosis.kind for diagnosis in report.faults)
    assert kinds["fault"] > 0.8 * len(rows)
    assert not kinds["fine"]


@pytest.mark.nightly
def test_the_page_of_measurements_holds_what_the_command_prints():
    """In a process of its own, as people run it."""
    root = Path(__file__).parents[2]
    command = [sys.executable, str(root / "benchmarks" / "planted_faults.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.strip() in (root / "docs" / "measured.md").read_text("utf-8")


@pytest.mark.nightly
def test_what_a_sample_costs_is_what_the_docs_say():
    root = Path(__file__).parents[2]
    command = [sys.executable, str(root / "benchmarks" / "cost.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = (root / "docs" / "measured.md").read_text("utf-8")
    told = [line for line in page.splitlines() if line.startswith("cost: ")]
    assert len(told) == 2
    for line in told:
        assert line in printed


def test_one_half_is_no():
    """Of four polls two say that the answer keeps to the text."""
    row = next(row for row in planted_rows() if row["fault"] == "made up")
    torn = [polled("yes")] * 2 + [polled("no")] * 2
    judge = ScriptedJudge(
        {
            Adherent: torn,
            ExtractFacts: {"facts": [row["reference"]]},
            FactInContext: {"covered": 1},
        }
    )
    metrics = [ContextAdherence(polls=4), RetrievalAccuracy()]
    report = evaluate([sample_of(row)], metrics, judge=judge)
    assert report.scores("context_adherence") == [0.5]
    assert (report.faults[0].name, report.faults[0].stage) == ("made up", "answer")


TWO, THREE = ("one", "two"), ("one", "two", "three")


@pytest.mark.parametrize(
    ("retrieved", "contexts", "adherent", "score", "name", "stage"),
    [
        # of three facts the text holds two: nobody knows what the question asks for
        (None, TWO, True, 0.35, "partial", None),
        (None, TWO, False, 0.3, "made up", None),
        # the prompt lost a fact that was found, and the answer keeps to the prompt
        (THREE, TWO, True, 0.4, "dropped", "prompt"),
        (THREE, TWO, False, 0.3, "made up", None),
        (THREE, (), True, 0.4, "dropped", "prompt"),
        # what was shown was found, whatever the list of retrieved texts lacks
        (("other",), THREE, False, 0.3, "made up", "answer"),
        ((), THREE, True, 1.0, "no fault found", None),
        (None, ("other",), False, 0.3, "not in the text", "search"),
        # an answer that is good, as far as it was judged, needed no fact
        (None, ("other",), True, None, "right anyway", None),
    ],
)
def test_a_text_that_holds_some_of_the_facts_names_no_stage(
    retrieved, contexts, adherent, score, name, stage
):
    sample = Sample(
        question="q",
        answer="a",
        reference="r",
        facts=THREE,
        retrieved=retrieved,
        contexts=contexts,
    )
    judge = ScriptedJudge(
        {
            Adherent: {"claims": 1, "unsupported": [] if adherent else ["a"]},
            RateRecall: {"score": score},
            Declined: {"declined": 0},
            FactInContext: lambda asked: {
                "covered": int(asked["context"] == asked["fact"])
            },
        }
    )
    metrics = [ContextAdherence(polls=1), RetrievalAccuracy()]
    if score is not None:
        metrics.append(ContextRecall())
    (diagnosis,) = evaluate([sample], metrics, judge=judge).faults
    assert (diagnosis.name, diagnosis.stage) == (name, stage)


def test_a_reference_without_facts_blames_no_search():
    """Nothing could have been found."""
    sample = Sample(
        question="q", answer="a", contexts=["c"], reference="The documents do not say."
    )
    judge = ScriptedJudge(
        {
            Adherent: {"claims": 1, "unsupported": ["a"]},
            SufficientContexts: {"missing": ["it"]},
            Addresses: {"grade": 3},
            RateRecall: {"score": 0.0},
            ExtractFacts: {"facts": []},
        }
    )
    metrics = [ContextAdherence(polls=1), ContextRecall(), RetrievalAccuracy()]
    (diagnosis,) = evaluate([sample], metrics, judge=judge).faults
    assert (diagnosis.name, diagnosis.stage) == ("made up", None)


def without_contexts(turn: int, call: dict[str, Any]) -> Sample:
    """A captured sample without contexts, whose ledger has one call."""
    return Sample(
        question="Who did?",
        answer="Anna.",
        ledger={"turn": turn, "calls": [{"kind": "retrieval", "turn": 1, **call}]},
        capture=CaptureNotes(
            grade="incomplete", doubts={"no_search": "nothing was searched for"}
        ),
    )


def test_an_answer_from_what_an_earlier_turn_found_needed_no_search():
    sample = without_contexts(2, {"items": [{"text": "Anna lit it."}]})
    for unsupported in ([], ["Anna."]):
        judge = ScriptedJudge({Adherent: {"claims": 1, "unsupported": unsupported}})
        metrics = [ContextAdherence(polls=1)]
        (diagnosis,) = evaluate([sample], metrics, judge=judge).faults
        assert diagnosis.name != "did not search"
        assert diagnosis.stage is None


def test_a_search_that_failed_was_made():
    sample = without_contexts(1, {"items": [], "error": "TimeoutError"})
    metrics = [ContextAdherence(polls=1)]
    judge = ScriptedJudge({})
    diagnoses = evaluate([sample], metrics, judge=judge).faults
    assert "did not search" not in [each.name for each in diagnoses]
