"""Which column holds a field: what columns are called decides, never what cells hold."""

import json
import math
import re
from itertools import combinations
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core import (
    CitationQuality,
    ContextAdherence,
    ContextRecall,
    RetrievalRanking,
    Sample,
    Undefined,
    evaluate,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import CaptureNotes, Turn
from ragmetrics_core.data.columns import USUAL_NAMES
from ragmetrics_core.data.errors import AmbiguousColumns, RowError, SettingError
from ragmetrics_core.data.sample import UNDIVIDED_CODES
from ragmetrics_core.engine.row_files import read_samples
from ragmetrics_core.engine.sample_sources import ColumnsRead, iterate_samples
from ragmetrics_core.scale.scorer import Scorer

FIELDS = ("question", "contexts", "answer", "reference")
FLAT = {
    field: [name for name in USUAL_NAMES[field] if "." not in name] for field in FIELDS
}
EMPTY: list[Any] = ["", "  ", None, math.nan, pd.NA, "\ufeff"]
# Names of one field of which the second is known to hold something else.
KNOWN_PAIRS = {("retrieval_context", "context")}


def test_a_usual_name_is_of_one_field():
    """So a column that was found for one field serves no second one."""
    plain = [{name.casefold() for name in names} for names in USUAL_NAMES.values()]
    assert sum(map(len, plain)) == len(set().union(*plain))
    numbered = [name for name in set().union(*plain) if name[-1:].isdigit()]
    assert numbered == []


def is_of_deepeval(names: dict[str, list[str]]) -> bool:
    """Whether a row has the names by which ``context`` is the ideal one."""
    has_inputs = (
        "input" in names["question"] and "expected_output" in names["reference"]
    )
    is_golden = has_inputs and "output" not in names["answer"]
    return "actual_output" in names["answer"] or is_golden


@given(
    st.fixed_dictionaries(
        {
            field: st.lists(st.sampled_from(FLAT[field]), max_size=2, unique=True)
            for field in FIELDS
        }
    ),
    st.sampled_from(EMPTY),
    st.sampled_from([str.upper, lambda name: name.replace("_", " "), str]),
    st.booleans(),
)
def test_an_empty_cell_is_as_no_column(names, empty, written, first_stands_first):
    row, filled = {}, {}
    for field in FIELDS:
        names_of_field = sorted(names[field], key=FLAT[field].index)
        for name in names_of_field[-1:]:
            filled[written(name)] = f"text of {name}"
        for name in names_of_field[:-1]:
            row[written(name)] = empty
    pairs_of_two_fields = set(combinations(map(str, names["contexts"]), 2))
    pairs_of_two_fields |= {(second, first) for first, second in pairs_of_two_fields}
    if pairs_of_two_fields & KNOWN_PAIRS or is_of_deepeval(names):
        return
    joined = {**row, **filled} if first_stands_first else {**filled, **row}
    sample, alone = Sample.from_row(joined), Sample.from_row(filled)
    for field in (*FIELDS, "metadata"):
        assert getattr(sample, field) == getattr(alone, field)
    notes = sample.capture or CaptureNotes()
    told = notes.doubts.get("other_column", "").split("; ") if row else []
    assert len(told) == len(row)
    for name, sentence in zip(row, told, strict=True):
        assert sentence.endswith(f", as {name!r} is empty")


@given(
    st.sampled_from(["outputs", "output", "response"]),
    st.sampled_from([dict, json.dumps, str]),
    st.data(),
)
def test_an_empty_value_in_an_object_is_as_none(holder, write, data):
    names = data.draw(
        st.lists(st.sampled_from(FLAT["answer"]), min_size=2, max_size=2, unique=True)
    )
    first, second = sorted(names, key=FLAT["answer"].index)
    held = {first: None, second: f"text of {second}"}
    sample = Sample.from_row({holder: write(held)})
    assert sample.answer == f"text of {second}"


KEEPER = {
    "question": "Who lit it?",
    "contexts": ["Anna lit it."],
    "answer": "Anna lit it.",
    "reference": "Anna",
}
RENAMED = dict(
    zip(
        ("user_input", "retrieved_contexts", "response", "ground_truth"),
        KEEPER.values(),
        strict=True,
    )
)
HALF_RENAMED = {**KEEPER, "output": KEEPER["answer"]}
del HALF_RENAMED["answer"]


@pytest.mark.parametrize("other", [RENAMED, HALF_RENAMED])
def test_tables_joined_by_their_columns_are_read_as_each_alone(other, tmp_path):
    """As ``pandas.concat`` joins them: half of the rows leave the other's cells empty."""
    joined = pd.concat([pd.DataFrame([KEEPER] * 3), pd.DataFrame([other] * 3)])
    path = tmp_path / "joined.csv"
    of_csv = joined.map(lambda cell: json.dumps(cell) if type(cell) is list else cell)
    of_csv.to_csv(path, index=False)
    for rows in (joined, pd.read_csv(path)):
        report = evaluate(rows, judge="lexical")
        for metric in ("adherence", "recall"):
            scores = report.scores(metric)
            assert None not in scores
            assert len(set(scores)) == 1
        doubts = report.summary().doubts
        assert [(doubt.code, doubt.samples) for doubt in doubts] == [
            ("other_column", 6)
        ]
        assert "answer from 'answer', while" in doubts[0].text
        assert "question from" not in doubts[0].text
    both = pd.concat([joined, pd.DataFrame([{**KEEPER, **other, "id": "both"}])])
    assert evaluate(both, judge="lexical").summary().bad_rows == 0
    both["answer"] = both["answer"].where(both["id"].isna(), "Ben did.")
    assert evaluate(both, judge="lexical").summary().bad_rows == 1


RIVALS = [
    (field, *pair)
    for field in FIELDS
    for pair in combinations(FLAT[field][:4] if field == "question" else FLAT[field], 2)
    if pair not in KNOWN_PAIRS
]


@pytest.mark.parametrize("first", FLAT["question"][:4])
@pytest.mark.parametrize("second", [*FLAT["question"][4:], "inputs.question"])
def test_a_question_comes_before_columns_that_may_hold_a_prompt_or_a_search(
    first, second
):
    for row in ({first: "Who?", second: "P. Who?"}, {second: "P. Who?", first: "Who?"}):
        assert Sample.from_row(row).question == "Who?"


@pytest.mark.parametrize(("one", "other"), [("WHO?", " Who?"), ("7", 7), (" a\n", "A")])
def test_questions_that_differ_only_in_case_or_form_are_one(one, other):
    sample = Sample.from_row({"question": one, "user_input": other})
    assert sample.question == Sample.from_row({"question": one}).question


@given(st.sampled_from(RIVALS), st.booleans())
def test_two_columns_that_may_hold_one_field_and_differ_are_refused_with_both_named(
    rivals, first_stands_first
):
    field, first, second = rivals
    names = [first, second] if first_stands_first else [second, first]
    with pytest.raises(AmbiguousColumns) as refused:
        Sample.from_row({name: f"SECRET of {name}" for name in names})
    assert f"columns {first!r} and {second!r} may both hold the {field}" in str(
        refused.value
    )
    assert f"--{field}-column" in str(refused.value)
    assert "SECRET" not in str(refused.value)


@given(st.sampled_from(RIVALS))
def test_two_columns_that_hold_the_same_are_one(rivals):
    field, first, second = rivals
    sample = Sample.from_row(
        {first: "text", second: ["text"] if field == "contexts" else " text "}
    )
    assert not sample.missing(field)


@given(st.sampled_from(RIVALS))
def test_two_columns_that_hold_one_text_composed_otherwise_are_one(rivals):
    field, first, second = rivals
    sample = Sample.from_row({first: "Caf\u00e9  one", second: "Cafe\u0301 one"})
    assert not sample.missing(field)


@given(st.sampled_from(RIVALS))
def test_a_column_that_is_named_decides(rivals):
    field, first, second = rivals
    columns: dict[str, Any] = {field: second}
    sample = Sample.from_row({first: "the first", second: "the second"}, **columns)
    assert "the second" in sample.model_dump_json(include={field})
    assert "the first" not in sample.model_dump_json(include={field})


SISTERS = [
    ("contexts", "context", "context_2"),
    ("contexts", "context", "context.1"),
    ("contexts", "context_1", "context_2"),
    ("contexts", "contexts[0]", "contexts[1]"),
    ("contexts", "Passage (1)", "Passage (2)"),
    ("contexts", "chunk", "chunk2"),
    ("contexts", "retrieved_documents.0", "retrieved_documents.1"),
    ("answer", "answer", "answer.1"),
    ("reference", "ground_truth", "ground_truth_2"),
    ("question", "question", "question 2"),
    ("question", "query", "query_2"),
]


@pytest.mark.parametrize(("field", "first", "second"), SISTERS)
def test_columns_that_differ_by_a_number_are_two_of_one_field(field, first, second):
    """The score would be about the first alone."""
    hint = "make one list of both" if field in ("contexts", "reference") else "out$"
    for row in ({first: "one", second: "two"}, {second: "two", first: "one"}):
        with pytest.raises(
            AmbiguousColumns, match=f"may both hold the {field}.*{hint}"
        ):
            Sample.from_row(row)
        named = Sample.from_row(row, **{field: second}).model_dump()
        assert "two" in str(named[field])
    alone = Sample.from_row({first: None, second: "two"})
    assert not alone.missing(field)
    assert Sample.from_row({second: "two"}).missing(field)
    assert not Sample.from_row({first: "two", second: "two"}).missing(field)


def test_a_number_behind_the_name_of_an_id_or_a_fact_is_of_the_name():
    sample = Sample.from_row({"id": "a", "id_2": "b", "facts_2": ["c"]})
    assert (sample.id, sample.facts) == ("a", None)
    assert sample.metadata == {"id_2": "b", "facts_2": ["c"]}


@pytest.mark.parametrize(
    "name",
    ["references", "reference_ids", "relevant_documents", "relevant_contexts"],
)
def test_a_name_that_as_often_holds_sources_or_finds_is_no_usual_one(name):
    """LightRAG's and agno's ``references`` are the answer's sources."""
    sample = Sample.from_row({"answer": "Anna.", name: ["[1] handbook.pdf p. 3"]})
    assert sample.missing("reference")
    assert (sample.expected_ids, sample.expected_contexts) == (None, None)
    assert sample.metadata == {name: ["[1] handbook.pdf p. 3"]}


@pytest.mark.parametrize("pair", sorted(KNOWN_PAIRS))
def test_known_pairs_of_contexts(pair):
    sample = Sample.from_row(dict(zip(pair, (["first"], ["second"]), strict=True)))
    assert [context.text for context in sample.known_contexts] == ["first"]


@pytest.mark.parametrize(
    ("row", "fields"),
    [
        ({"retrieval_context": None, "context": ["the ideal"]}, {"contexts": None}),
        ({"contexts": "", "retrieved": ["a text"]}, {"contexts": None}),
        ({"answer": None, "result": "Anna.", "answers": ["B"]}, {"answer": "Anna."}),
        ({"question": "", "query": "lamp", "prompt": "P."}, {"question": "lamp"}),
        ({"query": "lamp"}, {"question": "lamp"}),
        ({"answers": {"text": ["gold"]}}, {"answer": None, "reference": ("gold",)}),
        ({"outputs": {"tokens": 3}, "result": "Anna."}, {"answer": "Anna."}),
        ({"outputs": {"answer": "Anna.", "output": "Anna."}}, {"answer": "Anna."}),
    ],
)
def test_the_first_usual_name_that_a_row_fills_is_the_column(row, fields):
    sample = Sample.from_row(row)
    assert {name: getattr(sample, name) for name in fields} == fields


def test_a_field_may_be_claimed_by_the_column_and_by_what_another_column_holds():
    row = {
        "contexts": ["one"],
        "output": json.dumps({"answer": "Anna.", "documents": ["two"]}),
    }
    with pytest.raises(
        AmbiguousColumns,
        match=r"columns 'contexts' and 'output.documents' may both hold the contexts",
    ):
        Sample.from_row(row)
    assert len(Sample.from_row(row, contexts="output.documents").contexts) == 1
    with pytest.raises(
        AmbiguousColumns, match="columns 'answer' and 'output' may both hold the answer"
    ):
        Sample.from_row({"outputs": {"answer": "Anna.", "output": "Bert."}})


SQUAD = {"text": ["Anna", "Anna B."], "answer_start": [0, 9]}


@pytest.mark.parametrize(
    ("cell", "accepted"),
    [
        (["Anna"], ("Anna",)),
        (["Anna", "Anna B."], ("Anna", "Anna B.")),
        (pd.array(["Anna", "Anna B."]), ("Anna", "Anna B.")),
        ("['Anna', 'Anna B.']", ("Anna", "Anna B.")),
        (SQUAD, ("Anna", "Anna B.")),
        (json.dumps(SQUAD), ("Anna", "Anna B.")),
        ({"text": [], "answer_start": []}, ()),
        ("Anna", ("Anna",)),
        ([], ()),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["answers", "golden_answers", "possibleAnswers"])
def test_accepted_answers_are_the_reference(name, cell, accepted):
    row = {"question": "Who lit it?", name: cell}
    alone = Sample.from_row(row)
    assert (alone.answer, alone.reference) == (None, accepted)
    for column in ("answer", "response", "prediction", "replies"):
        for both in ({**row, column: "Peter."}, {column: "Peter.", **row}):
            sample = Sample.from_row(both)
            assert (sample.answer, sample.reference) == ("Peter.", accepted)
    if accepted:
        with pytest.raises(AmbiguousColumns, match=f"and {name!r} may both hold"):
            Sample.from_row({**row, "ground_truth": "Peter."})


@pytest.mark.parametrize(
    "texts", [["Anna"], ("Anna", "Ann"), pd.array(["Anna"]), "['Anna', 'Ann']"], ids=str
)
@pytest.mark.parametrize("column", ["answer", "Response", "output", "prediction"])
def test_a_list_of_texts_may_be_the_accepted_answers_until_its_column_is_named(
    column, texts
):
    rows = [{"question": "Who?", "contexts": ["Anna lit it."], column: texts}]
    with pytest.raises(
        SettingError, match=f"{column}'\\): a list .*--reference-column"
    ):
        evaluate(rows, judge="lexical")
    accepted = Sample.from_row(rows[0], reference=column)
    assert (accepted.answer, accepted.reference[0]) == (None, "Anna")
    if len(texts) == 1:
        assert Sample.from_row(rows[0], answer=column).answer == "Anna"


def test_one_list_among_the_answers_is_a_bad_row(tmp_path, capsys):
    rows = [{"question": "Who?", "contexts": ["Anna."], "answer": "Anna."}] * 5
    rows[3] = {**rows[3], "answer": ["Anna."]}
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    assert main(["evaluate", str(path), "--judge", "lexical", "--quiet"]) == 0
    assert "line 4: answer (column 'answer'): a list" in capsys.readouterr().err


def test_an_argument_is_named():
    address = "https://a.example/b"
    result = ContextRecall().score(answer=[address], reference=address, judge="lexical")
    assert result.value == 1.0


def test_data_sets_without_an_answer_say_which_option_names_it(tmp_path, capsys):
    path = tmp_path / "marco.jsonl"
    passages = {"is_selected": [0, 1], "passage_text": ["Rain fell.", "Anna lit it."]}
    row = {"query": "Who lit it?", "passages": passages, "answers": ["Anna"]}
    path.write_text(json.dumps(row), "utf-8")
    assert main(["evaluate", str(path), "--judge", "lexical", "--quiet"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Name the column of the answers by --answer-column" in shown
    assert "no row has one. The rows have question, contexts, reference." in shown
    assert "retrieval_accuracy" in shown


IDS = (
    ["doc_12", "doc_13"],
    ["5f0c1a52-8d9a-4a3e-9a53-0b7c2f1e6d11"],
    ["docs/paris.md", "C:\\texts\\rome.txt"],
    ["", "doc_12"],
    "doc_12; doc_13",
    ["12", "15"],
    "12, 15",
    ["d1", "d2"],
    ["doc1", "doc10", "doc100"],
)


@pytest.mark.parametrize(
    ("field", "column", "cell"),
    [
        *(("contexts", "contexts", ids) for ids in IDS),
        ("retrieved", "retrieved", ["doc_12", "doc_13"]),
        ("expected_contexts", "gold_contexts", ["doc_12"]),
    ],
)
def test_what_looks_like_ids_is_a_bad_row_until_its_column_is_named(
    field, column, cell
):
    good = {"question": "Who?", "contexts": ["Anna lit it."], "answer": "Anna."}
    row = {**good, column: cell}
    report = evaluate([row, good, row], ["context_adherence"], judge="lexical")
    first, score, last = report.scores("context_adherence")
    assert (first, last, report.summary().bad_rows) == (None, None, 2)
    assert score is not None  # "COVID-19" alone stops no other row
    with pytest.raises(RowError, match=f"{field} .* in place of texts.*-column"):
        Sample.from_row(row)
    named: dict[str, Any] = {field: column}
    assert getattr(Sample.from_row(row, **named), field)


FOUND = [{"id": "d1", "text": "Anna lit it."}, {"id": "d2", "text": "Rain fell."}]


@pytest.mark.parametrize(
    ("field", "column", "cell", "beside"),
    [
        ("expected_contexts", "gold_contexts", ["d1"], {"contexts": FOUND}),
        ("expected_contexts", "expected_documents", ["d1", "d3"], {"retrieved": FOUND}),
        ("contexts", "documents", ["d1", "d2"], {"expected_ids": ["d1"]}),
        ("retrieved", "retrieved", "['d1', 'd2']", {"relevant_ids": ["d2"]}),
        ("contexts", "docs", ["https://a.example/b", "http://c.example"], {}),
        ("expected_contexts", "expected_contexts", ["https://a.example/b"], {}),
        ("reference", "ground_truths", ["https://a.example/b"], {}),
        ("reference", "reference", " https://a.example/b ", {}),
    ],
)
def test_web_addresses_are_no_texts_until_their_column_is_named_and_ids_never_are(
    field, column, cell, beside
):
    """As texts they would score 0."""
    row = {"question": "Who lit it?", "answer": "Anna.", column: cell, **beside}
    with pytest.raises(AmbiguousColumns, match=f"{field} .* in place of texts.*-col"):
        Sample.from_row(row)
    with pytest.raises(SettingError, match="in place of texts"):
        evaluate([row], judge="lexical")
    named: dict[str, Any] = {field: column}
    if beside:
        with pytest.raises(AmbiguousColumns, match=f"{field} .* in place of texts"):
            Sample.from_row(row, **named)
    else:
        assert getattr(Sample.from_row(row, **named), field)
    if FOUND in beside.values():
        sample = Sample.from_row(row, expected_ids=column)
        assert (sample.expected_ids, sample.expected_contexts) == (tuple(cell), None)


@pytest.mark.parametrize(
    "row",
    [
        {"contexts": [{"id": "Paris", "text": "Paris"}], "gold_contexts": ["Paris"]},
        {"contexts": ["See https://a.example", "https://a.example"]},
        {"contexts": ["Paris"], "reference": "1903"},
        {"contexts": ["1903"]},
        {"contexts": ["2024-01-05"]},
        {"contexts": ["Yes", "A4"]},
        {"contexts": ["In 1903."]},
        {"contexts": ["1903年にパリで", "Übermaß_3"]},
        {"contexts": ["well-known", "Paris, Rome; Bern."]},
        {"contexts": ["Anna."], "expected_ids": ["d1"], "reference": "d1"},
    ],
)
def test_texts_that_only_resemble_ids_or_addresses_are_texts(row):
    assert not Sample.from_row({"question": "Who?", **row}).missing("contexts")


ROOT = {"trace_id": "t", "input": "Who lit it?", "output": "Anna.", "context": "Anna."}


@pytest.mark.parametrize(
    "row",
    [
        {**ROOT, "parent_run_id": "1", "run_type": "chain"},
        {**ROOT, "parentObservationId": "1", "type": "GENERATION"},
        {"context": {"trace_id": "t", "span_id": "2"}, "parent_id": "1", "name": "llm"},
        {"info": {"trace_id": "t"}, "data": {"spans": []}},
        {"resourceSpans": [{"scopeSpans": []}]},
    ],
)
def test_a_call_inside_a_trace_is_no_row(row):
    with pytest.raises(AmbiguousColumns, match="recorded traces are read by --traces"):
        Sample.from_row(row)
    with pytest.raises(SettingError, match="recorded traces are read by --traces"):
        evaluate([row], judge="lexical")
    report = evaluate([ROOT, row], ["context_adherence"], judge="lexical")
    assert report.summary().bad_rows == 1
    assert Sample.from_row({**ROOT, "parent_id": None}).answer == "Anna."
    assert Sample.from_row({**ROOT, "trace_id": None, "parent_id": "7"}).question


def phoenix(**more: Any) -> dict[str, Any]:
    return {
        "input": "Who lit it?",
        "output": "Anna.",
        "reference": "Anna lit it.",
        **more,
    }


@pytest.mark.parametrize(
    "mark", ["context.span_id", "context.trace_id", "document_position"]
)
def test_the_reference_of_a_phoenix_frame_is_the_retrieved_text(mark):
    sample = Sample.from_row(phoenix(**{mark: "7", "expected": "Anna"}))
    assert ([context.text for context in sample.known_contexts], sample.reference) == (
        ["Anna lit it."],
        ("Anna",),
    )
    named = Sample.from_row(phoenix(**{mark: "7"}), reference="reference")
    assert (named.contexts, named.reference) == (None, ("Anna lit it.",))
    (of_frame,) = iterate_samples(
        pd.DataFrame([phoenix()], index=pd.Index(["7"], name=mark)), {}
    )
    assert isinstance(of_frame, Sample)
    assert ([context.text for context in of_frame.contexts], of_frame.reference) == (
        ["Anna lit it."],
        (),
    )
    assert Sample.from_row(phoenix()).reference == ("Anna lit it.",)


def test_a_named_index_of_a_frame_is_a_column():
    frame = pd.DataFrame({"id": ["a"], "question": ["Who?"]})
    for indexed in (frame.set_index("id"), frame.set_index("id", drop=False), frame):
        (sample,) = iterate_samples(indexed, {})
        assert isinstance(sample, Sample)
        assert (sample.id, sample.metadata) == ("a", {})


DEEPEVAL = {
    "input": "Who?",
    "actual_output": "Anna.",
    "retrieval_context": "Rain fell.|Anna lit it.",
}


PASSAGES = ("Rain fell on Tuesday.", "Anna lit the lamp.", "It is red.")
SIGNS = ["|", "||", ";", " --- ", "\n", "\n\n", "\r\n", "\t", "\u2028", "\x0b"]
# Nobody knows of any of these whether it is one context or several.
ONE_TEXT = {
    "a sentence": PASSAGES[1],
    "wrapped": "Anna lit\nthe lamp.",
    "German": "Anna zündete sie an; Peter schlief.",
    "numbered in a line": "[1] Rain fell on Tuesday. [2] Anna lit the lamp.",
    "labelled": "Context 1: Rain fell. Context 2: Anna lit the lamp.",
    "tags": "<context>Rain fell.</context><context>Anna lit the lamp.</context>",
    "quoted": '"Rain fell.", "Anna lit the lamp."',
    "a text of JSON": '"Anna lit the lamp."',
    **{f"joined by {sign!r}": sign.join(PASSAGES) for sign in SIGNS},
}


@pytest.mark.parametrize("cell", ONE_TEXT.values(), ids=ONE_TEXT)
def test_in_one_text_of_contexts_no_passage_is_judged_by_itself(cell):
    row: dict[str, Any] = {
        "question": "Who lit it?",
        "contexts": cell,
        "answer": "Anna lit the lamp [1].",
        "expected_contexts": [PASSAGES[1]],
    }
    by_passage = ["utilization", "ranking", CitationQuality(numbered_from=1)]
    metrics: Any = [*by_passage, "adherence"]

    def outcomes(fields: dict[str, Any], **columns: Any) -> list[Any]:
        report = evaluate([fields], metrics, judge="lexical", **columns)
        return list(report.results[0].results.values())

    *ranked, adherence = outcomes(row)
    for outcome in ranked:
        assert isinstance(outcome, Undefined)
        assert (outcome.code, outcome.reason) == (
            "undivided",
            "contexts in one text: write a list (if it is one:"
            " --contexts-column contexts, in Python contexts_column=)",
        )
    assert adherence.value is not None
    # who names the column, or writes a list, says how many there are
    named = outcomes(row, contexts_column="contexts")
    listed = outcomes({**row, "contexts": json.dumps([cell])})
    assert [one.value for one in named] == [one.value for one in listed]
    assert None not in [one.value for one in named]


@pytest.mark.parametrize(
    "cell",
    [
        ["Rain|fell.", "Anna;Bo"],
        ["[1] Rain fell. [2] Anna lit it."],
        '["Rain\nfell.", "Anna\tlit it."]',
        '["Rain|fell.", "Anna\\nBo"]',
        "['Rain fell.' 'Anna lit it.']",
        {"text": "Rain fell.\n\nAnna lit it."},
        ['{"rain": "Tuesday"}'],
        '{"text": "Rain fell."}',
        [],
        "",
        "nan",
    ],
)
def test_lists_documents_and_nothing_raise_no_doubt_about_the_contexts(cell):
    row = {"question": "Who?", "answer": "Anna."}
    for field in ("contexts", "retrieved", "expected_contexts"):
        assert Sample.from_row({**row, field: cell}).capture is None


@pytest.mark.parametrize("write", [json.dumps, str])
@pytest.mark.parametrize("wrap", [lambda text: text, lambda text: {"text": text}])
@pytest.mark.parametrize("field", UNDIVIDED_CODES)
def test_a_text_that_is_a_written_list_may_be_several(field, wrap, write):
    row = {"question": "Who?", field: [wrap(write(list(PASSAGES[:2])))]}
    sample = Sample.from_row(row)
    assert sample.capture is not None
    assert "write a list" in sample.capture.doubts[UNDIVIDED_CODES[field]]
    named = Sample.from_row({"question": "Who?", "my": row[field]}, **{field: "my"})
    assert named.capture is None


@pytest.mark.parametrize("field", ["retrieved", "expected_contexts"])
def test_ranking_compares_no_text_that_may_be_several(field):
    row: dict[str, Any] = {
        "question": "Who lit it?",
        "answer": "Anna did.",
        "contexts": list(PASSAGES),
        "retrieved": list(PASSAGES),
        "expected_contexts": [PASSAGES[1]],
        field: PASSAGES[1],
    }

    def ranked(fields: dict[str, Any], **columns: Any) -> Any:
        report = evaluate([fields], ["ranking"], judge="lexical", **columns)
        return report.results[0].results["retrieval_ranking"]

    outcome = ranked(row)
    assert (outcome.status, outcome.code) == ("undefined", "undivided")
    named = f"--{field.replace('_', '-')}-column {field}, in Python {field}_column=)"
    assert named in outcome.reason
    assert ranked(row, **{f"{field}_column": field}).value is not None
    assert ranked({**row, field: [PASSAGES[1]]}).value is not None
    # contexts are compared only where nothing else was retrieved, texts without ids
    ids = [{"id": "k", "text": PASSAGES[1]}]
    beside = {**row, "contexts": PASSAGES[0], "retrieved": ids, "expected_ids": ["k"]}
    assert ranked(beside).value == 1.0
    assert RetrievalRanking().score(**row).value is not None


def test_the_first_screen_says_whole_that_contexts_are_one_text_and_what_to_do(
    tmp_path, capsys
):
    path = tmp_path / ("a" * 120 + ".csv")
    lines = [f'Who lit it?,"{DEEPEVAL["retrieval_context"]}",Anna.' for _ in range(5)]
    path.write_text("\n".join(["question,contexts,answer", *lines]), "utf-8")
    out = tmp_path / "out.jsonl"
    command = ["evaluate", str(path), "--judge", "lexical", "--out", str(out)]
    gate = ["--fail-under", "utilization=0.5"]
    assert main([*command, "--quiet", *gate]) == 3
    shown = " ".join(capsys.readouterr().out.split())
    reason = (
        "contexts in one text: write a list (if it is one: --contexts-column contexts,"
        " in Python contexts_column=)"
    )
    assert f"5 rows: {reason} " in shown
    assert "nothing was scored (5 with an undivided text)" in shown
    assert main([*command[:4], "--dry-run"]) == 0
    assert f"utilization left out: {reason} " in capsys.readouterr().out
    assert main(["report", str(out), *gate]) == 3
    named = ["--contexts-column", "contexts"]
    assert main([*command, "--quiet", *gate, *named]) == 0
    said = "5 rows: each text in contexts is one context (several: write a list)"
    assert said in " ".join(capsys.readouterr().out.split())


def test_a_passage_that_begins_as_a_list_is_a_passage_among_others():
    link = '["Make an app" toolchain](https://a.example/) is offered in Orle, too.'
    row = {"question": "Where?", "answer": "It is offered in Orle, too."}
    scores = []
    for first in (link, {"id": "d1", "text": link}):
        contexts = [first, "Wine is red."]
        report = evaluate([{**row, "contexts": contexts}], ["utilization"])
        scores += report.scores("context_utilization")
    assert scores == [1.0, 1.0]


def test_rows_of_results_are_undivided_until_their_column_is_named(tmp_path):
    cell = "[1] Rain fell. [2] Anna lit the lamp."
    row = {"question": "Who?", "context": cell, "answer": "Anna lit the lamp [2]."}
    report = evaluate([row], ["utilization"], judge="lexical")
    (sample,) = (result.sample for result in report.results)
    assert sample is not None
    assert sample.citations is None  # [2] is none of one text's
    report.to_jsonl(tmp_path / "run.jsonl")
    lines = (tmp_path / "run.jsonl").read_text("utf-8").splitlines()
    line = next(line for line in map(json.loads, lines) if "sample" in line)
    again = Sample.from_row(line["sample"])
    assert again.capture is not None
    assert "--contexts-column contexts" in again.capture.doubts["joined"]
    named = Sample.from_row(line["sample"], contexts="contexts")
    assert named.capture is not None
    assert not named.capture.doubts


JOINED = {
    "facts": [
        "Anna lit it",
        "Anna lit it|in May",
        "Anna lit it; in May",
        "1. Anna lit it 2. in May",
        "• Anna lit it • in May",
        "- Anna lit it\n- in May\n",
        "Anna lit it\tin May",
    ],
    "expected_ids": ["k7;k9", "k7,k9", "k7, k9", "k7|k9", "k7\nk9", "k7\tk9", "k7;"],
}


@pytest.mark.parametrize(
    ("field", "cell"), [(field, cell) for field in JOINED for cell in JOINED[field]]
)
def test_facts_and_ids_in_one_text_are_asked_about(field, cell):
    """None is taken as one entry, which no passage has: that would score 0."""
    row = {"question": "Who?", "contexts": ["Anna lit it."], field: cell}
    with pytest.raises(
        AmbiguousColumns, match=f"be several {field}; write a JSON list"
    ):
        Sample.from_row(row)
    with pytest.raises(SettingError, match="JSON list"):
        evaluate([row], judge="lexical")
    with pytest.raises(AmbiguousColumns):  # naming the column answers nothing
        Sample.from_row({"question": "Who?", "my column": cell}, **{field: "my column"})
    for written in (json.dumps([cell]), str([cell]), [cell]):
        sample = Sample.from_row({**row, field: written})
        assert len(getattr(sample, field)) == 1
    for written in ('["a", "b"]', "['a', 'b']", ["a", "b"], "['a'\n 'b']"):
        sample = Sample.from_row({**row, field: written})
        assert len(getattr(sample, field)) == 2


@pytest.mark.parametrize(
    "cell",
    [
        "[k7]",
        "[k7 k9]",
        "(k7)",
        "{k7}",
        "[k7",
        "'k7'",
        '"k7"',
        "set()",
        "array(['k7'])",
    ],
)
def test_ids_in_brackets_that_are_no_list_are_a_bad_row(cell):
    row = {"question": "Who?", "retrieved": [{"id": "k7", "text": "Anna."}]}
    with pytest.raises(RowError, match="expected_ids: begins as a list"):
        Sample.from_row({**row, "expected_ids": cell})
    assert Sample.from_row({**row, "expected_ids": "k7"}).expected_ids == ("k7",)


@pytest.mark.parametrize("field", ["retrieved", "contexts"])
@pytest.mark.parametrize("cell", ["k7、k9", "k7 k9", "k7/k9", "k7 & k9", " k9/ k8"])
def test_a_text_whose_pieces_are_retrieved_ids_is_a_bad_row(cell, field):
    """As one id, which no passage has, it would score 0."""
    passages = [{"id": each, "text": f"Anna {each}."} for each in ("k7", "k9")]
    row = {"question": "Who?", field: passages}
    with pytest.raises(RowError, match=r"expected_ids: .* JSON list"):
        Sample.from_row({**row, "expected_ids": cell})
    passages_so_named = {**row, field: [*passages, {"id": cell, "text": "Ben."}]}
    for known, expected in (
        (row, [cell]),
        (row, json.dumps([cell])),
        (row, "doc-k7"),
        (passages_so_named, cell),
    ):
        sample = Sample.from_row({**known, "expected_ids": expected})
        assert len(sample.expected_ids or ()) == 1


@pytest.mark.parametrize("ids", [["b", "a"], "d1,d2", [["b", 0.9]], "['b', 'a'"])
def test_a_column_of_the_ids_retrieved_is_metadata(ids):
    passages = [{"id": "x", "text": "Anna."}, {"id": "y", "text": "Ben."}]
    sample = Sample.from_row({"contexts": passages, "retrieved_ids": ids})
    assert [context.id for context in sample.contexts or ()] == ["x", "y"]
    assert list(sample.metadata) == ["retrieved_ids"]


def golden_and_predicted(number: int) -> dict[str, Any]:
    context = f"Lamp {number} was lit by keeper {number}."
    return {
        "context": [context],
        "answer": f"Keeper {number} lit lamp {number}.",
        "prediction": "A wizard built Rome.",
    }


ROWS = [golden_and_predicted(number) for number in range(20)]


@pytest.mark.parametrize("of_table", [lambda rows: rows, pd.DataFrame, iter])
def test_the_golden_answer_is_never_judged_as_the_applications(of_table):
    with pytest.raises(
        SettingError, match="'answer' and 'prediction' may both hold the answer"
    ):
        evaluate(of_table(ROWS), ["adherence"], judge="lexical")
    named = {"answer_column": "prediction", "reference_column": "answer"}
    report = evaluate(of_table(ROWS), ["adherence"], judge="lexical", **named)
    assert all(
        score is not None and score < 0.5 for score in report.scores("adherence")
    )


def test_a_row_behind_others_that_two_columns_claim_is_a_bad_row():
    rows = [{**ROWS[0], "answer": ROWS[0]["prediction"]}, *ROWS]
    first, *others = iterate_samples(rows, {})
    assert isinstance(first, Sample)
    assert all(isinstance(row, RowError) for row in others)
    report = evaluate(rows, ["adherence"], judge="lexical")
    assert [row.problem != "" for row in report.results] == [False, *[True] * 20]


def test_a_scored_table_has_no_score_where_two_columns_claim_the_answer():
    table = pd.DataFrame(ROWS)
    pa = pytest.importorskip("pyarrow")
    scored = Scorer([ContextAdherence()], "lexical")(pa.Table.from_pandas(table))
    assert scored["context_adherence"].null_count == len(ROWS)
    assert "may both hold the answer" in scored["sample"][0].as_py()["problem"]


def test_a_gate_does_not_pass_over_rows_without_contexts(tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    rows = [
        {
            "contexts": (
                "" if number % 2 else f"Lamp {number} was lit by keeper {number}."
            ),
            "answer": f"Keeper {number} lit lamp {number}.",
            "retrieved": f"Lamp {number} was lit by keeper {number}.",
        }
        for number in range(60)
    ]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    command = [
        "evaluate",
        str(path),
        "--metrics",
        "adherence",
        "--judge",
        "lexical",
        "--quiet",
    ]
    assert main([*command, "--fail-under", "adherence=0.5"]) == 3
    assert "30 without an input that it needs" in capsys.readouterr().out


def test_the_command_names_rows_that_two_columns_claim(tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    rows = [{**ROWS[0], "answer": ROWS[0]["prediction"]}, *ROWS]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    command = [
        "evaluate",
        str(path),
        "--judge",
        "lexical",
        "--quiet",
        "--out",
        str(tmp_path / "out.jsonl"),
    ]
    assert main([*command, "--fail-under", "adherence=0.0"]) == 3
    said = capsys.readouterr().err
    assert (
        f"{path}, line 2: columns 'answer' and 'prediction' may both hold the answer"
        in said
    )
    assert "--answer-column" in said
    assert (
        main(
            [*command, "--answer-column", "prediction", "--reference-column", "answer"]
        )
        == 0
    )
    samples = list(
        read_samples(path, ColumnsRead({"answer": "prediction", "reference": "answer"}))
    )
    assert all(isinstance(sample, Sample) and sample.reference for sample in samples)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"facts": ["a"], "retrieved": ["a"]}, ""),
        (
            {"facts": ["a"], "retrieved": ["a"], "said": "x"},
            "no row has question or answer; name the column by --question-column, --answer",
        ),
        ({"answer": "a", "contexts": ["a"], "other": "x"}, ""),
        (
            {"answer": "a", "found": "x"},
            "no row has question or contexts or reference; name the column by --question",
        ),
        (
            {"contexts": ["a"], "messages": [{"role": "user", "content": "Why?"}]},
            "by --question-column, --answer-column, --reference-column (in Python",
        ),
        (
            {"contexts": ["a"], "answer": "a", "messages": "Why is it lit?"},
            "(if one should: --question-column or --reference-column or --answer-column",
        ),
    ],
)
def test_a_field_that_no_row_has_is_told_with_the_columns_that_may_hold_it(
    row, words, caplog
):
    list(iterate_samples([row], {}))
    assert (words in caplog.text) if words else (caplog.text == "")


@pytest.mark.parametrize("field", ["contexts", "reference", "facts"])
def test_one_column_is_not_compared_with_itself(field):
    rows = [{"question": "Who?", "said": "Anna lit it."}]
    columns = {"answer_column": "said", f"{field}_column": "said"}
    with pytest.raises(SettingError, match=f"both answer and {field}, which are comp"):
        evaluate(rows, judge="lexical", **columns)


@pytest.mark.parametrize("column", [["a", "b"], ("a",), 3, {"a": 1}])
def test_a_column_that_is_no_name_is_refused_in_words(column):
    with pytest.raises(SettingError, match="the column of contexts is a name or a"):
        Sample.from_row({"question": "?", "a": "x", "b": "y"}, contexts=column)


def test_nothing_in_the_metadata_takes_the_place_of_a_column(caplog):
    row = {"question": "Who?", "contexts": ["Anna lit it."], "answer": "Anna."}
    named = {**row, "lang": "en", "metadata": {"lang": None, "page": 1}}
    assert Sample.from_row(named).metadata == {"lang": "en", "page": 1}
    twice = {**row, "lang": "en", "metadata": {"lang": "de"}}
    (result,) = evaluate([twice], ["adherence"], judge="lexical")
    assert result.sample.metadata == {"lang": "de"}
    assert "1 row: lang of the metadata, which the column of that name" in caplog.text


NAMES = ["docs/handbook/leave.pdf", "a.pdf, page 3", "Employee Handbook.pdf", "doc_17"]


@pytest.mark.parametrize("name", NAMES)
def test_a_reference_that_may_be_the_name_of_a_source_is_told(name, caplog):
    """The expected answer may be a name: it is judged, and said aloud."""
    row = {"question": "Who?", "contexts": ["Anna lit it."], "answer": "Anna."}
    evaluate([{**row, "reference": name}] * 2, ["recall"], judge="lexical")
    evaluate([{**row, "reference": "Anna lit it in 1.5 h."}], judge="lexical")
    named = {**row, "reference": name}
    evaluate([named], judge="lexical", reference_column="reference")
    (told,) = [each.getMessage() for each in caplog.records if "names" in each.message]
    assert told.startswith("2 rows: reference like names of files or ids are judged as")
    assert "--reference-column reference, in Python reference_column=" in told


@pytest.mark.parametrize("column", ["target", "ground_truth", "reference"])
@pytest.mark.parametrize("verdict", [0, 1, "1", "0.0", "true", "FALSE", "Yes"])
def test_a_reference_that_may_be_a_verdict_on_the_answer_is_told(
    column, verdict, caplog
):
    row = {"question": "Who?", "contexts": ["Anna lit it."], "answer": "Anna."}
    row[column] = verdict
    (result,) = evaluate([row], ["recall"], judge="lexical")
    assert "1 row: reference like verdicts (0 or 1, yes or no)" in caplog.text
    assert "names" in result.sample.capture.doubts
    caplog.clear()
    evaluate([row], ["recall"], judge="lexical", reference_column=column)
    evaluate([{**row, "answer": "0"}], ["recall"], judge="lexical")
    evaluate([{**row, column: 10}], ["recall"], judge="lexical")
    assert "verdicts" not in caplog.text
    evaluate([{**row, column: None, "retrieved": "yes"}], judge="lexical")
    assert "1 row: retrieved like verdicts" in caplog.text


@pytest.mark.parametrize(
    ("write", "what"),
    [(str, "dictionaries of Python"), (json.dumps, "objects or lists of JSON")],
)
def test_an_object_that_was_written_as_the_answer_is_told(write, what, caplog):
    row = {"question": "Who?", "contexts": ["Anna lit it."], "answer": "She did."}
    for field, text in (
        ("answer", '[{"text": "Anna lit it."}]'),
        ("answer", '["Anna", "Ms Berg"]'),
        ("answer", '```json\n{"answer": "Anna lit it."}\n```\n'),
        ("reference", '{"name": "Anna"}'),
    ):
        evaluate([{**row, field: text}], ["adherence"], judge="lexical")
        told = f"1 row: {field} like objects or lists of JSON are judged as texts"
        assert told in caplog.text
        caplog.clear()
    for text in ("[1] says so.", "1874", "{Anna}"):
        evaluate([{**row, "answer": text}], ["adherence"], judge="lexical")
    assert "of JSON" not in caplog.text
    answer = write({"result": "Anna lit it.", "sources": ["a.pdf"]})
    row = {"question": "Who?", "contexts": ["Anna lit it."], "answer": answer}
    evaluate([row], ["adherence"], judge="lexical")
    assert f"1 row: answer like {what} are judged as texts" in caplog.text
    assert "holds another" not in caplog.text
    caplog.clear()
    evaluate([row], judge="lexical", answer_column="answer")
    named = evaluate(
        [row], ["adherence"], judge="lexical", answer_column="answer.result"
    )
    assert named.results[0].sample.answer == "Anna lit it."
    assert "judged as texts" not in caplog.text


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("question_colum", " (did you mean 'question_column'?)"),
        ("judges", " (did you mean 'judge'?)"),
        ("columns", " (did you mean 'id_column'?)"),
    ],
)
def test_an_argument_that_names_no_column_is_refused(name, near):
    arguments: dict[str, Any] = {name: "q"}
    told = re.escape(f"unknown argument '{name}'{near}; columns are named like")
    with pytest.raises(SettingError, match=told):
        evaluate([{"q": "Who?", "answer": "Anna."}], judge="lexical", **arguments)


