"""Reading JSON objects from replies: tolerant of form, never guessing."""

import json
from contextlib import suppress
from typing import Any

import pytest
from counted_steps import assert_steps_grow_as_the_size
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from pydantic import BaseModel
from said import of, shown

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    RetrievalAccuracy,
)
from ragmetrics_core.data.asking import Instructions, Question
from ragmetrics_core.data.errors import (
    ConflictingVerdicts,
    CutOffReply,
    EmptyReply,
    MalformedReply,
)
from ragmetrics_core.judging.parsing import find_objects, find_spans, value_offsets
from ragmetrics_core.judging.reply_forms import read, schema_of
from ragmetrics_core.metrics.adherence_cause import Sufficiency, Sufficient
from ragmetrics_core.models.chat import ChatRequest, Choice

ONE = {"question": "q", "answer": "b", "contexts": ["a"], "reference": "r"}
TWO = {**ONE, "contexts": ["a", "b"], "facts": ["a", "b"]}
BINARY = of(ContextUtilization(), **ONE)
GRADED = of(ContextUtilization(relevance="graded"), **ONE)
LISTED = shown(of(ContextUtilization(judging="listwise"), **TWO), chunks=("a", "b"))
RECALL = of(ContextRecall(), **ONE)
FACTS = of(RetrievalAccuracy(), **ONE)
TOGETHER = of(RetrievalAccuracy(calls="per_context"), **TWO)
ADHERENT = of(ContextAdherence(), **ONE)
SUFFICIENT = Sufficient(parts={}, instructions=Instructions(""), Reply=Sufficiency)


def parsed(question: Question[Any], text: str, finish: Any = "stop") -> Any:
    return read(Choice(text, finish), question).value


def verdict(text: str, finish: str = "stop") -> bool:
    return bool(parsed(BINARY, text, finish).useful)


@pytest.mark.parametrize(
    "text",
    [
        '{"useful": 1, "reason": "r"}',
        '```json\n{"useful": 1}\n```',
        'Sure! Here it is:\n{"useful": 1}\n',
        'Sure! It is as follows. ```json {"useful": 1}```',
        "My verdict: **{'useful': 1}**",
        '**Verdict:** {"useful": 1}',
        'Well.\n<answer>{"useful": 1}</answer>',
        "判断：{'useful': 1}",
        'It says {"useful": 1}, and so do I.\n{"useful": 1}',
        '{"useful": 1,}',
        "{'useful': 1, 'reason': 'it isn\\'t'}",
        "{useful: 1}",
        '{"useful": "1"}',
        '{"useful": "Yes"}',
        '{"useful": true}',
        '{"useful": "１"}',
        '<think>{"useful": 0} or maybe not</think>\n{"useful": 1}',
        '  <thinking>hm</thinking>{"useful": 1}',
        '{"useful": 1} and again {"useful": 1, "reason": "same"}',
        '{"useful": 1, "reason": "the text says {\\"useful\\": 0}"}',
        '{"note": "{"} {"useful": 1}',
        '{"useful": 1 /* as a comment */}',
        "{useful: 1 // a comment, with a comma\n}",
        '{"useful": 1, "reason": "0, } // {1: None}"}',
        '{"a": {"b": {}}, "useful": 1}',
        '\ufeff{"useful": 1}',
        '{"useful": 1, "reason": "line\nbreak"}',
        '{"useful": 1.0}',
        '{"useful": "1.0"}',
        '{"useful": True}',
        "{'useful': True, 'reason': None}",
        'I weigh {"useful": 0} against it.</think>{"useful": 1}',
        'So be it. </thinking>\n```json\n{"useful": 1}\n```',
        '{"useful": 1, "reason": "it says </think>{useful: 0}"}',
        '{"useful": 1, "reason": "\\alpha"}',
    ],
)
def test_slips_of_form_are_tolerated(text: str) -> None:
    assert verdict(text)


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "1",
        "[1]",
        '{"verdict": 1}',
        '{"result": {"useful": 1}}',
        '{"useful": 10}',
        '{"useful": 0.5}',
        '{"useful": null}',
        '{"useful": NaN}',
        '{"useful": 1, "useful": 1}',
        '{"useful": 1, "x": Infinity}',
        '{"useful": 1, "x": 1e999}',
        '{"useful": 0|1, "reason": "..."} {"useful": 1}',
        '{"useful": maybe, "reason": "..."}',
        '{"useful": [1,,]}',
        '{"useful": 1}</think>',
        'It is "</think>{useful: 1}" says {"useful": ',
        '{"useful": 1} {"useful": ',
        '{"useful": 1',
        '{"useful": "1',
        '<think>{"useful": 1}',
        '{"useful": ' + "[" * 5000 + "]" * 5000 + "}",
        '{"useful": ' + "9" * 10_000 + "}",
    ],
)
def test_what_is_no_verdict_is_malformed(text: str) -> None:
    with pytest.raises(MalformedReply) as caught:
        verdict(text)
    assert caught.value.raw == text


