"""Spans in the forms in which tools write them, told by content."""

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from ragmetrics_core.data.messages import text_of_content
from ragmetrics_core.data.name_matching import OTLP_GROUPS, PARENT_IDS, TRACE_IDS

_HEX_ID = re.compile(r"(?:0x)?([0-9a-f]{16}|[0-9a-f]{32})", re.IGNORECASE)
_FAILED = (2, "STATUS_CODE_ERROR", "ERROR")
_ID = ("span_id", "spanId", "context.span_id", "id")
_START = ("start_time", "startTime", "start_time_unix_nano", "startTimeUnixNano")
_END = ("end_time", "endTime", "end_time_unix_nano", "endTimeUnixNano")
_DROPPED_ATTRIBUTES = ("droppedAttributesCount", "dropped_attributes_count")
_DROPPED_EVENTS = ("droppedEventsCount", "dropped_events_count")
# metrics are of OTLP as well, and hold no spans
_OTLP_MARKS = frozenset({*OTLP_GROUPS, "resourceMetrics"})
_PARENT_IS_REMOTE = 0x200  # among the flags of OTLP
_MOST_NANOSECONDS = 2**63
_SESSION = "mlflow.trace.session"
MLFLOW_SIZES = "mlflow.trace.sizeStats"  # JSON that tells how many spans there are
MAX_KEYS = 12
"""Of a value or of attributes, in a message."""


_DETAILS = "gen_ai.client.inference.operation.details"
_REPLY = "gen_ai.choice"
_ROLE_BY_EVENT = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
# what reading a value raises if the value has another form than expected
ERRORS_OF_OTHER_FORMS = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    RecursionError,
    OverflowError,
)


@dataclass(frozen=True, slots=True)
class Span:
    """One **span**: a call as a tracing tool recorded it.

    A span that cannot be read has no ``id``, and perhaps no ``trace``.

    Attributes:
        trace: The id of its trace.
        id: Its own id.
        parent: The id of the span around it; empty for a root.
        name: What the instrumentation calls it.
        scope: The instrumentation that wrote it.
        start: When it began, in nanoseconds since 1970.
        end: When it ended, likewise.
        attributes: What was recorded, by the instrumentation's names.
        error: What it failed with; None if it did not.
        remote: Whether its parent is a span of another process.
        dropped: How many attributes, or events with messages, the SDK left out because
            its limit was reached.
    """

    trace: str
    id: str
    parent: str = ""
    name: str = ""
    scope: str = ""
    start: int = 0
    end: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict, repr=False)
    error: str | None = field(default=None, repr=False)
    remote: bool = False
    dropped: int = 0


class UnknownForm(Exception):
    """A value that holds no spans in any known form; its message names the keys."""


def spans_in(value: Any) -> Iterator[Span]:
    """Yield the spans of one value, in any of the forms in which tools export them.

    Args:
        value: A file's JSON, one of its lines or elements, or a span of the
            OpenTelemetry SDK.

    Raises:
        UnknownForm: If it is an object of another form.
    """
    if hasattr(value, "to_json"):  # a span of OpenTelemetry's SDK
        yield _span(_fields_of_sdk_span(value))
    elif isinstance(value, list):
        for element in value:
            yield from spans_in(element)
    elif isinstance(value, Mapping):  # its keys tell which tool wrote it
        yield from _spans_in_object(value)
    else:  # a text or a number holds no span: it is counted as unreadable
        yield _span(value)


