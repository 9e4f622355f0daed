"""The journey: hand-counted runs, its laws, and what is hedged because nobody noted it."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from counted_steps import assert_steps_grow_as_the_size
from hypothesis import given
from hypothesis import strategies as st
from losses import losses
from pyarrow import parquet

from ragmetrics_core import Report, Sample, Scored, evaluate
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
from ragmetrics_core.reporting.journey import (
    Journey,
    Loss,
    SampleJourney,
    journey,
    journey_of,
)
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


def matrix(*rows: Sequence[float | None]) -> Scored:
    cells = tuple(tuple(Cell(probability=p) for p in row) for row in rows)
    facts = tuple(Fact(text=f"fact {number}") for number in range(len(rows)))
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


def test_a_recorded_passage_tells_all_its_stages():
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
    assert set(found.unknown) == {"facts"}


SHOWN: dict[str, tuple[list[Any], list[Any], list[str | None]]] = {
    "the same texts": (TEXTS[:2], TEXTS[1:2], ["not shown", "whole"]),
    "a part, or another form": ([TEXTS[0]], [TEXTS[0][:41]], [None]),
    "one of two in another form": (
        TEXTS[:2],
        [f"Source 1: {TEXTS[0]}", TEXTS[1]],
        [None, "whole"],
    ),
    "the same id, other words": (
        [Context(text="Porto is old.", id="a"), Context(text="Faro.", id="b")],
        [Context(text="An old city: Porto.", id="a")],
        [None, None],
    ),
    "an id that stands twice": (
        [Context(text="Porto.", id="a"), Context(text="Faro.", id="a")],
        [Context(text="A city.", id="a")],
        [None, None],
    ),
    "one text twice": ([TEXTS[0], TEXTS[0]], [TEXTS[0]], ["whole", "whole"]),
    "none": (TEXTS[:1], [], ["not shown"]),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_table_is_compared_by_whole_texts_and_nothing_more(name):
    retrieved, contexts, expected = SHOWN[name]
    found = followed(retrieved=retrieved, contexts=contexts)
    assert [one.shown for one in found.passages] == expected
    assert ("shown" in found.unknown) == (None in expected)


UNKNOWN: dict[str, tuple[dict[str, Any], str]] = {
    "retrieved": ({"contexts": TEXTS}, "what was retrieved was not recorded"),
    "shown": ({"retrieved": TEXTS}, "whether the model was shown them"),
    "kept": ({"retrieved": TEXTS, "contexts": TEXTS}, "no step between"),
    "useful": ({"contexts": TEXTS}, "no metric judged"),
    "cited": ({"contexts": TEXTS}, "was not recorded"),
    "facts": ({"contexts": TEXTS}, "no metric asked"),
}


@pytest.mark.parametrize("stage", UNKNOWN)
def test_what_nobody_recorded_is_left_out_with_its_reason(stage):
    fields, reason = UNKNOWN[stage]
    assert reason in followed(**fields).unknown[stage]


def test_a_part_that_the_prompt_may_complete_in_other_words_is_no_cut():
    part = noted(PassageNote(context=0, share=0.6))
    fields = {"retrieved": TEXTS[:1], "contexts": [TEXTS[0][:40]]}
    assert followed(capture=part, **fields).passages[0].shown == "cut"
    doubted = part.model_copy(update={"doubts": {"in_part": "…"}})
    assert followed(capture=doubted, **fields).passages[0].shown is None


# Facts

_WHOLE = PassageNote(kept=True, context=0, share=1.0)
_PART = PassageNote(kept=True, context=0, share=0.5)
_DROPPED = PassageNote(kept=False, dropped_by="Ranker", share=0.0)
_LEFT_OUT = PassageNote(kept=True, share=0.0)
_UNTOLD = PassageNote(kept=True, context=0)

FACTS: dict[str, tuple[list[PassageNote], list[float | None], Loss | None, bool]] = {
    # notes on two passages, which of them holds the fact, its loss, whether it is known
    "shown": ([_WHOLE, _DROPPED], [0.9, 0.1], None, True),
    "in one that was dropped": ([_WHOLE, _DROPPED], [0.1, 0.9], "not_shown", True),
    "in one that was left out": ([_WHOLE, _LEFT_OUT], [0.1, 0.9], "not_shown", True),
    "in both": ([_WHOLE, _DROPPED], [0.9, 0.9], None, True),
    "of two the farthest": ([_LEFT_OUT, _DROPPED], [0.9, 0.9], "not_shown", True),
    "in none": ([_WHOLE, _DROPPED], [0.1, 0.5], "not_retrieved", True),
    "in one that was cut": ([_PART, _DROPPED], [0.9, 0.1], None, False),
    "cut and dropped": ([_PART, _DROPPED], [0.9, 0.9], None, False),
    "in one of unknown fate": ([_UNTOLD, _DROPPED], [0.9, 0.1], None, False),
    "the judge gave no answer": ([_WHOLE, _DROPPED], [0.1, None], None, False),
}


@pytest.mark.parametrize("name", FACTS)
def test_a_fact_comes_as_far_as_the_last_passage_that_holds_it(name):
    notes, cells, lost, is_known = FACTS[name]
    share = notes[0].share
    shown = TEXTS[0][:40] if share == 0.5 else TEXTS[0]
    contexts = [] if notes[0].context is None else [shown]
    if name == "in one of unknown fate":
        contexts = [TEXTS[0]]
    found = followed(
        matrix(cells), retrieved=TEXTS[:2], contexts=contexts, capture=noted(*notes)
    )
    (fact,) = found.facts
    assert (fact.lost, fact.known) == (lost, is_known)
    assert ("facts" in found.unknown) == (not is_known)


def in_ledger(*calls: EvidenceCall, turn: int = 1) -> Ledger:
    return Ledger(turn=turn, calls=calls)


def call(kind: Any, *texts: str, **fields: Any) -> EvidenceCall:
    items = tuple(Context(text=text) for text in texts)
    return EvidenceCall(kind=kind, items=items, **{"turn": 1, "step": 0, **fields})


UNASKED: dict[str, tuple[dict[str, Any], bool]] = {
    "a context that was not retrieved": ({"contexts": [*TEXTS[:1], "More."]}, True),
    "a context that is a wider window": ({"contexts": [f"{TEXTS[0]} More."]}, True),
    "a tool's text": ({"ledger": in_ledger(call("tool", "42"))}, True),
    "a tool's text that was not shown": (
        {"ledger": in_ledger(call("tool", "42", shown=()))},
        False,
    ),
    "the words of a model": ({"ledger": in_ledger(call("written", "42"))}, False),
    "an earlier turn's text": (
        {"ledger": in_ledger(call("retrieval", "More."), turn=2)},
        True,
    ),
    "an earlier turn's same text": (
        {"ledger": in_ledger(call("retrieval", TEXTS[0]), turn=2)},
        False,
    ),
    "texts that the capture did not get": ({"unread_texts": ("a web search",)}, True),
}


@pytest.mark.parametrize("name", UNASKED)
def test_no_fact_is_lost_for_sure_where_it_may_stand_in_a_text_nobody_asked_about(name):
    fields, is_hedged = UNASKED[name]
    notes = noted(
        PassageNote(context=0, share=1.0), unread_texts=fields.get("unread_texts")
    )
    own = {key: value for key, value in fields.items() if key != "unread_texts"}
    found = followed(
        matrix([0.1]),
        **{"retrieved": TEXTS[:1], "contexts": TEXTS[:1], "capture": notes, **own},
    )
    (fact,) = found.facts
    assert (fact.lost, fact.known) == (
        (None, False) if is_hedged else ("not_retrieved", True)
    )
    assert ("facts" in found.unknown) == is_hedged


def test_without_the_retrieved_a_fact_that_no_context_holds_is_missing():
    asked = matrix([0.9, 0.1], [0.1, 0.1])
    found = followed(asked, contexts=TEXTS[:2])
    assert [fact.lost for fact in found.facts] == [None, "not_shown"]
    assert losses(journey([row(asked, contexts=TEXTS[:2])])) == {"not_shown"}


def test_facts_over_other_texts_are_unknown():
    found = followed(matrix([0.9]), contexts=TEXTS)
    assert found.facts == ()
    assert "other texts" in found.unknown["facts"]


@pytest.mark.parametrize(
    "lost",
    [
        SampleResult(index=0, sample=None, results={}, problem="no object"),
        row(contexts=TEXTS, error="down"),
    ],
)
def test_a_row_without_a_run_has_no_journey(lost):
    assert journey_of(lost) is None
    assert journey([lost]) == Journey(0, 0, 0, ())
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


def test_a_run_is_counted_by_stage():
    found = Report(counted_run()).journey()
    assert (found.samples, found.passages, found.facts) == (2, 8, 6)
    assert [(one.unit, one.loss, one.lost, one.of) for one in found.stages] == [
        ("facts", "not_retrieved", 2, 6),
        ("facts", "not_shown", 2, 2),
        ("passages", "not_kept", 2, 8),
        ("passages", "not_shown", 2, 6),
        ("passages", "cut", 2, 4),
        ("passages", "not_useful", 2, 4),
    ]
    assert found.facts_unknown == 2  # they stand in the passage that was cut
    stage = found.of("not_shown")
    assert stage is not None
    values, samples = [0.0, 1.0, 0.0] * 2, [0, 0, 0, 1, 1, 1]
    assert stage.interval == mean_interval(values, samples)
    assert stage.interval.clusters == 2


def test_a_run_in_words():
    words = str(Report(counted_run()).journey())
    assert "Journey of 2 samples, 8 retrieved passages, 6 facts" in words
    assert "passages dropped between search and prompt: 2 of 8 (25%" in words
    assert "2 by Ranker" in words
    assert "facts in no retrieved text: 2 of 6 (33%" in words
    assert "Unknown in 2 of 2 samples: cited (which passages the answer cites" in words


def test_a_run_read_back_has_the_same_journey(tmp_path):
    report = Report(counted_run())
    report.to_jsonl(tmp_path / "r.jsonl")
    assert Report.from_jsonl(tmp_path / "r.jsonl").journey() == report.journey()


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
def test_stages_add_up_to_the_retrieved(run):
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


@given(RUNS, st.randoms(use_true_random=False))
def test_the_order_of_samples_changes_nothing(run, chance):
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
def test_no_passage_passes_a_stage_behind_one_that_it_did_not_pass(notes, useful):
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


@given(RUNS)
def test_what_is_not_known_is_counted_at_no_stage(run):
    rows = [made(fates, index, judged=False) for index, fates in enumerate(run)]
    whole = journey(rows)
    assert whole.of("not_useful") is None
    assert whole.facts == 0
    assert not any(stage.unit == "facts" for stage in whole.stages)


def test_a_parquet_report_has_the_journey_of_its_rows(tmp_path):
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
    assert (stage.lost, stage.of) == (4, 8)
    assert found.facts > 0


def test_a_row_four_times_as_long_is_followed_in_four_times_the_steps():
    def follow(n_words: int) -> None:
        words = [f"word{number}" for number in range(n_words)]
        pages = [" ".join([f"page {page}", *words[page:]]) for page in range(40)]
        shown = " ".join(words[: n_words // 2])
        contexts = [f"Of page {page}: {shown} end" for page in range(20)]
        followed(retrieved=pages, contexts=contexts)

    assert_steps_grow_as_the_size(follow, 500)
