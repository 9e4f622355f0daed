"""Links of OpenTelemetry join a retrieval with the answer of another trace."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link
from spans_by_hand import ANSWER, GATE, MILL, PROMPT, QUESTION, Told, otlp, span

from ragmetrics_core import Sample
from ragmetrics_core.traces import samples_from_spans

NOT_SHOWN = "The bell was cast in 1711 by Anna Brandt."


def search(trace: str, text: str, start: int = 1) -> Told:
    return span(
        *("search", "", start, start + 5, trace),
        openinference__span__kind="RETRIEVER",
        input__value=QUESTION,
        **{
            "retrieval.documents.0.document.id": f"id of {text}",
            "retrieval.documents.0.document.content": text,
        },
    )


def model(trace: str, start: int = 50) -> Told:
    return span(
        *("model", "", start, start + 20, trace),
        openinference__span__kind="LLM",
        **{
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": PROMPT,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": ANSWER,
        },
    )


def as_otlp(told: Told) -> Told:
    """A link as collectors write it."""
    return {"traceId": told["traceId"], "spanId": told["spanId"], "attributes": []}


def as_console(told: Told) -> Told:
    """A link as the console exporter writes it."""
    context = {"trace_id": f"0x{told['traceId']}", "span_id": f"0x{told['spanId']}"}
    return {"context": context, "attributes": {}}


def linked(told: Told, *others: Told, form: Callable[[Told], Any] = as_otlp) -> Told:
    return {**told, "links": [form(other) for other in others]}


def read(*spans: Told) -> tuple[list[Sample], dict[str, str]]:
    samples = samples_from_spans([otlp(one) for one in spans])
    listed = list(samples)
    return listed, {trace[0]: code for trace, code in samples.notes.without_sample}


def texts(sample: Sample) -> list[str]:
    return [context.text for context in sample.known_contexts]


@pytest.mark.parametrize("form", [as_otlp, as_console])
@pytest.mark.parametrize("links_of", ["the answer", "the retrieval"])
@pytest.mark.parametrize("is_shuffled", [False, True], ids=["in order", "shuffled"])
def test_a_link_joins_a_retrieval_with_the_answer_that_was_shown_it(
    form: Callable[[Told], Any], links_of: str, is_shuffled: bool
) -> None:
    found, said = search("b", GATE), model("c")
    if links_of == "the answer":
        said = linked(said, found, form=form)
    else:
        found = linked(found, said, form=form)
    spans = [found, said]
    if is_shuffled:
        random.Random(1).shuffle(spans)
    (sample,), codes = read(*spans)
    assert (sample.question, texts(sample), sample.answer) == (QUESTION, [GATE], ANSWER)
    assert codes == {}
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    assert "one links to the other" in " ".join(sample.capture.warnings)
    assert sample.capture.provenance["traces"] == f"{'b' * 32}, {'c' * 32}"


def test_an_answer_may_link_to_several_retrievals() -> None:
    first, second = search("b", GATE), search("d", MILL, 10)
    (sample,), codes = read(first, second, linked(model("c"), first, second))
    assert (texts(sample), sample.answer, codes) == ([GATE, MILL], ANSWER, {})


def test_a_link_to_what_the_model_was_not_shown_joins_nothing() -> None:
    found = search("b", NOT_SHOWN)
    (sample,), codes = read(found, linked(model("c"), found))
    assert (texts(sample), sample.answer) == ([NOT_SHOWN], None)
    assert codes == {"c": "no_retrieval"}


def test_without_a_link_nothing_is_joined() -> None:
    other = search("e", MILL, 200)
    samples, codes = read(search("b", GATE), linked(model("c"), other), other)
    assert [(texts(sample), sample.answer) for sample in samples] == [
        ([GATE], None),
        ([MILL], None),
    ]
    assert codes == {"c": "no_retrieval"}


@pytest.mark.parametrize(
    "links", ["none", 7, [None], ["x"], [{}], [{"traceId": 3}], [{"context": "x"}]]
)
def test_links_in_no_known_form_are_passed_over(links: Any) -> None:
    (sample,), codes = read({**search("b", GATE), "links": links}, model("c"))
    assert (texts(sample), sample.answer) == ([GATE], None)
    assert codes == {"c": "no_retrieval"}


def test_links_of_the_sdks_own_spans_are_read() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("application")
    with tracer.start_as_current_span("search") as found:
        found.set_attributes(attributes_of(search("b", GATE)))
    links = [Link(found.get_span_context())]
    with tracer.start_as_current_span("model", links=links) as said:
        said.set_attributes(attributes_of(model("c")))
    spans = exporter.get_finished_spans()
    in_both_forms = [spans, [json.loads(one.to_json()) for one in spans]]
    for values in in_both_forms:
        (sample,) = samples_from_spans(values)
        assert (texts(sample), sample.answer) == ([GATE], ANSWER)


def attributes_of(told: Told) -> dict[str, str]:
    return {one["key"]: one["value"]["stringValue"] for one in told["attributes"]}
