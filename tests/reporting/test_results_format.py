"""The results file is a public format: real files fit its schema, and files of every number are read.

Write the schema anew with ``python tests/reporting/test_results_format.py``; the files in
``golden`` stay as they are.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ragmetrics_core import Report, decide, evaluate
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.results import SampleResult, Signature, Undefined
from ragmetrics_core.metrics.citation_quality import CitationEvidence
from ragmetrics_core.reporting.jsonl import FORMAT
from ragmetrics_core.reporting.run_facts import RunFacts

GOLDEN = Path(__file__).with_name("golden")
SCHEMA = Path(__file__).parents[2] / "docs" / "results_format.schema.json"
ROWS = [
    {
        "id": "a",
        "question": "Who?",
        "contexts": ["Anna lit it."],
        "answer": "Anna.",
        "reference": "Anna.",
    },
    {"a": 1},
]


def schema() -> dict[str, Any]:
    """The schema of one line, from the models: open to fields that are added later and to every evidence."""
    row = SampleResult.model_json_schema(mode="serialization")
    run = RunFacts.model_json_schema(mode="serialization")
    definitions = {**row.pop("$defs"), **run.pop("$defs"), "Row": row, "Run": run}
    evidence = {
        "type": "object",
        "properties": {"kind": {"type": "string"}},
        "required": ["kind"],
    }
    for definition in definitions.values():
        if (
            "evidence" in definition.get("properties", {})
            and "status" in definition["properties"]
        ):
            definition["properties"]["evidence"] = {
                "anyOf": [evidence, {"type": "null"}]
            }
    fact = {"$ref": "#/$defs/Run"}
    lines = [
        {
            "type": "object",
            "properties": {"ragmetrics_report": {"const": FORMAT}, "run": fact},
            "required": ["ragmetrics_report", "run"],
        },
        {"$ref": "#/$defs/Row"},
        {
            "type": "object",
            "properties": {"run": fact},
            "required": ["run"],
            "maxProperties": 1,
        },
    ]
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "anyOf": lines,
        "$defs": _used(definitions, ["Row", "Run"]),
    }
    return {
        "title": f"A line of a results file of ragmetrics, number {FORMAT}",
        **_open(whole),
    }


def _used(definitions: dict[str, Any], names: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while names:
        name = names.pop()
        if name not in found:
            found[name] = definitions[name]
            names += [
                other
                for other in definitions
                if f'"#/$defs/{other}"' in json.dumps(found[name])
            ]
    return dict(sorted(found.items()))


def _open(value: Any) -> Any:
    if isinstance(value, dict):
        said = {
            key
            for key, own in value.items()
            if key in ("title", "description") and isinstance(own, str)
        }
        closed = (
            {"additionalProperties"}
            if value.get("additionalProperties") is False
            else set()
        )
        return {
            key: _open(own) for key, own in value.items() if key not in said | closed
        }
    return [_open(own) for own in value] if isinstance(value, list) else value


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_schema_is_that_of_the_models():
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == schema(), (
        f"write it anew: python {__file__}"
    )


@pytest.mark.parametrize("rows", [ROWS, [*ROWS, {"answer": {}}]])
def test_real_results_fit_the_schema(tmp_path, rows):
    evaluate(rows, judge="lexical").to_jsonl(tmp_path / "r.jsonl")
    validator = jsonschema.Draft202012Validator(
        json.loads(SCHEMA.read_text(encoding="utf-8"))
    )
    for line in [
        *lines_of(tmp_path / "r.jsonl"),
        *lines_of(GOLDEN / f"results_{FORMAT}.jsonl"),
    ]:
        validator.validate(line)
    for line in (
        {"ragmetrics_report": 1, "run": {}},
        {"index": 0},
        {"index": "0", "sample": None},
        {"run": {"seconds": -1}},
    ):
        assert not validator.is_valid(line)


def test_the_header_says_what_was_judged_with_what(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = json.dumps(ROWS[0]) + "\n" + json.dumps(ROWS[1]) + "\n"
    text_by_name = {"rows.jsonl": text, "more.jsonl": 2 * text}
    for name, content in text_by_name.items():
        Path(name).write_text(content)
    assert (
        main(
            ["evaluate", "rows.jsonl", "more.jsonl", "--limit", "1", "--out", "r.jsonl"]
        )
        == 0
    )
    header, *_, last = lines_of(Path("r.jsonl"))
    for line, n_rows in ((header, None), (last, 1)):
        assert line["run"]["inputs"] == [
            {
                "name": name,
                "sha256": hashlib.sha256(content.encode()).hexdigest(),
                "rows": n_rows,
            }
            for name, content in text_by_name.items()
        ]
    assert set(last["run"]["packages"]) >= {"python"}
    assert last["run"]["metrics"]["context_adherence"]["settings"] == {
        "polls": "5",
        "T": "1.0",
    }
    assert len(last["run"]["metrics"]["context_recall"]["prompt"]) == 6


def test_samples_of_a_program_have_a_digest_of_their_texts():
    first, second, other = (
        evaluate(rows).run.inputs[0]
        for rows in (ROWS, [dict(row) for row in ROWS], ROWS[:1])
    )
    assert (first, first.rows) == (second, 2)
    assert first.sha256 != other.sha256


U, R = "context_utilization", "context_recall"
SCORES: dict[str, dict[str, list[float | None]]] = {
    "results_1.jsonl": {
        U: [1.0, 1.0, None, None, None],
        R: [0.43, 0.25, None, None, None],
    },
    "results_1_lexical.jsonl": {U: [1.0, 1.0, 0.0, None, None]},
    "results_1_cut.jsonl": {U: [1.0, 1.0, None]},
    "results_2.jsonl": {
        U: [0.5, 0.0, None, None, None],
        R: [0.28, 0.31, None, None, None],
    },
    "results_3.jsonl": {
        U: [1.0, 0.0, None, None, None],
        R: [0.57, 0.25, None, None, None],
    },
    "results_4.jsonl": {
        U: [1.0, 0.0, None, None, None, None],
        R: [0.61, 0.99, None, None, None, None],
    },
    "results_5.jsonl": {
        U: [1.0, 0.0, None, None, None, None],
        R: [0.61, 0.99, None, None, None, None],
    },
}
ADHERENCE = {  # version of the metric and digest of its prompts, by number of the file
    "1": ("1", "5dbc81"),
    "2": ("1", "5dbc81"),
    "3": ("3", "01aa45"),
    "4": ("5", "292614"),
    "5": ("5", "292614"),
}


def test_every_golden_file_is_here():
    assert {path.name for path in GOLDEN.glob("results_*.jsonl")} == set(SCORES)
    assert {int(name[8]) for name in SCORES} == set(range(1, FORMAT + 1))


@pytest.mark.nightly
@pytest.mark.parametrize("name", SCORES)
def test_files_of_every_number_are_read(name, tmp_path, monkeypatch):
    report = Report.from_jsonl(GOLDEN / name)
    for metric, scores in SCORES[name].items():
        assert report.scores(metric) == pytest.approx(scores, abs=0.005)
    sample = report.results[0].sample
    assert (
        sample.id,
        sample.contexts[0].id,
        sample.facts and sample.facts[0].weight,
    ) == ("a", "d1", 2.0)
    assert sample.capture.intermediate[0].text == "step"
    evidence = report.results[0].results["context_utilization"].evidence
    assert evidence.kind == "context_utilization"
    signature = report.results[0].results["context_adherence"].signature
    version, prompt = ADHERENCE[name.removeprefix("results_")[0]]
    assert str(signature).startswith(
        f"context_adherence|v{version}|polls:5|T:1.0|prompt:{prompt}|judge:"
    )
    assert (signature.version, signature.prompt) == (version, prompt)
    assert signature.settings["polls"] == "5"
    assert report.run.metrics["context_adherence"] == signature.without_judge()
    assert report.summary().rows == len(report.results)
    assert "context_utilization" in report.table()
    monkeypatch.chdir(tmp_path)
    report.to_jsonl("again.jsonl")
    assert Report.from_jsonl("again.jsonl") == report
    is_part = "cut" in name
    assert main(["evaluate", str(GOLDEN / name), "--out", "new.jsonl", "--quiet"]) == (
        3 if is_part else 0
    )


def test_an_abstention_of_an_old_file_declines():
    line = {"metric": "m", "status": "undefined", "code": "abstained", "reason": ""}
    row = SampleResult.model_validate(
        {"index": 0, "sample": {"answer": "I do not know."}, "results": {"m": line}}
    )
    assert row.results["m"] == Undefined(metric="m", code="declined", reason="")
    numbers = Report([row], RunFacts(metrics={"m": "m|v1"})).summary()
    assert (numbers.declined, numbers["m"].undefined) == (1, {"declined": 1})


# by the number of the file's format: the fields, and the scores that stay
FIELDS_GONE = {
    "2": (
        "order_range changed_verdicts audit vital decisions spared passed grade ndcg",
        [0.5, None],
    ),
    "4": ("decisions spared passed ndcg control misattributed supporting", [0.5]),
}


@pytest.mark.parametrize("number", FIELDS_GONE)
def test_fields_that_are_gone_are_skipped(number, tmp_path):
    """The golden file holds them all; what is read from it is written without them."""
    earlier = GOLDEN / f"fields_gone_{number}.jsonl"
    fields, scores = FIELDS_GONE[number]
    report = Report.from_jsonl(earlier)
    report.to_jsonl(tmp_path / "again.jsonl")
    written = (tmp_path / "again.jsonl").read_text(encoding="utf-8")
    for field in fields.split():
        assert f'"{field}": ' in earlier.read_text(encoding="utf-8"), field
        assert f'"{field}": ' not in written, field
    assert report.scores("context_utilization") == scores
    assert Report.from_jsonl(tmp_path / "again.jsonl") == report


def test_a_misattributed_sentence_of_an_old_file_is_unsupported():
    (row,) = Report.from_jsonl(GOLDEN / "fields_gone_4.jsonl").results
    evidence = row.results["citation_quality"].evidence
    assert isinstance(evidence, CitationEvidence)
    assert evidence.unsupported == 1
    assert [one.fault for one in evidence.statements] == ["unsupported"]


def test_a_relevance_by_probability_of_an_old_file_keeps_its_score():
    (row,) = Report.from_jsonl(GOLDEN / "fields_gone_4.jsonl").results
    relevance = row.results["answer_relevance"]
    assert (relevance.value, relevance.reason) == (0.75, "p = 0.75")
    assert relevance.evidence.verdicts() == []


def test_a_run_of_an_old_file_that_stopped_once_its_gates_were_decided_is_a_part(
    tmp_path,
):
    """Its rows were chosen by their scores, so no gate is decided on them."""
    decision = {"metric": "context_utilization", "outcome": "passed", "sentence": "s"}
    path = tmp_path / "old.jsonl"
    lines = lines_of(GOLDEN / "results_4.jsonl")
    lines[-1]["run"]["decisions"] = [decision]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    report = Report.from_jsonl(path)
    assert report.run.stopped.startswith("it stopped when its gates were decided")
    assert decide("utilization=0.1", report).outcome == "undecided"
    assert Report.from_jsonl(GOLDEN / "results_4.jsonl").run.stopped == ""


def test_a_ledger_travels_with_its_sample_and_is_left_out_where_there_is_none(tmp_path):
    call = {
        "kind": "tool",
        "turn": 1,
        "step": 1,
        "name": "sql",
        "query": "rows",
        "items": ["412"],
        "shown": [0],
    }
    ledger = {
        "conversation": "c",
        "turn": 2,
        "calls": [call, {"kind": "retrieval", "turn": 2, "error": "down"}],
    }
    evaluate([{**ROWS[0], "ledger": ledger}, ROWS[0]], judge="lexical").to_jsonl(
        tmp_path / "r.jsonl"
    )
    validator = jsonschema.Draft202012Validator(
        json.loads(SCHEMA.read_text(encoding="utf-8"))
    )
    _, first, second, _ = lines_of(tmp_path / "r.jsonl")
    assert validator.is_valid(first)
    assert (first["sample"]["ledger"]["turn"], "ledger" in second["sample"]) == (
        2,
        False,
    )
    report = Report.from_jsonl(tmp_path / "r.jsonl")
    read = report.results[0].sample
    assert [(call.name, call.shown, call.error) for call in read.ledger.calls] == [
        ("sql", (0,), None),
        (None, None, "down"),
    ]
    report.to_jsonl(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_text() == (tmp_path / "r.jsonl").read_text()


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 3), (1, 3)])
def test_files_of_two_numbers_are_compared(first, second, capsys):
    files = [str(GOLDEN / f"results_{number}.jsonl") for number in (first, second)]
    assert main(["compare", *files, "--anyway"]) == 0
    assert "context_utilization" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line",
    [
        "m",
        "m|v1",
        "m|v1|polls:5|prompt:3fa2|judge:openai/gpt:x|T:1.0",
        "m|v2|against:answer|pointwise:|prompt:3fa2",
        "",
    ],
)
def test_a_signature_is_read_from_its_line(line):
    assert str(Signature.model_validate(line)) == line
    assert Signature.model_validate(
        Signature.model_validate(line).model_dump()
    ) == Signature.model_validate(line)


if __name__ == "__main__":
    SCHEMA.write_text(
        json.dumps(schema(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
