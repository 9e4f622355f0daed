"""LangChain's model for OpenAI: the contract of all chat models, and which of them share stored replies."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from framework_model_contract import FrameworkClientContract
from langchain_ragmetrics import LangChainModel
from loopback import LoopbackServer
from pydantic import SecretStr

from ragmetrics_core import evaluate
from ragmetrics_core.data.errors import InputError
from ragmetrics_core.models.chat import ChatRequest, Message

openai = pytest.importorskip(
    "langchain_openai", reason="langchain-openai is not installed"
)


class TestChatOpenAI(FrameworkClientContract):
    # of several replies in one call LangChain names no model
    lacks = frozenset({"json_schema beside others", "bodies", "model"})

    def model(self, base_url: str, key: str, timeout: float) -> LangChainModel:
        return LangChainModel(
            openai.ChatOpenAI(
                model="test",
                base_url=base_url,
                api_key=key,
                timeout=timeout,
                max_retries=0,
            )
        )


def chat(**settings: Any) -> Any:
    return openai.ChatOpenAI(
        **{"model": "m", "api_key": "k", "base_url": "http://a/v1", **settings}
    )


DIFFERENT: tuple[tuple[Callable[[], Any], Callable[[], Any]], ...] = (
    (chat, lambda: chat(model="other")),
    (chat, lambda: chat(base_url="http://b/v1")),
    (chat, lambda: chat(base_url=None)),
    (chat, lambda: chat(temperature=0.5)),
    (chat, lambda: chat(seed=1)),
    (chat, lambda: chat(max_retries=7, timeout=3, tags=["t"], metadata={"run": 1})),
    (chat, lambda: chat(reasoning_effort="low")),
    (chat, lambda: chat(extra_body={"top_k": 1})),
    (chat, lambda: chat(model_kwargs={"user": "u"})),
    (chat, lambda: chat(use_responses_api=True)),
    (chat, lambda: chat().bind(stop=["x"])),
    (
        chat,
        lambda: openai.AzureChatOpenAI(
            model="m", azure_endpoint="https://a", api_key="k", api_version="1"
        ),
    ),
)
EQUAL: tuple[tuple[Callable[[], Any], Callable[[], Any]], ...] = (
    (chat, chat),
    (chat, lambda: chat(api_key="other")),
    (lambda: chat().bind(stop=["x"]), lambda: chat().bind(stop=["x"])),
)


@pytest.mark.parametrize("pair", range(len(DIFFERENT)))
def test_what_differs(pair: int) -> None:
    first, second = (
        LangChainModel(make(), name="judge").cache_key for make in DIFFERENT[pair]
    )
    assert None not in (first, second)
    assert first != second


@pytest.mark.parametrize("pair", range(len(EQUAL)))
def test_what_is_equal(pair: int) -> None:
    first, second = (
        LangChainModel(make(), name="judge").cache_key for make in EQUAL[pair]
    )
    assert first is not None
    assert first == second


def test_the_address_may_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = LangChainModel(chat(base_url=None)).cache_key
    monkeypatch.setenv("OPENAI_BASE_URL", "http://b/v1")
    assert before != LangChainModel(chat(base_url=None)).cache_key


OTHER_PROCESS = """
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from langchain_ragmetrics import LangChainModel
chat = ChatOpenAI(model="m", api_key="another", base_url="http://a/v1", extra_body={"b": 1, "a": 2}).bind(stop=["x"])
prompt = ChatPromptTemplate.from_messages([("system", "Judge."), ("placeholder", "{messages}")])
print(LangChainModel(chat).cache_key, LangChainModel(prompt | chat).cache_key)
"""


@pytest.mark.nightly
def test_another_process_says_the_same() -> None:
    from langchain_core.prompts import ChatPromptTemplate

    bound = chat(extra_body={"a": 2, "b": 1}).bind(stop=["x"])
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Judge."), ("placeholder", "{messages}")]
    )
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    own = [LangChainModel(bound).cache_key, LangChainModel(prompt | bound).cache_key]
    assert done.stdout.split() == own


def test_two_runs_by_one_name_at_two_addresses_are_not_comparable() -> None:
    """At another address another model may answer."""
    sample = {"question": "Who?", "contexts": ["Anna."], "answer": "Anna."}
    reports = []
    with LoopbackServer() as first, LoopbackServer() as second:
        for server in (first, second, second):
            chat = openai.ChatOpenAI(
                model="m", base_url=server.base_url, api_key=SecretStr("k")
            )
            judge = LangChainModel(chat)
            reports.append(evaluate([sample], ["adherence"], judge=judge))
            assert reports[-1].run.addresses == {"m": (server.base_url,)}
    with pytest.raises(InputError, match="judge m at"):
        reports[0].compare(reports[1])
    assert not reports[1].compare(reports[2]).differing


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({"base_url": "http://me:word@host/v1?key=k"}, "http://host/v1"),
        ({"openai_proxy": "http://proxy:3128"}, ""),  # of the way, not of the model
    ],
)
def test_the_address_of_a_model_is_told_without_secrets(settings, address) -> None:
    chat = openai.ChatOpenAI(model="m", api_key=SecretStr("k"), **settings)
    assert LangChainModel(chat).address == address


@pytest.mark.parametrize("schema", [None, {"type": "object", "properties": {}}])
def test_the_end_of_a_process_waits_for_no_call(schema: Any) -> None:
    """A server may hang for hours; threads of executors are waited for."""
    threads = []

    class Watched(openai.ChatOpenAI):  # type: ignore[name-defined, misc]
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            threads.append(threading.current_thread())
            return super()._generate(*args, **kwargs)

    with LoopbackServer() as server:
        chat = Watched(model="m", base_url=server.base_url, api_key=SecretStr("k"))
        request = ChatRequest((Message("user", "Q?"),), schema=schema)
        asyncio.run(LangChainModel(chat).complete(request))
    assert [thread.daemon for thread in threads] == [True]
