"""What claims something, and the sizes of an encoder."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core.data import SettingError
from ragmetrics_core.encoders import EncoderJudge
from ragmetrics_core.lexical.claims import parts_of

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
        ("It is old. The sources do not say who lit it.", ("It is old.",), None),
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
def test_what_claims_something(answer, claims, others):
    parts = parts_of(answer, "Who lit the lamp?")
    if claims is None:
        assert parts.claims
    else:
        assert parts.claims == claims
    if others is not None:
        assert parts.others == others


@pytest.mark.parametrize(
    "answer",
    [
        "I'm sorry, but I can't assist with that.",
        "No relevant information found.",
        "No results found.",
        "No relevant documents were found.",
        "The answer is not in the context.",
        "Not found in the documents.",
        "No information available.",
        "Information not provided.",
        "Unfortunately, I couldn't find anything about this.",
        "Unanswerable",
        "Empty Response",
    ],
)
def test_what_says_that_nothing_was_found_claims_nothing(answer):
    assert parts_of(answer, "Who lit the lamp?").claims == ()


@pytest.mark.parametrize(
    ("answer", "question"),
    [
        ("It is not available in the store.", "Is it available in the store?"),
        ("It is not found in the north.", "Is it found in the north?"),
        ("It is not available.", "Is it available?"),
        ("No results were published in 1903.", "Were results published?"),
        ("No documents are needed.", "Which documents are needed?"),
        ("It is not in the garden.", "Is it in the garden?"),
    ],
)
def test_what_answers_no_claims_something(answer, question):
    assert parts_of(answer, question).claims == (answer,)


@given(
    st.sampled_from(PHRASES),
    st.integers(0, 20),
    st.sampled_from(["Anna", "never", "insulin", "is"]) | st.integers(0).map(str),
)
def test_a_phrase_that_holds_another_word_is_a_claim(phrase, position, word):
    words = phrase.removesuffix(":").split()
    words.insert(position, word)
    assert parts_of(" ".join(words)).claims


@pytest.mark.parametrize("word", ["Sure", "Certainly", "Of course", "Absolutely"])
def test_agreeing_claims_only_where_it_answers_yes_or_no(word):
    answer = f"{word}! It is old."
    assert parts_of(answer, "Is the lamp safe?").claims == (f"{word}!", "It is old.")
    assert parts_of(answer, "Could you say how old it is?").claims == ("It is old.",)
    assert parts_of(answer, "How old is it?").claims == ("It is old.",)


def test_a_lead_in_may_name_the_task_that_was_asked_for():
    answer = "Here are the steps to reset your password: press the button."
    claims = parts_of(answer, "How do I reset my password?").claims
    assert claims == ("press the button.",)
    assert parts_of(answer, "How do I log in?").claims == (answer,)
    negated = "Here is how to know the password is never reset: press the button."
    assert parts_of(negated, "How do I reset my password?").claims == (negated,)


@given(st.text(max_size=200))
def test_every_part_stands_in_the_answer(answer):
    parts = parts_of(answer)
    plain = "".join(answer.split())
    for part in (*parts.claims, *parts.others):
        assert "".join(part.split()) in plain


@pytest.mark.parametrize("option", ["batch", "window"])
@pytest.mark.parametrize("number", [0, -5, True])
def test_sizes_that_read_nothing_are_refused(tmp_path, option, number):
    settings: dict[str, Any] = {option: number}
    with pytest.raises(SettingError, match=rf"EncoderJudge\({option}=\)"):
        EncoderJudge(tmp_path, **settings)
