"""Spans in the forms in which tools write them, told by content."""

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

_HEX = re.compile(r"(?:0x)?([0-9a-f]{16}|[0-9a-f]{32})", re.IGNORECASE)
_FAILED = (2, "STATUS_CODE_ERROR", "ERROR")
_TRACE = ("trace_id", "traceId", "context.trace_id")
_ID = ("span_id", "spanId", "context.span_id", "id")
_ABOVE = ("parentObservationId", "parent_observation_id", "parent_run_id")
_PARENT = ("parent_id", "parentSpanId", "parent_span_id", *_ABOVE)
_START = ("start_time", "startTime", "start_time_unix_nano", "startTimeUnixNano")
_END = ("end_time", "endTime", "end_time_unix_nano", "endTimeUnixNano")
# an element of the first stands alone
_OTLP = frozenset(
    {"resourceSpans", "resourceLogs", "scopeSpans", "scopeLogs", "resourceMetrics"}
)
# values
WRONG = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    RecursionError,
    SyntaxError,
    OverflowError,
)


@dataclass(frozen=True, slots=True)
class Span:
    """One span: times in nanoseconds, no ``parent`` for a root, no ``id`` (nor ``trace``) for an unreadable one."""

    trace: str
    id: str
    parent: str = ""
    name: str = ""
    scope: str = ""
    start: int = 0
    end: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict, repr=False)
    error: str | None = field(default=None, repr=False)
    remote: bool = False  # its parent is a span of another process
    dropped: int = 0  # attributes that the SDK left out, because its limit was reached


class UnknownForm(Exception):
    """A value that holds no spans in any known form; the keys that were seen."""


def spans_in(value: Any) -> Iterator[Span]:
    """The spans of one value: a file's JSON, one of its lines or items, or a span of the OpenTelemetry SDK.

    Raises:
        UnknownForm: If it has none of the forms.
    """
    if hasattr(value, "to_json"):
        value = _told(value)
    inner = (
        value.get("data", value.get("observations"))
        if isinstance(value, Mapping)
        else value
    )
    if isinstance(inner, list):
        yield from (span for item in inner for span in spans_in(item))
    elif not isinstance(value, Mapping):
        yield _span(value)
    elif not _OTLP.isdisjoint(value):
        yield from _otlp(value)
    elif isinstance(inner, Mapping) and "info" in value:  # MLflow
        info = value["info"]
        session = {
            "mlflow.trace.session": (
                (info.get("trace_metadata") or {}).get("mlflow.trace.session")
            )
        }
        for span in (
            _span(one, trace_id=info.get("trace_id"))
            for one in inner.get("spans") or ()
        ):
            yield replace(span, attributes={**session, **span.attributes})
    elif any(name in value for name in (*_TRACE, "context")):
        yield _span(value)
        yield from spans_in(value.get("child_runs") or [])
    else:
        raise UnknownForm(", ".join(sorted(map(str, value))[:12]))


def _told(span: Any) -> dict[str, Any]:
    """What a span of the SDK says.

    Its own ``to_json`` would take several times as long, beside the application.
    """
    above = span.parent
    around = (
        {}
        if above is None
        else {"parent_id": f"{above.span_id:016x}", "flags": above.is_remote * 0x200}
    )
    return {
        "trace_id": f"{span.context.trace_id:032x}",
        "span_id": f"{span.context.span_id:016x}",
        "name": span.name,
        "scope": getattr(span.instrumentation_scope, "name", ""),
        "start_time": span.start_time,
        "end_time": span.end_time,
        "attributes": {
            key: [*item] if isinstance(item, tuple) else item
            for key, item in span.attributes.items()
        },
        "status": {"code": span.status.status_code.name},
        "dropped_attributes_count": span.dropped_attributes,
        "events": [
            {"name": one.name, "attributes": one.attributes} for one in span.events
        ],
        **around,
    }


def _otlp(value: Any) -> Iterator[Span]:
    """The spans in an object or in those inside it.

    What events tell of a span has its id and no name.
    """
    try:
        for name in ("resourceSpans", "scopeSpans", "resourceLogs", "scopeLogs"):
            yield from (span for one in value.get(name) or () for span in _otlp(one))
        scope = (
            value["scope"].get("name")
            if isinstance(value.get("scope"), Mapping)
            else None
        )
        yield from (_span(one, scope=scope) for one in value.get("spans") or ())
        events = (
            one
            for one in value.get("logRecords") or ()
            if not isinstance(one, Mapping) or one.get("spanId")
        )
        yield from (
            replace(one, name="" if one.id else one.name) for one in map(_span, events)
        )
    except WRONG:
        yield _span(value)


