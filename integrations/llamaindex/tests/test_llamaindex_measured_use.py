"""Measured use in LlamaIndex: which passages an engine's own LLM read."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.llms import ChatMessage
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.evaluation.ragmetrics import capture
from measured_runs import (
    PASSAGES,
    PLANTED,
    QUESTION,
    RENDERINGS,
    check,
    reply_to,
    verdicts_of,
)


class Engine(CustomQueryEngine):
    retriever: Any
    model: Any
    rendering: str

    def custom_query(self, query_str: str) -> str:
        found = self.retriever.retrieve(query_str)
        messages = RENDERINGS[self.rendering]([each.node.text for each in found])
        asked = [ChatMessage(role=role, content=text) for role, text in messages]
        return str(self.model.chat(asked).message.content)


def engine(kit: ModuleType, rendering: str, k: int, model: Any) -> Engine:
    nodes = [kit.node(f"d{n}", text, 0.5) for n, text in enumerate(PASSAGES[:k])]
    retriever = kit.FixedRetriever(nodes)
    return Engine(retriever=retriever, model=model, rendering=rendering)


def reader(kit: ModuleType, read: tuple[str, ...], **settings: Any) -> Any:
    class Reader(kit.ScriptedLLM):  # type: ignore[name-defined, misc]  # of a fixture
        def _said(self, prompt: str) -> str:
            return reply_to(prompt, read)

    return Reader(**settings)


@PLANTED
def test_the_passages_that_the_model_reads_are_used(
    kit: ModuleType, rendering: str, k: int, read: tuple[str, ...]
) -> None:
    model = reader(kit, read)
    with capture(keep_prompts=True) as captured:
        engine(kit, rendering, k, model).query(QUESTION)
    with capture() as outside:
        check(captured, outside, model, read)


class Noted(BaseCallbackHandler):
    """Counts the events that it is told of."""

    def __init__(self) -> None:
        super().__init__([], [])
        self.n_events = 0

    def on_event_start(self, *_: Any, **__: Any) -> str:
        self.n_events += 1
        return ""

    def on_event_end(self, *_: Any, **__: Any) -> None:
        pass

    def start_trace(self, trace_id: str | None = None) -> None:
        pass

    def end_trace(self, trace_id: str | None = None, trace_map: Any = None) -> None:
        pass


def test_the_callbacks_of_the_llm_do_not_see_the_repeats(kit: ModuleType) -> None:
    noted = Noted()
    model = reader(kit, ("amber",), callback_manager=CallbackManager([noted]))
    with capture(keep_prompts=True) as captured:
        engine(kit, "numbered", 3, model).query(QUESTION)
    n_events = noted.n_events
    assert n_events > 0
    (sample,) = captured.measure_use(model=model)
    assert sample.use is not None
    assert verdicts_of(sample.use) == ("amber",)
    assert noted.n_events == n_events
