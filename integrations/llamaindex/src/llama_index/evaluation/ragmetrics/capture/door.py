"""``capture``, ``watch`` and ``samples_from`` for LlamaIndex."""

from functools import partial

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

from ragmetrics_core.capturing import FrontDoor, Node, SettingError, Turns

_Returned = Response | PydanticResponse | Streamed | AgentChatResponse | AgentOutput | StopEvent | str

_SAMPLELESS = (
    "LlamaIndex's runs were seen, but none gave a sample; say where things are by question_from=, contexts_from= and "
    "answer_from=, name tools whose text is a context in context_tools=, or use build="
)


def _as_run(response: object) -> Run:
    """A run, or one that holds only what the application returned."""
    if isinstance(response, Run):
        return response
    result = snapshot.result_of(response)
    if not isinstance(result, _Returned):
        needed = "samples_from needs a run or a response of a query engine, chat engine, agent or workflow"
        raise SettingError(f"{needed}, got {type(result).__name__}")
    named = {one.key: one for one in snapshot.sources_of(response)}.values()
    # An answer to a sub-question is known by how the framework writes such nodes.
    written = [one for one in named if one.text.startswith(("Sub question:", "\nQuestion:")) and not one.metadata]
    found = tuple(one for one in named if one.text.strip() and (one not in written or one.score is not None))
    run = Run(Node("step", "response", text=snapshot.answer_of(response)), sources=found, result=response)
    run.complete = run.root.text is not None or not isinstance(result, Streamed)
    run.other, data = tuple(one for one in named if one not in found), snapshot.plain(result)
    run.outputs = data if isinstance(data, dict) else {}
    return run


_DOOR: FrontDoor[Run] = FrontDoor(
    RECORDER.listeners,
    lambda where, problems: Turns(partial(trees_of, where=where), where, problems, _SAMPLELESS),
    as_judge,
    as_run=_as_run,
    unseen="no query engine, chat engine, agent, workflow, retriever, synthesizer or model of LlamaIndex ran in it; "
    "make the calls inside the block, or make samples of responses with samples_from(response)",
)
capture = _DOOR.capture
watch = _DOOR.watch
samples_from = _DOOR.samples_from
