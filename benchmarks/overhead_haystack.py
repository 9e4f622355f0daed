"""What capturing costs a Haystack pipeline, on the caller's thread: milliseconds per run, and as a ratio.

    python benchmarks/overhead_haystack.py [runs]

Rounds with and without capture alternate; the median of the rounds counts, so that
other load of the machine falls on both. The pipeline retrieves ten documents of about
1,000 characters, reranks them and asks a generator that returns at once: the worst case
for the ratio. The exit status is 1 if capturing costs more than .6 ms.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from typing import Any

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")

from goals import Rows, at_most
from haystack import Document, Pipeline
from haystack.components.builders import AnswerBuilder, PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.rankers import LostInTheMiddleRanker
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack_integrations.components.evaluators.ragmetrics import capture

QUESTION = "When was the old lighthouse of the island built?"
TEMPLATE = (
    "{% for d in documents %}- {{ d.content }}\n{% endfor %}\nQuestion: {{ query }}"
)
ROUNDS = 10
LIMIT_MS = 0.6


def pipeline() -> Pipeline:
    """Retriever, reranker, prompt builder, generator, answer builder."""
    store = InMemoryDocumentStore()
    filler = (
        "It stands at the old harbour of the island, and much was written about it. "
        * 13
    )
    store.write_documents(
        [
            Document(content=f"Lighthouse {n}. {filler}", meta={"page": n})
            for n in range(50)
        ]
    )
    made = Pipeline()
    made.add_component("retriever", InMemoryBM25Retriever(store, top_k=10))
    made.add_component("ranker", LostInTheMiddleRanker())
    made.add_component("prompt", PromptBuilder(TEMPLATE))
    made.add_component("llm", MockChatGenerator("In 1856."))
    made.add_component("answers", AnswerBuilder())
    made.connect("retriever.documents", "ranker.documents")
    made.connect("ranker.documents", "prompt.documents")
    made.connect("prompt", "llm")
    made.connect("llm.replies", "answers.replies")
    made.connect("ranker.documents", "answers.documents")
    return made


def timed(app: Pipeline, inputs: dict[str, Any], runs: int) -> float:
    """Milliseconds per run."""
    start = time.perf_counter()
    for _ in range(runs):
        app.run(inputs)
    return (time.perf_counter() - start) / runs * 1000


def main(runs: int) -> int:
    """Measure and print."""
    app = pipeline()
    inputs = {name: {"query": QUESTION} for name in ("retriever", "prompt", "answers")}
    timed(app, inputs, runs)
    plain, captured, building = [], [], []
    for _ in range(ROUNDS):
        plain.append(timed(app, inputs, runs))
        with capture() as found:
            captured.append(timed(app, inputs, runs))
        start = time.perf_counter()
        samples = found.samples
        building.append((time.perf_counter() - start) / runs * 1000)
        assert len(samples) == runs
        assert len(samples[0].known_contexts) == 10
    without, with_us = statistics.median(plain), statistics.median(captured)
    cost = with_us - without
    shown = Rows()
    shown.add(
        f"overhead: Haystack: {cost:.3f} ms per run for capture ({without:.3f} ms"
        f" without, {with_us:.3f} ms with; ratio {with_us / without:.2f}); samples,"
        f" when asked for, {statistics.median(building):.3f} ms per run",
        at_most(cost, LIMIT_MS, " ms"),
    )
    return shown.code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50))
