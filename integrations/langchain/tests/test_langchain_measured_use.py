"""Measured use in LangChain: which passages a chain's own model read."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.globals import set_debug
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tracers import context
from langchain_core.tracers.context import register_configure_hook
from langchain_fakes import Shelf, Speaker, document
from langchain_ragmetrics import LangChainModel, capture
from measured_runs import (
    PASSAGES,
    PLANTED,
    QUESTION,
    RENDERINGS,
    check,
    reply_to,
    verdicts_of,
)

from ragmetrics_core import Report
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import JudgeError, Sample
from ragmetrics_core.models.chat import ChatRequest, Message


def app(rendering: str, k: int, model: Runnable[Any, Any]) -> Runnable[str, Any]:
    shelf = Shelf(books=[document(text) for text in PASSAGES[:k]])

    def messages(question: str) -> dict[str, Any]:
        texts = [found.page_content for found in shelf.invoke(question)]
        return {"messages": RENDERINGS[rendering](texts)}

    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("messages")])
    return RunnableLambda(messages) | prompt | model


def reader(*read: str, **settings: Any) -> Speaker:
    """A model that reads the passages of some words."""

    def line(messages: Any) -> str:
        return reply_to("\n".join(str(each.content) for each in messages), read)

    return Speaker(lines=line, **settings)


@PLANTED
def test_the_passages_that_the_model_reads_are_used(
    rendering: str, k: int, read: tuple[str, ...]
) -> None:
    model = reader(*read)
    with capture(keep_prompts=True) as captured:
        app(rendering, k, model).invoke(QUESTION)
    with capture() as outside:
        check(captured, outside, model, read)


class Noted(BaseCallbackHandler):
    """Counts the calls of models that it is told of."""

    def __init__(self) -> None:
        self.n_calls = 0

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        self.n_calls += 1


@pytest.mark.parametrize("bound", [False, True])
def test_callbacks_of_the_model_itself_do_not_see_the_repeats(bound: bool) -> None:
    noted = Noted()
    model: Runnable[Any, Any] = reader("amber", callbacks=[noted])
    if bound:
        model = reader("amber").with_config(callbacks=[noted])
    with capture(keep_prompts=True) as captured:
        answer = app("numbered", 3, model).invoke(QUESTION)
    assert noted.n_calls == 1
    (sample,) = captured.measure_use(model=model)
    assert sample.use is not None
    assert verdicts_of(sample.use) == ("amber",)
    assert noted.n_calls == 1
    assert answer.content == sample.answer


class NotedByFunction(Noted):
    """One that a function sets around the call of a model."""


class NotedByEnvironment(Noted):
    """One that a variable of the environment adds to all calls."""

    n_calls = 0

    def __init__(self) -> None:
        pass

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        type(self).n_calls += 1


@pytest.mark.parametrize("ours", ["measure_use", "judge", "judge_async", "fails"])
def test_handlers_of_the_whole_process_see_the_applications_calls_alone(
    ours: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    everywhere, by_function = Noted(), NotedByFunction()
    in_function: ContextVar[Any] = ContextVar("in_function", default=None)
    in_all: ContextVar[Any] = ContextVar("in_all", default=everywhere)
    by_environment: ContextVar[Any] = ContextVar("by_environment", default=None)
    register_configure_hook(in_function, inheritable=True)
    register_configure_hook(in_all, inheritable=True)
    register_configure_hook(by_environment, True, NotedByEnvironment, "OUR_TRACING")
    monkeypatch.setenv("OUR_TRACING", "true")
    monkeypatch.setattr(NotedByEnvironment, "n_calls", 0)
    meanwhile: list[threading.Thread] = []

    def ask(messages: Any) -> Any:
        """Ask the model, with a handler of this function's own."""
        in_function.set(by_function)
        if meanwhile:
            thread = meanwhile.pop()
            thread.start()
            thread.join()
            if ours == "fails":
                raise RuntimeError("down")
        return reader("amber").invoke(messages)

    def ask_application() -> None:
        app("numbered", 2, RunnableLambda(ask)).invoke(QUESTION)

    methods = dict(vars(BaseCallbackManager))
    set_debug(True)
    try:
        with capture(keep_prompts=True) as captured:
            ask_application()
        printed = capsys.readouterr().out
        meanwhile.append(threading.Thread(target=ask_application))
        if ours == "measure_use":
            (sample,) = captured.measure_use(model=RunnableLambda(ask))
            assert sample.use is not None
            assert verdicts_of(sample.use) == ("amber",)
        else:
            model = LangChainModel(
                RunnableLambda(ask), judge_async=ours == "judge_async"
            )
            request = ChatRequest((Message("user", PASSAGES[0]),))
            raised: AbstractContextManager[object] = nullcontext()
            if ours == "fails":
                raised = pytest.raises(JudgeError)
            with raised:
                asyncio.run(model.complete(request))
        printed_meanwhile = capsys.readouterr().out
    finally:
        set_debug(False)
        hooks = context._configure_hooks
        registered_here = (in_function, in_all, by_environment)
        hooks[:] = [hook for hook in hooks if hook[0] not in registered_here]
    assert not meanwhile
    assert printed.count("Entering LLM run") == 1
    assert printed_meanwhile.count("Entering LLM run") == 1
    assert everywhere.n_calls == NotedByEnvironment.n_calls == 2
    n_of_function = by_function.n_calls - 2
    assert (n_of_function == 0) is (ours == "fails"), "a function's own handlers stay"
    assert dict(vars(BaseCallbackManager)) == methods