@pytest.mark.parametrize("field", ["question", "answer", "contexts"])
@pytest.mark.parametrize("text", ['{"answer": "Anna", "sources": ["a', "{'name': 'An"])
def test_an_object_that_breaks_off_is_told(field, text, caplog):
    row = {"question": "Who?", "contexts": ["Anna lit it."], "answer": "She did."}
    row = {**row, field: [text] if field == "contexts" else text}
    evaluate([row], judge="lexical")
    assert f"1 row: {field} like objects that break off are judged" in caplog.text
    caplog.clear()
    evaluate([row], judge="lexical", **{f"{field}_column": field})
    evaluate([{**row, field: f"{text}'}} and more"}], judge="lexical")
    assert "break off" not in caplog.text


def test_an_answer_that_only_calls_a_tool_is_told(caplog):
    call = '<tool_call>\n{"name": "search", "arguments": {"q": "lamp"}}\n</tool_call>'
    row = {"question": "Who?", "contexts": ["Anna lit it."], "answer": call}
    evaluate([row], judge="lexical")
    assert "1 row: answer like calls of tools are judged as texts" in caplog.text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("page_content='Anna lit it.'", "objects that str() of Python wrote"),
        ('{"page_content": "Anna lit it."}', "documents in JSON"),
    ],
)
def test_one_passage_that_is_no_text_is_told(text, what, caplog):
    row = {"question": "Who?", "contexts": ["Rain fell.", text], "answer": "Anna."}
    evaluate([row], judge="lexical")
    assert f"1 row: contexts like {what} are judged as texts" in caplog.text


