"""Probabilities of 0/1 labels from tokens."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import tokens as split

from ragmetrics_core.data.asking import LabelProbability
from ragmetrics_core.judging.llm import label_weights, probability_of_positive
from ragmetrics_core.judging.reading import ReadReply
from ragmetrics_core.models.chat import Choice, TokenAlternatives
from ragmetrics_core.models.openai_form import choice_of

Alternatives = dict[str, float]
COVERED = LabelProbability("covered")


def choice(*tokens: str | tuple[str, Alternatives]) -> Choice:
    listed = []
    for token in tokens:
        text, alternatives = (token, {token: 1.0}) if isinstance(token, str) else token
        logs = tuple((other, math.log(p)) for other, p in alternatives.items())
        listed.append(
            TokenAlternatives(text, math.log(alternatives.get(text, 1e-9)), logs)
        )
    return Choice("".join(token.token for token in listed), tokens=tuple(listed))


def probability(*tokens: str | tuple[str, Alternatives]) -> float | None:
    reply = choice(*tokens)
    cells = label_weights(
        ReadReply(None, reply, 0, len(reply.text)), COVERED, "logprobs"
    )
    return cells[0].p if cells and cells[0] is not None else None


@pytest.mark.parametrize(
    "tokens",
    [
        ('{"', "covered", '":', " ", ("1", {"1": 0.6, "0": 0.4}), "}"),
        ('{"', "covered", '":', (" 1", {" 1": 0.6, " 0": 0.4}), "}"),
        ('{"covered', ('":1', {'":1': 0.6, '":0': 0.4}), "}"),
        (
            '{"covered',
            ('": 1}', {'": 1}': 0.5, '": 1': 0.1, '": 0}': 0.3, '": 0,': 0.1}),
        ),
        ('{"covered":', (" 1}", {" 1}": 0.6, " 0}": 0.4})),
        (
            '{"covered":',
            (" 1,", {" 1,": 0.3, "1": 0.2, "\uff11": 0.1, " 0": 0.2, "0": 0.2}),
            '"x":2}',
        ),
        ('{"covered": "', ("1", {"1": 0.6, "0": 0.4}), '"}'),
        ('{"covered":', (' "1', {' "1': 0.6, ' "0': 0.4}), '"}'),
        ('{"covered":', (' "', {' "': 1.0}), ("1", {"1": 0.6, "0": 0.4}), '"}'),
        ('{"covered":', (" true", {" true": 0.6, " false": 0.4}), "}"),
        ('{"covered":', (' 1,"', {' 1,"': 0.6, ' 0,"': 0.4}), 'a":2}'),
        ("Sure: ", '{"covered":', ("1", {"1": 0.6, "0": 0.4}), "}"),
        ('{"r": "covered: 0", ', '"covered":', ("1", {"1": 0.6, "0": 0.4}), "}"),
    ],
)
def test_the_token_of_the_field_is_found(tokens):
    reply = choice(*tokens)
    start = reply.text.find("{")
    (cell,) = label_weights(
        ReadReply(None, reply, start, len(reply.text)), COVERED, "logprobs"
    ) or (None,)
    assert cell.p == pytest.approx(0.6)
    assert cell.mass == pytest.approx(1.0)


def test_an_alternative_without_the_merged_beginning_is_no_label():
    assert (
        probability('{"', ('covered":1', {'covered":1': 0.95, "1": 0.05}), "}") == 1.0
    )


@pytest.mark.parametrize(
    "other", ["10", "0.5", "1.0", "1e3", "-1", "01", "one", "1,000", "\u00bd", "2"]
)
def test_what_looks_like_a_label_is_none(other):
    assert probability('{"covered":', ("1", {"1": 0.95, other: 0.05}), "}") == 1.0
    assert probability('{"covered":', ("1", {"1": 0.6, other: 0.4}), "}") is None


def test_low_mass_is_not_usable():
    assert (
        probability('{"covered":', ("1", {"1": 0.5, "0": 0.39, "x": 0.11}), "}") is None
    )
    assert probability(
        '{"covered":', ("1", {"1": 0.5, "0": 0.41, "x": 0.09}), "}"
    ) == pytest.approx(50 / 91)


def test_the_chosen_token_counts_where_it_is_not_listed():
    reply = Choice(
        '{"covered":1}',
        tokens=(
            TokenAlternatives('{"covered":', 0.0, ()),
            TokenAlternatives("1", math.log(0.95), ()),
            TokenAlternatives("}", 0.0, ()),
        ),
    )
    (cell,) = label_weights(ReadReply(None, reply, 0, 13), COVERED, "logprobs")
    # the rest may be the other label's
    assert (cell.p, cell.mass) == (pytest.approx(0.95), pytest.approx(0.95))


def test_one_text_listed_twice_counts_once():
    reply = Choice(
        '{"covered":1}',
        tokens=(
            TokenAlternatives('{"covered":', 0.0, ()),
            TokenAlternatives(
                "1",
                math.log(0.8),
                (("1", math.log(0.8)), ("1", math.log(0.8)), ("0", math.log(0.2))),
            ),
            TokenAlternatives("}", 0.0, ()),
        ),
    )
    (cell,) = label_weights(ReadReply(None, reply, 0, 13), COVERED, "logprobs")
    assert cell.p == pytest.approx(0.8)


def test_stripped_texts_are_found_in_their_tokens():
    inner = choice('\n\n{"covered":', ("0", {"0": 0.9, "1": 0.1}), "}", "<|end|>")
    stripped = Choice('{"covered":0}', tokens=inner.tokens)
    (cell,) = label_weights(ReadReply(None, stripped, 0, 13), COVERED, "logprobs")
    assert cell.p == pytest.approx(0.1)


def test_tokens_of_another_text_are_not_used():
    other = Choice('{"covered": 1}', tokens=choice('{"covered":', "1", "}").tokens)
    assert label_weights(ReadReply(None, other, 0, 14), COVERED, "logprobs") == ()
    assert (
        label_weights(
            ReadReply(None, Choice('{"covered": 1}'), 0, 14), COVERED, "logprobs"
        )
        == ()
    )


def test_several_fields_in_order():
    text = '{"facts": [{"label": "F1", "covered": 1}, {"label": "F2", "covered": 0}]}'
    listed = tuple(
        TokenAlternatives(
            it["token"],
            it["logprob"],
            tuple((a["token"], a["logprob"]) for a in it["top_logprobs"]),
        )
        for it in split(text, 0.7, 0.99)
    )
    cells = label_weights(
        ReadReply(None, Choice(text, tokens=listed), 0, len(text)), COVERED, "logprobs"
    )
    assert [round(cell.p, 6) for cell in cells if cell] == [0.7, 0.7]


@pytest.mark.parametrize("logprob", [math.nan, 1.0, math.inf])
def test_what_is_no_probability_is_not_used(logprob):
    assert probability_of_positive([(1, logprob), (0, -3.0)], COVERED) is None


@pytest.mark.parametrize(("logprob", "is_used"), [(0.001, True), (0.0011, False)])
def test_a_certain_token_may_be_rounded_up_by_a_thousandth(logprob, is_used):
    weight = probability_of_positive([(1, logprob)], COVERED)
    assert (weight is not None and weight.p == 1.0) == is_used


def test_more_than_everything_is_not_used():
    assert (
        probability_of_positive([(1, math.log(0.9)), (0, math.log(0.8))], COVERED)
        is None
    )


weights = st.lists(
    st.tuples(st.sampled_from([0, 1, None]), st.floats(1e-6, 1.0)),
    min_size=1,
    max_size=20,
)


@given(weights)
def test_laws(listed):
    total = sum(weight for _, weight in listed)
    shares = [(label, weight / total) for label, weight in listed]
    logs = [(label, math.log(share)) for label, share in shares]
    result = probability_of_positive(logs, COVERED)
    zero, one = (
        sum(share for label, share in shares if label == wanted) for wanted in (0, 1)
    )
    if zero + one < 0.9 - 1e-9:
        assert result is None
        return
    if result is None:
        assert zero + one < 0.9 + 1e-9
        return
    assert 0 <= result.p <= 1
    assert result.mass == pytest.approx(zero + one)
    assert result.p == pytest.approx(one / (zero + one))
    swapped = probability_of_positive(
        [(None if label is None else 1 - label, log) for label, log in logs], COVERED
    )
    assert swapped.p == pytest.approx(1 - result.p)


@pytest.mark.parametrize(
    ("token", "expected"), [("sup", 0.6), ("s", None), ("supported", 0.6)]
)
def test_a_beginning_stands_for_a_label_only_if_no_other_label_begins_so(
    token, expected
):
    wanted_probability = LabelProbability(
        "v", positive="supported", labels=("supported", "silent")
    )
    head = '{"v": "'
    rest = "supported"[len(token) :] + '"}'
    reply = choice(head, (token, {token: 0.6, "silent": 0.4}), rest)
    whole = ReadReply(None, reply, 0, len(reply.text))
    (weight,) = label_weights(whole, wanted_probability, "logprobs")
    assert (None if weight is None else weight.p) == (
        expected if expected is None else pytest.approx(expected)
    )


@given(st.floats(0.0, 1.0), st.floats(0.5, 1.0))
def test_a_label_that_is_not_listed_never_decides(seen, floor):
    listed = [
        (1, math.log(max(seen, 1e-9))),
        (None, math.log(max((1 - seen) * floor, 1e-9))),
    ]
    result = probability_of_positive(listed, COVERED)
    if result is not None:
        hidden = min(1 - seen, (1 - seen) * floor, seen)
        assert seen >= 0.9 - 1e-9
        assert seen / (seen + hidden) > 0.5


def test_a_token_in_another_form_leaves_no_probabilities():
    """Half of the tokens would shift what stands at a place of the text."""
    good = {"token": "1", "logprob": -0.1, "top_logprobs": []}
    read = [
        choice_of("11", "stop", logprobs={"content": content}).tokens
        for content in ([good, good], [good, {"token": "1"}], [good, "1"], [good, None])
    ]
    assert [len(tokens) for tokens in read] == [2, 0, 0, 0]
