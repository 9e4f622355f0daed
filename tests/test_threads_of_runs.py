"""How many threads a run needs: none per sample, and with models of frameworks no more than calls in flight."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from haystack.dataclasses import ChatMessage
from haystack_integrations.components.evaluators.ragmetrics import HaystackModel
from langchain_core.runnables import RunnableLambda
from langchain_ragmetrics import LangChainModel
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.llms import CustomLLM
from llama_index.evaluation.ragmetrics import LlamaIndexModel

from ragmetrics_core import ChatModel, ContextAdherence, OpenAICompatibleModel, Sample, evaluate
from ragmetrics_core.testing.server import LoopbackServer

SAMPLES = [Sample(contexts=["Paris is the capital."], answer=f"Paris, {number}.") for number in range(200)]
REPLY = '{"reason": "r", "verdict": "yes"}'
CONCURRENCY = 4


@contextmanager
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many threads were alive whenever one had been started, apart from those that serve connections."""
    alive: list[int] = []
    start = threading.Thread.start

    def counted(thread: threading.Thread) -> None:
        start(thread)
        if "process_request_thread" not in thread.name:
            alive.append(threading.active_count())

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", counted)
        yield alive


def run(judge: Any, samples: list[Sample] = SAMPLES) -> None:
    metrics = [ContextAdherence(polls=1)]
    report = evaluate(samples, metrics, judge=judge, concurrency=CONCURRENCY, progress=False, store=None)
    assert len(report.scores("context_adherence")) == len(samples)


def slow() -> str:
    time.sleep(0.002)  # long enough for calls to overlap
    return REPLY


class Own(CustomLLM):
    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="own")

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=slow())

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise NotImplementedError


class Generator:
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        return {"replies": [ChatMessage.from_assistant(slow())]}


@pytest.mark.parametrize(
    "make",
    [
        lambda: HaystackModel(Generator()),
        lambda: LangChainModel(RunnableLambda(lambda said: slow())),
        lambda: LlamaIndexModel(Own()),
    ],
    ids=["haystack", "langchain", "llamaindex"],
)
def test_calls_of_frameworks_hold_no_more_threads_than_are_in_flight(
    make: Callable[[], ChatModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("lexical", SAMPLES[:1])  # the judges' own thread
    before = threading.active_count()
    with started(monkeypatch) as alive:
        run(make())
    assert len(alive) >= len(SAMPLES)
    assert max(alive) - before <= CONCURRENCY + 2
    end = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_judges_of_the_core_start_none_per_sample(
    loopback_server: Callable[..., LoopbackServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's threads, one per connection, are not theirs."""
    server = loopback_server(lambda body: REPLY)
    with started(monkeypatch) as alive:
        run("lexical")
    assert len(alive) <= 2
    with started(monkeypatch) as alive:
        run(OpenAICompatibleModel(server.base_url, "test", api_key="k"))
    assert len(server.requests) == len(SAMPLES)
    assert len(alive) <= 2