@pytest.mark.parametrize(
    ("contexts", "what"),
    [
        (["https://a.example/x"], "web addresses in place of texts"),
        (["doc-7", "doc-8"], "ids in place of texts"),
        (['{"page_content": "Anna lit it."}'], "documents in JSON"),
        (["Anna lit it."], ""),
    ],
)
def test_what_a_column_of_another_name_holds_is_told(contexts, what, caplog):
    """It has to be named: that says nothing about its texts."""
    row = {"frage": "Who?", "funde": contexts, "antwort": "Anna."}
    named: dict[str, Any] = {
        "question_column": "frage",
        "contexts_column": "funde",
        "answer_column": "antwort",
    }
    evaluate([row], judge="lexical", **named)
    told = f"1 row: contexts like {what} are judged as texts\n"
    assert (told in caplog.text) == bool(what)
    assert ("judged as texts" in caplog.text) == bool(what)


def test_a_conversation_without_a_question_beside_it_is_told(caplog):
    talk = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "A."}]
    row = {"conversation": {"messages": talk}, "contexts": ["Anna lit it."]}
    evaluate([row], ["utilization"], judge="lexical")
    assert "--question-column conversation --answer-column conversation" in caplog.text
    sample = Sample.from_row(row, question="conversation", answer="conversation")
    assert (sample.question, sample.answer) == ("Who?", "A.")


