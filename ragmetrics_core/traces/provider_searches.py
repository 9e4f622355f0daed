"""What a model's provider searched while the model answered, read from spans. Pure.

Instrumentations write a model's reply as JSON, in the form of the framework or of the
provider. The capture of adapters reads these forms; here they are looked up in the
attributes of spans.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ragmetrics_core.capture import (
    Message,
    ProviderEvidence,
    add_provider_evidence,
    evidence_in_reply,
)
from ragmetrics_core.capture.forms import letters_of
from ragmetrics_core.capture.providers import ProviderSearch, may_tell_evidence
from ragmetrics_core.capture.tree import Node
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.messages import text_of_content, unwrap_message
from ragmetrics_core.traces.dialects import Reading, attribute_names
from ragmetrics_core.traces.span_calls import Call
from ragmetrics_core.traces.values import decode, plain, replies_in

# Every reply that tells of a provider's search or tool holds one of these words.
_MAY_TELL = lazy_pattern(
    r"_call\b|_tool_|_use\b|_result\b|citation|annotations|[gG]rounding|references?\b"
    r"|search_results|executed_tools|documents|built_in_tool|server_tool|_tools\b"
)
# What says by itself that a provider searched, be the rest readable or not: the type of
# a block, as JSON or as the whole value of an attribute; or Gemini's list of sources.
_KINDS_OF_SEARCHES = (
    r"(?:web_search_call|file_search_call|server_tool_use|server_tool_call"
    r"|web_search_tool_result|web_fetch_tool_result|url_citation|file_citation"
    r"|web_search_result_location)"
)
_SAYS_THAT_IT_SEARCHED = lazy_pattern(
    rf'"type":\s*"{_KINDS_OF_SEARCHES}"|\A(?:web|file)_search_call\Z'
    r'|"grounding_?[cC]hunks":\s*\[\s*\{'
)
# Fields of a reply that hold what the model wrote for tools or as data: a field
# "citations" in there is the application's own.
_WRITTEN_BY_MODEL = (
    "args",
    "arguments",
    "function_call",
    "input",
    "invalid_tool_calls",
    "parsed",
    "tool_calls",
    "tools",
)
# Fields beside the content under which frameworks keep more of a provider's reply.
_BESIDE_CONTENT = ("additional_kwargs", "response_metadata", "meta", "raw", "message")
_DEEPEST = 10  # lists and objects in each other that are looked into
_UNREADABLE = (
    "the model's provider searched; its results are not in the trace, or were recorded in"
    " a form that is not read"
)
_UNREADABLE_SEARCH = ProviderEvidence(
    (
        ProviderSearch(
            "provider's search", sources_without_text=((),), remedy=_UNREADABLE
        ),
    )
)
# By what the node of a span is told: its name, when it began and when it ended.
_SpanKey = tuple[str, float, float | None]


@dataclass(frozen=True)
class _Reply:
    """A reply of a model, as a span recorded it.

    Attributes:
        text: What the model said; "" where the text cannot be read.
        evidence: What its provider searched and found.
    """

    text: str
    evidence: ProviderEvidence


@dataclass(frozen=True)
class _Replies:
    """The replies of one turn that tell of searches.

    Attributes:
        of_models: Those in the spans of models.
        of_steps: Those in the spans of steps around the models.
    """

    of_models: Mapping[_SpanKey, _Reply]
    of_steps: Sequence[_Reply]

    def of(self, model: Node) -> _Reply | None:
        """The reply of a model; None if it tells of no search.

        Traceloop does not write it into the model's span: then a step's message with
        the same letters is taken.
        """
        if model.reply is None or model.error:
            return None
        reply = self.of_models.get((model.name, model.began, model.ended))
        if reply is not None:
            return reply
        normalized = letters_of(model.reply.text)
        for reply in self.of_steps:
            if normalized and letters_of(reply.text) == normalized:
                return reply
        return None


def add_provider_searches(root: Node, call: Call) -> None:
    """Add to the models of a turn what their providers searched while they answered.

    Example: OpenAI searched the web and found two pages: the model gets a call below
    it, with two documents.

    Args:
        root: The outermost call of the turn as a node; its models are changed.
        call: The same call with the spans inside it.
    """
    of_models: dict[_SpanKey, _Reply] = {}
    of_steps: list[_Reply] = []
    for inner in call.walk():
        span = inner.span
        if inner.reading is None:
            continue
        if inner.reading.kind == "model":
            reply = _reply_of_model(inner, inner.reading)
            if reply is not None:
                of_models[span.name, span.start, span.end] = reply
        else:
            of_steps += _messages_of_step(inner)
    if of_models or of_steps:
        _add_to_models(root, _Replies(of_models, of_steps))


def _add_to_models(node: Node, replies: _Replies) -> None:
    """Add the searches to the models at or below a node, once to each call of a model.

    Two instrumentations may record a model's call as a model inside a model: the outer
    one gets the searches.
    """
    reply = replies.of(node) if node.kind == "model" else None
    if reply is not None:
        _add_to_model(node, reply)
        return
    for child in node.children:
        _add_to_models(child, replies)


def _add_to_model(model: Node, reply: _Reply) -> None:
    """Add the searches of a reply to its model, and the text that its citations mean.

    A citation of "characters 0 to 12" counts in the text of this reply. The blocks of
    the reply may be joined in another way where the span records its text once more.
    """
    if reply.text and model.reply is not None:
        model.reply = Message("assistant", reply.text, model.reply.tool_calls)
    add_provider_evidence(model, reply.evidence)


def _reply_of_model(call: Call, reading: Reading) -> _Reply | None:
    """The reply in a model's span that tells of searches; None if it tells of none.

    Example: an output with a block "web_search_tool_result" gives the reply's text and
    the pages found. An output that says "web_search_call" in no readable form gives one
    search, of which the texts are unknown.
    """
    said_by_model = _said_by_model(reading)
    outputs = []
    for output in (*_values(call, "output"), *_values(call, "replies")):
        if output not in said_by_model:
            outputs.append(output)
    for output in outputs:
        for fields in _objects_in(_decoded(output), said_by_model):
            reply = _reply_in(fields)
            if reply is not None:
                return reply
    if any(_says_that_it_searched(output, said_by_model) for output in outputs):
        return _Reply("", _UNREADABLE_SEARCH)
    return None


def _said_by_model(reading: Reading) -> list[Any]:
    """The texts that a model said, and the objects that some of them stand for as JSON.

    A model may say {"answer": "…", "citations": […]}. Such words are no sign that its
    provider searched.
    """
    texts = list({reply.text for reply in reading.replies})
    decoded_texts = [decode(text) for text in texts]
    return [*texts, *(value for value in decoded_texts if value is not None)]


def _says_that_it_searched(value: Any, said_by_model: Sequence[Any]) -> bool:
    """Whether a recorded value says that the provider searched, be it readable or not.

    JSON that was cut before its end is looked through as text.

    Args:
        value: The value of an attribute.
        said_by_model: What the model said, which tells nothing of its provider.
    """
    decoded = _decoded(value)
    if decoded is None:
        return isinstance(value, str) and bool(_SAYS_THAT_IT_SEARCHED.search(value))
    objects = _objects_in(decoded, said_by_model)
    kinds = (str(fields.get("type")) for fields in objects)
    return any(re.fullmatch(_KINDS_OF_SEARCHES, kind) for kind in kinds)


def _messages_of_step(call: Call) -> Iterator[_Reply]:
    """Yield the messages of models in a step's span that tell of searches."""
    for value in (*_values(call, "input"), *_values(call, "output")):
        for fields in _objects_in(_decoded(value)):
            reply = _reply_in(fields)
            if reply is None:
                continue
            message = plain(dict(fields))
            if isinstance(message, Message) and message.role == "assistant":
                yield reply


