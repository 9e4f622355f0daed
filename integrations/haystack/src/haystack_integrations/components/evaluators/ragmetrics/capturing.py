"""``capture``, ``watch`` and ``samples_from`` without a change to the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from haystack.core.component import Component
from haystack_integrations.tracing.ragmetrics.nodes import Run
from haystack_integrations.tracing.ragmetrics.recorder import LISTENERS
from haystack_integrations.tracing.ragmetrics.tree import as_run, trees

from ragmetrics_core.capture import FrontDoor

if TYPE_CHECKING:
    from ragmetrics_core.capture import JudgeLike


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
        "no pipeline, agent or component of Haystack ran in it; make the calls inside"
        " the block"
    ),
    hint=(
        "runs of Haystack neither retrieved nor answered: what the application says then"
        " is not seen; if they did, say where things are by question_from=,"
        " contexts_from= and answer_from= (component.socket)"
    ),
)
capture = _ADAPTER.capture
watch = _ADAPTER.watch
samples_from = _ADAPTER.samples_from
