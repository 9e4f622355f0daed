"""A LangSmith evaluator: usable in ``client.evaluate``, as a function of run and example, and in callbacks."""

import itertools
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from uuid import UUID

from langsmith.evaluation import EvaluationResult, EvaluationResults, RunEvaluator
from langsmith.schemas import Example, RunBase

from langchain_ragmetrics.capturing import samples_from
from langchain_ragmetrics.model import LangChainJudge, as_judge
from langchain_ragmetrics.recording.tree import error_in_words
from langchain_ragmetrics.values import plain
from ragmetrics_core import Sample
from ragmetrics_core.capture import (
    ANSWER_KEYS,
    Overrides,
    Source,
    answer_in,
    answer_text,
    question_in,
)
from ragmetrics_core.data import USUAL_NAMES, MetricResult, RowError
from ragmetrics_core.engine.run import Metrics, Run

_REFERENCE_KEYS = ("reference", *USUAL_NAMES["reference"], *ANSWER_KEYS)


class RagMetricsRunEvaluator(RunEvaluator):
    """A LangSmith evaluator of one or several metrics.

    For ``client.evaluate(..., evaluators=[...])`` and for LangChain's
    ``EvaluatorCallbackHandler``; it can be called with ``(run, example)``, too.

    Args:
        metrics: A metric, metrics, or their names; None for all.
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
        reference_from: Source | None = None,
        concurrency: int = 8,
        question_from: Source | None = None,
        contexts_from: Source | None = None,
        answer_from: Source | None = None,
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
        self._samples_from: Callable[..., list[Sample]] = partial(
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
        reference, why_no_reference = _reference(example, self._reference_from)
        samples = self._samples_from(run) or [_plain_sample(run)]
        results = []
        for number, sample in enumerate(samples):
            # references of the dataset are used where the sample has none of its own
            if reference and not sample.reference:
                sample = sample.model_copy(update={"reference": tuple(reference)})
            judging = self._run.start_one_sample(next(self._counted), sample)
            for outcome in judging.result().results.values():
                # an outcome that lacks the reference says "no reference"
                needs_reference = "reference" in outcome.reason
                hint = why_no_reference if needs_reference else ""
                results.append(native(outcome, number, hint, evaluator_run_id))
        if len(results) == 1:
            return results[0]
        return EvaluationResults(results=results)


def native(
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
    key = outcome.metric
    if number > 0:
        key = f"{outcome.metric}#{number}"
    comment = outcome.reason
    if hint:
        comment = f"{outcome.reason}; {hint}"
    evidence = None
    if outcome.evidence is not None:
        evidence = outcome.evidence.model_dump(mode="json")
    return EvaluationResult(
        key=key,
        score=outcome.value,
        comment=comment,
        metadata={
            "status": outcome.status,
            "signature": str(outcome.signature),
            "evidence": evidence,
        },
        evaluator_info={"judge": outcome.judge, "signature": str(outcome.signature)},
        source_run_id=evaluator_run_id,
    )


def _plain_sample(run: RunBase) -> Sample:
    """Make the sample of a run in which no retriever was recorded.

    Question, answer and contexts are found in the run's inputs and outputs. Example:
    the inputs {"question": "Who?", "contexts": ["Anna lit it."]} and outputs {"answer":
    "Anna"}: an application that retrieved before the run. Contexts are taken from
    fields that have a usual name of contexts; what cannot be read as such is unknown. A
    run that failed has no answer.
    """
    answer, _ = answer_in(plain(run.outputs))
    fields = {**run.inputs, **(run.outputs or {})}
    names_of_contexts = fields.keys() & set(USUAL_NAMES["contexts"])
    found = Sample()
    with suppress(RowError):
        found = Sample.from_row({name: fields[name] for name in names_of_contexts})
    return Sample(
        question=question_in(plain(run.inputs)),
        contexts=found.contexts,
        capture=found.capture,  # whether one text may be several contexts
        answer=None if run.error else answer,
        error=error_in_words(run.error),
    )


def _reference(example: Example | None, source: Source | None) -> tuple[list[str], str]:
    """Find the expected answers of an example of a dataset, or say why there are none.

    Example: the outputs {"answer": "Anna"} give (["Anna"], ""), and no example gives
    ([], "no example was given"). A single output counts by any name.

    Args:
        example: The example; None if the evaluation gave none.
        source: Where the user says that they are: a key or path into the outputs, or a
            callable that gets the example. None looks for a usual name.
    """
    if example is None:
        return [], "no example was given"
    outputs = example.outputs or {}
    if source is not None:
        # ``reference_from`` is read by the rules of ``answer_from``: "a.b" is a path, …
        as_answer_from = Overrides(answer_from=source)
        is_found, value = as_answer_from.find("answer", example, outputs)
        if is_found:
            return _texts(value), ""
        return [], "reference_from leads to nothing in the example's outputs"
    for key in _REFERENCE_KEYS:
        texts = _texts(outputs.get(key))
        if texts:
            return texts, ""
    if len(outputs) == 1:
        (only_value,) = outputs.values()
        return _texts(only_value), ""
    if not outputs:
        return [], "the example has no outputs"
    names = ", ".join(map(str, outputs))
    return (
        [],
        f"the example's outputs have the fields {names}: name one by reference_from=",
    )


def _texts(value: object) -> list[str]:
    """One or several expected answers."""
    if (
        isinstance(value, (list, tuple))
        and value
        and all(isinstance(element, str) for element in value)
    ):
        return list(value)
    text = answer_text(plain(value))
    return [text] if text else []
