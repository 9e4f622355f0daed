"""What the spans of a turn tell of texts that no span holds, or a part of them. Pure.

A request may show files, images, or what the model's provider keeps, and the provider
may search while the model answers. None of that is read: the sample says that it was
there.

A limit of length shows itself: several unlike texts have it, and none is longer; or JSON
breaks off there. Nothing is mended. A sample of such spans is *incomplete*, and what
became of its passages is unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ragmetrics_core.capture.structures import find_instances
from ragmetrics_core.capture.tree import Node
from ragmetrics_core.capture.unrecorded import UnrecordedEvidence, unrecorded_evidence
from ragmetrics_core.data import PassageNote, Sample
from ragmetrics_core.data.messages import unwrap_message
from ragmetrics_core.traces.dialects import attribute_names, value_of
from ragmetrics_core.traces.span_values import CONTENT_FIELDS, decode, mapping
from ragmetrics_core.traces.spans import Span

_SHORTEST_LIMIT = 64  # of a length at which an SDK cuts texts
# JSON and no text that begins with a bracket, such as "[1] The bridge"
_SURE_JSON_BEGINS = re.compile(r'\s*(?:\{\s*"|\[\s*[\[{"])')
_LONGEST_TOKEN = 6  # "\\u00e9": behind its first letter JSON may break off within it

_DOTS = ("...", "…", "...]", "…]", "...)", "…)")
_DEEPEST = 8  # lists and objects in each other that are looked into
# fields of a request under which frameworks hand parameters on to the model
_FIELDS_OF_PARAMETERS = ("kwargs", "generation_kwargs", "extra_body")
# of a request; what instructs the model is text alone
_FIELDS_OF_REQUEST = ("messages", "input", "contents", "prompt", "prompts")
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


def unrecorded_evidence_of(attributes: Mapping[str, Any]) -> UnrecordedEvidence:
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
    # of a component with a template, documents are what it is filled with
    parameters.pop("documents", None)
    return unrecorded_evidence(parameters, blocks)


def says_that_provider_searched(
    attributes: Mapping[str, Any], texts_of_models: set[str]
) -> bool:
    """Whether a span says that a model's provider searched while the model answered.

    Args:
        attributes: The attributes of any span of the turn.
        texts_of_models: What models said in the turn; one may itself be such JSON.
    """
    # of the replies those that hold JSON: the leaves of a message are the model's words
    values = map(attributes.get, attribute_names("input", "output", "replies"))
    return any(
        _SAYS_THAT_IT_SEARCHED.search(value) is not None
        for value in values
        if isinstance(value, str) and value not in texts_of_models
    )


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
        names = CONTENT_FIELDS if message.role is not None else _FIELDS_OF_REQUEST
        contents = [message.fields[name] for name in names if message.fields.get(name)]
        if message.role is not None:
            yield from contents
            # Traceloop writes a block as JSON into a text
            yield from map(decode, find_instances(contents, str))
        elif contents:
            yield from _blocks_in(contents, depth - 1)
        elif not _NAMES_OF_BLOCKS.isdisjoint(message.fields):
            yield message.fields


def cut_spans_of(spans: Sequence[Span]) -> set[str]:
    """Find the spans of a trace whose values were cut at a limit of their length.

    JSON that breaks off at its end was cut, so its length is the limit. Example: a text
    of 4096 characters ends with ``{"text": "Ro``: each span with a text of this length
    was cut.

    Args:
        spans: The spans of one trace.

    Returns:
        The ids of the spans; empty if nothing was cut.
    """
    texts = list(chain.from_iterable(map(_texts_of, spans)))
    limits = {len(text) for text in texts if _is_json_that_breaks_off(text)}
    if not limits:
        return set()
    return {
        span.id
        for span in spans
        if any(len(text) in limits for text in _texts_of(span))
    }


def _at_a_limit(texts: Collection[str]) -> set[str]:
    """The texts that end at a limit: several unlike ones that are as long as the longest."""
    longest = max(map(len, texts), default=0)
    unlike_texts = {text for text in texts if len(text) == longest}
    is_limit = longest >= _SHORTEST_LIMIT and len(unlike_texts) > 1
    return unlike_texts if is_limit else set()


def _texts_of(span: Span) -> Iterator[str]:
    """Yield the texts that a span recorded, also those in lists."""
    for value in span.attributes.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            for element in value:
                if isinstance(element, str):
                    yield element


def _is_json_that_breaks_off(text: str) -> bool:
    """Whether a text is JSON up to its end, and lacks what should stand behind that."""
    if len(text) < _SHORTEST_LIMIT or not _SURE_JSON_BEGINS.match(text):
        return False
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        is_open_text = error.msg.startswith("Unterminated string")
        return is_open_text or error.pos >= len(text) - _LONGEST_TOKEN
    except RecursionError:
        return True  # nobody reads what is nested so deep
    except ValueError:
        return False  # a number that is too long
    return False


def are_documents_cut(root: Node) -> bool:
    """Whether documents of a run are recorded in part.

    They end at one length, unless a prompt shows that they do, or in dots that no prompt
    shows. Example: a span holds "Rome has been the…", and a prompt shows more of it.
    """
    texts: set[str] = set()
    shown_texts: list[str] = []
    for node in root.walk():
        for document in (*(node.documents or ()), *node.input_documents):
            texts.add(document.text)
        if node.kind == "model":
            shown_texts += [message.text for message in node.prompt]
    at_limit = _at_a_limit(texts)
    # Do prompts show some of these, and none in the midst of words? Then a splitter made
    # passages equally long.
    letters_behind = [
        shown[shown.index(text) + len(text) :][:1]
        for text in at_limit
        for shown in shown_texts
        if text in shown
    ]
    do_end_in_words = any(
        letter.isalnum() or letter == " " for letter in letters_behind
    )
    if at_limit and (do_end_in_words or not letters_behind):
        return True
    if _at_a_limit({*texts, *shown_texts}):
        return True
    return any(
        text.rstrip().endswith(_DOTS)
        and not any(text.strip() in shown for shown in shown_texts)
        for text in texts
    )


def with_unknown_fates(sample: Sample) -> Sample:
    """Make unknown what became of the passages of a sample that lacks recorded texts.

    A passage that is not found may stand behind a cut, in the prompt or in what a step
    returned. Any other sample is returned as it is.
    """
    notes = sample.capture
    if notes is None or "not_recorded" not in notes.doubts:
        return sample
    unknown = tuple(PassageNote() for _ in sample.retrieved or ())
    changed_notes = notes.model_copy(update={"passages": unknown})
    return sample.model_copy(update={"capture": changed_notes})