def _span(value: Any, **more: Any) -> Span:
    trace = ""
    try:
        value = {**value, **more}
        context = value["context"] if isinstance(value.get("context"), Mapping) else {}
        value |= {f"context.{key}": item for key, item in context.items()}

        def first(names: Any) -> Any:
            return next(
                (value[name] for name in names if value.get(name) not in (None, "")), ""
            )

        trace, name = _name(first(_TRACE)), _name(first(_ID))
        times = _nanoseconds(first(_START)), _nanoseconds(first(_END))
        called, scope = str(value.get("name") or "span"), str(value.get("scope") or "")
        # as OTLP says it
        parent, remote = (
            _name(first(_PARENT)),
            bool(int(value.get("flags") or 0) & 0x200),
        )
        if trace and name and max(map(abs, times)) < 2**63:
            dropped = int(
                value.get("droppedAttributesCount")
                or value.get("dropped_attributes_count")
                or 0
            )
            return Span(
                trace,
                name,
                parent,
                called,
                scope,
                *times,
                _attributes(value),
                _error(value),
                remote,
                dropped,
            )
    except WRONG:
        pass
    return Span(trace, "", name="unreadable")


def _attributes(value: Mapping[str, Any]) -> dict[str, Any]:
    """What a span recorded, by the names of its dialect."""
    given, kind = value.get("attributes"), value.get("span_kind")
    if isinstance(given, list):
        return {one["key"]: _value(one.get("value")) for one in given}
    if "run_type" in value:  # LangSmith
        metadata = (value.get("extra") or {}).get("metadata") or {}
        named = {
            "langsmith.span.kind": "run_type",
            "gen_ai.prompt": "inputs",
            "gen_ai.completion": "outputs",
        }
        found: dict[str, Any] = {
            f"langsmith.metadata.{key}": item for key, item in metadata.items()
        }
        return found | {key: value.get(name) for key, name in named.items()}
    columns = {
        key.removeprefix("attributes."): item
        for key, item in value.items()
        if key.startswith("attributes.")
    }
    # Phoenix nests them, or has a column for each
    if isinstance(given, Mapping) or kind or columns:
        flat = {
            key: item
            for name, part in {**columns, **(given or {})}.items()
            for key, item in _flat(name, part)
        }
        return {**({"openinference.span.kind": kind} if kind else {}), **flat}
    told = {
        key: value.get(key.partition(".")[0])
        for key in ("type", "input", "output", "model.name")
    }
    found = (
        {f"langfuse.observation.{key}": item for key, item in told.items()}
        if told["type"]
        else {}
    )
    return found | {"session.id": value.get("sessionId") or value.get("session_id")}


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    listed = isinstance(value, list) and any(
        isinstance(item, Mapping) for item in value
    )
    if name == "metadata" or not (listed or isinstance(value, Mapping)):
        yield name, value
    else:
        items = enumerate(value) if listed else value.items()
        yield from (
            found for key, item in items for found in _flat(f"{name}.{key}", item)
        )


def _error(value: Mapping[str, Any]) -> str | None:
    """What a span ended with; LangGraph's interrupts end one that is no failure."""
    status, failure = value.get("status"), value.get("error")
    status = (
        status
        if isinstance(status, Mapping)
        else {"code": value.get("status_code"), "message": failure}
    )
    raised = [
        one.get("attributes") or {}
        for one in value.get("events") or ()
        if one.get("name") == "exception"
    ]
    told = _attributes({"attributes": raised[-1]}) if raised else {}
    kind = str(told.get("exception.type") or "").rpartition(".")[2]
    failed = (
        status.get("code", status.get("status_code")) in _FAILED
        or value.get("level") == "ERROR"
        or failure
    )
    if not failed and kind != "GraphInterrupt":
        return None
    message = (
        told.get("exception.message")
        or status.get("message")
        or value.get("statusMessage")
        or ""
    )
    return f"{kind}: {message}".partition("\nTraceback")[0].strip(": ") or "error"


def _name(value: Any) -> str:
    """An id as hexadecimal digits, which OTLP's JSON also writes as base64.

    Any other as it is.
    """
    text = str(value or "")
    found = _HEX.fullmatch(text)
    if found is None and len(text) in (12, 24) and text.endswith("="):
        return base64.b64decode(text).hex()
    return found[1].lower() if found is not None else text


def _nanoseconds(value: Any) -> int:
    if isinstance(value, str) and not value.isdecimal():
        value = datetime.fromisoformat(value) if value else 0
    if isinstance(value, datetime):
        return (
            int(
                (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1e6
            )
            * 1000
        )
    return (
        int(value)
        if float(value) > 1e17
        else int(float(value) * (1e6 if float(value) > 1e11 else 1e9))
    )


def _value(value: Any) -> Any:
    """A value of OTLP as a plain one."""
    kind, found = next(iter((value or {}).items()), ("", None))
    if kind == "arrayValue":
        return [_value(one) for one in (found or {}).get("values") or ()]
    if kind == "kvlistValue":
        return {
            one["key"]: _value(one.get("value"))
            for one in (found or {}).get("values") or ()
        }
    return int(found or 0) if kind == "intValue" else found
