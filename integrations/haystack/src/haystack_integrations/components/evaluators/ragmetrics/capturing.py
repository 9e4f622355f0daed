"""``capture``, ``watch`` and ``samples_from`` without a change to the pipeline.

A pipeline over many inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from haystack import Pipeline
from haystack.core.component import Component
from haystack.core.errors import PipelineMaxComponentRuns, PipelineRuntimeError
from haystack_integrations.tracing.ragmetrics.nodes import Run
from haystack_integrations.tracing.ragmetrics.recorder import LISTENERS
from haystack_integrations.tracing.ragmetrics.tree import as_run, trees
from tqdm import tqdm  # type: ignore[import-untyped]  # ships no type information

from ragmetrics_core import Sample
from ragmetrics_core.capture import CaptureNotes, FrontDoor, SettingError

if TYPE_CHECKING:
    from ragmetrics_core import Report
    from ragmetrics_core.capture import EvaluateSettings, JudgeLike, Metrics, Source


def as_judge(judge: Any) -> JudgeLike:
    """A ChatGenerator of Haystack as a judge; anything else as it is."""
    # The clients of models are behind it, which recording does not need.
    from haystack_integrations.components.evaluators.ragmetrics.model import (
        HaystackModel,
    )

    # Of a component the run must take messages; what else cannot be taken resolve_judge
    # says.
    return HaystackModel(judge) if isinstance(judge, Component) else judge  # type: ignore[arg-type]  # see above


# makes this adapter's three functions
_ADAPTER: FrontDoor[Run] = FrontDoor(
    LISTENERS,
    trees,
    as_judge,
    as_run=as_run,
    unseen=(
        "no pipeline or agent of Haystack ran in it; make the calls inside the block"
    ),
    hint=(
        "runs of Haystack neither retrieved nor answered: what the application says then"
        " is not seen; if they did, say where things are by question_from=,"
        " contexts_from= and answer_from= (component.socket), or by build="
    ),
)
capture = _ADAPTER.capture
watch = _ADAPTER.watch
samples_from = _ADAPTER.samples_from


def evaluate_pipeline(
    pipeline: Pipeline,
    inputs: Sequence[Mapping[str, Any]],
    metrics: Metrics = None,
    *,
    references: Sequence[str | Sequence[str] | None] | None = None,
    judge: object = None,
    progress: bool | None = None,
    question_from: Source | None = None,
    contexts_from: Source | None = None,
    answer_from: Source | None = None,
    context_tools: Collection[str] | None = None,
    build: Callable[[Any], Iterable[Sample]] | None = None,
    **settings: Unpack[EvaluateSettings],
) -> Report:
    """Run a pipeline once per input, one after the other, and evaluate what it answers.

    Example: ``evaluate_pipeline(pipeline, [{"retriever": {"query": "Who?"}}])`` runs it
    once, and its report has one row.

    Args:
        pipeline: The pipeline; it is not changed.
        inputs: What ``pipeline.run`` takes, once per run; they are not changed.
        metrics: Metrics or their names; None for all that apply.
        references: Expected answers, one (or several) per input; None where there is
            none.
        judge: As for ``ragmetrics_core.evaluate``, or a ChatGenerator of Haystack.
        progress: True or False; None shows bars on a terminal.
        question_from: As for ``capture``.
        contexts_from: As for ``capture``.
        answer_from: As for ``capture``.
        context_tools: As for ``capture``.
        build: As for ``capture``.
        **settings: As for ``ragmetrics_core.evaluate``, e.g. ``concurrency``.

    Returns:
        The report. A run that failed is a row with its error; so is one that neither
        retrieved nor answered.

    Raises:
        SettingError: If there are not as many references as inputs.
        ValueError: If the pipeline does not take an input.
    """
    from ragmetrics_core import evaluate  # recording does not need the engine

    reference_of_each = _one_for_each(references, len(inputs))
    hides_bar = None if progress is None else not progress  # None: on a terminal only
    samples: list[Sample] = []
    shown_inputs = tqdm(inputs, desc="pipeline", disable=hides_bar)
    for pipeline_input, reference in zip(shown_inputs, reference_of_each, strict=True):
        with capture(
            reference=reference,
            question_from=question_from,
            contexts_from=contexts_from,
            answer_from=answer_from,
            context_tools=context_tools,
            build=build,
        ) as captured:
            error = _run_and_return_error(pipeline, pipeline_input)
        samples += captured.samples or [_sample_of_nothing(reference, error)]
    return evaluate(
        samples, metrics, judge=as_judge(judge), progress=progress, **settings
    )


def _one_for_each(
    references: Sequence[str | Sequence[str] | None] | None, n_inputs: int
) -> Sequence[Any]:
    """The reference of each input, None where there is none.

    Raises:
        SettingError: If there are not as many references as inputs.
    """
    if references is None:
        return [None] * n_inputs
    if len(references) != n_inputs:
        raise SettingError(
            f"{n_inputs} inputs and {len(references)} references; give one (or None)"
            " for each"
        )
    return references


def _sample_of_nothing(reference: Any, error: str | None) -> Sample:
    """The row of a run that neither retrieved nor answered, perhaps because it failed."""
    notes = CaptureNotes(
        warnings=("the run neither retrieved nor answered",), complete=error is None
    )
    return Sample(reference=reference, error=error, capture=notes)


def _run_and_return_error(
    pipeline: Pipeline, pipeline_input: Mapping[str, Any]
) -> str | None:
    """Run a pipeline on a copy of an input; the error in words, which is part of the result."""
    copied_input = {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in pipeline_input.items()
    }
    try:
        pipeline.run(copied_input)
    except (PipelineRuntimeError, PipelineMaxComponentRuns) as error:
        return f"{type(error).__name__}: {error}"
    return None
