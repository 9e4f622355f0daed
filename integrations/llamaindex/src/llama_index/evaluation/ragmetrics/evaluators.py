"""The metrics as LlamaIndex evaluators: one small class over any core metric, and a subclass for each that ships."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from llama_index.core.async_utils import asyncio_run
from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    StreamingResponse,
)
from llama_index.core.evaluation.base import BaseEvaluator, EvaluationResult
from llama_index.core.llms import LLM
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.evaluation.ragmetrics.model import JudgeOrLLM, as_judge, settings_judge
from pydantic import ValidationError

from ragmetrics_core import Metric, RagMetricsError, Sample
from ragmetrics_core.capture import (
    MetricResult,
    SettingError,
    metric_named,
)

References = str | Sequence[str] | None


class RagMetricsResult(EvaluationResult):
    """The framework's result, with ours in it: evidence, cost and signature.

    ``invalid_result`` is True and ``score`` None where the metric is undefined or
    failed; ``invalid_reason`` says why.
    """

    metric_result: MetricResult | None = None


class MetricEvaluator(BaseEvaluator):
    """Any metric as an evaluator of LlamaIndex.

    Args:
        metric: The metric; None makes the class's own from ``settings``.
        llm: The LLM that judges.
        judge: Instead of an LLM: a judge, a chat model, or the name of a model. By
            default the metric's own ``model``, else the LLM set in ``Settings``, else
            ``RAGMETRICS_JUDGE``, else the embedded judge.
        threshold: Scores from here on are ``passing``.
        **settings: Settings of the metric, e.g. ``polls=3``.

    Raises:
        SettingError: If a setting is invalid, or both an LLM and a judge are given.

    Examples:
        >>> from ragmetrics_core import ScriptedJudge
        >>> from ragmetrics_core.metrics.polls import Adherent
        >>> judge = ScriptedJudge({Adherent: {"claims": 1, "unsupported": [], "reason": "It says so."}})
        >>> evaluator = ContextAdherenceEvaluator(judge=judge)
        >>> result = evaluator.evaluate(query="Capital?", response="Paris", contexts=["It is Paris."])
        >>> result.score, result.passing, result.feedback
        (1.0, True, 'It says so.')
    """

    metric_name: ClassVar[str] = ""

    def __init__(
        self,
        metric: Metric | None = None,
        *,
        llm: LLM | None = None,
        judge: JudgeOrLLM = None,
        threshold: float = 0.5,
        **settings: Any,
    ) -> None:
        """Take the metric, or make it of its settings; see the class.

        Example: ``ContextAdherenceEvaluator(polls=3)`` makes a metric with three polls.
        """
        if llm is not None and judge is not None:
            raise SettingError("give llm= or judge=, not both")
        if metric is None:
            # a subclass names its metric, which then gets the settings
            if not self.metric_name:
                raise SettingError(
                    "give a metric, or use the evaluator of one, e.g."
                    " ContextAdherenceEvaluator"
                )
            metric = metric_named(self.metric_name, settings)
        elif settings:
            raise SettingError(
                f"give a metric or its settings, not both: {', '.join(settings)}"
            )
        self._metric = metric
        self._judge = as_judge(llm if llm is not None else judge)
        self._threshold = threshold  # scores from here on pass

    @property
    def metric(self) -> Metric:
        """The metric."""
        return self._metric

    def _get_prompts(self) -> PromptDictType:
        """None: a metric's templates are its settings, ``template=`` and the like."""
        return {}

    def _update_prompts(self, prompts_dict: PromptDictType) -> None:
        """Change nothing: there are no prompts of the framework's kind."""

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        reference: References = None,
        **_: Any,
    ) -> RagMetricsResult:
        """Score an answer.

        Args:
            query: The user's question.
            response: The answer's text; a ``Response`` goes to ``evaluate_response``.
            contexts: Texts of the contexts, in rank order.
            reference: The expected answer, one or several.
            **_: Keywords of other evaluators in the same batch.

        Returns:
            The framework's result, never an exception: what cannot be scored is
            ``invalid_result``.
        """
        fields = {
            "question": query,
            "answer": response,
            "contexts": contexts,
            "reference": reference,
        }

        def make_sample() -> Sample:
            if isinstance(response, str | None):
                return Sample.model_validate(fields)
            raise SettingError(
                f"response needs a text, got {type(response).__name__}; hand what an"
                " engine or agent returned to evaluate_response(query=…, response=…)"
            )

        return await self._scored(make_sample)

    def evaluate_response(
        self,
        query: str | None = None,
        response: Any = None,
        reference: References = None,
        **_: Any,
    ) -> RagMetricsResult:
        """Score a response; see ``aevaluate_response``."""
        return asyncio_run(self.aevaluate_response(query, response, reference))  # type: ignore[no-any-return]

    async def aevaluate_response(
        self,
        query: str | None = None,
        response: Any = None,
        reference: References = None,
        **_: Any,
    ) -> RagMetricsResult:
        """Score what a query engine, chat engine or agent returned, otherwise as ``aevaluate``.

        Source nodes keep ids, scores and order, and their texts as the LLM saw them. A
        stream that is not yet read is read to its end and keeps its text.
        """
        if isinstance(response, AsyncStreamingResponse):
            await response.get_response()
        elif isinstance(response, StreamingResponse):
            await asyncio.to_thread(str, response)
        return await self._scored(lambda: _responded(query, response, reference))

    async def _scored(self, make_sample: Callable[[], Sample]) -> RagMetricsResult:
        """Make a sample and score it.

        Example: ``evaluate(response=5)`` gives no score, and a result that says which
        field is wrong. The result of a failed judge says why as well.

        Args:
            make_sample: Makes the sample; its errors are caught here.
        """
        sample = Sample()
        outcome: MetricResult | str  # the words why there is none
        try:
            sample = make_sample()
            judge = self._judge
            if judge is None and self._metric.model is None:
                judge = settings_judge()
            outcome = await self._metric.ascore(sample, judge=judge)
        except ValidationError as error:
            first_problem = error.errors(include_input=False, include_url=False)[0]
            field = ".".join(map(str, first_problem["loc"]))
            outcome = f"{field}: {first_problem['msg']}"
        except RagMetricsError as error:
            outcome = str(error)
        return as_evaluation_result(outcome, sample, threshold=self._threshold)


