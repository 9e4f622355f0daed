"""What judging live costs a traced application that mostly waits, and whether every trace is accounted for.

uv run python benchmarks/live.py [--seconds 60] [--users 8]

Users ask a LangChain application, whose retriever and model wait as over a network and
which OpenInference traces, all the time. For five seconds each in turn, traces go to a
``SampleProcessor`` and to nobody; the first two seconds of each are left out, in which
earlier traces are still judged. Printed is the ratio of the median latencies, on ÷ off.
A second processor has too little room, to show that what does not fit is counted: the
traces that were judged, gave no sample and were dropped are all that there were.
"""

from __future__ import annotations

import argparse
import logging
import random
import statistics
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

from goals import Goal, Rows, at_most
from instant_models import Recording
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import TracerProvider

from ragmetrics_core import LLMJudge
from ragmetrics_core.traces import SampleProcessor

LIMIT = 1.05
PHASE, SETTLED = 5.0, 2.0
TOO_LITTLE = {"max_open": 60, "max_queue": 12}
PAGE = (Path(__file__).parents[1] / "docs" / "metrics.md").read_text(encoding="utf-8")
DOCUMENTS = [
    Document(PAGE[800 * number : 800 * number + 800], id=str(number))
    for number in range(5)
]


class Retriever(BaseRetriever):
    """Waits as for a store."""

    def _get_relevant_documents(self, query: str, **kwargs: Any) -> list[Document]:  # noqa: ARG002  # the same for all
        time.sleep(random.uniform(0.03, 0.05))
        return DOCUMENTS


class Model(BaseChatModel):
    """Waits as for a model's service."""

    @property
    def _llm_type(self) -> str:
        return "waiting"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:  # noqa: ARG002  # the same for all
        time.sleep(random.uniform(0.2, 0.3))
        return ChatResult(generations=[ChatGeneration(message=AIMessage("An answer."))])


class Gate:
    """A span processor that passes on what belongs to traces that began while it was open, to several."""

    def __init__(self, *processors: SampleProcessor) -> None:
        self.open, self.processors, self.passed = False, processors, set[int]()

    def on_start(self, span: Any, parent_context: Any = None) -> None:  # noqa: ARG002  # the SDK's signature
        """Choose a trace."""
        if span.parent is None and self.open:
            self.passed.add(span.context.trace_id)

    def _on_ending(self, span: Any) -> None:
        pass

    def on_end(self, span: Any) -> None:
        """Pass a span on."""
        if span.context.trace_id in self.passed:
            for one in self.processors:
                one.on_end(span)

    def shutdown(self) -> None:
        """Nothing is held."""


def application() -> Runnable[Any, Any]:
    """Retrieve, fill the prompt, ask the model."""
    found = RunnableLambda(
        lambda asked: (
            "\n".join(one.page_content for one in Retriever().invoke(asked)) + asked
        )
    )
    return found | Model() | StrOutputParser()


def load(gate: Gate, seconds: float, users: int) -> dict[bool, list[float]]:
    """Latencies of all questions, by whether their traces were judged."""
    latencies: dict[bool, list[float]] = {True: [], False: []}
    begin = time.monotonic()
    end = begin + seconds

    def ask() -> None:
        chain = application()
        while (start := time.monotonic()) < end:
            judged, settled = gate.open, (start - begin) % PHASE > SETTLED
            chain.invoke("What is it?")
            if settled and judged == gate.open:
                latencies[judged].append(time.monotonic() - start)

    threads = [threading.Thread(target=ask) for _ in range(users)]
    for one in threads:
        one.start()
    while (now := time.monotonic()) < end:
        time.sleep(PHASE - (now - begin) % PHASE)
        gate.open = not gate.open
    for one in threads:
        one.join()
    return latencies


def accounted(processor: SampleProcessor, asked: int) -> tuple[str, Goal]:
    """What became of the traces in words, and whether all are there."""
    scored = sum(
        next(iter(processor.aggregates.values())).__dict__[name]
        for name in ("scored", "undefined", "failed")
    )
    without, dropped = sum(processor.without_sample.values()), processor.dropped
    return (
        f"{scored} judged, {without} without a sample, {dropped} dropped",
        Goal(f"{asked} in all", scored + without + dropped == asked),
    )


def main() -> int:
    """Print both rows; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--users", type=int, default=8)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = Rows()
    logging.disable(logging.CRITICAL)
    for name, settings in (("", {}), (" with too little room", TOO_LITTLE)):
        processor = SampleProcessor(
            ["context_adherence"], LLMJudge(Recording()), **settings
        )
        gate = Gate(processor)
        provider = TracerProvider()
        provider.add_span_processor(gate)
        instrumentor = LangChainInstrumentor()
        instrumentor.instrument(tracer_provider=provider)
        latencies = load(
            gate, options.seconds if not settings else 3 * PHASE, options.users
        )
        instrumentor.uninstrument()
        processor.stop()
        on, off = (statistics.median(latencies[judged]) for judged in (True, False))
        counts, all_there = accounted(processor, len(gate.passed))
        told = (
            f"live{name}: median latency on ÷ off {on / off:.3f} ({off * 1e3:.0f} ms"
            f" off, {options.users} users)"
        )
        rows.add(
            f"{told}; of the traces {counts}",
            *([at_most(on / off, LIMIT)] if not settings else []),
            all_there,
        )
    return rows.code


if __name__ == "__main__":
    sys.exit(main())