@pytest.mark.parametrize(
    "text",
    [
        (
            'The context holds the text {"useful": 1}, which is to be ignored. My'
            " judgement is: no."
        ),
        'The context holds the text: {"useful": 1}, which is to be ignored.',
        '{"useful": 1} is what the context orders. It is not useful.',
        '```json\n{"useful": 1}\n``` stands in the context; not useful.',
        '{"useful": 1}\n</answer>\nNo.',
        'It is not useful, whatever it orders by {"useful": 1}',
        'It is not useful, whatever it orders by `{"useful": 1}`',
        'It is not useful, whatever it orders by <b>{"useful": 1}</b>',
        'The context says {"a": 1} {"useful": 1}',
        '{"useful": 1} {"note": 1}',
        '<think>no</think> it says {"useful": 1}',
    ],
)
def test_a_quoted_object_is_no_verdict(text: str) -> None:
    with pytest.raises(MalformedReply, match="quotation"):
        verdict(text)


def test_words_behind_the_verdict_that_the_limit_cuts_off() -> None:
    with pytest.raises(CutOffReply):
        verdict('{"useful": 1} is what the context ord', "length")


def test_the_message_never_holds_the_reply() -> None:
    with pytest.raises(MalformedReply) as caught:
        verdict('{"useful": "secret text"}')
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", '{"useful": 1', "some words", "<think>so", '{"reason": "because']
)
def test_a_reply_at_the_limit_is_cut_off(text: str) -> None:
    with pytest.raises(CutOffReply):
        verdict(text, "length")


def test_a_complete_verdict_at_the_limit_counts() -> None:
    assert verdict('{"useful": 1}', "length")


def test_contradicting_verdicts() -> None:
    with pytest.raises(ConflictingVerdicts):
        verdict('{"useful": 0} {"useful": 1}')


class Marks(BaseModel):
    """A reply whose fields have no rule of their own."""

    passed: bool
    reason: str = ""


def test_verdicts_without_a_rule_of_their_own_contradict_each_other_too() -> None:
    question = Question(parts={}, instructions=Instructions(""), Reply=Marks)
    with pytest.raises(ConflictingVerdicts):
        parsed(question, '{"passed": true} {"passed": false}')
    agreed = '{"passed": true, "reason": "a"} {"passed": true, "reason": "b"}'
    assert parsed(question, agreed).passed


def test_grades() -> None:
    one = parsed(GRADED, '{"grade": "2", "reason": " r "}')
    assert (one.grade, one.reason) == (2, "r")
    assert parsed(GRADED, '{"grade": 2.0}').grade == 2
    for wrong in ("4", "true", "2.5", "-1", '"high"'):
        with pytest.raises(MalformedReply):
            parsed(GRADED, f'{{"grade": {wrong}}}')


def test_lists_are_matched_by_label() -> None:
    text = '{"chunks": [{"label": "B", "useful": 1}, {"label": "A", "useful": 0}]}'
    assert [one.useful for one in parsed(LISTED, text).chunks] == [False, True]


@pytest.mark.parametrize(
    "given_labels",
    [["A"], ["A", "A"], ["A", "C"], ["A", "B", "B"], ["A", "B", "C"], []],
)
def test_missing_unknown_and_doubled_labels_are_malformed(
    given_labels: list[str],
) -> None:
    items = ", ".join(f'{{"label": "{label}", "useful": 1}}' for label in given_labels)
    with pytest.raises(MalformedReply, match="A, B"):
        parsed(LISTED, f'{{"chunks": [{items}]}}')


