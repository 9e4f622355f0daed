"""Beside OpenInference and Langfuse, begun before or after us, an application and its samples are as alone.

Each shape of the contract of adapters is run by night; one streamed shape each day.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import langchain_ragmetrics
import pytest
from haystack import Document, Pipeline, component
from haystack.components.builders import AnswerBuilder, PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack_integrations.components.evaluators import (
    ragmetrics as haystack_ragmetrics,
)
from langchain_core.documents import Document as LangChainDocument
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from langchain_core.tracers.context import register_configure_hook
from langfuse import Langfuse
from langfuse.langchain import CallbackHandler
from llama_index.core import SummaryIndex
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode
from llama_index.evaluation import ragmetrics as llamaindex_ragmetrics
from openinference.instrumentation.haystack import HaystackInstrumentor
from openinference.instrumentation.langchain import LangChainInstrumentor
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragmetrics_core import Sample
from ragmetrics_core.testing import AdapterContract
from ragmetrics_core.testing.adapter_contract import GOLDEN_TURNS

QUESTION = "Who lit the lamp?"
TEXT = "Anna Berg lit the lamp of Skarn in 1882."
ANSWER = "Anna Berg lit it."


class Finds(BaseRetriever):
    def _get_relevant_documents(self, *_: Any, **__: Any) -> list[LangChainDocument]:
        return [LangChainDocument(TEXT, id="a")]


async def langchain() -> str:
    prompt = ChatPromptTemplate.from_template("{context}\n{question}")
    given = {"context": Finds(), "question": RunnablePassthrough()}
    chain = given | prompt | FakeListChatModel(responses=[ANSWER])
    return "".join([piece.text async for piece in chain.astream(QUESTION)])


def engine() -> Any:
    index = SummaryIndex([TextNode(text=TEXT, id_="a")])
    return index.as_query_engine(
        llm=MockLLM(max_tokens=5), streaming=True, use_async=True
    )


async def llamaindex() -> str:
    response = await engine().aquery(QUESTION)
    return "".join([piece async for piece in response.async_response_gen()])


async def llamaindex_sync() -> str:
    return "".join(await asyncio.to_thread(read_engine))


def read_engine() -> list[str]:
    return list(engine().query(QUESTION).response_gen)


@component
class Found:
    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": [Document(id="a", content=TEXT)]}


async def haystack() -> str:
    pieces: list[str] = []
    template = "{% for d in documents %}{{ d.content }}{% endfor %} {{ query }}"
    model = MockChatGenerator(
        ANSWER, streaming_callback=lambda piece: pieces.append(piece.content)
    )
    pipeline = Pipeline()
    for name, part in {
        "retriever": Found(),
        "prompt": PromptBuilder(template, required_variables="*"),
        "llm": model,
        "answers": AnswerBuilder(),
    }.items():
        pipeline.add_component(name, part)
    pipeline.connect("retriever.documents", "prompt.documents")
    pipeline.connect("prompt.prompt", "llm.messages")
    pipeline.connect("llm.replies", "answers.replies")
    asked = {"query": QUESTION}
    pipeline.run({"retriever": asked, "prompt": asked, "answers": asked})
    return "".join(pieces)


TRACED: dict[str, tuple[Callable[[], Any], Callable[[], Any], Any]] = {
    "LangChain": (langchain, langchain_ragmetrics.capture, LangChainInstrumentor),
    "LlamaIndex": (llamaindex, llamaindex_ragmetrics.capture, LlamaIndexInstrumentor),
    "LlamaIndex, sync": (
        llamaindex_sync,
        llamaindex_ragmetrics.capture,
        LlamaIndexInstrumentor,
    ),
    "Haystack": (haystack, haystack_ragmetrics.capture, HaystackInstrumentor),
}


# Langfuse's handler for LangChain: in the config of each call, as LangChain's own tracers
HANDLER: ContextVar[Any] = ContextVar("langfuse", default=None)
register_configure_hook(HANDLER, inheritable=True)
PLACES = [
    (tracer, begun)
    for tracer in ("openinference", "langfuse")
    for begun in ("before", "after")
]


@cache
def provider_of(tracer: str) -> tuple[TracerProvider, InMemorySpanExporter]:
    """What gets the spans of a tracer, and where they stay."""
    provider, kept = TracerProvider(), InMemorySpanExporter()
    if tracer == "langfuse":
        Langfuse(
            public_key="pk",
            secret_key="sk",
            base_url="http://127.0.0.1:9",
            tracer_provider=provider,
            span_exporter=kept,
        )
    else:
        provider.add_span_processor(SimpleSpanProcessor(kept))
    return provider, kept


@contextmanager
def traced(instrumentor: Any, tracer: str) -> Iterator[None]:
    """Trace a framework as the tracer's documentation says."""
    provider, kept = provider_of(tracer)
    if tracer == "langfuse" and instrumentor is LangChainInstrumentor:
        token = HANDLER.set(CallbackHandler(public_key="pk"))
        yield
        HANDLER.reset(token)
    else:
        tracing = instrumentor()
        tracing.instrument(tracer_provider=provider)
        try:
            yield
        finally:
            tracing.uninstrument()
    provider.force_flush()
    assert kept.get_finished_spans(), "the tracer saw nothing"
    kept.clear()