def _spans_in_object(value: Mapping[str, Any]) -> Iterator[Span]:
    """Yield the spans of one JSON object, in the form of any tool.

    Its keys tell which tool wrote it. Example: ``{"resourceSpans": […]}`` was written
    by a collector in OTLP, and ``{"data": […]}`` is an answer of Langfuse.

    Raises:
        UnknownForm: If its keys are those of no known form.
    """
    held_spans = value.get("data", value.get("observations"))
    if isinstance(held_spans, list):  # an answer of Langfuse or Phoenix
        yield from spans_in(held_spans)
    elif not _OTLP_MARKS.isdisjoint(value):  # OTLP, as collectors write it
        yield from _otlp_spans(value)
    elif isinstance(held_spans, Mapping) and "info" in value:  # a trace of MLflow
        # what MLflow tells beside the spans, its session and how many there are, is
        # added to the attributes of each
        info = value["info"]
        trace_metadata = info.get("trace_metadata") or {}
        of_trace = {name: trace_metadata.get(name) for name in (_SESSION, MLFLOW_SIZES)}
        for fields in held_spans.get("spans") or ():
            span = _span(fields, trace_id=info.get("trace_id"))
            yield replace(span, attributes={**of_trace, **span.attributes})
    elif any(name in value for name in (*TRACE_IDS, "context")):
        # one span, of the console exporter, Phoenix, Langfuse or LangSmith
        yield _span(value)
        # the runs inside a run of LangSmith
        yield from spans_in(value.get("child_runs") or [])
    else:
        keys = sorted(map(str, value))[:MAX_KEYS]
        raise UnknownForm(", ".join(keys))


def _fields_of_sdk_span(span: Any) -> dict[str, Any]:
    """Return the fields of a span of OpenTelemetry's SDK, by the names of its JSON.

    Example: the span "retrieve" gives {"trace_id": "0af7…", "name": "retrieve", …}. A
    span without a parent has no "parent_id". The span's own ``to_json`` would take
    several times as long, and slow down the application that is watched.
    """
    # JSON has lists where the SDK has tuples
    attributes = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in span.attributes.items()
    }
    events = [
        {"name": event.name, "attributes": event.attributes} for event in span.events
    ]
    fields = {
        "trace_id": f"{span.context.trace_id:032x}",
        "span_id": f"{span.context.span_id:016x}",
        "name": span.name,
        "scope": getattr(span.instrumentation_scope, "name", ""),
        "start_time": span.start_time,
        "end_time": span.end_time,
        "attributes": attributes,
        "status": {"code": span.status.status_code.name},
        "dropped_attributes_count": span.dropped_attributes,
        "dropped_events_count": span.dropped_events,
        "events": events,
    }
    if span.parent is not None:
        # remote: the span around it was recorded by another process
        fields["parent_id"] = f"{span.parent.span_id:016x}"
        fields["flags"] = _PARENT_IS_REMOTE if span.parent.is_remote else 0
    return fields


def _otlp_spans(value: Any) -> Iterator[Span]:
    """Yield the spans in an object of OTLP, the form that collectors write.

    Example: ``{"resourceSpans": [{"scopeSpans": [{"spans": [a, b]}]}]}`` yields the
    spans a and b. Where something in the object has a wrong form, one span that is
    marked as unreadable is yielded in place of the rest.
    """
    try:
        for name in OTLP_GROUPS:
            for inner in value.get(name) or ():
                yield from _otlp_spans(inner)
        scope = value.get("scope")
        scope_name = scope.get("name") if isinstance(scope, Mapping) else None
        for fields in value.get("spans") or ():
            yield _span(fields, scope=scope_name)
        for record in value.get("logRecords") or ():
            # a record of a wrong form may belong to any span
            if not isinstance(record, Mapping) or record.get("spanId"):
                event = _span(record)
                # Without a name it is merged later into the span with its id. An
                # unreadable one, which has no id, keeps the name that says so.
                yield replace(event, name="") if event.id else event
    except ERRORS_OF_OTHER_FORMS:
        yield _span(value)  # an unreadable span, since ``value`` is no span


