"""Measured use in LlamaIndex: which passages an engine's own LLM read."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import pytest
from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.instrumentation import Dispatcher, get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.llms import ChatMessage, CompletionResponse
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.evaluation.ragmetrics import capture
from llama_index.evaluation.ragmetrics.model import LlamaIndexModel
from measured_runs import (
    PASSAGES,
    PLANTED,
    QUESTION,
    RENDERINGS,
    check,
    reply_to,
    verdicts_of,
)
from pydantic import BaseModel, Field

from ragmetrics_core.data import JudgeError
from ragmetrics_core.models.chat import ChatRequest, Message


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


class Events(BaseEventHandler):
    """Notes the events of the whole process."""

    told: list[str] = Field(default_factory=list)

    def handle(self, event: BaseEvent, **_: Any) -> None:
        self.told.append(type(event).__name__)


class Spans(BaseSpanHandler[BaseSpan]):
    """Notes the spans of the whole process."""

    told: list[str] = Field(default_factory=list)

    def span_enter(self, id_: str, *_: Any, **__: Any) -> None:
        self.told.append("enter " + id_.split("-")[0])

    def span_exit(self, id_: str, *_: Any, **__: Any) -> None:
        self.told.append("exit " + id_.split("-")[0])

    def span_drop(self, id_: str, *_: Any, **__: Any) -> None:
        self.told.append("drop " + id_.split("-")[0])

    def new_span(self, *_: Any, **__: Any) -> None:
        pass

    prepare_to_exit_span = prepare_to_drop_span = new_span  # type: ignore[pydantic-field]  # methods, no fields


@pytest.mark.parametrize("ours", ["measure_use", "judge", "judge_async", "fails"])
def test_handlers_of_the_whole_process_see_the_applications_calls_alone(
    kit: ModuleType, ours: str
) -> None:
    meanwhile: list[threading.Thread] = []

    class Reader(kit.ScriptedLLM):  # type: ignore[name-defined, misc]  # of a fixture
        def complete(self, prompt: str, *_: Any, **__: Any) -> CompletionResponse:
            if meanwhile:
                thread = meanwhile.pop()
                thread.start()
                thread.join()
            next(self.stream_complete(prompt))  # and leaves the rest
            *_, last = self.stream_complete(prompt)
            return CompletionResponse(text=last.text)

        def _said(self, prompt: str) -> str:
            return reply_to(prompt, ("amber",)) if not self.fails else super()._said("")

    def ask_application() -> None:
        asyncio.run(application.aquery(QUESTION))

    model = Reader()
    application = engine(kit, "numbered", 2, model)
    events, spans, dispatcher = Events(), Spans(), get_dispatcher()
    methods = dict(vars(Dispatcher))
    dispatcher.add_event_handler(events)
    dispatcher.add_span_handler(spans)
    try:
        with capture(keep_prompts=True) as captured:
            ask_application()
        events_alone, spans_alone = list(events.told), list(spans.told)
        meanwhile.append(threading.Thread(target=ask_application))
        if ours == "measure_use":
            (sample,) = captured.measure_use(model=model)
            assert verdicts_of(sample.use) == ("amber",)
        else:
            judge = Reader(fails=ours == "fails")
            asked = LlamaIndexModel(judge, judge_async=ours == "judge_async")
            request = ChatRequest((Message("user", PASSAGES[0]),))
            raised: AbstractContextManager[object] = nullcontext()
            if judge.fails:
                raised = pytest.raises(JudgeError)
            with raised:
                asyncio.run(asked.complete(request))
    finally:
        dispatcher.event_handlers.remove(events)
        dispatcher.span_handlers.remove(spans)
    assert not meanwhile
    assert "LLMChatEndEvent" in events_alone
    assert "exit Engine.aquery" in spans_alone
    assert events.told == events_alone * 2
    assert spans.told == spans_alone * 2
    assert dict(vars(Dispatcher)) == methods


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


def test_nor_do_those_of_an_llm_that_the_llm_holds(kit: ModuleType) -> None:
    class Reply(BaseModel):
        said: str

    class Inner(kit.ScriptedLLM):  # type: ignore[name-defined, misc]  # of a fixture
        @llm_completion_callback()
        def complete(self, *_: Any, **__: Any) -> CompletionResponse:
            return CompletionResponse(text='{"said": "Anna"}')

    noted = Noted()
    inner = Inner(callback_manager=CallbackManager([noted]))
    llm = inner.as_structured_llm(Reply)
    request = ChatRequest((Message("user", "Who?"),))
    reply = asyncio.run(LlamaIndexModel(llm).complete(request))
    assert reply.choices[0].text == '{"said":"Anna"}'
    assert noted.n_events == 0
    llm.chat([ChatMessage(role="user", content="Who?")])
    assert noted.n_events > 0, "the application's own calls are seen as before"
