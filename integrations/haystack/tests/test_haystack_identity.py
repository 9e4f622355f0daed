"""Which generators of Haystack share stored replies, and which never do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from haystack import component
from haystack.components.generators.chat import (
    AzureOpenAIChatGenerator,
    FallbackChatGenerator,
    MockChatGenerator,
    OpenAIChatGenerator,
)
from haystack.dataclasses import ChatMessage
from haystack.tools import Tool
from haystack.utils import Secret
from haystack_integrations.components.evaluators.ragmetrics import HaystackModel

from ragmetrics_core import ContextAdherence, Sample, evaluate

YES, NO = (json.dumps({"reason": "r", "verdict": word}) for word in ("yes", "no"))


def openai(key: str = "k", **settings: Any) -> OpenAIChatGenerator:
    return OpenAIChatGenerator(api_key=Secret.from_token(key), model="judge", **settings)


def azure(address: str) -> AzureOpenAIChatGenerator:
    return AzureOpenAIChatGenerator(azure_endpoint=address, api_key=Secret.from_token("k"))


def warm(generator: OpenAIChatGenerator) -> OpenAIChatGenerator:
    generator.warm_up()
    return generator


@component
class Custom:
    """A generator of a user's own."""

    def __init__(self, reply: str, **held: Any) -> None:
        self.reply = reply
        self.held = held

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        return {"replies": [ChatMessage.from_assistant(self.reply)]}


def closed(reply: str) -> Any:
    class Closed:
        def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
            return {"replies": [ChatMessage.from_assistant(reply)]}

    return Closed()


def tool(description: str) -> Tool:
    return Tool("t", description, {"type": "object", "properties": {}}, print)


DIFFERENT: tuple[tuple[Callable[[], Any], Callable[[], Any]], ...] = (
    (lambda: openai(), lambda: openai(generation_kwargs={"seed": 1})),
    (lambda: openai(generation_kwargs={"seed": 1}), lambda: openai(generation_kwargs={"seed": 2})),
    (lambda: openai(api_base_url="http://a/v1"), lambda: openai(api_base_url="http://b/v1")),
    (lambda: openai(organization="a"), lambda: openai(organization="b")),
    (lambda: openai(tools=[tool("a")]), lambda: openai(tools=[tool("b")])),
    (lambda: openai(), lambda: warm(openai(api_base_url="http://b/v1"))),
    (lambda: azure("https://a.example.com"), lambda: azure("https://b.example.com")),
    (lambda: MockChatGenerator("a"), lambda: MockChatGenerator("b")),
    (lambda: MockChatGenerator(["a", "b"]), lambda: MockChatGenerator(["b", "a"])),
    (lambda: Custom("a"), lambda: Custom("b")),
    (lambda: Custom("a", inner=Custom("b")), lambda: Custom("a", inner=Custom("c"))),
    (lambda: closed("a"), lambda: closed("b")),
    (lambda: FallbackChatGenerator([Custom("a")]), lambda: FallbackChatGenerator([Custom("b")])),
)
EQUAL: tuple[tuple[Callable[[], Any], Callable[[], Any]], ...] = (
    (openai, openai),
    (openai, lambda: warm(openai())),
    (openai, lambda: openai("another key")),
    (openai, lambda: openai(timeout=3.0, max_retries=0)),
    (lambda: openai(api_base_url="http://a/v1"), lambda: warm(openai(api_base_url="http://a/v1"))),
    (openai, lambda: openai(api_base_url="https://api.openai.com/v1")),
    (lambda: azure("https://a.example.com"), lambda: azure("https://a.example.com")),
    (lambda: MockChatGenerator("a"), lambda: MockChatGenerator("a")),
    (lambda: Custom("a"), lambda: Custom("a")),
    (lambda: closed("a"), lambda: closed("a")),
)


@pytest.fixture(autouse=True)
def _no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.mark.parametrize("pair", range(len(DIFFERENT)))
def test_what_differs(pair: int) -> None:
    first, second = (HaystackModel(make(), name="judge").endpoint for make in DIFFERENT[pair])
    assert first != second


@pytest.mark.parametrize("pair", range(len(EQUAL)))
def test_what_is_equal(pair: int) -> None:
    first, second = (HaystackModel(make(), name="judge").endpoint for make in EQUAL[pair])
    assert first == second


def test_the_address_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    before = HaystackModel(openai()).endpoint
    monkeypatch.setenv("OPENAI_BASE_URL", "http://b/v1")
    assert before != HaystackModel(openai()).endpoint == HaystackModel(warm(openai())).endpoint


def test_what_cannot_be_described_is_only_equal_to_itself() -> None:
    generator = Custom("a", lock=threading.Lock())
    model = HaystackModel(generator)
    assert model.endpoint == model.endpoint
    assert model.endpoint != HaystackModel(generator).endpoint


@pytest.mark.parametrize("make", [MockChatGenerator, Custom, closed])
def test_judges_share_a_store_and_no_replies(make: Callable[[str], Any], tmp_path: Path) -> None:
    def run(reply: str) -> tuple[Any, int]:
        model = HaystackModel(make(reply), name="judge")
        report = evaluate(
            [Sample(contexts=["a"], answer="b")],
            [ContextAdherence(polls=1)],
            judge=model,
            store=tmp_path / "replies.db",
            progress=False,
        )
        model.close()
        return report.scores("context_adherence"), report.usage.calls

    assert run(YES) == ([1.0], 1)
    assert run(NO) == ([0.0], 1)
    assert run(YES) == ([1.0], 0)
    assert run(NO) == ([0.0], 0)


OTHER_PROCESS = """
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.utils import Secret
from haystack_integrations.components.evaluators.ragmetrics import HaystackModel
settings = {"seed": 1, "top_p": 0.5}
print(HaystackModel(OpenAIChatGenerator(Secret.from_token("other"), "judge", generation_kwargs=settings)).endpoint)
"""


def test_another_process_says_the_same() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert done.stdout.strip() == HaystackModel(openai(generation_kwargs={"top_p": 0.5, "seed": 1})).endpoint
