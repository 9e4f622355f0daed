"""What a model's provider searched while the model answered, read from spans. Pure.

Instrumentations write a model's reply as JSON, in the form of the framework or of the
provider. Capture reads these forms; here they are looked up in the attributes of a
model's span. What only another span tells counts as a search that is not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from ragmetrics_core.capture import (
    Message,
    ProviderEvidence,
    add_provider_evidence,
    evidence_in_reply,
)
from ragmetrics_core.capture.providers import ProviderSearch, may_tell_evidence
from ragmetrics_core.capture.tree import Node
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.messages import unwrap_message
from ragmetrics_core.traces.dialects import Reading, attribute_names
from ragmetrics_core.traces.span_calls import Call
from ragmetrics_core.traces.values import decode, plain, replies_in

# Every reply that tells of a provider's search or tool holds one of these words.
_MAY_TELL = lazy_pattern(
    r"_call\b|_tool_|_use\b|_result\b|citation|annotations|[gG]rounding|references?\b"
    r"|search_results|executed_tools|documents|built_in_tool|server_tool|_tools\b"
)
# What says by itself that a provider searched, be the rest readable or not: the type of
# a block, or Gemini's list of sources.
_KINDS_OF_SEARCHES = frozenset(
    (
        *("web_search_call", "file_search_call", "server_tool_use", "server_tool_call"),
        *("web_search_tool_result", "web_fetch_tool_result", "url_citation"),
        *("file_citation", "web_search_result_location"),
    )
)
# the same in JSON that was cut, or as the whole value of an attribute
_SAYS_THAT_IT_SEARCHED = lazy_pattern(
    rf'"type":\s*"(?:{"|".join(_KINDS_OF_SEARCHES)})"|\A(?:web|file)_search_call\Z'
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


class _Reply(NamedTuple):
    """A reply of a model that tells of searches.

    Attributes:
        text: What the model said; "" where the text cannot be read.
        evidence: What its provider searched and found.
    """

    text: str
    evidence: ProviderEvidence


# By what the node of a span is told: its name, when it began and when it ended.
_Replies = dict[tuple[str, float, float | None], _Reply]


def add_provider_searches(root: Node, call: Call) -> None:
    """Add to the models of a turn what their providers searched while they answered.

    Example: OpenAI searched the web and found two pages: the model gets a call below
    it, with two documents.

    Args:
        root: The outermost call of the turn as a node; its models are changed.
        call: The same call with the spans inside it.
    """
    readings = [(one, one.reading) for one in call.walk() if one.reading is not None]
    said_by_models = _said_by_models([reading for _, reading in readings])
    replies: _Replies = {}
    is_told_by_step = False
    for inner, reading in readings:
        if reading.kind == "model":
            outputs = [*_values(inner, "output"), *_values(inner, "replies")]
            reply = _reply_of_model(outputs, said_by_models)
            if reply is not None:
                span = inner.span
                replies[span.name, span.start, span.end] = reply
        else:
            values = (*_values(inner, "input"), *_values(inner, "output"))
            is_told_by_step |= _say_that_it_searched(values, said_by_models)
    models = [node for node in root.walk() if node.kind == "model" and node.reply]
    if is_told_by_step and not replies and models:
        # Traceloop writes a message's blocks only into the step behind the model
        add_provider_evidence(models[-1], _UNREADABLE_SEARCH)
    _add_to_models(root, replies)


def _add_to_models(node: Node, replies: _Replies) -> None:
    """Add the searches to the models at or below a node, once to each call of a model.

    Two instrumentations may record a model's call as a model inside a model: the outer
    one gets the searches, and the text in which citations by characters count.
    """
    reply = replies.get((node.name, node.began, node.ended))
    if node.kind == "model" and reply is not None and node.reply and not node.error:
        if reply.text:
            node.reply = Message("assistant", reply.text, node.reply.tool_calls)
        add_provider_evidence(node, reply.evidence)
        return
    for child in node.children:
        _add_to_models(child, replies)


def _said_by_models(readings: Sequence[Reading]) -> list[Any]:
    """The texts that models said, and the objects that some of them stand for as JSON.

    A model may say {"answer": "…", "citations": […]}: no sign that its provider searched.
    """
    replies = chain.from_iterable(reading.replies for reading in readings)
    texts = list({reply.text for reply in replies})
    return [*texts, *(one for one in map(decode, texts) if one is not None)]


def _reply_of_model(
    outputs: Sequence[Any], said_by_models: Sequence[Any]
) -> _Reply | None:
    """The reply in a model's span that tells of searches; None if it tells of none.

    Example: an output with a block "web_search_tool_result" gives the reply's text and
    the pages found. An output that says "web_search_call" in no readable form gives one
    search, of which the texts are unknown.
    """
    for output in outputs:
        for fields in _objects_in(_decoded(output), said_by_models):
            reply = _reply_in(fields)
            if reply is not None:
                return reply
    if _say_that_it_searched(outputs, said_by_models):
        return _Reply("", _UNREADABLE_SEARCH)
    return None


def _say_that_it_searched(values: Sequence[Any], said_by_models: Sequence[Any]) -> bool:
    """Whether recorded values say that a provider searched, be they readable or not."""
    for value in values:
        decoded = _decoded(value)
        objects = _objects_in(decoded, said_by_models)
        if any(str(one.get("type")) in _KINDS_OF_SEARCHES for one in objects):
            return True
        is_unread = decoded is None and value not in said_by_models
        if is_unread and _SAYS_THAT_IT_SEARCHED.search(str(value)):
            return True
    return False


def _decoded(value: Any) -> Any:
    """What a recorded value holds, where it may tell of a search; else None."""
    if isinstance(value, str) and _MAY_TELL.search(value) is None:
        return None
    return decode(value)


def _values(call: Call, field_name: str) -> Iterator[Any]:
    """Yield the values of the attributes that hold a field, in any dialect.

    A name of the table that ends with a dot stands for all attributes that begin so.
    """
    names = attribute_names(field_name)
    prefixes = tuple(name for name in names if name.endswith("."))
    for key, value in call.span.attributes.items():
        if key in names or (prefixes and key.startswith(prefixes)):
            yield value


def _objects_in(
    value: Any, said_by_model: Sequence[Any], depth: int = _DEEPEST
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

    None if the object tells of no search of a provider, as most objects do. Citations
    that name neither objects nor addresses, such as ["a.pdf"], are the application's.
    """
    fields = dict(unwrap_message(recorded).fields)
    citations = fields.get("citations")
    if isinstance(citations, (list, tuple)) and citations:
        are_objects = any(isinstance(one, Mapping) for one in citations)
        if not are_objects and "://" not in str(citations):
            del fields["citations"]
    # values beside the content that may tell of a search, as under "response_metadata"
    beside_content = [fields.get(name) for name in _BESIDE_CONTENT]
    # To say so here spares reading the text of an object that tells of none.
    if not any(map(may_tell_evidence, (fields, *beside_content))):
        return None
    text = "".join(reply.text for reply in replies_in(plain(dict(recorded))))
    evidence = evidence_in_reply({"content": text}, fields, *beside_content)
    return _Reply(text, evidence) if evidence else None
