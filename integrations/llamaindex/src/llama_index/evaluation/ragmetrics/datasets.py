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
from llama_index.evaluation.ragmetrics.recording.capturing import capture, samples_from
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

    The former has examples with ``query``, ``reference_answer`` and
    ``reference_contexts``; the latter has ``queries`` and ``responses`` by id. Example:
    {"queries": {"q1": "Who?"}, "responses": {"q1": "Anna"}} gives one sample with the
    id "q1", the question "Who?" and the reference "Anna".

    Args:
        dataset: The path of its JSON file, the data of that file, or the dataset.

    Returns:
        One sample per question, with reference and, where it has one, id; the rest of
        an example is in ``metadata``.

    Raises:
        InputError: If it is none of these.
    """
    data: Any = dataset
    if isinstance(dataset, (str, PathLike)):
        data = _json_of_file(Path(dataset))
    if isinstance(data, BaseModel):
        data = data.model_dump(mode="json")
    if isinstance(data, Mapping) and isinstance(data.get("queries"), Mapping):
        return _samples_of_queries(data["queries"], data.get("responses") or {})
    if isinstance(data, Mapping):
        examples = data.get("examples")
    else:
        examples = getattr(data, "examples", None)  # of a class of somebody's own
    if not isinstance(examples, (list, tuple)):
        raise InputError(
            "a dataset has a list of examples, or queries and responses; got"
            f" {type(data).__name__}"
        )
    return [_sample(example, number) for number, example in enumerate(examples)]


def _json_of_file(path: Path) -> Any:
    """The data in a JSON file.

    Raises:
        InputError: If it is no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path.name} is no JSON file: {error}") from None


def _samples_of_queries(
    queries: Mapping[str, Any], references: Mapping[str, Any]
) -> list[Sample]:
    """Make a sample of each query of a ``QueryResponseDataset``.

    Args:
        queries: The questions by their ids.
        references: The expected answers by the same ids; some may be missing.
    """
    return [
        Sample(id=query_id, question=query, reference=references.get(query_id))
        for query_id, query in queries.items()
    ]


def _sample(example: Any, number: int) -> Sample:
    """The sample of one example: its query, its reference, and all else as metadata.

    Example: {"query": "Who?", "reference_answer": "Anna", "query_by": "ai"} gives the
    question "Who?", the reference "Anna" and the metadata {"query_by": "ai"}.

    Args:
        example: The example, as a mapping or an object.
        number: Its place in the dataset, for the message.

    Raises:
        InputError: If the example has no query.
    """
    # an object: of a class that LlamaIndex no longer has
    fields = dict(example if isinstance(example, Mapping) else vars(example))
    question = fields.pop("query", None)
    reference = fields.pop("reference_answer", None)
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

    Example: ``evaluate_query_engine(engine, ["Who?", "When?"])`` gives a report with
    two samples.

    Args:
        query_engine: The engine. If it fails on a question, the report has the error
            of that question, and the rest goes on. If LlamaIndex records no spans of
            the engine, the response that it returns is judged instead.
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
    questions_to_ask = list(_questions(questions))
    samples = []
    with Display(len(questions_to_ask), progress) as display:
        for number, sample_to_ask in enumerate(questions_to_ask):
            answered_sample = _run(query_engine, sample_to_ask)
            samples.append(answered_sample)
            display.add(SampleResult(index=number, sample=answered_sample))
    with as_judge_work():  # what the judge does here is not captured
        return evaluate(
            samples, metrics, judge=as_judge(judge), progress=progress, **settings
        )


def _questions(questions: Any) -> Iterable[Sample]:
    """Yield the user's questions as samples that have no answer yet.

    Example: ["Who?", {"question": "When?", "reference": "1874"}] yields two samples, of
    which the second has a reference.

    Args:
        questions: A dataset of LlamaIndex, or an iterable of texts, samples and rows.

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
    # iterate_samples() yields the reason as a text for a row of which it makes no sample
    for number, sample in enumerate(iterate_samples(questions, {})):
        if not isinstance(sample, Sample):
            raise InputError(f"question {number}: {sample}")
        if sample.question is None:
            raise InputError(f"question {number}: it is blank")
        yield sample


def _run(query_engine: BaseQueryEngine, sample_to_ask: Sample) -> Sample:
    """Ask a query engine one question, and make the sample of what it did.

    Example: the question "Who?" gives a sample with the retrieved contexts and the
    answer "Anna". If LlamaIndex records no span of the engine, the sample is made of
    what it returned. If the engine failed, the sample has the error.

    Args:
        query_engine: The engine.
        sample_to_ask: The question, with further fields that go into the sample.
    """
    response = None
    error = None
    question = sample_to_ask.question or ""
    with capture(
        question=question,
        reference=sample_to_ask.reference,
        id=sample_to_ask.id,
        metadata=sample_to_ask.metadata,
    ) as captured:
        try:
            response = query_engine.query(question)
            if isinstance(response, (StreamingResponse, AsyncStreamingResponse)):
                str(response)  # reads the stream to its end
        except Exception as failure:  # noqa: BLE001  # a failure boundary: the sample says so, the next question is asked
            error = f"{type(failure).__name__}: {failure}"
    if captured.samples:
        # capturing has put the engine's error into the sample
        captured_sample = captured.samples[0]
        return captured_sample.model_copy(update={"facts": sample_to_ask.facts})
    if response is None:
        sample = Sample(error=error)
    else:
        sample = _sample_of_response(response)
    fields_of_run = {
        name: getattr(sample, name)
        for name in ("contexts", "retrieved", "answer", "capture", "error")
    }
    return sample_to_ask.model_copy(update=fields_of_run)


def _sample_of_response(response: object) -> Sample:
    """The sample of what an engine returned; one with an error if that is not read."""
    try:
        (sample,) = samples_from(response)
    except SettingError as error:
        return Sample(
            error="LlamaIndex's spans show no query, and the engine's result cannot be"
            f" read: {error}"
        )
    return sample