def test_prompts_are_kept_on_request_alone_and_stand_in_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    model = reader("amber")
    with capture() as captured:
        app("listed", 2, model).invoke(QUESTION)
    (sample,) = captured.measure_use(model=model)
    assert sample.capture is not None
    assert sample.capture.prompt is None
    assert "keep_prompts=True" in str(sample.use)
    with capture(keep_prompts=True) as captured:
        app("listed", 2, model).invoke(QUESTION)
    (sample,) = captured.measure_use(model=model)
    for text in (*PASSAGES[:2], sample.answer or ""):
        assert text not in caplog.text
        assert text not in repr(sample)


@pytest.mark.parametrize("hides_prompt", [True, False])
def test_what_redact_hides_is_in_no_kept_prompt(hides_prompt: bool) -> None:
    def hidden(text: str | None) -> str:
        return (text or "").replace("Anna", "[name]")

    def redact(sample: Sample) -> Sample:
        contexts = [
            each.model_copy(update={"text": hidden(each.text)})
            for each in sample.contexts or ()
        ]
        texts = tuple(contexts)
        update: dict[str, Any] = {"contexts": texts, "retrieved": texts, "ledger": None}
        if hides_prompt:
            assert sample.capture is not None
            prompt = [
                each.model_copy(update={"content": hidden(each.content)})
                for each in sample.capture.prompt or ()
            ]
            notes = sample.capture.model_copy(update={"prompt": tuple(prompt)})
            update["capture"] = notes
        return sample.model_copy(update=update)

    model = reader("amber")
    with capture(keep_prompts=True, redact=redact) as captured:
        app("numbered", 3, model).invoke(QUESTION)
    assert "Anna" not in captured.samples[0].model_dump_json()
    (sample,) = captured.measure_use(model=model)
    assert sample.use is not None
    if hides_prompt:
        assert verdicts_of(sample.use) == ("amber",)
    else:
        assert "not kept" in (sample.use.why_not or "")


def test_a_prompt_that_redact_left_goes_where_it_changed_anything() -> None:
    def without_calls(sample: Sample) -> Sample:
        assert sample.ledger is not None
        ledger = sample.ledger.model_copy(update={"calls": ()})
        return sample.model_copy(update={"ledger": ledger})

    kept = {}
    for redact in (without_calls, lambda sample: sample):
        with capture(keep_prompts=True, redact=redact) as captured:
            app("numbered", 3, reader("amber")).invoke(QUESTION)
        (sample,) = captured.samples
        assert sample.capture is not None
        kept[redact] = sample.capture.prompt is not None
    assert list(kept.values()) == [False, True]


def test_the_command_takes_a_model_in_its_adapters_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = reader("amber")
    with capture(keep_prompts=True) as captured:
        app("numbered", 3, model).invoke(QUESTION)
    results, out = tmp_path / "results.jsonl", tmp_path / "measured.jsonl"
    captured.evaluate(judge="lexical", progress=False).to_jsonl(results)
    settings = ModuleType("settings_of_app")
    vars(settings).update(model=model, judge_model=LangChainModel(model))
    monkeypatch.setitem(sys.modules, "settings_of_app", settings)
    command = ["measure-use", str(results), "--out", str(out), "--quiet", "--model"]
    assert main([*command, "settings_of_app:model"]) == 2
    assert "give LangChainModel(" in capsys.readouterr().err
    assert main([*command, "settings_of_app:judge_model"]) == 0
    [row] = Report.from_jsonl(out).results
    assert row.sample is not None
    assert row.sample.use is not None
    assert verdicts_of(row.sample.use) == ("amber",)


def test_text_beside_a_call_of_a_tool_is_no_answer() -> None:
    call = {"name": "search", "args": {"query": QUESTION}, "id": "c1"}

    def line(messages: Any) -> AIMessage:
        prompt = "\n".join(str(each.content) for each in messages)
        if "amber" in prompt:
            return AIMessage(reply_to(prompt, ["amber"]))
        return AIMessage("Let me search.", tool_calls=[call])

    model = Speaker(lines=line)
    with capture(keep_prompts=True) as captured:
        app("numbered", 2, model).invoke(QUESTION)
    (sample,) = captured.measure_use(model=model)
    assert "calls a tool" in str(sample.use)


def test_an_agents_tools_are_not_called_again() -> None:
    """The answering call alone is repeated; what tools returned stands in its prompt."""
    model = reader("birch")
    shelf = Shelf(books=[document(text) for text in PASSAGES[:3]])
    n_searches = 0

    def run(question: str) -> Any:
        nonlocal n_searches
        n_searches += 1
        found = "\n\n".join(each.page_content for each in shelf.invoke(question))
        call = {"name": "search", "args": {"query": question}, "id": "c1"}
        messages = [
            ("user", question),
            AIMessage("", tool_calls=[call]),
            ToolMessage(found, tool_call_id="c1"),
        ]
        return model.invoke(messages)

    with capture(keep_prompts=True) as captured:
        RunnableLambda(run).invoke(QUESTION)
    (sample,) = captured.measure_use(model=model)
    assert sample.use is not None
    assert verdicts_of(sample.use) == ("birch",)
    assert n_searches == 1
    sent = model.prompts[-1]
    assert "search(" in sent
