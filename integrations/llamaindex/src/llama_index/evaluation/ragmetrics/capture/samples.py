"""From a recorded run, or a response, to samples: pure functions, away from the application's threads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

from llama_index.core.agent.workflow.workflow_events import AgentOutput
from llama_index.core.base.response.schema import PydanticResponse, Response
from llama_index.core.chat_engine.types import AgentChatResponse
from llama_index.core.workflow import StopEvent
from llama_index.evaluation.ragmetrics.capture.run import Run
from llama_index.evaluation.ragmetrics.capture.snapshot import (
    Streamed,
    answer_of,
    plain,
    result_of,
    sources_of,
    streamed,
    tool_sources_of,
)
from llama_index.evaluation.ragmetrics.capture.tree import trees_of

from ragmetrics_core import Sample
from ragmetrics_core.capturing import CaptureNotes, Document, Overrides, SettingError, Turns, changed
from ragmetrics_core.capturing import Source as From

_SYNTHETIC_STARTS = ("Sub question:", "\nQuestion:")  # how the framework writes answers to sub-questions
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
    where = Overrides(question_from, contexts_from, answer_from, context_tools, build)
    if isinstance(run, Run):
        joined: Turns[Run] = Turns(partial(trees_of, where=where), where)
        return [*joined.add(run), *joined.finish()]
    if not isinstance(result_of(run), Source):
        raise SettingError(
            f"samples_from needs a run or a response of a query engine, chat engine, agent or workflow, got "
            f"{type(result_of(run)).__name__}"
        )
    data = plain(result_of(run))
    return [_overridden(_of_response(run), run, where, data if isinstance(data, dict) else {})]


def _of_response(response: object) -> Sample:
    """What a response tells without its run."""
    named = {one.key: one for one in sources_of(response) or tool_sources_of(response)}
    texts = [one for one in named.values() if one.text.strip()]
    written = [one for one in texts if _is_written(one)]
    answer = answer_of(response)
    unread = answer is None and streamed(response) is not None
    return Sample(
        contexts=tuple(one.context() for one in texts if one not in written),
        answer=answer,
        capture=CaptureNotes(
            grade="inferred" if answer else "incomplete",
            evidence_from="listed",
            provenance={"contexts": "source nodes of the response", "answer": "response"},
            warnings=("the streamed answer was not read to its end",) if unread else (),
            intermediate=tuple(one.context() for one in written),
            other=tuple(one.context() for one in named.values() if not one.text.strip()),
            complete=not unread,
        ),
    )


def _is_written(node: Document) -> bool:
    return node.score is None and not node.metadata and node.text.startswith(_SYNTHETIC_STARTS)


def _overridden(sample: Sample, response: object, where: Overrides, data: dict[str, Any]) -> Sample:
    """A sample with the fields that the user says where to find."""
    update: dict[str, object] = {}
    for field in ("question", "contexts", "answer"):
        there, value = where.find(field, response, data)
        if there:
            update[field] = getattr(Sample.from_row({field: value}), field)
    return changed(sample, update)
