"""Questions with reference answers: LlamaIndex's labelled datasets, and running an engine over them."""

import json
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    StreamingResponse,
)
from llama_index.core.evaluation import QueryResponseDataset
from llama_index.evaluation.ragmetrics.model import JudgeOrLLM, as_judge
from llama_index.evaluation.ragmetrics.recording.door import capture, samples_from
from pydantic import BaseModel

from ragmetrics_core import Report, Sample, evaluate
from ragmetrics_core.capture import (
    Display,
    EvaluateSettings,
    InputError,
    SampleResult,
    SettingError,
    Show,
    as_judge_work,
    iterate_samples,
)


def load_rag_dataset(
    dataset: str | PathLike[str] | Mapping[str, Any] | Any,
) -> list[Sample]:
    """Read a ``LabelledRagDataset`` or a ``QueryResponseDataset``.

    Args:
        dataset: The path of its JSON file, the same as data, or the object: examples
            with ``query``, ``reference_answer`` and ``reference_contexts``, or
            ``queries`` and ``responses`` by id.

    Returns:
        One sample per question, with reference and, where it has one, id; the rest of
        an example is in ``metadata``.

    Raises:
        InputError: If it is none of these.
    """
    data: Any = dataset
    if isinstance(dataset, (str, PathLike)):
        try:
            data = json.loads(Path(dataset).read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{Path(dataset).name} is no JSON file: {error}") from None
    if isinstance(data, BaseModel):
        data = data.model_dump(mode="json")
    if isinstance(data, Mapping) and isinstance(data.get("queries"), Mapping):
        references = data.get("responses") or {}
        return [
            Sample(id=id_, question=query, reference=references.get(id_))
            for id_, query in data["queries"].items()
        ]
    examples = (
        data.get("examples")
        if isinstance(data, Mapping)
        else getattr(data, "examples", None)
    )
    if not isinstance(examples, (list, tuple)):
        raise InputError(
            "a dataset has a list of examples, or queries and responses; got"
            f" {type(data).__name__}"
        )
    return [_sample(example, number) for number, example in enumerate(examples)]


def _sample(example: Any, number: int) -> Sample:
    """The sample of one example: its query, its reference, and all else as metadata.

    Raises:
        InputError: If the example has no query.
    """
    # of an older core: its class is gone
    fields = dict(example if isinstance(example, Mapping) else vars(example))
    question, reference = (
        fields.pop("query", None),
        fields.pop("reference_answer", None),
    )
    if not isinstance(question, str):
        raise InputError(f"example {number} of the dataset has no query")
    rest = {name: value for name, value in fields.items() if value not in (None, [])}
    return Sample(question=question, reference=reference, metadata=rest)


def evaluate_query_engine(
    query_engine: BaseQueryEngine,
    questions: Iterable[Any] | Any,
    metrics: Any = None,
    *,
    judge: JudgeOrLLM = None,
    progress: Show = None,
    **settings: Unpack[EvaluateSettings],
) -> Report:
    """Run a query engine once per question, capture what it does, and score it.

    Args:
        query_engine: The engine. A question that it fails on is reported with its
            error; the rest goes on. Of an engine that LlamaIndex's spans do not show,
            what it returns is judged.
        questions: Texts, samples or rows with references, a ``LabelledRagDataset`` or a
            ``QueryResponseDataset``.
        metrics: Metrics or their names; None for all that apply.
        judge: A LlamaIndex LLM, a judge, a chat model or a model's name.
        progress: As for ``evaluate``, for running and for judging.
        **settings: As for ``evaluate``, e.g. ``concurrency``.

    Returns:
        A report with one sample per question, in order.

    Raises:
        InputError: If a question is no text, sample or row.
        JudgeUnavailable: If the judge will not answer any question.
    """
    samples_asked = list(_questions(questions))
    samples = []
    with Display(len(samples_asked), progress) as display:
        for number, sample_asked in enumerate(samples_asked):
            samples.append(_run(query_engine, sample_asked))
            display.add(SampleResult(index=number, sample=samples[-1]))
    with as_judge_work():
        return evaluate(
            samples, metrics, judge=as_judge(judge), progress=progress, **settings
        )


def _questions(questions: Any) -> Iterable[Sample]:
    """Yield the questions as samples, in any form in which the user may give them.

    Raises:
        InputError: If one is blank, or is no text, sample or row.
    """
    if isinstance(questions, QueryResponseDataset) or hasattr(questions, "examples"):
        questions = load_rag_dataset(questions)
    if isinstance(questions, (list, tuple)):
        questions = [
            Sample(question=entry) if isinstance(entry, str) else entry
            for entry in questions
        ]
    for number, sample in enumerate(iterate_samples(questions, {})):
        if not isinstance(sample, Sample) or sample.question is None:
            raise InputError(
                f"question {number}:"
                f" {'it is blank' if isinstance(sample, Sample) else sample}"
            )
        yield sample


def _run(query_engine: BaseQueryEngine, sample_asked: Sample) -> Sample:
    """One run of the engine, a streamed answer read to its end, as one sample."""
    response, error = None, None
    question = sample_asked.question or ""
    with capture(
        question=question,
        reference=sample_asked.reference,
        id=sample_asked.id,
        metadata=sample_asked.metadata,
    ) as captured:
        try:
            response = query_engine.query(question)
            if isinstance(response, (StreamingResponse, AsyncStreamingResponse)):
                str(response)
        except Exception as failed:  # noqa: BLE001  # a failure boundary: the sample says so, the next question is asked
            error = f"{type(failed).__name__}: {failed}"
    if captured.samples:
        return captured.samples[0].model_copy(update={"facts": sample_asked.facts})
    try:
        # of a run without spans
        (sample,) = (
            samples_from(response) if response is not None else [Sample(error=error)]
        )
    except SettingError as unread:
        error = (
            "LlamaIndex's spans show no query, and the engine's result cannot be read:"
            f" {unread}"
        )
        sample = Sample(error=error)
    captured_fields = {
        name: getattr(sample, name)
        for name in ("contexts", "retrieved", "answer", "capture", "error")
    }
    return sample_asked.model_copy(update=captured_fields)
