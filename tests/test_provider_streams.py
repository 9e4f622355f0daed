"""A reply that was streamed tells what the same reply tells in one piece, or its sample is hedged."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from pydantic import BaseModel
from test_provider_evidence import (
    ADDRESS,
    ANSWER,
    FACT,
    SHAPES,
    SIZE,
    anthropic_search,
    said,
    sample_of,
    web_location,
    web_result,
)

from ragmetrics_core.capture import ProviderEvidence, StreamedReply, evidence_in_reply

OF_ANTHROPIC = [name for name in SHAPES if name.startswith("Anthropic")]
OF_GEMINI = [
    "Gemini: the web",
    "Gemini: files with their texts",
    "Gemini: files with their texts, as JSON names them",
    "Gemini: pages that it was told to read",
    "Gemini: calculations, as its client has them",
    "Gemini: it did not search",
]
GRADES = ("exact", "located", "inferred", "incomplete")
CUTS = st.lists(st.integers(0, 60), max_size=4)


def pieces(text: str, cuts: Sequence[int]) -> list[str]:
    """A text in pieces: "lamp", cut at 1 and 3, is "l", "am" and "p"."""
    bounds = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


def events(blocks: Sequence[Mapping[str, Any]], cuts: Sequence[int]) -> Iterator[Any]:
    """The events by which Anthropic streams blocks of content, counts at the end."""
    for index, block in enumerate(blocks):
        start = dict(block)
        deltas: list[dict[str, Any]] = []
        for citation in start.pop("citations", None) or ():
            deltas.append({"type": "citations_delta", "citation": citation})
        if block["type"] == "text":
            start["text"] = ""
            for piece in pieces(block["text"], cuts):
                deltas.append({"type": "text_delta", "text": piece})
        if "input" in block:
            start["input"] = {}
            for piece in pieces(json.dumps(block["input"]), cuts):
                deltas.append({"type": "input_json_delta", "partial_json": piece})
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    counts = {
        f"{name}_requests": sum(
            str(block["type"]) == f"{name}_tool_result" for block in blocks
        )
        for name in ("web_search", "web_fetch")
    }
    yield {"type": "message_delta", "usage": {"server_tool_use": counts}}


def streamed(
    chunks: Sequence[Any], text: str, own: Sequence[Mapping[str, Any]] | None = ()
) -> ProviderEvidence:
    """The evidence of a stream, as a framework hands it on: text, last chunk, and what was added up."""
    reply = StreamedReply()
    for chunk in chunks:
        reply.add(chunk)
    last = chunks[-1] if chunks else {}
    return evidence_in_reply({"content": text}, {**dict(last), **reply.reply(own)})


def blocks_of(name: str) -> list[dict[str, Any]]:
    (place,) = SHAPES[name].places
    return [dict(block) for block in place.get("content", ())]


def text_of(blocks: Sequence[Mapping[str, Any]]) -> str:
    return "".join(block["text"] for block in blocks if block["type"] == "text")


@pytest.mark.parametrize("name", OF_ANTHROPIC)
@settings(max_examples=examples(5))
@given(cuts=CUTS)
def test_events_of_anthropic_tell_what_the_blocks_tell(
    name: str, cuts: list[int]
) -> None:
    blocks = blocks_of(name)
    whole = evidence_in_reply({"content": text_of(blocks)}, {"content": blocks})
    stream = streamed(list(events(blocks, cuts)), text_of(blocks))
    assert (stream.calls, stream.annotations) == (whole.calls, whole.annotations)


@pytest.mark.parametrize("name", OF_ANTHROPIC)
@settings(max_examples=examples(5))
@given(cuts=CUTS)
def test_events_without_the_beginnings_of_blocks_are_the_same_or_hedged(
    name: str, cuts: list[int]
) -> None:
    """LlamaIndex drops these events: then neither names nor results of tools are known."""
    blocks = blocks_of(name)
    whole = sample_of(evidence_in_reply({"content": blocks}))
    left = [
        event
        for event in events(blocks, cuts)
        if event["type"] != "content_block_start"
    ]
    stream = sample_of(streamed(left, text_of(blocks)))
    assert whole.capture is not None
    assert stream.capture is not None
    worse = GRADES.index(stream.capture.grade) >= GRADES.index(whole.capture.grade)
    is_failed = "no search was left" in name  # the count of a search says no more
    assert worse or is_failed
    if stream.contexts != whole.contexts:
        assert stream.capture.grade in ("inferred", "incomplete")


def test_a_search_in_a_stream_has_its_query_and_the_cited_words_their_place() -> None:
    blocks = [
        *anthropic_search([web_result()]),
        said("Well. "),
        said(ANSWER, citations=[web_location()]),
    ]
    left = [
        event for event in events(blocks, [5]) if event["type"] != "content_block_start"
    ]
    evidence = streamed(left, text_of(blocks))
    assert [(call.name, call.query) for call in evidence.calls] == [
        ("web_search", "lamp lighthouse")
    ]
    (annotation,) = evidence.annotations
    assert (annotation.start, annotation.end) == (6, 6 + len(ANSWER))
    assert annotation.quote == FACT


LAMP = {"query": "lamp lighthouse"}
ROME = {"query": "weather Rome"}


@pytest.mark.parametrize("asked", [[ROME, LAMP], [LAMP, ROME]])
@pytest.mark.parametrize(
    ("own", "of_provider"),
    [
        ([ROME], [LAMP]),
        ([ROME, LAMP], []),
        ([], [ROME, LAMP]),
        (None, []),
    ],
)
def test_tools_of_the_application_are_none_of_the_provider(
    own: list[dict[str, str]] | None,
    of_provider: list[dict[str, str]],
    asked: list[dict[str, str]],
) -> None:
    calls = streamed(requests_without_begin(asked), ANSWER, own).calls
    expected = [arguments["query"] for arguments in asked if arguments in of_provider]
    assert [call.query for call in calls] == expected


def test_of_requests_that_no_own_tool_equals_the_first_are_left_out() -> None:
    # the framework changed the arguments of the own tool
    own = [{"town": "Rome"}]
    calls = streamed(requests_without_begin([ROME, LAMP]), ANSWER, own).calls
    assert [call.query for call in calls] == ["lamp lighthouse"]


def requests_without_begin(asked: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [
        {
            "type": "content_block_delta",
            "index": index,
            "delta": {
                "type": "input_json_delta",
                "partial_json": json.dumps(arguments),
            },
        }
        for index, arguments in enumerate(asked)
    ]


@pytest.mark.parametrize("name", OF_GEMINI)
@settings(max_examples=examples(5))
@given(n_empty=st.integers(0, 2))
def test_metadata_of_gemini_may_come_in_any_chunk(name: str, n_empty: int) -> None:
    """Code comes part by part, and a last chunk may hold no more than an empty text."""
    fields = {key: value for one in SHAPES[name].places for key, value in one.items()}
    content = fields.pop("content", {})
    parts = content.get("parts", ()) if isinstance(content, Mapping) else ()
    chunks: list[dict[str, Any]] = [{"content": {"parts": [part]}} for part in parts]
    chunks.append(fields)
    chunks += [{"content": {"parts": [{"text": ""}]}} for _ in range(n_empty)]
    whole = evidence_in_reply(
        {"content": ANSWER}, {**fields, "content": {"parts": parts}}
    )
    assert streamed(chunks, ANSWER) == whole


def test_annotations_of_a_chat_completion_may_come_before_its_last_chunk() -> None:
    cited = {"type": "url_citation", "url_citation": {"url": ADDRESS, "title": "Lamp"}}
    other = {"type": "url_citation", "url_citation": {"url": "https://b.example"}}
    whole = evidence_in_reply(
        {"content": ANSWER}, {"choices": [{"message": {"annotations": [cited, other]}}]}
    )
    chunks = [
        {"choices": [{"delta": {"content": ANSWER}}]},
        {"choices": [{"delta": {"annotations": [cited]}}]},
        {"choices": [{"delta": {"annotations": [other]}}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    ]
    assert streamed(chunks, ANSWER) == whole
    assert whole.calls


def test_metadata_of_gemini_that_a_later_chunk_tells_anew_counts_as_told_last() -> None:
    (place,) = SHAPES["Gemini: files with their texts"].places
    begun = {"grounding_metadata": {"web_search_queries": ["horn"]}}
    whole = evidence_in_reply({"content": ANSWER}, place)
    assert streamed([begun, place, {"content": None}], ANSWER) == whole


@given(n_repeated=st.integers(1, 3))
def test_a_list_of_sources_that_each_chunk_repeats_is_one_list(n_repeated: int) -> None:
    (place,) = SHAPES["Perplexity: addresses and results"].places
    chunks = [place] * n_repeated
    stream = streamed(chunks, ANSWER)
    assert stream.calls == evidence_in_reply({"content": ANSWER}, place).calls


class Delta(BaseModel):
    """An object of a provider's client."""

    type: str = "citations_delta"
    citation: Any


def test_objects_of_a_client_are_read_like_mappings() -> None:
    reply = StreamedReply()
    reply.add(
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": Delta(citation=web_location()),
        }
    )
    sample = sample_of(evidence_in_reply(reply.reply([])))
    assert sorted(context.text for context in sample.known_contexts) == sorted(
        [SIZE, FACT]
    )


VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    *("type", "index", "delta", "usage", "choices", "content", "parts"),
                    *("content_block", "citation", "partial_json", "annotations"),
                    *("grounding_metadata", "server_tool_use", "executable_code"),
                ]
            ),
            inner | st.sampled_from(["content_block_delta", "content_block_start"]),
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@given(chunks=st.lists(VALUES, max_size=4))
def test_no_chunk_raises(chunks: list[Any]) -> None:
    reply = StreamedReply()
    for chunk in chunks:
        reply.add(chunk)
    assert isinstance(evidence_in_reply(reply.reply([])), ProviderEvidence)
