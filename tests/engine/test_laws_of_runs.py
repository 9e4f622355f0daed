"""Laws of runs: however a run is cut, resumed, divided or hurried, each row has the outcome that it has by itself."""

import asyncio
import hashlib
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest
from chat_models import PolledModel
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lanes import examples

from ragmetrics_core import (
    ContextAdherence,
    ContextUtilization,
    Limits,
    LLMJudge,
    Report,
    Sample,
    aevaluate,
    evaluate,
    iter_results,
)
from ragmetrics_core.capture import BackgroundEvaluator, WatchSettings
from ragmetrics_core.data.columns import USUAL_NAMES
from ragmetrics_core.data.errors import RequestRejected
from ragmetrics_core.data.replies import Usage
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.models.chat import (
    ChatReply,
    ChatRequest,
    Choice,
)
from ragmetrics_core.models.reply_store import MemoryStore
from ragmetrics_core.reporting.pairing import match
from ragmetrics_core.scale import Scorer

METRICS = [ContextUtilization(), ContextAdherence(polls=1)]
NAMES = [metric.name for metric in METRICS]
REPLIES = {
    "yes": '{"useful": 1, "supported": 1, "claims": 1, "unsupported": [], "reason": "r"}',
    "no": '{"useful": 0, "supported": 0, "claims": 1, "reason": "r", "unsupported": ["a"]}',
    "words": "I would rather not say.",
    "conflict": '{"useful": 1, "supported": 1, "claims": 1, "unsupported": []}'
    ' {"useful": 0, "supported": 0, "claims": 1, "unsupported": ["it"]}',
    "empty": "",
}
KINDS = [*REPLIES, "rejected"]


class Scripted(PolledModel):
    """Replies to the row's texts as the row says: a scripted endpoint, whatever the order in which it is asked."""

    name = "scripted"

    def __init__(self) -> None:
        self.calls = 0

    @property
    def cache_key(self) -> str | None:
        return "1"

    def prices(self) -> tuple[float, float] | None:
        return (0.001, 0.0)

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        text = request.messages[-1].content + request.messages[0].content
        # some are faster than others
        for _ in range(int(hashlib.sha256(text.encode()).hexdigest()[0], 16)):
            await asyncio.sleep(0)
        kind = next(
            kind
            for kind in KINDS
            if any(f"says {kind}" in message.content for message in request.messages)
        )
        if kind == "rejected":
            raise RequestRejected("no such request")
        return ChatReply(
            (Choice(REPLIES[kind]),) * request.n,
            Usage(calls=1, prompt_tokens=10, cost=0.01),
        )


rows = st.lists(st.sampled_from([*KINDS, "no answer"]), min_size=1, max_size=12)


def samples_of(kinds: list[str]) -> list[Sample]:
    return [
        Sample(
            question=f"q{place}",
            contexts=["c"],
            answer=None if kind == "no answer" else f"{place} says {kind}",
        )
        for place, kind in enumerate(kinds)
    ]


def outcomes(results: Any) -> list[dict[str, tuple[str, float | None]]]:
    return [
        {name: (one.status, one.value) for name, one in row.results.items()}
        for row in results
    ]


def judged(kinds: list[str], model: Scripted | None = None, **options: Any) -> Report:
    return evaluate(
        samples_of(kinds), METRICS, judge=LLMJudge(model or Scripted()), **options
    )


@pytest.mark.nightly
@settings(max_examples=examples(12), deadline=None)
@given(rows)
def test_one_at_a_time_all_at_once_in_the_background_and_divided_are_one_run(kinds):
    expected = outcomes(judged(kinds, concurrency=1).results)
    report = judged(kinds, concurrency=32)
    assert outcomes(report.results) == expected
    assert [row.sample for row in report.results] == samples_of(kinds)
    assert [row.index for row in report.results] == list(range(len(kinds)))
    for other in (
        asyncio.run(
            aevaluate(samples_of(kinds), METRICS, judge=LLMJudge(Scripted()))
        ).results,
        iter_results(iter(samples_of(kinds)), METRICS, judge=LLMJudge(Scripted())),
    ):
        assert [row.results for row in other] == [row.results for row in report.results]

    watching = BackgroundEvaluator(
        lambda sample: [sample], METRICS, LLMJudge(Scripted()), settings=WatchSettings()
    )
    for sample in samples_of(kinds):
        watching.record(sample)
    background = watching.report(60)
    watching.stop(60)
    assert outcomes(background.results) == expected
    assert [row.sample for row in background.results] == samples_of(kinds)

    scorer = Scorer(METRICS, LLMJudge(Scripted()))
    table = pa.Table.from_pylist(
        [
            {"question": one.question, "contexts": ["c"], "answer": one.answer}
            for one in samples_of(kinds)
        ]
    )
    parts = [
        scorer(table.slice(start, 5)).to_pylist() for start in range(0, len(kinds), 5)
    ]
    divided = [
        {name: (row[name]["status"], row[name]["value"]) for name in NAMES}
        for row in chain(*parts)
    ]
    assert divided == expected


