"""A callback that is passed to chains, and evaluates their runs in the background.

It stands apart from `capture`, which loads nothing that evaluates.
"""

from dataclasses import replace
from typing import Unpack

from langchain_ragmetrics.capturing import ADAPTER
from langchain_ragmetrics.model import LangChainJudge
from langchain_ragmetrics.recording.calls import Run
from langchain_ragmetrics.recording.recorder import Recorder
from ragmetrics_core.capture import (
    Listeners,
    Metrics,
    WatchArguments,
    WatchingEvaluator,
)


class RagMetricsCallback(Recorder, WatchingEvaluator[Run]):
    """Evaluates every chain, agent or graph that it is passed to.

    The application never waits for it.

    Args:
        metrics: Metrics or their names; None for the usual ones, ``[]`` to
            capture only.
        judge: A judge, a chat model or runnable of LangChain, or a model's name; see
            ``ragmetrics_core.evaluate``.
        **arguments: As for ``watch``: ``sample_rate``, ``max_queue``, ``on_result``,
            ``sinks``, ``concurrency``, ``limits``, ``redact``, ``question_from``,
            ``contexts_from``, ``answer_from`` and ``context_tools``.

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
        **arguments: Unpack[WatchArguments],
    ) -> None:
        """Set up the recorder of LangChain's runs, and what judges them.

        Example: ``RagMetricsCallback(judge="lexical")``; the class says the arguments.
        """
        # who gets the runs that this handler is told of: this object alone
        listeners = Listeners()
        Recorder.__init__(self, listeners)
        front_door = replace(ADAPTER, listeners=listeners)
        WatchingEvaluator.__init__(self, front_door, metrics, judge, **arguments)
        # A conversation that began in a ``capture()`` block may go on here: both remember
        # its turns in one place, if they hide texts by the same function.
        self.turns.share_with_conversation(redact=arguments.get("redact"))
