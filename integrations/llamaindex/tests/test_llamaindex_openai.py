"""LlamaIndex's LLMs for OpenAI and the like: the contract of all chat models, and which share stored replies."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from framework_model_contract import FrameworkClientContract
from llama_index.evaluation.ragmetrics.model import LlamaIndexModel

openai_like = pytest.importorskip(
    "llama_index.llms.openai_like", reason="llama-index-llms-openai-like is missing"
)
openai = pytest.importorskip(
    "llama_index.llms.openai", reason="llama-index-llms-openai is not installed"
)


@pytest.fixture(autouse=True)
def settings() -> None:
    """Connections are allowed here, to the server on this machine."""


class TestOpenAILike(FrameworkClientContract):
    """Its calls of functions carry the schema.

    The framework gives one reply per call.
    """

    lacks = frozenset({"n", "json_schema beside others", "bodies"})
    adds = frozenset({"temperature", "max_tokens"})  # the LLM's own
    function_calling = True

    def model(self, base_url: str, key: str, timeout: float) -> LlamaIndexModel:
        llm = openai_like.OpenAILike(
            model="test",
            api_base=base_url,
            api_key=key,
            timeout=timeout,
            max_retries=0,
            max_tokens=10,
            reuse_client=False,
            is_chat_model=True,
            is_function_calling_model=self.function_calling,
        )
        return LlamaIndexModel(llm)


@pytest.mark.nightly  # by day its text is that of the models in test_llamaindex_model
class TestWithoutFunctionCalling(TestOpenAILike):
    lacks = frozenset({"n", "json_schema", "bodies"})
    function_calling = False


def like(**settings: Any) -> Any:
    return openai_like.OpenAILike(
        **{"model": "m", "api_key": "k", "api_base": "http://a/v1", **settings}
    )


def known(**settings: Any) -> Any:
    return openai.OpenAI(**{"model": "gpt-4o-mini", "api_key": "k", **settings})


def used(llm: Any) -> Any:
    llm._get_client()
    return llm


def client(address: str) -> Any:
    from openai import OpenAI

    return OpenAI(base_url=address, api_key="k")


DIFFERENT: tuple[tuple[Callable[[], Any], Callable[[], Any]], ...] = (
    (like, lambda: like(model="other")),
    (like, lambda: like(api_base="http://b/v1")),
    (like, lambda: like(temperature=0.5)),
    (like, lambda: like(additional_kwargs={"seed": 1})),
    (like, lambda: like(system_prompt="Be strict.")),
    (like, lambda: like(is_chat_model=True)),
    (like, lambda: like(timeout=1.0)),
    (like, known),
    (known, lambda: known(api_base="http://b/v1")),
    (known, lambda: known(openai_client=client("http://b/v1"))),
    (known, lambda: known(reasoning_effort="low")),
)
EQUAL: tuple[tuple[Callable[[], Any], Callable[[], Any]], ...] = (
    (like, like),
    (known, known),
    (like, lambda: like(api_key="other")),
    (like, lambda: used(like())),
    (known, lambda: used(known())),
)


@pytest.mark.parametrize("pair", range(len(DIFFERENT)))
def test_what_differs(pair: int) -> None:
    first, second = (LlamaIndexModel(make()).cache_key for make in DIFFERENT[pair])
    assert None not in (first, second)
    assert first != second


@pytest.mark.parametrize("pair", range(len(EQUAL)))
def test_what_is_equal(pair: int) -> None:
    first, second = (LlamaIndexModel(make()).cache_key for make in EQUAL[pair])
    assert first is not None
    assert first == second


OTHER_PROCESS = """
from llama_index.evaluation.ragmetrics.model import LlamaIndexModel
from llama_index.llms.openai import OpenAI
from llama_index.llms.openai_like import OpenAILike
like = OpenAILike(model="m", api_key="another", api_base="http://a/v1", additional_kwargs={"seed": 1, "a": 2})
print(LlamaIndexModel(like).cache_key, LlamaIndexModel(OpenAI(model="gpt-4o-mini", api_key="another")).cache_key)
"""


@pytest.mark.nightly
def test_another_process_says_the_same() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    own = [like(additional_kwargs={"a": 2, "seed": 1}), known()]
    assert done.stdout.split() == [LlamaIndexModel(llm).cache_key for llm in own]
