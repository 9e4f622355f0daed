"""``with capture() as captured:`` — everything that LlamaIndex does inside, as samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from llama_index.evaluation.ragmetrics.capture.recorder import RECORDER
from llama_index.evaluation.ragmetrics.capture.run import Run
from llama_index.evaluation.ragmetrics.capture.samples import samples_from
from llama_index.evaluation.ragmetrics.capture.scopes import Scope, entered, paused
from llama_index.evaluation.ragmetrics.model import JudgeOrLLM, as_judge

from ragmetrics_core import Report, Sample
from ragmetrics_core.capturing import Captured, Given, Overrides

Field = str | Callable[[Run], Any]


class CapturedRuns(Captured[Run]):
    """What a capture saw; see ``ragmetrics_core.capturing.Captured``."""

    scope: Scope | None = None

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Samples of all runs that ended so far; a retrieval that no synthesizer went on with is a run of its own."""
        if self.scope is not None:
            RECORDER.release(self.scope)
        return super().samples

    def evaluate(self, metrics: Any = None, *, judge: JudgeOrLLM = None, **settings: Any) -> Report:
        """Score what was captured; ``judge`` may be a LlamaIndex LLM too. See ``ragmetrics_core.evaluate``."""
        with paused():
            return super().evaluate(metrics, judge=as_judge(judge), **settings)

    async def aevaluate(self, metrics: Any = None, *, judge: JudgeOrLLM = None, **settings: Any) -> Report:
        """Score what was captured, without blocking the event loop."""
        with paused():
            return await super().aevaluate(metrics, judge=as_judge(judge), **settings)


@contextmanager
def capture(
    *,
    question: str | None = None,
    reference: str | tuple[str, ...] | list[str] | None = None,
    id: str | None = None,  # noqa: A002  # the name of the sample's field
    metadata: Mapping[str, Any] | None = None,
    question_from: Field | None = None,
    contexts_from: Field | None = None,
    answer_from: Field | None = None,
    build: Callable[[Run], Iterable[Sample]] | None = None,
    max_samples: int | None = None,
    threads: bool = True,
) -> Iterator[CapturedRuns]:
    """Capture what query engines, chat engines, agents, workflows, retrievers and synthesizers do inside.

    Outputs stay as they are; a streamed answer is copied while the application reads it, and its sample is there
    when it has been read, also after the block. Nothing is ever dropped, unless ``max_samples`` is given.

    Args:
        question: The question, instead of the one found.
        reference: The expected answer, one or several.
        id: Id of the sample; further samples get ``id#1``, ``id#2``, ….
        metadata: Data of your own.
        question_from: A key or dotted path into the arguments or the result of the run (a workflow's start and
            stop event), or a callable that gets the run.
        contexts_from: The same for the contexts.
        answer_from: The same for the answer.
        build: A callable from the run to its samples, instead of all rules.
        max_samples: Most runs kept; None keeps all.
        threads: Whether runs of threads without a copied context belong to this capture while it is the only one
            open. Say False where unrelated threads run queries at the same time.

    Returns:
        A context manager; its value has ``samples``, ``problems``, ``evaluate`` and ``aevaluate``.
    """
    overrides = Overrides(question_from, contexts_from, answer_from, build)
    given = Given(question=question, reference=reference, id=id, metadata=dict(metadata or {}))
    captured = CapturedRuns(partial(samples_from, overrides=overrides), given=given, max_samples=max_samples)
    captured.scope = Scope(captured, threads=threads, data=overrides != Overrides())
    RECORDER.open(captured.scope)
    try:
        with entered(captured.scope):
            yield captured
    finally:
        RECORDER.close(captured.scope)