@pytest.fixture(autouse=True)
def _components_of_modules_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tracer looks each component up in its module, and other tests have local ones."""
    known = {
        path: kind
        for path, kind in component.registry.items()
        if hasattr(sys.modules[kind.__module__], kind.__name__)
    }
    monkeypatch.setattr(component, "registry", known)


def run(name: str, tracer: str = "", begun: str = "") -> tuple[str, list[Sample]]:
    """Return what an application said, and its samples, alone or beside a tracer."""
    application, capture, instrumentor = TRACED[name]
    with ExitStack() as opened:
        if begun == "before":
            opened.enter_context(traced(instrumentor, tracer))
        captured = opened.enter_context(capture())
        if begun == "after":
            opened.enter_context(traced(instrumentor, tracer))
        said = asyncio.run(application())
    assert not captured.problems.counts
    return said, captured.samples


@pytest.mark.parametrize("name", TRACED)
def test_a_stream_beside_a_tracer_is_as_alone(name):
    alone = run(name)
    (sample,) = alone[1]
    assert (sample.capture.grade, sample.question) == ("exact", QUESTION)
    assert list(sample.context_texts) == [TEXT]
    assert sample.answer == alone[0]
    for tracer, begun in PLACES:
        assert run(name, tracer, begun) == alone


MODELS: dict[str, Callable[[], Any]] = {
    "LangChain": lambda: FakeListChatModel(responses=[ANSWER]),
    "LlamaIndex": lambda: MockLLM(max_tokens=5),
    "Haystack": lambda: MockChatGenerator(ANSWER),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_tracer_sees_the_application_and_no_call_of_ours(name):
    application, capture, instrumentor = TRACED[name]
    _, kept = provider_of("openinference")
    with traced(instrumentor, "openinference"):
        with capture(keep_prompts=True) as captured:
            asyncio.run(application())
        n_spans = len(kept.get_finished_spans())
        (sample,) = captured.measure_use(model=MODELS[name]())
        assert sample.use.usage.calls == 4, sample.use
        assert len(kept.get_finished_spans()) == n_spans


# The shapes of the contract of adapters

TESTS = Path(__file__).parents[3] / "integrations"


def module_of(framework: str, name: str) -> ModuleType:
    """A module of the tests of an adapter."""
    folder = TESTS / framework / "tests"
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    spec = importlib.util.spec_from_file_location(
        f"{framework}_{name}", folder / f"{name}.py"
    )
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@cache
def contract(framework: str) -> AdapterContract:
    made: AdapterContract
    made = module_of(framework, f"test_{framework}_contract").TestContract()
    if framework == "llamaindex":
        type(made).kit = module_of(framework, "conftest")  # type: ignore[attr-defined]  # a fixture sets it there
    return made


FIRST, SECOND = GOLDEN_TURNS[:2]
PROMPT = "\n".join([*(each.text for each in FIRST.contexts), FIRST.question])
SHAPES: dict[str, Callable[[AdapterContract], Any]] = {
    "run": lambda made: made.play(FIRST),
    "streamed": lambda made: made.play_streamed(FIRST),
    "async": lambda made: asyncio.run(_gathered(made)),
    "a prompt": lambda made: made.play_prompt(FIRST, PROMPT),
    "two searches": lambda made: made.play_two(FIRST, SECOND),
    "reranked": lambda made: made.play_reranked(FIRST),
    "changed later": lambda made: made.play_changed(FIRST),
    "broken": lambda made: made.play_unanswered(FIRST),
}
INSTRUMENTORS = {
    "langchain": LangChainInstrumentor,
    "llamaindex": LlamaIndexInstrumentor,
    "haystack": HaystackInstrumentor,
}


async def _gathered(made: AdapterContract) -> list[Any]:
    """Several turns beside each other."""
    return await asyncio.gather(*map(made.play_async, (FIRST, SECOND)))


@pytest.mark.nightly
@pytest.mark.parametrize("framework", INSTRUMENTORS)
@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_beside_a_tracer_is_as_alone(framework, shape):
    made, instrumentor = contract(framework), INSTRUMENTORS[framework]
    alone = SHAPES[shape](made)
    with made.adapter_module().capture() as around:
        assert SHAPES[shape](made) == alone
    for tracer in ("openinference", "langfuse"):
        with traced(instrumentor, tracer):
            assert SHAPES[shape](made) == alone
        with (
            made.adapter_module().capture() as around_tracer,
            traced(instrumentor, tracer),
        ):
            assert SHAPES[shape](made) == alone
        assert around_tracer.samples == around.samples
