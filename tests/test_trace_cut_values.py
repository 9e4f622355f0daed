"""Values that an SDK cut at a limit of their length make a sample incomplete."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spans_by_hand import ANSWER, PROMPT, QUESTION, Told, openinference, otlp

from ragmetrics_core import Sample
from ragmetrics_core.data.unread import why_texts_are_unread
from ragmetrics_core.traces import SampleProcessor, samples_from_spans

PASSAGES = [
    f"Tower number {n} stands {n * 7} steps east of the old salt gate of Weilburg."
    for n in range(1, 6)
]


def spans_with_passages() -> list[Told]:
    """A chain whose retriever found five passages, all of them in the prompt."""
    chain, search, model = openinference()
    prompt = "\n".join([*PASSAGES, QUESTION])
    search["attributes"] = [
        text_attribute("openinference.span.kind", "RETRIEVER"),
        text_attribute("input.value", QUESTION),
    ]
    for n, text in enumerate(PASSAGES):
        name = f"retrieval.documents.{n}.document.content"
        search["attributes"].append(text_attribute(name, text))
    for attribute in model["attributes"]:
        if attribute["key"] == "llm.input_messages.0.message.content":
            attribute["value"] = {"stringValue": prompt}
    request = {"messages": [{"role": "user", "content": prompt}]}
    model["attributes"].append(text_attribute("input.value", json.dumps(request)))
    return [chain, search, model]


def text_attribute(key: str, text: str) -> Told:
    return {"key": key, "value": {"stringValue": text}}


def cut(spans: list[Told], limit: int) -> list[Told]:
    """The spans as an SDK exports them that has a limit of attribute length."""
    for told in spans:
        for attribute in told["attributes"]:
            text = attribute["value"].get("stringValue")
            if text is not None:
                attribute["value"] = {"stringValue": text[:limit]}
    return spans


def read(spans: list[Told]) -> tuple[Sample, list[str]]:
    samples = samples_from_spans([otlp(*spans)])
    (sample,) = samples
    return sample, samples.notes.sentences


def grade_of(sample: Sample) -> str | None:
    assert sample.capture is not None
    return sample.capture.grade


@settings(max_examples=30, deadline=None)
@given(st.integers(90, 300))
def test_a_passage_behind_a_cut_is_not_said_to_be_lost(limit: int) -> None:
    """The model was shown all five; behind the cut nobody knows."""
    sample, sentences = read(cut(spans_with_passages(), limit))
    assert sample.capture is not None
    assert sample.capture.grade == "incomplete"
    assert "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT" in " ".join(sample.capture.warnings)
    assert "not shown" not in " ".join(sample.capture.warnings)
    assert "raise the attribute length limit" in " ".join(sentences)
    assert "raise the attribute length limit" in why_texts_are_unread(sample)
    notes = sample.capture.passages or ()
    assert {note.share for note in notes} <= {1.0, None}
    assert all(note.kept is not False for note in notes)


@settings(max_examples=30, deadline=None)
@given(st.integers(90, 300), st.sampled_from(["u", '{"a": "b"}', "[{'a': 1}]"]))
def test_a_longer_value_of_another_service_hides_no_limit(
    limit: int, longer: str
) -> None:
    spans = cut(spans_with_passages(), limit)
    spans[0]["attributes"].append(text_attribute("further", longer.ljust(limit + 9)))
    sample, sentences = read(spans)
    assert grade_of(sample) == "incomplete"
    assert "raise the attribute length limit" in " ".join(sentences)


@settings(max_examples=30, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.sampled_from([json.dumps, repr]),
)
def test_whole_values_of_one_length_are_not_cut_beside_a_longer_one(
    value: object, written: Callable[[object], str]
) -> None:
    """Objects as JSON or as Python writes them: no limit made them that long."""
    length = 900
    text = written([{"key": value}]).rjust(length)[:length]
    if not text.endswith("}]"):  # the value is longer than that
        text = written([{"key": "value"}]).rjust(length)
    spans = spans_with_passages()
    for name, whole in {"a": text, "b": "b" * length, "c": "c" * length * 2}.items():
        spans[0]["attributes"].append(text_attribute(name, whole))
    assert grade_of(read(spans)[0]) == "exact"


@pytest.mark.parametrize("longer", ["", "c" * 999], ids=["longest", "shorter"])
def test_a_list_that_python_wrote_is_a_sign_only_among_the_longest_values(
    longer: str,
) -> None:
    """It is no JSON, so nobody sees where it breaks off."""
    spans = spans_with_passages()
    written = repr([{"page": "The mill of Weilburg is old. " * 50}])
    for name, text in {"a": written, "b": "b" * 999}.items():
        spans[0]["attributes"].append(text_attribute(name, text[:900]))
    spans[0]["attributes"].append(text_attribute("c", longer))
    grade = "exact" if longer else "incomplete"
    assert grade_of(read(spans)[0]) == grade


def test_nothing_is_said_of_a_cut_where_nothing_was_cut() -> None:
    sample, sentences = read(spans_with_passages())
    assert grade_of(sample) == "exact"
    assert [context.text for context in sample.known_contexts] == PASSAGES
    assert sentences == []


def test_short_texts_of_one_length_are_no_sign() -> None:
    sample, sentences = read(cut(spans_with_passages(), 50))
    assert sample.capture is not None
    assert "raise" not in " ".join([*sentences, *sample.capture.warnings])


def test_one_long_text_that_stands_in_several_spans_is_not_cut() -> None:
    chain, search, model = openinference()
    chain["attributes"].append(text_attribute("metadata.prompt", PROMPT))
    sample, _ = read([chain, search, model])
    assert grade_of(sample) == "exact"


@pytest.mark.parametrize("length", [63, 5000])
def test_whole_json_and_short_texts_of_one_length_are_not_cut(length: int) -> None:
    spans = openinference()
    for told, letter in zip(spans, "ab", strict=False):
        padding = length - len('{"": ""}') - 1
        text = json.dumps({letter: letter * padding})
        told["attributes"].append(text_attribute("further", text))
    sample, _ = read(spans)
    assert sample.answer == ANSWER
    assert grade_of(sample) == "exact"


@pytest.mark.parametrize("begins", ["", "[1] ", "{note} "])
def test_chunks_of_one_length_that_are_the_longest_texts_are_not_cut(
    begins: str,
) -> None:
    """A splitter makes them; no text here is JSON that breaks off."""
    spans = spans_with_passages()
    for letter in "ab":
        chunk = begins + letter * 3000
        spans[0]["attributes"].append(text_attribute(letter, chunk))
    assert grade_of(read(spans)[0]) == "exact"


def test_texts_of_one_length_that_are_not_the_longest_are_not_cut() -> None:
    spans = spans_with_passages()
    for letter in "ab":
        spans[0]["attributes"].append(text_attribute(letter, letter * 100))
    assert grade_of(read(spans)[0]) == "exact"


def test_a_limit_of_the_sdk_is_told_live() -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    seen: list[Sample | None] = []
    processor = SampleProcessor(
        ["adherence"], "lexical", on_result=lambda result: seen.append(result.sample)
    )
    provider = sdk.TracerProvider(span_limits=sdk.SpanLimits(max_attribute_length=200))
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("app")
    chain, search, model = spans_with_passages()

    def attributes_of(told: Told) -> dict[str, str]:
        values = {}
        for attribute in told["attributes"]:
            if "stringValue" in attribute["value"]:
                values[attribute["key"]] = attribute["value"]["stringValue"]
        return values

    with tracer.start_as_current_span("chain", attributes=attributes_of(chain)):
        for told in (search, model):
            with tracer.start_as_current_span(
                told["name"], attributes=attributes_of(told)
            ):
                pass
    provider.force_flush()
    provider.shutdown()
    (sample,) = seen
    assert sample is not None
    assert grade_of(sample) == "incomplete"
