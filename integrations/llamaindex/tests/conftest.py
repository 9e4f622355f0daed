"""Offline, deterministic parts of an application: LLMs, embeddings, retrievers."""

import asyncio
import gc
import hashlib
import json
import socket
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from pydantic import Field


class Broken(Exception):
    """What breaks in a test."""


class BrokenStore(ValueError):
    """What breaks where the framework goes on after a ``ValueError``."""


class ScriptedLLM(CustomLLM):
    """Replies by the first pattern that its prompt holds.

    The default is ``The answer.``
    """

    script: dict[str, str] = Field(default_factory=dict)
    fails: bool = False
    fails_after: int | None = None
    delay: float = 0.0

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted", context_window=8192, num_output=256)

    def _said(self, prompt: str) -> str:
        if self.fails:
            raise Broken("the model is down")
        return next(
            (reply for pattern, reply in self.script.items() if pattern in prompt),
            "The answer.",
        )

    def complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponse:
        return CompletionResponse(text=self._said(prompt))

    async def acomplete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponse:
        await asyncio.sleep(self.delay)
        return self.complete(prompt)

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> Any:
        text = self._said(prompt)

        def stream() -> Any:
            said = ""
            for number, word in enumerate(text.split(" ")):
                if self.fails_after is not None and number >= self.fails_after:
                    raise Broken("the stream broke")
                delta = word if not number else f" {word}"
                said += delta
                yield CompletionResponse(text=said, delta=delta)

        return stream()


class ToolLLM(FunctionCallingLLM):
    """Calls tools as told, one per turn, then says its last line."""

    calls: list[tuple[str, dict[str, Any]]] = Field(default_factory=list)
    last: str = "The agent's answer."

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            model_name="tool-caller", is_chat_model=True, is_function_calling_model=True
        )

    def _reply(self, messages: Any) -> ChatResponse:
        done = sum(message.role == MessageRole.TOOL for message in messages)
        if done < len(self.calls):
            name, arguments = self.calls[done]
            made = [
                {"id": f"call{done}", "name": name, "arguments": json.dumps(arguments)}
            ]
            message = ChatMessage(
                role=MessageRole.ASSISTANT,
                content="",
                additional_kwargs={"tool_calls": made},
            )
            return ChatResponse(message=message, delta="")
        return ChatResponse(
            message=ChatMessage(role=MessageRole.ASSISTANT, content=self.last),
            delta=self.last,
        )

    def _prepare_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        user = (
            [ChatMessage(role=MessageRole.USER, content=user_msg)]
            if isinstance(user_msg, str)
            else []
        )
        self_tools = [tool.metadata.get_parameters_dict() for tool in tools or ()]
        return {"messages": [*(chat_history or []), *user], "tool_schemas": self_tools}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        made = response.message.additional_kwargs.get("tool_calls", [])
        return [
            ToolSelection(
                tool_id=call["id"],
                tool_name=call["name"],
                tool_kwargs=json.loads(call["arguments"]),
            )
            for call in made
        ]

    def chat(self, messages: Any, **kwargs: Any) -> ChatResponse:
        return self._reply(messages)

    async def achat(self, messages: Any, **kwargs: Any) -> ChatResponse:
        return self._reply(messages)

    def stream_chat(self, messages: Any, **kwargs: Any) -> Any:
        return iter([self._reply(messages)])

    async def astream_chat(self, messages: Any, **kwargs: Any) -> Any:
        reply = self._reply(messages)

        async def stream() -> Any:
            yield reply

        return stream()

    def complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponse:
        return CompletionResponse(text=self.last)

    async def acomplete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponse:
        return CompletionResponse(text=self.last)

    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> Any:
        return iter([CompletionResponse(text=self.last, delta=self.last)])

    async def astream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> Any:
        raise NotImplementedError


class HashedWords(BaseEmbedding):
    """Embeds a text as counts of its hashed words."""

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * 256
        for word in text.lower().replace("?", " ").replace(".", " ").split():
            vector[int(hashlib.md5(word.encode()).hexdigest(), 16) % 256] += 1.0
        return vector

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._vector(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._vector(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._vector(text)


class FixedRetriever(BaseRetriever):
    """Returns the same nodes for every question, or those that a function gives."""

    def __init__(
        self,
        nodes: list[NodeWithScore] | Callable[[str], list[NodeWithScore]],
        *,
        fails: bool = False,
    ) -> None:
        self._nodes = nodes
        self._fails = fails
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self._fails:
            raise BrokenStore("the store is down")
        return (
            self._nodes(query_bundle.query_str)
            if callable(self._nodes)
            else list(self._nodes)
        )

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        await asyncio.sleep(0)
        return self._retrieve(query_bundle)


def node(
    id_: str, text: str, score: float | None = None, **fields: Any
) -> NodeWithScore:
    """A scored node."""
    return NodeWithScore(node=TextNode(id_=id_, text=text, **fields), score=score)


@pytest.fixture(scope="session")
def kit() -> ModuleType:
    """This module, for tests in other files."""
    return sys.modules[__name__]


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An LLM and embeddings of our own in ``Settings``, and no network."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a test must not open connections")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)
    monkeypatch.setattr(Settings, "_llm", ScriptedLLM())
    monkeypatch.setattr(Settings, "_embed_model", HashedWords())
    return Settings


@pytest.fixture(autouse=True)
def _no_loop() -> None:
    """No loop of the thread's own: the framework's sync calls would otherwise make one and never close it."""
    asyncio.set_event_loop(None)


@pytest.fixture
def databases_let_go() -> Any:
    """The framework's chat memory never closes its database: let go of it where the warning is expected."""
    # only what the test makes is looked through: all else takes half a second
    gc.freeze()
    yield
    gc.collect()
    gc.unfreeze()
