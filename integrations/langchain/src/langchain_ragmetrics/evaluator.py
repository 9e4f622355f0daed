"""A LangSmith evaluator: usable in ``client.evaluate``, as a function of run and example, and in callbacks."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from langsmith.evaluation import EvaluationResult, EvaluationResults, RunEvaluator
from langsmith.schemas import Example, RunBase

from langchain_ragmetrics.door import samples_from
from langchain_ragmetrics.model import LangChainJudge, as_judge
from langchain_ragmetrics.recording.tree import error_of
from langchain_ragmetrics.values import message_of, plain
from ragmetrics_core import Sample, capture
from ragmetrics_core.capture import (
    USUAL_NAMES,
    MetricResult,
    Metrics,
    Overrides,
    RowError,
    Source,
)

_REFERENCE_KEYS = ("reference", *USUAL_NAMES["reference"], *capture.ANSWER_KEYS)


class RagMetricsRunEvaluator(RunEvaluator):
    """A LangSmith evaluator of one or several metrics; ``as_run_evaluator`` is its other name.

    For ``client.evaluate(..., evaluators=[...])`` and for LangChain's
    ``EvaluatorCallbackHandler``; it can be called with ``(run, example)``, too.

    Args:
        metrics: A metric, metrics, or their names; None for all.
        judge: A judge, a chat model or runnable of LangChain, or a model's name.
        reference_from: Where the example holds the expected answer: a key or path into
            its outputs, or a callable that gets the example. By default the one obvious
            field is taken.
        concurrency: Most model calls in flight.
        **places: Where question, contexts and answer are; see ``samples_from``.

    Raises:
        SettingError: If a setting is invalid.

    Examples:
        >>> as_run_evaluator(["context_recall"], "lexical").feedback_keys
        ['context_recall']
    """

    def __init__(
        self,
        metrics: Metrics = None,
        judge: LangChainJudge = None,
        *,
        reference_from: Source | None = None,
        concurrency: int = 8,
        **places: Any,
    ) -> None:
        self._run = capture.Run(metrics, as_judge(judge), concurrency, None)
        self._reference_from = reference_from
        self._samples_from: Callable[..., list[Sample]] = partial(
            samples_from, **places
        )
        self._counted = itertools.count()

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

        Args:
            run: The root, with its child runs.
            example: The example of the dataset, for metrics that need a reference.
            evaluator_run_id: Id of this evaluation's own run.

        Returns:
            Per metric key, score, comment and evidence; a metric that is undefined or
            failed has no score and says why. A single metric gives one result, else
            they are in ``results``.
        """
        reference, problem = _reference(example, self._reference_from)
        samples = self._samples_from(run) or [_plain_sample(run)]
        results = [
            native(
                outcome,
                number,
                problem if "reference" in outcome.reason else "",
                evaluator_run_id,
            )
            for number, sample in enumerate(samples)
            for outcome in self._outcomes(sample, reference)
        ]
        return results[0] if len(results) == 1 else EvaluationResults(results=results)

    def _outcomes(self, sample: Sample, reference: Sequence[str]) -> list[MetricResult]:
        """Judge one sample and return the outcome of each metric.

        References of the dataset are used where the sample has none of its own.
        """
        if reference and not sample.reference:
            sample = sample.model_copy(update={"reference": tuple(reference)})
        with capture.as_judge_work():
            return list(
                self._run.start_one_sample(next(self._counted), sample)
                .result()
                .results.values()
            )


as_run_evaluator = RagMetricsRunEvaluator


def native(
    outcome: MetricResult,
    number: int = 0,
    hint: str = "",
    evaluator_run_id: UUID | None = None,
) -> EvaluationResult:
    """A result as LangSmith's own type; the evidence is in ``metadata``."""
    return EvaluationResult(
        key=outcome.metric if number == 0 else f"{outcome.metric}#{number}",
        score=outcome.value,
        comment=f"{outcome.reason}; {hint}" if hint else outcome.reason,
        metadata={
            "status": outcome.status,
            "signature": str(outcome.signature),
            "evidence": (
                None
                if outcome.evidence is None
                else outcome.evidence.model_dump(mode="json")
            ),
        },
        evaluator_info={"judge": outcome.judge, "signature": str(outcome.signature)},
        source_run_id=evaluator_run_id,
    )


def _plain_sample(run: RunBase) -> Sample:
    """The sample of a run without a retrieval.

    It has what the run's inputs and outputs say under the usual names of columns.
    """
    answer, _ = capture.answer_in(plain(run.outputs))
    row = {**run.inputs, **(run.outputs or {})}
    try:
        sample = Sample.from_row(
            {key: row[key] for key in row if key in USUAL_NAMES["contexts"]}
        )
    except RowError:
        sample = Sample()
    return sample.model_copy(
        update={
            "question": capture.question_in(plain(run.inputs)),
            "answer": None if run.error else answer,
            "error": error_of(run),
            "metadata": {},
        }
    )


def _reference(example: Example | None, source: Source | None) -> tuple[list[str], str]:
    """The expected answers of an example, and why there are none."""
    outputs = (example.outputs or {}) if example is not None else {}
    if source is not None and example is not None:
        is_there, value = Overrides(answer_from=source).find("answer", example, outputs)
        return (
            (_texts(value), "")
            if is_there
            else ([], "reference_from leads to nothing in the example's outputs")
        )
    for key in _REFERENCE_KEYS:
        if _texts(outputs.get(key)):
            return _texts(outputs[key]), ""
    if len(outputs) == 1:
        return _texts(next(iter(outputs.values()))), ""
    if outputs:
        return (
            [],
            (
                f"the example's outputs have the fields {', '.join(map(str, outputs))}:"
                " name one by reference_from="
            ),
        )
    return (
        [],
        "the example has no outputs" if example is not None else "no example was given",
    )


def _texts(value: object) -> list[str]:
    """One or several expected answers."""
    if (
        isinstance(value, (list, tuple))
        and value
        and all(isinstance(element, str) for element in value)
    ):
        return list(value)
    message = message_of(value)
    text = message.text if message is not None else capture.answer_text(plain(value))
    return [text] if text else []
