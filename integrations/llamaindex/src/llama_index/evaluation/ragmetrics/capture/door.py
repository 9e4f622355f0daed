"""``capture`` and ``watch`` for LlamaIndex."""

from __future__ import annotations

from functools import partial

from llama_index.evaluation.ragmetrics.capture.recorder import RECORDER
from llama_index.evaluation.ragmetrics.capture.run import Run
from llama_index.evaluation.ragmetrics.capture.samples import made
from llama_index.evaluation.ragmetrics.model import as_judge

from ragmetrics_core.capturing import EachRun, FrontDoor, Listener, Overrides


def _assembler(where: Overrides, listener: Listener) -> EachRun[Run]:
    return EachRun(partial(made, where=where), partial(RECORDER.release, listener))


_DOOR = FrontDoor(
    RECORDER.listeners,
    _assembler,
    as_judge,
    unseen="no query engine, chat engine, agent, workflow, retriever or synthesizer of LlamaIndex ran in it; make "
    "the calls inside the block, or make samples of responses with samples_from(response)",
    sampleless="LlamaIndex's runs were seen, but none gave a sample; say where things are by question_from=, "
    "contexts_from= and answer_from=, or by build=",
)
capture = _DOOR.capture
watch = _DOOR.watch
