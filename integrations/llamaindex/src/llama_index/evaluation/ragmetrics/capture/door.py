"""``capture``, ``watch`` and ``samples_from`` for LlamaIndex."""

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

from llama_index.core.agent.workflow.workflow_events import AgentOutput
from llama_index.core.base.response.schema import PydanticResponse, Response
from llama_index.core.chat_engine.types import AgentChatResponse
from llama_index.core.workflow import StopEvent
from llama_index.evaluation.ragmetrics.capture import snapshot
from llama_index.evaluation.ragmetrics.capture.recorder import RECORDER
from llama_index.evaluation.ragmetrics.capture.run import Run
from llama_index.evaluation.ragmetrics.capture.snapshot import Streamed
from llama_index.evaluation.ragmetrics.capture.tree import trees_of
from llama_index.evaluation.ragmetrics.model import as_judge

from ragmetrics_core import Sample
from ragmetrics_core.capturing import FrontDoor, Node, Overrides, SettingError, Turns
from ragmetrics_core.capturing import Source as From

Source = Run | Response | PydanticResponse | Streamed | AgentChatResponse | AgentOutput | StopEvent | str

_SAMPLELESS = (
    "LlamaIndex's runs were seen, but none gave a sample; say where things are by question_from=, contexts_from= and "
    "answer_from=, name tools whose text is a context in context_tools=, or use build="
)

_DOOR: FrontDoor[Run] = FrontDoor(
    RECORDER.listeners,
    lambda where, listener: Turns(partial(trees_of, where=where), where, listener.problems, _SAMPLELESS),
    as_judge,
    unseen="no query engine, chat engine, agent, workflow, retriever, synthesizer or model of LlamaIndex ran in it; "
    "make the calls inside the block, or make samples of responses with samples_from(response)",
    sampleless=_SAMPLELESS,
)
capture = _DOOR.capture
watch = _DOOR.watch


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
        question_from: See ``capture``, like the others; of a response a callable gets the response.
        contexts_from: The same for the contexts.
        answer_from: The same for the answer.
        context_tools: Names of tools whose text is a context.
        build: A callable from the run to its samples.

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
    turns = Turns(partial(trees_of, where=where), where)
    return [*turns.add(run if isinstance(run, Run) else _as_run(run)), *turns.finish()]


def _as_run(response: object) -> Run:
    """A run that holds only what the application returned."""
    result = snapshot.result_of(response)
    if not isinstance(result, Source):
        needed = "samples_from needs a run or a response of a query engine, chat engine, agent or workflow"
        raise SettingError(f"{needed}, got {type(result).__name__}")
    named = {one.key: one for one in snapshot.sources_of(response)}.values()
    # An answer to a sub-question is known by how the framework writes such nodes.
    written = [one for one in named if one.text.startswith(("Sub question:", "\nQuestion:")) and not one.metadata]
    found = tuple(one for one in named if one.text.strip() and (one not in written or one.score is not None))
    run = Run("query", Node("step", "response", text=snapshot.answer_of(response)), sources=found, result=response)
    run.complete = run.root.text is not None or not isinstance(result, Streamed)
    run.other, data = tuple(one for one in named if one not in found), snapshot.plain(result)
    run.outputs = data if isinstance(data, dict) else {}
    return run
