"""Context Adherence: share of polls, explanations, abstention, missing polls, early stopping, causes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_replies import poll, polls

from ragmetrics_core import ContextAdherence, LexicalJudge, Sample, ScriptedJudge
from ragmetrics_core.data.errors import JudgeError, RateLimited, SettingError
from ragmetrics_core.data.replies import Asked, NotAnswered
from ragmetrics_core.data.scalars import is_yes
from ragmetrics_core.metrics.answer_relevance import Addresses
from ragmetrics_core.metrics.context_sufficiency import SufficientContexts
from ragmetrics_core.metrics.polls import Adherent, adherence_reply


def polled(*verdicts, failures=()):
    answers = [
        poll(v, f"{v} {i}", (f"claim {i}",) if v == "no" else ())
        for i, v in enumerate(verdicts)
    ]
    return polls(answers, failures)


def score(reply, *, cause=None, question="q?", **settings):
    judge = ScriptedJudge({Adherent: reply, **(cause or {})})
    metric = ContextAdherence(**settings)
    return (
        metric.score(question=question, contexts=["c"], answer="a", judge=judge),
        judge,
    )


def test_explanation_from_the_majority_and_strongest_dissent():
    result, _ = score(polled("yes", "no", "no", "yes", "no"), cause=False)
    assert result.value == 0.4
    assert result.evidence.explanation.startswith("no")
    assert result.evidence.dissent.startswith("yes")
    assert result.reason == result.evidence.explanation
    assert result.evidence.unsupported == ("claim 1", "claim 2", "claim 4")


def test_the_side_that_names_most_claims_explains_else_the_longest():
    yes = [poll("yes", reason) for reason in ("short", "rather long", "longest")]
    for no, dissent in (
        ([poll("no", "one", ("a",)), poll("no", "two", ("a", "b"))], "two"),
        ([poll("no", "a"), poll("no", "bc")], "bc"),
    ):
        evidence = score(polls((*yes, *no)))[0].evidence
        assert (evidence.explanation, evidence.dissent) == ("rather long", dissent)


def test_lost_polls_leave_a_score_with_bounds_if_they_cannot_turn_the_verdict():
    for verdict, value, low, high in (("yes", 1.0, 0.6, 1.0), ("no", 0.0, 0.0, 0.4)):
        result, _ = score(polled(*[verdict] * 3, failures=(RateLimited("slow"),) * 2))
        assert (result.value, result.bounds) == (value, (low, high))
        in_words = f"(Polls were lost; with them it is {low:.2f} to {high:.2f}.)"
        assert result.reason.endswith(in_words)
        assert result.evidence.missing == 2
    unknown, _ = score(polled("yes", "yes", "no", failures=(RateLimited("slow"),) * 2))
    assert (unknown.status, unknown.error.type) == ("failed", "TooFewPolls")
    assert "3 of 5 polls were answered, and the others could turn" in unknown.reason


def test_a_score_passes_its_threshold_only_where_lost_polls_cannot_decide_it():
    lost = (RateLimited("slow"),)
    sure, _ = score(polled(*["yes"] * 4, failures=lost), threshold=0.8)
    unsure, _ = score(polled(*["yes"] * 4, failures=lost), threshold=0.9)
    below, _ = score(polled("no", "no", "no", "yes", failures=lost), threshold=0.9)
    assert (sure.passed, unsure.passed, below.passed) == (True, None, False)


def test_too_few_polls_fail_with_what_happened():
    result, _ = score(polled("yes", "no", failures=(RateLimited("slow"),) * 3))
    assert (result.status, result.error.type) == ("failed", "TooFewPolls")
    assert "2 of 5" in result.reason
    assert "RateLimited" in result.reason
    assert len(result.evidence.polls) == 2
    none, _ = score(polls((), (RateLimited("slow down"),) * 5))
    assert none.error.type == "RateLimited"


@pytest.mark.parametrize(
    ("verdicts", "missing", "status"),
    [
        (("yes", "no"), 2, "failed"),  # half of the polls are no majority
        (("yes", "no"), 1, "failed"),  # 1 or 2 of 3
        (("no", "no"), 2, "scored"),  # at most half say yes, and that is a no
        (("abstains", "yes"), 0, "scored"),  # half of them abstain: no majority either
        (("abstains", "abstains", "yes"), 0, "undefined"),
        (("abstains", "yes"), 1, "failed"),  # most polls may abstain
        (("abstains", "yes", "yes", "yes"), 1, "scored"),
        (("abstains", "abstains", "abstains"), 2, "undefined"),
    ],
)
def test_one_half_is_no_majority(verdicts, missing, status):
    asked = len(verdicts) + missing
    result, _ = score(
        polled(*verdicts, failures=(RateLimited("slow"),) * missing), polls=asked
    )
    assert result.status == status


@pytest.mark.parametrize(
    ("missing", "grade", "cause", "note"),
    [
        (["a year"], 3, "insufficient_context", "because of contexts"),
        (["a year"], 2, "insufficient_context", "because of contexts"),
        ([], 2, "reasoning_error", "because of contexts"),
        ([], 1, "misread_question", "because of the answer"),
        (["a year"], 0, "misread_question", "because of the answer"),
    ],
)
def test_the_cause_of_a_low_score_is_asked_as_sufficiency_and_relevance_are(
    missing, grade, cause, note
):
    replies = {
        SufficientContexts: {"missing": missing, "reason": "because of contexts"},
        Addresses: {"grade": grade, "reason": "because of the answer"},
    }
    result, judge = score(polled("no", "no", "yes"), cause=replies, polls=3)
    assert (result.evidence.cause, result.evidence.cause_note) == (cause, note)
    assert result.evidence.remedy
    kinds = [type(question) for question in judge.asked]
    assert kinds == [Adherent, SufficientContexts, Addresses]


def test_no_cause_is_looked_for_at_one_half_or_without_a_question():
    _, judge = score(polled("yes", "no"), polls=2)
    assert len(judge.asked) == 1
    result, judge = score(polled("no"), polls=1, question=None)
    assert len(judge.asked) == 1
    assert "without the question" in result.evidence.cause_note


def test_a_failed_search_for_the_cause_leaves_the_score():
    cause = {SufficientContexts: JudgeError("cannot tell"), Addresses: {"grade": 3}}
    result, _ = score(polled("no"), polls=1, cause=cause)
    assert (result.status, result.value, result.evidence.cause) == ("scored", 0.0, None)
    assert "cannot tell" in result.evidence.cause_note


def test_a_deterministic_judge_is_polled_once_and_does_not_pretend():
    reply = polls([poll("yes", "covered")], p=0.83)
    for settings in ({}, {"early_stop": True}):
        result, judge = score(reply, **settings)
        assert result.value == 0.83
        assert (
            result.evidence.asked,
            result.evidence.probability,
            result.evidence.repeatability,
        ) == (1, 0.83, None)
        assert len(judge.asked) == 1


def test_the_embedded_judge_names_the_judge_to_use_for_the_cause():
    result = ContextAdherence().score(
        question="When?",
        contexts=["It was built in 1856."],
        answer="Kayaks are rented out.",
        judge=LexicalJudge(),
    )
    assert result.value < 0.5
    assert result.evidence.cause is None
    assert "lexical" in result.evidence.cause_note
    assert result.evidence.sentences[0].coverage < 0.5


def test_a_failed_later_round_counts_as_lost_polls():
    def reply(question):
        if question.first_poll:
            return NotAnswered(RateLimited("slow"))
        return polls((poll("yes"), poll("no"), poll("yes")))

    result = ContextAdherence(early_stop=True).score(
        contexts=["c"], answer="a", judge=ScriptedJudge({Adherent: reply})
    )
    assert (result.status, result.evidence.missing) == ("failed", 2)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_early_stop_needs_an_odd_number_of_polls(count):
    with pytest.raises(SettingError, match="odd number"):
        ContextAdherence(early_stop=True, polls=count)


@given(st.lists(st.sampled_from(["yes", "no", "abstains"]), min_size=1, max_size=7))
def test_every_sequence_ends_scored_or_abstained(verdicts):
    result, _ = score(polled(*verdicts), polls=len(verdicts), cause=False)
    yes, no = verdicts.count("yes"), verdicts.count("no")
    if 2 * verdicts.count("abstains") > len(verdicts) or not yes + no:
        assert (result.status, result.code) == ("undefined", "no_claim")
    else:
        assert result.value == pytest.approx(yes / (yes + no))


_POLL = st.sampled_from(["yes", "no", "abstains", None])


@given(st.lists(_POLL, min_size=1, max_size=11), st.booleans(), st.booleans())
def test_the_score_lies_within_its_bounds_and_bounds_stand_where_polls_are_missing(
    said, early_stop, batched
):
    early_stop = early_stop and len(said) % 2 == 1 and len(said) >= 3

    def reply(question):
        part = said[
            (question.first_poll or 0) : (question.first_poll or 0) + question.polls
        ]
        answers = tuple(poll(verdict) for verdict in part if verdict is not None)
        return polls(
            answers,
            (RateLimited("slow"),) * (len(part) - len(answers)),
            together=batched,
        )

    metric = ContextAdherence(polls=len(said), early_stop=early_stop, cause=False)
    result = metric.score(
        contexts=["c"], answer="a", judge=ScriptedJudge({Adherent: reply})
    )
    if result.status != "scored":
        return
    evidence = result.evidence
    assert (result.bounds is None) == (evidence.missing == 0)
    if result.bounds is not None:
        low, high = result.bounds
        assert low <= result.value <= high
        assert is_yes(low) == is_yes(high)
        # What the missing polls could have said: all no, or all yes.
        count = evidence.yes + evidence.no + evidence.missing
        assert (low, high) == (
            evidence.yes / count,
            (evidence.yes + evidence.missing) / count,
        )
    decided = max(evidence.yes, evidence.no) > len(said) // 2
    assert evidence.early_stopped == (early_stop and not batched and decided)


def test_the_evidence_says_how_the_polls_went():
    result, _ = score(
        polled("yes", "no", "yes", "abstains", failures=(RateLimited("slow"),)),
        cause=False,
    )
    assert result.evidence.verdicts() == [
        "2 of 5 polls: yes",
        "1 of 5 polls: no",
        "1 of 5 polls: no claim",
        "1 of 5 polls: not answered",
    ]
    whole, _ = score(polled(*["yes"] * 5))
    assert whole.evidence.verdicts() == ["5 of 5 polls: yes"]
    sure, _ = score(polls([poll("yes")], p=0.83))
    assert sure.evidence.verdicts() == ["supported, probability 0.83"]
    unsure, _ = score(polls([poll("no")], p=0.25), cause=False)
    assert unsure.evidence.verdicts() == ["not supported, probability 0.25"]
    fitted = ContextAdherence().score(
        contexts=["Ada lit it."], answer="Ada lit it.", judge=LexicalJudge()
    )
    assert fitted.evidence.verdicts()[0].endswith("(no probability)")


def test_each_poll_of_a_round_that_fails_is_missing():
    metric = ContextAdherence(polls=7, early_stop=True, cause=False)
    plan = metric.plan(Sample(question="q", contexts=["c"], answer="a"))
    undecided = Asked(
        tuple(
            adherence_reply(verdict, "r", ("it",))
            for verdict in ("yes", "yes", "no", "no")
        )
    )
    failed = NotAnswered(JudgeError("it broke"))
    batches = [next(plan), plan.send((undecided,)), plan.send((failed,))]
    assert [question.polls for (question,) in batches] == [4, 2, 1]
    with pytest.raises(StopIteration) as end:
        plan.send((Asked((adherence_reply("yes", "r"),)),))
    evidence = end.value.value.evidence
    assert (evidence.yes, evidence.no, evidence.missing) == (3, 2, 2)
