"""Reading JSON objects from replies: tolerant of form, never guessing."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core.data.errors import ConflictingVerdicts, CutOffReply, MalformedReply
from ragmetrics_core.data.questions import ExtractFacts, FactInContext, Instructions, RateRecall, Useful
from ragmetrics_core.endpoints.chat import ChatRequest, Choice
from ragmetrics_core.judging import formats
from ragmetrics_core.judging.formats import Format
from ragmetrics_core.judging.parsing import read, spans, value_offsets

NONE = Instructions("")
BINARY = formats.useful(Useful(instructions=NONE, chunks=("a",), answer="b"))
GRADED = formats.useful(Useful(instructions=NONE, chunks=("a",), answer="b", scale="graded"))
LISTED = formats.useful(Useful(instructions=NONE, chunks=("a", "b"), answer="b", listwise=True))
RECALL = formats.rate_recall(
    RateRecall(instructions=NONE, contexts=(), answer="", reference="", bands=(("None", 0, 0), ("some", 0, 1)))
)
FACTS = formats.extract_facts(ExtractFacts(instructions=NONE, reference=""))
TOGETHER = formats.fact_in_context(FactInContext(instructions=NONE, context="", facts=("a", "b"), together=True))


def parsed(form: Format, text: str, finish: str = "stop") -> object:
    return read(Choice(text, finish), form.holder, form.parse, form.essence).value


def verdict(text: str, finish: str = "stop") -> bool:
    (one,) = parsed(BINARY, text, finish)
    return bool(one.useful)


@pytest.mark.parametrize(
    "text",
    [
        '{"useful": 1, "reason": "r"}',
        '```json\n{"useful": 1}\n```',
        'Sure! Here it is:\n{"useful": 1} Hope it\'s fine.',
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
        '{"useful": 1, "weight": .5}',
    ],
)
def test_slips_of_form_are_tolerated(text: str) -> None:
    assert verdict(text)


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "1",
        "",
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


def test_the_message_never_holds_the_reply() -> None:
    with pytest.raises(MalformedReply) as caught:
        verdict('{"useful": "secret text"}')
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("text", ["", '{"useful": 1', "some words", "<think>so", '{"reason": "because'])
def test_a_reply_at_the_limit_is_cut_off(text: str) -> None:
    with pytest.raises(CutOffReply):
        verdict(text, "length")


def test_a_complete_verdict_at_the_limit_counts() -> None:
    assert verdict('{"useful": 1}', "length")


def test_contradicting_verdicts() -> None:
    with pytest.raises(ConflictingVerdicts):
        verdict('{"useful": 0} {"useful": 1}')


def test_grades() -> None:
    (one,) = parsed(GRADED, '{"grade": "2", "reason": " r "}')
    assert (one.grade, one.useful, one.reason) == (2, True, "r")
    for wrong in ("4", "true", "2.5", "-1", '"high"'):
        with pytest.raises(MalformedReply):
            parsed(GRADED, f'{{"grade": {wrong}}}')


def test_lists_are_matched_by_label() -> None:
    text = '{"chunks": [{"label": "B", "useful": 1}, {"label": "A", "useful": 0}]}'
    assert [one.useful for one in parsed(LISTED, text)] == [False, True]


@pytest.mark.parametrize("given_labels", [["A"], ["A", "A"], ["A", "C"], ["A", "B", "B"], ["A", "B", "C"], []])
def test_missing_unknown_and_doubled_labels_are_malformed(given_labels: list[str]) -> None:
    items = ", ".join(f'{{"label": "{label}", "useful": 1}}' for label in given_labels)
    with pytest.raises(MalformedReply, match="A, B"):
        parsed(LISTED, f'{{"chunks": [{items}]}}')


def test_facts_together() -> None:
    text = '{"facts": [{"label": "F2", "covered": 1}, {"label": "F1", "covered": "no"}]}'
    assert [one.probability for one in parsed(TOGETHER, text)] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("text", "score", "band"),
    [
        ('{"band": "some", "score": 0.5}', 0.5, "some"),
        ('{"band": " NONE ", "score": "0"}', 0.0, "None"),
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
        '{"band": "None", "score": 0.5}',
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
    assert parsed(FACTS, '{"facts": ["A  b", "", "a B", " c "]}') == ("A  b", "c")
    assert parsed(FACTS, '{"facts": []}') == ()
    for wrong in ('"a"', "[1]", "null"):
        with pytest.raises(MalformedReply):
            parsed(FACTS, f'{{"facts": {wrong}}}')


def test_adherent_and_sufficient() -> None:
    poll = parsed(formats.adherent(), '{"reasoning": "r", "verdict": "No", "unsupported_claims": ["x"]}')
    assert (poll.verdict, poll.reason, poll.unsupported) == ("no", "r", ("x",))
    assert parsed(formats.adherent(), '{"verdict": "abstains"}').verdict == "abstains"
    verdict = parsed(formats.sufficient(), '{"reasoning": "r", "sufficient": "no", "on_question": "yes"}')
    assert (verdict.sufficient, verdict.on_question) == (False, True)
    with pytest.raises(MalformedReply):
        parsed(formats.sufficient(), '{"sufficient": "no"}')
    with pytest.raises(MalformedReply):
        parsed(formats.adherent(), '{"verdict": "maybe"}')


@pytest.mark.parametrize(
    "form", [BINARY, GRADED, LISTED, RECALL, FACTS, TOGETHER, formats.adherent(), formats.sufficient()]
)
def test_schemas_are_strict(form: Format) -> None:
    def check(schema: object) -> None:
        if isinstance(schema, dict):
            if schema.get("type") == "object":
                assert schema["additionalProperties"] is False
                assert schema["required"] == list(schema["properties"])
            for value in schema.values():
                check(value)

    check(dict(form.schema))
    assert form.holder in form.schema["properties"]


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
    ],
)
def test_a_hostile_megabyte_is_read_in_linear_time(text: str) -> None:
    with pytest.raises(MalformedReply):  # in quadratic time this would take hours
        verdict(text)


@pytest.mark.parametrize(
    "text",
    [
        '{useful: 1, "a": [' + "1," * 32_000 + "x]}",
        "{useful: 1, " + "a:1," * 16_000 + "}",
        "{useful:1}" * 6_500 + "{useful: x}",
        "{useful: 1 " + "/**/" * 16_000 + "x}",
        '{"useful": 1' + '"' * 2 + "\\'" * 32_000 + "}",
    ],
)
def test_broken_json_does_not_hold_the_loop(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(MalformedReply):
        verdict(text)
    value_offsets(text, "useful", 0, len(text))
    assert time.process_time() - begun < 1  # a parser written in Python took 2 to 4 seconds


def test_offsets_in_a_text_whose_strings_never_end() -> None:
    begun = time.process_time()
    value_offsets("{useful: 1 /* " + '\\"' * 32_000 + " */}", "useful", 0, 64_017)
    assert time.process_time() - begun < 1  # in quadratic time 15 seconds


def test_a_megabyte_within_a_reply_is_fine() -> None:
    assert verdict('{"useful": 1, "reason": "' + "a\\n" * 350_000 + '"}')


@given(st.text(alphabet="{}\"'\\ auseful:01,", max_size=60))
def test_nothing_but_typed_errors(text: str) -> None:
    try:
        found = verdict(text)
    except (MalformedReply, ConflictingVerdicts):
        return
    assert found in (True, False)
    assert "useful" in text


@given(st.text(max_size=30), st.text(max_size=30), st.booleans())
def test_prose_without_braces_never_matters(before: str, after: str, useful: bool) -> None:
    before, after = (text.replace("{", "").replace("}", "").replace("<", "") for text in (before, after))
    assert verdict(f'{before}{{"useful": {int(useful)}}}{after}') is useful


def test_spans() -> None:
    assert list(spans('a {b} "{" } {c')) == [(2, 5), (7, None)]


def test_offsets_of_values() -> None:
    text = '{"reason": "\\"useful\\": 0", "useful" :  "1", \'useful\': 0}'
    offsets = value_offsets(text, "useful", 0, len(text))
    assert [text[offset] for offset in offsets] == ["1", "0"]


def test_a_client_that_changes_its_schema_changes_no_other_request() -> None:
    request = ChatRequest((), BINARY.schema)
    before = json.dumps(BINARY.schema)
    request.own_schema()["properties"]["useful"]["title"] = "changed"
    assert json.dumps(BINARY.schema) == before
    assert ChatRequest(()).own_schema() == {}
