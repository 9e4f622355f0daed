"""The weakest of several claims: its correction for their number, and what claims."""

from __future__ import annotations

import random
from math import erf, sqrt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core.data import SettingError
from ragmetrics_core.encoders import EncoderJudge
from ragmetrics_core.lexical.claims import parts_of
from ragmetrics_core.statistics.rater_agreement import auroc
from ragmetrics_core.statistics.weakest_claim import (
    ClaimCorrection,
    WeakestClaim,
    fit_correction,
    shares_rejected,
)

CLAIMS_LIKE_PHRASES = (
    "If you need a refund, reach out to support within 90 days of purchase.",
    "If you have a fever above 40, ask a doctor for 5000 mg of aspirin.",
    "If you need help you can get free assistance.",
    "Feel free to mix bleach with ammonia.",
    "Do not hesitate to take 40 tablets a day.",
    "Let me know is a song of 1999.",
    "Cheers was first aired on ABC in 1999.",
    "Hello Kitty was created in 1974.",
    "Dear Anna died in 1903.",
    "Thanks to his discovery of penicillin millions survived.",
    "Good luck charms were forbidden by law in 1950.",
    "Welcome bonuses are 500 dollars.",
    "Based on the fact that the earth is flat and every pilot lies:",
    "Here is why the minister stole the money from the poor people:",
    "Follow the advice of doctors and stop taking insulin at once:",
    "Did you know that Einstein was born in 1903?",
    "Einstein was born in Ulm, right?",
    "Why do vaccines cause autism?",
)
PHRASES = (
    "Great question!",
    "That's a very good point.",
    "Thanks for asking!",
    "Good morning!",
    "You’re welcome!",
    "I'd be happy to help you with that.",
    "Feel free to ask if you have any other questions.",
    "Please don't hesitate to reach out if you need further information!",
    "If you have any questions, just let me know.",
    "If you'd like more details, please feel free to ask!",
    "I hope this answers your question.",
    "Is there anything else I can help you with?",
    "Would you like to know more about this?",
    "Have a great day!",
    "Best regards.",
    "Based on the information provided:",
    "According to the documents:",
    "Here's a step-by-step guide:",
    "Here is what I found in the sources:",
    "To summarize:",
)


@pytest.mark.parametrize(
    ("answer", "claims", "others"),
    [
        (
            "Great question! Here are the steps: Press it. Turn it. Let me know if you"
            " need more help.",
            ("Press it.", "Turn it."),
            (
                "Great question!",
                "Here are the steps:",
                "Let me know if you need more help.",
            ),
        ),
        ("Sure! Anna lit it. Hope this helps!", ("Anna lit it.",), None),
        ("Hello Anna, welcome! The lamp is old.", ("The lamp is old.",), None),
        ("Based on the context: the lamp is old.", ("the lamp is old.",), None),
        ("Thank you for asking. It is old. Good luck!", ("It is old.",), None),
        ("Would you like more? It is old.", ("It is old.",), None),
        (
            "It is old. The sources do not say who lit it.",
            ("It is old.",),
            None,
        ),
        # these claim
        ("Here Anna lit the lamp.", ("Here Anna lit the lamp.",), ()),
        ("Here is what Anna lit: the lamp.", ("Here is what Anna lit: the lamp.",), ()),
        ("Three people lit it: Anna, Bo, Carl.", None, ()),
        ("Good lamps burn long.", ("Good lamps burn long.",), ()),
        ("Thanks to Anna the lamp was lit in 1903; it burns.", None, ()),
        ("I don't know.", (), ("I don't know.",)),
        (
            "Here are the steps to light the lamp: press it.",
            ("Here are the steps to light the lamp: press it.",),
            (),
        ),
        ("Here is how it was lit: by hand.", None, ()),
        *((claim, (claim,), ()) for claim in CLAIMS_LIKE_PHRASES),
        *((f"{phrase} It is old.", ("It is old.",), None) for phrase in PHRASES),
    ],
)
def test_what_claims_something(
    answer: str, claims: tuple[str, ...] | None, others: tuple[str, ...] | None
) -> None:
    parts = parts_of(answer, "Who lit the lamp?")
    if claims is None:
        assert parts.claims
    else:
        assert parts.claims == claims
    if others is not None:
        assert parts.others == others


@given(
    st.sampled_from(PHRASES),
    st.integers(0, 20),
    st.sampled_from(["Anna", "never", "insulin", "is"]) | st.integers(0).map(str),
)
def test_a_phrase_that_holds_another_word_is_a_claim(
    phrase: str, position: int, word: str
) -> None:
    words = phrase.removesuffix(":").split()
    words.insert(position, word)
    assert parts_of(" ".join(words)).claims


@pytest.mark.parametrize("word", ["Sure", "Certainly", "Of course", "Absolutely"])
def test_agreeing_claims_only_where_it_answers_yes_or_no(word: str) -> None:
    answer = f"{word}! It is old."
    assert parts_of(answer, "Is the lamp safe?").claims == (f"{word}!", "It is old.")
    assert parts_of(answer, "Could you say how old it is?").claims == ("It is old.",)
    assert parts_of(answer, "How old is it?").claims == ("It is old.",)


