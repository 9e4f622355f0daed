"""The component: judges the answers that reach it over one wire."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict, logging
from haystack.components.generators.chat.types import ChatGenerator
from haystack.core.component import Component
from haystack.core.errors import SerializationError
from haystack.dataclasses import ChatMessage, ExtractedAnswer, GeneratedAnswer
from haystack_integrations.components.evaluators.ragmetrics.model import HaystackModel

from ragmetrics_core import (
    Failed,
    LLMJudge,
    Metric,
    RagMetricsError,
    Report,
    Sample,
    evaluate,
)
from ragmetrics_core.capture import (
    JudgeLike,
    JudgeUnavailable,
    MetricResult,
    SampleResult,
    SettingError,
    description_of,
    metrics_described,
)

logger = logging.getLogger(__name__)
MetricLike = str | Metric | dict[str, Any]
_SETTINGS = ("chat_generator", "raise_on_failure", "concurrency")
_USAGE_FIELDS = ("calls", "stored", "prompt_tokens", "completion_tokens", "cost")
# the groups of sockets, of which one is given
_PARTS = ("query", "documents", "replies")
_FIELDS = {  # of a row, by the sockets that take lists
    "questions": "question",
    "contexts": "contexts",
    "predicted_answers": "answer",
}
_GROUPS = (("answers",), _PARTS, tuple(_FIELDS))
_CITED_ONLY = (
    "the documents look cut to those that the answer cites (reference_pattern): scores"
    " are those of the cited documents only; set"
    " return_only_referenced_documents=False in the AnswerBuilder"
)
Row = dict[str, Any]

# of ``run`` and ``run_async``
_OUTPUT_TYPES: dict[str, Any] = {
    "results": dict[str, dict[str, Any]],
    "score": float,
    "individual_scores": list[float],
    "meta": dict[str, Any],
}


@component
class RagMetricsEvaluator:
    """Scores answers inside a pipeline, with evidence and cost for every score.

    Connect ``answer_builder.answers`` to ``answers``: question, documents and answer
    come over that one wire. Instead, ``query``, ``documents`` and ``replies`` take the
    parts of one answer, and ``questions``, ``contexts``, ``predicted_answers`` and
    ``ground_truth_answers`` the lists that Haystack's own evaluators take.

    It judges what is wired. Documents that an ``AnswerBuilder`` cut by
    ``reference_pattern`` are not all that the model saw; ``meta["warnings"]`` says so.

    Args:
        metrics: Names, metrics, or ``{"name": …, "settings": {…}}``; None for the
            usual ones.
        chat_generator: The model of the judge: any ChatGenerator.
        judge: Such a model, too, a judge of ragmetrics, or the name of a model, e.g.
            ``"openai/gpt-4o-mini"``; ``"lexical"`` is the embedded judge, which needs
            neither key nor network and is the default.
        raise_on_failure: Raise if a score could not be determined; otherwise it is NaN
            with the status ``failed``.
        concurrency: Most model calls in flight.

    Raises:
        SettingError: If a metric or setting is unknown, or both a generator and a judge
            are given.

    Examples:
        >>> from haystack import Document
        >>> evaluator = RagMetricsEvaluator(metrics=["context_adherence"], judge="lexical")
        >>> result = evaluator.run(query="Capital?", documents=[Document(content="Paris.")], replies="Paris.")
        >>> result["results"]["context_adherence"]["status"]
        ['scored']
    """

    def __init__(
        self,
        metrics: Sequence[MetricLike] | MetricLike | None = None,
        *,
        chat_generator: ChatGenerator | None = None,
        judge: JudgeLike | ChatGenerator = None,
        raise_on_failure: bool = True,
        concurrency: int = 32,
    ) -> None:
        """Keep the settings, and choose what judges; see the class for the arguments.

        Example: ``chat_generator=OpenAIChatGenerator()`` judges as an ``LLMJudge``.
        """
        if chat_generator is not None and judge is not None:
            raise SettingError("give chat_generator= or judge=, not both")
        if isinstance(judge, Component):
            chat_generator, judge = judge, None
        self.metrics = tuple(metrics_described(metrics))
        # the settings as the user gave them, for ``to_dict``
        self.chat_generator = chat_generator
        self.judge = judge
        self.raise_on_failure = raise_on_failure
        self.concurrency = concurrency
        # what judges: the generator as a model, else the judge as the user gave it
        self._model = None if chat_generator is None else HaystackModel(chat_generator)
        self._judge = self.judge if self._model is None else LLMJudge(self._model)

    def to_dict(self) -> dict[str, Any]:
        """Serialize the component.

        Raises:
            SerializationError: If the judge is an object that a name cannot stand for.
        """
        if not isinstance(self.judge, str | None):
            raise SerializationError(
                f"a {type(self.judge).__name__} cannot be written to YAML; give judge="
                " as a name, or chat_generator="
            )
        metrics = [description_of(metric) for metric in self.metrics]
        for metric, description in zip(self.metrics, metrics, strict=True):
            if description is None:
                raise SerializationError(
                    f"a {type(metric).__name__} cannot be written to YAML, which holds"
                    " the metrics of ragmetrics alone"
                )
        settings = {name: getattr(self, name) for name in _SETTINGS}
        return default_to_dict(self, metrics=metrics, judge=self.judge, **settings)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RagMetricsEvaluator:
        """Make a component of what ``to_dict`` wrote.

        Raises:
            DeserializationError: If it is of another component.
            SettingError: If it holds an unknown metric or setting.
        """
        restored: RagMetricsEvaluator = default_from_dict(cls, data)
        return restored

    def close(self) -> None:
        """Release what the generator holds."""
        if self._model is not None:
            self._model.close()

    @component.output_types(**_OUTPUT_TYPES)
    def run(
        self,
        answers: list[GeneratedAnswer | ExtractedAnswer] | None = None,
        query: str | None = None,
        documents: list[Document] | None = None,
        replies: list[ChatMessage] | list[str] | str | None = None,
        questions: list[str] | None = None,
        contexts: list[list[str]] | None = None,
        predicted_answers: list[str] | None = None,
        ground_truth_answers: list[str] | None = None,
    ) -> dict[str, Any]:
        """Score answers; give one of three groups of inputs.

        The groups: ``answers``; or ``query`` with ``documents`` and ``replies``; or the
        lists ``questions``, ``contexts`` and ``predicted_answers``.

        Args:
            answers: Answers with their questions and documents.
            query: The question of one answer.
            documents: The documents that the model saw for it, in their order.
            replies: The answer; of several replies each is scored.
            questions: Questions of a batch.
            contexts: Texts that the model saw, per question.
            predicted_answers: Answers, per question.
            ground_truth_answers: Expected answers, one for each answer.

        Returns:
            ``results``: per metric its mean ``score``, ``individual_scores`` (NaN where
            there is none), ``status`` (scored, undefined or failed), ``reasons`` and
            ``evidence``. ``score`` and ``individual_scores``: those of the first
            metric. ``meta``: calls, tokens, cost, judge, warnings.

        Raises:
            SettingError: If inputs of several groups are given, or lists differ in
                length.
            JudgeUnavailable: With ``raise_on_failure``, if the judge answers nothing.
            RagMetricsError: With ``raise_on_failure``, if a score could not be
                determined; its words say why.
        """
        values = {
            "answers": answers,
            "query": query,
            "documents": documents,
            "replies": replies,
            "questions": questions,
            "contexts": contexts,
            "predicted_answers": predicted_answers,
        }
        samples, warnings = samples_of_inputs(values, ground_truth_answers)
        try:
            report = evaluate(
                samples,
                self.metrics,
                judge=self._judge,
                concurrency=self.concurrency,
            )
        except JudgeUnavailable as error:
            if self.raise_on_failure:
                raise
            failed: dict[str, MetricResult] = {
                metric.name: metric.failed(error) for metric in self.metrics
            }
            report = Report(
                [
                    SampleResult(index=index, sample=sample, results=failed)
                    for index, sample in enumerate(samples)
                ]
            )
        return self._outputs(report, warnings)

    def _outputs(self, report: Report, warnings: Sequence[str]) -> dict[str, Any]:
        """Make the outputs of the component: scores of each metric, and what they took.

        ``score`` and ``individual_scores`` are those of the first metric, as other
        evaluators of Haystack give them. ``meta`` holds the tokens, calls and costs of
        all metrics together. Example: two answers with 1 and 0.5 by the first metric:
        ``score`` is 0.75, and ``meta["samples"]`` is 2.

        Args:
            report: The results of each answer.
            warnings: What the inputs may lack.
        """
        columns = {}
        judges: set[str] = set()
        for metric in self.metrics:
            outcomes = [row.results[metric.name] for row in report]
            self._tell_failures(outcomes)
            judges.update(outcome.judge for outcome in outcomes if outcome.judge)
            columns[metric.name] = _column(outcomes)
        first_column: dict[str, Any] = {"score": math.nan, "individual_scores": []}
        if self.metrics:
            first_column = columns[self.metrics[0].name]
        usage = report.usage
        meta = {name: getattr(usage, name) for name in _USAGE_FIELDS}
        meta |= {
            "models": list(usage.models),
            "fallbacks": list(usage.fallbacks),
            "warnings": list(warnings),
            "samples": len(report),
            "judges": sorted(judges),
        }
        return {
            "results": columns,
            "score": first_column["score"],
            "individual_scores": first_column["individual_scores"],
            "meta": meta,
        }

    def _tell_failures(self, outcomes: Sequence[MetricResult]) -> None:
        """Raise an error of a metric's first failure, or log how many there are.

        The user chooses by ``raise_on_failure``. Example: "context_adherence failed for
        2 of 10 answers; their scores are NaN".
        """
        failures = [result for result in outcomes if isinstance(result, Failed)]
        if not failures:
            return
        first = failures[0]
        if self.raise_on_failure:
            place = outcomes.index(first)
            raise RagMetricsError(
                f"{first.metric} of answer {place}: {first.error.type}: {first.reason}"
                "; raise_on_failure=False makes it NaN, and keeps the other scores"
            )
        logger.warning(
            "{metric} failed for {failed} of {total} answers; their scores are NaN",
            metric=first.metric,
            failed=len(failures),
            total=len(outcomes),
        )


def _column(outcomes: Sequence[MetricResult]) -> dict[str, Any]:
    """Return the results of one metric, in the form of ``EvaluationRunResult``.

    A missing score is NaN; ``status`` and ``reasons`` say why it is missing. Example:
    of the scores 1, 0.5 and NaN the mean is 0.75. The mean of no score is NaN.
    """
    values = [outcome.value for outcome in outcomes]
    scores = [value for value in values if value is not None]
    evidence = [outcome.evidence for outcome in outcomes]
    return {
        "score": math.fsum(scores) / len(scores) if scores else math.nan,
        "individual_scores": [math.nan if each is None else each for each in values],
        "status": [outcome.status for outcome in outcomes],
        "reasons": [outcome.reason for outcome in outcomes],
        "evidence": [
            each if each is None else each.model_dump(mode="json") for each in evidence
        ],
    }


def samples_of_inputs(
    values: Mapping[str, Any], ground_truth_answers: Sequence[str] | None
) -> tuple[list[Sample], list[str]]:
    """Make samples of the inputs of ``RagMetricsEvaluator.run``, with warnings.

    Example: a query with one document and two replies gives two samples. A warning says
    that an answer object holds fewer documents than the model saw.

    Args:
        values: What the sockets hold, by their names; None for a socket without a value.
        ground_truth_answers: The expected answers, one for each answer; None for none.

    Raises:
        SettingError: If inputs of several groups are given, lists differ in length, or
            a value is of another type.
    """
    filled = [[name for name in group if values[name] is not None] for group in _GROUPS]
    given = [", ".join(names) for names in filled if names]
    if len(given) > 1:
        raise SettingError(
            f"give one group of inputs, got {'; '.join(given)}: answers, or"
            " query/documents/replies, or lists"
        )
    answers = values["answers"] or ()
    rows = [_row_of_answer(answer) for answer in answers]
    if filled[1]:
        query, documents, replies = (values[name] for name in _PARTS)
        several = replies if isinstance(replies, list) else [replies]
        # a row for each reply; one without an answer if there is none
        for reply in several or [None]:
            text = reply.text if isinstance(reply, ChatMessage) else reply
            rows.append(_row(query, documents, text))
    elif filled[2]:
        lists = {_FIELDS[name]: values[name] for name in filled[2]}
        _check_lengths({name: values[name] for name in filled[2]})
        rows = [
            dict(zip(lists, parts, strict=True))
            for parts in zip(*lists.values(), strict=True)
        ]
    if ground_truth_answers is not None:
        _check_lengths({"answers": rows, "ground_truth_answers": ground_truth_answers})
        for row, reference in zip(rows, ground_truth_answers, strict=True):
            row["reference"] = reference
    warnings: list[str] = []
    for answer in answers:
        documents = answer.documents if isinstance(answer, GeneratedAnswer) else ()
        # an ``AnswerBuilder`` that keeps only cited documents marks each of them
        if documents and all(each.meta.get("referenced") for each in documents):
            warnings = [_CITED_ONLY]
    samples = []
    try:
        for row in rows:
            # an input is named: one text of contexts is one context, an address a text
            contexts = "contexts" if "contexts" in row else None
            expected = "reference" if "reference" in row else None
            sample = Sample.from_row(row, contexts=contexts, reference=expected)
            samples.append(sample)
    except RagMetricsError as error:
        raise SettingError(str(error)) from error
    return samples, warnings


def _check_lengths(lists: Mapping[str, Sequence[Any]]) -> None:
    """Refuse, by ``SettingError``, lists that differ in length."""
    lengths = {name: len(elements) for name, elements in lists.items()}
    if len(set(lengths.values())) > 1:
        in_words = [f"{name} {length}" for name, length in lengths.items()]
        raise SettingError(f"lists differ in length: {', '.join(in_words)}")


def _row(question: object, documents: Sequence[Document] | None, answer: object) -> Row:
    """The row of one answer; documents without a text, such as images, are left out."""
    contexts = None
    if documents is not None:
        contexts = [each for each in documents if (each.content or "").strip()]
    return {"question": question, "contexts": contexts, "answer": answer}


def _row_of_answer(answer: GeneratedAnswer | ExtractedAnswer) -> Row:
    """The row of an answer of Haystack, with the documents that it carries.

    Raises:
        SettingError: If it is no answer of Haystack.
    """
    if isinstance(answer, GeneratedAnswer):
        return _row(answer.query, answer.documents, answer.data)
    if isinstance(answer, ExtractedAnswer):
        documents = [] if answer.document is None else [answer.document]
        return _row(answer.query, documents, answer.data)
    raise SettingError(
        "answers must be GeneratedAnswer or ExtractedAnswer, got"
        f" {type(answer).__name__}"
    )
