"""``capture`` and ``watch`` for LlamaIndex."""

from __future__ import annotations

from functools import partial

from llama_index.evaluation.ragmetrics.capture.recorder import RECORDER
from llama_index.evaluation.ragmetrics.capture.run import Run
from llama_index.evaluation.ragmetrics.capture.tree import trees_of
from llama_index.evaluation.ragmetrics.model import as_judge

from ragmetrics_core.capturing import FrontDoor, Listener, Overrides, Turns

_SAMPLELESS = (
    "LlamaIndex's runs were seen, but none gave a sample; say where things are by question_from=, contexts_from= and "
    "answer_from=, name tools whose text is a context in context_tools=, or use build="
)


def _assembler(where: Overrides, listener: Listener) -> Turns[Run]:
    return Turns(partial(trees_of, where=where), where, listener.problems, _SAMPLELESS)


_DOOR = FrontDoor(
    RECORDER.listeners,
    _assembler,
    as_judge,
    unseen="no query engine, chat engine, agent, workflow, retriever, synthesizer or model of LlamaIndex ran in it; "
    "make the calls inside the block, or make samples of responses with samples_from(response)",
    sampleless=_SAMPLELESS,
)
capture = _DOOR.capture
watch = _DOOR.watch
