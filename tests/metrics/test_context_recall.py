"""Context Recall: bands without gaps, several references, examples and templates of the user's own."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_replies import rating

from ragmetrics_core import ContextRecall, ScriptedJudge
from ragmetrics_core.data.errors import JudgeError, SettingError
from ragmetrics_core.metrics.context_recall import BANDS, RateRecall, band_of


def score(reply, metric=None, **fields):
    judge = ScriptedJudge({RateRecall: reply})
    given_ = {
        "question": "q",
        "answer": "a",
        "reference": "r",
        "contexts": ["c"],
    } | fields
    return (metric or ContextRecall()).score(judge=judge, **given_), judge


def test_shipped_examples_show_a_score_of_every_band():
    _, judge = score(rating(0.5))
    shown = judge.asked[0].instructions.examples
    replies = [json.loads(line) for line in shown.splitlines() if line[:1] == "{"]
    assert len(replies) == 5
    assert {band_of(reply["score"]) for reply in replies} == {
        name for name, *_ in BANDS
    }
    assert all(reply["reason"] for reply in replies)
    assert shown.count("\nContext: ") == 1


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=8),
    st.permutations([0.0, 0.3, 0.5, 1.0]),
)
def test_every_reference_has_a_rating_of_its_own_and_equal_ones_are_asked_about_once(
    references, scores
):
    score_of = dict(zip("abcd", scores, strict=True))
    result, judge = score(
        lambda q: rating(score_of[q["reference"]]), reference=references
    )
    assert [rating.score for rating in result.evidence.ratings] == [
        score_of[own] for own in references
    ]
    assert (
        result.evidence.ratings[result.evidence.best].score
        == result.value
        == max(map(score_of.get, references))
    )
    assert len(judge.asked) == len(set(references))


def test_what_nobody_rated_lies_in_no_band():
    result, _ = score(lambda _: JudgeError("no"))
    assert (result.status, result.evidence.band) == ("failed", "")


def test_without_contexts_it_says_so():
    result, judge = score(rating(0.5, "half."), contexts=[])
    assert result.reason == "half. Rated against the reference alone, without contexts."
    assert not result.evidence.with_contexts
    assert judge.asked[0]["contexts"] == ()


def test_own_examples_and_template_change_the_signature():
    extended = ContextRecall(
        examples="Examples:" + '\n{"answer": "mine"} -> {"score": 0.4}'
    )
    replaced = ContextRecall(
        template='Rate one against the other.\n{answer}\n{reference}\n{"json": 1}'
    )
    signatures = {
        metric.signature
        for metric in (ContextRecall(), extended, replaced, ContextRecall(examples=""))
    }
    assert len(signatures) == 4
    _, judge = score(rating(0.5), extended)
    assert "mine" in judge.asked[0].instructions.examples
    _, judge = score(rating(0.5), replaced)
    assert judge.asked[0].read({"score": 0.4}).score == 0.4


def test_templates_are_checked_at_construction():
    with pytest.raises(SettingError, match=r"never shows \{reference\}"):
        ContextRecall(template="{answer}")


@pytest.mark.parametrize(
    ("value", "said"),
    [(True, "a number between 0 and 1"), (1.5, "less than or equal to 1")],
)
def test_what_is_no_share_is_no_score(value, said):
    _, judge = score(rating(0.5))
    with pytest.raises(ValueError, match=said):
        judge.asked[0].read({"score": value})


def test_a_band_is_computed_and_never_read():
    _, judge = score(rating(0.5), ContextRecall(template="{answer}\n{reference}"))
    read = judge.asked[0].read({"score": 0.9, "band": "fair"})
    assert score(read)[0].evidence.band == "mostly"
