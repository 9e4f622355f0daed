"""The journey: hand-counted runs, its laws, and planted losses that it names at their stage."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from counted_steps import assert_steps_grow_as_the_size
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from ragmetrics_core import Report, Sample, Scored, Undefined, evaluate
from ragmetrics_core.data import (
    CaptureNotes,
    Cell,
    Citation,
    Context,
    EvidenceCall,
    Fact,
    FactMatrix,
    JudgedChunk,
    JudgedChunks,
    Ledger,
    MetricResult,
    PassageNote,
    SampleResult,
)
from ragmetrics_core.reporting.journey import ADVICE, Journey, first_to_mend, journey
from ragmetrics_core.reporting.journey_columns import COLUMNS
from ragmetrics_core.reporting.sample_journey import Loss, SampleJourney, journey_of
from ragmetrics_core.reporting.shown_parts import join_pieces
from ragmetrics_core.reporting.unasked_texts import states_word_by_word
from ragmetrics_core.scale.scorer import Scorer
from ragmetrics_core.statistics.means import mean_interval

TEXTS = [
    "Porto lies on the Douro, in the north of Portugal, and gave the country its name.",
    "Faro is the southernmost city of Portugal; its airport serves the whole Algarve.",
    "Évora keeps a Roman temple and a chapel built of bones inside its medieval walls.",
    "Coimbra has the oldest university of the country, on a hill above the Mondego.",
]


def chunks(*useful: bool | None) -> Scored:
    judged = tuple(
        JudgedChunk(rank=rank, useful=verdict) for rank, verdict in enumerate(useful, 1)
    )
    return Scored(
        metric="context_utilization",
        value=0.5,
        reason="",
        evidence=JudgedChunks(chunks=judged),
    )


# its words stand behind the first 40 signs of the first text
FACT = "Portugal has its name from Porto"


def matrix(*rows: Sequence[float | None], fact: str = FACT) -> Scored:
    cells = tuple(tuple(Cell(probability=p) for p in row) for row in rows)
    facts = tuple(Fact(text=f"{fact}, fact {number}") for number in range(len(rows)))
    return Scored(
        metric="retrieval_accuracy",
        value=0.5,
        reason="",
        evidence=FactMatrix(facts=facts, cells=cells),
    )


def row(*results: MetricResult, index: int = 0, **fields: Any) -> SampleResult:
    fields.setdefault("answer", "It is Porto.")
    named = {result.metric: result for result in results}
    return SampleResult(index=index, sample=Sample(**fields), results=named)


def followed(*results: MetricResult, **fields: Any) -> SampleJourney:
    found = journey_of(row(*results, **fields))
    assert found is not None
    return found


def noted(*passages: PassageNote, **fields: Any) -> CaptureNotes:
    fields.setdefault("evidence_from", "prompt")
    return CaptureNotes(grade="exact", passages=passages, **fields)


# One sample, counted by hand


def test_a_recorded_passage_tells_all_its_stages() -> None:
    notes = noted(
        PassageNote(
            retriever="bm25", rank=1, kept=True, rank_kept=2, context=1, share=0.4
        ),
        PassageNote(
            retriever="bm25", rank=2, kept=False, dropped_by="Ranker", share=0.0
        ),
        PassageNote(
            retriever="dense", rank=1, kept=True, rank_kept=1, context=0, share=1
        ),
        PassageNote(retriever="dense", rank=2, kept=True, rank_kept=3, share=0.0),
    )
    cited = (Citation(start=0, end=5, contexts=(0,), dangling=("7",)),)
    found = followed(
        chunks(True, False),
        retrieved=TEXTS,
        contexts=[TEXTS[2], TEXTS[0][:40]],
        capture=notes,
        citations=cited,
    )
    told = [
        (one.retriever, one.retriever_rank, one.kept, one.rank_kept, one.dropped_by)
        for one in found.passages
    ]
    assert told == [
        ("bm25", 1, True, 2, None),
        ("bm25", 2, False, None, "Ranker"),
        ("dense", 1, True, 1, None),
        ("dense", 2, True, 3, None),
    ]
    assert [(one.shown, one.share, one.context) for one in found.passages] == [
        ("cut", 0.4, 2),
        ("not shown", 0.0, None),
        ("whole", 1.0, 1),
        ("not shown", 0.0, None),
    ]
    assert [one.useful for one in found.passages] == [False, None, True, None]
    assert [one.cited for one in found.passages] == [False, None, True, None]
    assert [one.lost for one in found.passages] == [
        "not_useful",
        "not_kept",
        None,
        "not_shown",
    ]
    assert set(found.unknown) == {"facts"}


SHOWN: dict[str, tuple[list[Any], list[Any], list[tuple[str | None, float | None]]]] = {
    "the same texts": (TEXTS[:2], TEXTS[1:2], [("not shown", 0.0), ("whole", 1.0)]),
    "other white space": ([TEXTS[0]], [f" {TEXTS[0]}\n"], [("whole", 1.0)]),
    "a beginning": ([TEXTS[0]], [TEXTS[0][:41]], [("cut", 31 / 63)]),
    "a beginning with dots": ([TEXTS[0]], [TEXTS[0][:41] + "..."], [("cut", 31 / 63)]),
    "parts": (
        [TEXTS[0]],
        [f"{TEXTS[0][:37]} … {TEXTS[0][-38:]}"],
        [("cut", 59 / 63)],
    ),
    "under a heading": ([TEXTS[0]], [f"Source 1:\n{TEXTS[0]}"], [("whole", 1.0)]),
    "merged": (TEXTS[:2], ["\n".join(TEXTS[:2])], [("whole", 1.0)] * 2),
    "a text that begins with it, in a longer number": (
        ["The fare on line four for adults is 12", "Of line nine is 125"],
        ["The fare on line four for adults is 125", "Of line nine is 125"],
        [(None, None), ("whole", 1.0)],
    ),
    "passages of which one begins with the other": (
        [f"{TEXTS[1]} It costs 12", f"{TEXTS[1]} It costs 12.50"],
        [f"{TEXTS[1]} It costs 12.50"],
        [("not shown", 0.0), ("whole", 1.0)],
    ),
    "the same id, other words": (
        [Context(text="Porto is old.", id="a")],
        [Context(text="An old city: Porto.", id="a")],
        [(None, None)],
    ),
    "some words, and more": (
        [TEXTS[0]],
        [f"Note: {TEXTS[0][:60]} – and so on."],
        [(None, None)],
    ),
    "twice retrieved, once shown": (
        [TEXTS[0], TEXTS[0]],
        [TEXTS[0]],
        [("whole", 1.0), ("not shown", 0.0)],
    ),
    "twice retrieved, the second shown": (
        [Context(text=TEXTS[0], id="a"), Context(text=TEXTS[0], id="b")],
        [Context(text=TEXTS[0], id="b")],
        [("not shown", 0.0), ("whole", 1.0)],
    ),
    "a neighbour that overlaps": (
        [TEXTS[0], f"{TEXTS[0][20:]} {TEXTS[1]}"],
        [TEXTS[0]],
        [("whole", 1.0), ("not shown", 0.0)],
    ),
    "a blank one": ([" ", TEXTS[0]], [TEXTS[0]], [("not shown", 0.0), ("whole", 1.0)]),
    "none": (TEXTS[:1], [], [("not shown", 0.0)]),
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_a_table_shows_is_read_off_its_texts(name: str) -> None:
    retrieved, contexts, expected = SHOWN[name]
    found = followed(retrieved=retrieved, contexts=contexts)
    assert [one.shown for one in found.passages] == [shown for shown, _ in expected]
    shares = [one.share for one in found.passages]
    assert shares == pytest.approx([share for _, share in expected])
    assert ("shown" in found.unknown) == ((None, None) in expected)


UNKNOWN: list[tuple[dict[str, Any], set[str], str]] = [
    ({"contexts": TEXTS}, {"retrieved", "kept"}, "column retrieved"),
    ({"retrieved": TEXTS, "contexts": TEXTS}, {"kept"}, "no step between"),
    ({"retrieved": TEXTS}, {"kept", "shown"}, "not recorded"),
    (
        {
            "retrieved": TEXTS,
            "contexts": TEXTS,
            "capture": CaptureNotes(evidence_from="listed"),
        },
        {"kept", "shown"},
        "no prompt tells",
    ),
    (
        {
            "retrieved": (),
            "contexts": (),
            "capture": CaptureNotes(evidence_from="none_found"),
        },
        set(),
        "",
    ),
]


@pytest.mark.parametrize(("fields", "stages", "reason"), UNKNOWN)
def test_what_nobody_recorded_is_left_out_with_its_reason(
    fields: dict[str, Any], stages: set[str], reason: str
) -> None:
    found = followed(**fields)
    assert set(found.unknown) == stages | {"useful", "cited", "facts"}
    assert reason in " ".join(found.unknown.values())
    whole = journey([row(**fields)])
    assert {stage for stage, _ in whole.unknown} == set(found.unknown)
    if "shown" in stages:
        assert whole.of("not_shown") is None
        assert all(passage.shown is None for passage in found.passages)


FACTS: dict[str, tuple[list[float | None], Loss | None, bool]] = {
    "in no retrieved text": ([0.1, 0.2, 0.5, 0.0], "not_retrieved", True),
    "in one that was dropped": ([0.1, 0.9, 0.1, 0.1], "not_kept", True),
    "in one that was not shown": ([0.1, 0.1, 0.1, 0.9], "not_shown", True),
    "in a dropped one and one not shown": ([0.1, 0.9, 0.1, 0.9], "not_shown", True),
    "in one that was cut": ([0.9, 0.9, 0.1, 0.1], "cut", True),
    "in one that was shown": ([0.9, 0.9, 0.9, 0.1], None, True),
    "not all answered, and shown": ([None, 0.1, 0.9, None], None, True),
    "not all answered": ([None, 0.1, 0.1, 0.1], None, False),
}


@pytest.mark.parametrize("name", FACTS)
def test_a_fact_is_lost_where_the_last_passage_that_holds_it_is(name: str) -> None:
    cells, lost, known = FACTS[name]
    notes = noted(
        PassageNote(kept=True, context=1, share=0.4),
        PassageNote(kept=False, dropped_by="Ranker", share=0.0),
        PassageNote(kept=True, context=0, share=1.0),
        PassageNote(kept=True, share=0.0),
    )
    found = followed(
        matrix(cells),
        retrieved=TEXTS,
        contexts=[TEXTS[2], TEXTS[0][:40]],
        capture=notes,
    )
    (fact,) = found.facts
    assert (fact.lost, fact.known) == (lost, known)
    if known:
        assert first_to_mend([found]) == lost


WHOLE = PassageNote(kept=True, context=0, share=1.0)
CUT = PassageNote(kept=True, context=0, share=0.4)
NOT_SHOWN = PassageNote(kept=True, share=0.0)
UNTOLD = PassageNote(share=None)
NOT_KEPT = PassageNote(kept=False, dropped_by="Ranker", share=0.0)
NOT_KEPT_UNTOLD = PassageNote(kept=False, dropped_by="Ranker", share=None)


@pytest.mark.parametrize(
    ("passages", "lost", "known"),
    [
        # the passage that came farthest decides
        ((WHOLE, UNTOLD), None, True),
        ((CUT, NOT_SHOWN), "cut", True),
        ((NOT_SHOWN, NOT_KEPT), "not_shown", True),
        ((NOT_KEPT, NOT_KEPT), "not_kept", True),
        # one may have been shown whole
        ((CUT, UNTOLD), None, False),
        ((UNTOLD, NOT_KEPT), None, False),
        # what a step dropped was not
        ((NOT_KEPT_UNTOLD, NOT_KEPT), "not_kept", True),
    ],
)
def test_of_two_passages_that_hold_a_fact_the_one_that_came_farthest_decides(
    passages: tuple[PassageNote, PassageNote], lost: Loss | None, known: bool
) -> None:
    for order in (passages, passages[::-1]):
        found = followed(
            matrix([0.9, 0.9]),
            retrieved=TEXTS[:2],
            contexts=[TEXTS[0][:40]],
            capture=noted(*order),
        )
        (fact,) = found.facts
        assert (fact.lost, fact.known) == (lost, known)


OPENED = "The lighthouse of Norwick was opened on 4 May 1874."
STONE = "Its tower is made of granite from the quarries of Brenn."
CUT_FATES: dict[str, tuple[str, str, str, Loss | None, bool]] = {
    "stated word by word": (f"{OPENED} {STONE}", OPENED, OPENED, None, True),
    "cut away": (f"{STONE} {OPENED}", STONE, OPENED, "cut", True),
    "cut through": (f"{STONE} {OPENED}", f"{STONE} {OPENED[:30]}", OPENED, "cut", True),
    "its number cut away, in other words": (
        f"{STONE} {OPENED}",
        f"{STONE} {OPENED[:40]}",
        "Norwick's lighthouse was first opened in 1874.",
        "cut",
        True,
    ),
    "its words in the part, in another order": (
        f"{OPENED} {STONE}",
        OPENED,
        "On 4 May 1874 they opened the lighthouse of Norwick.",
        None,
        False,
    ),
    "no words in common": (
        f"{OPENED} {STONE}",
        STONE,
        "La Farola se inaugura aquel año",
        None,
        False,
    ),
    "words put in where the sign of a cut stands": (
        "The lighthouse of Norwick was opened and is made of granite.",
        "The lighthouse of Norwick was … opened and is made of granite.",
        "The lighthouse of Norwick was opened",
        None,
        False,
    ),
    "other words where the date stands": (
        f"{OPENED[:-1]} by Holm. {STONE}",
        f"The lighthouse of Norwick was opened on … by Holm. {STONE}",
        OPENED,
        None,
        False,
    ),
    "the fact's words on both sides of sentences cut away, in another order": (
        f"{OPENED} It is in Norwick {STONE} {STONE} {STONE} Holm built it.",
        f"{OPENED} It is in Norwick … Holm built it.",
        "Built by Holm.",
        None,
        False,
    ),
    "other words where the last ones stand": (
        f"{STONE} {OPENED}",
        f"{STONE} The lighthouse of Norwick was opened on …",
        OPENED,
        None,
        False,
    ),
    "other words where the first ones stand": (
        f"{OPENED} {STONE}",
        f"… opened on 4 May 1874. {STONE}",
        OPENED,
        None,
        False,
    ),
    "sentences cut away behind other words": (
        f"{STONE} {OPENED} {STONE} {STONE}",
        f"{STONE} …",
        OPENED,
        "cut",
        True,
    ),
    "sentences cut away between two pieces": (
        f"{STONE} {STONE} {OPENED} {STONE} {STONE}",
        f"{STONE} … {STONE}",
        OPENED,
        "cut",
        True,
    ),
}


@pytest.mark.parametrize("name", CUT_FATES)
def test_what_is_left_of_a_cut_passage_tells_whether_it_shows_a_fact(name: str) -> None:
    retrieved, shown, fact, lost, known = CUT_FATES[name]
    cells = FactMatrix(facts=(Fact(text=fact),), cells=((Cell(probability=0.9),),))
    found = followed(
        Scored(metric="retrieval_accuracy", value=1.0, reason="", evidence=cells),
        retrieved=[retrieved],
        contexts=[shown],
        capture=noted(PassageNote(kept=True, context=0, share=0.5)),
    )
    (followed_fact,) = found.facts
    assert (followed_fact.lost, followed_fact.known) == (lost, known)
    assert ("facts" in found.unknown) == (not known)
    if not known:
        assert "part was shown" in found.unknown["facts"]


def test_a_fact_is_unknown_where_one_of_two_cut_passages_may_show_it() -> None:
    cells = FactMatrix(
        facts=(Fact(text="On 4 May 1874 they opened the lighthouse of Norwick."),),
        cells=((Cell(probability=0.9), Cell(probability=0.9)),),
    )
    found = followed(
        Scored(metric="retrieval_accuracy", value=1.0, reason="", evidence=cells),
        retrieved=[f"{STONE} {OPENED}", f"{OPENED} {STONE}"],
        contexts=[STONE, OPENED],
        capture=noted(
            PassageNote(kept=True, context=0, share=0.5),
            PassageNote(kept=True, context=1, share=0.5),
        ),
    )
    assert [(fact.lost, fact.known) for fact in found.facts] == [(None, False)]


@given(st.integers(0, len(STONE)), st.integers(0, len(STONE)))
def test_a_fact_that_stands_in_what_is_left_is_never_lost(start: int, end: int) -> None:
    """However a passage was cut around a fact, the fact was shown."""
    passage = f"{STONE} {OPENED} {STONE}"
    shown = passage[start : len(passage) - end].strip()
    facts = (Fact(text=OPENED),)
    cells = FactMatrix(facts=facts, cells=((Cell(probability=0.9),),))
    found = followed(
        Scored(metric="retrieval_accuracy", value=1.0, reason="", evidence=cells),
        retrieved=[passage],
        contexts=[shown],
        capture=noted(PassageNote(kept=True, context=0, share=0.5)),
    )
    assert [(fact.lost, fact.known) for fact in found.facts] == [(None, True)]


def test_a_fact_in_a_passage_of_which_the_prompt_does_not_tell_is_unknown() -> None:
    notes = noted(PassageNote(kept=True, context=0), PassageNote(kept=True, share=0.0))
    found = followed(
        matrix([0.9, 0.1]), retrieved=TEXTS[:2], contexts=TEXTS[:1], capture=notes
    )
    assert [(fact.lost, fact.known) for fact in found.facts] == [(None, False)]
    assert "shown" in found.unknown


def test_without_the_retrieved_a_fact_that_no_context_holds_is_missing() -> None:
    found = followed(matrix([0.1, 0.2], [0.9, 0.1]), contexts=TEXTS[:2])
    assert [(fact.lost, fact.known) for fact in found.facts] == [
        ("missing", True),
        (None, True),
    ]
    whole = journey([row(matrix([0.1, 0.2], [0.9, 0.1]), contexts=TEXTS[:2])])
    assert (whole.passages, whole.of("not_shown"), whole.of("cut")) == (0, None, None)
    stage = whole.of("missing", "facts")
    assert whole.mend == "missing"
    assert stage is not None
    assert (stage.lost, stage.of) == (1, 2)


def test_facts_over_other_texts_are_unknown() -> None:
    found = followed(matrix([0.9]), retrieved=TEXTS, contexts=TEXTS)
    assert "other texts" in found.unknown["facts"]


def test_what_a_retriever_dropped_inside_counts_as_not_kept() -> None:
    notes = noted(
        PassageNote(retriever="Compression", context=0, share=1.0),
        dropped_inside={"Compression": 3},
    )
    whole = journey([row(retrieved=TEXTS[:1], contexts=TEXTS[:1], capture=notes)])
    stage = whole.of("not_kept")
    assert stage is not None
    assert (stage.lost, stage.of, dict(stage.by)) == (3, 4, {"Compression": 3})
    assert whole.passages == 1
    assert whole.mend_by == "passages"
    assert "not known whether what was lost was needed" in whole.sentence


def test_sentences_of_the_answer_rest_on_passages() -> None:
    report = Report(
        [
            row(
                Scored(
                    metric="context_adherence",
                    value=1.0,
                    reason="",
                    evidence={
                        "kind": "other",
                        "sentences": [
                            {"rank": 2, "coverage": 0.9},
                            {"rank": 1, "coverage": 0.2},
                            {"rank": 2, "coverage": 0.6},
                            {"rank": None, "coverage": 0.0},
                        ],
                    },
                ),
                contexts=TEXTS[:2],
            )
        ]
    )
    found = journey_of(report.results[0])
    assert found is not None
    assert [one.sentences for one in found.passages] == [(), (1, 3)]


@pytest.mark.parametrize(
    "lost",
    [
        SampleResult(index=0, sample=None, results={}, problem="no object"),
        row(contexts=TEXTS, error="down"),
    ],
)
def test_a_row_without_a_run_has_no_journey(lost: SampleResult) -> None:
    assert journey_of(lost) is None
    assert journey([lost]) == Journey(0, 0, 0, (), None)
    assert str(journey([lost])) == "Journey of 0 samples, 0 retrieved passages"


# A run, counted by hand


def counted_run() -> list[SampleResult]:
    """Two samples of four passages: one dropped, one not shown, one cut, one of no use."""
    notes = noted(
        PassageNote(kept=True, context=0, share=0.5),
        PassageNote(kept=False, dropped_by="Ranker", share=0.0),
        PassageNote(kept=True, share=0.0),
        PassageNote(kept=True, context=1, share=1.0),
    )
    return [
        row(
            chunks(True, False),
            matrix([0.9, 0.9, 0.1, 0.1], [0.1, 0.9, 0.1, 0.1], [0.1, 0.1, 0.1, 0.1]),
            index=index,
            retrieved=TEXTS,
            contexts=[TEXTS[0][:40], TEXTS[3]],
            capture=notes,
        )
        for index in range(2)
    ]


def test_a_run_is_counted_by_stage() -> None:
    found = Report(counted_run()).journey()
    assert (found.samples, found.passages, found.facts) == (2, 8, 6)
    assert [(one.unit, one.loss, one.lost, one.of) for one in found.stages] == [
        ("facts", "not_retrieved", 2, 6),
        ("facts", "not_kept", 2, 4),
        ("facts", "not_shown", 0, 2),
        ("facts", "cut", 2, 2),
        ("passages", "not_kept", 2, 8),
        ("passages", "not_shown", 2, 6),
        ("passages", "cut", 2, 4),
        ("passages", "not_useful", 2, 4),
    ]
    assert found.mend == "not_retrieved"  # of equal losses the earliest
    assert found.mend_by == "facts"
    stage = found.of("not_shown")
    assert stage is not None
    values, samples = [0.0, 1.0, 0.0] * 2, [0, 0, 0, 1, 1, 1]
    assert stage.interval == mean_interval(values, samples)
    assert stage.interval.clusters == 2


def test_a_run_in_words() -> None:
    words = str(Report(counted_run()).journey())
    assert "Journey of 2 samples, 8 retrieved passages, 6 facts" in words
    assert "passages dropped between search and prompt: 2 of 8 (25%" in words
    assert "2 by Ranker" in words
    assert "Mend retrieval first: facts in no retrieved text: 2 of 6 (33%" in words
    assert ADVICE["not_retrieved"].remedy in words
    assert "Unknown in 2 of 2 samples: cited (the answer has no marks" in words


def test_columns_of_a_row() -> None:
    pytest.importorskip("pandas")
    frame = Report(counted_run()).to_pandas()
    told = {name: frame[name].tolist()[0] for name in COLUMNS}
    cited = told.pop("passages_cited")
    assert cited is not told["facts_shown"]
    assert told == {
        "passages_retrieved": 4,
        "passages_kept": 3,
        "passages_shown": 2,
        "passages_cut": 1,
        "passages_useful": 1,
        "facts_asked": 3,
        "facts_retrieved": 2,
        "facts_shown": 0,
        "lost_at": "not_retrieved",
    }
    assert str(cited) == "<NA>"


def test_a_run_read_back_has_the_same_journey(tmp_path: Path) -> None:
    report = Report(counted_run())
    report.to_jsonl(tmp_path / "r.jsonl")
    assert Report.from_jsonl(tmp_path / "r.jsonl").journey() == report.journey()


def test_facts_that_all_were_shown_need_no_dropped_passage() -> None:
    notes = noted(
        PassageNote(kept=True, context=0, share=1.0),
        *(PassageNote(kept=False, dropped_by="Ranker", share=0.0),) * 3,
    )
    fields = {"retrieved": TEXTS, "contexts": TEXTS[:1], "capture": notes}
    assert journey([row(**fields)]).mend == "not_kept"
    assert journey([row(matrix([0.9, 0.1, 0.1, 0.1]), **fields)]).mend is None


def test_what_is_of_no_use_follows_from_what_was_lost_before() -> None:
    """One of three was dropped; the two that were shown are of no use."""
    notes = noted(
        PassageNote(kept=True, context=0, share=1.0),
        PassageNote(kept=True, context=1, share=1.0),
        PassageNote(kept=False, dropped_by="Ranker", share=0.0),
    )
    fields = {"retrieved": TEXTS[:3], "contexts": TEXTS[:2], "capture": notes}
    assert journey([row(chunks(False, False), **fields)]).mend == "not_kept"
    assert journey([row(chunks(True, False), **fields)]).mend == "not_useful"
    found = journey([row(chunks(False, False), matrix([0.9, 0.1, 0.1]), **fields)])
    assert found.mend == "not_useful"  # the fact was shown
    assert "not known whether" not in found.sentence


def test_an_undefined_metric_asked_nothing() -> None:
    undefined = Undefined(metric="retrieval_accuracy", reason="", code="missing")
    assert "facts" in followed(undefined, contexts=TEXTS).unknown


# Generated samples

FATES = ["dropped", "not shown", "cut", "useless", "useful", "cited"]


def made(fates: Sequence[str], index: int, *, judged: bool = True) -> SampleResult:
    """A sample whose passages have these fates; a passage of each holds a fact of its own."""
    texts = [f"{fate} {place} {TEXTS[place % 4]}" for place, fate in enumerate(fates)]
    notes, contexts, useful, cited = [], [], [], []
    for text, fate in zip(texts, fates, strict=True):
        if fate == "dropped":
            notes.append(PassageNote(kept=False, dropped_by="Ranker", share=0.0))
            continue
        if fate == "not shown":
            notes.append(PassageNote(kept=True, share=0.0))
            continue
        share = 0.5 if fate == "cut" else 1.0
        notes.append(PassageNote(kept=True, context=len(contexts), share=share))
        if fate == "cited":
            cited.append(Citation(start=0, end=1, contexts=(len(contexts),)))
        contexts.append(text[: len(text) // 2] if fate == "cut" else text)
        useful.append(fate != "useless")
    results = [chunks(*useful)] if judged and contexts else []
    return row(
        *results,
        index=index,
        retrieved=texts,
        contexts=contexts,
        capture=noted(*notes),
        citations=tuple(cited),
    )


RUNS = st.lists(st.lists(st.sampled_from(FATES), max_size=8), max_size=6)
LOST: dict[str, Loss | None] = {
    "dropped": "not_kept",
    "not shown": "not_shown",
    "useless": "not_useful",
    "cut": "not_cited",
    "useful": "not_cited",
    "cited": None,
}


@given(RUNS)
def test_stages_add_up_to_the_retrieved(run: list[list[str]]) -> None:
    rows = [made(fates, index) for index, fates in enumerate(run)]
    whole = journey(rows)
    fates = [fate for own in run for fate in own]
    assert whole.passages == len(fates)
    lost = {stage.loss: stage.lost for stage in whole.stages if stage.loss != "cut"}
    expected = {loss: sum(LOST[fate] == loss for fate in fates) for loss in set(lost)}
    assert lost == expected
    assert sum(lost.values()) + fates.count("cited") == len(fates)
    held = [stage.of for stage in whole.stages if stage.loss != "cut"]
    assert held == sorted(held, reverse=True)
    for one, own in zip(rows, run, strict=True):
        found = journey_of(one)
        assert found is not None
        assert [passage.lost for passage in found.passages] == [LOST[f] for f in own]


@given(RUNS, st.randoms(use_true_random=False))
def test_the_order_of_samples_changes_nothing(
    run: list[list[str]], chance: random.Random
) -> None:
    rows = [made(fates, index) for index, fates in enumerate(run)]
    mixed = chance.sample(rows, len(rows))
    assert journey(mixed) == journey(rows)


NOTES = st.builds(
    PassageNote,
    kept=st.sampled_from([None, True, False]),
    dropped_by=st.sampled_from([None, "Ranker"]),
    context=st.sampled_from([None, 0, 1]),
    share=st.sampled_from([None, 0.0, 0.3, 1.0]),
)


@given(st.lists(NOTES, max_size=5), st.lists(st.booleans(), min_size=2, max_size=2))
def test_no_passage_passes_a_stage_behind_one_that_it_did_not_pass(
    notes: list[PassageNote], useful: list[bool]
) -> None:
    found = followed(
        chunks(*useful),
        retrieved=[f"{place} {TEXTS[0]}" for place in range(len(notes))],
        contexts=TEXTS[:2],
        capture=noted(*notes),
        citations=(Citation(start=0, end=1, contexts=(0,)),),
    )
    for passage in found.passages:
        if passage.kept is False:
            assert not passage.was_shown
        if not passage.was_shown:
            assert (passage.useful, passage.cited) == (None, None)
    counts = journey([row(retrieved=[], capture=noted())])
    assert counts.mend is None


@given(RUNS)
def test_what_is_not_known_is_counted_at_no_stage(run: list[list[str]]) -> None:
    rows = [made(fates, index, judged=False) for index, fates in enumerate(run)]
    whole = journey(rows)
    assert whole.of("not_useful") is None
    assert whole.facts == 0
    assert not any(stage.unit == "facts" for stage in whole.stages)


KINDS: dict[str, tuple[str, Loss]] = {
    "a reranker drops it": ("dropped", "not_kept"),
    "the prompt leaves it out": ("not shown", "not_shown"),
    "the prompt cuts it": ("cut", "cut"),
    "it is of no use": ("useless", "not_useful"),
    "it is not cited": ("useful", "not_cited"),
}


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(1, 3))
def test_a_planted_loss_is_named(kind: str, sound: list[int], planted: int) -> None:
    """Sound passages are cited; the planted ones alone are lost, in the first sample."""
    fate, loss = KINDS[kind]
    run = [["cited"] * count for count in sound]
    run[0] = [*run[0], *[fate] * planted]
    assert journey(made(one, index) for index, one in enumerate(run)).mend in (
        (loss, "not_cited") if fate == "cut" else (loss,)
    )


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))
def test_a_fact_of_unknown_showing_counts_at_the_stages_that_it_passed(
    n_missing: int, n_hidden: int, n_shown: int, n_untold: int
) -> None:
    """Three passages: one was shown, one not, and of one nobody knows."""
    notes = noted(WHOLE, PassageNote(share=0.0, kept=True), PassageNote(kept=True))
    place_of_facts = [1] * n_hidden + [0] * n_shown + [2] * n_untold + [3] * n_missing
    cells = [
        [0.9 if place == index else 0.1 for index in range(3)]
        for place in place_of_facts
    ]
    one = row(matrix(*cells), retrieved=TEXTS[:3], contexts=[TEXTS[0]], capture=notes)
    found = journey([one])
    n_facts = n_missing + n_hidden + n_shown + n_untold
    counts = {
        stage.loss: (stage.lost, stage.of)
        for stage in found.stages
        if stage.unit == "facts"
    }
    n_held = n_hidden + n_shown + n_untold
    expected = {
        "not_retrieved": (n_missing, n_facts),
        "not_kept": (0, n_held),
        "not_shown": (n_hidden, n_hidden + n_shown),
        "cut": (0, n_shown),
    }
    assert counts == {loss: count for loss, count in expected.items() if count[1]}
    assert found.facts_unknown == n_untold
    if not n_facts:
        return
    n_most_lost = max(n_missing, n_hidden)
    if n_most_lost:
        # the unknown facts may all be lost at another stage
        is_named = n_most_lost >= n_untold
        named = "not_retrieved" if n_missing >= n_hidden else "not_shown"
        assert found.mend == (named if is_named else None)
    facts = "1 fact" if n_facts == 1 else f"{n_facts} facts"
    why = f"of {n_untold} of {facts} it is not known"
    is_said = found.mend is None and n_untold > 0
    assert (why in str(found)) == is_said


def test_a_metric_that_gave_no_score_is_named_with_its_reason() -> None:
    notes = CaptureNotes(grade="inferred", evidence_from="undivided")
    undefined = [
        Undefined(metric=metric, reason=f"why not {metric}", code="undivided")
        for metric in ("retrieval_accuracy", "context_utilization")
    ]
    found = followed(*undefined, retrieved=None, capture=notes)
    assert found.unknown["facts"] == (
        "retrieval_accuracy gave no score: why not retrieval_accuracy"
    )
    assert found.unknown["useful"] == (
        "context_utilization gave no score: why not context_utilization"
    )


@pytest.mark.parametrize("lost", ["not_retrieved", "not_kept", "not_shown", "cut"])
@given(st.integers(0, 5), st.integers(1, 5))
def test_a_planted_loss_of_facts_is_named(lost: Loss, sound: int, planted: int) -> None:
    """Each sample has one passage of each fate, and asks for one fact."""
    places = {"not_kept": 0, "not_shown": 1, "cut": 2, "shown": 3, "not_retrieved": 4}
    rows = []
    for index, fate in enumerate(["shown"] * sound + [lost] * planted):
        cells = [0.9 if place == places[fate] else 0.1 for place in range(4)]
        one = made(["dropped", "not shown", "cut", "cited"], index)
        asked = matrix(cells, fact="Bones are built inside of medieval walls")
        rows.append(one.model_copy(update={"results": {"a": asked}}))
    found = journey(rows)
    stage = found.of(lost, "facts")
    assert found.mend == lost
    assert stage is not None
    assert stage.lost == planted


def test_a_parquet_report_has_the_journey_of_its_rows(tmp_path: Path) -> None:
    rows = [
        {
            "question": f"When was bridge {number} opened?",
            "retrieved": [
                f"Bridge {number} is of iron.",
                f"It was opened in 18{number}.",
            ],
            "contexts": [f"Bridge {number} is of iron."],
            "answer": "It is of iron.",
            "reference": f"Bridge {number} was opened in 18{number}.",
        }
        for number in range(10, 14)
    ]
    metrics = ["utilization", "accuracy"]
    scored = Scorer(metrics)(pa.Table.from_pylist(rows))
    parquet.write_table(scored, tmp_path / "a.parquet")
    found = Report.from_parquet(tmp_path).journey()
    assert found == evaluate(rows, metrics=metrics, judge="lexical").journey()
    stage = found.of("not_shown")
    assert stage is not None
    assert (stage.lost, stage.of) == (4, 8)
    assert found.facts > 0


def test_a_row_four_times_as_long_is_followed_in_four_times_the_steps() -> None:
    def follow(n_words: int) -> None:
        words = [f"word{number}" for number in range(n_words)]
        pages = [" ".join([f"page {page}", *words[page:]]) for page in range(40)]
        shown = " ".join(words[: n_words // 2])
        contexts = [f"Of page {page}: {shown} end" for page in range(20)]
        followed(retrieved=pages, contexts=contexts)

    assert_steps_grow_as_the_size(follow, 500)


@pytest.mark.parametrize("mark", ["", "[1]", "(1)", "²"])
def test_a_row_whose_marks_are_not_read_has_a_journey(mark: str) -> None:
    row = {
        "contexts": [TEXTS[0]],
        "retrieved": TEXTS[:2],
        "answer": f"Porto lies on the Douro {mark}.",
    }
    sample = Sample.from_row(row)
    followed = journey_of(SampleResult(index=0, sample=sample, results={}))
    assert followed is not None
    assert [passage.shown for passage in followed.passages] == ["whole", "not shown"]
    assert "shown" not in followed.unknown


@pytest.mark.parametrize(
    ("mark", "expected"), [("[1]", None), ("[2]", "not_cited"), ("", "not_cited")]
)
def test_noise_that_is_not_cited_is_no_loss(mark: str, expected: Loss | None) -> None:
    fact = "Bridge {} was opened in {}."
    noise = ("The towers are red.", "A museum stands there.", "Cars pay a toll.")
    rows = []
    for number in range(6):
        held = fact.format(number, 1850 + number)
        texts = [held, *noise]
        contexts = [f"Source {place}: {text}" for place, text in enumerate(texts, 1)]
        answer = f"{held[:-1]} {mark}."
        rows.append({"contexts": contexts, "answer": answer, "facts": [held]})
    report = evaluate(rows, metrics=["accuracy"], judge="lexical")
    assert report.journey().mend == expected


OPENED = "Bridge {} was opened in {}."
UNCITED: dict[str, tuple[list[str], str, list[str], Loss | None]] = {
    "two passages say it": (
        [OPENED, OPENED + " It is of iron."],
        OPENED[:-1] + " [1].",
        [OPENED],
        None,
    ),
    "the answer leaves it out": (
        [OPENED, "The crew of bridge {} is paid by the town."],
        OPENED[:-1] + " [1].",
        [OPENED, "The crew of bridge {} is paid by the town."],
        None,
    ),
    "the answer declines": ([OPENED], "I do not know.", [OPENED], None),
    "the answer declines, and names the question": (
        [OPENED],
        "I do not know when bridge {} was opened.",
        [OPENED],
        None,
    ),
    "noise, and no facts": ([OPENED], OPENED[:-1] + " [1].", [], None),
    "nothing is cited": ([OPENED], OPENED, [OPENED], "not_cited"),
    "nothing is cited, and no facts": ([OPENED], OPENED, [], "not_cited"),
    "the wrong one is cited": (
        [OPENED],
        OPENED[:-1] + " [2].",
        [OPENED],
        "not_cited",
    ),
}


@pytest.mark.parametrize("name", UNCITED)
def test_only_what_the_answer_says_asks_for_a_citation(name: str) -> None:
    held, answer, facts, expected = UNCITED[name]
    rows = []
    for bridge in range(6):
        numbers = (bridge, 1850 + bridge)
        texts = [text.format(*numbers) for text in held]
        texts.insert(1, "The towers are red, and cars pay a toll.")
        contexts = [f"Source {place}: {text}" for place, text in enumerate(texts, 1)]
        fields = {"facts": [fact.format(*numbers) for fact in facts]} if facts else {}
        rows.append(
            {
                "question": f"When was bridge {bridge} opened?",
                "contexts": contexts,
                "answer": answer.format(*numbers),
                **fields,
            }
        )
    metrics = ["accuracy" if facts else "citation_quality"]
    found = evaluate(rows, metrics=metrics, judge="lexical").journey()
    assert found.mend == expected
    assert ("Not all of these need a citation" in found.sentence) == bool(expected)


def test_a_useful_passage_need_not_be_cited_where_a_cited_one_says_the_same() -> None:
    rows = [
        {
            "question": f"When was bridge {bridge} opened?",
            "contexts": [
                f"Source 1: Bridge {bridge} was opened in {1850 + bridge}.",
                f"Source 2: Bridge {bridge} was opened in {1850 + bridge}, of iron.",
            ],
            "answer": f"Bridge {bridge} was opened in {1850 + bridge} [1].",
            "facts": [f"Bridge {bridge} was opened in {1850 + bridge}."],
        }
        for bridge in range(6)
    ]
    report = evaluate(rows, metrics=["accuracy", "utilization"], judge="lexical")
    assert report.journey().mend is None


# A fact that no retrieved text holds may stand in a text that nobody asked about


LIGHT = "The lighthouse was opened on 4 May 1874"
OPENED = f"{LIGHT} by the mayor of the town."
ASKED_OF_TOOL = (
    'tool web returned text without documents; if that was searched for, make it contexts by context_tools={"web"};'
    " if not, name there the tools that do search, or context_tools=set() where none does"
)


def call(kind: Any, *texts: str, **fields: Any) -> EvidenceCall:
    return EvidenceCall(kind=kind, items=texts, **fields)


def followed_fact(fact: str = f"{LIGHT}.", **fields: Any) -> SampleJourney:
    """The journey of a sample whose retrieved texts, by default one, do not hold a fact."""
    fields.setdefault("retrieved", TEXTS[:1])
    fields.setdefault("contexts", TEXTS[:1])
    n_asked = len(fields["retrieved"] or fields["contexts"])
    verdicts = Scored(
        metric="retrieval_accuracy",
        value=0.0,
        reason="",
        evidence=FactMatrix(
            facts=(Fact(text=fact),), cells=((Cell(probability=0.1),) * n_asked,)
        ),
    )
    fields.setdefault("capture", noted(PassageNote(context=0, share=1.0)))
    return followed(verdicts, **fields)


NOTE = PassageNote(context=0, share=1.0)
SEARCHED = call("retrieval", TEXTS[0], shown=(0,), turn=2)


def in_ledger(*calls: EvidenceCall, **fields: Any) -> dict[str, Any]:
    return {"ledger": Ledger(turn=2, calls=(SEARCHED, *calls)), **fields}


def warned(*warnings: str, grade: Any = "incomplete", **fields: Any) -> dict[str, Any]:
    notes = noted(NOTE, warnings=warnings, **fields)
    return {"capture": notes.model_copy(update={"grade": grade})}


OF_TOOL = warned(ASKED_OF_TOOL, grade="inferred", doubts={"tool_text": ASKED_OF_TOOL})
MAY_HOLD: dict[str, tuple[dict[str, Any], str]] = {
    "the text of a tool": (
        in_ledger(
            call("tool", TEXTS[1], name="web", shown=(0,), turn=2),
            **OF_TOOL,
        ),
        'context_tools={"web"}',
    ),
    "a tool's text of which nobody knows whether it was shown": (
        in_ledger(call("tool", OPENED, name="web", turn=2), **OF_TOOL),
        'context_tools={"web"}',
    ),
    "a short text of a tool": (
        in_ledger(call("tool", "[(1874,)]", name="sql", shown=(0,), turn=2)),
        "short text",
    ),
    "a tool's text that was not shown, and states it": (
        in_ledger(call("tool", OPENED, name="web", shown=(), turn=2)),
        "was not shown it",
    ),
    "an earlier turn": (
        in_ledger(call("retrieval", TEXTS[1], shown=(0,), turn=1)),
        "earlier turns",
    ),
    "an earlier turn whose store gives the same id": (
        {
            "retrieved": [Context(text=TEXTS[0], id="a")],
            "ledger": Ledger(
                turn=2,
                calls=(
                    EvidenceCall(
                        kind="retrieval",
                        items=(Context(text=TEXTS[1], id="a"),),
                        shown=(0,),
                    ),
                ),
            ),
        },
        "earlier turns",
    ),
    "a short fact that stands in a tool's text": (
        in_ledger(
            call("tool", OPENED, name="web", shown=(0,), turn=2),
            fact="1874",
            **OF_TOOL,
        ),
        'context_tools={"web"}',
    ),
    "an id of which no warning tells": (
        {"capture": noted(NOTE, other=(Context(text="", id="a"),))},
        "resolve=",
    ),
    "an earlier turn that may be shown": (
        in_ledger(call("retrieval", OPENED, turn=1)),
        "earlier turns",
    ),
    "a document that was handed in": (
        in_ledger(call("given", TEXTS[1], shown=(0,), turn=2)),
        "not among the retrieved",
    ),
    "a context that was not retrieved": (
        {"contexts": TEXTS[:2]},
        "not among the retrieved",
    ),
    "a provider's files": (
        warned(
            "the text of 2 retrieved documents was not recorded",
            "set include=[...]",
            unread_texts=("set include=[...]",),
        ),
        "found: set include=[...]",
    ),
    "documents known by their ids": (
        warned(
            "the text of 1 retrieved documents was not recorded",
            other=(Context(text="", id="a"),),
        ),
        "resolve=",
    ),
    "a model that searches unseen": (
        warned(
            "the model could search by x, and the framework hands on nothing of what"
            " it found; let a tool of the application search",
            grade="inferred",
            unread_texts=("let a tool of the application search",),
        ),
        "found: let a tool of the application search",
    ),
    "a doubt of an older result, which notes no unread texts": (
        warned("the framework hands on nothing of what it found", grade="inferred"),
        "found: the framework hands on nothing",
    ),
    "missing spans": (warned("spans of the trace are missing"), "spans of the trace"),
}


@pytest.mark.parametrize("name", MAY_HOLD)
def test_a_fact_that_may_stand_in_a_text_nobody_asked_about_is_unknown(
    name: str,
) -> None:
    fields, reason = MAY_HOLD[name]
    found = followed_fact(**fields)
    assert [(fact.lost, fact.known) for fact in found.facts] == [(None, False)]
    assert reason in found.unknown["facts"]
    assert first_to_mend([found]) is None


STATED_AND_SHOWN: dict[str, dict[str, Any]] = {
    "by a tool": in_ledger(
        call("tool", OPENED, name="web", shown=(0,), turn=2), **OF_TOOL
    ),
    "in an earlier turn": in_ledger(
        call("retrieval", TEXTS[1], OPENED, shown=(1,), turn=1)
    ),
}


@pytest.mark.parametrize("name", STATED_AND_SHOWN)
def test_a_fact_that_a_shown_text_states_was_shown(name: str) -> None:
    found = followed_fact(**STATED_AND_SHOWN[name])
    assert [(fact.lost, fact.known) for fact in found.facts] == [(None, True)]
    assert "facts" not in found.unknown


LOOKED_AT: dict[str, dict[str, Any]] = {
    "a run that was recorded whole": in_ledger(),
    "the words that were shown of a retrieved text": {
        "retrieved": [TEXTS[0]],
        "contexts": [f"{TEXTS[0][:30]}…{TEXTS[0][40:]}"],
        "ledger": Ledger(
            calls=(call("retrieval", f"{TEXTS[0][:30]}…{TEXTS[0][40:]}", shown=(0,)),)
        ),
    },
    "other words of a retrieved document, as a prompt shows it": {
        "retrieved": [Context(text=TEXTS[0], id="a")],
        "contexts": [f"Source 1, by a guide:\n{TEXTS[0]}"],
        "ledger": Ledger(
            calls=(
                EvidenceCall(
                    kind="retrieval",
                    items=(Context(text=f"Source 1, by a guide: {TEXTS[0]}", id="a"),),
                    shown=(0,),
                ),
            ),
        ),
    },
    "an earlier turn found the same": in_ledger(
        call("retrieval", TEXTS[0], shown=(0,), turn=1)
    ),
    "an earlier turn that is not shown any more": in_ledger(
        call("retrieval", OPENED, shown=(), turn=1)
    ),
    "a short sum": in_ledger(call("tool", "42", name="sum", shown=(0,), turn=2)),
    "a tool that the user did not name": in_ledger(
        call("tool", TEXTS[1], name="sum", shown=(0,), turn=2)
    ),
    "what a model wrote": in_ledger(call("written", OPENED, shown=(0,), turn=2)),
    # words that speak of unread texts decide nothing where it is noted that there are none
    "a doubt of another kind": warned(
        "the text of 2 retrieved documents was not recorded",
        grade="inferred",
        unread_texts=(),
    ),
    "a run that only retrieved": {
        **warned("no answer was found: the run only retrieved, or gave none"),
        "answer": None,
    },
}


@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_fact_is_in_no_retrieved_text_if_every_text_was_looked_at(name: str) -> None:
    found = followed_fact(**LOOKED_AT[name])
    (fact,) = found.facts
    assert (fact.lost, fact.known) == ("not_retrieved", True)
    assert first_to_mend([found]) == "not_retrieved"


@given(
    st.lists(st.sampled_from(TEXTS), min_size=1, max_size=6),
    st.sampled_from(["\n", "\n\n---\n\n", " ", " | ", ""]),
    st.integers(0, 6),
    st.sampled_from(["", " … "]),
    st.sampled_from(["given", "retrieval"]),
)
def test_a_text_joined_of_retrieved_ones_was_asked_about_and_nothing_beside_them(
    joined: list[str], separator: str, index: int, cut_sign: str, kind: str
) -> None:
    def lost_when_shown(texts: list[str]) -> tuple[str | None, bool]:
        text = cut_sign + separator.join(texts)
        ledger = Ledger(calls=(call(kind, text, shown=(0,)),))
        found = followed_fact(retrieved=TEXTS, contexts=[text], ledger=ledger)
        return found.facts[0].lost, found.facts[0].known

    assert lost_when_shown(joined) == ("not_retrieved", True)
    beside = "The museum of the town shows what the fishermen brought home."
    assert lost_when_shown([*joined[:index], beside, *joined[index:]]) == (None, False)


@pytest.mark.parametrize(
    ("page", "is_known"),
    [(OPENED, False), (f"It is old. {LIGHT}.", False), (TEXTS[1], True)],
)
def test_a_fact_that_metadata_state_is_not_said_to_be_in_no_text(
    page: str, *, is_known: bool
) -> None:
    """A store may search summaries, and keep the pages in their metadata."""
    summary = Context(text=TEXTS[0], metadata={"text": page, "page": 4})
    journey = followed_fact(retrieved=[summary])
    (fact,) = journey.facts
    assert (fact.known, fact.lost) == (is_known, "not_retrieved" if is_known else None)
    assert ("metadata" in journey.unknown.get("facts", "")) is not is_known


def test_a_longer_number_in_a_text_does_not_state_a_fact() -> None:
    fact = "The fare on the ferry for adults of the town is 12."
    assert states_word_by_word(f"{fact} Pay at 8:30.", fact)
    assert not states_word_by_word(fact.replace("12.", "12.50."), fact)
    assert not states_word_by_word(fact.replace("12.", "125."), fact)
    in_commas = fact.replace("12.", "12,50.")
    assert states_word_by_word(in_commas, fact.replace("12.", "12.50."))


def test_a_fact_that_stands_where_joined_texts_meet_was_shown() -> None:
    halves = ["Of the lighthouse: the lighthouse was opened", "on 4 May 1874, at noon."]
    whole = " ".join(halves)
    ledger = Ledger(calls=(call("given", whole, shown=(0,)),))
    found = followed_fact(retrieved=halves, contexts=[whole], ledger=ledger)
    assert [(fact.lost, fact.known) for fact in found.facts] == [(None, True)]


def test_contexts_beside_text_that_nobody_asked_about_do_not_tell_what_is_missing() -> (
    None
):
    fields = in_ledger(call("retrieval", TEXTS[1], shown=(0,), turn=1))
    found = followed_fact(retrieved=None, **fields)
    assert [fact.known for fact in found.facts] == [False]
    assert "earlier turns" in found.unknown["facts"]


def test_a_search_whose_texts_were_not_recorded_is_no_missing_search() -> None:
    lacking = followed(**warned("one is missing", unread_texts=("set include=",)))
    assert "set include=" in lacking.unknown["retrieved"]
    in_vain = followed(
        capture=CaptureNotes(grade="exact", evidence_from="none_found"),
        ledger=Ledger(calls=(call("retrieval", name="web_search"),)),
    )
    assert "a search was recorded" in in_vain.unknown["retrieved"]


def test_passages_name_no_stage_where_facts_are_unknown() -> None:
    """What Compression dropped may hold the fact, or the search may have missed it."""
    notes = noted(PassageNote(context=0, share=1.0), dropped_inside={"Compression": 3})
    dropped = row(matrix([0.1]), retrieved=TEXTS[:1], contexts=TEXTS[:1], capture=notes)
    whole = journey([dropped])
    assert whole.mend is None
    assert "of 1 of 1 fact it is not known what became of them" in whole.sentence
    assert "what searches inside Compression found" in whole.sentence


def test_a_fact_known_to_be_shown_clears_no_unknown_one() -> None:
    """9 facts were shown and 1 is unknown: passages of no use are not to blame for it."""
    notes = noted(PassageNote(context=0, share=1.0), dropped_inside={"Compression": 3})
    known = row(matrix([0.9]), retrieved=TEXTS[:1], contexts=TEXTS[:1])
    unknown = row(matrix([0.1]), retrieved=TEXTS[:1], contexts=TEXTS[:1], capture=notes)
    assert journey([*[known] * 9, unknown]).mend is None


@pytest.mark.parametrize(
    ("pieces", "joined"),
    [
        (
            ("was opened in 1874", "The Velm bridge was opened"),
            "The Velm bridge was opened in 1874",
        ),
        (("The Velm bridge was opened", "bridge was"), "The Velm bridge was opened"),
        (("in 1874.", "The Velm"), "The Velm … in 1874."),
        (("bridge", "The Velm"), "The Velm bridge"),
        ((), ""),
    ],
    ids=["overlapping", "inside", "apart", "side by side", "none"],
)
def test_pieces_of_a_text_are_joined_in_its_order(
    pieces: tuple[str, ...], joined: str
) -> None:
    text = "The Velm bridge was opened in 1874."
    assert join_pieces(text, pieces) == joined
