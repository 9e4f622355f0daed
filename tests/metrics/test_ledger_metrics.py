"""What the metrics say over several retrievals, tools and turns: the worked numbers, and the laws behind them."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_replies import covered, listener, poll, useful

from ragmetrics_core import (
    ContextAdherence,
    ContextUtilization,
    LexicalJudge,
    LLMJudge,
    OpenAICompatibleModel,
    RetrievalAccuracy,
    Sample,
    ScriptedJudge,
    evaluate,
)
from ragmetrics_core.data.errors import ContextWindowExceeded
from ragmetrics_core.data.metric_evidence import CallTable
from ragmetrics_core.data.replies import NotAnswered
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.data.sample_parts import EvidenceCall, Ledger
from ragmetrics_core.judging.rendering import render, schema_of
from ragmetrics_core.metrics.answer_relevance import Addresses
from ragmetrics_core.metrics.context_sufficiency import SufficientContexts
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.metrics.fact_matrix import FactInContext
from ragmetrics_core.metrics.polls import Adherent, RestsOn
from ragmetrics_core.reporting.report import Report

GOOD = "✓"  # what a useful text ends with


def call(*items: Any, **more: Any) -> EvidenceCall:
    return EvidenceCall.model_validate({"kind": "retrieval", "items": items, **more})


def turn(
    *calls: EvidenceCall, number: int = 1, conversation: str | None = "c", **fields: Any
) -> Sample:
    """One turn of a conversation.

    Its contexts are the items of its retrievals in order of first arrival.
    """
    own = (one for one in calls if one.turn == number and one.kind == "retrieval")
    contexts = dict.fromkeys(item.text for one in own for item in one.items)
    ledger = Ledger(conversation=conversation, turn=number, calls=calls)
    return Sample(
        **{
            "question": "q?",
            "answer": "a",
            "contexts": list(contexts) or None,
            "ledger": ledger,
            **fields,
        }
    )


def utilized(sample: Sample) -> tuple[float, CallTable]:
    judge = ScriptedJudge({Useful: lambda asked: useful(asked["chunk"].endswith(GOOD))})
    result = ContextUtilization().score(sample, judge=judge)
    assert result.status == "scored"
    return result.value, result.evidence.ledger


def labels(*polls: str) -> list[dict[str, Any]]:
    """Polls, each with the labels of its claims, joined by spaces."""
    return [
        {
            "claims": [
                {"claim": f"claim {n}", "needs": it} for n, it in enumerate(one.split())
            ]
        }
        for one in polls
    ]


def adhered(sample: Sample, said: Any, **settings: Any) -> tuple[Any, ScriptedJudge]:
    """What adherence comes to if the judge says this, and the judge."""
    verdicts = (
        [poll(one) for one in said] if said and isinstance(said[0], str) else said
    )
    judge = ScriptedJudge(
        {
            RestsOn: said,
            Adherent: verdicts,
            SufficientContexts: {"missing": []},
            Addresses: {"grade": 3},
        }
    )
    return ContextAdherence(**settings).score(sample, judge=judge), judge


# The worked numbers of the definitions
# -----------------------------------------------------------------------


FIRST = turn(call("one", "two"))
SAID = [{"role": "user", "content": "q1?"}, {"role": "assistant", "content": "a1"}]
SECOND = turn(call("one", "two", shown=[]), number=2, history=SAID)
THIRD = turn(
    call("one", "two", shown=[]),
    call("three", turn=3, shown=[0]),
    number=3,
    history=[
        *SAID,
        {"role": "user", "content": "q2?"},
        {"role": "assistant", "content": "a2"},
    ],
)
SAYS = (
    ["yes"] * 5,
    labels(*["earlier"] * 5),
    labels(*["evidence own"] * 4, "evidence earlier"),
)


def test_the_conversation_of_worked_number_5_in_a_report():
    rows = []
    for place, (sample, said) in enumerate(
        zip((FIRST, SECOND, THIRD), SAYS, strict=True)
    ):
        rows.append(
            SampleResult(
                index=place,
                sample=sample,
                results={"context_adherence": adhered(sample, said)[0]},
            )
        )
    three = Report(rows).summary()["context_adherence"]
    assert (three.mean, three.interval and three.interval.clusters) == (
        pytest.approx(0.7333, abs=1e-4),
        1,
    )


# Adherence over groups
# ---------------------------------------------------------------------------------------


def test_the_labelled_prompt_fences_each_group_and_asks_as_often():
    sample = THIRD.model_copy(
        update={"ledger": Ledger(turn=3, calls=(*THIRD.ledger.calls, WROTE))}
    )
    result, judge = adhered(sample, labels(*["evidence"] * 5))
    (asked,) = judge.asked
    assert isinstance(asked, RestsOn)
    assert (asked.polls, asked.temperature, result.value) == (5, 1.0, 1.0)
    *lines, closing = render(asked)[1].content.split("\n")
    assert closing == "What does each claim of the answer rest on?"
    digits = lines[0].split()[0].removeprefix("<context-")
    assert len(digits) == 8
    shown = [
        (tag[1], tag[2], text)
        for tag, text in (
            (re.match(rf'<([a-z-]+)-{digits}(?: id="(\d+)")?>', opening), text)
            for opening, text in zip(lines[::3], lines[1::3], strict=True)
        )
        if tag
    ]
    assert shown == [
        ("context", "1", "three"),
        ("earlier-context", "1", "one"),
        ("earlier-context", "2", "two"),
        *(("user", "1", "q1?"), ("user", "2", "q2?"), ("user", "3", "q?")),
        ("assistant", "1", "a1"),
        ("assistant", "2", "a2"),
        ("assistant", "3", "a summary"),
        ("answer", None, "a"),
    ]
    assert set(schema_of(asked.Reply)["properties"]) == {"reason", "claims"}


WROTE = call("a summary", kind="written", turn=3, step=2)


def test_what_a_model_of_the_first_turn_wrote_is_labelled_too():
    """Nothing was said before, but the answer may rest on the application's own words."""
    written = call("a summary", kind="written", step=2)
    sample = turn(call("one"), written, conversation=None)
    (asked,) = adhered(sample, labels(*["evidence"] * 5))[1].asked
    assert isinstance(asked, RestsOn)


