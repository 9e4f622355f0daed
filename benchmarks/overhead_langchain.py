"""What watching costs a LangChain application: time per run on the caller's thread, watched and unwatched.

``uv run python benchmarks/overhead_langchain.py [runs]`` prints the median per run, the
difference and the ratio for a retrieval chain of nine runs (five documents of 800
characters). The chain does nothing itself, so that the ratio is the worst case. Samples
are assembled and judged in the background; the wall clock of a busy machine includes
that.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

from goals import Rows, at_most
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_ragmetrics import watch

LIMIT_MS = 0.3
DOCUMENTS = [
    Document(f"{number} " + "word " * 160, metadata={"page": number})
    for number in range(5)
]


class Retriever(BaseRetriever):
    """Returns the same documents at once."""

    def _get_relevant_documents(self, query: str, **kwargs: Any) -> list[Document]:  # noqa: ARG002  # the same for all
        return DOCUMENTS


class Model(BaseChatModel):
    """Says the same at once."""

    @property
    def _llm_type(self) -> str:
        return "constant"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:  # noqa: ARG002  # the same for all
        return ChatResult(generations=[ChatGeneration(message=AIMessage("An answer."))])


def application() -> Runnable[Any, Any]:
    """A chain that runs in one thread, so that the caller's time is all of it."""
    prompt = ChatPromptTemplate.from_template("{context} {question}")
    retrieve = Retriever() | (
        lambda found: "\n".join(one.page_content for one in found)
    )
    fill = RunnableLambda(
        lambda question: {"context": retrieve.invoke(question), "question": question}
    )
    return fill | prompt | Model() | StrOutputParser()


def milliseconds(chain: Runnable[Any, Any], runs: int) -> tuple[float, float]:
    """Median wall time and median time of this thread's processor per run."""
    wall, own = [], []
    for _ in range(runs):
        start, used = time.perf_counter(), time.thread_time()
        chain.invoke("question")
        wall.append(time.perf_counter() - start)
        own.append(time.thread_time() - used)
    return statistics.median(wall) * 1e3, statistics.median(own) * 1e3


def main(runs: int) -> int:
    """Print the table and the row; 1 if the goal is missed."""
    chain = application()
    milliseconds(chain, 50)
    plain_wall, plain = milliseconds(chain, runs)
    watching = watch(metrics=[])
    watched_wall, watched = milliseconds(chain, runs)
    watching.stop()
    print(f"{'':22}{'wall ms':>9}{'cpu ms':>9}{'more cpu':>10}{'ratio':>7}")
    for name, one, two in (
        ("unwatched", plain_wall, plain),
        ("watched", watched_wall, watched),
    ):
        print(f"{name:22}{one:9.3f}{two:9.3f}{two - plain:10.3f}{two / plain:7.2f}")
    shown = Rows()
    shown.add(
        f"overhead: LangChain: {watched - plain:.3f} ms more per run on the caller's"
        f" thread, median of {runs} runs; {watching.dropped} dropped",
        at_most(watched - plain, LIMIT_MS, " ms"),
    )
    return shown.code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