@pytest.mark.parametrize("text_key", ["page_content", "text"])
@pytest.mark.parametrize("field", ["contexts", "retrieved"])
def test_documents_that_were_written_as_json_are_told(field, text_key, caplog):
    document = {text_key: "It rained.", "metadata": {"title": "Anna lit it."}}
    row = {"question": "Who?", "contexts": ["It rained."], "answer": "Anna lit it."}
    row[field] = [json.dumps(document, indent=indent) for indent in (None, 2)]
    (result,) = evaluate([row], ["adherence"], judge="lexical")
    assert f"1 row: {field} like documents in JSON are judged as texts" in caplog.text
    assert "names" in result.sample.capture.doubts
    caplog.clear()
    evaluate([row], judge="lexical", **{f"{field}_column": field})
    record = {"title": "Anna lit it.", "year": 1903}
    evaluate([{**row, field: [json.dumps(record)]}], judge="lexical")
    answered = {**row, field: ["It rained."], "answer": json.dumps(document)}
    evaluate([answered], judge="lexical")
    assert "in JSON" not in caplog.text


APPLICATIONS = [("answer", "response"), ("contexts", "retrieved_contexts")]


@pytest.mark.parametrize("blank", ["", " ", None, math.nan, "nan", {"content": ""}])
@pytest.mark.parametrize(("column", "other"), APPLICATIONS)
def test_a_blank_column_beside_one_that_may_be_expected_is_told(
    column, other, blank, caplog
):
    if column == "contexts" and isinstance(blank, dict):
        blank = [""]
    row = {"question": "Who?", "contexts": ["Anna lit it."], "answer": "Anna."}
    for joined in ({**row, other: blank}, {other: blank, **row}):
        caplog.clear()
        report = evaluate([joined], ["adherence"], judge="lexical")
        told = f"1 row: {column} from {column!r}, while {other!r} is empty"
        assert told in caplog.text
        assert told.removeprefix("1 row: ") in str(report.run.notes)
    caplog.clear()
    evaluate([joined], judge="lexical", **{f"{column}_column": column})
    assert "is empty" not in caplog.text


