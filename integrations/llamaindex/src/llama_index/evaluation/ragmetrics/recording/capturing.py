"""``capture``, ``watch`` and ``samples_from`` for LlamaIndex."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llama_index.evaluation.ragmetrics.recording.recorder import RECORDER
from llama_index.evaluation.ragmetrics.recording.run import Run
from llama_index.evaluation.ragmetrics.recording.tree import as_run, trees_of

from ragmetrics_core.capture import FrontDoor

if TYPE_CHECKING:
    from ragmetrics_core.capture import JudgeLike


def _as_judge(judge: Any) -> JudgeLike:
    # The clients of models are behind it, which recording does not need.
    from llama_index.evaluation.ragmetrics.model import as_judge

    return as_judge(judge)


# makes this adapter's three functions
_ADAPTER: FrontDoor[Run] = FrontDoor(
    RECORDER.listeners,
    trees_of,
    _as_judge,
    as_run=as_run,
    unseen=(
        "no query engine, chat engine, agent, workflow, retriever, synthesizer or model"
        " of LlamaIndex ran in it; make the calls inside the block, or make samples of"
        " responses with samples_from(response)"
    ),
    hint=(
        "LlamaIndex's runs were seen, but none gave a sample; say where things are by"
        " question_from=, contexts_from= and answer_from=, or name tools whose text is a"
        " context in context_tools="
    ),
)
capture = _ADAPTER.capture
watch = _ADAPTER.watch
samples_from = _ADAPTER.samples_from
