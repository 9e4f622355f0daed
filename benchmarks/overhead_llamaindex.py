"""What capturing costs a LlamaIndex query on the caller's thread: ms per query, and the ratio to a query without.

Run: python benchmarks/overhead_llamaindex.py [queries]. The exit status is 1 if
capturing costs more than 0.6 ms.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median

from goals import Rows, at_most
from llama_index.core import get_response_synthesizer
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.evaluation.ragmetrics import capture

LIMIT_MS = 0.6
_BATCH = 20


class Fixed(BaseRetriever):
    """Returns the same five nodes of 1,000 characters each."""

    def __init__(self) -> None:
        self._nodes = [
            NodeWithScore(
                node=TextNode(id_=str(n), text="word " * 200, metadata={"page": n}),
                score=1 / (n + 1),
            )
            for n in range(5)
        ]
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        del query_bundle
        return list(self._nodes)


def overhead(queries: int) -> tuple[float, float]:
    """Measure, in turns, a batch without and a batch with capture.

    Args:
        queries: Number of queries of each kind.

    Returns:
        Median seconds per query without and with capture.
    """
    synthesizer = get_response_synthesizer(llm=MockLLM(max_tokens=8))
    engine = RetrieverQueryEngine(Fixed(), response_synthesizer=synthesizer)

    def ask() -> None:
        engine.query("What is it about?")

    def ask_captured() -> None:
        with capture():
            ask()

    times: dict[Callable[[], None], list[float]] = {ask: [], ask_captured: []}
    for run in times:
        run()  # imports and caches
    for _ in range(max(queries // _BATCH, 1)):
        for run, found in times.items():
            started = time.perf_counter()
            for _ in range(_BATCH):
                run()
            found.append((time.perf_counter() - started) / _BATCH)
    return median(times[ask]), median(times[ask_captured])


def main(queries: int) -> int:
    """Print the row; 1 if the goal is missed."""
    bare, captured = (1000 * seconds for seconds in overhead(queries))
    shown = Rows()
    shown.add(
        f"overhead: LlamaIndex: {captured - bare:.3f} ms per query for capture "
        f"({bare:.3f} ms without, {captured:.3f} ms with; ratio {captured / bare:.2f})",
        at_most(captured - bare, LIMIT_MS, " ms"),
    )
    return shown.code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 400))