def test_contexts_beside_a_search_that_found_nothing_are_told(caplog):
    row = {"question": "Who?", "contexts": ["Anna lit it."], "answer": "Anna."}
    evaluate([{**row, "retrieved": []}], ["adherence"], judge="lexical")
    assert "1 row: contexts are filled, while nothing was retrieved" in caplog.text
    caplog.clear()
    evaluate([{**row, "retrieved": None}, {**row, "contexts": []}], judge="lexical")
    assert "nothing was retrieved" not in caplog.text


@pytest.mark.parametrize(
    "names", [["Employee Handbook.pdf"], ["a.pdf, page 3", "b.md"]]
)
def test_contexts_that_may_be_names_of_sources_are_told(names, caplog):
    row = {"question": "Who?", "contexts": names, "answer": "Anna."}
    report = evaluate([row], ["adherence"], judge="lexical")
    assert "names" in report.results[0].sample.capture.doubts
    assert "1 row: contexts like names of files or ids" in caplog.text


@pytest.mark.parametrize(
    "beside",
    [
        {"result_1": 0.87},
        {"output_2": "pass"},
        {"target_1": 3},
        {"docs_5": 5},
        {"input_1": "Who?", "input_2": "When?", "output_1": "A.", "output_2": "B."},
    ],
)
def test_a_number_behind_another_usual_name_is_metadata(beside):
    """A lone one is no field, and examples beside the question are no rivals."""
    row = {"question": "Who lit it?", "contexts": ["Anna lit it."], "answer": "Anna."}
    (sample,) = iterate_samples([{**row, **beside}], {})
    assert (sample.question, sample.answer) == (row["question"], row["answer"])
    assert sample.reference == ()
    assert sample.metadata == beside
    del row["answer"]
    lone = dict([next(iter(beside.items()))])
    (sample,) = iterate_samples([{**row, **lone}], {})
    assert sample.answer is None


