"""Rows of tables as the field's tools write them."""

import csv
import json
import math
import sqlite3
from collections import namedtuple
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from ragmetrics_core import (
    Context,
    ContextUtilization,
    Fact,
    Report,
    RetrievalRanking,
    Sample,
    Turn,
    evaluate,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.cells import data_in
from ragmetrics_core.data.columns import USUAL_NAMES
from ragmetrics_core.data.errors import AmbiguousColumns, RowError, SettingError
from ragmetrics_core.data.frozen import is_blank
from ragmetrics_core.data.sample_parts import CaptureNotes
from ragmetrics_core.engine.row_files import read_rows
from ragmetrics_core.engine.sample_sources import ColumnsRead, iterate_samples

Q, A, R = "Who lit the lamp?", "Anna did.", "Anna Brandt lit it."
C = ("Anna lit the lamp.", "It was built in 1856.")
LISTS = ("contexts", "retrieved", "facts", "history")
NOTHING: dict[str, Any] = {"facts": math.nan, "history": pd.NA, "error": pd.NaT}

# What the tools of the field write, one row a line; and what JSON does not hold.
LINES = (
    Path(__file__).with_name("golden").joinpath("rows/exports.jsonl").read_text("utf-8")
)
EXPORTS: dict[str, dict[str, Any]] = {
    line["name"]: line["row"] for line in map(json.loads, LINES.splitlines())
} | {
    "numpy arrays": {
        "question": Q,
        "contexts": np.array(C),
        "answer": A,
        "ground_truths": np.array([R]),
    },
    "nothing but NaN": {
        "question": Q,
        "contexts": list(C),
        "answer": A,
        "reference": R,
        **NOTHING,
        "metadata": np.float32("nan"),
        "generator": " ",
    },
}


@pytest.mark.parametrize("name", EXPORTS)
def test_every_row_of_a_tool_gives_the_same_sample(name):
    row = EXPORTS[name]
    before = repr(row)
    sample = Sample.from_row(row)
    assert (sample.question, sample.answer, sample.reference) == (Q, A, (R,))
    assert tuple(context.text for context in sample.known_contexts) == C
    assert sample.facts is None
    assert sample.error is None
    assert repr(row) == before


@pytest.mark.parametrize(
    ("field", "name"),
    [
        (field, name)
        for field in ("question", "answer", "reference", "contexts")
        for name in USUAL_NAMES[field]
        if name != "answers.text"  # a path: an object of SQuAD
    ],
)
def test_every_usual_name_is_found(field, name):
    value = ["text"] if field == "contexts" else "text"
    found = getattr(Sample.from_row({name: value}), field)
    expected = {"reference": ("text",), "contexts": (Context(text="text"),)}
    assert found == expected.get(field, "text")


HOLDERS = [
    "input",
    "inputs",
    "output",
    "outputs",
    "request",
    "response",
    "result",
    "prediction",
]


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("write", [json.dumps, str, dict])
def test_contexts_in_a_request_or_reply_leave_no_json_in_the_answer(holder, write):
    is_reply = holder in ("output", "outputs", "response", "result", "prediction")
    for name in USUAL_NAMES["contexts"]:
        if "." in name:
            continue
        text = {"answer": A} if is_reply else {"question": Q}
        held = write({**text, name: list(C)})
        row = {"question": Q, holder: held}
        sample = Sample.from_row(row if is_reply else {**row, "answer": A})
        assert (sample.question, sample.answer) == (Q, A)
        assert tuple(context.text for context in sample.known_contexts) == C


JSON_REPLY = json.dumps({"answer": A, "contexts": list(C), "texts": [A]})
# a row, the columns that the caller names, and fields of the sample
NAMED: dict[str, tuple[dict[Any, Any], dict[str, Any], dict[str, Any]]] = {
    "a named column with JSON": (
        {"mine": json.dumps({"question": Q}), "output": JSON_REPLY},
        {"question": "mine", "answer": "output"},
        {"question": Q, "answer": A},
    ),
    "an answer that is JSON": (
        {"answer": '{"answer": "x"}'},
        {"answer": "answer"},
        {"answer": '{"answer": "x"}'},
    ),
    "an exact name wins": (
        {"ID": "no", "sample_id": "no", "id": "i7", "a.b": A, "a": {"b": "no"}},
        {"answer": "a.b"},
        {"id": "i7", "answer": A},
    ),
    "a named column serves no other field": (
        {"question": Q, "response": R, "output": A},
        {"reference": "response"},
        {"answer": A, "reference": (R,)},
    ),
    "paths go through objects, JSON and lists": (
        {"prediction": JSON_REPLY, "q": {"text": Q}},
        {"question": "q.text", "answer": "prediction.texts.0"},
        {"question": Q, "answer": A, "contexts": tuple(Context(text=t) for t in C)},
    ),
    "callables get the row": (
        {"a": Q, "b": "x|y"},
        {"question": lambda row: row["a"], "contexts": lambda row: row["b"].split("|")},
        {"question": Q, "contexts": (Context(text="x"), Context(text="y"))},
    ),
    "what no field uses goes to the metadata": (
        {"question": Q, "lang": "en", 7: "x", "none": None, "metadata": '{"page": 1}'},
        {},
        {"metadata": {"lang": "en", "7": "x", "page": 1}},
    ),
    "a column named capture may hold anything": (
        {"capture": {"mark": "A+"}},
        {},
        {"metadata": {"capture": {"mark": "A+"}}, "capture": None},
    ),
    "one answer of a list": ({"replies": ["a"]}, {}, {"answer": "a"}),
    "no answer of a list": ({"answer": []}, {}, {"answer": None}),
    "lists in JSON that are texts": (
        {"answer": '["a", "b"]', "reference": "[1]", "contexts": ['{"name": "x"}']},
        {},
        {
            "answer": '["a", "b"]',
            "reference": ("[1]",),
            "contexts": (Context(text='{"name": "x"}'),),
        },
    ),
    "found nothing": (
        {"contexts": [], "retrieved": []},
        {},
        {"contexts": (), "retrieved": ()},
    ),
    "an error": ({"error": {"code": 500}}, {}, {"error": '{"code": 500}'}),
    "an id of the conversation beside its history": (
        {"conversation": "c7", "inputs": {"history": ["Hello"], "question": Q}},
        {},
        {
            "history": (Turn(role="user", content="Hello"),),
            "metadata": {"conversation": "c7"},
        },
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_columns(name):
    row, columns, expected = NAMED[name]
    sample = Sample.from_row(row, **columns)
    assert {field: getattr(sample, field) for field in expected} == expected


@pytest.mark.parametrize(
    "text",
    ['{"lamp": "Anna"}', '{"a": {"b": [1]}}', "{'lamp'}", "{", "[1, 2]", '["a"]'],
)
def test_json_that_holds_no_known_text_is_the_answer_itself(text):
    assert Sample.from_row({"output": text}).answer == text


# Values


def test_documents_keep_id_score_and_metadata():
    documents = [
        {"id": 3, "content": "a", "meta": {"page": 1}, "score": np.float32(0.5)},
        {"node": {"id_": "n", "text": "b", "metadata": {"page": 2}}, "score": 0.25},
        {"text": "c", "score": "high", "metadata": '{"page": 3}'},
        {"text": "d", "score": math.nan, "metadata": {1: 2}},
        {"text": "e", "score": 10**400},  # no float is as large
    ]
    found = Sample.from_row({"documents": documents}).known_contexts
    assert [(each.id, each.score, each.metadata) for each in found] == [
        ("3", 0.5, {"page": 1}),
        ("n", 0.25, {"page": 2}),
        (None, None, {"page": 3}),
        (None, None, {"1": 2}),
        (None, None, {}),
    ]


@pytest.mark.parametrize(
    ("given_id", "text"),
    [
        (7, "7"),
        (7.0, "7"),
        (np.int64(7), "7"),
        (np.float64(7), "7"),
        (7.5, "7.5"),
        ("7.0", "7.0"),
        (UUID(int=5), str(UUID(int=5))),
    ],
)
def test_ids_are_texts(given_id, text):
    row = {"id": given_id, "contexts": [{"text": "t", "id": given_id}]}
    sample = Sample.from_row(row)
    assert (sample.id, sample.known_contexts[0].id) == (text, text)


@pytest.mark.parametrize("no_id", [math.nan, pd.NA, ["a"], {"a": 1}])
def test_ids_of_contexts_that_are_none(no_id):
    (context,) = Sample.from_row({"contexts": [{"text": "t", "id": no_id}]}).contexts
    assert context.id is None


@pytest.mark.parametrize(
    "keys",
    [
        ("chunk", "passage"),
        ("text", "content"),
        ("context", "document"),
        ("text", "document.content"),
    ],
)
def test_two_texts_of_a_context_that_differ_are_refused_with_both_named(keys):
    first, second = keys
    fields = {first: "SECRET a", second: "SECRET b"}
    with pytest.raises(AmbiguousColumns, match="number 1: ") as refused:
        Sample.from_row({"contexts": [fields]})
    assert "SECRET" not in str(refused.value)
    assert {repr(first), repr(second)} <= set(str(refused.value).split())
    for text, other in (("", "It fell."), (" It fell.", "It fell."), (7, "It fell.")):
        (context,) = Sample.from_row(
            {"contexts": [{first: text, second: other}]}
        ).known_contexts
        assert context.text.strip() == "It fell."


@pytest.mark.parametrize(
    ("ids", "context_id"),
    [
        ({"doc_id": "d1", "chunk_id": "c1"}, None),
        ({"id": "u1", "document_id": "d1"}, None),
        ({"id": 7, "node_id": "7"}, "7"),
        ({"id": "", "chunk_id": "c1"}, "c1"),
    ],
)
def test_of_several_ids_that_differ_none_is_the_contexts(ids, context_id):
    row = {"contexts": [{"text": "It fell.", **ids}], "expected_ids": ["c1"]}
    sample = Sample.from_row(row)
    assert [context.id for context in sample.known_contexts] == [context_id]
    result = RetrievalRanking().score(sample)
    assert (result.status == "undefined") is (context_id is None)
    assert ("several that differ" in result.reason) is (context_id is None)


@pytest.mark.parametrize("value", [1856, 1856.0, np.int64(1856), "1856"])
def test_a_number_is_an_answer(value):
    sample = Sample.from_row({"answer": value, "ground_truth": [value, 0.5]})
    assert (sample.answer, sample.reference) == ("1856", ("1856", "0.5"))


def test_a_sample_survives_the_way_through_a_row():
    sample = Sample(
        question=Q,
        contexts=(Context(text=C[0], id="1", score=0.5, metadata={"page": 1}),),
        answer=A,
        reference=(R, "Or so."),
        retrieved=C,
        facts=(Fact(text="f", weight=2.0),),
        history=(Turn(role="user", content="hi"),),
        id="7",
        generator="g",
        error="e",
        metadata={"lang": "en"},
        capture=CaptureNotes(grade="exact", evidence_from="prompt", warnings=("w",)),
    )
    row = sample.model_dump(mode="json")
    assert Sample.from_row(json.loads(json.dumps(row))) == sample
    # a table holds it as JSON
    assert Sample.from_row({"capture": json.dumps(row["capture"])}).capture == (
        sample.capture
    )
    objects = {name: getattr(sample, name) for name in ("contexts", "facts", "history")}
    taken = Sample.from_row(objects)
    assert {name: getattr(taken, name) for name in objects} == objects


HUMAN = {"type": "human", "content": "Hello"}
HISTORIES: list[tuple[object, list[str]]] = [
    (["Hello"], ["user"]),
    (["Hello", "Hi"], ["user", "assistant"]),
    ([HUMAN, {"type": "ai", "content": "Hi"}], ["user", "assistant"]),
    ('[{"role": "user", "content": "Hello"}]', ["user"]),
    ([{"type": "human", "data": {"content": "Hello"}}], ["user"]),
    ([{"role": "Human", "content": "Hello"}], ["user"]),
    ([{"role": "model", "parts": "Hi", "content": "Hi"}], ["assistant"]),
    ([{"role": "user", "content": [{"type": "text", "text": "Hello"}]}], ["user"]),
]


def test_messages_of_a_history_that_say_nothing_are_left_out():
    calls_a_tool = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    history = [{"role": "user", "content": "Hello"}, calls_a_tool]
    turns = Sample.from_row({"history": [*history, {"role": "tool", "content": []}]})
    assert [turn.role for turn in turns.history] == ["user"]


@pytest.mark.parametrize(("history", "roles"), HISTORIES)
def test_history(history, roles):
    turns = Sample.from_row({"chat_history": history}).history
    assert [turn.role for turn in turns] == roles


HISTORY_NAMES = ("history", "chat_history", "conversation")


@pytest.mark.parametrize(
    ("name", "value"),
    [*product(HISTORY_NAMES, (7, UUID(int=7))), ("conversation", "c7")],
)
def test_an_id_or_number_is_no_history_and_stays_in_the_metadata(name, value):
    sample = Sample.from_row({"question": Q, name: value})
    assert (sample.history, sample.metadata) == ((), {name: value})


@pytest.mark.parametrize(
    ("name", "text"),
    [*product(HISTORY_NAMES, ["User: Who?\nAI: Anna."]), ("history", "Hello")],
)
def test_a_history_in_one_text_is_refused_and_never_dropped(name, text):
    with pytest.raises(RowError, match=r'found a single text; write \[\{"role"'):
        Sample.from_row({"question": Q, name: text})


SHOWN = [
    {"type": "document", "source": {"type": "text", "data": "Ben paid for it."}},
    {"document": {"name": "x", "source": {"text": "Ben paid for it."}}},
    {"type": "tool_result", "tool_use_id": "t", "content": "Ben was asked first."},
    {"type": "tool_call_response", "id": "t", "result": "Ben was asked first."},
    {"type": "tool-result", "toolCallId": "t", "result": "Ben was asked first."},
]

EARLIER = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Who keeps the ferry?"},
    {"role": "assistant", "content": "Ida Voss."},
]
NOW = [*EARLIER, {"role": "user", "content": Q}]
ANSWERED = [*NOW, {"role": "tool", "content": "x"}, {"type": "ai", "content": "Anna."}]
OF_MESSAGES: dict[str, dict[str, Any]] = {
    "question": {"question": NOW},
    "JSON": {"question": json.dumps(NOW)},
    "ragas": {"user_input": NOW, "response": "Anna."},
    "ragas with the reply": {"user_input": ANSWERED, "response": "Anna. "},
    "a request": {"inputs": {"messages": NOW}, "outputs": {"output": "Anna."}},
    "prompt": {"prompt": ANSWERED},
    "LangGraph": {"input": {"messages": ANSWERED}, "output": {"messages": ANSWERED}},
    "a reply with the whole talk": {"question": Q, "output": {"messages": ANSWERED}},
    "a reply alone": {"output": {"messages": ANSWERED}},
    "a null beside the messages": {
        "question": Q,
        "output": {"answer": None, "llm_output": None, "messages": ANSWERED},
    },
    "what was shown beside what was said": {
        "question": [
            *NOW[:-1],
            {"role": "user", "content": [*SHOWN[:2], {"type": "text", "text": Q}]},
            {"role": "assistant", "content": [{"type": "tool_use", "name": "search"}]},
            {"role": "user", "content": SHOWN[2:]},
            {"role": "ipython", "content": [{"type": "text", "text": "Ben?"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Anna."}]},
        ],
    },
    "an empty history": {"question": ANSWERED, "history": [], "answer": None},
    "an empty content beside parts": {
        "question": [
            {**it, "content": "", "parts": [{"text": it["content"]}]} for it in ANSWERED
        ]
    },
    "texts with annotations": {
        "question": [
            {**it, "content": [{"type": "text", "text": {"value": it["content"]}}]}
            for it in ANSWERED
        ]
    },
    "from and value": {
        "conversations": "c7",
        "question": [
            {"from": role, "value": text}
            for role, text in zip(
                ("system", "human", "gpt", "human"),
                [message["content"] for message in NOW],
                strict=True,
            )
        ],
    },
}


@pytest.mark.parametrize("key", ["sender", "author"])
def test_messages_of_several_blocks_need_a_known_speaker(key):
    talk = [
        {
            key: message["role"],
            "content": [{"type": "text", "text": message["content"]}],
        }
        for message in (*NOW, {"role": "assistant", "content": "Anna."})
    ]
    for row in ({"question": talk}, {"question": Q, "history": talk[:-2]}):
        if key == "author":
            with pytest.raises(RowError):
                Sample.from_row(row)
        else:
            sample = Sample.from_row(row)
            assert sample.question == Q
            assert [turn.role for turn in sample.history][-2:] == ["user", "assistant"]


def test_the_hops_of_a_test_set_of_ragas_are_not_compared():
    hops = ["<1-hop>\n\nAnna lit it.", "<2-hop>\n\nIda kept it."]
    row = {"contexts": ["Anna lit it.", "Ida kept it."], "reference_contexts": hops}
    assert RetrievalRanking().score(Sample.from_row(row)).value == 1.0


def test_messages_of_an_unknown_speaker_are_told():
    talk = [*NOW[:-1], {"role": "expert", "content": "Ida Voss lit it."}, NOW[-1]]
    doubts = Sample.from_row({"question": talk}).capture.doubts
    assert "those by expert are not read" in doubts["other_column"]


def test_results_of_tools_among_messages_are_told_where_there_are_no_contexts():
    for contexts, is_told in (({}, True), ({"contexts": ["x"]}, False)):
        sample = Sample.from_row(
            {"messages": ANSWERED, "question": ANSWERED, **contexts}
        )
        doubts = sample.capture.doubts if sample.capture else {}
        assert ("show documents" in doubts.get("other_column", "")) is is_told


@pytest.mark.parametrize("row", OF_MESSAGES.values(), ids=OF_MESSAGES)
def test_a_question_of_messages_keeps_its_earlier_turns(row):
    sample = Sample.from_row(row)
    assert sample.question == Q
    assert [(turn.role, turn.content) for turn in sample.history] == [
        ("user", "Who keeps the ferry?"),
        ("assistant", "Ida Voss."),
    ]
    assert (sample.answer or "Anna.").strip() == "Anna."
    assert (sample.answer is None) is ("Anna." not in str(row))


CUT = '[{"role": "user", "content": "Who lit the lamp?"}, {"role": "assistant", "con'
OF_OTHERS = [{"parts": [{"content": Q, "part_kind": "user-prompt"}], "kind": "request"}]


@pytest.mark.parametrize("field", ["question", "answer"])
def test_messages_that_were_cut_off_are_a_bad_row(field):
    row = {"question": Q, "answer": "Anna.", "contexts": ["Anna lit it."]}
    with pytest.raises(RowError, match=f"{field}: begins as JSON"):
        Sample.from_row({**row, field: CUT})
    asked = '{"role": "user", "content": "Hi"} is refused; why?'
    assert getattr(Sample.from_row({**row, field: asked}), field) == asked


def test_a_list_of_references_that_was_cut_off_is_a_bad_row():
    with pytest.raises(RowError, match="reference: begins as JSON"):
        Sample.from_row({"question": Q, "reference": '["Anna lit it.", "An'})
    reference = '["Anna"] is a list.'
    sample = Sample.from_row({"question": Q, "reference": reference})
    assert sample.reference == (reference,)


@pytest.mark.parametrize("name", ["question", "input"])
def test_an_object_in_json_that_names_no_question_is_none(name):
    given = json.dumps({"args": [Q], "kwargs": {}})
    with pytest.raises(RowError, match=r"question: an object in JSON that names no"):
        Sample.from_row({name: given, "answer": "Anna."})
    sample = Sample.from_row({name: given}, question=f"{name}.args.0")
    assert sample.question == Q


@pytest.mark.parametrize("write", [json.dumps, lambda data: data])
def test_objects_that_are_no_messages_are_no_question(write):
    with pytest.raises(RowError, match=r"objects that are no messages; write them as"):
        Sample.from_row({"question": write(OF_OTHERS), "answer": "Anna."})


def test_an_answer_in_parts_is_one_without_its_thinking():
    text = {"type": "text", "text": "Anna lit it."}
    for parts in ([text], [{"type": "thinking", "thinking": "Bo?"}, text]):
        for answer in (parts, json.dumps(parts)):
            sample = Sample.from_row({"question": Q, "answer": answer})
            assert sample.answer == "Anna lit it."
            assert Sample.from_row({"question": answer}).question == "Anna lit it."
            assert Sample.from_row({"reference": answer}).reference == ("Anna lit it.",)


@pytest.mark.parametrize("write", [json.dumps, lambda data: data])
@pytest.mark.parametrize(
    "before",
    [
        [{"type": "web_search_call", "id": "w", "status": "completed"}],
        [{"type": "file_search_call", "id": "f", "queries": ["x"], "results": None}],
        [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        ],
        [{"type": "redacted_thinking", "data": "x"}],
    ],
    ids=lambda parts: parts[0]["type"],
)
def test_beside_a_text_parts_without_any_say_nothing(before, write):
    parts = [{"type": "text", "text": "It was "}, *before]
    parts.append({"type": "text", "text": "Anna."})
    for answer in (parts, {"content": parts}, {"role": "assistant", "content": parts}):
        sample = Sample.from_row({"question": Q, "answer": write(answer)})
        assert sample.answer == "It was Anna."


@pytest.mark.parametrize("write", [json.dumps, lambda data: data])
@pytest.mark.parametrize("call", ["tool_use", "tool_call", "server_tool_use"])
def test_what_is_said_before_a_call_is_no_answer(call, write):
    parts = [{"type": "text", "text": "I look."}, {"type": call, "name": "search"}]
    row = {"question": Q, "contexts": ["Anna lit it."]}
    replies = ({"answer": write(parts)}, {"answer": write({"content": parts})})
    for answer in (*replies, {"outputs": {"content": write(parts)}}):
        (result,) = evaluate([{**row, **answer}], ["adherence"], judge="lexical")
        assert result.sample.answer is None
        assert result.results["context_adherence"].status == "undefined"


@pytest.mark.parametrize(
    "beside",
    [
        {"type": "long", "text": "Anna Brandt."},
        {"type": "table", "rows": [["Anna", "1882"]]},
        {"type": "reference", "reference_ids": [1]},
        {"type": "tool-call", "toolName": "find"},
    ],
    ids=lambda part: part["type"],
)
@pytest.mark.parametrize("call", [[], [{"type": "web_search_call", "id": "w"}]])
@pytest.mark.parametrize("write", [json.dumps, lambda data: data])
def test_of_a_part_of_another_type_nobody_knows_whether_it_is_said(beside, call, write):
    said = [*call, {"type": "text", "text": "Anna."}, beside]
    words = rf"are not read \({beside['type']}\), and may belong"
    for answer in (said, {"content": said}):
        with pytest.raises(RowError, match=f"answer: .* {words} to what is said"):
            Sample.from_row({"question": Q, "answer": write(answer)})
    sample = Sample.from_row({"question": Q, "prompt": write(said), "answer": "Anna."})
    assert (sample.question, sample.answer) == (Q, "Anna.")


UNREAD = "Nobody lit it in that year."


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ({"type": "markdown", "markdown": UNREAD}, "markdown"),
        ({"type": "text", "value": UNREAD}, "text"),
        ({"type": "data-answer", "data": {"text": [UNREAD]}}, "data_answer"),
        ({"citationsContent": {"content": [{"text": UNREAD}]}}, "citationsContent"),
        ({"type": "file", "filename": "a.pdf", "file_data": "JVBE"}, ""),
        ({"type": "document", "source": {"type": "file", "file_id": "f9"}}, ""),
        ({"fileData": {"fileUri": "gs://a.pdf"}}, ""),
        ({"type": "resource", "resource": {"text": UNREAD}}, "resource"),
        ({"type": "step-start"}, None),
        ({"type": "source-url", "title": UNREAD}, None),
        ({"reasoningContent": {"reasoningText": {"text": UNREAD}}}, None),
        ({"type": "refusal", "refusal": UNREAD}, None),
    ],
    ids=str,
)
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_part_of_a_message_that_holds_more_prose_is_refused(part, name, role):
    said = {"role": role, "content": [{"type": "text", "text": Q}, part]}
    field = "question" if role == "user" else "answer"
    for row in ({field: said}, {field: json.dumps([said])}, {"history": [said]}):
        if name is None:
            assert Q in str(Sample.from_row(row).model_dump())
            continue
        words = rf"not read \({name}\)" if name else "a recording or a file"
        with pytest.raises(RowError, match=words):
            Sample.from_row(row)
    differs = {**said, "content": "Another text.", "parts": [{"text": Q}]}
    with pytest.raises(RowError, match=r"not read \(content, parts\)"):
        Sample.from_row({field: [differs]})


@pytest.mark.parametrize("field", ["question", "answer", "reference"])
@pytest.mark.parametrize("kind", ["tool_use", "refusal", "thinking"])
def test_parts_that_say_nothing_are_missing(field, kind):
    assert Sample.from_row({field: [{"type": kind, "name": "search"}]}) == Sample()


@pytest.mark.parametrize("text", ['{"name": "Anna"}', '{"answer": "Anna"}', "{}"])
def test_a_reference_in_json_is_its_text(text):
    assert Sample.from_row({"reference": text}).reference == (text,)


@pytest.mark.parametrize("write", [json.dumps, str, lambda data: data])
def test_numbers_and_parts_in_messages_are_what_they_say(write):
    asked = [{"role": "user", "content": 7}, {"role": "assistant", "content": "So?"}]
    sample = Sample.from_row({"question": write([*asked, {**asked[0], "content": 8}])})
    assert (sample.question, sample.history[0].content) == ("8", "7")
    message = {"role": "assistant", "content": [{"type": "text", "text": "Anna."}]}
    (turn,) = Sample.from_row({"history": write(message)}).history
    assert (turn.role, turn.content) == ("assistant", "Anna.")


SAID = {"role": "assistant", "content": "Anna lit it."}
MESSAGES_WRITTEN: list[Any] = [
    SAID,
    [{"role": "user", "content": Q}, SAID],
    {"type": "ai", "data": {"content": "Anna lit it."}},
    {"choices": [{"message": SAID}], "usage": {"total_tokens": 120}},
    {"output": [{"type": "message", **SAID}]},
]


@pytest.mark.parametrize("write", [json.dumps, str, lambda data: data])
@pytest.mark.parametrize("data", MESSAGES_WRITTEN, ids=str)
@pytest.mark.parametrize("field", ["answer", "reference"])
def test_a_message_is_read_in_the_column_of_an_answer_too(field, data, write):
    sample = Sample.from_row({field: write(data)})
    assert (sample.answer or sample.reference[0]) == "Anna lit it."


@pytest.mark.parametrize(
    "data",
    [
        {"role": "assistant", "content": None, "refusal": "I cannot."},
        {"choices": [{"message": {"role": "assistant", "content": ""}}]},
        [
            {"role": "user", "content": Q},
            {"type": "ai", "content": "", "tool_calls": []},
        ],
    ],
    ids=str,
)
@pytest.mark.parametrize("write", [json.dumps, str, lambda data: data])
@pytest.mark.parametrize("column", ["answer", "output"])
def test_a_message_that_says_nothing_is_no_answer(data, write, column):
    assert Sample.from_row({column: write(data)}).answer is None


@pytest.mark.parametrize(
    "data",
    [
        {"name": "Anna"},
        {"answer": "Anna.", "sources": ["a.pdf"]},
        {"content": "Anna.", "text": "Anna."},
        {"type": "system", "value": "Linux"},
        [{"type": "image", "name": "a.png"}],
        [{"type": "text", "value": "Anna."}],
        [{"type": "tool_use", "name": "search"}],
        {"messages": [{"role": "user", "content": "Hi"}]},
        [["model", "price"], ["X200", "30"]],
        [1, 2],
        {},
    ],
    ids=str,
)
@pytest.mark.parametrize("write", [json.dumps, str])
def test_an_answer_in_json_is_its_text(data, write):
    assert Sample.from_row({"answer": write(data)}).answer == write(data)


OBJECTS_WRITTEN = [
    "content='Anna. It\\'s lit.' additional_kwargs={} response_metadata={'u': {'n': 12}}",
    "content=[{'type': 'text', 'text': 'Anna.'}] additional_kwargs={} usage={'n': 12}",
    "page_content='Anna.' metadata={'source': 'a.txt'}",
    "page_content='Anna's lamp.'",
    "generations=[[ChatGeneration(text='Anna.')]] llm_output=None type='LLMResult'",
    "ChatCompletionMessage(content='Anna, who lit it.', refusal=None, role='assistant')",
    "ChatCompletion(id='x',\n  choices=[Choice(finish_reason='stop', index=0)])",
    "[TextBlock(citations=None, text='Anna.', type='text')]",
    "Prediction(\n    reasoning='The text says so.',\n    answer='Anna lit it.'\n)",
    "Document(page_content='Anna lit it.')\n\nDocument(page_content='Rain fell.')",
    "[ChatMessage(_role=<Role.ASSISTANT: 'assistant'>, _content=[Text(text='Anna.')])]",
    "AIMessage(content='Anna lit it, and the text was cut o",
    "<coroutine object Chain.ainvoke at 0x7f1a2b3c4d50>",
    "[<Message object at 0x7f00>, <Message object at 0x7F01>]",
    "<bound method Chain.run of <Chain object at 0x7f00>>",
    "<bound method BaseMessage.text of AIMessage(content='Anna lit it.\nYes.')>",
    "<class 'langchain_core.messages.ai.AIMessage'>",
    r"b'\xc3\x84nne lit it.'",
    'response:\nGenerateContentResponse(\n    done=True,\n    result=protos.X({\n      "parts"'
    ': [\n        {\n          "text": "Anna."\n        }\n      ]\n    }),\n)',
    "sdk_http_response=HttpResponse(\n  headers=<dict len=11>\n) candidates=[Candidate(\n"
    "  parts=[\n    Part(\n      text='Anna.'\n    ),\n  ],\n)] create_time=None",
    'candidates {\n  content {\n    role: "model"\n    parts {\n      text: "Anna."\n    }\n  }\n}\n',
    "namespace(answer='Anna lit it.')",
    "OrderedDict([('answer', 'Anna')])",
    "np.str_('Anna lit it.')",
    "answer='Anna lit it.'",
    "is_answerable=True answer='Anna lit it.' quotes=['a']",
    "content=Content(parts=[Part(text='Anna.')], role='model') partial=None",
    'RunResult:\n- Last agent: Agent(name="Guide")\n- Final output (str):\n    Anna.',
    "<Response [200]>",
    "<Task pending name='Task-2' coro=<ask() running at app.py:3>>",
    "System.Threading.Tasks.Task`1[System.String]",
    "[Ljava.lang.String;@1b6d3586",
]


@pytest.mark.parametrize("text", OBJECTS_WRITTEN)
@pytest.mark.parametrize(
    "field",
    ["question", "standalone_question", "answer", "reference", "contexts", "history"],
)
def test_an_object_that_str_wrote_is_a_bad_row_until_its_column_is_named(field, text):
    row = {field: [text] if field in ("contexts", "history") else text, "id": "i1"}
    with pytest.raises(
        RowError, match=f"^{field} .*str\\(\\) of Python objects; write th"
    ):
        Sample.from_row(row)
    named: dict[str, Any] = {field: field}
    sample = Sample.from_row(row, **named)
    assert json.dumps(text) in sample.model_dump_json()
    told = f"{field} like texts written by str() of Python objects are judged as texts"
    assert sample.capture.doubts["names"] == told


@pytest.mark.parametrize("field", ["question", "answer", "reference", "contexts"])
def test_a_text_that_excel_cut_off_is_a_bad_row_until_its_column_is_named(field):
    row = {field: ("It rained. " * 3_000)[:32_767]}
    with pytest.raises(RowError, match=f"^{field} .* cut off at 32,767 characters"):
        Sample.from_row(row)
    named: dict[str, Any] = {field: field}
    assert not Sample.from_row(row, **named).missing(field)
    Sample.from_row({field: row[field] + "."})


@pytest.mark.parametrize(
    "text",
    [
        "{'query': 'Who?', 'result': 'Anna.', 'source_documents': [Document(metadata="
        "{'page': 1}, page_content='Anna lit it.')]}",
        "{'messages': [HumanMessage(content='Who?'), AIMessage(content='Anna.')]}",
    ],
)
@pytest.mark.parametrize("field", ["question", "answer", "reference", "contexts"])
def test_a_written_dictionary_that_holds_objects_is_a_bad_row(field, text):
    row = {field: [text] if field == "contexts" else text}
    with pytest.raises(RowError, match=rf"^{field}.*str\(\) of Python objects; write"):
        Sample.from_row(row)


@pytest.mark.parametrize(
    "text",
    [
        "P(X=3)=0.25",
        "System.out.println",
        "Normal(mu=0, sigma=1)",
        "x=3 y=4",
        "TIME_ZONE='UTC'",
        "print(end='a')",
        "Set Foo(name='b') here",
        "Foo(name='b') is best, as in 'Foo'.",
        "a='b', she said, c='d' to him",
        "<b>It loaded at 0x7f00.</b>",
        "<p>Anna's lamp</p>",
        "<class 'str'> is a class",
        "b'a' + b'b' are bytes",
        "response: Normal(mu=0)",
        "name='Anna' (born 1860)",
        "Candidate(s='Anna') [1] {see below}",
        "[Anna](a='b') lit it",
    ],
)
def test_code_and_formulas_are_answers(text):
    assert Sample.from_row({"answer": text}).answer == text


@pytest.mark.parametrize("end", ["' " * 49_999, " " * 99_999, " at 0x1" * 9_999])
@pytest.mark.parametrize("start", ["A(b=", "a='x'", "<", "a=[", "System.A" * 40])
def test_what_begins_as_an_object_takes_linear_time(start, end):
    assert Sample.from_row({"answer": f"{start}{end}!"}).answer == f"{start}{end}!"


@pytest.mark.parametrize(
    "outputs", [None, float("nan"), "", {"reply": None}, {"reply": ""}]
)
def test_an_empty_cell_on_a_named_path_holds_nothing(outputs):
    """The run of the row failed: there are no outputs."""
    named = {"answer": "outputs.reply.text", "contexts": "outputs.reply.found"}
    sample = Sample.from_row({"question": Q, "outputs": outputs}, **named)
    assert (sample.question, sample.answer, sample.contexts) == (Q, None, None)


@pytest.mark.parametrize("field", ["question", "answer"])
def test_a_flood_of_blanks_takes_linear_time(field):
    """Models that are held to JSON write blanks up to their limit."""
    text = " \n" * 300_000 + "Anna lit it."
    assert getattr(Sample.from_row({field: text}), field) == text


class Told:
    """What a framework returns: neither a text nor a message, but with fields."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__ = fields


def written_message(role: str, content: str) -> Told:
    fields = {"role": role, "content": content}
    return Told(**fields, model_dump=lambda: fields)


@pytest.mark.parametrize("end", [[], [""], [None], ["", ""]])
@pytest.mark.parametrize("column", ["output", "messages"])
def test_an_earlier_reply_is_no_answer_to_the_last_question(column, end):
    """The last reply was empty or refused, or none came."""
    said = [("user", "Hi"), ("assistant", "Hello"), ("user", Q)]
    said += [("assistant", text) for text in end]
    messages = [{"role": role, "content": text} for role, text in said]
    named = {} if column == "output" else {"answer": "messages"}
    sample = Sample.from_row({"question": Q, column: messages}, **named)
    assert (sample.question, sample.answer) == (Q, None)
    told = f"answer from '{column}', whose messages end without one"
    assert sample.capture.doubts == {"other_column": told}


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("created_at", [1_760_000_009, 1_760_000_008, 1_760_000_007.5, 1_760_000_007]),
        ("timestamp", [f"2026-11-30T1{hour}:00" for hour in (3, 2, 1, 0)]),
        ("created_at", [1_760_000_007] * 4),
        ("time", [9.5, 3, 2, 1]),
        ("time", ["9:59", "9:58", "10:57", "10:56"]),
        ("time", [1_760_000_009, None, 1_760_000_008, 1_760_000_007]),
        ("created", [1_760_000_001, 1_760_000_002, 1_760_000_003, 1_760_000_004]),
    ],
)
@pytest.mark.parametrize("column", ["input", "history"])
def test_messages_are_read_in_the_order_of_their_times(column, name, times):
    """OpenAI lists those of a thread from the newest to the oldest."""
    said = [("assistant", "In 1901."), ("user", "When?")]
    said += [("assistant", "Anna."), ("user", Q)]
    runs_backwards = name in ("created_at", "timestamp") and times[0] != times[-1]
    messages = [
        {"role": role, "content": text, name: time}
        for (role, text), time in zip(said, times, strict=True)
    ]
    in_order = said[::-1] if runs_backwards else said
    row: dict[str, Any] = {column: messages, "output": "Now."}
    if column == "history":
        row["question"] = "Who now?"
        history = Sample.from_row(row).history
        assert [(turn.role, turn.content) for turn in history] == in_order
    elif runs_backwards:
        with pytest.raises(
            RowError, match="go on with a reply after the last question"
        ):
            Sample.from_row(row)
        row["output"] = "In 1901."
        assert Sample.from_row(row).question == "When?"
    else:
        assert Sample.from_row(row).question == Q


def test_replies_and_prompts_that_hold_messages_are_read():
    earlier, asked = written_message("user", "Hi"), written_message("user", Q)
    reply = written_message("assistant", "Anna lit it.")
    prompt = Told(messages=[earlier, written_message("assistant", "Hello"), asked])
    for answer in (
        Told(message=reply, raw=None),
        Told(choices=[Told(index=0, message=reply)]),
        Told(generations=[[Told(text="", message=reply)]]),
    ):
        sample = Sample.from_row({"question": prompt, "answer": answer})
        assert (sample.question, sample.answer) == (Q, "Anna lit it.")
        assert [turn.content for turn in sample.history] == ["Hi", "Hello"]


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"response": "SECRET", "source_nodes": []}, ": write its .response"),
        ({"data": "SECRET", "query": "SECRET"}, ": write its .data or .query"),
        ({"text": "SECRET", "type": "Told", "_raw": "SECRET"}, ": write its .text"),
        ({"generations": []}, ""),
    ],
)
@pytest.mark.parametrize("field", ["question", "answer"])
def test_an_object_without_a_message_is_told_with_the_field_of_its_text(
    field, fields, hint
):
    with pytest.raises(RowError) as caught:
        Sample.from_row({field: Told(**fields)})
    assert str(caught.value) == f"{field}: needs a text, found Told{hint}"


@pytest.mark.parametrize(
    ("reply", "hint"),
    [
        (
            {"status": "success", "data": {"reply": "Anna lit it."}},
            ": write its .data.rep",
        ),
        ({"request_id": "0c5e", "body": {"choices": [{"content": 1}]}}, ""),
    ],
)
def test_no_status_or_id_of_a_reply_is_advised_as_its_answer(reply, hint):
    with pytest.raises(RowError, match=f"needs a text, found dict{hint}") as caught:
        Sample.from_row({"response": reply})
    assert "status" not in str(caught.value)
    assert "request_id" not in str(caught.value)


def test_of_several_texts_of_an_answer_none_is_advised():
    with pytest.raises(RowError, match=r"\.query or \.final, .*-column answer\.NAME"):
        Sample.from_row({"answer": {"query": "SECRET", "final": "SECRET"}})


def _choices(*texts):
    return [{"message": {"role": "assistant", "content": text}} for text in texts]


@pytest.mark.parametrize(
    "answer",
    [
        [choice["message"] for choice in _choices("SECRET ", "b")],
        [written_message("ai", "SECRET "), written_message("ai", "b")],
        {"choices": _choices("SECRET", "b")},
        Told(generations=[[Told(message=written_message("ai", "a"))] * 2]),
        {
            "candidates": [
                {"content": {"role": "model", "parts": [{"text": text}]}}
                for text in ("SECRET", "b")
            ]
        },
        [*NOW, *ANSWERED[-1:] * 2],
        json.dumps({"choices": _choices("SECRET", "b")}),
    ],
)
def test_of_answers_side_by_side_none_is_the_answer(answer):
    words = "answer: 2 answers in one row, or pieces of one; write [^S]*$"
    for row in ({"question": Q, "answer": answer}, {"output": answer}):
        with pytest.raises(RowError, match=words):
            Sample.from_row(row)


@pytest.mark.parametrize("holder", ["output", "result"])
def test_messages_that_are_not_taken_may_end_in_several_answers(holder):
    messages = [*NOW, {"role": "assistant", "content": "I ask."}, ANSWERED[-1]]
    row = {"question": Q, "answer": "Anna.", holder: {"messages": messages}}
    sample = Sample.from_row(row)
    assert (sample.answer, sample.metadata) == ("Anna.", {holder: row[holder]})


def test_what_holds_no_message_is_taken_as_it_is():
    document = namedtuple("Document", "page_content metadata")(A, {})  # noqa: PYI024
    sample = Sample.from_row({"contexts": [document], "pair": (1, [2])})
    assert (sample.context_texts, sample.metadata) == ((A,), {"pair": (1, [2])})


@pytest.mark.parametrize("column", ["x.y", lambda row: row["x"]["y"]])
def test_a_text_that_a_path_or_function_leads_to_is_the_answer(column):
    text = '{"answer": "Anna", "n": 1}'
    assert Sample.from_row({"x": {"y": text}}, answer=column).answer == text
    wrapped = {"x": {"y": json.loads(text)}}
    assert Sample.from_row(wrapped, answer=column).answer == "Anna"


@pytest.mark.parametrize(
    "text",
    [
        "Document(id=4cc, content: 'Anna's brother lit the lamp, and ...', meta: {})",
        "Node ID: 4cc-1\nText: Anna's brother lit the lamp, and ...",
        "Node ID: 4cc-1\nText: Anna's brother lit it,\nand ...\nScore:  0.500\n",
        "Doc ID: 4cc-1\nText: Anna's brother lit the lamp, and ...",
    ],
)
@pytest.mark.parametrize("field", ["contexts", "retrieved", "expected_contexts"])
def test_a_document_cut_by_str_is_a_bad_row_until_its_column_is_named(field, text):
    for cell in (text, [text], [{"text": text}]):
        with pytest.raises(RowError, match=r"str\(\) of Python objects"):
            Sample.from_row({"question": Q, field: cell})
    columns: dict[str, Any] = {field: "docs"}
    named = Sample.from_row({"docs": [text]}, **columns)
    assert getattr(named, field)[0].text == text


@pytest.mark.parametrize("field", ["image", "image_path", "audio_resource"])
def test_a_retrieved_image_without_a_text_is_refused(field):
    node = {"text": "", "id_": "7", field: "a.png"}
    for image in (node, {"node": node, "score": 0.5}):
        with pytest.raises(RowError, match="contexts: number 2: an image, a recording"):
            Sample.from_row({"contexts": ["Rain.", image]})
    for told in ({**node, "text": "A lamp."}, {**node, field: None}):
        sample = Sample.from_row({"contexts": [told]})
        assert sample.context_texts in (("A lamp.",), ())


def test_a_history_may_end_in_an_open_pair_or_be_of_parts():
    pairs = [["Hi", "Hello"], [Q, None]]
    sample = Sample.from_row({"question": Q, "history": pairs})
    assert [turn.content for turn in sample.history] == ["Hi", "Hello"]
    parts = [
        {"role": "model", "parts": [{"text": "Bo?", "thought": True}, {"text": "A."}]}
    ]
    (turn,) = Sample.from_row({"question": Q, "history": parts}).history
    assert (turn.role, turn.content) == ("assistant", "A.")


@pytest.mark.parametrize("write", [json.dumps, str, lambda data: data])
@pytest.mark.parametrize(
    "pair",
    [
        {"question": "Hi", "answer": "Hello"},
        {"inputs": "Hi", "outputs": "Hello"},
        {"inputs": {"question": "Hi"}, "outputs": {"answer": "Hello"}},
        {"user": "Hi", "assistant": "Hello"},
    ],
    ids=str,
)
def test_a_history_may_be_of_objects_with_a_question_and_its_answer(pair, write):
    for history in ([pair], [{"role": "system", "content": "Be brief."}, pair]):
        sample = Sample.from_row({"question": Q, "history": write(history)})
        assert sample.history[-2:] == (
            Turn(role="user", content="Hi"),
            Turn(role="assistant", content="Hello"),
        )


@pytest.mark.parametrize(
    "element", [{"foo": "SECRET"}, {"question": "SECRET"}, {"role": "user"}]
)
def test_an_object_that_is_no_message_is_refused_with_how_to_write_one(element):
    with pytest.raises(RowError) as caught:
        Sample.from_row({"question": Q, "history": [element]})
    assert '{"role": "user", "content": "…"}' in str(caught.value)
    assert '{"question": "…", "answer": "…"}' in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_a_history_may_be_a_request_that_holds_its_messages():
    sample = Sample.from_row({"question": Q, "history": {"messages": EARLIER}})
    assert [turn.content for turn in sample.history][1:] == [
        "Who keeps the ferry?",
        "Ida Voss.",
    ]


def test_what_people_say_in_two_messages_is_a_question_and_what_preceded_it():
    asked = [{"role": "user", "content": text} for text in ("Hi!", "Who lit the lamp?")]
    said = [*asked, {"role": "assistant", "content": "Ida."}]
    sample = Sample.from_row({"question": said})
    assert (sample.question, sample.answer) == ("Who lit the lamp?", "Ida.")
    assert [turn.content for turn in sample.history] == ["Hi!"]
    assert Sample.from_row({"question": asked}).history == sample.history


CALL = {"tool_calls": [{"id": "1", "function": {"name": "find"}}]}


@pytest.mark.parametrize("write", [json.dumps, lambda data: data])
@pytest.mark.parametrize(
    ("messages", "answer"),
    [
        ([{"role": "assistant", "content": "I look.", **CALL}], None),
        (
            [
                {"role": "assistant", "content": "I look.", **CALL},
                {"role": "tool", "content": "Anna lit it."},
            ],
            None,
        ),
        (
            [
                {"role": "assistant", "content": "I look.", **CALL},
                {"role": "assistant", "content": "Anna."},
                {"role": "assistant", "content": ""},
            ],
            "Anna.",
        ),
        (
            [
                {"role": "assistant", "content": "I look."},
                {"type": "function_call", "name": "find"},
                {"type": "function_call_output", "output": "x"},
                {"role": "assistant", "content": "Anna."},
            ],
            "Anna.",
        ),
        (
            [
                {
                    "role": "model",
                    "parts": [{"text": "I look."}, {"functionCall": {"name": "find"}}],
                }
            ],
            None,
        ),
        (
            [
                {
                    "role": "model",
                    "parts": [{"text": "Bo?", "thought": True}, {"text": "Anna."}],
                }
            ],
            "Anna.",
        ),
    ],
)
def test_what_is_said_before_a_call_or_thought_is_no_answer(messages, answer, write):
    for said in (messages, [{"role": "user", "content": Q}, *messages]):
        assert Sample.from_row({"answer": write(said)}).answer == answer
        assert Sample.from_row({"question": Q, "output": write(said)}).answer == answer


@pytest.mark.parametrize("role", ["user", "system", "tool"])
def test_a_message_of_another_speaker_is_no_answer(role):
    with pytest.raises(RowError, match=r"answer: needs a text, found dict$"):
        Sample.from_row({"answer": {"role": role, "content": "Anna."}})


@pytest.mark.parametrize("write", [json.dumps, str, lambda data: data])
def test_pairs_of_texts_are_messages(write):
    pairs = [("human", "Hi"), ("AI", "Hello"), ("User", Q)]
    for row in (
        {"question": write(pairs)},
        {"question": Q, "history": write(pairs[:2])},
        {"question": Q, "chat_history": write([("Hi", "Hello")])},
    ):
        sample = Sample.from_row(row)
        said = [(turn.role, turn.content) for turn in sample.history]
        assert (sample.question, said) == (Q, [("user", "Hi"), ("assistant", "Hello")])


def test_what_a_tool_gave_before_the_question_is_a_turn():
    calls = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    tool = {"role": "tool", "content": "Ferry: Ida Voss.", "tool_call_id": "1"}
    messages = [*EARLIER[:2], calls, tool, EARLIER[2], NOW[-1], calls, tool]
    for row in ({"question": messages}, {"question": Q, "history": messages[:5]}):
        sample = Sample.from_row(row)
        said = [turn.role for turn in sample.history if turn.role != "system"]
        assert (sample.question, said) == (Q, ["user", "tool", "assistant"])
        assert sample.answer is None


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "http://127.0.0.1/a.png"}},
        {"type": "image", "source": {"type": "base64", "data": "x"}},
        {"type": "input_audio", "input_audio": {"data": "x"}},
        {"inline_data": {"mime_type": "image/png", "data": "x"}},
        {"image": {"format": "png", "source": {"bytes": "x"}}},
    ],
)
@pytest.mark.parametrize("place", [0, -1])
def test_messages_that_no_judge_can_be_shown_are_refused(part, place):
    messages = [dict(message) for message in NOW[1:]]
    content = [{"type": "text", "text": messages[place]["content"]}, part]
    for shown in (content, [part]):
        messages[place]["content"] = shown
        with pytest.raises(RowError, match="an image, a recording or a file"):
            Sample.from_row({"question": messages})
        with pytest.raises(RowError, match="an image, a recording or a file"):
            Sample.from_row({"question": Q, "history": messages})


def test_a_column_named_for_it_or_named_by_the_caller_holds_the_history():
    row = {"question": NOW, "history": ["Hello", "Hi"], "talk": ANSWERED}
    sample = Sample.from_row(row, history="history")
    assert [turn.content for turn in sample.history] == ["Hello", "Hi"]
    named = Sample.from_row({"talk": ANSWERED}, question="talk")
    assert (named.question, named.answer, len(named.history)) == (Q, "Anna.", 2)


TALK = [*EARLIER[1:], {"role": "user", "content": "In May?"}]
ANSWERED_TALK = [*TALK, *NOW[-1:], {"role": "assistant", "content": "Anna."}]


@given(
    asked=st.integers(0, 3),
    kept=st.lists(st.booleans(), min_size=5, max_size=5),
    question_first=st.booleans(),
)
def test_of_two_histories_the_one_that_holds_the_other_counts(
    asked, kept, question_first
):
    """Neither may vanish: a window of the last turns beside the whole talk, for one."""
    earlier, told = (
        TALK[3 - asked :],
        [turn for turn, is_kept in zip(ANSWERED_TALK, kept, strict=True) if is_kept],
    )
    cells = {"question": [*earlier, NOW[-1]], "history": told}
    row = dict(sorted(cells.items(), reverse=question_first)) | {"answer": "anna. "}
    told_before = [turn for turn in told if turn in TALK]
    fuller = max(earlier, told_before, key=len)
    is_held = all(turn in fuller for turn in (*earlier, *told_before))
    if not is_held:
        with pytest.raises(RowError, match="both hold earlier turns, and differ"):
            Sample.from_row(row)
        return
    said = [turn["content"] for turn in fuller]
    assert [turn.content for turn in Sample.from_row(row).history][: len(said)] == said


def test_a_history_that_ends_in_this_turn_composed_otherwise_ends_before_it():
    row = {"question": "Wof\u00fcr?", "answer": "F\u00fcr Anna."}
    sample = Sample.from_row({**row, "history": ["Hi", "Hello", "Wofu\u0308r?"]})
    assert [turn.content for turn in sample.history] == ["Hi", "Hello"]


SESSION = [
    *EARLIER[1:],
    {"role": "user", "content": Q},
    {"role": "assistant", "content": "Bo."},
    *ANSWERED[3:],
    {"role": "user", "content": "Are you sure?"},
    {"role": "assistant", "content": "The register says so."},
    *ANSWERED[3:],
]
"""A whole conversation: the question of the row was answered otherwise before."""
TEXTS = [turn["content"] for turn in SESSION if turn.get("role") != "tool"]


@pytest.mark.parametrize("write", [json.dumps, lambda data: data])
@pytest.mark.parametrize(
    "history",
    [
        {"chat_history": SESSION},
        {"conversation": {"messages": SESSION}},
        {"history": TEXTS},
        {"history": [*zip(TEXTS[::2], TEXTS[1::2], strict=True)]},
        {
            "history": [
                {"question": asked, "answer": said}
                for asked, said in zip(TEXTS[::2], TEXTS[1::2], strict=True)
            ]
        },
    ],
)
def test_of_a_whole_conversation_the_turns_before_this_one_are_earlier(history, write):
    ((name, turns),) = history.items()
    row = {"question": Q, "answer": "Anna. ", name: write(turns)}
    sample = Sample.from_row(row)
    earlier = [turn["content"] for turn in SESSION[:4]]
    assert [turn.content for turn in sample.history] == earlier
    again = Sample.model_validate_json(sample.model_dump_json())
    assert again == sample
    other = Sample.from_row({**row, "answer": "Ida."})
    assert other.history[-1].content == "Anna."
    thinking = Sample.from_row({**row, "answer": "<think>Bo?</think>\n\nAnna."})
    assert thinking.history == sample.history


@pytest.mark.parametrize(
    ("row", "n_doubted"),
    [
        ({"question": Q, "answer": "Anna.", "history": [*NOW, ANSWERED[-1]]}, 0),
        ({"question": Q, "answer": "Anna.", "history": SESSION}, 1),
        ({"question": Q, "answer": "Anna.", "history": [*ANSWERED, *NOW]}, 1),
        ({"question": [*ANSWERED, *NOW], "answer": "Anna."}, 1),
        ({"question": [*ANSWERED, *ANSWERED]}, 1),
        ({"question": Q, "output": [*ANSWERED, *ANSWERED, *EARLIER]}, 1),
    ],
)
def test_a_turn_that_stands_twice_in_its_conversation_is_told(row, n_doubted):
    columns = ColumnsRead()
    sample = columns.read_sample({**row, "contexts": list(C)})
    assert sample.answer == "Anna."
    assert "Anna." not in [turn.content for turn in sample.history]
    told = [line for line in columns.sentences if "more than once" in line]
    assert len(told) == n_doubted


def test_functions_may_read_a_conversation_and_its_question():
    row = {"asked": Q, "answer": "Anna.", "talk": [*ANSWERED, *EARLIER]}
    sample = Sample.from_row(
        row, question=lambda row: row["asked"], history=lambda row: row["talk"]
    )
    assert len(sample.history) == len(EARLIER)
    assert sample.capture is None


def test_of_two_replies_to_one_question_in_a_conversation_none_is_the_answer():
    bo = [*NOW, {"role": "assistant", "content": "Bo."}]
    row = {"question": Q, "output": [*bo, *ANSWERED, *EARLIER]}
    with pytest.raises(RowError, match="2 answers in one row"):
        Sample.from_row(row)


def test_a_captured_history_holds_this_turn_at_its_end_alone():
    talk = [("user", Q), ("assistant", "Anna."), ("user", "Sure?"), ("ai", "Yes.")]
    turns = [Turn(role=role, content=text) for role, text in talk]
    sample = Sample(
        question=Q,
        answer="Anna.",
        history=[*turns, *turns[:2]],
        capture=CaptureNotes(grade="exact"),
    )
    assert sample.history == tuple(turns)


def test_other_turns_beside_a_question_of_messages_make_a_bad_row():
    row = {"question": NOW, "answer": "Anna.", "history": ["Hello", "Hi"]}
    samples = list(iterate_samples([row, {**row, "history": []}], {}))
    assert str(samples[0]).startswith(
        "columns 'question' and 'history' both hold earlier turns, and differ"
    )
    assert isinstance(samples[1], Sample)


def test_a_reply_to_another_question_brings_no_history():
    row = {"question": "And in May?", "output": {"messages": ANSWERED}}
    sample = Sample.from_row(row)
    assert (sample.question, sample.history) == ("And in May?", ())


@pytest.mark.parametrize("put", [lambda said: said, lambda said: {"messages": said}])
@pytest.mark.parametrize("column", ["output", "response"])
def test_of_a_whole_conversation_the_reply_to_the_row_is_its_answer(column, put):
    said = ["Hi", "Hello", "Who lit it?", "Bo did.", "Are you sure?", "No, Anna did."]
    roles = ["user", "assistant"] * 3
    talk = [
        {"role": role, "content": text} for role, text in zip(roles, said, strict=True)
    ]
    for place in (0, 2, 4):
        row = {"question": said[place].upper(), column: put(talk)}
        sample = Sample.from_row(row)
        assert sample.answer == said[place + 1]
        assert [turn.content for turn in sample.history] == said[:place]


def test_a_second_answer_in_the_messages_makes_a_bad_row_and_stops_no_file(
    tmp_path, capsys
):
    """It stands in this row alone; the columns of the table are right."""
    rows = [
        {"question": ANSWERED, "answer": answer, "contexts": ["Anna lit it."]}
        for answer in ("Bo.", "Anna.")
    ]
    with pytest.raises(RowError, match="holds another answer"):
        Sample.from_row(rows[0])
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    out = tmp_path / "out.jsonl"
    command = ["evaluate", str(path), "--judge", "lexical", "--metrics", "adherence"]
    assert main([*command, "--quiet", "--out", str(out)]) == 0
    assert f"{path}, line 1: the messages of 'question'" in capsys.readouterr().err
    results = Report.from_jsonl(out).results
    assert [bool(result.problem) for result in results] == [True, False]


# Nothing


@pytest.mark.parametrize(
    "nothing",
    [None, math.nan, pd.NA, "  ", "\ufeff", "\u200b", "\u2060 \n", "\x00", "\xad"],
)
def test_what_shows_nothing_is_missing(nothing):
    names = ("question", "answer", "reference")
    assert Sample.from_row(dict.fromkeys(names, nothing)) == Sample()
    if isinstance(nothing, str):
        contexts = Sample.from_row({"contexts": [nothing, "seen"]}).known_contexts
        assert [context.blank for context in contexts] == [True, False]
        assert Sample.from_row({"answer": f"{nothing}a"}).answer == f"{nothing}a"


MARKS = ["nan", " NaN ", "NaT", "NULL", "null", "<NA>", r"\N", "#N/A", "#VALUE!"]
MARKS += ["[NULL]", "(null)", "<null>", "<nil>", "#NV", "#N/D", "#¡REF!"]
MARKS += ["#SPILL!", "#NOM?", "#DIV/0!"]
MARKS += ["None", "NA", "N/A", "n/a"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".json", ".parquet"])
def test_what_programs_write_for_nothing_is_nothing_in_every_field(tmp_path, suffix):
    names = ["question", "answer", "reference", "id", "lang", *LISTS]
    rows = [{**dict.fromkeys(names, mark), "generator": "g"} for mark in MARKS]
    frame = pd.DataFrame(rows)
    path = tmp_path / f"rows{suffix}"
    if suffix == ".parquet":
        frame.to_parquet(path)
    elif suffix.startswith(".json"):
        frame.to_json(path, orient="records", lines=suffix == ".jsonl")
    else:
        frame.to_csv(path, sep="\t" if suffix == ".tsv" else ",", index=False)
    for samples in ([row for _, row in read_rows(path)], frame, rows):
        report = evaluate(samples, ["ranking"], judge="lexical")
        nothing = [Sample(generator="g")] * len(MARKS)
        assert [row.sample for row in report.results] == nothing
    # as people write them they are answers
    for answer in ("None.", "none", "Na", "Nan", "Null", r"\n"):
        assert Sample.from_row({"answer": answer}).answer == answer


def test_a_row_with_more_cells_than_its_header_is_a_bad_row():
    table = ["question,answer", "Who, then, lit it?,Anna.", "Who?,Anna."]
    bad, good = iterate_samples(csv.DictReader(table), {})
    assert "more cells than the header has columns" in str(bad)
    assert good.question == "Who?"


DASHES = ["-", "--", "\u2014", " \u2013 ", "...", "\u2026"]
WRITTEN_NOTHING = ["None", "NaN", "nan", "null", "NULL", "NA", "#N/A", "\\N", "<NA>"]


@pytest.mark.parametrize("field", LISTS)
@pytest.mark.parametrize("nothing", [*WRITTEN_NOTHING, " None ", None, math.nan, pd.NA])
def test_what_tables_write_for_nothing_is_missing(field, nothing):
    cells = [nothing, [nothing]]
    if isinstance(nothing, str):
        cells += [f"[{nothing}]", json.dumps([nothing])]
    for cell in cells:
        sample = Sample.from_row({"answer": "none", field: cell})
        assert sample == Sample(answer="none")


@pytest.mark.parametrize("field", LISTS)
@pytest.mark.parametrize("dash", DASHES)
def test_several_texts_of_dashes_or_dots_alone_are_missing(dash, field):
    for cell in (dash, [dash], json.dumps([dash])):
        assert Sample.from_row({"answer": "a", field: cell}) == Sample(answer="a")


@pytest.mark.parametrize("nothing", [*DASHES, *WRITTEN_NOTHING, "none", "[]", "[NA]"])
@pytest.mark.parametrize("name", ["standalone_question", "rewritten_query"])
def test_what_stands_for_no_rewrite_takes_no_place_of_the_question(name, nothing):
    sample = Sample.from_row({"question": "Who?", name: nothing})
    assert sample.standalone_question is None
    rewritten = Sample.from_row({"question": "Who?", name: "[sic] Who lit it?"})
    assert rewritten.standalone_question == "[sic] Who lit it?"


@pytest.mark.parametrize("dash", DASHES)
def test_a_reference_of_dashes_or_dots_is_missing(dash):
    """With one it would be a score of 0; a word and a sign may be what is right."""
    row = {"question": "Who?", "contexts": ["Anna."], "answer": "Anna."}
    metrics = ["recall", "retrieval_accuracy"]
    for reference in (dash, [dash], [dash, dash]):
        report = evaluate([{**row, "reference": reference}], metrics, judge="lexical")
        results = report.results[0].results.values()
        assert {result.status for result in results} == {"undefined"}
    for reference in ("none", "Na", "#", [dash, "Anna."]):
        assert not Sample.from_row({"reference": reference}).missing("reference")


# Lists in texts


# begin as lists, and cannot be read as one
BROKEN_LISTS = [
    '["The lamp was lit by An',
    '["one", "two',
    "['one', 'two",
    '[{"text": "one"}, {"te',
    '[\n  {"text": "one"},',
    "[{'text': 'one'",
    '[{"text": "one", "text": "two"}]',
    "('one', 'two",
    '"[\\"one\\", \\"tw',
    '"[{\\"text\\": ',
    '{"one two","thr',
    '{"one two",NULL,three',
    "[“one”, “two",
    "[„one“, „two“] and more",
    # without quotes
    "[Rain fell on Tuesday., Anna lit the lamp.]",
    "[“Rain fell”, “Anna lit it”]",
    '{"Rain fell",NULL}',
    "{Rain,Anna}",
    "  [one, [two], three]\n",
    # objects of Python as str() writes them
    "[Document(metadata={'a': 1}, page_content='one'), Document(page_content='two')]",
    "[NodeWithScore(node=TextNode(id_='1', text='one'), score=0.5)]",
    "[<docs.Document object at 0x7f00>, <docs.Document object at 0x7f01>]",
    "array(['one', 'two'], dtype=object)",
    "[array(['one', 'two'], dtype=object)]",
    "['one' 'two' ... 'nine']",
]
# one text each, whatever it begins with
TEXTS_IN_BRACKETS = [
    "[1] Paris (France) is big.",
    "[Fe(CN)6]",
    "[Note] f(x=1)",
    "[Paris](a=b) is big",
    "array([1]) is code.",
    "[1] Anna lit the lamp, Bert did not.",
    "[Anna], [Bert]",
    "[Anna lit the lamp.]",
    "(Anna, in 1903, lit it.)",
    "('Anna')",
    '"Anna lit it," he said.',
    '"[sic], he said"',
    "{Anna} lit {it}, too",
    "None of the lamps was lit.",
    "[sic] a text",
    "{",
    "[",
    '"a',
    "[['x']",
    "The list: ['a",
]


@pytest.mark.parametrize("field", [*LISTS, "expected_ids", "expected_contexts"])
@pytest.mark.parametrize("text", BROKEN_LISTS)
def test_a_list_that_cannot_be_read_makes_a_bad_row(field, text):
    with pytest.raises(RowError, match=f"^{field}: begins as a list and cannot be"):
        Sample.from_row({field: text})


@pytest.mark.parametrize("text", TEXTS_IN_BRACKETS)
def test_a_text_that_is_no_list_is_a_context(text):
    assert Sample.from_row({"contexts": text}).contexts == (Context(text=text),)


@pytest.mark.parametrize("end", ["", "\\"])
def test_a_string_without_an_end_takes_linear_time(end):
    text = "['" + "\\'" * 300_000 + end
    assert data_in(text) == text


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("['a' 'b']", ["a", "b"]),
        ("""['a' "b"\n 'c']""", ["a", "b", "c"]),
        (r"['it\'s' 'b\\']", ["it's", "b\\"]),
        ("""['say "no"' 'b']""", ['say "no"', "b"]),
    ],
)
def test_strings_without_commas_are_several(text, values):
    assert data_in(text) == values


# Bad rows


RECORD = '{"product": "lamp", "lit_by": "Anna Brandt"}'
NUMBER_1 = "contexts: number 1 is an object without a text"


def test_a_record_in_a_named_column_of_contexts_is_a_text():
    def contexts(cell: Any, **columns: str) -> Any:
        (sample,) = iterate_samples([{"context": cell, "answer": "Anna."}], columns)
        return sample.contexts if isinstance(sample, Sample) else str(sample)

    assert contexts(RECORD).startswith(NUMBER_1)
    assert contexts(RECORD, contexts="context") == (Context(text=RECORD),)
    document = '{"text": "Blue.", "id": "a"}'
    assert contexts(document, contexts="context") == (Context(text="Blue.", id="a"),)
    in_a_list = contexts([{"product": "lamp"}], contexts="context")
    assert in_a_list.startswith(NUMBER_1)


BAD: list[tuple[Any, dict[str, Any], str]] = [
    ({"answer": True}, {}, "answer: needs a text, found bool; write it as a text"),
    ({"question": {"foo": "SECRET"}}, {}, "question: needs .*, found dict: .*foo.*"),
    (
        {"user_input": [{"content": "SECRET"}]},
        {},
        "question: objects that are no messages; .*",
    ),
    (
        {"reference": ["SECRET", {}]},
        {},
        "reference number 2: needs a text or a list of texts, found dict",
    ),
    *(
        (
            {field: '{"SECRET","b"}'},
            {},
            f"{field}: begins as a list .* list as JSON, .*",
        )
        for field in ("reference", "contexts", "expected_ids")
    ),
    ({"question": 4}, {}, "question: needs a text, found int; .*"),
    (
        {"inputs": {"question": Q}, "outputs": {"error": "SECRET was not there"}},
        {},
        "answer .* found dict; write what went wrong in a column error",
    ),
    (
        {"question": Q, "outputs": {"textResponse": "It was SECRET", "error": None}},
        {},
        "answer .* found dict: write its .textResponse, e.g. by .*",
    ),
    (  # an array of numpy in CSV
        {"question": "[{'content': 'SECRET', 'role': 'user'}\n {'content': 'b'}]"},
        {},
        "question: begins as JSON, and cannot be read .* of arrays",
    ),
    (  # marks doubled as SQL does
        {"contexts": "['It wasn''t SECRET.', 'No SECRET.']"},
        {},
        "contexts: begins as a list and cannot be read as one; .*",
    ),
    (
        {"contexts": ["SECRET", 4]},
        {},
        "contexts: number 2 must be a text or an object with a text, found int; .*",
    ),
    (
        {"expected_contexts": ["a", None]},
        {},
        "expected_contexts: number 2 .* found NoneType; write it as a text, or leave .*",
    ),
    ({"contexts": [["SECRET"]]}, {}, "contexts: number 1 .* found list; .*"),
    ({"contexts": [{}]}, {}, f"{NUMBER_1} .*of 0 keys: none is a name"),
    *(
        (
            {
                "contexts": [
                    {key: user, "content": "Who?"},
                    {key: assistant, "content": "Anna."},
                ]
            },
            {},
            "contexts: number 2 is a message of the assistant, and .*",
        )
        for key, user, assistant in (
            ("role", "user", "assistant"),
            ("type", "human", "ai"),
        )
    ),
    (
        {"contexts": [{"SECRET of a patient": "x", "title": "t", "source.url": "u"}]},
        {},
        f"{NUMBER_1} .*of 3 keys: title, source.url",
    ),
    *(
        (
            {"reference_facts": ["a", fact]},
            {},
            rf"facts number 2 \(column 'reference_facts'\): needs {needed}; write each"
            r' fact as a text, or as {"text": "…", "weight": 2}',
        )
        for fact, needed in (
            *((fact, "a text") for fact in (3, None, " ", {"fact": "SECRET"}, {})),
            *(
                ({"text": "SECRET", "weight": weight}, "a number above 0 as weight")
                for weight in (0, -1, math.inf, "SECRET", [2])
            ),
        )
    ),
    (
        {"history": [{"speaker": "Ada", "content": 3}]},
        {},
        "history number 1: needs .* found int; .*",
    ),
    # who said it is not known
    ({"history": [{"writer": "bot", "text": "SECRET"}]}, {}, "history: an .* write .*"),
    ({"history": [{"content": "SECRET"}]}, {}, "history: an object .* write each .*"),
    ({"history": [["SECRET", 1]]}, {}, "history number 1: needs .* found list; .*"),
    *(
        ({field: [{"text": "SECRET "}, {"text": "b"}]}, {}, reason)
        for field, reason in (
            ("answer", "answer: 2 answers in one row, or pieces of one; .* joined"),
            ("question", "question: objects that are no messages; .*"),
        )
    ),
    *(
        (
            {"answers": f"{{'text': array(['SECRET'], dtype=object){end}"},
            {},
            r"reference: begins as a list .* str\(\) of Python objects; .*",
        )
        for end in ("}", "")
    ),
    (
        {"past": "SECRET"},
        {"history": "past"},
        "history: needs a list of texts or of messages with a content, found a single.*",
    ),
    *(
        ({"x": "SECRET; b"}, {field: "x"}, rf"{field} \(column 'x'\): one text, .*")
        for field in ("facts", "expected_ids")
    ),
    (
        {"replies": ["SECRET", "b"]},
        {},
        "answer: 2 answers in one row, or pieces of one; write a row.*",
    ),
    (
        {
            "answer": [
                {"type": "answer", "text": "SECRET"},
                {"type": "answer", "text": "b"},
            ]
        },
        {},
        "answer: 2 answers in one row, or pieces of one; write a row.*",
    ),
    (
        {
            "answer": [
                {"type": "text", "text": "SECRET"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
            ]
        },
        {},
        "answer: .*image.*",
    ),
    (
        {"replies": '["SECRET", "b"]'},
        {},
        "answer: 2 answers in one row, or pieces of one; write a.*",
    ),
    (
        {"response": ["SECRET", "b"]},
        {"answer": "response"},
        "answer: 2 answers in one row, or pieces of one; write a row.*",
    ),
    (
        {"a": Q},
        {"answer": lambda row: row["nothing"]},
        "the function for answer raised KeyError on this row",
    ),
    (
        {"q": "SECRET", "a": "SECRET"},
        {"answer": "reply"},
        "no column 'reply' for answer; the row has: q, a",
    ),
    ({"a": "SECRET"}, {"answer": "a.b"}, "no column 'a.b' for answer; the row has: a"),
    *(
        (
            {"output": output, "q": "SECRET"},
            {"answer": "output.txt"},
            r"no column 'output.txt' for answer \(did you mean 'output.text'\?\); .*",
        )
        for output in ({"id": 3, "text": "SECRET"}, '{"text": "SECRET"}')
    ),
    *(
        (row, {}, f"a row must be .* fields, got {kind}; write it as {{name: value}}")
        for row, kind in (
            ("SECRET", "str"),
            (["SECRET"], "list"),
            (NamedTuple("Turn", [("answer", str)])("SECRET"), "Turn"),
            (SimpleNamespace(_answer="SECRET"), "SimpleNamespace"),
        )
    ),
]


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        *product(["generator", "standalone_question"], [5, {"model": "x"}, ["a"]]),
        *product(["retrieved"], [5, 5.0, np.int64(5), True, "5"]),
        *product(["retrieved"], ["True", " 0 ", np.bool_(False), "5.0"]),
    ],
    ids=str,
)
def test_a_cell_that_no_field_can_hold_is_metadata(column, cell):
    row = {"question": Q, "contexts": list(C), "answer": A, column: cell}
    sample = Sample.from_row(row)
    assert (sample.retrieved, sample.metadata) == (None, {column: cell})


NO_ERROR = [0.0, "0", "no", " FALSE ", False, "N/A", "nan", "null", "...", "[]", "{}"]
ERRORS = ["500", "0x1F", '{"message": "boom"}', "None: no such index"]


@pytest.mark.parametrize("cell", [*NO_ERROR, "None", *ERRORS], ids=str)
def test_an_error_column_tells_of_an_error_or_of_none(cell):
    error = cell if cell in ERRORS else None
    assert Sample.from_row({"answer": A, "error": cell}).error == error


@pytest.mark.parametrize("cell", [0.12, "0.12", " 1e-3 ", np.float64(1.5), -0.5])
def test_a_measure_in_a_column_error_is_none_of_the_run(cell):
    sample = Sample.from_row({"answer": A, "error": cell})
    assert (sample.error, sample.metadata) == (None, {"error": cell})
    assert Sample.from_row({"answer": A, "e": cell}, error="e").error == str(cell)


def test_an_object_is_a_row_of_its_fields():
    case = SimpleNamespace(input="Q?", actual_output="A.", retrieval_context=["A."])
    case._private = "x"
    expected = Sample(question="Q?", answer="A.", contexts=["A."])
    assert Sample.from_row(case) == expected


def test_what_dict_takes_for_a_mapping_is_a_row():
    """A row of sqlite3, and one that ``iterrows`` of pandas yields."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.row_factory = sqlite3.Row
        row = database.execute("select ? as question, ? as answer", (Q, A)).fetchone()
    frame = pd.DataFrame([{"question": Q, "answer": A}])
    rows = [row, *(series for _, series in frame.iterrows())]
    assert list(iterate_samples(rows, {})) == [Sample(question=Q, answer=A)] * 2


class _Case(BaseModel):
    input: str = "SECRET"
    contexts: tuple[str, ...] = ("SECRET",)
    reply_of_ours: str = "SECRET"


@pytest.mark.parametrize("case", [_Case(), SimpleNamespace(**_Case().model_dump())])
def test_the_columns_of_objects_are_told_without_their_texts(case):
    columns = ColumnsRead()
    assert evaluate([case], metrics=["adherence"]).results[0].sample
    assert columns.read_sample(case) == Sample.from_row(case)
    (sentence,) = columns.sentences
    assert sentence.endswith("not recognised: reply_of_ours")
    assert "SECRET" not in sentence


@pytest.mark.parametrize(("row", "columns", "message"), BAD)
def test_a_bad_row_is_told_without_its_texts(row, columns, message):
    with pytest.raises(RowError, match=f"^{message}$") as caught:
        Sample.from_row(row, **columns)
    assert "SECRET" not in str(caught.value)


def test_settings_that_no_sample_has():
    with pytest.raises(SettingError, match="no such field of a sample: reply; known:"):
        Sample.from_row({"a": "b"}, reply="a")
    metric = ContextUtilization()
    with pytest.raises(SettingError, match="history= takes a list"):
        metric.score(question=Q, contexts=list(C), history=7, judge="lexical")


@pytest.mark.parametrize(
    "row",
    [
        {"input": Q, "actual_output": A, "expected_output": R, "context": ["ideal"]},
        {"input": Q, "actualOutput": A, "context": ["ideal"]},
        {"input": Q, "expected_output": R, "context": ["ideal"]},
    ],
)
def test_the_ideal_context_of_deepeval_is_never_what_was_retrieved(row):
    """Exports without null keys leave ``retrieval_context`` out of some rows."""
    sample = Sample.from_row(row)
    assert sample.contexts is None
    assert sample.metadata["context"] == ["ideal"]
    found = (Context(text="found"),)
    for name in ("retrieval_context", "retrievalContext"):
        assert Sample.from_row({**row, name: ["found"]}).contexts == found
        assert Sample.from_row({**row, name: None}).contexts is None
    named = Sample.from_row(row, contexts="context").contexts
    assert named == (Context(text="ideal"),)


# Laws


SECRETS = st.text(min_size=3).filter(lambda text: any(map(str.isspace, text.strip())))


@given(SECRETS, st.booleans(), st.booleans(), st.sampled_from([0.9, "x", None]))
def test_an_object_without_a_text_never_shows_its_keys_where_they_may_be_texts(
    text, listed, written, value
):
    def said_of(key: str) -> str:
        contexts: Any = {key: value, "source": "a"}
        contexts = [contexts] if listed else contexts
        contexts = json.dumps(contexts) if written else contexts
        with pytest.raises(RowError) as caught:
            Sample.from_row({"question": Q, "contexts": contexts, "answer": A})
        return str(caught.value)

    assert said_of(text) == said_of("another text")


NAMES = st.text(max_size=5) | st.sampled_from(
    [name for usual in USUAL_NAMES.values() for name in usual]
)
LEAVES = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    st.sampled_from(["[", "{}", "['a' 'b']"]),
)
JSON_LIKE = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)
    ),
)


