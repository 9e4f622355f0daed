"""Spans in the forms in which tools write them, told by content."""

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_HEX = re.compile(r"(?:0x)?([0-9a-f]{16}|[0-9a-f]{32})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Span:
    """One span: times in nanoseconds, ``parent`` empty for a root, ``scope`` the instrumentation that wrote it."""

    trace: str
    id: str
    parent: str
    name: str
    scope: str
    start: int
    end: int
    attributes: Mapping[str, Any] = field(repr=False)
    error: str | None = field(default=None, repr=False)


def spans_in(value: Any) -> Iterator[Span]:
    """The spans of one value: OTLP JSON, MLflow's JSON of a trace, or a list of these; nothing of any other value."""
    if isinstance(value, list):
        yield from (span for item in value for span in spans_in(item))
    elif isinstance(value, Mapping) and isinstance(value.get("data"), Mapping):
        info = value["info"]
        session = {"mlflow.trace.session": (info.get("trace_metadata") or {}).get("mlflow.trace.session")}
        for span in value["data"].get("spans") or ():
            names = {"spanId": "span_id", "parentSpanId": "parent_span_id"}
            names |= {"startTimeUnixNano": "start_time_unix_nano", "endTimeUnixNano": "end_time_unix_nano"}
            told = {**span, **{name: span.get(own) for name, own in names.items()}, "traceId": info["trace_id"]}
            yield _span(told, {**session, **(span.get("attributes") or {})}, "")
    elif isinstance(value, Mapping):
        groups = (group for one in value.get("resourceSpans") or () for group in one.get("scopeSpans") or ())
        for group in groups:
            for span in group.get("spans") or ():
                yield _span(span, _attributes(span), str((group.get("scope") or {}).get("name") or ""))


def _span(span: Mapping[str, Any], attributes: Mapping[str, Any], scope: str) -> Span:
    trace, own, parent = (_id(span.get(name)) for name in ("traceId", "spanId", "parentSpanId"))
    start, end = (int(span.get(name) or 0) for name in ("startTimeUnixNano", "endTimeUnixNano"))
    return Span(trace, own, parent, str(span.get("name") or ""), scope, start, end, attributes, _error(span))


def _error(span: Mapping[str, Any]) -> str | None:
    """What a span ended with; LangGraph's interrupts end one that is no failure."""
    status = span.get("status") or {}
    raised = [_attributes(one) for one in span.get("events") or () if one.get("name") == "exception"]
    kind = str(raised[-1].get("exception.type") or "").rpartition(".")[2] if raised else ""
    if status.get("code") not in (2, "STATUS_CODE_ERROR") and kind != "GraphInterrupt":
        return None
    said = f"{kind}: {raised[-1].get('exception.message') or ''}" if kind else str(status.get("message") or "")
    return said.partition("\nTraceback")[0].strip(": ") or "error"


def _id(value: Any) -> str:
    """An id as hexadecimal digits, which OTLP's JSON also writes as base64; any other as it is."""
    text = str(value or "")
    found = _HEX.fullmatch(text)
    if found is None and len(text) in (12, 24) and text.endswith("="):
        return base64.b64decode(text).hex()
    return found[1].lower() if found is not None else text


def _attributes(holder: Mapping[str, Any]) -> dict[str, Any]:
    given = holder.get("attributes") or ()
    return dict(given) if isinstance(given, Mapping) else {one["key"]: _value(one.get("value")) for one in given}


def _value(value: Any) -> Any:
    """A value of OTLP as a plain one."""
    kind, found = next(iter(value.items()), ("", None)) if isinstance(value, Mapping) else ("", None)
    if kind in ("arrayValue", "kvlistValue"):
        items: Any = found.get("values") if isinstance(found, Mapping) else ()
        return (
            [_value(one) for one in items]
            if kind[0] == "a"
            else {one["key"]: _value(one.get("value")) for one in items}
        )
    return int(str(found)) if kind == "intValue" else found
