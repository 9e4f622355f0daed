"""A LangSmith evaluator: usable in ``client.evaluate``, as a function of run and example, and in callbacks."""

import itertools
from collections.abc import Collection
from functools import partial
from uuid import UUID

from langsmith.evaluation import EvaluationResult, EvaluationResults, RunEvaluator
from langsmith.schemas import Example, RunBase

from langchain_ragmetrics.capturing import as_judge, samples_from
from langchain_ragmetrics.model import LangChainJudge
from langchain_ragmetrics.recording.tree import error_in_words
from langchain_ragmetrics.values import plain
from ragmetrics_core.capture import (
    FieldPlace,
    MetricResult,
    Metrics,
    Run,
    reference_in,
    sample_in,
)


class RagMetricsRunEvaluator(RunEvaluator):
    """A LangSmith evaluator of one or several metrics.

    For ``client.evaluate(..., evaluators=[...])`` and for LangChain's
    ``EvaluatorCallbackHandler``; it can be called with ``(run, example)``, too.

    Args:
        metrics: A metric, metrics, or their names; None for the usual ones.
        judge: A judge, a chat model or runnable of LangChain, or a model's name.
        reference_from: Where the example holds the expected answer: a key or path into
            its outputs, or a callable that gets the example. By default the one obvious
            field is taken.
        concurrency: Most model calls in flight.
        question_from: Where the question is; as for ``samples_from``, like the rest.
        contexts_from: Where the contexts are.
        answer_from: Where the answer is.
        context_tools: Names of the tools whose text is a context.

    Raises:
        SettingError: If a setting is invalid.

    Examples:
        >>> RagMetricsRunEvaluator(["context_recall"], "lexical").feedback_keys
        ['context_recall']
    """

    def __init__(
        self,
        metrics: Metrics = None,
        judge: LangChainJudge = None,
        *,
        reference_from: FieldPlace | None = None,
        concurrency: int = 8,
        question_from: FieldPlace | None = None,
        contexts_from: FieldPlace | None = None,
        answer_from: FieldPlace | None = None,
        context_tools: Collection[str] | None = None,
    ) -> None:
        """Take the settings; see the class for the arguments.

        Example: ``RagMetricsRunEvaluator(judge="lexical", reference_from="answer")``.
        """
        # judges samples by the metrics
        self._run = Run(metrics, as_judge(judge), concurrency, None)
        # where the example holds the expected answer; None takes the obvious field
        self._reference_from = reference_from
        # makes the samples of a run, with the settings of the user
        self._samples_from = partial(
            samples_from,
            question_from=question_from,
            contexts_from=contexts_from,
            answer_from=answer_from,
            context_tools=context_tools,
        )
        self._counted = itertools.count()  # numbers the samples: 0, 1, 2, …

    def __repr__(self) -> str:
        return f"RagMetricsRunEvaluator({', '.join(self.feedback_keys)})"

    @property
    def feedback_keys(self) -> list[str]:
        """Keys of the feedback: the metrics' names."""
        return [metric.name for metric in self._run.metrics]

    def __call__(
        self, run: RunBase, example: Example | None = None
    ) -> EvaluationResult | EvaluationResults:
        """Score one run; see ``evaluate_run``."""
        return self.evaluate_run(run, example)

    def evaluate_run(
        self,
        run: RunBase,
        example: Example | None = None,
        evaluator_run_id: UUID | None = None,
    ) -> EvaluationResult | EvaluationResults:
        """Score one run.

        Example: a run with a question, contexts and an answer, and two metrics: two
        results. If the run has several samples, such as several questions, the key of
        the second sample's result ends with "#1".

        Args:
            run: The root, with its child runs.
            example: The example of the dataset, for metrics that need a reference.
            evaluator_run_id: Id of this evaluation's own run.

        Returns:
            For each metric its key, score, comment and evidence. A metric that is
            undefined or failed has no score, and its comment says why. A single result
            is returned as it is; several stand in ``results``.
        """
        reference: tuple[str, ...] = ()
        why_no_reference = "no example was given"
        if example is not None:
            reference, why_no_reference = reference_in(
                example.outputs or {}, self._reference_from, example, plain
            )
        samples = self._samples_from(run)
        if not samples:
            sample = sample_in(run.inputs, run.outputs or {}, plain)
            if run.error:  # a run that failed has no answer
                error = error_in_words(run.error)
                update = {"answer": None, "error": error}
                sample = sample.model_copy(update=update)
            samples = [sample]
        results = []
        for number, sample in enumerate(samples):
            # references of the dataset are used where the sample has none of its own
            if reference and not sample.reference:
                sample = sample.model_copy(update={"reference": reference})
            judging = self._run.start_one_sample(next(self._counted), sample)
            for outcome in judging.result().results.values():
                # an outcome that lacks the reference says "no reference"
                needs_reference = "reference" in outcome.reason
                hint = why_no_reference if needs_reference else ""
                results.append(
                    as_evaluation_result(outcome, number, hint, evaluator_run_id)
                )
        if len(results) == 1:
            return results[0]
        return EvaluationResults(results=results)


def as_evaluation_result(
    outcome: MetricResult,
    number: int = 0,
    hint: str = "",
    evaluator_run_id: UUID | None = None,
) -> EvaluationResult:
    """Turn the result of a metric into LangSmith's own type.

    Example: a score of 0.8 by context_adherence becomes
    ``EvaluationResult(key="context_adherence", score=0.8, …)``.

    Args:
        outcome: The result. Its evidence goes into the metadata.
        number: How many samples of the same run come before. The key of a second sample
            ends with "#1".
        hint: What the user can do, added to the comment.
        evaluator_run_id: Id of the evaluation's own run.
    """
    key = f"{outcome.metric}#{number}" if number > 0 else outcome.metric
    comment = f"{outcome.reason}; {hint}" if hint else outcome.reason
    evidence = outcome.evidence
    return EvaluationResult(
        key=key,
        score=outcome.value,
        comment=comment,
        metadata={
            "status": outcome.status,
            "signature": str(outcome.signature),
            "evidence": evidence
            if evidence is None
            else evidence.model_dump(mode="json"),
        },
        evaluator_info={"judge": outcome.judge, "signature": str(outcome.signature)},
        source_run_id=evaluator_run_id,
    )