def _span(value: Any, **further_fields: Any) -> Span:
    """Read a span from a mapping, by the names that any tool has for its fields.

    Example: ``{"traceId": "0af7…", "spanId": "b7ad…", "name": "retrieve"}``, and the
    same with "trace_id" and "span_id".

    Args:
        value: The mapping.
        further_fields: Fields that stand beside the mapping, and override its own.

    Returns:
        The span. For a value that is no span, or that lacks an id or a trace, a span
        named "unreadable" that has no id, and the id of its trace if that can be read.
    """
    trace = ""
    try:
        # the ids may stand deeper: {"context": {"trace_id": "0af7…", "span_id": "b7ad…"}}
        fields = {**value, **further_fields}
        context = fields.get("context")
        if isinstance(context, Mapping):
            for key, entry in context.items():
                fields[f"context.{key}"] = entry
        span_id = _hex_id(_first(fields, _ID))
        trace = _hex_id(_first(fields, TRACE_IDS))
        start = _nanoseconds(_first(fields, _START))
        end = _nanoseconds(_first(fields, _END))
        flags = int(fields.get("flags") or 0)
        # the messages may stand in events
        attributes = _attributes(fields)
        messages = _messages_in_events(fields, attributes)
        # Events that the SDK left out at its limit count only if those that are left
        # hold messages: a span with an event for each token may lose some of these.
        n_dropped = int(_first(fields, _DROPPED_ATTRIBUTES) or 0)
        if messages:
            n_dropped += int(_first(fields, _DROPPED_EVENTS) or 0)
        span = Span(
            trace=trace,
            id=span_id,
            parent=_hex_id(_first(fields, PARENT_IDS)),
            name=str(fields.get("name") or "span"),
            scope=str(fields.get("scope") or ""),
            start=start,
            end=end,
            attributes={**messages, **attributes},
            error=_error(fields),
            remote=bool(flags & _PARENT_IS_REMOTE),
            dropped=n_dropped,
        )
    except ERRORS_OF_OTHER_FORMS:
        return Span(trace, "", name="unreadable")
    has_valid_times = max(abs(start), abs(end)) < _MOST_NANOSECONDS
    if trace and span_id and has_valid_times:
        return span
    return Span(trace, "", name="unreadable")


def _messages_in_events(
    fields: Mapping[str, Any], attributes: Mapping[str, Any]
) -> dict[str, Any]:
    """The messages that the events of a span tell, as attributes; empty for none.

    The attributes are those of OpenTelemetry's latest conventions, which write them
    into an event. Older conventions write an event for each message, with its role in
    the event's name. Example: the event ``("gen_ai.user.message", {"content": "Who?"})``
    becomes a message under "gen_ai.input.messages".

    Args:
        fields: The fields of the span, its events among them.
        attributes: The attributes of the span.
    """
    ready_made: dict[str, Any] = {}
    prompt: list[dict[str, Any]] = []
    replies: list[dict[str, Any]] = []
    for event in fields.get("events") or ():
        name = str(event.get("name"))
        of_event = _attributes({"attributes": event.get("attributes") or {}})
        if name == _DETAILS:
            # the newer event, with "gen_ai.input.messages" ready made; where several
            # events have the same attribute, the first event's counts
            ready_made = {**of_event, **ready_made}
        elif name in _ROLE_BY_EVENT:
            content = of_event.get("content")
            prompt.append(_message_of_event(_ROLE_BY_EVENT[name], content))
        elif name == _REPLY:
            replies.append(_message_of_event("assistant", of_event.get("message")))
    messages: dict[str, Any] = {}
    if attributes.get("gen_ai.operation.name") == "execute_tool":
        # the messages are the tool's arguments and its result
        if prompt:
            messages["gen_ai.tool.call.arguments"] = prompt[0]["parts"]
        if replies:
            parts = replies[0]["parts"]
            messages["gen_ai.tool.call.result"] = text_of_content(parts) or parts
    else:
        if prompt:
            messages["gen_ai.input.messages"] = prompt
        if replies:
            messages["gen_ai.output.messages"] = replies
    return {**messages, **ready_made}


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The first field of some names that holds anything; "" if none does."""
    for name in names:
        value = fields.get(name)
        if value not in (None, ""):
            return value
    return ""


def _attributes(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span, in whichever form the tool writes them.

    OTLP lists keys and values: ``[{"key": "llm.model_name", "value": {"stringValue":
    "gpt-4o"}}]`` gives {"llm.model_name": "gpt-4o"}. Phoenix nests them, or has a
    column for each. LangSmith and Langfuse have fields of their own, which get the
    names of attributes.
    """
    attributes = fields.get("attributes")
    if isinstance(attributes, list):
        return _otlp_attributes(attributes)
    if "run_type" in fields:
        return _langsmith_attributes(fields)
    columns = {
        key.removeprefix("attributes."): value
        for key, value in fields.items()
        if key.startswith("attributes.")
    }
    kind = fields.get("span_kind")
    if isinstance(attributes, Mapping) or kind or columns:
        # Phoenix: by their flat names, with the span's kind
        flat = {"openinference.span.kind": kind} if kind else {}
        for name, value in {**columns, **(attributes or {})}.items():
            flat.update(_leaves(name, value))
        return flat
    return _langfuse_attributes(fields)