@pytest.mark.parametrize(
    "text", [r'"\frac{1}{2}"', r'"$\nabla$"', r'"C:\temp\new"', r'"[1] see \frac"']
)
def test_a_quotation_with_backslashes_stays_as_it_is(text):
    row = {"id": text, "question": "Who?", "contexts": [text], "answer": text}
    (sample,) = iterate_samples([row], {})
    assert (sample.answer, sample.id) == (text, text)
    assert [context.text for context in sample.contexts] == [text]


APPLICATION_SAID = "Bob lit it in 1950."
SAID = "no field takes the texts in {} (if one should: --answer-column or"


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        ("rag_answer", [APPLICATION_SAID] * 3),
        ("rag_answer", [APPLICATION_SAID, APPLICATION_SAID, None]),
        ("finalAnswer", ["Bob", "no", "1950"]),
        ("finalAnswer", ["Bob", None, None]),
        ("rag_answer", ["ボブが灯台に灯りをともした。"] * 3),
        ("answer_right", ["Bob", "no", "1950"]),  # of a join
        ("rag", [{"answer": APPLICATION_SAID, "latency_ms": 7}] * 3),
        ("run", [{"outputs": {"answer": "Bob"}, "usage": {"output_tokens": 7}}] * 3),
        ("search_results", [["Rain fell all day."]] * 3),
        ("search_results", [json.dumps([{"text": "Rain fell all day."}])] * 3),
        ("raw", [{"choices": [{"message": {"content": APPLICATION_SAID}}]}] * 3),
        ("turns", [[["Who?", APPLICATION_SAID]]] * 3),
        ("typhoon", ["พ่อมดชื่อบ๊อบสร้างปราสาท"] * 3),
        ("generator", [{"replies": [APPLICATION_SAID]}] * 3),
        ("citations", [[{"document": {"text": APPLICATION_SAID}}]] * 3),
        ("rag_answer", [["1950"], [{"content": "Bob"}], {"text": "1950"}]),
        ("rag", ['{"answer": "1950"}'] * 3),
    ],
)
def test_texts_that_no_field_takes_are_told(column, cells, caplog):
    """What is expected may stand where the application's own is looked for."""
    rows = [{**KEEPER, column: cell} for cell in cells]
    evaluate(rows, ["adherence"], judge="lexical")
    assert SAID.format(column) in caplog.text
    caplog.clear()
    named = {"answer_column": "answer", "contexts_column": "contexts"}
    evaluate(rows, ["adherence"], judge="lexical", **named)
    read = {"answer_column": lambda row: row.get("rag_answer") or "Anna did."}
    evaluate(rows, ["adherence"], judge="lexical", **read)
    assert "no field takes" not in caplog.text, "the user has chosen"


def test_contexts_below_merged_cells_are_told(caplog):
    below = {"question": None, "answer": "", "contexts": ["Anna lit it."]}
    evaluate([KEEPER, below, KEEPER, below], ["adherence"], judge="lexical")
    assert "2 rows of contexts alone: if they belong to the row above" in caplog.text
    caplog.clear()
    evaluate([below] * 2, ["adherence"], judge="lexical", answer_column="answer")
    evaluate([{**KEEPER, "answer": ""}, KEEPER], judge="lexical")
    assert "contexts alone" not in caplog.text


def test_what_may_be_expected_is_told_as_that_where_no_row_expects_anything(caplog):
    row = {**KEEPER, "gold": APPLICATION_SAID, "reference": None}
    evaluate([row] * 3, ["adherence"], judge="lexical")
    told = "the texts in gold (if one should: --reference-column or --answer-column or"
    assert told in caplog.text
    assert "in Python reference_column=)" in caplog.text


@pytest.mark.parametrize(
    "texts", [["Rain fell."], ["Rain, then sun.", 'He said "no".']]
)
@pytest.mark.parametrize("field", ["contexts", "facts", "expected_ids", "reference"])
def test_a_list_whose_quoting_was_not_undone_is_that_list(field, texts):
    """As of a CSV file with a blank behind its commas."""
    quoted = '"' + json.dumps(texts).replace('"', '""') + '"'
    row = {"question": "Who?", "answer": "Anna."}
    found = Sample.from_row({**row, field: quoted})
    assert found == Sample.from_row({**row, field: json.dumps(texts)})
    for no_list in ('"[" "Anna" "]"', '"[""Anna""]", "Bob"'):
        (context,) = Sample.from_row({**row, "contexts": no_list}).contexts
        assert "Anna" in context.text
        assert "Bob" not in no_list or "Bob" in context.text


