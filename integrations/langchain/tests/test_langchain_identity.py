"""Which models of LangChain share stored replies, and which never do."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.rate_limiters import InMemoryRateLimiter
from langchain_core.runnables import ConfigurableField, Runnable, RunnableGenerator, RunnableLambda, RunnablePassthrough
from langchain_fakes import Speaker
from langchain_ragmetrics import LangChainModel

from ragmetrics_core import ContextAdherence, Sample, evaluate

SAMPLE = Sample(contexts=["a"], answer="b")
YES, NO = (json.dumps({"reason": "r", "verdict": word}) for word in ("yes", "no"))


def fake(*replies: str, **fields: Any) -> FakeListChatModel:
    return FakeListChatModel(responses=list(replies or ("a",)), **fields)


def saying(reply: str) -> Runnable[Any, Any]:
    return RunnableLambda(lambda said: reply)


def saying_later(reply: str) -> Runnable[Any, Any]:
    async def answer(said: Any) -> str:
        return reply

    return RunnableLambda(answer)


def generating(reply: str) -> Runnable[Any, Any]:
    def stream(said: Any) -> Any:
        yield reply

    return RunnableGenerator(stream)


def prompt(text: str) -> ChatPromptTemplate:
    return ChatPromptTemplate.from_messages([("system", text), ("placeholder", "{messages}")])


def seeded(seed: int) -> Runnable[Any, Any]:
    field = ConfigurableField(id="replies")
    return fake().configurable_fields(responses=field).with_config(configurable={"replies": [str(seed)]})


class Plain(Runnable[Any, Any]):
    """A runnable of a user's own."""

    def __init__(self, reply: str) -> None:
        self.reply = reply

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> str:  # noqa: A002 - the base class names it so
        return self.reply


DIFFERENT: tuple[tuple[Callable[[], Runnable[Any, Any]], Callable[[], Runnable[Any, Any]]], ...] = (
    (lambda: fake("a"), lambda: fake("b")),
    (lambda: fake("a"), lambda: GenericFakeChatModel(messages=iter("a"))),
    (lambda: Speaker(lines="a"), lambda: Speaker(lines="b")),
    (lambda: saying("a"), lambda: saying("b")),
    (lambda: saying_later("a"), lambda: saying_later("b")),
    (lambda: generating("a"), lambda: generating("b")),
    (lambda: Plain("a"), lambda: Plain("b")),
    (lambda: RunnableLambda(lambda said: "a"), lambda: RunnableLambda(lambda said: "b")),
    (lambda: fake(), lambda: fake().bind(seed=1)),
    (lambda: fake().bind(seed=1), lambda: fake().bind(seed=2)),
    (lambda: fake("a").with_config(run_name="j"), lambda: fake("b").with_config(run_name="j")),
    (lambda: seeded(1), lambda: seeded(2)),
    (lambda: fake("a") | StrOutputParser(), lambda: fake("b") | StrOutputParser()),
    (lambda: prompt("Be strict.") | fake(), lambda: prompt("Be kind.") | fake()),
    (lambda: fake() | (lambda said: "a"), lambda: fake() | (lambda said: "b")),
    (lambda: fake().with_retry(), lambda: fake("b").with_retry()),
    (lambda: fake().with_fallbacks([fake("a")]), lambda: fake().with_fallbacks([fake("b")])),
    (lambda: RunnablePassthrough.assign(a=saying("a")), lambda: RunnablePassthrough.assign(a=saying("b"))),
)
EQUAL: tuple[tuple[Callable[[], Runnable[Any, Any]], Callable[[], Runnable[Any, Any]]], ...] = (
    (fake, fake),
    (lambda: fake(), lambda: fake(tags=["x"], metadata={"run": 1}, verbose=True, cache=InMemoryCache(), name="n")),
    (lambda: fake(), lambda: fake(callbacks=[BaseCallbackHandler()], rate_limiter=InMemoryRateLimiter())),
    (lambda: saying("a"), lambda: saying("a")),
    (lambda: Plain("a"), lambda: Plain("a")),
    (lambda: fake().bind(seed=1), lambda: fake().bind(seed=1)),
    (lambda: fake().with_config(run_name="a"), lambda: fake().with_config(run_name="b", callbacks=[])),
    (lambda: prompt("x") | fake() | StrOutputParser(), lambda: prompt("x") | fake() | StrOutputParser()),
)


@pytest.mark.parametrize("pair", range(len(DIFFERENT)))
def test_what_differs(pair: int) -> None:
    first, second = (LangChainModel(make(), name="judge").endpoint for make in DIFFERENT[pair])
    assert first != second


@pytest.mark.parametrize("pair", range(len(EQUAL)))
def test_what_is_equal(pair: int) -> None:
    first, second = (LangChainModel(make(), name="judge").endpoint for make in EQUAL[pair])
    assert first == second


def test_what_cannot_be_described_is_only_equal_to_itself() -> None:
    lock = threading.Lock()
    runnable = RunnableLambda(lambda said: str(lock.locked()))
    model = LangChainModel(runnable)
    assert model.endpoint == model.endpoint
    assert model.endpoint != LangChainModel(runnable).endpoint


@pytest.mark.parametrize("make", [fake, saying, lambda reply: fake(reply) | StrOutputParser(), Plain])
def test_judges_share_a_store_and_no_replies(make: Callable[[str], Runnable[Any, Any]], tmp_path: Path) -> None:
    def run(reply: str) -> tuple[Any, int]:
        report = evaluate(
            [SAMPLE],
            [ContextAdherence(polls=1)],
            judge=LangChainModel(make(reply), name="judge"),
            store=tmp_path / "replies.db",
            progress=False,
        )
        return report.scores("context_adherence"), report.usage.calls

    assert run(YES) == ([1.0], 1)
    assert run(NO) == ([0.0], 1)
    assert run(YES) == ([1.0], 0)
    assert run(NO) == ([0.0], 0)
