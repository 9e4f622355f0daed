"""From a recorded run, or a response, to samples: pure functions, away from the application's threads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from llama_index.core.agent.workflow.workflow_events import AgentOutput
from llama_index.core.base.response.schema import PydanticResponse, Response
from llama_index.core.chat_engine.types import AgentChatResponse
from llama_index.core.workflow import StopEvent
from llama_index.evaluation.ragmetrics.capture import rules
from llama_index.evaluation.ragmetrics.capture.run import Node, Run
from llama_index.evaluation.ragmetrics.capture.snapshot import (
    Streamed,
    answer_of,
    plain,
    result_of,
    sources_of,
    streamed,
    tool_sources_of,
)

from ragmetrics_core import Context, Sample
from ragmetrics_core.capturing import CaptureNotes, Overrides, SettingError, changed
from ragmetrics_core.capturing import Source as From

Source = Run | Response | PydanticResponse | Streamed | AgentChatResponse | AgentOutput | StopEvent | str


def samples_from(
    run: Source,
    *,
    question_from: From | None = None,
    contexts_from: From | None = None,
    answer_from: From | None = None,
    context_tools: Collection[str] | None = None,
    build: Callable[[Any], Iterable[Sample]] | None = None,
) -> list[Sample]:
    """Make the samples of a recorded run or of a response.

    Args:
        run: A run, or anything that a query engine, chat engine, agent or workflow returned. A stream is not read:
            without its text the sample has no answer. A response knows no question, nor what was retrieved before
            reranking.
        question_from: See ``capture``; of a response a callable gets the response.
        contexts_from: See ``capture``.
        answer_from: See ``capture``.
        context_tools: See ``capture``.
        build: See ``capture``.

    Returns:
        One sample, or what ``build`` gives.

    Raises:
        SettingError: If it is neither a run nor a response.

    Example:
        >>> from llama_index.core.base.response.schema import Response
        >>> samples_from(Response("Paris."))[0].answer
        'Paris.'
    """
    return made(run, Overrides(question_from, contexts_from, answer_from, context_tools, build))


def made(source: Source, where: Overrides) -> list[Sample]:
    """Samples of a run or a response; see ``samples_from``."""
    if isinstance(source, Run):
        if where.build is not None:
            return list(where.build(source))
        return [_overridden(_of_run(source, where), source, where, source.outputs, source.inputs)]
    if isinstance(result_of(source), Source):
        data = plain(result_of(source))
        return [_overridden(_of_response(source), source, where, data if isinstance(data, dict) else {})]
    raise SettingError(
        f"samples_from needs a run or a response of a query engine, chat engine, agent or workflow, got "
        f"{type(result_of(source)).__name__}"
    )


def _of_run(run: Run, where: Overrides) -> Sample:
    """All rules applied to a run."""
    root = run.root
    asked, place = rules.question(run)
    nodes, origin = rules.final_nodes(run, where)
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


def _overridden(sample: Sample, run: object, where: Overrides, *places: Mapping[str, Any]) -> Sample:
    """A sample with the fields that the user says where to find."""
    update: dict[str, object] = {}
    for field in ("question", "contexts", "answer"):
        there, value = where.find(field, run, *places)
        if there:
            update[field] = getattr(Sample.from_row({field: value}), field)
    return changed(sample, update)
