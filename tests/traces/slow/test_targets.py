"""Scores onto traces: what the real clients send, held against the documented bodies."""

from __future__ import annotations

import base64
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from lanes import crossed
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from ragmetrics_core import Failed, Report, Sample, Scored, Undefined
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.data.results import ErrorInfo, SampleResult

TRACE, SPAN = "0123456789abcdef" * 2, "fedcba9876543210"
OUTCOMES = [
    Scored(
        metric="context_adherence",
        reason="2 of 2 agree",
        value=0.0,
        judge="gpt-4o-mini",
    ),
    Undefined(metric="context_recall", reason="there is no reference", code="missing"),
    Failed(
        metric="mine",
        reason="too slow",
        error=ErrorInfo(type="TransientJudgeError", message="no reply in 60 s"),
        judge="m",
    ),
]


def report(trace=TRACE, **metadata):
    sample = Sample(
        question="q", answer="a", id=trace, metadata={"span_id": SPAN, **metadata}
    )
    rows = [
        SampleResult(
            index=0, sample=sample, results={one.metric: one for one in OUTCOMES}
        )
    ]
    return Report([*rows, SampleResult(index=1, sample=None, problem="no object")])


class Receiver:
    """Takes what clients send and answers as MLflow's REST API does.

    It keeps assessments.
    """

    def __init__(self):
        self.bodies, self.status, self.assessments, self.answer = [], 200, [], {}
        self.location, self.raw, self.kind = "", None, "application/json"

    def reply(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        if handler.path.endswith("/assessments"):
            self.assessments.append(json.loads(body)["assessment"])
            return {"assessment": self.assessments[-1]}
        if "/mlflow/traces/" in handler.path:
            trace = handler.path.rpartition("/")[2].partition("?")[0]
            info = {
                "trace_id": trace,
                "request_time": "2026-11-20T00:00:00Z",
                "state": "OK",
            }
            place = {
                "type": "MLFLOW_EXPERIMENT",
                "mlflow_experiment": {"experiment_id": "0"},
            }
            kept = [one for one in self.assessments if one["trace_id"] == trace]
            return {
                "trace": {
                    "trace_info": {**info, "trace_location": place, "assessments": kept}
                }
            }
        self.bodies.append((handler.path, body))
        self.authorization = handler.headers.get("Authorization")
        return self.answer


@pytest.fixture
def receiver():
    received = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            body = json.dumps(received.reply(self)).encode()
            body = body if received.raw is None else received.raw
            self.send_response(received.status)
            self.send_header("Content-Type", received.kind)
            if received.location:
                self.send_header("Location", received.location)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = answer  # noqa: N815

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        received.url = f"http://127.0.0.1:{server.server_port}"
        yield received
        server.shutdown()
        thread.join()


def plain(attributes):
    return {
        one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes
    }


def test_an_event_for_each_outcome_in_the_context_of_the_judged_span(
    receiver, monkeypatch
):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    report().write_to("otel")
    ((path, body),) = receiver.bodies
    assert path == "/v1/logs"
    (resource,) = ExportLogsServiceRequest.FromString(body).resource_logs
    records = resource.scope_logs[0].log_records
    assert {one.event_name for one in records} == {"gen_ai.evaluation.result"}
    assert {(one.trace_id.hex(), one.span_id.hex()) for one in records} == {
        (TRACE, SPAN)
    }
    own = [plain(one.attributes) for one in records]
    assert len({one.pop("ragmetrics.id") for one in own}) == 3
    name, why, score = (
        f"gen_ai.evaluation.{one}" for one in ("name", "explanation", "score")
    )
    assert [
        {key: value for key, value in one.items() if key != "signature"} for one in own
    ] == [
        {
            name: "context_adherence",
            why: "2 of 2 agree",
            f"{score}.value": 0.0,
            "outcome": "scored",
        },
        {
            name: "context_recall",
            why: "there is no reference",
            f"{score}.label": "undefined",
            "outcome": "undefined",
        }
        | {"code": "missing"},
        {
            name: "mine",
            why: "too slow",
            "error.type": "TransientJudgeError",
            "outcome": "failed",
        },
    ]


def test_a_span_of_an_evaluator_for_each_outcome_with_one_link_and_the_same_ids_each_time(
    receiver, monkeypatch
):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    for _ in range(2):
        report().write_to("openinference")
    assert [path for path, _ in receiver.bodies] == ["/v1/traces"] * 2
    groups = [
        ExportTraceServiceRequest.FromString(body).resource_spans[0]
        for _, body in receiver.bodies
    ]
    first, second = (group.scope_spans[0].spans for group in groups)
    assert [(one.trace_id, one.span_id) for one in first] == [
        (one.trace_id, one.span_id) for one in second
    ]
    assert len({one.span_id for one in first}) == 3
    assert [
        [(link.trace_id.hex(), link.span_id.hex()) for link in one.links]
        for one in first
    ] == [[(TRACE, SPAN)]] * 3
    told = [plain(one.attributes) for one in first]
    assert {one["openinference.span.kind"] for one in told} == {"EVALUATOR"}
    names = ("name", "score", "label", "explanation", "annotator_kind")
    assert [
        tuple(one.get(f"evaluations.0.evaluation.{name}") for name in names)
        for one in told
    ] == [
        ("context_adherence", 0.0, None, "2 of 2 agree", "LLM"),
        ("context_recall", None, "undefined", "there is no reference", "CODE"),
        ("mine", None, "failed", "too slow", "LLM"),
    ]
    assert [(one.status.code, one.status.message) for one in first] == [
        (1, ""),
        (1, ""),
        (2, "TransientJudgeError"),
    ]


def test_what_a_receiver_refuses_is_an_error(receiver, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    receiver.status = 400
    with pytest.raises(InputError, match="row 1 was not taken"):
        report().write_to("otel")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (report("run-7"), "hex digits"),
        (report(span_id=""), "hex digits"),
        (report(None), "no trace"),
    ],
)
def test_a_row_without_a_trace_is_an_error_that_says_so(
    given, says, receiver, monkeypatch
):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    with pytest.raises(InputError, match=says):
        given.write_to("otel")
    assert not receiver.bodies