def test_an_answer_that_rests_on_words_of_models_alone_had_no_context():
    judge = listener()
    samples = [turn(WROTE, number=3), turn(call("one"))]
    report = evaluate(samples, [ContextAdherence()], judge=judge)
    assert report.summary().without_context == 1


VERDICTS = {
    "evidence": "yes",
    "earlier": "yes",
    "evidence user": "yes",
    "evidence earlier": "yes",
    "own": "no",
    "none": "no",
    "evidence own": "no",
    "user none": "no",
    "user": "abstains",
    "": "abstains",
}


@pytest.mark.parametrize(("said", "verdict"), VERDICTS.items())
def test_the_verdict_is_computed_from_the_labels(said, verdict):
    asked = adhered(SECOND, labels(*["earlier"] * 5))[1].asked[0]
    # a verdict that is written all the same is not read
    given = {**labels(said)[0], "reason": "r"}
    read = asked.read(given)
    assert (read.verdict, read.poll.verdict, read.poll.reason) == (
        verdict,
        verdict,
        "r",
    )
    unheld = [claim.claim for claim in read.claims if claim.needs in ("own", "none")]
    assert list(read.poll.unsupported) == unheld


def test_labels_are_read_however_they_are_spelled_and_others_are_refused():
    asked = adhered(SECOND, labels(*["earlier"] * 5))[1].asked[0]
    assert (
        asked.read({"claims": [{"claim": "c", "needs": " Earlier "}]}).verdict == "yes"
    )
    with pytest.raises(ValueError, match="needs"):
        asked.read({"claims": [{"claim": "c", "needs": "memory"}]})


