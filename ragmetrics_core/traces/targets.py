"""Scores onto the traces that they judge.

A **target** is a tool that keeps scores beside traces. Addresses and keys are those of
the clients' own environment variables.

The judged trace and span of a sample are ``trace_id`` and ``span_id`` of its metadata,
else the trace is its id, as ``samples_from_spans`` gives it. A score has the same id
each time it is written.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

from ragmetrics_core.data import did_you_mean, import_extra
from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.data.results import MetricResult, SampleResult
from ragmetrics_core.reporting.report import Sink

_JUDGES_WITHOUT_MODEL = ("", "lexical")
# What an answer of OTLP may be called; "" where it is called nothing.
_OTLP_KINDS = (
    "",
    "application/json",
    "application/x-protobuf",
    "application/protobuf",
    "application/octet-stream",
)
_LANGFUSE_KEYS = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")
_LANGFUSE_CLOUD = "https://cloud.langfuse.com"
_MLFLOW_REDIRECTS = "MLFLOW_ALLOW_HTTP_REDIRECTS"


class _Score(NamedTuple):
    """An outcome, and the trace and span that it judges.

    Attributes:
        outcome: The result of one metric.
        trace: The id of the judged trace.
        span: The id of the judged span; empty if only the trace is known.
        facts: What a target keeps beside the score, the score's id among it.
    """

    outcome: MetricResult
    trace: str
    span: str
    facts: dict[str, str]  # what a target keeps beside the score

    @property
    def id(self) -> str:
        """The same each time the score is written."""
        return self.facts["ragmetrics.id"]


def _scores(result: SampleResult) -> Iterator[_Score]:
    """Yield the outcome of each metric for one sample, with the trace and span judged.

    Example: a sample of the trace "0af7…" and two metrics yield two outcomes with this
    trace. A row that could not be read as a sample yields nothing.

    Raises:
        InputError: If the sample names no trace.
    """
    sample = result.sample
    if sample is None:
        return
    # the id of a sample of traces is TRACE, or TRACE#2 for a second turn
    trace = str(sample.metadata.get("trace_id") or "")
    trace = trace or (sample.id or "").partition("#")[0]
    if not trace:
        raise InputError(
            f"row {result.number} names no trace: its id must be one, or its metadata"
            " have a trace_id"
        )
    span = str(sample.metadata.get("span_id") or "")
    # samples of one trace are told apart by span and id, else by their texts
    sample_of_trace = [span, sample.id or ""]
    if not any(sample_of_trace):
        sample_of_trace += [sample.question or "", sample.answer or ""]
    for outcome in result.results.values():
        signature = str(outcome.signature)
        # an id that is the same each time the same outcome is sent
        identity = ["ragmetrics", trace, *sample_of_trace, outcome.metric, signature]
        facts = {
            "ragmetrics.id": str(uuid5(NAMESPACE_URL, json.dumps(identity))),
            "signature": signature,
            "outcome": outcome.status,
        }
        if outcome.status == "undefined":
            facts["code"] = outcome.code
        yield _Score(outcome, trace, span, facts)


def _calls_model(outcome: MetricResult) -> bool:
    """Whether a model judged, and no judge that only compares words."""
    return outcome.judge not in _JUDGES_WITHOUT_MODEL


def _otel(module: str) -> Any:
    """Import a module of OpenTelemetry; without the extra the error names it."""
    return import_extra(f"opentelemetry.{module}", "otel", "this target")


class _OtlpResponses:
    """What an OTLP endpoint answered.

    The exporters call every answer below 400 a success, and follow redirects.

    Args:
        module: The module with the answer's class of protobuf.
        name: The name of the class.
        rejected: Its field that counts what was not taken.
    """

    def __init__(self, module: str, name: str, rejected: str) -> None:
        self._message_class = getattr(_otel(f"proto.collector.{module}"), name)
        self._rejected_field = rejected
        self._latest: Any = None  # the latest answer

    def session(self) -> Any:
        """A session of ``requests`` that follows no redirect and notes each answer."""
        session = import_extra("requests", "otel", "this target").Session()
        send_and_follow = session.send

        def _send(request: Any, **options: Any) -> Any:
            options["allow_redirects"] = False
            self._latest = send_and_follow(request, **options)
            return self._latest

        session.send = _send
        return session

    def problem(self) -> str:
        """Why the last answer is no success; "" if it is a success."""
        answer = self._latest
        if answer is None:
            return "nothing was sent"
        if not 200 <= answer.status_code < 300:
            return f"HTTP {answer.status_code}, and a redirect is not followed"
        try:
            # A page of HTML is refused even if it is empty: a proxy or a wrong address
            # answers so. An answer of OTLP may be empty, JSON, or its binary form.
            content_type, _, _ = answer.headers.get("Content-Type", "").partition(";")
            kind = content_type.strip().casefold()
            if kind == "text/html" or (answer.content and kind not in _OTLP_KINDS):
                raise ValueError(kind)
            message = self._message_class()
            if kind == "application/json" and answer.content:
                json_format = import_extra(
                    "google.protobuf.json_format", "otel", "this target"
                )
                body = answer.json()
                if not isinstance(body, dict):
                    raise ValueError(kind)
                json_format.ParseDict(body, message)
            else:
                message.ParseFromString(answer.content)
            rejected = int(getattr(message.partial_success, self._rejected_field))
        except Exception as error:  # noqa: BLE001  # whatever a parser raises for what is no answer of OTLP
            return f"the answer is not one of OTLP ({type(error).__name__})"
        return f"{rejected} of its outcomes were rejected" if rejected else ""


class OpenTelemetry(Sink):
    """An event ``gen_ai.evaluation.result`` in the context of the judged span.

    It is sent by OTLP over HTTP, or by your exporter.
    """

    # of OpenTelemetry's exporter: its module, and its class
    _exporter_module_and_class = ("_log_exporter", "OTLPLogExporter")
    # what the endpoint answers: the class, and its field that counts what was rejected
    _response = (
        "logs.v1.logs_service_pb2",
        "ExportLogsServiceResponse",
        "rejected_log_records",
    )

    def __init__(self, exporter: Any = None) -> None:
        """Take the caller's exporter, or make one that sends by OTLP over HTTP."""
        self._exporter = exporter
        # Reads what the endpoint responds. None where the caller's own exporter sends.
        self._response_reader: _OtlpResponses | None = None
        if not exporter:
            module, name = self._exporter_module_and_class
            exporter_class = getattr(_otel(f"exporter.otlp.proto.http.{module}"), name)
            self._response_reader = _OtlpResponses(*self._response)
            self._exporter = exporter_class(session=self._response_reader.session())
        instrumentation = _otel("sdk.util.instrumentation")
        self._scope = instrumentation.InstrumentationScope("ragmetrics")
        self._resource = _otel("sdk.resources").Resource.create()

    def write(self, result: SampleResult) -> None:
        """Send the outcomes of one sample, and wait for the endpoint's answer.

        Example: a sample with two metrics sends two records. A row without an outcome
        sends nothing.

        Raises:
            InputError: If the endpoint does not answer, or took not all of them.
        """
        records = []
        for score in _scores(result):
            try:
                trace_id = int(score.trace.removeprefix("tr-"), 16)
                span_id = int(score.span, 16)
            except ValueError:
                raise InputError(
                    f"trace {score.trace}: OpenTelemetry needs trace_id and span_id as"
                    " hex digits"
                ) from None
            context = _otel("trace").SpanContext(trace_id, span_id, is_remote=True)
            records.append(self._record(score, context))
        if not records:
            return
        is_sent = self._exporter.export(records).name == "SUCCESS"
        problem = ""
        if is_sent and self._response_reader is not None:
            problem = self._response_reader.problem()
        if is_sent and not problem:
            return
        reason = f" ({problem})" if problem else ""
        raise InputError(
            f"row {result.number} was not taken{reason}: is OTEL_EXPORTER_OTLP_ENDPOINT"
            " right?"
        )

    def _record(self, score: _Score, judged_context: Any) -> Any:
        """Make an event of an outcome, which ``write`` sends.

        Args:
            score: The outcome, with its ids.
            judged_context: The ``SpanContext`` of the judged span.
        """
        trace = _otel("trace")
        judged_span = trace.NonRecordingSpan(judged_context)
        record = _otel("_logs").LogRecord(
            event_name="gen_ai.evaluation.result",
            timestamp=time.time_ns(),
            context=trace.set_span_in_context(judged_span),
            attributes=self._attributes(score),
        )
        return _otel("sdk._logs").ReadableLogRecord(record, self._resource, self._scope)

    def _attributes(self, score: _Score) -> dict[str, Any]:
        """The attributes of the event.

        A scored outcome has a value, an undefined one the label "undefined", a failed
        one the type of its error.
        """
        outcome = score.outcome
        attributes: dict[str, Any] = {
            "gen_ai.evaluation.name": outcome.metric,
            "gen_ai.evaluation.explanation": outcome.reason,
        }
        if outcome.status == "undefined":
            attributes["gen_ai.evaluation.score.label"] = "undefined"
        elif outcome.status != "failed":
            attributes["gen_ai.evaluation.score.value"] = outcome.value
        attributes.update(score.facts)
        if outcome.status == "failed":
            attributes["error.type"] = outcome.error.type
        return attributes