def _otlp_attributes(attributes: Sequence[Any]) -> dict[str, Any]:
    """The attributes of a span of OTLP, which writes a list of keys and values."""
    return {each["key"]: _otlp_value(each.get("value")) for each in attributes}


def _langsmith_attributes(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Make attributes of a run of LangSmith: its metadata, kind, inputs and outputs.

    Example: ``{"run_type": "llm", "inputs": {…}}`` gives "langsmith.span.kind": "llm"
    and the inputs under "gen_ai.prompt".
    """
    attributes = {}
    extra = fields.get("extra") or {}
    metadata = extra.get("metadata") or {}
    for key, value in metadata.items():
        attributes[f"langsmith.metadata.{key}"] = value
    attributes["langsmith.span.kind"] = fields.get("run_type")
    attributes["gen_ai.prompt"] = fields.get("inputs")
    attributes["gen_ai.completion"] = fields.get("outputs")
    attributes["langsmith.invocation_params"] = extra.get("invocation_params")
    return attributes


def _langfuse_attributes(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of an observation of Langfuse; of a trace only its session."""
    attributes = {}
    parameters = fields.get("modelParameters") or fields.get("model_parameters")
    if fields.get("type"):
        attributes = {
            "langfuse.observation.type": fields["type"],
            "langfuse.observation.input": fields.get("input"),
            "langfuse.observation.output": fields.get("output"),
            "langfuse.observation.model.name": fields.get("model"),
            "langfuse.observation.model.parameters": parameters,
        }
    attributes["session.id"] = fields.get("sessionId") or fields.get("session_id")
    return attributes


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a nested attribute with their paths.

    Lists of plain values and metadata are leaves.
    """
    if name == "metadata":
        yield name, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _leaves(f"{name}.{key}", entry)
    elif isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value):
        for place, element in enumerate(value):
            yield from _leaves(f"{name}.{place}", element)
    else:
        yield name, value


def _error(fields: Mapping[str, Any]) -> str | None:
    """Say with which error a span ended; None if it did not fail.

    Example: "ValueError: no key". LangGraph interrupts a run by an exception
    (``GraphInterrupt``) to ask a person: it is returned as well, though the span did
    not fail.
    """
    status = fields.get("status")
    if not isinstance(status, Mapping):
        status = {"code": fields.get("status_code"), "message": fields.get("error")}
    events = fields.get("events") or ()
    exceptions = [event for event in events if event.get("name") == "exception"]
    last_exception = exceptions[-1] if exceptions else {}
    exception = _attributes({"attributes": last_exception.get("attributes") or {}})
    full_name = str(exception.get("exception.type") or "")
    _, _, kind = full_name.rpartition(".")
    has_failed = (
        status.get("code", status.get("status_code")) in _FAILED
        or fields.get("level") == "ERROR"
        or bool(fields.get("error"))
    )
    if not has_failed and kind != "GraphInterrupt":
        return None
    # tools write the message in one of three places
    message = (
        exception.get("exception.message")
        or status.get("message")
        or fields.get("statusMessage")
        or ""
    )
    text, _, _ = f"{kind}: {message}".partition("\nTraceback")
    return text.strip(": ") or "error"  # where neither type nor message is recorded


def _hex_id(value: Any) -> str:
    """An id as hexadecimal digits; any other text as it is.

    OTLP's JSON may write ids as base64.
    """
    text = str(value or "")
    match = _HEX_ID.fullmatch(text)
    if match is not None:
        return match[1].lower()
    if len(text) in (12, 24) and text.endswith("="):
        return base64.b64decode(text).hex()
    return text


def _nanoseconds(value: Any) -> int:
    """Return a time in nanoseconds since 1970.

    Examples: "1970-01-01T00:00:02" and "2" give 2_000_000_000, and so does 2.0.

    Args:
        value: A date, or its text; else a number of seconds, milliseconds or
            nanoseconds. A date without a zone is taken for one of UTC. An empty text
            gives 0.

    Raises:
        ValueError: If it is none of these.
    """
    if isinstance(value, str) and not value.isdecimal():
        value = datetime.fromisoformat(value) if value else 0
    if isinstance(value, datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
        microseconds = int(value.timestamp() * 1e6)
        return microseconds * 1000
    number = float(value)
    # how large the number is tells its unit, for a time in the present decades
    is_in_nanoseconds = number > 1e17
    is_in_milliseconds = number > 1e11
    if is_in_nanoseconds:
        return int(value)
    if is_in_milliseconds:
        return int(number * 1e6)
    return int(number * 1e9)


def _otlp_value(value: Any) -> Any:
    """A value of OTLP, a mapping of its kind to its content, as a plain one."""
    entries = list((value or {}).items())
    kind, content = entries[0] if entries else ("", None)
    if kind == "arrayValue":
        elements = (content or {}).get("values") or ()
        return [_otlp_value(element) for element in elements]
    if kind == "kvlistValue":
        return _otlp_attributes((content or {}).get("values") or ())
    if kind == "intValue":
        return int(content or 0)
    return content


def _message_of_event(role: str, content: object) -> dict[str, Any]:
    """A message by the latest conventions, of the content of an event."""
    decoded = content
    if isinstance(content, str) and content.startswith(("[", "{")):
        with suppress(ValueError, RecursionError):
            decoded = json.loads(content)
    if isinstance(decoded, list):
        return {"role": role, "parts": [_part_of_message(part) for part in decoded]}
    if isinstance(decoded, Mapping):
        return {"role": role, "parts": decoded}
    return {"role": role, "parts": [{"type": "text", "content": str(decoded or "")}]}


def _part_of_message(part: object) -> object:
    """Write a part of a message in the form of the latest conventions.

    Amazon Bedrock names the kind of a part, a text or the call or result of a tool, by
    its only key. Example: ``{"text": "Hi"}`` becomes ``{"type": "text", "content":
    "Hi"}``. Parts of other forms stay as they are.
    """
    if not isinstance(part, Mapping):
        return part
    if isinstance(part.get("text"), str) and "type" not in part:
        return {"type": "text", "content": part["text"]}
    call = part.get("toolUse")
    if isinstance(call, Mapping):
        return {
            "type": "tool_call",
            "id": call.get("toolUseId"),
            "name": call.get("name"),
            "arguments": call.get("input"),
        }
    result = part.get("toolResult")
    if isinstance(result, Mapping):
        return {
            "type": "tool_call_response",
            "id": result.get("toolUseId"),
            "response": result.get("content"),
        }
    return part