@pytest.mark.nightly
def test_assessments_of_mlflow_and_a_second_push_changes_nothing(
    receiver, monkeypatch, tmp_path, capsys
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", receiver.url)
    path = tmp_path / "report.jsonl"
    report("tr-" + TRACE).to_jsonl(path)
    for _ in range(2):
        assert main(["report", str(path), "--push", "mlflow"]) == 0
        assert (
            "3 results of 1 rows: mlflow; not sent, because they hold no sample or"
            " no results: 1\n" in capsys.readouterr().out
        )
    kept = receiver.assessments
    assert [one["trace_id"] for one in kept] == ["tr-" + TRACE] * 3
    error = {"error_code": "TransientJudgeError", "error_message": "no reply in 60 s"}
    told = [
        (one["assessment_name"], one["rationale"], one["feedback"], one["source"])
        for one in kept
    ]
    assert told == [
        (
            "context_adherence",
            "2 of 2 agree",
            {"value": 0.0},
            {"source_type": "LLM_JUDGE", "source_id": "gpt-4o-mini"},
        ),
        (
            "context_recall",
            "there is no reference",
            {"value": None},
            {"source_type": "CODE", "source_id": "ragmetrics"},
        ),
        (
            "mine",
            "too slow",
            {"value": None, "error": error},
            {"source_type": "LLM_JUDGE", "source_id": "m"},
        ),
    ]
    assert [one["metadata"]["outcome"] for one in kept] == [
        "scored",
        "undefined",
        "failed",
    ]


@pytest.mark.parametrize("where", ["__init__", "get_trace_info"])
def test_mlflow_without_a_server_says_what_it_needs(
    monkeypatch, tmp_path, capsys, where
):
    """The client alone is installed, and a local store is part of the whole package."""
    client = pytest.importorskip("mlflow.tracing.client").TracingClient

    def lacks(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'sqlparse'", name="sqlparse")

    monkeypatch.setattr(client, where, lacks)
    path = tmp_path / "results.jsonl"
    report("tr-" + TRACE).to_jsonl(path)
    assert main(["report", str(path), "--push", "mlflow"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("ragmetrics: mlflow needs MLFLOW_TRACKING_URI")
    assert "sqlparse" in said


def test_mlflow_refusing_is_an_error(receiver, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", receiver.url)
    receiver.status = 400
    with pytest.raises(InputError, match="was not taken by MLflow"):
        report("tr-" + TRACE).write_to("mlflow")


@pytest.fixture
def langfuse(receiver, monkeypatch):
    for name, value in {
        "BASE_URL": receiver.url,
        "PUBLIC_KEY": "pk",
        "SECRET_KEY": "sk",
    }.items():
        monkeypatch.setenv(f"LANGFUSE_{name}", value)
    receiver.status, receiver.answer = 202, {"message": "Accepted"}
    return receiver


def test_scores_of_langfuse_have_the_same_ids_each_time(langfuse):
    for _ in range(2):
        report().write_to("langfuse")
    (path, first), (_, second) = langfuse.bodies
    assert path == "/api/public/scores"
    assert first == second
    assert langfuse.authorization == "Basic " + base64.b64encode(b"pk:sk").decode()
    found = json.loads(first)
    assert len({one["id"] for one in found}) == 3
    assert {(one["traceId"], one["observationId"]) for one in found} == {(TRACE, SPAN)}
    assert [
        (one["name"], one["value"], one["dataType"], one["comment"]) for one in found
    ] == [
        ("context_adherence", 0.0, "NUMERIC", "2 of 2 agree"),
        ("context_recall.outcome", "undefined", "CATEGORICAL", "there is no reference"),
        ("mine.outcome", "failed", "CATEGORICAL", "too slow"),
    ]


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (401, {}),
        (400, {}),
        (207, {"accepted": 2, "rejected": 1, "errors": [{"message": "no"}]}),
    ],
)
def test_langfuse_refusing_all_or_some_is_an_error(langfuse, status, answer):
    langfuse.status, langfuse.answer = status, answer
    with pytest.raises(InputError, match="row 1 was not taken") as caught:
        report().write_to("langfuse")
    assert "sk" not in str(caught.value)


def test_langfuse_without_keys_says_which(monkeypatch):
    monkeypatch.delenv("LANGFUSE_SECRET_KEY", raising=False)
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk")
    with pytest.raises(SettingError, match="needs LANGFUSE_SECRET_KEY in"):
        report().write_to("langfuse")


TARGETS = ("otel", "openinference", "mlflow", "langfuse")


@pytest.fixture
def pushed(receiver, monkeypatch, tmp_path, capsys):
    """Push a report of one row to the receiver; the exit code and what is said."""
    for name in (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "MLFLOW_TRACKING_URI",
        "LANGFUSE_BASE_URL",
    ):
        monkeypatch.setenv(name, receiver.url)
    for name in ("PUBLIC", "SECRET"):
        monkeypatch.setenv(f"LANGFUSE_{name}_KEY", f"sk-{name}")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")

    def push(target):
        path = tmp_path / "report.jsonl"
        report(("tr-" if target == "mlflow" else "") + TRACE).to_jsonl(path)
        code = main(["report", str(path), "--push", target])
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    return push


NO_SERVERS = {
    "none": "",
    "a folder": "file:///tmp/mlruns",
    "a database": "sqlite:///mlruns.db",
    "a word": "nonsense",
    "another protocol": "ftp://127.0.0.1",
    "a bracket that is not closed": "http://[",
    "a port that is none": "http://127.0.0.1:99999",
}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("address", "target"),
    [
        (address, target)
        for address in NO_SERVERS
        for target in TARGETS
        # other clients have an address of their own
        if address != "none" or target == "mlflow"
    ],
)
def test_an_address_that_is_no_server_is_refused_in_words(
    address, target, pushed, monkeypatch, tmp_path
):
    """MLflow alone takes folders and databases, and lacks packages for these."""
    monkeypatch.chdir(tmp_path)
    for package in ("sqlparse", "sqlalchemy", "alembic"):
        monkeypatch.setitem(sys.modules, package, None)
    names = {"mlflow": "MLFLOW_TRACKING_URI", "langfuse": "LANGFUSE_BASE_URL"}
    name = names.get(target, "OTEL_EXPORTER_OTLP_ENDPOINT")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv(name, NO_SERVERS[address])
    code, said = pushed(target)
    assert code == 2
    assert "Traceback" not in said
    if address in ("none", "a folder", "a database") and target == "mlflow":
        assert "mlflow needs MLFLOW_TRACKING_URI in the environment" in said
    if target in ("otel", "openinference"):
        assert "is OTEL_EXPORTER_OTLP_ENDPOINT right?" in said


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("target", "status", "there"),
    crossed(TARGETS, [301, 302, 303, 307, 308], ["/elsewhere", "another server"]),
)
def test_a_redirect_is_no_success_and_is_not_followed(
    pushed, receiver, target, status, there
):
    asked = []

    class Elsewhere(BaseHTTPRequestHandler):
        def answer(self):
            asked.append(dict(self.headers))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_GET = do_POST = do_PATCH = answer  # noqa: N815

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        receiver.status = status
        receiver.location = (
            there
            if there.startswith("/")
            else f"http://127.0.0.1:{server.server_port}/"
        )
        code, told = pushed(target)
        server.shutdown()
        thread.join()
    assert (code, "was not taken" in told) == (2, True), told
    assert not asked
    assert "results of" not in told
    assert all("elsewhere" not in path for path, _ in receiver.bodies)


PARTIAL = {
    "otel": (
        ExportLogsServiceResponse,
        {"rejected_log_records": 2},
        "rejectedLogRecords",
    ),
    "openinference": (
        ExportTraceServiceResponse,
        {"rejected_spans": 2},
        "rejectedSpans",
    ),
}


@pytest.mark.parametrize("target", PARTIAL)
@pytest.mark.parametrize("form", ["protobuf", "json"])
def test_a_partial_success_of_otlp_is_an_error_with_its_count(
    pushed, receiver, target, form
):
    kind, rejected, name = PARTIAL[target]
    receiver.raw = kind(
        partial_success={**rejected, "error_message": "too old"}
    ).SerializeToString()
    receiver.kind = "application/x-protobuf"
    if form == "json":
        receiver.raw, receiver.kind = (
            json.dumps({"partialSuccess": {name: "2"}}).encode(),
            "application/json",
        )
    code, told = pushed(target)
    assert (code, "2 of its outcomes were rejected" in told) == (2, True), told
    receiver.raw = kind(
        partial_success={"error_message": "a warning"}
    ).SerializeToString()
    receiver.kind = "application/x-protobuf"
    assert pushed(target)[0] == 0


@pytest.mark.parametrize("target", TARGETS)
def test_a_page_that_is_no_answer_of_the_target_is_an_error(pushed, receiver, target):
    receiver.raw, receiver.kind = b"<html>Sign in</html>", "text/html"
    code, told = pushed(target)
    assert (code, "was not taken" in told) == (2, True), told


def test_no_such_target():
    with pytest.raises(
        SettingError,
        match=re.escape(
            "no target 'excel'; there are: otel, openinference, mlflow, langfuse"
        ),
    ):
        report().write_to("excel")


SEVERAL = {  # samples of one trace: id, what stands in the metadata, and answer
    "by span": [("", SPAN, "a"), ("", SPAN[::-1], "a")],
    "by id": [("one", "", "a"), ("two", "", "a")],
    "by both": [("one", SPAN, "a"), ("two", SPAN, "a")],
    "by turn": [(f"{TRACE}#0", "", "a"), (f"{TRACE}#1", "", "a")],
    "by text": [("", "", "a"), ("", "", "b")],
}


@pytest.mark.parametrize("case", SEVERAL)
def test_samples_of_one_trace_have_scores_of_their_own(case, langfuse):
    rows = []
    for index, (name, span, answer) in enumerate(SEVERAL[case]):
        metadata = {"trace_id": TRACE, "span_id": span}
        sample = Sample(question="q", answer=answer, id=name or None, metadata=metadata)
        rows.append(
            SampleResult(
                index=index,
                sample=sample,
                results={one.metric: one for one in OUTCOMES},
            )
        )
    for _ in range(2):
        Report(rows).write_to("langfuse")
    ids = [[one["id"] for one in json.loads(body)] for _, body in langfuse.bodies]
    assert ids[:2] == ids[2:]
    assert len({*ids[0], *ids[1]}) == 6


NO_ANSWERS = {
    "an error": (b'{"error": {"message": "no"}}', "application/json"),
    "an error beside": (b'{"partialSuccess": {}, "error": "no"}', "application/json"),
    "a list": (b"[]", "application/json"),
    "text": (b"accepted", "text/plain"),
    "empty text that parses": (b"", "text/html; charset=utf-8"),
    "a page": (b"<html>", "text/html"),
    "in other spelling": (
        b'{"partial_success": {"rejected_log_records": "2", "rejected_spans": 2}}',
        "application/json",
    ),
}


@pytest.mark.parametrize("target", PARTIAL)
@pytest.mark.parametrize("case", NO_ANSWERS)
def test_an_answer_that_is_none_of_otlp_is_no_success(case, target, pushed, receiver):
    receiver.raw, receiver.kind = NO_ANSWERS[case]
    code, told = pushed(target)
    assert (code, "row 1 was not taken" in told) == (2, True), told
    assert "results of" not in told


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [SampleResult(index=0, sample=None, problem="no object")],
        [SampleResult(index=0, sample=Sample(id=TRACE), results={})],
    ],
)
def test_a_file_without_results_is_not_pushed(
    rows, receiver, monkeypatch, tmp_path, capsys
):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    Report(rows).to_jsonl(tmp_path / "report.jsonl")
    assert main(["report", str(tmp_path / "report.jsonl"), "--push", "otel"]) == 2
    assert (
        "the report holds no results of samples, so nothing was sent"
        in capsys.readouterr().err
    )
    assert not receiver.bodies