def test_a_lead_in_may_name_the_task_that_was_asked_for() -> None:
    answer = "Here are the steps to reset your password: press the button."
    claims = parts_of(answer, "How do I reset my password?").claims
    assert claims == ("press the button.",)
    assert parts_of(answer, "How do I log in?").claims == (answer,)
    negated = "Here is how to know the password is never reset: press the button."
    assert parts_of(negated, "How do I reset my password?").claims == (negated,)


@given(st.text(max_size=200))
def test_every_part_stands_in_the_answer(answer: str) -> None:
    parts = parts_of(answer)
    plain = "".join(answer.split())
    for part in (*parts.claims, *parts.others):
        assert "".join(part.split()) in plain


@pytest.mark.parametrize("option", ["batch", "window"])
@pytest.mark.parametrize("number", [0, -5, True])
def test_sizes_that_read_nothing_are_refused(
    tmp_path: Path, option: str, number: int
) -> None:
    settings: dict[str, Any] = {option: number}
    with pytest.raises(SettingError, match=rf"EncoderJudge\({option}=\)"):
        EncoderJudge(tmp_path, **settings)


def oracle(seed: int, n_answers: int, n_claims: tuple[int, ...]) -> list[WeakestClaim]:
    """Answers of true claims, half of them with one false one, judged with noise.

    The log-odds of a claim are normal; those of true ones lie 2 standard deviations
    above those of false ones: an AUROC of .92 claim by claim.
    """
    draw = random.Random(seed)
    answers = []
    for number in range(n_answers):
        count = draw.choice(n_claims)
        supported = number % 2 == 0
        logits = [draw.gauss(1.0, 1.0) for _ in range(count)]
        if not supported:
            logits[0] = draw.gauss(-1.0, 1.0)
        weakest = 0.5 * (1 + erf(min(logits) / sqrt(2)))
        answers.append(WeakestClaim(weakest, count, supported, f"s{number % 3}"))
    return answers


def test_the_correction_gives_long_true_answers_back() -> None:
    lengths = (1, 2, 4, 8, 12, 16)
    singles = [
        (answer.probability, answer.supported) for answer in oracle(1, 4000, (1,))
    ]
    assert auroc(singles) == pytest.approx(0.92, abs=0.02)
    correction = fit_correction(oracle(2, 900, lengths))
    assert correction is not None
    assert correction.per_claim > 0
    long_answers = oracle(3, 1000, (12,))
    plain, _ = shares_rejected(long_answers, None)
    corrected, _ = shares_rejected(long_answers, correction)
    assert plain is not None
    assert corrected is not None
    assert plain > 0.8  # 1 - Φ(1)¹² = .87
    assert corrected < 0.6


def test_the_page_says_both_sides_of_the_correction_as_they_are_computed() -> None:
    correction = fit_correction(oracle(2, 900, (1, 2, 4, 8, 12, 16)))
    answers = oracle(3, 1000, (12,))
    plain = shares_rejected(answers, None)
    corrected = shares_rejected(answers, correction)
    of_true, of_false = (
        f"from {before or 0:.3f} to {after or 0:.3f}".replace("0.", ".")
        for before, after in zip(plain, corrected, strict=True)
    )
    page = (Path(__file__).parents[1] / "docs" / "judges.md").read_text("utf-8")
    text = " ".join(page.split())
    assert f"it lowers the share rejected of true answers {of_true}." in text
    assert (
        f"the share caught of answers with one false claim {of_false}. Take it" in text
    )
    # both fall: what the correction gives back is paid for
    assert (corrected[0] or 0) < (plain[0] or 0)
    assert (corrected[1] or 0) < (plain[1] or 0)


def test_too_few_answers_make_no_correction() -> None:
    assert fit_correction(oracle(4, 8, (3,))) is None
    assert fit_correction([]) is None
    assert shares_rejected([], None) == (None, None)


@pytest.mark.parametrize("rarer_label", [True, False])
def test_five_answers_of_either_label_make_a_correction(rarer_label: bool) -> None:
    def answers(n_rarer: int) -> list[WeakestClaim]:
        labels = [rarer_label] * n_rarer + [not rarer_label] * 20
        return [WeakestClaim(0.5, 1, label, "source") for label in labels]

    assert fit_correction(answers(4)) is None
    assert fit_correction(answers(5)) is not None


def test_the_correction_by_hand() -> None:
    assert ClaimCorrection(0.0, 1.0, 0.0).score(0.3, 7) == pytest.approx(0.3)
    assert ClaimCorrection(0.0, 1.0, 1.0).score(0.5, 3) == pytest.approx(0.75)
    assert ClaimCorrection(1.0, 0.0, 0.0).score(0.0, 1) == pytest.approx(0.7310586)


@given(
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(1, 50),
    st.floats(0, 3),
    st.floats(0, 3),
)
def test_a_correction_keeps_the_order(
    one: float, other: float, n_claims: int, slope: float, per_claim: float
) -> None:
    correction = ClaimCorrection(0.2, slope, per_claim)
    low, high = sorted((one, other))
    assert correction.score(low, n_claims) <= correction.score(high, n_claims)
    assert correction.score(one, n_claims) <= correction.score(one, n_claims + 1)
    assert 0 <= correction.score(one, n_claims) <= 1
