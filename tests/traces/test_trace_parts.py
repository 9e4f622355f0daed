"""Spans that hold texts in part, cut by an SDK or recorded as previews, make a sample incomplete."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from losses import losses
from spans_by_hand import ANSWER, PROMPT, QUESTION, Told, openinference, otlp

from ragmetrics_core import Sample, evaluate
from ragmetrics_core.reporting.journey import why_texts_are_unread
from ragmetrics_core.traces import SampleProcessor, samples_from_spans

FACT = "The gate was opened on 4 May 1874 by the mayor Elias Holm."
PASSAGES = (
    "The harbour trades in herring and timber, and keeps a customs house with clerks"
    f" who speak Danish and Dutch. {FACT}",
    "The gate is made of riveted iron plates from the Brenner foundry. The plates were"
    " carried up the cliff by mules in spring, and masons slept in tents below.",
    "The steamer sank off the skerries in a gale of the winter of 1869. Her crew of"
    " eleven was saved by fishermen with a rope and two boats.",
)


def text_attribute(key: str, text: str) -> Told:
    return {"key": key, "value": {"stringValue": text}}


def spans_with(recorded: Sequence[str], prompt: str) -> list[Told]:
    """A chain whose retriever's span holds texts, and whose model was shown a prompt."""
    chain, search, model = openinference()
    search["attributes"] = [
        text_attribute("openinference.span.kind", "RETRIEVER"),
        text_attribute("input.value", QUESTION),
    ]
    for n, text in enumerate(recorded):
        name = f"retrieval.documents.{n}.document.content"
        search["attributes"].append(text_attribute(name, text))
    for attribute in model["attributes"]:
        if attribute["key"] == "llm.input_messages.0.message.content":
            attribute["value"] = {"stringValue": prompt}
    request = {"messages": [{"role": "user", "content": prompt}]}
    model["attributes"].append(text_attribute("input.value", json.dumps(request)))
    return [chain, search, model]


def numbered(texts: Sequence[str]) -> str:
    lines = [f"[{n}] {text}" for n, text in enumerate(texts, start=1)]
    return "\n".join([*lines, QUESTION])


def cut(spans: list[Told], limit: int) -> list[Told]:
    """The spans as an SDK exports them that has a limit of attribute length."""
    for told in spans:
        for attribute in told["attributes"]:
            text = attribute["value"].get("stringValue")
            if text is not None:
                attribute["value"] = {"stringValue": text[:limit]}
    return spans


def read(spans: list[Told]) -> tuple[Sample, str]:
    samples = samples_from_spans([otlp(*spans)])
    (sample,) = samples
    return sample, " ".join(samples.notes.sentences)


def grade_of(sample: Sample) -> str | None:
    return sample.capture.grade


def assert_nothing_is_known_of_passages(sample: Sample) -> None:
    assert sample.capture.grade == "incomplete"
    notes = sample.capture.passages or ()
    assert {(note.share, note.kept, note.context) for note in notes} <= {
        (None, None, None)
    }
    assert "not shown" not in " ".join(sample.capture.warnings)


@settings(max_examples=30, deadline=None)
@given(st.integers(90, 300), st.sampled_from(["", "u", '{"a": "b"}', "[{'a': 1}]"]))
def test_a_passage_behind_a_cut_is_not_said_to_be_lost(limit, longer):
    """The model was shown all; behind the cut nobody knows, whatever else is longer."""
    spans = cut(spans_with(PASSAGES, numbered(PASSAGES)), limit)
    if longer:
        spans[0]["attributes"].append(
            text_attribute("further", longer.ljust(limit + 9))
        )
    sample, sentences = read(spans)
    assert_nothing_is_known_of_passages(sample)
    assert "raise the attribute length limit" in sentences
    assert "raise the attribute length limit" in why_texts_are_unread(sample)


@pytest.mark.nightly
@settings(max_examples=30, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.sampled_from([json.dumps, repr]),
)
def test_whole_values_are_not_cut(value, written):
    spans = spans_with(PASSAGES, numbered(PASSAGES))
    whole = written([{"key": value}]).rjust(900)
    for name, text in {"a": whole, "b": "b" * len(whole), "c": "[1] " * 900}.items():
        spans[0]["attributes"].append(text_attribute(name, text))
    sample, sentences = read(spans)
    assert grade_of(sample) == "exact"
    assert not sentences


