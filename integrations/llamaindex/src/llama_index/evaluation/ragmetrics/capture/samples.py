"""From a recorded run, or a response, to samples: pure functions, away from the application's threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llama_index.core.agent.workflow.workflow_events import AgentOutput
from llama_index.core.base.response.schema import PydanticResponse, Response
from llama_index.core.chat_engine.types import AgentChatResponse
from llama_index.core.workflow import StopEvent
from llama_index.evaluation.ragmetrics.capture import rules
from llama_index.evaluation.ragmetrics.capture.run import Node, Run
from llama_index.evaluation.ragmetrics.capture.snapshot import (
    Streamed,
    answer_of,
    result_of,
    sources_of,
    streamed,
    tool_sources_of,
)

from ragmetrics_core import CaptureNotes, Context, Sample, SettingError
from ragmetrics_core.capturing import Overrides

Source = Run | Response | PydanticResponse | Streamed | AgentChatResponse | AgentOutput | StopEvent | str

_NOTHING = Overrides()


def samples_from(
    source: Source,
    *,
    query: str | None = None,
    reference: str | Sequence[str] | None = None,
    overrides: Overrides = _NOTHING,
) -> list[Sample]:
    """Make the samples of a recorded run or of a response.

    Args:
        source: A run, or anything that a query engine, chat engine, agent or workflow returned. A stream is not
            read: without its text the sample has no answer.
        query: The question, for a response, which does not know it.
        reference: The expected answer, one or several.
        overrides: Where the user says that the fields are, instead of the rules.

    Returns:
        One sample, or what ``overrides.build`` gives. Of a response it is unknown what was retrieved before
        reranking.

    Raises:
        SettingError: If the source is none of these.

    Example:
        >>> from llama_index.core.base.response.schema import Response
        >>> samples_from(Response("Paris."), query="Capital of France?")[0].answer
        'Paris.'
    """
    if isinstance(source, Run):
        if overrides.build is not None:
            return list(overrides.build(source))
        sample = _overridden(_of_run(source), source, overrides)
    elif isinstance(result_of(source), Source):
        sample = _of_response(source)
    else:
        raise SettingError(
            f"samples_from needs a run or a response of a query engine, chat engine, agent or workflow, got "
            f"{type(result_of(source)).__name__}"
        )
    given: dict[str, object] = {"question": query, "reference": reference}
    update = {name: value for name, value in given.items() if value is not None}
    return [_with(sample, update) if update else sample]


def _of_run(run: Run) -> Sample:
    """All rules applied to a run."""
    root = run.root
    asked, place = rules.question(run)
    nodes, origin = rules.final_nodes(run)
    nodes, written = rules.split_synthetic(run, rules.unique(nodes))
    nodes, other = rules.split_textless(nodes)
    found = rules.retrieved(run)
    answer = None if root.error is not None else root.answer
    partial = () if run.partial is None else (Context(text=run.partial),)
    provenance = {"question": place, "contexts": origin, "answer": f"result of {root.kind}"}
    return Sample(
        question=asked,
        standalone_question=rules.standalone_question(run, asked),
        history=root.history[:-1] if place.startswith("last user message") else root.history,
        contexts=contexts_of(nodes),
        retrieved=None if found is None else contexts_of(node for node in found if node.plain.strip()),
        answer=answer,
        error=root.error,
        generator=run.model if answer is not None else None,
        capture=CaptureNotes(
            provenance=provenance,
            warnings=rules.warnings(run, nodes, found),
            intermediate=contexts_of(written) + partial,
            other=contexts_of(other),
            complete=run.complete and not root.interrupted,
        ),
    )


def _of_response(response: object) -> Sample:
    """The rules that need no run."""
    named = sources_of(response) or tool_sources_of(response)
    nodes, written = rules.split_stored_synthetic(rules.unique(named))
    nodes, other = rules.split_textless(nodes)
    answer = answer_of(response)
    unread = answer is None and streamed(response) is not None
    return Sample(
        contexts=contexts_of(nodes),
        answer=answer,
        capture=CaptureNotes(
            provenance={"contexts": "source nodes of the response", "answer": "response"},
            warnings=("the streamed answer was not read to its end",) if unread else (),
            intermediate=contexts_of(written),
            other=contexts_of(other),
            complete=not unread,
        ),
    )


def contexts_of(nodes: Iterable[Node]) -> tuple[Context, ...]:
    """Nodes as contexts, with the text as the model saw it."""
    return tuple(Context(text=node.text, id=node.id, score=node.score, metadata=node.metadata) for node in nodes)


def _overridden(sample: Sample, run: Run, overrides: Overrides) -> Sample:
    """A sample with the fields that the user says where to find."""
    update: dict[str, object] = {}
    for field in ("question", "contexts", "answer"):
        there, value = overrides.find(field, run, run.outputs, run.inputs)
        if there:
            update[field] = getattr(Sample.from_row({field: value}), field)
    return _with(sample, update) if update else sample


def _with(sample: Sample, update: dict[str, object]) -> Sample:
    """A validated copy; contexts are shared, not copied."""
    return Sample(**{**{name: getattr(sample, name) for name in Sample.model_fields}, **update})
