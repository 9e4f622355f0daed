"""`capture`: everything that runs inside a block, with nothing passed to the chain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from langchain_core.tracers.schemas import Run
from typing_extensions import Unpack

from langchain_ragmetrics.capturing.assembling import Assembler
from langchain_ragmetrics.capturing.finding import Finding, FindingOptions
from langchain_ragmetrics.judges import LangChainJudge, as_judge
from langchain_ragmetrics.process import Receiver, listen
from ragmetrics_core.capturing import Captured, Given
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.engine.run import Metrics
from ragmetrics_core.reporting.report import Report


class CapturedRuns(Captured[Run]):
    """Samples of the LangChain runs that a capture saw.

    Args:
        finding: Where question, contexts and answer are.
        given: Values of the user.
        max_samples: Most roots kept; None keeps all.
    """

    def __init__(self, finding: Finding, *, given: Given | None = None, max_samples: int | None = None) -> None:
        self._assembler = Assembler(finding)
        super().__init__(self._assembler.add, given=given, max_samples=max_samples)
        self._assembler.problems = self.problems

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Samples of all runs so far, in the order in which they ended; retrievals without an answer come last."""
        with self._lock:
            found = super().samples
            rest = self._assembler.rest()
            self._assembler.remark(rest)
            return (*found, *(self._given.applied(one, len(found) + place) for place, one in enumerate(rest)))

    def evaluate(self, metrics: Metrics = None, *, judge: LangChainJudge = None, **settings: Any) -> Report:
        """Score what was captured; see ``ragmetrics_core.evaluate``. The judge may be a chat model of LangChain."""
        return super().evaluate(metrics, judge=as_judge(judge), **settings)

    async def aevaluate(self, metrics: Metrics = None, *, judge: LangChainJudge = None, **settings: Any) -> Report:
        """Score what was captured, without blocking the event loop."""
        return await super().aevaluate(metrics, judge=as_judge(judge), **settings)


@contextmanager
def capture(
    *,
    question: str | None = None,
    reference: str | tuple[str, ...] | list[str] | None = None,
    id: str | None = None,  # noqa: A002  # the name of the field
    metadata: Mapping[str, Any] | None = None,
    max_samples: int | None = None,
    threads: bool = True,
    **options: Unpack[FindingOptions],
) -> Iterator[CapturedRuns]:
    """Capture every LangChain run inside a block.

    Args:
        question: The question, instead of the one found.
        reference: The expected answer, one or several.
        id: Id of the sample.
        metadata: The caller's own data.
        max_samples: Most roots kept; later ones are counted and a warning says so. None keeps all.
        threads: Capture runs in threads that the application starts itself, too. Such threads carry no context,
            so they are captured only if no other capture is open; with False only the block's own context counts,
            which is what a server wants whose requests run in threads.
        **options: Where question, contexts and answer are; see ``Finding``.

    Returns:
        A context manager that gives a ``Captured``: its samples can be read at any time.

    Example:
        >>> from langchain_core.documents import Document
        >>> from langchain_core.runnables import RunnableLambda
        >>> find = RunnableLambda(lambda question: [Document("Paris is the capital of France.")])
        >>> with capture(reference="Paris") as captured:
        ...     _ = (find | (lambda documents: "Paris")).invoke("Capital of France?")
        >>> captured.samples[0].question, captured.samples[0].contexts[0].text, captured.samples[0].answer
        ('Capital of France?', 'Paris is the capital of France.', 'Paris')
    """
    captured = CapturedRuns(
        Finding(**options), given=Given(question, reference, id, dict(metadata or {})), max_samples=max_samples
    )
    end = listen(Receiver(captured.record, threads=threads))
    try:
        yield captured
    finally:
        end()
