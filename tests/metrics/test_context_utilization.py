"""Context Utilization: worked numbers, laws, and what the evidence says."""

from fractions import Fraction
from itertools import permutations, product

import pytest
from counted_steps import assert_steps_grow_as_the_size
from hypothesis import given
from hypothesis import strategies as st
from judge_replies import chunks, of, useful, useful_list

from ragmetrics_core import (
    Context,
    ContextUtilization,
    RetrievalAccuracy,
    Sample,
    ScriptedJudge,
)
from ragmetrics_core.data.replies import Asked, Weight
from ragmetrics_core.metrics.context_utilization import (
    Useful,
    Usefulness,
    UsefulnessAlone,
    expected_average_precision,
    random_order,
)
from ragmetrics_core.metrics.declined import Declined
from ragmetrics_core.metrics.retrieval_ranking import average_precision

verdict_lists = st.lists(st.booleans(), min_size=1, max_size=12)
probability_lists = st.lists(st.floats(0, 1), min_size=1, max_size=7)


def judged(verdicts, **settings):
    """Score chunks c0, c1, … whose verdicts are given by position."""
    texts = [f"chunk {index}" for index in range(len(verdicts))]
    replies = dict(zip(texts, verdicts, strict=True))
    judge = ScriptedJudge(
        {Useful: lambda q: _said(q, [replies[text] for text in chunks(q)])}
    )
    sample = Sample(question="q?", answer="a", contexts=texts)
    return ContextUtilization(**settings).score(sample, judge=judge), judge


def _said(question, values):
    """Verdicts or probabilities."""
    said = [{"useful": value > 0.5, "reason": f"because {value}"} for value in values]
    kind = Usefulness if isinstance(values[0], bool) else question.Reply
    reply = (
        useful_list(question, said) if "chunks" in question.parts else kind(**said[0])
    )
    weights = tuple(
        Weight(value, "lexical") for value in values if isinstance(value, float)
    )
    return Asked((reply,), weights=weights)


def test_nothing_useful_is_zero_with_that_as_the_reason():
    result, _ = judged([False, False])
    assert (result.status, result.value) == ("scored", 0.0)
    assert result.reason == "None of the 2 chunks is useful to arrive at the answer."
    assert (result.evidence.useful, result.evidence.noise_share) == (0, 1.0)


def test_evidence_names_rank_id_verdict_precision_and_reason():
    judge = ScriptedJudge(
        {Useful: lambda q: useful(q["chunk"] != "b", 0.75, f"saw {q['chunk']}")}
    )
    contexts = [Context(text="a", id="A"), Context(text="b"), Context(text="c", id="C")]
    evidence = (
        ContextUtilization()
        .score(question="q", answer="x", contexts=contexts, judge=judge)
        .evidence
    )
    assert [
        (c.rank, c.id, c.useful, c.probability, c.precision, c.reason)
        for c in evidence.chunks
    ] == [
        (1, "A", True, 0.75, 1.0, "saw a"),
        (2, None, False, 0.75, 0.5, "saw b"),
        (3, "C", True, 0.75, 2 / 3, "saw c"),
    ]
    assert "P@k" in evidence.formula
    assert evidence.noise_share == pytest.approx(1 / 3)
    assert evidence.lift == pytest.approx(5 / 6 - evidence.random_order)


@pytest.mark.parametrize("declines", [True, False])
@pytest.mark.parametrize("contexts", [["c"], []])
def test_a_reference_that_declines_is_no_ground_to_call_chunks_useless(
    declines, contexts
):
    reply = {"declined": declines}
    judge = ScriptedJudge({Useful: useful(False), Declined: reply})
    result = ContextUtilization(against="reference").score(
        question="q", answer="a", reference="expected", contexts=contexts, judge=judge
    )
    assert judge.asked[-1]["answer"] == "expected"
    if declines:
        assert (result.status, result.code) == ("undefined", "no_facts")
        assert result.reason == "the reference states no fact"
    else:
        assert result.value == 0.0


@pytest.mark.parametrize("reference", ["I don't know.", "Hello!", "N/A."])
@pytest.mark.parametrize(
    "metric",
    [
        ContextUtilization(against="reference"),
        ContextUtilization(against="reference", judging="listwise"),
        RetrievalAccuracy(),
    ],
)
def test_by_words_a_reference_that_claims_nothing_decides_nothing(metric, reference):
    row = {"question": "Who lit it?", "answer": "Anna.", "contexts": ["Anna lit it."]}
    result = metric.score(**row, reference=reference, judge="lexical")
    assert (result.status, result.code) == ("undefined", "no_facts")
    several = metric.score(**row, reference=[reference, "Anna"], judge="lexical")
    assert several.value is not None


def test_a_judge_without_probabilities_fails_with_advice():
    judge = ScriptedJudge({Useful: Asked((UsefulnessAlone(useful=True),))})
    result = ContextUtilization(relevance="probability").score(
        question="q", answer="a", contexts=["c"], judge=judge
    )
    assert result.status == "failed"
    assert "relevance='binary'" in result.reason


@given(verdict_lists)
def test_average_precision_laws(verdicts):
    value = average_precision(verdicts)
    assert 0 <= value <= 1
    assert (value == 0) == (not any(verdicts))
    if all(verdicts):
        assert value == 1
    assert average_precision(sorted(verdicts, reverse=True)) == float(any(verdicts))
    assert value == pytest.approx(_from_the_definition(verdicts), abs=1e-12)


def _from_the_definition(verdicts):
    """AP as recall steps times precision, another way to write the definition down."""
    total, found, value = sum(verdicts), 0, Fraction(0)
    for rank, verdict in enumerate(verdicts, start=1):
        found += verdict
        value += Fraction(found, rank) * Fraction(int(verdict), total or 1)
    return float(value)


