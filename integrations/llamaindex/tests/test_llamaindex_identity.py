"""Which LLMs of LlamaIndex share stored replies, and which never do."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM, CustomLLM, MockLLM
from llama_index.evaluation.ragmetrics import LlamaIndexModel
from pydantic import Field, PrivateAttr

from ragmetrics_core import ContextAdherence, Sample, evaluate

YES, NO = (json.dumps({"reason": "r", "verdict": word}) for word in ("yes", "no"))


class Own(CustomLLM):
    """An LLM of a user's own, with settings of every kind."""

    reply: str = YES
    seed: int | None = None
    api_key: str = ""
    additional_kwargs: dict[str, Any] = Field(default_factory=dict)
    anything: Any = None
    _held: Any = PrivateAttr(None)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="own")

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=self.reply)

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise NotImplementedError

    def holding(self, held: Any) -> "Own":
        self._held = held
        return self


def subclass(reply: str) -> LLM:
    class Judge(Own):
        def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
            return CompletionResponse(text=reply)

    return Judge()


DIFFERENT: tuple[tuple[Callable[[], LLM], Callable[[], LLM]], ...] = (
    (lambda: Own(reply="a"), lambda: Own(reply="b")),
    (lambda: Own(), lambda: Own(seed=0)),
    (lambda: Own(additional_kwargs={"top_p": 1}), lambda: Own(additional_kwargs={"top_p": 0.5})),
    (lambda: Own(), lambda: Own(system_prompt="Be strict.")),
    (lambda: Own(), lambda: Own(messages_to_prompt=lambda messages: "always this")),
    (lambda: Own(), lambda: Own(completion_to_prompt=lambda completion: "always this")),
    (lambda: Own().holding("a"), lambda: Own().holding("b")),
    (lambda: Own(anything=Own(reply="a")), lambda: Own(anything=Own(reply="b"))),
    (lambda: subclass("a"), lambda: subclass("b")),
    (lambda: MockLLM(), lambda: MockLLM(max_tokens=3)),
)
EQUAL: tuple[tuple[Callable[[], LLM], Callable[[], LLM]], ...] = (
    (Own, Own),
    (MockLLM, MockLLM),
    (lambda: Own(), lambda: Own(callback_manager=CallbackManager())),
    (lambda: Own(api_key="a"), lambda: Own(api_key="b")),
    (lambda: subclass("a"), lambda: subclass("a")),
)


@pytest.mark.parametrize("pair", range(len(DIFFERENT)))
def test_what_differs(pair: int) -> None:
    first, second = (LlamaIndexModel(make()).endpoint for make in DIFFERENT[pair])
    assert first != second


@pytest.mark.parametrize("pair", range(len(EQUAL)))
def test_what_is_equal(pair: int) -> None:
    first, second = (LlamaIndexModel(make()).endpoint for make in EQUAL[pair])
    assert first == second


def test_what_cannot_be_described_is_only_equal_to_itself(kit: ModuleType) -> None:
    llm = Own(anything=threading.Lock())
    model = LlamaIndexModel(llm)
    assert model.endpoint == model.endpoint
    assert model.endpoint != LlamaIndexModel(llm).endpoint
    assert LlamaIndexModel(kit.ScriptedLLM()).endpoint == LlamaIndexModel(kit.ScriptedLLM()).endpoint


@pytest.mark.parametrize("make", [lambda reply: Own(reply=reply), subclass])
def test_judges_share_a_store_and_no_replies(make: Callable[[str], LLM], tmp_path: Path) -> None:
    def run(reply: str) -> tuple[Any, int]:
        report = evaluate(
            [Sample(contexts=["a"], answer="b")],
            [ContextAdherence(polls=1)],
            judge=LlamaIndexModel(make(reply)),
            store=tmp_path / "replies.db",
            progress=False,
        )
        return report.scores("context_adherence"), report.usage.calls

    assert run(YES) == ([1.0], 1)
    assert run(NO) == ([0.0], 1)
    assert run(YES) == ([1.0], 0)
    assert run(NO) == ([0.0], 0)