def test_polls_bounds_and_early_stopping_stay_as_they_are():
    result, _ = adhered(SECOND, labels("earlier", "own", "", "earlier user", "none"))
    evidence = result.evidence
    assert (result.value, evidence.yes, evidence.no, evidence.abstained) == (
        0.5,
        2,
        2,
        1,
    )
    assert evidence.repeatability is not None
    assert result.reason.startswith("The polls are tied")
    # Four polls have claims: earlier; own; half earlier, half user; none.
    assert evidence.ledger.shares == pytest.approx(
        {"evidence": 0, "earlier": 0.375, "user": 0.125, "own": 0.25, "none": 0.25}
    )
    every = labels("own", "earlier", "own", "none", "earlier")
    judge = ScriptedJudge(
        {
            RestsOn: lambda it: [
                it.read(one) for one in every[it.first_poll :][: it.polls]
            ]
        }
    )
    result = ContextAdherence(early_stop=True, cause=False).score(SECOND, judge=judge)
    # unbiased for that rule: y / (k − 1)
    assert ([it.polls for it in judge.asked], result.value) == ([3, 1], 1 / 3)
    assert len(result.evidence.ledger.claims) == 4


def test_the_cause_is_looked_for_in_evidence_of_all_turns():
    result, judge = adhered(THIRD, labels(*["own"] * 5))
    assert isinstance(judge.asked[1], SufficientContexts)
    assert sorted(judge.asked[1]["contexts"]) == ["one", "three", "two"]
    assert result.evidence.cause == "reasoning_error"


def test_a_judge_that_cannot_label_is_asked_over_the_evidence_and_it_is_said():
    judge = ScriptedJudge({Adherent: {"claims": 1, "unsupported": []}})
    result = ContextAdherence().score(THIRD, judge=judge)
    assert (judge.asked[-1]["contexts"], result.value) == (("three", "one", "two"), 1.0)
    assert result.evidence.ledger.shares is None
    assert "without labels" in result.evidence.ledger.note
    said = turn(
        call("The lamp is old."), number=2, answer="The lamp is old.", history=SAID
    )
    result = ContextAdherence().score(said, judge=LexicalJudge())
    assert "without labels" in result.evidence.ledger.note
    # behind the contexts, of which there are none
    assert result.evidence.sentences[0].rank == 1


@pytest.mark.parametrize(
    "own", [{"examples": "One."}, {"template": "{contexts}\n{question}\n{answer}"}]
)
def test_a_prompt_of_ones_own_has_no_labels(own):
    result, judge = adhered(SECOND, ["yes"] * 5, **own)
    assert [type(asked) for asked in judge.asked] == [Adherent]
    assert "without labels" in result.evidence.ledger.note


def test_groups_longer_than_the_window_are_judged_without_labels():
    def long(_: object) -> Any:
        return NotAnswered(ContextWindowExceeded("too long"))

    judge = ScriptedJudge(
        {RestsOn: lambda it: long(it).error, Adherent: {"claims": 1, "unsupported": []}}
    )
    result = ContextAdherence().score(SECOND, judge=judge)
    assert result.value == 1.0
    assert "without labels" in result.evidence.ledger.note


def evidence_of(sample: Sample) -> tuple[str, ...]:
    judge = listener()
    ContextAdherence().score(sample, judge=judge)
    return judge.asked[-1]["contexts"]


DOC = {"text": "The whole chunk.", "id": "d"}
GROUPS: dict[str, tuple[Sample, tuple[str, ...]]] = {
    "items shown or unknown join the contexts": (
        turn(
            call("a", "b", kind="tool", shown=[1]),
            call("c", kind="given"),
            contexts=["x"],
        ),
        ("x", "b", "c"),
    ),
    "hidden ones do not": (turn(call("a", "b", shown=[0]), contexts=["a"]), ("a",)),
    "an item under the id of a context is that context": (
        turn(call(DOC), contexts=[{"text": "Rewritten.", "id": "d"}]),
        ("Rewritten.",),
    ),
    "two texts under one id are two": (
        turn(
            call({"text": "a", "id": "0"}),
            call({"text": "b", "id": "0"}),
            contexts=[{"text": "a", "id": "0"}],
        ),
        ("a", "b"),
    ),
    "rows that hold a context by chance are other evidence": (
        turn(call("id 4, Oslo", kind="tool"), contexts=["4"]),
        ("4", "id 4, Oslo"),
    ),
    "what a model wrote is no evidence, not even as a context": (
        turn(call("said", kind="written"), call("d"), contexts=["said", "d"]),
        ("d",),
    ),
    "but evidence that it repeats is": (
        turn(call("d", kind="written"), call("d")),
        ("d",),
    ),
    "earlier items come behind, each once": (
        turn(call("a", "b"), call("b", turn=2), number=2),
        ("b", "a"),
    ),
    "a text of both turns that is no context belongs to this turn": (
        turn(call("a", "b"), call("b", turn=2), number=2, contexts=["x"]),
        ("x", "b", "a"),
    ),
}