class ContextUtilizationEvaluator(MetricEvaluator):
    """Is each retrieved chunk useful to arrive at the answer?

    Average precision over the ranks.
    """

    metric_name = "context_utilization"


class ContextAdherenceEvaluator(MetricEvaluator):
    """Is the answer based purely on the contexts?

    The share of "yes" over chain-of-thought polls.
    """

    metric_name = "context_adherence"


class ContextRecallEvaluator(MetricEvaluator):
    """How accurately does the answer match the ``reference``?"""

    metric_name = "context_recall"


class RetrievalAccuracyEvaluator(MetricEvaluator):
    """Which share of the facts of the ``reference`` do the contexts cover?"""

    metric_name = "retrieval_accuracy"


class ContextSufficiencyEvaluator(MetricEvaluator):
    """Could the question be answered from the contexts alone?"""

    metric_name = "context_sufficiency"


class AnswerRelevanceEvaluator(MetricEvaluator):
    """Does the response address the query, whatever is true?"""

    metric_name = "answer_relevance"


class CitationQualityEvaluator(MetricEvaluator):
    """Do the citations of the response hold?

    What a mark such as ``[1]`` means is known where the texts of the contexts begin
    with numbers, as those of a ``CitationQueryEngine`` do, or with ``numbered_from=1``.
    """

    metric_name = "citation_quality"


def as_evaluation_result(
    outcome: MetricResult | str, sample: Sample, *, threshold: float = 0.5
) -> RagMetricsResult:
    """Turn the result of a metric into the framework's own type.

    Example: a score of 0.8 and the threshold 0.5: ``score=0.8``, ``passing=True``. A
    result without a score is invalid, and its feedback says why.

    Args:
        outcome: The result, or the words why there is none.
        sample: What was judged.
        threshold: A score passes if it is at least this.
    """
    metric_result = None if isinstance(outcome, str) else outcome
    feedback = outcome if isinstance(outcome, str) else outcome.reason
    score = None if metric_result is None else metric_result.value
    passing = None  # also where lost polls decide it
    if metric_result is not None and metric_result.status == "scored":
        passing = metric_result.reaches(threshold)
    return RagMetricsResult(
        query=sample.question,
        contexts=[context.text for context in sample.known_contexts],
        response=sample.answer,
        score=score,
        passing=passing,
        feedback=feedback,
        invalid_result=score is None,
        invalid_reason=feedback if score is None else None,
        metric_result=metric_result,
    )


def _responded(query: str | None, response: Any, reference: References) -> Sample:
    """Return the sample of a response; with ``query`` and ``reference`` where given."""
    fields = {"question": query, "reference": reference}
    given = Sample.model_validate(fields)
    if response is None:
        return given
    # recordings are behind it, which who scores texts of their own does not need
    from llama_index.evaluation.ragmetrics.recording.recorder import samples_from

    (sample,) = samples_from(response)
    update = {name: getattr(given, name) for name in fields if fields[name] is not None}
    return sample.model_copy(update=update)