class OpenInference(OpenTelemetry):
    """A span of kind EVALUATOR with a link to the judged span.

    Its ids are made of the score's.
    """

    _exporter_module_and_class = ("trace_exporter", "OTLPSpanExporter")
    _response = (
        "trace.v1.trace_service_pb2",
        "ExportTraceServiceResponse",
        "rejected_spans",
    )

    def _record(self, score: _Score, judged_context: Any) -> Any:
        """Make a span of an outcome, such as "evaluate context_adherence".

        It has a trace of its own and links to the judged span. Its ids come from the
        id of the outcome, so that a second sending gives the same span. Its status
        tells whether the outcome failed.

        Args:
            score: The outcome, with its ids.
            judged_context: The ``SpanContext`` of the judged span.
        """
        trace = _otel("trace")
        status = trace.Status(trace.StatusCode.OK)
        if score.outcome.status == "failed":
            error = score.outcome.error.type
            status = trace.Status(trace.StatusCode.ERROR, error)
        trace_id = UUID(score.id).int
        span_id = trace_id % 2**64  # ids of spans have half as many bits
        is_remote = False
        is_sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)
        now = time.time_ns()
        return _otel("sdk.trace").ReadableSpan(
            f"evaluate {score.outcome.metric}",
            trace.SpanContext(trace_id, span_id, is_remote, is_sampled),
            resource=self._resource,
            attributes=self._attributes(score),
            links=[trace.Link(judged_context)],
            status=status,
            start_time=now,
            end_time=now,
            instrumentation_scope=self._scope,
        )

    def _attributes(self, score: _Score) -> dict[str, Any]:
        """Return the attributes of an outcome's span, by OpenInference's names.

        Example: {"evaluations.0.evaluation.name": "context_adherence",
        "evaluations.0.evaluation.score": 0.8, …}. An outcome without a value has the
        label "undefined" or "failed" instead of a score.
        """
        outcome = score.outcome
        evaluation: dict[str, Any] = {
            "name": outcome.metric,
            "explanation": outcome.reason,
            "annotator_kind": "LLM" if _calls_model(outcome) else "CODE",
            "identifier": score.id,
            "metadata": json.dumps(score.facts),
        }
        if outcome.value is None:
            evaluation["label"] = outcome.status
        else:
            evaluation["score"] = outcome.value
        attributes: dict[str, Any] = {"openinference.span.kind": "EVALUATOR"}
        for name, value in evaluation.items():
            attributes[f"evaluations.0.evaluation.{name}"] = value
        return attributes