@pytest.mark.parametrize(("sample", "expected"), GROUPS.values(), ids=GROUPS)
def test_what_is_evidence(sample, expected):
    assert evidence_of(sample) == expected


def test_without_evidence_no_call_is_made():
    for sample in (
        turn(call("a", shown=[]), contexts=None),
        turn(call("a", kind="written"), contexts=None),
        turn(call()),
    ):
        judge = listener()
        result = ContextAdherence().score(sample, judge=judge)
        assert (result.status, result.reason, judge.asked) == (
            "undefined",
            "no contexts",
            [],
        )
    lone = turn(call("said", kind="written"), contexts=["said"])
    assert ContextAdherence().score(lone, judge=listener()).reason == "no contexts"


def test_kept_counts_what_compaction_left():
    calls = (
        call("a", "b", shown=[1]),
        call("b", "c", shown=[]),
        call("d"),
        call("x", turn=2),
    )
    result, _ = adhered(turn(*calls, number=2), labels(*["evidence"] * 5))
    # b of a, b and c; of d it is not known
    assert result.evidence.ledger.kept == (1, 3)


def test_a_language_model_labels(loopback_server):
    server = loopback_server()
    judge = LLMJudge(OpenAICompatibleModel(server.base_url, "test"))
    result = ContextAdherence(cause=False).score(SECOND, judge=judge)
    assert set(result.evidence.ledger.shares) == {
        "evidence",
        "earlier",
        "user",
        "own",
        "none",
    }
    assert len(result.evidence.ledger.claims) == 5


# The table of calls
# ------------------------------------------------------------------------------------------


def test_every_verdict_on_a_call():
    calls = (
        call("old✓", turn=1),
        call("unused", turn=1),
        call("n", turn=2),
        call("old✓", turn=2),
        call("cut", turn=2),
        call(turn=2),
        call(turn=2, error="down"),
        call("w✓", kind="written", turn=2),
        call("g✓", kind="given", turn=2),
    )
    sample = turn(*calls, number=2, contexts=["old✓", "n", "g✓", "w✓"])
    value, table = utilized(sample)
    assert value == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)
    assert {line.call: line.verdict for line in table.calls} == {
        0: "useful",
        2: "noise",
        3: "repeated",
        4: "unread",
        5: "empty",
        6: "failed",
        8: "useful",
    }
    assert (table.wasted, table.first_useful, table.last_useful) == (
        pytest.approx(5 / 7),
        1,
        7,
    )
    assert table.repeats == 1 / 5


def test_a_call_that_repeats_a_useful_text_and_brings_another_is_useful():
    _, table = utilized(turn(call("a✓"), call("a✓", "b✓"), call("b✓")))
    assert [line.verdict for line in table.calls] == ["useful", "useful", "repeated"]


def test_sentences_name_the_rank_of_their_context_or_a_number_behind_the_last():
    sample = turn(
        call("A summary by the model.", kind="written"),
        call("The bridge stands in Kent.", kind="tool"),
        contexts=["A summary by the model.", "The mill burned down."],
        answer="The mill burned down. The bridge stands in Kent.",
    )
    result = ContextAdherence().score(sample, judge=LexicalJudge())
    assert [sentence.rank for sentence in result.evidence.sentences] == [2, 3]


def test_nothing_useful_and_no_call_at_all():
    _, table = utilized(turn(call("a"), call()))
    assert (table.wasted, table.first_useful, table.last_useful, table.call_ap) == (
        1,
        None,
        None,
        None,
    )
    assert utilized(turn(contexts=["a"]))[1] is None