@given(st.lists(st.booleans(), min_size=1, max_size=6))
def test_random_order_is_the_mean_over_all_orders(verdicts):
    values = [average_precision(order) for order in permutations(verdicts)]
    assert random_order(len(verdicts), sum(verdicts)) == pytest.approx(
        sum(values) / len(values), abs=1e-12
    )


@given(probability_lists)
def test_expectation_equals_enumeration(probabilities):
    expected = 0.0
    for verdicts in product([False, True], repeat=len(probabilities)):
        weight = 1.0
        for verdict, probability in zip(verdicts, probabilities, strict=True):
            weight *= probability if verdict else 1 - probability
        expected += weight * average_precision(verdicts)
    assert expected_average_precision(probabilities) == pytest.approx(
        expected, abs=1e-9
    )


@given(st.permutations(list("abcde")))
def test_listwise_prompts_do_not_leak_the_order(order):
    """Permuting the contexts permutes the verdicts: the judge sees the same list whatever the ranks."""
    judge = ScriptedJudge(
        {
            Useful: lambda q: useful_list(
                q, [{"useful": i == 0} for i in range(len(chunks(q)))]
            )
        }
    )
    metric = ContextUtilization(judging="listwise")
    result = metric.score(question="q", answer="a", contexts=order, judge=judge)
    straight = metric.score(
        question="q", answer="a", contexts=list("abcde"), judge=judge
    )
    assert judge.asked[0]["chunks"] == judge.asked[1]["chunks"]
    assert list(judge.asked[0].parts["chunks"].labels) == ["A", "B", "C", "D", "E"]
    by_text = dict(
        zip(order, (chunk.useful for chunk in result.evidence.chunks), strict=True)
    )
    assert [by_text[text] for text in "abcde"] == [
        chunk.useful for chunk in straight.evidence.chunks
    ]


def test_no_prompt_holds_rank_or_score():
    judge = ScriptedJudge({Useful: useful(True)})
    contexts = [Context(text="text", score=0.123456, metadata={"rank": 7})]
    ContextUtilization().score(question="q", answer="a", contexts=contexts, judge=judge)
    asked = judge.asked[0]
    assert asked["chunk"] == "text"
    assert "0.123456" not in str(vars(asked))


@pytest.mark.parametrize(
    ("polls", "is_useful", "reason"),
    [
        # a tie is no yes, and is explained as none
        ([(1, "yes"), (0, "no")], False, "no"),
        ([(0, "no"), (1, "yes")], False, "no"),
        ([(0, "no"), (1, "yes"), (1, "yes, too")], True, "yes"),
        ([(1, "yes"), (0, "no"), (0, "no, either")], False, "no"),
    ],
)
def test_a_verdict_over_polls_is_explained_by_a_poll_that_says_so(
    polls, is_useful, reason
):
    said = [{"useful": verdict, "reason": why} for verdict, why in polls]
    metric = ContextUtilization(relevance="probability")
    result = metric.score(
        question="q", answer="a", contexts=["c"], judge=ScriptedJudge({Useful: said})
    )
    chunk = result.evidence.chunks[0]
    assert (chunk.useful, chunk.reason) == (is_useful, reason)
    assert chunk.probability == pytest.approx(
        sum(verdict for verdict, _ in polls) / len(polls)
    )


@pytest.mark.parametrize(
    ("count", "listed"), [(1, "1"), (10, "9, 10"), (11, "9, 10, …"), (30, "9, 10, …")]
)
def test_the_reason_lists_ten_ranks_and_says_that_there_are_more(count, listed):
    texts = [f"chunk {number}" for number in range(count)]
    judge = ScriptedJudge({Useful: useful(True)})
    result = ContextUtilization().score(
        question="q", answer="a", contexts=texts, judge=judge
    )
    assert result.reason.startswith(f"{count} of {count} chunks useful, at rank 1")
    assert result.reason.endswith(f"{listed}.")


def test_four_times_the_chunks_take_four_times_the_steps_to_put_together():
    def put_together(n_chunks: int) -> None:
        contexts = [f"c{number}" for number in range(n_chunks)]
        plan = ContextUtilization().plan(
            Sample(question="q", contexts=contexts, answer="a")
        )
        replies = tuple(useful(True) for _ in next(plan))
        with pytest.raises(StopIteration):
            plan.send(replies)

    assert_steps_grow_as_the_size(put_together, 500)


def test_where_all_of_the_first_chunks_are_blank_nothing_is_judged():
    judge = ScriptedJudge({})
    result = ContextUtilization(k=2).score(
        question="q", answer="a", contexts=[" ", "", "c"], judge=judge
    )
    assert (result.value, result.reason, judge.asked) == (
        0.0,
        "There are no contexts.",
        [],
    )


def test_a_score_without_a_single_useful_chunk_names_no_rank():
    result, _ = judged([0.4, 0.3], relevance="probability")
    assert result.value > 0
    assert result.reason == "0 of 2 chunks useful."


def test_replies_of_another_form_than_was_asked_for_fail():
    fields = {"question": "q", "answer": "a", "contexts": ["x", "y"]}
    verdicts_alone = Asked(
        (
            useful_list(
                of(ContextUtilization(judging="listwise"), **fields),
                [{"useful": True}] * 2,
            ),
        )
    )
    metric = ContextUtilization(judging="listwise", relevance="probability")
    judge = ScriptedJudge({Useful: lambda question: verdicts_alone})
    result = metric.score(**fields, judge=judge)
    assert result.status == "failed"
    assert result.error.type == "JudgeError"
    assert "replies are objects of question.Reply" in result.reason