@contextmanager
def _no_redirects_of_mlflow() -> Iterator[None]:
    """Keep MLflow from following redirects: scores and keys would go elsewhere."""
    before = os.environ.get(_MLFLOW_REDIRECTS)
    os.environ[_MLFLOW_REDIRECTS] = "false"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_MLFLOW_REDIRECTS]
        else:
            os.environ[_MLFLOW_REDIRECTS] = before


def _error_without_server(error: Exception) -> SettingError:
    """What to say where MLflow's server is not named, or what is named is none.

    MLflow then looks on this machine, and its client alone lacks packages for that.
    """
    cause = type(error).__name__
    if isinstance(error, ImportError):
        cause += f": {error.name}"
    return SettingError(
        "mlflow needs MLFLOW_TRACKING_URI in the environment, the address of its"
        " server, e.g. http://127.0.0.1:5000; for traces in a local folder or database"
        f" install the whole package: pip install mlflow ({cause})"
    )


class MLflow(Sink):
    """An assessment on the judged trace of ``MLFLOW_TRACKING_URI``.

    One that is there is not written again.
    """

    def __init__(self) -> None:
        self._mlflow = import_extra("mlflow", "mlflow", "this target")
        client = import_extra("mlflow.tracing.client", "mlflow", "this target")
        wrong = (ImportError, ValueError, self._mlflow.exceptions.MlflowException)
        try:
            self._client = client.TracingClient()
        except wrong as error:
            raise _error_without_server(error) from error

    def write(self, result: SampleResult) -> None:
        """Send the outcomes of one sample.

        ``InputError`` if they were not taken; ``SettingError`` without a server.
        """
        scores = list(_scores(result))
        try:
            with _no_redirects_of_mlflow():
                written_ids = set()
                if scores:
                    trace = self._client.get_trace_info(scores[0].trace)
                    for assessment in trace.assessments:
                        metadata = assessment.metadata or {}
                        written_ids.add(metadata.get("ragmetrics.id"))
                for score in scores:
                    if score.id not in written_ids:
                        self._log(score)
        except ImportError as error:
            raise _error_without_server(error) from error
        except self._mlflow.exceptions.MlflowException as error:
            raise InputError(
                f"row {result.number} was not taken by MLflow: {error.error_code}"
            ) from error
        except ValueError as error:
            raise InputError(
                f"row {result.number} was not taken: is MLFLOW_TRACKING_URI a server of"
                " MLflow?"
            ) from error

    def _log(self, score: _Score) -> None:
        """Log one outcome at MLflow, as an assessment of its trace.

        Example: the feedback "context_adherence" with the value 0.8. A failed outcome
        is logged with its error, and an undefined one without a value.
        """
        outcome = score.outcome
        entities = self._mlflow.entities
        error = None
        if outcome.status == "failed":
            error = entities.AssessmentError(
                error_code=outcome.error.type, error_message=outcome.error.message
            )
        kind = "LLM_JUDGE" if _calls_model(outcome) else "CODE"
        self._mlflow.log_feedback(
            trace_id=score.trace,
            name=outcome.metric,
            value=outcome.value,
            source=entities.AssessmentSource(kind, outcome.judge or "ragmetrics"),
            error=error,
            rationale=outcome.reason,
            metadata=score.facts,
        )