TEXTS = st.lists(
    st.sampled_from(["a✓", "b✓", "c", "d", "e✓", "f"]), max_size=4, unique=True
)


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_the_curve_ends_at_the_score(items):
    sample = turn(
        *(call(*own, step=n) for n, own in enumerate(items)), facts=[*"abcdef"]
    )
    sample = sample.model_copy(
        update={
            "contexts": (
                *sample.known_contexts,
                *sample.known_contexts[:1],
                *Sample(contexts=["b✓x"]).contexts,
            )
        }
    )
    judge = ScriptedJudge(
        {
            FactInContext: lambda asked: covered(
                0.9 if asked["fact"] in asked["context"] else 0.2
            )
        }
    )
    result = RetrievalAccuracy().score(sample, judge=judge)
    gains = result.evidence.ledger
    assert len(gains) == len(items)
    assert gains[-1].total == result.value
    assert all(gain.gain >= -1e-12 and gain.alone <= result.value for gain in gains)


# The law
# -----------------------------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from(["a✓", "b", "c✓", "d", " "]), min_size=1, max_size=6),
    st.booleans(),
)
def test_any_contexts_that_one_call_brought_change_nothing(texts, known):
    plain = Sample(question="q?", answer="a", contexts=texts, facts=["a", "b"])
    one = EvidenceCall(
        kind="retrieval",
        items=plain.contexts,
        shown=range(len(texts)) if known else None,
    )
    held = plain.model_copy(update={"ledger": Ledger(calls=(one,))})
    for metric in (ContextAdherence(), ContextUtilization(), RetrievalAccuracy()):
        judges = [said_by_text(), said_by_text()]
        first, second = (
            metric.score(it, judge=own)
            for it, own in zip((plain, held), judges, strict=True)
        )
        assert [render(asked) for asked in judges[0].asked] == [
            render(asked) for asked in judges[1].asked
        ]
        assert (first.status, first.value, first.reason) == (
            second.status,
            second.value,
            second.reason,
        )


def said_by_text() -> ScriptedJudge:
    cells = {
        FactInContext: lambda it: covered(0.8 if it["fact"] in it["context"] else 0.1)
    }
    says = {
        Useful: lambda it: useful(it["chunk"].endswith(GOOD)),
        Adherent: {"claims": 1, "unsupported": []},
    }
    return ScriptedJudge({**cells, **says})


ONE_TURN = [
    {"contexts": ["a✓", "b", " "], "answer": "a"},
    {
        "contexts": [{"text": "a✓", "id": "1", "score": 0.1}],
        "retrieved": ["b", {"text": "a✓", "id": "1"}],
    },
    {"contexts": ["a✓", "a✓"], "standalone_question": "Which q?", "reference": "a"},
    {"contexts": ["a✓"], "question": None, "facts": ["a"]},
]


@pytest.mark.parametrize(
    "metric",
    [ContextAdherence(), ContextUtilization(), RetrievalAccuracy()],
    ids=lambda it: it.name,
)
@pytest.mark.parametrize("fields", ONE_TURN)
@pytest.mark.parametrize("shown", [None, "all"])
def test_one_turn_with_one_retrieval_of_the_contexts_changes_nothing(
    metric, fields, shown
):
    plain = Sample(**{"question": "q?", "answer": "a", "facts": ["f"], **fields})
    items = plain.retrieved if plain.retrieved is not None else plain.contexts
    places = (
        None
        if shown is None
        else [n for n, it in enumerate(items) if it in plain.contexts]
    )
    if plain.retrieved is not None and shown is None:
        return  # what was retrieved and perhaps shown is evidence, too
    one = EvidenceCall(kind="retrieval", items=items, shown=places)
    said = {
        Useful: lambda it: useful(it["chunk"].endswith(GOOD)),
        Adherent: {"claims": 1, "unsupported": ["it"]},
    }
    said |= {
        FactInContext: covered(0.7),
        SufficientContexts: {"missing": []},
        Addresses: {"grade": 3},
    }
    outcomes = []
    for sample in (
        plain,
        plain.model_copy(update={"ledger": Ledger(conversation="c", calls=(one,))}),
    ):
        judge = ScriptedJudge(said)
        result = metric.score(sample, judge=judge)
        prompts = [
            (type(asked), render(asked), asked.polls, asked.Reply)
            for asked in judge.asked
        ]
        fields_ = result.model_dump()
        (fields_["evidence"] or {}).pop("ledger", None)
        outcomes.append((prompts, fields_))
    assert outcomes[0] == outcomes[1]
