"""``capture`` and ``watch`` for Haystack: without a change to the pipeline."""

from __future__ import annotations

from functools import partial
from typing import Any

from haystack.core.component import Component
from haystack_integrations.components.evaluators.ragmetrics.model import HaystackModel
from haystack_integrations.tracing.ragmetrics.nodes import Run
from haystack_integrations.tracing.ragmetrics.recorder import LISTENERS
from haystack_integrations.tracing.ragmetrics.samples import made

from ragmetrics_core.capturing import EachRun, FrontDoor, JudgeLike, Listener, Overrides


def _assembler(where: Overrides, listener: Listener) -> EachRun[Run]:
    del listener
    return EachRun(partial(made, where=where))


def as_judge(judge: Any) -> JudgeLike:
    """A ChatGenerator of Haystack as a judge; anything else as it is."""
    if not isinstance(judge, Component):
        return judge  # type: ignore[no-any-return]  # resolve_judge says what it cannot take
    return HaystackModel(judge)  # type: ignore[arg-type]  # a component whose run takes messages


_DOOR = FrontDoor(
    LISTENERS,
    _assembler,
    as_judge,
    unseen="no pipeline or agent of Haystack ran in it; make the calls inside the block",
    sampleless="Haystack's runs were seen, but none of them retrieved or answered; say where things are by "
    "question_from=, contexts_from= and answer_from= (component.socket), or by build=",
)
capture = _DOOR.capture
watch = _DOOR.watch