@pytest.mark.parametrize("column", ["answer_right", "y_pred"])
def test_numbers_are_told_beside_an_answer_that_is_one(column, caplog):
    for answer, is_told in [(1903, True), ("Anna lit it.", False)]:
        rows = [{**KEEPER, "answer": answer, column: 1950}] * 3
        caplog.clear()
        report = evaluate(rows, ["adherence"], judge="lexical")
        assert (SAID.format(column) in caplog.text) is is_told
        assert any(SAID.format(column) in note for note in report.run.notes) is is_told


@pytest.mark.parametrize(
    ("beside", "told"),
    [
        (
            {"response": {"body": {"choices": [{"text": APPLICATION_SAID}]}}},
            "answer from 'answer', while 'response' holds none that can be read",
        ),
        (
            {"result": json.dumps({"llm": {"replies": [APPLICATION_SAID]}})},
            "answer from 'answer', while 'result' holds none that can be read",
        ),
        (
            {"answer": {"data": {"said": APPLICATION_SAID}}, "response": "Anna."},
            "answer from 'response', while 'answer' holds none that can be read",
        ),
        (
            {"target": {"body": {"text": APPLICATION_SAID}}},
            "reference from 'reference', while 'target' holds none that can be read",
        ),
        (
            {"question": None, "input": "The tower.", "instruction": "Say who lit it."},
            "question from 'input', while 'instruction' differs",
        ),
        ({"outputs": {"tokens": 3, "model": "gpt"}}, "while 'outputs' holds"),
        (
            {
                "answer": None,
                "outputs": {"answer": "Anna.", "response_metadata": {"model": "gpt"}},
            },
            None,
        ),
        ({"outputs": {"answer": "Anna lit it.", "n": 3}}, None),
        ({"answer": None, "outputs": {"answer": "Anna lit it all."}}, None),
        ({"contexts": None, "outputs": {"contexts": ["Anna lit it."]}}, None),
        ({"response": {"tokens": 3}}, None),
        ({"input": {"state": {"said": APPLICATION_SAID}}}, None),  # may be a prompt
        ({"question": None, "query": "Who?", "prompt": "By the texts: Who?"}, None),
        ({"prompt": "Answer in a word, please."}, None),
    ],
)
def test_what_another_usual_name_holds_is_told_where_no_rule_chooses(beside, told):
    rows = [{**KEEPER, **beside}] * 3
    notes = evaluate(rows, ["adherence"], judge="lexical").run.notes
    assert [told in note for note in notes if "while" in note] == [True] * bool(told)


FOUND_TEXTS = ["Rain fell on it.", "Anna lit it."]
SAID_BEFORE = [
    {"role": "user", "content": "What stands on the island?"},
    {"role": "assistant", "content": "A lighthouse stands there."},
]
NESTED = {
    "inputs": {"question": "Who lit it?"},
    "outputs": {"answer": "Anna.", "documents": FOUND_TEXTS},
}


@pytest.mark.parametrize("write", [json.dumps, dict])
@pytest.mark.parametrize(
    ("inputs", "outputs", "left", "is_told"),
    [
        ({"messages": SAID_BEFORE}, {}, {"inputs.messages": SAID_BEFORE}, True),
        ({"answer": APPLICATION_SAID}, {}, {"inputs.answer": APPLICATION_SAID}, True),
        ({}, {"error": "Timed out too early"}, {"outputs.error": ...}, True),
        ({}, {"reranked": FOUND_TEXTS[1:]}, {"outputs.reranked": ...}, True),
        ({}, {"x": {"answer": APPLICATION_SAID}}, {"outputs.x.answer": ...}, True),
        (
            {},
            {"answer": {"text": "Anna.", "draft": APPLICATION_SAID}},
            {"outputs.answer.draft": APPLICATION_SAID},
            True,
        ),
        ({"headers": {"Authorization": "Bearer key"}}, {"n": 3}, {}, False),
        ({"prompt": "By the texts: Who?"}, {}, {"inputs.prompt": ...}, False),
        ({"id": "a"}, {"response": "anna. ", "late": None}, {}, False),
        ({}, {"answer": {"role": "assistant", "content": "Anna.", "n": 1}}, {}, False),
        (
            {},
            {"answer": {"role": "ai", "content": "Anna.", "thread_id": "t1"}},
            {"outputs.answer.thread_id": "t1"},
            False,
        ),
        (
            {"question": [{"role": "user", "content": "Who?"}]},
            {"answer": [{"role": "assistant", "content": "Anna."}]},
            {},
            False,
        ),
    ],
)
def test_what_is_left_of_an_object_is_told_as_a_column_is(
    inputs, outputs, left, is_told, write
):
    given_parts = {"inputs": inputs, "outputs": outputs}
    row = {name: write({**NESTED[name], **given_parts[name]}) for name in NESTED}
    columns = ColumnsRead()
    sample = columns.read_sample(row)
    assert sample.answer == "Anna."
    assert list(sample.metadata) == list(columns.unread) == list(left)
    for path, value in left.items():
        assert value in (..., sample.metadata[path])
    told = [f"no field takes the texts in {path} (" for path in left if is_told]
    said = [sentence.partition("(")[0] + "(" for sentence in columns.sentences]
    assert said == told


@pytest.mark.parametrize(
    ("said", "is_told"),
    [
        (["Who lit it?", APPLICATION_SAID], True),
        (["Hi.", "Hello.", "who lit it?", APPLICATION_SAID], True),
        (["Who lit it?", KEEPER["answer"]], False),  # this very turn
        (["Who lit it?", APPLICATION_SAID, "Sure?", "Yes."], True),
        (["Who lit it?", KEEPER["answer"], "Sure?", "Yes."], False),
        (["Hi.", "Who lit it?", "Yes."], False),
    ],
)
def test_another_answer_in_a_history_is_told(said, is_told):
    """Memories hold the present turn, too: what the application said."""
    turns = [
        {"role": role, "content": text}
        for role, text in zip(["user", "assistant"] * 2, said, strict=False)
    ]
    for column in ("chat_history", "conversation"):
        report = evaluate([{**KEEPER, column: turns}], ["adherence"], judge="lexical")
        told = f"1 row: '{column}' holds another answer to the question, as an earlier"
        assert any(note.startswith(told) for note in report.run.notes) is is_told
    named = evaluate(
        [{**KEEPER, "chat_history": turns}],
        ["adherence"],
        judge="lexical",
        history_column="chat_history",
    )
    assert not any("another answer" in note for note in named.run.notes)


@pytest.mark.parametrize(
    ("row", "option"),
    [
        ({"expected_ids": ["a"], "gold_ids": ["b"]}, "--expected-ids-column"),
        ({"expected_ids": ["1"], "relevant_ids": "[1]"}, None),
        ({"facts": ["It is lit."], "reference_facts": ["It burns."]}, "--facts-column"),
        (
            {"expected_contexts": ["A."], "reference_contexts": ["B."]},
            "--expected-contexts-column",
        ),
    ],
)
def test_two_columns_of_what_is_expected_that_differ_are_refused(row, option):
    if option is None:
        assert Sample.from_row({**KEEPER, **row}).expected_ids == ("1",)
        return
    with pytest.raises(AmbiguousColumns, match=f"name the right one: {option}"):
        Sample.from_row({**KEEPER, **row})


@pytest.mark.parametrize("column", ["retrieved_documents", "retrieved_nodes"])
def test_what_was_retrieved_is_a_rival_of_other_contexts(column):
    row = {**KEEPER, column: ["Rain fell all day."]}
    with pytest.raises(SettingError, match=f"'{column}' may both hold the contexts"):
        evaluate([row], ["adherence"], judge="lexical")


@pytest.mark.parametrize(
    "beside",
    [
        {"topic": "opening hours", "doc": "a_1.pdf", "n": 3},
        {"usage": {"model": "gpt 4o"}, "tags": ["a", "b", "c"]},
        {"tokens": {"output_tokens": 7}, "answer_tokens": 7},
        {"prompt": "Answer by the texts. Who lit it?"},  # yields to the question
    ],
)
def test_other_columns_that_no_field_takes_are_not_told(beside, caplog):
    rows = [{**KEEPER, **beside}] * 3 + [{**KEEPER, "comment": "It is right, I think."}]
    evaluate(rows, ["adherence"], judge="lexical")
    assert "no field takes" not in caplog.text


def test_the_ideal_context_of_deepeval_is_not_told(caplog):
    row = {"input": "Who?", "actual_output": "Anna.", "context": ["Anna lit it."]}
    row |= {"retrieval_context": ["Rain fell all day."], "__expected": "Is it Anna?"}
    evaluate([row] * 3, ["adherence"], judge="lexical")
    assert "no field takes the texts in __expected (" in caplog.text


def test_texts_that_no_field_takes_stand_on_the_first_screen(tmp_path, capsys):
    columns = {f"n_{number}": number for number in range(30)}
    row = {**KEEPER, **columns, "rag_answer": APPLICATION_SAID}
    path = tmp_path / "gold.jsonl"
    path.write_text(f"{json.dumps(row)}\n")
    assert main(["evaluate", str(path), "--metrics", "adherence", "--no-files"]) == 0
    screen = " ".join(capsys.readouterr().out.split())
    assert SAID.format("rag_answer") in screen