@pytest.mark.nightly
@settings(max_examples=examples(15), deadline=None)
@given(
    rows,
    st.integers(1, 30),
    st.sampled_from(["max_calls", "max_cost"]),
    st.sampled_from([1, 4, 32]),
)
def test_a_run_that_a_cap_cut_scores_nothing_differently_and_goes_on_to_the_whole(
    kinds, most, cap, concurrency
):
    whole_model, model, store = Scripted(), Scripted(), MemoryStore()
    whole = outcomes(judged(kinds, whole_model).results)
    limits = (
        Limits(max_calls=most)
        if cap == "max_calls"
        else Limits(max_cost=0.01 * most + 0.001)
    )
    cut = judged(kinds, model, limits=limits, store=store, concurrency=concurrency)
    paid = sum(row.usage.cost or 0.0 for row in cut.results)
    assert paid <= 0.01 * most + 0.005
    assert cap != "max_calls" or model.calls <= most
    assert cut.usage.calls == model.calls
    for found, expected in zip(outcomes(cut.results), whole, strict=False):
        assert found.items() <= expected.items()
    # a cap may also cut what changes no score
    assert cut.run.stopped or outcomes(cut.results) == whole
    again = judged(kinds, model, store=store)
    assert outcomes(again.results) == whole
    assert again.run.stopped == ""


# Rows and pairs


def text_fields(sample: Sample) -> list[str]:
    """The fields of a sample that hold the text."""
    fields = {
        "question": sample.question,
        "contexts": [context.text for context in sample.known_contexts],
        "retrieved": [context.text for context in sample.retrieved or ()],
        "answer": sample.answer,
        "reference": list(sample.reference),
        "facts": [fact.text for fact in sample.facts or ()],
        "history": [turn.content for turn in sample.history],
    }
    return [name for name, held in fields.items() if held in ("a text", ["a text"])]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "column",
    sorted(
        {name for names in USUAL_NAMES.values() for name in names if "." not in name}
    ),
)
@pytest.mark.parametrize("value", ["a text", ["a text"]], ids=["text", "list"])
def test_no_column_is_two_fields(column, value):
    # behind a good row, a row whose fields are uncertain is a bad one
    rows = [{"answer": "x"}, {column: value, "other": 1}]
    _, row = evaluate(rows, "recall", judge="lexical").results
    assert row.sample is None or len(text_fields(row.sample)) <= 1


ids = st.lists(st.one_of(st.none(), st.sampled_from("abcd")), min_size=1, max_size=6)


@given(ids, ids)
@example(["a", "b"], ["a", "b"])
# chance seldom doubles an id without leaving another one out
@example(["a", "a"], ["a", "b"])
@example(["a", "b"], ["a", "a"])
@example(["a", None], ["a", "b"])
def test_runs_are_matched_by_id_only_where_every_sample_has_its_own(first, second):
    """And one is in both; else by question, which rows of a run must not share."""
    sides = [
        [
            SampleResult(index=n, sample=Sample(id=key, question="same", answer=f"{n}"))
            for n, key in enumerate(keys)
        ]
        for keys in (first, second)
    ]
    own = all(
        None not in keys and len(set(keys)) == len(keys) for keys in (first, second)
    )
    own = own and bool(set(first) & set(second))
    if not own and max(len(first), len(second)) > 1:
        with pytest.raises(ValueError, match="nothing tells their rows apart"):
            match(*sides)
        return
    matched = match(*sides)
    assert matched.by == ("id" if own else "question")
    for side, alone, of in (
        (0, matched.first_only, sides[0]),
        (1, matched.second_only, sides[1]),
    ):
        assert sorted(
            [pair[side].index for pair in matched.pairs] + [row.index for row in alone]
        ) == [row.index for row in of]
    for one, other in matched.pairs:
        assert (one.sample.id == other.sample.id) if own else (one.index == other.index)