class Langfuse(Sink):
    """A score on the judged trace of ``LANGFUSE_BASE_URL``.

    An outcome without a value is written under the name ``METRIC.outcome``.
    """

    def __init__(self) -> None:
        """Make a client with the address and the keys in the environment.

        Raises:
            MissingDependency: If Langfuse is not installed.
            SettingError: If a key is missing, such as ``LANGFUSE_SECRET_KEY``.
        """
        self._api = import_extra("langfuse.api", "langfuse", "this target")
        missing = [name for name in _LANGFUSE_KEYS if not os.environ.get(name)]
        if missing:
            raise SettingError(
                f"langfuse needs {' and '.join(missing)} in the environment"
            )
        public_key, secret_key = (os.environ[name] for name in _LANGFUSE_KEYS)
        client = self._api.LangfuseAPI(
            base_url=(
                os.environ.get("LANGFUSE_BASE_URL")
                or os.environ.get("LANGFUSE_HOST")
                or _LANGFUSE_CLOUD
            ),
            username=public_key,
            password=secret_key,
            follow_redirects=False,
        )
        self._scores = client.scores
        # what its client raises if a score was not taken
        error_module = import_extra(
            "langfuse.api.core.api_error", "langfuse", "this target"
        )
        httpx = import_extra("httpx", "langfuse", "this target")
        # the last two are raised if the address is not valid
        self._errors = (
            error_module.ApiError,
            httpx.HTTPError,
            httpx.InvalidURL,
            ValueError,
        )

    def write(self, result: SampleResult) -> None:
        """Send the outcomes of one sample; ``InputError`` if they were not taken."""
        bodies = [self._body(score) for score in _scores(result)]
        if not bodies:
            return
        try:
            response = self._scores.create(request=bodies)
        except self._errors as error:
            raise InputError(
                f"row {result.number} was not taken by Langfuse: {type(error).__name__}"
            ) from None
        if getattr(response, "errors", None):
            raise InputError(f"row {result.number} was not taken whole by Langfuse")

    def _body(self, score: _Score) -> Any:
        """The request that writes one outcome.

        Langfuse takes no score without a value. So an outcome without one is written as
        a word: "undefined" or "failed", under the name "context_recall.outcome".
        """
        outcome = score.outcome
        name = outcome.metric
        value: float | str | None = outcome.value
        data_type = "NUMERIC"
        if value is None:
            name = f"{outcome.metric}.outcome"
            value = outcome.status
            data_type = "CATEGORICAL"
        return self._api.CreateScoreRequest(
            id=score.id,
            name=name,
            value=value,
            data_type=data_type,
            trace_id=score.trace,
            observation_id=score.span or None,
            comment=outcome.reason,
            metadata=score.facts,
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
        raise SettingError(
            f"no target {name!r}{did_you_mean(name, _TARGETS)}; there are:"
            f" {', '.join(_TARGETS)}"
        )
    return _TARGETS[name]()
