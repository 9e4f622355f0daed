"""Haystack's generator for OpenAI: the contract of all chat models, and what its stored replies are kept under."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from framework_model_contract import FrameworkClientContract
from haystack import component
from haystack.components.generators.chat import (
    FallbackChatGenerator,
    MockChatGenerator,
    OpenAIChatGenerator,
)
from haystack.dataclasses import ChatMessage
from haystack.tools import Tool
from haystack.utils import Secret
from haystack_integrations.components.evaluators.ragmetrics import HaystackModel
from loopback import LoopbackServer

from ragmetrics_core import evaluate


class TestOpenAIChatGenerator(FrameworkClientContract):
    lacks = frozenset({"refusals", "bodies"})
    adds = frozenset({"n"})

    def model(self, base_url: str, key: str, timeout: float) -> HaystackModel:
        generator = OpenAIChatGenerator(
            Secret.from_token(key),
            "test",
            api_base_url=base_url,
            timeout=timeout,
            max_retries=0,
        )
        self.made.append(HaystackModel(generator))
        return self.made[-1]

    @pytest.fixture(autouse=True)
    def _closed(self) -> Iterator[None]:
        self.made: list[HaystackModel] = []
        yield
        for model in self.made:
            model.close()


# Stored replies


def chat(**settings: Any) -> OpenAIChatGenerator:
    """A generator whose key comes from the environment.

    One that was given as a text cannot be written down.
    """
    secret = Secret.from_env_var("OPENAI_API_KEY", strict=False)
    return OpenAIChatGenerator(
        **{"api_key": secret, "model": "m", "api_base_url": "http://a/v1", **settings}
    )


def fallback(*models: str) -> FallbackChatGenerator:
    return FallbackChatGenerator([chat(model=name) for name in models])


def warm() -> OpenAIChatGenerator:
    made = chat()
    made.warm_up()
    return made


@component
class Own:
    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        return {"replies": []}


DIFFERENT: tuple[tuple[Callable[[], Any], Callable[[], Any]], ...] = (
    (chat, lambda: chat(model="other")),
    (chat, lambda: chat(api_base_url="http://b/v1")),
    (chat, lambda: chat(organization="o")),
    (chat, lambda: chat(generation_kwargs={"seed": 1})),
    (chat, lambda: chat(timeout=1.0, max_retries=9)),
    (chat, lambda: chat(api_key=Secret.from_env_var("ANOTHER_KEY", strict=False))),
    (chat, lambda: fallback("m")),
    (lambda: fallback("m", "n"), lambda: fallback("n", "m")),
    (lambda: MockChatGenerator("a"), lambda: MockChatGenerator("b")),
)
EQUAL: tuple[tuple[Callable[[], Any], Callable[[], Any]], ...] = (
    (chat, chat),
    (chat, warm),
    (
        lambda: chat(generation_kwargs={"seed": 1, "a": 2}),
        lambda: chat(generation_kwargs={"a": 2, "seed": 1}),
    ),
    (lambda: fallback("m", "n"), lambda: fallback("m", "n")),
)
NONE: tuple[Callable[[], Any], ...] = (
    Own,
    lambda: FallbackChatGenerator([Own()]),
    lambda: chat(api_key=Secret.from_token("sk-secret")),
    lambda: MockChatGenerator(response_fn=lambda messages: "x"),
)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")


@pytest.mark.parametrize("pair", range(len(DIFFERENT)))
def test_what_differs(pair: int) -> None:
    first, second = (
        HaystackModel(make(), name="judge").cache_key for make in DIFFERENT[pair]
    )
    assert None not in (first, second)
    assert first != second


@pytest.mark.parametrize("pair", range(len(EQUAL)))
def test_what_is_equal(pair: int) -> None:
    first, second = (
        HaystackModel(make(), name="judge").cache_key for make in EQUAL[pair]
    )
    assert first is not None
    assert first == second


@pytest.mark.parametrize("place", range(len(NONE)))
def test_what_has_no_key(place: int) -> None:
    assert HaystackModel(NONE[place]()).cache_key is None
    assert HaystackModel(NONE[place](), cache_key="mine").cache_key == "mine"


def test_the_address_in_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = HaystackModel(chat(api_base_url=None)).cache_key
    monkeypatch.setenv("OPENAI_BASE_URL", "http://b/v1")
    assert before != HaystackModel(chat(api_base_url=None)).cache_key


OTHER_PROCESS = """
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.utils import Secret
from haystack_integrations.components.evaluators.ragmetrics import HaystackModel
made = OpenAIChatGenerator(
    api_key=Secret.from_env_var("OPENAI_API_KEY", strict=False),
    model="m",
    api_base_url="http://a/v1",
    generation_kwargs={"seed": 1, "a": 2},
)
print(HaystackModel(made).cache_key)
"""


@pytest.mark.nightly
def test_another_process_says_the_same() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7", "OPENAI_API_KEY": "sk-another"},
    )
    assert (
        done.stdout.strip()
        == HaystackModel(chat(generation_kwargs={"a": 2, "seed": 1})).cache_key
    )


def test_a_generator_with_tools_judges_without_them() -> None:
    tool = Tool("look_up", "d", {"type": "object", "properties": {}}, function=str)
    with LoopbackServer() as server:
        key = Secret.from_token("k")
        generator = OpenAIChatGenerator(
            key, "m", api_base_url=server.base_url, tools=[tool]
        )
        row = {"question": "Who?", "contexts": ["Anna."], "answer": "Anna."}
        report = evaluate([row], ["adherence"], judge=HaystackModel(generator))
        assert report.scores("context_adherence") == [1.0]
        assert not any("tools" in asked.body for asked in server.requests)
    assert generator.tools == [tool]
