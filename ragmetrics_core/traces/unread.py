"""What the spans of a turn tell of texts that no span holds. Pure.

A request may show files, images, or what the model's provider keeps, and the provider
may search while the model answers. None of that is read: the sample says that it was
there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from ragmetrics_core.capture.structures import find_instances
from ragmetrics_core.capture.unread_requests import UnreadRequest, unread_request
from ragmetrics_core.data.messages import unwrap_message
from ragmetrics_core.traces.dialects import attribute_names, value_of
from ragmetrics_core.traces.span_values import decode, mapping

_DEEPEST = 8  # lists and objects in each other that are looked into
# fields of a request under which frameworks hand parameters on to the model
_FIELDS_OF_PARAMETERS = ("kwargs", "generation_kwargs", "extra_body")
_FIELDS_OF_CONTENT = ("content", "contents", "parts", "blocks")
_FIELDS_OF_REQUEST = (
    *("messages", "input", "contents", "prompt", "prompts"),
    *("system", "system_instruction", "instructions"),
)
_NAMES_OF_BLOCKS = frozenset(
    ("type", "inline_data", "inlineData", "file_data", "fileData")
)
# a block of a message that is no text, as Python writes it
_BLOCK_WRITTEN_BY_PYTHON = re.compile(
    r"\b(Image|Audio|Video|Document|File)(?:Block|Content)\("
)
# What says that a provider searched: the type of a block, Gemini's list of sources, or
# addresses that are listed beside the reply.
_SAYS_THAT_IT_SEARCHED = re.compile(
    r'"type":\s*"(?:web_search_call|file_search_call|server_tool_use|server_tool_call'
    r"|web_search_tool_result|web_fetch_tool_result|url_citation|file_citation"
    r'|web_search_result_location)"|"grounding_?[cC]hunks":\s*\[\s*\{'
    r'|"(?:citations|search_results)":\s*\[[^]]*://'
)
PROVIDER_SEARCHED = (
    "the model's provider searched, and what it found is not read from traces; let a"
    " tool or retriever of the application search"
)


def unread_request_of(attributes: Mapping[str, Any]) -> UnreadRequest:
    """From a model's span, find what the model was shown but no recorded text holds.

    Example: ``llm.invocation_parameters`` with ``previous_response_id`` says that the
    provider inserted earlier turns, which no span holds.

    Args:
        attributes: The attributes of the model's span, in any dialect.
    """
    inputs = list(_values(attributes, "input", "prompt"))
    blocks = list(chain.from_iterable(map(_blocks_in, inputs)))
    if any(_values(attributes, "images")):
        blocks.append({"type": "image"})
    if any(_values(attributes, "files")):
        blocks.append({"type": "file"})
    parameters: dict[str, Any] = {}
    for value in _values(attributes, "parameters"):
        parameters.update(_without_none(value))
    for value in inputs:
        for name in _FIELDS_OF_PARAMETERS:
            parameters.update(_without_none(decode(mapping(value).get(name))))
        if "model" in mapping(value):  # a whole request, as of a provider's client
            parameters.update(_without_none(value))
    for value in _values(attributes, "output"):
        if mapping(value).get("object") == "response":  # OpenAI's repeats the request's
            parameters.update(_without_none(value))
    return unread_request(parameters, blocks)


def says_that_provider_searched(
    attributes: Mapping[str, Any], texts_of_models: set[str]
) -> bool:
    """Whether a span says that a model's provider searched while the model answered.

    Args:
        attributes: The attributes of any span of the turn.
        texts_of_models: What models said in the turn; one may itself be such JSON.
    """
    # of the replies those that hold JSON: the leaves of a message are the model's words
    for name in attribute_names("input", "output", "replies"):
        value = attributes.get(name)
        if not isinstance(value, str) or value in texts_of_models:
            continue
        if _SAYS_THAT_IT_SEARCHED.search(value):
            return True
    return False


def _values(attributes: Mapping[str, Any], *field_names: str) -> Iterator[Any]:
    """Yield what the attributes of some fields hold, in any dialect, JSON decoded."""
    for name in attribute_names(*field_names):
        value = value_of(attributes, name)
        if value:
            decoded = decode(value)
            yield value if decoded is None else decoded


def _without_none(value: Any) -> dict[str, Any]:
    """The entries of a mapping that are not None; of any other value none."""
    return {key: entry for key, entry in mapping(value).items() if entry is not None}


def _blocks_in(value: Any, depth: int = _DEEPEST) -> Iterator[object]:
    """Yield the texts and blocks of a recorded input that no model wrote.

    Example: ``{"messages": [{"role": "user", "content": [block]}]}`` yields the block.
    """
    if isinstance(value, str):
        written = _BLOCK_WRITTEN_BY_PYTHON.search(value)
        yield {"type": written[1].lower()} if written is not None else value
    elif isinstance(value, (list, tuple)) and depth:
        for element in value:
            yield from _blocks_in(element, depth - 1)
    elif isinstance(value, Mapping) and depth:
        message = unwrap_message(value)
        if message.role == "assistant":
            return
        names = _FIELDS_OF_CONTENT if message.role is not None else _FIELDS_OF_REQUEST
        contents = [message.fields[name] for name in names if message.fields.get(name)]
        if message.role is not None:
            yield from contents
            # Traceloop writes a block as JSON into a text
            yield from map(decode, find_instances(contents, str))
        elif contents:
            yield from _blocks_in(contents, depth - 1)
        elif not _NAMES_OF_BLOCKS.isdisjoint(message.fields):
            yield message.fields