def test_a_limit_of_the_sdk_is_told_live():
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    seen: list[Sample | None] = []
    processor = SampleProcessor(
        ["adherence"], "lexical", on_result=lambda result: seen.append(result.sample)
    )
    provider = sdk.TracerProvider(span_limits=sdk.SpanLimits(max_attribute_length=200))
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("app")
    chain, search, model = spans_with(PASSAGES, numbered(PASSAGES))

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


@settings(max_examples=40, deadline=None)
@given(st.integers(70, 120), st.sampled_from(["...", "…", " [...]", ""]))
def test_beginnings_of_documents_are_in_part(n_letters, dots):
    """They end in dots, or at one length."""
    recorded = [text[:n_letters].rstrip(" .") + dots for text in PASSAGES]
    if not dots:
        recorded = [text[:n_letters] for text in PASSAGES]
    sample, sentences = read(spans_with(recorded, numbered(PASSAGES)))
    assert_nothing_is_known_of_passages(sample)
    assert "only a part" in sentences
    assert "whole texts" in why_texts_are_unread(sample)


@pytest.mark.parametrize("template", [numbered, lambda texts: json.dumps([*texts])])
def test_chunks_of_one_length_that_a_prompt_shows_are_whole(template):
    """A splitter may cut each passage at the same length, in the midst of a word."""
    chunks = [passage[:90] for passage in PASSAGES]
    sample, _ = read(spans_with(chunks, template(chunks)))
    assert grade_of(sample) == "exact"
    assert [context.text for context in sample.contexts or ()] == chunks


def test_a_fact_behind_a_preview_is_not_known_to_be_lost():
    recorded = [f"{text[:80]}..." for text in PASSAGES]
    sample, _ = read(spans_with(recorded, numbered(PASSAGES)))
    sample = sample.model_copy(update={"reference": (FACT,)})
    journey = evaluate([sample], metrics=["accuracy"], judge="lexical").journey()
    assert not losses(journey)
    assert journey.of("not_retrieved", "facts") is None
    assert "hold only a part" in str(journey)


@pytest.mark.parametrize(
    "prompt",
    [
        pytest.param(numbered(PASSAGES), id="lines"),
        pytest.param(f"{' '.join(PASSAGES)} {QUESTION}", id="one line"),
        pytest.param("".join(PASSAGES) + QUESTION, id="no blanks"),
        pytest.param(
            "\n".join(f"{text} (page {n})" for n, text in enumerate(PASSAGES)),
            id="pages behind",
        ),
        pytest.param(
            f"{PASSAGES[0]}\n{PASSAGES[1]}\nUse {PASSAGES[2]} to answer it well and soon",
            id="a template goes on",
        ),
    ],
)
def test_whole_sentences_are_whole_in_every_template(prompt):
    sample, sentences = read(spans_with(PASSAGES, prompt))
    assert grade_of(sample) == "exact"
    assert not sentences


@pytest.mark.parametrize("end", ["...", "…", " [...]", ""])
def test_a_text_that_is_shown_as_recorded_is_whole(end):
    """A search of the web returns such snippets, and a model is shown no more."""
    snippets = [text[: 70 + n] + end for n, text in enumerate(PASSAGES)]
    for prompt in (numbered(snippets), " ".join([*snippets, QUESTION])):
        sample, _ = read(spans_with(snippets, prompt))
        assert "hold only a part" not in str(sample.capture)


def test_chunks_that_overlap_may_be_merged():
    """The rest of each chunk stands in the next one."""
    whole = PASSAGES[0]
    chunks = [whole[:70], whole[40:110], whole[80:]]
    sample, _ = read(spans_with(chunks, f"{whole}\n{QUESTION}"))
    assert grade_of(sample) == "exact"


def test_the_spans_by_hand_are_whole():
    chain, search, model = openinference()
    chain["attributes"].append(text_attribute("metadata.prompt", PROMPT))
    sample, _ = read([chain, search, model])
    assert (sample.answer, grade_of(sample)) == (ANSWER, "exact")
