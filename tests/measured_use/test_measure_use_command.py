"""``ragmetrics measure-use``: a results file or traces in, the same rows with what was measured out."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from measured_runs import (
    ANSWERS,
    PASSAGES,
    RENDERINGS,
    one_search,
    reply_to,
    verdicts_of,
)

from ragmetrics_core import ContextUtilization, Report, evaluate
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import CaptureNotes, PromptMessage, Sample
from ragmetrics_core.testing import LoopbackServer
from ragmetrics_core.testing.loopback import Fault


def kept(name: str, k: int) -> Sample:
    texts = PASSAGES[:k]
    prompt = [
        PromptMessage(role=role, content=text)
        for role, text in RENDERINGS["numbered"](texts)
    ]
    return Sample(
        id=name,
        question="What is known?",
        contexts=texts,
        answer=ANSWERS[frozenset(["amber"])],
        capture=CaptureNotes(
            grade="exact", prompt=tuple(prompt), passages=one_search(range(k))
        ),
    )


def reads_amber(body: dict[str, Any]) -> str:
    text = "\n".join(str(message["content"]) for message in body["messages"])
    return reply_to(text, ["amber"])


@pytest.fixture
def results(tmp_path: Path) -> Path:
    rows = [kept("a", 3), kept("b", 2), Sample(question="?", answer="!")]
    path = tmp_path / "results.jsonl"
    evaluate(rows, ContextUtilization(), judge="lexical").to_jsonl(path)
    return path


def arguments(results: Path, server: LoopbackServer, *more: str) -> list[str]:
    words = ["measure-use", str(results), "--model", "openai-compatible/m"]
    return [*words, "--api-base", server.base_url, "--no-store", "--quiet", *more]


def test_the_rows_of_a_results_file_are_measured(
    results, tmp_path, loopback_server, capsys
):
    server = loopback_server(reply=reads_amber)
    out = tmp_path / "measured.jsonl"
    assert main(arguments(results, server, "--out", str(out))) == 0
    before, after = Report.from_jsonl(results), Report.from_jsonl(out)
    assert [row.results for row in after.results] == [
        row.results for row in before.results
    ]
    uses = [row.sample.use for row in after.results if row.sample]
    assert uses[0] is not None
    assert uses[1] is not None
    assert uses[2] is not None
    assert verdicts_of(uses[0]) == ("amber",)
    assert verdicts_of(uses[1]) == ("amber",)
    assert "keep_prompts=True" in (uses[2].why_not or "")
    shown = capsys.readouterr().out
    assert "Measured on 2 rows: 1.0 of 2.5 passages change the answer" in shown
    assert "k = 1 would have kept 100% of the answers" in shown
    assert "row 3: the prompt of its answer was not kept" in shown
    assert "judged useful" in shown
    for text in PASSAGES:
        assert text not in shown
    *_, first_line, second_line = shown.splitlines()
    assert first_line == f"Rows with what was measured: {out}"
    assert second_line == f"Each row: ragmetrics report {out}"
    assert main(["report", str(out), "--explain"]) == 0
    shown = capsys.readouterr().out
    assert "Measured on 2 rows: 1.0 of 2.5 passages change the answer" in shown
    assert "judged useful" in shown
    # by a model's name no temperature is set
    assert all("temperature" not in request.body for request in server.requests)


def test_a_dry_run_counts_and_calls_nothing(results, loopback_server, capsys):
    server = loopback_server(reply=reads_amber)
    assert main(arguments(results, server, "--dry-run")) == 0
    assert server.requests == []
    shown = capsys.readouterr().out
    assert "calls:             about 13" in shown
    assert "replies as long as the answers" in shown
    # what an evaluation leaves out is nothing of measuring
    assert "low scores" not in shown
    assert "asked twice" not in shown


def test_a_named_model_is_asked_at_the_temperature_of_the_application(
    results, tmp_path, loopback_server
):
    server = loopback_server(reply=reads_amber)
    more = ["--out", str(tmp_path / "out.jsonl"), "--temperature", "0"]
    assert main(arguments(results, server, *more)) == 0
    assert {request.body["temperature"] for request in server.requests} == {0}


def test_a_cap_is_said_of_the_rows_that_it_cuts_off(
    results, tmp_path, loopback_server, capsys
):
    server = loopback_server(reply=reads_amber)
    out = tmp_path / "measured.jsonl"
    more = ["--out", str(out), "--max-calls", "9", "--concurrency", "1"]
    assert main(arguments(results, server, *more)) == 0
    assert len(server.requests) == 9
    shown = capsys.readouterr().out
    assert "Measured on 1 row:" in shown
    assert "row 2 (b): max_calls=9 was reached" in shown


def test_why_nobody_can_tell_is_said(results, tmp_path, loopback_server, capsys):
    replies = itertools.cycle(["Yes.", "No."])
    server = loopback_server(reply=lambda _: next(replies))
    out = tmp_path / "measured.jsonl"
    assert (
        main(arguments(results, server, "--out", str(out), "--concurrency", "1")) == 0
    )
    shown = capsys.readouterr().out
    assert "of 5 passages nobody can tell" in shown
    assert "! 5 passages: the answer varies as much by itself" in shown


def test_a_file_without_prompts_ends_with_1_and_says_why(
    tmp_path, loopback_server, capsys
):
    path, out = tmp_path / "results.jsonl", tmp_path / "out.jsonl"
    rows = [Sample(question="?", contexts=["a"], answer="!")]
    evaluate(rows, ContextUtilization(), judge="lexical").to_jsonl(path)
    server = loopback_server(reply=reads_amber)
    earlier = '{"ragmetrics_report": 5, "ragmetrics_measured_use": 5, "run": {}}\n'
    out.write_text(earlier)
    assert main(arguments(path, server, "--out", str(out))) == 1
    assert "Nothing was measured." in capsys.readouterr().out
    assert out.read_text() == earlier


def test_a_refused_key_is_said_of_each_row_and_asked_once(
    results, tmp_path, loopback_server, capsys
):
    server = loopback_server(faults=lambda _: Fault(status=401))
    out = tmp_path / "measured.jsonl"
    assert main(arguments(results, server, "--out", str(out))) == 1
    shown = capsys.readouterr().out
    assert shown.count("key") >= 2
    assert len(server.requests) <= 2


def test_a_file_is_read_again_with_what_was_measured(
    results, tmp_path, loopback_server
):
    server = loopback_server(reply=reads_amber)
    out = tmp_path / "measured.jsonl"
    assert main(arguments(results, server, "--out", str(out))) == 0
    again = tmp_path / "again.jsonl"
    command = ["evaluate", str(out), "--judge", "lexical", "--out", str(again)]
    assert main(command) == 0
    measured, judged = Report.from_jsonl(out), Report.from_jsonl(again)
    for row, other in zip(measured.results, judged.results, strict=True):
        assert row.sample == other.sample


def test_a_recorded_trace_is_measured_by_a_models_name(tmp_path, loopback_server):
    server = loopback_server(reply=reads_amber)
    spans = tmp_path / "spans.jsonl"
    trace = {"traceId": "t1"}
    contents = [{"document.content": text} for text in PASSAGES[:2]]
    [(_, prompt)] = RENDERINGS["numbered"](PASSAGES[:2])
    question = "What is known of the lantern?"
    rows = [
        (
            "chain",
            None,
            1,
            9,
            {
                "openinference.span.kind": "CHAIN",
                "input.value": question,
                "output.value": ANSWERS[frozenset(["amber"])],
            },
        ),
        (
            "search",
            "chain",
            2,
            3,
            {
                "openinference.span.kind": "RETRIEVER",
                "input.value": question,
                "retrieval.documents": contents,
            },
        ),
        (
            "model",
            "chain",
            4,
            8,
            {
                "openinference.span.kind": "LLM",
                "llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": prompt + question,
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": ANSWERS[frozenset(["amber"])],
            },
        ),
    ]
    lines = []
    for name, parent, began, ended, attributes in rows:
        flat: dict[str, Any] = {}
        for key, value in attributes.items():
            if key == "retrieval.documents":
                for place, document in enumerate(value):
                    for field, text in document.items():
                        flat[f"{key}.{place}.{field}"] = text
            else:
                flat[key] = value
        lines.append(
            json.dumps(
                {
                    **trace,
                    "name": name,
                    "context": {"trace_id": "0x1", "span_id": f"0x{name}"},
                    "parent_id": parent and f"0x{parent}",
                    "start_time": f"2026-01-01T00:00:0{began}Z",
                    "end_time": f"2026-01-01T00:00:0{ended}Z",
                    "attributes": flat,
                }
            )
        )
    spans.write_text("\n".join(lines))
    out = tmp_path / "measured.jsonl"
    command = arguments(spans, server, "--traces", "--out", str(out))
    assert main(command) == 0
    [row] = Report.from_jsonl(out).results
    assert row.sample.use is not None
    assert verdicts_of(row.sample.use) == ("amber",)


def test_what_was_measured_replaces_an_earlier_measurement_and_no_evaluation(
    results, tmp_path, loopback_server, capsys
):
    server = loopback_server(reply=reads_amber)
    scores, measured = tmp_path / "scores.jsonl", tmp_path / "measured.jsonl"
    evaluate([kept("c", 3)], ContextUtilization(), judge="lexical").to_jsonl(scores)
    paid = scores.read_text()
    assert main(arguments(results, server, "--out", str(scores))) == 2
    assert f"{scores} exists, and no earlier output of" in capsys.readouterr().err
    assert (scores.read_text(), server.requests) == (paid, [])
    for _ in range(2):
        assert main(arguments(results, server, "--out", str(measured))) == 0
    assert len(Report.from_jsonl(measured).results) == 3
