"""`capture`, `watch` and `samples_from`, with nothing passed to any chain.

Keys and paths lead into the inputs or outputs of the root; ``metadata={"ragmetrics":
{"reference": …}}`` in the config of a call says the same things for that call.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.tracers.context import register_configure_hook

from langchain_ragmetrics.recording.calls import Run, as_run
from langchain_ragmetrics.recording.patches import (
    STORE_METHODS,
    record_store_searches,
)
from langchain_ragmetrics.recording.recorder import Recorder
from langchain_ragmetrics.recording.tree import trees
from ragmetrics_core.capture import FrontDoor, Listeners, SettingError

if TYPE_CHECKING:
    from langchain_ragmetrics.model import LangChainJudge
    from ragmetrics_core.capture import JudgeLike


@cache
def _hook() -> None:
    """Have LangChain find the recorder while somebody listens.

    The hook is put in once and stays, because LangChain has no way to take it out.
    """
    # LangChain expects a context variable. A real one would have no value in threads
    # that the user starts. Who gets a run is asked when it begins.
    slot = SimpleNamespace(get=lambda: RECORDER if LISTENERS.open else None)
    register_configure_hook(cast("ContextVar[Any]", slot), inheritable=True)


def _opened(_: object) -> None:
    """Put the hooks in: somebody begins to listen."""
    _hook()
    record_store_searches()


def _closed(_: object) -> None:
    """Take the hooks of stores out, if the last listener has left."""
    if not LISTENERS.open:
        STORE_METHODS.restore()


def as_judge(judge: LangChainJudge) -> JudgeLike:
    """What the core takes for a judge; a runnable of LangChain is wrapped.

    Raises:
        SettingError: If it is a decision model, which answers no prompt.
    """
    if not isinstance(judge, Runnable):
        return judge
    innermost: Runnable[Any, Any] = judge
    while isinstance(innermost, RunnableBindingBase):
        innermost = innermost.bound
    # where nobody has imported their module, there is none
    decisions = sys.modules.get("langchain_core.decisions.base")
    if decisions is not None and isinstance(innermost, decisions.BaseDecisionModel):
        raise SettingError(
            "a decision model of LangChain is no judge; name its model instead, as"
            ' judge="systemone/MODEL" or judge="decisions/MODEL"'
        )
    # The clients of models are behind it, which recording does not need.
    from langchain_ragmetrics.model import LangChainModel

    return LangChainModel(judge)


LISTENERS = Listeners(_opened, _closed)
RECORDER = Recorder(LISTENERS)

# makes this adapter's three functions
ADAPTER = FrontDoor[Run](
    LISTENERS,
    trees,
    as_judge,
    as_run=as_run,
    unseen=(
        "nothing of LangChain or LangGraph ran in it; make the calls inside the block"
    ),
    hint=(
        "runs were seen, but no retrieval: if the application finds documents by a"
        " function of its own, call langchain_ragmetrics.add_documents(docs, query=query)"
        " there, with what it searched for; if they come from tools that return text, name these by"
        " context_tools=; else say where they are by contexts_from="
    ),
)
capture = ADAPTER.capture
watch = ADAPTER.watch
samples_from = ADAPTER.samples_from
