"""A callback that is passed to chains, and evaluates their runs in the background.

It stands apart from `capture`, which loads nothing that evaluates.
"""

from collections.abc import Callable, Collection, Iterable

from langchain_ragmetrics.capturing import ADAPTER
from langchain_ragmetrics.model import LangChainJudge, as_judge
from langchain_ragmetrics.recording.calls import Run
from langchain_ragmetrics.recording.recorder import Recorder
from ragmetrics_core import Limits, Sink
from ragmetrics_core.capture import (
    BackgroundEvaluator,
    Overrides,
    Problems,
    Redact,
    Source,
    WatchSettings,
)
from ragmetrics_core.data import SampleResult
from ragmetrics_core.engine.run import Metrics


class RagMetricsCallback(Recorder, BackgroundEvaluator[Run]):
    """Evaluates every chain, agent or graph that it is passed to.

    The application never waits for it.

    Args:
        metrics: Metrics or their names; None for all, ``[]`` to capture only.
        judge: A judge, a chat model or runnable of LangChain, or a model's name; see
            ``ragmetrics_core.evaluate``.
        max_queue: Most runs waiting; later ones are dropped and counted. None never
            drops.
        sample_rate: Share of the samples that are judged, as for ``watch``; so are the
            arguments that follow.
        on_result: Called with each result.
        sinks: Where results go.
        concurrency: Most model calls in flight.
        limits: What judging may spend.
        redact: A function through which each sample goes as it is made.
        question_from: Where the question is.
        contexts_from: Where the contexts are.
        answer_from: Where the answer is.
        context_tools: Names of the tools whose text is a context.

    Raises:
        SettingError: If a setting is invalid.

    Attributes:
        problems: Internal errors and what the user should know; an application's own
            error is ``Sample.error``.
        dropped: Runs not evaluated because of ``max_queue``.

    Examples:
        >>> from langchain_core.documents import Document
        >>> from langchain_core.runnables import RunnableLambda
        >>> find = RunnableLambda(lambda question: [Document("Paris is the capital of France.")])
        >>> evaluator = RagMetricsCallback(metrics=["context_utilization"], judge="lexical")
        >>> chain = find | (lambda documents: "Paris is the capital of France.")
        >>> _ = chain.invoke("Capital of France?", config={"callbacks": [evaluator]})
        >>> evaluator.report().scores("context_utilization")
        [1.0]
    """

    def __init__(
        self,
        metrics: Metrics = None,
        judge: LangChainJudge = None,
        *,
        max_queue: int | None = 1000,
        sample_rate: float = 1.0,
        on_result: Callable[[SampleResult], None] | None = None,
        sinks: Iterable[Sink] = (),
        concurrency: int = 8,
        limits: Limits | None = None,
        redact: Redact | None = None,
        question_from: Source | None = None,
        contexts_from: Source | None = None,
        answer_from: Source | None = None,
        context_tools: Collection[str] | None = None,
    ) -> None:
        """Set up the recorder of LangChain's runs, and what judges them.

        Example: ``RagMetricsCallback(judge="lexical")``; the class says the arguments.
        """
        sources = Overrides(question_from, contexts_from, answer_from, context_tools)
        # Gets each finished run, and makes samples of it. It remembers the turns of each
        # conversation, which become the history of a later sample.
        sample_maker = ADAPTER.turns(sources, Problems())
        # A conversation that began in a ``capture()`` block may go on here: both remember
        # its turns in one place, if they hide texts by the same function.
        sample_maker.share_with_conversation(redact=redact)
        settings = WatchSettings(
            sample_rate=sample_rate,
            max_queue=max_queue,
            on_result=on_result,
            sinks=sinks,
            concurrency=concurrency,
            limits=limits,
            redact=redact,
        )
        BackgroundEvaluator.__init__(
            self,
            sample_maker.add,
            metrics,
            as_judge(judge),
            settings,
            # of the runs that ``add`` has kept back, since a later run might have been a
            # further step of the same turn
            make_waiting_samples=sample_maker.finish,
            make_due_samples=sample_maker.samples_due,
            problems=sample_maker.problems,
        )
        # The recorder of LangChain's callbacks asks this function at the start of each
        # run who gets it once it has ended: always the evaluator, which is this object.
        Recorder.__init__(
            self, sample_maker.problems, get_receivers=lambda: (self.record,)
        )