def test_facts_together() -> None:
    text = (
        '{"facts": [{"label": "F2", "covered": 1}, {"label": "F1", "covered": "no"}]}'
    )
    assert [one.covered for one in parsed(TOGETHER, text).facts] == [False, True]


@pytest.mark.parametrize(
    ("text", "score", "band"),
    [
        ('{"band": "partial", "score": 0.5}', 0.5, "partial"),
        ('{"band": " NONE ", "score": "0"}', 0.0, "NONE"),
        ('{"score": 1}', 1.0, ""),
        ('{"band": null, "score": 1}', 1.0, ""),
    ],
)
def test_ratings(text: str, score: float, band: str) -> None:
    rating = parsed(RECALL, text)
    assert (rating.score, rating.band) == (score, band)


@pytest.mark.parametrize(
    "text",
    [
        '{"band": "none", "score": 0.5}',
        '{"band": "other", "score": 0.5}',
        '{"band": 3, "score": 0.5}',
        '{"score": 1.01}',
        '{"score": -0.1}',
        '{"score": true}',
        '{"score": "nan"}',
        '{"score": "high"}',
        '{"score": NaN}',
    ],
)
def test_no_ratings(text: str) -> None:
    with pytest.raises(MalformedReply):
        parsed(RECALL, text)


def test_facts_lose_blank_and_equal_ones() -> None:
    assert parsed(FACTS, '{"facts": ["A  b", "", "a B", " c "]}').facts == ("A  b", "c")
    assert parsed(FACTS, '{"facts": []}').facts == ()
    for wrong in ('"a"', "[1]", "null"):
        with pytest.raises(MalformedReply):
            parsed(FACTS, f'{{"facts": {wrong}}}')


def test_adherent_and_sufficient() -> None:
    poll = parsed(ADHERENT, '{"reason": "r", "verdict": "No", "unsupported": ["x"]}')
    assert (poll.verdict, poll.reason, poll.unsupported) == ("no", "r", ("x",))
    assert parsed(ADHERENT, '{"verdict": "abstains"}').verdict == "abstains"
    verdict = parsed(
        SUFFICIENT, '{"reason": "r", "sufficient": "no", "on_question": "yes"}'
    )
    assert (verdict.sufficient, verdict.on_question) == (False, True)
    with pytest.raises(MalformedReply):
        parsed(SUFFICIENT, '{"sufficient": "no"}')
    with pytest.raises(MalformedReply):
        parsed(ADHERENT, '{"verdict": "maybe"}')


@pytest.mark.parametrize(
    "question", [BINARY, GRADED, LISTED, RECALL, FACTS, TOGETHER, ADHERENT, SUFFICIENT]
)
def test_schemas_are_strict(question: Question[Any]) -> None:
    def check(schema: object) -> None:
        if isinstance(schema, dict):
            if schema.get("type") == "object":
                assert schema["additionalProperties"] is False
                assert schema["required"] == list(schema["properties"])
            for value in schema.values():
                check(value)

    schema = schema_of(question.Reply)
    check(dict(schema))
    assert schema is schema_of(question.Reply), "one object for thousands of requests"
    assert set(schema["properties"]) <= set(question.Reply.model_fields)


@pytest.mark.parametrize(
    "text",
    [
        "{" * 1_000_000,
        '{"' * 500_000,
        '{"useful": "' + '\\"' * 500_000,
        "{'useful}" * 100_000,
        "{useful}" * 120_000,
        '{"useful": 1' + " " * 1_000_000,
        '{"useful": 1,' + '"a":[' * 1000 + " " * 1_000_000 + "}",
        "<think>" * 140_000,
        "{useful: '" + "a" * 1_000_000 + "'}",
        "{useful:1}" * 6_000 + "\n" * 1_000_000 + "x",
        "{useful:1}" + "```</a>" * 150_000 + "x",
        "\n" * 500_000 + "x" + " *" * 250_000 + "{useful:1}",
    ],
)
def test_a_hostile_megabyte_is_read_in_linear_time(text: str) -> None:
    with pytest.raises(MalformedReply):  # in quadratic time this would take hours
        verdict(text)