def _values(call: Call, field_name: str) -> Iterator[Any]:
    """Yield the values of the attributes that hold a field, in any dialect.

    A name of the table that ends with a dot stands for all attributes that begin so.
    """
    attributes = call.span.attributes
    for name in attribute_names(field_name):
        if name.endswith("."):
            for key, value in attributes.items():
                if key.startswith(name):
                    yield value
        elif name in attributes:
            yield attributes[name]


def _decoded(value: Any) -> Any:
    """What a recorded value holds, where it may tell of a search; else None."""
    if isinstance(value, str) and _MAY_TELL.search(value) is None:
        return None
    return decode(value)


def _objects_in(
    value: Any, said_by_model: Sequence[Any] = (), depth: int = _DEEPEST
) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects in a value, each before those inside it.

    What the model wrote for tools, or as data, is left out. Example: of
    ``{"a": [{"b": 1}]}`` the whole object comes first, and then ``{"b": 1}``.

    Args:
        value: The value, of JSON.
        said_by_model: What the model said: texts and objects.
        depth: How many levels of lists and objects are looked into.
    """
    if not depth or value in said_by_model:
        return
    if isinstance(value, Mapping):
        yield value
        for key, entry in value.items():
            if key not in _WRITTEN_BY_MODEL:
                yield from _objects_in(entry, said_by_model, depth - 1)
    elif isinstance(value, (list, tuple)):
        yield from chain.from_iterable(
            _objects_in(element, said_by_model, depth - 1) for element in value
        )


def _reply_in(recorded: Mapping[str, Any]) -> _Reply | None:
    """Read a JSON object as a reply, with what the model's provider searched and found.

    Example: ``{"content": […, {"type": "web_search_tool_result", …}]}`` gives the text
    of the reply, and the pages that the provider found. None if the object tells of no
    search of a provider, as most objects do.
    """
    fields = _fields_of_provider(unwrap_message(recorded).fields)
    # values beside the content that may tell of a search, as under "response_metadata"
    beside_content = [fields.get(name) for name in _BESIDE_CONTENT]
    # To say so here spares reading the text of an object that tells of none.
    if not any(map(may_tell_evidence, (fields, *beside_content))):
        return None
    text = _text_of(recorded)
    evidence = evidence_in_reply({"content": text}, fields, *beside_content)
    return _Reply(text, evidence) if evidence else None


def _fields_of_provider(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message's fields in the form in which providers write them.

    ``{"answer": "…", "citations": ["a.pdf"]}`` is left without its citations: no
    provider wrote them, so they tell of no search of a provider.
    """
    if isinstance(fields.get("parts"), list):
        # a message of OpenTelemetry's conventions
        fields = {**fields, "content": [_block_of(part) for part in fields["parts"]]}
    if _are_citations_of_application(fields):
        fields = {key: entry for key, entry in fields.items() if key != "citations"}
    return fields


