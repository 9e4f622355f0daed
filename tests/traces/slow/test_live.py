"""Traces judged as they end: the processor under OpenTelemetry's SDK, and under a real instrumentation of LangChain."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_ragmetrics import capture
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragmetrics_core import Sample, metric
from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.models.judge_work import as_judge_work
from ragmetrics_core.traces import SampleProcessor, samples_from_spans

FACT, ANSWER = "Anna Brandt kept the lamp.", "Anna Brandt."
LONG = 600.0  # nothing ends by itself; a flush waits for no span


class Application:
    """An application that writes its spans by hand, as OpenInference does."""

    def __init__(self, *processors: Any) -> None:
        self.provider = TracerProvider(shutdown_on_exit=False)
        for one in processors:
            self.provider.add_span_processor(one)
        self.tracer = self.provider.get_tracer("app")

    @contextmanager
    def span(self, kind: str, **told: str) -> Iterator[Any]:
        attributes = {
            "openinference.span.kind": kind,
            **{key.replace("__", "."): it for key, it in told.items()},
        }
        with self.tracer.start_as_current_span(
            kind.lower(), attributes=attributes
        ) as span:
            yield span

    def search(self, question: str) -> None:
        document = {
            "retrieval.documents.0.document.id": "a",
            "retrieval.documents.0.document.content": FACT,
        }
        with self.span("RETRIEVER", input__value=question, **document):
            pass

    def model(self, question: str) -> None:
        said = (
            {"role": "user", "content": f"{FACT} {question}"},
            {"role": "assistant", "content": ANSWER},
        )
        told = {
            f"llm.{way}_messages.0.message.{key}": text
            for way, message in zip(("input", "output"), said, strict=True)
            for key, text in message.items()
        }
        with self.span("LLM", **told):
            pass

    def ask(self, question: str = "Who?", session: str = "") -> None:
        with self.span(
            "CHAIN", input__value=question, output__value=ANSWER, session__id=session
        ):
            self.search(question)
            self.model(question)


def processor(*, linger_s: float = LONG, **settings: Any) -> SampleProcessor:
    return SampleProcessor(
        ["context_adherence"], "lexical", linger_s=linger_s, **settings
    )


def questions(of: SampleProcessor) -> list[str | None]:
    return [sample.question for sample in of.samples]


# A real instrumentation


class Library(BaseRetriever):
    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return [Document(FACT, id="a"), Document("The mill lies by the river.", id="b")]


def chain() -> Runnable[str, str]:
    shown = RunnableLambda(
        lambda asked: f"{Library().invoke(asked)[0].page_content} Question: {asked}"
    )
    return shown | FakeListChatModel(responses=[ANSWER]) | StrOutputParser()


@contextmanager
def instrumented(*processors: Any) -> Iterator[None]:
    instrumentor = LangChainInstrumentor()
    instrumentor.instrument(tracer_provider=Application(*processors).provider)
    try:
        yield
    finally:
        instrumentor.uninstrument()


def plain(sample: Sample) -> Any:
    named = {
        name: getattr(sample, name)
        for name in ("question", "contexts", "retrieved", "answer")
    }
    return (
        json.loads(Sample(**named).model_dump_json()),
        sample.capture and sample.capture.grade,
    )


# OpenInference copies messages so
@pytest.mark.filterwarnings("ignore:Calling .text.. as a method is deprecated")
def test_a_chain_gives_the_sample_of_its_adapter_and_of_its_exported_spans():
    live, exporter = processor(), InMemorySpanExporter()
    with instrumented(SimpleSpanProcessor(exporter), live), capture() as captured:
        chain().invoke("Who kept the lamp?")
        FakeListChatModel(responses=["Hello."]).invoke("Hello")
    (sample,) = live.samples
    (adapted,) = captured.samples
    (exported,) = samples_from_spans(exporter.get_finished_spans())
    assert plain(sample) == plain(adapted) == plain(exported)
    assert sample == exported
    assert (sample.contexts[0].text, sample.capture.grade) == (FACT, "exact")
    assert live.without_sample == {"no_retrieval": 1}
    assert live.aggregates["context_adherence"].scored == 1
    assert live.stop()
    assert (live.dropped, len(live.problems)) == (0, 0)


# Spans by hand


def test_spans_are_waited_for_that_end_after_their_root():
    """Without a flush: the result comes by itself, once the spans have lingered."""
    arrived, results = threading.Event(), []

    def take(result: Any) -> None:
        results.append(result)
        arrived.set()

    live = processor(linger_s=0.3, on_result=take)
    application = Application(live)
    with application.span("CHAIN", input__value="Who?", output__value=ANSWER) as root:
        pass
    with trace.use_span(root):
        application.search("Who?")
        application.model("Who?")
    assert arrived.wait(30)
    (sample,) = (one.sample for one in results)
    assert [one.text for one in sample.known_contexts] == [FACT]
    assert live.stop()


def test_a_retrieval_that_lost_its_trace_is_joined_to_no_run():
    """As in a thread that does not carry the context: its span is a trace of its own."""
    live = processor()
    application = Application(live)
    with application.span("CHAIN", input__value="Who?", output__value=ANSWER):
        with trace.use_span(trace.INVALID_SPAN):
            application.search("Who?")
        application.model("Who?")
    (sample,) = live.samples
    assert ([one.text for one in sample.known_contexts], sample.answer) == (
        [FACT],
        None,
    )
    assert live.without_sample == {"no_retrieval": 1}
    assert live.stop()


def test_two_requests_of_one_trace_are_read_apart():
    """Of a trace that other processes began the root that has ended is read, and what goes on beside it is left."""
    live = processor()
    application = Application(live)
    ids = trace.SpanContext(7, 7, is_remote=True, trace_flags=trace.TraceFlags(1))
    elsewhere = trace.NonRecordingSpan(ids)
    with (
        trace.use_span(elsewhere),
        application.span("CHAIN", input__value="First?", output__value=ANSWER),
    ):
        application.search("First?")
        with trace.use_span(elsewhere):
            application.ask("Second?")
        assert questions(live) == ["Second?"]
        application.model("First?")
    assert questions(live) == ["Second?", "First?"]
    assert {one.id for one in live.samples} == {f"{7:032x}"}
    assert live.stop()
    assert not live.problems


def test_what_does_not_fit_is_let_go_and_counted_and_nothing_is_read_of_a_part():
    live = processor(max_open=4)
    application = Application(live)
    with application.span("CHAIN", input__value="Long?", output__value=ANSWER):
        application.search("Long?")
        for number in range(2):  # of three spans each
            with trace.use_span(trace.INVALID_SPAN):
                application.ask(f"{number}?")
            assert questions(live) == [f"{one}?" for one in range(number + 1)]
        for _ in range(5):
            application.search("Long?")
        application.model("Long?")
    assert questions(live) == ["0?", "1?"]
    assert live.dropped == 1
    assert [*live.problems.counts.values()] == [1]
    assert "max_open=4" in next(iter(live.problems.counts))
    assert live.stop()


def test_traces_beyond_the_queue_are_counted_and_forgotten():
    live = processor(max_queue=3)
    application = Application(live)
    for number in range(10):
        application.ask(f"{number}?")
    assert questions(live) == ["0?", "1?", "2?"]
    assert live.dropped == 7
    assert live.stop()
    assert live.dropped == 7


def test_what_goes_on_at_the_end_is_counted_and_later_spans_are_ignored():
    live = processor()
    application = Application(live)
    with application.span("CHAIN", input__value="Who?", output__value=ANSWER):
        application.search("Who?")
        application.provider.shutdown()
    application.ask()
    assert live.dropped == 1
    assert [*live.problems.counts.values()] == [1]
    assert not live.aggregates["context_adherence"].scored
    assert live.stop(1)


@pytest.mark.nightly
def test_sampling_takes_whole_sessions_and_the_same_in_each_process():
    taken = []
    for _ in range(2):
        live = processor(sample_rate=0.5)
        application = Application(live)
        for number in range(120):
            application.ask(f"{number}?", f"session {number % 40}")
        taken.append({int((asked or "").rstrip("?")) for asked in questions(live)})
        assert live.stop()
    assert taken[0] == taken[1]
    assert {number % 40 for number in taken[0]} == {
        number for number in taken[0] if number < 40
    }
    assert len(taken[0]) % 3 == 0
    assert 30 <= len(taken[0]) <= 90


def test_nothing_of_a_judge_is_judged():
    live = processor()
    application = Application(live)
    with as_judge_work():
        application.ask()
    assert live.samples == ()
    assert live.stop()
    assert (live.dropped, live.without_sample) == (0, {})


class Odd:
    """No span at all."""

    parent = None


def unresolved(ids: Any) -> dict[str, str]:
    raise LookupError("the store is gone")


HARM: dict[str, Callable[[SampleProcessor], None]] = {
    "no span": lambda live: live.on_end(Odd()),
    "a span whose attributes cannot be read": lambda live: (
        Application(live).tracer.start_span("x").end()
    ),
}


@pytest.mark.parametrize("name", HARM)
def test_the_application_never_meets_an_exception(name, monkeypatch):
    live = processor()
    with monkeypatch.context() as patched:
        patched.setattr(
            "opentelemetry.sdk.trace.ReadableSpan.attributes", property(unresolved)
        )
        HARM[name](live)
        assert live.force_flush()
    assert sum(live.problems.counts.values()) == 1
    Application(live).ask()
    assert questions(live) == ["Who?"]
    assert live.stop()


def test_a_store_that_is_gone_is_a_problem_and_no_exception():
    live = processor(resolve=unresolved)
    application = Application(live)
    found = {"retrieval.documents.0.document.id": "a"}
    with (
        application.span("CHAIN", input__value="Who?"),
        application.span("RETRIEVER", **found),
    ):
        pass
    assert live.samples == ()
    assert sum(live.problems.counts.values()) == 1
    assert live.stop()


@metric(name="leaving", version="1", requires=["answer"])
def leaving(sample: Sample) -> Any:
    """Ends the process."""
    raise SystemExit(3)
    yield


def test_a_metric_that_would_end_the_process_is_failed():
    live = SampleProcessor([leaving, "adherence"], "lexical", linger_s=LONG)
    application = Application(live)
    for question in ("Who kept it?", "Who else?"):
        with application.span("CHAIN", input__value=question, output__value=ANSWER):
            application.search(question)
            application.model(question)
        assert live.flush(30)
    assert live.stop(30)
    assert live.problems.counts == {"leaving failed: MetricCrashed": 2}
    assert (
        live.aggregates["leaving"].failed,
        live.aggregates["context_adherence"].scored,
    ) == (2, 2)


@pytest.mark.nightly
def test_no_span_is_held_once_its_trace_is_judged():
    held: list[weakref.ref[Any]] = []

    class Watch:
        def on_end(self, span: Any) -> None:
            held.append(weakref.ref(span))

        on_start = _on_ending = lambda *_, **__: None

    live = processor()
    application = Application(Watch(), live)
    for number in range(50):
        application.ask(f"{number}?", f"session {number % 5}")
    assert live.force_flush()
    gc.collect()
    assert len(held) == 150
    assert [one for one in held if one() is not None] == []
    assert live.aggregates["context_adherence"].scored == 50
    assert live.stop()


def test_settings_are_checked_at_once():
    with pytest.raises(SettingError, match="at least 0 and max_open 1"):
        SampleProcessor(judge="lexical", max_open=0)
    with pytest.raises(InputError, match="there are: langfuse"):
        SampleProcessor(judge="lexical", dialect="morse")
    with pytest.raises(SettingError, match="sample_rate"):
        SampleProcessor(judge="lexical", sample_rate=0)