@pytest.mark.parametrize(
    "text",
    [
        ('{useful: 1, "a": [', "1,", 32_000, "x]}"),
        ("{useful: 1, ", "a:1,", 16_000, "}"),
        ("", "{useful:1}", 6_500, "{useful: x}"),
        ("{useful: 1 ", "/**/", 16_000, "x}"),
        ('{"useful": 1""', "\\'", 32_000, "}"),
    ],
)
def test_broken_json_does_not_hold_the_loop(
    text: tuple[str, str, int, str],
) -> None:
    before, repeated, n_times, behind = text

    def read(n_times: int) -> None:
        broken = before + repeated * n_times + behind
        with pytest.raises(MalformedReply):
            verdict(broken)
        value_offsets(broken, "useful", 0, len(broken))

    # a pattern that takes quadratic time would not end within the test's timeout
    read(n_times)
    assert_steps_grow_as_the_size(read, n_times // 16)


def test_offsets_in_a_text_whose_strings_never_end() -> None:
    def read(n_times: int) -> None:
        text = "{useful: 1 /* " + '\\"' * n_times + " */}"
        value_offsets(text, "useful", 0, len(text))

    read(32_000)
    assert_steps_grow_as_the_size(read, 2000)


PIECES = [
    "{}",
    "{",
    "}",
    '"',
    "'",
    "```json\n",
    '{"useful":',
    '{"useful":1}',
    "\\",
    "a:",
    "\n",
    "<a>",
    "</think>",
    "[",
]


@pytest.mark.parametrize(
    "unit", ["{}", "{{}}", "}\n{", "{} ", '{""}', '{"useful":1}\n']
)
def test_a_megabyte_of_small_objects_does_not_hold_the_loop(unit: str) -> None:
    def read(n_characters: int) -> None:
        text = unit * (n_characters // len(unit))
        with suppress(MalformedReply):
            list(find_objects(Choice(text), ("useful", "reason")))

    read(1_000_000)
    assert_steps_grow_as_the_size(read, 1000)


@given(
    *(
        st.lists(st.sampled_from(PIECES), max_size=most).map("".join)
        for most in (3, 4, 3)
    )
)
@settings(max_examples=examples(50))
def test_whatever_is_repeated_is_read_in_linear_time(
    head: str, unit: str, tail: str
) -> None:
    def read(n_characters: int) -> None:
        text = head + unit * (n_characters // max(1, len(unit))) + tail
        with suppress(MalformedReply):
            list(find_objects(Choice(text), ("useful", "reason")))

    read(100_000)
    assert_steps_grow_as_the_size(read, 2000)


def test_a_megabyte_within_a_reply_is_fine() -> None:
    assert verdict('{"useful": 1, "reason": "' + "a\\n" * 350_000 + '"}')


@given(st.text(alphabet="{}\"'\\ auseful:01,", max_size=60))
def test_nothing_but_typed_errors(text: str) -> None:
    try:
        found = verdict(text)
    except (MalformedReply, ConflictingVerdicts, EmptyReply):
        return
    assert found in (True, False)
    assert "useful" in text


@given(st.text(max_size=30), st.booleans())
def test_prose_without_braces_never_matters_on_lines_before(
    before: str, useful: bool
) -> None:
    before = before.replace("{", "").replace("}", "").replace("<", "")
    assert verdict(f'{before}\n{{"useful": {int(useful)}}}\n') is useful


def test_spans() -> None:
    assert list(find_spans('a {b} "{" } {c')) == [(2, 5), (7, None)]


def test_offsets_of_values() -> None:
    text = '{"reason": "\\"useful\\": 0", "useful" :  "1", \'useful\': 0}'
    offsets = value_offsets(text, "useful", 0, len(text))
    assert [text[offset] for offset in offsets] == ["1", "0"]


def test_a_client_that_changes_its_schema_changes_no_other_request() -> None:
    request = ChatRequest((), schema_of(BINARY.Reply))
    before = json.dumps(request.schema)
    request.own_schema()["properties"]["useful"]["title"] = "changed"
    assert json.dumps(schema_of(BINARY.Reply)) == before
    assert ChatRequest(()).own_schema() == {}
