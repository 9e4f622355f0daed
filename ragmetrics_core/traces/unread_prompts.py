"""What a request held beside the prompt's texts, by the span of its model. Pure.

A request may show files, images, or what the model's provider keeps: no recorded text
holds these. It may also hand documents in. Capture knows both by their names; here they
are looked up in the attributes of spans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragmetrics_core.capture import (
    UnreadRequest,
    parameters_in_reply,
    unread_request,
)
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.messages import unwrap_message
from ragmetrics_core.traces.dialects import attribute_names, dialects_of, value_of
from ragmetrics_core.traces.values import decode, fields_of_repr

_DEEPEST = 8  # lists and objects in each other that are looked into
_FIELDS_OF_MESSAGES = (
    "messages",
    "input",
    "contents",
    "prompt",
    "prompts",
    "system",
    "system_instruction",
    "instructions",
)
_FIELDS_OF_CONTENT = ("content", "contents", "parts", "blocks")
# Fields in which LlamaIndex and Haystack hand parameters on to the model.
_FIELDS_OF_PARAMETERS = ("kwargs", "generation_kwargs")
_REPR_OF_MESSAGE = "ChatMessage("  # a message as Python writes it
_PART_OF_OPENINFERENCE = lazy_pattern(
    r"llm\.input_messages\.(\d+)\.message\.contents\.(\d+)\."
)
_NAMES_OF_BLOCKS = frozenset(
    ("type", "inline_data", "inlineData", "file_data", "fileData")
)
_NOT_WRITTEN = (
    "the model was sent something besides texts, such as an image, that the"
    " instrumentation could not record; send the text of it in a message"
)
# what Traceloop writes of each call of LlamaIndex
_MARKS_OF_CALL = frozenset(("traceloop.span.kind", "traceloop.entity.name"))
_ARGUMENTS_OF_CALL = "traceloop.entity.input"
_MESSAGES_OF_CALL = "gen_ai.input.messages"
_FILE: Mapping[str, Any] = {"type": "file"}
_IMAGE: Mapping[str, Any] = {"type": "image"}


def unread_request_of(attributes: Mapping[str, Any]) -> UnreadRequest:
    """From a model's span, find what the model was shown but no recorded text holds.

    It is told in sentences to the sample's user. Example: ``llm.invocation_parameters``
    with ``previous_response_id`` says that the provider inserted earlier turns, which
    no span holds.

    Args:
        attributes: The attributes of the model's span, in any dialect.
    """
    inputs = [decode(value) for value in _values(attributes, "input")]
    contents = _everything_sent(attributes)
    contents.append(_blocks_told_by_attributes(attributes, inputs))
    unread = unread_request(_parameters(attributes, inputs), contents)
    if _lacks_arguments(attributes):
        # ``evidence`` says, in sentences, why evidence was not recorded
        sentences = (*unread.evidence, _NOT_WRITTEN)
        return replace(unread, evidence=sentences)
    return unread


def _blocks_told_by_attributes(
    attributes: Mapping[str, Any], inputs: Sequence[Any]
) -> list[Mapping[str, Any]]:
    """Return blocks for the files and images of which only attributes tell.

    A block ``{"type": "file"}`` stands for any number of files, and holds none of them.

    Args:
        attributes: The attributes of the model's span.
        inputs: The inputs that it records, decoded.
    """
    blocks = []
    if any(_values(attributes, "images")):
        blocks.append(_IMAGE)
    # An input in JSON holds all parts of its messages. Attributes for single parts
    # leave out what an instrumentation does not know, such as a file.
    has_all_parts = any(isinstance(value, (Mapping, list)) for value in inputs)
    lacks_part = not has_all_parts and _has_gap_in_contents(attributes)
    if lacks_part or any(_values(attributes, "files")):
        blocks.append(_FILE)
    return blocks


def _lacks_arguments(attributes: Mapping[str, Any]) -> bool:
    """Whether Traceloop wrote the messages of a LlamaIndex call, and not its arguments.

    It writes all arguments as JSON, and drops them if one of them cannot be written so:
    the bytes or the address of an image. The messages, which it writes after, have
    their texts alone.
    """
    is_call = attributes.keys() >= _MARKS_OF_CALL and _MESSAGES_OF_CALL in attributes
    return is_call and _ARGUMENTS_OF_CALL not in attributes


def _everything_sent(attributes: Mapping[str, Any]) -> list[object]:
    """Collect what a model was sent and did not write: texts, and lists of blocks."""
    everything: list[object] = []
    for field_name in ("input", "prompt"):
        for value in _values(attributes, field_name):
            everything += _contents_sent(decode(value))
    if "traceloop" in dialects_of(attributes):
        everything += list(map(_blocks_in_texts, everything))
    return everything


def _values(attributes: Mapping[str, Any], field_name: str) -> Iterator[Any]:
    """Yield what the attributes of a field hold, in any dialect."""
    for name in attribute_names(field_name):
        value = value_of(attributes, name)
        if value:
            yield value


def _parameters(
    attributes: Mapping[str, Any], inputs: list[Any]
) -> Mapping[str, object]:
    """Collect the parameters of a request that are not None, by their names.

    They stand in attributes of their own, in the recorded request, or in the reply,
    where OpenAI repeats them. Example: the input {"model": "gpt-4o", "messages": […],
    "previous_response_id": "resp_7"} is a request: all its fields are collected.

    Args:
        attributes: The attributes of the span.
        inputs: The inputs that it records, decoded.
    """
    sources: list[Any] = [decode(value) for value in _values(attributes, "parameters")]
    for value in inputs:
        if isinstance(value, Mapping):
            sources += [decode(value.get(name)) for name in _FIELDS_OF_PARAMETERS]
            # other inputs have fields of the application, such as its conversation
            if "model" in value:
                sources.append(value)
    for value in _values(attributes, "output"):
        sources.append(parameters_in_reply(decode(value)))
    parameters: dict[str, object] = {}
    for source in sources:
        if isinstance(source, Mapping):
            parameters.update(
                (name, value) for name, value in source.items() if value is not None
            )
    return parameters


def _contents_sent(value: object, depth: int = _DEEPEST) -> Iterator[object]:
    """Yield what a recorded value holds that a model was sent and did not write.

    Example: ``{"messages": [{"role": "user", "content": "Who?"}]}`` yields "Who?". A
    text or block that stands in no message is yielded itself.
    """
    if isinstance(value, str) and value.startswith(_REPR_OF_MESSAGE):
        # LlamaIndex and Haystack under OpenInference
        value = fields_of_repr(value) or value
    if isinstance(value, (list, tuple)) and depth:
        for element in value:
            yield from _contents_sent(element, depth - 1)
    elif isinstance(value, Mapping) and depth:
        message = unwrap_message(value)
        is_message = message.role is not None
        names = _FIELDS_OF_CONTENT if is_message else _FIELDS_OF_MESSAGES
        contents = [message.fields[name] for name in names if message.fields.get(name)]
        if message.role == "assistant":
            return  # a model wrote it
        if is_message:
            yield from contents
        elif contents:  # a request
            yield from _contents_sent(contents, depth)
        elif not _NAMES_OF_BLOCKS.isdisjoint(message.fields):
            yield [message.fields]
    elif isinstance(value, str):
        yield value


def _blocks_in_texts(content: object) -> list[Any]:
    """Return the blocks that Traceloop wrote as JSON into the texts of a message.

    Example: the part ``{"type": "text", "content": '{"type": "file", …}'}``.
    """
    parts = content if isinstance(content, (list, tuple)) else [content]
    blocks: list[Any] = []
    for part in parts:
        text = part.get("content") if isinstance(part, Mapping) else part
        decoded = decode(text) if isinstance(text, str) else None
        blocks += decoded if isinstance(decoded, list) else [decoded]
    return [block for block in blocks if isinstance(block, Mapping)]


def _has_gap_in_contents(attributes: Mapping[str, Any]) -> bool:
    """Whether a message has more parts than OpenInference wrote attributes for.

    It leaves out parts that it does not know, such as a file. Example: the names hold
    ``…contents.1.…`` and no ``…contents.0.…``.
    """
    n_parts_by_message: dict[str, int] = {}
    parts: set[tuple[str, str]] = set()
    for name in attributes:
        match = _PART_OF_OPENINFERENCE.match(name)
        if match is not None:
            message, part = match.groups()
            parts.add((message, part))
            n_parts = max(n_parts_by_message.get(message, 0), int(part) + 1)
            n_parts_by_message[message] = n_parts
    return sum(n_parts_by_message.values()) > len(parts)