@pytest.mark.parametrize("name", ["__expected", "__answer", "__Contexts"])
def test_a_name_that_begins_with_two_underscores_is_no_usual_one(name):
    """Promptfoo's ``__expected`` holds an assertion, such as "contains: Anna"."""
    row = {"question": "Who?", "output": "Anna.", "docs": ["Anna lit it."]}
    sample = Sample.from_row({**row, name: "not-contains: Anna"})
    assert sample == Sample.from_row(row).model_copy(
        update={"metadata": {name: "not-contains: Anna"}}
    )
    field = name.removeprefix("__").lower()
    field = "reference" if field == "expected" else field
    named = Sample.from_row({**row, name: "Anna did."}, **{field: name})
    assert not named.missing(field)
    assert named.metadata.keys() <= {"output", "docs"}


CHUNKS = [{"content": "Anna lit it.", "id": "c"}]
TALK = [Turn(role="user", content="Hi"), Turn(role="assistant", content="Ask.")]


@pytest.mark.parametrize("write", [dict, json.dumps])
@pytest.mark.parametrize(
    ("row", "columns", "expected"),
    [
        pytest.param(
            {"answer": "Anna.", "reference": {"total": 1, "chunks": CHUNKS}},
            {"contexts": "reference.chunks"},
            {"answer": "Anna.", "reference": ()},
            id="RAGFlow's contexts",
        ),
        pytest.param(
            {"answer": "Anna.", "retrieved": {"n": 1, "chunks": CHUNKS}},
            {"contexts": "retrieved.chunks"},
            {"answer": "Anna.", "retrieved": None},
            id="a field that is no text",
        ),
        pytest.param(
            {"outputs": {"answer": "Anna did."}, "prediction": "Bob did."},
            {"reference": "outputs.answer"},
            {"answer": "Bob did.", "reference": ("Anna did.",)},
            id="the expected answer of an example",
        ),
        pytest.param(
            {"outputs": {"answer": "Anna did."}},
            {"reference": "outputs"},
            {"answer": None, "reference": ("Anna did.",)},
            id="a column whose object holds it",
        ),
        pytest.param(
            {"answers": {"texts": ["Anna did.", "She."]}},
            {"answer": "answers.texts.0"},
            {"answer": "Anna did.", "reference": ()},
            id="an element of a list",
        ),
        pytest.param(
            {"answer": "Anna.", "contexts": [{"id": "k", "text": "Anna lit it."}]},
            {"retrieved": "contexts.text"},
            {"answer": "Anna.", "context_texts": ("Anna lit it.",)},
            id="objects of a list",
        ),
        pytest.param(
            {
                "answer": "Anna.",
                "chat_history": [
                    *(turn.model_dump() for turn in TALK),
                    {"role": "user", "content": "Who?"},
                ],
            },
            {"question": "chat_history.-1.content"},
            {"question": "Who?", "history": tuple(TALK)},
            id="the last message",
        ),
        pytest.param(
            {"inputs": {"question": "Who?", "docs": CHUNKS}, "answer": "Anna."},
            {"contexts": "inputs.docs"},
            {"question": "Who?", "answer": "Anna."},
            id="a question beside the contexts",
        ),
        pytest.param(
            {"answer": "Anna.", "metadata": {"id": "k", "lang": "en"}},
            {"id": "metadata.id"},
            {"id": "k", "metadata": {"id": "k", "lang": "en"}},
            id="the user's own data",
        ),
    ],
)
def test_what_was_named_for_one_field_is_read_for_no_other(
    write, row, columns, expected
):
    cells = {
        name: write(cell) if isinstance(cell, dict) else cell
        for name, cell in row.items()
    }
    sample = Sample.from_row(cells, **columns)
    assert {field: getattr(sample, field) for field in expected} == expected
    if "contexts" in columns:
        assert sample.context_texts == ("Anna lit it.",)


FOUND_TEXT = "Anna Brandt lit the lamp."
ITEMS_BY_PATH = {
    "properties.content": {"uuid": "u", "properties": {"content": FOUND_TEXT}},
    "entity.text": {"id": 4, "distance": 0.3, "entity": {"text": FOUND_TEXT}},
    "retrievedContext.text": {"retrievedContext": {"title": "a", "text": FOUND_TEXT}},
    "description": {"entity_name": "Anna", "description": FOUND_TEXT},
    "found.parts": {"found": {"parts": [FOUND_TEXT]}},
}


@pytest.mark.parametrize("write", [list, json.dumps])
@pytest.mark.parametrize(("path", "item"), ITEMS_BY_PATH.items())
def test_a_path_goes_through_a_list(path, item, write):
    column = f"hits.{path}"
    (sample,) = iterate_samples([{"hits": write([item, item])}], {"contexts": column})
    assert [each.text for each in sample.contexts] == [FOUND_TEXT] * 2
    (sample,) = iterate_samples([{"hits": write([])}], {"contexts": column})
    assert sample.contexts == ()
    (sample,) = iterate_samples([{"hits": [{"n": 1}, item]}], {"contexts": column})
    assert [each.text for each in sample.contexts] == ["", FOUND_TEXT]
    assert "shows nothing; write its text" in sample.capture.doubts["blank"]
    with pytest.raises(SettingError, match=r"no column 'hits\.elsewhere'"):
        list(iterate_samples([{"hits": [item]}], {"contexts": "hits.elsewhere"}))


def test_a_text_in_parts_that_a_path_leads_to_is_one():
    parts = [{"type": "text", "text": text} for text in FOUND_TEXT.split(" Brandt ")]
    row = {"hits": [{"content": parts}, {"content": FOUND_TEXT}]}
    sample = Sample.from_row(row, contexts="hits.content")
    assert sample.context_texts == ("Anna\nlit the lamp.", FOUND_TEXT)
    for second in (FOUND_TEXT, parts):
        said = [{"content": parts}, {"content": second}]
        with pytest.raises(RowError, match="2 answers in one row"):
            Sample.from_row({"said": said}, answer="said.content")


@pytest.mark.parametrize(("path", "item"), list(ITEMS_BY_PATH.items())[:-1])
def test_a_document_without_a_text_is_refused_with_the_path_to_it(path, item):
    (error,) = iterate_samples([{"docs": [item]}], {})
    option = f"--contexts-column docs.{path}, in Python contexts_column="
    assert str(error).endswith(f"; write its .{path}, e.g. by {option}")
    (sample,) = iterate_samples([{"docs": [item]}], {"contexts": f"docs.{path}"})
    assert sample.context_texts == (FOUND_TEXT,)
    secret = {"n": 1, "Who is it?": FOUND_TEXT}
    (error,) = iterate_samples([{"docs": [secret]}], {})
    assert str(error).endswith("of 2 keys: n")
    by_id = {"a": FOUND_TEXT, "b": f"{FOUND_TEXT} It shone."}
    for texts in (by_id, {"a": FOUND_TEXT}, {"doc1": "Anna.", "doc2": FOUND_TEXT}):
        (error,) = iterate_samples([{"docs": texts}], {})
        assert "; if each of them is one, write a list of their texts" in str(error)


@pytest.mark.parametrize("beside", [{}, {"images": []}, {"images": ["a.png"]}])
def test_of_a_search_engines_whole_reply_the_list_of_its_results_is_named(beside):
    """Its query is prose, too: as a context it would make each answer grounded."""
    reply = {"query": "Who lit the lamp of Orle in 1856?", **beside}
    found = {**reply, "results": [{"title": "Orle", "content": FOUND_TEXT}]}
    for contexts in (found, [found], json.dumps(found)):
        (error,) = iterate_samples([{"contexts": contexts}], {})
        assert "list results: name it by --contexts-column contexts.results" in str(
            error
        )
    (sample,) = iterate_samples([{"contexts": found}], {"contexts": "contexts.results"})
    assert sample.context_texts == (FOUND_TEXT,)
    texts = {**reply, "texts": [FOUND_TEXT, FOUND_TEXT], "marks": ["a", "b"]}
    (error,) = iterate_samples([{"contexts": texts}], {})
    assert "list texts: name it by --contexts-column contexts.texts" in str(error)
    for nothing in ({"results": []}, {"results": [{"error": 1}]}):
        (error,) = iterate_samples(
            [{"hits": {**reply, **nothing}}], {"contexts": "hits"}
        )
        assert ".query" not in str(error)
        assert ("an image" in str(error)) == any(beside.values())


def test_a_flat_column_of_outputs_is_an_answer():
    sample = Sample.from_row({"inputs.question": "Who?", "outputs.response": "Anna."})
    assert sample.answer == "Anna."


@pytest.mark.parametrize(
    "name", ["ground_truth", "expected_answer", "expected_output", "expected_response"]
)
def test_what_is_expected_may_stand_beside_the_question_in_inputs(name):
    inputs = {"question": "Who lit it?", name: "It was Anna."}
    flat = {f"inputs.{key}": value for key, value in inputs.items()}
    for row in ({"inputs": inputs}, {"inputs": json.dumps(inputs)}, flat):
        sample = Sample.from_row({**row, "outputs": {"answer": "Anna lit it."}})
        assert (sample.reference, sample.answer) == (("It was Anna.",), "Anna lit it.")
        assert sample.capture is None
    with pytest.raises(AmbiguousColumns, match=f"'reference' and 'inputs.{name}' may"):
        Sample.from_row({"inputs": inputs, "reference": "Bo did it."})