@given(st.dictionaries(NAMES, JSON_LIKE, max_size=6))
def test_any_row_is_a_sample_or_a_row_error(row):
    before = repr(row)
    with suppress(RowError):
        assert isinstance(Sample.from_row(row), Sample)
    assert repr(row) == before


# what tables write where a text is missing
NO_TEXT = {"None", "nan", "NaN", "NaT", "NULL", "null", "<NA>", "\\N", "#N/A"}
NO_TEXT |= {"#REF!", "#VALUE!", "#NAME?", "#DIV/0!", "#NUM!", "#NULL!"}
NO_TEXT |= {"#SPILL!", "#ERROR!", "#WERT!", "#NOM?"}
SEEN = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: not is_blank(text) and text.strip() not in NO_TEXT
)
FIELDS = st.sampled_from(["question", "answer", "reference", "contexts"])
# what tables write where a list is missing
NO_LIST = {"none", "null", "n/a", "#n/a", "<na>"}


@given(
    st.dictionaries(FIELDS, SEEN, min_size=1),
    st.dictionaries(st.text(max_size=5), JSON_LIKE, max_size=2),
)
def test_no_text_under_a_canonical_name_is_lost(given_texts, others):
    try:
        sample = Sample.from_row({**others, **given_texts})
    except RowError:  # something else in the row is wrong
        return
    for field, text in given_texts.items():
        found = getattr(sample, field)
        if field in ("question", "answer"):
            assert found == text
            continue
        is_list = text.strip()[0] in "[{(\"'" or text.strip().lower() in NO_LIST
        if not is_list and len(text.strip()) > 3:
            (only,) = found
            assert (only.text if isinstance(only, Context) else only) == text


