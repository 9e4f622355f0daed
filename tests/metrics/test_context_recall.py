"""Context Recall: bands without gaps, several references, examples and templates of the user's own."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_replies import rating

from ragmetrics_core import ContextRecall, LexicalJudge, ScriptedJudge
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


@pytest.mark.parametrize(
    ("value", "band"),
    [
        (0.0, "none"),
        (0.01, "minimal"),
        (0.1, "minimal"),
        (0.3, "minimal"),
        (0.34, "minimal"),
        (0.35, "partial"),
        (0.4, "partial"),
        (0.6, "partial"),
        (0.64, "partial"),
        (0.65, "mostly"),
        (0.7, "mostly"),
        (0.95, "mostly"),
        (1.0, "perfect"),
    ],
)
def test_bands_close_the_published_gaps(value, band):
    assert band_of(value) == band
    result, _ = score(rating(value, "why"))
    assert (result.value, result.evidence.band, result.reason) == (value, band, "why")


@given(st.floats(0, 1))
def test_every_score_lies_in_exactly_one_band(value):
    assert sum(low <= value <= high for _, low, high in BANDS) == 1


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


def test_best_of_several_references_counts():
    ratings = {
        "r1": rating(0.2, "far"),
        "r2": rating(0.9, "near"),
        "r3": rating(0.0, "off"),
    }
    result, judge = score(
        lambda q: ratings[q["reference"]], reference=["r1", "r2", "r3", "r1"]
    )
    assert (result.value, result.reason, result.evidence.best) == (0.9, "near", 1)
    assert len(judge.asked) == 3
    assert [rating.score for rating in result.evidence.ratings] == [0.2, 0.9, 0.0, 0.2]


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


def test_one_unrated_reference_fails_because_the_best_is_unknown():
    reply = lambda q: JudgeError("no") if q["reference"] == "r2" else rating(0.2)  # noqa: E731
    result, _ = score(reply, reference=["r1", "r2"])
    assert result.status == "failed"
    assert [rating.score for rating in result.evidence.ratings] == [0.2, None]
    assert result.evidence.band == "minimal"


def test_what_nobody_rated_lies_in_no_band():
    result, _ = score(lambda _: JudgeError("no"))
    assert (result.status, result.evidence.band) == ("failed", "")


def test_without_contexts_it_says_so():
    result, judge = score(rating(0.5, "half."), contexts=[])
    assert result.reason == "half. Rated against the reference alone, without contexts."
    assert not result.evidence.with_contexts
    assert judge.asked[0]["contexts"] == ()


def test_published_spelling_of_the_fields():
    judge = ScriptedJudge({RateRecall: rating(1.0, "same")})
    result = ContextRecall().score(
        input="q", output="a", expected_output="r", context=["c"], judge=judge
    )
    assert result.value == 1.0
    asked = judge.asked[0]
    assert (
        asked["question"],
        asked["answer"],
        asked["reference"],
        asked["contexts"],
    ) == ("q", "a", "r", ("c",))


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


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{answer}", "never shows {reference}"),
        ("{answer}\n{reference}\n{chunk}", "has {chunk}, of which"),
        ("{answer}\n{reference}\nmind the {context}", "has {context}, of which"),
        ("{answer}\n{reference}\n{nothing}", "has {nothing}, of which"),
        ("{answer}\nAgainst {reference}.", "has {reference} within a line"),
    ],
)
def test_templates_are_checked_at_construction(template, message):
    with pytest.raises(SettingError, match=message):
        ContextRecall(template=template)


def test_literal_braces_are_no_placeholders():
    assert ContextRecall(
        template='{answer}\n{reference}\n{score: 1} {{}} { nothing } {"score": 1} {0}'
    ).template


def test_embedded_judge_equal_and_unrelated():
    metric = ContextRecall()
    same = metric.score(
        answer="Paris is the capital.",
        reference="Paris is the capital.",
        judge=LexicalJudge(),
    )
    other = metric.score(
        answer="Kayaks float.", reference="Paris is the capital.", judge=LexicalJudge()
    )
    assert (same.value, same.evidence.band) == (1.0, "perfect")
    assert (other.value, other.evidence.band) == (0.0, "none")


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


def test_of_equal_ratings_the_first_counts():
    result, _ = score(lambda q: rating(0.5, q["reference"]), reference=["r1", "r2"])
    assert (result.evidence.best, result.reason) == (0, "r1")