def _are_citations_of_application(fields: Mapping[str, Any]) -> bool:
    """Whether the application wrote the citations of an object, and no provider did.

    Providers list objects, or addresses of the web. Names of files and numbers, such as
    ["a.pdf"], are written by the application, or by the model that it asked for them.
    """
    citations = fields.get("citations")
    if not isinstance(citations, (list, tuple)) or not citations:
        return False
    is_of_provider = any(
        isinstance(citation, Mapping) or "://" in str(citation)
        for citation in citations
    )
    return not is_of_provider


def _text_of(value: Mapping[str, Any]) -> str:
    """What the model says in a reply; "" if that cannot be read."""
    replies = replies_in(plain(dict(value)))
    return "".join(reply.text for reply in replies)


def _block_of(part: Any) -> Any:
    """Write a part of a message in OpenTelemetry's form as a provider's content block.

    Example: ``{"type": "server_tool_call_response", "name": "web_search", "id": "s1",
    "server_tool_call_response": …}`` becomes ``{"type": "web_search_tool_result",
    "tool_use_id": "s1", "content": …}``. A part of another form is returned as it is.
    """
    if not isinstance(part, Mapping):
        return part
    match part.get("type"):
        case "text":
            return {"type": "text", "text": text_of_content(part)}
        case "server_tool_call":
            # whoever reads blocks looks for a call's arguments under "args"
            return {**part, "args": part.get("server_tool_call")}
        case "server_tool_call_response":
            returned = part.get("server_tool_call_response")
            name = part.get("name") or "server"
            if isinstance(returned, Mapping):
                # its own type, "web_search", tells more than the name of the part
                name = returned.get("type") or name
                returned = returned.get("results", returned)
            return {
                "type": f"{name}_tool_result",
                "tool_use_id": part.get("id"),
                "content": returned,
            }
    return part
