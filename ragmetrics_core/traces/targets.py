"""Scores onto the traces that they judge.

Addresses and keys are those of the clients' own environment variables.

The judged trace and span of a sample are ``trace_id`` and ``span_id`` of its metadata,
else the trace is its id, as ``samples_from_spans`` gives it. A score has the same id
each time it is written.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

from ragmetrics_core.capture import (
    InputError,
    MetricResult,
    SampleResult,
    SettingError,
    Sink,
)
from ragmetrics_core.data import extra

_NO_MODEL = ("", "lexical")  # names of judges
# What an answer of OTLP may be called; "" where it is called nothing.
_OTLP_KINDS = (
    "",
    "application/json",
    "application/x-protobuf",
    "application/protobuf",
    "application/octet-stream",
)
logger = logging.getLogger("ragmetrics_core")
_MLFLOW_REDIRECTS = "MLFLOW_ALLOW_HTTP_REDIRECTS"


class _Score(NamedTuple):
    outcome: MetricResult
    trace: str
    span: str
    more: dict[str, str]  # what a target keeps beside the score


def _scores(result: SampleResult) -> Iterator[_Score]:
    if result.sample is None:
        return
    own = (result.sample.id or "").partition("#")[0]
    trace, span = (
        str(result.sample.metadata.get(name) or "") for name in ("trace_id", "span_id")
    )
    if not (trace := trace or own):
        raise InputError(
            f"row {result.index} names no trace: its id must be one, or its metadata"
            " have a trace_id"
        )
    # A trace may hold several samples: their spans or ids tell them apart, else their
    # texts.
    sample_of_trace = [span, result.sample.id or ""]
    if not any(sample_of_trace):
        sample_of_trace += [result.sample.question or "", result.sample.answer or ""]
    for one in result.results.values():
        made = uuid5(
            NAMESPACE_URL,
            json.dumps(
                ["ragmetrics", trace, *sample_of_trace, one.metric, str(one.signature)]
            ),
        )
        more = {
            "ragmetrics.id": str(made),
            "signature": str(one.signature),
            "outcome": one.status,
        }
        yield _Score(
            one,
            trace,
            span,
            more | ({"code": one.code} if one.status == "undefined" else {}),
        )


def _otel(module: str) -> Any:
    return extra(f"opentelemetry.{module}", "otel", "this target")


class _Answers:
    """What an OTLP endpoint answered: the exporters call every answer below 400 a success, and follow redirects."""

    def __init__(self, response: str, rejected: str) -> None:
        # the message, and its field that counts
        self._response, self._rejected = response, rejected
        self._last: Any = None

    def session(self) -> Any:
        """A session of ``requests`` that follows no redirect and notes each answer."""
        session = extra("requests", "otel", "this target").Session()
        follow = session.send

        def send(request: Any, **options: Any) -> Any:
            self._last = follow(request, **{**options, "allow_redirects": False})
            return self._last

        session.send = send
        return session

    def problem(self) -> str:
        """Why the last answer is no success; "" if it is one."""
        answer = self._last
        if answer is None:
            return "nothing was sent"
        if not 200 <= answer.status_code < 300:
            return f"HTTP {answer.status_code}, and a redirect is not followed"
        try:
            rejected, has_message = self._count(answer)
        except Exception as error:  # noqa: BLE001  # whatever a parser raises for what is no answer of OTLP
            return f"the answer is not one of OTLP ({type(error).__name__})"
        if has_message and not rejected:
            logger.warning(
                "the endpoint took outcomes with a warning; its words may hold texts:"
                " see its own log"
            )
        return f"{rejected} of its outcomes were rejected" if rejected else ""

    def _count(self, answer: Any) -> tuple[int, bool]:
        """How many records the endpoint rejected, and whether it says more; ``ValueError`` if it is no such answer."""
        kind = (
            answer.headers.get("Content-Type", "").partition(";")[0].strip().casefold()
        )
        if kind == "text/html" or (answer.content and kind not in _OTLP_KINDS):
            raise ValueError(kind)
        if not answer.content:
            return 0, False
        if kind == "application/json":
            return self._count_in_json(answer.json())
        signal = "logs" if "Logs" in self._response else "trace"
        service = _otel(f"proto.collector.{signal}.v1.{signal}_service_pb2")
        partial = (
            getattr(service, self._response).FromString(answer.content).partial_success
        )
        return int(getattr(partial, self._rejected)), bool(partial.error_message)

    def _count_in_json(self, body: Any) -> tuple[int, bool]:
        """Read an answer in JSON, whose names are written in either way."""
        if not isinstance(body, dict) or body.keys() - {
            "partialSuccess",
            "partial_success",
        }:
            raise ValueError("other fields than those of OTLP")
        partial = body.get("partialSuccess") or body.get("partial_success") or {}
        head, *words = self._rejected.split("_")
        rejected = (
            partial.get("".join([head, *map(str.title, words)]))
            or partial.get(self._rejected)
            or 0
        )
        return int(rejected), bool(
            partial.get("errorMessage") or partial.get("error_message")
        )


class OpenTelemetry(Sink):
    """An event ``gen_ai.evaluation.result`` in the context of the judged span, by OTLP over HTTP or your exporter."""

    _client = "_log_exporter", "OTLPLogExporter"
    _answer = "ExportLogsServiceResponse", "rejected_log_records"

    def __init__(self, exporter: Any = None) -> None:
        module, name = self._client
        self._answers = None if exporter else _Answers(*self._answer)
        if self._answers is not None:
            exporter = getattr(_otel(f"exporter.otlp.proto.http.{module}"), name)(
                session=self._answers.session()
            )
        self._exporter = exporter
        scope = _otel("sdk.util.instrumentation").InstrumentationScope("ragmetrics")
        self._source = _otel("sdk.resources").Resource.create(), scope

    def write(self, result: SampleResult) -> None:
        """Send the outcomes of one sample; ``InputError`` if they were not taken."""
        records = [self._record(one, self._judged(one)) for one in _scores(result)]
        if not records:
            return
        taken = self._exporter.export(records).name == "SUCCESS"
        problem = self._answers.problem() if taken and self._answers is not None else ""
        if problem or not taken:
            why = f" ({problem})" if problem else ""
            raise InputError(
                f"row {result.index} was not taken{why}: is OTEL_EXPORTER_OTLP_ENDPOINT"
                " right?"
            )

    def _judged(self, score: _Score) -> Any:
        try:
            ids = int(score.trace.removeprefix("tr-"), 16), int(score.span, 16)
        except ValueError:
            raise InputError(
                f"trace {score.trace}: OpenTelemetry needs trace_id and span_id as hex"
                " digits"
            ) from None
        return _otel("trace").SpanContext(*ids, is_remote=True)

    def _record(self, score: _Score, judged: Any) -> Any:
        outcome, trace = score.outcome, _otel("trace")
        said: dict[str, Any] = {"name": outcome.metric, "explanation": outcome.reason}
        value = (
            {"score.label": "undefined"}
            if outcome.value is None
            else {"score.value": outcome.value}
        )
        said |= {} if outcome.status == "failed" else value
        told = {
            **{f"gen_ai.evaluation.{name}": value for name, value in said.items()},
            **score.more,
        }
        told |= {"error.type": outcome.error.type} if outcome.status == "failed" else {}
        around = trace.set_span_in_context(trace.NonRecordingSpan(judged))
        facts = {"timestamp": time.time_ns(), "context": around, "attributes": told}
        record = _otel("_logs").LogRecord(
            event_name="gen_ai.evaluation.result", **facts
        )
        return _otel("sdk._logs").ReadableLogRecord(record, *self._source)


class OpenInference(OpenTelemetry):
    """A span of kind EVALUATOR with a link to the judged span.

    Its ids are made of the score's.
    """

    _client = "trace_exporter", "OTLPSpanExporter"
    _answer = "ExportTraceServiceResponse", "rejected_spans"

    def _record(self, score: _Score, judged: Any) -> Any:
        outcome, trace, own = (
            score.outcome,
            _otel("trace"),
            UUID(score.more["ragmetrics.id"]).int,
        )
        kind = "CODE" if outcome.judge in _NO_MODEL else "LLM"
        said = {
            "name": outcome.metric,
            "explanation": outcome.reason,
            "annotator_kind": kind,
        }
        said |= {
            "identifier": score.more["ragmetrics.id"],
            "metadata": json.dumps(score.more),
        }
        value = (
            {"label": outcome.status}
            if outcome.value is None
            else {"score": outcome.value}
        )
        told = {
            f"evaluations.0.evaluation.{name}": one
            for name, one in (said | value).items()
        }
        error, now = (
            outcome.error.type if outcome.status == "failed" else None,
            time.time_ns(),
        )
        return _otel("sdk.trace").ReadableSpan(
            f"evaluate {outcome.metric}",
            trace.SpanContext(own, own % 2**64, False, trace.TraceFlags(1)),
            resource=self._source[0],
            attributes={"openinference.span.kind": "EVALUATOR", **told},
            links=[trace.Link(judged)],
            status=trace.Status(
                trace.StatusCode.ERROR if error else trace.StatusCode.OK, error
            ),
            start_time=now,
            end_time=now,
            instrumentation_scope=self._source[1],
        )


@contextmanager
def _no_redirects_of_mlflow() -> Iterator[None]:
    """MLflow follows redirects unless its variable says otherwise: scores and keys would go to another place."""
    before = os.environ.get(_MLFLOW_REDIRECTS)
    os.environ[_MLFLOW_REDIRECTS] = "false"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_MLFLOW_REDIRECTS]
        else:
            os.environ[_MLFLOW_REDIRECTS] = before


class MLflow(Sink):
    """An assessment on the judged trace of ``MLFLOW_TRACKING_URI``.

    One that is there is not written again.
    """

    def __init__(self) -> None:
        self._mlflow = extra("mlflow", "mlflow", "this target")
        self._client = extra(
            "mlflow.tracing.client", "mlflow", "this target"
        ).TracingClient()

    def write(self, result: SampleResult) -> None:
        """Send the outcomes of one sample; ``InputError`` if they were not taken."""
        scores = [*_scores(result)]
        try:
            with _no_redirects_of_mlflow():
                self._write(scores)
        except self._mlflow.exceptions.MlflowException as error:
            raise InputError(
                f"row {result.index} was not taken by MLflow: {error.error_code}"
            ) from error
        except ValueError as error:
            raise InputError(
                f"row {result.index} was not taken: is MLFLOW_TRACKING_URI a server of"
                " MLflow?"
            ) from error

    def _write(self, scores: Sequence[_Score]) -> None:
        there = (
            self._client.get_trace_info(scores[0].trace).assessments if scores else ()
        )
        known = {(one.metadata or {}).get("ragmetrics.id") for one in there}
        for score in scores:
            if score.more["ragmetrics.id"] not in known:
                self._log(score)

    def _log(self, score: _Score) -> None:
        outcome, entities = score.outcome, self._mlflow.entities
        error = outcome.error if outcome.status == "failed" else None
        kind = "CODE" if outcome.judge in _NO_MODEL else "LLM_JUDGE"
        self._mlflow.log_feedback(
            trace_id=score.trace,
            name=outcome.metric,
            value=outcome.value,
            source=entities.AssessmentSource(kind, outcome.judge or "ragmetrics"),
            error=error
            and entities.AssessmentError(
                error_code=error.type, error_message=error.message
            ),
            rationale=outcome.reason,
            metadata=score.more,
        )


class Langfuse(Sink):
    """A score on the judged trace of ``LANGFUSE_BASE_URL``.

    An outcome without a value is one of ``METRIC.outcome``.
    """

    def __init__(self) -> None:
        api, told = extra("langfuse.api", "langfuse", "this target"), os.environ.get
        names = [f"LANGFUSE_{name}_KEY" for name in ("PUBLIC", "SECRET")]
        if missing := [name for name in names if not told(name)]:
            raise SettingError(
                f"langfuse needs {' and '.join(missing)} in the environment"
            )
        url = (
            told("LANGFUSE_BASE_URL")
            or told("LANGFUSE_HOST")
            or "https://cloud.langfuse.com"
        )
        client = api.LangfuseAPI(
            base_url=url,
            username=told(names[0]),
            password=told(names[1]),
            follow_redirects=False,
        )
        self._scores = client.scores
        refused = extra(
            "langfuse.api.core.api_error", "langfuse", "this target"
        ).ApiError
        self._errors = refused, extra("httpx", "langfuse", "this target").HTTPError

    def write(self, result: SampleResult) -> None:
        """Send the outcomes of one sample; ``InputError`` if they were not taken."""
        bodies = [self._body(one) for one in _scores(result)]
        try:
            taken = not bodies or not getattr(
                self._scores.create(request=bodies), "errors", None
            )
        except self._errors as error:
            raise InputError(
                f"row {result.index} was not taken by Langfuse: {type(error).__name__}"
            ) from None
        if not taken:
            raise InputError(f"row {result.index} was not taken whole by Langfuse")

    def _body(self, score: _Score) -> Any:
        outcome, kind = score.outcome, extra("langfuse.api", "langfuse", "this target")
        plain = outcome.value is not None
        return kind.CreateScoreRequest(
            id=score.more["ragmetrics.id"],
            name=outcome.metric if plain else f"{outcome.metric}.outcome",
            value=outcome.value if plain else outcome.status,
            data_type="NUMERIC" if plain else "CATEGORICAL",
            trace_id=score.trace,
            observation_id=score.span or None,
            comment=outcome.reason,
            metadata=score.more,
        )


_TARGETS: dict[str, Callable[[], Sink]] = {
    "otel": OpenTelemetry,
    "openinference": OpenInference,
    "mlflow": MLflow,
    "langfuse": Langfuse,
}


def target_named(name: str) -> Sink:
    """The target of this name; ``SettingError`` if there is none."""
    if name not in _TARGETS:
        raise SettingError(f"no target {name!r}; there are: {', '.join(_TARGETS)}")
    return _TARGETS[name]()