CONTAINERS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["a", "Anna lit it.", "[1]", "None", "", "it's"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["text", "content", "role", "id", "documents", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
).filter(lambda value: isinstance(value, (list, dict)))


def outcome(row: dict[str, Any]) -> object:
    try:
        return Sample.from_row(row)
    except RowError as error:
        return str(error)


@given(st.sampled_from(LISTS), CONTAINERS)
def test_a_list_or_object_in_a_text_is_what_it_is_as_data(field, value):
    as_data = outcome({"question": Q, field: value})
    written = json.dumps(value)
    texts = [written, repr(value), json.dumps(written), repr(written)]
    texts += [repr(tuple(value))] if isinstance(value, list) else []
    for text in texts:
        assert outcome({"question": Q, field: text}) == as_data


def test_a_conversation_beside_the_question_is_metadata():
    """The request in which both stand is not copied, and what is left of it is."""
    request = {"question": "Who lit it?", "conversation_id": "c1"}
    sample = Sample.from_row({"input": request, "output": "Anna."})
    assert sample.metadata == {"input.conversation_id": "c1"}
    named = Sample.from_row({"input": request, "output": "Anna.", "thread_id": "t"})
    assert named.metadata == {"thread_id": "t", "input.conversation_id": "c1"}


JSON_STRING = r'"J\u00fcrgen said \"yes\".\n"'
DECODED = 'Jürgen said "yes".\n'
QUOTATIONS = ('"Paris"', '"a" and "b\\n"', '"a line\n of \\"two\\""', '"[1] Blue."')


@pytest.mark.parametrize(
    ("cell", "text"),
    [(JSON_STRING, DECODED), (json.dumps(JSON_STRING), DECODED)]
    + [(quotation, quotation) for quotation in QUOTATIONS],
)
def test_a_cell_that_is_one_json_string_is_its_text(cell, text):
    """TruLens and Langfuse export so; a quotation is as it was written."""
    row = {"input": cell, "output": cell, "contexts": cell, "ground_truth": cell}
    inside = {"question": cell, "outputs": {"answer": cell}}
    for names in (row, row | inside):
        sample = Sample.from_row(names)
        assert (sample.question, sample.answer, sample.reference) == (
            text,
            text,
            (text,),
        )
        assert sample.context_texts == (text,)
    both = {"question": cell, "answer": cell, "response": text, "reference": cell}
    assert Sample.from_row(both).answer == text


@pytest.mark.parametrize(
    ("row", "path"),
    [
        (
            {"expected_output": {"assistant_answer": "Paris."}},
            "--reference-column expected_output.assistant_answer",
        ),
        ({"output": {"n": 2, "final": "Paris."}}, "--answer-column output.final"),
        ({"input": {"character": "John"}}, "--question-column input.character"),
    ],
)
def test_an_object_for_a_text_is_refused_with_the_path_to_its_text(row, path):
    with pytest.raises(RowError, match=rf"found dict: write its .*{path}, in Python"):
        Sample.from_row(row)
    option, _, column = path.removeprefix("--").partition(" ")
    field = option.removesuffix("-column")
    assert not Sample.from_row(row, **{field: column}).missing(field)
    with pytest.raises(RowError, match=r"found dict$"):
        Sample.from_row({name: {"Who is it?": "Anna"} for name in row})


FOUND = "Anna lit it."
PARTS = [{"type": "text", "text": FOUND}, {"type": "text", "text": "Rain."}]


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ({"content": PARTS, "isError": False}, {"text": f"{FOUND}\nRain."}),
        (
            {"content": {"text": FOUND, "type": "TEXT"}, "location": {}, "score": 0.5},
            {"text": FOUND, "score": 0.5},
        ),
        ({"pageContent": FOUND, "metadata": {"a": 1}}, {"metadata": {"a": 1}}),
        ({"title": "T", "url": "u", "snippet": FOUND}, {"text": FOUND}),
        ({"title": "T", "content": FOUND, "body": "Rain."}, {"text": FOUND}),
        (
            {"_id": "7", "_score": 1.5, "_source": {"text": FOUND}},
            {"id": "7", "score": 1.5},
        ),
        (
            {"id": "7", "score": 0.5, "metadata": {"text": FOUND, "page": 3}},
            {"id": "7", "score": 0.5, "metadata": {"text": FOUND, "page": 3}},
        ),
        (
            {"id": 7, "payload": {"page_content": FOUND, "metadata": {"a": 1}}},
            {"id": "7", "metadata": {"a": 1}},
        ),
        ({"payload": json.dumps({"text": FOUND})}, {"text": FOUND}),
        ({"text": "", "node": {"text": FOUND}}, {"text": FOUND}),
        ({"node": {"text_resource": {"text": FOUND}}, "score": 1}, {"score": 1}),
        (({"page_content": FOUND, "id": "7"}, 0.5), {"id": "7", "score": 0.5}),
        ([FOUND, np.float32(0.5)], {"text": FOUND, "score": 0.5}),
        ((Context(text=FOUND, id="7"), 0.5), {"id": "7", "score": 0.5}),
    ],
)
def test_a_context_as_tools_and_stores_return_it(element, expected):
    (context,) = Sample.from_row({"contexts": [element]}).known_contexts
    fields = {"text": FOUND, "id": None, "score": None, **expected}
    assert {name: getattr(context, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("element", "message"),
    [
        (
            {"node": {"text": FOUND}, "data": {"text": "Rain."}},
            "'node.text' and 'data.text' may",
        ),
        ({"id": "d9", "metadata": {"content": "html"}}, "without a text"),
        ({"id": "d9", "metadata": {"data": {"text": "html"}}}, "without a text"),
        ({"id": "d9", "mime": {"text": "html"}}, "without a text"),
        ({"metadata": {"document": "The lamp", "page": 3}}, "without a text"),
        ({"content": [{"type": "image", "url": "u"}]}, "without a text"),
        ([FOUND, "Rain."], "found list"),
    ],
)
def test_a_context_whose_text_nobody_knows_is_refused(element, message):
    with pytest.raises(RowError, match=message):
        Sample.from_row({"contexts": [element]})


@pytest.mark.parametrize("blanks", [[""], ["", " "], [None, math.nan], ["n/a", "-"]])
def test_a_list_of_blanks_is_as_no_column(blanks):
    for contexts in (blanks, [{"text": str(text)} for text in blanks]):
        row = {"answer": A, "contexts": contexts, "expected_contexts": contexts}
        sample = Sample.from_row(row)
        assert (sample.contexts, sample.expected_contexts) == (None, None)
    assert Sample.from_row({"contexts": ["", "a"]}).context_texts == ("a",)


@pytest.mark.parametrize("empty", ["", None, math.nan, pd.NA, {"text": " "}])
@pytest.mark.parametrize("field", ["contexts", "retrieved"])
def test_an_empty_element_keeps_the_ranks_behind_it_and_is_told(field, empty, caplog):
    row = {field: [empty, C[0]], "expected_contexts": [C[0]]}
    (result,) = evaluate([row], [RetrievalRanking(measure="mrr")], judge="lexical")
    assert result.results["retrieval_ranking"].value == 0.5
    assert f"1 row: an empty element of {field} counts at its rank" in caplog.text
    caplog.clear()
    evaluate([{field: [C[0]]}, {field: [empty]}], ["ranking"], judge="lexical")
    assert "an empty element" not in caplog.text
